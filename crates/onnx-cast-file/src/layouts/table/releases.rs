//! Checkpoints under their publishers' own names, beside which they publish those of transformers: Mistral's
//! `consolidated*.safetensors` with `params.json`, and the folder `original/` of OpenAI's gpt-oss.

use super::{BASE, names};
use crate::layouts::claims::Claims;
use crate::layouts::spec::{Configuration, LayoutSpec, OwnFile};
use crate::layouts::weight::WeightFormat;
use serde_json::{Map, Value};

pub(super) const MISTRAL: LayoutSpec = LayoutSpec {
    name: "mistral",
    signs: &["qscale_weight"],
    names: &[names("weight", "qscale_weight", "weight")],
    configuration: Some(Configuration {
        key: Some(FORMAT),
        claims,
        own_files: &[OwnFile {
            name: "params.json",
            key: "quantization",
            has_model: true,
            write: None,
            cache: None,
            contradiction: None,
        }],
        ..Configuration::BASE
    }),
    ..BASE
};

pub(super) const OPENAI: LayoutSpec = LayoutSpec {
    name: "openai",
    signs: &["mlp1_weight.blocks", "mlp2_weight.blocks"],
    names: &[names("_weight.blocks", "_weight.scales", "_weight")],
    has_axis_of_blocks: true,
    ..BASE
};

/// The key of the format of weights.
const FORMAT: &str = "qformat_weight";

fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    match quantization.get(FORMAT).and_then(Value::as_str) {
        Some("fp8_e4m3") | None => claims.add(&[WeightFormat::Fp8], "fp8_e4m3"),
        Some(other) => claims.refuse(format!("`{FORMAT}` is `{other}`"), "fp8_e4m3"),
    }
}
