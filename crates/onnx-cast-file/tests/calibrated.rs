//! Activations of quantized checkpoints: scales that data has told, what is left over when weights become plain, and what
//! changes weights beside their scales.

use onnx_cast::DataType;
use onnx_cast_file::{
    CandidateFormat, CastRequest, DequantizeRequest, DiffRequest, InspectRequest, ReportRequest, Scheme, Summary,
    TranscodeRequest, cast_file, dequantize_file, diff, inspect, report, transcode_file,
};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A tensor: name, type, shape and bytes.
type Stored = (String, Dtype, Vec<usize>, Vec<u8>);

fn floats(name: &str, shape: &[usize], values: &[f32]) -> Stored {
    (name.to_owned(), Dtype::F32, shape.to_vec(), values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn codes(name: &str, shape: &[usize]) -> Stored {
    (name.to_owned(), Dtype::F8_E4M3, shape.to_vec(), vec![0x38; shape.iter().product()])
}

fn text(name: &str, text: &str) -> Stored {
    (name.to_owned(), Dtype::U8, vec![text.len()], text.as_bytes().to_vec())
}

/// A folder of its own with a checkpoint in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(config: &str, tensors: &[Stored]) -> Folder {
        Folder::with_metadata(config, tensors, None)
    }

    fn with_metadata(config: &str, tensors: &[Stored], metadata: Option<(&str, &str)>) -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        fs::create_dir(folder.path("in")).expect("a folder");
        let views = tensors.iter().map(|(name, data_type, shape, bytes)| {
            (name.clone(), TensorView::new(*data_type, shape.clone(), bytes).expect("a tensor"))
        });
        let metadata = metadata.map(|(key, value)| [(key.to_owned(), value.to_owned())].into());
        safetensors::serialize_to_file(views, metadata, &folder.path("in/model.safetensors")).expect("written");
        fs::write(folder.path("in/config.json"), config).expect("written");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The tensors of a file: types, shapes and bytes.
fn read(path: &Path) -> BTreeMap<String, (Dtype, Vec<usize>, Vec<u8>)> {
    let bytes = fs::read(path).expect("a file");
    let tensors = SafeTensors::deserialize(&bytes).expect("a checkpoint");
    let tensors = tensors.tensors().into_iter();
    tensors.map(|(name, view)| (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()))).collect()
}

const FP8: &str =
    r#"{"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"}}"#;

fn weight() -> Vec<Stored> {
    vec![codes("m.weight", &[4, 4]), floats("m.weight_scale", &[], &[0.5])]
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

/// Asserts that each job that reads weights refuses them with the same words.
#[track_caller]
fn refused(folder: &Folder, want: &str) {
    let (input, output) = (folder.path("in"), folder.path("out"));
    let to = vec![CandidateFormat::Bare(DataType::Float16)];
    let by_value = DiffRequest { by_value: true, ..DiffRequest::default() };
    let failures = [
        ("dequantize", dequantize_file(&input, &output, &DequantizeRequest::new(DataType::Float)).map(drop)),
        ("transcode", transcode_file(&input, &output, &TranscodeRequest::new(Scheme::Plain)).map(drop)),
        ("report", report(&input, &ReportRequest { to, ..ReportRequest::default() }).map(drop)),
        ("diff", diff(&input, &input, &by_value).map(drop)),
    ];
    for (job, done) in failures {
        let error = done.expect_err(want).to_string();
        assert!(error.contains(want) && !output.exists(), "{job}: {error}");
    }
    let found = inspect(&input, &InspectRequest::default()).expect("listed").quantized.expect("quantized weights");
    assert!(found.warning.is_some_and(|warning| warning.contains(want)), "info: {want}");
}

#[test]
fn what_changes_weights_beside_their_scales_is_refused() {
    for name in [
        "m.pre_quant_scale",
        "m.act_scales",
        "m.act.scales",
        "m.lora_A.weight",
        "m.lora_down",
        "m.svdquant_lora_b",
        "m.smooth_factor",
    ] {
        let folder = Folder::new(FP8, &[weight(), vec![floats(name, &[4], &[1.0; 4])]].concat());
        refused(&folder, &format!("tensor `{name}` changes the weights beside it"));
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
    let dry = DequantizeRequest { run: all.run.clone().dry_run(true), ..all.clone() };
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
    let done = run(&DequantizeRequest { selection, ..all }, "kept");
    assert_eq!((done.dropped.len(), done.dropped_text()), (0, None));
    assert_eq!(read(&folder.path("kept/model.safetensors")).len(), tensors.concat().len());
}
