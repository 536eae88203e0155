//! The results of a run, as a Markdown table to keep.

use super::Options;
use super::values::Compared;
use crate::provenance::{commit, date, processor};
use onnx_cast::backend::Backend;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

const HEAD: &str = "\
# Recorded proofs

Each section is one run of `cargo xtask prove`. It compares the library bit for bit with the exact oracle in
`crates/testkit`, with which it shares no code. It tests all 2^32 values of float, int32 and uint32. For double, int64
and uint64 it tests random values (half of them uniform bit patterns, half at a random scale) and the neighbours of
values where a target's result changes. Each source is cast to all numeric types, with every setting of `saturate`,
`round_mode` and the version that can make a difference. Float and double are also converted to strings and back.
(`cargo test` covers every value of the sources of 16 bits or fewer.) A run stops at the first difference and is then
not recorded, so no recorded run found one.
";

/// The results of one run.
pub(super) struct Record {
    pub(super) rows: Vec<Row>,
    pub(super) seconds: f64,
    /// The commit that was checked out at the start, if any.
    commit: Option<String>,
}

/// The comparisons of one source on one backend.
pub(super) struct Row {
    source: &'static str,
    backend: Backend,
    casts: u64,
    compared: Compared,
    pub(super) seconds: f64,
}

impl Row {
    pub(super) fn new(source: &'static str, backend: Backend) -> Self {
        Row { source, backend, casts: 0, compared: Compared::default(), seconds: 0.0 }
    }

    pub(super) fn add(&mut self, compared: &Compared) {
        self.casts += 1;
        self.compared.walked += compared.walked;
        self.compared.random += compared.random;
        self.compared.near_ties += compared.near_ties;
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| backend | from | casts | every value | random | near ties | differences | seconds |")?;
        writeln!(f, "|---|---|---:|---:|---:|---:|---:|---:|")?;
        for Row { source, backend, casts, compared: Compared { walked, random, near_ties }, seconds } in &self.rows {
            let name = backend.name();
            writeln!(f, "| {name} | {source} | {casts} | {walked} | {random} | {near_ties} | 0 | {seconds:.0} |")?;
        }
        let total = |count: fn(&Compared) -> u64| self.rows.iter().map(|row| count(&row.compared)).sum::<u64>();
        let casts: u64 = self.rows.iter().map(|row| row.casts).sum();
        let (walked, random, near_ties) = (total(|c| c.walked), total(|c| c.random), total(|c| c.near_ties));
        write!(f, "| all | | {casts} | {walked} | {random} | {near_ties} | 0 | {:.0} |", self.seconds)
    }
}

impl Record {
    /// A run that starts now.
    pub(super) fn new() -> Self {
        Record { rows: Vec::new(), seconds: 0.0, commit: commit() }
    }

    /// Appends the run to a file. A new file gets the heading first.
    pub(super) fn append(&self, path: &Path, options: &Options) -> io::Result<()> {
        let is_new = !path.exists();
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if is_new {
            file.write_all(HEAD.as_bytes())?;
        }
        let names: Vec<&str> = options.backends.iter().map(|backend| backend.name()).collect();
        let (date, names) = (date(), names.join(" and "));
        let seconds = self.seconds;
        write!(
            file,
            "\n## {date}, {names}\n\n`{}`, {} threads, {:.0} minutes, on {}{}.\n\n{self}\n",
            options.command,
            options.threads,
            (seconds / 60.0).ceil(),
            processor(),
            self.commit.as_ref().map_or(String::new(), |commit| format!("; at commit {commit}")),
        )
    }
}
