//! The walk: bodies are typed node by node, in order, and functions where they are called.

use super::calls::{Attributes, Functions};
use super::rules::{Site, data_type_of};
use super::schemas::Schema;
use super::value::ValueType;
use super::{Body, Tables, Typing};
use crate::error::{ModelError, ModelErrorKind};
use crate::graph::values::{Flow, Id, Origin, Ports};
use crate::messages::{attribute, sparse, value_info};
use crate::tree::{Attribute, Declared, Document};
use onnx_cast::DataType;
use onnx_cast_file::__private::wire::{FieldValue, last};
use std::collections::{HashMap, HashSet};

/// Bodies at most.
const MAX_BODIES: usize = 1 << 14;

/// Nodes, values and types that calls of functions look at, all together, at most.
const MAX_WORK: usize = 1 << 21;

/// The body of the main graph, and one for each combination of types that a function is called with.
pub(super) fn bodies<'t, 'a>(
    document: &'t Document<'a>,
    uncalled: bool,
    tables: Tables,
) -> Result<Typing<'t, 'a>, ModelError> {
    let functions = Functions::of(document)?;
    let mut infer = Infer { document, tables, functions, bodies: Vec::new(), known: HashMap::new(), work: 0 };
    infer.body(None, &[], Attributes::default())?;
    let called = infer.bodies.len();
    let (mut typed, mut next) = (HashSet::new(), 0);
    for function in (0..document.functions.len()).filter(|_| uncalled) {
        typed.extend(infer.bodies[next..].iter().flatten().filter_map(|body| body.function));
        next = infer.bodies.len();
        if !typed.contains(&function) {
            infer.body(Some(function), &[], Attributes::default())?;
        }
    }
    // Every body that was begun is complete by now.
    Ok(Typing { bodies: infer.bodies.into_iter().flatten().collect(), called })
}

/// What a function's types depend on.
#[derive(PartialEq, Eq, Hash)]
struct Call<'a> {
    function: usize,
    inputs: Vec<Option<ValueType>>,
    attributes: Vec<Option<Deciding<'a>>>,
}

/// An attribute that decides types.
#[derive(PartialEq, Eq, Hash)]
enum Deciding<'a> {
    Int(i64),
    Bytes(&'a [u8]),
    Tensor(DataType),
    Present,
}

impl<'a> Deciding<'a> {
    fn of(attribute: &Attribute<'a>) -> Deciding<'a> {
        let message = attribute.message;
        let bytes = |number| last(message, number, FieldValue::bytes).ok().flatten();
        let int = || last(message, attribute::I, FieldValue::int).ok().flatten().map(Deciding::Int);
        let text = || bytes(attribute::S).or_else(|| bytes(attribute::TP)).map(Deciding::Bytes);
        let tensor = || bytes(attribute::T).and_then(data_type_of).map(Deciding::Tensor);
        int().or_else(text).or_else(tensor).unwrap_or(Deciding::Present)
    }
}

struct Infer<'t, 'a> {
    document: &'t Document<'a>,
    tables: Tables,
    functions: Functions<'t, 'a>,
    /// None where a body is not complete.
    bodies: Vec<Option<Body<'t, 'a>>>,
    known: HashMap<Call<'a>, usize>,
    work: usize,
}

impl<'t, 'a> Infer<'t, 'a> {
    /// Types a body; its place.
    fn body(
        &mut self,
        function: Option<usize>,
        inputs: &[Option<ValueType>],
        attributes: Attributes<'t, 'a>,
    ) -> Result<usize, ModelError> {
        let graph = function.map_or(&self.document.graph, |place| &self.document.functions[place]);
        let mut scope = Scope::new(Flow::of(graph, self.tables.traits), function, attributes, self.tables);
        if function.is_some() {
            self.spend(scope.size())?;
        }
        let place = self.bodies.len();
        if place == MAX_BODIES {
            return Err(too_many());
        }
        self.bodies.push(None);
        let ids = scope.body.flow.ports[&graph.id].inputs.clone();
        for (id, of_type) in ids.into_iter().zip(inputs) {
            scope.body.types[id].clone_from(of_type);
        }
        let mut open: Vec<usize> = Vec::new();
        for step in 0..scope.body.flow.steps.len() {
            while let Some(done) = open.pop_if(|&mut open| scope.body.flow.steps[open].end <= step) {
                self.finish(&mut scope, done)?;
            }
            if scope.body.flow.steps[step].node.graphs().next().is_some() {
                scope.enter(step);
                open.push(step);
            } else {
                self.finish(&mut scope, step)?;
            }
        }
        while let Some(done) = open.pop() {
            self.finish(&mut scope, done)?;
        }
        self.bodies[place] = Some(scope.body);
        Ok(place)
    }

    /// Types the outputs of a node, the graphs within which are typed.
    fn finish(&mut self, scope: &mut Scope<'t, 'a>, step: usize) -> Result<(), ModelError> {
        let node = scope.body.flow.steps[step].node;
        let mut types = if let Some(function) = self.functions.called(node) {
            let callee = self.call(scope, step, function)?;
            scope.body.calls.insert(step, callee);
            self.results(callee)
        } else if let Some(schema) = scope.schema(step) {
            scope.body.schemas[step] = Some(schema);
            let nested = scope.nested(step);
            nested.unwrap_or_else(|| {
                let (inputs, attributes) = (scope.inputs(step).collect(), &scope.attributes);
                let traits = scope.body.flow.steps[step].traits;
                Site { node, traits, schema, inputs, functions: &self.functions, attributes }.outputs()
            })
        } else {
            Vec::new()
        };
        types.resize(node.outputs.len(), None);
        scope.give(step, types);
        Ok(())
    }

    /// The body that a call runs.
    fn call(&mut self, scope: &Scope<'t, 'a>, step: usize, function: usize) -> Result<usize, ModelError> {
        let node = scope.body.flow.steps[step].node;
        let graph = &self.document.functions[function];
        let given = self.functions.hand(function, node, &scope.attributes);
        let deciding = self.functions.deciding_of(function);
        // What the node itself has is in the file, and so linear; what the function has beyond it is not.
        let excess = [
            (graph.inputs.len(), node.inputs.len()),
            (graph.outputs.len(), node.outputs.len()),
            (deciding.len(), node.attributes.len()),
        ];
        self.spend(excess.into_iter().map(|(has, given)| has.saturating_sub(given)).sum())?;
        let deciding = self.functions.deciding_of(function);
        let attributes = deciding.iter().map(|name| self.functions.value(name, &given).map(Deciding::of)).collect();
        let mut inputs: Vec<_> =
            scope.inputs(step).take(graph.inputs.len()).map(Option::<&ValueType>::cloned).collect();
        inputs.resize(graph.inputs.len(), None);
        let call = Call { function, inputs, attributes };
        if let Some(&known) = self.known.get(&call) {
            return Ok(known);
        }
        let callee = self.body(Some(function), &call.inputs, given)?;
        self.known.insert(call, callee);
        Ok(callee)
    }

    /// The types of what a body gives.
    fn results(&self, body: usize) -> Vec<Option<ValueType>> {
        let Some(Some(body)) = self.bodies.get(body) else { return Vec::new() };
        let function = body.function.map(|place| self.document.functions[place].id);
        let ports = function.and_then(|id| body.flow.ports.get(&id));
        ports.map_or(Vec::new(), |ports| ports.outputs.iter().map(|id| body.types[(*id)?].clone()).collect())
    }

    fn spend(&mut self, work: usize) -> Result<(), ModelError> {
        self.work = self.work.saturating_add(work);
        if self.work > MAX_WORK { Err(too_many()) } else { Ok(()) }
    }
}

/// Functions that are called with more combinations of types than any model has.
fn too_many() -> ModelError {
    ModelError::new(ModelErrorKind::Size, "functions are called with too many combinations of types")
}

/// A body that is being typed.
struct Scope<'t, 'a> {
    body: Body<'t, 'a>,
    tables: Tables,
    attributes: Attributes<'t, 'a>,
    /// The types that graphs declare for values that are no tensors.
    declared: HashMap<(usize, &'a str), ValueType>,
}

impl<'t, 'a> Scope<'t, 'a> {
    /// A body with the types of its initializers and those that its inputs declare.
    fn new(flow: Flow<'t, 'a>, function: Option<usize>, attributes: Attributes<'t, 'a>, tables: Tables) -> Self {
        let mut declared = HashMap::new();
        for graph in flow.graphs.values() {
            let all = graph.inputs.iter().chain(&graph.value_info).chain(&graph.outputs);
            let others = all.filter(|one| one.data_type.is_none() && !one.message.is_empty());
            declared.extend(others.filter_map(|one| Some(((graph.id, one.name), of_declaration(one)?))));
            let sparse = graph.sparse_initializers().zip(&graph.sparse);
            declared.extend(sparse.filter_map(|(message, &name)| {
                let values = last(message.ok()?, sparse::VALUES, FieldValue::bytes).ok()??;
                Some(((graph.id, name), ValueType::Sparse(data_type_of(values)?)))
            }));
        }
        let of_source = |value: &crate::graph::values::Value<'a>| {
            let tensor = value.data_type.map(ValueType::Tensor);
            match value.origin {
                Origin::Node(..) => None,
                Origin::Initializer(..) => tensor,
                Origin::Other => tensor.or_else(|| declared.get(&(value.graph, value.name)).cloned()),
            }
        };
        let types = flow.values.iter().map(of_source).collect();
        let schemas = vec![None; flow.steps.len()];
        Scope { body: Body { function, flow, types, schemas, calls: HashMap::new() }, tables, attributes, declared }
    }

    /// What a body costs to be typed once more.
    fn size(&self) -> usize {
        let Flow { values, steps, graphs, .. } = &self.body.flow;
        values.len()
            + steps.len()
            + graphs.values().map(|graph| graph.value_info.len() + graph.outputs.len()).sum::<usize>()
    }

    /// The schema of a step's operator.
    fn schema(&self, step: usize) -> Option<&'static Schema> {
        let step = &self.body.flow.steps[step];
        (self.tables.schema)(step.node.domain, step.node.op_type, step.graph.opset_of(step.node.domain)?)
    }

    /// The types of a step's inputs.
    fn inputs(&self, step: usize) -> impl Iterator<Item = Option<&ValueType>> {
        self.body.flow.steps[step].inputs.iter().map(|id| self.type_of(*id))
    }

    fn type_of(&self, id: Option<Id>) -> Option<&ValueType> {
        self.body.types[id?].as_ref()
    }

    /// Hands the inputs of a node to the graph that it runs: they have the types of what they are, whatever they
    /// declare.
    fn enter(&mut self, step: usize) {
        let node = self.body.flow.steps[step].node;
        let inputs: Vec<Option<ValueType>> = self.inputs(step).map(Option::<&ValueType>::cloned).collect();
        let handed: Vec<Option<ValueType>> = match self.control(step) {
            Some(Control::Loop) => {
                let counters = [DataType::Int64, DataType::Bool].map(|data_type| Some(data_type.into()));
                counters.into_iter().chain(inputs.into_iter().skip(2)).collect()
            }
            Some(Control::Scan) => inputs,
            Some(Control::SequenceMap) => {
                let element = |one: ValueType| one.element().cloned().unwrap_or(one);
                inputs.into_iter().map(|one| one.map(element)).collect()
            }
            Some(Control::If) | None => return,
        };
        let Some(ids) = node.attribute("body").and_then(|body| self.ports(body)).map(|ports| ports.inputs.clone())
        else {
            return;
        };
        for (id, of_type) in ids.into_iter().zip(handed) {
            if of_type.is_some() && self.body.flow.values[id].origin == Origin::Other {
                self.body.types[id] = of_type;
            }
        }
    }

    /// What a node gives that runs graphs.
    fn nested(&self, step: usize) -> Option<Vec<Option<ValueType>>> {
        self.body.flow.steps[step].node.graphs().next()?;
        let (node, count) = (self.body.flow.steps[step].node, self.body.flow.steps[step].outputs.len());
        let result = |graph: &str, place: usize| {
            let id = *self.ports(node.attribute(graph)?)?.outputs.get(place)?;
            self.type_of(id).cloned()
        };
        let state = |place: usize| self.type_of(*self.body.flow.steps[step].inputs.get(place)?).cloned();
        let output: &dyn Fn(usize) -> Option<ValueType> = match self.control(step)? {
            Control::If => &|place| result("then_branch", place).or_else(|| result("else_branch", place)),
            Control::Loop => &|place| result("body", place + 1).or_else(|| state(place + 2)),
            Control::Scan => &|place| result("body", place).or_else(|| state(place)),
            Control::SequenceMap => &|place| result("body", place)?.sequence(),
        };
        Some((0..count).map(output).collect())
    }

    /// The values that the graph of an attribute takes and gives.
    fn ports(&self, attribute: &Attribute<'a>) -> Option<&Ports> {
        self.body.flow.ports.get(&attribute.graphs.first()?.id)
    }

    /// How a node runs the graphs within.
    fn control(&self, step: usize) -> Option<Control> {
        let node = self.body.flow.steps[step].node;
        // A Scan-8 has batches of sequences, and is not looked into.
        self.schema(step).filter(|schema| !node.is("Scan") || schema.since > 8)?;
        [("If", Control::If), ("Loop", Control::Loop), ("Scan", Control::Scan), ("SequenceMap", Control::SequenceMap)]
            .into_iter()
            .find_map(|(op_type, control)| node.is(op_type).then_some(control))
    }

    /// Takes the types of a node's outputs; declared ones where they are unknown.
    fn give(&mut self, step: usize, types: Vec<Option<ValueType>>) {
        let outputs = self.body.flow.steps[step].outputs.iter();
        for (id, of_type) in outputs.zip(types).filter_map(|(id, of_type)| Some(((*id)?, of_type))) {
            let value = &self.body.flow.values[id];
            let tensor = || value.data_type.map(ValueType::Tensor);
            let other = || self.declared.get(&(value.graph, value.name)).cloned();
            self.body.types[id] = of_type.or_else(tensor).or_else(other);
        }
    }
}

/// The operators that run graphs.
#[derive(Clone, Copy)]
enum Control {
    If,
    Loop,
    Scan,
    SequenceMap,
}

/// The type that a declaration tells.
fn of_declaration(declared: &Declared<'_>) -> Option<ValueType> {
    ValueType::from_message(last(declared.message, value_info::TYPE, FieldValue::bytes).ok()??)
}
