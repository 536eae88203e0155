//! Encodes protocol buffers for tests, invalid ones too: fields are written as given.

/// A message, or a part of one.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// An empty message.
    pub fn new() -> Message {
        Message::default()
    }

    fn varint(mut self, mut value: u64) -> Message {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    /// Appends a field of a varint.
    pub fn int(self, field: u64, value: i64) -> Message {
        self.varint(field << 3).varint(value as u64)
    }

    /// Appends a field of bytes or text.
    pub fn bytes(self, field: u64, value: impl AsRef<[u8]>) -> Message {
        let value = value.as_ref();
        let mut message = self.varint(field << 3 | 2).varint(value.len() as u64);
        message.0.extend_from_slice(value);
        message
    }

    /// Appends a field of a message.
    pub fn message(self, field: u64, value: Message) -> Message {
        self.bytes(field, value.0)
    }

    /// The encoded message.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// TensorProto: dims, data_type, raw_data.
pub fn tensor(dims: &[i64], data_type: i64, raw: &[u8]) -> Message {
    typed(dims, data_type).bytes(9, raw)
}

/// TensorProto without elements.
pub fn typed(dims: &[i64], data_type: i64) -> Message {
    dims.iter().fold(Message::new(), |message, &dim| message.int(1, dim)).int(2, data_type)
}

/// TensorProto of strings.
pub fn strings(elements: &[&str]) -> Message {
    let message = typed(&[elements.len() as i64], 8);
    elements.iter().fold(message, |message, element| message.bytes(6, element))
}

/// AttributeProto of kind INT.
pub fn int_attribute(name: &str, value: i64) -> Message {
    Message::new().bytes(1, name).int(3, value).int(20, 2)
}

/// AttributeProto of kind STRING.
pub fn string_attribute(name: &str, value: &str) -> Message {
    Message::new().bytes(1, name).bytes(4, value).int(20, 3)
}

/// NodeProto.
pub fn node(operator: &str, inputs: &[&str], output: &str, attributes: Vec<Message>) -> Message {
    let message = inputs.iter().fold(Message::new(), |message, input| message.bytes(1, input));
    let message = message.bytes(2, output).bytes(4, operator);
    attributes.into_iter().fold(message, |message, attribute| message.message(5, attribute))
}

/// ModelProto whose inputs and outputs are names with types.
pub fn model(opset: i64, nodes: Vec<Message>, inputs: &[(&str, i64)], outputs: &[(&str, i64)]) -> Vec<u8> {
    let value = |(name, data_type): &(&str, i64)| {
        let tensor_type = Message::new().int(1, *data_type);
        Message::new().bytes(1, name).message(2, Message::new().message(1, tensor_type))
    };
    let graph = nodes.into_iter().fold(Message::new(), |graph, node| graph.message(1, node)).bytes(2, "graph");
    let graph = inputs.iter().fold(graph, |graph, input| graph.message(11, value(input)));
    let graph = outputs.iter().fold(graph, |graph, output| graph.message(12, value(output)));
    Message::new().int(1, 10).message(7, graph).message(8, Message::new().bytes(1, "").int(2, opset)).into_bytes()
}
