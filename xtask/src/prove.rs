//! The long proof: the library against the oracle, over whole domains.
//!
//! A source type of 32 bits or fewer is walked in the order of its bit patterns, block by block: the oracle's
//! [`testkit::Walker`] writes the bytes it expects, the library casts the block, and the two are compared as bytes. Of
//! the 64-bit types random values and values beside the points where results change are compared, and of text the round
//! trip.

mod options;
mod record;
mod values;

pub(crate) use options::{Arguments, Options};

use crate::claim::Claim;
use onnx_cast::backend::Backend;
use onnx_cast::{Plan, TensorView};
use record::Record;
use std::process::ExitCode;
use std::time::Instant;
use testkit::{Rules, Ty};

/// Elements in a block: small enough for the nearest caches, and a multiple of 8, so that it is whole bytes.
const BLOCK: usize = 1 << 14;

/// The buffers of one thread, for one claim.
struct Bench<'a> {
    claim: &'a Claim,
    plan: Plan,
    got: Vec<u8>,
}

impl<'a> Bench<'a> {
    fn new(claim: &'a Claim) -> Self {
        Bench { claim, plan: claim.plan(), got: Vec::new() }
    }

    /// Casts `count` elements and compares with the bytes expected.
    fn compare(&mut self, count: usize, source: &[u8], want: &[u8]) -> Result<(), String> {
        // No byte is what it should be until it is written.
        self.got.clear();
        self.got.extend(want.iter().map(|byte| !byte));
        let shape = [count];
        let view = TensorView::new(self.plan.source_type(), &shape, source).map_err(|error| error.to_string())?;
        self.plan.run_into(&view, &mut self.got).map_err(|error| error.to_string())?;
        if self.got == want { Ok(()) } else { Err(self.claim.difference(count, source, &self.got, want)) }
    }
}

/// Runs every claim that the options ask for.
pub(crate) fn run(options: &Options) -> ExitCode {
    let begun = Instant::now();
    let mut record = Record::new();
    for &backend in &options.backends {
        for &from in &options.from {
            let result =
                if from == Ty::String { text_claims(options, backend) } else { number_claims(options, from, backend) };
            match result {
                Ok(rows) => record.rows.push(rows),
                Err(difference) => {
                    println!("DIFFERENCE: {difference}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    record.seconds = begun.elapsed().as_secs_f64();
    println!("{record}");
    if let Some(path) = &options.record
        && let Err(error) = record.append(path, options)
    {
        eprintln!("xtask: {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn number_claims(options: &Options, from: Ty, backend: Backend) -> Result<record::Row, String> {
    let begun = Instant::now();
    let mut row = record::Row::new(from.name(), backend);
    for &to in &options.to {
        for rules in Rules::distinct(from, to) {
            let claim = Claim { from, to, rules, backend };
            let begun = Instant::now();
            let compared =
                if from.bits() <= 32 { values::walk(&claim, options) } else { values::sample(&claim, options) };
            let compared = compared.map_err(|difference| format!("{claim}: {difference}"))?;
            println!("{claim}: {compared}, no difference, {:.1} s", begun.elapsed().as_secs_f64());
            row.add(&compared);
        }
    }
    row.seconds = begun.elapsed().as_secs_f64();
    Ok(row)
}

fn text_claims(options: &Options, backend: Backend) -> Result<record::Row, String> {
    let begun = Instant::now();
    let mut row = record::Row::new("string", backend);
    for ty in [Ty::Float, Ty::Double] {
        let begun = Instant::now();
        let name = format!("{} {} -> string -> {}", backend.name(), ty.name(), ty.name());
        let compared =
            values::round_trips(ty, backend, options).map_err(|difference| format!("{name}: {difference}"))?;
        println!("{name}: {compared}, no difference, {:.1} s", begun.elapsed().as_secs_f64());
        row.add(&compared);
    }
    row.seconds = begun.elapsed().as_secs_f64();
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::options::tests::parse;
    use super::*;

    fn claim(from: Ty, to: Ty) -> Claim {
        Claim { from, to, rules: Rules::default(), backend: Backend::best() }
    }

    #[test]
    fn a_difference_is_found_and_told() {
        let half = claim(Ty::Float, Ty::Float16);
        let mut bench = Bench::new(&half);
        let source: Vec<u8> = [0f32, 1.0, 2.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(bench.compare(3, &source, &[0, 0, 0, 0x3c, 0, 0x40]), Ok(()));
        let difference = bench.compare(3, &source, &[0, 0, 1, 0x3c, 0, 0x40]);
        assert_eq!(difference, Err("0x3f800000 gives 0x3c00, want 0x3c01".to_owned()));
        let packed = claim(Ty::Float, Ty::Int4);
        let mut bench = Bench::new(&packed);
        assert_eq!(bench.compare(3, &source, &[0x10, 0x02]), Ok(()));
        assert_eq!(bench.compare(3, &source, &[0x10, 0x12]), Err("the padding is not zero".to_owned()));
        assert_eq!(half.to_string(), format!("{} float -> float16 (version 28)", Backend::best().name()));
    }

    #[test]
    fn narrow_sources_are_walked_whole() {
        let options = parse("").expect("no arguments");
        for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() <= 16) {
            let compared = values::walk(&claim(from, Ty::Float8E5M2), &options);
            assert_eq!(compared.map(|compared| compared.walked), Ok(from.mask() + 1), "{}", from.name());
        }
    }

    #[test]
    fn a_stride_leaves_values_out() {
        let options = parse("--stride 10007").expect("a stride");
        let compared = values::walk(&claim(Ty::Float, Ty::Int4), &options).expect("no difference");
        assert_eq!(compared.walked, ((1u64 << 32) / BLOCK as u64).div_ceil(10_007) * BLOCK as u64);
        let compared = values::sample(&claim(Ty::Uint64, Ty::Float), &options).expect("no difference");
        assert_eq!((compared.random, compared.near_ties), (BLOCK as u64, 90));
        let compared = values::round_trips(Ty::Float, Backend::best(), &options).expect("no difference");
        assert_eq!(compared.random, BLOCK as u64);
    }
}
