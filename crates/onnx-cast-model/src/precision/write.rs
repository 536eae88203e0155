//! The edits that give every value the type it was assigned: a Cast for each value and direction that needs one, right
//! behind what gives the value; constants stored in the types that their readers want; declarations and attributes
//! that tell types.

mod apart;
mod emulate;
mod masks;

use super::ConvertRequest;
use super::assign::Assignment;
use super::constants::{Constants, KnownConstant};
use super::declared::{Declared, declared};
use super::losses::NarrowConstant;
use super::mask::{MaskOf, of_mask};
use super::variables::{Reading, Use, Variables};
use crate::constant::Constant;
use crate::edits::{Content, Edits, FunctionCopy, GraphEdit, GraphEdits, Home, NewAttribute, NewNode, NewTensor};
use crate::error::ModelError;
use crate::external::Files;
use crate::graph::dataflow::Dataflow;
use crate::graph::values::{Id, Origin};
use crate::rope::CastElements;
use crate::tree::{Document, Names};
use onnx_cast::{Cast, CastOptions, DataType};
use onnx_cast_file::__private::pipeline::Step;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub(crate) struct Writer<'w, 't, 'a> {
    pub(crate) document: &'w Document<'a>,
    pub(crate) files: &'a Files<'a>,
    pub(crate) model: &'w Dataflow<'w, 't, 'a>,
    pub(crate) variables: &'w Variables<'w, 't, 'a>,
    pub(crate) assignment: &'w Assignment,
    pub(crate) constants: &'w Constants<'a>,
    pub(crate) names: Names,
    /// Write the model in float, with a Cast down and up where a value would be narrow.
    pub(crate) emulate: bool,
    /// Magnitudes between which constants are clamped.
    pub(crate) clamp: Option<[f32; 2]>,
    pub(crate) written: Written,
    /// By body and value.
    readings: BTreeMap<(usize, Id), Vec<Reading>>,
    /// Where graphs declare values, by graph and name.
    declared: HashMap<(usize, &'a str), Declared>,
    /// By value: where it ends as a mask.
    masks: Vec<MaskOf>,
    /// By value: whether a narrow node reads it, directly or through operators that pass masks on.
    narrow: Vec<bool>,
    /// By body: where a copy of a value is read, which keeps a fusion away.
    apart: BTreeSet<(usize, Use)>,
}

/// What was written.
#[derive(Default)]
pub(crate) struct Written {
    /// Casts that are new.
    pub(crate) casts: usize,
    /// Constants that are stored narrow.
    pub(crate) stored: Vec<NarrowConstant>,
}

impl<'w, 't, 'a> Writer<'w, 't, 'a> {
    pub(crate) fn new(
        (document, files): (&'w Document<'a>, &'a Files<'a>),
        model: &'w Dataflow<'w, 't, 'a>,
        (variables, assignment): (&'w Variables<'w, 't, 'a>, &'w Assignment),
        constants: &'w Constants<'a>,
        request: &ConvertRequest,
    ) -> Self {
        let mut readings: BTreeMap<(usize, Id), Vec<Reading>> = BTreeMap::new();
        for reading in &variables.readings {
            readings.entry((reading.body, reading.value)).or_default().push(*reading);
        }
        let (names, written) = (document.names(), Written::default());
        let &ConvertRequest { emulate, clamp, .. } = request;
        let declared = declared(document);
        let (masks, apart) = (MaskOf::all(model), BTreeSet::new());
        let narrow = masks::read_narrow(model, variables, assignment);
        let mut writer = Writer {
            document,
            files,
            model,
            masks,
            narrow,
            variables,
            assignment,
            constants,
            names,
            emulate,
            clamp,
            written,
            readings,
            declared,
            apart,
        };
        writer.apart = writer.find_apart();
        writer
    }

    /// The edits of the model.
    pub(crate) fn edits(&mut self) -> Result<Edits<'a>, ModelError> {
        let mut edits = Edits::default();
        let bodies = &self.variables.typing.bodies;
        let mut versions: HashMap<usize, usize> = HashMap::new();
        bodies.iter().filter_map(|body| body.function).for_each(|at| *versions.entry(at).or_default() += 1);
        // What each body becomes, and where it is called with types of its own, by which name.
        let mut done: Vec<GraphEdits<'a>> = Vec::with_capacity(bodies.len());
        let mut copies = vec![None; bodies.len()];
        for (place, body) in bodies.iter().enumerate() {
            let graphs = self.body(place)?;
            if let Some(function) = body.function.filter(|at| versions[at] > 1 && !graphs.is_empty()) {
                let name = self.document.functions[function].signature.as_ref().map_or("", |signature| signature.name);
                copies[place] = Some(self.names.fresh(format!("{name}_{}", self.variables.low)));
            }
            done.push(graphs);
        }
        // A function whose copies are called is one that must not be called by its old name.
        let mut again = true;
        while again {
            again = false;
            for (place, body) in bodies.iter().enumerate() {
                let Some(function) = body.function.filter(|at| versions[at] > 1 && copies[place].is_none()) else {
                    continue;
                };
                if body.calls.values().any(|&callee| copies[callee].is_some()) {
                    let name = self.document.functions[function].signature.as_ref().map_or("", |one| one.name);
                    copies[place] = Some(self.names.fresh(format!("{name}_{}", self.variables.low)));
                    again = true;
                }
            }
        }
        for (place, body) in bodies.iter().enumerate() {
            for (&step, &callee) in &body.calls {
                if let Some(name) = &copies[callee] {
                    let step = &body.flow.steps[step];
                    let edit = done[place].entry(step.graph.id).or_default().nodes.entry(step.index).or_default();
                    edit.op_type = Some(name.clone());
                }
            }
        }
        for ((body, graphs), copy) in bodies.iter().zip(done).zip(copies) {
            match (body.function, copy) {
                (Some(function), Some(name)) => edits.copies.push(FunctionCopy { function, name, graphs }),
                _ => edits.graphs.extend(graphs),
            }
        }
        Ok(edits)
    }

    fn body(&mut self, place: usize) -> Result<GraphEdits<'a>, ModelError> {
        let mut edits = GraphEdits::default();
        for id in 0..self.variables.body(place).flow.values.len() {
            if self.variables.values[place][id].is_none() {
                continue;
            }
            let readings = self.readings.remove(&(place, id)).unwrap_or_default();
            if self.variables.constants[place].contains(&id) {
                self.constant(place, id, &readings, &mut edits)?;
            } else if self.emulate {
                self.emulated(place, id, &readings, &mut edits);
            } else {
                self.value(place, id, &readings, &mut edits)?;
            }
        }
        Ok(edits)
    }

    fn is_low(&self, place: usize, id: Id) -> bool {
        self.variables.values[place][id].is_some_and(|own| self.assignment.is_low(self.variables, own))
    }

    fn reads_low(&self, reading: &Reading) -> bool {
        self.assignment.is_low(self.variables, reading.variable)
    }

    /// Whether an output keeps its name: of the model, or of a function.
    fn is_fixed(&self, place: usize, reading: &Reading) -> bool {
        matches!(reading.place, Use::Output(graph, _) if graph == self.variables.roots[place])
    }

    /// Has a reader read another name.
    fn redirect(&self, reading: &Reading, name: &str, low: bool, edits: &mut GraphEdits<'a>) {
        match reading.place {
            Use::Input(step, input) => {
                let step = &self.variables.body(reading.body).flow.steps[step];
                let edit = edits.entry(step.graph.id).or_default().nodes.entry(step.index).or_default();
                edit.inputs.insert(input, name.to_owned());
            }
            Use::Output(graph, output) => {
                let of_type = self.variables.type_of(reading.body, Some(reading.value), low);
                edits.entry(graph).or_default().outputs.insert(output, (name.to_owned(), of_type));
            }
        }
    }

    /// Puts a node right behind what gives a value.
    fn behind(&self, place: usize, id: Id, node: NewNode<'a>, edits: &mut GraphEdits<'a>) {
        let flow = &self.variables.body(place).flow;
        let edit = edits.entry(flow.values[id].graph).or_default();
        match flow.values[id].origin {
            Origin::Node(step, _) => edit.nodes.entry(flow.steps[step].index).or_default().after.push(node),
            _ => edit.first.push(node),
        }
    }

    /// A Cast of a value, right behind it.
    fn cast(&mut self, place: usize, id: Id, [input, output]: [&str; 2], to: DataType, edits: &mut GraphEdits<'a>) {
        let flow = &self.variables.body(place).flow;
        let opset = flow.graphs[&flow.values[id].graph].opset.unwrap_or(1);
        let name = self.names.fresh(format!("{output}_cast"));
        self.behind(place, id, NewNode::cast(name, input.to_owned(), output.to_owned(), to, opset), edits);
        self.written.casts += 1;
    }

    fn value(
        &mut self,
        place: usize,
        id: Id,
        readings: &[Reading],
        edits: &mut GraphEdits<'a>,
    ) -> Result<(), ModelError> {
        let low = self.is_low(place, id);
        let (same, others): (Vec<_>, Vec<_>) = readings.iter().partition(|reading| self.reads_low(reading) == low);
        let name = self.variables.body(place).flow.values[id].name;
        let renamed = others.iter().any(|reading| self.is_fixed(place, reading));
        if low {
            self.give_low(place, id, renamed, edits)?;
        } else {
            self.raise_mask(place, id, edits);
        }
        if renamed && let Some(step) = self.variables.producer(place, id) {
            // The output of the model, or of a function, is what the Cast gives.
            let own = self.names.fresh(format!("{name}_{}", self.variables.type_of(place, Some(id), low)));
            self.rename(place, step, id, &own, edits);
            same.iter().for_each(|reading| self.redirect(reading, &own, low, edits));
            others.iter().for_each(|reading| self.redirect(reading, name, !low, edits));
            self.cast(place, id, [&own, name], self.variables.type_of(place, Some(id), !low), edits);
            self.set_apart(place, id, &same, &own, edits);
            self.set_apart(place, id, &others, name, edits);
            return Ok(());
        }
        for reading in same.iter().filter(|reading| low && matches!(reading.place, Use::Output(..))) {
            self.redirect(reading, name, low, edits);
        }
        if !others.is_empty() {
            let cast = self.names.fresh(format!("{name}_{}", self.variables.type_of(place, Some(id), !low)));
            others.iter().for_each(|reading| self.redirect(reading, &cast, !low, edits));
            self.cast(place, id, [name, &cast], self.variables.type_of(place, Some(id), !low), edits);
            self.set_apart(place, id, &others, &cast, edits);
        }
        self.set_apart(place, id, &same, name, edits);
        Ok(())
    }

    /// Gives a value another name where its node gives it.
    fn rename(&self, place: usize, step: usize, id: Id, name: &str, edits: &mut GraphEdits<'a>) {
        let flow = &self.variables.body(place).flow;
        let step = &flow.steps[step];
        let Some(output) = step.outputs.iter().position(|&output| output == Some(id)) else { return };
        let edit = edits.entry(step.graph.id).or_default().nodes.entry(step.index).or_default();
        edit.outputs.insert(output, name.to_owned());
    }

    /// Has what gives a value give it in the narrow type, and what declares it say so.
    fn give_low(&mut self, place: usize, id: Id, renamed: bool, edits: &mut GraphEdits<'a>) -> Result<(), ModelError> {
        let low = self.variables.low;
        let body = self.variables.body(place);
        let value = &body.flow.values[id];
        let graph = body.flow.graphs[&value.graph];
        let edit = edits.entry(graph.id).or_default();
        let nowhere = Declared::default();
        let declared = self.declared.get(&(graph.id, value.name)).unwrap_or(&nowhere);
        if !renamed {
            edit.value_info.extend(declared.value_info.iter().map(|&at| (at, Some(low))));
        }
        if !self.variables.is_tensor(place, id) {
            // What is not a tensor is an output under its own name.
            edit.outputs.extend(declared.outputs.iter().map(|&at| (at, (value.name.to_owned(), low))));
        }
        match value.origin {
            Origin::Node(step, _) => self.attribute(place, step, edit),
            Origin::Initializer(index, input) => {
                if let Some(input) = input {
                    edit.inputs.insert(input, Some((value.name.to_owned(), low)));
                }
                let named = &graph.initializers[index];
                let known = Constant::of_tensor(named.name, named.message, self.files)?;
                let content = Content::Elements(self.narrow(&known, false)?);
                let home = Home::of(known.message);
                let tensor = NewTensor { message: known.message, name: None, shape: known.shape, home, content };
                edit.initializers.insert(index, Some(tensor));
            }
            Origin::Other => {
                if let Some(input) = declared.input {
                    edit.inputs.insert(input, Some((value.name.to_owned(), low)));
                }
            }
        }
        Ok(())
    }

    /// The attribute of a node that tells the type of its output.
    fn attribute(&self, place: usize, step: usize, edit: &mut GraphEdit<'a>) {
        let step = &self.variables.body(place).flow.steps[step];
        let (low, node) = (self.variables.low, step.node);
        let Some(name) = step.traits.told else { return };
        let new = match (name, step.graph.opset) {
            ("value", _) => of_mask(node, low, self.clamp, false),
            (_, Some(..6)) => NewAttribute::string(name, &low.name().to_ascii_uppercase()),
            _ => NewAttribute::int(name, low.onnx().into()),
        };
        let edit = edit.nodes.entry(step.index).or_default();
        match node.attributes.iter().position(|attribute| attribute.name == name) {
            Some(at) => drop(edit.attributes.insert(at, Some(new))),
            None => edit.added_attributes.push(new),
        }
    }

    /// The elements of a constant in the narrow type; of an emulated model, rounded to it.
    fn narrow(&self, known: &Constant<'a>, is_mask: bool) -> Result<CastElements<'a>, ModelError> {
        let low = self.variables.low;
        let wrong = |what: String| ModelError::constant(known.name, what);
        let options = CastOptions::new();
        let plan = |to, from| Cast::new(to, &options).and_then(|cast| cast.plan(from));
        let mut elements = known.elements.clone().ok_or_else(|| wrong("strings".to_owned()))?;
        if is_mask {
            elements = super::mask::raised(&elements, low).ok_or_else(|| wrong("cannot be read".to_owned()))?;
        }
        if let Some(range) = self.clamp {
            if known.data_type != DataType::Float {
                let up = plan(DataType::Float, known.data_type).map_err(|error| wrong(error.to_string()))?;
                elements = elements.then(Step::Cast(up));
            }
            elements = elements.then(Step::Clamp(Arc::new(super::mask::clamp(range, low))));
        }
        let down = plan(low, elements.data_type()).map_err(|error| wrong(error.to_string()))?;
        let mut elements = elements.then(Step::Cast(down));
        if self.emulate {
            let up = plan(DataType::Float, low).map_err(|error| wrong(error.to_string()))?;
            elements = elements.then(Step::Cast(up));
        }
        Ok(elements)
    }

    /// A constant, in the types in which it is read.
    fn constant(
        &mut self,
        place: usize,
        id: Id,
        readings: &[Reading],
        edits: &mut GraphEdits<'a>,
    ) -> Result<(), ModelError> {
        // A reader of any type reads the value as it is.
        let bound = readings.iter().filter(|reading| !reading.takes_any);
        let (low, wide): (Vec<_>, Vec<_>) = bound.partition(|reading| self.reads_low(reading));
        if !wide.is_empty() {
            self.raise_constant(place, id, edits);
        }
        let Some(KnownConstant { constant, span }) = self.constants.get(place, id).filter(|_| !low.is_empty()) else {
            return Ok(());
        };
        let body = self.variables.body(place);
        let value = &body.flow.values[id];
        let is_mask = self.clamp.is_none() && span.is_some_and(|span| span.is_sentinel(self.variables.low));
        let elements = self.narrow(constant, is_mask)?;
        let twice = !wide.is_empty();
        if self.emulate && twice && constant.elements.as_ref().is_some_and(|known| known.read() == elements.read()) {
            return Ok(());
        }
        let clamp = elements.plans.0.iter().find_map(|step| match step {
            Step::Clamp(clamp) => Some(Arc::clone(clamp)),
            _ => None,
        });
        self.written.stored.push(NarrowConstant { name: constant.name.to_owned(), twice, clamp });
        let name = twice.then(|| self.names.fresh(format!("{}_{}", value.name, self.variables.low)));
        if let Some(name) = &name {
            low.iter().for_each(|reading| self.redirect(reading, name, true, edits));
        }
        let graph = body.flow.graphs[&value.graph];
        let edit = edits.entry(graph.id).or_default();
        let (shape, message) = (constant.shape.clone(), constant.message);
        let (home, content) = (Home::of(message), Content::Elements(elements));
        let tensor = NewTensor { message, name: name.clone(), shape, home, content };
        if !twice && !self.emulate {
            let declared = self.declared.get(&(graph.id, value.name));
            let places = declared.into_iter().flat_map(|declared| &declared.value_info);
            edit.value_info.extend(places.map(|&at| (at, Some(self.variables.low))));
        }
        self.store(place, id, name, tensor, edits);
        Ok(())
    }

    /// Replaces the float elements of a constant with narrow ones, or adds these under a name of their own.
    fn store(
        &mut self,
        place: usize,
        id: Id,
        name: Option<String>,
        mut tensor: NewTensor<'a>,
        edits: &mut GraphEdits<'a>,
    ) {
        let body = self.variables.body(place);
        let value = &body.flow.values[id];
        let edit = edits.entry(body.flow.graphs[&value.graph].id).or_default();
        match (value.origin, name) {
            (Origin::Initializer(index, input), None) => {
                if let Some(input) = input.filter(|_| !self.emulate) {
                    edit.inputs.insert(input, Some((value.name.to_owned(), self.variables.low)));
                }
                edit.initializers.insert(index, Some(tensor));
            }
            (Origin::Node(step, _), None) => {
                edit.nodes.entry(body.flow.steps[step].index).or_default().value = Some(tensor);
            }
            (Origin::Node(step, _), Some(name)) => {
                tensor.name = None;
                let (node, op_type) = (self.names.fresh(format!("{name}_constant")), "Constant".to_owned());
                let new =
                    NewNode { name: node, op_type, outputs: vec![name], value: Some(tensor), ..NewNode::default() };
                edit.nodes.entry(body.flow.steps[step].index).or_default().after.push(new);
            }
            (_, Some(name)) if self.document.ir_version < 4 => {
                // Every initializer is an input there, and no model gets new inputs.
                let narrow = if self.emulate { self.names.fresh(format!("{name}_exact")) } else { name.clone() };
                self.cast(place, id, [value.name, &narrow], self.variables.low, edits);
                if self.emulate {
                    self.cast(place, id, [&narrow, &name], DataType::Float, edits);
                }
            }
            (_, Some(_)) => edit.added_initializers.push(tensor),
            (Origin::Other, None) => {}
        }
    }
}
