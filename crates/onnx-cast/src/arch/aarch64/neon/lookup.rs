//! Sources of 8 bits or fewer.
//!
//! To targets of 8 bits or fewer: a table with an entry for each code, made with the scalar cast. One instruction looks
//! up in four registers, which are 64 entries; and because it can leave alone what it does not find, four of them with
//! indices lowered by 64 every time are 256.
//!
//! To wider targets: every float of 8 bits or fewer is a bfloat16, whose two bytes are looked up or, for float8e8m0, are
//! its bits moved, and every integer an int8; [`convert`] takes it from there.

use super::lanes::*;
use super::{STEP, convert, steps};
use crate::arch::entries::{self, Tables};
use crate::arch::kinds::{is, is_float};
use crate::arch::portable;
use crate::element::{BFloat16, DataType, Element, Float6E2M3, Uint2, Uint4};
use crate::packed::{bits, clear_padding};
use crate::scalar::{Rules, widen_code};
use core::arch::aarch64::*;

/// The entries of a pair.
type Table = [u8; entries::MOST];

static TABLES: Tables<Table> = Tables::new();

/// Casts from a type of 8 bits or fewer to another.
#[target_feature(enable = "neon")]
pub(super) fn run<S: Element, D: Element>(src: &[u8], dst: &mut [u8], len: usize, rules: &Rules) {
    let make = |kernel| entries::of_pair(S::DATA_TYPE, D::DATA_TYPE, kernel, rules).map(|entry| entry as u8);
    if let Some(table) = TABLES.kept::<S, D>(rules) {
        look_up(const { (bits::<S>(), bits::<D>()) }, D::DATA_TYPE, src, dst, len, table);
    } else if let Some(table) = TABLES.make::<S, D>(rules, len, 2 * STEP, make) {
        look_up(const { (bits::<S>(), bits::<D>()) }, D::DATA_TYPE, src, dst, len, &table);
    } else {
        portable::cast::<S, D>(src, dst, len, rules);
    }
}

/// Chooses the loop by the widths, which are all that it depends on: a few loops serve all pairs.
#[target_feature(enable = "neon")]
fn look_up(widths: (usize, usize), to: DataType, src: &[u8], dst: &mut [u8], len: usize, table: &Table) {
    match widths {
        (from, to_bits) if entries::half_bytes(from, to_bits) => {
            look_up_half_bytes(src, dst, table);
            clear_padding(to, len, dst);
        }
        (2, to) => look_up_from::<Uint2>(to, src, dst, len, table),
        (4, to) => look_up_from::<Uint4>(to, src, dst, len, table),
        (6, to) => look_up_from::<Float6E2M3>(to, src, dst, len, table),
        (_, to) => look_up_from::<u8>(to, src, dst, len, table),
    }
}

/// Half a byte to half a byte.
#[target_feature(enable = "neon")]
fn look_up_half_bytes(src: &[u8], dst: &mut [u8], table: &Table) {
    // SAFETY: the table is longer than 16 bytes.
    let table = unsafe { load(table.as_ptr()) };
    let half = vdupq_n_u8(15);
    // SAFETY: `steps` hands out pointers to 32 bytes.
    steps::<u8, u8>(src, dst, src.len(), |src, dst| unsafe {
        let value = load_codes(8, src);
        let low = value.each(|value| vqtbl1q_u8(table, vandq_u8(value, half)));
        let high = value.each(|value| vqtbl1q_u8(table, vshrq_n_u8::<4>(value)));
        store_codes(8, dst, [vsliq_n_u8::<4>(low[0], high[0]), vsliq_n_u8::<4>(low[1], high[1])]);
    });
}

#[target_feature(enable = "neon")]
fn look_up_from<S: Element>(to_bits: usize, src: &[u8], dst: &mut [u8], len: usize, table: &Table) {
    match to_bits {
        2 => look_up_pair::<S, Uint2>(src, dst, len, table),
        4 => look_up_pair::<S, Uint4>(src, dst, len, table),
        6 => look_up_pair::<S, Float6E2M3>(src, dst, len, table),
        _ => look_up_pair::<S, u8>(src, dst, len, table),
    }
}

/// The loop; `S` and `D` stand for their widths.
#[target_feature(enable = "neon")]
fn look_up_pair<S: Element, D: Element>(src: &[u8], dst: &mut [u8], len: usize, table: &Table) {
    let tables = table.as_chunks().0;
    let tables = [sixty_four(&tables[0]), sixty_four(&tables[1]), sixty_four(&tables[2]), sixty_four(&tables[3])];
    // SAFETY: `steps` hands out pointers to the bytes of 32 elements.
    steps::<S, D>(src, dst, len, |src, dst| unsafe {
        let codes = load_codes(const { bits::<S>() }, src);
        let found = codes.each(|code| match const { bits::<S>() } {
            8 => found(&tables, code),
            6 => vqtbl4q_u8(tables[0], code),
            _ => vqtbl1q_u8(tables[0].0, code),
        });
        store_codes(const { bits::<D>() }, dst, found);
    });
}

#[inline]
#[target_feature(enable = "neon")]
fn sixty_four(entries: &[u8; 64]) -> uint8x16x4_t {
    let entries = entries.as_ptr();
    // SAFETY: they are four times 16 bytes.
    unsafe { uint8x16x4_t(load(entries), load(entries.add(16)), load(entries.add(32)), load(entries.add(48))) }
}

/// The entries at 16 indices; 0 beyond the last table.
#[inline]
#[target_feature(enable = "neon")]
fn found<const N: usize>(tables: &[uint8x16x4_t; N], index: uint8x16_t) -> uint8x16_t {
    let mut found = vqtbl4q_u8(tables[0], index);
    let mut lowered = index;
    for table in &tables[1..] {
        // Indices that are in a table before this one wrap to far behind its end.
        lowered = vsubq_u8(lowered, vdupq_n_u8(64));
        found = vqtbx4q_u8(found, *table, lowered);
    }
    found
}

/// Casts 32 elements of a float of 8 bits or fewer, or an integer of fewer, to a type of 16 bits or more.
///
/// # Safety
/// The bytes of 32 elements of `S` can be read from `src`, those of `D` written to `dst`.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn widened_step<S: Element, D: Element>(src: *const u8, dst: *mut u8, rules: &Rules) {
    let mut hub = [0u8; STEP * 2];
    let at = hub.as_mut_ptr();
    // SAFETY: the caller's promise; the hub has room for 32 elements of 16 bits.
    unsafe {
        let codes = load_codes(const { bits::<S>() }, src);
        if const { is_float::<S>() } {
            for (i, codes) in codes.into_iter().enumerate() {
                let [low, high] = bfloat16_bytes::<S>(codes);
                store(at.add(32 * i), vzip1q_u8(low, high));
                store(at.add(32 * i + 16), vzip2q_u8(low, high));
            }
            convert::step::<BFloat16, D>(at, dst, rules);
        } else {
            let extended = codes.each(|codes| match S::DATA_TYPE {
                DataType::Int4 => shifted::<4>(codes),
                DataType::Int2 => shifted::<6>(codes),
                _ => codes,
            });
            store_codes(8, at, extended);
            convert::step::<i8, D>(at, dst, rules);
        }
    }
}

/// Integers with a sign, of `8 - N` bits, extended to 8.
#[inline]
#[target_feature(enable = "neon")]
fn shifted<const N: i32>(codes: uint8x16_t) -> uint8x16_t {
    vreinterpretq_u8_s8(vshrq_n_s8::<N>(vreinterpretq_s8_u8(vshlq_n_u8::<N>(codes))))
}

/// The low and the high bytes of the bfloat16 that 16 floats are.
#[inline]
#[target_feature(enable = "neon")]
fn bfloat16_bytes<S: Element>(codes: uint8x16_t) -> [uint8x16_t; 2] {
    if is::<S>(DataType::Float8E8M0) {
        // The code is the exponent field. 2^-127 has a bit of the significand instead, and NaN has it besides.
        let is_end = vcleq_u8(vaddq_u8(codes, vdupq_n_u8(1)), vdupq_n_u8(1));
        let quiet = vandq_u8(is_end, vdupq_n_u8(0x40));
        return [vorrq_u8(vshlq_n_u8::<7>(codes), quiet), vshrq_n_u8::<1>(codes)];
    }
    let planes = const { &planes::<S>() };
    match const { bits::<S>() } {
        4 => planes.each_ref().each(|plane| vqtbl1q_u8(sixty_four(&plane.as_chunks().0[0]).0, codes)),
        6 => planes.each_ref().each(|plane| vqtbl4q_u8(sixty_four(&plane.as_chunks().0[0]), codes)),
        _ => {
            let sign = vdupq_n_u8(0x80);
            let magnitude = vbicq_u8(codes, sign);
            let [low, high] = planes.each_ref().each(|plane| {
                let halves = plane.as_chunks().0;
                found(&[sixty_four(&halves[0]), sixty_four(&halves[1])], magnitude)
            });
            let high = vorrq_u8(high, vandq_u8(codes, sign));
            if const { matches!(S::DATA_TYPE.float_format(), Some(format) if format.negative_zero) } {
                return [low, high];
            }
            // The one NaN is where -0 would be.
            let is_nan = vceqq_u8(codes, sign);
            [vbslq_u8(is_nan, vdupq_n_u8(0xc0), low), vbslq_u8(is_nan, vdupq_n_u8(0xff), high)]
        }
    }
}

/// The low and the high bytes of the first 128 codes as bfloat16.
const fn planes<S: Element>() -> [[u8; 128]; 2] {
    let mut planes = [[0; 128]; 2];
    if let Some(format) = S::DATA_TYPE.float_format()
        && format.bits <= 8
        && format.significand_bits > 0
    {
        let mut code = 0;
        while code < 128 {
            let value = widen_code(format, code as u32).to_bits();
            planes[0][code] = (value >> 16) as u8;
            planes[1][code] = (value >> 24) as u8;
            code += 1;
        }
    }
    planes
}
