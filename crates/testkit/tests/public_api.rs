//! Are the public names of the library those of `crates/onnx-cast/public-api.txt`, so that no change of them goes unseen?
//! With `UPDATE_API=1` the list is written.

use public_api::Builder;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../onnx-cast/public-api.txt");
/// The version of rustdoc's JSON that `public-api` reads, and the compiler that writes it. Both move together.
const FORMAT: u64 = 57;
const COMPILER: &str = "1.95";

#[test]
#[ignore = "it documents the library and what that depends on: a stage of its own"]
fn the_public_names_are_listed() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/public-api");
    let status = Command::new(env!("CARGO"))
        .args(["rustdoc", "--quiet", "--locked", "-p", "onnx-cast", "--lib", "--all-features", "--target-dir"])
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        // The format is not stable, and stable compilers write it only so.
        .env("RUSTC_BOOTSTRAP", "1")
        .status();
    assert!(status.expect("cargo").success(), "rustdoc failed");
    let file = target.join("doc/onnx_cast.json");
    let mut json: Value = serde_json::from_str(&fs::read_to_string(&file).expect("rustdoc's file")).expect("JSON");
    if json["format_version"].as_u64() != Some(FORMAT) {
        // The test run counts such a line, which the test's name must not precede.
        println!("\nleft out: the public names, which Rust {COMPILER} lists (this one writes another format)");
        return;
    }
    let prelude = take_prelude(&mut json).expect("a module `prelude`");
    fs::write(&file, json.to_string()).expect("rustdoc's file, written");
    let api = Builder::from_rustdoc_json(file)
        .omit_auto_derived_impls(true)
        .omit_auto_trait_impls(true)
        .omit_blanket_impls(true)
        .build()
        .expect("the public names");
    let found: String = api.items().map(|item| format!("{item}\n")).chain(prelude).collect();
    if env::var_os("UPDATE_API").is_some() {
        return fs::write(LIST, found).expect("the list, written");
    }
    let known = fs::read_to_string(LIST).expect("the list");
    let only = |one: &str, other: &str| -> Vec<String> {
        one.lines().filter(|line| !other.lines().any(|known| known == *line)).map(str::to_owned).collect()
    };
    let (new, gone) = (only(&found, &known), only(&known, &found));
    assert!(
        found == known,
        "new: {new:#?}\ngone: {gone:#?}\nsee docs/dev/compatibility.md, then run `bash scripts/update.sh`"
    );
}

/// Takes the module `prelude` out of the crate, and gives a line for each of its names. Its items would otherwise be
/// listed a second time, with all their methods.
fn take_prelude(json: &mut Value) -> Option<Vec<String>> {
    let name_of = |json: &Value, id: &Value| Some(json["index"][id.to_string()]["name"].as_str()?.to_owned());
    let root = json["root"].to_string();
    let modules = json["index"][&root]["inner"]["module"]["items"].as_array()?.clone();
    let (taken, kept): (Vec<_>, Vec<_>) =
        modules.into_iter().partition(|id| name_of(json, id).is_some_and(|name| name == "prelude"));
    let [prelude] = &taken[..] else { return None };
    let names = json["index"][prelude.to_string()]["inner"]["module"]["items"].as_array()?;
    let names = names.iter().map(|id| json["index"][id.to_string()]["inner"]["use"]["name"].as_str());
    let mut names =
        names.map(|name| Some(format!("pub use onnx_cast::prelude::{}\n", name?))).collect::<Option<Vec<_>>>()?;
    names.sort();
    json["index"][&root]["inner"]["module"]["items"] = kept.into();
    Some(names)
}
