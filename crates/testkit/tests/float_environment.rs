//! Does every public function of the crates above the library run in the default float environment? Each begins with a
//! guard, or is listed here.

use regex_lite::Regex;
use std::fs;
use std::path::{Path, PathBuf};

const GUARD: &str = "let _environment = DefaultEnvironment::enter();";

const CRATES: [&str; 4] = ["onnx-cast-file", "onnx-cast-model", "onnx-cast-report", "onnx-cast-explain"];

/// Functions without numbers: they compare names, look at paths and processes, or arrange text.
const WITHOUT_NUMBERS: [&str; 10] = [
    "admits",
    "check_names",
    "nearest",
    "end_without_traces",
    "room_for_a_thread",
    "is_model",
    "column",
    "printable",
    "shape",
    "size",
];

/// The functions that a crate's root exports, from the text of `lib.rs`.
fn exported(root: &str) -> Vec<String> {
    // What the crates of this project share, in hidden modules, is called by the functions that are exported.
    let root = root.split("#[doc(hidden)]").next().unwrap_or_default();
    let import = Regex::new(r"pub use ([^;]+);").expect("a pattern");
    let name = Regex::new(r"\b([a-z][a-z_0-9]*)(?: as \w+)?(?:[,}\s]|$)").expect("a pattern");
    let paths = import.captures_iter(root).map(|import| import[1].rsplit("::").next().unwrap_or_default().to_owned());
    paths.flat_map(|path| name.captures_iter(&path).map(|name| name[1].to_owned()).collect::<Vec<_>>()).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn public_functions_begin_with_a_guard() {
    let mut guarded = 0;
    for name in CRATES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
        let mut files = Vec::new();
        sources(&folder, &mut files);
        let texts: Vec<String> = files.iter().map(|path| fs::read_to_string(path).expect("text")).collect();
        let functions = exported(&fs::read_to_string(folder.join("lib.rs")).expect("text"));
        for function in functions.iter().filter(|function| !WITHOUT_NUMBERS.contains(&function.as_str())) {
            let head =
                Regex::new(&format!(r"(?m)^pub fn {function}\b(?:[^{{]|\{{[^\n])*\{{\n\s*(.*)$")).expect("a pattern");
            for first in texts.iter().filter_map(|text| head.captures(text)) {
                assert_eq!(&first[1], GUARD, "{name}: `{function}` runs in the caller's float environment");
                guarded += 1;
            }
        }
    }
    assert!(guarded > 60, "{guarded} functions: the sources have another form");
}
