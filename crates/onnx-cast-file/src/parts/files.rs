//! Checkpoints that are quantized, dequantized or transcoded file by file, each by any process that sees the folders.
//! The process that plans checks everything but whether transcoded weights keep their values; those that write a file
//! open the headers of all, since scales may be in other files.

use crate::cast::shards::Shard;
use crate::dequantize::{self, DequantizeRequest};
use crate::error::FileError;
use crate::layouts::{Config, claim_of_folder};
use crate::quantize::{self, QuantizeRequest};
use crate::rewrite::{self, Rewrite};
use crate::transcode::{self, TranscodeRequest};
use std::path::Path;

/// A job that gives each file of a checkpoint a file. What a request says of counting and of what may be replaced is
/// not looked at.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FileJob<'a> {
    /// As [`dequantize_file`](crate::dequantize_file), of `.safetensors` files.
    Dequantize(&'a DequantizeRequest),
    /// As [`quantize_file`](crate::quantize_file), of `.safetensors` files.
    Quantize(&'a QuantizeRequest),
    /// As [`transcode_file`](crate::transcode_file). The process that writes a file compares its weights first.
    Transcode(&'a TranscodeRequest),
}

impl FileJob<'_> {
    /// Does something with the planned output.
    fn with<R>(
        self,
        input: &Path,
        output: &Path,
        is_verified: bool,
        run: impl FnOnce(Rewrite<'_>) -> Result<R, FileError>,
    ) -> Result<R, FileError> {
        let opened = rewrite::Opened { is_verified, ..rewrite::open(input, output)? };
        match self {
            FileJob::Dequantize(request) => {
                dequantize::check_targets(request)?;
                let config = Config::read(opened.checkpoint.folder(input), request.scheme)?;
                dequantize::plan(&opened, &config, request, run)
            }
            FileJob::Quantize(request) => {
                let claim = claim_of_folder(opened.checkpoint.folder(input));
                quantize::plan(&opened, claim, request, run)
            }
            FileJob::Transcode(request) => {
                let config = Config::read(opened.checkpoint.folder(input), request.scheme)?;
                transcode::plan(&opened, &config, request, run)
            }
        }
    }
}

/// The files of the output, and what is to become of each. All of it is checked, scales too, and nothing written.
///
/// # Errors
/// As [`dequantize_file`](crate::dequantize_file), [`quantize_file`](crate::quantize_file) and
/// [`transcode_file`](crate::transcode_file); but whether weights would change is for the process that writes them.
pub fn files(input: &Path, output: &Path, job: FileJob<'_>) -> Result<Vec<Shard>, FileError> {
    job.with(input, output, false, |rewrite| rewrite.shards())
}

/// Writes a file of a plan over one that is there under a temporary name, whatever it holds: always the same bytes, so
/// that it may be done again, or twice at once. [`name_whole`](super::name_whole) gives it its name. Of the formats
/// that need the greatest magnitude of a tensor first, the tensors of this file are read twice, and those of other
/// files that share a scale with them once.
///
/// # Errors
/// Where a file cannot be read or written, there is none under the temporary name, or a weight would change.
pub fn write_file(
    input: &Path,
    output: &Path,
    temporary: &Path,
    index: usize,
    job: FileJob<'_>,
) -> Result<(), FileError> {
    job.with(input, output, true, |rewrite| rewrite.write_one(index, temporary))
}

/// Whether a file of a plan is there already.
///
/// # Errors
/// Where the input cannot be read.
pub fn file_is_there(input: &Path, output: &Path, index: usize, job: FileJob<'_>) -> Result<bool, FileError> {
    job.with(input, output, true, |rewrite| rewrite.one_is_there(index))
}

/// Writes what stands beside the weights, when all files are there: the other files of a folder, the configuration, and
/// the index last. Returns how many other files were copied.
///
/// # Errors
/// Where a file cannot be read or written.
pub fn write_beside(input: &Path, output: &Path, job: FileJob<'_>) -> Result<usize, FileError> {
    job.with(input, output, true, |rewrite| rewrite.write_beside())
}
