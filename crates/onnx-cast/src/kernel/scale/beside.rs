//! What stands beside the elements of a step, and what it makes of their lanes.
//!
//! Every `unsafe fn` here asks that the processor has the instructions of `L`, and that the arrays hold what the
//! elements of a step need, from one of the tile on.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::{Array, CHUNK, Spread, Stage};
use crate::element::{DataType, Element};
use crate::kernel::lanes::Lanes;

/// The scales of a tile.
pub(crate) struct Beside<'a> {
    stage: &'a Stage<'a>,
    /// All bits, or none where there is one scale.
    mask: usize,
}

impl<'a> Beside<'a> {
    /// What the stage holds.
    #[inline(always)]
    pub(crate) fn new(stage: &'a Stage<'a>) -> Self {
        Beside { stage, mask: if stage.scales.spread == Spread::One { 0 } else { usize::MAX } }
    }

    /// The numbers of an array for a quarter of a step that begins at an element of the tile.
    #[inline(always)]
    pub(crate) unsafe fn of<L: Lanes, const EACH: bool>(&self, array: Array, element: usize) -> L::V {
        let numbers = self.stage.scales.array(array);
        if EACH {
            return L::load(numbers.add(element).cast());
        }
        L::splat::<32>(numbers.add((element / CHUNK) & self.mask).read().to_bits().into())
    }

    /// A quarter's quotients, corrected by their remainders, or products.
    #[inline(always)]
    pub(crate) unsafe fn scaled<L: Lanes, const EACH: bool, const DIVIDES: bool>(
        &self,
        x: L::V,
        element: usize,
    ) -> L::V {
        let factor = self.of::<L, EACH>(Array::Factors, element);
        let estimate = L::mul_f32(x, factor);
        if !DIVIDES {
            return estimate;
        }
        let remainder = L::mul_add_f32(estimate, self.of::<L, EACH>(Array::Divisors, element), x);
        L::mul_add_f32(remainder, factor, estimate)
    }

    /// A quarter's codes of `S`, as floats, less their zero points and times their scales.
    #[inline(always)]
    pub(crate) unsafe fn product<L: Lanes, S: Element, const EACH: bool>(&self, value: L::V, element: usize) -> L::V {
        const MAGNITUDE: u64 = i32::MAX as u64;
        let is_float = const { S::DATA_TYPE.is_float() };
        let number = if is_float { value } else { L::add_f32(value, self.of::<L, EACH>(Array::Zeros, element)) };
        let product = L::mul_f32(number, self.of::<L, EACH>(Array::Factors, element));
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
