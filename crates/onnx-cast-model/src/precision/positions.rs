//! Positions, lengths, times, shapes and indices: numbers that come from integers or become integers. float16 counts
//! to 2048 and bfloat16 to 256, so what computes them stays float.

use super::pins::Reason;
use super::variables::Variables;
use crate::graph::dataflow::{Dataflow, Fact, Giver, Node};
use crate::operators::{Flag, Position};
use onnx_cast::DataType;

/// Whether a value comes from integers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Counts {
    /// A constant, or a value that is not computed yet: a join takes the other fact.
    Either,
    Always,
    NotAlways,
}

impl Fact for Counts {
    const UNKNOWN: Counts = Counts::NotAlways;

    fn join(&self, other: &Counts) -> Counts {
        *self.max(other)
    }
}

/// Whether an integer may be beyond what the narrow types count to.
fn is_wide_integer(data_type: Option<DataType>) -> bool {
    use DataType::{Int16, Int32, Int64, Uint16, Uint32, Uint64};
    matches!(data_type, Some(Int16 | Int32 | Int64 | Uint16 | Uint32 | Uint64))
}

/// Whether a node passes on the numbers that it reads, or simple functions of them.
fn hands_on(node: &Node<'_, '_, '_>) -> bool {
    let traits = node.step.traits;
    matches!(traits.position, Some(Position::Traced | Position::Given))
        || [Flag::Picks, Flag::Arranges, Flag::Updates].iter().any(|&flag| traits.is(flag))
}

/// Pins what computes positions.
pub(crate) fn pin(variables: &mut Variables<'_, '_, '_>, model: &Dataflow<'_, '_, '_>) {
    let (given, wanted) = (given(variables, model), wanted(model));
    let is_position = |value: usize| given[value] == Counts::Always || wanted[value];
    for node in &model.nodes {
        let is_wanted = hands_on(node) && node.outputs.iter().flatten().any(|&value| wanted[value]);
        let is_known = hands_on(node) || node.step.traits.position.is_some();
        let reads = is_known && of_inputs(variables, model, node, &given) == Counts::Always;
        if let Some(variable) = variables.nodes[node.body][node.at].filter(|_| is_wanted || reads || gives(model, node))
        {
            variables.pins.wide(variable, Reason::Position);
        }
    }
    // No node pins a value that only crosses the boundary of a graph.
    for (at, value) in model.values.iter().enumerate() {
        let crosses = !value.becomes.is_empty() || matches!(value.giver, Giver::Values(_));
        if let Some(variable) = variables.values[value.body][value.id].filter(|_| crosses && is_position(at)) {
            variables.pins.wide(variable, Reason::Position);
        }
    }
    // A constant that is cast to an integer must not be rounded first.
    let pins = &mut variables.pins;
    for reading in &mut variables.readings {
        let value = model.value(reading.body, reading.value);
        if reading.takes_any && wanted[value] && variables.constants[reading.body].contains(&reading.value) {
            reading.takes_any = false;
            pins.wide(reading.variable, Reason::Position);
        }
    }
}

/// Whether a node computes positions from any input.
fn gives(model: &Dataflow<'_, '_, '_>, node: &Node<'_, '_, '_>) -> bool {
    let is_integer = is_wide_integer(node.input(0).and_then(|value| model.data_type(value)));
    (node.step.node.is("Cast") && is_integer) || node.step.traits.position == Some(Position::Given)
}

/// The joined fact of a node's floating-point inputs.
fn of_inputs(
    variables: &Variables<'_, '_, '_>,
    model: &Dataflow<'_, '_, '_>,
    node: &Node<'_, '_, '_>,
    facts: &[Counts],
) -> Counts {
    let is_float = |&&value: &&usize| variables.values[node.body][model.values[value].id].is_some();
    node.inputs.iter().flatten().filter(is_float).map(|&value| facts[value]).max().unwrap_or(Counts::NotAlways)
}

/// Whether each value comes from integers.
fn given(variables: &Variables<'_, '_, '_>, model: &Dataflow<'_, '_, '_>) -> Vec<Counts> {
    let is_constant = |value: usize| variables.constants[model.values[value].body].contains(&model.values[value].id);
    let known = |value: usize| {
        if is_constant(value) || model.is_given(value) { Counts::Either } else { Counts::NotAlways }
    };
    model.forward((0..model.values.len()).map(known).collect(), |node, output, facts| {
        let is_carried = hands_on(node) || matches!(node.step.traits.position, Some(Position::Carried));
        match node.outputs[output] {
            Some(value) if is_constant(value) => Counts::Either,
            _ if gives(model, node) => Counts::Always,
            _ if is_carried => of_inputs(variables, model, node, facts),
            _ => Counts::NotAlways,
        }
    })
}

/// Whether each value becomes an integer.
fn wanted(model: &Dataflow<'_, '_, '_>) -> Vec<bool> {
    model.backward(vec![false; model.values.len()], |node, _, facts| {
        let output = node.outputs.first().copied().flatten();
        let is_integer = output.is_some_and(|value| is_wide_integer(model.data_type(value)));
        let is_wanted = hands_on(node) && node.outputs.iter().flatten().any(|&value| facts[value]);
        (node.step.node.is("Cast") && is_integer) || is_wanted
    })
}
