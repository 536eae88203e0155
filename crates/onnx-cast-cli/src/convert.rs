//! `cast`, `bitcast`, `dequantize`, `quantize` and `transcode`: from files to files.

use crate::args::{BitCastArgs, CastArgs, Common, DequantizeArgs, JobArgs, QuantizeArgs, TranscodeArgs};
use crate::outcome::{Job, Outcome};
use crate::progress::Progress;
use crate::{DONE, ERROR, outcome, pretty, print, say};
use anyhow::{Result, anyhow, bail};
use onnx_cast_file::io::atomic::check_vacant;
use onnx_cast_file::io::links::check_write;
use onnx_cast_file::text::PathText;
use onnx_cast_file::{
    BitCastRequest, CastRequest, DequantizeRequest, Format, QuantizeRequest, Summary, TranscodeRequest, Watch,
    WriteOptions,
};
use onnx_cast_model::Error;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(crate) fn cast(args: &CastArgs, common: &Common) -> Result<u8> {
    let CastArgs { files, selection, job, npy, losses, .. } = args;
    let request = CastRequest {
        selection: selection.selection()?,
        options: args.attributes.options().threads(common.threads),
        from: files.from,
        shape: files.shape.clone().map(|shape| shape.0),
        write: job.write(npy.npy_plain),
        dry_run: job.dry_run,
        resume: job.resume,
        copy_others: !job.no_copy_others,
        count: losses.losses,
        fail_on: losses.fail_on.clone(),
        raise_opset: args.raise_opset,
        storage: args.storage.storage(),
        watch: None,
    };
    let work = |input: &Path, output: &Path, watch| {
        onnx_cast_model::cast(input, output, &CastRequest { watch, ..request.clone() })
    };
    let attributes = Some(&args.attributes);
    let check = |input: &Path, output: &Path| {
        let plan = CastRequest { dry_run: true, count: false, fail_on: Vec::new(), ..request.clone() };
        onnx_cast_model::cast(input, output, &plan)
    };
    let job = Job { files: &files.files, job, common, losses: losses.losses, attributes };
    job.each(check, work)
}

pub(crate) fn bit_cast(args: &BitCastArgs, common: &Common) -> Result<u8> {
    let BitCastArgs { files, selection, job, npy, opset } = args;
    let request = BitCastRequest {
        selection: selection.selection()?,
        opset: *opset,
        threads: common.threads,
        from: files.from,
        shape: files.shape.clone().map(|shape| shape.0),
        write: job.write(npy.npy_plain),
        dry_run: job.dry_run,
        resume: job.resume,
        copy_others: !job.no_copy_others,
        watch: None,
    };
    let work = |input: &Path, output: &Path, watch| {
        onnx_cast_model::bit_cast(input, output, &BitCastRequest { watch, ..request.clone() })
    };
    let check = |input: &Path, output: &Path| {
        let plan = BitCastRequest { dry_run: true, ..request.clone() };
        onnx_cast_model::bit_cast(input, output, &plan)
    };
    let job = Job { files: &files.files, job, common, losses: false, attributes: None };
    job.each(check, work)
}

pub(crate) fn dequantize(args: &DequantizeArgs, common: &Common) -> Result<u8> {
    let DequantizeArgs { files, scheme, selection, allow_nan, job, losses } = args;
    let request = DequantizeRequest {
        selection: selection.selection()?,
        scheme: scheme.0,
        allow_nan: *allow_nan,
        threads: common.threads,
        write: job.write(false),
        dry_run: job.dry_run,
        copy_others: !job.no_copy_others,
        resume: job.resume,
        count: losses.losses,
        fail_on: losses.fail_on.clone(),
        watch: None,
    };
    let work = |input: &Path, output: &Path, watch| {
        onnx_cast_model::dequantize(input, output, &DequantizeRequest { watch, ..request.clone() })
    };
    let check = |input: &Path, output: &Path| {
        let plan = DequantizeRequest { dry_run: true, count: false, fail_on: Vec::new(), ..request.clone() };
        onnx_cast_model::dequantize(input, output, &plan)
    };
    let job = Job { files, job, common, losses: losses.losses, attributes: None };
    job.each(check, work)
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
        dry_run: job.dry_run,
        copy_others: !job.no_copy_others,
        resume: job.resume,
        count: losses.losses,
        fail_on: losses.fail_on.clone(),
        raise_opset: *raise_opset,
        storage: storage.storage(),
        watch: None,
    };
    let work = |input: &Path, output: &Path, watch| {
        onnx_cast_model::quantize(input, output, &QuantizeRequest { watch, ..request.clone() })
    };
    let check = |input: &Path, output: &Path| {
        let plan = QuantizeRequest { dry_run: true, count: false, fail_on: Vec::new(), ..request.clone() };
        onnx_cast_model::quantize(input, output, &plan)
    };
    let job = Job { files, job, common, losses: losses.losses, attributes: None };
    job.each(check, work)
}

pub(crate) fn transcode(args: &TranscodeArgs, common: &Common) -> Result<u8> {
    let TranscodeArgs { files, scheme, layout, to, job } = args;
    let request = TranscodeRequest {
        layout: *layout,
        to: *to,
        scheme: scheme.0,
        threads: common.threads,
        write: job.write(false),
        dry_run: true,
        copy_others: !job.no_copy_others,
        resume: job.resume,
        watch: None,
    };
    let work = |input: &Path, output: &Path, watch| {
        let request = TranscodeRequest { dry_run: job.dry_run, watch, ..request.clone() };
        onnx_cast_model::transcode(input, output, &request)
    };
    let check = |input: &Path, output: &Path| onnx_cast_model::transcode(input, output, &request);
    let job = Job { files, job, common, losses: false, attributes: None };
    job.each(check, work)
}

impl JobArgs {
    fn write(&self, npy_plain: bool) -> WriteOptions {
        WriteOptions { npy_plain, no_clobber: self.no_clobber, force: self.force }
    }
}

impl Job<'_> {
    /// Does the work for each input and its output; of several inputs all are checked before the first is written. With
    /// `--out-dir` JSON is an array.
    fn each(
        &self,
        check: impl Fn(&Path, &Path) -> Result<Summary, Error>,
        work: impl Fn(&Path, &Path, Option<Watch>) -> Result<Summary, Error>,
    ) -> Result<u8> {
        let pairs = self.pairs()?;
        if pairs.iter().any(|(_, output)| output == Path::new("-")) && (self.common.json || self.job.dry_run) {
            // The standard output is for data that is not there: the error does not go there as JSON either.
            say(anyhow!("--json and --dry-run print to the standard output, where the output is to go"));
            return Ok(ERROR);
        }
        if self.job.no_clobber {
            // All outputs, before the first is written.
            pairs.iter().try_for_each(|(_, output)| check_vacant(output))?;
        }
        if self.job.out_dir.is_some() {
            pairs.iter().try_for_each(|(_, output)| check_write(output))?;
        }
        if pairs.len() > 1 {
            // One that is refused leaves no outputs of those before it.
            pairs.iter().try_for_each(|(input, output)| check(input, output).map(drop)).map_err(outcome::in_words)?;
        }
        let made = self.job.out_dir.as_ref().filter(|folder| !self.job.dry_run && !folder.exists());
        if let Some(folder) = made {
            fs::create_dir_all(folder)
                .map_err(|error| anyhow!("{}: cannot make the folder: {error}", PathText(folder)))?;
        }
        let made_many = self.job.out_dir.is_some();
        let mut done = (DONE, Vec::new());
        let worked = pairs.iter().try_for_each(|(input, output)| {
            let (code, json) = self.one(input, output, &work)?;
            done.0 = done.0.max(code);
            done.1.extend(json);
            Ok(())
        });
        if let Some(folder) = made {
            // It stays unless nothing was written.
            let _ = fs::remove_dir(folder);
        }
        if let Err(error) = worked {
            let Some((input, output)) = pairs.get(done.1.len()).filter(|_| self.common.json && made_many) else {
                return Err(error);
            };
            // What was done before is told, too.
            let (input, output) = (input.to_string_lossy(), output.to_string_lossy());
            done.1.push(json!({ "input": input, "output": output, "error": say(error), "written": false }));
            print(&pretty(&Value::from(done.1))?)?;
            return Ok(ERROR);
        }
        match &done.1[..] {
            json if self.common.json && made_many => print(&pretty(&Value::from(json))?)?,
            [json] => print(&pretty(json)?)?,
            _ => {}
        }
        Ok(done.0)
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
                bail!("{}: no name for the output in {}", PathText(input), PathText(folder));
            };
            let mut output = folder.join(name);
            if output.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(Format::Gguf.extension())) {
                // These are only read.
                output.set_extension(Format::Safetensors.extension());
            }
            if let Some((other, _)) = pairs.iter().find(|(_, known)| *known == output) {
                bail!("{} and {}: both would be written to {}", PathText(other), PathText(input), PathText(&output));
            }
            pairs.push((input.clone(), output));
        }
        Ok(pairs)
    }

    fn one(
        &self,
        input: &Path,
        output: &Path,
        work: impl Fn(&Path, &Path, Option<Watch>) -> Result<Summary, Error>,
    ) -> Result<Outcome> {
        let start = Instant::now();
        let progress = Progress::start(self.common);
        let done = work(input, output, progress.watch());
        drop(progress);
        outcome::finish(self, input, output, done, start)
    }
}
