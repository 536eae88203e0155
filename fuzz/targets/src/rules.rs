//! Rules and patterns for the names of tensors, and the names of types, of rounding modes and of losses.

use onnx_cast::{DataType, RoundMode};
use onnx_cast_file::{Loss, Pattern, Rule, Selection};

/// Lines of rules; behind a NUL, a line for each name that they are tried on.
pub fn rules(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (rules, names) = text.split_once('\0').unwrap_or((&text, "layer.0.weight\n\nä"));
    for line in rules.lines() {
        let _ = (line.parse::<Loss>(), line.parse::<RoundMode>());
        if let Ok(data_type) = line.parse::<DataType>() {
            assert_eq!(data_type.to_string().parse(), Ok(data_type), "a type's name");
        }
        if let Ok(pattern) = line.parse::<Pattern>() {
            assert_eq!(pattern.to_string().parse::<Pattern>().as_ref(), Ok(&pattern), "a pattern's text");
            if line.chars().all(|c| c.is_alphanumeric() || c == '.') {
                assert!(pattern.matches(line) && !pattern.matches(&format!("{line}x")), "a plain name matches itself");
            }
        }
    }
    let Ok(parsed) = Rule::parse_lines(rules) else { return };
    let selection = Selection { rules: parsed.clone(), ..Selection::new(DataType::Float16) };
    for name in names.lines() {
        // The last rule that matches decides, and without one, the types.
        let last = parsed.iter().rev().find(|rule| rule.pattern.matches(name));
        let want = last.map_or(Some(DataType::Float16), |rule| rule.to);
        assert_eq!(selection.target(name, DataType::Float, 7), want, "{name:?}");
    }
    // One rule a line gives what all the lines give.
    let lines = rules.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let one_by_one: Result<Vec<Rule>, _> = lines.map(str::parse).collect();
    assert_eq!(one_by_one.as_ref(), Ok(&parsed), "line by line");
}
