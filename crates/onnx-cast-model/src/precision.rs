//! `convert`: makes a model compute in float16 or bfloat16, or in float again.
//!
//! Every operator has a type variable, and so has every floating-point value that does not have the target type yet
//! (`variables.rs`). Rules pin some of the variables (`pins.rs`, `rules.rs`, `positions.rs`), also where values need
//! more digits or range (`sensitive.rs`, `resolution.rs`, `differences.rs`, `quotients.rs`, `growth.rs`). A minimum cut
//! decides the others with the fewest Casts (`assign.rs`, `cut.rs`). Then `write.rs` makes the edits, and the engine
//! that streams constants of any size writes them.

mod assign;
mod bounds;
mod constants;
mod cut;
mod declared;
mod differences;
mod explain;
mod growth;
mod losses;
mod mask;
mod norms;
mod pins;
mod positions;
mod quotients;
mod ranges;
#[cfg(test)]
mod reasons;
mod resolution;
mod rules;
mod sensitive;
mod terms;
#[cfg(test)]
mod tests;
mod variables;
mod write;

use crate::edits::Edits;
use crate::error::{Error, ModelError, ModelErrorKind};
use crate::external::Files;
use crate::graph::dataflow::Dataflow;
use crate::graph::values::{Id, Origin};
use crate::rewrite::{Request, check_output, edited, open_source, refuse_of_models, rewrite_of};
use crate::source::ModelSource;
use crate::tree::Document;
use crate::types::schemas::Schema;
use crate::types::{Body, Typing};
use crate::upgrade;
use assign::Assignment;
use constants::Constants;
pub(crate) use losses::Losses;
use losses::NarrowConstant;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::DataType;
use onnx_cast_file::__private::{FromJson, Short, counted};
use onnx_cast_file::{Existing, Ignored, Pattern, RunOptions, SelectionError, Storage, Wording};
use rules::Rules;
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;
use variables::Variables;
use write::Writer;

pub use explain::{NodeDecision, ValueDecision};
pub use ranges::read_ranges;

onnx_cast_file::request! {
    /// What to convert, and how.
    pub struct ConvertRequest {
        /// The target type: float16, bfloat16 or float; with `emulate`, float16, bfloat16 or a float8 type.
        pub to: DataType,
        /// The types of the model's inputs and outputs.
        pub io: Interface,
        /// What stays float. What is sensitive does, unless `Keep::None` is there.
        pub keep: Vec<Keep>,
        /// Operators, or names of nodes, that become narrow even if that needs more Casts.
        pub low: Vec<Pattern>,
        /// Take patterns of `keep` and `low` that match no node, which are an error otherwise.
        pub allow_unmatched: bool,
        /// The largest magnitudes of values, by name, as they were recorded.
        pub ranges: HashMap<String, f32>,
        /// By how much magnitudes may grow beyond those.
        pub margin: f32,
        /// Raise the model's opset to where its operators take the type, if it is below.
        pub raise_opset: bool,
        /// Magnitudes between which constants are clamped before they are rounded: none overflows, so that none keeps
        /// its readers float. Zeros and infinities stay. A greatest one beyond what the type holds counts as the type's
        /// own.
        pub clamp: Option<[f32; 2]>,
        /// Write a model in float that rounds its values where the narrow one would.
        pub emulate: bool,
        /// Values, or nodes, that are to be explained.
        pub explain: Vec<String>,
        /// Where the elements go.
        pub storage: Storage,
        /// How the job runs. Models are written whole, and values are not counted.
        pub run: RunOptions,
    }
}

/// The default of [`ConvertRequest::margin`].
const MARGIN: f32 = 4.0;

/// The types of a model's inputs and outputs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// Whether they become narrow.
    pub low: bool,
    /// Those that do not follow the others.
    pub named: Vec<(String, DataType)>,
}

/// `"keep"`, `"low"`, an object of names and types, or a list of these, as `--io` has them.
impl FromJson for Interface {
    fn from_json(value: &Value) -> Result<Self, String> {
        let mut interface = Interface::default();
        let parts = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for part in parts {
            match part {
                Value::String(word) if word == "keep" => interface.low = false,
                Value::String(word) if word == "low" => interface.low = true,
                Value::Object(types) => {
                    for (name, data_type) in types {
                        interface.named.push((name.clone(), DataType::from_json(data_type)?));
                    }
                }
                other => return Err(format!(" is {other} (want \"keep\", \"low\" or names with types)")),
            }
        }
        Ok(interface)
    }
}

onnx_cast_file::text_values!(Keep);

/// What stays float.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Keep {
    /// What loses digits or overflows in 16 bits, as by default.
    Sensitive,
    /// Nothing for the sake of digits.
    None,
    /// Operators, or nodes, by name.
    Nodes(Pattern),
}

/// What was converted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertSummary {
    /// The narrow type.
    pub to: DataType,
    /// Every node that computes with floats, in the order of the model, and what decided its type.
    pub nodes: Vec<NodeDecision>,
    /// Casts that are new.
    pub casts: usize,
    /// Constants that are stored in the narrow type.
    pub constants: usize,
    /// Those of them that are stored in both types.
    pub twice: usize,
    /// Constants that were clamped, each with the most extreme numbers that this changed, and what they became.
    pub clamped: Vec<(String, Vec<(f32, f32)>)>,
    /// What the values and nodes that were asked for are, and why.
    pub explained: Vec<String>,
    /// Every floating-point value.
    pub values: Vec<ValueDecision>,
    /// The opset from which on more of the model's operators take the type, where it is below.
    pub raise_to: Option<i64>,
    /// How many names of the ranges are none of the model's floating-point values.
    pub unknown_ranges: usize,
    /// Options that had no effect.
    pub ignored: Vec<Ignored>,
}

impl ConvertSummary {
    /// Says that nothing became narrow, and counts the reasons; `None` where something did.
    pub fn nothing_narrow(&self) -> Option<String> {
        let is_narrow = self.nodes.iter().any(|node| node.low) || self.values.iter().any(|value| value.low);
        if is_narrow || self.constants > 0 {
            return None;
        }
        let reasons = match self.nodes.len() {
            0 => "no node computes with floats of another type".to_owned(),
            1 => format!("the one node stays {}: {}", self.kept_types(), self.nodes[0].why),
            count => format!(
                "{count} nodes stay {}: {}",
                self.kept_types(),
                counted(self.nodes.iter().map(|node| &*node.why))
            ),
        };
        Some(format!("nothing became {}: {reasons}", self.to))
    }

    /// Why nobody knows yet whether the results are right: a model alone does not tell what its values are.
    pub fn not_verified(&self) -> &'static str {
        "no inputs were given"
    }
}

impl ConvertSummary {
    /// Names of the types of all nodes and values that do not have the target type; `float` if there are none.
    pub fn kept_types(&self) -> String {
        let nodes = self.nodes.iter().filter(|node| !node.low).map(|node| node.data_type);
        let values = self.values.iter().filter(|value| !value.low).map(|value| value.data_type);
        let mut names: Vec<&str> = nodes.chain(values).map(DataType::name).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() { DataType::Float.name().to_owned() } else { names.join(" or ") }
    }
}

impl FromStr for Keep {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, SelectionError> {
        Ok(match text {
            "sensitive" => Keep::Sensitive,
            "none" => Keep::None,
            pattern => Keep::Nodes(pattern.parse()?),
        })
    }
}

impl ConvertRequest {
    /// As far as possible in a type, with inputs and outputs as they are.
    pub fn new(to: DataType) -> Self {
        ConvertRequest {
            to,
            io: Interface::default(),
            keep: Vec::new(),
            low: Vec::new(),
            allow_unmatched: false,
            ranges: HashMap::new(),
            margin: MARGIN,
            raise_opset: false,
            clamp: None,
            emulate: false,
            explain: Vec::new(),
            storage: Storage::default(),
            run: RunOptions::default(),
        }
    }

    fn check(&self) -> Result<(), ModelError> {
        let refuse = |what| Err(ModelError::new(ModelErrorKind::Request, what));
        let is_target =
            matches!(self.to, DataType::Float16 | DataType::BFloat16) || (self.to == DataType::Float && !self.emulate);
        let is_emulated = self.emulate && self.to.is_float() && self.to.bits() == Some(8);
        if !is_target && !is_emulated {
            let or = if self.emulate { ", or emulated in float16, bfloat16 or a float8 type" } else { "" };
            let what =
                Wording::from(format!("models are converted to float, float16 or bfloat16{or}, not to {}", self.to));
            let what = match self.to.bits() {
                Some(8) if self.to.is_float() => {
                    let what = what.then(" (`quantize` stores weights in it; ");
                    what.field("emulate", " computes with its values)")
                }
                Some(2..=8) if self.to != DataType::Bool => what.then(" (`quantize` stores weights in it)"),
                _ => what,
            };
            return Err(ModelError::new(ModelErrorKind::Request, what));
        }
        if !self.keeps_sensitive() && self.keep.contains(&Keep::Sensitive) {
            let what = Wording::default().field("keep", " takes `none` or `sensitive`, which contradict each other");
            return Err(ModelError::new(ModelErrorKind::Request, what));
        }
        if !(self.margin.is_finite() && self.margin > 0.0) {
            return refuse(format!("margin {}: want a finite number above 0", self.margin));
        }
        Ok(())
    }

    /// The types that are converted to the target type. An emulated model stays float.
    fn from(&self) -> &'static [DataType] {
        match self.to {
            DataType::Float => &[DataType::Float16, DataType::BFloat16],
            DataType::Float16 if !self.emulate => &[DataType::Float, DataType::BFloat16],
            DataType::BFloat16 if !self.emulate => &[DataType::Float, DataType::Float16],
            _ => &[DataType::Float],
        }
    }

    fn keeps_sensitive(&self) -> bool {
        !self.keep.contains(&Keep::None)
    }
}

/// What was made, and what is to be judged when it is written.
type Made = (ConvertSummary, Vec<NarrowConstant>);

/// Converts a model to compute in a narrow floating-point type, or in float.
///
/// Inputs and outputs keep their types unless the request says otherwise. Constants are stored in the types that their
/// readers want. Converting again gives the same bytes.
///
/// # Errors
/// If the model cannot be read or written, the target type is not supported, or a name in the request is unknown.
pub fn convert(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &ConvertRequest,
) -> Result<ConvertSummary, Error> {
    let _environment = DefaultEnvironment::enter();
    Ok(convert_of(ModelSource::File(input.as_ref()), Some(output.as_ref()), request)?.1)
}

/// As [`convert`], of a model that may be in memory. Without an output its bytes are given back, of a dry run none.
///
/// # Errors
/// As [`convert`].
pub fn convert_of(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &ConvertRequest,
) -> Result<(Vec<u8>, ConvertSummary), Error> {
    let _environment = DefaultEnvironment::enter();
    request.check().map_err(|error| Error::model(source.path(), error))?;
    refuse_of_models(source.path(), &request.run)?;
    check_output(output, Existing::new(request.run.write.force))?;
    open_source(source, |document, files| at_opset((document, files), output, request))
}

/// Has a model rewritten, at a newer opset where that is wanted and needed.
fn at_opset<'a>(
    (document, files): (&Document<'a>, &'a Files<'a>),
    output: Option<&Path>,
    request: &ConvertRequest,
) -> Result<(Vec<u8>, ConvertSummary), Error> {
    let invalid = |error| Error::model(files.path(), error);
    let losses = Losses::of(document, files, request)?;
    let to = if request.raise_opset { raise_to(document, files, request).map_err(invalid)? } else { None };
    let Some(to) = to else { return planned((document, files), output, request, &losses) };
    let (edits, _) = upgrade::edits(document, files, to).map_err(invalid)?;
    edited(document, files, &edits, |document, files| planned((document, files), output, request, &losses))
}

/// The newer opset at which more of a model can be narrow, if there is one.
fn raise_to<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    request: &ConvertRequest,
) -> Result<Option<i64>, ModelError> {
    let typing = Typing::of(document)?;
    let constants = Constants::of(document, &typing, files, request.from(), &HashMap::new())?;
    let mut variables = variables(document, &typing, &constants, request);
    rules::no_cast(&mut variables);
    Ok(variables.raise_to.filter(|&to| document.opset.is_some_and(|opset| opset < to)))
}

fn planned<'a>(
    model: (&Document<'a>, &'a Files<'a>),
    output: Option<&Path>,
    request: &ConvertRequest,
    losses: &Losses,
) -> Result<(Vec<u8>, ConvertSummary), Error> {
    let how = Request { counts: request.clamp.is_some(), ..Request::of(&request.run, &request.storage) };
    let judge = |(mut summary, stored): Made| {
        let clamped = |one: &NarrowConstant| Some((one.name.clone(), one.clamp.as_ref()?.changed()));
        summary.clamped = stored.iter().filter_map(clamped).filter(|(_, changed)| !changed.is_empty()).collect();
        Ok(summary)
    };
    rewrite_of(model, output, &how, |document, files| edits(document, files, request, losses), judge)
}

fn edits<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    request: &ConvertRequest,
    losses: &Losses,
) -> Result<(Edits<'a>, Made), ModelError> {
    edits_of(&Typing::of(document)?, (document, files), request, losses)
}

/// The same, of a model whose types are known.
pub(crate) fn edits_of<'a>(
    typing: &Typing<'_, 'a>,
    (document, files): (&Document<'a>, &'a Files<'a>),
    request: &ConvertRequest,
    losses: &Losses,
) -> Result<(Edits<'a>, Made), ModelError> {
    let constants = Constants::of(document, typing, files, request.from(), &losses.overflowing)?;
    let mut variables = variables(document, typing, &constants, request);
    let model = Dataflow::of(typing, &variables.roots);
    let lost =
        Rules { document, variables: &mut variables, model: &model, constants: &constants, request, losses }.pin()?;
    let assignment = Assignment::of(&variables);
    if !request.allow_unmatched {
        explain::check_low(&request.low, &variables, &assignment)?;
    }
    let mut writer = Writer::new((document, files), &model, (&variables, &assignment), &constants, request);
    let edits = writer.edits()?;
    if document.training && !edits.is_empty() {
        return Err(ModelError::training());
    }
    let written = writer.written;
    let mut lost = lost.iter().filter(|reading| assignment.is_low(&variables, reading.variable));
    let lost = lost.find(|_| request.to.bits() == Some(16));
    if let Some(constant) = lost.and_then(|reading| constants.get(reading.body, reading.value)) {
        let name = constant.constant.name;
        let lost = format!("overflows or vanishes in {}, and a node that a pattern makes narrow reads it", request.to);
        let what = format!("constant `{}` {lost}", Short(name));
        return Err(ModelError::new(ModelErrorKind::Request, what).named(name));
    }
    let (nodes, values) = explain::decisions(document, &variables, &assignment);
    let explained = request
        .explain
        .iter()
        .map(|name| explain::explain(name, document, &variables, &assignment))
        .collect::<Result<_, _>>()?;
    let (casts, constants) = (written.casts, written.stored.len());
    let twice = written.stored.iter().filter(|stored| stored.twice).count();
    let raise_to = variables.raise_to.filter(|&to| document.opset.is_some_and(|opset| opset < to));
    let is_float = |id: Id| variables.values[0][id].is_some();
    let unknown_ranges = ranges::unknown(&request.ranges, &typing.bodies[0].flow, is_float);
    let clamped = Vec::new();
    let summary = ConvertSummary {
        to: request.to,
        nodes,
        casts,
        constants,
        twice,
        clamped,
        explained,
        values,
        raise_to,
        unknown_ranges,
        ignored: Ignored::of(&[
            (
                "margin",
                request.margin.to_bits() != MARGIN.to_bits() && request.ranges.is_empty(),
                "is for recorded ranges",
            ),
            ("ranges", request.to == DataType::Float && !request.ranges.is_empty(), "is for narrow types"),
            ("clamp", request.to == DataType::Float && request.clamp.is_some(), "is for narrow types"),
        ]),
    };
    Ok((edits, (summary, written.stored)))
}

/// The type variables of a model, united and pinned by its operators and constants only.
fn variables<'s, 't, 'a>(
    document: &Document<'a>,
    typing: &'s Typing<'t, 'a>,
    constants: &Constants<'a>,
    request: &ConvertRequest,
) -> Variables<'s, 't, 'a> {
    let stored =
        |place: usize, id: Id| constants.get(place, id).is_some() && is_stored(&typing.bodies[place], id, request.to);
    Variables::of(document, typing, (request.from(), request.to), &stored)
}

/// Whether a constant may be stored in the narrow type. One that is an output keeps its name, and its type with it.
fn is_stored(body: &Body<'_, '_>, id: Id, low: DataType) -> bool {
    let value = &body.flow.values[id];
    let opset = body.flow.graphs[&value.graph].opset.unwrap_or(0);
    let has_type = match value.origin {
        Origin::Node(..) => Schema::first_giving("Constant", low).is_some_and(|since| since <= opset),
        _ => true,
    };
    value.outputs == 0 && has_type
}
