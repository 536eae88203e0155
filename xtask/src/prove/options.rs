//! The command line of `cargo xtask prove`.

use onnx_cast::{Backend, available_backends};
use std::path::PathBuf;
use testkit::Ty;

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Options {
    pub(super) backends: Vec<Backend>,
    pub(super) from: Vec<Ty>,
    pub(super) to: Vec<Ty>,
    pub(super) threads: usize,
    pub(super) stride: u64,
    pub(super) record: Option<PathBuf>,
    /// The arguments as they were given.
    pub(super) arguments: Vec<String>,
}

impl Options {
    /// Reads the arguments.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let arguments: Vec<String> = arguments.collect();
        let mut options = Options {
            backends: Vec::new(),
            from: Vec::new(),
            to: Vec::new(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            stride: 1,
            record: None,
            arguments: arguments.clone(),
        };
        let mut rest = arguments.into_iter();
        while let Some(name) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("{name} needs a value"));
            match name.as_str() {
                "--isa" => match value()?.as_str() {
                    "all" => options.backends.extend(available_backends()),
                    isa => options.backends.push(Backend::by_name(isa).map_err(|error| error.to_string())?),
                },
                "--from" => options.from.push(named(&value()?, true)?),
                "--to" => options.to.push(named(&value()?, false)?),
                "--threads" => options.threads = positive(&name, &value()?)? as usize,
                "--stride" => options.stride = positive(&name, &value()?)?,
                "--record" => options.record = Some(value()?.into()),
                other => return Err(format!("`{other}` is not an option")),
            }
        }
        if options.stride > 1 && options.record.is_some() {
            return Err("what is recorded is the whole proof, without --stride".to_owned());
        }
        if options.backends.is_empty() {
            options.backends.extend(available_backends());
        }
        if options.from.is_empty() {
            // Sources of 16 bits or fewer are walked by the tests, every time.
            options.from.extend([Ty::Float, Ty::Int32, Ty::Uint32, Ty::Double, Ty::Int64, Ty::Uint64]);
            // Text is read back to where it comes from.
            if options.to.is_empty() {
                options.from.push(Ty::String);
            }
        }
        if options.to.is_empty() {
            options.to.extend(Ty::NUMERIC);
        }
        Ok(options)
    }
}

fn named(name: &str, or_string: bool) -> Result<Ty, String> {
    let ty = Ty::from_name(&name.to_ascii_lowercase()).filter(|ty| ty.is_numeric() || (or_string && *ty == Ty::String));
    ty.ok_or_else(|| format!("`{name}` is not a numeric type of ONNX's"))
}

fn positive(option: &str, value: &str) -> Result<u64, String> {
    value
        .parse()
        .ok()
        .filter(|&n| (1..=1 << 20).contains(&n))
        .ok_or_else(|| format!("{option} {value}: want 1 to 2^20"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn the_whole_proof_is_the_default() {
        let options = parse("").expect("no arguments");
        assert_eq!(options.backends, available_backends().collect::<Vec<_>>());
        assert_eq!((options.from.len(), options.to.len(), options.stride), (7, Ty::NUMERIC.len(), 1));
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
    fn what_is_wrong_is_named() {
        for (line, word) in [
            ("--isa abacus", "abacus"),
            ("--from float17", "float17"),
            ("--to string", "string"),
            ("--from complex64", "complex64"),
            ("--threads 0", "--threads 0"),
            ("--stride x", "--stride x"),
            ("--from", "--from"),
            ("--fast", "--fast"),
            ("--stride 2 --record x", "--stride"),
        ] {
            let error = parse(line).expect_err(line);
            assert!(error.contains(word), "{line}: {error}");
        }
    }
}
