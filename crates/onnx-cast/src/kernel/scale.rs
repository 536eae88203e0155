//! Scaled casts: elements are widened to `f32`, scaled there, and narrowed.
//!
//! Each instruction set has kernels that do so in registers (`arch/generic/scale.rs`), for the scales that are met:
//! those with a quotient by way of the reciprocal, or a product, that needs no second look. For others, and where there
//! are no vectors, [`staged`] calls the kernels of Cast, and between them loops in plain Rust.

pub(crate) mod beside;
pub(crate) mod greatest;
pub(crate) mod loops;
pub(crate) mod sink;
pub(crate) mod staged;

use super::lanes::Lanes;
use super::{Context, StoreHint};
use crate::element::byte_len_of;
use crate::scalar::scaled::Precision;
use core::mem::MaybeUninit;
pub(crate) use sink::Sink;

/// Elements that have one scale, or each their own. Longer runs are made up of these.
pub(crate) const CHUNK: usize = 16;

/// Scales of a tile: of as many elements, or of as many chunks.
pub(crate) const ENTRIES: usize = 512;

/// Scales beside the padding of a last step.
pub(crate) const PADDING: usize = 64;

/// Bytes of the longest step of any backend, of 64 elements of 32 bits.
const MOST_STEP_BYTES: usize = 4 * 64;

/// Bytes of a cache line.
const LINE: usize = 64;

/// How far ahead the source is fetched: as far as a part of a block format reaches, 4096 floats. Its greatest
/// magnitudes are read before its elements, and would wait for memory.
const AHEAD: usize = 16 << 10;

/// How scales are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    /// Products with positive factors that no element takes beyond `f32`, or of elements that are no infinities with
    /// finite factors.
    Multiply,
    /// Quotients by way of reciprocals, which are the factors.
    Reciprocal,
    /// Products with any factors.
    MultiplyAny,
    /// Quotients by any divisors.
    Divide,
}

impl Method {
    /// Whether the kernels in registers know it.
    fn is_common(self) -> bool {
        matches!(self, Method::Multiply | Method::Reciprocal)
    }
}

/// What an element is scaled by, and what of its scale is found before.
#[derive(Clone, Copy)]
pub(crate) enum Array {
    /// What elements are multiplied with, or what estimates their quotient.
    Factors,
    /// Negated, what they are divided by.
    Divisors,
    /// Zero points: what is added to quotients. Negated, what is subtracted from codes.
    Zeros,
    /// The least elements that are told apart, of integers.
    Lows,
    /// The greatest, and of floats the greatest magnitude.
    Highs,
}

/// Room for the scales of a tile.
#[repr(align(64))]
pub(crate) struct Arrays([[MaybeUninit<f32>; Arrays::LEN]; 5]);

impl Arrays {
    /// Two tiles, so that a period can begin anywhere in the first.
    const LEN: usize = 2 * ENTRIES + PADDING;

    pub(crate) const NEW: Self = Arrays([[MaybeUninit::uninit(); Arrays::LEN]; 5]);

    /// The first numbers of an array.
    pub(crate) fn first(&mut self, array: Array, count: usize) -> &mut [MaybeUninit<f32>] {
        &mut self.0[array as usize][..count]
    }

    /// The first numbers of every array, in the order of [`Array`].
    pub(crate) fn all(&mut self, count: usize) -> [&mut [MaybeUninit<f32>]; 5] {
        self.0.each_mut().map(|array| &mut array[..count])
    }
}

/// Numbers that are written.
///
/// # Safety
/// They are.
#[inline(always)]
pub(crate) unsafe fn written(numbers: &mut [MaybeUninit<f32>]) -> &mut [f32] {
    // SAFETY: the caller's; the layouts are the same.
    unsafe { &mut *(core::ptr::from_mut(numbers) as *mut [f32]) }
}

/// Which scale an element has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// The first.
    One,
    /// That of its chunk.
    Chunks,
    /// Its own.
    Each,
}

/// The scales of some elements, and their zero points.
#[derive(Clone, Copy)]
pub(crate) struct Scales<'a> {
    pub(crate) arrays: &'a Arrays,
    /// Where those of the elements begin.
    pub(crate) begin: usize,
    pub(crate) spread: Spread,
    /// Whether a zero point is not 0.
    pub(crate) has_zeros: bool,
}

impl Scales<'_> {
    /// Those of the elements, of which the ones of a step more are written.
    #[inline(always)]
    pub(crate) fn array(&self, array: Array) -> *const f32 {
        self.arrays.0[array as usize].as_ptr().cast::<f32>().wrapping_add(self.begin)
    }
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

impl Stage<'_> {
    /// Whether a kernel in registers does what is asked.
    pub(crate) fn is_common(&self) -> bool {
        self.method.is_common() && self.precision == Precision::Float && !self.adds_zero()
    }

    /// Whether zero points are added to quotients that become floats.
    #[inline(always)]
    pub(crate) fn adds_zero(&self) -> bool {
        self.context.to.is_float() && self.scales.has_zeros && self.context.from.is_float()
    }
}

/// The elements of a tile: the bytes of `len` elements of the context's types.
pub(crate) struct Part<'a> {
    pub(crate) src: *const u8,
    pub(crate) dst: *mut u8,
    pub(crate) len: usize,
    /// Where results that are to pass the caches by go.
    pub(crate) sink: Option<&'a mut Sink>,
}

/// Casts elements; the padding of the last byte is arbitrary.
///
/// # Safety
/// The processor has the instructions that the kernel's backend is compiled for, the bytes of the part's elements can
/// be read and written, and the table has this kernel for the context's types. Results are in the sink until it is
/// flushed.
pub(crate) type ScaledKernel = unsafe fn(part: Part<'_>, stage: &Stage<'_>);

/// What scales are found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scaling {
    /// Quotients with scales.
    Divide,
    /// Products with them, of codes.
    Dequantize {
        /// Whether one may be an infinity, or a NaN that is not the usual one.
        has_infinity: bool,
    },
    /// Products with them, of values.
    Multiply,
}

/// What is compiled once for each instruction set.
#[derive(Clone, Copy)]
pub(crate) struct ScaleKernels {
    /// Finds what is beside elements, from the scales in [`Array::Divisors`] and, if there are any, the zero points in
    /// [`Array::Zeros`], of which `count` are written; and how they are applied. The range is that of results.
    pub(crate) prepare:
        unsafe fn(arrays: &mut Arrays, count: usize, scaling: Scaling, has_zeros: bool, range: [f32; 2]) -> Method,
    /// The bits of the greatest magnitude of each run of floats of a width in bytes, 2 or 4: NaN and infinity are above
    /// every number.
    pub(crate) greatest: unsafe fn(x: &[u8], width: usize, run: usize, out: &mut [u32]),
    /// Applies scales to floats, whole chunks of them; see [`loops::apply`].
    pub(crate) apply: unsafe fn(x: &mut [[u8; 4]], stage: &Stage<'_>, begin: usize),
    /// What a lower precision leaves to be done; see [`loops::finish`].
    pub(crate) finish: unsafe fn(x: &mut [[u8; 4]], stage: &Stage<'_>, begin: usize),
    /// Stores what a sink holds; orders what was passed on before what is stored from here on.
    pub(crate) flush: unsafe fn(sink: &mut Sink, dst: *mut u8),
}

/// Memory that is written before it is read.
#[repr(align(64))]
pub(crate) struct Memory<const BYTES: usize>(MaybeUninit<[u8; BYTES]>);

impl<const BYTES: usize> Memory<BYTES> {
    #[inline(always)]
    pub(crate) fn new() -> Self {
        Memory(MaybeUninit::uninit())
    }

    #[inline(always)]
    pub(crate) fn start(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Steps after which whole lines are passed on: so many that these are in the nearest cache by then.
const STEPS: usize = 4;

/// Calls `step` with the source and the target of a step's elements, whose widths are `bits`, and the place of the
/// first, until all are cast. What does not fill a step goes through the same step on a copy.
///
/// # Safety
/// As [`ScaledKernel`], of the instructions of `L`; `step` reads a step's bytes and writes all of the target's.
#[inline(always)]
pub(crate) unsafe fn walk<L: Lanes>(part: Part<'_>, bits: [usize; 2], step: impl Fn(*const u8, *mut u8, usize)) {
    let Part { src, dst, len, mut sink } = part;
    let [src_step, dst_step] = bits.map(|bits| byte_len_of(L::BYTES, bits));
    let (mut source, mut target) = (Memory::<MOST_STEP_BYTES>::new(), Memory::<MOST_STEP_BYTES>::new());
    let (source, target) = (source.start(), target.start());
    let mut begin = 0;
    // SAFETY: the caller's. Steps lie within the elements, or in memory of a step's bytes.
    unsafe {
        while begin < len {
            let count = (STEPS * L::BYTES).min(len - begin);
            let first = dst.add(begin / L::BYTES * dst_step);
            let place = sink.as_deref_mut().map_or(first, |sink| sink.place(first));
            for at in (0..count).step_by(L::BYTES) {
                let from = src.add((begin + at) / L::BYTES * src_step);
                let to = place.add(at / L::BYTES * dst_step);
                let left = count - at;
                if left >= L::BYTES {
                    if sink.is_some() {
                        fetch::<L>(from, src_step, dst_step);
                    }
                    step(from, to, begin + at);
                } else {
                    L::copy_padded(from, source, byte_len_of(left, bits[0]), src_step);
                    step(source, target, begin + at);
                    L::copy_few(target, to, byte_len_of(left, bits[1]));
                }
            }
            if let Some(sink) = sink.as_deref_mut() {
                sink.drain::<L>(first, byte_len_of(count, bits[1]));
            }
            begin += count;
        }
    }
}

/// Asks for lines of the source, as Cast does: those ahead, and where reads outweigh writes a step's own, in order.
///
/// # Safety
/// The processor has the instructions of `L`.
#[inline(always)]
unsafe fn fetch<L: Lanes>(src: *const u8, src_step: usize, dst_step: usize) {
    for line in (0..src_step).step_by(LINE) {
        // SAFETY: a prefetch is a hint and accepts any address.
        unsafe {
            if src_step > 2 * dst_step {
                L::prefetch(src.wrapping_add(line));
            }
            L::prefetch(src.wrapping_add(AHEAD + line));
        }
    }
}

/// Where results go, by the hint.
pub(crate) fn sink_for(hint: StoreHint, sink: &mut Sink) -> Option<&mut Sink> {
    (hint == StoreHint::NonTemporal).then_some(sink)
}

/// Defines the kernels of an instruction set: the loops, compiled with its features.
macro_rules! scale_kernels {
    (@) => {};
    (@ $(#[$features:meta])? $lanes:ty, $($algorithms:ident)::*) => {
        $(#[$features])?
        unsafe fn quantize<D: Element>(
            part: crate::kernel::scale::Part<'_>,
            stage: &crate::kernel::scale::Stage<'_>,
        ) {
            // SAFETY: the caller's; the features are those of the lanes.
            unsafe { $($algorithms)::*::quantize::<$lanes, D>(part, stage) }
        }

        $(#[$features])?
        unsafe fn dequantize<S: Element>(
            part: crate::kernel::scale::Part<'_>,
            stage: &crate::kernel::scale::Stage<'_>,
        ) {
            // SAFETY: the caller's; the features are those of the lanes.
            unsafe { $($algorithms)::*::dequantize::<$lanes, S>(part, stage) }
        }
    };
    (
        $(#[$features:meta])?
        fuses: $fuses:expr, fence: $fence:expr $(, over: $lanes:ty, $($algorithms:ident)::*)?
    ) => {
        const SCALE: crate::kernel::scale::ScaleKernels = {
            use crate::kernel::scale::{Arrays, Method, Scaling, ScaleKernels, Sink, Stage, greatest, loops};
            $(#[$features])?
            unsafe fn prepare(
                arrays: &mut Arrays,
                count: usize,
                scaling: Scaling,
                has_zeros: bool,
                range: [f32; 2],
            ) -> Method {
                // SAFETY: the caller's.
                unsafe { loops::prepare::<{ $fuses }>(arrays, count, scaling, has_zeros, range) }
            }
            $(#[$features])?
            unsafe fn greatest(x: &[u8], width: usize, run: usize, out: &mut [u32]) {
                let done = 0;
                $(
                    // SAFETY: the caller's; the features are those of the lanes.
                    let done = done + unsafe { greatest::by_lanes::<$lanes>(x, width, run, out) };
                )?
                greatest::by_loops(&x[done * run * width..], width, run, &mut out[done..]);
            }
            $(#[$features])?
            unsafe fn apply(x: &mut [[u8; 4]], stage: &Stage<'_>, begin: usize) {
                loops::apply::<{ $fuses }>(x, stage, begin);
            }
            $(#[$features])?
            unsafe fn finish(x: &mut [[u8; 4]], stage: &Stage<'_>, begin: usize) {
                loops::finish(x, stage, begin);
            }
            $(#[$features])?
            unsafe fn flush(sink: &mut Sink, dst: *mut u8) {
                // SAFETY: the caller's.
                unsafe { sink.flush(dst) };
                #[allow(unused_unsafe, reason = "some need no promise")]
                // SAFETY: the caller's: the processor has the instruction.
                unsafe { $fence }
            }
            ScaleKernels { prepare, greatest, apply, finish, flush }
        };
        crate::kernel::scale::scale_kernels! { @ $(#[$features])? $($lanes, $($algorithms)::*)? }
    };
}
pub(crate) use scale_kernels;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::available;
    use crate::element::DataType;

    /// Parts of a tensor, whose results pass the caches by, as they are in one part that does not: at every place in a
    /// cache line, and for parts that end anywhere in one. Tensors that are larger than the caches would try few of
    /// them.
    #[test]
    fn non_temporal_as_temporal() {
        const LEN: usize = 1000;
        let source: Vec<u8> = (0..LEN).flat_map(|i| (i as f32 - 300.0).to_le_bytes()).collect();
        let mut arrays = Arrays::NEW;
        for backend in available() {
            let table = backend.table();
            for to in [DataType::Int8, DataType::Int4, DataType::Float8E4M3FN, DataType::Float6E2M3, DataType::Uint16] {
                arrays.first(Array::Divisors, 1).fill(MaybeUninit::new(3.0));
                // SAFETY: the backend is available.
                let method = unsafe { (table.scale.prepare)(&mut arrays, 1, Scaling::Divide, false, [0.0, 7.0]) };
                let scales = Scales { arrays: &arrays, begin: 0, spread: Spread::One, has_zeros: false };
                let context = Context::plain(DataType::Float, to);
                let stage = Stage { context, scales, method, precision: Precision::Float, range: [0.0, 7.0] };
                let bytes = |len| to.byte_len(len).expect("few elements");
                let mut expected = vec![0; bytes(LEN)];
                let part = Part { src: source.as_ptr(), dst: expected.as_mut_ptr(), len: LEN, sink: None };
                // SAFETY: the backend is available, and these are the bytes of so many elements.
                unsafe { table.scale(part, &stage) };
                let mut result = vec![0x5a; bytes(LEN) + 2 * LINE];
                for (at, cut) in (0..LINE).zip((0..LEN).step_by(8).cycle().skip(3).step_by(11)) {
                    result.fill(0x5a);
                    let (mut sink, dst) = (Sink::new(), result[at..].as_mut_ptr());
                    for (begin, len) in [(0, cut), (cut, 8), (cut + 8, (LEN - 8) - cut)] {
                        // SAFETY: as above; the parts follow each other, and begin at whole bytes.
                        unsafe {
                            let (src, dst) = (source.as_ptr().add(4 * begin), dst.add(bytes(begin)));
                            table.scale(Part { src, dst, len, sink: Some(&mut sink) }, &stage);
                        }
                    }
                    // SAFETY: the last part ended there.
                    unsafe { (table.scale.flush)(&mut sink, dst.add(bytes(LEN))) };
                    let end = at + bytes(LEN);
                    assert_eq!(result[at..end], expected, "{backend:?}, {to}, {at} bytes in, cut at {cut}");
                    let beside = result[..at].iter().chain(&result[end..]);
                    assert!(
                        beside.copied().all(|byte| byte == 0x5a),
                        "{backend:?}, {to}, {at}: bytes beside the result"
                    );
                }
            }
        }
    }
}
