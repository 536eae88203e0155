//! `dequantize`, `quantize` and `transcode`: the checkpoints that they write can be loaded, and their options are those
//! of `cast`.

use crate::common::{done, refused, stderr, stdout, tensors};
use crate::files::Folder;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{NamedTensor, safetensors};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

fn checkpoint(name: &str) -> PathBuf {
    testkit::checkpoints::folder(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// A copy of a stored checkpoint in the folder `in`, with a tokenizer.
fn copy(folder: &Folder, name: &str) {
    fs::create_dir(folder.path("in")).expect("a folder");
    for entry in fs::read_dir(checkpoint(name)).expect("a folder") {
        let path = entry.expect("an entry").path();
        let file = path.file_name().expect("a name").to_str().expect("UTF-8");
        if !["expected.safetensors", "original.safetensors"].contains(&file) {
            folder.write(&format!("in/{file}"), fs::read(&path).expect("a file"));
        }
    }
    folder.write("in/tokenizer.json", "{}");
}

fn expected(name: &str) -> BTreeMap<String, Tensor> {
    by_name(tensors(fs::read(checkpoint(name).join("expected.safetensors")).expect("the weights")))
}

fn by_name(tensors: Vec<NamedTensor>) -> BTreeMap<String, Tensor> {
    tensors.into_iter().map(|one| (one.name, one.tensor)).collect()
}

fn json(folder: &Folder, name: &str) -> Value {
    serde_json::from_slice(&folder.read(name)).expect("JSON")
}

fn files(folder: &Folder, name: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.path(name)).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Loads a checkpoint in several files as libraries do: by the index.
fn load(folder: &Folder, name: &str) -> BTreeMap<String, Tensor> {
    let index = json(folder, &format!("{name}/model.safetensors.index.json"));
    let map = index["weight_map"].as_object().expect("a map");
    let mut all = BTreeMap::new();
    let mut total = 0;
    for file in files(folder, name).iter().filter(|file| file.ends_with(".safetensors")) {
        for NamedTensor { name: tensor, tensor: values } in tensors(folder.read(&format!("{name}/{file}"))) {
            assert_eq!(map.get(&tensor), Some(&file.as_str().into()), "{tensor}");
            total += values.bytes().expect("numbers").len();
            all.insert(tensor, values);
        }
    }
    assert_eq!(map.len(), all.len(), "weight_map names what is there");
    assert_eq!(index["metadata"]["total_size"], total, "total_size");
    all
}

/// A file of a float8 weight of ones and its scale.
fn scaled(folder: &Folder, name: &str, scale: f32) {
    let weight = Tensor::new(DataType::Float8E4M3FN, vec![1, 2], vec![0x38; 2]).expect("a tensor");
    let scale = Tensor::from_slice(vec![], &[scale]).expect("a tensor");
    let other = Tensor::from_slice(vec![1], &[0.1f32]).expect("a tensor");
    let all = [("a.weight", weight.view()), ("a.scale_weight", scale.view()), ("norm.bias", other.view())];
    folder.write(name, safetensors::write(None, &all).expect("bytes"));
}

#[test]
fn the_output_loads() {
    for name in ["deepseek", "gpt-oss", "ct-int4"] {
        let folder = Folder::new();
        copy(&folder, name);
        let said = stderr(&folder.run("dequantize in out --to bf16"));
        assert!(said.starts_with("in -> out, 1 other file copied: "), "{said}");
        assert!(load(&folder, "out") == expected(name), "{name}");
        let config = json(&folder, "out/config.json");
        assert!(config.get("quantization_config").is_none(), "{name}: {config}");
        let kinds: Vec<&Value> = ["torch_dtype", "dtype"].iter().filter_map(|key| config.get(key)).collect();
        assert_eq!(kinds, ["bfloat16"], "{name}");
        assert_eq!(folder.read("out/tokenizer.json"), b"{}");
        assert_eq!(done(&folder.run("dequantize in other --to bf16 -q --no-copy-others")), "");
        assert!(files(&folder, "other").iter().all(|file| file.contains(".safetensors")));
        // What is not quantized has no scales to lose.
        let said = stderr(&folder.run("dequantize out again --to bf16"));
        assert!(said.contains("no quantized weights"), "{said}");
    }
}

#[test]
fn a_plan_and_json() {
    let folder = Folder::new();
    copy(&folder, "deepseek");
    let plan = done(&folder.run("dequantize in out --to float --dry-run"));
    let row = "model.layers.0.mlp.down_proj.weight           float8e4m3fn    float  ";
    assert!(plan.contains(row) && plan.contains("total: 3 tensors (12072 elements) cast, 3 tensors"), "{plan}");
    assert!(!plan.contains("scale_inv") && plan.contains("1 other file would be copied"), "{plan}");
    let planned: Value =
        serde_json::from_str(&done(&folder.run("dequantize in out --to float --dry-run --json"))).expect("JSON");
    assert!(!folder.path("out").exists());
    let mut made: Value =
        serde_json::from_str(&done(&folder.run("dequantize in out --to float --json"))).expect("JSON");
    assert_eq!(made["dry_run"].take(), false);
    assert_eq!((&made["tensors"], &made["copied"]), (&planned["tensors"], &planned["copied"]));
    let down = made["tensors"]
        .as_array()
        .and_then(|rows| rows.iter().find(|row| row["name"] == "model.layers.0.mlp.down_proj.weight"));
    let down = down.expect("the weight");
    // 130x36 elements, and two scales.
    assert_eq!((&down["bytes_before"], &down["bytes_after"]), (&(130 * 36 + 8).into(), &(4 * 130 * 36).into()));
    assert_eq!(json(&folder, "out/config.json")["torch_dtype"], "float32");
}

#[test]
fn a_loss_writes_nothing() {
    let folder = Folder::new();
    scaled(&folder, "in.safetensors", 1e5);
    for options in ["", " --json", " --dry-run"] {
        let output =
            folder.run(&format!("dequantize in.safetensors out.safetensors --to float16 --fail-on overflow{options}"));
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(folder.names(), ["in.safetensors"]);
        if options == " --json" {
            let json: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
            assert_eq!(json["tensors"][0]["counts"]["overflowed"], 2);
        } else {
            let want = "onnx-cast: in.safetensors: tensor `a.weight`: overflow in 2 values cast to float16 (nothing \
                        is written)\n";
            assert_eq!(stderr(&output), want);
        }
    }
    let said = stderr(&folder.run("dequantize in.safetensors out.safetensors --to bf16 --fail-on overflow --losses"));
    assert!(said.contains("a.weight: 2 values, error at most"), "{said}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_goes_on() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new();
    copy(&folder, "deepseek");
    let line = "dequantize in out --to bf16 --resume";
    done(&folder.run(line));
    let shards = ["out/model-00001-of-00002.safetensors", "out/model-00002-of-00002.safetensors"];
    let inodes = || shards.map(|shard| fs::metadata(folder.path(shard)).expect("a file").ino());
    let before = inodes();
    // A shard that is not there, one with another bit, one that is cut short.
    for (damage, at) in [("removed", 0), ("changed", 1), ("cut", 0)] {
        let mut bytes = folder.read(shards[at]);
        match damage {
            "removed" => fs::remove_file(folder.path(shards[at])).expect("removed"),
            "changed" => {
                *bytes.last_mut().expect("bytes") ^= 1;
                folder.write(shards[at], bytes);
            }
            _ => folder.write(shards[at], &bytes[..bytes.len() - 1]),
        }
        let force = if damage == "removed" { "" } else { " -f" };
        if !force.is_empty() {
            assert!(refused(&folder.run(line)).contains("not what this job writes"), "{damage}");
        }
        let said = stderr(&folder.run(&format!("{line}{force}")));
        assert!(said.starts_with("in -> out (1 file was there already), 1 other file copied: "), "{damage}: {said}");
        assert!(load(&folder, "out") == expected("deepseek"), "{damage}");
    }
    assert!(before != inodes());
    let before = inodes();
    assert!(stderr(&folder.run(line)).contains("(2 files were there already)"));
    assert_eq!(before, inodes());
    // Another type gives other bytes.
    assert!(refused(&folder.run("dequantize in out --to float16 --resume")).contains("not what this job writes"));
}

#[test]
fn what_is_excluded_stays_quantized() {
    let folder = Folder::new();
    copy(&folder, "deepseek");
    done(&folder.run("dequantize in out --to bf16 --exclude *.o_proj.weight -q -f"));
    let (got, mut want) = (load(&folder, "out"), expected("deepseek"));
    let kept = by_name(tensors(folder.read("in/model-00001-of-00002.safetensors")));
    for name in ["model.layers.0.self_attn.o_proj.weight", "model.layers.0.self_attn.o_proj.weight_scale_inv"] {
        want.insert(name.to_owned(), kept[name].clone());
    }
    assert!(got == want, "{:?}", got.keys());
    assert_eq!(folder.read("out/config.json"), folder.read("in/config.json"));

    let folder = Folder::new();
    copy(&folder, "ct-nvfp4");
    let packed = "model.layers.0.mlp.down_proj.weight_packed";
    // The plain weight's name, which the checkpoint does not have.
    for option in ["--exclude model.layers.0.mlp.down_proj.weight", "--rule re:down_proj[.]weight$=keep"] {
        done(&folder.run(&format!("dequantize in out --to bf16 -q {option} -f")));
        let (got, kept) = (
            by_name(tensors(folder.read("out/model.safetensors"))),
            by_name(tensors(folder.read("in/model.safetensors"))),
        );
        for part in
            [packed, "model.layers.0.mlp.down_proj.weight_scale", "model.layers.0.mlp.down_proj.weight_global_scale"]
        {
            assert!(got[part] == kept[part], "{option}: {part}");
        }
        assert_eq!(got.keys().filter(|name| name.ends_with("_packed")).count(), 1, "{option}");
    }
    folder.refuses(
        "dequantize in out2 --to bf16 --exclude model.layers.0.mlp.dwon_proj.weight -f",
        "in: --exclude `model.layers.0.mlp.dwon_proj.weight` matches no tensor \
         (did you mean `model.layers.0.mlp.down_proj.weight`?)",
    );
}

#[test]
fn rules_give_types() {
    let folder = Folder::new();
    copy(&folder, "ct-nvfp4");
    done(
        &folder
            .run("dequantize in out --to bf16 --rule *.q_proj.weight=float16 --rule *.k_proj.weight=float8e4m3fn -q"),
    );
    let got = by_name(tensors(folder.read("out/model.safetensors")));
    for (name, want) in [("q", DataType::Float16), ("k", DataType::Float8E4M3FN), ("v", DataType::BFloat16)] {
        assert_eq!(got[&format!("model.layers.0.self_attn.{name}_proj.weight")].data_type(), want, "{name}");
    }
    let bf16 = expected("ct-nvfp4");
    for (name, tensor) in &got {
        if tensor.data_type() == DataType::BFloat16 {
            assert!(*tensor == bf16[name], "{name}");
        }
    }
}

#[test]
fn files_are_not_replaced() {
    let folder = Folder::new();
    copy(&folder, "deepseek");
    fs::create_dir(folder.path("out")).expect("a folder");
    folder.write("out/config.json", "mine");
    let said = stderr(&folder.run("dequantize in out --to bf16"));
    assert!(said.contains("out") && said.contains("exist"), "{said}");
    assert_eq!(
        (files(&folder, "out"), folder.read("out/config.json")),
        (vec!["config.json".to_owned()], b"mine".to_vec())
    );
    scaled(&folder, "a.safetensors", 2.0);
    folder.write("b.safetensors", "mine");
    let output = folder.run("dequantize a.safetensors b.safetensors --to bf16");
    assert_eq!((output.status.code(), folder.read("b.safetensors")), (Some(2), b"mine".to_vec()));
}

#[test]
fn the_folder_of_the_input_is_no_output() {
    let folder = Folder::new();
    copy(&folder, "deepseek");
    let before = files(&folder, "in");
    for line in [
        "dequantize in in --to bf16",
        "dequantize in ./in --to bf16",
        "dequantize in new/../in --to bf16",
        "dequantize in in/new/.. --to bf16",
        "quantize in in --to mxfp4",
        "transcode in in --layout plain",
    ] {
        let output = folder.run(line);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(": the folder of the input (want another"), "{line}: {said}");
        assert_eq!(files(&folder, "in"), before, "{line}");
        assert!(!folder.path("new").exists(), "{line}");
    }
}

/// What quantizing loses is counted beside the values that come back.
#[test]
fn losses_of_quantized_weights_are_counted() {
    let values: Vec<f32> = (0..64).map(|i| if i % 2 == 0 { 6.0 } else { 0.01 * i as f32 }).collect();
    let weight = |values: &[f32]| {
        let tensor = Tensor::from_slice(vec![2, 32], values).expect("a tensor");
        safetensors::write(None, &[("a.weight", tensor.view())]).expect("bytes")
    };
    let folder = Folder::new();
    folder.write("in.safetensors", weight(&values));
    let mut with_nan = values.clone();
    with_nan[40] = f32::NAN;
    folder.write("nan.safetensors", weight(&with_nan));
    // By a scale of 1 what is at most 0.25 becomes 0: 0.01, 0.03 and so on to 0.25.
    for (to, layout, zeros) in [("mxfp4", "plain", 13), ("mxfp4", "compressed-tensors", 13), ("mxfp8", "plain", 0)] {
        let line = format!("quantize in.safetensors out.safetensors --to {to} --layout {layout} --losses --json -f");
        let json: Value = serde_json::from_str(&done(&folder.run(&line))).expect("JSON");
        let counts = &json["tensors"][0]["counts"];
        assert_eq!((&counts["values"], &counts["zero"]), (&64.into(), &zeros.into()), "{line}: {json}");
    }
    for (line, is_lost) in [
        ("quantize in.safetensors no.safetensors --to mxfp4 --fail-on underflow -f", true),
        ("quantize in.safetensors no.safetensors --to int4 --fail-on underflow --dry-run -f", true),
        ("quantize in.safetensors a.safetensors --to mxfp4 --fail-on overflow,nan -f", false),
        ("quantize in.safetensors b.safetensors --to nvfp4 --fail-on overflow -f", false),
        ("quantize in.safetensors c.safetensors --to float8e4m3fn/tensor --fail-on underflow -f", false),
        ("quantize in.safetensors d.safetensors --to int8/8 --fail-on overflow -f", false),
        // The others of the block become NaN with it.
        ("quantize nan.safetensors no.safetensors --to mxfp4 --fail-on overflow -f", true),
        ("quantize nan.safetensors no.safetensors --to mxfp8 --fail-on nan -f", true),
    ] {
        let output = folder.run(line);
        assert_eq!(output.status.code(), Some(i32::from(is_lost)), "{line}: {}", stderr(&output));
        assert!(!is_lost || stderr(&output).contains("tensor `a.weight"), "{line}: {}", stderr(&output));
    }
    assert!(!folder.path("no.safetensors").exists());
}

#[test]
fn a_layout_without_a_configuration_leaves_none() {
    for layout in ["plain", "comfyui"] {
        let folder = Folder::new();
        copy(&folder, "modelopt-fp8");
        let config = json(&folder, "in/config.json");
        assert!(config.get("quantization_config").is_some(), "the input has one");
        done(&folder.run(&format!("transcode in out --layout {layout} --activations none")));
        let mut wanted = config;
        wanted.as_object_mut().expect("an object").remove("quantization_config");
        assert_eq!(json(&folder, "out/config.json"), wanted, "{layout}");
        assert!(!files(&folder, "out").contains(&"hf_quant_config.json".to_owned()), "{layout}");
    }
}

#[test]
fn a_plain_file() {
    let folder = Folder::new();
    scaled(&folder, "in.safetensors", 2.0);
    let other = Tensor::from_slice(vec![1], &[0.1f32]).expect("a tensor");
    for line in [
        "dequantize in.safetensors out.safetensors --to float -f",
        "dequantize in.safetensors out.safetensors --to float --layout comfyui -f",
        "dequantize in.safetensors --out-dir . --to float -f",
    ] {
        done(&folder.run(line));
        let name = if line.contains("--out-dir") { "in.safetensors" } else { "out.safetensors" };
        let got = by_name(tensors(folder.read(name)));
        assert_eq!(got.len(), 2, "{line}");
        assert_eq!(got["a.weight"].to_vec::<f32>().map(|values| values[1].to_bits()), Some(2f32.to_bits()), "{line}");
        assert!(got["norm.bias"] == other);
    }
    scaled(&folder, "in.safetensors", 2.0);
    folder.refuses(
        "dequantize in.safetensors y.safetensors --to float --layout gpt-oss -f",
        "in.safetensors: no weights in the layout gpt-oss (is the checkpoint dequantized already? --layout chooses \
         another \
         layout)",
    );
    folder.refuses(
        "transcode in.safetensors y.safetensors --layout modelopt --from-layout gpt-oss -f",
        "in.safetensors: no weights in the layout gpt-oss (is the checkpoint dequantized already? --from-layout \
         chooses \
         another layout)",
    );
    let said = stderr(&folder.run("dequantize in.safetensors y.safetensors --to float --layout nf4 -f"));
    assert!(said.contains("'nf4' for '--layout <NAME>': `nf4` is not a layout (want deepseek, gpt-oss,"), "{said}");
    for (line, message) in [
        (
            "dequantize in.safetensors y.npz --to float -f",
            "y.npz: a checkpoint does not take .npz files (want .safetensors)",
        ),
        (
            "dequantize none.safetensors y.safetensors --to float -f",
            "none.safetensors: cannot open: No such file or directory (os error 2)",
        ),
        (
            "dequantize in.safetensors y.safetensors --to uint4 -f",
            "y.safetensors: tensor `a.weight`: the .safetensors format has no name for uint4",
        ),
    ] {
        folder.refuses(line, message);
    }
    done(&folder.run("dequantize in.safetensors plain.safetensors --to float -f"));
    let piped = folder.run("dequantize in.safetensors - --to float");
    assert!(piped.stdout == folder.read("plain.safetensors") && !folder.path("-").exists(), "{}", stderr(&piped));
}

/// The weights of a stored checkpoint before they were quantized, in the folder `in`.
fn original(folder: &Folder, name: &str) {
    fs::create_dir(folder.path("in")).expect("a folder");
    let weights = fs::read(checkpoint(name).join("original.safetensors")).expect("the weights");
    folder.write("in/model.safetensors", weights);
    folder.write("in/config.json", "{\"torch_dtype\": \"bfloat16\", \"rope_theta\": 1e6}");
    folder.write("in/tokenizer.json", "{}");
}

#[test]
fn weights_are_quantized_and_come_back() {
    let folder = Folder::new();
    original(&folder, "ct-nvfp4");
    let plan = done(&folder.run("quantize in out --to nvfp4 --dry-run"));
    assert!(plan.contains("model.layers.0.mlp.down_proj.weight_packed") && plan.contains("lm_head.weight "), "{plan}");
    assert!(!plan.contains("lm_head.weight_packed") && !folder.path("out").exists());
    let said = stderr(&folder.run("quantize in out --to nvfp4"));
    assert!(said.starts_with("in -> out, 2 other files copied: ") || said.starts_with("in -> out, 1 other"), "{said}");
    let config = json(&folder, "out/config.json");
    assert_eq!(config["quantization_config"]["format"], "nvfp4-pack-quantized");
    assert_eq!(config["quantization_config"]["ignore"], serde_json::json!(["lm_head", "model.embed_tokens"]));
    assert_eq!((&config["torch_dtype"], &config["rope_theta"]), (&"bfloat16".into(), &1e6.into()));
    assert_eq!(folder.read("out/tokenizer.json"), b"{}");
    let info = done(&folder.run("info out"));
    assert!(info.contains("NVFP4"), "{info}");
    // The same again leaves the file alone.
    let said = stderr(&folder.run("quantize in out --to nvfp4 --resume"));
    assert!(said.contains("(1 file was there already)"), "{said}");
    done(&folder.run("dequantize out back --to bf16 -q"));
    done(&folder.run("transcode out other --layout modelopt -q"));
    done(&folder.run("dequantize other again --to bf16 -q"));
    assert_eq!(folder.read("back/model.safetensors"), folder.read("again/model.safetensors"));
    assert_eq!(json(&folder, "other/hf_quant_config.json")["quantization"]["quant_algo"], "W4A16_NVFP4");
    done(&folder.run("diff --values out back"));
}

/// What is kept is said, with the reasons, in the plan for each matrix.
#[test]
fn kept_matrices_have_reasons() {
    let folder = Folder::new();
    let shapes = [
        ("transformer.wte.weight", [8, 64]),
        ("transformer.h.0.attn.c_attn.weight", [64, 192]),
        ("transformer.h.0.mlp.up_proj.weight", [32, 64]),
        ("transformer.h.0.mlp.gate_proj.weight", [32, 64]),
        ("transformer.h.0.mlp.down_proj.weight", [64, 40]),
    ];
    let zeros: Vec<Tensor> = shapes
        .iter()
        .map(|(_, shape)| Tensor::from_slice(shape.to_vec(), &vec![0f32; shape[0] * shape[1]]).expect("a tensor"))
        .collect();
    let all: Vec<_> = shapes.iter().zip(&zeros).map(|((name, _), zeros)| (*name, zeros.view())).collect();
    fs::create_dir(folder.path("in")).expect("a folder");
    folder.write("in/model.safetensors", safetensors::write(None, &all).expect("bytes"));
    // The matrices are transposed as in GPT-2, and joined as in Llama.
    folder.write("in/config.json", r#"{"model_type": "gpt2", "text_config": {"model_type": "llama"}, "a": NaN}"#);
    let rule = "--rule *.wte.weight=mxfp4";
    let plan = done(&folder.run(&format!("quantize in out --to mxfp4 --exclude *.up_proj.* --dry-run {rule}")));
    for (name, why) in [
        ("c_attn", "stored transposed (Conv1D)"),
        ("up_proj", "excluded"),
        ("gate_proj", "joined with `up_proj`, which is kept"),
        ("down_proj", "want columns in blocks of 32 for mxfp4"),
    ] {
        let line = plan.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line.contains("(kept)") && line.ends_with(why), "{name}: {plan}");
    }
    let said = stderr(&folder.run("quantize in out --to mxfp4"));
    assert!(said.contains("note: in: kept 2 matrices: embedding (1), stored transposed (Conv1D) (1)\n"), "{said}");
    let shape = "kept `transformer.h.0.mlp.down_proj.weight` (want columns in blocks of 32 for mxfp4)\n";
    assert!(said.contains(shape), "{said}");
    let row = |planned: &Value, name: &str| {
        let rows = planned["tensors"].as_array().expect("tensors");
        rows.iter().find(|row| row["name"].as_str().is_some_and(|one| one.contains(name))).cloned().unwrap_or_default()
    };
    let planned = done(&folder.run("quantize in other --to mxfp4 --dry-run --json"));
    let planned = serde_json::from_str(&planned).expect("JSON");
    assert_eq!(row(&planned, "wte")["reason"], "embedding");
    assert_eq!(row(&planned, "gate_proj")["reason"], Value::Null);
    assert_eq!(planned["passed_over"][0]["name"], "transformer.h.0.mlp.down_proj.weight");
}

#[test]
fn activations_are_chosen_carried_and_left_out() {
    let folder = Folder::new();
    original(&folder, "ct-int8");
    let group = |path: &str| json(&folder, path)["quantization_config"]["config_groups"]["group_0"].clone();
    for (options, format, strategy) in [
        ("--to float8e4m3fn", "float-quantized", "token".into()),
        ("--to float8e4m3fn --activations none", "float-quantized", serde_json::Value::Null),
        ("--to int8 --activations dynamic", "int-quantized", "token".into()),
        ("--to int8", "pack-quantized", serde_json::Value::Null),
    ] {
        done(&folder.run(&format!("quantize in {format} --force -q {options}")));
        let group = group(&format!("{format}/config.json"));
        assert_eq!(
            (&group["format"], &group["input_activations"]["strategy"]),
            (&format.into(), &strategy),
            "{options}"
        );
    }
    fs::rename(folder.path("in"), folder.path("plain")).expect("renamed");
    copy(&folder, "ct-fp8-tensor");
    for (line, want) in [
        ("quantize plain no --to int8 --activations static", "want dynamic or none"),
        (
            "quantize plain no --to mxfp4 --activations dynamic",
            "loaders of its mxfp4/32 have activations none, not dynamic",
        ),
        (
            "quantize plain no --to mxfp4 --layout modelopt",
            "modelopt does not support mxfp4: vLLM and SGLang refuse it",
        ),
        ("quantize m.onnx n.onnx --to int8 --activations none", "--activations is for checkpoints (.safetensors)"),
        ("transcode in no --layout quark", "quark cannot store it: it has no such scale (--activations drops"),
    ] {
        let said = stderr(&folder.run(line));
        assert!(said.contains(want) && !folder.path("no").exists(), "{line}: {said}");
    }
    let left = "are left out (first tensor `model.layers.0.mlp.down_proj.input_scale`)";
    for (line, count) in [
        ("transcode in quark --layout quark --activations dynamic", 9),
        ("dequantize in back --to bf16", 9),
        ("dequantize in no --to bf16 --dry-run", 9),
    ] {
        let said = stderr(&folder.run(line));
        assert!(said.contains(&format!("note: in: {count} scales of activations {left}")), "{line}: {said}");
    }
    let said = stderr(&folder.run("transcode in modelopt --layout modelopt"));
    assert!(!said.contains("left out"), "{said}");
    let made: serde_json::Value =
        serde_json::from_str(&done(&folder.run("dequantize in out --to bf16 --json"))).expect("JSON");
    assert_eq!(made["dropped"].as_array().map(Vec::len), Some(9));
}

#[test]
fn rules_choose_formats_and_layouts_refuse() {
    let folder = Folder::new();
    original(&folder, "ct-int8");
    let rule = "--rule *self_attn*=float8e4m3fn --rule lm_head.weight=int8 --exclude *o_proj*";
    done(&folder.run(&format!("quantize in out --to mxfp4 -q {rule}")));
    let config = &json(&folder, "out/config.json")["quantization_config"];
    assert_eq!(config["format"], "mixed-precision");
    assert_eq!(config["config_groups"].as_object().map(serde_json::Map::len), Some(3), "{config}");
    assert!(config["ignore"].to_string().contains("o_proj"), "{config}");
    done(&folder.run("dequantize out back --to bf16 -q"));
    for (line, want) in [
        (
            "quantize in no --to nvfp4 --layout deepseek",
            "deepseek does not support nvfp4: the layout has no such weights",
        ),
        ("quantize in no --to nvfp4/row", "blocks of nvfp4 have 16 elements"),
        ("quantize in no --to int4/48", "experts for gpt-oss); kept: want columns in blocks of 48 for int4 ("),
        ("quantize in no --to mxfp4 --include *norm*", "no weight to quantize"),
        ("quantize in no --to mxfp4 --exclude *.wieght", "--exclude `*.wieght` matches no tensor"),
        ("quantize in no --to float16", "not a format of quantized weights"),
        ("transcode out no --layout deepseek", "tensor `lm_head.weight_packed`: deepseek does not support int8: "),
        ("transcode in no --layout modelopt", "no quantized weights"),
    ] {
        let output = folder.run(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(stderr(&output).contains(want), "{line}: {}", stderr(&output));
        assert!(!folder.path("no").exists(), "{line}");
    }
}

#[test]
fn a_weight_that_would_change_is_refused() {
    let folder = Folder::new();
    copy(&folder, "ct-mxfp4");
    // A block's scale far below the others, beside elements that are not 0.
    let mut bytes = folder.read("in/model.safetensors");
    let header = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let entries: Value = serde_json::from_slice(&bytes[8..8 + header]).expect("JSON");
    let place =
        entries["model.layers.0.mlp.up_proj.weight_scale"]["data_offsets"][0].as_u64().expect("a place") as usize;
    bytes[8 + header + place] = 20;
    folder.write("in/model.safetensors", &bytes);
    for (to, what) in [("nvfp4", "1 of its values or blocks"), ("float8e4m3fn", "of its values or blocks")] {
        let layout = if to == "nvfp4" { "plain" } else { "deepseek" };
        let output = folder.run(&format!("transcode in out --layout {layout} --to {to}"));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("up_proj.weight_packed`: as ") && said.contains(what), "{to}: {said}");
        assert!(!folder.path("out").exists());
    }
}

#[test]
fn info_names_layout_format_block_and_bits() {
    for (name, want) in [
        ("deepseek", "model.layers.0.mlp.down_proj.weight       FP8     130x36    128x128   8.01\n"),
        ("ct-nvfp4", "model.layers.0.mlp.down_proj.weight     NVFP4   64x32       1x16   4.52\n"),
        ("ct-int4", "model.layers.0.mlp.down_proj.weight     INT4    64x32        row   4.56\n"),
        ("ct-fp8-tensor", "model.layers.0.mlp.down_proj.weight     FP8     64x32     tensor   8.01\n"),
        ("gpt-oss", "model.layers.0.mlp.experts.down_proj     MXFP4   2x32x64       1x32   4.25\n"),
    ] {
        let folder = Folder::new();
        copy(&folder, name);
        let text = done(&folder.run("info in"));
        assert!(text.contains(want), "{name}: {text}");
        let layout = if name.starts_with("ct-") { "compressed-tensors" } else { name };
        assert!(text.contains(&format!("quantized: {layout}, ")) && !text.contains("warning"), "{name}: {text}");
        assert!(!done(&folder.run("info in --stats")).contains("warning"), "{name}");
    }
    let folder = Folder::new();
    copy(&folder, "ct-nvfp4");
    let json: Value = serde_json::from_str(&done(&folder.run("info in --json --include *.q_proj.*"))).expect("JSON");
    let want = serde_json::json!({
        "layout": "compressed-tensors",
        "weights": [{
            "name": "model.layers.0.self_attn.q_proj.weight",
            "shape": [32, 64],
            "format": "NVFP4",
            "elements": "float4e2m1",
            "scales": "float8e4m3fn",
            "block": [1, 16],
            "granularity": "block",
            "bits": 4.515625,
            "tensors": {
                "elements": "model.layers.0.self_attn.q_proj.weight_packed",
                "scales": "model.layers.0.self_attn.q_proj.weight_scale",
                "global_scale": "model.layers.0.self_attn.q_proj.weight_global_scale",
            },
        }],
        "warning": null,
    });
    assert_eq!(json["quantized"], want);
    // Nothing is said of what is not quantized.
    done(&folder.run("dequantize in out --to bf16 -q"));
    assert!(!done(&folder.run("info out")).contains("quantized"));
    let json: Value = serde_json::from_str(&done(&folder.run("info out --json"))).expect("JSON");
    assert!(json.get("quantized").is_none());
}

#[test]
fn info_warns_of_claims_that_fail() {
    let folder = Folder::new();
    scaled(&folder, "m.safetensors", f32::NAN);
    for (config, options, want) in [
        ("{}", "", "quantized: comfyui, 1 weight\n"),
        (
            "{}",
            " --stats",
            "warning: m.safetensors: tensor `a.scale_weight`: scale 0 is NaN (`dequantize --allow-nan` gives NaN for \
             its block)\n",
        ),
        (
            r#"{"quantization_config":{"quant_method":"exotic"}}"#,
            "",
            "warning: ./config.json: `quant_method` is `exotic`, which is not a known layout",
        ),
        (
            r#"{"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4"}}"#,
            "",
            "quantized: modelopt\nwarning: m.safetensors: tensor `a.weight`: float8e4m3fn elements without scales",
        ),
    ] {
        folder.write("config.json", config);
        let text = done(&folder.run(&format!("info m.safetensors{options}")));
        assert!(text.contains(want) && text.contains("total: 3 tensors"), "{config}: {text}");
    }
    let json: Value = serde_json::from_str(&done(&folder.run("info m.safetensors --json"))).expect("JSON");
    assert_eq!(json["quantized"]["layout"], "modelopt");
    assert!(json["quantized"]["warning"].as_str().is_some_and(|text| text.contains("without scales")), "{json}");
}

#[test]
fn diff_compares_values_whatever_the_layout() {
    for name in ["deepseek", "deepseek-e8m0", "gpt-oss", "ct-nvfp4", "ct-int4-g-idx", "ct-mxfp6"] {
        let folder = Folder::new();
        copy(&folder, name);
        done(&folder.run("dequantize in out --to bf16 -q"));
        // Both ways, and in parts by several threads.
        for line in ["diff in out --values", "diff out in --values --threads 3", "diff in in --values"] {
            assert_eq!(done(&folder.run(line)), "", "{name}: {line}");
        }
        assert_eq!(folder.run("diff in out").status.code(), Some(1), "{name}");
    }
    let folder = Folder::new();
    scaled(&folder, "a.safetensors", 2.0);
    scaled(&folder, "b.safetensors", 2.5);
    let weight = Tensor::from_slice(vec![1, 2], &[2.0f64, 2.25]).expect("a tensor");
    let norm = Tensor::from_slice(vec![2], &[0.1f32; 2]).expect("a tensor");
    let tensors = [("a.weight", weight.view()), ("norm.bias", norm.view()), ("c", norm.view())];
    folder.write("c.safetensors", safetensors::write(None, &tensors).expect("bytes"));
    for (line, want) in [
        (
            "diff a.safetensors b.safetensors --values",
            "a.weight: 2 of 2 elements differ, the first is 0, by at most 5e-1\n",
        ),
        ("diff a.safetensors b.safetensors --values --tolerance 0.5", ""),
        (
            "diff a.safetensors c.safetensors --values",
            "a.weight: 1 of 2 elements differ, the first is 1, by at most 2.5e-1\nnorm.bias: 1, and 2\nc: only in \
             c.safetensors\n",
        ),
        ("diff c.safetensors a.safetensors --values --tolerance 0.25 --include *.weight", ""),
    ] {
        let output = folder.run(line);
        assert_eq!(
            (stdout(&output).as_str(), output.status.code()),
            (want, Some(u8::from(!want.is_empty()).into())),
            "{line}"
        );
    }
    // What contradicts itself has no values.
    folder.write("config.json", r#"{"quantization_config":{"quant_method":"mxfp4"}}"#);
    let said = stderr(&folder.run("diff a.safetensors b.safetensors --values"));
    assert!(said.contains("a.safetensors: no weights in the layout gpt-oss"), "{said}");
}

/// What a rule or a size keeps of a model is still quantized in the output.
#[test]
fn rules_and_sizes_keep_weights_of_a_model_quantized() {
    let folder = Folder::new();
    folder.write("m.onnx", crate::effects::network(21, 0.1));
    done(&folder.run("quantize m.onnx int8.onnx --to int8"));
    for (options, kept) in [("--rule q=keep", 1), ("--exclude q", 1), ("--min-elements 5000", 2), ("--rule w=float", 0)]
    {
        let said = stderr(&folder.run(&format!("dequantize int8.onnx o.onnx --to float {options} --force")));
        if kept == 2 {
            assert!(said.contains("no weight to dequantize"), "{said}");
            continue;
        }
        let dequantized = format!("{} tensor", 2 - kept);
        assert!(said.contains(&dequantized), "{options}: {said}");
        let again = stderr(&folder.run("dequantize o.onnx p.onnx --to float --dry-run --force"));
        assert_eq!(again.contains("no weight to dequantize"), kept == 0, "{options}: {again}");
    }
}
