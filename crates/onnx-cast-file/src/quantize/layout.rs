//! What each layout holds for a weight: the names, types and shapes of its tensors, and what configurations say.

use super::QuantizeRequest;
use super::format::{Granularity, QuantizedFormat};
use crate::formats::input::{Place, Stored};
use crate::layouts::{LayoutError, Scheme, TensorRef, Weight};
use crate::rewrite::{Origin, Row};
use crate::summary::TensorSummary;
use DataType::{BFloat16, Float, Float8E4M3FN, Float8E5M2, Float8E8M0, Float16, Int4, Int8, Int32, Uint8};
use onnx_cast::{BlockFormat, DataType, Recipe};
use serde_json::{Value, json};

/// How weights are laid out.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    layout: Scheme,
    pub(crate) request: &'a QuantizeRequest,
}

/// A weight that is quantized, and the tensors that hold it.
pub(crate) struct Chosen {
    /// The name of the weight without its last part.
    pub(crate) module: String,
    pub(crate) to: QuantizedFormat,
    pub(crate) granularity: Granularity,
    /// The name of the elements, and the type of what holds them.
    pub(crate) elements: String,
    pub(crate) container: DataType,
    /// The name of the scales, the type that they are computed in, and the one that the file gives them.
    pub(crate) scales: String,
    pub(crate) scale_type: DataType,
    pub(crate) scale_container: DataType,
    /// Whether a type of float scales that the weight has already may stay.
    pub(crate) keeps_scale_type: bool,
    /// Whether NVFP4's global scale is a divisor.
    pub(crate) divides: bool,
    /// The name and the shape of NVFP4's global scale.
    pub(crate) global: Option<(String, Vec<usize>)>,
    /// The name of the shape, where elements are packed in words.
    pub(crate) shape: Option<String>,
    pub(crate) recipe: Recipe,
    /// Rows and columns of a block.
    pub(crate) block: [usize; 2],
    /// What the greatest magnitude of a block becomes.
    pub(crate) most: f32,
    /// The scale of a block of zeros.
    pub(crate) zero_scale: f32,
    /// The type that quotients are rounded to first.
    pub(crate) precision: DataType,
}

impl Chosen {
    /// The shape of the scale of a tensor: ComfyUI has no axes.
    pub(crate) fn tensor_scale_shape(&self) -> Vec<usize> {
        if self.scales.ends_with("scale_weight") { Vec::new() } else { vec![1] }
    }

    /// Whether the greatest magnitude of the tensor is needed before its elements.
    pub(crate) fn needs_greatest(&self) -> bool {
        self.to == QuantizedFormat::Block(BlockFormat::NvFp4) || self.granularity == Granularity::Tensor
    }
}

impl<'a> Plan<'a> {
    pub(crate) fn new(request: &'a QuantizeRequest) -> Plan<'a> {
        Plan { layout: request.layout.unwrap_or(Scheme::CompressedTensors), request }
    }

    /// What a weight becomes.
    pub(crate) fn choose(&self, stored: &Stored, to: QuantizedFormat) -> Result<Chosen, LayoutError> {
        if !matches!(stored.data_type, Float | Float16 | BFloat16) {
            return Err(unfit(stored, "float, float16 or bfloat16 to quantize".to_owned()));
        }
        let granularity = self.granularity(to, self.request.granularity)?;
        self.lay_out(stored, to, granularity)
    }

    /// What a quantized weight becomes, with the same scales, or for smaller parts if the layout has no others.
    pub(crate) fn name_weight(
        &self,
        weight: &Weight,
        to: QuantizedFormat,
        granularity: Granularity,
    ) -> Result<Chosen, LayoutError> {
        let stored = Stored {
            name: weight.name.clone(),
            data_type: Float,
            shape: weight.values.clone(),
            len: weight.len(),
            place: Place::Memory(Vec::new()),
        };
        let smaller = match (granularity, to) {
            (_, QuantizedFormat::Block(format)) => vec![Granularity::Block([1, format.block()])],
            _ if to == QuantizedFormat::Elements(Float8E4M3FN) && weight.element_type() != Float8E4M3FN => {
                vec![Granularity::Block([128, 128])]
            }
            (Granularity::Tensor, _) => vec![granularity, Granularity::Axis, Granularity::Block([128, 128])],
            (Granularity::Axis | Granularity::Block(_), _) => vec![granularity],
        };
        let found = smaller.into_iter().map(|granularity| self.granularity(to, Some(granularity)));
        let found = found.reduce(|first, next| first.or(next));
        self.lay_out(&stored, to, found.unwrap_or(Ok(granularity))?)
    }

    /// The tensors of a weight.
    fn lay_out(&self, stored: &Stored, to: QuantizedFormat, granularity: Granularity) -> Result<Chosen, LayoutError> {
        let (&[rows, columns], Some(module)) = (&stored.shape[..], stored.name.strip_suffix("weight")) else {
            return Err(unfit(stored, "a matrix whose name ends in `weight`".to_owned()));
        };
        let block = match granularity {
            Granularity::Tensor => [rows.max(1), columns.max(1)],
            Granularity::Axis => [1, columns.max(1)],
            Granularity::Block(block) => block,
        };
        let is_short = !columns.is_multiple_of(block[1]);
        // Blocks of several rows may be smaller at the edges; no layout has such blocks within rows.
        if is_short && (to != QuantizedFormat::Elements(Float8E4M3FN) || block[0] == 1) {
            return Err(unfit(
                stored,
                format!("columns in blocks of {} for {to} (--exclude keeps the tensor)", block[1]),
            ));
        }
        let mut chosen = Chosen {
            module: module.strip_suffix('.').unwrap_or(module).to_owned(),
            to,
            granularity,
            elements: format!("{module}weight"),
            container: Uint8,
            scales: format!("{module}weight_scale"),
            scale_type: Float,
            scale_container: Float,
            keeps_scale_type: matches!(self.layout, Scheme::CompressedTensors | Scheme::Plain),
            global: None,
            divides: self.layout == Scheme::CompressedTensors,
            shape: None,
            recipe: Recipe::ModelOpt,
            block,
            most: 1.0,
            zero_scale: 1.0,
            precision: Float,
        };
        match to {
            QuantizedFormat::Block(format) => self.lay_out_blocks(&mut chosen, format, module),
            QuantizedFormat::Elements(data_type) => self.lay_out_elements(&mut chosen, data_type, stored, module),
        }
        let each = if to == QuantizedFormat::Elements(Int4) { 8 } else { 4 };
        if chosen.container == Int32 && !columns.is_multiple_of(each) {
            return Err(unfit(stored, "columns that fill words of 32 bits (--exclude keeps the tensor)".to_owned()));
        }
        Ok(chosen)
    }

    /// What has a scale, and whether the layout has that.
    fn granularity(&self, to: QuantizedFormat, asked: Option<Granularity>) -> Result<Granularity, LayoutError> {
        let refuse =
            |reason: String| Err(LayoutError::Unsupported { layout: self.layout.name(), to: to.name(), reason });
        let (known, default) = match (self.layout, to) {
            (Scheme::CompressedTensors, QuantizedFormat::Block(BlockFormat::MxFp6E3M2 | BlockFormat::MxInt8))
            | (Scheme::CompressedTensors | Scheme::ModelOpt, QuantizedFormat::Block(BlockFormat::MxFp8E5M2))
            | (
                Scheme::ModelOpt,
                QuantizedFormat::Block(BlockFormat::MxFp6E2M3 | BlockFormat::MxFp6E3M2 | BlockFormat::MxInt8),
            )
            | (Scheme::Quark, QuantizedFormat::Elements(_))
            | (Scheme::DeepSeek | Scheme::Fbgemm | Scheme::ComfyUi, QuantizedFormat::Block(_))
            | (Scheme::GptOss, _) => (false, Granularity::Axis),
            (Scheme::Quark, QuantizedFormat::Block(format)) => (format == BlockFormat::MxFp4, Granularity::Axis),
            (_, QuantizedFormat::Block(_)) => (true, Granularity::Axis),
            (Scheme::CompressedTensors, QuantizedFormat::Elements(data_type)) => (
                data_type != Float8E5M2,
                if data_type == Int4 { Granularity::Block([1, 32]) } else { Granularity::Axis },
            ),
            (Scheme::Plain, QuantizedFormat::Elements(data_type)) => (data_type != Int4, Granularity::Axis),
            (layout, QuantizedFormat::Elements(data_type)) => (
                data_type == Float8E4M3FN,
                match layout {
                    Scheme::DeepSeek => Granularity::Block([128, 128]),
                    Scheme::Fbgemm => Granularity::Axis,
                    _ => Granularity::Tensor,
                },
            ),
        };
        if !known {
            return refuse("the layout has no such weights".to_owned());
        }
        if let QuantizedFormat::Block(format) = to {
            let block = Granularity::Block([1, format.block()]);
            return match asked {
                Some(asked) if asked != block => refuse(format!("its blocks are {}", block)),
                _ => Ok(block),
            };
        }
        let granularity = asked.unwrap_or(default);
        let is_known = match (self.layout, granularity) {
            (Scheme::Fbgemm, granularity) => granularity == Granularity::Axis,
            (Scheme::ComfyUi, granularity) => granularity == Granularity::Tensor,
            // No configuration tells the size of blocks.
            (Scheme::Plain, granularity) => !matches!(granularity, Granularity::Block(_)),
            (Scheme::DeepSeek, granularity) => matches!(granularity, Granularity::Block(_)),
            (Scheme::ModelOpt, granularity) => {
                matches!(granularity, Granularity::Tensor | Granularity::Axis | Granularity::Block([128, 128]))
            }
            (Scheme::CompressedTensors, Granularity::Block([rows, _])) => {
                (rows == 1) == matches!(to, QuantizedFormat::Elements(Int4 | Int8))
            }
            _ => true,
        };
        if is_known { Ok(granularity) } else { refuse(format!("the layout has no scales by {granularity}")) }
    }

    fn lay_out_blocks(&self, chosen: &mut Chosen, format: BlockFormat, module: &str) {
        let is_packed = format.element().is_packed();
        chosen.scale_type = format.scale();
        chosen.scale_container = match (self.layout, format.scale()) {
            (Scheme::Plain, data_type) => data_type,
            (_, Float8E8M0) => Uint8,
            (_, data_type) => data_type,
        };
        chosen.container = if is_packed && self.layout != Scheme::Plain { Uint8 } else { format.element() };
        if self.layout == Scheme::CompressedTensors {
            chosen.recipe = Recipe::CompressedTensors;
            if is_packed {
                chosen.elements = format!("{module}weight_packed");
            }
        }
        if format == BlockFormat::NvFp4 {
            chosen.global = Some(match self.layout {
                Scheme::CompressedTensors => (format!("{module}weight_global_scale"), vec![1]),
                _ => (format!("{module}weight_scale_2"), Vec::new()),
            });
        }
    }

    fn lay_out_elements(&self, chosen: &mut Chosen, data_type: DataType, stored: &Stored, module: &str) {
        chosen.container = data_type;
        chosen.most = match data_type {
            Float8E4M3FN => 448.0,
            Float8E5M2 => 57344.0,
            Int4 => 7.0,
            _ => 127.0,
        };
        match self.layout {
            Scheme::DeepSeek => chosen.scales = format!("{module}weight_scale_inv"),
            Scheme::ComfyUi => chosen.scales = format!("{module}scale_weight"),
            // torch keeps the type of a tensor that is divided by one number.
            Scheme::ModelOpt if chosen.granularity == Granularity::Tensor => chosen.precision = stored.data_type,
            Scheme::CompressedTensors => {
                // Its own arithmetic is that of the weights' type.
                (chosen.scale_type, chosen.scale_container) = (stored.data_type, stored.data_type);
                chosen.precision = stored.data_type;
                chosen.zero_scale = match stored.data_type {
                    BFloat16 => 2f32.powi(-7),
                    Float16 => 2f32.powi(-10),
                    _ => f32::EPSILON,
                };
                if matches!(data_type, Int4 | Int8) {
                    chosen.most += 0.5;
                    chosen.container = Int32;
                    chosen.elements = format!("{module}weight_packed");
                    chosen.shape = Some(format!("{module}weight_shape"));
                }
            }
            _ => {}
        }
    }

    /// The tensor by which ComfyUI knows scaled weights.
    pub(crate) fn marker<'r>(&self) -> Option<Row<'r>> {
        let summary = TensorSummary { cast: true, ..TensorSummary::kept("scaled_fp8", vec![2], Float8E4M3FN, 2) };
        let tensor = TensorRef { file: 0, tensor: 0 };
        (self.layout == Scheme::ComfyUi).then(|| Row { summary, tensor, origin: Origin::Bytes(vec![0; 2]) })
    }

    /// What `config.json` says under `quantization_config`; `None` of layouts that say nothing.
    pub(crate) fn configuration(&self, chosen: &[Chosen], kept: &[String]) -> Option<Value> {
        let first = chosen.first()?;
        match self.layout {
            Scheme::DeepSeek => {
                let block = first.block;
                Some(json!({
                    "activation_scheme": "dynamic",
                    "fmt": "e4m3",
                    "modules_to_not_convert": kept,
                    "quant_method": "fp8",
                    "weight_block_size": block,
                }))
            }
            Scheme::Fbgemm => Some(json!({
                "activation_scale_ub": 1200.0,
                "modules_to_not_convert": kept,
                "quant_method": "fbgemm_fp8",
            })),
            Scheme::CompressedTensors => Some(groups(chosen, kept)),
            Scheme::ModelOpt => {
                let (all, layers) = algorithms(chosen);
                let mut config = json!({ "ignore": kept, "quant_algo": all, "quant_method": "modelopt" });
                if let Some(layers) = layers {
                    config["quantized_layers"] = layers;
                }
                Some(config)
            }
            Scheme::Quark => Some(json!({
                "exclude": kept,
                "export": { "pack_method": "reorder", "weight_format": "real_quantized" },
                "global_quant_config": { "weight": {
                    "ch_axis": -1, "dtype": "fp4", "group_size": 32, "is_dynamic": false, "qscheme": "per_group",
                    "scale_format": "e8m0", "symmetric": null,
                }},
                "quant_method": "quark",
            })),
            _ => None,
        }
    }

    /// The text of ModelOpt's own file.
    pub(crate) fn own_file(&self, chosen: &[Chosen], kept: &[String]) -> Option<String> {
        if self.layout != Scheme::ModelOpt {
            return None;
        }
        let (all, layers) = algorithms(chosen);
        let size = chosen.first().map_or(0, |chosen| chosen.block[1]);
        let mut quantization = json!({ "exclude_modules": kept, "kv_cache_quant_algo": null, "quant_algo": all });
        if matches!(chosen.first().map(|chosen| chosen.to), Some(QuantizedFormat::Block(_))) {
            quantization["group_size"] = size.into();
        }
        if let Some(layers) = layers {
            quantization["quantized_layers"] = layers;
        }
        let file = json!({ "producer": { "name": "modelopt" }, "quantization": quantization });
        Some(format!("{file:#}\n"))
    }
}

/// A tensor that a layout has no place for.
fn unfit(stored: &Stored, want: String) -> LayoutError {
    let (tensor, data_type, shape) = (stored.name.clone(), stored.data_type, stored.shape.clone());
    LayoutError::Part { tensor, data_type, shape, want }
}

/// ModelOpt's name for the format of a weight.
fn algorithm(chosen: &Chosen) -> &'static str {
    match (chosen.to, chosen.granularity) {
        (QuantizedFormat::Block(BlockFormat::NvFp4), _) => "W4A16_NVFP4",
        (QuantizedFormat::Block(BlockFormat::MxFp4), _) => "W4A16_MXFP4",
        (QuantizedFormat::Block(_), _) => "MXFP8",
        (_, Granularity::Tensor) => "FP8",
        (_, Granularity::Axis) => "FP8_PER_CHANNEL_PER_TOKEN",
        (_, Granularity::Block(_)) => "FP8_PB_WO",
    }
}

/// The algorithm of all weights, or that they differ and that of each.
fn algorithms(chosen: &[Chosen]) -> (&'static str, Option<Value>) {
    let first = chosen.first().map_or("", algorithm);
    if chosen.iter().all(|chosen| algorithm(chosen) == first) {
        return (first, None);
    }
    let layer = |chosen: &Chosen| (chosen.module.clone(), json!({ "quant_algo": algorithm(chosen) }));
    ("MIXED_PRECISION", Some(Value::Object(chosen.iter().map(layer).collect())))
}

/// The groups of compressed-tensors: the weights of each format.
fn groups(chosen: &[Chosen], kept: &[String]) -> Value {
    let mut groups: Vec<(Value, &'static str, Vec<&str>)> = Vec::new();
    for one in chosen {
        let (weights, format) = weights(one);
        match groups.iter_mut().find(|(known, ..)| *known == weights) {
            Some((.., modules)) => modules.push(&one.module),
            None => groups.push((weights, format, vec![&one.module])),
        }
    }
    let format = match &groups[..] {
        [(_, format, _)] => *format,
        _ => "mixed-precision",
    };
    let is_single = groups.len() == 1;
    let group = |(index, (weights, format, modules)): (usize, (Value, &str, Vec<&str>))| {
        // Of one format all Linear layers are meant that are not ignored.
        let targets = if is_single { json!(["Linear"]) } else { json!(modules) };
        let group = json!({
            "format": format, "input_activations": null, "output_activations": null, "targets": targets,
            "weights": weights,
        });
        (format!("group_{index}"), group)
    };
    let groups: serde_json::Map<String, Value> = groups.into_iter().enumerate().map(group).collect();
    json!({
        "config_groups": groups,
        "format": format,
        "global_compression_ratio": null,
        "ignore": kept,
        "kv_cache_scheme": null,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    })
}

/// The settings of a group's weights, and the name of its format.
fn weights(chosen: &Chosen) -> (Value, &'static str) {
    let (kind, bits, format) = match chosen.to {
        QuantizedFormat::Block(BlockFormat::NvFp4) => ("float", 4, "nvfp4-pack-quantized"),
        QuantizedFormat::Block(BlockFormat::MxFp4) => ("float", 4, "mxfp4-pack-quantized"),
        QuantizedFormat::Block(BlockFormat::MxFp6E2M3 | BlockFormat::MxFp6E3M2) => ("float", 6, "mxfp6-pack-quantized"),
        QuantizedFormat::Block(_) => ("float", 8, "mxfp8-quantized"),
        QuantizedFormat::Elements(Int4) => ("int", 4, "pack-quantized"),
        QuantizedFormat::Elements(Int8) => ("int", 8, "pack-quantized"),
        QuantizedFormat::Elements(_) => ("float", 8, "float-quantized"),
    };
    let (strategy, group, structure) = match (chosen.to, chosen.granularity) {
        (QuantizedFormat::Block(BlockFormat::NvFp4), _) => ("tensor_group", json!(16), json!(null)),
        (QuantizedFormat::Block(_), _) => ("group", json!(32), json!(null)),
        (_, Granularity::Tensor) => ("tensor", json!(null), json!(null)),
        (_, Granularity::Axis) => ("channel", json!(null), json!(null)),
        (_, Granularity::Block([1, columns])) => ("group", json!(columns), json!(null)),
        (_, Granularity::Block(block)) => ("block", json!(null), json!(block)),
    };
    let scale_dtype = match chosen.scale_type {
        Float8E8M0 => json!("torch.uint8"),
        Float8E4M3FN => json!("torch.float8_e4m3fn"),
        _ => json!(null),
    };
    let weights = json!({
        "actorder": null, "block_structure": structure, "dynamic": false, "group_size": group, "num_bits": bits,
        "observer": "minmax", "observer_kwargs": {}, "scale_dtype": scale_dtype, "strategy": strategy,
        "symmetric": true, "type": kind, "zp_dtype": null,
    });
    (weights, format)
}
