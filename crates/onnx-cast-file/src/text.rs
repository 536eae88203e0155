//! Text of inputs as it is printed: names, paths, shapes. What would move a terminal's cursor, or cannot be seen, is
//! escaped here, and nowhere else.

pub(crate) use onnx_cast::__private::Count;
pub use onnx_cast::__private::Short;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::Path;

/// Text of a file's, or of a path, in full.
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| put(f, c))
    }
}

fn put(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    match c {
        // Plain to see, and at home in paths.
        '\'' | '"' | '\\' => f.write_char(c),
        _ => write!(f, "{}", c.escape_debug()),
    }
}

/// A path.
pub struct PathText<'a>(pub &'a Path);

impl fmt::Display for PathText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(&self.0.to_string_lossy()).fmt(f)
    }
}

/// Several lines whose parts were escaped where they are put together: a control character that is left is escaped.
pub struct Lines<'a>(pub &'a str);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| if c.is_control() && c != '\n' { put(f, c) } else { f.write_char(c) })
    }
}

/// ``tensor `w1`: ``, or nothing where the tensor has no name.
pub struct TensorText<'a>(pub &'a str);

impl fmt::Display for TensorText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "tensor `{}`: ", Short(self.0)) }
    }
}

/// A text that may name fields of requests. Each is kept apart, so that a front end can show its own name for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wording {
    start: String,
    /// Fields, by their names in Rust, each with the text that follows it.
    fields: Vec<(&'static str, String)>,
}

impl Wording {
    /// The text before the first field.
    pub(crate) fn start(&self) -> &str {
        &self.start
    }

    /// The same text, with a field and what follows it.
    pub fn field(mut self, name: &'static str, text: impl Into<String>) -> Wording {
        self.fields.push((name, text.into()));
        self
    }

    /// The same text, followed by another.
    pub fn then(mut self, text: &str) -> Wording {
        self.fields.last_mut().map_or(&mut self.start, |(_, end)| end).push_str(text);
        self
    }

    /// The same text, behind another.
    pub fn after(&self, text: impl fmt::Display) -> Wording {
        Wording { start: format!("{text}{}", self.start), fields: self.fields.clone() }
    }

    /// The same text, with another field in place of one.
    pub(crate) fn renamed(mut self, from: &str, to: &'static str) -> Wording {
        self.fields.iter_mut().filter(|(field, _)| *field == from).for_each(|(field, _)| *field = to);
        self
    }

    /// The text, with a front end's names for fields.
    pub fn with(&self, name: impl Fn(&'static str) -> String) -> String {
        let fields = self.fields.iter().map(|(field, text)| name(field) + text);
        self.start.clone() + &fields.collect::<String>()
    }
}

impl<T: Into<String>> From<T> for Wording {
    fn from(text: T) -> Wording {
        Wording { start: text.into(), fields: Vec::new() }
    }
}

impl fmt::Display for Wording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with(|field| format!("`{field}`")))
    }
}

/// Names with reasons, as ``\`w1\` (a reason)``; cut past three.
pub fn named(all: &[(String, String)]) -> String {
    const LIMIT: usize = 3;
    let mut text = String::new();
    for (index, (name, reason)) in all.iter().take(LIMIT).enumerate() {
        text += &format!("{}`{}` ({reason})", if index == 0 { "" } else { ", " }, Short(name));
    }
    if all.len() > LIMIT {
        text += &format!(", and {} more", all.len() - LIMIT);
    }
    text
}

/// Reasons, each with how often it is given: `router (2), embedding (1)`.
pub fn counted<'r>(reasons: impl Iterator<Item = &'r str>) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    reasons.for_each(|reason| *counts.entry(reason).or_default() += 1);
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(reason, count)| format!("{reason} ({count})")).collect::<Vec<_>>().join(", ")
}

/// A shape as people read it: `2x3`, or `scalar`; cut past 16 dimensions.
pub struct ShapeText<'a, T>(pub &'a [T]);

impl<T: fmt::Display> fmt::Display for ShapeText<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LIMIT: usize = 16;
        if self.0.is_empty() {
            return f.write_str("scalar");
        }
        for (i, dim) in self.0.iter().take(LIMIT).enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { "x" })?;
        }
        if self.0.len() > LIMIT { f.write_str("x...") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_escaped() {
        for (text, want) in [
            ("it's \"C:\\x\".npy", "it's \"C:\\x\".npy"),
            ("é 日本", "é 日本"),
            ("\u{1b}[31mred\r\n", "\\u{1b}[31mred\\r\\n"),
            ("a\u{202e}b\u{9b}c\u{7f}", "a\\u{202e}b\\u{9b}c\\u{7f}"),
        ] {
            assert_eq!(Printable(text).to_string(), want);
            assert_eq!(PathText(Path::new(text)).to_string(), want);
            assert_eq!(Short(text).to_string(), want);
        }
        assert_eq!(Lines("a\n\u{1b}b\t").to_string(), "a\n\\u{1b}b\\t");
    }
}
