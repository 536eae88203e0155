//! Two checkpoints compared by the values that they stand for: quantized weights are computed part by part, and other
//! numbers are taken as they are, whatever their types.

use super::compare::{Differences, Found, Plain, compare as compare_stored, each_double, each_pair, plain};
use super::plain_view::{Entry, PlainView};
use super::{DiffRequest, Difference, send};
use crate::checkpoint::Checkpoint;
use crate::counts::widen::Widening;
use crate::counts::{Numbers, exceeds_doubles};
use crate::error::FileError;
use crate::formats::source::Items;
use crate::io::memory::resize;
use crate::io::progress::Meter;
use crate::layouts::WeightValues;
use crate::pipeline::{self, Compute, PipelineError, Scratch, Sink, Task, TaskInput};
use crate::selection::{admits, check_names};
use onnx_cast::DataType;
use onnx_cast::tensor::element_count;
use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Compares two checkpoints tensor by tensor, by name and value.
pub(super) fn diff(
    paths: [&Path; 2],
    [first, second]: [&Checkpoint; 2],
    request: &DiffRequest,
) -> Result<Vec<(String, Difference)>, FileError> {
    let (first, second) = (PlainView::new(paths[0], first)?, PlainView::new(paths[1], second)?);
    let (mut ours, mut theirs) = (first.entries()?, second.entries()?);
    let names = ours.iter().chain(&theirs).map(|(name, _)| *name);
    check_names(&request.include, &request.exclude, names).map_err(|error| FileError::invalid(paths[0], error))?;
    for entries in [&mut ours, &mut theirs] {
        entries.retain(|(name, _)| admits(&request.include, &request.exclude, name));
    }
    if ours.is_empty() && theirs.is_empty() {
        request.refuse_nothing(paths[0])?;
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
    let doubles = types.map(|data_type| Widening::new(data_type, DataType::Double).ok());
    let foreign = [first.foreign(ours), second.foreign(theirs)];
    let is_foreign = foreign.iter().any(Option::is_some);
    if let (Entry::StoredTensor(i), Entry::StoredTensor(j)) = (ours, theirs)
        && (types[0] == types[1] || is_foreign || doubles.iter().any(Option::is_none))
    {
        return compare_stored((first.input(i), i.tensor), (second.input(j), j.tensor), request, meter);
    }
    if is_foreign {
        let [ours, theirs] = foreign.map(|descr| descr.unwrap_or("quantized").to_owned());
        return Ok(Some(Difference::ForeignType(ours, theirs)));
    }
    let shapes = [first.shape(ours), second.shape(theirs)];
    if shapes[0] != shapes[1] {
        return Ok(Some(Difference::Shape(shapes[0].to_vec(), shapes[1].to_vec())));
    }
    let [Some(our_doubles), Some(their_doubles)] = doubles else {
        return Ok(Some(Difference::Type(types[0], types[1])));
    };
    let len = element_count(shapes[0]).unwrap_or(0);
    let other = match theirs {
        Entry::StoredTensor(tensor) => {
            Other::StoredTensor(plain(second.input(tensor), tensor.tensor, request.threads)?)
        }
        Entry::Weight(weight) => Other::Weight(Box::new(second.values(weight, types[1])?), Mutex::default()),
    };
    let [our_numbers, their_numbers] = types.map(|data_type| Numbers::new(data_type).ok());
    let exact = our_numbers.zip(their_numbers).filter(|_| types.into_iter().any(exceeds_doubles));
    let against = Against {
        other,
        doubles: [our_doubles, their_doubles],
        types,
        tolerance: request.tolerance.unwrap_or(0.0),
        exact: exact.map(|(ours, theirs)| [ours, theirs]),
        len: len as u64,
        found: Found::default(),
    };
    match ours {
        Entry::StoredTensor(tensor) => send(first.input(tensor), tensor.tensor, request.threads, &against, meter)?,
        Entry::Weight(weight) => {
            let values = first.values(weight, types[0])?;
            let task = Task::keeping(TaskInput::Computed(&values, 0), len, types[0], Items::PLAIN);
            let done = pipeline::run(&[task], request.threads, &against, &|bytes| meter.add(bytes));
            done.map_err(|(_, error)| first.error(weight, error))?;
        }
    }
    Ok(against.found.difference(len as u64, types))
}

/// Where the other elements come from.
enum Other<'a> {
    StoredTensor(Plain<'a>),
    /// With the memory of those that compute it.
    Weight(Box<WeightValues<'a>>, Mutex<Vec<Scratch>>),
}

impl Other<'_> {
    /// Elements from one on.
    fn read(&self, data_type: DataType, start: usize, len: usize, bytes: &mut Vec<u8>) -> io::Result<()> {
        let size = data_type.byte_len(len).and_then(|size| resize(bytes, size));
        size.ok_or(io::ErrorKind::OutOfMemory)?;
        match self {
            Other::StoredTensor(plain) => plain.read_at(data_type.byte_len(start).unwrap_or(0) as u64, bytes),
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

/// Compares numbers of one type with those of another tensor of the same shape.
struct Against<'a> {
    other: Other<'a>,
    types: [DataType; 2],
    doubles: [Widening; 2],
    tolerance: f64,
    len: u64,
    /// How integers are read that doubles do not hold, where there are any.
    exact: Option<[Numbers; 2]>,
    found: Found,
}

impl Sink for Against<'_> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let bits = self.types[0].bits().unwrap_or(8) as u64;
        let start = at * 8 / bits;
        let len = (bytes.len() as u64 * 8 / bits).min(self.len - start) as usize;
        let mut there = Vec::new();
        self.other.read(self.types[1], start as usize, len, &mut there)?;
        let mut apart = Differences::default();
        if let Some([ours, theirs]) = &self.exact {
            each_pair([ours, theirs], [bytes, &there], len, |index, distance| {
                if !distance.is_some_and(|distance| distance.is_within(self.tolerance)) {
                    apart.see_exactly(start + index as u64, distance);
                }
            })?;
            self.found.add(apart);
            return Ok(());
        }
        let mut doubles = vec![0.0; len];
        each_double(&self.doubles[0], bytes, len, |index, value| doubles[index] = value)?;
        each_double(&self.doubles[1], &there, len, |index, theirs| {
            let ours = doubles[index];
            let distance = (ours - theirs).abs();
            if !(distance <= self.tolerance || ours == theirs || ours.is_nan() && theirs.is_nan()) {
                apart.see(start + index as u64, distance);
            }
        })?;
        self.found.add(apart);
        Ok(())
    }
}
