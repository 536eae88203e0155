//! Runs groups: tensors from onnxruntime's memory to its memory, large ones on the threads of the session.

use super::abi::ComputeInfo;
use super::group::{Compiled, Group, Step};
use super::host::Host;
use crate::abi::{KernelContext, StatusPointer, Value};
use crate::api::Failure;
use crate::tensors::sizes;
use onnx_cast::__private::Count;
use onnx_cast::scaled::{DynamicQuantizeLinear, ScaledPlan};
use onnx_cast::tensor::Strings;
use onnx_cast::{CastError, DataType, Plan, TensorView};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Mutex;

/// Bytes read and written for which a thread is worth waking: the same as in the library.
const PART_BYTES: usize = 1 << 20;

/// Parts begin at multiples of this many elements: a whole number of bytes and of cache lines of every type.
const GRAIN: usize = 1024;

/// Elements that pass through a chain of Casts at a time. Two blocks of the widest type fit in the nearest caches.
const BLOCK: usize = 4096;

/// Bytes of the widest element in a chain.
const WIDEST: usize = 8;

/// One run of a group.
#[derive(Clone, Copy)]
struct Run {
    host: Host,
    context: *mut KernelContext,
}

/// An input.
struct Input {
    value: *const Value,
    data_type: DataType,
    shape: Vec<usize>,
}

/// The memory of a tensor, which parts of a run write at different places.
#[derive(Clone, Copy)]
struct Output {
    start: *mut u8,
    data_type: DataType,
}

// SAFETY: the places that threads write do not overlap, and the memory lives during the run.
unsafe impl Sync for Output {}

impl Output {
    /// The bytes of some elements.
    ///
    /// # Safety
    /// The tensor has the elements, the first of which is a multiple of [`GRAIN`]; nothing else accesses them during
    /// `'a`.
    unsafe fn part<'a>(&self, elements: &Range<usize>) -> &'a mut [MaybeUninit<u8>] {
        let Range { start, end } = bytes_of(self.data_type, elements);
        if start == end {
            return &mut [];
        }
        // SAFETY: promised.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start).cast(), end - start) }
    }

    /// The bytes of some elements, after they were written.
    ///
    /// # Safety
    /// As [`Output::part`], and every byte is written.
    unsafe fn written<'a>(&self, elements: &Range<usize>) -> &'a [u8] {
        let Range { start, end } = bytes_of(self.data_type, elements);
        if start == end {
            return &[];
        }
        // SAFETY: the caller guarantees these bytes, that they are written, and that nothing writes them during `'a`.
        unsafe { std::slice::from_raw_parts(self.start.add(start), end - start) }
    }
}

/// The bytes of elements of a tensor, which fit in memory.
fn bytes_of(data_type: DataType, elements: &Range<usize>) -> Range<usize> {
    let bytes = |count| data_type.byte_len(count).unwrap_or(0);
    bytes(elements.start)..bytes(elements.end)
}

/// Runs a group.
pub(crate) unsafe extern "system" fn compute(
    functions: *mut ComputeInfo,
    _: *mut c_void,
    context: *mut KernelContext,
) -> StatusPointer {
    // SAFETY: onnxruntime's promise: the group is one that was compiled for it, which several threads may run.
    let compiled = unsafe { &*functions.cast_const().cast::<Compiled>() };
    let run = Run { host: compiled.host, context };
    // SAFETY: onnxruntime's promise: the context is that of the group.
    compiled.host.status(|| unsafe { run.group(&compiled.group) })
}

impl Run {
    /// # Safety
    /// The context is onnxruntime's, of a run of this group.
    unsafe fn group(self, group: &Group) -> Result<(), Failure> {
        // SAFETY: promised.
        unsafe {
            match group {
                Group::Casts { input, steps } => self.casts(*input, steps),
                Group::Scaled { plan, x, scale, zero_point, y } => {
                    let (x, scale) = (self.input(*x)?, self.input(*scale)?);
                    let zero_point = zero_point.map(|index| self.input(index)).transpose()?;
                    let (scale, zero_point) = (self.view(&scale)?, zero_point.as_ref().map(|one| self.view(one)));
                    self.scaled(plan, &self.view(&x)?, &scale, zero_point.transpose()?.as_ref(), *y)
                }
                Group::Dynamic { operator, plan, x, outputs } => self.dynamic(operator, plan, *x, outputs),
            }
        }
    }

    /// # Safety
    /// As [`Run::group`].
    unsafe fn casts(self, input: usize, steps: &[Step]) -> Result<(), Failure> {
        // SAFETY: promised.
        unsafe {
            let input = self.input(input)?;
            match steps {
                [] => Ok(()),
                [Step { plan, output }] if is_of_strings(plan) => self.strings(plan, &input, *output),
                [Step { plan, output: Some(output) }] => {
                    let x = self.view(&input)?;
                    let y = self.output(*output, plan.target_type(), x.shape())?;
                    self.elements(&x, plan.target_type(), |elements, bytes| {
                        // SAFETY: `elements` gives every element to one call.
                        cast(plan, bytes, elements.len(), y.part(&elements))
                    })
                }
                steps => self.chain(&self.view(&input)?, steps),
            }
        }
    }

    /// Several Casts in one pass: each block of elements goes through all of them before the next one is read.
    ///
    /// # Safety
    /// As [`Run::group`].
    unsafe fn chain(self, x: &TensorView<'_>, steps: &[Step]) -> Result<(), Failure> {
        let mut links = Vec::with_capacity(steps.len());
        for Step { plan, output } in steps {
            // SAFETY: promised.
            let output = output.map(|index| unsafe { self.output(index, plan.target_type(), x.shape()) });
            links.push(Link { plan: *plan, output: output.transpose()? });
        }
        let to = steps.last().map_or(x.data_type(), |step| step.plan.target_type());
        let run = |elements: Range<usize>, bytes: &[u8]| {
            let mut scratch = [(); 2].map(|()| vec![0u8; WIDEST * elements.len().min(BLOCK)]);
            for start in elements.clone().step_by(BLOCK) {
                let block = start..elements.end.min(start + BLOCK);
                let first = bytes_of(x.data_type(), &(start - elements.start..block.end - elements.start));
                // SAFETY: `elements` gives every element to one call.
                unsafe { run_links(&links, &bytes[first], &block, &mut scratch) }?;
            }
            Ok(())
        };
        // SAFETY: promised.
        unsafe { self.elements(x, to, run) }
    }

    /// Runs a part of the elements at a time: all at once, or on the threads of the session where there are many.
    /// `run` gets the numbers of the elements, and their bytes in the input.
    ///
    /// # Safety
    /// As [`Run::group`].
    unsafe fn elements(
        self,
        x: &TensorView<'_>,
        to: DataType,
        run: impl Fn(Range<usize>, &[u8]) -> Result<(), CastError> + Sync,
    ) -> Result<(), Failure> {
        let (len, bytes) = (x.len(), x.bytes().unwrap_or_default());
        let touched = bytes.len().saturating_add(to.byte_len(len).unwrap_or(0));
        if touched < 2 * PART_BYTES {
            return Ok(run(0..len, bytes)?);
        }
        let size = len.div_ceil(touched / PART_BYTES).next_multiple_of(GRAIN);
        let part = |index: usize| {
            let elements = index * size..len.min((index + 1) * size);
            let bytes = &bytes[bytes_of(x.data_type(), &elements)];
            run(elements, bytes)
        };
        // SAFETY: promised.
        unsafe { self.parallel(len.div_ceil(size), &part) }
    }

    /// Calls a function with each number below `count`, on the threads of the session.
    ///
    /// # Safety
    /// As [`Run::group`].
    unsafe fn parallel(
        self,
        count: usize,
        part: &(dyn Fn(usize) -> Result<(), CastError> + Sync),
    ) -> Result<(), Failure> {
        let job = Job { part, failure: Mutex::new(None) };
        let data = ptr::from_ref(&job).cast_mut().cast();
        // SAFETY: promised. The job outlives the call, which returns when all parts are done.
        let status = unsafe { self.host.graphs.KernelContext_ParallelFor(self.context, run_part, count, 0, data) };
        self.host.api.check(status)?;
        job.failure.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).map_or(Ok(()), Err)
    }

    /// A cast from or to strings.
    ///
    /// # Safety
    /// As [`Run::group`].
    unsafe fn strings(self, plan: &Plan, input: &Input, output: Option<usize>) -> Result<(), Failure> {
        let Some(output) = output else { return Ok(()) };
        let (api, shape, to) = (self.host.api, input.shape.as_slice(), plan.target_type());
        // SAFETY: promised.
        unsafe {
            let mut texts = Strings::new();
            if input.data_type == DataType::String {
                texts = api.strings(input.value, shape)?;
                if to != DataType::String {
                    let out = self.output(output, to, shape)?.part(&(0..texts.view().len()));
                    plan.run_into_uninit(&TensorView::strings(shape, texts.view())?, out)?;
                    return Ok(());
                }
            } else {
                plan.run_strings_into(&self.view(input)?, &mut texts)?;
            }
            api.fill(self.value(output, shape)?, &texts)
        }
    }

    /// # Safety
    /// As [`Run::group`].
    unsafe fn scaled(
        self,
        plan: &ScaledPlan,
        x: &TensorView<'_>,
        scale: &TensorView<'_>,
        zero_point: Option<&TensorView<'_>>,
        y: Option<usize>,
    ) -> Result<(), Failure> {
        let Some(y) = y else { return Ok(()) };
        let bound = plan.bind(x.shape(), scale, zero_point)?;
        // SAFETY: promised; `elements` gives every element to one call.
        unsafe {
            let y = self.output(y, plan.target_type(), x.shape())?;
            self.elements(x, plan.target_type(), |elements, bytes| {
                bound.run_part_uninit(elements.start, elements.len(), bytes, y.part(&elements)).map(drop)
            })
        }
    }

    /// # Safety
    /// As [`Run::group`].
    unsafe fn dynamic(
        self,
        operator: &DynamicQuantizeLinear,
        plan: &ScaledPlan,
        x: usize,
        outputs: &[Option<usize>; 3],
    ) -> Result<(), Failure> {
        // SAFETY: promised; a scale and a zero point are one element each, of these types.
        unsafe {
            let x = self.input(x)?;
            let x = self.view(&x)?;
            let (scale, zero_point) = operator.scale(&x)?;
            let [y, scale_output, zero_output] = *outputs;
            if let Some(index) = scale_output {
                self.output(index, DataType::Float, &[])?.start.cast::<[u8; 4]>().write(scale.to_ne_bytes());
            }
            if let Some(index) = zero_output {
                self.output(index, DataType::Uint8, &[])?.start.write(zero_point);
            }
            let (scales, zero_points) = ([scale], [zero_point]);
            let scale = TensorView::from_slice(&[], &scales)?;
            self.scaled(plan, &x, &scale, Some(&TensorView::from_slice(&[], &zero_points)?), y)
        }
    }

    /// # Safety
    /// As [`Run::group`].
    unsafe fn input(self, index: usize) -> Result<Input, Failure> {
        let mut value = ptr::null();
        // SAFETY: promised.
        unsafe {
            self.host.api.check(self.host.api.KernelContext_GetInput(self.context, index, &mut value))?;
            if value.is_null() {
                return Err(Failure::run(format_args!("input {index} of a group is missing")));
            }
            let (data_type, dims) = self.host.api.of_value(value)?;
            Ok(Input { value, data_type, shape: sizes(&dims)? })
        }
    }

    /// # Safety
    /// As [`Run::group`].
    unsafe fn view<'a>(self, input: &'a Input) -> Result<TensorView<'a>, Failure> {
        // SAFETY: promised: inputs live, and are not written, during the run.
        unsafe { self.host.api.view(input.value, input.data_type, &input.shape) }
    }

    /// An output, of a shape.
    ///
    /// # Safety
    /// As [`Run::group`].
    unsafe fn value(self, index: usize, shape: &[usize]) -> Result<*mut Value, Failure> {
        let dims: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        let mut value = ptr::null_mut();
        let api = self.host.api;
        // SAFETY: promised.
        api.check(unsafe { api.KernelContext_GetOutput(self.context, index, dims.as_ptr(), dims.len(), &mut value) })?;
        Ok(value)
    }

    /// The memory of an output, whose size onnxruntime confirms.
    ///
    /// # Safety
    /// As [`Run::group`].
    unsafe fn output(self, index: usize, data_type: DataType, shape: &[usize]) -> Result<Output, Failure> {
        let mut size = 0;
        // SAFETY: promised.
        unsafe {
            let value = self.value(index, shape)?;
            let want = self.host.api.bytes(value, data_type, shape)?;
            self.host.api.check(self.host.graphs.GetTensorSizeInBytes(value, &mut size))?;
            if size != want.len() {
                let (got, want) = (Count(size, "byte"), want.len());
                return Err(Failure::run(format_args!("an output of {got} for {want} of {data_type}")));
            }
            Ok(Output { start: want.as_mut_ptr().cast(), data_type })
        }
    }
}

fn is_of_strings(plan: &Plan) -> bool {
    [plan.source_type(), plan.target_type()].contains(&DataType::String)
}

/// One Cast of a chain, with the memory of its result where the group gives it out.
struct Link {
    plan: Plan,
    output: Option<Output>,
}

/// Takes a block of elements through a chain. Results that are not given out alternate between two buffers.
///
/// # Safety
/// As [`Output::part`], for every output.
unsafe fn run_links(
    links: &[Link],
    first: &[u8],
    block: &Range<usize>,
    scratch: &mut [Vec<u8>; 2],
) -> Result<(), CastError> {
    let mut before: Option<&Output> = None;
    for (index, link) in links.iter().enumerate() {
        let [even, odd] = scratch.each_mut();
        let (read, written) = if index % 2 == 0 { (odd, even) } else { (even, odd) };
        let len = link.plan.source_type().byte_len(block.len()).unwrap_or(0);
        let from = match before {
            // SAFETY: promised; the step before wrote every byte of the block.
            Some(output) => unsafe { output.written(block) },
            None if index == 0 => first,
            None => &read[..len],
        };
        let shape = [block.len()];
        let from = TensorView::new(link.plan.source_type(), &shape, from)?;
        match &link.output {
            // SAFETY: promised.
            Some(output) => drop(link.plan.run_into_uninit(&from, unsafe { output.part(block) })?),
            None => {
                let len = link.plan.target_type().byte_len(block.len()).unwrap_or(0);
                link.plan.run_into(&from, &mut written[..len])?;
            }
        }
        before = link.output.as_ref();
    }
    Ok(())
}

/// Casts the bytes of elements.
fn cast(plan: &Plan, bytes: &[u8], len: usize, out: &mut [MaybeUninit<u8>]) -> Result<(), CastError> {
    plan.run_into_uninit(&TensorView::new(plan.source_type(), &[len], bytes)?, out).map(drop)
}

/// Parts of a run, for the threads of the session.
struct Job<'a> {
    part: &'a (dyn Fn(usize) -> Result<(), CastError> + Sync),
    failure: Mutex<Option<Failure>>,
}

unsafe extern "system" fn run_part(data: *mut c_void, index: usize) {
    // SAFETY: `parallel` gives a job that outlives the call, and that all threads may use.
    let job = unsafe { &*data.cast_const().cast::<Job<'_>>() };
    let failure = match catch_unwind(AssertUnwindSafe(|| (job.part)(index))) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => Failure::from(error),
        Err(_) => Failure::run("a bug in onnx-cast, in a part of a tensor"),
    };
    job.failure.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert(failure);
}
