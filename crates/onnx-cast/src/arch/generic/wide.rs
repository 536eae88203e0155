//! Sources of 16 bits and more, and integers of 8 bits on the way to wider types: a step's elements are widened to
//! lanes that hold them, cast there, and packed.
//!
//! The lanes are `f32` or integers of 32 bits, and `f64` or integers of 64 bits for targets of 64. A value that `f32`
//! does not hold is rounded to odd on the way in, so that the one real rounding comes after.
//!
//! Every `unsafe fn` here asks two things of its caller: the processor has the instructions of `L`, and the bytes of a
//! step's elements of `S` can be read from `src`, those of `D` written to `dst`. Part `i` of `n` begins behind
//! `i * BYTES / n` elements.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::small_float::{self, RuleLanes};
use super::step::{both, parts};
use crate::element::{Class, Element, class};
use crate::kernel::lanes::Lanes;
use crate::packed::bits;

/// A method of [`Lanes`] for integers with a sign, or for those without.
macro_rules! by_signed {
    ($signed:expr, $method:ident($($argument:expr),*)) => {
        if $signed { L::$method::<true>($($argument),*) } else { L::$method::<false>($($argument),*) }
    };
}

/// Integers extended to lanes of `W` bits.
#[inline(always)]
unsafe fn extend<L: Lanes, const FROM: usize, const W: usize>(src: *const u8, signed: bool) -> L::V {
    if signed { L::load_extend::<FROM, W, true>(src) } else { L::load_extend::<FROM, W, false>(src) }
}

/// Casts one step.
///
/// # Safety The processor has the instructions of `L`; the bytes of a step's elements of `S` can be read from `src`,
/// those of `D` written to `dst`.
#[inline(always)]
pub(crate) unsafe fn step<L: Lanes, S: Element, D: Element>(src: *const u8, dst: *mut u8, rules: &RuleLanes<L>) {
    match const { class::<D>() } {
        Class::F64 => {
            for i in 0..4 {
                store_pair::<L>(dst, i, to_f64::<L, S>(src, i));
            }
        }
        Class::F32 => {
            for i in 0..4 {
                store::<L>(dst, i, to_f32::<L, S>(src, i));
            }
        }
        Class::F16 => {
            for i in 0..2 {
                let part = [to_f16_lanes::<L, S>(src, 2 * i), to_f16_lanes::<L, S>(src, 2 * i + 1)];
                store::<L>(dst, i, L::f32_to_f16(part));
            }
        }
        Class::BF16 => {
            for i in 0..2 {
                let part = [to_bf16_high::<L, S>(src, 2 * i), to_bf16_high::<L, S>(src, 2 * i + 1)];
                store::<L>(dst, i, L::high_halves::<32>(part));
            }
        }
        Class::SmallFloat(format) => {
            if const { small_float::is_upper_byte::<S, D>() } {
                return L::store(dst, small_float::upper_bytes(format, load_words::<L>(src), rules));
            }
            let value = parts!(i => f32_lanes::<L, S>(src, i));
            let is_word = const { bits::<S>() == 16 };
            let top = if is_word { L::high_bytes(load_words::<L>(src)) } else { L::narrow_top_bits(value) };
            let codes = small_float::codes::<L, S>(format, value, top, rules);
            store_codes::<L, D>(dst, codes);
        }
        Class::E8M0 => L::store(dst, to_e8m0::<L, S>(src, rules)),
        Class::Int { bits: 64, signed } => {
            for i in 0..4 {
                store_pair::<L>(dst, i, to_long::<L, S>(src, i, signed));
            }
        }
        Class::Int { bits: 32, signed } => {
            for i in 0..4 {
                store::<L>(dst, i, to_int::<L, S>(src, i, signed));
            }
        }
        Class::Int { bits: 16, signed } => {
            for i in 0..2 {
                store::<L>(dst, i, to_short::<L, S>(src, i, signed));
            }
        }
        Class::Int { bits: 8, signed } => L::store(dst, to_byte::<L, S>(src, signed)),
        Class::Int { bits: 2 | 4, .. } => {
            let mask = L::splat::<8>(const { 0xff >> (8 - if bits::<D>() < 8 { bits::<D>() } else { 8 }) });
            store_codes::<L, D>(dst, L::and(low_bits::<L, S>(src), mask));
        }
        Class::Int { .. } => unreachable!("no integer of this width"),
        Class::Bool => L::store(dst, to_bool::<L, S>(src)),
    }
}

/// Stores a vector by its index.
#[inline(always)]
pub(super) unsafe fn store<L: Lanes>(dst: *mut u8, index: usize, value: L::V) {
    L::store(dst.add(L::BYTES * index), value);
}

/// Stores two vectors by the index of the pair.
#[inline(always)]
unsafe fn store_pair<L: Lanes>(dst: *mut u8, index: usize, [a, b]: [L::V; 2]) {
    store::<L>(dst, 2 * index, a);
    store::<L>(dst, 2 * index + 1, b);
}

/// Stores codes of the width of `D`.
#[inline(always)]
pub(super) unsafe fn store_codes<L: Lanes, D: Element>(dst: *mut u8, codes: L::V) {
    match const { bits::<D>() } {
        2 => L::store_codes::<2>(dst, codes),
        4 => L::store_codes::<4>(dst, codes),
        6 => L::store_codes::<6>(dst, codes),
        8 => L::store(dst, codes),
        _ => unreachable!("codes have 8 bits or fewer"),
    }
}

/// Where a quarter of a step's elements begins.
#[inline(always)]
unsafe fn quarter<L: Lanes, S: Element>(src: *const u8, index: usize) -> *const u8 {
    src.add(index * L::BYTES / 4 * const { bits::<S>() / 8 })
}

/// The two vectors of a quarter's elements of 64 bits.
#[inline(always)]
unsafe fn load_pair<L: Lanes, S: Element>(src: *const u8, index: usize) -> [L::V; 2] {
    let src = quarter::<L, S>(src, index);
    [L::load(src), L::load(src.add(L::BYTES))]
}

/// The two vectors of a step's elements of 16 bits.
#[inline(always)]
unsafe fn load_words<L: Lanes>(src: *const u8) -> [L::V; 2] {
    [L::load(src), L::load(src.add(L::BYTES))]
}

/// A quarter's floats of 16 bits, of bfloat16 format, as `f32`.
#[inline(always)]
pub(super) unsafe fn load_bf16<L: Lanes>(src: *const u8) -> L::V {
    L::shl::<32, 16>(L::load_extend::<16, 32, false>(src))
}

/// A quarter of the elements as `f32`, rounded to odd where `f32` cannot represent them.
#[inline(always)]
pub(super) unsafe fn f32_lanes<L: Lanes, S: Element>(src: *const u8, index: usize) -> L::V {
    match const { class::<S>() } {
        Class::F32 => L::load(quarter::<L, S>(src, index)),
        Class::F16 => L::load_f16(quarter::<L, S>(src, index)),
        Class::BF16 => load_bf16::<L>(quarter::<L, S>(src, index)),
        Class::F64 => L::f64_to_f32_odd(load_pair::<L, S>(src, index)),
        Class::Int { bits: 64, signed } => by_signed!(signed, long_to_f32_odd(load_pair::<L, S>(src, index))),
        Class::Int { bits: 32, signed } => by_signed!(signed, int_to_f32_odd(int_lanes::<L, S>(src, index))),
        Class::Int { .. } | Class::Bool => L::int_to_f32::<true>(int_lanes::<L, S>(src, index)),
        Class::SmallFloat(format) => {
            small_float::widen::<L>(format, L::load_extend::<8, 32, false>(quarter::<L, S>(src, index)))
        }
        Class::E8M0 => unreachable!("looked up"),
    }
}

/// A quarter of the integers, or of the bools, in 32 bits; of 64 bits, the low ones.
#[inline(always)]
unsafe fn int_lanes<L: Lanes, S: Element>(src: *const u8, index: usize) -> L::V {
    let at = quarter::<L, S>(src, index);
    match const { class::<S>() } {
        Class::Int { bits: 64, .. } => L::low_halves::<64>(load_pair::<L, S>(src, index)),
        Class::Int { bits: 32, .. } => L::load(at),
        Class::Int { bits: 16, signed } => extend::<L, 16, 32>(at, signed),
        Class::Int { bits: 8, signed } => extend::<L, 8, 32>(at, signed),
        Class::Int { .. } => unreachable!("looked up"),
        Class::Bool => L::min_u::<32>(L::load_extend::<8, 32, false>(at), L::splat::<32>(1)),
        Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::SmallFloat(_) | Class::E8M0 => {
            unreachable!("not an integer")
        }
    }
}

/// A quarter of the elements as `float`, rounded to nearest even, once.
#[inline(always)]
unsafe fn to_f32<L: Lanes, S: Element>(src: *const u8, index: usize) -> L::V {
    match const { class::<S>() } {
        Class::F64 => L::f64_to_f32(load_pair::<L, S>(src, index)),
        Class::Int { bits: 64, signed } => by_signed!(signed, long_to_f32(load_pair::<L, S>(src, index))),
        Class::Int { bits: 32, signed: false } => L::int_to_f32::<false>(int_lanes::<L, S>(src, index)),
        Class::Int { .. } | Class::Bool => L::int_to_f32::<true>(int_lanes::<L, S>(src, index)),
        Class::BF16 => {
            // A NaN comes out quiet.
            let value = load_bf16::<L>(quarter::<L, S>(src, index));
            L::or(value, L::select::<32>(L::is_nan_f32(value), L::splat::<32>(QUIET), L::splat::<32>(0)))
        }
        Class::F32 | Class::F16 | Class::SmallFloat(_) => f32_lanes::<L, S>(src, index),
        Class::E8M0 => unreachable!("looked up"),
    }
}

/// A quarter of the elements as `f32`, to be rounded to `float16`. Integers of 2^16 or more become infinity, so
/// they may be saturated and rounded first.
#[inline(always)]
unsafe fn to_f16_lanes<L: Lanes, S: Element>(src: *const u8, index: usize) -> L::V {
    let ints = match const { class::<S>() } {
        Class::F64 | Class::F32 | Class::F16 | Class::BF16 | Class::SmallFloat(_) | Class::E8M0 => {
            return f32_lanes::<L, S>(src, index);
        }
        Class::Int { bits: 64, signed } => by_signed!(signed, saturate_to_i32(load_pair::<L, S>(src, index))),
        Class::Int { bits: 32, signed: false } => {
            L::min_u::<32>(int_lanes::<L, S>(src, index), L::splat::<32>(i32::MAX as u64))
        }
        Class::Int { .. } | Class::Bool => int_lanes::<L, S>(src, index),
    };
    L::int_to_f32::<true>(ints)
}

/// The bit that tells a quiet NaN of `f32` from a signalling one.
const QUIET: u64 = 1 << 22;

/// A quarter of the elements as `bfloat16`, in the upper halves of lanes of 32 bits; below is anything.
#[inline(always)]
unsafe fn to_bf16_high<L: Lanes, S: Element>(src: *const u8, index: usize) -> L::V {
    let value = f32_lanes::<L, S>(src, index);
    // These have all of their bits.
    if const { matches!(class::<S>(), Class::SmallFloat(_) | Class::Int { bits: 8, .. } | Class::Bool) } {
        return value;
    }
    let odd = L::and(L::shr::<32, 16>(value), L::splat::<32>(1));
    let half = L::add::<32>(odd, L::splat::<32>(0x7fff));
    if const { !S::DATA_TYPE.is_float() } {
        return L::add::<32>(value, half);
    }
    // NaN is made quiet, and is not rounded.
    let (is_nan, zero) = (L::is_nan_f32(value), L::splat::<32>(0));
    let rounded = L::add::<32>(value, L::select::<32>(is_nan, zero, half));
    L::or(rounded, L::select::<32>(is_nan, L::splat::<32>(QUIET), zero))
}

/// A quarter of the elements as `double`.
#[inline(always)]
unsafe fn to_f64<L: Lanes, S: Element>(src: *const u8, index: usize) -> [L::V; 2] {
    match const { class::<S>() } {
        Class::F64 => load_pair::<L, S>(src, index),
        Class::F32 | Class::F16 | Class::BF16 => L::f32_to_f64(f32_lanes::<L, S>(src, index)),
        Class::Int { bits: 64, signed } => {
            let [a, b] = load_pair::<L, S>(src, index);
            [by_signed!(signed, long_to_f64(a)), by_signed!(signed, long_to_f64(b))]
        }
        Class::Int { bits: 32, signed: false } => L::int_to_f64::<false>(int_lanes::<L, S>(src, index)),
        Class::Int { .. } | Class::Bool => L::int_to_f64::<true>(int_lanes::<L, S>(src, index)),
        Class::SmallFloat(_) | Class::E8M0 => unreachable!("staged"),
    }
}

/// The step's elements as codes of `float8e8m0`, one to a byte.
#[inline(always)]
unsafe fn to_e8m0<L: Lanes, S: Element>(src: *const u8, rules: &RuleLanes<L>) -> L::V {
    match const { class::<S>() } {
        Class::BF16 => {
            let [a, b] = [L::load(src), L::load(src.add(L::BYTES))];
            L::low_halves::<16>([
                small_float::power_code::<L, 16>(a, rules),
                small_float::power_code::<L, 16>(b, rules),
            ])
        }
        Class::F64 | Class::F32 | Class::F16 | Class::SmallFloat(_) | Class::E8M0 | Class::Int { .. } | Class::Bool => {
            L::low_bytes(parts!(i => small_float::power_code::<L, 32>(f32_lanes::<L, S>(src, i), rules)))
        }
    }
}

/// A quarter of the elements as integers of 64 bits.
#[inline(always)]
unsafe fn to_long<L: Lanes, S: Element>(src: *const u8, index: usize, signed: bool) -> [L::V; 2] {
    let low = quarter::<L, S>(src, index);
    let high = low.add(L::BYTES / 8 * const { bits::<S>() / 8 });
    match const { class::<S>() } {
        Class::F64 => {
            let [a, b] = load_pair::<L, S>(src, index);
            [by_signed!(signed, f64_to_long(a)), by_signed!(signed, f64_to_long(b))]
        }
        Class::F32 | Class::F16 | Class::BF16 => {
            by_signed!(signed, f32_to_long(f32_lanes::<L, S>(src, index)))
        }
        Class::Int { bits: 64, .. } => [L::load(low), L::load(high)],
        Class::Int { bits: 32, signed } => [extend::<L, 32, 64>(low, signed), extend::<L, 32, 64>(high, signed)],
        Class::Int { bits: 16, signed } => [extend::<L, 16, 64>(low, signed), extend::<L, 16, 64>(high, signed)],
        Class::Int { bits: 8, signed } => [extend::<L, 8, 64>(low, signed), extend::<L, 8, 64>(high, signed)],
        Class::Int { .. } => unreachable!("looked up"),
        Class::Bool => {
            // In 32 bits the minimum is one instruction everywhere; the upper halves are zero.
            let one = L::splat::<32>(1);
            [
                L::min_u::<32>(L::load_extend::<8, 64, false>(low), one),
                L::min_u::<32>(L::load_extend::<8, 64, false>(high), one),
            ]
        }
        Class::SmallFloat(_) | Class::E8M0 => unreachable!("staged"),
    }
}

/// A quarter of the elements as integers of 32 bits.
#[inline(always)]
unsafe fn to_int<L: Lanes, S: Element>(src: *const u8, index: usize, signed: bool) -> L::V {
    match const { class::<S>() } {
        Class::F64 => by_signed!(signed, f64_to_int(load_pair::<L, S>(src, index))),
        Class::F32 | Class::F16 | Class::BF16 => by_signed!(signed, f32_to_int(f32_lanes::<L, S>(src, index))),
        Class::Int { .. } | Class::Bool => int_lanes::<L, S>(src, index),
        Class::SmallFloat(_) | Class::E8M0 => unreachable!("staged"),
    }
}

/// A quarter of the floats, to be saturated to 16 bits or fewer; `signed` is the final target.
#[inline(always)]
unsafe fn float_to_short<L: Lanes, S: Element>(src: *const u8, index: usize, signed: bool) -> L::V {
    if const { matches!(class::<S>(), Class::F64) } {
        return by_signed!(signed, f64_to_short(load_pair::<L, S>(src, index)));
    }
    by_signed!(signed, f32_to_short(f32_lanes::<L, S>(src, index)))
}

/// Half of the elements as integers of 16 bits.
#[inline(always)]
unsafe fn to_short<L: Lanes, S: Element>(src: *const u8, index: usize, signed: bool) -> L::V {
    let at = src.add(index * L::BYTES / 2 * const { bits::<S>() / 8 });
    match const { class::<S>() } {
        Class::F64 | Class::F32 | Class::F16 | Class::BF16 => {
            let pair =
                [float_to_short::<L, S>(src, 2 * index, signed), float_to_short::<L, S>(src, 2 * index + 1, signed)];
            by_signed!(signed, saturate_to_16(pair))
        }
        Class::Int { bits: 64 | 32, .. } => {
            L::low_halves::<32>([int_lanes::<L, S>(src, 2 * index), int_lanes::<L, S>(src, 2 * index + 1)])
        }
        Class::Int { bits: 16, .. } => L::load(at),
        Class::Int { bits: 8, signed } => extend::<L, 8, 16>(at, signed),
        Class::Int { .. } => unreachable!("looked up"),
        Class::Bool => L::min_u::<16>(L::load_extend::<8, 16, false>(at), L::splat::<16>(1)),
        Class::SmallFloat(_) | Class::E8M0 => unreachable!("looked up, or staged"),
    }
}

/// The step's elements as integers of 8 bits.
#[inline(always)]
unsafe fn to_byte<L: Lanes, S: Element>(src: *const u8, signed: bool) -> L::V {
    match const { class::<S>() } {
        Class::F64 | Class::F32 | Class::F16 | Class::BF16 => {
            let value = parts!(i => float_to_short::<L, S>(src, i, signed));
            by_signed!(signed, saturate_to_8(value))
        }
        Class::SmallFloat(_) | Class::E8M0 | Class::Int { .. } | Class::Bool => low_bits::<L, S>(src),
    }
}

/// The low bits of the step's elements, at least 4 of floats and 8 of integers, in bytes.
#[inline(always)]
unsafe fn low_bits<L: Lanes, S: Element>(src: *const u8) -> L::V {
    match const { class::<S>() } {
        Class::F64 => L::low_bytes(parts!(i => L::f64_to_low_bits(load_pair::<L, S>(src, i)))),
        // Each word is a float where it stands, so that nothing has to be extended.
        Class::BF16 if !L::IS_SMALL => L::low_halves::<16>(both!(load_words::<L>(src), words => {
            let upper = L::and(words, L::splat::<32>(0xffff_0000));
            L::merge_words(L::f32_to_low_bits(L::shl::<32, 16>(words)), L::f32_to_low_bits(upper))
        })),
        Class::F32 | Class::F16 | Class::BF16 => L::f32_to_low_bytes(parts!(i => f32_lanes::<L, S>(src, i))),
        Class::Int { bits: 16, .. } => L::low_halves::<16>(load_words::<L>(src)),
        Class::Int { bits: 8, .. } => L::load(src),
        Class::Bool => L::min_u::<8>(L::load(src), L::splat::<8>(1)),
        Class::Int { bits: 32 | 64, .. } => L::low_bytes(parts!(i => int_lanes::<L, S>(src, i))),
        Class::Int { .. } | Class::SmallFloat(_) | Class::E8M0 => unreachable!("looked up"),
    }
}

/// 1 for the step's elements that are not zero, else 0, in bytes.
#[inline(always)]
pub(super) unsafe fn to_bool<L: Lanes, S: Element>(src: *const u8) -> L::V {
    // The sign of a float does not matter, that of an integer does.
    let mask = const { if S::DATA_TYPE.is_float() { u64::MAX >> 1 } else { u64::MAX } };
    // What is saturated to 8 bits is 0 only where it was.
    match const { bits::<S>() } {
        8 => truth::<L>(L::and(L::load(src), L::splat::<8>(mask >> 56))),
        16 => {
            let words = both!(load_words::<L>(src), value => L::and(value, L::splat::<16>(mask >> 48)));
            let bytes = L::narrow_words::<true>(words);
            L::in_order_of_words(truth::<L>(bytes))
        }
        32 => truth::<L>(L::saturate_to_8::<true>(
            parts!(i => L::and(L::load(src.add(i * L::BYTES)), L::splat::<32>(mask >> 32))),
        )),
        64 => truth::<L>(L::saturate_to_8::<true>(parts!(i => {
            let value = load_pair::<L, S>(src, i);
            let (low, high) = (L::low_halves::<64>(value), L::high_halves::<64>(value));
            L::or(low, L::and(high, L::splat::<32>(mask >> 32)))
        }))),
        _ => unreachable!("no element of this width"),
    }
}

/// 1 in bytes that are not zero, else 0.
#[inline(always)]
unsafe fn truth<L: Lanes>(value: L::V) -> L::V {
    L::min_u::<8>(value, L::splat::<8>(1))
}
