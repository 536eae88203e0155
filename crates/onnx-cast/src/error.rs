//! Words for error texts. Each error stands beside the code that raises it; this is what their texts share.
//!
//! Error texts are lower case, without a full stop, and name what was expected, so that a caller can put the name of a
//! tensor or a file in front.

use std::fmt;

/// A shape as people read it: `2x3`, or `scalar`.
pub(crate) struct ShapeText<'a>(pub(crate) &'a [usize]);

impl fmt::Display for ShapeText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("scalar");
        }
        for (i, dim) in self.0.iter().enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { "x" })?;
        }
        Ok(())
    }
}

/// Quotes a caller's text in an error: unprintable characters are escaped, and only the first 64 characters are kept.
pub(crate) fn shorten(text: &str) -> String {
    const LIMIT: usize = 64;
    let mut out: String = text.chars().take(LIMIT).flat_map(char::escape_debug).collect();
    if text.chars().nth(LIMIT).is_some() {
        out.push_str("...");
    }
    out
}

/// A type's name behind its article: `a float`, `an int8`.
pub(crate) struct Article<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Article<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.to_string();
        // `u` is spoken as a consonant in every name that starts with it (`uint8`).
        let article = if name.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
        write!(f, "{article} {name}")
    }
}
