//! Asks an onnxruntime whose kernels the tables of `stock.rs` do not know whether it runs a node: a model of that node
//! alone loads on its own processor kernels, or does not. Which values are wrong there is not probed.

use super::abi::{Environment, Session, value};
use super::host::{Host, NamedValue, OwnedAttribute};
use super::node::Node;
use crate::abi::SessionOptions;
use crate::api::Failure;
use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::Mutex;

/// What an onnxruntime has answered: models of one node, and whether they load.
pub(crate) struct Probe {
    host: Host,
    answers: Mutex<HashMap<Vec<u8>, bool>>,
}

/// GraphOptimizationLevel: the node itself is asked for, not what becomes of it.
const DISABLE_ALL: c_int = 0;

impl Probe {
    pub(crate) fn new(host: Host) -> Probe {
        Probe { host, answers: Mutex::new(HashMap::new()) }
    }

    /// Whether onnxruntime runs a node by itself; `None` if that cannot be asked.
    pub(crate) fn runs(&self, node: &Node) -> Option<bool> {
        let model = model_of(node)?;
        let mut answers = self.answers.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(&answer) = answers.get(&model) {
            return Some(answer);
        }
        let answer = self.loads(&model)?;
        answers.insert(model, answer);
        Some(answer)
    }

    /// Whether a model loads; `None` if not even the environment for it can be made.
    fn loads(&self, model: &[u8]) -> Option<bool> {
        let Host { api, graphs, .. } = self.host;
        let (mut environment, mut options) = (ptr::null_mut::<Environment>(), ptr::null_mut::<SessionOptions>());
        let mut session = ptr::null_mut::<Session>();
        // SAFETY: each function gets what an earlier one gave, the model has as many bytes, and everything that was
        // given is released once. The environment is the one of the process, which counts its users.
        unsafe {
            api.check(graphs.CreateEnv(value::WARNING, c"onnx-cast".as_ptr(), &mut environment)).ok()?;
            let made = api.check(graphs.CreateSessionOptions(&mut options));
            let loaded = made.and_then(|()| {
                // A model that does not load is an answer, and no error.
                api.check(graphs.SetSessionLogSeverityLevel(options, value::FATAL))?;
                api.check(graphs.SetSessionGraphOptimizationLevel(options, DISABLE_ALL))?;
                api.check(graphs.SetIntraOpNumThreads(options, 1))?;
                let (bytes, len) = (model.as_ptr().cast(), model.len());
                Ok(api.check(graphs.CreateSessionFromArray(environment, bytes, len, options, &mut session)).is_ok())
            });
            if !session.is_null() {
                graphs.ReleaseSession(session);
            }
            if !options.is_null() {
                graphs.ReleaseSessionOptions(options);
            }
            graphs.ReleaseEnv(environment);
            loaded.map_err(|_: Failure| ()).ok()
        }
    }
}

/// A message of protobuf. ONNX's are few and small here.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(mut self, mut value: u64) -> Message {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    fn int(self, field: u64, value: i64) -> Message {
        self.varint(field << 3).varint(value as u64)
    }

    fn bytes(self, field: u64, bytes: &[u8]) -> Message {
        let mut message = self.varint(field << 3 | 2).varint(bytes.len() as u64);
        message.0.extend_from_slice(bytes);
        message
    }
}

/// The version of ONNX's format, which every onnxruntime with execution providers reads.
const IR_VERSION: i64 = 10;

/// A model (ModelProto) of a node alone, whose inputs are those of the model; `None` if a type or an attribute is not
/// known.
fn model_of(node: &Node) -> Option<Vec<u8>> {
    let mut body = Message::default();
    let mut graph = Message::default();
    for (field, of_graph, values) in [(1, 11, &node.inputs), (2, 12, &node.outputs)] {
        for (index, value) in values.iter().enumerate() {
            // The names are the positions, so that equal nodes are one question.
            let name = value.as_ref().map_or(String::new(), |_| format!("{field}.{index}"));
            body = body.bytes(field, name.as_bytes());
            if let Some(NamedValue { data_type, .. }) = value {
                let tensor = Message::default().int(1, (*data_type)?.onnx().into());
                let of_type = Message::default().bytes(1, &tensor.0);
                let info = Message::default().bytes(1, name.as_bytes()).bytes(2, &of_type.0);
                graph = graph.bytes(of_graph, &info.0);
            }
        }
    }
    body = body.bytes(4, node.operator.name().as_bytes());
    for (name, value) in &node.attributes {
        let attribute = Message::default().bytes(1, name.as_bytes());
        let attribute = match value {
            OwnedAttribute::Int(number) => attribute.int(3, *number).int(20, 2),
            OwnedAttribute::String(text) => attribute.bytes(4, text).int(20, 3),
            OwnedAttribute::Other => return None,
        };
        body = body.bytes(5, &attribute.0);
    }
    let graph = Message::default().bytes(1, &body.0).bytes(2, b"probe").bytes_of(graph);
    let opset = Message::default().bytes(1, b"").int(2, node.version);
    Some(Message::default().int(1, IR_VERSION).bytes(7, &graph.0).bytes(8, &opset.0).0)
}

impl Message {
    /// The same, with the fields of another behind its own.
    fn bytes_of(mut self, other: Message) -> Message {
        self.0.extend(other.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnx_cast::DataType;
    use onnx_cast::ops::Operator;

    fn cast(from: Option<DataType>, attributes: Vec<(String, OwnedAttribute)>) -> Node {
        let value = |name: &str, data_type| Some(NamedValue { name: name.to_owned(), data_type });
        let (inputs, outputs) = (vec![value("x", from)], vec![value("y", Some(DataType::Float16))]);
        Node { operator: Operator::Cast, version: 25, attributes, inputs, outputs }
    }

    #[test]
    fn a_node_is_a_model() {
        let to = ("to".to_owned(), OwnedAttribute::Int(10));
        let model = model_of(&cast(Some(DataType::Float), vec![to])).expect("a model");
        // As onnx.parser has it: ir_version 10, a graph of `2.0 = Cast <to=10> (1.0)`, opset 25.
        let node = b"\x0a\x031.0\x12\x032.0\x22\x04Cast\x2a\x09\x0a\x02to\x18\x0a\xa0\x01\x02";
        let value = |name: &[u8; 3], of_type| [b"\x0a\x03", &name[..], b"\x12\x04\x0a\x02\x08", &[of_type]].concat();
        let (x, y) = (value(b"1.0", 1), value(b"2.0", 10));
        let field = |tag: u8, bytes: &[u8]| [&[tag, bytes.len() as u8], bytes].concat();
        let graph = [field(0x0a, node), field(0x12, b"probe"), field(0x5a, &x), field(0x62, &y)].concat();
        assert_eq!(model, [&b"\x08\x0a"[..], &field(0x3a, &graph), &field(0x42, b"\x0a\x00\x10\x19")].concat());
    }

    #[test]
    fn what_is_not_known_is_not_asked() {
        assert_eq!(model_of(&cast(None, vec![])), None);
        let other = ("to".to_owned(), OwnedAttribute::Other);
        assert_eq!(model_of(&cast(Some(DataType::Float), vec![other])), None);
    }
}
