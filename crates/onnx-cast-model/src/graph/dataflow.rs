//! Facts about the values of a whole model, to a fixed point. The graphs within nodes and the functions that nodes call
//! are one graph with what is around them: where a value crosses the border of a graph, it is the value outside that it
//! comes from, or one of several.

use super::values::{Id, Origin, Step};
use crate::constant::ConstantValue;
use crate::tree::is_default;
use crate::types::schemas::Schema;
use crate::types::{Body, Typing};
use onnx_cast::DataType;
use onnx_cast_file::__private::{ParsedData, pb};

/// After so many rounds, what still changes is unknown; after twice as many, everything is.
const MAX_ROUNDS: usize = 32;

/// What is known of a value.
pub(crate) trait Fact: Clone + PartialEq {
    /// What is known of a value that may be anything.
    const UNKNOWN: Self;

    /// What is known of a value that is one of two.
    fn join(&self, other: &Self) -> Self;
}

/// The values and nodes of a model, numbered across all its bodies.
pub(crate) struct Dataflow<'d, 't, 'a> {
    pub(crate) bodies: &'d [Body<'t, 'a>],
    pub(crate) values: Vec<Value>,
    pub(crate) nodes: Vec<Node<'d, 't, 'a>>,
    /// By body: the number of its first value.
    first: Vec<usize>,
}

/// A value of a body.
pub(crate) struct Value {
    pub(crate) body: usize,
    pub(crate) id: Id,
    pub(crate) giver: Giver,
    /// The nodes that read it, each with the place of the input, but for those that run graphs or functions with it.
    pub(crate) reads: Vec<(usize, usize)>,
    /// The values that it is, or may be, beyond the border of a graph.
    pub(crate) becomes: Vec<usize>,
    /// Whether it is an output of the model.
    pub(crate) is_output: bool,
}

/// Where a value comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Giver {
    /// An output of a node.
    Node(usize, usize),
    /// One of some values, beyond the border of a graph.
    Values(Vec<usize>),
    /// An input of the model, or an initializer.
    Nothing,
}

/// A node of a body.
pub(crate) struct Node<'d, 't, 'a> {
    pub(crate) body: usize,
    /// The place among the steps of the body.
    pub(crate) at: usize,
    pub(crate) step: &'d Step<'t, 'a>,
    pub(crate) inputs: Vec<Option<usize>>,
    pub(crate) outputs: Vec<Option<usize>>,
}

/// A value that a loop hands from one round to the next.
pub(crate) struct State {
    /// As a round takes it.
    pub(crate) inner: usize,
    /// As a round gives it.
    pub(crate) next: usize,
    /// As the loop gives it.
    pub(crate) given: Option<usize>,
}

impl Node<'_, '_, '_> {
    /// The node as people know it.
    pub(crate) fn label(&self) -> String {
        self.step.node.label(self.step.index)
    }

    /// An input, if it is there.
    pub(crate) fn input(&self, index: usize) -> Option<usize> {
        self.inputs.get(index).copied().flatten()
    }
}

impl<'d, 't, 'a> Dataflow<'d, 't, 'a> {
    /// Of a model, by the numbers of the outermost graphs of its bodies.
    pub(crate) fn of(typing: &'d Typing<'t, 'a>, roots: &[usize]) -> Self {
        let mut all = Dataflow { bodies: &typing.bodies, values: Vec::new(), nodes: Vec::new(), first: Vec::new() };
        for (place, body) in all.bodies.iter().enumerate() {
            all.first.push(all.values.len());
            let ports = body.flow.ports.get(&roots[place]).filter(|_| place == 0);
            let is_output = |id: Id| ports.is_some_and(|ports| ports.outputs.contains(&Some(id)));
            all.values.extend((0..body.flow.values.len()).map(|id| Value {
                body: place,
                id,
                giver: Giver::Nothing,
                reads: Vec::new(),
                becomes: Vec::new(),
                is_output: is_output(id),
            }));
        }
        for place in 0..all.bodies.len() {
            for (at, step) in all.bodies[place].flow.steps.iter().enumerate() {
                all.add(place, at, step);
            }
        }
        let borders: Vec<_> = (0..all.bodies.len()).flat_map(|place| all.borders(place, roots)).collect();
        for (outside, inside) in borders {
            all.values[outside].becomes.push(inside);
            match &mut all.values[inside].giver {
                Giver::Values(values) => values.push(outside),
                giver => *giver = Giver::Values(vec![outside]),
            }
        }
        all
    }

    /// The number of a value of a body.
    pub(crate) fn value(&self, body: usize, id: Id) -> usize {
        self.first[body] + id
    }

    fn add(&mut self, body: usize, at: usize, step: &'d Step<'t, 'a>) {
        let number = |id: &Option<Id>| id.map(|id| self.first[body] + id);
        let (inputs, outputs): (Vec<_>, Vec<_>) =
            (step.inputs.iter().map(number).collect(), step.outputs.iter().map(number).collect());
        let node = self.nodes.len();
        if !self.runs_graphs(body, at) {
            for (index, &id) in outputs.iter().enumerate() {
                id.into_iter().for_each(|id| self.values[id].giver = Giver::Node(node, index));
            }
            for (index, &id) in inputs.iter().enumerate() {
                id.into_iter().for_each(|id| self.values[id].reads.push((node, index)));
            }
        }
        self.nodes.push(Node { body, at, step, inputs, outputs });
    }

    /// Whether a node runs graphs or a function, and computes nothing itself.
    fn runs_graphs(&self, body: usize, at: usize) -> bool {
        self.bodies[body].calls.contains_key(&at) || self.has_graphs(body, at)
    }

    /// Whether it is a node of ONNX's own with graphs within it. Before version 9, Scan has an input of its own in front.
    fn has_graphs(&self, body: usize, at: usize) -> bool {
        let step = &self.bodies[body].flow.steps[at];
        let is_old = step.node.is("Scan") && self.bodies[body].schemas[at].is_none_or(|schema| schema.since < 9);
        is_default(step.node.domain) && step.node.graphs().next().is_some() && !is_old
    }

    /// The pairs of values that are one across the border of a graph: where the value comes from, and what it becomes.
    fn borders(&self, place: usize, roots: &[usize]) -> Vec<(usize, usize)> {
        let body = &self.bodies[place];
        let mut pairs = Vec::new();
        for (at, step) in body.flow.steps.iter().enumerate() {
            if let Some(&callee) = body.calls.get(&at) {
                let Some(ports) = self.bodies[callee].flow.ports.get(&roots[callee]) else { continue };
                let inner = |id: Id| self.value(callee, id);
                let given = step.inputs.iter().zip(&ports.inputs);
                pairs.extend(
                    given.filter_map(|(outside, &inside)| Some((self.value(place, (*outside)?), inner(inside)))),
                );
                let results = step.outputs.iter().zip(&ports.outputs);
                pairs.extend(
                    results.filter_map(|(outside, inside)| Some((inner((*inside)?), self.value(place, (*outside)?)))),
                );
            } else if self.has_graphs(place, at) {
                pairs.extend(self.around(place, step));
            }
        }
        pairs
    }

    /// The same, of a node with graphs within it. A Loop has its number of rounds and its condition in front of the
    /// state, and its graph gives a condition in front of it.
    fn around(&self, place: usize, step: &Step<'_, '_>) -> Vec<(usize, usize)> {
        let flow = &self.bodies[place].flow;
        let [before, given, states] = state_of(step);
        let mut pairs = Vec::new();
        let mut pair = |from: Option<Id>, to: Option<Id>| {
            pairs.extend(from.zip(to).map(|(from, to)| (self.value(place, from), self.value(place, to))));
        };
        for ports in step.node.graphs().filter_map(|graph| flow.ports.get(&graph.id)) {
            for (&outside, &inside) in step.inputs.iter().zip(&ports.inputs).skip(before) {
                pair(outside, Some(inside));
            }
            for (&inside, &outside) in ports.outputs.iter().skip(given).zip(&step.outputs) {
                pair(inside, outside);
            }
            for state in 0..states {
                let next = ports.outputs.get(given + state).copied().flatten();
                pair(next, ports.inputs.get(before + state).copied());
                // After no round, a state is what it was.
                pair(step.inputs[before + state], step.outputs.get(state).copied().flatten());
            }
        }
        pairs
    }

    /// The states that a Loop or Scan hands from one round to the next.
    pub(crate) fn states(&self, node: &Node<'d, 't, 'a>) -> Vec<State> {
        let flow = &self.bodies[node.body].flow;
        let [before, given, states] = if self.has_graphs(node.body, node.at) { state_of(node.step) } else { [0; 3] };
        let Some(ports) = node.step.node.graphs().find_map(|graph| flow.ports.get(&graph.id)) else {
            return Vec::new();
        };
        let state = |index: usize| {
            let next = self.value(node.body, (*ports.outputs.get(given + index)?)?);
            let inner = self.value(node.body, *ports.inputs.get(before + index)?);
            Some(State { inner, next, given: node.outputs.get(index).copied().flatten() })
        };
        (0..states).filter_map(state).collect()
    }

    /// Facts that nodes make of those of their inputs. `known` has those of the values that nothing gives, and for every
    /// other one what holds before anything is known; `transfer` gives that of an output of a node.
    pub(crate) fn forward<F: Fact>(
        &self,
        known: Vec<F>,
        transfer: impl Fn(&Node<'d, 't, 'a>, usize, &[F]) -> F,
    ) -> Vec<F> {
        self.solve(known, false, |value, facts| match &self.values[value].giver {
            Giver::Node(node, output) => transfer(&self.nodes[*node], *output, facts),
            Giver::Values(values) => joined(values.iter().map(|&value| facts[value].clone())).unwrap_or(F::UNKNOWN),
            Giver::Nothing => facts[value].clone(),
        })
    }

    /// Facts that nodes make of those of their outputs. `known` has what holds of a value whoever reads it; `transfer`
    /// gives what an input of a node makes of it.
    pub(crate) fn backward<F: Fact>(
        &self,
        known: Vec<F>,
        transfer: impl Fn(&Node<'d, 't, 'a>, usize, &[F]) -> F,
    ) -> Vec<F> {
        let start = known.clone();
        self.solve(known, true, |value, facts| {
            let Value { reads, becomes, .. } = &self.values[value];
            let by_nodes = reads.iter().map(|&(node, input)| transfer(&self.nodes[node], input, facts));
            let beyond = becomes.iter().map(|&value| facts[value].clone());
            joined(by_nodes.chain(beyond)).map_or_else(|| start[value].clone(), |fact| start[value].join(&fact))
        })
    }

    fn solve<F: Fact>(&self, mut facts: Vec<F>, backward: bool, of: impl Fn(usize, &[F]) -> F) -> Vec<F> {
        let mut is_settled = vec![false; facts.len()];
        for round in 0..2 * MAX_ROUNDS {
            let mut changed = false;
            for at in 0..facts.len() {
                let value = if backward { facts.len() - 1 - at } else { at };
                if is_settled[value] {
                    continue;
                }
                let fact = of(value, &facts);
                if fact != facts[value] {
                    changed = true;
                    is_settled[value] = round >= MAX_ROUNDS;
                    facts[value] = if is_settled[value] { F::UNKNOWN } else { fact };
                }
            }
            if !changed {
                return facts;
            }
        }
        vec![F::UNKNOWN; facts.len()]
    }

    /// What gives a value, by way of nodes that pass on their first input: nodes and values that nothing gives. The
    /// nodes on the way are given too.
    pub(crate) fn sources(&self, value: usize, passes: impl Fn(&Step<'t, 'a>) -> bool) -> (Vec<usize>, Vec<usize>) {
        let (mut open, mut seen, mut ends, mut steps) = (vec![value], vec![value], Vec::new(), Vec::new());
        while let Some(value) = open.pop() {
            let mut next = Vec::new();
            match &self.values[value].giver {
                Giver::Node(node, _) if passes(self.nodes[*node].step) => {
                    steps.push(*node);
                    next.extend(self.nodes[*node].inputs.first().copied().flatten());
                }
                Giver::Values(values) => next.extend(values),
                _ => ends.push(value),
            }
            next.retain(|value| !seen.contains(value));
            // So that no chain makes this slow.
            if seen.len() < 256 {
                seen.extend(&next);
                open.extend(next);
            }
        }
        (ends, steps)
    }

    /// The schema of a node's operator, if it is known.
    pub(crate) fn schema(&self, node: &Node<'d, 't, 'a>) -> Option<&'static Schema> {
        self.bodies[node.body].schemas[node.at]
    }

    /// What a value was before it was cast.
    pub(crate) fn before_casts(&self, value: usize) -> usize {
        match self.sources(value, |step| step.node.is("Cast")).0[..] {
            [source] => source,
            _ => value,
        }
    }

    /// The nodes that read what a node gives, as it is and through nodes that pass it on; these are among them.
    pub(crate) fn readers(&self, node: usize, passes: impl Fn(&Step<'t, 'a>) -> bool) -> Vec<usize> {
        let (mut found, mut seen) = (Vec::new(), Vec::new());
        let mut open: Vec<usize> = self.nodes[node].outputs.iter().copied().flatten().collect();
        while let Some(value) = open.pop() {
            for &(reader, _) in &self.values[value].reads {
                if !found.contains(&reader) {
                    found.push(reader);
                    let outputs = self.nodes[reader].outputs.iter().flatten();
                    open.extend(outputs.filter(|_| passes(self.nodes[reader].step) && found.len() < 64));
                }
            }
            for &beyond in &self.values[value].becomes {
                if !seen.contains(&beyond) && seen.len() < 64 {
                    seen.push(beyond);
                    open.push(beyond);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// The elements of a constant that is of int64.
    pub(crate) fn ints(&self, value: usize) -> Option<Vec<i64>> {
        let Value { body, id, .. } = self.values[value];
        let flow = &self.bodies[body].flow;
        let value = &flow.values[id];
        let bytes = |message| match pb::parse(message).ok().filter(|source| source.data_type == DataType::Int64)?.data {
            ParsedData::Bytes(bytes) => Some(bytes.into_owned()),
            _ => None,
        };
        let bytes = match value.origin {
            Origin::Initializer(index, None) => bytes(flow.graphs[&value.graph].initializers[index].message)?,
            Origin::Node(step, _) => match ConstantValue::of_node(flow.steps[step].node).ok()??.1 {
                ConstantValue::Tensor(message) => bytes(message)?,
                ConstantValue::Numbers(DataType::Int64, _, bytes) => bytes,
                _ => return None,
            },
            _ => return None,
        };
        let (words, _) = bytes.as_chunks::<8>();
        Some(words.iter().map(|word| i64::from_le_bytes(*word)).collect())
    }

    /// The node that gives a value, if one does.
    pub(crate) fn node_of(&self, value: usize) -> Option<usize> {
        match self.values[value].giver {
            Giver::Node(node, _) => Some(node),
            _ => None,
        }
    }

    /// Whether a node gives a value, or the border of a graph.
    pub(crate) fn is_given(&self, value: usize) -> bool {
        self.values[value].giver != Giver::Nothing
    }

    /// The type of the elements of a value that is a tensor.
    pub(crate) fn data_type(&self, value: usize) -> Option<DataType> {
        let Value { body, id, .. } = self.values[value];
        self.bodies[body].types[id].as_ref()?.tensor()
    }

    /// Whether a value is an initializer, or what a Constant gives.
    pub(crate) fn is_constant(&self, value: usize) -> bool {
        let Value { body, id, .. } = self.values[value];
        let flow = &self.bodies[body].flow;
        match flow.values[id].origin {
            Origin::Initializer(..) => true,
            Origin::Node(step, _) => flow.steps[step].node.is("Constant"),
            Origin::Other => false,
        }
    }
}

/// How many inputs of a Loop or Scan stand before its state, how many outputs of its graph, and how many states it has.
fn state_of(step: &Step<'_, '_>) -> [usize; 3] {
    if step.node.is("Loop") {
        [2, 1, step.inputs.len().saturating_sub(2)]
    } else if step.node.is("Scan") {
        let scanned = step.node.attribute("num_scan_inputs").map_or(0, |scanned| scanned.int());
        [0, 0, step.inputs.len().saturating_sub(usize::try_from(scanned).unwrap_or(usize::MAX))]
    } else {
        [0; 3]
    }
}

fn joined<F: Fact>(facts: impl Iterator<Item = F>) -> Option<F> {
    facts.reduce(|one, other| one.join(&other))
}

/// Whether something may be true.
impl Fact for bool {
    const UNKNOWN: bool = true;

    fn join(&self, other: &bool) -> bool {
        *self || *other
    }
}
