//! One tensor, or the frame of one, in the format of an output.

use crate::atomic::AtomicFile;
use crate::error::FileError;
use crate::format::Format;
use crate::pb::{self, Frame, PbError, PbProblem};
use crate::safetensors::{self, SafetensorsError};
use crate::source::zeros;
use crate::tensor::WriteOptions;
use crate::{npy, npy::NpyError};
use onnx_cast::{Data, DataType, TensorView, unpack};
use std::io::{self, Write};
use std::path::Path;

/// Where a tensor goes.
pub(crate) struct Output<'a> {
    pub(crate) path: &'a Path,
    pub(crate) format: Format,
    pub(crate) options: &'a WriteOptions,
}

impl Output<'_> {
    pub(crate) fn safetensors_error(&self, error: SafetensorsError) -> FileError {
        FileError::safetensors(self.path, error)
    }

    fn npy_error(&self, error: NpyError) -> FileError {
        FileError::npy(self.path, error)
    }

    fn pb_error(&self, tensor: &str, problem: PbProblem) -> FileError {
        FileError::pb(self.path, PbError { tensor: tensor.to_owned(), problem })
    }

    /// What stands before and behind the elements of a tensor of any type but string.
    pub(crate) fn frame(
        &self,
        name: &str,
        data_type: DataType,
        shape: &[usize],
        len: u64,
        message: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Vec<u8>), FileError> {
        let head = match self.format {
            Format::TensorProto => {
                let frame = self.tensor_proto(name, shape, message)?;
                return pb::raw_message(frame, data_type, len).map_err(|problem| self.pb_error(name, problem));
            }
            Format::Npy => npy::header(data_type, shape, self.options.npy_plain),
            Format::Safetensors if name.is_empty() => return Err(self.safetensors_error(SafetensorsError::Unnamed)),
            Format::Safetensors => {
                safetensors::header(None, &[(name, data_type, shape)]).map_err(|error| self.safetensors_error(error))?
            }
            Format::Onnx => return Err(self.no_model()),
        };
        Ok((head, Vec::new()))
    }

    fn tensor_proto<'m>(&self, name: &str, shape: &[usize], message: Option<&'m [u8]>) -> Result<Frame<'m>, FileError> {
        match message {
            Some(message) => Frame::of(message).map_err(|error| self.pb_error(name, PbProblem::Wire { error })),
            None => Ok(Frame::new(name, shape)),
        }
    }

    fn no_model(&self) -> FileError {
        let (what, hint) = ("writing one tensor", "it is for models");
        FileError::Format { path: self.path.to_owned(), what, format: self.format, hint }
    }

    /// Whether elements narrower than a byte stand one to a byte.
    pub(crate) fn unpacks(&self) -> bool {
        self.format == Format::Npy
    }

    /// Writes a tensor as it is.
    pub(crate) fn write(&self, out: &mut AtomicFile, name: &str, view: &TensorView<'_>) -> Result<(), FileError> {
        self.write_with(out, name, view, None)
    }

    /// As [`Output::write`]; `message` is a TensorProto whose other fields are kept.
    pub(crate) fn write_with(
        &self,
        out: &mut AtomicFile,
        name: &str,
        view: &TensorView<'_>,
        message: Option<&[u8]>,
    ) -> Result<(), FileError> {
        let failed = |error| FileError::io(self.path, "write", error);
        match view.data() {
            Data::Bytes(bytes) => {
                let (head, tail) = self.frame(name, view.data_type(), view.shape(), bytes.len() as u64, message)?;
                out.write_all(&head).map_err(failed)?;
                if self.unpacks() && view.data_type().is_packed() {
                    write_unpacked(out, view.data_type(), bytes, view.len()).map_err(failed)?;
                } else {
                    out.write_all(bytes).map_err(failed)?;
                }
                out.write_all(&tail).map_err(failed)
            }
            Data::Strings(strings) => {
                match self.format {
                    Format::TensorProto => {
                        let frame = self.tensor_proto(name, view.shape(), message)?;
                        let message = pb::string_message(frame, strings.iter());
                        pb::check_size(name, message.len() as u64).map_err(|error| FileError::pb(self.path, error))?;
                        out.write_all(&message).map_err(failed)?;
                    }
                    Format::Npy => {
                        let width = npy::string_width(name, strings).map_err(|error| self.npy_error(error))?;
                        out.write_all(&npy::string_header(width, view.shape())).map_err(failed)?;
                        let mut item = Vec::with_capacity(4 * width);
                        for string in strings.iter() {
                            item.clear();
                            npy::put_string(&mut item, string, width);
                            out.write_all(&item).map_err(failed)?;
                        }
                    }
                    Format::Safetensors => {
                        let (tensor, data_type) = (name.to_owned(), DataType::String);
                        return Err(self.safetensors_error(SafetensorsError::NoName { tensor, data_type }));
                    }
                    Format::Onnx => return Err(self.no_model()),
                }
                Ok(())
            }
        }
    }
}

/// Elements that are unpacked at a time: a multiple of 8, so that packed ones are whole bytes.
const CHUNK: usize = 1 << 17;

/// Writes `len` packed elements one to a byte.
fn write_unpacked(out: &mut impl Write, data_type: DataType, bytes: &[u8], len: usize) -> io::Result<()> {
    let mut elements = zeros(CHUNK.min(len)).ok_or(io::ErrorKind::OutOfMemory)?;
    let per_chunk = data_type.byte_len(CHUNK).unwrap_or(CHUNK);
    for (i, packed) in bytes.chunks(per_chunk).enumerate() {
        elements.truncate(len - i * CHUNK);
        // The lengths fit by construction; were they not to, nothing may be written for something.
        unpack(data_type, packed, &mut elements).ok_or(io::ErrorKind::InvalidData)?;
        out.write_all(&elements)?;
    }
    Ok(())
}
