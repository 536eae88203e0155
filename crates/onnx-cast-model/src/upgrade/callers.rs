//! What the calls of a function tell of its attributes.

use crate::graph::functions::FunctionNames;
use crate::messages::attribute;
use crate::tree::{Document, Graph, Node};
use onnx_cast_file::__private::outline::Outline;
use onnx_cast_file::__private::wire::{self, Fields};
use std::cell::RefCell;
use std::collections::HashMap;

/// Functions that hand their own attributes on, at most so deep.
const MAX_DEPTH: usize = 64;

/// An attribute of a function, by the function's number.
type Key = (usize, String);

/// The calls of every function, each with the body that it stands in.
pub(super) struct Callers<'t, 'a> {
    outline: &'a Outline<'a>,
    /// By the function's number.
    calls: HashMap<usize, Vec<(&'t Graph<'a>, &'t Node<'a>)>>,
    /// What was found out already: a function may be reached by more ways than can be walked.
    agreed: RefCell<HashMap<Key, Option<Option<&'a [u8]>>>>,
    given: RefCell<HashMap<Key, bool>>,
}

impl<'t, 'a> Callers<'t, 'a> {
    pub(super) fn of(document: &'t Document<'a>, outline: &'a Outline<'a>) -> Self {
        let names = FunctionNames::of(&document.functions);
        let mut calls: HashMap<usize, Vec<_>> = HashMap::new();
        for body in document.bodies().filter(|_| !document.functions.is_empty()) {
            for node in body.every().into_iter().flat_map(|graph| &graph.nodes) {
                if let Some(function) = names.called(node) {
                    calls.entry(document.functions[function].id).or_default().push((body, node));
                }
            }
        }
        Callers { outline, calls, agreed: RefCell::default(), given: RefCell::default() }
    }

    /// The attribute of a function on which all of its calls agree: an AttributeProto, or an inner `None` where none
    /// gives it and it has no default. An outer `None` where they differ, or there are no calls.
    pub(super) fn agreed(&self, function: &Graph<'a>, name: &str) -> Option<Option<&'a [u8]>> {
        self.agreed_at(function, name, 0)
    }

    fn agreed_at(&self, function: &Graph<'a>, name: &str, depth: usize) -> Option<Option<&'a [u8]>> {
        if depth == MAX_DEPTH {
            return None;
        }
        let key = (function.id, name.to_owned());
        if let Some(known) = self.agreed.borrow().get(&key) {
            return *known;
        }
        // A function that calls itself asks for what is being found out.
        self.agreed.borrow_mut().insert(key.clone(), None);
        let agreed = self.agreement(function, name, depth);
        self.agreed.borrow_mut().insert(key, agreed);
        agreed
    }

    fn agreement(&self, function: &Graph<'a>, name: &str, depth: usize) -> Option<Option<&'a [u8]>> {
        let default = function.signature.as_ref()?.defaults.iter().find(|one| one.name == name);
        let mut agreed = None;
        for (body, call) in self.calls.get(&function.id)? {
            let given = match call.attribute(name) {
                Some(given) if given.refers => self.agreed_at(body, given.referred()?, depth + 1)?,
                given => given.map(|given| given.message),
            };
            let given = given.or(default.map(|default| default.message));
            if given.is_some_and(|given| !self.outline.is_whole(given)) {
                return None; // a large tensor, which is not read for this
            }
            let same = |one: &Option<&[u8]>| one.map(|one| renamed(one, "")) == given.map(|one| renamed(one, ""));
            if agreed.as_ref().is_some_and(|agreed| !same(agreed)) {
                return None;
            }
            agreed = Some(given);
        }
        agreed
    }

    /// Whether an attribute of a function has a default, or every call gives it.
    pub(super) fn always_give(&self, function: &Graph<'a>, name: &str) -> bool {
        self.always_give_at(function, name, 0)
    }

    fn always_give_at(&self, function: &Graph<'a>, name: &str, depth: usize) -> bool {
        let Some(signature) = function.signature.as_ref().filter(|_| depth < MAX_DEPTH) else { return false };
        if signature.defaults.iter().any(|one| one.name == name) {
            return true;
        }
        let key = (function.id, name.to_owned());
        if let Some(known) = self.given.borrow().get(&key) {
            return *known;
        }
        self.given.borrow_mut().insert(key.clone(), false);
        let gives = |(body, call): &(&'t Graph<'a>, &'t Node<'a>)| {
            call.attribute(name).is_some_and(|given| {
                // What a caller hands on, it has to be given itself.
                !given.refers || given.referred().is_some_and(|to| self.always_give_at(body, to, depth + 1))
            })
        };
        let given = self.calls.get(&function.id).is_none_or(|calls| calls.iter().all(gives));
        self.given.borrow_mut().insert(key, given);
        given
    }
}

/// An AttributeProto by another name.
pub(super) fn renamed(message: &[u8], name: &str) -> Vec<u8> {
    let mut new = Vec::with_capacity(message.len() + name.len());
    wire::put_bytes(&mut new, attribute::NAME, name.as_bytes());
    let fields = Fields::new(message).map_while(Result::ok);
    fields.filter(|field| field.number != attribute::NAME).for_each(|field| new.extend_from_slice(field.span));
    new
}
