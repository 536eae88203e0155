//! `fold`: Casts (CastLike, BitCast) of constants are computed, those that change nothing removed, and two in a row
//! made one where no value can tell ([`DataType::is_same_via`]).
//!
//! Nodes are visited in their order. Each decision moves the reads of values, so that what comes later sees what is
//! left; only at the end are the moves written down as edits. Whatever cannot be decided stays as it is: a type that
//! the model does not tell, a name that a graph within would understand otherwise, an attribute that stands for a
//! function's.

use crate::constant::Constant;
use crate::emit::{Content, Edits, NewTensor, NodeEdit};
use crate::error::Error;
use crate::error::ModelError;
use crate::external::Files;
use crate::graph::types::{since, version};
use crate::graph::values::{Flow, Id, Origin, Read, Step};
use crate::rewrite::{Request, rewrite};
use crate::rope::{Elements, Stored};
use crate::tree::{Declared, Document, Graph};
use onnx_cast::{BitCast, Cast, CastLike, DataType, OpError, Plan, Strings, TensorData, TensorView};
use onnx_cast_file::formats::pb;
use onnx_cast_file::formats::protobuf::onnx::tensor;
use onnx_cast_file::formats::protobuf::wire;
use onnx_cast_file::formats::source::SourceData;
use onnx_cast_file::io::progress::Watch;
use onnx_cast_file::{Pattern, Storage, admits};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// What to fold in a model, and where to put the result.
#[derive(Clone, Debug, Default)]
pub struct FoldRequest {
    /// Only Casts that give values of these names; all of them where this is empty.
    pub include: Vec<Pattern>,
    /// Not Casts that give values of these names.
    pub exclude: Vec<Pattern>,
    /// Write nothing, and tell what would be done.
    pub dry_run: bool,
    /// Where the elements go.
    pub storage: Storage,
    /// Threads at most.
    pub threads: Option<usize>,
    /// Called with the progress of the work.
    pub watch: Option<Watch>,
}

/// What was folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FoldSummary {
    /// Casts of constants, which are now constants.
    pub computed: usize,
    /// Casts that changed nothing.
    pub removed: usize,
    /// Casts that now read what the Cast before them reads.
    pub joined: usize,
    /// Every Cast of the model, in its order.
    pub casts: Vec<Folded>,
}

/// A Cast, a CastLike or a BitCast, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Folded {
    /// The value that it gives, by its name.
    pub output: String,
    /// The operator.
    pub operator: &'static str,
    /// The type that is cast, where the model tells it.
    pub from: Option<DataType>,
    /// The type that it is cast to, likewise.
    pub to: Option<DataType>,
    /// What became of it.
    pub outcome: FoldOutcome,
}

/// What becomes of a Cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FoldOutcome {
    /// It is there as it was.
    Kept,
    /// What it gave is a constant.
    Computed,
    /// It changed nothing, and is gone.
    Removed,
    /// It reads what the Cast before it reads.
    Joined,
    /// It is gone, since what read it reads what it read.
    Bypassed,
}

impl FoldOutcome {
    /// `kept`, and so on.
    pub const fn name(self) -> &'static str {
        match self {
            FoldOutcome::Kept => "kept",
            FoldOutcome::Computed => "computed",
            FoldOutcome::Removed => "removed",
            FoldOutcome::Joined => "joined",
            FoldOutcome::Bypassed => "bypassed",
        }
    }
}

impl fmt::Display for FoldOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Folds the Casts, CastLikes and BitCasts of a model, in its graph, the graphs within it and its functions. Inputs and
/// outputs keep their names and types, nodes their order, and every output its bits.
///
/// A constant that nothing reads any more is removed, and with it the input that it has to be before version 4 of the
/// format ([`Model::inputs`](crate::Model::inputs) lists none of these). Types are taken from the model's own
/// declarations.
///
/// # Errors
/// Where a file cannot be read or written, or the model is not valid.
pub fn fold(input: impl AsRef<Path>, output: impl AsRef<Path>, request: &FoldRequest) -> Result<FoldSummary, Error> {
    let &FoldRequest { ref storage, dry_run, threads, ref watch, .. } = request;
    let how = Request { storage, dry_run, counts: false, threads, watch: watch.as_ref(), step: &|| {} };
    rewrite(input.as_ref(), output.as_ref(), &how, |document, files| edits(document, files, request), Ok)
}

fn edits<'a>(
    document: &Document<'a>,
    files: &'a Files,
    request: &FoldRequest,
) -> Result<(Edits<'a>, FoldSummary), ModelError> {
    let mut edits = Edits::default();
    let mut summary = FoldSummary::default();
    for body in document.bodies() {
        let mut fold = Fold::new(document, body, files, request);
        fold.run()?;
        fold.write(&mut edits);
        summary.computed += fold.summary.computed;
        summary.removed += fold.summary.removed;
        summary.joined += fold.summary.joined;
        summary.casts.append(&mut fold.summary.casts);
    }
    if document.training && summary.computed + summary.removed + summary.joined > 0 {
        return Err(ModelError::Training);
    }
    Ok((edits, summary))
}

/// A constant, or what a Cast makes of one.
#[derive(Clone, Debug)]
struct Known<'a> {
    /// The constant of the model that it comes from.
    root: Id,
    /// The TensorProto, whose other fields are kept.
    message: Option<&'a [u8]>,
    shape: Arc<[usize]>,
    content: KnownContent<'a>,
}

#[derive(Clone, Debug)]
enum KnownContent<'a> {
    Numbers(Elements<'a>),
    Strings(Arc<Strings>),
}

/// The most elements of a body that are cast from or to strings, which stand in memory while they are.
const MAX_STRINGS: usize = 1 << 20;

/// The most Casts of a constant in a row that are computed, each from the one before. Without a limit, a file of Casts
/// alone would take memory by the square of their number.
const MAX_CHAIN: usize = 64;

impl<'a> Known<'a> {
    fn of(root: Id, constant: Constant<'a>) -> Option<Known<'a>> {
        let Constant { message, shape, elements, len, .. } = constant;
        let content = match (elements, message) {
            (Some(elements), _) => KnownContent::Numbers(elements),
            (None, Some(message)) if len <= MAX_STRINGS => match pb::parse(message).ok()?.data {
                SourceData::Strings(strings) => KnownContent::Strings(Arc::new(strings)),
                SourceData::Bytes(_) => return None,
            },
            _ => return None,
        };
        Some(Known { root, message, shape: shape.into(), content })
    }

    fn len(&self) -> usize {
        match &self.content {
            KnownContent::Numbers(elements) => elements.len,
            KnownContent::Strings(strings) => strings.view().len(),
        }
    }

    /// What a cast makes of it; `None` where it fails, as it then does when the model runs, or is too much. Strings
    /// count against what is `left` for them.
    fn then(&self, plan: &Plan, left: &mut usize) -> Option<Known<'a>> {
        if plan.source_type() == DataType::String || plan.target_type() == DataType::String {
            *left = left.checked_sub(self.len())?;
        }
        let content = match &self.content {
            KnownContent::Numbers(elements) if plan.target_type() != DataType::String => {
                KnownContent::Numbers((elements.plans.0.len() < MAX_CHAIN).then(|| elements.then(*plan))?)
            }
            KnownContent::Numbers(elements) => {
                let bytes = elements.read()?;
                let mut strings = Strings::new();
                plan.run_strings_into(&TensorView::new(plan.source_type(), &self.shape, &bytes).ok()?, &mut strings)
                    .ok()?;
                KnownContent::Strings(Arc::new(strings))
            }
            KnownContent::Strings(strings) => {
                match plan.run(&TensorView::strings(&self.shape, strings.view()).ok()?).ok()?.into_parts().2 {
                    TensorData::Strings(strings) => KnownContent::Strings(Arc::new(strings)),
                    TensorData::Bytes(bytes) => KnownContent::Numbers(Elements::new(
                        Stored::Owned(bytes.into()),
                        plan.target_type(),
                        self.len(),
                    )),
                }
            }
        };
        Some(Known { content, ..self.clone() })
    }

    fn tensor(&self, name: Option<&str>) -> NewTensor<'a> {
        let content = match &self.content {
            KnownContent::Numbers(elements) => Content::Elements(elements.clone()),
            KnownContent::Strings(strings) => {
                let mut fields = Vec::new();
                strings.view().iter().for_each(|string| wire::put_bytes(&mut fields, tensor::STRING_DATA, string));
                Content::Strings(fields)
            }
        };
        // Where there is a message, it tells the shape.
        let shape = if self.message.is_some() { Vec::new() } else { self.shape.to_vec() };
        NewTensor { message: self.message, name: name.map(str::to_owned), shape, content }
    }
}

/// The operator of a node, as far as a fold has to know it.
#[derive(Clone, Copy, Debug)]
enum Work {
    Cast(Cast),
    CastLike(CastLike),
    BitCast(BitCast),
}

/// A node that casts.
#[derive(Clone, Copy, Debug)]
struct Casting {
    /// The node, and its first input.
    read: Read,
    input: Id,
    output: Id,
    work: Work,
    to: DataType,
    /// Its place in the summary.
    row: usize,
}

impl Casting {
    fn plan(&self, from: DataType) -> Result<Plan, OpError> {
        match self.work {
            Work::Cast(cast) => cast.plan(from),
            Work::CastLike(cast) => cast.plan(from, self.to),
            Work::BitCast(cast) => cast.plan(from),
        }
    }

    fn is_bits(&self) -> bool {
        matches!(self.work, Work::BitCast(_))
    }
}

struct Fold<'t, 'a> {
    document: &'t Document<'a>,
    files: &'a Files,
    request: &'t FoldRequest,
    flow: Flow<'t, 'a>,
    known: HashMap<Id, Known<'a>>,
    /// Casts that are left, by what they give.
    casts: HashMap<Id, Casting>,
    /// Casts that are computed, in their order.
    computed: Vec<Casting>,
    /// Steps whose nodes are not needed any more.
    dropped: Vec<usize>,
    /// What such a node read.
    released: HashSet<Id>,
    /// Names that a graph gives no value any more.
    gone: HashSet<(usize, &'a str)>,
    /// How many more elements may be cast from or to strings.
    strings: usize,
    summary: FoldSummary,
}

impl<'t, 'a> Fold<'t, 'a> {
    fn new(document: &'t Document<'a>, body: &'t Graph<'a>, files: &'a Files, request: &'t FoldRequest) -> Self {
        Fold {
            document,
            files,
            request,
            flow: Flow::of(body),
            known: HashMap::new(),
            casts: HashMap::new(),
            computed: Vec::new(),
            dropped: Vec::new(),
            released: HashSet::new(),
            gone: HashSet::new(),
            strings: MAX_STRINGS,
            summary: FoldSummary::default(),
        }
    }

    fn run(&mut self) -> Result<(), ModelError> {
        for step in 0..self.flow.steps.len() {
            let Step { node, ref outputs, .. } = self.flow.steps[step];
            if let (true, Some(Some(id))) = (node.is("Constant"), outputs.first()) {
                let id = *id;
                if let Some(constant) = Constant::of_node(node, self.files)? {
                    self.flow.values[id].data_type = Some(constant.data_type);
                    self.known.extend(Known::of(id, constant).map(|known| (id, known)));
                }
            } else if let Some(operator) = node.casting() {
                let row = self.list(step, operator);
                if let Some(casting) = self.casting(step, row) {
                    self.flow.values[casting.output].data_type = Some(casting.to);
                    if admits(&self.request.include, &self.request.exclude, &self.summary.casts[row].output) {
                        self.summary.casts[row].outcome = self.fold(casting)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Lists a Cast as one that is kept; its place in the summary.
    fn list(&mut self, step: usize, operator: &'static str) -> usize {
        let Step { node, ref inputs, .. } = self.flow.steps[step];
        let known = |input: usize| self.flow.values[inputs.get(input).copied().flatten()?].data_type;
        let (from, to) = (known(0), if operator == "CastLike" { known(1) } else { node.target() });
        let output = node.output().unwrap_or_default().to_owned();
        self.summary.casts.push(Folded { output, operator, from, to, outcome: FoldOutcome::Kept });
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
                (Work::CastLike(cast), self.flow.values[like].data_type?)
            }
            _ => return None,
        };
        // Whoever is spoken of by name must be the only one of that name.
        let only = |id: Id| self.flow.means(self.flow.values[id].name, self.flow.values[id].graph, graph.id);
        let read = Read { step, input: 0 };
        (only(input) && only(output)).then_some(Casting { read, input, output, work, to, row })
    }

    fn graph(&self, casting: &Casting) -> &'t Graph<'a> {
        self.flow.steps[casting.read.step].graph
    }

    fn drop_node(&mut self, casting: &Casting) {
        let step = casting.read.step;
        self.dropped.push(step);
        let like = self.flow.steps[step].inputs.get(1).copied().flatten();
        for (id, input) in [(Some(casting.input), 0), (like, 1)] {
            if let Some(id) = id {
                self.flow.values[id].reads.remove(&Read { step, input });
                self.released.insert(id);
            }
        }
    }

    /// Has everybody read the input of a cast that changes nothing.
    fn remove(&mut self, casting: &Casting) -> bool {
        let &Casting { input, output, to, .. } = casting;
        let [source, result] = [&self.flow.values[input], &self.flow.values[output]];
        if source.data_type != Some(to) || casting.plan(to).is_err() {
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
    fn known(&mut self, id: Id) -> Result<Option<Known<'a>>, ModelError> {
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
        let known = Known::of(id, constant);
        self.known.extend(known.clone().map(|known| (id, known)));
        Ok(known)
    }

    /// Makes the result of casting a constant one.
    fn compute(&mut self, casting: &Casting) -> Result<bool, ModelError> {
        let Some(known) = self.known(casting.input)? else { return Ok(false) };
        let from = self.flow.values[casting.input].data_type;
        let Some(plan) = from.and_then(|from| casting.plan(from).ok()) else { return Ok(false) };
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
    fn needs_node(&self, casting: &Casting) -> bool {
        self.graph(casting).is_function || self.document.ir_version < 4 || self.flow.values[casting.output].outputs > 0
    }

    /// Whether Constant has the type of the result, at the opset of the graph.
    fn fits_node(&self, casting: &Casting) -> bool {
        let version = version(true, self.graph(casting).opset.unwrap_or(0));
        since(true, casting.to).is_some_and(|since| since <= version)
    }

    /// Has a cast read what the cast before it reads, and so on; whether it does now.
    fn join(&mut self, casting: &mut Casting) -> bool {
        let mut joined = false;
        while let Some(&before) = self.casts.get(&casting.input) {
            let [source, middle] = [before.input, casting.input].map(|id| self.flow.values[id].data_type);
            let (Some(source_type), Some(middle_type)) = (source, middle) else { break };
            let same = match (before.is_bits(), casting.is_bits()) {
                (false, false) => source_type.is_same_via(middle_type, casting.to),
                // A truth value may be read as 0 or 1 whatever its bits.
                (true, true) => ![source_type, middle_type, casting.to].contains(&DataType::Bool),
                _ => false,
            };
            let value = &self.flow.values[before.input];
            if !same
                || casting.plan(source_type).is_err()
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

    /// Writes down what has been decided.
    fn write(&mut self, edits: &mut Edits<'a>) {
        for &step in &self.dropped {
            self.node_edit(step, edits).drop = true;
        }
        let mut taken = HashSet::new();
        for casting in std::mem::take(&mut self.computed) {
            if self.flow.is_unused(casting.output) {
                self.forget(casting.output);
            } else {
                self.store(&casting, edits, &mut taken);
            }
        }
        for id in std::mem::take(&mut self.released) {
            if self.flow.is_unused(id) && self.discard(id, taken.contains(&id), edits) {
                self.forget(id);
            }
        }
        self.rename(edits);
    }

    fn node_edit<'e>(&self, step: usize, edits: &'e mut Edits<'a>) -> &'e mut NodeEdit<'a> {
        let step = &self.flow.steps[step];
        edits.graphs.entry(step.graph.id).or_default().nodes.entry(step.index).or_default()
    }

    fn forget(&mut self, id: Id) {
        let value = &self.flow.values[id];
        self.gone.insert((value.graph, value.name));
    }

    /// Puts a computed constant in the place of the one that it comes from, if that is free, or adds it.
    fn store(&self, casting: &Casting, edits: &mut Edits<'a>, taken: &mut HashSet<Id>) {
        let Some(known) = self.known.get(&casting.output) else { return };
        let result = &self.flow.values[casting.output];
        let (name, graph) = (result.name, self.graph(casting).id);
        let root = &self.flow.values[known.root];
        let free = root.graph == graph && self.flow.is_unused(known.root) && !taken.contains(&known.root);
        match root.origin {
            Origin::Initializer(index, input)
                if free && result.outputs == 0 && (input.is_some() || self.document.ir_version >= 4) =>
            {
                let edit = edits.graphs.entry(graph).or_default();
                edit.initializers.insert(index, Some(known.tensor(Some(name))));
                edit.inputs.extend(input.map(|input| (input, Some((name.to_owned(), casting.to)))));
                taken.insert(known.root);
            }
            Origin::Node(step, _) if free && self.fits_node(casting) => {
                let node = self.node_edit(step, edits);
                node.value = Some(known.tensor(None));
                node.outputs.insert(0, name.to_owned());
                taken.insert(known.root);
            }
            _ if self.needs_node(casting) => {
                let node = self.node_edit(casting.read.step, edits);
                (node.drop, node.constant) = (false, Some((name.to_owned(), known.tensor(Some(name)))));
            }
            _ => edits.graphs.entry(graph).or_default().added_initializers.push(known.tensor(Some(name))),
        }
    }

    /// Removes what gives an unused value, if that is a constant; whether the value is no more. One that is `taken` has
    /// another value in its place.
    fn discard(&self, id: Id, taken: bool, edits: &mut Edits<'a>) -> bool {
        let value = &self.flow.values[id];
        let edit = edits.graphs.entry(value.graph).or_default();
        match value.origin {
            // An input that may be given stays, read or not.
            Origin::Initializer(_, Some(_)) if self.document.ir_version >= 4 => return false,
            Origin::Initializer(index, input) if !taken => {
                edit.initializers.insert(index, None);
                edit.inputs.extend(input.map(|input| (input, None)));
            }
            Origin::Node(step, _) if !self.flow.steps[step].node.is("Constant") => return false,
            Origin::Node(step, _) if !taken => self.node_edit(step, edits).drop = true,
            Origin::Other => return false,
            _ => {}
        }
        true
    }

    /// New names wherever a value is given or read by another than it has now, and no declarations of those that are
    /// gone.
    fn rename(&self, edits: &mut Edits<'a>) {
        for value in &self.flow.values {
            if let Origin::Node(step, place) = value.origin
                && self.flow.steps[step].node.outputs[place] != value.name
            {
                self.node_edit(step, edits).outputs.insert(place, value.name.to_owned());
            }
            for read in &value.reads {
                if self.flow.steps[read.step].node.inputs[read.input] != value.name {
                    self.node_edit(read.step, edits).inputs.insert(read.input, value.name.to_owned());
                }
            }
        }
        for graph in self.flow.graphs.values() {
            let lost = |declared: &Declared<'a>| self.gone.contains(&(graph.id, declared.name));
            let lost: Vec<_> = (0..graph.value_info.len()).filter(|&index| lost(&graph.value_info[index])).collect();
            if !lost.is_empty() {
                edits.graphs.entry(graph.id).or_default().value_info.extend(lost);
            }
        }
    }
}
