//! The nodes of two models, compared by name. Constants are compared elsewhere, as tensors.

use crate::error::Error;
use crate::messages::attribute::kind;
use crate::paths::{inside, segment};
use crate::rewrite;
use crate::source::ModelSource;
use crate::tree::{Attribute, Document, Graph, Node, is_default};
use onnx_cast_file::{DiffRequest, Difference};
use std::collections::{BTreeMap, HashMap};

/// Nodes by the path of their graph and their name, and opsets by domain. Each has its parts by name.
type Parts = BTreeMap<String, BTreeMap<String, Vec<u8>>>;

/// The nodes and opsets in which two models differ. Patterns select nodes by name, as they select constants.
pub(crate) fn nodes(sources: [ModelSource<'_>; 2], request: &DiffRequest) -> Result<Vec<(String, Difference)>, Error> {
    let [ours, theirs] = [parts(sources[0])?, parts(sources[1])?];
    let is_wanted = |name: &str| {
        (request.include.is_empty() || request.include.iter().any(|pattern| pattern.matches(name)))
            && !request.exclude.iter().any(|pattern| pattern.matches(name))
    };
    let mut names: Vec<&String> = ours.keys().chain(theirs.keys()).filter(|name| is_wanted(name)).collect();
    names.sort_unstable();
    names.dedup();
    let difference = |name: &String| match (ours.get(name), theirs.get(name)) {
        (Some(ours), Some(theirs)) => {
            let all = ours.keys().chain(theirs.keys().filter(|part| !ours.contains_key(*part)));
            let differing: Vec<&str> =
                all.filter(|part| ours.get(*part) != theirs.get(*part)).map(String::as_str).collect();
            (!differing.is_empty()).then(|| Difference::Node(differing.join(", ")))
        }
        (Some(_), None) => Some(Difference::OnlyFirst),
        (None, _) => Some(Difference::OnlySecond),
    };
    Ok(names.into_iter().filter_map(|name| Some((name.clone(), difference(name)?))).collect())
}

fn parts(source: ModelSource<'_>) -> Result<Parts, Error> {
    rewrite::open_source(source, |document, _| Ok(parts_of(document)))
}

fn parts_of(document: &Document<'_>) -> Parts {
    let mut parts = Parts::new();
    for (domain, version) in document.graph.imports.iter() {
        let domain = if is_default(domain) { "ai.onnx" } else { domain };
        let version = BTreeMap::from([("version".to_owned(), version.to_le_bytes().to_vec())]);
        parts.insert(format!("opset {domain}"), version);
    }
    for body in document.bodies() {
        let path = body.signature.as_ref().map_or(String::new(), |it| segment(&format!("{}:{}", it.domain, it.name)));
        add_graph(body, &path, &mut parts);
    }
    parts
}

fn add_graph(graph: &Graph<'_>, path: &str, parts: &mut Parts) {
    let mut interface = BTreeMap::new();
    for (what, declared) in [("inputs", &graph.inputs), ("outputs", &graph.outputs)] {
        let bytes = declared.iter().flat_map(|one| [one.name.as_bytes(), b"\0", one.message, b"\0"].concat());
        interface.insert(what.to_owned(), bytes.collect());
    }
    parts.insert(if path.is_empty() { "graph".to_owned() } else { format!("graph {path}") }, interface);
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for node in graph.nodes.iter().filter(|node| !node.is("Constant")) {
        let name = format!("node {}", inside(path, node.known_as()));
        // Names of nodes need not be unique.
        let number = numbers.entry(name.clone()).and_modify(|number| *number += 1).or_insert(1);
        let name = if *number == 1 { name } else { format!("{name} ({number})") };
        parts.insert(name, parts_of_node(node));
        for attribute in &node.attributes {
            for (index, inner) in attribute.graphs.iter().enumerate() {
                let within = format!("{}/{}[{index}]", segment(node.known_as()), segment(attribute.name));
                add_graph(inner, &inside(path, &within), parts);
            }
        }
    }
}

fn parts_of_node(node: &Node<'_>) -> BTreeMap<String, Vec<u8>> {
    let operator = if is_default(node.domain) { String::new() } else { format!("{}.", node.domain) } + node.op_type;
    let mut parts = BTreeMap::from([
        ("operator".to_owned(), format!("{operator}\0{}", node.overload).into_bytes()),
        ("inputs".to_owned(), node.inputs.join("\0").into_bytes()),
        ("outputs".to_owned(), node.outputs.join("\0").into_bytes()),
    ]);
    for attribute in node.attributes.iter().filter(|attribute| has_comparable_bytes(attribute)) {
        parts.insert(format!("attribute {}", attribute.name), attribute.message.to_vec());
    }
    parts
}

/// Whether the bytes of an attribute are its value. Nested graphs are compared node by node, and the elements of a
/// large tensor are not part of the message that was read.
fn has_comparable_bytes(attribute: &Attribute<'_>) -> bool {
    const SMALL: usize = 256;
    let is_plain = matches!(attribute.kind, kind::FLOATS | kind::INTS | kind::STRING | kind::STRINGS);
    attribute.graphs.is_empty() && (is_plain || attribute.message.len() <= SMALL)
}
