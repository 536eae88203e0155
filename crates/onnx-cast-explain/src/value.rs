//! Single values, by their codes: what a code stands for, and what the library makes of one. There is no conversion
//! arithmetic here: a code is read by casting it to `double`, which holds every float type exactly, or to `string`.

use crate::decimal::Decimal;
use crate::error::{ExplainError, Result};
use num_bigint::BigInt;
use onnx_cast::__private::Short;
use onnx_cast::tensor::Strings;
use onnx_cast::types::Kind;
use onnx_cast::{Cast, CastOptions, DataType, Plan, Tensor};

/// What an element stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExactValue {
    Nan { negative: bool },
    Infinity { negative: bool },
    Number { number: Decimal, minus_zero: bool },
}

/// One element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Text(String),
    Code(u64),
}

impl ExactValue {
    fn from_f64(value: f64) -> ExactValue {
        let negative = value.is_sign_negative();
        if value.is_nan() {
            ExactValue::Nan { negative }
        } else if value.is_infinite() {
            ExactValue::Infinity { negative }
        } else {
            ExactValue::Number { number: Decimal::from_f64(value), minus_zero: negative && value == 0.0 }
        }
    }

    /// What a text stands for, where the library takes it as a number (or, for bool, as `true` or `false`).
    pub(crate) fn from_text(text: &str) -> Result<ExactValue> {
        // The library allows all of C's white space, the vertical tab too.
        let word = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
        if let Some(truth) = ["false", "true"].iter().position(|known| word.eq_ignore_ascii_case(known)) {
            return Ok(ExactValue::Number { number: BigInt::from(truth).into(), minus_zero: false });
        }
        let rounded = ExactValue::from_f64(as_double(DataType::String, &Element::Text(text.to_owned()))?);
        // Infinity may be what became of a number too large for a double; only the word is infinity.
        if word.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_alphabetic()) {
            return Ok(rounded);
        }
        let number = Decimal::from_text(word)
            .ok_or_else(|| ExplainError::request(format_args!("`{}` is too long to be written out", Short(text))))?;
        let minus_zero = number.is_zero() && word.starts_with('-');
        Ok(ExactValue::Number { number, minus_zero })
    }

    pub(crate) fn number(&self) -> Option<&Decimal> {
        match self {
            ExactValue::Number { number, .. } => Some(number),
            _ => None,
        }
    }

    pub(crate) fn is_negative(&self) -> bool {
        match self {
            ExactValue::Nan { negative } | ExactValue::Infinity { negative } => *negative,
            ExactValue::Number { number, minus_zero } => number.is_negative() || *minus_zero,
        }
    }

    fn show(&self, digits: impl Fn(&Decimal) -> String) -> String {
        match self {
            ExactValue::Nan { .. } => "NaN".to_owned(),
            ExactValue::Infinity { negative: false } => "INF".to_owned(),
            ExactValue::Infinity { negative: true } => "-INF".to_owned(),
            ExactValue::Number { minus_zero: true, .. } => "-0".to_owned(),
            ExactValue::Number { number, .. } => digits(number),
        }
    }

    /// For people; long numbers are cut, which `...` tells.
    pub(crate) fn readable(&self) -> String {
        self.show(Decimal::readable)
    }

    /// Every digit.
    pub(crate) fn exact(&self) -> String {
        self.show(Decimal::exact)
    }
}

/// The element that a cast gives, in the newest version with its default attributes.
pub(crate) fn convert(from: DataType, to: DataType, element: &Element) -> Result<Element> {
    apply(&Cast::new(to, &CastOptions::default())?.plan(from)?, element)
}

/// The element that a plan gives.
pub(crate) fn apply(plan: &Plan, element: &Element) -> Result<Element> {
    Ok(element_of(plan.run(&tensor_of(plan.source_type(), element)?.view())?))
}

/// One element as a tensor of no dimensions.
pub(crate) fn tensor_of(data_type: DataType, element: &Element) -> Result<Tensor> {
    Ok(match element {
        Element::Text(text) => Tensor::strings(Vec::new(), Strings::from_iter([text]))?,
        Element::Code(code) => {
            let width = data_type.byte_len(1).unwrap_or(0).min(8);
            Tensor::new(data_type, Vec::new(), code.to_le_bytes()[..width].to_vec())?
        }
    })
}

/// The one element of a tensor.
pub(crate) fn element_of(tensor: Tensor) -> Element {
    match tensor.view().as_strings() {
        Some(strings) => Element::Text(String::from_utf8_lossy(strings.get(0).unwrap_or_default()).into_owned()),
        None => {
            let bytes = tensor.bytes().unwrap_or_default();
            let mut code = [0; 8];
            code[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
            Element::Code(u64::from_le_bytes(code))
        }
    }
}

/// What an element stands for, exactly.
pub(crate) fn value_of(data_type: DataType, element: &Element) -> Result<ExactValue> {
    match (element, data_type.info().kind) {
        (Element::Text(text), _) => ExactValue::from_text(text),
        (Element::Code(_), Kind::Float(_)) => Ok(ExactValue::from_f64(as_double(data_type, element)?)),
        (Element::Code(_), _) => match convert(data_type, DataType::String, element)? {
            Element::Text(digits) => ExactValue::from_text(&digits),
            Element::Code(_) => Err(ExplainError::request("a cast to string gave no text")),
        },
    }
}

/// An element as a double, which holds every float exactly.
pub(crate) fn as_double(data_type: DataType, element: &Element) -> Result<f64> {
    match convert(data_type, DataType::Double, element)? {
        Element::Code(code) => Ok(f64::from_bits(code)),
        Element::Text(_) => Err(ExplainError::request("a cast to double gave text")),
    }
}

/// A code as `0x` and as many hexadecimal digits as the type's width asks for.
pub(crate) fn hex(data_type: DataType, code: u64) -> String {
    let digits = data_type.bits().unwrap_or(64).div_ceil(4);
    format!("0x{code:0digits$x}")
}

/// The integer types' range, as codes: smallest and largest.
pub(crate) fn integer_range(data_type: DataType) -> Option<(u64, u64)> {
    let bits = data_type.bits().filter(|bits| *bits <= 64)?;
    let ones = u64::MAX >> (64 - bits);
    match data_type.info().kind {
        Kind::Int => Some((1 << (bits - 1), ones >> 1)),
        Kind::Uint => Some((0, ones)),
        _ => None,
    }
}
