//! `cast` on models, and `fold`.

use crate::args::{CastArgs, FoldArgs, StorageArgs};
use crate::convert;
use anyhow::{Result, bail};
use onnx_cast::{CastOptions, DataType};
use onnx_cast_file::{FoldSummary, Format, ModelCast, Storage, cast_model, fold_model};
use std::io::{self, Write};
use std::time::Instant;

/// Constants of fewer elements are epsilons, scales and axes, which lose more by rounding than a file gains.
const MIN_SIZE: u64 = 256;

impl StorageArgs {
    fn storage(&self) -> Storage {
        Storage { external_data: self.external_data.clone(), threshold: self.external_threshold }
    }
}

pub(crate) fn cast(args: &CastArgs) -> Result<()> {
    let start = Instant::now();
    let shown = args.files.input.display();
    if args.attributes.opset.is_some() {
        bail!("{shown}: a model tells its opset itself (--raise-opset raises it where the target needs that)");
    }
    if args.files.from.is_some() || args.files.shape.is_some() || args.files.npy_plain {
        bail!("{shown}: --from, --shape and --npy-plain are not for models");
    }
    if args.report.stats || !args.report.fail_on.is_empty() {
        bail!("{shown}: --stats and --fail-on are not for models");
    }
    if args.files.resume {
        bail!("{shown}: --resume is for checkpoints of several files");
    }
    let selection = args.selection.selection(MIN_SIZE)?;
    let select = |name: &str, from: DataType, elements: usize| {
        // Integer constants are shapes, axes and indices: they are cast where a rule names them, or not at all.
        let to = selection.target(name, from, elements as u64);
        to.filter(|_| from.is_float() || selection.rules.iter().any(|rule| rule.pattern.matches(name)))
    };
    let request = ModelCast {
        select: &select,
        options: CastOptions { opset: CastOptions::default().opset, ..args.attributes.options() },
        raise_opset: args.raise_opset,
        dry_run: args.report.dry_run,
        storage: args.storage.storage(),
    };
    let done = cast_model(&args.files.input, &args.files.output, &request)?;
    convert::tell(&args.files, &args.report, &done, start)
}

pub(crate) fn fold(args: &FoldArgs) -> Result<()> {
    let start = Instant::now();
    for path in [&args.input, &args.output] {
        if Format::from_path(path)? != Format::Onnx {
            bail!("{}: fold takes a model (.onnx)", path.display());
        }
    }
    let FoldSummary { computed, removed, joined, .. } = fold_model(&args.input, &args.output, &args.storage.storage())?;
    if !args.quiet {
        let (input, output, time) = (args.input.display(), args.output.display(), start.elapsed().as_secs_f64());
        let what = if computed == 1 { "cast of a constant" } else { "casts of constants" };
        let casts = format!("{computed} {what} computed, {removed} removed, {joined} joined");
        // The work is done whether or not anybody can be told.
        let _ = writeln!(io::stderr(), "{input} -> {output}: {casts}, {time:.2} s");
    }
    Ok(())
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
