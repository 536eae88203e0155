//! Casts between versions whose rules differ, and types that operators no longer take.

use super::draft::{Done, Draft, Refusal};
use super::site::Site;
use crate::edits::{NewAttribute, NewNode};
use crate::tree::Document;
use onnx_cast::{Cast, CastLike, DataType};
use onnx_cast_file::__private::{Short, pb};

/// Whether the rules of casts to a type changed with version 24: infinity for the FNUZ types, NaN for float4e2m1.
fn has_changed(to: DataType) -> Option<&'static str> {
    match to {
        DataType::Float8E4M3FNUZ | DataType::Float8E5M2FNUZ => Some("IsInf"),
        DataType::Float4E2M1 => Some("IsNaN"),
        _ => None,
    }
}

/// Cast, by the library's own rules of each version: most differ only in the types that they take.
pub(super) fn cast<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let attributes = draft.lend();
    if draft.refers() {
        return if_nothing_changed(site, None).map(|()| None);
    }
    let rules = |opset| Cast::from_node(opset, &attributes).map_err(|error| error.to_string());
    let (old, new) = (rules(site.step - 1)?, rules(site.step)?);
    if old.rules() == new.rules() {
        return Ok(None);
    }
    let to = old.target_type();
    rewrite(draft, site, to)
}

/// The one value that is cast otherwise is replaced before the Cast: infinity by NaN, and NaN by the largest value.
fn rewrite<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>, to: DataType) -> Result<Done, Refusal> {
    let x = draft.required(0)?;
    let refuse = |why: &str| Err(format!("casts to {to} by other rules; {why}"));
    let (Some(test), 24) = (has_changed(to), site.step) else {
        return refuse("the old ones cannot be written in another way");
    };
    let number = if test == "IsInf" { f32::NAN } else { LARGEST_FLOAT4 };
    let (x, number) = match site.known.data_type(&x) {
        None => return refuse(&format!("the element type of `{}` is unknown", Short(&x))),
        Some(from) if from.is_float() && from.byte_len(1) >= Some(2) => {
            let number = site.number_like(draft, "instead", number, &x)?;
            (x, number)
        }
        Some(DataType::String) => return refuse("a string may be infinite"),
        // Every value of the narrow types is one of float, which IsInf and IsNaN take.
        Some(from) if from.is_float() => {
            let (cast, wide) = site.node(draft, "Cast", "as_float", vec![x]);
            draft.before.push(cast.with(NewAttribute::int("to", DataType::Float.onnx().into())));
            let bytes = number.to_le_bytes().to_vec();
            (wide, site.constant(draft, "instead", DataType::Float, vec![], bytes))
        }
        Some(_) => return Ok(None),
    };
    let (is_other, test) = site.node(draft, test, "is_other", vec![x.clone()]);
    let (select, selected) = site.node(draft, "Where", "as_before", vec![test, number, x]);
    let nodes: [NewNode<'_>; 2] = [is_other, select];
    draft.before.extend(nodes);
    draft.set_input(0, selected);
    Ok(Some("NaN and infinity are replaced before the Cast"))
}

/// The largest value of float4e2m1.
const LARGEST_FLOAT4: f32 = 6.0;

/// CastLike, whose target is another value's type.
pub(super) fn cast_like<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    let attributes = draft.lend();
    if !draft.refers() {
        CastLike::from_node(site.step - 1, &attributes).map_err(|error| error.to_string())?;
    }
    let like = draft.required(1)?;
    match site.known.data_type(&like) {
        Some(to) if site.step == 24 && has_changed(to).is_some() => rewrite(draft, site, to),
        to => if_nothing_changed(site, to).map(|()| None),
    }
}

/// Refuses a cast to a type whose rules changed, or to one that is not known in a model that has such a type anywhere.
pub(super) fn if_nothing_changed(site: &Site<'_, '_, '_>, to: Option<DataType>) -> Result<(), Refusal> {
    let changed = |data_type: &DataType| has_changed(*data_type).is_some();
    if site.step != 24 {
        return Ok(());
    }
    match to {
        Some(to) if changed(&to) => Err(format!("casts to {to} by other rules")),
        None if *site.shared.has_changed_casts.get_or_init(|| all_types(site.document).iter().any(changed)) => {
            Err("casts to some types by other rules, and its target is unknown".to_owned())
        }
        _ => Ok(()),
    }
}

/// Every type that the model mentions.
fn all_types(document: &Document<'_>) -> Vec<DataType> {
    let mut types = Vec::new();
    for graph in document.graphs() {
        let declared = graph.inputs.iter().chain(&graph.outputs).chain(&graph.value_info);
        types.extend(declared.filter_map(|declared| declared.data_type));
        types.extend(graph.initializers.iter().filter_map(|named| Some(pb::head(named.message).ok()?.data_type)));
        let attributes = graph.nodes.iter().flat_map(|node| &node.attributes);
        types.extend(attributes.filter_map(|attribute| match attribute.lend().value {
            onnx_cast::ops::AttributeValue::Int(number) => {
                DataType::from_onnx(number).filter(|one| has_changed(*one).is_some())
            }
            _ => None,
        }));
    }
    types
}

/// Refuses integers, which an operator no longer takes.
pub(super) fn no_integers<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    match site.known.data_type(&draft.required(0)?) {
        Some(data_type) if !data_type.is_float() => Err(format!("takes no {data_type} any more")),
        _ => Ok(None),
    }
}

/// From version 19 to 21 the scale is of the input's type, which int32 does not allow.
pub(super) fn quantize<'a>(draft: &mut Draft<'_, 'a>, site: &mut Site<'_, '_, 'a>) -> Result<Done, Refusal> {
    match site.known.data_type(&draft.required(0)?) {
        Some(DataType::Int32) if site.to < 23 => {
            Err("takes no int32 with a scale of float before version 23".to_owned())
        }
        _ => Ok(None),
    }
}
