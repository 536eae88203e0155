//! Rounds of casts between numbers: on every backend, through every way in, cut among threads, there and back.

use super::counts::Counts;
use super::{State, draw};
use crate::claim::Claim;
use onnx_cast::backend;
use onnx_cast::ops::Operator;
use onnx_cast::{BitCast, Cast, CastLike, CastOptions, Plan, Tensor, TensorView};
use testkit::generators::Rng;
use testkit::library::data_type;
use testkit::library::scalar::scalar_cast;
use testkit::packing::{pack, packed_len};
use testkit::{Direct, Rules, Ty};

/// Bytes beside a result that must stay as they were.
const CANARY: usize = 64;
const UNTOUCHED: u8 = 0xa5;

/// Some values of some pair with some settings, by the scalar cast and on every backend.
pub(super) fn short(rng: &mut Rng, state: &State, counts: &mut Counts) -> Result<(), String> {
    let (from, to) = (draw::numeric(rng), draw::numeric(rng));
    let rules = draw::rules(rng, from, to);
    let len = draw::length(rng);
    let values = draw::values(rng, from, to, len);
    let mut results = vec![0; len];
    Direct::new(from, to, &rules).cast_all(&values, &mut results);
    let (source, want) = (pack(from, &values), pack(to, &results));
    let threads = draw::threads(rng);

    for (nth, backend) in backend::available().enumerate() {
        let claim = Claim { from, to, rules, backend };
        let cast = Cast::new(data_type(to), &claim.options()).map_err(|error| format!("{claim}: {error}"))?;
        if nth == 0 {
            let scalar = scalar_cast(data_type(from), data_type(to), &cast.rules(), &values);
            if let Some(i) = (0..len).find(|&i| scalar[i] != results[i]) {
                let (value, got, want) = (values[i], scalar[i], results[i]);
                return Err(format!("the scalar cast, {claim}: {value:#x} gives {got:#x}, want {want:#x}"));
            }
            counts.scalar += len as u64;
        }
        let shape = draw::shape(rng, len);
        let got = state.pool.install(|| some_way(rng, &claim, threads, &shape, &source));
        let got = got.map_err(|error| format!("{claim}, shape {shape:?}: {error}"))?;
        if got != want {
            let difference = claim.difference(len, &source, &got, &want);
            return Err(format!("{claim}, {threads} threads, shape {shape:?}: {difference}"));
        }
        counts.casts += 1;
        counts.elements += len as u64;
    }
    Ok(())
}

/// Casts through one of the ways in, drawn at random.
fn some_way(rng: &mut Rng, claim: &Claim, threads: usize, shape: &[usize], source: &[u8]) -> Result<Vec<u8>, String> {
    let told = |error: &dyn std::error::Error| error.to_string();
    let options = claim.options().threads(threads);
    let (from, to) = (data_type(claim.from), data_type(claim.to));
    let cast = Cast::new(to, &options).map_err(|error| told(&error))?;
    let view = TensorView::new(from, shape, source).map_err(|error| told(&error))?;
    let bytes = |tensor: Tensor| tensor.bytes().unwrap_or_default().to_vec();
    match rng.below(6) {
        0 => cast.run(&view).map(bytes).map_err(|error| told(&error)),
        1 => cast.run_owned(view.to_tensor()).map(bytes).map_err(|error| told(&error)),
        2 if takes_like(&options, claim) => {
            let like = CastLike::new(&options).map_err(|error| told(&error))?;
            like.run(&view, to).map(bytes).map_err(|error| told(&error))
        }
        _ => {
            let plan = cast.plan(from).map_err(|error| told(&error))?;
            // Anywhere in memory: results at the distance of a canary from other bytes, and of the same from them.
            let (src_at, dst_at) = (rng.below(64) as usize, CANARY + rng.below(64) as usize);
            let mut memory = vec![UNTOUCHED; src_at];
            memory.extend_from_slice(source);
            placed(&plan, shape, &memory[src_at..], dst_at)
        }
    }
}

/// Whether CastLike has the types at this opset; its rules are then Cast's.
fn takes_like(options: &CastOptions, claim: &Claim) -> bool {
    let operator = Operator::CastLike;
    let types = [data_type(claim.from), data_type(claim.to)];
    operator.version_at(options.opset).is_ok_and(|version| types.iter().all(|&ty| operator.supports(version, ty)))
}

/// Casts into the middle of a buffer, whose other bytes must stay.
fn placed(plan: &Plan, shape: &[usize], source: &[u8], at: usize) -> Result<Vec<u8>, String> {
    let view = TensorView::new(plan.source_type(), shape, source).map_err(|error| error.to_string())?;
    let len = plan.target_type().byte_len(view.len()).ok_or("a length that does not fit")?;
    let mut memory = vec![UNTOUCHED; at + len + CANARY];
    plan.run_into(&view, &mut memory[at..at + len]).map_err(|error| error.to_string())?;
    let untouched = |bytes: &[u8]| bytes.iter().all(|&byte| byte == UNTOUCHED);
    if !untouched(&memory[..at]) || !untouched(&memory[at + len..]) {
        return Err(format!("bytes beside the result, at byte {at}, are overwritten"));
    }
    memory.truncate(at + len);
    memory.drain(..at);
    Ok(memory)
}

/// A tensor that is cut among threads, and may be more than the caches hold: some values over and over.
pub(super) fn long(rng: &mut Rng, state: &State, counts: &mut Counts) -> Result<(), String> {
    let (from, to) = (draw::numeric(rng), draw::numeric(rng));
    let rules = draw::rules(rng, from, to);
    // Whole bytes in every type, and no multiple of what a step takes.
    let unit = 8 * (1 + 2 * rng.below(600) as usize);
    let values = draw::values(rng, from, to, unit);
    let mut results = vec![0; unit];
    Direct::new(from, to, &rules).cast_all(&values, &mut results);
    let most = (64 << 23) / (from.bits() + to.bits()) as usize;
    let len = unit + rng.below((most - unit) as u64) as usize;
    let repeated = |ty: Ty, values: &[u64]| {
        let mut bytes = pack(ty, values).repeat(len / unit);
        bytes.extend(pack(ty, &values[..len % unit]));
        bytes
    };
    let (source, want) = (repeated(from, &values), repeated(to, &results));
    let backends: Vec<_> = backend::available().collect();
    let claim = Claim { from, to, rules, backend: draw::pick(rng, &backends) };
    let threads = draw::threads(rng);
    let cast = Cast::new(data_type(to), &claim.options()).map_err(|error| format!("{claim}: {error}"))?;
    let plan = cast.with_threads(threads).plan(data_type(from)).map_err(|error| format!("{claim}: {error}"))?;
    let at = CANARY + rng.below(64) as usize;
    let got = state.pool.install(|| placed(&plan, &[len], &source, at)).map_err(|error| format!("{claim}: {error}"))?;
    if got != want {
        let difference = claim.difference(len, &source, &got, &want);
        return Err(format!("{claim}, {threads} threads, {len} elements to byte {at}: {difference}"));
    }
    counts.casts += 1;
    counts.elements += len as u64;
    Ok(())
}

/// Whether BitCast goes from one to the other.
fn same_bits(from: Ty, to: Ty) -> bool {
    from.bits() == to.bits() && from.bit_cast() && to.bit_cast()
}

/// To a type that holds every value, and back; or the bits to another type of their width, and back.
pub(super) fn there_and_back(rng: &mut Rng, counts: &mut Counts) -> Result<(), String> {
    let (from, to) = loop {
        let (from, to) = (draw::numeric(rng), draw::numeric(rng));
        if from != to && (data_type(from).is_lossless_to(data_type(to)) || same_bits(from, to)) {
            break (from, to);
        }
    };
    let len = draw::length(rng);
    // Of the bytes of a bool, those for false and true come back.
    let mask = if from == Ty::Bool { 1 } else { from.mask() };
    let values: Vec<u64> = draw::values(rng, from, to, len).iter().map(|value| value & mask).collect();
    let source = pack(from, &values);
    let shape = draw::shape(rng, len);
    let pair = format!("{} -> {} -> {}, shape {shape:?}", from.name(), to.name(), from.name());
    let tensor = Tensor::new(data_type(from), shape, source.clone()).map_err(|error| format!("{pair}: {error}"))?;
    let (back, want) = if data_type(from).is_lossless_to(data_type(to)) {
        let backends: Vec<_> = backend::available().collect();
        let cast = |to: Ty, rng: &mut Rng| {
            // What lies between must not be saturated: an infinity is a value too.
            let options = CastOptions::new().saturate(false).backend(draw::pick(rng, &backends));
            Cast::new(data_type(to), &options)
        };
        let there = cast(to, rng).map_err(|error| format!("{pair}: {error}"))?;
        let back = cast(from, rng).map_err(|error| format!("{pair}: {error}"))?;
        let done = there.run(&tensor.view()).and_then(|between| back.run_owned(between));
        (done, quiet(from, to, &source, len))
    } else {
        let there = BitCast::new(data_type(to), 26).and_then(|there| Ok((there, BitCast::new(data_type(from), 26)?)));
        let (there, back) = there.map_err(|error| format!("{pair}: {error}"))?;
        (there.run(&tensor.view()).and_then(|between| back.run_owned(between)), source)
    };
    let back = back.map_err(|error| format!("{pair}: {error}"))?;
    if back.bytes() != Some(&want[..]) || back.shape() != tensor.shape() {
        return Err(format!("{pair}: it does not come back as it was"));
    }
    counts.returned += len as u64;
    Ok(())
}

/// The bytes as they come back: a signalling NaN is quiet then, and its payload what there was room for, by the oracle;
/// every other value is as it was.
fn quiet(from: Ty, to: Ty, source: &[u8], len: usize) -> Vec<u8> {
    let rules = Rules { saturate: false, ..Rules::default() };
    let (there, back) = (Direct::new(from, to, &rules), Direct::new(to, from, &rules));
    let values = testkit::packing::unpack(from, source, len).unwrap_or_default();
    let returned: Vec<u64> = values
        .iter()
        .map(|&value| {
            let number = testkit::exact::decode(from, value);
            if matches!(number, testkit::exact::Number::NaN { .. }) { back.cast(there.cast(value)) } else { value }
        })
        .collect();
    debug_assert_eq!(packed_len(from, len), source.len());
    pack(from, &returned)
}
