//! GPTQ and AWQ, which AutoRound also writes.

use super::{BASE, names};
use crate::error::FileError;
use crate::layouts::claims::Claims;
use crate::layouts::spec::{ColumnsOfWords, Configuration, Finder, LayoutSpec, OwnFile};
use crate::layouts::weight::{ColumnOrder, Weight, WeightFormat};
use serde_json::{Map, Value};

pub(super) const GPTQ: LayoutSpec = LayoutSpec {
    name: "gptq",
    signs: &["g_idx"],
    names: &[names("qweight", "scales", "weight")],
    configuration: Some(OF_GPTQ),
    columns: Some(WORDS),
    describe,
    ..BASE
};

pub(super) const AWQ: LayoutSpec = LayoutSpec {
    name: "awq",
    signs: &[],
    configuration: Some(OF_AWQ),
    columns: Some(ColumnsOfWords { order: ColumnOrder::Interleaved, groups: None, ..WORDS }),
    ..GPTQ
};

const WORDS: ColumnsOfWords =
    ColumnsOfWords { order: ColumnOrder::Down, zero_points: "qzeros", groups: Some("g_idx"), is_auto_gptq: true };

fn describe(finder: &Finder<'_>, weight: Weight, start: &str) -> Result<Option<Weight>, FileError> {
    let Some(columns) = finder.spec.columns else { return Ok(None) };
    finder.describe_columns(weight, start, columns).map(Some)
}

const OF_GPTQ: Configuration = Configuration {
    methods: &["gptq", "gptqmodel", "auto_round", "auto_round:gptq", AUTO_GPTQ, "auto_round:gptqmodel"],
    key: Some("desc_act"),
    claims: gptq,
    own_files: &[own_file("quantize_config.json"), own_file("quantization_config.json")],
    ..Configuration::BASE
};

const OF_AWQ: Configuration = Configuration {
    methods: &["awq", "auto_round:auto_awq", "auto_round:awq"],
    key: Some("q_group_size"),
    claims: awq,
    own_files: &[own_file("quant_config.json"), own_file("quantization_config.json")],
    ..Configuration::BASE
};

/// Default `packing_format` of AutoRound.
const AUTO_GPTQ: &str = "auto_round:auto_gptq";

/// A file that is the configuration, as AutoGPTQ, AutoRound and AutoAWQ write it.
const fn own_file(name: &'static str) -> OwnFile {
    OwnFile { name, key: "", has_model: false, write: None, cache: None, contradiction: None }
}

/// Returns the `packing_format` of AutoRound, which writes several layouts under one `quant_method`.
pub(super) fn packing_of<'v>(method: &'v str, quantization: &'v Map<String, Value>) -> Option<&'v str> {
    let packing = quantization.get("packing_format").and_then(Value::as_str);
    match (method, packing) {
        ("auto-round" | "intel/auto-round", None | Some("auto")) => Some(AUTO_GPTQ),
        ("auto-round" | "intel/auto-round", packing) => packing,
        _ => None,
    }
}

/// Reads the claims. Except in newer formats, 1 is subtracted from stored zero points. GPTQModel stores elements of 5,
/// 6 and 7 bits in bit planes, which are rejected.
fn gptq(claims: &mut Claims, quantization: &Map<String, Value>) {
    let text = |key: &str| quantization.get(key).and_then(Value::as_str);
    let by_auto_round = packing_of(text("quant_method").unwrap_or_default(), quantization);
    let format = text("checkpoint_format").or(text("format")).unwrap_or("gptq");
    claims.zero_offset = match (by_auto_round, format) {
        (Some("auto_round" | "auto_round:gptqmodel"), _) | (None, "gptq_v2") => Some(0),
        (Some(_), _) | (None, "gptq") => Some(1),
        (None, other) => return claims.refuse(format!("`checkpoint_format` is `{other}`"), "gptq or gptq_v2"),
    };
    if quantization.get("is_marlin_format").and_then(Value::as_bool) == Some(true) {
        return claims.refuse("weights are in marlin's order".to_owned(), "gptq or gptq_v2");
    }
    layers(claims, quantization, ["group_size", "bits"]);
    let has_planes = |format: &WeightFormat| matches!(format, WeightFormat::Int(5..=7));
    if by_auto_round.is_none() && claims.formats.iter().any(has_planes) {
        claims.refuse("weights have 5, 6 or 7 bits, which GPTQModel stores in planes".to_owned(), "2, 3, 4 or 8 bits");
    }
}

fn awq(claims: &mut Claims, quantization: &Map<String, Value>) {
    let version = quantization.get("version").and_then(Value::as_str).unwrap_or("gemm");
    if !["gemm", "gemv"].iter().any(|known| version.eq_ignore_ascii_case(known)) {
        return claims.refuse(format!("`version` is `{version}`"), "gemm or gemv");
    }
    layers(claims, quantization, ["group_size", "bits"]);
    // AutoAWQ's own file uses these keys.
    layers(claims, quantization, ["q_group_size", "w_bit"]);
}

/// Rejects invalid sizes. Single layers may be plain, which AutoRound specifies as 16 bits.
fn check_sizes(claims: &mut Claims, quantization: &Map<String, Value>, [group, bits]: [&str; 2]) {
    let bits = quantization.get(bits).map(|value| (bits, value));
    if let Some((key, value)) = bits.filter(|(_, value)| !value.as_u64().is_some_and(|bits| (1..=8).contains(&bits))) {
        return claims.refuse(format!("`{key}` is {value}"), "2 to 8 bits");
    }
    let group = quantization.get(group).filter(|value| !value.is_null()).map(|value| (group, value));
    let is_size = |value: &Value| value.as_i64().is_some_and(|size| size == -1 || size > 0);
    if let Some((key, value)) = group.filter(|(_, value)| !is_size(value)) {
        claims.refuse(format!("`{key}` is {value}"), "a number of columns, or -1 for whole rows");
    }
}

/// The bits and groups of all layers, and of those that differ.
fn layers(claims: &mut Claims, quantization: &Map<String, Value>, [group, bits]: [&str; 2]) {
    check_sizes(claims, quantization, [group, bits]);
    let own = ["dynamic", "extra_config"].into_iter().filter_map(|key| quantization.get(key)?.as_object());
    let own = own.flat_map(Map::values).filter_map(Value::as_object);
    let all: Vec<_> = std::iter::once(quantization).chain(own).collect();
    for settings in &all {
        if let Some(bits) = settings.get(bits).and_then(Value::as_u64).filter(|bits| (1..=8).contains(bits)) {
            claims.add(&[WeightFormat::Int(bits as u32)], &format!("{bits} bits"));
        }
        if let Some(group) = settings.get(group).and_then(Value::as_u64).filter(|&group| group > 0) {
            claims.groups.push(group as usize);
        }
    }
    // Whether every layer that has the setting has this value.
    let all_say = |key: &str, value: bool| {
        let mut told = all.iter().filter_map(|settings| settings.get(key)?.as_bool()).peekable();
        told.peek().is_some() && told.all(|told| told == value)
    };
    claims.is_symmetric = all_say("sym", true);
    claims.has_order = all_say("desc_act", true);
    let settings = [("sym", false, "`sym` is false"), ("zero_point", true, "`zero_point` is true")];
    let told = settings.into_iter().find(|(key, value, _)| all_say(key, *value));
    claims.has_zero_points = told.map(|(.., setting)| setting);
}
