//! Positions, lengths, times, shapes and indices: numbers that come from integers or become integers. float16 counts
//! to 2048 and bfloat16 to 256, so what computes them stays float.

use super::pins::Reason;
use super::variables::Variables;
use crate::graph::values::Id;
use crate::operators::Position;
use onnx_cast::DataType;
use std::collections::HashSet;

/// Whether an integer may be beyond what the narrow types count to.
fn is_wide_integer(data_type: Option<DataType>) -> bool {
    use DataType::{Int16, Int32, Int64, Uint16, Uint32, Uint64};
    matches!(data_type, Some(Int16 | Int32 | Int64 | Uint16 | Uint32 | Uint64))
}

/// Pins what computes positions.
pub(crate) fn pin(variables: &mut Variables<'_, '_, '_>) {
    for place in 0..variables.typing.bodies.len() {
        let mut steps = forward(variables, place);
        steps.extend(backward(variables, place));
        for step in steps {
            if let Some(variable) = variables.nodes[place][step] {
                variables.pins.wide(variable, Reason::Position);
            }
        }
    }
}

/// Steps that compute with what integers became.
fn forward(variables: &Variables<'_, '_, '_>, place: usize) -> HashSet<usize> {
    let body = variables.body(place);
    let (mut positions, mut steps): (HashSet<Id>, HashSet<usize>) = (HashSet::new(), HashSet::new());
    for (at, step) in body.flow.steps.iter().enumerate() {
        let data_type = |id: &Id| body.types[*id].as_ref().and_then(|of_type| of_type.tensor());
        let from_integer = step.node.is("Cast")
            && step.inputs.first().is_some_and(|id| is_wide_integer(id.as_ref().and_then(data_type)));
        let mut floats = step
            .inputs
            .iter()
            .flatten()
            .filter(|id| variables.values[place][**id].is_some() && !variables.constants[place].contains(id));
        let position = step.traits.position;
        let all = position.is_some() && {
            let mut any = false;
            floats.all(|id| {
                any = true;
                positions.contains(id)
            }) && any
        };
        if from_integer || position == Some(Position::Given) || all {
            steps.insert(at);
            if position != Some(Position::Read) {
                positions.extend(step.outputs.iter().flatten());
            }
        }
    }
    steps
}

/// Steps that compute what becomes an integer.
fn backward(variables: &Variables<'_, '_, '_>, place: usize) -> HashSet<usize> {
    let body = variables.body(place);
    let (mut wanted, mut steps): (HashSet<Id>, HashSet<usize>) = (HashSet::new(), HashSet::new());
    for (at, step) in body.flow.steps.iter().enumerate().rev() {
        let output = step.outputs.first().copied().flatten();
        let data_type = output.and_then(|id| body.types[id].as_ref()).and_then(|of_type| of_type.tensor());
        let hands_on = output.is_some_and(|id| wanted.contains(&id)) && step.traits.position == Some(Position::Traced);
        if hands_on {
            steps.insert(at);
        }
        if hands_on || (step.node.is("Cast") && is_wide_integer(data_type)) {
            wanted.extend(step.inputs.iter().flatten());
        }
    }
    steps
}
