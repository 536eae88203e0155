//! Tensors, borrowed and owned: an element type, a shape, and the elements in the layout of ONNX's `raw_data`. That is
//! little endian; 4- and 2-bit types are packed from the low bits of each byte, and four 6-bit elements take three
//! bytes.
//!
//! A view is checked once, when it is created, so later code relies on its length.

use alloc::vec;
use alloc::vec::Vec;
mod error;
mod strings;

use crate::element::{DataType, Element, Word, bytes_of, bytes_of_mut, elements_of};
use crate::packed::{as_uninit, bits, byte_len, pack_elements, unpack_elements, word};

pub use error::{TensorError, TensorErrorKind};
pub use strings::{Strings, StringsView};

/// The number of elements of a shape; `None` where it does not fit `usize`.
///
/// ```
/// use onnx_cast::tensor::element_count;
///
/// assert_eq!(element_count(&[2, 3]), Some(6));
/// assert_eq!(element_count(&[]), Some(1));
/// assert_eq!(element_count(&[usize::MAX, 2]), None);
/// ```
#[inline]
pub fn element_count(shape: &[usize]) -> Option<usize> {
    // A dimension of 0 makes the count 0 even if the product of the others overflows, so it is checked first.
    if let [dim] = *shape {
        return Some(dim);
    }
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1usize, |count, &dim| count.checked_mul(dim))
}

/// The elements of a [`TensorView`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Data<'a> {
    /// Elements of any type but string: little endian, packed.
    Bytes(&'a [u8]),
    /// Elements of type string.
    Strings(StringsView<'a>),
}

/// A borrowed tensor. The shape is borrowed too: a computed shape, such as `[x.len()]`, must outlive the view.
///
/// ```
/// use onnx_cast::{DataType, TensorView};
///
/// let bytes = [0x00, 0x3c, 0x00, 0xc0];
/// let view = TensorView::new(DataType::Float16, &[2], &bytes)?;
/// assert_eq!((view.data_type(), view.len()), (DataType::Float16, 2));
/// assert!(TensorView::new(DataType::Float16, &[3], &bytes).is_err());
/// # Ok::<(), onnx_cast::tensor::TensorError>(())
/// ```
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
    /// Fails if the size of the shape overflows, if the number of bytes does not match type and shape, or if the type
    /// is string.
    #[inline(always)]
    pub fn new(data_type: DataType, shape: &'a [usize], bytes: &'a [u8]) -> Result<Self, TensorError> {
        let (len, want) = sizes(data_type, shape)?;
        if bytes.len() != want {
            return Err(TensorErrorKind::ByteLen { data_type, shape: shape.to_vec(), got: bytes.len(), want }.into());
        }
        Ok(TensorView { data_type, shape, len, data: Data::Bytes(bytes) })
    }

    /// As [`TensorView::new`], for callers that have counted the elements: the C interface needs their number before it
    /// has the bytes.
    ///
    /// # Errors
    /// As [`TensorView::new`].
    ///
    /// # Safety
    /// The shape has `len` elements, as [`element_count`] says.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn of_counted(
        data_type: DataType,
        shape: &'a [usize],
        len: usize,
        bytes: &'a [u8],
    ) -> Result<Self, TensorError> {
        debug_assert_eq!(element_count(shape), Some(len));
        if data_type.byte_len(len) == Some(bytes.len()) {
            return Ok(TensorView { data_type, shape, len, data: Data::Bytes(bytes) });
        }
        TensorView::new(data_type, shape, bytes)
    }

    /// A tensor that borrows a typed slice, without a copy.
    ///
    /// ```
    /// use onnx_cast::{Cast, CastOptions, DataType, TensorView};
    /// use onnx_cast::types::BFloat16;
    ///
    /// let weights = [1.0f32, -2.0];
    /// let cast = Cast::new(DataType::BFloat16, &CastOptions::new())?;
    /// let result = cast.run(&TensorView::from_slice(&[2], &weights)?)?;
    /// assert_eq!(result.to_vec::<BFloat16>(), Some(vec![BFloat16::from_f32(1.0), BFloat16::from_f32(-2.0)]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the shape does not have the slice's number of elements, or if the slice's memory is not the tensor's
    /// bytes: the type is packed (a slice has one element per byte), or it has more than 8 bits and the machine is
    /// big-endian. [`Tensor::from_slice`] copies those.
    #[inline(always)]
    pub fn from_slice<T: Element>(shape: &'a [usize], elements: &'a [T]) -> Result<Self, TensorError> {
        if !is_layout_of_tensors::<T>() {
            return Err(TensorErrorKind::SliceLayout { data_type: T::DATA_TYPE }.into());
        }
        TensorView::new(T::DATA_TYPE, shape, bytes_of(elements))
    }

    /// A string tensor.
    ///
    /// # Errors
    /// Fails if the size of the shape overflows, or is not the number of strings.
    pub fn strings(shape: &'a [usize], strings: StringsView<'a>) -> Result<Self, TensorError> {
        let too_large = || TensorErrorKind::TooLarge { data_type: DataType::String, shape: shape.to_vec() };
        let want = element_count(shape).ok_or_else(too_large)?;
        if strings.len() != want {
            return Err(TensorErrorKind::StringCount { shape: shape.to_vec(), got: strings.len(), want }.into());
        }
        Ok(TensorView { data_type: DataType::String, shape, len: want, data: Data::Strings(strings) })
    }

    /// The element type.
    #[inline]
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The dimensions; empty for a scalar.
    #[inline]
    pub fn shape(&self) -> &'a [usize] {
        self.shape
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements.
    #[inline]
    pub fn data(&self) -> Data<'a> {
        self.data
    }

    /// The bytes; `None` for the type string.
    #[inline]
    pub fn bytes(&self) -> Option<&'a [u8]> {
        match self.data {
            Data::Bytes(bytes) => Some(bytes),
            Data::Strings(_) => None,
        }
    }

    /// The strings of a string tensor; `None` for other types.
    pub fn as_strings(&self) -> Option<StringsView<'a>> {
        match self.data {
            Data::Strings(strings) => Some(strings),
            Data::Bytes(_) => None,
        }
    }

    /// The elements as a slice of their Rust type, without a copy. `None` if the tensor has another type, or if its
    /// bytes are not the memory of such a slice: the type is packed, the bytes are not aligned for `T`, a bool is
    /// neither 0 nor 1, or the type has more than 8 bits and the machine is big-endian. [`Tensor::to_vec`] copies the
    /// elements in these cases.
    ///
    /// ```
    /// use onnx_cast::TensorView;
    /// use onnx_cast::types::BFloat16;
    ///
    /// let weights = [1.0, -2.0].map(BFloat16::from_f32);
    /// let view = TensorView::from_slice(&[2], &weights)?;
    /// assert_eq!(view.as_slice(), Some(&weights[..]));
    /// assert_eq!(view.as_slice::<f32>(), None);
    /// # Ok::<(), onnx_cast::tensor::TensorError>(())
    /// ```
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        let is_slice = self.data_type == T::DATA_TYPE && is_layout_of_tensors::<T>();
        self.bytes().filter(|_| is_slice).and_then(elements_of)
    }

    /// A copy that owns its elements.
    pub fn to_tensor(&self) -> Tensor {
        let data = match self.data {
            Data::Bytes(bytes) => TensorData::Bytes(bytes.to_vec()),
            Data::Strings(strings) => TensorData::Strings(strings.to_strings()),
        };
        Tensor { data_type: self.data_type, shape: self.shape.to_vec(), len: self.len, data }
    }
}

/// The numbers of elements and bytes of a tensor of this type and shape.
#[inline(always)]
fn sizes(data_type: DataType, shape: &[usize]) -> Result<(usize, usize), TensorError> {
    if data_type == DataType::String {
        return Err(TensorErrorKind::NotBytes.into());
    }
    let sizes = element_count(shape)
        .and_then(|len| Some((len, data_type.byte_len(len)?)))
        // Rust allocates at most isize::MAX bytes, so no buffer can hold a larger tensor.
        .filter(|&(_, bytes)| isize::try_from(bytes).is_ok());
    Ok(sizes.ok_or_else(|| TensorErrorKind::TooLarge { data_type, shape: shape.to_vec() })?)
}

/// The elements of a [`Tensor`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TensorData {
    /// Elements of any type but string: little endian, packed.
    Bytes(Vec<u8>),
    /// Elements of type string.
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
    /// ```
    /// use onnx_cast::{Cast, CastOptions, DataType, Tensor};
    ///
    /// let texts = Tensor::strings(vec![2], ["1.5", "-inf"].into_iter().collect())?;
    /// let floats = Cast::new(DataType::Float, &CastOptions::new())?.run(&texts.view())?;
    /// assert_eq!(floats.to_vec::<f32>(), Some(vec![1.5, f32::NEG_INFINITY]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`TensorView::strings`].
    pub fn strings(shape: Vec<usize>, strings: Strings) -> Result<Self, TensorError> {
        let len = TensorView::strings(&shape, strings.view())?.len;
        Ok(Tensor { data_type: DataType::String, shape, len, data: TensorData::Strings(strings) })
    }

    /// A tensor with a copy of a slice's elements, packed if the type is packed.
    ///
    /// # Errors
    /// Fails if the shape does not have the slice's number of elements.
    ///
    /// ```
    /// use onnx_cast::{DataType, Tensor};
    /// use onnx_cast::types::Int4;
    ///
    /// let tensor = Tensor::from_slice(vec![3], &[1.0f32, 2.0, 3.0])?;
    /// assert_eq!(tensor.data_type(), DataType::Float);
    ///
    /// let packed = Tensor::from_slice(vec![3], &[1, 2, 15].map(Int4::from_bits))?;
    /// assert_eq!(packed.bytes(), Some(&[0x21, 0x0f][..]));
    /// # Ok::<(), onnx_cast::tensor::TensorError>(())
    /// ```
    pub fn from_slice<T: Element>(shape: Vec<usize>, elements: &[T]) -> Result<Self, TensorError> {
        let bytes = if is_layout_of_tensors::<T>() {
            bytes_of(elements).to_vec()
        } else {
            let mut bytes = vec![0; byte_len::<T>(elements.len())];
            to_tensor_bytes(elements, &mut bytes);
            bytes
        };
        Tensor::new(T::DATA_TYPE, shape, bytes)
    }

    /// The elements as a vector of their Rust type; `None` if the tensor has another type.
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        let TensorData::Bytes(bytes) = &self.data else { return None };
        if self.data_type != T::DATA_TYPE {
            return None;
        }
        let mut elements = vec![T::default(); self.len];
        from_tensor_bytes(bytes, &mut elements);
        Some(elements)
    }

    /// The element type.
    pub fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The dimensions; empty for a scalar.
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

    /// The bytes; `None` for the type string.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.view().bytes()
    }

    /// Borrows the tensor.
    pub fn view(&self) -> TensorView<'_> {
        let data = match &self.data {
            TensorData::Bytes(bytes) => Data::Bytes(bytes),
            TensorData::Strings(strings) => Data::Strings(strings.view()),
        };
        TensorView { data_type: self.data_type, shape: &self.shape, len: self.len, data }
    }

    /// The bytes, without a copy; `None` for the type string.
    ///
    /// ```
    /// use onnx_cast::{Cast, CastOptions, DataType, TensorView};
    ///
    /// let cast = Cast::new(DataType::Float16, &CastOptions::new())?;
    /// let halves = cast.run(&TensorView::from_slice(&[2], &[1.0f32, -2.0])?)?;
    /// assert_eq!(halves.into_bytes(), Some(vec![0x00, 0x3c, 0x00, 0xc0]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self.data {
            TensorData::Bytes(bytes) => Some(bytes),
            TensorData::Strings(_) => None,
        }
    }

    /// The parts: type, shape, elements.
    pub fn into_parts(self) -> (DataType, Vec<usize>, TensorData) {
        (self.data_type, self.shape, self.data)
    }
}

/// Whether the memory of a slice of `T` is the tensor's bytes.
pub(crate) const fn is_layout_of_tensors<T: Element>() -> bool {
    bits::<T>() == 8 || bits::<T>() > 8 && cfg!(target_endian = "little")
}

/// Writes elements as a tensor's bytes. `bytes` must have the length that they take.
pub(crate) fn to_tensor_bytes<T: Element>(elements: &[T], bytes: &mut [u8]) {
    if bits::<T>() < 8 {
        // SAFETY: packing writes only initialised bytes.
        return pack_elements(bits::<T>(), bytes_of(elements), unsafe { as_uninit(bytes) });
    }
    for (element, word) in elements.iter().zip(bytes.chunks_exact_mut(size_of::<T::Bits>())) {
        word.copy_from_slice(element.to_bits().to_le().as_ref());
    }
}

/// Reads elements from a tensor's bytes. `bytes` must have the length that they take.
pub(crate) fn from_tensor_bytes<T: Element>(bytes: &[u8], elements: &mut [T]) {
    if bits::<T>() < 8 {
        // SAFETY: unpacking leaves the bits above an element's width zero, as the type requires.
        return unpack_elements(bits::<T>(), bytes, unsafe { as_uninit(bytes_of_mut(elements)) });
    }
    for (word_bytes, element) in bytes.chunks_exact(size_of::<T::Bits>()).zip(elements) {
        *element = T::from_bits(word(word_bytes));
    }
}
