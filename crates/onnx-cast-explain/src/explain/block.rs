//! A block of values in MX or NVFP4: the scale that its greatest magnitude gives, and each element.
//!
//! Codes and the values that come back are the library's. The quotient by the scale is exact, or in NVFP4 by the float
//! that elements are divided by.

use super::scaled::{FLOATS, quotient};
use super::{Error, Side, error_between, read_source};
use crate::decimal::Quotient;
use crate::error::{ExplainError, Result};
use crate::value::{Element, as_double, value_of};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::packing::unpack;
use onnx_cast::scaled::{BlockFormat, BlockQuantize, Recipe, ScaleRule, amax};
use onnx_cast::{DataType, Tensor, TensorView};

/// What is asked of a block format.
#[derive(Debug)]
pub struct BlockRequest<'a> {
    /// The values, each as that of a cast.
    pub values: Vec<&'a str>,
    /// Their type; float where it is not given.
    pub from: Option<DataType>,
    /// The format.
    pub format: BlockFormat,
    /// How a scale of MX is found.
    pub rule: Option<ScaleRule>,
    /// How the scales of NVFP4 are found.
    pub recipe: Option<Recipe>,
    /// NVFP4's scale of the tensor; found from the block where it is not given.
    pub global_scale: Option<f32>,
}

/// A block, taken apart.
#[derive(Debug)]
pub struct Block {
    pub(crate) format: BlockFormat,
    /// The rule of MX, or the recipe of NVFP4.
    pub(crate) how: &'static str,
    pub(crate) greatest: Side,
    /// NVFP4's scale of the tensor, and how it is found.
    pub(crate) global: Option<(Side, &'static str)>,
    pub(crate) scale: Side,
    /// How the scale is found.
    pub(crate) formula: String,
    /// What elements are divided by, or by torchao's recipe multiplied with, if that is not the scale.
    pub(crate) divisor: Option<Side>,
    pub(crate) is_factor: bool,
    pub(crate) elements: Vec<InBlock>,
    pub(crate) notes: Vec<String>,
}

/// A value of a block.
#[derive(Debug)]
pub(crate) struct InBlock {
    pub(crate) value: Side,
    /// The exact quotient, where it is a number and not zero.
    pub(crate) exact: Option<Quotient>,
    /// As rounded to float.
    pub(crate) quotient: Side,
    pub(crate) result: Side,
    pub(crate) back: Side,
    pub(crate) error: Option<Error>,
}

/// Takes a block apart.
///
/// # Errors
/// Where a value is not one of its type, or the format and the rule do not go together.
pub fn explain(request: &BlockRequest<'_>) -> Result<Block> {
    let _environment = DefaultEnvironment::enter();
    check(request)?;
    let &BlockRequest { format, .. } = request;
    let mut notes = Vec::new();
    let from = request.from.unwrap_or_else(|| {
        notes.push("without a source type the values are floats".to_owned());
        DataType::Float
    });
    if !FLOATS.contains(&from) {
        return Err(ExplainError::request(format_args!(
            "a block of {format} is made of float, float16 or bfloat16, not of {from}"
        )));
    }
    // What decimals become in their type is shown in the table.
    let read = |text: &&str| read_source(text, from, &mut Vec::new());
    let values = request.values.iter().map(read).collect::<Result<Vec<_>>>()?;
    let mut bytes = Vec::new();
    for value in &values {
        let Element::Code(code) = value.element else {
            return Err(ExplainError::request("a value without bits"));
        };
        bytes.extend_from_slice(&code.to_le_bytes()[..from.byte_len(1).unwrap_or(4)]);
    }
    let shape = [values.len()];
    let x = TensorView::new(from, &shape, &bytes)?;
    let greatest = amax(&x)?;
    let recipe = request.recipe.unwrap_or_default();
    let rule = request.rule.unwrap_or_default();
    let mut quantize = BlockQuantize::new(format).rule(rule).recipe(recipe);
    if let Some(global) = request.global_scale {
        quantize = quantize.amax(greatest_for(&quantize, recipe, global)?);
    }
    let quantized = quantize.run(&x)?;
    let scale = side(format.scale(), codes(&quantized.scales)?.first().copied().unwrap_or(0))?;
    if as_double(scale.data_type, &scale.element)?.is_nan() {
        notes.push("NaN or infinity in a block: its scale is NaN, and its elements are 0".to_owned());
    }
    let divisor = divisor(format, recipe, &scale, quantized.global_scale)?;
    let is_factor = format == BlockFormat::NvFp4 && recipe == Recipe::TorchAo;
    let results = codes(&quantized.elements)?;
    let back = codes(&quantized.dequantize(from)?)?;
    let elements = values.into_iter().zip(results.into_iter().zip(back)).map(|(value, (result, back))| {
        let by = divisor.as_ref().unwrap_or(&scale);
        let (exact, quotient) = if is_factor { product(&value, by)? } else { quotient(&value, by, DataType::Float)? };
        let (result, back) = (side(format.element(), result)?, side(from, back)?);
        let error = error_between(&value.value, &back.value);
        Ok(InBlock { value, exact, quotient, result, back, error })
    });
    let elements = elements.collect::<Result<Vec<_>>>()?;
    let (how, formula) = formula(format, rule, recipe)?;
    let global =
        quantized.global_scale.map(|global| float(global).map(|side| (side, of_tensor(recipe)))).transpose()?;
    let greatest = float(greatest)?;
    Ok(Block { format, how, greatest, global, scale, formula, divisor, is_factor, elements, notes })
}

/// Refuses options that the format lacks, and more values than a block has.
fn check(request: &BlockRequest<'_>) -> Result<()> {
    let BlockRequest { values, format, rule, recipe, global_scale, .. } = request;
    format.check_options(rule.unwrap_or_default(), recipe.unwrap_or_default())?;
    if *format != BlockFormat::NvFp4 && global_scale.is_some() {
        return Err(ExplainError::request(format_args!("a global scale is for nvfp4: {format} has a scale rule")));
    }
    if values.len() > format.block() {
        return Err(ExplainError::request(format_args!(
            "a block of {format} has {} values, not {}",
            format.block(),
            values.len()
        )));
    }
    Ok(())
}

/// The greatest magnitude of a tensor that has this scale.
fn greatest_for(quantize: &BlockQuantize, recipe: Recipe, global: f32) -> Result<f32> {
    const MOST: f32 = 6.0 * 448.0;
    let near = if recipe == Recipe::CompressedTensors { MOST / global } else { MOST * global };
    let nearby = (-4i32..=4).map(|step| f32::from_bits(near.to_bits().saturating_add_signed(step)));
    let mut fitting = nearby.filter(|&greatest| {
        global > 0.0 && greatest > 0.0 && greatest.is_finite() && quantize.global_scale(greatest) == Some(global)
    });
    fitting
        .next()
        .ok_or_else(|| ExplainError::request(format_args!("no tensor has the scale {global} by the recipe {recipe}")))
}

/// What elements are divided by, if not by the scale; by torchao's recipe, multiplied with. In float, as recipes say.
fn divisor(format: BlockFormat, recipe: Recipe, scale: &Side, global: Option<f32>) -> Result<Option<Side>> {
    // Every scale is a float.
    let scale = as_double(scale.data_type, &scale.element)? as f32;
    let divisor = match (global, recipe) {
        (None, _) if format == BlockFormat::MxInt8 => scale / 64.0,
        (None, _) => return Ok(None),
        (Some(global), Recipe::CompressedTensors) => scale / global,
        (Some(global), Recipe::TorchAo) => 1.0 / global / scale,
        (Some(global), _) => scale * global,
    };
    float(divisor).map(Some)
}

/// The product with a factor, rounded to float.
fn product(value: &Side, factor: &Side) -> Result<(Option<Quotient>, Side)> {
    let [value, factor] = [value, factor].map(|side| as_double(side.data_type, &side.element));
    // Exact as a double, and rounded once.
    Ok((None, float((value? * factor?) as f32)?))
}

/// The rule or the recipe, and what it says of the scale.
fn formula(format: BlockFormat, rule: ScaleRule, recipe: Recipe) -> Result<(&'static str, String)> {
    if format == BlockFormat::NvFp4 {
        let text = match recipe {
            Recipe::TorchAo => "(A / 6) / g, as float8e4m3fn",
            Recipe::CompressedTensors => "g * (A / 6), as float8e4m3fn",
            _ => "A / (6 * g), as float8e4m3fn",
        };
        return Ok((recipe.name(), text.to_owned()));
    }
    let largest = match format.element().float_format() {
        Some(element) => as_double(format.element(), &Element::Code(element.max_code()))?,
        None => 127.0 / 64.0,
    };
    let exponent = largest.log2().floor();
    let text = match rule {
        ScaleRule::Rceil => format!("2^ceil(log2(A / {largest}))"),
        ScaleRule::Ceil => format!("2^(ceil(log2 A) - {exponent})"),
        ScaleRule::Even => format!("2^(floor(log2 A) - {exponent}), A rounded to the element's significand"),
        _ => format!("2^(floor(log2 A) - {exponent})"),
    };
    Ok((rule.name(), text))
}

/// How NVFP4's scale of the tensor is found.
fn of_tensor(recipe: Recipe) -> &'static str {
    match recipe {
        Recipe::CompressedTensors => "1 / amax * 2688",
        _ => "amax / 2688",
    }
}

/// The codes of a tensor.
fn codes(tensor: &Tensor) -> Result<Vec<u64>> {
    let (data_type, bytes) = (tensor.data_type(), tensor.bytes().unwrap_or_default());
    if data_type.is_packed() {
        let mut unpacked = vec![0; tensor.len()];
        unpack(data_type, bytes, &mut unpacked).map_err(ExplainError::request)?;
        let mask = (1 << data_type.bits().unwrap_or(8)) - 1;
        return Ok(unpacked.into_iter().map(|code| u64::from(code) & mask).collect());
    }
    let code = |bytes: &[u8]| bytes.iter().rev().fold(0, |code, &byte| code << 8 | u64::from(byte));
    Ok(bytes.chunks(data_type.byte_len(1).unwrap_or(1)).map(code).collect())
}

fn side(data_type: DataType, code: u64) -> Result<Side> {
    let element = Element::Code(code);
    Ok(Side { data_type, value: value_of(data_type, &element)?, element })
}

fn float(value: f32) -> Result<Side> {
    side(DataType::Float, value.to_bits().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::convert;

    /// What is shown as the quotient, cast to the element's type, is the element.
    #[test]
    fn elements_are_their_quotients_cast() {
        let values: Vec<String> = (0..16).map(|i| format!("{}", (f64::from(i) - 7.3) * 0.11)).collect();
        for &format in BlockFormat::ALL.iter().filter(|format| **format != BlockFormat::MxInt8) {
            let is_nv = format == BlockFormat::NvFp4;
            for index in 0..if is_nv { Recipe::ALL.len() } else { ScaleRule::ALL.len() } {
                let rule = (!is_nv).then(|| ScaleRule::ALL[index]);
                let recipe = is_nv.then(|| Recipe::ALL[index]);
                let values = values.iter().map(String::as_str).collect();
                let request =
                    BlockRequest { values, from: Some(DataType::BFloat16), format, rule, recipe, global_scale: None };
                for element in explain(&request).expect("a block").elements {
                    let cast = convert(DataType::Float, format.element(), &element.quotient.element).expect("a cast");
                    assert_eq!(element.result.element, cast, "{format} {rule:?} {recipe:?}");
                }
            }
        }
    }

    #[test]
    fn a_scale_of_the_tensor_is_used_as_it_is() {
        for &recipe in Recipe::ALL {
            for amax in [1.0, 0.37, 91.5, 3.1e-5] {
                let global = BlockQuantize::new(BlockFormat::NvFp4).recipe(recipe).global_scale(amax);
                let (values, format) = (vec!["0.0123"], BlockFormat::NvFp4);
                let recipe = Some(recipe);
                let request = BlockRequest { values, from: None, format, rule: None, recipe, global_scale: global };
                let found = explain(&request).expect("a block").global.expect("a scale").0.element;
                assert_eq!(found, Element::Code(global.expect("nvfp4").to_bits().into()), "{recipe:?} {amax}");
            }
        }
    }
}
