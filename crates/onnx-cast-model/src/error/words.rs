//! How errors list names, and word versions and shapes.

use onnx_cast::ops::Dim;
use onnx_cast_file::text::{ShapeText, Short};

/// `ai.onnx.ml.`, or nothing for ONNX's own domain.
pub(super) fn prefix(domain: &str) -> String {
    if domain.is_empty() { String::new() } else { format!("{}.", Short(domain)) }
}

/// Names of values, or `none`.
pub(super) fn names(list: &[String]) -> String {
    const LIMIT: usize = 16;
    let mut names: Vec<String> = list.iter().take(LIMIT).map(|name| format!("`{}`", Short(name))).collect();
    names.extend((list.len() > LIMIT).then(|| "...".to_owned()));
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// What is wrong with nodes.
pub(super) fn listed(list: &[String]) -> String {
    const LIMIT: usize = 8;
    let more = list.len().saturating_sub(LIMIT);
    let text = list[..list.len() - more].join("; ");
    if more > 0 { format!("{text}; and {more} more") } else { text }
}

/// A declared shape.
pub(super) fn declared(dims: &[Dim]) -> String {
    let text = |dim: &Dim| match dim {
        Dim::Known(dim) => dim.to_string(),
        Dim::Symbol(name) => Short(name).to_string(),
        Dim::Unknown => "?".to_owned(),
    };
    ShapeText(&dims.iter().map(text).collect::<Vec<_>>()).to_string()
}

pub(super) fn first_with(version: Option<i64>) -> String {
    version.map_or(String::new(), |since| format!(" (version {since} is the first that does)"))
}
