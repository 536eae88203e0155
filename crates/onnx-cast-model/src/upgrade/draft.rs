//! A node that is being rewritten, step by step, until it is written down as an edit.

use super::callers::{self, Callers};
use crate::edits::{NewAttribute, NewNode, NodeEdit};
use crate::messages::attribute::{self, kind};
use crate::tree::{Graph, Node};
use onnx_cast::DataType;
use onnx_cast::ops::{self, AttributeValue};
use onnx_cast_file::__private::Short;
use onnx_cast_file::__private::wire::{self, FieldValue, WireError, last};
use std::borrow::Cow;

/// What an adapter has done; `None` where it found nothing to do.
pub(super) type Done = Option<&'static str>;

/// Why a node cannot be rewritten, in words that go on after `version N`.
pub(super) type Refusal = String;

/// What an attribute holds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Given<T> {
    /// The node does not have it.
    Absent,
    Value(T),
    /// It refers to this attribute of the enclosing function.
    Refers(String),
}

impl<T> Given<T> {
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Given<U> {
        match self {
            Given::Absent => Given::Absent,
            Given::Value(value) => Given::Value(change(value)),
            Given::Refers(to) => Given::Refers(to),
        }
    }

    /// The value, where there has to be one here. `None` where the node does not have the attribute.
    pub(super) fn known(self, name: &str) -> Result<Option<T>, Refusal> {
        match self {
            Given::Absent => Ok(None),
            Given::Value(value) => Ok(Some(value)),
            Given::Refers(to) => {
                Err(format!("its attribute `{name}` refers to `{}` of the enclosing function", Short(&to)))
            }
        }
    }
}

/// What a constant holds: type, shape and bytes.
pub(super) type Held = (DataType, Vec<usize>, Vec<u8>);

/// What an attribute holds, and what the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A list of integers. An empty one counts as none.
    Ints,
    /// An integer, which becomes a list of one.
    ListOfInt,
    Int,
    Floats,
    Float,
    /// A float, which becomes a number of the type of the first input.
    LikeFirst,
}

impl Kind {
    /// Reads an attribute: the type, shape and bytes of what it holds.
    pub(super) fn read(self, draft: &Draft<'_, '_>, name: &str) -> Result<Given<Held>, Refusal> {
        let list =
            |len: usize| if matches!(self, Kind::Int | Kind::Float | Kind::LikeFirst) { vec![] } else { vec![len] };
        let ints = |values: Vec<i64>| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            (DataType::Int64, list(values.len()), bytes)
        };
        let floats = |values: Vec<f32>| {
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            (DataType::Float, list(values.len()), bytes)
        };
        Ok(match self {
            Kind::Ints => draft.ints(name)?.map(ints),
            Kind::ListOfInt | Kind::Int => draft.int(name)?.map(|value| ints(vec![value])),
            Kind::Floats => draft.floats(name)?.map(floats),
            Kind::Float | Kind::LikeFirst => draft.float(name)?.map(|value| floats(vec![value])),
        })
    }

    /// The attribute of a Constant that holds the same, and its kind.
    pub(super) fn of_constant(self) -> (&'static str, u64) {
        match self {
            Kind::Ints => ("value_ints", kind::INTS),
            Kind::ListOfInt | Kind::Int => ("value_int", kind::INT),
            Kind::Floats => ("value_floats", kind::FLOATS),
            Kind::Float | Kind::LikeFirst => ("value_float", kind::FLOAT),
        }
    }
}

/// An attribute as it is now.
#[derive(Debug)]
struct Slot<'a> {
    name: Cow<'a, str>,
    /// The AttributeProto.
    message: Cow<'a, [u8]>,
    kind: u64,
    refers: bool,
    /// Its place in the node, if it is one of those that the node had.
    place: Option<usize>,
}

impl Slot<'_> {
    /// The attribute of the function around that it stands for.
    fn referred(&self) -> Option<String> {
        let name =
            last(&self.message, attribute::REF_ATTR_NAME, FieldValue::bytes).ok().flatten().filter(|_| self.refers)?;
        Some(String::from_utf8_lossy(name).into_owned())
    }

    fn value(&self) -> AttributeValue<'_> {
        match self.kind {
            _ if self.refers => AttributeValue::Other,
            kind::INT => {
                AttributeValue::Int(last(&self.message, attribute::I, FieldValue::int).ok().flatten().unwrap_or(0))
            }
            kind::STRING => {
                let bytes = last(&self.message, attribute::S, FieldValue::bytes).ok().flatten();
                AttributeValue::String(bytes.unwrap_or_default())
            }
            _ => AttributeValue::Other,
        }
    }
}

/// A node that is being rewritten.
#[derive(Debug)]
pub(super) struct Draft<'t, 'a> {
    /// The node as it was.
    pub(super) node: &'t Node<'a>,
    pub(super) op_type: &'a str,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    slots: Vec<Slot<'a>>,
    pub(super) before: Vec<NewNode<'a>>,
    pub(super) after: Vec<NewNode<'a>>,
}

impl<'t, 'a> Draft<'t, 'a> {
    pub(super) fn new(node: &'t Node<'a>) -> Self {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        let slots = node.attributes.iter().enumerate().map(|(place, attribute)| Slot {
            name: Cow::Borrowed(attribute.name),
            message: Cow::Borrowed(attribute.message),
            kind: attribute.kind,
            refers: attribute.refers,
            place: Some(place),
        });
        Draft {
            node,
            op_type: node.op_type,
            inputs: owned(&node.inputs),
            outputs: owned(&node.outputs),
            slots: slots.collect(),
            before: Vec::new(),
            after: Vec::new(),
        }
    }

    /// The node with the values of the attributes that stand for those of the function around, where all of its calls
    /// give the same.
    pub(super) fn resolved(mut self, callers: &Callers<'_, 'a>, function: &Graph<'a>) -> Self {
        self.slots.retain_mut(|slot| {
            let Some(to) = slot.referred() else { return true };
            match callers.agreed(function, &to) {
                Some(Some(message)) => {
                    slot.message = Cow::Owned(callers::renamed(message, &slot.name));
                    slot.refers = false;
                    true
                }
                Some(None) => false,
                None => true,
            }
        });
        self
    }

    /// The name of an input, unless it is left out.
    pub(super) fn input(&self, place: usize) -> Option<&str> {
        self.inputs.get(place).map(String::as_str).filter(|name| !name.is_empty())
    }

    /// The name of an input that the operator cannot do without.
    pub(super) fn required(&self, place: usize) -> Result<String, Refusal> {
        self.input(place).map(str::to_owned).ok_or_else(|| format!("its input {place} is missing"))
    }

    /// The name of the first output.
    pub(super) fn output(&self) -> Result<String, Refusal> {
        let name = self.outputs.first().filter(|name| !name.is_empty());
        name.cloned().ok_or_else(|| "its output is missing".to_owned())
    }

    /// Sets an input; those between are left out.
    pub(super) fn set_input(&mut self, place: usize, name: String) {
        if self.inputs.len() <= place {
            self.inputs.resize(place + 1, String::new());
        }
        self.inputs[place] = name;
    }

    /// Whether only the first output is there.
    pub(super) fn has_one_output(&self) -> bool {
        self.outputs.iter().skip(1).all(String::is_empty)
    }

    fn slot(&self, name: &str) -> Option<&Slot<'a>> {
        self.slots.iter().find(|slot| slot.name == name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.slot(name).is_some()
    }

    /// Whether an attribute refers to one of the enclosing function.
    pub(super) fn refers(&self) -> bool {
        self.slots.iter().any(|slot| slot.refers)
    }

    /// The attributes as the library's operators want them.
    pub(super) fn lend(&self) -> Vec<ops::Attribute<'_>> {
        self.slots.iter().map(|slot| ops::Attribute { name: &slot.name, value: slot.value() }).collect()
    }

    /// Reads an attribute that has to be of a kind.
    fn read<T>(
        &self,
        name: &str,
        want: (u64, &str),
        value: impl FnOnce(&[u8]) -> Result<T, WireError>,
    ) -> Result<Given<T>, Refusal> {
        let Some(slot) = self.slot(name) else { return Ok(Given::Absent) };
        let wrong = |error: WireError| format!("its attribute `{name}`: {error}");
        if slot.refers {
            return Ok(Given::Refers(slot.referred().unwrap_or_default()));
        }
        if slot.kind != want.0 {
            return Err(format!("its attribute `{name}` is not {}", want.1));
        }
        value(&slot.message).map(Given::Value).map_err(wrong)
    }

    // A field that is not there has the value 0, or no bytes.
    pub(super) fn int(&self, name: &str) -> Result<Given<i64>, Refusal> {
        let value = |message: &[u8]| Ok(last(message, attribute::I, FieldValue::int)?.unwrap_or(0));
        self.read(name, (kind::INT, "an integer"), value)
    }

    pub(super) fn float(&self, name: &str) -> Result<Given<f32>, Refusal> {
        let value =
            |message: &[u8]| Ok(f32::from_le_bytes(last(message, attribute::F, FieldValue::word)?.unwrap_or([0; 4])));
        self.read(name, (kind::FLOAT, "a float"), value)
    }

    pub(super) fn string(&self, name: &str) -> Result<Given<String>, Refusal> {
        let value = |message: &[u8]| {
            let bytes = last(message, attribute::S, FieldValue::bytes)?.unwrap_or_default();
            Ok(String::from_utf8_lossy(bytes).into_owned())
        };
        self.read(name, (kind::STRING, "a string"), value)
    }

    pub(super) fn ints(&self, name: &str) -> Result<Given<Vec<i64>>, Refusal> {
        let value =
            |message: &[u8]| wire::varints(message, attribute::INTS).map(|one| one.map(|one| one as i64)).collect();
        self.read(name, (kind::INTS, "a list of integers"), value)
    }

    pub(super) fn floats(&self, name: &str) -> Result<Given<Vec<f32>>, Refusal> {
        let value = |message: &[u8]| {
            wire::fixed32s(message, attribute::FLOATS).map(|one| one.map(f32::from_le_bytes)).collect()
        };
        self.read(name, (kind::FLOATS, "a list of floats"), value)
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.slots.retain(|slot| slot.name != name);
    }

    /// Sets an attribute, instead of one of its name if there is one.
    pub(super) fn set(&mut self, name: &'static str, kind: u64, new: NewAttribute) {
        let place = self.slot(name).and_then(|slot| slot.place);
        self.remove(name);
        let message = Cow::Owned(new.0);
        self.slots.push(Slot { name: Cow::Borrowed(name), message, kind, refers: false, place });
    }

    pub(super) fn set_int(&mut self, name: &'static str, value: i64) {
        self.set(name, kind::INT, NewAttribute::int(name, value));
    }

    pub(super) fn set_string(&mut self, name: &'static str, value: &str) {
        self.set(name, kind::STRING, NewAttribute::string(name, value));
    }

    /// Writes the node down.
    pub(super) fn write(self, edit: &mut NodeEdit<'a>) {
        if self.op_type != self.node.op_type {
            edit.op_type = Some(self.op_type.to_owned());
        }
        edit.input_count = Some(self.inputs.len()).filter(|&count| count < self.node.inputs.len());
        for (place, name) in self.inputs.into_iter().enumerate() {
            if self.node.inputs.get(place).is_none_or(|old| *old != name) {
                edit.inputs.insert(place, name);
            }
        }
        for (place, name) in self.outputs.into_iter().enumerate() {
            if self.node.outputs.get(place).is_none_or(|old| *old != name) {
                edit.outputs.insert(place, name);
            }
        }
        let mut gone: Vec<bool> = vec![true; self.node.attributes.len()];
        for Slot { message, place, .. } in self.slots {
            if let Some(kept) = place.and_then(|place| gone.get_mut(place)) {
                *kept = false;
            }
            match (message, place) {
                (Cow::Borrowed(_), _) => {}
                (Cow::Owned(new), Some(place)) => drop(edit.attributes.insert(place, Some(NewAttribute(new)))),
                (Cow::Owned(new), None) => edit.added_attributes.push(NewAttribute(new)),
            }
        }
        edit.attributes.extend(gone.into_iter().enumerate().filter(|(_, gone)| *gone).map(|(place, _)| (place, None)));
        edit.before.extend(self.before);
        // What is there already, as a Cast of another edit, stands behind these: it may read what they give.
        edit.after.splice(0..0, self.after);
    }
}
