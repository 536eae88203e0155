//! Operators that lose digits, or overflow, in 16 bits: exponentials that are added up, means of squares and what is
//! divided by their roots, logarithms, and the masks of attention.

use super::ConvertRequest;
use super::bounds::saturates;
use super::constants::{Constants, overflows};
use super::pins::Reason;
use super::variables::Variables;
use crate::graph::values::{Flow, Id, Origin, Step};
use crate::operators::{Computes, Flag, Traits, When};
use onnx_cast::DataType;
use onnx_cast::ops::AttributeValue;
use std::collections::HashMap;

/// The least normal number of a type.
fn tiny(low: DataType) -> f32 {
    if low == DataType::BFloat16 { f32::MIN_POSITIVE } else { 6.1e-5 }
}

/// What masks add to hide an element, at most.
const MASK: f32 = -1e4;

struct Body<'b, 't, 'a> {
    flow: &'b Flow<'t, 'a>,
    place: usize,
    constants: &'b Constants<'a>,
    /// The least normal number of the narrow type.
    tiny: f32,
    found: HashMap<usize, &'static str>,
    low: DataType,
    request: &'b ConvertRequest,
}

/// Pins what is sensitive.
pub(crate) fn pin(variables: &mut Variables<'_, '_, '_>, constants: &Constants<'_>, request: &ConvertRequest) {
    let (low, tiny) = (variables.low, tiny(variables.low));
    for place in 0..variables.typing.bodies.len() {
        let flow = &variables.body(place).flow;
        let mut body = Body { flow, place, constants, tiny, found: HashMap::new(), low, request };
        (0..flow.steps.len()).for_each(|step| body.step(step));
        for (step, what) in body.found {
            if let Some(variable) = variables.nodes[place][step] {
                variables.pins.wide(variable, Reason::Sensitive(what));
            }
        }
    }
}

impl Body<'_, '_, '_> {
    fn is(&self, step: usize, list: &[&str]) -> bool {
        list.iter().any(|op_type| self.flow.steps[step].node.is(op_type))
    }

    fn traits(&self, step: usize) -> &'static Traits {
        self.flow.steps[step].traits
    }

    fn note(&mut self, step: usize, what: &'static str) {
        self.found.entry(step).or_insert(what);
    }

    /// The step that gives an input of a step, through those that only arrange.
    fn before(&self, step: usize, input: usize) -> Option<usize> {
        let id = (*self.flow.steps[step].inputs.get(input)?)?;
        let (id, _) = self.flow.source(id, |step| step.node.is("Cast") || step.node.is("Identity"));
        match self.flow.values[id].origin {
            Origin::Node(producer, _) => Some(producer),
            _ => None,
        }
    }

    /// The steps that read what a step gives, through those that only arrange.
    fn behind(&self, step: usize) -> Vec<usize> {
        let (mut found, mut open) = (Vec::new(), vec![step]);
        while let Some(step) = open.pop() {
            for id in self.flow.steps[step].outputs.iter().flatten() {
                for read in &self.flow.values[*id].reads {
                    if self.traits(read.step).is(Flag::Arranges) && found.len() < 64 {
                        open.push(read.step);
                    }
                    if !found.contains(&read.step) {
                        found.push(read.step);
                    }
                }
            }
        }
        found.sort_unstable();
        found
    }

    fn step(&mut self, step: usize) {
        let traits = self.traits(step);
        if let Some(what) = traits.sensitive.filter(|_| self.is_sensitive(step)) {
            self.note(step, what);
        }
        if self.is(step, &["ReduceMean", "ReduceSum"]) {
            self.reduces(step);
        }
        // One at a time, however many meet at an index.
        let reduction = self.flow.steps[step].node.attribute("reduction").map(|attribute| attribute.lend().value);
        let adds = |by: AttributeValue<'_>| matches!(by, AttributeValue::String(b"add" | b"mul"));
        if traits.is(Flag::Updates) && reduction.is_some_and(adds) {
            self.note(step, "a sum by index");
        }
        if let (Some(Computes::Logarithm), Some(what)) = (traits.computes, traits.sensitive) {
            self.logarithm(step, what);
        }
        let inputs: Vec<Option<Id>> = self.flow.steps[step].inputs.clone();
        let spans: Vec<_> = inputs.into_iter().filter_map(|id| self.constants.span(self.place, id)).collect();
        let is_epsilon = spans.iter().any(|span| span.least > 0.0 && span.greatest < self.tiny);
        if is_epsilon && self.is(step, &["Add", "Clip", "Max"]) {
            self.note(step, "an epsilon");
            self.divides(step, "an epsilon");
        }
        let is_mask = spans.iter().any(|span| span.least <= MASK);
        if is_mask && (traits.is(Flag::Masks) || self.is(step, &["Expand"])) {
            self.masks(step);
        }
    }

    /// Whether a step of an operator that is sensitive, perhaps only at times, is.
    fn is_sensitive(&self, step: usize) -> bool {
        let (step, traits) = (&self.flow.steps[step], self.traits(step));
        let int = |name: &str| step.node.attribute(name).map(|attribute| attribute.int());
        // A function has no values of its own: it may be called several times.
        let first = || step.inputs.first().copied().flatten().filter(|_| self.place == 0);
        let range = || Some(self.request.ranges.get(self.flow.values[first()?].name)? * self.request.margin);
        let fits = |value: f32| value.is_finite() && !overflows(value, self.low);
        match traits.when {
            None => true,
            Some(When::Stash(since)) => {
                let float = i64::from(DataType::Float.onnx());
                step.graph.opset.is_none_or(|opset| opset < since) || int("stash_type").unwrap_or(float) != float
            }
            Some(When::Attribute(name)) => int(name).unwrap_or(0) != 0,
            Some(When::Squares(name)) => {
                let count = int(name).unwrap_or(1) as f32;
                !range().is_some_and(|range| fits(range * range * count))
            }
            Some(When::Exponential) => {
                let mut reads = step.outputs.iter().flatten().flat_map(|&id| &self.flow.values[id].reads);
                let is_bounded = step.outputs.iter().flatten().all(|&id| self.flow.values[id].outputs == 0)
                    && reads.all(|read| saturates(self.traits(read.step)));
                self.low == DataType::Float16 && !is_bounded && !range().is_some_and(|range| fits(range.exp()))
            }
        }
    }

    /// What a logarithm reads: a spectrum, and what that is computed by. Where values nearly cancel, a small one has no
    /// right digits, and its logarithm is as large as any other.
    fn logarithm(&mut self, step: usize, what: &'static str) {
        use Computes::{Comparison, Exponential, Logarithm};
        let (mut open, mut seen) = (vec![step], std::collections::HashSet::new());
        while let Some(step) = open.pop() {
            for id in self.flow.steps[step].inputs.iter().flatten() {
                let Origin::Node(producer, _) = self.flow.values[*id].origin else { continue };
                let traits = self.traits(producer);
                let (goes_on, ends) = match traits.computes {
                    // A choice is by the digits of what is chosen.
                    Some(Comparison) => (false, true),
                    // What saturates nears zero, or the number that it is taken from.
                    None | Some(Exponential | Logarithm) => {
                        (traits.is(Flag::Spectrum) || traits.is(Flag::Arranges), saturates(traits))
                    }
                    Some(_) => (true, false),
                };
                if goes_on && seen.insert(producer) {
                    open.push(producer);
                }
                if goes_on || ends {
                    self.note(producer, what);
                }
            }
        }
    }

    /// A sum or mean of squares, or of exponentials.
    fn reduces(&mut self, step: usize) {
        let Some(before) = self.before(step, 0) else { return };
        if self.is(before, &["Exp"]) {
            self.note(before, "a sum of exponentials");
            self.note(step, "a sum of exponentials");
            self.divides(step, "a sum of exponentials");
            return;
        }
        let node = &self.flow.steps[before];
        let is_square = self.is(before, &["Pow"])
            || (self.is(before, &["Mul"]) && !node.inputs.is_empty() && node.inputs.first() == node.inputs.get(1));
        if !is_square {
            return;
        }
        let what = "a mean of squares";
        self.note(before, what);
        self.note(step, what);
        self.divides(step, what);
        // What is squared is a difference from a mean.
        if let Some(difference) = self.before(before, 0).filter(|&difference| self.is(difference, &["Sub"])) {
            self.note(difference, what);
            if let Some(mean) = self.before(difference, 1).filter(|&mean| self.is(mean, &["ReduceMean"])) {
                self.note(mean, what);
            }
        }
    }

    /// What is added to a sum, the root of that, and what is divided by it.
    fn divides(&mut self, step: usize, what: &'static str) {
        let mut open = vec![step];
        for _ in 0..32 {
            let Some(step) = open.pop() else { return };
            for next in self.behind(step) {
                if self.is(next, &["Add", "Clip", "Max", "Pow", "Sqrt", "Reciprocal"])
                    && !self.found.contains_key(&next)
                {
                    open.push(next);
                    self.note(next, what);
                } else if self.is(next, &["Div"]) {
                    self.note(next, what);
                }
            }
        }
    }

    /// What a mask goes through on its way to a Softmax.
    fn masks(&mut self, step: usize) {
        let (mut open, mut seen, mut ends) = (vec![step], vec![step], false);
        while let Some(step) = open.pop().filter(|_| seen.len() < 64) {
            for next in self.behind(step) {
                ends |= self.is(next, &["Softmax", "LogSoftmax"]);
                if is_mask_way(&self.flow.steps[next]) && !seen.contains(&next) {
                    seen.push(next);
                    open.push(next);
                }
            }
        }
        if ends {
            seen.into_iter().for_each(|step| self.note(step, "a mask of attention"));
        }
    }
}

/// Whether a mask goes through an operator on its way to a Softmax.
pub(crate) fn is_mask_way(step: &Step<'_, '_>) -> bool {
    step.traits.is(Flag::Masks) || step.traits.is(Flag::Arranges)
}

/// Whether a constant goes to a Softmax, by way of what masks go through.
pub(crate) fn is_mask(flow: &Flow<'_, '_>, value: Id) -> bool {
    let (mut open, mut seen) = (vec![value], 0);
    while let Some(id) = open.pop() {
        for read in &flow.values[id].reads {
            let step = &flow.steps[read.step];
            if ["Softmax", "LogSoftmax"].iter().any(|op_type| step.node.is(op_type)) {
                return true;
            }
            if is_mask_way(step) && seen < 256 {
                seen += 1;
                open.extend(step.outputs.iter().flatten());
            }
        }
    }
    false
}
