//! `cast` and `bitcast`: from files to files.

use crate::args::{BitCastArgs, CastArgs, Common};
use crate::outcome::{Job, Outcome};
use crate::progress::Progress;
use crate::{DONE, free, models, outcome, pretty, print, select};
use anyhow::{Result, bail};
use onnx_cast::CastOptions;
use onnx_cast_file::{FileCast, FileError, Summary, WriteOptions, bit_cast_file, cast_file};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(crate) fn cast(args: &CastArgs, common: &Common) -> Result<u8> {
    let CastArgs { files, selection, job, fail_on, .. } = args;
    let job = Job { files, selection, job, common, losses: args.losses, fail_on };
    job.each(|input, output| {
        if models::is_model(input) && models::is_model(output) {
            return models::cast(args, &job, input, output);
        }
        models::refuse_options(args, input)?;
        job.run(input, output, args.attributes.options(), cast_file)
    })
}

pub(crate) fn bit_cast(args: &BitCastArgs, common: &Common) -> Result<u8> {
    let BitCastArgs { files, selection, job, .. } = args;
    let job = Job { files, selection, job, common, losses: false, fail_on: &[] };
    job.each(|input, output| job.run(input, output, CastOptions::new().opset(args.opset), bit_cast_file))
}

impl Job<'_> {
    /// Does the work for each input and its output. With `--out-dir` JSON is an array.
    fn each(&self, one: impl Fn(&Path, &Path) -> Result<Outcome>) -> Result<u8> {
        let pairs = self.pairs()?;
        if pairs.iter().any(|(_, output)| output == Path::new("-")) && (self.common.json || self.job.dry_run) {
            bail!("--json and --dry-run print to the standard output, where the output is to go");
        }
        if self.job.no_clobber {
            pairs.iter().try_for_each(|(_, output)| free(output))?;
        }
        let made = self.job.out_dir.as_ref().filter(|folder| !self.job.dry_run && !folder.exists());
        if let Some(folder) = made {
            fs::create_dir_all(folder)
                .map_err(|error| anyhow::anyhow!("{}: cannot make the folder: {error}", folder.display()))?;
        }
        let mut done = (DONE, Vec::new());
        let worked = pairs.iter().try_for_each(|(input, output)| {
            let (code, json) = one(input, output)?;
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
            let [input, output] = &self.files.files[..] else {
                let count = self.files.files.len();
                bail!("{count} file{} (want IN and OUT, or --out-dir DIR)", if count == 1 { "" } else { "s" });
            };
            return Ok(vec![(input.clone(), output.clone())]);
        };
        let mut pairs: Vec<(PathBuf, PathBuf)> = Vec::new();
        for input in &self.files.files {
            let Some(name) = input.file_name().filter(|name| *name != "-") else {
                bail!("{}: no name for the output in {}", input.display(), folder.display());
            };
            let output = folder.join(name);
            if let Some((other, _)) = pairs.iter().find(|(_, known)| *known == output) {
                bail!("{} and {}: both would be written to {}", other.display(), input.display(), output.display());
            }
            pairs.push((input.clone(), output));
        }
        Ok(pairs)
    }

    fn run<'p, F>(&self, input: &'p Path, output: &'p Path, options: CastOptions, work: F) -> Result<Outcome>
    where
        F: Fn(&'p Path, &'p Path, &FileCast) -> Result<Summary, FileError>,
    {
        let start = Instant::now();
        let Job { files, selection, job, common, .. } = self;
        let mut request = FileCast {
            selection: selection.selection(0)?,
            options: options.threads(common.threads),
            from: files.from,
            shape: files.shape.clone(),
            write: WriteOptions { npy_plain: job.npy_plain },
            dry_run: true,
            resume: job.resume,
            copy_others: !job.no_copy_others,
            count: false,
            fail_on: Vec::new(),
            watch: None,
        };
        if input != Path::new("-") && !selection.patterns().is_empty() {
            let plan = work(input, output, &request)?;
            select::check(&selection.patterns(), plan.tensors.iter().map(|row| row.name.as_str()))?;
        }
        let progress = Progress::start(common);
        request = FileCast {
            dry_run: job.dry_run,
            count: self.losses,
            fail_on: self.fail_on.to_vec(),
            watch: progress.watch(),
            ..request
        };
        let done = work(input, output, &request);
        drop(progress);
        outcome::finish(self, input, output, done, start)
    }
}
