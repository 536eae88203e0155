//! From plain weights to quantized checkpoints.

mod blocks;
mod choice;
mod constant;
mod experts;
#[cfg_attr(not(feature = "write-gguf"), path = "quantize/no_gguf.rs")]
mod gguf;
mod kept;
mod linear;
mod losses;
mod renamed;
pub(crate) mod scaling;
mod values;
mod weight;

pub use constant::{ConstantRequest, QuantizedConstant, Scaled};
pub use values::StoredValues;

use crate::check;
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::collection::{Collection, Member};
use crate::engine::{self, Opened, OutputFile, OutputPlan, OutputTensor, SideFiles, Source, Text};
use crate::error::FileError;
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::formats::input::StoredTensor;
use crate::io::positional::is_stream;
use crate::job::{self, Job};
use crate::layouts::{
    self, Activations, Granularity, KeyValueCache, Layout, Model, QuantizedFormat, WeightFormat, WrittenWeight,
};
use crate::loaders::Joined;
use crate::pipeline::Amax;
use crate::request::{ModelOptions, RunOptions};
use crate::selection::Selection;
use crate::summary::{Summary, TensorSummary};
use crate::text::{Short, counted};
use choice::Choice;
use linear::{Linears, Why};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::DataType;
use onnx_cast::scaled::{BlockFormat, ScaleRule};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Which operators read the quantized weights of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelForm {
    /// ONNX's own: DequantizeLinear gives the weights, for every operator and format.
    #[default]
    DequantizeLinear,
    /// onnxruntime's operators of packed weights (com.microsoft) for int4 and int8 in blocks: MatMulNBits in place of
    /// MatMul and Gemm, GatherBlockQuantized in place of Gather.
    MatMulNBits,
    /// int8 weights by which integers are multiplied: inputs are quantized to 8 bits whenever the model runs.
    Dynamic,
}

impl ModelForm {
    /// Every form, with its name.
    pub const ALL: &'static [(ModelForm, &'static str)] = &[
        (ModelForm::DequantizeLinear, "qdq"),
        (ModelForm::MatMulNBits, "matmulnbits"),
        (ModelForm::Dynamic, "dynamic"),
    ];
}

impl FromStr for ModelForm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = ModelForm::ALL.iter().find(|(_, known)| *known == name);
        known.map(|(form, _)| *form).ok_or_else(|| format!("unknown form `{name}` (want qdq, matmulnbits or dynamic)"))
    }
}

request! {
    /// Which weights are quantized, to which format, in which layout, and how.
    #[derive(Default)]
    pub struct QuantizeRequest {
        /// Which weights, and to which formats. Without a rule that names them, only matrices of Linear layers are, by
        /// their names and by what `config.json` says of the model, and only those whose columns are whole blocks.
        /// [`TensorSummary::reason`](crate::TensorSummary::reason) says why a matrix is kept.
        pub selection: Selection<WeightFormat>,
        /// Whose layout the checkpoint gets; compressed-tensors if it is not given.
        pub layout: Option<Layout>,
        /// What becomes of activations, of float8 and int8 in compressed-tensors: dynamic or kept. If it is not given,
        /// they are dynamic for float8 and kept for int8, which load in most programs. Other layouts have one choice.
        pub activations: Option<Activations>,
        /// The rule for scales of MX; floor if it is not given.
        pub scale_rule: Option<ScaleRule>,
        /// Of a model: which operators read its weights.
        pub form: ModelForm,
        /// Of a model whose weights MatMulNBits reads: with a zero point for each block, so that its range need not be
        /// symmetric.
        pub zero_points: bool,
        /// Of a model with products of integers: weights of 7 bits, from -64 to 64. With 8 bits, onnxruntime's products
        /// saturate on x86 processors without VNNI.
        pub reduce_range: bool,
        /// What is for models.
        pub model: ModelOptions,
        /// How the job runs.
        pub run: RunOptions,
    }
}

impl QuantizeRequest {
    /// The Linear layers of a checkpoint, to a format.
    pub fn new(to: impl Into<WeightFormat>) -> Self {
        QuantizeRequest::default().selection(Selection::new(to.into()))
    }

    /// The formats that weights may get.
    fn formats(&self) -> impl Iterator<Item = QuantizedFormat> + '_ {
        self.selection.targets().map(|to| to.format)
    }

    /// Returns whether the output is a `.gguf` file.
    fn is_to_gguf(&self) -> bool {
        self.layout_or_default().spec().file == Format::Gguf
    }

    /// The layout that the checkpoint gets.
    fn layout_or_default(&self) -> Layout {
        let only = self.formats().find_map(Layout::only_of);
        self.layout.or(only).unwrap_or(Layout::DEFAULT)
    }
}

/// Quantizes the weights of a checkpoint: a `.safetensors` file, a folder with one, or several with an index. Scales
/// come from the largest magnitudes; everything else stays byte for byte. From a folder to another, the other files
/// are copied, and `config.json` gets what readers of the layout look for.
///
/// # Errors
/// Where a file cannot be read or written, a weight does not fit the layout: its type, its shape, its format,
/// or a field of the request is for models.
pub fn quantize_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &QuantizeRequest,
) -> Result<Summary, FileError> {
    let _environment = DefaultEnvironment::enter();
    let (input, output) = (input.as_ref(), output.as_ref());
    if !request.is_to_gguf() {
        return job::run(request, input, output);
    }
    request.check(input, output)?;
    let all = Collection::find(input)?;
    let mut done = request.run_one(input, output)?;
    let others = all.iter().flat_map(Collection::checkpoints).filter(|member| !member.name().is_empty());
    let reason = "a .gguf file holds one checkpoint";
    done.left_out.extend(others.map(|member| (member.name().to_owned(), reason.to_owned())));
    Ok(done)
}

impl Job for QuantizeRequest {
    fn options(&self) -> &RunOptions {
        &self.run
    }

    fn check(&self, input: &Path, output: &Path) -> Result<(), FileError> {
        self.model.refuse(input)?;
        let fields = [
            ("form", self.form != ModelForm::default(), "is for models (.onnx)"),
            ("zero_points", self.zero_points, "is for models (.onnx)"),
            ("reduce_range", self.reduce_range, "is for models (.onnx)"),
        ];
        FileError::refuse(input, &fields)?;
        if self.is_to_gguf() { check_is_gguf(output, self) } else { Ok(()) }
    }

    fn check_collection(&self, all: &Collection) -> Result<(), FileError> {
        all.check_selection(&self.selection)
    }

    fn for_member(&self, member: &Member, run: RunOptions) -> Result<Self, String> {
        member.takes(self.layout_or_default(), &self.selection)?;
        Ok(self.clone().selection(member.selection(&self.selection)).run(run))
    }

    fn open(&self, input: &Path, output: &Path) -> Result<Opened, FileError> {
        if self.is_to_gguf() {
            return gguf::open(input, output, self);
        }
        let mut opened = engine::open(input, output, &self.run)?;
        if let Some(split) = experts::split(&opened.checkpoint, self)? {
            opened.checkpoint = split.checkpoint;
        }
        Ok(opened)
    }

    fn plan<'a>(&'a self, opened: &'a Opened) -> Result<OutputPlan<'a>, FileError> {
        let plan = if self.is_to_gguf() { gguf::plan(opened, self) } else { plan(opened, self) }?;
        let ignored = [plan.ignored.clone(), self.model.ignored()].concat();
        let notes = plan.notes.iter().cloned().chain(check::planned_note(&plan, self.layout_or_default())).collect();
        Ok(OutputPlan { ignored, notes, ..plan })
    }

    fn run_one(&self, input: &Path, output: &Path) -> Result<Summary, FileError> {
        let mut done = self.plan(&self.open(input, output)?)?.run()?;
        if !self.run.dry_run {
            done.notes.extend(check::note(output, self.layout_or_default()));
        }
        Ok(done)
    }
}

fn check_is_gguf(output: &Path, request: &QuantizeRequest) -> Result<(), FileError> {
    let format = Format::from_path(output);
    if matches!(format, Ok(Format::Gguf)) || is_stream(output) {
        return Ok(());
    }
    for to in request.formats().filter(|to| matches!(to, QuantizedFormat::Gguf(_))) {
        request.layout_or_default().check_file(to).map_err(|error| FileError::invalid(output, error))?;
    }
    Err(FormatError::format(output, "the layout gguf", format?, "want .gguf").into())
}

/// What a checkpoint becomes: the tensors of the output, file by file.
struct Planned<'a> {
    files: Vec<Vec<OutputTensor<'a>>>,
    written: Vec<WrittenWeight>,
    measured: Vec<(TensorRef, Arc<Amax>)>,
    passed_over: Vec<(String, String)>,
    note: Option<String>,
}

impl<'a> Planned<'a> {
    /// Plans the quantization of the checkpoint at `input`.
    fn new(checkpoint: &'a Checkpoint, input: &Path, request: &'a QuantizeRequest) -> Result<Planned<'a>, FileError> {
        request
            .formats()
            .try_for_each(|to| request.layout_or_default().check_file(to))
            .map_err(|error| checkpoint.error(None, error))?;
        layouts::check_scale_rule(input, request.scale_rule, request.selection.targets())?;
        layouts::check_plain(checkpoint)?;
        let model = checkpoint.model()?;
        let names = checkpoint.tensors().map(|(_, stored)| &*stored.name);
        request.selection.check_names(names).map_err(|error| FileError::invalid(input, error))?;
        let mut quantizer = Quantizer {
            checkpoint,
            layout: request.layout_or_default(),
            request,
            written: Vec::new(),
            measured: Vec::new(),
            joined: choice::joined_matrices(checkpoint, &model.rules()),
            shared: HashMap::new(),
            passed_over: Vec::new(),
        };
        let mut files = Vec::new();
        let (choices, note) = choice::choices(checkpoint, &model, request)?;
        for (file, choices) in choices.into_iter().enumerate() {
            files.push(quantizer.rows(file, choices)?);
        }
        let Quantizer { layout, written, measured, passed_over, .. } = quantizer;
        if written.is_empty() {
            let kept = counted(files.iter().flatten().filter_map(|row| row.summary.reason.as_deref()));
            return Err(nothing_to_quantize(checkpoint, &kept));
        }
        layouts::check_beside(checkpoint, &written.iter().map(|weight| &*weight.module).collect())?;
        if let Some(file) = files.first_mut() {
            file.extend(marker(layout, &written));
        }
        Ok(Planned { files, written, measured, passed_over, note })
    }
}

/// Plans the output of a checkpoint.
fn plan<'a>(opened: &'a Opened, request: &'a QuantizeRequest) -> Result<OutputPlan<'a>, FileError> {
    let Opened { checkpoint, input, .. } = opened;
    let Planned { files, written, measured, passed_over, note } = Planned::new(checkpoint, input, request)?;
    let files = checkpoint.files.iter().zip(files);
    let mut files: Vec<_> = files.map(|(file, rows)| OutputFile::of(opened, file, rows)).collect();
    let (side_files, configuration) = side_files(opened, &checkpoint.model()?, request, &written, None)?;
    describe_in_files(&mut files, (request.layout_or_default(), &written), &side_files, configuration.as_ref());
    let notes = note.into_iter().collect();
    let plan = OutputPlan::new(opened, files, &request.run);
    Ok(OutputPlan { measured, side_files, configuration, passed_over, notes, ..plan })
}

/// The tensors that quantizing a checkpoint would write, each with the tensor of the input that it is made of. Nothing
/// but names and shapes is looked at.
///
/// # Errors
/// If `quantize` would refuse the checkpoint or the request.
pub(crate) fn forecast(
    checkpoint: &Checkpoint,
    input: &Path,
    request: &QuantizeRequest,
) -> Result<Vec<(TensorRef, TensorSummary)>, FileError> {
    let split = experts::split(checkpoint, request)?;
    let planned = Planned::new(split.as_ref().map_or(checkpoint, |split| &split.checkpoint), input, request)?;
    let origin = |tensor| split.as_ref().map_or(tensor, |split| split.origin(tensor));
    Ok(planned.files.into_iter().flatten().map(|row| (origin(row.tensor), row.summary)).collect())
}

/// `kept` has the reasons why matrices are kept, each with their number.
fn nothing_to_quantize(checkpoint: &Checkpoint, kept: &str) -> FileError {
    let kept = if kept.is_empty() { String::new() } else { format!("; kept: {kept}") };
    let what =
        format!("no weight to quantize (want matrices of Linear layers, by their names, or experts for gpt-oss){kept}");
    checkpoint.error(None, Invalid::new(InvalidKind::NoWeights, what))
}

/// The other files of a folder that are copied as they are, and the configurations as they are to be, of which the one
/// of `config.json` stands alone too.
pub(crate) fn side_files(
    opened: &Opened,
    model: &Model,
    request: &QuantizeRequest,
    written: &[WrittenWeight],
    cache: Option<&KeyValueCache>,
) -> Result<(SideFiles, Option<Value>), FileError> {
    let described = request.layout_or_default().spec().configuration.as_ref().filter(|_| !written.is_empty());
    let kept = described.map(|described| {
        // Weights that are packed already have other names.
        let modules: Vec<String> = written.iter().map(|weight| format!("{}.weight", weight.module)).collect();
        let tensors = opened.checkpoint.tensors().map(|(_, stored)| (&*stored.name, &*stored.shape));
        let names: Vec<_> = tensors.chain(modules.iter().map(|name| (&**name, &[0, 0][..]))).collect();
        kept::kept_modules(&opened.checkpoint, &Linears::of(model, &names), written, described.kept)
    });
    let kept = kept.unwrap_or_default();
    let mut configuration = described.and_then(|described| Some(described.write?(written, &kept)));
    if let (Some(cache), Some(write), Some(configuration)) =
        (cache, described.and_then(|described| described.cache), &mut configuration)
    {
        write(configuration, cache);
    }
    let Some(folder) = opened.outputs.folder.as_ref().filter(|_| request.run.copies_others()) else {
        return Ok((SideFiles::default(), configuration));
    };
    let mut side_files = SideFiles::of(opened, folder)?;
    side_files.rewrite_config(folder, |path| layouts::quantized_config(path, configuration.as_ref()))?;
    side_files.remove_descriptions(folder)?;
    for file in described.map_or(&[][..], |described| described.own_files) {
        if let Some(write) = file.write {
            let mut value = write(written, &kept);
            cache.zip(file.cache).into_iter().for_each(|(cache, add)| add(&mut value, cache));
            let text = format!("{value:#}\n");
            side_files.texts.push(Text { path: folder.join(file.name), text, of: None });
        }
    }
    Ok((side_files, configuration))
}

/// Describes the weights in the metadata of their files, where no configuration does beside them.
pub(crate) fn describe_in_files(
    files: &mut [OutputFile<'_>],
    (layout, written): (Layout, &[WrittenWeight]),
    side_files: &SideFiles,
    configuration: Option<&Value>,
) {
    for file in files {
        let others = file.metadata.take().unwrap_or_default();
        let mut metadata = layouts::without_description(others);
        if !side_files.has_config() || configuration.is_none() {
            metadata.extend(layouts::description(layout, configuration));
        }
        metadata.extend(layouts::layers_of(layout, written));
        file.metadata = Some(metadata).filter(|metadata| !metadata.is_empty());
    }
}

/// Returns the marker tensor by which readers recognize the layout, unless the metadata describes each layer.
pub(crate) fn marker<'r>(layout: Layout, written: &[WrittenWeight]) -> Option<OutputTensor<'r>> {
    let is_needed = !layout.describes_layers(written.iter().map(|weight| weight.to));
    let name = layout.spec().marker.filter(|_| is_needed)?;
    let summary = TensorSummary::kept(name, vec![2], DataType::Float8E4M3FN, 2);
    let summary = TensorSummary { cast: true, bytes_before: 0, ..summary };
    Some(OutputTensor { summary, tensor: TensorRef { file: 0, tensor: 0 }, source: Source::Bytes(vec![0; 2]) })
}

struct Quantizer<'a> {
    checkpoint: &'a Checkpoint,
    layout: Layout,
    request: &'a QuantizeRequest,
    written: Vec<WrittenWeight>,
    measured: Vec<(TensorRef, Arc<Amax>)>,
    joined: Joined,
    /// Of scales for a tensor, by the matrix that loaders make of several.
    shared: HashMap<(String, DataType), Arc<Amax>>,
    /// Weights that are kept although most people expect them to be quantized.
    passed_over: Vec<(String, String)>,
}

impl<'a> Quantizer<'a> {
    /// The tensors of the output that a file of the input gives.
    fn rows(&mut self, file: usize, choices: Vec<Choice>) -> Result<Vec<OutputTensor<'a>>, FileError> {
        let mut rows = Vec::new();
        let is_by_layer = self.layout.describes_layers(self.request.formats());
        for (tensor, choice) in choices.into_iter().enumerate() {
            let tensor = TensorRef { file, tensor };
            let stored = self.checkpoint.stored(tensor);
            if !matches!(choice, Choice::Quantized(_)) {
                self.check_name(tensor)?;
            }
            let written = match choice {
                Choice::Quantized(written) if is_by_layer => written.described_by_layer(),
                Choice::Quantized(written) => *written,
                Choice::Kept(why) => {
                    rows.push(self.kept(tensor, &why));
                    continue;
                }
                Choice::Other => {
                    rows.push(OutputTensor::kept(self.checkpoint, tensor));
                    continue;
                }
            };
            let amax = weight::amax(&written, stored.data_type);
            let amax = amax.map(|amax| self.measure(tensor, stored, &written, amax));
            let made = blocks::rows(self.checkpoint, tensor, &written, self.request, amax);
            rows.extend(made.map_err(FileError::Operator)?);
            self.written.push(written);
        }
        Ok(rows)
    }

    /// Refuses a tensor that is kept and whose name is that of scales in the layout: readers would miss its weight.
    fn check_name(&self, tensor: TensorRef) -> Result<(), FileError> {
        let name = &self.checkpoint.stored(tensor).name;
        let Some(elements) = self.layout.spec().elements_of(name) else { return Ok(()) };
        let what = format!(
            "in {}, this is the name of the scales of `{}`, which is not quantized (remove the tensor, or rename it)",
            self.layout.spec().name,
            Short(&elements)
        );
        Err(self.checkpoint.error(Some(tensor), Invalid::new(InvalidKind::Name, what).of_tensor(name)))
    }

    /// A matrix that is kept, with the reason.
    fn kept(&mut self, tensor: TensorRef, why: &Why) -> OutputTensor<'a> {
        let mut row = OutputTensor::kept(self.checkpoint, tensor);
        row.summary.reason = Some(why.to_string());
        if why.is_named() {
            self.passed_over.push((row.summary.name.clone(), why.to_string()));
        }
        row
    }

    /// Schedules the measurement of a tensor's amax. Matrices that loaders join share a per-tensor scale, and NVFP4's
    /// global scale.
    fn measure(&mut self, tensor: TensorRef, stored: &StoredTensor, written: &WrittenWeight, amax: Amax) -> Arc<Amax> {
        let mut amax = Arc::new(amax);
        let has_one =
            written.to == QuantizedFormat::Block(BlockFormat::NvFp4) || written.granularity == Granularity::Tensor;
        if has_one
            && !written.are_experts
            && self.layout.is_joined()
            && let Some(group) = self.joined.group(&written.module)
        {
            amax = Arc::clone(self.shared.entry((group.clone(), stored.data_type)).or_insert(amax));
        }
        self.measured.push((tensor, Arc::clone(&amax)));
        amax
    }
}
