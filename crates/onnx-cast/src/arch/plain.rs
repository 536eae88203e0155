//! Lanes in plain Rust, for tests: every algorithm of [`super::generic`] runs over them in Miri, which knows no vector
//! instructions, and on any processor. There are two kinds, as unlike each other as instruction sets are.
//!
//! Methods are the texts of [`Lanes`] as loops. What a text leaves open differs between the kinds: an algorithm that
//! relies on it fails here. NaN is made by its bits, because Miri gives an operation's NaN any payload.

mod lane;

use super::generic::{self, isa};
use crate::element::{Element, Float16, byte_len_of};
use crate::kernel::lanes::Lanes;
use crate::kernel::{Context, KernelTable};
use crate::packed::{as_uninit, pack_elements, unpack_elements};
use crate::scalar::{Rules, Widen, cast_one};
use core::slice;
use lane::{QUIET, double, float, int, lane, lane_of, lanes, mask, narrow, result, short, signed, widen};

/// Vectors of so many bytes; rich ones fuse, and have wide look-ups.
#[derive(Clone, Copy)]
pub(super) struct Plain<const BYTES: usize, const RICH: bool>;

// Apart, because an incremental build compiles the kernels of a module on one thread.
mod few {
    use super::*;
    isa!(Few, FEW, Plain<16, false>);
}
mod many {
    use super::*;
    isa!(Many, MANY, Plain<64, true>);
}

/// Small vectors of an instruction set with little, and large ones of one with much.
pub(crate) static FEW: KernelTable = KernelTable::new::<few::Few>();
pub(crate) static MANY: KernelTable = KernelTable::new::<many::Many>();

// SAFETY: each method does what its text says, with the memory that it names; `tests` compares what comes of it.
unsafe impl<const B: usize, const RICH: bool> Lanes for Plain<B, RICH> {
    type V = [u8; B];
    type M = [bool; B];
    type Table<const N: usize> = [u8; 256];

    const BYTES: usize = B;
    const WIDE_LOOK_UP: bool = RICH;
    const LEAVES_IN_PLACE: bool = RICH;
    const F64_OVERFLOWS: bool = RICH;
    const FUSES: bool = RICH;
    const STREAMS: bool = true;

    unsafe fn load(src: *const u8) -> Self::V {
        // SAFETY: the caller promises that a vector can be read.
        unsafe { src.cast::<[u8; B]>().read() }
    }

    unsafe fn store(dst: *mut u8, value: Self::V) {
        // SAFETY: the caller promises that a vector can be written.
        unsafe { dst.cast::<[u8; B]>().write(value) };
    }

    unsafe fn stream(dst: *mut u8, value: Self::V) {
        assert!(dst.addr().is_multiple_of(B), "a stream that is not aligned");
        // SAFETY: the caller promises that a vector can be written.
        unsafe { Self::store(dst, value) };
    }

    unsafe fn copy_few(src: *const u8, dst: *mut u8, len: usize, whole: usize) {
        for at in 0..whole {
            // SAFETY: `src` has `whole` bytes, and `dst` has space for `len`. The loop reads all `whole` bytes, so that
            // tests detect a shorter `src`.
            unsafe {
                let byte = src.add(at).read();
                if at < len {
                    dst.add(at).write(byte);
                }
            }
        }
    }

    unsafe fn fence() {}
    unsafe fn prefetch(_: *const u8) {}

    unsafe fn load_extend<const FROM: usize, const W: usize, const SIGNED: bool>(src: *const u8) -> Self::V {
        // SAFETY: `src` has one integer of FROM bits for each lane of W bits, which is B * FROM / W bytes.
        let bytes = unsafe { slice::from_raw_parts(src, B * FROM / W) };
        lanes::<W, B>(|index| {
            let mut integer = [0; 8];
            integer[..FROM / 8].copy_from_slice(&bytes[index * FROM / 8..][..FROM / 8]);
            let integer = u64::from_le_bytes(integer);
            if SIGNED { signed::<FROM>(integer) as u64 } else { integer }
        })
    }

    unsafe fn load_f16(src: *const u8) -> Self::V {
        // SAFETY: `src` has one float16 for each lane of 32 bits, which is B / 2 bytes.
        let halves = unsafe { Self::load_extend::<16, 32, false>(src) };
        lanes::<32, B>(|index| {
            let half = Float16::from_bits(lane::<32, B>(&halves, index) as u16);
            let value = half.to_f32();
            u64::from(value.to_bits() | if value.is_nan() { QUIET } else { 0 })
        })
    }

    unsafe fn store_upper_words(dst: *mut u8, words: [Self::V; 2]) {
        for part in 0..4 {
            let lanes = lanes::<32, B>(|index| lane_of::<16, B>(&words, part * (B / 4) + index) << 16);
            // SAFETY: `dst` has space for the B lanes of a step, which is 4 * B bytes.
            unsafe { Self::store(dst.add(part * B), lanes) };
        }
    }

    unsafe fn load_codes<const BITS: usize>(src: *const u8) -> Self::V {
        // SAFETY: `src` has the codes of a step: B elements of BITS bits.
        let bytes = unsafe { slice::from_raw_parts(src, byte_len_of(B, BITS)) };
        let mut codes = [0; B];
        // SAFETY: unpacking writes only initialised bytes.
        unpack_elements(BITS, bytes, unsafe { as_uninit(&mut codes) });
        codes
    }

    unsafe fn load_indices<const BITS: usize>(src: *const u8) -> Self::V {
        // SAFETY: the caller promises that the codes of a step can be read.
        let codes = unsafe { Self::load_codes::<BITS>(src) };
        let is_moved = |i: usize| BITS == 2 && Self::LEAVES_IN_PLACE && i % 2 == 1;
        core::array::from_fn(|i| if is_moved(i) { codes[i] << 2 } else { codes[i] })
    }

    unsafe fn store_codes<const BITS: usize>(dst: *mut u8, codes: Self::V) {
        let (mut bytes, len) = ([0; B], byte_len_of(B, BITS));
        // SAFETY: packing writes only initialised bytes.
        pack_elements(BITS, &codes, unsafe { as_uninit(&mut bytes[..len]) });
        // SAFETY: `dst` has space for the codes of a step, which is `len` bytes. `bytes` is local, so they do not
        // overlap.
        unsafe { dst.copy_from_nonoverlapping(bytes.as_ptr(), len) };
    }

    unsafe fn splat<const W: usize>(value: u64) -> Self::V {
        lanes::<W, B>(|_| value)
    }

    unsafe fn and(a: Self::V, b: Self::V) -> Self::V {
        core::array::from_fn(|i| a[i] & b[i])
    }
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V {
        core::array::from_fn(|i| a[i] | b[i])
    }

    unsafe fn add<const W: usize>(a: Self::V, b: Self::V) -> Self::V {
        lanes::<W, B>(|i| lane::<W, B>(&a, i).wrapping_add(lane::<W, B>(&b, i)))
    }

    unsafe fn sub<const W: usize>(a: Self::V, b: Self::V) -> Self::V {
        lanes::<W, B>(|i| lane::<W, B>(&a, i).wrapping_sub(lane::<W, B>(&b, i)))
    }

    unsafe fn saturating_sub(a: Self::V, b: Self::V) -> Self::V {
        lanes::<16, B>(|i| lane::<16, B>(&a, i).saturating_sub(lane::<16, B>(&b, i)))
    }

    unsafe fn plus_above(a: Self::V, value: Self::V, limit: Self::V) -> Self::V {
        core::array::from_fn(|i| a[i].wrapping_add(u8::from(value[i] > limit[i])))
    }

    unsafe fn shl<const W: usize, const N: u32>(a: Self::V) -> Self::V {
        lanes::<W, B>(|i| lane::<W, B>(&a, i) << N)
    }

    unsafe fn shr<const W: usize, const N: u32>(a: Self::V) -> Self::V {
        lanes::<W, B>(|i| lane::<W, B>(&a, i) >> N)
    }

    unsafe fn min_u<const W: usize>(a: Self::V, b: Self::V) -> Self::V {
        lanes::<W, B>(|i| lane::<W, B>(&a, i).min(lane::<W, B>(&b, i)))
    }

    unsafe fn max_u<const W: usize>(a: Self::V, b: Self::V) -> Self::V {
        lanes::<W, B>(|i| lane::<W, B>(&a, i).max(lane::<W, B>(&b, i)))
    }

    unsafe fn gt<const W: usize>(a: Self::V, b: Self::V) -> Self::M {
        mask::<W, B>(|i| signed::<W>(lane::<W, B>(&a, i)) > signed::<W>(lane::<W, B>(&b, i)))
    }

    unsafe fn any<const W: usize>(mask: Self::M) -> bool {
        mask.contains(&true)
    }

    unsafe fn eq<const W: usize>(a: Self::V, b: Self::V) -> Self::M {
        mask::<W, B>(|i| lane::<W, B>(&a, i) == lane::<W, B>(&b, i))
    }

    #[inline(never)]
    unsafe fn select<const W: usize>(mask: Self::M, a: Self::V, b: Self::V) -> Self::V {
        core::array::from_fn(|i| if mask[i] { a[i] } else { b[i] })
    }

    unsafe fn low_halves<const W: usize>(value: [Self::V; 2]) -> Self::V {
        match W {
            16 => lanes::<8, B>(|i| lane_of::<16, B>(&value, i)),
            32 => lanes::<16, B>(|i| lane_of::<32, B>(&value, i)),
            64 => lanes::<32, B>(|i| lane_of::<64, B>(&value, i)),
            _ => unreachable!("no lanes of this width"),
        }
    }

    unsafe fn high_halves<const W: usize>(value: [Self::V; 2]) -> Self::V {
        match W {
            32 => lanes::<16, B>(|i| lane_of::<32, B>(&value, i) >> 16),
            64 => lanes::<32, B>(|i| lane_of::<64, B>(&value, i) >> 32),
            _ => unreachable!("no lanes of this width"),
        }
    }

    unsafe fn high_bytes(value: [Self::V; 2]) -> Self::V {
        lanes::<8, B>(|i| lane_of::<16, B>(&value, i) >> 8)
    }

    unsafe fn low_bytes(value: [Self::V; 4]) -> Self::V {
        lanes::<8, B>(|i| lane_of::<32, B>(&value, i))
    }

    unsafe fn narrow_top_bits(value: [Self::V; 4]) -> Self::V {
        // The other bits are arbitrary.
        let others = if RICH { 0x7f } else { 0x15 };
        lanes::<8, B>(|i| lane_of::<32, B>(&value, i) >> 24 & 0x80 | others)
    }

    unsafe fn saturate_to_16<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V {
        let [low, high] = if SIGNED { [i16::MIN.into(), i16::MAX.into()] } else { [0, u16::MAX.into()] };
        lanes::<16, B>(|i| signed::<32>(lane_of::<32, B>(&value, i)).clamp(low, high) as u64)
    }

    unsafe fn saturate_to_8<const SIGNED: bool>(value: [Self::V; 4]) -> Self::V {
        let [low, high] = if SIGNED { [i8::MIN.into(), i8::MAX.into()] } else { [0, u8::MAX.into()] };
        lanes::<8, B>(|i| signed::<32>(lane_of::<32, B>(&value, i)).clamp(low, high) as u64)
    }

    unsafe fn narrow_words<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V {
        let [low, high] = if SIGNED { [i8::MIN.into(), i8::MAX.into()] } else { [0, u8::MAX.into()] };
        lanes::<8, B>(|i| signed::<16>(lane_of::<16, B>(&value, i)).clamp(low, high) as u64)
    }

    unsafe fn saturate_to_i32<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V {
        lanes::<32, B>(|i| {
            let value = lane_of::<64, B>(&value, i);
            if SIGNED {
                (value as i64).clamp(i32::MIN.into(), i32::MAX.into()) as u64
            } else {
                value.min(i32::MAX as u64)
            }
        })
    }

    /// An order of its own, so that tests notice where it is missing.
    unsafe fn in_zip_order(mut value: Self::V) -> Self::V {
        value.reverse();
        value
    }

    unsafe fn zip_bytes(a: Self::V, b: Self::V) -> [Self::V; 2] {
        [0, 1].map(|half| {
            core::array::from_fn(|i| {
                let index = B - 1 - (half * B + i) / 2;
                if i % 2 == 0 { a[index] } else { b[index] }
            })
        })
    }

    unsafe fn add_f32(a: Self::V, b: Self::V) -> Self::V {
        lanes::<32, B>(|i| {
            let (a, b) = (float(&a, i), float(&b, i));
            result::<RICH>(&[a, b], a + b)
        })
    }

    unsafe fn mul_f32(a: Self::V, b: Self::V) -> Self::V {
        lanes::<32, B>(|i| {
            let (a, b) = (float(&a, i), float(&b, i));
            result::<RICH>(&[a, b], a * b)
        })
    }

    unsafe fn mul_add_f32(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        lanes::<32, B>(|i| {
            let (a, b, c) = (float(&a, i), float(&b, i), float(&c, i));
            result::<RICH>(&[a, b, c], if RICH { a.mul_add(b, c) } else { a * b + c })
        })
    }

    unsafe fn is_nan_f32(value: Self::V) -> Self::M {
        mask::<32, B>(|i| float(&value, i).is_nan())
    }
    unsafe fn min_f32(a: Self::V, b: Self::V) -> Self::V {
        lanes::<32, B>(|i| lane::<32, B>(if float(&a, i) < float(&b, i) { &a } else { &b }, i))
    }

    unsafe fn max_f32(a: Self::V, b: Self::V) -> Self::V {
        lanes::<32, B>(|i| lane::<32, B>(if float(&a, i) > float(&b, i) { &a } else { &b }, i))
    }

    unsafe fn f32_to_f16(value: [Self::V; 2]) -> Self::V {
        let half = |value| cast_one::<f32, Float16>(value, &Rules::NONE).to_bits();
        lanes::<16, B>(|i| half(f32::from_bits(lane_of::<32, B>(&value, i) as u32)).into())
    }

    unsafe fn f32_to_f64(value: Self::V) -> [Self::V; 2] {
        let count = B / 8;
        [lanes::<64, B>(|i| widen(float(&value, i))), lanes::<64, B>(|i| widen(float(&value, count + i)))]
    }

    unsafe fn f64_to_f32(value: [Self::V; 2]) -> Self::V {
        lanes::<32, B>(|i| narrow(double(&value, i)))
    }

    unsafe fn f64_to_f32_odd(value: [Self::V; 2]) -> Self::V {
        lanes::<32, B>(|i| {
            let value = double(&value, i);
            if RICH && value.is_finite() && value.abs() > f32::MAX.into() {
                return f32::INFINITY.copysign(value as f32).to_bits().into();
            }
            Widen::to_f32_round_to_odd(value).to_bits().into()
        })
    }

    unsafe fn int_to_f32<const SIGNED: bool>(value: Self::V) -> Self::V {
        lanes::<32, B>(|i| {
            let value = lane::<32, B>(&value, i) as u32;
            (if SIGNED { value as i32 as f32 } else { value as f32 }).to_bits().into()
        })
    }

    unsafe fn int_to_f32_odd<const SIGNED: bool>(value: Self::V) -> Self::V {
        lanes::<32, B>(|i| {
            let value = lane::<32, B>(&value, i) as u32;
            let odd = if SIGNED { (value as i32).to_f32_round_to_odd() } else { value.to_f32_round_to_odd() };
            odd.to_bits().into()
        })
    }

    unsafe fn int_to_f64<const SIGNED: bool>(value: Self::V) -> [Self::V; 2] {
        let number = |i: usize| {
            let value = lane::<32, B>(&value, i) as u32;
            (if SIGNED { f64::from(value as i32) } else { f64::from(value) }).to_bits()
        };
        [lanes::<64, B>(number), lanes::<64, B>(|i| number(B / 8 + i))]
    }

    unsafe fn long_to_f32<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V {
        lanes::<32, B>(|i| {
            let value = lane_of::<64, B>(&value, i);
            (if SIGNED { value as i64 as f32 } else { value as f32 }).to_bits().into()
        })
    }

    unsafe fn long_to_f32_odd<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V {
        lanes::<32, B>(|i| {
            let value = lane_of::<64, B>(&value, i);
            let odd = if SIGNED { (value as i64).to_f32_round_to_odd() } else { value.to_f32_round_to_odd() };
            odd.to_bits().into()
        })
    }

    unsafe fn long_to_f64<const SIGNED: bool>(value: Self::V) -> Self::V {
        lanes::<64, B>(|i| {
            let value = lane::<64, B>(&value, i);
            (if SIGNED { value as i64 as f64 } else { value as f64 }).to_bits()
        })
    }

    unsafe fn f32_to_int<const SIGNED: bool>(value: Self::V) -> Self::V {
        lanes::<32, B>(|i| int::<SIGNED>(float(&value, i).into()))
    }
    unsafe fn f32_to_short<const SIGNED: bool>(value: Self::V) -> Self::V {
        lanes::<32, B>(|i| short::<SIGNED, RICH>(float(&value, i).into()))
    }
    unsafe fn round_to_int(value: Self::V) -> Self::V {
        lanes::<32, B>(|i| {
            let nearest = float(&value, i).round_ties_even();
            if nearest >= -2_147_483_648.0 { nearest as i32 as u32 as u64 } else { 0x8000_0000 }
        })
    }

    unsafe fn f32_to_low_bits(value: Self::V) -> Self::V {
        lanes::<32, B>(|i| {
            let nearest = float(&value, i).round_ties_even();
            if nearest.abs() < 2_147_483_648.0 { nearest as i32 as u64 } else { 0x8000_0000 }
        })
    }

    unsafe fn f64_to_int<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V {
        lanes::<32, B>(|i| int::<SIGNED>(double(&value, i)))
    }

    unsafe fn f64_to_short<const SIGNED: bool>(value: [Self::V; 2]) -> Self::V {
        lanes::<32, B>(|i| short::<SIGNED, RICH>(double(&value, i)))
    }

    unsafe fn f64_to_low_bits(value: [Self::V; 2]) -> Self::V {
        lanes::<32, B>(|i| {
            let nearest = double(&value, i).round_ties_even();
            // From 2^57 on a double is a multiple of 16.
            if nearest.abs() < (1u64 << 57) as f64 { nearest as i64 as u64 } else { 0 }
        })
    }

    unsafe fn f64_to_long<const SIGNED: bool>(value: Self::V) -> Self::V {
        lanes::<64, B>(|i| {
            let value = f64::from_bits(lane::<64, B>(&value, i));
            if SIGNED { value as i64 as u64 } else { value as u64 }
        })
    }

    unsafe fn table<const N: usize>(entries: &[u8; 256]) -> Self::Table<N> {
        *entries
    }

    #[inline(never)]
    unsafe fn look_up<const N: usize>(table: &Self::Table<N>, index: Self::V) -> Self::V {
        core::array::from_fn(|i| {
            let index = usize::from(index[i]);
            assert!(index < 16 * N, "entry {index} of {}", 16 * N);
            table[index]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::portable;
    use crate::element::DataType;
    use crate::kernel::{StoreHint, Task};
    use crate::scalar::RoundMode;

    /// Bytes beside a result.
    const MARGIN: usize = 64;

    /// The bytes of elements of every kind: any bits, and floats and integers of magnitudes that narrow types have.
    fn elements(data_type: DataType, len: usize, state: &mut u64) -> Vec<u8> {
        let mut next = || {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *state >> 8
        };
        let width = data_type.info().bits as usize;
        if width < 32 {
            return (0..byte_len_of(len, width)).map(|_| next() as u8).collect();
        }
        let element = |index: usize| {
            let word = next();
            let number = (word as i32 as f64) * 2f64.powi((word >> 40) as i32 % 80 - 60);
            let bits = match data_type {
                DataType::Float => u64::from((number as f32).to_bits()),
                DataType::Double => number.to_bits(),
                _ => (word << 12) as i64 as u64 >> (word >> 50 & 31) ^ (word & 1).wrapping_neg(),
            };
            let specials = [0, u64::MAX, 1 << (width - 1), f64::NAN.to_bits(), f64::INFINITY.to_bits(), 0x7f80_0000];
            let bits = if index % 7 == 3 { specials[index / 7 % specials.len()] } else { bits };
            let any = if index % 5 == 4 { next() << 20 | word >> 9 } else { bits };
            any.to_le_bytes()[..width / 8].to_vec()
        };
        (0..len).flat_map(element).collect()
    }

    /// Compares a kernel with the scalar cast in a loop, and looks at the bytes beside its result.
    fn check(table: &KernelTable, context: &Context, hint: StoreHint, len: usize, state: &mut u64) {
        let offset = len % 3 * 8;
        let (from, to) = (context.from, context.to);
        let src = elements(from, len, state);
        let bytes = byte_len_of(len, to.info().bits as usize);
        let mut want = vec![0; bytes];
        let mut got = vec![0xa5; MARGIN + bytes + 2 * MARGIN];
        let begin = got.as_ptr().align_offset(MARGIN) + offset;
        let kernels = [&portable::TABLE, table].map(|table| table.cast(from, to).expect("numeric types"));
        // SAFETY: every machine runs both; the slices have the bytes of as many elements.
        unsafe {
            kernels[0](&Task::new(&src, as_uninit(&mut want), len), context);
            let got = as_uninit(&mut got[begin..begin + bytes]);
            kernels[1](&Task { hint, ..Task::new(&src, got, len) }, context);
        }
        let what = || format!("{from} to {to}, {len} elements, {offset} bytes in, {context:?}");
        assert_eq!(got[begin..begin + bytes], want, "{}", what());
        let mut outside = got[..begin].iter().chain(&got[begin + bytes..]);
        assert!(outside.all(|byte| *byte == 0xa5), "{}: bytes beside the result", what());
    }

    /// Miri takes seconds for what takes milliseconds elsewhere.
    const IN_MIRI: bool = cfg!(miri);

    #[test]
    fn every_pair_is_the_scalar_cast() {
        let state = &mut 1;
        for (row, &from) in DataType::NUMERIC.iter().enumerate() {
            for (column, &to) in DataType::NUMERIC.iter().enumerate() {
                // Each source and each target once. This order needs few of the tables that are slow to fold.
                if IN_MIRI && column != (23 * row + 10) % DataType::NUMERIC.len() {
                    continue;
                }
                let plain = Context::plain(from, to);
                if IN_MIRI {
                    // A line or two, in few lanes. Two steps of packed elements: the other test fills lines with them.
                    let len = 1 + (2 * 64 * 8 / to.info().bits as usize).min(if to.is_packed() { 32 } else { 80 });
                    check(&FEW, &plain, StoreHint::NonTemporal, len, state);
                    continue;
                }
                let settings = [
                    (plain.rules, StoreHint::Temporal),
                    (Rules::new(to, 19, false, RoundMode::Up), StoreHint::Temporal),
                    (Rules::new(to, 28, false, RoundMode::Nearest), StoreHint::NonTemporal),
                ];
                for (table, step) in [(&FEW, 16), (&MANY, 64)] {
                    for ((rules, hint), len) in settings.into_iter().zip([2 * step + 3, step + 1, 700]) {
                        check(table, &Context { rules, ..plain }, hint, len, state);
                    }
                }
            }
        }
    }

    #[test]
    fn packing_is_that_of_the_portable_backend() {
        let state = &mut 2;
        for data_type in DataType::NUMERIC.iter().copied().filter(|data_type| data_type.is_packed()) {
            let context = Context::plain(data_type, data_type);
            for (table, len) in [&FEW, &MANY].into_iter().flat_map(|table| [1, 7, 70, 131].map(|len| (table, len))) {
                let bytes = byte_len_of(len, data_type.info().bits as usize);
                let unpacked = elements(DataType::Uint8, len, state);
                let (mut want, mut got) = ([vec![0; bytes], vec![0; len]], [vec![1; bytes], vec![1; len]]);
                for (table, out) in [(&portable::TABLE, &mut want), (table, &mut got)] {
                    let [packed, again] = out;
                    let (pack, unpack) = (table.pack(data_type), table.unpack(data_type));
                    // SAFETY: every machine runs both; these are the bytes of as many elements.
                    unsafe {
                        pack.expect("a packed type")(&Task::new(&unpacked, as_uninit(packed), len), &context);
                        unpack.expect("a packed type")(&Task::new(packed, as_uninit(again), len), &context);
                    }
                }
                assert_eq!(got, want, "{data_type}, {len} elements");
            }
        }
    }
}
