//! What inference tells of the values that a node reads and gives: of a function, where it is the same for all calls.

use crate::constant::Constant;
use crate::error::ModelError;
use crate::external::Files;
use crate::graph::values::{Flow, Id};
use crate::tree::Document;
use crate::types::value::ValueType;
use crate::types::{Body, Typing};
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// What is known of the values of a body, by value: graphs within may give one name to values of different types and
/// ranks.
pub(super) struct BodyFacts<'t, 'a> {
    flow: Flow<'t, 'a>,
    /// The step of a node, by the number of its graph and its place there.
    steps: HashMap<(usize, usize), usize>,
    types: Vec<Option<DataType>>,
    ranks: Vec<Option<usize>>,
    /// Whether an initializer that is an input too may be replaced: from version 4 of the format on.
    inputs_replace: bool,
}

/// What is known where a node stands, of the values that it reads and gives.
#[derive(Clone, Copy)]
pub(super) struct At<'k, 't, 'a> {
    known: &'k BodyFacts<'t, 'a>,
    /// None of a node that the body does not have.
    step: Option<usize>,
}

/// The facts of the main graph and of every function, by the graph's number.
pub(super) fn facts<'t, 'a>(document: &'t Document<'a>) -> Result<HashMap<usize, BodyFacts<'t, 'a>>, ModelError> {
    let mut all: HashMap<usize, BodyFacts<'t, 'a>> = HashMap::new();
    for body in Typing::of_all(document)?.bodies {
        let graph = body.function.map_or(&document.graph, |place| &document.functions[place]);
        match all.entry(graph.id) {
            // The values of one body have the same places in each.
            Entry::Occupied(known) => {
                for (agreed, of_type) in known.into_mut().types.iter_mut().zip(&body.types) {
                    *agreed = agreed.filter(|agreed| tensor(of_type) == Some(*agreed));
                }
            }
            Entry::Vacant(free) => drop(free.insert(BodyFacts::of(document, body))),
        }
    }
    Ok(all)
}

/// The element type of a dense tensor.
fn tensor(of_type: &Option<ValueType>) -> Option<DataType> {
    match of_type {
        Some(ValueType::Tensor(data_type)) => Some(*data_type),
        _ => None,
    }
}

impl<'t, 'a> BodyFacts<'t, 'a> {
    fn of(document: &Document<'a>, Body { flow, types, ranks, .. }: Body<'t, 'a>) -> Self {
        let steps = flow.steps.iter().enumerate().map(|(at, step)| ((step.graph.id, step.index), at)).collect();
        let types = types.iter().map(tensor).collect();
        BodyFacts { flow, steps, types, ranks, inputs_replace: document.ir_version >= 4 }
    }

    /// Facts about the values of a node.
    pub(super) fn at(&self, graph: usize, index: usize) -> At<'_, 't, 'a> {
        At { known: self, step: self.steps.get(&(graph, index)).copied() }
    }
}

impl<'a> At<'_, '_, 'a> {
    /// The value that the node reads or gives by a name.
    fn value(self, name: &str) -> Option<Id> {
        let step = &self.known.flow.steps[self.step?];
        let among = |names: &[&str], ids: &[Option<Id>]| {
            let place = names.iter().position(|one| *one == name)?;
            ids.get(place).copied().flatten()
        };
        among(&step.node.inputs, &step.inputs).or_else(|| among(&step.node.outputs, &step.outputs))
    }

    pub(super) fn data_type(self, name: &str) -> Option<DataType> {
        self.known.types[self.value(name)?]
    }

    pub(super) fn rank(self, name: &str) -> Option<usize> {
        self.known.ranks[self.value(name)?]
    }

    /// Whether a node reads a value, or a graph gives it.
    pub(super) fn is_read(self, name: &str) -> bool {
        let flow = &self.known.flow;
        self.value(name).is_none_or(|id| !flow.is_unused(id)) || flow.is_unknown(name)
    }

    /// The elements of a constant of floats.
    pub(super) fn floats(self, name: &str, files: &'a Files<'a>) -> Option<Vec<f32>> {
        let (constant, is_input) = Constant::of_value(&self.known.flow, self.value(name)?, files).ok()??;
        let is_fixed = !is_input || !self.known.inputs_replace;
        let elements = constant.elements.filter(|elements| is_fixed && elements.len <= MOST_FLOATS)?;
        let tensor = Tensor::new(constant.data_type, constant.shape, elements.read()?).ok()?;
        let cast = Cast::new(DataType::Float, &CastOptions::new()).ok()?;
        cast.run(&tensor.view()).ok()?.to_vec::<f32>()
    }
}

/// Scales are one for each axis. A constant of more elements is something else.
const MOST_FLOATS: usize = 1024;
