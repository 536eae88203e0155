//! `cargo xtask api`: the public names of the library crate, compared with a list in the tree, so that no change of them
//! goes unseen.

use public_api::Builder;
use serde_json::Value;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The list of the names, one item a line.
const LIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/onnx-cast/public-api.txt");
/// The version of rustdoc's JSON that `public-api` reads, and the compiler that writes it. Both move together.
const FORMAT: u64 = 57;
const COMPILER: &str = "1.95";

/// Compares the public names of onnx-cast with crates/onnx-cast/public-api.txt
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write the list
    #[arg(long)]
    update: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/public-api");
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["rustdoc", "--quiet", "--locked", "-p", "onnx-cast", "--lib", "--all-features", "--target-dir"])
        .arg(&target)
        .args(["--", "-Z", "unstable-options", "--output-format", "json"])
        // The format is not stable, and stable compilers write it only so.
        .env("RUSTC_BOOTSTRAP", "1")
        .status()?;
    if !status.success() {
        return Err(format!("rustdoc failed ({status})").into());
    }
    let file = target.join("doc/onnx_cast.json");
    let mut json: Value = serde_json::from_str(&fs::read_to_string(&file)?)?;
    if json["format_version"].as_u64() != Some(FORMAT) {
        println!("left out: the public names, which Rust {COMPILER} lists (this one writes another format)");
        return Ok(());
    }
    let prelude = take_prelude(&mut json).ok_or("rustdoc lists no module `prelude`")?;
    fs::write(&file, json.to_string())?;
    let api = Builder::from_rustdoc_json(file)
        .omit_auto_derived_impls(true)
        .omit_auto_trait_impls(true)
        .omit_blanket_impls(true)
        .build()?;
    let found: String = api.items().map(|item| format!("{item}\n")).chain(prelude).collect();
    if options.update {
        return Ok(fs::write(LIST, found)?);
    }
    let known = fs::read_to_string(LIST)?;
    for line in found.lines().filter(|line| !known.lines().any(|other| other == *line)) {
        println!("new: {line}");
    }
    for line in known.lines().filter(|line| !found.lines().any(|other| other == *line)) {
        println!("gone: {line}");
    }
    if found == known {
        return Ok(());
    }
    Err("the public names differ from crates/onnx-cast/public-api.txt: see docs/dev/compatibility.md, then run \
         `cargo xtask api --update`"
        .into())
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
