//! The writer of `.gguf` files in a build without it: an error.

use super::QuantizeRequest;
use crate::error::FileError;
use crate::summary::Summary;
use std::path::Path;

pub(super) fn quantize(_: &Path, output: &Path, _: &QuantizeRequest) -> Result<Summary, FileError> {
    let what = "what writes .gguf files is left out of this build (the command and the package for Python write them)";
    Err(FileError::request(output, what))
}
