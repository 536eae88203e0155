//! `record`: a model with outputs beside its own that tell what its values are like, in any runtime: for each
//! floating-point value of the main graph, and of its branches and loops, one output of five numbers. `convert` reads what came out
//! (`precision/ranges.rs`).

mod inner;
mod nodes;

use crate::edits::Edits;
use crate::error::{Error, ModelError, ModelErrorKind};
use crate::graph::values::{Id, Origin};
use crate::messages::{of_type, value_info};
use crate::rewrite::{Request, refuse_of_models, rewrite};
use crate::source::ModelSource;
use crate::tree::Document;
use crate::types::value::ValueType;
use crate::types::{Body, Typing};
use inner::Prober;
use nodes::Recorder;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::DataType;
use onnx_cast_file::__private::wire;
use onnx_cast_file::{Pattern, RunOptions, Storage, Unmatched, check_names};
use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::path::Path;

/// What stands before a value's name in the name of the output that tells what it is like.
pub const RECORD_PREFIX: &str = "onnx_cast_record/";

/// The numbers that an output of [`record`] holds: the largest magnitude, the least magnitude other than zero, the
/// largest value, the least value, and how many values are NaN.
pub const RECORDED_NUMBERS: usize = 5;

/// The first opset whose operators can compute the numbers: comparisons broadcast from there on.
const OLDEST_OPSET: i64 = 7;

onnx_cast_file::request! {
    /// Which values are recorded, and how the model is written.
    #[derive(Default)]
    pub struct RecordRequest {
        /// Only values with a matching name, where there are any patterns.
        pub include: Vec<Pattern>,
        /// Not values with a matching name.
        pub exclude: Vec<Pattern>,
        /// Where the elements go.
        pub storage: Storage,
        /// How the job runs. Models are written whole, and values are not counted.
        pub run: RunOptions,
    }
}

/// What is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordSummary {
    /// The values, in the order of the model.
    pub values: Vec<RecordedValue>,
    /// How many floating-point values there are within functions, and other graphs that give no numbers.
    pub inner: usize,
}

/// A value that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordedValue {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// The output that tells what it is like: [`RECORD_PREFIX`] and its name.
    pub output: String,
}

/// Adds an output for each float, float16 and bfloat16 tensor of a model's main graph, its branches, loops and scans: their
/// inputs, and what their nodes give. Values of one name have one output. Constants have none. Each output is a float tensor of [`RECORDED_NUMBERS`] elements, over the values that are
/// no NaN; infinities count. Without such a value they are 0, infinity, -infinity and infinity.
///
/// # Errors
/// Where the model cannot be read or written, its opset is older than 7, or it has such outputs already.
pub fn record(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &RecordRequest,
) -> Result<RecordSummary, Error> {
    let _environment = DefaultEnvironment::enter();
    Ok(record_of(ModelSource::File(input.as_ref()), Some(output.as_ref()), request)?.1)
}

/// As [`record`], of a model that may be in memory. Without an output its bytes are given back, of a dry run none.
///
/// # Errors
/// As [`record`].
pub fn record_of(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &RecordRequest,
) -> Result<(Vec<u8>, RecordSummary), Error> {
    let _environment = DefaultEnvironment::enter();
    let RecordRequest { storage, run, .. } = request;
    refuse_of_models(source.path(), run)?;
    let how = Request::of(run, storage);
    rewrite(source, output, &how, |document, _| edits(document, request), Ok)
}

fn edits<'a>(document: &Document<'a>, request: &RecordRequest) -> Result<(Edits<'a>, RecordSummary), ModelError> {
    let typing = Typing::of(document)?;
    let opset = document.opset.ok_or_else(ModelError::no_opset)?;
    if opset < OLDEST_OPSET {
        let what = format!("values are recorded from opset {OLDEST_OPSET} on, and the model imports {opset}");
        return Err(ModelError::new(ModelErrorKind::Opset, what));
    }
    let Some(main) = typing.bodies.first() else { return Ok(nothing(0)) };
    let values = recorded(document, main);
    let names = || values.values().flatten().map(|value| &*value.name);
    check_names(&request.include, &request.exclude, names()).map_err(Unmatched::of_values)?;
    let mut names = document.names();
    let (include, exclude, recorder) = (&*request.include, &*request.exclude, Recorder::new(&mut names, opset));
    let mut prober = Prober { recorder, edits: Edits::default(), values, include, exclude, graphs: HashSet::new() };
    let probes = prober.graph(&document.graph);
    let inner = inner(&typing, &prober.graphs);
    if probes.is_empty() {
        return Ok(nothing(inner));
    }
    let outputs = prober.outputs(probes)?;
    let (constants, nodes) = (take(&mut prober.recorder.constants), take(&mut prober.recorder.nodes));
    prober.close(&document.graph, nodes, &outputs.iter().map(|value| value.output.clone()).collect::<Vec<_>>());
    if document.training {
        return Err(ModelError::training());
    }
    let first = &mut prober.edits.graphs.entry(document.graph.id).or_default().first;
    first.splice(..0, constants);
    Ok((prober.edits, RecordSummary { values: outputs, inner }))
}

fn nothing<'a>(inner: usize) -> (Edits<'a>, RecordSummary) {
    (Edits::default(), RecordSummary { values: Vec::new(), inner })
}

/// The type of a value that is recorded.
fn float_type(body: &Body<'_, '_>, id: Id) -> Option<DataType> {
    match body.types[id] {
        Some(ValueType::Tensor(of_type @ (DataType::Float | DataType::Float16 | DataType::BFloat16))) => Some(of_type),
        _ => None,
    }
}

/// A value that can be recorded.
struct Recorded {
    name: String,
    data_type: DataType,
}

/// The floating-point inputs of each graph of the model's own, and what its nodes give other than constants.
fn recorded(document: &Document<'_>, body: &Body<'_, '_>) -> HashMap<usize, Vec<Recorded>> {
    let mut seen = HashSet::new();
    let mut values: HashMap<usize, Vec<Recorded>> = HashMap::new();
    for (id, value) in body.flow.values.iter().enumerate() {
        let is_computed = match value.origin {
            Origin::Node(step, _) => !body.flow.steps[step].node.is("Constant"),
            // Before version 4 of the format every initializer is an input, which no caller gives.
            Origin::Initializer(_, input) => input.is_some() && document.ir_version >= 4,
            Origin::Other => true,
        };
        let Some(data_type) = float_type(body, id).filter(|_| is_computed) else { continue };
        if seen.insert((value.graph, value.name)) {
            values.entry(value.graph).or_default().push(Recorded { name: value.name.to_owned(), data_type });
        }
    }
    values
}

/// How many floating-point values are in other graphs. A function that is called with several combinations of types counts
/// once.
fn inner(typing: &Typing<'_, '_>, graphs: &HashSet<usize>) -> usize {
    let mut seen = HashSet::new();
    for body in &typing.bodies {
        for (id, value) in body.flow.values.iter().enumerate().filter(|(_, value)| !graphs.contains(&value.graph)) {
            if float_type(body, id).is_some() {
                seen.insert((value.graph, value.name));
            }
        }
    }
    seen.len()
}

/// A ValueInfoProto of the five numbers.
fn declaration(name: &str) -> Vec<u8> {
    let message = |put: &dyn Fn(&mut Vec<u8>)| {
        let mut message = Vec::new();
        put(&mut message);
        message
    };
    let dim = message(&|out| wire::put_int(out, value_info::DIM_VALUE, RECORDED_NUMBERS as u64));
    let shape = message(&|out| wire::put_bytes(out, value_info::DIM, &dim));
    let tensor = message(&|out| {
        wire::put_int(out, of_type::ELEM_TYPE, DataType::Float.onnx() as u64);
        wire::put_bytes(out, value_info::SHAPE, &shape);
    });
    let of_type = message(&|out| wire::put_bytes(out, of_type::TENSOR, &tensor));
    message(&|out| {
        wire::put_bytes(out, value_info::NAME, name.as_bytes());
        wire::put_bytes(out, value_info::TYPE, &of_type);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edits::{GraphEdit, NewNode};
    use testkit::proto::{Message, int_attribute, model, node};

    const FLOAT: i64 = 1;
    const FLOAT16: i64 = 10;

    /// The summary, and the nodes and outputs that are added to the main graph.
    fn recorded(bytes: &[u8], request: &RecordRequest) -> Result<(RecordSummary, Vec<String>, usize), ModelError> {
        let document = Document::parse(bytes).expect("a model");
        let (edits, summary) = edits(&document, request)?;
        let edit = edits.graphs.get(&document.graph.id);
        let nodes = |edit: &GraphEdit<'_>| -> Vec<String> {
            let last = edit.nodes.get(&(document.graph.nodes.len().wrapping_sub(1)));
            let after = last.map_or(&[][..], |last| &last.after);
            edit.first.iter().chain(after).map(|node: &NewNode<'_>| node.op_type.clone()).collect()
        };
        Ok((summary, edit.map(nodes).unwrap_or_default(), edit.map_or(0, |edit| edit.added_outputs.len())))
    }

    fn casts(opset: i64) -> Vec<u8> {
        let cast = node("Cast", &["x"], "h", vec![int_attribute("to", FLOAT16)]);
        let inputs = [("x", FLOAT), ("i", 7), ("d", 11)];
        model(opset, vec![cast, node("Shape", &["x"], "s", vec![])], &inputs, &[("h", FLOAT16)])
    }

    #[test]
    fn floating_point_values_alone_are_recorded() {
        let (summary, _, outputs) = recorded(&casts(21), &RecordRequest::default()).expect("recorded");
        let of = |name: &str, data_type| RecordedValue {
            name: name.to_owned(),
            data_type,
            output: format!("onnx_cast_record/{name}"),
        };
        assert_eq!(summary.values, [of("x", DataType::Float), of("h", DataType::Float16)]);
        assert_eq!((summary.inner, outputs), (0, 2));
        let request = RecordRequest { exclude: vec!["h".parse().expect("a glob")], ..RecordRequest::default() };
        assert_eq!(recorded(&casts(21), &request).expect("recorded").2, 1);
        let request = RecordRequest { include: vec!["none".parse().expect("a glob")], ..RecordRequest::default() };
        let refused = recorded(&casts(21), &request).expect_err("matches nothing").to_string();
        assert!(refused.contains("`none`") && refused.contains("matches no value (`info --types` lists"), "{refused}");
    }

    #[test]
    fn operators_are_of_the_model_s_opset() {
        for (opset, selects) in [(7, false), (8, false), (9, true), (18, true), (24, true)] {
            let (_, nodes, _) = recorded(&casts(opset), &RecordRequest::default()).expect("recorded");
            for operator in ["IsNaN", "Where"] {
                assert_eq!(nodes.iter().any(|node| node == operator), selects, "opset {opset}: {nodes:?}");
            }
        }
        for opset in [9, 21] {
            let bytes = casts(opset);
            let document = Document::parse(&bytes).expect("a model");
            let (edits, _) = edits(&document, &RecordRequest::default()).expect("recorded");
            let edit = &edits.graphs[&document.graph.id];
            let added: Vec<_> = edit.first.iter().chain(edit.nodes.values().flat_map(|edit| &edit.after)).collect();
            let is_read = |name: &String| added.iter().any(|node| node.inputs.contains(name));
            let unread = edit.first.iter().flat_map(|node| &node.outputs).find(|name| !is_read(name));
            assert_eq!(unread, None, "opset {opset}: a constant that nothing reads");
        }
        let refused = recorded(&casts(6), &RecordRequest::default()).expect_err("too old").to_string();
        assert_eq!(refused, "values are recorded from opset 7 on, and the model imports 6");
    }

    #[test]
    fn a_model_without_nodes_and_a_recorded_one() {
        let bytes = model(21, Vec::new(), &[("x", FLOAT)], &[("x", FLOAT)]);
        let (_, nodes, outputs) = recorded(&bytes, &RecordRequest::default()).expect("recorded");
        assert!(nodes.len() > 10 && outputs == 1, "{nodes:?}");
        let bytes = model(21, vec![node("Abs", &["x"], "onnx_cast_record/x", vec![])], &[("x", FLOAT)], &[]);
        let refused = recorded(&bytes, &RecordRequest::default()).expect_err("recorded already").to_string();
        assert_eq!(
            refused,
            "the model has a value `onnx_cast_record/x` already: it is a model that `record` has written"
        );
    }

    #[test]
    fn values_of_branches_are_recorded() {
        let branch = Message::new()
            .message(1, node("Exp", &["x"], "p", vec![]))
            .message(1, node("Neg", &["p"], "r", vec![]))
            .bytes(2, "branch")
            .message(12, Message::new().bytes(1, "r"));
        let attribute = |name: &str| Message::new().bytes(1, name).message(6, branch.clone()).int(20, 5);
        let choice = node("If", &["flag"], "y", vec![attribute("then_branch"), attribute("else_branch")]);
        let bytes = model(21, vec![choice], &[("x", FLOAT), ("flag", 9)], &[("y", FLOAT)]);
        let (summary, ..) = recorded(&bytes, &RecordRequest::default()).expect("recorded");
        let names: Vec<_> = summary.values.iter().map(|value| value.name.as_str()).collect();
        // Those of both branches have one name, and one output.
        assert_eq!((names, summary.inner), (vec!["x", "y", "p", "r"], 0));
    }
}
