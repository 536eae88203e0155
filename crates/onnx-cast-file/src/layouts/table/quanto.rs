//! quanto. The codes of qint4 and qint2 (`WeightQBitsTensor` in optimum-quanto) form a matrix whose rows are groups of
//! columns, or rows of the weight if it has no groups. A byte packs one element of each half or quarter of these rows.
//! A group has a scale and a shift of the same float type; the shift is subtracted from the product.
//!
//! The file does not store the shape of the weight. If the layer has a bias, its length is the number of rows.
//! Otherwise the hidden size in `config.json` is the number of columns or rows, depending on the layer's name. The
//! resulting shape must have the groups that quanto would choose (`QModuleMixin`).

use super::{BASE, names};
use crate::error::FileError;
use crate::formats::error::Invalid;
use crate::layouts::describe::scaled;
use crate::layouts::spec::{Configuration, Finder, LayoutSpec};
use crate::layouts::weight::{Encoding, Formula, Parts, Weight, WeightFormat};
use DataType::{BFloat16, Float, Float16, Uint8};
use onnx_cast::DataType;

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "quanto",
    signs: &["weight._data", "weight._data._data"],
    names: &[names("weight._data", "weight._scale", "weight"), names("weight._data._data", "weight._scale", "weight")],
    beside: &["weight._shift"],
    configuration: Some(Configuration { methods: &["quanto"], ..Configuration::BASE }),
    describe,
    ..BASE
};

/// Name suffix of packed elements.
const PACKED: &str = "_data._data";

/// Group sizes in order of preference. quanto uses the first one that divides the number of columns, if there are more
/// than 128 columns.
const GROUPS: [usize; 4] = [128, 96, 64, 32];

/// Names of layers whose inputs are hidden states.
const INPUTS: &[&str] = &[
    "q_proj",
    "k_proj",
    "v_proj",
    "qkv_proj",
    "gate_proj",
    "up_proj",
    "gate_up_proj",
    "fc1",
    "w1",
    "w3",
    "query_key_value",
    "dense_h_to_4h",
];
const OUTPUTS: &[&str] = &["o_proj", "out_proj", "down_proj", "fc2", "w2", "dense_4h_to_h"];
/// Names of parts of a model with another hidden size.
const APART: &[&str] = &["vision", "visual", "audio", "encoder_attn"];

fn describe(finder: &Finder<'_>, weight: Weight, start: &str) -> Result<Option<Weight>, FileError> {
    let is_packed = finder.checkpoint.stored(weight.codes.tensor).name.ends_with(PACKED);
    if is_packed { packed(finder, weight, start).map(Some) } else { scaled(finder, weight, start) }
}

fn packed(finder: &Finder<'_>, mut weight: Weight, start: &str) -> Result<Weight, FileError> {
    let checkpoint = finder.checkpoint;
    let (stored, scale) = (checkpoint.stored(weight.codes.tensor), checkpoint.stored(weight.scales.tensor));
    let ([lines, width], Uint8) = (&stored.shape[..], stored.data_type) else {
        return Err(finder.part(weight.codes.tensor, "uint8 of two axes".to_owned()));
    };
    let (lines, width, groups) = (*lines, *width, scale.len);
    let is_column = scale.shape.get(1..).is_none_or(|others| others.iter().all(|&size| size == 1));
    if !matches!(scale.data_type, Float | Float16 | BFloat16) || !is_column || groups == 0 || width == 0 {
        return Err(finder.part(weight.scales.tensor, "float, float16 or bfloat16, one for each group".to_owned()));
    }
    let widths: Vec<u32> = [4, 2]
        .into_iter()
        .filter(|bits| groups.div_ceil(8 / *bits as usize) == lines && finder.allows(*bits))
        .collect();
    let [bits] = widths[..] else {
        let want = format!("as many rows as {groups} groups of 4 or 2 bits take");
        return Err(finder.part(weight.codes.tensor, want));
    };
    let want = format!("{start}weight._shift");
    let Some(shift) = checkpoint.find(&want) else {
        let error = Invalid::missing(&stored.name, "what is subtracted from each group", &want);
        return Err(checkpoint.error(Some(weight.codes.tensor), error));
    };
    if (checkpoint.stored(shift).data_type, checkpoint.stored(shift).len) != (scale.data_type, groups) {
        return Err(finder.part(shift, format!("{}, one for each scale: {groups}", scale.data_type)));
    }
    let Some([rows, columns]) = shape(finder, start, [groups, width]) else {
        let place = format!("tensor `{}`", stored.name);
        let what = format!("{groups} groups of {width} columns of a weight whose shape nothing tells");
        let want = "a bias, `hidden_size` in config.json and a usual name, or optimum-quanto to dequantize the model";
        return Err(checkpoint.error(Some(weight.codes.tensor), Invalid::variant(&place, &what, want)));
    };
    let Some(len) = onnx_cast::tensor::element_count(&[rows, columns]) else {
        return Err(finder.part(weight.codes.tensor, "fewer elements".to_owned()));
    };
    let formula = Formula::ProductLess;
    weight.codes.encoding =
        Encoding::Parts(Parts { bits, word: 1, high_first: false, len: lines * width, formula, offset: 0 });
    (weight.scales.biases, weight.owner_type) = (Some(shift), Some(scale.data_type));
    (weight.values, weight.codes.shape, weight.scales.block) = (vec![rows, columns], vec![1, len], [1, width]);
    Ok(weight)
}

impl Finder<'_> {
    /// Returns whether the configuration specifies integers of this width, or no integers at all.
    fn allows(&self, bits: u32) -> bool {
        let mut claimed = self.claims.formats.iter().filter(|format| matches!(format, WeightFormat::Int(_))).peekable();
        claimed.peek().is_none() || claimed.any(|format| *format == WeightFormat::Int(bits))
    }
}

/// Returns the rows and columns of a weight, given the number of groups and their size.
fn shape(finder: &Finder<'_>, start: &str, [groups, width]: [usize; 2]) -> Option<[usize; 2]> {
    if !GROUPS.contains(&width) {
        return Some([groups, width]);
    }
    let len = groups.checked_mul(width)?;
    let of_rows = |rows: usize| (rows > 0 && len.is_multiple_of(rows)).then(|| [rows, len / rows]);
    let module = start.strip_suffix('.').unwrap_or(start);
    let last = module.rsplit('.').next().unwrap_or(module);
    let bias = finder.checkpoint.find(&format!("{start}bias")).map(|bias| finder.checkpoint.stored(bias));
    let hidden = finder.claims.hidden.filter(|_| !APART.iter().any(|part| module.contains(part)));
    let found = match (bias.map(|bias| &bias.shape[..]), hidden) {
        (Some([rows]), _) => of_rows(*rows),
        (_, Some(hidden)) if OUTPUTS.contains(&last) => of_rows(hidden),
        (_, Some(hidden)) if INPUTS.contains(&last) => of_rows(hidden).map(|[columns, rows]| [rows, columns]),
        _ => None,
    };
    found.filter(|[_, columns]| group_of(*columns).unwrap_or(*columns) == width)
}

/// Returns the group size that quanto chooses; `None` if it does not use groups.
fn group_of(columns: usize) -> Option<usize> {
    GROUPS.into_iter().find(|&size| columns > GROUPS[0] && columns.is_multiple_of(size))
}
