//! What becomes of a node of each operator that is rewritten, and that hostile nodes are refused by name.

use super::*;
use crate::edits::NewAttribute as Attr;
use crate::emit::{Layout, emit};
use crate::messages::attribute::kind;
use crate::messages::{MODEL, graph, model, node, opset, value_info};
use onnx_cast::DataType;
use onnx_cast_file::__private::outline::{Backing, Outline};
use onnx_cast_file::__private::pipeline::{self, InMemory};
use onnx_cast_file::__private::wire;
use std::ops::ControlFlow;
use std::sync::Mutex;
use testkit::proto::{self, Message};

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

/// A model that was raised, or why it was not.
fn written(bytes: &[u8], to: i64) -> Result<Vec<u8>, String> {
    let outline = Outline::of(Backing::Memory(bytes), &MODEL).map_err(|error| error.to_string())?;
    let document = Document::parse(&outline.bytes).map_err(|error| error.to_string())?;
    let files = Files::open(&outline, &[]).expect("no files");
    let (edits, _) = edits(&document, &files, to).map_err(|error| error.to_string())?;
    let message = emit(&document, &files, &edits, &mut Layout::new("m.data", None)).expect("emitted");
    let out = InMemory(Mutex::new(vec![0; message.len() as usize]));
    let tasks = message.tasks();
    pipeline::run(&tasks, None, &out, &|_| ControlFlow::Continue(())).expect("written");
    Ok(out.0.into_inner().expect("no panic"))
}

/// The nodes and the new initializers of a model that was raised, or why it was not.
fn raised(bytes: &[u8], to: i64) -> Result<String, String> {
    let out = written(bytes, to)?;
    let new = Document::parse(&out).expect("a model");
    assert_eq!(new.opset, Some(to));
    let node = |node: &Node<'_>| {
        let attributes: Vec<_> = node.attributes.iter().map(|attribute| attribute.name).collect();
        let with = if attributes.is_empty() { String::new() } else { format!("[{}]", attributes.join(" ")) };
        format!("{}{with}({}) {}", node.op_type, node.inputs.join(" "), node.outputs.join(" "))
    };
    let constant = |named: &crate::tree::Named<'_>| {
        let head = onnx_cast_file::__private::pb::head(named.message).expect("a tensor");
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
    let both = "Max(s y_one) y_larger; Min(s y_one) y_smaller; \
                Resize[coordinate_transformation_mode nearest_mode](x  y_larger) y_stretched; \
                Resize[coordinate_transformation_mode nearest_mode](y_stretched  y_smaller) y; y_one: float[]";
    check("Resize", &["x", "s"], &[], (10, 13), both);
    let linear = [Attr::string("mode", "linear")];
    let same = "Resize[mode coordinate_transformation_mode nearest_mode](x  s) y";
    check("Resize", &["x", "s"], &linear, (10, 13), same);
    let parameters = ["x", "s", "b", "m", "v"];
    check("BatchNormalization", &parameters, &[Attr::int("spatial", 1)], (7, 26), "BatchNormalization(x s b m v) y");
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
    let scan = float("Scan", &["", "x"], &["y"], &[Attr::int("num_scan_inputs", 1)], 8);
    refused(
        &scan,
        9,
        "cannot be raised from 8 to 9: node `n` (Scan) is version 8 of its operator; version 9: has no batches of \
         sequences (onnx.version_converter writes a Scan-9 for some)",
    );
    refused(
        &float("Relu", &["x"], &["y"], &[], 6),
        21,
        "opset 6 cannot be raised to 21: opsets are raised from 7 on (onnx.version_converter.convert_version(model, 7) \
         gives such a model)",
    );
    let parameters = ["x", "s", "b", "m", "v"];
    refused(&float("BatchNormalization", &parameters, &["y", "m2"], &[], 9), 14, "training mode");
    refused(&float("Dropout", &["x"], &["z", "y"], &[], 7), 10, "its mask is read");
    let ceil =
        [Attr::string("coordinate_transformation_mode", "tf_half_pixel_for_nn"), Attr::string("nearest_mode", "ceil")];
    refused(&float("Resize", &["x", "", "s"], &["y"], &ceil, 11), 13, "no other mode is with this rounding");
    refused(&made("Erf", &["x"], &["y"], &[], 9, DataType::Int32), 13, "takes no int32 any more");
    refused(&made("ReduceLogSum", &["x"], &["y"], &[], 18, DataType::Int64), 28, "takes no int64 any more");
    refused(&float("Range", &["x", "b", "c"], &["y"], &[], 10), 13, "opset 10 lacks (it comes with 11)");
    refused(
        &float("Relu", &["x"], &["y"], &[], 22),
        12,
        "opset 22 cannot be lowered to 12: opsets are lowered to 13 or newer",
    );
    refused(&float("Relu", &["x"], &["y"], &[], 21), 30, "opset 30 is unknown");
}

#[test]
fn an_opset_is_lowered_where_every_node_means_the_same() {
    let none = &[][..];
    check("Relu", &["x"], none, (24, 13), "Relu(x) y");
    let policy = [Attr::int("antialias", 0), Attr::string("keep_aspect_ratio_policy", "stretch"), Attr::int("axis", 1)];
    check("Resize", &["x", "", "s"], &policy, (21, 17), "Resize[axis](x  s) y");
    check("Reshape", &["x", "s"], &[Attr::int("allowzero", 0)], (21, 17), "Reshape[allowzero](x s) y");
    check("Cast", &["x"], &[Attr::int("to", 10), Attr::int("saturate", 1)], (24, 13), "Cast[to](x) y");
    check("AveragePool", &["x"], &[Attr::ints("dilations", &[1, 1])], (22, 18), "AveragePool(x) y");
    let half = [Attr::string("coordinate_transformation_mode", "output_half_pixel")];
    check("RoiAlign", &["x", "r", "i"], &half, (16, 15), "RoiAlign(x r i) y");
    check("ReduceMean", &["x"], &[Attr::int("noop_with_empty_axes", 0)], (18, 17), "ReduceMean(x) y");
    check("BatchNormalization", &["x", "s", "b", "m", "v"], none, (21, 13), "BatchNormalization(x s b m v) y");
    // There and back.
    let axes = [Attr::ints("axes", &[0, 2])];
    let newer = written(&made("ReduceMean", &["x"], &["y"], &axes, 13, DataType::Float), 18).expect("raised");
    let text = raised(&newer, 17).expect("lowered");
    assert_eq!(text, "ReduceMean[axes](x) y; y_axes: int64[2]");
}

#[test]
fn an_opset_is_not_lowered_where_a_node_differs() {
    let text = |name, value| [Attr::string(name, value)];
    for (op_type, inputs, attributes, (from, to), want) in [
        ("Gelu", &["x"][..], vec![], (20, 19), "opset 19 lacks (it comes with 20)"),
        ("Reshape", &["x", "s"], vec![Attr::int("allowzero", 1)], (21, 13), "version 13 has no attribute `allowzero`"),
        ("Split", &["x"], vec![Attr::int("num_outputs", 1)], (18, 17), "version 13 has no attribute `num_outputs`"),
        ("Pad", &["x", "p", "v", "a"], vec![], (18, 17), "version 13 has no `axes`"),
        ("Pad", &["x", "p"], text("mode", "wrap").into(), (21, 18), "version 18 has no `mode` \"wrap\""),
        ("ScatterND", &["x", "i", "u"], text("reduction", "max").into(), (18, 17), "has no `reduction` \"max\""),
        ("RoiAlign", &["x", "r", "i"], vec![], (16, 15), "does what \"output_half_pixel\" means"),
        ("ReduceMean", &["x", "a"], vec![], (18, 17), "has `axes` as an attribute, and it is not constant here"),
        ("DFT", &["x"], vec![], (20, 17), "has another default of `axis`"),
        ("GroupNormalization", &["x", "s", "b"], vec![], (21, 18), "a scale and a bias for each group"),
        ("GridSample", &["x", "g"], vec![], (20, 16), "takes inputs of rank 4 only"),
        ("Cast", &["x"], vec![Attr::int("to", 17)], (19, 18), "takes no float8e4m3fn for `output` (`y`)"),
        ("Cast", &["x"], vec![Attr::int("to", 18)], (24, 23), "casts to float8e4m3fnuz by other rules"),
        ("Mod", &["x", "b"], vec![], (28, 27), "needs `fmod` 1 for floats"),
        ("Mod", &["x", "b"], vec![Attr::reference("fmod", kind::INT, "outer")], (28, 27), "refers to `outer`"),
    ] {
        let error = raised(&made(op_type, inputs, &["y"], &attributes, from, DataType::Float), to).expect_err(want);
        let start = format!("the opset cannot be lowered from {from} to {to}: node `n` ({op_type}) is ");
        assert!(error.starts_with(&start) && error.contains(want), "{error}");
    }
    let bytes = made("Add", &["x", "b"], &["y"], &[], 14, DataType::BFloat16);
    assert!(raised(&bytes, 13).is_ok());
    refused(&made("Identity", &["x"], &["y"], &[], 21, DataType::Int4), 20, "takes no int4");
    refused(&function("GridSample", "mode", &["linear", "cubic"], 20), 16, "in function `F`");
}

#[test]
fn a_version_of_the_format_is_set_where_nothing_needs_a_newer_one() {
    let set = |bytes: &[u8], opset, version| {
        let outline = Outline::of(Backing::Memory(bytes), &MODEL).expect("a model");
        let document = Document::parse(&outline.bytes).expect("a model");
        let files = Files::open(&outline, &[]).expect("no files");
        let (_, done) = requested(&document, &files, opset, version).map_err(|error| error.to_string())?;
        Ok::<_, String>((done.to, done.ir_from, done.ir_to))
    };
    let relu = made("Relu", &["x"], &["y"], &[], 13, DataType::Float);
    assert_eq!(set(&relu, None, None), Ok((21, 8, 10)));
    assert_eq!(set(&relu, None, Some(7)), Ok((13, 8, 7)));
    assert_eq!(set(&relu, None, Some(14)), Ok((13, 8, 14)));
    assert_eq!(set(&relu, Some(17), Some(9)), Ok((17, 8, 9)));
    let refused = |bytes: &[u8], opset, version, want: &str| {
        let error = set(bytes, opset, version).expect_err(want);
        assert!(error.contains(want), "{error}");
    };
    refused(&relu, Some(21), Some(8), "the model cannot have ir_version 8: opset 21 needs 10");
    refused(&relu, None, Some(2), "ir_version 2 is unknown (want 3 to 14)");
    refused(&relu, None, Some(15), "ir_version 15 is unknown");
    refused(&relu, None, Some(-1), "ir_version -1 is unknown");
    refused(
        &made("Relu", &["x"], &["y"], &[], 22, DataType::Float),
        None,
        None,
        "newer than 21 (`opset` 21 lowers it)",
    );
    refused(&function("Relu", "a", &["b"], 13), None, Some(7), "function `F` needs 8");
    let float8 = made("Relu", &["x"], &["y"], &[], 13, DataType::Float8E4M3FN);
    refused(&float8, None, Some(8), "float8e4m3fn needs 9");
    // A new initializer is no input.
    let axes = [Attr::ints("axes", &[0])];
    let newer = written(&made("Squeeze", &["x"], &["y"], &axes, 11, DataType::Float), 13).expect("raised");
    assert_eq!(set(&newer, None, Some(7)), Ok((13, 8, 7)));
    let old = made("Relu", &["x"], &["y"], &[], 7, DataType::Float);
    assert_eq!(set(&old, None, Some(3)), Ok((7, 8, 3)));
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
        ("Cast", 9, &["x"], vec![], "is version 9 of its operator; version 13"),
        (
            "GridSample",
            16,
            &["x", "g"],
            vec![reference("mode", kind::STRING)],
            "refers to `outer` of the enclosing function",
        ),
        ("BatchNormalization", 7, &["x", "s"], vec![Attr::int("spatial", 0)], "its input 2 is missing"),
        ("GroupNormalization", 18, &["x"], vec![], "its input 1 is missing"),
    ] {
        let bytes = made(op_type, inputs, &["y"], &attributes, from, DataType::Float);
        refused(&bytes, 28, want);
    }
}

/// A model whose function reads a value of unknown type, and hands its attribute on; it is called once with each value.
fn function(op_type: &str, attribute: &str, given: &[&str], opset: i64) -> Vec<u8> {
    use crate::messages::function;
    let call = |place: usize, value: &&str| {
        let mut call = Vec::new();
        wire::put_bytes(&mut call, node::INPUT, b"x");
        wire::put_bytes(&mut call, node::OUTPUT, format!("y{place}").as_bytes());
        wire::put_bytes(&mut call, node::OP_TYPE, b"F");
        wire::put_bytes(&mut call, node::DOMAIN, b"own");
        wire::put_bytes(&mut call, node::ATTRIBUTE, &Attr::string("its", value).0);
        call
    };
    let (mut inner, mut own, mut body, mut import, mut whole) = (vec![], vec![], vec![], vec![], vec![]);
    wire::put_bytes(&mut inner, node::INPUT, b"a");
    wire::put_bytes(&mut inner, node::INPUT, b"a");
    wire::put_bytes(&mut inner, node::OUTPUT, b"b");
    wire::put_bytes(&mut inner, node::OP_TYPE, op_type.as_bytes());
    wire::put_bytes(&mut inner, node::ATTRIBUTE, &Attr::reference(attribute, kind::STRING, "its").0);
    wire::put_int(&mut import, opset::VERSION, opset as u64);
    wire::put_bytes(&mut own, function::NAME, b"F");
    wire::put_bytes(&mut own, function::DOMAIN, b"own");
    wire::put_bytes(&mut own, function::INPUT, b"a");
    wire::put_bytes(&mut own, function::OUTPUT, b"b");
    wire::put_bytes(&mut own, function::NODE, &inner);
    wire::put_bytes(&mut own, function::OPSET_IMPORT, &import);
    given.iter().enumerate().for_each(|(place, value)| wire::put_bytes(&mut body, graph::NODE, &call(place, value)));
    wire::put_bytes(&mut body, graph::INPUT, &value("x", DataType::Float, 4));
    wire::put_int(&mut whole, model::IR_VERSION, 9);
    wire::put_bytes(&mut whole, model::GRAPH, &body);
    wire::put_bytes(&mut whole, model::OPSET_IMPORT, &import);
    wire::put_bytes(&mut whole, model::FUNCTIONS, &own);
    whole
}

#[test]
fn calls_tell_what_an_attribute_of_a_function_is() {
    let mode = |given: &[&str]| function("GridSample", "mode", given, 16);
    assert!(raised(&mode(&["bicubic", "bicubic"]), 20).is_ok());
    assert!(raised(&mode(&["nearest"]), 28).is_ok());
    refused(&mode(&["bicubic", "bilinear"]), 20, "refers to `its` of the enclosing function");
    refused(&mode(&[]), 20, "refers to `its` of the enclosing function");
}

/// Operators of ONNX's own domain that it does not have stay as they are: onnxruntime's optimizer writes some, and others
/// are named.
#[test]
fn operators_that_onnx_does_not_have_stay() {
    for (op_type, inputs, unknown) in
        [("SimplifiedLayerNormalization", &["x", "s"][..], &[][..]), ("NoSuchOperator", &["x"], &["NoSuchOperator"])]
    {
        let bytes = made(op_type, inputs, &["y"], &[Attr::int("axis", -1)], 11, DataType::Float);
        assert_eq!(raised(&bytes, 28), Ok(format!("{op_type}[axis]({}) y", inputs.join(" "))));
        let outline = Outline::of(Backing::Memory(&bytes), &MODEL).expect("an outline");
        let document = Document::parse(&outline.bytes).expect("a model");
        let files = Files::open(&outline, &[]).expect("no files");
        assert_eq!(edits(&document, &files, 28).expect("raised").1.unknown, unknown);
    }
}

#[test]
fn what_is_raised_already_stays() {
    let bytes = made("Relu", &["x"], &["y"], &[], 21, DataType::Float);
    let outline = Outline::of(Backing::Memory(&bytes), &MODEL).expect("an outline");
    let document = Document::parse(&outline.bytes).expect("a model");
    let files = Files::open(&outline, &[]).expect("no files");
    let (edits, summary) = edits(&document, &files, 21).expect("raised");
    let message = emit(&document, &files, &edits, &mut Layout::new("m.data", None)).expect("emitted");
    assert_eq!((message.len(), summary.rewritten.len()), (bytes.len() as u64, 0));
}

/// A model from messages: the main graph's nodes, its inputs and outputs (with ranks), and functions of the domain
/// `own`.
fn model_of(opset: i64, nodes: Vec<Message>, inputs: &[(&str, DataType, usize)], functions: Vec<Message>) -> Vec<u8> {
    let imports = || Message::new().message(8, Message::new().int(2, opset)).message(8, own_domain());
    let graph = nodes.into_iter().fold(Message::new(), |graph, node| graph.message(1, node));
    let graph = inputs.iter().fold(graph, |graph, &(name, of, rank)| graph.bytes(11, value(name, of, rank)));
    let graph = graph.bytes(12, value("y", DataType::Float, 3));
    let model = imports().int(1, 9).message(7, graph);
    functions.into_iter().fold(model, |model, function| model.message(25, function)).into_bytes()
}

fn own_domain() -> Message {
    Message::new().bytes(1, "own").int(2, 1)
}

/// A function of one input `a` and one output `b`.
fn own_function(name: &str, attributes: &[&str], nodes: Vec<Message>, opset: i64) -> Message {
    let function = Message::new().bytes(1, name).bytes(10, "own").bytes(4, "a").bytes(5, "b");
    let function = attributes.iter().fold(function, |function, name| function.bytes(6, name));
    let function = nodes.into_iter().fold(function, |function, node| function.message(7, node));
    function.message(9, Message::new().int(2, opset)).message(9, own_domain())
}

fn call(name: &str, input: &str, output: &str, attributes: Vec<Message>) -> Message {
    proto::node(name, &[input], output, attributes).bytes(7, "own")
}

fn reference(name: &str, kind: u64, to: &str) -> Message {
    Message::new().bytes(1, name).int(20, kind as i64).bytes(21, to)
}

/// Every node of a model, in all of its graphs, by operator and the integer of an attribute.
fn ints_of(bytes: &[u8], to: i64, op_type: &str, attribute: &str) -> Vec<i64> {
    let out = written(bytes, to).expect("raised");
    let document = Document::parse(&out).expect("a model");
    let graphs = document.graphs();
    let nodes = graphs.iter().flat_map(|graph| &graph.nodes).filter(|node| node.op_type == op_type);
    nodes.filter_map(|node| Some(node.attribute(attribute)?.int())).collect()
}

#[test]
fn branches_that_share_names_have_values_of_their_own() {
    let branch = |rank: usize| {
        let softmax = proto::node("Softmax", &["t"], "b", vec![proto::int_attribute("axis", 1)]);
        let graph = Message::new().message(1, proto::node("Reshape", &["x", "s"], "t", vec![])).message(1, softmax);
        let graph = graph.bytes(2, "branch").bytes(13, value("t", DataType::Float, rank));
        graph.message(12, Message::new().bytes(1, "b"))
    };
    let attribute = |name: &str, graph: Message| Message::new().bytes(1, name).message(6, graph).int(20, 5);
    let choice = |ranks: [usize; 2]| {
        let [then, other] = ranks.map(branch);
        let branches = vec![attribute("then_branch", then), attribute("else_branch", other)];
        let node = proto::node("If", &["c"], "y", branches);
        model_of(
            11,
            vec![node],
            &[("c", DataType::Bool, 0), ("x", DataType::Float, 3), ("s", DataType::Int64, 1)],
            vec![],
        )
    };
    // Ranks that nothing declares in the branches, but that of what a Relu reads.
    let relu = |input: &str| {
        let softmax = proto::node("Softmax", &["t"], "b", vec![proto::int_attribute("axis", 1)]);
        let graph = Message::new().message(1, proto::node("Relu", &[input], "t", vec![])).message(1, softmax);
        graph.bytes(2, "branch").message(12, Message::new().bytes(1, "b"))
    };
    for (inputs, flattened) in [(["p", "q"], 1), (["q", "p"], 1), (["p", "p"], 0), (["q", "q"], 2)] {
        let [then, other] = inputs.map(relu);
        let branches = vec![attribute("then_branch", then), attribute("else_branch", other)];
        let node = proto::node("If", &["c"], "y", branches);
        let inputs = [("c", DataType::Bool, 0), ("p", DataType::Float, 2), ("q", DataType::Float, 4)];
        let bytes = model_of(11, vec![node], &inputs, vec![]);
        assert_eq!(ints_of(&bytes, 13, "Softmax", "axis"), [-1, -1]);
        assert_eq!(ints_of(&bytes, 13, "Flatten", "axis"), vec![1; flattened]);
    }
    // The matrix's last axis is axis 1; of the other rank a matrix is made before it.
    for (ranks, flattened) in [([2, 4], 1), ([4, 2], 1), ([2, 2], 0), ([4, 4], 2)] {
        let bytes = choice(ranks);
        assert_eq!(ints_of(&bytes, 13, "Softmax", "axis"), [-1, -1], "{ranks:?}");
        assert_eq!(ints_of(&bytes, 13, "Flatten", "axis"), vec![1; flattened], "{ranks:?}");
    }
}

/// Functions each of which calls the next one twice, and hands its attribute on: more calls than can be walked.
#[test]
fn functions_that_call_the_next_twice() {
    let last = 40;
    let function = |place: usize| {
        let hand = || vec![reference("its", kind::STRING, "its")];
        let nodes = match place == last {
            true => vec![proto::node("GridSample", &["a", "a"], "b", vec![reference("mode", kind::STRING, "its")])],
            false => {
                let next = format!("F{}", place + 1);
                vec![call(&next, "a", "m", hand()), call(&next, "m", "b", hand())]
            }
        };
        own_function(&format!("F{place}"), &["its"], nodes, 16)
    };
    let functions = || (0..=last).map(function).collect::<Vec<_>>();
    let calls = |modes: [&str; 2]| {
        let [first, second] = modes.map(|mode| vec![proto::string_attribute("its", mode)]);
        let nodes = vec![call("F0", "x", "z", first), call("F0", "z", "y", second)];
        model_of(16, nodes, &[("x", DataType::Float, 4)], functions())
    };
    assert!(raised(&calls(["bilinear", "bilinear"]), 20).is_ok());
    refused(&calls(["bilinear", "bicubic"]), 20, "refers to `its` of the enclosing function");
}

/// A caller that hands on an attribute that it is not given itself gives none.
#[test]
fn what_is_handed_on_has_to_be_given() {
    let clip = proto::node("Clip", &["a"], "b", vec![reference("min", kind::FLOAT, "low")]);
    let inner = own_function("Inner", &["low"], vec![clip], 10);
    let outer = own_function(
        "Outer",
        &["least"],
        vec![call("Inner", "a", "b", vec![reference("low", kind::FLOAT, "least")])],
        10,
    );
    let given = |attributes: Vec<Message>| {
        let nodes = vec![call("Outer", "x", "y", attributes)];
        model_of(10, nodes, &[("x", DataType::Float, 3)], vec![inner.clone(), outer.clone()])
    };
    let least = Message::new().bytes(1, "least").int(20, kind::FLOAT as i64);
    assert!(raised(&given(vec![least]), 13).is_ok());
    // Without it the Clip has no minimum, which all calls agree on.
    assert!(raised(&given(vec![]), 13).is_ok());
    let both = vec![
        call("Outer", "x", "z", vec![]),
        call("Outer", "z", "y", vec![Message::new().bytes(1, "least").int(20, 1)]),
    ];
    let bytes = model_of(10, both, &[("x", DataType::Float, 3)], vec![inner.clone(), outer.clone()]);
    refused(&bytes, 13, "which not every call of it gives");
}
