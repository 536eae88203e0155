//! Graphs of Cast, CastLike, BitCast, Constant and Identity, from a few bytes for each node.

use super::filled;
use crate::files::written;
use arbitrary::{Result, Unstructured};
use onnx_cast::{DataType, Tensor};
use onnx_cast_file::Format;
use testkit::proto::{Message, int_attribute, node, string_attribute};

/// A graph whose nodes read what stands before them.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    opset: i64,
    inputs: Vec<DataType>,
    constants: Vec<Constant>,
    nodes: Vec<Node>,
    /// Names of values.
    outputs: Vec<String>,
}

#[derive(Clone, Debug)]
struct Constant {
    name: String,
    tensor: Tensor,
    /// The value of a node, not an initializer.
    is_node: bool,
    /// An initializer that is an input, too.
    is_input: bool,
}

#[derive(Clone, Debug)]
struct Node {
    operator: &'static str,
    inputs: Vec<String>,
    output: String,
    attributes: Vec<Message>,
}

impl Graph {
    pub(super) fn new(data: &mut Unstructured<'_>) -> Result<Graph> {
        let opset = *data.choose(&[28, 25, 24, 23, 21, 19, 18, 13, 9, 6])?;
        let inputs = (0..data.int_in_range(0..=2)?)
            .map(|_| data.choose(DataType::ALL).copied())
            .collect::<Result<Vec<DataType>>>()?;
        let constants = (0..data.int_in_range(0..=3)?)
            .map(|index| Constant::new(index, data))
            .collect::<Result<Vec<Constant>>>()?;
        let mut values: Vec<String> = (0..inputs.len()).map(|index| format!("x{index}")).collect();
        values.extend(constants.iter().map(|constant| constant.name.clone()));
        let mut nodes = Vec::new();
        for index in 0..data.int_in_range(1..=12)? {
            if values.is_empty() || data.is_empty() {
                break;
            }
            let node = Node::new(index, &values, opset, data)?;
            values.push(node.output.clone());
            nodes.push(node);
        }
        let mut outputs: Vec<String> = values.last().cloned().into_iter().collect();
        for _ in 0..data.int_in_range(0..=2)? {
            let output = data.choose(&values)?;
            if !outputs.contains(output) {
                outputs.push(output.clone());
            }
        }
        Ok(Graph { opset, inputs, constants, nodes, outputs })
    }

    /// The graph with other elements in its constants.
    pub(super) fn with_constants(&self, element: impl Fn(&str, &Tensor) -> Tensor) -> Graph {
        let mut graph = self.clone();
        for constant in &mut graph.constants {
            constant.tensor = element(&constant.name, &constant.tensor);
        }
        graph
    }

    /// The bytes of a ModelProto.
    pub(super) fn encode(&self) -> Vec<u8> {
        let declared = |name: &str, data_type: DataType| {
            let tensor = Message::new().int(1, data_type.onnx().into());
            Message::new().bytes(1, name).message(2, Message::new().message(1, tensor))
        };
        let mut graph = Message::new().bytes(2, "graph");
        for Constant { name, tensor, is_node, is_input } in &self.constants {
            if *is_node {
                let bytes = written(Format::TensorProto, "", tensor, false).expect("a small tensor");
                let value = Message::new().bytes(1, "value").bytes(5, bytes).int(20, 4);
                graph = graph.message(1, node("Constant", &[], name, vec![value]));
            } else {
                graph = graph.bytes(5, written(Format::TensorProto, name, tensor, false).expect("a small tensor"));
            }
            if *is_input && !is_node {
                graph = graph.message(11, declared(name, tensor.data_type()));
            }
        }
        for Node { operator, inputs, output, attributes } in &self.nodes {
            let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
            graph = graph.message(1, node(operator, &inputs, output, attributes.clone()));
        }
        for (index, data_type) in self.inputs.iter().enumerate() {
            graph = graph.message(11, declared(&format!("x{index}"), *data_type));
        }
        for output in &self.outputs {
            graph = graph.message(12, Message::new().bytes(1, output));
        }
        let opset = Message::new().bytes(1, "").int(2, self.opset);
        Message::new().int(1, 10).message(7, graph).message(8, opset).into_bytes()
    }
}

impl Constant {
    fn new(index: usize, data: &mut Unstructured<'_>) -> Result<Constant> {
        let data_type = *data.choose(DataType::ALL)?;
        let kind = data.int_in_range(0..=7)?;
        let count = data.int_in_range(0..=9)?;
        // No NaN, whose payload a cast may leave out or not; integers' bits are none either.
        let numbers = data.bytes(usize::min(count, data.len()))?.iter();
        let numbers =
            numbers.map(|&byte| if data_type.is_float() { f32::from(byte as i8) * 0.3 } else { f32::from(byte % 101) });
        let shape = if kind == 7 && numbers.len() == 1 { vec![] } else { vec![numbers.len()] };
        let tensor = filled(data_type, shape, numbers).ok_or(arbitrary::Error::IncorrectFormat)?;
        Ok(Constant { name: format!("c{index}"), tensor, is_node: kind < 3, is_input: kind == 3 })
    }
}

impl Node {
    fn new(index: usize, values: &[String], opset: i64, data: &mut Unstructured<'_>) -> Result<Node> {
        let operator = *data.choose(&["Cast", "Cast", "Cast", "CastLike", "BitCast", "Identity"])?;
        let mut inputs = vec![data.choose(values)?.clone()];
        let mut attributes = Vec::new();
        if operator == "CastLike" {
            inputs.push(data.choose(values)?.clone());
        }
        if operator == "Cast" || operator == "BitCast" {
            let to = *data.choose(DataType::ALL)?;
            attributes.push(int_attribute("to", to.onnx().into()));
        }
        let settings = if operator.starts_with("Cast") { data.int_in_range(0..=7)? } else { 0 };
        if opset >= 19 && settings >= 4 {
            attributes.push(int_attribute("saturate", 0));
        }
        if let (24.., Some(mode)) = (opset, [None, Some("up"), Some("down"), Some("nearest")][settings % 4]) {
            attributes.push(string_attribute("round_mode", mode));
        }
        Ok(Node { operator, inputs, output: format!("v{index}"), attributes })
    }
}
