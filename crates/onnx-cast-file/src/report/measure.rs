//! The numbers behind a report, over blocks of values and what became of them: the power of two of each magnitude, and sums
//! of errors. Errors are computed in the type that both sides are compared in, and summed as doubles in eight lanes, which
//! the compiler makes vectors of.

/// Values that are summed side by side.
const LANES: usize = 8;

/// Tables that errors go to in turn: values beside one another often have the same power of two, and an addition in memory
/// waits for the last to the same place.
const TABLES: usize = 4;

/// Powers of two of doubles, from that of the smallest subnormal on.
pub(super) const POWERS: usize = 2098;

/// The power of two that comes first.
pub(super) const FIRST: i32 = -1074;

/// Where zeros are counted, and then infinities and NaN.
const ZERO: u16 = POWERS as u16;
const INFINITE: u16 = ZERO + 1;
const NAN: u16 = ZERO + 2;
const PLACES: usize = POWERS + 3;

/// How many values there are of each power of two.
pub(super) struct Histogram(Vec<u64>);

impl Histogram {
    pub(super) fn new() -> Histogram {
        Histogram(vec![0; PLACES])
    }

    pub(super) fn see(&mut self, places: &[u16]) {
        places.iter().for_each(|&place| self.0[usize::from(place)] += 1);
    }

    pub(super) fn add(&mut self, other: &Histogram) {
        self.0.iter_mut().zip(&other.0).for_each(|(ours, theirs)| *ours += theirs);
    }

    pub(super) fn powers(&self) -> &[u64] {
        &self.0[..POWERS]
    }

    /// Zeros, infinities and NaN.
    pub(super) fn special(&self) -> [u64; 3] {
        [ZERO, INFINITE, NAN].map(|place| self.0[usize::from(place)])
    }
}

/// Sums over the values that are finite on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    /// How many there are.
    pub(crate) compared: u64,
    /// How many of them are not zero.
    pub(crate) nonzero: u64,
    pub(crate) error: f64,
    pub(crate) relative: f64,
    /// Of squares: of the errors, and of the values.
    pub(crate) noise: f64,
    pub(crate) signal: f64,
}

impl Sums {
    pub(crate) fn add(&mut self, other: &Sums) {
        self.compared += other.compared;
        self.nonzero += other.nonzero;
        self.error += other.error;
        self.relative += other.relative;
        self.noise += other.noise;
        self.signal += other.signal;
    }
}

/// Errors of one candidate: in all, and the relative ones by the power of two of the value.
pub(super) struct Errors {
    pub(super) sums: Sums,
    tables: Vec<[f64; TABLES]>,
}

impl Errors {
    pub(super) fn new() -> Errors {
        Errors { sums: Sums::default(), tables: vec![[0.0; TABLES]; PLACES] }
    }

    pub(super) fn add(&mut self, other: &Errors) {
        self.sums.add(&other.sums);
        for (ours, theirs) in self.tables.iter_mut().zip(&other.tables) {
            ours.iter_mut().zip(theirs).for_each(|(ours, theirs)| *ours += theirs);
        }
    }

    /// The sum of the relative errors of a power of two, by its place from the first.
    pub(super) fn of(&self, power: usize) -> f64 {
        self.tables[power].iter().sum()
    }
}

macro_rules! measure {
    ($name:ident, $float:ty, $bits:ty, $bytes:literal) => {
        pub(super) mod $name {
            use super::{Errors, FIRST, INFINITE, LANES, NAN, TABLES, ZERO};

            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            const INFINITY: $bits = <$float>::INFINITY.to_bits();
            const SIGNIFICAND: u32 = <$float>::MANTISSA_DIGITS - 1;
            /// From an exponent field to a place.
            const BIAS: i32 = 1 - <$float>::MAX_EXP - FIRST;

            fn magnitude(value: &[u8; $bytes]) -> $bits {
                <$bits>::from_le_bytes(*value) & !SIGN
            }

            /// Where each value is counted.
            pub(in super::super) fn places(values: &[[u8; $bytes]], places: &mut Vec<u16>) {
                places.clear();
                places.extend(values.iter().map(|value| {
                    let bits = magnitude(value);
                    let field = (bits >> SIGNIFICAND) as i32;
                    match bits {
                        0 => ZERO,
                        INFINITY => INFINITE,
                        bits if bits > INFINITY => NAN,
                        bits if field == 0 => {
                            let lower = bits.leading_zeros() as i32 - (<$bits>::BITS - SIGNIFICAND) as i32;
                            (BIAS - lower) as u16
                        }
                        _ => (field + BIAS) as u16,
                    }
                }));
            }

            /// The smallest and the largest finite magnitude other than zero; the smallest is the larger where there is none.
            pub(in super::super) fn extremes(values: &[[u8; $bytes]]) -> (f64, f64) {
                let (mut smallest, mut largest) = (INFINITY, 0);
                for value in values {
                    let bits = magnitude(value);
                    // One less, so that zero is above all.
                    smallest = smallest.min(bits.wrapping_sub(1));
                    largest = largest.max(if bits < INFINITY { bits } else { 0 });
                }
                let smallest = if smallest < INFINITY - 1 { smallest + 1 } else { INFINITY };
                (f64::from(<$float>::from_bits(smallest)), f64::from(<$float>::from_bits(largest)))
            }

            /// Sums the errors of values. Where a finite value became infinite or NaN, it is left out of all sums but that of
            /// its power, where it has lost all there is to lose.
            pub(in super::super) fn errors(
                source: &[[u8; $bytes]],
                result: &[[u8; $bytes]],
                places: &[u16],
                relative: &mut Vec<$float>,
                errors: &mut Errors,
            ) {
                let mut lanes = [[0f64; LANES]; 4];
                let mut counts = [[0 as $bits; LANES]; 2];
                let mut some = |source: &[[u8; $bytes]], result: &[[u8; $bytes]], relative: &mut [$float]| {
                    for (lane, (source, result)) in source.iter().zip(result).enumerate() {
                        let (before, after) = (magnitude(source), magnitude(result));
                        let both = (before < INFINITY) & (after < INFINITY);
                        let (source, result) = (<$float>::from_le_bytes(*source), <$float>::from_le_bytes(*result));
                        let error = if both { (source - result).abs() } else { 0.0 };
                        let value = if both { source } else { 0.0 };
                        let nonzero = both & (before != 0);
                        let part = if nonzero { error / source.abs() } else { 0.0 };
                        let (error, value) = (f64::from(error), f64::from(value));
                        lanes[0][lane] += error;
                        lanes[1][lane] += f64::from(part);
                        lanes[2][lane] += error * error;
                        lanes[3][lane] += value * value;
                        counts[0][lane] += <$bits>::from(both);
                        counts[1][lane] += <$bits>::from(nonzero);
                        relative[lane] = if both { part } else { 1.0 };
                    }
                };
                relative.resize(source.len(), 0.0);
                let (sources, rest) = source.as_chunks::<LANES>();
                let (results, results_rest) = result.as_chunks::<LANES>();
                let (parts, parts_rest) = relative.as_chunks_mut::<LANES>();
                for ((source, result), parts) in sources.iter().zip(results).zip(parts) {
                    some(source, result, parts);
                }
                some(rest, results_rest, parts_rest);
                let sum = |lanes: [f64; LANES]| lanes.iter().sum::<f64>();
                let [error, part, noise, signal] = lanes.map(sum);
                let [compared, nonzero] = counts.map(|lanes| lanes.iter().map(|&count| count as u64).sum());
                errors.sums.add(&super::Sums { compared, nonzero, error, relative: part, noise, signal });
                for (index, (part, &place)) in relative.iter().zip(places).enumerate() {
                    errors.tables[usize::from(place)][index % TABLES] += f64::from(*part);
                }
            }
        }
    };
}
measure!(floats, f32, u32, 4);
measure!(doubles, f64, u64, 8);
