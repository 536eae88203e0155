//! What becomes of a node of each operator that is rewritten, and that hostile nodes are refused by name.

use super::*;
use crate::edits::NewAttribute as Attr;
use crate::emit::{Layout, emit};
use crate::messages::attribute::kind;
use crate::messages::{graph, model, node, opset, value_info};
use crate::rope::Base;
use onnx_cast::DataType;
use onnx_cast_file::formats::protobuf::wire;
use onnx_cast_file::io::InputFile;
use onnx_cast_file::pipeline::{self, InMemory};
use std::ops::ControlFlow;
use std::sync::Mutex;

/// An input or output of a type and a shape of `rank` dimensions.
fn value(name: &str, data_type: DataType, rank: usize) -> Vec<u8> {
    let (mut shape, mut tensor, mut of_type, mut value) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    (0..rank).for_each(|_| wire::put_bytes(&mut shape, value_info::DIM, &[]));
    wire::put_int(&mut tensor, value_info::ELEM_TYPE, data_type.onnx() as u64);
    wire::put_bytes(&mut tensor, value_info::SHAPE, &shape);
    wire::put_bytes(&mut of_type, value_info::TENSOR_TYPE, &tensor);
    wire::put_bytes(&mut value, value_info::NAME, name.as_bytes());
    wire::put_bytes(&mut value, value_info::TYPE, &of_type);
    value
}

/// A model of one node, which reads inputs of three dimensions and a type.
fn made(op_type: &str, inputs: &[&str], outputs: &[&str], attributes: &[Attr], opset: i64, of: DataType) -> Vec<u8> {
    let (mut message, mut body, mut import, mut whole) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    inputs.iter().for_each(|name| wire::put_bytes(&mut message, node::INPUT, name.as_bytes()));
    outputs.iter().for_each(|name| wire::put_bytes(&mut message, node::OUTPUT, name.as_bytes()));
    wire::put_bytes(&mut message, node::NAME, b"n");
    wire::put_bytes(&mut message, node::OP_TYPE, op_type.as_bytes());
    attributes.iter().for_each(|attribute| wire::put_bytes(&mut message, node::ATTRIBUTE, &attribute.0));
    wire::put_bytes(&mut body, graph::NODE, &message);
    let inputs = inputs.iter().filter(|name| !name.is_empty());
    inputs.for_each(|name| wire::put_bytes(&mut body, graph::INPUT, &value(name, of, 3)));
    wire::put_bytes(&mut body, graph::OUTPUT, &value("y", of, 3));
    wire::put_int(&mut import, opset::VERSION, opset as u64);
    wire::put_int(&mut whole, model::IR_VERSION, 8);
    wire::put_bytes(&mut whole, model::GRAPH, &body);
    wire::put_bytes(&mut whole, model::OPSET_IMPORT, &import);
    whole
}

/// The nodes and the new initializers of a model that was raised, or why it was not.
fn raised(bytes: &[u8], to: i64) -> Result<String, String> {
    let document = Document::parse(bytes).map_err(|error| error.to_string())?;
    let files = Files::open(Path::new("m.onnx"), &[], None).expect("no files");
    let (edits, _) = edits(&document, &files, to).map_err(|error| error.to_string())?;
    let message = emit(&document, &files, &edits, &mut Layout::new("m.data", None)).expect("emitted");
    let file = InputFile::other(Path::new("m.onnx"), bytes.len() as u64, bytes.to_vec());
    let out = InMemory(Mutex::new(vec![0; message.len() as usize]));
    let tasks = message.tasks(Base { bytes, file: Some(&file) });
    pipeline::run(&tasks, None, &out, &|_| ControlFlow::Continue(())).expect("written");
    let out = out.0.into_inner().expect("no panic");
    let new = Document::parse(&out).expect("a model");
    assert_eq!(new.opset, Some(to));
    let node = |node: &Node<'_>| {
        let attributes: Vec<_> = node.attributes.iter().map(|attribute| attribute.name).collect();
        let with = if attributes.is_empty() { String::new() } else { format!("[{}]", attributes.join(" ")) };
        format!("{}{with}({}) {}", node.op_type, node.inputs.join(" "), node.outputs.join(" "))
    };
    let constant = |named: &crate::tree::Named<'_>| {
        let head = onnx_cast_file::formats::pb::head(named.message).expect("a tensor");
        format!("{}: {}{:?}", named.name, head.data_type, head.shape)
    };
    let lines = new.graph.nodes.iter().map(node).chain(new.graph.initializers.iter().map(constant));
    Ok(lines.collect::<Vec<_>>().join("; "))
}

fn check(op_type: &str, inputs: &[&str], attributes: &[Attr], (from, to): (i64, i64), want: &str) {
    let bytes = made(op_type, inputs, &["y"], attributes, from, DataType::Float);
    assert_eq!(raised(&bytes, to).as_deref(), Ok(want), "{op_type} from {from} to {to}");
}

fn refused(bytes: &[u8], to: i64, want: &str) {
    let error = raised(bytes, to).expect_err(want);
    assert!(error.contains(want), "{error}");
}

#[test]
fn attributes_become_inputs() {
    let axes = [Attr::ints("axes", &[0])];
    check("Squeeze", &["x"], &axes, (11, 21), "Squeeze(x y_axes) y; y_axes: int64[1]");
    check("Squeeze", &["x"], &axes, (11, 12), "Squeeze[axes](x) y");
    check("Unsqueeze", &["x"], &axes, (7, 13), "Unsqueeze(x y_axes) y; y_axes: int64[1]");
    check("ReduceSum", &["x"], &axes, (11, 13), "ReduceSum(x y_axes) y; y_axes: int64[1]");
    check("ReduceMean", &["x"], &axes, (11, 17), "ReduceMean[axes](x) y");
    check("ReduceMean", &["x"], &[], (11, 18), "ReduceMean(x) y");
    check(
        "ReduceMean",
        &["x"],
        &[Attr::int("keepdims", 0), axes[0].clone()],
        (11, 18),
        "ReduceMean[keepdims](x y_axes) y; y_axes: int64[1]",
    );
    check("Split", &["x"], &[Attr::ints("split", &[2])], (11, 18), "Split(x y_split) y; y_split: int64[1]");
    check("Split", &["x"], &[], (11, 18), "Split[num_outputs](x) y");
    check("Clip", &["x"], &[Attr::float("max", 6.0)], (7, 13), "Clip(x  y_max) y; y_max: float[]");
    check("Clip", &["x"], &[], (7, 13), "Clip(x) y");
    check("Pad", &["x"], &[Attr::ints("pads", &[0; 6])], (7, 26), "Pad(x y_pads) y; y_pads: int64[6]");
    check(
        "Pad",
        &["x"],
        &[Attr::ints("pads", &[0; 6]), Attr::float("value", -0.0)],
        (7, 11),
        "Pad(x y_pads y_value) y; y_pads: int64[6]; y_value: float[]",
    );
    check("TopK", &["x"], &[Attr::int("k", 2)], (7, 24), "TopK(x y_k) y; y_k: int64[1]");
    check(
        "Slice",
        &["x"],
        &[Attr::ints("starts", &[1]), Attr::ints("ends", &[2])],
        (7, 10),
        "Slice(x y_starts y_ends) y; y_starts: int64[1]; y_ends: int64[1]",
    );
    check("Dropout", &["x"], &[Attr::float("ratio", 0.5)], (7, 22), "Dropout(x y_ratio) y; y_ratio: float[]");
    check("DFT", &["x"], &[], (17, 20), "DFT(x  y_axis) y; y_axis: int64[]");
}

#[test]
fn what_is_not_the_same_is_written_otherwise() {
    let axis = |axis| [Attr::int("axis", axis)];
    check("Softmax", &["x"], &axis(2), (11, 13), "Softmax[axis](x) y");
    let flattened =
        "Flatten[axis](x) y_flat; Shape(x) y_shape; Softmax[axis](y_flat) y_rows; Reshape[allowzero](y_rows y_shape) y";
    check("Softmax", &["x"], &axis(1), (11, 14), flattened);
    check("Softmax", &["x"], &[], (7, 28), flattened);
    check("Softmax", &["x"], &axis(1), (11, 13), &flattened.replace("[allowzero]", ""));
    check("Hardmax", &["x"], &axis(-1), (11, 13), "Hardmax[axis](x) y");
    let scales = [Attr::floats("scales", &[1.0, 2.0, 2.0])];
    let resize = "Resize[coordinate_transformation_mode nearest_mode](x  y_scales) y; y_scales: float[3]";
    check("Upsample", &["x"], &scales, (7, 13), resize);
    check("Upsample", &["x"], &scales, (7, 9), "Upsample(x y_scales) y; y_scales: float[3]");
    check("Upsample", &["x"], &scales, (8, 10), "Resize(x y_scales) y; y_scales: float[3]");
    check("Upsample", &["x"], &scales, (8, 11), &(resize.replace("x  ", "x y_roi ") + "; y_roi: float[0]"));
    check("Scatter", &["x", "i", "u"], &[], (9, 18), "ScatterElements(x i u) y");
    check("GridSample", &["x", "g"], &[Attr::string("mode", "bicubic")], (16, 20), "GridSample[mode](x g) y");
    check("RoiAlign", &["x", "r", "i"], &[], (10, 16), "RoiAlign[coordinate_transformation_mode](x r i) y");
    check("Cast", &["x"], &[Attr::int("to", 10)], (7, 28), "Cast[to](x) y");
    let fnuz =
        "IsInf(x) y_is_other; Where(y_is_other y_instead x) y_as_before; Cast[to](y_as_before) y; y_instead: float[]";
    check("Cast", &["x"], &[Attr::int("to", 18)], (19, 24), fnuz);
    check("Cast", &["x"], &[Attr::int("to", 23)], (23, 24), &fnuz.replace("IsInf", "IsNaN"));
    check("Cast", &["x"], &[Attr::int("to", 17)], (19, 24), "Cast[to](x) y");
    let parameters = ["x", "s", "b", "m", "v"];
    check("BatchNormalization", &parameters, &[Attr::int("spatial", 1)], (7, 26), "BatchNormalization(x s b m v) y");
    check("BatchNormalization", &parameters, &[Attr::int("is_test", 1)], (6, 7), "BatchNormalization(x s b m v) y");
    check("Add", &["x", "b"], &[Attr::int("broadcast", 1)], (6, 13), "Add(x b) y");
    check("Selu", &["x"], &[], (1, 6), "Selu[alpha gamma](x) y");
    let bytes =
        made("GroupNormalization", &["x", "s", "b"], &["y"], &[Attr::int("num_groups", 2)], 18, DataType::Double);
    let text = raised(&bytes, 21).expect("raised");
    assert!(
        text.contains("GroupNormalization[num_groups stash_type](x y_scale_by_channel y_bias_by_channel) y"),
        "{text}"
    );
}

#[test]
fn refusals_name_the_node_and_what_changed() {
    let float = |op_type: &str, inputs: &[&str], outputs: &[&str], attributes: &[Attr], opset| {
        made(op_type, inputs, outputs, attributes, opset, DataType::Float)
    };
    let scan = float("Scan", &["", "x"], &["y"], &[], 8);
    refused(
        &scan,
        9,
        "cannot be raised from 8 to 9: node `n` (Scan) is version 8 of its operator; version 9: has no batches",
    );
    let parameters = ["x", "s", "b", "m", "v"];
    refused(&float("BatchNormalization", &parameters, &["y", "m2"], &[], 9), 14, "training mode");
    refused(&float("BatchNormalization", &parameters, &["y"], &[], 6), 7, "training mode");
    refused(&float("Dropout", &["x"], &["z", "y"], &[], 7), 10, "its mask is read");
    refused(&float("Resize", &["x", "s"], &["y"], &[], 10), 11, "its scales are no constant");
    refused(&made("Erf", &["x"], &["y"], &[], 9, DataType::Int32), 13, "takes no int32 any more");
    refused(&made("ReduceLogSum", &["x"], &["y"], &[], 18, DataType::Int64), 28, "takes no int64 any more");
    refused(
        &float("Add", &["x", "b"], &["y"], &[Attr::int("broadcast", 1), Attr::int("axis", 1)], 6),
        7,
        "from axis 1 before",
    );
    refused(&float("NoSuchOperator", &["x"], &["y"], &[], 11), 13, "is not an operator known here");
    refused(&float("Range", &["x", "b", "c"], &["y"], &[], 10), 13, "opset 10 lacks (it comes with 11)");
    refused(&float("Relu", &["x"], &["y"], &[], 22), 21, "newer than 21");
    refused(&float("Relu", &["x"], &["y"], &[], 21), 29, "opset 29 is not known here");
}

#[test]
fn hostile_nodes_are_refused() {
    let reference = |name, kind| Attr::reference(name, kind, "outer");
    for (op_type, from, inputs, attributes, want) in [
        ("Squeeze", 11, &["x"][..], vec![Attr::int("axes", 0)], "`axes` is not a list of integers"),
        ("Squeeze", 11, &["x"], vec![reference("axes", kind::INTS)], "which not every call of it gives"),
        ("Softmax", 11, &[], vec![], "its input 0 is missing"),
        ("Softmax", 11, &["x"], vec![Attr::string("axis", "1")], "`axis` is not an integer"),
        ("Clip", 7, &["x"], vec![Attr::int("min", 0)], "`min` is not a float"),
        ("Pad", 7, &[""], vec![Attr::ints("pads", &[0, 0])], "its input 0 is missing"),
        ("Slice", 7, &["x"], vec![], "`starts` is missing"),
        ("TopK", 7, &["x"], vec![], "`k` is missing"),
        ("Upsample", 7, &["x"], vec![], "`scales` is missing"),
        ("Upsample", 1, &["x"], vec![Attr::float("height_scale", 2.0)], "`width_scale` is missing"),
        ("Cast", 9, &["x"], vec![], "is version 9 of its operator; version 13"),
        (
            "GridSample",
            16,
            &["x", "g"],
            vec![reference("mode", kind::STRING)],
            "stands for `outer` of the function around",
        ),
        ("BatchNormalization", 7, &["x", "s"], vec![Attr::int("spatial", 0)], "its input 2 is missing"),
        ("GroupNormalization", 18, &["x"], vec![], "its input 1 is missing"),
    ] {
        let bytes = made(op_type, inputs, &["y"], &attributes, from, DataType::Float);
        refused(&bytes, 28, want);
    }
}

#[test]
fn what_is_raised_already_stays() {
    let bytes = made("Relu", &["x"], &["y"], &[], 21, DataType::Float);
    let document = Document::parse(&bytes).expect("a model");
    let files = Files::open(Path::new("m.onnx"), &[], None).expect("no files");
    let (edits, summary) = edits(&document, &files, 21).expect("raised");
    let message = emit(&document, &files, &edits, &mut Layout::new("m.data", None)).expect("emitted");
    assert_eq!((message.len(), summary.rewritten.len()), (bytes.len() as u64, 0));
}
