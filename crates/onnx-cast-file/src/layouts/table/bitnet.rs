//! BitNet: a byte holds one element from each of four rows, and the weight has one scale.

use super::{BASE, WEIGHT};
use crate::error::FileError;
use crate::layouts::claims::Claims;
use crate::layouts::spec::{Configuration, Finder, LayoutSpec};
use crate::layouts::weight::{Encoding, Formula, Parts, Weight};
use DataType::{BFloat16, Float, Float16, Uint8};
use onnx_cast::DataType;
use serde_json::{Map, Value};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "bitnet",
    names: &[WEIGHT],
    configuration: Some(Configuration { methods: &["bitnet"], claims: bitnet, ..Configuration::BASE }),
    describe,
    ..BASE
};

/// Determines how scales are applied: `BitLinear` divides by them, `AutoBitLinear` multiplies.
fn bitnet(claims: &mut Claims, quantization: &Map<String, Value>) {
    let class = quantization.get("linear_class").and_then(Value::as_str);
    claims.are_factors = class == Some("autobitlinear");
}

/// Describes a weight. A byte holds elements from four rows, which are a quarter of all rows apart; 1 is added to each
/// element (`pack_weights` in transformers/integrations/bitnet.py). The scale is a divisor by default.
fn describe(finder: &Finder<'_>, mut weight: Weight, _: &str) -> Result<Option<Weight>, FileError> {
    let (stored, scale) =
        (finder.checkpoint.stored(weight.codes.tensor), finder.checkpoint.stored(weight.scales.tensor));
    let ([quarter, columns], Uint8) = (&stored.shape[..], stored.data_type) else {
        return Err(finder.part(weight.codes.tensor, "uint8 of two axes, a quarter of the rows".to_owned()));
    };
    let rows = quarter.checked_mul(4).filter(|rows| onnx_cast::tensor::element_count(&[*rows, *columns]).is_some());
    let rows = rows.ok_or_else(|| finder.part(weight.codes.tensor, "fewer elements".to_owned()))?;
    if !matches!(scale.data_type, Float | Float16 | BFloat16) || scale.len != 1 {
        return Err(finder.part(weight.scales.tensor, "one of float, float16 or bfloat16".to_owned()));
    }
    let formula = if finder.claims.are_factors { Formula::Product } else { Formula::Quotient };
    if formula == Formula::Quotient {
        finder.check_divisors(weight.scales.tensor)?;
    }
    let parts = Parts { bits: 2, word: 1, high_first: false, len: stored.len.max(1), formula, offset: 1 };
    (weight.codes.encoding, weight.owner_type) = (Encoding::Parts(parts), Some(scale.data_type));
    (weight.values, weight.codes.shape) = (vec![rows, *columns], vec![rows, *columns]);
    weight.scales.block = [rows.max(1), (*columns).max(1)];
    Ok(Some(weight))
}
