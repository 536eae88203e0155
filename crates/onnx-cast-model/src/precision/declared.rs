//! Where graphs declare their values: once for all, since a graph may have a hundred thousand of them.

use crate::tree::Document;
use std::collections::HashMap;

/// The places of a value among what its graph declares.
#[derive(Default)]
pub(super) struct Declared {
    pub(super) value_info: Vec<usize>,
    pub(super) input: Option<usize>,
    pub(super) outputs: Vec<usize>,
}

/// Where graphs declare values.
pub(super) fn declared<'a>(document: &Document<'a>) -> HashMap<(usize, &'a str), Declared> {
    let mut declared: HashMap<(usize, &'a str), Declared> = HashMap::new();
    for graph in document.graphs() {
        for (at, one) in graph.value_info.iter().enumerate() {
            declared.entry((graph.id, one.name)).or_default().value_info.push(at);
        }
        for (at, one) in graph.inputs.iter().enumerate() {
            declared.entry((graph.id, one.name)).or_default().input.get_or_insert(at);
        }
        for (at, one) in graph.outputs.iter().enumerate() {
            declared.entry((graph.id, one.name)).or_default().outputs.push(at);
        }
    }
    declared
}
