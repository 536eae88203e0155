//! Is a path printed only through `onnx_cast_file::engine::PathText`, which escapes what would move the cursor?

use std::fs;
use std::path::{Path, PathBuf};

/// The source files below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_path_is_displayed_as_it_is() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for part in ["onnx-cast-file", "onnx-cast-model", "onnx-cast-report", "onnx-cast-cli"] {
        sources(&root.join("crates").join(part).join("src"), &mut files);
    }
    sources(&root.join("bindings/python/src"), &mut files);
    assert!(files.len() > 100, "{} files", files.len());
    let mut found = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // Unit tests print what they like.
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let lines = code.lines().enumerate().filter(|(_, line)| line.contains(".display()"));
        found.extend(lines.map(|(index, _)| format!("{}:{}", path.display(), index + 1)));
    }
    assert!(found.is_empty(), "want `PathText(path)` at {found:?}");
}
