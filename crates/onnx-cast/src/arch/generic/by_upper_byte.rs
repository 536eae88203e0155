//! Floats of 16 bits to floats of 8 bits or fewer, by tables over the upper byte of the magnitude. With the upper byte
//! fixed, the lower one raises the code by two at most: a table has the code where the lower byte is zero, two others
//! what the lower byte has to exceed for the next code and for the one after. The addition of [`super::small_float`]
//! would do, but in lanes of 32 bits, at half the speed or less (records/kernels.md); where look-ups take long, see
//! [`super::by_words`].
//!
//! Every `unsafe fn` here asks of its caller that the processor has the instructions of `L` and that pointers are valid
//! for a step's bytes.
#![allow(unsafe_op_in_unsafe_fn, reason = "each line is a method of `Lanes`, which asks for no more")]

use super::small_float::{infinity_is_nan, with_sign};
use super::step::{Walk, both, walk};
use super::wide::store_codes;
use crate::element::{Class, Element, class};
use crate::format::FloatFormat;
use crate::kernel::Task;
use crate::kernel::lanes::{Lanes, looks_up_upper_bytes};
use crate::scalar::Rules;
use core::hint::black_box;

/// What is looked up for numbers beyond the last exponent, for infinity and for NaN: above the codes of all numbers.
const BEYOND: u8 = 0xfd;
const INFINITE: u8 = 0xfe;
const NAN: u8 = 0xff;

/// How many entries the tables of a pair have; `None` where tables are not the way: there are more than one instruction
/// looks up, or a look-up takes many.
pub(crate) const fn entries<L: Lanes, S: Element, D: Element>() -> Option<usize> {
    let Some([from, to]) = formats::<S, D>() else { return None };
    if !looks_up_upper_bytes::<L, S>() || !Window::stays(from, to) && Window::tie(from, to) < 0 {
        return None;
    }
    let Window { entries, .. } = Window::new(from, to);
    if entries <= 128 { Some(entries) } else { None }
}

/// The formats of a float of 16 bits and a small one.
pub(super) const fn formats<S: Element, D: Element>() -> Option<[FloatFormat; 2]> {
    match (class::<S>(), class::<D>(), S::DATA_TYPE.float_format()) {
        (Class::F16 | Class::BF16, Class::SmallFloat(to), Some(from)) => Some([from, to]),
        _ => None,
    }
}

/// Where magnitudes are moved to be looked up: less `first`, at most `last`, and shifted up. So few exponents are left,
/// and no more bits of the significand in the upper byte than decide. A float16 may stay where it is.
struct Window {
    stays: bool,
    first: u32,
    last: u32,
    shift: u32,
    entries: usize,
}

impl Window {
    /// Whether magnitudes stay where they are: those of float16, where its significand's two bits in the upper byte
    /// decide all but two codes.
    const fn stays(from: FloatFormat, to: FloatFormat) -> bool {
        from.exponent_bits == 5 && to.significand_bits <= 3
    }

    /// The source's exponent of half the smallest subnormal number of the target, as a field.
    const fn tie(from: FloatFormat, to: FloatFormat) -> i32 {
        from.bias - to.bias - to.significand_bits as i32
    }

    const fn new(from: FloatFormat, to: FloatFormat) -> Self {
        if Self::stays(from, to) {
            let last = from.infinity_code() as u32;
            return Window { stays: true, first: 0, last, shift: 0, entries: 128 };
        }
        // From the exponent of half the smallest subnormal number to that from which on all overflows. Then one for
        // infinity and NaN, and one that some NaN reach.
        let tie = Self::tie(from, to);
        let beyond = (to.max_code() >> to.significand_bits) as i32 + 1 - to.bias + from.bias;
        let exponents = ((beyond - tie + 2) as u32).next_power_of_two();
        let (in_source, least) = (from.significand_bits, from.significand_bits.saturating_sub(8));
        let mut in_upper = if to.significand_bits - 1 > least { to.significand_bits - 1 } else { least };
        // One more leaves a single limit, where that does not take a larger look-up.
        if exponents << (in_upper + 1) <= 64 {
            in_upper += 1;
        }
        Window {
            stays: false,
            first: (tie as u32) << in_source,
            last: (exponents - 2) << in_source,
            shift: in_upper + 8 - in_source,
            entries: (exponents << in_upper) as usize,
        }
    }

    /// The code of a magnitude by its bytes after the move, to nearest even; what is larger than the largest has the
    /// next.
    const fn code(&self, from: FloatFormat, to: FloatFormat, upper: usize, lower: u32) -> u8 {
        let magnitude = self.first + (((upper as u32) << 8 | lower) >> self.shift);
        let implicit = 1 << from.significand_bits;
        let field = magnitude / implicit;
        let (mut significand, mut exponent) = (magnitude % implicit, 1);
        if field > 0 {
            (significand, exponent) = (significand | implicit, field as i32);
        }
        exponent += to.bias - from.bias;
        while significand < implicit && exponent > 1 {
            (significand, exponent) = (significand * 2, exponent - 1);
        }
        let code = rounded(to, exponent, significand, from.significand_bits);
        let beyond = to.max_code() as u32 + 1;
        if code < beyond { code as u8 } else { beyond as u8 }
    }
}

/// The code of a magnitude, to nearest even, as if codes had no end: the exponent as a field of the target, and the
/// significand with its first bit, which `bits` follow.
pub(super) const fn rounded(to: FloatFormat, exponent: i32, significand: u32, bits: u32) -> u32 {
    let (field, below) = if exponent < 1 { (0, (1 - exponent) as u32) } else { (exponent as u32 - 1, 0) };
    let lost = bits - to.significand_bits + below;
    let odd = significand >> lost & 1;
    (field << to.significand_bits) + ((significand + (1 << (lost - 1)) - 1 + odd) >> lost)
}

struct Tables {
    codes: [u8; 256],
    /// What the lower byte has to exceed for the next code, and for the one after.
    limits: [[u8; 256]; 2],
    has_two_limits: bool,
}

impl Tables {
    /// Those of a pair. The compiler evaluates constants for every pair that `cast` names: others have empty tables.
    const fn of_pair<L: Lanes, S: Element, D: Element>() -> (Window, Self) {
        match (formats::<S, D>(), entries::<L, S, D>()) {
            (Some(formats), Some(_)) => Self::new(formats),
            _ => {
                let tables = Tables { codes: [NAN; 256], limits: [[u8::MAX; 256]; 2], has_two_limits: false };
                (Window { stays: false, first: 0, last: 0, shift: 0, entries: 0 }, tables)
            }
        }
    }

    /// The tables of two formats, and what moves magnitudes to their place in them.
    const fn new([from, to]: [FloatFormat; 2]) -> (Window, Self) {
        let window = Window::new(from, to);
        assert!(window.stays || window.shift <= 4, "`cast` shifts by four at most");
        // With -0, infinity is written as all that is beyond the largest number.
        let is_infinity_apart = !window.stays && !to.negative_zero;
        let mut tables = Tables { codes: [NAN; 256], limits: [[u8::MAX; 256]; 2], has_two_limits: is_infinity_apart };
        let last = (window.last << window.shift >> 8) as usize;
        let mut i = 0;
        while i < 2 * last {
            let (upper, step) = (i / 2, i % 2);
            let code = window.code(from, to, upper, 0);
            // The largest lower byte without this step.
            let (mut limit, mut bit) = (0, 0x80);
            while bit > 0 {
                if window.code(from, to, upper, limit + bit) <= code + step as u8 {
                    limit += bit;
                }
                bit /= 2;
            }
            assert!(window.code(from, to, upper, 0xff) <= code + 2);
            tables.codes[upper] = code;
            tables.limits[step][upper] = limit as u8;
            tables.has_two_limits |= step == 1 && limit < 0xff;
            i += 1;
        }
        // Here are the numbers beyond, one above them infinity, and then NaN. Where magnitudes stay, there are no
        // numbers.
        tables.codes[last] = if is_infinity_apart { BEYOND } else { INFINITE };
        tables.limits[0][last] = if window.stays || is_infinity_apart { 0 } else { 1 << window.shift };
        tables.limits[1][last] = if is_infinity_apart { 1 << window.shift } else { u8::MAX };
        (window, tables)
    }
}

/// Casts by tables of `16 * N` entries.
///
/// # Safety
/// As [`crate::kernel::Kernel`], of the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn cast<L: Lanes, S: Element, D: Element, const N: usize>(task: &Task<'_>, rules: &Rules) {
    let Some([from, to]) = (const { formats::<S, D>() }) else { unreachable!("not from 16 bits to a small float") };
    let (window, tables) = const { &Tables::of_pair::<L, S, D>() };
    // NEON looks entries up in consecutive registers. If the tables were constants, the compiler would keep equal
    // vectors once, and copy them into such registers in each step.
    let tables = if const { L::BYTES < 64 } { black_box(tables) } else { tables };
    let codes = L::table::<N>(&tables.codes);
    let limits = [L::table::<N>(&tables.limits[0]), L::table::<N>(&tables.limits[1])];
    let (words, bytes) = (|value: u32| L::splat::<16>(value.into()), |value: u8| L::splat::<8>(value.into()));
    let (nan, overflow) = (bytes(rules.nan), bytes(rules.overflow));
    // This makes NAN of INFINITE.
    let infinity_bit = bytes(if infinity_is_nan(to, rules) { INFINITE ^ NAN } else { 0 });
    walk::<L>(
        task,
        Walk::of::<S, D>(),
        #[inline(always)]
        |src, dst, _| {
            let value = [L::load(src), L::load(src.add(L::BYTES))];
            let moved = both!(value, value => if window.stays { value } else {
                let magnitude = L::and(value, words(0x7fff));
                let number = L::min_u::<16>(L::saturating_sub(magnitude, words(window.first)), words(window.last));
                let special = L::saturating_sub(magnitude, words(from.infinity_code() as u32 - 1));
                let all = L::or(number, special);
                let shifted = match window.shift {
                    0 => all,
                    1 => L::shl::<16, 1>(all),
                    2 => L::shl::<16, 2>(all),
                    3 => L::shl::<16, 3>(all),
                    4 => L::shl::<16, 4>(all),
                    _ => unreachable!("no window is shifted so far"),
                };
                L::or(shifted, L::and(value, words(0x8000)))
            });
            let (upper, lower) = (L::high_bytes(moved), L::low_halves::<16>(moved));
            let index = if L::WRAPS { upper } else { L::and(upper, bytes(0x7f)) };
            let mut code = L::look_up::<N>(&codes, index);
            code = L::plus_above(code, lower, L::look_up::<N>(&limits[0], index));
            if tables.has_two_limits {
                code = L::plus_above(code, lower, L::look_up::<N>(&limits[1], index));
            }
            let is_nan = L::eq::<8>(L::or(code, infinity_bit), bytes(NAN));
            let code = L::select::<8>(is_nan, nan, L::min_u::<8>(code, overflow));
            store_codes::<L, D>(dst, with_sign::<L>(to, code, upper));
        },
    );
}

#[cfg(all(test, optimized))]
mod tests {
    use super::*;
    use crate::element::{BFloat16, Float16};
    use crate::scalar::widen_code;

    /// What the tables of two formats give for a magnitude.
    fn looked_up((window, tables): &(Window, Tables), from: FloatFormat, magnitude: u32) -> u8 {
        let number = magnitude.saturating_sub(window.first).min(window.last);
        let special = magnitude.saturating_sub(from.infinity_code() as u32 - 1);
        let moved = if window.stays { magnitude } else { (number | special) << window.shift };
        let (upper, lower) = ((moved >> 8) as usize, moved as u8);
        let [first, second] = tables.limits.map(|limit| u8::from(lower > limit[upper]));
        tables.codes[upper] + first + if tables.has_two_limits { second } else { 0 }
    }

    /// A significand of 4 bits, which no type has, needs windows of its own.
    #[test]
    fn the_nearest_code_of_four_significand_bits_is_looked_up() {
        for to in [FloatFormat::finite(3, 4), FloatFormat::finite_with_nan(3, 4), FloatFormat::finite(2, 4)] {
            let beyond = to.max_code() as u8 + 1;
            // Halfway to the code that would come next, everything is beyond.
            let value = |code: u8| {
                let (field, fraction) = (u32::from(code >> 4), f64::from(code & 15) / 16.0);
                (if field == 0 { fraction } else { 1.0 + fraction }) * f64::from(field.max(1) as i32 - to.bias).exp2()
            };
            for from in [Float16::FORMAT, BFloat16::FORMAT] {
                let tables = Tables::new([from, to]);
                let mut code = 0;
                for magnitude in 0..from.infinity_code() as u32 {
                    let number = f64::from(widen_code(from, magnitude));
                    while code < beyond {
                        let tie = (value(code) + value(code + 1)) / 2.0;
                        if number < tie || number == tie && code % 2 == 0 {
                            break;
                        }
                        code += 1;
                    }
                    let got = looked_up(&tables, from, magnitude).min(beyond);
                    assert_eq!(got, code, "{magnitude:#x} of {from:?} to {to:?}");
                }
                let infinity = from.infinity_code() as u32;
                assert_eq!(looked_up(&tables, from, infinity), INFINITE);
                assert!((infinity + 1..0x8000).all(|nan| looked_up(&tables, from, nan) == NAN));
            }
        }
    }
}
