//! Shows that an operator takes a row in the table of schemas, which a script writes, and one in `operators.txt`: these
//! tests hand the inference tables with the rows of an operator of opset 29, and no other line of the crate names it.

use crate::operators::Traits;
use crate::precision::{Losses, edits_of};
use crate::rewrite::open_source;
use crate::source::{ModelBytes, ModelSource};
use crate::tree::is_default;
use crate::types::schemas::{Schema, Table, read};
use crate::types::{TABLES, Tables, Typing};
use crate::{ConvertRequest, ConvertSummary, Error};
use onnx_cast::DataType;
use std::sync::LazyLock;
use testkit::proto::{Message, model, node, tensor};

const FLOAT: i64 = 1;
const INT64: i64 = 7;

/// As in `types/schemas.txt`, from onnx-weekly 1.24.0.dev20261026, in which opset 29 is not complete.
const SCHEMAS: &str = "set 0 tensor:bfloat16,double,float,float16
set 1 tensor:int32,int64
domain ai.onnx
GroupedMatMul 29 input:T weights:T group_indices:Tind bias?:T > output:T ; T=0 Tind=1";

/// The tables of the crate with those rows, whatever opset a model imports: 29 is refused where models are read.
const NEXT: Tables = Tables { schema: next_schema, traits: next_traits };

fn next_schema(domain: &str, op_type: &str, opset: i64) -> Option<&'static Schema> {
    static ROWS: LazyLock<Table> = LazyLock::new(|| read(&[SCHEMAS]));
    let row = ROWS.iter().find(|((_, name), _)| *name == op_type && is_default(domain));
    row.and_then(|(_, versions)| versions.first()).or_else(|| (TABLES.schema)(domain, op_type, opset))
}

fn next_traits(domain: &str, op_type: &str) -> &'static Traits {
    static ROW: LazyLock<Traits> = LazyLock::new(|| Traits::read("fast").expect("facts"));
    if op_type == "GroupedMatMul" && is_default(domain) { &ROW } else { (TABLES.traits)(domain, op_type) }
}

/// Experts between two other nodes; `operator` stands for them.
fn experts(operator: &str) -> ModelBytes {
    let weights = tensor(&[2, 4, 4], FLOAT, &[0.5f32.to_le_bytes(); 32].concat());
    let weights = Message::new().bytes(1, "value").message(5, weights).int(20, 4);
    let nodes = vec![
        node("Constant", &[], "w", vec![weights]),
        node("Relu", &["x"], "h", vec![]),
        node(operator, &["h", "w", "groups"], "g", vec![]),
        node("Neg", &["g"], "y", vec![]),
    ];
    ModelBytes::new(model(28, nodes, &[("x", FLOAT), ("groups", INT64)], &[("y", FLOAT)]), None)
}

/// What becomes of a model in float16, and the type of a value of it, by tables.
fn converted(model: &ModelBytes, tables: Tables, name: &str) -> (ConvertSummary, Option<DataType>) {
    open_source(ModelSource::Memory(model), |document, files| {
        let invalid = |error| Error::model(files.path(), error);
        let typing = Typing::by(document, tables).map_err(invalid)?;
        let body = &typing.bodies[0];
        let value = body.flow.values.iter().position(|value| value.name == name).expect("a value");
        let of_type = body.types[value].as_ref().and_then(|of_type| of_type.tensor());
        let request = ConvertRequest::new(DataType::Float16);
        let (_, (summary, _)) = edits_of(&typing, (document, files), &request, &Losses::default()).map_err(invalid)?;
        Ok((summary, of_type))
    })
    .expect("converted")
}

#[test]
fn a_row_in_each_table_is_all_that_an_operator_takes() {
    // It is converted as a matrix product is, with two Casts: its indices stay integers.
    let (summary, of_type) = converted(&experts("GroupedMatMul"), NEXT, "g");
    let found = summary.nodes.iter().find(|node| node.operator == "GroupedMatMul").expect("the node");
    assert!(found.low && found.why.contains("fast"), "{found:?}");
    assert_eq!((of_type, summary.casts, summary.constants), (Some(DataType::Float), 2, 1));

    // Without the rows it stays float, as does one that has none.
    for (operator, tables) in [("GroupedMatMul", TABLES), ("GroupedConv", NEXT)] {
        let (summary, _) = converted(&experts(operator), tables, "g");
        let found = summary.nodes.iter().find(|node| node.operator == operator).expect("the node");
        assert_eq!((found.low, found.why.as_str()), (false, "its operator is unknown"), "{operator}");
    }
}
