//! What becomes of values, counted on both sides widened to float, or to double: a loop over bits as integers, with
//! sums and maxima of integers alone, which the compiler makes vectors of. (Of floats it does not: their order of
//! operations counts.) No comparison of floats either, so that a float environment that takes subnormals for zero
//! changes no count. The loop is compiled for several instruction sets, of which `dispatch` takes the one that the
//! processor has.
//!
//! The largest errors are found as the bits of non-negative floats, which have their order. Where those of a block are
//! beyond the largest so far, it is gone through again for the values that have them, whose errors are then computed
//! exactly.

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

/// How far the values of a block are from their results: the distance, and the distance divided by the value. Zero
/// where one of the two is not finite, and the latter where the value is zero.
#[derive(Debug, Default)]
pub(crate) struct Distances<T> {
    pub(crate) errors: Vec<T>,
    pub(crate) relative: Vec<T>,
}

/// How many values of a block are finite on both sides, and how many of these are not zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Compared {
    pub(crate) finite: u64,
    pub(crate) nonzero: u64,
}

/// Sums and maxima of one block.
#[derive(Default)]
struct Sums<B> {
    overflowed: B,
    saturated: B,
    zero: B,
    subnormal: B,
    nan: B,
    became_nan: B,
    infinite: B,
    finite: B,
    nonzero: B,
    /// The largest errors, absolute and relative, as the bits of floats.
    error: B,
    relative: B,
}

impl<B: Copy + TryInto<u64>> Sums<B> {
    /// Adds to the counts of a tensor. No sum is negative.
    fn add_to(&self, counts: &mut Counts, values: usize) {
        let number = |sum: B| sum.try_into().unwrap_or(0);
        counts.values += values as u64;
        counts.overflowed += number(self.overflowed);
        counts.saturated += number(self.saturated);
        counts.zero += number(self.zero);
        counts.subnormal += number(self.subnormal);
        counts.nan += number(self.nan);
        counts.became_nan += number(self.became_nan);
        counts.infinite += number(self.infinite);
    }
}

macro_rules! tally {
    ($name:ident, $float:ty, $signed:ty, $bytes:literal) => {
        pub(super) mod $name {
            use super::{Distances, Compared, Counts, Limits, Sums};
            use fearless_simd::{Level, dispatch};

            type Value = [u8; $bytes];

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

            #[inline(always)]
            fn float(bytes: &Value) -> $float {
                <$float>::from_le_bytes(*bytes)
            }

            #[inline(always)]
            fn bits(float: $float) -> $signed {
                float.to_bits() as $signed
            }

            #[inline(always)]
            fn most(side: &[Value]) -> $signed {
                side.iter().fold(0, |most, value| (bits(float(value)) & !SIGN).max(most))
            }

            /// `WITHIN`: no value is NaN or beyond the target's limits, which makes most of this constant.
            #[inline(always)]
            fn sums<const WITHIN: bool, const KEEP: bool>(
                limits: Bits,
                (source, result): (&[Value], &[Value]),
                apart: &mut Distances<$float>,
            ) -> Sums<$signed> {
                // Of one length, so that no access needs a check.
                let len = source.len().min(result.len());
                let (source, result) = (&source[..len], &result[..len]);
                let kept = if KEEP { len } else { 0 };
                let (errors, relatives) = (&mut apart.errors[..kept], &mut apart.relative[..kept]);
                let mut sums = Sums::<$signed>::default();
                for index in 0..len {
                    let (source, result) = (float(&source[index]), float(&result[index]));
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
                    sums.became_nan += <$signed>::from(is_nan & !nan);
                    sums.infinite += <$signed>::from(!WITHIN & (before == INFINITY));
                    let both = finite & was_finite;
                    let nonzero = both & (before != 0);
                    sums.finite += <$signed>::from(both);
                    sums.nonzero += <$signed>::from(nonzero);
                    let error = (source - result).abs();
                    let relative = error / source.abs();
                    let error = if both { error } else { 0.0 };
                    let relative = if nonzero { relative } else { 0.0 };
                    sums.error = sums.error.max(bits(error));
                    sums.relative = sums.relative.max(bits(relative));
                    if KEEP {
                        errors[index] = error;
                        relatives[index] = relative;
                    }
                }
                sums
            }

            #[inline(always)]
            fn all<const KEEP: bool>(
                limits: Bits,
                (source, result): (&[Value], &[Value]),
                apart: &mut Distances<$float>,
            ) -> Sums<$signed> {
                let within = most(source) < limits.above.min(limits.below).min(INFINITY) && most(result) < INFINITY;
                if within {
                    sums::<true, KEEP>(limits, (source, result), apart)
                } else {
                    sums::<false, KEEP>(limits, (source, result), apart)
                }
            }

            /// Counts a block: each value beside what became of it. `KEEP`: and tells how far each is from that.
            pub(in super::super) fn count<const KEEP: bool>(
                level: Level,
                limits: &Limits,
                sides: (&[Value], &[Value]),
                counts: &mut Counts,
                apart: &mut Distances<$float>,
            ) -> Compared {
                let (source, _) = sides;
                if KEEP {
                    apart.errors.resize(source.len(), 0.0);
                    apart.relative.resize(source.len(), 0.0);
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
                let sums = dispatch!(level, _simd => all::<KEEP>(bits_of, sides, apart));
                sums.add_to(counts, source.len());
                see_largest::<KEEP>(&sums, sides, counts, apart);
                Compared { finite: sums.finite as u64, nonzero: sums.nonzero as u64 }
            }

            /// Finds the values with the largest errors, where these are beyond the largest so far.
            fn see_largest<const KEEP: bool>(
                sums: &Sums<$signed>,
                (source, result): (&[Value], &[Value]),
                counts: &mut Counts,
                apart: &Distances<$float>,
            ) {
                let known = |most: f64| bits(most as $float);
                if sums.error <= known(counts.max_error) && sums.relative <= known(counts.max_relative_error) {
                    return;
                }
                for (index, (source, result)) in source.iter().zip(result).enumerate() {
                    let (source, result) = (float(source), float(result));
                    let (error, relative) = if KEEP {
                        (apart.errors[index], apart.relative[index])
                    } else {
                        let error = (source - result).abs();
                        (error, error / source.abs())
                    };
                    if bits(error) == sums.error || bits(relative) == sums.relative {
                        counts.see(f64::from(source), f64::from(result));
                    }
                }
            }
        }
    };
}
tally!(floats, f32, i32, 4);
tally!(doubles, f64, i64, 8);
