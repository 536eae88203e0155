//! Does docs/dev/unsafe.md list every file with `unsafe` in it, with as many as there are?

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What is counted, as it is written.
const BLOCK: &str = "unsafe {";
const FUNCTIONS: [&str; 3] = ["unsafe fn ", "unsafe extern \"C\" fn ", "unsafe extern \"system\" fn "];
const PROMISES: [&str; 2] = ["unsafe impl", "unsafe trait"];

/// Folders of code that users run; tests and examples are not.
const FOLDERS: [&str; 2] = ["crates", "bindings/python/src"];

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder that can be read").path();
        if path.is_dir() && !["tests", "benches", "examples", "target"].iter().any(|name| path.ends_with(name)) {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Blocks, functions, and traits with their implementations, without those in comments.
fn counts(code: &str) -> [usize; 3] {
    let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let count = |patterns: &[&str]| patterns.iter().map(|pattern| code.matches(pattern).count()).sum();
    [count(&[BLOCK]), count(&FUNCTIONS), count(&PROMISES)]
}

#[test]
fn the_list_of_unsafe_code_is_complete() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| rust_files(&root.join(folder), &mut files));
    let found: BTreeMap<String, [usize; 3]> = files
        .iter()
        .map(|path| {
            let code = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = path.strip_prefix(&root).expect("below the root").to_string_lossy().replace('\\', "/");
            (name, counts(&code))
        })
        .filter(|(_, counts)| *counts != [0; 3])
        .collect();

    let text = fs::read_to_string(root.join("docs/dev/unsafe.md")).expect("docs/dev/unsafe.md");
    let listed: BTreeMap<String, [usize; 3]> = text
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').map(str::trim).collect();
            let number = |at: usize| cells.get(at)?.parse().ok();
            Some((cells[0].trim_end_matches('`').to_owned(), [number(1)?, number(2)?, number(3)?]))
        })
        .collect();

    let rows = |map: &BTreeMap<String, [usize; 3]>| -> Vec<String> {
        map.iter()
            .map(|(name, [blocks, functions, promises])| format!("{name}: {blocks} {functions} {promises}"))
            .collect()
    };
    let (found, listed) = (rows(&found), rows(&listed));
    let missing: Vec<&String> = found.iter().filter(|row| !listed.contains(row)).collect();
    let stale: Vec<&String> = listed.iter().filter(|row| !found.contains(row)).collect();
    assert!(!found.is_empty(), "no file with unsafe code was found");
    assert!(missing.is_empty() && stale.is_empty(), "docs/dev/unsafe.md lacks {missing:#?}\nand has {stale:#?}");
}
