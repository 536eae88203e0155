//! `cast` on models, and `fold`.

use crate::args::{CastArgs, FoldArgs, StorageArgs};
use crate::progress::Progress;
use crate::{outcome, pretty, print};
use anyhow::{Result, bail};
use onnx_cast::{CastOptions, DataType};
use onnx_cast_file::{Format, Storage};
use onnx_cast_model::{FoldSummary, Folded, ModelCast, ModelFold, cast_model, fold_model};
use onnx_cast_report::printable;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Instant;

/// Constants of fewer elements are epsilons, scales and axes, which lose more by rounding than a file gains.
pub(crate) const MIN_SIZE: u64 = 256;

impl StorageArgs {
    fn storage(&self) -> Storage {
        Storage { external_data: self.external_data.clone(), threshold: self.external_threshold }
    }
}

pub(crate) fn cast(args: &CastArgs) -> Result<u8> {
    let start = Instant::now();
    let shown = args.files.input.display();
    if args.attributes.opset.is_some() {
        bail!("{shown}: a model tells its opset itself (--raise-opset raises it where the target needs that)");
    }
    if args.files.from.is_some() || args.files.shape.is_some() || args.files.npy_plain {
        bail!("{shown}: --from, --shape and --npy-plain are not for models");
    }
    if args.files.resume {
        bail!("{shown}: --resume is for checkpoints of several files (a model is written whole or not at all)");
    }
    let selection = args.selection.selection(MIN_SIZE)?;
    let select = |name: &str, from: DataType, elements: usize| {
        // Integer constants are shapes, axes and indices: they are cast where a rule names them, or not at all.
        let to = selection.target(name, from, elements as u64);
        to.filter(|_| from.is_float() || selection.rules.iter().any(|rule| rule.pattern.matches(name)))
    };
    let progress = Progress::start(!args.files.quiet && !args.report.json);
    let request = ModelCast {
        options: args.attributes.options().opset(CastOptions::default().opset),
        raise_opset: args.raise_opset,
        dry_run: args.report.dry_run,
        storage: args.storage.storage(),
        count: args.report.stats,
        fail_on: args.report.fail_on.clone(),
        watch: progress.watch(),
        ..ModelCast::new(&select)
    };
    let done = cast_model(&args.files.input, &args.files.output, &request);
    drop(progress);
    outcome::finish(&args.files, &args.report, done, start)
}

pub(crate) fn fold(args: &FoldArgs) -> Result<()> {
    let start = Instant::now();
    for path in [&args.input, &args.output] {
        if Format::from_path(path)? != Format::Onnx {
            bail!("{}: fold takes a model (.onnx)", path.display());
        }
    }
    let progress = Progress::start(!args.quiet && !args.json);
    let request = ModelFold {
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        dry_run: args.dry_run,
        storage: args.storage.storage(),
        watch: progress.watch(),
    };
    let done = fold_model(&args.input, &args.output, &request)?;
    drop(progress);
    if args.json {
        return Ok(print(&pretty(&fold_json(args, &done))?)?);
    }
    if args.dry_run {
        return Ok(print(&fold_plan(&done))?);
    }
    if !args.quiet {
        let (input, output, time) = (args.input.display(), args.output.display(), start.elapsed().as_secs_f64());
        // The work is done whether or not anybody can be told.
        let _ = writeln!(io::stderr(), "{input} -> {output}: {}, {time:.2} s", fold_counts(&done));
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
pub(crate) fn refuse_options(args: &CastArgs) -> Result<()> {
    let StorageArgs { external_data, external_threshold } = &args.storage;
    let given = [
        ("--raise-opset", args.raise_opset),
        ("--external-data", external_data.is_some()),
        ("--external-threshold", external_threshold.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => bail!("{}: {option} is for models (.onnx to .onnx)", args.files.input.display()),
        None => Ok(()),
    }
}
