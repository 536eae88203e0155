//! The README says what the command does and what the library's table of types holds.

use crate::common::{done, run};
use onnx_cast::{DataType, Operator};
use std::path::Path;

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    std::fs::read_to_string(path).expect("the README")
}

#[test]
fn the_types_are_the_table() {
    let readme = readme();
    let rows: Vec<&str> = readme.lines().skip_while(|line| !line.starts_with("| type |")).skip(2).collect();
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    for (&data_type, row) in DataType::ALL.iter().zip(&rows) {
        let bits = number(data_type.bits().map(|bits| bits as u32));
        let mut want = format!("| {data_type} | {} | {bits} |", data_type.onnx());
        for operator in Operator::ALL {
            want += &format!(" {} |", number(operator.since(data_type)));
        }
        assert!(row.starts_with(&want), "{row}\n{want}");
    }
    assert!(!rows[DataType::ALL.len()].starts_with('|'), "{}", rows[DataType::ALL.len()]);
}

#[test]
fn the_explanation_is_what_is_printed() {
    let printed = done(&run("explain 0.3 --from float --to float8e4m3fn"));
    assert!(readme().contains(&format!("```text\n{printed}```\n")), "{printed}");
}
