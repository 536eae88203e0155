//! `cast`, `bitcast`, `dequantize`, `quantize` and `transcode`: from files to files.

use crate::args::{BitCastArgs, CastArgs, Common, DequantizeArgs, JobArgs, LossArgs, QuantizeArgs, TranscodeArgs};
use crate::outcome::{Job, Outcome};
use crate::progress::Progress;
use crate::{DONE, ERROR, outcome, pretty, print, say};
use anyhow::{Result, anyhow, bail};
use onnx_cast_file::__private::links::check_write;
use onnx_cast_file::__private::{PathText, create_folder, is_stream};
use onnx_cast_file::{
    BitCastRequest, CastRequest, DequantizeRequest, Format, ModelOptions, QuantizeRequest, RunOptions, Summary,
    TranscodeRequest, WriteOptions,
};
use onnx_cast_model::Error;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(crate) fn cast(args: &CastArgs, common: &Common) -> Result<u8> {
    let CastArgs { files, selection, job, npy, losses, .. } = args;
    let request = CastRequest::default()
        .selection(selection.selection()?)
        .options(args.attributes.options())
        .run(job.run(common, npy.npy_plain, Some(losses)))
        .raw(files.raw(npy))
        .model(ModelOptions::default().raise_opset(args.raise_opset).storage(args.storage.storage()));
    let work = |input: &Path, output: &Path, run| onnx_cast_model::cast(input, output, &request.clone().run(run));
    let job = Job { files: &files.files, job, common, losses: losses.losses };
    job.each(&request.run, work)
}

pub(crate) fn bit_cast(args: &BitCastArgs, common: &Common) -> Result<u8> {
    let BitCastArgs { files, selection, job, npy, opset } = args;
    let request = BitCastRequest::default()
        .selection(selection.selection()?)
        .opset(*opset)
        .run(job.run(common, npy.npy_plain, None))
        .raw(files.raw(npy));
    let work = |input: &Path, output: &Path, run| onnx_cast_model::bit_cast(input, output, &request.clone().run(run));
    let job = Job { files: &files.files, job, common, losses: false };
    job.each(&request.run, work)
}

pub(crate) fn dequantize(args: &DequantizeArgs, common: &Common) -> Result<u8> {
    let DequantizeArgs { files, layout, selection, allow_nan, job, losses } = args;
    let request = DequantizeRequest::default()
        .selection(selection.selection()?)
        .layout(*layout)
        .allow_nan(*allow_nan)
        .run(job.run(common, false, Some(losses)));
    let work = |input: &Path, output: &Path, run| onnx_cast_model::dequantize(input, output, &request.clone().run(run));
    let job = Job { files, job, common, losses: losses.losses };
    job.each(&request.run, work)
}

pub(crate) fn quantize(args: &QuantizeArgs, common: &Common) -> Result<u8> {
    let QuantizeArgs { files, layout, activations, scale_rule, raise_opset, job, storage, losses, .. } = args;
    let request = QuantizeRequest::default()
        .selection(args.selection()?)
        .layout(*layout)
        .activations(*activations)
        .scale_rule(*scale_rule)
        .form(args.form)
        .zero_points(args.zero_points)
        .reduce_range(args.reduce_range)
        .model(ModelOptions::default().raise_opset(*raise_opset).storage(storage.storage()))
        .run(job.run(common, false, Some(losses)));
    let work = |input: &Path, output: &Path, run| onnx_cast_model::quantize(input, output, &request.clone().run(run));
    let job = Job { files, job, common, losses: losses.losses };
    job.each(&request.run, work)
}

pub(crate) fn transcode(args: &TranscodeArgs, common: &Common) -> Result<u8> {
    let TranscodeArgs { files, from_layout, layout, to, activations, job } = args;
    let run = job.run(common, false, None);
    let request = TranscodeRequest::new(*layout).to(*to).activations(*activations).from_layout(*from_layout).run(run);
    let work = |input: &Path, output: &Path, run| onnx_cast_model::transcode(input, output, &request.clone().run(run));
    let job = Job { files, job, common, losses: false };
    job.each(&request.run, work)
}

impl JobArgs {
    fn run(&self, common: &Common, npy_plain: bool, losses: Option<&LossArgs>) -> RunOptions {
        let run = RunOptions::new()
            .threads(common.threads)
            .write(WriteOptions::default().npy_plain(npy_plain).force(self.force.force))
            .dry_run(self.dry_run)
            .copy_others(!self.no_copy_others)
            .resume(self.resume)
            .shard_size(self.shard_size);
        match losses {
            Some(LossArgs { losses, fail_on, .. }) => run.losses(*losses).fail_on(fail_on.clone()),
            None => run,
        }
    }
}

impl Job<'_> {
    /// Does the work for each input and its output; of several inputs all are checked before the first is written. With
    /// `--out-dir` JSON is an array.
    fn each(&self, run: &RunOptions, work: impl Fn(&Path, &Path, RunOptions) -> Result<Summary, Error>) -> Result<u8> {
        let pairs = self.pairs()?;
        if pairs.iter().any(|(_, output)| is_stream(output)) && (self.common.json || self.job.dry_run) {
            // The standard output is for data that is not there: the error does not go there as JSON either.
            say(&anyhow!("--json and --dry-run print to standard output, which is also OUT"), self.common);
            return Ok(ERROR);
        }
        if self.job.out_dir.is_some() {
            pairs.iter().try_for_each(|(_, output)| check_write(output))?;
        }
        if pairs.len() > 1 {
            // One that is refused leaves no outputs of those before it.
            let check = |(input, output): &(PathBuf, PathBuf)| work(input, output, run.clone().plan()).map(drop);
            pairs.iter().try_for_each(check)?;
        }
        let made = self.job.out_dir.as_ref().filter(|folder| !self.job.dry_run && !folder.exists());
        if let Some(folder) = made {
            create_folder(&folder.join("x"))?;
        }
        let made_many = self.job.out_dir.is_some();
        let mut done = (DONE, Vec::new());
        let worked = pairs.iter().try_for_each(|(input, output)| {
            let (code, json) = self.one(input, output, run, &work)?;
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
            done.1
                .push(json!({ "input": input, "output": output, "error": say(&error, self.common), "written": false }));
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
            if matches!(Format::from_path(&output), Ok(Format::Gguf | Format::Torch)) {
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
        run: &RunOptions,
        work: impl Fn(&Path, &Path, RunOptions) -> Result<Summary, Error>,
    ) -> Result<Outcome> {
        let start = Instant::now();
        let progress = Progress::start(self.common);
        let done = work(input, output, run.clone().watch(progress.watch()));
        drop(progress);
        outcome::finish(self, input, output, done, start)
    }
}
