//! The page of `convert`: one file with its style, its script and the decisions as compact JSON. The map of all nodes
//! is drawn by columns of pixels, and the table a hundred rows at a time, so that models of any size stay fast.

use crate::limits::float_limits;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::CastError;
use onnx_cast_explain::html::{BASE_STYLE, fill};
use onnx_cast_model::{ConvertSummary, ValueDecision};
use serde_json::{Value, json};
use std::collections::HashMap;

const PAGE: &str = include_str!("convert_page.html");
const STYLE: &str = include_str!("convert_page.css");
const SCRIPT: &str = include_str!("convert_page.js");

/// The page of a conversion, under a title, with the magnitudes of values where they are known: a whole HTML document
/// that asks the network for nothing.
///
/// # Errors
/// Where the library does not cast the type to double.
pub fn convert_page(
    title: &str,
    done: &ConvertSummary,
    ranges: &HashMap<String, f32>,
    margin: f32,
) -> Result<String, CastError> {
    let _environment = DefaultEnvironment::enter();
    let (mut texts, mut places) = (Vec::new(), HashMap::new());
    let mut text = |text: &str| -> usize {
        *places.entry(text.to_owned()).or_insert_with(|| {
            texts.push(text.to_owned());
            texts.len() - 1
        })
    };
    let nodes: Vec<Value> = done
        .nodes
        .iter()
        .map(|node| json!([text(&node.graph), node.node, text(&node.operator), u8::from(node.low), text(&node.why)]))
        .collect();
    let values: Vec<Value> = done
        .values
        .iter()
        .map(|value| {
            let ValueDecision { graph, name, low, cast, node, .. } = value;
            json!([
                text(graph),
                name,
                u8::from(*low),
                u8::from(*cast),
                node,
                ranges.get(name).map(|range| number(*range))
            ])
        })
        .collect();
    let limits = float_limits(done.to)?.map(|(subnormal, normal, largest)| json!([subnormal, normal, largest]));
    let data = json!({
        "title": title,
        "to": done.to.name(),
        "kept": done.kept_types(),
        "limits": limits,
        "margin": margin,
        "casts": done.casts,
        "constants": done.constants,
        "twice": done.twice,
        "texts": texts,
        "nodes": nodes,
        "values": values,
    });
    Ok(fill(
        PAGE,
        &[
            ("{{base-style}}", BASE_STYLE),
            ("{{style}}", STYLE),
            ("{{script}}", SCRIPT),
            // Within a script element nothing may look like the end of one.
            ("{{data}}", &data.to_string().replace('<', "\\u003c")),
        ],
    ))
}

/// A magnitude; JSON has no infinity.
fn number(magnitude: f32) -> Value {
    if magnitude.is_finite() { json!(magnitude) } else { json!("inf") }
}
