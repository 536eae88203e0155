//! Two checkpoints compared tensor by tensor: bit by bit, or by the values that they stand for. Quantized weights are
//! computed part by part, and other numbers are taken as they are, whatever their types.

use super::plain_view::{Entry, PlainView};
use super::{DiffRequest, Difference, send};
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::counts::widen::{BLOCK, Widening};
use crate::counts::{Distance, Number, Numbers, exceeds_doubles, is_integer};
use crate::error::FileError;
use crate::formats::format::Format;
use crate::formats::input::{Input, Location};
use crate::formats::source::Items;
use crate::io::fs;
use crate::io::memory::resize;
use crate::io::positional::InputFile;
use crate::io::progress::Meter;
use crate::layouts::WeightValues;
use crate::pipeline::{self, Compute, InPlace, PipelineError, Scratch, Sink, Task, TaskInput};
use crate::selection::{admits, check_names};
use onnx_cast::DataType;
use onnx_cast::tensor::element_count;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Compares two checkpoints.
pub(super) fn diff(
    paths: [&Path; 2],
    checkpoints: [&Checkpoint; 2],
    request: &DiffRequest,
) -> Result<Vec<(String, Difference)>, FileError> {
    let view = |side: usize| match request.values {
        true => PlainView::new(paths[side], checkpoints[side]),
        false => Ok(PlainView::stored(checkpoints[side])),
    };
    let (first, second) = (view(0)?, view(1)?);
    let (mut ours, mut theirs) = (first.entries()?, second.entries()?);
    let names = ours.iter().chain(&theirs).map(|(name, _)| *name);
    check_names(&request.include, &request.exclude, names).map_err(|error| FileError::invalid(paths[0], error))?;
    for entries in [&mut ours, &mut theirs] {
        entries.retain(|(name, _)| admits(&request.include, &request.exclude, name));
    }
    let mut files = checkpoints.iter().flat_map(|checkpoint| &checkpoint.files);
    if ours.is_empty() && theirs.is_empty() && !files.clone().all(|input| input.format == Format::Onnx) {
        request.refuse_nothing(paths[0])?;
    }
    // Files of one tensor may give it no name, or any.
    let is_of_one = |input: &Input| !input.format.holds_many() && input.format != Format::Onnx;
    if let ([(name, _)], [(other, _)]) = (&ours[..], &mut theirs[..])
        && files.any(is_of_one)
    {
        *other = name;
    }
    let mut places: HashMap<&str, Entry<'_>> = theirs.iter().copied().collect();
    let types = |ours: Entry<'_>, theirs: Option<&Entry<'_>>| {
        // A global scale and its reciprocal are the same weights where their bfloat16 values are.
        if divides(ours).zip(theirs.and_then(|theirs| divides(*theirs))).is_some_and(|(ours, theirs)| ours != theirs) {
            return [DataType::BFloat16; 2];
        }
        let (ours, theirs) = (first.data_type(ours), theirs.and_then(|theirs| second.data_type(*theirs)));
        [ours.unwrap_or(computed_type(theirs)), theirs.unwrap_or(computed_type(ours))]
    };
    let bytes = |(name, entry): &(&str, Entry<'_>)| first.bytes(*entry, types(*entry, places.get(name))[0]);
    let meter = Meter::new(request.watch.as_ref(), ours.iter().map(bytes).sum());
    let mut differences = Vec::new();
    for (name, entry) in ours {
        let difference = match places.remove(name) {
            Some(other) => compare((&first, entry), (&second, other), types(entry, Some(&other)), request, &meter)?,
            None => Some(Difference::OnlyFirst),
        };
        differences.extend(difference.map(|difference| (name.to_owned(), difference)));
    }
    let only = theirs.iter().filter(|(name, _)| places.contains_key(name));
    differences.extend(only.map(|(name, _)| ((*name).to_owned(), Difference::OnlySecond)));
    Ok(differences)
}

/// Whether a weight of NVFP4 divides by its global scale; `None` if missing.
fn divides(entry: Entry<'_>) -> Option<bool> {
    match entry {
        Entry::Weight(weight) => weight.scales.globals.first().map(|global| global.divides()),
        Entry::StoredTensor(_) => None,
    }
}

/// The type that a quantized weight is computed in: that of what it is compared with, where weights have it.
fn computed_type(other: Option<DataType>) -> DataType {
    other.filter(|other| matches!(other, DataType::Float16 | DataType::BFloat16)).unwrap_or(DataType::Float)
}

fn compare(
    (first, ours): (&PlainView<'_>, Entry<'_>),
    (second, theirs): (&PlainView<'_>, Entry<'_>),
    types: [DataType; 2],
    request: &DiffRequest,
    meter: &Meter<'_>,
) -> Result<Option<Difference>, FileError> {
    let foreign = [first.foreign(ours), second.foreign(theirs)];
    let is_foreign = foreign.iter().any(Option::is_some);
    let type_names = [(first, ours), (second, theirs)].map(|(view, entry)| view.type_name(entry).to_owned());
    if is_foreign && type_names[0] != type_names[1] {
        let [ours, theirs] = type_names;
        return Ok(Some(Difference::ForeignType(ours, theirs)));
    }
    let read = Read::new(types);
    if types[0] != types[1] && (!request.values || matches!(read, Read::Bits)) {
        return Ok(Some(Difference::Type(types[0], types[1])));
    }
    let shapes = [first.shape(ours), second.shape(theirs)];
    if shapes[0] != shapes[1] {
        return Ok(Some(Difference::Shape(shapes[0].to_vec(), shapes[1].to_vec())));
    }
    let len = element_count(shapes[0]).unwrap_or(0) as u64;
    let mut tolerance = request.tolerance;
    match (ours, theirs) {
        (Entry::StoredTensor(i), Entry::StoredTensor(j)) if is_foreign => {
            let same = first.bytes(ours, types[0]) == second.bytes(theirs, types[1])
                && first.input(i).has_items_of(i.tensor, (second.input(j), j.tensor))?;
            return Ok((!same).then_some(Difference::Bytes));
        }
        (Entry::StoredTensor(i), Entry::StoredTensor(j)) if types[0] == DataType::String => {
            return compare_strings((first.input(i), i), (second.input(j), j), len);
        }
        (Entry::StoredTensor(_), Entry::StoredTensor(_)) if types[0] == types[1] => {}
        _ => tolerance = Some(tolerance.unwrap_or(0.0)),
    }
    let other = match theirs {
        Entry::StoredTensor(tensor) => Other::stored(second.input(tensor), tensor.tensor, request.threads)?,
        Entry::Weight(weight) => Other::Weight(Box::new(second.values(weight, types[1])?), Mutex::default()),
    };
    let against = Against { other, read, types, tolerance, len, found: Found::default() };
    match ours {
        Entry::StoredTensor(tensor) => send(first.input(tensor), tensor.tensor, request.threads, &against, meter)?,
        Entry::Weight(weight) => {
            let values = first.values(weight, types[0])?;
            let task = Task::keeping(TaskInput::Computed(&values, 0), len as usize, types[0], Items::PLAIN);
            let done = pipeline::run(&[task], request.threads, &against, &|bytes| meter.add(bytes));
            done.map_err(|(_, error)| first.error(weight, error))?;
        }
    }
    Ok(against.found.difference(len, types))
}

fn compare_strings(
    (first, i): (&Input, TensorRef),
    (second, j): (&Input, TensorRef),
    of: u64,
) -> Result<Option<Difference>, FileError> {
    let (mut count, mut place, mut index) = (0, None, 0);
    first.with_strings(i.tensor, &mut |ours| {
        second.with_strings(j.tensor, &mut |theirs| {
            while let (Some(ours), Some(theirs)) = (ours()?, theirs()?) {
                if ours != theirs {
                    count += 1;
                    place = place.or(Some(index));
                }
                index += 1;
            }
            Ok(())
        })
    })?;
    Ok(place.map(|first| Difference::Values { count, of, first, largest: Number::Float(0.0) }))
}

/// Source of the other elements.
enum Other<'a> {
    /// Packed elements in a file, from an offset on.
    Stored(InputFile, u64),
    /// Computed elements, with the memory of the threads that compute them.
    Weight(Box<WeightValues<'a>>, Mutex<Vec<Scratch>>),
}

impl Other<'_> {
    fn stored(input: &Input, index: usize, threads: Option<usize>) -> Result<Other<'static>, FileError> {
        match &input.tensors[index].place {
            Location::File(at, Items::PLAIN) => return Ok(Other::Stored(input.file.clone(), *at)),
            Location::Other(file, at, Items::PLAIN) => return Ok(Other::Stored(InputFile::clone(file), *at)),
            _ => {}
        }
        let failed = |error| FileError::io(input.path(), "read", error);
        let copy = fs::tempfile().map_err(failed)?;
        // Progress counts the comparison, not this copy.
        send(input, index, threads, &InPlace(&copy), &Meter::new(None, 0))?;
        Ok(Other::Stored(InputFile::temporary(input.path(), copy).map_err(failed)?, 0))
    }

    /// Reads elements, starting with one.
    fn read(&self, data_type: DataType, start: usize, len: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        let size = data_type.byte_len(len).and_then(|size| resize(bytes, size));
        size.ok_or(io::ErrorKind::OutOfMemory)?;
        match self {
            Other::Stored(file, at) => file.read_at(at + data_type.byte_len(start).unwrap_or(0) as u64, bytes),
            Other::Weight(values, memory) => {
                let lock = || memory.lock().unwrap_or_else(PoisonError::into_inner);
                let mut scratch = lock().pop().unwrap_or_default();
                let done = values.compute(start, len, &mut scratch, bytes);
                lock().push(scratch);
                done.map_err(|error| match error {
                    PipelineError::Read(error) | PipelineError::Write(error) => error,
                    PipelineError::Cast(error) => io::Error::other(error),
                    PipelineError::Stopped => io::ErrorKind::Interrupted.into(),
                })
            }
        }
    }
}

/// What was found to differ, by any number of threads.
#[derive(Debug, Default)]
struct Found(Mutex<Differences>);

/// How many elements differ, the first, and the largest distance: of doubles, and of integers that these do not hold.
#[derive(Clone, Copy, Debug, Default)]
struct Differences {
    count: u64,
    first: Option<u64>,
    largest: f64,
    exact: Distance,
}

impl Differences {
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
    fn add(&self, apart: Differences) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = all.first.into_iter().chain(apart.first).min();
        let exact = if apart.exact > all.exact { apart.exact } else { all.exact };
        *all = Differences { count: all.count + apart.count, first, largest: all.largest.max(apart.largest), exact };
    }

    fn difference(self, of: u64, types: [DataType; 2]) -> Option<Difference> {
        let Differences { count, first, largest, exact } = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
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

/// How elements of two types are compared.
enum Read {
    /// As doubles, which tell all of them apart but NaN.
    Doubles([Widening; 2]),
    /// As integers, because doubles cannot represent all of them.
    Integers([Numbers; 2]),
    /// Only bit by bit: complex numbers.
    Bits,
}

impl Read {
    fn new(types: [DataType; 2]) -> Read {
        let [ours, theirs] = types.map(|data_type| Numbers::new(data_type).ok());
        let numbers = ours.zip(theirs).filter(|_| types.into_iter().any(exceeds_doubles));
        let [ours, theirs] = types.map(|data_type| Widening::new(data_type, DataType::Double).ok());
        let doubles = ours.zip(theirs).map(|(ours, theirs)| Read::Doubles([ours, theirs]));
        numbers.map(|(ours, theirs)| Read::Integers([ours, theirs])).or(doubles).unwrap_or(Read::Bits)
    }
}

/// Compares elements with those of another tensor of the same shape.
struct Against<'a> {
    other: Other<'a>,
    read: Read,
    types: [DataType; 2],
    /// Compare bits if this is `None`; then the types are the same.
    tolerance: Option<f64>,
    len: u64,
    found: Found,
}

impl Sink for Against<'_> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let bits = self.types[0].bits().unwrap_or(8) as u64;
        let start = at * 8 / bits;
        let len = (bytes.len() as u64 * 8 / bits).min(self.len - start) as usize;
        let mut there = Vec::new();
        self.other.read(self.types[1], start as usize, len, &mut there)?;
        if self.types[0] == self.types[1] && there == bytes {
            return Ok(());
        }
        let width = (bits / 8) as usize;
        let mut apart = Differences::default();
        match &self.read {
            Read::Doubles([ours, theirs]) => {
                // A chunk's elements are few.
                let mut doubles = vec![0.0; len];
                each_double(ours, bytes, len, |index, value| doubles[index] = value)?;
                each_double(theirs, &there, len, |index, theirs| {
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
                each_pair(numbers, [bytes, &there], len, |index, distance| {
                    if !distance.is_some_and(|distance| distance.is_within(tolerance)) {
                        apart.see_exactly(start + index as u64, distance);
                    }
                })?;
            }
            Read::Bits => {
                let pairs = bytes.chunks_exact(width.max(1)).zip(there.chunks_exact(width.max(1))).enumerate();
                let wrong = pairs.filter(|(_, (ours, theirs))| ours != theirs);
                wrong.for_each(|(index, _)| apart.see(start + index as u64, 0.0));
            }
        }
        self.found.add(apart);
        Ok(())
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

/// How far the elements of two tensors are apart, one by one; `None` where one of the two is NaN.
fn each_pair(
    numbers: &[Numbers; 2],
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
