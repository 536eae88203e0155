//! The constants of a fold, and what Casts make of them.

use crate::constant::Constant;
use crate::edits::{Content, Home, NewTensor};
use crate::graph::values::Id;
use crate::rope::{CastElements, ElementSource};
use crate::tree::Node;
use onnx_cast::scaled::{DequantizeLinear, QuantizeLinear, ScaledPlan};
use onnx_cast::tensor::{Strings, TensorData};
use onnx_cast::{DataType, Plan, Tensor, TensorView};
use onnx_cast_file::__private::onnx::tensor;
use onnx_cast_file::__private::pipeline::{ScaledCast, Step};
use onnx_cast_file::__private::{ParsedData, pb, wire};
use std::sync::Arc;

/// A constant, or the result of a Cast of one.
#[derive(Clone, Debug)]
pub(crate) struct FoldValue<'a> {
    /// The constant of the model that it comes from.
    pub(super) root: Id,
    /// The TensorProto, whose other fields are kept.
    message: Option<&'a [u8]>,
    shape: Arc<[usize]>,
    content: KnownContent<'a>,
}

#[derive(Clone, Debug)]
enum KnownContent<'a> {
    Numbers(CastElements<'a>),
    Strings(Arc<Strings>),
}

/// The most elements of a body that are cast from or to strings, which stand in memory while they are.
pub(super) const MAX_STRINGS: usize = 1 << 20;

/// The most Casts of a constant in a row that are computed, each from the one before. Without a limit, a file of Casts
/// alone would take memory by the square of their number.
const MAX_CHAIN: usize = 64;

impl<'a> FoldValue<'a> {
    pub(crate) fn of(root: Id, constant: Constant<'a>) -> Option<FoldValue<'a>> {
        let Constant { message, shape, elements, len, .. } = constant;
        let content = match (elements, message) {
            (Some(elements), _) => KnownContent::Numbers(elements),
            (None, Some(message)) if len <= MAX_STRINGS => match pb::parse(message).ok()?.data {
                ParsedData::Strings(strings) => KnownContent::Strings(Arc::new(strings)),
                ParsedData::Bytes(_) => return None,
            },
            _ => return None,
        };
        Some(FoldValue { root, message, shape: shape.into(), content })
    }

    pub(super) fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn len(&self) -> usize {
        match &self.content {
            KnownContent::Numbers(elements) => elements.len,
            KnownContent::Strings(strings) => strings.view().len(),
        }
    }

    /// The result of a cast; `None` if it fails, as it then does when the model runs, or is too much. Strings
    /// count against what is `left` for them.
    pub(super) fn then(&self, plan: &Plan, left: &mut usize) -> Option<FoldValue<'a>> {
        if plan.source_type() == DataType::String || plan.target_type() == DataType::String {
            *left = left.checked_sub(self.len())?;
        }
        let content = match &self.content {
            KnownContent::Numbers(elements) if plan.target_type() != DataType::String => {
                KnownContent::Numbers((elements.plans.0.len() < MAX_CHAIN).then(|| elements.then(Step::Cast(*plan)))?)
            }
            KnownContent::Numbers(elements) => {
                let bytes = elements.read()?;
                let mut strings = Strings::new();
                plan.run_strings_into(&TensorView::new(plan.source_type(), &self.shape, &bytes).ok()?, &mut strings)
                    .ok()?;
                KnownContent::Strings(Arc::new(strings))
            }
            KnownContent::Strings(strings) => {
                match plan.run(&TensorView::strings(&self.shape, strings.view()).ok()?).ok()?.into_parts().2 {
                    TensorData::Strings(strings) => KnownContent::Strings(Arc::new(strings)),
                    TensorData::Bytes(bytes) => KnownContent::Numbers(CastElements::new(
                        ElementSource::Owned(bytes.into()),
                        plan.target_type(),
                        self.len(),
                    )),
                    _ => return None,
                }
            }
        };
        Some(FoldValue { content, ..self.clone() })
    }

    /// The result of a QuantizeLinear or DequantizeLinear node of constants.
    pub(crate) fn of_scaled(
        node: &Node<'a>,
        opset: i64,
        x: &FoldValue<'a>,
        scale: &FoldValue<'a>,
        zero_point: Option<&FoldValue<'a>>,
    ) -> Option<FoldValue<'a>> {
        let (from, scale_type) = (x.data_type()?, scale.data_type()?);
        let zero_type = zero_point.map(|known| known.data_type().ok_or(())).transpose().ok()?;
        let attributes = node.lend();
        let plan = match node.op_type {
            "QuantizeLinear" => {
                QuantizeLinear::from_node(opset, &attributes).and_then(|one| one.plan(from, scale_type, zero_type))
            }
            _ => DequantizeLinear::from_node(opset, &attributes).and_then(|one| one.plan(from, scale_type, zero_type)),
        };
        x.scaled(plan.ok()?, scale, zero_point)
    }

    /// The type of numbers.
    pub(crate) fn data_type(&self) -> Option<DataType> {
        self.elements().map(CastElements::data_type)
    }

    pub(crate) fn elements(&self) -> Option<&CastElements<'a>> {
        match &self.content {
            KnownContent::Numbers(elements) => Some(elements),
            KnownContent::Strings(_) => None,
        }
    }

    /// The result of a scaled cast; `None` if it fails, as it then does when the model runs. The scale and the
    /// zero point stand in memory.
    fn scaled(
        &self,
        plan: ScaledPlan,
        scale: &FoldValue<'a>,
        zero_point: Option<&FoldValue<'a>>,
    ) -> Option<FoldValue<'a>> {
        let KnownContent::Numbers(elements) = &self.content else { return None };
        if elements.plans.0.len() >= MAX_CHAIN {
            return None;
        }
        let (scale, shape) = (scale.read()?, self.shape.to_vec());
        let zero_point = zero_point.map(|known| known.read().ok_or(())).transpose().ok()?;
        plan.bind(&shape, &scale.view(), zero_point.as_ref().map(Tensor::view).as_ref()).ok()?;
        let step = Step::Scaled(Arc::new(ScaledCast { plan, shape, scale, zero_point, back: None }));
        Some(FoldValue { content: KnownContent::Numbers(elements.then(step)), ..self.clone() })
    }

    /// The elements of numbers in memory.
    fn read(&self) -> Option<Tensor> {
        let KnownContent::Numbers(elements) = &self.content else { return None };
        Tensor::new(elements.data_type(), self.shape.to_vec(), elements.read()?).ok()
    }

    pub(super) fn tensor(&self, name: Option<&str>) -> NewTensor<'a> {
        let content = match &self.content {
            KnownContent::Numbers(elements) => Content::Elements(elements.clone()),
            KnownContent::Strings(strings) => {
                let mut fields = Vec::new();
                strings.view().iter().for_each(|string| wire::put_bytes(&mut fields, tensor::STRING_DATA, string));
                Content::Strings(fields)
            }
        };
        // Where there is a message, it tells the shape.
        let shape = if self.message.is_some() { Vec::new() } else { self.shape.to_vec() };
        NewTensor { message: self.message, name: name.map(str::to_owned), shape, home: Home::of(self.message), content }
    }
}
