//! What can be wrong with a text that is to be a number.

use std::fmt;

/// A string that is not a number of the target type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// Not a decimal number (nor, for float types, `inf` or `nan`; for bool, `true` or `false`).
    NotANumber,
    /// A number outside the range of the integer type.
    OutOfRange,
    /// `inf` or `nan`, for an integer type.
    NotFinite,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::NotANumber => "is not a number",
            ParseError::OutOfRange => "is out of range",
            ParseError::NotFinite => "has no integer value",
        })
    }
}

impl std::error::Error for ParseError {}
