//! What grows: the states of loops that something is added to, and exponentials that meet others.
//!
//! A sum that has grown is rounded by more than what is added to it. After some thousand rounds what is added is less
//! than half a step, and the sum stays where it is. A state that each round makes anew, or that shrinks before something
//! is added, forgets its errors as fast as it gets them.

use super::bounds::{self, Bounds, saturates};
use super::constants::overflows;
use super::differences::is_constant;
use super::pins::{Reason, Variable};
use super::variables::Variables;
use crate::constant::ConstantValue;
use crate::graph::values::{Flow, Id, Origin, Step};
use crate::operators::Computes::{Exponential, Logarithm, Power, Product, Quotient, Root, Sum, Total};
use crate::operators::Flag;
use onnx_cast::DataType;
use onnx_cast_file::__private::{ParsedData, pb};
use std::collections::HashMap;

/// Rounds after which a sum is off by less than the type's own rounding times this.
const FEW_ROUNDS: i64 = 8;

/// A state that shrinks to at most this part before something is added, is never off by more than eight roundings.
const SHRINKS: f32 = 0.875;

/// Pins the states of loops that grow.
pub(crate) fn pin_states(variables: &mut Variables<'_, '_, '_>, bounds: &[Vec<Bounds>]) {
    let mut found: Vec<(Variable, Reason)> = Vec::new();
    for (place, bounds) in bounds.iter().enumerate() {
        let flow = &variables.body(place).flow;
        for (at, step) in flow.steps.iter().enumerate() {
            for (inner, next, from) in states(flow, step) {
                let Some(steps) = growing(flow, bounds, (at + 1, step.end), inner, next) else { continue };
                let by = step.node.label(step.index);
                let reason = Reason::Needed { what: "a sum over the rounds of a loop", by };
                let nodes = steps.iter().filter_map(|&step| variables.nodes[place][step]);
                let values = [Some(inner), from].into_iter().flatten().filter_map(|id| variables.values[place][id]);
                found.extend(nodes.chain(values).map(|variable| (variable, reason.clone())));
            }
        }
    }
    found.into_iter().for_each(|(variable, reason)| variables.pins.wide(variable, reason));
}

/// The states of a loop of many rounds: the value that a round takes, the one that it gives, and what the loop gives.
fn states(flow: &Flow<'_, '_>, step: &Step<'_, '_>) -> Vec<(Id, Id, Option<Id>)> {
    let (before, given, count) = if step.node.is("Loop") {
        if step.inputs.first().is_some_and(|&rounds| rounds_of(flow, rounds).is_some_and(|rounds| rounds <= FEW_ROUNDS))
        {
            return Vec::new();
        }
        (2, 1, step.inputs.len().saturating_sub(2))
    } else if step.node.is("Scan") {
        let scanned = step.node.attribute("num_scan_inputs").map_or(0, |scanned| scanned.int());
        (0, 0, step.inputs.len().saturating_sub(usize::try_from(scanned).unwrap_or(usize::MAX)))
    } else {
        return Vec::new();
    };
    let Some(ports) = step.node.graphs().find_map(|graph| flow.ports.get(&graph.id)) else { return Vec::new() };
    let state = |index: usize| {
        let next = *ports.outputs.get(given + index)?;
        Some((*ports.inputs.get(before + index)?, next?, step.outputs.get(index).copied().flatten()))
    };
    (0..count).filter_map(state).collect()
}

/// A number of rounds that is a constant.
fn rounds_of(flow: &Flow<'_, '_>, id: Option<Id>) -> Option<i64> {
    let value = &flow.values[id?];
    let bytes = |message| match pb::parse(message).ok().filter(|source| source.data_type == DataType::Int64)?.data {
        ParsedData::Bytes(bytes) => Some(bytes.into_owned()),
        _ => None,
    };
    let bytes = match value.origin {
        Origin::Initializer(index, None) => bytes(flow.graphs[&value.graph].initializers[index].message)?,
        Origin::Node(step, _) => match ConstantValue::of_node(flow.steps[step].node).ok()??.1 {
            ConstantValue::Tensor(message) => bytes(message)?,
            ConstantValue::Numbers(DataType::Int64, _, bytes) => bytes,
            _ => return None,
        },
        _ => return None,
    };
    bytes.first_chunk::<8>().map(|word| i64::from_le_bytes(*word))
}

/// The steps by which a state gets from one round to the next, if it grows on the way.
fn growing(
    flow: &Flow<'_, '_>,
    bounds: &[Bounds],
    (first, end): (usize, usize),
    inner: Id,
    next: Id,
) -> Option<Vec<usize>> {
    // By value that the state gets to: whether something was added to it.
    let mut carried = HashMap::from([(inner, false)]);
    // Twice, as a branch's results are read before its steps are.
    for _ in 0..2 {
        for step in &flow.steps[first..end] {
            for (index, output) in step.outputs.iter().enumerate() {
                let Some(output) = *output else { continue };
                let ways = ways(flow, step, index, bounds);
                let before = ways.iter().filter_map(|way| carried.get(way).copied()).reduce(|one, other| one | other);
                if let Some(before) = before {
                    let adds = matches!(step.traits.computes, Some(Sum | Product | Quotient));
                    carried.insert(output, before || adds);
                }
            }
        }
    }
    carried.get(&next).filter(|&&grows| grows)?;
    let (mut steps, mut open, mut seen) = (Vec::new(), vec![next], vec![inner]);
    while let Some(id) = open.pop() {
        let Origin::Node(step, output) = flow.values[id].origin else { continue };
        if carried.contains_key(&id) && !seen.contains(&id) {
            seen.push(id);
            steps.push(step);
            let factors = flow.steps[step].inputs.iter().flatten();
            steps.extend(factors.filter_map(|&factor| decay(flow, bounds, factor)).flatten());
            open.extend(ways(flow, &flow.steps[step], output, bounds));
        }
    }
    Some(steps)
}

/// The steps that give a factor that is near one, whose distance from one decides how long a state lasts: an exponential,
/// or by its bounds.
fn decay(flow: &Flow<'_, '_>, bounds: &[Bounds], factor: Id) -> Option<Vec<usize>> {
    let is_near = bounds[factor].least > SHRINKS && bounds[factor].greatest <= 1.0;
    let (given, mut steps) = flow.source(factor, |step| step.traits.is(Flag::Arranges));
    let Origin::Node(at, 0) = flow.values[given].origin else { return None };
    steps.push(at);
    (is_near || flow.steps[at].node.is("Exp")).then_some(steps)
}

/// The values that a step hands on in an output, without forgetting them.
fn ways(flow: &Flow<'_, '_>, step: &Step<'_, '_>, output: usize, bounds: &[Bounds]) -> Vec<Id> {
    let inputs = &step.inputs;
    let is = |op_type| step.node.is(op_type);
    let outputs = |given: usize| {
        let ports = step.node.graphs().filter_map(|graph| flow.ports.get(&graph.id));
        ports.filter_map(move |ports| *ports.outputs.get(given + output)?)
    };
    if is("If") {
        return outputs(0).collect();
    }
    if is("Loop") || is("Scan") {
        let before = if is("Loop") { 2 } else { 0 };
        return inputs.get(before + output).copied().flatten().into_iter().collect();
    }
    if let Some(Product | Quotient) = step.traits.computes {
        // The other one scales it: by a gate or a small number it is forgotten.
        let shrinks = |index: usize| {
            let Some(Some(other)) = inputs.get(1 - index) else { return false };
            let (other, magnitude) = (*other, bounds[*other].magnitude());
            let is_gate = magnitude <= 1.0 && !is_constant(flow, other) && decay(flow, bounds, other).is_none();
            step.traits.computes == Some(Product) && (magnitude <= SHRINKS || is_gate)
        };
        return (0..inputs.len().min(2)).filter(|&index| !shrinks(index)).filter_map(|index| inputs[index]).collect();
    }
    if step.traits.is(Flag::Picks) || step.traits.is(Flag::Updates) {
        return inputs.first().copied().flatten().into_iter().collect();
    }
    if step.traits.is(Flag::Steady) && !saturates(step.traits) {
        inputs.iter().flatten().copied().collect()
    } else {
        Vec::new()
    }
}

/// Pins exponentials that may overflow, where another number is added to one or it is divided: infinity less infinity, or
/// over infinity, is NaN, though the exact result is an ordinary number.
pub(crate) fn pin_exponentials(variables: &mut Variables<'_, '_, '_>, bounds: &[Vec<Bounds>]) {
    let low = variables.low;
    // A type of float's own range overflows where the model does.
    if !overflows(f32::MAX / 4.0, low) {
        return;
    }
    let mut found: Vec<(Variable, Reason)> = Vec::new();
    for (place, bounds) in bounds.iter().enumerate() {
        let flow = &variables.body(place).flow;
        for (at, step) in flow.steps.iter().enumerate() {
            let input = step.inputs.first().copied().flatten();
            let bounds = input.map_or(bounds::ANY, |id| bounds[id]);
            let most = if step.node.is("Exp") { bounds.greatest.exp() } else { bounds.magnitude().exp() };
            let is_bounded = most.is_finite() && !overflows(most, low);
            if is_bounded || step.traits.computes != Some(Exponential) {
                continue;
            }
            let reason = Reason::Needed { what: "an exponential that may overflow", by: step.node.label(step.index) };
            let nodes = meets(flow, at).into_iter().filter_map(|step| variables.nodes[place][step]);
            found.extend(nodes.map(|variable| (variable, reason.clone())));
        }
    }
    found.into_iter().for_each(|(variable, reason)| variables.pins.wide(variable, reason));
}

/// The steps at which an exponential meets others, and those on the way there; none where it meets none.
fn meets(flow: &Flow<'_, '_>, exponential: usize) -> Vec<usize> {
    const MOST: usize = 64;
    let mut before: HashMap<usize, usize> = HashMap::new();
    let (mut met, mut open) = (Vec::new(), vec![exponential]);
    while let Some(at) = open.pop().filter(|_| before.len() < MOST) {
        let outputs = flow.steps[at].outputs.iter().flatten();
        let mut reads: Vec<_> = outputs.flat_map(|&id| &flow.values[id].reads).collect();
        reads.sort_unstable_by_key(|read| (read.step, read.input));
        for read in reads {
            let step = &flow.steps[read.step];
            let meets = matches!(step.traits.computes, Some(Sum | Total));
            let ends = matches!(step.traits.computes, Some(Quotient | Power | Root | Logarithm));
            let goes_on = meets || step.node.is("Neg") || step.traits.is(Flag::Picks);
            if read.step == exponential || before.contains_key(&read.step) || !(goes_on || ends) {
                continue;
            }
            before.insert(read.step, at);
            met.extend((meets || ends).then_some(read.step));
            open.extend(goes_on.then_some(read.step));
        }
    }
    let mut steps = Vec::new();
    for mut at in met {
        while !steps.contains(&at) {
            steps.push(at);
            match before.get(&at) {
                Some(&next) => at = next,
                None => break,
            }
        }
    }
    steps
}
