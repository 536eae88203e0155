//! The tensors of a model that is written, and the Constants that hold them.

use super::{Emitter, FieldEdit};
use crate::edits::{Content, Home, NewTensor};
use crate::error::ModelError;
use crate::external::{is_external, tensor_name};
use crate::messages::{attribute, node};
use crate::rope::{CastElements, ElementSource, Rope};
use crate::tree::{Attribute, Node};
use onnx_cast::DataType;
use onnx_cast_file::__private::onnx::tensor;
use onnx_cast_file::__private::pb::{self, Storage};
use onnx_cast_file::__private::wire::Field;
use onnx_cast_file::Invalid;

/// Elements as they stand in a TensorProto.
enum Data<'a> {
    Raw(CastElements<'a>, u64),
    /// Fields that are ready: strings, or where the elements are.
    Fields(Vec<u8>),
}

impl<'a> Data<'a> {
    fn put(self, rope: &mut Rope<'a>) {
        match self {
            Data::Fields(fields) => rope.push(&fields),
            Data::Raw(elements, len) => rope.put_elements(tensor::RAW_DATA, elements, len),
        }
    }
}

impl<'a> Emitter<'a, '_> {
    /// A Constant in place of another node, whose name and remarks it keeps.
    pub(super) fn constant(
        &mut self,
        old: &Node<'a>,
        output: &str,
        value: &NewTensor<'a>,
    ) -> Result<Rope<'a>, ModelError> {
        let mut rope = self.rope();
        rope.put_bytes(node::OUTPUT, output.as_bytes());
        if !old.name.is_empty() {
            rope.put_bytes(node::NAME, old.name.as_bytes());
        }
        rope.put_bytes(node::OP_TYPE, b"Constant");
        rope.put(node::ATTRIBUTE, self.value_attribute(value)?);
        Ok(rope)
    }

    /// The attribute `value` of a Constant.
    pub(super) fn value_attribute(&mut self, value: &NewTensor<'a>) -> Result<Rope<'a>, ModelError> {
        let mut attribute = self.rope();
        attribute.put_bytes(attribute::NAME, b"value");
        attribute.put(attribute::T, self.tensor(value)?);
        attribute.put_int(attribute::TYPE, attribute::kind::TENSOR);
        Ok(attribute)
    }

    /// The attribute `value` of a Constant, in place of whatever said its value.
    pub(super) fn value(&mut self, old: &Attribute<'a>, value: &NewTensor<'a>) -> Result<Rope<'a>, ModelError> {
        use attribute::{F, FLOATS, I, INTS, NAME, S, STRINGS, T, TYPE};
        let mut value = Some(self.tensor(value)?);
        let (rope, _) = self.walk(self.rope(), old.message, |_, rope, field| {
            match field.number {
                NAME => rope.put_bytes(NAME, b"value"),
                F | I | S | T | FLOATS | INTS | STRINGS | TYPE => {
                    if let Some(value) = value.take() {
                        rope.put(T, value);
                        rope.put_int(TYPE, attribute::kind::TENSOR);
                    }
                }
                _ => return Ok(FieldEdit::Kept),
            }
            Ok(FieldEdit::Gone)
        })?;
        Ok(rope)
    }

    /// A tensor that is not edited, which may have to move into or out of the file of external data.
    pub(super) fn kept(&mut self, message: &'a [u8], in_place: bool) -> Result<Option<Rope<'a>>, ModelError> {
        if self.layout.refers && !is_raw(message) {
            return Ok(None);
        }
        if !is_external(message) {
            // What is not understood stays as it is.
            let large = |head: pb::TensorHead<'_>| {
                let len = head.data_type.byte_len(head.len)? as u64;
                Some(!in_place && self.layout.takes(len, false))
            };
            if !pb::head(message).ok().and_then(large).unwrap_or(false) {
                return Ok(None);
            }
        }
        let Some(elements) = self.files.elements(message)? else { return Ok(None) };
        let (home, content) = (Home::Like(message), Content::Elements(elements));
        let new = NewTensor { message: Some(message), name: None, shape: vec![], home, content };
        self.tensor(&new).map(Some)
    }

    pub(super) fn tensor(&mut self, new: &NewTensor<'a>) -> Result<Rope<'a>, ModelError> {
        let (data_type, data) = self.data(new)?;
        let put_name = |rope: &mut Rope<'a>, name: &str| rope.put_bytes(tensor::NAME, name.as_bytes());
        let Some(message) = new.message else {
            let mut rope = self.rope();
            new.shape.iter().for_each(|&dim| rope.put_int(tensor::DIMS, dim as u64));
            rope.put_int(tensor::DATA_TYPE, data_type.onnx() as u64);
            new.name.iter().for_each(|name| put_name(&mut rope, name));
            data.put(&mut rope);
            return Ok(rope);
        };
        let (mut name, mut data, mut typed) = (new.name.as_deref(), Some(data), false);
        let (mut rope, _) = self.walk(self.rope(), message, |_, rope, field| {
            match field.number {
                tensor::DATA_TYPE if !typed => {
                    rope.put_int(tensor::DATA_TYPE, data_type.onnx() as u64);
                    typed = true;
                }
                tensor::DATA_TYPE => {}
                tensor::NAME if new.name.is_some() => name.take().into_iter().for_each(|name| put_name(rope, name)),
                number if is_elements(number) => data.take().into_iter().for_each(|data| data.put(rope)),
                _ => return Ok(FieldEdit::Kept),
            }
            Ok(FieldEdit::Gone)
        })?;
        name.iter().for_each(|name| put_name(&mut rope, name));
        data.into_iter().for_each(|data| data.put(&mut rope));
        Ok(rope)
    }

    /// The type of a new tensor, and its elements, which may have got a place in the file of external data.
    fn data(&mut self, new: &NewTensor<'a>) -> Result<(DataType, Data<'a>), ModelError> {
        let elements = match &new.content {
            Content::Strings(strings) => return Ok((DataType::String, Data::Fields(strings.clone()))),
            Content::Elements(elements) => elements,
        };
        let data_type = elements.data_type();
        let too_large = || {
            let tensor = new.name.clone().unwrap_or_else(|| new.message.map(tensor_name).unwrap_or_default());
            let error = Invalid::too_large(data_type, &new.shape).of_tensor(&tensor);
            ModelError::tensor("constant", error)
        };
        let len = elements.byte_len().ok_or_else(too_large)?;
        let in_model = matches!(elements.stored, ElementSource::Model(..)) && elements.plans.0.is_empty();
        let takes = self.layout.takes(len, new.home.is_external(len)) && (in_model || !self.layout.refers);
        let data = if takes {
            Data::Fields(self.layout.put(elements.clone(), len).ok_or_else(too_large)?)
        } else {
            Data::Raw(elements.clone(), len)
        };
        Ok((data_type, data))
    }
}

/// Whether a TensorProto has its elements in `raw_data`.
fn is_raw(message: &[u8]) -> bool {
    let Ok(head) = pb::head(message) else { return false };
    let raw = |field: Option<Field<'_>>| field.is_some_and(|field| field.number == tensor::RAW_DATA);
    !head.external && matches!(head.storage(), Ok(Storage::Bytes(field)) if raw(field))
}

fn is_elements(number: u32) -> bool {
    pb::is_storage(number) || matches!(number, tensor::EXTERNAL_DATA | tensor::DATA_LOCATION)
}
