//! Helpers shared by the error texts. Each error type is defined beside the code that raises it.
//!
//! Error texts are lower case, have no full stop, and name the expected value, so that a caller can prefix the name of
//! a tensor or a file.

use alloc::string::String;
use alloc::string::ToString;
use core::fmt;

/// Displays a shape: `2x3`, or `scalar`.
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

/// A caller's text for an error: unprintable characters are escaped, and only the first 64 characters are kept.
pub(crate) fn shorten(text: &str) -> String {
    const LIMIT: usize = 64;
    let mut out: String = text.chars().take(LIMIT).flat_map(char::escape_debug).collect();
    if text.chars().nth(LIMIT).is_some() {
        out.push_str("...");
    }
    out
}

/// Displays a type's name with its article: `a float`, `an int8`.
pub(crate) struct Article<T>(pub(crate) T);

impl<T: fmt::Display> fmt::Display for Article<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.to_string();
        // Every type name that starts with `u` starts with a consonant sound (`uint8`).
        let article = if name.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
        write!(f, "{article} {name}")
    }
}
