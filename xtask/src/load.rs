//! Load on the library: ten million small casts, whose memory must not grow, and tensors of more than 2^32 elements and
//! bytes. (Many threads at once: `tests/threads.rs` of the library. Large files: `scripts/proofs/load.py`.)

use crate::provenance::resident;
use clap::{Args, ValueEnum};
use onnx_cast::tensor::Strings;
use onnx_cast::{Cast, CastOptions, TensorView};
use std::process::ExitCode;
use std::time::Instant;
use testkit::generators::{Rng, special};
use testkit::library::data_type;
use testkit::packing::{pack, packed_len, unpack};
use testkit::{Direct, Rules, Ty};

/// What small casts may add to the memory, all ten million of them: pages that the allocator comes to need, and no byte
/// for each cast.
const ALLOWANCE: u64 = 2 << 20;

/// Cast ten million small tensors and a few of more than 2^32 elements, and compare each result
///
/// After the small casts, memory must not have grown. The large tensors are 6442450944 uint8 to uint4 and 4609540096
/// uint2 to uint8; they need 5 GB of memory.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only these [default: small large]
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Part {
    Small,
    Large,
}

impl Part {
    fn run(self) -> Result<String, String> {
        match self {
            Part::Small => small(10_000_000),
            Part::Large => {
                let first = large(Ty::Uint8, Ty::Uint4, 6 << 30)?;
                let second = large(Ty::Uint2, Ty::Uint8, (4 << 30) + (300 << 20))?;
                Ok(format!("{first}\n{second}"))
            }
        }
    }
}

/// Runs the parts that the options name, or all.
pub(crate) fn run(options: &Options) -> ExitCode {
    let parts = if options.parts.is_empty() { Part::value_variants() } else { &options.parts };
    for part in parts {
        let begun = Instant::now();
        let name = format!("{part:?}").to_lowercase();
        match part.run() {
            Ok(told) => println!("{told}\n{name}: no difference, {:.0} s", begun.elapsed().as_secs_f64()),
            Err(fault) => {
                println!("{name}: {fault}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// One small cast, and what it gives.
struct Small {
    cast: Cast,
    from: Ty,
    source: Vec<u8>,
    len: usize,
    want: Vec<u8>,
}

impl Small {
    fn new(rng: &mut Rng) -> Small {
        let pick = |rng: &mut Rng| Ty::NUMERIC[rng.below(Ty::NUMERIC.len() as u64) as usize];
        let (from, to) = (pick(rng), pick(rng));
        let len = rng.below(33) as usize;
        let known = special(from);
        let values: Vec<u64> = (0..len).map(|_| known[rng.below(known.len() as u64) as usize]).collect();
        let direct = Direct::new(from, to, &Rules::default());
        let results: Vec<u64> = values.iter().map(|&value| direct.cast(value)).collect();
        let cast = Cast::new(data_type(to), &CastOptions::default()).expect("a type of Cast");
        Small { cast, from, source: pack(from, &values), len, want: pack(to, &results) }
    }

    /// Into a new tensor, into memory that is there, or to texts and back to nothing.
    fn run(&self, way: usize, out: &mut Vec<u8>, texts: &mut Strings) -> Result<(), String> {
        let shape = [self.len];
        let view = TensorView::new(data_type(self.from), &shape, &self.source).map_err(|error| error.to_string())?;
        match way {
            0 => {
                let tensor = self.cast.run(&view).map_err(|error| error.to_string())?;
                out.clear();
                out.extend_from_slice(tensor.bytes().unwrap_or_default());
            }
            1 => {
                let print = Cast::new(onnx_cast::DataType::String, &CastOptions::default());
                let print = print.map_err(|error| error.to_string())?;
                print.run_strings_into(&view, texts).map_err(|error| error.to_string())?;
                let printed = texts.view().len();
                return if printed == self.len { Ok(()) } else { Err(format!("{printed} texts of {}", self.len)) };
            }
            _ => {
                out.clear();
                out.resize(self.want.len(), 0xa5);
                self.cast.run_into(&view, out).map_err(|error| error.to_string())?;
            }
        }
        if *out == self.want { Ok(()) } else { Err(format!("{out:02x?}, want {:02x?}", self.want)) }
    }
}

/// So many casts of 32 elements or fewer, each compared.
fn small(count: u64) -> Result<String, String> {
    let mut rng = Rng::new(10);
    let cases: Vec<Small> = (0..2000).map(|_| Small::new(&mut rng)).collect();
    let (mut out, mut texts) = (Vec::new(), Strings::new());
    let mut some = |count: u64| {
        (0..count).try_for_each(|nth| {
            let case = &cases[nth as usize % cases.len()];
            let told = |fault| format!("{} -> {}: {fault}", case.from.name(), case.cast.target_type());
            case.run((nth / cases.len() as u64 % 4) as usize, &mut out, &mut texts).map_err(told)
        })
    };
    // Tables that are made once, and what the allocator keeps.
    some(count / 100)?;
    let before = resident();
    some(count)?;
    let (Some(before), Some(after)) = (before, resident()) else {
        return Ok(format!("{count} small casts compared (the system does not tell their memory)"));
    };
    if after > before + ALLOWANCE {
        return Err(format!("memory has grown from {before} to {after} bytes in {count} small casts"));
    }
    let grown = after.saturating_sub(before);
    Ok(format!("{count} small casts compared; memory {} KB, grown by {} KB", before >> 10, grown >> 10))
}

/// A tensor of zeros with other values where numbers of 32 bits end and where threads may cut; the zeros of the source
/// take no memory.
fn large(from: Ty, to: Ty, len: usize) -> Result<String, String> {
    const ISLAND: usize = 1 << 12;
    let pair = format!("{} -> {}, {len} elements", from.name(), to.name());
    let (source_len, want_len) = (packed_len(from, len), packed_len(to, len));
    let mut source = vec![0u8; source_len];
    // Islands start at multiples of 8 elements, which are whole bytes.
    let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
    let mut places: Vec<usize> = (0..).map(|nth| nth << 28).take_while(|&at| at < len).collect();
    places.extend((1..threads).map(|nth| len / threads * nth));
    places.push(len);
    let mut places: Vec<usize> =
        places.iter().map(|at| at.saturating_sub(ISLAND / 2).min(len - ISLAND) / 8 * 8).collect();
    places.sort_unstable();
    places.dedup_by(|next, before| *next < *before + ISLAND);
    let mut rng = Rng::new(len as u64);
    let direct = Direct::new(from, to, &Rules::default());
    let mut islands = Vec::new();
    for at in places {
        let values: Vec<u64> = (0..ISLAND).map(|_| rng.next_u64() & from.mask()).collect();
        let begin = packed_len(from, at);
        source[begin..begin + packed_len(from, ISLAND)].copy_from_slice(&pack(from, &values));
        let results: Vec<u64> = values.iter().map(|&value| direct.cast(value)).collect();
        islands.push((packed_len(to, at), results));
    }
    let cast = Cast::new(data_type(to), &CastOptions::default()).map_err(|error| format!("{pair}: {error}"))?;
    let shape = [len];
    let view = TensorView::new(data_type(from), &shape, &source).map_err(|error| format!("{pair}: {error}"))?;
    let begun = Instant::now();
    let result = cast.run(&view).map_err(|error| format!("{pair}: {error}"))?;
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = result.bytes().unwrap_or_default();
    if bytes.len() != want_len {
        return Err(format!("{pair}: {} bytes, want {want_len}", bytes.len()));
    }
    let mut end = 0;
    for (begin, results) in &islands {
        let island = &bytes[*begin..begin + packed_len(to, ISLAND)];
        if unpack(to, island, ISLAND).as_ref() != Some(results) {
            return Err(format!("{pair}: the elements from byte {begin} on are wrong"));
        }
        zeros(&bytes[end..*begin]).map_err(|at| format!("{pair}: byte {} is not zero", end + at))?;
        end = begin + island.len();
    }
    zeros(&bytes[end..]).map_err(|at| format!("{pair}: byte {} is not zero", end + at))?;
    let memory = resident().map_or(String::new(), |bytes| format!(", {} MB of memory", bytes >> 20));
    Ok(format!(
        "{pair}: {} values and {} zeros compared, cast in {seconds:.1} s{memory}",
        islands.len() * ISLAND,
        len - islands.len() * ISLAND
    ))
}

/// Whether all are zero.
///
/// # Errors
/// Where they are not, with the place of the first that is not.
fn zeros(bytes: &[u8]) -> Result<(), usize> {
    static NONE: [u8; 1 << 16] = [0; 1 << 16];
    for (nth, chunk) in bytes.chunks(NONE.len()).enumerate() {
        if *chunk != NONE[..chunk.len()] {
            return Err(nth * NONE.len() + chunk.iter().take_while(|&&byte| byte == 0).count());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_casts_are_compared() {
        let told = small(20_000).expect("no difference");
        assert!(told.starts_with("20000 small casts"), "{told}");
        let told = large(Ty::Uint8, Ty::Uint4, (1 << 20) + 5).expect("no difference");
        assert!(told.starts_with("uint8 -> uint4, 1048581 elements: 12288 values and 1036293 zeros"), "{told}");
    }

    #[test]
    fn a_byte_that_is_not_zero_is_found() {
        let mut bytes = vec![0; 200_000];
        assert_eq!(zeros(&bytes), Ok(()));
        bytes[150_001] = 1;
        assert_eq!(zeros(&bytes), Err(150_001));
    }

    #[test]
    fn a_wrong_result_is_a_fault() {
        let mut case = Small::new(&mut Rng::new(1));
        case.want.push(0);
        assert!(case.run(0, &mut Vec::new(), &mut Strings::new()).is_err());
    }
}
