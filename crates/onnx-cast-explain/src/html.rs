//! What the pages of this crate and of `onnx-cast-report` share.

/// Colours for light and dark, and what every page has.
pub const BASE_STYLE: &str = include_str!("base.css");

/// A page with texts in place of marks, which stand in it in this order.
pub fn fill(page: &str, parts: &[(&str, &str)]) -> String {
    // Piece by piece: a mark that a text contains is not replaced.
    let mut filled = String::new();
    let mut rest = page;
    for (mark, text) in parts {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        filled += before;
        filled += text;
        rest = after;
    }
    filled + rest
}
