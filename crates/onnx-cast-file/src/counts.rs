//! What a cast does to the values of a tensor, counted while it is cast: both sides are widened to double, which is exact
//! but for integers of 64 bits, and compared in lanes that the compiler makes vectors of.

use onnx_cast::{Cast, CastError, CastOptions, DataType, Kind, OpError, Plan, TensorView};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// What became of the values of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Counts {
    /// Values in all.
    pub values: u64,
    /// Numbers that the target has no place for, and that became infinite, NaN or, of integers, another number.
    pub overflowed: u64,
    /// Numbers, or infinities, beyond the target's largest value that became that value.
    pub saturated: u64,
    /// Numbers other than zero that became zero.
    pub zero: u64,
    /// Normal numbers that became subnormal.
    pub subnormal: u64,
    /// Values that were NaN.
    pub nan: u64,
    /// The largest distance between a finite value and a finite result.
    pub max_error: f64,
    /// The largest such distance, divided by the value.
    pub max_relative_error: f64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.values += other.values;
        self.overflowed += other.overflowed;
        self.saturated += other.saturated;
        self.zero += other.zero;
        self.subnormal += other.subnormal;
        self.nan += other.nan;
        self.max_error = self.max_error.max(other.max_error);
        self.max_relative_error = self.max_relative_error.max(other.max_relative_error);
    }
}

/// What makes a cast fail that would otherwise be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// A value that overflows or is saturated.
    Overflow,
    /// A value other than zero that becomes zero.
    Underflow,
    /// A normal number that becomes subnormal.
    Subnormal,
    /// A NaN.
    Nan,
}

impl Loss {
    /// Every kind.
    pub const ALL: &'static [Loss] = &[Loss::Overflow, Loss::Underflow, Loss::Subnormal, Loss::Nan];

    /// `overflow`, and so on.
    pub const fn name(self) -> &'static str {
        match self {
            Loss::Overflow => "overflow",
            Loss::Underflow => "underflow",
            Loss::Subnormal => "subnormal",
            Loss::Nan => "nan",
        }
    }

    /// How often it has happened.
    pub fn count(self, counts: &Counts) -> u64 {
        match self {
            Loss::Overflow => counts.overflowed + counts.saturated,
            Loss::Underflow => counts.zero,
            Loss::Subnormal => counts.subnormal,
            Loss::Nan => counts.nan,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Loss, String> {
        let known = Loss::ALL.iter().copied().find(|loss| loss.name() == text);
        known.ok_or_else(|| format!("`{text}` is none of overflow, underflow, subnormal, nan"))
    }
}

/// Values that are compared at a time: both sides stay in the nearest cache. A multiple of the lanes.
const BLOCK: usize = 1024;

const LANES: usize = 8;

/// Counts what becomes of the values of one tensor, from any number of threads.
#[derive(Debug)]
pub(crate) struct Counter {
    widen_source: Plan,
    widen_result: Plan,
    limits: Limits,
    total: Mutex<Counts>,
}

/// Buffers for both sides of a block.
#[derive(Default)]
pub(crate) struct Sides {
    source: Vec<u8>,
    result: Vec<u8>,
}

/// What the types can hold, as doubles.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The target's least and largest finite value.
    low: f64,
    high: f64,
    /// The nearest numbers that are beyond these. An integer's are one off, since casts to it cut fractions off.
    below: f64,
    above: f64,
    /// The target's smallest normal number; 0 where it has no subnormal ones.
    min_normal: f64,
    /// Numbers below are not normal in the source.
    source_min_normal: f64,
}

fn doubles(from: DataType) -> Result<Plan, OpError> {
    Cast::new(DataType::Double, &CastOptions { threads: Some(1), ..CastOptions::default() })?.plan(from)
}

/// A code of a type as a double.
fn value(plan: &Plan, code: u64) -> f64 {
    let mut out = [0; 8];
    let len = plan.from().byte_len(1).unwrap_or(0);
    let code = code.to_le_bytes();
    let view = TensorView::new(plan.from(), &[1], code.get(..len).unwrap_or_default());
    match view.map(|view| plan.run_into(&view, &mut out)) {
        Ok(Ok(())) => f64::from_le_bytes(out),
        _ => 0.0,
    }
}

impl Counter {
    /// For a cast between two types, neither string.
    pub(crate) fn new(from: DataType, to: DataType) -> Result<Counter, OpError> {
        let (widen_source, widen_result) = (doubles(from)?, doubles(to)?);
        let min_normal = |plan: &Plan| {
            let format = plan.from().float_format().filter(|format| format.min_subnormal_code().is_some());
            format.map_or(0.0, |format| value(plan, format.min_normal_code()))
        };
        let bits = to.bits().unwrap_or(0) as i32;
        let (low, high, below, above) = match to.info().kind {
            Kind::Float(format) => {
                let high = value(&widen_result, format.max_code());
                (-high, high, (-high).next_down(), high.next_up())
            }
            Kind::Int => {
                let above = 2f64.powi(bits - 1);
                (-above, above - 1.0, -above - 1.0, above)
            }
            Kind::Uint => (0.0, 2f64.powi(bits) - 1.0, -1.0, 2f64.powi(bits)),
            // What is true or false has no size: nothing compares with NaN.
            _ => (f64::NAN, f64::NAN, f64::NAN, f64::NAN),
        };
        let (min_normal, source_min_normal) = (min_normal(&widen_result), min_normal(&widen_source));
        let limits = Limits { low, high, below, above, min_normal, source_min_normal };
        Ok(Counter { widen_source, widen_result, limits, total: Mutex::default() })
    }

    pub(crate) fn reset(&self) {
        *self.total.lock().unwrap_or_else(PoisonError::into_inner) = Counts::default();
    }

    pub(crate) fn total(&self) -> Counts {
        *self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `len` values and what became of them.
    pub(crate) fn add(&self, source: &[u8], result: &[u8], len: usize, sides: &mut Sides) -> Result<(), CastError> {
        sides.source.resize(BLOCK * 8, 0);
        sides.result.resize(BLOCK * 8, 0);
        let mut lanes = [Lane::default(); LANES];
        for start in (0..len).step_by(BLOCK) {
            let block = BLOCK.min(len - start);
            widen(&self.widen_source, source, start, block, &mut sides.source)?;
            widen(&self.widen_result, result, start, block, &mut sides.result)?;
            let pairs = sides.source.chunks_exact(LANES * 8).zip(sides.result.chunks_exact(LANES * 8));
            for (source, result) in pairs.take(block.div_ceil(LANES)) {
                let (source, _) = source.as_chunks::<8>();
                let (result, _) = result.as_chunks::<8>();
                for ((lane, source), result) in lanes.iter_mut().zip(source).zip(result) {
                    lane.add(&self.limits, f64::from_le_bytes(*source), f64::from_le_bytes(*result));
                }
            }
        }
        let mut counts = Counts { values: len as u64, ..Counts::default() };
        lanes.iter().for_each(|lane| lane.add_to(&mut counts));
        self.total.lock().unwrap_or_else(PoisonError::into_inner).add(&counts);
        Ok(())
    }
}

/// Widens a block to doubles; zeros behind its end, up to whole lanes, count for nothing.
fn widen(plan: &Plan, bytes: &[u8], start: usize, len: usize, out: &mut [u8]) -> Result<(), CastError> {
    // Blocks start at multiples of 8 elements, and so at whole bytes.
    let start = plan.from().byte_len(start).unwrap_or(0);
    let end = start + plan.from().byte_len(len).unwrap_or(0);
    let shape = [len];
    let view = TensorView::new(plan.from(), &shape, bytes.get(start..end).unwrap_or_default())?;
    plan.run_into(&view, &mut out[..len * 8])?;
    out[len * 8..len.next_multiple_of(LANES) * 8].fill(0);
    Ok(())
}

/// The counts of every eighth value.
#[derive(Clone, Copy, Default)]
struct Lane {
    overflowed: u64,
    saturated: u64,
    zero: u64,
    subnormal: u64,
    nan: u64,
    max_error: f64,
    max_relative_error: f64,
}

impl Lane {
    #[inline(always)]
    fn add(&mut self, limits: &Limits, source: f64, result: f64) {
        let (size, before) = (result.abs(), source.abs());
        let (finite, was_finite) = (size < f64::INFINITY, before < f64::INFINITY);
        let (over, under) = (source >= limits.above, source <= limits.below);
        let beyond = over | under;
        // At the limit of its own side: an integer that wraps may land on the other.
        let stuck = (over & (result == limits.high)) | (under & (result == limits.low));
        // An infinity that stays one has its place; one that becomes NaN has none.
        let no_number = !source.is_nan() & !finite & (was_finite | result.is_nan());
        self.overflowed += u64::from((beyond & finite & !stuck) | no_number);
        self.saturated += u64::from(stuck);
        self.zero += u64::from((before > 0.0) & (size == 0.0) & !beyond);
        let normal = before >= limits.source_min_normal;
        self.subnormal += u64::from((size > 0.0) & (size < limits.min_normal) & normal & !beyond);
        self.nan += u64::from(source.is_nan());
        let error = if finite & was_finite { (source - result).abs() } else { 0.0 };
        let relative = if (error > 0.0) & (before > 0.0) { error / before } else { 0.0 };
        self.max_error = if error > self.max_error { error } else { self.max_error };
        self.max_relative_error = if relative > self.max_relative_error { relative } else { self.max_relative_error };
    }

    fn add_to(&self, counts: &mut Counts) {
        let Lane { overflowed, saturated, zero, subnormal, nan, max_error, max_relative_error } = *self;
        counts.add(&Counts { values: 0, overflowed, saturated, zero, subnormal, nan, max_error, max_relative_error });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnx_cast::Tensor;

    fn counts(source: &Tensor, to: DataType, saturate: Option<bool>) -> Counts {
        let options = CastOptions { saturate, ..CastOptions::default() };
        let result = Cast::new(to, &options).and_then(|cast| cast.plan(source.data_type())).expect("a cast");
        let result = result.run(&source.view()).expect("cast");
        let counter = Counter::new(source.data_type(), to).expect("numbers");
        let bytes = |tensor: &Tensor| tensor.bytes().expect("numbers").to_vec();
        let mut sides = Sides::default();
        counter.add(&bytes(source), &bytes(&result), source.len(), &mut sides).expect("counted");
        counter.total()
    }

    fn floats(values: &[f32]) -> Tensor {
        Tensor::from_slice(vec![values.len()], values).expect("a tensor")
    }

    #[test]
    fn each_fate_is_counted() {
        use DataType::{Bool, Float4E2M1, Float8E4M3FN, Float8E8M0, Float16, Int8, Uint8};
        let inf = f32::INFINITY;
        // overflowed, saturated, zero, subnormal, nan
        for (values, to, saturate, want) in [
            (&[1.0, 65504.0, 65519.9, 65520.0, -1e9, inf, -inf][..], Float16, None, [2, 1, 0, 0, 0]),
            (&[1e-9, 1e-7, 6.2e-5, 0.0, -0.0, f32::NAN, 1e-40], Float16, None, [0, 0, 2, 1, 1]),
            (&[448.0, 449.0, 1000.0, -inf, f32::NAN], Float8E4M3FN, None, [0, 3, 0, 0, 1]),
            (&[448.0, 449.0, 1000.0, -inf, f32::NAN], Float8E4M3FN, Some(false), [2, 1, 0, 0, 1]),
            (&[6.0, 6.1, -100.0, 0.1, 0.5], Float4E2M1, None, [0, 2, 1, 1, 0]),
            (&[1.0, 1e-45, inf], Float8E8M0, None, [0, 1, 0, 0, 0]),
            (&[127.9, 128.0, 300.0, -128.9, 0.5, 0.0], Int8, None, [0, 2, 1, 0, 0]),
            (&[255.9, 256.0, -0.9, 7.0], Uint8, None, [0, 1, 1, 0, 0]),
            (&[5.0, 0.0, inf], Bool, None, [0; 5]),
        ] {
            let Counts { values: all, overflowed, saturated, zero, subnormal, nan, .. } =
                counts(&floats(values), to, saturate);
            assert_eq!([overflowed, saturated, zero, subnormal, nan], want, "{values:?} to {to}");
            assert_eq!(all, values.len() as u64);
        }
    }

    #[test]
    fn errors_and_blocks() {
        let mut values = vec![1.0; 3 * BLOCK + 5];
        values[2 * BLOCK + 1] = 1.0009765;
        values[3 * BLOCK + 4] = 3e9;
        let found = counts(&floats(&values), DataType::BFloat16, None);
        assert_eq!(found.max_error.to_bits(), 3_121_664f64.to_bits(), "{found:?}");
        let relative = f64::from(1.0009765f32) - 1.0;
        let relative = (relative / f64::from(1.0009765f32)).max(3_121_664.0 / 3e9);
        assert_eq!(found.max_relative_error.to_bits(), relative.to_bits(), "{found:?}");
        assert_eq!((found.values, found.zero), (3 * BLOCK as u64 + 5, 0));
        assert_eq!(counts(&floats(&values), DataType::Double, None).max_error.to_bits(), 0);
    }
}
