//! What an operator gives: by its schema, where inputs bind the type variables of outputs, and where they do not, by
//! attributes and by what the operators' texts say.

use super::calls::{Attributes, Functions};
use super::schemas::{FormalType, Schema};
use super::value::ValueType;
use crate::messages::{attribute, sparse};
use crate::operators::{Gives, Traits, TypeSource};
use crate::tree::{Attribute, Node, is_default, utf8};
use DataType::{Float, Int32, Int64, Uint8, Uint32};
use attribute::kind;
use onnx_cast::DataType;
use onnx_cast_file::__private::onnx::tensor;
use onnx_cast_file::__private::wire::{FieldValue, all_bytes, last};

/// A node of a known operator, and the types of what it reads.
pub(super) struct Site<'s, 't, 'a> {
    pub(super) node: &'t Node<'a>,
    pub(super) traits: &'static Traits,
    pub(super) schema: &'static Schema,
    /// By place; none where an input is left out or of unknown type.
    pub(super) inputs: Vec<Option<&'s ValueType>>,
    pub(super) functions: &'s Functions<'t, 'a>,
    pub(super) attributes: &'s Attributes<'t, 'a>,
}

impl<'s, 't, 'a> Site<'s, 't, 'a> {
    /// The types of the outputs, as many as the node has.
    pub(super) fn outputs(&self) -> Vec<Option<ValueType>> {
        let bound = self.bound();
        (0..self.node.outputs.len()).map(|place| self.output(place, &bound)).collect()
    }

    /// The types that the inputs bind, by variable.
    fn bound(&self) -> Vec<Option<&'s ValueType>> {
        let mut bound = vec![None; self.schema.variables.len()];
        for (place, input) in self.inputs.iter().enumerate() {
            if let (Some(of_type), Some(variable)) = (input, self.schema.input(place).and_then(|one| one.variable())) {
                bound[variable].get_or_insert(*of_type);
            }
        }
        bound
    }

    fn output(&self, place: usize, bound: &[Option<&ValueType>]) -> Option<ValueType> {
        let formal = self.schema.output(place)?;
        if let FormalType::Fixed(of_type) = &formal.of_type {
            return Some(of_type.clone());
        }
        let variable = formal.variable();
        if let Some(of_type) = variable.and_then(|variable| bound[variable]) {
            return Some(match of_type {
                ValueType::Sparse(data_type) => ValueType::Tensor(*data_type),
                of_type => of_type.clone(),
            });
        }
        self.unbound(place).or_else(|| self.schema.variables[variable?].allowed.only_tensor().map(ValueType::Tensor))
    }

    /// An output whose type no input binds.
    fn unbound(&self, place: usize) -> Option<ValueType> {
        let own = match self.node.domain {
            domain if is_default(domain) => self.of_onnx(),
            "ai.onnx.ml" => self.of_ml(),
            "com.microsoft" => self.of_runtime(place).map(ValueType::Tensor),
            _ => None,
        };
        let of_source = |source: &TypeSource| match *source {
            TypeSource::Attribute(name) => self.type_number(name),
            TypeSource::Input(place) => self.tensor(place),
            TypeSource::Type(data_type) => Some(data_type),
        };
        let told = || self.traits.types.iter().find_map(of_source).map(ValueType::Tensor);
        own.or_else(told).or_else(|| match (self.traits.gives?, self.input(0)?) {
            (Gives::Sequence, one) => one.clone().sequence(),
            (Gives::Element, one) => one.element().cloned(),
            (Gives::Optional, one) => one.clone().optional(),
            (Gives::Present, one) => Some(one.present().clone()),
        })
    }

    fn of_onnx(&self) -> Option<ValueType> {
        match self.node.op_type {
            "Constant" => self.constant(),
            "ConstantOfShape" => Some(self.value("value").map_or(Some(Float), tensor_type)?.into()),
            "SequenceEmpty" => ValueType::from(self.type_number("dtype").unwrap_or(Float)).sequence(),
            "Optional" => {
                ValueType::from_message(last(self.value("type")?.message, attribute::TP, FieldValue::bytes).ok()??)?
                    .optional()
            }
            _ => None,
        }
    }

    /// The type of a Constant, by which of its attributes is there.
    fn constant(&self) -> Option<ValueType> {
        self.node.attributes.iter().find_map(|one| {
            let value = self.functions.meaning(one, self.attributes)?;
            Some(match one.name {
                "value" => tensor_type(value)?.into(),
                "sparse_value" => {
                    let message = last(value.message, attribute::SPARSE_TENSOR, FieldValue::bytes).ok()??;
                    let values = last(message, sparse::VALUES, FieldValue::bytes).ok()??;
                    // What the node gives is dense.
                    data_type_of(values)?.into()
                }
                "value_float" | "value_floats" => Float.into(),
                "value_int" | "value_ints" => Int64.into(),
                "value_string" | "value_strings" => DataType::String.into(),
                _ => return None,
            })
        })
    }

    fn of_ml(&self) -> Option<ValueType> {
        let labels = || if self.has_strings("classlabels_strings") { DataType::String } else { Int64 };
        let opposite = || match self.tensor(0)? {
            DataType::String => Some(Int64),
            Int64 => Some(DataType::String),
            _ => None,
        };
        Some(match self.node.op_type {
            "CategoryMapper" => opposite()?.into(),
            "DictVectorizer" => match self.input(0)? {
                ValueType::Map(_, value) => (**value).clone(),
                _ => return None,
            },
            "LabelEncoder" if self.schema.since == 1 => opposite()?.into(),
            "LabelEncoder" => self.label_encoder()?.into(),
            "LinearClassifier" | "SVMClassifier" | "TreeEnsembleClassifier" => labels().into(),
            "ZipMap" => ValueType::Map(labels(), Box::new(Float.into())).sequence()?,
            _ => return None,
        })
    }

    /// The type of the values that labels are encoded as.
    fn label_encoder(&self) -> Option<DataType> {
        if let Some(values) = self.value("values_tensor") {
            return tensor_type(values);
        }
        let lists = [("values_strings", DataType::String), ("values_int64s", Int64), ("values_floats", Float)];
        lists.into_iter().find_map(|(name, data_type)| self.value(name).map(|_| data_type))
    }

    /// Operators of com.microsoft, by onnxruntime's sources.
    fn of_runtime(&self, place: usize) -> Option<DataType> {
        match self.node.op_type {
            "MurmurHash3" => Some(if self.int("positive") == Some(0) { Int32 } else { Uint32 }),
            "ReduceSumInteger" => Some(if self.tensor(0)? == Uint8 { Uint32 } else { Int32 }),
            "BeamSearch" | "WhisperBeamSearch" | "Sampling" if place > 0 => Some(Float),
            _ => None,
        }
    }

    fn input(&self, place: usize) -> Option<&'s ValueType> {
        self.inputs.get(place).copied().flatten()
    }

    fn tensor(&self, place: usize) -> Option<DataType> {
        self.input(place)?.tensor()
    }

    /// An attribute of the node, or of the function around that it stands for.
    fn value(&self, name: &str) -> Option<&'t Attribute<'a>> {
        self.functions.meaning(self.node.attribute(name)?, self.attributes)
    }

    fn int(&self, name: &str) -> Option<i64> {
        last(self.value(name)?.message, attribute::I, FieldValue::int).ok().flatten()
    }

    /// The type that an attribute tells by its number. Cast-1 and CastMap tell it by its name.
    fn type_number(&self, name: &str) -> Option<DataType> {
        let value = self.value(name)?;
        if value.kind != kind::STRING {
            return self.int(name).and_then(DataType::from_onnx);
        }
        let text = last(value.message, attribute::S, FieldValue::bytes).ok().flatten()?;
        match text {
            b"TO_FLOAT" => Some(Float),
            b"TO_INT64" => Some(Int64),
            b"TO_STRING" => Some(DataType::String),
            text => utf8(text).ok()?.parse().ok(),
        }
    }

    fn has_strings(&self, name: &str) -> bool {
        self.value(name).is_some_and(|one| all_bytes(one.message, attribute::STRINGS).next().is_some())
    }
}

/// The type of the tensor that an attribute holds.
fn tensor_type(value: &Attribute<'_>) -> Option<DataType> {
    data_type_of(last(value.message, attribute::T, FieldValue::bytes).ok()??)
}

/// The type that a TensorProto tells.
pub(super) fn data_type_of(message: &[u8]) -> Option<DataType> {
    last(message, tensor::DATA_TYPE, FieldValue::int).ok()?.and_then(DataType::from_onnx)
}
