//! Differences of squares: E[x^2] - E[x]^2. Both are large where x is far from zero, and their difference is not. Rounding
//! x itself moves both alike; rounding what lies between x and the difference moves it by a part of the square.

use super::bounds::Bounds;
use super::pins::{Reason, Variable};
use super::variables::Variables;
use crate::graph::values::{Flow, Id, Origin};
use crate::operators::Computes::{Power, Product, Quotient, Root, Squares, Sum, Total};
use crate::operators::Flag;
use std::collections::HashSet;

/// So far a square is traced back.
const MOST: usize = 32;

/// A value, and what it is computed by from the values that it is a square of.
struct Square {
    /// The values on the way, itself included.
    values: HashSet<Id>,
    /// Whether something on the way is squared.
    squared: bool,
}

/// Pins what is between a value and a difference of its squares.
pub(crate) fn pin(variables: &mut Variables<'_, '_, '_>, bounds: &[Vec<Bounds>]) {
    let mut found: Vec<(Variable, Reason)> = Vec::new();
    for (place, bounds) in bounds.iter().enumerate() {
        let flow = &variables.body(place).flow;
        for (at, step) in flow.steps.iter().enumerate().filter(|(_, step)| step.node.is("Sub")) {
            let [Some(one), Some(other)] = step.inputs[..] else { continue };
            if bounds[one].least < 0.0 || bounds[other].least < 0.0 {
                continue;
            }
            let sides = [Square::of(flow, one), Square::of(flow, other)];
            let common: HashSet<Id> = sides[0].values.intersection(&sides[1].values).copied().collect();
            if common.is_empty() || !sides.iter().all(|side| side.squared) {
                continue;
            }
            let by = step.node.label(step.index);
            let reason = Reason::Needed { what: "a difference of squares", by };
            let steps = sides.iter().flat_map(|side| side.values.difference(&common));
            let steps = steps.filter_map(|&id| variables.producer(place, id)).chain([at]);
            found.extend(steps.filter_map(|step| variables.nodes[place][step]).map(|node| (node, reason.clone())));
        }
    }
    found.into_iter().for_each(|(variable, reason)| variables.pins.wide(variable, reason));
}

impl Square {
    fn of(flow: &Flow<'_, '_>, id: Id) -> Square {
        let mut square = Square { values: HashSet::from([id]), squared: false };
        let mut open = vec![id];
        while let Some(id) = open.pop().filter(|_| square.values.len() < MOST) {
            let Origin::Node(at, _) = flow.values[id].origin else { continue };
            let step = &flow.steps[at];
            square.squared |= match step.traits.computes {
                // The result of another subtraction is not a square.
                Some(Sum) if step.node.is("Sub") => continue,
                Some(Power | Squares) => true,
                Some(Product) => step.inputs.first() == step.inputs.get(1),
                Some(Quotient | Root | Sum | Total) => false,
                _ if step.traits.is(Flag::Picks) => false,
                _ => continue,
            };
            for &input in step.inputs.iter().flatten() {
                // A constant is common to all.
                if !is_constant(flow, input) && square.values.insert(input) {
                    open.push(input);
                }
            }
        }
        square
    }
}

/// Whether a value is an initializer, or what a Constant gives.
pub(crate) fn is_constant(flow: &Flow<'_, '_>, id: Id) -> bool {
    match flow.values[id].origin {
        Origin::Initializer(..) => true,
        Origin::Node(step, _) => flow.steps[step].node.is("Constant"),
        Origin::Other => false,
    }
}
