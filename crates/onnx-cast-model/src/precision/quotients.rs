//! Quotients of two sums: a weighted mean, as linear attention has it, or the cosine of an angle. Both sums grow with
//! what is added up, beyond what a type holds, where the quotient is an ordinary number: infinity over infinity is NaN,
//! and what infinity divides is zero.

use super::differences::{Part, Search};
use crate::operators::Computes::{Product, Products, Quotient, Root, Squares, Total};
use crate::operators::{BoundRule, Flag, Inside, Traits};
use std::collections::HashSet;

impl Search<'_, '_, '_> {
    /// The steps that compute both sums, by the step that divides them.
    pub(super) fn quotients(&self) -> Vec<(usize, Vec<usize>)> {
        let mut found = Vec::new();
        for (at, node) in self.model.nodes.iter().enumerate() {
            let given = |index: usize| node.input(index).filter(|&value| !self.fixed[value]);
            let is_quotient = node.step.traits.computes == Some(Quotient);
            if let (true, Some(numerator), Some(divisor)) = (is_quotient, given(0), given(1)) {
                let nodes = self.quotient(numerator, divisor);
                found.extend((!nodes.is_empty()).then(|| (at, [nodes, vec![at]].concat())));
            }
            let reciprocal = node.outputs.first().copied().flatten().filter(|_| node.step.node.is("Reciprocal"));
            if let (Some(reciprocal), Some(divisor)) = (reciprocal, given(0)) {
                for (product, numerator) in self.multiplied(reciprocal) {
                    let nodes = self.quotient(numerator, divisor);
                    found.extend((!nodes.is_empty()).then(|| (at, [nodes, vec![at, product]].concat())));
                }
            }
        }
        found
    }

    /// The products with a value, directly or after operators that arrange it: (node, other factor).
    fn multiplied(&self, value: usize) -> Vec<(usize, usize)> {
        let (mut found, mut open, mut seen) = (Vec::new(), vec![value], 0);
        while let Some(value) = open.pop() {
            let known = &self.model.values[value];
            for &(reader, input) in &known.reads {
                let node = &self.model.nodes[reader];
                let others = node.inputs.iter().enumerate().filter(|&(index, _)| index != input);
                match node.step.traits.computes {
                    Some(Product | Products) => found.extend(others.filter_map(|(_, &other)| Some((reader, other?)))),
                    _ if node.step.traits.is(Flag::Arranges) && seen < 16 => {
                        seen += 1;
                        open.extend(node.outputs.iter().flatten());
                    }
                    _ => {}
                }
            }
            if seen < 16 {
                seen += known.becomes.len();
                open.extend(&known.becomes);
            }
        }
        found
    }

    /// The steps between a quotient of sums and what both are computed from; none if it is no such quotient.
    fn quotient(&self, numerator: usize, divisor: usize) -> Vec<usize> {
        let below = self.trace(Part::Value(divisor), true);
        if !below.iter().any(|one| one.is_total) {
            return Vec::new();
        }
        let above = self.trace(Part::Value(numerator), false);
        let (mut kept, mut met) = (Vec::new(), HashSet::new());
        for (at, reached) in below.iter().enumerate() {
            let is_common = |other: &usize| above[*other].value == reached.value;
            let places: Vec<_> = (0..above.len()).filter(is_common).collect();
            if places.is_empty() {
                continue;
            }
            let Some(way) = self.way(&below, at, &met) else { continue };
            let is_root = way.iter().any(|&node| self.traits(node).computes == Some(Root));
            // What both are parts of may be too large itself.
            if self.is_sum(reached.value) && !is_root {
                continue;
            }
            // A norm is as large as what it divides, but where that is a product of two.
            let is_product = places.iter().any(|&place| above[place].product.is_some());
            if way.iter().any(|&step| self.grows(step)) && (!is_root || is_product) {
                kept.extend(way);
                kept.extend(places.iter().filter_map(|&place| self.way(&above, place, &met)).flatten());
            }
            met.insert(reached.value);
        }
        kept
    }

    fn traits(&self, node: usize) -> &'static Traits {
        self.model.nodes[node].step.traits
    }

    /// Whether a node computes a sum that can exceed its terms.
    fn grows(&self, node: usize) -> bool {
        let traits = self.traits(node);
        match traits.computes {
            Some(Products | Squares) => true,
            Some(Total) => !traits.is_bounded_by(BoundRule::First),
            _ => traits.inside == Some(Inside::Squares) && traits.computes == Some(Root),
        }
    }

    /// Whether a value is such a sum, and not weighed by constants.
    fn is_sum(&self, value: usize) -> bool {
        let Some(at) = self.model.node_of(value) else { return false };
        let is_weighed = self.model.nodes[at].inputs.iter().flatten().any(|&value| self.fixed[value]);
        self.grows(at) && (self.traits(at).computes == Some(Total) || !is_weighed)
    }
}
