//! Implementations of other crates' traits, each behind the feature of the crate's name.

#[cfg(feature = "bytemuck")]
mod bytemuck;
#[cfg(feature = "half")]
mod half;
#[cfg(feature = "serde")]
mod serde;
