//! The long proof: the library against the oracle, over whole domains.
//!
//! A source type of 32 bits or fewer is walked in the order of its bit patterns, block by block: the oracle's
//! [`testkit::Walker`] writes the bytes it expects, the library casts the block, and the two are compared as bytes. Of
//! the 64-bit types random values and values beside the points where results change are compared, and of text the round
//! trip.

mod claim;
mod share;
mod values;

use crate::provenance::{commit, date, processor};
use claim::Claim;
use clap::{Args, value_parser};
use onnx_cast::backend::{self, Backend};
use std::process::ExitCode;
use std::time::Instant;
use testkit::{Rules, Ty};
use values::Compared;

/// Compare the library with the exact oracle over complete domains, on every backend
///
/// Compared are all 2^32 values of float, int32 and uint32, cast to each numeric type with every setting that matters;
/// 10^8 random and 10^6 near-tie values of double, int64 and uint64, cast to the same types; and 10^7 random values of
/// float and of double, cast to string and back. The first difference is printed and ends the run with exit code 1.
/// Without one, the section for `records/proofs.md` goes to the standard output, and progress to the standard error.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// Only this backend; may be repeated [default: all, those that this machine can run]
    #[arg(long, value_name = "NAME|all", value_parser = backends)]
    isa: Vec<Backends>,
    /// Only from this type, also a type of 16 bits or fewer, or string; may be repeated
    #[arg(long, value_name = "TYPE", value_parser = source)]
    from: Vec<Ty>,
    /// Only to this type; may be repeated
    #[arg(long, value_name = "TYPE", value_parser = target)]
    to: Vec<Ty>,
    /// The number of threads [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1 << 20))]
    threads: Option<u64>,
    /// Compare only one block of N, to try the command
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u64).range(1..=1 << 20))]
    stride: u64,
}

type Backends = Vec<Backend>;

fn backends(name: &str) -> Result<Backends, String> {
    match name {
        "all" => Ok(backend::available().collect()),
        name => Backend::by_name(name).map(|backend| vec![backend]).map_err(|error| error.to_string()),
    }
}

fn source(name: &str) -> Result<Ty, String> {
    if name.eq_ignore_ascii_case(Ty::String.name()) { Ok(Ty::String) } else { target(name) }
}

fn target(name: &str) -> Result<Ty, String> {
    let ty = Ty::from_name(&name.to_ascii_lowercase()).filter(|ty| ty.is_numeric());
    ty.ok_or_else(|| "not a numeric ONNX type".to_owned())
}

/// The options with their defaults filled in.
struct Plan {
    backends: Vec<Backend>,
    from: Vec<Ty>,
    to: Vec<Ty>,
    threads: usize,
    stride: u64,
}

impl Plan {
    fn new(options: Options) -> Plan {
        let Options { isa, mut from, mut to, threads, stride } = options;
        let backends = if isa.is_empty() { backend::available().collect() } else { isa.concat() };
        if from.is_empty() {
            // The test run compares all values of sources of 16 bits or fewer.
            from.extend([Ty::Float, Ty::Int32, Ty::Uint32, Ty::Double, Ty::Int64, Ty::Uint64]);
            // Texts are cast back to the type that they come from.
            from.extend(to.is_empty().then_some(Ty::String));
        }
        if to.is_empty() {
            to.extend(Ty::NUMERIC);
        }
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.map_or_else(processors, |threads| threads as usize);
        Plan { backends, from, to, threads, stride }
    }
}

/// Runs every claim that the options ask for.
pub(crate) fn run(options: Options) -> ExitCode {
    let plan = Plan::new(options);
    let (begun, commit) = (Instant::now(), commit());
    let (mut rows, mut total) = (Vec::new(), Row::default());
    for (&backend, &from) in plan.backends.iter().flat_map(|backend| plan.from.iter().map(move |from| (backend, from)))
    {
        let begun = Instant::now();
        match claims(&plan, from, backend) {
            Ok(row) => {
                rows.push(row.line(backend.name(), from.name(), begun));
                total.add(row.casts, &row.compared);
            }
            Err(difference) => {
                eprintln!("DIFFERENCE: {difference}");
                return ExitCode::FAILURE;
            }
        }
    }
    rows.push(total.line("all", "", begun));
    let names: Vec<&str> = plan.backends.iter().map(|backend| backend.name()).collect();
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let minutes = (begun.elapsed().as_secs_f64() / 60.0).ceil();
    println!(
        "\n## {}, {}\n\n`cargo xtask {command}`, {} threads, {minutes:.0} minutes, on {}; at commit {}.\n\n{HEAD}\n{}",
        date(),
        names.join(" and "),
        plan.threads,
        processor(),
        commit.as_deref().unwrap_or("unknown"),
        rows.join("\n")
    );
    ExitCode::SUCCESS
}

const HEAD: &str = "\
| backend | from | casts | every value | random | near ties | differences | seconds |
|---|---|---:|---:|---:|---:|---:|---:|";

/// The comparisons of one source on one backend.
#[derive(Default)]
struct Row {
    casts: u64,
    compared: Compared,
}

impl Row {
    fn add(&mut self, casts: u64, compared: &Compared) {
        self.casts += casts;
        self.compared.walked += compared.walked;
        self.compared.random += compared.random;
        self.compared.near_ties += compared.near_ties;
    }

    fn line(&self, backend: &str, from: &str, begun: Instant) -> String {
        let Row { casts, compared: Compared { walked, random, near_ties } } = self;
        let seconds = begun.elapsed().as_secs_f64();
        format!("| {backend} | {from} | {casts} | {walked} | {random} | {near_ties} | 0 | {seconds:.0} |")
    }
}

/// Every cast from a type, or of texts the round trips.
fn claims(plan: &Plan, from: Ty, backend: Backend) -> Result<Row, String> {
    let mut row = Row::default();
    let mut claim = |name: String, compare: &dyn Fn() -> Result<Compared, String>| {
        let begun = Instant::now();
        let compared = compare().map_err(|difference| format!("{name}: {difference}"))?;
        eprintln!("{name}: {compared}, no difference, {:.1} s", begun.elapsed().as_secs_f64());
        row.add(1, &compared);
        Ok::<(), String>(())
    };
    if from == Ty::String {
        for ty in [Ty::Float, Ty::Double] {
            let name = format!("{} {} -> string -> {}", backend.name(), ty.name(), ty.name());
            claim(name, &|| values::round_trips(ty, backend, plan))?;
        }
        return Ok(row);
    }
    for &to in &plan.to {
        for rules in Rules::distinct(from, to) {
            let cast = Claim { from, to, rules, backend };
            let compare = if from.bits() <= 32 { values::walk } else { values::sample };
            claim(cast.to_string(), &|| compare(&cast, plan))?;
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::values::BLOCK;
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parse(line: &str) -> Result<Plan, clap::Error> {
        Line::try_parse_from(line.split_whitespace()).map(|line| Plan::new(line.options))
    }

    fn claim(from: Ty, to: Ty) -> Claim {
        Claim { from, to, rules: Rules::default(), backend: Backend::best() }
    }

    #[test]
    fn options_are_read() {
        let plan = parse("").expect("no arguments");
        assert_eq!(plan.backends, backend::available().collect::<Vec<_>>());
        assert_eq!((plan.from.len(), plan.to.len(), plan.stride), (7, Ty::NUMERIC.len(), 1));
        let plan = parse("--isa Portable --from String --from Float16 --to bool --threads 3 --stride 7").expect("good");
        assert_eq!((plan.from, plan.to), (vec![Ty::String, Ty::Float16], vec![Ty::Bool]));
        assert_eq!((plan.backends, plan.threads, plan.stride), (vec![Backend::by_name("portable").unwrap()], 3, 7));
        for (line, word) in [("--isa abacus", "abacus"), ("--to string", "string"), ("--from complex64", "complex64")] {
            let error = parse(line).err().expect(line).to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
    }

    #[test]
    fn a_difference_is_found_and_told() {
        let half = claim(Ty::Float, Ty::Float16);
        let source: Vec<u8> = [0f32, 1.0, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let mut bench = half.bench();
        assert_eq!(bench.compare(3, &source, &[0, 0, 0, 0x3c, 0, 0x40]), Ok(()));
        let difference = bench.compare(3, &source, &[0, 0, 1, 0x3c, 0, 0x40]);
        assert_eq!(difference, Err("0x3f800000 gives 0x3c00, want 0x3c01".to_owned()));
        let packed = claim(Ty::Float, Ty::Int4);
        let mut bench = packed.bench();
        assert_eq!(bench.compare(3, &source, &[0x10, 0x02]), Ok(()));
        assert_eq!(bench.compare(3, &source, &[0x10, 0x12]), Err("the padding is not zero".to_owned()));
        assert_eq!(half.to_string(), format!("{} float -> float16 (version 28)", Backend::best().name()));
    }

    #[test]
    fn narrow_sources_are_walked_whole() {
        let plan = parse("").expect("no arguments");
        for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() <= 16) {
            let compared = values::walk(&claim(from, Ty::Float8E5M2), &plan);
            assert_eq!(compared.map(|compared| compared.walked), Ok(from.mask() + 1), "{}", from.name());
        }
    }

    #[test]
    fn a_stride_leaves_values_out() {
        let plan = parse("--stride 10007").expect("a stride");
        let compared = values::walk(&claim(Ty::Float, Ty::Int4), &plan).expect("no difference");
        assert_eq!(compared.walked, ((1u64 << 32) / BLOCK as u64).div_ceil(10_007) * BLOCK as u64);
        let compared = values::sample(&claim(Ty::Uint64, Ty::Float), &plan).expect("no difference");
        assert_eq!((compared.random, compared.near_ties), (BLOCK as u64, 90));
        let compared = values::round_trips(Ty::Float, Backend::best(), &plan).expect("no difference");
        assert_eq!(compared.random, BLOCK as u64);
    }
}
