//! ONNX `Cast`.

use super::node::{Attribute, Attributes};
use super::{CastError, CastErrorKind, NEWEST_OPSET, OpError, OpErrorKind, Operator, Plan, ValueInfo};
use crate::arch::Backend;
use crate::element::{DataType, Element, bytes_of_mut};
use crate::packed::{as_uninit, byte_len};
use crate::scalar::{RoundMode, Rules};
use crate::tensor::{Strings, Tensor, TensorView, from_tensor_bytes, is_layout_of_tensors, to_tensor_bytes};
use core::mem::MaybeUninit;

/// The options of a cast: the opset, which selects the operator's version, the operator's attributes, and how to run
/// it.
///
/// An attribute that is not set has ONNX's default (`saturate` true, `round_mode` up). [`Cast::new`] fails if one is
/// set that the version does not define. Each setter takes a value, or an `Option` where `None` means the default.
///
/// ```
/// use onnx_cast::{CastOptions, RoundMode};
///
/// let options = CastOptions::new().opset(24).saturate(false).round_mode(RoundMode::Nearest).threads(1);
/// assert_eq!(options.saturate, Some(false));
/// assert_eq!(options.saturate(None).saturate, None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CastOptions {
    /// The opset; [`NEWEST_OPSET`] by default.
    pub opset: i64,
    /// Whether values beyond a float8 target's range become its largest value, from version 19.
    pub saturate: Option<bool>,
    /// The rounding to `float8e8m0`, from version 24.
    pub round_mode: Option<RoundMode>,
    /// The backend; the fastest on this machine by default. It never changes a result.
    pub backend: Option<Backend>,
    /// The largest number of threads; 1 keeps the cast on the caller's thread. The default, which is also the limit, is
    /// the number of threads of the current rayon pool: that of `ThreadPool::install`, or the global pool, or in a
    /// forked child that of the child. Small tensors stay on the caller's thread. It never changes a result. Without
    /// the feature `threads`, every cast runs on the caller's thread.
    pub threads: Option<usize>,
}

impl Default for CastOptions {
    fn default() -> Self {
        CastOptions::new()
    }
}

impl CastOptions {
    /// The newest opset, ONNX's default attributes, the fastest backend, all threads.
    pub const fn new() -> Self {
        CastOptions { opset: NEWEST_OPSET, saturate: None, round_mode: None, backend: None, threads: None }
    }

    /// Sets [`CastOptions::opset`].
    pub const fn opset(mut self, opset: i64) -> Self {
        self.opset = opset;
        self
    }

    /// Sets [`CastOptions::saturate`].
    pub fn saturate(mut self, saturate: impl Into<Option<bool>>) -> Self {
        self.saturate = saturate.into();
        self
    }

    /// Sets [`CastOptions::round_mode`].
    pub fn round_mode(mut self, round_mode: impl Into<Option<RoundMode>>) -> Self {
        self.round_mode = round_mode.into();
        self
    }

    /// Sets [`CastOptions::backend`].
    pub fn backend(mut self, backend: impl Into<Option<Backend>>) -> Self {
        self.backend = backend.into();
        self
    }

    /// Sets [`CastOptions::threads`].
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }
}

/// The part that Cast and CastLike share: everything but the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    operator: Operator,
    pub(super) version: i64,
    saturate: bool,
    round_mode: RoundMode,
    pub(super) backend: Option<Backend>,
    pub(super) threads: Option<usize>,
}

impl Settings {
    // Always inlined: a result that is returned through memory is written field by field and read back in vectors, and
    // such a read waits for the writes. For 16 elements that took half of the time.
    #[inline(always)]
    pub(super) fn new(operator: Operator, options: &CastOptions) -> Result<Self, OpError> {
        let version = operator.version_at(options.opset)?;
        // A default is what a version without the attribute does.
        if options.saturate == Some(false) {
            operator.check_attribute(version, "saturate")?;
        }
        if options.round_mode.is_some_and(|mode| mode != RoundMode::Up) {
            operator.check_attribute(version, "round_mode")?;
        }
        Ok(Settings {
            operator,
            version,
            saturate: options.saturate.unwrap_or(true),
            round_mode: options.round_mode.unwrap_or_default(),
            backend: options.backend,
            threads: options.threads,
        })
    }

    pub(super) fn from_attributes(operator: Operator, version: i64, list: &Attributes<'_>) -> Result<Self, OpError> {
        Ok(Settings {
            operator,
            version,
            saturate: list.int("saturate")?.is_none_or(|value| value != 0),
            round_mode: list.string("round_mode")?.map_or(Ok(RoundMode::default()), |word| word.parse())?,
            backend: None,
            threads: None,
        })
    }

    #[inline(always)]
    pub(super) fn check_type(&self, data_type: DataType) -> Result<(), OpError> {
        self.operator.check_type(self.version, data_type)
    }

    #[inline(always)]
    pub(super) fn rules(&self, to: DataType) -> Rules {
        Rules::resolve(to, self.version, self.saturate, self.round_mode)
    }

    #[inline(always)]
    pub(super) fn plan(&self, from: DataType, to: DataType) -> Result<Plan, OpError> {
        self.check_type(from)?;
        self.check_type(to)?;
        Ok(Plan::cast(from, to, self.rules(to), self.backend.unwrap_or_else(Backend::best), self.threads))
    }
}

/// ONNX `Cast`: the elements of a tensor as another type.
///
/// - To floats, values are rounded to nearest even (to float8e8m0 by [`RoundMode`]); by default they saturate in types
///   of 8 bits and fewer.
/// - From floats to integers of 8 bits and more, they are truncated and saturate; NaN gives 0.
/// - From floats to integers of 4 and 2 bits, they are rounded to nearest even, and the low bits are kept: 9 becomes -7
///   in int4.
/// - Between integers, the low bits are kept.
///
/// `docs/semantics.md` has every rule.
///
/// ```
/// use onnx_cast::{Cast, CastOptions, DataType, Tensor};
///
/// let weights = Tensor::from_slice(vec![2, 2], &[1.0f32, -0.3, 1000.0, f32::NAN])?;
/// let cast = Cast::new(DataType::Float8E4M3FN, &CastOptions::default())?;
/// let small = cast.run(&weights.view())?;
/// assert_eq!(small.bytes(), Some(&[0x38, 0xaa, 0x7e, 0x7f][..]));
///
/// // The same cast into the caller's memory, without allocating:
/// let mut out = [0; 4];
/// cast.run_into(&weights.view(), &mut out)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    to: DataType,
    settings: Settings,
}

impl Cast {
    /// The operator with the target `to`.
    ///
    /// # Errors
    /// Fails if the opset has no Cast, or if its version does not support the type or an attribute that is set.
    #[inline(always)]
    pub fn new(to: DataType, options: &CastOptions) -> Result<Self, OpError> {
        let settings = Settings::new(Operator::Cast, options)?;
        settings.check_type(to)?;
        Ok(Cast { to, settings })
    }

    /// The operator of a node in a model that imports `opset` of ONNX's default domain. `to` is a STRING in Cast-1
    /// (`"FLOAT"`) and an INT from Cast-6 on.
    ///
    /// ```
    /// use onnx_cast::ops::{Attribute, AttributeValue};
    /// use onnx_cast::{Cast, CastOptions, DataType};
    ///
    /// let to = Attribute { name: "to", value: AttributeValue::Int(17) };
    /// let saturate = Attribute { name: "saturate", value: AttributeValue::Int(0) };
    /// let want = Cast::new(DataType::Float8E4M3FN, &CastOptions::new().opset(19).saturate(false));
    /// assert_eq!(Cast::from_node(19, &[to, saturate]), want);
    /// ```
    ///
    /// # Errors
    /// Fails if the opset has no Cast, if `to` is missing or not a type that the version supports, or if an attribute
    /// is unknown to the version, of the wrong kind, or given twice.
    pub fn from_node(opset: i64, attributes: &[Attribute<'_>]) -> Result<Self, OpError> {
        let operator = Operator::Cast;
        let version = operator.version_at(opset)?;
        let list = Attributes::new(operator, version, attributes)?;
        let missing = OpErrorKind::MissingTo { operator, version };
        let to = if version < 6 {
            let name = list.string("to")?.ok_or(missing)?;
            // The names of the enum TensorProto.DataType, in any case.
            let known = DataType::ALL.iter().copied().find(|data_type| data_type.name().eq_ignore_ascii_case(&name));
            known.ok_or(OpErrorKind::TypeName { name })?
        } else {
            let number = list.int("to")?.ok_or(missing)?;
            DataType::from_onnx(number).ok_or(OpErrorKind::TypeNumber { operator, number })?
        };
        let settings = Settings::from_attributes(operator, version, &list)?;
        settings.check_type(to)?;
        Ok(Cast { to, settings })
    }

    /// The same operator on another backend, which never changes a result; see [`CastOptions::backend`].
    #[must_use]
    pub fn backend(mut self, backend: impl Into<Option<Backend>>) -> Self {
        self.settings.backend = backend.into();
        self
    }

    /// The same operator on at most so many threads; see [`CastOptions::threads`].
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.settings.threads = threads.into();
        self
    }

    /// The target type.
    pub fn target_type(&self) -> DataType {
        self.to
    }

    /// The operator's version.
    pub fn version(&self) -> i64 {
        self.settings.version
    }

    /// The rules of the target, for [`crate::scalar::cast_one`].
    pub fn rules(&self) -> Rules {
        self.settings.rules(self.to)
    }

    /// Resolves the cast for inputs of one type; the plan can be run many times.
    ///
    /// # Errors
    /// Fails if the version does not support the input's type.
    #[inline(always)]
    pub fn plan(&self, from: DataType) -> Result<Plan, OpError> {
        self.settings.plan(from, self.to)
    }

    /// The type and shape of the output: the target type and the input's shape.
    ///
    /// ```
    /// use onnx_cast::ops::{Dim, ValueInfo};
    /// use onnx_cast::{Cast, CastOptions, DataType};
    ///
    /// let input = ValueInfo { data_type: DataType::Float, shape: Some(vec![Dim::Unknown, Dim::Known(4)]) };
    /// let output = Cast::new(DataType::BFloat16, &CastOptions::new())?.infer(&input)?;
    /// assert_eq!(output, ValueInfo { data_type: DataType::BFloat16, ..input });
    /// # Ok::<(), onnx_cast::ops::OpError>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the version does not support the input's type.
    pub fn infer(&self, input: &ValueInfo) -> Result<ValueInfo, OpError> {
        self.settings.check_type(input.data_type)?;
        Ok(ValueInfo { data_type: self.to, shape: input.shape.clone() })
    }

    /// Casts to a new tensor.
    ///
    /// # Errors
    /// Fails if the version does not support the input's type, if the result does not fit in memory, or if a string
    /// element is not a number of the target type.
    pub fn run(&self, input: &TensorView<'_>) -> Result<Tensor, CastError> {
        self.plan(input.data_type())?.run(input)
    }

    /// Casts to a new tensor. It reuses the input's memory where the bytes stay the same.
    ///
    /// ```
    /// use onnx_cast::{Cast, CastOptions, DataType, Tensor};
    ///
    /// let floats = Tensor::from_slice(vec![2], &[1.5f32, -2.0])?;
    /// let memory = floats.bytes().map(<[u8]>::as_ptr);
    /// let same = Cast::new(DataType::Float, &CastOptions::new())?.run_owned(floats)?;
    /// assert_eq!(same.bytes().map(<[u8]>::as_ptr), memory);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cast::run`].
    pub fn run_owned(&self, input: Tensor) -> Result<Tensor, CastError> {
        self.plan(input.data_type())?.run_owned(input)
    }

    /// Casts into `out`, which must have exactly the bytes of the result: [`DataType::byte_len`] of the target.
    ///
    /// # Errors
    /// As [`Cast::run`], and if `out` has another size or the target is string.
    pub fn run_into(&self, input: &TensorView<'_>, out: &mut [u8]) -> Result<(), CastError> {
        // SAFETY: a cast writes only initialised bytes.
        self.plan(input.data_type())?.run_into_uninit(input, unsafe { as_uninit(out) }).map(drop)
    }

    /// As [`Cast::run_into`], into memory that need not be initialised. Returns `out`, every byte of which is written.
    ///
    /// # Errors
    /// As [`Cast::run_into`].
    pub fn run_into_uninit<'o>(
        &self,
        input: &TensorView<'_>,
        out: &'o mut [MaybeUninit<u8>],
    ) -> Result<&'o mut [u8], CastError> {
        self.plan(input.data_type())?.run_into_uninit(input, out)
    }

    /// Casts to strings, which replace those in `out`.
    ///
    /// ```
    /// use onnx_cast::{Cast, CastOptions, DataType, TensorView};
    /// use onnx_cast::tensor::Strings;
    ///
    /// let cast = Cast::new(DataType::String, &CastOptions::new())?;
    /// let mut strings = Strings::new();
    /// cast.run_strings_into(&TensorView::from_slice(&[2], &[0.1f32, f32::INFINITY])?, &mut strings)?;
    /// assert_eq!(strings, ["0.1", "INF"].iter().collect());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Cast::run`], and if the target is not string.
    pub fn run_strings_into(&self, input: &TensorView<'_>, out: &mut Strings) -> Result<(), CastError> {
        self.plan(input.data_type())?.run_strings_into(input, out)
    }
}

/// Casts a slice of elements to another slice of the same length. Slices have one element per item, even of packed
/// types; [`cast_slice_packed`] writes ONNX's packed layout. The values are those of [`Cast`].
///
/// ```
/// use onnx_cast::{CastOptions, cast_slice};
/// use onnx_cast::types::{BFloat16, Int4};
///
/// let floats = [1.0f32, -2.0, 3.140625];
/// let mut halves = [BFloat16::default(); 3];
/// cast_slice(&floats, &mut halves, &CastOptions::new())?;
/// assert_eq!(halves.map(BFloat16::to_bits), [0x3f80, 0xc000, 0x4049]);
///
/// let mut nibbles = [Int4::default(); 3];
/// cast_slice(&floats, &mut nibbles, &CastOptions::new())?;
/// assert_eq!(nibbles.map(Int4::value), [1, -2, 3]);
/// # Ok::<(), onnx_cast::CastError>(())
/// ```
///
/// # Errors
/// Fails if the lengths differ, or if the opset's Cast does not support a type or an attribute.
pub fn cast_slice<S: Element, D: Element>(src: &[S], dst: &mut [D], options: &CastOptions) -> Result<(), CastError> {
    let plan = Cast::new(D::DATA_TYPE, options)?.plan(S::DATA_TYPE)?;
    if src.len() != dst.len() {
        let (elements, got) = (src.len(), dst.len());
        return Err(CastErrorKind::OutputLen { data_type: D::DATA_TYPE, elements, got, want: elements }.into());
    }
    if is_layout_of_tensors::<S>() && is_layout_of_tensors::<D>() {
        let shape = [src.len()];
        let view = TensorView::from_slice(&shape, src)?;
        // SAFETY: the plan writes valid elements of `D`, which is not packed; to bool it writes only 0 and 1.
        return plan.run_into(&view, unsafe { bytes_of_mut(dst) });
    }
    // Go through blocks in the layout of tensors.
    let (mut from, mut to) = ([0; 8 * BLOCK], [0; 8 * BLOCK]);
    for (src, dst) in src.chunks(BLOCK).zip(dst.chunks_mut(BLOCK)) {
        let shape = [src.len()];
        let (from, to) = (&mut from[..byte_len::<S>(src.len())], &mut to[..byte_len::<D>(dst.len())]);
        to_tensor_bytes(src, from);
        plan.run_into(&TensorView::new(S::DATA_TYPE, &shape, from)?, to)?;
        from_tensor_bytes(to, dst);
    }
    Ok(())
}

/// Elements of a block: a whole number of bytes of any type.
const BLOCK: usize = 256;

/// Casts a slice of elements to the bytes of a tensor of type `D`: little endian, and packed where the type is.
///
/// ```
/// use onnx_cast::{CastOptions, cast_slice_packed};
/// use onnx_cast::types::Int4;
///
/// let mut bytes = [0; 2];
/// cast_slice_packed::<f32, Int4>(&[1.0, -2.0, 3.2], &mut bytes, &CastOptions::new())?;
/// assert_eq!(bytes, [0xe1, 0x03]);
/// # Ok::<(), onnx_cast::CastError>(())
/// ```
///
/// # Errors
/// Fails if `bytes` does not have the length of the result ([`DataType::byte_len`]), or if the opset's Cast does not
/// support a type or an attribute.
pub fn cast_slice_packed<S: Element, D: Element>(
    src: &[S],
    bytes: &mut [u8],
    options: &CastOptions,
) -> Result<(), CastError> {
    let plan = Cast::new(D::DATA_TYPE, options)?.plan(S::DATA_TYPE)?;
    let shape = [src.len()];
    if is_layout_of_tensors::<S>() {
        return plan.run_into(&TensorView::from_slice(&shape, src)?, bytes);
    }
    let want = byte_len::<D>(src.len());
    if bytes.len() != want {
        let (data_type, elements, got) = (D::DATA_TYPE, src.len(), bytes.len());
        return Err(CastErrorKind::OutputLen { data_type, elements, got, want }.into());
    }
    let mut from = [0; 8 * BLOCK];
    for (src, to) in src.chunks(BLOCK).zip(bytes.chunks_mut(byte_len::<D>(BLOCK))) {
        let shape = [src.len()];
        let from = &mut from[..byte_len::<S>(src.len())];
        to_tensor_bytes(src, from);
        plan.run_into(&TensorView::new(S::DATA_TYPE, &shape, from)?, to)?;
    }
    Ok(())
}
