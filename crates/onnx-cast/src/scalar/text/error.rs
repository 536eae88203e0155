//! The errors of reading a number from text.

use core::fmt;

/// An error of reading a number of the target type from a string.
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

impl core::error::Error for ParseError {}
