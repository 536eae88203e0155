//! Activations of quantized checkpoints: scales that data has told, what is left over when weights become plain, and
//! what changes weights beside their scales.

use crate::common::folder;
use crate::common::replacing::{cast_file, dequantize_file, quantize_file, transcode_file};

use folder::{FP8, Folder, Stored, all, codes, float, floats, json, read, refused, values, weight};
use onnx_cast::DataType;
use onnx_cast::scaled::BlockFormat;
use onnx_cast_file::{
    Activations, CastRequest, DequantizeRequest, DiffRequest, Granularity, InspectRequest, Layout, QuantizeRequest,
    QuantizedFormat, Summary, TranscodeRequest, diff, inspect,
};
use safetensors::Dtype;
use std::fs;
use std::path::{Path, PathBuf};

fn text(name: &str, text: &str) -> Stored {
    (name.to_owned(), Dtype::U8, vec![text.len()], text.as_bytes().to_vec())
}

#[test]
fn numbers_that_json_lacks_stay_in_configurations() {
    let limits = r#""time_step_limit": [0.0, Infinity], "low": -Infinity, "none": NaN"#;
    let config = FP8.replacen('{', &format!("{{{limits}, "), 1);
    let folder = Folder::new(&config, &weight());
    dequantize_file(folder.path("in"), folder.path("out"), &DequantizeRequest::new(DataType::BFloat16)).expect("read");
    let plain = fs::read_to_string(folder.path("out/config.json")).expect("a configuration");
    for want in ["\"time_step_limit\": [0.0, Infinity]", "\"low\": -Infinity", "\"none\": NaN"] {
        assert!(plain.contains(want), "{plain}");
    }
    assert!(!plain.contains("quant"), "{plain}");
    cast_file(folder.path("out"), folder.path("half"), &CastRequest::new(DataType::Float16)).expect("cast");
    let half = fs::read_to_string(folder.path("half/config.json")).expect("a configuration");
    assert_eq!(half, plain.replace("bfloat16", "float16"));
}

/// Loaders would compute otherwise, though no weight has changed.
#[test]
fn activations_that_stay_behind_are_noted() {
    let tensors = [
        ("m.weight_packed".to_owned(), Dtype::U8, vec![4, 8], vec![0x22; 32]),
        codes("m.weight_scale", &[4, 1]),
        floats("m.weight_global_scale", &[1], &[1.0]),
    ];
    let config = |activations: &str| {
        format!(
            r#"{{"quantization_config": {{"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
            "config_groups": {{"group_0": {{"targets": ["Linear"], "input_activations": {activations}, "weights":
            {{"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group", "symmetric": true}}}}}}}}}}"#
        )
    };
    let activations =
        r#"{"num_bits": 4, "type": "float", "group_size": 16, "strategy": "tensor_group", "dynamic": "local"}"#;
    let to = TranscodeRequest::new(Layout::ModelOpt);
    let notes = |activations: &str, to: &TranscodeRequest| {
        let folder = Folder::new(&config(activations), &tensors);
        transcode_file(folder.path("in"), folder.path("out"), to).expect("transcoded").notes
    };
    let want = "the inputs of `m.weight` are quantized by the configuration, but not in the output";
    assert_eq!(notes(activations, &to), [want]);
    assert!(notes("null", &to).is_empty());
    assert!(notes(activations, &to.activations(Some(Activations::Kept))).is_empty(), "asked for");
    // The other way around: a layout without a configuration says nothing, and another quantizes by default.
    let folder = Folder::new(FP8, &[weight()].concat());
    let plain = folder.path("plain");
    transcode_file(folder.path("in"), &plain, &TranscodeRequest::new(Layout::Plain)).expect("transcoded");
    let back = transcode_file(&plain, folder.path("back"), &TranscodeRequest::new(Layout::CompressedTensors));
    let notes = back.expect("transcoded").notes;
    assert!(
        notes.iter().any(|note| note.ends_with("are quantized in the output, but not by the configuration")),
        "{notes:?}"
    );
}

#[test]
fn what_changes_weights_beside_their_scales_is_refused() {
    for name in ["m.pre_quant_scale", "m.act_scales", "m.act.scales", "m.svdquant_lora_b", "m.smooth_factor"] {
        let folder = Folder::new(FP8, &[weight(), vec![floats(name, &[4], &[1.0; 4])]].concat());
        refused(&folder, &format!("tensor `{name}`: it changes the weights beside it"));
    }
    let config = |more: &str| FP8.replace("\"quant_algo\"", &format!("{more}, \"quant_algo\""));
    for (key, value) in [
        ("transform_config", r#"{"config_groups": {"u": {"type": "hadamard", "apply": []}}}"#),
        ("rotation_config", r#"{"block_size": 32}"#),
        ("rotation_config", r#""quarot_hadamard""#),
    ] {
        let folder = Folder::new(&config(&format!("\"{key}\": {value}")), &weight());
        refused(&folder, &format!("`{key}` of the configuration changes the weights or their inputs"));
    }
    // ComfyUI has a format for each layer, in a tensor or in the file's metadata.
    let rotated = r#"{"format": "float8_e4m3fn", "convrot": true, "convrot_groupsize": 256}"#;
    let folder = Folder::new("{}", &[weight(), vec![text("m.comfy_quant", rotated)]].concat());
    refused(&folder, "`convrot` of the configuration");
    let layers = format!(r#"{{"layers": {{"m": {rotated}}}}}"#);
    let folder = Folder::with_metadata("{}", &weight(), Some(("_quantization_metadata", &layers)));
    refused(&folder, "`convrot` of the configuration");
    // Empty ones change nothing.
    for value in ["null", "{}", r#"{"config_groups": {}}"#] {
        let folder = Folder::new(&config(&format!("\"transform_config\": {value}")), &weight());
        let done = dequantize_file(folder.path("in"), folder.path("out"), &DequantizeRequest::new(DataType::Float));
        assert_eq!(done.expect(value).tensors.len(), 1);
    }
}

#[test]
fn what_only_quantized_weights_have_a_use_for_goes_with_them() {
    let scales = ["m.input_scale", "m.activation_scale", "m.k_scale", "a.k_proj.k_scale", "a.kv_scale", "a.q_scale"];
    let tensors = [
        weight(),
        scales.iter().map(|name| floats(name, &[1], &[0.25])).collect(),
        vec![text("m.comfy_quant", "{}"), text("m.weight_format", "x"), floats("m.bias", &[4], &[1.0; 4])],
    ];
    let folder = Folder::new(FP8, &tensors.concat());
    let run = |request: &DequantizeRequest, name: &str| -> Summary {
        dequantize_file(folder.path("in"), folder.path(name), request).expect("plain")
    };
    let mut want: Vec<String> = scales.iter().map(|name| (*name).to_owned()).collect();
    want.sort();
    let all = DequantizeRequest::new(DataType::BFloat16);
    let dry = all.clone().run(all.run.clone().dry_run(true));
    for (request, name) in [(&dry, "dry"), (&all, "out")] {
        let mut done = run(request, name);
        let said = done.dropped_text();
        assert!(said.is_some_and(|said| said.starts_with("6 scales of activations are left out (first tensor `")));
        done.dropped.sort();
        assert_eq!(done.dropped, want);
    }
    assert!(read(&folder.path("out/model.safetensors")).keys().eq(["m.bias", "m.weight"]));
    // A weight that stays quantized keeps them.
    let selection = onnx_cast_file::Selection {
        exclude: vec!["m.weight".parse().expect("a pattern")],
        ..onnx_cast_file::Selection::new(DataType::BFloat16)
    };
    let done = run(&all.selection(selection), "kept");
    assert_eq!((done.dropped.len(), done.dropped_text()), (0, None));
    assert_eq!(read(&folder.path("kept/model.safetensors")).len(), tensors.concat().len());
}

/// The folders of the stored checkpoints, without what is expected of them.
fn stored(name: &str, to: &Path) -> PathBuf {
    let from = testkit::checkpoints::folder(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name != "expected.safetensors" && name != "original.safetensors") {
            fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
        }
    }
    to.to_owned()
}

fn strings(value: &serde_json::Value) -> Vec<String> {
    let mut strings: Vec<String> = serde_json::from_value(value.clone()).expect("texts");
    strings.sort();
    strings
}

/// Names, types, shapes and bytes of each tensor, scales of activations too, and what both configurations say.
#[test]
fn modelopt_is_written_as_its_owner_exports_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["modelopt-fp8", "modelopt-fp8-channel", "modelopt-fp8-blocks", "modelopt-nvfp4", "modelopt-mxfp8"] {
        let (input, output) = (stored(name, &folder.path().join(name)), folder.path().join(format!("{name}-out")));
        transcode_file(&input, &output, &TranscodeRequest::new(Layout::ModelOpt)).expect(name);
        assert!(all(&input) == all(&output), "{name}");
        for (file, key, kept, cache) in [
            ("config.json", "quantization_config", "ignore", "kv_cache_scheme"),
            ("hf_quant_config.json", "quantization", "exclude_modules", "kv_cache_quant_algo"),
        ] {
            let [ours, owners] = [&output, &input].map(|folder| json(&folder.join(file))[key].clone());
            let algorithm = owners["quant_algo"].as_str().expect("an algorithm").to_ascii_uppercase();
            assert_eq!(ours["quant_algo"], algorithm, "{name}: {file}");
            assert_eq!(ours[cache], owners[cache], "{name}: {file}");
            assert_eq!(strings(&ours[kept]), strings(&owners[kept]), "{name}: {file}");
            let size = &ours["group_size"];
            assert!(owners["group_size"].is_null() || *size == owners["group_size"], "{name}: {file}: {size}");
        }
    }
    // What its rows stand for has the owner's codes and scales.
    let input = folder.path().join("modelopt-fp8-channel");
    let [plain, again] = ["plain", "again"].map(|name| folder.path().join(name));
    dequantize_file(&input, &plain, &DequantizeRequest::new(DataType::Float)).expect("plain");
    let request = QuantizeRequest::new(FLOAT8).layout(Some(Layout::ModelOpt));
    quantize_file(&plain, &again, &request).expect("quantized");
    assert!(all(&input) == all(&again));
}

const FLOAT8: QuantizedFormat = QuantizedFormat::Elements(DataType::Float8E4M3FN);
const INT8: QuantizedFormat = QuantizedFormat::Elements(DataType::Int8);
const NVFP4: QuantizedFormat = QuantizedFormat::Block(BlockFormat::NvFp4);
const MXFP4: QuantizedFormat = QuantizedFormat::Block(BlockFormat::MxFp4);

#[test]
fn blocks_of_modelopt_have_four_axes_and_whole_columns() {
    let tensors = [values("a.q_proj.weight", &[200, 384]), values("a.k_proj.weight", &[64, 128])];
    let folder = Folder::new("{}", &tensors);
    let granularity = Some(Granularity::Block([128, 128]));
    let request = QuantizeRequest::new(FLOAT8.by(granularity)).layout(Some(Layout::ModelOpt));
    quantize_file(folder.path("in"), folder.path("out"), &request).expect("quantized");
    let (got, config) = (all(&folder.path("out")), json(&folder.path("out/config.json")));
    assert_eq!(got["a.q_proj.weight_scale"].1, [2, 1, 3, 1]);
    assert_eq!(got["a.k_proj.weight_scale"].1, [1, 1, 1, 1]);
    assert_eq!(config["quantization_config"]["quant_algo"], "FP8_PB_WO");
    let own = request.clone().layout(Some(Layout::DeepSeek));
    quantize_file(folder.path("in"), folder.path("squares"), &own).expect("quantized");
    let squares = all(&folder.path("squares"));
    assert!(squares["a.q_proj.weight_scale_inv"].2 == got["a.q_proj.weight_scale"].2);
    let by_value = DiffRequest::default().values(true);
    assert!(diff(folder.path("out"), folder.path("squares"), &by_value).expect("compared").is_empty());
    // vLLM refuses other columns.
    let folder = Folder::new("{}", &[values("a.q_proj.weight", &[128, 160])]);
    let error = quantize_file(folder.path("in"), folder.path("out"), &request).map(drop);
    assert!(error.is_err() && !folder.path("out").exists(), "{error:?}");
}

/// Whether vLLM 0.33.0 takes a module for excluded (`ModelOptQuantConfigBase.is_layer_excluded`): by its name, a part
/// of it, or a pattern; and SGLang 0.5.23 (`ModelOptQuantConfig.is_layer_excluded`): by a pattern for the name, or for
/// a part between points.
fn excluded(module: &str, patterns: &[String]) -> [bool; 2] {
    let expression = |pattern: &str| pattern.replace('.', "\\.").replace('*', ".*");
    let fits = |pattern: &str, name: &str| {
        regex::Regex::new(&format!("^(?:{})$", expression(pattern))).expect("a pattern").is_match(name)
    };
    let vllm = patterns.iter().any(|pattern| module.contains(&**pattern) || fits(pattern, module));
    let is_part = |pattern: &String| module.split('.').any(|part| fits(pattern, part));
    [vllm, patterns.iter().any(|pattern| fits(pattern, module) || is_part(pattern))]
}

#[test]
fn loaders_of_modelopt_exclude_what_is_kept_and_nothing_else() {
    let names = ["model.layers.1.mlp.gate_proj", "model.layers.1.mlp.up_proj", "model.layers.11.mlp.gate_proj"];
    let kept = ["lm_head", "model.layers.1.mlp.gate", "model.embed_tokens"];
    let tensors: Vec<Stored> =
        names.iter().chain(&kept).map(|name| values(&format!("{name}.weight"), &[32, 64])).collect();
    let folder = Folder::new("{}", &tensors);
    for to in [NVFP4, FLOAT8] {
        let request = QuantizeRequest::new(to).layout(Some(Layout::ModelOpt));
        let output = folder.path(to.name());
        quantize_file(folder.path("in"), &output, &request).expect("quantized");
        let ignored = strings(&json(&output.join("config.json"))["quantization_config"]["ignore"]);
        let own = strings(&json(&output.join("hf_quant_config.json"))["quantization"]["exclude_modules"]);
        assert_eq!(ignored, own);
        for name in kept {
            assert_eq!(excluded(name, &ignored), [true; 2], "{name} by {ignored:?}");
        }
        for name in names.iter().chain(&["model.layers.1.mlp.gate_up_proj"]) {
            assert_eq!(excluded(name, &ignored), [false; 2], "{name} by {ignored:?}");
        }
    }
}

#[test]
fn what_no_loader_reads_is_refused() {
    let folder = Folder::new("{}", &[values("a.q_proj.weight", &[128, 128])]);
    let (ct, modelopt) = (Layout::CompressedTensors, Layout::ModelOpt);
    let (dynamic, none) = (Some(Activations::Dynamic), Some(Activations::Kept));
    let block = |columns| Some(Granularity::Block([1, columns]));
    for (layout, to, granularity, activations, want) in [
        (
            modelopt,
            MXFP4,
            None,
            None,
            "modelopt does not support mxfp4: vLLM and SGLang refuse it (want the layout \
         compressed-tensors or quark)",
        ),
        (
            modelopt,
            FLOAT8,
            Some(Granularity::Tensor),
            None,
            "modelopt does not support float8e4m3fn: loaders of its float8e4m3fn/tensor need scales of activations, \
             which take calibration data (want float8e4m3fn/row)",
        ),
        (modelopt, FLOAT8, None, none, "loaders of its float8e4m3fn/row have activations dynamic, not none"),
        (
            Layout::DeepSeek,
            FLOAT8,
            None,
            none,
            "loaders of its float8e4m3fn/128x128 have activations dynamic, not none",
        ),
        (ct, NVFP4, None, dynamic, "loaders of its nvfp4/16 have activations none or static, not dynamic"),
        (
            ct,
            INT8,
            block(32),
            dynamic,
            "loaders of its int8/32 have activations none, not dynamic (want int8/row or int8/tensor)",
        ),
        (Layout::Fbgemm, FLOAT8, Some(Granularity::Tensor), None, "the layout has no float8e4m3fn/tensor"),
    ] {
        let request = QuantizeRequest::new(to.by(granularity)).layout(Some(layout)).activations(activations);
        let error = quantize_file(folder.path("in"), folder.path("out"), &request).expect_err(want).to_string();
        assert!(error.contains(want) && !folder.path("out").exists(), "{error}\nwant {want}");
    }
    for (layout, to, granularity, want) in [
        (ct, FLOAT8, None, &["vLLM", "SGLang", "transformers"][..]),
        (modelopt, FLOAT8, None, &["vLLM"]),
        (modelopt, NVFP4, None, &["vLLM", "SGLang"]),
        (modelopt, MXFP4, None, &[]),
        (Layout::Quark, NVFP4, None, &[]),
        (Layout::ComfyUi, FLOAT8, Some(Granularity::Tensor), &["ComfyUI"]),
    ] {
        assert_eq!(layout.loaders(to, granularity), want, "{} {to}", layout.name());
    }
}

#[test]
fn activations_are_dynamic_or_kept() {
    let folder = Folder::new("{}", &[values("a.q_proj.weight", &[256, 128])]);
    let (dynamic, none) = (Some(Activations::Dynamic), Some(Activations::Kept));
    let square = Some(Granularity::Block([128, 128]));
    for (index, (to, granularity, activations, format, strategy)) in [
        (FLOAT8, None, None, "float-quantized", "token"),
        (FLOAT8, Some(Granularity::Tensor), dynamic, "float-quantized", "token"),
        (FLOAT8, square, None, "float-quantized", "group"),
        (FLOAT8, square, none, "float-quantized", ""),
        (FLOAT8, None, none, "float-quantized", ""),
        (INT8, None, None, "pack-quantized", ""),
        (INT8, None, dynamic, "int-quantized", "token"),
        (INT8, Some(Granularity::Tensor), None, "int-quantized", "token"),
        (NVFP4, None, None, "nvfp4-pack-quantized", ""),
    ]
    .into_iter()
    .enumerate()
    {
        let [output, back, kept, want] =
            ["out", "back", "kept", "want"].map(|name| folder.path(&format!("{name}{index}")));
        let request = QuantizeRequest::new(to.by(granularity)).activations(activations);
        quantize_file(folder.path("in"), &output, &request).expect("quantized");
        let config = &json(&output.join("config.json"))["quantization_config"];
        let inputs = &config["config_groups"]["group_0"]["input_activations"];
        assert_eq!(
            (&config["format"], &config["config_groups"]["group_0"]["format"]),
            (&format.into(), &format.into())
        );
        if strategy.is_empty() {
            assert!(inputs.is_null(), "{inputs}");
        } else {
            let kind = if to == INT8 { "int" } else { "float" };
            let size = if strategy == "group" { serde_json::json!(128) } else { serde_json::Value::Null };
            let got =
                ["dynamic", "num_bits", "strategy", "symmetric", "type", "group_size"].map(|key| inputs[key].clone());
            assert_eq!(got, [true.into(), 8.into(), strategy.into(), true.into(), kind.into(), size], "{inputs}");
        }
        let tensors = all(&output);
        if format == "int-quantized" {
            let (scales, rows) = (&tensors["a.q_proj.weight_scale"].1, if granularity.is_none() { 256 } else { 1 });
            assert_eq!((tensors["a.q_proj.weight"].0, &tensors["a.q_proj.weight"].1), (Dtype::I8, &vec![256, 128]));
            assert!(scales.iter().product::<usize>() == rows && tensors.len() == 2, "{scales:?}");
        }
        // Whatever becomes of activations, weights have the same values.
        let plain = DequantizeRequest::new(DataType::Float);
        dequantize_file(&output, &back, &plain).expect("read back");
        quantize_file(folder.path("in"), &kept, &request.activations(none)).expect("quantized");
        dequantize_file(&kept, &want, &plain).expect("read back");
        assert!(all(&back) == all(&want), "{to} {granularity:?} {activations:?}");
        // Another run in the same layout keeps the settings.
        let again = folder.path(&format!("again{index}"));
        transcode_file(&output, &again, &TranscodeRequest::new(Layout::CompressedTensors)).expect("the same");
        assert!(all(&again) == tensors);
        assert_eq!(json(&again.join("config.json"))["quantization_config"]["config_groups"], config["config_groups"]);
    }
}

#[test]
fn scales_of_activations_are_carried_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let to = |layout| TranscodeRequest::new(layout);
    let layer = "model.layers.0";
    // A divisor in one layout is a factor in the other.
    let nvfp4 = stored("ct-nvfp4", &path("ct-nvfp4"));
    transcode_file(&nvfp4, path("modelopt"), &to(Layout::ModelOpt)).expect("modelopt");
    let (before, after) = (all(&nvfp4), all(&path("modelopt")));
    for module in ["mlp.down_proj", "self_attn.q_proj"] {
        let divisor = float(&before, &format!("{layer}.{module}.input_global_scale"));
        let name = format!("{layer}.{module}.input_scale");
        assert_eq!((float(&after, &name).to_bits(), &after[&name].1), ((1.0 / divisor).to_bits(), &vec![]));
    }
    assert_eq!(json(&path("modelopt/config.json"))["quantization_config"]["quant_algo"], "NVFP4");
    transcode_file(path("modelopt"), path("back"), &to(Layout::CompressedTensors)).expect("back");
    let back = all(&path("back"));
    assert!(back.keys().eq(before.keys()));
    assert_eq!(back[&format!("{layer}.mlp.down_proj.input_global_scale")].1, [1]);
    let inputs =
        |name: &str| json(&path(name))["quantization_config"]["config_groups"]["group_0"]["input_activations"].clone();
    let (ours, owners) = (inputs("back/config.json"), inputs("ct-nvfp4/config.json"));
    for key in ["dynamic", "group_size", "num_bits", "scale_dtype", "strategy", "symmetric", "type"] {
        assert_eq!(ours[key], owners[key], "{key}");
    }
    // Those of FP8 are factors everywhere; what is cached has other names.
    let fp8 = stored("ct-fp8-tensor", &path("ct-fp8"));
    transcode_file(&fp8, path("fp8"), &to(Layout::ModelOpt)).expect("modelopt");
    let (before, after) = (all(&fp8), all(&path("fp8")));
    for (ours, owners) in [
        ("mlp.up_proj.input_scale", "mlp.up_proj.input_scale"),
        ("self_attn.k_proj.k_scale", "self_attn.k_scale"),
        ("self_attn.v_proj.v_scale", "self_attn.v_scale"),
    ] {
        let (ours, owners) = (format!("{layer}.{ours}"), format!("{layer}.{owners}"));
        assert_eq!(float(&after, &ours).to_bits(), float(&before, &owners).to_bits(), "{ours}");
        assert_eq!((after[&ours].0, &after[&ours].1), (Dtype::F32, &vec![]), "{ours}");
    }
    let own = &json(&path("fp8/hf_quant_config.json"))["quantization"];
    assert_eq!((&own["quant_algo"], &own["kv_cache_quant_algo"]), (&"FP8".into(), &"FP8".into()));
    transcode_file(path("fp8"), path("fp8-back"), &to(Layout::CompressedTensors)).expect("back");
    assert!(all(&path("fp8-back")).keys().eq(before.keys()));
    let config = &json(&path("fp8-back/config.json"))["quantization_config"];
    assert_eq!(config["kv_cache_scheme"]["num_bits"], 8);
    assert_eq!(config["config_groups"]["group_0"]["input_activations"]["dynamic"], false);
    // Without a place they are refused, or left out where that is asked for.
    for (layout, want) in
        [(Layout::Quark, "quark cannot store it"), (Layout::Fbgemm, "activations dynamic, not static")]
    {
        let error = transcode_file(&fp8, path("no"), &to(layout)).expect_err(want).to_string();
        assert!(error.contains(want) && !path("no").exists(), "{error}");
        let request = to(layout).activations(Some(Activations::Dynamic));
        let done = transcode_file(&fp8, path(layout.name()), &request).expect("without them");
        assert_eq!(done.dropped.len(), 9);
        let left = all(&path(layout.name()));
        assert!(
            left.keys().all(|name| !name.contains("input_scale") && !name.contains("k_scale")),
            "{:?}",
            left.keys()
        );
    }
}

/// One file without a configuration beside it is read as it was written.
#[test]
fn a_single_file_tells_its_layout() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let tensors = [values("a.q_proj.weight", &[96, 64]), values("a.norm.weight", &[64])];
    let source = Folder::new("{\"torch_dtype\": \"float32\"}", &tensors);
    fs::copy(source.path("in/model.safetensors"), path("in.safetensors")).expect("copied");
    let mut count = 0;
    for (layout, name) in Layout::ALL {
        for to in QuantizedFormat::all() {
            for granularity in [None, Some(Granularity::Block([32, 48])), Some(Granularity::Block([1, 16]))] {
                let request = QuantizeRequest::new(to.by(granularity)).layout(Some(*layout));
                let _ = fs::remove_file(path("out.safetensors"));
                let Ok(_) = quantize_file(path("in.safetensors"), path("out.safetensors"), &request) else { continue };
                let what = format!("{name} {to} {granularity:?}");
                count += 1;
                let plain = DequantizeRequest::new(DataType::Float);
                dequantize_file(path("out.safetensors"), path("back.safetensors"), &plain).expect(&what);
                // As from a folder with a configuration.
                let _ = (fs::remove_dir_all(path("folder")), fs::remove_dir_all(path("plain")));
                quantize_file(source.path("in"), path("folder"), &request).expect(&what);
                let by_layout = plain.layout(Some(*layout));
                dequantize_file(path("folder"), path("plain"), &by_layout).expect(&what);
                assert!(read(&path("back.safetensors")) == all(&path("plain")), "{what}");
                let info = inspect(path("out.safetensors"), &InspectRequest::default()).expect(&what);
                let quantized = info.quantized.expect(&what);
                assert_eq!((quantized.layout, quantized.warning), (Some(*layout), None), "{what}");
                let by_value = DiffRequest::default().values(true);
                let found = diff(path("out.safetensors"), path("back.safetensors"), &by_value).expect(&what);
                assert!(found.is_empty(), "{what}: {found:?}");
                let same = TranscodeRequest::new(*layout);
                transcode_file(path("out.safetensors"), path("same.safetensors"), &same).expect(&what);
                assert!(read(&path("same.safetensors")) == read(&path("out.safetensors")), "{what}");
                let metadata = inspect(path("back.safetensors"), &InspectRequest::default()).expect(&what).metadata;
                assert!(metadata.iter().all(|(key, _)| !key.contains("quantization")), "{what}: {metadata:?}");
            }
        }
    }
    assert!(count > 30, "{count} of formats and layouts");
}

/// Metadata is believed no more than a configuration is.
#[test]
fn metadata_that_is_wrong_is_refused() {
    for (value, want) in [
        ("{", "not a JSON object"),
        ("[]", "not a JSON object"),
        (r#"{"quant_method": "mine"}"#, "`quant_method` is `mine`, which is not a known layout"),
        (r#"{"quant_method": "modelopt", "quant_algo": "NVFP4"}"#, "the configuration claims NVFP4"),
        (r#"{"quant_method": "modelopt", "transform_config": {"a": [1]}}"#, "`transform_config` of the configuration"),
    ] {
        let folder = Folder::with_metadata("{}", &weight(), Some(("quantization_config", value)));
        let done = dequantize_file(folder.path("in"), folder.path("out"), &DequantizeRequest::new(DataType::Float));
        let error = done.expect_err(value).to_string();
        assert!(error.contains(want) && !folder.path("out").exists(), "{value}: {error}");
    }
    // A configuration beside the file wins.
    let folder = Folder::with_metadata(FP8, &weight(), Some(("quantization_config", "{")));
    dequantize_file(folder.path("in"), folder.path("out"), &DequantizeRequest::new(DataType::Float)).expect("read");
}
