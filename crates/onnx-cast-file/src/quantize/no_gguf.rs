//! The writer of `.gguf` files in a build without it: an error.

use super::QuantizeRequest;
use crate::engine::{Opened, OutputPlan};
use crate::error::FileError;
use std::path::Path;

pub(super) fn open(_: &Path, output: &Path, _: &QuantizeRequest) -> Result<Opened, FileError> {
    Err(refusal(output))
}

pub(super) fn plan<'a>(opened: &'a Opened, _: &'a QuantizeRequest) -> Result<OutputPlan<'a>, FileError> {
    Err(refusal(opened.path()))
}

fn refusal(path: &Path) -> FileError {
    FileError::request(path, "this build cannot write .gguf files (the command and the Python package can)")
}
