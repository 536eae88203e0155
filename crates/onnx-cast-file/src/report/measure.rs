//! The numbers behind a report, over blocks of values and what became of them: the power of two of each magnitude, and
//! sums of errors. Errors are computed in the type that both sides are compared in, and summed as doubles in lanes,
//! always the same number of them: the loops are compiled for several instruction sets, and give the same bits with
//! each.

use crate::counts::{Compared, Distances};
use fearless_simd::{Level, dispatch};

/// Values that are summed side by side. With fewer, the compiler unrolls a step before it looks for vectors, and finds
/// none.
const LANES: usize = 32;

/// Cells that the values of a place go to in turn: those beside one another often have the same power of two, and an
/// addition in memory waits for the last to the same cell.
const CELLS: usize = 8;

/// The sum of the relative errors of values, and how many values there are: two doubles, which one instruction adds to.
/// (Counts are exact to 2^53.)
type Cell = [f64; 2];

/// The powers of two that magnitudes of a type can have. The places behind them count zeros, infinities and NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// That of the smallest subnormal.
    pub(super) first: i32,
    powers: u16,
}

impl Scale {
    const fn special(self) -> [u16; 3] {
        [self.powers, self.powers + 1, self.powers + 2]
    }

    fn places(self) -> usize {
        usize::from(self.powers) + self.special().len()
    }
}

/// What the values of a block are.
#[derive(Default)]
pub(super) struct BlockValues {
    /// Where each is counted.
    places: Vec<u16>,
    /// How many are finite.
    finite: u64,
    /// The smallest and the largest finite magnitude other than zero; infinite and zero without one.
    pub(super) smallest: f64,
    pub(super) largest: f64,
    /// The sum of the squares of those that are finite.
    signal: f64,
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

/// The results of one candidate for values.
pub(super) struct Errors {
    scale: Scale,
    /// In all, but for the relative errors.
    sums: Sums,
    /// By the place of the value.
    cells: Vec<[Cell; CELLS]>,
    /// Finite values that became infinite or NaN, likewise. They have no errors.
    lost: Vec<u64>,
}

impl Errors {
    pub(super) fn new(scale: Scale) -> Errors {
        let places = scale.places();
        Errors { scale, sums: Sums::default(), cells: vec![[Cell::default(); CELLS]; places], lost: vec![0; places] }
    }

    /// Takes a block. `lost` is asked where a finite value has no error: it tells of each value whether that is so, and
    /// the signal of the others.
    pub(super) fn see<T: Copy + Into<f64>>(
        &mut self,
        level: Level,
        apart: &Distances<T>,
        compared: Compared,
        values: &BlockValues,
        lost: impl FnOnce() -> (Vec<bool>, f64),
    ) {
        let mut signal = values.signal;
        if compared.finite < values.finite {
            let (which, of_others) = lost();
            signal = of_others;
            let places = values.places.iter().zip(which).filter(|(_, lost)| *lost);
            places.for_each(|(&place, _)| self.lost[usize::from(place)] += 1);
        }
        let [error, noise] = dispatch!(level, _simd => sums(&apart.errors));
        let Compared { finite, nonzero } = compared;
        self.sums.add(&Sums { compared: finite, nonzero, error, relative: 0.0, noise, signal });
        dispatch!(level, _simd => scatter(&values.places, &apart.relative, &mut self.cells));
    }

    pub(super) fn add(&mut self, other: &Errors) {
        self.sums.add(&other.sums);
        let cells = self.cells.as_flattened_mut().as_flattened_mut();
        cells.iter_mut().zip(other.cells.as_flattened().as_flattened()).for_each(|(ours, theirs)| *ours += theirs);
        self.lost.iter_mut().zip(&other.lost).for_each(|(ours, theirs)| *ours += theirs);
    }

    fn count(&self, place: u16) -> u64 {
        self.cells[usize::from(place)].iter().map(|[_, count]| *count as u64).sum()
    }

    /// How many values there are of each power of two, from the first of the scale.
    pub(super) fn powers(&self) -> Vec<u64> {
        (0..self.scale.powers).map(|place| self.count(place)).collect()
    }

    /// Zeros, infinities and NaN among the values.
    pub(super) fn special(&self) -> [u64; 3] {
        self.scale.special().map(|place| self.count(place))
    }

    /// The sum of the relative errors of a power of two, by its place from the first; of what is lost, all is.
    pub(super) fn of(&self, power: usize) -> f64 {
        self.cells[power].iter().map(|[relative, _]| relative).sum::<f64>() + self.lost[power] as f64
    }

    pub(super) fn sums(&self) -> Sums {
        let relative = self.cells.as_flattened().iter().map(|[relative, _]| relative).sum();
        Sums { relative, ..self.sums }
    }
}

/// Adds values, each with its relative error, to the cells of their places.
#[inline(always)]
fn scatter<T: Copy + Into<f64>>(places: &[u16], relative: &[T], cells: &mut [[Cell; CELLS]]) {
    let (chunks, rest) = places.as_chunks::<CELLS>();
    let (parts, parts_rest) = relative.as_chunks::<CELLS>();
    for (places, parts) in chunks.iter().zip(parts) {
        for (index, (&place, &part)) in places.iter().zip(parts).enumerate() {
            let [relative, count] = &mut cells[usize::from(place)][index];
            *relative += part.into();
            *count += 1.0;
        }
    }
    for (&place, &part) in rest.iter().zip(parts_rest) {
        let [relative, count] = &mut cells[usize::from(place)][0];
        *relative += part.into();
        *count += 1.0;
    }
}

/// The sum of errors, and that of their squares.
#[inline(always)]
fn sums<T: Copy + Into<f64>>(errors: &[T]) -> [f64; 2] {
    let mut lanes = [[0.0; LANES]; 2];
    let (chunks, rest) = errors.as_chunks::<LANES>();
    let [sum, squares] = &mut lanes;
    for chunk in chunks {
        for ((error, sum), square) in chunk.iter().zip(&mut *sum).zip(&mut *squares) {
            let error: f64 = (*error).into();
            *sum += error;
            *square += error * error;
        }
    }
    for ((error, sum), square) in rest.iter().zip(sum).zip(squares) {
        let error: f64 = (*error).into();
        *sum += error;
        *square += error * error;
    }
    lanes.map(|lanes| lanes.iter().sum())
}

macro_rules! measure {
    ($name:ident, $float:ty, $signed:ty, $bytes:literal) => {
        pub(super) mod $name {
            use super::{LANES, Level, Scale, BlockValues, dispatch};

            const SIGN: $signed = <$signed>::MIN;
            const INFINITY: $signed = <$float>::INFINITY.to_bits() as $signed;
            const SIGNIFICAND: u32 = <$float>::MANTISSA_DIGITS - 1;

            pub(in super::super) const SCALE: Scale = {
                let first = <$float>::MIN_EXP - <$float>::MANTISSA_DIGITS as i32;
                Scale { first, powers: (<$float>::MAX_EXP - first) as u16 }
            };

            type Value = [u8; $bytes];

            #[inline(always)]
            fn magnitude(value: &Value) -> $signed {
                <$signed>::from_le_bytes(*value) & !SIGN
            }

            /// Learns what the values are.
            pub(in super::super) fn look(level: Level, source: &[Value], values: &mut BlockValues) {
                values.places.resize(source.len(), 0);
                let (smallest, largest, finite) = dispatch!(level, _simd => places(source, &mut values.places));
                if smallest >> SIGNIFICAND == 0 {
                    // Some are subnormal: their power is that of their leading bit.
                    for (value, place) in source.iter().zip(&mut values.places) {
                        let bits = magnitude(value);
                        if bits != 0 && bits >> SIGNIFICAND == 0 {
                            *place = bits.ilog2() as u16;
                        }
                    }
                }
                values.finite = finite as u64;
                values.smallest = f64::from(<$float>::from_bits(smallest as _));
                values.largest = f64::from(<$float>::from_bits(largest as _));
                values.signal = dispatch!(level, _simd => signal(source, source));
            }

            /// Where normal values are counted, and those that have no power; the bits of the smallest and of the
            /// largest finite magnitude other than zero; how many are finite.
            #[inline(always)]
            fn places(source: &[Value], places: &mut [u16]) -> ($signed, $signed, $signed) {
                let [zero, infinite, nan] = SCALE.special();
                let (mut smallest, mut largest, mut finite) = (INFINITY, 0, 0);
                for (value, place) in source.iter().zip(places) {
                    let bits = magnitude(value);
                    let number = bits < INFINITY;
                    // One less, and without the sign, so that zero is above all.
                    smallest = smallest.min((bits - 1) & !SIGN);
                    largest = largest.max(if number { bits } else { 0 });
                    finite += <$signed>::from(number);
                    let power = (bits >> SIGNIFICAND) + (SIGNIFICAND as $signed - 1);
                    let special = if bits == 0 { zero } else if bits == INFINITY { infinite } else { nan };
                    *place = if (bits != 0) & number { power as u16 } else { special };
                }
                (if smallest < INFINITY - 1 { smallest + 1 } else { INFINITY }, largest, finite)
            }

            /// The sum of the squares of the values that are finite on both sides.
            #[inline(always)]
            fn signal(source: &[Value], result: &[Value]) -> f64 {
                let mut lanes = [0.0; LANES];
                let (sources, rest) = source.as_chunks::<LANES>();
                let (results, results_rest) = result.as_chunks::<LANES>();
                for (source, result) in sources.iter().zip(results) {
                    for ((source, result), lane) in source.iter().zip(result).zip(&mut lanes) {
                        *lane += square(source, result);
                    }
                }
                for ((source, result), lane) in rest.iter().zip(results_rest).zip(&mut lanes) {
                    *lane += square(source, result);
                }
                lanes.iter().sum()
            }

            #[inline(always)]
            fn square(source: &Value, result: &Value) -> f64 {
                let both = (magnitude(source) < INFINITY) & (magnitude(result) < INFINITY);
                let value = f64::from(<$float>::from_le_bytes(*source));
                if both { value * value } else { 0.0 }
            }

            /// Which finite values became infinite or NaN, and the sum of the squares of the others.
            pub(in super::super) fn lost(level: Level, (source, result): (&[Value], &[Value])) -> (Vec<bool>, f64) {
                let lost = |(source, result)| (magnitude(source) < INFINITY) & (magnitude(result) >= INFINITY);
                let which = source.iter().zip(result).map(lost).collect();
                (which, dispatch!(level, _simd => signal(source, result)))
            }
        }
    };
}
measure!(floats, f32, i32, 4);
measure!(doubles, f64, i64, 8);
