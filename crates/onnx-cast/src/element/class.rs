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
            _ => {
                // The kernels for small floats rely on this: intermediate codes fit 8 bits, and rounding in lanes of
                // bfloat16 leaves two spare bits.
                assert!(format.bits <= 8 && format.signed, "a float type without a class: add one");
                assert!(1 <= format.significand_bits && format.significand_bits <= 4);
                Class::SmallFloat(format)
            }
        }
    }
}

// What the kernels handle: loads, stores, shifts and tables are matched by these widths. A type of another fails here.
const _: () = {
    let mut place = 0;
    while place < DataType::NUMERIC.len() {
        match Class::of(DataType::NUMERIC[place]) {
            Some(Class::Int { bits, .. }) => {
                assert!(matches!(bits, 2 | 4 | 8 | 16 | 32 | 64), "no kernel loads or stores integers of this width");
            }
            Some(Class::SmallFloat(format)) => {
                assert!(matches!(format.bits, 4 | 6 | 8), "no kernel loads or stores floats of this width");
                assert!(format.bits < 8 || format.significand_bits >= 2, "`small_float::widen` shifts by less");
                let is_upper_byte = format.bits == 8 && format.exponent_bits == 5;
                assert!(is_upper_byte || !matches!(format.nan, Nan::AboveInfinity), "widened as half a float16");
            }
            Some(Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::E8M0 | Class::Bool) => {}
            None => panic!("a numeric type without a class"),
        }
        place += 1;
    }
};

/// The class of a Rust type that represents a numeric element.
pub(crate) const fn class<T: Element>() -> Class {
    match Class::of(T::DATA_TYPE) {
        Some(class) => class,
        None => panic!("strings and complex numbers have no Rust type of one element"),
    }
}
