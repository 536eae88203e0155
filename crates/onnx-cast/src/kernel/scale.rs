//! Scaled casts: blocks of elements are widened to `f32` in the nearest cache, scaled there, and narrowed.
//!
//! Widening and narrowing are the steps of Cast ([`Isa::step`]), which a kernel for each pair of types has inlined. The
//! scales are applied by loops in plain Rust, which each instruction set compiles once with its features, and the
//! compiler vectorises.

pub(crate) mod loops;

use super::{Context, Isa, Kernel, StoreHint};
use crate::element::{Class, DataType, byte_len_of, class};
use crate::packed::clear_padding;
use crate::scalar::scaled::Precision;
use crate::scalar::{Narrow, Widen};
use core::mem::MaybeUninit;
use core::{ptr, slice};

/// Elements that are applied their scales at a time: they stay in the nearest cache.
const BLOCK: usize = 512;

/// Elements that the loops take at a time. They have one scale, or each their own.
pub(crate) const CHUNK: usize = 16;

/// Bytes of the longest step of any backend, of 64 elements of 32 bits.
const MOST_STEP_BYTES: usize = 4 * 64;

/// Floats, little endian.
pub(crate) type Floats = [[u8; 4]];

/// How scales are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Products with finite factors.
    Multiply,
    /// Products with any factors.
    MultiplyAny,
    /// Quotients by way of reciprocals, which are the factors.
    Reciprocal,
    /// Quotients by any divisors.
    Divide,
}

/// The scales of some elements, and their zero points.
#[derive(Clone, Copy)]
pub(crate) struct Scales<'a> {
    /// Elements that have one scale: 1, a multiple of [`CHUNK`], or [`usize::MAX`] where all have the same. Where it is
    /// 1, there are scales beside the padding of a last chunk.
    pub(crate) run: usize,
    /// Elements of the first run, a multiple of [`CHUNK`] if there is another.
    pub(crate) first: usize,
    /// For each run what elements are multiplied with.
    pub(crate) factors: &'a Floats,
    /// What they are divided by; read where they are.
    pub(crate) divisors: &'a Floats,
    /// `None` where there is nothing to add or to subtract.
    pub(crate) zero_points: Option<&'a Floats>,
}

/// What a scaled cast is told.
pub(crate) struct Stage<'a> {
    pub(crate) context: Context,
    pub(crate) scales: Scales<'a>,
    pub(crate) method: Method,
    /// What quotients are rounded to.
    pub(crate) precision: Precision,
    /// The lowest and the highest result, where that is an integer.
    pub(crate) range: [f32; 2],
}

/// Casts `len` elements, packed, and zeroes the padding of `dst`.
///
/// # Safety
/// The processor has the instructions that the kernel's backend is compiled for, `src` and `dst` have the byte lengths
/// of `len` elements of the context's types, and the table has this kernel for them.
pub(crate) type ScaledKernel = unsafe fn(src: &[u8], dst: &mut [u8], len: usize, stage: &Stage<'_>);

/// What is compiled once for each instruction set.
#[derive(Clone, Copy)]
pub(crate) struct ScaleKernels {
    /// Writes reciprocals, and says how to divide.
    pub(crate) divisors: unsafe fn(scales: &Floats, reciprocals: &mut Floats) -> Method,
    /// Says how to multiply.
    pub(crate) factors: unsafe fn(scales: &Floats) -> Method,
    /// The bits of the greatest magnitude of each run of floats of a width in bytes, 2 or 4: NaN and infinity are above
    /// every number.
    pub(crate) greatest: unsafe fn(x: &[u8], width: usize, run: usize, out: &mut [u32]),
    /// Applies the scales to `len` floats, a multiple of [`CHUNK`], from one place to the same or another, and rounds
    /// to integers of 32 bits where those are quantized to. Returns the place after them.
    pub(crate) apply: unsafe fn(x: *const [u8; 4], out: *mut [u8; 4], len: usize, stage: &Stage<'_>, at: At) -> At,
    /// Copies past the caches where it can, and asks for what is read next.
    pub(crate) pass_on: PassOn,
    /// Orders what was passed on before what is stored from here on.
    pub(crate) fence: unsafe fn(),
}

/// Copies `from` to `to`, and meanwhile asks for the lines of `ahead` bytes from an address on, which need not be
/// valid.
///
/// # Safety
/// As [`ScaledKernel`]; the slices have the same length.
pub(crate) type PassOn = unsafe fn(from: &[u8], to: &mut [u8], next: *const u8, ahead: usize);

/// Bytes of a cache line.
const LINE: usize = 64;

/// How far ahead the source is fetched, as in Cast.
const AHEAD: usize = 8 << 10;

/// The run of the next element, and how many elements of it are left.
#[derive(Clone, Copy)]
pub(crate) struct At {
    index: usize,
    left: usize,
}

/// Memory that is written before it is read.
#[repr(align(64))]
struct Memory<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

impl<const BYTES: usize> Memory<BYTES> {
    #[inline(always)]
    fn new() -> Self {
        Memory(MaybeUninit::uninit())
    }

    #[inline(always)]
    fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Casts elements: from values quotients, or products, to codes; from codes products to values.
///
/// # Safety
/// As [`ScaledKernel`], of the instructions of `I`.
#[inline(always)]
pub(crate) unsafe fn cast<I: Isa, S: Widen, D: Narrow>(src: &[u8], dst: &mut [u8], len: usize, stage: &Stage<'_>) {
    let Context { from, to, .. } = stage.context;
    let bits = [from, to].map(|data_type| data_type.info().bits as usize);
    let [src_step, dst_step] = bits.map(|bits| byte_len_of(I::STEP, bits));
    let is_float = const { matches!(class::<S>(), Class::F32) } && from == DataType::Float;
    let to_float = const { matches!(class::<D>(), Class::F32) } && to == DataType::Float;
    let streams = stage.context.hint == StoreHint::NonTemporal;
    // One run for all elements does not end, nor beside padding.
    let Scales { first, run, .. } = stage.scales;
    let mut at = At { index: 0, left: if run == usize::MAX { usize::MAX - usize::MAX % CHUNK } else { first } };
    let (mut floats, mut results) = (Memory::<{ 4 * BLOCK }>::new(), Memory::<{ 4 * BLOCK }>::new());
    let (mut source, mut target) = (Memory::<MOST_STEP_BYTES>::new(), Memory::<MOST_STEP_BYTES>::new());
    let (floats, results) = (floats.start(), results.start());
    let (source, target) = (source.start(), target.start());
    // SAFETY: the caller's. Blocks and their steps lie within `src` and `dst`; a last step goes through memory of a
    // step's bytes, of at most 64 elements of 32 bits.
    unsafe {
        let widen = I::step::<S, f32>(&Context::plain(from, DataType::Float));
        let narrow = I::step::<f32, D>(&Context { from: DataType::Float, hint: StoreHint::Temporal, ..stage.context });
        let narrow_int =
            I::step::<i32, D>(&Context { from: DataType::Int32, hint: StoreHint::Temporal, ..stage.context });
        let mut done = 0;
        while done < len {
            let count = BLOCK.min(len - done);
            let (steps, rest) = (count / I::STEP, count % I::STEP);
            let src = &src[byte_len_of(done, bits[0])..byte_len_of(done + count, bits[0])];
            let dst = &mut dst[byte_len_of(done, bits[1])..byte_len_of(done + count, bits[1])];
            done += count;
            // Widened.
            let in_place = is_float && rest == 0;
            if !in_place {
                for step in 0..count.div_ceil(I::STEP) {
                    let mut at = src.as_ptr().wrapping_add(step * src_step);
                    if step == steps {
                        ptr::write_bytes(source, 0, MOST_STEP_BYTES);
                        ptr::copy_nonoverlapping(at, source, src.len() - steps * src_step);
                        at = source;
                    }
                    widen(at, floats.add(step * I::STEP * 4));
                }
            }
            // Scaled.
            let is_narrow = to_float && rest == 0;
            let x = if in_place { src.as_ptr() } else { floats.cast_const() };
            let out = if is_narrow && !streams { dst.as_mut_ptr() } else { floats };
            at = (I::SCALE.apply)(x.cast(), out.cast(), count.next_multiple_of(I::STEP), stage, at);
            // Narrowed.
            let place = match (streams, is_narrow) {
                (false, false) => dst.as_mut_ptr(),
                (true, false) => results,
                (_, true) => out,
            };
            let narrow =
                |from, to| if const { D::DATA_TYPE.is_float() } { narrow(from, to) } else { narrow_int(from, to) };
            for step in 0..if is_narrow { 0 } else { count.div_ceil(I::STEP) } {
                let at = if step == steps { target } else { place.wrapping_add(step * dst_step) };
                narrow(floats.add(step * I::STEP * 4).cast_const(), at);
            }
            if rest > 0 {
                let done = steps * dst_step;
                ptr::copy_nonoverlapping(target, place.add(done), dst.len() - done);
            }
            if streams {
                let results = slice::from_raw_parts(place, dst.len());
                (I::SCALE.pass_on)(results, dst, src.as_ptr().wrapping_add(AHEAD), src.len());
            }
        }
    }
    clear_padding(to, len, dst);
}

/// [`ScaleKernels::pass_on`], with methods of `Lanes`: one that prefetches, and one that copies a vector of so many
/// bytes past the caches, if there is one.
///
/// # Safety
/// As [`PassOn`], of the instructions of the methods.
#[inline(always)]
pub(crate) unsafe fn pass_on(
    from: &[u8],
    to: &mut [u8],
    next: *const u8,
    ahead: usize,
    vector: Option<usize>,
    prefetch: impl Fn(*const u8),
    stream: impl Fn(*mut u8, *const u8),
) {
    // Parts of lines go through the caches.
    let (first, to) = to.split_at_mut(to.as_ptr().align_offset(LINE).min(to.len()));
    let (from_first, from) = from.split_at(first.len());
    first.copy_from_slice(from_first);
    let (lines, rest) = to.as_chunks_mut::<LINE>();
    let (from, from_rest) = from.split_at(lines.len() * LINE);
    // Spread evenly: the processor has few buffers for what is under way.
    let each = ahead.div_ceil(LINE).div_ceil(lines.len().max(1));
    for (line, (to, from)) in lines.iter_mut().zip(from.as_chunks::<LINE>().0).enumerate() {
        for place in line * each..(line + 1) * each {
            prefetch(next.wrapping_add(place * LINE));
        }
        match vector {
            None => to.copy_from_slice(from),
            // A vector lies within both lines, and is aligned in `to`.
            Some(bytes) => (0..LINE).step_by(bytes).for_each(|at| stream(to[at..].as_mut_ptr(), from[at..].as_ptr())),
        }
    }
    rest.copy_from_slice(from_rest);
}

/// What the portable backend has in place of `Lanes`: nothing passes the caches by.
pub(crate) struct Cached;

impl Cached {
    pub(crate) const STREAMS: bool = false;
    pub(crate) const BYTES: usize = LINE;

    pub(crate) fn prefetch(_: *const u8) {}

    pub(crate) fn load(_: *const u8) {}

    pub(crate) fn stream(_: *mut u8, (): ()) {}

    pub(crate) fn fence() {}
}

/// [`Isa::step`] by a kernel of the context's types.
///
/// # Safety
/// As there, of the instructions of the kernel.
pub(crate) unsafe fn step_by(
    kernel: Option<Kernel>,
    context: &Context,
    len: usize,
) -> impl Fn(*const u8, *mut u8) + use<> {
    let Some(kernel) = kernel else { unreachable!("a step has numeric types") };
    let context = *context;
    let [src_len, dst_len] =
        [context.from, context.to].map(|data_type| byte_len_of(len, data_type.info().bits as usize));
    // SAFETY: the caller's, who calls the function with pointers to a step's bytes.
    move |src, dst| unsafe {
        kernel(slice::from_raw_parts(src, src_len), slice::from_raw_parts_mut(dst, dst_len), len, &context);
    }
}

/// Defines the kernels of an instruction set: the loops, compiled with its features.
macro_rules! scale_kernels {
    ($(#[$features:meta])? $isa:ty, $lanes:ty, fuses: $fuses:literal, step: $($step:tt)*) => {
        const SCALE: crate::kernel::scale::ScaleKernels = {
            use crate::kernel::scale::{self, At, Floats, Method, Stage, loops};
            $(#[$features])?
            unsafe fn divisors(scales: &Floats, reciprocals: &mut Floats) -> Method {
                loops::divisors::<$fuses>(scales, reciprocals)
            }
            $(#[$features])?
            unsafe fn factors(scales: &Floats) -> Method {
                loops::factors::<$fuses>(scales)
            }
            $(#[$features])?
            unsafe fn greatest(x: &[u8], width: usize, run: usize, out: &mut [u32]) {
                loops::greatest(x, width, run, out);
            }
            $(#[$features])?
            unsafe fn apply(x: *const [u8; 4], out: *mut [u8; 4], len: usize, stage: &Stage<'_>, at: At) -> At {
                // SAFETY: the caller's.
                unsafe { loops::apply::<$isa, $fuses>(x, out, len, stage, at) }
            }
            $(#[$features])?
            unsafe fn pass_on(from: &[u8], to: &mut [u8], next: *const u8, ahead: usize) {
                let vector = <$lanes>::STREAMS.then_some(<$lanes>::BYTES);
                #[allow(unused_unsafe, reason = "the portable backend's methods need no promise")]
                let prefetch = |line| {
                    // SAFETY: a prefetch is a hint and accepts any address.
                    unsafe { <$lanes>::prefetch(line) }
                };
                #[allow(unused_unsafe, reason = "the portable backend's methods need no promise")]
                let stream = |to, from| {
                    // SAFETY: the caller's: `pass_on` gives vectors within the slices.
                    unsafe { <$lanes>::stream(to, <$lanes>::load(from)) }
                };
                // SAFETY: the caller's.
                unsafe { scale::pass_on(from, to, next, ahead, vector, prefetch, stream) }
            }
            $(#[$features])?
            unsafe fn fence() {
                #[allow(unused_unsafe, reason = "the portable backend's method needs no promise")]
                // SAFETY: the caller's.
                unsafe { <$lanes>::fence() }
            }
            scale::ScaleKernels { divisors, factors, greatest, apply, pass_on, fence }
        };

        $(#[$features])?
        unsafe fn scaled<S: Widen, D: Narrow>(
            src: &[u8],
            dst: &mut [u8],
            len: usize,
            stage: &crate::kernel::scale::Stage<'_>,
        ) {
            // SAFETY: the caller's; the features are those of the instruction set.
            unsafe { crate::kernel::scale::cast::<Self, S, D>(src, dst, len, stage) }
        }

        #[inline(always)]
        unsafe fn step<S: Widen, D: Narrow>(context: &Context) -> impl Fn(*const u8, *mut u8) + use<S, D> {
            // SAFETY: the caller's.
            unsafe { $($step)*(context) }
        }
    };
}
pub(crate) use scale_kernels;
