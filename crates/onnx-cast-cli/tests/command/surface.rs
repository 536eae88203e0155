//! What people expect of any command: JSON, quiet and verbose, several inputs, files that are kept, colours, a manual,
//! and a hint where a word is nearly right.

use crate::checkpoints::shards;
use crate::common::{command, done, npy, refused, run, stderr, stdout};
use crate::files::{Folder, floats};
use onnx_cast_file::safetensors;
use serde_json::Value;
use testkit::proto::{Message, int_attribute, model, node, tensor};

fn checkpoint(folder: &Folder, name: &str) {
    let (weight, norm) = (floats(&[1.0, -0.3, 1000.0, 2.5]), floats(&[1.0, 2.0]));
    let tensors = [("layer.0.weight", weight.view()), ("layer.0.norm", norm.view())];
    folder.write(name, safetensors::write(None, &tensors).expect("bytes"));
}

fn cast_model(folder: &Folder) {
    let nodes = vec![node("Cast", &["x"], "y", vec![int_attribute("to", 10)])];
    folder.write("m.onnx", model(21, nodes, &[("x", 1)], &[("y", 10)]));
}

#[test]
fn every_command_that_reports_prints_json() {
    let folder = Folder::new();
    checkpoint(&folder, "a.safetensors");
    folder.write("x.npy", npy(&floats(&[1.0, 2.0])));
    cast_model(&folder);
    for (line, key) in [
        ("cast a.safetensors b.safetensors --to float16 -f", "/tensors/1/to"),
        ("bitcast a.safetensors b.safetensors --to int32 -f", "/bytes_after"),
        ("fold m.onnx n.onnx -f", "/computed"),
        ("convert m.onnx n.onnx --to float16 -f", "/nodes"),
        ("record m.onnx r.onnx -f", "/values/0/output"),
        ("run m.onnx --input x.npy --output y.npy -f", "/outputs/0/shape/0"),
        ("info a.safetensors", "/tensors/0/name"),
        ("diff a.safetensors a.safetensors", "/differences"),
        ("report a.safetensors --to bf16", "/types/0/type"),
        ("types", "/types/0/name"),
        ("explain 1 --to float", "/result"),
        ("explain 1 --all", "/0/result"),
        ("bench --isa", "/best"),
    ] {
        for line in [format!("{line} --json"), format!("--json {line}")] {
            let output = folder.run(&line);
            let json: Value = serde_json::from_str(&done(&output)).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert!(json.pointer(key).is_some(), "{line}: {json}");
            assert_eq!(stderr(&output), "", "{line}");
        }
    }
    let output = folder.run("diff a.safetensors b.safetensors --json");
    let json: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!((output.status.code(), &json["differences"][0]["difference"]), (Some(1), &"type".into()));
}

#[test]
fn quiet_and_verbose() {
    let folder = Folder::new();
    checkpoint(&folder, "a.safetensors");
    let output = folder.run("-q cast a.safetensors b.safetensors --to float16 --losses");
    assert_eq!((done(&output), stderr(&output)), (String::new(), String::new()));
    let said = stderr(&folder.run("cast a.safetensors b.safetensors --to float16 -v --threads 1 -f"));
    assert!(said.starts_with(&format!("onnx-cast {}\nbackend: ", env!("CARGO_PKG_VERSION"))), "{said}");
    assert!(said.contains("layer.0.norm") && said.contains("total: 2 tensors"), "{said}");
    for line in ["--version -v", "-v --version", "--version --verbose", "-vV"] {
        let text = done(&run(line));
        let starts: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
        assert_eq!(starts, ["onnx-cast", "backend:", "threads:", "features:", "target:"], "{line}: {text}");
    }
}

/// Threads change no byte.
#[test]
fn threads() {
    let folder = Folder::new();
    checkpoint(&folder, "a.safetensors");
    let mut outputs = Vec::new();
    for threads in ["1", "2", "1000000"] {
        done(&folder.run(&format!("cast a.safetensors b.safetensors --to float16 --threads {threads} -q -f")));
        outputs.push(folder.read("b.safetensors"));
        done(&folder.run(&format!("info a.safetensors --stats --threads {threads}")));
        done(&folder.run(&format!("diff a.safetensors a.safetensors --threads {threads}")));
    }
    assert!(outputs.iter().all(|bytes| *bytes == outputs[0]));
    assert_eq!(refused(&run("types --threads 0")), "invalid value '0' for '--threads <N>': want 1 or more");
}

#[test]
fn several_inputs_to_a_folder() {
    let folder = Folder::new();
    checkpoint(&folder, "a.safetensors");
    checkpoint(&folder, "b.safetensors");
    shards(&folder, "several");
    let line = "cast a.safetensors b.safetensors several --to float16 --out-dir new/small -f";
    done(&folder.run(&format!("{line} --dry-run")));
    assert!(!folder.path("new").exists());
    let said = stderr(&folder.run(line));
    // A line for each, and a warning of what overflowed.
    assert_eq!(said.lines().count(), 4, "{said}");
    for name in ["a.safetensors", "b.safetensors", "several/m-1.safetensors"] {
        assert!(folder.path("new/small").join(name).is_file(), "{name}");
    }
    let json: Value = serde_json::from_str(&done(&folder.run(&format!("{line} --json")))).expect("JSON");
    assert_eq!(json.as_array().map(Vec::len), Some(3));
    for (line, message) in [
        ("cast a.safetensors --to float16 -f", "1 file (want IN and OUT, or --out-dir DIR)"),
        (
            "cast a.safetensors b.safetensors c.safetensors --to float16 -f",
            "3 files (want IN and OUT, or --out-dir DIR)",
        ),
        ("cast - --to float16 --out-dir out", "-: no name for the output in out"),
        (
            "cast a.safetensors ./a.safetensors --to float16 --out-dir out -f",
            "a.safetensors and ./a.safetensors: both would be written to out/a.safetensors",
        ),
        (
            "cast missing.npy --to float16 --out-dir out -f",
            "missing.npy: cannot open: No such file or directory (os error 2)",
        ),
    ] {
        folder.refuses(line, message);
    }
}

/// An OUT that exists was replaced unless it looked like another input.
#[test]
fn an_output_that_exists_is_an_error() {
    let folder = Folder::new();
    checkpoint(&folder, "a.safetensors");
    cast_model(&folder);
    shards(&folder, "several");
    for name in ["old.npy", "old.npz", "old.onnx", "old.html", "old.gguf", "m-1.safetensors", "weights.bin"] {
        folder.write(name, "old");
    }
    folder.write("new.onnx.data", "old");
    std::fs::create_dir(folder.path("full")).expect("a folder");
    folder.write("full/notes", "mine");
    folder.write("x.npy", npy(&floats(&[1.0, 2.0])));
    let weights = Message::new().bytes(1, "value").message(5, tensor(&[300], 1, &[0; 1200])).int(20, 4);
    let nodes = vec![node("Constant", &[], "w", vec![weights]), node("Neg", &["w"], "y", vec![])];
    folder.write("large.onnx", model(21, nodes, &[], &[("y", 1)]));
    std::fs::create_dir(folder.path("empty")).expect("a folder");
    let file = |name: &str| {
        format!("{name}: already exists (name another file, --force to replace it, or --resume to continue it)")
    };
    let whole = |name: &str| format!("{name}: already exists (name another file, or --force to replace it)");
    let full = |name: &str| {
        format!(
            "{name}: already exists and is not empty (name another folder, --force to replace it, or --resume to continue it)"
        )
    };
    let in_place =
        "several: already exists and is not empty (name another folder, or --force to replace it)".to_owned();
    for (line, message) in [
        ("cast x.npy old.npy --to float16", file("old.npy")),
        ("cast x.npy x.npy --to float16", whole("x.npy")),
        ("cast x.npy x.npy --to float16 --resume", whole("x.npy")),
        ("cast x.npy old.npy --to string", file("old.npy")),
        ("cast x.npy old.npz --to float16", whole("old.npz")),
        ("bitcast x.npy old.npy --to int32", file("old.npy")),
        ("cast a.safetensors x.npy --to float16 --out-dir .", whole("./a.safetensors")),
        ("cast several several --to float16", in_place.clone()),
        ("cast several several --to float16 --resume", in_place),
        ("cast several full --to float16", full("full")),
        ("cast several model.safetensors.index.json --to float16", file("m-1.safetensors")),
        ("cast large.onnx old.onnx --to float16", whole("old.onnx")),
        ("cast large.onnx large.onnx --to float16", whole("large.onnx")),
        (
            "cast large.onnx new.onnx --to float16 --external-data weights.bin --external-threshold 0",
            whole("weights.bin"),
        ),
        (
            "cast large.onnx new.onnx --to float16 --external-threshold 0 --external-data new.onnx.data",
            whole("new.onnx.data"),
        ),
        ("convert large.onnx old.onnx --to float16", whole("old.onnx")),
        ("record large.onnx old.onnx", whole("old.onnx")),
        ("upgrade large.onnx old.onnx", whole("old.onnx")),
        ("fold m.onnx old.onnx", whole("old.onnx")),
        ("fold large.onnx new.onnx --external-data weights.bin --external-threshold 0", whole("weights.bin")),
        ("run m.onnx --input x.npy --output old.npy", whole("old.npy")),
        ("report x.npy --to float16 --html old.html", whole("old.html")),
        ("explain 1 --to float16 --html old.html", whole("old.html")),
        ("convert large.onnx new.onnx --to float16 --html old.html", whole("old.html")),
    ] {
        folder.refuses(line, &message);
        if ["cast", "bitc", "conv", "fold", "upgr", "reco"].iter().any(|job| line.starts_with(job)) {
            folder.refuses(&format!("{line} --dry-run"), &message);
        }
    }
    done(&folder.run("cast several empty --to float16 -q"));
    assert!(folder.path("empty/m-1.safetensors").is_file());
    done(&folder.run("cast large.onnx new.onnx --to float16 --external-data new.bin --external-threshold 1 -q"));
    assert!(folder.path("new.bin").is_file());
    for line in [
        "cast x.npy old.npy --to float16",
        "cast x.npy old.npz --to float16",
        "cast several full --to float16",
        "cast several several --to float16",
        "cast large.onnx old.onnx --to float16",
        "cast large.onnx large.onnx --to float16 --external-data weights.bin --external-threshold 0",
        "run m.onnx --input x.npy --output old.npy",
    ] {
        done(&folder.run(&format!("{line} -f -q")));
    }
    assert_eq!(folder.read("full/notes"), b"mine");
}

/// A folder went to a folder named `-`.
#[test]
fn folders_are_not_streamed() {
    let folder = Folder::new();
    shards(&folder, "several");
    std::fs::create_dir(folder.path("one")).expect("a folder");
    checkpoint(&folder, "one/model.safetensors");
    for name in ["several", "several/model.safetensors.index.json", "one"] {
        for job in [
            "cast --to bf16",
            "bitcast --to uint32",
            "quantize --to int8",
            "dequantize --to bf16",
            "transcode --layout plain",
        ] {
            let (command, options) = job.split_once(' ').expect("options");
            let line = format!("{command} {name} - {options}");
            folder.refuses(&line, "-: a checkpoint in a folder cannot be streamed (name a folder)");
        }
    }
}

#[test]
fn names_choose_what_is_listed_and_compared() {
    let folder = Folder::new();
    checkpoint(&folder, "a.safetensors");
    done(&folder.run("cast a.safetensors b.safetensors --to float16 --include *.norm -q"));
    let listed = done(&folder.run("info a.safetensors --include *norm"));
    assert!(listed.contains("layer.0.norm") && listed.contains("total: 1 tensor, 8 B"), "{listed}");
    done(&folder.run("diff a.safetensors b.safetensors --exclude *.norm"));
    assert_eq!(folder.run("diff a.safetensors b.safetensors --include *.norm").status.code(), Some(1));
}

/// What is nearly right is suggested, and what a pattern was to spare is not cast in silence.
#[test]
fn near_words_are_suggested() {
    let folder = Folder::new();
    checkpoint(&folder, "a.safetensors");
    cast_model(&folder);
    let near_in = |file: &str, option: &str, pattern: &str, name: &str| {
        format!("{file}: {option} `{pattern}` matches no tensor (did you mean `{name}`?)")
    };
    let near = |option: &str, pattern: &str, name: &str| near_in("a.safetensors", option, pattern, name);
    for (line, message) in [
        ("cast a.safetensors b.safetensors --to bf16 --exclude *nrom", near("--exclude", "*nrom", "layer.0.norm")),
        (
            "cast a.safetensors b.safetensors --to bf16 --include *.wieght",
            near("--include", "*.wieght", "layer.0.weight"),
        ),
        ("cast a.safetensors b.safetensors --rule layr.0.norm=bf16", near("--rule", "layr.0.norm", "layer.0.norm")),
        (
            "bitcast a.safetensors b.safetensors --to int32 --include *.wieght",
            near("--include", "*.wieght", "layer.0.weight"),
        ),
        ("info a.safetensors --include norm", near("--include", "norm", "*norm*")),
        ("info a.safetensors --include layer.0.nrm", near("--include", "layer.0.nrm", "layer.0.norm")),
        ("diff a.safetensors a.safetensors --exclude *.nrm", near("--exclude", "*.nrm", "layer.0.norm")),
        ("report a.safetensors --to bf16 --include *.nrm", near("--include", "*.nrm", "layer.0.norm")),
        (
            "cast a.safetensors b.safetensors --to bf16 --include re:bias$",
            "a.safetensors: --include `re:bias$` matches no tensor (`info` lists the names)".to_owned(),
        ),
        ("fold m.onnx n.onnx --exclude yy", near_in("m.onnx", "--exclude", "yy", "y").replace("tensor", "value")),
        (
            "cast a.safetensors b.safetensors --to flaot16",
            "invalid value 'flaot16' for '--to <TYPE>': `flaot16` is not an element type (did you mean `float16`?)"
                .to_owned(),
        ),
        (
            "cast a.safetensors b.safetensors --to mxfp4",
            "invalid value 'mxfp4' for '--to <TYPE>': `mxfp4` is not an element type (a format with scales: \
             use `quantize`)"
                .to_owned(),
        ),
        (
            "cast a.safetensors b.safetensors --to fp8",
            "invalid value 'fp8' for '--to <TYPE>': `fp8` is not an element type (want float8e4m3fn or float8e5m2)"
                .to_owned(),
        ),
    ] {
        folder.refuses(line, &message);
    }
    let said = stderr(&run("cast a b --to bf16 --exlude x"));
    assert!(said.contains("a similar argument exists: '--exclude'"), "{said}");
    let said = stderr(&run("csat a b"));
    assert!(said.contains("a similar subcommand exists: 'cast'"), "{said}");
    // A file of rules may be meant for other checkpoints too.
    folder.write("rules", "*.bias=keep\n*.weight=bf16\n");
    done(&folder.run("cast a.safetensors b.safetensors --rules-file rules -q"));
}

#[test]
fn help_has_sections() {
    let short = done(&run("cast -h"));
    let long = done(&run("cast --help"));
    let sections: Vec<&str> = short.lines().filter(|line| !line.starts_with(' ') && line.ends_with(':')).collect();
    assert_eq!(sections, ["Options:", "Input:", "What to cast:", "How:", "Output:"]);
    assert!(!short.contains("Examples:") && long.contains("Examples:"));
    assert!(short.lines().count() < long.lines().count());
    let exit_codes =
        "Exit codes: 0 done, 1 a difference (diff), a problem (check) or a loss\n(--fail-on), 2 an error.\n";
    assert!(done(&run("-h")).contains(exit_codes));
}

#[test]
fn pages_of_the_manual() {
    let all = done(&run("man"));
    assert!(all.starts_with(".ie") && all.contains(".TH onnx-cast 1") && all.contains("cast"), "{all}");
    let one = done(&run("man cast"));
    assert!(one.contains("onnx\\-cast\\-cast") && one.contains("\\-\\-out\\-dir"), "{one}");
    assert_eq!(refused(&run("man frobnicate")), "no command `frobnicate`");
}

#[test]
fn colours_are_asked_for() {
    let escapes = |line: &str, no_color: bool| {
        let mut command = command(line.split(' '));
        if no_color {
            command.env("NO_COLOR", "1");
        }
        done(&command.output().expect("the command runs")).contains('\u{1b}')
    };
    let line = "explain 0.3 --from float --to float8e4m3fn";
    assert!(!escapes(line, false), "no terminal");
    assert!(escapes(&format!("{line} --color always"), false));
    assert!(escapes(&format!("{line} --color=always"), true));
    assert!(!escapes(&format!("{line} --color never"), false));
    assert!(escapes("cast --help --color always", false));
    assert!(!escapes("cast --help", false));
}
