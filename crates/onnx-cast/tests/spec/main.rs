//! Does a cast obey the specification? Tests every row of the tables in ONNX's description of Cast and in its pages on
//! float8, float6, float4, int4 and int2, and every rule of `docs/semantics.md`. Each line is one case: from, value,
//! to, expected bits.
//!
//! A case runs at every operator version that supports both types and the attributes, unless its table names the
//! versions; through Cast and CastLike; on one element, and on enough copies to fill vectors and leave a tail.

mod bit_cast;
mod float;
mod float4_float6;
mod float8;
mod float8e8m0;
mod integer;
mod layout;
mod operators;
mod runner;
mod text;
