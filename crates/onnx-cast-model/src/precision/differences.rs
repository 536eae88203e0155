//! Sums whose parts nearly cancel: `E[x^2] - E[x]^2`, or the square of a distance written out, `a^2 - 2ab + b^2`. One
//! value is squared in one part, and is a factor in another; or two values are multiplied in one, and their means in
//! another, as in `E[xy] - E[x] E[y]`. Where they are far from zero both parts are large, and their sum is not. The same
//! holds for differences of the elements of what is exact, such as those between points. Rounding the value itself moves
//! both alike; rounding what lies between it and the sum moves the sum by a part of the square.

use super::bounds::{ANY, Bounds};
use super::constants::overflows;
use super::pins::{Reason, Variable};
use super::variables::Variables;
use crate::graph::values::{Flow, Id, Origin, Step};
use crate::operators::Computes::{Choice, Power, Product, Products, Quotient, Root, Squares, Sum, Total};
use crate::operators::Flag;
use std::collections::HashSet;

/// So far a part is traced back, and so many parts a sum has at most.
const MOST: usize = 48;

/// What multiplies a value on its way to a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Degree {
    /// Constants, if anything.
    Plain,
    /// Another value.
    Factor,
    /// It itself.
    Square,
}

/// A value that a part is computed from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    pub(super) id: Id,
    degree: Degree,
    /// How often constants weigh its elements against each other on the way, and whether after it is squared.
    weighed: (usize, bool),
    /// The product by which it is a factor, and as which of the two.
    pub(super) product: Option<(usize, usize)>,
    /// Whether its elements are added up before that.
    is_mean: bool,
    /// Whether its elements are added up on the way.
    pub(super) is_total: bool,
    /// The one that it was reached from.
    from: Option<usize>,
}

/// What is added up: a value, or the product of a step that adds something to it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    Value(Id),
    Product(usize),
}

/// A sum, as what it is made of.
struct Parts {
    /// The steps that add.
    steps: Vec<usize>,
    /// Each part, and whether it is taken away.
    parts: Vec<(Part, bool)>,
    /// Whether a product adds them, so that each has a factor already.
    in_product: bool,
}

pub(super) struct Body<'b, 't, 'a> {
    pub(super) flow: &'b Flow<'t, 'a>,
    bounds: &'b [Bounds],
    /// By value: whether it is computed from constants alone.
    pub(super) fixed: Vec<bool>,
    /// What nothing has rounded: the inputs of the model.
    exact: &'b [Id],
    /// By value: whether a square is among what it adds up.
    squares: Vec<bool>,
}

/// Pins what is between a value and a sum that it nearly cancels in, and quotients of sums.
pub(crate) fn pin(variables: &mut Variables<'_, '_, '_>, bounds: &[Vec<Bounds>]) {
    let (mut found, low): (Vec<(Variable, Reason)>, _) = (Vec::new(), variables.low);
    for (place, bounds) in bounds.iter().enumerate() {
        let flow = &variables.body(place).flow;
        let inputs = flow.ports.get(&variables.roots[place]).map_or(&[][..], |ports| &ports.inputs);
        let body = Body::of(flow, bounds, if place == 0 { inputs } else { &[] });
        let sums =
            (0..body.flow.steps.len()).map(|at| (at, body.sums(at).iter().flat_map(|sum| body.kept(sum)).collect()));
        let cancelling = sums.map(|(at, steps)| ("parts that nearly cancel", at, steps));
        let quotients = if overflows(f32::MAX / 4.0, low) { body.quotients() } else { Vec::new() };
        let quotients = quotients.into_iter().map(|(at, steps)| ("a quotient of sums that may overflow", at, steps));
        for (what, at, steps) in cancelling.chain(quotients) {
            let by: &Step<'_, '_> = &body.flow.steps[at];
            let reason = Reason::Needed { what, by: by.node.label(by.index) };
            let steps: Vec<usize> = steps;
            found.extend(steps.iter().filter_map(|&at| variables.nodes[place][at]).map(|node| (node, reason.clone())));
        }
    }
    found.into_iter().for_each(|(variable, reason)| variables.pins.wide(variable, reason));
}

impl<'b, 't, 'a> Body<'b, 't, 'a> {
    fn of(flow: &'b Flow<'t, 'a>, bounds: &'b [Bounds], exact: &'b [Id]) -> Self {
        let fixed = (0..flow.values.len()).map(|id| is_constant(flow, id)).collect();
        let mut body = Body { flow, bounds, fixed, exact, squares: vec![false; flow.values.len()] };
        for (at, step) in flow.steps.iter().enumerate() {
            let mut inputs = step.inputs.iter().flatten().peekable();
            let is_fixed =
                inputs.peek().is_some() && inputs.all(|&id| body.fixed[id]) && step.node.graphs().next().is_none();
            let squares = body
                .inputs(at, Degree::Plain)
                .iter()
                .any(|next| next.degree == Degree::Square || body.squares[next.id]);
            for &id in step.outputs.iter().flatten() {
                body.fixed[id] |= is_fixed;
                body.squares[id] = squares;
            }
        }
        body
    }

    /// What a step adds up or multiplies, and how, where its result is of a degree; nothing where that is not what it does.
    fn inputs(&self, at: usize, degree: Degree) -> Vec<Reached> {
        let step = &self.flow.steps[at];
        let given = |index: usize| step.inputs.get(index).copied().flatten();
        let is_fixed = |index: usize| given(index).is_some_and(|id| self.fixed[id]);
        let next = |index: usize, degree: Degree| {
            let id = given(index).filter(|&id| !self.fixed[id])?;
            let product = (degree == Degree::Factor).then_some((at, index));
            Some(Reached { degree, product, ..Reached::of(id) })
        };
        let all = |degree: Degree| (0..step.inputs.len()).filter_map(|index| next(index, degree)).collect::<Vec<_>>();
        let totals = |all: Vec<Reached>| all.into_iter().map(|next| Reached { is_total: true, ..next }).collect();
        let one = |next: Option<Reached>| next.into_iter().collect();
        match step.traits.computes {
            // The result of another subtraction is no part of this sum's square.
            Some(Sum) if step.node.is("Sub") => Vec::new(),
            Some(Sum) => all(Degree::Plain),
            Some(Total) => totals(one(next(0, Degree::Plain))),
            Some(Squares) => totals(one(next(0, Degree::Square))),
            Some(Power) if given(1).is_some_and(|id| self.bounds[id].least >= 2.0) => one(next(0, Degree::Square)),
            Some(Product | Products) if self.source(given(0)) == self.source(given(1)) => {
                (0..2).filter_map(|index| next(index, Degree::Square)).collect()
            }
            Some(Product) if is_fixed(0) || is_fixed(1) => all(Degree::Plain),
            Some(Product) => all(Degree::Factor),
            Some(Products) => {
                let factor = |index: usize| {
                    let factor = next(index, Degree::Factor)?;
                    // By constants it is weighed, and not multiplied.
                    let weighed = Reached { weighed: (1, false), product: None, ..factor };
                    Some(if is_fixed(1 - index) { weighed } else { factor })
                };
                totals((0..2).filter_map(factor).collect())
            }
            Some(Quotient) => one(next(0, Degree::Plain)),
            // Between limits.
            Some(Choice) if all(Degree::Plain).len() == 1 => all(Degree::Plain),
            // A norm that is squared is a square.
            Some(Root) if degree == Degree::Square => one(next(0, Degree::Plain)),
            None if step.node.is("Neg") || step.traits.is(Flag::Picks) => one(next(0, Degree::Plain)),
            None if step.traits.is(Flag::Arranges) => all(Degree::Plain),
            _ => Vec::new(),
        }
    }

    /// What a step sums up: the parts of a sum, or those that a product adds up, as they are joined in one of its inputs.
    fn sums(&self, at: usize) -> Vec<Parts> {
        let step = &self.flow.steps[at];
        let is_product = step.traits.computes == Some(Products);
        // What is behind the two factors is added, but by Einsum, which takes any number of them.
        let adds = is_product && step.inputs.len() > 2 && !step.node.is("Einsum");
        let mut all = Vec::new();
        if adds || step.traits.computes == Some(Sum) {
            let mut sum = Parts { steps: Vec::new(), parts: Vec::new(), in_product: false };
            self.add(at, false, &mut sum);
            all.push(sum);
        }
        if is_product {
            all.extend((0..2).filter_map(|index| self.joined(at, step.inputs.get(index).copied().flatten()?)));
        }
        let squares = |&(part, _): &(Part, bool)| matches!(part, Part::Value(id) if self.squares[id]);
        let subtracts = |sum: &Parts| sum.parts.iter().any(|part| part.1 != sum.parts[0].1);
        all.retain(|sum| sum.parts.len() <= MOST && (subtracts(sum) || sum.parts.iter().any(squares)));
        all
    }

    /// Adds what a step adds.
    fn add(&self, at: usize, is_negative: bool, sum: &mut Parts) {
        let step = &self.flow.steps[at];
        sum.steps.push(at);
        let mut inputs = step.inputs.iter().enumerate().collect::<Vec<_>>();
        if step.traits.computes == Some(Products) {
            sum.parts.push((Part::Product(at), is_negative));
            inputs.retain(|&(index, _)| index > 1);
        }
        for (index, &id) in inputs {
            let Some(id) = id.filter(|&id| !self.fixed[id]) else { continue };
            let is_negative = is_negative != (index == 1 && step.node.is("Sub") || step.node.is("Neg"));
            let value = &self.flow.values[id];
            match value.origin {
                Origin::Node(before, 0)
                    if value.reads.len() == 1
                        && value.outputs == 0
                        && sum.steps.len() < MOST
                        && (self.flow.steps[before].traits.computes == Some(Sum)
                            || self.flow.steps[before].node.is("Neg")) =>
                {
                    self.add(before, is_negative, sum);
                }
                _ => sum.parts.push((Part::Value(id), is_negative)),
            }
        }
    }

    /// The values that are joined in an input of a product.
    fn joined(&self, product: usize, id: Id) -> Option<Parts> {
        let arranges = |step: &Step<'_, '_>| step.traits.is(Flag::Arranges) && !step.node.is("Concat");
        let (id, mut steps) = self.flow.source(id, arranges);
        let Origin::Node(at, 0) = self.flow.values[id].origin else { return None };
        steps.extend([product, at]);
        let parts = self.inputs(at, Degree::Plain).into_iter().map(|next| (Part::Value(next.id), false)).collect();
        self.flow.steps[at].node.is("Concat").then_some(Parts { steps, parts, in_product: true })
    }

    /// The values that a part is computed from, through roots of what is not squared, too, or not.
    pub(super) fn trace(&self, part: Part, through_roots: bool) -> Vec<Reached> {
        let mut reached = match part {
            Part::Value(id) => {
                vec![Reached::of(id)]
            }
            Part::Product(at) => self.inputs(at, Degree::Plain),
        };
        let mut seen = HashSet::new();
        let mut at = 0;
        while let Some(&before) = reached.get(at).filter(|_| reached.len() < MOST) {
            if let Origin::Node(step, _) = self.flow.values[before.id].origin {
                for next in self.inputs(step, if through_roots { Degree::Square } else { before.degree }) {
                    let next = Reached {
                        degree: next.degree.max(before.degree),
                        weighed: (
                            next.weighed.0 + before.weighed.0,
                            before.weighed.1 || (before.degree == Degree::Square && next.weighed.0 > 0),
                        ),
                        product: before.product.or(next.product),
                        is_mean: before.is_mean || (before.product.is_some() && next.is_total),
                        is_total: next.is_total || before.is_total,
                        from: Some(at),
                        ..next
                    };
                    if seen.insert((next.id, next.degree, before.id)) {
                        reached.push(next);
                    }
                }
            }
            at += 1;
        }
        reached
    }

    /// The value that arranging gives another one of.
    fn source(&self, id: Option<Id>) -> Option<Id> {
        let arranges =
            |step: &Step<'_, '_>| step.traits.is(Flag::Arranges) && !["Concat", "Slice"].contains(&step.node.op_type);
        Some(self.flow.source(id?, arranges).0)
    }

    /// The sign of a part: -1, 1, or 0 where it may have either.
    fn sign(&self, (part, is_negative): (Part, bool)) -> i32 {
        let bounds = match part {
            Part::Value(id) => self.bounds[id],
            Part::Product(_) => ANY,
        };
        let sign = i32::from(bounds.least >= 0.0) - i32::from(bounds.greatest <= 0.0);
        if is_negative { -sign } else { sign }
    }

    /// The steps between the parts of a sum and what nearly cancels in two of them.
    fn kept(&self, sum: &Parts) -> Vec<usize> {
        let traced: Vec<_> = sum.parts.iter().map(|&(part, _)| self.trace(part, false)).collect();
        let mut kept = Vec::new();
        for (one, square) in traced.iter().enumerate() {
            for (other, factor) in traced.iter().enumerate().filter(|&(other, _)| other != one) {
                let signs = [one, other].map(|index| self.sign(sum.parts[index]));
                if signs[0] != 0 && signs[0] == signs[1] && !sum.in_product {
                    continue;
                }
                let mut met = HashSet::new();
                if sum.parts[one].1 != sum.parts[other].1 {
                    let differences = self.differences(square, factor);
                    for [at, place] in products_of_means(square, factor).into_iter().chain(differences) {
                        met.insert(square[at].id);
                        let ways = [self.way(square, at, &met), self.way(factor, place, &met)];
                        kept.extend(ways.into_iter().flatten().flatten());
                    }
                }
                for (at, reached) in square.iter().enumerate().filter(|(_, one)| one.degree == Degree::Square) {
                    let meets = |other: &Reached| other.id == reached.id && sum.cancels(reached, other);
                    if let Some(place) = factor.iter().position(meets) {
                        met.insert(reached.id);
                        let ways = [self.way(square, at, &met), self.way(factor, place, &met)];
                        kept.extend(ways.into_iter().flatten().flatten());
                    }
                }
                if !met.is_empty() {
                    kept.extend(&sum.steps);
                }
            }
        }
        kept
    }

    /// Where what is exact is, as it is, in each of two parts.
    fn differences<'r>(&'r self, one: &'r [Reached], other: &'r [Reached]) -> impl Iterator<Item = [usize; 2]> + 'r {
        let is_exact = |one: &Reached| one.degree == Degree::Plain && self.exact.contains(&one.id);
        let exact = one.iter().enumerate().filter(move |(_, reached)| is_exact(reached));
        exact.filter_map(|(at, reached)| {
            let same = |other: &Reached| other.degree == Degree::Plain && other.id == reached.id;
            Some([at, other.iter().position(same)?])
        })
    }

    /// The steps between what was reached and the part; none if what was met is on the way.
    pub(super) fn way(&self, reached: &[Reached], mut at: usize, met: &HashSet<Id>) -> Option<Vec<usize>> {
        let mut steps = Vec::new();
        while let Some(from) = reached[at].from {
            at = from;
            if met.contains(&reached[at].id) {
                return None;
            }
            if let Origin::Node(step, _) = self.flow.values[reached[at].id].origin {
                steps.push(step);
            }
        }
        Some(steps)
    }
}

/// Where two values are that one part multiplies, and another one their means: in each of the two.
fn products_of_means(one: &[Reached], other: &[Reached]) -> Vec<[usize; 2]> {
    let mut found = Vec::new();
    for (at, reached) in one.iter().enumerate().filter(|(_, reached)| reached.is_total && !reached.is_mean) {
        let Some((product, side)) = reached.product else { continue };
        let mean = |place: &usize| other[*place].id == reached.id && other[*place].is_mean;
        for place in (0..other.len()).filter(mean) {
            let Some((of_means, other_side)) = other[place].product else { continue };
            let has_partner = one.iter().any(|partner| {
                let is_mean = |mean: &Reached| mean.id == partner.id && mean.is_mean;
                partner.product == Some((product, 1 - side))
                    && other.iter().any(|mean| is_mean(mean) && mean.product == Some((of_means, 1 - other_side)))
            });
            found.extend(has_partner.then_some([at, place]));
        }
    }
    found
}

impl Reached {
    /// A value where nothing is known of the way to it.
    fn of(id: Id) -> Self {
        let degree = Degree::Plain;
        Reached { id, degree, weighed: (0, false), product: None, is_mean: false, is_total: false, from: None }
    }
}

impl Parts {
    /// Whether a value nearly cancels that is squared in one part and reached in another one.
    fn cancels(&self, square: &Reached, other: &Reached) -> bool {
        if self.in_product {
            // Beside a vector its square as a number: the product adds up a norm and a product of the vector.
            return other.degree == Degree::Plain && !other.is_total && square.is_total && square.weighed.0 == 0;
        }
        match other.degree {
            Degree::Square => square.weighed.0 == other.weighed.0,
            Degree::Factor => !square.weighed.1,
            Degree::Plain => false,
        }
    }
}

/// Whether a value is an initializer, or what a Constant gives.
pub(crate) fn is_constant(flow: &Flow<'_, '_>, id: Id) -> bool {
    match flow.values[id].origin {
        Origin::Initializer(..) => true,
        Origin::Node(step, _) => flow.steps[step].node.is("Constant"),
        Origin::Other => false,
    }
}
