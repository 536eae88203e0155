//! The names of element types: how one is printed, and what is read as one.

use super::{DataType, TABLE};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Names that count bits for some and bytes for numpy. None is taken: a name must have one meaning.
const AMBIGUOUS: &[(&str, DataType, DataType)] = &[
    ("i2", DataType::Int2, DataType::Int16),
    ("i4", DataType::Int4, DataType::Int32),
    ("i8", DataType::Int8, DataType::Int64),
    ("u2", DataType::Uint2, DataType::Uint16),
    ("u4", DataType::Uint4, DataType::Uint32),
    ("u8", DataType::Uint8, DataType::Uint64),
    ("f4", DataType::Float4E2M1, DataType::Float),
];

/// Names of several types at once.
const FAMILIES: &[(&[&str], &str)] =
    &[(&["fp8", "float8", "f8"], "float8e4m3fn or float8e5m2"), (&["fp6", "float6", "f6"], "float6e2m3 or float6e3m2")];

/// How the names of block formats begin, which have scales beside their elements.
const BLOCK_FORMATS: &[&str] = &["mxfp", "mxint", "nvfp"];

/// A name that has another meaning in ml_dtypes, of a type that ONNX lacks.
const LACKING: (&str, &str) = ("float8e4m3", "ml_dtypes has one with infinities, which ONNX lacks: want float8e4m3fn");

/// A name in lower case, without `_` and `-`.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

/// A name that no element type has, or that has two meanings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownType {
    /// The name, as given.
    pub name: String,
}

impl UnknownType {
    /// What an ambiguous name may mean: a type of so many bits, and to numpy one of so many bytes.
    pub fn meanings(&self) -> Option<(DataType, DataType)> {
        let name = plain(&self.name);
        AMBIGUOUS.iter().find(|(known, ..)| *known == name).map(|&(_, bits, bytes)| (bits, bytes))
    }

    /// What is likely meant by the name of a block format, or of a family of types.
    pub fn hint(&self) -> Option<String> {
        let name = plain(&self.name);
        if BLOCK_FORMATS.iter().any(|start| name.starts_with(start)) {
            return Some("a block format has scales: `quantize` takes it".to_owned());
        }
        if name == LACKING.0 {
            return Some(LACKING.1.to_owned());
        }
        let (_, types) = FAMILIES.iter().find(|(names, _)| names.contains(&&*name))?;
        Some(format!("want {types}"))
    }
}

impl fmt::Display for UnknownType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((bits, bytes)) = self.meanings() {
            return write!(f, "`{}` may mean {bits}, and to numpy means {bytes} (want one of these)", self.name);
        }
        if let Some(hint) = self.hint() {
            return write!(f, "`{}` is not an element type ({hint})", crate::error::Short(&self.name));
        }
        write!(f, "`{}` is not an element type (want one of", crate::error::Short(&self.name))?;
        for (i, data_type) in DataType::ALL.iter().enumerate() {
            write!(f, "{}{data_type}", if i == 0 { " " } else { ", " })?;
        }
        f.write_str(")")
    }
}

impl core::error::Error for UnknownType {}

impl FromStr for DataType {
    type Err = UnknownType;

    /// Accepts ONNX's names, the aliases of the table and the names of `TensorProto.DataType` (`FLOAT16`), in any case,
    /// with or without `_` and `-`. What numpy or ml_dtypes takes for another type, as `i8` for int64, is no alias.
    ///
    /// ```
    /// use onnx_cast::DataType;
    ///
    /// for name in ["float8e4m3fn", "FLOAT8E4M3FN", "f8_e4m3fn", "E4M3FN"] {
    ///     assert_eq!(name.parse(), Ok(DataType::Float8E4M3FN));
    /// }
    /// assert!("float7".parse::<DataType>().is_err());
    /// let error = "i8".parse::<DataType>().unwrap_err().to_string();
    /// assert_eq!(error, "`i8` may mean int8, and to numpy means int64 (want one of these)");
    /// let error = "float8_e4m3".parse::<DataType>().unwrap_err().to_string();
    /// assert!(error.starts_with("`float8_e4m3` is not an element type (ml_dtypes has one with infinities"));
    /// ```
    fn from_str(name: &str) -> Result<DataType, UnknownType> {
        let plain = plain(name);
        TABLE
            .iter()
            .find(|row| row.name == plain || row.aliases.contains(&plain.as_str()))
            .map(|row| row.data_type)
            .ok_or_else(|| UnknownType { name: name.to_owned() })
    }
}
