//! Exact decimal numbers, for showing values, distances and errors.
//!
//! Every number that a cast can meet (a binary float, an integer, a decimal text) has a finite decimal expansion, and
//! so have sums, differences and halves of such numbers. A quotient is a fraction. Nothing here rounds but the
//! printing that says so.

use num_bigint::{BigInt, BigUint, Sign};
use std::cmp::Ordering;
use std::ops::{Add, Sub};

/// `digits * 10^-scale`.
#[derive(Clone, Debug)]
pub(crate) struct Decimal {
    digits: BigInt,
    scale: u32,
}

/// Texts are expanded only up to this exponent and length: far beyond every type's range, and still quick.
const LIMIT: u32 = 10_000;

impl Decimal {
    pub(crate) fn zero() -> Decimal {
        Decimal { digits: BigInt::ZERO, scale: 0 }
    }

    /// A finite double, exactly.
    pub(crate) fn from_f64(value: f64) -> Decimal {
        let (significand, exponent) = parts(value);
        let magnitude = BigInt::from(significand);
        let magnitude = if value.is_sign_negative() { -magnitude } else { magnitude };
        if exponent >= 0 {
            return Decimal { digits: magnitude << exponent as u32, scale: 0 };
        }
        // 2^-k is 5^k * 10^-k.
        let scale = exponent.unsigned_abs();
        Decimal { digits: magnitude * BigInt::from(5).pow(scale), scale }
    }

    /// A decimal text: sign, digits, point, exponent. `None` where it is not such a text, or too long to write out.
    pub(crate) fn from_text(text: &str) -> Option<Decimal> {
        let text = text.trim_ascii();
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.parse::<i64>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.len() > LIMIT as usize || exponent.unsigned_abs() > u64::from(LIMIT) {
            return None;
        }
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        let digits: BigInt = digits.parse().ok()?;
        let digits = if negative { -digits } else { digits };
        let scale = fraction.len() as i64 - exponent;
        Some(if scale >= 0 {
            Decimal { digits, scale: scale as u32 }
        } else {
            Decimal { digits: digits * power_of_ten(scale.unsigned_abs() as u32), scale: 0 }
        })
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.sign() == Sign::NoSign
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.digits.sign() == Sign::Minus
    }

    pub(crate) fn abs(&self) -> Decimal {
        Decimal { digits: BigInt::from(self.digits.magnitude().clone()), scale: self.scale }
    }

    pub(crate) fn half(&self) -> Decimal {
        Decimal { digits: &self.digits * 5, scale: self.scale + 1 }
    }

    pub(crate) fn is_integer(&self) -> bool {
        (&self.digits % power_of_ten(self.scale)).sign() == Sign::NoSign
    }

    /// The largest integer that is not above the number.
    pub(crate) fn floor(&self) -> BigInt {
        let unit = power_of_ten(self.scale);
        let towards_zero = &self.digits / &unit;
        if self.is_negative() && &towards_zero * unit != self.digits { towards_zero - 1 } else { towards_zero }
    }

    /// Digits of both, at the same scale.
    fn aligned(&self, other: &Decimal) -> (BigInt, BigInt, u32) {
        let scale = self.scale.max(other.scale);
        let lift = |number: &Decimal| &number.digits * power_of_ten(scale - number.scale);
        (lift(self), lift(other), scale)
    }

    /// All digits, without an exponent.
    pub(crate) fn exact(&self) -> String {
        let (digits, point) = self.significant();
        plain(self.sign(), &digits, point)
    }

    /// For people: exact where that is short enough to read, else the leading digits and `...`, with an exponent where
    /// the point is far away.
    pub(crate) fn readable(&self) -> String {
        const LONGEST: usize = 48;
        const CUT: usize = 20;
        let (digits, point) = self.significant();
        let (shown, dots) = if digits.len() > LONGEST { (&digits[..CUT], "...") } else { (&digits[..], "") };
        if (-5..=CUT as i64).contains(&point) {
            return plain(self.sign(), shown, point) + dots;
        }
        let (first, rest) = shown.split_at(1);
        let separator = if rest.is_empty() { "" } else { "." };
        format!("{}{first}{separator}{rest}{dots}e{}", self.sign(), point - 1)
    }

    fn sign(&self) -> &'static str {
        if self.is_negative() { "-" } else { "" }
    }

    /// The digits without leading or trailing zeros, and where the point stands: `0.digits * 10^point`.
    fn significant(&self) -> (String, i64) {
        let digits = self.digits.magnitude().to_string();
        if self.is_zero() {
            return (String::new(), 1);
        }
        let point = digits.len() as i64 - i64::from(self.scale);
        (digits.trim_end_matches('0').to_owned(), point)
    }
}

/// `0.digits * 10^point` without an exponent.
fn plain(sign: &str, digits: &str, point: i64) -> String {
    let zeros = |count: i64| "0".repeat(usize::try_from(count).unwrap_or(0));
    match usize::try_from(point) {
        _ if digits.is_empty() => "0".to_owned(),
        Ok(whole) if whole > 0 && whole < digits.len() => format!("{sign}{}.{}", &digits[..whole], &digits[whole..]),
        Ok(whole) if whole > 0 => format!("{sign}{digits}{}", zeros(point - digits.len() as i64)),
        _ => format!("{sign}0.{}{digits}", zeros(-point)),
    }
}

fn power_of_ten(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

/// The exact quotient of two decimals: a fraction in lowest terms.
#[derive(Clone, Debug)]
pub(crate) struct Quotient {
    numerator: BigInt,
    /// Positive.
    denominator: BigInt,
}

impl Quotient {
    /// `part / whole`; `whole` is not zero.
    pub(crate) fn new(part: &Decimal, whole: &Decimal) -> Quotient {
        let (numerator, denominator, _) = part.aligned(whole);
        let (mut divisor, mut rest) = (numerator.clone(), denominator.clone());
        while rest.sign() != Sign::NoSign {
            (divisor, rest) = (rest.clone(), divisor % rest);
        }
        // The denominator, and with it the fraction's, becomes positive.
        if divisor.sign() != denominator.sign() {
            divisor = -divisor;
        }
        Quotient { numerator: numerator / &divisor, denominator: denominator / divisor }
    }

    /// The quotient itself where its decimals end; else its first 64 digits or more and a digit 1, which lies on the
    /// same side of every value of a binary type, and of every middle of two, as the quotient does.
    pub(crate) fn decimal(&self) -> Decimal {
        const DIGITS: usize = 64;
        let length = |number: &BigInt| number.magnitude().to_string().len();
        let lift = match self.decimals() {
            Some(decimals) => decimals,
            None => (DIGITS + length(&self.denominator)).saturating_sub(length(&self.numerator)) as u32,
        };
        let digits = &self.numerator * power_of_ten(lift);
        let (quotient, rest) = (&digits / &self.denominator, digits % &self.denominator);
        match rest.sign() {
            Sign::NoSign => Decimal { digits: quotient, scale: lift },
            Sign::Plus => Decimal { digits: quotient * 10 + 1, scale: lift + 1 },
            Sign::Minus => Decimal { digits: quotient * 10 - 1, scale: lift + 1 },
        }
    }

    /// How many decimals there are, where they end.
    fn decimals(&self) -> Option<u32> {
        let mut rest = self.denominator.clone();
        let mut count = |prime: u32| {
            let mut count = 0;
            while (&rest % prime).sign() == Sign::NoSign {
                rest /= prime;
                count += 1;
            }
            count
        };
        let decimals = count(2).max(count(5));
        (rest == BigInt::from(1)).then_some(decimals)
    }

    /// Every digit where the decimals end, else the fraction.
    pub(crate) fn exact(&self) -> String {
        match self.decimals() {
            Some(_) => self.decimal().exact(),
            None => format!("{}/{}", self.numerator, self.denominator),
        }
    }
}

/// A finite double as `significand * 2^exponent`, the sign left out.
fn parts(value: f64) -> (u64, i32) {
    const SIGNIFICAND: u32 = 52;
    let bits = value.to_bits();
    let field = (bits >> SIGNIFICAND & 0x7ff) as i32;
    let fraction = bits & ((1 << SIGNIFICAND) - 1);
    let significand = if field == 0 { fraction } else { fraction | 1 << SIGNIFICAND };
    (significand, field.max(1) - 1023 - SIGNIFICAND as i32)
}

/// A finite double as an odd integer times a power of two: short and exact whatever the magnitude.
pub(crate) fn binary(value: f64) -> String {
    let (significand, exponent) = parts(value);
    if significand == 0 {
        return "0".to_owned();
    }
    let zeros = significand.trailing_zeros();
    let (odd, exponent) = (significand >> zeros, exponent + zeros as i32);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    match (odd, exponent) {
        (_, 0) => format!("{sign}{odd}"),
        (1, _) => format!("{sign}2^{exponent}"),
        _ => format!("{sign}{odd} * 2^{exponent}"),
    }
}

/// `part / whole` to five significant digits. `whole` is not zero.
pub(crate) fn ratio(part: &Decimal, whole: &Decimal) -> String {
    let (part, whole, _) = part.aligned(whole);
    let (part, whole): (BigUint, BigUint) = (part.into_parts().1, whole.into_parts().1);
    if part == BigUint::ZERO {
        return "0".to_owned();
    }
    // Scale until the quotient has at least seven digits, then let the leading ones speak.
    let lift = (whole.to_string().len() + 7).saturating_sub(part.to_string().len()) as u32;
    let quotient = part * BigUint::from(10u8).pow(lift) / whole;
    let digits = quotient.to_string();
    let exponent = digits.len() as i64 - 1 - i64::from(lift);
    let leading: f64 = format!("{}.{}", &digits[..1], &digits[1..digits.len().min(16)]).parse().unwrap_or(f64::NAN);
    let rounded = format!("{leading:.4}");
    // 9.99996 rounds up to 10.0000.
    let (rounded, exponent) = if rounded.starts_with("10") { ("1", exponent + 1) } else { (&*rounded, exponent) };
    let rounded = if rounded.contains('.') { rounded.trim_end_matches('0').trim_end_matches('.') } else { rounded };
    if (-4..=4).contains(&exponent) {
        return plain("", rounded.replace('.', "").trim_end_matches('0'), exponent + 1);
    }
    format!("{rounded}e{exponent}")
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        let (a, b, _) = self.aligned(other);
        a.cmp(&b)
    }
}

impl Add for &Decimal {
    type Output = Decimal;

    fn add(self, other: &Decimal) -> Decimal {
        let (a, b, scale) = self.aligned(other);
        Decimal { digits: a + b, scale }
    }
}

impl Sub for &Decimal {
    type Output = Decimal;

    fn sub(self, other: &Decimal) -> Decimal {
        let (a, b, scale) = self.aligned(other);
        Decimal { digits: a - b, scale }
    }
}

impl From<BigInt> for Decimal {
    fn from(digits: BigInt) -> Decimal {
        Decimal { digits, scale: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_out_exactly() {
        for (value, exact) in [
            (0.0, "0"),
            (1.0, "1"),
            (-0.3125, "-0.3125"),
            (1e22, "10000000000000000000000"),
            (0.1, "0.1000000000000000055511151231257827021181583404541015625"),
        ] {
            assert_eq!(Decimal::from_f64(value).exact(), exact);
        }
        for value in [5e-324, f64::MIN_POSITIVE, f64::MAX, 1.0 / 3.0, 123456.789] {
            assert_eq!(
                Decimal::from_f64(value).exact(),
                format!("{value:.1074}").trim_end_matches('0').trim_end_matches('.')
            );
            assert_eq!(Decimal::from_text(&Decimal::from_f64(value).exact()), Some(Decimal::from_f64(value)));
        }
    }

    #[test]
    fn texts() {
        for (text, exact) in
            [("1e3", "1000"), ("-5.", "-5"), (".50", "0.5"), ("+00012.300", "12.3"), ("25e-4", "0.0025"), ("-0", "0")]
        {
            assert_eq!(Decimal::from_text(text).map(|d| d.exact()).as_deref(), Some(exact), "{text}");
        }
        for text in ["", ".", "e5", "1e", "1e99999", "inf", "0x10", "1 2"] {
            assert_eq!(Decimal::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn readable_says_when_it_cuts() {
        let readable = |value: f64| Decimal::from_f64(value).readable();
        assert_eq!(readable(0.3125), "0.3125");
        assert_eq!(readable(f64::from(0.1f32)), "0.100000001490116119384765625");
        assert_eq!(readable(0.1), "0.10000000000000000555...");
        assert_eq!(readable(5e-324), "4.9406564584124654417...e-324");
        assert_eq!(readable(1e300), "1.0000000000000000525...e300");
        assert_eq!(readable(-1.0 / 3.0), "-0.33333333333333331482...");
        assert_eq!(readable(4.0 / 3.0), "1.3333333333333332593...");
        assert_eq!(readable(2f64.powi(-20)), "9.5367431640625e-7");
        assert_eq!(readable(0.0), "0");
    }

    #[test]
    fn powers_of_two_and_ratios() {
        assert_eq!(binary(-0.3125), "-5 * 2^-4");
        assert_eq!(binary(5e-324), "2^-1074");
        assert_eq!(binary(448.0), "7 * 2^6");
        assert_eq!(binary(3.0), "3");
        let d = |text| Decimal::from_text(text).expect("a decimal");
        assert_eq!(ratio(&d("1"), &d("3")), "0.33333");
        assert_eq!(ratio(&d("-9.99999"), &d("1e-300")), "1e301");
        assert_eq!(ratio(&d("0"), &d("3")), "0");
        assert_eq!(ratio(&d("6"), &d("3")), "2");
        assert_eq!(ratio(&d("1"), &d("16384")), "6.1035e-5");
        assert_eq!(ratio(&d("1e5"), &d("4")), "25000");
        assert_eq!(ratio(&d("1e6"), &d("4")), "2.5e5");
    }

    #[test]
    fn quotients() {
        let quotient = |part: f64, whole: f64| Quotient::new(&Decimal::from_f64(part), &Decimal::from_f64(whole));
        for (part, whole, exact, readable) in [
            (1.0, 3.0, "1/3", "0.33333333333333333333..."),
            (-4.0, 6.0, "-2/3", "-0.66666666666666666666..."),
            (4.0, -6.0, "-2/3", "-0.66666666666666666666..."),
            (-0.75, -0.5, "1.5", "1.5"),
            (1e30, 7.0, "1000000000000000019884624838656/7", "1.4285714285714285998...e29"),
            (1.0, 5.0, "0.2", "0.2"),
            (0.0, -5.0, "0", "0"),
        ] {
            let quotient = quotient(part, whole);
            assert_eq!((&*quotient.exact(), &*quotient.decimal().readable()), (exact, readable), "{part} / {whole}");
        }
        let smallest = quotient(2f64.powi(-149), 2f64.powi(127)).exact();
        assert_eq!(smallest, Decimal::from_f64(2f64.powi(-276)).exact());
    }

    #[test]
    fn floors() {
        for (text, floor) in [("2.5", 2), ("-2.5", -3), ("-2", -2), ("0.1", 0), ("-0.1", -1)] {
            assert_eq!(Decimal::from_text(text).map(|d| d.floor()), Some(BigInt::from(floor)), "{text}");
        }
    }
}
