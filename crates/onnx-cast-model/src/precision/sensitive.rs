//! Operators that lose digits, or overflow, in 16 bits: exponentials that are added up, means of squares and what is
//! divided by their roots, logarithms, and the masks of attention.

use super::ConvertRequest;
use super::bounds::{Bounds, saturates};
use super::constants::{Constants, Span, overflows};
use super::mask::{MaskOf, is_mask_way};
use super::pins::Reason;
use super::terms;
use super::variables::Variables;
use crate::graph::dataflow::{Dataflow, Node};
use crate::graph::values::Step;
use crate::operators::{Computes, Flag, Inside, Traits, When};
use crate::types::ranks::Shapes;
use onnx_cast::DataType;
use onnx_cast::ops::AttributeValue;
use std::collections::HashMap;

/// The least normal number of a type.
fn tiny(low: DataType) -> f32 {
    if low == DataType::BFloat16 { f32::MIN_POSITIVE } else { 6.1e-5 }
}

/// What masks add to hide an element, at most.
const MASK: f32 = -1e4;

/// Max number of terms of a narrow sum whose terms have no known bound.
const FEW_TERMS: u64 = 4096;

struct Search<'s, 't, 'a> {
    model: &'s Dataflow<'s, 't, 'a>,
    constants: &'s Constants<'a>,
    bounds: &'s [Bounds],
    request: &'s ConvertRequest,
    low: DataType,
    shapes: Vec<Shapes<'a>>,
    found: HashMap<usize, &'static str>,
}

/// Pins what is sensitive.
pub(crate) fn pin(
    variables: &mut Variables<'_, '_, '_>,
    model: &Dataflow<'_, '_, '_>,
    constants: &Constants<'_>,
    bounds: &[Bounds],
    request: &ConvertRequest,
) {
    let low = variables.low;
    let shapes = model.bodies.iter().map(|_| Shapes::default()).collect();
    let mut search = Search { model, constants, bounds, request, low, shapes, found: HashMap::new() };
    (0..model.nodes.len()).for_each(|node| search.node(node));
    search.masks();
    for (node, what) in search.found {
        let node = &model.nodes[node];
        if let Some(variable) = variables.nodes[node.body][node.at] {
            variables.pins.wide(variable, Reason::Sensitive(what));
        }
    }
}

/// Whether a step only arranges elements, or is a Cast.
fn arranges(step: &Step<'_, '_>) -> bool {
    step.traits.is(Flag::Arranges)
}

impl Search<'_, '_, '_> {
    fn traits(&self, node: usize) -> &'static Traits {
        self.model.nodes[node].step.traits
    }

    fn computes(&self, node: usize, what: Computes) -> bool {
        self.traits(node).computes == Some(what)
    }

    fn note(&mut self, node: usize, what: &'static str) {
        self.found.entry(node).or_insert(what);
    }

    /// The nodes that compute an input of a node, before any that only arrange.
    fn before(&self, node: usize, input: usize) -> Vec<usize> {
        let value = self.model.nodes[node].input(input);
        let ends = value.map(|value| self.model.sources(value, arranges).0).unwrap_or_default();
        ends.into_iter().filter_map(|end| self.model.node_of(end)).collect()
    }

    fn span(&self, value: usize) -> Option<Span> {
        self.constants.span(self.model.values[value].body, Some(self.model.values[value].id))
    }

    fn node(&mut self, node: usize) {
        let traits = self.traits(node);
        if let Some(what) = traits.sensitive.filter(|_| self.is_sensitive(node)) {
            self.note(node, what);
        }
        if traits.inside == Some(Inside::Mean) && self.low == DataType::Float16 && self.adds_many(node) {
            self.note(node, "a sum of many terms");
        }
        if self.computes(node, Computes::Total) {
            self.reduces(node);
        }
        // One at a time, however many meet at an index.
        let step = self.model.nodes[node].step;
        let reduction = step.node.attribute("reduction").map(|attribute| attribute.lend().value);
        let adds = |by: AttributeValue<'_>| matches!(by, AttributeValue::String(b"add" | b"mul"));
        if traits.is(Flag::Updates) && reduction.is_some_and(adds) {
            self.note(node, "a sum by index");
        }
        if let (Some(Computes::Logarithm), Some(what)) = (traits.computes, traits.sensitive) {
            self.logarithm(node, what);
        }
        let mut spans = self.model.nodes[node].inputs.iter().flatten().filter_map(|&value| self.span(value));
        let is_epsilon = spans.any(|span| span.least > 0.0 && span.greatest < tiny(self.low));
        if is_epsilon && matches!(traits.computes, Some(Computes::Sum | Computes::Choice)) {
            self.note(node, "an epsilon");
            self.divides(node, "an epsilon");
        }
    }

    /// The largest magnitude of a node's first input: the recorded range or the computed bound, whichever is smaller.
    fn largest(&self, node: &Node<'_, '_, '_>) -> Option<f32> {
        let input = node.input(0)?;
        let value = &self.model.values[self.model.before_casts(input)];
        // Ranges are not recorded within functions, which may be called several times.
        let name = self.model.bodies[value.body].flow.values[value.id].name;
        let recorded = self.request.ranges.get(name).filter(|_| value.body == 0);
        let recorded = recorded.map_or(f32::INFINITY, |range| range * self.request.margin);
        Some(recorded.min(self.bounds[input].magnitude())).filter(|largest| largest.is_finite())
    }

    fn fits(&self, value: f32) -> bool {
        value.is_finite() && !overflows(value, self.low)
    }

    /// Whether the sum inside a mean may overflow.
    fn adds_many(&self, node: usize) -> bool {
        let node = &self.model.nodes[node];
        let count = terms::count(self.model, &self.shapes, node);
        match (count, self.largest(node)) {
            (Some(count), Some(largest)) => !self.fits(largest * count as f32),
            (count, None) => count.is_some_and(|count| count > FEW_TERMS),
            (None, Some(_)) => false,
        }
    }

    /// Whether a node is sensitive, given that its operator is always or sometimes sensitive.
    fn is_sensitive(&self, node: usize) -> bool {
        let (node, traits) = (&self.model.nodes[node], self.traits(node));
        let step = node.step;
        let int = |name: &str| step.node.attribute(name).map(|attribute| attribute.int());
        match traits.when {
            None => true,
            Some(When::Stash(since)) => {
                let float = i64::from(DataType::Float.onnx());
                step.graph.opset.is_none_or(|opset| opset < since) || int("stash_type").unwrap_or(float) != float
            }
            Some(When::Attribute(name)) => int(name).unwrap_or(0) != 0,
            Some(When::Squares) => {
                let count = terms::count(self.model, &self.shapes, node);
                !count
                    .zip(self.largest(node))
                    .is_some_and(|(count, largest)| self.fits(largest * largest * count as f32))
            }
            Some(When::Exponential) => {
                let mut values = node.outputs.iter().flatten().map(|&value| &self.model.values[value]);
                let is_bounded = values.all(|value| {
                    let mut reads = value.reads.iter();
                    !value.is_output && value.becomes.is_empty() && reads.all(|read| saturates(self.traits(read.0)))
                });
                let is_small = self.largest(node).is_some_and(|largest| self.fits(largest.exp()));
                self.low == DataType::Float16 && !is_bounded && !is_small
            }
        }
    }

    /// What a logarithm reads: a spectrum, and what that is computed by. Where values nearly cancel, a small one has no
    /// right digits, and its logarithm is as large as any other.
    fn logarithm(&mut self, node: usize, what: &'static str) {
        use Computes::{Comparison, Exponential, Logarithm};
        let (mut open, mut seen) = (vec![node], std::collections::HashSet::new());
        while let Some(node) = open.pop() {
            let inputs = self.model.nodes[node].inputs.iter().flatten();
            let ends = inputs.flat_map(|&value| self.model.sources(value, |_| false).0);
            for giver in ends.filter_map(|end| self.model.node_of(end)).collect::<Vec<_>>() {
                let traits = self.traits(giver);
                let (goes_on, ends) = match traits.computes {
                    // A choice is by the digits of what is chosen.
                    Some(Comparison) => (false, true),
                    // What saturates nears zero, or the number that it is taken from.
                    None | Some(Exponential | Logarithm) => {
                        (traits.is(Flag::Spectrum) || traits.is(Flag::Arranges), saturates(traits))
                    }
                    Some(_) => (true, false),
                };
                if goes_on && seen.insert(giver) {
                    open.push(giver);
                }
                if goes_on || ends {
                    self.note(giver, what);
                }
            }
        }
    }

    /// A sum or mean of squares, or of exponentials.
    fn reduces(&mut self, node: usize) {
        for before in self.before(node, 0) {
            let inputs = &self.model.nodes[before].inputs;
            let is_square = self.computes(before, Computes::Power)
                || (self.computes(before, Computes::Product) && inputs.first() == inputs.get(1));
            let what = match self.traits(before).computes {
                Some(Computes::Exponential) => "a sum of exponentials",
                _ if is_square => "a mean of squares",
                _ => continue,
            };
            self.note(before, what);
            self.note(node, what);
            self.divides(node, what);
            // A variance squares differences from a mean.
            for difference in self.before(before, 0) {
                if is_square && self.computes(difference, Computes::Sum) {
                    let means =
                        self.before(difference, 1).into_iter().filter(|&mean| self.computes(mean, Computes::Total));
                    for mean in means.collect::<Vec<_>>() {
                        self.note(difference, what);
                        self.note(mean, what);
                    }
                }
            }
        }
    }

    /// What is added to a sum, the root of that, and what is divided by it.
    fn divides(&mut self, node: usize, what: &'static str) {
        let mut open = vec![node];
        for _ in 0..32 {
            let Some(node) = open.pop() else { return };
            for next in self.model.readers(node, arranges) {
                match self.traits(next).computes {
                    Some(Computes::Sum | Computes::Choice | Computes::Power | Computes::Root)
                        if !self.found.contains_key(&next) =>
                    {
                        open.push(next);
                        self.note(next, what);
                    }
                    Some(Computes::Quotient) => self.note(next, what),
                    _ => {}
                }
            }
        }
    }

    /// What a mask goes through on its way to a Softmax.
    fn masks(&mut self) {
        let hides = |value: usize| self.span(value).is_some_and(|span| span.least <= MASK);
        let known = (0..self.model.values.len()).map(hides).collect();
        let masks = self.model.forward(known, |node, output, facts| {
            let is_own = node.outputs[output].is_some_and(hides);
            is_own || (is_mask_way(node.step) && node.inputs.iter().flatten().any(|&value| facts[value]))
        });
        let ends = MaskOf::all(self.model);
        for (at, node) in self.model.nodes.iter().enumerate() {
            let reads_mask = node.inputs.iter().flatten().any(|&value| masks[value]);
            let is_read = node.outputs.iter().flatten().any(|&value| ends[value].softmax);
            if is_mask_way(node.step) && reads_mask && is_read {
                self.found.entry(at).or_insert("a mask of attention");
            }
        }
    }
}
