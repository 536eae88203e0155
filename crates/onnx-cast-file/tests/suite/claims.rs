//! Claims of configurations that the tensors, or another configuration, contradict, and options that change nothing.

use crate::common::folder;
use crate::common::replacing::{dequantize_file, quantize_file, transcode_file};

use folder::{FP8, Folder, all, codes, float, floats, values, weight};
use onnx_cast::DataType;
use onnx_cast::scaled::{BlockFormat, ScaleRule};
use onnx_cast_file::{
    Activations, CandidateFormat, DequantizeRequest, Granularity, InspectRequest, Layout, QuantizeRequest,
    QuantizedFormat, ReportRequest, Selection, TranscodeRequest, inspect, report,
};
use safetensors::Dtype;
use std::fs;
use std::path::Path;

/// A configuration of compressed-tensors with one group.
fn compressed(weights: &str, activations: &str) -> String {
    format!(
        r#"{{"quantization_config": {{"quant_method": "compressed-tensors", "config_groups": {{"group_0": {{
        "targets": ["Linear"], "input_activations": {activations}, "weights": {weights}}}}}}}}}"#
    )
}

#[track_caller]
fn transcoding_is_refused(folder: &Folder, to: &TranscodeRequest, want: &str) {
    let error = transcode_file(folder.path("in"), folder.path("out"), to).expect_err(want).to_string();
    assert!(error.contains(want), "{error}");
    assert!(!folder.path("out").exists());
}

#[test]
fn a_scale_of_activations_without_a_reciprocal_is_refused() {
    let tensors = |scale: f32| {
        [
            ("m.weight".to_owned(), Dtype::U8, vec![4, 8], vec![0x22; 32]),
            codes("m.weight_scale", &[4, 1]),
            floats("m.weight_scale_2", &[], &[1.0]),
            floats("m.input_scale", &[], &[scale]),
        ]
    };
    let config = FP8.replace("FP8", "NVFP4");
    let to = TranscodeRequest::new(Layout::CompressedTensors);
    for scale in [1e-40, f32::from_bits(1)] {
        let folder = Folder::new(&config, &tensors(scale));
        let want = "tensor `m.input_scale`: compressed-tensors cannot store it: its reciprocal is beyond the range";
        transcoding_is_refused(&folder, &to, want);
    }
    let folder = Folder::new(&config, &tensors(1e-38));
    transcode_file(folder.path("in"), folder.path("out"), &to).expect("transcoded");
    let divisor = float(&all(&folder.path("out")), "m.input_global_scale");
    assert_eq!(divisor.to_bits(), (1.0 / 1e-38f32).to_bits());
}

#[test]
fn joined_matrices_have_scales_of_activations_together() {
    let mut tensors = Vec::new();
    for name in ["q_proj", "k_proj", "v_proj", "o_proj"] {
        tensors.push(codes(&format!("a.{name}.weight"), &[4, 16]));
        tensors.push(floats(&format!("a.{name}.weight_scale"), &[1], &[0.5]));
    }
    let to = TranscodeRequest::new(Layout::CompressedTensors);
    let with = |names: &[&str]| {
        let scales = names.iter().map(|name| floats(&format!("a.{name}.input_scale"), &[1], &[0.25]));
        Folder::new(FP8, &tensors.iter().cloned().chain(scales).collect::<Vec<_>>())
    };
    let want = "tensor `a.k_proj.weight`: the inputs of `a.q_proj.weight` have a scale, but its own do not: loaders \
                fuse both (`activations` drops the calibrated scales of activations)";
    transcoding_is_refused(&with(&["q_proj"]), &to, want);
    let want = "tensor `a.k_proj.weight`: the inputs of `a.v_proj.weight` have a scale";
    transcoding_is_refused(&with(&["v_proj", "o_proj"]), &to, want);
    let want = "tensor `a.v_proj.weight`: the inputs of `a.k_proj.weight` have a scale";
    transcoding_is_refused(&with(&["k_proj", "q_proj"]), &to, want);
    for names in [&["o_proj"][..], &["q_proj", "k_proj", "v_proj"], &[]] {
        let folder = with(names);
        transcode_file(folder.path("in"), folder.path("out"), &to).expect("all or none of them");
    }
    let folder = with(&["q_proj"]);
    let dynamic = to.activations(Some(Activations::Dynamic));
    let done = transcode_file(folder.path("in"), folder.path("out"), &dynamic).expect("left out");
    assert_eq!(done.dropped, ["a.q_proj.input_scale"]);
}

#[test]
fn zero_points_that_are_claimed_have_to_be_there() {
    let weights = |symmetric: &str| {
        format!(
            r#"{{"num_bits": 8, "type": "int", "strategy": "channel", "group_size": null, "symmetric": {symmetric}}}"#
        )
    };
    let mut tensors = vec![
        ("m.weight".to_owned(), Dtype::I8, vec![4, 16], vec![3; 64]),
        floats("m.weight_scale", &[4, 1], &[0.5, 0.5, 0.5, 0.5]),
    ];
    let asymmetric = compressed(&weights("false"), "null");
    let want = "tensor `m.weight`: the tensor of zero points (`symmetric` is false in the configuration) is missing \
                (want \
                `m.weight_zero_point`)";
    let refused = |config: &str| {
        let folder = Folder::new(config, &tensors);
        transcoding_is_refused(&folder, &TranscodeRequest::new(Layout::Plain), want);
        let float = DequantizeRequest::new(DataType::Float);
        let error = dequantize_file(folder.path("in"), folder.path("out"), &float).expect_err(want).to_string();
        assert!(error.contains(want) && !folder.path("out").exists(), "{error}");
        let found = inspect(folder.path("in"), &InspectRequest::default()).expect("listed").quantized;
        let warning = found.and_then(|found| found.warning).expect(want).to_string();
        assert!(warning.contains(want), "{warning}");
    };
    refused(&asymmetric);
    // Nothing is claimed where one group has zero points and another has none, unless a group names the layer.
    let group = |targets: &str, symmetric: &str| {
        format!(r#"{{"targets": [{targets}], "input_activations": null, "weights": {}}}"#, weights(symmetric))
    };
    let two = |targets: &str| {
        format!(
            r#"{{"quantization_config": {{"quant_method": "compressed-tensors", "config_groups":
            {{"a": {}, "b": {}}}}}}}"#,
            group(targets, "false"),
            group("\"Linear\"", "true")
        )
    };
    refused(&two("\"m\""));
    for config in [two("\"n\""), compressed(&weights("true"), "null")] {
        let folder = Folder::new(&config, &tensors);
        dequantize_file(folder.path("in"), folder.path("out"), &DequantizeRequest::new(DataType::Float)).expect("read");
    }
    tensors.push(("m.weight_zero_point".to_owned(), Dtype::I8, vec![4, 1], vec![1; 4]));
    let folder = Folder::new(&asymmetric, &tensors);
    dequantize_file(folder.path("in"), folder.path("out"), &DequantizeRequest::new(DataType::Float)).expect("read");
    let (_, _, bytes) = &all(&folder.path("out"))["m.weight"];
    assert_eq!(bytes[..4], 1f32.to_le_bytes());
}

#[test]
fn configurations_of_modelopt_agree() {
    let with_own = |config: &str, own: &str| {
        let folder = Folder::new(config, &weight());
        let own = format!(r#"{{"producer": {{"name": "modelopt"}}, "quantization": {{{own}}}}}"#);
        fs::write(folder.path("in/hf_quant_config.json"), own).expect("written");
        folder
    };
    for (own, want) in [
        (
            r#""quant_algo": "NVFP4""#,
            r#"`quant_algo` is "NVFP4" here, and "FP8" by `quantization_config` of config.json"#,
        ),
        (r#""quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4""#, r#"`kv_cache_quant_algo` is "NVFP4" here, and "#),
        (r#""quant_algo": "FP8", "group_size": 16"#, "`group_size` is 16 here, and 32 by"),
        (
            r#""quant_algo": "FP8", "quantized_layers": {"m": {"quant_algo": "NVFP4"}}"#,
            r#"`m` is "NVFP4" here, and "FP8" by"#,
        ),
        (
            r#""quant_algo": "FP8", "exclude_modules": ["lm_head", "*.3.mlp.*", "model.layers.1.mlp.up_proj"]"#,
            "`exclude_modules` is with `model.layers.1.mlp.up_proj` here, and without `model.layers.1.mlp.up_proj` by",
        ),
        (
            r#""quant_algo": "FP8", "modules_to_not_convert": ["model.layers.3.mlp.down_proj"]"#,
            "`modules_to_not_convert` is without `lm_head` here, and with `lm_head` by",
        ),
    ] {
        let more = r#""kv_cache_scheme": {"type": "float", "num_bits": 8, "dynamic": false}, "group_size": 32,
                      "ignore": ["lm_head", "model.layers.3.mlp.down_proj"], "quantized_layers": {"m": {"quant_algo": "FP8"}}, "#;
        let config = FP8.replace(r#""quant_method""#, &format!(r#"{more}"quant_method""#));
        let folder = with_own(&config, own);
        let error = dequantize_file(folder.path("in"), folder.path("out"), &DequantizeRequest::new(DataType::Float));
        let error = error.expect_err(want).to_string();
        assert!(error.contains(want) && error.contains("hf_quant_config.json"), "{error}");
        let given = DequantizeRequest::new(DataType::Float).layout(Some(Layout::ModelOpt));
        dequantize_file(folder.path("in"), folder.path("out"), &given).expect("the tensors decide");
    }
    let stale = r#"{"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {}}}"#;
    let error = dequantize_file(
        with_own(stale, r#""quant_algo": "FP8""#).path("in"),
        Path::new("none"),
        &DequantizeRequest::new(DataType::Float),
    );
    let error = error.expect_err("another layout").to_string();
    assert!(error.contains(r#"is "FP8" here, and "compressed-tensors (quant_method)" by"#), "{error}");
    for own in [r#""quant_algo": "fp8", "kv_cache_quant_algo": null"#, r#""exclude_modules": ["lm_head"]"#] {
        let folder = with_own(FP8, own);
        dequantize_file(folder.path("in"), folder.path("out"), &DequantizeRequest::new(DataType::Float)).expect("read");
    }
}

#[test]
fn rules_for_scales_are_for_formats_that_have_them() {
    let folder = Folder::new("{}", &[values("model.layers.0.mlp.up_proj.weight", &[32, 128])]);
    let nvfp4 = QuantizedFormat::Block(BlockFormat::NvFp4);
    for to in [nvfp4, QuantizedFormat::Elements(DataType::Int4), QuantizedFormat::Elements(DataType::Float8E4M3FN)] {
        let request = QuantizeRequest::new(to).scale_rule(Some(ScaleRule::Even));
        let want = format!("`scale_rule` is for formats of MX, as mxfp4: it changes no scale of {to}");
        let error = quantize_file(folder.path("in"), folder.path("out"), &request).expect_err("no such scales");
        assert!(error.to_string().ends_with(&want) && !folder.path("out").exists(), "{error}");
        // The default is accepted.
        let request = request.scale_rule(Some(ScaleRule::Floor));
        quantize_file(folder.path("in"), folder.path(&format!("{to}")), &request).expect("quantized");
        let candidates = match to {
            QuantizedFormat::Elements(data_type) => CandidateFormat::Elements(data_type, Granularity::Row),
            _ => CandidateFormat::Block(BlockFormat::NvFp4),
        };
        let to_report = ReportRequest::default().to(vec![candidates]).scale_rule(Some(ScaleRule::Even));
        let error = report(folder.path("in"), &to_report).expect_err("no such scales").to_string();
        assert!(error.ends_with(&want), "{error}");
        // One of several formats has such scales.
        let mixed = "re:up_proj=mxfp4".parse().expect("a rule");
        let selection = Selection { rules: vec![mixed], ..Selection::new(to.into()) };
        quantize_file(folder.path("in"), folder.path("out"), &request.selection(selection)).expect("quantized");
        fs::remove_dir_all(folder.path("out")).expect("removed");
    }
}

/// Sizes that are given before and after are those of the files.
#[test]
fn transcoding_counts_each_byte_of_the_input_once() {
    let bytes = |folder: &Path| all(folder).values().map(|(_, _, bytes)| bytes.len() as u64).sum::<u64>();
    for (to, layout, next, format) in [
        (QuantizedFormat::Elements(DataType::Int4), Layout::CompressedTensors, Layout::Plain, None),
        (QuantizedFormat::Elements(DataType::Int4), Layout::CompressedTensors, Layout::CompressedTensors, None),
        (QuantizedFormat::Elements(DataType::Int8), Layout::Plain, Layout::CompressedTensors, None),
        (
            QuantizedFormat::Block(BlockFormat::MxFp4),
            Layout::CompressedTensors,
            Layout::ModelOpt,
            Some(QuantizedFormat::Block(BlockFormat::NvFp4)),
        ),
        (QuantizedFormat::Elements(DataType::Float8E4M3FN), Layout::Plain, Layout::ComfyUi, None),
    ] {
        let folder = Folder::new("{}", &[values("model.layers.0.mlp.up_proj.weight", &[32, 128])]);
        let granularity = match (to, next) {
            (_, Layout::ComfyUi) => Some(Granularity::Tensor),
            (QuantizedFormat::Elements(DataType::Int8), _) => Some(Granularity::Row),
            _ => None,
        };
        let request = QuantizeRequest::new(to.by(granularity)).layout(Some(layout));
        quantize_file(folder.path("in"), folder.path("middle"), &request).expect("quantized");
        let request = TranscodeRequest::new(next).to(format);
        let done = transcode_file(folder.path("middle"), folder.path("out"), &request).expect("transcoded");
        let after: u64 = done.tensors.iter().map(|row| row.bytes_after).sum();
        assert_eq!(after, bytes(&folder.path("out")), "{to} to {next:?}");
        let lost = match (to, next) {
            // `weight_shape` becomes nothing.
            (QuantizedFormat::Elements(DataType::Int4), Layout::Plain) => 16,
            _ => 0,
        };
        assert_eq!(done.bytes_before() + lost, bytes(&folder.path("middle")), "{to} to {next:?}");
    }
}

/// Loaders take one global scale for matrices that they join. Values cannot change here, so that it is said.
#[test]
fn global_scales_that_differ_in_joined_matrices_are_noted() {
    let tensors = [("gate_proj", 1.0f32), ("up_proj", 2.0), ("down_proj", 3.0)]
        .map(|(name, most)| floats(&format!("model.layers.0.mlp.{name}.weight"), &[64, 64], &[most; 64 * 64]));
    for (layout, want) in [(Layout::Plain, 1), (Layout::CompressedTensors, 0)] {
        let folder = Folder::new(r#"{"model_type":"llama"}"#, &tensors);
        let [plain, quantized, out] = ["in", "quantized", "out"].map(|name| folder.path(name));
        let request = QuantizeRequest::new(QuantizedFormat::Block(BlockFormat::NvFp4)).layout(Some(layout));
        quantize_file(&plain, &quantized, &request).expect("quantized");
        let done = transcode_file(&quantized, &out, &TranscodeRequest::new(Layout::ModelOpt)).expect("transcoded");
        // The last note says whether loaders would read the output.
        let notes: Vec<&String> = done.notes.iter().filter(|note| !note.contains("`check`")).collect();
        assert_eq!(notes.len(), want, "{:?}", done.notes);
        let [first, second] = ["gate_proj", "up_proj"].map(|name| format!("model.layers.0.mlp.{name}.weight"));
        for note in notes {
            let both = [format!("`{first}` and `{second}`"), format!("`{second}` and `{first}`")];
            assert!(both.iter().any(|both| note.starts_with(both)) && note.contains("global scale"), "{note}");
        }
    }
}
