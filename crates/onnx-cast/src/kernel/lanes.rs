//! What an algorithm asks of an instruction set: one vector type, a mask type, and one-line methods.
//!
//! `W` is the width of a lane in bits. A step casts as many elements as a vector has bytes, so elements of 8 bits fill
//! one vector, of 16 two, of 32 four and of 64 eight, in order.
#![allow(unsafe_op_in_unsafe_fn, reason = "methods call methods, which have the same conditions")]

use crate::element::{Class, Element, byte_len_of, class};

/// An instruction set, as the algorithms of `arch/generic` and of [`super::scale`] use it.
///
/// # Safety
/// Every method does what its text says for every input, and touches no memory but what it names.
///
/// Callers of the methods promise two things: the processor has the instructions, and pointers are valid for what the
/// method names. No alignment is asked for unless a method says so. Every method is inlined into a kernel that is
/// compiled with the instruction set's `target_feature`.
pub(crate) unsafe trait Lanes: Copy + 'static {
    /// A vector of bytes, or of wider lanes.
    type V: Copy;
    /// What a comparison of lanes gives.
    type M: Copy;
    /// A table of `16 * N` bytes, prepared for [`Lanes::look_up`].
    type Table<const N: usize>: Copy;

    /// Bytes of a vector, and elements of a step.
    const BYTES: usize;
    /// Whether a look-up among 256 entries takes a few instructions. Else tables are halved where they can be.
    const WIDE_LOOK_UP: bool;
    /// Whether [`Lanes::look_up`] among 128 entries or fewer gives 0 at indices of 128 and more.
    const ZERO_BEYOND: bool = false;
    /// Whether [`Lanes::look_up`] among 128 entries or fewer takes an index modulo 128, or 64 for those among 64 or
    /// fewer. Tables of fewer entries repeat, so that the codes of narrow types need not be masked.
    const WRAPS: bool = false;
    /// Whether [`Lanes::load_indices`] leaves every other element of 2 bits in the next two bits, with zeros around.
    /// Tables then have the entry of `code` at `4 * code` too.
    const LEAVES_IN_PLACE: bool = false;
    /// Whether [`Lanes::f64_to_f32_odd`] makes infinity of what is beyond `f32`.
    const F64_OVERFLOWS: bool;
    /// Whether [`Lanes::mul_add_f32`] rounds once.
    const FUSES: bool;
    /// Whether [`Lanes::stream`] passes the caches by.
    const STREAMS: bool;
    /// Whether the backend has fewer kernels, to keep the code small: scaled casts run in stages.
    const IS_SMALL: bool = false;

    // Memory.

    /// Loads a vector.
    unsafe fn load(src: *const u8) -> Self::V;
    /// Stores a vector.
    unsafe fn store(dst: *mut u8, value: Self::V);
    /// Stores a vector past the caches. `dst` is aligned to the vector.
    unsafe fn stream(dst: *mut u8, value: Self::V);
    /// Orders what was streamed before what is stored from here on.
    unsafe fn fence();
    /// Asks for the cache line at an address, which need not be valid.
    unsafe fn prefetch(address: *const u8);
    /// Loads as many integers of `FROM` bits as lanes of `W` bits fit a vector, and extends them.
    unsafe fn load_extend<const FROM: usize, const W: usize, const SIGNED: bool>(src: *const u8) -> Self::V;
    /// Loads a vector's worth of `f32` from float16.
    unsafe fn load_f16(src: *const u8) -> Self::V;
    /// Loads a step's elements of `BITS` bits, 8 or fewer, one to a byte with the upper bits zero.
    unsafe fn load_codes<const BITS: usize>(src: *const u8) -> Self::V;
    /// As [`Lanes::load_codes`], the upper bits arbitrary where [`Lanes::WRAPS`], and of 2 bits perhaps in other places
    /// ([`Lanes::LEAVES_IN_PLACE`]): indices of a table.
    #[inline(always)]
    unsafe fn load_indices<const BITS: usize>(src: *const u8) -> Self::V {
        Self::load_codes::<BITS>(src)
    }
    /// Stores a step's elements of `BITS` bits, 8 or fewer, that stand one in a byte with the upper bits zero.
    unsafe fn store_codes<const BITS: usize>(dst: *mut u8, codes: Self::V);
    /// Stores a step's words as the upper halves of lanes of 32 bits, whose lower halves are zero.
    #[inline(always)]
    unsafe fn store_upper_words(dst: *mut u8, [a, b]: [Self::V; 2]) {
        let mut words = [0u8; 2 * 64];
        let from = words.as_mut_ptr();
        Self::store(from, a);
        Self::store(from.add(Self::BYTES), b);
        for part in 0..4 {
            let words = Self::load_extend::<16, 32, false>(from.add(part * Self::BYTES / 2));
            Self::store(dst.add(part * Self::BYTES), Self::shl::<32, 16>(words));
        }
    }
    /// Copies `len` bytes, at most those of a step, and zeros up to `whole`.
    #[inline(always)]
    unsafe fn copy_padded(src: *const u8, dst: *mut u8, len: usize, whole: usize) {
        dst.write_bytes(0, whole);
        dst.copy_from_nonoverlapping(src, len);
    }
    /// Copies the first `len` bytes of `whole`, which are at most those of a step.
    #[inline(always)]
    unsafe fn copy_few(src: *const u8, dst: *mut u8, len: usize, whole: usize) {
        debug_assert!(len <= whole, "{len} of {whole} bytes");
        // SAFETY: `src` has `whole` bytes, of which the first `len` are read. `dst` has space for `len` bytes and does
        // not overlap `src`.
        unsafe { dst.copy_from_nonoverlapping(src, len) };
    }

    // Integers.

    /// The low `W` bits in every lane.
    unsafe fn splat<const W: usize>(value: u64) -> Self::V;
    unsafe fn and(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn add<const W: usize>(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub<const W: usize>(a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`, or 0 where that is negative, of unsigned lanes of 16 bits.
    unsafe fn saturating_sub(a: Self::V, b: Self::V) -> Self::V;
    /// `a`, plus 1 where `value` is above `limit`, of unsigned bytes.
    unsafe fn plus_above(a: Self::V, value: Self::V, limit: Self::V) -> Self::V;
    unsafe fn shl<const W: usize, const N: u32>(a: Self::V) -> Self::V;
    /// Shifts zeros in.
    unsafe fn shr<const W: usize, const N: u32>(a: Self::V) -> Self::V;
    /// The smaller, of unsigned lanes of 8 to 32 bits.
    unsafe fn min_u<const W: usize>(a: Self::V, b: Self::V) -> Self::V;
    /// The larger, likewise.
    unsafe fn max_u<const W: usize>(a: Self::V, b: Self::V) -> Self::V;
    /// The larger, of signed bytes.
    #[inline(always)]
    unsafe fn max_i8(a: Self::V, b: Self::V) -> Self::V {
        Self::select::<8>(Self::gt::<8>(a, b), a, b)
    }
    /// Where `a` is larger, of signed lanes of 8 to 32 bits.
    unsafe fn gt<const W: usize>(a: Self::V, b: Self::V) -> Self::M;
    /// Where both are equal, of lanes of 8 to 64 bits.
    unsafe fn eq<const W: usize>(a: Self::V, b: Self::V) -> Self::M;
    /// `a` negated where `b` is negative, and 0 where `b` is 0, of signed lanes of 8 or 16 bits.
    #[inline(always)]
    unsafe fn with_sign_of<const W: usize>(a: Self::V, b: Self::V) -> Self::V {
        let zero = Self::splat::<W>(0);
        let signed = Self::select::<W>(Self::gt::<W>(zero, b), Self::sub::<W>(zero, a), a);
        Self::select::<W>(Self::eq::<W>(b, zero), zero, signed)
    }
    /// `a` where the mask is set, else `b`.
    unsafe fn select<const W: usize>(mask: Self::M, a: Self::V, b: Self::V) -> Self::V;
    /// `a` where the top bit of a byte of the mask is set, else `b`, of bytes.
    #[inline(always)]
    unsafe fn select_by_top_bit(mask: Self::V, a: Self::V, b: Self::V) -> Self::V {
        Self::select::<8>(Self::gt::<8>(Self::splat::<8>(0), mask), a, b)
    }

    /// Whether any lane of a mask is set.
    unsafe fn any<const W: usize>(mask: Self::M) -> bool;

    // Between widths, in the order of the elements.

    /// The low halves of lanes of `W` bits.
    unsafe fn low_halves<const W: usize>(value: [Self::V; 2]) -> Self::V;
    /// The high halves of lanes of 32 or 64 bits.
    unsafe fn high_halves<const W: usize>(value: [Self::V; 2]) -> Self::V;
    /// The high bytes of lanes of 16 bits.
    unsafe fn high_bytes(value: [Self::V; 2]) -> Self::V;
    /// The low bytes of lanes of 32 bits.
    unsafe fn low_bytes(value: [Self::V; 4]) -> Self::V;
    /// As [`Lanes::low_bytes`], in an order of its own, which [`Lanes::in_order_of_lanes`] makes that of the elements:
    /// one instruction for several vectors.
    #[inline(always)]
    unsafe fn narrow_lanes(value: [Self::V; 4]) -> Self::V {
        Self::low_bytes(value)
    }
    /// The top bits of lanes of 32 bits as the top bits of bytes, in the order of [`Lanes::narrow_lanes`]. The other
    /// bits are arbitrary.
    unsafe fn narrow_top_bits(value: [Self::V; 4]) -> Self::V;
    /// Bytes in the order of the elements, from that of [`Lanes::narrow_lanes`].
    #[inline(always)]
    unsafe fn in_order_of_lanes(value: Self::V) -> Self::V {
        value
    }
    /// Signed lanes of 32 bits to 16, signed or unsigned ones, saturating.
    unsafe fn saturate_to_16<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V;
    /// Signed lanes of 32 bits to 8, signed or unsigned ones, saturating.
    unsafe fn saturate_to_8<const SIGNED: bool>(value: [Self::V; 4]) -> Self::V;
    /// Signed lanes of 16 bits to 8, signed or unsigned ones, saturating, in an order of its own, which
    /// [`Lanes::in_order_of_words`] makes that of the elements: one instruction for several vectors.
    unsafe fn narrow_words<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V;
    /// Bytes in the order of the elements, from that of [`Lanes::narrow_words`].
    #[inline(always)]
    unsafe fn in_order_of_words(value: Self::V) -> Self::V {
        value
    }
    /// The low words of lanes of 32 bits of `low`, and above each that of `high`.
    #[inline(always)]
    unsafe fn merge_words(low: Self::V, high: Self::V) -> Self::V {
        Self::or(Self::and(low, Self::splat::<32>(0xffff)), Self::shl::<32, 16>(high))
    }
    /// Lanes of 64 bits to signed ones of 32, saturating; unsigned ones to less than 2^31.
    unsafe fn saturate_to_i32<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V;
    /// Puts bytes in the order in which [`Lanes::zip_bytes`] takes them: one instruction for two vectors of results.
    #[inline(always)]
    unsafe fn in_zip_order(value: Self::V) -> Self::V {
        value
    }
    /// The bytes of `a` and `b` in turn, which stand in the order of [`Lanes::in_zip_order`].
    unsafe fn zip_bytes(a: Self::V, b: Self::V) -> [Self::V; 2];

    // Floats. *Rounded to odd* is cut toward zero, with the lowest bit set where that lost anything, to 14 bits or
    // more.

    unsafe fn add_f32(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul_f32(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where [`Lanes::FUSES`].
    unsafe fn mul_add_f32(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// Where lanes are NaN.
    unsafe fn is_nan_f32(value: Self::V) -> Self::M;
    /// `a` where it is less, else `b`, also where either is NaN.
    unsafe fn min_f32(a: Self::V, b: Self::V) -> Self::V;
    /// `a` where it is greater, likewise.
    unsafe fn max_f32(a: Self::V, b: Self::V) -> Self::V;
    /// The magnitude of `value`, or `limit` where that is less, which is positive; of NaN either, or NaN.
    #[inline(always)]
    unsafe fn min_magnitude(value: Self::V, limit: Self::V) -> Self::V {
        Self::min_u::<32>(Self::and(value, Self::splat::<32>(u64::from(u32::MAX >> 1))), limit)
    }
    /// To float16, to nearest even; NaN keeps its sign and the upper bits of its payload, and is quiet.
    unsafe fn f32_to_f16(value: [Self::V; 2]) -> Self::V;
    /// To bfloat16, to nearest even; NaN must have no more than its upper 16 bits, and stays.
    #[inline(always)]
    unsafe fn f32_to_bf16(value: [Self::V; 2]) -> Self::V {
        let mut rounded = value;
        for lanes in &mut rounded {
            let odd = Self::and(Self::shr::<32, 16>(*lanes), Self::splat::<32>(1));
            *lanes = Self::add::<32>(Self::add::<32>(*lanes, Self::splat::<32>(0x7fff)), odd);
        }
        Self::high_halves::<32>(rounded)
    }
    unsafe fn f32_to_f64(value: Self::V) -> [Self::V; 2];
    /// To nearest even.
    unsafe fn f64_to_f32(value: [Self::V; 2]) -> Self::V;
    /// Rounded to odd, as far as `bfloat16` or `float8e8m0` could tell.
    unsafe fn f64_to_f32_odd(value: [Self::V; 2]) -> Self::V;
    /// From 32 bits, to nearest even.
    unsafe fn int_to_f32<const SIGNED: bool>(value: Self::V) -> Self::V;
    /// From 32 bits, rounded to odd.
    unsafe fn int_to_f32_odd<const SIGNED: bool>(value: Self::V) -> Self::V;
    /// From 32 bits, exactly.
    unsafe fn int_to_f64<const SIGNED: bool>(value: Self::V) -> [Self::V; 2];
    /// From 64 bits, to nearest even.
    unsafe fn long_to_f32<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V;
    /// From 64 bits, rounded to odd.
    unsafe fn long_to_f32_odd<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V;
    /// From 64 bits, to nearest even.
    unsafe fn long_to_f64<const SIGNED: bool>(value: Self::V) -> Self::V;
    /// To 32 bits: toward zero, saturating, NaN to 0.
    unsafe fn f32_to_int<const SIGNED: bool>(value: Self::V) -> Self::V;
    /// To 32 bits, to be saturated to 16 bits or fewer: toward zero, NaN to 0, or below 0 where the target is unsigned.
    unsafe fn f32_to_short<const SIGNED: bool>(value: Self::V) -> Self::V;
    /// To nearest even; where that does not fit 32 bits, anything whose low four bits are zero.
    unsafe fn f32_to_low_bits(value: Self::V) -> Self::V;
    /// As [`Lanes::f32_to_low_bits`], of the elements of a step, one to a byte.
    #[inline(always)]
    unsafe fn f32_to_low_bytes([a, b, c, d]: [Self::V; 4]) -> Self::V {
        let [a, b] = [Self::f32_to_low_bits(a), Self::f32_to_low_bits(b)];
        Self::low_bytes([a, b, Self::f32_to_low_bits(c), Self::f32_to_low_bits(d)])
    }
    /// To 32 bits, to nearest even, of numbers below 2^31: NaN, and what is too low, gives the least integer.
    unsafe fn round_to_int(value: Self::V) -> Self::V;
    /// As [`Lanes::f32_to_int`].
    unsafe fn f64_to_int<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V;
    /// As [`Lanes::f32_to_short`].
    unsafe fn f64_to_short<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V;
    /// The low four bits of the nearest integer, ties to even, of any magnitude; 0 for NaN and infinity.
    unsafe fn f64_to_low_bits(value: [Self::V; 2]) -> Self::V;
    /// To 64 bits: toward zero, saturating, NaN to 0.
    unsafe fn f64_to_long<const SIGNED: bool>(value: Self::V) -> Self::V;
    /// As [`Lanes::f64_to_long`].
    #[inline(always)]
    unsafe fn f32_to_long<const SIGNED: bool>(value: Self::V) -> [Self::V; 2] {
        let [low, high] = Self::f32_to_f64(value);
        [Self::f64_to_long::<SIGNED>(low), Self::f64_to_long::<SIGNED>(high)]
    }

    // Tables.

    /// A step's codes of `BITS` bits, 4 or fewer, by the low and the high bytes of their entries, which are those of
    /// indices as [`Lanes::load_indices`] gives them.
    #[inline(always)]
    unsafe fn look_up_words<const BITS: usize>(tables: [&Self::Table<1>; 2], src: *const u8) -> [Self::V; 2] {
        let code = Self::in_zip_order(Self::load_indices::<BITS>(src));
        Self::zip_bytes(Self::look_up::<1>(tables[0], code), Self::look_up::<1>(tables[1], code))
    }
    /// Prepares the first `16 * N` bytes; `N` is 1, 2, 4, 8 or 16, and 1 to 8 for [`Lanes::look_up_or_zero`].
    unsafe fn table<const N: usize>(entries: &[u8; 256]) -> Self::Table<N>;
    /// The entries at indices below `16 * N`.
    unsafe fn look_up<const N: usize>(table: &Self::Table<N>, index: Self::V) -> Self::V;
    /// [`Lanes::table`] of 16 bytes.
    #[inline(always)]
    unsafe fn table_of_16(entries: &[u8; 16]) -> Self::Table<1> {
        let mut all = [0; 256];
        all[..16].copy_from_slice(entries);
        Self::table::<1>(&all)
    }
    /// The entries of 16 at the low four bits of indices below 128.
    #[inline(always)]
    unsafe fn look_up_nibble(table: &Self::Table<1>, index: Self::V) -> Self::V {
        Self::look_up::<1>(table, Self::and(index, Self::splat::<8>(0x0f)))
    }
    /// The entries of 16 at the low four bits of indices below 128, and 0 at others.
    #[inline(always)]
    unsafe fn look_up_nibble_or_zero(table: &Self::Table<1>, index: Self::V) -> Self::V {
        let (zero, low) = (Self::splat::<8>(0), Self::and(index, Self::splat::<8>(0x0f)));
        Self::select::<8>(Self::gt::<8>(zero, index), zero, Self::look_up::<1>(table, low))
    }
    /// As [`Lanes::look_up`], and 0 at indices of 128 and more; `N` is 1 to 8.
    #[inline(always)]
    unsafe fn look_up_or_zero<const N: usize>(table: &Self::Table<N>, index: Self::V) -> Self::V {
        if Self::ZERO_BEYOND {
            return Self::look_up::<N>(table, index);
        }
        let zero = Self::splat::<8>(0);
        let entry = Self::look_up::<N>(table, Self::select::<8>(Self::gt::<8>(zero, index), zero, index));
        Self::select::<8>(Self::gt::<8>(zero, index), zero, entry)
    }
}

/// Whether floats of 16 bits become small ones by tables over their upper byte, and not in words or by their exponent.
/// NEON looks up 64 entries in registers beside each other, of which bfloat16, with its many exponents, needs too many.
pub(crate) const fn looks_up_upper_bytes<L: Lanes, S: Element>() -> bool {
    L::WIDE_LOOK_UP && (L::BYTES == 64 || matches!(class::<S>(), Class::F16))
}

/// Whether sources of 8 bits are looked up in the windows of [`Fold`](super::lookup_tables::fold::Fold): where look-ups
/// take longer the more entries there are, and a backend need not be small.
pub(crate) const fn folds<L: Lanes>() -> bool {
    !L::WIDE_LOOK_UP && !L::IS_SMALL
}

/// Bytes of a step's elements of so many bits.
pub(crate) const fn step_bytes<L: Lanes>(bits: usize) -> usize {
    byte_len_of(L::BYTES, bits)
}
