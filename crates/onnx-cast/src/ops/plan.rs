//! A cast resolved for two types: the function to call and its rules. A plan is made once and runs on any number of
//! tensors, without locks or allocation.

use super::buffers::{check_type, new_tensor};
use super::strings::{ParseFn, PrintFn, parser, printer};
use super::{CastError, CastErrorKind};
use crate::arch::Backend;
use crate::element::DataType;
use crate::error::Short;
use crate::kernel::{Context, Kernel, StoreHint, Task};
use crate::packed::{as_uninit, clear_padding, written};
use crate::parts::{Elements, in_parts, parts_for};
use crate::scalar::float_environment::DefaultEnvironment;
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
    context: Context,
    run: Run,
    threads: Option<usize>,
    hint: Option<StoreHint>,
}

/// The function that a plan calls.
#[derive(Clone, Copy, Debug)]
enum Run {
    /// Bytes or strings are copied unchanged. The kernel copies bytes.
    Copy(Kernel),
    Kernel(Kernel),
    Print(PrintFn),
    Parse(ParseFn),
}

impl Plan {
    /// The cast from `from` to `to`, neither of which is complex.
    #[inline(always)]
    pub(crate) fn cast(from: DataType, to: DataType, rules: Rules, backend: Backend, threads: Option<usize>) -> Plan {
        // A cast from bool to bool is not a copy: bytes other than 0 and 1 become 1.
        let run = if from == to && from != DataType::Bool {
            Run::Copy(backend.table().copy())
        } else if let Some(kernel) = backend.table().cast(from, to) {
            Run::Kernel(kernel)
        } else if let Some(print) = printer(from) {
            Run::Print(print)
        } else if let Some(parse) = parser(to) {
            Run::Parse(parse)
        } else {
            Run::Copy(backend.table().copy())
        };
        Plan { context: Context { from, to, rules }, run, threads, hint: None }
    }

    /// The reinterpretation of bytes; the types have the same width, and neither is string.
    pub(super) fn bit_cast(from: DataType, to: DataType, backend: Backend, threads: Option<usize>) -> Plan {
        let run = Run::Copy(backend.table().copy());
        Plan { context: Context::plain(from, to), run, threads, hint: None }
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
        self.context.from
    }

    /// The type of the result.
    #[inline]
    pub fn target_type(&self) -> DataType {
        self.context.to
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
        if self.context.to.byte_len(len) != Some(out.len()) {
            return Err(self.output_error(input, out.len()));
        }
        match (self.run, input.data()) {
            // SAFETY: source and target have the bytes of `len` elements, as a tensor and the check above have it.
            (Run::Kernel(_) | Run::Copy(_), Data::Bytes(src)) => Ok(unsafe { self.run_counted(src, len, out) }),
            (Run::Parse(parse), Data::Strings(strings)) => {
                // Packed elements are combined by OR, so their bytes must be zero. Compared with parsing, zeroing costs
                // nothing for other types.
                out.fill(MaybeUninit::new(0));
                // SAFETY: the line above wrote every byte.
                let out = unsafe { written(out) };
                let parsed = with_default_float_environment(|| parse(strings, out, &self.context.rules));
                parsed.map(|()| out).map_err(|(index, source)| {
                    let text = String::from_utf8_lossy(strings.get(index).unwrap_or_default());
                    // The error shows the text between quotes.
                    let text = Short(&text).to_string().replace('"', "\\\"");
                    CastErrorKind::Text { index, text, to: self.context.to, source }.into()
                })
            }
            _ => Err(CastErrorKind::OutputKind { data_type: self.context.to }.into()),
        }
    }

    /// As [`Plan::run_into_uninit`], for callers that have counted the bytes: checked again, they took a tenth of a
    /// call for 16 elements.
    ///
    /// # Safety
    /// Neither type is string, and `src` and `out` have the bytes of `len` elements.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn run_counted<'o>(&self, src: &[u8], len: usize, out: &'o mut [MaybeUninit<u8>]) -> &'o mut [u8] {
        let types = [self.context.from, self.context.to];
        debug_assert_eq!([src.len(), out.len()].map(Some), types.map(|data_type| data_type.byte_len(len)));
        let mut task = Task::new(src, out, len);
        task.hint = self.hint.unwrap_or(task.hint);
        execute(&task, types, self.threads, |_, task| {
            // SAFETY: a `Backend` exists only if this machine can run it, its table has this kernel for the plan's
            // types, and the caller promises that source and target have the bytes of the elements.
            unsafe {
                match self.run {
                    // A kernel would take half as long again for a few elements.
                    Run::Copy(_) if task.hint == StoreHint::Temporal => task.copy(self.context.to),
                    Run::Copy(kernel) | Run::Kernel(kernel) => {
                        let _environment = DefaultEnvironment::enter();
                        kernel(task, &self.context);
                    }
                    Run::Print(_) | Run::Parse(_) => unreachable!("neither type is string"),
                }
            }
        });
        // SAFETY: a kernel writes every byte of its task, and the tasks make up `out`.
        unsafe { written(out) }
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
                    TensorErrorKind::TooLarge { data_type: self.context.to, shape: input.shape().to_vec() }.into()
                })
            }
            (Run::Copy(_), Data::Strings(strings)) => {
                out.clear();
                let copied = strings.iter().try_for_each(|string| out.try_push(string));
                Ok(copied.inspect_err(|_| out.clear())?)
            }
            _ => Err(CastErrorKind::OutputKind { data_type: self.context.to }.into()),
        }
    }

    /// Casts a tensor to a new one of the same shape.
    ///
    /// # Errors
    /// Fails if the input's type is not [`Plan::source_type`], if the result does not fit in memory, or if a string
    /// element is not a number.
    pub fn run(&self, input: &TensorView<'_>) -> Result<Tensor, CastError> {
        if self.context.to == DataType::String {
            let mut strings = Strings::try_with_capacity(input.len(), 0)?;
            self.run_strings_into(input, &mut strings)?;
            return Ok(Tensor::strings(input.shape().to_vec(), strings)?);
        }
        new_tensor(self.context.to, input.shape(), |out| self.run_into_uninit(input, out).map(drop))
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
                clear_padding(self.context.to, len, &mut bytes);
                Ok(Tensor::new(self.context.to, shape, bytes)?)
            }
            (_, shape, TensorData::Strings(strings)) => Ok(Tensor::strings(shape, strings)?),
        }
    }

    /// The error for an output of `got` bytes, where the result has another size.
    #[cold]
    fn output_error(&self, input: &TensorView<'_>, got: usize) -> CastError {
        let (data_type, elements) = (self.context.to, input.len());
        match data_type.byte_len(elements) {
            Some(want) => CastErrorKind::OutputLen { data_type, elements, got, want }.into(),
            None if data_type == DataType::String => CastErrorKind::OutputKind { data_type }.into(),
            None => TensorErrorKind::TooLarge { data_type, shape: input.shape().to_vec() }.into(),
        }
    }

    #[inline(always)]
    fn check_input(&self, input: &TensorView<'_>) -> Result<(), CastError> {
        check_type(input, self.context.from)
    }
}

/// Calls `run` for tasks that together make up `task`, with the index of the first element of each, on at most
/// `threads` threads. It is always inlined, so that a small cast does not store its task for a call.
#[inline(always)]
pub(super) fn execute(
    task: &Task<'_>,
    types: [DataType; 2],
    threads: Option<usize>,
    run: impl Fn(usize, &Task<'_>) + Sync,
) {
    let parts = parts_for(task.src.len().saturating_add(task.dst.len()), threads);
    if parts <= 1 {
        return run(0, task);
    }
    let run = |Elements(part): Elements| run(part.start, &task.part(part, types));
    in_parts(Elements(0..task.len), parts, &run, &|(), ()| ());
}
