//! An execution provider for onnxruntime: it takes ONNX's Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear and
//! DynamicQuantizeLinear nodes of a model as they are, and runs them with the library.
//!
//! onnxruntime loads it as a plugin (`factory.rs`), once for each session asks which nodes of each graph it claims
//! (`claims.rs`, by what `stock.rs` knows of onnxruntime's own kernels, or by what a newer release answers to
//! `probe.rs`), has it compile each group of nodes (`compile.rs`; a chain of Casts is one group), and then runs the
//! groups (`compute.rs`). Nodes are read in `node.rs`, through the tables of functions in `host.rs`, which `abi.rs`
//! declares.

mod abi;
mod claims;
mod compile;
mod compute;
mod factory;
mod group;
mod host;
mod node;
mod probe;
mod session;
mod stock;

pub(crate) use factory::create;
pub(crate) use host::Host;
