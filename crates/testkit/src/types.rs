//! The types of Cast and the complex types of BitCast, each one row of a table.
//!
//! A float format is its exponent and significand widths, its bias and what its top codes mean; everything else (the
//! largest value, the codes of infinity and NaN) is worked out from these.

use crate::dyadic::Dyadic;

/// What the codes at the top of a float format mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// The last exponent holds infinity and the NaNs, as in IEEE 754.
    Ieee,
    /// No infinity; the last code of each sign is NaN.
    LastIsNan,
    /// No infinity and no -0; the code that would be -0 is the only NaN.
    MinusZeroIsNan,
    /// Every code is a number.
    AllFinite,
}

/// A signed binary float format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatLayout {
    /// Width of the exponent field.
    pub exponent_bits: u32,
    /// Width of the stored significand, without the implicit bit.
    pub significand_bits: u32,
    /// Exponent bias.
    pub bias: i32,
    /// What the top codes mean.
    pub specials: Specials,
}

impl FloatLayout {
    /// Number of bits, the sign included.
    pub const fn bits(&self) -> u32 {
        1 + self.exponent_bits + self.significand_bits
    }

    /// The sign bit.
    pub const fn sign_bit(&self) -> u64 {
        1 << (self.bits() - 1)
    }

    /// The code of the largest finite value.
    pub const fn max_code(&self) -> u64 {
        let last = self.sign_bit() - 1;
        match self.specials {
            Specials::Ieee => (((1 << self.exponent_bits) - 1) << self.significand_bits) - 1,
            Specials::LastIsNan => last - 1,
            Specials::MinusZeroIsNan | Specials::AllFinite => last,
        }
    }

    /// The code of +infinity, for the formats that have one.
    pub const fn infinity(&self) -> Option<u64> {
        match self.specials {
            Specials::Ieee => Some(self.max_code() + 1),
            _ => None,
        }
    }

    /// The value of a code without sign. Codes past [`max_code`](Self::max_code) continue the pattern, as if the
    /// exponent field had no end: that is the grid against which overflow is judged.
    pub const fn value(&self, code: u64) -> Dyadic {
        let exponent = (code >> self.significand_bits) as i32;
        let fraction = code & ((1 << self.significand_bits) - 1);
        let (significand, exponent) =
            if exponent == 0 { (fraction, 1) } else { (fraction + (1 << self.significand_bits), exponent) };
        Dyadic { significand: significand as u128, exponent: exponent - self.bias - self.significand_bits as i32 }
    }
}

/// What the bits of a type mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed binary float.
    Float(FloatLayout),
    /// float8e8m0: a bare exponent, `2^(code - 127)`, NaN = 0xFF.
    PowerOfTwo,
    /// Two's complement or unsigned integer.
    Int {
        /// Whether it is two's complement.
        signed: bool,
    },
    /// One byte, zero or not.
    Bool,
    /// Text.
    String,
    /// A pair of floats, known to BitCast alone.
    Complex,
}

/// One row of the type table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The type.
    pub ty: Ty,
    /// ONNX's name, in lower case.
    pub name: &'static str,
    /// Bits of one element; 0 for string.
    pub bits: u32,
    /// What the bits mean.
    pub kind: Kind,
    /// The first version of Cast that takes the type.
    pub cast_since: Option<u32>,
    /// Whether BitCast-26 takes the type.
    pub bit_cast: bool,
}

const fn float(exponent_bits: u32, significand_bits: u32, bias: i32, specials: Specials) -> Kind {
    Kind::Float(FloatLayout { exponent_bits, significand_bits, bias, specials })
}

const SIGNED: Kind = Kind::Int { signed: true };
const UNSIGNED: Kind = Kind::Int { signed: false };

macro_rules! table {
    ($($ty:ident = $code:literal $name:literal $bits:literal $kind:expr, $since:expr, $bit_cast:literal;)*) => {
        /// An ONNX element type, with ONNX's number for it as the discriminant.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i32)]
        #[expect(missing_docs, reason = "the names are ONNX's")]
        pub enum Ty {
            $($ty = $code,)*
        }

        /// Every type, in the order of ONNX's numbers, which may have gaps.
        pub const TABLE: &[Row] = &[$(Row {
            ty: Ty::$ty, name: $name, bits: $bits, kind: $kind, cast_since: $since, bit_cast: $bit_cast,
        },)*];
    };
}

table! {
    Float          = 1  "float"           32 float(8, 23, 127, Specials::Ieee),           Some(1), true;
    Uint8          = 2  "uint8"            8 UNSIGNED,                                    Some(1), true;
    Int8           = 3  "int8"             8 SIGNED,                                      Some(1), true;
    Uint16         = 4  "uint16"          16 UNSIGNED,                                    Some(1), true;
    Int16          = 5  "int16"           16 SIGNED,                                      Some(1), true;
    Int32          = 6  "int32"           32 SIGNED,                                      Some(1), true;
    Int64          = 7  "int64"           64 SIGNED,                                      Some(1), true;
    String         = 8  "string"           0 Kind::String,                                Some(9), false;
    Bool           = 9  "bool"             8 Kind::Bool,                                  Some(1), true;
    Float16        = 10 "float16"         16 float(5, 10, 15, Specials::Ieee),            Some(1), true;
    Double         = 11 "double"          64 float(11, 52, 1023, Specials::Ieee),         Some(1), true;
    Uint32         = 12 "uint32"          32 UNSIGNED,                                    Some(1), true;
    Uint64         = 13 "uint64"          64 UNSIGNED,                                    Some(1), true;
    Complex64      = 14 "complex64"       64 Kind::Complex,                               None, true;
    Complex128     = 15 "complex128"     128 Kind::Complex,                               None, true;
    Bfloat16       = 16 "bfloat16"        16 float(8, 7, 127, Specials::Ieee),            Some(13), true;
    Float8E4M3FN   = 17 "float8e4m3fn"     8 float(4, 3, 7, Specials::LastIsNan),         Some(19), true;
    Float8E4M3FNUZ = 18 "float8e4m3fnuz"   8 float(4, 3, 8, Specials::MinusZeroIsNan),    Some(19), true;
    Float8E5M2     = 19 "float8e5m2"       8 float(5, 2, 15, Specials::Ieee),             Some(19), true;
    Float8E5M2FNUZ = 20 "float8e5m2fnuz"   8 float(5, 2, 16, Specials::MinusZeroIsNan),   Some(19), true;
    Uint4          = 21 "uint4"            4 UNSIGNED,                                    Some(21), true;
    Int4           = 22 "int4"             4 SIGNED,                                      Some(21), true;
    Float4E2M1     = 23 "float4e2m1"       4 float(2, 1, 1, Specials::AllFinite),         Some(23), true;
    Float8E8M0     = 24 "float8e8m0"       8 Kind::PowerOfTwo,                            Some(24), true;
    Uint2          = 25 "uint2"            2 UNSIGNED,                                    Some(25), true;
    Int2           = 26 "int2"             2 SIGNED,                                      Some(25), true;
    Float6E2M3     = 27 "float6e2m3"       6 float(2, 3, 1, Specials::AllFinite),         Some(28), false;
    Float6E3M2     = 28 "float6e3m2"       6 float(3, 2, 3, Specials::AllFinite),         Some(28), false;
}

/// The place of each number's row in the table.
const PLACES: [u8; TABLE[TABLE.len() - 1].ty as usize + 1] = {
    let mut places = [u8::MAX; TABLE[TABLE.len() - 1].ty as usize + 1];
    let mut place = 0;
    while place < TABLE.len() {
        assert!(place == 0 || TABLE[place].ty as usize > TABLE[place - 1].ty as usize, "rows in the order of numbers");
        places[TABLE[place].ty as usize] = place as u8;
        place += 1;
    }
    places
};

const fn is_of_cast(kind: Kind, with_string: bool) -> bool {
    match kind {
        Kind::Complex => false,
        Kind::String => with_string,
        Kind::Float(_) | Kind::PowerOfTwo | Kind::Int { .. } | Kind::Bool => true,
    }
}

const fn count(with_string: bool) -> usize {
    let (mut i, mut n) = (0, 0);
    while i < TABLE.len() {
        n += is_of_cast(TABLE[i].kind, with_string) as usize;
        i += 1;
    }
    n
}

const fn pick<const N: usize>(with_string: bool) -> [Ty; N] {
    let mut out = [Ty::Float; N];
    let (mut i, mut n) = (0, 0);
    while i < TABLE.len() {
        if is_of_cast(TABLE[i].kind, with_string) {
            out[n] = TABLE[i].ty;
            n += 1;
        }
        i += 1;
    }
    out
}

impl Ty {
    /// The types of Cast.
    pub const ALL: [Ty; count(true)] = pick(true);
    /// The types of Cast that are numbers: all but string.
    pub const NUMERIC: [Ty; count(false)] = pick(false);

    /// The type's row of the table.
    pub const fn row(self) -> &'static Row {
        &TABLE[PLACES[self as usize] as usize]
    }

    /// The type with ONNX's number `code`.
    pub fn from_code(code: i32) -> Option<Ty> {
        TABLE.iter().map(|row| row.ty).find(|ty| ty.code() == code)
    }

    /// The type with ONNX's name, in lower case (`float8e4m3fn`).
    pub fn from_name(name: &str) -> Option<Ty> {
        TABLE.iter().find(|row| row.name == name).map(|row| row.ty)
    }

    /// ONNX's number for the type.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// ONNX's name, in lower case.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Bits of one element; 0 for string.
    pub const fn bits(self) -> u32 {
        self.row().bits
    }

    /// What the bits mean.
    pub const fn kind(self) -> Kind {
        self.row().kind
    }

    /// The lowest `bits()` bits set (64 at most).
    pub const fn mask(self) -> u64 {
        match self.bits() {
            bits @ 0..64 => (1 << bits) - 1,
            _ => u64::MAX,
        }
    }

    /// The format, for the signed floats (float8e8m0 is not one).
    pub const fn layout(self) -> Option<FloatLayout> {
        match self.kind() {
            Kind::Float(layout) => Some(layout),
            _ => None,
        }
    }

    /// Whether it is a numeric type: neither string nor complex.
    pub const fn is_numeric(self) -> bool {
        !matches!(self.kind(), Kind::String | Kind::Complex)
    }

    /// Whether it is a float of 8 bits.
    pub const fn is_float8(self) -> bool {
        self.bits() == 8 && matches!(self.kind(), Kind::Float(_) | Kind::PowerOfTwo)
    }

    /// Whether casts to the type obey `saturate`. Casts to float8 types do: their code for overflow can differ from the
    /// largest value.
    pub const fn obeys_saturate(self) -> bool {
        self.is_float8() && !matches!(self.kind(), Kind::Float(FloatLayout { specials: Specials::AllFinite, .. }))
    }

    /// The range of an integer type.
    pub const fn int_range(self) -> Option<(i128, i128)> {
        match self.kind() {
            Kind::Int { signed: true } => Some((-(1 << (self.bits() - 1)), (1 << (self.bits() - 1)) - 1)),
            Kind::Int { signed: false } => Some((0, (1 << self.bits()) - 1)),
            _ => None,
        }
    }

    /// The first version of Cast that takes the type, as input and as output alike.
    pub const fn cast_since(self) -> Option<u32> {
        self.row().cast_since
    }

    /// The first version of CastLike that takes the type.
    pub const fn cast_like_since(self) -> Option<u32> {
        match self.row().cast_since {
            Some(..=13) => Some(15),
            Some(since @ ..=25) => Some(since),
            _ => None,
        }
    }

    /// Whether BitCast-26 takes the type.
    pub const fn bit_cast(self) -> bool {
        self.row().bit_cast
    }
}

/// The versions of Cast.
pub const CAST_VERSIONS: [u32; 10] = [1, 6, 9, 13, 19, 21, 23, 24, 25, 28];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_has_its_row() {
        for row in TABLE {
            assert_eq!(row.ty.row().name, row.name);
            assert_eq!(Ty::from_code(row.ty.code()), Some(row.ty));
            assert_eq!(Ty::from_name(row.name), Some(row.ty));
            if let Kind::Float(layout) = row.kind {
                assert_eq!(layout.bits(), row.bits, "{}", row.name);
            }
        }
        assert_eq!(Ty::from_code(0), None);
        assert_eq!(Ty::from_code(PLACES.len() as i32), None);
    }

    /// How many types each version of Cast, and CastLike of the same number, supports in ONNX's schemas. The library's
    /// tests compare later versions with the schemas themselves.
    #[test]
    fn versions_take_as_many_types_as_onnx_says() {
        let rows = [
            (1, 12, 0),
            (6, 12, 0),
            (9, 13, 0),
            (13, 14, 0),
            (15, 14, 14),
            (19, 18, 18),
            (21, 20, 20),
            (23, 21, 21),
            (24, 22, 22),
            (25, 24, 24),
        ];
        for (version, cast, cast_like) in rows {
            let count = |since: fn(Ty) -> Option<u32>| {
                TABLE.iter().filter(|row| since(row.ty).is_some_and(|since| since <= version)).count()
            };
            assert_eq!((count(Ty::cast_since), count(Ty::cast_like_since)), (cast, cast_like), "version {version}");
        }
    }

    #[test]
    fn largest_and_smallest_values() {
        let rows = [
            (Ty::Float16, 65504.0, 2f64.powi(-24)),
            (Ty::Bfloat16, 255.0 * 2f64.powi(120), 2f64.powi(-133)),
            (Ty::Float, f64::from(f32::MAX), 2f64.powi(-149)),
            (Ty::Double, f64::MAX, f64::from_bits(1)),
            (Ty::Float8E4M3FN, 448.0, 2f64.powi(-9)),
            (Ty::Float8E4M3FNUZ, 240.0, 2f64.powi(-10)),
            (Ty::Float8E5M2, 57344.0, 2f64.powi(-16)),
            (Ty::Float8E5M2FNUZ, 57344.0, 2f64.powi(-17)),
            (Ty::Float6E2M3, 7.5, 0.125),
            (Ty::Float6E3M2, 28.0, 0.0625),
            (Ty::Float4E2M1, 6.0, 0.5),
        ];
        let double = Ty::Double.layout().unwrap();
        for (ty, max, min) in rows {
            let layout = ty.layout().unwrap();
            assert!(layout.value(layout.max_code()).cmp(&double.value(max.to_bits())).is_eq(), "{}", ty.name());
            assert!(layout.value(1).cmp(&double.value(min.to_bits())).is_eq(), "{}", ty.name());
        }
    }
}
