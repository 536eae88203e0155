//! Copies that keep onnxruntime from fusing nodes into one that it then refuses: a layer normalization of two types
//! (`norms.rs`), and a DequantizeLinear with a MatMul of another type than its scale. A copy is a Sum of one value: it
//! changes no bit, every opset has it for floats, and no optimizer takes it away.

use super::Writer;
use crate::edits::{GraphEdits, NewNode};
use crate::graph::values::{Id, Origin, Step};
use crate::operators::Flag;
use crate::precision::norms::{Norm, before_cast};
use crate::precision::variables::{Reading, Use};
use crate::types::value::ValueType;
use onnx_cast::DataType;
use std::collections::BTreeSet;

/// Calls of functions that are looked through from within, at most.
const MOST_CALLS: usize = 8;

impl<'a> Writer<'_, '_, 'a> {
    /// Where copies are to be read.
    pub(super) fn find_apart(&self) -> BTreeSet<(usize, Use)> {
        let mut apart = BTreeSet::new();
        for (place, norms) in self.assignment.norms.iter().enumerate() {
            for norm in norms {
                apart.extend(self.copies(place, norm).into_iter().map(|reading| (place, reading)));
            }
            apart.extend(self.dequantized(place).map(|reading| (place, reading)));
        }
        apart
    }

    /// Where the model reads narrow results of DequantizeLinear that it cast to float so far. These Casts change
    /// nothing now, and onnxruntime would remove them and fuse what is before and behind them.
    fn dequantized(&self, place: usize) -> impl Iterator<Item = Use> {
        let body = self.variables.body(place);
        let narrow = Some(ValueType::Tensor(self.variables.low));
        let passes = |step: &Step<'_, '_>| step.traits.is(Flag::Arranges);
        let casts = body.flow.steps.iter().filter(move |step| step.node.is("Cast") && !self.emulate);
        let outputs = casts.filter_map(move |step| {
            let (&[Some(input), ..], &[Some(output), ..]) = (&step.inputs[..], &step.outputs[..]) else { return None };
            let Origin::Node(before, _) = body.flow.values[body.flow.source(input, passes).0].origin else {
                return None;
            };
            let is_dequantized = body.flow.steps[before].node.op_type == "DequantizeLinear";
            (is_dequantized && body.types[input] == narrow && self.is_low(place, output)).then_some(output)
        });
        let reads = outputs.flat_map(move |output| self.known(place, output));
        reads.filter(|reading| self.reads_low(reading)).map(|reading| reading.place)
    }

    /// Where a normalization needs them.
    fn copies(&self, place: usize, norm: &Norm) -> Vec<Use> {
        let steps = &self.variables.body(place).flow.steps;
        let outputs = norm.affine.map(|step| steps[step].outputs.first().copied().flatten());
        let [Some(scaled), Some(biased)] = outputs.map(|id| self.final_type(place, id?)) else { return Vec::new() };
        // In an emulated model, Casts within keep the fusion away.
        let is_within = |reading: &Reading| reading.place == norm.reads[0].1 && self.reads_low(reading);
        if self.emulate && self.known(place, norm.input).any(is_within) {
            return Vec::new();
        }
        // And so does one between these two.
        if scaled != biased || self.input_types(place, norm).iter().all(|of_type| *of_type == Some(scaled)) {
            return Vec::new();
        }
        let reads_low = |&(id, place_of): &(Id, Use)| {
            self.known(place, id).any(|reading| reading.place == place_of && self.reads_low(reading)) && !self.emulate
        };
        // Behind a copy, it is the float input that is fused with a float scale.
        let by_input = scaled != self.variables.low && !norm.reads.iter().any(reads_low);
        if by_input { norm.reads.iter().map(|read| read.1).collect() } else { vec![norm.quotient.1] }
    }

    /// The types that the input of the fused operator may have, as far as is known.
    fn input_types(&self, place: usize, norm: &Norm) -> Vec<Option<DataType>> {
        let flow = &self.variables.body(place).flow;
        let value = &flow.values[norm.input];
        let own = self.is_low(place, norm.input);
        let reads = |reading: &&Reading| norm.reads.iter().any(|read| read.1 == reading.place);
        let Some(reading) = self.known(place, norm.input).find(reads) else {
            // It is not of floats, or of the other narrow type.
            return vec![self.final_type(place, norm.input)];
        };
        let low = self.reads_low(reading);
        let of = |low| self.variables.type_of(place, Some(norm.input), low);
        let (given, read) = (of(own), of(low && !self.emulate));
        let is_cast = own != low || (self.emulate && own);
        if is_cast {
            let readers = || self.known(place, norm.input).filter(|one| self.emulate || self.reads_low(one) == low);
            let norms = self.assignment.norms[place].iter().filter(|one| one.input == norm.input);
            let all: BTreeSet<_> = norms.flat_map(|norm| &norm.reads).map(|read| read.1).collect();
            return match readers().count() == norm.times() {
                true => vec![Some(given)],
                // Equal normalizations of one value become one, which then alone reads the Cast.
                false if readers().all(|reading| all.contains(&reading.place)) => vec![Some(given), Some(read)],
                false => vec![Some(read)],
            };
        }
        match (before_cast(flow, norm), value.origin) {
            (Some(before), _) => vec![self.final_type(place, before)],
            (None, Origin::Other) => {
                let mut types = vec![Some(given)];
                types.extend(self.given_types(place, norm.input, 0).into_iter().map(Some));
                types
            }
            (None, _) => vec![Some(given)],
        }
    }

    /// The types of what calls hand to an input of a function, before any Cast.
    fn given_types(&self, place: usize, input: Id, depth: usize) -> BTreeSet<DataType> {
        let ports = &self.variables.body(place).flow.ports[&self.variables.roots[place]];
        let mut types = BTreeSet::new();
        let index = ports.inputs.iter().position(|&one| one == input).filter(|_| place > 0 && depth < MOST_CALLS);
        let Some(index) = index else { return types };
        for (caller, body) in self.variables.typing.bodies.iter().enumerate() {
            for (&step, _) in body.calls.iter().filter(|&(_, &callee)| callee == place) {
                let Some(Some(id)) = body.flow.steps[step].inputs.get(index).copied() else { continue };
                let is_rounded = self.emulate
                    && (self.is_low(caller, id) || self.known(caller, id).any(|reading| self.reads_low(reading)));
                types.extend(if is_rounded { Some(self.variables.low) } else { self.final_type(caller, id) });
                match body.flow.values[id].origin {
                    Origin::Other => types.extend(self.given_types(caller, id, depth + 1)),
                    Origin::Node(at, 0) if body.flow.steps[at].node.is("Cast") => {
                        let before = body.flow.steps[at].inputs.first().copied().flatten();
                        types.extend(before.and_then(|before| self.final_type(caller, before)));
                    }
                    _ => {}
                }
            }
        }
        types
    }

    /// The readings of a value that are not yet written.
    fn known(&self, place: usize, id: Id) -> impl Iterator<Item = &Reading> {
        self.readings.get(&(place, id)).into_iter().flatten()
    }

    /// The element type that a value will have.
    fn final_type(&self, place: usize, id: Id) -> Option<DataType> {
        match self.variables.values[place][id] {
            Some(_) => Some(self.variables.type_of(place, Some(id), self.is_low(place, id) && !self.emulate)),
            None => self.variables.body(place).types[id].as_ref()?.tensor(),
        }
    }

    /// Has readers that are to be kept apart read a copy of what they read by a name.
    pub(super) fn set_apart(
        &mut self,
        place: usize,
        id: Id,
        readings: &[Reading],
        name: &str,
        edits: &mut GraphEdits<'a>,
    ) {
        let is_apart = |reading: &&Reading| self.apart.contains(&(reading.body, reading.place));
        let readings: Vec<_> = readings.iter().filter(is_apart).collect();
        if readings.is_empty() {
            return;
        }
        let copy = self.names.fresh(format!("{name}_copy"));
        for reading in readings {
            self.redirect(reading, &copy, false, edits);
        }
        let node = self.names.fresh(format!("{copy}_sum"));
        self.behind(place, id, NewNode::new("Sum", node, vec![name.to_owned()], copy), edits);
    }
}
