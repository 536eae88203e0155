//! `upgrade`: a model at another opset. Each node is taken from its version to the next, and the next, up to that of
//! the new opset (`upgrade/steps.rs`): most versions mean the same, some are rewritten, few are refused. A node that
//! several versions rewrite is written down once. At an older opset, each node goes back step by step, where it means
//! the same (`upgrade/lower.rs`).
//!
//! What is added (constants, nodes around the node) means the same at every opset that may be asked for.

mod callers;
mod casts;
mod draft;
mod inputs;
mod ir_version;
mod known;
mod lower;
mod sampling;
mod shapes;
mod site;
mod steps;
#[cfg(test)]
mod tests;

use crate::edits::Edits;
use crate::error::{Error, ModelError, ModelErrorKind};
use crate::external::Files;
use crate::graph::opsets;
use crate::paths::bounded;
use crate::rewrite::{Request, refuse_of_models, rewrite};
use crate::source::ModelSource;
use crate::tree::{Document, Graph, Names, Node, is_default};
use crate::types::schemas::Schema;
use callers::Callers;
use draft::Draft;
use known::{At, BodyFacts};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::NEWEST_OPSET;
use onnx_cast_file::__private::Short;
use onnx_cast_file::{RunOptions, Storage, Wording};
use site::{Shared, Site};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use steps::Step;

/// The opset that a model gets where no other is asked for: every runtime of the last two years loads it.
pub const DEFAULT_OPSET: i64 = 21;

onnx_cast_file::request! {
    /// The opset and the version of the model format that a model is to have, and where to put the result.
    #[derive(Default)]
    pub struct UpgradeRequest {
        /// The opset of ONNX's own domain. By default [`DEFAULT_OPSET`], or with `ir_version` the model's own.
        pub opset: Option<i64>,
        /// The version of the model format. By default the model's own, or the opset's if that is newer.
        pub ir_version: Option<i64>,
        /// Where the elements go.
        pub storage: Storage,
        /// How the job runs. Models are written whole, and values are not counted.
        pub run: RunOptions,
    }
}

/// What was done to change a model's opset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpgradeSummary {
    /// The opset that the model imported.
    pub from: i64,
    /// The opset that it imports now.
    pub to: i64,
    /// The version of the model format that it had.
    pub ir_from: u64,
    /// The version of the model format that it has now.
    pub ir_to: u64,
    /// Nodes of ONNX's own domain, in all graphs.
    pub nodes: usize,
    /// Those that were rewritten, in the order of the model. All others are as they were.
    pub rewritten: Vec<Upgraded>,
    /// Operators of ONNX's own domain that neither ONNX nor onnxruntime has, by name. Their nodes are as they were.
    pub unknown: Vec<String>,
}

/// A node that was rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upgraded {
    /// The graph: empty for the main graph, else the nodes and the function that it is within.
    pub graph: String,
    /// The node, as errors name it.
    pub node: String,
    /// Its operator.
    pub operator: String,
    /// The version of the operator that it had.
    pub from: i64,
    /// The version that it has now.
    pub to: i64,
    /// What was done, step by step.
    pub what: Vec<String>,
}

/// The oldest opset that is raised.
pub(crate) const OLDEST_OPSET: i64 = 7;

/// Changes the opset of a model, in its graph, the graphs within it and its functions. Nodes whose operators mean the
/// same stay as they are; those that became something else are rewritten, so that every output keeps its bits, by
/// ONNX's rules: a runtime may have another kernel for a newer version, as onnxruntime has for AveragePool from 19 on.
/// Inputs and outputs keep their names and types. Other domains stay at their versions.
///
/// A lower opset, from 13 on, is written if every node means the same there. A version of the model format is set if
/// the model uses nothing newer. A model of the opset already is written as it is. Before version 4 of the format every
/// initializer is an input too; these inputs go, since a runtime would let them be replaced
/// ([`Model::inputs`](crate::Model::inputs) lists none of them).
///
/// # Errors
/// Where a file cannot be read or written, the model is not valid, or a node has no equivalent at the new opset: the
/// error names every such node. Likewise for what needs a newer version of the model format. A model of an opset above
/// [`DEFAULT_OPSET`] is lowered only if the request gives an opset.
pub fn upgrade(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &UpgradeRequest,
) -> Result<UpgradeSummary, Error> {
    let _environment = DefaultEnvironment::enter();
    Ok(upgrade_of(ModelSource::File(input.as_ref()), Some(output.as_ref()), request)?.1)
}

/// As [`upgrade`], of a model that may be in memory. Without an output its bytes are given back, of a dry run none.
///
/// # Errors
/// As [`upgrade`].
pub fn upgrade_of(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &UpgradeRequest,
) -> Result<(Vec<u8>, UpgradeSummary), Error> {
    let _environment = DefaultEnvironment::enter();
    let &UpgradeRequest { ref storage, ref run, opset, ir_version } = request;
    refuse_of_models(source.path(), run)?;
    let how = Request::of(run, storage);
    rewrite(source, output, &how, |document, files| requested(document, files, opset, ir_version), Ok)
}

/// The edits for an opset and a version of the format, either of which may be left to the defaults.
fn requested<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    opset: Option<i64>,
    ir_version: Option<i64>,
) -> Result<(Edits<'a>, UpgradeSummary), ModelError> {
    let imported = document.opset.ok_or_else(ModelError::no_opset)?;
    let to = opset.unwrap_or(if ir_version.is_some() { imported } else { DEFAULT_OPSET });
    if opset.is_none() && imported > to {
        let what = Wording::from(format!("the model imports opset {imported} , which is newer than {to} ("));
        let what = what.field("opset", format!(" {to} lowers it)"));
        return Err(ModelError::new(ModelErrorKind::Opset, what));
    }
    edits_at(document, files, to, ir_version)
}

pub(crate) fn edits<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    to: i64,
) -> Result<(Edits<'a>, UpgradeSummary), ModelError> {
    edits_at(document, files, to, None)
}

fn edits_at<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    to: i64,
    ir_version: Option<i64>,
) -> Result<(Edits<'a>, UpgradeSummary), ModelError> {
    if !(1..=NEWEST_OPSET).contains(&to) {
        let what = format!("opset {to} is unknown (want 1 to {NEWEST_OPSET})");
        return Err(ModelError::new(ModelErrorKind::Opset, what));
    }
    let from = document.opset.ok_or_else(ModelError::no_opset)?;
    if document.training {
        return Err(ModelError::training());
    }
    let mut edits = Edits { lowers: from > to, ..Edits::default() };
    let summary = raise(document, files, to, &mut edits, &mut document.names())?;
    edits.ir_version = match ir_version {
        Some(wanted) => {
            Some(ir_version::checked(document, if edits.lowers { to } else { newest(document).max(to) }, wanted)?)
                .filter(|&one| one != document.ir_version)
        }
        None => opsets::ir_version(to).filter(|&version| version > document.ir_version),
    };
    if document.ir_version < 4 && edits.ir_version.is_some_and(|version| version >= 4) {
        let constants: HashSet<&str> = document.graph.initializers.iter().map(|named| named.name).collect();
        let inputs = document.graph.inputs.iter().enumerate();
        let lost = inputs.filter(|(_, input)| constants.contains(input.name)).map(|(place, _)| (place, None));
        edits.graphs.entry(document.graph.id).or_default().inputs.extend(lost);
    }
    let (ir_from, ir_to) = (document.ir_version, edits.ir_version.unwrap_or(document.ir_version));
    Ok((edits, UpgradeSummary { from, ir_from, ir_to, ..summary }))
}

/// The newest opset that the model or a function imports.
fn newest(document: &Document<'_>) -> i64 {
    document.bodies().filter_map(|body| body.opset).max().unwrap_or_default()
}

/// Notes what raises or, where the edits say so, lowers a model's opset. The caller sets the version of the format.
pub(crate) fn raise<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    to: i64,
    edits: &mut Edits<'a>,
    names: &mut Names,
) -> Result<UpgradeSummary, ModelError> {
    if let Some(old) = document.bodies().filter_map(|body| body.opset).find(|&opset| opset < to.min(OLDEST_OPSET)) {
        let what = format!(
            "opset {old} cannot be raised to {to}: opsets are raised from {OLDEST_OPSET} on \
             (onnx.version_converter.convert_version(model, {OLDEST_OPSET}) gives such a model)"
        );
        return Err(ModelError::new(ModelErrorKind::Opset, what));
    }
    let newest = Some(newest(document)).filter(|_| edits.lowers);
    if let Some(newest) = newest.filter(|_| to < lower::OLDEST_LOWERED) {
        let what = format!(
            "opset {newest} cannot be lowered to {to}: opsets are lowered to {} or newer",
            lower::OLDEST_LOWERED
        );
        return Err(ModelError::new(ModelErrorKind::Opset, what));
    }
    let names_of_functions = document.functions.iter().filter_map(|function| function_name(function).ok());
    let mut raise = Raise {
        document,
        files,
        to,
        functions: names_of_functions
            .filter(|(domain, _)| is_default(domain))
            .map(|(_, name)| name.to_owned())
            .collect(),
        edits,
        names,
        shared: Shared::new(),
        callers: OnceCell::new(),
        from: document.opset.unwrap_or(to),
        nodes: 0,
        rewritten: Vec::new(),
        unknown: BTreeSet::new(),
        refused: Vec::new(),
    };
    let facts =
        if needs_rewriting(document, to, raise.edits.lowers) { known::facts(document)? } else { HashMap::new() };
    for body in document.bodies() {
        let path = match body.is_function {
            true => function_name(body).map(|(_, name)| format!("function `{}`", Short(name)))?,
            false => String::new(),
        };
        raise.graph(body, &facts, body, &path);
    }
    let Raise { shared, from, nodes, rewritten, unknown, refused, .. } = raise;
    if !refused.is_empty() {
        let (changed, from) = newest.map_or(("raised", from), |newest| ("lowered", newest));
        let what = format!("the opset cannot be {changed} from {from} to {to}: {}", listed(&refused));
        return Err(ModelError::new(ModelErrorKind::Opset, what));
    }
    if !shared.initializers.is_empty() {
        edits.graphs.entry(document.graph.id).or_default().added_initializers.extend(shared.initializers);
    }
    edits.opset = Some(to);
    let unknown = unknown.into_iter().collect();
    Ok(UpgradeSummary { from, to, nodes, rewritten, unknown, ..UpgradeSummary::default() })
}

/// Whether a node of a model is of an operator that means something else at an opset.
fn needs_rewriting(document: &Document<'_>, to: i64, lowers: bool) -> bool {
    let changes = |node: &Node<'_>, from: i64| {
        is_default(node.domain)
            && version_at(node.op_type, from).is_ok_and(|old| match from > to {
                true => version_at(node.op_type, to).is_ok_and(|new| new != old),
                false => !means_the_same(node.op_type, old, to),
            })
    };
    document.graphs().iter().any(|graph| {
        graph
            .opset
            .filter(|&from| from < to || lowers)
            .is_some_and(|from| graph.nodes.iter().any(|node| changes(node, from)))
    })
}

/// What is wrong with nodes.
fn listed(list: &[String]) -> String {
    const LIMIT: usize = 8;
    let more = list.len().saturating_sub(LIMIT);
    let text = list[..list.len() - more].join("; ");
    if more > 0 { format!("{text}; and {more} more") } else { text }
}

fn function_name<'a>(function: &Graph<'a>) -> Result<(&'a str, &'a str), ModelError> {
    use crate::messages::function::{DOMAIN, NAME};
    Ok((crate::tree::text(function.message, DOMAIN)?, crate::tree::text(function.message, NAME)?))
}

/// What is known of the values of bodies, by the number of a body's graph.
type AllFacts<'t, 'a> = HashMap<usize, BodyFacts<'t, 'a>>;

struct Raise<'r, 't, 'a> {
    document: &'t Document<'a>,
    files: &'a Files<'a>,
    to: i64,
    /// Functions that stand for operators of ONNX's own domain.
    functions: HashSet<String>,
    edits: &'r mut Edits<'a>,
    names: &'r mut Names,
    shared: Shared<'a>,
    callers: OnceCell<Callers<'t, 'a>>,
    /// The least opset of a graph.
    from: i64,
    nodes: usize,
    rewritten: Vec<Upgraded>,
    unknown: BTreeSet<String>,
    refused: Vec<String>,
}

impl<'t, 'a> Raise<'_, 't, 'a> {
    fn graph(&mut self, body: &'t Graph<'a>, facts: &AllFacts<'t, 'a>, graph: &'t Graph<'a>, path: &str) {
        let opset = graph.opset.filter(|&opset| opset < self.to || (opset > self.to && self.edits.lowers));
        self.from = self.from.min(opset.unwrap_or(self.from));
        for (index, node) in graph.nodes.iter().enumerate() {
            if is_default(node.domain) {
                self.nodes += 1;
                if let Some(from) = opset
                    && let Err(why) = self.node(body, facts, graph, index, from, path)
                {
                    let within = if path.is_empty() { String::new() } else { format!(" in {path}") };
                    self.refused.push(format!("{}{within} {why}", node.label(index)));
                }
            }
            for attribute in &node.attributes {
                for within in &attribute.graphs {
                    let here = format!("`{}` of {}", Short(attribute.name), node.label(index));
                    let path = bounded(if path.is_empty() { here } else { format!("{here} in {path}") });
                    self.graph(body, facts, within, &path);
                }
            }
        }
    }

    /// Takes a node to the new opset, or tells why that cannot be.
    fn node(
        &mut self,
        body: &'t Graph<'a>,
        facts: &AllFacts<'t, 'a>,
        graph: &'t Graph<'a>,
        index: usize,
        from: i64,
        path: &str,
    ) -> Result<(), String> {
        let node: &'t Node<'a> = &graph.nodes[index];
        if self.functions.contains(node.op_type) {
            return Ok(());
        }
        if Schema::versions("", node.op_type).is_empty() {
            self.unknown.insert(node.op_type.to_owned());
            return Ok(());
        }
        let old = version_at(node.op_type, from)?;
        let is_same = match from > self.to {
            true => version_at(node.op_type, self.to)? == old,
            false => means_the_same(node.op_type, old, self.to),
        };
        if is_same {
            return Ok(());
        }
        let known = facts.get(&body.id).ok_or("is in a graph of which nothing is known")?.at(graph.id, index);
        // What refers to an attribute of the enclosing function may be what all of its calls give.
        let drafted = self.draft(Draft::new(node), known, body, graph, old).or_else(|why| {
            if !body.is_function {
                return Err(why);
            }
            let (document, files) = (self.document, self.files);
            let callers = self.callers.get_or_init(|| Callers::of(document, files.outline));
            let draft = Draft::new(node).resolved(callers, body);
            self.draft(draft, known, body, graph, old)
        });
        let (draft, version, what) = drafted?;
        if !what.is_empty() {
            let (operator, what) = (draft.op_type.to_owned(), what.into_iter().map(str::to_owned).collect());
            let edit = self.edits.graphs.entry(graph.id).or_default();
            let gone = node.outputs.iter().filter(|name| !draft.outputs.iter().any(|now| now == *name));
            let stale: HashSet<&str> = gone.copied().filter(|name| !known.is_read(name)).collect();
            let infos = graph.value_info.iter().enumerate();
            edit.value_info.extend(infos.filter(|(_, info)| stale.contains(info.name)).map(|(place, _)| (place, None)));
            draft.write(edit.nodes.entry(index).or_default());
            let (graph, node) = (path.to_owned(), node.label(index));
            self.rewritten.push(Upgraded { graph, node, operator, from: old, to: version, what });
        }
        Ok(())
    }

    /// Takes a draft to the new opset; the version of its operator then, and what was done.
    fn draft(
        &mut self,
        mut draft: Draft<'t, 'a>,
        known: At<'_, 't, 'a>,
        body: &'t Graph<'a>,
        graph: &'t Graph<'a>,
        old: i64,
    ) -> Result<(Draft<'t, 'a>, i64, Vec<&'static str>), String> {
        let (document, files, to) = (self.document, self.files, self.to);
        let ir_version = opsets::ir_version(to).unwrap_or(0).max(document.ir_version);
        let added = self.shared.initializers.len();
        let mut site = Site {
            to,
            step: old,
            document,
            files,
            body,
            callers: self.callers.get_or_init(|| Callers::of(document, self.files.outline)),
            initializers: std::ptr::eq(graph, &document.graph) && ir_version >= 4,
            known,
            names: self.names,
            shared: &mut self.shared,
        };
        let done = match old > to {
            true => lower::steps_back(&mut draft, &mut site, old),
            false => steps_of(&mut draft, &mut site, old),
        };
        match done {
            Ok(what) => Ok((draft, site.step, what)),
            Err(why) => {
                self.shared.forget(added);
                Err(why)
            }
        }
    }
}

/// The version of an operator in force at an opset.
fn version_at(op_type: &str, opset: i64) -> Result<i64, String> {
    Schema::of("", op_type, opset).map(|schema| schema.since).ok_or_else(|| {
        let first = Schema::versions("", op_type).first().map_or(0, |schema| schema.since);
        format!("is of an operator that opset {opset} lacks (it comes with {first})")
    })
}

/// The next version of an operator up to an opset, and what it means.
fn next(op_type: &str, version: i64, to: i64) -> Option<(i64, Step)> {
    let next = Schema::versions("", op_type).iter().find(|next| next.since > version)?;
    (next.since <= to).then(|| (next.since, steps::step(op_type, next.since, next.adds_types)))
}

fn means_the_same(op_type: &str, mut version: i64, to: i64) -> bool {
    while let Some((next, step)) = next(op_type, version, to) {
        if !matches!(step, Step::Same(_)) {
            return false;
        }
        version = next;
    }
    true
}

/// Takes a draft through every version; what was done.
fn steps_of<'t, 'a>(
    draft: &mut Draft<'t, 'a>,
    site: &mut Site<'_, 't, 'a>,
    mut version: i64,
) -> Result<Vec<&'static str>, String> {
    let mut what = Vec::new();
    while let Some((next, step)) = next(draft.op_type, version, site.to) {
        site.step = next;
        let done = match step {
            Step::Same(_) => Ok(None),
            Step::Adapted(adapter) => adapter(draft, site),
            Step::Inputs(what, rows) => inputs::move_all(draft, site, rows).map(|done| done.then_some(what)),
            Step::Refused(why) => Err(why.to_owned()),
        };
        what.extend(done.map_err(|why| format!("is version {version} of its operator; version {next}: {why}"))?);
        version = next;
    }
    Ok(what)
}
