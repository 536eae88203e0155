//! What a file of tensors holds, and where two differ. Elements go through the same chunks as in a cast, but to
//! something that looks at them.

mod by_value;
mod quantized;
mod values;

use crate::counts::widen::{BLOCK, Widening};
use crate::counts::{Distance, Number, Numbers, exceeds_doubles, is_integer};
use crate::error::FileError;
use crate::formats::checkpoint;
use crate::formats::format::Format;
use crate::formats::input::{Given, Input, Place, Stored};
use crate::formats::source::Items;
use crate::io::fs;
use crate::io::memory::zeros;
use crate::io::positional::InputFile;
use crate::io::progress::{Meter, Watch};
use crate::layouts::Checkpoint;
use crate::opened::with_task;
use crate::pipeline::{self, InPlace, Sink, Task, Trouble};
use crate::selection::{Pattern, admits, check_names};
use onnx_cast::DataType;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use values::look;

pub(crate) use quantized::consistent;
pub use quantized::{Quantized, QuantizedWeight, ScaleExtent};
pub use values::Values;

/// What a tensor of a file is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Its name; empty where there is none.
    pub name: String,
    /// Its element type; of blocks, that of their values.
    pub data_type: DataType,
    /// The name of the type of blocks that it is stored in, as `Q4_0`: of a `.gguf` file.
    pub block_type: Option<&'static str>,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Bytes of its elements, packed as ONNX packs them; of strings, the bytes of their text; of blocks, theirs.
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
}

/// How two tensors of a name differ.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Difference {
    /// Only the first file has it.
    OnlyFirst,
    /// Only the second file has it.
    OnlySecond,
    /// The types.
    Type(DataType, DataType),
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
}

/// What to look at in a file.
#[derive(Clone, Debug, Default)]
pub struct InspectRequest {
    /// Only tensors of these names; all of them where this is empty.
    pub include: Vec<Pattern>,
    /// Not tensors of these names.
    pub exclude: Vec<Pattern>,
    /// The type of elements that do not tell theirs.
    pub from: Option<DataType>,
    /// Read all elements for [`TensorInfo::values`].
    pub values: bool,
    /// Infer the types of all values of a model.
    pub types: bool,
    /// Threads at most.
    pub threads: Option<usize>,
    /// Called with the progress of the work.
    pub watch: Option<Watch>,
}

/// What to compare of two files.
#[derive(Clone, Debug, Default)]
pub struct DiffRequest {
    /// Only tensors of these names; all of them where this is empty.
    pub include: Vec<Pattern>,
    /// Not tensors of these names.
    pub exclude: Vec<Pattern>,
    /// Compare numbers, which may differ by this much. Without it, bits are compared.
    pub tolerance: Option<f64>,
    /// Compare what checkpoints stand for: quantized weights by their values, and numbers whatever their types. A
    /// quantized weight beside one of float16 or bfloat16 is rounded to that type first.
    pub by_value: bool,
    /// Threads at most.
    pub threads: Option<usize>,
    /// Called with the progress through the first file.
    pub watch: Option<Watch>,
}

/// Opens a file of tensors, or with `-` the standard input. The type of elements that do not tell theirs is `from`.
///
/// # Errors
/// Where the file cannot be read or is not valid.
pub fn open(path: &Path, from: Option<DataType>) -> Result<Input, FileError> {
    let format = if path == Path::new("-") { None } else { Some(Format::from_path(path)?) };
    Ok(Input::open(path, format, &Given { from, shape: None })?)
}

/// Opens every file that a path stands for.
pub(crate) fn open_all<E: From<FileError>>(
    path: &Path,
    open: impl Fn(&Path) -> Result<Input, E>,
) -> Result<Vec<Input>, E> {
    checkpoint::files(path).map_err(FileError::from)?.iter().map(|path| open(path)).collect()
}

/// Lists the tensors of a file, of a checkpoint in several files, or of the standard input (`-`).
///
/// # Errors
/// Where a file cannot be read or is not valid, or types are asked for, which are for models ([`FileError::Option`]).
pub fn inspect(path: impl AsRef<Path>, request: &InspectRequest) -> Result<FileInfo, FileError> {
    let path = path.as_ref();
    FileError::refuse(path, &[("types", request.types, "is for models (.onnx)")])?;
    let opened = Checkpoint::of(open_all(path, |path| open(path, request.from))?);
    let mut quantized = quantized::quantized(path, &opened, request.values);
    let weights = quantized.iter().flat_map(|quantized| &quantized.weights).map(|weight| &*weight.name);
    let names = opened.tensors().map(|(_, stored)| &*stored.name).chain(weights);
    check_names(&request.include, &request.exclude, names).map_err(FileError::unmatched(path))?;
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
    let mut info = FileInfo {
        format: Format::Safetensors,
        files: opened.len(),
        metadata: Vec::new(),
        tensors: Vec::new(),
        quantized: None,
    };
    let admitted = |stored: &&Stored| admits(&request.include, &request.exclude, &stored.name);
    let total = opened.iter().flat_map(|input| &input.tensors).filter(admitted).map(Stored::work).sum();
    let meter = Meter::new(request.watch.as_ref(), total);
    for mut input in opened {
        info.format = input.format;
        for pair in input.metadata.take().unwrap_or_default() {
            if !info.metadata.contains(&pair) {
                info.metadata.push(pair);
            }
        }
        for (index, stored) in input.tensors.iter().enumerate().filter(|(_, stored)| admitted(stored)) {
            info.tensors.push(TensorInfo {
                name: stored.name.clone(),
                data_type: stored.data_type,
                block_type: stored.block_type(),
                shape: stored.shape.clone(),
                bytes: stored.bytes(),
                values: if request.values { look(&input, index, request.threads, &meter)? } else { None },
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
    diff_with(first.as_ref(), second.as_ref(), request, |path| open(path, None))
}

/// As [`diff`], of files that a function opens.
///
/// # Errors
/// As [`diff`], and those of the function.
pub fn diff_with<E: From<FileError>>(
    first: &Path,
    second: &Path,
    request: &DiffRequest,
    open: impl Fn(&Path) -> Result<Input, E>,
) -> Result<Vec<(String, Difference)>, E> {
    let paths = [first, second];
    let (first, second) = (open_all(first, &open)?, open_all(second, &open)?);
    if request.by_value {
        let (first, second) = (Checkpoint::of(first), Checkpoint::of(second));
        return Ok(by_value::diff(paths, [&first, &second], request)?);
    }
    let names = first.iter().chain(&second).flat_map(|input| &input.tensors).map(|stored| &*stored.name);
    check_names(&request.include, &request.exclude, names).map_err(FileError::unmatched(paths[0]))?;
    let all = |inputs: &[Input]| -> Vec<(usize, usize)> {
        let admitted = |stored: &Stored| admits(&request.include, &request.exclude, &stored.name);
        let places = |(i, input): (usize, &Input)| {
            let tensors = input.tensors.iter().enumerate().filter(|(_, stored)| admitted(stored));
            tensors.map(|(j, _)| (i, j)).collect::<Vec<_>>()
        };
        inputs.iter().enumerate().flat_map(places).collect()
    };
    let (ours, theirs) = (all(&first), all(&second));
    let total = ours.iter().map(|&(i, j)| first[i].tensors[j].work()).sum();
    let meter = Meter::new(request.watch.as_ref(), total);
    // The constants of models have names that mean something.
    let models = [&first, &second].map(|inputs| inputs.iter().any(|input| input.format == Format::Onnx));
    let one = ours.len() == 1 && theirs.len() == 1 && models != [true; 2];
    let mut places: HashMap<&str, (usize, usize)> =
        theirs.iter().map(|&(i, j)| (second[i].tensors[j].name.as_str(), (i, j))).collect();
    let mut differences = Vec::new();
    for (i, j) in ours {
        let stored = &first[i].tensors[j];
        let place = if one { theirs.first().copied() } else { places.remove(stored.name.as_str()) };
        let difference = match place {
            Some((k, l)) => compare((&first[i], j), (&second[k], l), request, &meter)?,
            None => Some(Difference::OnlyFirst),
        };
        differences.extend(difference.map(|difference| (stored.name.clone(), difference)));
    }
    if !one {
        for &(i, j) in &theirs {
            let name = &second[i].tensors[j].name;
            if places.contains_key(name.as_str()) {
                differences.push((name.clone(), Difference::OnlySecond));
            }
        }
    }
    Ok(differences)
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
        done.map_err(|(_, trouble)| failed(input, &input.tensors[index], trouble))
    };
    with_task(input, index, run)
}

/// What went wrong with a tensor that was only looked at.
pub(crate) fn failed(input: &Input, stored: &Stored, trouble: Trouble) -> FileError {
    let path = match &stored.place {
        Place::Other(file, ..) => file.path(),
        _ => input.path(),
    };
    match trouble {
        Trouble::Read(error) | Trouble::Write(error) => FileError::io(path, "read", error),
        Trouble::Stopped => FileError::Stopped { path: path.to_owned() },
        Trouble::Cast(error) => FileError::cast(path, &stored.name, error),
    }
}

/// The values of elements as doubles, a few at a time.
fn each_double(doubles: &Widening, bytes: &[u8], len: usize, mut see: impl FnMut(usize, f64)) -> io::Result<()> {
    let mut out = Vec::new();
    for start in (0..len).step_by(BLOCK) {
        let block = doubles.block(bytes, start..len.min(start + BLOCK), &mut out).map_err(io::Error::other)?;
        let (words, _) = block.as_chunks::<8>();
        words.iter().enumerate().for_each(|(i, word)| see(start + i, f64::from_le_bytes(*word)));
    }
    Ok(())
}

/// The elements of a tensor where they can be read at any place as this library has them.
enum Plain<'a> {
    File(&'a InputFile, u64),
    Own(InputFile),
}

impl Plain<'_> {
    fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Plain::File(file, start) => file.read_at(start + at, bytes),
            Plain::Own(file) => file.read_at(at, bytes),
        }
    }
}

fn plain(input: &Input, index: usize, threads: Option<usize>) -> Result<Plain<'_>, FileError> {
    match &input.tensors[index].place {
        Place::File(at, Items::PLAIN) => return Ok(Plain::File(&input.file, *at)),
        Place::Other(file, at, Items::PLAIN) => return Ok(Plain::File(file, *at)),
        _ => {}
    }
    let failed = |error| FileError::io(input.path(), "read", error);
    let copy = fs::tempfile().map_err(failed)?;
    // What is only put in order is looked at later.
    send(input, index, threads, &InPlace(&copy), &Meter::new(None, 0))?;
    Ok(Plain::Own(InputFile::temporary(input.path(), copy).map_err(failed)?))
}

fn compare(
    (first, i): (&Input, usize),
    (second, j): (&Input, usize),
    request: &DiffRequest,
    meter: &Meter<'_>,
) -> Result<Option<Difference>, FileError> {
    let (ours, theirs) = (&first.tensors[i], &second.tensors[j]);
    if ours.data_type != theirs.data_type {
        return Ok(Some(Difference::Type(ours.data_type, theirs.data_type)));
    }
    if ours.shape != theirs.shape {
        return Ok(Some(Difference::Shape(ours.shape.clone(), theirs.shape.clone())));
    }
    let of = ours.len as u64;
    if let (Place::Strings(ours), Place::Strings(theirs)) = (&ours.place, &theirs.place) {
        let pairs = ours.view().iter().zip(theirs.view().iter()).enumerate();
        let wrong: Vec<usize> = pairs.filter(|(_, (ours, theirs))| ours != theirs).map(|(index, _)| index).collect();
        let first = wrong.first().copied().unwrap_or(0) as u64;
        let values = Difference::Values { count: wrong.len() as u64, of, first, largest: Number::Float(0.0) };
        return Ok((!wrong.is_empty()).then_some(values));
    }
    let bits = ours.data_type.bits().unwrap_or(8) as u64;
    let against = Against {
        other: plain(second, j, request.threads)?,
        read: Read::new(ours.data_type),
        tolerance: request.tolerance,
        len: of,
        bits,
        found: Found::default(),
    };
    send(first, i, request.threads, &against, meter)?;
    Ok(against.found.difference(of, [ours.data_type; 2]))
}

/// What was found to differ, by any number of threads.
#[derive(Debug, Default)]
struct Found(Mutex<Apart>);

/// How many elements differ, the first, and the largest distance: of doubles, and of integers that these do not hold.
#[derive(Clone, Copy, Debug, Default)]
struct Apart {
    count: u64,
    first: Option<u64>,
    largest: f64,
    exact: Distance,
}

impl Apart {
    fn note(&mut self, index: u64) {
        self.count += 1;
        self.first = Some(self.first.map_or(index, |first| first.min(index)));
    }

    /// An element that differs; NaN is at no distance.
    fn see(&mut self, index: u64, distance: f64) {
        self.note(index);
        self.largest = if distance > self.largest { distance } else { self.largest };
    }

    fn see_exactly(&mut self, index: u64, distance: Option<Distance>) {
        self.note(index);
        self.exact = distance.filter(|distance| *distance > self.exact).unwrap_or(self.exact);
    }
}

impl Found {
    fn add(&self, apart: Apart) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = all.first.into_iter().chain(apart.first).min();
        let exact = if apart.exact > all.exact { apart.exact } else { all.exact };
        *all = Apart { count: all.count + apart.count, first, largest: all.largest.max(apart.largest), exact };
    }

    fn difference(self, of: u64, types: [DataType; 2]) -> Option<Difference> {
        let Apart { count, first, largest, exact } = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let first = first?;
        let largest = if types.into_iter().any(exceeds_doubles) {
            exact.number(types)
        } else if types.into_iter().all(is_integer) {
            Number::Integer(largest as i128)
        } else {
            Number::Float(largest)
        };
        Some(Difference::Values { count, of, first, largest })
    }
}

/// How elements of a type are compared.
enum Read {
    /// As doubles, which tell all of them apart but NaN.
    Doubles(Widening),
    /// As integers, which doubles do not hold.
    Integers(Numbers),
    /// Only bit by bit: complex ones.
    Bits,
}

impl Read {
    fn new(data_type: DataType) -> Read {
        let numbers = Numbers::new(data_type).ok().filter(|_| exceeds_doubles(data_type)).map(Read::Integers);
        let doubles = || Widening::new(data_type, DataType::Double).ok().map(Read::Doubles);
        numbers.or_else(doubles).unwrap_or(Read::Bits)
    }
}

/// Compares elements with those of another tensor of the same type and shape.
struct Against<'a> {
    other: Plain<'a>,
    read: Read,
    tolerance: Option<f64>,
    len: u64,
    bits: u64,
    found: Found,
}

impl Sink for Against<'_> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut there = zeros(bytes.len()).ok_or(io::ErrorKind::OutOfMemory)?;
        self.other.read_at(at, &mut there)?;
        if there == bytes {
            return Ok(());
        }
        let start = at * 8 / self.bits;
        let len = (bytes.len() as u64 * 8 / self.bits).min(self.len - start) as usize;
        let mut apart = Apart::default();
        match &self.read {
            Read::Doubles(widening) => {
                // A chunk's elements are few.
                let mut doubles = vec![0.0; len];
                each_double(widening, bytes, len, |index, value| doubles[index] = value)?;
                let width = (self.bits / 8) as usize;
                each_double(widening, &there, len, |index, theirs| {
                    let ours = doubles[index];
                    let distance = (ours - theirs).abs();
                    let word = index * width..(index + 1) * width;
                    let same = match self.tolerance {
                        Some(tolerance) => {
                            distance <= tolerance || ours == theirs || (ours.is_nan() && theirs.is_nan())
                        }
                        // Narrow types have no NaN, so that their doubles tell all of them apart.
                        None if width == 0 => ours.to_bits() == theirs.to_bits(),
                        None => bytes[word.clone()] == there[word],
                    };
                    if !same {
                        apart.see(start + index as u64, distance);
                    }
                })?;
            }
            Read::Integers(numbers) => {
                let tolerance = self.tolerance.unwrap_or(0.0);
                each_pair([numbers; 2], [bytes, &there], len, |index, distance| {
                    if !distance.is_some_and(|distance| distance.is_within(tolerance)) {
                        apart.see_exactly(start + index as u64, distance);
                    }
                })?;
            }
            Read::Bits => {
                let width = (self.bits / 8).max(1) as usize;
                let pairs = bytes.chunks_exact(width).zip(there.chunks_exact(width)).enumerate();
                let wrong = pairs.filter(|(_, (ours, theirs))| ours != theirs);
                wrong.for_each(|(index, _)| apart.see(start + index as u64, 0.0));
            }
        }
        self.found.add(apart);
        Ok(())
    }
}

/// How far the elements of two tensors are apart, one by one; `None` where one of the two is NaN.
fn each_pair(
    numbers: [&Numbers; 2],
    bytes: [&[u8]; 2],
    len: usize,
    mut see: impl FnMut(usize, Option<Distance>),
) -> io::Result<()> {
    let (mut first, mut out) = (Vec::new(), Vec::new());
    for start in (0..len).step_by(BLOCK) {
        let block = start..len.min(start + BLOCK);
        first.clear();
        let ours = numbers[0].each(bytes[0], block.clone(), &mut out, |_, number| first.push(number));
        ours.map_err(io::Error::other)?;
        let theirs = numbers[1].each(bytes[1], block, &mut out, |index, theirs| {
            see(index, first.get(index - start).and_then(|&ours| Distance::between(ours, theirs)));
        });
        theirs.map_err(io::Error::other)?;
    }
    Ok(())
}
