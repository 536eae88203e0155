//! The table of types, for people and for machines. All of it is derived from the library's type table.

use crate::decimal::{Decimal, binary};
use crate::error::{ExplainError, Result};
use crate::value::{Element, ExactValue, as_double, convert, hex, integer_range, value_of};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::DataType;
use onnx_cast::ops::Operator;
use onnx_cast::ops::Role;
use onnx_cast::types::{FloatFormat, Kind, Nan};
use serde_json::{Value as Json, json};
use std::fmt::Write as _;

const INTRODUCTION: &str = "\
Element types of ONNX: number, width, the first version of each operator that
takes the type, and other names that --to and --from take. Quant stands for
the output of QuantizeLinear, which is the input of DequantizeLinear.
";

const FLOATS: &str = "
Floats: exponent and significand bits, bias, limits. NaN is given by its code
where 8 bits or fewer have one.
";

const INTEGERS: &str = "
Integers.
";

/// The tables for a terminal.
///
/// # Errors
/// Where the library does not cast a type to `double` or `string`.
pub fn text() -> Result<String> {
    let _environment = DefaultEnvironment::enter();
    let mut out = String::from(INTRODUCTION);
    overview(&mut out)?;
    out.push_str(FLOATS);
    writeln!(
        out,
        "{:14} {:>5} {:>4} {:>22} {:>7} {:>7} {:3} {:4} -0",
        "type", "e+s", "bias", "largest", "normal", "subnorm", "inf", "NaN"
    )?;
    for &data_type in DataType::ALL {
        if let Kind::Float(format) = data_type.info().kind {
            float_row(&mut out, data_type, format)?;
        }
    }
    out.push_str(INTEGERS);
    writeln!(out, "{:14} {:>20} {:>20}", "type", "smallest", "largest")?;
    for &data_type in DataType::ALL {
        if let Some((smallest, largest)) = integer_range(data_type) {
            let decimal = |code| Ok::<_, ExplainError>(value_of(data_type, &Element::Code(code))?.exact());
            writeln!(out, "{:14} {:>20} {:>20}", data_type.name(), decimal(smallest)?, decimal(largest)?)?;
        }
    }
    Ok(out)
}

fn overview(out: &mut String) -> Result<()> {
    /// Widest line, in columns.
    const WIDTH: usize = 79;
    let since = |version: Option<i64>| version.map_or("-".to_owned(), |version| version.to_string());
    write!(out, "{:14} {:>2} {:>4}", "type", "no", "bits")?;
    for operator in Operator::CASTS {
        write!(out, " {}", operator.name())?;
    }
    writeln!(out, " Quant  also")?;
    for &data_type in DataType::ALL {
        let bits = data_type.bits().map_or("-".to_owned(), |bits| bits.to_string());
        let mut line = format!("{:14} {:>2} {bits:>4}", data_type.name(), data_type.onnx());
        for operator in Operator::CASTS {
            write!(line, " {:>width$}", since(operator.since(data_type)), width = operator.name().len())?;
        }
        write!(line, " {:>5}", since(Operator::QuantizeLinear.since_as(Role::Quantized, data_type)))?;
        for (i, alias) in data_type.info().aliases.iter().enumerate() {
            let separator = if i == 0 { "  " } else { ", " };
            if line.len() + separator.len() + alias.len() > WIDTH {
                break;
            }
            line = line + separator + alias;
        }
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn float_row(out: &mut String, data_type: DataType, format: FloatFormat) -> Result<()> {
    let fields = format!("{}+{}", format.exponent_bits, format.significand_bits);
    let power = |code| Ok::<_, ExplainError>(binary(as_double(data_type, &Element::Code(code))?));
    let subnormal = format.min_subnormal_code().map_or(Ok("-".to_owned()), power)?;
    let nan = match (format.nan, format.nan_code()) {
        (Nan::None, _) | (_, None) => "none".to_owned(),
        (_, Some(code)) if format.bits <= 8 => hex(data_type, code),
        _ => "yes".to_owned(),
    };
    let yes = |there| if there { "yes" } else { "no" };
    writeln!(
        out,
        "{:14} {fields:>5} {:>4} {:>22} {:>7} {subnormal:>7} {:3} {nan:4} {}",
        data_type.name(),
        format.bias,
        shortest(data_type, format.max_code())?,
        power(format.min_normal_code())?,
        yes(format.infinity),
        yes(format.negative_zero),
    )?;
    Ok(())
}

/// The fewest digits that read back as the same value, with an exponent where there are many.
fn shortest(data_type: DataType, code: u64) -> Result<String> {
    let Element::Text(text) = convert(data_type, DataType::String, &Element::Code(code))? else {
        return Ok(String::new());
    };
    let digits = text.trim_end_matches('0');
    if text.len() <= 8 || digits.len() < 2 || text.contains('.') {
        return Ok(text);
    }
    let (first, rest) = digits.split_at(1);
    Ok(format!("{first}.{rest}e{}", text.len() - 1))
}

/// The table as JSON.
///
/// # Errors
/// Where the library does not cast a type to `double` or `string`.
pub fn json() -> Result<Json> {
    let _environment = DefaultEnvironment::enter();
    let types = DataType::ALL.iter().map(|&data_type| row(data_type)).collect::<Result<Vec<_>>>()?;
    Ok(json!({ "types": types }))
}

fn row(data_type: DataType) -> Result<Json> {
    let info = data_type.info();
    let kind = match info.kind {
        Kind::Float(_) => "float",
        Kind::Int => "int",
        Kind::Uint => "uint",
        Kind::Bool => "bool",
        Kind::String => "string",
        Kind::Complex => "complex",
        _ => "other",
    };
    let integer = match integer_range(data_type) {
        Some((smallest, largest)) => {
            Some(json!({ "smallest": limit(data_type, smallest)?, "largest": limit(data_type, largest)? }))
        }
        None => None,
    };
    let float = match info.kind {
        Kind::Float(format) => Some(float_json(data_type, format)?),
        _ => None,
    };
    Ok(json!({
        "name": info.name,
        "code": data_type.onnx(),
        "bits": data_type.bits(),
        "kind": kind,
        "aliases": info.aliases,
        "cast_since": info.cast_since,
        "cast_like_since": info.cast_like_since,
        "bit_cast_since": info.bit_cast_since,
        "quantize_linear_since": Operator::QuantizeLinear.since_as(Role::Quantized, data_type),
        "dequantize_linear_since": Operator::DequantizeLinear.since_as(Role::Quantized, data_type),
        "float": float,
        "integer": integer,
    }))
}

fn float_json(data_type: DataType, format: FloatFormat) -> Result<Json> {
    let optional = |code: Option<u64>| code.map(|code| limit(data_type, code)).transpose();
    Ok(json!({
        "exponent_bits": format.exponent_bits,
        "significand_bits": format.significand_bits,
        "bias": format.bias,
        "signed": format.signed,
        "largest": limit(data_type, format.max_code())?,
        "smallest_normal": limit(data_type, format.min_normal_code())?,
        "smallest_subnormal": optional(format.min_subnormal_code())?,
        "infinity": format.infinity.then(|| hex(data_type, format.infinity_code())),
        "nan": format.nan_code().map(|code| hex(data_type, code)),
        "nan_is_signed": format.nan_is_signed(),
        "negative_zero": format.negative_zero.then(|| hex(data_type, format.sign_bit())),
    }))
}

/// A value by its bits and all its digits.
fn limit(data_type: DataType, code: u64) -> Result<Json> {
    let value = value_of(data_type, &Element::Code(code))?;
    let number = value.number().map(Decimal::exact);
    debug_assert!(matches!(value, ExactValue::Number { .. }));
    Ok(json!({ "bits": hex(data_type, code), "value": number }))
}
