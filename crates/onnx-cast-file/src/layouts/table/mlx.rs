//! MLX: unsigned integers with a scale and a bias per group, and three block formats.
//!
//! The configuration specifies the width, the group size and the mode, which the shapes do not determine.

use super::{BASE, Layout, SPECS, names};
use crate::checkpoint::TensorRef;
use crate::error::FileError;
use crate::formats::error::Invalid;
use crate::layouts::claims::{Claims, Packing};
use crate::layouts::spec::{Configuration, Finder, LayoutSpec};
use crate::layouts::weight::{Coding, Encoding, Weight};
use DataType::{BFloat16, Float, Float4E2M1, Float8E4M3FN, Float8E8M0, Float16, Uint8, Uint32};
use onnx_cast::DataType;
use serde_json::{Map, Value};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "mlx",
    names: &[names("weight", "scales", "weight")],
    configuration: Some(CONFIGURATION),
    describe,
    beside: &["biases"],
    own_key: Some(KEY),
    ..BASE
};

impl Layout {
    /// The layouts whose claims are under a key of their own in `config.json`.
    pub(in crate::layouts) fn own_keys() -> impl Iterator<Item = (Layout, &'static str)> {
        SPECS.iter().filter_map(|(layout, row)| Some((*layout, row.own_key?)))
    }
}

const CONFIGURATION: Configuration = Configuration { methods: &["mlx"], claims, ..Configuration::BASE };

/// The key of config.json.
const KEY: &str = "quantization";

fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let packing = |settings: &Map<String, Value>| {
        let number = |key: &str| settings.get(key).and_then(Value::as_u64);
        let mode = settings.get("mode").and_then(Value::as_str).unwrap_or("affine").to_owned();
        Some(Packing { bits: number("bits")?, group: number("group_size")?, mode })
    };
    claims.packing = packing(quantization);
    for (layer, settings) in quantization {
        match settings {
            Value::Object(settings) => claims.packings.insert(layer.clone(), packing(settings)),
            Value::Bool(false) => claims.packings.insert(layer.clone(), None),
            _ => None,
        };
    }
}

fn describe(finder: &Finder<'_>, mut weight: Weight, start: &str) -> Result<Option<Weight>, FileError> {
    let checkpoint = finder.checkpoint;
    let stored = checkpoint.stored(weight.codes.tensor);
    if stored.data_type != Uint32 {
        return Ok(None);
    }
    let layer = start.strip_suffix('.').unwrap_or(start);
    let packing = finder.claims.packings.get(layer).unwrap_or(&finder.claims.packing);
    let Some(Packing { bits, group, mode }) = packing else {
        let what = "the width of its integers, `quantization` of config.json,";
        let error = Invalid::missing(&stored.name, what, "bits and group_size");
        return Err(checkpoint.error(Some(weight.codes.tensor), error));
    };
    let wrong = |what: String, want: &'static str| {
        let place = format!("tensor `{}`", stored.name);
        checkpoint.error(Some(weight.codes.tensor), Invalid::variant(&place, &what, want))
    };
    let scales = checkpoint.stored(weight.scales.tensor);
    let (elements, scale_type) = match (&**mode, bits, group) {
        ("affine", 1 | 2 | 3 | 4 | 5 | 6 | 8, 32 | 64 | 128) => {
            weight.owner_type = Some(scales.data_type);
            (Encoding::Coded(Coding::Affine { bits: *bits as u32 }), scales.data_type)
        }
        ("mxfp4", 4, 32) => (Encoding::Plain(Float4E2M1), Float8E8M0),
        ("mxfp8", 8, 32) => (Encoding::Plain(Float8E4M3FN), Float8E8M0),
        ("nvfp4", 4, 16) => (Encoding::Plain(Float4E2M1), Float8E4M3FN),
        _ => {
            const WANT: &str = "affine with 1 to 6 or 8 bits and groups of 32, 64 or 128, mxfp4, mxfp8 or nvfp4";
            let mode = crate::text::Short(mode);
            return Err(wrong(format!("the mode {mode} with {bits} bits and groups of {group}"), WANT));
        }
    };
    let (bits, group) = (*bits as usize, *group as usize);
    let columns = match &stored.shape[..] {
        [_, .., words] => words.checked_mul(32).filter(|all| all.is_multiple_of(bits)).map(|all| all / bits),
        _ => None,
    };
    let Some(columns) = columns.filter(|columns| columns.is_multiple_of(group)) else {
        return Err(
            finder.part(weight.codes.tensor, format!("rows of words that hold groups of {group} of {bits} bits"))
        );
    };
    let outer = &stored.shape[..stored.shape.len() - 1];
    let (shape, grid) = ([outer, &[columns]].concat(), [outer, &[columns / group]].concat());
    if onnx_cast::tensor::element_count(&shape).is_none() {
        return Err(finder.part(weight.codes.tensor, "fewer elements".to_owned()));
    }
    let is_affine = matches!(elements, Encoding::Coded(_));
    let is_typed =
        if is_affine { matches!(scales.data_type, Float | Float16 | BFloat16) } else { scales.data_type == Uint8 };
    if !is_typed || scales.shape != grid {
        let data_type = if is_affine { "float, float16 or bfloat16" } else { "uint8" };
        let grid = crate::text::ShapeText(&grid);
        return Err(
            finder.part(weight.scales.tensor, format!("{data_type} of shape {grid}, one for each group of {group}"))
        );
    }
    weight.scales.biases = biases(finder, &weight, start, is_affine)?;
    (weight.codes.encoding, weight.scales.data_type, weight.scales.block) = (elements, scale_type, [1, group]);
    (weight.values, weight.codes.shape) = (shape.clone(), shape);
    Ok(Some(weight))
}

/// Finds the biases of a weight. Only integers have biases.
fn biases(finder: &Finder<'_>, weight: &Weight, start: &str, is_affine: bool) -> Result<Option<TensorRef>, FileError> {
    let (checkpoint, want) = (finder.checkpoint, format!("{start}biases"));
    let scales = checkpoint.stored(weight.scales.tensor);
    let Some(biases) = checkpoint.find(&want) else {
        let error = Invalid::missing(&checkpoint.stored(weight.codes.tensor).name, "the bias of each group", &want);
        return if is_affine { Err(checkpoint.error(Some(weight.codes.tensor), error)) } else { Ok(None) };
    };
    let found = checkpoint.stored(biases);
    if !is_affine {
        return Err(finder.part(biases, "no biases, which only the mode affine has".to_owned()));
    }
    if (found.data_type, &found.shape) != (scales.data_type, &scales.shape) {
        return Err(finder.part(biases, "type and shape of the scales".to_owned()));
    }
    Ok(Some(biases))
}
