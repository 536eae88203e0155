//! A node of a graph: its operator, its attributes and the types of its values, and the plan that these resolve to.

use super::abi::GraphNode;
use super::host::{Host, NamedValue, OwnedAttribute};
use crate::api::Failure;
use onnx_cast::ops::{Attribute, AttributeValue, Role};
use onnx_cast::ops::{OpError, Operator};
use onnx_cast::scaled::{DequantizeLinear, DynamicQuantizeLinear, QuantizeLinear, QuantizeOptions, ScaledPlan};
use onnx_cast::{BitCast, Cast, CastLike, DataType, Plan};

/// A node.
pub(crate) struct Node {
    pub(crate) operator: Operator,
    /// The version of the operator, which is the opset that the operator is made for.
    pub(crate) version: i64,
    pub(crate) attributes: Vec<(String, OwnedAttribute)>,
    /// `None` where an optional input is missing.
    pub(crate) inputs: Vec<Option<NamedValue>>,
    pub(crate) outputs: Vec<Option<NamedValue>>,
}

/// What runs a node.
#[derive(Clone, Copy)]
pub(crate) enum Resolved {
    Cast(Plan),
    /// QuantizeLinear or DequantizeLinear.
    Scaled(ScaledPlan),
    /// DynamicQuantizeLinear, and the QuantizeLinear that it ends with.
    Dynamic(DynamicQuantizeLinear, ScaledPlan),
}

impl Node {
    /// A node of ONNX's own domain with one of our operators; `None` for any other.
    ///
    /// # Safety
    /// The pointer is onnxruntime's.
    pub(crate) unsafe fn read(host: Host, node: *const GraphNode) -> Result<Option<Node>, Failure> {
        // SAFETY: promised.
        unsafe {
            let (name, domain, version) = host.operator(node)?;
            let operator = Operator::ALL.iter().copied().find(|operator| operator.name() == name);
            let Some(operator) = operator.filter(|_| domain.is_empty() || domain == "ai.onnx") else {
                return Ok(None);
            };
            let (inputs, outputs) = (host.inputs(node)?, host.outputs(node)?);
            Ok(Some(Node { operator, version, attributes: host.attributes(node)?, inputs, outputs }))
        }
    }

    /// The type of an input; `None` where it is missing or not known.
    pub(crate) fn input_type(&self, index: usize) -> Option<DataType> {
        self.inputs.get(index)?.as_ref()?.data_type
    }

    /// The type of the first output.
    pub(crate) fn output_type(&self) -> Option<DataType> {
        self.outputs.first()?.as_ref()?.data_type
    }

    /// The attribute of a name.
    pub(crate) fn attribute(&self, name: &str) -> Option<&OwnedAttribute> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// An attribute of kind INT.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        match self.attribute(name) {
            Some(OwnedAttribute::Int(value)) => Some(*value),
            _ => None,
        }
    }

    /// What runs the node; `None` if the library does not support it, or if types are not known.
    pub(crate) fn resolve(&self) -> Option<Resolved> {
        let from = self.input_type(0)?;
        // An input that is present has a type.
        let zero_point = match self.inputs.get(2) {
            Some(Some(value)) => Some(value.data_type?),
            _ => None,
        };
        let resolved = self.plan(from, self.input_type(1), zero_point).ok()??;
        let to = match &resolved {
            Resolved::Cast(plan) => plan.target_type(),
            Resolved::Scaled(plan) | Resolved::Dynamic(_, plan) => plan.target_type(),
        };
        (self.output_type() == Some(to)).then_some(resolved)
    }

    fn plan(
        &self,
        from: DataType,
        second: Option<DataType>,
        zero_point: Option<DataType>,
    ) -> Result<Option<Resolved>, OpError> {
        let attributes: Vec<Attribute<'_>> =
            self.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
        let version = self.version;
        Ok(Some(match (self.operator, second) {
            (Operator::Cast, _) => Resolved::Cast(Cast::from_node(version, &attributes)?.with_threads(1).plan(from)?),
            (Operator::CastLike, Some(like)) => {
                Resolved::Cast(CastLike::from_node(version, &attributes)?.with_threads(1).plan(from, like)?)
            }
            (Operator::BitCast, _) => Resolved::Cast(BitCast::from_node(version, &attributes)?.plan(from)?),
            (Operator::QuantizeLinear, Some(scale)) => {
                Resolved::Scaled(QuantizeLinear::from_node(version, &attributes)?.plan(from, scale, zero_point)?)
            }
            (Operator::DequantizeLinear, Some(scale)) => {
                Resolved::Scaled(DequantizeLinear::from_node(version, &attributes)?.plan(from, scale, zero_point)?)
            }
            (Operator::DynamicQuantizeLinear, _) => {
                let operator = DynamicQuantizeLinear::from_node(version, &attributes)?;
                let quantize = QuantizeLinear::new(&QuantizeOptions::new())?;
                let plan = quantize.plan(from, DataType::Float, Some(DataType::Uint8))?;
                if self.operator.since_as(Role::Values, from).is_none() {
                    return Ok(None);
                }
                Resolved::Dynamic(operator, plan)
            }
            _ => return Ok(None),
        }))
    }
}

fn attribute<'a>(name: &'a str, value: &'a OwnedAttribute) -> Attribute<'a> {
    let value = match value {
        OwnedAttribute::Int(value) => AttributeValue::Int(*value),
        OwnedAttribute::String(text) => AttributeValue::String(text),
        OwnedAttribute::Other => AttributeValue::Other,
    };
    Attribute { name, value }
}
