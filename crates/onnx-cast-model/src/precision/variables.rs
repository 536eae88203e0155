//! The type variables of a model: which types may become narrow, and which must be equal. Each floating-point value has
//! a variable. An operator has one for its floating-point inputs and outputs, and separate ones for inputs whose type
//! may differ and that stay float. Variables that a schema or the boundary of a graph ties are united. A [`Reading`] is
//! a use of a value at the type of a variable: if that differs from the value's own type, a Cast is inserted.

use super::pins::{Pins, Reason, Variable};
use crate::graph::dataflow::state_of;
use crate::graph::values::{Id, Origin, Step};
use crate::operators::{Flag, Meaning, TypeSource};
use crate::tree::{Document, is_default};
use crate::types::schemas::{Arity, Formal, FormalType, Schema};
use crate::types::value::ValueType;
use crate::types::{Body, Typing};
use onnx_cast::DataType;
use std::collections::{HashMap, HashSet};

/// The newest opset that runtimes load: onnxruntime 1.31.
const LOADED_OPSET: i64 = 26;

/// The variable that is never narrow.
pub(crate) const WIDE: Variable = 0;

/// Where a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Use {
    /// An input of the node of a step.
    Input(usize, usize),
    /// An output of a graph, by the graph's number.
    Output(usize, usize),
}

/// A value that is read at the type of a variable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) body: usize,
    pub(crate) value: Id,
    pub(crate) place: Use,
    pub(crate) variable: Variable,
    /// Whether the reader takes any type, as a Cast does.
    pub(crate) takes_any: bool,
}

/// The variables of a model.
#[derive(Debug)]
pub(crate) struct Variables<'s, 't, 'a> {
    pub(crate) typing: &'s Typing<'t, 'a>,
    /// The types that are converted.
    pub(crate) from: &'static [DataType],
    /// The target type.
    pub(crate) low: DataType,
    /// By variable: another one that it is united with.
    parents: Vec<Variable>,
    /// By body and value: its variable, if it is of floats.
    pub(crate) values: Vec<Vec<Option<Variable>>>,
    /// By body and step: the variable of an operator.
    pub(crate) nodes: Vec<Vec<Option<Variable>>>,
    pub(crate) readings: Vec<Reading>,
    pub(crate) pins: Pins,
    /// Constants, which may be stored in both types, by body.
    pub(crate) constants: Vec<HashSet<Id>>,
    /// The opset from which on operators take the narrow type that do not yet.
    pub(crate) raise_to: Option<i64>,
    /// The variables of states that operators add to, each with the node's label.
    pub(crate) states: Vec<(Variable, String)>,
    /// By body: the number of its outermost graph.
    pub(crate) roots: Vec<usize>,
    /// By the body of a function and its output: the variable at which calls read it.
    results: HashMap<(usize, usize), Variable>,
    /// By body and graph: how many loops there are around it.
    loops: Vec<HashMap<usize, u32>>,
}

impl<'s, 't, 'a> Variables<'s, 't, 'a> {
    /// `constant` tells whether an initializer or the value of a Constant may be stored in another type.
    pub(crate) fn of(
        document: &Document<'_>,
        typing: &'s Typing<'t, 'a>,
        (from, low): (&'static [DataType], DataType),
        constant: &dyn Fn(usize, Id) -> bool,
    ) -> Variables<'s, 't, 'a> {
        let bodies = || typing.bodies.iter();
        let mut all = Variables {
            typing,
            from,
            low,
            parents: vec![WIDE],
            values: bodies().map(|body| vec![None; body.types.len()]).collect(),
            nodes: bodies().map(|body| vec![None; body.flow.steps.len()]).collect(),
            readings: Vec::new(),
            pins: Pins::default(),
            constants: bodies().map(|_| HashSet::new()).collect(),
            roots: bodies()
                .map(|body| body.function.map_or(document.graph.id, |at| document.functions[at].id))
                .collect(),
            raise_to: None,
            states: Vec::new(),
            results: HashMap::new(),
            loops: bodies().map(loops).collect(),
        };
        for (place, body) in bodies().enumerate() {
            for (id, of_type) in body.types.iter().enumerate() {
                if of_type.as_ref().is_some_and(|of_type| of_type.with_floats_as(from, low).is_some()) {
                    all.values[place][id] = Some(all.variable());
                    if constant(place, id) {
                        all.constants[place].insert(id);
                    }
                }
            }
        }
        for (place, body) in bodies().enumerate() {
            (0..body.flow.steps.len()).for_each(|step| all.step(place, step));
        }
        all
    }

    pub(crate) fn variable(&mut self) -> Variable {
        self.parents.push(self.parents.len());
        self.parents.len() - 1
    }

    pub(crate) fn len(&self) -> usize {
        self.parents.len()
    }

    /// The variable that stands for all that are united with one.
    pub(crate) fn root(&self, mut variable: Variable) -> Variable {
        while self.parents[variable] != variable {
            variable = self.parents[variable];
        }
        variable
    }

    /// The roots of all variables that no request can make narrow.
    pub(crate) fn impossible(&self) -> HashSet<Variable> {
        self.pins.impossible().map(|variable| self.root(variable)).collect()
    }

    /// The same, which halves the way for the next time.
    fn find(&mut self, mut variable: Variable) -> Variable {
        while self.parents[variable] != variable {
            self.parents[variable] = self.parents[self.parents[variable]];
            variable = self.parents[variable];
        }
        variable
    }

    fn unite(&mut self, one: Variable, other: Variable) {
        let (one, other) = (self.find(one), self.find(other));
        // The older one stands for both, so that `WIDE` stays what it is.
        let (old, new) = (one.min(other), one.max(other));
        self.parents[new] = old;
    }

    pub(crate) fn body(&self, place: usize) -> &'s Body<'t, 'a> {
        &self.typing.bodies[place]
    }

    /// The target type if `low`, or else the value's own type.
    pub(crate) fn type_of(&self, body: usize, value: Option<Id>, low: bool) -> DataType {
        let own = || self.body(body).types[value?].as_ref()?.tensor();
        if low { self.low } else { own().unwrap_or(DataType::Float) }
    }

    /// Whether a value can be cast.
    pub(crate) fn is_tensor(&self, body: usize, value: Id) -> bool {
        matches!(self.body(body).types[value], Some(ValueType::Tensor(_) | ValueType::Sparse(_)))
    }

    fn pin(&mut self, variable: Variable, reason: Reason) {
        if let Reason::Schema { since: Some(since) } = reason {
            self.gains_from(since);
        }
        self.pins.wide(variable, reason);
    }

    /// Notes an opset from which on more is narrow. Beyond some, no runtime loads a model yet.
    pub(crate) fn gains_from(&mut self, since: i64) {
        self.raise_to = self.raise_to.max(Some(since).filter(|&since| since <= LOADED_OPSET));
    }

    /// Notes that a value is read at the type of a variable. What is not a tensor cannot be cast: it is of that type.
    fn read(&mut self, body: usize, value: Option<Id>, place: Use, variable: Variable) {
        let Some(value) = value else { return };
        let Some(own) = self.values[body][value] else { return };
        if self.is_tensor(body, value) {
            self.readings.push(Reading { body, value, place, variable, takes_any: false });
        } else {
            self.unite(own, variable);
        }
    }

    fn value(&self, body: usize, value: Option<Id>) -> Option<Variable> {
        self.values[body][value?]
    }

    /// The variables of a node, and what it ties.
    fn step(&mut self, place: usize, at: usize) {
        let body = self.body(place);
        let step = &body.flow.steps[at];
        if let Some(&callee) = body.calls.get(&at) {
            return self.call(place, at, callee);
        }
        let is_default = is_default(step.node.domain);
        match step.node.op_type {
            "If" | "Loop" | "SequenceMap" if is_default => self.within(place, at, state_of(step)),
            "Scan" if is_default && body.schemas[at].is_some_and(|schema| schema.since >= 9) => {
                self.within(place, at, state_of(step));
            }
            "Constant" if is_default => self.constant(place, at),
            _ => match body.schemas[at] {
                Some(schema) => self.operator(place, at, schema),
                None => self.barrier(place, at, &Reason::Unknown),
            },
        }
    }

    /// A node whose inputs and outputs keep their types, and those of the graphs within it.
    fn barrier(&mut self, place: usize, at: usize, reason: &Reason) {
        let step = &self.body(place).flow.steps[at];
        let node = self.variable();
        self.nodes[place][at] = Some(node);
        self.pin(node, reason.clone());
        self.read_all(place, at, step, node);
        for id in step.outputs.iter().flatten() {
            if let Some(own) = self.values[place][*id] {
                self.unite(own, node);
            }
        }
        for graph in step.node.graphs() {
            let Some(ports) = self.body(place).flow.ports.get(&graph.id) else { continue };
            for &input in &ports.inputs {
                if let Some(own) = self.values[place][input] {
                    self.unite(own, node);
                }
            }
            for (index, &output) in ports.outputs.iter().enumerate() {
                self.read(place, output, Use::Output(graph.id, index), node);
            }
        }
    }

    fn read_all(&mut self, place: usize, at: usize, step: &Step<'_, '_>, variable: Variable) {
        for (index, &input) in step.inputs.iter().enumerate() {
            self.read(place, input, Use::Input(at, index), variable);
        }
    }

    /// A Constant that is not stored by us keeps its type.
    fn constant(&mut self, place: usize, at: usize) {
        let output = self.body(place).flow.steps[at].outputs.first().copied().flatten();
        let Some(id) = output.filter(|id| !self.constants[place].contains(id)) else { return };
        if let Some(own) = self.values[place][id] {
            self.pin(own, Reason::Fixed);
        }
    }

    /// A node of an operator with a schema.
    fn operator(&mut self, place: usize, at: usize, schema: &'static Schema) {
        let step = &self.body(place).flow.steps[at];
        let node = self.variable();
        let (meaning, is_told) = (|formal: &Formal| step.traits.meaning(formal.name), step.traits.told.is_some());
        let apart = self.apart(place, at, schema);
        let of_formal = |variable: usize| apart.get(&variable).copied().unwrap_or(node);
        let mut floats = false;
        for (index, &input) in step.inputs.iter().enumerate() {
            let (Some(id), Some(formal)) = (input, schema.input(index)) else { continue };
            let Some(of_type) = self.body(place).types[id].as_ref().filter(|_| self.values[place][id].is_some()) else {
                continue;
            };
            let variable = match formal.of_type {
                _ if is_told || meaning(formal) == Some(Meaning::Any) => self.variable(),
                FormalType::Variable(variable) => of_formal(variable),
                FormalType::Fixed(_) => node,
            };
            let is_fixed = meaning(formal) == Some(Meaning::Float);
            let variable = match (&formal.of_type, formal.arity) {
                _ if is_fixed => WIDE,
                (FormalType::Fixed(_), _) => WIDE,
                (_, Arity::Variadic { homogeneous: false }) => return self.barrier(place, at, &Reason::Unknown),
                (FormalType::Variable(_), _) => variable,
            };
            floats |= variable == node;
            if !self.takes(schema, &formal.of_type, of_type) {
                self.pin(variable, Reason::Schema { since: self.first(step, place, false, index) });
            }
            let is_own = variable != node && variable != WIDE && !apart.values().any(|&one| one == variable);
            let takes_any = is_own && self.pins.get(variable).is_none();
            let known = self.readings.len();
            self.read(place, input, Use::Input(at, index), variable);
            self.readings[known..].iter_mut().for_each(|reading| reading.takes_any = takes_any);
        }
        let derived = step.traits.gives.is_some();
        for (index, &output) in step.outputs.iter().enumerate() {
            let (Some(id), Some(formal)) = (output, schema.output(index)) else { continue };
            let Some(own) = self.values[place][id] else { continue };
            let Some(of_type) = self.body(place).types[id].as_ref() else { continue };
            if !self.takes(schema, &formal.of_type, of_type) {
                self.pin(own, Reason::Schema { since: self.first(step, place, true, index) });
            }
            match &formal.of_type {
                FormalType::Variable(variable) if floats && derived || is_bound(schema, *variable) => {
                    self.unite(own, of_formal(*variable));
                    floats |= of_formal(*variable) == node;
                }
                // The output has the type of an input, and so the node's variable.
                FormalType::Variable(_) if floats && follows_input(step) => self.unite(own, node),
                FormalType::Variable(_) if is_told && !refers(step) => {}
                _ => self.pin(own, Reason::Fixed),
            }
        }
        if floats {
            self.nodes[place][at] = Some(node);
        } else if let Some(own) = self.value(place, step.outputs.first().copied().flatten()) {
            self.nodes[place][at] = Some(own);
        }
    }

    /// Separate variables of a node, by type variable of its schema. A type variable gets one if it differs from that
    /// of the first output and either does not allow the narrow type or belongs to a state. The others share one
    /// variable, because runtimes compute them in one type.
    fn apart(&mut self, place: usize, at: usize, schema: &'static Schema) -> HashMap<usize, Variable> {
        let body = self.body(place);
        let (step, first) = (&body.flow.steps[at], schema.output(0).and_then(Formal::variable));
        let mut apart = HashMap::new();
        for (index, &input) in step.inputs.iter().enumerate() {
            let Some((id, formal)) = input.zip(schema.input(index)) else { continue };
            let Some(variable) = formal.variable().filter(|&variable| first != Some(variable)) else { continue };
            let Some(of_type) = body.types[id].as_ref().filter(|_| self.values[place][id].is_some()) else { continue };
            let is_state = step.traits.meaning(formal.name) == Some(Meaning::State);
            if is_state || !self.takes(schema, &formal.of_type, of_type) {
                let own = *apart.entry(variable).or_insert_with(|| self.variable());
                self.states.extend(is_state.then(|| (own, step.node.label(step.index))));
            }
        }
        apart
    }

    /// Whether an input or output may be of the narrow type, where it is of floats now.
    fn takes(&self, schema: &Schema, formal: &FormalType, of_type: &ValueType) -> bool {
        match formal {
            FormalType::Fixed(_) => true, // which is told apart
            FormalType::Variable(variable) => {
                // A type that is only emulated goes wherever 16 bits may.
                let low = if self.low.bits() == Some(8) { DataType::Float16 } else { self.low };
                of_type
                    .with_floats_as(self.from, low)
                    .is_some_and(|low| schema.variables[*variable].allowed.contains(&low))
            }
        }
    }

    /// The first version of an operator whose input or output may be of the narrow type.
    fn first(&self, step: &Step<'_, '_>, place: usize, is_output: bool, index: usize) -> Option<i64> {
        let id = if is_output { step.outputs[index] } else { step.inputs[index] };
        let of_type = self.body(place).types[id?].as_ref()?;
        let takes = |schema: &&Schema| {
            let formal = if is_output { schema.output(index) } else { schema.input(index) };
            formal.is_some_and(|formal| {
                !matches!(formal.of_type, FormalType::Fixed(_)) && self.takes(schema, &formal.of_type, of_type)
            })
        };
        Schema::versions(step.node.domain, step.node.op_type).iter().find(takes).map(|schema| schema.since)
    }

    /// A call of a function of the model.
    fn call(&mut self, place: usize, at: usize, callee: usize) {
        let step = &self.body(place).flow.steps[at];
        let function = self.roots[callee];
        let ports = &self.body(callee).flow.ports[&function];
        for (index, (&input, &inner)) in step.inputs.iter().zip(&ports.inputs).enumerate() {
            if let Some(inner) = self.values[callee][inner] {
                self.read(place, input, Use::Input(at, index), inner);
            }
        }
        for (index, &output) in step.outputs.iter().enumerate() {
            let Some(own) = self.value(place, output) else { continue };
            if let Some(&known) = self.results.get(&(callee, index)) {
                self.unite(own, known);
                continue;
            }
            self.results.insert((callee, index), own);
            self.read(callee, ports.outputs.get(index).copied().flatten(), Use::Output(function, index), own);
        }
    }

    /// A node that runs graphs: `given` outputs of a graph stand before those that the node gives, of which the first
    /// are the state that one turn hands to the next, as are the inputs from `before` on.
    fn within(&mut self, place: usize, at: usize, [before, given, states]: [usize; 3]) {
        let body = self.body(place);
        let step = &body.flow.steps[at];
        self.check_ports(place, at);
        for graph in step.node.graphs() {
            let Some(ports) = body.flow.ports.get(&graph.id) else { continue };
            let result = |index: usize| ports.outputs.get(given + index).copied().flatten();
            for (index, (&input, &inner)) in step.inputs.iter().zip(&ports.inputs).enumerate() {
                let Some(variable) = self.values[place][inner] else { continue };
                self.read(place, input, Use::Input(at, index), variable);
                let Some(state) = index.checked_sub(before).filter(|&state| state < states) else { continue };
                self.read(place, result(state), Use::Output(graph.id, given + state), variable);
                if let Some(own) = self.value(place, step.outputs.get(state).copied().flatten()) {
                    self.unite(own, variable);
                }
            }
            for index in states..step.outputs.len() {
                if let Some(own) = self.value(place, step.outputs[index]) {
                    self.read(place, result(index), Use::Output(graph.id, given + index), own);
                }
            }
        }
    }

    /// Pins the outputs of a node of graphs whose version does not have the narrow type.
    fn check_ports(&mut self, place: usize, at: usize) {
        let (body, step) = (self.body(place), &self.body(place).flow.steps[at]);
        let Some(schema) = body.schemas[at] else { return };
        let sides = [(false, &step.inputs), (true, &step.outputs)];
        for (is_output, ids) in sides {
            for (index, id) in ids.iter().enumerate() {
                let formal = if is_output { schema.output(index) } else { schema.input(index) };
                let (Some(id), Some(formal)) = (*id, formal) else { continue };
                let (Some(own), Some(of_type)) = (self.values[place][id], body.types[id].as_ref()) else { continue };
                if self.takes(schema, &formal.of_type, of_type) {
                    continue;
                }
                let reason = Reason::Schema { since: self.first(step, place, is_output, index) };
                if is_output {
                    self.pin(own, reason);
                } else {
                    self.read(place, Some(id), Use::Input(at, index), WIDE);
                }
            }
        }
    }

    /// How often a value is computed, as what a Cast of it costs: 1, and more within loops.
    pub(crate) fn cost(&self, place: usize, value: Id) -> u64 {
        let graph = self.body(place).flow.values[value].graph;
        8_u64.pow(self.loops[place].get(&graph).copied().unwrap_or(0).min(6))
    }

    /// The step that gives a value.
    pub(crate) fn producer(&self, place: usize, value: Id) -> Option<usize> {
        match self.body(place).flow.values[value].origin {
            Origin::Node(step, _) => Some(step),
            _ => None,
        }
    }
}

/// By graph: how many loops there are around it.
fn loops(body: &Body<'_, '_>) -> HashMap<usize, u32> {
    let mut loops = HashMap::new();
    for step in &body.flow.steps {
        let around = loops.get(&step.graph.id).copied().unwrap_or(0);
        loops.extend(step.node.graphs().map(|graph| (graph.id, around + u32::from(step.traits.is(Flag::Repeats)))));
    }
    loops
}

/// Whether an input has the type of a variable.
fn is_bound(schema: &Schema, variable: usize) -> bool {
    schema.inputs.iter().any(|formal| formal.of_type == FormalType::Variable(variable))
}

/// Whether an output whose type variable no input binds has the type of an input.
fn follows_input(step: &Step<'_, '_>) -> bool {
    let is_there = |source: &&TypeSource| match source {
        TypeSource::Attribute(name) => step.node.attribute(name).is_some_and(|one| one.refers || one.int() != 0),
        _ => true,
    };
    matches!(step.traits.types.iter().find(is_there), Some(TypeSource::Input(_)))
}

/// Whether an attribute refers to one of the enclosing function.
fn refers(step: &Step<'_, '_>) -> bool {
    step.node.attributes.iter().any(|attribute| attribute.refers)
}
