//! Masks that are computed in float, and cast on their way to a Softmax. float32's lowest number is beyond a narrow type,
//! so that a Cast makes it minus infinity; with a row of nothing else, the Softmax gives NaN.

use super::Writer;
use crate::constant::Constant;
use crate::edits::{Content, GraphEdits, Home, NewTensor};
use crate::graph::values::{Id, Origin};
use crate::precision::constants::KnownConstant;
use crate::precision::mask::{is_raised, raised};
use crate::precision::sensitive::{is_mask, is_mask_way};

/// Values that are followed to where they are cast, at most.
const MOST: usize = 256;

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
        if !is_sentinel || !is_mask(flow, id) || !self.is_cast(place, id) {
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

    /// Whether something narrow reads a value, or what a mask becomes of it, and all that reads the value is on that way.
    fn is_cast(&self, place: usize, id: Id) -> bool {
        let flow = &self.variables.body(place).flow;
        if !flow.values[id].reads.iter().all(|read| is_mask_way(&flow.steps[read.step])) {
            return false;
        }
        let (mut open, mut seen) = (vec![id], vec![id]);
        while let Some(id) = open.pop().filter(|_| seen.len() < MOST) {
            for read in &flow.values[id].reads {
                let step = &flow.steps[read.step];
                let low = self.variables.nodes[place][read.step]
                    .is_some_and(|variable| self.assignment.is_low(self.variables, variable));
                if low && !self.variables.constants[place].contains(&id) {
                    return true;
                }
                let outputs = step.outputs.iter().flatten().filter(|_| is_mask_way(step));
                for &output in outputs {
                    if !seen.contains(&output) {
                        seen.push(output);
                        open.push(output);
                    }
                }
            }
        }
        false
    }
}
