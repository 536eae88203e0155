//! The names and numbers that other formats and libraries use for ONNX's types. The crates that read and write those
//! formats look them up here, so that a new type is one row and a missing row does not compile.

use super::DataType;

/// The names and numbers of a type in other formats and libraries; `None` where one lacks the type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interchange {
    /// The name in the header of a `.safetensors` file: `F8_E4M3`.
    pub safetensors: Option<&'static str>,
    /// numpy's type code, without the byte order: `f4`.
    pub numpy: Option<&'static str>,
    /// The name of the scalar type in the Python package ml_dtypes: `float8_e4m3fn`.
    pub ml_dtypes: Option<&'static str>,
    /// DLPack's `DLDataTypeCode`; its width is the type's width.
    pub dlpack: Option<u8>,
    /// onnxruntime's `ONNXTensorElementDataType`, for types it supports in tensors. Up to 23 it equals ONNX's number.
    pub onnxruntime: Option<i32>,
}

impl DataType {
    /// The type's names and numbers in other formats and libraries.
    ///
    /// ```
    /// use onnx_cast::DataType;
    ///
    /// assert_eq!(DataType::Float8E4M3FN.interchange().safetensors, Some("F8_E4M3"));
    /// ```
    #[rustfmt::skip]
    pub const fn interchange(self) -> Interchange {
        use DataType::*;
        match self {
            //                   safetensors           numpy        ml_dtypes                DLPack    onnxruntime
            Float =>          row(Some("F32"),         Some("f4"),  None,                    Some(2),  Some(1)),
            Uint8 =>          row(Some("U8"),          Some("u1"),  None,                    Some(1),  Some(2)),
            Int8 =>           row(Some("I8"),          Some("i1"),  None,                    Some(0),  Some(3)),
            Uint16 =>         row(Some("U16"),         Some("u2"),  None,                    Some(1),  Some(4)),
            Int16 =>          row(Some("I16"),         Some("i2"),  None,                    Some(0),  Some(5)),
            Int32 =>          row(Some("I32"),         Some("i4"),  None,                    Some(0),  Some(6)),
            Int64 =>          row(Some("I64"),         Some("i8"),  None,                    Some(0),  Some(7)),
            // numpy has several text types; the crates that read and write them choose one.
            String =>         row(None,                None,        None,                    None,     Some(8)),
            Bool =>           row(Some("BOOL"),        Some("b1"),  None,                    Some(6),  Some(9)),
            Float16 =>        row(Some("F16"),         Some("f2"),  None,                    Some(2),  Some(10)),
            Double =>         row(Some("F64"),         Some("f8"),  None,                    Some(2),  Some(11)),
            Uint32 =>         row(Some("U32"),         Some("u4"),  None,                    Some(1),  Some(12)),
            Uint64 =>         row(Some("U64"),         Some("u8"),  None,                    Some(1),  Some(13)),
            // onnxruntime numbers the complex types, but has no tensors of them.
            Complex64 =>      row(Some("C64"),         Some("c8"),  None,                    Some(5),  None),
            Complex128 =>     row(None,                Some("c16"), None,                    Some(5),  None),
            BFloat16 =>       row(Some("BF16"),        None,        Some("bfloat16"),        Some(4),  Some(16)),
            Float8E4M3FN =>   row(Some("F8_E4M3"),     None,        Some("float8_e4m3fn"),   Some(10), Some(17)),
            Float8E4M3FNUZ => row(Some("F8_E4M3FNUZ"), None,        Some("float8_e4m3fnuz"), Some(11), Some(18)),
            Float8E5M2 =>     row(Some("F8_E5M2"),     None,        Some("float8_e5m2"),     Some(12), Some(19)),
            Float8E5M2FNUZ => row(Some("F8_E5M2FNUZ"), None,        Some("float8_e5m2fnuz"), Some(13), Some(20)),
            Uint4 =>          row(None,                None,        Some("uint4"),           Some(1),  Some(21)),
            Int4 =>           row(None,                None,        Some("int4"),            Some(0),  Some(22)),
            Float4E2M1 =>     row(Some("F4"),          None,        Some("float4_e2m1fn"),   Some(17), Some(23)),
            Float8E8M0 =>     row(Some("F8_E8M0"),     None,        Some("float8_e8m0fnu"),  Some(14), Some(26)),
            Uint2 =>          row(None,                None,        Some("uint2"),           Some(1),  Some(24)),
            Int2 =>           row(None,                None,        Some("int2"),            Some(0),  Some(25)),
            Float6E2M3 =>     row(Some("F6_E2M3"),     None,        Some("float6_e2m3fn"),   Some(15), None),
            Float6E3M2 =>     row(Some("F6_E3M2"),     None,        Some("float6_e3m2fn"),   Some(16), None),
        }
    }
}

const fn row(
    safetensors: Option<&'static str>,
    numpy: Option<&'static str>,
    ml_dtypes: Option<&'static str>,
    dlpack: Option<u8>,
    onnxruntime: Option<i32>,
) -> Interchange {
    Interchange { safetensors, numpy, ml_dtypes, dlpack, onnxruntime }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_types_share_a_name_or_a_number() {
        for (i, &one) in DataType::ALL.iter().enumerate() {
            let this = one.interchange();
            for &other in &DataType::ALL[..i] {
                let that = other.interchange();
                assert!(this.safetensors.is_none() || this.safetensors != that.safetensors, "{one}, {other}");
                assert!(this.numpy.is_none() || this.numpy != that.numpy, "{one}, {other}");
                assert!(this.ml_dtypes.is_none() || this.ml_dtypes != that.ml_dtypes, "{one}, {other}");
                assert!(this.onnxruntime.is_none() || this.onnxruntime != that.onnxruntime, "{one}, {other}");
                let same_width = one.bits() == other.bits();
                assert!(this.dlpack.is_none() || this.dlpack != that.dlpack || !same_width, "{one}, {other}");
            }
            assert!(this.numpy.is_none() || this.ml_dtypes.is_none(), "{one} is both a numpy and an ml_dtypes type");
        }
    }
}
