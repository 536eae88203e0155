//! The functions of a model by their names, and which of them a node calls.

use crate::tree::{Graph, Node, is_default};
use std::collections::HashMap;

/// A domain, a name and an overload.
type Name<'n> = (&'n str, &'n str, &'n str);

/// The places of functions among `Document::functions`, by name; of two with one name, the first counts.
pub(crate) struct FunctionNames<'a>(HashMap<Name<'a>, usize>);

impl<'a> FunctionNames<'a> {
    pub(crate) fn of(functions: &[Graph<'a>]) -> Self {
        let named = functions.iter().enumerate().rev().filter_map(|(place, function)| {
            let signature = function.signature.as_ref()?;
            Some(((plain(signature.domain), signature.name, signature.overload), place))
        });
        FunctionNames(named.collect())
    }

    /// The function that a node calls, if it calls one.
    pub(crate) fn called(&self, node: &Node<'_>) -> Option<usize> {
        let by_name: &HashMap<Name<'_>, usize> = &self.0;
        by_name.get(&(plain(node.domain), node.op_type, node.overload)).copied()
    }
}

/// The one spelling of a domain.
fn plain(domain: &str) -> &str {
    if is_default(domain) { "" } else { domain }
}
