//! What a file of tensors holds, and where two differ. Elements go through the same chunks as in a cast, but to
//! something that looks at them.

mod collections;
mod compare;
mod plain_view;
mod quantized;
mod values;

use crate::checkpoint::Checkpoint;
use crate::collection::Collection;
use crate::counts::Number;
use crate::error::FileError;
use crate::formats::checkpoint;
use crate::formats::error::FormatError;
use crate::formats::format::Format;
use crate::formats::input::{Given, Input, Location, StoredTensor};
use crate::io::positional::is_stream;
use crate::io::progress::{Meter, Watch};
use crate::opened::with_task;
use crate::pipeline::{self, PipelineError, Sink, Task};
use crate::request::refuse_format;
use crate::selection::{Pattern, SourceType, admits, check_names, refuse_nothing};
use crate::summary::Ignored;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::DataType;
use std::path::Path;
use values::look;

pub(crate) use plain_view::{Entry, PlainView};
pub(crate) use quantized::consistent;
pub use quantized::{Quantized, QuantizedWeight, ScaleExtent};
pub use values::Values;

/// What a tensor of a file is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its element type; of blocks, that of their values; `None` of an array of a type that ONNX lacks.
    pub data_type: Option<DataType>,
    /// The element type of such an array as its file names it, as `<M8[D]`.
    pub descr: Option<String>,
    /// The name of the type of blocks that it is stored in, as `Q4_0`: of a `.gguf` file.
    pub block_type: Option<&'static str>,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Bytes of its elements, packed as ONNX packs them; of strings, the bytes of their text, or of their items in an
    /// array; of blocks, theirs.
    pub bytes: u64,
    /// What its values are like, where that was asked for and they are real numbers.
    pub values: Option<Values>,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FileInfo {
    /// Its format.
    pub format: Format,
    /// The number of files that it consists of.
    pub files: usize,
    /// The metadata of a `.safetensors` file or a model; the architecture of a `.gguf` file.
    pub metadata: Vec<(String, String)>,
    /// The tensors, in the order of the file.
    pub tensors: Vec<TensorInfo>,
    /// The quantized weights that tensors are parts of, where there are any.
    pub quantized: Option<Quantized>,
    /// Tensors in the files that are not listed, as the index has another file for them; each with the reason.
    pub left_out: Vec<(String, String)>,
    /// Options that had no effect.
    pub ignored: Vec<Ignored>,
}

impl FileInfo {
    fn new(files: usize, request: &InspectRequest, is_model: bool) -> FileInfo {
        let ignored = Ignored::of(&[("types", request.types && !is_model, "is for models (.onnx)")]);
        let (metadata, tensors, left_out) = (Vec::new(), Vec::new(), Vec::new());
        FileInfo { format: Format::Safetensors, files, metadata, tensors, quantized: None, left_out, ignored }
    }
}

/// How two tensors, or two nodes, of the same name differ.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Difference {
    /// Only the first file has it.
    OnlyFirst,
    /// Only the second file has it.
    OnlySecond,
    /// The types.
    Type(DataType, DataType),
    /// The types, at least one of which ONNX lacks, as their files name them.
    ForeignType(String, String),
    /// The bytes of arrays of a type that ONNX lacks.
    Bytes,
    /// The shapes.
    Shape(Vec<usize>, Vec<usize>),
    /// The values.
    Values {
        /// Elements that differ.
        count: u64,
        /// Elements in all.
        of: u64,
        /// The first that does.
        first: u64,
        /// The largest distance between two numbers, exact between integers; 0 where only signs of zero, NaN or text
        /// differ.
        largest: Number,
    },
    /// The parts of a node of two models: `operator`, `inputs`, `attribute to` and so on.
    Node(String),
}

request! {
    /// What to look at in a file.
    #[derive(Default)]
    pub struct InspectRequest {
        /// Only tensors of these names; all of them where this is empty.
        pub include: Vec<Pattern>,
        /// Not tensors of these names.
        pub exclude: Vec<Pattern>,
        /// The types of elements that do not tell theirs: of all tensors, or by name.
        pub from: Vec<SourceType>,
        /// The format of the standard input (`-`); if it is not given, its first bytes tell it.
        pub in_format: Option<Format>,
        /// Read all elements for [`TensorInfo::values`].
        pub stats: bool,
        /// Infer the types of all values of a model.
        pub types: bool,
        /// Threads at most.
        pub threads: Option<usize>,
        /// Called with the progress of the work.
        pub watch: Option<Watch>,
    }
}

request! {
    /// What to compare of two files.
    #[derive(Default)]
    pub struct DiffRequest {
        /// Only tensors of these names; all of them where this is empty.
        pub include: Vec<Pattern>,
        /// Not tensors of these names.
        pub exclude: Vec<Pattern>,
        /// Compare numbers, which may differ by this much. Without it, bits are compared.
        pub tolerance: Option<f64>,
        /// The format of the standard input (`-`), of which one file may be; if it is not given, its first bytes tell it.
        pub in_format: Option<Format>,
        /// Compare what checkpoints stand for: quantized weights by their values, and numbers whatever their types. A
        /// quantized weight beside one of float16 or bfloat16 is rounded to that type first.
        pub values: bool,
        /// Threads at most.
        pub threads: Option<usize>,
        /// Called with the progress through the first file.
        pub watch: Option<Watch>,
    }
}

impl DiffRequest {
    /// Refuses the standard input as both files, and its format where it is neither.
    ///
    /// # Errors
    /// [`InvalidKind::Request`](crate::InvalidKind::Request).
    pub fn refuse_streams(&self, paths: [&Path; 2]) -> Result<(), FileError> {
        match paths.map(is_stream) {
            [true, true] => Err(FileError::request(paths[0], "the standard input is only one of the two files")),
            [false, false] => refuse_format(paths[0], "in_format", self.in_format),
            _ => Ok(()),
        }
    }
}

/// Opens a file of tensors, or with `-` the standard input, of which `in_format` is the format. The type of elements
/// that do not tell theirs is `from`; all others must have it.
///
/// # Errors
/// Where the file cannot be read or is not valid, or an element type is not `from`.
pub fn open(path: &Path, from: &[SourceType], in_format: Option<Format>) -> Result<Input, FileError> {
    let format = if is_stream(path) { in_format } else { Some(Format::of_input(path)?) };
    let input = Input::open(path, format, &Given { from, shape: None })?;
    input.check_types(from)?;
    Ok(input)
}

/// Opens every file that a path stands for.
///
/// # Errors
/// Where the files are not to be found, and those of `open`.
pub fn open_all<E: From<FileError>>(path: &Path, open: impl Fn(&Path) -> Result<Input, E>) -> Result<Vec<Input>, E> {
    /// An error of the caller, or of the index.
    struct Either<E>(E);
    impl<E: From<FileError>> From<FormatError> for Either<E> {
        fn from(error: FormatError) -> Self {
            Either(FileError::from(error).into())
        }
    }
    checkpoint::open_all(path, |path| open(path).map_err(Either)).map_err(|Either(error)| error)
}

/// Lists the tensors of a file, of a checkpoint in several files, or of the standard input (`-`).
///
/// # Errors
/// Where a file cannot be read or is not valid.
pub fn inspect(path: impl AsRef<Path>, request: &InspectRequest) -> Result<FileInfo, FileError> {
    let _environment = DefaultEnvironment::enter();
    let path = path.as_ref();
    refuse_format(path, "in_format", request.in_format)?;
    let Some(all) = Collection::find(path)? else { return inspect_checkpoint(path, request) };
    all.check_names(&request.include, &request.exclude)?;
    let mut info = FileInfo::new(0, request, false);
    for member in all.checkpoints() {
        let [include, exclude] = [&request.include, &request.exclude].map(|patterns| member.patterns(patterns));
        let found = inspect_checkpoint(member.path(), &request.clone().include(include).exclude(exclude))?;
        info.files += found.files;
        let entries = found.metadata.into_iter().filter(|pair| !info.metadata.contains(pair)).collect::<Vec<_>>();
        info.metadata.extend(entries);
        let named = |tensor: TensorInfo| TensorInfo { name: member.name_of(&tensor.name), ..tensor };
        info.tensors.extend(found.tensors.into_iter().map(named));
        info.left_out.extend(found.left_out.into_iter().map(|(name, reason)| (member.name_of(&name), reason)));
        if let Some(found) = found.quantized {
            quantized::join(&mut info.quantized, found, |name| member.name_of(name));
        }
    }
    Ok(info)
}

fn inspect_checkpoint(path: &Path, request: &InspectRequest) -> Result<FileInfo, FileError> {
    let opened = Checkpoint::of(path, open_all(path, |path| open(path, &request.from, request.in_format))?);
    let mut quantized = quantized::quantized(path, &opened, request.stats);
    let weights = quantized.iter().flat_map(|quantized| &quantized.weights).map(|weight| &*weight.name);
    let names = opened.tensors().map(|(_, stored)| &*stored.name).chain(weights);
    check_names(&request.include, &request.exclude, names).map_err(|error| FileError::invalid(path, error))?;
    if let Some(quantized) = &mut quantized {
        quantized.weights.retain(|weight| admits(&request.include, &request.exclude, &weight.name));
    }
    Ok(FileInfo { quantized, ..inspect_opened(opened.files, request)? })
}

/// Lists the tensors of files that are open.
///
/// # Errors
/// Where values are asked for and a file cannot be read.
pub fn inspect_opened(opened: Vec<Input>, request: &InspectRequest) -> Result<FileInfo, FileError> {
    let is_model = opened.iter().any(|input| input.format == Format::Onnx);
    let mut info = FileInfo::new(opened.len(), request, is_model);
    let admitted = |stored: &&StoredTensor| admits(&request.include, &request.exclude, &stored.name);
    let total = opened.iter().flat_map(|input| &input.tensors).filter(admitted).map(StoredTensor::work).sum();
    let meter = Meter::new(request.watch.as_ref(), total);
    for mut input in opened {
        info.format = input.format;
        info.left_out.append(&mut input.left_out);
        for pair in input.metadata.take().unwrap_or_default() {
            if !info.metadata.contains(&pair) {
                info.metadata.push(pair);
            }
        }
        for (index, stored) in input.tensors.iter().enumerate().filter(|(_, stored)| admitted(stored)) {
            info.tensors.push(TensorInfo {
                name: stored.name.clone(),
                data_type: stored.foreign().is_none().then_some(stored.data_type),
                descr: stored.foreign().map(|(descr, _)| descr.to_owned()),
                block_type: stored.block_type(),
                shape: stored.shape.clone(),
                bytes: stored.bytes(),
                values: if request.stats { look(&input, index, request.threads, &meter)? } else { None },
            });
        }
    }
    Ok(info)
}

/// Compares two files tensor by tensor, by name: types, shapes and values. Values are compared bit by bit, or with a
/// tolerance as numbers, where any NaN equals any other. The names do not matter where each file holds one tensor and
/// not both are models. By value, quantized weights have the names and shapes of the plain ones.
///
/// # Errors
/// Where a file cannot be read or is not valid.
pub fn diff(
    first: impl AsRef<Path>,
    second: impl AsRef<Path>,
    request: &DiffRequest,
) -> Result<Vec<(String, Difference)>, FileError> {
    let _environment = DefaultEnvironment::enter();
    let paths = [first.as_ref(), second.as_ref()];
    if let Some(both) = Collection::both(paths)? {
        return collections::diff(&both, request);
    }
    diff_checkpoints(paths, request)
}

/// As [`diff`], of folders of several checkpoints; `None` where neither is one.
///
/// # Errors
/// As [`diff`], and where only one of them is.
pub fn diff_collections(
    paths: [&Path; 2],
    request: &DiffRequest,
) -> Result<Option<Vec<(String, Difference)>>, FileError> {
    Collection::both(paths)?.map(|both| collections::diff(&both, request)).transpose()
}

fn diff_checkpoints(paths: [&Path; 2], request: &DiffRequest) -> Result<Vec<(String, Difference)>, FileError> {
    request.refuse_streams(paths)?;
    let all = |path| open_all(path, |path| open(path, &[], request.in_format));
    diff_opened(paths, [all(paths[0])?, all(paths[1])?], request)
}

/// As [`diff`], of files that are open.
///
/// # Errors
/// As [`diff`].
pub fn diff_opened(
    paths: [&Path; 2],
    [first, second]: [Vec<Input>; 2],
    request: &DiffRequest,
) -> Result<Vec<(String, Difference)>, FileError> {
    let (first, second) = (Checkpoint::of(paths[0], first), Checkpoint::of(paths[1], second));
    compare::diff(paths, [&first, &second], request)
}

impl DiffRequest {
    /// Refuses a comparison of no tensor: files that were not compared are not the same.
    fn refuse_nothing(&self, path: &Path) -> Result<(), FileError> {
        refuse_nothing(&self.exclude, "compare").map_err(|error| FileError::invalid(path, error))
    }
}

/// Sends the elements of a tensor, packed and little endian, to a sink.
fn send(
    input: &Input,
    index: usize,
    threads: Option<usize>,
    sink: &dyn Sink,
    meter: &Meter<'_>,
) -> Result<(), FileError> {
    let run = |task: Task<'_>| {
        let done = pipeline::run(&[task], threads, sink, &|bytes| meter.add(bytes));
        done.map_err(|(_, error)| failed(input, &input.tensors[index], error))
    };
    with_task(input, index, run)
}

/// What went wrong with a tensor that was only looked at.
pub(crate) fn failed(input: &Input, stored: &StoredTensor, error: PipelineError) -> FileError {
    let path = match &stored.place {
        Location::Other(file, ..) => file.path(),
        _ => input.path(),
    };
    match error {
        PipelineError::Read(error) | PipelineError::Write(error) => FileError::io(path, "read", error),
        PipelineError::Stopped => FileError::Stopped { path: path.to_owned() },
        PipelineError::Cast(error) => FileError::cast(path, &stored.name, error),
    }
}
