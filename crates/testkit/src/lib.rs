//! The exact oracle, the input generators, and other code that tests share.
//!
//! Nothing here is fast by being clever first: a value is `±integer * 2^exponent` (or a ratio of two big integers for
//! decimal text), a target type is the list of its values, and a cast picks the nearest one by exact comparison.
//! The quicker paths, [`Direct`] and [`Walker`], exist so that 2^32 values can be checked, and are themselves checked
//! against that definition. The oracle shares no code with the library under test: the common language is ONNX's type
//! numbers and bit patterns. Only the module `library` and the program `prove`, behind the feature of that name, use the
//! library, and a test reads the imports to prove it.
//!
//! ```
//! use testkit::{Rules, Ty, Walker, cast_bits, packing};
//!
//! // One element: 0.1 to float16.
//! assert_eq!(cast_bits(Ty::Float, Ty::Float16, 0x3dcc_cccd, &Rules::default()), 0x2e66);
//!
//! // Every value of a narrow type, as the bytes of a tensor, and what each setting must make of them.
//! let elements = testkit::generators::every(Ty::Float8E5M2);
//! let _source = packing::pack(Ty::Float8E5M2, &elements);
//! for rules in Rules::distinct(Ty::Float8E5M2, Ty::Float4E2M1) {
//!     let results: Vec<u64> =
//!         elements.iter().map(|&bits| cast_bits(Ty::Float8E5M2, Ty::Float4E2M1, bits, &rules)).collect();
//!     let _expected = packing::pack(Ty::Float4E2M1, &results);
//! }
//!
//! // A wide type, piece by piece in the order of its bit patterns.
//! let mut walker = Walker::new(Ty::Float, Ty::Float8E4M3FN, &Rules::default());
//! let mut expected = Vec::new();
//! walker.fill_packed(0x3f80_0000, 1 << 16, &mut expected);
//! assert_eq!(expected[0], 0x38);
//! ```
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

pub mod block_scale;
#[cfg(feature = "checkpoints")]
pub mod checkpoints;
mod dyadic;
pub mod exact;
pub mod fixtures;
pub mod generators;
// The unit tests do without it: it takes longer to compile than all else here.
#[cfg(all(feature = "library", not(test)))]
pub mod library;
pub mod naive;
pub mod oracle;
pub mod packing;
pub mod proto;
pub mod scaled;
pub mod strings;
pub mod types;
pub mod walker;

pub use oracle::{Direct, RoundMode, Rules, cast_bits};
pub use strings::{StringError, cast_from_string, cast_to_string};
pub use types::Ty;
pub use walker::Walker;
