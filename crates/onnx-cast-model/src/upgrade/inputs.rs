//! Attributes that became inputs: axes, lengths, bounds and values. The rows are in `steps.rs`.

use super::draft::{Done, Draft, Given, Kind, Refusal};
use super::site::Site;
use onnx_cast::DataType;

/// An attribute that a version makes an input.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewInput {
    pub(super) attribute: &'static str,
    pub(super) kind: Kind,
    /// The place of the input.
    pub(super) place: usize,
    pub(super) otherwise: Otherwise,
}

/// What the input is where the attribute is not there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Otherwise {
    LeftOut,
    /// It is left out, which means 0, as the attribute may say too.
    Zero,
    /// The operator cannot do without the attribute, which may be an empty list.
    Refused,
    /// An empty list.
    Empty,
    Int(i64),
}

/// A row.
pub(super) const fn input(attribute: &'static str, kind: Kind, place: usize, otherwise: Otherwise) -> NewInput {
    NewInput { attribute, kind, place, otherwise }
}

/// Makes attributes inputs; whether there was anything to do.
pub(super) fn move_all<'a>(
    draft: &mut Draft<'_, 'a>,
    site: &mut Site<'_, '_, 'a>,
    rows: &[NewInput],
) -> Result<bool, Refusal> {
    let mut done = false;
    for &NewInput { attribute, kind, place, otherwise } in rows {
        if kind == Kind::LikeFirst {
            draft.required(0)?;
        }
        let had = draft.has(attribute);
        if let Otherwise::Zero = otherwise
            && matches!(draft.float(attribute)?, Given::Value(value) if value.to_bits() == 0)
        {
            draft.remove(attribute);
        }
        let given = site.input(draft, attribute, kind)?;
        let input = match otherwise {
            _ if given.is_some() => given,
            Otherwise::LeftOut | Otherwise::Zero => None,
            Otherwise::Refused if !had => return Err(format!("its attribute `{attribute}` is missing")),
            Otherwise::Refused | Otherwise::Empty => Some(site.int64s(draft, attribute, &[])),
            Otherwise::Int(value) => {
                Some(site.constant(draft, attribute, DataType::Int64, vec![], value.to_le_bytes().to_vec()))
            }
        };
        done |= had || input.is_some();
        input.into_iter().for_each(|input| draft.set_input(place, input));
    }
    Ok(done)
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
    let moved = move_all(draft, site, &[input("ratio", Kind::Float, 1, Otherwise::LeftOut)])?;
    Ok(if moved { Some("`ratio` is an input") } else { masked })
}
