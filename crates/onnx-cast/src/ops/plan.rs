//! A cast resolved for two types: the function to call and its rules. A plan is made once and runs on any number of
//! tensors, without locks or allocation.

use super::execute::{Span, check_type, execute, new_tensor, run_copy, run_kernel};
use super::strings::{ParseFn, PrintFn, parser, printer};
use super::{CastError, CastErrorKind};
use crate::arch::Backend;
use crate::element::DataType;
use crate::error::Short;
use crate::kernel::{Context, Kernel, StoreHint};
use crate::packed::{Out, as_uninit, clear_padding, written};
use crate::scalar::{Rules, with_default_float_environment};
use crate::tensor::{Data, Strings, Tensor, TensorData, TensorErrorKind, TensorView};
use alloc::string::{String, ToString};
use core::mem::MaybeUninit;

/// A resolved cast. It is small and `Copy`.
///
/// ```
/// use onnx_cast::{Cast, CastOptions, DataType, TensorView};
///
/// let plan = Cast::new(DataType::Float8E4M3FN, &CastOptions::new())?.plan(DataType::Float)?;
/// let mut out = [0; 2];
/// for batch in [[1.0f32, 2.0], [-1.0, 448.5]] {
///     plan.run_into(&TensorView::from_slice(&[2], &batch)?, &mut out)?;
/// }
/// assert_eq!(out, [0xb8, 0x7e]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    from: DataType,
    to: DataType,
    run: Run,
    threads: Option<usize>,
    hint: Option<StoreHint>,
}

/// The function that a plan calls.
#[derive(Clone, Copy, Debug)]
enum Run {
    /// Bytes or strings are copied unchanged. The kernel copies bytes that exceed the caches.
    Copy(Kernel),
    Kernel(Kernel, Rules),
    Print(PrintFn),
    Parse(ParseFn, Rules),
}

impl Plan {
    /// The cast from `from` to `to`, neither of which is complex.
    #[inline(always)]
    pub(crate) fn cast(from: DataType, to: DataType, rules: Rules, backend: Backend, threads: Option<usize>) -> Plan {
        // A cast from bool to bool is not a copy: bytes other than 0 and 1 become 1.
        let run = if from == to && from != DataType::Bool {
            Run::Copy(backend.table().copy())
        } else if let Some(kernel) = backend.table().cast(from, to) {
            Run::Kernel(kernel, rules)
        } else if let Some(print) = printer(from) {
            Run::Print(print)
        } else if let Some(parse) = parser(to) {
            Run::Parse(parse, rules)
        } else {
            Run::Copy(backend.table().copy())
        };
        Plan { from, to, run, threads, hint: None }
    }

    /// The reinterpretation of bytes; the types have the same width, and neither is string.
    pub(super) fn bit_cast(from: DataType, to: DataType, backend: Backend, threads: Option<usize>) -> Plan {
        Plan { from, to, run: Run::Copy(backend.table().copy()), threads, hint: None }
    }

    /// The same plan on at most so many threads; see [`CastOptions::threads`](crate::CastOptions::threads).
    #[must_use]
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// The same plan with stores of the caller's choice. By default the size of a tensor decides: results that exceed
    /// the caches are stored past them. A caller who reads the result at once may want it in the caches all the same.
    /// The hint never changes a result, and backends without such stores ignore it.
    ///
    /// ```
    /// use onnx_cast::{Cast, CastOptions, DataType, TensorView};
    /// use onnx_cast::backend::StoreHint;
    ///
    /// let plan = Cast::new(DataType::Int8, &CastOptions::new())?.plan(DataType::Float)?;
    /// let mut out = [0; 2];
    /// plan.store_hint(StoreHint::NonTemporal).run_into(&TensorView::from_slice(&[2], &[1.5f32, -7.0])?, &mut out)?;
    /// assert_eq!(out, [0x01, 0xf9]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn store_hint(mut self, hint: StoreHint) -> Plan {
        self.hint = Some(hint);
        self
    }

    /// The type of the input.
    #[inline]
    pub fn source_type(&self) -> DataType {
        self.from
    }

    /// The type of the result.
    #[inline]
    pub fn target_type(&self) -> DataType {
        self.to
    }

    /// Casts a tensor into `out`, which must have exactly the bytes of the result. Only errors allocate, for their
    /// text.
    ///
    /// # Errors
    /// Fails if the input's type is not [`Plan::source_type`], if `out` has another size, if the target is string, or
    /// if a string element is not a number (the bytes of `out` are then unspecified).
    #[inline]
    pub fn run_into(&self, input: &TensorView<'_>, out: &mut [u8]) -> Result<(), CastError> {
        // SAFETY: a cast writes only initialised bytes.
        self.run_into_uninit(input, unsafe { as_uninit(out) }).map(drop)
    }

    /// As [`Plan::run_into`], into memory that need not be initialised. Returns `out`, every byte of which is written.
    ///
    /// ```
    /// use onnx_cast::{Cast, CastOptions, DataType, TensorView};
    ///
    /// let plan = Cast::new(DataType::Uint8, &CastOptions::new())?.plan(DataType::Float)?;
    /// let mut memory = Vec::with_capacity(3);
    /// let out = &mut memory.spare_capacity_mut()[..3];
    /// assert_eq!(plan.run_into_uninit(&TensorView::from_slice(&[3], &[1.0f32, 2.9, 300.0])?, out)?, [1, 2, 255]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Plan::run_into`].
    #[inline]
    pub fn run_into_uninit<'o>(
        &self,
        input: &TensorView<'_>,
        out: &'o mut [MaybeUninit<u8>],
    ) -> Result<&'o mut [u8], CastError> {
        self.check_input(input)?;
        let len = input.len();
        if self.to.byte_len(len) != Some(out.len()) {
            return Err(self.output_error(input, out.len()));
        }
        match (&self.run, input.data()) {
            (Run::Kernel(..) | Run::Copy(_), Data::Bytes(src)) => Ok(self.cast_bytes(src, len, out)),
            (Run::Parse(parse, rules), Data::Strings(strings)) => {
                // Packed elements are combined by OR, so their bytes must be zero. Compared with parsing, zeroing costs
                // nothing for other types.
                out.fill(MaybeUninit::new(0));
                // SAFETY: the line above wrote every byte.
                let out = unsafe { written(out) };
                let parsed = with_default_float_environment(|| parse(strings, out, rules));
                parsed.map(|()| out).map_err(|(index, source)| {
                    let text = String::from_utf8_lossy(strings.get(index).unwrap_or_default());
                    // The error shows the text between quotes.
                    let text = Short(&text).to_string().replace('"', "\\\"");
                    CastErrorKind::Text { index, text, to: self.to, source }.into()
                })
            }
            _ => Err(CastErrorKind::OutputKind { data_type: self.to }.into()),
        }
    }

    /// As [`Plan::run_into`], for callers that have counted the bytes: checked again, they took a tenth of a call for
    /// 16 elements.
    ///
    /// # Safety
    /// Neither type is string, and `src` and `out` have the bytes of `len` elements.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn run_counted(&self, src: &[u8], len: usize, out: &mut [MaybeUninit<u8>]) {
        debug_assert_eq!(self.from.byte_len(len), Some(src.len()));
        debug_assert_eq!(self.to.byte_len(len), Some(out.len()));
        self.cast_bytes(src, len, out);
    }

    /// Casts or copies numbers. Source and target have the bytes of `len` elements, and none of the types is string.
    #[inline(always)]
    fn cast_bytes<'o>(&self, src: &[u8], len: usize, out: &'o mut Out) -> &'o mut [u8] {
        let bits = [self.from.info().bits as usize, self.to.info().bits as usize];
        let span = Span { src, dst: &mut *out, len };
        match &self.run {
            Run::Kernel(kernel, rules) => {
                execute(span, bits, self.threads, |span, hint| {
                    let hint = self.hint.unwrap_or(hint);
                    let context = Context { from: self.from, to: self.to, rules: *rules, hint };
                    // SAFETY: a plan has the kernel of its types, and the span the bytes of its elements.
                    unsafe { run_kernel(*kernel, &context, span) };
                });
                // SAFETY: a kernel writes every byte of each span, and the spans make up `out`.
                unsafe { written(out) }
            }
            Run::Copy(copy) => {
                execute(span, bits, self.threads, |span, hint| {
                    // SAFETY: a plan's copy is a table's, and goes between types of one width.
                    unsafe { run_copy(*copy, span, self.hint.unwrap_or(hint)) };
                });
                // SAFETY: a copy writes every byte of each span, and the spans make up `out`.
                let out = unsafe { written(out) };
                clear_padding(self.to, len, out);
                out
            }
            Run::Print(_) | Run::Parse(..) => unreachable!("the callers have numbers"),
        }
    }

    /// Casts a tensor to strings, which replace those in `out`.
    ///
    /// ```
    /// use onnx_cast::{Cast, CastOptions, DataType, TensorView};
    /// use onnx_cast::tensor::Strings;
    ///
    /// let plan = Cast::new(DataType::String, &CastOptions::new())?.plan(DataType::Int8)?;
    /// let mut strings = Strings::new();
    /// plan.run_strings_into(&TensorView::from_slice(&[2], &[7i8, -1])?, &mut strings)?;
    /// assert_eq!(strings, ["7", "-1"].iter().collect());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if the input's type is not [`Plan::source_type`], if the target is not string, or if the strings do not
    /// fit in memory; then `out` is empty.
    pub fn run_strings_into(&self, input: &TensorView<'_>, out: &mut Strings) -> Result<(), CastError> {
        self.check_input(input)?;
        match (self.run, input.data()) {
            (Run::Print(print), Data::Bytes(bytes)) => {
                out.clear();
                let printed = with_default_float_environment(|| print(bytes, input.len(), out));
                printed.map_err(|_| {
                    out.clear();
                    TensorErrorKind::TooLarge { data_type: self.to, shape: input.shape().to_vec() }.into()
                })
            }
            (Run::Copy(_), Data::Strings(strings)) => {
                out.clear();
                let copied = strings.iter().try_for_each(|string| out.try_push(string));
                Ok(copied.inspect_err(|_| out.clear())?)
            }
            _ => Err(CastErrorKind::OutputKind { data_type: self.to }.into()),
        }
    }

    /// Casts a tensor to a new one of the same shape.
    ///
    /// # Errors
    /// Fails if the input's type is not [`Plan::source_type`], if the result does not fit in memory, or if a string
    /// element is not a number.
    pub fn run(&self, input: &TensorView<'_>) -> Result<Tensor, CastError> {
        if self.to == DataType::String {
            let mut strings = Strings::try_with_capacity(input.len(), 0)?;
            self.run_strings_into(input, &mut strings)?;
            return Ok(Tensor::strings(input.shape().to_vec(), strings)?);
        }
        new_tensor(self.to, input.shape(), |out| self.run_into_uninit(input, out).map(drop))
    }

    /// As [`Plan::run`], but reuses the input's memory where the bytes stay the same.
    ///
    /// ```
    /// use onnx_cast::{Cast, CastOptions, DataType, Tensor};
    ///
    /// let plan = Cast::new(DataType::Uint8, &CastOptions::new())?.plan(DataType::Uint8)?;
    /// let bytes = Tensor::from_slice(vec![3], &[1u8, 2, 3])?;
    /// let memory = bytes.bytes().map(<[u8]>::as_ptr);
    /// assert_eq!(plan.run_owned(bytes)?.bytes().map(<[u8]>::as_ptr), memory);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Plan::run`].
    pub fn run_owned(&self, input: Tensor) -> Result<Tensor, CastError> {
        self.check_input(&input.view())?;
        let Run::Copy(_) = self.run else { return self.run(&input.view()) };
        let len = input.len();
        match input.into_parts() {
            (_, shape, TensorData::Bytes(mut bytes)) => {
                clear_padding(self.to, len, &mut bytes);
                Ok(Tensor::new(self.to, shape, bytes)?)
            }
            (_, shape, TensorData::Strings(strings)) => Ok(Tensor::strings(shape, strings)?),
        }
    }

    /// The error for an output of `got` bytes, where the result has another size.
    #[cold]
    fn output_error(&self, input: &TensorView<'_>, got: usize) -> CastError {
        let (data_type, elements) = (self.to, input.len());
        match data_type.byte_len(elements) {
            Some(want) => CastErrorKind::OutputLen { data_type, elements, got, want }.into(),
            None if data_type == DataType::String => CastErrorKind::OutputKind { data_type }.into(),
            None => TensorErrorKind::TooLarge { data_type, shape: input.shape().to_vec() }.into(),
        }
    }

    #[inline(always)]
    fn check_input(&self, input: &TensorView<'_>) -> Result<(), CastError> {
        check_type(input, self.from)
    }
}
