//! Weights that operators read and that are not quantized, each with the reason.

use super::is_float;
use super::readings::{Calls, Found, site};
use crate::constant::{Constant, Site};
use crate::error::ModelError;
use crate::external::Files;
use crate::graph::values::{Flow, Origin};
use crate::operators::Flag;
use crate::tree::Document;
use crate::weights::MIN_SIZE;
use onnx_cast_file::{Selection, WeightFormat};
use std::collections::HashSet;

/// The skipped weights of a body, each with the reason. If no weight of the model was chosen, the list includes weights
/// that the request excludes.
pub(super) fn passed_over<'a>(
    (document, calls): (&Document<'a>, &Calls<'_, 'a>),
    flow: &Flow<'_, 'a>,
    chosen: &HashSet<(usize, Site)>,
    selection: &Selection<WeightFormat>,
    files: &'a Files<'a>,
) -> Result<Vec<(String, String)>, ModelError> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for Found { value, reading, .. } in calls.readings(flow)? {
        // Behind what arranges elements a weight is not looked for, but for Transpose, Identity and Cast.
        let (weights, between) = match flow.values[value].origin {
            Origin::Node(before, 0) if flow.steps[before].traits.is(Flag::Arranges) => {
                let step = &flow.steps[before];
                (step.inputs.iter().flatten().copied().collect(), Some(step.node.op_type))
            }
            _ => (vec![value], None),
        };
        for weight in weights {
            if site(flow, weight).is_none_or(|site| chosen.contains(&site)) {
                continue;
            }
            let Some((constant, is_input)) = Constant::of_value(flow, weight, files)? else { continue };
            let aside = aside(&constant, selection);
            if aside.is_some() && !chosen.is_empty() || !seen.insert(weight) {
                continue;
            }
            let reason = match (between, aside) {
                (_, Some(aside)) => aside,
                (Some(between), _) => format!("{between} is between it and {}", reading.operator),
                (None, _) if is_input && document.ir_version >= 4 => "an input, which callers may replace".to_owned(),
                (None, _) => continue,
            };
            found.push((constant.name.to_owned(), reason));
        }
    }
    Ok(found)
}

/// Why the request does not apply to a weight; `None` if it does.
fn aside(constant: &Constant<'_>, selection: &Selection<WeightFormat>) -> Option<String> {
    let (len, least) = (constant.len as u64, selection.min_elements.unwrap_or(MIN_SIZE));
    match &constant.shape[..] {
        _ if !is_float(constant.data_type) => {
            Some(format!("{}, not float, float16 or bfloat16", constant.data_type.name()))
        }
        [] | [_] => Some("it has fewer than two axes".to_owned()),
        _ if len < least => Some(format!("fewer than {least} elements")),
        _ if selection.target_if(constant.name, len, |_| true).is_none() => Some("no pattern selects it".to_owned()),
        _ => None,
    }
}
