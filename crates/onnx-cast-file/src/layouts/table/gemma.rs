//! Gemma's own layout, of models that were trained quantized: the width of all layers, and of those that patterns match.

use super::{BASE, WEIGHT, names};
use crate::glob::Regex;
use crate::layouts::claims::Claims;
use crate::layouts::spec::{Composition, Configuration, LayoutSpec};
use serde_json::{Map, Value};

pub(super) const ROW: LayoutSpec = LayoutSpec {
    name: "gemma",
    signs: &["embedding_quantized"],
    names: &[WEIGHT, names("embedding_quantized", "embedding_scale", "weight")],
    configuration: Some(Configuration { methods: &["gemma"], claims, ..Configuration::BASE }),
    composition: Composition::InBytes,
    ..BASE
};

/// The first pattern that Python's `re.search` finds in a name decides, in the order of the configuration.
fn claims(claims: &mut Claims, quantization: &Map<String, Value>) {
    let bits = |settings: &Value| settings.get("num_bits").and_then(Value::as_u64).map(|bits| bits as u32);
    claims.width = quantization.get("num_bits").and_then(Value::as_u64).map(|bits| bits as u32);
    for (pattern, settings) in quantization.get("module_quant_configs").and_then(Value::as_object).into_iter().flatten()
    {
        match Regex::new(pattern) {
            // A pattern without a width has that of all layers.
            Ok(regex) => claims.widths.push((regex, bits(settings).or(claims.width).unwrap_or(4))),
            Err(_) => {
                let what = format!("layers are named by the expression `{}`", crate::text::Short(pattern));
                return claims.refuse(what, "expressions without what only Python has");
            }
        }
    }
}
