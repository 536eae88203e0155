//! The floating-point constants of a model, as converting sees them: which may be stored in another type, and what
//! their values are like.

use crate::constant::Constant;
use crate::error::ModelError;
use crate::external::Files;
use crate::graph::values::Id;
use crate::tree::Document;
use crate::types::{Body, Typing};
use onnx_cast::{Cast, CastOptions, DataType};
use std::collections::HashMap;

/// Constants of more elements are not read before they are written.
const SMALL: usize = 1 << 16;

/// The constants of a model by body and value.
pub(crate) struct Constants<'a> {
    known: HashMap<(usize, Id), KnownConstant<'a>>,
}

pub(crate) struct KnownConstant<'a> {
    pub(crate) constant: Constant<'a>,
    /// What the values are like, of a small constant.
    pub(crate) span: Option<Span>,
}

/// The values of a constant that are no NaN.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) least: f32,
    pub(crate) greatest: f32,
    /// The least magnitude other than zero.
    pub(crate) tiny: f32,
}

impl<'a> Constants<'a> {
    pub(crate) fn of(
        document: &Document<'a>,
        typing: &Typing<'_, 'a>,
        files: &'a Files<'a>,
    ) -> Result<Self, ModelError> {
        let mut known = HashMap::new();
        for (place, body) in typing.bodies.iter().enumerate() {
            for id in 0..body.flow.values.len() {
                let Some(constant) = constant_of(document, body, id, files)? else { continue };
                if constant.data_type == DataType::Float {
                    let span = span_of(&constant);
                    known.insert((place, id), KnownConstant { constant, span });
                }
            }
        }
        Ok(Constants { known })
    }

    pub(crate) fn get(&self, body: usize, value: Id) -> Option<&KnownConstant<'a>> {
        self.known.get(&(body, value))
    }

    /// What a small constant is like.
    pub(crate) fn span(&self, body: usize, value: Option<Id>) -> Option<Span> {
        self.get(body, value?)?.span
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ((usize, Id), &KnownConstant<'a>)> {
        self.known.iter().map(|(&key, known)| (key, known))
    }
}

impl Span {
    /// Whether a number of the span has no finite counterpart in a type.
    pub(crate) fn overflows(self, low: DataType) -> bool {
        [self.least, self.greatest].into_iter().any(|value| value.is_finite() && overflows(value, low))
    }

    /// Whether there are numbers other than zero, and all become zero in a type; or, where digits are to be kept, none
    /// is a normal number of it.
    pub(crate) fn vanishes(self, low: DataType, keeps_digits: bool) -> bool {
        let least = match (low == DataType::Float16, keeps_digits) {
            (true, true) => 2f32.powi(-14),
            (true, false) => 2f32.powi(-25),
            (false, _) => f32::MIN_POSITIVE,
        };
        self.tiny.is_finite() && self.greatest.max(-self.least) < least
    }

    /// Whether what overflows are large negative numbers only, as masks have them.
    pub(crate) fn is_sentinel(self, low: DataType) -> bool {
        self.overflows(low) && self.least.is_finite() && (self.greatest <= 0.0 || !overflows(self.greatest, low))
    }
}

/// Whether a finite number becomes infinite in a type.
pub(crate) fn overflows(value: f32, low: DataType) -> bool {
    value.is_finite() && rounded(value, low).is_none_or(f32::is_infinite)
}

/// A number rounded to a type.
fn rounded(value: f32, low: DataType) -> Option<f32> {
    let options = CastOptions::new();
    let tensor = onnx_cast::Tensor::from_slice(Vec::new(), &[value]).ok()?;
    let low = Cast::new(low, &options).ok()?.run(&tensor.view()).ok()?;
    Cast::new(DataType::Float, &options).ok()?.run(&low.view()).ok()?.to_vec::<f32>()?.first().copied()
}

/// The initializer, or the value of a Constant, that a value is; none that a caller of the model may replace.
fn constant_of<'a>(
    document: &Document<'a>,
    body: &Body<'_, 'a>,
    id: Id,
    files: &'a Files<'a>,
) -> Result<Option<Constant<'a>>, ModelError> {
    let is_replaced = document.ir_version >= 4 || body.flow.values[id].graph != document.graph.id;
    let found = Constant::of_value(&body.flow, id, files)?;
    Ok(found.filter(|(_, is_input)| !is_input || !is_replaced).map(|(constant, _)| constant))
}

fn span_of(constant: &Constant<'_>) -> Option<Span> {
    if constant.len > SMALL {
        return None;
    }
    let bytes = constant.elements.as_ref()?.read()?;
    let (words, _) = bytes.as_chunks::<4>();
    let mut span = Span { least: f32::INFINITY, greatest: f32::NEG_INFINITY, tiny: f32::INFINITY };
    for value in words.iter().map(|word| f32::from_le_bytes(*word)).filter(|value| !value.is_nan()) {
        span.least = span.least.min(value);
        span.greatest = span.greatest.max(value);
        if value != 0.0 {
            span.tiny = span.tiny.min(value.abs());
        }
    }
    (span.least <= span.greatest).then_some(span)
}
