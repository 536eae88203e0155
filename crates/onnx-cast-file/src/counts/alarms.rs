//! What has to be known of every cast, asked for or not: values that overflowed, and NaN.
//!
//! Both are rare, and counting everything takes several times as long as a cast. So a block of the source, which is
//! still in the cache, is only scanned: do all its values lie between two codes that the target holds? The codes of a
//! type, as integers in the order of its values, make that a minimum and a maximum, of which the compiler makes
//! vectors. Only blocks that fail are counted, with the loop that counts everything (`tally.rs`), so that both agree.

use super::tally::Limits;
use super::{Counts, value_of};
use fearless_simd::{Level, dispatch};
use onnx_cast::DataType;
use onnx_cast::types::{Kind, Nan};
use std::ops::AddAssign;

/// Values of a tensor that overflowed or are NaN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alarms {
    /// As [`Counts::overflowed`].
    pub overflowed: u64,
    /// As [`Counts::saturated`].
    pub saturated: u64,
    /// As [`Counts::nan`].
    pub nan: u64,
    /// As [`Counts::became_nan`].
    pub became_nan: u64,
    /// Blocks of MX and NVFP4 that got a NaN scale, because one of their values is NaN or infinite.
    pub nan_scales: u64,
}

impl Alarms {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        *self != Alarms::default()
    }
}

impl AddAssign for Alarms {
    fn add_assign(&mut self, other: Alarms) {
        self.overflowed += other.overflowed;
        self.saturated += other.saturated;
        self.nan += other.nan;
        self.became_nan += other.became_nan;
        self.nan_scales += other.nan_scales;
    }
}

impl From<&Counts> for Alarms {
    fn from(counts: &Counts) -> Alarms {
        let Counts { overflowed, saturated, nan, became_nan, .. } = *counts;
        Alarms { overflowed, saturated, nan, became_nan, nan_scales: 0 }
    }
}

/// Which blocks of a source may hold values to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// None: the target holds every value of the source's type.
    Nothing,
    /// Those with a code beyond two others.
    Codes(Codes),
    /// All of them.
    Everything,
}

/// Codes of a type, between two of them in the order of their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Codes {
    bits: u32,
    /// Whether codes have a sign and a magnitude.
    are_floats: bool,
    /// Whether the lowest is the highest with the other sign: then magnitudes are compared.
    are_symmetric: bool,
    /// What makes codes without a sign signed integers of the same order.
    flip: i64,
    low: i64,
    high: i64,
}

impl Scan {
    /// For casts from a type to another with these limits.
    pub(super) fn new(from: DataType, to: DataType, limits: &Limits) -> Scan {
        let bits = from.bits().unwrap_or(0) as u32;
        // Negative numbers are NaN in float8e8m0; NaN of the FNUZ types is the code of a negative zero.
        let has_other_order = from.float_format().is_some_and(|format| format.nan == Nan::MinusZero);
        match from.info().kind {
            _ if to == DataType::Float8E8M0 || has_other_order => Scan::Everything,
            Kind::Float(format) if bits >= 8 => {
                let codes = Codes::of_floats(from, bits, format.max_code(), limits);
                codes.map_or(Scan::Everything, Scan::Codes)
            }
            Kind::Int if bits >= 8 => Scan::of_integers(bits, -(1 << (bits - 1)), (1 << (bits - 1)) - 1, limits),
            Kind::Uint if bits >= 8 => Scan::of_integers(bits, 0, (1 << bits) - 1, limits),
            Kind::Float(_) | Kind::Int | Kind::Uint => {
                let fits = |code| is_within(value_of(from, code).unwrap_or(f64::NAN), limits);
                if (0..1 << bits).all(fits) { Scan::Nothing } else { Scan::Everything }
            }
            Kind::Bool => Scan::Nothing,
            _ => Scan::Everything,
        }
    }

    fn of_integers(bits: u32, least: i128, most: i128, limits: &Limits) -> Scan {
        // Limits are at most 2^128; what is no number does not limit.
        let low = if limits.below.is_nan() { least } else { (limits.below.floor() as i128).saturating_add(1) };
        let high = if limits.above.is_nan() { most } else { (limits.above.ceil() as i128).saturating_sub(1) };
        let (low, high) = (low.max(least), high.min(most));
        if (low, high) == (least, most) {
            return Scan::Nothing;
        }
        let flip = if least < 0 { 0 } else { 1 << (bits - 1) };
        let key = |value: i128| (value - flip) as i64;
        let flip = if flip == 0 { 0 } else { i64::MIN >> (64 - bits) };
        let (are_floats, are_symmetric) = (false, false);
        Scan::Codes(Codes { bits, are_floats, are_symmetric, flip, low: key(low), high: key(high) })
    }
}

/// Whether a value has its place between limits; NaN has none.
fn is_within(value: f64, limits: &Limits) -> bool {
    let is_beyond = value >= limits.above || value <= limits.below;
    !value.is_nan() && !is_beyond
}

impl Codes {
    /// `None` where a code cannot be read.
    fn of_floats(from: DataType, bits: u32, max_code: u64, limits: &Limits) -> Option<Codes> {
        let sign = 1u64 << (bits - 1);
        let has_sign = from != DataType::Float8E8M0;
        // The magnitudes within limits come first: the first beyond is found by bisection.
        let within = |sign: u64| {
            let (mut low, mut high) = (0, max_code + 1);
            while low < high {
                let middle = low + (high - low) / 2;
                if is_within(value_of(from, middle | sign).ok()?, limits) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            Some(low as i64 - 1)
        };
        let flip = if has_sign { 0 } else { i64::MIN >> (64 - bits) };
        let high = within(0)?.wrapping_add(flip);
        // Negative codes in order: -1 is negative zero.
        let low = if has_sign { -1 - within(sign)? } else { flip };
        let are_symmetric = has_sign && low == -1 - high;
        Some(Codes { bits, are_floats: has_sign, are_symmetric, flip, low, high })
    }

    /// The first block of so many values, from one on, with a code beyond.
    pub(super) fn next_beyond(&self, level: Level, bytes: &[u8], block: usize, from: usize) -> Option<usize> {
        match self.bits {
            8 => dispatch!(level, _simd => bytes::next(self, bytes, block, from)),
            16 => dispatch!(level, _simd => halves::next(self, bytes, block, from)),
            32 => dispatch!(level, _simd => words::next(self, bytes, block, from)),
            _ => dispatch!(level, _simd => doubles::next(self, bytes, block, from)),
        }
    }
}

macro_rules! scan {
    ($name:ident, $signed:ty, $bytes:literal) => {
        mod $name {
            use super::Codes;

            type Value = [u8; $bytes];

            #[inline(always)]
            pub(super) fn next(codes: &Codes, bytes: &[u8], block: usize, from: usize) -> Option<usize> {
                let (low, high, flip) = (codes.low as $signed, codes.high as $signed, codes.flip as $signed);
                let values = bytes.as_chunks::<$bytes>().0;
                let mut blocks = values.chunks(block).enumerate().skip(from);
                let found = match (codes.are_symmetric, codes.are_floats) {
                    (true, _) => blocks.find(|(_, values)| !are_small(values, high)),
                    (false, true) => blocks.find(|(_, values)| !are_between::<true>(values, 0, low, high)),
                    (false, false) => blocks.find(|(_, values)| !are_between::<false>(values, flip, low, high)),
                };
                found.map(|(index, _)| index)
            }

            #[inline(always)]
            fn are_small(values: &[Value], high: $signed) -> bool {
                values.iter().fold(0, |most, value| (<$signed>::from_le_bytes(*value) & <$signed>::MAX).max(most))
                    <= high
            }

            #[inline(always)]
            fn are_between<const FLOATS: bool>(values: &[Value], flip: $signed, low: $signed, high: $signed) -> bool {
                let (mut least, mut most) = (<$signed>::MAX, <$signed>::MIN);
                for value in values {
                    let code = <$signed>::from_le_bytes(*value) ^ flip;
                    // Of negative floats the larger magnitude comes first.
                    let magnitude = if FLOATS { (code >> (<$signed>::BITS - 1)) & <$signed>::MAX } else { 0 };
                    least = least.min(code ^ magnitude);
                    most = most.max(code ^ magnitude);
                }
                values.is_empty() || least >= low && most <= high
            }
        }
    };
}
scan!(bytes, i8, 1);
scan!(halves, i16, 2);
scan!(words, i32, 4);
scan!(doubles, i64, 8);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::{Counter, Sides};
    use onnx_cast::{Cast, CastOptions, Tensor};

    /// Bit patterns of every kind, and values near one.
    fn wild(len: usize) -> Vec<u8> {
        let mut state = 3u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn scans_find_what_counting_everything_finds() {
        const LEN: usize = 3 * 2048 + 80;
        let numbers: Vec<DataType> = DataType::ALL.iter().copied().filter(|to| value_of(*to, 0).is_ok()).collect();
        assert!(numbers.len() > 20, "{numbers:?}");
        let (mut scanned, mut alarmed) = (0, 0);
        for &from in &numbers {
            let size = from.byte_len(LEN).expect("a size");
            let mut source = wild(size);
            if from == DataType::Bool {
                source.iter_mut().for_each(|byte| *byte &= 1);
            }
            // A block of each value that a byte can end in, so that blocks of few values without alarm come too.
            let width = from.bits().expect("a width").div_ceil(8);
            let small = source.len() / 3 / width * width;
            source[..small].chunks_exact_mut(width).for_each(|value| {
                if let [.., last] = value {
                    *last = (*last & 0x81) | 0x3c;
                }
            });
            for &to in &numbers {
                for saturate in [None, Some(false)] {
                    let options = CastOptions::new().threads(1).saturate(saturate);
                    let Ok(plan) = Cast::new(to, &options).and_then(|cast| cast.plan(from)) else { continue };
                    let tensor = Tensor::new(from, vec![LEN], source.clone()).expect("a tensor");
                    let result = plan.run(&tensor.view()).expect("cast");
                    let count = |counter: &Counter| {
                        let bytes = result.bytes().expect("numbers");
                        counter.add(&source, bytes, LEN, &mut Sides::default()).expect("counted");
                        counter.alarms()
                    };
                    let all = count(&Counter::new(from, to).expect("numbers"));
                    let quick = Counter::of_alarms(from, to).expect("numbers");
                    assert_eq!(count(&quick), all, "{from} to {to}, saturate {saturate:?}");
                    assert_eq!(quick.counts(), None);
                    scanned += usize::from(matches!(quick.scan, Some(Scan::Codes(_))));
                    alarmed += usize::from(all.any());
                }
            }
        }
        assert!(scanned > 300 && alarmed > 300, "{scanned} {alarmed}");
    }

    #[test]
    fn limits_are_those_of_the_target() {
        let one = |from: DataType, code: u64, to: DataType| {
            let options = CastOptions::new().threads(1);
            let plan = Cast::new(to, &options).and_then(|cast| cast.plan(from)).expect("a cast");
            let size = from.byte_len(1).expect("a size");
            let tensor = Tensor::new(from, vec![1], code.to_le_bytes()[..size].to_vec()).expect("a tensor");
            let result = plan.run(&tensor.view()).expect("cast");
            let counter = Counter::of_alarms(from, to).expect("numbers");
            let bytes = [tensor.bytes(), result.bytes()].map(|bytes| bytes.expect("numbers"));
            counter.add(bytes[0], bytes[1], 1, &mut Sides::default()).expect("counted");
            let Alarms { overflowed, saturated, nan, became_nan, .. } = counter.alarms();
            [overflowed, saturated, nan, became_nan]
        };
        use DataType::{Float, Float8E4M3FN, Float16, Int8, Int64, Uint8, Uint64};
        let float = |value: f32| u64::from(value.to_bits());
        assert_eq!(one(Float, float(65504.0), Float16), [0; 4]);
        assert_eq!(one(Float, float(65520.0), Float16), [1, 0, 0, 0]);
        assert_eq!(one(Float, float(f32::INFINITY), Float16), [0; 4]);
        assert_eq!(one(Float, float(f32::NAN), Float16), [0, 0, 1, 0]);
        assert_eq!(one(Float, float(-f32::NAN), Int8), [0, 0, 1, 0]);
        assert_eq!(one(Float, float(-449.0), Float8E4M3FN), [0, 1, 0, 0]);
        assert_eq!(one(Float, float(-0.9), Uint8), [0; 4]);
        assert_eq!(one(Float, float(-1.0), Uint8), [0, 1, 0, 0]);
        // Integers of 64 bits are compared as such.
        assert_eq!(one(Uint64, i64::MAX as u64, Int64), [0; 4]);
        assert_eq!(one(Uint64, 1 << 63, Int64), [1, 0, 0, 0]);
        assert_eq!(one(Int64, u64::MAX, Uint64), [1, 0, 0, 0]);
    }
}
