//! The values that a claim is tried on.

use super::Plan;
use super::claim::Claim;
use super::share::share;
use onnx_cast::backend::Backend;
use onnx_cast::tensor::{Data, Strings};
use onnx_cast::{Cast, CastOptions, DataType, TensorView};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::exact::{Number, decode};
use testkit::generators::{near_ties, random, random_scaled};
use testkit::library::data_type;
use testkit::packing::{pack_into, packed_len};
use testkit::{Direct, Ty, Walker};

/// Elements in a block: small enough for the nearest caches, and a multiple of 8, so that it is whole bytes.
pub(super) const BLOCK: usize = 1 << 14;

/// Random values of each 64-bit source to each target. Half of them are uniformly random patterns, half of a random
/// scale, so that the narrow targets' ranges are met.
const RANDOM: usize = 100_000_000;

/// Values beside the points where a target's results change, of each 64-bit source to each target.
const NEAR_TIES: usize = 1_000_000;

/// Random values of each type that go to string and back.
const TEXTS: usize = 10_000_000;

/// How many values were compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Compared {
    /// In the order of bit patterns, from the first to the last.
    pub(super) walked: u64,
    /// At random.
    pub(super) random: u64,
    /// Beside the points where results change.
    pub(super) near_ties: u64,
}

impl fmt::Display for Compared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [(self.walked, "values"), (self.random, "random values"), (self.near_ties, "near ties")];
        let mut parts = parts.iter().filter(|(count, _)| *count > 0);
        if let Some((count, name)) = parts.next() {
            write!(f, "{count} {name}")?;
        }
        parts.try_for_each(|(count, name)| write!(f, " and {count} {name}"))
    }
}

/// Every value of a source of 32 bits or fewer.
pub(super) fn walk(claim: &Claim, plan: &Plan) -> Result<Compared, String> {
    let Claim { from, to, rules, .. } = *claim;
    // A thread takes a stretch of blocks at a time, in which its walker goes from run to run.
    const STRETCH: u64 = 1 << 10;
    let values = from.mask() + 1;
    let block = values.min(BLOCK as u64);
    let blocks = values / block;
    let walker = Walker::new(from, to, &rules);
    let state = || (claim.bench(), walker.clone(), Vec::new(), Vec::new());
    let walked = AtomicU64::new(0);
    share(plan.threads, blocks.div_ceil(STRETCH), state, |(bench, walker, source, want), stretch| {
        let end = blocks.min((stretch + 1) * STRETCH);
        for nth in (stretch * STRETCH..end).filter(|nth| nth % plan.stride == 0) {
            let first = nth * block;
            patterns(from, first, block as usize, source);
            walker.fill_packed(first, block as usize, want);
            bench.compare(block as usize, source, want)?;
            walked.fetch_add(block, Ordering::Relaxed);
        }
        Ok::<(), String>(())
    })?;
    Ok(Compared { walked: walked.into_inner(), ..Default::default() })
}

/// The bytes of the elements whose patterns are `first`, `first + 1`, ...
fn patterns(ty: Ty, first: u64, count: usize, bytes: &mut Vec<u8>) {
    if ty.bits() != 32 {
        bytes.clear();
        let elements: Vec<u64> = (first..first + count as u64).collect();
        return pack_into(ty, &elements, bytes);
    }
    bytes.resize(4 * count, 0);
    for (pattern, bytes) in (first as u32..).zip(bytes.chunks_exact_mut(4)) {
        bytes.copy_from_slice(&pattern.to_le_bytes());
    }
}

/// Random values and near ties of a 64-bit source.
pub(super) fn sample(claim: &Claim, plan: &Plan) -> Result<Compared, String> {
    let Claim { from, to, rules, .. } = *claim;
    let direct = Direct::new(from, to, &rules);
    let random_blocks = (RANDOM / plan.stride as usize).div_ceil(BLOCK);
    // Near ties take a microsecond each to find: they are shared out too, in pieces with a seed of their own.
    let tie_pieces = 10.min(NEAR_TIES / plan.stride as usize).max(1);
    let ties_in_piece = NEAR_TIES / plan.stride as usize / tie_pieces;
    let seed = u64::from(from as u8) << 56 | u64::from(to as u8) << 48;
    let state = || (claim.bench(), Vec::new(), vec![0; BLOCK], Vec::new());
    let (at_random, beside_ties) = (AtomicU64::new(0), AtomicU64::new(0));
    share(plan.threads, (tie_pieces + random_blocks) as u64, state, |(bench, source, results, want), piece| {
        let (values, count) = match (piece as usize).checked_sub(tie_pieces) {
            None => (near_ties(from, to, ties_in_piece, seed | piece), &beside_ties),
            Some(nth) if nth % 2 == 0 => (random(from, BLOCK, seed | piece), &at_random),
            Some(_) => (random_scaled(from, BLOCK, seed | piece), &at_random),
        };
        for values in values.chunks(BLOCK) {
            let results = &mut results[..values.len()];
            direct.cast_all(values, results);
            source.clear();
            pack_into(from, values, source);
            want.clear();
            pack_into(to, results, want);
            bench.compare(values.len(), source, want)?;
            count.fetch_add(values.len() as u64, Ordering::Relaxed);
        }
        Ok::<(), String>(())
    })?;
    Ok(Compared { random: at_random.into_inner(), near_ties: beside_ties.into_inner(), ..Default::default() })
}

/// Random values of float or double to string and back: the same bits, NaN as NaN.
pub(super) fn round_trips(ty: Ty, backend: Backend, plan: &Plan) -> Result<Compared, String> {
    let cast = |to, from| {
        let options = CastOptions::new().backend(backend);
        Cast::new(to, &options).and_then(|cast| cast.plan(from)).map_err(|error| error.to_string())
    };
    let (print, parse) = (cast(DataType::String, data_type(ty))?, cast(data_type(ty), DataType::String)?);
    let blocks = (TEXTS / plan.stride as usize).div_ceil(BLOCK) as u64;
    let is_nan = |bits| matches!(decode(ty, bits), Number::NaN { .. });
    let state = || (Strings::new(), Vec::new(), vec![0; packed_len(ty, BLOCK)]);
    let compared = AtomicU64::new(0);
    share(plan.threads, blocks, state, |(strings, source, back), piece| {
        let seed = u64::from(ty as u8) << 48 | piece;
        let values = if piece % 2 == 0 { random(ty, BLOCK, seed) } else { random_scaled(ty, BLOCK, seed) };
        source.clear();
        pack_into(ty, &values, source);
        let shape = [BLOCK];
        let numbers = TensorView::new(data_type(ty), &shape, source).map_err(|error| error.to_string())?;
        print.run_strings_into(&numbers, strings).map_err(|error| error.to_string())?;
        let texts = TensorView::strings(&shape, strings.view()).map_err(|error| error.to_string())?;
        parse.run_into(&texts, back).map_err(|error| error.to_string())?;
        compared.fetch_add(BLOCK as u64, Ordering::Relaxed);
        if back == source {
            return Ok(());
        }
        let back = testkit::packing::unpack(ty, back, BLOCK).unwrap_or_default();
        let Data::Strings(texts) = texts.data() else { return Err("no strings".to_owned()) };
        for ((value, back), text) in values.iter().zip(back).zip(texts.iter()) {
            if *value != back && !(is_nan(*value) && is_nan(back)) {
                return Err(format!("{value:#x} gives {:?}, read as {back:#x}", String::from_utf8_lossy(text)));
            }
        }
        Ok(())
    })?;
    Ok(Compared { random: compared.into_inner(), ..Default::default() })
}
