//! The writer of `.gguf` files in a build without it: an error.

use super::QuantizeRequest;
use crate::error::FileError;
use crate::summary::Summary;
use std::path::Path;

pub(super) fn quantize(_: &Path, output: &Path, _: &QuantizeRequest) -> Result<Summary, FileError> {
    let what = "this build cannot write .gguf files (the command and the Python package can)";
    Err(FileError::request(output, what))
}
