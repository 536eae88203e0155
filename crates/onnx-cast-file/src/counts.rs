//! What a cast does to the values of a tensor, counted while it is cast: both sides are widened to float where that holds
//! both types, or to double, which is exact but for integers of 64 bits, and compared (`tally.rs`).

mod tally;

use onnx_cast::{Cast, CastError, CastOptions, DataType, Kind, OpError, Plan, TensorView};
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use tally::Limits;

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
    /// The largest distance between a finite value and a finite result. Distances that differ by less than the precision of
    /// a float may be taken for equal.
    pub max_error: f64,
    /// The largest such distance, divided by the value, likewise.
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

    /// Takes the error of a value, if it has one.
    fn see(&mut self, source: f64, result: f64) {
        let error = (source - result).abs();
        if error > self.max_error && error.is_finite() {
            self.max_error = error;
        }
        let relative = error / source.abs();
        if relative > self.max_relative_error && relative.is_finite() {
            self.max_relative_error = relative;
        }
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

/// Values that are compared at a time: both sides stay in the nearest cache.
const BLOCK: usize = 2048;

/// Counts what becomes of the values of one tensor, from any number of threads.
#[derive(Debug)]
pub(crate) struct Counter {
    /// The type that holds both sides: float or double.
    hub: DataType,
    widen_source: Option<Plan>,
    widen_result: Option<Plan>,
    limits: Limits,
    total: Mutex<Counts>,
}

/// Buffers for both sides of a block.
#[derive(Default)]
pub(crate) struct Sides {
    source: Vec<u8>,
    result: Vec<u8>,
}

fn widening(from: DataType, to: DataType) -> Result<Plan, OpError> {
    Cast::new(to, &CastOptions { threads: Some(1), ..CastOptions::default() })?.plan(from)
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
        let [source, result] = [from, to].map(|side| widening(side, DataType::Double));
        let (source, result) = (source?, result?);
        let min_normal = |plan: &Plan| {
            let format = plan.from().float_format().filter(|format| format.min_subnormal_code().is_some());
            format.map_or(0.0, |format| value(plan, format.min_normal_code()))
        };
        let hub = if from.is_exact_in(DataType::Float) && to.is_exact_in(DataType::Float) {
            DataType::Float
        } else {
            DataType::Double
        };
        let beyond = |high: f64| match hub {
            DataType::Float => f64::from((high as f32).next_up()),
            _ => high.next_up(),
        };
        let bits = to.bits().unwrap_or(0) as i32;
        let (low, high, below, above) = match to.info().kind {
            Kind::Float(format) => {
                let high = value(&result, format.max_code());
                (-high, high, -beyond(high), beyond(high))
            }
            Kind::Int => {
                let above = 2f64.powi(bits - 1);
                (-above, above - 1.0, -above - 1.0, above)
            }
            Kind::Uint => (0.0, 2f64.powi(bits) - 1.0, -1.0, 2f64.powi(bits)),
            // What is true or false has no size: nothing compares with NaN.
            _ => (f64::NAN, f64::NAN, f64::NAN, f64::NAN),
        };
        let (min_normal, source_min_normal) = (min_normal(&result), min_normal(&source));
        let limits = Limits { low, high, below, above, min_normal, source_min_normal };
        let widen = |side: DataType| (side != hub).then(|| widening(side, hub)).transpose();
        Ok(Counter { hub, widen_source: widen(from)?, widen_result: widen(to)?, limits, total: Mutex::default() })
    }

    pub(crate) fn reset(&self) {
        *self.total.lock().unwrap_or_else(PoisonError::into_inner) = Counts::default();
    }

    pub(crate) fn total(&self) -> Counts {
        *self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `len` values and what became of them.
    pub(crate) fn add(&self, source: &[u8], result: &[u8], len: usize, sides: &mut Sides) -> Result<(), CastError> {
        let mut counts = Counts::default();
        for start in (0..len).step_by(BLOCK) {
            let block = start..len.min(start + BLOCK);
            let source = self.widen(&self.widen_source, source, block.clone(), &mut sides.source)?;
            let result = self.widen(&self.widen_result, result, block, &mut sides.result)?;
            match self.hub {
                DataType::Float => tally::floats(&self.limits, source.as_chunks().0, result.as_chunks().0, &mut counts),
                _ => tally::doubles(&self.limits, source.as_chunks().0, result.as_chunks().0, &mut counts),
            }
        }
        self.total.lock().unwrap_or_else(PoisonError::into_inner).add(&counts);
        Ok(())
    }

    /// A block of elements in the type that holds both sides.
    fn widen<'b>(
        &self,
        plan: &Option<Plan>,
        bytes: &'b [u8],
        block: Range<usize>,
        out: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], CastError> {
        let from = plan.map_or(self.hub, |plan| plan.from());
        // Blocks start at multiples of 8 elements, and so at whole bytes.
        let size = |data_type: DataType, len| data_type.byte_len(len).unwrap_or(0);
        let start = size(from, block.start);
        let bytes = bytes.get(start..start + size(from, block.len())).unwrap_or_default();
        let Some(plan) = plan else { return Ok(bytes) };
        out.resize(size(self.hub, block.len()), 0);
        plan.run_into(&TensorView::new(from, &[block.len()], bytes)?, out)?;
        Ok(out)
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

    /// What is said of each value, one by one and on doubles.
    fn plainly(limits: &Limits, values: &[(f64, f64)]) -> Counts {
        let mut counts = Counts { values: values.len() as u64, ..Counts::default() };
        for &(source, result) in values {
            let (over, under) = (source >= limits.above, source <= limits.below);
            let stuck = over && result == limits.high || under && result == limits.low;
            let beyond = over || under;
            if source.is_nan() {
                counts.nan += 1;
            } else if stuck {
                counts.saturated += 1;
            } else if beyond && result.is_finite() || result.is_nan() || result.is_infinite() && source.is_finite() {
                counts.overflowed += 1;
            } else if !beyond && source != 0.0 && result == 0.0 {
                counts.zero += 1;
            } else if result != 0.0 && result.abs() < limits.min_normal && source.abs() >= limits.source_min_normal {
                counts.subnormal += 1;
            }
            if source.is_finite() && result.is_finite() {
                counts.see(source, result);
            }
        }
        counts
    }

    #[test]
    fn vectors_count_what_is_counted_one_by_one() {
        use DataType::{
            BFloat16, Double, Float, Float4E2M1, Float6E2M3, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E8M0,
            Float16, Int4, Int8, Int16, Int32, Int64, Uint8,
        };
        // Every bit pattern is as likely as the next, and then some that are near one.
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let mut bits: Vec<u32> = (0..3 * BLOCK).map(|_| random()).collect();
        bits.extend((0..BLOCK).map(|_| random() >> 4 | 0x3000_0000));
        let wild =
            Tensor::from_slice(vec![bits.len()], &bits.iter().map(|&bits| f32::from_bits(bits)).collect::<Vec<_>>());
        let wild = wild.expect("a tensor");
        let cast = |source: &Tensor, to, saturate| {
            let options = CastOptions { saturate, ..CastOptions::default() };
            let cast = Cast::new(to, &options).and_then(|cast| cast.plan(source.data_type())).expect("a cast");
            cast.run(&source.view()).expect("cast")
        };
        let hubs = std::cell::Cell::new([0, 0]);
        for from in [Float, Double, Float16, BFloat16, Float8E5M2, Float8E4M3FNUZ, Int8, Int16, Int32, Int64] {
            let source = cast(&wild, from, None);
            for to in [
                Float,
                Double,
                Float16,
                BFloat16,
                Float8E4M3FN,
                Float8E5M2,
                Float8E8M0,
                Float6E2M3,
                Float4E2M1,
                Int4,
                Int8,
                Uint8,
                Int16,
                Int32,
                Int64,
            ] {
                let counter = Counter::new(from, to).expect("numbers");
                let result = cast(&source, to, None);
                let [before, after] = [&source, &result].map(|side| {
                    let doubles = cast(side, Double, None);
                    doubles.to_vec::<f64>().expect("doubles")
                });
                let want = plainly(&counter.limits, &before.into_iter().zip(after).collect::<Vec<_>>());
                let bytes = |tensor: &Tensor| tensor.bytes().expect("numbers").to_vec();
                let mut sides = Sides::default();
                counter.add(&bytes(&source), &bytes(&result), source.len(), &mut sides).expect("counted");
                let got = counter.total();
                let near = |got: f64, want: f64| got <= want && got >= want * (1.0 - 2f64.powi(-22));
                assert!(near(got.max_error, want.max_error), "{from} to {to}: {got:?}, want {want:?}");
                assert!(
                    near(got.max_relative_error, want.max_relative_error),
                    "{from} to {to}: {got:?}, want {want:?}"
                );
                let (max_error, max_relative_error) = (want.max_error, want.max_relative_error);
                assert_eq!(Counts { max_error, max_relative_error, ..got }, want, "{from} to {to}");
                let [floats, doubles] = hubs.get();
                hubs.set(if counter.hub == Float { [floats + 1, doubles] } else { [floats, doubles + 1] });
            }
        }
        assert!(hubs.get().iter().all(|&count| count > 20), "{hubs:?}");
    }
}
