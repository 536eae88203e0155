//! Sources of 8 bits or fewer, by tables with an entry for each code, which the scalar cast makes.
//!
//! To 16 bits or fewer a table has the entries themselves, in planes: all their low bytes, then all their high ones. To
//! `float`, it has the value of each code as `bfloat16` or `int8`, which represent every value of such a source, and
//! [`wide`] converts these.
//!
//! Every `unsafe fn` here asks of its caller that the processor has the instructions of `L` and that pointers are valid
//! for a step's bytes, and a kernel what [`crate::kernel::Kernel`] asks.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::folded::{self, replaced, signed};
use super::small_float::RuleLanes;
use super::step::{Walk, finish, walk};
use super::wide::{self, store_codes};
use crate::element::{BFloat16, Class, DataType, Element, Float6E2M3, Float16, Uint4, byte_len_of, class};
use crate::kernel::lanes::{Lanes, folds};
use crate::kernel::lookup_tables::{self, KeptOrMade, Table, UPPER_INFINITY, UPPER_QUIET, Upper, repeat};
use crate::kernel::{Context, Task, cast_each};
use crate::packed::bits;

/// Casts from a type of the width of `S` to one of the width of `D`, 16 bits or fewer.
///
/// # Safety
/// As [`crate::kernel::Kernel`], of the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn cast<L: Lanes, S: Element, D: Element>(task: &Task<'_>, context: &Context) {
    let table = &*match lookup_tables::kept(context) {
        Some(table) => KeptOrMade::Kept(table),
        // A table costs as much as hundreds of elements.
        None if task.len < L::BYTES => return cast_each(task, context),
        None => KeptOrMade::Made(Table::new(context)),
    };
    by_table::<L, S, D>(task, table, context.from);
    finish::<L, D>(task);
}

/// [`cast`] by the loop that the table allows; the padding of the last byte is arbitrary.
#[inline(always)]
unsafe fn by_table<L: Lanes, S: Element, D: Element>(task: &Task<'_>, table: &Table, from: DataType) {
    // SAFETY: the caller promises that the processor has the instructions and that the task has the bytes of its
    // elements, of these widths.
    unsafe {
        if const { bits::<S>() == 8 && bits::<D>() == 16 && !L::IS_SMALL } && table.has_upper_bytes {
            return as_upper_bytes::<L, D>(task);
        }
        if const { bits::<S>() == 8 && folds::<L>() }
            && let Some(fold) = &table.fold
            && folded::cast::<L, D>(task, table, fold)
        {
            return;
        }
        if const { L::WIDE_LOOK_UP && bits::<S>() == 8 } && from == DataType::Bool {
            return by_truth::<L, D>(task, table);
        }
        if const { L::WIDE_LOOK_UP && bits::<S>() == 8 && bits::<D>() > 2 } && has_sign::<D>(table) {
            return by_half::<L, D, false>(task, table);
        }
        if const { L::WIDE_LOOK_UP && bits::<S>() == 8 && bits::<D>() == 8 } && table.upper == Some(Upper::Signed) {
            return by_half::<L, D, true>(task, table);
        }
        if const { L::WIDE_LOOK_UP && bits::<S>() == 8 && bits::<D>() != 6 }
            && let Some(upper) = table.upper
        {
            return by_lower_half::<L, S, D>(task, table, upper);
        }
        if const { folds::<L>() && bits::<S>() == 6 && bits::<D>() > 2 } && has_sign::<D>(table) {
            return by_half_of_64::<L, D, false>(task, table);
        }
        if const { folds::<L>() && bits::<S>() == 6 && bits::<D>() < 6 } && table.upper == Some(Upper::Negated) {
            return by_half_of_64::<L, D, true>(task, table);
        }
        match const { (bits::<S>(), bits::<D>()) } {
            (2, 16) => to_words::<L, S, D, 2>(task, table),
            (4, 16) => to_words::<L, S, D, 4>(task, table),
            (width @ (2 | 4), 2 | 4) if width == bits::<D>() => same_width::<L>(task, table, width),
            (2, 4) => two_to_four::<L>(task, table),
            (4, 2) => four_to_two::<L>(task, table),
            (8, 2 | 4) => in_pairs::<L, S, D>(task, table),
            (8, 6 | 8) if !L::WIDE_LOOK_UP && table.sign.is_some() => by_magnitude::<L, D>(task, table),
            (8, _) => by_code::<L, S, D, 16>(task, table),
            (6, _) => by_code::<L, S, D, 4>(task, table),
            (2 | 4, _) => by_code::<L, S, D, 1>(task, table),
            (_, _) => unreachable!("codes have 8 bits or fewer"),
        }
    }
}

/// A step's codes of the width of `S`, one to a byte, as indices of a table.
#[inline(always)]
unsafe fn load_indices<L: Lanes, S: Element>(src: *const u8) -> L::V {
    match const { bits::<S>() } {
        2 => L::load_indices::<2>(src),
        4 => L::load_indices::<4>(src),
        6 => L::load_indices::<6>(src),
        8 => L::load(src),
        _ => unreachable!("codes have 8 bits or fewer"),
    }
}

/// A step's codes of the width of `S`, one to a byte.
#[inline(always)]
unsafe fn load_codes<L: Lanes, S: Element>(src: *const u8) -> L::V {
    match const { bits::<S>() } {
        2 => L::load_codes::<2>(src),
        4 => L::load_codes::<4>(src),
        6 => L::load_codes::<6>(src),
        8 => L::load(src),
        _ => unreachable!("codes have 8 bits or fewer"),
    }
}

/// A table whose indices are those of [`Lanes::load_indices`].
#[inline(always)]
unsafe fn by_index<L: Lanes, S: Element, const N: usize>(entries: &[u8; 256]) -> L::Table<N> {
    if const { !L::LEAVES_IN_PLACE || bits::<S>() != 2 } {
        return L::table::<N>(entries);
    }
    let mut by_index = *entries;
    for code in 1..4 {
        by_index[4 * code] = entries[code];
    }
    L::table::<N>(&by_index)
}

/// Every code by its entry.
#[inline(always)]
unsafe fn by_code<L: Lanes, S: Element, D: Element, const N: usize>(task: &Task<'_>, table: &Table) {
    let (low, high) = (by_index::<L, S, N>(&table.planes[0]), by_index::<L, S, N>(&table.planes[1]));
    walk::<L>(
        task,
        Walk::of::<S, D>(),
        #[inline(always)]
        |src, dst, _| {
            let code = load_indices::<L, S>(src);
            if const { bits::<D>() == 16 } {
                let code = L::in_zip_order(code);
                store_zipped::<L>(dst, [L::look_up::<N>(&low, code), L::look_up::<N>(&high, code)]);
            } else {
                store_codes::<L, D>(dst, L::look_up::<N>(&low, code));
            }
        },
    );
}

/// Every code of 4 bits or fewer by its entry of 16 bits.
#[inline(always)]
unsafe fn to_words<L: Lanes, S: Element, D: Element, const BITS: usize>(task: &Task<'_>, table: &Table) {
    let (low, high) = (by_index::<L, S, 1>(&table.planes[0]), by_index::<L, S, 1>(&table.planes[1]));
    walk::<L>(
        task,
        Walk::of::<S, D>(),
        #[inline(always)]
        |src, dst, _| {
            let [first, second] = L::look_up_words::<BITS>([&low, &high], src);
            L::store(dst, first);
            L::store(dst.add(L::BYTES), second);
        },
    );
}

/// From a float of 8 bits with a sign: the codes below 0x80 have entries, the others have the sign's bits besides.
#[inline(always)]
unsafe fn by_magnitude<L: Lanes, D: Element>(task: &Task<'_>, table: &Table) {
    let entries = L::table::<8>(&table.planes[0]);
    let top = L::splat::<8>(0x80);
    let sign = L::splat::<8>(table.sign.unwrap_or_default()[0].into());
    let minus_zero = L::splat::<8>(table.planes[0][0x80].into());
    walk::<L>(
        task,
        Walk::of::<u8, D>(),
        #[inline(always)]
        |src, dst, _| {
            let code = L::load(src);
            let entry = L::look_up::<8>(&entries, L::and(code, L::splat::<8>(0x7f)));
            let signed = L::select::<8>(L::gt::<8>(L::splat::<8>(0), code), L::or(entry, sign), entry);
            store_codes::<L, D>(dst, L::select::<8>(L::eq::<8>(code, top), minus_zero, signed));
        },
    );
}

/// From float8e5m2 to float16, whose upper byte it is, once NaN is quiet.
#[inline(always)]
unsafe fn as_upper_bytes<L: Lanes, D: Element>(task: &Task<'_>) {
    let byte = |byte: u8| L::splat::<8>(byte.into());
    walk::<L>(
        task,
        Walk::of::<u8, D>(),
        #[inline(always)]
        |src, dst, _| {
            let code = L::in_zip_order(L::load(src));
            let is_nan = L::gt::<8>(L::and(code, byte(0x7f)), byte(UPPER_INFINITY));
            let quiet = L::select::<8>(is_nan, byte(UPPER_QUIET), byte(0));
            store_zipped::<L>(dst, [byte(0), L::or(code, quiet)]);
        },
    );
}

/// Whether negative codes of 6 or 8 bits have the results of the others with the topmost bit.
fn has_sign<D: Element>(table: &Table) -> bool {
    table.sign == Some(top::<D>())
}

/// The topmost bit of a target of 16 bits or fewer, in planes.
const fn top<D: Element>() -> [u8; 2] {
    (1u16 << (bits::<D>() - 1)).to_le_bytes()
}

/// From bool: all codes but 0 have the same entry.
#[inline(always)]
unsafe fn by_truth<L: Lanes, D: Element>(task: &Task<'_>, table: &Table) {
    let (low, high) = (L::table::<1>(&table.planes[0]), L::table::<1>(&table.planes[1]));
    walk::<L>(
        task,
        Walk::of::<u8, D>(),
        #[inline(always)]
        |src, dst, _| {
            let truth = L::min_u::<8>(L::load(src), L::splat::<8>(1));
            if const { bits::<D>() == 16 } {
                let truth = L::in_zip_order(truth);
                store_zipped::<L>(dst, [L::look_up::<1>(&low, truth), L::look_up::<1>(&high, truth)]);
            } else {
                store_codes::<L, D>(dst, L::look_up::<1>(&low, truth));
            }
        },
    );
}

/// From a float of 8 bits to another, where [`has_sign`], or an integer, where [`Upper::Signed`]: half of the table is
/// enough.
#[inline(always)]
unsafe fn by_half<L: Lanes, D: Element, const IS_INTEGER: bool>(task: &Task<'_>, table: &Table) {
    let (low, high) = (L::table::<8>(&table.planes[0]), L::table::<8>(&table.planes[1]));
    let of_0x80 = [L::splat::<8>(table.planes[0][0x80].into()), L::splat::<8>(table.planes[1][0x80].into())];
    let sign = table.sign.unwrap_or_default();
    let is_whole = IS_INTEGER || (0..2).all(|plane| table.planes[plane][0x80] == table.planes[plane][0] | sign[plane]);
    let top = L::splat::<8>(0x80);
    walk::<L>(
        task,
        Walk::of::<u8, D>(),
        #[inline(always)]
        |src, dst, _| {
            let is_word = const { bits::<D>() == 16 };
            let code = if is_word { L::in_zip_order(L::load(src)) } else { L::load(src) };
            let rest = L::splat::<8>(0x7f);
            let index = if IS_INTEGER {
                L::min_u::<8>(L::min_u::<8>(code, L::sub::<8>(L::splat::<8>(0), code)), rest)
            } else if L::WRAPS {
                code
            } else {
                L::and(code, rest)
            };
            let mut entry = [L::look_up::<8>(&low, index), L::splat::<8>(0)];
            if is_word {
                entry[1] = L::look_up::<8>(&high, index);
            }
            entry = signed::<L, D>(entry, code);
            if !is_whole {
                entry = replaced::<L>(entry, L::eq::<8>(code, top), of_0x80);
            }
            if is_word { store_zipped::<L>(dst, entry) } else { store_codes::<L, D>(dst, entry[0]) }
        },
    );
}

/// From 8 bits to integers, where the entries of codes with the top bit follow from the others: half of the table is
/// enough.
#[inline(always)]
unsafe fn by_lower_half<L: Lanes, S: Element, D: Element>(task: &Task<'_>, table: &Table, upper: Upper) {
    match upper {
        Upper::Zero if const { bits::<D>() >= 8 } => with_upper::<L, D, ZERO>(task, table),
        Upper::Negated => with_upper::<L, D, NEGATED>(task, table),
        Upper::NegatedTo128 if const { bits::<D>() == 8 } => with_upper::<L, D, NEGATED_TO_128>(task, table),
        Upper::Zero | Upper::NegatedTo128 | Upper::Signed => by_code::<L, S, D, 16>(task, table),
    }
}

/// What becomes of the entries of codes with the top bit: see [`Upper`].
const ZERO: u8 = 0;
const NEGATED: u8 = 1;
const NEGATED_TO_128: u8 = 2;

/// [`by_lower_half`] where negative codes have these entries: a loop for each kind.
#[inline(always)]
unsafe fn with_upper<L: Lanes, D: Element, const UPPER: u8>(task: &Task<'_>, table: &Table) {
    let mut entries = table.planes;
    if UPPER == NEGATED_TO_128 {
        // Of magnitudes up to 128 the negative numbers have all.
        let (lower, upper) = entries[0].split_at_mut(0x80);
        lower.iter_mut().zip(upper).for_each(|(lower, upper)| *lower = upper.wrapping_neg());
    }
    let (low, high) = (L::table::<8>(&entries[0]), L::table::<8>(&entries[1]));
    let byte = |byte: u8| L::splat::<8>(byte.into());
    walk::<L>(
        task,
        Walk::of::<u8, D>(),
        #[inline(always)]
        |src, dst, _| {
            let is_word = const { bits::<D>() == 16 };
            let code = if is_word { L::in_zip_order(L::load(src)) } else { L::load(src) };
            let index = if L::WRAPS { code } else { L::and(code, byte(0x7f)) };
            let (entry, zero) = (L::look_up::<8>(&low, index), byte(0));
            let high = if is_word { L::look_up::<8>(&high, index) } else { zero };
            let is_negative = L::gt::<8>(zero, code);
            let [for_negative, for_positive] = match UPPER {
                ZERO => [zero, entry],
                NEGATED => [L::sub::<8>(zero, entry), entry],
                _ => [L::sub::<8>(zero, entry), L::min_u::<8>(entry, byte(0x7f))],
            };
            let low = L::select::<8>(is_negative, for_negative, for_positive);
            if !is_word {
                let mask = const { 0xff >> (8 - if bits::<D>() < 8 { bits::<D>() } else { 8 }) };
                return store_codes::<L, D>(dst, if bits::<D>() < 8 { L::and(low, byte(mask)) } else { low });
            }
            // All bits of the upper byte are flipped, and 1 is carried into it where the lower one is 0.
            let carry = L::select::<8>(L::eq::<8>(entry, zero), byte(0xff), zero);
            let flipped = L::sub::<8>(L::sub::<8>(byte(0xff), high), carry);
            let high = L::select::<8>(is_negative, if UPPER == ZERO { zero } else { flipped }, high);
            store_zipped::<L>(dst, [low, high]);
        },
    );
}

/// From 8 bits to 4 or fewer: an entry has the results of a code in the lower half of the codes and of its partner in
/// the upper half, so that half the table is enough.
#[inline(always)]
unsafe fn in_pairs<L: Lanes, S: Element, D: Element>(task: &Task<'_>, table: &Table) {
    let (lower, upper) = table.planes[0].split_at(0x80);
    let mut pairs = [0; 256];
    for ((pair, low), high) in pairs.iter_mut().zip(lower).zip(upper) {
        *pair = low | high << 4;
    }
    let pairs = L::table::<8>(&pairs);
    walk::<L>(
        task,
        Walk::of::<S, D>(),
        #[inline(always)]
        |src, dst, _| {
            let code = L::load(src);
            let pair = L::look_up::<8>(&pairs, L::and(code, L::splat::<8>(0x7f)));
            // The upper half of the codes is negative.
            let is_upper = L::gt::<8>(L::splat::<8>(0), code);
            let chosen = L::select::<8>(is_upper, L::shr::<16, 4>(pair), pair);
            store_codes::<L, D>(dst, L::and(chosen, L::splat::<8>(0x0f)));
        },
    );
}

/// From 6 bits, where the upper half of the codes has the results of the lower with the target's topmost bit, or if
/// `NEGATED`, negated as integers of 4 bits or fewer.
#[inline(always)]
unsafe fn by_half_of_64<L: Lanes, D: Element, const NEGATED: bool>(task: &Task<'_>, table: &Table) {
    let (low, high) = (L::table::<2>(&table.planes[0]), L::table::<2>(&table.planes[1]));
    walk::<L>(
        task,
        Walk::of::<Float6E2M3, D>(),
        #[inline(always)]
        |src, dst, _| {
            let is_word = const { bits::<D>() == 16 };
            let code = L::load_codes::<6>(src);
            let code = if is_word { L::in_zip_order(code) } else { code };
            let index = L::and(code, L::splat::<8>(0x1f));
            // The sign's bit is moved to the top.
            let (entry, moved) = (L::look_up::<2>(&low, index), L::shl::<16, 2>(code));
            if NEGATED {
                let mask = L::splat::<8>(const { (1 << (bits::<D>() % 8)) - 1 });
                return store_codes::<L, D>(dst, L::and(L::with_sign_of::<8>(entry, moved), mask));
            }
            let high = if is_word { L::look_up::<2>(&high, index) } else { L::splat::<8>(0) };
            let entry = signed::<L, D>([entry, high], moved);
            if is_word { store_zipped::<L>(dst, entry) } else { store_codes::<L, D>(dst, entry[0]) }
        },
    );
}

/// The results of the two or four elements in half a byte, side by side; `to_bits` is the width of one.
fn by_half_byte(table: &Table, from_bits: usize, to_bits: usize) -> [u8; 256] {
    let mut entries = [0; 256];
    for (half_byte, entry) in entries[..16].iter_mut().enumerate() {
        for index in 0..4 / from_bits {
            let code = half_byte >> (index * from_bits) & ((1 << from_bits) - 1);
            *entry |= table.planes[0][code] << (index * to_bits);
        }
    }
    repeat(&mut entries, 16);
    entries
}

/// The two halves of each byte, as indices of a table.
#[inline(always)]
unsafe fn half_bytes<L: Lanes>(value: L::V) -> [L::V; 2] {
    if L::WRAPS {
        return [value, L::shr::<16, 4>(value)];
    }
    let half = L::splat::<8>(0x0f);
    [L::and(value, half), L::and(L::shr::<16, 4>(value), half)]
}

/// Between types of 4 bits, or of 2: half a byte is looked up without being unpacked.
#[inline(always)]
unsafe fn same_width<L: Lanes>(task: &Task<'_>, table: &Table, width: usize) {
    let entries = by_half_byte(table, width, width);
    let (low_entries, high_entries) = (L::table::<1>(&entries), L::table::<1>(&entries.map(|entry| entry << 4)));
    walk::<L>(
        &Task { len: task.src.len(), ..*task },
        Walk::of::<u8, u8>(),
        #[inline(always)]
        |src, dst, _| {
            let [low, high] = half_bytes::<L>(L::load(src));
            L::store(dst, L::or(L::look_up::<1>(&low_entries, low), L::look_up::<1>(&high_entries, high)));
        },
    );
}

/// From 2 bits to 4: half a byte becomes a byte.
#[inline(always)]
unsafe fn two_to_four<L: Lanes>(task: &Task<'_>, table: &Table) {
    let entries = by_half_byte(table, 2, 4);
    let &Task { src, dst, len, hint } = task;
    // A last byte of the source may make one byte alone.
    let bytes = byte_len_of(len, 4);
    let whole = bytes / 2;
    if !bytes.is_multiple_of(2) {
        dst.cast::<u8>().add(2 * whole).write(entries[usize::from(src[whole] & 0x0f)]);
    }
    let entries = L::table::<1>(&entries);
    walk::<L>(
        &Task { src: &src[..whole], dst, len: whole, hint },
        Walk::of::<u8, u16>(),
        #[inline(always)]
        |src, dst, _| {
            let [low, high] = half_bytes::<L>(L::in_zip_order(L::load(src)));
            store_zipped::<L>(dst, [L::look_up::<1>(&entries, low), L::look_up::<1>(&entries, high)]);
        },
    );
}

/// From 4 bits to 2: a byte becomes half of one, which is stored as a code of 4 bits.
#[inline(always)]
unsafe fn four_to_two<L: Lanes>(task: &Task<'_>, table: &Table) {
    let entries = by_half_byte(table, 4, 2);
    let (low_entries, high_entries) = (L::table::<1>(&entries), L::table::<1>(&entries.map(|entry| entry << 2)));
    walk::<L>(
        &Task { len: task.src.len(), ..*task },
        Walk::of::<u8, Uint4>(),
        #[inline(always)]
        |src, dst, _| {
            let [low, high] = half_bytes::<L>(L::load(src));
            let [low, high] = [L::look_up::<1>(&low_entries, low), L::look_up::<1>(&high_entries, high)];
            L::store_codes::<4>(dst, L::or(low, high));
        },
    );
}

/// Whether a source is looked up in a cast to a float of 16 or 32 bits.
pub(crate) const fn has_hub<L: Lanes, S: Element>() -> bool {
    match class::<S>() {
        Class::SmallFloat(format) => format.bits < 8 || L::WIDE_LOOK_UP || matches!(S::DATA_TYPE, DataType::Float8E5M2),
        class => matches!(class, Class::E8M0) || bits::<S>() < 8,
    }
}

/// Returns a function that casts one step through the [`hub`](lookup_tables::hub) of the source: from a type of the
/// class and width of `S`, 8 bits or fewer, to `D`, a float of 16 or 32 bits.
#[inline(always)]
pub(crate) unsafe fn widen<L: Lanes, S: Element, D: Element>(
    context: &Context,
) -> impl Fn(*const u8, *mut u8) + use<L, S, D> {
    let hub = const { lookup_tables::hub(S::DATA_TYPE, D::DATA_TYPE, L::WIDE_LOOK_UP) };
    // SAFETY: the processor has the instruction set of `L`. The closure is only called with pointers to the bytes of a
    // step. A vector has at most 64 bytes, so `value` has space for the 16-bit elements of a step.
    unsafe {
        let rules = RuleLanes::<L>::new::<BFloat16, D>(&context.rules);
        let tables = HubTables::<L>::new::<S>(&KeptOrMade::new(&Context::plain(context.from, hub)));
        #[inline(always)]
        move |src, dst| {
            let mut value = [0u8; 2 * 64];
            let at = value.as_mut_ptr();
            let code = load_indices::<L, S>(src);
            if matches!(hub, DataType::Int8) {
                let [bytes] = tables.bytes::<S, 1>(code);
                L::store(at, bytes);
                return wide::step::<L, i8, D>(at, dst, &rules);
            }
            let code = L::in_zip_order(code);
            // The upper byte of a float16.
            if const { matches!(S::DATA_TYPE, DataType::Float8E5M2) } {
                store_zipped::<L>(at, [L::splat::<8>(0), code]);
                return wide::step::<L, Float16, D>(at, dst, &rules);
            }
            let [low, high] = match const { class::<S>() } {
                Class::E8M0 => power_bytes::<L>(code),
                Class::SmallFloat(format) if format.bits == 8 => tables.of_floats(code),
                _ => tables.bytes::<S, 2>(code),
            };
            if matches!(hub, DataType::Float) {
                // The tables have no signalling NaN.
                return L::store_upper_words(dst, L::zip_bytes(low, high));
            }
            store_zipped::<L>(at, [low, high]);
            wide::step::<L, BFloat16, D>(at, dst, &rules);
        }
    }
}

/// The low and the high bytes of the codes' values in a [`hub`](lookup_tables::hub). What a source does not need of it
/// is never read.
#[derive(Clone, Copy)]
struct HubTables<L: Lanes> {
    of_16: [L::Table<1>; 2],
    of_64: [L::Table<4>; 2],
    of_128: [L::Table<8>; 2],
    of_256: [L::Table<16>; 2],
    minus_zero: [L::V; 2],
}

impl<L: Lanes> HubTables<L> {
    #[inline(always)]
    unsafe fn new<S: Element>(table: &Table) -> Self {
        let [low, high] = &table.planes;
        HubTables {
            of_16: [by_index::<L, S, 1>(low), by_index::<L, S, 1>(high)],
            of_64: [L::table::<4>(low), L::table::<4>(high)],
            of_128: [L::table::<8>(low), L::table::<8>(high)],
            of_256: [L::table::<16>(low), L::table::<16>(high)],
            minus_zero: [L::splat::<8>(low[0x80].into()), L::splat::<8>(high[0x80].into())],
        }
    }

    /// The low bytes, or both.
    #[inline(always)]
    unsafe fn bytes<S: Element, const PLANES: usize>(&self, code: L::V) -> [L::V; PLANES] {
        let mut bytes = [code; PLANES];
        for (plane, bytes) in bytes.iter_mut().enumerate() {
            *bytes = match const { bits::<S>() } {
                2 | 4 => L::look_up::<1>(&self.of_16[plane], code),
                6 => L::look_up::<4>(&self.of_64[plane], code),
                8 => L::look_up::<16>(&self.of_256[plane], code),
                _ => unreachable!("codes have 8 bits or fewer"),
            };
        }
        bytes
    }

    /// Both, of floats of 8 bits: by the entries of those without a sign.
    #[inline(always)]
    unsafe fn of_floats(&self, code: L::V) -> [L::V; 2] {
        let (index, top) = (L::and(code, L::splat::<8>(0x7f)), L::splat::<8>(0x80));
        let [low, high] = [L::look_up::<8>(&self.of_128[0], index), L::look_up::<8>(&self.of_128[1], index)];
        let high = L::or(high, L::and(code, top));
        let is_minus_zero = L::eq::<8>(code, top);
        [
            L::select::<8>(is_minus_zero, self.minus_zero[0], low),
            L::select::<8>(is_minus_zero, self.minus_zero[1], high),
        ]
    }
}

/// Stores the low and the high bytes of a step's words, which stand in the order of [`Lanes::in_zip_order`].
#[inline(always)]
unsafe fn store_zipped<L: Lanes>(dst: *mut u8, [low, high]: [L::V; 2]) {
    let [first, second] = L::zip_bytes(low, high);
    L::store(dst, first);
    L::store(dst.add(L::BYTES), second);
}

/// The low and the high bytes of the `bfloat16` that codes of `float8e8m0` are: the code is the exponent field. 2^-127
/// has a bit of the significand instead, and NaN has it besides.
#[inline(always)]
unsafe fn power_bytes<L: Lanes>(code: L::V) -> [L::V; 2] {
    let lanes = |byte: u8| L::splat::<8>(byte.into());
    let lowest_bit = L::and(L::shl::<16, 7>(code), lanes(0x80));
    let quiet = L::or(lowest_bit, lanes(0x40));
    let low = L::select::<8>(L::eq::<8>(code, lanes(0)), quiet, lowest_bit);
    let low = L::select::<8>(L::eq::<8>(code, lanes(0xff)), quiet, low);
    [low, L::and(L::shr::<16, 1>(code), lanes(0x7f))]
}

/// Packs elements of the width of `D` that stand one in a byte; the upper bits of each byte are ignored.
///
/// # Safety
/// As [`crate::kernel::Kernel`], of the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn pack<L: Lanes, D: Element>(task: &Task<'_>) {
    let mask = L::splat::<8>(const { 0xff >> (8 - bits::<D>()) });
    walk::<L>(
        task,
        Walk::of::<u8, D>(),
        #[inline(always)]
        |src, dst, _| {
            store_codes::<L, D>(dst, L::and(L::load(src), mask));
        },
    );
    finish::<L, D>(task);
}

/// Unpacks elements of the width of `S` to one in a byte, the upper bits zero.
///
/// # Safety
/// As [`crate::kernel::Kernel`], of the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn unpack<L: Lanes, S: Element>(task: &Task<'_>) {
    walk::<L>(
        task,
        Walk::of::<S, u8>(),
        #[inline(always)]
        |src, dst, _| {
            L::store(dst, load_codes::<L, S>(src));
        },
    );
    finish::<L, u8>(task);
}
