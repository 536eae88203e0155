//! Sums whose parts nearly cancel: `E[x^2] - E[x]^2`, or the square of a distance written out, `a^2 - 2ab + b^2`. One
//! value is squared in one part, and is a factor in another; or two values are multiplied in one, and their means in
//! another, as in `E[xy] - E[x] E[y]`. Where they are far from zero both parts are large, and their sum is not. The
//! same holds for differences of the elements of what is exact, such as those between points. Rounding the value itself
//! moves both alike; rounding what lies between it and the sum moves the sum by a part of the square.

use super::bounds::{ANY, Bounds};
use super::constants::overflows;
use super::pins::{Reason, Variable};
use super::variables::Variables;
use crate::graph::dataflow::{Dataflow, Giver};
use crate::graph::values::{Origin, Step};
use crate::operators::Computes::{Choice, Power, Product, Products, Quotient, Root, Squares, Sum, Total};
use crate::operators::{BoundRule, Flag};
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
    pub(super) value: usize,
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
    Value(usize),
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

pub(super) struct Search<'b, 't, 'a> {
    pub(super) model: &'b Dataflow<'b, 't, 'a>,
    bounds: &'b [Bounds],
    /// By value: whether it is computed from constants alone.
    pub(super) fixed: &'b [bool],
    /// By value: whether it is not rounded, such as an input of the model.
    exact: Vec<bool>,
    /// By value: whether a square is among what it adds up.
    squares: Vec<bool>,
}

/// Pins what is between a value and a sum that it nearly cancels in, and quotients of sums.
pub(crate) fn pin(
    variables: &mut Variables<'_, '_, '_>,
    model: &Dataflow<'_, '_, '_>,
    bounds: &[Bounds],
    fixed: &[bool],
) {
    let search = Search::of(model, bounds, fixed, variables.roots[0]);
    let sums = (0..model.nodes.len())
        .map(|at| (at, search.sums(at).iter().flat_map(|sum| search.kept(sum)).collect::<Vec<_>>()));
    let cancelling = sums.map(|(at, nodes)| ("parts that nearly cancel", at, nodes));
    let quotients = if overflows(f32::MAX / 4.0, variables.low) { search.quotients() } else { Vec::new() };
    let quotients = quotients.into_iter().map(|(at, nodes)| ("a quotient of sums that may overflow", at, nodes));
    let mut found: Vec<(Variable, Reason)> = Vec::new();
    for (what, at, nodes) in cancelling.chain(quotients) {
        let reason = Reason::Needed { what, by: model.nodes[at].label() };
        let nodes = nodes.into_iter().map(|node| &model.nodes[node]);
        let nodes = nodes.filter_map(|node| variables.nodes[node.body][node.at]);
        found.extend(nodes.map(|node| (node, reason.clone())));
    }
    found.into_iter().for_each(|(variable, reason)| variables.pins.wide(variable, reason));
}

impl<'b, 't, 'a> Search<'b, 't, 'a> {
    fn of(model: &'b Dataflow<'b, 't, 'a>, bounds: &'b [Bounds], fixed: &'b [bool], root: usize) -> Self {
        let is_input = |value: usize| {
            let value = &model.values[value];
            let flow = &model.bodies[value.body].flow;
            value.body == 0 && flow.values[value.id].graph == root && flow.values[value.id].origin == Origin::Other
        };
        let exact = (0..model.values.len()).map(is_input).collect();
        let mut search = Search { model, bounds, fixed, exact, squares: Vec::new() };
        search.squares = model.forward(vec![false; model.values.len()], |node, output, facts| {
            let Giver::Node(at, _) = node.outputs[output].map_or(&Giver::Nothing, |value| &model.values[value].giver)
            else {
                return false;
            };
            let inputs = search.inputs(*at, Degree::Plain);
            inputs.iter().any(|next| next.degree == Degree::Square || facts[next.value])
        });
        search
    }

    /// The inputs that a node adds up or multiplies, each with the degree that it has in a result of a given degree.
    /// Empty for a node that does neither.
    fn inputs(&self, at: usize, degree: Degree) -> Vec<Reached> {
        let (node, step) = (&self.model.nodes[at], self.model.nodes[at].step);
        let given = |index: usize| node.input(index);
        let is_fixed = |index: usize| given(index).is_some_and(|value| self.fixed[value]);
        let next = |index: usize, degree: Degree| {
            let value = given(index).filter(|&value| !self.fixed[value])?;
            let product = (degree == Degree::Factor).then_some((at, index));
            Some(Reached { degree, product, ..Reached::of(value) })
        };
        let all = |degree: Degree| (0..node.inputs.len()).filter_map(|index| next(index, degree)).collect::<Vec<_>>();
        let totals = |all: Vec<Reached>| all.into_iter().map(|next| Reached { is_total: true, ..next }).collect();
        let one = |next: Option<Reached>| next.into_iter().collect();
        match step.traits.computes {
            // The result of another subtraction is no part of this sum's square.
            Some(Sum) if is_difference(step) => Vec::new(),
            Some(Sum) => all(Degree::Plain),
            Some(Total) => totals(one(next(0, Degree::Plain))),
            Some(Squares) => totals(one(next(0, Degree::Square))),
            Some(Power) if given(1).is_some_and(|value| self.bounds[value].least >= 2.0) => {
                one(next(0, Degree::Square))
            }
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
            None if negates(step) || step.traits.is(Flag::Picks) => one(next(0, Degree::Plain)),
            None if step.traits.is(Flag::Arranges) => all(Degree::Plain),
            _ => Vec::new(),
        }
    }

    /// The sums that a node computes: of its inputs, or, in a matrix product, of the parts that a Concat joins in one
    /// of its inputs.
    fn sums(&self, at: usize) -> Vec<Parts> {
        let (node, step) = (&self.model.nodes[at], self.model.nodes[at].step);
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
            all.extend((0..2).filter_map(|index| self.joined(at, node.input(index)?)));
        }
        let squares = |&(part, _): &(Part, bool)| matches!(part, Part::Value(value) if self.squares[value]);
        let subtracts = |sum: &Parts| sum.parts.iter().any(|part| part.1 != sum.parts[0].1);
        all.retain(|sum| sum.parts.len() <= MOST && (subtracts(sum) || sum.parts.iter().any(squares)));
        all
    }

    /// Adds the terms of a node to a sum.
    fn add(&self, at: usize, is_negative: bool, sum: &mut Parts) {
        let (node, step) = (&self.model.nodes[at], self.model.nodes[at].step);
        sum.steps.push(at);
        let mut inputs = node.inputs.iter().enumerate().collect::<Vec<_>>();
        if step.traits.computes == Some(Products) {
            sum.parts.push((Part::Product(at), is_negative));
            inputs.retain(|&(index, _)| index > 1);
        }
        for (index, &value) in inputs {
            let Some(value) = value.filter(|&value| !self.fixed[value]) else { continue };
            let is_negative = is_negative != (index == 1 && is_difference(step) || negates(step));
            let known = &self.model.values[value];
            let is_own = known.reads.len() == 1 && known.becomes.is_empty() && !known.is_output;
            let adds = |before: &Step<'_, '_>| before.traits.computes == Some(Sum) || negates(before);
            match known.giver {
                Giver::Node(before, 0) if is_own && sum.steps.len() < MOST && adds(self.model.nodes[before].step) => {
                    self.add(before, is_negative, sum);
                }
                _ => sum.parts.push((Part::Value(value), is_negative)),
            }
        }
    }

    /// The values that are joined in an input of a product.
    fn joined(&self, product: usize, value: usize) -> Option<Parts> {
        let arranges = |step: &Step<'_, '_>| step.traits.is(Flag::Arranges) && !step.node.is("Concat");
        let (ends, mut steps) = self.model.sources(value, arranges);
        let at = self.model.node_of(*ends.first()?).filter(|_| ends.len() == 1)?;
        steps.extend([product, at]);
        let parts = self.inputs(at, Degree::Plain).into_iter().map(|next| (Part::Value(next.value), false)).collect();
        self.model.nodes[at].step.node.is("Concat").then_some(Parts { steps, parts, in_product: true })
    }

    /// The values that a part is computed from, through roots of what is not squared, too, or not.
    pub(super) fn trace(&self, part: Part, through_roots: bool) -> Vec<Reached> {
        let mut reached = match part {
            Part::Value(value) => vec![Reached::of(value)],
            Part::Product(at) => self.inputs(at, Degree::Plain),
        };
        let mut seen = HashSet::new();
        let mut at = 0;
        while let Some(&before) = reached.get(at).filter(|_| reached.len() < MOST) {
            let next = match &self.model.values[before.value].giver {
                Giver::Node(node, _) => self.inputs(*node, if through_roots { Degree::Square } else { before.degree }),
                Giver::Values(values) => values.iter().map(|&value| Reached::of(value)).collect(),
                Giver::Nothing => Vec::new(),
            };
            for next in next {
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
                if seen.insert((next.value, next.degree, before.value)) {
                    reached.push(next);
                }
            }
            at += 1;
        }
        reached
    }

    /// The value that arranging gives another one of.
    fn source(&self, value: Option<usize>) -> Option<Vec<usize>> {
        let arranges =
            |step: &Step<'_, '_>| step.traits.is(Flag::Arranges) && !["Concat", "Slice"].contains(&step.node.op_type);
        Some(self.model.sources(value?, arranges).0)
    }

    /// The sign of a part: -1, 1, or 0 where it may have either.
    fn sign(&self, (part, is_negative): (Part, bool)) -> i32 {
        let bounds = match part {
            Part::Value(value) => self.bounds[value],
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
                        met.insert(square[at].value);
                        let ways = [self.way(square, at, &met), self.way(factor, place, &met)];
                        kept.extend(ways.into_iter().flatten().flatten());
                    }
                }
                for (at, reached) in square.iter().enumerate().filter(|(_, one)| one.degree == Degree::Square) {
                    let meets = |other: &Reached| other.value == reached.value && sum.cancels(reached, other);
                    if let Some(place) = factor.iter().position(meets) {
                        met.insert(reached.value);
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
        let is_exact = |one: &Reached| one.degree == Degree::Plain && self.exact[one.value];
        let exact = one.iter().enumerate().filter(move |(_, reached)| is_exact(reached));
        exact.filter_map(|(at, reached)| {
            let same = |other: &Reached| other.degree == Degree::Plain && other.value == reached.value;
            Some([at, other.iter().position(same)?])
        })
    }

    /// The steps between what was reached and the part; none if what was met is on the way.
    pub(super) fn way(&self, reached: &[Reached], mut at: usize, met: &HashSet<usize>) -> Option<Vec<usize>> {
        let mut steps = Vec::new();
        while let Some(from) = reached[at].from {
            at = from;
            if met.contains(&reached[at].value) {
                return None;
            }
            steps.extend(self.model.node_of(reached[at].value));
        }
        Some(steps)
    }
}

/// Where two values are that one part multiplies, and another one their means: in each of the two.
fn products_of_means(one: &[Reached], other: &[Reached]) -> Vec<[usize; 2]> {
    let mut found = Vec::new();
    for (at, reached) in one.iter().enumerate().filter(|(_, reached)| reached.is_total && !reached.is_mean) {
        let Some((product, side)) = reached.product else { continue };
        let mean = |place: &usize| other[*place].value == reached.value && other[*place].is_mean;
        for place in (0..other.len()).filter(mean) {
            let Some((of_means, other_side)) = other[place].product else { continue };
            let has_partner = one.iter().any(|partner| {
                let is_mean = |mean: &Reached| mean.value == partner.value && mean.is_mean;
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
    fn of(value: usize) -> Self {
        let degree = Degree::Plain;
        Reached { value, degree, weighed: (0, false), product: None, is_mean: false, is_total: false, from: None }
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

/// Whether a step subtracts its second input from its first.
fn is_difference(step: &Step<'_, '_>) -> bool {
    step.traits.is_bounded_by(BoundRule::Difference)
}

fn negates(step: &Step<'_, '_>) -> bool {
    step.traits.is_bounded_by(BoundRule::Neg)
}
