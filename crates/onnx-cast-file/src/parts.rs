//! A `.safetensors` checkpoint written in parts, by processes that share its folders: [`files`] plans, each file is
//! laid out under a temporary name ([`lay_out`]), its parts are written into it in any order ([`write_part`]), it gets
//! its name ([`name_whole`]), and the other files come last ([`write_side_files`]), the index behind all.
//!
//! A part always writes the same bytes to the same place, so that it may be done again, or twice at once. The files are
//! those of the job at once. The process that plans checks everything but whether transcoded weights keep their values;
//! those that write open the headers of all files, since scales may be in other ones. A file of a cast needs no other:
//! it may be a checkpoint by itself.

use crate::cast::CastJob;
use crate::dequantize::DequantizeRequest;
use crate::engine::{Opened, OutputPlan};
use crate::error::FileError;
use crate::formats::error::FormatError;
use crate::formats::format::Format;
use crate::io::atomic::AtomicFile;
use crate::io::links;
use crate::job::Job;
use crate::quantize::QuantizeRequest;
use crate::request::CastRequest;
use crate::transcode::TranscodeRequest;
use onnx_cast::__private::DefaultEnvironment;
use std::path::Path;

pub use crate::engine::{Part, Shard};

/// A job that gives each file of a checkpoint a file. What a request says of counting is not looked at.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FileJob<'a> {
    /// As [`cast_file`](crate::cast_file), of `.safetensors` files.
    Cast(&'a CastRequest),
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
        paths: [&Path; 2],
        is_checked: bool,
        run: impl FnOnce(OutputPlan<'_>) -> Result<R, FileError>,
    ) -> Result<R, FileError> {
        match self {
            FileJob::Cast(request) => {
                check_formats(paths)?;
                planned(&CastJob::new(request), paths, is_checked, run)
            }
            FileJob::Dequantize(request) => planned(request, paths, is_checked, run),
            FileJob::Quantize(request) => planned(request, paths, is_checked, run),
            FileJob::Transcode(request) => planned(request, paths, is_checked, run),
        }
    }
}

/// Refuses casts of single files in other formats.
fn check_formats([input, output]: [&Path; 2]) -> Result<(), FileError> {
    for (path, format) in [(input, Format::of_input(input)), (output, Format::from_path(output))] {
        if let Ok(format) = format
            && !matches!(format, Format::Safetensors | Format::Torch)
            && !path.is_dir()
        {
            return Err(FormatError::format(path, "a cast in parts", format, "it is for .safetensors").into());
        }
    }
    Ok(())
}

fn planned<R>(
    job: &impl Job,
    [input, output]: [&Path; 2],
    is_checked: bool,
    run: impl FnOnce(OutputPlan<'_>) -> Result<R, FileError>,
) -> Result<R, FileError> {
    job.check(input, output)?;
    let opened = Opened { is_checked, ..job.open(input, output)? };
    let mut plan = job.plan(&opened)?;
    plan.divide()?;
    run(plan)
}

/// The files of the output, and what is to become of each. All of it is checked, scales too, and nothing written.
///
/// # Errors
/// As the job at once; but whether transcoded weights would change is for the process that writes them.
pub fn files(input: &Path, output: &Path, job: FileJob<'_>) -> Result<Vec<Shard>, FileError> {
    let _environment = DefaultEnvironment::enter();
    job.with([input, output], false, |plan| plan.shards())
}

/// Makes the file that is to become one of the output, with its header and its length, under a temporary name in the
/// same folder, whatever is there.
///
/// # Errors
/// Where the input is not as it should be, or the file cannot be written.
pub fn lay_out(input: &Path, output: &Path, index: usize, temporary: &Path, job: FileJob<'_>) -> Result<(), FileError> {
    let _environment = DefaultEnvironment::enter();
    job.with([input, output], true, |plan| plan.lay_out(index, temporary))
}

/// Writes a part of a file into the file that was laid out for it. If there is only one part, it may also overwrite any
/// other existing file. If a format needs the amax of a tensor first, the tensors of this file are read twice. Tensors
/// of other files that share a scale with them are then read once.
///
/// # Errors
/// Where a file cannot be read or written, the temporary file is missing, it was laid out for another job, or
/// a weight would change.
pub fn write_part(
    input: &Path,
    output: &Path,
    index: usize,
    part: Part,
    temporary: &Path,
    job: FileJob<'_>,
) -> Result<(), FileError> {
    let _environment = DefaultEnvironment::enter();
    job.with([input, output], true, |plan| plan.write_part(index, part, temporary))
}

/// Whether a file holds already what a part of it would be; the first part answers for the header.
///
/// # Errors
/// Where the input cannot be read, or a file with other content is not replaced.
pub fn part_is_there(
    input: &Path,
    output: &Path,
    index: usize,
    part: Part,
    job: FileJob<'_>,
) -> Result<bool, FileError> {
    let _environment = DefaultEnvironment::enter();
    job.with([input, output], true, |plan| plan.part_is_there(index, part))
}

/// Gives a file whose parts are all written its name.
///
/// # Errors
/// Where it is not there, the disk is full, or the name is refused.
pub fn name_whole(temporary: &Path, output: &Path) -> Result<(), FileError> {
    links::check_write(output)?;
    Ok(AtomicFile::resume(output, temporary)?.commit()?)
}

/// Writes what else belongs to the checkpoint, when all files are there: the other files of a folder, the
/// configuration, and the index last. Returns how many other files were copied.
///
/// # Errors
/// Where a file cannot be read or written.
pub fn write_side_files(input: &Path, output: &Path, job: FileJob<'_>) -> Result<usize, FileError> {
    let _environment = DefaultEnvironment::enter();
    job.with([input, output], true, |plan| plan.write_side_files())
}
