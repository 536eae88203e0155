//! What is drawn while the command works: a bar on a terminal, gone before anything else is said, and nothing
//! elsewhere.
#![cfg(target_os = "linux")]

use crate::common::{done, npy, stderr};
use crate::faults::sparse;
use crate::files::{Folder, floats};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use testkit::proto::{Message, model, node, tensor};

/// The command with a terminal as its standard error, and what reads from the other side of that.
fn start(folder: &Folder, line: &str) -> (Child, File) {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("it is ours");
    let name = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("UTF-8");
    let child = Command::new(env!("CARGO_BIN_EXE_onnx-cast"))
        .args(line.split(' '))
        .current_dir(folder.0.path())
        .env("TERM", "xterm")
        .stdout(Stdio::piped())
        .stderr(File::options().read(true).write(true).open(name).expect("the terminal"))
        .spawn()
        .expect("the command runs");
    (child, File::from(terminal))
}

/// All that was written to the terminal once no process has it open any more, which the system reports as an error.
fn rest(mut terminal: File) -> String {
    let mut text = Vec::new();
    let mut some = [0; 4096];
    while let Ok(len @ 1..) = terminal.read(&mut some) {
        text.extend_from_slice(&some[..len]);
    }
    String::from_utf8(text).expect("UTF-8")
}

fn shown(folder: &Folder, line: &str) -> (ExitStatus, String) {
    let (mut child, terminal) = start(folder, line);
    let text = rest(terminal);
    (child.wait().expect("it ends"), text)
}

/// What is left on the screen: what was written after the line was last cleared.
fn left(text: &str) -> &str {
    text.rsplit_once("\u{1b}[2K").map_or(text, |(_, after)| after)
}

#[test]
fn a_bar_while_it_works_and_then_the_summary() {
    let folder = Folder::new();
    sparse(&folder, "in.safetensors", 1 << 24);
    let nodes = vec![node("Constant", &[], "w", vec![constant(1 << 20)])];
    folder.write("in.onnx", model(21, nodes, &[], &[("w", 1)]));
    for (line, total, said) in [
        (
            "cast in.safetensors out.safetensors --to float16 -f",
            "64.0 MiB",
            "in.safetensors -> out.safetensors: 1 tensor",
        ),
        (
            "bitcast in.safetensors out.safetensors --to int32 -f",
            "64.0 MiB",
            "in.safetensors -> out.safetensors: 1 tensor",
        ),
        ("info in.safetensors --stats", "64.0 MiB", ""),
        ("diff in.safetensors in.safetensors", "64.0 MiB", "in.safetensors and in.safetensors: equal"),
        ("cast in.onnx out.onnx --to float16 -f", "4.0 MiB", "in.onnx -> out.onnx: 1 tensor"),
        ("fold out.onnx back.onnx -f", "2.0 MiB", "out.onnx -> back.onnx: 1 cast"),
    ] {
        let (status, text) = shown(&folder, line);
        assert!(status.success(), "{line}: {text}");
        assert!(text.contains(&format!(" of {total}, ")) && text.contains("GB/s, 0:0"), "{line}: {text}");
        assert!(left(&text).trim_start_matches('\r').starts_with(said), "{line}: {text:?}");
        assert!(!left(&text).contains("GB/s"), "{line}: {text:?}");
        // With `--quiet`, nothing is shown.
        let quiet = if line.starts_with("info") { "--json" } else { "--quiet" };
        assert_eq!(shown(&folder, &format!("{line} {quiet}")).1, "", "{line} {quiet}");
        // Nor if standard error is a file.
        let output = folder.run(line);
        done(&output);
        assert!(!stderr(&output).contains('\r') && !stderr(&output).contains("GB/s"), "{}", stderr(&output));
    }
}

fn constant(len: usize) -> Message {
    let tensor = tensor(&[len as i64], 1, &vec![0; 4 * len]);
    Message::new().bytes(1, "value").message(5, tensor).int(20, 4)
}

#[test]
fn no_bar_is_left_above_an_error() {
    let folder = Folder::new();
    let nan = npy(&floats(&[f32::NAN]));
    folder.write("nan.npy", nan);
    let (status, text) = shown(&folder, "cast nan.npy out.npy --to float16 --fail-on nan");
    assert_eq!(status.code(), Some(1));
    let said = left(&text).trim_start_matches('\r');
    assert_eq!(said, "onnx-cast: nan.npy: nan in 1 value cast to float16 (nothing is written)\r\n", "{text:?}");
}

/// Whether this process ignores a signal, as a shell has what it runs in its background ignore Ctrl-C: then so does the
/// command.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("its signals");
    u64::from_str_radix(mask.trim(), 16).expect("a mask") >> (signal - 1) & 1 == 1
}

#[test]
fn ctrl_c_takes_the_bar_away() {
    let folder = Folder::new();
    // 64 GiB that are not there: the test does not wait for them.
    sparse(&folder, "in.safetensors", 1 << 34);
    for (signal, name) in [(2, "-INT"), (15, "-TERM")] {
        if is_ignored(signal) {
            continue;
        }
        let (mut child, mut terminal) = start(&folder, "info in.safetensors --stats");
        let mut some = [0; 4096];
        let len = terminal.read(&mut some).expect("a bar");
        Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill");
        let text = String::from_utf8_lossy(&some[..len]).into_owned() + &rest(terminal);
        assert_eq!(child.wait().expect("it ends").signal(), Some(signal), "{text}");
        assert!(text.contains(" of 64.0 GiB"), "{text:?}");
        assert_eq!(left(&text).trim_matches('\r'), "", "{text:?}");
    }
}

/// Only where there is something to continue.
#[test]
fn an_interrupted_job_says_how_to_resume() {
    let folder = Folder::new();
    sparse(&folder, "in.safetensors", 1 << 34);
    let hint = "onnx-cast: interrupted; the same command with --resume continues\r\n";
    for (line, want) in [
        ("cast in.safetensors out.safetensors --to float16", hint),
        ("cast in.safetensors out.safetensors --to float16 --losses --dry-run", ""),
        ("cast in.safetensors out.npz --to float16", ""),
    ] {
        if is_ignored(2) {
            continue;
        }
        let (mut child, mut terminal) = start(&folder, line);
        let mut some = [0; 4096];
        let len = terminal.read(&mut some).expect("a bar");
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
        let text = String::from_utf8_lossy(&some[..len]).into_owned() + &rest(terminal);
        assert_eq!(child.wait().expect("it ends").signal(), Some(2), "{text}");
        assert_eq!(left(&text).trim_start_matches('\r'), want, "{line}: {text:?}");
        assert!(!folder.path("out.safetensors").exists());
    }
}

#[test]
fn a_signal_that_is_ignored_stays_so() {
    let folder = Folder::new();
    sparse(&folder, "in.safetensors", 1 << 26);
    let line = "trap '' INT; \"$0\" info in.safetensors --stats & sleep 0.05; kill -INT $!; wait $!";
    let mut shell = Command::new("sh");
    shell.args(["-c", line, env!("CARGO_BIN_EXE_onnx-cast")]).current_dir(folder.0.path());
    done(&shell.output().expect("a shell"));
}
