//! The one inference of a model: the types of every value, by type alone (from the operators' schemas, attributes and the
//! bodies of control flow, never from shapes), and the ranks that are declared or plain (`ranks.rs`), where one is asked
//! for. A function has no types of its own; it is typed once for each combination of types that it is called with.

pub(crate) mod agreed;
mod calls;
mod infer;
pub(crate) mod ranks;
mod rules;
pub(crate) mod schemas;
#[cfg(test)]
mod tests;
pub(crate) mod value;

use crate::error::ModelError;
use crate::graph::values::Flow;
use crate::operators::Traits;
use crate::tree::Document;
use agreed::AgreedBody;
use schemas::Schema;
use std::collections::HashMap;
use value::ValueType;

/// Where operators are looked up, by domain and name, and by the opset of the domain.
#[derive(Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) schema: fn(&str, &str, i64) -> Option<&'static Schema>,
    pub(crate) traits: fn(&str, &str) -> &'static Traits,
}

/// The tables of this crate.
pub(crate) const TABLES: Tables = Tables { schema: Schema::of, traits: Traits::of };

/// The types of a model's values.
#[derive(Debug)]
pub(crate) struct Typing<'t, 'a> {
    /// The main graph; then each function, once for each combination of types, and of attributes that decide types,
    /// that it is called with. A function that nothing calls has none.
    pub(crate) bodies: Vec<Body<'t, 'a>>,
    /// How many of them, from the first, run when the model does.
    pub(crate) called: usize,
}

/// The main graph or a function, with the graphs within, and the types of its values.
#[derive(Debug)]
pub(crate) struct Body<'t, 'a> {
    /// The place among `Document::functions`; none for the main graph.
    pub(crate) function: Option<usize>,
    pub(crate) flow: Flow<'t, 'a>,
    /// By value (`graph::values::Id`); none where nothing tells the type.
    pub(crate) types: Vec<Option<ValueType>>,
    /// By step: the schema of its operator at the opset in force in that graph; none of an unknown operator and of a
    /// function.
    pub(crate) schemas: Vec<Option<&'static Schema>>,
    /// By step: the body, a place in [`Typing::bodies`], that a call of a function runs.
    pub(crate) calls: HashMap<usize, usize>,
}

impl<'t, 'a> Typing<'t, 'a> {
    /// Infers the types of a model.
    ///
    /// # Errors
    /// Where functions call themselves, call one another too deep, or are called with too many combinations of types.
    pub(crate) fn of(document: &'t Document<'a>) -> Result<Self, ModelError> {
        infer::bodies(document, false, TABLES)
    }

    /// The same, with a body for each function that nothing calls, whose inputs have no types.
    ///
    /// # Errors
    /// Likewise.
    pub(crate) fn of_all(document: &'t Document<'a>) -> Result<Self, ModelError> {
        infer::bodies(document, true, TABLES)
    }

    /// As [`Typing::of`], by tables of operators that are given.
    #[cfg(test)]
    pub(crate) fn by(document: &'t Document<'a>, tables: Tables) -> Result<Self, ModelError> {
        infer::bodies(document, false, tables)
    }

    /// What is true of the main graph and of every function as the model has them, by the number of the graph.
    pub(crate) fn agreed(self, document: &'t Document<'a>) -> HashMap<usize, AgreedBody<'t, 'a>> {
        AgreedBody::all(document, self.bodies)
    }
}
