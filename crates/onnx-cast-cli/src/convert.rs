//! `cast`, `bitcast`, `dequantize`, `quantize` and `transcode`: from files to files.

use crate::args::{BitCastArgs, CastArgs, Common, DequantizeArgs, JobArgs, QuantizeArgs, TranscodeArgs};
use crate::outcome::{Job, Outcome};
use crate::progress::Progress;
use crate::{DONE, outcome, pretty, print, select};
use anyhow::{Result, bail};
use onnx_cast_file::io::atomic::check_vacant;
use onnx_cast_file::{
    BitCastRequest, CastRequest, DequantizeRequest, Format, InspectRequest, QuantizeRequest, Selection, Summary,
    TensorInfo, TensorSummary, TranscodeRequest, Watch, WriteOptions,
};
use onnx_cast_model::Error;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(crate) fn cast(args: &CastArgs, common: &Common) -> Result<u8> {
    let CastArgs { files, selection, job, npy, losses, .. } = args;
    let request = CastRequest {
        selection: selection.selection()?,
        options: args.attributes.options().threads(common.threads),
        from: files.from,
        shape: files.shape.clone(),
        write: job.write(npy.npy_plain),
        dry_run: true,
        resume: job.resume,
        copy_others: !job.no_copy_others,
        count: false,
        fail_on: Vec::new(),
        raise_opset: args.raise_opset,
        storage: args.storage.storage(),
        watch: None,
    };
    let work = |input: &Path, output: &Path, watch| {
        let (dry_run, count, fail_on) = (job.dry_run, losses.losses, losses.fail_on.clone());
        onnx_cast_model::cast(input, output, &CastRequest { dry_run, count, fail_on, watch, ..request.clone() })
    };
    let job = Job { files: &files.files, patterns: selection.patterns(), job, common, losses: losses.losses };
    job.each(|input, output| onnx_cast_model::cast(input, output, &request), work)
}

pub(crate) fn bit_cast(args: &BitCastArgs, common: &Common) -> Result<u8> {
    let BitCastArgs { files, selection, job, npy, opset } = args;
    let request = BitCastRequest {
        selection: selection.selection()?,
        opset: *opset,
        threads: common.threads,
        from: files.from,
        shape: files.shape.clone(),
        write: job.write(npy.npy_plain),
        dry_run: true,
        resume: job.resume,
        copy_others: !job.no_copy_others,
        watch: None,
    };
    let work = |input: &Path, output: &Path, watch| {
        let dry_run = job.dry_run;
        onnx_cast_model::bit_cast(input, output, &BitCastRequest { dry_run, watch, ..request.clone() })
    };
    let job = Job { files: &files.files, patterns: selection.patterns(), job, common, losses: false };
    job.each(|input, output| onnx_cast_model::bit_cast(input, output, &request), work)
}

pub(crate) fn dequantize(args: &DequantizeArgs, common: &Common) -> Result<u8> {
    let DequantizeArgs { files, scheme, selection, allow_nan, job, losses } = args;
    let request = DequantizeRequest {
        selection: selection.selection()?,
        scheme: scheme.0,
        allow_nan: *allow_nan,
        threads: common.threads,
        write: job.write(false),
        dry_run: true,
        copy_others: !job.no_copy_others,
        resume: job.resume,
        count: false,
        fail_on: Vec::new(),
        watch: None,
    };
    let work = |input: &Path, output: &Path, watch| {
        let (dry_run, count, fail_on) = (job.dry_run, losses.losses, losses.fail_on.clone());
        let request = DequantizeRequest { dry_run, count, fail_on, watch, ..request.clone() };
        onnx_cast_model::dequantize(input, output, &request)
    };
    let job = Job { files, patterns: selection.patterns(), job, common, losses: losses.losses };
    job.each(|input, output| dequantize_plan(input, output, &request), work)
}

/// What would become of each tensor, for its name. Patterns are of the names of plain weights, and a weight that stays
/// quantized is listed by the tensors that hold it: the plan of all weights follows.
fn dequantize_plan(input: &Path, output: &Path, request: &DequantizeRequest) -> Result<Summary, Error> {
    if onnx_cast_model::is_model(input) {
        let every =
            Selection { to: request.selection.to, rules: request.selection.rules.clone(), ..Selection::default() };
        return onnx_cast_model::dequantize(input, output, &DequantizeRequest { selection: every, ..request.clone() });
    }
    // Scales are read when the work begins.
    let request = DequantizeRequest { allow_nan: true, ..request.clone() };
    let mut plan = onnx_cast_file::dequantize_file(input, output, &request)?;
    if let Some(to) = request.selection.targets().next() {
        let every = DequantizeRequest { selection: Selection::new(to), ..request };
        // What is excluded may have no scales.
        if let Ok(every) = onnx_cast_file::dequantize_file(input, output, &every) {
            plan.tensors.extend(every.tensors);
        }
    }
    Ok(plan)
}

pub(crate) fn quantize(args: &QuantizeArgs, common: &Common) -> Result<u8> {
    let QuantizeArgs { files, layout, scale, scale_rule, raise_opset, job, storage, losses, .. } = args;
    let request = QuantizeRequest {
        selection: args.selection()?,
        layout: *layout,
        granularity: *scale,
        rule: *scale_rule,
        threads: common.threads,
        write: job.write(false),
        dry_run: true,
        copy_others: !job.no_copy_others,
        resume: job.resume,
        count: false,
        fail_on: Vec::new(),
        raise_opset: *raise_opset,
        storage: storage.storage(),
        watch: None,
    };
    let work = |input: &Path, output: &Path, watch| {
        let (dry_run, count, fail_on) = (job.dry_run, losses.losses, losses.fail_on.clone());
        let request = QuantizeRequest { dry_run, count, fail_on, watch, ..request.clone() };
        onnx_cast_model::quantize(input, output, &request)
    };
    let job = Job { files, patterns: args.patterns(), job, common, losses: losses.losses };
    job.each(|input, _| stored_names(input), work)
}

/// The tensors of a file as they are, for their names: those of the output are others.
fn stored_names(path: &Path) -> Result<Summary, Error> {
    let found = onnx_cast_model::inspect(path, &InspectRequest::default())?;
    let row =
        |tensor: &TensorInfo| TensorSummary::kept(&tensor.name, tensor.shape.clone(), tensor.data_type, tensor.bytes);
    Ok(Summary::new(found.file.tensors.iter().map(row).collect()))
}

pub(crate) fn transcode(args: &TranscodeArgs, common: &Common) -> Result<u8> {
    let TranscodeArgs { files, scheme, layout, to, job } = args;
    let request = TranscodeRequest {
        layout: *layout,
        to: *to,
        scheme: scheme.0,
        threads: common.threads,
        write: job.write(false),
        dry_run: job.dry_run,
        copy_others: !job.no_copy_others,
        resume: job.resume,
        watch: None,
    };
    let work = |input: &Path, output: &Path, watch| {
        let request = TranscodeRequest { watch, ..request.clone() };
        onnx_cast_model::transcode(input, output, &request)
    };
    let job = Job { files, patterns: Vec::new(), job, common, losses: false };
    job.each(|input, output| work(input, output, None), work)
}

impl JobArgs {
    fn write(&self, npy_plain: bool) -> WriteOptions {
        WriteOptions { npy_plain, no_clobber: self.no_clobber }
    }
}

impl Job<'_> {
    /// Does the work for each input and its output: `plan` without writing anything, for the names that patterns are
    /// compared with, and then `work`. With `--out-dir` JSON is an array.
    fn each(
        &self,
        plan: impl Fn(&Path, &Path) -> Result<Summary, Error>,
        work: impl Fn(&Path, &Path, Option<Watch>) -> Result<Summary, Error>,
    ) -> Result<u8> {
        let pairs = self.pairs()?;
        if pairs.iter().any(|(_, output)| output == Path::new("-")) && (self.common.json || self.job.dry_run) {
            bail!("--json and --dry-run print to the standard output, where the output is to go");
        }
        if self.job.no_clobber {
            // All outputs, before the first is written.
            pairs.iter().try_for_each(|(_, output)| check_vacant(output))?;
        }
        let made = self.job.out_dir.as_ref().filter(|folder| !self.job.dry_run && !folder.exists());
        if let Some(folder) = made {
            fs::create_dir_all(folder)
                .map_err(|error| anyhow::anyhow!("{}: cannot make the folder: {error}", folder.display()))?;
        }
        let mut done = (DONE, Vec::new());
        let worked = pairs.iter().try_for_each(|(input, output)| {
            let (code, json) = self.one(input, output, &plan, &work)?;
            done.0 = done.0.max(code);
            done.1.extend(json);
            Ok(())
        });
        if let Some(folder) = made {
            // It stays unless nothing was written.
            let _ = fs::remove_dir(folder);
        }
        worked.and_then(|()| {
            match (&self.job.out_dir, &done.1[..]) {
                (None, [json]) => print(&pretty(json)?)?,
                (Some(_), json) if self.common.json => print(&pretty(&Value::from(json))?)?,
                _ => {}
            }
            Ok(done.0)
        })
    }

    /// Each input and its output.
    fn pairs(&self) -> Result<Vec<(PathBuf, PathBuf)>> {
        let Some(folder) = &self.job.out_dir else {
            let [input, output] = self.files else {
                let count = self.files.len();
                bail!("{count} file{} (want IN and OUT, or --out-dir DIR)", if count == 1 { "" } else { "s" });
            };
            return Ok(vec![(input.clone(), output.clone())]);
        };
        let mut pairs: Vec<(PathBuf, PathBuf)> = Vec::new();
        for input in self.files {
            let Some(name) = input.file_name().filter(|name| *name != "-") else {
                bail!("{}: no name for the output in {}", input.display(), folder.display());
            };
            let mut output = folder.join(name);
            if output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(Format::Gguf.extension())) {
                // These are only read.
                output.set_extension(Format::Safetensors.extension());
            }
            if let Some((other, _)) = pairs.iter().find(|(_, known)| *known == output) {
                bail!("{} and {}: both would be written to {}", other.display(), input.display(), output.display());
            }
            pairs.push((input.clone(), output));
        }
        Ok(pairs)
    }

    fn one(
        &self,
        input: &Path,
        output: &Path,
        plan: impl Fn(&Path, &Path) -> Result<Summary, Error>,
        work: impl Fn(&Path, &Path, Option<Watch>) -> Result<Summary, Error>,
    ) -> Result<Outcome> {
        let start = Instant::now();
        if input != Path::new("-") && !self.patterns.is_empty() {
            let plan = plan(input, output).map_err(outcome::in_words)?;
            select::check(&self.patterns, plan.tensors.iter().map(|row| row.name.as_str()))?;
        }
        let progress = Progress::start(self.common);
        let done = work(input, output, progress.watch());
        drop(progress);
        outcome::finish(self, input, output, done, start)
    }
}
