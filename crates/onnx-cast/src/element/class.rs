//! The class of a numeric element type: the properties that select a kernel. Every `match` in a kernel is over
//! [`Class`] and has no wildcard arm, so a type of a new class is a compile error wherever it matters.

use super::{DataType, Element, Kind};
use crate::format::{FloatFormat, Nan};

/// The class of a numeric element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `double`.
    F64,
    /// `float`.
    F32,
    /// `float16`.
    F16,
    /// `bfloat16`.
    BF16,
    /// A float of 8 bits or fewer with a sign and a significand.
    SmallFloat(FloatFormat),
    /// `float8e8m0`: only an exponent.
    E8M0,
    /// An integer; two's complement if signed.
    Int {
        /// Width of an element.
        bits: u32,
        /// Whether it is two's complement.
        signed: bool,
    },
    /// `bool`.
    Bool,
}

impl Class {
    /// The class of an element type; `None` for strings and complex numbers, which no kernel supports.
    pub(crate) const fn of(data_type: DataType) -> Option<Class> {
        let info = data_type.info();
        Some(match info.kind {
            Kind::Float(format) => Class::of_float(data_type, format),
            Kind::Int => Class::Int { bits: info.bits, signed: true },
            Kind::Uint => Class::Int { bits: info.bits, signed: false },
            Kind::Bool => Class::Bool,
            Kind::String | Kind::Complex => return None,
        })
    }

    const fn of_float(data_type: DataType, format: FloatFormat) -> Class {
        match data_type {
            DataType::Double => Class::F64,
            DataType::Float => Class::F32,
            DataType::Float16 => Class::F16,
            DataType::BFloat16 => Class::BF16,
            DataType::Float8E8M0 => Class::E8M0,
            // Checked below, for every type.
            _ => Class::SmallFloat(format),
        }
    }
}

// What the kernels are written and tested for. A type beyond that would be shifted, looked up or rounded wrongly, so it
// does not compile; the message says what a kernel needs first.
const _: () = {
    let mut index = 0;
    while index < DataType::NUMERIC.len() {
        let data_type = DataType::NUMERIC[index];
        match Class::of(data_type) {
            Some(Class::Int { bits, .. }) => {
                if !matches!(bits, 2 | 4 | 8 | 16 | 32 | 64) {
                    refuse(data_type, "no kernel loads or stores integers of this width");
                }
            }
            Some(Class::SmallFloat(format)) => {
                if let Some(missing) = missing_for_small_float(data_type, format) {
                    refuse(data_type, missing);
                }
            }
            Some(Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::E8M0 | Class::Bool) => {}
            None => refuse(data_type, "a numeric type needs a class"),
        }
        index += 1;
    }
};

/// What the kernels lack for a float of 8 bits or fewer, if anything.
const fn missing_for_small_float(data_type: DataType, format: FloatFormat) -> Option<&'static str> {
    let FloatFormat { bits, exponent_bits, significand_bits, bias, signed, negative_zero, infinity, nan } = format;
    // The exponent of the largest number.
    let top = (format.max_code() >> significand_bits) as i32 - bias;
    if !signed || significand_bits == 0 {
        Some("a float without a sign or a significand needs a class of its own")
    } else if !matches!(bits, 4 | 6 | 8) || bits != 1 + exponent_bits + significand_bits {
        Some("no kernel loads or stores floats of this width: 4, 6 or 8 bits, all of them fields")
    } else if significand_bits > 4 {
        // An upper byte of float16 or bfloat16 decides all but two codes.
        Some("`by_upper_byte` and `small_float` shift for 4 significand bits at most")
    } else if bias < 1 || bias > 16 || top > 15 {
        // Integers are staged through `float`, which rounds those of 2^24 or more: they must exceed the largest number.
        Some("the kernels need a bias of 1 to 16, and a largest number below 2^16")
    } else if infinity != matches!(nan, Nan::AboveInfinity) || negative_zero == matches!(nan, Nan::MinusZero) {
        Some("infinity comes with the NaN of IEEE 754, and NaN in place of -0 with an unsigned zero")
    } else if infinity && !matches!(data_type, DataType::Float8E5M2) {
        Some("`small_float::widen` knows no infinity: float8e5m2 is widened as the upper byte of a float16")
    } else if bits < 8 && !matches!(nan, Nan::None) {
        Some("a packed float becomes an integer through 8 bits, which have no infinity or NaN")
    } else if bits < 8 && top > 6 {
        Some("a packed float becomes an integer through 8 bits: its largest number is below 128")
    } else {
        None
    }
}

/// Fails to compile, and names the type.
const fn refuse(data_type: DataType, missing: &str) -> ! {
    let mut text = [0; 256];
    let mut len = 0;
    let parts = [data_type.name(), ": ", missing];
    let mut part = 0;
    while part < parts.len() {
        let bytes = parts[part].as_bytes();
        let mut i = 0;
        while i < bytes.len() {
            text[len] = bytes[i];
            (i, len) = (i + 1, len + 1);
        }
        part += 1;
    }
    match str::from_utf8(text.split_at(len).0) {
        Ok(text) => panic!("{}", text),
        Err(_) => panic!("names are ASCII"),
    }
}

/// The class of a Rust type that represents a numeric element.
pub(crate) const fn class<T: Element>() -> Class {
    match Class::of(T::DATA_TYPE) {
        Some(class) => class,
        None => panic!("strings and complex numbers have no Rust type of one element"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernels would get wrong does not compile. (That these formats would is tried when a type is added.)
    #[test]
    fn a_float_beyond_the_kernels_is_refused() {
        let missing = |format| missing_for_small_float(DataType::Float4E2M1, format).unwrap_or_default();
        for format in [FloatFormat::finite(3, 4), FloatFormat::finite_with_nan(3, 4), FloatFormat::finite(2, 1)] {
            assert_eq!(missing(format), "");
        }
        let finite = FloatFormat::finite(4, 3);
        for (format, part) in [
            (FloatFormat::exponent_only(8), "a class of its own"),
            (FloatFormat::finite(3, 3), "of this width"),
            (FloatFormat { bits: 6, ..finite }, "of this width"),
            (FloatFormat::finite(2, 5), "4 significand bits"),
            (FloatFormat::finite(6, 1), "a largest number below 2^16"),
            (FloatFormat { bias: 0, ..finite }, "a bias of 1 to 16"),
            (FloatFormat { infinity: true, ..finite }, "the NaN of IEEE 754"),
            (FloatFormat { negative_zero: false, ..finite }, "an unsigned zero"),
            (FloatFormat::ieee(3, 4), "knows no infinity"),
            (FloatFormat::finite_with_nan(2, 3), "which have no infinity or NaN"),
            (FloatFormat::finite(4, 1), "below 128"),
        ] {
            assert!(missing(format).contains(part), "{format:?}: {}", missing(format));
        }
        assert_eq!(missing_for_small_float(DataType::Float8E5M2, FloatFormat::ieee(5, 2)), None);
    }
}
