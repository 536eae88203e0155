//! The constants of a model, as converting sees them: which floating-point ones may be stored in another type, and what
//! the values of all are like, those included that scaled casts compute from constants.

use crate::constant::Constant;
use crate::error::ModelError;
use crate::external::Files;
use crate::fold::known::FoldValue;
use crate::graph::values::Id;
use crate::rope::CastElements;
use crate::tree::Document;
use crate::types::{Body, Typing};
use onnx_cast::{Cast, CastOptions, DataType};
use onnx_cast_file::__private::pipeline::{self, Sink, Step as CastStep};
use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};

/// Max number of elements of a constant that is always scanned. Larger constants have a span only if they overflow.
const SMALL: usize = 1 << 16;

/// Max number of elements of a dequantized constant that are computed to find its extremes, which happens only where
/// its type and scales allow an overflow.
const MAX_COMPUTED: usize = 1 << 26;

/// The constants of a model by body and value.
pub(crate) struct Constants<'a> {
    known: HashMap<(usize, Id), KnownConstant<'a>>,
    /// Spans of small constants of every type, and of the results of scaled casts of constants.
    spans: HashMap<(usize, Id), Span>,
    /// Constants of every type and size, and the results of scaled casts of them.
    fixed: HashSet<(usize, Id)>,
}

pub(crate) struct KnownConstant<'a> {
    pub(crate) constant: Constant<'a>,
    /// The span of the values. `None` for a large constant in which nothing overflows.
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
        from: &[DataType],
        overflowing: &HashMap<String, Span>,
    ) -> Result<Self, ModelError> {
        let mut constants = Constants { known: HashMap::new(), spans: HashMap::new(), fixed: HashSet::new() };
        for (place, body) in typing.bodies.iter().enumerate() {
            for id in 0..body.flow.values.len() {
                let Some(constant) = constant_of(document, body, id, files)? else { continue };
                constants.fixed.insert((place, id));
                let small = constant.elements.as_ref().filter(|_| constant.len <= SMALL);
                let span = overflowing.get(constant.name).copied().filter(|_| from.contains(&constant.data_type));
                let span = small.map_or(span, span_of);
                constants.spans.extend(span.map(|span| ((place, id), span)));
                if from.contains(&constant.data_type) {
                    constants.known.insert((place, id), KnownConstant { constant, span });
                }
            }
            constants.add_scaled(document, (place, body), files)?;
        }
        Ok(constants)
    }

    /// Adds the results of QuantizeLinear and DequantizeLinear nodes of constants.
    fn add_scaled(
        &mut self,
        document: &Document<'a>,
        (place, body): (usize, &Body<'_, 'a>),
        files: &'a Files<'a>,
    ) -> Result<(), ModelError> {
        let mut computed: HashMap<Id, FoldValue<'a>> = HashMap::new();
        for step in body.flow.steps.iter().filter(|step| step.node.is_scaled()) {
            let value = |id: Id| {
                let constant = || Ok(constant_of(document, body, id, files)?.and_then(|one| FoldValue::of(id, one)));
                computed.get(&id).cloned().map_or_else(constant, |known| Ok(Some(known)))
            };
            let inputs: Vec<Id> = step.inputs.iter().flatten().copied().collect();
            if !inputs.iter().all(|&id| self.is_fixed(place, id)) {
                continue;
            }
            let inputs = inputs.into_iter().map(value).collect::<Result<Option<Vec<_>>, ModelError>>()?;
            let (Some([x, scale, zero_point @ ..]), Some(&Some(output))) = (inputs.as_deref(), step.outputs.first())
            else {
                continue;
            };
            let Some(opset) = step.graph.opset else { continue };
            let result = FoldValue::of_scaled(step.node, opset, x, scale, zero_point.first());
            let Some((result, elements)) = result.as_ref().and_then(|one| Some((one, one.elements()?))) else {
                continue;
            };
            let span = if elements.len <= SMALL {
                span_of(elements)
            } else {
                match limit(x, scale).filter(|_| step.node.is("DequantizeLinear")) {
                    Some(limit) if overflows(limit, DataType::Float16) && elements.len <= MAX_COMPUTED => {
                        span_of(elements)
                    }
                    limit => limit.map(|limit| Span { least: -limit, greatest: limit, tiny: 0.0 }),
                }
            };
            self.fixed.insert((place, output));
            self.spans.extend(span.map(|span| ((place, output), span)));
            computed.insert(output, result.clone());
        }
        Ok(())
    }

    /// Whether a value is a constant, or the result of scaled casts of constants.
    pub(crate) fn is_fixed(&self, body: usize, value: Id) -> bool {
        self.fixed.contains(&(body, value))
    }

    /// The span of a constant of any type, or of the result of scaled casts of constants.
    pub(crate) fn numbers(&self, body: usize, value: Id) -> Option<Span> {
        self.spans.get(&(body, value)).copied()
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
    fn magnitude(self) -> f32 {
        self.greatest.max(-self.least)
    }

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
        self.tiny.is_finite() && self.magnitude() < least
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

/// A magnitude that no element of a dequantized constant exceeds, by the type of the quantized one and the largest
/// scale.
fn limit(x: &FoldValue<'_>, scale: &FoldValue<'_>) -> Option<f32> {
    let data_type = x.data_type()?;
    // No small float is larger, and a zero point moves an integer by less than the width of its type.
    let bits = if data_type.is_float() { 16 } else { data_type.bits()? };
    Some(span_of(scale.elements()?)?.magnitude() * 2f32.powi(i32::try_from(bits).ok()?))
}

/// The span of elements, which are read piece by piece. `None` if no element is a number.
pub(crate) fn span_of(elements: &CastElements<'_>) -> Option<Span> {
    let plan = Cast::new(DataType::Float, &CastOptions::new()).ok()?.plan(elements.data_type()).ok()?;
    let is_float = elements.data_type() == DataType::Float;
    let elements = if is_float { elements.clone() } else { elements.then(CastStep::Cast(plan)) };
    let nothing = Span { least: f32::INFINITY, greatest: f32::NEG_INFINITY, tiny: f32::INFINITY };
    let sink = SpanSink(Mutex::new(nothing));
    pipeline::run(&[elements.task(0)], Some(1), &sink, &|_| ControlFlow::Continue(())).ok()?;
    let span = sink.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    (span.least <= span.greatest).then_some(span)
}

/// A sink that measures the span of the elements written to it.
#[derive(Debug)]
struct SpanSink(Mutex<Span>);

impl Sink for SpanSink {
    fn put(&self, _: u64, bytes: &[u8]) -> io::Result<()> {
        let (words, _) = bytes.as_chunks::<4>();
        let mut span = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for value in words.iter().map(|word| f32::from_le_bytes(*word)).filter(|value| !value.is_nan()) {
            span.least = span.least.min(value);
            span.greatest = span.greatest.max(value);
            if value != 0.0 {
                span.tiny = span.tiny.min(value.abs());
            }
        }
        Ok(())
    }
}
