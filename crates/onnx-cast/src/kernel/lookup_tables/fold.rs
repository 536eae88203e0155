//! Which entries of a table are needed, where a look-up takes as long as its entries are many.
//!
//! Few of the 256 entries of a code of 8 bits say anything of their own. Negative codes have the results of positive
//! ones, but for a sign or zero. What is left is looked up in one of five ways, whichever takes fewest instructions:
//!
//! - Below some magnitude all results are zero, above another all are the largest: between them is a *window*.
//! - The table is 16 rows of 16 entries. Within a row, entries differ from the first by as much as in many other rows,
//!   because a float's significand is below its exponent: the rows fall into few *classes*.
//! - Two classes, of which one is the first row alone, are *planes*: to floats of 16 bits, where only subnormal numbers
//!   differ.
//! - From float to float one class is enough, up to the largest number: such a table is a *slope*. Rows of subnormal
//!   numbers are steeper, and higher than the slope would be there.
//! - From integers to floats, rows have more and more numbers to one code, until an entry is at most two above the
//!   first of its row: these are *steps*. The rows before have all of their entries.
//!
//! NaN is apart where that leaves less: it is what has the last entry, or code 0x80.

use super::Table;
use crate::element::{Class, DataType};

/// The most classes of rows that are worth it.
pub(crate) const MOST_CLASSES: usize = 7;
/// The most vectors of 16 entries that a window may have.
pub(crate) const MOST_VECTORS: usize = 5;
/// The most beside a slope or steps.
pub(crate) const MAX_EXTRA: usize = 4;

/// A table of 8-bit codes, folded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fold {
    pub(crate) magnitudes: Magnitudes,
    pub(crate) negatives: Negatives,
    /// The magnitudes above this one are NaN.
    pub(crate) nan: Option<(u8, Exception)>,
    /// Code 0x80, where its entry follows from nothing else.
    pub(crate) of_0x80: Option<Exception>,
    pub(crate) entries: Entries,
}

/// The entry of codes that do not follow the others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exception {
    pub(crate) entry: [u8; 2],
    /// What they would have if they did. (NaN may have anything in rows.)
    pub(crate) instead_of: [u8; 2],
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
    Window {
        first: u8,
        last: u8,
    },
    /// By the upper half of the magnitude, and for each class of rows by the lower.
    Rows(Rows),
    Planes(Planes),
    /// Of 8 bits or fewer.
    Slope(Slope),
    /// Likewise.
    Steps(Steps),
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

/// A table whose entries are the sum of one by the upper half of the magnitude and one by the lower, byte by byte, and
/// in the first row of another by the lower.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planes {
    pub(crate) upper: [[u8; 16]; 2],
    pub(crate) lower: [[u8; 16]; 2],
    pub(crate) first_row: [[u8; 16]; 2],
}

/// A table whose entries are the sum of one by the upper half of the magnitude and one by the lower, at least 0 and at
/// most `max`; or the entry of [`Extra`], if that is larger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slope {
    /// By the lower half, and more than the sum by as much as `fall` takes off.
    pub(crate) rise: [u8; 16],
    pub(crate) fall: [u8; 16],
    pub(crate) max: u8,
    pub(crate) extra: Extra,
}

/// A table whose entries are one by the upper half of the magnitude, and one more above each of two limits; or what
/// [`Extra`] has, if that is more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    pub(crate) first: [u8; 16],
    /// Magnitudes, less 0x80 so that they compare as signed bytes.
    pub(crate) limits: [[u8; 16]; 2],
    pub(crate) extra: Extra,
}

/// The entries of sixteens of magnitudes in a row. Those above have any of these, all of which are less than their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extra {
    pub(crate) vectors: usize,
    pub(crate) first: u8,
    pub(crate) entries: [[u8; 16]; MAX_EXTRA],
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

    /// What finds the entries of all magnitudes up to the last in the fewest instructions.
    fn fewest(table: &Table, is_byte: bool, magnitudes: Magnitudes, last: u8, may: [bool; 2]) -> Option<Self> {
        let [has_window, has_rows] = may;
        let planes = if is_byte { 1 } else { 2 };
        let entry = |code: u8| table.planes.map(|plane| plane[usize::from(code)]);
        let first = (0..last).find(|&code| entry(code) != [0; 2]).unwrap_or(last);
        let end = (0..=last).rev().take_while(|&code| entry(code) == entry(last)).last().unwrap_or(last);
        let first = first.min(end);
        // An index below the window has to be negative as a byte.
        let is_window =
            has_window && first <= 0x80 && end - first < 0x80 && Entries::vectors(first, end) <= MOST_VECTORS;
        let mut found = [is_window.then_some(Entries::Window { first, last: end }), None, None, None];
        if is_byte && magnitudes != Magnitudes::Code {
            found[1] = Slope::new(&table.planes[0], last).map(Entries::Slope);
        }
        if is_byte && magnitudes != Magnitudes::WithoutSign {
            found[2] = Steps::new(&table.planes[0], last).map(Entries::Steps);
        }
        if !is_byte && magnitudes == Magnitudes::WithoutSign {
            found[2] = Planes::new(table, last).map(Entries::Planes);
        }
        if has_rows {
            found[3] = Rows::new(table, last).map(Entries::Rows);
        }
        found.into_iter().flatten().min_by_key(|entries| entries.cost(planes))
    }

    /// How many instructions a look-up takes, about.
    fn cost(&self, planes: usize) -> usize {
        match *self {
            Entries::Window { first, last } => {
                let vectors = Entries::vectors(first, last);
                1 + vectors + planes * (2 * vectors - 1)
            }
            // A selection by bytes is one instruction or three; words have no other way.
            Entries::Rows(Rows { classes, .. }) if planes == 1 => 2 + 5 * classes,
            Entries::Rows(Rows { classes, .. }) => 1 + classes + planes * (2 * classes + 1),
            Entries::Planes(_) => 3 + 5 * planes,
            Entries::Slope(Slope { extra, .. }) => 6 + 3 * extra.vectors,
            Entries::Steps(Steps { extra, .. }) => 10 + 3 * extra.vectors,
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
        let exception = |code: u8, instead_of: u16| Exception {
            entry: entry(code).to_le_bytes(),
            instead_of: instead_of.to_le_bytes(),
        };
        let of_0x80 = of_0x80.filter(|&found| found != entry(0x80)).map(|found| exception(0x80, found));
        let is_byte = bits <= 8;
        // In bytes NaN takes the place of the largest entry, which rows do not have there. Of integers it comes after
        // the sign, but in a window, where it is 0.
        let is_integer = matches!(negatives, Negatives::Zero | Negatives::Negated);
        let is_replaced = has_nan && is_byte;
        let has_window = !is_replaced || !is_integer || entry(largest) == 0;
        let has_rows = !is_replaced || is_integer;
        let entries = Entries::fewest(table, is_byte, magnitudes, last, [has_window, has_rows])?;
        let nan = has_nan.then(|| (last, exception(largest, entry(last))));
        Some(Fold { magnitudes, negatives, nan, of_0x80, entries })
    }
}

impl Fold {
    /// A float of 8 bits to an integer of 8 that saturates: magnitudes have the entries of negative numbers, negated.
    fn to_128(table: &Table, to: DataType) -> Option<Self> {
        if to.info().bits != 8 || table.planes[0][0x80] != 0 {
            return None;
        }
        let mut magnitudes = Table { planes: [[0; 256]; 2], ..*table };
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

impl Planes {
    /// The magnitudes up to the last one, if all rows but the first are alike. Those above have anything.
    fn new(table: &Table, last: u8) -> Option<Self> {
        let mut planes = Planes { upper: [[0; 16]; 2], lower: [[0; 16]; 2], first_row: [[0; 16]; 2] };
        for (plane, entries) in table.planes.iter().enumerate() {
            for lower in 0..16 {
                planes.lower[plane][lower] = entries[16 + lower].wrapping_sub(entries[16]);
                planes.first_row[plane][lower] = entries[lower].wrapping_sub(planes.lower[plane][lower]);
            }
            for upper in 1..16 {
                planes.upper[plane][upper] = entries[16 * upper];
            }
        }
        let has = |magnitude: u8| table.planes.map(|plane| plane[usize::from(magnitude)]) == planes.entry(magnitude);
        (last >= 0x1f && (0..=last).all(has)).then_some(planes)
    }

    /// The entry of a magnitude.
    fn entry(&self, magnitude: u8) -> [u8; 2] {
        let [upper, lower] = [magnitude / 16, magnitude % 16].map(usize::from);
        [0, 1].map(|plane| {
            let sum = self.upper[plane][upper].wrapping_add(self.lower[plane][lower]);
            sum.wrapping_add(if upper == 0 { self.first_row[plane][lower] } else { 0 })
        })
    }
}

impl Slope {
    /// The magnitudes up to the last one, if their table is a slope.
    fn new(entries: &[u8; 256], last: u8) -> Option<Self> {
        let rows = (0..=usize::from(last / 16)).filter(|row| 16 * row + 15 <= usize::from(last));
        rows.filter_map(|row| Self::by_row(entries, last, row)).min_by_key(|slope| slope.extra.vectors)
    }

    /// The slope that rises as this row does.
    fn by_row(entries: &[u8; 256], last: u8, row: usize) -> Option<Self> {
        let max = entries[usize::from(last)];
        let mut rise = [0; 16];
        for (rise, entry) in rise.iter_mut().zip(&entries[16 * row..]) {
            *rise = entry.checked_sub(entries[16 * row])?;
        }
        let sum = |height: i16, column: usize| (height + i16::from(rise[column])).clamp(0, max.into()) as u8;
        // Where each row begins: as high as its last entry below the largest asks for, or beyond.
        let mut heights = [None; 16];
        for (height, row) in heights.iter_mut().zip(entries[..=usize::from(last)].chunks(16)) {
            let below = row.iter().rposition(|&entry| entry < max);
            let fitting = below.map(|column| i16::from(row[column]) - i16::from(rise[column]));
            let matches = |&height: &i16| {
                let sums = row.iter().enumerate().map(|(column, &entry)| (sum(height, column), entry));
                let is_low = sums.clone().all(|(sum, entry)| sum <= entry);
                if is_low { sums.filter(|(sum, entry)| sum == entry).count() } else { 0 }
            };
            let heights = [Some(max.into()), fitting].into_iter().flatten();
            *height = heights.filter(|height| matches(height) > 0).max_by_key(matches);
        }
        let highest = heights.iter().copied().flatten().max()?;
        let mut slope = Slope { rise, fall: [u8::MAX; 16], max, extra: Extra::NONE };
        for rise in &mut slope.rise {
            *rise = u8::try_from(i16::from(*rise) + highest).ok()?;
        }
        for (fall, height) in slope.fall.iter_mut().zip(heights) {
            *fall = height.map_or(u8::MAX, |height| u8::try_from(highest - height).unwrap_or(u8::MAX));
        }
        slope.extra = Extra::new(entries, last, |magnitude| slope.entry(magnitude))?;
        Some(slope)
    }

    /// The entry of a magnitude.
    fn entry(&self, magnitude: u8) -> u8 {
        let [upper, lower] = [magnitude / 16, magnitude % 16].map(usize::from);
        self.rise[lower].saturating_sub(self.fall[upper]).min(self.max).max(self.extra.entry(magnitude))
    }
}

impl Steps {
    /// The magnitudes up to the last one, if their table has steps.
    fn new(entries: &[u8; 256], last: u8) -> Option<Self> {
        let mut steps = Steps { first: [0; 16], limits: [[0x7f; 16]; 2], extra: Extra::NONE };
        for (upper, row) in entries[..=usize::from(last)].chunks(16).enumerate() {
            let (first, end) = (row[0], row[row.len() - 1]);
            if !row.is_sorted() || end - first > 2 {
                continue;
            }
            steps.first[upper] = first;
            for (limits, above) in steps.limits.iter_mut().zip(1..=end - first) {
                let column = row.iter().position(|&entry| entry - first >= above)?;
                limits[upper] = ((16 * upper + column - 1) as u8) ^ 0x80;
            }
        }
        steps.extra = Extra::new(entries, last, |magnitude| steps.entry(magnitude))?;
        Some(steps)
    }

    /// The entry of a magnitude.
    fn entry(&self, magnitude: u8) -> u8 {
        let upper = usize::from(magnitude / 16);
        let above = self.limits.iter().filter(|limits| (magnitude ^ 0x80) as i8 > limits[upper] as i8);
        (self.first[upper] + above.count() as u8).max(self.extra.entry(magnitude))
    }
}

impl Extra {
    const NONE: Self = Extra { vectors: 0, first: 0, entries: [[0; 16]; MAX_EXTRA] };

    /// What is needed beside entries that are found otherwise, if it is little and leaves all others as they are.
    fn new(entries: &[u8; 256], last: u8, found: impl Fn(u8) -> u8) -> Option<Self> {
        let differs = |&magnitude: &u8| found(magnitude) != entries[usize::from(magnitude)];
        let Some(mut first) = (0..=last).find(differs) else { return Some(Self::NONE) };
        let end = (0..=last).rfind(differs)?;
        let vectors = usize::from(end - first) / 16 + 1;
        if usize::from(end) < 16 * vectors {
            first = 0;
        }
        let mut extra = Extra { vectors, first, ..Self::NONE };
        for (column, magnitude) in (first..=last).take(16 * vectors).enumerate() {
            extra.entries.get_mut(column / 16)?[column % 16] = entries[usize::from(magnitude)];
        }
        let is_whole = |magnitude| found(magnitude).max(extra.entry(magnitude)) == entries[usize::from(magnitude)];
        (0..=last).all(is_whole).then_some(extra)
    }

    /// What it has for a magnitude: of each sixteen the entry at the lower half of an index, unless that is negative as
    /// a byte.
    fn entry(&self, magnitude: u8) -> u8 {
        let mut index = magnitude.wrapping_sub(self.first);
        let mut entry = 0;
        for sixteen in &self.entries[..self.vectors] {
            entry = entry.max(if index < 0x80 { sixteen[usize::from(index % 16)] } else { 0 });
            index = index.wrapping_sub(16);
        }
        entry
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
                let (row, column) = (usize::from(magnitude / 16), usize::from(magnitude % 16));
                let class = (1..rows.classes).find(|&class| rows.is_of_class[class][row] != 0).unwrap_or(0);
                rows.differences[class][plane][column].wrapping_sub(rows.minus_first[plane][row])
            }
            Entries::Planes(planes) => planes.entry(magnitude)[plane],
            Entries::Slope(_) | Entries::Steps(_) if plane == 1 => 0,
            Entries::Slope(slope) => slope.entry(magnitude),
            Entries::Steps(steps) => steps.entry(magnitude),
        };
        let is_negative = fold.magnitudes != Magnitudes::Code && code >= 0x80;
        let with_sign = |entry: u16| if is_negative { fold.negatives.apply(entry, bits) } else { entry };
        match (fold.of_0x80, fold.nan) {
            (Some(Exception { entry, .. }), _) if code == 0x80 => u16::from_le_bytes(entry),
            (_, Some((above, Exception { entry: nan, instead_of }))) if magnitude > above => {
                // Bytes are replaced by a difference.
                let is_row = matches!(fold.entries, Entries::Rows(_) | Entries::Planes(_));
                assert!(is_row || to_128 || [entry(0), entry(1)] == instead_of, "{code:#04x}: {fold:?}");
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
            Entries::Planes(_) => Some(("planes", 2)),
            Entries::Slope(slope) => Some(("a slope", slope.extra.vectors)),
            Entries::Steps(steps) => Some(("steps", steps.extra.vectors)),
        };
        // The hubs of wider targets, as the kernels have them.
        for &from in DataType::NUMERIC {
            let Some(Class::SmallFloat(format)) = Class::of(from) else { continue };
            if format.bits == 8 && !format.infinity {
                assert_eq!(parts(from, DataType::BFloat16), Some(("planes", 2)), "{from}");
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
        assert_eq!(parts(Float8E4M3FN, Float8E5M2), Some(("a slope", 1)));
        assert_eq!(parts(Float8E5M2, Float8E4M3FN), Some(("a slope", 1)));
        assert_eq!(parts(Int8, Float8E4M3FN), Some(("a slope", 4)));
        assert_eq!(parts(Float8E5M2, Float16), Some(("classes", 2)));
        assert_eq!(parts(Uint8, Float8E4M3FN), Some(("steps", 4)));
        assert_eq!(parts(Uint8, Float8E5M2), Some(("steps", 2)));
    }
}
