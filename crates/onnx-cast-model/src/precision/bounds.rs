//! Bounds of values, as far as operators and constants guarantee them: Sigmoid gives what is from 0 to 1, whatever it
//! reads. What nothing bounds may be anything.

use super::constants::{Constants, Span};
use crate::graph::values::{Flow, Id, Origin, Step};
use crate::operators::{Bounded, Flag, Traits};
use crate::types::Body;
use onnx_cast::DataType;

/// Numbers between which a value is, where it is a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) least: f32,
    pub(crate) greatest: f32,
}

pub(crate) const ANY: Bounds = Bounds { least: f32::NEG_INFINITY, greatest: f32::INFINITY };

/// Whether an operator bounds what it gives on both sides, and nears its bounds.
pub(crate) fn saturates(traits: &Traits) -> bool {
    matches!(traits.bounds, Some(Bounded::Between(least, greatest)) if least.is_finite() && greatest.is_finite())
}

/// The bounds of the values of a body.
pub(crate) fn of(body: &Body<'_, '_>, place: usize, constants: &Constants<'_>) -> Vec<Bounds> {
    let mut all = vec![ANY; body.flow.values.len()];
    for (id, bounds) in all.iter_mut().enumerate() {
        if let Some(span) = constants.numbers(place, id) {
            *bounds = Bounds { least: span.least, greatest: span.greatest };
        }
    }
    for step in &body.flow.steps {
        let Some(&Some(output)) = step.outputs.first() else { continue };
        if all[output] == ANY {
            let bounds = of_step(step, body, &all);
            step.outputs
                .iter()
                .flatten()
                .take(if step.traits.is(Flag::Picks) { usize::MAX } else { 1 })
                .for_each(|&id| all[id] = bounds);
        }
    }
    all
}

/// The values of a body that only constants decide: constants, elements that are picked of them, and the results of
/// operators that read nothing else.
pub(crate) fn fixed(body: &Body<'_, '_>, place: usize, constants: &Constants<'_>) -> Vec<bool> {
    let mut fixed: Vec<bool> = (0..body.flow.values.len()).map(|id| constants.is_fixed(place, id)).collect();
    for step in &body.flow.steps {
        let mut inputs = step.inputs.iter().flatten().map(|&id| fixed[id]);
        let picks = step.traits.is(Flag::Picks) && inputs.clone().next() == Some(true);
        if picks || (step.inputs.iter().any(Option::is_some) && inputs.all(|is_fixed| is_fixed)) {
            step.outputs.iter().flatten().for_each(|&id| fixed[id] = true);
        }
    }
    fixed
}

fn of_step(step: &Step<'_, '_>, body: &Body<'_, '_>, all: &[Bounds]) -> Bounds {
    let input = |index: usize| step.inputs.get(index).copied().flatten();
    let bounds = |index: usize| input(index).map_or(ANY, |id| all[id]);
    let (one, two) = (bounds(0), bounds(1));
    if step.node.op_type == "DequantizeLinear" {
        let zero_point = input(2).map_or(Bounds { least: 0.0, greatest: 0.0 }, |id| all[id]);
        return one.minus(zero_point).times(two);
    }
    if !crate::tree::is_default(step.node.domain) {
        return ANY;
    }
    // Integers wrap around, and their quotients are truncated.
    let output = step.outputs.first().copied().flatten().and_then(|id| body.types[id].as_ref()?.tensor());
    if !step.traits.is(Flag::Picks) && output.is_some_and(|data_type| !data_type.is_float()) {
        return ANY;
    }
    match step.node.op_type {
        "Cast" if input(0).is_some_and(|id| is_of(body, id, DataType::Bool)) => Bounds { least: 0.0, greatest: 1.0 },
        "Relu" | "Clip" | "Max" | "Min" => of_limits(step, all),
        "Exp" => Bounds { least: one.least.exp(), greatest: one.greatest.exp() },
        "Abs" => one.magnitudes(),
        "Neg" => Bounds { least: -one.greatest, greatest: -one.least },
        "Sqrt" => Bounds { least: one.least.max(0.0).sqrt(), greatest: one.greatest.max(0.0).sqrt() },
        "Add" => one.plus(two),
        "Sub" if is_greatest(&body.flow, input(1), input(0)) => Bounds { least: f32::NEG_INFINITY, greatest: 0.0 },
        "Sub" => one.minus(two),
        "Mul" if input(0).is_some() && input(0) == input(1) => one.magnitudes().times(one.magnitudes()),
        "Mul" => one.times(two),
        "Div" if two.least > 0.0 => one.times(Bounds { least: 1.0 / two.greatest, greatest: 1.0 / two.least }),
        "Pow" if two == (Bounds { least: 2.0, greatest: 2.0 }) => one.magnitudes().times(one.magnitudes()),
        "Where" => two.or(bounds(2)),
        _ if step.traits.is(Flag::Picks) => one,
        _ => {
            let inputs =
                step.inputs.iter().flatten().filter(|&&id| is_of(body, id, DataType::Float)).map(|&id| all[id]);
            let inputs = inputs.reduce(Bounds::or).unwrap_or(ANY);
            match step.traits.bounds {
                Some(Bounded::Between(least, greatest)) => Bounds { least, greatest },
                Some(Bounded::ByFirst) => one,
                Some(Bounded::ByInputs) => inputs,
                Some(Bounded::BySign) if inputs.least >= 0.0 => Bounds { least: 0.0, greatest: f32::INFINITY },
                Some(Bounded::BySign) | None => ANY,
            }
        }
    }
}

/// What limits give that are inputs.
fn of_limits(step: &Step<'_, '_>, all: &[Bounds]) -> Bounds {
    let bounds = |index: usize| step.inputs.get(index).copied().flatten().map(|id| all[id]);
    let one = bounds(0).unwrap_or(ANY);
    let all = step.inputs.iter().flatten().map(|&id| all[id]);
    match step.node.op_type {
        "Relu" => Bounds { least: one.least.max(0.0), greatest: one.greatest.max(0.0) },
        "Max" => all.reduce(|one, two| one.pairwise(two, f32::max)).unwrap_or(ANY),
        "Min" => all.reduce(|one, two| one.pairwise(two, f32::min)).unwrap_or(ANY),
        _ => {
            let least = bounds(1).map_or(one.least, |limit| one.least.max(limit.least));
            let greatest = bounds(2).map_or(one.greatest, |limit| one.greatest.min(limit.greatest));
            Bounds { least, greatest: greatest.max(least) }
        }
    }
}

/// Whether a value is the greatest along an axis of another one.
fn is_greatest(flow: &Flow<'_, '_>, value: Option<Id>, of: Option<Id>) -> bool {
    let Some(Origin::Node(step, 0)) = value.map(|id| flow.values[id].origin) else { return false };
    let step = &flow.steps[step];
    of.is_some() && step.node.is("ReduceMax") && step.inputs.first() == Some(&of)
}

fn is_of(body: &Body<'_, '_>, id: Id, data_type: DataType) -> bool {
    body.types[id].as_ref().and_then(|of_type| of_type.tensor()) == Some(data_type)
}

impl Bounds {
    /// The span, of which the smallest magnitude is unknown, of numbers that reach the bounds.
    pub(crate) fn span(self) -> Span {
        Span { least: self.least, greatest: self.greatest, tiny: self.magnitude() }
    }

    /// The largest magnitude.
    pub(crate) fn magnitude(self) -> f32 {
        self.least.abs().max(self.greatest.abs())
    }

    fn magnitudes(self) -> Bounds {
        let least =
            if self.least <= 0.0 && self.greatest >= 0.0 { 0.0 } else { self.least.abs().min(self.greatest.abs()) };
        Bounds { least, greatest: self.magnitude() }
    }

    fn or(self, other: Bounds) -> Bounds {
        Bounds { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }

    fn pairwise(self, other: Bounds, of: impl Fn(f32, f32) -> f32) -> Bounds {
        Bounds { least: of(self.least, other.least), greatest: of(self.greatest, other.greatest) }
    }

    fn plus(self, other: Bounds) -> Bounds {
        // Infinities of two signs tell nothing.
        let sum = |one: f32, other: f32, unknown: f32| Some(one + other).filter(|sum| !sum.is_nan()).unwrap_or(unknown);
        Bounds {
            least: sum(self.least, other.least, f32::NEG_INFINITY),
            greatest: sum(self.greatest, other.greatest, f32::INFINITY),
        }
    }

    fn minus(self, other: Bounds) -> Bounds {
        self.plus(Bounds { least: -other.greatest, greatest: -other.least })
    }

    fn times(self, other: Bounds) -> Bounds {
        // Zero times what is not bounded is zero.
        let product = |one: f32, other: f32| if one == 0.0 || other == 0.0 { 0.0 } else { one * other };
        let ends = |one: f32| [product(one, other.least), product(one, other.greatest)];
        let all = [ends(self.least), ends(self.greatest)].concat();
        Bounds {
            least: all.iter().copied().fold(f32::INFINITY, f32::min),
            greatest: all.iter().copied().fold(f32::NEG_INFINITY, f32::max),
        }
    }
}
