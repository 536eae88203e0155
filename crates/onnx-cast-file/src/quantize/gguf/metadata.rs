//! The metadata that llama.cpp reads beside a model's tensors, from its `config.json`.

use super::names::{self, Family};
use crate::checkpoint::Checkpoint;
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::gguf::{GgufType, Metadata, MetadataValue};
use crate::layouts;
use serde_json::{Map, Value};

/// Where a value comes from, and where it goes.
struct Entry {
    /// Behind the architecture.
    key: &'static str,
    /// The first of these that the configuration has.
    from: &'static [&'static str],
    kind: Kind,
    /// Whether llama.cpp cannot do without it.
    is_required: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Count,
    Number,
}

const fn required(key: &'static str, from: &'static [&'static str], kind: Kind) -> Entry {
    Entry { key, from, kind, is_required: true }
}

const fn optional(key: &'static str, from: &'static [&'static str], kind: Kind) -> Entry {
    Entry { key, from, kind, is_required: false }
}

const ENTRIES: &[Entry] = &[
    required("block_count", &["num_hidden_layers"], Kind::Count),
    required("context_length", &["max_position_embeddings"], Kind::Count),
    required("embedding_length", &["hidden_size"], Kind::Count),
    required("feed_forward_length", &["intermediate_size"], Kind::Count),
    required("attention.head_count", &["num_attention_heads"], Kind::Count),
    optional("attention.head_count_kv", &["num_key_value_heads", "num_attention_heads"], Kind::Count),
    required("attention.layer_norm_rms_epsilon", &["rms_norm_eps"], Kind::Number),
    optional("attention.key_length", &["head_dim"], Kind::Count),
    optional("attention.value_length", &["head_dim"], Kind::Count),
    optional("attention.sliding_window", &["sliding_window"], Kind::Count),
    optional("attn_logit_softcapping", &["attn_logit_softcapping"], Kind::Number),
    optional("final_logit_softcapping", &["final_logit_softcapping"], Kind::Number),
    optional("expert_count", &["num_local_experts", "num_experts"], Kind::Count),
    optional("expert_used_count", &["num_experts_per_tok"], Kind::Count),
    optional("expert_feed_forward_length", &["moe_intermediate_size"], Kind::Count),
    optional("expert_shared_feed_forward_length", &["shared_expert_intermediate_size"], Kind::Count),
    required("vocab_size", &["vocab_size"], Kind::Count),
];

/// Keys of families whose readers know them; the converter writes them for no others.
const OF_GEMMA: &[&str] = &["attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping"];

/// A configuration, with what is wrong of a value.
#[derive(Clone, Copy)]
pub(super) struct Config<'a>(pub(super) &'a Map<String, Value>);

impl<'a> Config<'a> {
    /// A value that is there and not null.
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn object(self, key: &str) -> Option<Config<'a>> {
        self.get(key)?.as_object().map(Config)
    }

    pub(super) fn text(self, key: &str) -> Option<&'a str> {
        self.get(key)?.as_str()
    }

    pub(super) fn count(self, key: &str) -> Result<Option<u32>, String> {
        let count = |value: &Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
        self.get(key)
            .map(|value| count(value).ok_or_else(|| wrong(key, value, "a number from 0 to 2^32-1")))
            .transpose()
    }

    fn number(self, key: &str) -> Result<Option<f64>, String> {
        self.get(key).map(|value| value.as_f64().ok_or_else(|| wrong(key, value, "a number"))).transpose()
    }

    /// Dimensions of a head.
    pub(super) fn head(self) -> Result<u32, String> {
        let of = |key: &str| self.count(key)?.ok_or_else(|| format!("`{key}` is missing"));
        match self.count("head_dim")? {
            Some(head) => Ok(head),
            None => of("hidden_size")?.checked_div(of("num_attention_heads")?).ok_or_else(|| "no heads".to_owned()),
        }
    }

    /// What is said of rotations: for all layers, or for those that see everything, and for the others.
    pub(super) fn rotations(self) -> (Config<'a>, Option<Config<'a>>) {
        let all = self.object("rope_parameters").or_else(|| self.object("rope_scaling"));
        match all.and_then(|all| all.object("full_attention")) {
            Some(full) => (full, all.and_then(|all| all.object("sliding_attention"))),
            None => (all.unwrap_or(self), None),
        }
    }

    /// `linear`, `yarn` or `llama3`, where rotations are scaled.
    pub(super) fn scaling(self) -> Result<Option<&'a str>, String> {
        let (rotations, _) = self.rotations();
        // A configuration without either object has other things under these keys.
        let name = rotations.text("rope_type").or_else(|| rotations.text("type"));
        match name.filter(|_| !std::ptr::eq(rotations.0, self.0)) {
            None | Some("default") => Ok(None),
            Some(known @ ("linear" | "yarn" | "llama3")) => Ok(Some(known)),
            Some(other) => Err(format!("rotations scaled by `{other}` (want linear, yarn or llama3)")),
        }
    }
}

fn wrong(key: &str, value: &Value, want: &str) -> String {
    let value = value.to_string();
    format!("`{key}` is {} (want {want})", crate::text::Short(&value))
}

/// The family of a checkpoint, and its configuration.
pub(super) fn family(checkpoint: &Checkpoint) -> Result<(&'static Family, Map<String, Value>), FileError> {
    let path = checkpoint.folder().join("config.json");
    let wrong = |what: String| FileError::invalid(&path, Invalid::new(InvalidKind::Unsupported, what));
    let config = layouts::config_of_folder(checkpoint.folder())?;
    let config =
        config.ok_or_else(|| wrong("it is missing, and tells the names of tensors in llama.cpp".to_owned()))?;
    let model_type = Config(&config).text("model_type").unwrap_or_default();
    let Some(family) = Family::of(model_type) else {
        let known: Vec<&str> = names::FAMILIES.iter().map(|family| family.model_type).collect();
        let known = known.join(", ");
        let model_type = crate::text::Short(model_type);
        let what = format!("names in llama.cpp are unknown for `model_type` `{model_type}` (known: {known})");
        return Err(wrong(format!("{what}; llama.cpp's converter writes other models, as .gguf files to quantize")));
    };
    Ok((family, config))
}

/// The entries for a family, beside those that files of every family have.
pub(super) fn add(metadata: &mut Metadata, family: &Family, config: Config<'_>) -> Result<(), String> {
    let architecture = family.architecture;
    let is_gemma = architecture.starts_with("gemma");
    for Entry { key, from, kind, is_required } in ENTRIES {
        if OF_GEMMA.contains(key) && !is_gemma {
            continue;
        }
        let found = from.iter().find(|from| config.get(from).is_some());
        let value = match (found, kind) {
            (Some(from), Kind::Count) => config.count(from)?.map(MetadataValue::Uint32),
            (Some(from), Kind::Number) => config.number(from)?.map(|value| MetadataValue::Float(value as f32)),
            (None, _) => None,
        };
        match value {
            Some(value) => metadata.add(&format!("{architecture}.{key}"), &value),
            None if *is_required => return Err(format!("`{}` is missing", from[0])),
            None => {}
        }
    }
    add_rotations(metadata, family, config)
}

fn add_rotations(metadata: &mut Metadata, family: &Family, config: Config<'_>) -> Result<(), String> {
    let mut add =
        |key: &str, value: MetadataValue| metadata.add(&format!("{}.rope.{key}", family.architecture), &value);
    if family.architecture == "llama" {
        add("dimension_count", MetadataValue::Uint32(config.head()?));
    }
    let (full, sliding) = config.rotations();
    let number = |value: f64| MetadataValue::Float(value as f32);
    if let Some(base) = full.number("rope_theta")?.or(config.number("rope_theta")?) {
        add("freq_base", number(base));
    }
    let of_sliding = sliding.map(|sliding| sliding.number("rope_theta")).transpose()?.flatten();
    if let Some(base) = of_sliding.or(config.number("rope_local_base_freq")?) {
        add("freq_base_swa", number(base));
    }
    let Some(scaling @ ("linear" | "yarn")) = config.scaling()? else { return Ok(()) };
    let factor = full.number("factor")?.ok_or("a scale of rotations without `factor`")?;
    add("scaling.type", MetadataValue::String(scaling.to_owned()));
    add("scaling.factor", number(factor));
    if scaling == "yarn" {
        let key = "original_max_position_embeddings";
        let context = full.count(key)?.ok_or_else(|| format!("yarn without `{key}`"))?;
        add("scaling.original_context_length", MetadataValue::Uint32(context));
    }
    Ok(())
}

/// The factors of `rope_freqs.weight`, where rotations are scaled as Llama 3.1 does: long wavelengths by a factor,
/// short ones not, those between smoothly.
pub(super) fn rotation_factors(config: Config<'_>) -> Result<Option<Vec<f32>>, String> {
    if config.scaling()? != Some("llama3") {
        return Ok(None);
    }
    let (full, _) = config.rotations();
    let of = |key: &str, default: f64| Ok::<_, String>(full.number(key)?.unwrap_or(default));
    let base = full.number("rope_theta")?.or(config.number("rope_theta")?).unwrap_or(10000.0);
    let (factor, low, high) = (of("factor", 8.0)?, of("low_freq_factor", 1.0)?, of("high_freq_factor", 4.0)?);
    let context = of("original_max_position_embeddings", 8192.0)?;
    let head = config.head()?;
    // No head has more, and nothing is allocated for a claim.
    if head > 1 << 16 {
        return Err(format!("heads of {head} dimensions"));
    }
    let one = |index: u32| {
        let wavelength = std::f64::consts::TAU * base.powf(f64::from(index) / f64::from(head));
        if wavelength < context / high {
            return 1.0;
        }
        if wavelength > context / low {
            return factor as f32;
        }
        let smooth = (context / wavelength - low) / (high - low);
        (1.0 / ((1.0 - smooth) / factor + smooth)) as f32
    };
    Ok(Some((0..head).step_by(2).map(one).collect()))
}

/// The number of a file whose matrices mostly have a type, by llama.cpp's `llama_ftype`.
pub(super) fn file_type(kinds: &[&'static GgufType]) -> u32 {
    const NUMBERS: &[(&str, u32)] = &[
        ("F32", 0),
        ("F16", 1),
        ("Q4_0", 2),
        ("Q4_1", 3),
        ("Q8_0", 7),
        ("Q5_0", 8),
        ("Q5_1", 9),
        ("BF16", 32),
        ("MXFP4", 38),
    ];
    let count = |name: &str| kinds.iter().filter(|kind| kind.name == name).count();
    // Norms have float in every file.
    let most = NUMBERS.iter().filter(|(name, _)| *name != "F32").max_by_key(|(name, _)| count(name));
    most.filter(|(name, _)| count(name) > 0).map_or(0, |(_, number)| *number)
}
