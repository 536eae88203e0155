//! Weights that products read and that are not quantized, each with the reason.

use super::QuantizedConstant;
use crate::constant::Constant;
use crate::error::ModelError;
use crate::external::Files;
use crate::graph::values::{Flow, Id, Origin};
use crate::tree::{Document, Graph};
use crate::weights::MIN_SIZE;
use onnx_cast::DataType;
use onnx_cast_file::{QuantizedFormat, Selection};
use std::collections::HashSet;

/// Operators behind which a weight is not looked for.
const BETWEEN: &[&str] = &["Cast", "Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"];

/// The weights of a body that are passed over, by name.
pub(super) fn passed_over<'a>(
    document: &Document<'a>,
    body: &Graph<'a>,
    chosen: &[QuantizedConstant<'_>],
    selection: &Selection<QuantizedFormat>,
    files: &'a Files<'a>,
) -> Result<Vec<(String, String)>, ModelError> {
    let flow = Flow::of(body);
    let chosen: HashSet<(usize, usize)> = chosen.iter().map(|one| (one.graph, one.index)).collect();
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for step in &flow.steps {
        let Some(operator) = ["Conv", "Gemm", "MatMul"].into_iter().find(|one| step.node.is(one)) else { continue };
        for (place, id) in step.inputs.iter().take(2).enumerate().filter_map(|(place, id)| Some((place, (*id)?))) {
            let (weight, between) = match flow.values[id].origin {
                Origin::Node(before, 0) if BETWEEN.iter().any(|one| flow.steps[before].node.is(one)) => {
                    let Some(&Some(weight)) = flow.steps[before].inputs.first() else { continue };
                    (weight, Some(flow.steps[before].node.op_type))
                }
                _ => (id, None),
            };
            let Some((constant, is_node, is_input)) = constant_of(&flow, weight, &chosen, files)? else { continue };
            let is_float = matches!(constant.data_type, DataType::Float | DataType::Float16 | DataType::BFloat16);
            let len = constant.len as u64;
            let is_large = len >= selection.min_size.unwrap_or(MIN_SIZE) && constant.shape.len() >= 2;
            let is_meant = is_float && is_large && selection.target_if(constant.name, len, |_| true).is_some();
            if !is_meant || !seen.insert(weight) {
                continue;
            }
            let reason = match between {
                Some(between) => format!("{between} stands between it and {operator}"),
                None if is_node => "the value of a Constant node".to_owned(),
                None if place == 0 => format!("the left operand of {operator}"),
                None if is_input && document.ir_version >= 4 => "an input, which callers may replace".to_owned(),
                None => continue,
            };
            found.push((constant.name.to_owned(), reason));
        }
    }
    Ok(found)
}

/// A constant that is not chosen, whether a node gives it, and whether it is an input, too.
fn constant_of<'a>(
    flow: &Flow<'_, 'a>,
    id: Id,
    chosen: &HashSet<(usize, usize)>,
    files: &'a Files<'a>,
) -> Result<Option<(Constant<'a>, bool, bool)>, ModelError> {
    let value = &flow.values[id];
    match value.origin {
        Origin::Initializer(index, input) if !chosen.contains(&(value.graph, index)) => {
            let named = &flow.graphs[&value.graph].initializers[index];
            Ok(Some((Constant::of_tensor(named.name, named.message, files)?, false, input.is_some())))
        }
        Origin::Node(step, 0) => {
            Ok(Constant::of_node(flow.steps[step].node, files)?.map(|constant| (constant, true, false)))
        }
        _ => Ok(None),
    }
}
