//! The functions of a model: which node calls which, which of their attributes decide types, and what an attribute
//! means that refers to the caller's.

use crate::error::{ModelError, ModelErrorKind};
use crate::graph::functions::FunctionNames;
use crate::tree::{Attribute, Document, Graph, Node};
use onnx_cast_file::__private::Short;
use std::collections::{HashMap, HashSet};

/// Functions that call functions, at most so deep.
const MAX_DEPTH: usize = 64;

/// Attributes of operators that decide types.
const DECIDING: &[&str] = &[
    "to",
    "cast_to",
    "dtype",
    "output_dtype",
    "output_datatype",
    "type",
    "stash_type",
    "softmax_precision",
    "precision",
    "positive",
    "value",
    "sparse_value",
    "value_float",
    "value_floats",
    "value_int",
    "value_ints",
    "value_string",
    "value_strings",
    "classlabels_strings",
    "values_tensor",
    "values_strings",
    "values_floats",
    "values_int64s",
];

/// Attributes by name.
type Named<'t, 'a> = HashMap<&'a str, &'t Attribute<'a>>;

pub(super) struct Functions<'t, 'a> {
    names: FunctionNames<'a>,
    functions: Vec<Function<'t, 'a>>,
}

#[derive(Default)]
struct Function<'t, 'a> {
    /// Its attributes that decide types, in order.
    deciding: Vec<&'a str>,
    defaults: Named<'t, 'a>,
}

/// The attributes that a function is called with.
#[derive(Default)]
pub(super) struct Attributes<'t, 'a> {
    /// None for the main graph.
    function: Option<usize>,
    given: Named<'t, 'a>,
}

impl<'t, 'a> Functions<'t, 'a> {
    pub(super) fn of(document: &'t Document<'a>) -> Result<Self, ModelError> {
        let function = |function: &'t Graph<'a>| {
            let defaults = function.signature.iter().flat_map(|signature| &signature.defaults);
            Function { deciding: Vec::new(), defaults: defaults.map(|one| (one.name, one)).collect() }
        };
        let functions = document.functions.iter().map(function).collect();
        let mut all = Functions { names: FunctionNames::of(&document.functions), functions };
        for place in all.order(&document.functions)? {
            all.functions[place].deciding = all.deciding(&document.functions[place]);
        }
        Ok(all)
    }

    /// The function that a node calls, if it does.
    pub(super) fn called(&self, node: &Node<'_>) -> Option<usize> {
        self.names.called(node)
    }

    /// The attributes of a function that decide types.
    pub(super) fn deciding_of(&self, function: usize) -> &[&'a str] {
        &self.functions[function].deciding
    }

    /// What a node hands to the function that it calls, itself called with `around`.
    pub(super) fn hand(&self, function: usize, node: &'t Node<'a>, around: &Attributes<'t, 'a>) -> Attributes<'t, 'a> {
        let given = node.attributes.iter().filter_map(|one| Some((one.name, self.meaning(one, around)?)));
        Attributes { function: Some(function), given: given.collect() }
    }

    /// An attribute of a node, or what it stands for in a function that is called with `around`.
    pub(super) fn meaning(
        &self,
        attribute: &'t Attribute<'a>,
        around: &Attributes<'t, 'a>,
    ) -> Option<&'t Attribute<'a>> {
        if attribute.refers { self.value(attribute.referred()?, around) } else { Some(attribute) }
    }

    /// What an attribute of the function around is, given or by default.
    pub(super) fn value(&self, name: &str, around: &Attributes<'t, 'a>) -> Option<&'t Attribute<'a>> {
        let defaults = || self.functions.get(around.function?)?.defaults.get(name);
        let found = around.given.get(name).or_else(defaults).copied();
        found.filter(|one| !one.refers)
    }

    /// The attributes of a function, whose callees have theirs already, that decide types.
    fn deciding(&self, function: &Graph<'a>) -> Vec<&'a str> {
        let mut names = HashSet::new();
        for node in function.every().into_iter().flat_map(|graph| &graph.nodes) {
            let callee = self.called(node).map(|callee| &self.functions[callee]);
            let decides = |name: &str| match callee {
                Some(callee) => callee.deciding.binary_search(&name).is_ok(),
                None => DECIDING.contains(&name),
            };
            let references = node.attributes.iter().filter(|one| one.refers && decides(one.name));
            names.extend(references.filter_map(Attribute::referred));
        }
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_unstable();
        names
    }

    /// The functions, each behind those that it calls.
    fn order(&self, functions: &[Graph<'a>]) -> Result<Vec<usize>, ModelError> {
        let mut callers = vec![Vec::new(); functions.len()];
        let mut waits_for = vec![0; functions.len()];
        for (caller, function) in functions.iter().enumerate() {
            let nodes = function.every().into_iter().flat_map(|graph| &graph.nodes);
            let callees: HashSet<usize> = nodes.filter_map(|node| self.called(node)).collect();
            waits_for[caller] = callees.len();
            callees.into_iter().for_each(|callee| callers[callee].push(caller));
        }
        let mut order: Vec<usize> = (0..functions.len()).filter(|&place| waits_for[place] == 0).collect();
        let mut depths = vec![1; functions.len()];
        let mut next = 0;
        while let Some(&callee) = order.get(next) {
            next += 1;
            if depths[callee] > MAX_DEPTH {
                let what = format!("calls of functions nested more than {MAX_DEPTH} deep");
                return Err(ModelError::new(ModelErrorKind::Size, what));
            }
            for &caller in &callers[callee] {
                depths[caller] = depths[caller].max(depths[callee] + 1);
                waits_for[caller] -= 1;
                if waits_for[caller] == 0 {
                    order.push(caller);
                }
            }
        }
        // What is left calls itself, by way of others or not, or calls what does.
        match waits_for.iter().position(|&left| left > 0) {
            Some(place) => {
                let name = functions[place].signature.as_ref().map_or("", |signature| signature.name);
                let what = format!("function `{}` is recursive", Short(name));
                Err(ModelError::new(ModelErrorKind::Size, what).named(name))
            }
            None => Ok(order),
        }
    }
}
