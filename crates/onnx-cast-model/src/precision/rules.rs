//! The pins that a caller and the model's border ask for, and those of operators that are fast in a narrow type.

use super::bounds::Bounds;
use super::constants::{Constants, Span, overflows};
use super::losses::Losses;
use super::mask::{MaskOf, is_mask_reading};
use super::pins::{Reason, Variable};
use super::variables::{Reading, Use, Variables};
use super::{ConvertRequest, Keep, bounds, differences, growth, resolution, sensitive};
use crate::error::ModelError;
use crate::graph::dataflow::{Dataflow, Node};
use crate::graph::values::{Id, Origin, Step};
use crate::operators::{Flag, Meaning};
use crate::tree::Document;
use crate::types::value::ValueType;
use onnx_cast::DataType;
use onnx_cast::ops::Operator;
use onnx_cast_file::__private::Short;
use onnx_cast_file::{Wording, nearest};
use std::collections::{HashMap, HashSet};

pub(crate) struct Rules<'r, 's, 't, 'a> {
    pub(crate) document: &'r Document<'a>,
    pub(crate) variables: &'r mut Variables<'s, 't, 'a>,
    pub(crate) model: &'r Dataflow<'s, 't, 'a>,
    pub(crate) constants: &'r Constants<'a>,
    pub(crate) request: &'r ConvertRequest,
    pub(crate) losses: &'r Losses,
}

impl Rules<'_, '_, '_, '_> {
    /// Pins all variables that a rule other than a schema decides. Returns the readings of constants that would lose
    /// numbers.
    pub(crate) fn pin(&mut self) -> Result<Vec<Reading>, ModelError> {
        if !self.request.allow_unmatched {
            self.patterns()?;
        }
        self.interface()?;
        self.sparse();
        no_cast(self.variables);
        if self.variables.low == DataType::Float {
            // Float loses nothing, so every node that supports it becomes float.
            for node in self.model.nodes.iter().filter(|node| node.step.traits.told.is_none()) {
                let variable = self.variables.nodes[node.body][node.at];
                variable.into_iter().for_each(|variable| self.variables.pins.low(variable, Reason::Exact));
            }
            self.steps();
            return Ok(Vec::new());
        }
        super::positions::pin(self.variables, self.model);
        let bounds = bounds::of(self.model, self.constants);
        let fixed = bounds::fixed(self.model, self.constants);
        if self.request.keeps_sensitive() {
            let (variables, model) = (&mut *self.variables, self.model);
            sensitive::pin(variables, model, self.constants, &bounds, self.request);
            resolution::pin(variables, model, self.constants, &bounds);
            differences::pin(variables, model, &bounds, &fixed);
            growth::pin_states(variables, model, &bounds);
            growth::pin_exponentials(variables, model, &bounds);
        }
        self.quantized(&fixed);
        self.ranges();
        let masks = MaskOf::all(self.model);
        let lost = self.lost(&bounds, &fixed, &masks);
        self.steps();
        Ok(lost)
    }

    fn steps(&mut self) {
        for place in 0..self.variables.typing.bodies.len() {
            (0..self.variables.body(place).flow.steps.len()).for_each(|step| self.step(place, step));
        }
    }

    /// Refuses a pattern that matches no node: what it was to keep would become narrow.
    fn patterns(&self) -> Result<(), ModelError> {
        let keep = self.request.keep.iter().filter_map(|keep| match keep {
            Keep::Nodes(pattern) => Some(("keep", pattern)),
            _ => None,
        });
        let low = self.request.low.iter().map(|pattern| ("low", pattern));
        let names = || {
            let steps = self.variables.typing.bodies.iter().flat_map(|body| &body.flow.steps);
            steps.flat_map(|step| [step.node.op_type, step.node.known_as()]).filter(|name| !name.is_empty())
        };
        for (field, pattern) in keep.chain(low) {
            if !names().any(|name| pattern.matches(name)) {
                let (text, near) = (pattern.to_string(), pattern.nearest(names()));
                let what = Wording::default().field(field, format!(" `{}` matches no node", Short(&text)));
                return Err(ModelError::unknown(what, &text, near));
            }
        }
        Ok(())
    }

    /// Sparse initializers, which are not stored in another type.
    fn sparse(&mut self) {
        for (place, body) in self.variables.typing.bodies.iter().enumerate() {
            for (of_type, own) in body.types.iter().zip(&self.variables.values[place]) {
                if let (Some(ValueType::Sparse(_)), Some(own)) = (of_type, own) {
                    self.variables.pins.wide(*own, Reason::Fixed);
                }
            }
        }
    }

    fn values(&mut self, values: &HashMap<(usize, Id), Reason>, own: bool) {
        pin_values(self.variables, values, own);
    }

    /// Pins dequantized values. Activations stay float. Weights get the type of the product that reads them, if
    /// DequantizeLinear supports it. A product stays float if a runtime computes it with the codes of both inputs, or
    /// with the codes of a weight that stays float: a Cast in between would prevent that.
    fn quantized(&mut self, fixed: &[bool]) {
        let (model, dequantizes) = (self.model, |node: &Node<'_, '_, '_>| node.step.traits.is(Flag::Dequantizes));
        let is_weight = |node: &Node<'_, '_, '_>| node.inputs.iter().flatten().all(|&value| fixed[value]);
        for node in model.nodes.iter().filter(|node| dequantizes(node) && !is_weight(node)) {
            if let Some(variable) = self.variables.nodes[node.body][node.at] {
                self.variables.pins.wide(variable, Reason::Fixed);
            }
        }
        let impossible = self.variables.impossible();
        let passes = |step: &Step<'_, '_>| step.traits.is(Flag::Arranges) && !step.node.is("Cast");
        for node in model.nodes.iter().filter(|node| node.step.traits.is(Flag::Fast)) {
            let Some(variable) = self.variables.nodes[node.body][node.at] else { continue };
            let inputs = node.inputs.iter().flatten().map(|&value| {
                let givers = model.sources(value, passes).0;
                let mut givers =
                    givers.into_iter().filter_map(|end| model.node_of(end)).map(|giver| &model.nodes[giver]);
                (value, givers.find(|giver| dequantizes(giver)))
            });
            let inputs: Vec<_> = inputs
                .filter(|&(value, _)| self.variables.values[node.body][model.values[value].id].is_some())
                .collect();
            let of_codes = |giver: &Node<'_, '_, '_>| !is_weight(giver);
            let stays = |giver: &Node<'_, '_, '_>| {
                let own = self.variables.nodes[giver.body][giver.at];
                own.is_some_and(|own| impossible.contains(&self.variables.root(own)))
            };
            let all = inputs.iter().all(|&(value, giver)| giver.is_some() || fixed[value]);
            let mut givers = inputs.iter().filter_map(|&(_, giver)| giver);
            if givers.clone().any(stays) || (all && givers.any(of_codes)) {
                self.variables.pins.wide(variable, Reason::Fused);
            }
        }
    }

    /// The inputs and outputs of the model.
    fn interface(&mut self) -> Result<(), ModelError> {
        let graph = &self.document.graph;
        let body = self.variables.body(0);
        let ports = &body.flow.ports[&graph.id];
        for (name, data_type) in &self.request.io.named {
            let all = || ports.inputs.iter().chain(ports.outputs.iter().flatten());
            let type_of = |id: Id| body.types[id].as_ref().and_then(|of_type| of_type.tensor());
            let is_float =
                |id: Id| self.variables.values[0][id].is_some() || type_of(id).is_some_and(DataType::is_float);
            let known = || all().filter(|id| is_float(**id)).map(|id| (body.flow.values[*id].name, type_of(*id)));
            let Some((_, own)) = known().find(|(one, _)| one == name) else {
                let what = format!("`{}` is not a floating-point input or output of the model", Short(name));
                return Err(ModelError::unknown(what, name, nearest(name, known().map(|(one, _)| one))));
            };
            if Some(*data_type) != own && *data_type != self.variables.low {
                let what =
                    format!("`{}` is a floating-point input or output, which cannot be {data_type} here", Short(name));
                return Err(ModelError::unknown(what, name, None));
            }
        }
        let (inputs, outputs) = (ports.inputs.clone(), ports.outputs.clone());
        for id in inputs {
            if let Some(own) = self.variables.values[0][id] {
                self.port(own, self.variables.body(0).flow.values[id].name);
            }
        }
        for (index, id) in outputs.into_iter().enumerate() {
            let Some((id, own)) = id.and_then(|id| Some((id, self.variables.values[0][id]?))) else { continue };
            let value = &self.variables.body(0).flow.values[id];
            // What no node gives has one name, and so one type.
            let is_given = matches!(value.origin, Origin::Node(..));
            let is_tensor = self.variables.is_tensor(0, id);
            let variable = if is_given && is_tensor { self.variables.variable() } else { own };
            let place = Use::Output(self.document.graph.id, index);
            self.variables.readings.push(Reading { body: 0, value: id, place, variable, takes_any: false });
            self.port(variable, value.name);
        }
        Ok(())
    }

    fn port(&mut self, variable: Variable, name: &str) {
        let named = self.request.io.named.iter().find(|(known, _)| known == name);
        let low = named.map_or(self.request.io.low, |(_, data_type)| *data_type == self.variables.low);
        if low {
            self.variables.pins.low(variable, Reason::Interface);
        } else {
            self.variables.pins.wide(variable, Reason::Interface);
        }
    }

    /// Values that were recorded beyond what the type holds: those of the main graph, its branches and loops, of which
    /// several may have one name.
    fn ranges(&mut self) {
        let mut beyond = HashMap::new();
        // A function has no values of its own: it may be called several times.
        for (id, value) in self.variables.body(0).flow.values.iter().enumerate() {
            if let Some(&magnitude) = self.request.ranges.get(value.name)
                && (!magnitude.is_finite() || overflows(magnitude * self.request.margin, self.variables.low))
            {
                beyond.insert((0, id), Reason::Range(magnitude));
            }
        }
        self.values(&beyond, true);
    }

    /// Constants that overflow, unless they are masks, and those that have nothing but what vanishes. The same of what
    /// the model computes from constants alone: a weight that is dequantized, whose codes and scales all fit.
    fn lost(&mut self, bounds: &[Bounds], fixed: &[bool], masks: &[MaskOf]) -> Vec<Reading> {
        let (low, keeps_digits) = (self.variables.low, self.request.keeps_sensitive());
        let model = self.model;
        let is_hidden = |value: usize, span: Span| span.is_sentinel(low) && masks[value].is_mask();
        let is_lost = |value: usize, span: Span| {
            span.vanishes(low, keeps_digits) || (span.overflows(low) && !is_hidden(value, span))
        };
        let (mut beyond, mut computed, mut sentinels) = (HashMap::new(), self.fills(masks), HashSet::new());
        // A clamp changes constants, and not what is computed from them.
        for ((place, id), known) in self.constants.iter().filter(|_| self.request.clamp.is_none()) {
            let vanishes = self.losses.vanishing.contains(known.constant.name);
            if vanishes || known.span.is_some_and(|span| span.overflows(low)) {
                beyond.insert((place, id), Reason::Lost(known.constant.name.to_owned()));
            }
            if !vanishes && known.span.is_some_and(|span| span.is_sentinel(low)) {
                sentinels.insert((place, id));
            }
        }
        for (at, value) in model.values.iter().enumerate().filter(|(at, _)| fixed[*at]) {
            let is_constant = self.constants.get(value.body, value.id).is_some();
            if !is_constant && is_lost(at, bounds[at].span()) {
                let name = model.bodies[value.body].flow.values[value.id].name;
                computed.insert((value.body, value.id), Reason::Lost(name.to_owned()));
            }
        }
        // Each reader of a sentinel gets the number that it needs: a mask a finite one, others the number itself.
        let is_mask = |reading: &Reading| {
            let value = model.value(reading.body, reading.value);
            sentinels.contains(&(reading.body, reading.value))
                && match reading.place {
                    Use::Input(at, input) => {
                        is_mask_reading(model, masks, value, (model.node(reading.body, at), input))
                    }
                    Use::Output(..) => masks[value].is_mask(),
                }
        };
        let readings: Vec<Reading> =
            self.variables.readings.iter().filter(|reading| !is_mask(reading)).copied().collect();
        for Reading { body, value, variable, .. } in &readings {
            if let Some(reason) = beyond.get(&(*body, *value)) {
                self.variables.pins.wide(*variable, reason.clone());
            }
        }
        self.values(&computed, true);
        let is_lost = |reading: &&Reading| beyond.contains_key(&(reading.body, reading.value)) && !reading.takes_any;
        let lost = readings.iter().filter(is_lost).copied().collect();
        beyond.extend(computed);
        // What is computed with a number beyond the type is beyond it too, but where the number is a bound or a
        // divisor.
        let mut results = HashMap::new();
        for Reading { body, value, place, .. } in &readings {
            let (Some(reason), Use::Input(at, input)) = (beyond.get(&(*body, *value)), place) else { continue };
            let (step, schema) = (&self.variables.body(*body).flow.steps[*at], self.variables.body(*body).schemas[*at]);
            let name = schema.and_then(|schema| Some(schema.input(*input)?.name));
            if name.and_then(|name| step.traits.meaning(name)) != Some(Meaning::Limit) {
                results.extend(step.outputs.iter().flatten().map(|&id| ((*body, id), reason.clone())));
            }
        }
        self.values(&results, false);
        lost
    }

    /// The results of ConstantOfShape whose number overflows, unless they are masks.
    fn fills(&self, masks: &[MaskOf]) -> HashMap<(usize, Id), Reason> {
        let low = self.variables.low;
        let nodes = self.model.nodes.iter().filter(|node| node.step.node.is("ConstantOfShape"));
        let values = nodes.filter_map(|node| Some((node, (*node.outputs.first()?)?))).filter(|&(node, value)| {
            let is_lost = |fill| overflows(fill, low) && !(fill < 0.0 && masks[value].is_mask());
            super::mask::fill(node.step.node, low, self.request.clamp).is_none_or(is_lost)
        });
        let place = |value: usize| (self.model.values[value].body, self.model.values[value].id);
        values.map(|(_, value)| (place(value), Reason::Lost("value".to_owned()))).collect()
    }

    /// What is decided of a node by its operator or its name.
    fn step(&mut self, place: usize, at: usize) {
        let Some(variable) = self.variables.nodes[place][at] else { return };
        let flow = &self.variables.body(place).flow;
        let node = flow.steps[at].node;
        for keep in &self.request.keep {
            let Keep::Nodes(pattern) = keep else { continue };
            if pattern.matches(node.op_type) || pattern.matches(node.known_as()) {
                self.variables.pins.wide(variable, Reason::Kept(pattern.to_string()));
            }
        }
        // A Cast computes nothing that could be narrow.
        let low = self.request.low.iter().filter(|_| !node.is("Cast"));
        for pattern in low {
            if pattern.matches(node.op_type) || pattern.matches(node.known_as()) {
                self.variables.pins.low(variable, Reason::Wanted(pattern.to_string()));
            }
        }
        let traits = flow.steps[at].traits;
        if traits.is(Flag::Float) {
            self.variables.pins.wide(variable, Reason::Fixed);
        } else if traits.is(Flag::Fast) {
            self.variables.pins.low(variable, Reason::Fast);
        }
    }
}

/// Pins the values of graphs whose opset has no Cast to the type.
pub(crate) fn no_cast(variables: &mut Variables<'_, '_, '_>) {
    let since = Operator::Cast.since(variables.low).unwrap_or(i64::MAX);
    let mut without = HashMap::new();
    for (place, body) in variables.typing.bodies.iter().enumerate() {
        let lacks = |graph: &usize| body.flow.graphs[graph].opset.is_none_or(|opset| opset < since);
        let values = body.flow.values.iter().enumerate().filter(|(_, value)| lacks(&value.graph));
        without.extend(values.map(|(id, _)| ((place, id), Reason::NoCast)));
    }
    if !without.is_empty() {
        variables.gains_from(since);
    }
    pin_values(variables, &without, true);
}

/// Pins the readers of values and, if `own`, the values themselves.
fn pin_values(variables: &mut Variables<'_, '_, '_>, values: &HashMap<(usize, Id), Reason>, own: bool) {
    for (&(place, id), reason) in values {
        if let Some(own) = variables.values[place][id].filter(|_| own) {
            variables.pins.wide(own, reason.clone());
        }
    }
    for Reading { body, value, variable, .. } in &variables.readings {
        if let Some(reason) = values.get(&(*body, *value)) {
            variables.pins.wide(*variable, reason.clone());
        }
    }
}
