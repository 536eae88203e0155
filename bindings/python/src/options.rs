//! The options of a job, as Python passes them, and the requests that they become.

use crate::error::{in_words, of_name, refused, system};
use crate::types::number_to_type;
use crate::watched::{State, watch};
use onnx_cast::scaled::ScaleRule;
use onnx_cast::{CastOptions, DataType, NEWEST_OPSET};
use onnx_cast_file::{
    BitCastRequest, CandidateFormat, CastRequest, DequantizeRequest, DiffRequest, InspectRequest, Layout, Loss,
    ModelForm, ModelOptions, Pattern, QuantizeRequest, RawInput, ReportRequest, Rule, RunOptions, Selection, Storage,
    TranscodeRequest, WriteOptions,
};
use onnx_cast_model::{ConvertRequest, FoldRequest, RecordRequest, UpgradeRequest};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// What to do with a file, as Python passes it: a dictionary whose keys are the command's options. What a job has no
/// option for is left out.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    #[pyo3(default)]
    to: Option<i64>,
    /// The candidates of a report.
    #[pyo3(default)]
    candidates: Vec<String>,
    include: Vec<String>,
    exclude: Vec<String>,
    /// Pairs of a pattern and a type, or `None` to keep the type.
    #[pyo3(default)]
    rules: Vec<(String, Option<i64>)>,
    #[pyo3(default)]
    rules_file: Option<PathBuf>,
    #[pyo3(default)]
    min_elements: Option<u64>,
    #[pyo3(default)]
    opset: Option<i64>,
    #[pyo3(default)]
    saturate: Option<bool>,
    #[pyo3(default)]
    round_mode: Option<String>,
    #[pyo3(default)]
    raise_opset: bool,
    #[pyo3(default)]
    form: Option<String>,
    #[pyo3(default)]
    zero_points: bool,
    #[pyo3(default)]
    dequantize: bool,
    #[pyo3(default)]
    from: Option<i64>,
    #[pyo3(default)]
    shape: Option<Vec<usize>>,
    #[pyo3(default)]
    pub(crate) dry_run: bool,
    #[pyo3(default)]
    resume: bool,
    #[pyo3(default)]
    no_clobber: bool,
    #[pyo3(default)]
    force: bool,
    #[pyo3(default)]
    no_copy_others: bool,
    #[pyo3(default)]
    npy_plain: bool,
    #[pyo3(default)]
    losses: bool,
    #[pyo3(default)]
    fail_on: Vec<String>,
    #[pyo3(default)]
    external_data: Option<String>,
    #[pyo3(default)]
    external_threshold: Option<u64>,
    #[pyo3(default)]
    stats: bool,
    #[pyo3(default)]
    types: bool,
    /// The format of quantized weights, and pairs of a pattern and a format, or `None` to keep the tensor.
    #[pyo3(default)]
    format: Option<String>,
    #[pyo3(default)]
    format_rules: Vec<(String, Option<String>)>,
    /// The layout that quantized weights get, or of those to dequantize.
    #[pyo3(default)]
    layout: Option<String>,
    #[pyo3(default)]
    scale_rule: Option<String>,
    /// What becomes of activations; `None` where the layout or the input decides.
    #[pyo3(default)]
    activations: Option<String>,
    /// The layout of quantized weights to transcode; `None` where the checkpoint tells it.
    #[pyo3(default)]
    from_layout: Option<String>,
    #[pyo3(default)]
    allow_nan: bool,
    /// Whether a model's inputs and outputs become narrow, and the types of those that do not follow the others.
    #[pyo3(default)]
    interface: (bool, Vec<(String, i64)>),
    #[pyo3(default)]
    keep: Vec<String>,
    #[pyo3(default)]
    low: Vec<String>,
    /// Take patterns of `keep` and `low` that match no node.
    #[pyo3(default)]
    allow_unmatched: bool,
    #[pyo3(default)]
    ranges: HashMap<String, f32>,
    /// A file of ranges.
    #[pyo3(default)]
    ranges_file: Option<PathBuf>,
    #[pyo3(default)]
    margin: Option<f32>,
    #[pyo3(default)]
    clamp: Option<[f32; 2]>,
    #[pyo3(default)]
    emulate: bool,
    #[pyo3(default)]
    explain: Vec<String>,
    #[pyo3(default)]
    tolerance: Option<f64>,
    #[pyo3(default)]
    values: bool,
    threads: Option<usize>,
}

fn parsed<T: FromStr<Err: Display>>(parameter: &str, texts: &[String]) -> PyResult<Vec<T>> {
    texts.iter().map(|text| parsed_one(parameter, text)).collect()
}

fn parsed_one<T: FromStr<Err: Display>>(parameter: &str, text: &str) -> PyResult<T> {
    text.parse().map_err(|error| of_name(error, parameter, text))
}

/// What the text of a parameter stands for.
fn named<T: FromStr<Err: Display>>(parameter: &str, text: Option<&str>) -> PyResult<Option<T>> {
    let parsed = |text: &str| {
        text.parse().map_err(|error| of_name(format_args!("{parameter} is `{text}`: {error}"), parameter, text))
    };
    text.map(parsed).transpose()
}

fn type_of(number: Option<i64>) -> PyResult<Option<DataType>> {
    number.map(number_to_type).transpose()
}

impl Options {
    fn names(&self) -> PyResult<(Vec<Pattern>, Vec<Pattern>)> {
        Ok((parsed("include", &self.include)?, parsed("exclude", &self.exclude)?))
    }

    fn attributes(&self) -> PyResult<CastOptions> {
        Ok(CastOptions::new()
            .opset(self.opset.unwrap_or(NEWEST_OPSET))
            .saturate(self.saturate)
            .round_mode(self.round_mode.as_ref().map(|mode| parsed_one("round_mode", mode)).transpose()?)
            .threads(self.threads))
    }

    /// The rules of a file.
    fn rules_of_file<T: FromStr<Err: Display>>(&self) -> PyResult<Vec<Rule<T>>> {
        let Some(path) = &self.rules_file else { return Ok(Vec::new()) };
        Rule::read(path).map_err(|error| {
            let missing = File::open(path).err().and_then(|cause| system(path, &cause));
            missing.unwrap_or_else(|| refused(error))
        })
    }

    fn selection(&self) -> PyResult<Selection> {
        let mut rules = self.rules_of_file()?;
        for (pattern, to) in &self.rules {
            rules.push(Rule { pattern: parsed_one("rules", pattern)?, to: type_of(*to)? });
        }
        let (include, exclude) = self.names()?;
        Ok(Selection { to: type_of(self.to)?, include, exclude, rules, min_size: self.min_elements })
    }

    /// The layout, where it is given.
    pub(crate) fn layout(&self) -> PyResult<Option<Layout>> {
        self.layout.as_deref().map(|name| layout_of("layout", name)).transpose()
    }

    fn storage(&self) -> Storage {
        Storage::default().external_data(self.external_data.clone()).threshold(self.external_threshold)
    }

    fn model(&self) -> ModelOptions {
        ModelOptions::default().raise_opset(self.raise_opset).storage(self.storage())
    }

    fn run(&self, state: &Arc<State>) -> PyResult<RunOptions> {
        Ok(RunOptions::new()
            .threads(self.threads)
            .write(WriteOptions::default().npy_plain(self.npy_plain).no_clobber(self.no_clobber).force(self.force))
            .dry_run(self.dry_run)
            .resume(self.resume)
            .copy_others(!self.no_copy_others)
            .count(self.losses)
            .fail_on(parsed::<Loss>("fail_on", &self.fail_on)?)
            .watch(Some(watch(state))))
    }

    pub(crate) fn cast(&self, state: &Arc<State>) -> PyResult<CastRequest> {
        Ok(CastRequest::default()
            .selection(self.selection()?)
            .options(self.attributes()?)
            .run(self.run(state)?)
            .raw(RawInput::default().from(type_of(self.from)?).shape(self.shape.clone()))
            .model(self.model()))
    }

    pub(crate) fn bit_cast(&self, state: &Arc<State>) -> PyResult<BitCastRequest> {
        let CastRequest { selection, options, raw, run, .. } = self.cast(state)?;
        Ok(BitCastRequest::default().selection(selection).opset(options.opset).run(run).raw(raw))
    }

    pub(crate) fn dequantize(&self, state: &Arc<State>) -> PyResult<DequantizeRequest> {
        let (selection, layout, allow_nan) = (self.selection()?, self.layout()?, self.allow_nan);
        Ok(DequantizeRequest::default().selection(selection).layout(layout).allow_nan(allow_nan).run(self.run(state)?))
    }

    fn scale_rule(&self) -> PyResult<Option<ScaleRule>> {
        self.scale_rule.as_deref().map(|rule| parsed_one("scale_rule", rule)).transpose()
    }

    pub(crate) fn quantize(&self, state: &Arc<State>) -> PyResult<QuantizeRequest> {
        let mut rules = self.rules_of_file()?;
        for (pattern, to) in &self.format_rules {
            let to = named("rules", to.as_deref())?;
            rules.push(Rule { pattern: parsed_one("rules", pattern)?, to });
        }
        let to = named("to", self.format.as_deref())?;
        let (include, exclude) = self.names()?;
        let rule = self.scale_rule()?;
        Ok(QuantizeRequest::default()
            .selection(Selection { to, include, exclude, rules, min_size: self.min_elements })
            .layout(self.layout()?)
            .activations(named("activations", self.activations.as_deref())?)
            .rule(rule)
            .form(self.form.as_deref().map_or(Ok(ModelForm::default()), |form| parsed_one("form", form))?)
            .zero_points(self.zero_points)
            .model(self.model())
            .run(self.run(state)?))
    }

    pub(crate) fn transcode(&self, state: &Arc<State>) -> PyResult<TranscodeRequest> {
        Ok(TranscodeRequest::new(layout_of("layout", self.layout.as_deref().unwrap_or_default())?)
            .to(named("to", self.format.as_deref())?)
            .activations(named("activations", self.activations.as_deref())?)
            .from_layout(self.from_layout.as_deref().map(|name| layout_of("from_layout", name)).transpose()?)
            .run(self.run(state)?))
    }

    pub(crate) fn fold(&self, state: &Arc<State>) -> PyResult<FoldRequest> {
        let (include, exclude) = self.names()?;
        let (storage, run) = (self.storage(), self.run(state)?);
        Ok(FoldRequest::default()
            .include(include)
            .exclude(exclude)
            .dequantize(self.dequantize)
            .storage(storage)
            .run(run))
    }

    pub(crate) fn upgrade(&self, state: &Arc<State>) -> PyResult<UpgradeRequest> {
        Ok(UpgradeRequest::default().opset(self.opset).storage(self.storage()).run(self.run(state)?))
    }

    pub(crate) fn record(&self, state: &Arc<State>) -> PyResult<RecordRequest> {
        let (include, exclude) = self.names()?;
        Ok(RecordRequest::default().include(include).exclude(exclude).storage(self.storage()).run(self.run(state)?))
    }

    pub(crate) fn convert(&self, state: &Arc<State>) -> PyResult<ConvertRequest> {
        let mut request = ConvertRequest::new(type_of(self.to)?.unwrap_or(DataType::Float16));
        request.interface.low = self.interface.0;
        for (name, data_type) in &self.interface.1 {
            request.interface.named.push((name.clone(), number_to_type(*data_type)?));
        }
        request.keep = parsed("keep", &self.keep)?;
        request.low = parsed("low", &self.low)?;
        request.allow_unmatched = self.allow_unmatched;
        request.ranges = match &self.ranges_file {
            Some(path) => onnx_cast_model::read_ranges(path).map_err(in_words)?,
            None => self.ranges.clone(),
        };
        request.raise_opset = self.raise_opset;
        request.margin = self.margin.unwrap_or(request.margin);
        request.clamp = self.clamp;
        request.emulate = self.emulate;
        request.explain.clone_from(&self.explain);
        request.storage = self.storage();
        request.run = self.run(state)?;
        Ok(request)
    }

    pub(crate) fn inspect(&self, state: &Arc<State>) -> PyResult<InspectRequest> {
        let (include, exclude) = self.names()?;
        let (from, watch) = (type_of(self.from)?, Some(watch(state)));
        let &Options { stats: values, types, threads, .. } = self;
        Ok(InspectRequest::default()
            .include(include)
            .exclude(exclude)
            .from(from)
            .values(values)
            .types(types)
            .threads(threads)
            .watch(watch))
    }

    pub(crate) fn diff(&self, state: &Arc<State>) -> PyResult<DiffRequest> {
        let (include, exclude) = self.names()?;
        let &Options { tolerance, values, threads, .. } = self;
        let watch = Some(watch(state));
        Ok(DiffRequest::default()
            .include(include)
            .exclude(exclude)
            .tolerance(tolerance)
            .by_value(values)
            .threads(threads)
            .watch(watch))
    }

    pub(crate) fn report(&self, state: &Arc<State>) -> PyResult<ReportRequest> {
        let mut to: Vec<CandidateFormat> = Vec::new();
        for candidate in parsed("to", &self.candidates)? {
            if !to.contains(&candidate) {
                to.push(candidate);
            }
        }
        let (include, exclude) = self.names()?;
        let (options, from, watch) = (self.attributes()?, type_of(self.from)?, Some(watch(state)));
        let rule = self.scale_rule()?;
        Ok(ReportRequest::default()
            .to(to)
            .rule(rule)
            .layout(self.layout()?)
            .include(include)
            .exclude(exclude)
            .min_size(self.min_elements)
            .options(options)
            .from(from)
            .watch(watch))
    }
}

/// The layout of a name.
fn layout_of(parameter: &str, name: &str) -> PyResult<Layout> {
    let known = || Layout::ALL.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    let unknown = || of_name(format_args!("{parameter} is `{name}` (want {})", known()), parameter, name);
    Layout::from_name(name).ok_or_else(unknown)
}
