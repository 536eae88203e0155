//! Quotients of two sums: a weighted mean, as linear attention has it, or the cosine of an angle. Both sums grow with what
//! is added up, beyond what a type holds, where the quotient is an ordinary number: infinity over infinity is NaN, and
//! what infinity divides is zero.

use super::differences::{Body, Part};
use crate::graph::values::{Id, Origin};
use crate::operators::Computes::{Product, Products, Root, Squares, Total};
use crate::operators::{Bounded, Flag};
use std::collections::HashSet;

impl Body<'_, '_, '_> {
    /// The steps that compute both sums, by the step that divides them.
    pub(super) fn quotients(&self) -> Vec<(usize, Vec<usize>)> {
        let mut found = Vec::new();
        for (at, step) in self.flow.steps.iter().enumerate() {
            let given = |index: usize| step.inputs.get(index).copied().flatten().filter(|&id| !self.fixed[id]);
            if let (true, Some(numerator), Some(divisor)) = (step.node.is("Div"), given(0), given(1)) {
                let steps = self.quotient(numerator, divisor);
                found.extend((!steps.is_empty()).then(|| (at, [steps, vec![at]].concat())));
            }
            let reciprocal = step.outputs.first().copied().flatten().filter(|_| step.node.is("Reciprocal"));
            if let (Some(reciprocal), Some(divisor)) = (reciprocal, given(0)) {
                for (product, numerator) in self.multiplied(reciprocal) {
                    let steps = self.quotient(numerator, divisor);
                    found.extend((!steps.is_empty()).then(|| (at, [steps, vec![at, product]].concat())));
                }
            }
        }
        found
    }

    /// What a value multiplies, as it is or arranged, each with the step of the product.
    fn multiplied(&self, value: Id) -> Vec<(usize, Id)> {
        let (mut found, mut open, mut seen) = (Vec::new(), vec![value], 0);
        while let Some(id) = open.pop() {
            let mut reads: Vec<_> = self.flow.values[id].reads.iter().collect();
            reads.sort_unstable_by_key(|read| (read.step, read.input));
            for read in reads {
                let step = &self.flow.steps[read.step];
                let others = step.inputs.iter().enumerate().filter(|&(index, _)| index != read.input);
                match step.traits.computes {
                    Some(Product | Products) => {
                        found.extend(others.filter_map(|(_, &other)| Some((read.step, other?))))
                    }
                    _ if step.traits.is(Flag::Arranges) && seen < 16 => {
                        seen += 1;
                        open.extend(step.outputs.iter().flatten());
                    }
                    _ => {}
                }
            }
        }
        found
    }

    /// The steps between a quotient of sums and what both are computed from; none if it is no such quotient.
    fn quotient(&self, numerator: Id, divisor: Id) -> Vec<usize> {
        let below = self.trace(Part::Value(divisor), true);
        if !below.iter().any(|one| one.is_total) {
            return Vec::new();
        }
        let above = self.trace(Part::Value(numerator), false);
        let (mut kept, mut met) = (Vec::new(), HashSet::new());
        for (at, reached) in below.iter().enumerate() {
            let is_common = |other: &usize| above[*other].id == reached.id;
            let places: Vec<_> = (0..above.len()).filter(is_common).collect();
            if places.is_empty() {
                continue;
            }
            let Some(way) = self.way(&below, at, &met) else { continue };
            let is_root = way.iter().any(|&step| self.flow.steps[step].traits.computes == Some(Root));
            // What both are parts of may be too large itself.
            if self.is_sum(reached.id) && !is_root {
                continue;
            }
            // A norm is as large as what it divides, but where that is a product of two.
            let is_product = places.iter().any(|&place| above[place].product.is_some());
            if way.iter().any(|&step| self.grows(step)) && (!is_root || is_product) {
                kept.extend(way);
                kept.extend(places.iter().filter_map(|&place| self.way(&above, place, &met)).flatten());
            }
            met.insert(reached.id);
        }
        kept
    }

    /// Whether a step gives a sum that is larger than what it adds up.
    fn grows(&self, step: usize) -> bool {
        let step = &self.flow.steps[step];
        match step.traits.computes {
            Some(Products | Squares) => true,
            Some(Total) => step.traits.bounds != Some(Bounded::ByFirst),
            _ => step.node.is("ReduceL2"),
        }
    }

    /// Whether a value is such a sum, and not weighed by constants.
    fn is_sum(&self, id: Id) -> bool {
        let Origin::Node(at, _) = self.flow.values[id].origin else { return false };
        let is_weighed = self.flow.steps[at].inputs.iter().flatten().any(|&id| self.fixed[id]);
        self.grows(at) && (self.flow.steps[at].traits.computes == Some(Total) || !is_weighed)
    }
}
