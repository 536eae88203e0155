//! Values that must be right to a fixed part of one, however large they are: angles, exponents, coordinates. The digits
//! of a narrow type do not reach behind the point of a large number, so what such a value is computed from must not be
//! rounded either.
//!
//! Backward goes what is wanted: the largest magnitude that may still be rounded. Forward goes what can be had: how
//! large the part of a value is that would be exact if nothing rounded it. What a matrix product makes of rounded numbers
//! is as wrong as its own rounding, so that keeping it gains nothing, but for the bias that is added to it.

use super::bounds::Bounds;
use super::constants::Constants;
use super::pins::Reason;
use super::variables::Variables;
use crate::graph::values::{Id, Origin, Read, Step};
use crate::operators::{Computes, Flag, Meaning};
use crate::types::Body;
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

struct Analysis<'v, 's, 't, 'a> {
    variables: &'v Variables<'s, 't, 'a>,
    constants: &'v Constants<'a>,
    bounds: &'v [Vec<Bounds>],
    /// By body and value.
    exact: Vec<Vec<Exact>>,
    /// What calls a body: the body and step.
    callers: HashMap<usize, Vec<(usize, usize)>>,
    /// By the number of a graph within another: the body and the step of its node.
    around: HashMap<(usize, usize), usize>,
    /// By body and value: the least that is wanted so far, and how often it became less.
    wanted: HashMap<(usize, Id), (f32, u32)>,
}

/// Pins what must be right to a part of one.
pub(crate) fn pin(variables: &mut Variables<'_, '_, '_>, constants: &Constants<'_>, bounds: &[Vec<Bounds>]) {
    let found = Analysis::of(variables, constants, bounds).all();
    for (place, what, reason) in found {
        let variable = match what {
            Kept::Step(step) => variables.nodes[place][step],
            Kept::Value(id) => variables.values[place][id],
        };
        if let Some(variable) = variable {
            variables.pins.wide(variable, reason);
        }
    }
}

#[derive(Clone)]
enum Kept {
    Step(usize),
    Value(Id),
}

type Found = Vec<(usize, Kept, Reason)>;

impl<'v, 's, 't, 'a> Analysis<'v, 's, 't, 'a> {
    fn of(variables: &'v Variables<'s, 't, 'a>, constants: &'v Constants<'a>, bounds: &'v [Vec<Bounds>]) -> Self {
        let bodies = &variables.typing.bodies;
        let (mut callers, mut around) = (HashMap::<usize, Vec<_>>::new(), HashMap::new());
        for (place, body) in bodies.iter().enumerate() {
            for (&step, &callee) in &body.calls {
                callers.entry(callee).or_default().push((place, step));
            }
            for (at, step) in body.flow.steps.iter().enumerate() {
                around.extend(step.node.graphs().map(|graph| ((place, graph.id), at)));
            }
        }
        callers.values_mut().for_each(|callers| callers.sort_unstable());
        let nothing = Exact { part: 0.0, products: 0 };
        let exact = bodies.iter().map(|body| vec![nothing; body.flow.values.len()]).collect();
        let mut all = Analysis { variables, constants, bounds, exact, callers, around, wanted: HashMap::new() };
        // Twice, for what a loop or a function hands back.
        (0..2).for_each(|_| all.forward());
        all
    }

    fn body(&self, place: usize) -> &'s Body<'t, 'a> {
        self.variables.body(place)
    }

    fn is_constant(&self, place: usize, id: Id) -> bool {
        self.constants.get(place, id).is_some()
    }

    /// Finds out how much of each value would be exact.
    fn forward(&mut self) {
        for place in 0..self.exact.len() {
            let flow = &self.body(place).flow;
            for id in 0..flow.values.len() {
                let part = self.bounds[place][id].magnitude();
                self.exact[place][id] = match flow.values[id].origin {
                    Origin::Other => self.of_input(place, id).unwrap_or(Exact { part, products: 0 }),
                    Origin::Initializer(..) => Exact { part, products: 0 },
                    Origin::Node(..) if self.is_constant(place, id) => Exact { part, products: 0 },
                    Origin::Node(..) => self.exact[place][id],
                };
            }
            for (at, step) in flow.steps.iter().enumerate() {
                for (index, id) in step.outputs.iter().enumerate() {
                    let Some(id) = id.filter(|&id| !self.is_constant(place, id)) else { continue };
                    let inner = self.givers(place, at, index);
                    let exact = inner.iter().map(|&(place, id)| self.exact[place][id]).reduce(Exact::or);
                    let exact = exact.unwrap_or_else(|| self.of_step(place, step));
                    let part = exact.part.min(self.bounds[place][id].magnitude());
                    self.exact[place][id] = Exact { part, ..exact };
                }
            }
        }
    }

    /// The input of a graph within another, or of a function, as what gives it.
    fn of_input(&self, place: usize, id: Id) -> Option<Exact> {
        self.sources(place, id).iter().map(|&(place, id)| self.exact[place][id]).reduce(Exact::or)
    }

    /// What gives the input of a graph within another, or of a function.
    fn sources(&self, place: usize, id: Id) -> Vec<(usize, Id)> {
        let flow = &self.body(place).flow;
        let graph = flow.values[id].graph;
        let Some(index) = flow.ports.get(&graph).and_then(|ports| ports.inputs.iter().position(|&one| one == id))
        else {
            return Vec::new();
        };
        let given = |place: usize, at: usize| {
            let step = &self.body(place).flow.steps[at];
            step.inputs.get(index).copied().flatten().map(|id| (place, id))
        };
        if let Some(&at) = self.around.get(&(place, graph)) {
            // A state comes from the round before, too.
            let back = flow.steps[at].inputs.len() > index && flow.steps[at].node.is("Loop") && index >= 2;
            let state = flow.ports[&graph].outputs.get(index.wrapping_sub(1)).copied().flatten().filter(|_| back);
            return given(place, at).into_iter().chain(state.map(|id| (place, id))).collect();
        }
        let callers = self.callers.get(&place).map_or(&[][..], Vec::as_slice);
        callers.iter().filter_map(|&(place, at)| given(place, at)).collect()
    }

    /// What gives an output of a step that runs graphs, or a function.
    fn givers(&self, place: usize, at: usize, index: usize) -> Vec<(usize, Id)> {
        let body = self.body(place);
        let step = &body.flow.steps[at];
        if let Some(&callee) = body.calls.get(&at) {
            let ports = self.body(callee).flow.ports.get(&self.variables.roots[callee]);
            return ports.and_then(|ports| *ports.outputs.get(index)?).map(|id| (callee, id)).into_iter().collect();
        }
        let before = usize::from(step.node.is("Loop"));
        let outputs =
            step.node.graphs().filter_map(|graph| *body.flow.ports.get(&graph.id)?.outputs.get(before + index)?);
        outputs.map(|id| (place, id)).collect()
    }

    fn of_step(&self, place: usize, step: &Step<'_, '_>) -> Exact {
        let floats = step.inputs.iter().flatten().filter(|&&id| self.variables.values[place][id].is_some());
        let floats: Vec<_> = floats.map(|&id| (self.exact[place][id], self.is_constant(place, id))).collect();
        let products = floats.iter().map(|(one, _)| one.products).max().unwrap_or(0);
        let computes = step.traits.computes;
        let is_product = step.traits.is(Flag::Fast);
        let times = || floats.iter().fold(1.0, |all, (one, _)| if one.part == 0.0 { 0.0 } else { all * one.part });
        let part = if is_product && self.is_thin(place, step) {
            times() * THIN as f32
        } else if is_product {
            let bias = step.inputs.get(2).copied().flatten().filter(|&id| self.is_constant(place, id));
            let part = match products {
                0 => f32::INFINITY,
                _ => bias.map_or(0.0, |id| self.exact[place][id].part),
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
    fn is_thin(&self, place: usize, step: &Step<'_, '_>) -> bool {
        let shape = |index: usize| {
            let id = step.inputs.get(index).copied().flatten()?;
            Some(&self.constants.get(place, id)?.constant.shape[..])
        };
        let inner = match (shape(0), shape(1)) {
            (Some(left), _) => left.last(),
            (_, Some(right)) => right.iter().rev().nth(1),
            _ => None,
        };
        step.node.is("MatMul") && inner.is_some_and(|&inner| inner <= THIN)
    }

    /// What a step reads that must be right to a part of one: the largest magnitude that may be rounded, and what it is.
    fn wanted_by(&self, place: usize, at: usize) -> Option<(Id, f32, Meaning)> {
        let body = self.body(place);
        let (step, schema) = (&body.flow.steps[at], body.schemas[at]?);
        step.inputs.iter().enumerate().find_map(|(index, &id)| {
            let meaning = step.traits.meaning(schema.input(index)?.name)?;
            let most = match meaning {
                Meaning::Angle | Meaning::Exponent => ANGLE,
                Meaning::Coordinate | Meaning::Pixel => COORDINATE,
                Meaning::Any | Meaning::Float | Meaning::Limit => return None,
            };
            Some((id?, most, meaning))
        })
    }

    /// The steps that pick a value out of an input of the model; none where something computes it.
    fn picked(&self, place: usize, id: Id) -> Option<Vec<usize>> {
        let (flow, arranges) = (&self.body(place).flow, |step: &Step<'_, '_>| step.traits.is(Flag::Arranges));
        let picks = |step: &Step<'_, '_>| step.traits.is(Flag::Picks) || arranges(step) && step.inputs.len() == 1;
        let (id, steps) = flow.source(id, picks);
        let value = &flow.values[id];
        let is_input = place == 0 && value.origin == Origin::Other && value.graph == self.variables.roots[0];
        (is_input && self.variables.values[place][id].is_some()).then_some(steps)
    }

    /// What compares an input of the model with constants, or with another one: the last digits of both decide.
    fn comparisons(&self) -> Found {
        let mut found = Vec::new();
        for (at, step) in self.body(0).flow.steps.iter().enumerate() {
            let mut inputs = step.inputs.iter().flatten().filter(|&&id| !self.is_constant(0, id)).peekable();
            if step.traits.computes != Some(Computes::Comparison) || inputs.peek().is_none() {
                continue;
            }
            let ways: Option<Vec<_>> = inputs.map(|&id| self.picked(0, id)).collect();
            let reason = Reason::Needed { what: "the last digits of exact values", by: step.node.label(step.index) };
            let steps = ways.into_iter().flat_map(|ways| ways.into_iter().flatten().chain([at]));
            found.extend(steps.map(|step| (0, Kept::Step(step), reason.clone())));
        }
        found
    }

    /// What takes a constant from an input of the model, to divide what is left by a small part of the constant: inputs
    /// that are normalized, by plain operators or by a BatchNormalization.
    fn normalized(&self) -> Found {
        let (flow, bounds, mut found) = (&self.body(0).flow, &self.bounds[0], Vec::new());
        let constant = |id: Option<Id>| id.filter(|&id| self.is_constant(0, id)).map(|id| bounds[id]);
        for (at, step) in flow.steps.iter().enumerate() {
            let given = |index: usize| step.inputs.get(index).copied().flatten();
            let mut reads = step.outputs.iter().flatten().flat_map(|&id| &flow.values[id].reads);
            let (input, parts) = match step.traits.computes {
                Some(Computes::Sum) => {
                    let index = usize::from(constant(given(0)).is_some());
                    let taken = constant(given(1 - index)).map_or(0.0, Bounds::magnitude);
                    let scale = |read: &Read| {
                        let reader = &flow.steps[read.step];
                        let scale = constant(reader.inputs.get(1 - read.input.min(1)).copied().flatten());
                        let by = scale.unwrap_or(Bounds { least: 1.0, greatest: 1.0 });
                        match reader.traits.computes {
                            Some(Computes::Quotient) if read.input == 0 && by.least > 0.0 => 1.0 / by.least,
                            Some(Computes::Product) => by.magnitude(),
                            _ => 1.0,
                        }
                    };
                    (given(index), taken * reads.by_ref().map(scale).fold(1.0, f32::max))
                }
                _ if step.node.is("BatchNormalization") => {
                    let [mean, variance] = [3, 4].map(|index| constant(given(index)));
                    let deviation = variance.map_or(f32::INFINITY, |variance| variance.least.max(0.0).sqrt());
                    (given(0), mean.map_or(0.0, Bounds::magnitude) / deviation)
                }
                _ => continue,
            };
            let Some(steps) = input.filter(|_| parts > ANGLE && parts.is_finite()).and_then(|id| self.picked(0, id))
            else {
                continue;
            };
            let reason = Reason::Needed { what: "the last digits of exact values", by: step.node.label(step.index) };
            found.extend(steps.into_iter().chain([at]).map(|step| (0, Kept::Step(step), reason.clone())));
        }
        found
    }

    /// Everything that must be right to a part of one.
    fn all(mut self) -> Found {
        let mut found = [self.comparisons(), self.normalized()].concat();
        for place in 0..self.exact.len() {
            for (at, step) in self.body(place).flow.steps.iter().enumerate() {
                let Some((id, most, meaning)) = self.wanted_by(place, at) else { continue };
                let what = match meaning {
                    // An exponential of less is as small as its error.
                    Meaning::Exponent if self.bounds[place][id].greatest <= most => continue,
                    Meaning::Exponent => "an exponent",
                    Meaning::Angle => "an angle",
                    _ => "coordinates",
                };
                let reason = Reason::Needed { what, by: step.node.label(step.index) };
                // A place in pixels is computed within the operator.
                if self.want((place, id), most, &reason, &mut found) || meaning == Meaning::Pixel {
                    found.push((place, Kept::Step(at), reason));
                }
            }
        }
        found
    }

    /// Notes what gives a value, if more of it would be exact than may be rounded, and what that is computed from.
    fn want(&mut self, value: (usize, Id), most: f32, reason: &Reason, found: &mut Found) -> bool {
        let (mut open, mut any) = (vec![(value, most)], false);
        while let Some(((place, id), most)) = open.pop() {
            if self.exact[place][id].part <= most || self.variables.values[place][id].is_none() {
                continue;
            }
            any = true;
            let (known, times) = self.wanted.entry((place, id)).or_insert((f32::INFINITY, 0));
            if *known <= most {
                continue;
            }
            *times += 1;
            let most = if *times > 4 { 0.0 } else { most };
            *known = most;
            self.back(place, id, most, reason, &mut open, found);
        }
        any
    }

    /// Goes from a value to what gives it.
    fn back(
        &self,
        place: usize,
        id: Id,
        most: f32,
        reason: &Reason,
        open: &mut Vec<((usize, Id), f32)>,
        found: &mut Found,
    ) {
        let flow = &self.body(place).flow;
        let Origin::Node(at, output) = flow.values[id].origin else {
            let sources = self.sources(place, id);
            if !sources.is_empty() {
                found.push((place, Kept::Value(id), reason.clone()));
            }
            return open.extend(sources.into_iter().map(|source| (source, most)));
        };
        if self.is_constant(place, id) {
            return;
        }
        let (step, givers) = (&flow.steps[at], self.givers(place, at, output));
        if !givers.is_empty() {
            found.push((place, Kept::Value(id), reason.clone()));
            return open.extend(givers.into_iter().map(|giver| (giver, most)));
        }
        found.push((place, Kept::Step(at), reason.clone()));
        let given = |index: usize| step.inputs.get(index).copied().flatten();
        let magnitude = |index: usize| given(index).map_or(f32::INFINITY, |id| self.bounds[place][id].magnitude());
        let by_constant = given(1).is_some_and(|divisor| self.is_constant(place, divisor));
        for (index, input) in step.inputs.iter().enumerate() {
            let Some(input) = *input else { continue };
            let most = match step.traits.computes {
                Some(Computes::Product) => most / magnitude(1 - index.min(1)),
                Some(Computes::Quotient) if index == 0 && by_constant => most * magnitude(1),
                _ if step.traits.is(Flag::Picks) || step.traits.is(Flag::Steady) => most,
                _ => 0.0,
            };
            open.push(((place, input), if most.is_nan() { 0.0 } else { most }));
        }
    }
}

impl Exact {
    fn or(self, other: Exact) -> Exact {
        Exact { part: self.part.max(other.part), products: self.products.max(other.products) }
    }
}
