//! One tensor in memory, from and to a file of any format that holds one.

use crate::formats::error::FormatError;
use crate::formats::existing::Existing;
use crate::formats::format::Format;
use crate::formats::input::{Given, Input};
use crate::formats::output::{Output, WriteOptions};
use crate::formats::source::NamedTensor;
use crate::io::atomic::AtomicFile;
use crate::io::positional::InputFile;
use crate::selection::SourceType;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::{DataType, TensorView};
use std::io::Write;
use std::path::Path;

/// Reads the tensor of a `.pb`, `.npy` or `.safetensors` file that holds one.
///
/// # Errors
/// Where the file cannot be read, is not valid, or holds not exactly one tensor.
pub fn read_tensor(path: impl AsRef<Path>) -> Result<NamedTensor, FormatError> {
    let _environment = DefaultEnvironment::enter();
    read_tensor_as(path, None)
}

/// As [`read_tensor`], with the element type of a `.npy` file that does not tell it (`V1`, `u1`, `u2`).
///
/// # Errors
/// As [`read_tensor`], and where the file tells another type.
pub fn read_tensor_as(path: impl AsRef<Path>, from: Option<DataType>) -> Result<NamedTensor, FormatError> {
    let _environment = DefaultEnvironment::enter();
    let path = path.as_ref();
    let format = Format::of_input(path)?;
    read_tensor_from(InputFile::open(path)?, format, from)
}

/// As [`read_tensor_as`], of a file that is open, or of bytes instead of one ([`InputFile::other`]).
///
/// # Errors
/// As [`read_tensor_as`].
pub fn read_tensor_from(file: InputFile, format: Format, from: Option<DataType>) -> Result<NamedTensor, FormatError> {
    let _environment = DefaultEnvironment::enter();
    let from = from.map(SourceType::from);
    let input = Input::of(file, Some(format), &Given { from: from.as_slice(), shape: None })?;
    take(&mut input.single("reading one tensor", from.as_slice())?, 0)
}

/// Every tensor of a file that may hold any number, in the order of the file.
///
/// # Errors
/// As [`read_tensor_as`].
pub fn read_tensors_from(
    file: InputFile,
    format: Format,
    from: Option<DataType>,
) -> Result<Vec<NamedTensor>, FormatError> {
    let _environment = DefaultEnvironment::enter();
    let from = from.map(SourceType::from);
    let mut input = Input::of(file, Some(format), &Given { from: from.as_slice(), shape: None })?;
    (0..input.tensors.len()).map(|index| take(&mut input, index)).collect()
}

fn take(input: &mut Input, index: usize) -> Result<NamedTensor, FormatError> {
    input.take(index)?.into_named().map_err(|error| input.cast_error("", error.into()))
}

/// Writes a tensor to a file, which appears only when it is complete. A `.safetensors` file needs a name.
///
/// # Errors
/// Where the format does not hold the type, the file exists and is not to be replaced, or it cannot be written.
pub fn write_tensor(
    path: impl AsRef<Path>,
    format: Format,
    name: &str,
    tensor: TensorView<'_>,
    options: &WriteOptions,
) -> Result<(), FormatError> {
    let _environment = DefaultEnvironment::enter();
    let path = path.as_ref();
    let existing = Existing::new(options.force);
    existing.check_file(path)?;
    let mut file = AtomicFile::create(path, existing.replaces())?;
    put_tensor(&mut file, path, format, name, tensor, options)?;
    Ok(file.commit()?)
}

/// As [`write_tensor`], to a writer. Errors name it by `path`.
///
/// # Errors
/// As [`write_tensor`].
pub fn put_tensor(
    out: &mut dyn Write,
    path: &Path,
    format: Format,
    name: &str,
    tensor: TensorView<'_>,
    options: &WriteOptions,
) -> Result<(), FormatError> {
    let _environment = DefaultEnvironment::enter();
    Output { path, format, options }.write(out, name, &tensor, None)
}
