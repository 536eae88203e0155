//! Text of inputs in errors: names, shapes.

use std::fmt;

/// ``tensor `w1`: ``, or nothing where the tensor has no name.
pub struct TensorText<'a>(pub &'a str);

impl fmt::Display for TensorText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "tensor `{}`: ", Short(self.0)) }
    }
}

/// Text of the file's in an error: what cannot be printed is escaped, and past 64 characters it is cut.
pub struct Short<'a>(pub &'a str);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LIMIT: usize = 64;
        for c in self.0.chars().take(LIMIT).flat_map(char::escape_debug) {
            write!(f, "{c}")?;
        }
        if self.0.chars().nth(LIMIT).is_some() { f.write_str("...") } else { Ok(()) }
    }
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
