//! Two tensors of one type and shape, compared element by element.

use super::{DiffRequest, Difference, send};
use crate::counts::widen::{BLOCK, Widening};
use crate::counts::{Distance, Number, Numbers, exceeds_doubles, is_integer};
use crate::error::FileError;
use crate::formats::input::{Input, Location, StoredTensor};
use crate::formats::source::Items;
use crate::io::fs;
use crate::io::memory::zeros;
use crate::io::positional::InputFile;
use crate::io::progress::Meter;
use crate::pipeline::{InPlace, Sink};
use onnx_cast::DataType;
use std::io;
use std::sync::{Mutex, PoisonError};

/// The values of elements as doubles, a few at a time.
pub(super) fn each_double(
    doubles: &Widening,
    bytes: &[u8],
    len: usize,
    mut see: impl FnMut(usize, f64),
) -> io::Result<()> {
    let mut out = Vec::new();
    for start in (0..len).step_by(BLOCK) {
        let block = doubles.block(bytes, start..len.min(start + BLOCK), &mut out).map_err(io::Error::other)?;
        let (words, _) = block.as_chunks::<8>();
        words.iter().enumerate().for_each(|(i, word)| see(start + i, f64::from_le_bytes(*word)));
    }
    Ok(())
}

/// The elements of a tensor where they can be read at any place as this library has them.
pub(super) enum Plain<'a> {
    File(&'a InputFile, u64),
    Own(InputFile),
}

impl Plain<'_> {
    pub(super) fn read_at(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Plain::File(file, start) => file.read_at(start + at, bytes),
            Plain::Own(file) => file.read_at(at, bytes),
        }
    }
}

pub(super) fn plain(input: &Input, index: usize, threads: Option<usize>) -> Result<Plain<'_>, FileError> {
    match &input.tensors[index].place {
        Location::File(at, Items::PLAIN) => return Ok(Plain::File(&input.file, *at)),
        Location::Other(file, at, Items::PLAIN) => return Ok(Plain::File(file, *at)),
        _ => {}
    }
    let failed = |error| FileError::io(input.path(), "read", error);
    let copy = fs::tempfile().map_err(failed)?;
    // What is only put in order is looked at later.
    send(input, index, threads, &InPlace(&copy), &Meter::new(None, 0))?;
    Ok(Plain::Own(InputFile::temporary(input.path(), copy).map_err(failed)?))
}

pub(super) fn compare(
    (first, i): (&Input, usize),
    (second, j): (&Input, usize),
    request: &DiffRequest,
    meter: &Meter<'_>,
) -> Result<Option<Difference>, FileError> {
    let (ours, theirs) = (&first.tensors[i], &second.tensors[j]);
    if let Some(types) = foreign_types(ours, theirs) {
        return Ok(Some(types));
    }
    if ours.data_type != theirs.data_type {
        return Ok(Some(Difference::Type(ours.data_type, theirs.data_type)));
    }
    if ours.shape != theirs.shape {
        return Ok(Some(Difference::Shape(ours.shape.clone(), theirs.shape.clone())));
    }
    let of = ours.len as u64;
    if ours.foreign().is_some() {
        let same = ours.bytes() == theirs.bytes() && first.has_items_of(i, (second, j))?;
        return Ok((!same).then_some(Difference::Bytes));
    }
    if ours.data_type == DataType::String {
        let (mut count, mut place, mut index) = (0, None, 0);
        first.with_strings(i, &mut |ours| {
            second.with_strings(j, &mut |theirs| {
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
        let values = |first| Difference::Values { count, of, first, largest: Number::Float(0.0) };
        return Ok(place.map(values));
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

/// Different types, at least one of which ONNX lacks.
fn foreign_types(ours: &StoredTensor, theirs: &StoredTensor) -> Option<Difference> {
    let name = |stored: &StoredTensor| {
        stored.foreign().map_or_else(|| stored.data_type.name().to_owned(), |(descr, _)| descr.to_owned())
    };
    let any = [ours, theirs].iter().any(|stored| stored.foreign().is_some());
    let (ours, theirs) = (name(ours), name(theirs));
    (any && ours != theirs).then_some(Difference::ForeignType(ours, theirs))
}

/// What was found to differ, by any number of threads.
#[derive(Debug, Default)]
pub(super) struct Found(Mutex<Differences>);

/// How many elements differ, the first, and the largest distance: of doubles, and of integers that these do not hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Differences {
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
    pub(super) fn see(&mut self, index: u64, distance: f64) {
        self.note(index);
        self.largest = if distance > self.largest { distance } else { self.largest };
    }

    pub(super) fn see_exactly(&mut self, index: u64, distance: Option<Distance>) {
        self.note(index);
        self.exact = distance.filter(|distance| *distance > self.exact).unwrap_or(self.exact);
    }
}

impl Found {
    pub(super) fn add(&self, apart: Differences) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = all.first.into_iter().chain(apart.first).min();
        let exact = if apart.exact > all.exact { apart.exact } else { all.exact };
        *all = Differences { count: all.count + apart.count, first, largest: all.largest.max(apart.largest), exact };
    }

    pub(super) fn difference(self, of: u64, types: [DataType; 2]) -> Option<Difference> {
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
        let mut apart = Differences::default();
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
pub(super) fn each_pair(
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
