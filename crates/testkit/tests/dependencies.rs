//! Does docs/dev/dependencies.md list every crate that this project depends on, may all that they bring be used and
//! shipped, and do they build with the oldest Rust that is promised?

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Licences that ask for no more than to be named.
const PERMISSIVE: [&str; 10] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "0BSD",
    "Zlib",
    "Unicode-3.0",
    "Unlicense",
];

/// Crates of another licence, nothing of which is in what is built or shipped: they only run in tests.
const TOOLS: [(&str, &str); 1] = [("cbindgen", "MPL-2.0")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What cargo says of a workspace: the packages, those of other systems left out.
fn metadata(arguments: &[&str]) -> Value {
    let rustc = Command::new("rustc").arg("-vV").output().expect("rustc");
    let version = String::from_utf8(rustc.stdout).expect("text");
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", host])
        .arg("--manifest-path")
        .arg(root().join("Cargo.toml"))
        .args(arguments)
        .output()
        .expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().expect("packages")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Whether every part of one of the alternatives is permissive.
fn is_permissive(licence: &str) -> bool {
    let bare = licence.replace(['(', ')'], "").replace('/', " OR ");
    if licence.contains(") AND ") {
        return licence.split(" AND ").all(is_permissive);
    }
    bare.split(" OR ").any(|choice| choice.split(" AND ").all(|part| PERMISSIVE.contains(&part.trim())))
}

/// A crate that members of a workspace depend on.
#[derive(Default)]
struct Direct {
    members: BTreeSet<String>,
    tests: BTreeSet<String>,
}

/// The crates of others that the members name in their manifests.
fn direct() -> BTreeMap<String, Direct> {
    let mut found: BTreeMap<String, Direct> = BTreeMap::new();
    for member in packages(&metadata(&["--no-deps"])) {
        let dependencies = member["dependencies"].as_array().expect("dependencies");
        for dependency in dependencies.iter().filter(|dependency| dependency["path"].is_null()) {
            let users = found.entry(text(dependency, "name").to_owned()).or_default();
            let users = if text(dependency, "kind") == "dev" { &mut users.tests } else { &mut users.members };
            users.insert(text(member, "name").to_owned());
        }
    }
    found
}

#[test]
fn the_list_of_dependencies_is_complete() {
    let metadata = metadata(&[]);
    let licences: BTreeMap<&str, &str> =
        packages(&metadata).iter().map(|package| (text(package, "name"), text(package, "license"))).collect();
    let document = std::fs::read_to_string(root().join("docs/dev/dependencies.md")).expect("docs/dev/dependencies.md");
    let mut listed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in document.lines().filter_map(|line| line.strip_prefix("| `")) {
        let cells: Vec<&str> = line.trim_end_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "crate, members, tests, licence, reason: {line}");
        assert!(!cells[4].is_empty(), "no reason: {line}");
        listed.insert(cells[0].trim_end_matches('`'), cells);
    }
    let names = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    let found = direct();
    for (name, users) in &found {
        let row = listed.remove(name.as_str()).unwrap_or_else(|| panic!("docs/dev/dependencies.md lacks `{name}`"));
        assert_eq!((row[1], row[2]), (&*names(&users.members), &*names(&users.tests)), "who uses `{name}`");
        // What only the Python package has is fetched with it.
        if let Some(licence) = licences.get(name.as_str()) {
            assert_eq!(row[3], *licence, "the licence of `{name}`");
        }
    }
    assert!(!found.is_empty() && listed.is_empty(), "docs/dev/dependencies.md has {:?} too", listed.keys());
}

#[test]
fn all_may_be_used_and_build_with_the_oldest_rust() {
    let metadata = metadata(&[]);
    let minor = |version: &str| -> u32 {
        let mut parts = version.split('.').map(|part| part.parse::<u32>().expect("a number"));
        assert_eq!(parts.next(), Some(1), "{version}");
        parts.next().expect("a minor version")
    };
    let ours = packages(&metadata).iter().find(|package| text(package, "name") == "testkit").expect("this crate");
    let oldest = minor(text(ours, "rust_version"));
    for package in packages(&metadata) {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        assert!(is_permissive(licence) || TOOLS.contains(&(name, licence)), "`{name}` is under `{licence}`");
        if let Some(needs) = package["rust_version"].as_str() {
            assert!(minor(needs) <= oldest, "`{name}` needs Rust {needs}, and 1.{oldest} is promised");
        }
    }
}

#[test]
fn licences_are_read() {
    for good in
        ["MIT", "MIT/GPL-3.0", "GPL-2.0 OR Zlib", "(MIT OR GPL-3.0) AND Unicode-3.0", "Apache-2.0 WITH LLVM-exception"]
    {
        assert!(is_permissive(good), "{good}");
    }
    for bad in ["", "GPL-3.0", "MPL-2.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0"] {
        assert!(!is_permissive(bad), "{bad}");
    }
}
