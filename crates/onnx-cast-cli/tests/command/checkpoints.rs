//! `cast` on checkpoints: which tensors, what is said, and what is left behind.

use crate::common::{done, refused, stderr};
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

/// A checkpoint of three files in a folder, as other tools write it: an index of its own spacing, with fields that are not
/// known here.
fn shards(folder: &Folder, name: &str) -> String {
    std::fs::create_dir(folder.path(name)).expect("a folder");
    let metadata = [("format".to_owned(), "pt".to_owned())];
    for (file, tensor, values) in [("m-1", "a", [1.0, 2.0]), ("m-2", "b", [-0.3, 1e9]), ("m-3", "c", [0.0, -0.0])] {
        let bytes = safetensors::write(Some(&metadata), &[(tensor, floats(&values).view())]).expect("bytes");
        folder.write(&format!("{name}/{file}.safetensors"), bytes);
    }
    let index = r#"{
  "metadata": {"total_size" : 24, "other": [1.50, {"total_size": 7}]},
  "weight_map": {"b": "m-2.safetensors", "a": "m-1.safetensors", "c": "m-3.safetensors"}, "more": null
}
"#;
    folder.write(&format!("{name}/model.safetensors.index.json"), index);
    index.to_owned()
}

#[test]
fn a_checkpoint_in_several_files() {
    let folder = Folder::new();
    let index = shards(&folder, "in");
    let want = index.replace("24", "12");
    for (line, out) in [
        ("cast in out --to float16", "out"),
        ("cast in/model.safetensors.index.json new/folder --to float16", "new/folder"),
        ("cast in other/model.safetensors.index.json --to float16", "other"),
        ("cast in in --to float16", "in"),
    ] {
        let said = stderr(&folder.run(line));
        assert!(said.contains("3 tensors (6 elements) to float16, 24 B -> 12 B"), "{line}: {said}");
        assert_eq!(String::from_utf8(folder.read(&format!("{out}/model.safetensors.index.json"))).as_ref(), Ok(&want));
        for (file, tensor) in [("m-1", "a"), ("m-2", "b"), ("m-3", "c")] {
            let got = types(&folder, &format!("{out}/{file}.safetensors"));
            assert_eq!(got, [(tensor.to_owned(), DataType::Float16)], "{line}");
        }
        assert_eq!(std::fs::read_dir(folder.path(out)).expect("a folder").count(), 4, "{line}");
    }
    // A folder with one file, and no index.
    std::fs::create_dir(folder.path("one")).expect("a folder");
    checkpoint(&folder, "one/model.safetensors");
    done(&folder.run("cast one two --to float16 --quiet"));
    assert_eq!(types(&folder, "two/model.safetensors").len(), 4);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_goes_on() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new();
    shards(&folder, "in");
    done(&folder.run("cast in out --to float16 --quiet"));
    let files = ["out/m-1.safetensors", "out/m-2.safetensors", "out/m-3.safetensors"];
    let finished: Vec<Vec<u8>> = files.iter().map(|file| folder.read(file)).collect();
    let inode = |file: &str| std::fs::metadata(folder.path(file)).expect("a file").ino();
    // One file is as it should be, one has another bit, one is not there, nor is the index.
    let mut other = finished[1].clone();
    *other.last_mut().expect("bytes") ^= 1;
    folder.write(files[1], other);
    let inodes = [inode(files[0]), inode(files[1])];
    std::fs::remove_file(folder.path(files[2])).expect("removed");
    std::fs::remove_file(folder.path("out/model.safetensors.index.json")).expect("removed");
    let said = stderr(&folder.run("cast in out --to float16 --resume"));
    assert!(said.starts_with("in -> out (1 file was there already): 3 tensors"), "{said}");
    assert_eq!(files.map(|file| folder.read(file)).to_vec(), finished);
    assert_eq!([inode(files[0]) == inodes[0], inode(files[1]) == inodes[1]], [true, false]);
    assert!(folder.path("out/model.safetensors.index.json").exists());
    let said = stderr(&folder.run("cast in out --to float16 --resume"));
    assert!(said.contains("(3 files were there already)"), "{said}");
    // Other settings give other bits, which are noticed.
    let said = stderr(&folder.run("cast in out --to bf16 --resume"));
    assert!(!said.contains("already"), "{said}");
    // A run that starts anew replaces them all.
    let said = stderr(&folder.run("cast in out --to bf16"));
    assert!(!said.contains("already"), "{said}");
}

#[test]
fn files_that_do_not_fit_together() {
    let folder = Folder::new();
    let index = shards(&folder, "in");
    let with = |from: &str, to: &str| folder.write("in/model.safetensors.index.json", index.replace(from, to));
    let line = "cast in out --to float16";
    for (from, to, message) in [
        ("\"c\": \"m-3", "\"d\": \"m-3", "tensor `c` of m-3.safetensors is not there by weight_map"),
        ("\"c\": \"m-3", "\"c\": \"m-2", "tensor `c` is not in m-2.safetensors, where weight_map has it"),
        ("\"c\":", "\"a\":", "tensor `a` stands twice in weight_map"),
        (
            "m-3.safetensors",
            "../m-3.safetensors",
            "weight_map names the file `../m-3.safetensors` (want the name of a .safetensors file, without a folder)",
        ),
        (
            "m-3.safetensors",
            "/etc/passwd",
            "weight_map names the file `/etc/passwd` (want the name of a .safetensors file, without a folder)",
        ),
        ("weight_map", "weights", "the index is not valid: missing field `weight_map` at line 4 column 1"),
    ] {
        with(from, to);
        let said = refused(&folder.run(line));
        assert_eq!(said, format!("in/model.safetensors.index.json: {message}"), "{from} -> {to}");
        assert!(!folder.path("out").exists(), "{from} -> {to}");
    }
    with("", "");
    folder.write("in/m-3.safetensors", b"\0\0\0\0\0\0\0\x80");
    folder.refuses(line, "in/m-3.safetensors: a header of 9223372036854775808 bytes (want at most 100000000)");
    shards(&folder, "good");
    folder.refuses(
        "cast good out.safetensors --to float16",
        "out.safetensors: one file, where the checkpoint has several (want a folder, or an index, *.safetensors.index.json)",
    );
    std::fs::create_dir(folder.path("empty")).expect("a folder");
    folder.refuses(
        "cast empty out --to float16",
        "empty: 0 of *.safetensors.index.json and 0 of *.safetensors in this folder (want one; name the file)",
    );
}
