//! `cast` on models, and `fold`.

use crate::args::{CastArgs, Common, FoldArgs, NameArgs, StorageArgs};
use crate::outcome::{self, Job, Outcome};
use crate::progress::Progress;
use crate::{free, pretty, print, select};
use anyhow::{Result, bail};
use onnx_cast::{CastOptions, DataType};
use onnx_cast_file::{FoldSummary, Folded, Format, ModelCast, ModelFold, Storage, cast_model, fold_model};
use onnx_cast_report::printable;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

/// Constants of fewer elements are epsilons, scales and axes, which lose more by rounding than a file gains.
pub(crate) const MIN_SIZE: u64 = 256;

impl StorageArgs {
    fn storage(&self) -> Storage {
        Storage { external_data: self.external_data.clone(), threshold: self.external_threshold }
    }
}

/// Whether a path is that of a model.
pub(crate) fn is_model(path: &Path) -> bool {
    Format::from_path(path).is_ok_and(|format| format == Format::Onnx)
}

pub(crate) fn cast(args: &CastArgs, job: &Job<'_>, input: &Path, output: &Path) -> Result<Outcome> {
    let start = Instant::now();
    let shown = input.display();
    if args.attributes.opset.is_some() {
        bail!("{shown}: a model tells its opset itself (--raise-opset raises it where the target needs that)");
    }
    if args.files.from.is_some() || args.files.shape.is_some() || args.job.npy_plain {
        bail!("{shown}: --from, --shape and --npy-plain are not for models");
    }
    if args.job.resume {
        bail!("{shown}: --resume is for checkpoints of several files (a model is written whole or not at all)");
    }
    let selection = args.selection.selection(MIN_SIZE)?;
    let select = |name: &str, from: DataType, elements: usize| {
        // Integer constants are shapes, axes and indices: they are cast where a rule names them, or not at all.
        let to = selection.target(name, from, elements as u64);
        to.filter(|_| from.is_float() || selection.rules.iter().any(|rule| rule.pattern.matches(name)))
    };
    let plan = ModelCast {
        options: args.attributes.options().opset(CastOptions::default().opset).threads(job.common.threads),
        raise_opset: args.raise_opset,
        dry_run: true,
        storage: args.storage.storage(),
        ..ModelCast::new(&select)
    };
    if !args.selection.patterns().is_empty() {
        let plan = cast_model(input, output, &plan)?;
        select::check(&args.selection.patterns(), plan.tensors.iter().map(|row| row.name.as_str()))?;
    }
    let progress = Progress::start(job.common);
    let request = ModelCast {
        dry_run: args.job.dry_run,
        count: args.losses,
        fail_on: args.fail_on.clone(),
        watch: progress.watch(),
        ..plan
    };
    let done = cast_model(input, output, &request);
    drop(progress);
    outcome::finish(job, input, output, done, start)
}

pub(crate) fn fold(args: &FoldArgs, common: &Common) -> Result<()> {
    let start = Instant::now();
    for path in [&args.input, &args.output] {
        if Format::from_path(path)? != Format::Onnx {
            bail!("{}: fold takes a model (.onnx)", path.display());
        }
    }
    if args.no_clobber {
        free(&args.output)?;
    }
    let NameArgs { include, exclude } = &args.names;
    let (include, exclude, storage) = (include.clone(), exclude.clone(), args.storage.storage());
    let plan = ModelFold { include, exclude, dry_run: true, storage, watch: None };
    let patterns = args.names.patterns();
    if !patterns.is_empty() {
        let every = ModelFold { include: Vec::new(), exclude: Vec::new(), ..plan.clone() };
        let every = fold_model(&args.input, &args.output, &every)?;
        select::check(&patterns, every.casts.iter().map(|cast| cast.output.as_str()))?;
    }
    let progress = Progress::start(common);
    let request = ModelFold { dry_run: args.dry_run, watch: progress.watch(), ..plan };
    let done = fold_model(&args.input, &args.output, &request)?;
    drop(progress);
    if common.json {
        return Ok(print(&pretty(&fold_json(args, &done))?)?);
    }
    if args.dry_run {
        return Ok(print(&fold_plan(&done))?);
    }
    if !common.quiet {
        let (input, output, time) = (args.input.display(), args.output.display(), start.elapsed().as_secs_f64());
        // The work is done whether or not anybody can be told.
        let _ = writeln!(io::stderr(), "{input} -> {output}: {}, {time:.2} s", fold_counts(&done));
        if common.verbose {
            let _ = io::stderr().write_all(fold_plan(&done).as_bytes());
        }
    }
    Ok(())
}

fn fold_counts(done: &FoldSummary) -> String {
    let FoldSummary { computed, removed, joined, .. } = done;
    let what = if *computed == 1 { "cast of a constant" } else { "casts of constants" };
    format!("{computed} {what} computed, {removed} removed, {joined} joined")
}

/// A line for each Cast, and the numbers.
fn fold_plan(done: &FoldSummary) -> String {
    let width = done.casts.iter().map(|cast| printable(&cast.output).chars().count()).max().unwrap_or(0).max(5);
    let mut text = format!("{:width$}  {:8}  {:14}  {:14}  outcome\n", "value", "operator", "from", "to");
    for Folded { output, operator, from, to, outcome, .. } in &done.casts {
        let (output, [from, to]) =
            (printable(output), [from, to].map(|known| known.map_or("(unknown)", DataType::name)));
        // A String takes everything.
        let _ = writeln!(text, "{output:width$}  {operator:8}  {from:14}  {to:14}  {outcome}");
    }
    text + "total: " + &fold_counts(done) + "\n"
}

fn fold_json(args: &FoldArgs, done: &FoldSummary) -> Value {
    let cast = |Folded { output, operator, from, to, outcome, .. }: &Folded| {
        let [from, to] = [from, to].map(|known| known.map(DataType::name));
        json!({ "output": output, "operator": operator, "from": from, "to": to, "outcome": outcome.name() })
    };
    json!({
        "input": args.input.to_string_lossy(),
        "output": args.output.to_string_lossy(),
        "dry_run": args.dry_run,
        "computed": done.computed,
        "removed": done.removed,
        "joined": done.joined,
        "casts": done.casts.iter().map(cast).collect::<Vec<_>>(),
    })
}

/// Refuses the options that only a model has a use for.
pub(crate) fn refuse_options(args: &CastArgs, input: &Path) -> Result<()> {
    let StorageArgs { external_data, external_threshold } = &args.storage;
    let given = [
        ("--raise-opset", args.raise_opset),
        ("--external-data", external_data.is_some()),
        ("--external-threshold", external_threshold.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => bail!("{}: {option} is for models (.onnx to .onnx)", input.display()),
        None => Ok(()),
    }
}
