//! The ONNX operators Cast, CastLike and BitCast: every pair of element types, every bit right.
//!
//! - [`Cast`], [`CastLike`] and [`BitCast`] are the operators. [`CastOptions`] sets the opset, ONNX's attributes and
//!   the number of threads. They read a [`TensorView`] and write a new [`Tensor`] or the caller's buffer.
//! - [`cast_slice`] casts between Rust slices, [`cast_slice_packed`] casts a slice to packed bytes, and
//!   [`scalar::cast_one`] casts one element.
//! - [`Plan`] is a cast resolved for two types; it can be run many times.
//! - [`DataType`] is the table of types. [`Float16`], [`BFloat16`], [`Float8E4M3FN`] and the other newtypes are the
//!   elements of types that are not Rust primitives.
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
//! - `threads`, a default: large tensors are split over the current rayon pool. A forked child has a pool of its own for
//!   them.
//! - `std`, a default: the machine is asked for its vector instructions. Without it the crate is `no_std`, needs `alloc`
//!   and atomics, and has the backends of the target features that the build enables.
//! - `libm`: for builds without `std`, which lack a multiplication and addition that rounds once.
//! - `half`: conversions between [`Float16`], [`BFloat16`] and the types of the crate `half`.
//! - `bytemuck`: `Pod`, `NoUninit` and `CheckedBitPattern` for the element types.
//! - `serde`: `Serialize` and `Deserialize` for [`DataType`], [`RoundMode`], the options and the element types.

#![cfg_attr(not(any(feature = "std", test)), no_std)]

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
#[cfg(threads)]
mod pool;
pub mod scalar;
mod tensor;
mod unpacked;

pub use arch::{BACKEND_VARIABLE, Backend, UnknownBackend, available as available_backends};
#[doc(hidden)]
pub use element::Interchange;
pub use element::newtypes::*;
pub use element::{DataType, Element, Kind, TypeInfo, UnknownType, Word};
pub use format::{FloatFormat, Nan};
pub use kernel::StoreHint;
pub use ops::{
    BitCast, BlockDequantize, BlockFormat, BlockPlan, BlockQuantize, BlockScaled, BoundScaledPlan, Cast, CastError,
    CastLike, CastOptions, DequantizeLinear, DequantizeOptions, DynamicQuantizeLinear, GlobalScale, LinearScale,
    LinearlyScaled, NEWEST_OPSET, OpError, Operator, Plan, QuantizeLinear, QuantizeOptions, Recipe, ScaleRule,
    ScaledPlan, SymmetricScale, UnknownFormat, cast_slice, cast_slice_packed, greatest_magnitude, greatest_magnitudes,
};
#[cfg(threads)]
#[doc(hidden)]
pub use pool::with_threads;
pub use scalar::text::ParseError;
pub use scalar::{RoundMode, UnknownRoundMode};
pub use tensor::{Data, Strings, StringsView, Tensor, TensorData, TensorError, TensorView, element_count};
pub use unpacked::{PackError, clear_padding, pack, unpack};

/// The examples of the pages, compiled and run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The page for runtime authors; its example is compiled and run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/runtime-authors.md")]
struct RuntimeAuthors;
