//! Implementations of other crates' traits, each behind a feature named after the crate. Those of every element newtype
//! are beside its declaration, in `element/bytemuck_traits.rs` and `element/serde_traits.rs`.

#[cfg(feature = "half")]
mod half;
#[cfg(feature = "serde")]
mod serde;
