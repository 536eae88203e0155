//! What llama.cpp does not read of a configuration, or reads otherwise than Hugging Face's transformers. A file of such a
//! model would not load, or would compute another model without a word. Tried with llama.cpp of October 2026.

use super::metadata::Config;
use super::names::Family;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A setting whose value llama.cpp takes for granted.
struct Setting {
    models: &'static [&'static str],
    key: &'static str,
    is_held: fn(&Value, Config<'_>) -> bool,
    want: &'static str,
}

const MODELS_OF_SILU: &[&str] = &["llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen2_moe", "qwen3_moe"];
const MODELS_OF_EXPERTS: &[&str] = &["qwen2_moe", "qwen3_moe"];

const SETTINGS: &[Setting] = &[
    Setting { models: MODELS_OF_SILU, key: "hidden_act", is_held: |value, _| value == "silu", want: "silu" },
    Setting { models: &["qwen2_moe"], key: "norm_topk_prob", is_held: |value, _| value == false, want: "false" },
    Setting { models: &["qwen3_moe"], key: "norm_topk_prob", is_held: |value, _| value == true, want: "true" },
    Setting {
        models: MODELS_OF_EXPERTS,
        key: "mlp_only_layers",
        is_held: |value, _| value.as_array().is_some_and(Vec::is_empty),
        want: "no layers without experts",
    },
    Setting {
        models: MODELS_OF_EXPERTS,
        key: "decoder_sparse_step",
        is_held: |value, _| value == 1,
        want: "1, experts in every layer",
    },
    Setting {
        models: &["gemma2"],
        key: "query_pre_attn_scalar",
        // llama.cpp knows the 27B by its layers.
        is_held: |value, config| is_of_head(value, config) || config.layers() == Some(46),
        want: "the dimensions of a head",
    },
    Setting {
        models: &["gemma3_text"],
        key: "query_pre_attn_scalar",
        is_held: |value, config| is_of_head(value, config) || config.layers() == Some(62),
        want: "the dimensions of a head",
    },
    Setting {
        models: &["gemma3_text"],
        key: "use_bidirectional_attention",
        is_held: |value, _| value == false,
        want: "false",
    },
    Setting { models: &["gemma3_text"], key: "sliding_window_pattern", is_held: |value, _| value == 6, want: "6" },
    Setting {
        models: &["gemma3_text"],
        key: "layer_types",
        is_held: |value, _| value.as_array().is_some_and(|layers| layers.iter().enumerate().all(is_sixth_full)),
        want: "full attention in every sixth layer, and a window in the others",
    },
];

fn is_of_head(value: &Value, config: Config<'_>) -> bool {
    config.head().is_ok_and(|head| value.as_f64() == Some(f64::from(head)))
}

fn is_sixth_full((layer, kind): (usize, &Value)) -> bool {
    kind == if layer % 6 == 5 { "full_attention" } else { "sliding_attention" }
}

/// Settings of yarn that llama.cpp takes for granted, with the values.
const YARN: &[(&str, f64)] = &[("beta_fast", 32.0), ("beta_slow", 1.0), ("extrapolation_factor", 1.0)];
/// Those that it computes itself.
const YARN_COMPUTED: &[&str] = &["attention_factor", "mscale", "mscale_all_dim"];

/// Families without windows in llama.cpp, with the key that turns them on where one does.
const WITHOUT_WINDOWS: &[(&str, Option<&str>)] = &[
    ("mistral", None),
    ("mixtral", None),
    ("qwen2", Some("use_sliding_window")),
    ("qwen3", Some("use_sliding_window")),
    ("qwen2_moe", Some("use_sliding_window")),
    ("qwen3_moe", Some("use_sliding_window")),
];

/// Refuses what llama.cpp would not load, or would compute otherwise; the result is what else to know.
pub(super) fn check<'t>(
    family: &Family,
    config: Config<'_>,
    tensors: impl Iterator<Item = (&'t str, &'t [usize])> + Clone,
) -> Result<Option<String>, String> {
    check_settings(family, config)?;
    tensors.clone().try_for_each(|(name, shape)| check_sizes(family, config, name, shape))?;
    check_names(config, tensors.map(|(name, _)| name))?;
    Ok(note_on_windows(family, config))
}

/// Refuses settings that would make another model of the file.
fn check_settings(family: &Family, config: Config<'_>) -> Result<(), String> {
    for Setting { models, key, is_held, want } in SETTINGS {
        let value = config.get(key).filter(|_| models.contains(&family.model_type));
        if let Some(value) = value.filter(|value| !is_held(value, config)) {
            return Err(config.unread(key, value, want));
        }
    }
    let (rotations, _) = config.rotations();
    if config.scaling()? != Some("yarn") {
        return Ok(());
    }
    for (key, want) in YARN {
        if let Some(value) = rotations.get(key).filter(|value| value.as_f64() != Some(*want)) {
            return Err(rotations.unread(key, value, &want.to_string()));
        }
    }
    if let Some((key, value)) = YARN_COMPUTED.iter().find_map(|key| Some((key, rotations.get(key)?))) {
        return Err(rotations.unread(key, value, "none: it is computed from `factor`"));
    }
    match rotations.get("truncate") {
        Some(value) if value != true => Err(rotations.unread("truncate", value, "true")),
        _ => Ok(()),
    }
}

/// What to know of contexts that are longer than the windows of a model.
fn note_on_windows(family: &Family, config: Config<'_>) -> Option<String> {
    let (_, switch) = WITHOUT_WINDOWS.iter().find(|(model, _)| *model == family.model_type)?;
    if switch.is_some_and(|switch| config.get(switch) != Some(&Value::Bool(true))) {
        return None;
    }
    let window = config.count("sliding_window").ok()??;
    let is_seen = config.count("max_position_embeddings").ok().flatten().is_none_or(|longest| window < longest);
    is_seen.then(|| {
        let model = family.model_type;
        format!("llama.cpp has no sliding window in {model}: beyond {window} tokens it computes another model")
    })
}

/// Compares the sizes of the configuration with a tensor of the output.
fn check_sizes(family: &Family, config: Config<'_>, name: &str, shape: &[usize]) -> Result<(), String> {
    let heads = |key: &'static str| (key, config.count(key).ok().flatten().zip(config.head().ok()));
    let of_heads = |key| match heads(key) {
        (key, Some((heads, head))) => Some((key, heads as usize * head as usize)),
        _ => None,
    };
    let of = |key: &'static str| Some((key, config.count(key).ok().flatten()? as usize));
    let key_heads =
        if config.get("num_key_value_heads").is_some() { "num_key_value_heads" } else { "num_attention_heads" };
    let hidden = of("hidden_size");
    let inner = of(if name.contains("_exps.") && family.model_type != "mixtral" {
        "moe_intermediate_size"
    } else {
        "intermediate_size"
    });
    let experts = of("num_local_experts").or_else(|| of("num_experts"));
    let part = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    let want = match part.map_or(name, |(_, part)| part) {
        "token_embd.weight" | "output.weight" => vec![of("vocab_size"), hidden],
        "attn_q.weight" => vec![of_heads("num_attention_heads"), hidden],
        "attn_k.weight" | "attn_v.weight" => vec![of_heads(key_heads), hidden],
        "attn_output.weight" => vec![hidden, of_heads("num_attention_heads")],
        "ffn_gate.weight" | "ffn_up.weight" => vec![inner, hidden],
        "ffn_down.weight" => vec![hidden, inner],
        "ffn_gate_inp.weight" => vec![experts, hidden],
        "ffn_gate_exps.weight" | "ffn_up_exps.weight" => vec![experts, inner, hidden],
        "ffn_down_exps.weight" => vec![experts, hidden, inner],
        _ => Vec::new(),
    };
    if name.ends_with("_exps.weight") && experts.is_none() {
        return Err("`num_local_experts` (or `num_experts`) is missing".to_owned());
    }
    for (size, want) in shape.iter().zip(want) {
        if let Some((key, want)) = want.filter(|(_, want)| want != size) {
            let shape = crate::text::ShapeText(shape);
            return Err(format!("`{key}` asks for {want} of the {size} of `{name}` ({shape})"));
        }
    }
    Ok(())
}

/// Looks for what every model has, and for the same tensors in each of the layers.
fn check_names<'n>(config: Config<'_>, names: impl Iterator<Item = &'n str>) -> Result<(), String> {
    let mut layers = BTreeMap::<u64, BTreeSet<&str>>::new();
    let mut others = BTreeSet::new();
    for name in names {
        let part = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        match part.and_then(|(layer, part)| Some((layer.parse().ok()?, part))) {
            Some((layer, part)) => _ = layers.entry(layer).or_default().insert(part),
            None => _ = others.insert(name),
        }
    }
    if let Some(missing) = ["token_embd.weight", "output_norm.weight"].iter().find(|name| !others.contains(*name)) {
        return Err(format!("the model has no `{missing}`, as llama.cpp calls it"));
    }
    let there = layers.keys().next_back().map_or(0, |last| last.saturating_add(1));
    match config.layers() {
        Some(claimed) if claimed != there => {
            return Err(format!("`num_hidden_layers` is {claimed}, and the tensors have {there} layers"));
        }
        _ => {}
    }
    let all: BTreeSet<&str> = layers.values().flatten().copied().collect();
    for layer in 0..there {
        let has = layers.get(&layer).unwrap_or(&others);
        if let Some(missing) = all.iter().find(|part| !has.contains(*part)) {
            return Err(format!("layer {layer} has no `{missing}`, as llama.cpp calls it, which another layer has"));
        }
    }
    Ok(())
}

impl Config<'_> {
    fn layers(self) -> Option<u64> {
        self.get("num_hidden_layers")?.as_u64()
    }

    fn unread(self, key: &str, value: &Value, want: &str) -> String {
        let value = value.to_string();
        let value = crate::text::Short(&value).to_string();
        format!("`{key}` is {value}, which llama.cpp does not read for this model (want {want})")
    }
}
