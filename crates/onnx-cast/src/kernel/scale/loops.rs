//! The loops of scaled casts over floats in the nearest cache: plain Rust, which each instruction set compiles with its
//! features, and which the compiler vectorises.

use super::{At, CHUNK, Floats, MOST_STEP_BYTES, Memory, Method, Scales, Stage};
use crate::element::{DataType, Float16};
use crate::kernel::{Context, Isa};
use crate::scalar::scaled::{
    Precision, is_moderate, is_power_of_two, product, quotient, quotient_by_reciprocal, quotient_to_round,
    round_to_bfloat16, round_to_low_bits,
};
use crate::scalar::{Narrow, Widen};

/// What is beside an element.
#[derive(Clone, Copy)]
struct Beside {
    factor: f32,
    divisor: f32,
    zero_point: f32,
}

/// A pass over floats, from one place to the same or another.
#[derive(Clone, Copy)]
struct Pass<'a> {
    x: *const [u8; 4],
    out: *mut [u8; 4],
    /// A multiple of [`CHUNK`].
    len: usize,
    scales: &'a Scales<'a>,
}

impl Pass<'_> {
    /// Writes the bits that `f` gives for each float and what is beside it. Returns where the next pass begins.
    ///
    /// # Safety
    /// `len` floats can be read at `x` and written at `out`.
    #[inline(always)]
    unsafe fn each(self, mut at: At, f: impl Fn(f32, Beside) -> u32) -> At {
        let Pass { x, out, len, scales: &Scales { run, factors, divisors, zero_points, .. } } = self;
        let zero_points = zero_points.unwrap_or(factors);
        let beside = |factor: &[u8; 4], divisor: &[u8; 4], zero_point: &[u8; 4]| {
            let [factor, divisor, zero_point] = [factor, divisor, zero_point].map(|bytes| f32::from_le_bytes(*bytes));
            Beside { factor, divisor, zero_point }
        };
        for begin in (0..len).step_by(CHUNK) {
            // SAFETY: the caller's: a chunk lies within `x`.
            let mut chunk = unsafe { x.add(begin).cast::<[[u8; 4]; CHUNK]>().read_unaligned() };
            if run == 1 {
                let range = at.index..at.index + CHUNK;
                let others = factors[range.clone()].iter().zip(&divisors[range.clone()]).zip(&zero_points[range]);
                for (x, ((factor, divisor), zero_point)) in chunk.iter_mut().zip(others) {
                    *x = f(f32::from_le_bytes(*x), beside(factor, divisor, zero_point)).to_le_bytes();
                }
                at.index += CHUNK;
            } else {
                // Padding has the last scale.
                let index = at.index.min(factors.len() - 1);
                let beside = beside(&factors[index], &divisors[index], &zero_points[index]);
                for x in &mut chunk {
                    *x = f(f32::from_le_bytes(*x), beside).to_le_bytes();
                }
                at.left -= CHUNK;
                if at.left == 0 {
                    at = At { index: at.index + 1, left: run };
                }
            }
            // SAFETY: the caller's: a chunk lies within `out`.
            unsafe { out.add(begin).cast::<[[u8; 4]; CHUNK]>().write_unaligned(chunk) };
        }
        at
    }

    /// Quotients, or products, each finished with its zero point.
    ///
    /// # Safety
    /// As [`Pass::each`].
    #[inline(always)]
    unsafe fn scaled<const FUSES: bool, const INT: bool>(
        self,
        at: At,
        method: Method,
        finish: impl Fn(f32, f32) -> u32,
    ) -> At {
        // SAFETY: the caller's.
        unsafe {
            match method {
                Method::Multiply => self.each(at, |x, by| finish(x * by.factor, by.zero_point)),
                Method::MultiplyAny => self.each(at, |x, by| finish(product(x, 0.0, by.factor), by.zero_point)),
                Method::Reciprocal if FUSES && INT => {
                    self.each(at, |x, by| finish(quotient_to_round(x, by.divisor, by.factor), by.zero_point))
                }
                Method::Reciprocal if FUSES => {
                    self.each(at, |x, by| finish(quotient_by_reciprocal(x, by.divisor, by.factor), by.zero_point))
                }
                Method::Reciprocal | Method::Divide => {
                    self.each(at, |x, by| finish(quotient(x, by.divisor), by.zero_point))
                }
            }
        }
    }

    /// Products of differences.
    ///
    /// # Safety
    /// As [`Pass::each`].
    #[inline(always)]
    unsafe fn dequantized(self, at: At, method: Method, has_zeros: bool) -> At {
        // SAFETY: the caller's.
        unsafe {
            match (method, has_zeros) {
                (Method::Multiply, false) => self.each(at, |x, by| (x * by.factor).to_bits()),
                (Method::Multiply, true) => self.each(at, |x, by| ((x - by.zero_point) * by.factor).to_bits()),
                (_, false) => self.each(at, |x, by| product(x, 0.0, by.factor).to_bits()),
                (_, true) => self.each(at, |x, by| product(x, by.zero_point, by.factor).to_bits()),
            }
        }
    }
}

/// [`super::ScaleKernels::apply`].
///
/// # Safety
/// As there, of the instructions of `I`.
#[inline(always)]
pub(crate) unsafe fn apply<I: Isa, const FUSES: bool>(
    x: *const [u8; 4],
    out: *mut [u8; 4],
    len: usize,
    stage: &Stage<'_>,
    at: At,
) -> At {
    let Stage { ref scales, ref context, precision, range: [low, high], method } = *stage;
    let pass = Pass { x, out, len, scales };
    let has_zeros = scales.zero_points.is_some();
    let is_int = !context.to.is_float();
    let to_int = |value, _| round_to_low_bits(value, low, high);
    let to_shifted_int = |value, zero_point| {
        let value = round_to_low_bits(value, low - zero_point, high - zero_point);
        value.wrapping_add(round_to_low_bits(zero_point, zero_point, zero_point))
    };
    // SAFETY: the caller's; a second pass is over the results of the first.
    unsafe {
        if !is_value(context.from) {
            return pass.dequantized(at, method, has_zeros);
        }
        let end = match (precision, is_int, has_zeros) {
            (Precision::Float, true, false) => pass.scaled::<FUSES, true>(at, method, to_int),
            (Precision::Float, true, true) => pass.scaled::<FUSES, true>(at, method, to_shifted_int),
            (Precision::Float | Precision::Float16, ..) => {
                pass.scaled::<FUSES, false>(at, method, |value, _| value.to_bits())
            }
            (Precision::BFloat16, ..) => pass.scaled::<FUSES, false>(at, method, |value, _| round_to_bfloat16(value)),
        };
        if precision == Precision::Float16 {
            round::<I, Float16>(out.cast(), len);
        }
        let again = Pass { x: out, ..pass };
        match (is_int, has_zeros) {
            (true, _) if precision == Precision::Float => {}
            (true, false) => _ = again.each(at, |x, by| to_int(x, by.zero_point)),
            (true, true) => _ = again.each(at, |x, by| to_shifted_int(x, by.zero_point)),
            (false, true) => _ = again.each(at, |x, by| (x + by.zero_point).to_bits()),
            (false, false) => {}
        }
        end
    }
}

/// Whether elements of a type are quantized: a float of 16 or 32 bits.
fn is_value(data_type: DataType) -> bool {
    matches!(data_type, DataType::Float | DataType::Float16 | DataType::BFloat16)
}

/// Rounds floats to a narrower type.
///
/// # Safety
/// `len` floats can be read and written; the processor has the instructions of `I`.
#[inline(always)]
unsafe fn round<I: Isa, P: Widen + Narrow>(x: *mut u8, len: usize) {
    let mut half = Memory::<MOST_STEP_BYTES>::new();
    let half = half.start();
    // SAFETY: the caller's; the memory has the bytes of a step.
    unsafe {
        let narrow = I::step::<f32, P>(&Context::plain(DataType::Float, P::DATA_TYPE));
        let widen = I::step::<P, f32>(&Context::plain(P::DATA_TYPE, DataType::Float));
        for step in (0..len).step_by(I::STEP) {
            narrow(x.add(4 * step), half);
            widen(half, x.add(4 * step));
        }
    }
}

/// [`ScaleKernels::divisors`].
#[inline(always)]
pub(crate) fn divisors<const FUSES: bool>(scales: &Floats, reciprocals: &mut Floats) -> Method {
    let (mut are_powers, mut are_moderate) = (true, true);
    for (scale, reciprocal) in scales.iter().zip(reciprocals) {
        let scale = f32::from_le_bytes(*scale);
        are_powers &= is_power_of_two(scale);
        are_moderate &= is_moderate(scale);
        *reciprocal = (1.0 / scale).to_le_bytes();
    }
    match (are_powers, are_moderate) {
        (true, _) if FUSES => Method::Multiply,
        (true, _) => Method::MultiplyAny,
        (_, true) if FUSES => Method::Reciprocal,
        _ => Method::Divide,
    }
}

/// [`ScaleKernels::factors`].
#[inline(always)]
pub(crate) fn factors<const FUSES: bool>(scales: &Floats) -> Method {
    let are_finite = scales.iter().fold(true, |are_finite, scale| are_finite & f32::from_le_bytes(*scale).is_finite());
    if FUSES && are_finite { Method::Multiply } else { Method::MultiplyAny }
}

/// [`ScaleKernels::greatest`].
#[inline(always)]
pub(crate) fn greatest(x: &[u8], width: usize, run: usize, out: &mut [u32]) {
    match width {
        2 => of_2_bytes::greatest(x, run, out),
        _ => of_4_bytes::greatest(x, run, out),
    }
}

/// The greatest magnitudes of floats of a width, by their bits without the sign.
macro_rules! greatest {
    ($name:ident, $bits:ty) => {
        mod $name {
            const WIDTH: usize = size_of::<$bits>();
            /// Maxima beside each other in a long run. Of fewer, the compiler unrolls a step before it looks for
            /// vectors, and finds none.
            const LANES: usize = 128;

            #[inline(always)]
            fn magnitude(bytes: &[u8; WIDTH]) -> $bits {
                <$bits>::from_le_bytes(*bytes) & (<$bits>::MAX >> 1)
            }

            #[inline(always)]
            pub(super) fn greatest(x: &[u8], run: usize, out: &mut [u32]) {
                let x = x.as_chunks().0;
                // The compiler makes a few instructions of runs whose length it knows.
                match run {
                    16 => each::<16>(x, out, of_few),
                    32 => each::<32>(x, out, of_few),
                    64 => each::<64>(x, out, of_few),
                    128 => each::<128>(x, out, |run| {
                        let halves = run.as_chunks::<64>().0;
                        halves.iter().map(of_few).fold(0, Ord::max)
                    }),
                    _ => x.chunks(run).zip(out).for_each(|(run, out)| *out = of_many(run).into()),
                }
            }

            #[inline(always)]
            fn each<const RUN: usize>(
                x: &[[u8; WIDTH]],
                out: &mut [u32],
                greatest: impl Fn(&[[u8; WIDTH]; RUN]) -> $bits,
            ) {
                x.as_chunks::<RUN>().0.iter().zip(out).for_each(|(run, out)| *out = greatest(run).into());
            }

            /// That of a run of 16 or a multiple, halved until one is left: the steps are written out, because the
            /// compiler does not find them in a loop.
            #[inline(always)]
            fn of_few<const RUN: usize>(run: &[[u8; WIDTH]; RUN]) -> $bits {
                let by_16: [$bits; 16] = std::array::from_fn(|i| {
                    run.as_chunks::<16>().0.iter().map(|part| magnitude(&part[i])).fold(0, Ord::max)
                });
                let by_8: [$bits; 8] = std::array::from_fn(|i| by_16[i].max(by_16[i + 8]));
                let by_4: [$bits; 4] = std::array::from_fn(|i| by_8[i].max(by_8[i + 4]));
                let by_2: [$bits; 2] = std::array::from_fn(|i| by_4[i].max(by_4[i + 2]));
                by_2[0].max(by_2[1])
            }

            #[inline(always)]
            fn of_many(run: &[[u8; WIDTH]]) -> $bits {
                let mut lanes = [0; LANES];
                let (chunks, rest) = run.as_chunks::<LANES>();
                for chunk in chunks {
                    for (lane, bytes) in lanes.iter_mut().zip(chunk) {
                        *lane = magnitude(bytes).max(*lane);
                    }
                }
                for (lane, bytes) in lanes.iter_mut().zip(rest) {
                    *lane = magnitude(bytes).max(*lane);
                }
                lanes.into_iter().fold(0, |greatest: $bits, lane| greatest.max(lane))
            }
        }
    };
}

greatest!(of_2_bytes, u16);
greatest!(of_4_bytes, u32);
