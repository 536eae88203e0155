//! Tiny models as names and shapes, from `testkit/data/loaders.json`, and what quantizing them writes.

use super::replacing::quantize_file;
use onnx_cast_file::{Granularity, Layout, Loader, QuantizeRequest, QuantizedFormat, check};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A model, and what its loader needs.
#[derive(Clone)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) config: Value,
    pub(crate) tensors: Vec<(String, Vec<usize>)>,
    /// The Linear layers as transformers names them, each with its module in the checkpoint; `None` where it shares the
    /// weight of another module.
    pub(crate) linears: Vec<(String, Option<String>)>,
    /// The format of which the layers are known, and those; none where transformers reads no quantized layer of it.
    pub(crate) to: String,
    pub(crate) quantized: BTreeSet<String>,
    /// Of those, experts that transformers merges: layers of the checkpoint, but no Linear layers of its own.
    pub(crate) merged: BTreeSet<String>,
    pub(crate) ignore: BTreeSet<String>,
}

/// What is written for a module: its tensors by the ends of their names.
pub(crate) type Parts = BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

pub(crate) struct Written {
    pub(crate) config: Value,
    pub(crate) modules: BTreeMap<String, Parts>,
    /// What `check` finds missing.
    pub(crate) missing: Vec<String>,
}

/// Names of which `{0-3}` stands for each number.
fn expanded(name: &str) -> Vec<String> {
    let Some((start, rest)) = name.split_once('{').filter(|_| !name.starts_with("re:")) else {
        return vec![name.to_owned()];
    };
    let (range, end) = rest.split_once('}').expect("a closing brace");
    let (first, last) = range.split_once('-').expect("a range");
    let number = |text: &str| text.parse::<usize>().expect("a number");
    (number(first)..=number(last)).map(|number| format!("{start}{number}{end}")).collect()
}

fn names(list: &Value) -> Vec<String> {
    let list = list.as_array().expect("a list");
    list.iter().flat_map(|name| expanded(name.as_str().expect("a name"))).collect()
}

pub(crate) fn families() -> Vec<Family> {
    let text = include_str!("../../../../testkit/data/loaders.json");
    let all: Value = serde_json::from_str(text).expect("JSON");
    let family = |(name, found): (&String, &Value)| {
        // The text of a scalar is empty.
        let shape = |text: &str| -> Vec<usize> {
            text.split('x').filter(|size| !size.is_empty()).map(|size| size.parse().expect("a size")).collect()
        };
        let of_shape = |(text, list): (&String, &Value)| {
            names(list).into_iter().map(|name| (name, shape(text))).collect::<Vec<_>>()
        };
        let renamed = found["renamed"].as_object().expect("an object");
        let module = |stored: String| {
            let found = renamed.iter().find(|(_, other)| other.as_str() == Some(&stored));
            (found.map_or_else(|| stored.clone(), |(module, _)| module.clone()), Some(stored))
        };
        let stored = ["quantized", "kept"].iter().flat_map(|key| names(&found[key]));
        let tied = names(&found["tied"]).into_iter().map(|name| (name, None));
        let quantized = ["quantized", "merged"].iter().flat_map(|key| names(&found[key]));
        Family {
            name: name.clone(),
            config: found["config"].clone(),
            tensors: found["tensors"].as_object().expect("an object").iter().flat_map(of_shape).collect(),
            linears: stored.map(module).chain(tied).collect(),
            to: found["to"].as_str().expect("a format").to_owned(),
            quantized: quantized.collect(),
            merged: names(&found["merged"]).into_iter().collect(),
            ignore: names(&found["ignore"]).into_iter().collect(),
        }
    };
    all["families"].as_object().expect("an object").iter().map(family).collect()
}

/// Writes a model of small numbers in bfloat16.
fn write(family: &Family, folder: &Path) {
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("config.json"), family.config.to_string()).expect("a file");
    let values = |shape: &[usize]| -> Vec<u8> {
        let values = (0..shape.iter().product::<usize>())
            .map(|at| ((at * 37 + shape.first().unwrap_or(&1)) % 251) as f32 / 128.0 - 1.0);
        values.flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
    };
    let tensors: Vec<_> = family.tensors.iter().map(|(name, shape)| (name, shape, values(shape))).collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view = safetensors::tensor::TensorView::new(Dtype::BF16, shape.to_vec(), bytes).expect("a tensor");
        (name.as_str(), view)
    });
    let bytes = safetensors::serialize(views, None).expect("bytes");
    fs::write(folder.join("model.safetensors"), bytes).expect("a file");
}

/// What quantizing a model writes, and what it keeps; `None` where it keeps everything.
pub(crate) fn quantized(
    family: &Family,
    to: &str,
    layout: Layout,
    granularity: Option<Granularity>,
) -> Option<Written> {
    let folder = tempfile::tempdir().expect("a folder");
    let (plain, out) = (folder.path().join("plain"), folder.path().join("out"));
    write(family, &plain);
    let format: QuantizedFormat = to.parse().expect("a format");
    let request = QuantizeRequest::new(format.by(granularity)).layout(Some(layout));
    match quantize_file(&plain, &out, &request) {
        Ok(_) => {}
        Err(error) if error.to_string().contains("no weight to quantize") => return None,
        Err(error) => panic!("{}, {to}: {error}", family.name),
    }
    let bytes = fs::read(out.join("model.safetensors")).expect("a file");
    let mut modules: BTreeMap<String, Parts> = BTreeMap::new();
    for (name, view) in SafeTensors::deserialize(&bytes).expect("safetensors").tensors() {
        let (module, part) = name.rsplit_once('.').unwrap_or(("", &name));
        let found = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
        modules.entry(module.to_owned()).or_default().insert(part.to_owned(), found);
    }
    let config: Value =
        serde_json::from_slice(&fs::read(out.join("config.json")).expect("a file")).expect("a configuration");
    let problems = check(&out, Loader::Transformers).expect("checked").problems;
    let missing =
        problems.into_iter().filter(|(_, reason)| reason.contains("lacks it")).map(|(name, _)| name).collect();
    Some(Written { config: config["quantization_config"].clone(), modules, missing })
}

impl Written {
    pub(crate) fn is_quantized(&self, module: &str) -> bool {
        self.modules.get(module).is_some_and(|parts| parts.contains_key("weight_scale"))
    }

    pub(crate) fn quantized(&self) -> impl Iterator<Item = (&String, &Parts)> {
        self.modules.iter().filter(|(module, _)| self.is_quantized(module))
    }

    /// The modules that loaders do not quantize, as the configuration lists them.
    pub(crate) fn ignore(&self) -> Vec<String> {
        let ignore = ["ignore", "exclude"].iter().find_map(|key| self.config[*key].as_array()).expect("a list");
        ignore.iter().map(|entry| entry.as_str().expect("a name").to_owned()).collect()
    }
}
