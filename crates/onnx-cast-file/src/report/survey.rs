//! The tensors that are looked at: a sink for the chunks of a flow, which takes each chunk's part of what there is to
//! say and adds the parts of a tensor in order, so that no sum depends on which thread was faster.

use super::part::{Done, Measure, Outcome, Part, Scales};
use super::{Candidate, CandidateFormat, ReportRequest, TensorReport};
use crate::io::progress::Meter;
use crate::layouts::Layout;
use crate::loaders::Rules;
use crate::pipeline::{self, Amax, PipelineError, Sink, Task};
use onnx_cast::ops::OpError;
use onnx_cast::{CastError, DataType};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Tensors, as if their elements stood one behind another.
#[derive(Default)]
pub(super) struct Survey {
    places: Vec<Surveyed>,
    bytes: u64,
}

/// Shares the scale of a tensor, and NVFP4's, among those that the loaders of a layout join, as `quantize` does. All
/// tensors then have to be seen before the first is looked at.
pub(super) fn join(surveys: &mut [Survey], layout: Layout, rules: &Rules) {
    if !layout.is_joined() {
        return;
    }
    let names = surveys.iter().flat_map(|survey| &survey.places).filter(|tensor| tensor.shape.len() == 2);
    let joined = rules.joined(names.filter_map(|tensor| tensor.name.strip_suffix(".weight")));
    let mut groups = HashMap::<(&String, DataType), Vec<&mut Measure>>::new();
    for tensor in surveys.iter_mut().flat_map(|survey| &mut survey.places) {
        let module = tensor.name.strip_suffix(".weight").filter(|_| tensor.shape.len() == 2);
        if let Some(group) =
            module.and_then(|module| joined.group(module)).filter(|_| tensor.measure.has_scale_of_tensor())
        {
            groups.entry((group, tensor.data_type)).or_default().push(&mut tensor.measure);
        }
    }
    for ((_, data_type), group) in groups.into_iter().filter(|(_, group)| group.len() > 1) {
        let amax = Arc::new(Amax::of_all(data_type));
        group.into_iter().for_each(|measure| measure.share_scale(&amax));
    }
}

/// What is known of a tensor before it is read.
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) data_type: DataType,
    pub(super) shape: &'a [usize],
    pub(super) len: usize,
}

/// A tensor that is looked at.
struct Surveyed {
    /// Where it stands among those of its file.
    index: usize,
    name: String,
    data_type: DataType,
    shape: Vec<usize>,
    len: usize,
    bytes: u64,
    /// Where its elements start among those of all.
    start: u64,
    measure: Measure,
    state: Mutex<State>,
}

/// What is known of its values so far.
#[derive(Default)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Part>,
    so_far: Option<Part>,
    done: Option<Done>,
}

impl Survey {
    /// Adds a tensor with its candidates, if any.
    pub(super) fn add(
        &mut self,
        index: usize,
        Facts { name, data_type, shape, len }: Facts<'_>,
        targets: &[CandidateFormat],
        request: &ReportRequest,
    ) -> Result<(), OpError> {
        if targets.is_empty() {
            return Ok(());
        }
        let scales = Scales { rule: request.scale_rule.unwrap_or_default(), layout: request.layout };
        let measure = Measure::new(data_type, shape, targets, &request.plain_options(), scales)?;
        let bytes = data_type.byte_len(len).unwrap_or(0) as u64;
        let (name, shape, start) = (name.to_owned(), shape.to_vec(), self.bytes);
        self.bytes += bytes;
        self.places.push(Surveyed {
            index,
            name,
            data_type,
            shape,
            len,
            bytes,
            start,
            measure,
            state: Mutex::default(),
        });
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Which of the file's tensors one of these is.
    pub(super) fn index(&self, place: usize) -> usize {
        self.places[place].index
    }

    /// Bytes that are read: of their elements, and again of those that are read twice.
    pub(super) fn bytes(&self) -> u64 {
        let again = self.places.iter().filter(|tensor| tensor.measure.has_first_pass());
        self.bytes + again.map(|tensor| tensor.bytes).sum::<u64>()
    }

    /// Whether something has to be known of a tensor before it is looked at.
    pub(super) fn is_read_twice(&self, place: usize) -> bool {
        self.places[place].measure.has_first_pass()
    }

    /// Finds what has to be known of tensors ahead, or looks at them, each by the task that keeps it. An error has the
    /// place of its tensor.
    pub(super) fn run<'t>(
        &self,
        pass: Pass,
        tasks: impl IntoIterator<Item = (usize, Task<'t>)>,
        threads: Option<usize>,
        meter: &Meter<'_>,
    ) -> Result<(), (usize, PipelineError)> {
        let at = |(place, task): (usize, Task<'t>)| {
            let Surveyed { start, measure, .. } = &self.places[place];
            (place, Task { to: *start, chunk: measure.part_size(), ..task })
        };
        let (places, tasks): (Vec<usize>, Vec<Task<'t>>) = tasks.into_iter().map(at).unzip();
        pipeline::run(&tasks, threads, &Passing { survey: self, pass }, &|bytes| meter.add(bytes))
            .map_err(|(task, error)| (places[task], error))
    }

    /// The reports of the tensors. `bytes` returns the bytes of a tensor in a candidate if they are planned.
    pub(super) fn finish(
        self,
        bytes: impl Fn(usize, CandidateFormat) -> Option<u64>,
    ) -> impl Iterator<Item = TensorReport> {
        self.places.into_iter().map(move |tensor| {
            let index = tensor.index;
            let mut report = tensor.finish();
            for candidate in &mut report.candidates {
                candidate.bytes = bytes(index, candidate.to).unwrap_or(candidate.bytes);
            }
            report
        })
    }
}

/// A way over tensors.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Pass {
    /// To find what has to be known ahead.
    First,
    /// To look at them.
    Second,
}

/// The sink of a way over tensors.
struct Passing<'a> {
    survey: &'a Survey,
    pass: Pass,
}

impl Sink for Passing<'_> {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let places = &self.survey.places;
        // The last that starts here or before; those without elements start where the next does.
        let index = places.partition_point(|tensor| tensor.start <= at);
        match places.get(index.wrapping_sub(1)) {
            Some(tensor) => tensor.look(self.pass, at - tensor.start, bytes).map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

impl Surveyed {
    /// Takes a chunk of elements, which starts at this byte.
    fn look(&self, pass: Pass, at: u64, bytes: &[u8]) -> Result<(), CastError> {
        let bits = self.data_type.bits().unwrap_or(8) as u64;
        let first = at * 8 / bits;
        let len = (bytes.len() as u64 * 8 / bits).min(self.len as u64 - first);
        if pass == Pass::First {
            return self.measure.see_first(first as usize, bytes, len as usize);
        }
        let part = self.measure.part(first as usize, bytes, len as usize)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { next, waiting, so_far, done } = &mut *state;
        waiting.insert(first, part);
        while let Some(part) = waiting.remove(next) {
            *next += part.len();
            match so_far {
                Some(so_far) => so_far.add(&part),
                None => *so_far = Some(part),
            }
        }
        if *next == self.len as u64 {
            *done = so_far.take().map(|part| part.finish(self.measure.scale()));
        }
        Ok(())
    }

    fn finish(self) -> TensorReport {
        let Surveyed { name, data_type, shape, len, bytes, measure, state, .. } = self;
        let done = state.into_inner().unwrap_or_else(PoisonError::into_inner).done;
        // A tensor without elements is never seen.
        let Done { special: [zeros, infinities, nan], extremes, magnitudes, mut candidates } = done.unwrap_or_default();
        candidates.resize_with(measure.targets(len).count(), Default::default);
        let candidates = measure.targets(len).zip(candidates).map(|((to, bytes), outcome)| {
            let Outcome { counts, sums, error_by_power, blocks } = outcome;
            Candidate { to, bytes, counts, error_by_power, blocks, sums }
        });
        TensorReport {
            name,
            data_type,
            shape,
            bytes,
            values: len as u64,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::part::tests::wild;

    #[test]
    fn the_order_in_which_parts_are_done_changes_nothing() {
        let columns = 1 << 15;
        let floats: Vec<f32> = wild(37 * columns).iter().map(|value| value.clamp(-1e3, 1e3)).collect();
        let values: Vec<u8> = floats.iter().flat_map(|value| value.to_le_bytes()).collect();
        // Blocks within parts, those of several parts, which are known ahead, and a scale of the tensor.
        let to = ["float8e4m3fn", "int4", "mxfp4", "nvfp4", "int4/row", "float8e4m3fn/48x48", "int8/tensor"];
        let to: Vec<CandidateFormat> = to.iter().map(|to| to.parse().expect("a candidate")).collect();
        let request = ReportRequest { to, ..ReportRequest::default() };
        let of = |order: &[usize]| {
            let mut survey = Survey::default();
            let shape = [37, columns];
            let facts = Facts { name: "w", data_type: DataType::Float, shape: &shape, len: values.len() / 4 };
            survey.add(0, facts, &request.to, &request).expect("types of numbers");
            let size = 4 * survey.places[0].measure.part_size().expect("scaled candidates");
            assert!((4..6).contains(&values.len().div_ceil(size)), "{size}");
            for pass in [Pass::First, Pass::Second] {
                for &part in order.iter().filter(|&&part| part * size < values.len()) {
                    let bytes = &values[size * part..values.len().min(size * (part + 1))];
                    Passing { survey: &survey, pass }.put((size * part) as u64, bytes).expect("looked at");
                }
            }
            survey.finish(|_, _| None).collect::<Vec<_>>()
        };
        let found = of(&[0, 1, 2, 3, 4]);
        assert!(found[0].candidates.iter().all(|one| one.counts.values == values.len() as u64 / 4), "{found:?}");
        let blocks: Vec<Option<u64>> = found[0].candidates.iter().map(|one| Some(one.blocks.as_ref()?.count)).collect();
        let want = [1024 * 37, 2048 * 37, 37, 683].map(Some);
        assert_eq!(blocks, [&[None, None], &want[..], &[None]].concat());
        assert_eq!(found, of(&[4, 2, 3, 1, 0]));
        assert_eq!(found, of(&[1, 0, 4, 3, 2]));
    }
}
