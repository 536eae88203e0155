//! Does a file get no more of the command than it has bytes for: no memory for what it claims, no copy that nobody
//! needs, and no control of the terminal?

use crate::common::{command, done, npy, refused, stderr, stdout};
use crate::files::{Folder, floats};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::safetensors;
use std::fs::{self, File};
use std::process::{Command, Output};
use testkit::proto::{Message, model, node, tensor, typed};

/// What only lists arrays makes no copy of those in Fortran order.
#[test]
fn a_list_needs_no_temporary_files() {
    let folder = Folder::new();
    let header = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n";
    let head = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
    let items: Vec<u8> = [1.0f32, 4.0, 2.0, 5.0, 3.0, -6.0].iter().flat_map(|value| value.to_le_bytes()).collect();
    folder.write("x.npy", [head, items].concat());
    folder.write("y.npy", npy(&Tensor::from_slice(vec![2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, -6.0]).expect("a tensor")));
    let listed = command(["info", "x.npy"]).current_dir(folder.0.path()).env("TMPDIR", "/nowhere").output();
    assert!(done(&listed.expect("the command runs")).contains("2x3"));
    assert!(done(&folder.run("info x.npy --stats")).contains("min -6e0, max 5e0"));
    done(&folder.run("diff x.npy y.npy"));
    done(&folder.run("diff y.npy x.npy"));
}

/// Strings that deflate to a thousandth of their length: a list needs the header alone, a copy and a comparison a buffer.
#[cfg(target_os = "linux")]
#[test]
fn deflated_strings_are_not_held_in_memory() {
    use std::io::Write;
    let folder = Folder::new();
    let mut zip = zip::ZipWriter::new(File::create(folder.path("bomb.npz")).expect("a file"));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, shape, fortran) in [("wide", "(1, 3)", "False"), ("many", "(2, 96)", "True")] {
        let len: usize = if name == "wide" { 384 << 20 } else { 24 << 20 };
        let items: usize = if name == "wide" { 3 } else { 192 };
        let descr = len / 4 / items;
        let header = format!("{{'descr': '<U{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
        zip.start_file(format!("{name}.npy"), options).expect("a member");
        let head = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
        zip.write_all(&head).expect("written");
        (0..len >> 20).for_each(|_| zip.write_all(&[0; 1 << 20]).expect("written"));
    }
    zip.start_file("w.npy", options).expect("a member");
    zip.write_all(&npy(&floats(&[1.0]))).expect("written");
    zip.finish().expect("finished");
    assert!(fs::metadata(folder.path("bomb.npz")).expect("a file").len() < 2 << 20);
    let program = command(["--version"]).get_program().to_owned();
    for line in [
        "info bomb.npz",
        "info bomb.npz --stats",
        "cast bomb.npz kept.npz --to float16",
        "report bomb.npz --to float16",
        "diff bomb.npz bomb.npz",
    ] {
        let limited = "ulimit -v 300000; exec \"$0\" -j 1 \"$@\"";
        let mut shell = Command::new("bash");
        shell.args(["-c", limited]).arg(&program).args(line.split(' ')).current_dir(folder.0.path());
        let output = shell.output().expect("bash runs");
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
    }
}

/// Two paths of one file are one file, however they are written.
#[test]
fn two_outputs_in_one_file() {
    let folder = Folder::new();
    let nodes = ["y", "z"].map(|output| node("Identity", &["x"], output, vec![])).to_vec();
    folder.write("m.onnx", model(25, nodes, &[("x", 1)], &[("y", 1), ("z", 1)]));
    folder.write("x.npy", npy(&floats(&[1.0])));
    fs::create_dir(folder.path("sub")).expect("a folder");
    for other in ["y.npy", "./y.npy", "sub/../y.npy"] {
        let line = format!("run m.onnx --input x=x.npy --output y=y.npy --output z={other}");
        assert_eq!(refused(&folder.run(&line)), format!("{other}: output `z` is also output `y` (name another file)"));
    }
    assert!(!folder.path("y.npy").exists());
    done(&folder.run("run m.onnx --input x=x.npy --output y=y.npy --output z=z.npy"));
    for other in ["y.npy", "./y.npy"] {
        let line = format!("run m.onnx --input x=x.npy --output y=y.npy --output z={other}");
        assert!(refused(&folder.run(&line)).contains("is also output `y`"));
    }
}

/// The width of a column once was that of its longest text, which Rust's formatting takes up to 65,535 letters.
#[test]
fn names_and_shapes_of_any_length() {
    let folder = Folder::new();
    let long = "x".repeat(70_000);
    let (one, many) = (floats(&[1.0]), Tensor::from_slice(vec![1; 40_000], &[1.0f32]).expect("a tensor"));
    let names: Vec<String> = (0..3000).map(|i| format!("w{i}")).collect();
    let mut tensors: Vec<_> = names.iter().map(|name| (name.as_str(), one.view())).collect();
    tensors.extend([(long.as_str(), one.view()), ("deep", many.view())]);
    folder.write("x.safetensors", safetensors::write(None, &tensors).expect("bytes"));
    let cast =
        |name: &str, to| node("Cast", &[name], &format!("{name}{to}"), vec![testkit::proto::int_attribute("to", to)]);
    folder.write("m.onnx", model(25, vec![cast(&long, 10), cast("x", 1)], &[(&long, 1), ("x", 10)], &[("x1", 1)]));
    for line in [
        "info x.safetensors",
        "info x.safetensors --stats",
        "cast x.safetensors y.safetensors --to bf16 --dry-run -f",
        "cast x.safetensors y.safetensors --to bf16 -v -f",
        "cast x.safetensors y.safetensors --to bf16 --losses -f",
        "report x.safetensors --to bf16 --top 0",
        "info m.onnx --types",
        "fold m.onnx n.onnx --dry-run -f",
        "upgrade m.onnx n.onnx --opset 26 --dry-run -f",
        "convert m.onnx n.onnx --to float16 --dry-run -f",
        "record m.onnx n.onnx --dry-run -f",
    ] {
        let output = folder.run(line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
        // Other lines are no longer for the sake of one.
        assert!(output.stdout.len() + output.stderr.len() < 4 << 20, "{line}");
    }
}

/// No text of a file, and no name of one, reaches the terminal as it is.
#[test]
fn control_characters_are_escaped() {
    let folder = Folder::new();
    let shown = |output: &Output| {
        let text = stdout(output) + &stderr(output);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        text
    };
    let red = "a\u{1b}[31m\nb";
    let escaped = "a\\u{1b}[31m\\nb";
    folder.write("i.safetensors.index.json", r#"{"weight_map": {"w": "a\u001b[31m\nb.safetensors"}}"#);
    let text = shown(&folder.run("info i.safetensors.index.json"));
    assert_eq!(
        text,
        format!("onnx-cast: error: {escaped}.safetensors: cannot open: No such file or directory (os error 2)\n")
    );
    folder.write("i.safetensors.index.json", r#"{"weight_map": {"a\u001b[31m\nb": "x.safetensors"}}"#);
    folder.write("x.safetensors", safetensors::write(None, &[("w", floats(&[1.0]).view())]).expect("bytes"));
    assert!(shown(&folder.run("cast i.safetensors.index.json out --to bf16")).contains(" is missing from weight_map"));
    folder.write("x.safetensors", safetensors::write(None, &[(red, floats(&[1.0]).view())]).expect("bytes"));
    for line in ["info i.safetensors.index.json", "cast x.safetensors y.safetensors --to bf16 -v --losses"] {
        assert!(shown(&folder.run(line)).contains(escaped), "{line}");
    }
    for extension in ["npy", "pb", "safetensors", "onnx", "gguf", "npz"] {
        let name = format!("{red}.{extension}");
        let run = |arguments: &[&str]| {
            shown(&command(arguments).current_dir(folder.0.path()).output().expect("the command runs"))
        };
        assert!(run(&["info", &name]).contains(escaped), "{extension}");
        if extension == "npy" {
            folder.write(&name, npy(&floats(&[1.0])));
            assert!(run(&["cast", &name, "z.npy", "--to", "float16"]).contains(escaped));
            assert!(run(&["diff", &name, "z.npy"]).contains("float, and float16"));
        }
        assert!(run(&["cast", &name, "--to", red, "y.npy"]).contains("31m"), "a mistake in the arguments");
    }
    let nodes = vec![node("Cast", &["x"], red, vec![testkit::proto::int_attribute("to", 10)])];
    folder.write("m.onnx", model(25, nodes, &[("x", 1)], &[(red, 10)]));
    for line in [
        "info m.onnx --types",
        "fold m.onnx n.onnx --dry-run",
        "record m.onnx n.onnx --dry-run",
        "convert m.onnx n.onnx --to float16 --dry-run",
        "run m.onnx --input x=x.npy",
        "run m.onnx --input x=x.npy --output y.npy",
    ] {
        shown(&folder.run(line));
    }
}

/// Runs the command in an address space of 160 MB: enough for what files are, and for nothing that they claim.
#[cfg(target_os = "linux")]
fn confined(folder: &Folder, arguments: &str) -> Output {
    let line = format!("ulimit -v 163840 && exec \"$0\" {arguments}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line, env!("CARGO_BIN_EXE_onnx-cast")]).current_dir(folder.0.path());
    shell.env_remove("RUST_BACKTRACE").output().expect("a shell")
}

/// Sizes that files claim, in every format, each larger than the memory that the command gets.
#[cfg(target_os = "linux")]
fn claims() -> Vec<(&'static str, Vec<u8>)> {
    let huge = 1i64 << 40;
    let word = |value: i64| value.to_le_bytes();
    let npy = |descr: &str, shape: &str| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape},), }}\n");
        [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat()
    };
    let safetensors = |header: &str| [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    let gguf =
        |tensors: i64, pairs: i64, rest: &[u8]| [b"GGUF\x03\0\0\0", &word(tensors)[..], &word(pairs), rest].concat();
    // A length of 2^40 behind a key.
    let claim = |field: u8| {
        [field << 3 | 2, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec()
    };
    let initializer = |tensor: Message| {
        let graph = Message::new().bytes(2, "graph").message(5, tensor);
        Message::new().int(1, 10).message(7, graph).message(8, Message::new().bytes(1, "").int(2, 25)).into_bytes()
    };
    let entry = |name: &str, kind: u32| [&word(name.len() as i64)[..], name.as_bytes(), &kind.to_le_bytes()].concat();
    let mut npz_end = b"PK\x05\x06\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f\0\0\0\0\0\0".to_vec();
    npz_end.splice(0..0, [0; 64]);
    vec![
        ("header.safetensors", [&word(99_999_999)[..], b"{}"].concat()),
        ("length.safetensors", [&word(i64::MAX)[..], b"{}"].concat()),
        (
            "data.safetensors",
            safetensors(&format!(r#"{{"w":{{"dtype":"F32","shape":[{huge}],"data_offsets":[0,{}]}}}}"#, 4 * huge)),
        ),
        (
            "shape.safetensors",
            safetensors(&format!(r#"{{"w":{{"dtype":"F32","shape":[{huge},{huge}],"data_offsets":[0,0]}}}}"#)),
        ),
        ("header.npy", [&b"\x93NUMPY\x02\x00\xff\xff\xff\xff"[..], &[b' '; 100]].concat()),
        ("shape.npy", npy("<f4", &huge.to_string())),
        ("product.npy", npy("<f4", &format!("{huge}, {huge}"))),
        ("text.npy", npy("<U1000000000000", "2")),
        ("nothing.npy", npy("<U0", &huge.to_string())),
        ("end.npz", npz_end),
        ("shape.pb", typed(&[huge], 1).into_bytes()),
        ("ints.pb", typed(&[huge], 7).int(7, 1).into_bytes()),
        ("raw.pb", [typed(&[huge], 1).into_bytes(), claim(9)].concat()),
        ("floats.pb", [typed(&[huge], 1).into_bytes(), claim(4)].concat()),
        ("strings.pb", [typed(&[huge], 8).into_bytes(), claim(6)].concat()),
        ("name.pb", claim(8)),
        ("graph.onnx", [Message::new().int(1, 10).into_bytes(), claim(7)].concat()),
        ("raw.onnx", initializer(tensor(&[huge], 1, &[0; 8]).bytes(8, "w"))),
        ("shape.onnx", initializer(typed(&[huge, huge], 1).bytes(8, "w"))),
        ("strings.onnx", initializer(typed(&[huge], 8).bytes(8, "w"))),
        ("tensors.gguf", gguf(huge, 0, &[])),
        ("pairs.gguf", gguf(0, huge, &[])),
        ("key.gguf", gguf(0, 1, &word(huge))),
        ("text.gguf", gguf(0, 1, &[&entry("k", 8)[..], &word(huge)].concat())),
        ("array.gguf", gguf(0, 1, &[&entry("k", 9)[..], &4u32.to_le_bytes(), &word(huge)].concat())),
        ("dims.gguf", gguf(1, 0, &entry("w", u32::MAX))),
        (
            "shape.gguf",
            gguf(1, 0, &[&entry("w", 1)[..], &word(huge), &0u32.to_le_bytes(), &word(0), &[0; 64]].concat()),
        ),
        (
            "total.safetensors.index.json",
            br#"{"metadata":{"total_size":1e400},"weight_map":{"w":"no.safetensors"}}"#.to_vec(),
        ),
        ("list.safetensors.index.json", br#"{"weight_map":[1099511627776]}"#.to_vec()),
    ]
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_file_claims_is_not_allocated() {
    let folder = Folder::new();
    for (name, bytes) in claims() {
        folder.write(name, bytes);
        let mut lines =
            ["info {}", "info {} --stats", "report {} --to float16"].map(|line| line.replace("{}", name)).to_vec();
        // Texts of a model are kept, whatever they are.
        if name != "strings.onnx" {
            let output = if name.ends_with("onnx") { "out.onnx" } else { "out.safetensors" };
            lines.push(format!("cast {name} {output} --to float16"));
        }
        for line in lines {
            let output = confined(&folder, &line);
            let text = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{line}: {text}");
            assert!(text.starts_with("onnx-cast: error: ") && !text.contains("memory"), "{line}: {text}");
            assert!(!folder.names().iter().any(|name| name.starts_with("out.")), "{line}");
        }
    }
}

/// Sizes that a configuration claims for a checkpoint.
#[cfg(target_os = "linux")]
#[test]
fn what_a_configuration_claims_is_not_allocated() {
    let folder = Folder::new();
    fs::create_dir(folder.path("ck")).expect("a folder");
    let codes = Tensor::new(DataType::Float8E4M3FN, vec![2, 2], vec![1, 2, 3, 4]).expect("a tensor");
    let scales = Tensor::from_slice(vec![1, 1], &[2.0f32]).expect("a tensor");
    let weights = [("a.weight", codes.view()), ("a.weight_scale_inv", scales.view())];
    folder.write("ck/model.safetensors", safetensors::write(None, &weights).expect("bytes"));
    let fp8 =
        |block: &str| format!(r#"{{"quantization_config":{{"quant_method":"fp8","weight_block_size":[{block}]}}}}"#);
    let int4 = |group: &str| {
        format!(r#"{{"quantization_config":{{"quant_method":"gptq","bits":{group},"group_size":{group}}}}}"#)
    };
    for config in [
        fp8("1099511627776, 1099511627776"),
        fp8("18446744073709551615, 2"),
        fp8("0, 0"),
        fp8("1e300, 1"),
        int4("1099511627776"),
        int4("-1"),
        "[".repeat(100_000),
        "{".to_owned(),
    ] {
        folder.write("ck/config.json", &config);
        for line in ["info ck", "info ck --stats", "dequantize ck out --to float", "transcode ck out --layout plain"] {
            let output = confined(&folder, line);
            let text = stderr(&output);
            assert!(matches!(output.status.code(), Some(0 | 2)), "{line} {config:.80}: {text}");
            assert!(!text.contains("memory") && !text.contains("panicked"), "{line} {config:.80}: {text}");
            let _ = fs::remove_dir_all(folder.path("out"));
        }
    }
}

/// A file that is no message is refused by its beginning, not when all of it has been read, twice.
#[cfg(target_os = "linux")]
#[test]
fn zeros_are_refused_at_once() {
    let folder = Folder::new();
    for name in ["x.onnx", "x.pb", "x.npy", "x.npz", "x.safetensors", "x.gguf", "x.safetensors.index.json"] {
        File::create(folder.path(name)).and_then(|file| file.set_len(1 << 30)).expect("a sparse file");
        let output = confined(&folder, &format!("info {name}"));
        let text = refused(&output);
        assert!(!text.contains("memory"), "{text}");
    }
}
