//! `cast` and `bitcast`: from file to file.

use crate::args::{BitCastArgs, CastArgs, FileArgs, ReportArgs, SelectionArgs};
use crate::{models, pretty, print, report};
use anyhow::Result;
use onnx_cast::CastOptions;
use onnx_cast_file::{FileCast, FileError, Format, Summary, WriteOptions, bit_cast_file, cast_file};
use std::path::Path;
use std::time::Instant;

pub(crate) fn cast(args: &CastArgs) -> Result<()> {
    let model = |path| Format::from_path(path).is_ok_and(|format| format == Format::Onnx);
    if model(&args.files.input) && model(&args.files.output) {
        return models::cast(args);
    }
    models::refuse_options(args)?;
    run(&args.files, &args.selection, &args.report, args.attributes.options(), cast_file)
}

pub(crate) fn bit_cast(args: &BitCastArgs) -> Result<()> {
    let options = CastOptions { opset: args.opset, ..CastOptions::default() };
    run(&args.files, &args.selection, &args.report, options, bit_cast_file)
}

fn run<'a, F>(
    files: &'a FileArgs,
    selection: &SelectionArgs,
    report: &ReportArgs,
    options: CastOptions,
    convert: F,
) -> Result<()>
where
    F: Fn(&'a Path, &'a Path, &FileCast) -> Result<Summary, FileError>,
{
    let start = Instant::now();
    let request = FileCast {
        selection: selection.selection(0)?,
        options,
        from: files.from,
        write: WriteOptions { npy_plain: files.npy_plain },
        dry_run: report.dry_run,
        resume: files.resume,
        watch: None,
    };
    let done = convert(&files.input, &files.output, &request)?;
    tell(files, report, &done, start)
}

/// Says what was done, or would be, in the form that was asked for.
pub(crate) fn tell(files: &FileArgs, report: &ReportArgs, done: &Summary, start: Instant) -> Result<()> {
    if report.json {
        print(&pretty(&report::json(&files.input, &files.output, report.dry_run, done))?)?;
    } else if report.dry_run {
        print(&report::plan(done))?;
    } else if !files.quiet {
        let there = match done.already_there {
            0 => String::new(),
            1 => " (1 file was there already)".to_owned(),
            count => format!(" ({count} files were there already)"),
        };
        let shown = format!("{} -> {}{there}", files.input.display(), files.output.display());
        report::totals(done).say(&shown, &report::targets(done), start.elapsed());
    }
    Ok(())
}
