//! What inference tells of the values that a node reads and gives: of a function, where it is the same for all calls.

use crate::constant::Constant;
use crate::error::ModelError;
use crate::external::Files;
use crate::graph::values::Id;
use crate::tree::Document;
use crate::types::Typing;
use crate::types::agreed::AgreedBody;
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use std::collections::HashMap;

/// What is known of the values of a body, by value: graphs within may give one name to values of different types and
/// ranks.
pub(super) struct BodyFacts<'t, 'a> {
    body: AgreedBody<'t, 'a>,
    /// The step of a node, by the number of its graph and its place there.
    steps: HashMap<(usize, usize), usize>,
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
    let agreed = Typing::of_all(document)?.agreed(document);
    Ok(agreed.into_iter().map(|(graph, body)| (graph, BodyFacts::of(document, body))).collect())
}

impl<'t, 'a> BodyFacts<'t, 'a> {
    fn of(document: &Document<'a>, body: AgreedBody<'t, 'a>) -> Self {
        let steps = body.flow.steps.iter().enumerate().map(|(at, step)| ((step.graph.id, step.index), at)).collect();
        BodyFacts { body, steps, inputs_replace: document.ir_version >= 4 }
    }

    /// Facts about the values of a node.
    pub(super) fn at(&self, graph: usize, index: usize) -> At<'_, 't, 'a> {
        At { known: self, step: self.steps.get(&(graph, index)).copied() }
    }
}

impl<'a> At<'_, '_, 'a> {
    /// The value that the node reads or gives by a name.
    fn value(self, name: &str) -> Option<Id> {
        let step = &self.known.body.flow.steps[self.step?];
        let among = |names: &[&str], ids: &[Option<Id>]| {
            let place = names.iter().position(|one| *one == name)?;
            ids.get(place).copied().flatten()
        };
        among(&step.node.inputs, &step.inputs).or_else(|| among(&step.node.outputs, &step.outputs))
    }

    pub(super) fn data_type(self, name: &str) -> Option<DataType> {
        self.known.body.types[self.value(name)?]
    }

    pub(super) fn rank(self, name: &str) -> Option<usize> {
        self.known.body.rank(self.value(name)?)
    }

    /// Whether a node reads a value, or a graph gives it.
    pub(super) fn is_read(self, name: &str) -> bool {
        let flow = &self.known.body.flow;
        self.value(name).is_none_or(|id| !flow.is_unused(id)) || flow.is_unknown(name)
    }

    /// The elements of a constant of floats.
    pub(super) fn floats(self, name: &str, files: &'a Files<'a>) -> Option<Vec<f32>> {
        let cast = Cast::new(DataType::Float, &CastOptions::new()).ok()?;
        cast.run(&self.constant(name, files)?.view()).ok()?.to_vec::<f32>()
    }

    /// The elements of a constant of int64.
    pub(super) fn ints(self, name: &str, files: &'a Files<'a>) -> Option<Vec<i64>> {
        self.constant(name, files)?.to_vec::<i64>()
    }

    fn constant(self, name: &str, files: &'a Files<'a>) -> Option<Tensor> {
        let (constant, is_input) = Constant::of_value(&self.known.body.flow, self.value(name)?, files).ok()??;
        let is_fixed = !is_input || !self.known.inputs_replace;
        let elements = constant.elements.filter(|elements| is_fixed && elements.len <= MAX_ELEMENTS)?;
        Tensor::new(constant.data_type, constant.shape, elements.read()?).ok()
    }
}

/// Scales and axes are one for each axis. A constant of more elements is something else.
const MAX_ELEMENTS: usize = 1024;
