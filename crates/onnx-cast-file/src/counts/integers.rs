//! Counts of casts from or to integers of 64 bits, which no float holds: both sides are compared one by one, as the
//! numbers that they are.

use super::number::{Distance, Number, Numbers, exceeds_doubles, is_integer};
use super::tally::Limits;
use super::widen::BLOCK;
use super::{Counts, Means, Sides};
use onnx_cast::ops::OpError;
use onnx_cast::types::Kind;
use onnx_cast::{CastError, DataType};

/// Both sides of such a cast, and the integers that the target holds, if it is a type of these.
#[derive(Clone, Copy, Debug)]
pub(super) struct Integers {
    source: Numbers,
    result: Numbers,
    range: Option<(i128, i128)>,
    /// Neither true nor false has a size.
    is_sized: bool,
}

impl Integers {
    /// `None` where doubles hold both types.
    pub(super) fn new(from: DataType, to: DataType) -> Result<Option<Integers>, OpError> {
        if !exceeds_doubles(from) && !exceeds_doubles(to) {
            return Ok(None);
        }
        let bits = to.bits().unwrap_or(0);
        let range = match to.info().kind {
            Kind::Int => Some((-1 << (bits - 1), (1 << (bits - 1)) - 1)),
            Kind::Uint => Some((0, (1 << bits) - 1)),
            _ => None,
        };
        let is_sized = !is_integer(to) || range.is_some();
        Ok(Some(Integers { source: Numbers::new(from)?, result: Numbers::new(to)?, range, is_sized }))
    }

    /// Counts `len` values and what became of them, and adds their errors.
    pub(super) fn count(
        &self,
        limits: &Limits,
        (source, result): (&[u8], &[u8]),
        len: usize,
        sides: &mut Sides,
        mut means: Option<&mut Means>,
    ) -> Result<Counts, CastError> {
        let mut counts = Counts { values: len as u64, ..Counts::default() };
        let mut sources = Vec::new();
        for start in (0..len).step_by(BLOCK) {
            let block = start..len.min(start + BLOCK);
            sources.clear();
            self.source.each(source, block.clone(), &mut sides.source, |_, number| sources.push(number))?;
            self.result.each(result, block, &mut sides.result, |index, result| {
                let Some(&source) = sources.get(index - start) else { return };
                self.see(limits, source, result, &mut counts);
                let distance = Distance::between(source, result).map_or(f64::NAN, Distance::to_f64);
                if distance.is_finite() {
                    let relative = if distance > 0.0 { distance / source.to_f64().abs() } else { 0.0 };
                    counts.see_error(distance, relative);
                    means.iter_mut().for_each(|means| means.see_error(distance, relative));
                }
            })?;
        }
        Ok(counts)
    }

    fn see(&self, limits: &Limits, source: Number, result: Number, counts: &mut Counts) {
        let (value, to) = (source.to_f64(), result.to_f64());
        if value.is_nan() {
            counts.nan += 1;
            return;
        }
        counts.became_nan += u64::from(to.is_nan());
        counts.infinite += u64::from(value.is_infinite());
        let (over, under) = self.beyond(limits, source);
        let at_limit = match (self.range, result) {
            (Some((low, high)), Number::Integer(result)) => over && result == high || under && result == low,
            _ => over && to == limits.high || under && to == limits.low,
        };
        if at_limit {
            counts.saturated += 1;
        } else if (over || under) && to.is_finite() || to.is_nan() || to.is_infinite() && value.is_finite() {
            counts.overflowed += 1;
        } else if value != 0.0 && to == 0.0 {
            counts.zero += 1;
        } else if to != 0.0 && to.abs() < limits.min_normal && value.abs() >= limits.source_min_normal {
            counts.subnormal += 1;
        }
    }

    /// Whether a number is above, or below, all that the target holds. Casts to integers cut fractions off.
    fn beyond(&self, limits: &Limits, source: Number) -> (bool, bool) {
        match (source, self.range) {
            _ if !self.is_sized => (false, false),
            (Number::Integer(source), Some((low, high))) => (source > high, source < low),
            // Both limits are powers of two, or zero, which doubles hold.
            (Number::Float(source), Some((low, high))) => {
                (source.trunc() >= (high + 1) as f64, source.trunc() < low as f64)
            }
            // The limit is less than any integer is large, or has no more digits than an integer has.
            (Number::Integer(source), None) => (source > limits.high as i128, source < limits.low as i128),
            (Number::Float(source), None) => (source > limits.high, source < limits.low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Counter;
    use super::*;
    use onnx_cast::{Cast, CastOptions, Tensor};

    fn counts(source: &Tensor, to: DataType) -> (Counts, Means) {
        let plan = Cast::new(to, &CastOptions::new()).and_then(|cast| cast.plan(source.data_type())).expect("a cast");
        let both = Counts::of(&plan, &source.view()).expect("counted");
        let result = plan.run(&source.view()).expect("cast");
        let bytes = (source.bytes().expect("numbers"), result.bytes().expect("numbers"));
        let counter = Counter::new(source.data_type(), to).expect("numbers");
        counter.add(bytes.0, bytes.1, source.len(), &mut Sides::default()).expect("counted");
        assert_eq!(counter.total(), both.0, "with and without means");
        both
    }

    #[test]
    fn integers_beyond_doubles_count_as_themselves() {
        use DataType::{Bool, Double, Float, Float16, Int8, Int32, Int64, Uint64};
        let odd = (1i64 << 53) + 1;
        // Overflowed, saturated, zero; the largest error, and the relative one.
        for (source, to, fates, error) in [
            (Tensor::from_slice(vec![2], &[odd, -odd]), Double, [0, 0, 0], 1.0),
            (Tensor::from_slice(vec![1], &[i64::MAX]), Double, [0, 0, 0], 1.0),
            (Tensor::from_slice(vec![1], &[u64::MAX]), Float, [0, 0, 0], 1.0),
            (Tensor::from_slice(vec![1], &[i64::MAX]), Uint64, [0, 0, 0], 0.0),
            (Tensor::from_slice(vec![1], &[i64::MAX as u64]), Int64, [0, 0, 0], 0.0),
            (Tensor::from_slice(vec![1], &[1u64 << 63]), Int64, [1, 0, 0], 2f64.powi(64)),
            (Tensor::from_slice(vec![1], &[-2f64.powi(63)]), Int64, [0, 0, 0], 0.0),
            (Tensor::from_slice(vec![2], &[0.5f64, -0.9]), Uint64, [0, 0, 2], 0.9),
            (Tensor::from_slice(vec![2], &[127i64, 128]), Int8, [1, 0, 0], 256.0),
            (Tensor::from_slice(vec![1], &[-1i64]), Uint64, [1, 0, 0], 2f64.powi(64)),
            (Tensor::from_slice(vec![2], &[65504i64, 65520]), Float16, [1, 0, 0], 0.0),
            (Tensor::from_slice(vec![1], &[i64::from(i32::MIN)]), Int32, [0, 0, 0], 0.0),
            (Tensor::from_slice(vec![2], &[7i64, 0]), Bool, [0, 0, 0], 6.0),
        ] {
            let source = source.expect("a tensor");
            let (found, means) = counts(&source, to);
            assert_eq!([found.overflowed, found.saturated, found.zero], fates, "{source:?} to {to}");
            assert_eq!(found.max_error.to_bits(), f64::to_bits(error), "{source:?} to {to}: {found:?}");
            assert!(means.error() <= error, "{source:?} to {to}");
        }
        let (found, means) = counts(&Tensor::from_slice(vec![2], &[odd, 1]).expect("a tensor"), Double);
        assert_eq!(means.error().to_bits(), 0.5f64.to_bits());
        assert_eq!(found.max_relative_error.to_bits(), (1.0 / odd as f64).to_bits());
    }
}
