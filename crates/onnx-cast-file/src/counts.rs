//! What a cast does to the values of a tensor, counted while it is cast: both sides are widened to float where that
//! holds both types, or to double, and compared (`tally.rs`). Integers of 64 bits, which doubles do not hold, are
//! compared as integers (`integers.rs`), and texts as the nearest doubles (`text.rs`).

mod alarms;
mod integers;
mod means;
mod number;
mod tally;
mod text;
pub(crate) mod widen;

use crate::counts::alarms::Scan;
use crate::counts::widen::{BLOCK, Widening, hub};
use crate::level::level;
use fearless_simd::Level;
use integers::Integers;
use onnx_cast::ops::OpError;
use onnx_cast::types::Kind;
use onnx_cast::{CastError, DataType};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tally::Limits;

pub use alarms::Alarms;
pub use means::Means;
pub use number::Number;
pub(crate) use number::{Distance, Numbers, exceeds_doubles, is_integer};
pub(crate) use tally::{Compared, Distances};
pub(crate) use text::{alarms_of_strings, count_strings};

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
    /// Numbers, or infinities, that became NaN. They count as overflowed, too.
    pub became_nan: u64,
    /// Values that were infinite.
    pub infinite: u64,
    /// The largest distance between a finite value and a finite result. Distances that differ by less than the
    /// precision of a float may be taken for equal.
    pub max_error: f64,
    /// The largest such distance, divided by the value, likewise.
    pub max_relative_error: f64,
}

impl Counts {
    /// Counts other values too.
    pub fn add(&mut self, other: &Counts) {
        self.values += other.values;
        self.overflowed += other.overflowed;
        self.saturated += other.saturated;
        self.zero += other.zero;
        self.subnormal += other.subnormal;
        self.nan += other.nan;
        self.became_nan += other.became_nan;
        self.infinite += other.infinite;
        self.max_error = self.max_error.max(other.max_error);
        self.max_relative_error = self.max_relative_error.max(other.max_relative_error);
    }

    /// Takes the error of a value, if it has one.
    fn see(&mut self, source: f64, result: f64) {
        let error = (source - result).abs();
        self.see_error(error, error / source.abs());
    }

    fn see_error(&mut self, error: f64, relative: f64) {
        if error > self.max_error && error.is_finite() {
            self.max_error = error;
        }
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
    /// A NaN, or a value that becomes NaN.
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
            Loss::Nan => counts.nan + counts.became_nan,
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
        known.ok_or_else(|| format!("`{text}` is not a loss (want overflow, underflow, subnormal or nan)"))
    }
}

/// Counts what becomes of the values of one tensor, from any number of threads.
#[derive(Debug)]
pub struct Counter {
    source: Widening,
    result: Widening,
    limits: Limits,
    /// Where a side has integers that the others do not hold.
    integers: Option<Integers>,
    level: Level,
    /// The blocks to count, where that is enough for [`Alarms`]; otherwise all are counted.
    scan: Option<Scan>,
    nan_scales: AtomicU64,
    total: Mutex<Counts>,
}

/// Counters of casts: one for each tensor, of which those between the same types share what takes time to find.
#[derive(Debug)]
pub struct Counters {
    /// Whether everything is counted, or only what [`Alarms`] has.
    counts: bool,
    known: HashMap<(DataType, DataType), Option<Counter>>,
}

impl Counters {
    /// Of everything, or of what [`Alarms`] has.
    pub fn new(counts: bool) -> Counters {
        Counters { counts, known: HashMap::new() }
    }

    /// The counter of a tensor; `None` where one of the types is not of numbers.
    pub fn of(&mut self, from: DataType, to: DataType) -> Option<Counter> {
        let made = || if self.counts { Counter::new(from, to) } else { Counter::of_alarms(from, to) };
        self.known.entry((from, to)).or_insert_with(|| made().ok()).as_ref().map(Counter::fresh)
    }
}

/// Buffers for both sides of a block.
#[derive(Default)]
pub struct Sides {
    source: Vec<u8>,
    result: Vec<u8>,
}

/// What a code of a type of numbers stands for, as a double.
///
/// # Errors
/// Where the library does not cast the type to double.
pub fn value_of(data_type: DataType, code: u64) -> Result<f64, CastError> {
    let (code, mut out) = (code.to_le_bytes(), Vec::new());
    let bytes = Widening::new(data_type, DataType::Double)?.block(&code, 0..1, &mut out)?;
    Ok(bytes.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes)))
}

impl Counter {
    /// For a cast between two types, neither string.
    pub fn new(from: DataType, to: DataType) -> Result<Counter, OpError> {
        let value = |side: DataType, code: u64| value_of(side, code).unwrap_or(0.0);
        let min_normal = |side: DataType| {
            let format = side.float_format().filter(|format| format.min_subnormal_code().is_some());
            format.map_or(0.0, |format| value(side, format.min_normal_code()))
        };
        // One type that holds both sides.
        let hub = if hub(from) == hub(to) { hub(from) } else { DataType::Double };
        let beyond = |high: f64| match hub {
            DataType::Float => f64::from((high as f32).next_up()),
            _ => high.next_up(),
        };
        let bits = to.bits().unwrap_or(0) as i32;
        let (low, high, below, above) = match to.info().kind {
            Kind::Float(format) => {
                let high = value(to, format.max_code());
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
        let (min_normal, source_min_normal) = (min_normal(to), min_normal(from));
        let limits = Limits { low, high, below, above, min_normal, source_min_normal };
        let (source, result) = (Widening::new(from, hub)?, Widening::new(to, hub)?);
        Ok(Counter {
            source,
            result,
            limits,
            integers: Integers::new(from, to)?,
            level: level(),
            scan: None,
            nan_scales: AtomicU64::new(0),
            total: Mutex::default(),
        })
    }

    /// As [`Counter::new`], for [`Counter::alarms`] alone, which takes little longer than reading the values.
    ///
    /// # Errors
    /// As [`Counter::new`].
    pub fn of_alarms(from: DataType, to: DataType) -> Result<Counter, OpError> {
        let counter = Counter::new(from, to)?;
        let scan = Scan::new(from, to, &counter.limits);
        Ok(Counter { scan: Some(scan), ..counter })
    }

    /// The same with nothing counted.
    fn fresh(&self) -> Counter {
        let Counter { source, result, limits, integers, level, scan, .. } = *self;
        let (nan_scales, total) = (AtomicU64::new(0), Mutex::default());
        Counter { source, result, limits, integers, level, scan, nan_scales, total }
    }

    /// Counts what becomes of values that are quantized and then read back as floats, in a format whose scales are floats
    /// or powers of two.
    ///
    /// # Errors
    /// As [`Counter::new`].
    pub fn of_quantized(from: DataType, counts: bool) -> Result<Counter, OpError> {
        // A scale moves no value by a factor of two.
        Counter::of_quantized_below(from, (1u128 << 127) as f64, counts)
    }

    /// The same, of a format that keeps values finite whose magnitudes are up to a limit.
    pub(crate) fn of_quantized_below(from: DataType, limit: f64, counts: bool) -> Result<Counter, OpError> {
        let counter = Counter::new(from, DataType::Float)?;
        let limits = Limits { above: limit, below: -limit, ..counter.limits };
        let scan = (!counts).then(|| Scan::new(from, DataType::Float, &limits));
        Ok(Counter { scan, ..counter })
    }

    /// Whether some of `len` values may have to be counted.
    pub fn is_interested(&self, source: &[u8], len: usize) -> bool {
        match self.scan {
            None | Some(Scan::Everything) => true,
            Some(Scan::Nothing) => false,
            Some(Scan::Codes(codes)) => codes.next_beyond(self.level, source, len.max(1), 0).is_some(),
        }
    }

    /// Whether more is counted than alarms.
    pub(crate) fn counts_everything(&self) -> bool {
        self.scan.is_none()
    }

    pub(crate) fn add_nan_scales(&self, count: u64) {
        self.nan_scales.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.nan_scales.store(0, Ordering::Relaxed);
        *self.total.lock().unwrap_or_else(PoisonError::into_inner) = Counts::default();
    }

    /// The counts of all values that were added.
    pub fn total(&self) -> Counts {
        *self.total.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Counter::total`]; `None` where only alarms are counted.
    pub fn counts(&self) -> Option<Counts> {
        self.scan.is_none().then(|| self.total())
    }

    /// The values so far that overflowed or are NaN.
    pub fn alarms(&self) -> Alarms {
        Alarms { nan_scales: self.nan_scales.load(Ordering::Relaxed), ..Alarms::from(&self.total()) }
    }

    /// Counts `len` values and what became of them.
    ///
    /// # Errors
    /// Where the values cannot be read.
    pub fn add(&self, source: &[u8], result: &[u8], len: usize, sides: &mut Sides) -> Result<(), CastError> {
        match self.scan {
            None | Some(Scan::Everything) => match &self.integers {
                Some(integers) => self.add_counts(integers.count(&self.limits, (source, result), len, sides, None)),
                None => self.add_blocks(source, result, len, sides, |_, _| ()),
            },
            Some(Scan::Nothing) => Ok(()),
            Some(Scan::Codes(codes)) => {
                if let Some(integers) = &self.integers {
                    return match codes.next_beyond(self.level, source, len.max(1), 0) {
                        Some(_) => self.add_counts(integers.count(&self.limits, (source, result), len, sides, None)),
                        None => Ok(()),
                    };
                }
                let (mut counts, mut from) = (Counts::default(), 0);
                while let Some(index) = codes.next_beyond(self.level, source, BLOCK, from) {
                    let block = index * BLOCK..len.min((index + 1) * BLOCK);
                    let source = self.source.block(source, block.clone(), &mut sides.source)?;
                    let result = self.result.block(result, block, &mut sides.result)?;
                    self.compare::<false>(
                        source,
                        result,
                        &mut counts,
                        &mut Distances::default(),
                        &mut Distances::default(),
                    );
                    from = index + 1;
                }
                if from > 0 {
                    self.add_counts(Ok(counts))?;
                }
                Ok(())
            }
        }
    }

    fn add_counts(&self, counts: Result<Counts, CastError>) -> Result<(), CastError> {
        self.total.lock().unwrap_or_else(PoisonError::into_inner).add(&counts?);
        Ok(())
    }

    /// As [`Counter::add`], and adds the errors to others.
    fn add_with_means(
        &self,
        source: &[u8],
        result: &[u8],
        len: usize,
        sides: &mut Sides,
        means: &mut Means,
    ) -> Result<(), CastError> {
        if let Some(integers) = &self.integers {
            return self.add_counts(integers.count(&self.limits, (source, result), len, sides, Some(means)));
        }
        let floats = |(a, b): (&[u8; 4], &[u8; 4])| (f32::from_le_bytes(*a).into(), f32::from_le_bytes(*b).into());
        let doubles = |(a, b): (&[u8; 8], &[u8; 8])| (f64::from_le_bytes(*a), f64::from_le_bytes(*b));
        self.add_blocks(source, result, len, sides, |source, result| match self.source.to {
            DataType::Float => means.see(source.as_chunks().0.iter().zip(result.as_chunks().0).map(floats)),
            _ => means.see(source.as_chunks().0.iter().zip(result.as_chunks().0).map(doubles)),
        })
    }

    /// Counts, and hands every block on, in the type that holds both sides.
    fn add_blocks(
        &self,
        source: &[u8],
        result: &[u8],
        len: usize,
        sides: &mut Sides,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), CastError> {
        let mut counts = Counts::default();
        for start in (0..len).step_by(BLOCK) {
            let block = start..len.min(start + BLOCK);
            let source = self.source.block(source, block.clone(), &mut sides.source)?;
            let result = self.result.block(result, block, &mut sides.result)?;
            self.compare::<false>(source, result, &mut counts, &mut Distances::default(), &mut Distances::default());
            each(source, result);
        }
        self.add_counts(Ok(counts))
    }

    /// The type that both sides are compared in.
    pub(crate) fn hub(&self) -> DataType {
        self.source.to
    }

    /// Results in the type that both sides are compared in.
    pub(crate) fn widen_result<'b>(
        &self,
        bytes: &'b [u8],
        len: usize,
        out: &'b mut Vec<u8>,
    ) -> Result<&'b [u8], CastError> {
        self.result.block(bytes, 0..len, out)
    }

    #[cfg(test)]
    pub(crate) fn set_level(&mut self, level: Level) {
        self.level = level;
    }

    /// Counts values and what became of them, both in the type that they are compared in. `KEEP`: and tells how far
    /// each value is from its result, in the one of the two that has its type.
    pub(crate) fn compare<const KEEP: bool>(
        &self,
        source: &[u8],
        result: &[u8],
        counts: &mut Counts,
        floats: &mut Distances<f32>,
        doubles: &mut Distances<f64>,
    ) -> Compared {
        let Counter { limits, level, .. } = self;
        if self.hub() == DataType::Float {
            let sides = (source.as_chunks().0, result.as_chunks().0);
            tally::floats::count::<KEEP>(*level, limits, sides, counts, floats)
        } else {
            let sides = (source.as_chunks().0, result.as_chunks().0);
            tally::doubles::count::<KEEP>(*level, limits, sides, counts, doubles)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnx_cast::{Cast, CastOptions, Tensor};

    fn counts(source: &Tensor, to: DataType, saturate: Option<bool>) -> Counts {
        let options = CastOptions::new().saturate(saturate);
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
    fn each_kind_of_loss_is_counted() {
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
            counts.became_nan += u64::from(!source.is_nan() && result.is_nan());
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
            counts.infinite += u64::from(source.is_infinite());
            if source.is_finite() && result.is_finite() {
                counts.see(source, result);
            }
        }
        counts
    }

    fn cast_to(source: &Tensor, to: DataType) -> Tensor {
        let cast = Cast::new(to, &CastOptions::new()).and_then(|cast| cast.plan(source.data_type())).expect("a cast");
        cast.run(&source.view()).expect("cast")
    }

    /// Compares what is counted of a cast with what is counted one by one.
    fn check(counter: &Counter, source: &Tensor, to: DataType) {
        let (from, result) = (source.data_type(), cast_to(source, to));
        let doubles = |side: &Tensor| cast_to(side, DataType::Double).to_vec::<f64>().expect("doubles");
        let pairs: Vec<(f64, f64)> = doubles(source).into_iter().zip(doubles(&result)).collect();
        let want = plainly(&counter.limits, &pairs);
        let bytes = |tensor: &Tensor| tensor.bytes().expect("numbers").to_vec();
        let mut sides = Sides::default();
        counter.add(&bytes(source), &bytes(&result), source.len(), &mut sides).expect("counted");
        let got = counter.total();
        let near = |got: f64, want: f64| got <= want && got >= want * (1.0 - 2f64.powi(-22));
        assert!(near(got.max_error, want.max_error), "{from} to {to}: {got:?}, want {want:?}");
        let is_near = near(got.max_relative_error, want.max_relative_error);
        assert!(is_near, "{from} to {to}: {got:?}, want {want:?}");
        let (max_error, max_relative_error) = (want.max_error, want.max_relative_error);
        assert_eq!(Counts { max_error, max_relative_error, ..got }, want, "{from} to {to}");
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
        // To int64 those beyond it would be its limits, of which doubles do not hold the larger.
        let held: Vec<f32> = bits
            .iter()
            .map(|&bits| f32::from_bits(bits))
            .filter(|value| value.abs() < 9e18 || value.is_nan())
            .collect();
        let held = Tensor::from_slice(vec![held.len()], &held).expect("a tensor");
        let mut hubs = [0, 0];
        for from in [Float, Double, Float16, BFloat16, Float8E5M2, Float8E4M3FNUZ, Int8, Int16, Int32, Int64] {
            let source = cast_to(if from == Int64 { &held } else { &wild }, from);
            let floats =
                [Float, Double, Float16, BFloat16, Float8E4M3FN, Float8E5M2, Float8E8M0, Float6E2M3, Float4E2M1];
            for to in floats.into_iter().chain([Int4, Int8, Uint8, Int16, Int32, Int64]) {
                let counter = Counter::new(from, to).expect("numbers");
                check(&counter, &source, to);
                hubs[usize::from(counter.source.to != Float)] += 1;
            }
        }
        assert!(hubs.iter().all(|&count| count > 20), "{hubs:?}");
    }
}
