//! A node's attributes in the form that the operators read. The owner of the node (a protobuf reader, a runtime's
//! graph) lends them in this form.

use super::{OpError, OpErrorKind, Operator};
use alloc::borrow::ToOwned;
use alloc::string::String;

/// One attribute of an ONNX node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attribute<'a> {
    /// The attribute's name.
    pub name: &'a str,
    /// The attribute's value.
    pub value: AttributeValue<'a>,
}

/// The value of an attribute. The operators read INT and STRING; any other kind is an error that names the attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AttributeValue<'a> {
    /// INT.
    Int(i64),
    /// STRING.
    String(&'a [u8]),
    /// Any other kind.
    Other,
}

/// The attributes of one node, checked against those that the operator's version defines.
pub(super) struct Attributes<'a> {
    operator: Operator,
    version: i64,
    list: &'a [Attribute<'a>],
}

impl<'a> Attributes<'a> {
    pub(super) fn new(operator: Operator, version: i64, list: &'a [Attribute<'a>]) -> Result<Self, OpError> {
        for (i, attribute) in list.iter().enumerate() {
            operator.check_attribute(version, attribute.name)?;
            if list[..i].iter().any(|earlier| earlier.name == attribute.name) {
                return Err(OpErrorKind::DuplicateAttribute { operator, name: attribute.name.to_owned() }.into());
            }
        }
        Ok(Attributes { operator, version, list })
    }

    pub(super) fn int(&self, name: &'static str) -> Result<Option<i64>, OpError> {
        self.find(name, "INT", |value| match value {
            AttributeValue::Int(value) => Some(value),
            _ => None,
        })
    }

    pub(super) fn string(&self, name: &'static str) -> Result<Option<String>, OpError> {
        let bytes = self.find(name, "STRING", |value| match value {
            AttributeValue::String(value) => Some(value),
            _ => None,
        })?;
        Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    fn find<T>(
        &self,
        name: &'static str,
        want: &'static str,
        take: impl Fn(AttributeValue<'a>) -> Option<T>,
    ) -> Result<Option<T>, OpError> {
        let Some(attribute) = self.list.iter().find(|attribute| attribute.name == name) else { return Ok(None) };
        let wrong_kind = OpErrorKind::AttributeKind { operator: self.operator, version: self.version, name, want };
        Ok(Some(take(attribute.value).ok_or(wrong_kind)?))
    }
}
