//! `quantize` on a model: each selected weight becomes a constant of few bits with scales. Then a DequantizeLinear
//! gives the old name its old type (`dequantize_linear.rs`), or the nodes that read the weight (`readers.rs`) are
//! replaced: by operators of packed weights (`matmul_nbits.rs`) or of integers (`dynamic.rs`).

mod counterparts;
mod dequantize_linear;
mod dynamic;
mod fusions;
mod matmul_nbits;
mod passed_over;
mod readers;
mod readings;

use crate::constant::{Constant, Site};
use crate::edits::Edits;
use crate::error::{Error, ModelError, ModelErrorKind};
use crate::external::Files;
use crate::graph::opsets;
use crate::graph::values::Flow;
use crate::operators::{self, MICROSOFT, Traits};
use crate::source::ModelSource;
use crate::tree::{Document, Graph};
use crate::types::ranks;
use crate::upgrade;
use crate::weights::{MIN_SIZE, Made, check_rules, rewrite_counted};
use onnx_cast::DataType;
use onnx_cast_file::__private::named;
use onnx_cast_file::{ModelForm, ModelOptions, QuantizeRequest, QuantizedFormat, Summary, TensorSummary, WeightFormat};
use readers::Readers;
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
    /// The nodes that read it, if these are replaced.
    readers: Readers,
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
    keep_some(&mut chosen, &flows, request, &mut passed_over)?;
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
    let notes = match request.form {
        ModelForm::MatMulNBits => matmul_nbits::note(&chosen).into_iter().collect(),
        ModelForm::Dynamic => dynamic::notes(&chosen, request.reduce_range),
        _ => where_it_runs(&calls, &flows, &chosen)?.into_iter().collect(),
    };
    let mut replacements = Vec::new();
    for one in chosen {
        let (row, opset, name) = (one.row, one.opset.unwrap_or(0), one.constant.name);
        let (operator, (summary, needs, counter)) = match request.form {
            ModelForm::MatMulNBits => {
                ("MatMulNBits", one.edit_nbits(&flows[one.body], &mut edits, &mut names, request, &last)?)
            }
            ModelForm::Dynamic => {
                let edited = one.edit_dynamic(&mut replacements, &mut edits, &mut names, request, &last)?;
                ("DynamicQuantizeLinear", edited)
            }
            _ => ("DequantizeLinear", one.edit(&mut edits, &mut names, request, &last)?),
        };
        if needs > opset && !request.model.raise_opset {
            return Err(ModelError::needs_opset(name, operator, summary.to, needs, opset));
        }
        needed = needed.max((needs, opset));
        tensors[row] = summary;
        counters.push((row, counter));
    }
    dynamic::replace_readers(&flows, replacements, &mut edits, &mut names);
    edits.import_microsoft &= !document.graph.imports.iter().any(|(domain, _)| *domain == MICROSOFT);
    let (needs, opset) = needed;
    if needs > opset {
        upgrade::raise(document, files, needs, &mut edits, &mut names)?;
    }
    // Initializers need no inputs from version 4 of the format on.
    let newest = opsets::ir_version(needs).into_iter().chain([4]).max();
    edits.ir_version = newest.filter(|&version| document.ir_version >= 3 && version > document.ir_version);
    let mut summary = Summary::new(tensors);
    summary.passed_over = passed_over;
    summary.notes = notes;
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

/// Removes weights that the format does not fit, or would not make smaller, and notes the reasons. Finds the readers of
/// the others if these are replaced.
fn keep_some(
    chosen: &mut Vec<ChosenWeight<'_>>,
    flows: &[Flow<'_, '_>],
    request: &QuantizeRequest,
    passed_over: &mut Vec<(String, String)>,
) -> Result<(), ModelError> {
    for mut one in std::mem::take(chosen) {
        let flow = &flows[one.body];
        let readers = match request.form {
            ModelForm::MatMulNBits => one.nbits_readers(flow, request.zero_points)?,
            ModelForm::Dynamic => one.dynamic_readers(flow)?,
            _ => one.not_for_dequantize_linear(&request.selection)?.map_or(Ok(Readers::default()), Err),
        };
        match readers {
            Ok(readers) => {
                one.readers = readers;
                chosen.push(one);
            }
            Err(reason) => passed_over.push((one.constant.name.to_owned(), reason)),
        }
    }
    let mut lack_partners = dynamic::lack_partners(chosen).into_iter();
    chosen.retain(|one| {
        let is_kept = lack_partners.next() == Some(true);
        let reason = || (one.constant.name.to_owned(), "LSTM reads it with a matrix that is kept".to_owned());
        passed_over.extend(is_kept.then(reason));
        !is_kept
    });
    Ok(())
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

/// What onnxruntime does with the DequantizeLinears of weights, or what runs a model for which it has no kernels.
fn where_it_runs(
    calls: &Calls<'_, '_>,
    flows: &[Flow<'_, '_>],
    weights: &[ChosenWeight<'_>],
) -> Result<Option<String>, ModelError> {
    let mut blocks: Vec<&str> = Vec::new();
    for format in weights.iter().map(|one| one.to.format) {
        if matches!(format, QuantizedFormat::Block(_)) && !blocks.contains(&format.name()) {
            blocks.push(format.name());
        }
    }
    if blocks.is_empty() {
        return fusions::note(calls, flows, weights);
    }
    let blocks = blocks.join(", ");
    Ok(Some(format!(
        "onnxruntime has no CPU kernel for the DequantizeLinear of {blocks}: its sessions run the model with the execution \
         provider of onnx-cast, and without it once `onnx-cast dequantize` has made the weights plain"
    )))
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
            let axes = axes.unwrap_or(Axes { outputs: 0, summed: rank - 1, is_table: false });
            let (graph, opset, readers) = (graph.id, graph.opset, Readers::default());
            chosen.push(ChosenWeight {
                constant,
                to,
                axes,
                body,
                graph,
                is_in_function,
                opset,
                site,
                input,
                row,
                readers,
            });
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
    let mut axes: HashMap<(usize, Site), Axes> = HashMap::new();
    let (lookups, products): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.reading.looks_up());
    for Found { value, reading, .. } in lookups.into_iter().chain(products) {
        let Some(site) = site(flow, value) else { continue };
        let found = ranks::of_constant(flow, value).and_then(|rank| reading.axes(rank));
        let is_table = axes.get(&site).is_some_and(|known| known.is_table);
        axes.extend(found.map(|found| (site, Axes { is_table: found.is_table || is_table, ..found })));
    }
    axes
}
