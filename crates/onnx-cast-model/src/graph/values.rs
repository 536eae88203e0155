//! Where the values of a body come from and who reads them, through the graphs within it.

use crate::operators::Traits;
use crate::tree::{Declared, Graph, Node};
use onnx_cast::DataType;
use onnx_cast_file::__private::pb;
use std::collections::{HashMap, HashSet};

/// The place of a value in [`Flow::values`].
pub(crate) type Id = usize;

/// A value: what an input, an initializer or a node gives.
#[derive(Debug)]
pub(crate) struct Value<'a> {
    /// Its name, which may be a new one.
    pub(crate) name: &'a str,
    /// The graph that it is of.
    pub(crate) graph: usize,
    pub(crate) origin: Origin,
    /// Its type, as far as the model tells it.
    pub(crate) data_type: Option<DataType>,
    pub(crate) reads: HashSet<Read>,
    /// How many outputs of graphs it is.
    pub(crate) outputs: usize,
}

/// What gives a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An initializer, and the input of the same name.
    Initializer(usize, Option<usize>),
    /// An output of the node of a step.
    Node(usize, usize),
    /// An input, or a sparse initializer.
    Other,
}

/// An input of the node of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Read {
    pub(crate) step: usize,
    pub(crate) input: usize,
}

/// A node, and the values that it reads and gives; `None` where an input is left out or nothing before it gives it.
#[derive(Debug)]
pub(crate) struct Step<'t, 'a> {
    pub(crate) node: &'t Node<'a>,
    /// What is known of its operator.
    pub(crate) traits: &'static Traits,
    pub(crate) graph: &'t Graph<'a>,
    pub(crate) index: usize,
    pub(crate) inputs: Vec<Option<Id>>,
    pub(crate) outputs: Vec<Option<Id>>,
    /// The step behind those of the graphs within it.
    pub(crate) end: usize,
}

/// The values that a graph takes and gives.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    pub(crate) inputs: Vec<Id>,
    /// None where nothing gives an output.
    pub(crate) outputs: Vec<Option<Id>>,
}

#[derive(Debug, Default)]
pub(crate) struct Flow<'t, 'a> {
    pub(crate) values: Vec<Value<'a>>,
    /// Every node, followed by those of the graphs within it.
    pub(crate) steps: Vec<Step<'t, 'a>>,
    /// By their numbers.
    pub(crate) graphs: HashMap<usize, &'t Graph<'a>>,
    /// Likewise.
    pub(crate) ports: HashMap<usize, Ports>,
    parents: HashMap<usize, usize>,
    /// How often a graph gives a name to a value.
    names: HashMap<(usize, &'a str), usize>,
    /// Names that nothing gave a value to when they were read.
    unknown: HashSet<&'a str>,
    scopes: Vec<HashMap<&'a str, Id>>,
}

impl<'t, 'a> Flow<'t, 'a> {
    /// Of a body, by what is known of operators: [`Traits::of`], but in a test.
    pub(crate) fn of(body: &'t Graph<'a>, traits: fn(&str, &str) -> &'static Traits) -> Self {
        let mut flow = Flow::default();
        flow.read(body, traits);
        flow
    }

    fn read(&mut self, graph: &'t Graph<'a>, traits: fn(&str, &str) -> &'static Traits) {
        self.graphs.insert(graph.id, graph);
        self.scopes.push(HashMap::new());
        let declared: HashMap<&str, DataType> = graph
            .value_info
            .iter()
            .chain(&graph.outputs)
            .filter_map(|declared: &Declared<'_>| Some((declared.name, declared.data_type?)))
            .collect();
        let mut ports = Ports::default();
        for input in &graph.inputs {
            ports.inputs.push(self.define(graph.id, input.name, Origin::Other, input.data_type));
        }
        self.initializers(graph);
        for name in &graph.sparse {
            self.define(graph.id, name, Origin::Other, None);
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            let step = self.steps.len();
            let inputs: Vec<_> = node.inputs.iter().map(|name| self.resolve(name)).collect();
            for (input, id) in inputs.iter().enumerate() {
                match id {
                    Some(id) => drop(self.values[*id].reads.insert(Read { step, input })),
                    None => drop(self.unknown.insert(node.inputs[input])),
                }
            }
            let of_node = traits(node.domain, node.op_type);
            self.steps.push(Step { node, traits: of_node, graph, index, inputs, outputs: Vec::new(), end: step });
            for within in node.graphs() {
                self.parents.insert(within.id, graph.id);
                self.read(within, traits);
            }
            self.steps[step].end = self.steps.len();
            for (place, name) in node.outputs.iter().enumerate() {
                let data_type = declared.get(name).copied();
                let id = (!name.is_empty()).then(|| self.define(graph.id, name, Origin::Node(step, place), data_type));
                self.steps[step].outputs.push(id);
            }
        }
        for output in &graph.outputs {
            let id = self.resolve(output.name);
            if let Some(id) = id {
                self.values[id].outputs += 1;
            }
            ports.outputs.push(id);
        }
        self.ports.insert(graph.id, ports);
        self.scopes.pop();
    }

    /// The initializers of a graph, which may be values of its inputs.
    fn initializers(&mut self, graph: &'t Graph<'a>) {
        let inputs: HashMap<&str, usize> =
            graph.inputs.iter().enumerate().map(|(index, input)| (input.name, index)).collect();
        for (index, named) in graph.initializers.iter().enumerate() {
            let data_type = pb::head(named.message).ok().map(|head| head.data_type);
            let input = inputs.get(named.name).copied();
            let origin = Origin::Initializer(index, input);
            match input.and_then(|_| self.resolve(named.name)) {
                Some(id) if self.values[id].origin == Origin::Other => {
                    self.values[id].origin = origin;
                    self.values[id].data_type = data_type;
                }
                _ => drop(self.define(graph.id, named.name, origin, data_type)),
            }
        }
    }

    fn resolve(&self, name: &str) -> Option<Id> {
        if name.is_empty() {
            return None; // an input that is left out
        }
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    fn define(&mut self, graph: usize, name: &'a str, origin: Origin, data_type: Option<DataType>) -> Id {
        let id = self.values.len();
        self.values.push(Value { name, graph, origin, data_type, reads: HashSet::new(), outputs: 0 });
        *self.names.entry((graph, name)).or_default() += 1;
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, id);
        }
        id
    }

    /// Whether `name` means a value of `graph`, and one only, to the nodes of the graph `at`.
    pub(crate) fn means(&self, name: &str, graph: usize, mut at: usize) -> bool {
        if self.unknown.contains(name) {
            return false;
        }
        while at != graph {
            let Some(&parent) = self.parents.get(&at) else { return false };
            if self.names.contains_key(&(at, name)) {
                return false;
            }
            at = parent;
        }
        self.names.get(&(graph, name)) == Some(&1)
    }

    /// Whether all that reads a value could read it by the name of a value of `graph`.
    pub(crate) fn all_know(&self, id: Id, name: &str, graph: usize) -> bool {
        self.values[id].reads.iter().all(|read| self.means(name, graph, self.steps[read.step].graph.id))
    }

    /// Has a node read another value.
    pub(crate) fn redirect(&mut self, read: Read, from: Id, to: Id) {
        self.values[from].reads.remove(&read);
        self.values[to].reads.insert(read);
        self.steps[read.step].inputs[read.input] = Some(to);
    }

    /// Whether something reads a name before anything gives it a value.
    pub(crate) fn is_unknown(&self, name: &str) -> bool {
        self.unknown.contains(name)
    }

    /// What gives a value by way of steps that pass on their first input, and those steps, the last one first.
    pub(crate) fn source(&self, mut id: Id, passes: impl Fn(&Step<'t, 'a>) -> bool) -> (Id, Vec<usize>) {
        let mut steps = Vec::new();
        while let Origin::Node(at, _) = self.values[id].origin {
            let first = self.steps[at].inputs.first().copied().flatten();
            // So that no chain makes this slow.
            let Some(before) = first.filter(|_| steps.len() < 64 && passes(&self.steps[at])) else { break };
            steps.push(at);
            id = before;
        }
        (id, steps)
    }

    /// Whether nothing has a use for a value.
    pub(crate) fn is_unused(&self, id: Id) -> bool {
        self.values[id].reads.is_empty() && self.values[id].outputs == 0
    }
}
