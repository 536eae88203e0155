//! Checkpoints under their publishers' own names, and joined matrices with a scale for each part: values at sizes that
//! the stored checkpoints do not have, the files beside the weights, and what is refused.

use crate::common::checkpoint;
use crate::common::replacing::{quantize_file, transcode_file};

use checkpoint::{Checkpoint, Tensor, codes, floats, to};
use onnx_cast::{Cast, CastOptions, DataType, TensorView};
use onnx_cast_file::{
    InspectRequest, Layout, QuantizeRequest, QuantizedFormat, ScaleExtent, TranscodeRequest, inspect,
};
use std::fs;

/// The values of all codes but NaN's, in float.
fn values_of_codes() -> Vec<f32> {
    let (codes, shape): (Vec<u8>, _) = ((0..=255).collect(), [256]);
    let source = TensorView::new(DataType::Float8E4M3FN, &shape, &codes).expect("codes");
    let cast = Cast::new(DataType::Float, &CastOptions::new()).expect("a cast").run(&source).expect("values");
    cast.bytes().expect("floats").as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Codes of float8e4m3fn that look random, without NaN.
fn noise(len: usize) -> Vec<u8> {
    (0..len as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8 % 127).collect()
}

fn float8(name: &'static str, shape: &[usize]) -> Tensor {
    Tensor(name, "F8_E4M3", shape.to_vec(), noise(shape.iter().product()))
}

/// A configuration of a model with heads, whose weights are float8.
fn heads(query: usize, keys: usize, size: usize) -> String {
    format!(
        r#"{{"num_attention_heads":{query},"num_key_value_heads":{keys},"head_dim":{size},"quantization_config":{{"quant_method":"fp8","activation_scheme":"static"}}}}"#
    )
}

#[test]
fn each_row_of_a_joined_matrix_has_the_scale_of_its_part() {
    let (columns, ends, scales) = (5120, [320, 400, 480], [0.5, 0.0123, 3.5]);
    let checkpoint = Checkpoint::new(
        &heads(4, 1, 80),
        &[float8("a.qkv_proj.weight", &[480, columns]), floats("a.qkv_proj.weight_scale", &[3], &scales)],
    );
    let (values, codes) = (values_of_codes(), noise(480 * columns));
    let found = checkpoint.gives(&to(DataType::Float));
    let got = found[0].tensor.bytes().expect("floats").as_chunks().0;
    for (index, (got, code)) in got.iter().zip(codes).enumerate() {
        let part = ends.iter().position(|end| index / columns < *end).expect("a part");
        let want = values[usize::from(code)] * scales[part];
        assert_eq!(u32::from_le_bytes(*got), want.to_bits(), "element {index}");
    }
    let info = inspect(checkpoint.input(), &InspectRequest::default()).expect("info");
    let weights = info.quantized.expect("quantized").weights;
    assert_eq!((weights[0].extent, weights[0].extent.name()), (ScaleExtent::Part, "part"));
}

#[test]
fn parts_that_cannot_be_told_are_refused() {
    let tensors = |layer: [&'static str; 2], shape: &[usize], parts: usize| {
        [codes(layer[0], "F8_E4M3", shape), floats(layer[1], &[parts], &[1.0])]
    };
    let qkv = ["a.qkv_proj.weight", "a.qkv_proj.weight_scale"];
    let what = "tensor `a.qkv_proj.weight_scale`: 3 scales for a joined weight of shape 12x8, whose parts cannot be \
                told \
                (want config.json with num_attention_heads, num_key_value_heads and head_dim or hidden_size that give \
                as many rows)";
    for config in [heads(2, 2, 4), r#"{"quantization_config":{"quant_method":"fp8"}}"#.to_owned()] {
        Checkpoint::new(&config, &tensors(qkv, &[12, 8], 3)).refuses(&format!("model.safetensors: {what}"));
    }
    let names = ["a.gate_up_proj.weight", "a.gate_up_proj.weight_scale"];
    let odd = Checkpoint::new(&heads(2, 1, 4), &tensors(names, &[7, 8], 2));
    odd.refuses(
        "model.safetensors: tensor `a.gate_up_proj.weight_scale`: 2 scales for a joined weight of shape 7x8, whose \
         parts cannot be told (want equal parts)",
    );
    // The three of each head are together here: the rows of query, key and value are no parts.
    let together = ["a.query_key_value.weight", "a.query_key_value.weight_scale"];
    let error = Checkpoint::new(&heads(2, 1, 3), &tensors(together, &[12, 8], 3)).run(&to(DataType::Float));
    assert!(error.expect_err("no parts").to_string().contains("scales of shape 3 for a weight of shape 12x8"));
}

#[test]
fn a_joined_matrix_stays_in_its_layout() {
    let tensors =
        [codes("a.gate_up_proj.weight", "F8_E4M3", &[8, 32]), floats("a.gate_up_proj.weight_scale", &[2], &[1.0])];
    let checkpoint = Checkpoint::new(&heads(2, 1, 4), &tensors);
    let request = TranscodeRequest::new(Layout::CompressedTensors);
    let error = transcode_file(checkpoint.input(), checkpoint.output(), &request).expect_err("no such layout");
    assert!(error.to_string().contains("a.gate_up_proj"), "{error}");
}

const PARAMS: &str = r#"{"dim": 8, "rope_theta": 1e6, "quantization": {"qformat_weight": "fp8_e4m3"}}"#;

/// Mistral's own names, with a file of parameters.
fn mistral(params: &str) -> Checkpoint {
    let tensors = [
        codes("layers.0.attention.wq.weight", "F8_E4M3", &[4, 8]),
        floats("layers.0.attention.wq.qscale_weight", &[], &[0.5]),
        floats("layers.0.attention.wq.qscale_act", &[], &[2.0]),
    ];
    let checkpoint = Checkpoint::new("", &tensors);
    checkpoint.write("params.json", params.as_bytes());
    checkpoint
}

#[test]
fn the_file_of_parameters_loses_what_it_says_of_quantization() {
    let checkpoint = mistral(PARAMS);
    let found = checkpoint.gives(&to(DataType::Float));
    let names: Vec<&str> = found.iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["layers.0.attention.wq.weight"]);
    assert_eq!(checkpoint::bits(&found[0]), [0.5f32.to_bits(); 32]);
    let text = fs::read_to_string(checkpoint.output().join("params.json")).expect("parameters");
    assert_eq!(text, r#"{"dim": 8, "rope_theta": 1e6}"#);
    // As it was where a weight stays quantized, and where weights are quantized that were not.
    let plain = Checkpoint::new("", &[floats("layers.0.attention.wq.weight", &[32, 32], &[0.5])]);
    plain.write("params.json", b"{\"dim\": 8}");
    let request = QuantizeRequest::new("nvfp4".parse::<QuantizedFormat>().expect("a format"));
    quantize_file(plain.input(), plain.output(), &request).expect("quantized");
    assert!(plain.output().join("params.json").exists());
}

#[test]
fn other_parameters_of_mistral_are_named() {
    let other = mistral(&PARAMS.replace("fp8_e4m3", "fp4"));
    other.refuses("params.json: mistral: the configuration says that `qformat_weight` is `fp4` (want fp8_e4m3)");
    // vLLM passes on the description of another layout.
    let description = r#"{"quantization": {"quant_method": "compressed-tensors", "format": "float-quantized"}}"#;
    let tensors = [codes("layers.0.wq.weight", "F8_E4M3", &[4, 8]), floats("layers.0.wq.weight_scale", &[1], &[0.5])];
    let others = Checkpoint::new("", &tensors);
    others.write("params.json", description.as_bytes());
    let info = inspect(others.input(), &InspectRequest::default()).expect("info");
    assert_eq!(info.quantized.expect("quantized").layout, Some(Layout::CompressedTensors));
    assert_eq!(others.gives(&to(DataType::Float)).len(), 1);
}

#[test]
fn openais_blocks_and_scales_have_to_fit() {
    let blocks =
        |shape: &[usize]| Tensor("b.mlp1_weight.blocks", "U8", shape.to_vec(), vec![0x21; shape.iter().product()]);
    let scales =
        |shape: &[usize]| Tensor("b.mlp1_weight.scales", "U8", shape.to_vec(), vec![128; shape.iter().product()]);
    let good = Checkpoint::new("", &[blocks(&[2, 3, 2, 16]), scales(&[2, 3, 2])]);
    let found = good.gives(&to(DataType::Float));
    assert_eq!((&*found[0].name, found[0].tensor.shape()), ("b.mlp1_weight", &[2, 3, 64][..]));
    assert_eq!(checkpoint::bits(&found[0])[..4], [1.0f32, 2.0, 1.0, 2.0].map(f32::to_bits));
    for (parts, what) in [
        (vec![blocks(&[2, 3, 2, 15]), scales(&[2, 3, 2])], "16 bytes for each block, as the last axis"),
        (vec![blocks(&[2, 3, 2, 16]), scales(&[2, 3, 1])], "want one for each 32 columns, 2x3x2"),
        (vec![blocks(&[2, 3, 2, 16])], "elements without scales (want `b.mlp1_weight.scales`"),
    ] {
        let error = Checkpoint::new("", &parts).run(&to(DataType::Float)).expect_err(what).to_string();
        assert!(error.contains(what), "{error}");
    }
}

/// The values of the codes of float4e2m1.
const FLOAT4: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The bits of a weight whose blocks have one scale each, from the values of elements and scales by their indices.
fn in_blocks(
    [rows, columns]: [usize; 2],
    [down, across]: [usize; 2],
    element: impl Fn(usize) -> f32,
    scale: impl Fn(usize) -> f32,
) -> Vec<u32> {
    let value = |index: usize| {
        let (row, column) = (index / columns, index % columns);
        element(index) * scale(row / down * columns.div_ceil(across) + column / across)
    };
    (0..rows * columns).map(|index| value(index).to_bits()).collect()
}

/// The value of a code of float4e2m1 among bytes that hold two, the low one first.
fn float4(bytes: &[u8], index: usize) -> f32 {
    FLOAT4[usize::from(bytes[index / 2] >> (4 * (index % 2)) & 15)]
}

/// Bytes that look random.
fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|index| (index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8).collect()
}

/// Codes of powers of two, as float8e8m0 has them, and their values.
fn powers(len: usize) -> (Vec<u8>, impl Fn(usize) -> f32) {
    let codes: Vec<u8> = (0..len).map(|index| 118 + (index * 5 % 9) as u8).collect();
    (codes, |index: usize| 2f32.powi((index * 5 % 9) as i32 - 9))
}

/// A weight of NVFP4: its tensors, and the bits of its values.
fn nvfp4(names: [&'static str; 3], [rows, columns]: [usize; 2]) -> (Vec<Tensor>, Vec<u32>) {
    let (elements, scales, global) = (bytes(rows * columns / 2), noise(rows * columns / 16), 0.0123f32);
    let values = values_of_codes();
    let want: Vec<f32> = scales.iter().map(|code| values[usize::from(*code)] * global).collect();
    let want = in_blocks([rows, columns], [1, 16], |index| float4(&elements, index), |index| want[index]);
    let tensors = vec![
        Tensor(names[0], "U8", vec![rows, columns / 2], elements),
        Tensor(names[1], "F8_E4M3", vec![rows, columns / 16], scales),
        floats(names[2], &[], &[global]),
    ];
    (tensors, want)
}

/// Asserts the bits of all tensors of a checkpoint in float, what `info` says of it, and that the configuration keeps
/// nothing of it.
#[track_caller]
fn gives_bits(checkpoint: &Checkpoint, formats: &[&str], want: &[(&str, Vec<u32>)]) {
    let found = checkpoint.gives(&to(DataType::Float));
    let got: Vec<(&str, Vec<u32>)> = found.iter().map(|one| (&*one.name, checkpoint::bits(one))).collect();
    assert_eq!(
        got.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        want.iter().map(|(name, _)| *name).collect::<Vec<_>>()
    );
    for ((name, got), (_, want)) in got.iter().zip(want) {
        let differ = got.iter().zip(want).position(|(got, want)| got != want);
        assert_eq!((differ, got.len()), (None, want.len()), "{name}");
    }
    let info = inspect(checkpoint.input(), &InspectRequest::default()).expect("info").quantized.expect("quantized");
    let known: Vec<&str> = info.weights.iter().map(|weight| &*weight.format).collect();
    assert_eq!((known, info.warning), (formats.to_vec(), None));
    let config = fs::read_to_string(checkpoint.output().join("config.json")).expect("a configuration");
    assert_eq!(config, r#"{"model_type": "x", "torch_dtype": "float32"}"#);
}

#[test]
fn mxfp8_of_minimax_is_read() {
    let (values, codes, (scales, power)) = (values_of_codes(), noise(96 * 256), powers(96 * 8));
    for block in ["", r#","weight_block_size":[1,32]"#] {
        let config = format!(r#"{{"model_type": "x", "quantization_config": {{"quant_method": "mxfp8"{block}}}}}"#);
        let scales = Tensor("a.q_proj.weight_scale_inv", "U8", vec![96, 8], scales.clone());
        let checkpoint = Checkpoint::new(&config, &[float8("a.q_proj.weight", &[96, 256]), scales]);
        let want = in_blocks([96, 256], [1, 32], |index| values[usize::from(codes[index])], &power);
        gives_bits(&checkpoint, &["MXFP8"], &[("a.q_proj.weight", want.clone())]);
        // The same weight in a layout that more programs load.
        let other = tempfile::tempdir().expect("a folder");
        let request = TranscodeRequest::new(Layout::CompressedTensors);
        transcode_file(checkpoint.input(), other.path().join("in"), &request).expect("transcoded");
        let made = Checkpoint(other).gives(&to(DataType::Float));
        assert_eq!(checkpoint::bits(&made[0]), want);
    }
}

#[test]
fn blocks_of_quark_are_read() {
    let settings = |block: &str, scales: &str| {
        format!(
            r#"{{"weight": {{"dtype": "fp8_e4m3", "qscheme": "per_block", "block_size": {block}, "group_size": null, "scale_format": {scales}}}}}"#
        )
    };
    let config = format!(
        r#"{{"model_type": "x", "quantization_config": {{"quant_method": "quark", "global_quant_config": {}, "layer_quant_config": {{"b": {}}}}}}}"#,
        settings("[128, 128]", "null"),
        settings("[32, 32]", "\"float8_e8m0fnu\"")
    );
    let (values, (scales, power)) = (values_of_codes(), powers(3 * 7));
    let own = [0.5, 0.0123, 3.5, 0.25];
    let checkpoint = Checkpoint::new(
        &config,
        &[
            float8("a.weight", &[192, 256]),
            floats("a.weight_scale", &[2, 2], &own),
            float8("b.weight", &[96, 224]),
            Tensor("b.weight_scale", "F8_E8M0", vec![3, 7], scales),
        ],
    );
    let elements: Vec<f32> = noise(192 * 256).into_iter().map(|code| values[usize::from(code)]).collect();
    let first = in_blocks([192, 256], [128, 128], |index| elements[index], |index| own[index]);
    let second = in_blocks([96, 224], [32, 32], |index| elements[index], power);
    gives_bits(&checkpoint, &["FP8", "FP8"], &[("a.weight", first), ("b.weight", second)]);
}

#[test]
fn nvfp4_of_quark_is_read() {
    let config = r#"{"model_type": "x", "quantization_config": {"quant_method": "quark", "global_quant_config": {"weight": [{"dtype": "fp4", "qscheme": "per_group", "group_size": 16, "scale_format": "e4m3"}, {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_scale_quant": true}]}}}"#;
    let (mut tensors, want) = nvfp4(["a.weight", "a.weight_scale", "a.weight_scale_2"], [96, 256]);
    tensors.extend([floats("a.input_scale", &[], &[0.1]), floats("a.input_scale_2", &[], &[0.1])]);
    gives_bits(&Checkpoint::new(config, &tensors), &["NVFP4"], &[("a.weight", want)]);
}

/// NVIDIA's form of DeepSeek-V4: a trunk of float8, experts of NVFP4 and, in the layers that predict further tokens,
/// of MXFP4.
#[test]
fn nvfp4_experts_of_deepseek_v4_are_read() {
    let config = r#"{"model_type": "x", "expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8", "scale_fmt": "ue8m0", "weight_block_size": [128, 128], "moe_quant_algo": "NVFP4", "quant_algo": "MIXED_PRECISION"}}"#;
    let own = r#"{"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"layers.0.ffn.experts": {"quant_algo": "NVFP4", "group_size": 16}}}}"#;
    let (values, (of_trunk, power)) = (values_of_codes(), powers(4));
    let (of_mtp, power_of_mtp) = powers(96 * 8);
    let codes = noise(192 * 256);
    let expert = [
        "layers.0.ffn.experts.0.w1.weight",
        "layers.0.ffn.experts.0.w1.weight_scale",
        "layers.0.ffn.experts.0.w1.weight_scale_2",
    ];
    let (mut tensors, of_expert) = nvfp4(expert, [96, 256]);
    let mtp = bytes(96 * 128);
    tensors.splice(
        0..0,
        [
            float8("layers.0.attn.wq_a.weight", &[192, 256]),
            Tensor("layers.0.attn.wq_a.scale", "F8_E8M0", vec![2, 2], of_trunk),
        ],
    );
    tensors.extend([
        floats("layers.0.ffn.experts.0.w1.input_scale", &[], &[0.1]),
        Tensor("mtp.0.ffn.experts.0.w1.weight", "I8", vec![96, 128], mtp.clone()),
        Tensor("mtp.0.ffn.experts.0.w1.scale", "F8_E8M0", vec![96, 8], of_mtp),
    ]);
    let trunk = in_blocks([192, 256], [128, 128], |index| values[usize::from(codes[index])], power);
    let of_mtp = in_blocks([96, 256], [1, 32], |index| float4(&mtp, index), power_of_mtp);
    let want =
        [("layers.0.attn.wq_a.weight", trunk), (expert[0], of_expert), ("mtp.0.ffn.experts.0.w1.weight", of_mtp)];
    for has_own_file in [false, true] {
        let checkpoint = Checkpoint::new(config, &tensors);
        if has_own_file {
            checkpoint.write("hf_quant_config.json", own.as_bytes());
        }
        gives_bits(&checkpoint, &["FP8", "NVFP4", "MXFP4"], &want);
        assert!(!checkpoint.output().join("hf_quant_config.json").exists());
    }
}
