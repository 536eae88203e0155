//! Which entries of a table are needed, where a look-up takes as long as its entries are many.
//!
//! Few of the 256 entries of a code of 8 bits say anything of their own. Negative codes have the results of positive
//! ones, but for a sign or zero. What is left is looked up in one of two ways, whichever takes fewer instructions:
//!
//! - Below some magnitude all results are zero, above another all are the largest: between them is a *window*.
//! - The table is 16 rows of 16 entries. Within a row, entries differ from the first by as much as in many other rows,
//!   because a float's significand is below its exponent: the rows fall into few *classes*.
//!
//! NaN is apart where that leaves less: it is what has the last entry, or code 0x80.

use super::Table;
use crate::element::{Class, DataType};

/// The most classes of rows that are worth it.
pub(crate) const MOST_CLASSES: usize = 7;
/// The most vectors of 16 entries that a window may have.
pub(crate) const MOST_VECTORS: usize = 5;

/// A table of 8-bit codes, folded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    pub(crate) magnitudes: Magnitudes,
    pub(crate) negatives: Negatives,
    /// The magnitudes above this one are NaN, and have this entry.
    pub(crate) nan: Option<(u8, [u8; 2])>,
    /// The entry of code 0x80, where it follows from nothing else.
    pub(crate) of_0x80: Option<[u8; 2]>,
    pub(crate) entries: Entries,
}

/// What a code's magnitude is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Magnitudes {
    /// The code itself.
    Code,
    /// The code without its top bit, a sign.
    WithoutSign,
    /// The absolute value of the code as an integer.
    Absolute,
}

/// What becomes of a magnitude's entry if the code's top bit is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negatives {
    /// Nothing: the magnitude is the code.
    Same,
    /// It gets the target's sign.
    Signed,
    /// Likewise, but zero has no sign.
    SignedUnlessZero,
    Zero,
    /// It is negated as an integer.
    Negated,
    /// Likewise, of 8 bits: the largest magnitude is 128, of which positive numbers have 127.
    NegatedTo128,
}

/// How a magnitude's entry is found, in planes as those of [`Table`].
#[expect(clippy::large_enum_variant, reason = "it is kept in statics, where a box would allocate")]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entries {
    /// From the first magnitude whose entry is not zero to the first that has the entry of the largest.
    Window { first: u8, last: u8 },
    /// By the upper half of the magnitude, and for each class of rows by the lower.
    Rows(Rows),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) classes: usize,
    /// The first entry of each row, negated: what is subtracted from the difference to it.
    pub(crate) minus_first: [[u8; 16]; 2],
    /// By class: a set top bit for its rows. The first class is taken where no other is.
    pub(crate) is_of_class: [[u8; 16]; MOST_CLASSES],
    /// By class: what the entries of a row differ by from its first.
    pub(crate) differences: [[[u8; 16]; 2]; MOST_CLASSES],
}

impl Negatives {
    const ALL: [Self; 6] =
        [Self::Same, Self::Signed, Self::SignedUnlessZero, Self::Zero, Self::Negated, Self::NegatedTo128];

    /// The entry of a negative code, of so many bits, by that of its magnitude.
    fn apply(self, entry: u16, bits: u32) -> u16 {
        match self {
            Negatives::SignedUnlessZero if entry == 0 => 0,
            Negatives::Same => entry,
            Negatives::Signed | Negatives::SignedUnlessZero => entry | 1 << (bits - 1),
            Negatives::Zero => 0,
            Negatives::Negated | Negatives::NegatedTo128 => entry.wrapping_neg() & u16::MAX >> (16 - bits),
        }
    }
}

impl Entries {
    /// Vectors of 16 entries that hold a window.
    pub(crate) fn vectors(first: u8, last: u8) -> usize {
        usize::from(last - first) / 16 + 1
    }

    /// How many instructions a look-up takes, about.
    fn cost(&self, planes: usize) -> usize {
        match *self {
            Entries::Window { first, last } => {
                let vectors = Entries::vectors(first, last);
                1 + vectors + planes * (2 * vectors - 1)
            }
            Entries::Rows(Rows { classes, .. }) => 1 + classes + planes * (2 * classes + 1),
        }
    }
}

impl Fold {
    /// Folds the table of a cast from a type of 8 bits, if that makes it small.
    pub(crate) fn new(table: &Table, from: DataType, to: DataType) -> Option<Self> {
        let planes = to.info().bits.div_ceil(8) as usize;
        let magnitudes = match Class::of(from)? {
            Class::SmallFloat(_) => Magnitudes::WithoutSign,
            Class::Int { signed: true, .. } => Magnitudes::Absolute,
            Class::Int { signed: false, .. } | Class::Bool | Class::E8M0 => Magnitudes::Code,
            Class::F64 | Class::F32 | Class::F16 | Class::BF16 => return None,
        };
        let mut best: Option<(usize, Self)> = None;
        for negatives in Negatives::ALL {
            // What has no sign may be looked up by all codes.
            let magnitudes = if negatives == Negatives::Same { Magnitudes::Code } else { magnitudes };
            for has_nan in [false, true] {
                if (magnitudes == Magnitudes::Code) != (negatives == Negatives::Same) {
                    continue;
                }
                let Some(fold) = Self::by(table, to, magnitudes, negatives, has_nan) else { continue };
                // A comparison and a selection for each plane.
                let exceptions = usize::from(fold.nan.is_some()) + usize::from(fold.of_0x80.is_some());
                let cost = fold.entries.cost(planes) + exceptions * (1 + planes);
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, fold));
                }
            }
        }
        best.map(|(_, fold)| fold)
    }

    fn by(table: &Table, to: DataType, magnitudes: Magnitudes, negatives: Negatives, has_nan: bool) -> Option<Self> {
        let entry = |code: u8| u16::from_le_bytes(table.planes.map(|plane| plane[usize::from(code)]));
        if negatives == Negatives::NegatedTo128 {
            return Self::to_128(table, to);
        }
        let is_code = magnitudes == Magnitudes::Code;
        let largest = if is_code { 0xff } else { 0x7f };
        let negative = |code: u8| if magnitudes == Magnitudes::Absolute { code.wrapping_neg() } else { code | 0x80 };
        let bits = to.info().bits;
        let follows = |code: u8| is_code || entry(negative(code)) == negatives.apply(entry(code), bits);
        // The first of the magnitudes up to this one that all have its entry.
        let start = |last: u8| (0..=last).rev().take_while(|&code| entry(code) == entry(last)).last().unwrap_or(last);
        let nan = start(largest);
        // A comparison of signed bytes finds NaN among magnitudes, and one for equality the last code.
        let may_have_nan = match magnitudes {
            Magnitudes::Code => nan == 0xff,
            Magnitudes::WithoutSign => nan > 0,
            Magnitudes::Absolute => false,
        };
        if has_nan && !may_have_nan {
            return None;
        }
        let last = if has_nan { nan - 1 } else { largest };
        if !(1..=last).all(follows) {
            return None;
        }
        // NaN comes before the sign is applied, but after that of an integer, which may make a number of it.
        let nan_follows = |code| match negatives {
            Negatives::Zero | Negatives::Negated | Negatives::NegatedTo128 => entry(negative(code)) == entry(largest),
            Negatives::Same | Negatives::Signed | Negatives::SignedUnlessZero => follows(code),
        };
        if has_nan && !(nan..=largest).all(nan_follows) {
            return None;
        }
        let of_0x80 = match magnitudes {
            Magnitudes::Code => None,
            Magnitudes::WithoutSign => Some(negatives.apply(entry(0), bits)),
            Magnitudes::Absolute => Some(negatives.apply(entry(0x7f), bits)),
        };
        let of_0x80 = of_0x80.filter(|&found| found != entry(0x80)).map(|_| entry(0x80).to_le_bytes());
        let (first, end) = ((0..last).find(|&code| entry(code) != 0).unwrap_or(last), start(last));
        let first = first.min(end);
        // An index below the window has to be negative as a byte.
        let is_window = first <= 0x80 && end - first < 0x80 && Entries::vectors(first, end) <= MOST_VECTORS;
        let window = is_window.then_some(Entries::Window { first, last: end });
        let rows = Rows::new(table, last).map(Entries::Rows);
        let planes = bits.div_ceil(8) as usize;
        let entries = [window, rows].into_iter().flatten().min_by_key(|entries| entries.cost(planes))?;
        let nan = has_nan.then_some((last, entry(largest).to_le_bytes()));
        Some(Fold { magnitudes, negatives, nan, of_0x80, entries })
    }
}

impl Fold {
    /// A float of 8 bits to an integer of 8 that saturates: magnitudes have the entries of negative numbers, negated.
    fn to_128(table: &Table, to: DataType) -> Option<Self> {
        if to.info().bits != 8 || table.planes[0][0x80] != 0 {
            return None;
        }
        let mut magnitudes = Table { planes: [[0; 256]; 2], sign: None, fold: None };
        for code in 0..0x80 {
            let entry = table.planes[0][code + 0x80].wrapping_neg();
            if table.planes[0][code] != entry.min(0x7f) {
                return None;
            }
            (magnitudes.planes[0][code], magnitudes.planes[0][code + 0x80]) = (entry, entry.wrapping_neg());
        }
        let mut folds = [false, true].into_iter().filter_map(|has_nan| {
            let fold = Self::by(&magnitudes, to, Magnitudes::WithoutSign, Negatives::Negated, has_nan)?;
            let Entries::Window { first, last } = fold.entries else { return None };
            Some((Entries::vectors(first, last), fold))
        });
        let first = folds.next()?;
        let (_, fold) = folds.next().filter(|second| second.0 < first.0).unwrap_or(first);
        Some(Fold { negatives: Negatives::NegatedTo128, ..fold })
    }
}

impl Rows {
    /// The rows up to that of the last magnitude, if they have few classes; what comes after may have any entry.
    fn new(table: &Table, last: u8) -> Option<Self> {
        let mut rows = Rows {
            classes: 0,
            minus_first: [[0; 16]; 2],
            is_of_class: [[0; 16]; MOST_CLASSES],
            differences: [[[0; 16]; 2]; MOST_CLASSES],
        };
        // Classes are made by whole rows first: a row that ends early may be of any that agrees so far.
        for row in 0..=usize::from(last / 16) {
            let first = 16 * row;
            let len = 16.min(usize::from(last) + 1 - first);
            let mut differences = [[0; 16]; 2];
            for (plane, differences) in differences.iter_mut().enumerate() {
                let entries = &table.planes[plane][first..][..16];
                rows.minus_first[plane][row] = entries[0].wrapping_neg();
                for (difference, entry) in differences.iter_mut().zip(entries) {
                    *difference = entry.wrapping_sub(entries[0]);
                }
            }
            let agrees = |class: &[[u8; 16]; 2]| (0..2).all(|plane| class[plane][..len] == differences[plane][..len]);
            let known = rows.differences[..rows.classes].iter().position(agrees);
            let class = known.unwrap_or(rows.classes);
            if known.is_none() {
                *rows.differences.get_mut(class)? = differences;
                rows.classes += 1;
            }
            rows.is_of_class[class][row] = 0x80;
        }
        Some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Context;

    /// What a folded table has for a code.
    fn found(fold: &Fold, table: &Table, code: u8, bits: u32) -> u16 {
        let magnitude = match fold.magnitudes {
            Magnitudes::Code => code,
            Magnitudes::WithoutSign => code & 0x7f,
            Magnitudes::Absolute => (code as i8).unsigned_abs().min(0x7f),
        };
        let to_128 = fold.negatives == Negatives::NegatedTo128;
        let entry = |plane: usize| match fold.entries {
            Entries::Window { first, .. } if magnitude < first => 0,
            Entries::Window { last, .. } if to_128 => {
                let magnitude = table.planes[plane][usize::from(magnitude.min(last) | 0x80)].wrapping_neg();
                if code < 0x80 { magnitude.min(0x7f) } else { magnitude }
            }
            Entries::Window { last, .. } => table.planes[plane][usize::from(magnitude.min(last))],
            Entries::Rows(rows) => {
                let (row, place) = (usize::from(magnitude / 16), usize::from(magnitude % 16));
                let class = (1..rows.classes).find(|&class| rows.is_of_class[class][row] != 0).unwrap_or(0);
                rows.differences[class][plane][place].wrapping_sub(rows.minus_first[plane][row])
            }
        };
        let is_negative = fold.magnitudes != Magnitudes::Code && code >= 0x80;
        let with_sign = |entry: u16| if is_negative { fold.negatives.apply(entry, bits) } else { entry };
        match (fold.of_0x80, fold.nan) {
            (Some(entry), _) if code == 0x80 => u16::from_le_bytes(entry),
            (_, Some((above, nan))) if magnitude > above => {
                let nan = u16::from_le_bytes(nan);
                if matches!(fold.negatives, Negatives::Zero | Negatives::Negated | Negatives::NegatedTo128) {
                    nan
                } else {
                    with_sign(nan)
                }
            }
            _ => with_sign(u16::from_le_bytes([entry(0), entry(1)])),
        }
    }

    /// The largest number of a small float; 0 of other types.
    fn largest(from: DataType) -> f32 {
        match Class::of(from) {
            Some(Class::SmallFloat(format)) => crate::scalar::widen_code(format, format.max_code() as u32),
            _ => 0.0,
        }
    }

    #[test]
    fn a_folded_table_has_every_entry() {
        for &from in DataType::NUMERIC.iter().filter(|from| from.info().bits == 8) {
            for &to in DataType::NUMERIC.iter().filter(|to| to.info().bits <= 16) {
                let table = Table::new(&Context::plain(from, to));
                let Some(fold) = Fold::new(&table, from, to) else {
                    // Only words that saturate are not folded.
                    assert!(to == DataType::Int16 && largest(from) >= 32768.0, "{from} -> {to} is not folded");
                    continue;
                };
                for code in 0..=u8::MAX {
                    let want = u16::from_le_bytes(table.planes.map(|plane| plane[usize::from(code)]));
                    let got = found(&fold, &table, code, to.info().bits);
                    assert_eq!(got, want, "{code:#04x}, {from} -> {to}: {fold:?}");
                }
            }
        }
    }

    #[test]
    fn few_vectors_and_classes_are_left() {
        let parts = |from, to| match Fold::new(&Table::new(&Context::plain(from, to)), from, to)?.entries {
            Entries::Window { first, last } => Some(("vectors", Entries::vectors(first, last))),
            Entries::Rows(rows) => Some(("classes", rows.classes)),
        };
        // The hubs of wider targets, as the kernels have them.
        for &from in DataType::NUMERIC {
            let Some(Class::SmallFloat(format)) = Class::of(from) else { continue };
            if format.bits == 8 && !format.infinity {
                assert_eq!(parts(from, DataType::BFloat16), Some(("classes", 2)), "{from}");
            }
            if format.bits == 8 && largest(from) < 32768.0 {
                let is_window = |to| matches!(parts(from, to), Some(("vectors", _)));
                assert!(is_window(DataType::Int16) && is_window(DataType::Uint16), "{from}");
            }
        }
        use DataType::*;
        assert_eq!(parts(Bool, Float8E5M2), Some(("vectors", 1)));
        assert_eq!(parts(Float8E8M0, Int8), Some(("vectors", 1)));
        assert_eq!(parts(Float8E4M3FN, Int8), Some(("vectors", 4)));
        assert_eq!(parts(Float8E4M3FN, Float8E5M2), Some(("classes", 2)));
        assert_eq!(parts(Float8E5M2, Float16), Some(("classes", 2)));
        assert_eq!(parts(Uint8, Float8E4M3FN), Some(("classes", 6)));
    }
}
