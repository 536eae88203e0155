//! What a checkpoint's configuration claims of its weights: `config.json`, and `hf_quant_config.json` of ModelOpt.

use super::error::LayoutError;
use super::weight::{Scheme, WeightFormat};
use crate::error::FileError;
use crate::formats::limits::MAX_HEADER;
use crate::io::fs;
use crate::io::links;
use crate::io::positional::InputFile;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The keys under which configurations describe quantized weights.
pub(crate) const QUANTIZATION: [&str; 2] = ["quantization_config", "compression_config"];

/// The claims of a checkpoint's configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    /// The layout, where one is named.
    pub(crate) scheme: Option<Scheme>,
    /// Rows and columns of a block, where they are named.
    pub(crate) block: Option<[usize; 2]>,
    /// Sizes of groups of columns.
    pub(crate) groups: Vec<usize>,
    /// Formats of weights; empty where nothing is claimed.
    pub(crate) formats: Vec<WeightFormat>,
    /// What the claim of formats says, for errors.
    pub(crate) claim: String,
    /// Formats of single layers, by their names.
    pub(crate) layers: HashMap<String, WeightFormat>,
}

/// What the text of a configuration says of quantization, for errors; `None` if nothing.
pub(crate) fn claims(text: &str) -> Option<String> {
    let object: Map<String, Value> = serde_json::from_str(text).ok()?;
    let is_own = ["quant_method", "quant_algo", "config_groups", "bits"].iter().any(|key| object.contains_key(*key));
    // ModelOpt has a file of its own, MLX a key beside the others.
    let other = || object.get("quantization").and_then(Value::as_object);
    let (key, found) = match quantization_of(&object) {
        Some(found) => (QUANTIZATION[0], found),
        None => match other() {
            Some(found) => ("quantization", found),
            None => ("quantization_config", is_own.then_some(&object)?),
        },
    };
    let method = ["quant_method", "quant_algo", "mode"].iter().find_map(|key| found.get(*key)?.as_str());
    let method = method.map_or(String::new(), |method| format!(" ({})", crate::text::Short(method)));
    Some(format!("by `{key}` of the configuration{method}"))
}

impl Config {
    /// The texts of a folder's configurations, as far as they can be read.
    pub(super) fn texts(folder: &Path) -> impl Iterator<Item = String> {
        let names = ["config.json", "hf_quant_config.json", "quantize_config.json"];
        names.into_iter().filter_map(move |name| read(&folder.join(name)).ok().flatten())
    }

    /// Reads the configuration of a folder, where there is one. A scheme that is given is not looked for.
    pub(crate) fn read(folder: &Path, given: Option<Scheme>) -> Result<Config, FileError> {
        let mut config = Config::default();
        let path = folder.join("config.json");
        if let Some(object) = object(&path)?
            && let Some(quantization) = quantization_of(&object)
        {
            config.take(quantization, given).map_err(|error| FileError::layout(&path, error))?;
        }
        let path: PathBuf = folder.join("hf_quant_config.json");
        if let Some(object) = object(&path)?
            && let Some(quantization) = object.get("quantization").and_then(Value::as_object)
        {
            config.scheme = config.scheme.or(Some(Scheme::ModelOpt));
            config.take_algorithm(quantization);
        }
        config.scheme = given.or(config.scheme);
        Ok(config)
    }

    /// Reads a text: that of `config.json`, of its `quantization_config` alone, or of `hf_quant_config.json`.
    pub(crate) fn parse(text: &str, given: Option<Scheme>) -> Result<Config, LayoutError> {
        let object: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| LayoutError::Config { what: error.to_string() })?;
        let is_quantization =
            || ["quant_method", "quant_algo", "config_groups"].iter().any(|key| object.contains_key(*key));
        let mut config = Config::default();
        if let Some(quantization) = quantization_of(&object).or(is_quantization().then_some(&object)) {
            config.take(quantization, given)?;
        } else if let Some(quantization) = object.get("quantization").and_then(Value::as_object) {
            config.scheme = Some(Scheme::ModelOpt);
            config.take_algorithm(quantization);
        }
        config.scheme = given.or(config.scheme);
        Ok(config)
    }

    /// Takes over what `quantization_config` says.
    fn take(&mut self, quantization: &Map<String, Value>, given: Option<Scheme>) -> Result<(), LayoutError> {
        let method = quantization.get("quant_method").and_then(Value::as_str).unwrap_or_default();
        self.scheme = match method {
            "fp8" => Some(Scheme::DeepSeek),
            "mxfp4" => Some(Scheme::GptOss),
            "compressed-tensors" => Some(Scheme::CompressedTensors),
            "fbgemm_fp8" => Some(Scheme::Fbgemm),
            "quark" => Some(Scheme::Quark),
            _ if method.starts_with("modelopt") => Some(Scheme::ModelOpt),
            "" if quantization.contains_key("quant_algo") => Some(Scheme::ModelOpt),
            "" if quantization.contains_key("config_groups") => Some(Scheme::CompressedTensors),
            _ => None,
        };
        if self.scheme.is_none() && given.is_none() {
            let known = Scheme::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
            if method.is_empty() {
                return Err(LayoutError::NoScheme { key: QUANTIZATION[0], known });
            }
            return Err(LayoutError::UnknownScheme { key: "quant_method", got: method.to_owned(), known });
        }
        self.block = quantization.get("weight_block_size").and_then(pair);
        match self.scheme {
            Some(Scheme::DeepSeek) => self.claim_formats(&[WeightFormat::Fp8, WeightFormat::MxFp4], method),
            Some(Scheme::GptOss | Scheme::Quark) => self.claim_formats(&[WeightFormat::MxFp4], method),
            Some(Scheme::Fbgemm) => self.claim_formats(&[WeightFormat::Fp8], method),
            Some(Scheme::CompressedTensors) => self.take_groups(quantization),
            Some(Scheme::ModelOpt) => self.take_algorithm(quantization),
            _ => {}
        }
        Ok(())
    }

    fn claim_formats(&mut self, formats: &[WeightFormat], claim: &str) {
        self.formats.extend(formats.iter().filter(|format| !self.formats.contains(format)).collect::<Vec<_>>());
        if !self.claim.contains(claim) {
            self.claim = [&*self.claim, claim].join(if self.claim.is_empty() { "" } else { " and " });
        }
    }

    /// The groups of compressed-tensors: bits, kind and granularity of the weights.
    fn take_groups(&mut self, quantization: &Map<String, Value>) {
        let groups = quantization.get("config_groups").and_then(Value::as_object);
        for weights in groups.into_iter().flat_map(Map::values).filter_map(|group| group.get("weights")) {
            let number = |key: &str| weights.get(key).and_then(Value::as_u64);
            let (bits, size) = (number("num_bits").unwrap_or(0) as u32, number("group_size").unwrap_or(0) as usize);
            let is_float = weights.get("type").and_then(Value::as_str) == Some("float");
            let has_power_of_two_scales = weights.get("scale_dtype").and_then(Value::as_str) == Some("torch.uint8");
            let format = match (is_float, bits, size) {
                (true, 4, 16) => WeightFormat::NvFp4,
                (true, 4, _) => WeightFormat::MxFp4,
                (true, 6, _) => WeightFormat::MxFp6,
                (true, _, 32) if has_power_of_two_scales => WeightFormat::MxFp8,
                (true, ..) => WeightFormat::Fp8,
                (false, ..) => WeightFormat::Int(bits),
            };
            if size > 0 {
                self.groups.push(size);
            }
            self.block = self.block.or(weights.get("block_structure").and_then(pair));
            let claim = format.to_string();
            self.claim_formats(&[format], &claim);
            if format == WeightFormat::Fp8 && size == 32 {
                self.claim_formats(&[WeightFormat::MxFp8], "MXFP8");
            }
        }
    }

    /// The algorithm of ModelOpt, of all layers or of each.
    fn take_algorithm(&mut self, quantization: &Map<String, Value>) {
        let Some(algorithm) = quantization.get("quant_algo").and_then(Value::as_str) else { return };
        if let Some(size) = quantization.get("group_size").and_then(Value::as_u64) {
            self.groups.push(size as usize);
        }
        if let Some(format) = self.of_algorithm(algorithm) {
            self.claim_formats(&[format], algorithm);
        }
        let layers = quantization.get("quantized_layers").and_then(Value::as_object);
        for (name, layer) in layers.into_iter().flatten() {
            let algorithm = layer.get("quant_algo").and_then(Value::as_str).unwrap_or_default();
            if let Some(format) = self.of_algorithm(algorithm) {
                self.layers.insert(name.clone(), format);
            }
        }
    }

    fn of_algorithm(&mut self, algorithm: &str) -> Option<WeightFormat> {
        let algorithm = &*algorithm.to_ascii_uppercase();
        if algorithm.starts_with("FP8_PB") {
            // The name stands for blocks of this size; the configuration does not repeat it.
            self.block = self.block.or(Some([128, 128]));
        }
        Some(match algorithm {
            _ if algorithm.contains("NVFP4") => WeightFormat::NvFp4,
            _ if algorithm.contains("MXFP4") => WeightFormat::MxFp4,
            "MXFP8" => WeightFormat::MxFp8,
            _ if algorithm.starts_with("FP8") => WeightFormat::Fp8,
            _ => return None,
        })
    }
}

/// `[128, 128]`.
fn pair(value: &Value) -> Option<[usize; 2]> {
    match &value.as_array()?[..] {
        [rows, columns] => {
            Some([rows.as_u64()?, columns.as_u64()?].map(|size| size as usize)).filter(|block| !block.contains(&0))
        }
        _ => None,
    }
}

/// What the object of `config.json` says of quantization.
fn quantization_of(object: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let nested = object.get("text_config").and_then(Value::as_object);
    let parents = [Some(object), nested].into_iter().flatten();
    let found = |parent: &'_ &Map<String, Value>| QUANTIZATION.iter().any(|key| parent.contains_key(*key));
    let parent = parents.into_iter().find(found)?;
    QUANTIZATION.iter().find_map(|key| parent.get(*key)).and_then(Value::as_object)
}

/// The object in a JSON file; `None` if the file does not exist.
fn object(path: &Path) -> Result<Option<Map<String, Value>>, FileError> {
    let Some(text) = read(path)? else { return Ok(None) };
    let parsed = serde_json::from_str(&text);
    let parsed = parsed.map_err(|error| FileError::layout(path, LayoutError::Config { what: error.to_string() }))?;
    Ok(Some(parsed))
}

/// The text of a configuration; `None` if the file does not exist.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    if !fs::is_file(path) {
        return Ok(None);
    }
    links::check_read(path)?;
    let file = InputFile::open(path)?;
    let wrong = |what: String| FileError::layout(path, LayoutError::Config { what });
    if file.len() > MAX_HEADER {
        return Err(wrong(format!("{} bytes (want at most {MAX_HEADER})", file.len())));
    }
    String::from_utf8(file.read(0, file.len())?).map(Some).map_err(|error| wrong(error.to_string()))
}
