//! The nodes that compute the five numbers of a value, from operators of the model's opset.
//!
//! A value is cast to float, flattened, and gets a NaN behind it, so that no reduction is over nothing, which runtimes
//! refuse. NaN is then replaced by what a reduction leaves alone.

use crate::edits::{Content, Home, NewAttribute, NewNode, NewTensor};
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
    /// The numbers of no value, and as a row.
    nothing: String,
    nothing_row: String,
    /// The shape of rows of five numbers.
    rows: String,
    /// The places of the five.
    columns: Vec<String>,
    infinity: String,
    negative_infinity: String,
}

pub(super) struct Recorder<'n, 'a> {
    names: &'n mut Names,
    opset: i64,
    /// The constants, which graphs within the model's own read too.
    pub(super) constants: Vec<NewNode<'a>>,
    pub(super) nodes: Vec<NewNode<'a>>,
    shared: Shared,
    /// How many values there were before the one whose nodes are made.
    number: usize,
}

impl<'n, 'a> Recorder<'n, 'a> {
    pub(super) fn new(names: &'n mut Names, opset: i64) -> Self {
        let shared = Shared::default();
        let mut recorder = Recorder { names, opset, constants: Vec::new(), nodes: Vec::new(), shared, number: 0 };
        recorder.shared = Shared {
            zero: recorder.floats("zero", &[0.0], false),
            one: if opset < SELECTS { recorder.floats("one", &[1.0], false) } else { String::new() },
            nan: recorder.floats("nan", &[f32::NAN], false),
            infinity: recorder.floats("inf", &[f32::INFINITY], false),
            negative_infinity: recorder.floats("minus_inf", &[f32::NEG_INFINITY], false),
            flat: recorder.integers("flat", &[-1]),
            count: recorder.integers("own", &[1]),
            ..Shared::default()
        };
        recorder
    }

    /// Makes the constants that only values of graphs within others need.
    fn share_rows(&mut self) {
        if self.shared.columns.is_empty() {
            let row = [0.0, f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY, 0.0];
            self.shared.nothing = self.floats("nothing", &row, false);
            self.shared.nothing_row = self.floats("nothing_row", &row, true);
            self.shared.rows = self.integers("rows", &[-1, 5]);
            self.shared.columns = (0..5).map(|at| self.integers("column", &[at])).collect();
        }
    }

    /// The numbers of no value.
    pub(super) fn nothing(&mut self) -> String {
        self.share_rows();
        self.shared.nothing.clone()
    }

    /// The numbers of all that several are of.
    pub(super) fn of_several(&mut self, numbers: &[&str]) -> String {
        self.share_rows();
        let rows = self.concat("several", numbers);
        let shape = self.shared.rows.clone();
        let rows = self.node("Reshape", "rows", &[&rows, &shape]);
        self.of_rows(&rows)
    }

    /// The numbers of all that the rows are of, of which there may be none.
    pub(super) fn of_rows(&mut self, rows: &str) -> String {
        self.share_rows();
        let Shared { flat, nothing_row, columns, .. } = self.shared.clone();
        let rows = self.concat("all_rows", &[rows, &nothing_row]);
        let mut numbers = Vec::new();
        for (reduce, column) in
            ["ReduceMax", "ReduceMin", "ReduceMax", "ReduceMin", "ReduceSum"].into_iter().zip(columns)
        {
            let column = self.node("Gather", "column", &[&rows, &column]);
            if let Some(node) = self.nodes.last_mut() {
                node.attributes.push(NewAttribute::int("axis", 1));
            }
            let column = self.node("Reshape", "row", &[&column, &flat]);
            numbers.push(self.node(reduce, "number", &[&column]));
        }
        self.number += 1;
        self.concat("numbers", &numbers.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn floats(&mut self, name: &str, values: &[f32], is_row: bool) -> String {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let shape = if is_row { vec![1, values.len()] } else { vec![values.len()] };
        self.constant(name, DataType::Float, &bytes, shape)
    }

    /// Before opset 9, a Constant is of floats alone.
    fn integers(&mut self, name: &str, values: &[i16]) -> String {
        if self.opset >= SELECTS {
            let bytes: Vec<u8> = values.iter().flat_map(|&value| i64::from(value).to_le_bytes()).collect();
            return self.constant(name, DataType::Int64, &bytes, vec![values.len()]);
        }
        let values: Vec<f32> = values.iter().map(|&value| value.into()).collect();
        let float = self.floats(&format!("{name}_float"), &values, false);
        let name = self.names.fresh(format!("onnx_cast_record_{name}"));
        self.constants.push(NewNode::cast(name.clone(), float, name.clone(), DataType::Int64, self.opset));
        name
    }

    fn constant(&mut self, name: &str, data_type: DataType, bytes: &[u8], shape: Vec<usize>) -> String {
        let len = shape.iter().product();
        let content = Content::Elements(CastElements::new(ElementSource::Owned(bytes.into()), data_type, len));
        let value = Some(NewTensor { message: None, name: None, shape, home: Home::Model, content });
        let name = self.names.fresh(format!("onnx_cast_record_{name}"));
        self.constants.push(NewNode { value, ..NewNode::new("Constant", name.clone(), Vec::new(), name.clone()) });
        name
    }

    /// Adds the nodes of a value; returns what has its numbers.
    pub(super) fn value(&mut self, name: &str, data_type: DataType) -> String {
        let Shared { flat, count, zero, nan, infinity, negative_infinity, .. } = self.shared.clone();
        let float = match data_type {
            DataType::Float => name.to_owned(),
            _ => self.cast("float", name, DataType::Float),
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
        let numbers = self.concat("numbers", &[&magnitude, &tiny, &largest, &least, &nans]);
        self.number += 1;
        numbers
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

    /// As [`Names::fresh`].
    pub(super) fn fresh(&mut self, name: &str) -> String {
        self.names.fresh(name.to_owned())
    }

    /// A name that nothing has.
    pub(super) fn name(&mut self, name: &str) -> String {
        self.names.fresh(format!("onnx_cast_record_{}_{name}", self.number))
    }

    pub(super) fn node(&mut self, op_type: &str, name: &str, inputs: &[&str]) -> String {
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
