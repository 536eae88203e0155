//! The targets without a fuzzer: every input of the corpus, and a number of mutations of them, the same in every run.
//! It finds what a change broke that the corpus, which a fuzzer made, reaches; a fuzzer finds more.
//!
//! `cargo test -p fuzz-targets -- [--runs N] [TARGET | FILE ...]`: N mutations for each target whose name has this in
//! it, or each file once. An input that fails is kept in `fuzz/artifacts/`.

use fuzz_targets::{TARGETS, Target};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::panic;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use testkit::generators::Rng;

/// Mutations of a target.
const RUNS: u64 = 4000;

/// A mutation is no longer than this.
const MOST_BYTES: usize = 4096;

/// Words of the formats, and numbers at the edges of their fields.
const WORDS: [&[u8]; 16] = [
    b"\0\0\0\0\0\0\0\0",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x10",
    b"{\"",
    b"[0,0]",
    b"'descr'",
    b"True",
    b"1e308",
    b"-inf",
    b"nan",
    b"=keep\n",
    b"re:(",
    b"--to\n",
    b"float8e4m3fn",
    b"\n",
];

/// The folder `fuzz`.
fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The inputs of a target with their names, in the order of its archive, which `fuzz/archive.py` packs.
fn unpacked(path: &Path) -> zip::result::ZipResult<Vec<(String, Vec<u8>)>> {
    let mut archive = zip::ZipArchive::new(std::io::Cursor::new(fs::read(path)?))?;
    let mut inputs = Vec::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes)?;
        inputs.push((entry.name()?.into_owned(), bytes));
    }
    Ok(inputs)
}

/// The inputs of a target. Each must be there once: a disk that was full once left many that were all empty.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let path = fuzz().join("corpus").join(target).with_extension("zip");
    let inputs = unpacked(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(!inputs.is_empty(), "{}: no inputs", path.display());
    let mut names = BTreeMap::new();
    for (name, bytes) in &inputs {
        if let Some(other) = names.insert(bytes, name) {
            panic!("{}: {name} is {other} again", path.display());
        }
    }
    inputs.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Another input from one of the corpus, or from two.
fn mutated(inputs: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = inputs[rng.below(inputs.len() as u64) as usize].clone();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() as u64 + 1) as usize;
        let len = (rng.below(16) as usize).min(bytes.len() - at);
        match rng.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = rng.next_u64() as u8,
            2 => drop(bytes.drain(at..at + len)),
            3 => drop(bytes.splice(at..at + len, rng.next_u64().to_le_bytes())),
            4 => drop(bytes.splice(at..at, bytes[at..at + len].to_vec())),
            5 => drop(bytes.splice(at..at, WORDS[rng.below(WORDS.len() as u64) as usize].iter().copied())),
            _ => {
                let other = &inputs[rng.below(inputs.len() as u64) as usize];
                let from = rng.below(other.len() as u64 + 1) as usize;
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes.truncate(MOST_BYTES);
    bytes
}

/// Whether a target holds on an input. One that it does not hold on is kept.
fn holds(name: &str, target: Target, input: &[u8]) -> bool {
    if panic::catch_unwind(|| target(input)).is_ok() {
        return true;
    }
    let folder = fuzz().join("artifacts").join(name);
    let path = folder.join("replay");
    fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)).expect("the input is kept");
    eprintln!("{name}: fails on {}", path.display());
    false
}

/// Runs a target on its corpus and on mutations.
fn replay(name: &str, target: Target, runs: u64) -> bool {
    let start = Instant::now();
    let inputs = corpus(name);
    // A name tells the seed, so that no target's numbers depend on the others.
    let mut rng = Rng::new(name.bytes().fold(0, |seed, byte| seed * 31 + u64::from(byte)));
    let ok = inputs.iter().all(|input| holds(name, target, input))
        && (0..runs).all(|_| holds(name, target, &mutated(&inputs, &mut rng)));
    let (count, time) = (inputs.len(), start.elapsed().as_secs_f64());
    println!("{name:14} {count:5} of the corpus, {runs} mutations, {time:.1} s{}", if ok { "" } else { ": FAILED" });
    ok
}

/// Whether every target has a corpus, by which `scripts/proofs/fuzz.py` knows it, and no other has.
fn check_list() {
    let folder = fuzz().join("corpus");
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let stem = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").path().with_extension("");
    let mut kept: Vec<PathBuf> = entries.map(stem).collect();
    kept.sort();
    let listed: Vec<PathBuf> = TARGETS.iter().map(|(name, _)| folder.join(name)).collect();
    assert!(cfg!(not(unix)) || kept == listed, "in fuzz/corpus {kept:?}, listed {listed:?}");
}

/// The file of that path, which may be one from the top of the repository: cargo runs this in the folder of the crate.
fn found(path: &str) -> Option<PathBuf> {
    let top = fuzz().join("..");
    [PathBuf::from(path), top.join(path)].into_iter().find(|path| path.is_file())
}

fn main() -> ExitCode {
    check_list();
    let mut runs = RUNS;
    let (mut names, mut files) = (Vec::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--runs" {
            runs = arguments.next().and_then(|number| number.parse().ok()).expect("--runs N");
        } else if let Some(path) = found(&argument) {
            files.push(fs::read(path).expect("an input"));
        } else if !argument.starts_with('-') {
            names.push(argument);
        }
        // Options of the usual harness, which others of the workspace's tests have, mean nothing here.
    }
    let meant = |name: &str| names.is_empty() || names.iter().any(|part| name.contains(part));
    let mut ok = true;
    for (name, target) in TARGETS.iter().filter(|(name, _)| meant(name)) {
        ok &= match &files[..] {
            [] => replay(name, *target, runs),
            files => files.iter().all(|file| holds(name, *target, file)),
        };
    }
    fuzz_targets::remove_folder();
    if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
