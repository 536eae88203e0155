//! The elements of a string tensor: offsets and bytes, as in columnar formats, so that a million strings take two
//! allocations.

use super::{TensorError, TensorErrorKind};
use crate::element::DataType;
use alloc::vec;
use alloc::vec::Vec;

/// Borrowed strings: string `i` is `bytes[offsets[i]..offsets[i + 1]]`.
///
/// ```
/// use onnx_cast::tensor::StringsView;
///
/// let strings = StringsView::new(&[0, 1, 3], b"abc")?;
/// assert_eq!(strings.iter().collect::<Vec<_>>(), [&b"a"[..], b"bc"]);
/// assert!(StringsView::new(&[0, 4], b"abc").is_err());
/// # Ok::<(), onnx_cast::tensor::TensorError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StringsView<'a> {
    offsets: &'a [u64],
    bytes: &'a [u8],
}

impl<'a> StringsView<'a> {
    /// Strings from their offsets, one more than there are strings: the first is 0, each is at least the one before,
    /// and the last is `bytes.len()`. ONNX requires UTF-8; that is checked only when a string is read as a number.
    ///
    /// # Errors
    /// Fails with [`TensorErrorKind::StringOffsets`], which names the first wrong offset.
    pub fn new(offsets: &'a [u64], bytes: &'a [u8]) -> Result<Self, TensorError> {
        let mut last = 0;
        for (index, &offset) in offsets.iter().enumerate() {
            if offset < last || offset > bytes.len() as u64 || (index == 0 && offset != 0) {
                return Err(TensorErrorKind::StringOffsets { index }.into());
            }
            last = offset;
        }
        if offsets.is_empty() || last != bytes.len() as u64 {
            return Err(TensorErrorKind::StringOffsets { index: offsets.len().saturating_sub(1) }.into());
        }
        Ok(StringsView { offsets, bytes })
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `index`; `None` if there are not that many.
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

    /// For each string in order, the bytes up to its end, and its start index in them.
    pub(crate) fn iter_ends(&self) -> impl ExactSizeIterator<Item = (&'a [u8], usize)> + use<'a> {
        let bytes = self.bytes;
        self.offsets.windows(2).map(move |pair| (&bytes[..pair[1] as usize], pair[0] as usize))
    }

    /// The offsets, one more than there are strings.
    pub fn offsets(&self) -> &'a [u64] {
        self.offsets
    }

    /// The bytes of all strings, without separators.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// A copy that owns its bytes.
    pub fn to_strings(&self) -> Strings {
        Strings { offsets: self.offsets.to_vec(), bytes: self.bytes.to_vec() }
    }
}

/// Owned strings.
///
/// ```
/// use onnx_cast::tensor::Strings;
///
/// let mut strings: Strings = ["a", ""].into_iter().collect();
/// strings.push(b"bc");
/// assert_eq!(strings.view().get(2), Some(&b"bc"[..]));
/// assert_eq!(strings.view().offsets(), [0, 1, 1, 3]);
/// ```
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
    /// An empty list of strings.
    pub fn new() -> Self {
        Strings { offsets: vec![0], bytes: Vec::new() }
    }

    /// An empty list with capacity for `strings` strings of `bytes` bytes in total.
    ///
    /// ```
    /// use onnx_cast::tensor::Strings;
    ///
    /// assert!(Strings::try_with_capacity(1, 5).is_ok());
    /// assert!(Strings::try_with_capacity(usize::MAX, 0).is_err());
    /// ```
    ///
    /// # Errors
    /// Fails with [`TensorErrorKind::TooLarge`] if there is too little memory.
    pub fn try_with_capacity(strings: usize, bytes: usize) -> Result<Self, TensorError> {
        let mut made = Strings::new();
        let offsets = made.offsets.try_reserve_exact(strings);
        match offsets.and_then(|()| made.bytes.try_reserve_exact(bytes)) {
            Ok(()) => Ok(made),
            Err(_) => Err(TensorErrorKind::TooLarge { data_type: DataType::String, shape: vec![strings] }.into()),
        }
    }

    /// Appends a string.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.offsets.push(self.bytes.len() as u64);
    }

    /// Appends a string, or nothing if there is too little memory.
    ///
    /// # Errors
    /// Fails with [`TensorErrorKind::TooLarge`], whose shape is the number of strings that there would be.
    pub fn try_push(&mut self, string: &[u8]) -> Result<(), TensorError> {
        let room = self.bytes.try_reserve(string.len()).and_then(|()| self.offsets.try_reserve(1));
        if room.is_err() {
            return Err(
                TensorErrorKind::TooLarge { data_type: DataType::String, shape: vec![self.offsets.len()] }.into()
            );
        }
        self.push(string);
        Ok(())
    }

    /// Removes all strings, but keeps the memory.
    pub fn clear(&mut self) {
        self.offsets.truncate(1);
        self.bytes.clear();
    }

    /// The offsets and the bytes, to append to both.
    pub(crate) fn parts_mut(&mut self) -> (&mut Vec<u64>, &mut Vec<u8>) {
        (&mut self.offsets, &mut self.bytes)
    }

    /// Borrows the strings.
    pub fn view(&self) -> StringsView<'_> {
        StringsView { offsets: &self.offsets, bytes: &self.bytes }
    }
}

impl<S: AsRef<[u8]>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(iter: I) -> Self {
        let mut strings = Strings::new();
        iter.into_iter().for_each(|string| strings.push(string.as_ref()));
        strings
    }
}
