//! Does every option of every command have an effect, or a warning, or is it refused? Each option is added to requests
//! for each kind of file: what is printed or written changes, or the command says why not. The list of options comes from
//! the command itself.

use crate::common::{command, done, npy, pb};
use crate::files::{Folder, floats};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::safetensors;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::Mutex;
use std::thread;
use testkit::proto::{Message, int_attribute, model, node, tensor};

/// Requests that do something, for every kind of file that a command treats in a way of its own. What follows `<` is the
/// standard input.
const REQUESTS: &[&str] = &[
    "cast ../in/w.safetensors o.safetensors --to float8e4m3fn",
    "cast ../in/ck out --to float8e4m3fn",
    "cast ../in/x.npy o.npy --to float8e4m3fn",
    "cast ../in/x.npz o.npz --to float8e4m3fn",
    "cast ../in/x.pb o.pb --to float8e4m3fn",
    "cast ../in/x.bin o.npy --to float8e4m3fn --from float",
    "cast ../in/m.onnx o.onnx --to float8e4m3fn",
    "cast ../in/x.npy - --to float8e4m3fn",
    "cast - o.npy --to float8e4m3fn < x.npy",
    "bitcast ../in/w.safetensors o.safetensors --to uint32",
    "bitcast ../in/ck out --to uint32",
    "bitcast ../in/codes.npy o.npy --to float8e4m3fn",
    "bitcast ../in/x.pb o.pb --to uint32",
    "bitcast ../in/x.bin o.npy --to float8e4m3fn --from uint8",
    "bitcast ../in/codes.npy - --to float8e4m3fn",
    "bitcast - o.npy --to float8e4m3fn < codes.npy",
    "dequantize ../in/fp8.safetensors o.safetensors --to bfloat16",
    "dequantize ../in/ck-fp8 out --to bfloat16",
    "dequantize ../in/int8.onnx o.onnx --to float",
    "dequantize - - --to bfloat16 < fp8.safetensors",
    "quantize ../in/w.safetensors o.safetensors --to int8",
    "quantize ../in/ck out --to mxfp4",
    "quantize ../in/m.onnx o.onnx --to int4/32",
    "quantize - - --to int8 < w.safetensors",
    "transcode ../in/fp8.safetensors o.safetensors --layout modelopt",
    "transcode ../in/ck-fp8 out --layout modelopt",
    "transcode - - --layout modelopt < fp8.safetensors",
    "check ../in/ck-fp8 --loader vllm",
    "convert ../in/m.onnx o.onnx --to float16",
    "convert ../in/m.onnx o.onnx --to float16 --ranges ../in/ranges.json",
    "record ../in/m.onnx o.onnx",
    "fold ../in/int8.onnx o.onnx --dequantize",
    "upgrade ../in/m.onnx o.onnx --opset 22",
    "run ../in/cast.onnx --input ../in/x.npy --output o.npy",
    "run ../in/cast.onnx --input ../in/x.npy --output o.pb",
    "info ../in/w.safetensors",
    "info ../in/ck",
    "info ../in/m.onnx",
    "info ../in/x.npy",
    "info - < x.npy",
    "diff ../in/w.safetensors ../in/v.safetensors",
    "diff ../in/m.onnx ../in/n.onnx",
    "diff - ../in/y.npy < x.npy",
    "report ../in/w.safetensors --to float8e4m3fn",
    "report ../in/ck --to mxfp4",
    "report ../in/m.onnx --to float8e4m3fn",
    "report - --to float8e4m3fn < x.npz",
    "types",
    "explain 0.3 --to float8e4m3fn",
    "explain 3 --to float8e8m0 --from float",
    "explain 0.3 -1 2 --to mxfp4",
    "explain 0.3 -1 2 --to nvfp4",
    "explain 1100 --all",
    "explain 0.3 --to int8 --scale 0.05",
    "completions bash",
    "man",
    "man cast",
];

/// What each option is given: first for a command, then for all.
const VALUES: &[(&str, &str)] = &[
    ("bitcast --opset", "25"),
    ("bitcast --to", "int32"),
    ("check --loader", "transformers"),
    ("dequantize --layout", "gptq"),
    ("dequantize --to", "float16"),
    ("quantize --layout", "plain"),
    ("quantize --to", "nvfp4"),
    ("report --layout", "deepseek"),
    ("transcode --activations", "none"),
    ("transcode --layout", "plain"),
    ("transcode --to", "nvfp4"),
    ("upgrade --ir-version", "11"),
    ("upgrade --opset", "23"),
    ("--activations", "dynamic"),
    ("--exclude", "*q*"),
    ("--explain", "soft"),
    ("--external-data", "d.bin"),
    ("--external-threshold", "0"),
    ("--fail-on", "overflow"),
    ("--form", "matmulnbits"),
    ("--from", "float16"),
    ("--from-layout", "gptq"),
    ("--global-scale", "0.001"),
    ("--html", "p.html"),
    ("--in-format", "pb"),
    ("--include", "*q*"),
    ("--input", "../in/y.npy"),
    ("--io", "low"),
    ("--keep", "MatMul"),
    ("--low", "Softmax"),
    ("--margin", "1"),
    ("--min-elements", "100000"),
    ("--opset", "18"),
    ("--out-dir", "folder"),
    ("--shard-size", "1KB"),
    ("--out-format", "pb"),
    ("--output", "other.npy"),
    ("--precision", "float16"),
    ("--ranges", "../in/wide.json"),
    ("--recipe", "torchao"),
    ("--round-mode", "nearest"),
    ("--rule", "*q*=keep"),
    ("--rules-file", "../in/rules"),
    ("--saturate", "false"),
    ("--scale", "2"),
    ("--scale-rule", "ceil"),
    ("--scale-type", "float16"),
    ("--shape", "16x64"),
    ("--to", "bfloat16"),
    ("--tolerance", "1e9"),
    ("--top", "1"),
    ("--zero-point", "3"),
];

/// Options that may change nothing, and why.
const HOLD: &[(&str, &str)] = &[
    ("--allow-nan", "it allows: scales may have no NaN"),
    ("--color", "the output is not a terminal"),
    ("--fail-on", "values may lose nothing"),
    ("--force", "it allows: nothing may be replaced"),
    ("--in-format", "a default: the extension may say the same"),
    ("--out-format", "a default: the extension may say the same"),
    ("--quiet", "a limit: nothing may be said"),
    ("--raise-opset", "it allows: the opset may be high enough"),
    ("--resume", "nothing may be there"),
    ("--rules-file", "the rules may be meant for other files"),
    ("--threads", "a limit: results are the same"),
    ("--values", "weights may be plain"),
];

/// Options that every command takes, and that show only where there is something to limit.
const EVERYWHERE: &[&str] = &["--color", "--quiet", "--threads"];

/// Requests in which options show that change nothing in [`REQUESTS`], or are refused there.
#[rustfmt::skip]
const SHOWN: &[(&str, &str)] = &[
    ("bitcast ../in/x.bin o.npy --to uint32", "--from float"),
    ("bitcast ../in/x.bin o.npy --to uint32 --from float", "--shape 32x32"),
    ("bitcast - o.npy --to uint32 < x.pb", "--in-format pb"),
    ("bitcast ../in/x.npy o.npy --to uint32", "--opset 25"),
    ("bitcast ../in/x.npy ../in/uint32.npy --to uint32", "--resume"),
    ("bitcast ../in/ck ../in/other --to uint32", "--force"),
    ("cast - o.npy --to float16 < x.pb", "--in-format pb"),
    ("cast ../in/x.npy o.npy --to float8e4m3fn", "--opset 18"),
    ("cast ../in/x.npy o.npy --to float8e8m0", "--round-mode nearest"),
    ("cast ../in/old.onnx o.onnx --to float8e4m3fn", "--raise-opset"),
    ("cast ../in/x.npy ../in/float16.npy --to float16", "--resume"),
    ("cast ../in/ck ../in/other --to float16", "--force"),
    ("cast ../in/m.onnx o.onnx --to float16 --external-data d.bin", "--external-threshold 100000"),
    ("convert ../in/old.onnx o.onnx --to bfloat16", "--raise-opset"),
    ("convert ../in/m.onnx o.onnx --to float16 --external-data d.bin", "--external-threshold 100000"),
    ("convert ../in/m.onnx ../in/n.onnx --to float16", "--force"),
    ("dequantize ../in/fp8.safetensors o.safetensors --to float16", "--layout gptq"),
    ("dequantize ../in/nan.safetensors o.safetensors --to float16", "--allow-nan"),
    ("dequantize ../in/fp8.safetensors ../in/plain.safetensors --to float", "--resume"),
    ("dequantize ../in/ck-fp8 ../in/other --to float16", "--force"),
    ("dequantize ../in/fp8.safetensors o.safetensors --to float8e4m3fn", "--fail-on overflow"),
    ("diff - ../in/y.npy < x.pb", "--in-format pb"),
    ("diff ../in/w.safetensors ../in/fp8.safetensors", "--values"),
    ("explain 0.3 --to float", "--all"),
    ("explain 0.3 --to float --html ../in/there.html", "--force"),
    ("fold ../in/int8.onnx o.onnx", "--dequantize"),
    ("fold ../in/int8.onnx o.onnx --dequantize --external-data d.bin", "--external-threshold 100000"),
    ("fold ../in/int8.onnx ../in/small.onnx --dequantize", "--force"),
    ("info ../in/x.bin", "--from float"),
    ("info - < x.pb", "--in-format pb"),
    ("quantize ../in/w.safetensors o.safetensors --to int8", "--min-elements 2000"),
    ("quantize ../in/m.onnx o.onnx --to int4/32 --form matmulnbits", "--zero-points"),
    ("quantize ../in/m.onnx o.onnx --to int8 --form dynamic", "--reduce-range"),
    ("quantize ../in/old.onnx o.onnx --to int4", "--raise-opset"),
    ("quantize ../in/w.safetensors ../in/fp8.safetensors --to float8e4m3fn", "--resume"),
    ("quantize ../in/ck ../in/other --to mxfp4", "--force"),
    ("quantize ../in/m.onnx o.onnx --to int8 --external-data d.bin", "--external-threshold 100000"),
    ("quantize ../in/not.safetensors o.safetensors --to mxfp8", "--fail-on nan"),
    ("record ../in/m.onnx o.onnx", "--include h"),
    ("record ../in/m.onnx o.onnx", "--exclude h"),
    ("record ../in/m.onnx o.onnx --external-data d.bin", "--external-threshold 100000"),
    ("record ../in/m.onnx ../in/n.onnx", "--force"),
    ("report ../in/x.bin --to float16", "--from float"),
    ("report - --to float16 < x.pb", "--in-format pb"),
    ("report ../in/x.npy --to float8e4m3fn", "--opset 18"),
    ("report ../in/x.npy --to float8e8m0", "--round-mode nearest"),
    ("report ../in/w.safetensors --to int8/row", "--layout plain"),
    ("report ../in/x.npy --to float16 --html ../in/there.html", "--force"),
    ("run ../in/cast.onnx --input ../in/x.npy --output ../in/float16.npy", "--force"),
    ("transcode ../in/fp8.safetensors o.safetensors --layout modelopt", "--from-layout gptq"),
    ("transcode ../in/ck-mxfp4 out --layout compressed-tensors", "--to nvfp4"),
    ("transcode ../in/ck-int8 out --layout compressed-tensors", "--activations dynamic"),
    ("transcode ../in/ck-fp8 ../in/modelopt --layout modelopt", "--resume"),
    ("transcode ../in/ck-fp8 ../in/other --layout modelopt", "--force"),
    ("upgrade ../in/m.onnx o.onnx --opset 22 --external-data d.bin", "--external-threshold 100000"),
    ("upgrade ../in/m.onnx ../in/n.onnx --opset 22", "--force"),
];

/// Options that a command takes because every command does, and always refuses.
const ALWAYS_REFUSED: &[&str] = &["completions --json", "man --json"];

/// So many values, of which one is large.
fn values(count: usize, scale: f32) -> Vec<f32> {
    let mut values: Vec<f32> = (0..count).map(|i| ((i * 37 % 101) as f32 / 50.0 - 1.0) * scale).collect();
    values[5] = 1000.0;
    values
}

/// The folder of the inputs.
fn inputs() -> Folder {
    let folder = Folder::new();
    fs::create_dir(folder.path("in")).expect("a folder");
    fs::create_dir(folder.path("in/ck")).expect("a folder");
    let matrix = |scale| Tensor::from_slice(vec![16, 64], &values(1024, scale)).expect("a matrix");
    let norm = floats(&[1.0, 2.0, 0.3]);
    let not = Tensor::from_slice(vec![16, 64], &[f32::NAN; 1024]).expect("a matrix");
    let not = safetensors::write(None, &[("layers.0.q_proj.weight", not.view())]).expect("bytes");
    folder.write("in/not.safetensors", not);
    let weights = |scale| {
        let [q, up] = [matrix(scale), matrix(2.0 * scale)];
        let tensors = [
            ("layers.0.q_proj.weight", q.view()),
            ("layers.0.up_proj.weight", up.view()),
            ("layers.0.norm", norm.view()),
        ];
        safetensors::write(None, &tensors).expect("bytes")
    };
    folder.write("in/w.safetensors", weights(1.0));
    folder.write("in/v.safetensors", weights(1.5));
    folder.write("in/ck/model.safetensors", weights(1.0));
    folder.write("in/ck/config.json", r#"{"model_type": "llama", "torch_dtype": "float32"}"#);
    folder.write("in/x.npy", npy(&matrix(1.0)));
    folder.write("in/y.npy", npy(&matrix(1.5)));
    folder.write("in/x.pb", pb("x", &matrix(1.0)));
    folder.write("in/x.bin", matrix(1.0).bytes().expect("bytes"));
    folder.write("in/codes.npy", npy(&Tensor::new(DataType::Uint8, vec![4], vec![1, 2, 3, 4]).expect("codes")));
    folder.write("in/m.onnx", network(21, 0.1));
    folder.write("in/n.onnx", network(21, 0.2));
    folder.write("in/old.onnx", network(12, 0.2));
    folder.write("in/there.html", "");
    fs::create_dir(folder.path("in/other")).expect("a folder");
    folder.write("in/other/z.safetensors", weights(1.0));
    folder.write(
        "in/cast.onnx",
        model(21, vec![node("Cast", &["x"], "y", vec![int_attribute("to", 17)])], &[("x", 1)], &[("y", 17)]),
    );
    folder.write("in/ranges.json", r#"{"h": 30000.0}"#);
    folder.write("in/wide.json", r#"{"m": 60000.0}"#);
    folder.write("in/rules", "*q*=keep\n");
    for line in [
        "cast in/w.safetensors in/x.npz --to float",
        "quantize in/w.safetensors in/fp8.safetensors --to float8e4m3fn",
        "quantize in/ck in/ck-fp8 --to float8e4m3fn",
        "quantize in/m.onnx in/int8.onnx --to int8",
        "quantize in/not.safetensors in/nan.safetensors --to mxfp8",
        "quantize in/ck in/ck-int8 --to int8",
        "quantize in/ck in/ck-mxfp4 --to mxfp4",
        "transcode in/ck-fp8 in/modelopt --layout modelopt",
        "dequantize in/fp8.safetensors in/plain.safetensors --to float",
        "cast in/m.onnx in/small.onnx --to float16",
        "convert in/m.onnx in/half.onnx --to float16",
        "cast in/x.npy in/float16.npy --to float16",
        "bitcast in/x.npy in/uint32.npy --to uint32",
    ] {
        done(&folder.run(line));
    }
    folder
}

/// Two products with constants, with an addition and a softmax.
pub(crate) fn network(opset: i64, scale: f32) -> Vec<u8> {
    let weights: Vec<u8> = values(4096, scale).iter().flat_map(|value| value.to_le_bytes()).collect();
    let constant = |name: &str| {
        let value = tensor(&[64, 64], 1, &weights);
        node("Constant", &[], name, vec![Message::new().bytes(1, "value").message(5, value).int(20, 4)])
    };
    let nodes = vec![
        constant("q"),
        constant("w"),
        node("MatMul", &["x", "q"], "h", vec![]).bytes(3, "first"),
        node("Add", &["h", "h"], "a", vec![]).bytes(3, "add"),
        node("MatMul", &["a", "w"], "m", vec![]).bytes(3, "second"),
        node("Softmax", &["m"], "y", vec![]).bytes(3, "soft"),
    ];
    model(opset, nodes, &[("x", 1)], &[("y", 1)])
}

/// What a request prints and writes, without its time.
#[derive(PartialEq)]
struct Outcome {
    code: Option<i32>,
    printed: Vec<u8>,
    said: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl Outcome {
    fn is_refused(&self) -> bool {
        self.code == Some(2)
    }

    fn has_ignored(&self) -> bool {
        self.said.contains(" has no effect: it ")
    }
}

fn files_in(folder: &Path, before: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = format!("{before}/{}", path.file_name().expect("a name").to_string_lossy());
        if path.is_dir() {
            files_in(&path, &name, files);
        } else {
            files.insert(name, fs::read(&path).expect("a file"));
        }
    }
}

/// Runs a request in a new folder beside that of the inputs.
fn outcome(inputs: &Folder, request: &str) -> Outcome {
    let folder = tempfile::tempdir_in(inputs.0.path()).expect("a folder");
    let (line, stdin) = request.split_once(" < ").map_or((request, None), |(line, stdin)| (line, Some(stdin)));
    let mut command = command(line.split_whitespace());
    command.current_dir(folder.path());
    if let Some(stdin) = stdin {
        command.write_stdin(fs::read(inputs.path("in").join(stdin)).expect("the input"));
    }
    let Output { status, stdout, stderr } = command.output().expect("the command runs");
    // The time is the last part of a line.
    let timeless = |line: &str| match line.rsplit_once(", ") {
        Some((line, time)) if time.ends_with(" s") => line.to_owned(),
        _ => line.to_owned(),
    };
    let said = String::from_utf8_lossy(&stderr).lines().map(timeless).collect::<Vec<_>>().join("\n");
    let mut files = BTreeMap::new();
    files_in(folder.path(), "", &mut files);
    Outcome { code: status.code(), printed: stdout, said, files }
}

/// A request with an option: in place of the one that it has, or behind the others.
fn with(request: &str, option: &str, value: &str) -> String {
    let (line, stdin) = request.split_once(" < ").map_or((request, None), |(line, stdin)| (line, Some(stdin)));
    let mut words: Vec<&str> = line.split(' ').collect();
    if let Some(place) = words.iter().position(|word| *word == option) {
        words.drain(place..words.len().min(place + 2));
    }
    if option == "--out-dir" && words.len() > 2 {
        // It takes the place of OUT.
        words.remove(2);
    }
    let line = format!("{} {option} {value}", words.join(" "));
    stdin.map_or(line.trim_end().to_owned(), |stdin| format!("{} < {stdin}", line.trim_end()))
}

fn value_of<'v>(command: &str, option: &str) -> &'v str {
    let find = |name: &str| VALUES.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    find(&format!("{command} {option}")).or_else(|| find(option)).unwrap_or_default()
}

/// The options of each command.
fn options() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut options: BTreeMap<_, Vec<_>> = BTreeMap::new();
    let lines = include_str!("../data/options.txt").lines();
    for (command, option) in lines.filter_map(|line| line.split_once(" ")).filter(|(_, name)| name.starts_with("--")) {
        options.entry(command).or_default().push(option);
    }
    options
}

#[test]
fn no_option_does_nothing() {
    let (inputs, options) = (inputs(), options());
    let (silent, shown) = (Mutex::new(Vec::new()), Mutex::new(BTreeSet::new()));
    let try_all = |request: &&str| {
        let before = outcome(&inputs, request);
        assert!(!before.is_refused(), "{request}: {}", before.said);
        let command = request.split(' ').next().expect("a command");
        for option in &options[command] {
            let value = value_of(command, option);
            if value.is_empty() && request.contains(option) {
                continue;
            }
            let request = with(request, option, value);
            let after = outcome(&inputs, &request);
            if after == before {
                silent.lock().expect("a list").push((*option, request));
            } else if !after.is_refused() && !after.has_ignored() {
                shown.lock().expect("a list").insert(format!("{command} {option}"));
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for part in REQUESTS.chunks(REQUESTS.len().div_ceil(threads)) {
            scope.spawn(move || part.iter().for_each(try_all));
        }
    });
    let is_excused = |option: &str| HOLD.iter().any(|(known, _)| *known == option);
    let silent: Vec<_> =
        silent.into_inner().expect("a list").into_iter().filter(|(option, _)| !is_excused(option)).collect();
    assert!(silent.is_empty(), "these options do nothing: {silent:#?}");
    let mut shown = shown.into_inner().expect("a list");
    for (request, option) in SHOWN {
        let (name, value) = option.split_once(' ').unwrap_or((option, ""));
        let with = with(request, name, value);
        assert!(outcome(&inputs, request) != outcome(&inputs, &with), "{with}: the option does nothing");
        shown.insert(format!("{} {name}", request.split(' ').next().expect("a command")));
    }
    shown.extend(ALWAYS_REFUSED.iter().map(|name| (*name).to_owned()));
    let mut never = Vec::new();
    for (command, options) in options.iter().filter(|(command, _)| **command != "bench") {
        let options = options.iter().filter(|option| !EVERYWHERE.contains(option));
        let names = options.map(|option| format!("{command} {option}"));
        never.extend(names.filter(|name| !shown.contains(name)));
    }
    assert!(never.is_empty(), "these options do nothing in any request: {never:#?}");
}
