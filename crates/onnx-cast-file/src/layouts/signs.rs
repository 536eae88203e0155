//! By what a checkpoint is known to be quantized, in the layouts that are read here and in those of others. A cast or a
//! quantization of it would change codes without their scales, or the other way round.

use super::spec::{COMFY_QUANT, LayoutSpec, ZERO_POINTS, before};
use super::table::Layout;
use crate::checkpoint::Checkpoint;
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::text::{Short, Wording};
use DataType::{BFloat16, Bool, Complex64, Complex128, Double, Float, Float16, Int16, Int64, String as Text, Uint16};
use onnx_cast::DataType;
use std::collections::HashMap;
use std::path::Path;

/// Layouts that are not read here: what the names of codes end in, and those of the tensors beside them.
const FOREIGN: &[(&str, &[&str], &str)] = &[
    ("qweight", &["scales", "qzeros", "g_idx", "scaled_zeros"], "GPTQ or AWQ"),
    ("weight", &["weight_scales"], "EETQ"),
];

/// A tensor of codes, and those that it has no meaning without.
struct Sign<'n> {
    codes: usize,
    beside: Vec<usize>,
    first: &'n str,
    /// The layout, unless several have these names.
    layout: Option<&'static str>,
}

/// The name of a tensor, its type and the number of its axes.
pub(crate) type Header<'n> = (&'n str, DataType, usize);

/// The quantized weights among tensors, as far as names and types tell.
fn signs<'n>(tensors: &[Header<'n>]) -> Vec<Sign<'n>> {
    let places: HashMap<&str, usize> = tensors.iter().enumerate().map(|(index, (name, ..))| (*name, index)).collect();
    let sign = |(codes, &(name, data_type, _)): (usize, &Header<'n>)| {
        let beside = |start: &str, ends: &[&str]| -> Vec<usize> {
            ends.iter().filter_map(|end| places.get(&*format!("{start}{end}")).copied()).collect()
        };
        let mut own = Layout::ALL.iter().filter_map(|(layout, known)| {
            // GPTQ and AWQ have the same names.
            let is_shared = |spec: &&LayoutSpec| spec.columns.is_some_and(|columns| columns.is_auto_gptq);
            let spec = Some(layout.spec()).filter(|spec| !is_shared(spec))?;
            let mut all = spec.all_names().filter(|_| is_code(data_type) || spec.has_any_type);
            all.find_map(|names| {
                let start = before(name, names.elements)?;
                let ends = [names.scales, "weight_scale_2", "weight_global_scale", ZERO_POINTS, COMFY_QUANT];
                let found = [beside(start, &ends), beside(start, spec.beside)].concat();
                (places.contains_key(&*format!("{start}{}", names.scales))).then_some((found, Some(*known)))
            })
        });
        let own = own.next().map(|(found, known)| (found, known.filter(|_| own.next().is_none())));
        let foreign = || {
            let mut known = FOREIGN.iter().filter(|_| is_code(data_type));
            known.find_map(|(codes, ends, layout)| {
                let found = beside(before(name, codes)?, ends);
                (!found.is_empty()).then_some((found, Some(*layout)))
            })
        };
        let (beside, layout) = own.or_else(foreign)?;
        let first = tensors[*beside.first()?].0;
        Some(Sign { codes, beside, first, layout })
    };
    tensors.iter().enumerate().filter_map(sign).collect()
}

/// Finds the tensors of each quantized weight by names and types. Returns the index of the codes and the indices of
/// their companions.
pub(crate) fn companions(tensors: &[Header<'_>]) -> impl Iterator<Item = (usize, Vec<usize>)> {
    signs(tensors).into_iter().map(|Sign { codes, beside, .. }| (codes, beside))
}

/// The names of the first tensor that looks like codes and of a tensor that belongs to it, and the layout if only one
/// has such names.
pub(super) fn first_sign(checkpoint: &Checkpoint) -> Option<(&str, &str, Option<&'static str>)> {
    let tensors = checkpoint.tensors().map(|(_, stored)| stored);
    let known: Vec<Header<'_>> = tensors.map(|stored| (&*stored.name, stored.data_type, stored.shape.len())).collect();
    let Sign { codes, first, layout, .. } = signs(&known).into_iter().next()?;
    Some((known[codes].0, first, layout))
}

/// Whether a type may hold codes that are no values.
fn is_code(data_type: DataType) -> bool {
    let others = [Float, Double, Float16, BFloat16, Bool, Text, Complex64, Complex128, Int16, Uint16, Int64];
    !others.contains(&data_type)
}

/// Refuses to quantize a checkpoint that is quantized, by its tensors, or by its configuration if there are tensors
/// that may hold codes.
pub(crate) fn check_plain(checkpoint: &Checkpoint) -> Result<(), FileError> {
    let tensors: Vec<_> = checkpoint.tensors().collect();
    let known: Vec<Header<'_>> =
        tensors.iter().map(|(_, stored)| (&*stored.name, stored.data_type, stored.shape.len())).collect();
    let refuse = |index: usize, told: String| {
        let what = format!("the checkpoint is quantized already ({told}): dequantize it first");
        let error = Invalid::new(InvalidKind::Quantized, what).of_tensor(known[index].0);
        Err(checkpoint.error(Some(tensors[index].0), error))
    };
    if let Some(Sign { codes, first, layout, .. }) = signs(&known).into_iter().next() {
        return refuse(
            codes,
            format!("{}by `{}`", layout.map_or_else(String::new, |layout| format!("{layout}, ")), Short(first)),
        );
    }
    let may_be_code = |&(_, data_type, axes): &Header<'_>| is_code(data_type) && axes >= 2;
    match known.iter().position(may_be_code).zip(checkpoint.claim()) {
        Some((index, claim)) => refuse(index, claim),
        None => Ok(()),
    }
}

/// Refuses casts of codes without their scales, or of scales without their codes. `tensors` lists all tensors of a
/// checkpoint, each with its type in the output.
pub(crate) fn check_cast(path: &Path, tensors: &[(Header<'_>, DataType)]) -> Result<(), FileError> {
    let is_changed = |((_, from, _), to): &(Header<'_>, DataType)| from != to;
    if !tensors.iter().any(is_changed) {
        return Ok(());
    }
    let known: Vec<Header<'_>> = tensors.iter().map(|(header, _)| *header).collect();
    for Sign { codes, beside, first, layout } in signs(&known) {
        if let Some(&index) = std::iter::once(&codes).chain(&beside).find(|index| is_changed(&tensors[**index])) {
            let other = if index == codes { first } else { known[codes].0 };
            let layout = layout.map_or_else(String::new, |layout| format!(" ({layout})"));
            let what = format!(
                "a part of a quantized weight{layout}, with `{}`: cast apart they would be wrong (dequantize the \
                 checkpoint first; ",
                Short(other)
            );
            let what = Wording::from(what).field("exclude", " keeps tensors as they are)");
            return Err(FileError::invalid(path, Invalid::new(InvalidKind::Quantized, what).of_tensor(known[index].0)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{Float8E4M3FN, Int8, Int32, Uint8, Uint32};

    #[test]
    fn layouts_are_known_by_their_names_and_types() {
        for (codes, beside, layout) in [
            (("m.weight_packed", Int32), ("m.weight_scale", BFloat16), "compressed-tensors"),
            (("m.weight", Float8E4M3FN), ("m.weight_scale_inv", Float), "deepseek"),
            (("m.weight", Int8), ("m.weight_scale", Float), ""),
            (("m.weight", Float8E4M3FN), ("m.weight_scale", Float), ""),
            (("m.gate_up_proj_blocks", Uint8), ("m.gate_up_proj_scales", Uint8), "gpt-oss"),
            (("m.weight", Float8E4M3FN), ("m.scale_weight", Float), "comfyui"),
            (("m.qweight", Int32), ("m.scales", Float16), "GPTQ or AWQ"),
            (("m.weight", Uint32), ("m.scales", BFloat16), "mlx"),
            (("m.weight", Int8), ("m.SCB", Float), "bitsandbytes"),
            (("m.weight", Uint8), ("m.weight.absmax", Float), "bitsandbytes"),
            (("m.weight", BFloat16), ("m.weight.absmax", Uint8), "bitsandbytes"),
            (("m.W_q", Uint8), ("m.scale", Float16), "hqq"),
        ] {
            let known = [(codes.0, codes.1, 2), (beside.0, beside.1, 2), ("m.bias", Float, 1)];
            let found = signs(&known);
            let found: Vec<_> =
                found.iter().map(|sign| (sign.codes, &sign.beside[..], sign.layout.unwrap_or_default())).collect();
            assert_eq!(found, [(0, &[1][..], layout)], "{codes:?}");
        }
        for plain in [
            [("m.weight", Float), ("m.weight_scale", Float)],
            [("m.weight", BFloat16), ("m.scales", BFloat16)],
            [("m.weight", Float8E4M3FN), ("n.weight_scale", Float)],
            [("attn.bias", Uint8), ("attn.scale", Float)],
            [("x.scales", Float), ("x.biases", Float)],
        ] {
            assert!(signs(&plain.map(|(name, data_type)| (name, data_type, 2))).is_empty(), "{plain:?}");
        }
    }
}
