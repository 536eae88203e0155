//! The version of the model format that a model needs: for its opset, its element types and its parts. The facts are
//! the comments on `Version` in ONNX's `onnx.proto`. Fields that readers may ignore (`metadata_props`, annotations)
//! need none.

use super::listed;
use crate::error::{ModelError, ModelErrorKind};
use crate::graph::opsets;
use crate::messages::{attribute, of_type, value_info};
use crate::tree::{Document, Graph};
use crate::types::schemas::Schema;
use onnx_cast::{DataType, NEWEST_OPSET};
use onnx_cast_file::__private::wire::{FieldValue, last};
use onnx_cast_file::__private::{Short, pb};
use std::collections::{BTreeSet, HashSet};

/// The oldest version whose models import opsets.
const OLDEST: i64 = 3;

/// The version that is asked for, if a model at an opset needs no newer one.
pub(super) fn checked(document: &Document<'_>, opset: i64, wanted: i64) -> Result<u64, ModelError> {
    let newest = opsets::ir_version(NEWEST_OPSET).unwrap_or_default();
    let refuse = |what| ModelError::new(ModelErrorKind::Opset, what);
    let known = u64::try_from(wanted).ok().filter(|&version| wanted >= OLDEST && version <= newest);
    let Some(version) = known else {
        return Err(refuse(format!("ir_version {wanted} is unknown (want {OLDEST} to {newest})")));
    };
    let needs = needs(document, opset)?;
    let newer: Vec<String> = needs
        .into_iter()
        .filter(|(least, _)| *least > version)
        .map(|(least, what)| format!("{what} needs {least}"))
        .collect();
    match &newer[..] {
        [] => Ok(version),
        newer => Err(refuse(format!("the model cannot have ir_version {version}: {}", listed(newer)))),
    }
}

/// The parts of a model that need a version of the format, and that version.
fn needs(document: &Document<'_>, opset: i64) -> Result<Vec<(u64, String)>, ModelError> {
    let mut needs = vec![(opsets::ir_version(opset).unwrap_or_default(), format!("opset {opset}"))];
    for function in &document.functions {
        let signature = function.signature.as_ref();
        let (name, overload) = signature.map_or(("", ""), |signature| (signature.name, signature.overload));
        let name = Short(name);
        needs.push((8, format!("function `{name}`")));
        if signature.is_some_and(|signature| !signature.defaults.is_empty()) {
            needs.push((9, format!("a default of function `{name}`")));
        }
        if !overload.is_empty() {
            needs.push((10, format!("overload `{}` of function `{name}`", Short(overload))));
        }
    }
    for graph in document.graphs() {
        needs.extend(parts(graph));
    }
    let types: BTreeSet<i32> = types(document)?.into_iter().map(DataType::onnx).collect();
    for data_type in types.into_iter().filter_map(|number| DataType::from_onnx(number.into())) {
        let first = ["Identity", "Cast", "QuantizeLinear"].iter().find_map(|one| Schema::first_giving(one, data_type));
        // The format had bfloat16 before an operator took it.
        let version = if data_type == DataType::BFloat16 { Some(4) } else { first.and_then(opsets::ir_version) };
        needs.push((version.unwrap_or_default(), data_type.to_string()));
    }
    Ok(needs)
}

fn parts(graph: &Graph<'_>) -> Vec<(u64, String)> {
    let mut needs = Vec::new();
    let inputs: HashSet<&str> = graph.inputs.iter().map(|input| input.name).collect();
    if let Some(named) = graph.initializers.iter().find(|named| !inputs.contains(named.name)) {
        needs.push((4, format!("initializer `{}`, which is not also an input,", Short(named.name))));
    }
    if let Some(name) = graph.sparse.first() {
        needs.push((6, format!("sparse initializer `{}`", Short(name))));
    }
    for declared in graph.inputs.iter().chain(&graph.outputs).chain(&graph.value_info) {
        let message = last(declared.message, value_info::TYPE, FieldValue::bytes).ok().flatten().unwrap_or_default();
        let has = |field| last(message, field, FieldValue::bytes).ok().flatten().is_some();
        for (field, what) in [(of_type::SPARSE_TENSOR, "sparse tensor"), (of_type::OPTIONAL, "optional")] {
            if has(field) {
                needs.push((8, format!("{what} `{}`", Short(declared.name))));
            }
        }
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        if !node.overload.is_empty() {
            needs.push((10, format!("the overload of {}", node.label(index))));
        }
        let has = |field| {
            let message = |message| last(message, field, FieldValue::bytes).ok().flatten().is_some();
            node.attributes.iter().any(|attribute| message(attribute.message))
        };
        if has(attribute::SPARSE_TENSOR) || has(attribute::SPARSE_TENSORS) {
            needs.push((6, format!("a sparse tensor of {}", node.label(index))));
        }
    }
    needs
}

/// Every element type that declarations, constants and casts mention.
fn types(document: &Document<'_>) -> Result<Vec<DataType>, ModelError> {
    let graphs = document.graphs();
    let declared = graphs.iter().flat_map(|graph| graph.inputs.iter().chain(&graph.outputs).chain(&graph.value_info));
    let targets = graphs.iter().flat_map(|graph| &graph.nodes).filter_map(|node| node.target());
    let constants = document.tensors()?;
    let constants = constants.iter().filter_map(|(message, _)| Some(pb::head(message).ok()?.data_type));
    Ok(declared.filter_map(|declared| declared.data_type).chain(targets).chain(constants).collect())
}
