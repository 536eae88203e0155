//! What casts to several types would do to the tensors of a file, before any is done: each chunk is read once, and cast to
//! every candidate type block by block, both sides in the nearest cache. Nothing is kept but counts, sums and histograms.

mod measure;
mod verdict;

use crate::counts::{Counter, Counts};
use crate::error::FileError;
use crate::flow::{self, Sink, Task};
use crate::format::Format;
use crate::input::{Input, Stored};
use crate::inspect::{self, Files};
use crate::selection::{Pattern, Selection};
use crate::watch::{Meter, Watch};
use crate::widen::{BLOCK, Widening, hub};
use measure::{Errors, FIRST, Histogram, POWERS, Sums, doubles, floats};
use onnx_cast::{Cast, CastError, CastOptions, DataType, OpError, Plan, TensorError, TensorView};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub use verdict::{Concern, Grade};

/// What is to be compared.
#[derive(Clone, Debug, Default)]
pub struct ReportRequest {
    /// The candidate types.
    pub to: Vec<DataType>,
    /// Names of tensors to look at; all of them where this is empty.
    pub include: Vec<Pattern>,
    /// Names of tensors to leave out.
    pub exclude: Vec<Pattern>,
    /// The fewest elements of a tensor that is looked at.
    pub min_size: u64,
    /// The opset and the operator's attributes.
    pub options: CastOptions,
    /// The type of elements that do not tell theirs.
    pub from: Option<DataType>,
    /// Who is told how far the work is.
    pub watch: Option<Watch>,
}

/// What casts would do to the tensors of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The candidate types, as they were given.
    pub to: Vec<DataType>,
    /// The tensors that were looked at, in the order of the file.
    pub tensors: Vec<TensorReport>,
    /// How many others there are: of types that are not cast by themselves, or left out by name or size.
    pub others: usize,
}

/// A tensor, and what would become of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorReport {
    /// Its name; empty where there is none.
    pub name: String,
    /// Its element type.
    pub data_type: DataType,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Bytes of its elements, packed as ONNX packs them.
    pub bytes: u64,
    /// Values in all.
    pub values: u64,
    /// Zeros of either sign.
    pub zeros: u64,
    /// Infinities.
    pub infinities: u64,
    /// NaN.
    pub nan: u64,
    /// The smallest finite magnitude other than zero, if there is one.
    pub smallest: Option<f64>,
    /// The largest.
    pub largest: Option<f64>,
    /// How many finite values other than zero there are of each power of two.
    pub magnitudes: Magnitudes,
    /// What each type would make of it.
    pub candidates: Vec<Candidate>,
}

/// A histogram of magnitudes by power of two.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Magnitudes {
    /// The power of two that the first count is for: of magnitudes from 2^first up to twice that.
    pub first: i32,
    /// The counts; neither the first nor the last is zero.
    pub counts: Vec<u64>,
}

/// What a cast to one type would make of a tensor.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// The type.
    pub to: DataType,
    /// Bytes that the elements would take.
    pub bytes: u64,
    /// What would become of the values.
    pub counts: Counts,
    /// The mean relative error of the values of each power of two, beside [`TensorReport::magnitudes`]. Here a value that
    /// becomes infinite or NaN has an error of 1.
    pub error_by_power: Vec<f64>,
    sums: Sums,
}

impl Candidate {
    /// The mean distance between a finite value and a finite result, if there are any.
    pub fn mean_error(&self) -> Option<f64> {
        mean_error(&self.sums)
    }

    /// The mean of such distances divided by the value, over values other than zero.
    pub fn mean_relative_error(&self) -> Option<f64> {
        mean_relative_error(&self.sums)
    }

    /// The ratio of signal to noise in dB: ten times the decimal logarithm of the sum of the squares of the values, divided
    /// by that of the errors, where both are finite. `None` without an error, and where squares leave the range of doubles.
    pub fn snr(&self) -> Option<f64> {
        snr(&self.sums)
    }
}

fn mean_error(sums: &Sums) -> Option<f64> {
    (sums.compared > 0).then(|| sums.error / sums.compared as f64).filter(|mean| mean.is_finite())
}

fn mean_relative_error(sums: &Sums) -> Option<f64> {
    (sums.nonzero > 0).then(|| sums.relative / sums.nonzero as f64).filter(|mean| mean.is_finite())
}

fn snr(sums: &Sums) -> Option<f64> {
    Some(10.0 * (sums.signal / sums.noise).log10()).filter(|snr| snr.is_finite())
}

/// What a cast of all tensors to one type would do.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Totals {
    /// Tensors.
    pub tensors: usize,
    /// Bytes of their elements.
    pub bytes_before: u64,
    /// Bytes that they would take.
    pub bytes_after: u64,
    /// What would become of the values, and the largest errors.
    pub counts: Counts,
    /// As [`Candidate::mean_error`], of all values.
    pub mean_error: Option<f64>,
    /// As [`Candidate::mean_relative_error`], of all values.
    pub mean_relative_error: Option<f64>,
    /// As [`Candidate::snr`], of all values.
    pub snr: Option<f64>,
    /// How many tensors have each grade, in the order of [`Grade::ALL`].
    pub grades: [usize; 4],
    /// How many tensors have each concern, in the order of [`Concern::ALL`].
    pub concerns: [usize; 4],
}

impl Report {
    /// The sums over the tensors that have this candidate.
    pub fn totals(&self, to: DataType) -> Totals {
        let mut totals = Totals::default();
        let mut sums = Sums::default();
        for tensor in &self.tensors {
            let Some(candidate) = tensor.candidates.iter().find(|candidate| candidate.to == to) else { continue };
            totals.tensors += 1;
            totals.bytes_before += tensor.bytes;
            totals.bytes_after += candidate.bytes;
            totals.counts.add(&candidate.counts);
            sums.add(&candidate.sums);
            let (grade, concerns) = (candidate.grade(), candidate.concerns());
            let grades = Grade::ALL.iter().zip(&mut totals.grades);
            grades.for_each(|(known, count)| *count += usize::from(*known == grade));
            let all = Concern::ALL.iter().zip(&mut totals.concerns);
            all.for_each(|(known, count)| *count += usize::from(concerns.contains(known)));
        }
        totals.mean_error = mean_error(&sums);
        totals.mean_relative_error = mean_relative_error(&sums);
        totals.snr = snr(&sums);
        totals
    }
}

/// Finds out what casts to each of several types would do to the tensors of a file, of a model (its constants), of a
/// checkpoint in several files, or of the standard input (`-`), reading each once. A tensor has the candidates that
/// [`Selection::target`] would cast it to; the tensor of a file of one has all.
///
/// # Errors
/// Where a file cannot be read or is not valid, or a candidate is no type of numbers.
pub fn report(path: impl AsRef<Path>, request: &ReportRequest) -> Result<Report, FileError> {
    let options = CastOptions { threads: Some(1), ..request.options };
    for &to in &request.to {
        if !to.is_numeric() {
            return Err(FileError::Candidate { to });
        }
        Cast::new(to, &options).map_err(|error| FileError::Operator { error })?;
    }
    let files = Files::of(path.as_ref())?;
    let opened = files.paths.iter().map(|path| Files::open(path, request.from)).collect::<Result<Vec<_>, _>>()?;
    let one = opened.len() == 1 && opened.iter().all(|(input, _)| input.tensors.len() == 1);
    let mut surveys = Vec::with_capacity(opened.len());
    for (input, _) in &opened {
        surveys.push(Survey::new(input, request, &options, one && input.format != Format::Onnx)?);
    }
    let meter = Meter::new(request.watch.as_ref(), surveys.iter().map(Survey::bytes).sum());
    let mut report = Report { to: request.to.clone(), tensors: Vec::new(), others: 0 };
    for survey in surveys {
        survey.run(&meter)?;
        report.others += survey.input.tensors.len() - survey.places.len();
        report.tensors.extend(survey.finish());
    }
    Ok(report)
}

/// The tensors of a file that are looked at, as if their elements stood one behind another.
struct Survey<'a> {
    input: &'a Input,
    places: Vec<Looked<'a>>,
}

/// A tensor that is looked at.
struct Looked<'a> {
    stored: &'a Stored,
    index: usize,
    /// Where its elements start among those of all.
    start: u64,
    own: Widening,
    /// To double, for the candidates that need it.
    double: Widening,
    casts: Vec<(Plan, Counter)>,
    state: Mutex<State>,
}

/// What is known of a tensor so far. Chunks are added in order, so that no sum depends on which thread was faster.
#[derive(Default)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Part>,
    so_far: Option<Part>,
    done: Option<Done>,
}

/// What is known of some of a tensor's values.
struct Part {
    len: u64,
    histogram: Histogram,
    extremes: (f64, f64),
    candidates: Vec<(Counts, Errors)>,
}

/// What there is to say of a tensor, without the tables.
#[derive(Default)]
struct Done {
    special: [u64; 3],
    extremes: Option<(f64, f64)>,
    magnitudes: Magnitudes,
    candidates: Vec<(Counts, Sums, Vec<f64>)>,
}

/// A worker's memory for a chunk.
#[derive(Default)]
struct Buffers {
    own: Vec<u8>,
    wide: Vec<u8>,
    result: Vec<u8>,
    result_wide: Vec<u8>,
    places: Vec<u16>,
    floats: Vec<f32>,
    doubles: Vec<f64>,
}

impl<'a> Survey<'a> {
    fn new(input: &'a Input, request: &ReportRequest, options: &CastOptions, one: bool) -> Result<Self, FileError> {
        let ReportRequest { to, include, exclude, min_size, .. } = request;
        let (include, exclude) = (include.clone(), exclude.clone());
        let mut selection = Selection { include, exclude, min_size: *min_size, ..Selection::default() };
        let mut places = Vec::new();
        let mut start = 0;
        for (index, stored) in input.tensors.iter().enumerate() {
            let Stored { name, data_type: from, len, .. } = stored;
            let mut targets = Vec::new();
            for &to in to {
                selection.to = Some(to);
                let target = match one && *from != DataType::String {
                    true => selection.target_of_one(name, *len as u64),
                    false => selection.target(name, *from, *len as u64),
                };
                // Integer constants of models are shapes, axes and indices.
                targets.extend(target.filter(|_| from.is_float() || input.format != Format::Onnx));
            }
            if !targets.is_empty() {
                let looked = Looked::new(stored, index, start, &targets, options);
                places.push(looked.map_err(|error| input.cast_error(name, error.into()))?);
                start += stored.bytes();
            }
        }
        Ok(Survey { input, places })
    }

    fn bytes(&self) -> u64 {
        self.places.iter().map(|looked| looked.stored.bytes()).sum()
    }

    /// Looks at all of them.
    fn run(&self, meter: &Meter<'_>) -> Result<(), FileError> {
        let progress = |bytes| meter.add(bytes);
        let at = |looked: &Looked<'a>| Some(Task { to: looked.start, ..self.input.task(looked.stored)? });
        let (ready, others): (Vec<_>, Vec<_>) = self.places.iter().partition(|looked| at(looked).is_some());
        let tasks: Vec<Task<'_>> = ready.iter().filter_map(|looked| at(looked)).collect();
        flow::run(&tasks, None, self, &progress)
            .map_err(|(task, trouble)| inspect::failed(self.input, ready[task].stored, trouble))?;
        for looked in others {
            self.input.with_task(looked.index, |task| {
                let task = Task { to: looked.start, ..task };
                flow::run(&[task], None, self, &progress)
                    .map_err(|(_, trouble)| inspect::failed(self.input, looked.stored, trouble))
            })?;
        }
        Ok(())
    }

    fn finish(self) -> Vec<TensorReport> {
        self.places.into_iter().map(Looked::finish).collect()
    }
}

impl Sink for Survey<'_> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        // The last that starts here or before; those without elements start where the next does.
        let index = self.places.partition_point(|looked| looked.start <= at);
        match self.places.get(index.wrapping_sub(1)) {
            Some(looked) => looked.look(at - looked.start, bytes).map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

impl<'a> Looked<'a> {
    fn new(
        stored: &'a Stored,
        index: usize,
        start: u64,
        targets: &[DataType],
        options: &CastOptions,
    ) -> Result<Self, OpError> {
        let from = stored.data_type;
        let (own, double) = (Widening::new(from, hub(from))?, Widening::new(from, DataType::Double)?);
        let cast = |&to: &DataType| Ok((Cast::new(to, options)?.plan(from)?, Counter::new(from, to)?));
        let casts = targets.iter().map(cast).collect::<Result<_, OpError>>()?;
        Ok(Looked { stored, index, start, own, double, casts, state: Mutex::default() })
    }

    /// Takes a chunk of elements, which starts at this byte.
    fn look(&self, at: u64, bytes: &[u8]) -> Result<(), CastError> {
        let from = self.stored.data_type;
        let bits = from.bits().unwrap_or(8) as u64;
        let first = at * 8 / bits;
        let len = (bytes.len() as u64 * 8 / bits).min(self.stored.len as u64 - first);
        let part = self.measure(bytes, len as usize)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { next, waiting, so_far, done } = &mut *state;
        waiting.insert(first, part);
        while let Some(part) = waiting.remove(next) {
            *next += part.len;
            match so_far {
                Some(so_far) => so_far.add(&part),
                None => *so_far = Some(part),
            }
        }
        if *next == self.stored.len as u64 {
            *done = so_far.take().map(Part::finish);
        }
        Ok(())
    }

    fn measure(&self, bytes: &[u8], len: usize) -> Result<Part, CastError> {
        let from = self.stored.data_type;
        let mut part = Part {
            len: len as u64,
            histogram: Histogram::new(),
            extremes: (f64::INFINITY, 0.0),
            candidates: self.casts.iter().map(|_| (Counts::default(), Errors::new())).collect(),
        };
        let mut buffers = Buffers::default();
        let Buffers { own, wide, result, result_wide, places, floats, doubles } = &mut buffers;
        let size = |data_type: DataType, len| {
            let too_large = || TensorError::TooLarge { data_type, shape: vec![len] };
            data_type.byte_len(len).ok_or_else(too_large)
        };
        for start in (0..len).step_by(BLOCK) {
            let block = start..len.min(start + BLOCK);
            let (count, shape) = (block.len(), [block.len()]);
            // Blocks start at multiples of 8 elements, and so at whole bytes.
            let place = size(from, start)?;
            let elements = bytes.get(place..place + size(from, count)?).unwrap_or_default();
            let values = self.own.block(bytes, block.clone(), own)?;
            let (smallest, largest) = if self.own.to == DataType::Float {
                floats::places(values.as_chunks().0, places);
                floats::extremes(values.as_chunks().0)
            } else {
                doubles::places(values.as_chunks().0, places);
                doubles::extremes(values.as_chunks().0)
            };
            part.histogram.see(places);
            part.extremes = (part.extremes.0.min(smallest), part.extremes.1.max(largest));
            let mut widened = false;
            for ((plan, counter), (counts, errors)) in self.casts.iter().zip(&mut part.candidates) {
                let source = if counter.hub() == self.own.to {
                    values
                } else {
                    if !widened {
                        // Where it is double already, the hub is too.
                        self.double.block(bytes, block.clone(), wide)?;
                        widened = true;
                    }
                    &wide[..]
                };
                result.resize(size(plan.to(), count)?, 0);
                plan.run_into(&TensorView::new(from, &shape, elements)?, result)?;
                let result = counter.widen_result(result, count, result_wide)?;
                counter.compare(source, result, counts);
                if counter.hub() == DataType::Float {
                    floats::errors(source.as_chunks().0, result.as_chunks().0, places, floats, errors);
                } else {
                    doubles::errors(source.as_chunks().0, result.as_chunks().0, places, doubles, errors);
                }
            }
        }
        Ok(part)
    }

    fn finish(self) -> TensorReport {
        let Looked { stored, casts, state, .. } = self;
        let done = state.into_inner().unwrap_or_else(PoisonError::into_inner).done;
        // A tensor without elements is never seen.
        let Done { special: [zeros, infinities, nan], extremes, magnitudes, mut candidates } = done.unwrap_or_default();
        candidates.resize_with(casts.len(), Default::default);
        let candidates = casts.iter().zip(candidates).map(|((plan, _), (counts, sums, error_by_power))| {
            let bytes = plan.to().byte_len(stored.len).unwrap_or(0) as u64;
            Candidate { to: plan.to(), bytes, counts, error_by_power, sums }
        });
        TensorReport {
            name: stored.name.clone(),
            data_type: stored.data_type,
            shape: stored.shape.clone(),
            bytes: stored.bytes(),
            values: stored.len as u64,
            zeros,
            infinities,
            nan,
            smallest: extremes.map(|(smallest, _)| smallest),
            largest: extremes.map(|(_, largest)| largest),
            magnitudes,
            candidates: candidates.collect(),
        }
    }
}

impl Part {
    fn add(&mut self, other: &Part) {
        self.len += other.len;
        self.histogram.add(&other.histogram);
        self.extremes = (self.extremes.0.min(other.extremes.0), self.extremes.1.max(other.extremes.1));
        for ((counts, errors), (more, theirs)) in self.candidates.iter_mut().zip(&other.candidates) {
            counts.add(more);
            errors.add(theirs);
        }
    }

    fn finish(self) -> Done {
        let powers = self.histogram.powers();
        let there = |count: &u64| *count > 0;
        let (first, last) = (powers.iter().position(there), powers.iter().rposition(there));
        let range = first.zip(last).map_or(0..0, |(first, last)| first..last + 1);
        debug_assert!(range.end <= POWERS);
        let candidates = self.candidates.into_iter().map(|(counts, errors)| {
            let mean = |power| if powers[power] == 0 { 0.0 } else { errors.of(power) / powers[power] as f64 };
            (counts, errors.sums, range.clone().map(mean).collect())
        });
        Done {
            special: self.histogram.special(),
            extremes: (!range.is_empty()).then_some(self.extremes),
            magnitudes: Magnitudes { first: FIRST + range.start as i32, counts: powers[range.clone()].to_vec() },
            candidates: candidates.collect(),
        }
    }
}
