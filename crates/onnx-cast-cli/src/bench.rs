//! `bench`: how fast each pair of types is cast or quantized, beside memcpy of as many bytes in the same run.
//!
//! Both are counted in bytes read and written a second, so a pair at ratio 1 moves its bytes as fast as memcpy moves as
//! many. A result is compared with the scalar cast before it is timed.

mod buffer;
mod cache;
mod measure;
mod scaled;

use crate::args::{BenchArgs, Common, ELEMENTS, LIST};
use crate::pairs::{Op, Pair};
use crate::print;
use anyhow::{Result, anyhow, bail};
use measure::{Bench, Speed};
use onnx_cast::backend::{self, Algorithm, Backend};
use onnx_cast_file::Granularity;
use serde_json::{Value as Json, json};

/// A pair and how fast it is.
struct Row {
    pair: Pair,
    speed: Speed,
}

impl Row {
    /// Whether all elements fit a cache: memcpy's copy of as many bytes then partly stays there, which a cast with
    /// non-temporal stores does not.
    fn fits(&self, cache: Option<u64>) -> Option<bool> {
        Some(self.speed.moved as u64 <= cache?)
    }

    /// The algorithm of a cast without scales.
    fn algorithm(&self, backend: Backend) -> Option<Algorithm> {
        if self.pair.scales.is_some() { None } else { backend.algorithm(self.pair.from, self.pair.to) }
    }

    fn line(&self, width: usize, backend: Backend) -> String {
        let ([from, to], Speed { cast, memcpy, .. }) = (self.pair.names(), self.speed);
        let algorithm = self.algorithm(backend).map_or_else(String::new, |algorithm| format!("  {algorithm}"));
        format!("{from:width$}  {to:width$} {cast:7.1} {memcpy:7.1} {:6.2}{algorithm}\n", self.speed.ratio())
    }

    fn json(&self, elements: usize, threads: usize, backend: Backend, cache: Option<u64>) -> Json {
        let mut row = json!({
            "from": self.pair.from.name(),
            "to": self.pair.to.name(),
            "elements": elements,
            "threads": threads,
            "isa": backend.name(),
            "gb_per_s": self.speed.cast,
            "memcpy_gb_per_s": self.speed.memcpy,
            "ratio": self.speed.ratio(),
            "fits_last_cache": self.fits(cache),
        });
        if let Some(algorithm) = self.algorithm(backend) {
            row["algorithm"] = json!(algorithm.to_string());
        }
        if let Some((op, granularity)) = self.pair.scales {
            row["op"] = json!(op.name());
            row["granularity"] = json!(granularity.to_string());
        }
        row
    }
}

/// The pairs to measure, each with what has a scale.
fn rows_of(args: &BenchArgs) -> Result<Vec<Pair>> {
    const GRANULARITIES: [Granularity; 3] = [Granularity::Tensor, Granularity::Row, Granularity::Block([1, 32])];
    let named = args.pairs.clone().unwrap_or_default();
    let op = args.op.unwrap_or_default();
    let granularities = if args.granularity.is_empty() { &GRANULARITIES[..] } else { &args.granularity };
    let (mut rows, mut is_used) = (Vec::new(), false);
    for pair in named.of(op) {
        match (pair.scales, op) {
            (Some((of, _)), op) if args.op.is_some() && of != op => {
                bail!("{}: it is for --op {}", pair.names().join(":"), of.name());
            }
            (Some(_), _) | (None, Op::Cast) => rows.push(pair),
            (None, op) => {
                is_used = true;
                rows.extend(granularities.iter().map(|&scales| Pair { scales: Some((op, scales)), ..pair }));
            }
        }
    }
    if !is_used && !args.granularity.is_empty() {
        bail!("--granularity needs --op quantize or --op dequantize, and pairs without a granularity of their own");
    }
    Ok(rows)
}

pub(crate) fn bench(args: &BenchArgs, common: &Common) -> Result<()> {
    let backend = match args.isa.as_deref() {
        Some(LIST) => return list(args, common.json),
        Some(name) => Backend::by_name(name).map_err(|error| anyhow!("{error} (this machine has {})", names()))?,
        None => Backend::best(),
    };
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let (elements, threads) = (args.elements.unwrap_or(ELEMENTS), common.threads.unwrap_or(1).min(most));
    let mut rows: Vec<Row> = Vec::new();
    let mut bench = Bench::new(backend, elements, threads);
    let pairs = rows_of(args)?;
    // Of a scaled cast one name has what has a scale behind it.
    let width = if pairs.iter().any(|pair| pair.scales.is_some()) { 20 } else { 14 };
    for pair in pairs {
        let row = Row { pair, speed: bench.pair(pair.from, pair.to, pair.scales)? };
        if !common.json {
            if rows.is_empty() {
                print(&heading(elements, threads, backend, width))?;
            }
            print(&row.line(width, backend))?;
        }
        rows.push(row);
    }
    let mean = geometric_mean(&rows);
    let cache = cache::last_cache_bytes();
    if common.json {
        let pairs: Vec<Json> = rows.iter().map(|row| row.json(elements, threads, backend, cache)).collect();
        let all = json!({ "pairs": pairs, "geometric_mean": mean, "last_cache_bytes": cache });
        return Ok(print(&crate::pretty(&all)?)?);
    }
    let slowest = rows.iter().min_by(|a, b| a.speed.ratio().total_cmp(&b.speed.ratio()));
    let Some(Row { pair, speed }) = slowest else { bail!("no pair to measure") };
    let count = rows.len();
    print(&format!(
        "{count} pair{}: geometric mean {mean:.3}, lowest {:.2} ({})\n",
        plural(count),
        speed.ratio(),
        pair.names().join(" -> ")
    ))?;
    Ok(print(&fitting(&rows, cache))?)
}

/// Which pairs fit the last cache, as a line; by their number where they are many.
fn fitting(rows: &[Row], cache: Option<u64>) -> String {
    const MOST_NAMES: usize = 20;
    let Some(bytes) = cache else { return String::new() };
    let fitting = rows.iter().filter(|row| row.fits(cache) == Some(true));
    let names: Vec<String> = fitting.map(|row| row.pair.names().join(":")).collect();
    let which = match names.len() {
        0 => "no pair".to_owned(),
        count if count == rows.len() => "every pair".to_owned(),
        count if count > MOST_NAMES => format!("{count} pairs"),
        _ => names.join(", "),
    };
    format!("fit the last cache ({} MiB), where memcpy's copy partly stays: {which}\n", bytes >> 20)
}

fn heading(elements: usize, threads: usize, backend: Backend, width: usize) -> String {
    format!(
        "{elements} element{}, {threads} thread{}, {}; GB/s count bytes read and written\n\
         {:width$}  {:width$} {:>7} {:>7} {:>6}\n",
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
    backend::available().map(|backend| backend.name()).collect::<Vec<_>>().join(", ")
}

/// The backends of this machine, best first.
fn list(args: &BenchArgs, as_json: bool) -> Result<()> {
    if args.op.is_some() || args.pairs.is_some() || args.elements.is_some() || !args.granularity.is_empty() {
        bail!("--isa without a name lists instruction sets, and measures nothing (name one, as --isa portable)");
    }
    let names: Vec<&str> = backend::available().map(|backend| backend.name()).collect();
    let text = if as_json {
        crate::pretty(&json!({ "isa": names, "best": Backend::best().name() }))?
    } else {
        let mark = |name: &str| if name == Backend::best().name() { "  (used unless another is named)" } else { "" };
        names.iter().map(|name| format!("{name}{}\n", mark(name))).collect()
    };
    Ok(print(&text)?)
}
