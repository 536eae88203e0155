//! Is any source file or function longer than the rules of the project allow?

use std::fs;
use std::path::{Path, PathBuf};
use testkit::sizes::{Function, functions, without_tests};

/// The most lines of a source file, unit tests at its end left out.
const FILE: usize = 450;

/// The most lines of a function.
const FUNCTION: usize = 60;

/// Files that are still longer.
const LONG_FILES: [&str; 0] = [];

/// Functions that are still longer, each with its file.
const LONG_FUNCTIONS: [(&str, &str); 0] = [];

/// Every source file of the project's own crates, by its path from the root, with its text.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders: Vec<PathBuf> = ["bindings/python/src", "fuzz/targets/src", "xtask/src"].map(Into::into).to_vec();
    for entry in fs::read_dir(root.join("crates")).expect("the folder of the crates") {
        folders.push(Path::new("crates").join(entry.expect("an entry").file_name()).join("src"));
    }
    let mut found = Vec::new();
    folders.iter().for_each(|folder| read_folder(&root, folder, &mut found));
    found.sort();
    found
}

fn read_folder(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(root.join(folder)).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("an entry");
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            read_folder(root, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(entry.path()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            found.push((path.to_string_lossy().replace('\\', "/"), text));
        }
    }
}

/// A file of unit tests alone.
fn is_tests(name: &str) -> bool {
    name.ends_with("/tests.rs")
}

#[test]
fn files_and_functions_are_short() {
    let sources = sources();
    assert!(sources.len() > 300, "{} files", sources.len());
    let (mut wrong, mut long_files, mut long_functions) = (Vec::new(), Vec::new(), Vec::new());
    for (name, text) in sources.iter().filter(|(name, _)| !is_tests(name)) {
        let lines = without_tests(text).lines().count();
        if lines > FILE {
            long_files.push(name.as_str());
            if !LONG_FILES.contains(&name.as_str()) {
                wrong.push(format!("{name}: {lines} lines (at most {FILE})"));
            }
        }
        for Function { name: function, line, lines } in functions(text) {
            if lines > FUNCTION {
                if !LONG_FUNCTIONS.contains(&(name.as_str(), &function)) {
                    wrong.push(format!("{name}:{line}: `{function}` has {lines} lines (at most {FUNCTION})"));
                }
                long_functions.push((name.as_str(), function));
            }
        }
    }
    for file in LONG_FILES.iter().filter(|file| !long_files.contains(file)) {
        wrong.push(format!("{file} is short now: take it out of LONG_FILES"));
    }
    for (file, function) in LONG_FUNCTIONS {
        if !long_functions.iter().any(|(name, known)| *name == file && known == function) {
            wrong.push(format!("`{function}` of {file} is short now: take it out of LONG_FUNCTIONS"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn functions_are_found_with_their_lines() {
    let text = "fn declared();\n\
                // fn commented() {\n\
                fn short(f: fn(u8) -> u8, x: [u8; 2]) { \"}\"; }\n\
                impl A {\n    fn outer(\n        &self,\n    ) {\n        fn inner() {\n        }\n    }\n}\n\
                macro_rules! m {\n    ($name:ident) => {\n        fn $name() {\n        }\n    };\n}\n";
    let found: Vec<(String, usize, usize)> =
        functions(text).into_iter().map(|function| (function.name, function.line, function.lines)).collect();
    let want = [("short", 3, 1), ("outer", 5, 6), ("inner", 8, 2), ("name", 14, 2)];
    assert_eq!(found, want.map(|(name, line, lines)| (name.to_owned(), line, lines)));
}

#[test]
fn unit_tests_at_the_end_are_left_out() {
    let code = "fn a() {}\n#[cfg(test)]\nmod elsewhere;\n#[cfg(test)]\nuse b::c;\n";
    assert_eq!(without_tests(code), code);
    let text = format!("{code}#[cfg(test)]\npub(crate) mod tests {{\n}}\n");
    assert_eq!(without_tests(&text), code);
}
