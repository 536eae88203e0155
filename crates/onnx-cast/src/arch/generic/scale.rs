//! Scaled casts: the elements of a step are widened to lanes of `f32`, scaled, and narrowed, without leaving the
//! registers.
//!
//! Every `unsafe fn` here asks what [`crate::kernel::scale::ScaledKernel`] asks, of the instructions of `L`.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

pub(crate) mod amax;

use super::small_float::{self, RuleLanes};
use super::step::{AHEAD_OF_SCALED, Walk, parts, walk};
use super::wide::{self, store, store_codes};
use crate::element::{Class, DataType, Element, class};
use crate::kernel::lanes::Lanes;
use crate::kernel::scale::{CHUNK, Granularity, ManyQuantities, Method, PendingLine, Quantity, ScaleContext};
use crate::kernel::{Context, Task};
use crate::packed::bits;
use core::mem::MaybeUninit;

/// [`Granularity`] as a constant.
const TENSOR: u8 = 0;
const RUNS: u8 = 1;
const ELEMENTS: u8 = 2;

/// The quantities of a tile's scales as lanes, and the arithmetic that applies them. A quarter of a step begins at an
/// element of the tile.
struct ScaleLanes<'a, L: Lanes, const BY: u8> {
    context: &'a ScaleContext<'a>,
    /// Elements of a run are 2 to this power.
    run: u32,
    /// Those of the one scale of a tensor, which stay in registers.
    one: [L::V; 5],
}

impl<'a, L: Lanes, const BY: u8> ScaleLanes<'a, L, BY> {
    #[inline(always)]
    unsafe fn new(context: &'a ScaleContext<'a>) -> Self {
        let mut one = [L::splat::<32>(0); 5];
        if BY == TENSOR {
            for quantity in Quantity::ALL {
                let number = context.scales.numbers_of(quantity, 1);
                one[quantity as usize] = L::splat::<32>(number.read().to_bits().into());
            }
        }
        let run = if let Granularity::Run(power) = context.scales.granularity { power } else { 0 };
        ScaleLanes { context, run, one }
    }

    /// A quantity of a quarter's elements.
    #[inline(always)]
    unsafe fn get(&self, quantity: Quantity, element: usize) -> L::V {
        let numbers = self.context.scales.numbers_of(quantity, ManyQuantities::LEN);
        match BY {
            TENSOR => self.one[quantity as usize],
            RUNS => L::splat::<32>(numbers.add(element >> self.run).read().to_bits().into()),
            _ => L::load(numbers.add(element).cast()),
        }
    }

    /// A quarter's products.
    #[inline(always)]
    unsafe fn multiplied(&self, x: L::V, element: usize) -> L::V {
        L::mul_f32(x, self.get(Quantity::Factor, element))
    }

    /// A quarter's quotients, corrected by their remainders.
    #[inline(always)]
    unsafe fn divided(&self, x: L::V, element: usize) -> L::V {
        let factor = self.get(Quantity::Factor, element);
        let estimate = L::mul_f32(x, factor);
        let remainder = L::mul_add_f32(estimate, self.get(Quantity::Divisor, element), x);
        L::mul_add_f32(remainder, factor, estimate)
    }

    /// A quarter's magnitudes, scaled, of which none is above that of overflow. Of NaN it is any number, or NaN.
    /// Products are cut off after they are scaled, so that they need no limit for each scale.
    #[inline(always)]
    unsafe fn magnitudes(&self, x: L::V, element: usize, divides: bool, limit: L::V) -> L::V {
        if divides {
            self.divided(L::min_magnitude(x, self.get(Quantity::High, element)), element)
        } else {
            L::min_magnitude(self.multiplied(x, element), limit)
        }
    }

    /// A quarter's integers, none of them above `highest`; NaN is the least integer, as what is too low is.
    #[inline(always)]
    unsafe fn integers(&self, x: L::V, element: usize, divides: bool, highest: L::V) -> L::V {
        L::round_to_int(if divides {
            self.divided(L::min_f32(self.get(Quantity::High, element), x), element)
        } else {
            L::min_f32(highest, self.multiplied(x, element))
        })
    }

    /// The same with zero points; NaN is the lowest result.
    #[inline(always)]
    unsafe fn integers_and_zeros(&self, x: L::V, element: usize, divides: bool) -> L::V {
        let x = L::max_f32(x, self.get(Quantity::Low, element));
        let x = L::min_f32(x, self.get(Quantity::High, element));
        let scaled = if divides { self.divided(x, element) } else { self.multiplied(x, element) };
        L::add::<32>(L::round_to_int(scaled), L::round_to_int(self.get(Quantity::Zero, element)))
    }

    /// A quarter's codes of `S`, as floats, less their zero points and times their scales.
    #[inline(always)]
    unsafe fn product<S: Element>(&self, value: L::V, element: usize) -> L::V {
        const MAGNITUDE: u64 = i32::MAX as u64;
        let is_float = const { S::DATA_TYPE.is_float() };
        // Codes that are already `f32` may come from any type, so they may have zero points.
        let has_zero = !is_float || matches!(S::DATA_TYPE, DataType::Float) && self.context.scales.has_zeros;
        let number = if has_zero { L::add_f32(value, self.get(Quantity::Zero, element)) } else { value };
        let product = L::mul_f32(number, self.get(Quantity::Factor, element));
        // Of other types, and where a product keeps it, NaN has no payload.
        if !(is_float && !L::FUSES || matches!(S::DATA_TYPE, DataType::Float8E5M2)) {
            return product;
        }
        let infinity = L::splat::<32>(f32::INFINITY.to_bits().into());
        let is_nan = L::gt::<32>(L::and(value, L::splat::<32>(MAGNITUDE)), infinity);
        let nan = L::or(L::and(value, L::splat::<32>(!MAGNITUDE)), L::splat::<32>(f32::NAN.to_bits().into()));
        L::select::<32>(is_nan, nan, product)
    }
}

/// Quantizes to `D`, an integer by its width alone.
#[inline(always)]
pub(crate) unsafe fn quantize<L: Lanes, D: Element>(
    task: &Task<'_>,
    context: &ScaleContext<'_>,
    pending: Option<&mut PendingLine>,
) {
    match context.scales.granularity {
        Granularity::Tensor => quantize_by::<L, D, TENSOR>(task, context, None),
        Granularity::Run(_) => quantize_by::<L, D, RUNS>(task, context, pending),
        Granularity::Element => quantize_by::<L, D, ELEMENTS>(task, context, None),
    }
}

#[inline(always)]
unsafe fn quantize_by<L: Lanes, D: Element, const BY: u8>(
    task: &Task<'_>,
    context: &ScaleContext<'_>,
    pending: Option<&mut PendingLine>,
) {
    let (from, divides) = (context.from, L::FUSES && context.method == Method::Reciprocal);
    let rules = RuleLanes::<L>::new::<f32, D>(&context.rules);
    let highest = L::splat::<32>(context.range[1].to_bits().into());
    let scales = ScaleLanes::<L, BY>::new(context);
    let chunk = if BY == RUNS { CHUNK } else { 1 };
    let bits = [from.info().bits as usize, bits::<D>()];
    walk::<L>(
        task,
        Walk { bits, computes: true, ahead: AHEAD_OF_SCALED, chunk, pending },
        #[inline(always)]
        |src, dst, element| {
            let values = values::<L>(from, src);
            let at = |quarter: usize| element + quarter * (L::BYTES / 4);
            if let Class::SmallFloat(format) = const { class::<D>() } {
                let magnitudes = parts!(i => scales.magnitudes(values[i], at(i), divides, rules.limit()));
                let codes = small_float::scaled_codes::<L>(format, values, magnitudes, &rules, context.is_finite);
                return store_codes::<L, D>(dst, codes);
            }
            let integers = if context.scales.has_zeros {
                parts!(i => scales.integers_and_zeros(values[i], at(i), divides))
            } else {
                parts!(i => scales.integers(values[i], at(i), divides, highest))
            };
            store_saturated::<L, D>(dst, integers, context.range[0]);
        },
    );
}

/// Stores a step of integers, none of them too high, as integers of the width of `D`; they are signed where the lowest
/// is negative.
#[inline(always)]
unsafe fn store_saturated<L: Lanes, D: Element>(dst: *mut u8, integers: [L::V; 4], lowest: f32) {
    let (signed, [a, b, c, d]) = (lowest < 0.0, integers);
    if const { bits::<D>() == 16 } {
        for (i, pair) in [[a, b], [c, d]].into_iter().enumerate() {
            store::<L>(dst, i, if signed { L::saturate_to_16::<true>(pair) } else { L::saturate_to_16::<false>(pair) });
        }
        return;
    }
    let bytes = if signed {
        L::max_i8(L::saturate_to_8::<true>(integers), L::splat::<8>(lowest as i64 as u64))
    } else {
        L::saturate_to_8::<false>(integers)
    };
    if const { bits::<D>() == 8 } {
        return L::store(dst, bytes);
    }
    store_codes::<L, D>(dst, L::and(bytes, L::splat::<8>(const { (1 << (bits::<D>() % 8)) - 1 })));
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

/// Dequantizes codes of the class and width of `S`, or codes that are already `float`.
#[inline(always)]
pub(crate) unsafe fn dequantize<L: Lanes, S: Element>(
    task: &Task<'_>,
    context: &ScaleContext<'_>,
    pending: Option<&mut PendingLine>,
) {
    match context.scales.granularity {
        Granularity::Tensor => dequantize_by::<L, S, TENSOR>(task, context, None),
        Granularity::Run(_) => dequantize_by::<L, S, RUNS>(task, context, pending),
        Granularity::Element => dequantize_by::<L, S, ELEMENTS>(task, context, None),
    }
}

#[inline(always)]
unsafe fn dequantize_by<L: Lanes, S: Element, const BY: u8>(
    task: &Task<'_>,
    context: &ScaleContext<'_>,
    pending: Option<&mut PendingLine>,
) {
    let to = context.to;
    let scales = ScaleLanes::<L, BY>::new(context);
    let widen = super::one_step::<L, S, f32>(&Context::plain(context.from, DataType::Float));
    let chunk = if BY == RUNS { CHUNK } else { 1 };
    let bits = [bits::<S>(), to.info().bits as usize];
    walk::<L>(
        task,
        Walk { bits, computes: true, ahead: AHEAD_OF_SCALED, chunk, pending },
        #[inline(always)]
        |src, dst, element| {
            let mut values = Floats(MaybeUninit::uninit());
            let values = values.0.as_mut_ptr().cast::<u8>();
            widen(src, values);
            let products = parts!(i => {
                scales.product::<S>(L::load(values.add(i * L::BYTES)), element + i * (L::BYTES / 4))
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
                    for i in 0..2 {
                        store::<L>(dst, i, L::f32_to_bf16([products[2 * i], products[2 * i + 1]]));
                    }
                }
                _ => unreachable!("not a float of 16 or 32 bits"),
            }
        },
    );
}

/// The floats of the longest step.
#[repr(align(64))]
struct Floats(MaybeUninit<[f32; 64]>);
