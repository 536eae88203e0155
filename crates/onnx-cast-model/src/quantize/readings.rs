//! How operators read weights: which axis counts the outputs, and along which products are added up. Weights are found
//! behind Transpose, Cast and Identity too, and behind the calls of functions.

use super::counterparts;
use crate::constant::Site;
use crate::error::ModelError;
use crate::graph::functions::FunctionNames;
use crate::graph::values::{Flow, Id, Origin};
use crate::messages::attribute;
use crate::operators::{Axis, Traits, Weight};
use crate::tree::{Document, Node};
use crate::types::ranks::Ranks;
use onnx_cast_file::__private::wire::varints;
use std::collections::HashMap;

/// The axes of a weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axes {
    pub(super) outputs: usize,
    pub(super) summed: usize,
    /// Whether an operator takes rows from it.
    pub(super) is_table: bool,
}

/// How an operator reads a weight.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) operator: String,
    outputs: Axis,
    summed: Axis,
    /// What Transposes between make of the axes, the last first: their `perm`; `None` reverses them.
    perms: Vec<Option<Vec<usize>>>,
    /// Whether onnxruntime fuses the operator with the DequantizeLinear of a matrix, unless a Transpose is between.
    fuses: bool,
}

impl Reading {
    /// The axes of a weight of so many.
    pub(super) fn axes(&self, rank: usize) -> Option<Axes> {
        let place = |axis: Axis, other: usize| match axis {
            Axis::Number(axis @ 0..) => Some(axis as usize).filter(|&axis| axis < rank),
            Axis::Number(axis) => rank.checked_sub(axis.unsigned_abs() as usize),
            Axis::Other | Axis::Attribute(_) => (0..rank).rfind(|&axis| axis != other),
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
        (outputs != summed).then_some(Axes { outputs, summed, is_table: self.looks_up() })
    }

    /// Whether it looks rows up, and does not add products up.
    pub(super) fn looks_up(&self) -> bool {
        matches!(self.summed, Axis::Other)
    }

    /// Whether onnxruntime fuses the operator with a DequantizeLinear before it, and a Transpose if `by_tensor`: it
    /// exchanges that with a DequantizeLinear of one scale.
    pub(super) fn fuses(&self, by_tensor: bool) -> bool {
        self.fuses && (by_tensor || self.perms.is_empty())
    }

    /// How an operator reads a weight.
    fn of(node: &Node<'_>, weight: &Weight) -> Reading {
        let int = |name: &str| node.attribute(name).filter(|one| !one.refers).map_or(0, |one| one.int());
        let axis = |axis: Axis| if let Axis::Attribute(name) = axis { Axis::Number(int(name)) } else { axis };
        let (mut outputs, mut summed) = (axis(weight.outputs), axis(weight.summed));
        if weight.exchanged.is_some_and(|(name, limit)| int(name) > limit) {
            (outputs, summed) = (summed, outputs);
        }
        Reading { operator: node.op_type.to_owned(), outputs, summed, perms: Vec::new(), fuses: false }
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
        let flow = Flow::of(function, Traits::of);
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
        let ranks = Ranks::default();
        let rank = |value: Id| ranks.of(flow, |at| self.names.called(flow.steps[at].node).is_some(), value);
        for step in &flow.steps {
            let fuses = |input: usize| counterparts::fuses(flow, &rank, step, input);
            let inputs: Vec<(usize, Reading)> = match self.names.called(step.node) {
                Some(place) => {
                    let inputs = self.inputs.get(&place).into_iter().flatten().cloned().enumerate();
                    inputs.filter_map(|(input, reading)| Some((input, reading?))).collect()
                }
                None => {
                    let weights = step.traits.weights.iter();
                    let reading =
                        |weight: &Weight| Reading { fuses: fuses(weight.input), ..Reading::of(step.node, weight) };
                    weights.map(|weight| (weight.input, reading(weight))).collect()
                }
            };
            for (input, mut reading) in inputs {
                let Some(&Some(mut value)) = step.inputs.get(input) else { continue };
                reading.fuses &= !counterparts::is_clipped(flow, step);
                let is_shared = |value: Id| flow.values[value].outputs + flow.values[value].reads.len() > 1;
                reading.fuses &= !is_shared(value);
                while let Origin::Node(before, 0) = flow.values[value].origin {
                    let node = flow.steps[before].node;
                    let Some(&Some(next)) = flow.steps[before].inputs.first() else { break };
                    if node.is("Transpose") {
                        reading.perms.push(perm(node)?);
                    } else if !node.is("Identity") && !node.is("Cast") {
                        break;
                    }
                    value = next;
                    reading.fuses &= !is_shared(value);
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
