//! What becomes of values, counted on both sides widened to float, or to double: a loop over bits as integers, with sums and
//! maxima of integers alone, which the compiler makes vectors of. (Of floats it does not: their order of operations counts.)
//! No comparison of floats either, so that a float environment that takes subnormals for zero changes no count.
//!
//! The largest errors are found as the bits of non-negative floats, which have their order. Where those of a block are
//! beyond the largest so far, it is gone through again for the values that have them, whose errors are then computed exactly.

use super::Counts;

/// What the types can hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The target's least and largest finite value.
    pub(super) low: f64,
    pub(super) high: f64,
    /// The nearest numbers that are beyond these. An integer's are one off, since casts to it cut fractions off.
    pub(super) below: f64,
    pub(super) above: f64,
    /// The target's smallest normal number; 0 where it has no subnormal ones.
    pub(super) min_normal: f64,
    /// Numbers below are not normal in the source.
    pub(super) source_min_normal: f64,
}

/// Sums and maxima of one block.
#[derive(Default)]
struct Sums<B> {
    overflowed: B,
    saturated: B,
    zero: B,
    subnormal: B,
    nan: B,
    infinite: B,
    /// The largest errors, absolute and relative, as the bits of floats.
    error: B,
    relative: B,
}

macro_rules! tally {
    ($name:ident, $float:ty, $signed:ty, $bytes:literal) => {
        /// Counts a block: each value beside what became of it.
        pub(super) fn $name(limits: &Limits, source: &[[u8; $bytes]], result: &[[u8; $bytes]], counts: &mut Counts) {
            // Magnitudes fit into signed integers, which every processor compares.
            const SIGN: $signed = <$signed>::MIN;
            const INFINITY: $signed = <$float>::INFINITY.to_bits() as $signed;
            /// Above every magnitude that is a number.
            const NONE: $signed = !SIGN;

            #[derive(Clone, Copy)]
            struct Bits {
                above: $signed,
                below: $signed,
                high: $signed,
                low: $signed,
                normal: $signed,
                source_normal: $signed,
            }

            fn float(bytes: &[u8; $bytes]) -> $float {
                <$float>::from_le_bytes(*bytes)
            }

            fn bits(float: $float) -> $signed {
                float.to_bits() as $signed
            }

            fn most(side: &[[u8; $bytes]]) -> $signed {
                side.iter().fold(0, |most, value| (bits(float(value)) & !SIGN).max(most))
            }

            /// `WITHIN`: no value is NaN or beyond the target's limits, which makes most of this constant.
            fn sums<const WITHIN: bool>(
                limits: Bits,
                source: &[[u8; $bytes]],
                result: &[[u8; $bytes]],
            ) -> Sums<$signed> {
                let mut sums = Sums::<$signed>::default();
                for (source, result) in source.iter().zip(result) {
                    let (source, result) = (float(source), float(result));
                    let (size, before) = (bits(result) & !SIGN, bits(source) & !SIGN);
                    let (finite, was_finite) = (WITHIN || size < INFINITY, WITHIN || before < INFINITY);
                    let (nan, is_nan) = (!WITHIN && before > INFINITY, !WITHIN && size > INFINITY);
                    let negative = bits(source) < 0;
                    let over = !WITHIN & !negative & (before >= limits.above) & !nan;
                    let under = !WITHIN & negative & (before >= limits.below) & !nan;
                    let beyond = over | under;
                    // At the limit of its own side: an integer that wraps may land on the other.
                    let stuck = (over & (bits(result) == limits.high)) | (under & (bits(result) == limits.low));
                    // An infinity that stays one has its place; one that becomes NaN has none.
                    let no_number = !nan & !finite & (was_finite | is_nan);
                    sums.overflowed += <$signed>::from((beyond & finite & !stuck) | no_number);
                    sums.saturated += <$signed>::from(stuck);
                    sums.zero += <$signed>::from((before != 0) & !nan & (size == 0) & !beyond);
                    let was_normal = (before >= limits.source_normal) & !nan;
                    sums.subnormal += <$signed>::from((size != 0) & (size < limits.normal) & was_normal & !beyond);
                    sums.nan += <$signed>::from(nan);
                    sums.infinite += <$signed>::from(!WITHIN & (before == INFINITY));
                    let both = finite & was_finite;
                    let error = (source - result).abs();
                    let relative = error / source.abs();
                    sums.error = sums.error.max(if both { bits(error) } else { 0 });
                    sums.relative = sums.relative.max(if both & (before != 0) { bits(relative) } else { 0 });
                }
                sums
            }

            let magnitude = |limit: f64| if limit.is_nan() { NONE } else { bits(limit.abs() as $float) };
            let bits_of = Bits {
                above: magnitude(limits.above),
                below: magnitude(limits.below),
                high: bits(limits.high as $float),
                low: bits(limits.low as $float),
                normal: magnitude(limits.min_normal),
                source_normal: magnitude(limits.source_min_normal),
            };
            let within = most(source) < bits_of.above.min(bits_of.below).min(INFINITY) && most(result) < INFINITY;
            let sums =
                if within { sums::<true>(bits_of, source, result) } else { sums::<false>(bits_of, source, result) };
            counts.values += source.len() as u64;
            counts.overflowed += sums.overflowed as u64;
            counts.saturated += sums.saturated as u64;
            counts.zero += sums.zero as u64;
            counts.subnormal += sums.subnormal as u64;
            counts.nan += sums.nan as u64;
            counts.infinite += sums.infinite as u64;

            let known = |most: f64| bits(most as $float);
            if sums.error > known(counts.max_error) || sums.relative > known(counts.max_relative_error) {
                for (source, result) in source.iter().zip(result) {
                    let (source, result) = (float(source), float(result));
                    let error = (source - result).abs();
                    if bits(error) == sums.error || bits(error / source.abs()) == sums.relative {
                        counts.see(f64::from(source), f64::from(result));
                    }
                }
            }
        }
    };
}
tally!(floats, f32, i32, 4);
tally!(doubles, f64, i64, 8);
