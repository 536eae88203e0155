//! Tensors, borrowed and owned: an element type, a shape, and the elements as ONNX's `raw_data` holds them: little
//! endian, 4- and 2-bit types packed from the low bits of each byte, 6-bit types four to three bytes.
//!
//! A view is checked once, when it is made; after that its length is right. Strings are offsets and bytes, as columnar
//! formats hold them, so that a million of them are two allocations.

use crate::element::{DataType, PlainElement, bytes_of};
use crate::error::TensorError;
use std::borrow::Cow;

/// The number of elements of a shape; `None` where it does not fit `usize`.
#[inline]
pub fn element_count(shape: &[usize]) -> Option<usize> {
    // A zero dimension makes the count 0 however large the others are, so it must be looked for first.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(dim))
}

/// Strings, borrowed: string `i` is `bytes[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringsView<'a> {
    offsets: &'a [u64],
    bytes: &'a [u8],
}

impl<'a> StringsView<'a> {
    /// From one offset more than there are strings: the first 0, none below the one before, the last `bytes.len()`.
    /// The bytes are UTF-8 by ONNX's word, which is checked only where a string is read as a number.
    ///
    /// # Errors
    /// [`TensorError::StringOffsets`] names the first offset that breaks the rule.
    pub fn new(offsets: &'a [u64], bytes: &'a [u8]) -> Result<Self, TensorError> {
        let mut last = 0;
        for (index, &offset) in offsets.iter().enumerate() {
            if offset < last || offset > bytes.len() as u64 || (index == 0 && offset != 0) {
                return Err(TensorError::StringOffsets { index });
            }
            last = offset;
        }
        if offsets.is_empty() || last != bytes.len() as u64 {
            return Err(TensorError::StringOffsets { index: offsets.len().saturating_sub(1) });
        }
        Ok(StringsView { offsets, bytes })
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let start = *self.offsets.get(index)?;
        let end = *self.offsets.get(index.checked_add(1)?)?;
        self.bytes.get(start as usize..end as usize)
    }

    /// The strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        self.offsets.windows(2).map(move |pair| &bytes[pair[0] as usize..pair[1] as usize])
    }

    /// For each string in order, the bytes up to its end, and where in them it starts.
    pub(crate) fn iter_ends(&self) -> impl ExactSizeIterator<Item = (&'a [u8], usize)> + use<'a> {
        let bytes = self.bytes;
        self.offsets.windows(2).map(move |pair| (&bytes[..pair[1] as usize], pair[0] as usize))
    }

    /// The offsets, one more than there are strings.
    pub fn offsets(&self) -> &'a [u64] {
        self.offsets
    }

    /// The bytes of all strings, one after the other.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Strings, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strings {
    offsets: Vec<u64>,
    bytes: Vec<u8>,
}

impl Default for Strings {
    fn default() -> Self {
        Strings::new()
    }
}

impl Strings {
    /// No strings.
    pub fn new() -> Self {
        Strings { offsets: vec![0], bytes: Vec::new() }
    }

    /// No strings, with room for `strings` of them and `bytes` bytes in all.
    pub fn with_capacity(strings: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(strings.saturating_add(1));
        offsets.push(0);
        Strings { offsets, bytes: Vec::with_capacity(bytes) }
    }

    /// Appends a string.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.offsets.push(self.bytes.len() as u64);
    }

    /// Removes all strings and keeps the memory.
    pub fn clear(&mut self) {
        self.offsets.truncate(1);
        self.bytes.clear();
    }

    /// Borrowed.
    pub fn view(&self) -> StringsView<'_> {
        StringsView { offsets: &self.offsets, bytes: &self.bytes }
    }
}

/// Appends strings of at most `ROOM` bytes by writing over characters `0`: what a string leaves of its room is the start
/// of the next one's. So nothing is copied, and the zeros of long numbers are there already.
pub(crate) struct StringsWriter<'a, const ROOM: usize> {
    strings: &'a mut Strings,
    /// Bytes that belong to strings; those behind are zeros.
    end: usize,
}

impl<'a, const ROOM: usize> StringsWriter<'a, ROOM> {
    /// To append about `count` strings.
    pub(crate) fn new(strings: &'a mut Strings, count: usize) -> Self {
        strings.offsets.reserve(count);
        let end = strings.bytes.len();
        StringsWriter { strings, end }
    }

    /// Appends a string for each item: `write` writes it and returns its length. It may write more than the string, but
    /// leaves zeros behind it if it counts on finding them.
    #[inline(always)]
    pub(crate) fn write<T>(&mut self, items: &[T], write: impl Fn(&T, &mut [u8; ROOM]) -> usize) {
        let Strings { offsets, bytes } = &mut *self.strings;
        let most = self.end + items.len() * ROOM;
        if bytes.len() < most {
            bytes.resize(most, b'0');
        }
        let end = &mut self.end;
        offsets.extend(items.iter().map(|item| {
            if let Some(room) = bytes[*end..].first_chunk_mut() {
                *end += write(item, room);
            }
            *end as u64
        }));
    }
}

impl<const ROOM: usize> Drop for StringsWriter<'_, ROOM> {
    fn drop(&mut self) {
        self.strings.bytes.truncate(self.end);
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(iter: I) -> Self {
        let mut strings = Strings::new();
        iter.into_iter().for_each(|string| strings.push(string.as_ref()));
        strings
    }
}

/// The elements of a [`TensorView`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Of every type but string: little endian, packed.
    Bytes(&'a [u8]),
    /// Of type string.
    Strings(StringsView<'a>),
}

/// A tensor, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorView<'a> {
    data_type: DataType,
    shape: &'a [usize],
    len: usize,
    data: Data<'a>,
}

impl<'a> TensorView<'a> {
    /// A tensor of any type but string from its bytes, which need no alignment.
    ///
    /// # Errors
    /// Where the shape's size overflows, the bytes are not exactly as many as type and shape ask for, or the type is
    /// string.
    #[inline]
    pub fn new(data_type: DataType, shape: &'a [usize], bytes: &'a [u8]) -> Result<Self, TensorError> {
        let (len, want) = sizes(data_type, shape)?;
        if bytes.len() != want {
            return Err(TensorError::ByteLen { data_type, shape: shape.to_vec(), got: bytes.len(), want });
        }
        Ok(TensorView { data_type, shape, len, data: Data::Bytes(bytes) })
    }

    /// A string tensor.
    ///
    /// # Errors
    /// Where the shape's size overflows or is not the number of strings.
    pub fn strings(shape: &'a [usize], strings: StringsView<'a>) -> Result<Self, TensorError> {
        let too_large = || TensorError::TooLarge { data_type: DataType::String, shape: shape.to_vec() };
        let want = element_count(shape).ok_or_else(too_large)?;
        if strings.len() != want {
            return Err(TensorError::StringCount { shape: shape.to_vec(), got: strings.len(), want });
        }
        Ok(TensorView { data_type: DataType::String, shape, len: want, data: Data::Strings(strings) })
    }

    /// The element type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The dimensions; none for a scalar.
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements.
    pub fn data(&self) -> Data<'a> {
        self.data
    }

    /// The bytes, of every type but string.
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self.data {
            Data::Bytes(bytes) => Some(bytes),
            Data::Strings(_) => None,
        }
    }

    /// A copy that owns its elements.
    pub fn to_tensor(&self) -> Tensor {
        let data = match self.data {
            Data::Bytes(bytes) => TensorData::Bytes(bytes.to_vec()),
            Data::Strings(strings) => {
                TensorData::Strings(Strings { offsets: strings.offsets.to_vec(), bytes: strings.bytes.to_vec() })
            }
        };
        Tensor { data_type: self.data_type, shape: self.shape.to_vec(), len: self.len, data }
    }
}

/// Elements and bytes of a tensor of this type and shape.
#[inline]
fn sizes(data_type: DataType, shape: &[usize]) -> Result<(usize, usize), TensorError> {
    if data_type == DataType::String {
        return Err(TensorError::NotBytes);
    }
    element_count(shape)
        .and_then(|len| Some((len, data_type.byte_len(len)?)))
        // No allocation of Rust's is larger than isize::MAX, so a larger claim is one no buffer can meet.
        .filter(|&(_, bytes)| isize::try_from(bytes).is_ok())
        .ok_or_else(|| TensorError::TooLarge { data_type, shape: shape.to_vec() })
}

/// The elements of a [`Tensor`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorData {
    /// Of every type but string: little endian, packed.
    Bytes(Vec<u8>),
    /// Of type string.
    Strings(Strings),
}

/// A tensor that owns its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    data_type: DataType,
    shape: Vec<usize>,
    len: usize,
    data: TensorData,
}

impl Tensor {
    /// A tensor of any type but string from its bytes.
    ///
    /// # Errors
    /// As [`TensorView::new`].
    pub fn new(data_type: DataType, shape: Vec<usize>, bytes: Vec<u8>) -> Result<Self, TensorError> {
        let len = TensorView::new(data_type, &shape, &bytes)?.len;
        Ok(Tensor { data_type, shape, len, data: TensorData::Bytes(bytes) })
    }

    /// A string tensor.
    ///
    /// # Errors
    /// As [`TensorView::strings`].
    pub fn strings(shape: Vec<usize>, strings: Strings) -> Result<Self, TensorError> {
        let len = TensorView::strings(&shape, strings.view())?.len;
        Ok(Tensor { data_type: DataType::String, shape, len, data: TensorData::Strings(strings) })
    }

    /// A tensor with the elements of a typed slice.
    ///
    /// # Errors
    /// Where the shape does not have as many elements as the slice.
    ///
    /// ```
    /// # use onnx_cast::{Tensor, DataType};
    /// let tensor = Tensor::from_slice(vec![3], &[1.0f32, 2.0, 3.0])?;
    /// assert_eq!(tensor.data_type(), DataType::Float);
    /// # Ok::<(), onnx_cast::TensorError>(())
    /// ```
    pub fn from_slice<T: PlainElement>(shape: Vec<usize>, elements: &[T]) -> Result<Self, TensorError> {
        Tensor::new(T::DATA_TYPE, shape, little_endian(elements).into_owned())
    }

    /// The elements as a vector of Rust's type for them; `None` where the tensor is of another type.
    pub fn to_vec<T: PlainElement>(&self) -> Option<Vec<T>> {
        use crate::element::Word;
        let TensorData::Bytes(bytes) = &self.data else { return None };
        if self.data_type != T::DATA_TYPE {
            return None;
        }
        let words = bytes.chunks_exact(size_of::<T::Bits>());
        Some(
            words
                .filter_map(|word| <T::Bits as Word>::Bytes::try_from(word).ok())
                .map(|w| T::from_bits(Word::from_le(w)))
                .collect(),
        )
    }

    /// The element type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The dimensions; none for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes, of every type but string.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.view().bytes()
    }

    /// Borrowed.
    pub fn view(&self) -> TensorView<'_> {
        let data = match &self.data {
            TensorData::Bytes(bytes) => Data::Bytes(bytes),
            TensorData::Strings(strings) => Data::Strings(strings.view()),
        };
        TensorView { data_type: self.data_type, shape: &self.shape, len: self.len, data }
    }

    /// The parts: type, shape, elements.
    pub fn into_parts(self) -> (DataType, Vec<usize>, TensorData) {
        (self.data_type, self.shape, self.data)
    }
}

/// The bytes of typed elements in ONNX's order: borrowed where that is the machine's.
pub(crate) fn little_endian<T: PlainElement>(elements: &[T]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") || size_of::<T>() == 1 {
        return Cow::Borrowed(bytes_of(elements));
    }
    Cow::Owned(bytes_of(elements).chunks_exact(size_of::<T>()).flat_map(|word| word.iter().rev().copied()).collect())
}
