//! The shapes and ranks of values, from constants and declarations. Ranks are also inferred through simple operators.

use crate::constant::ConstantValue;
use crate::graph::values::{Flow, Id, Origin};
use crate::messages::value_info;
use crate::operators::Rank;
use onnx_cast_file::__private::pb;
use onnx_cast_file::__private::wire::{self, all_bytes, last};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;

/// The sizes of axes; `None` for an unknown size.
pub(crate) type Shape = Vec<Option<u64>>;

/// The shapes of a body's values, from constants and declarations.
#[derive(Default)]
pub(crate) struct Shapes<'a>(OnceCell<HashMap<(usize, &'a str), Option<Shape>>>);

impl<'a> Shapes<'a> {
    /// The shape of a value; `None` if its rank is unknown.
    pub(crate) fn of(&self, flow: &Flow<'_, 'a>, id: Id) -> Option<Shape> {
        let value = &flow.values[id];
        let declared = || self.0.get_or_init(|| declared(flow)).get(&(value.graph, value.name))?.clone();
        let known = |shape: Vec<usize>| shape.into_iter().map(|size| Some(size as u64)).collect();
        shape_of_constant(flow, id).map(known).or_else(declared)
    }
}

/// The ranks of a body's values, each found when it is asked for.
#[derive(Default)]
pub(crate) struct Ranks<'a> {
    shapes: Shapes<'a>,
    found: RefCell<HashMap<Id, Option<usize>>>,
}

impl<'a> Ranks<'a> {
    /// How many axes a value has: what a constant or a declaration tells, or else the operator that gives it, by its
    /// first input or a number. A step that `calls` a function tells nothing.
    pub(crate) fn of(&self, flow: &Flow<'_, 'a>, calls: impl Fn(usize) -> bool, mut id: Id) -> Option<usize> {
        let mut found = self.found.borrow_mut();
        let mut asked = Vec::new();
        let rank = loop {
            if let Some(&known) = found.get(&id) {
                break known;
            }
            asked.push(id);
            let value = &flow.values[id];
            if let Some(shape) = self.shapes.of(flow, id) {
                break Some(shape.len());
            }
            let Origin::Node(at, place) = value.origin else { break None };
            let step = &flow.steps[at];
            let by_matrix =
                || step.inputs.get(1).copied().flatten().is_some_and(|second| of_constant(flow, second) == Some(2));
            match step.traits.rank.filter(|&rank| !calls(at) && (place == 0 || rank == Rank::OfEach)) {
                Some(Rank::Fixed(rank)) => break Some(rank),
                Some(Rank::OfFirst | Rank::OfEach) => match step.inputs.first() {
                    Some(&Some(first)) => id = first,
                    _ => break None,
                },
                None if step.node.is("MatMul") && by_matrix() => match step.inputs.first() {
                    Some(&Some(first)) => id = first,
                    _ => break None,
                },
                None => break None,
            }
        };
        found.extend(asked.into_iter().map(|id| (id, rank)));
        rank
    }
}

/// The rank of an initializer, or of what a Constant gives.
pub(crate) fn of_constant(flow: &Flow<'_, '_>, id: Id) -> Option<usize> {
    shape_of_constant(flow, id).map(|shape| shape.len())
}

/// The shape of an initializer or of the output of a Constant.
pub(crate) fn shape_of_constant(flow: &Flow<'_, '_>, id: Id) -> Option<Vec<usize>> {
    let value = &flow.values[id];
    let message = match value.origin {
        Origin::Initializer(index, _) => flow.graphs.get(&value.graph)?.initializers.get(index)?.message,
        Origin::Node(step, 0) => match ConstantValue::of_node(flow.steps[step].node).ok()??.1 {
            ConstantValue::Tensor(message) => message,
            ConstantValue::Numbers(_, shape, _) | ConstantValue::Strings(shape, _) => return Some(shape),
            ConstantValue::Sparse(_) => return None,
        },
        _ => return None,
    };
    Some(pb::head(message).ok()?.shape)
}

/// The shapes that graphs declare, by graph and name.
fn declared<'a>(flow: &Flow<'_, 'a>) -> HashMap<(usize, &'a str), Option<Shape>> {
    let mut declared = HashMap::new();
    for graph in flow.graphs.values() {
        for one in graph.inputs.iter().chain(&graph.outputs).chain(&graph.value_info) {
            let Some(shape) = shape(one.message) else { continue };
            // If two declarations differ in rank, the shape is unknown; if they differ in a size, that size is.
            declared
                .entry((graph.id, one.name))
                .and_modify(|there: &mut Option<Shape>| {
                    *there = there.take().filter(|there| there.len() == shape.len()).map(|there| {
                        there.into_iter().zip(&shape).map(|(one, other)| one.filter(|_| one == *other)).collect()
                    });
                })
                .or_insert_with(|| Some(shape.clone()));
        }
    }
    declared
}

/// The shape that a ValueInfoProto declares.
fn shape(message: &[u8]) -> Option<Shape> {
    let of_type = last(message, value_info::TYPE, wire::FieldValue::bytes).ok()??;
    let tensor = last(of_type, value_info::TENSOR_TYPE, wire::FieldValue::bytes).ok()??;
    let shape = last(tensor, value_info::SHAPE, wire::FieldValue::bytes).ok()??;
    let size = |dim: &[u8]| {
        let size = last(dim, value_info::DIM_VALUE, wire::FieldValue::int).ok()??;
        u64::try_from(size).ok()
    };
    all_bytes(shape, value_info::DIM).map(|dim| dim.ok().map(size)).collect()
}
