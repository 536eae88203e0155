//! Protocol buffers, as far as ONNX needs them: the wire format, and the field numbers of ONNX's messages.
//!
//! This is written by hand and not generated. A weight of gigabytes must stay in its file ([`outline`]), and a
//! rewritten message must keep what it does not know byte for byte and in its place: both come for free from a reader
//! that walks over fields and gives each one's bytes. Of the generators, prost drops unknown fields and copies every
//! `bytes` field; buffa keeps them, but moves them to the end of their message, and its build needs the `protoc`
//! program or a committed descriptor. The wire format is five rules; decoding is bounded by the input since nothing is
//! allocated.

pub mod onnx;
pub mod outline;
pub mod wire;
