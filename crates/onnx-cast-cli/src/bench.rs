//! `bench`: how fast each pair of types is cast or quantized, beside memcpy of as many bytes in the same run.
//!
//! Both are counted in bytes read and written a second, so a pair at ratio 1 moves its bytes as fast as memcpy moves as
//! many. A result is compared with the scalar cast before it is timed.

mod buffer;
mod cache;
mod measure;
mod scaled;

use crate::args::{BenchArgs, Common, LIST};
use crate::pairs::Op;
use crate::print;
use anyhow::{Result, anyhow, bail};
use measure::{Bench, Speed};
use onnx_cast::{Backend, DataType, available_backends};
use onnx_cast_file::Granularity;
use serde_json::{Value as Json, json};

/// A pair and how fast it is.
struct Row {
    from: DataType,
    to: DataType,
    /// Of a scaled cast.
    scales: Option<(Op, Granularity)>,
    speed: Speed,
}

impl Row {
    /// Whether all elements fit a cache: memcpy's copy of as many bytes then partly stays there, which a cast with
    /// non-temporal stores does not.
    fn fits(&self, cache: Option<u64>) -> Option<bool> {
        Some(self.speed.moved as u64 <= cache?)
    }

    /// What tells rows of one pair apart.
    fn suffix(&self) -> String {
        self.scales.map_or(String::new(), |(_, granularity)| format!(" by {granularity}"))
    }

    fn line(&self) -> String {
        let scales = self.scales.map_or(String::new(), |(_, granularity)| format!("{:7} ", granularity.to_string()));
        let (Row { from, to, .. }, Speed { cast, memcpy, .. }) = (self, self.speed);
        format!("{:14}  {:14} {scales}{cast:7.1} {memcpy:7.1} {:6.2}\n", from.name(), to.name(), self.speed.ratio())
    }

    fn json(&self, elements: usize, threads: usize, backend: Backend, cache: Option<u64>) -> Json {
        let mut row = json!({
            "from": self.from.name(),
            "to": self.to.name(),
            "elements": elements,
            "threads": threads,
            "isa": backend.name(),
            "gb_per_s": self.speed.cast,
            "memcpy_gb_per_s": self.speed.memcpy,
            "ratio": self.speed.ratio(),
            "fits_last_cache": self.fits(cache),
        });
        if let Some((op, granularity)) = self.scales {
            row["op"] = json!(op.name());
            row["granularity"] = json!(granularity.to_string());
        }
        row
    }
}

pub(crate) fn bench(args: &BenchArgs, common: &Common) -> Result<()> {
    let backend = match args.isa.as_deref() {
        Some(LIST) => return list(common.json),
        Some(name) => Backend::by_name(name).map_err(|error| anyhow!("{error} (this machine has {})", names()))?,
        None => Backend::best(),
    };
    let (elements, threads) = (args.elements, common.threads.unwrap_or(1));
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    if threads > most {
        bail!("{threads} threads: this machine runs {most} at a time");
    }
    if args.op == Op::Cast && !args.granularity.is_empty() {
        bail!("--granularity needs --op quantize or --op dequantize");
    }
    const GRANULARITIES: [Granularity; 3] = [Granularity::Tensor, Granularity::Row, Granularity::Block([1, 32])];
    let granularities: Vec<Option<(Op, Granularity)>> = match (args.op, &args.granularity[..]) {
        (Op::Cast, _) => vec![None],
        (op, []) => GRANULARITIES.iter().map(|&granularity| Some((op, granularity))).collect(),
        (op, named) => named.iter().map(|&granularity| Some((op, granularity))).collect(),
    };
    let mut rows = Vec::new();
    let mut bench = Bench::new(backend, elements, threads);
    let pairs = args.pairs.clone().unwrap_or_default();
    for (from, to) in pairs.of(args.op) {
        for &scales in &granularities {
            let row = Row { from, to, scales, speed: bench.pair(from, to, scales)? };
            if !common.json {
                if rows.is_empty() {
                    print(&heading(elements, threads, backend, scales.is_some()))?;
                }
                print(&row.line())?;
            }
            rows.push(row);
        }
    }
    let mean = geometric_mean(&rows);
    let cache = cache::last_cache_bytes();
    if common.json {
        let pairs: Vec<Json> = rows.iter().map(|row| row.json(elements, threads, backend, cache)).collect();
        let all = json!({ "pairs": pairs, "geometric_mean": mean, "last_cache_bytes": cache });
        return Ok(print(&crate::pretty(&all)?)?);
    }
    let slowest = rows.iter().min_by(|a, b| a.speed.ratio().total_cmp(&b.speed.ratio()));
    let Some(row @ Row { from, to, speed, .. }) = slowest else { bail!("no pair to measure") };
    let count = rows.len();
    print(&format!(
        "{count} {}{}: geometric mean {mean:.3}, lowest {:.2} ({from} -> {to}{})\n",
        if args.op == Op::Cast { "pair" } else { "row" },
        plural(count),
        speed.ratio(),
        row.suffix()
    ))?;
    Ok(print(&fitting(&rows, cache))?)
}

/// Which pairs fit the last cache, as a line; by their number where they are many.
fn fitting(rows: &[Row], cache: Option<u64>) -> String {
    const MOST_NAMES: usize = 20;
    let Some(bytes) = cache else { return String::new() };
    let fitting = rows.iter().filter(|row| row.fits(cache) == Some(true));
    let names: Vec<String> = fitting.map(|row| format!("{}:{}{}", row.from, row.to, row.suffix())).collect();
    let which = match names.len() {
        0 => "no pair".to_owned(),
        count if count == rows.len() => "every pair".to_owned(),
        count if count > MOST_NAMES => format!("{count} pairs"),
        _ => names.join(", "),
    };
    format!("fit the last cache ({} MiB), where memcpy's copy partly stays: {which}\n", bytes >> 20)
}

fn heading(elements: usize, threads: usize, backend: Backend, has_scales: bool) -> String {
    let scales = if has_scales { "scales  " } else { "" };
    format!(
        "{elements} element{}, {threads} thread{}, {}; GB/s count bytes read and written\n\
         {:14}  {:14} {scales}{:>7} {:>7} {:>6}\n",
        plural(elements),
        plural(threads),
        backend.name(),
        "from",
        "to",
        "GB/s",
        "memcpy",
        "ratio",
    )
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn geometric_mean(rows: &[Row]) -> f64 {
    let sum: f64 = rows.iter().map(|row| row.speed.ratio().ln()).sum();
    (sum / rows.len().max(1) as f64).exp()
}

fn names() -> String {
    available_backends().map(|backend| backend.name()).collect::<Vec<_>>().join(", ")
}

/// The backends of this machine, best first.
fn list(as_json: bool) -> Result<()> {
    let names: Vec<&str> = available_backends().map(|backend| backend.name()).collect();
    let text = if as_json {
        crate::pretty(&json!({ "isa": names, "best": Backend::best().name() }))?
    } else {
        let mark = |name: &str| if name == Backend::best().name() { "  (used unless another is named)" } else { "" };
        names.iter().map(|name| format!("{name}{}\n", mark(name))).collect()
    };
    Ok(print(&text)?)
}
