//! The modules that are kept, as the loaders of a layout know them. Loaders quantize every Linear layer that the list
//! does not name. They have layers that no tensor belongs to, such as an output layer that shares the weight of the
//! embedding, and give parts of a model other names than the checkpoint has. A pattern outlives both.

use super::linear::{Linears, is_number, module_of};
use crate::layouts::{Checkpoint, KeptNames, Order, WrittenWeight, are_experts};
use std::collections::HashSet;

/// The names, and the patterns behind them.
pub(super) fn kept_modules(
    checkpoint: &Checkpoint,
    linears: &Linears<'_>,
    written: &[WrittenWeight],
    style: KeptNames,
) -> Vec<String> {
    // Configurations name the module that transposed experts are in, and `module` is the name of their tensor.
    let names = written.iter().map(|weight| match (weight.order, weight.module.rsplit_once('.')) {
        (Order::Exchanged, Some((module, _))) => module,
        _ => &weight.module,
    });
    let quantized: HashSet<&str> = names.collect();
    let mut kept = Kept {
        style,
        parts: quantized.iter().flat_map(|name| name.split('.')).collect(),
        tails: quantized.iter().map(|name| tail(name)).collect(),
        quantized,
        list: Vec::new(),
        seen: HashSet::new(),
    };
    let modules: Vec<(&str, bool)> = checkpoint
        .tensors()
        .filter_map(|(_, stored)| match stored.shape.len() {
            2 => Some((module_of(&stored.name)?, false)),
            3 if are_experts(stored) => Some((stored.name.rsplit_once('.')?.0, true)),
            _ => None,
        })
        .filter(|(module, _)| !kept.quantized.contains(module))
        .collect();
    // A part that loaders rename gives a hint that they rename the others too.
    let towers: Vec<Option<&str>> = modules.iter().map(|(module, _)| kept.tower(linears, module)).collect();
    let is_renamed = towers.iter().any(Option::is_some);
    for (&(module, are_experts), tower) in modules.iter().zip(&towers) {
        kept.module(module, *tower, are_experts, is_renamed);
    }
    for head in linears.heads() {
        let end = format!(".{head}");
        let is_quantized = kept.quantized.iter().any(|name| *name == head || name.ends_with(&end));
        if !is_quantized && checkpoint.find(&format!("{head}.weight")).is_none() {
            kept.add(head.to_owned());
        }
        if !is_quantized && is_renamed && style == KeptNames::Expressions {
            kept.add(format!(r"re:.*\b{}$", escaped_path(head)));
        }
    }
    kept.list
}

struct Kept<'a> {
    style: KeptNames,
    quantized: HashSet<&'a str>,
    /// The parts of their names.
    parts: HashSet<&'a str>,
    /// Their names from the part before the first number on, without the numbers.
    tails: HashSet<String>,
    list: Vec<String>,
    seen: HashSet<String>,
}

impl Kept<'_> {
    fn add(&mut self, name: String) {
        if self.seen.insert(name.clone()) {
            self.list.push(name);
        }
    }

    /// The part of the model that a module is in, where all of that part is kept.
    fn tower<'n>(&self, linears: &Linears<'_>, module: &'n str) -> Option<&'n str> {
        linears.tower(module).filter(|part| !self.parts.contains(part))
    }

    /// Adds a module, and what else loaders may call it.
    fn module(&mut self, module: &str, tower: Option<&str>, are_experts: bool, is_renamed: bool) {
        let has_expressions = self.style == KeptNames::Expressions;
        if let Some(part) = tower {
            match self.style {
                KeptNames::Expressions => return self.add(format!(r"re:.*\b{}\b.*", escaped(part))),
                KeptNames::Globs => self.add(format!("*{part}.*")),
                KeptNames::Parts => {
                    self.add(part.to_owned());
                    self.add(format!(r"(.*\.)?{}", escaped(part)));
                }
            }
            return self.add(module.to_owned());
        }
        let experts = module.find(".experts").map(|at| &module[..at + ".experts".len()]);
        match experts.filter(|experts| has_expressions && (are_experts || self.keeps_all(experts))) {
            // Loaders ask for the matrices of one expert.
            Some(experts) => self.expression(experts, r"\b.*"),
            None if has_expressions && is_renamed && module.split('.').any(is_number) => self.expression(module, "$"),
            None => self.add(module.to_owned()),
        }
    }

    /// Whether nothing below a module is quantized.
    fn keeps_all(&self, module: &str) -> bool {
        !self.quantized.iter().any(|name| name.strip_prefix(module).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Adds an expression for a module, whatever comes before the name of its layers: of all layers, unless it is
    /// quantized in others.
    fn expression(&mut self, module: &str, end: &str) {
        let tail = tail(module);
        let is_of_all = !self.tails.iter().any(|other| {
            other.strip_prefix(&*tail).is_some_and(|rest| rest.is_empty() || end != "$" && rest.starts_with('.'))
        });
        let parts = tail_of(module).map(|part| match part {
            part if is_of_all && is_number(part) => r"\d+".to_owned(),
            part => escaped(part),
        });
        self.add(format!(r"re:.*\b{}{end}", parts.collect::<Vec<_>>().join(r"\.")));
    }
}

/// The parts of a name from the one before the first number on.
fn tail_of(module: &str) -> impl Iterator<Item = &str> {
    let first = module.split('.').position(is_number).unwrap_or(1);
    module.split('.').skip(first.saturating_sub(1))
}

/// The same as a name, with a sign in place of numbers.
fn tail(module: &str) -> String {
    tail_of(module).map(|part| if is_number(part) { "#" } else { part }).collect::<Vec<_>>().join(".")
}

/// A name as an expression that matches it.
fn escaped_path(name: &str) -> String {
    name.split('.').map(escaped).collect::<Vec<_>>().join(r"\.")
}

/// A part of a name as an expression that matches it.
fn escaped(part: &str) -> String {
    let mut text = String::new();
    for c in part.chars() {
        if !c.is_alphanumeric() && c != '_' {
            text.push('\\');
        }
        text.push(c);
    }
    text
}
