//! `cast` on checkpoints: which tensors, what is said, and what is left behind.

use crate::common::{done, stderr};
use crate::files::{Folder, floats};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::safetensors::{self, Safetensors};
use serde_json::Value;

/// Four tensors: two weights, a norm and indices.
fn checkpoint(folder: &Folder, name: &str) {
    let (weight, norm) = (floats(&[1.0, -0.3, 1000.0, 2.5]), floats(&[1.0, 2.0]));
    let ids = Tensor::from_slice(vec![2], &[7i64, -1]).expect("a tensor");
    let metadata = [("format".to_owned(), "pt".to_owned())];
    let tensors = [
        ("layer.0.weight", weight.view()),
        ("layer.1.weight", weight.view()),
        ("layer.1.norm", norm.view()),
        ("position_ids", ids.view()),
    ];
    folder.write(name, safetensors::write(Some(&metadata), &tensors).expect("bytes"));
}

/// The names and types of a file's tensors.
fn types(folder: &Folder, name: &str) -> Vec<(String, DataType)> {
    let bytes = folder.read(name);
    let file = Safetensors::parse(&bytes).expect("a file");
    file.entries().iter().map(|entry| (entry.name.clone(), entry.data_type)).collect()
}

#[test]
fn selection() {
    use DataType::{BFloat16, Float, Float8E4M3FN, Float16, Int8, Int64};
    let folder = Folder::new();
    checkpoint(&folder, "in.safetensors");
    folder.write("rules.txt", "# weights\n*.weight = float8e4m3fn\nlayer.1.*=keep\n");
    for (options, want) in [
        ("--to float16", [Float16, Float16, Float16, Int64]),
        ("--to float16 --include *.weight", [Float16, Float16, Float, Int64]),
        ("--to float16 --exclude *norm --exclude re:[.]0[.]", [Float, Float16, Float, Int64]),
        ("--to float16 --min-size 3", [Float16, Float16, Float, Int64]),
        ("--to int8 --include re:1|ids", [Float, Int8, Int8, Int8]),
        ("--to bf16 --rule *.weight=float8e4m3fn --rule layer.0.*=keep", [Float, Float8E4M3FN, BFloat16, Int64]),
        ("--rules rules.txt", [Float8E4M3FN, Float, Float, Int64]),
        ("--rules rules.txt --rule *norm=float16 --to bf16", [Float8E4M3FN, Float, Float16, Int64]),
        ("--rule position_ids=float", [Float, Float, Float, Float]),
    ] {
        done(&folder.run(&format!("cast in.safetensors out.safetensors --quiet {options}")));
        let got: Vec<DataType> =
            types(&folder, "out.safetensors").into_iter().map(|(_, data_type)| data_type).collect();
        assert_eq!(got, want, "{options}");
    }
    let said = stderr(&folder.run("cast in.safetensors out.safetensors --to bf16 --rule *.weight=float8e4m3fn"));
    assert!(said.contains("3 tensors (10 elements) to float8e4m3fn, bfloat16, 1 tensor (2 elements) kept"), "{said}");
    for (line, message) in [
        (
            "cast in.safetensors o.safetensors --rules none.txt",
            "none.txt: cannot read: No such file or directory (os error 2)",
        ),
        (
            "cast in.safetensors o.safetensors --rule *=int4",
            "o.safetensors: the .safetensors format has no name for int4",
        ),
    ] {
        folder.refuses(line, message);
    }
    folder.write("rules.txt", "*=float\n*=floaty");
    folder.refuses(
        "cast in.safetensors o.safetensors --rules rules.txt",
        "rules.txt: line 2: rule `*=floaty`: `floaty` is not an element type (nor `keep`)",
    );
    let no_type = folder.run("cast in.safetensors o.safetensors");
    assert!(stderr(&no_type).contains("--to <TYPE>"), "{}", stderr(&no_type));
}

#[test]
fn a_dry_run_writes_nothing() {
    let folder = Folder::new();
    checkpoint(&folder, "in.safetensors");
    let line = "cast in.safetensors out.safetensors --to float16 --exclude *norm --dry-run";
    let expected = "\
tensor          from            to                    before         after
layer.0.weight  float           float16                 16 B           8 B
layer.1.weight  float           float16                 16 B           8 B
layer.1.norm    float           (kept)                   8 B           8 B
position_ids    int64           (kept)                  16 B          16 B
total: 2 tensors (8 elements) cast, 2 tensors (4 elements) kept, 56 B -> 40 B
";
    assert_eq!(done(&folder.run(line)), expected);
    let json: Value = serde_json::from_str(&done(&folder.run(&format!("{line} --json")))).expect("JSON");
    assert_eq!((&json["bytes_before"], &json["bytes_after"], &json["dry_run"]), (&56.into(), &40.into(), &true.into()));
    let row = &json["tensors"][1];
    assert_eq!(
        (&row["name"], &row["from"], &row["to"]),
        (&"layer.1.weight".into(), &"float".into(), &"float16".into())
    );
    assert_eq!((&row["shape"][0], &row["cast"], &json["tensors"][2]["cast"]), (&4.into(), &true.into(), &false.into()));
    assert_eq!(folder.names(), ["in.safetensors"]);

    // What would be refused is refused.
    folder.refuses(
        "cast in.safetensors out.safetensors --rule *norm=uint4 --dry-run",
        "out.safetensors: the .safetensors format has no name for uint4",
    );
    folder.write("x.pb", onnx_cast_file::pb::write("x", &floats(&[0.5]).view()).expect("bytes"));
    assert!(done(&folder.run("cast x.pb y.npy --to string --dry-run")).contains("x       float           string"));
    assert_eq!(folder.names(), ["in.safetensors", "x.pb"]);
}
