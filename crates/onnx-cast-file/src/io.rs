//! Files as bytes: read at any place, written all at once or not at all; and how far the work is.

#[cfg_attr(all(target_family = "wasm", target_os = "unknown"), path = "io/atomic_host.rs")]
pub(crate) mod atomic;
pub(crate) mod error;
pub mod fs;
pub mod links;
pub(crate) mod lock;
pub mod memory;
pub(crate) mod positional;
pub(crate) mod progress;

pub use atomic::{AtomicFile, end_without_traces};
pub use error::IoError;
pub use lock::FolderLock;
pub use memory::room_for_a_thread;
pub use positional::{InputFile, is_stream};
pub use progress::Watch;
