//! Companions of other layouts beside a weight: each combination of layout, name, type, shape and values is an error that
//! names the tensor, or leaves the values as they are and keeps the tensor.

use crate::common::checkpoint;

use checkpoint::{Checkpoint, Tensor, bits, codes, floats, ints, is_empty, longs, to};
use onnx_cast::DataType;
use onnx_cast_file::{DequantizeRequest, Layout};
use std::fs;

/// A small checkpoint of a layout: its configuration, its only weight, and the start of the names of its companions.
struct Sample {
    layout: Layout,
    config: String,
    tensors: fn() -> Vec<Tensor>,
    start: &'static str,
    /// Companions that the layout reads: they may change the values.
    owned: &'static [&'static str],
}

fn quantization(text: &str) -> String {
    format!(r#"{{"quantization_config":{{{text}}}}}"#)
}

fn groups(bits: u32, kind: &str, size: u32) -> String {
    quantization(&format!(
        r#""quant_method":"compressed-tensors","config_groups":{{"g":{{"weights":{{"num_bits":{bits},"type":"{kind}",
        "group_size":{size}}}}}}}"#
    ))
}

fn mlx(bits: u32, group: u32, mode: &str) -> String {
    format!(r#"{{"quantization":{{"group_size":{group},"bits":{bits},"mode":"{mode}"}}}}"#)
}

fn words(name: &'static str, shape: &[usize]) -> Tensor {
    let Tensor(name, _, shape, bytes) = ints(name, shape, &[0x7654_3210]);
    Tensor(name, "U32", shape, bytes)
}

fn text(name: &'static str, text: &str) -> Tensor {
    Tensor(name, "U8", vec![text.len()], text.as_bytes().to_vec())
}

const OF_INTEGERS: &[&str] = &["weight_zero_point", "weight_g_idx", "weight_shape"];

fn samples() -> Vec<Sample> {
    let sample = |layout, config: String, tensors| Sample { layout, config, tensors, start: "a.", owned: &[] };
    let method = |method: &str, more: &str| quantization(&format!(r#""quant_method":"{method}"{more}"#));
    let modelopt = |algorithm: &str, more| method("modelopt", &format!(r#","quant_algo":"{algorithm}"{more}"#));
    let quark = |data_type: &str, scheme: &str| {
        let weight = format!(r#"{{"dtype":"{data_type}","qscheme":"{scheme}","group_size":32}}"#);
        method("quark", &format!(r#","global_quant_config":{{"weight":{weight}}}"#))
    };
    let fp8_by_row = || vec![codes("a.weight", "F8_E4M3", &[32, 128]), floats("a.weight_scale", &[32, 1], &[0.5])];
    let nvfp4 = || {
        let scales = codes("a.weight_scale", "F8_E4M3", &[32, 8]);
        vec![codes("a.weight", "U8", &[32, 64]), scales, floats("a.weight_scale_2", &[], &[1e-4])]
    };
    let fp4 = || vec![words("a.weight", &[32, 16]), codes("a.scales", "U8", &[32, 4])];
    let auto_gptq = || {
        let zeros = ints("a.qzeros", &[2, 4], &[0x7777_7777]);
        vec![ints("a.qweight", &[8, 32], &[0x7654_3210]), zeros, floats("a.scales", &[2, 32], &[1.0])]
    };
    vec![
        sample(Layout::DeepSeek, method("fp8", r#","weight_block_size":[128,128]"#), || {
            vec![codes("a.weight", "F8_E4M3", &[32, 128]), floats("a.weight_scale_inv", &[1, 1], &[0.5])]
        }),
        Sample {
            start: "a.gate_up_proj_",
            ..sample(Layout::GptOss, method("mxfp4", ""), || {
                let scales = codes("a.gate_up_proj_scales", "U8", &[2, 4, 2]);
                vec![codes("a.gate_up_proj_blocks", "U8", &[2, 4, 2, 16]), scales]
            })
        },
        sample(Layout::CompressedTensors, groups(4, "float", 16), || {
            let scales = codes("a.weight_scale", "F8_E4M3", &[32, 8]);
            vec![codes("a.weight_packed", "U8", &[32, 64]), scales, floats("a.weight_global_scale", &[1], &[1e4])]
        }),
        Sample {
            owned: OF_INTEGERS,
            ..sample(Layout::CompressedTensors, groups(4, "int", 32), || {
                let words = ints("a.weight_packed", &[32, 16], &[0x7654_3210]);
                vec![words, floats("a.weight_scale", &[32, 4], &[0.5, 2.0])]
            })
        },
        Sample {
            owned: OF_INTEGERS,
            ..sample(Layout::CompressedTensors, groups(8, "int", 32), || {
                vec![codes("a.weight", "I8", &[32, 128]), floats("a.weight_scale", &[32, 4], &[0.5, 2.0])]
            })
        },
        Sample { owned: OF_INTEGERS, ..sample(Layout::CompressedTensors, groups(8, "float", 0), fp8_by_row) },
        sample(Layout::CompressedTensors, groups(8, "float", 32), || {
            vec![codes("a.weight", "F8_E4M3", &[32, 128]), codes("a.weight_scale", "U8", &[32, 4])]
        }),
        sample(Layout::ModelOpt, modelopt("NVFP4", ""), nvfp4),
        sample(Layout::ModelOpt, modelopt("FP8_PER_CHANNEL_PER_TOKEN", ""), fp8_by_row),
        sample(Layout::ModelOpt, modelopt("W4A16_AWQ", r#","group_size":32"#), || {
            vec![codes("a.weight", "U8", &[16, 128]), floats("a.weight_scale", &[32, 4], &[0.5, 2.0])]
        }),
        sample(Layout::Fbgemm, method("fbgemm_fp8", ""), fp8_by_row),
        Sample {
            owned: &["weight_zero_point"],
            ..sample(Layout::Quark, quark("int4", "per_group"), || {
                vec![ints("a.weight", &[64, 4], &[0x7654_3210]), floats("a.weight_scale", &[2, 32], &[1.0])]
            })
        },
        sample(Layout::Quark, quark("fp4", "per_group"), || {
            vec![codes("a.weight", "U8", &[32, 64]), codes("a.weight_scale", "U8", &[32, 4])]
        }),
        sample(Layout::ComfyUi, String::new(), || {
            vec![
                codes("a.weight", "U8", &[128, 32]),
                codes("a.weight_scale", "F8_E4M3", &[128, 4]),
                floats("a.weight_scale_2", &[], &[1e-4]),
                text("a.comfy_quant", r#"{"format":"nvfp4"}"#),
            ]
        }),
        sample(Layout::ComfyUi, String::new(), || {
            vec![codes("a.weight", "F8_E4M3", &[32, 128]), floats("a.scale_weight", &[], &[0.5])]
        }),
        Sample {
            owned: &["weight_zero_point"],
            ..sample(Layout::Plain, String::new(), || {
                vec![codes("a.weight", "I8", &[32, 128]), floats("a.weight_scale", &[32, 1], &[0.5])]
            })
        },
        Sample {
            owned: &["weight.absmax"],
            ..sample(Layout::BitsAndBytes, method("bitsandbytes", ""), || {
                vec![codes("a.weight", "I8", &[32, 128]), floats("a.SCB", &[32], &[2.0])]
            })
        },
        sample(Layout::Mlx, mlx(4, 64, "affine"), || {
            let biases = floats("a.biases", &[32, 2], &[0.25]);
            vec![words("a.weight", &[32, 16]), floats("a.scales", &[32, 2], &[0.5, 2.0]), biases]
        }),
        sample(Layout::Mlx, mlx(4, 32, "mxfp4"), fp4),
        sample(Layout::Mlx, mlx(4, 16, "nvfp4"), || {
            vec![words("a.weight", &[32, 16]), codes("a.scales", "U8", &[32, 8])]
        }),
        sample(Layout::Mlx, mlx(8, 32, "mxfp8"), || {
            vec![words("a.weight", &[32, 32]), codes("a.scales", "U8", &[32, 4])]
        }),
        Sample {
            owned: &["g_idx"],
            ..sample(Layout::Gptq, method("gptq", r#","bits":4,"group_size":32,"sym":true"#), auto_gptq)
        },
        sample(Layout::Awq, method("awq", r#","bits":4,"group_size":32"#), || {
            let zeros = ints("a.qzeros", &[2, 4], &[0]);
            vec![ints("a.qweight", &[64, 4], &[0x7654_3210]), zeros, floats("a.scales", &[2, 32], &[1.0])]
        }),
        sample(Layout::Mistral, String::new(), || {
            vec![codes("a.weight", "F8_E4M3", &[32, 128]), floats("a.qscale_weight", &[], &[0.5])]
        }),
        Sample {
            start: "a.mlp1_weight.",
            ..sample(Layout::OpenAi, String::new(), || {
                let scales = codes("a.mlp1_weight.scales", "U8", &[2, 4, 2]);
                vec![codes("a.mlp1_weight.blocks", "U8", &[2, 4, 2, 16]), scales]
            })
        },
        sample(Layout::Hqq, method("hqq", ""), || {
            vec![
                codes("a.W_q", "U8", &[32, 64]),
                floats("a.scale", &[64, 1], &[0.5, 2.0]),
                floats("a.zero", &[64, 1], &[7.0]),
                longs("a.shape", &[32, 128]),
                ints("a.group_size", &[1], &[64]),
                ints("a.axis", &[1], &[1]),
                text("a.packing", "4bit_u8"),
            ]
        }),
        Sample {
            owned: &["_weight_zero_point"],
            ..sample(Layout::TorchAo, method("torchao", ""), || {
                vec![codes("a._weight_qdata", "I8", &[32, 128]), floats("a._weight_scale", &[32, 1], &[0.5])]
            })
        },
        sample(Layout::Quanto, method("quanto", ""), || {
            vec![codes("a.weight._data", "I8", &[32, 128]), floats("a.weight._scale", &[32, 1], &[0.5])]
        }),
        sample(Layout::BitNet, method("bitnet", ""), || {
            vec![codes("a.weight", "U8", &[8, 128]), floats("a.weight_scale", &[1], &[2.0])]
        }),
        sample(Layout::Gemma, method("gemma", r#","num_bits":4"#), || {
            vec![codes("a.weight", "U8", &[32, 64]), floats("a.weight_scale", &[32, 1], &[0.5])]
        }),
    ]
}

/// Names of companions in one layout or another, behind the start of a weight's names.
const COMPANIONS: &[&str] = &[
    "weight_g_idx",
    "g_idx",
    "weight_zero_point",
    "_weight_zero_point",
    "zero_point",
    "qzeros",
    "weight_scale",
    "weight_scale_2",
    "weight_scale_inv",
    "weight_global_scale",
    "scales",
    "biases",
    "SCB",
    "weight.absmax",
    "weight.scale",
    "weight_shape",
];

/// Right and wrong types, shapes and values, for a weight of 32x128 or 2x4x64.
fn corruptions(name: &'static str) -> Vec<Tensor> {
    let in_order: Vec<i32> = (0..128).map(|column| (127 - column) / 32).collect();
    vec![
        ints(name, &[128], &in_order),
        ints(name, &[128], &[99]),
        ints(name, &[128], &[-1]),
        ints(name, &[3], &[i32::MAX]),
        longs(name, &[1, 2]),
        longs(name, &[i64::MIN, i64::MAX]),
        floats(name, &[1], &[f32::NAN]),
        floats(name, &[32, 1], &[3.0]),
        Tensor(name, "U8", vec![32, 4], vec![1; 128]),
        Tensor(name, "I8", vec![32, 1], vec![0x81; 32]),
        Tensor(name, "F8_E4M3", vec![32, 1], vec![1; 32]),
        floats(name, &[0, 4], &[]),
    ]
}

/// The request for a sample, whose layout is named if no configuration names it.
fn request(sample: &Sample) -> DequantizeRequest {
    let named = (sample.config.is_empty() && sample.layout != Layout::ComfyUi).then_some(sample.layout);
    to(DataType::Float).layout(named)
}

#[test]
fn companions_of_other_layouts_change_nothing() {
    let mut covered: Vec<Layout> = Vec::new();
    let mut wrong = Vec::new();
    for sample in samples() {
        let (tensors, request) = ((sample.tensors)(), request(&sample));
        let want = bits(&Checkpoint::new(&sample.config, &tensors).gives(&request)[0]);
        covered.push(sample.layout);
        for companion in COMPANIONS {
            let name: &'static str = Box::leak(format!("{}{companion}", sample.start).into_boxed_str());
            if tensors.iter().any(|tensor| tensor.0 == name) {
                continue;
            }
            for stray in corruptions(name) {
                let kind = format!("{:?}: {name} of {} {:?}", sample.layout, stray.1, stray.2);
                let bytes = stray.3.clone();
                let all: Vec<Tensor> = (sample.tensors)().into_iter().chain([stray]).collect();
                let checkpoint = Checkpoint::new(&sample.config, &all);
                match checkpoint.run(&request) {
                    Err(error) => {
                        let error = error.to_string();
                        // A companion that the layout reads may make the weight wrong, and without a configuration
                        // the stray tensor may make the file one of another layout.
                        let may_name_others = sample.owned.contains(companion) || sample.config.is_empty();
                        let is_named = error.contains(name) || may_name_others && error.contains("tensor `a.");
                        if !is_named {
                            wrong.push(format!("{kind}: {error}"));
                        }
                        assert!(is_empty(&checkpoint.output()), "{kind}: something is written");
                    }
                    Ok(_) if sample.owned.contains(companion) => {}
                    Ok(_) => {
                        fs::remove_dir_all(checkpoint.output()).expect("removed");
                        let found = checkpoint.gives(&request);
                        let kept = found.iter().find(|tensor| tensor.name == name);
                        if kept.is_none_or(|kept| kept.tensor.bytes() != Some(&bytes[..])) {
                            wrong.push(format!("{kind}: left out without a word"));
                        }
                        let same = found.iter().any(|tensor| tensor.name != name && bits(tensor) == want);
                        if !same {
                            wrong.push(format!("{kind}: other values"));
                        }
                    }
                }
            }
        }
    }
    let missing: Vec<_> = Layout::ALL
        .iter()
        .filter(|(layout, _)| *layout != Layout::Gguf && !covered.contains(layout))
        .map(|(_, name)| *name)
        .collect();
    assert!(missing.is_empty(), "layouts without a sample: {missing:?}");
    assert!(wrong.is_empty(), "{} of them: {wrong:#?}", wrong.len());
}

/// What is owned is still read: a group for each column, and zero points, give the values that they say.
#[test]
fn companions_that_a_layout_owns_are_read() {
    let groups: Vec<i32> = (0..128).map(|column| (127 - column) / 32).collect();
    let tensors = || {
        vec![
            codes("a.weight", "I8", &[1, 128]),
            floats("a.weight_scale", &[1, 4], &[1.0, 2.0, 4.0, 8.0]),
            Tensor("a.weight_zero_point", "I8", vec![1, 4], vec![0, 1, 2, 3]),
        ]
    };
    let config = self::groups(8, "int", 32);
    let value = |group: usize| ((0x38 - group as i32) as f32 * [1.0, 2.0, 4.0, 8.0][group]).to_bits();
    let plain = Checkpoint::new(&config, &tensors()).gives(&to(DataType::Float));
    assert_eq!(bits(&plain[0]), (0..128).map(|column| value(column / 32)).collect::<Vec<_>>());
    let all: Vec<Tensor> = tensors().into_iter().chain([ints("a.weight_g_idx", &[128], &groups)]).collect();
    let ordered = Checkpoint::new(&config, &all).gives(&to(DataType::Float));
    assert_eq!(bits(&ordered[0]), groups.iter().map(|group| value(*group as usize)).collect::<Vec<_>>());
}
