//! What is the same for all calls of a function, and so true of its body as the model has it.

use super::Body;
use super::ranks::Ranks;
use super::value::ValueType;
use crate::graph::values::{Flow, Id};
use crate::tree::Document;
use onnx_cast::DataType;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// The main graph or a function, with the graphs within, and what is known of its values.
pub(crate) struct AgreedBody<'t, 'a> {
    pub(crate) flow: Flow<'t, 'a>,
    /// By value: the element type of a dense tensor; none where calls differ.
    pub(crate) types: Vec<Option<DataType>>,
    /// By step that calls a function.
    calls: HashMap<usize, usize>,
    ranks: Ranks<'a>,
}

impl<'t, 'a> AgreedBody<'t, 'a> {
    /// Every body, by the number of its graph.
    pub(super) fn all(document: &'t Document<'a>, bodies: Vec<Body<'t, 'a>>) -> HashMap<usize, Self> {
        let mut all: HashMap<usize, Self> = HashMap::new();
        for body in bodies {
            let graph = body.function.map_or(&document.graph, |place| &document.functions[place]);
            match all.entry(graph.id) {
                // The values of one body have the same places in each.
                Entry::Occupied(known) => {
                    for (agreed, of_type) in known.into_mut().types.iter_mut().zip(&body.types) {
                        *agreed = agreed.filter(|agreed| tensor(of_type) == Some(*agreed));
                    }
                }
                Entry::Vacant(free) => drop(free.insert(AgreedBody::of(body))),
            }
        }
        all
    }

    fn of(Body { flow, types, calls, .. }: Body<'t, 'a>) -> Self {
        let types = types.iter().map(tensor).collect();
        AgreedBody { flow, types, calls, ranks: Ranks::default() }
    }

    /// How many axes a value has.
    pub(crate) fn rank(&self, id: Id) -> Option<usize> {
        self.ranks.of(&self.flow, |step| self.calls.contains_key(&step), id)
    }
}

/// The element type of a dense tensor.
fn tensor(of_type: &Option<ValueType>) -> Option<DataType> {
    match of_type {
        Some(ValueType::Tensor(data_type)) => Some(*data_type),
        _ => None,
    }
}
