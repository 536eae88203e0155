//! `cast` and `bitcast`: from file to file.

use crate::args::{BitCastArgs, CastArgs, FileArgs, ReportArgs, SelectionArgs};
use crate::progress::Progress;
use crate::{models, outcome};
use anyhow::{Result, bail};
use onnx_cast::CastOptions;
use onnx_cast_file::{CastRequest, FileError, Format, Summary, WriteOptions, bit_cast_file, cast_file};
use std::path::Path;
use std::time::Instant;

pub(crate) fn cast(args: &CastArgs) -> Result<u8> {
    let model = |path| Format::from_path(path).is_ok_and(|format| format == Format::Onnx);
    if model(&args.files.input) && model(&args.files.output) {
        return models::cast(args);
    }
    models::refuse_options(args)?;
    run(&args.files, &args.selection, &args.report, args.attributes.options(), cast_file)
}

pub(crate) fn bit_cast(args: &BitCastArgs) -> Result<u8> {
    if args.report.stats || !args.report.fail_on.is_empty() {
        bail!("--stats and --fail-on are for casts (bitcast keeps every bit)");
    }
    let options = CastOptions::new().opset(args.opset);
    run(&args.files, &args.selection, &args.report, options, bit_cast_file)
}

fn run<'a, F>(
    files: &'a FileArgs,
    selection: &SelectionArgs,
    report: &ReportArgs,
    options: CastOptions,
    convert: F,
) -> Result<u8>
where
    F: Fn(&'a Path, &'a Path, &CastRequest) -> Result<Summary, FileError>,
{
    let start = Instant::now();
    if files.output == Path::new("-") && (report.json || report.dry_run) {
        bail!("--json and --dry-run print to the standard output, where the output is to go");
    }
    let progress = Progress::start(!files.quiet && !report.json);
    let request = CastRequest {
        selection: selection.selection(0)?,
        options,
        from: files.from,
        shape: files.shape.clone(),
        write: WriteOptions { npy_plain: files.npy_plain },
        dry_run: report.dry_run,
        resume: files.resume,
        copy_others: !files.no_copy_others,
        count: report.stats,
        fail_on: report.fail_on.clone(),
        watch: progress.watch(),
    };
    let done = convert(&files.input, &files.output, &request);
    drop(progress);
    outcome::finish(files, report, done.map_err(Into::into), start)
}
