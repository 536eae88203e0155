//! The file formats: each read by one reader, over a source of bytes that may be a file or memory, and written.

pub mod checkpoint;
pub mod error;
pub(crate) mod folder;
pub mod format;
mod fortran;
pub mod gguf;
pub mod input;
pub(crate) mod limits;
pub mod npy;
pub mod npz;
pub mod output;
pub mod pb;
pub mod protobuf;
pub mod safetensors;
pub mod source;
pub mod tensor;

pub use error::FormatError;
pub use format::Format;
