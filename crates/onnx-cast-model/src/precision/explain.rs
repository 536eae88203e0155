//! What became of each node and value, and why, for people.

use super::assign::Assignment;
use super::pins::Variable;
use super::variables::{Use, Variables};
use crate::error::{ModelError, ModelErrorKind};
use crate::graph::values::{Id, Origin, Step};
use crate::paths::{self, segment};
use crate::tree::{Document, Graph, Node};
use crate::types::value::ValueType;
use onnx_cast::DataType;
use onnx_cast_file::__private::Short;
use onnx_cast_file::{Pattern, Wording, nearest};
use std::collections::HashMap;
use std::fmt::Write as _;

/// A node that computes with floats, and what decided its type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeDecision {
    /// The graphs around it; empty in the model's own graph.
    pub graph: String,
    /// Its name, or that of its first output where it has none.
    pub node: String,
    /// Its operator.
    pub operator: String,
    /// Whether it computes in the target type.
    pub low: bool,
    /// The type that it computes in.
    pub data_type: DataType,
    /// What decided that.
    pub why: String,
}

/// A floating-point value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValueDecision {
    /// The graphs around it; empty in the model's own graph.
    pub graph: String,
    /// Its name.
    pub name: String,
    /// Whether it has the target type.
    pub low: bool,
    /// Its type.
    pub data_type: DataType,
    /// Whether a Cast gives it in the other type too.
    pub cast: bool,
    /// The node that gives it, by its place among the decisions; none of an input.
    pub node: Option<usize>,
}

/// Where nothing but the number of Casts decides.
const FEWEST: &str = "fewest Casts";

/// Every node and value of floats.
pub(super) fn decisions(
    document: &Document<'_>,
    variables: &Variables<'_, '_, '_>,
    assignment: &Assignment,
) -> (Vec<NodeDecision>, Vec<ValueDecision>) {
    let paths = paths_of(document);
    let path = |graph: usize| paths.get(&graph).cloned().unwrap_or_default();
    let (mut nodes, mut values) = (Vec::new(), Vec::new());
    let mut other = std::collections::HashSet::new();
    let mut places = HashMap::new();
    for reading in &variables.readings {
        let own = variables.values[reading.body][reading.value];
        let low = |variable| assignment.is_low(variables, variable);
        let is_constant = variables.constants[reading.body].contains(&reading.value);
        if !is_constant && own.is_some_and(|own| low(own) != low(reading.variable)) {
            other.insert((reading.body, reading.value));
        }
    }
    for (place, body) in variables.typing.bodies.iter().enumerate() {
        for (at, step) in body.flow.steps.iter().enumerate() {
            let Some(variable) = variables.nodes[place][at] else { continue };
            let node = step.node.known_as().to_owned();
            let low = assignment.is_low(variables, variable);
            places.insert((place, at), nodes.len());
            nodes.push(NodeDecision {
                graph: path(step.graph.id),
                node,
                operator: step.node.op_type.to_owned(),
                low,
                data_type: variables.type_of(place, own_value(variables, place, step), low),
                why: why(variables, assignment, variable),
            });
        }
        for (id, value) in body.flow.values.iter().enumerate() {
            let Some(own) = variables.values[place][id].filter(|_| !variables.constants[place].contains(&id)) else {
                continue;
            };
            let low = assignment.is_low(variables, own);
            let cast = other.contains(&(place, id));
            let node = match value.origin {
                Origin::Node(step, _) => places.get(&(place, step)).copied(),
                _ => None,
            };
            let data_type = variables.type_of(place, Some(id), low);
            let (graph, name) = (path(value.graph), value.name.to_owned());
            values.push(ValueDecision { graph, name, low, data_type, cast, node });
        }
    }
    (nodes, values)
}

/// Refuses a pattern of `low` if none of the nodes that it matches becomes narrow, or is already.
pub(super) fn check_low(
    low: &[Pattern],
    variables: &Variables<'_, '_, '_>,
    assignment: &Assignment,
) -> Result<(), ModelError> {
    // `*` asks for whatever can become narrow, which may be nothing.
    for pattern in low.iter().filter(|pattern| pattern.to_string() != "*") {
        let (mut is_effective, mut kept) = (false, None);
        for (place, body) in variables.typing.bodies.iter().enumerate() {
            let matched = |node: &Node<'_>| pattern.matches(node.op_type) || pattern.matches(node.known_as());
            for (at, step) in body.flow.steps.iter().enumerate().filter(|(_, step)| matched(step.node)) {
                let ids = || step.inputs.iter().chain(&step.outputs).flatten().copied();
                let is_narrow = |id: usize| body.types[id] == Some(ValueType::Tensor(variables.low));
                let own = |id: usize| variables.values[place][id];
                let variable =
                    variables.nodes[place][at].or_else(|| step.outputs.iter().flatten().find_map(|&id| own(id)));
                is_effective |= match variable {
                    Some(variable) => assignment.is_low(variables, variable),
                    None => ids().any(is_narrow),
                };
                let reason = || match variable {
                    Some(variable) => format!("stays float: {}", why(variables, assignment, variable)),
                    None => "does not compute with floats".to_owned(),
                };
                kept.get_or_insert_with(|| format!("`{}` {}", Short(step.node.known_as()), reason()));
            }
        }
        if let Some(kept) = kept.filter(|_| !is_effective) {
            let text = pattern.to_string();
            let what = Wording::default().field("low", format!(" `{}` has no effect: {kept}", Short(&text)));
            return Err(ModelError::new(ModelErrorKind::Request, what).named(&text));
        }
    }
    Ok(())
}

fn why(variables: &Variables<'_, '_, '_>, assignment: &Assignment, variable: Variable) -> String {
    let pin = assignment.pins.get(variables.root(variable));
    pin.map_or_else(|| FEWEST.to_owned(), |pin| pin.reason.to_string())
}

/// The first output of a node that has a type variable, or else the first such input.
fn own_value(variables: &Variables<'_, '_, '_>, place: usize, step: &Step<'_, '_>) -> Option<Id> {
    let mut ids = step.outputs.iter().chain(&step.inputs).flatten();
    ids.find(|&&id| variables.values[place][id].is_some()).copied()
}

/// A value or a node, by name: its type, what decided it, and the types at which it is read.
pub(super) fn explain(
    name: &str,
    document: &Document<'_>,
    variables: &Variables<'_, '_, '_>,
    assignment: &Assignment,
) -> Result<String, ModelError> {
    let paths = paths_of(document);
    let type_of = |place: usize, id: Option<Id>, variable: Variable| {
        variables.type_of(place, id, assignment.is_low(variables, variable)).name()
    };
    let mut text = String::new();
    for (place, body) in variables.typing.bodies.iter().enumerate() {
        let label = |graph: usize, what: String| match paths.get(&graph).filter(|path| !path.is_empty()) {
            Some(path) => format!("{path}: {what}"),
            None => what,
        };
        for (at, step) in body.flow.steps.iter().enumerate().filter(|(_, step)| step.node.name == name) {
            let Some(variable) = variables.nodes[place][at] else { continue };
            let (what, why) = (step.node.label(step.index), why(variables, assignment, variable));
            let _ = writeln!(
                text,
                "{}: {}: {why}",
                label(step.graph.id, what),
                type_of(place, own_value(variables, place, step), variable)
            );
        }
        for (id, value) in body.flow.values.iter().enumerate().filter(|(_, value)| value.name == name) {
            let Some(own) = variables.values[place][id] else { continue };
            let is_constant = variables.constants[place].contains(&id);
            let (own, why) = match is_constant {
                true => ("stored as its readers want it", String::new()),
                false => (type_of(place, Some(id), own), format!(": {}", why(variables, assignment, own))),
            };
            let _ = writeln!(text, "{}: {own}{why}", label(value.graph, format!("value `{name}`")));
            for reading in variables.readings.iter().filter(|one| (one.body, one.value) == (place, id)) {
                let reader = match reading.place {
                    Use::Input(step, _) => body.flow.steps[step].node.label(body.flow.steps[step].index),
                    Use::Output(..) => "an output".to_owned(),
                };
                let (of_type, why) =
                    (type_of(place, Some(id), reading.variable), self::why(variables, assignment, reading.variable));
                let _ = writeln!(text, "  read by {reader} as {of_type}: {why}");
            }
        }
    }
    if text.is_empty() {
        let what = format!("no floating-point value and no node that computes with floats is named `{}`", Short(name));
        return Err(ModelError::unknown(what, name, nearest(name, names(variables))));
    }
    Ok(text)
}

/// The names of all that can be explained.
fn names<'a>(variables: &Variables<'_, '_, 'a>) -> impl Iterator<Item = &'a str> {
    variables.typing.bodies.iter().enumerate().flat_map(|(place, body)| {
        let steps = body.flow.steps.iter().zip(&variables.nodes[place]);
        let nodes = steps.filter(|(_, variable)| variable.is_some()).map(|(step, _)| step.node.name);
        let values = body.flow.values.iter().zip(&variables.values[place]);
        let values = values.filter(|(_, variable)| variable.is_some()).map(|(value, _)| value.name);
        nodes.chain(values).filter(|name| !name.is_empty())
    })
}

/// The graphs around each graph.
fn paths_of(document: &Document<'_>) -> HashMap<usize, String> {
    let mut paths = HashMap::new();
    let mut open: Vec<(&Graph<'_>, String)> = vec![(&document.graph, String::new())];
    open.extend(document.functions.iter().map(|function| {
        let name = function.signature.as_ref().map_or("", |signature| signature.name);
        (function, segment(name))
    }));
    while let Some((graph, path)) = open.pop() {
        for (index, node) in graph.nodes.iter().enumerate() {
            for attribute in &node.attributes {
                for inner in &attribute.graphs {
                    let name =
                        if node.name.is_empty() { format!("{}_{index}", node.op_type) } else { node.name.into() };
                    let name = format!("{}/{}", segment(&name), segment(attribute.name));
                    open.push((inner, paths::inside(&path, &name)));
                }
            }
        }
        paths.insert(graph.id, path);
    }
    paths
}
