//! The generic loop of the portable backend: the scalar cast of each element, in loops that the compiler can vectorise.
//! Where one loop would mix words of very different widths, or packed bytes, each block of elements is cast in stages
//! through buffers that fit the L1 cache.

use crate::element::{DataType, Element, Kind, Word};
use crate::packed::{Out, bits, byte_len, pack_elements, unpack_elements, word, written};
use crate::scalar::Rules;
use core::mem::MaybeUninit;

/// Elements in a block: a multiple of 8, so that a block of any type is a whole number of bytes.
const BLOCK: usize = 256;

/// Casts `len` elements. `src` and `dst` must hold exactly that many. Every byte of `dst` is written.
#[inline(always)]
pub(crate) fn run<S: Element, D: Element>(src: &[u8], dst: &mut Out, len: usize, rules: &Rules) {
    let from_packed = const { bits::<S>() < 8 };
    let to_packed = const { bits::<D>() < 8 };
    if const { bits::<S>() >= 8 && bits::<D>() >= 8 && !by_f32::<S, D>() } {
        return each::<S, D>(src, dst, |element| element.cast_to(rules));
    }
    let zero = MaybeUninit::new(0);
    let (mut unpacked, mut values, mut results) = ([zero; BLOCK], [zero; 4 * BLOCK], [zero; BLOCK]);
    let blocks = src.chunks(const { byte_len::<S>(BLOCK) }).zip(dst.chunks_mut(const { byte_len::<D>(BLOCK) }));
    for ((src, dst), begin) in blocks.zip((0..).step_by(BLOCK)) {
        let len = BLOCK.min(len - begin);
        let elements = if from_packed {
            unpack_elements(bits::<S>(), src, &mut unpacked[..len]);
            // SAFETY: the array is initialised.
            unsafe { written(&mut unpacked[..len]) }
        } else {
            src
        };
        let out = if to_packed { &mut results[..len] } else { &mut *dst };
        if const { by_f32::<S, D>() } {
            let values = &mut values[..4 * len];
            each::<S, f32>(elements, values, S::to_f32_round_to_odd);
            // SAFETY: the array is initialised.
            each::<f32, D>(unsafe { written(values) }, out, |value| D::from_f32(value, rules));
        } else {
            each::<S, D>(elements, out, |element| element.cast_to(rules));
        }
        if to_packed {
            // SAFETY: the array is initialised.
            pack_elements(bits::<D>(), unsafe { written(&mut results[..len]) }, dst);
        }
    }
}

/// Whether a block is first widened to `f32`, as the scalar cast does, in a separate loop.
const fn by_f32<S: Element, D: Element>() -> bool {
    let from_narrow = is_narrow(S::DATA_TYPE);
    let to_narrow = is_narrow(D::DATA_TYPE) && D::DATA_TYPE as u8 != DataType::Float8E8M0 as u8;
    let wide = bits::<S>() >= 32 || matches!(S::DATA_TYPE.info().kind, Kind::Int);
    from_narrow && (bits::<D>() == 64 || !D::DATA_TYPE.is_float()) || to_narrow && wide
}

/// Whether this is a float type of 16 bits or fewer.
const fn is_narrow(data_type: DataType) -> bool {
    data_type.is_float() && data_type.info().bits <= 16
}

/// Casts elements that are not packed.
#[inline(always)]
fn each<S: Element, D: Element>(src: &[u8], dst: &mut Out, cast: impl Fn(S) -> D) {
    let elements = src.chunks_exact(const { size_of::<S::Bits>() });
    for (from, to) in elements.zip(dst.chunks_exact_mut(const { size_of::<D::Bits>() })) {
        let bytes = cast(S::from_bits(word(from))).to_bits().to_le();
        // SAFETY: the chunk has the size of `D::Bits`, as its bytes do.
        unsafe { to.as_mut_ptr().cast::<<D::Bits as Word>::Bytes>().write_unaligned(bytes) };
    }
}
