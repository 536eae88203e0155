//! Sizes and names as people read them.

use onnx_cast_file::__private::Printable;

/// Bytes as people read them: exact below 10 KiB.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 10 << 10 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A name for people: what cannot be printed is escaped.
pub fn printable(name: &str) -> String {
    if name.is_empty() { "(no name)".to_owned() } else { Printable(name).to_string() }
}

/// A shape for people, as `2x3`, or `scalar`.
pub fn shape(dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(usize::to_string).collect();
    if dims.is_empty() { "scalar".to_owned() } else { dims.join("x") }
}

/// The width of a column: that of its widest text, at least as much as its head, but not of one that is far too long,
/// which would fill every line with spaces.
pub fn column<T: AsRef<str>>(texts: impl IntoIterator<Item = T>, head: &str) -> usize {
    const MOST: usize = 100;
    let widest = texts.into_iter().map(|text| text.as_ref().chars().count()).max().unwrap_or(0);
    widest.min(MOST).max(head.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_never_wider_than_a_line_can_be() {
        assert_eq!(column(["a", "four"], "to"), 4);
        assert_eq!(column([""; 0], "tensor"), 6);
        assert_eq!(column([&"x".repeat(100_000)], "tensor"), 100);
        assert_eq!(column(["é".repeat(9)], "tensor"), 9);
    }

    #[test]
    fn sizes() {
        for (bytes, text) in [
            (0, "0 B"),
            (10_239, "10239 B"),
            (10_240, "10.0 KiB"),
            (90_868_373, "86.7 MiB"),
            (1 << 40, "1.0 TiB"),
            (u64::MAX, "16777216.0 TiB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }
}
