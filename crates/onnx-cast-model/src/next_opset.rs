//! Shows that an operator takes a row in the table of schemas, which a script writes, and one in `operators.txt`: what
//! opset 29 adds is known to these tests alone (`types/schemas_next.txt`, and `NEXT` of `operators.rs`), and no other line
//! names it.

use crate::source::{ModelBytes, ModelSource};
use crate::tree::Document;
use crate::types::Typing;
use crate::upgrade::{UpgradeRequest, upgrade_of};
use crate::{ConvertRequest, convert_of};
use onnx_cast::DataType;
use testkit::proto::{Message, model, node, tensor};

const FLOAT: i64 = 1;
const INT64: i64 = 7;

/// Experts between two other nodes; `operator` stands for them.
fn experts(operator: &str, opset: i64) -> Vec<u8> {
    let weights = tensor(&[2, 4, 4], FLOAT, &[0.5f32.to_le_bytes(); 32].concat());
    let weights = Message::new().bytes(1, "value").message(5, weights).int(20, 4);
    let nodes = vec![
        node("Constant", &[], "w", vec![weights]),
        node("Relu", &["x"], "h", vec![]),
        node(operator, &["h", "w", "groups"], "g", vec![]),
        node("Neg", &["g"], "y", vec![]),
    ];
    model(opset, nodes, &[("x", FLOAT), ("groups", INT64)], &[("y", FLOAT)])
}

#[test]
fn a_row_is_all_that_an_operator_takes() {
    let bytes = experts("GroupedMatMul", 29);
    let document = Document::parse(&bytes).expect("a model");
    let typing = Typing::of(&document).expect("types");
    let body = &typing.bodies[0];
    let type_of = |name: &str| {
        let value = body.flow.values.iter().position(|value| value.name == name).expect("a value");
        body.types[value].as_ref().and_then(|of_type| of_type.tensor())
    };
    assert_eq!(type_of("g"), Some(DataType::Float));

    // It is converted as a matrix product is, and its indices stay integers.
    let bytes = ModelBytes::new(bytes, None);
    let request = ConvertRequest::new(DataType::Float16);
    let (half, summary) = convert_of(ModelSource::Memory(&bytes), None, &request).expect("converted");
    let found = summary.nodes.iter().find(|node| node.operator == "GroupedMatMul").expect("the node");
    assert!(found.low && found.why.contains("fast"), "{found:?}");
    let document = Document::parse(&half).expect("a model");
    assert!(document.graph.nodes.iter().any(|node| node.op_type == "GroupedMatMul" && node.inputs[2] == "groups"));

    // An operator without a row stays float.
    let bytes = ModelBytes::new(experts("GroupedConv", 29), None);
    let (_, summary) = convert_of(ModelSource::Memory(&bytes), None, &request).expect("converted");
    let found = summary.nodes.iter().find(|node| node.operator == "GroupedConv").expect("the node");
    assert_eq!((found.low, found.why.as_str()), (false, "its operator is not known"));
}

#[test]
fn models_are_raised_to_the_next_opset() {
    let bytes = ModelBytes::new(experts("MatMul", 28), None);
    let request = UpgradeRequest::default().opset(Some(29));
    let (raised, summary) = upgrade_of(ModelSource::Memory(&bytes), None, &request).expect("raised");
    assert_eq!((summary.from, summary.to, summary.rewritten.len()), (28, 29, 0));
    assert_eq!(Document::parse(&raised).expect("a model").opset, Some(29));
}
