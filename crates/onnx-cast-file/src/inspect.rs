//! What a file of tensors holds, and where two differ. Elements go through the same chunks as in a cast, but to something
//! that looks at them.

mod values;

use crate::error::FileError;
use crate::flow::{self, Sink, Task, Trouble};
use crate::format::Format;
use crate::input::{Given, Input, Place, Stored};
use crate::positional::{InputFile, write_at};
use crate::rewrite::{ModelInfo, survey};
use crate::selection::{Pattern, admits};
use crate::sharded::{self, Index, Located};
use crate::source::{Items, zeros};
use crate::watch::{Meter, Watch};
use onnx_cast::{Cast, CastOptions, DataType, Plan, TensorView};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use values::look;

pub use values::Values;

/// What a tensor of a file is.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Its name; empty where there is none.
    pub name: String,
    /// Its element type.
    pub data_type: DataType,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Bytes of its elements, packed as ONNX packs them; of strings, the bytes of their text.
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
    /// Files that it consists of.
    pub files: usize,
    /// The metadata of a `.safetensors` file or a model.
    pub metadata: Vec<(String, String)>,
    /// The tensors, in the order of the file.
    pub tensors: Vec<TensorInfo>,
    /// What a model is beside its constants, which are its tensors.
    pub model: Option<ModelInfo>,
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
        /// The largest distance between two numbers; 0 where only signs of zero, NaN or text differ.
        largest: f64,
    },
}

/// The files that a path stands for, opened one by one.
pub(crate) struct Files {
    pub(crate) paths: Vec<PathBuf>,
}

impl Files {
    pub(crate) fn of(path: &Path) -> Result<Files, FileError> {
        let paths = match sharded::locate(path)? {
            Located::File => vec![path.to_owned()],
            Located::InFolder(file) => vec![file],
            Located::Index(index) => {
                let index = Index::read(&index)?;
                index.shards.iter().map(|(shard, _)| index.file(shard)).collect()
            }
        };
        Ok(Files { paths })
    }

    pub(crate) fn open(path: &Path, from: Option<DataType>) -> Result<(Input, Option<ModelInfo>), FileError> {
        let format = if path == Path::new("-") { None } else { Some(Format::from_path(path)?) };
        if format == Some(Format::Onnx) {
            let (input, model) = survey(path)?;
            return Ok((input, Some(model)));
        }
        let mut input = Input::open(path, format, &Given { from, shape: None })?;
        input.settle(&std::env::temp_dir())?;
        Ok((input, None))
    }
}

/// What to list of a file.
#[derive(Clone, Debug, Default)]
pub struct InspectRequest {
    /// The type of elements whose file does not tell it.
    pub from: Option<DataType>,
    /// Read all values for what they are like.
    pub values: bool,
    /// Names of the tensors to list; all of them where this is empty.
    pub include: Vec<Pattern>,
    /// Names of tensors to leave out.
    pub exclude: Vec<Pattern>,
    /// Threads at most.
    pub threads: Option<usize>,
    /// What is told how far the work is.
    pub watch: Option<Watch>,
}

/// What to compare of two files.
#[derive(Clone, Debug, Default)]
pub struct DiffRequest {
    /// How far two numbers may be apart, where bits are not compared; any NaN is then equal to any other.
    pub tolerance: Option<f64>,
    /// Names of the tensors to compare; all of them where this is empty.
    pub include: Vec<Pattern>,
    /// Names of tensors to leave out.
    pub exclude: Vec<Pattern>,
    /// Threads at most.
    pub threads: Option<usize>,
    /// What is told how far the work is, of the first file's bytes.
    pub watch: Option<Watch>,
}

/// Lists the tensors of a file, of a model (its constants, those of graphs within others under their paths), of a
/// checkpoint in several files, or of the standard input (`-`).
///
/// # Errors
/// Where a file cannot be read or is not valid.
pub fn inspect(path: impl AsRef<Path>, request: &InspectRequest) -> Result<FileInfo, FileError> {
    let InspectRequest { from, values, include, exclude, threads, watch } = request;
    let files = Files::of(path.as_ref())?;
    let mut info = FileInfo {
        format: Format::Safetensors,
        files: files.paths.len(),
        metadata: vec![],
        tensors: vec![],
        model: None,
    };
    let mut opened = files.paths.iter().map(|path| Files::open(path, *from)).collect::<Result<Vec<_>, _>>()?;
    opened.iter_mut().for_each(|(input, _)| input.tensors.retain(|stored| admits(include, exclude, &stored.name)));
    let meter = Meter::new(watch.as_ref(), opened.iter().map(|(input, _)| bytes(input)).sum());
    for (mut input, model) in opened {
        (info.format, info.model) = (input.format, model);
        for pair in input.metadata.take().unwrap_or_default() {
            if !info.metadata.contains(&pair) {
                info.metadata.push(pair);
            }
        }
        for index in 0..input.tensors.len() {
            let stored = &input.tensors[index];
            info.tensors.push(TensorInfo {
                name: stored.name.clone(),
                data_type: stored.data_type,
                shape: stored.shape.clone(),
                bytes: stored.bytes(),
                values: if *values { look(&input, index, *threads, &meter)? } else { None },
            });
        }
    }
    Ok(info)
}

/// Compares two files tensor by tensor, by name: types, shapes and values. Files of one tensor are compared whatever the
/// names, but two models.
///
/// # Errors
/// Where a file cannot be read or is not valid.
pub fn diff(
    first: impl AsRef<Path>,
    second: impl AsRef<Path>,
    request: &DiffRequest,
) -> Result<Vec<(String, Difference)>, FileError> {
    let DiffRequest { include, exclude, .. } = request;
    let open_one = |path: &PathBuf| {
        let (mut input, _) = Files::open(path, None)?;
        input.tensors.retain(|stored| admits(include, exclude, &stored.name));
        Ok(input)
    };
    let open = |path: &Path| -> Result<Vec<Input>, FileError> { Files::of(path)?.paths.iter().map(open_one).collect() };
    let (first, second) = (open(first.as_ref())?, open(second.as_ref())?);
    let all = |inputs: &[Input]| -> Vec<(usize, usize)> {
        let count = |(i, input): (usize, &Input)| (0..input.tensors.len()).map(move |j| (i, j)).collect::<Vec<_>>();
        inputs.iter().enumerate().flat_map(count).collect()
    };
    let (ours, theirs) = (all(&first), all(&second));
    let meter = Meter::new(request.watch.as_ref(), first.iter().map(bytes).sum());
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

/// Bytes of all elements of a file.
pub(crate) fn bytes(input: &Input) -> u64 {
    input.tensors.iter().map(Stored::bytes).sum()
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
        let done = flow::run(&[task], threads, sink, &|bytes| meter.add(bytes));
        done.map_err(|(_, trouble)| failed(input, &input.tensors[index], trouble))
    };
    input.with_task(index, run)
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

fn doubles(from: DataType) -> Option<Plan> {
    let options = CastOptions::new().threads(1);
    Cast::new(DataType::Double, &options).and_then(|cast| cast.plan(from)).ok()
}

/// The values of elements as doubles, a few at a time.
fn each_double(plan: &Plan, bytes: &[u8], len: usize, mut see: impl FnMut(usize, f64)) -> io::Result<()> {
    const BLOCK: usize = 1024;
    let mut out = [0; 8 * BLOCK];
    for start in (0..len).step_by(BLOCK) {
        let shape = [BLOCK.min(len - start)];
        let (from, to) = (plan.source_type().byte_len(start), plan.source_type().byte_len(start + shape[0]));
        let bytes = from.zip(to).and_then(|(from, to)| bytes.get(from..to)).unwrap_or_default();
        let view = TensorView::new(plan.source_type(), &shape, bytes).map_err(io::Error::other)?;
        plan.run_into(&view, &mut out[..8 * shape[0]]).map_err(io::Error::other)?;
        let (words, _) = out[..8 * shape[0]].as_chunks::<8>();
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

struct Copy(File);

impl Sink for Copy {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        write_at(&self.0, at, bytes)
    }
}

fn plain(input: &Input, index: usize, threads: Option<usize>) -> Result<Plain<'_>, FileError> {
    match &input.tensors[index].place {
        Place::File(at, Items::PLAIN) => return Ok(Plain::File(&input.file, *at)),
        Place::Other(file, at, Items::PLAIN) => return Ok(Plain::File(file, *at)),
        _ => {}
    }
    let failed = |error| FileError::io(input.path(), "read", error);
    let copy = Copy(tempfile::tempfile().map_err(failed)?);
    // What is only put in order is looked at later.
    send(input, index, threads, &copy, &Meter::new(None, 0))?;
    Ok(Plain::Own(InputFile::temporary(input.path(), copy.0).map_err(failed)?))
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
        let values = Difference::Values { count: wrong.len() as u64, of, first, largest: 0.0 };
        return Ok((!wrong.is_empty()).then_some(values));
    }
    let bits = ours.data_type.bits().unwrap_or(8) as u64;
    let against = Against {
        other: plain(second, j, request.threads)?,
        plan: doubles(ours.data_type),
        tolerance: request.tolerance,
        len: of,
        bits,
        found: Mutex::new((0, u64::MAX, 0.0)),
    };
    send(first, i, request.threads, &against, meter)?;
    let (count, first, largest) = against.found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((count > 0).then_some(Difference::Values { count, of, first, largest }))
}

/// Compares elements with those of another tensor of the same type and shape.
struct Against<'a> {
    other: Plain<'a>,
    /// Numbers as doubles; `None` of complex ones, which are only compared bit by bit.
    plan: Option<Plan>,
    tolerance: Option<f64>,
    len: u64,
    bits: u64,
    /// How many differ, the first, and the largest distance.
    found: Mutex<(u64, u64, f64)>,
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
        let (mut count, mut first, mut largest) = (0, u64::MAX, 0.0f64);
        let mut differs = |index: usize, distance: f64| {
            count += 1;
            first = first.min(start + index as u64);
            largest = if distance > largest { distance } else { largest };
        };
        match &self.plan {
            Some(plan) => {
                // A chunk's elements are few.
                let mut doubles = vec![0.0; len];
                each_double(plan, bytes, len, |index, value| doubles[index] = value)?;
                let width = (self.bits / 8) as usize;
                each_double(plan, &there, len, |index, theirs| {
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
                        differs(index, distance);
                    }
                })?;
            }
            None => {
                let width = (self.bits / 8).max(1) as usize;
                let pairs = bytes.chunks_exact(width).zip(there.chunks_exact(width)).enumerate();
                pairs.filter(|(_, (ours, theirs))| ours != theirs).for_each(|(index, _)| differs(index, 0.0));
            }
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        *found = (found.0 + count, found.1.min(first), if largest > found.2 { largest } else { found.2 });
        Ok(())
    }
}
