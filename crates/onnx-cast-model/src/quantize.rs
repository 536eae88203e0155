//! `quantize` on a model: each selected weight becomes a constant of few bits with scales, followed by a
//! DequantizeLinear that gives the old name its old type (`dequantize_linear.rs`); or the nodes that multiply by it
//! become MatMulNBits (`matmul_nbits.rs`).

mod dequantize_linear;
mod matmul_nbits;
mod passed_over;
mod readings;

use crate::constant::{Constant, Site};
use crate::edits::Edits;
use crate::error::{Error, ModelError, ModelErrorKind};
use crate::external::Files;
use crate::graph::opsets;
use crate::graph::values::Flow;
use crate::operators::{self, Traits};
use crate::source::ModelSource;
use crate::tree::{Document, Graph};
use crate::types::ranks;
use crate::upgrade;
use crate::weights::{MIN_SIZE, Made, check_rules, rewrite_counted};
pub(crate) use matmul_nbits::MICROSOFT;
use matmul_nbits::Products;
use onnx_cast::DataType;
use onnx_cast_file::__private::named;
use onnx_cast_file::{ModelForm, ModelOptions, QuantizeRequest, QuantizedFormat, Summary, TensorSummary, WeightFormat};
use readings::{Axes, Calls, Found, site};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// Quantizes the weights of a model: see [`crate::quantize`]. Scales and elements are computed while they are written.
pub(crate) fn quantize_weights(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &QuantizeRequest,
) -> Result<(Vec<u8>, Summary), Error> {
    let QuantizeRequest { model: ModelOptions { storage, .. }, run, .. } = request;
    rewrite_counted((source, output), (run, storage), &|| {}, |document, files| edits(document, files, request))
}

/// A weight that is to be quantized.
struct ChosenWeight<'a> {
    constant: Constant<'a>,
    to: WeightFormat,
    axes: Axes,
    /// Its place among the main graph and the functions.
    body: usize,
    graph: usize,
    /// Whether it is in a function, or in a graph within one: there are no initializers.
    is_in_function: bool,
    opset: Option<i64>,
    site: Site,
    /// The input of the same name as the initializer.
    input: Option<usize>,
    row: usize,
}

fn edits<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    request: &QuantizeRequest,
) -> Result<(Edits<'a>, Made), ModelError> {
    let calls = Calls::of(document)?;
    let flows: Vec<Flow<'_, 'a>> = document.bodies().map(|body| Flow::of(body, Traits::of)).collect();
    let (mut chosen, mut tensors) = choose_all(document, &calls, &flows, files, request)?;
    request.selection.check_names(tensors.iter().map(|row| &*row.name))?;
    let chosen_rows: HashSet<usize> = chosen.iter().map(|one| one.row).collect();
    let want = "a constant of floats with two axes or more that is not an input";
    check_rules(&request.selection, &tensors, |(row, _)| chosen_rows.contains(&row), want)?;
    let mut edits = Edits::default();
    let (mut passed_over, mut counters) = (Vec::new(), Vec::new());
    let read: HashSet<(usize, Site)> = chosen.iter().map(|one| (one.graph, one.site)).collect();
    let products = keep_some(&mut chosen, &flows, request, &mut passed_over)?;
    for flow in &flows {
        passed_over.extend(passed_over::passed_over((document, &calls), flow, &read, &request.selection, files)?);
    }
    if chosen.is_empty() {
        return Err(nothing(&passed_over));
    }
    if document.training {
        return Err(ModelError::training());
    }
    let mut names = document.names();
    let mut needed = (0, 0);
    let last = Arc::default();
    let formats: Vec<QuantizedFormat> = chosen.iter().map(|one| one.to.format).collect();
    let mut products = products.into_iter();
    for one in chosen {
        let row = one.row;
        if let Some(products) = products.next() {
            let (summary, counter) = one.edit_products(products, &mut edits, &mut names, request, &last)?;
            edits.import_microsoft = !document.graph.imports.iter().any(|(domain, _)| *domain == MICROSOFT);
            tensors[row] = summary;
            counters.push((row, counter));
            continue;
        }
        let (opset, name) = (one.opset.unwrap_or(0), one.constant.name);
        let (summary, needs, counter) = one.edit(&mut edits, &mut names, request, &last)?;
        if needs > opset && !request.model.raise_opset {
            return Err(ModelError::needs_opset(name, "DequantizeLinear", summary.to, needs, opset));
        }
        needed = needed.max((needs, opset));
        tensors[row] = summary;
        counters.push((row, counter));
    }
    let (needs, opset) = needed;
    if needs > opset {
        upgrade::raise(document, files, needs, &mut edits, &mut names)?;
    }
    // Initializers need no inputs from version 4 of the format on.
    let newest = opsets::ir_version(needs).into_iter().chain([4]).max();
    edits.ir_version = newest.filter(|&version| document.ir_version >= 3 && version > document.ir_version);
    let mut summary = Summary::new(tensors);
    summary.passed_over = passed_over;
    summary.notes.extend(where_it_runs(&formats));
    Ok((edits, (summary, counters)))
}

impl ChosenWeight<'_> {
    /// Why the weight is kept if its quantized form would take this many bytes.
    fn not_smaller(&self, bytes: Option<u64>) -> Option<String> {
        let before = self.constant.bytes();
        match bytes {
            Some(bytes) if bytes < before => None,
            Some(bytes) => {
                Some(format!("{} would take {bytes} bytes with its scales, not less than {before}", self.to))
            }
            None => Some(format!("{} would be too large", self.to)),
        }
    }
}

/// Every weight that is to be quantized, and the constants of the model.
fn choose_all<'a>(
    document: &Document<'a>,
    calls: &Calls<'_, 'a>,
    flows: &[Flow<'_, 'a>],
    files: &'a Files<'a>,
    request: &QuantizeRequest,
) -> Result<(Vec<ChosenWeight<'a>>, Vec<TensorSummary>), ModelError> {
    let (mut chosen, mut tensors) = (Vec::new(), Vec::new());
    for (index, (body, flow)) in document.bodies().zip(flows).enumerate() {
        let axes = axes(flow, calls.readings(flow)?);
        for graph in body.every() {
            let place = Place { document, body: index, graph, is_in_function: body.is_function };
            choose(&place, &axes, files, request, &mut chosen, &mut tensors)?;
        }
    }
    Ok((chosen, tensors))
}

/// Removes weights that the format does not fit, or would not make smaller, and notes the reasons. Returns the products
/// by each of the others, for MatMulNBits.
fn keep_some(
    chosen: &mut Vec<ChosenWeight<'_>>,
    flows: &[Flow<'_, '_>],
    request: &QuantizeRequest,
    passed_over: &mut Vec<(String, String)>,
) -> Result<Vec<Products>, ModelError> {
    let mut products = Vec::new();
    for one in std::mem::take(chosen) {
        let reason = if request.form == ModelForm::MatMulNBits {
            let found = matmul_nbits::products(&flows[one.body], one.graph, one.site);
            let reason = one.not_for_nbits(found.as_ref(), request.zero_points)?;
            products.extend(found.filter(|_| reason.is_none()));
            reason
        } else {
            one.not_for_dequantize_linear()?
        };
        match reason {
            Some(reason) => passed_over.push((one.constant.name.to_owned(), reason)),
            None => chosen.push(one),
        }
    }
    Ok(products)
}

/// No weight that is to be quantized.
fn nothing(passed_over: &[(String, String)]) -> ModelError {
    if !passed_over.is_empty() {
        let what = format!("no weight to quantize: every one is kept: {}", named(passed_over));
        return ModelError::new(ModelErrorKind::Request, what);
    }
    let mut operators = operators::weighted();
    let last = operators.pop().unwrap_or_default();
    let operators = format!("{} or {last}", operators.join(", "));
    let what = format!("no weight to quantize: no constant is a weight of {operators}");
    ModelError::new(ModelErrorKind::Request, what)
}

/// What runs a model, where onnxruntime does not by itself.
fn where_it_runs(formats: &[QuantizedFormat]) -> Option<String> {
    let mut blocks: Vec<&str> = Vec::new();
    for format in formats.iter().filter(|format| matches!(format, QuantizedFormat::Block(_))) {
        if !blocks.contains(&format.name()) {
            blocks.push(format.name());
        }
    }
    let blocks = blocks.join(", ");
    (!blocks.is_empty()).then(|| {
        format!(
            "onnxruntime has no CPU kernel for the DequantizeLinear of {blocks}: its sessions run the model with the \
             execution provider of onnx-cast, and without it once `onnx-cast dequantize` has made the weights plain"
        )
    })
}

/// Where constants are chosen.
struct Place<'t, 'a> {
    document: &'t Document<'a>,
    body: usize,
    graph: &'t Graph<'a>,
    is_in_function: bool,
}

fn choose<'a>(
    &Place { document, body, graph, is_in_function }: &Place<'_, 'a>,
    axes: &HashMap<(usize, Site), Axes>,
    files: &'a Files<'a>,
    request: &QuantizeRequest,
    chosen: &mut Vec<ChosenWeight<'a>>,
    tensors: &mut Vec<TensorSummary>,
) -> Result<(), ModelError> {
    for (site, constant) in Constant::of_graph(graph, files)? {
        let row = tensors.len();
        tensors.push(TensorSummary::kept(constant.name, constant.shape.clone(), constant.data_type, constant.bytes()));
        let (selection, rank, len) = (&request.selection, constant.shape.len(), constant.len as u64);
        let axes = axes.get(&(graph.id, site)).copied();
        let input = if let Site::Initializer(_, input) = site { input } else { None };
        let is_fixed = input.is_some() && document.ir_version >= 4;
        let is_large = len >= selection.min_elements.unwrap_or(MIN_SIZE) && rank >= 2;
        let to = selection.target_if(constant.name, len, |_| axes.is_some());
        if let Some(to) = to.filter(|_| is_float(constant.data_type) && is_large && !is_fixed) {
            let axes = axes.unwrap_or(Axes { outputs: 0, summed: rank - 1 });
            let (graph, opset) = (graph.id, graph.opset);
            chosen.push(ChosenWeight { constant, to, axes, body, graph, is_in_function, opset, site, input, row });
        }
    }
    Ok(())
}

fn is_float(data_type: DataType) -> bool {
    matches!(data_type, DataType::Float | DataType::Float16 | DataType::BFloat16)
}

/// The axes of the constants of a body, by their graph and their site: branches may have one name for constants of
/// their own. What looks rows up, and does not add products up, decides only where nothing else does.
fn axes(flow: &Flow<'_, '_>, found: Vec<Found>) -> HashMap<(usize, Site), Axes> {
    let mut axes = HashMap::new();
    let (lookups, products): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.reading.looks_up());
    for Found { value, reading, .. } in lookups.into_iter().chain(products) {
        let Some(site) = site(flow, value) else { continue };
        let found = ranks::of_constant(flow, value).and_then(|rank| reading.axes(rank));
        axes.extend(found.map(|found| (site, found)));
    }
    axes
}
