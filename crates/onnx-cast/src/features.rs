//! Implementations of other crates' traits, each behind a feature named after the crate.

#[cfg(feature = "bytemuck")]
mod bytemuck;
#[cfg(feature = "half")]
mod half;
#[cfg(feature = "serde")]
mod serde;
