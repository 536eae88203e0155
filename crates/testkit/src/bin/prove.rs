//! The library against the oracle over whole domains. The first difference is printed and ends the run with exit code 1;
//! without one, the section for `records/proofs.md` goes to the standard output, and progress to the standard error.
//!
//! - All 2^32 values of float, int32 and uint32 to each numeric type, with every setting that matters: the oracle's
//!   [`Walker`] writes the bytes that it expects of a block of patterns, and those of the library are compared with them.
//! - 10^8 random values and 10^6 near ties of double, int64 and uint64, to the same types.
//! - 10^7 random values of float and of double, to string and back.
//!
//! `cargo prove [--isa NAME|all] [--from TYPE] [--to TYPE] [--stride N]`: only these backends, sources (also narrower ones,
//! and string) and targets, each may be repeated; one block of N. `cargo prove large` casts tensors of more than 2^32
//! elements instead, which takes 5 GB of memory.
#![forbid(unsafe_code)]

use onnx_cast::backend::{self, Backend};
use onnx_cast::tensor::Strings;
use onnx_cast::{Cast, CastOptions, DataType, Plan, TensorView};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{env, fs, iter, thread};
use testkit::exact::{Number, decode};
use testkit::generators::{Rng, near_ties, random, random_scaled};
use testkit::library::{data_type, plan, run};
use testkit::packing::{pack, pack_into, packed_len, unpack};
use testkit::{Direct, Rules, Ty, Walker};

/// Elements in a block: small enough for the nearest caches, and a multiple of 8, so that it is whole bytes.
const BLOCK: usize = 1 << 14;
/// Random values of each 64-bit source to each target. Half of them are uniformly random patterns, half of a random
/// scale, so that the narrow targets' ranges are met.
const RANDOM: u64 = 100_000_000;
/// Values beside the points where a target's results change, of each 64-bit source to each target.
const NEAR_TIES: u64 = 1_000_000;
/// Random values of each type that go to string and back.
const TEXTS: u64 = 10_000_000;

/// How many values were compared, or the first difference.
type Compared = Result<u64, String>;

struct Options {
    backends: Vec<Backend>,
    from: Vec<Ty>,
    to: Vec<Ty>,
    stride: u64,
}

impl Options {
    fn new(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options { backends: Vec::new(), from: Vec::new(), to: Vec::new(), stride: 1 };
        let ty = |name: &str| Ty::from_name(name).filter(|ty| Ty::ALL.contains(ty)).ok_or(format!("no type `{name}`"));
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("`{option}` is unknown, or lacks its value"))?;
            match option.as_str() {
                "--isa" if value == "all" => options.backends.extend(backend::available()),
                "--isa" => options.backends.push(Backend::by_name(&value).map_err(|error| error.to_string())?),
                "--from" => options.from.push(ty(&value)?),
                "--to" => options.to.push(ty(&value).and_then(|ty| match ty {
                    Ty::String => Err("texts go back to the type that they come from".to_owned()),
                    ty => Ok(ty),
                })?),
                "--stride" => options.stride = value.parse::<u64>().ok().filter(|&n| n > 0).ok_or("--stride N")?,
                _ => return Err(format!("no option `{option}`")),
            }
        }
        if options.backends.is_empty() {
            options.backends.extend(backend::available());
        }
        if options.from.is_empty() {
            // The test run compares all values of sources of 16 bits or fewer.
            options.from.extend([Ty::Float, Ty::Int32, Ty::Uint32, Ty::Double, Ty::Int64, Ty::Uint64]);
            options.from.extend(options.to.is_empty().then_some(Ty::String));
        }
        if options.to.is_empty() {
            options.to.extend(Ty::NUMERIC);
        }
        Ok(options)
    }
}

/// Shares `pieces` among threads, each of which calls `work` with the pieces that are left. A difference ends them all.
fn share(pieces: u64, work: impl Fn(&mut dyn Iterator<Item = u64>) -> Compared + Sync) -> Compared {
    let next = AtomicU64::new(0);
    let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&piece| piece < pieces);
    let one = || work(&mut iter::from_fn(take)).inspect_err(|_| next.store(pieces, Ordering::Relaxed));
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread that does not panic")).sum()
    })
}

/// A cast on one backend.
struct Claim {
    from: Ty,
    to: Ty,
    rules: Rules,
    backend: Backend,
}

impl Claim {
    fn plan(&self) -> Plan {
        plan(self.from, self.to, &self.rules, self.backend)
    }

    /// Casts packed elements and compares with the bytes expected.
    fn compare(&self, plan: &Plan, count: usize, source: &[u8], want: &[u8], got: &mut Vec<u8>) -> Compared {
        run(plan, count, source, got);
        if got == want {
            return Ok(count as u64);
        }
        let Claim { from, to, rules, backend } = self;
        let elements = |ty, bytes: &[u8]| unpack(ty, bytes, count).expect("the bytes of so many");
        let (values, got, want) = (elements(*from, source), elements(*to, got), elements(*to, want));
        let told = match got.iter().zip(&want).position(|(got, want)| got != want) {
            Some(i) => format!("{:#x} gives {:#x}, want {:#x}", values[i], got[i], want[i]),
            None => "the padding is not zero".to_owned(),
        };
        Err(format!("{} {} -> {} {rules:?}: {told}", backend.name(), from.name(), to.name()))
    }

    /// Every value of a source of 32 bits or fewer.
    fn walk(&self, stride: u64) -> Compared {
        // A thread takes a stretch of blocks at a time, in which its walker goes from run to run.
        const STRETCH: u64 = 1 << 10;
        let values = self.from.mask() + 1;
        let block = values.min(BLOCK as u64);
        let blocks = values / block;
        let walker = Walker::new(self.from, self.to, &self.rules);
        share(blocks.div_ceil(STRETCH), |stretches| {
            let (plan, mut walker) = (self.plan(), walker.clone());
            let (mut source, mut want, mut got, mut compared) = (Vec::new(), Vec::new(), Vec::new(), 0);
            for stretch in stretches {
                let end = blocks.min((stretch + 1) * STRETCH);
                for nth in (stretch * STRETCH..end).filter(|nth| nth % stride == 0) {
                    let first = nth * block;
                    source.clear();
                    if self.from.bits() == 32 {
                        source.resize(4 * block as usize, 0);
                        for (i, bytes) in source.chunks_exact_mut(4).enumerate() {
                            bytes.copy_from_slice(&(first as u32 + i as u32).to_le_bytes());
                        }
                    } else {
                        pack_into(self.from, &(first..first + block).collect::<Vec<_>>(), &mut source);
                    }
                    walker.fill_packed(first, block as usize, &mut want);
                    compared += self.compare(&plan, block as usize, &source, &want, &mut got)?;
                }
            }
            Ok(compared)
        })
    }

    /// Random values and near ties of a 64-bit source, the latter in ten pieces, since each takes a microsecond to find.
    fn sample(&self, stride: u64) -> Compared {
        let Claim { from, to, .. } = *self;
        let direct = Direct::new(from, to, &self.rules);
        let ties = (NEAR_TIES / stride / 10).max(1) as usize;
        let seed = u64::from(from as u8) << 56 | u64::from(to as u8) << 48;
        share(10 + (RANDOM / stride).div_ceil(BLOCK as u64), |pieces| {
            let (plan, mut got, mut compared) = (self.plan(), Vec::new(), 0);
            for piece in pieces {
                let values = match piece {
                    ..10 => near_ties(from, to, ties, seed | piece),
                    _ if piece % 2 == 0 => random(from, BLOCK, seed | piece),
                    _ => random_scaled(from, BLOCK, seed | piece),
                };
                for values in values.chunks(BLOCK) {
                    let mut want = vec![0; values.len()];
                    direct.cast_all(values, &mut want);
                    compared += self.compare(&plan, values.len(), &pack(from, values), &pack(to, &want), &mut got)?;
                }
            }
            Ok(compared)
        })
    }
}

/// Random values of float or double to string and back: the same bits, NaN as NaN.
fn round_trips(ty: Ty, backend: Backend, stride: u64) -> Compared {
    let options = CastOptions::new().backend(backend);
    let cast = |to, from| Cast::new(to, &options).and_then(|cast| cast.plan(from)).expect("a cast");
    let (print, parse) = (cast(DataType::String, data_type(ty)), cast(data_type(ty), DataType::String));
    let is_nan = |bits| matches!(decode(ty, bits), Number::NaN { .. });
    share((TEXTS / stride).div_ceil(BLOCK as u64), |pieces| {
        let (mut strings, mut back, mut compared) = (Strings::new(), vec![0; packed_len(ty, BLOCK)], 0);
        for piece in pieces {
            let seed = u64::from(ty as u8) << 48 | piece;
            let values = if piece % 2 == 0 { random(ty, BLOCK, seed) } else { random_scaled(ty, BLOCK, seed) };
            let source = pack(ty, &values);
            let numbers = TensorView::new(data_type(ty), &[BLOCK], &source).expect("so many numbers");
            print.run_strings_into(&numbers, &mut strings).map_err(|error| error.to_string())?;
            let texts = TensorView::strings(&[BLOCK], strings.view()).expect("as many texts");
            parse.run_into(&texts, &mut back).map_err(|error| error.to_string())?;
            let read = unpack(ty, &back, BLOCK).expect("so many numbers");
            for (i, (value, back)) in values.iter().zip(read).enumerate() {
                if *value != back && !(is_nan(*value) && is_nan(back)) {
                    let (name, texts) = (ty.name(), strings.view());
                    let text = texts.iter().nth(i).map(String::from_utf8_lossy);
                    return Err(format!("{name} {value:#x} gives {text:?}, read as {back:#x}"));
                }
            }
            compared += BLOCK as u64;
        }
        Ok(compared)
    })
}

/// A tensor of zeros with other values where numbers of 32 bits end and where threads may cut; the zeros of the source
/// take no memory.
fn large(from: Ty, to: Ty, len: usize) -> Compared {
    const ISLAND: usize = 1 << 12;
    // Islands start at multiples of 8 elements, which are whole bytes.
    let threads = thread::available_parallelism().map_or(2, usize::from).max(2);
    let ends = (0..).map(|nth| nth << 28).take_while(|&at| at < len);
    let mut places: Vec<usize> = ends.chain((1..=threads).map(|nth| len / threads * nth)).chain([len]).collect();
    places.iter_mut().for_each(|at| *at = at.saturating_sub(ISLAND / 2).min(len - ISLAND) / 8 * 8);
    places.sort_unstable();
    places.dedup_by(|next, before| *next < *before + ISLAND);
    let (mut source, mut rng) = (vec![0u8; packed_len(from, len)], Rng::new(len as u64));
    let direct = Direct::new(from, to, &Rules::default());
    let mut islands = Vec::new();
    for at in places {
        let values: Vec<u64> = (0..ISLAND).map(|_| rng.next_u64() & from.mask()).collect();
        let begin = packed_len(from, at);
        source[begin..begin + packed_len(from, ISLAND)].copy_from_slice(&pack(from, &values));
        let results: Vec<u64> = values.iter().map(|&value| direct.cast(value)).collect();
        islands.push((packed_len(to, at), pack(to, &results)));
    }
    let cast = Cast::new(data_type(to), &CastOptions::default()).expect("a type of Cast");
    let view = TensorView::new(data_type(from), std::slice::from_ref(&len), &source).expect("the bytes of so many");
    let result = cast.run(&view).map_err(|error| error.to_string())?;
    let bytes = result.bytes().expect("numbers");
    assert_eq!(bytes.len(), packed_len(to, len), "{} -> {}", from.name(), to.name());
    let mut end = 0;
    for (begin, island) in islands.iter().map(|(begin, island)| (*begin, &island[..])).chain([(bytes.len(), &[][..])]) {
        let found = &bytes[begin..begin + island.len()];
        if found != island || bytes[end..begin].iter().any(|&byte| byte != 0) {
            return Err(format!("{} -> {}: bytes from {end} to {begin}, or behind", from.name(), to.name()));
        }
        end = begin + island.len();
    }
    Ok(len as u64)
}

/// Every cast from a type, or of texts the round trips: how many, and how many values.
fn claims(options: &Options, from: Ty, backend: Backend) -> Result<(u64, u64), String> {
    if from == Ty::String {
        let both = [Ty::Float, Ty::Double].map(|ty| round_trips(ty, backend, options.stride));
        return Ok((2, both.into_iter().sum::<Compared>()?));
    }
    let (mut casts, mut values) = (0, 0);
    for &to in &options.to {
        for rules in Rules::distinct(from, to) {
            let claim = Claim { from, to, rules, backend };
            values += if from.bits() <= 32 { claim.walk(options.stride)? } else { claim.sample(options.stride)? };
            casts += 1;
        }
        eprintln!("{} {} -> {}: no difference", backend.name(), from.name(), to.name());
    }
    Ok((casts, values))
}

/// The lines of the record.
fn prove(options: &Options) -> Result<Vec<String>, String> {
    let mut rows = Vec::new();
    for backend in &options.backends {
        for from in &options.from {
            let begun = Instant::now();
            let (casts, values) = claims(options, *from, *backend)?;
            let (name, seconds) = (backend.name(), begun.elapsed().as_secs_f64());
            rows.push(format!("| {name} | {} | {casts} | {values} | 0 | {seconds:.0} |", from.name()));
        }
    }
    Ok(rows)
}

fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().map(|output| output.stdout);
    String::from_utf8_lossy(&output.unwrap_or_default()).trim().to_owned()
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let proved = if words == ["large"] {
        let tensors = [(Ty::Uint8, Ty::Uint4, 6 << 30), (Ty::Uint2, Ty::Uint8, (4 << 30) + (300 << 20))];
        let row = |(from, to, len): (Ty, Ty, usize)| -> Result<String, String> {
            let len = large(from, to, len)?;
            Ok(format!("| best | {} -> {} | 1 | {len} | 0 | |", from.name(), to.name()))
        };
        tensors.into_iter().map(row).collect()
    } else {
        Options::new(words.iter().cloned()).and_then(|options| prove(&options))
    };
    match proved {
        Ok(rows) => {
            let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
            let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
            println!(
                "\n## {}\n\n`cargo prove {}`, on {}; at commit {}.\n\n\
                 | backend | from | casts | values | differences | seconds |\n|---|---|---:|---:|---:|---:|\n{}",
                printed("date", &["-u", "+%F"]),
                words.join(" "),
                processor.map_or(env::consts::ARCH, |(_, name)| name),
                printed("git", &["rev-parse", "--short=12", "HEAD"]),
                rows.join("\n")
            );
            ExitCode::SUCCESS
        }
        Err(difference) => {
            eprintln!("prove: {difference}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(from: Ty, to: Ty) -> Claim {
        Claim { from, to, rules: Rules::default(), backend: Backend::best() }
    }

    #[test]
    fn a_difference_is_found_and_told() {
        let (claim, source) = (claim(Ty::Float, Ty::Int4), [0f32, 1.0, 2.0].map(f32::to_le_bytes).concat());
        let compare = |want: &[u8]| claim.compare(&claim.plan(), 3, &source, want, &mut Vec::new());
        assert_eq!(compare(&[0x10, 0x02]), Ok(3));
        assert!(compare(&[0x20, 0x02]).is_err_and(|told| told.ends_with("0x3f800000 gives 0x1, want 0x2")));
        assert!(compare(&[0x10, 0x12]).is_err_and(|told| told.ends_with("the padding is not zero")));
        let stopped =
            share(u64::MAX / 2, |pieces| pieces.map(|piece| if piece < 100 { Ok(1) } else { Err("100".into()) }).sum());
        assert_eq!(stopped, Err("100".to_owned()));
    }

    #[test]
    fn domains_are_whole() {
        for from in Ty::NUMERIC.into_iter().filter(|ty| ty.bits() <= 16) {
            assert_eq!(claim(from, Ty::Float8E5M2).walk(1), Ok(from.mask() + 1), "{}", from.name());
        }
        let blocks = (1u64 << 32) / BLOCK as u64;
        assert_eq!(claim(Ty::Float, Ty::Int4).walk(10_007), Ok(blocks.div_ceil(10_007) * BLOCK as u64));
        assert_eq!(claim(Ty::Uint64, Ty::Float).sample(10_007), Ok(BLOCK as u64 + 90));
        assert_eq!(round_trips(Ty::Float, Backend::best(), 10_007), Ok(BLOCK as u64));
        assert_eq!(large(Ty::Uint8, Ty::Uint4, (1 << 20) + 5), Ok((1 << 20) + 5));
    }

    #[test]
    fn options_are_read() {
        let read = |line: &str| Options::new(line.split_whitespace().map(str::to_owned));
        let options = read("").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((options.from.len(), options.to.len(), options.stride), (7, Ty::NUMERIC.len(), 1));
        let options =
            read("--isa portable --from string --to bool --stride 7").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((options.from, options.to, options.stride), (vec![Ty::String], vec![Ty::Bool], 7));
        for line in ["--isa abacus", "--to string", "--from complex64", "--stride 0", "--threads 1", "--to"] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
