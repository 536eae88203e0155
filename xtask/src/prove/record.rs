//! What was proven, as a table to keep.

use super::Options;
use super::values::Compared;
use onnx_cast::Backend;
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

const HEAD: &str = "\
# Proofs on record

What `cargo xtask prove` found: the library compared bit for bit with the exact oracle in `crates/testkit`, with which
it shares no code. All 2^32 values of float, int32 and uint32 are walked; of double, int64 and uint64, random values
(half of them uniform bit patterns, half of a random scale) and values beside the points where a target's results
change. Each goes to all of the 25 numeric types, with every setting of `saturate`, `round_mode` and the version that
can make a difference. Float and double go to string and back. (Sources of 16 bits or fewer are walked whole by
`cargo test`.) A run ends at the first difference, so what is on record had none.
";

/// A whole run.
pub(super) struct Record {
    pub(super) rows: Vec<Row>,
    pub(super) seconds: f64,
    /// The commit that the working tree was at when it began, if it was at one.
    commit: Option<String>,
}

/// What was compared of one source on one backend.
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
    /// A run that begins now.
    pub(super) fn new() -> Self {
        Record { rows: Vec::new(), seconds: 0.0, commit: commit() }
    }

    /// Appends the run to a file, which gets a heading if it is new.
    pub(super) fn append(&self, path: &Path, options: &Options) -> io::Result<()> {
        let is_new = !path.exists();
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if is_new {
            file.write_all(HEAD.as_bytes())?;
        }
        // The file's own name on this machine is nobody's business.
        let mut arguments = options.arguments.clone();
        if let Some(at) = arguments.iter().position(|argument| argument == "--record") {
            arguments.drain(at..at + 2);
        }
        let names: Vec<&str> = options.backends.iter().map(|backend| backend.name()).collect();
        let (date, names) = (date(), names.join(" and "));
        let command = format!("cargo xtask prove {}", arguments.join(" "));
        let seconds = self.seconds;
        write!(
            file,
            "\n## {date}, {names}\n\n`{}`, {} threads, {:.0} minutes, on {}{}.\n\n{self}\n",
            command.trim_end(),
            options.threads,
            (seconds / 60.0).ceil(),
            processor(),
            self.commit.as_ref().map_or(String::new(), |commit| format!("; at commit {commit}")),
        )
    }
}

/// Today in UTC, as year-month-day.
fn date() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date_of_day(seconds / 86_400)
}

/// The date so many days after 1970-01-01.
fn date_of_day(mut days: u64) -> String {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

/// The processor, as Linux names it.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned())
    };
    let family = field("cpu family").zip(field("model"));
    let family = family.map_or(String::new(), |(family, model)| format!(" (family {family}, model {model})"));
    let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    format!("{name}{family}")
}

/// The commit that the working tree is at, if it is one.
fn commit() -> Option<String> {
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?;
    Some(commit.trim().to_owned()).filter(|commit| !commit.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (day, want) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_777, "2026-11-20"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(date_of_day(day), want, "{day}");
        }
    }
}
