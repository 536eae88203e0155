//! The nodes that compute the five numbers of a value, from operators of the model's opset.
//!
//! A value is cast to float, flattened, and gets a NaN behind it, so that no reduction is over nothing, which runtimes
//! refuse. NaN is then replaced by what a reduction leaves alone.

use super::RecordedValue;
use crate::edits::{Content, NewAttribute, NewNode, NewTensor};
use crate::rope::{CastElements, ElementSource};
use crate::tree::Names;
use onnx_cast::DataType;

/// The first opset with IsNaN and Where.
const SELECTS: i64 = 9;

/// Constants that all values share, by name.
#[derive(Clone, Default)]
struct Shared {
    /// The shape of a flat tensor.
    flat: String,
    one: String,
    count: String,
    zero: String,
    nan: String,
    infinity: String,
    negative_infinity: String,
}

pub(super) struct Recorder<'n, 'a> {
    names: &'n mut Names,
    opset: i64,
    pub(super) nodes: Vec<NewNode<'a>>,
    shared: Shared,
    /// How many values there were before the one whose nodes are made.
    number: usize,
}

impl<'n, 'a> Recorder<'n, 'a> {
    pub(super) fn new(names: &'n mut Names, opset: i64) -> Self {
        let shared = Shared::default();
        let mut recorder = Recorder { names, opset, nodes: Vec::new(), shared, number: 0 };
        recorder.shared = Shared {
            zero: recorder.float("zero", 0.0),
            one: recorder.float("one", 1.0),
            nan: recorder.float("nan", f32::NAN),
            infinity: recorder.float("inf", f32::INFINITY),
            negative_infinity: recorder.float("minus_inf", f32::NEG_INFINITY),
            flat: recorder.integer("flat", -1),
            count: recorder.integer("own", 1),
        };
        recorder
    }

    fn float(&mut self, name: &str, value: f32) -> String {
        self.constant(name, DataType::Float, &value.to_le_bytes())
    }

    /// Before opset 9, a Constant is of floats alone.
    fn integer(&mut self, name: &str, value: i16) -> String {
        if self.opset >= SELECTS {
            return self.constant(name, DataType::Int64, &i64::from(value).to_le_bytes());
        }
        let float = self.float(&format!("{name}_float"), value.into());
        let name = self.names.fresh(format!("onnx_cast_record_{name}"));
        self.nodes.push(NewNode::cast(name.clone(), float, name.clone(), DataType::Int64, self.opset));
        name
    }

    fn constant(&mut self, name: &str, data_type: DataType, bytes: &[u8]) -> String {
        let content = Content::Elements(CastElements::new(ElementSource::Owned(bytes.into()), data_type, 1));
        let value = Some(NewTensor { message: None, name: None, shape: vec![1], content });
        let name = self.names.fresh(format!("onnx_cast_record_{name}"));
        self.nodes.push(NewNode { value, ..NewNode::new("Constant", name.clone(), Vec::new(), name.clone()) });
        name
    }

    /// The nodes of a value.
    pub(super) fn value(&mut self, value: &RecordedValue) {
        let Shared { flat, count, zero, nan, infinity, negative_infinity, .. } = self.shared.clone();
        let float = match value.data_type {
            DataType::Float => value.name.clone(),
            _ => self.cast("float", &value.name, DataType::Float),
        };
        let row = self.node("Reshape", "row", &[&float, &flat]);
        let row = self.concat("some", &[&row, &nan]);
        let (is_nan, numbers) = self.numbers(&row);
        let magnitudes = self.node("Abs", "abs", &[&numbers]);
        let is_large = self.node("Greater", "is_large", &[&magnitudes, &zero]);
        let is_none = self.node("Not", "is_none", &[&is_large]);

        let high = self.without("high", &is_nan, &numbers, &negative_infinity);
        let largest = self.node("ReduceMax", "largest", &[&high]);
        let low = self.without("low", &is_nan, &numbers, &infinity);
        let least = self.node("ReduceMin", "least", &[&low]);
        let tiny = self.without("tiny", &is_none, &magnitudes, &infinity);
        let tiny = self.node("ReduceMin", "least_magnitude", &[&tiny]);
        let other = self.node("Neg", "other", &[&least]);
        let magnitude = self.node("Max", "magnitude", &[&largest, &other, &zero]);

        // As integers, since a float counts to 2^24 only.
        let nans = self.cast("nans", &is_nan, DataType::Int64);
        let nans = self.node("ReduceSum", "all_nans", &[&nans]);
        let nans = self.node("Sub", "own_nans", &[&nans, &count]);
        let nans = self.cast("nan", &nans, DataType::Float);
        let inputs = [magnitude, tiny, largest, least, nans];
        let node = NewNode::new("Concat", value.output.clone(), inputs.into(), value.output.clone());
        self.nodes.push(node.with(NewAttribute::int("axis", 0)));
        self.number += 1;
    }

    /// Which values are NaN, and the values. From opset 9 on they still hold NaN, before they hold zeros in its place.
    fn numbers(&mut self, row: &str) -> (String, String) {
        if self.opset >= SELECTS {
            return (self.node("IsNaN", "is_nan", &[row]), row.to_owned());
        }
        let Shared { one, zero, .. } = self.shared.clone();
        let is_less = self.node("Less", "is_less", &[row, &one]);
        let is_more = self.node("Greater", "is_more", &[row, &zero]);
        let is_number = self.node("Or", "is_number", &[&is_less, &is_more]);
        let is_nan = self.node("Not", "is_nan", &[&is_number]);
        // x^1 is x, and NaN^0 is 1: no other arithmetic takes NaN away.
        let factor = self.cast("factor", &is_number, DataType::Float);
        let power = self.node("Pow", "power", &[row, &factor]);
        (is_nan, self.node("Mul", "numbers", &[&power, &factor]))
    }

    /// Values with an infinity in place of some.
    fn without(&mut self, name: &str, some: &str, values: &str, infinity: &str) -> String {
        if self.opset >= SELECTS {
            return self.node("Where", name, &[some, infinity, values]);
        }
        // 1/1 - 1 is 0, and 1/0 - 1 infinite.
        let Shared { one, negative_infinity, .. } = self.shared.clone();
        let others = self.node("Not", "others", &[some]);
        let others = self.cast("others_float", &others, DataType::Float);
        let quotient = self.node("Div", "quotient", &[&one, &others]);
        let term = self.node("Sub", "term", &[&quotient, &one]);
        self.node(if infinity == negative_infinity { "Sub" } else { "Add" }, name, &[values, &term])
    }

    fn name(&mut self, name: &str) -> String {
        self.names.fresh(format!("onnx_cast_record_{}_{name}", self.number))
    }

    fn node(&mut self, op_type: &str, name: &str, inputs: &[&str]) -> String {
        let name = self.name(name);
        let inputs = inputs.iter().map(|&input| input.to_owned()).collect();
        self.nodes.push(NewNode::new(op_type, name.clone(), inputs, name.clone()));
        name
    }

    fn concat(&mut self, name: &str, inputs: &[&str]) -> String {
        let output = self.node("Concat", name, inputs);
        if let Some(node) = self.nodes.last_mut() {
            node.attributes.push(NewAttribute::int("axis", 0));
        }
        output
    }

    fn cast(&mut self, name: &str, input: &str, to: DataType) -> String {
        let name = self.name(name);
        self.nodes.push(NewNode::cast(name.clone(), input.to_owned(), name.clone(), to, self.opset));
        name
    }
}
