//! How operators read weights: which axis counts the outputs, and along which products are added up. Weights are found
//! behind Transpose, Cast and Identity too, and behind the calls of functions.

use crate::constant::Site;
use crate::error::ModelError;
use crate::graph::functions::FunctionNames;
use crate::graph::values::{Flow, Id, Origin};
use crate::messages::attribute;
use crate::tree::{Document, Node, is_default};
use onnx_cast_file::engine::wire::varints;
use std::collections::HashMap;

/// The operators whose weights are found, as errors name them.
pub(super) const OPERATORS: &str = "MatMul, Gemm, Conv, ConvTranspose, LSTM, GRU, RNN or Gather";

/// The axes of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axes {
    pub(super) outputs: usize,
    pub(super) summed: usize,
}

/// An axis, counted from the first or from the last; or the last one that is not that of the outputs.
#[derive(Clone, Copy, Debug)]
enum Axis {
    First(usize),
    Last(usize),
    Other,
}

/// How an operator reads a weight.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) operator: &'static str,
    outputs: Axis,
    summed: Axis,
    /// What Transposes between make of the axes, the last first: their `perm`; `None` reverses them.
    perms: Vec<Option<Vec<usize>>>,
}

impl Reading {
    fn new(operator: &'static str, outputs: Axis, summed: Axis) -> Self {
        Reading { operator, outputs, summed, perms: Vec::new() }
    }

    /// The axes of a weight of so many.
    pub(super) fn axes(&self, rank: usize) -> Option<Axes> {
        let place = |axis: Axis, other: usize| match axis {
            Axis::First(axis) => Some(axis).filter(|&axis| axis < rank),
            Axis::Last(axis) => rank.checked_sub(axis + 1),
            Axis::Other => (0..rank).rfind(|&axis| axis != other),
        };
        let turned = |axis: usize| {
            self.perms.iter().try_fold(axis, |axis, perm| match perm {
                None => Some(rank - 1 - axis),
                Some(perm) if perm.len() == rank => perm.get(axis).copied().filter(|&axis| axis < rank),
                Some(_) => None,
            })
        };
        let outputs = place(self.outputs, rank)?;
        let summed = turned(place(self.summed, outputs)?)?;
        let outputs = turned(outputs)?;
        (outputs != summed).then_some(Axes { outputs, summed })
    }

    /// The weights that an operator reads, by their inputs.
    pub(super) fn of_node(node: &Node<'_>) -> Vec<(usize, Reading)> {
        use Axis::{First, Last};
        let flag = |name: &str| node.attribute(name).is_some_and(|one| !one.refers && one.int() != 0);
        let one = |operator, input, outputs, summed| (input, Reading::new(operator, outputs, summed));
        let turned = |is_turned, [outputs, summed]: [usize; 2]| {
            if is_turned { [First(summed), First(outputs)] } else { [First(outputs), First(summed)] }
        };
        match node.op_type {
            _ if !is_default(node.domain) => Vec::new(),
            "MatMul" => vec![one("MatMul", 1, Last(0), Last(1)), one("MatMul", 0, Last(1), Last(0))],
            "Gemm" => {
                let ([b, k], [a, l]) = (turned(flag("transB"), [1, 0]), turned(flag("transA"), [0, 1]));
                vec![one("Gemm", 1, b, k), one("Gemm", 0, a, l)]
            }
            "Conv" => vec![one("Conv", 1, First(0), First(1))],
            "ConvTranspose" => vec![one("ConvTranspose", 1, First(1), First(0))],
            "LSTM" => vec![one("LSTM", 1, First(1), First(2)), one("LSTM", 2, First(1), First(2))],
            "GRU" => vec![one("GRU", 1, First(1), First(2)), one("GRU", 2, First(1), First(2))],
            "RNN" => vec![one("RNN", 1, First(1), First(2)), one("RNN", 2, First(1), First(2))],
            "Gather" => {
                let axis = node.attribute("axis").map_or(0, |axis| axis.int());
                let rows = match usize::try_from(axis) {
                    Ok(axis) => First(axis),
                    Err(_) => Last((-1 - axis) as usize),
                };
                vec![one("Gather", 0, rows, Axis::Other)]
            }
            _ => Vec::new(),
        }
    }
}

/// A weight that an operator reads: the value, and how.
pub(super) struct Found {
    /// The value that the operator, or a Transpose before it, reads.
    pub(super) value: Id,
    pub(super) reading: Reading,
}

/// How the functions of a model read what they are called with, by their place.
pub(super) struct Calls<'t, 'a> {
    document: &'t Document<'a>,
    names: FunctionNames<'a>,
    inputs: HashMap<usize, Vec<Option<Reading>>>,
}

impl<'t, 'a> Calls<'t, 'a> {
    pub(super) fn of(document: &'t Document<'a>) -> Result<Self, ModelError> {
        let mut calls = Calls { document, names: FunctionNames::of(&document.functions), inputs: HashMap::new() };
        for place in 0..document.functions.len() {
            calls.learn(place, 0)?;
        }
        Ok(calls)
    }

    /// Finds how a function reads its inputs, and before that, those that it calls.
    fn learn(&mut self, place: usize, depth: usize) -> Result<(), ModelError> {
        /// Functions call functions at most so deep; what is deeper, or calls itself, has no weights to find.
        const MOST: usize = 64;
        if self.inputs.contains_key(&place) || depth > MOST {
            return Ok(());
        }
        let function = &self.document.functions[place];
        for node in function.every().iter().flat_map(|graph| &graph.nodes) {
            if let Some(called) = self.names.called(node).filter(|&called| called != place) {
                self.learn(called, depth + 1)?;
            }
        }
        let flow = Flow::of(function);
        let mut inputs = vec![None; function.inputs.len()];
        let ports = flow.ports.get(&function.id);
        for Found { value, reading, .. } in self.readings(&flow)? {
            let input = ports.and_then(|ports| ports.inputs.iter().position(|&input| input == value));
            input.into_iter().for_each(|input| inputs[input] = Some(reading.clone()));
        }
        self.inputs.insert(place, inputs);
        Ok(())
    }

    /// The values that operators of a body read as weights.
    pub(super) fn readings(&self, flow: &Flow<'_, 'a>) -> Result<Vec<Found>, ModelError> {
        let mut all = Vec::new();
        for step in &flow.steps {
            let inputs = match self.names.called(step.node) {
                Some(place) => {
                    let inputs = self.inputs.get(&place).into_iter().flatten().cloned().enumerate();
                    inputs.filter_map(|(input, reading)| Some((input, reading?))).collect()
                }
                None => Reading::of_node(step.node),
            };
            for (input, mut reading) in inputs {
                let Some(&Some(mut value)) = step.inputs.get(input) else { continue };
                while let Origin::Node(before, 0) = flow.values[value].origin {
                    let node = flow.steps[before].node;
                    let Some(&Some(next)) = flow.steps[before].inputs.first() else { break };
                    if node.is("Transpose") {
                        reading.perms.push(perm(node)?);
                    } else if !node.is("Identity") && !node.is("Cast") {
                        break;
                    }
                    value = next;
                }
                all.push(Found { value, reading });
            }
        }
        Ok(all)
    }
}

/// The attribute `perm` of a Transpose.
pub(super) fn perm(node: &Node<'_>) -> Result<Option<Vec<usize>>, ModelError> {
    let Some(perm) = node.attribute("perm") else { return Ok(None) };
    let axes = varints(perm.message, attribute::INTS).map(|axis| axis.map(|axis| axis as usize));
    Ok(Some(axes.collect::<Result<_, _>>()?))
}

/// The site of a value that is a constant, and its graph.
pub(super) fn site(flow: &Flow<'_, '_>, value: Id) -> Option<(usize, Site)> {
    let value = &flow.values[value];
    match value.origin {
        Origin::Initializer(index, input) => Some((value.graph, Site::Initializer(index, input))),
        Origin::Node(step, 0) if flow.steps[step].node.is("Constant") => {
            Some((value.graph, Site::Node(flow.steps[step].index)))
        }
        _ => None,
    }
}
