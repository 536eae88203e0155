//! The loops of scaled casts over floats in the nearest cache: plain Rust, which each instruction set compiles with its
//! features, and which the compiler vectorises.

use super::{CHUNK, Granularity, Method, Quantity, ScaleContext, Scaling, Unwritten};
use crate::element::DataType;
use crate::packed::written;
use crate::scalar::block_scale::Recipe;
use crate::scalar::scaled::{
    Precision, is_moderate, is_power_of_two, product, quotient, quotient_by_reciprocal, quotient_to_round,
    round_to_bfloat16, round_to_low_bits,
};
use core::mem::MaybeUninit;

/// [`super::ScaleKernels::prepare`], for kernels that fuse multiplication and addition, or do not.
///
/// # Safety
/// The scales and, if there are any, zero points are written.
#[inline(always)]
pub(crate) unsafe fn prepare(
    fuses: bool,
    [factors, divisors, zeros, lows, highs]: [Unwritten<'_>; 5],
    scaling: Scaling,
    has_zeros: bool,
    range: [f32; 2],
) -> Method {
    match &mut *zeros {
        _ if has_zeros => {}
        // A call that fills memory may store in a way that the next read waits for.
        [zero] => *zero = MaybeUninit::new(0.0),
        zeros => zeros.fill(MaybeUninit::new(0.0)),
    }
    // SAFETY: the caller promises that the scales are written, and zero points if there are any; else the lines above
    // wrote as many zeros.
    let (divisors, zeros) = unsafe { (written(divisors), written(zeros)) };
    match scaling {
        Scaling::Divide => to_divide(fuses, factors, divisors, zeros, [lows, highs], range),
        Scaling::Multiply => to_multiply(factors, divisors),
        Scaling::Dequantize { has_infinity } => to_dequantize(factors, divisors, zeros, has_infinity),
    }
}

/// What quotients need. Where all scales are powers of two, the reciprocals are all.
#[inline(always)]
fn to_divide(
    fuses: bool,
    factors: Unwritten<'_>,
    divisors: &mut [f32],
    zeros: &[f32],
    [lows, highs]: [Unwritten<'_>; 2],
    [low, high]: [f32; 2],
) -> Method {
    let (mut are_powers, mut are_moderate) = (true, true);
    for ((((factor, divisor), zero), lowest), highest) in
        factors.iter_mut().zip(divisors).zip(zeros).zip(lows).zip(highs)
    {
        let (scale, zero) = (*divisor, *zero);
        are_powers &= is_power_of_two(scale);
        are_moderate &= is_moderate(scale) & (scale > 0.0);
        factor.write(1.0 / scale);
        *divisor = -scale;
        lowest.write((low - zero) * scale);
        highest.write((high - zero) * scale);
    }
    match (are_powers, are_moderate) {
        (true, true) => Method::Multiply,
        (_, true) if fuses => Method::Reciprocal,
        _ => Method::Divide,
    }
}

/// What products of values need.
#[inline(always)]
fn to_multiply(factors: Unwritten<'_>, divisors: &[f32]) -> Method {
    let mut are_moderate = true;
    for (factor, divisor) in factors.iter_mut().zip(divisors) {
        are_moderate &= is_moderate(*divisor) & (*divisor > 0.0);
        factor.write(*divisor);
    }
    if are_moderate { Method::Multiply } else { Method::MultiplyAny }
}

/// What products of codes need.
#[inline(always)]
fn to_dequantize(factors: Unwritten<'_>, divisors: &[f32], zeros: &mut [f32], has_infinity: bool) -> Method {
    let (mut are_finite, mut has_zero) = (true, false);
    for ((factor, divisor), zero) in factors.iter_mut().zip(divisors).zip(zeros) {
        let scale = *divisor;
        are_finite &= scale.is_finite();
        has_zero |= scale == 0.0;
        factor.write(scale);
        *zero = -*zero;
    }
    if are_finite && !(has_infinity && has_zero) { Method::Multiply } else { Method::MultiplyAny }
}

/// [`super::ScaleKernels::wide_scales`].
#[inline(always)]
pub(crate) fn wide_scales(recipe: Recipe, global: f32, scales: &mut [[u8; 4]]) {
    for scale in scales {
        *scale = recipe.wide_scale(f32::from_le_bytes(*scale), global).to_le_bytes();
    }
}

/// [`super::ScaleKernels::factors`].
#[inline(always)]
pub(crate) fn factors(recipe: Recipe, global: f32, scales: &mut [[u8; 4]]) {
    for scale in scales {
        *scale = recipe.factor(f32::from_le_bytes(*scale), global).to_le_bytes();
    }
}

/// What an element is scaled by.
#[derive(Clone, Copy)]
struct Scale {
    factor: f32,
    divisor: f32,
    zero_point: f32,
}

/// Writes the bits that `f` gives for each float of whole chunks and its scale, from an element of the tile on.
#[inline(always)]
fn each(x: &mut [[u8; 4]], context: &ScaleContext<'_>, begin: usize, f: impl Fn(f32, Scale) -> u32) {
    let scales = &context.scales;
    let numbers = [Quantity::Factor, Quantity::Divisor, Quantity::Zero].map(|quantity| scales.numbers(quantity));
    for (chunk, first) in x.as_chunks_mut::<CHUNK>().0.iter_mut().zip((begin..).step_by(CHUNK)) {
        if scales.granularity == Granularity::Element {
            // SAFETY: each element has a scale, and a last chunk's padding too.
            let [factors, divisors, zeros] =
                numbers.map(|number| unsafe { number.add(first).cast::<[f32; CHUNK]>().read_unaligned() });
            for (i, x) in chunk.iter_mut().enumerate() {
                let scale = Scale { factor: factors[i], divisor: -divisors[i], zero_point: zeros[i] };
                *x = f(f32::from_le_bytes(*x), scale).to_le_bytes();
            }
        } else {
            let entry = if let Granularity::Run(power) = scales.granularity { first >> power } else { 0 };
            // SAFETY: each run has a scale.
            let [factor, divisor, zero_point] = numbers.map(|number| unsafe { number.add(entry).read() });
            let scale = Scale { factor, divisor: -divisor, zero_point };
            for x in chunk {
                *x = f(f32::from_le_bytes(*x), scale).to_le_bytes();
            }
        }
    }
}

/// Quotients, or products, each finished with its zero point.
#[inline(always)]
fn scaled<const FUSES: bool, const INT: bool>(
    x: &mut [[u8; 4]],
    context: &ScaleContext<'_>,
    begin: usize,
    finish: impl Fn(f32, f32) -> u32,
) {
    match context.method {
        Method::Multiply if FUSES => each(x, context, begin, |x, by| finish(x * by.factor, by.zero_point)),
        Method::Multiply | Method::MultiplyAny => {
            each(x, context, begin, |x, by| finish(product(x, 0.0, by.factor), by.zero_point));
        }
        Method::Reciprocal if FUSES && INT => {
            each(x, context, begin, |x, by| finish(quotient_to_round(x, by.divisor, by.factor), by.zero_point));
        }
        // A zero point that is added makes 0 of -0, and leaves the least negative number.
        Method::Reciprocal if FUSES && !context.adds_zero() => {
            each(x, context, begin, |x, by| finish(quotient_by_reciprocal(x, by.divisor, by.factor), by.zero_point));
        }
        Method::Reciprocal | Method::Divide => {
            each(x, context, begin, |x, by| finish(quotient(x, by.divisor), by.zero_point));
        }
    }
}

/// [`super::ScaleKernels::apply`]: products, or quotients, which are rounded to integers of 32 bits or to bfloat16
/// where that is all there is to do, but not to float16.
#[inline(always)]
pub(crate) fn apply<const FUSES: bool>(x: &mut [[u8; 4]], context: &ScaleContext<'_>, begin: usize) {
    if !is_value(context.from) {
        return each(x, context, begin, |x, by| product(x, -by.zero_point, by.factor).to_bits());
    }
    match (context.precision, context.to.is_float()) {
        (Precision::Float, false) => scaled::<FUSES, true>(x, context, begin, to_int(context.range)),
        (Precision::Float | Precision::Float16, _) => {
            scaled::<FUSES, false>(x, context, begin, |value, _| value.to_bits());
        }
        (Precision::BFloat16, _) => scaled::<FUSES, false>(x, context, begin, |value, _| round_to_bfloat16(value)),
    }
}

/// [`super::ScaleKernels::finish`]: quotients that were rounded to the precision become integers, and floats have their
/// zero points added.
#[inline(always)]
pub(crate) fn finish(x: &mut [[u8; 4]], context: &ScaleContext<'_>, begin: usize) {
    if !is_value(context.from) {
        return;
    }
    if !context.to.is_float() {
        if context.precision != Precision::Float {
            let to_int = to_int(context.range);
            each(x, context, begin, |x, by| to_int(x, by.zero_point));
        }
    } else if context.adds_zero() {
        each(x, context, begin, |x, by| (x + by.zero_point).to_bits());
    }
}

/// Rounds a quotient to an integer, to which its zero point is added, within a range.
#[inline(always)]
fn to_int([low, high]: [f32; 2]) -> impl Fn(f32, f32) -> u32 {
    move |value, zero_point| {
        let value = round_to_low_bits(value, low - zero_point, high - zero_point);
        value.wrapping_add(round_to_low_bits(zero_point, zero_point, zero_point))
    }
}

/// Whether elements of a type are quantized: a float of 16 or 32 bits.
fn is_value(data_type: DataType) -> bool {
    matches!(data_type, DataType::Float | DataType::Float16 | DataType::BFloat16)
}
