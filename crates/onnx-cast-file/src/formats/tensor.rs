//! One tensor in memory, from and to a file of any format that holds one.

use crate::formats::error::FormatError;
use crate::formats::format::Format;
use crate::formats::input::{Given, Input};
use crate::formats::output::{Output, WriteOptions};
use crate::formats::source::NamedTensor;
use crate::io::atomic::AtomicFile;
use onnx_cast::{DataType, TensorError, TensorView};
use std::path::Path;

/// Reads the tensor of a `.pb`, `.npy` or `.safetensors` file that holds one.
///
/// # Errors
/// Where the file cannot be read, is not valid, or holds not exactly one tensor.
pub fn read_tensor(path: impl AsRef<Path>) -> Result<NamedTensor, FormatError> {
    read_tensor_as(path, None)
}

/// As [`read_tensor`], with the element type of a `.npy` file that does not tell it: see [`crate::npy`].
///
/// # Errors
/// As [`read_tensor`], and where the file tells another type.
pub fn read_tensor_as(path: impl AsRef<Path>, from: Option<DataType>) -> Result<NamedTensor, FormatError> {
    let path = path.as_ref();
    let format = Format::from_path(path)?;
    let source =
        Input::open(path, Some(format), &Given { from, shape: None })?.single("reading one tensor", from)?.take(0)?;
    let too_large = |error: TensorError| FormatError::cast(path, "", error.into());
    source.into_named().map_err(too_large)
}

/// Writes a tensor to a file, which appears only when it is complete. A `.safetensors` file needs a name.
///
/// # Errors
/// Where the format does not hold the type, or the file cannot be written.
pub fn write_tensor(
    path: impl AsRef<Path>,
    format: Format,
    name: &str,
    tensor: TensorView<'_>,
    options: &WriteOptions,
) -> Result<(), FormatError> {
    let path = path.as_ref();
    let mut file = AtomicFile::create(path)?;
    Output { path, format, options }.write(&mut file, name, &tensor)?;
    Ok(file.commit()?)
}
