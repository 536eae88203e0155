//! `report`: its tables, its JSON and its page.

use crate::common::{done, refused, run};
use crate::files::{Folder, floats};
use onnx_cast::Tensor;
use onnx_cast_file::{Format, WriteOptions, write_tensor};
use serde_json::Value;
use testkit::proto::{Message, model, node, tensor};

/// A tensor of every fate, in a file of its own.
fn folder() -> Folder {
    let folder = Folder::new();
    let values: Vec<f32> = (1..=1000u16).map(|index| f32::from(index) / 7.0).chain([1e9, 1e-9, 0.0]).collect();
    let options = WriteOptions::default();
    let path = folder.path("x.safetensors");
    write_tensor(path, Format::Safetensors, "layer.</script>.w", floats(&values).view(), &options).expect("a file");
    folder
}

#[test]
fn tables_that_fit_and_say_what_is_lost() {
    let folder = folder();
    let text = done(&folder.run("report x.safetensors --to float16,int8,float --quiet"));
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    let tables: Vec<&str> = text.split("\n\n").collect();
    let expected = "\
float16: 1 tensor, 1003 values, 4012 B -> 2006 B (50% saved)
1 care
73.2 dB overall
verdict  SNR beyond   zero   subn  error   least    most tensor
care      73  0.10%  0.10%      0 1.2e-3  1.0e-9   1.0e9 layer.</script>.w";
    assert_eq!(tables[0].lines().count(), expected.lines().count(), "{text}");
    for (line, want) in tables[0].lines().zip(expected.lines()) {
        // The figures of errors are compared with numpy's elsewhere.
        let start = want.find("SNR").or(want.find("73")).unwrap_or(want.len());
        assert_eq!(line.get(..start), want.get(..start), "{text}");
    }
    assert!(
        tables[1].contains("\n1 of 1 tensors have more than 0.1% of their values overflow or saturate\n"),
        "{text}"
    );
    assert!(tables[2].contains("\n1 exact\n"), "{text}");
}

#[test]
fn json_has_every_figure() {
    let folder = folder();
    let found: Value =
        serde_json::from_str(&done(&folder.run("report x.safetensors --to float16 --json"))).expect("JSON");
    let tensor = &found["tensors"][0];
    assert_eq!((tensor["values"].as_u64(), tensor["zeros"].as_u64()), (Some(1003), Some(1)));
    let (first, counts) = (tensor["magnitudes"]["first"].as_i64(), tensor["magnitudes"]["counts"].as_array());
    assert_eq!((first, counts.map(Vec::len)), (Some(-30), Some(60)));
    let candidate = &tensor["candidates"][0];
    assert_eq!((candidate["overflowed"].as_u64(), candidate["zero"].as_u64()), (Some(1), Some(1)));
    assert_eq!(candidate["error_by_power"][0].as_f64(), Some(1.0));
    assert_eq!(candidate["verdict"], "care");
    assert_eq!(found["types"][0]["limits"]["largest"].as_f64(), Some(65504.0));
    assert_eq!(found["types"][0]["verdicts"]["care"].as_u64(), Some(1));
}

#[test]
fn the_page_holds_all_it_needs() {
    let folder = folder();
    let printed = done(&folder.run("report x.safetensors --to float16,int4,float8e8m0 --html out.html --quiet"));
    assert_eq!(printed, "", "with a page, --quiet prints nothing");
    let page = String::from_utf8(folder.read("out.html")).expect("UTF-8");
    assert!(!page.contains("{{"), "a mark is left");
    for outside in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let data = page.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>")).expect("data").0;
    let data: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(data["tensors"][0][0], "layer.</script>.w");
    assert_eq!(data["types"].as_array().map(Vec::len), Some(3));
    assert_eq!(data["types"][1]["limits"], serde_json::json!([null, 1.0, 7.0]));
    assert!(page.contains("Leon Sorokin"), "whose plots they are");
    folder.refuses(
        "report x.safetensors --to string --html out.html -f",
        "string is not a type of real numbers: there are no errors to report",
    );
}

#[test]
fn models_have_their_large_constants_looked_at() {
    let folder = Folder::new();
    let constant = |len: usize| {
        let tensor = tensor(&[len as i64], 1, &vec![0x3f; 4 * len]);
        vec![Message::new().bytes(1, "value").message(5, tensor).int(20, 4)]
    };
    let nodes = vec![node("Constant", &[], "w", constant(300)), node("Constant", &[], "small", constant(3))];
    folder.write("m.onnx", model(21, nodes, &[], &[("w", 1)]));
    let names = |line: &str| {
        let found: Value = serde_json::from_str(&done(&folder.run(line))).expect("JSON");
        let names = found["tensors"].as_array().expect("tensors").iter().map(|tensor| tensor["name"].clone());
        names.map(|name| name.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("report m.onnx --to bf16 --json"), ["w"]);
    assert_eq!(names("report m.onnx --to bf16 --json --min-elements 1"), ["w", "small"]);
    assert_eq!(names("report m.onnx --to bf16 --json --min-elements 1 --exclude w"), ["small"]);
    let text = done(&folder.run("report m.onnx --to bf16 --min-elements 1 --top 1"));
    assert!(text.contains("and 1 more (--top 0 shows all)"), "{text}");
}

/// A matrix of small weights.
fn weights() -> Folder {
    let folder = Folder::new();
    let values: Vec<f32> =
        (0..64 * 96u32).map(|i| ((i * 37 % 101) as f32 - 50.0) * 2f32.powi(-((i / 96 % 9) as i32) - 6)).collect();
    let tensor = Tensor::from_slice(vec![64, 96], &values).expect("a tensor");
    let path = folder.path("w.safetensors");
    write_tensor(path, Format::Safetensors, "w.weight", tensor.view(), &WriteOptions::default()).expect("a file");
    folder
}

const SCALED: &str = "float4e2m1,mxfp4,nvfp4,int4/32,int8/row,float8e4m3fn/16x24,float8e4m3fn/tensor";

#[test]
fn scaled_candidates_stand_beside_bare_ones() {
    let folder = weights();
    let text = done(&folder.run(&format!("report w.safetensors --to {SCALED} --quiet")));
    assert!(text.lines().all(|line| line.chars().count() < 80), "{text}");
    let heads: Vec<&str> = text.lines().filter(|line| line.contains(" -> ")).collect();
    // Packed integers have a tensor of their shape too.
    let bytes = [3072, 3072 + 192, 3072 + 384 + 4, 3072 + 4 * 192 + 16, 6144 + 4 * 64 + 16, 6144 + 4 * 16, 6144 + 4];
    let want: Vec<String> = SCALED
        .split(',')
        .zip(bytes)
        .map(|(name, bytes)| format!("{name}: 1 tensor, 6144 values, 24.0 KiB -> {bytes} B"))
        .collect();
    assert_eq!(heads.len(), want.len());
    heads.iter().zip(&want).for_each(|(head, want)| assert!(head.starts_with(want), "{head}, want {want}"));
    assert!(text.contains("192 blocks: 1% below "), "{text}");
    let found: Value =
        serde_json::from_str(&done(&folder.run(&format!("report w.safetensors --to {SCALED} --json")))).expect("JSON");
    let candidates = found["tensors"][0]["candidates"].as_array().expect("candidates");
    let counts: Vec<Option<u64>> = candidates.iter().map(|one| one["blocks"]["count"].as_u64()).collect();
    assert_eq!(counts, [None, Some(192), Some(384), Some(192), Some(64), Some(16), None]);
    let snr: Vec<f64> = candidates.iter().map(|one| one["snr"].as_f64().expect("an SNR")).collect();
    assert!(snr[0] < snr[1] && snr[1] < snr[3] && snr[3] < snr[4], "{snr:?}");
    let blocks = &candidates[1]["blocks"];
    let sum = |counts: &Value| counts.as_array().expect("counts").iter().filter_map(Value::as_u64).sum::<u64>();
    let apart = ["zeros", "not_finite"].map(|name| blocks[name].as_u64().expect("a count"));
    assert_eq!(sum(&blocks["amax"]["counts"]) + apart[0] + apart[1], 192);
    assert_eq!(
        (blocks["snr"]["step"].as_i64(), blocks["snr"]["first"].as_i64().map(|first| first % 3)),
        (Some(3), Some(0))
    );
    assert_eq!((&found["types"][1]["type"], &found["types"][1]["limits"]), (&Value::from("mxfp4"), &Value::Null));
    let ceil: Value =
        serde_json::from_str(&done(&folder.run("report w.safetensors --to mxfp4 --scale-rule ceil --json")))
            .expect("JSON");
    assert_ne!(ceil["tensors"][0]["candidates"][0]["snr"], candidates[1]["snr"]);
}

#[test]
fn quantized_checkpoints_are_measured_by_their_values() {
    let folder = weights();
    done(&folder.run("quantize w.safetensors q.safetensors --to mxfp8 -q"));
    let text = done(&folder.run("report q.safetensors --to bfloat16 --html page.html"));
    let line = "1 quantized weight (compressed-tensors) measured as dequantized floats";
    assert!(text.starts_with(&format!("{line}\nbfloat16: ")), "{text}");
    assert!(!text.contains("weight_scale") && !text.contains("refuse"), "{text}");
    assert!(std::fs::read_to_string(folder.path("page.html")).expect("a page").contains(line));
    let json: Value =
        serde_json::from_str(&done(&folder.run("report q.safetensors --to bfloat16 --json"))).expect("JSON");
    assert_eq!(json["dequantized"], serde_json::json!([{ "layout": "compressed-tensors", "weights": 1 }]));
    // Other reports lack the entry.
    let json: Value =
        serde_json::from_str(&done(&folder.run("report w.safetensors --to bfloat16 --json"))).expect("JSON");
    assert!(json.get("dequantized").is_none());
}

#[test]
fn the_page_draws_blocks() {
    let folder = weights();
    done(&folder.run(&format!("report w.safetensors --to {SCALED} --html out.html")));
    let page = String::from_utf8(folder.read("out.html")).expect("UTF-8");
    assert!(!page.contains("{{") && page.contains("Blocks by signal to noise"), "a mark is left");
    let data = page.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>")).expect("data").0;
    let data: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!((&data["types"][1]["name"], &data["types"][1]["limits"]), (&Value::from("mxfp4"), &Value::Null));
    let candidates = data["tensors"][0][12].as_array().expect("candidates");
    assert_eq!(candidates[0][13], Value::Null);
    assert_eq!((candidates[1][13][0].as_u64(), candidates[1][13][7].as_i64()), (Some(192), Some(3)));
}

#[test]
fn what_cannot_be_reported() {
    assert!(refused(&run("report missing.npy --to bf16")).starts_with("missing.npy: cannot open"), "no file");
    for (to, error) in [
        ("mxfp5", "`mxfp5` is not an element type (did you mean `mxfp4`?)"),
        ("mxfp4/16", "blocks of mxfp4 have 32 elements"),
        ("float16/row", "float16 has no choice of scales (want one of float8e4m3fn,"),
        ("text/row", "`text` is not a format of quantized weights (want mxfp8,"),
        ("int8/block", "`block` has no scales (want tensor, row, a block as 32 or 128x128)"),
    ] {
        let said = refused(&run(&format!("report missing.npy --to {to}")));
        assert!(said.contains(error), "{to}: {said}");
    }
}
