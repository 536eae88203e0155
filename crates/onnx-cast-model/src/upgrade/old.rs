//! What changed up to version 7: broadcasting that had to be asked for, hints that a runtime might write over an input,
//! and modes of training.

use super::draft::{Draft, Given, Refusal};
use super::site::Site;
use super::steps::Done;
use crate::messages::attribute::kind;
use onnx_cast::DataType;

/// `consumed_inputs` was a hint to a runtime.
pub(super) fn consumed<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let had = draft.has("consumed_inputs");
    draft.remove("consumed_inputs");
    Ok(had.then_some("`consumed_inputs` is gone"))
}

/// Version 7 broadcasts as numpy does. So did the versions before it where they were asked to, unless `axis` placed the
/// second input elsewhere than at the last axes of the first.
pub(super) fn broadcast<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let had = draft.has("broadcast") || draft.has("axis");
    let asked = draft.int("broadcast")?.known("broadcast")?.unwrap_or(0) != 0;
    if asked && let Some(axis) = draft.int("axis")?.known("axis")? {
        let ranks = [0, 1].map(|place| site.known.rank(draft.input(place)?));
        let [Some(a), Some(b)] = ranks else {
            return Err(format!("broadcasts its second input from the last axis on, and from axis {axis} before"));
        };
        // A negative axis counts from the back.
        let at = if axis < 0 { axis + a as i64 } else { axis };
        if at + b as i64 != a as i64 {
            return Err(format!("broadcasts its second input from the last axis on, and from axis {axis} before"));
        }
    }
    draft.remove("broadcast");
    draft.remove("axis");
    Ok(had.then_some("`broadcast` and `axis` are gone"))
}

/// The slope of PRelu was one for all, or one for each channel; now it is broadcast from the last axis on.
pub(super) fn prelu<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let slope = draft.required(1)?;
    match site.known.floats(&slope, site.files) {
        Some(slopes) if slopes.len() == 1 => Ok(None),
        _ => Err("broadcasts its slope from the last axis on, and by channel before".to_owned()),
    }
}

/// A Dropout that drops has other results in every run.
pub(super) fn dropout_test<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    match draft.int("is_test")?.known("is_test")? {
        Some(is_test) if is_test != 0 => draft.remove("is_test"),
        _ => return Err("it drops elements at random (`is_test` is 0)".to_owned()),
    }
    Ok(Some("`is_test` is gone"))
}

/// `output_sequence` told whether an output is given, as its name does now.
pub(super) fn output_sequence<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let had = draft.has("output_sequence");
    draft.remove("output_sequence");
    Ok(had.then_some("`output_sequence` is gone"))
}

/// Cast-1 has the name of its type, version 6 the number.
pub(super) fn cast<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let name = draft.string("to")?.known("to")?.ok_or("its attribute `to` is missing")?;
    let to = DataType::ALL.iter().find(|data_type| data_type.name().eq_ignore_ascii_case(&name));
    let to = to.ok_or_else(|| format!("its type `{name}` is not known"))?;
    draft.set_int("to", to.onnx().into());
    Ok(Some("`to` is a number"))
}

/// The axis of Concat was 1 where it was not told.
pub(super) fn concat<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    if draft.has("axis") {
        return Ok(None);
    }
    draft.set_int("axis", 1);
    Ok(Some("`axis` is set"))
}

/// `paddings` of Pad is `pads`.
pub(super) fn pads<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let pads = draft.ints("paddings")?.known("paddings")?.ok_or("its attribute `paddings` is missing")?;
    draft.remove("paddings");
    draft.set("pads", kind::INTS, crate::edits::NewAttribute::ints("pads", &pads));
    Ok(Some("`paddings` is `pads`"))
}

/// The exponent of LpPool is an integer.
pub(super) fn exponent<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let Given::Value(p) = draft.float("p")? else { return draft.float("p")?.known("p").map(|_| None) };
    if p.fract() != 0.0 || p.abs() > 1e6 {
        return Err(format!("takes integers for `p`, which is {p}"));
    }
    draft.set_int("p", p as i64);
    Ok(Some("`p` is an integer"))
}

/// The defaults of Selu have more digits.
pub(super) fn selu<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    consumed(draft, site)?;
    for (name, value) in [("alpha", 1.6732_f32), ("gamma", 1.0507)] {
        if !draft.has(name) {
            draft.set(name, kind::FLOAT, crate::edits::NewAttribute::float(name, value));
        }
    }
    Ok(Some("`alpha` and `gamma` are set to their old defaults"))
}

/// Split-1 may read the lengths of its parts.
pub(super) fn split<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    if draft.input(1).is_some() {
        return Err("has no input for the lengths of its parts".to_owned());
    }
    Ok(None)
}
