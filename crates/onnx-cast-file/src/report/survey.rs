//! The tensors that are looked at: a sink for the chunks of a flow, which takes each chunk's part of what there is to
//! say and adds the parts of a tensor in order, so that no sum depends on which thread was faster.

use super::part::{Done, Measure, Part};
use super::{Candidate, ReportRequest, TensorReport};
use crate::io::progress::Meter;
use crate::pipeline::{self, Sink, Task, Trouble};
use onnx_cast::{CastError, DataType, OpError};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Tensors, as if their elements stood one behind another.
#[derive(Default)]
pub(super) struct Survey {
    places: Vec<Looked>,
    bytes: u64,
}

/// What is known of a tensor before it is read.
pub(super) struct Facts<'a> {
    pub(super) name: &'a str,
    pub(super) data_type: DataType,
    pub(super) shape: &'a [usize],
    pub(super) len: usize,
}

/// A tensor that is looked at.
struct Looked {
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
    /// Adds a tensor with its candidates; none where there are none.
    pub(super) fn add(
        &mut self,
        index: usize,
        Facts { name, data_type, shape, len }: Facts<'_>,
        targets: &[DataType],
        request: &ReportRequest,
    ) -> Result<(), OpError> {
        if targets.is_empty() {
            return Ok(());
        }
        let measure = Measure::new(data_type, targets, &request.plain_options())?;
        let bytes = data_type.byte_len(len).unwrap_or(0) as u64;
        let (name, shape, start) = (name.to_owned(), shape.to_vec(), self.bytes);
        self.bytes += bytes;
        self.places.push(Looked { index, name, data_type, shape, len, bytes, start, measure, state: Mutex::default() });
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Which of the file's tensors one of these is.
    pub(super) fn index(&self, place: usize) -> usize {
        self.places[place].index
    }

    /// Bytes of their elements.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Looks at tensors, each by the task that keeps it. Trouble tells with which.
    pub(super) fn run<'t>(
        &self,
        tasks: impl IntoIterator<Item = (usize, Task<'t>)>,
        threads: Option<usize>,
        meter: &Meter<'_>,
    ) -> Result<(), (usize, Trouble)> {
        let at = |(place, task): (usize, Task<'t>)| (place, Task { to: self.places[place].start, ..task });
        let (places, tasks): (Vec<usize>, Vec<Task<'t>>) = tasks.into_iter().map(at).unzip();
        pipeline::run(&tasks, threads, self, &|bytes| meter.add(bytes))
            .map_err(|(task, trouble)| (places[task], trouble))
    }

    pub(super) fn finish(self) -> impl Iterator<Item = TensorReport> {
        self.places.into_iter().map(Looked::finish)
    }
}

impl Sink for Survey {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        // The last that starts here or before; those without elements start where the next does.
        let index = self.places.partition_point(|looked| looked.start <= at);
        match self.places.get(index.wrapping_sub(1)) {
            Some(looked) => looked.look(at - looked.start, bytes).map_err(io::Error::other),
            None => Ok(()),
        }
    }
}

impl Looked {
    /// Takes a chunk of elements, which starts at this byte.
    fn look(&self, at: u64, bytes: &[u8]) -> Result<(), CastError> {
        let bits = self.data_type.bits().unwrap_or(8) as u64;
        let first = at * 8 / bits;
        let len = (bytes.len() as u64 * 8 / bits).min(self.len as u64 - first);
        let part = self.measure.part(bytes, len as usize)?;
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
        let Looked { name, data_type, shape, len, bytes, measure, state, .. } = self;
        let done = state.into_inner().unwrap_or_else(PoisonError::into_inner).done;
        // A tensor without elements is never seen.
        let Done { special: [zeros, infinities, nan], extremes, magnitudes, mut candidates } = done.unwrap_or_default();
        candidates.resize_with(measure.targets().count(), Default::default);
        let candidates = measure.targets().zip(candidates).map(|(to, (counts, sums, error_by_power))| {
            let bytes = to.byte_len(len).unwrap_or(0) as u64;
            Candidate { to, bytes, counts, error_by_power, sums }
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
    use crate::counts::widen::BLOCK;
    use crate::report::part::tests::wild;

    #[test]
    fn the_order_in_which_parts_are_done_changes_nothing() {
        let values: Vec<u8> = wild(9 * BLOCK + 13).iter().flat_map(|value| value.to_le_bytes()).collect();
        let request = ReportRequest { to: vec![DataType::Float8E4M3FN, DataType::Int4], ..ReportRequest::default() };
        let of = |order: &[usize]| {
            let mut survey = Survey::default();
            let facts = Facts { name: "w", data_type: DataType::Float, shape: &[], len: values.len() / 4 };
            survey.add(0, facts, &request.to, &request).expect("types of numbers");
            let size = 4 * BLOCK * 2;
            for &chunk in order {
                let part = &values[size * chunk..values.len().min(size * (chunk + 1))];
                survey.put((size * chunk) as u64, part).expect("looked at");
            }
            survey.finish().collect::<Vec<_>>()
        };
        let found = of(&[0, 1, 2, 3, 4]);
        assert!(found[0].candidates.iter().all(|one| one.counts.values == values.len() as u64 / 4), "{found:?}");
        assert_eq!(found, of(&[4, 2, 3, 1, 0]));
        assert_eq!(found, of(&[1, 0, 4, 3, 2]));
    }
}
