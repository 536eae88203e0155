//! The layout of weights in the metadata of their file, where no configuration is beside it: what `config.json` would
//! say under `quantization_config`, and the name of the layout, which some have no configuration for.

use super::table::Layout;
use serde_json::Value;

pub(super) const LAYOUT: &str = "quantization_layout";
pub(super) const CONFIG: &str = "quantization_config";
/// The formats of layers, of ComfyUI.
const COMFYUI: &str = "_quantization_metadata";
/// The names of tensors, of torchao.
const TORCHAO: &str = "tensor_names";

/// The metadata that describes weights in a layout.
pub(crate) fn description(layout: Layout, configuration: Option<&Value>) -> Vec<(String, String)> {
    let named = (LAYOUT.to_owned(), layout.name().to_owned());
    let configuration = configuration.map(|configuration| (CONFIG.to_owned(), configuration.to_string()));
    std::iter::once(named).chain(configuration).collect()
}

/// Metadata that says nothing of quantized weights.
pub(crate) fn without_description(metadata: Vec<(String, String)>) -> Vec<(String, String)> {
    // torchao describes each tensor under its name.
    let is_of_tensor = |value: &str| value.trim_start().starts_with("{\"_type\"");
    let is_left =
        |(key, value): &(String, String)| ![LAYOUT, CONFIG, COMFYUI, TORCHAO].contains(&&**key) && !is_of_tensor(value);
    metadata.into_iter().filter(is_left).collect()
}
