//! Rounds of texts: numbers printed and read back, and texts where results change, as the oracle has them.

use super::counts::Counts;
use super::draw;
use onnx_cast::tensor::{Data, Strings};
use onnx_cast::{Cast, CastOptions, DataType, RoundMode, TensorView};
use testkit::exact::{Number, decode};
use testkit::generators::{NOT_NUMBERS, NUMBER_TEXTS, Rng, near_tie_texts};
use testkit::library::data_type;
use testkit::packing::{pack, unpack};
use testkit::{Rules, Ty, cast_from_string, cast_to_string};

/// Texts of a round that the oracle is asked about: it computes with big integers, at some microseconds each.
const SAMPLE: usize = 32;

pub(super) fn round(rng: &mut Rng, counts: &mut Counts) -> Result<(), String> {
    let ty = draw::numeric(rng);
    if rng.below(2) == 0 { print_and_read(rng, ty, counts) } else { read(rng, ty, counts) }
        .map_err(|fault| format!("{} and string: {fault}", ty.name()))
}

fn cast(to: DataType, from: DataType) -> Result<onnx_cast::Plan, String> {
    // Every value comes back by these: infinities are not saturated, and a decimal next to a power of two is that
    // power.
    let options = match to {
        DataType::Float8E8M0 => CastOptions::new().round_mode(RoundMode::Nearest),
        _ => CastOptions::new().saturate(false),
    };
    Cast::new(to, &options).and_then(|cast| cast.plan(from)).map_err(|error| error.to_string())
}

/// The settings of [`cast`], in the oracle's terms.
fn rules(to: Ty) -> Rules {
    let round_mode = testkit::RoundMode::Nearest;
    Rules { saturate: to == Ty::Float8E8M0, round_mode, ..Rules::default() }
}

/// Numbers to texts and back: the same numbers, NaN as NaN; a sample of the texts by the oracle.
fn print_and_read(rng: &mut Rng, ty: Ty, counts: &mut Counts) -> Result<(), String> {
    let len = draw::length(rng);
    // Bits of bool are those of a byte, of which 0 and 1 come back.
    let mask = if ty == Ty::Bool { 1 } else { ty.mask() };
    let values: Vec<u64> = draw::values(rng, ty, Ty::Float, len).iter().map(|value| value & mask).collect();
    let source = pack(ty, &values);
    let shape = draw::shape(rng, len);
    let numbers = TensorView::new(data_type(ty), &shape, &source).map_err(|error| error.to_string())?;
    let printed = cast(DataType::String, data_type(ty))?.run(&numbers).map_err(|error| error.to_string())?;
    let back = cast(data_type(ty), DataType::String)?.run(&printed.view()).map_err(|error| error.to_string())?;
    let back = unpack(ty, back.bytes().unwrap_or_default(), len).ok_or("not the bytes of the result")?;
    let view = printed.view();
    let Data::Strings(texts) = view.data() else { return Err("no strings".to_owned()) };
    let text = |i| String::from_utf8_lossy(texts.get(i).unwrap_or_default()).into_owned();
    let is_nan = |bits| matches!(decode(ty, bits), Number::NaN { .. });
    if let Some(i) = (0..len).find(|&i| values[i] != back[i] && !(is_nan(values[i]) && is_nan(back[i]))) {
        return Err(format!("{:#x} gives {:?}, read as {:#x}", values[i], text(i), back[i]));
    }
    for _ in 0..SAMPLE.min(len) {
        let i = rng.below(len as u64) as usize;
        let want = cast_to_string(ty, values[i]);
        if text(i) != want {
            return Err(format!("{:#x} gives {:?}, want {want:?}", values[i], text(i)));
        }
    }
    counts.returned += len as u64;
    counts.texts += 2 * len as u64;
    Ok(())
}

/// Texts at the edges of the grammar and where results change, read or refused as by the oracle.
fn read(rng: &mut Rng, ty: Ty, counts: &mut Counts) -> Result<(), String> {
    let near = near_tie_texts(ty, 600, rng.next_u64());
    let texts: Vec<&str> = (0..SAMPLE)
        .map(|_| match rng.below(8) {
            0 => draw::pick(rng, &NUMBER_TEXTS),
            1 => draw::pick(rng, &NOT_NUMBERS),
            _ => near[rng.below(near.len() as u64) as usize].as_str(),
        })
        .collect();
    let plan = cast(data_type(ty), DataType::String)?;
    let run = |texts: &[&str]| {
        let strings: Strings = texts.iter().map(|text| text.as_bytes()).collect();
        let shape = [texts.len()];
        let view = TensorView::strings(&shape, strings.view()).map_err(|error| error.to_string())?;
        plan.run(&view).map_err(|error| error.to_string())
    };
    let (mut good, mut want) = (Vec::new(), Vec::new());
    for text in texts {
        match cast_from_string(text, ty, &rules(ty)) {
            Ok(bits) => {
                good.push(text);
                want.push(bits);
            }
            Err(_) if run(&[text]).is_ok() => return Err(format!("{text:?} is read, and should be refused")),
            Err(_) => counts.refused += 1,
        }
    }
    let got = run(&good)?;
    let got = unpack(ty, got.bytes().unwrap_or_default(), good.len()).ok_or("not the bytes of the result")?;
    if let Some(i) = (0..good.len()).find(|&i| got[i] != want[i]) {
        return Err(format!("{:?} gives {:#x}, want {:#x}", good[i], got[i], want[i]));
    }
    counts.texts += good.len() as u64;
    Ok(())
}
