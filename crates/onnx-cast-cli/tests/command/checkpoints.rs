//! `cast` on checkpoints: which tensors, what is said, and what is left behind.

use crate::common::{self, done, npy, pb, refused, stderr, stdout, tensors};
use crate::files::{Folder, floats};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::safetensors;
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
    common::types(&tensors(folder.read(name)))
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
        ("--to float16 --min-elements 3", [Float16, Float16, Float, Int64]),
        ("--to int8 --include re:1|ids", [Float, Int8, Int8, Int8]),
        ("--to bf16 --rule *.weight=float8e4m3fn --rule layer.0.*=keep", [Float, Float8E4M3FN, BFloat16, Int64]),
        ("--rules-file rules.txt", [Float8E4M3FN, Float, Float, Int64]),
        ("--rules-file rules.txt --rule *norm=float16 --to bf16", [Float8E4M3FN, Float, Float16, Int64]),
        ("--rule position_ids=float", [Float, Float, Float, Float]),
    ] {
        done(&folder.run(&format!("cast in.safetensors out.safetensors --quiet {options} -f")));
        let got: Vec<DataType> =
            types(&folder, "out.safetensors").into_iter().map(|(_, data_type)| data_type).collect();
        assert_eq!(got, want, "{options}");
    }
    let said =
        stderr(&folder.run("cast in.safetensors out.safetensors --to bf16 --rule *.weight=float8e4m3fn --force"));
    assert!(said.contains("3 tensors (10 elements) to float8e4m3fn, bfloat16, 1 tensor (2 elements) kept"), "{said}");
    for (line, message) in [
        (
            "cast in.safetensors o.safetensors --rules-file none.txt -f",
            "none.txt: cannot read: No such file or directory (os error 2)",
        ),
        (
            "cast in.safetensors o.safetensors --rule *=int4 -f",
            "o.safetensors: the .safetensors format has no name for int4",
        ),
    ] {
        folder.refuses(line, message);
    }
    folder.write("rules.txt", "*=float\n*=floaty");
    let said = stderr(&folder.run("cast in.safetensors o.safetensors --rules-file rules.txt -f"));
    let want = "rules.txt: line 2: rule `*=floaty`: neither `keep` nor a type: `floaty` is not an element type (did";
    assert!(said.contains(want), "{said}");
    let no_type = folder.run("cast in.safetensors o.safetensors -f");
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
    folder.write("x.pb", pb("x", &floats(&[0.5])));
    assert!(done(&folder.run("cast x.pb y.npy --to string --dry-run")).contains("x       float           string"));
    assert_eq!(folder.names(), ["in.safetensors", "x.pb"]);
}

/// A checkpoint of three files in a folder, as other tools write it: an index of its own spacing, with fields that are
/// not known here.
pub(crate) fn shards(folder: &Folder, name: &str) -> String {
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
        ("cast in out --to float16 -f", "out"),
        ("cast in/model.safetensors.index.json new/folder --to float16 -f", "new/folder"),
        ("cast in other/model.safetensors.index.json --to float16 -f", "other"),
        ("cast in in --to float16 -f", "in"),
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
    done(&folder.run("cast one two --to float16 --quiet -f"));
    assert_eq!(types(&folder, "two/model.safetensors").len(), 4);
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_goes_on() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::new();
    shards(&folder, "in");
    done(&folder.run("cast in out --to float16 --quiet -f"));
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
    // What is not of this output is replaced with force alone.
    let ways = "not what this job writes (remove it, name another output, or --force to replace it)";
    assert_eq!(refused(&folder.run("cast in out --to float16 --resume")), format!("out/m-2.safetensors: {ways}"));
    assert!(!folder.path(files[2]).exists(), "nothing is written before");
    let said = stderr(&folder.run("cast in out --to float16 --resume -f"));
    assert!(said.starts_with("in -> out (1 file was there already): 3 tensors"), "{said}");
    assert_eq!(files.map(|file| folder.read(file)).to_vec(), finished);
    assert_eq!([inode(files[0]) == inodes[0], inode(files[1]) == inodes[1]], [true, false]);
    assert!(folder.path("out/model.safetensors.index.json").exists());
    let said = stderr(&folder.run("cast in out --to float16 --resume"));
    assert!(said.contains("(3 files were there already)"), "{said}");
    // Other settings give other bits, which are noticed.
    assert_eq!(refused(&folder.run("cast in out --to bf16 --resume")), format!("out/m-2.safetensors: {ways}"));
    // A run that starts anew replaces them all.
    let said = stderr(&folder.run("cast in out --to bf16 -f"));
    assert!(!said.contains("already"), "{said}");
}

#[test]
fn files_that_do_not_fit_together() {
    let folder = Folder::new();
    let index = shards(&folder, "in");
    let with = |from: &str, to: &str| folder.write("in/model.safetensors.index.json", index.replace(from, to));
    let line = "cast in out --to float16";
    for (from, to, message) in [
        ("\"c\": \"m-3", "\"d\": \"m-3", "tensor `c` of m-3.safetensors is missing from weight_map"),
        ("\"c\": \"m-3", "\"c\": \"m-2", "tensor `c` is not in m-2.safetensors, where weight_map has it"),
        ("\"c\":", "\"a\":", "tensor `a` appears twice in weight_map"),
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
        "out.safetensors: one file, but the checkpoint has several (want a folder, or an index, \
         *.safetensors.index.json)",
    );
    std::fs::create_dir(folder.path("empty")).expect("a folder");
    folder.refuses(
        "cast empty out --to float16",
        "empty: 0 of *.safetensors.index.json and 0 of *.safetensors in this folder (want one; name the file)",
    );
}

#[test]
fn raw_bytes() {
    let folder = Folder::new();
    folder.write("x.bin", [0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0]);
    done(&folder.run("cast x.bin y.bin --from float --to bf16 --quiet"));
    assert_eq!(folder.read("y.bin"), [0x80, 0x3f, 0x00, 0xc0]);
    folder.write("x.dat", folder.read("x.bin"));
    done(&folder.run("cast x.dat y.pb --from float --shape 2,1 --to bf16 --quiet"));
    let tensor = onnx_cast_file::read_tensor(folder.path("y.pb")).expect("a tensor").tensor;
    assert_eq!((tensor.shape(), tensor.bytes()), (&[2, 1][..], Some(&[0x80, 0x3f, 0x00, 0xc0][..])));
    for (line, message) in [
        ("cast x.bin o.npy --to bf16", "x.bin: raw bytes have no element type (--from gives it)"),
        ("cast x.bin o.npy --to bf16 --from float --shape 3", "x.bin: 8 bytes of 3 float (want 12)"),
        ("cast x.bin o.npy --to bf16 --from complex128", "x.bin: 8 bytes of complex128 (want a multiple of 16)"),
        (
            "cast x.bin o.npy --to bf16 --from float --shape 9223372036854775807,9",
            "x.bin: 9223372036854775807x9 float is too large",
        ),
        ("cast x.bin o.bin --to string --from float", "o.bin: writing strings does not take .bin files"),
    ] {
        folder.refuses(line, message);
    }
}

#[test]
fn standard_input_and_output() {
    let folder = Folder::new();
    checkpoint(&folder, "in.safetensors");
    folder.write("x.npy", npy(&floats(&[1.0, -2.0])));
    for (name, options) in [("in.safetensors", "--to float16 --quiet"), ("x.npy", "--to bf16 --quiet")] {
        done(
            &folder
                .run(&format!("cast {name} out.{} {options}", &name[name.len() - 3..].replace("ors", "safetensors"))),
        );
        let want = folder.read(&format!("out.{}", &name[name.len() - 3..].replace("ors", "safetensors")));
        let pipe = |line: String| {
            let mut command = crate::common::command(line.split(' '));
            command.current_dir(folder.0.path()).write_stdin(folder.read(name)).output().expect("run")
        };
        let output = pipe(format!("cast - - {options}"));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(output.stdout == want, "{name}");
    }
    let raw = crate::common::command("cast - - --from float --shape 2 --to float16 -q".split(' '))
        .write_stdin([0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0])
        .output()
        .expect("run");
    assert_eq!(raw.stdout, [0x00, 0x3c, 0x00, 0xc0]);
    // Formats that are asked for: a TensorProto has no first bytes that tell it.
    folder.run("cast x.npy x.pb --to float16 -q");
    let piped = |line: &str, input: &str| {
        let mut command = crate::common::command(line.split(' '));
        command.current_dir(folder.0.path()).write_stdin(folder.read(input)).output().expect("run")
    };
    let array = piped("cast - - --in-format pb --out-format npy --to float -q", "x.pb");
    assert!(array.stdout == folder.read("x.npy"), "{}", stderr(&array));
    let array = piped("bitcast - - --out-format bin --to uint32 -q", "x.npy");
    assert_eq!(array.stdout, [0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0]);
    let listed = piped("info - --in-format pb", "x.pb");
    assert!(done(&listed).contains("float16"), "{}", stderr(&listed));
    assert!(done(&piped("report - --in-format pb --to bf16 -q", "x.pb")).contains("bfloat16: 1 tensor"));
    assert_eq!(stdout(&piped("cast - y.npy --in-format pb --to float", "x.pb")), "");
    let files = "is for standard input and output (-); the extension of a file tells its format";
    for (line, path, option) in [
        ("cast x.npy - --in-format pb --to bf16", "x.npy", "--in-format"),
        ("bitcast x.npy z.npy --out-format pb --to uint32", "z.npy", "--out-format"),
        ("info x.npy --in-format pb", "x.npy", "--in-format"),
        ("report x.npy --in-format pb --to bf16", "x.npy", "--in-format"),
    ] {
        assert_eq!(refused(&folder.run(line)), format!("{path}: {option} {files}"), "{line}");
    }
    let said = stderr(&folder.run("cast - - --in-format gguf --to bf16"));
    assert!(said.contains("want pb, npy, npz, safetensors, pt, bin"), "{said}");
    for line in ["info -", "cast - - --to float16", "dequantize - - --to float16"] {
        let empty = crate::common::command(line.split(' ')).write_stdin("").output().expect("run");
        assert_eq!(refused(&empty), "-: an empty stream (the command that should write it may have failed)", "{line}");
    }
    let unknown = crate::common::command("cast - - --to float16".split(' ')).write_stdin("text").output().expect("run");
    assert_eq!(
        refused(&unknown),
        "-: neither .npy, .npz, .safetensors, .pt nor .gguf by its first bytes (--in-format names another format, as pb, \
         and \
         --from the type of raw bytes)"
    );
}

#[test]
fn what_is_lost() {
    let folder = Folder::new();
    let (a, b) = (floats(&[1.0, 1e9, -70000.0, 1e-9]), floats(&[0.5, f32::NAN]));
    folder.write("in.safetensors", safetensors::write(None, &[("a", a.view()), ("b", b.view())]).expect("bytes"));
    let said = stderr(&folder.run("cast in.safetensors out.safetensors --to float16 --stats -f"));
    let lines: Vec<&str> = said.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "onnx-cast: warning: in.safetensors: 2 values overflowed, 1 value was NaN (first in tensor `a`)",
            "  a: 4 values, 2 overflowed, 1 became zero, error at most 1.000000e-9, relative 1.000000e0",
            "  b: 2 values, 1 NaN, no error"
        ]
    );
    let line = "cast in.safetensors out.safetensors --to float8e4m3fn --stats --json -f";
    let json: Value = serde_json::from_str(&done(&folder.run(line))).expect("JSON");
    let counts = &json["tensors"][0]["counts"];
    assert_eq!((&counts["saturated"], &counts["overflowed"], &counts["values"]), (&2.into(), &0.into(), &4.into()));
    assert_eq!(json["tensors"][1]["counts"]["nan"], 1);

    // With a loss that must not be, nothing is written.
    let before = folder.read("out.safetensors");
    for (loss, said) in [
        (
            "overflow",
            "onnx-cast: in.safetensors: tensor `a`: overflow in 2 values cast to float16 (nothing is written)\n",
        ),
        (
            "subnormal,underflow",
            "onnx-cast: in.safetensors: tensor `a`: underflow in 1 value cast to float16 (nothing is written)\n",
        ),
        ("nan", "onnx-cast: in.safetensors: tensor `b`: nan in 1 value cast to float16 (nothing is written)\n"),
    ] {
        let output = folder.run(&format!("cast in.safetensors out.safetensors --to float16 --fail-on {loss} -f"));
        assert_eq!((output.status.code(), stderr(&output)), (Some(1), said.to_owned()));
        assert!(folder.read("out.safetensors") == before);
    }
    let output = folder.run("cast in.safetensors out.safetensors --to float16 --fail-on nan --json -f");
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["tensors"][1]["counts"]["nan"], 1);
    done(&folder.run("cast in.safetensors out.safetensors --to bf16 --fail-on overflow,underflow,subnormal -q -f"));
    assert_eq!(types(&folder, "out.safetensors")[0].1, DataType::BFloat16);

    // Of several files, none: the loss is in the second.
    shards(&folder, "several");
    let output = folder.run("cast several out --to float16 --fail-on overflow -f");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(folder.names(), ["in.safetensors", "out.safetensors", "several"]);
    let unknown = folder.run("cast several out --to float16 --fail-on overflows -f");
    assert!(stderr(&unknown).contains("`overflows` is not a loss (want overflow, underflow, subnormal or nan)"));
    folder
        .refuses("bitcast in.safetensors out.safetensors --to int32 --stats -f", "unexpected argument '--stats' found");
}

#[test]
fn what_a_file_holds() {
    let folder = Folder::new();
    let (a, b) = (floats(&[1.0, -3.5, 0.0, f32::NAN]), floats(&[f32::INFINITY, 2.0]));
    let metadata = [("format".to_owned(), "pt".to_owned())];
    let tensors = [("a", a.view()), ("b", b.view())];
    folder.write("x.safetensors", safetensors::write(Some(&metadata), &tensors).expect("bytes"));
    let expected = "\
tensor  type            shape         bytes
a       float           4              16 B
    min -3.5e0, max 1e0, mean -8.333333333333334e-1, 1 zeros, 1 NaN, 0 infinities
b       float           2               8 B
    min 2e0, max inf, mean 2e0, 0 zeros, 0 NaN, 1 infinities
total: 2 tensors, 24 B (.safetensors)
metadata: format = pt
";
    assert_eq!(done(&folder.run("info x.safetensors --stats")), expected);
    let json: Value = serde_json::from_str(&done(&folder.run("info x.safetensors --stats --json"))).expect("JSON");
    let values = &json["tensors"][1]["values"];
    assert_eq!((&values["max"], &values["min"], &values["infinities"]), (&"inf".into(), &2.0.into(), &1.into()));
    assert_eq!((&json["metadata"]["format"], &json["format"]), (&"pt".into(), &"safetensors".into()));
    shards(&folder, "several");
    assert!(done(&folder.run("info several")).contains("total: 3 tensors in 3 files, 24 B"));
}

#[test]
fn differences() {
    let folder = Folder::new();
    let (a, b) = (floats(&[1.0, 2.0, f32::NAN, 0.0]), floats(&[1.0, 2.5, f32::NAN, -0.0]));
    let write = |name: &str, list: &[(&str, &Tensor)]| {
        let views: Vec<_> = list.iter().map(|(name, tensor)| (*name, tensor.view())).collect();
        folder.write(name, safetensors::write(None, &views).expect("bytes"));
    };
    let (half, short) = (Tensor::from_slice(vec![4], &[1u16, 2, 3, 4]).expect("a tensor"), floats(&[1.0]));
    write("x.safetensors", &[("a", &a), ("b", &half), ("c", &short), ("d", &a)]);
    write("y.safetensors", &[("e", &a), ("c", &a), ("b", &a), ("a", &b)]);
    let output = folder.run("diff x.safetensors y.safetensors");
    let expected = "\
a: 2 of 4 elements differ, the first is 1, by at most 5e-1
b: uint16, and float
c: 1, and 4
d: only in x.safetensors
e: only in y.safetensors
";
    assert_eq!((output.status.code(), crate::common::stdout(&output)), (Some(1), expected.to_owned()));
    assert_eq!(done(&folder.run("diff x.safetensors x.safetensors")), "");

    write("a.safetensors", &[("a", &a)]);
    write("b.safetensors", &[("a", &b)]);
    assert_eq!(folder.run("diff a.safetensors b.safetensors --quiet").status.code(), Some(1));
    assert_eq!(folder.run("diff a.safetensors b.safetensors --tolerance 0.4").status.code(), Some(1));
    done(&folder.run("diff a.safetensors b.safetensors --tolerance 0.5"));
    // Formats, names and byte order do not matter for one tensor.
    folder.write("a.npy", npy(&a));
    done(&folder.run("diff a.safetensors a.npy"));
    let big: Vec<u8> = [1.0f32, 2.0, f32::NAN, 0.0].iter().flat_map(|value| value.to_be_bytes()).collect();
    let header = "{'descr': '>f4', 'fortran_order': False, 'shape': (4,), }";
    let bytes = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &big].concat();
    folder.write("big.npy", bytes);
    done(&folder.run("diff a.safetensors big.npy"));
    done(&folder.run("diff big.npy a.safetensors"));
}

/// A folder that is cast loads where it did: what stands beside its weights goes with it.
#[test]
fn other_files_of_a_folder() {
    let folder = Folder::new();
    let index = shards(&folder, "several");
    std::fs::create_dir(folder.path("one")).expect("a folder");
    folder.write("one/model.safetensors", folder.read("several/m-1.safetensors"));
    for name in ["several", "one"] {
        for other in ["config.json", "tokenizer.json", "LICENSE"] {
            folder.write(&format!("{name}/{other}"), format!("{name} {other}"));
        }
        for not in [".hidden", "pytorch_model.bin", "model.gguf", "pytorch_model.bin.index.json", "x.PT"] {
            folder.write(&format!("{name}/{not}"), "weights");
        }
        std::fs::create_dir(folder.path(&format!("{name}/onnx"))).expect("a folder");
    }
    folder.write("several/unlisted.safetensors", "weights");
    let list = |out: &str| {
        let mut names: Vec<String> = std::fs::read_dir(folder.path(out))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    let others = ["LICENSE", "config.json", "tokenizer.json"];
    for (name, weights) in [
        ("several", &["m-1.safetensors", "m-2.safetensors", "m-3.safetensors", "model.safetensors.index.json"][..]),
        ("one", &["model.safetensors"]),
    ] {
        let wanted = |others: &[&str]| {
            let mut names: Vec<String> = [others, weights].concat().into_iter().map(str::to_owned).collect();
            names.sort();
            names
        };
        let plan = done(&folder.run(&format!("cast {name} {name}-out --to float16 --dry-run -f")));
        assert!(plan.ends_with("3 other files would be copied\n"), "{plan}");
        assert!(!folder.path(&format!("{name}-out")).exists());
        let said = stderr(&folder.run(&format!("cast {name} {name}-out --to float16 -f")));
        assert!(said.starts_with(&format!("{name} -> {name}-out, 3 other files copied: ")), "{said}");
        assert_eq!(list(&format!("{name}-out")), wanted(&others));
        for other in others {
            assert_eq!(folder.read(&format!("{name}-out/{other}")), format!("{name} {other}").into_bytes());
        }
        let again = done(&folder.run(&format!("cast {name} {name}-out --to float16 --resume --json")));
        assert_eq!(serde_json::from_str::<Value>(&again).expect("JSON")["copied"], 3);
        done(&folder.run(&format!("bitcast {name} {name}-bits --to uint32 --quiet --no-copy-others -f")));
        assert_eq!(list(&format!("{name}-bits")), wanted(&[]));
        let before = list(name);
        let said = stderr(&folder.run(&format!("cast {name} ./{name} --to float16 -f")));
        assert!(said.starts_with(&format!("{name} -> ./{name}: ")), "{said}");
        assert_eq!(list(name), before);
    }
    // The index alone, not its folder.
    folder.write("several/model.safetensors.index.json", index);
    done(&folder.run("cast several/model.safetensors.index.json alone --to float -q -f"));
    assert_eq!(list("alone").len(), 4);
    // With a loss that must not be, there is no folder.
    let failed = folder.run("cast several lost --to float8e4m3fn --fail-on overflow -f");
    assert_eq!((failed.status.code(), folder.path("lost").exists()), (Some(1), false), "{}", stderr(&failed));
}

/// A file that begins as another format is refused by the name of that format, whatever its length.
#[test]
fn foreign_files_are_no_raw_bytes() {
    let folder = Folder::new();
    let array = npy(&floats(&[1.0]));
    let checkpoint = safetensors::write(None, &[("x", floats(&[1.0]).view())]).expect("bytes");
    const SAVE: &str = "save its tensors as .safetensors, or name raw bytes .raw";
    for (beginning, said) in [
        (
            &b"PK\x03\x04\0\0\x08\x08"[..],
            "a zip archive, not raw bytes (name it .pt if torch.save wrote it, and arrays .npz)",
        ),
        (
            b"\x80\x04\x95\x1a\0\0\0\0",
            "a pickle, not raw bytes (name it .pt if torch.save wrote it, or raw bytes .raw)",
        ),
        (b"\x89HDF\r\n\x1a\n", &format!("an HDF5 file, not raw bytes ({SAVE})")),
        (b"GGUF\x03\0\0\0", "a GGUF file, not raw bytes (name it .gguf, or raw bytes .raw)"),
        (&array, "a numpy array, not raw bytes (name it .npy, or raw bytes .raw)"),
        (&checkpoint, "a .safetensors file, not raw bytes (name it .safetensors, or raw bytes .raw)"),
        (b"\x08\x08\x12\x07pytorch\x1a\x03", "an ONNX model, not raw bytes (name it .onnx, or raw bytes .raw)"),
        (b"\x08\x0a\x3a\x80\x01\x0a", "an ONNX model, not raw bytes (name it .onnx, or raw bytes .raw)"),
    ] {
        let mut bytes = beginning.to_vec();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        folder.write("x.bin", &bytes);
        // A zip archive is read as a file of torch.save, unless a shape is specified.
        let by_type =
            if beginning.starts_with(b"PK") { "the archive is not valid: no directory at the end" } else { said };
        let with_shape = format!("--from float --shape {}", bytes.len() / 4);
        for (options, said) in [("--from float", by_type), (&with_shape, said)] {
            folder.refuses(&format!("cast x.bin y.npy --to float16 {options} -f"), &format!("x.bin: {said}"));
        }
        folder.write("x.raw", &bytes);
        done(&folder.run("bitcast x.raw y.raw --from float --to int32 -q -f"));
        assert_eq!(folder.read("y.raw"), bytes);
        std::fs::remove_file(folder.path("x.raw"))
            .and_then(|()| std::fs::remove_file(folder.path("y.raw")))
            .expect("gone");
    }
    // What only looks a little like one is not.
    for bytes in [b"\x80\x02\0\0", b"\x08\x0a\0\0", b"PK\0\0"] {
        folder.write("x.bin", bytes);
        done(&folder.run("cast x.bin y.npy --from float --to float16 -q -f"));
    }
}

#[test]
fn gguf_files_are_listed_and_dequantized() {
    let folder = Folder::new();
    folder.write("x.gguf", include_bytes!("../../../testkit/data/gguf/tensors.gguf"));
    let listed = done(&folder.run("info x.gguf"));
    let line = listed.lines().find(|line| line.starts_with("Q4_K.random")).expect("the tensor");
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["Q4_K.random", "Q4_K", "3x256", "432", "B"]);
    assert!(listed.contains("metadata: general.architecture = llama\n"), "{listed}");
    let listed: Value =
        serde_json::from_str(&done(&folder.run("info x.gguf --json --include Q8_0.random"))).expect("JSON");
    assert_eq!((&listed["format"], &listed["tensors"][0]["block_type"]), (&"gguf".into(), &"Q8_0".into()));
    done(&folder.run("dequantize x.gguf --to float --out-dir out -q"));
    assert!(types(&folder, "out/x.safetensors").contains(&("Q8_0.random".to_owned(), DataType::Float)));
    done(&folder.run("diff x.gguf out/x.safetensors --exclude *scale"));
    folder.refuses(
        "dequantize x.gguf y.safetensors --to bf16 --exclude Q8_0.random",
        "x.gguf: tensor `Q8_0.random`: a .safetensors file cannot hold Q8_0, so that the tensor needs a type",
    );
    folder.refuses("cast x.gguf y.npy --to bf16", "x.gguf: cast does not take .gguf files (`dequantize` reads it)");
}
