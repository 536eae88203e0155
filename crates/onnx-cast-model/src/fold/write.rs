//! The decisions of a fold, written down as edits.

use super::decide::{Casting, Fold};
use crate::edits::{Edits, NodeEdit};
use crate::graph::values::{Id, Origin};
use crate::tree::Declared;
use std::collections::HashSet;

impl<'a> Fold<'_, 'a> {
    /// Writes down what has been decided.
    pub(super) fn write(&mut self, edits: &mut Edits<'a>) {
        for &step in &self.dropped {
            self.node_edit(step, edits).drop = true;
        }
        let mut taken = HashSet::new();
        for casting in std::mem::take(&mut self.computed) {
            if self.flow.is_unused(casting.output) {
                self.forget(casting.output);
            } else {
                self.store(&casting, edits, &mut taken);
            }
        }
        for id in std::mem::take(&mut self.released) {
            if self.flow.is_unused(id) && self.discard(id, taken.contains(&id), edits) {
                self.forget(id);
            }
        }
        self.rename(edits);
    }

    fn node_edit<'e>(&self, step: usize, edits: &'e mut Edits<'a>) -> &'e mut NodeEdit<'a> {
        let step = &self.flow.steps[step];
        edits.graphs.entry(step.graph.id).or_default().nodes.entry(step.index).or_default()
    }

    fn forget(&mut self, id: Id) {
        let value = &self.flow.values[id];
        self.gone.insert((value.graph, value.name));
    }

    /// Replaces the constant that a computed one comes from, if nothing else needs that, or adds it.
    fn store(&self, casting: &Casting, edits: &mut Edits<'a>, taken: &mut HashSet<Id>) {
        let Some(known) = self.known.get(&casting.output) else { return };
        let result = &self.flow.values[casting.output];
        let (name, graph) = (result.name, self.graph(casting).id);
        let root = &self.flow.values[known.root];
        let free = root.graph == graph && self.flow.is_unused(known.root) && !taken.contains(&known.root);
        match root.origin {
            Origin::Initializer(index, input)
                if free && result.outputs == 0 && (input.is_some() || self.document.ir_version >= 4) =>
            {
                let edit = edits.graphs.entry(graph).or_default();
                edit.initializers.insert(index, Some(known.tensor(Some(name))));
                edit.inputs.extend(input.map(|input| (input, Some((name.to_owned(), casting.to)))));
                taken.insert(known.root);
            }
            Origin::Node(step, _) if free && self.fits_node(casting) => {
                let node = self.node_edit(step, edits);
                node.value = Some(known.tensor(None));
                node.outputs.insert(0, name.to_owned());
                taken.insert(known.root);
            }
            _ if self.needs_node(casting) => {
                let node = self.node_edit(casting.read.step, edits);
                (node.drop, node.constant) = (false, Some((name.to_owned(), known.tensor(Some(name)))));
            }
            _ => edits.graphs.entry(graph).or_default().added_initializers.push(known.tensor(Some(name))),
        }
    }

    /// Removes what gives an unused value, if that is a constant; whether the value is gone. One that is `taken` has
    /// another value in its place.
    fn discard(&self, id: Id, taken: bool, edits: &mut Edits<'a>) -> bool {
        let value = &self.flow.values[id];
        let edit = edits.graphs.entry(value.graph).or_default();
        match value.origin {
            // An input that may be given stays, read or not.
            Origin::Initializer(_, Some(_)) if self.document.ir_version >= 4 => return false,
            Origin::Initializer(index, input) if !taken => {
                edit.initializers.insert(index, None);
                edit.inputs.extend(input.map(|input| (input, None)));
            }
            Origin::Node(step, _) if !self.flow.steps[step].node.is("Constant") => return false,
            Origin::Node(step, _) if !taken => self.node_edit(step, edits).drop = true,
            Origin::Other => return false,
            _ => {}
        }
        true
    }

    /// New names wherever a value is given or read by another than it has now, and no declarations of those that are
    /// gone.
    fn rename(&self, edits: &mut Edits<'a>) {
        for value in &self.flow.values {
            if let Origin::Node(step, place) = value.origin
                && self.flow.steps[step].node.outputs[place] != value.name
            {
                self.node_edit(step, edits).outputs.insert(place, value.name.to_owned());
            }
            for read in &value.reads {
                if self.flow.steps[read.step].node.inputs[read.input] != value.name {
                    self.node_edit(read.step, edits).inputs.insert(read.input, value.name.to_owned());
                }
            }
        }
        for graph in self.flow.graphs.values() {
            let lost = |declared: &Declared<'a>| self.gone.contains(&(graph.id, declared.name));
            let lost: Vec<_> = (0..graph.value_info.len()).filter(|&index| lost(&graph.value_info[index])).collect();
            if !lost.is_empty() {
                edits.graphs.entry(graph.id).or_default().value_info.extend(lost.into_iter().map(|at| (at, None)));
            }
        }
    }
}
