//! From quantized checkpoints to checkpoints of plain weights.

mod gguf;

use crate::checkpoint::{Checkpoint, TensorRef};
use crate::collection::{Collection, Member};
use crate::counts::Counters;
use crate::engine::{self, Computed, Opened, OutputFile, OutputPlan, OutputTensor, SideFiles, Source};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::formats::format::Format;
use crate::formats::gguf::is_meant as is_gguf_path;
use crate::job::{self, Job};
use crate::layouts::{self, Layout, Role, Weight, WeightValues, Weights};
use crate::pipeline::Compute;
use crate::request::RunOptions;
use crate::selection::Selection;
use crate::summary::{Summary, TensorSummary};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::ops::OpError;
use onnx_cast::tensor::TensorErrorKind;
use onnx_cast::{Cast, CastOptions, DataType, Plan};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

request! {
    /// Which quantized weights become plain ones, of which type, and how.
    #[derive(Default)]
    pub struct DequantizeRequest {
        /// Which weights, and to which types. Names are those of the plain weights.
        pub selection: Selection,
        /// The layout; where it is not given, the configuration or the names of tensors tell it.
        pub layout: Option<Layout>,
        /// Scales that are NaN give NaN; otherwise they are an error.
        pub allow_nan: bool,
        /// How the job runs.
        pub run: RunOptions,
    }
}

impl DequantizeRequest {
    /// All quantized weights, to a type.
    pub fn new(to: DataType) -> Self {
        DequantizeRequest::default().selection(Selection::new(to))
    }
}

/// Writes the plain weights of a quantized checkpoint: a `.safetensors` file, a folder with one, or several with an
/// index. Elements are multiplied by their scales in float, rounded once, and cast to the target. All other tensors
/// stay byte for byte, but for those that only quantized weights have a use for.
///
/// A `.gguf` file gives a `.safetensors` file with the same names: its blocks become plain, all other tensors stay.
///
/// From a folder to a folder, the other files are copied, and `config.json` loses what it says of quantization.
///
/// # Errors
/// Where a file cannot be read or written, or the checkpoint's names, types, shapes and configuration do not agree
/// ([`InvalidKind`](crate::InvalidKind)). Nothing is written then.
pub fn dequantize_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &DequantizeRequest,
) -> Result<Summary, FileError> {
    let _environment = DefaultEnvironment::enter();
    job::run(request, input.as_ref(), output.as_ref())
}

impl Job for DequantizeRequest {
    fn options(&self) -> &RunOptions {
        &self.run
    }

    fn check(&self, input: &Path, _: &Path) -> Result<(), FileError> {
        self.selection.check_given(input)?;
        self.selection.targets().try_for_each(|to| cast_to(to, &[]).map(drop)).map_err(FileError::Operator)
    }

    fn check_collection(&self, all: &Collection) -> Result<(), FileError> {
        all.check_selection(&self.selection)
    }

    fn for_member(&self, member: &Member, run: RunOptions) -> Result<Self, String> {
        Ok(self.clone().selection(member.selection(&self.selection)).run(run))
    }

    fn open(&self, input: &Path, output: &Path) -> Result<Opened, FileError> {
        if is_gguf_path(input) { gguf::open(input, output, self) } else { engine::open(input, output, &self.run) }
    }

    fn plan<'a>(&'a self, opened: &'a Opened) -> Result<OutputPlan<'a>, FileError> {
        if opened.checkpoint.files.iter().any(|file| file.format == Format::Gguf) {
            return gguf::plan(opened, self);
        }
        let Opened { checkpoint, outputs, input, .. } = opened;
        let config = checkpoint.config(self.layout)?;
        let keeps = |name: &str, len| self.selection.target_of_one(name, len).is_none();
        let weights = Weights::find_but(checkpoint, &config, keeps)?;
        // Patterns match the dequantized names of weights, so a pattern that only matches companions selects nothing.
        let parts: HashSet<TensorRef> = weights.list.iter().flat_map(|weight| weight.parts()).collect();
        let stored = checkpoint.tensors().map(|(tensor, stored)| (parts.contains(&tensor), &*stored.name));
        let (of_weights, others): (Vec<_>, Vec<_>) = stored.partition(|(is_part, _)| *is_part);
        let names = weights.list.iter().map(|weight| &*weight.name).chain(others.iter().map(|(_, name)| *name));
        let known = self.selection.check_names(names);
        known.map_err(|error| {
            FileError::invalid(input, error.of_weights(of_weights.into_iter().map(|(_, name)| name)))
        })?;
        let targets: Vec<Option<DataType>> = weights.list.iter().map(|weight| target(self, weight)).collect();
        let chosen: Vec<bool> = targets.iter().map(Option::is_some).collect();
        let mut scales = layouts::scales_of(checkpoint, &weights, &chosen)?;
        scales.retain(|_| !self.allow_nan);
        let layer = |weight: &'_ Arc<Weight>| weight.name.strip_suffix(".weight").map(str::to_owned);
        let plain: HashSet<String> = weights
            .list
            .iter()
            .zip(&chosen)
            .filter(|(_, chosen)| **chosen)
            .filter_map(|(weight, _)| layer(weight))
            .collect();
        let planner = Planner { checkpoint, weights: &weights, targets: &targets, request: self };
        let mut files = Vec::new();
        for (file, input) in checkpoint.files.iter().enumerate() {
            let rows = planner.rows(file)?;
            // Skip a file that only contained companions, because it would be empty.
            if !rows.is_empty() || checkpoint.files.len() == 1 {
                let mut file = OutputFile::of(opened, input, rows);
                file.metadata = layouts::without_layers(file.metadata, |layer| plain.contains(layer));
                files.push(file);
            }
        }
        let is_plain = chosen.iter().all(|&chosen| chosen);
        for file in files.iter_mut().filter(|_| is_plain) {
            let metadata = file.metadata.take().map(layouts::without_description);
            file.metadata = metadata.filter(|metadata| !metadata.is_empty());
        }
        let side_files = planner.side_files(opened, outputs.folder.as_deref(), is_plain)?;
        let dropped = if is_plain { weights.calibrations(checkpoint) } else { Vec::new() };
        Ok(OutputPlan { side_files, dropped, scales, ..OutputPlan::new(opened, files, &self.run) })
    }
}

/// The type that a weight gets; `None` where it stays quantized.
fn target(request: &DequantizeRequest, weight: &Weight) -> Option<DataType> {
    request.selection.target_of_one(&weight.name, weight.len() as u64)
}

/// How a target is reached: the type that is computed, which is one of `computed` or float, and the cast from there.
fn cast_to(to: DataType, computed: &[DataType]) -> Result<(DataType, Option<Plan>), OpError> {
    if computed.contains(&to) {
        return Ok((to, None));
    }
    Ok((DataType::Float, Some(Cast::new(to, &CastOptions::new().threads(1))?.plan(DataType::Float)?)))
}

/// A tensor that gets computed values, given its summary before and the types that `values` can compute.
fn dequantized<'a>(
    (path, tensor): (&Path, TensorRef),
    from: TensorSummary,
    (to, counts): (DataType, bool),
    computed: &[DataType],
    values: impl FnOnce(DataType) -> Result<Box<dyn Compute + 'a>, FileError>,
) -> Result<OutputTensor<'a>, FileError> {
    let failed = |error| FileError::cast(path, &from.name, error);
    let cast = cast_to(to, if counts { &[] } else { computed });
    let (data_type, cast) = cast.map_err(|error| failed(error.into()))?;
    let counter = cast.and_then(|_| Counters::new(counts).of(data_type, to)).map(Arc::new);
    let bytes = onnx_cast::tensor::element_count(&from.shape).and_then(|len| to.byte_len(len));
    let too_large = || failed(TensorErrorKind::TooLarge { data_type: to, shape: from.shape.clone() }.into());
    let bytes_after = bytes.ok_or_else(too_large)? as u64;
    let source = Source::Computed(Box::new(Computed { source: values(data_type)?, data_type, cast, counter }));
    Ok(OutputTensor { summary: TensorSummary { to, bytes_after, cast: true, ..from }, tensor, source })
}

struct Planner<'a, 'w> {
    checkpoint: &'a Checkpoint,
    weights: &'w Weights,
    targets: &'w [Option<DataType>],
    request: &'a DequantizeRequest,
}

impl<'a> Planner<'a, '_> {
    /// The tensors of the output that a file of the input gives.
    fn rows(&self, file: usize) -> Result<Vec<OutputTensor<'a>>, FileError> {
        let mut rows = Vec::new();
        for tensor in (0..self.checkpoint.files[file].tensors.len()).map(|tensor| TensorRef { file, tensor }) {
            let target = |weight: usize| self.targets.get(weight).copied().flatten();
            match self.weights.roles.get(&tensor) {
                Some(&Role::Elements(weight)) if target(weight).is_some() => {
                    if let (Some(weight), Some(to)) = (self.weights.list.get(weight), target(weight)) {
                        rows.push(self.values(tensor, weight, to)?);
                    }
                }
                Some(&Role::Part(weight)) if target(weight).is_some() => {}
                Some(Role::Calibration | Role::Leftover) if self.targets.iter().all(Option::is_some) => {}
                _ => rows.push(OutputTensor::kept(self.checkpoint, tensor)),
            }
        }
        Ok(rows)
    }

    fn values(&self, tensor: TensorRef, weight: &Arc<Weight>, to: DataType) -> Result<OutputTensor<'a>, FileError> {
        let path = self.checkpoint.files[tensor.file].path();
        if to == DataType::String {
            let what = "a weight as string is unsupported (want a type of numbers)";
            return Err(FileError::invalid(path, Invalid::new(InvalidKind::Request, what).of_tensor(&weight.name)));
        }
        let bytes = weight.parts().map(|part| self.checkpoint.byte_len(part)).sum();
        let from = TensorSummary::kept(&weight.name, weight.values.clone(), weight.element_type(), bytes);
        let computed = [DataType::Float, DataType::Float16, DataType::BFloat16];
        dequantized((path, tensor), from, (to, self.request.run.counts()), &computed, |data_type| {
            let values = WeightValues::new(self.checkpoint, weight, data_type);
            Ok(Box::new(values.map_err(|error| FileError::moving(error, path, path, &weight.name))?))
        })
    }

    /// The other files of a folder that are copied as they are, and the configuration as it is to be.
    fn side_files(&self, opened: &Opened, folder: Option<&Path>, is_plain: bool) -> Result<SideFiles, FileError> {
        let Some(folder) = folder.filter(|_| self.request.run.copies_others()) else { return Ok(SideFiles::default()) };
        let mut side_files = SideFiles::of(opened, folder)?;
        let to = self.request.selection.to.or_else(|| self.request.selection.targets().next());
        if let (true, Some(to)) = (is_plain, to) {
            side_files.remove_descriptions(folder)?;
            let name = layouts::torch_name(to);
            side_files.rewrite_config(folder, |path| layouts::plain_config(path, name))?;
        }
        Ok(side_files)
    }
}
