//! `cast` on a model: each selected constant becomes the target type, followed by one Cast back to the type that it
//! had.

use crate::constant::{Constant, Site};
use crate::edits::{Content, Edits, Home, NewNode, NewTensor};
use crate::error::{Error, ModelError, ModelErrorKind};
use crate::external::Files;
use crate::graph::opsets;
use crate::graph::values::{Flow, Origin, Value};
use crate::operators::{MICROSOFT, Traits};
use crate::rewrite::{Request, rewrite};
use crate::source::ModelSource;
use crate::tree::{Document, Graph, Names};
use crate::types::schemas::Schema;
use crate::upgrade;
use onnx_cast::ops::Operator;
use onnx_cast::tensor::element_count;
use onnx_cast::{Cast, DataType};
use onnx_cast_file::__private::pipeline::Step;
use onnx_cast_file::__private::{Counter, Counters, ShapeText, Short, note_on_scales};
use onnx_cast_file::{
    CastRequest, FileError, ModelOptions, RunOptions, Selection, Storage, Summary, TensorSummary, Wording,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Casts the selected constants of a model, in its graph, the graphs within it and its functions: initializers, and the
/// values of Constant nodes. Each is stored in its target type under a new name, and a Cast gives the old name in the
/// old type, so that nothing that reads it sees a difference but in its values. A constant that is of its target type,
/// or that such a Cast follows already, stays as it is: casting twice gives the same bytes.
///
/// The summary has the constants in the order of the model.
///
/// `step` is called whenever a file has changed under its name, for tests.
pub(crate) fn cast_constants(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &CastRequest,
    step: &dyn Fn(),
) -> Result<(Vec<u8>, Summary), Error> {
    let CastRequest { model: ModelOptions { storage, .. }, run, .. } = request;
    rewrite_counted((source, output), (run, storage), step, |document, files| edits(document, files, request))
}

/// Rewrites constants of a model, and notes what becomes of their values. The result takes its place only if nothing is
/// lost that may not be.
pub(crate) fn rewrite_counted(
    (source, output): (ModelSource<'_>, Option<&Path>),
    (run, storage): (&RunOptions, &Storage),
    step: &dyn Fn(),
    edits: impl for<'a> Fn(&Document<'a>, &'a Files<'a>) -> Result<(Edits<'a>, Made), ModelError>,
) -> Result<(Vec<u8>, Summary), Error> {
    let (dry_run, counts) = (run.dry_run, run.counts());
    let how = Request { counts, step, ..Request::of(run, storage) };
    let judge = |(mut summary, counters): Made| {
        // Of a dry run, values are read only to be counted.
        if counts || !dry_run {
            counters.iter().for_each(|(row, counter)| summary.tensors[*row].note(counter));
        }
        FileError::check_losses(&summary, source.path(), &run.fail_on)?;
        Ok(summary)
    };
    rewrite(source, output, &how, &edits, judge)
}

/// Constants of fewer elements are epsilons, scales and axes, which lose more by rounding than a file gains.
pub(crate) const MIN_SIZE: u64 = 256;

/// The target of a constant; `None` leaves it as it is.
fn select(selection: &Selection, name: &str, from: DataType, elements: usize) -> Option<DataType> {
    if (elements as u64) < selection.min_elements.unwrap_or(MIN_SIZE) {
        return None;
    }
    // Integer constants are shapes, axes and indices: they are cast where a rule names them, or not at all.
    let named = || selection.rules.iter().any(|rule| rule.pattern.matches(name));
    selection.target(name, from, elements as u64).filter(|_| from.is_float() || named())
}

/// Refuses rules that name constants none of which can have their targets. `want` is what else than a number of elements
/// they need.
pub(crate) fn check_rules<T: Copy>(
    selection: &Selection<T>,
    rows: &[TensorSummary],
    takes: impl Fn((usize, &TensorSummary)) -> bool,
    want: &str,
) -> Result<(), ModelError> {
    let takes: Vec<bool> = rows.iter().enumerate().map(takes).collect();
    let tensors = rows.iter().zip(takes).map(|(row, takes)| (&*row.name, takes)).collect::<Vec<_>>();
    let Some((rule, name)) = selection.ineffective_rule(tensors.into_iter()) else { return Ok(()) };
    let Some(row) = rows.iter().find(|row| row.name == name) else { return Ok(()) };
    let (pattern, least) = (rule.pattern.to_string(), selection.min_elements.unwrap_or(MIN_SIZE));
    let (from, shape) = (row.from, ShapeText(&row.shape));
    let what =
        format!(" `{}` has no effect: `{}` is {from} of shape {shape} (want {want}, of ", Short(&pattern), Short(name));
    let what = Wording::default().field("rules", what).then(&format!("{least} elements or more; "));
    let what = what.field("min_elements", " allows fewer)");
    Err(ModelError::new(ModelErrorKind::Request, what).named(name))
}

/// A constant that is to be cast.
struct CastConstant<'a> {
    constant: Constant<'a>,
    to: DataType,
    graph: usize,
    place: Site,
    opset: Option<i64>,
    /// Its place in the summary.
    row: usize,
}

/// What is done, and what counts the values of which of its rows.
pub(crate) type Made = (Summary, Vec<(usize, Arc<Counter>)>);

fn edits<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    request: &CastRequest,
) -> Result<(Edits<'a>, Made), ModelError> {
    let mut chosen = Vec::new();
    let (mut tensors, mut is_input) = (Vec::new(), Vec::new());
    for body in document.bodies() {
        let readers = readers(body);
        for graph in body.every() {
            choose(document, graph, &readers, files, request, &mut chosen, (&mut tensors, &mut is_input))?;
        }
    }
    request.selection.check_names(tensors.iter().map(|row| &*row.name))?;
    let takes = |(index, row): (usize, &TensorSummary)| {
        let len = element_count(&row.shape).unwrap_or(0);
        !is_input[index] && select(&request.selection, &row.name, row.from, len).is_some()
    };
    check_rules(&request.selection, &tensors, takes, "a constant that is not an input")?;
    let mut edits = Edits::default();
    let mut names = document.names();
    if chosen.is_empty() {
        return Ok((edits, (Summary::new(tensors), Vec::new())));
    }
    if document.training {
        return Err(ModelError::training());
    }
    let needs = chosen.iter().map(|one| Ok((one.needs()?, one))).collect::<Result<Vec<_>, ModelError>>()?;
    let lacking = needs.iter().filter(|(needs, one)| one.opset.is_none_or(|opset| needs.opset > opset));
    if let Some((needs, one)) = lacking.max_by_key(|(needs, _)| needs.opset) {
        let name = one.constant.name;
        let Some(opset) = one.opset else {
            let what = "no opset of ONNX's default domain is imported here, so there is no Cast";
            return Err(ModelError::constant(name, what));
        };
        if !request.model.raise_opset {
            let Needs { operator, data_type, opset: needs } = *needs;
            return Err(ModelError::needs_opset(name, operator, data_type, needs, opset));
        }
        upgrade::raise(document, files, needs.opset, &mut edits, &mut names)?;
    }
    // The format has types and opsets from some version on. A model of an older one than even that is left as it is.
    let newest = needs.iter().filter_map(|(needs, _)| opsets::ir_version(needs.opset)).max();
    edits.ir_version = newest.filter(|&version| document.ir_version >= 3 && version > document.ir_version);
    let (mut counters, mut known) = (Vec::new(), Counters::new(request.run.counts()));
    for one in chosen {
        let (row, counter) = (one.row, one.edit(&mut edits, &mut names, request, &mut known)?);
        counters.extend(counter.map(|counter| (row, counter)));
    }
    let mut summary = Summary::new(tensors);
    summary.notes.extend(note_on_scales(summary.tensors.iter()));
    Ok((edits, (summary, counters)))
}

fn choose<'a>(
    document: &Document<'a>,
    graph: &Graph<'a>,
    readers: &HashMap<(usize, Site), Readers<'_>>,
    files: &'a Files<'a>,
    request: &CastRequest,
    chosen: &mut Vec<CastConstant<'a>>,
    (tensors, is_input): (&mut Vec<TensorSummary>, &mut Vec<bool>),
) -> Result<(), ModelError> {
    for (place, constant) in Constant::of_graph(graph, files)? {
        let (name, from, len) = (constant.name, constant.data_type, constant.len);
        let fixed = matches!(place, Site::Initializer(_, Some(_))) && document.ir_version >= 4;
        let to = if fixed { None } else { select(&request.selection, name, from, len) };
        let reader = readers.get(&(graph.id, place));
        let is_named = || request.selection.names(name, len as u64);
        let to = to.filter(|_| is_named() || reader.is_none_or(|reader| !reader.has_scales));
        let to = to.filter(|&to| to != from).filter(|_| {
            // Cast before: the constant's old name is that of the Cast's result, by which it was selected then.
            let before = reader.filter(|reader| reader.count == 1).and_then(|reader| reader.cast);
            before.and_then(|(old, back)| select(&request.selection, old, back, len)) != Some(from)
        });
        is_input.push(fixed);
        let mut summary = TensorSummary::kept(name, constant.shape.clone(), from, constant.bytes());
        if let Some(to) = to {
            summary.bytes_after = to.byte_len(len).unwrap_or(0) as u64;
            (summary.to, summary.cast) = (to, true);
            let row = tensors.len();
            chosen.push(CastConstant { constant, to, graph: graph.id, place, opset: graph.opset, row });
        }
        tensors.push(summary);
    }
    Ok(())
}

/// The readers of a constant, in its graph and those within it.
#[derive(Default)]
struct Readers<'a> {
    count: usize,
    /// The output of a Cast that reads it, and the Cast's target.
    cast: Option<(&'a str, DataType)>,
    /// Whether MatMulNBits reads it as scales. onnxruntime computes zeros if these are not constant.
    has_scales: bool,
}

/// The readers of every constant of a body, by its graph and its place there. Branches may have one name for constants
/// of their own.
fn readers<'a>(body: &Graph<'a>) -> HashMap<(usize, Site), Readers<'a>> {
    let flow = Flow::of(body, Traits::of);
    let of_value = |value: &Value<'a>| {
        let place = match value.origin {
            Origin::Initializer(index, input) => Site::Initializer(index, input),
            Origin::Node(step, 0) if flow.steps[step].node.is("Constant") => Site::Node(flow.steps[step].index),
            _ => return None,
        };
        let nodes = value.reads.iter().map(|read| flow.steps[read.step].node);
        let has_scales = value.reads.iter().any(|read| {
            let node = flow.steps[read.step].node;
            (node.domain, node.op_type, read.input) == (MICROSOFT, "MatMulNBits", 2)
        });
        let cast = nodes.filter(|node| node.is("Cast")).find_map(|node| Some((node.output()?, node.target()?)));
        Some(((value.graph, place), Readers { count: value.reads.len() + value.outputs, cast, has_scales }))
    };
    flow.values.iter().filter_map(of_value).collect()
}

/// The opset that a Cast back, and a Constant of the target type, come with.
struct Needs {
    operator: &'static str,
    data_type: DataType,
    opset: i64,
}

impl<'a> CastConstant<'a> {
    fn needs(&self) -> Result<Needs, ModelError> {
        let (from, to) = (self.constant.data_type, self.to);
        let refuse = |what: String| ModelError::constant(self.constant.name, what);
        if from == DataType::String || to == DataType::String {
            return Err(refuse(format!("{from} to {to}: strings are not stored in another type")));
        }
        let mut all = Vec::with_capacity(3);
        for data_type in [to, from] {
            let since = Operator::Cast.since(data_type);
            let opset = since.ok_or_else(|| refuse(format!("no version of Cast takes {data_type}")))?;
            all.push(Needs { operator: "Cast", data_type, opset });
        }
        if let Site::Node(_) = self.place {
            let since = Schema::first_giving("Constant", to);
            let what = || refuse(format!("no version of Constant takes {to} (an initializer may have that type)"));
            all.push(Needs { operator: "Constant", data_type: to, opset: since.ok_or_else(what)? });
        }
        // The first of those that need the most.
        all.into_iter().rev().max_by_key(|needs| needs.opset).ok_or_else(|| refuse(String::new()))
    }

    /// Notes what is to be done; returns what counts the values.
    fn edit(
        self,
        edits: &mut Edits<'a>,
        names: &mut Names,
        request: &CastRequest,
        counters: &mut Counters,
    ) -> Result<Option<Arc<Counter>>, ModelError> {
        let CastConstant { constant, to, graph, place, opset, .. } = self;
        let old = constant.name.to_owned();
        let refuse = |what: String| ModelError::constant(constant.name, what);
        let opset = edits.opset.max(opset).unwrap_or_default();
        let options = request.options.opset(opset);
        let plan = Cast::new(to, &options).and_then(|cast| cast.plan(constant.data_type));
        let plan = plan.map_err(|error| refuse(error.to_string()))?;
        let mut elements = constant.elements.ok_or_else(|| refuse("strings".to_owned()))?.then(Step::Cast(plan));
        elements.counter = counters.of(plan.source_type(), to).map(Arc::new);
        let counter = elements.counter.clone();
        let name = names.fresh(format!("{old}_{to}"));
        let cast_name = names.fresh(format!("{old}_cast"));
        let cast = NewNode::cast(cast_name, name.clone(), old, constant.data_type, opset);
        let tensor = |name| NewTensor {
            message: constant.message,
            name,
            shape: constant.shape.clone(),
            home: Home::of(constant.message),
            content: Content::Elements(elements),
        };
        let edit = edits.graphs.entry(graph).or_default();
        match place {
            Site::Initializer(index, input) => {
                if let Some(input) = input {
                    // From version 4 of the format on, an initializer needs no input, and one that has it may be
                    // replaced.
                    let kept = edits.ir_version.is_none_or(|version| version < 4);
                    edit.inputs.insert(input, kept.then(|| (name.clone(), to)));
                }
                edit.initializers.insert(index, Some(tensor(Some(name))));
                edit.first.push(cast);
            }
            Site::Node(index) => {
                let node = edit.nodes.entry(index).or_default();
                // The name of the tensor in the attribute says nothing, and is kept.
                node.value = Some(tensor(None));
                node.outputs.insert(0, name);
                node.after.push(cast);
            }
        }
        Ok(counter)
    }
}
