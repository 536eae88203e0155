//! Masks that are computed in float, and cast on their way to a Softmax. float32's lowest number is beyond a narrow
//! type, so that a Cast makes it minus infinity; with a row of nothing else, the Softmax gives NaN.

use super::Writer;
use crate::constant::Constant;
use crate::edits::{Content, GraphEdits, Home, NewTensor};
use crate::graph::dataflow::Dataflow;
use crate::graph::values::{Id, Origin};
use crate::precision::assign::Assignment;
use crate::precision::constants::KnownConstant;
use crate::precision::mask::{is_mask_way, is_raised, raised};
use crate::precision::variables::Variables;

/// By value: whether a narrow node reads it, directly or through operators that pass masks on.
pub(super) fn read_narrow(
    model: &Dataflow<'_, '_, '_>,
    variables: &Variables<'_, '_, '_>,
    assignment: &Assignment,
) -> Vec<bool> {
    model.backward(vec![false; model.values.len()], |node, _, facts| {
        let variable = variables.nodes[node.body][node.at];
        let goes_on = node.outputs.iter().flatten().any(|&value| is_mask_way(node.step) && facts[value]);
        goes_on || variable.is_some_and(|variable| assignment.is_low(variables, variable))
    })
}

impl<'a> Writer<'_, '_, 'a> {
    /// Raises a ConstantOfShape that stays float, and that narrow nodes read in the end.
    pub(super) fn raise_mask(&self, place: usize, id: Id, edits: &mut GraphEdits<'a>) {
        let is_raised = |node| is_raised(node, self.variables.low, self.clamp);
        if self.fill(place, id).is_some_and(|(step, _)| is_raised(step.node)) && self.is_cast(place, id) {
            self.round_fill(place, id, edits);
        }
    }

    /// Likewise a constant.
    pub(super) fn raise_constant(&self, place: usize, id: Id, edits: &mut GraphEdits<'a>) {
        let Some(KnownConstant { constant, span }) = self.constants.get(place, id) else { return };
        let flow = &self.variables.body(place).flow;
        let is_sentinel = span.is_some_and(|span| span.is_sentinel(self.variables.low)) && self.clamp.is_none();
        if !is_sentinel || !self.is_cast(place, id) {
            return;
        }
        let Constant { shape, message, .. } = constant;
        let elements = constant.elements.as_ref().and_then(|elements| raised(elements, self.variables.low));
        let Some(elements) = elements else { return };
        let (shape, home, content) = (shape.clone(), Home::of(*message), Content::Elements(elements));
        let tensor = NewTensor { message: *message, name: None, shape, home, content };
        let edit = edits.entry(flow.values[id].graph).or_default();
        match flow.values[id].origin {
            Origin::Initializer(index, _) => drop(edit.initializers.insert(index, Some(tensor))),
            Origin::Node(step, _) => edit.nodes.entry(flow.steps[step].index).or_default().value = Some(tensor),
            Origin::Other => {}
        }
    }

    /// Whether a value is a mask and nothing else, and is cast to the narrow type on its way.
    fn is_cast(&self, place: usize, id: Id) -> bool {
        let value = &self.model.values[self.model.value(place, id)];
        // A constant itself is stored in each type in which it is read.
        let is_constant = self.variables.constants[place].contains(&id);
        let is_low = |variable| self.assignment.is_low(self.variables, variable);
        let is_read = value.reads.iter().map(|&(node, _)| &self.model.nodes[node]).any(|node| {
            let goes_on = node.outputs.iter().flatten().any(|&value| is_mask_way(node.step) && self.narrow[value]);
            goes_on || (!is_constant && self.variables.nodes[node.body][node.at].is_some_and(is_low))
        });
        self.masks[self.model.value(place, id)].is_mask()
            && (is_read || value.becomes.iter().any(|&value| self.narrow[value]))
    }
}
