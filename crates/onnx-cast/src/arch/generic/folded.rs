//! Sources of 8 bits by a few entries of their table, for instruction sets whose look-ups take longer the more entries
//! there are: see [`Fold`].
//!
//! Every `unsafe fn` here asks of its caller that the processor has the instructions of `L` and that pointers are valid
//! for a step's bytes.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::step::{Walk, walk};
use super::wide::{load_bf16, store, store_codes};
use crate::element::{BFloat16, Class, DataType, Element, class};
use crate::format::FloatFormat;
use crate::kernel::lanes::{Lanes, folds};
use crate::kernel::lookup_tables::fold::{self, Entries, Exception, Fold, Magnitudes, Negatives};
use crate::kernel::lookup_tables::{KeptOrMade, Table};
use crate::kernel::{Context, Task};
use crate::packed::bits;

/// What codes are, and what becomes of their signs. Each kind has loops of its own: a choice within a loop takes longer
/// than what is chosen.
const UNSIGNED: u8 = 0;
/// A float to a type with a sign bit.
const SIGNED: u8 = 1;
/// A float to an integer, or to a type without a sign.
const INTEGER: u8 = 2;
/// An integer to a type with a sign bit.
const ABSOLUTE: u8 = 3;

/// Whether there is a loop over windows of so many vectors, to targets of so many bits.
const fn has_window(kind: u8, bits: usize, vectors: usize) -> bool {
    match (kind, bits) {
        (UNSIGNED, 8 | 16) => matches!(vectors, 1 | 3 | 5),
        (UNSIGNED, _) => matches!(vectors, 1 | 3),
        (SIGNED, 4) => matches!(vectors, 2 | 3),
        (SIGNED, 6) => matches!(vectors, 2..=4),
        (INTEGER, 2 | 4 | 8) => matches!(vectors, 2..=4),
        (INTEGER, 16) => matches!(vectors, 4 | 5),
        (ABSOLUTE, 4 | 6) => vectors == 2,
        _ => false,
    }
}

/// Whether there is a loop over rows of so many classes.
const fn has_rows(kind: u8, bits: usize, classes: usize) -> bool {
    match (kind, bits) {
        (SIGNED | UNSIGNED, 16) | (UNSIGNED | INTEGER, 8) => classes == 3,
        _ => false,
    }
}

/// Whether there is a loop over a slope with so many vectors beside it.
const fn has_slope(kind: u8, bits: usize, vectors: usize) -> bool {
    match (kind, bits) {
        (SIGNED | INTEGER, 8) => vectors == 1,
        (SIGNED, 6) => vectors == 2,
        (ABSOLUTE, 8) => vectors == 4,
        _ => false,
    }
}

/// Whether there is a loop over steps with so many vectors beside them.
const fn has_steps(kind: u8, bits: usize, vectors: usize) -> bool {
    match (kind, bits) {
        (UNSIGNED, 8) => matches!(vectors, 1 | 2 | 4),
        (ABSOLUTE, 8) => vectors == 2,
        _ => false,
    }
}

/// The kind of a fold.
fn kind(fold: &Fold) -> u8 {
    match (fold.magnitudes, fold.negatives) {
        (Magnitudes::Code, _) => UNSIGNED,
        (Magnitudes::WithoutSign, Negatives::Zero | Negatives::Negated | Negatives::NegatedTo128) => INTEGER,
        (Magnitudes::WithoutSign, _) => SIGNED,
        (Magnitudes::Absolute, _) => ABSOLUTE,
    }
}

/// Casts codes of 8 bits, and says whether there is a loop for it.
#[inline(always)]
pub(super) unsafe fn cast<L: Lanes, D: Element>(task: &Task<'_>, table: &Table, fold: &Fold) -> bool {
    match kind(fold) {
        UNSIGNED => cast_by::<L, D, UNSIGNED>(task, table, fold),
        INTEGER => cast_by::<L, D, INTEGER>(task, table, fold),
        SIGNED => cast_by::<L, D, SIGNED>(task, table, fold),
        _ => cast_by::<L, D, ABSOLUTE>(task, table, fold),
    }
}

/// There are loops for what pairs of types need, with few numbers of vectors and classes: each takes 2 KB.
#[inline(always)]
unsafe fn cast_by<L: Lanes, D: Element, const KIND: u8>(task: &Task<'_>, table: &Table, fold: &Fold) -> bool {
    macro_rules! cast_by {
        ($table:expr) => {{
            let table = $table;
            walk::<L>(
                task,
                Walk::of::<u8, D>(),
                #[inline(always)]
                |src, dst, _| table.step::<D>(src, dst),
            );
            return true;
        }};
    }
    macro_rules! first_that_fits {
        ($count:expr, $has:ident, $table:ident $arguments:tt, $($max:literal)*) => {
            $(if const { $has(KIND, bits::<D>(), $max) } && $count <= $max {
                cast_by!($table::<L, KIND, $max>::new $arguments);
            })*
        };
    }
    match &fold.entries {
        &Entries::Window { first, last } => {
            first_that_fits!(Entries::vectors(first, last), has_window, Window(table, fold), 1 2 3 4 5);
        }
        Entries::Rows(rows) => {
            first_that_fits!(rows.classes, has_rows, Rows(fold), 3);
        }
        Entries::Planes(_) => {
            if const { KIND == SIGNED && bits::<D>() == 16 } {
                cast_by!(Planes::<L, KIND>::new(fold));
            }
        }
        Entries::Slope(slope) => {
            first_that_fits!(slope.extra.vectors, has_slope, Slope(fold), 1 2 4);
        }
        Entries::Steps(steps) => {
            first_that_fits!(steps.extra.vectors, has_steps, Steps(fold), 1 2 4);
        }
    }
    false
}

/// Whether an 8-bit float is widened to `float` through a folded table of `bfloat16`. (float8e5m2 needs no table: it is
/// the upper byte of a float16.)
pub(super) const fn widens<L: Lanes, S: Element, D: Element>() -> bool {
    match (class::<S>(), class::<D>()) {
        (Class::SmallFloat(FloatFormat { bits: 8, infinity: false, .. }), Class::F32) => folds::<L>(),
        _ => false,
    }
}

/// Returns a function that widens one step of an 8-bit float to `float`.
#[inline(always)]
pub(super) unsafe fn widen<L: Lanes>(from: DataType) -> impl Fn(*const u8, *mut u8) + use<L> {
    let to_hub = Context::plain(from, DataType::BFloat16);
    let table = KeptOrMade::new(&to_hub);
    let fold = table.fold.or_else(|| table.folded(&to_hub)).expect("floats of 8 bits fold to `bfloat16`");
    // SAFETY: the processor has the instruction set of `L`. The closure is only called with pointers to the bytes of a
    // step. A vector has at most 64 bytes, so `value` has space for the 16-bit elements of a step.
    unsafe {
        // Codes of 4 significand bits or fewer have those of `bfloat16`, moved, but for the first row, the subnormal.
        let planes = Planes::<L, SIGNED>::new(&fold);
        #[inline(always)]
        move |src, dst| {
            let mut value = [0u8; 2 * 64];
            let at = value.as_mut_ptr();
            planes.step::<BFloat16>(src, at);
            // The tables have no signalling NaN.
            for part in 0..4 {
                store::<L>(dst, part, load_bf16::<L>(at.add(part * L::BYTES / 2)));
            }
        }
    }
}

/// A window of `16 * N` entries.
#[derive(Clone, Copy)]
pub(super) struct Window<L: Lanes, const KIND: u8, const N: usize> {
    signs: Signs<L, KIND>,
    low: L::Table<N>,
    high: L::Table<N>,
    first: L::V,
    last: L::V,
}

impl<L: Lanes, const KIND: u8, const N: usize> Window<L, KIND, N> {
    #[inline(always)]
    pub(super) unsafe fn new(table: &Table, fold: &Fold) -> Self {
        let Entries::Window { first, last } = fold.entries else { unreachable!("the table has no window") };
        let mut entries = [[0; 256]; 2];
        let start = usize::from(first);
        for (entries, plane) in entries.iter_mut().zip(&table.planes) {
            entries[..0x80].copy_from_slice(&plane[start..start + 0x80]);
        }
        if fold.negatives == Negatives::NegatedTo128 {
            for (entry, negative) in entries[0].iter_mut().zip(&table.planes[0][0x80 + start..]) {
                *entry = negative.wrapping_neg();
            }
        }
        let (low, high) = (L::table::<N>(&entries[0]), L::table::<N>(&entries[1]));
        Window { signs: Signs::new(fold), low, high, first: byte::<L>(first), last: byte::<L>(last) }
    }

    /// Casts a step's codes to elements of the width of `D`.
    #[inline(always)]
    pub(super) unsafe fn step<D: Element>(&self, src: *const u8, dst: *mut u8) {
        let code = load::<L, D>(src);
        let magnitude = self.signs.magnitude(code);
        let index = L::sub::<8>(L::min_u::<8>(magnitude, self.last), self.first);
        let mut entry = [L::look_up_or_zero::<N>(&self.low, index), byte::<L>(0)];
        if const { bits::<D>() == 16 } {
            entry[1] = L::look_up_or_zero::<N>(&self.high, index);
        }
        self.signs.store::<D>(dst, code, magnitude, entry, true);
    }
}

/// Rows of `K` classes or fewer.
#[derive(Clone, Copy)]
pub(super) struct Rows<L: Lanes, const KIND: u8, const K: usize> {
    signs: Signs<L, KIND>,
    minus_first: [L::Table<1>; 2],
    is_of_class: [L::Table<1>; K],
    differences: [[L::Table<1>; K]; 2],
}

impl<L: Lanes, const KIND: u8, const K: usize> Rows<L, KIND, K> {
    #[inline(always)]
    pub(super) unsafe fn new(fold: &Fold) -> Self {
        let Entries::Rows(rows) = &fold.entries else { unreachable!("the table has no rows") };
        assert!(rows.classes <= K, "{} classes of rows, of {K}", rows.classes);
        let none = L::table_of_16(&[0; 16]);
        let mut table = Rows {
            signs: Signs::new(fold),
            minus_first: [L::table_of_16(&rows.minus_first[0]), L::table_of_16(&rows.minus_first[1])],
            is_of_class: [none; K],
            differences: [[none; K]; 2],
        };
        for class in 0..K {
            table.is_of_class[class] = L::table_of_16(&rows.is_of_class[class]);
            table.differences[0][class] = L::table_of_16(&rows.differences[class][0]);
            table.differences[1][class] = L::table_of_16(&rows.differences[class][1]);
        }
        table
    }

    /// Casts a step's codes to elements of the width of `D`.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "the compiler unrolls these loops, and not always iterators")]
    pub(super) unsafe fn step<D: Element>(&self, src: *const u8, dst: *mut u8) {
        let half = byte::<L>(0x0f);
        let code = load::<L, D>(src);
        let magnitude = self.signs.magnitude(code);
        let row = upper::<L>(magnitude);
        // A look-up needs the top bit clear.
        let index = if KIND == UNSIGNED { L::and(magnitude, half) } else { magnitude };
        let mut is_of_class = [row; K];
        for class in 1..K {
            is_of_class[class] = L::look_up::<1>(&self.is_of_class[class], row);
        }
        let mut entry = [byte::<L>(0); 2];
        for plane in 0..const { bits::<D>().div_ceil(8) } {
            let mut difference = L::look_up_nibble(&self.differences[plane][0], index);
            for class in 1..K {
                let of_class = L::look_up_nibble(&self.differences[plane][class], index);
                difference = L::select_by_top_bit(is_of_class[class], of_class, difference);
            }
            entry[plane] = L::sub::<8>(difference, L::look_up::<1>(&self.minus_first[plane], row));
        }
        self.signs.store::<D>(dst, code, magnitude, entry, false);
    }
}

/// Planes of 16 bits.
#[derive(Clone, Copy)]
pub(super) struct Planes<L: Lanes, const KIND: u8> {
    signs: Signs<L, KIND>,
    upper: [L::Table<1>; 2],
    minus_lower: [L::Table<1>; 2],
    minus_first_row: [L::Table<1>; 2],
}

/// A table of negated entries: [`Lanes`] has a subtraction of bytes.
#[inline(always)]
unsafe fn negated<L: Lanes>(entries: &[u8; 16]) -> L::Table<1> {
    L::table_of_16(&entries.map(u8::wrapping_neg))
}

impl<L: Lanes, const KIND: u8> Planes<L, KIND> {
    #[inline(always)]
    pub(super) unsafe fn new(fold: &Fold) -> Self {
        let Entries::Planes(planes) = &fold.entries else { unreachable!("the table has no planes") };
        Planes {
            signs: Signs::new(fold),
            upper: [L::table_of_16(&planes.upper[0]), L::table_of_16(&planes.upper[1])],
            minus_lower: [negated::<L>(&planes.lower[0]), negated::<L>(&planes.lower[1])],
            minus_first_row: [negated::<L>(&planes.first_row[0]), negated::<L>(&planes.first_row[1])],
        }
    }

    /// Casts a step's codes to elements of 16 bits.
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "the compiler unrolls these loops, and not always iterators")]
    pub(super) unsafe fn step<D: Element>(&self, src: *const u8, dst: *mut u8) {
        let code = load::<L, D>(src);
        let magnitude = self.signs.magnitude(code);
        let upper = upper::<L>(magnitude);
        // Beyond the first row the top bit is set.
        let in_first_row = L::sub::<8>(magnitude, byte::<L>(0x90));
        let mut entry = [byte::<L>(0); 2];
        for plane in 0..2 {
            let minus_lower = L::look_up_nibble(&self.minus_lower[plane], magnitude);
            let minus_first_row = L::look_up_nibble_or_zero(&self.minus_first_row[plane], in_first_row);
            let of_row = L::sub::<8>(L::look_up::<1>(&self.upper[plane], upper), minus_lower);
            entry[plane] = L::sub::<8>(of_row, minus_first_row);
        }
        self.signs.store::<D>(dst, code, magnitude, entry, false);
    }
}

/// A slope with `N` vectors beside it.
#[derive(Clone, Copy)]
struct Slope<L: Lanes, const KIND: u8, const N: usize> {
    signs: Signs<L, KIND>,
    rise: L::Table<1>,
    fall: L::Table<1>,
    max: L::V,
    extra: Extra<L, N>,
}

impl<L: Lanes, const KIND: u8, const N: usize> Slope<L, KIND, N> {
    #[inline(always)]
    unsafe fn new(fold: &Fold) -> Self {
        let Entries::Slope(slope) = &fold.entries else { unreachable!("the table is not a slope") };
        let (rise, fall) = (L::table_of_16(&slope.rise), L::table_of_16(&slope.fall));
        Slope { signs: Signs::new(fold), rise, fall, max: byte::<L>(slope.max), extra: Extra::new(&slope.extra) }
    }

    /// Casts a step's codes to elements of the width of `D`.
    #[inline(always)]
    unsafe fn step<D: Element>(&self, src: *const u8, dst: *mut u8) {
        let code = load::<L, D>(src);
        let magnitude = self.signs.magnitude(code);
        let (rise, fall) =
            (L::look_up_nibble(&self.rise, magnitude), L::look_up::<1>(&self.fall, upper::<L>(magnitude)));
        // This is one subtraction that stops at 0.
        let sum = L::sub::<8>(L::max_u::<8>(rise, fall), fall);
        let entry = self.extra.or_more(magnitude, L::min_u::<8>(sum, self.max));
        self.signs.store::<D>(dst, code, magnitude, [entry, byte::<L>(0)], false);
    }
}

/// Steps with `N` vectors beside them.
#[derive(Clone, Copy)]
struct Steps<L: Lanes, const KIND: u8, const N: usize> {
    signs: Signs<L, KIND>,
    first: L::Table<1>,
    limits: [L::Table<1>; 2],
    extra: Extra<L, N>,
}

impl<L: Lanes, const KIND: u8, const N: usize> Steps<L, KIND, N> {
    #[inline(always)]
    unsafe fn new(fold: &Fold) -> Self {
        let Entries::Steps(steps) = &fold.entries else { unreachable!("the table has no steps") };
        let limits = [L::table_of_16(&steps.limits[0]), L::table_of_16(&steps.limits[1])];
        Steps { signs: Signs::new(fold), first: L::table_of_16(&steps.first), limits, extra: Extra::new(&steps.extra) }
    }

    /// Casts a step's codes to elements of the width of `D`.
    #[inline(always)]
    unsafe fn step<D: Element>(&self, src: *const u8, dst: *mut u8) {
        let code = load::<L, D>(src);
        let magnitude = self.signs.magnitude(code);
        let (upper, signed) = (upper::<L>(magnitude), L::sub::<8>(magnitude, byte::<L>(0x80)));
        let mut entry = L::look_up::<1>(&self.first, upper);
        for limits in &self.limits {
            let is_above = L::gt::<8>(signed, L::look_up::<1>(limits, upper));
            entry = L::sub::<8>(entry, L::select::<8>(is_above, byte::<L>(0xff), byte::<L>(0)));
        }
        self.signs.store::<D>(dst, code, magnitude, [self.extra.or_more(magnitude, entry), byte::<L>(0)], false);
    }
}

/// The upper halves of bytes.
#[inline(always)]
unsafe fn upper<L: Lanes>(value: L::V) -> L::V {
    L::and(L::shr::<16, 4>(value), byte::<L>(0x0f))
}

/// Sixteens of entries in a row, which count where they are more.
#[derive(Clone, Copy)]
struct Extra<L: Lanes, const N: usize> {
    first: L::V,
    entries: [L::Table<1>; N],
}

impl<L: Lanes, const N: usize> Extra<L, N> {
    #[inline(always)]
    #[expect(clippy::needless_range_loop, reason = "the compiler unrolls these loops, and not always iterators")]
    unsafe fn new(extra: &fold::Extra) -> Self {
        let mut entries = [L::table_of_16(&[0; 16]); N];
        for index in 0..N {
            entries[index] = L::table_of_16(&extra.entries[index]);
        }
        Extra { first: byte::<L>(extra.first), entries }
    }

    #[inline(always)]
    unsafe fn or_more(&self, magnitude: L::V, mut entry: L::V) -> L::V {
        let mut index = L::sub::<8>(magnitude, self.first);
        for part in 0..N {
            entry = L::max_u::<8>(entry, L::look_up_nibble_or_zero(&self.entries[part], index));
            index = L::sub::<8>(index, byte::<L>(16));
        }
        entry
    }
}

/// What makes magnitudes of codes, and results of their entries.
#[derive(Clone, Copy)]
struct Signs<L: Lanes, const KIND: u8> {
    has_nan: bool,
    has_0x80: bool,
    zero_has_no_sign: bool,
    /// Whether integers saturate at -128 and 127.
    is_to_128: bool,
    above: L::V,
    nan: Replacement<L>,
    of_0x80: Replacement<L>,
    /// The least that a code counts as, where it only tells the sign of an integer.
    least: L::V,
}

impl<L: Lanes, const KIND: u8> Signs<L, KIND> {
    #[inline(always)]
    unsafe fn new(fold: &Fold) -> Self {
        let (above, nan) = fold.nan.unwrap_or_default();
        Signs {
            has_nan: fold.nan.is_some(),
            has_0x80: fold.of_0x80.is_some(),
            zero_has_no_sign: fold.negatives == Negatives::SignedUnlessZero,
            is_to_128: fold.negatives == Negatives::NegatedTo128,
            above: byte::<L>(above),
            nan: Replacement::new(nan),
            of_0x80: Replacement::new(fold.of_0x80.unwrap_or_default()),
            least: byte::<L>(if fold.negatives == Negatives::Zero { 0 } else { 0x80 }),
        }
    }

    #[inline(always)]
    unsafe fn magnitude(&self, code: L::V) -> L::V {
        match KIND {
            UNSIGNED => code,
            // Of a number and its negative, the one without a sign is the smaller as an unsigned number; that of -128
            // counts as 127.
            ABSOLUTE => {
                let negative = L::sub::<8>(byte::<L>(0), code);
                L::min_u::<8>(L::min_u::<8>(code, negative), byte::<L>(0x7f))
            }
            _ => L::and(code, byte::<L>(0x7f)),
        }
    }

    /// Stores the results of codes whose magnitudes have these entries. NaN, which has the largest of bytes, is
    /// replaced before the sign is applied; that of integers after, but in a window.
    #[inline(always)]
    unsafe fn store<D: Element>(
        &self,
        dst: *mut u8,
        code: L::V,
        magnitude: L::V,
        mut entry: [L::V; 2],
        is_window: bool,
    ) {
        // A difference takes two instructions, where a selection may take three.
        let is_byte = const { bits::<D>() <= 8 };
        let nan_comes_last = KIND == INTEGER && !(is_byte && is_window);
        if self.has_nan && is_byte && !nan_comes_last {
            entry[0] = L::sub::<8>(entry[0], L::select::<8>(self.is_nan(magnitude), self.nan.excess[0], byte::<L>(0)));
        } else if KIND != INTEGER && self.has_nan {
            entry = replaced::<L>(entry, self.is_nan(magnitude), self.nan.entry);
        }
        match KIND {
            UNSIGNED => {}
            INTEGER if const { bits::<D>() == 16 } => {}
            INTEGER => {
                if const { bits::<D>() == 8 } && self.is_to_128 {
                    let is_negative = L::gt::<8>(byte::<L>(0), code);
                    let largest = L::select::<8>(is_negative, byte::<L>(0x80), byte::<L>(0x7f));
                    entry[0] = L::min_u::<8>(entry[0], largest);
                }
                entry[0] = L::with_sign_of::<8>(entry[0], L::max_i8(code, self.least));
                if const { bits::<D>() < 8 } {
                    entry[0] = L::and(entry[0], byte::<L>(const { (1 << (bits::<D>() % 8)) - 1 }));
                }
            }
            _ => {
                let with_sign = signed::<L, D>(entry, code);
                entry = if self.zero_has_no_sign {
                    let zero = byte::<L>(0);
                    let is_zero = L::eq::<8>(L::or(entry[0], entry[1]), zero);
                    replaced::<L>(with_sign, is_zero, [zero, zero])
                } else {
                    with_sign
                };
            }
        }
        if self.has_nan && nan_comes_last {
            entry = replaced::<L>(entry, self.is_nan(magnitude), self.nan.entry);
        }
        if self.has_0x80 {
            let (is_0x80, zero) = (L::eq::<8>(code, byte::<L>(0x80)), byte::<L>(0));
            for (entry, excess) in entry.iter_mut().zip(self.of_0x80.excess) {
                *entry = L::sub::<8>(*entry, L::select::<8>(is_0x80, excess, zero));
            }
        }
        if const { bits::<D>() < 16 } {
            return store_codes::<L, D>(dst, entry[0]);
        }
        let mut words = L::zip_bytes(entry[0], entry[1]);
        // (NaN and code 0x80 of such targets are 0, which has no sign.)
        if KIND == INTEGER {
            let sign = L::max_i8(code, self.least);
            let signs = L::zip_bytes(sign, sign);
            words = [L::with_sign_of::<16>(words[0], signs[0]), L::with_sign_of::<16>(words[1], signs[1])];
        }
        store::<L>(dst, 0, words[0]);
        store::<L>(dst, 1, words[1]);
    }

    #[inline(always)]
    unsafe fn is_nan(&self, magnitude: L::V) -> L::M {
        if KIND == UNSIGNED { L::eq::<8>(magnitude, byte::<L>(0xff)) } else { L::gt::<8>(magnitude, self.above) }
    }
}

/// The entry of codes that do not follow the others.
#[derive(Clone, Copy)]
struct Replacement<L: Lanes> {
    entry: [L::V; 2],
    /// What the entry that they would have is more by, byte by byte.
    excess: [L::V; 2],
}

impl<L: Lanes> Replacement<L> {
    #[inline(always)]
    unsafe fn new(Exception { entry, instead_of }: Exception) -> Self {
        let excess = |plane: usize| byte::<L>(instead_of[plane].wrapping_sub(entry[plane]));
        Replacement { entry: [byte::<L>(entry[0]), byte::<L>(entry[1])], excess: [excess(0), excess(1)] }
    }
}

/// A step's codes, in the order in which their results are stored.
#[inline(always)]
unsafe fn load<L: Lanes, D: Element>(src: *const u8) -> L::V {
    let code = L::load(src);
    if const { bits::<D>() == 16 } { L::in_zip_order(code) } else { code }
}

/// A byte in every lane.
#[inline(always)]
unsafe fn byte<L: Lanes>(byte: u8) -> L::V {
    L::splat::<8>(byte.into())
}

/// The bytes of both planes, replaced where the mask is set.
#[inline(always)]
pub(super) unsafe fn replaced<L: Lanes>(entry: [L::V; 2], mask: L::M, by: [L::V; 2]) -> [L::V; 2] {
    [L::select::<8>(mask, by[0], entry[0]), L::select::<8>(mask, by[1], entry[1])]
}

/// The entries of codes with their signs where the target has its own.
#[inline(always)]
pub(super) unsafe fn signed<L: Lanes, D: Element>([low, high]: [L::V; 2], code: L::V) -> [L::V; 2] {
    // Shifted as words: what comes in from the neighbouring byte is masked off.
    match const { bits::<D>() } {
        2 => [L::or(low, L::and(L::shr::<16, 6>(code), byte::<L>(0x02))), high],
        4 => [L::or(low, L::and(L::shr::<16, 4>(code), byte::<L>(0x08))), high],
        6 => [L::or(low, L::and(L::shr::<16, 2>(code), byte::<L>(0x20))), high],
        8 => [L::or(low, L::and(code, byte::<L>(0x80))), high],
        16 => [low, L::or(high, L::and(code, byte::<L>(0x80)))],
        _ => unreachable!("targets of more bits are widened to"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without its loop a cast would take the whole table, several times as long.
    #[test]
    fn every_fold_has_a_loop() {
        let mut missing = String::new();
        for &from in DataType::NUMERIC.iter().filter(|from| from.info().bits == 8) {
            for &to in DataType::NUMERIC.iter().filter(|to| to.info().bits <= 16) {
                // Integers are extended, cut or converted to these.
                let is_plain =
                    matches!(Class::of(to), Some(Class::Int { .. } | Class::Bool | Class::F16 | Class::BF16));
                if is_plain && matches!(Class::of(from), Some(Class::Int { .. })) {
                    continue;
                }
                let context = Context::plain(from, to);
                let Some(fold) = Table::new(&context).folded(&context) else { continue };
                let (kind, bits) = (kind(&fold), to.info().bits as usize);
                let (is_there, what) = match &fold.entries {
                    &Entries::Window { first, last } => {
                        let vectors = Entries::vectors(first, last);
                        ((vectors..=5).any(|max| has_window(kind, bits, max)), format!("{vectors} vectors"))
                    }
                    Entries::Rows(rows) => {
                        let has = rows.classes <= 3 && has_rows(kind, bits, 3);
                        (has, format!("{} classes", rows.classes))
                    }
                    Entries::Planes(_) => (kind == SIGNED && bits == 16, "planes".into()),
                    Entries::Slope(slope) => {
                        let vectors = slope.extra.vectors;
                        let has = [1, 2, 4].iter().any(|&max| max >= vectors && has_slope(kind, bits, max));
                        (has, format!("a slope, {vectors} vectors"))
                    }
                    Entries::Steps(steps) => {
                        let vectors = steps.extra.vectors;
                        let has = [1, 2, 4].iter().any(|&max| max >= vectors && has_steps(kind, bits, max));
                        (has, format!("steps, {vectors} vectors"))
                    }
                };
                if !is_there {
                    missing += &format!("{from} -> {to}: kind {kind}, {bits} bits, {what}\n");
                }
            }
        }
        assert!(missing.is_empty(), "{missing}");
    }
}
