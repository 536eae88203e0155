//! Scaled casts: the elements of a step are widened to lanes of `f32`, scaled, and narrowed, without leaving the
//! registers. Each quarter of a step has its scales in vectors, which are loaded beside it.
//!
//! Every `unsafe fn` here asks what [`crate::kernel::scale::ScaledKernel`] asks, of the instructions of `L`.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::small_float::{self, RuleLanes};
use super::step::parts;
use super::wide::{self, store, store_codes};
use crate::element::{Class, DataType, Element, class};
use crate::kernel::Context;
use crate::kernel::lanes::Lanes;
use crate::kernel::scale::beside::Beside;
use crate::kernel::scale::{Array, Memory, Method, Part, Spread, Stage, walk};
use crate::packed::bits;

/// Quantizes to `D`, an integer by its width alone.
#[inline(always)]
pub(crate) unsafe fn quantize<L: Lanes, D: Element>(part: Part<'_>, stage: &Stage<'_>) {
    match (stage.scales.spread == Spread::Each, L::FUSES && stage.method == Method::Reciprocal) {
        (false, false) => quantize_by::<L, D, false, false>(part, stage),
        (false, true) => quantize_by::<L, D, false, true>(part, stage),
        (true, false) => quantize_by::<L, D, true, false>(part, stage),
        (true, true) => quantize_by::<L, D, true, true>(part, stage),
    }
}

#[inline(always)]
unsafe fn quantize_by<L: Lanes, D: Element, const EACH: bool, const DIVIDES: bool>(part: Part<'_>, stage: &Stage<'_>) {
    /// Adding 1.5 * 2^23 rounds to an integer, in the low bits of the sum.
    const SHIFT: f32 = 12_582_912.0;
    let rules = RuleLanes::<L>::new::<f32, D>(&stage.context.rules);
    let from = stage.context.from;
    let beside = Beside::new(stage);
    walk::<L>(
        part,
        [from.info().bits as usize, bits::<D>()],
        #[inline(always)]
        |src, dst, element| {
            let at = |place: usize| element + place * (L::BYTES / 4);
            let values = values::<L>(from, src);
            if let Class::SmallFloat(format) = const { class::<D>() } {
                let limits = parts!(i => beside.of::<L, EACH>(Array::Highs, at(i)));
                let codes = small_float::scaled_codes::<L>(
                    format,
                    values,
                    limits,
                    &rules,
                    #[inline(always)]
                    |i, x| beside.scaled::<L, EACH, DIVIDES>(x, at(i)),
                );
                return store_codes::<L, D>(dst, codes);
            }
            let mut integers = Memory::<{ 4 * 64 }>::new();
            let integers = integers.start();
            for (i, value) in values.into_iter().enumerate() {
                // NaN becomes the lowest.
                let low = L::max_f32(value, beside.of::<L, EACH>(Array::Lows, at(i)));
                let x = L::min_f32(low, beside.of::<L, EACH>(Array::Highs, at(i)));
                let rounded =
                    L::add_f32(beside.scaled::<L, EACH, DIVIDES>(x, at(i)), L::splat::<32>(SHIFT.to_bits().into()));
                store::<L>(integers, i, L::add_f32(rounded, beside.of::<L, EACH>(Array::Zeros, at(i))));
            }
            wide::step::<L, i32, D>(integers, dst, &rules);
        },
    );
}

/// A step of floats of 16 or 32 bits as lanes.
#[inline(always)]
unsafe fn values<L: Lanes>(from: DataType, src: *const u8) -> [L::V; 4] {
    match from {
        DataType::Float16 => parts!(i => L::load_f16(src.add(i * L::BYTES / 2))),
        DataType::BFloat16 => parts!(i => wide::load_bf16::<L>(src.add(i * L::BYTES / 2))),
        DataType::Float => parts!(i => L::load(src.add(i * L::BYTES))),
        _ => unreachable!("not a float of 16 or 32 bits"),
    }
}

/// Dequantizes from `S`, by the class and width of which the codes are widened.
#[inline(always)]
pub(crate) unsafe fn dequantize<L: Lanes, S: Element>(part: Part<'_>, stage: &Stage<'_>) {
    match stage.scales.spread {
        Spread::Each => dequantize_by::<L, S, true>(part, stage),
        Spread::One | Spread::Chunks => dequantize_by::<L, S, false>(part, stage),
    }
}

#[inline(always)]
unsafe fn dequantize_by<L: Lanes, S: Element, const EACH: bool>(part: Part<'_>, stage: &Stage<'_>) {
    let to = stage.context.to;
    let beside = Beside::new(stage);
    let widen = super::one_step::<L, S, f32>(&Context::plain(stage.context.from, DataType::Float));
    walk::<L>(
        part,
        [bits::<S>(), to.info().bits as usize],
        #[inline(always)]
        |src, dst, element| {
            let mut values = Memory::<{ 4 * 64 }>::new();
            let values = values.start();
            widen(src, values);
            let products = parts!(i => {
                beside.product::<L, S, EACH>(L::load(values.add(i * L::BYTES)), element + i * (L::BYTES / 4))
            });
            match to {
                DataType::Float => {
                    for (i, product) in products.into_iter().enumerate() {
                        store::<L>(dst, i, product);
                    }
                }
                DataType::Float16 => {
                    for i in 0..2 {
                        store::<L>(dst, i, L::f32_to_f16([products[2 * i], products[2 * i + 1]]));
                    }
                }
                DataType::BFloat16 => {
                    let rounded = parts!(i => {
                        // The one NaN there is stays NaN.
                        let odd = L::and(L::shr::<32, 16>(products[i]), L::splat::<32>(1));
                        L::add::<32>(L::add::<32>(products[i], L::splat::<32>(0x7fff)), odd)
                    });
                    for i in 0..2 {
                        store::<L>(dst, i, L::high_halves::<32>([rounded[2 * i], rounded[2 * i + 1]]));
                    }
                }
                _ => unreachable!("not a float of 16 or 32 bits"),
            }
        },
    );
}
