//! What becomes of each Cast. Each decision moves the reads of values, so that what comes later sees what is left.
//!
//! Whatever cannot be decided stays as it is: a type that the model does not tell, a name that a graph within would
//! understand otherwise, an attribute that stands for a function's.

use super::known::{FoldValue, MAX_STRINGS};
use super::{FoldOutcome, FoldRequest, FoldSummary, Folded};
use crate::constant::Constant;
use crate::error::ModelError;
use crate::external::Files;
use crate::graph::values::{Flow, Id, Origin, Read, Step};
use crate::tree::{Document, Graph};
use crate::types::agreed::AgreedBody;
use crate::types::schemas::Schema;
use onnx_cast::{BitCast, Cast, CastLike, DataType, Plan};
use onnx_cast_file::admits;
use std::collections::{HashMap, HashSet};

/// The operator of a node, as far as a fold has to know it.
#[derive(Clone, Copy, Debug)]
enum Work {
    Cast(Cast),
    CastLike(CastLike),
    BitCast(BitCast),
}

/// A node that casts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Casting {
    /// The node, and its first input.
    pub(super) read: Read,
    input: Id,
    pub(super) output: Id,
    /// `None` of a scaled cast, which is computed or stays.
    work: Option<Work>,
    pub(super) to: DataType,
    /// Its place in the summary.
    row: usize,
}

impl Casting {
    fn plan(&self, from: DataType) -> Option<Plan> {
        let plan = match self.work? {
            Work::Cast(cast) => cast.plan(from),
            Work::CastLike(cast) => cast.plan(from, self.to),
            Work::BitCast(cast) => cast.plan(from),
        };
        plan.ok()
    }

    fn is_bits(&self) -> bool {
        matches!(self.work, Some(Work::BitCast(_)))
    }
}

pub(super) struct Fold<'t, 'a> {
    pub(super) document: &'t Document<'a>,
    files: &'a Files<'a>,
    request: &'t FoldRequest,
    pub(super) flow: Flow<'t, 'a>,
    /// By value, where something tells it.
    types: Vec<Option<DataType>>,
    pub(super) known: HashMap<Id, FoldValue<'a>>,
    /// Casts that are left, by what they give.
    casts: HashMap<Id, Casting>,
    /// Casts that are computed, in their order.
    pub(super) computed: Vec<Casting>,
    /// Steps whose nodes are not needed any more.
    pub(super) dropped: Vec<usize>,
    /// What such a node read.
    pub(super) released: HashSet<Id>,
    /// Names that a graph gives no value any more.
    pub(super) gone: HashSet<(usize, &'a str)>,
    /// How many more elements may be cast from or to strings.
    strings: usize,
    pub(super) summary: FoldSummary,
}

impl<'t, 'a> Fold<'t, 'a> {
    /// Of a body; what was done with those before it is in the summary.
    pub(super) fn new(
        document: &'t Document<'a>,
        AgreedBody { flow, types, .. }: AgreedBody<'t, 'a>,
        files: &'a Files<'a>,
        request: &'t FoldRequest,
        summary: FoldSummary,
    ) -> Self {
        Fold {
            document,
            files,
            request,
            flow,
            types,
            known: HashMap::new(),
            casts: HashMap::new(),
            computed: Vec::new(),
            dropped: Vec::new(),
            released: HashSet::new(),
            gone: HashSet::new(),
            strings: MAX_STRINGS,
            summary,
        }
    }

    pub(super) fn run(&mut self) -> Result<(), ModelError> {
        for step in 0..self.flow.steps.len() {
            let Step { node, ref outputs, .. } = self.flow.steps[step];
            if let (true, Some(Some(id))) = (node.is("Constant"), outputs.first()) {
                let id = *id;
                if let Some(constant) = Constant::of_node(node, self.files)? {
                    self.known.extend(FoldValue::of(id, constant).map(|known| (id, known)));
                }
            } else if let Some(operator) = node.casting() {
                let row = self.list(step, operator);
                if node.is_scaled() {
                    if self.is_meant(step, row) {
                        self.summary.casts[row].outcome = self.scaled(step, row)?;
                    }
                } else if let Some(casting) = self.casting(step, row) {
                    self.types[casting.output] = Some(casting.to);
                    if self.is_meant(step, row) {
                        self.summary.casts[row].outcome = self.fold(casting)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether the request selects a node, or one whose scales it gives.
    fn is_meant(&self, step: usize, row: usize) -> bool {
        let admits = |output: &str| admits(&self.request.include, &self.request.exclude, output);
        let Folded { operator, output, .. } = &self.summary.casts[row];
        if self.request.operator.is_some_and(|only| only != *operator) {
            return false;
        }
        if *operator == "DequantizeLinear" && !self.request.dequantize {
            return false;
        }
        let mut readers = self.readers_of_scales(step).into_iter().flatten().peekable();
        admits(output) || readers.peek().is_some() && readers.all(admits)
    }

    /// The names that scaled casts give by scales from a node; `None` where something else reads them.
    fn readers_of_scales(&self, step: usize) -> Option<Vec<&'a str>> {
        let &[Some(output)] = &self.flow.steps[step].outputs[..] else { return None };
        let value = &self.flow.values[output];
        let name = |read: &Read| {
            let node = self.flow.steps[read.step].node;
            (read.input == 1 && node.is_scaled()).then(|| node.output()).flatten()
        };
        if value.outputs > 0 { None } else { value.reads.iter().map(name).collect() }
    }

    /// Lists a Cast as one that is kept; its place in the summary.
    fn list(&mut self, step: usize, operator: &'static str) -> usize {
        let Step { node, ref inputs, ref outputs, .. } = self.flow.steps[step];
        let type_of = |ids: &[Option<Id>]| self.types[ids.first().copied().flatten()?];
        let (from, to) = (type_of(inputs), type_of(outputs).or_else(|| node.target()));
        let output = node.output().unwrap_or_default().to_owned();
        self.summary.casts.push(Folded { output, operator, from, to, shape: None, outcome: FoldOutcome::Kept });
        self.summary.casts.len() - 1
    }

    fn fold(&mut self, mut casting: Casting) -> Result<FoldOutcome, ModelError> {
        if self.remove(&casting) {
            return Ok(FoldOutcome::Removed);
        }
        if self.compute(&casting)? {
            return Ok(FoldOutcome::Computed);
        }
        let joined = self.join(&mut casting);
        // Joined, it may be one that changes nothing.
        if joined && self.remove(&casting) {
            return Ok(FoldOutcome::Removed);
        }
        self.casts.insert(casting.output, casting);
        Ok(if joined { FoldOutcome::Joined } else { FoldOutcome::Kept })
    }

    /// The node of a step, if it casts and all that matters is known of it.
    fn casting(&self, step: usize, row: usize) -> Option<Casting> {
        let Step { node, graph, ref inputs, ref outputs, .. } = self.flow.steps[step];
        let (&[Some(input), ref like @ ..], &[Some(output)]) = (&inputs[..], &outputs[..]) else { return None };
        let opset = graph.opset?;
        let attributes = node.lend();
        let (work, to) = match (node.op_type, like) {
            ("Cast", []) => {
                let cast = Cast::from_node(opset, &attributes).ok()?;
                (Work::Cast(cast), cast.target_type())
            }
            ("BitCast", []) => {
                let cast = BitCast::from_node(opset, &attributes).ok()?;
                (Work::BitCast(cast), cast.target_type())
            }
            ("CastLike", &[Some(like)]) => {
                let cast = CastLike::from_node(opset, &attributes).ok()?;
                (Work::CastLike(cast), self.types[like]?)
            }
            _ => return None,
        };
        let read = Read { step, input: 0 };
        (self.is_only(input, graph) && self.is_only(output, graph)).then_some(Casting {
            read,
            input,
            output,
            work: Some(work),
            to,
            row,
        })
    }

    /// Whether a value is the only one of its name: it is spoken of by that.
    fn is_only(&self, id: Id, graph: &Graph<'_>) -> bool {
        self.flow.means(self.flow.values[id].name, self.flow.values[id].graph, graph.id)
    }

    /// Makes the result of a scaled cast of constants one.
    fn scaled(&mut self, step: usize, row: usize) -> Result<FoldOutcome, ModelError> {
        let Step { node, graph, ref inputs, ref outputs, .. } = self.flow.steps[step];
        let (&[Some(input), Some(scale), ref zero_point @ ..], &[Some(output)]) = (&inputs[..], &outputs[..]) else {
            return Ok(FoldOutcome::Kept);
        };
        let zero_point = zero_point.first().copied().flatten();
        let (Some(opset), true) = (graph.opset, self.is_only(input, graph) && self.is_only(output, graph)) else {
            return Ok(FoldOutcome::Kept);
        };
        let known = [self.known(input)?, self.known(scale)?, zero_point.map_or(Ok(None), |id| self.known(id))?];
        let [Some(x), Some(known_scale), zero] = &known else { return Ok(FoldOutcome::Kept) };
        if zero_point.is_some() != zero.is_some() {
            return Ok(FoldOutcome::Kept);
        }
        let Some(result) = FoldValue::of_scaled(node, opset, x, known_scale, zero.as_ref()) else {
            return Ok(FoldOutcome::Kept);
        };
        let Some(to) = result.data_type() else { return Ok(FoldOutcome::Kept) };
        self.types[output] = Some(to);
        self.summary.casts[row].to = Some(to);
        let casting = Casting { read: Read { step, input: 0 }, input, output, work: None, to, row };
        if self.needs_node(&casting) && !self.fits_node(&casting) {
            return Ok(FoldOutcome::Kept);
        }
        let gives_scales = self.readers_of_scales(step).is_some_and(|readers| !readers.is_empty());
        self.summary.casts[row].shape = (!gives_scales).then(|| result.shape().to_vec());
        self.known.insert(output, result);
        self.drop_node(&casting);
        self.computed.push(casting);
        self.summary.computed += 1;
        Ok(FoldOutcome::Computed)
    }

    pub(super) fn graph(&self, casting: &Casting) -> &'t Graph<'a> {
        self.flow.steps[casting.read.step].graph
    }

    fn drop_node(&mut self, casting: &Casting) {
        let step = casting.read.step;
        self.dropped.push(step);
        let others = self.flow.steps[step].inputs.iter().copied().enumerate().skip(1);
        let others = others.filter_map(|(input, id)| Some((input, id?)));
        for (input, id) in std::iter::once((0, casting.input)).chain(others).collect::<Vec<_>>() {
            self.flow.values[id].reads.remove(&Read { step, input });
            self.released.insert(id);
        }
    }

    /// Has everybody read the input of a cast that changes nothing.
    fn remove(&mut self, casting: &Casting) -> bool {
        let &Casting { input, output, to, .. } = casting;
        let [source, result] = [&self.flow.values[input], &self.flow.values[output]];
        if self.types[input] != Some(to) || casting.plan(to).is_none() {
            return false;
        }
        let (old, new) = ((source.graph, source.name), (result.graph, result.name));
        if result.outputs == 0 {
            if !self.flow.all_know(output, source.name, source.graph) {
                return false;
            }
            self.gone.insert(new);
        } else {
            // An output keeps its name, so that what gives the value takes it.
            let free = matches!(source.origin, Origin::Node(..)) && source.graph == result.graph && source.outputs == 0;
            if !free || self.known.contains_key(&input) || !self.flow.all_know(input, new.1, new.0) {
                return false;
            }
            self.flow.values[input].name = new.1;
            self.flow.values[input].outputs = self.flow.values[output].outputs;
            self.gone.insert(old);
        }
        self.drop_node(casting);
        self.flow.values[output].outputs = 0;
        for read in self.flow.values[output].reads.clone() {
            self.flow.redirect(read, output, input);
        }
        self.summary.removed += 1;
        true
    }

    /// The constant that a value is.
    fn known(&mut self, id: Id) -> Result<Option<FoldValue<'a>>, ModelError> {
        if let Some(known) = self.known.get(&id) {
            return Ok(Some(known.clone()));
        }
        let value = &self.flow.values[id];
        let Origin::Initializer(index, input) = value.origin else { return Ok(None) };
        // An input may be given in place of the initializer, but in models from before version 4 every one has an
        // input.
        if input.is_some() && self.document.ir_version >= 4 {
            return Ok(None);
        }
        let graph = self.flow.graphs.get(&value.graph);
        let Some(named) = graph.and_then(|graph| graph.initializers.get(index)) else { return Ok(None) };
        let constant = Constant::of_tensor(named.name, named.message, self.files)?;
        let known = FoldValue::of(id, constant);
        self.known.extend(known.clone().map(|known| (id, known)));
        Ok(known)
    }

    /// Makes the result of casting a constant one.
    fn compute(&mut self, casting: &Casting) -> Result<bool, ModelError> {
        let Some(known) = self.known(casting.input)? else { return Ok(false) };
        let from = self.types[casting.input];
        let Some(plan) = from.and_then(|from| casting.plan(from)) else { return Ok(false) };
        if self.needs_node(casting) && !self.fits_node(casting) {
            return Ok(false);
        }
        let Some(result) = known.then(&plan, &mut self.strings) else { return Ok(false) };
        self.known.insert(casting.output, result);
        self.drop_node(casting);
        self.computed.push(*casting);
        self.summary.computed += 1;
        Ok(true)
    }

    /// Whether a constant in place of a cast must be a node: functions have no initializers, in old models an
    /// initializer is an input too, and an output that is an initializer is one that some runtimes do not expect.
    pub(super) fn needs_node(&self, casting: &Casting) -> bool {
        self.graph(casting).is_function || self.document.ir_version < 4 || self.flow.values[casting.output].outputs > 0
    }

    /// Whether Constant has the type of the result, at the opset of the graph.
    pub(super) fn fits_node(&self, casting: &Casting) -> bool {
        let opset = self.graph(casting).opset.unwrap_or(0);
        Schema::first_giving("Constant", casting.to).is_some_and(|since| since <= opset)
    }

    /// Has a cast read what the cast before it reads, and so on; whether it does now.
    fn join(&mut self, casting: &mut Casting) -> bool {
        let mut joined = false;
        while let Some(&before) = self.casts.get(&casting.input) {
            let [source, middle] = [before.input, casting.input].map(|id| self.types[id]);
            let (Some(source_type), Some(middle_type)) = (source, middle) else { break };
            let same = match (before.is_bits(), casting.is_bits()) {
                (false, false) => source_type.is_same_via(middle_type, casting.to),
                // A truth value may be read as 0 or 1 whatever its bits.
                (true, true) => ![source_type, middle_type, casting.to].contains(&DataType::Bool),
                _ => false,
            };
            let value = &self.flow.values[before.input];
            if !same
                || casting.plan(source_type).is_none()
                || !self.flow.means(value.name, value.graph, self.graph(casting).id)
            {
                break;
            }
            self.flow.redirect(casting.read, casting.input, before.input);
            casting.input = before.input;
            if self.flow.is_unused(before.output) {
                self.drop_node(&before);
                self.casts.remove(&before.output);
                self.summary.casts[before.row].outcome = FoldOutcome::Bypassed;
                let value = &self.flow.values[before.output];
                self.gone.insert((value.graph, value.name));
            }
            joined = true;
        }
        self.summary.joined += usize::from(joined);
        joined
    }
}
