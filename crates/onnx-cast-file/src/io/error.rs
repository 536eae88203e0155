//! What the system refuses.

use crate::text::PathText;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// An operation on a file that the system refused.
#[derive(Debug, Error)]
#[error("{}: cannot {action}: {error}", PathText(path))]
#[non_exhaustive]
pub struct IoError {
    /// The file.
    pub path: PathBuf,
    /// What was tried: `open`, `read`, `write`, ...
    pub action: &'static str,
    /// What the system says.
    pub error: io::Error,
}

impl IoError {
    /// The refusal of an action on a file.
    pub fn new(path: &Path, action: &'static str, error: io::Error) -> IoError {
        IoError { path: path.to_owned(), action, error }
    }
}
