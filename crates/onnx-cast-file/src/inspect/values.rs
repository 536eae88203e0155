//! What the values of a tensor are like, found in one pass over floats, or doubles where these do not hold them: in
//! loops over bits as integers, which the compiler makes vectors of, and in sums by eight. Integers of 64 bits, which
//! no float holds, are looked at as integers.

use super::send;
use crate::counts::widen::{BLOCK, Widening, hub};
use crate::counts::{Number, Numbers, exceeds_doubles};
use crate::error::FileError;
use crate::formats::input::Input;
use crate::io::progress::Meter;
use crate::pipeline::Sink;
use onnx_cast::DataType;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

/// What the values of a tensor are like.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Values {
    /// The least number, if there is a number; infinities count.
    pub min: Option<Number>,
    /// The largest.
    pub max: Option<Number>,
    /// The mean of the finite values, if there are any.
    pub mean: Option<f64>,
    /// Zeros of either sign.
    pub zeros: u64,
    /// NaN.
    pub nan: u64,
    /// Infinities.
    pub infinities: u64,
}

/// What has been seen of values.
#[derive(Clone, Copy)]
struct Seen {
    min: f64,
    max: f64,
    sum: f64,
    zeros: u64,
    nan: u64,
    infinities: u64,
}

impl Seen {
    const NOTHING: Seen =
        Seen { min: f64::INFINITY, max: f64::NEG_INFINITY, sum: 0.0, zeros: 0, nan: 0, infinities: 0 };

    fn and(self, other: Seen) -> Seen {
        Seen {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            sum: self.sum + other.sum,
            zeros: self.zeros + other.zeros,
            nan: self.nan + other.nan,
            infinities: self.infinities + other.infinities,
        }
    }
}

macro_rules! see {
    ($name:ident, $float:ty, $unsigned:ty, $signed:ty, $bytes:literal) => {
        fn $name(values: &[[u8; $bytes]]) -> Seen {
            const INFINITY: $signed = <$float>::INFINITY.to_bits() as $signed;
            let float = |bytes: &[u8; $bytes]| <$float>::from_le_bytes(*bytes);
            // Its own inverse, under which signed integers have the order of the numbers.
            let key = |bits: $signed| bits ^ (bits >> (<$signed>::BITS - 1) & <$signed>::MAX);
            let (mut min, mut max) = (<$signed>::MAX, <$signed>::MIN);
            let (mut zeros, mut nan, mut infinities): ($signed, $signed, $signed) = (0, 0, 0);
            for value in values {
                let bits = float(value).to_bits() as $signed;
                let size = bits & <$signed>::MAX;
                let is_nan = size > INFINITY;
                zeros += <$signed>::from(size == 0);
                nan += <$signed>::from(is_nan);
                infinities += <$signed>::from(size == INFINITY);
                min = min.min(if is_nan { <$signed>::MAX } else { key(bits) });
                max = max.max(if is_nan { <$signed>::MIN } else { key(bits) });
            }
            let mut seen =
                Seen { zeros: zeros as u64, nan: nan as u64, infinities: infinities as u64, ..Seen::NOTHING };
            if seen.nan < values.len() as u64 {
                let number = |bits: $signed| f64::from(<$float>::from_bits(key(bits) as $unsigned));
                (seen.min, seen.max) = (number(min), number(max));
            }
            let mut sums = [0.0; 8];
            for values in values.chunks(sums.len()) {
                for (sum, value) in sums.iter_mut().zip(values) {
                    let value = float(value);
                    *sum += if value.is_finite() { f64::from(value) } else { 0.0 };
                }
            }
            seen.sum = sums.iter().sum();
            seen
        }
    };
}
see!(floats, f32, u32, i32, 4);
see!(doubles, f64, u64, i64, 8);

/// Looks at values. What is seen is kept by chunk, so that the mean does not depend on which thread was faster.
struct Look {
    widening: Widening,
    len: u64,
    bits: u64,
    seen: Mutex<BTreeMap<u64, Seen>>,
}

/// Looks at integers of 64 bits, whose sum is exact.
struct LookExactly {
    numbers: Numbers,
    seen: Mutex<Whole>,
}

/// What has been seen of integers.
struct Whole {
    min: i128,
    max: i128,
    sum: i128,
    zeros: u64,
}

pub(super) fn look(
    input: &Input,
    index: usize,
    threads: Option<usize>,
    meter: &Meter<'_>,
) -> Result<Option<Values>, FileError> {
    let stored = &input.tensors[index];
    let data_type = stored.data_type;
    let (Ok(widening), Some(bits)) = (Widening::new(data_type, hub(data_type)), data_type.bits()) else {
        return Ok(None);
    };
    let len = stored.len as u64;
    if let Some(numbers) = Numbers::new(data_type).ok().filter(|_| exceeds_doubles(data_type)) {
        let seen = Mutex::new(Whole { min: i128::MAX, max: i128::MIN, sum: 0, zeros: 0 });
        let look = LookExactly { numbers, seen };
        send(input, index, threads, &look, meter)?;
        let Whole { min, max, sum, zeros } = look.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let number = |integer| (len > 0).then_some(Number::Integer(integer));
        let mean = (len > 0).then(|| sum as f64 / len as f64);
        return Ok(Some(Values { min: number(min), max: number(max), mean, zeros, nan: 0, infinities: 0 }));
    }
    let look = Look { widening, len, bits: bits as u64, seen: Mutex::default() };
    send(input, index, threads, &look, meter)?;
    let seen = look.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
    let Seen { min, max, sum, zeros, nan, infinities } = seen.into_values().fold(Seen::NOTHING, Seen::and);
    let (numbers, finite) = (look.len - nan, look.len - nan - infinities);
    let number = |value| (numbers > 0).then_some(Number::of(data_type, value));
    let (min, max) = (number(min), number(max));
    Ok(Some(Values { min, max, mean: (finite > 0).then(|| sum / finite as f64), zeros, nan, infinities }))
}

impl Sink for LookExactly {
    fn put(&self, _: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut min, mut max, mut sum, mut zeros) = (i128::MAX, i128::MIN, 0, 0);
        let see = |_, number| {
            let Number::Integer(integer) = number else { return };
            (min, max, sum) = (integer.min(min), integer.max(max), sum + integer);
            zeros += u64::from(integer == 0);
        };
        self.numbers.each(bytes, 0..bytes.len() / 8, &mut Vec::new(), see).map_err(io::Error::other)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen =
            Whole { min: seen.min.min(min), max: seen.max.max(max), sum: seen.sum + sum, zeros: seen.zeros + zeros };
        Ok(())
    }
}

impl Sink for Look {
    fn put(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let len = (bytes.len() as u64 * 8 / self.bits).min(self.len - at * 8 / self.bits) as usize;
        let (mut seen, mut buffer) = (Seen::NOTHING, Vec::new());
        for start in (0..len).step_by(BLOCK) {
            let block =
                self.widening.block(bytes, start..len.min(start + BLOCK), &mut buffer).map_err(io::Error::other)?;
            seen = seen.and(match self.widening.to {
                DataType::Float => floats(block.as_chunks().0),
                _ => doubles(block.as_chunks().0),
            });
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(at, seen);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_see_what_is_seen_one_by_one() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state
        };
        for round in 0..200 {
            let len = (random() % 40) as usize;
            let wild = |bits: u64| match bits % 7 {
                0 => f32::NAN,
                1 => [f32::INFINITY, f32::NEG_INFINITY][(bits >> 8) as usize % 2],
                2 => [0.0, -0.0][(bits >> 8) as usize % 2],
                // Sums of small integers are exact in any order.
                _ => ((bits >> 40) as i32 % 1000) as f32,
            };
            let values: Vec<f32> = (0..len).map(|_| if round == 0 { f32::NAN } else { wild(random() >> 16) }).collect();
            let narrow: Vec<[u8; 4]> = values.iter().map(|value| value.to_le_bytes()).collect();
            let wide: Vec<[u8; 8]> = values.iter().map(|&value| f64::from(value).to_le_bytes()).collect();
            let numbers = values.iter().filter(|value| !value.is_nan()).map(|&value| f64::from(value));
            let count = |is: fn(&f32) -> bool| values.iter().filter(|value| is(value)).count() as u64;
            for seen in [floats(&narrow), doubles(&wide)] {
                let counts = [count(|value| value.abs().to_bits() == 0), count(|value| value.is_nan())];
                assert_eq!([seen.zeros, seen.nan], counts, "{values:?}");
                assert_eq!(seen.infinities, count(|value| value.is_infinite()), "{values:?}");
                // 0 and -0 are one minimum.
                let (least, most) = numbers
                    .clone()
                    .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
                assert_eq!(
                    [seen.min + 0.0, seen.max + 0.0].map(f64::to_bits),
                    [least + 0.0, most + 0.0].map(f64::to_bits)
                );
                let sum: f64 = numbers.clone().filter(|value| value.is_finite()).sum();
                assert_eq!((seen.sum + 0.0).to_bits(), (sum + 0.0).to_bits(), "{values:?}");
            }
        }
    }
}
