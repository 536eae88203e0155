//! Strings to numbers and back.
//!
//! Printing writes plain decimal with the fewest digits that read back as the same value; of two such texts that are
//! equally near, the one whose last digit is even. Reading rounds once, from the decimal text. Most texts are a few
//! digits with a point and an exponent; `read` parses those many characters at a time. `grammar` parses all other texts
//! and rejects those that are not numbers.

use alloc::collections::TryReserveError;
use alloc::vec::Vec;
mod append;
mod digits;
mod error;
mod grammar;
mod power;
mod read;
mod round;
mod shortest;
mod write;

use super::{FloatElement, Narrow, Rules};
use crate::element::{Element, Float8E8M0, Int2, Int4, Uint2, Uint4, Word};
use crate::format::FloatFormat;
use append::Appender;
use grammar::{Fraction, parse_bool, parse_integer, parse_native, parse_odd};
use shortest::{Decimal, shortest};
use write::{Digits, ROOM, write_integer};

pub use error::ParseError;

/// Whether there was memory for the texts.
pub(crate) type Printed = Result<(), TryReserveError>;

/// An element that can be printed as text.
pub(crate) trait Print: Element {
    /// Appends the texts of elements to `bytes`, and the end of each text to `offsets`.
    ///
    /// # Errors
    /// Fails if they do not fit in memory.
    fn print(elements: impl Iterator<Item = Self>, offsets: &mut Vec<u64>, bytes: &mut Vec<u8>) -> Printed;
}

/// An element that can be read from text.
pub(crate) trait Parse: Element {
    /// The element that the text `bytes[start..]` represents, by the rules of the type. The bytes before `start` do not
    /// affect the result; reading is faster if there are some.
    ///
    /// # Errors
    /// Fails if the text is not a number of this type.
    fn parse(bytes: &[u8], start: usize, rules: &Rules) -> Result<Self, ParseError>;
}

/// Elements that go through each step of printing together. The steps of one element depend on each other, but those of
/// several elements overlap, and short steps let the processor overlap more of them. One loop over all steps took a
/// tenth longer.
const BATCH: usize = 32;

/// Prints `f32` with at most 9 digits or `f64` with at most 17.
fn print_floats<T: Element, const LONGEST: usize>(
    mut elements: impl Iterator<Item = T>,
    offsets: &mut Vec<u64>,
    bytes: &mut Vec<u8>,
) -> Printed {
    let mut writer = Appender::<ROOM>::new(offsets, bytes, elements.size_hint().0)?;
    let mut codes = [0; BATCH];
    loop {
        let mut count = 0;
        for (code, element) in codes.iter_mut().zip(&mut elements) {
            *code = element.to_bits().to_u64();
            count += 1;
        }
        print_batch::<T, LONGEST>(&codes[..count], &mut writer)?;
        if count < BATCH {
            return Ok(());
        }
    }
}

/// Prints at most `BATCH` codes. Not inlined: each narrow type has its own loop over elements, and all share this.
#[inline(never)]
fn print_batch<T: Element, const LONGEST: usize>(codes: &[u64], writer: &mut Appender<'_, ROOM>) -> Printed {
    let format = const { T::DATA_TYPE.float_format().expect("a float type") };
    let mut decimals = [Decimal::ONE; BATCH];
    let mut digits = [Digits::default(); BATCH];
    let mut all_digits = true;
    for (decimal, &code) in decimals.iter_mut().zip(codes) {
        *decimal = shortest_of(format, code).unwrap_or_else(|| {
            all_digits = false;
            Decimal::ONE
        });
    }
    for ((digits, decimal), code) in digits.iter_mut().zip(&decimals).zip(codes) {
        *digits = Digits::new::<LONGEST>(code & format.sign_bit() != 0, *decimal);
    }
    if !all_digits {
        for (digits, &code) in digits.iter_mut().zip(codes) {
            *digits = word(format, code).unwrap_or(*digits);
        }
    }
    writer.write(&digits[..codes.len()], |digits, out| digits.write::<LONGEST>(out))
}

/// The shortest decimal of a magnitude; `None` for zero, infinity and NaN.
#[inline(always)]
fn shortest_of(format: FloatFormat, code: u64) -> Option<Decimal> {
    let magnitude = code & !format.sign_bit();
    if magnitude == 0 || magnitude >= format.infinity_code() {
        return None;
    }
    let field = magnitude >> format.significand_bits;
    let fraction = magnitude & ((1 << format.significand_bits) - 1);
    let significand = fraction | u64::from(field != 0) << format.significand_bits;
    let exponent = field.max(1) as i32 - format.bias - format.significand_bits as i32;
    Some(shortest(significand, exponent, fraction == 0 && field > 1))
}

/// The text of zero, infinity and NaN; `None` for other values.
fn word(format: FloatFormat, code: u64) -> Option<Digits> {
    let magnitude = code & !format.sign_bit();
    let negative = code != magnitude;
    match magnitude {
        0 => Some(Digits::word(negative, b"0")),
        magnitude if magnitude == format.infinity_code() => Some(Digits::word(negative, b"INF")),
        magnitude if magnitude > format.infinity_code() => Some(Digits::word(false, b"NaN")),
        _ => None,
    }
}

impl Print for f32 {
    fn print(elements: impl Iterator<Item = Self>, offsets: &mut Vec<u64>, bytes: &mut Vec<u8>) -> Printed {
        print_floats::<f32, 9>(elements, offsets, bytes)
    }
}

impl Print for f64 {
    fn print(elements: impl Iterator<Item = Self>, offsets: &mut Vec<u64>, bytes: &mut Vec<u8>) -> Printed {
        print_floats::<f64, 17>(elements, offsets, bytes)
    }
}

impl Print for Float8E8M0 {
    fn print(elements: impl Iterator<Item = Self>, offsets: &mut Vec<u64>, bytes: &mut Vec<u8>) -> Printed {
        f32::print(elements.map(super::e8m0::widen), offsets, bytes)
    }
}

/// The narrower floats print as the `float` of the same value.
impl<T: FloatElement> Print for T {
    fn print(elements: impl Iterator<Item = Self>, offsets: &mut Vec<u64>, bytes: &mut Vec<u8>) -> Printed {
        let widen = |element: T| super::widen::widen_code(T::FORMAT, element.to_bits().to_u64() as u32);
        f32::print(elements.map(widen), offsets, bytes)
    }
}

macro_rules! print_integer {
    ($($int:ty => $value:expr;)*) => {$(
        impl Print for $int {
            fn print(mut elements: impl Iterator<Item = Self>, offsets: &mut Vec<u64>, bytes: &mut Vec<u8>) -> Printed {
                let mut writer = Appender::<ROOM>::new(offsets, bytes, elements.size_hint().0)?;
                let mut values = [(false, 0); BATCH];
                loop {
                    let mut count = 0;
                    for (slot, element) in values.iter_mut().zip(&mut elements) {
                        let value: i128 = $value(element).into();
                        *slot = (value < 0, value.unsigned_abs() as u64);
                        count += 1;
                    }
                    writer.write(&values[..count], |&(sign, magnitude), out| write_integer(out, sign, magnitude))?;
                    if count < BATCH {
                        return Ok(());
                    }
                }
            }
        }
    )*};
}
print_integer! {
    bool => u8::from;
    i8 => |x| x;
    i16 => |x| x;
    i32 => |x| x;
    i64 => |x| x;
    u8 => |x| x;
    u16 => |x| x;
    u32 => |x| x;
    u64 => |x| x;
    Int2 => Int2::value;
    Int4 => Int4::value;
    Uint2 => Uint2::value;
    Uint4 => Uint4::value;
}

macro_rules! parse_float {
    ($($float:ty, $round:path;)*) => {$(
        impl Parse for $float {
            #[inline]
            fn parse(bytes: &[u8], start: usize, _: &Rules) -> Result<Self, ParseError> {
                let read = read::read(bytes, start);
                match read.and_then(|(negative, decimal)| Some((negative, $round(decimal)?))) {
                    Some((negative, magnitude)) => Ok(if negative { -magnitude } else { magnitude }),
                    None => parse_native(&bytes[start..]),
                }
            }
        }
    )*};
}
parse_float! {
    f32, round::to_f32;
    f64, round::to_f64;
}

/// The value of a text rounded to odd to 52 bits or more, so that a second rounding to 50 or fewer is exact.
fn parse_to_odd(bytes: &[u8], start: usize) -> Result<f64, ParseError> {
    let read = read::read(bytes, start);
    match read.and_then(|(negative, decimal)| Some((negative, round::to_odd_f64(decimal)?))) {
        Some((negative, magnitude)) => Ok(if negative { -magnitude } else { magnitude }),
        None => parse_odd(&bytes[start..]),
    }
}

impl Parse for Float8E8M0 {
    fn parse(bytes: &[u8], start: usize, rules: &Rules) -> Result<Self, ParseError> {
        Ok(Narrow::from_f64(parse_to_odd(bytes, start)?, rules))
    }
}

impl<T: FloatElement> Parse for T {
    fn parse(bytes: &[u8], start: usize, rules: &Rules) -> Result<Self, ParseError> {
        Ok(Narrow::from_f64(parse_to_odd(bytes, start)?, rules))
    }
}

impl Parse for bool {
    fn parse(bytes: &[u8], start: usize, _: &Rules) -> Result<Self, ParseError> {
        parse_bool(&bytes[start..])
    }
}

/// The integer that a text represents.
#[inline(always)]
fn parse_to_integer(bytes: &[u8], start: usize, fraction: Fraction) -> Result<i128, ParseError> {
    match read::read_whole(bytes, start) {
        Some((negative, magnitude)) => Ok(if negative { -i128::from(magnitude) } else { magnitude.into() }),
        None => parse_integer(&bytes[start..], fraction),
    }
}

macro_rules! parse_integer {
    ($($int:ty),*) => {$(
        impl Parse for $int {
            #[inline]
            fn parse(bytes: &[u8], start: usize, _: &Rules) -> Result<Self, ParseError> {
                parse_to_integer(bytes, start, Fraction::Truncate)?.try_into().map_err(|_| ParseError::OutOfRange)
            }
        }
    )*};
}
parse_integer!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! parse_narrow_integer {
    ($($int:ty, $min:literal, $max:literal;)*) => {$(
        impl Parse for $int {
            fn parse(bytes: &[u8], start: usize, _: &Rules) -> Result<Self, ParseError> {
                match parse_to_integer(bytes, start, Fraction::NearestEven)? {
                    value @ $min..=$max => Ok(Element::from_bits(value as u8)),
                    _ => Err(ParseError::OutOfRange),
                }
            }
        }
    )*};
}
parse_narrow_integer! {
    Int4, -8, 7;
    Uint4, 0, 15;
    Int2, -2, 1;
    Uint2, 0, 3;
}
