//! Layer normalization written out as plain operators, which onnxruntime replaces by one LayerNormalization:
//!
//! ```text
//! x -> [Cast] -> ReduceMean -> Sub -> Pow -> ReduceMean -> Add -> Sqrt -> Div -> [Cast] -> Mul -> Add
//! ```
//!
//! It drops the two Casts in brackets; the first one only if nothing else reads it. From opset 17 on the result loads
//! only if the input that is left and the scale and bias are of one type. So the scale and bias are asked to be of the
//! type of that input, as far as this costs no more Casts than a copy (`assign.rs`). Where they are not, a copy keeps
//! the fusion away, or lets it have the float input (`write/apart.rs`).

use super::pins::{Pins, Variable};
use super::variables::{Use, Variables};
use crate::graph::values::{Flow, Id, Origin};

/// Operators that onnxruntime takes away before it looks for a normalization, or within it.
const TRANSPARENT: &[&str] = &["Cast", "Dropout", "Identity"];

/// How many of those are looked through, so that no model makes this slow.
const MOST: usize = 16;

/// A layer normalization.
#[derive(Debug)]
pub(crate) struct Norm {
    /// What the mean is taken of.
    pub(crate) input: Id,
    /// The step of that mean.
    mean: usize,
    /// Where the input is read.
    pub(crate) reads: Vec<(Id, Use)>,
    /// Where the scale reads what was divided.
    pub(crate) quotient: (Id, Use),
    /// The steps that scale, and that add the bias.
    pub(crate) affine: [usize; 2],
}

/// The layer normalizations of a body.
pub(crate) fn find(flow: &Flow<'_, '_>) -> Vec<Norm> {
    let divisions = (0..flow.steps.len()).filter(|&step| is_one_of(flow, step, &["Div", "Mul"]));
    divisions.flat_map(|division| of_division(flow, division).unwrap_or_default()).collect()
}

/// The ones that divide in a step: one for each pair of a scale and a bias. onnxruntime makes a quotient of a product
/// by 1 / x.
fn of_division(flow: &Flow<'_, '_>, division: usize) -> Option<Vec<Norm>> {
    let from = |step: usize, input: usize, list: &[&str]| {
        giver(flow, *flow.steps[step].inputs.get(input)?).filter(|&step| is_one_of(flow, step, list))
    };
    let either = |step: usize, list: &[&str]| (0..2).find_map(|input| from(step, input, list));
    let divisor = if flow.steps[division].node.is("Mul") { either(division, &["Div"])? } else { division };
    let deviation = from(divisor, 1, &["Sqrt"])?;
    let variance = either(from(deviation, 0, &["Add"])?, &["ReduceMean"])?;
    let square = from(variance, 0, &["Mul", "Pow"])?;
    // Some exporters write the difference twice.
    let differences = [either(division, &["Sub"])?, from(square, 0, &["Sub"])?];
    let mean = either(differences[0], &["ReduceMean"])?;
    let input = (*flow.steps[mean].inputs.first()?)?;
    let mut reads = vec![(input, Use::Input(mean, 0))];
    for difference in differences {
        let inputs = flow.steps[difference].inputs.iter().enumerate();
        let (place, id) = inputs
            .filter_map(|(place, id)| Some((place, (*id)?)))
            .find(|&(_, id)| giver(flow, Some(id)) != Some(mean) && source(flow, id) == source(flow, input))?;
        let read = (id, Use::Input(difference, place));
        if !reads.contains(&read) {
            reads.push(read);
        }
    }
    let quotients = takers(flow, division, &["Mul"]).into_iter().flat_map(|(quotient, scale)| {
        takers(flow, scale, &["Add"]).into_iter().map(move |(_, bias)| (quotient, [scale, bias]))
    });
    Some(quotients.map(|(quotient, affine)| Norm { input, mean, reads: reads.clone(), quotient, affine }).collect())
}

fn is_one_of(flow: &Flow<'_, '_>, step: usize, list: &[&str]) -> bool {
    list.iter().any(|op_type| flow.steps[step].node.is(op_type))
}

/// The value that operators without an effect hand on as another one.
fn source(flow: &Flow<'_, '_>, id: Id) -> Id {
    flow.source(id, |step| TRANSPARENT.iter().any(|op_type| step.node.is(op_type))).0
}

/// The step that gives a value, but for operators without an effect.
fn giver(flow: &Flow<'_, '_>, id: Option<Id>) -> Option<usize> {
    match flow.values[source(flow, id?)].origin {
        Origin::Node(step, 0) => Some(step),
        _ => None,
    }
}

/// The steps of some operators that read what a step gives, likewise, each with what it reads and where.
fn takers(flow: &Flow<'_, '_>, step: usize, list: &[&str]) -> Vec<((Id, Use), usize)> {
    let (mut found, mut open) = (Vec::new(), vec![step]);
    for _ in 0..4 * MOST {
        let Some(step) = open.pop() else { break };
        let Some(Some(id)) = flow.steps[step].outputs.first() else { continue };
        let mut reads: Vec<_> = flow.values[*id].reads.iter().collect();
        reads.sort_unstable_by_key(|read| (read.step, read.input));
        for read in reads.into_iter().take(MOST) {
            if is_one_of(flow, read.step, TRANSPARENT) {
                open.push(read.step);
            } else if is_one_of(flow, read.step, list) {
                found.push(((*id, Use::Input(read.step, read.input)), read.step));
            }
        }
    }
    found
}

/// What a Cast of the model reads that gives the input, if nothing but the normalization reads that.
pub(crate) fn before_cast(flow: &Flow<'_, '_>, norm: &Norm) -> Option<Id> {
    let value = &flow.values[norm.input];
    let Origin::Node(step, 0) = value.origin else { return None };
    let is_only = value.outputs == 0 && value.reads.len() == norm.times() && flow.steps[step].node.is("Cast");
    flow.steps[step].inputs.first().copied().flatten().filter(|_| is_only)
}

impl Norm {
    /// How many times the input itself is read.
    pub(crate) fn times(&self) -> usize {
        self.reads.iter().filter(|(id, _)| *id == self.input).count()
    }

    /// The variable whose type the fused operator's input has, and those of the scale and bias. `wide` readers of the
    /// input are those that are float for sure: a Cast that others read too stays.
    pub(crate) fn tied(
        &self,
        variables: &Variables<'_, '_, '_>,
        place: usize,
        pins: &Pins,
        readers: &[Variable],
    ) -> Option<(Variable, Vec<Variable>)> {
        let wide = readers.iter().filter(|reader| pins.get(**reader).is_some_and(|pin| !pin.low)).count();
        let own = if wide > self.times() {
            variables.nodes[place][self.mean]
        } else {
            let before = before_cast(&variables.body(place).flow, self);
            before.map_or(variables.values[place][self.input], |before| variables.values[place][before])
        };
        let affine = self.affine.iter().filter_map(|&step| variables.nodes[place][step]);
        Some((variables.root(own?), affine.map(|variable| variables.root(variable)).collect()))
    }
}
