//! Wide sources as `float8e8m0`, rounded up and saturated, which is the default: the exponent of the least power of two
//! that is not below the value. Under other rules [`small_float::power_code`](super::small_float::power_code) casts,
//! with twice the instructions.
//!
//! A code is 0 up to 2^-127, 254 from 2^127 on, and 255 for NaN.
//!
//! Every `unsafe fn` here asks two things of its caller: the processor has the instructions of `L`, and the bytes of a
//! step's elements of `S` can be read from `src`.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::step::parts;
use super::wide::{f32_lanes, int_lanes, load_pair};
use crate::element::{Class, Element, class};
use crate::kernel::lanes::Lanes;
use crate::packed::bits;

/// The code of NaN.
const NAN: u64 = 0xff;

/// Whether a pair is cast here, under the default rules; not where the backend is to be small.
pub(super) const fn applies<L: Lanes, S: Element, D: Element>() -> bool {
    matches!(class::<D>(), Class::E8M0) && bits::<S>() >= 16 && !L::IS_SMALL
}

/// The codes of a step's elements, one to a byte.
#[inline(always)]
pub(super) unsafe fn codes<L: Lanes, S: Element>(src: *const u8) -> L::V {
    match const { class::<S>() } {
        Class::BF16 => {
            L::low_halves::<16>([of_float::<L, 16>(L::load(src)), of_float::<L, 16>(L::load(src.add(L::BYTES)))])
        }
        Class::F32 | Class::F16 => L::low_bytes(parts!(i => of_float::<L, 32>(f32_lanes::<L, S, false>(src, i)))),
        Class::F64 => L::low_bytes(parts!(i => of_double::<L>(load_pair::<L, S>(src, i)))),
        Class::Int { bits: 64, signed } => L::low_bytes(parts!(i => of_long::<L>(load_pair::<L, S>(src, i), signed))),
        Class::Int { .. } => L::low_bytes(parts!(i => of_int::<L, S>(int_lanes::<L, S>(src, i)))),
        Class::SmallFloat(_) | Class::E8M0 | Class::Bool => unreachable!("looked up"),
    }
}

/// Of the upper `W` bits of `f32`.
#[inline(always)]
unsafe fn of_float<L: Lanes, const W: usize>(value: L::V) -> L::V {
    let lanes = |value: u32| L::splat::<W>((value >> (32 - W)).into());
    let raised = L::add::<W>(L::min_u::<W>(value, lanes(0x7f00_0000)), lanes(0x007f_ffff));
    let code = if W == 16 { L::shr::<W, 7>(raised) } else { L::shr::<W, 23>(raised) };
    // As signed integers, the bits of negative floats are below those of every other. 2^-127 is subnormal.
    let code = L::select::<W>(L::gt::<W>(value, lanes(0x0040_0000)), code, L::splat::<W>(0));
    let is_nan =
        if W == 16 { L::gt::<W>(L::and(value, lanes(0x7fff_ffff)), lanes(0x7f80_0000)) } else { L::is_nan_f32(value) };
    L::select::<W>(is_nan, L::splat::<W>(NAN), code)
}

/// Of doubles, by their upper halves, with the lowest bit set where the lower ones are not zero.
#[inline(always)]
unsafe fn of_double<L: Lanes>(value: [L::V; 2]) -> L::V {
    let lanes = |value: u32| L::splat::<32>(value.into());
    let (upper, lower) = (L::high_halves::<64>(value), L::low_halves::<64>(value));
    let upper = L::select::<32>(L::eq::<32>(lower, lanes(0)), upper, L::or(upper, lanes(1)));
    let (least, most) = ((1023 - 127) << 20, (1023 + 127) << 20);
    let within = L::max_i32(L::min_i32(upper, lanes(most)), lanes(least));
    let code = L::shr::<32, 20>(L::sub::<32>(within, lanes(least - 0x000f_ffff)));
    let is_nan = L::gt::<32>(L::and(upper, lanes(0x7fff_ffff)), lanes(0x7ff0_0000));
    L::select::<32>(is_nan, L::splat::<32>(NAN), code)
}

/// Of integers in lanes of 32 bits: the power that is not below a number is above the one before it.
#[inline(always)]
unsafe fn of_int<L: Lanes, S: Element>(value: L::V) -> L::V {
    let (zero, one) = (L::splat::<32>(0), L::splat::<32>(1));
    let before = L::sub::<32>(value, one);
    let is_short = const { bits::<S>() == 16 };
    let power = if is_short { L::power_above::<true>(before) } else { L::power_above::<false>(before) };
    // Without a sign, and of 32 bits, the top bit may be set.
    if !is_short && const { matches!(class::<S>(), Class::Int { signed: false, .. }) } {
        return L::select::<32>(L::eq::<32>(value, zero), zero, power);
    }
    L::select::<32>(L::gt::<32>(value, zero), power, zero)
}

/// Of integers of 64 bits: by their upper halves, less 1 where the lower ones are zero, or if the upper ones are, by the
/// lower ones less 1.
#[inline(always)]
unsafe fn of_long<L: Lanes>(value: [L::V; 2], signed: bool) -> L::V {
    let lanes = |value: u32| L::splat::<32>(value.into());
    let (zero, one) = (lanes(0), lanes(1));
    let (upper, lower) = (L::high_halves::<64>(value), L::low_halves::<64>(value));
    let (lower_is_zero, upper_is_zero) = (L::eq::<32>(lower, zero), L::eq::<32>(upper, zero));
    let before_upper = L::select::<32>(lower_is_zero, L::sub::<32>(upper, one), upper);
    let before = L::select::<32>(upper_is_zero, L::sub::<32>(lower, one), before_upper);
    let code = L::add::<32>(L::power_above::<false>(before), L::select::<32>(upper_is_zero, zero, lanes(32)));
    let code = L::select::<32>(L::eq::<32>(L::or(upper, lower), zero), zero, code);
    if signed { L::select::<32>(L::gt::<32>(zero, upper), zero, code) } else { code }
}
