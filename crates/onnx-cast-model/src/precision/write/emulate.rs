//! Emulated models: they stay float, with a Cast down and a Cast up wherever a value would be narrow.

use super::Writer;
use crate::edits::GraphEdits;
use crate::graph::values::{Id, Origin, Step};
use crate::precision::mask::of_mask;
use crate::precision::variables::{Reading, Use};
use crate::types::value::ValueType;
use onnx_cast::DataType;

impl<'a> Writer<'_, '_, 'a> {
    /// A value of a model that stays float, rounded where it would be narrow.
    pub(super) fn emulated(&mut self, place: usize, id: Id, readings: &[Reading], edits: &mut GraphEdits<'a>) {
        if !self.variables.is_tensor(place, id) {
            return;
        }
        let (name, low) = (self.variables.body(place).flow.values[id].name, self.variables.low);
        let own = self.is_low(place, id);
        if !own {
            self.raise_mask(place, id, edits);
        }
        let (readers, others): (Vec<_>, Vec<_>) =
            readings.iter().partition(|&&reading| own || self.reads_low(&reading));
        let producer = self.variables.producer(place, id).filter(|_| own);
        let is_rounded = (readers.is_empty() && producer.is_none())
            || self.is_rounded(place, id)
            || (own && self.round_fill(place, id, edits))
            || (!readers.is_empty() && readers.iter().all(|reading| self.is_rounding(reading)));
        if is_rounded {
            return self.set_apart(place, id, readings, name, edits);
        }
        let narrow = self.names.fresh(format!("{name}_{low}"));
        if let Some(step) = producer {
            let exact = self.names.fresh(format!("{name}_exact"));
            self.rename(place, step, id, &exact, edits);
            self.cast(place, id, [&exact, &narrow], low, edits);
            self.cast(place, id, [&narrow, name], DataType::Float, edits);
            return self.set_apart(place, id, readings, name, edits);
        }
        // An output keeps its name, and so it is what is rounded that has it.
        let (fixed, readers): (Vec<_>, Vec<_>) = readers.into_iter().partition(|reading| self.is_fixed(place, reading));
        if let Some(step) = self.variables.producer(place, id).filter(|_| !fixed.is_empty()) {
            let exact = self.names.fresh(format!("{name}_exact"));
            self.rename(place, step, id, &exact, edits);
            others.iter().for_each(|reading| self.redirect(reading, &exact, false, edits));
            self.cast(place, id, [&exact, &narrow], low, edits);
            self.cast(place, id, [&narrow, name], DataType::Float, edits);
            self.set_apart(place, id, &readers, name, edits);
            return self.set_apart(place, id, &others, &exact, edits);
        }
        if readers.is_empty() {
            return self.set_apart(place, id, readings, name, edits);
        }
        let rounded = self.names.fresh(format!("{name}_rounded"));
        readers.iter().for_each(|reading| self.redirect(reading, &rounded, false, edits));
        self.cast(place, id, [name, &narrow], low, edits);
        self.cast(place, id, [&narrow, &rounded], DataType::Float, edits);
        self.set_apart(place, id, &readers, &rounded, edits);
        self.set_apart(place, id, &others, name, edits);
    }

    /// Whether a value is one that a Cast gives of the narrow type, so that rounding it changes nothing.
    fn is_rounded(&self, place: usize, id: Id) -> bool {
        let body = self.variables.body(place);
        let Origin::Node(step, 0) = body.flow.values[id].origin else { return false };
        let step = &body.flow.steps[step];
        let input = step.inputs.first().copied().flatten().filter(|_| step.node.is("Cast"));
        input.is_some_and(|input| body.types[input] == Some(ValueType::Tensor(self.variables.low)))
    }

    /// Whether what reads a value is a Cast to the narrow type: it rounds whether or not the value is rounded before.
    fn is_rounding(&self, reading: &Reading) -> bool {
        let Use::Input(step, 0) = reading.place else { return false };
        let body = self.variables.body(reading.body);
        let step = &body.flow.steps[step];
        let output = step.outputs.first().copied().flatten().filter(|_| step.node.is("Cast"));
        output.is_some_and(|output| body.types[output] == Some(ValueType::Tensor(self.variables.low)))
    }

    /// The node of a value that is a ConstantOfShape, and the place of its number, which is 0 where it is left out.
    pub(super) fn fill(&self, place: usize, id: Id) -> Option<(&Step<'_, 'a>, Option<usize>)> {
        let Origin::Node(step, 0) = self.variables.body(place).flow.values[id].origin else { return None };
        let step = &self.variables.body(place).flow.steps[step];
        let at = step.node.attributes.iter().position(|attribute| attribute.name == "value");
        step.node.is("ConstantOfShape").then_some((step, at))
    }

    /// Rounds the number of a ConstantOfShape itself, and raises that of a mask. Returns whether the value is one.
    pub(super) fn round_fill(&self, place: usize, id: Id, edits: &mut GraphEdits<'a>) -> bool {
        let Some((step, at)) = self.fill(place, id) else { return false };
        if let Some(at) = at {
            let new = of_mask(step.node, self.variables.low, self.clamp, true);
            let edit = edits.entry(step.graph.id).or_default().nodes.entry(step.index).or_default();
            edit.attributes.insert(at, Some(new));
        }
        true
    }
}
