//! Loads, stores, packing and unpacking, and the conversions that have no intrinsic. Nothing here knows what an element
//! means.

use core::arch::aarch64::*;
use core::arch::asm;

/// `map` that is always inlined. The compiler's own is not for arrays of vectors, which then go through memory.
pub(super) trait Each<T> {
    /// As many of something else.
    type Of<U>;
    /// What `f` makes of each.
    fn each<U>(self, f: impl Fn(T) -> U) -> Self::Of<U>;
}

impl<T> Each<T> for [T; 2] {
    type Of<U> = [U; 2];
    #[inline(always)]
    fn each<U>(self, f: impl Fn(T) -> U) -> [U; 2] {
        let [a, b] = self;
        [f(a), f(b)]
    }
}

impl<T> Each<T> for [T; 4] {
    type Of<U> = [U; 4];
    #[inline(always)]
    fn each<U>(self, f: impl Fn(T) -> U) -> [U; 4] {
        let [a, b, c, d] = self;
        [f(a), f(b), f(c), f(d)]
    }
}

/// Loads 16 bytes.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn load(src: *const u8) -> uint8x16_t {
    // SAFETY: the caller's promise; bytes need no alignment.
    unsafe { vld1q_u8(src) }
}

/// Loads 8 bytes.
///
/// # Safety
/// They can be read.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn load_half(src: *const u8) -> uint8x8_t {
    // SAFETY: the caller's promise; bytes need no alignment.
    unsafe { vld1_u8(src) }
}

/// Loads 8 words.
///
/// # Safety
/// Their 16 bytes can be read.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn load_words(src: *const u8) -> uint16x8_t {
    // SAFETY: the caller's promise.
    vreinterpretq_u16_u8(unsafe { load(src) })
}

/// Loads 8 double words.
///
/// # Safety
/// Their 32 bytes can be read.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn load_double_words(src: *const u8) -> [uint32x4_t; 2] {
    // SAFETY: the caller's promise.
    unsafe { [load(src), load(src.add(16))] }.each(|bytes| vreinterpretq_u32_u8(bytes))
}

/// Loads 8 quad words.
///
/// # Safety
/// Their 64 bytes can be read.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn load_quad_words(src: *const u8) -> [uint64x2_t; 4] {
    // SAFETY: the caller's promise.
    unsafe { [load(src), load(src.add(16)), load(src.add(32)), load(src.add(48))] }
        .each(|bytes| vreinterpretq_u64_u8(bytes))
}

/// Stores 16 bytes.
///
/// # Safety
/// They can be written.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn store(dst: *mut u8, value: uint8x16_t) {
    // SAFETY: the caller's promise; bytes need no alignment.
    unsafe { vst1q_u8(dst, value) }
}

/// Stores 8 bytes.
///
/// # Safety
/// They can be written.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn store_half(dst: *mut u8, value: uint8x8_t) {
    // SAFETY: the caller's promise; bytes need no alignment.
    unsafe { vst1_u8(dst, value) }
}

/// The low halves of double words, in order.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn low_words(value: [uint32x4_t; 2]) -> uint16x8_t {
    vuzp1q_u16(vreinterpretq_u16_u32(value[0]), vreinterpretq_u16_u32(value[1]))
}

/// The high halves of double words, in order.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn high_words(value: [uint32x4_t; 2]) -> uint16x8_t {
    vuzp2q_u16(vreinterpretq_u16_u32(value[0]), vreinterpretq_u16_u32(value[1]))
}

/// The low halves of quad words, in order.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn low_double_words(value: [uint64x2_t; 4]) -> [uint32x4_t; 2] {
    let low = |a, b| vuzp1q_u32(vreinterpretq_u32_u64(a), vreinterpretq_u32_u64(b));
    [low(value[0], value[1]), low(value[2], value[3])]
}

/// The low halves of words, in order.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn low_bytes(value: [uint16x8_t; 2]) -> uint8x16_t {
    vuzp1q_u8(vreinterpretq_u8_u16(value[0]), vreinterpretq_u8_u16(value[1]))
}

/// The high halves of words, in order.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn high_bytes(value: [uint16x8_t; 2]) -> uint8x16_t {
    vuzp2q_u8(vreinterpretq_u8_u16(value[0]), vreinterpretq_u8_u16(value[1]))
}

/// 8 floats of half precision as floats. (Rust has the intrinsic, but not in every version that this crate supports.)
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn widen_half(value: uint16x8_t) -> [float32x4_t; 2] {
    let (low, high): (float32x4_t, float32x4_t);
    // SAFETY: arithmetic in registers, of the base architecture.
    unsafe {
        asm!(
            "fcvtl {low:v}.4s, {value:v}.4h",
            "fcvtl2 {high:v}.4s, {value:v}.8h",
            value = in(vreg) value,
            low = out(vreg) low,
            high = lateout(vreg) high,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    [low, high]
}

/// 8 floats in half precision, rounded to nearest even.
#[inline]
#[target_feature(enable = "neon")]
pub(super) fn narrow_half(value: [float32x4_t; 2]) -> uint16x8_t {
    let half: uint16x8_t;
    // SAFETY: arithmetic in registers, of the base architecture.
    unsafe {
        asm!(
            "fcvtn {half:v}.4h, {low:v}.4s",
            "fcvtn2 {half:v}.8h, {high:v}.4s",
            low = in(vreg) value[0],
            high = in(vreg) value[1],
            half = out(vreg) half,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    half
}

/// The bytes as a vector.
#[inline]
#[target_feature(enable = "neon")]
fn vector(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the array is 16 bytes.
    unsafe { load(bytes.as_ptr()) }
}

/// A vector by the places of its bytes.
macro_rules! bytes {
    (|$place:ident| $byte:expr) => {{
        const BYTES: [u8; 16] = {
            let mut bytes = [0; 16];
            let mut $place = 0;
            while $place < 16 {
                bytes[$place] = ($byte) as u8;
                $place += 1;
            }
            bytes
        };
        vector(&BYTES)
    }};
}

/// A place in no table: what is looked up there is 0.
const NOWHERE: usize = 255;

/// Loads 32 elements of `bits` bits, 8 or fewer, one to a byte, the upper bits zero.
///
/// # Safety
/// The `4 * bits` bytes can be read.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn load_codes(bits: usize, src: *const u8) -> [uint8x16_t; 2] {
    // SAFETY: each arm reads 4 * bits bytes, as promised.
    unsafe {
        match bits {
            2 => {
                let packed = vcombine_u8(load_half(src), load_half(src));
                let down = vreinterpretq_s8_u8(bytes!(|i| 256 - 2 * (i % 4)));
                [bytes!(|i| i / 4), bytes!(|i| 4 + i / 4)]
                    .each(|place| vandq_u8(vshlq_u8(vqtbl1q_u8(packed, place), down), vdupq_n_u8(3)))
            }
            4 => {
                let packed = load(src);
                let (low, high) = (vandq_u8(packed, vdupq_n_u8(15)), vshrq_n_u8::<4>(packed));
                [vzip1q_u8(low, high), vzip2q_u8(low, high)]
            }
            6 => {
                // Of four elements in three bytes, each is the upper bits of a byte, the lower ones of the next, or both.
                // The second half is loaded with the bytes before it that are there too.
                let down = vreinterpretq_s8_u8(bytes!(|i| 256 - [0, 6, 4, 2][i % 4]));
                let up = vreinterpretq_s8_u8(bytes!(|i| [0, 2, 4, 0][i % 4]));
                let spread = |packed, first, second| {
                    let low = vshlq_u8(vqtbl1q_u8(packed, first), down);
                    let high = vshlq_u8(vqtbl1q_u8(packed, second), up);
                    vandq_u8(vorrq_u8(low, high), vdupq_n_u8(63))
                };
                [
                    spread(
                        load(src),
                        bytes!(|i| i / 4 * 3 + [0, 0, 1, 2][i % 4]),
                        bytes!(|i| [NOWHERE, i / 4 * 3 + 1, i / 4 * 3 + 2, NOWHERE][i % 4]),
                    ),
                    spread(
                        load(src.add(8)),
                        bytes!(|i| 4 + i / 4 * 3 + [0, 0, 1, 2][i % 4]),
                        bytes!(|i| [NOWHERE, i / 4 * 3 + 5, i / 4 * 3 + 6, NOWHERE][i % 4]),
                    ),
                ]
            }
            _ => [load(src), load(src.add(16))],
        }
    }
}

/// Stores 32 elements of `bits` bits, 8 or fewer, that stand one in a byte with their upper bits zero.
///
/// # Safety
/// The `4 * bits` bytes can be written.
#[inline]
#[target_feature(enable = "neon")]
pub(super) unsafe fn store_codes(bits: usize, dst: *mut u8, codes: [uint8x16_t; 2]) {
    let [a, b] = codes;
    // SAFETY: each arm writes 4 * bits bytes, as promised.
    unsafe {
        match bits {
            2 => {
                let pairs = vsliq_n_u8::<2>(vuzp1q_u8(a, b), vuzp2q_u8(a, b));
                let fours = vsliq_n_u8::<4>(vuzp1q_u8(pairs, pairs), vuzp2q_u8(pairs, pairs));
                store_half(dst, vget_low_u8(fours));
            }
            4 => store(dst, vsliq_n_u8::<4>(vuzp1q_u8(a, b), vuzp2q_u8(a, b))),
            6 => {
                // Byte `i` of three is the rest of element `i` of four and the lower bits of the next.
                let both = uint8x16x2_t(a, b);
                let packed = |first, second, down, up| {
                    let low = vshlq_u8(vqtbl2q_u8(both, first), vreinterpretq_s8_u8(down));
                    vorrq_u8(low, vshlq_u8(vqtbl2q_u8(both, second), vreinterpretq_s8_u8(up)))
                };
                let low = packed(
                    bytes!(|i| i / 3 * 4 + i % 3),
                    bytes!(|i| i / 3 * 4 + i % 3 + 1),
                    bytes!(|i| 256 - 2 * (i % 3)),
                    bytes!(|i| 6 - 2 * (i % 3)),
                );
                let high = packed(
                    bytes!(|i| (i + 16) / 3 * 4 + (i + 16) % 3),
                    bytes!(|i| (i + 16) / 3 * 4 + (i + 16) % 3 + 1),
                    bytes!(|i| 256 - 2 * ((i + 16) % 3)),
                    bytes!(|i| 6 - 2 * ((i + 16) % 3)),
                );
                store(dst, low);
                store_half(dst.add(16), vget_low_u8(high));
            }
            _ => {
                store(dst, a);
                store(dst.add(16), b);
            }
        }
    }
}
