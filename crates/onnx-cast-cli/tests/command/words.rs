//! Do messages say what is wrong and what to do, in the command's own words, and as JSON where that is asked for?

use crate::common::{done, npy, refused, stderr, stdout};
use crate::files::{Folder, floats};
use serde_json::{Value, json};
use std::fs;
use std::process::Output;
use testkit::proto::{Message, model, node, tensor};

pub(crate) fn as_json(output: &Output) -> Value {
    let text = stdout(output);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}, {}", stderr(output)))
}

#[test]
fn a_missing_type_names_its_option() {
    let folder = Folder::new();
    folder.write("x.bin", [0; 8]);
    let raw = "x.bin: raw bytes have no element type";
    for line in ["cast x.bin y.npy --to bf16", "info x.bin", "report x.bin --to bf16"] {
        assert_eq!(refused(&folder.run(line)), format!("{raw} (--from gives it)"), "{line}");
    }
    let said = refused(&folder.run("diff x.bin x.bin"));
    assert_eq!(said, format!("{raw} (`cast --from` gives it)"));
}

/// The index of an overlay names another file for a tensor.
#[test]
fn info_lists_stale_copies() {
    let folder = Folder::new();
    fs::create_dir(folder.path("in")).expect("a folder");
    let tensors = floats(&[1.0]);
    let bytes = |names: &[&str]| {
        let all: Vec<_> = names.iter().map(|name| (*name, tensors.view())).collect();
        onnx_cast_file::safetensors::write(None, &all).expect("bytes")
    };
    folder.write("in/1.safetensors", bytes(&["a", "b"]));
    folder.write("in/2.safetensors", bytes(&["b"]));
    let index = r#"{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}"#;
    folder.write("in/model.safetensors.index.json", index);
    let why = "a stale copy in 1.safetensors, for the index has it in 2.safetensors";
    assert_eq!(as_json(&folder.run("info in --json"))["left_out"], json!([{"name": "b", "why": why}]));
    assert!(done(&folder.run("info in")).contains(&format!("left out: `b` ({why})")));
    assert_eq!(as_json(&folder.run("info in/2.safetensors --json"))["left_out"], json!(null));
}

#[test]
fn a_shape_is_taken_as_it_is_printed() {
    let folder = Folder::new();
    folder.write("x.bin", [0; 24]);
    for shape in ["2,3", "2x3"] {
        done(&folder.run(&format!("cast x.bin y.npy --from float --shape {shape} --to float16 -f")));
        let info = as_json(&folder.run("info y.npy --json"));
        assert_eq!(info["tensors"][0]["shape"], json!([2, 3]));
    }
    folder.write("x.bin", [0; 4]);
    done(&folder.run("cast x.bin y.npy --from float --shape scalar --to float16 -f"));
    assert!(done(&folder.run("info y.npy")).contains("scalar"));
}

#[test]
fn what_is_not_there_is_said_to_be_missing() {
    let folder = Folder::new();
    for line in [
        "info typo",
        "dequantize typo/ out --to float",
        "quantize typo/ out --to int8",
        "transcode typo/ out --layout plain",
        "cast typo out.npy --to float16",
        "cast typo/ out/ --to float16",
        "report typo --to float16",
        "diff typo typo",
        "fold typo out.onnx",
    ] {
        let said = refused(&folder.run(line));
        assert!(said.ends_with(": cannot open: No such file or directory (os error 2)"), "{line}: {said}");
        assert!(said.starts_with("typo"), "{line}: {said}");
    }
    let said = refused(&folder.run("quantize x.safetensors y.safetensors --to fp8"));
    assert!(
        said.ends_with("`fp8` is not a format of quantized weights (want float8e4m3fn, as vLLM's fp8, or float8e5m2)"),
        "{said}"
    );
    folder.write("x.typo", b"");
    assert!(refused(&folder.run("info x.typo")).contains("unknown file extension"));
}

#[test]
fn a_folder_does_not_become_a_file() {
    let folder = Folder::new();
    fs::create_dir(folder.path("in")).expect("a folder");
    let bytes = onnx_cast_file::safetensors::write(None, &[("a", floats(&[1.0, 2.0]).view())]).expect("bytes");
    folder.write("in/model.safetensors", bytes);
    let message = "out.safetensors: the output of a folder is a folder (want a name without .safetensors, or the file \
                   in/model.safetensors as input)";
    folder.refuses("cast in out.safetensors --to float16", message);
    folder.refuses("cast in/ out.safetensors --to float16", message);
    for name in ["out.npz", "out.onnx", "out.bin", "out.json", "out.pt"] {
        for line in ["cast in NAME --to float16", "dequantize in NAME --to float16", "quantize in NAME --to int8"] {
            let said = refused(&folder.run(&line.replace("NAME", name)));
            assert!(said.contains("a folder") && said.contains("want"), "{line} {name}: {said}");
            assert!(!folder.path(name).exists(), "{line} {name}");
        }
    }
    done(&folder.run("cast in v1.5 --to float16"));
    assert!(folder.path("v1.5/model.safetensors").is_file());
}

/// Weights are below one half: as integers all of them are 0.
#[test]
fn weights_that_become_integers_without_scales_are_noted() {
    let folder = Folder::new();
    let matrix = onnx_cast::Tensor::from_slice(vec![2, 2], &[0.1f32, -0.2, 0.3, 0.01]).expect("a tensor");
    let bytes = onnx_cast_file::safetensors::write(None, &[("a", matrix.view())]).expect("bytes");
    folder.write("x.safetensors", bytes);
    let says = "note: out.safetensors: 1 float tensor cast to int8 without scales, where small weights become 0 \
                (`quantize` gives them scales)\n";
    let said = stderr(&folder.run("cast x.safetensors out.safetensors --to int8"));
    assert!(said.contains(says), "{said}");
    for line in ["cast x.safetensors o2.safetensors --to float16", "bitcast x.safetensors o3.safetensors --to int32"] {
        assert!(!stderr(&folder.run(line)).contains("scales"), "{line}");
    }
}

/// Names of formats, files and folders as other tools have them.
#[test]
fn the_words_of_other_tools_are_answered() {
    let folder = Folder::new();
    fs::create_dir(folder.path("in")).expect("a folder");
    fs::create_dir(folder.path("out")).expect("a folder");
    let bytes = onnx_cast_file::safetensors::write(None, &[("a", floats(&[1.0, 2.0]).view())]).expect("bytes");
    folder.write("in/model.safetensors", &bytes);
    folder.write("x.safetensors", &bytes);
    let weight = Message::new().bytes(1, "value").message(5, tensor(&[16, 16], 1, &[0; 1024])).int(20, 4);
    let nodes = vec![node("Constant", &[], "w", vec![weight]), node("MatMul", &["x", "w"], "y", vec![])];
    folder.write("m.onnx", model(21, nodes, &[("x", 1)], &[("y", 1)]));
    folder.write("x.pt", b"PK\x03\x04");
    let pickle = "files of torch.save are only read (want .safetensors)";
    let k_quants = "it is read, not written: want q4_0, q5_0 or q8_0, or run llama.cpp's llama-quantize";
    for (line, says) in [
        ("convert in out.onnx --to float16", "`cast` changes the type of a checkpoint"),
        ("upgrade in out.onnx", "`cast` changes the type of a checkpoint"),
        ("cast x.pt y.safetensors --to bf16", "x.pt: the archive is not valid: no directory at the end"),
        ("cast x.safetensors y.ckpt --to bf16", pickle),
        ("info y.ckpt", "y.ckpt: cannot open"),
        ("cast x.safetensors y.pth --to bf16", pickle),
        (
            "convert x.onnx y.onnx --to fp8",
            "(want float16, bfloat16 or float; with --emulate float16, bfloat16, float8e4m3fn or float8e5m2)",
        ),
        ("convert m.onnx y.onnx --to int8", "not to int8 (`quantize` stores weights in it)"),
        (
            "convert m.onnx y.onnx --to float8e5m2",
            "`quantize` stores weights in it; --emulate computes with its values",
        ),
        ("convert m.onnx y.onnx --to float16 --io x=low", "`low` is for all inputs and outputs"),
        ("quantize m.onnx y.onnx --to bf16", "(`convert` makes a model float16 or bfloat16)"),
        ("record m.onnx y.onnx --include nope", "--include `nope` matches no value (`info --types` lists the names)"),
        ("fold m.onnx y.onnx --exclude nope", "--exclude `nope` matches no value (`info --types` lists the names)"),
        ("quantize m.onnx y.onnx --to int8 --exclude w", "every one is kept: `w` (no pattern selects it)"),
        ("quantize m.onnx y.onnx --to int8 --min-elements 5000", "`w` (fewer than 5000 elements)"),
        ("cast in out2 --to torch.bfloat16", "(want bfloat16)"),
        ("cast in out2 --to 4bit", "(want int4 or uint4)"),
        ("quantize in out2 --to 4bit", "(want int4/128, nvfp4 or mxfp4)"),
        ("quantize in out2 --to nvfp4a16", "(want nvfp4 with activations none)"),
        ("quantize in y.gguf --to int4", "in one of the types q8_0, q4_0, q4_1, q5_0, q5_1, mxfp4, float16, bfloat16"),
        (
            "quantize in out2 --to int4 --layout foo",
            "(want deepseek, gpt-oss, compressed-tensors, modelopt, fbgemm, quark, comfyui, plain, gguf)",
        ),
        (
            "transcode in out2 --layout foo",
            "(want deepseek, gpt-oss, compressed-tensors, modelopt, fbgemm, quark, comfyui, plain)",
        ),
        ("cast x.safetensors out --to bf16", "out: a folder (want the name of a file)"),
        ("cast in y.gguf --to bf16", "y.gguf: a folder becomes a .gguf file only by `quantize`"),
        ("quantize in out2 --to q4_k_m", k_quants),
        ("quantize in out2 --to Q6_K", k_quants),
        ("quantize in out2 --to IQ4_XS", k_quants),
        ("quantize in out2 --to w4a16", "want int4/128"),
        ("quantize in out2 --to W8A8", "want int8 with dynamic activations, or float8e4m3fn"),
        ("quantize in out2 --to w8a16", "(want int8)"),
        ("quantize in out2 --to fp4", "want nvfp4 or mxfp4"),
        ("quantize in out2 --to awq", "it is read, not written"),
        ("quantize in out2 --to int", "want int8 or int4"),
        ("cast in out2 --to q4_k_m", "a format with scales: use `quantize`"),
        ("cast in out2 --to w4a16", "a format with scales: use `quantize`"),
        ("cast in out2 --to int", "(want int2, int4, int8, int16, int32 or int64)"),
        ("cast in out2 --to fp8", "(want float8e4m3fn or float8e5m2)"),
        ("cast in out2 --to bf16 --exclude a.b", "matches no tensor"),
    ] {
        let said = refused(&folder.run(line));
        assert!(said.contains(says), "{line}: {said}");
    }
    assert!(!folder.path("out2").exists());
    for (line, tip) in [
        ("cast x.safetensors -o y.npy --to bf16", "OUT follows IN, without an option"),
        ("convert x.onnx --output y.onnx --to float16", "OUT follows IN, without an option"),
        ("compare x.safetensors x.pt", "a similar subcommand exists: 'diff'"),
        ("inspect x.safetensors", "a similar subcommand exists: 'info'"),
    ] {
        let said = stderr(&folder.run(line));
        assert!(said.contains(&format!("tip: {tip}")), "{line}: {said}");
    }
}

#[test]
fn options_without_an_effect_are_warnings() {
    let folder = Folder::new();
    folder.write("x.npy", npy(&floats(&[1.0, 2.0])));
    let run = |line: &str| {
        let output = folder.run(line);
        assert!(output.status.success(), "{line}: {}", stderr(&output));
        output
    };
    let warning = |line: &str| {
        let said = stderr(&run(line));
        let warnings = said.lines().filter_map(|line| line.strip_prefix("onnx-cast: warning: "));
        warnings.map(str::to_owned).collect::<Vec<_>>()
    };
    const FLOAT8: &str = "is for casts to float8, and there are none";
    const E8M0: &str = "is for casts to float8e8m0, and there are none";
    const MODELS: &str = "is for models (.onnx to .onnx)";
    for (line, option, why) in [
        ("cast x.npy y.npy --to float16 --saturate false -f", "--saturate", FLOAT8),
        ("cast x.npy y.npy --to float8e4m3fn --round-mode nearest -f", "--round-mode", E8M0),
        ("cast x.npy y.npy --to int8 --round-mode down --saturate true -f", "--round-mode", E8M0),
        ("report x.npy --to float16,int8 --saturate false", "--saturate", FLOAT8),
        ("report x.npy --to mxfp8 --saturate false", "--saturate", FLOAT8),
        ("report x.npy --to mxfp8 --opset 21", "--opset", "is for casts, and no candidate is one"),
        ("cast x.npy y.npy --to float16 --raise-opset -f", "--raise-opset", MODELS),
        ("cast x.npy y.npy --to float16 --external-threshold 9 -f", "--external-threshold", MODELS),
        ("cast x.npy y.pb --to float16 --npy-plain -f", "--npy-plain", "is for .npy and .npz"),
        (
            "cast x.npy y.npz --to float16 --resume -f",
            "--resume",
            "is for files that can be compared: neither standard output nor .npz",
        ),
        ("info x.npy --types", "--types", "is for models (.onnx)"),
    ] {
        assert_eq!(warning(line), [format!("x.npy: {option} has no effect: it {why}")], "{line}");
        assert!(warning(&format!("{line} --quiet")).is_empty(), "{line}");
        let json = as_json(&run(&format!("{line} --json")));
        assert_eq!(json["ignored"], json!([{ "option": option[2..].replace('-', "_"), "why": why }]), "{line}");
    }
    // A default changes nothing anywhere, and what has an effect is no warning.
    for line in [
        "cast x.npy y.npy --to int8 --saturate true --round-mode up -f",
        "cast x.npy y.npy --to float16 --saturate true --opset 13 --round-mode up -f",
        "report x.npy --to int8 --saturate true --round-mode up",
        "cast x.npy y.npy --to float8e4m3fn --saturate false -f",
        "cast x.npy y.npy --to float8e8m0 --round-mode nearest --saturate true -f",
        "report x.npy --to float16,float8e5m2 --saturate false",
        "cast x.npy y.npy --to float16 --in-format npy --out-format npy -f",
        "cast x.npy y.npy --to float16 --npy-plain -f",
    ] {
        assert_eq!(warning(line), [""; 0], "{line}");
    }
    // Here that is the answer.
    assert!(done(&folder.run("explain 0.3 --to float16 --saturate false")).contains("saturate has no effect"));
}

/// What cannot be done as it is asked for is an error, and nothing is written.
#[test]
fn contradictions_are_errors() {
    let folder = Folder::new();
    folder.write("x.npy", npy(&floats(&[1.0, 2.0])));
    for (line, want) in [
        ("cast x.npy y.npy --to float8e4m3fn --opset 13 --saturate false", "saturate"),
        ("cast x.npy y.npy --to float16 --external-data d.bin", "--external-data is for models (.onnx to .onnx)"),
        ("cast x.npy y.npy --to float16 --in-format pb", "--in-format is for standard input and output (-)"),
        ("cast x.npy y.npy --to float16 --from double", "are not double"),
    ] {
        let error = refused(&folder.run(line));
        assert!(error.contains(want), "{line}: {error}");
        assert!(!folder.path("y.npy").exists(), "{line}");
    }
}

#[test]
fn json_tells_errors_and_what_was_written() {
    let folder = Folder::new();
    folder.write("x.npy", npy(&floats(&[1.0, 1e30])));
    let run = |line: &str| folder.run(&format!("{line} --json"));
    let output = run("cast x.npy y.npy --to float16");
    assert_eq!((output.status.code(), &as_json(&output)["written"]), (Some(0), &json!(true)));
    fs::remove_file(folder.path("y.npy")).expect("removed");
    let output = run("cast x.npy y.npy --to float16 --dry-run");
    assert_eq!((output.status.code(), &as_json(&output)["written"]), (Some(0), &json!(false)));
    let output = run("cast x.npy y.npy --to float16 --fail-on overflow");
    assert_eq!((output.status.code(), &as_json(&output)["written"]), (Some(1), &json!(false)));
    assert!(!folder.path("y.npy").exists());
    for line in ["cast no.npy y.npy --to float16", "info no.npy", "diff no.npy x.npy", "report no.npy --to int8"] {
        let output = run(line);
        let text = "no.npy: cannot open: No such file or directory (os error 2)";
        assert_eq!(as_json(&output), json!({ "error": text, "written": false }), "{line}");
        assert_eq!((output.status.code(), stderr(&output)), (Some(2), format!("onnx-cast: error: {text}\n")), "{line}");
    }
    // Inputs are checked before the first is cast.
    let output = run("cast x.npy no.npy x2.npy --to float16 --out-dir d");
    let text = "no.npy: cannot open: No such file or directory (os error 2)";
    assert_eq!((output.status.code(), as_json(&output)), (Some(2), json!({ "error": text, "written": false })));
    assert!(!folder.path("d/x.npy").exists());
    // A mistake in the arguments.
    let output = run("cast x.npy y.npy --to typo");
    assert_eq!(output.status.code(), Some(2));
    assert!(as_json(&output)["error"].as_str().is_some_and(|error| error.contains("typo")));
    // Where the output itself goes to the standard output, nothing else does.
    assert_eq!(
        refused(&run("cast x.npy - --to float16")),
        "--json and --dry-run print to standard output, which is also OUT"
    );
}
