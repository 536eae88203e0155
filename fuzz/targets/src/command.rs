//! The command line: arguments and files, in a folder of their own, in this process.

use crate::quiet::quietly;
use crate::scratch;
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The names that files may have. Those that the command writes may be any.
#[rustfmt::skip]
const NAMES: [&str; 9] = [
    "x.pb", "x.npy", "x.npz", "x.safetensors", "x.onnx", "x.bin", "x.safetensors.index.json", "rules", "y.safetensors",
];

/// Arguments, a line each, behind a NUL a byte for a name, two for a length, and the bytes of that file; and so on.
pub fn command(data: &[u8]) {
    let (line, files) = match data.iter().position(|&byte| byte == 0) {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[][..]),
    };
    let line = String::from_utf8_lossy(line);
    let arguments: Vec<&str> = line.split('\n').collect();
    // Nothing outside of the folder is touched; and `bench` does nothing but take time.
    if arguments.iter().any(|argument| argument.contains('/') || argument.contains("..") || *argument == "bench") {
        return;
    }
    scratch::clear();
    // The first is what the standard input gives.
    let laid_out = scratch::lay_out(files, "", &NAMES).unwrap_or_default();
    let before = scratch::files();
    let input = File::open(laid_out.first().map_or(Path::new("/dev/null"), PathBuf::as_path)).expect("the input");
    let arguments = ["onnx-cast"].into_iter().chain(arguments.iter().copied());
    let code = in_folder(scratch::folder(), || {
        quietly(&input, || onnx_cast_cli::exit_code(arguments.clone().map(OsString::from)))
    });
    check(code, &arguments.collect::<Vec<_>>(), &before, &scratch::files());
}

fn in_folder<R>(folder: &Path, run: impl FnOnce() -> R) -> R {
    let before = env::current_dir().expect("a folder");
    env::set_current_dir(folder).expect("the folder for temporary files");
    let result = run();
    env::set_current_dir(before).expect("the folder before");
    result
}

/// What holds of every run: an exit code that has a meaning, and of one that did not do what it was asked, nothing
/// written.
fn check(code: u8, arguments: &[&str], before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>) {
    assert!(code <= 2, "exit code {code} of {arguments:?}");
    let writes = match *arguments.get(1).unwrap_or(&"") {
        "cast" | "bitcast" | "dequantize" | "quantize" | "transcode" | "fold" | "run" | "report" => true,
        "explain" => arguments.iter().any(|argument| argument.starts_with("--html")),
        _ => false,
    };
    if code != 0 || !writes || arguments.contains(&"--dry-run") {
        assert_eq!(after, before, "exit code {code} of {arguments:?}, which wrote something");
    }
    let temporary = after.keys().find(|path| path.to_string_lossy().contains(".onnx-cast-"));
    assert_eq!(temporary, None, "{arguments:?} leaves it");
}
