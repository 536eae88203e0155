//! Where a node stands that is rewritten: what is known there, and what may be added.

use super::callers::Callers;
use super::draft::{Draft, Given, Held, Kind, Refusal};
use super::known::At;
use crate::edits::{Content, Home, NewAttribute, NewNode, NewTensor};
use crate::external::Files;
use crate::rope::{CastElements, ElementSource};
use crate::tree::{Document, Graph, Names};
use onnx_cast::{Cast, CastOptions, DataType, Tensor};
use onnx_cast_file::__private::Short;
use std::cell::OnceCell;
use std::collections::HashMap;

/// What all sites of a model share.
pub(super) struct Shared<'a> {
    /// The names of the initializers that are new, by what they hold.
    by_content: HashMap<Held, String>,
    /// New initializers of the main graph.
    pub(super) initializers: Vec<NewTensor<'a>>,
    /// Whether the model mentions a type whose casts changed, found out where it is asked for.
    pub(super) has_changed_casts: OnceCell<bool>,
}

impl Shared<'_> {
    pub(super) fn new() -> Self {
        Shared { by_content: HashMap::new(), initializers: Vec::new(), has_changed_casts: OnceCell::new() }
    }

    /// Takes back the initializers from a place on.
    pub(super) fn forget(&mut self, from: usize) {
        if self.initializers.len() == from {
            return;
        }
        let gone: Vec<_> = self.initializers.drain(from..).filter_map(|tensor| tensor.name).collect();
        self.by_content.retain(|_, name| !gone.contains(name));
    }
}

/// Where a node stands.
pub(super) struct Site<'r, 't, 'a> {
    /// The opset that the model gets.
    pub(super) to: i64,
    /// The version of the operator that the node gets next.
    pub(super) step: i64,
    pub(super) document: &'t Document<'a>,
    pub(super) files: &'a Files<'a>,
    /// The main graph, or the function.
    pub(super) body: &'t Graph<'a>,
    pub(super) callers: &'r Callers<'t, 'a>,
    /// Whether new constants are initializers of the main graph. They are Constants elsewhere.
    pub(super) initializers: bool,
    pub(super) known: At<'r, 't, 'a>,
    pub(super) names: &'r mut Names,
    pub(super) shared: &'r mut Shared<'a>,
}

impl<'a> Site<'_, '_, 'a> {
    /// A name for a value or a node that is new, after what the node gives.
    pub(super) fn fresh(&mut self, draft: &Draft<'_, 'a>, what: &str) -> String {
        let given = draft.node.outputs.iter().find(|name| !name.is_empty());
        self.names.fresh(format!("{}_{what}", given.copied().unwrap_or(draft.node.op_type)))
    }

    /// A node that is new, and the value that it gives.
    pub(super) fn node(
        &mut self,
        draft: &Draft<'_, 'a>,
        op_type: &str,
        what: &str,
        inputs: Vec<String>,
    ) -> (NewNode<'a>, String) {
        let output = self.fresh(draft, what);
        let name = self.names.fresh(format!("{output}_node"));
        (NewNode::new(op_type, name, inputs, output.clone()), output)
    }

    /// A constant, which is an initializer or a node before the one that is rewritten.
    pub(super) fn constant(
        &mut self,
        draft: &mut Draft<'_, 'a>,
        what: &str,
        data_type: DataType,
        shape: Vec<usize>,
        bytes: Vec<u8>,
    ) -> String {
        let len = shape.iter().product();
        let key = (data_type, shape, bytes);
        if let Some(name) = self.shared.by_content.get(&key).filter(|_| self.initializers) {
            return name.clone();
        }
        let name = self.fresh(draft, what);
        let content =
            Content::Elements(CastElements::new(ElementSource::Owned(key.2.as_slice().into()), data_type, len));
        let (shape, home) = (key.1.clone(), Home::Model);
        let tensor = NewTensor { message: None, name: Some(name.clone()), shape, home, content };
        if self.initializers {
            self.shared.by_content.insert(key, name.clone());
            self.shared.initializers.push(tensor);
        } else {
            let node = NewNode::new("Constant", self.names.fresh(format!("{name}_node")), Vec::new(), name.clone());
            draft.before.push(NewNode { value: Some(NewTensor { name: None, ..tensor }), ..node });
        }
        name
    }

    /// A list of integers.
    pub(super) fn int64s(&mut self, draft: &mut Draft<'_, 'a>, what: &str, values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(draft, what, DataType::Int64, vec![values.len()], bytes)
    }

    /// The attribute `name` as an input; `None` if it is absent or an empty list.
    pub(super) fn input(
        &mut self,
        draft: &mut Draft<'_, 'a>,
        name: &'static str,
        kind: Kind,
    ) -> Result<Option<String>, Refusal> {
        let input = match kind.read(draft, name)? {
            Given::Absent => None,
            Given::Value((_, _, bytes)) if kind == Kind::Ints && bytes.is_empty() => None,
            Given::Value((.., bytes)) if kind == Kind::LikeFirst => {
                let number = bytes.first_chunk().map_or(0.0, |bytes| f32::from_le_bytes(*bytes));
                Some(self.number_like(draft, name, number, &draft.required(0)?)?)
            }
            Given::Value((data_type, shape, bytes)) => Some(self.constant(draft, name, data_type, shape, bytes)),
            Given::Refers(to) => {
                let value = self.reference(draft, name, kind.of_constant(), &to)?;
                let first = draft.input(0).unwrap_or_default().to_owned();
                Some(match kind {
                    Kind::LikeFirst if self.known.data_type(&first) != Some(DataType::Float) => {
                        self.cast_like(draft, name, value, &first)?
                    }
                    Kind::ListOfInt => {
                        let one = self.int64s(draft, "one", &[1]);
                        let (node, output) = self.node(draft, "Reshape", &format!("{name}_list"), vec![value, one]);
                        draft.before.push(node);
                        output
                    }
                    _ => value,
                })
            }
        };
        draft.remove(name);
        Ok(input)
    }

    /// A number of the type of a value: of its own type where that is known, else cast like it.
    pub(super) fn number_like(
        &mut self,
        draft: &mut Draft<'_, 'a>,
        what: &str,
        number: f32,
        like: &str,
    ) -> Result<String, Refusal> {
        let Some(to) = self.known.data_type(like) else {
            let float = self.constant(draft, what, DataType::Float, vec![], number.to_le_bytes().to_vec());
            return self.cast_like(draft, what, float, like);
        };
        let wrong = |error: &dyn std::fmt::Display| format!("its {what} as {to}: {error}");
        let float = Tensor::from_slice(Vec::new(), &[number]).map_err(|error| wrong(&error))?;
        let cast = Cast::new(to, &CastOptions::new()).map_err(|error| wrong(&error))?;
        let tensor = cast.run(&float.view()).map_err(|error| wrong(&error))?;
        let bytes = tensor.bytes().ok_or_else(|| wrong(&"no number"))?.to_vec();
        Ok(self.constant(draft, what, to, vec![], bytes))
    }

    /// A value of the type of another, which is not known.
    fn cast_like(
        &mut self,
        draft: &mut Draft<'_, 'a>,
        what: &str,
        value: String,
        like: &str,
    ) -> Result<String, Refusal> {
        if self.to < FIRST_CAST_LIKE {
            return Err(format!("the element type of `{}` is unknown", Short(like)));
        }
        let (node, output) = self.node(draft, "CastLike", &format!("{what}_like"), vec![value, like.to_owned()]);
        draft.before.push(node);
        Ok(output)
    }

    /// A Constant whose value is an attribute of the function around, which every call of it has to give.
    pub(super) fn reference(
        &mut self,
        draft: &mut Draft<'_, 'a>,
        what: &str,
        (attribute, kind): (&str, u64),
        to: &str,
    ) -> Result<String, Refusal> {
        let refuse = |why: &str| {
            Err(format!("its attribute `{what}` refers to `{}` of the enclosing function, {why}", Short(to)))
        };
        if self.to < FIRST_CONSTANT_OF_NUMBERS {
            return refuse("which a Constant can from opset 12 on");
        }
        if !self.callers.always_give(self.body, to) {
            return refuse("which not every call of it gives");
        }
        let (node, output) = self.node(draft, "Constant", what, Vec::new());
        draft.before.push(node.with(NewAttribute::reference(attribute, kind, to)));
        Ok(output)
    }
}

/// The first opset with CastLike.
const FIRST_CAST_LIKE: i64 = 15;
/// The first opset whose Constant may hold `value_int` and `value_ints`.
const FIRST_CONSTANT_OF_NUMBERS: i64 = 12;
