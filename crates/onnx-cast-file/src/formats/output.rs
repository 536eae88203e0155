//! One tensor, or the frame of one, in the format of an output.

use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::existing::Existing;
use crate::formats::format::{Format, GGUF_WRITER, TORCH_WRITER};
use crate::formats::npy;
use crate::formats::pb::{self, OtherFields};
use crate::formats::safetensors;
use crate::io::atomic::{AtomicFile, folder_of};
use crate::io::fs;
use crate::io::memory::zeros;
use crate::io::positional::is_stream;
use onnx_cast::packing::unpack;
use onnx_cast::tensor::StringsView;
use onnx_cast::{DataType, TensorView};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

request! {
    /// How to write.
    #[derive(Copy, Default, PartialEq, Eq)]
    pub struct WriteOptions {
        /// In `.npy`, write types that numpy has no name for as the unsigned integers of their bits, `<u2`
        /// and `|u1`, in place of `<V2` and `<V1`.
        pub npy_plain: bool,
        /// Replace an output that exists, or a folder that is not empty: see [`Existing`](crate::Existing).
        pub force: bool,
    }
}

/// Where a tensor goes.
pub(crate) struct Output<'a> {
    pub(crate) path: &'a Path,
    pub(crate) format: Format,
    pub(crate) options: &'a WriteOptions,
}

impl Output<'_> {
    /// What is wrong with the output.
    pub(crate) fn invalid(&self, error: Invalid) -> FormatError {
        FormatError::invalid(self.path, error)
    }

    /// What stands before and behind the elements of a tensor of any type but string.
    pub(crate) fn frame(
        &self,
        name: &str,
        data_type: DataType,
        shape: &[usize],
        len: u64,
        message: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Vec<u8>), FormatError> {
        let head = match self.format {
            Format::TensorProto => {
                let frame = self.tensor_proto(name, shape, message)?;
                return pb::raw_message(frame, data_type, len).map_err(|error| self.invalid(error.of_tensor(name)));
            }
            Format::Npy => self.npy_header(data_type, shape)?,
            Format::Raw => Vec::new(),
            Format::Safetensors if name.is_empty() => {
                let what = "a tensor in a .safetensors file needs a name";
                return Err(self.invalid(Invalid::new(InvalidKind::Name, what)));
            }
            Format::Safetensors => {
                safetensors::header(None, &[(name, data_type, shape)]).map_err(|error| self.invalid(error))?
            }
            Format::Onnx | Format::Npz | Format::Gguf | Format::Torch => return Err(self.not_one()),
        };
        Ok((head, Vec::new()))
    }

    /// What stands before the elements of an array.
    pub(crate) fn npy_header(&self, data_type: DataType, shape: &[usize]) -> Result<Vec<u8>, FormatError> {
        npy::header(data_type, shape, self.options.npy_plain).map_err(|error| self.invalid(error))
    }

    fn tensor_proto<'m>(
        &self,
        name: &str,
        shape: &[usize],
        message: Option<&'m [u8]>,
    ) -> Result<OtherFields<'m>, FormatError> {
        match message {
            Some(message) => {
                OtherFields::of(message).map_err(|error| self.invalid(Invalid::from(error).of_tensor(name)))
            }
            None => Ok(OtherFields::new(name, shape)),
        }
    }

    /// Starts the file.
    pub(crate) fn create(&self, existing: Existing) -> Result<AtomicFile, FormatError> {
        Ok(AtomicFile::create(self.path, existing.replaces())?)
    }

    /// Where temporary files have the room that the output will take: its folder, or where that is missing, the one that
    /// it will be in.
    pub(crate) fn folder(&self) -> PathBuf {
        let mut folders = folder_of(self.path).ancestors().filter(|_| !is_stream(self.path));
        folders.find(|folder| fs::is_dir(folder)).map_or_else(fs::temp_dir, Path::to_owned)
    }

    /// Writes an array of strings as numpy has them.
    pub(crate) fn write_strings(
        &self,
        out: &mut dyn Write,
        name: &str,
        shape: &[usize],
        strings: StringsView<'_>,
    ) -> Result<(), FormatError> {
        let failed = |error| FormatError::io(self.path, "write", error);
        let width = npy::string_width(name, strings).map_err(|error| self.invalid(error))?;
        let header = npy::string_header(width, shape).map_err(|error| self.invalid(error))?;
        out.write_all(&header).map_err(failed)?;
        let mut item = Vec::with_capacity(4 * width);
        for string in strings.iter() {
            item.clear();
            npy::put_string(&mut item, string, width);
            out.write_all(&item).map_err(failed)?;
        }
        Ok(())
    }

    fn not_one(&self) -> FormatError {
        let hint = match self.format {
            Format::Onnx => "it is for models",
            Format::Gguf => GGUF_WRITER,
            Format::Torch => TORCH_WRITER,
            _ => "it is for several",
        };
        FormatError::format(self.path, "writing one tensor", self.format, hint)
    }

    /// Whether elements narrower than a byte stand one to a byte.
    pub(crate) fn unpacks(&self) -> bool {
        matches!(self.format, Format::Npy | Format::Npz)
    }

    /// Writes a tensor; `message` is a TensorProto whose other fields are kept.
    pub(crate) fn write(
        &self,
        out: &mut dyn Write,
        name: &str,
        view: &TensorView<'_>,
        message: Option<&[u8]>,
    ) -> Result<(), FormatError> {
        let failed = |error| FormatError::io(self.path, "write", error);
        match view.as_strings() {
            None => {
                let bytes = view.bytes().unwrap_or_default();
                let (head, tail) = self.frame(name, view.data_type(), view.shape(), bytes.len() as u64, message)?;
                out.write_all(&head).map_err(failed)?;
                if self.unpacks() && view.data_type().is_packed() {
                    write_unpacked(out, view.data_type(), bytes, view.len()).map_err(failed)?;
                } else {
                    out.write_all(bytes).map_err(failed)?;
                }
                out.write_all(&tail).map_err(failed)
            }
            Some(strings) => match self.format {
                Format::TensorProto => {
                    let frame = self.tensor_proto(name, view.shape(), message)?;
                    let message = pb::string_message(frame, strings.iter());
                    pb::check_size(name, message.len() as u64).map_err(|error| self.invalid(error))?;
                    out.write_all(&message).map_err(failed)
                }
                Format::Npy => self.write_strings(out, name, view.shape(), strings),
                Format::Raw => Err(FormatError::format(self.path, "writing strings", self.format, "")),
                Format::Safetensors => Err(self.invalid(safetensors::no_name(name, DataType::String))),
                Format::Onnx | Format::Npz | Format::Gguf | Format::Torch => Err(self.not_one()),
            },
        }
    }
}

/// Elements that are unpacked at a time: a multiple of 8, so that packed ones are whole bytes.
const CHUNK: usize = 1 << 17;

/// Writes `len` packed elements one to a byte.
fn write_unpacked(out: &mut dyn Write, data_type: DataType, bytes: &[u8], len: usize) -> io::Result<()> {
    let mut elements = zeros(CHUNK.min(len)).ok_or(io::ErrorKind::OutOfMemory)?;
    let per_chunk = data_type.byte_len(CHUNK).unwrap_or(CHUNK);
    for (i, packed) in bytes.chunks(per_chunk).enumerate() {
        elements.truncate(len - i * CHUNK);
        unpack(data_type, packed, &mut elements).map_err(io::Error::other)?;
        out.write_all(&elements)?;
    }
    Ok(())
}
