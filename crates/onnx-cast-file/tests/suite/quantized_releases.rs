//! Checkpoints under their publishers' own names, and joined matrices with a scale for each part: values at sizes that
//! the stored checkpoints do not have, the files beside the weights, and what is refused.

use crate::common::checkpoint;

use checkpoint::{Checkpoint, Tensor, codes, floats, to};
use onnx_cast::{Cast, CastOptions, DataType, TensorView};
use onnx_cast_file::{
    InspectRequest, Layout, QuantizeRequest, QuantizedFormat, ScaleExtent, TranscodeRequest, inspect, quantize_file,
    transcode_file,
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
    assert_eq!(text, "{\n  \"dim\": 8,\n  \"rope_theta\": 1e6\n}");
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
