//! A part of a tensor's values, measured: cast to each candidate block by block, and what was found, to which the next
//! part is added.

use super::Magnitudes;
use super::measure::{Errors, Scale, Sums, Values, doubles, floats};
use crate::counts::widen::{BLOCK, Widening, hub};
use crate::counts::{Apart, Counter, Counts};
use fearless_simd::Level;
use onnx_cast::{Cast, CastError, CastOptions, DataType, OpError, Plan, TensorError, TensorView};

/// How a tensor is measured.
pub(super) struct Measure {
    from: DataType,
    own: Widening,
    /// To double, for the candidates that need it.
    double: Widening,
    casts: Vec<(Plan, Counter)>,
    level: Level,
}

/// What is known of some of a tensor's values.
pub(super) struct Part {
    len: u64,
    extremes: (f64, f64),
    /// Never none.
    candidates: Vec<(Counts, Errors)>,
}

/// What there is to say of a tensor, without the tables.
#[derive(Default)]
pub(super) struct Done {
    /// Zeros, infinities and NaN.
    pub(super) special: [u64; 3],
    pub(super) extremes: Option<(f64, f64)>,
    pub(super) magnitudes: Magnitudes,
    pub(super) candidates: Vec<(Counts, Sums, Vec<f64>)>,
}

/// Memory for a block.
#[derive(Default)]
struct Buffers {
    own: Vec<u8>,
    wide: Vec<u8>,
    result: Vec<u8>,
    result_wide: Vec<u8>,
    values: Values,
    floats: Apart<f32>,
    doubles: Apart<f64>,
}

impl Measure {
    pub(super) fn new(from: DataType, targets: &[DataType], options: &CastOptions) -> Result<Measure, OpError> {
        let (own, double) = (Widening::new(from, hub(from))?, Widening::new(from, DataType::Double)?);
        let cast = |&to: &DataType| Ok((Cast::new(to, options)?.plan(from)?, Counter::new(from, to)?));
        let casts = targets.iter().map(cast).collect::<Result<_, OpError>>()?;
        Ok(Measure { from, own, double, casts, level: Level::new() })
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = DataType> + '_ {
        self.casts.iter().map(|(plan, _)| plan.target_type())
    }

    /// Where its values are counted.
    pub(super) fn scale(&self) -> Scale {
        if self.own.to == DataType::Float { floats::SCALE } else { doubles::SCALE }
    }

    /// Measures elements.
    pub(super) fn part(&self, bytes: &[u8], len: usize) -> Result<Part, CastError> {
        let scale = self.scale();
        let mut part = Part {
            len: len as u64,
            extremes: (f64::INFINITY, 0.0),
            candidates: self.casts.iter().map(|_| (Counts::default(), Errors::new(scale))).collect(),
        };
        let mut buffers = Buffers::default();
        for start in (0..len).step_by(BLOCK) {
            // Blocks start at multiples of 8 elements, and so at whole bytes.
            let count = BLOCK.min(len - start);
            let (place, size) = (self.size(self.from, start)?, self.size(self.from, count)?);
            self.block(bytes.get(place..place + size).unwrap_or_default(), count, &mut part, &mut buffers)?;
        }
        Ok(part)
    }

    fn block(&self, elements: &[u8], len: usize, part: &mut Part, buffers: &mut Buffers) -> Result<(), CastError> {
        let Buffers { own, wide, result, result_wide, values, floats, doubles } = buffers;
        let (level, shape) = (self.level, [len]);
        let source = self.own.block(elements, 0..len, own)?;
        if self.own.to == DataType::Float {
            floats::look(level, source.as_chunks().0, values);
        } else {
            doubles::look(level, source.as_chunks().0, values);
        }
        part.extremes = (part.extremes.0.min(values.smallest), part.extremes.1.max(values.largest));
        let mut widened = false;
        for ((plan, counter), (counts, errors)) in self.casts.iter().zip(&mut part.candidates) {
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
            result.resize(self.size(plan.target_type(), len)?, 0);
            plan.run_into(&TensorView::new(self.from, &shape, elements)?, result)?;
            let result = counter.widen_result(result, len, result_wide)?;
            let compared = counter.compare::<true>(source, result, counts, floats, doubles);
            if counter.hub() == DataType::Float {
                let signal = || floats::lost(level, (source.as_chunks().0, result.as_chunks().0));
                errors.see(level, floats, compared, values, signal);
            } else {
                let signal = || doubles::lost(level, (source.as_chunks().0, result.as_chunks().0));
                errors.see(level, doubles, compared, values, signal);
            }
        }
        Ok(())
    }

    fn size(&self, data_type: DataType, len: usize) -> Result<usize, TensorError> {
        data_type.byte_len(len).ok_or_else(|| TensorError::TooLarge { data_type, shape: vec![len] })
    }
}

impl Part {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn add(&mut self, other: &Part) {
        self.len += other.len;
        self.extremes = (self.extremes.0.min(other.extremes.0), self.extremes.1.max(other.extremes.1));
        for ((counts, errors), (more, theirs)) in self.candidates.iter_mut().zip(&other.candidates) {
            counts.add(more);
            errors.add(theirs);
        }
    }

    pub(super) fn finish(self, scale: Scale) -> Done {
        // Each candidate has counted the same values.
        let Some((_, any)) = self.candidates.first() else { return Done::default() };
        let (powers, special) = (any.powers(), any.special());
        let there = |count: &u64| *count > 0;
        let (first, last) = (powers.iter().position(there), powers.iter().rposition(there));
        let range = first.zip(last).map_or(0..0, |(first, last)| first..last + 1);
        let candidates = self.candidates.iter().map(|(counts, errors)| {
            let mean = |power| if powers[power] == 0 { 0.0 } else { errors.of(power) / powers[power] as f64 };
            (*counts, errors.sums(), range.clone().map(mean).collect())
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
                    let mut measure = Measure::new(from, &to, &CastOptions::default()).expect("numbers");
                    measure.level = level;
                    measure.casts.iter_mut().for_each(|(_, counter)| counter.set_level(level));
                    let part = measure.part(source.bytes().expect("numbers"), values.len()).expect("measured");
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
