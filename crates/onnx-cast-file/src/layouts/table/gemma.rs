//! Gemma models that were trained quantized (`QuantizedLinear` and `QuantizedEmbedding` in transformers'
//! integrations/gemma_quant.py): integers of 2, 4 or 8 bits with float scales for rows or parts of rows.
//!
//! The lower bits of a byte hold the lower columns. Elements of 2 and 4 bits are stored with an offset of half their
//! range, elements of 8 bits are signed. If a row ends within a byte, the padding is read as additional columns,
//! because only the model's code knows the true number of columns.

use super::{BASE, WEIGHT, names};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::glob::Regex;
use crate::layouts::claims::Claims;
use crate::layouts::spec::{Configuration, Finder, LayoutSpec};
use crate::layouts::weight::{Encoding, Weight, ZeroPoints};
use crate::text::ShapeText;
use DataType::{Float, Int8, Uint2, Uint4, Uint8};
use onnx_cast::DataType;
use serde_json::{Map, Value};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "gemma",
    signs: &["embedding_quantized"],
    names: &[WEIGHT, names("embedding_quantized", "embedding_scale", "weight")],
    configuration: Some(Configuration { methods: &["gemma"], claims, ..Configuration::BASE }),
    describe,
    ..BASE
};

/// Reads the widths of layers. The first pattern of the configuration that Python's `re.search` finds in a name
/// decides.
fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let bits = |settings: &Value| settings.get("num_bits").and_then(Value::as_u64).map(|bits| bits as u32);
    claims.width = quantization.get("num_bits").and_then(Value::as_u64).map(|bits| bits as u32);
    for (pattern, settings) in quantization.get("module_quant_configs").and_then(Value::as_object).into_iter().flatten()
    {
        match Regex::new(pattern) {
            // A pattern without a width gets the width of all layers.
            Ok(regex) => claims.widths.push((regex, bits(settings).or(claims.width).unwrap_or(4))),
            Err(_) => {
                let what = format!("layers are named by the expression `{}`", crate::text::Short(pattern));
                return claims.refuse(what, "expressions without what only Python has");
            }
        }
    }
}

/// Default width of a layer, if neither a pattern nor the configuration specifies one.
const USUAL: u32 = 4;

fn describe(finder: &Finder<'_>, mut weight: Weight, _: &str) -> Result<Option<Weight>, FileError> {
    let checkpoint = finder.checkpoint;
    let (stored, scale) = (checkpoint.stored(weight.codes.tensor), checkpoint.stored(weight.scales.tensor));
    let layer = weight.name.strip_suffix(".weight").unwrap_or(&weight.name);
    let Some(bits) = width(finder, layer) else {
        let what = "patterns of the configuration claim two widths of it, and their order is not read";
        let error = Invalid::new(InvalidKind::Ambiguous, what).of_tensor(&stored.name);
        return Err(checkpoint.error(Some(weight.codes.tensor), error));
    };
    let (element, wanted) = match bits {
        2 => (Uint2, Uint8),
        4 => (Uint4, Uint8),
        8 => (Int8, Int8),
        _ => {
            let what = format!("the configuration claims integers of {bits} bits (want 2, 4 or 8)");
            let error = Invalid::new(InvalidKind::Unsupported, what).of_tensor(&stored.name);
            return Err(checkpoint.error(Some(weight.codes.tensor), error));
        }
    };
    let [rows, width] = stored.shape[..] else {
        return Err(finder.part(weight.codes.tensor, "rows of integers in bytes".to_owned()));
    };
    if stored.data_type != wanted {
        return Err(finder.part(weight.codes.tensor, format!("{wanted} for the {bits} bits of the configuration")));
    }
    let columns = width.checked_mul(8 / bits as usize);
    let Some(columns) = columns.filter(|columns| onnx_cast::tensor::element_count(&[rows, *columns]).is_some()) else {
        return Err(finder.part(weight.codes.tensor, "fewer columns".to_owned()));
    };
    let [count, across] = scale.shape[..] else {
        return Err(finder.part(weight.scales.tensor, "float of two axes, one or more for each row".to_owned()));
    };
    if scale.data_type != Float || count != rows || across == 0 || !columns.is_multiple_of(across) {
        let (shape, columns) = (ShapeText(&[rows, 1]), ShapeText(&[rows, columns]));
        return Err(
            finder.part(weight.scales.tensor, format!("float of shape {shape}, or parts of the rows of {columns}"))
        );
    }
    weight.codes.encoding = Encoding::Plain(element);
    weight.zero_points = (bits < 8).then(|| ZeroPoints::middle_of(bits));
    (weight.values, weight.codes.shape) = (vec![rows, columns], vec![rows, columns]);
    weight.scales.block = [1, (columns / across).max(1)];
    Ok(Some(weight))
}

/// Returns the bits of a layer, from the pattern that matches at the smallest index of its name, as if all patterns
/// were alternatives of one expression. Returns `None` if two patterns with different widths match there.
fn width(finder: &Finder<'_>, layer: &str) -> Option<u32> {
    let starts = finder.claims.widths.iter();
    let starts = starts.filter_map(|(pattern, bits)| Some((pattern.find(layer)?.start(), *bits)));
    let found: Vec<(usize, u32)> = starts.collect();
    let Some((first, bits)) = found.iter().min_by_key(|(start, _)| *start) else {
        return Some(finder.claims.width.unwrap_or(USUAL));
    };
    found.iter().all(|(start, other)| start != first || other == bits).then_some(*bits)
}
