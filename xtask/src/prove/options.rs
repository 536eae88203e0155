//! The command line of `cargo xtask prove`.

use clap::{Args, value_parser};
use onnx_cast::backend::{self, Backend};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use testkit::Ty;

/// Compare the library with the exact oracle over complete domains, on every backend
///
/// Compared are all 2^32 values of float, int32 and uint32, cast to each numeric type with every setting that matters;
/// 10^8 random and 10^6 near-tie values of double, int64 and uint64, cast to the same types; and 10^7 random values of
/// float and of double, cast to string and back. The first difference is printed and ends the run with exit code 1.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Only this backend; may be repeated [default: all, those that this machine can run]
    #[arg(long, value_name = "NAME|all")]
    isa: Vec<Isa>,
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
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1 << 20), conflicts_with = "record")]
    stride: Option<u64>,
    /// Append the result to this Markdown file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// A value of `--isa`.
#[derive(Clone, Copy, Debug)]
enum Isa {
    All,
    One(Backend),
}

impl FromStr for Isa {
    type Err = String;

    fn from_str(name: &str) -> Result<Isa, String> {
        if name == "all" {
            return Ok(Isa::All);
        }
        Backend::by_name(name).map(Isa::One).map_err(|error| error.to_string())
    }
}

/// The options that select claims, as they are typed.
impl fmt::Display for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cargo xtask prove")?;
        for isa in &self.isa {
            let name = match isa {
                Isa::All => "all",
                Isa::One(backend) => backend.name(),
            };
            write!(f, " --isa {name}")?;
        }
        self.from.iter().try_for_each(|ty| write!(f, " --from {}", ty.name()))?;
        self.to.iter().try_for_each(|ty| write!(f, " --to {}", ty.name()))?;
        self.threads.iter().try_for_each(|threads| write!(f, " --threads {threads}"))
    }
}

/// The arguments with their defaults filled in.
#[derive(Debug)]
pub(crate) struct Options {
    pub(super) backends: Vec<Backend>,
    pub(super) from: Vec<Ty>,
    pub(super) to: Vec<Ty>,
    pub(super) threads: usize,
    pub(super) stride: u64,
    pub(super) record: Option<PathBuf>,
    /// The command, for the record, which does not name its own file.
    pub(super) command: String,
}

impl Options {
    /// Fills in the defaults.
    pub(crate) fn new(arguments: Arguments) -> Options {
        let command = arguments.to_string();
        let Arguments { isa, mut from, mut to, threads, stride, record } = arguments;
        let mut backends = Vec::new();
        for isa in &isa {
            match isa {
                Isa::All => backends.extend(backend::available()),
                Isa::One(backend) => backends.push(*backend),
            }
        }
        if backends.is_empty() {
            backends.extend(backend::available());
        }
        if from.is_empty() {
            // The test run compares all values of sources of 16 bits or fewer.
            from.extend([Ty::Float, Ty::Int32, Ty::Uint32, Ty::Double, Ty::Int64, Ty::Uint64]);
            // Texts are cast back to the type that they come from.
            if to.is_empty() {
                from.push(Ty::String);
            }
        }
        if to.is_empty() {
            to.extend(Ty::NUMERIC);
        }
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = threads.map_or_else(processors, |threads| threads as usize);
        Options { backends, from, to, threads, stride: stride.unwrap_or(1), record, command }
    }
}

fn source(name: &str) -> Result<Ty, String> {
    if name.eq_ignore_ascii_case(Ty::String.name()) { Ok(Ty::String) } else { target(name) }
}

fn target(name: &str) -> Result<Ty, String> {
    let ty = Ty::from_name(&name.to_ascii_lowercase()).filter(|ty| ty.is_numeric());
    ty.ok_or_else(|| "not a numeric ONNX type".to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    /// The options that a command line gives.
    pub(in crate::prove) fn parse(line: &str) -> Result<Options, clap::Error> {
        Line::try_parse_from(line.split_whitespace()).map(|line| Options::new(line.arguments))
    }

    #[test]
    fn the_whole_proof_is_the_default() {
        let options = parse("").expect("no arguments");
        assert_eq!(options.backends, backend::available().collect::<Vec<_>>());
        assert_eq!((options.from.len(), options.to.len(), options.stride), (7, Ty::NUMERIC.len(), 1));
        assert_eq!(options.command, "cargo xtask prove");
    }

    #[test]
    fn parts_of_it_can_be_named() {
        let options =
            parse("--isa Portable --from float --from Float16 --to bool --threads 3 --stride 7").expect("good");
        assert_eq!(options.from, [Ty::Float, Ty::Float16]);
        assert_eq!((options.to, options.threads, options.stride), (vec![Ty::Bool], 3, 7));
        assert_eq!(options.backends.iter().map(|backend| backend.name()).collect::<Vec<_>>(), ["portable"]);
    }

    #[test]
    fn the_record_has_the_command_without_its_own_path() {
        let options = parse("--to bool --isa all --record=folder/proofs.md --from String --threads 3").expect("good");
        assert_eq!(options.command, "cargo xtask prove --isa all --from string --to bool --threads 3");
        assert_eq!(options.record, Some("folder/proofs.md".into()));
        assert_eq!(options.from, [Ty::String]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, words) in [
            ("--isa abacus", "abacus"),
            ("--from float17", "float17"),
            ("--to string", "string"),
            ("--from complex64", "complex64"),
            ("--threads 0", "--threads"),
            ("--stride x", "--stride"),
            ("--from", "--from"),
            ("--fast", "--fast"),
            ("--stride 2 --record x", "--stride"),
        ] {
            let error = parse(line).expect_err(line).to_string();
            assert!(error.contains(words), "{line}: {error}");
        }
    }
}
