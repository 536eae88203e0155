//! Values that must be right to a fixed part of one, however large they are: angles, exponents, coordinates. The digits
//! of a narrow type do not reach behind the point of a large number, so what such a value is computed from must not be
//! rounded either.
//!
//! Backward goes what is wanted: the largest magnitude that may still be rounded. Forward goes what can be had: how
//! large the part of a value is that would be exact if nothing rounded it. What a matrix product makes of rounded
//! numbers is as wrong as its own rounding, so that keeping it gains nothing, but for the bias that is added to it.

use super::bounds::Bounds;
use super::constants::Constants;
use super::pins::{Reason, Variable};
use super::variables::Variables;
use crate::graph::dataflow::{Dataflow, Fact, Giver, Node};
use crate::graph::values::{Origin, Step};
use crate::operators::{Computes, Flag, Meaning};
use std::collections::HashMap;

/// An angle of this magnitude is off by 0.002 in float16, and 0.016 in bfloat16: less than those types make of a sine.
const ANGLE: f32 = 8.0;

/// Coordinates count pixels, or parts of a picture of unknown size.
const COORDINATE: f32 = 1.0 / 64.0;

/// A product over at most this many numbers gains nothing by hardware: it is a change of coordinates.
const THIN: usize = 4;

/// How much of a value would be exact.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Exact {
    /// The magnitude of that part.
    part: f32,
    /// Matrix products of numbers that are not constants, on the way to it; those of what one of them gave are rounded.
    products: u8,
}

/// More products than one: what one reads is rounded.
const ROUNDED: u8 = 2;

impl Fact for Exact {
    const UNKNOWN: Exact = Exact { part: f32::INFINITY, products: ROUNDED };

    fn join(&self, other: &Exact) -> Exact {
        Exact { part: self.part.max(other.part), products: self.products.max(other.products) }
    }
}

struct Analysis<'v, 's, 't, 'a> {
    variables: &'v Variables<'s, 't, 'a>,
    model: &'v Dataflow<'s, 't, 'a>,
    constants: &'v Constants<'a>,
    bounds: &'v [Bounds],
    exact: Vec<Exact>,
    /// By value: the smallest magnitude requested so far, and how often it was set.
    wanted: HashMap<usize, (f32, u32)>,
    found: Vec<(Variable, Reason)>,
}

/// Pins what must be right to a part of one.
pub(crate) fn pin<'s, 't, 'a>(
    variables: &mut Variables<'s, 't, 'a>,
    model: &Dataflow<'s, 't, 'a>,
    constants: &Constants<'a>,
    bounds: &[Bounds],
) {
    let (exact, wanted, found) = (Vec::new(), HashMap::new(), Vec::new());
    let mut analysis = Analysis { variables, model, constants, bounds, exact, wanted, found };
    analysis.exact = analysis.exact();
    analysis.comparisons();
    analysis.normalized();
    analysis.all();
    let found = analysis.found;
    found.into_iter().for_each(|(variable, reason)| variables.pins.wide(variable, reason));
}

impl<'s, 't, 'a> Analysis<'_, 's, 't, 'a> {
    fn is_constant(&self, value: usize) -> bool {
        self.constants.get(self.model.values[value].body, self.model.values[value].id).is_some()
    }

    /// The type variable of a floating-point value.
    fn own(&self, value: usize) -> Option<Variable> {
        self.variables.values[self.model.values[value].body][self.model.values[value].id]
    }

    fn keep(&mut self, node: usize, reason: &Reason) {
        let node = &self.model.nodes[node];
        self.found.extend(self.variables.nodes[node.body][node.at].map(|variable| (variable, reason.clone())));
    }

    fn exact(&self) -> Vec<Exact> {
        let known = (0..self.model.values.len()).map(|value| {
            let is_computed = self.model.is_given(value) && !self.is_constant(value);
            Exact { part: if is_computed { 0.0 } else { self.bounds[value].magnitude() }, products: 0 }
        });
        self.model.forward(known.collect(), |node, output, facts| {
            let Some(value) = node.outputs[output] else { return Exact::UNKNOWN };
            let most = self.bounds[value].magnitude();
            if self.is_constant(value) {
                return Exact { part: most, products: 0 };
            }
            let exact = self.of_node(node, facts);
            Exact { part: exact.part.min(most), ..exact }
        })
    }

    fn of_node(&self, node: &Node<'s, 't, 'a>, exact: &[Exact]) -> Exact {
        let step = node.step;
        let floats = node.inputs.iter().flatten().filter(|&&value| self.own(value).is_some());
        let floats: Vec<_> = floats.map(|&value| (exact[value], self.is_constant(value))).collect();
        let products = floats.iter().map(|(one, _)| one.products).max().unwrap_or(0);
        let computes = step.traits.computes;
        let is_product = step.traits.is(Flag::Fast);
        let times = || floats.iter().fold(1.0, |all, (one, _)| if one.part == 0.0 { 0.0 } else { all * one.part });
        let part = if is_product && self.is_thin(node) {
            times() * THIN as f32
        } else if is_product {
            let bias = node.input(2).filter(|&value| self.is_constant(value));
            let part = match products {
                0 => f32::INFINITY,
                _ => bias.map_or(0.0, |value| exact[value].part),
            };
            return Exact { part, products: (products + 1).min(ROUNDED) };
        } else if computes == Some(Computes::Product) {
            times()
        } else if computes == Some(Computes::Sum) || step.traits.is(Flag::Picks) || step.traits.is(Flag::Arranges) {
            floats.iter().fold(0.0, |most: f32, (one, _)| most.max(one.part))
        } else if computes == Some(Computes::Choice) {
            // A constant is a limit, or hides elements.
            floats.iter().filter(|(_, is_constant)| !is_constant).fold(0.0, |most: f32, (one, _)| most.max(one.part))
        } else if floats.iter().any(|&(one, is_constant)| one.part == 0.0 && !is_constant) {
            0.0
        } else {
            f32::INFINITY
        };
        Exact { part: if floats.is_empty() { f32::INFINITY } else { part }, products }
    }

    /// Whether a product is one of few numbers, by the shape of a constant.
    fn is_thin(&self, node: &Node<'s, 't, 'a>) -> bool {
        let shape = |index: usize| {
            let value = &self.model.values[node.input(index)?];
            Some(&self.constants.get(value.body, value.id)?.constant.shape[..])
        };
        let inner = match (shape(0), shape(1)) {
            (Some(left), _) => left.last(),
            (_, Some(right)) => right.iter().rev().nth(1),
            _ => None,
        };
        node.step.node.is("MatMul") && inner.is_some_and(|&inner| inner <= THIN)
    }

    /// An input that needs a fixed absolute precision: the value, the largest magnitude that may be rounded, and its
    /// meaning.
    fn wanted_by(&self, node: &Node<'s, 't, 'a>) -> Option<(usize, f32, Meaning)> {
        let schema = self.model.schema(node)?;
        node.inputs.iter().enumerate().find_map(|(index, &value)| {
            let meaning = node.step.traits.meaning(schema.input(index)?.name)?;
            let most = match meaning {
                Meaning::Angle | Meaning::Exponent => ANGLE,
                Meaning::Coordinate | Meaning::Pixel => COORDINATE,
                Meaning::Any | Meaning::Float | Meaning::Limit | Meaning::Mask | Meaning::State => return None,
            };
            Some((value?, most, meaning))
        })
    }

    /// The nodes that pick a value out of model inputs. `None` if the value is computed.
    fn picked(&self, value: usize) -> Option<Vec<usize>> {
        let picks = |step: &Step<'_, '_>| {
            step.traits.is(Flag::Picks) || step.traits.is(Flag::Arranges) && step.inputs.len() == 1
        };
        let (ends, nodes) = self.model.sources(value, picks);
        let is_input = |&end: &usize| {
            let value = &self.model.values[end];
            let flow = &self.model.bodies[value.body].flow;
            let is_outer = value.body == 0 && flow.values[value.id].graph == self.variables.roots[0];
            is_outer && flow.values[value.id].origin == Origin::Other && self.own(end).is_some()
        };
        ends.iter().all(is_input).then_some(nodes)
    }

    /// What compares an input of the model with constants, or with another one: the last digits of both decide.
    fn comparisons(&mut self) {
        for (at, node) in self.model.nodes.iter().enumerate() {
            let mut inputs = node.inputs.iter().flatten().filter(|&&value| !self.is_constant(value)).peekable();
            if node.step.traits.computes != Some(Computes::Comparison) || inputs.peek().is_none() {
                continue;
            }
            let ways: Option<Vec<_>> = inputs.map(|&value| self.picked(value)).collect();
            let reason = Reason::Needed { what: "the last digits of exact values", by: node.label() };
            let nodes = ways.into_iter().flat_map(|ways| ways.into_iter().flatten().chain([at]));
            nodes.for_each(|node| self.keep(node, &reason));
        }
    }

    /// Keeps model inputs that are normalized: `(x - constant) / divisor`, where the divisor is small compared to the
    /// constant. Plain operators do this, and operators with a mean and a variance.
    fn normalized(&mut self) {
        for (at, node) in self.model.nodes.iter().enumerate() {
            let (input, parts) = self.normalizes(node);
            let Some(nodes) = input.filter(|_| parts > ANGLE && parts.is_finite()).and_then(|input| self.picked(input))
            else {
                continue;
            };
            let reason = Reason::Needed { what: "the last digits of exact values", by: node.label() };
            nodes.into_iter().chain([at]).for_each(|node| self.keep(node, &reason));
        }
    }

    /// The input that a node subtracts a constant from, and the ratio of the constant to the divisor that follows.
    fn normalizes(&self, node: &Node<'s, 't, 'a>) -> (Option<usize>, f32) {
        let constant =
            |value: Option<usize>| value.filter(|&value| self.is_constant(value)).map(|one| self.bounds[one]);
        let named = |name: &str| {
            let schema = self.model.schema(node)?;
            let index = schema.inputs.iter().position(|formal| formal.name.ends_with(name))?;
            Some(constant(node.input(index)))
        };
        let given = |index: usize| node.input(index);
        if node.step.traits.computes == Some(Computes::Sum) {
            let index = usize::from(constant(given(0)).is_some());
            let taken = constant(given(1 - index)).map_or(0.0, Bounds::magnitude);
            let reads = node.outputs.iter().flatten().flat_map(|&value| &self.model.values[value].reads);
            let scale = |&(reader, input): &(usize, usize)| {
                let reader = &self.model.nodes[reader];
                let scale = constant(reader.inputs.get(1 - input.min(1)).copied().flatten());
                let by = scale.unwrap_or(Bounds { least: 1.0, greatest: 1.0 });
                match reader.step.traits.computes {
                    Some(Computes::Quotient) if input == 0 && by.least > 0.0 => 1.0 / by.least,
                    Some(Computes::Product) => by.magnitude(),
                    _ => 1.0,
                }
            };
            return (given(index), taken * reads.map(scale).fold(1.0, f32::max));
        }
        let (Some(mean), Some(variance)) = (named("mean"), named("var")) else { return (None, 0.0) };
        let deviation = variance.map_or(f32::INFINITY, |variance| variance.least.max(0.0).sqrt());
        (given(0), mean.map_or(0.0, Bounds::magnitude) / deviation)
    }

    /// Keeps all values that need a fixed absolute precision.
    fn all(&mut self) {
        for (at, node) in self.model.nodes.iter().enumerate() {
            let Some((value, most, meaning)) = self.wanted_by(node) else { continue };
            let what = match meaning {
                // A very negative exponent has a large error, but its exponential is tiny.
                Meaning::Exponent if self.bounds[value].greatest <= most => continue,
                Meaning::Exponent => "an exponent",
                Meaning::Angle => "an angle",
                _ => "coordinates",
            };
            let reason = Reason::Needed { what, by: node.label() };
            // The operator itself computes coordinates in pixels.
            if self.want(value, most, &reason) || meaning == Meaning::Pixel {
                self.keep(at, &reason);
            }
        }
    }

    /// Notes what gives a value, if more of it would be exact than may be rounded, and what that is computed from.
    fn want(&mut self, value: usize, most: f32, reason: &Reason) -> bool {
        let (mut open, mut any) = (vec![(value, most)], false);
        while let Some((value, most)) = open.pop() {
            if self.exact[value].part <= most || self.own(value).is_none() {
                continue;
            }
            any = true;
            let (known, times) = self.wanted.entry(value).or_insert((f32::INFINITY, 0));
            if *known <= most {
                continue;
            }
            *times += 1;
            let most = if *times > 4 { 0.0 } else { most };
            *known = most;
            match &self.model.values[value].giver {
                Giver::Values(values) => {
                    self.found.extend(self.own(value).map(|variable| (variable, reason.clone())));
                    open.extend(values.iter().map(|&value| (value, most)));
                }
                Giver::Node(node, _) if !self.is_constant(value) => {
                    self.keep(*node, reason);
                    open.extend(self.back(&self.model.nodes[*node], most));
                }
                _ => {}
            }
        }
        any
    }

    /// The inputs of a node, each with the largest magnitude that may be rounded, for a given limit of its result.
    fn back(&self, node: &Node<'s, 't, 'a>, most: f32) -> Vec<(usize, f32)> {
        let (traits, given) = (node.step.traits, |index: usize| node.input(index));
        let magnitude = |index: usize| given(index).map_or(f32::INFINITY, |value| self.bounds[value].magnitude());
        let by_constant = given(1).is_some_and(|divisor| self.is_constant(divisor));
        let wanted = |(index, value): (usize, &Option<usize>)| {
            let most = match traits.computes {
                Some(Computes::Product) => most / magnitude(1 - index.min(1)),
                Some(Computes::Quotient) if index == 0 && by_constant => most * magnitude(1),
                _ if traits.is(Flag::Picks) || traits.is(Flag::Steady) => most,
                _ => 0.0,
            };
            Some(((*value)?, if most.is_nan() { 0.0 } else { most }))
        };
        node.inputs.iter().enumerate().filter_map(wanted).collect()
    }
}
