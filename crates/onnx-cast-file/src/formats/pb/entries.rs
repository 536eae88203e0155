//! The elements of a TensorProto in fields of numbers or strings, decoded.

use super::field_name;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::protobuf::onnx::tensor as field;
use crate::formats::protobuf::wire::{self, WireError};
use crate::formats::source::ParsedData;
use crate::io::memory::zeros;
use crate::text::{Count, ShapeText};
use onnx_cast::DataType;
use onnx_cast::packing::pack;
use onnx_cast::tensor::Strings;
use std::borrow::Cow;

/// The entries of a storage field other than `raw_data`.
pub(super) struct Entries<'a, 's> {
    pub(super) message: &'a [u8],
    pub(super) field: u32,
    pub(super) data_type: DataType,
    pub(super) shape: &'s [usize],
    pub(super) len: usize,
}

impl Entries<'_, '_> {
    pub(super) fn read(&self) -> Result<ParsedData<'static>, Invalid> {
        if self.data_type == DataType::String {
            return Ok(ParsedData::Strings(self.strings()?));
        }
        Ok(ParsedData::Bytes(Cow::Owned(self.bytes()?)))
    }

    /// Holds the number of entries against what is wanted, before anything is allocated for them.
    fn check(&self, got: usize, want: Option<usize>) -> Result<(), Invalid> {
        let want = want.ok_or_else(|| self.too_large())?;
        if got == want {
            return Ok(());
        }
        let (field, data_type, shape) = (field_name(self.field), self.data_type, ShapeText(self.shape));
        let what = format!("{} of {field} for {shape} {data_type} (want {want})", Count(got, "entry"));
        Err(Invalid::new(InvalidKind::Size, what))
    }

    fn too_large(&self) -> Invalid {
        Invalid::too_large(self.data_type, self.shape)
    }

    fn buffer(&self, len: Option<usize>) -> Result<Vec<u8>, Invalid> {
        len.and_then(zeros).ok_or_else(|| self.too_large())
    }

    fn bytes(&self) -> Result<Vec<u8>, Invalid> {
        let complex = matches!(self.data_type, DataType::Complex64 | DataType::Complex128);
        let numbers = if complex { self.len.checked_mul(2) } else { Some(self.len) };
        match self.field {
            field::FLOAT_DATA => self.words(|| wire::fixed32s(self.message, self.field), numbers),
            field::DOUBLE_DATA => self.words(|| wire::fixed64s(self.message, self.field), numbers),
            _ => match self.data_type.bits() {
                Some(64) => self.integers(u64::to_le_bytes, numbers),
                Some(32) => self.integers(|value| (value as u32).to_le_bytes(), numbers),
                Some(16) => self.integers(|value| (value as u16).to_le_bytes(), numbers),
                // Packed already, a byte to an entry. Older files have bytes above 127 as negative numbers.
                Some(2 | 4) => self.integers(|value| [value as u8], self.data_type.byte_len(self.len)),
                Some(6) => {
                    let elements = self.integers(|value| [value as u8], numbers)?;
                    let mut bytes = self.buffer(self.data_type.byte_len(self.len))?;
                    pack(self.data_type, &elements, &mut bytes).map_err(|_| self.too_large())?;
                    Ok(bytes)
                }
                _ if self.data_type == DataType::Bool => self.integers(|value| [u8::from(value != 0)], numbers),
                _ => self.integers(|value| [value as u8], numbers),
            },
        }
    }

    fn integers<const N: usize>(&self, word: fn(u64) -> [u8; N], want: Option<usize>) -> Result<Vec<u8>, Invalid> {
        self.words(|| wire::varints(self.message, self.field).map(move |value| value.map(word)), want)
    }

    /// The bytes of all entries, which are read twice: counted, then taken.
    fn words<const N: usize, I>(&self, entries: impl Fn() -> I, want: Option<usize>) -> Result<Vec<u8>, Invalid>
    where
        I: Iterator<Item = Result<[u8; N], WireError>>,
    {
        let mut count = 0;
        for entry in entries() {
            entry?;
            count += 1;
        }
        self.check(count, want)?;
        let mut bytes = self.buffer(count.checked_mul(N))?;
        for (entry, word) in entries().zip(bytes.chunks_exact_mut(N)) {
            word.copy_from_slice(&entry?);
        }
        Ok(bytes)
    }

    fn strings(&self) -> Result<Strings, Invalid> {
        let entries = || wire::all_bytes(self.message, self.field).map_while(Result::ok);
        self.check(entries().count(), Some(self.len))?;
        Ok(entries().collect())
    }
}
