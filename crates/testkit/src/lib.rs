//! The exact oracle and the input generators.
//!
//! Nothing here is fast by being clever first: a value is `±integer * 2^exponent` (or a ratio of two big integers for
//! decimal text), a target type is the list of its values, and a cast picks the nearest one by exact comparison.
//! The quicker paths, [`Direct`] and [`Walker`], exist so that 2^32 values can be checked, and are themselves checked
//! against that definition. No code is shared with the library under test: the common language is ONNX's type numbers
//! and bit patterns.
#![forbid(unsafe_code)]

pub mod exact;
pub mod generators;
pub mod oracle;
pub mod packing;
pub mod strings;
pub mod types;
pub mod walker;

pub use oracle::{Direct, RoundMode, Rules, cast_bits};
pub use strings::{StringError, cast_from_string, cast_to_string};
pub use types::Ty;
pub use walker::Walker;
