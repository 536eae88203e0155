//! Which types represent every value of another type, and therefore which casts are lossless and which pairs of casts
//! equal one cast. This is derived from the formats; `tests/joined.rs` compares it with the casts.

use crate::element::{DataType, Kind};
use crate::format::{FloatFormat, Nan};

/// The numbers of a type: multiples of `2^unit` with at most `precision` significant bits, up to a largest magnitude.
struct Numbers {
    precision: u32,
    unit: i32,
    /// The smallest power of two above the largest magnitude, as an exponent.
    below: i32,
    /// The significant bits of the largest magnitude, as an integer of `precision` bits.
    top: u64,
    negative: bool,
    zero: bool,
}

impl Numbers {
    fn of(kind: Kind, bits: u32) -> Option<Numbers> {
        let whole = |precision, negative| {
            let top = u64::MAX >> (64 - precision);
            Some(Numbers { precision, unit: 0, below: precision as i32, top, negative, zero: true })
        };
        match kind {
            Kind::Float(format) => Some(Numbers::of_float(&format)),
            // Without the smallest value, -2^(bits - 1): `is_lossless_to` checks that separately.
            Kind::Int => whole(bits - 1, true),
            Kind::Uint => whole(bits, false),
            Kind::Bool => whole(1, false),
            Kind::String | Kind::Complex => None,
        }
    }

    fn of_float(format: &FloatFormat) -> Numbers {
        let precision = format.significand_bits + 1;
        let significand = format.max_code() & ((1 << format.significand_bits) - 1);
        let exponent = (format.max_code() >> format.significand_bits) as i32 - format.bias;
        // With subnormals, exponent field 0 has the exponent of field 1.
        let lowest = i32::from(format.min_subnormal_code().is_some()) - format.bias;
        Numbers {
            precision,
            unit: lowest - format.significand_bits as i32,
            below: exponent + 1,
            top: 1 << format.significand_bits | significand,
            negative: format.signed,
            zero: format.signed,
        }
    }

    /// Whether these numbers include all of `other`'s.
    fn hold(&self, other: &Numbers) -> bool {
        let reaches = match self.below.cmp(&other.below) {
            core::cmp::Ordering::Less => false,
            core::cmp::Ordering::Greater => true,
            core::cmp::Ordering::Equal => {
                other.top << (self.precision - other.precision.min(self.precision)) <= self.top
            }
        };
        self.precision >= other.precision
            && self.unit <= other.unit
            && reaches
            && (self.negative || !other.negative)
            && (self.zero || !other.zero)
    }
}

impl DataType {
    /// Whether `other` represents every value of this type, so that a cast to it is lossless: numbers, -0, infinities,
    /// and NaN with its sign.
    ///
    /// ```
    /// use onnx_cast::DataType;
    ///
    /// assert!(DataType::BFloat16.is_lossless_to(DataType::Float));
    /// assert!(!DataType::BFloat16.is_lossless_to(DataType::Float16));
    /// assert!(DataType::Uint8.is_lossless_to(DataType::Float16));
    /// ```
    pub fn is_lossless_to(self, other: DataType) -> bool {
        if self == other {
            return true;
        }
        let (from, to) = (self.info(), other.info());
        let (Some(values), Some(target)) = (Numbers::of(from.kind, from.bits), Numbers::of(to.kind, to.bits)) else {
            return false;
        };
        let special = match (from.kind, to.kind) {
            (Kind::Float(from), Kind::Float(to)) => {
                (to.negative_zero || !from.negative_zero) && (to.infinity || !from.infinity) && holds_nan(&to, &from)
            }
            // Every float type has fractions, which no other type has.
            (Kind::Float(_), _) => false,
            // Every integer type has values other than 0 and 1.
            (_, Kind::Bool) => false,
            // The smallest integer, -2^(bits - 1), has one significant bit, so only its exponent must fit.
            (Kind::Int, Kind::Float(_)) => target.below > from.bits as i32 - 1,
            _ => true,
        };
        special && target.hold(&values)
    }

    /// Whether casting every value of this type to `through` and then to `to` gives the same as casting it directly to
    /// `to`, for any attributes of the second cast. True only where the first cast is lossless; never for strings. (A
    /// signalling NaN that is cast back to its own type becomes quiet; that difference is ignored.)
    ///
    /// ```
    /// use onnx_cast::DataType;
    ///
    /// assert!(DataType::Float16.is_same_via(DataType::Float, DataType::Double));
    /// assert!(!DataType::Float.is_same_via(DataType::Float16, DataType::Double));
    /// // An integer wraps where a float saturates.
    /// assert!(!DataType::Int32.is_same_via(DataType::Double, DataType::Int8));
    /// ```
    pub fn is_same_via(self, through: DataType, to: DataType) -> bool {
        // Floats and integers have different rules for values out of the target's range, and the same rules for values
        // within it. (To 4 or 2 bits both keep the low bits, but not in every runtime.)
        let alike = self.is_float() == through.is_float() || self.is_lossless_to(to) || !to.is_integer();
        // A cast to float8 can saturate infinity, whereas a cast to the same type keeps it.
        let saturates = self == to && to.obeys_saturate() && to.float_format().is_some_and(|format| format.infinity);
        self.is_numeric() && to.is_numeric() && self.is_lossless_to(through) && alike && !saturates
    }

    const fn is_integer(self) -> bool {
        matches!(self.info().kind, Kind::Int | Kind::Uint)
    }
}

/// Whether a format has NaN with every sign that another format's NaN has.
fn holds_nan(format: &FloatFormat, other: &FloatFormat) -> bool {
    other.nan == Nan::None || (format.nan != Nan::None && (format.nan_is_signed() || !other.nan_is_signed()))
}
