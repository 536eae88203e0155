//! The ONNX operators Cast, CastLike and BitCast: every pair of element types, every bit right.
//!
//! - [`Cast`], [`CastLike`] and [`BitCast`] are the operators. [`CastOptions`] sets the opset, ONNX's attributes and
//!   the number of threads. They read a [`TensorView`] and write a new [`Tensor`] or the caller's buffer.
//! - [`cast_slice`] casts between Rust slices, [`cast_slice_packed`] casts a slice to packed bytes, and
//!   [`scalar::cast_one`] casts one element.
//! - [`Plan`] is a cast resolved for two types; it can be run many times.
//! - [`scaled`] has QuantizeLinear, DequantizeLinear and the block formats.
//! - [`DataType`] is the table of types. [`types`] has the elements of those that are not Rust primitives, such as
//!   [`Float16`](types::Float16), and what the formats of floats are.
//! - [`CastError`] is small; its [`kind`](CastError::kind) is for programs. [`ops`] has the kinds of all errors, and
//!   what ONNX says about the operators: versions, attributes, inference.
//! - [`backend`] chooses the instructions, [`packing`] packs and unpacks, and [`prelude`] has the usual names.
//!
//! Every conversion rounds once, from the exact source value. A result depends only on the value, the types, the opset
//! and the attributes. It does not depend on the processor, the instruction set, the position in the tensor or the
//! floating-point control register.
//!
//! ```
//! use onnx_cast::{Cast, CastOptions, DataType, RoundMode, Tensor};
//!
//! let scales = Tensor::from_slice(vec![3], &[1.0f64, 1.5, 3.0])?;
//! let options = CastOptions::new().round_mode(RoundMode::Down);
//! let powers = Cast::new(DataType::Float8E8M0, &options)?.run(&scales.view())?;
//! assert_eq!(powers.bytes(), Some(&[127, 127, 128][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! - `threads`, a default: large tensors are split over the current rayon pool. A forked child has a pool of its own
//!   for them.
//! - `std`, a default: the vector instructions of the machine are detected at run time. Without it the crate is
//!   `no_std`, needs `alloc` and atomics, and has the backends of the target features that the build enables.
//! - `libm`: for builds without `std`, which lack a multiplication and addition that rounds once.
//! - `half`: conversions between [`Float16`](types::Float16), [`BFloat16`](types::BFloat16) and the types of
//!   the crate `half`.
//! - `bytemuck`: `Pod`, `NoUninit` and `CheckedBitPattern` for the element types.
//! - `serde`: `Serialize` and `Deserialize` for [`DataType`], [`RoundMode`], the options and the element types.

#![cfg_attr(not(any(feature = "std", test)), no_std)]
#![cfg_attr(not(test), deny(clippy::too_many_lines))]

extern crate alloc;

#[cfg(not(any(feature = "std", feature = "libm")))]
compile_error!("onnx-cast needs the fused multiplication and addition of one of its features: `std` or `libm`");

mod arch;
mod element;
mod error;
mod features;
mod format;
#[cfg_attr(
    any(not(simd), test),
    allow(dead_code, reason = "the portable backend alone uses neither the store hint nor all of the tables")
)]
mod kernel;
pub mod ops;
mod packed;
pub mod packing;
mod parts;
#[cfg(threads)]
mod pool;
pub mod scalar;
pub mod tensor;

pub use element::DataType;
pub use ops::{
    BitCast, Cast, CastError, CastLike, CastOptions, NEWEST_OPSET, Plan, RoundMode, cast_slice, cast_slice_packed,
};
pub use tensor::{Tensor, TensorView};

/// Items that the other crates of this project share. They may change in any version.
#[doc(hidden)]
pub mod __private {
    pub use crate::element::nearest;
    pub use crate::error::{Count, Short};
    pub use crate::parts::{Divide, in_parts, parts_for};
    #[cfg(threads)]
    pub use crate::pool::{current_threads, with_threads};
    pub use crate::scalar::float_environment::{DefaultEnvironment, with_default as with_default_float_environment};
}

/// The names that most programs need: `use onnx_cast::prelude::*;`.
pub mod prelude {
    pub use crate::ops::{BitCast, Cast, CastError, CastLike, CastOptions, Plan, RoundMode, cast_slice};
    pub use crate::scaled::{
        BlockDequantize, BlockFormat, BlockQuantize, DequantizeLinear, DequantizeOptions, QuantizeLinear,
        QuantizeOptions,
    };
    pub use crate::tensor::{Strings, Tensor, TensorView};
    pub use crate::types::{
        BFloat16, DataType, Element, Float4E2M1, Float6E2M3, Float6E3M2, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2,
        Float8E5M2FNUZ, Float8E8M0, Float16, Int2, Int4, Uint2, Uint4,
    };
}

/// The element types: the table of them, the formats of floats, and Rust types for those that are not primitives.
pub mod types {
    pub use crate::element::newtypes::*;
    pub use crate::element::{DataType, Element, Interchange, Kind, TypeInfo, UnknownType, Word};
    pub use crate::format::{FloatFormat, Nan};
}

/// The operators with a scale, and blocks of elements that share one.
pub mod scaled {
    pub use crate::ops::scaled_names::*;
}

/// The sets of instructions that casts run with. The results are the same with all of them.
pub mod backend {
    pub use crate::arch::{Backend, UnknownBackend, VARIABLE, available};
    pub use crate::kernel::StoreHint;
    pub use crate::kernel::algorithm::{Algorithm, Hub};
}

/// The examples of the pages, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The page for runtime authors; its example is compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/runtime-authors.md")]
struct RuntimeAuthors;
