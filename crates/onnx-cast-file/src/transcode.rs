//! From one layout of quantized weights to another, without a change of any weight: of the bfloat16 values that the
//! owners of both layouts read.

mod calibration;
mod changes;
mod experts;
mod integers;
mod mxfp4;
mod rows;
mod scales;
mod tiled;

use crate::check;
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::collection::{Collection, Member};
use crate::engine::{Check, Opened, OutputFile, OutputPlan, OutputTensor};
use crate::error::FileError;
use crate::formats::error::{Invalid, InvalidKind};
use crate::job::{self, Job};
use crate::layouts::{
    self, Activations, Claims, Encoding, Integers, KeyValueCache, Layout, Order, QuantizedFormat, Role, Weight,
    Weights, WrittenWeight,
};
use crate::loaders::Joined;
use crate::pipeline::Compute;
use crate::quantize::{self, QuantizeRequest};
use crate::request::RunOptions;
use crate::summary::{Ignored, Summary};
use crate::text::{Short, Wording};

use calibration::{Carrier, Kind};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::DataType;
use onnx_cast::scaled::BlockFormat;
use rows::{Made, Maker};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

request! {
    /// Which layout a quantized checkpoint gets, and how.
    pub struct TranscodeRequest {
        /// The layout that it gets.
        pub layout: Layout,
        /// The format that weights of MXFP4 get: NVFP4, or float8e4m3fn in blocks of 128x128. Other weights keep
        /// theirs.
        pub to: Option<QuantizedFormat>,
        /// What becomes of activations. If it is not given, their scales are carried over, and an error where the
        /// layout has no place for them; otherwise they are left out ([`Summary::dropped`]).
        pub activations: Option<Activations>,
        /// The layout that it has; where it is not given, the configuration or the names of tensors tell it.
        pub from_layout: Option<Layout>,
        /// How the job runs.
        pub run: RunOptions,
    }
}

impl TranscodeRequest {
    /// To a layout, in the formats that the weights have.
    pub fn new(layout: Layout) -> Self {
        TranscodeRequest { layout, to: None, activations: None, from_layout: None, run: RunOptions::default() }
    }

    /// Returns the options that have no effect on weights of these formats.
    fn ignored(&self, formats: &[QuantizedFormat]) -> Vec<Ignored> {
        const OTHERS: &str = "is for MXFP4 weights, and there are none (all others keep their format)";
        let has_mxfp4 = formats.contains(&QuantizedFormat::Block(BlockFormat::MxFp4));
        let to = Ignored::of(&[("to", self.to.is_some() && !has_mxfp4, OTHERS)]);
        [to, self.run.ignored_counts()].concat()
    }

    /// A request that quantizes to the same layout, and writes in the same way.
    fn as_quantize(&self) -> QuantizeRequest {
        let to = QuantizedFormat::Block(BlockFormat::MxFp4);
        QuantizeRequest { layout: Some(self.layout), run: self.run.clone(), ..QuantizeRequest::new(to) }
    }
}

/// Writes the weights of a quantized checkpoint in another layout. All of them are compared first: where one would
/// change, nothing is written.
///
/// # Errors
/// Where a file cannot be read or written, the checkpoint contradicts itself, the layout has no place for a weight, or
/// a weight would change ([`InvalidKind::Changes`](crate::InvalidKind::Changes)).
pub fn transcode_file(
    input: impl AsRef<Path>,
    output: impl AsRef<Path>,
    request: &TranscodeRequest,
) -> Result<Summary, FileError> {
    let _environment = DefaultEnvironment::enter();
    job::run(request, input.as_ref(), output.as_ref())
}

/// An error about the layout that the input has, which is another field here than where weights become plain.
fn of_input(error: FileError) -> FileError {
    error.renamed("layout", "from_layout")
}

impl Job for TranscodeRequest {
    fn options(&self) -> &RunOptions {
        &self.run
    }

    fn check(&self, _: &Path, _: &Path) -> Result<(), FileError> {
        Ok(())
    }

    fn check_collection(&self, _: &Collection) -> Result<(), FileError> {
        Ok(())
    }

    fn for_member(&self, _: &Member, run: RunOptions) -> Result<Self, String> {
        Ok(self.clone().run(run))
    }

    fn plan<'a>(&'a self, opened: &'a Opened) -> Result<OutputPlan<'a>, FileError> {
        let checkpoint = &opened.checkpoint;
        let config = checkpoint.config(self.from_layout).map_err(of_input)?;
        let weights = Weights::find(checkpoint, &config).map_err(of_input)?;
        let scales = layouts::scales_of(checkpoint, &weights, &vec![true; weights.list.len()]).map_err(of_input)?;
        let inverted: Vec<Option<Arc<Weight>>> = weights.list.iter().map(|weight| changes::inverted(weight)).collect();
        let (as_quantize, claims) = (self.as_quantize(), &config.claims);
        let modules = weights.list.iter().map(|weight| weight.name.strip_suffix(".weight").unwrap_or(&weight.name));
        let joined = if self.layout.is_joined() { config.model.rules().joined(modules) } else { Joined::default() };
        let planner = Planner { checkpoint, weights: &weights, claims, request: self, joined };
        planner.check_target().map_err(|error| checkpoint.error(None, error))?;
        let (formats, written): (Vec<_>, Vec<_>) = planner.plan()?.into_iter().unzip();
        let ignored = self.ignored(&formats);
        planner.check_joined(&written)?;
        let notes: Vec<String> =
            planner.note_on_activations(&written).into_iter().chain(planner.note_on_globals(&written)?).collect();
        let places = weights.list.iter().enumerate().map(|(index, weight)| (&*weight.name, index)).collect();
        let carrier = Carrier { checkpoint, layout: self.layout, written: &written, places };
        let (checks, dropped, caches) = (Vec::new(), Vec::new(), false);
        let mut transcoder = Transcoder {
            checkpoint,
            weights: &weights,
            inverted: &inverted,
            request: self,
            formats: &formats,
            carrier,
            checks,
            dropped,
            caches,
        };
        let mut files = Vec::new();
        for (file, input) in checkpoint.files.iter().enumerate() {
            let rows = transcoder.rows(file)?;
            if !rows.is_empty() || checkpoint.files.len() == 1 {
                let mut file = OutputFile::of(opened, input, rows);
                file.metadata = layouts::without_layers(file.metadata, |_| true);
                files.push(file);
            }
        }
        let Transcoder { checks, dropped, caches, .. } = transcoder;
        if let Some(file) = files.first_mut() {
            file.rows.extend(quantize::marker(self.layout, &written));
        }
        let is_same = weights.layout == self.layout;
        let cache = claims.cache.clone().or(caches.then_some(KeyValueCache::Float8));
        let cache = cache.filter(|cache| self.activations.is_none() && (is_same || *cache == KeyValueCache::Float8));
        let (side_files, configuration) =
            quantize::side_files(opened, &config.model, &as_quantize, &written, cache.as_ref())?;
        quantize::describe_in_files(&mut files, (self.layout, &written), &side_files, configuration.as_ref());
        let plan = OutputPlan {
            scales,
            checks,
            side_files,
            configuration,
            dropped,
            ignored,
            ..OutputPlan::new(opened, files, &self.run)
        };
        let notes = notes.into_iter().chain(check::planned_note(&plan, self.layout)).collect();
        Ok(OutputPlan { notes, ..plan })
    }

    fn run_one(&self, input: &Path, output: &Path) -> Result<Summary, FileError> {
        let mut done = self.plan(&self.open(input, output)?)?.run()?;
        if !self.run.dry_run {
            done.notes.extend(check::note(output, self.layout));
        }
        Ok(done)
    }
}

struct Transcoder<'a, 'w> {
    checkpoint: &'a Checkpoint,
    weights: &'w Weights,
    /// Each weight with the reciprocal of its global scale, where it has one.
    inverted: &'w [Option<Arc<Weight>>],
    request: &'a TranscodeRequest,
    /// The formats of the weights.
    formats: &'w [QuantizedFormat],
    carrier: Carrier<'a, 'w>,
    checks: Vec<Check<'a>>,
    /// Scales of activations that are left out.
    dropped: Vec<String>,
    /// Whether there are scales of keys or values.
    caches: bool,
}

impl<'a> Transcoder<'a, '_> {
    /// The tensors of the output that a file of the input gives.
    fn rows(&mut self, file: usize) -> Result<Vec<OutputTensor<'a>>, FileError> {
        let mut rows = Vec::new();
        for tensor in (0..self.checkpoint.files[file].tensors.len()).map(|tensor| TensorRef { file, tensor }) {
            match self.weights.roles.get(&tensor) {
                None => rows.push(OutputTensor::kept(self.checkpoint, tensor)),
                Some(&Role::Elements(index)) => {
                    if let Some(weight) = self.weights.list.get(index) {
                        rows.extend(self.weight(index, weight, self.inverted[index].as_ref())?);
                    }
                }
                Some(Role::Calibration) => rows.extend(self.calibration(tensor)?),
                Some(_) => {}
            }
        }
        Ok(rows)
    }

    /// A scale of activations, unless it is left out.
    fn calibration(&mut self, tensor: TensorRef) -> Result<Option<OutputTensor<'a>>, FileError> {
        let name = &self.checkpoint.stored(tensor).name;
        if self.request.activations.is_some() {
            self.dropped.push(name.clone());
            return Ok(None);
        }
        self.caches |= matches!(Kind::of(name), Kind::Cache { .. });
        let is_same = self.weights.layout == self.request.layout
            && self.formats.iter().zip(self.carrier.written).all(|(format, written)| *format == written.to);
        if is_same { Ok(Some(OutputTensor::kept(self.checkpoint, tensor))) } else { self.carrier.row(tensor).map(Some) }
    }

    fn weight(
        &mut self,
        index: usize,
        weight: &Arc<Weight>,
        inverted: Option<&Arc<Weight>>,
    ) -> Result<Vec<OutputTensor<'a>>, FileError> {
        let (checkpoint, tensor) = (self.checkpoint, weight.codes.tensor);
        let (from, written) = (self.formats[index], &self.carrier.written[index]);
        let Made { rows, count } = Maker { checkpoint, weight, inverted, written }.make(from)?;
        if let Some(count) = count {
            let to = written.to.name();
            let (data_type, len) = count.elements();
            let source = Arc::clone(&count) as Arc<dyn Compute + 'a>;
            let verdict = move || match count.count() {
                0 => Ok(()),
                count => {
                    let what = format!(
                        "as {to}, {count} of its values or blocks would change (nothing is written; dequantize and \
                         quantize round them)"
                    );
                    let error = Invalid::new(InvalidKind::Changes, what).of_tensor(&checkpoint.stored(tensor).name);
                    Err(checkpoint.error(Some(tensor), error))
                }
            };
            self.checks.push(Check { tensor, source, data_type, len, verdict: Box::new(verdict) });
        }
        Ok(rows)
    }
}

/// Finds what each weight becomes.
struct Planner<'a> {
    checkpoint: &'a Checkpoint,
    weights: &'a Weights,
    claims: &'a Claims,
    request: &'a TranscodeRequest,
    joined: Joined,
}

impl Planner<'_> {
    /// The formats of the weights, and what they become.
    fn plan(&self) -> Result<Vec<(QuantizedFormat, WrittenWeight)>, FileError> {
        let plan = |weight: &Arc<Weight>| {
            let tensor = &self.checkpoint.stored(weight.codes.tensor).name;
            let wrong = |error| self.checkpoint.error(Some(weight.codes.tensor), error);
            let wrong = |error: Invalid| wrong(error.of_tensor(tensor));
            self.write(weight).map_err(wrong)
        };
        let all = self.weights.list.iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        if !self.request.layout.describes_layers(all.iter().map(|(_, written)| written.to)) {
            return Ok(all);
        }
        Ok(all.into_iter().map(|(format, written)| (format, written.described_by_layer())).collect())
    }

    /// What becomes of the activations of a weight, and their settings where these stay.
    fn activations(&self, weight: &Weight, is_same: bool) -> (Option<Activations>, Option<Value>) {
        if self.request.activations.is_some() {
            return (self.request.activations, None);
        }
        let claimed = self.claims.activations_of(weight.format());
        let is_calibrated = calibration::is_calibrated(self.checkpoint, weight);
        match claimed {
            // Scales that the configuration leaves unused.
            Some(None) if is_same || is_calibrated => (Some(Activations::Kept), None),
            _ if is_calibrated => (Some(Activations::Static), claimed.flatten().filter(|_| is_same).cloned()),
            Some(Some(settings)) if is_same => (Some(Activations::Dynamic), Some(settings.clone())),
            _ => (None, None),
        }
    }

    /// What to know where activations are quantized by the configuration or in the output, and not by both.
    fn note_on_activations(&self, written: &[WrittenWeight]) -> Option<String> {
        let claims = |weight: &Weight| matches!(self.claims.activations_of(weight.format()), Some(Some(_)));
        let differs = |(weight, written): &(&Arc<Weight>, &WrittenWeight)| {
            // Scales in the checkpoint are claim enough.
            written.activations != Activations::Static && claims(weight) == (written.activations == Activations::Kept)
        };
        let mut changed = self.weights.list.iter().zip(written).filter(differs);
        let (first, _) = changed.next().filter(|_| self.request.activations.is_none())?;
        let [before, after] = match claims(first) {
            true => ["by the configuration", "in the output"],
            false => ["in the output", "by the configuration"],
        };
        let (first, others) = (Short(&first.name), changed.count());
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        Some(format!("the inputs of `{first}`{others} are quantized {before}, but not {after}"))
    }

    /// Returns a note if matrices that loaders join differ in NVFP4's global scale. vLLM 0.33 uses the largest one for
    /// all of them without adapting the scales of blocks.
    fn note_on_globals(&self, written: &[WrittenWeight]) -> Result<Option<String>, FileError> {
        let mut first: HashMap<&String, (usize, Vec<u8>)> = HashMap::new();
        let (mut found, mut groups) = (None, HashSet::new());
        for (index, one) in written.iter().enumerate() {
            let (Some(group), Some(global)) = (self.joined.group(&one.module), self.weights.list[index].scales.global)
            else {
                continue;
            };
            let bytes = self.checkpoint.bytes(global)?;
            match first.get(group) {
                Some((other, known)) if *known != bytes => {
                    found = found.or(Some([*other, index]));
                    groups.insert(group);
                }
                Some(_) => {}
                None => drop(first.insert(group, (index, bytes))),
            }
        }
        let Some([one, other]) = found.map(|pair| pair.map(|index| Short(&self.weights.list[index].name))) else {
            return Ok(None);
        };
        let others =
            if groups.len() > 1 { format!(", and {} more that are joined,", groups.len() - 1) } else { String::new() };
        Ok(Some(format!(
            "`{one}` and `{other}`{others} differ in the global scale: loaders that fuse them use one for both, and \
             get wrong weights (`quantize` gives both the same)"
        )))
    }

    /// Refuses scales of activations that only some of the matrices have that loaders join: the others would get
    /// whatever is in memory.
    fn check_joined(&self, written: &[WrittenWeight]) -> Result<(), FileError> {
        let is_static = |index: usize| written[index].activations == Activations::Static;
        let mut first = HashMap::new();
        for (index, one) in written.iter().enumerate() {
            let Some(group) = self.joined.group(&one.module) else { continue };
            let other = *first.entry(group).or_insert(index);
            if is_static(other) == is_static(index) {
                continue;
            }
            let [with, without] = if is_static(index) { [index, other] } else { [other, index] };
            let what = format!(
                "the inputs of `{}` have a scale, but its own do not: loaders fuse both (",
                Short(&self.weights.list[with].name)
            );
            let what = Wording::from(what).field("activations", " drops the calibrated scales of activations)");
            let weight = &self.weights.list[without];
            let error = Invalid::new(InvalidKind::Missing, what).of_tensor(&weight.name);
            return Err(self.checkpoint.error(Some(weight.codes.tensor), error));
        }
        Ok(())
    }

    /// Refuses targets that MXFP4 does not become.
    fn check_target(&self) -> Result<(), Invalid> {
        let known = [
            QuantizedFormat::Block(BlockFormat::NvFp4),
            QuantizedFormat::Block(BlockFormat::MxFp4),
            QuantizedFormat::Elements(DataType::Float8E4M3FN),
        ];
        match self.request.to {
            Some(to) if !known.contains(&to) => {
                Err(self.request.layout.not_held(to, "transcoded weights become nvfp4 or float8e4m3fn"))
            }
            _ => Ok(()),
        }
    }

    /// The format of a weight, and what it becomes.
    fn write(&self, weight: &Weight) -> Result<(QuantizedFormat, WrittenWeight), Invalid> {
        let own = self.weights.layout;
        let form = match own.is_only_read() {
            true => Err(format!("the layout {} can only be read", own.name())),
            false => layouts::form_of(weight, self.weights.block, own == self.request.layout)
                .map_err(|reason| format!("{reason}, and no other layout has such a weight")),
        };
        let (from, granularity) = form.map_err(|reason| {
            let what = format!("{reason} (dequantize and quantize go from any layout to any, with a loss)");
            Invalid::new(InvalidKind::Unsupported, what)
        })?;
        let is_mxfp4 = from == QuantizedFormat::Block(BlockFormat::MxFp4);
        let to = self.request.to.filter(|_| is_mxfp4).unwrap_or(from);
        let layout = self.request.layout;
        let are_integers = [DataType::Int8, DataType::Int4].map(QuantizedFormat::Elements).contains(&from);
        // Without words all integers are int8, and no column tells its group.
        let int8 = QuantizedFormat::Elements(DataType::Int8);
        let has_only_bytes = !layout.spec().packs_integers && layout.granularity(int8, None).is_ok();
        let to = if are_integers && has_only_bytes { int8 } else { to };
        let refuse = |reason: &str| Err(layout.not_held(to, reason));
        if weight.groups.is_some() && has_only_bytes {
            return refuse("its columns have no groups of their own (weight_g_idx)");
        }
        if weight.zero_points.is_some() && has_only_bytes && !layout.spec().has_zero_points() {
            return refuse("its integers have no zero points");
        }
        let is_same = self.weights.layout == layout && to == from;
        let (activations, settings) = self.activations(weight, is_same);
        let mut written = layout.write_quantized(weight, to, granularity, activations)?;
        written.settings = settings;
        if self.weights.layout != layout {
            layout.check_columns(&weight.name, &written)?;
        }
        if weight.codes.transposed != (written.order == Order::Exchanged)
            && !(weight.codes.transposed && written.order == Order::Down)
        {
            return refuse("its experts have rows and columns the other way round");
        }
        if matches!(weight.codes.encoding, Encoding::TwoRows(_)) != (written.order == Order::Down)
            && !weight.codes.transposed
        {
            return refuse("it has no experts packed along their rows");
        }
        if are_integers {
            let bits = match weight.codes.encoding {
                Encoding::Words { bits, .. } => bits,
                _ => 8,
            };
            let (are_symmetric, have_groups) = (weight.zero_points.is_none(), weight.groups.is_some());
            written.integers = Integers { bits, are_symmetric, have_groups };
            if !matches!(weight.codes.encoding, Encoding::Words { .. }) {
                written.check_words(&weight.name)?;
            }
        }
        Ok((from, written))
    }
}
