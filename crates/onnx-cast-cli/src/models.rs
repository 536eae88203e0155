//! The commands from a model to a model: `fold` and `upgrade`, and what they share with `convert` and `record`.

use crate::args::{Common, FoldArgs, ModelArgs, NameArgs, StorageArgs, UpgradeArgs, WriteArgs};
use crate::outcome::with_written;
use crate::progress::Progress;
use crate::{pretty, print};
use anyhow::{Result, bail};
use onnx_cast::DataType;
use onnx_cast_file::__private::PathText;
use onnx_cast_file::{Format, RunOptions, Storage, WriteOptions};
use onnx_cast_model::{
    Error, FoldRequest, FoldSummary, Folded, UpgradeRequest, UpgradeSummary, Upgraded, is_of_models,
};
use onnx_cast_report::{column, fold_json, printable, upgrade_json};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

impl StorageArgs {
    pub(crate) fn storage(&self) -> Storage {
        Storage::default().external_data(self.external_data.clone()).external_threshold(self.external_threshold)
    }
}

/// A command from a model to a model.
pub(crate) struct ModelJob<'a> {
    files: &'a ModelArgs,
    common: &'a Common,
    dry_run: bool,
    start: Instant,
}

/// What was done with a model, as it is shown.
pub(crate) trait Shown {
    fn json(&self, input: &Path, output: &Path, dry_run: bool) -> Value;

    /// The numbers.
    fn counts(&self) -> String;

    /// A line for each thing that is done.
    fn plan(&self) -> String;
}

impl<'a> ModelJob<'a> {
    /// Refuses files that are not models.
    pub(crate) fn new(command: &str, files: &'a ModelArgs, dry_run: bool, common: &'a Common) -> Result<Self> {
        let start = Instant::now();
        if files.input.is_dir() {
            let path = PathText(&files.input);
            bail!("{path}: a folder: {command} takes a model (.onnx); `cast` changes the type of a checkpoint");
        }
        if !is_of_models(&files.input, &files.output)? {
            let is_read = Format::of_input(&files.input)? == Format::Onnx;
            let path = PathText(if is_read { &files.output } else { &files.input });
            bail!("{path}: {command} takes a model (.onnx)");
        }
        Ok(ModelJob { files, common, dry_run, start })
    }

    /// Does the work, with a bar.
    pub(crate) fn run<S>(
        &self,
        &WriteArgs { force, .. }: &WriteArgs,
        work: impl FnOnce(&'a Path, &'a Path, RunOptions) -> Result<S, Error>,
    ) -> Result<S, Error> {
        let progress = Progress::start(self.common);
        let run = RunOptions::new()
            .threads(self.common.threads)
            .write(WriteOptions::default().force(force.force))
            .dry_run(self.dry_run)
            .watch(progress.watch());
        work(&self.files.input, &self.files.output, run)
    }

    /// Prints what was done, or would be.
    pub(crate) fn show(&self, done: &impl Shown) -> Result<()> {
        let ModelJob { files: ModelArgs { input, output, .. }, common, dry_run, start } = self;
        let plan = || done.plan() + "total: " + &done.counts() + "\n";
        if common.json {
            return Ok(print(&pretty(&with_written(done.json(input, output, *dry_run), !*dry_run))?)?);
        }
        if *dry_run {
            return Ok(print(&plan())?);
        }
        if !common.quiet {
            let (input, output, time) = (PathText(input), PathText(output), start.elapsed().as_secs_f64());
            // An error of the standard error does not undo the work.
            let _ = writeln!(io::stderr(), "{input} -> {output}: {}, {time:.2} s", done.counts());
            if common.verbose {
                let _ = io::stderr().write_all(plan().as_bytes());
            }
        }
        Ok(())
    }
}

pub(crate) fn fold(args: &FoldArgs, common: &Common) -> Result<()> {
    let &FoldArgs { ref model, ref names, dequantize, dry_run, ref write } = args;
    let job = ModelJob::new("fold", model, dry_run, common)?;
    let NameArgs { include, exclude } = names;
    job.show(&job.run(write, |input, output, run| {
        let (include, exclude, storage) = (include.clone(), exclude.clone(), write.storage.storage());
        let request =
            FoldRequest::default().include(include).exclude(exclude).dequantize(dequantize).storage(storage).run(run);
        onnx_cast_model::fold(input, output, &request)
    })?)
}

impl Shown for FoldSummary {
    fn json(&self, input: &Path, output: &Path, dry_run: bool) -> Value {
        fold_json(input, output, dry_run, self)
    }

    fn counts(&self) -> String {
        let FoldSummary { computed, removed, joined, .. } = self;
        let what = if *computed == 1 { "cast of a constant" } else { "casts of constants" };
        format!("{computed} {what} computed, {removed} removed, {joined} joined")
    }

    fn plan(&self) -> String {
        let width = column(self.casts.iter().map(|cast| printable(&cast.output)), "value");
        let mut text = format!("{:width$}  {:8}  {:14}  {:14}  outcome\n", "value", "operator", "from", "to");
        for Folded { output, operator, from, to, outcome, .. } in &self.casts {
            let (output, [from, to]) =
                (printable(output), [from, to].map(|known| known.map_or("(unknown)", DataType::name)));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{output:width$}  {operator:8}  {from:14}  {to:14}  {outcome}");
        }
        text
    }
}

pub(crate) fn upgrade(args: &UpgradeArgs, common: &Common) -> Result<()> {
    let UpgradeArgs { model, opset, ir_version, dry_run, write } = args;
    let job = ModelJob::new("upgrade", model, *dry_run, common)?;
    job.show(&job.run(write, |input, output, run| {
        let request = UpgradeRequest::default().opset(*opset).ir_version(*ir_version);
        let request = request.storage(write.storage.storage()).run(run);
        onnx_cast_model::upgrade(input, output, &request)
    })?)
}

impl Shown for UpgradeSummary {
    fn json(&self, input: &Path, output: &Path, dry_run: bool) -> Value {
        upgrade_json(input, output, dry_run, self)
    }

    fn counts(&self) -> String {
        let UpgradeSummary { from, to, ir_from, ir_to, nodes, rewritten, unknown, .. } = self;
        let left = match &unknown[..] {
            [] => String::new(),
            names => {
                format!(", left as they are: operators that ONNX does not have ({})", printable(&names.join(", ")))
            }
        };
        match from == to && rewritten.is_empty() {
            true if ir_from != ir_to => format!("opset {to} already, ir_version {ir_from} to {ir_to}"),
            true => format!("opset {to} already, nothing rewritten"),
            false => format!("opset {from} to {to}, {} of {nodes} nodes rewritten{left}", rewritten.len()),
        }
    }

    fn plan(&self) -> String {
        let row = |Upgraded { graph, node, operator, from, to, what, .. }: &Upgraded| {
            let within = if graph.is_empty() { String::new() } else { format!(" in {graph}") };
            let (node, what) = (printable(&(node.clone() + &within)), printable(&what.join(", ")));
            format!("{node}: {operator}-{to} from version {from}: {what}\n")
        };
        self.rewritten.iter().map(row).collect()
    }
}
