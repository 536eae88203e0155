//! Does docs/dev/dependencies.md list every crate that this project depends on, and do all that they bring build with the
//! oldest Rust that is promised? (Licences are cargo-deny's matter: deny.toml, which a workflow runs for every push.)

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

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
fn all_build_with_the_oldest_rust() {
    let metadata = metadata(&[]);
    let minor = |package: &Value| -> Option<u32> { text(package, "rust_version").split('.').nth(1)?.parse().ok() };
    let ours = packages(&metadata).iter().find(|package| text(package, "name") == "testkit").expect("this crate");
    let oldest = minor(ours).expect("a version");
    for package in packages(&metadata) {
        let needs = minor(package).unwrap_or_default();
        assert!(needs <= oldest, "`{}` needs Rust 1.{needs}, and 1.{oldest} is promised", text(package, "name"));
    }
}
