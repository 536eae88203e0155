//! A part of a tensor's values, measured: cast to each candidate block by block, and what was found, to which the next
//! part is added.

use super::blocks::{Blocks, OfBlocks};
use super::measure::{BlockValues, Errors, Scale, Sums, doubles, floats};
use super::scaled::{Dequantized, Quantized, Scaled, part_size};
use super::{CandidateFormat, Magnitudes};
use crate::counts::widen::{BLOCK, Widening, hub};
use crate::counts::{Counter, Counts, Distances};
use crate::layouts::Layout;
use crate::level::level;
use crate::pipeline::Amax;
use fearless_simd::Level;
use onnx_cast::ops::OpError;
use onnx_cast::scaled::ScaleRule;
use onnx_cast::tensor::{TensorError, TensorErrorKind, element_count};
use onnx_cast::{Cast, CastError, CastOptions, DataType, Plan, TensorView};
use std::sync::Arc;

/// How a tensor is measured.
pub(super) struct Measure {
    from: DataType,
    own: Widening,
    /// To double, for the candidates that need it.
    double: Widening,
    ways: Vec<Way>,
    level: Level,
    /// Elements of a part, where there are scaled candidates.
    part: Option<usize>,
}

/// What becomes of the values in a candidate.
struct Way {
    to: CandidateFormat,
    how: How,
    counter: Counter,
}

/// How scales are found.
#[derive(Clone, Copy, Default)]
pub(super) struct Scales {
    pub(super) rule: ScaleRule,
    pub(super) layout: Option<Layout>,
}

enum How {
    Cast(Plan),
    Scaled(Box<Scaled>),
}

/// What is known of some of a tensor's values.
pub(super) struct Part {
    len: u64,
    extremes: (f64, f64),
    /// Never none.
    candidates: Vec<Tally>,
}

/// What is known of them in a candidate.
struct Tally {
    counts: Counts,
    errors: Errors,
    /// Of scales for blocks.
    blocks: Option<OfBlocks>,
}

/// What there is to say of a tensor, without the tables.
#[derive(Default)]
pub(super) struct Done {
    /// Zeros, infinities and NaN.
    pub(super) special: [u64; 3],
    pub(super) extremes: Option<(f64, f64)>,
    pub(super) magnitudes: Magnitudes,
    pub(super) candidates: Vec<Outcome>,
}

/// What there is to say of it in a candidate.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) counts: Counts,
    pub(super) sums: Sums,
    pub(super) error_by_power: Vec<f64>,
    pub(super) blocks: Option<Blocks>,
}

/// Memory for a block.
#[derive(Default)]
struct Buffers {
    own: Vec<u8>,
    wide: Vec<u8>,
    result: Vec<u8>,
    result_wide: Vec<u8>,
    values: BlockValues,
    floats: Distances<f32>,
    doubles: Distances<f64>,
}

impl Way {
    fn new(
        from: DataType,
        shape: &[usize],
        to: CandidateFormat,
        options: &CastOptions,
        how: Scales,
    ) -> Result<Way, OpError> {
        Ok(match (Scaled::new(from, shape, to, how.rule, how.layout)?, to) {
            (Some(scaled), _) => {
                let counter = Counter::new(from, DataType::Float)?;
                Way { to, how: How::Scaled(Box::new(scaled)), counter }
            }
            (None, to) => {
                let plan = Cast::new(to.element(), options)?.plan(from)?;
                Way { to, how: How::Cast(plan), counter: Counter::new(from, to.element())? }
            }
        })
    }

    fn scaled(&self) -> Option<&Scaled> {
        match &self.how {
            How::Scaled(scaled) => Some(scaled),
            How::Cast(_) => None,
        }
    }

    fn tally(&self, scale: Scale) -> Tally {
        let blocks = self.scaled().filter(|scaled| scaled.has_blocks()).map(OfBlocks::new);
        Tally { counts: Counts::default(), errors: Errors::new(scale), blocks }
    }
}

impl Measure {
    pub(super) fn new(
        from: DataType,
        shape: &[usize],
        targets: &[CandidateFormat],
        options: &CastOptions,
        how: Scales,
    ) -> Result<Measure, OpError> {
        let (own, double) = (Widening::new(from, hub(from))?, Widening::new(from, DataType::Double)?);
        let way = |&to: &CandidateFormat| Way::new(from, shape, to, options, how);
        let mut ways = targets.iter().map(way).collect::<Result<Vec<_>, _>>()?;
        let mut scaled = ways.iter_mut().filter_map(|way| match &mut way.how {
            How::Scaled(scaled) => Some(&mut **scaled),
            How::Cast(_) => None,
        });
        let part = part_size(&mut scaled, element_count(shape).unwrap_or(0));
        let part = targets.iter().any(|to| to.is_scaled()).then_some(part);
        Ok(Measure { from, own, double, ways, level: level(), part })
    }

    /// The candidates, each with the bytes that so many elements take in it.
    pub(super) fn targets(&self, len: usize) -> impl Iterator<Item = (CandidateFormat, u64)> + '_ {
        self.ways.iter().map(move |way| {
            let bytes = match way.scaled() {
                Some(scaled) => scaled.bytes(),
                None => way.to.element().byte_len(len).unwrap_or(0) as u64,
            };
            (way.to, bytes)
        })
    }

    /// Whether a candidate has a scale of the tensor, for its elements or for its scales.
    pub(super) fn has_scale_of_tensor(&self) -> bool {
        self.ways.iter().filter_map(Way::scaled).any(Scaled::has_scale_of_tensor)
    }

    /// Shares that scale with other tensors.
    pub(super) fn share_scale(&mut self, amax: &Arc<Amax>) {
        for way in &mut self.ways {
            if let How::Scaled(scaled) = &mut way.how {
                scaled.share_scale(amax);
            }
        }
    }

    /// Elements of a part, where that matters.
    pub(super) fn part_size(&self) -> Option<usize> {
        self.part
    }

    /// Whether something has to be known before the first part.
    pub(super) fn has_first_pass(&self) -> bool {
        self.ahead().next().is_some()
    }

    /// Finds what has to be known, in a part of the first pass.
    pub(super) fn see_first(&self, start: usize, bytes: &[u8], len: usize) -> Result<(), CastError> {
        self.ahead().try_for_each(|ahead| ahead.see(start, len, bytes))
    }

    fn ahead(&self) -> impl Iterator<Item = &Amax> {
        self.ways.iter().filter_map(Way::scaled).filter_map(Scaled::ahead)
    }

    /// Where its values are counted.
    pub(super) fn scale(&self) -> Scale {
        if self.own.to == DataType::Float { floats::SCALE } else { doubles::SCALE }
    }

    /// Measures elements, the first of which is the tensor's element `start`.
    pub(super) fn part(&self, start: usize, bytes: &[u8], len: usize) -> Result<Part, CastError> {
        let scale = self.scale();
        let mut part = Part {
            len: len as u64,
            extremes: (f64::INFINITY, 0.0),
            candidates: self.ways.iter().map(|way| way.tally(scale)).collect(),
        };
        let quantize = |way: &Way| way.scaled().map(|scaled| scaled.quantize(start, len, bytes)).transpose();
        let quantized = self.ways.iter().map(quantize).collect::<Result<Vec<_>, _>>()?;
        let values = quantized.iter().map(|one| one.as_ref().map(Quantized::values).transpose());
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let mut buffers = Buffers::default();
        for first in (0..len).step_by(BLOCK) {
            // Blocks start at multiples of 8 elements, and so at whole bytes.
            let count = BLOCK.min(len - first);
            let (place, size) = (self.size(self.from, first)?, self.size(self.from, count)?);
            let elements = bytes.get(place..place + size).unwrap_or_default();
            let block = Block { start, first, len: count, elements, values: &values };
            self.block(&block, &mut part, &mut buffers)?;
        }
        for (way, tally) in self.ways.iter().zip(&mut part.candidates) {
            let is_complete = way.scaled().is_some_and(|scaled| !scaled.is_ahead());
            tally.blocks.iter_mut().filter(|_| is_complete).for_each(OfBlocks::close);
        }
        Ok(part)
    }

    fn block(&self, block: &Block<'_>, part: &mut Part, buffers: &mut Buffers) -> Result<(), CastError> {
        let Buffers { own, wide, result, result_wide, values, floats, doubles } = buffers;
        let Block { elements, len, .. } = *block;
        let level = self.level;
        let source = self.own.block(elements, 0..len, own)?;
        if self.own.to == DataType::Float {
            floats::look(level, source.as_chunks().0, values);
        } else {
            doubles::look(level, source.as_chunks().0, values);
        }
        part.extremes = (part.extremes.0.min(values.smallest), part.extremes.1.max(values.largest));
        let mut widened = false;
        for ((way, dequantized), Tally { counts, errors, blocks }) in
            self.ways.iter().zip(block.values).zip(&mut part.candidates)
        {
            let counter = &way.counter;
            let source = if counter.hub() == self.own.to {
                source
            } else {
                if !widened {
                    // Where it is double already, the hub is too.
                    self.double.block(elements, 0..len, wide)?;
                    widened = true;
                }
                &wide[..]
            };
            self.result(way, dequantized.as_ref(), block, result)?;
            let result = counter.widen_result(result, len, result_wide)?;
            let compared = counter.compare::<true>(source, result, counts, floats, doubles);
            if counter.hub() == DataType::Float {
                let sides = (source.as_chunks().0, result.as_chunks().0);
                errors.see(level, floats, compared, values, || floats::lost(level, sides));
                blocks.iter_mut().for_each(|blocks| blocks.see(block.start + block.first, sides.0, sides.1));
            } else {
                let signal = || doubles::lost(level, (source.as_chunks().0, result.as_chunks().0));
                errors.see(level, doubles, compared, values, signal);
            }
        }
        Ok(())
    }

    /// What the values of a block become.
    fn result(
        &self,
        way: &Way,
        dequantized: Option<&Dequantized<'_>>,
        block: &Block<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), CastError> {
        let Block { first, len, elements, .. } = *block;
        match (&way.how, dequantized) {
            (How::Cast(plan), _) => {
                out.resize(self.size(plan.target_type(), len)?, 0);
                plan.run_into(&TensorView::new(self.from, &[len], elements)?, out)
            }
            (How::Scaled(_), values) => values.map_or(Ok(()), |values| values.run(first, len, out)),
        }
    }

    fn size(&self, data_type: DataType, len: usize) -> Result<usize, TensorError> {
        Ok(data_type.byte_len(len).ok_or_else(|| TensorErrorKind::TooLarge { data_type, shape: vec![len] })?)
    }
}

/// Some values of a part, and what scaled candidates make of the part.
struct Block<'a> {
    /// Where the part starts in the tensor, and the block in the part.
    start: usize,
    first: usize,
    len: usize,
    elements: &'a [u8],
    values: &'a [Option<Dequantized<'a>>],
}

impl Part {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn add(&mut self, other: &Part) {
        self.len += other.len;
        self.extremes = (self.extremes.0.min(other.extremes.0), self.extremes.1.max(other.extremes.1));
        for (ours, theirs) in self.candidates.iter_mut().zip(&other.candidates) {
            ours.counts.add(&theirs.counts);
            ours.errors.add(&theirs.errors);
            ours.blocks.iter_mut().zip(&theirs.blocks).for_each(|(ours, theirs)| ours.add(theirs));
        }
    }

    pub(super) fn finish(self, scale: Scale) -> Done {
        // Each candidate has counted the same values.
        let Some(Tally { errors: any, .. }) = self.candidates.first() else { return Done::default() };
        let (powers, special) = (any.powers(), any.special());
        let there = |count: &u64| *count > 0;
        let (first, last) = (powers.iter().position(there), powers.iter().rposition(there));
        let range = first.zip(last).map_or(0..0, |(first, last)| first..last + 1);
        let candidates = self.candidates.into_iter().map(|Tally { counts, errors, blocks }| {
            let mean = |power| if powers[power] == 0 { 0.0 } else { errors.of(power) / powers[power] as f64 };
            let error_by_power = range.clone().map(mean).collect();
            Outcome { counts, sums: errors.sums(), error_by_power, blocks: blocks.map(OfBlocks::finish) }
        });
        Done {
            candidates: candidates.collect(),
            special,
            extremes: (!range.is_empty()).then_some(self.extremes),
            magnitudes: Magnitudes { first: scale.first + range.start as i32, counts: powers[range].to_vec() },
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use onnx_cast::Tensor;

    /// Floats of every kind: every bit pattern is as likely as the next, but that some are near one.
    pub(in super::super) fn wild(len: usize) -> Vec<f32> {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = (state >> 32) as u32;
            f32::from_bits(if state & 1 << 20 == 0 { bits } else { bits >> 4 | 0x3000_0000 })
        };
        (0..len).map(|_| next()).collect()
    }

    /// The instruction sets that this machine has.
    fn levels() -> Vec<Level> {
        let best = Level::new();
        #[cfg(target_arch = "x86_64")]
        let between = [best.as_sse4_2().map(Level::Sse4_2), best.as_avx2().map(Level::Avx2)];
        #[cfg(not(target_arch = "x86_64"))]
        let between: [Option<Level>; 0] = [];
        [Level::baseline(), best].into_iter().chain(between.into_iter().flatten()).collect()
    }

    fn measure(from: DataType, to: &[DataType], len: usize) -> Measure {
        let to: Vec<CandidateFormat> = to.iter().copied().map(CandidateFormat::Bare).collect();
        Measure::new(from, &[len], &to, &CastOptions::default(), Scales::default()).expect("numbers")
    }

    #[test]
    fn every_instruction_set_finds_the_same_bits() {
        let values = wild(2 * BLOCK + 77);
        let floats = Tensor::from_slice(vec![values.len()], &values).expect("a tensor");
        let to = [DataType::Float16, DataType::Float8E4M3FN, DataType::Float4E2M1, DataType::Int8, DataType::Int64];
        for from in [DataType::Float, DataType::Double, DataType::Float16, DataType::Int32] {
            let cast = Cast::new(from, &CastOptions::default()).expect("a cast");
            let source = cast.run(&floats.view()).expect("cast");
            let found: Vec<String> = levels()
                .into_iter()
                .map(|level| {
                    let mut measure = measure(from, &to, values.len());
                    measure.level = level;
                    measure.ways.iter_mut().for_each(|way| way.counter.set_level(level));
                    let part = measure.part(0, source.bytes().expect("numbers"), values.len()).expect("measured");
                    let Done { special, extremes, magnitudes, candidates } = part.finish(measure.scale());
                    // Text of doubles is as exact as their bits.
                    format!("{special:?} {extremes:?} {magnitudes:?} {candidates:?}")
                })
                .collect();
            assert!(found[0].len() > 1000, "{from}: {}", found[0]);
            assert!(found.iter().all(|one| *one == found[0]), "{from}: {found:?}");
        }
    }
}
