//! What grows: the states of loops that something is added to, and exponentials that meet others.
//!
//! A sum that has grown is rounded by more than what is added to it. After some thousand rounds what is added is less
//! than half a step, and the sum stays where it is. A state that each round makes anew, or that shrinks before
//! something is added, forgets its errors as fast as it gets them.

use super::bounds::{Bounds, saturates};
use super::constants::overflows;
use super::pins::{Reason, Variable};
use super::variables::Variables;
use crate::graph::dataflow::{Dataflow, Giver, Node};
use crate::operators::Computes::{Exponential, Logarithm, Power, Product, Quotient, Root, Sum, Total};
use crate::operators::{BoundRule, Flag};
use std::collections::{BTreeSet, HashMap};

/// Rounds after which a sum is off by less than the type's own rounding times this.
const FEW_ROUNDS: i64 = 8;

/// A state that shrinks to at most this part before something is added, is never off by more than eight roundings.
const SHRINKS: f32 = 0.875;

/// Pins the states of loops that grow.
pub(crate) fn pin_states(variables: &mut Variables<'_, '_, '_>, model: &Dataflow<'_, '_, '_>, bounds: &[Bounds]) {
    let of_operator =
        |(variable, by): (Variable, String)| (variable, Reason::Needed { what: "a state that each step adds to", by });
    let mut found: Vec<(Variable, Reason)> = variables.states.drain(..).map(of_operator).collect();
    for node in model.nodes.iter().filter(|node| repeats(model, node)) {
        for state in model.states(node) {
            let Some(grows) = growing(model, bounds, state.inner, state.next) else { continue };
            let reason = Reason::Needed { what: "a sum over the rounds of a loop", by: node.label() };
            let nodes =
                grows.into_iter().filter_map(|node| variables.nodes[model.nodes[node].body][model.nodes[node].at]);
            let values = [Some(state.inner), state.given].into_iter().flatten().map(|value| &model.values[value]);
            let values = values.filter_map(|value| variables.values[value.body][value.id]);
            found.extend(nodes.chain(values).map(|variable| (variable, reason.clone())));
        }
    }
    found.into_iter().for_each(|(variable, reason)| variables.pins.wide(variable, reason));
}

/// Whether a node runs its graph more than a few times, or an unknown number of times.
fn repeats(model: &Dataflow<'_, '_, '_>, node: &Node<'_, '_, '_>) -> bool {
    let rounds = node.input(0).filter(|_| node.step.node.is("Loop")).and_then(|rounds| model.ints(rounds));
    let rounds = rounds.and_then(|rounds| rounds.first().copied());
    node.step.traits.is(Flag::Repeats) && rounds.is_none_or(|rounds| rounds > FEW_ROUNDS)
}

/// The nodes that carry a state from one round to the next, if the state grows on the way.
fn growing(model: &Dataflow<'_, '_, '_>, bounds: &[Bounds], inner: usize, next: usize) -> Option<Vec<usize>> {
    // Trace the next state back. `leads` maps each value to the values that are computed from it.
    let (mut open, mut leads, mut givers) = (vec![next], HashMap::<usize, Vec<usize>>::new(), HashMap::new());
    while let Some(value) = open.pop().filter(|&value| value != inner) {
        let before = match &model.values[value].giver {
            Giver::Node(node, _) => {
                givers.insert(value, *node);
                ways(model, &model.nodes[*node], bounds)
            }
            Giver::Values(values) => values.clone(),
            Giver::Nothing => continue,
        };
        for way in before {
            let known = leads.entry(way).or_default();
            open.extend(known.is_empty().then_some(way));
            known.push(value);
        }
    }
    // Follow `leads` from the state: what is reached lies between the two.
    let (mut carried, mut open) = (BTreeSet::new(), vec![inner]);
    while let Some(value) = open.pop() {
        open.extend(leads.get(&value).into_iter().flatten().filter(|&&value| carried.insert(value)));
    }
    let nodes: BTreeSet<usize> = carried.iter().filter_map(|value| givers.get(value).copied()).collect();
    let adds = |node: &usize| matches!(model.nodes[*node].step.traits.computes, Some(Sum | Product | Quotient));
    if !carried.contains(&next) || !nodes.iter().any(adds) {
        return None;
    }
    let factors = nodes.iter().flat_map(|&node| model.nodes[node].inputs.iter().flatten());
    let decays: Vec<usize> = factors.filter_map(|&factor| decay(model, bounds, factor)).flatten().collect();
    Some(nodes.into_iter().chain(decays).collect())
}

/// The nodes that compute a factor near one: an exponential, or a value with such bounds. The distance of the factor
/// from one decides how long a state lasts.
fn decay(model: &Dataflow<'_, '_, '_>, bounds: &[Bounds], factor: usize) -> Option<Vec<usize>> {
    let is_near = bounds[factor].least > SHRINKS && bounds[factor].greatest <= 1.0;
    let (ends, mut nodes) = model.sources(factor, |step| step.traits.is(Flag::Arranges));
    let givers: Vec<usize> = ends.into_iter().filter_map(|end| model.node_of(end)).collect();
    let is_exp = |&node: &usize| model.nodes[node].step.traits.is_bounded_by(BoundRule::Exp);
    let lasts = !givers.is_empty() && (is_near || givers.iter().any(is_exp));
    nodes.extend(givers);
    lasts.then_some(nodes)
}

/// The inputs whose errors persist in a node's result.
fn ways(model: &Dataflow<'_, '_, '_>, node: &Node<'_, '_, '_>, bounds: &[Bounds]) -> Vec<usize> {
    let traits = node.step.traits;
    if let Some(Product | Quotient) = traits.computes {
        // A gate or a small factor shrinks the input, so that its errors fade.
        let shrinks = |index: usize| {
            let Some(other) = node.input(1 - index) else { return false };
            let magnitude = bounds[other].magnitude();
            let is_gate = magnitude <= 1.0 && !model.is_constant(other) && decay(model, bounds, other).is_none();
            traits.computes == Some(Product) && (magnitude <= SHRINKS || is_gate)
        };
        return (0..node.inputs.len().min(2))
            .filter(|&index| !shrinks(index))
            .filter_map(|index| node.input(index))
            .collect();
    }
    if traits.is(Flag::Picks) || traits.is(Flag::Updates) {
        return node.input(0).into_iter().collect();
    }
    if traits.is(Flag::Steady) && !saturates(traits) {
        node.inputs.iter().flatten().copied().collect()
    } else {
        Vec::new()
    }
}

/// Pins exponentials that may overflow, where another number is added to one or it is divided: infinity less infinity,
/// or over infinity, is NaN, though the exact result is an ordinary number.
pub(crate) fn pin_exponentials(variables: &mut Variables<'_, '_, '_>, model: &Dataflow<'_, '_, '_>, bounds: &[Bounds]) {
    let low = variables.low;
    // A type of float's own range overflows where the model does.
    if !overflows(f32::MAX / 4.0, low) {
        return;
    }
    let mut found: Vec<(Variable, Reason)> = Vec::new();
    for (at, node) in model.nodes.iter().enumerate() {
        let traits = node.step.traits;
        let input = node.input(0).map_or(super::bounds::ANY, |value| bounds[value]);
        let most = if traits.is_bounded_by(BoundRule::Exp) { input.greatest.exp() } else { input.magnitude().exp() };
        let is_bounded = most.is_finite() && !overflows(most, low);
        if is_bounded || traits.computes != Some(Exponential) {
            continue;
        }
        let reason = Reason::Needed { what: "an exponential that may overflow", by: node.label() };
        let nodes = meets(model, at).into_iter().map(|node| &model.nodes[node]);
        let nodes = nodes.filter_map(|node| variables.nodes[node.body][node.at]);
        found.extend(nodes.map(|variable| (variable, reason.clone())));
    }
    found.into_iter().for_each(|(variable, reason)| variables.pins.wide(variable, reason));
}

/// The nodes where an exponential meets other values, and the nodes on the way there. Empty if it meets none.
fn meets(model: &Dataflow<'_, '_, '_>, exponential: usize) -> Vec<usize> {
    const MOST: usize = 64;
    let mut before: HashMap<usize, usize> = HashMap::new();
    let (mut open, mut met) = (vec![exponential], Vec::new());
    while let Some(at) = open.pop().filter(|_| before.len() < MOST) {
        for reader in model.readers(at, |_| false) {
            let traits = model.nodes[reader].step.traits;
            let meets = matches!(traits.computes, Some(Sum | Total));
            let ends = matches!(traits.computes, Some(Quotient | Power | Root | Logarithm));
            let goes_on = meets || traits.is_bounded_by(BoundRule::Neg) || traits.is(Flag::Picks);
            if reader == exponential || before.contains_key(&reader) || !(goes_on || ends) {
                continue;
            }
            before.insert(reader, at);
            met.extend((meets || ends).then_some(reader));
            open.extend(goes_on.then_some(reader));
        }
    }
    let mut nodes = Vec::new();
    for mut at in met {
        while !nodes.contains(&at) {
            nodes.push(at);
            match before.get(&at) {
                Some(&next) => at = next,
                None => break,
            }
        }
    }
    nodes
}
