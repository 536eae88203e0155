//! The stage of a scaled cast between widening and narrowing, over floats in the nearest cache.
//!
//! The loops are plain Rust. Each instruction set compiles them with its features, and the compiler vectorises them.
//! Widening and narrowing are the kernels of Cast.

use crate::scalar::scaled::{is_moderate, product, quotient, quotient_by_reciprocal, round_to_int};

/// The scales of some elements, and their zero points: `f32`, little endian.
#[derive(Clone, Copy)]
pub(crate) struct Scales<'a> {
    /// Elements of the first run: those that have the first scale.
    pub(crate) first: usize,
    /// Elements of every other run. Where runs have one element, each element has its own scale.
    pub(crate) run: usize,
    pub(crate) scales: &'a [[u8; 4]],
    /// As many as scales; `None` where there is nothing to add or to subtract.
    pub(crate) zero_points: Option<&'a [[u8; 4]]>,
    /// The lowest and the highest result, where that is an integer.
    pub(crate) range: [f32; 2],
}

/// Maps floats, little endian, to floats or integers of 8 or 16 bits.
///
/// # Safety
/// The processor has the instructions that the kernel's backend is compiled for.
pub(crate) type ScaleKernel = unsafe fn(x: &[u8], out: &mut [u8], scales: &Scales<'_>);

/// The kernels of this stage.
#[derive(Clone, Copy)]
pub(crate) struct ScaleKernels {
    /// Quotients plus zero points, as floats. The zero points are zeros, which can change the sign of a zero.
    pub(crate) divide: ScaleKernel,
    /// Products, as floats.
    pub(crate) multiply: ScaleKernel,
    /// Quotients, as integers of 8 bits.
    pub(crate) to_bytes: ScaleKernel,
    /// Quotients, as integers of 16 bits.
    pub(crate) to_words: ScaleKernel,
    /// The greatest magnitude of each run, by its bits as an integer: NaN and infinity are above every number. Of the
    /// scales it takes the length of a run.
    pub(crate) greatest: ScaleKernel,
    /// Copies past the caches where it can, and asks for what is read next.
    pub(crate) pass_on: PassOn,
    /// Orders what was passed on before what is stored from here on.
    pub(crate) fence: unsafe fn(),
}

/// Copies `from` to `to`, and meanwhile asks for the lines of `ahead` bytes from an address on, which need not be
/// valid.
///
/// # Safety
/// As [`ScaleKernel`]; the slices have the same length, and `from` is aligned to a cache line.
pub(crate) type PassOn = unsafe fn(from: &[u8], to: &mut [u8], next: *const u8, ahead: usize);

/// Maps each element with its scale and zero point, or `absent` where there is none: by `run` where many have the same,
/// else by `one`.
#[inline(always)]
fn map<const OUT: usize>(
    x: &[u8],
    out: &mut [u8],
    scales: &Scales<'_>,
    absent: f32,
    run: impl Fn(&[[u8; 4]], &mut [[u8; OUT]], f32, f32),
    one: impl Fn(f32, f32, f32) -> [u8; OUT],
) {
    let (mut x, mut out) = (x.as_chunks::<4>().0, out.as_chunks_mut::<OUT>().0);
    let values = scales.scales;
    if scales.run == 1 {
        let elements = x.iter().zip(out).zip(values);
        match scales.zero_points {
            None => elements.for_each(|((x, out), scale)| *out = one(float(x), float(scale), absent)),
            Some(zeros) => elements
                .zip(zeros)
                .for_each(|(((x, out), scale), zero)| *out = one(float(x), float(scale), float(zero))),
        }
        return;
    }
    let mut len = scales.first;
    for (i, scale) in values.iter().enumerate() {
        let zero = scales.zero_points.map_or(absent, |zeros| float(&zeros[i]));
        let len_now = len.min(x.len());
        let (head, rest) = x.split_at(len_now);
        let (head_out, rest_out) = out.split_at_mut(len_now);
        run(head, head_out, float(scale), zero);
        (x, out, len) = (rest, rest_out, scales.run);
    }
}

#[inline(always)]
fn float(bytes: &[u8; 4]) -> f32 {
    f32::from_le_bytes(*bytes)
}

#[inline(always)]
fn each<const OUT: usize>(x: &[[u8; 4]], out: &mut [[u8; OUT]], f: impl Fn(f32) -> [u8; OUT]) {
    for (x, out) in x.iter().zip(out) {
        *out = f(float(x));
    }
}

/// Quotients, each finished by `finish` with its zero point. `FMA` says that the processor has fused operations.
#[inline(always)]
fn divided<const FMA: bool, const OUT: usize>(
    x: &[u8],
    out: &mut [u8],
    scales: &Scales<'_>,
    finish: impl Fn(f32, f32) -> [u8; OUT],
) {
    map(
        x,
        out,
        scales,
        // Added to a quotient, it changes nothing, not even the sign of zero.
        -0.0,
        #[inline(always)]
        |x, out, scale, zero| {
            if FMA && is_moderate(scale) {
                let reciprocal = 1.0 / scale;
                each(x, out, |x| finish(quotient_by_reciprocal(x, scale, reciprocal), zero));
            } else {
                each(x, out, |x| finish(quotient(x, scale), zero));
            }
        },
        #[inline(always)]
        |x, scale, zero| finish(quotient(x, scale), zero),
    );
}

/// [`ScaleKernels::divide`].
#[inline(always)]
pub(crate) fn divide<const FMA: bool>(x: &[u8], out: &mut [u8], scales: &Scales<'_>) {
    divided::<FMA, 4>(x, out, scales, |quotient, zero| (quotient + zero).to_le_bytes());
}

/// [`ScaleKernels::to_bytes`].
#[inline(always)]
pub(crate) fn to_bytes<const FMA: bool>(x: &[u8], out: &mut [u8], scales: &Scales<'_>) {
    let [low, high] = scales.range;
    divided::<FMA, 1>(x, out, scales, |quotient, zero| [round_to_int(quotient, zero, low, high) as u8]);
}

/// [`ScaleKernels::to_words`].
#[inline(always)]
pub(crate) fn to_words<const FMA: bool>(x: &[u8], out: &mut [u8], scales: &Scales<'_>) {
    let [low, high] = scales.range;
    divided::<FMA, 2>(x, out, scales, |quotient, zero| (round_to_int(quotient, zero, low, high) as u16).to_le_bytes());
}

/// [`ScaleKernels::multiply`].
#[inline(always)]
pub(crate) fn multiply(x: &[u8], out: &mut [u8], scales: &Scales<'_>) {
    map(
        x,
        out,
        scales,
        0.0,
        #[inline(always)]
        |x, out, scale, zero| each(x, out, |x| product(x, zero, scale).to_le_bytes()),
        #[inline(always)]
        |x, scale, zero| product(x, zero, scale).to_le_bytes(),
    );
}

/// [`ScaleKernels::greatest`].
#[inline(always)]
pub(crate) fn greatest(x: &[u8], out: &mut [u8], scales: &Scales<'_>) {
    #[inline(always)]
    fn of(run: &[[u8; 4]]) -> [u8; 4] {
        run.iter().fold(0, |most, bytes| most.max(u32::from_le_bytes(*bytes) & (u32::MAX >> 1))).to_le_bytes()
    }
    let (x, out) = (x.as_chunks::<4>().0, out.as_chunks_mut::<4>().0);
    // The compiler makes a few instructions of runs whose length it knows.
    match scales.run {
        16 => x.as_chunks::<16>().0.iter().zip(out).for_each(|(run, out)| *out = of(run)),
        32 => x.as_chunks::<32>().0.iter().zip(out).for_each(|(run, out)| *out = of(run)),
        run => x.chunks(run).zip(out).for_each(|(run, out)| *out = of(run)),
    }
}

/// [`ScaleKernels::pass_on`] through the caches.
///
/// # Safety
/// None is needed; the functions of other backends need some.
pub(crate) unsafe fn copy_on(from: &[u8], to: &mut [u8], _: *const u8, _: usize) {
    to.copy_from_slice(from);
}

/// [`ScaleKernels::fence`] for ordinary stores.
///
/// # Safety
/// As [`copy_on`].
pub(crate) unsafe fn no_fence() {}

/// Defines the kernels of an instruction set: the loops, compiled with its features.
macro_rules! scale_kernels {
    ($(#[$features:meta])? $fma:literal, $pass_on:expr, $fence:expr) => {
        const SCALE: crate::kernel::scale::ScaleKernels = {
            use crate::kernel::scale::{self, Scales};
            $(#[$features])?
            unsafe fn divide(x: &[u8], out: &mut [u8], scales: &Scales<'_>) {
                scale::divide::<$fma>(x, out, scales);
            }
            $(#[$features])?
            unsafe fn multiply(x: &[u8], out: &mut [u8], scales: &Scales<'_>) {
                scale::multiply(x, out, scales);
            }
            $(#[$features])?
            unsafe fn to_bytes(x: &[u8], out: &mut [u8], scales: &Scales<'_>) {
                scale::to_bytes::<$fma>(x, out, scales);
            }
            $(#[$features])?
            unsafe fn to_words(x: &[u8], out: &mut [u8], scales: &Scales<'_>) {
                scale::to_words::<$fma>(x, out, scales);
            }
            $(#[$features])?
            unsafe fn greatest(x: &[u8], out: &mut [u8], scales: &Scales<'_>) {
                scale::greatest(x, out, scales);
            }
            $(#[$features])?
            unsafe fn pass_on(from: &[u8], to: &mut [u8], next: *const u8, ahead: usize) {
                // SAFETY: the caller's.
                unsafe { ($pass_on)(from, to, next, ahead) }
            }
            $(#[$features])?
            unsafe fn fence() {
                // SAFETY: the caller's.
                unsafe { ($fence)() }
            }
            scale::ScaleKernels { divide, multiply, to_bytes, to_words, greatest, pass_on, fence }
        };
    };
}
pub(crate) use scale_kernels;
