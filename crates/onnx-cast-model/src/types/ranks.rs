//! The ranks of values, as far as graphs declare them and the plainest operators tell them.

use crate::graph::values::{Flow, Origin, Step, Value};
use crate::messages::value_info;
use crate::operators::Rank;
use onnx_cast_file::engine::pb;
use onnx_cast_file::engine::wire::{self, all_bytes, last};
use std::collections::HashMap;

/// The ranks that graphs declare, and those of initializers.
pub(super) fn declared(flow: &Flow<'_, '_>) -> Vec<Option<usize>> {
    let mut declared: HashMap<(usize, &str), Option<usize>> = HashMap::new();
    for graph in flow.graphs.values() {
        for one in graph.inputs.iter().chain(&graph.outputs).chain(&graph.value_info) {
            let Some(rank) = rank(one.message) else { continue };
            // Of two that differ none is believed.
            let there = declared.entry((graph.id, one.name)).or_insert(Some(rank));
            *there = there.filter(|&there| there == rank);
        }
    }
    let rank_of = |value: &Value<'_>| {
        let initializer = match value.origin {
            Origin::Initializer(index, _) => {
                flow.graphs.get(&value.graph).and_then(|graph| graph.initializers.get(index))
            }
            _ => None,
        };
        let stored = initializer.and_then(|named| Some(pb::head(named.message).ok()?.shape.len()));
        stored.or_else(|| declared.get(&(value.graph, value.name)).copied().flatten())
    };
    flow.values.iter().map(rank_of).collect()
}

/// Adds the ranks of what an operator gives.
pub(super) fn infer(step: &Step<'_, '_>, ranks: &mut [Option<usize>]) {
    let rank = match step.traits.rank {
        Some(Rank::OfFirst) => step.inputs.first().copied().flatten().and_then(|id| ranks[id]),
        Some(Rank::Fixed(rank)) => Some(rank),
        None => None,
    };
    let outputs = if step.node.is("Split") { &step.outputs[..] } else { step.outputs.get(..1).unwrap_or_default() };
    for &id in outputs.iter().flatten() {
        ranks[id] = ranks[id].or(rank);
    }
}

/// The rank that a ValueInfoProto tells.
fn rank(message: &[u8]) -> Option<usize> {
    let of_type = last(message, value_info::TYPE, wire::Value::bytes).ok()??;
    let tensor = last(of_type, value_info::TENSOR_TYPE, wire::Value::bytes).ok()??;
    let shape = last(tensor, value_info::SHAPE, wire::Value::bytes).ok()??;
    all_bytes(shape, value_info::DIM).try_fold(0, |count, dim| dim.ok().map(|_| count + 1))
}
