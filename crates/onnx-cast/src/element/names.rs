//! The names of element types: how one is printed, and what is read as one.

use super::{DataType, TABLE};
use crate::error::Short;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::str::FromStr;
use core::{fmt, iter, mem};

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
const FAMILIES: &[(&[&str], &str)] = &[
    (&["fp8", "float8", "f8"], "float8e4m3fn or float8e5m2"),
    (&["fp6", "float6", "f6"], "float6e2m3 or float6e3m2"),
    (&["int", "integer"], "int2, int4, int8, int16, int32 or int64"),
    (&["4bit"], "int4 or uint4"),
    (&["8bit"], "int8 or uint8"),
    (&["uint"], "uint2, uint4, uint8, uint16, uint32 or uint64"),
];

/// Prefixes of the names of formats that have scales: block formats, llama.cpp's types, and weights with activations.
const WITH_SCALES: &[&str] =
    &["mxfp", "mxint", "nvfp", "q2", "q3", "q4", "q5", "q6", "q8", "iq", "w2a", "w4a", "w8a", "nf4", "gptq", "awq"];

/// A name that has another meaning in ml_dtypes, of a type that ONNX lacks.
const LACKING: (&str, &str) = ("float8e4m3", "ml_dtypes has one with infinities, which ONNX lacks: want float8e4m3fn");

/// A name in lower case, without `_` and `-`.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

/// The name that a word in lower case is most likely a typo of; of equally near ones the first of the alphabet.
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    /// More letters than any name and its typos have.
    const LONGEST: usize = 64;
    let word = Some(word.as_bytes()).filter(|word| word.len() <= LONGEST)?;
    let near = names.map(|name| (edits(word, name.as_bytes()), name)).min()?;
    (near.0 <= 1 + word.len() / 4).then_some(near.1)
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour to make one word of another.
fn edits(word: &[u8], name: &[u8]) -> usize {
    // For each prefix of `name`, the edits from the prefixes of `word` that are two letters and one letter shorter.
    let mut second_last = vec![0; name.len() + 1];
    let mut last: Vec<usize> = (0..=name.len()).collect();
    for (i, letter) in word.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, other) in name.iter().enumerate() {
            let mut least = (last[j] + usize::from(letter != other)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && (letter, other) == (&name[j - 1], &word[i - 1]) {
                least = least.min(second_last[j - 1] + 1);
            }
            row.push(least);
        }
        second_last = mem::replace(&mut last, row);
    }
    last[name.len()]
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

    /// A hint for the name of a format with scales, or of a family of types.
    pub fn hint(&self) -> Option<String> {
        let name = plain(&self.name);
        // As `torch.bfloat16` and `np.float16`.
        if let Some(data_type) = name.rsplit_once('.').and_then(|(_, name)| name.parse::<DataType>().ok()) {
            return Some(format!("want {data_type}"));
        }
        if WITH_SCALES.iter().any(|start| name.starts_with(start)) {
            return Some("a format with scales: use `quantize`".to_owned());
        }
        if name == LACKING.0 {
            return Some(LACKING.1.to_owned());
        }
        let (_, types) = FAMILIES.iter().find(|(names, _)| names.contains(&&*name))?;
        Some(format!("want {types}"))
    }

    /// The nearest name of a type, if one is near enough to be a typo of.
    fn near(&self) -> Option<&'static str> {
        nearest(
            &plain(&self.name),
            TABLE.iter().flat_map(|row| iter::once(row.name).chain(row.aliases.iter().copied())),
        )
    }
}

impl fmt::Display for UnknownType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((bits, bytes)) = self.meanings() {
            return write!(f, "`{}` may mean {bits}, and to numpy means {bytes} (want one of these)", self.name);
        }
        write!(f, "`{}` is not an element type (", Short(&self.name))?;
        if let Some(hint) = self.hint() {
            return write!(f, "{hint})");
        }
        if let Some(near) = self.near() {
            return write!(f, "did you mean `{near}`?)");
        }
        f.write_str("want one of")?;
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
    /// let error = "flaot16".parse::<DataType>().unwrap_err().to_string();
    /// assert_eq!(error, "`flaot16` is not an element type (did you mean `float16`?)");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted_by_letters_and_neighbours() {
        for (word, name, want) in [
            ("", "", 0),
            ("", "int8", 4),
            ("int8", "", 4),
            ("int8", "int8", 0),
            ("itn8", "int8", 1),
            ("flaot16", "float16", 1),
            ("flot", "float", 1),
            ("floaty", "float", 1),
            ("bf16", "fp16", 2),
            ("ca", "abc", 3),
        ] {
            assert_eq!(edits(word.as_bytes(), name.as_bytes()), want, "{word} {name}");
        }
    }

    #[test]
    fn only_a_typo_has_a_nearest_name() {
        let names = || ["int8", "int4", "float16"].into_iter();
        assert_eq!(nearest("int5", names()), Some("int4"));
        assert_eq!(nearest("float61", names()), Some("float16"));
        assert_eq!(nearest("something", names()), None);
        assert_eq!(nearest("\u{e9}", [].into_iter()), None);
        assert_eq!(nearest(&"float16".repeat(100), names()), None);
    }
}
