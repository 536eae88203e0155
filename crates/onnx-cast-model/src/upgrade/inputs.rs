//! Attributes that became inputs: axes, lengths, bounds and values.

use super::draft::{Done, Draft, Given, Refusal};
use super::site::Site;
use crate::messages::attribute::kind;
use onnx_cast::DataType;

/// `axes` of the Reduce operators and of Squeeze, which may be left out.
pub(super) fn axes<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let had = draft.has("axes");
    if let Some(axes) = site.ints_input(draft, "axes")? {
        draft.set_input(1, axes);
    }
    Ok(had.then_some("`axes` is an input"))
}

/// `axes` of Unsqueeze.
pub(super) fn unsqueeze<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let axes = match site.ints_input(draft, "axes")? {
        Some(axes) => axes,
        None => site.int64s(draft, "axes", &[]),
    };
    draft.set_input(1, axes);
    Ok(Some("`axes` is an input"))
}

/// `split` of Split.
pub(super) fn split<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let had = draft.has("split");
    if let Some(split) = site.ints_input(draft, "split")? {
        draft.set_input(1, split);
    }
    Ok(had.then_some("`split` is an input"))
}

/// Split-18 wants to be told how many parts there are where it is not told how long they are.
pub(super) fn num_outputs<'a>(draft: &mut Draft<'_, 'a>, _: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    if draft.input(1).is_some() {
        return Ok(None);
    }
    draft.inputs.truncate(1);
    draft.set_int("num_outputs", draft.outputs.len() as i64);
    Ok(Some("`num_outputs` is set"))
}

/// `min` and `max` of Clip. Where one is not given, the least or the largest number of the type holds in both.
pub(super) fn clip<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let x = draft.required(0)?;
    let mut moved = false;
    for (place, name) in [(1, "min"), (2, "max")] {
        if let Some(bound) = site.float_input(draft, name, &x)? {
            draft.set_input(place, bound);
            moved = true;
        }
    }
    Ok(moved.then_some("`min` and `max` are inputs"))
}

/// `pads` and `value` of Pad.
pub(super) fn pad<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let x = draft.required(0)?;
    let pads = site.ints_input(draft, "pads")?;
    // A scalar is padded by nothing.
    let pads = pads.unwrap_or_else(|| site.int64s(draft, "pads", &[]));
    draft.set_input(1, pads);
    // Modes other than constant ignore the value, which is 0 where it is not given.
    if matches!(draft.float("value")?, Given::Value(value) if value.to_bits() == 0) {
        draft.remove("value");
    }
    if let Some(value) = site.float_input(draft, "value", &x)? {
        draft.set_input(2, value);
    }
    Ok(Some("`pads` and `value` are inputs"))
}

/// `starts`, `ends` and `axes` of Slice.
pub(super) fn slice<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    for (place, name) in [(1, "starts"), (2, "ends")] {
        if !draft.has(name) {
            return Err(format!("its attribute `{name}` is missing"));
        }
        let list = site.ints_input(draft, name)?;
        let list = list.unwrap_or_else(|| site.int64s(draft, name, &[]));
        draft.set_input(place, list);
    }
    if let Some(axes) = site.ints_input(draft, "axes")? {
        draft.set_input(3, axes);
    }
    Ok(Some("`starts`, `ends` and `axes` are inputs"))
}

/// `k` of TopK.
pub(super) fn top_k<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let k = site.int_input(draft, "k")?.ok_or("its attribute `k` is missing")?;
    draft.set_input(1, k);
    Ok(Some("`k` is an input"))
}

/// The mask of a Dropout, which gets another type in version 10 and other values in version 12, and is of no use where
/// nothing is dropped.
pub(super) fn dropout_mask<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let Some(mask) = draft.outputs.get(1).filter(|mask| !mask.is_empty()) else { return Ok(None) };
    if site.known.is_read(mask) {
        return Err("its mask is read, which no version before 12 defines where nothing is dropped".to_owned());
    }
    draft.outputs[1].clear();
    Ok(Some("the mask, which nothing reads, is gone"))
}

/// `ratio` of Dropout.
pub(super) fn dropout_ratio<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let masked = dropout_mask(draft, site)?;
    let ratio = match draft.float("ratio")? {
        Given::Absent => return Ok(masked),
        Given::Value(ratio) => site.constant(draft, "ratio", DataType::Float, vec![], ratio.to_le_bytes().to_vec()),
        Given::Refers(to) => site.reference(draft, "ratio", ("value_float", kind::FLOAT), &to)?,
    };
    draft.remove("ratio");
    draft.set_input(1, ratio);
    Ok(Some("`ratio` is an input"))
}

/// `axis` of DFT, which is 1 where version 17 is not told it, and the last but one where version 20 is not.
pub(super) fn dft<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let axis = match draft.int("axis")? {
        Given::Refers(to) => site.reference(draft, "axis", ("value_int", kind::INT), &to)?,
        given => {
            let axis = given.known("axis")?.unwrap_or(1);
            site.constant(draft, "axis", DataType::Int64, vec![], axis.to_le_bytes().to_vec())
        }
    };
    draft.remove("axis");
    draft.set_input(2, axis);
    Ok(Some("`axis` is an input"))
}
