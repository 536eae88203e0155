//! Which types hold every value of another, and so which casts lose nothing and which pairs of casts are one. Derived from
//! the formats, and held against the casts themselves by `tests/joined.rs`.

use crate::element::{DataType, Kind};
use crate::format::{FloatFormat, Nan};

/// The numbers of a type: multiples of `2^unit` of at most `precision` significant bits, up to a largest magnitude.
struct Numbers {
    precision: u32,
    unit: i32,
    /// The largest magnitude is below two to this power.
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
            // The one magnitude of `bits` bits, that of the smallest, is a power of two: `holds` looks at it by itself.
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
        // The exponent field 0 means 1 where there are subnormals.
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

    /// Whether all of `other`'s are among these.
    fn hold(&self, other: &Numbers) -> bool {
        let reaches = match self.below.cmp(&other.below) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Equal => {
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
    /// Whether every value of this type is also one of `other`, so that a cast there loses nothing: numbers, minus zero,
    /// infinities, and NaN with its sign.
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
        let (Some(values), Some(room)) = (Numbers::of(from.kind, from.bits), Numbers::of(to.kind, to.bits)) else {
            return false;
        };
        let special = match (from.kind, to.kind) {
            (Kind::Float(from), Kind::Float(to)) => {
                (to.negative_zero || !from.negative_zero) && (to.infinity || !from.infinity) && holds_nan(&to, &from)
            }
            // A float has fractions, and whatever else it has too.
            (Kind::Float(_), _) => false,
            // A truth value is 0 or 1, which even the smallest integer has; the smallest signed one has 1 at most.
            (_, Kind::Bool) => false,
            // -2^n, which has one significant bit.
            (Kind::Int, Kind::Float(_)) => room.below > from.bits as i32 - 1,
            _ => true,
        };
        special && room.hold(&values)
    }

    /// Whether a cast from this type to `through` and from there to `to` gives for every value what the cast from here to
    /// `to` gives, with any attributes of the second one. Said only where the first loses nothing; strings never. (Back in
    /// its own type a signalling NaN is quiet, which is all the difference to the value that it was.)
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
        // Between floats and integers the rules for what does not fit differ; what fits is the same either way. (To 4 or 2
        // bits both take the low bits, but not in every runtime.)
        let alike = self.is_float() == through.is_float() || self.is_lossless_to(to) || !to.is_integer();
        // A cast to float8 may saturate infinity, where none at all leaves it.
        let saturates = self == to && to.obeys_saturate() && to.float_format().is_some_and(|format| format.infinity);
        self.is_numeric() && to.is_numeric() && self.is_lossless_to(through) && alike && !saturates
    }

    const fn is_integer(self) -> bool {
        matches!(self.info().kind, Kind::Int | Kind::Uint)
    }
}

/// Whether a format has NaN of every sign that another has.
fn holds_nan(format: &FloatFormat, other: &FloatFormat) -> bool {
    other.nan == Nan::None || (format.nan != Nan::None && (format.nan_is_signed() || !other.nan_is_signed()))
}
