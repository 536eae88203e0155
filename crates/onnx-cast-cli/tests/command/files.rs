//! `cast`, `bitcast` and `run` on files: what they write, and what bad input gets: an error, exit code 2, the output as
//! it was, and no stray file.

use crate::common::{command, done, npy, pb, refused, stderr, tensors, types};
use onnx_cast::tensor::Strings;
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{InspectRequest, inspect, read_tensor, safetensors};
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use testkit::proto::{self, Message, int_attribute, model, node, string_attribute};

/// A folder of a test's own.
pub(crate) struct Folder(pub(crate) tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).expect("the folder takes a file");
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("the file is there")
    }

    /// Runs a line of arguments, split at spaces, with the folder as the current one.
    pub(crate) fn run(&self, line: &str) -> Output {
        command(line.split(' ')).current_dir(self.0.path()).output().expect("the command runs")
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let list = fs::read_dir(self.0.path()).expect("a folder");
        let mut names: Vec<String> =
            list.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Runs a line that must fail with this message, change no file and leave none.
    #[track_caller]
    pub(crate) fn refuses(&self, line: &str, message: &str) {
        let before: Vec<(String, Vec<u8>)> = self.snapshot();
        let said = refused(&self.run(line));
        assert_eq!(said, message, "{line}");
        assert!(self.snapshot() == before, "{line}: files changed: {:?}", self.names());
    }

    fn snapshot(&self) -> Vec<(String, Vec<u8>)> {
        let read = |name: String| {
            let bytes = fs::read(self.path(&name)).unwrap_or_default();
            (name, bytes)
        };
        self.names().into_iter().map(read).collect()
    }
}

pub(crate) fn floats(values: &[f32]) -> Tensor {
    Tensor::from_slice(vec![values.len()], values).expect("a tensor")
}

fn summary(output: &Output) -> String {
    assert_eq!(done(output), "", "nothing on the standard output");
    stderr(output)
}

/// The summary without its time, and without a warning.
fn timeless(said: &str) -> String {
    let line = said.lines().next().unwrap_or_default();
    let (before, _) = line.rsplit_once(", ").expect("a time");
    before.to_owned()
}

#[test]
fn cast_from_format_to_format() {
    let folder = Folder::new();
    let tensor = floats(&[1.0, -0.3, 1000.0, f32::NAN]);
    folder.write("x.pb", pb("x", &tensor));
    folder.write("x.npy", npy(&tensor));
    folder.write("x.safetensors", safetensors::write(None, &[("x", tensor.view())]).expect("bytes"));
    for from in ["pb", "npy", "safetensors"] {
        for to in ["pb", "safetensors"] {
            let output = folder.run(&format!("cast x.{from} y.{to} --to float8e4m3fn -f"));
            let expected = format!("x.{from} -> y.{to}: 1 tensor (4 elements) to float8e4m3fn, 16 B -> 4 B");
            assert_eq!(timeless(&summary(&output)), expected);
            let result = read_tensor(folder.path(&format!("y.{to}"))).expect("a tensor");
            // An .npy file has no names: a checkpoint's tensor is then named after the file.
            let name = if from == "npy" && to == "pb" { "" } else { "x" };
            assert_eq!(result.name, name, "{from} -> {to}");
            assert_eq!(result.tensor.data_type(), DataType::Float8E4M3FN);
            assert_eq!(result.tensor.bytes(), Some(&[0x38, 0xaa, 0x7e, 0x7f][..]), "{from} -> {to}");
        }
        summary(&folder.run(&format!("cast x.{from} y.npy --to float16 -f")));
        let result = read_tensor(folder.path("y.npy")).expect("a tensor").tensor;
        assert_eq!(result.to_vec::<onnx_cast::types::Float16>().map(|v| v[1].to_bits()), Some(0xb4cd), "{from}");
    }
}

#[test]
fn attributes_and_opset_reach_the_cast() {
    let folder = Folder::new();
    folder.write("x.pb", pb("x", &floats(&[3.0, f32::INFINITY])));
    let cast = |options: &str| {
        summary(&folder.run(&format!("cast x.pb y.pb --quiet {options} -f")));
        read_tensor(folder.path("y.pb")).expect("a tensor").tensor.bytes().map(<[u8]>::to_vec)
    };
    assert_eq!(cast("--to float8e8m0"), Some(vec![0x81, 0xfe]));
    assert_eq!(cast("--to float8e8m0 --round-mode down"), Some(vec![0x80, 0xfe]));
    assert_eq!(cast("--to float8e8m0 --round-mode nearest --saturate false"), Some(vec![0x81, 0xff]));
    assert_eq!(cast("--to float8e4m3fnuz"), Some(vec![0x4c, 0x7f]));
    assert_eq!(cast("--to float8e4m3fnuz --opset 23"), Some(vec![0x4c, 0x80]));
    assert_eq!(cast("--to float8e4m3fn --saturate false"), Some(vec![0x44, 0x7f]));
}

/// Every floating tensor is cast; others and the metadata stay.
#[test]
fn a_checkpoint() {
    let folder = Folder::new();
    let weights = floats(&[1.0, 2.5, -3.25]);
    let ids = Tensor::from_slice(vec![2], &[7i64, -1]).expect("a tensor");
    let metadata = [("format".to_owned(), "pt".to_owned())];
    let file = safetensors::write(Some(&metadata), &[("ids", ids.view()), ("w", weights.view())]).expect("bytes");
    folder.write("in.safetensors", file);
    let said = summary(&folder.run("cast in.safetensors out.safetensors --to bf16"));
    assert_eq!(
        timeless(&said),
        "in.safetensors -> out.safetensors: 1 tensor (3 elements) to bfloat16, 1 tensor (2 elements) kept, 28 B -> 22 B"
    );
    let info = inspect(folder.path("out.safetensors"), &InspectRequest::default()).expect("a file");
    assert_eq!(info.metadata, metadata);
    let out = tensors(folder.read("out.safetensors"));
    assert_eq!(types(&out), [("ids".to_owned(), DataType::Int64), ("w".to_owned(), DataType::BFloat16)]);
    assert_eq!(out[1].tensor.bytes(), Some(&[0x80, 0x3f, 0x20, 0x40, 0x50, 0xc0][..]));
}

#[test]
fn bit_cast() {
    let folder = Folder::new();
    folder.write("x.pb", pb("x", &floats(&[1.0, -0.0])));
    let said = summary(&folder.run("bitcast x.pb y.npy --to uint32"));
    assert_eq!(timeless(&said), "x.pb -> y.npy: 1 tensor (2 elements) to uint32, 8 B -> 8 B");
    let result = read_tensor(folder.path("y.npy")).expect("a tensor").tensor;
    assert_eq!(result.to_vec::<u32>(), Some(vec![0x3f80_0000, 0x8000_0000]));
}

#[test]
fn quiet_says_nothing() {
    let folder = Folder::new();
    folder.write("x.pb", pb("x", &floats(&[1.0])));
    assert_eq!(summary(&folder.run("cast x.pb y.pb --to float16 --quiet -f")), "");
    assert_eq!(summary(&folder.run("cast x.pb y.pb --to float16 -q -f")), "");
}

/// What numpy has no type for is written as V1 or, asked for, as plain unsigned integers; --from reads both.
#[test]
fn npy_types_that_numpy_lacks() {
    let folder = Folder::new();
    folder.write("x.npy", npy(&floats(&[1.0, -2.0])));
    for (option, descr) in [("", "V1'"), (" --npy-plain", "u1'")] {
        summary(&folder.run(&format!("cast x.npy y.npy --to float8e4m3fn{option} -f")));
        let bytes = folder.read("y.npy");
        assert!(String::from_utf8_lossy(&bytes).contains(descr), "{descr}");
        if option.is_empty() {
            let said = refused(&folder.run("cast y.npy z.npy --to float -f"));
            assert!(said.contains("(--from gives the type, such as float8e4m3fn)"), "{said}");
        }
        summary(&folder.run("cast y.npy z.npy --from float8e4m3fn --to float -f"));
        assert_eq!(read_tensor(folder.path("z.npy")).expect("a tensor").tensor.to_vec(), Some(vec![1.0f32, -2.0]));
    }
}

/// Devices have no extension. They get the format of the input, as the standard output does.
#[cfg(unix)]
#[test]
fn devices_take_any_output() {
    let folder = Folder::new();
    folder.write("x.npy", npy(&floats(&[1.0, -2.0])));
    let bytes = onnx_cast_file::safetensors::write(None, &[("a", floats(&[1.0, 2.0]).view())]).expect("bytes");
    folder.write("x.safetensors", &bytes);
    folder.write("m.onnx", model(21, vec![node("Neg", &["x"], "y", vec![])], &[("x", 1)], &[("y", 1)]));
    for line in ["cast x.npy", "cast x.safetensors", "convert m.onnx", "cast m.onnx"] {
        done(&folder.run(&format!("{line} /dev/null --to float16 -q")));
    }
    let value = Message::new().bytes(1, "value").message(5, proto::tensor(&[16, 16], 1, &[0; 1024])).int(20, 4);
    let nodes = vec![node("Constant", &[], "w", vec![value]), node("Add", &["x", "w"], "y", vec![])];
    folder.write("w.onnx", model(21, nodes, &[("x", 1)], &[("y", 1)]));
    for line in ["cast w.onnx /dev/null --to float16", "convert w.onnx /dev/null --to float16 --io low"] {
        let said = refused(&folder.run(&format!("{line} --external-data w.bin --external-threshold 1")));
        assert!(said.contains("external data `w.bin`: a device has no files beside it"), "{line}: {said}");
    }
    let [expected, found] = ["-", "/dev/stdout"].map(|out| folder.run(&format!("cast x.npy {out} --to float16 -q")));
    assert_eq!((found.status.code(), found.stdout), (Some(0), expected.stdout));
}

/// Models need random access, and may have a file of external data next to them.
#[test]
fn models_are_not_streamed() {
    let folder = Folder::new();
    folder.write("m.onnx", model(21, vec![node("Neg", &["x"], "y", vec![])], &[("x", 1)], &[("y", 1)]));
    for job in ["cast --to float16", "quantize --to int8", "dequantize --to float", "convert --to float16", "record"] {
        for paths in ["m.onnx -", "- y.onnx"] {
            let said = refused(&folder.run(&format!("{job} {paths}")));
            assert!(said.contains("-: models are not streamed (name an .onnx file)"), "{job} {paths}: {said}");
        }
    }
    assert_eq!(folder.names(), ["m.onnx"]);
}

#[test]
fn input_and_output_may_be_the_same_file() {
    let folder = Folder::new();
    folder.write("x.pb", pb("x", &floats(&[1.0, 2.0])));
    summary(&folder.run("cast x.pb x.pb --to float16 -f"));
    summary(&folder.run("cast x.pb ./x.pb --to double -f"));
    assert_eq!(read_tensor(folder.path("x.pb")).expect("a tensor").tensor.to_vec(), Some(vec![1.0f64, 2.0]));
    assert_eq!(folder.names(), ["x.pb"]);
}

/// A scalar and an empty tensor are tensors like others.
#[test]
fn scalar_and_empty() {
    let folder = Folder::new();
    folder.write("scalar.pb", proto::tensor(&[], 1, &1.5f32.to_le_bytes()).into_bytes());
    folder.write("empty.pb", proto::tensor(&[2, 0], 1, &[]).into_bytes());
    let said = summary(&folder.run("cast scalar.pb y.pb --to float16 -f"));
    assert_eq!(timeless(&said), "scalar.pb -> y.pb: 1 tensor (1 element) to float16, 4 B -> 2 B");
    summary(&folder.run("cast empty.pb y.pb --to float16 -f"));
    assert_eq!(read_tensor(folder.path("y.pb")).expect("a tensor").tensor.shape(), [2, 0]);
}

#[test]
fn bad_files() {
    let folder = Folder::new();
    let good = pb("x", &floats(&[1.0, 2.0]));
    folder.write("good.pb", &good);
    folder.write("truncated.pb", &good[..good.len() - 1]);
    folder.write("empty.pb", "");
    folder.write("text.pb", "This is not a protocol buffer.");
    folder.write("empty.npy", "");
    folder.write("text.npy", "This is not an array.");
    folder.write("empty.safetensors", "");
    folder.write("text.safetensors", "This is not a checkpoint.");
    let array = npy(&floats(&[1.0, 2.0]));
    folder.write("truncated.npy", &array[..array.len() - 1]);
    let checkpoint = safetensors::write(None, &[("x", floats(&[1.0, 2.0]).view())]).expect("bytes");
    folder.write("truncated.safetensors", &checkpoint[..checkpoint.len() - 1]);
    folder.write("out.pb", "old");
    ["x.txt", "x"].iter().for_each(|name| folder.write(name, "of no format"));
    for (input, message) in [
        ("truncated.pb", "tensor `x`: not a valid TensorProto: a field claims 8 bytes, with 7 left"),
        ("empty.pb", "empty (want a TensorProto)"),
        ("text.pb", "not a valid TensorProto: groups do not balance"),
        ("truncated.npy", "7 bytes after the header for 2 `<f4` (want 8)"),
        ("empty.npy", "an empty file (download it again)"),
        ("text.npy", "not a .npy file"),
        (
            "truncated.safetensors",
            "tensor `x`: data_offsets 0 to 8 (want to start at 0, and to end within the 7 bytes of data)",
        ),
        ("empty.safetensors", "an empty file (download it again)"),
        (
            "text.safetensors",
            "a text that begins with `This is not a checkpoint.`, not the file itself (download it again)",
        ),
        ("missing.pb", "cannot open: No such file or directory (os error 2)"),
        ("x.txt", "unknown file extension (want .pb, .npy, .npz, .safetensors, .gguf, .pt, .onnx, .bin, .raw)"),
        ("x", "unknown file extension (want .pb, .npy, .npz, .safetensors, .gguf, .pt, .onnx, .bin, .raw)"),
    ] {
        let message = format!("{input}: {message}");
        folder.refuses(&format!("cast {input} out.pb --to float16"), &message);
        folder.refuses(&format!("bitcast {input} out.pb --to int32"), &message);
    }
}

#[test]
fn bad_tensors() {
    let folder = Folder::new();
    folder.write("out.pb", "old");
    let two = [0u8; 8];
    let number = format!("data_type is 99, which is not an element type (want {})", DataType::onnx_numbers());
    for (tensor, line, message) in [
        (proto::tensor(&[3], 1, &two), "cast", "8 bytes of raw_data for 3 float (want 12)"),
        (proto::tensor(&[-1], 1, &two), "cast", "dimension 0 is -1"),
        (proto::tensor(&[i64::MAX, 4], 1, &two), "cast", "9223372036854775807x4 float is too large"),
        (
            proto::tensor(&[i64::MAX], 2, &two),
            "cast",
            "8 bytes of raw_data for 9223372036854775807 uint8 (want 9223372036854775807)",
        ),
        (proto::tensor(&[2], 99, &two), "cast", &number),
        (proto::tensor(&[2], 0, &two), "cast", "data_type is UNDEFINED"),
        (proto::tensor(&[1], 14, &two), "cast", "Cast-28 does not take complex64 (no version of Cast does)"),
        (proto::strings(&["1", "2"]), "bitcast", "BitCast-26 does not take string (no version of BitCast does)"),
        (
            proto::tensor(&[2], 1, &two),
            "bitcast",
            "BitCast from float (32 bits) to float16 (16 bits): the widths differ",
        ),
        (proto::strings(&["1.5", "Hello World!"]), "cast", "element 1: \"Hello World!\" is not a number (to float16)"),
        (proto::strings(&[""]), "cast", "element 0: \"\" is not a number (to float16)"),
        (proto::strings(&["1_000", "2"]), "cast", "element 0: \"1_000\" is not a number (to float16)"),
    ] {
        folder.write("x.pb", tensor.into_bytes());
        folder.refuses(&format!("{line} x.pb out.pb --to float16 -f"), &format!("x.pb: {message}"));
    }
}

/// What the operator's version does not have.
#[test]
fn versions() {
    let folder = Folder::new();
    folder.write("x.pb", pb("x", &floats(&[1.0])));
    folder.write("out.pb", "old");
    for (line, message) in [
        (
            "cast x.pb out.pb --to float8e4m3fn --opset 18",
            "Cast-13 does not take float8e4m3fn (Cast-19 is the first that does)",
        ),
        (
            "cast x.pb out.pb --to float6e2m3 --opset 25",
            "Cast-25 does not take float6e2m3 (Cast-28 is the first that does)",
        ),
        (
            "cast x.pb out.pb --to float16 --opset 13 --saturate false",
            "Cast-13 has no attribute `saturate` (Cast-19 is the first that has it)",
        ),
        (
            "cast x.pb out.pb --to float16 --opset 23 --round-mode down",
            "Cast-23 has no attribute `round_mode` (Cast-24 is the first that has it)",
        ),
        ("cast x.pb out.pb --to float16 --opset 29", "opset 29 has no Cast known here (want 1 to 28)"),
        ("cast x.pb out.pb --to complex64", "Cast-28 does not take complex64 (no version of Cast does)"),
        ("bitcast x.pb out.pb --to int32 --opset 25", "opset 25 has no BitCast known here (want 26 to 28)"),
        ("bitcast x.pb out.pb --to float6e2m3", "BitCast-26 does not take float6e2m3 (no version of BitCast does)"),
        ("bitcast x.pb out.pb --to string", "BitCast-26 does not take string (no version of BitCast does)"),
        ("cast x.pb out.pb --to float16 --from int32", "x.pb: tensor `x`: float, not int32 as asked"),
    ] {
        folder.refuses(line, message);
    }
}

#[test]
fn outputs_that_cannot_be_written() {
    let folder = Folder::new();
    folder.write("x.pb", pb("x", &floats(&[1.0])));
    folder.write("file", "a file");
    fs::create_dir(folder.path("folder.pb")).expect("a folder");
    for (line, message) in [
        ("cast x.pb missing/y.pb --to float16", "missing/y.pb: cannot write: `missing` does not exist"),
        ("cast x.pb missing/y.pb --to float16 -n", "missing/y.pb: cannot write: `missing` does not exist"),
        ("cast x.pb file/y.pb --to float16", "file/y.pb: cannot write: `file` is not a folder"),
        ("cast x.pb folder.pb --to float16", "folder.pb: cannot write: is a directory"),
        (
            "cast x.pb y.txt --to float16",
            "y.txt: unknown file extension (want .pb, .npy, .npz, .safetensors, .gguf, .pt, .onnx, .bin, .raw)",
        ),
        (
            "cast x.pb y.onnx --to float16",
            "y.onnx: tensors do not become a model (want .pb, .npy, .npz, .safetensors, .bin or .raw)",
        ),
        ("cast x.pb y.safetensors --to string", "y.safetensors: the .safetensors format has no name for string"),
    ] {
        folder.refuses(line, message);
    }
}

fn doubling_model() -> Vec<u8> {
    let nodes = vec![
        node("Cast", &["x"], "h", vec![int_attribute("to", 10)]),
        node("CastLike", &["h", "like"], "y", vec![]),
        node("BitCast", &["h"], "bits", vec![int_attribute("to", 4)]),
    ];
    model(28, nodes, &[("x", 1), ("like", 16)], &[("y", 16), ("bits", 4)])
}

#[test]
fn run_a_model() {
    let folder = Folder::new();
    folder.write("m.onnx", doubling_model());
    folder.write("x.npy", npy(&floats(&[1.0, 65520.0])));
    folder.write("like.pb", proto::tensor(&[], 16, &[0, 0]).into_bytes());
    let line = "run m.onnx --input x=x.npy --input like=like.pb --output bits=bits.npy --output y=y.safetensors";
    let said = summary(&folder.run(line));
    assert_eq!(timeless(&said), "m.onnx: 2 tensors (4 elements) written, 10 B -> 8 B");
    assert_eq!(read_tensor(folder.path("bits.npy")).expect("bits").tensor.to_vec(), Some(vec![0x3c00u16, 0x7c00]));
    let y = read_tensor(folder.path("y.safetensors")).expect("y");
    assert_eq!((y.name.as_str(), y.tensor.data_type()), ("y", DataType::BFloat16));
    assert_eq!(y.tensor.bytes(), Some(&[0x80, 0x3f, 0x80, 0x7f][..]));
}

#[test]
fn run_without_names() {
    let folder = Folder::new();
    folder.write(
        "m.onnx",
        model(13, vec![node("Cast", &["x"], "y", vec![int_attribute("to", 7)])], &[("x", 1)], &[("y", 7)]),
    );
    folder.write("x.pb", pb("other", &floats(&[1.5])));
    summary(&folder.run("run m.onnx --input x.pb --output y.pb --quiet"));
    let y = read_tensor(folder.path("y.pb")).expect("y");
    assert_eq!((y.name.as_str(), y.tensor.to_vec()), ("y", Some(vec![1i64])));
}

#[test]
fn bad_runs() {
    let folder = Folder::new();
    folder.write("m.onnx", doubling_model());
    folder.write("x.pb", pb("x", &floats(&[1.0])));
    folder.write("like.pb", proto::tensor(&[], 16, &[0, 0]).into_bytes());
    folder.write("y.pb", "old");
    let x = [("x", 1)];
    let y = [("y", 1)];
    folder.write("other.onnx", model(20, vec![node("Relu", &["x"], "y", vec![])], &x, &y));
    folder.write(
        "attribute.onnx",
        model(13, vec![node("Cast", &["x"], "y", vec![int_attribute("to", 1), int_attribute("saturate", 1)])], &x, &y),
    );
    folder.write(
        "mode.onnx",
        model(
            24,
            vec![node("Cast", &["x"], "y", vec![int_attribute("to", 24), string_attribute("round_mode", "sideways")])],
            &x,
            &[("y", 24)],
        ),
    );
    folder.write("to.onnx", model(13, vec![node("Cast", &["x"], "y", vec![])], &x, &y));
    folder.write("number.onnx", model(13, vec![node("Cast", &["x"], "y", vec![int_attribute("to", 77)])], &x, &y));
    folder.write("type.onnx", model(13, vec![node("Cast", &["x"], "y", vec![int_attribute("to", 17)])], &x, &y));
    folder.write(
        "width.onnx",
        model(26, vec![node("BitCast", &["x"], "y", vec![int_attribute("to", 11)])], &x, &[("y", 11)]),
    );
    folder.write("opset.onnx", model(99, vec![node("Cast", &["x"], "y", vec![int_attribute("to", 1)])], &x, &y));
    folder.write("text.onnx", "This is not a model.");
    folder.write("empty.onnx", "");
    folder.write("pointer.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
    folder.write("page.onnx", "<!DOCTYPE html><html>");
    // Lines that start with `..` stand for two good inputs of m.onnx.
    for (line, message) in [
        (".. --output z=y.pb", "m.onnx: the model has no output `z` (its outputs: `y`, `bits`)"),
        (".. --output y=y.pb --output bits=y.pb", "y.pb: output `bits` is also output `y` (name another file)"),
        (".. --output y=y.pb --output y=z.pb", "m.onnx: output `y` is given twice"),
        (".. --output y.pb", "m.onnx: `y.pb` for which output? (say NAME=FILE; the model's: `y`, `bits`)"),
        (
            ".. --output y=y.txt",
            "y.txt: unknown file extension (want .pb, .npy, .npz, .safetensors, .gguf, .pt, .onnx, .bin, .raw)",
        ),
        (".. --output y=y.onnx", "y.onnx: an output is a tensor (want .pb, .npy or .safetensors)"),
        (
            ".. --output y=y.pb --output bits=missing/z.pb",
            "missing/z.pb: cannot write: No such file or directory (os error 2)",
        ),
        ("m.onnx --input x=x.pb --output y=y.pb", "m.onnx: input `like` is missing"),
        ("m.onnx --input x=x.pb --input like=x.pb --output y=y.pb", "x.pb: tensor `x`: float, not bfloat16 as asked"),
        ("m.onnx --input x=x.pb --input x=x.pb --output y=y.pb", "m.onnx: input `x` is given twice"),
        (
            "other.onnx --input x.pb --output y.pb",
            "other.onnx: node 0 (Relu): operator `Relu` is not supported (want Cast, CastLike, BitCast, \
             QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear, Constant or Identity)",
        ),
        (
            "attribute.onnx --input x.pb --output y.pb",
            "attribute.onnx: node 0 (Cast): Cast-13 has no attribute `saturate` (Cast-19 is the first that has it)",
        ),
        (
            "mode.onnx --input x.pb --output y.pb",
            "mode.onnx: node 0 (Cast): round_mode `sideways` is not known (want up, down or nearest)",
        ),
        ("to.onnx --input x.pb --output y.pb", "to.onnx: node 0 (Cast): Cast-13: attribute `to` is missing"),
        (
            "number.onnx --input x.pb --output y.pb",
            &format!(
                "number.onnx: node 0 (Cast): Cast: `to` is 77, which is not an element type (want {})",
                DataType::onnx_numbers()
            ),
        ),
        (
            "type.onnx --input x.pb --output y.pb",
            "type.onnx: node 0 (Cast): Cast-13 does not take float8e4m3fn (Cast-19 is the first that does)",
        ),
        (
            "width.onnx --input x.pb --output y.pb",
            "width.onnx: node 0 (BitCast): BitCast from float (32 bits) to double (64 bits): the widths differ",
        ),
        (
            "opset.onnx --input x.pb --output y.pb",
            "opset.onnx: the model imports opset 99, which is unknown (want 1 to 28)",
        ),
        ("text.onnx --input x.pb --output y.pb", "text.onnx: not a valid ONNX model: groups do not balance"),
        (
            "pointer.onnx --input x.pb --output y.pb",
            "pointer.onnx: a Git LFS pointer, not the file itself (run `git lfs pull`)",
        ),
        ("page.onnx --input x.pb --output y.pb", "page.onnx: an HTML page, not the file itself (download it again)"),
        ("empty.onnx --input x.pb --output y.pb", "empty.onnx: not a valid ONNX model: 0 graphs (want 1)"),
        (
            "missing.onnx --input x.pb --output y.pb",
            "missing.onnx: cannot open: No such file or directory (os error 2)",
        ),
        ("x.pb --input x.pb --output y.pb", "x.pb: not a valid ONNX model: the bytes end inside a field"),
    ] {
        let line = line.replace("..", "m.onnx --input x=x.pb --input like=like.pb");
        folder.refuses(&format!("run {line} -f"), message);
    }
    folder.refuses("cast m.onnx y.pb --to float16 -f", "m.onnx: a model becomes a model (want an output named .onnx)");
}

/// Strings go in as text and come out as text.
#[test]
fn strings() {
    let folder = Folder::new();
    let tensor = Tensor::strings(vec![2], Strings::from_iter(["1.5", " -1e3 "])).expect("a tensor");
    folder.write("x.pb", pb("x", &tensor));
    summary(&folder.run("cast x.pb y.pb --to float"));
    assert_eq!(read_tensor(folder.path("y.pb")).expect("y").tensor.to_vec(), Some(vec![1.5f32, -1000.0]));
    summary(&folder.run("cast y.pb z.pb --to string"));
    let z = read_tensor(folder.path("z.pb")).expect("z").tensor;
    assert_eq!(z, Tensor::strings(vec![2], Strings::from_iter(["1.5", "-1000"])).expect("a tensor"));
}

/// A tensor of 1 GiB, with 96 MiB of memory to write to. (The file is sparse: its zeros take no room on the disk.)
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_depend_on_the_file() {
    let folder = Folder::new();
    let len = 1u64 << 28;
    let header = format!(r#"{{"w":{{"dtype":"F32","shape":[{len}],"data_offsets":[0,{}]}}}}"#, 4 * len);
    folder.write("in.safetensors", [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat());
    let file = fs::File::options().write(true).open(folder.path("in.safetensors")).expect("the file");
    file.set_len(8 + header.len() as u64 + 4 * len).expect("a sparse file");
    // The limit counts memory that the process may write to, in KiB; of maps of files it counts none.
    let line = "ulimit -d 98304 && exec \"$0\" cast -q in.safetensors out.safetensors --to float4e2m1";
    let done = std::process::Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_onnx-cast")])
        .current_dir(folder.0.path())
        .output()
        .expect("a shell");
    assert!(done.status.success(), "{}", stderr(&done));
    let bytes = folder.read("out.safetensors");
    assert!(bytes.len() as u64 > len / 2 && bytes[bytes.len() - (len / 2) as usize..].iter().all(|&byte| byte == 0));
}
