//! From file to file: every tensor is cast chunk by chunk, from the mapped input to the output's temporary file.

use crate::atomic::AtomicFile;
use crate::error::FileError;
use crate::format::Format;
use crate::mmap::Mapped;
use crate::pb::{self, Frame, PbError, PbProblem};
use crate::safetensors::{self, Safetensors, SafetensorsError};
use crate::source::{Source, SourceData, zeros};
use crate::tensor::WriteOptions;
use crate::{npy, npy::NpyError};
use onnx_cast::{
    BitCast, Cast, CastError, CastOptions, Data, DataType, OpError, Operator, Plan, TensorError, TensorView,
    element_count, unpack,
};
use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

/// What to cast a file to, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileCast {
    /// The target type.
    pub to: DataType,
    /// The opset and the operator's attributes. BitCast takes the opset alone.
    pub options: CastOptions,
    /// The input's type, where a `.npy` file does not tell it. Elsewhere it must be the file's.
    pub from: Option<DataType>,
    /// How to write.
    pub write: WriteOptions,
}

impl FileCast {
    /// To a type, with ONNX's defaults.
    pub fn new(to: DataType) -> Self {
        FileCast { to, options: CastOptions::default(), from: None, write: WriteOptions::default() }
    }
}

/// What was done with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The tensors, in the order of the output file.
    pub tensors: Vec<TensorSummary>,
}

/// What was done with a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorSummary {
    /// Its name; empty where there is none.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// The type that it had.
    pub from: DataType,
    /// The type that it has.
    pub to: DataType,
    /// Bytes of its elements in the input, packed as ONNX packs them; of strings, the bytes of their text.
    pub bytes_before: u64,
    /// Bytes of its elements in the output.
    pub bytes_after: u64,
    /// Whether it was cast, or only kept.
    pub cast: bool,
}

/// Casts a file: the tensor of a `.pb`, `.npy` or `.safetensors` file to another file of any of these formats; of a
/// `.safetensors` file to a `.safetensors` file every tensor of a floating type, all others and the metadata kept.
///
/// Input and output may be the same path. On any error the output is as it was before.
///
/// # Errors
/// Where a file cannot be read or written, the input is not valid, a tensor cannot be cast, or the output's format has no
/// place for the result.
pub fn cast_file(input: impl AsRef<Path>, output: impl AsRef<Path>, request: &FileCast) -> Result<Summary, FileError> {
    let operator = |error| FileError::Operator { error };
    let cast = Cast::new(request.to, &request.options).map_err(operator)?;
    let work = Work { name: "cast", plan: &|from| cast.plan(from), selects: &DataType::is_float, needs_one: false };
    convert(input.as_ref(), output.as_ref(), request, &work)
}

/// Reinterprets the bits of a file, as [`cast_file`] casts it; of a `.safetensors` file to a `.safetensors` file every
/// tensor whose elements are as wide as the target's, all others kept.
///
/// # Errors
/// As [`cast_file`], where an attribute is given, which BitCast has none of, and where no tensor is as wide as the target.
pub fn bit_cast_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &FileCast,
) -> Result<Summary, FileError> {
    let CastOptions { opset, saturate, round_mode, .. } = request.options;
    let operator = |error| FileError::Operator { error };
    let cast = BitCast::new(request.to, opset).map_err(operator)?;
    let unknown = |name: &str| {
        let (operator, version, name) = (Operator::BitCast, cast.version(), name.to_owned());
        FileError::Operator { error: OpError::UnknownAttribute { operator, version, name, since: None } }
    };
    if saturate.is_some() {
        return Err(unknown("saturate"));
    }
    if round_mode.is_some() {
        return Err(unknown("round_mode"));
    }
    let to = request.to;
    let selects = move |from: DataType| from.bits() == to.bits();
    let work = Work { name: "bitcast", plan: &|from| cast.plan(from), selects: &selects, needs_one: true };
    convert(input.as_ref(), output.as_ref(), request, &work)
}

/// What is to be done with a file.
struct Work<'a> {
    /// The command that does it.
    name: &'static str,
    plan: &'a dyn Fn(DataType) -> Result<Plan, OpError>,
    /// Which tensors of several.
    selects: &'a dyn Fn(DataType) -> bool,
    /// Whether it is an error that none is selected.
    needs_one: bool,
}

fn convert(input: &Path, output: &Path, request: &FileCast, work: &Work<'_>) -> Result<Summary, FileError> {
    let (format, target) = (Format::from_path(input)?, Format::from_path(output)?);
    let refuse = |path: &Path, format| {
        let hint = "`run` evaluates a model";
        FileError::Format { path: path.to_owned(), what: work.name, format, hint }
    };
    if format == Format::Onnx {
        return Err(refuse(input, format));
    }
    if target == Format::Onnx {
        return Err(refuse(output, target));
    }
    if target == Format::Safetensors && safetensors::type_name(request.to).is_none() {
        let error = SafetensorsError::NoName { tensor: String::new(), data_type: request.to };
        return Err(FileError::safetensors(output, error));
    }
    let bytes = Mapped::open(input)?;
    let file = Input::new(input, format, &bytes)?;
    let sink = Output { path: output, format: target, options: &request.write };
    match &file {
        Input { content: Content::Safetensors(tensors), .. } if target == Format::Safetensors => {
            every(&file, tensors, &sink, request, work)
        }
        _ => one(&file, &sink, request, work),
    }
}

/// Casts the tensor of a file of one.
fn one(file: &Input<'_>, sink: &Output<'_>, request: &FileCast, work: &Work<'_>) -> Result<Summary, FileError> {
    let mut source = file.single("another format", request.from)?;
    if sink.format == Format::Safetensors && source.name.is_empty() {
        // The format asks for a name; the file's is the best that there is.
        source.name = file.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    }
    let view = source.view().map_err(|error| file.cast_error(&source.name, error.into()))?;
    let plan = (work.plan)(view.data_type()).map_err(|error| file.cast_error(&source.name, error.into()))?;
    let frame = match file.content {
        Content::TensorProto(message) if sink.format == Format::TensorProto => Some(message),
        _ => None,
    };
    let mut out = AtomicFile::create(sink.path)?;
    let after = sink.cast(&mut out, file, &source.name, &view, &plan, frame)?;
    out.commit()?;
    Ok(Summary { tensors: vec![summary(&source.name, &view, &plan, after)] })
}

/// Casts the selected tensors of a `.safetensors` file.
fn every(
    file: &Input<'_>,
    tensors: &Safetensors<'_>,
    sink: &Output<'_>,
    request: &FileCast,
    work: &Work<'_>,
) -> Result<Summary, FileError> {
    let mut planned = Vec::with_capacity(tensors.entries().len());
    for entry in tensors.entries() {
        let mut plan = None;
        if (work.selects)(entry.data_type) {
            file.check_type(&entry.name, entry.data_type, request.from)?;
            plan = Some((work.plan)(entry.data_type).map_err(|error| file.cast_error(&entry.name, error.into()))?);
        }
        planned.push((entry, plan));
    }
    if work.needs_one
        && planned.iter().all(|(_, plan)| plan.is_none())
        && let Some(first) = tensors.entries().first()
    {
        // Every width differs: the operator's own error for the first tensor says so.
        (work.plan)(first.data_type).map_err(|error| file.cast_error(&first.name, error.into()))?;
    }
    let header = {
        let list: Vec<safetensors::Planned<'_>> = planned
            .iter()
            .map(|(entry, plan)| (&*entry.name, plan.map_or(entry.data_type, |plan| plan.to()), &*entry.shape))
            .collect();
        safetensors::header(tensors.metadata(), &list).map_err(|error| sink.safetensors_error(error))?
    };
    let mut out = AtomicFile::create(sink.path)?;
    let failed = |error| FileError::io(sink.path, "write", error);
    out.write_all(&header).map_err(failed)?;
    let mut summaries = Vec::with_capacity(planned.len());
    for (entry, plan) in planned {
        let bytes = tensors.bytes(entry);
        let view = TensorView::new(entry.data_type, &entry.shape, bytes)
            .map_err(|error| file.cast_error(&entry.name, error.into()))?;
        match plan {
            Some(plan) => {
                write_cast(&mut out, &view, &plan, false)
                    .map_err(|trouble| trouble.into_error(file, sink, &entry.name))?;
                let after = plan.to().byte_len(view.len()).unwrap_or(0);
                summaries.push(summary(&entry.name, &view, &plan, after as u64));
            }
            None => {
                out.write_all(bytes).map_err(failed)?;
                summaries.push(kept(&entry.name, &view));
            }
        }
    }
    out.commit()?;
    Ok(Summary { tensors: summaries })
}

fn summary(name: &str, view: &TensorView<'_>, plan: &Plan, after: u64) -> TensorSummary {
    TensorSummary { to: plan.to(), bytes_after: after, cast: true, ..kept(name, view) }
}

fn kept(name: &str, view: &TensorView<'_>) -> TensorSummary {
    let bytes = match view.data() {
        Data::Bytes(bytes) => bytes.len(),
        Data::Strings(strings) => strings.bytes().len(),
    } as u64;
    TensorSummary {
        name: name.to_owned(),
        shape: view.shape().to_vec(),
        from: view.data_type(),
        to: view.data_type(),
        bytes_before: bytes,
        bytes_after: bytes,
        cast: false,
    }
}

/// A mapped file, as far as its format has been read.
pub(crate) struct Input<'a> {
    path: &'a Path,
    content: Content<'a>,
}

enum Content<'a> {
    TensorProto(&'a [u8]),
    Npy(&'a [u8]),
    Safetensors(Safetensors<'a>),
}

impl<'a> Input<'a> {
    pub(crate) fn new(path: &'a Path, format: Format, bytes: &'a [u8]) -> Result<Self, FileError> {
        let content = match format {
            Format::TensorProto => Content::TensorProto(bytes),
            Format::Npy => Content::Npy(bytes),
            Format::Safetensors => {
                Content::Safetensors(Safetensors::parse(bytes).map_err(|error| FileError::safetensors(path, error))?)
            }
            Format::Onnx => {
                let (what, hint) = ("reading one tensor", "it is a model");
                return Err(FileError::Format { path: path.to_owned(), what, format, hint });
            }
        };
        Ok(Input { path, content })
    }

    /// The tensor of a file of one.
    pub(crate) fn single(&self, what: &'static str, from: Option<DataType>) -> Result<Source<'a>, FileError> {
        let path = || self.path.to_owned();
        let source = match &self.content {
            Content::Npy(bytes) => {
                return npy::parse(bytes, from).map_err(|error| FileError::npy(self.path, error));
            }
            Content::TensorProto(message) => pb::parse(message).map_err(|error| FileError::pb(self.path, error))?,
            Content::Safetensors(tensors) => match tensors.entries() {
                [entry] => Source {
                    name: entry.name.clone(),
                    data_type: entry.data_type,
                    shape: entry.shape.clone(),
                    data: SourceData::Bytes(Cow::Borrowed(tensors.bytes(entry))),
                },
                entries => return Err(FileError::TensorCount { path: path(), count: entries.len(), what }),
            },
        };
        self.check_type(&source.name, source.data_type, from)?;
        Ok(source)
    }

    fn check_type(&self, tensor: &str, got: DataType, want: Option<DataType>) -> Result<(), FileError> {
        match want {
            Some(want) if want != got => {
                Err(FileError::InputType { path: self.path.to_owned(), tensor: tensor.to_owned(), got, want })
            }
            _ => Ok(()),
        }
    }

    fn cast_error(&self, tensor: &str, error: CastError) -> FileError {
        FileError::cast(self.path, tensor, error)
    }
}

/// Where a tensor goes.
pub(crate) struct Output<'a> {
    pub(crate) path: &'a Path,
    pub(crate) format: Format,
    pub(crate) options: &'a WriteOptions,
}

/// What can go wrong while a tensor is written.
enum Trouble {
    Cast(CastError),
    Io(io::Error),
}

impl Trouble {
    fn into_error(self, file: &Input<'_>, sink: &Output<'_>, tensor: &str) -> FileError {
        match self {
            Trouble::Cast(error) => file.cast_error(tensor, error),
            Trouble::Io(error) => FileError::io(sink.path, "write", error),
        }
    }
}

impl Output<'_> {
    fn safetensors_error(&self, error: SafetensorsError) -> FileError {
        FileError::safetensors(self.path, error)
    }

    fn npy_error(&self, error: NpyError) -> FileError {
        FileError::npy(self.path, error)
    }

    fn pb_error(&self, tensor: &str, problem: PbProblem) -> FileError {
        FileError::pb(self.path, PbError { tensor: tensor.to_owned(), problem })
    }

    /// What stands before and behind the elements of a tensor of any type but string.
    fn frame(
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
    fn unpacks(&self) -> bool {
        self.format == Format::Npy
    }

    /// Writes a tensor as it is.
    pub(crate) fn write(&self, out: &mut AtomicFile, name: &str, view: &TensorView<'_>) -> Result<(), FileError> {
        self.write_with(out, name, view, None).map(|_| ())
    }

    fn write_with(
        &self,
        out: &mut AtomicFile,
        name: &str,
        view: &TensorView<'_>,
        message: Option<&[u8]>,
    ) -> Result<u64, FileError> {
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
                out.write_all(&tail).map_err(failed)?;
                Ok(bytes.len() as u64)
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
                Ok(strings.bytes().len() as u64)
            }
        }
    }

    /// Writes a tensor, cast; returns the bytes of its elements. `message` is the TensorProto whose other fields are kept.
    fn cast(
        &self,
        out: &mut AtomicFile,
        file: &Input<'_>,
        name: &str,
        view: &TensorView<'_>,
        plan: &Plan,
        message: Option<&[u8]>,
    ) -> Result<u64, FileError> {
        if view.data_type() == DataType::String || plan.to() == DataType::String {
            // Strings have no fixed size, and an error in one must tell its index in the whole tensor.
            let result = plan.run(view).map_err(|error| file.cast_error(name, error))?;
            return self.write_with(out, name, &result.view(), message);
        }
        let too_large = || TensorError::TooLarge { data_type: plan.to(), shape: view.shape().to_vec() };
        let len = element_count(view.shape()).and_then(|len| plan.to().byte_len(len));
        let len = len.ok_or_else(|| file.cast_error(name, too_large().into()))? as u64;
        let (head, tail) = self.frame(name, plan.to(), view.shape(), len, message)?;
        let failed = |error| FileError::io(self.path, "write", error);
        out.write_all(&head).map_err(failed)?;
        write_cast(out, view, plan, self.unpacks()).map_err(|trouble| trouble.into_error(file, self, name))?;
        out.write_all(&tail).map_err(failed)?;
        Ok(len)
    }
}

/// Elements in a chunk: a multiple of 8, so that chunks of packed types are whole bytes, and few enough for the caches.
const CHUNK: usize = 1 << 17;

/// Writes the elements of a tensor, cast, chunk by chunk. Neither type is string.
fn write_cast(out: &mut impl Write, view: &TensorView<'_>, plan: &Plan, unpacks: bool) -> Result<(), Trouble> {
    let (from, to) = (view.data_type(), plan.to());
    let too_large = || Trouble::Cast(TensorError::TooLarge { data_type: to, shape: view.shape().to_vec() }.into());
    let bytes = view.bytes().unwrap_or_default();
    let mut result = to.byte_len(CHUNK.min(view.len())).and_then(zeros).ok_or_else(too_large)?;
    for start in (0..view.len()).step_by(CHUNK) {
        let shape = [CHUNK.min(view.len() - start)];
        let offset = from.byte_len(start).ok_or_else(too_large)?;
        let len = from.byte_len(shape[0]).ok_or_else(too_large)?;
        let chunk = bytes.get(offset..offset + len).unwrap_or_default();
        let chunk = TensorView::new(from, &shape, chunk).map_err(|error| Trouble::Cast(error.into()))?;
        result.truncate(to.byte_len(shape[0]).ok_or_else(too_large)?);
        plan.run_into(&chunk, &mut result).map_err(Trouble::Cast)?;
        if unpacks && to.is_packed() {
            write_unpacked(out, to, &result, shape[0]).map_err(Trouble::Io)?;
        } else {
            out.write_all(&result).map_err(Trouble::Io)?;
        }
    }
    Ok(())
}

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
