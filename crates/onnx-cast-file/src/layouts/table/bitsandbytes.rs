//! bitsandbytes: NF4 and FP4 with their state in companion tensors, and int8 with a scale per row.
//!
//! The 4-bit codes are those of the flattened weight, so blocks may span rows. `quant_state` is JSON with the shape,
//! the type and the block size (`QuantState.as_dict` in bitsandbytes/functional.py).

use super::{BASE, names};
use crate::checkpoint::TensorRef;
use crate::error::FileError;
use crate::formats::error::Invalid;
use crate::formats::input::StoredTensor;
use crate::layouts::spec::{Configuration, Finder, LayoutSpec};
use crate::layouts::weight::{Coding, Encoding, Nested, Table, Weight};
use crate::loaders;
use crate::text::Wording;
use onnx_cast::DataType;
use serde_json::{Map, Value};

pub(super) const SPEC: LayoutSpec = LayoutSpec {
    name: "bitsandbytes",
    signs: &["weight.absmax", "SCB"],
    names: &[names("weight", "weight.absmax", "weight"), names("weight", "SCB", "weight")],
    configuration: Some(CONFIGURATION),
    describe,
    beside: BESIDE,
    has_any_type: true,
    ..BASE
};

const CONFIGURATION: Configuration =
    Configuration { methods: &["bitsandbytes"], key: Some("load_in_4bit"), ..Configuration::BASE };

/// Name suffixes of the companions, apart from the scales.
const BESIDE: &[&str] = &[
    "weight.quant_map",
    "weight.nested_absmax",
    "weight.nested_quant_map",
    "weight.quant_state.bitsandbytes__nf4",
    "weight.quant_state.bitsandbytes__fp4",
    "weight_format",
];

fn describe(finder: &Finder<'_>, mut weight: Weight, start: &str) -> Result<Option<Weight>, FileError> {
    let (tensor, stored) = (weight.codes.tensor, finder.checkpoint.stored(weight.codes.tensor));
    let family = finder.claims.model_type.as_deref().unwrap_or_default();
    let layer = start.strip_suffix('.').unwrap_or(start).rsplit('.').next().unwrap_or_default();
    if loaders::conv1d_of(family).iter().any(|name| name == layer) {
        let what = format!("a Conv1D of {family}, which is stored transposed");
        let want = Wording::from("weights of Linear layers; ").field("exclude", " keeps others");
        let error = Invalid::variant(&format!("tensor `{}`", stored.name), &what, want);
        return Err(finder.checkpoint.error(Some(tensor), error));
    }
    let beside = |ending: &&str| finder.checkpoint.find(&format!("{start}{ending}"));
    weight.others = finder.spec.beside.iter().filter_map(beside).collect();
    if finder.checkpoint.stored(weight.scales.tensor).name.ends_with("SCB") {
        return int8(finder, weight, stored, start).map(Some);
    }
    table(finder, weight, stored, start).map(Some)
}

/// Describes int8 with a scale per row.
fn int8(finder: &Finder<'_>, mut weight: Weight, stored: &StoredTensor, start: &str) -> Result<Weight, FileError> {
    let [rows, columns] = stored.shape[..] else {
        return Err(finder.part(weight.codes.tensor, "a matrix".to_owned()));
    };
    if stored.data_type != DataType::Int8 {
        return Err(finder.part(weight.codes.tensor, "int8, as its scales are `SCB`".to_owned()));
    }
    let scales = finder.checkpoint.stored(weight.scales.tensor);
    if scales.data_type != DataType::Float || scales.len != rows {
        return Err(finder.part(weight.scales.tensor, format!("float, one for each of {rows} rows")));
    }
    if let Some(format) = finder.checkpoint.find(&format!("{start}weight_format")) {
        let bytes =
            if finder.checkpoint.stored(format).len == 1 { finder.checkpoint.bytes(format)? } else { Vec::new() };
        if bytes.is_empty() || bytes.iter().any(|&byte| byte != 0) {
            return Err(finder.part(format, "0: rows in order, and no tiles of a GPU".to_owned()));
        }
    }
    (weight.codes.encoding, weight.scales.block) = (Encoding::Coded(Coding::Int8), [1, columns.max(1)]);
    (weight.values, weight.codes.shape) = (stored.shape.clone(), stored.shape.clone());
    Ok(weight)
}

/// Describes NF4 and FP4.
fn table(finder: &Finder<'_>, mut weight: Weight, stored: &StoredTensor, start: &str) -> Result<Weight, FileError> {
    let checkpoint = finder.checkpoint;
    let kinds = [("nf4", Table::Nf4), ("fp4", Table::Fp4)];
    let state = |(kind, table): (&str, Table)| {
        Some((checkpoint.find(&format!("{start}weight.quant_state.bitsandbytes__{kind}"))?, table))
    };
    let Some((place, table)) = kinds.into_iter().find_map(state) else {
        let want = format!("{start}weight.quant_state.bitsandbytes__nf4");
        let error = Invalid::missing(&stored.name, "the state of NF4 or FP4", &want);
        return Err(checkpoint.error(Some(weight.codes.tensor), error));
    };
    let state = State { finder, place, settings: finder.checkpoint.settings(place)? };
    let shape = state.shape()?;
    let too_many = || state.wrong("shape", "fewer elements");
    let len = onnx_cast::tensor::element_count(&shape).ok_or_else(too_many)?;
    if checkpoint.byte_len(weight.codes.tensor) != len.div_ceil(2) as u64 {
        let shape = crate::text::ShapeText(&shape);
        return Err(finder.part(weight.codes.tensor, format!("{} bytes: 4 bits for each of {shape}", len.div_ceil(2))));
    }
    weight.owner_type = Some(match state.text("dtype") {
        Some("float32") => DataType::Float,
        Some("float16") => DataType::Float16,
        Some("bfloat16") => DataType::BFloat16,
        _ => return Err(state.wrong("dtype", "float32, float16 or bfloat16")),
    });
    let block = state.number("blocksize").filter(|size| size.is_power_of_two() && (32..=4096).contains(size));
    let block = block.ok_or_else(|| state.wrong("blocksize", "a power of two from 32 to 4096"))?;
    check_map(finder, start, table, stored)?;
    let (blocks, scales) = (len.div_ceil(block), checkpoint.stored(weight.scales.tensor));
    let is_nested = checkpoint.find(&format!("{start}weight.nested_absmax")).is_some();
    let data_type = if is_nested { DataType::Uint8 } else { DataType::Float };
    if scales.data_type != data_type || scales.len != blocks {
        return Err(
            finder.part(weight.scales.tensor, format!("{data_type}, one for each of {blocks} blocks of {block}"))
        );
    }
    if is_nested {
        let nested = nested(&state, start, blocks)?;
        weight.others.retain(|other| *other != nested.scales);
        weight.scales.nested = Some(nested);
    }
    (weight.codes.encoding, weight.scales.block) = (Encoding::Coded(Coding::Table(table)), [1, block]);
    (weight.values, weight.codes.shape) = (shape, vec![1, len]);
    Ok(weight)
}

/// Rejects a table that differs from the kernels' built-in one, because the kernels do not read it.
fn check_map(finder: &Finder<'_>, start: &str, table: Table, stored: &StoredTensor) -> Result<(), FileError> {
    let want = format!("{start}weight.quant_map");
    let Some(map) = finder.checkpoint.find(&want) else {
        let error = Invalid::missing(&stored.name, "the table of its codes", &want);
        return Err(finder.checkpoint.error(finder.checkpoint.find(&stored.name), error));
    };
    let entries = floats::<16>(finder, map)?;
    // The sign of 0 does not matter.
    let is_same = |(found, entry): (&f32, f32)| {
        found.to_bits() == entry.to_bits() || found.abs().to_bits() == 0 && entry.abs().to_bits() == 0
    };
    if entries.iter().zip(table.entries()).all(is_same) {
        return Ok(());
    }
    Err(finder.part(map, "the table of bitsandbytes, which its kernels have built in".to_owned()))
}

/// Reads the scales of scales.
fn nested(state: &State<'_>, start: &str, blocks: usize) -> Result<Nested, FileError> {
    let finder = state.finder;
    let part = |ending: &str| {
        let want = format!("{start}weight.{ending}");
        finder.checkpoint.find(&want).ok_or_else(|| {
            let tensor = &finder.checkpoint.stored(state.place).name;
            finder.checkpoint.error(Some(state.place), Invalid::missing(tensor, "a part of nested scales", &want))
        })
    };
    let (scales, map) = (part("nested_absmax")?, part("nested_quant_map")?);
    let block = state.number("nested_blocksize").filter(|&size| size > 0);
    let block = block.ok_or_else(|| state.wrong("nested_blocksize", "a positive number"))?;
    if state.text("nested_dtype") != Some("float32") {
        return Err(state.wrong("nested_dtype", "float32"));
    }
    let stored = finder.checkpoint.stored(scales);
    if stored.data_type != DataType::Float || stored.len != blocks.div_ceil(block) {
        return Err(finder.part(scales, format!("float, one for each {block} of {blocks} scales")));
    }
    let offset = state.settings.get("nested_offset").and_then(Value::as_f64).map(|offset| offset as f32);
    let offset = offset.filter(|offset| offset.is_finite());
    let offset = offset.ok_or_else(|| state.wrong("nested_offset", "a number of float"))?;
    let place = map;
    let map = floats::<256>(finder, place)?;
    if map.iter().any(|entry| entry.is_nan()) {
        return Err(finder.part(place, "256 numbers, none of them NaN".to_owned()));
    }
    Ok(Nested { scales, block, map: Box::new(map), offset })
}

/// Reads a table of floats.
fn floats<const LEN: usize>(finder: &Finder<'_>, tensor: TensorRef) -> Result<[f32; LEN], FileError> {
    let stored = finder.checkpoint.stored(tensor);
    if stored.data_type != DataType::Float || stored.len != LEN {
        return Err(finder.part(tensor, format!("{LEN} of float")));
    }
    let bytes = finder.checkpoint.bytes(tensor)?;
    let words = bytes.as_chunks::<4>().0;
    Ok(std::array::from_fn(|index| words.get(index).map_or(0.0, |word| f32::from_le_bytes(*word))))
}

/// A weight's state, parsed from JSON.
struct State<'a> {
    finder: &'a Finder<'a>,
    place: TensorRef,
    settings: Map<String, Value>,
}

impl State<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.settings.get(key)?.as_str()
    }

    fn number(&self, key: &str) -> Option<usize> {
        self.settings.get(key)?.as_u64().and_then(|number| usize::try_from(number).ok())
    }

    fn shape(&self) -> Result<Vec<usize>, FileError> {
        let sizes = self.settings.get("shape").and_then(Value::as_array);
        let size = |size: &Value| size.as_u64().and_then(|size| usize::try_from(size).ok());
        let shape = sizes.and_then(|sizes| sizes.iter().map(size).collect::<Option<Vec<_>>>());
        shape.filter(|shape| !shape.is_empty()).ok_or_else(|| self.wrong("shape", "the sizes of the weight"))
    }

    /// Creates an error about a key.
    fn wrong(&self, key: &'static str, want: &'static str) -> FileError {
        let stored = self.finder.checkpoint.stored(self.place);
        let got = self.settings.get(key).map_or_else(|| "missing".to_owned(), Value::to_string);
        let what = format!("`{key}` is {}", crate::text::Short(&got));
        let place = format!("tensor `{}`", stored.name);
        self.finder.checkpoint.error(Some(self.place), Invalid::variant(&place, &what, want))
    }
}
