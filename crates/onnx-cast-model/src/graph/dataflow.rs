//! Dataflow analysis of a whole model: computes facts about its values until nothing changes (a fixed point).
//!
//! Subgraphs and called functions are joined with the enclosing graph into one. A value that crosses the boundary of a
//! graph has the fact of its source on the other side, or the join of the facts if it has several sources: the output
//! of an If comes from both branches.

use super::values::{Id, Origin, Step};
use crate::constant::ConstantValue;
use crate::tree::is_default;
use crate::types::schemas::Schema;
use crate::types::{Body, Typing};
use onnx_cast::DataType;
use onnx_cast_file::__private::{ParsedData, pb};

/// After this many rounds, each fact that still changes becomes unknown. After twice as many, all facts become unknown.
const MAX_ROUNDS: usize = 32;

/// A fact about a value.
pub(crate) trait Fact: Clone + PartialEq {
    /// The fact of a value that may be anything.
    const UNKNOWN: Self;

    /// The fact of a value that is one of two others.
    fn join(&self, other: &Self) -> Self;
}

/// The values and nodes of a model, numbered across all its bodies.
pub(crate) struct Dataflow<'d, 't, 'a> {
    pub(crate) bodies: &'d [Body<'t, 'a>],
    pub(crate) values: Vec<Value>,
    pub(crate) nodes: Vec<Node<'d, 't, 'a>>,
    /// By body: the index of its first value in `values`.
    first: Vec<usize>,
    /// By body: the index of its first node in `nodes`.
    first_nodes: Vec<usize>,
}

/// A value of a body.
pub(crate) struct Value {
    pub(crate) body: usize,
    pub(crate) id: Id,
    pub(crate) giver: Giver,
    /// The nodes that read it, each with the index of the input. Nodes that only run a graph or a function are left
    /// out.
    pub(crate) reads: Vec<(usize, usize)>,
    /// The values that it flows into across the boundary of a graph.
    pub(crate) becomes: Vec<usize>,
    pub(crate) is_output: bool,
}

/// Where a value comes from.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Giver {
    /// A node and the index of its output.
    Node(usize, usize),
    /// Any of these values, across the boundary of a graph.
    Values(Vec<usize>),
    /// An input of the model, or an initializer.
    Nothing,
}

/// A node of a body.
pub(crate) struct Node<'d, 't, 'a> {
    pub(crate) body: usize,
    /// Its index among the steps of the body.
    pub(crate) at: usize,
    pub(crate) step: &'d Step<'t, 'a>,
    pub(crate) inputs: Vec<Option<usize>>,
    pub(crate) outputs: Vec<Option<usize>>,
}

/// A value that a loop passes from one iteration to the next.
pub(crate) struct State {
    /// The input of the loop's graph.
    pub(crate) inner: usize,
    /// The output of the loop's graph.
    pub(crate) next: usize,
    /// The output of the loop.
    pub(crate) given: Option<usize>,
}

impl Node<'_, '_, '_> {
    /// The node's name in messages.
    pub(crate) fn label(&self) -> String {
        self.step.node.label(self.step.index)
    }

    /// An input, unless it is omitted.
    pub(crate) fn input(&self, index: usize) -> Option<usize> {
        self.inputs.get(index).copied().flatten()
    }
}

impl<'d, 't, 'a> Dataflow<'d, 't, 'a> {
    /// Builds the dataflow of a model. `roots` has the id of the outermost graph of each body.
    pub(crate) fn of(typing: &'d Typing<'t, 'a>, roots: &[usize]) -> Self {
        let mut all = Dataflow {
            bodies: &typing.bodies,
            values: Vec::new(),
            nodes: Vec::new(),
            first: Vec::new(),
            first_nodes: Vec::new(),
        };
        for (place, body) in all.bodies.iter().enumerate() {
            all.first.push(all.values.len());
            all.values.extend((0..body.flow.values.len()).map(|id| Value {
                body: place,
                id,
                giver: Giver::Nothing,
                reads: Vec::new(),
                becomes: Vec::new(),
                is_output: false,
            }));
        }
        let outputs = all.bodies.first().and_then(|body| body.flow.ports.get(&roots[0])).map(|ports| &ports.outputs);
        outputs.into_iter().flatten().flatten().for_each(|&id| all.values[id].is_output = true);
        for place in 0..all.bodies.len() {
            all.first_nodes.push(all.nodes.len());
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

    /// The index of a body's value in `values`.
    pub(crate) fn value(&self, body: usize, id: Id) -> usize {
        self.first[body] + id
    }

    /// The number of the node of a step.
    pub(crate) fn node(&self, body: usize, at: usize) -> usize {
        self.first_nodes[body] + at
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

    /// Whether a node only runs subgraphs or a function.
    fn runs_graphs(&self, body: usize, at: usize) -> bool {
        self.bodies[body].calls.contains_key(&at) || self.has_graphs(body, at)
    }

    /// Whether a node of a standard operator has subgraphs. Scan before version 9 does not count: its first input,
    /// `sequence_lens`, is not an input of its graph.
    fn has_graphs(&self, body: usize, at: usize) -> bool {
        let step = &self.bodies[body].flow.steps[at];
        let is_old = step.node.is("Scan") && self.bodies[body].schemas[at].is_none_or(|schema| schema.since < 9);
        is_default(step.node.domain) && step.node.graphs().next().is_some() && !is_old
    }

    /// The pairs of values that are connected across the boundary of a graph: (source, target).
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

    /// The connected pairs of a node with subgraphs. In a Loop, the trip count and the condition precede the state
    /// inputs; in the outputs of its graph, the condition precedes the state.
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
                // Without any iteration, the state keeps its initial value.
                pair(step.inputs[before + state], step.outputs.get(state).copied().flatten());
            }
        }
        pairs
    }

    /// The states that a Loop or Scan passes from one iteration to the next.
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

    /// Computes facts from inputs to outputs. `known` has the facts of model inputs and initializers, and a start value
    /// for every other value. `transfer` computes the fact of a node's output from the facts of all values.
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

    /// Computes facts from outputs to inputs. `known` has the fact of each value apart from its readers. `transfer`
    /// computes the fact that a value gets from one reader: a node, and the index of the input that reads it.
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

    /// Traces a value back through nodes that pass on their first input (`passes`). Returns the values where the trace
    /// ends, and the nodes on the way.
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
            // Bounds the work on long chains.
            if seen.len() < 256 {
                seen.extend(&next);
                open.extend(next);
            }
        }
        (ends, steps)
    }

    /// The schema of a node's operator; `None` for an unknown operator.
    pub(crate) fn schema(&self, node: &Node<'d, 't, 'a>) -> Option<&'static Schema> {
        self.bodies[node.body].schemas[node.at]
    }

    /// The value that a chain of Casts starts from, or the value itself.
    pub(crate) fn before_casts(&self, value: usize) -> usize {
        match self.sources(value, |step| step.node.is("Cast")).0[..] {
            [source] => source,
            _ => value,
        }
    }

    /// The nodes that read a node's outputs, directly or through nodes that pass them on (`passes`). Includes the nodes
    /// in between.
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

    /// The elements of an int64 constant.
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

    /// The node that a value is an output of.
    pub(crate) fn node_of(&self, value: usize) -> Option<usize> {
        match self.values[value].giver {
            Giver::Node(node, _) => Some(node),
            _ => None,
        }
    }

    /// Whether a value is computed, or crosses the boundary of a graph.
    pub(crate) fn is_given(&self, value: usize) -> bool {
        self.values[value].giver != Giver::Nothing
    }

    /// The element type of a tensor.
    pub(crate) fn data_type(&self, value: usize) -> Option<DataType> {
        let Value { body, id, .. } = self.values[value];
        self.bodies[body].types[id].as_ref()?.tensor()
    }

    /// Whether a value is an initializer or the output of a Constant.
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

/// For a Loop or Scan: the number of inputs before its state, the number of outputs of its graph before the state, and
/// the number of states. Zeros for other operators.
pub(crate) fn state_of(step: &Step<'_, '_>) -> [usize; 3] {
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

/// Something that may be true.
impl Fact for bool {
    const UNKNOWN: bool = true;

    fn join(&self, other: &bool) -> bool {
        *self || *other
    }
}
