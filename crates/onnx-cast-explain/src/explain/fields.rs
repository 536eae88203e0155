//! The bits of a code, field by field.

use crate::decimal::binary;
use crate::error::Result;
use crate::value::{Element, as_double};
use onnx_cast::DataType;
use onnx_cast::types::{FloatFormat, Kind};

/// One field: its name, its bits, and what they say.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) bits: String,
    pub(crate) meaning: String,
}

pub(crate) fn fields(data_type: DataType, code: u64) -> Result<Vec<Field>> {
    let width = data_type.bits().unwrap_or(0);
    match data_type.info().kind {
        Kind::Float(format) => float_fields(data_type, format, code),
        Kind::Int => {
            let bits = format!("{code:0width$b}");
            let meaning = if bits.starts_with('1') { "negative" } else { "not negative" }.to_owned();
            let sign = Field { name: "sign", bits: bits[..1].to_owned(), meaning };
            let rest = bits[1..].to_owned();
            Ok(vec![sign, Field { name: "value bits", bits: rest, meaning: "two's complement".to_owned() }])
        }
        _ => Ok(vec![Field { name: "bits", bits: format!("{code:0width$b}"), meaning: String::new() }]),
    }
}

fn float_fields(data_type: DataType, format: FloatFormat, code: u64) -> Result<Vec<Field>> {
    let mut list = Vec::new();
    let exponent = code >> format.significand_bits & (u64::MAX >> (64 - format.exponent_bits));
    let negative = code & format.sign_bit() != 0;
    if format.signed {
        let meaning = if negative { "negative" } else { "positive" }.to_owned();
        list.push(Field { name: "sign", bits: u8::from(negative).to_string(), meaning });
    }
    let value = as_double(data_type, &Element::Code(code))?;
    // A format without a significand has no subnormals: its exponent 0 is an exponent like the others.
    let subnormal = exponent == 0 && format.significand_bits > 0;
    let zero = value == 0.0;
    let meaning = if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        "all ones: infinity".to_owned()
    } else if zero {
        "zero".to_owned()
    } else if subnormal {
        format!("subnormal: 1 - {} = {}", format.bias, 1 - format.bias)
    } else {
        format!("{exponent} - {} = {}", format.bias, exponent as i64 - i64::from(format.bias))
    };
    let width = format.exponent_bits as usize;
    list.push(Field { name: "exponent", bits: format!("{exponent:0width$b}"), meaning });
    if format.significand_bits > 0 {
        let width = format.significand_bits as usize;
        let significand = code & (u64::MAX >> (64 - format.significand_bits));
        list.push(Field { name: "significand", bits: format!("{significand:0width$b}"), meaning: String::new() });
    }
    if value.is_finite() && !zero {
        list.push(Field { name: "value", bits: binary(value), meaning: String::new() });
    }
    Ok(list)
}
