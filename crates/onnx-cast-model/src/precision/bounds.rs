//! Bounds of values that operators, types and constants guarantee: the output of Sigmoid is between 0 and 1 for any
//! input. All other values are unbounded.

use super::constants::{Constants, Span};
use crate::graph::dataflow::{Dataflow, Fact, Node};
use crate::operators::{BoundRule, Bounded, Flag, Traits};
use onnx_cast::DataType;

/// Numbers between which a value is, where it is a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) least: f32,
    pub(crate) greatest: f32,
}

pub(crate) const ANY: Bounds = Bounds { least: f32::NEG_INFINITY, greatest: f32::INFINITY };

/// The empty interval, for values that are not computed yet.
const NOTHING: Bounds = Bounds { least: f32::INFINITY, greatest: f32::NEG_INFINITY };

impl Fact for Bounds {
    const UNKNOWN: Bounds = ANY;

    fn join(&self, other: &Bounds) -> Bounds {
        Bounds { least: self.least.min(other.least), greatest: self.greatest.max(other.greatest) }
    }
}

/// Whether an operator bounds what it gives on both sides, and nears its bounds.
pub(crate) fn saturates(traits: &Traits) -> bool {
    matches!(traits.bounds, Some(Bounded::Between(least, greatest)) if least.is_finite() && greatest.is_finite())
}

/// Computes the bounds of each value.
pub(crate) fn of(model: &Dataflow<'_, '_, '_>, constants: &Constants<'_>) -> Vec<Bounds> {
    let number = |value: usize| {
        let span = constants.numbers(model.values[value].body, model.values[value].id)?;
        Some(Bounds { least: span.least, greatest: span.greatest })
    };
    let known = (0..model.values.len()).map(|value| match number(value) {
        Some(bounds) => bounds,
        None if model.is_given(value) => NOTHING,
        None => of_type(model.data_type(value)),
    });
    let bounds = model.forward(known.collect(), |node, output, facts| {
        let value = node.outputs[output];
        value.and_then(number).unwrap_or_else(|| {
            if output > 0 && !node.step.traits.is(Flag::Picks) {
                return ANY;
            }
            of_node(model, node, value.and_then(|value| model.data_type(value)), facts)
        })
    });
    bounds.into_iter().map(|bounds| if bounds == NOTHING { ANY } else { bounds }).collect()
}

/// Whether each value depends on constants alone: constants, elements picked from them, and results of operators that
/// read only such values.
pub(crate) fn fixed(model: &Dataflow<'_, '_, '_>, constants: &Constants<'_>) -> Vec<bool> {
    let is_fixed = |value: usize| constants.is_fixed(model.values[value].body, model.values[value].id);
    let known = (0..model.values.len()).map(|value| !is_fixed(value) && !model.is_given(value)).collect();
    // The analysis finds the opposite, values that may vary: a join is then the plain `or`.
    let varies = model.forward(known, |node, output, facts| {
        let mut inputs = node.inputs.iter().flatten().map(|&id| facts[id]);
        let picks = node.step.traits.is(Flag::Picks) && inputs.clone().next() == Some(false);
        let is_alone = inputs.clone().next().is_none();
        !(node.outputs[output].is_some_and(is_fixed) || picks || (!is_alone && inputs.all(|varies| !varies)))
    });
    varies.into_iter().map(|varies| !varies).collect()
}

/// The range of a type.
fn of_type(data_type: Option<DataType>) -> Bounds {
    match data_type {
        Some(DataType::Bool) => Bounds { least: 0.0, greatest: 1.0 },
        Some(DataType::Uint8) => Bounds { least: 0.0, greatest: 255.0 },
        Some(DataType::Int8) => Bounds { least: -128.0, greatest: 127.0 },
        _ => ANY,
    }
}

fn of_node(
    model: &Dataflow<'_, '_, '_>,
    node: &Node<'_, '_, '_>,
    data_type: Option<DataType>,
    all: &[Bounds],
) -> Bounds {
    let traits = node.step.traits;
    // Integers wrap around, and their quotients are truncated.
    if !traits.is(Flag::Picks) && data_type.is_some_and(|data_type| !data_type.is_float()) {
        return of_type(data_type);
    }
    let bounds = |index: usize| node.input(index).map(|id| all[id]);
    let floats = node.inputs.iter().flatten().filter(|&&id| model.data_type(id).is_some_and(DataType::is_float));
    let floats: Vec<Bounds> = floats.map(|&id| all[id]).collect();
    if floats.contains(&NOTHING) || (traits.is(Flag::Picks) && bounds(0) == Some(NOTHING)) {
        return NOTHING;
    }
    let (one, two) = (bounds(0).unwrap_or(ANY), bounds(1).unwrap_or(ANY));
    let inputs = || floats.iter().copied();
    let rule = match traits.bounds {
        Some(Bounded::By(rule)) => rule,
        Some(Bounded::Between(least, greatest)) => return Bounds { least, greatest },
        None => return if traits.is(Flag::Picks) { one } else { ANY },
    };
    match rule {
        BoundRule::First => one,
        BoundRule::Inputs => inputs().reduce(|one, two| one.join(&two)).unwrap_or(ANY),
        BoundRule::Sign if inputs().all(|one| one.least >= 0.0) => Bounds { least: 0.0, greatest: f32::INFINITY },
        BoundRule::Sign => ANY,
        BoundRule::Abs => one.magnitudes(),
        BoundRule::Choice => two.join(&bounds(2).unwrap_or(ANY)),
        BoundRule::Clip => one.clipped(two, bounds(2).unwrap_or(ANY)),
        BoundRule::Difference if is_greatest(model, node) => Bounds { least: f32::NEG_INFINITY, greatest: 0.0 },
        BoundRule::Difference => one.minus(two),
        BoundRule::Exp => Bounds { least: one.least.exp(), greatest: one.greatest.exp() },
        BoundRule::Max => inputs().reduce(|one, two| one.pairwise(two, f32::max)).unwrap_or(ANY),
        BoundRule::Min => inputs().reduce(|one, two| one.pairwise(two, f32::min)).unwrap_or(ANY),
        BoundRule::Neg => Bounds { least: -one.greatest, greatest: -one.least },
        BoundRule::Power if two == (Bounds { least: 2.0, greatest: 2.0 }) => one.squared(),
        BoundRule::Power => ANY,
        BoundRule::Product if node.inputs.first() == node.inputs.get(1) => one.squared(),
        BoundRule::Product => one.times(two),
        BoundRule::Quotient if two.least > 0.0 => one.times(two.inverse()),
        BoundRule::Quotient => ANY,
        BoundRule::Relu => one.pairwise(Bounds { least: 0.0, greatest: 0.0 }, f32::max),
        BoundRule::Root => Bounds { least: one.least.max(0.0).sqrt(), greatest: one.greatest.max(0.0).sqrt() },
        BoundRule::Scaled => one.minus(bounds(2).unwrap_or(Bounds { least: 0.0, greatest: 0.0 })).times(two),
        BoundRule::Sum => inputs().reduce(Bounds::plus).unwrap_or(ANY),
    }
}

/// Whether a difference subtracts from a value its own max.
fn is_greatest(model: &Dataflow<'_, '_, '_>, node: &Node<'_, '_, '_>) -> bool {
    let [Some(one), Some(two)] = node.inputs[..] else { return false };
    let giver = model.node_of(two).map(|giver| &model.nodes[giver]);
    giver.is_some_and(|giver| giver.step.traits.is(Flag::Greatest) && giver.inputs.first() == Some(&Some(one)))
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

    fn squared(self) -> Bounds {
        self.magnitudes().times(self.magnitudes())
    }

    fn inverse(self) -> Bounds {
        Bounds { least: 1.0 / self.greatest, greatest: 1.0 / self.least }
    }

    fn clipped(self, low: Bounds, high: Bounds) -> Bounds {
        let (least, greatest) = (self.least.max(low.least), self.greatest.min(high.greatest));
        Bounds { least, greatest: greatest.max(least) }
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
