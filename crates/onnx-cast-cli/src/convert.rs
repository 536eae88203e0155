//! `cast` and `bitcast`: from file to file.

use crate::args::{BitCastArgs, CastArgs, FileArgs, ReportArgs, SelectionArgs};
use crate::progress::Progress;
use crate::{DIFFERENT, DONE, models, outcome, pretty, print};
use anyhow::{Result, bail};
use onnx_cast::CastOptions;
use onnx_cast_file::{FileCast, FileError, Format, Summary, WriteOptions, bit_cast_file, cast_file};
use std::io::{self, Write};
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
    F: Fn(&'a Path, &'a Path, &FileCast) -> Result<Summary, FileError>,
{
    let start = Instant::now();
    if files.output == Path::new("-") && (report.json || report.dry_run) {
        bail!("--json and --dry-run print to the standard output, where the output is to go");
    }
    let progress = Progress::start(!files.quiet && !report.json);
    let request = FileCast {
        selection: selection.selection(0)?,
        options,
        from: files.from,
        shape: files.shape.clone(),
        write: WriteOptions { npy_plain: files.npy_plain },
        dry_run: report.dry_run,
        resume: files.resume,
        count: report.stats,
        fail_on: report.fail_on.clone(),
        watch: progress.watch(),
    };
    let done = convert(&files.input, &files.output, &request);
    drop(progress);
    finish(files, report, done, start)
}

/// Says what was done, and how to exit.
pub(crate) fn finish(
    files: &FileArgs,
    report: &ReportArgs,
    result: Result<Summary, FileError>,
    start: Instant,
) -> Result<u8> {
    let (done, lost) = match result {
        Ok(done) => (done, None),
        Err(FileError::Loss { summary, .. }) if report.json => (*summary, Some(DIFFERENT)),
        Err(error @ FileError::Loss { .. }) => {
            let _ = writeln!(io::stderr(), "onnx-cast: {error}");
            return Ok(DIFFERENT);
        }
        Err(error) => return Err(error.into()),
    };
    tell(files, report, &done, start)?;
    Ok(lost.unwrap_or(DONE))
}

/// Says what was done, or would be, in the form that was asked for.
fn tell(files: &FileArgs, report: &ReportArgs, done: &Summary, start: Instant) -> Result<()> {
    if report.json {
        print(&pretty(&outcome::json(&files.input, &files.output, report.dry_run, done))?)?;
    } else if report.dry_run {
        print(&outcome::plan(done))?;
    } else if !files.quiet {
        let there = match done.already_there {
            0 => String::new(),
            1 => " (1 file was there already)".to_owned(),
            count => format!(" ({count} files were there already)"),
        };
        let shown = format!("{} -> {}{there}", files.input.display(), files.output.display());
        outcome::totals(done).say(&shown, &outcome::targets(done), start.elapsed());
    }
    if report.stats && !report.json && !files.quiet {
        let _ = io::stderr().write_all(outcome::losses(done).as_bytes());
    }
    Ok(())
}
