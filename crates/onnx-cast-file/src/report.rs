//! What casts to several types would do to the tensors of a file, or of memory, before any is done: each chunk is read
//! once, and cast to every candidate type block by block, both sides in the nearest cache. Nothing is kept but counts,
//! sums and histograms.

mod blocks;
mod candidate;
mod forecast;
mod format;
mod measure;
mod part;
mod scaled;
mod source;
mod survey;
mod verdict;

use crate::checkpoint::{Checkpoint, TensorRef};
use crate::collection::Collection;
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::formats::input::Input;
use crate::formats::source::Items;
use crate::inspect::{self, PlainView};
use crate::io::progress::{Meter, Watch};
use crate::layouts::{Layout, check_scale_rule};
use crate::pipeline::{PipelineError, Task, TaskInput};
use crate::request::{ignored_attributes, refuse_format};
use crate::selection::{Pattern, Selection, SourceType, admits, check_names, refuse_nothing};
use crate::summary::Ignored;
use crate::text::Wording;
use forecast::Forecasts;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::scaled::ScaleRule;
use onnx_cast::{Cast, CastError, CastOptions, DataType, TensorView};
use source::FileSource;
use std::path::Path;
use survey::{Facts, Pass, Survey};

pub use blocks::{Blocks, Ratios};
pub use candidate::{Candidate, Totals};
pub use forecast::Forecast;
pub use format::CandidateFormat;
pub use verdict::{Concern, Grade};

request! {
    /// What is to be compared.
    #[derive(Default)]
    pub struct ReportRequest {
        /// The candidates.
        pub to: Vec<CandidateFormat>,
        /// The rule for scales of MX; floor if it is not given.
        pub scale_rule: Option<ScaleRule>,
        /// Whose arithmetic scales have; if it is not given, that of [`QuantizeRequest`](crate::QuantizeRequest)'s
        /// default layout. Weights that the layout lacks, and those of models, are computed as in the plain layout.
        pub layout: Option<Layout>,
        /// Names of tensors to look at; all of them where this is empty.
        pub include: Vec<Pattern>,
        /// Names of tensors to leave out.
        pub exclude: Vec<Pattern>,
        /// The fewest elements of a tensor that is looked at; where that is not said, 256 in models and any number
        /// elsewhere.
        pub min_elements: Option<u64>,
        /// The opset and the operator's attributes.
        pub options: CastOptions,
        /// The types of elements that do not tell theirs: of all tensors, or by name.
        pub from: Vec<SourceType>,
        /// The format of the standard input (`-`); if it is not given, its first bytes tell it.
        pub in_format: Option<Format>,
        /// Receives the progress of the work.
        pub watch: Option<Watch>,
    }
}

/// What casts would do to the tensors of a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The candidates, as they were given.
    pub to: Vec<CandidateFormat>,
    /// The tensors that were looked at, in the order of the file.
    pub tensors: Vec<TensorReport>,
    /// How many others there are: of types that are not cast by themselves, left out by name or size, or kept in every
    /// candidate.
    pub others: usize,
    /// Number of quantized weights that were dequantized to float and then measured, per layout.
    pub dequantized: Vec<(Layout, usize)>,
    /// What `quantize` would write for each candidate with scales, of checkpoints and of tensors in memory.
    pub forecasts: Vec<Forecast>,
    /// Options that had no effect.
    pub ignored: Vec<Ignored>,
}

/// A tensor, and what would become of it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TensorReport {
    /// Its name; empty if it has none.
    pub name: String,
    /// Its element type.
    pub data_type: DataType,
    /// Its shape.
    pub shape: Vec<usize>,
    /// Bytes of its elements, packed as ONNX packs them.
    pub bytes: u64,
    /// Values in all.
    pub values: u64,
    /// Zeros of either sign.
    pub zeros: u64,
    /// Infinities.
    pub infinities: u64,
    /// NaN.
    pub nan: u64,
    /// The smallest finite magnitude other than zero, if there is one.
    pub smallest: Option<f64>,
    /// The largest.
    pub largest: Option<f64>,
    /// How many finite values other than zero there are of each power of two.
    pub magnitudes: Magnitudes,
    /// What it would be in each candidate.
    pub candidates: Vec<Candidate>,
}

/// A histogram of magnitudes by power of two.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Magnitudes {
    /// The power of two that the first count is for: of magnitudes from 2^first up to twice that.
    pub first: i32,
    /// The counts; neither the first nor the last is zero.
    pub counts: Vec<u64>,
}

impl ReportRequest {
    /// The options that a worker casts with, which is one thread of several.
    fn plain_options(&self) -> CastOptions {
        self.options.threads(1)
    }

    fn check(&self, path: &Path) -> Result<(), FileError> {
        if self.to.is_empty() {
            let what = Wording::default().field("to", " names no type (want one or more)");
            return Err(FileError::request(path, what));
        }
        self.check_layout(path)?;
        check_scale_rule(path, self.scale_rule, self.to.iter().filter_map(|to| to.weights()))?;
        for &to in &self.to {
            match to {
                CandidateFormat::Bare(to) if !to.is_numeric() => {
                    let what = format!("{to} is not a type of real numbers: there are no errors to report");
                    return Err(FileError::Candidate(what));
                }
                CandidateFormat::Bare(to) => drop(Cast::new(to, &self.plain_options()).map_err(FileError::Operator)?),
                to if to.is_known() => {}
                to => return Err(FileError::Candidate(format!("{to} is not a format of quantized weights"))),
            }
        }
        Ok(())
    }

    /// Refuses a layout that holds none of the candidates: it would change no figure.
    fn check_layout(&self, path: &Path) -> Result<(), FileError> {
        let Some(layout) = self.layout else { return Ok(()) };
        let refuse = |error| Err(FileError::invalid(path, error));
        if layout.spec().file != Format::Safetensors {
            let to = self.to.first().map_or("weights", |to| to.element().name());
            let reason = "a report predicts the layouts of .safetensors files";
            return refuse(Invalid::new(
                InvalidKind::Unsupported,
                format!("{} does not support {to}: {reason}", layout.name()),
            ));
        }
        let weights = self.to.iter().filter_map(|to| to.weights());
        let held: Vec<_> = weights.map(|to| layout.granularity(to.format, to.granularity)).collect();
        match held.into_iter().reduce(Result::or) {
            Some(Err(error)) => refuse(error),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    /// The options that have no effect on the candidates.
    fn ignored(&self) -> Vec<Ignored> {
        let bare = self.to.iter().filter(|to| !to.is_scaled());
        let bare: Vec<DataType> = bare.map(|to| to.element()).collect();
        let mut ignored = ignored_attributes(&self.options, &bare);
        let is_opset_given = self.options.opset != CastOptions::default().opset;
        let has_weights = self.to.iter().any(|to| to.weights().is_some());
        ignored.extend(Ignored::of(&[
            ("opset", is_opset_given && bare.is_empty(), "is for casts, and no candidate is one"),
            ("layout", self.layout.is_some() && !has_weights, "is for candidates with scales, as mxfp4 or int8/row"),
        ]));
        ignored
    }

    /// The candidates that a tensor has; all of them where it is the only one. Only float, float16 and bfloat16 get
    /// scales, and only weights that `quantize` would quantize, if it would quantize any.
    fn targets(
        &self,
        (name, from, len): (&str, DataType, usize),
        only: bool,
        is_quantized_to: impl Fn(CandidateFormat) -> bool,
    ) -> Vec<CandidateFormat> {
        let ReportRequest { to, include, exclude, min_elements, .. } = self;
        let (include, exclude) = (include.clone(), exclude.clone());
        let mut selection = Selection { include, exclude, min_elements: *min_elements, ..Selection::default() };
        let is_quantized = matches!(from, DataType::Float | DataType::Float16 | DataType::BFloat16);
        let mut is_meant = |to: &CandidateFormat| {
            let CandidateFormat::Bare(to) = *to else {
                return is_quantized && selection.admits(name, len as u64) && is_quantized_to(*to);
            };
            selection.to = Some(to);
            match only && from != DataType::String {
                true => selection.target_of_one(name, len as u64).is_some(),
                false => selection.target(name, from, len as u64).is_some(),
            }
        };
        to.iter().filter(|to| is_meant(to)).copied().collect()
    }

    /// Returns whether patterns select the tensors to report on.
    fn selects_names(&self) -> bool {
        !self.include.is_empty() || !self.exclude.is_empty()
    }

    /// Refuses patterns that match none of the names, or that leave none to report on.
    fn check_names<'n>(&self, path: &Path, mut names: impl Iterator<Item = &'n str> + Clone) -> Result<(), FileError> {
        check_names(&self.include, &self.exclude, names.clone()).map_err(|error| FileError::invalid(path, error))?;
        match names.any(|name| admits(&self.include, &self.exclude, name)) {
            true => Ok(()),
            false => refuse_nothing(&self.exclude, "report on").map_err(|error| FileError::invalid(path, error)),
        }
    }

    fn empty_report(&self) -> Report {
        let (to, ignored) = (self.to.clone(), self.ignored());
        let (tensors, dequantized, forecasts) = (Vec::new(), Vec::new(), Vec::new());
        Report { to, tensors, others: 0, dequantized, forecasts, ignored }
    }
}

impl Report {
    /// Adds to the number of dequantized weights per layout.
    fn count_dequantized(&mut self, more: impl IntoIterator<Item = (Layout, usize)>) {
        for (layout, count) in more {
            match self.dequantized.iter_mut().find(|(known, _)| *known == layout) {
                Some((_, known)) => *known += count,
                None => self.dequantized.push((layout, count)),
            }
        }
    }
}

/// Finds out what casts to each of several types would do to the tensors of a file, of a model (its constants), of a
/// checkpoint in several files, or of the standard input (`-`), reading each once. A tensor has the candidates that
/// [`Selection::target`] would cast it to; the tensor of a file of one has all. A quantized weight is reported under
/// its dequantized name, with the float values that [`dequantize_file`](crate::dequantize_file) would write.
///
/// # Errors
/// If a file cannot be read or is invalid, a candidate is not a numeric type, or quantized weights cannot be
/// dequantized.
pub fn report(path: impl AsRef<Path>, request: &ReportRequest) -> Result<Report, FileError> {
    let _environment = DefaultEnvironment::enter();
    // Before anything is read.
    let path = path.as_ref();
    request.check(path)?;
    refuse_format(path, "in_format", request.in_format)?;
    let Some(all) = Collection::find(path)? else { return report_checkpoint(path, request) };
    all.check_names(&request.include, &request.exclude)?;
    let mut report = request.empty_report();
    for member in all.checkpoints() {
        let [include, exclude] = [&request.include, &request.exclude].map(|patterns| member.patterns(patterns));
        let found = report_checkpoint(member.path(), &request.clone().include(include).exclude(exclude))?;
        report.others += found.others;
        let named = |tensor: TensorReport| TensorReport { name: member.name_of(&tensor.name), ..tensor };
        report.tensors.extend(found.tensors.into_iter().map(named));
        report.count_dequantized(found.dequantized);
        report.forecasts = Forecast::joined(report.forecasts, found.forecasts, |name| member.name_of(name));
    }
    Ok(report)
}

fn report_checkpoint(path: &Path, request: &ReportRequest) -> Result<Report, FileError> {
    let opened =
        Checkpoint::of(path, inspect::open_all(path, |path| inspect::open(path, &request.from, request.in_format))?);
    let view = PlainView::new_but(path, &opened, |name, _| !admits(&request.include, &request.exclude, name));
    let view = match view.and_then(|view| view.verify().map(|()| view)) {
        Ok(view) => view,
        // The selected tensors may be unrelated to the error, so report on the stored tensors. Forecasts reject
        // companions.
        Err(error) if request.selects_names() && error.kind() != Some(InvalidKind::Transformed) => {
            PlainView::stored(&opened)
        }
        Err(error) => return Err(error),
    };
    let sources = FileSource::of_view(&view)?;
    report_sources(&sources, request, Forecasts::of_checkpoint(&opened, &sources, path, request)?)
}

/// As [`report`], of files that are open.
///
/// # Errors
/// As [`report`].
pub fn report_opened(opened: &[Input], request: &ReportRequest) -> Result<Report, FileError> {
    let sources: Vec<_> = opened.iter().map(FileSource::stored).collect();
    report_sources(&sources, request, Forecasts::default())
}

fn report_sources(
    sources: &[FileSource<'_>],
    request: &ReportRequest,
    forecasts: Forecasts,
) -> Result<Report, FileError> {
    let path = sources.first().map_or(Path::new(""), |source| source.input.path());
    request.check(path)?;
    request.check_names(path, sources.iter().flat_map(FileSource::names))?;
    let one = sources.len() == 1 && sources.iter().all(|source| source.tensors.len() == 1);
    let files = sources.iter().enumerate();
    let surveys = files.map(|(file, source)| of_file((file, source), request, one, &forecasts));
    let mut surveys = surveys.collect::<Result<Vec<_>, _>>()?;
    let is_model = sources.iter().any(|source| source.input.format == Format::Onnx);
    survey::join(
        &mut surveys,
        if is_model { Layout::Plain } else { request.layout.unwrap_or(Layout::DEFAULT) },
        &forecasts.rules(),
    );
    let meter = Meter::new(request.watch.as_ref(), surveys.iter().map(Survey::bytes).sum());
    let mut report = request.empty_report();
    for pass in [Pass::First, Pass::Second] {
        let mut files = surveys.iter().zip(sources);
        files.try_for_each(|(survey, source)| read(survey, source, pass, request.options.threads, &meter))?;
    }
    for (file, (survey, source)) in surveys.into_iter().zip(sources).enumerate() {
        report.others += source.tensors.len() - survey.len();
        let measured = (0..survey.len()).filter_map(|place| source.layout_of(survey.index(place)));
        report.count_dequantized(measured.map(|layout| (layout, 1)));
        report.tensors.extend(survey.finish(|tensor, to| forecasts.bytes(TensorRef { file, tensor }, to)));
    }
    report.forecasts = forecasts.finish();
    Ok(report)
}

/// As [`report`], of tensors in memory. Errors name the tensor, and no file.
///
/// # Errors
/// Where a candidate is not a type of numbers.
pub fn report_of(tensors: &[(&str, TensorView<'_>)], request: &ReportRequest) -> Result<Report, FileError> {
    let _environment = DefaultEnvironment::enter();
    request.check(Path::new(MEMORY))?;
    request.check_names(Path::new(MEMORY), tensors.iter().map(|(name, _)| *name))?;
    let forecasts = Forecasts::of_tensors(tensors, Path::new(MEMORY), request);
    let mut survey = Survey::default();
    for (index, (name, view)) in tensors.iter().enumerate() {
        let is_quantized_to = |to| forecasts.admits(TensorRef { file: 0, tensor: index }, to);
        let targets = request.targets((name, view.data_type(), view.len()), tensors.len() == 1, is_quantized_to);
        let facts = Facts { name, data_type: view.data_type(), shape: view.shape(), len: view.len() };
        survey.add(index, facts, &targets, request).map_err(|error| in_memory(name, error.into()))?;
    }
    survey::join(std::slice::from_mut(&mut survey), request.layout.unwrap_or(Layout::DEFAULT), &forecasts.rules());
    let task = |place| {
        let (_, view) = &tensors[survey.index(place)];
        let bytes = view.bytes()?;
        Some((place, Task::keeping(TaskInput::Memory(bytes), view.len(), view.data_type(), Items::PLAIN)))
    };
    let meter = Meter::new(request.watch.as_ref(), survey.bytes());
    let failed = |(place, error)| match error {
        PipelineError::Stopped => FileError::Stopped { path: Path::new(MEMORY).to_owned() },
        PipelineError::Cast(error) => in_memory(tensors[survey.index(place)].0, error),
        PipelineError::Read(error) | PipelineError::Write(error) => FileError::io(Path::new(MEMORY), "read", error),
    };
    let twice = (0..survey.len()).filter(|&place| survey.is_read_twice(place));
    survey.run(Pass::First, twice.filter_map(task), request.options.threads, &meter).map_err(failed)?;
    survey.run(Pass::Second, (0..survey.len()).filter_map(task), request.options.threads, &meter).map_err(failed)?;
    let mut report = request.empty_report();
    report.others = tensors.len() - survey.len();
    report.tensors.extend(survey.finish(|tensor, to| forecasts.bytes(TensorRef { file: 0, tensor }, to)));
    report.forecasts = forecasts.finish();
    Ok(report)
}

/// The name shown instead of a path for tensors in memory.
const MEMORY: &str = "memory";

fn in_memory(name: &str, error: CastError) -> FileError {
    FileError::cast(Path::new(MEMORY), name, error)
}

fn of_file(
    (file, source): (usize, &FileSource<'_>),
    request: &ReportRequest,
    one: bool,
    forecasts: &Forecasts,
) -> Result<Survey, FileError> {
    let input = source.input;
    let model = input.format == Format::Onnx;
    let mut survey = Survey::default();
    // Weights of models have other tensors beside them, and scales as in the plain layout.
    let layout = if model { Some(Layout::Plain) } else { request.layout };
    let request = &ReportRequest { layout, ..request.clone() };
    for (index, tensor) in source.tensors.iter().enumerate() {
        let Facts { name, data_type, len, .. } = tensor.facts();
        // Integer constants of models are shapes, axes and indices.
        let meant = data_type.is_float() || !model;
        let is_quantized_to = |to| forecasts.admits(TensorRef { file, tensor: index }, to);
        let targets = match meant {
            true => request.targets((name, data_type, len), one && !model, is_quantized_to),
            false => Vec::new(),
        };
        survey.add(index, tensor.facts(), &targets, request).map_err(|error| input.cast_error(name, error.into()))?;
    }
    Ok(survey)
}

/// Goes over the tensors of a file: those that can be read anywhere together, the others one by one.
fn read(
    survey: &Survey,
    source: &FileSource<'_>,
    pass: Pass,
    threads: Option<usize>,
    meter: &Meter<'_>,
) -> Result<(), FileError> {
    let tensor = |place| &source.tensors[survey.index(place)];
    let task = |place| Some((place, tensor(place).task(source.input)?));
    let failed = |(place, error)| inspect::failed(source.input, tensor(place).stored(), error);
    let (ready, others): (Vec<_>, Vec<_>) = (0..survey.len()).partition(|&place| task(place).is_some());
    let is_read = |&&place: &&usize| pass == Pass::Second || survey.is_read_twice(place);
    let tasks = ready.iter().filter(is_read).filter_map(|&place| task(place));
    survey.run(pass, tasks, threads, meter).map_err(failed)?;
    for &place in others.iter().filter(is_read) {
        tensor(place)
            .with_task(source.input, |task| survey.run(pass, [(place, task)], threads, meter).map_err(failed))?;
    }
    Ok(())
}
