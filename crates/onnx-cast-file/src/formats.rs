//! The file formats: each read by one reader, over a source of bytes that may be a file or memory, and written.

pub(crate) mod checkpoint;
pub(crate) mod error;
pub(crate) mod existing;
pub(crate) mod folder;
pub(crate) mod foreign;
pub(crate) mod format;
pub(crate) mod gguf;
pub(crate) mod input;
pub(crate) mod limits;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod output;
pub mod pb;
pub(crate) mod protobuf;
pub mod safetensors;
pub(crate) mod source;
pub(crate) mod strided;
pub(crate) mod tensor;
pub(crate) mod torch;
