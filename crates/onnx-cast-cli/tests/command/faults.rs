//! What goes wrong from outside while a file is cast: the output is as it was before, and nothing is left behind.
#![cfg(target_os = "linux")]

use crate::common::{done, npy, refused, stderr, tensors};
use crate::files::{Folder, floats};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::{CastRequest, RunOptions, Watch, cast_file, safetensors};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A checkpoint of one tensor of this many floats, zeros that take no room on the disk.
pub(crate) fn sparse(folder: &Folder, name: &str, len: u64) {
    let header = format!(r#"{{"w":{{"dtype":"F32","shape":[{len}],"data_offsets":[0,{}]}}}}"#, 4 * len);
    folder.write(name, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat());
    let file = File::options().write(true).open(folder.path(name)).expect("the file");
    file.set_len(8 + header.len() as u64 + 4 * len).expect("a sparse file");
}

fn start(folder: &Folder, line: &str) -> std::process::Child {
    Command::new(env!("CARGO_BIN_EXE_onnx-cast"))
        .args(line.split(' '))
        .current_dir(folder.0.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command runs")
}

#[test]
fn killed_or_interrupted() {
    let folder = Folder::new();
    let len = 1 << 26;
    sparse(&folder, "in.safetensors", len);
    let mut killed = 0;
    for round in 0..16u64 {
        folder.write("out.safetensors", b"old");
        let mut child = start(&folder, "cast -q in.safetensors out.safetensors --to float8e5m2 -f");
        sleep(Duration::from_millis(2 + 7 * round));
        // Ctrl-C, and the signal that cannot be caught.
        let signal = if round % 2 == 0 { 2 } else { 9 };
        let sent = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).output().expect("kill");
        let status = child.wait().expect("it ends");
        assert_eq!(folder.names(), ["in.safetensors", "out.safetensors"], "round {round}");
        let size = fs::metadata(folder.path("out.safetensors")).expect("the output").len();
        if status.signal() == Some(signal) && size == 3 {
            killed += 1;
        } else {
            // It was as good as done.
            assert!(size > len && (status.success() || sent.status.success()), "round {round}: {size} {status}");
        }
    }
    assert!(killed > 0, "it is never so fast");
}

/// Casts with a file that may not grow beyond some blocks of 512 bytes or of 1 KiB, which to the command is a full
/// disk.
fn limited(folder: &Folder, blocks: u32, files: &str) -> Output {
    let line = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" cast {files} --to float16 --force");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line, env!("CARGO_BIN_EXE_onnx-cast")]).current_dir(folder.0.path()).output().expect("a shell")
}

#[test]
fn a_full_disk() {
    let folder = Folder::new();
    sparse(&folder, "in.safetensors", 1 << 22);
    folder.write("out.safetensors", b"old");
    let shell = limited(&folder, 1024, "in.safetensors out.safetensors");
    assert_eq!(refused(&shell), "out.safetensors: cannot write: File too large (os error 27)");
    assert_eq!(folder.names(), ["in.safetensors", "out.safetensors"]);
    assert_eq!(folder.read("out.safetensors"), b"old");
}

/// Wherever the disk is full, the error is one line.
#[test]
fn a_full_disk_at_the_end_of_an_archive() {
    let folder = Folder::new();
    let tensor = Tensor::from_slice(vec![2], &[1.0f32, -2.0]).expect("a tensor");
    let names: Vec<String> = (0..40).map(|i| format!("layers.{i}.weight")).collect();
    let tensors: Vec<_> = names.iter().map(|name| (name.as_str(), tensor.view())).collect();
    folder.write("in.safetensors", safetensors::write(None, &tensors).expect("a checkpoint"));
    done(&folder.run("cast -q in.safetensors want.npz --to float16 -f"));
    let want = folder.read("want.npz");
    let mut refusals = 0;
    for blocks in 0.. {
        folder.write("out.npz", b"old");
        let output = limited(&folder, blocks, "in.safetensors out.npz -q");
        if output.status.success() {
            assert!(folder.read("out.npz") == want && stderr(&output).is_empty(), "{blocks} blocks");
            break;
        }
        let text = stderr(&output);
        assert_eq!(text, "onnx-cast: error: out.npz: cannot write: File too large (os error 27)\n", "{blocks} blocks");
        assert_eq!(folder.names(), ["in.safetensors", "out.npz", "want.npz"], "{blocks} blocks");
        assert_eq!(folder.read("out.npz"), b"old", "{blocks} blocks");
        refusals += 1;
    }
    // The list of the members alone is several blocks of either size.
    assert!(refusals > want.len() / 1024 - 1, "{refusals} limits were too small for {} bytes", want.len());
}

/// Runs the command in an address space of so many KiB.
fn in_memory(folder: &Folder, limit: u64, arguments: &str) -> Output {
    let line = format!("ulimit -v {limit} && exec \"$0\" {arguments}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &line, env!("CARGO_BIN_EXE_onnx-cast")]).current_dir(folder.0.path());
    // With it the standard library, out of memory, waits for itself where it would tell of that.
    shell.env_remove("RUST_BACKTRACE").output().expect("a shell")
}

/// From where the command cannot be loaded to where it has all that it wants: never a panic, and never half an output.
/// Where there was no memory for a thread it once panicked.
#[test]
fn little_memory() {
    let folder = Folder::new();
    sparse(&folder, "in.safetensors", 1 << 22);
    done(&folder.run("cast -q in.safetensors want.safetensors --to float16 -f"));
    let want = folder.read("want.safetensors");
    let mut casts = 0;
    for step in 0..24 {
        folder.write("out.safetensors", b"old");
        let limit = (8_000.0 * 1.2f64.powi(step)) as u64;
        let output = in_memory(&folder, limit, "cast -q in.safetensors out.safetensors --to float16 -f");
        let text = stderr(&output);
        assert!(!text.contains("panicked"), "{limit} KB: {text}");
        assert_eq!(folder.names(), ["in.safetensors", "out.safetensors", "want.safetensors"], "{limit} KB");
        let (got, whole) = (folder.read("out.safetensors"), output.status.success());
        assert!(got == if whole { want.as_slice() } else { b"old" }, "{limit} KB: {} {text}", output.status);
        casts += u32::from(whole);
    }
    assert!((1..24).contains(&casts), "{casts} of 24 limits were enough");
}

/// What deflates and what inflates panicked where there was no memory for its tables.
#[test]
fn little_memory_for_an_archive() {
    let folder = Folder::new();
    let mut zip = ZipWriter::new(File::create(folder.path("in.npz")).expect("a file"));
    zip.start_file("w.npy", SimpleFileOptions::default().compression_method(CompressionMethod::Deflated)).expect("one");
    let w = Tensor::from_slice(vec![1000], &[0.3f32; 1000]).expect("a tensor");
    zip.write_all(&npy(&w)).expect("written");
    zip.finish().expect("finished");
    done(&folder.run("cast -q in.npz want.npz --to float16 -f"));
    let want = folder.read("want.npz");
    let casts = |limit| {
        folder.write("out.npz", b"old");
        let output = in_memory(&folder, limit, "cast -q in.npz out.npz --to float16 -f");
        let (text, got) = (stderr(&output), folder.read("out.npz"));
        // Rust's runtime panics before `main` if it cannot allocate the stack for its signal handlers.
        let is_before_main = text.contains("failed to allocate an alternative stack");
        assert!(is_before_main || !text.contains("panicked"), "{limit} KB: {text}");
        assert_eq!(folder.names(), ["in.npz", "out.npz", "want.npz"], "{limit} KB");
        let whole = output.status.success();
        assert!(got == if whole { want.as_slice() } else { b"old" }, "{limit} KB: {} {text}", output.status);
        whole
    };
    // The least that is enough, and what is a little less: the tables are among what is missing.
    let (mut little, mut enough) = (1 << 10, 1 << 20);
    assert!(!casts(little) && casts(enough));
    while enough - little > 32 {
        let limit = (little + enough) / 2;
        *(if casts(limit) { &mut enough } else { &mut little }) = limit;
    }
    // Where the standard library cannot begin, it ends the process before the command is asked for anything.
    let begins = |limit| in_memory(&folder, limit, "--version").status.success();
    let limits = (1..=60).map(|step| little - 32 * step).take_while(|&limit| begins(limit));
    assert!(limits.map(casts).count() > 4, "none of these has the command begin");
}

/// Starts a program without the right to write everywhere (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH), which root has.
const WITHOUT_RIGHTS: &str = "import ctypes, os, sys
for capability in (1, 2):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])";

#[test]
fn a_folder_that_takes_no_file() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    sparse(&folder, "in.safetensors", 4);
    fs::create_dir(folder.path("out")).expect("a folder");
    fs::set_permissions(folder.path("out"), fs::Permissions::from_mode(0o555)).expect("set");
    let output = Command::new("python3")
        .args(["-c", WITHOUT_RIGHTS, env!("CARGO_BIN_EXE_onnx-cast")])
        .args(["cast", "in.safetensors", "out/out.safetensors", "--to", "float16"])
        .current_dir(folder.0.path())
        .output()
        .expect("python3 runs");
    assert_eq!(refused(&output), "out/out.safetensors: cannot write: permission denied");
    assert_eq!(fs::read_dir(folder.path("out")).expect("the folder").count(), 0);
}

#[test]
fn an_input_that_is_cut_short_meanwhile() {
    let folder = Folder::new();
    sparse(&folder, "in.safetensors", 1 << 25);
    let path = folder.path("in.safetensors");
    let len = fs::metadata(&path).expect("the file").len();
    let cut = path.clone();
    let watch = Watch::new(move |_, _| {
        File::options().write(true).open(&cut).and_then(|file| file.set_len(1000)).expect("cut");
    });
    let request = CastRequest::new(DataType::Float16).run(RunOptions::new().watch(Some(watch)));
    let error = cast_file(&path, folder.path("out.safetensors"), &request).expect_err("cut short").to_string();
    assert!(
        error.contains("in.safetensors: cannot read: truncated at byte ")
            && error.ends_with(&format!(": it had {len} bytes when it was opened")),
        "{error}"
    );
    assert_eq!(folder.names(), ["in.safetensors"]);
}

#[test]
fn many_tensors_and_odd_names() {
    let folder = Folder::new();
    let one = floats(&[0.5]);
    let mut names: Vec<String> = (0..70_000).map(|i| format!("layer.{i}.weight")).collect();
    names.extend(
        ["", "a b", "quote\"", "back\\slash", "line\nbreak", "\u{0}", "émoji 🦀", "__proto__", "../up"]
            .map(str::to_owned),
    );
    let views: Vec<_> = names.iter().map(|name| (name.as_str(), one.view())).collect();
    folder.write("in.safetensors", safetensors::write(None, &views).expect("bytes"));
    done(&folder.run("cast in.safetensors out.safetensors --to float16 -q --exclude re:^layer[.]6"));
    let result = tensors(folder.read("out.safetensors"));
    assert_eq!(result.len(), names.len());
    for (one, name) in result.iter().zip(&names) {
        let want: &[u8] = if name.starts_with("layer.6") { &[0, 0, 0, 0x3f] } else { &[0, 0x38] };
        assert_eq!((&one.name, one.tensor.bytes()), (name, Some(want)));
    }
    let listed = done(&folder.run("info out.safetensors"));
    assert!(listed.contains("line\\nbreak") && listed.lines().count() == names.len() + 2);
}

#[test]
fn headers_that_claim_what_is_not_there() {
    let folder = Folder::new();
    let file = |header: &str, data: usize| {
        let mut file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
        file.resize(file.len() + data, 0);
        file
    };
    for (bytes, message) in [
        (vec![0, 0, 0, 0, 0, 0, 0, 0x80], "a header of 9223372036854775808 bytes (want at most 100000000)"),
        (vec![0x00, 0xe1, 0xf5, 0x05, 0, 0, 0, 0], "a header of 100000000 bytes in a file of 8"),
        (
            file(
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
                12,
            ),
            "tensor `b`: data_offsets 4 to 12 (want to start at 8, and to end within the 12 bytes of data)",
        ),
        (
            file(r#"{"a":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,18446744073709551615]}}"#, 12),
            "tensor `a`: data_offsets 0 to 18446744073709551615 (want to start at 0, and to end within the 12 bytes of data)",
        ),
    ] {
        folder.write("in.safetensors", bytes);
        for line in [
            "cast in.safetensors out.safetensors --to float16",
            "info in.safetensors --stats",
            "diff in.safetensors in.safetensors",
        ] {
            folder.refuses(line, &format!("in.safetensors: {message}"));
        }
    }
    let none = folder.run("info none.safetensors");
    assert_eq!(
        stderr(&none),
        "onnx-cast: error: none.safetensors: cannot open: No such file or directory (os error 2)\n"
    );
}
