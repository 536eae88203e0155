//! What was done with a file, or would be: a line on the standard error, a plan, or JSON.

use crate::args::{Common, JobArgs};
use crate::summary::{Amount, Summary};
use crate::{DIFFERENT, DONE, print, with_options};
use anyhow::Result;
use onnx_cast::__private::Count;
use onnx_cast::tensor::element_count;
use onnx_cast_file::__private::{PathText, named};
use onnx_cast_file::{Counts, FileError, Ignored, Summary as Done};
use onnx_cast_model::Error;
use onnx_cast_report::{cast_json, column, printable, size};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is asked for, and how it is shown.
pub(crate) struct Job<'a> {
    pub(crate) files: &'a [PathBuf],
    pub(crate) job: &'a JobArgs,
    pub(crate) common: &'a Common,
    pub(crate) losses: bool,
}

/// The exit code, and what was done as JSON where that is asked for.
pub(crate) type Outcome = (u8, Option<Value>);

/// Prints what was done, or would be, but for JSON.
pub(crate) fn finish(
    job: &Job<'_>,
    input: &Path,
    output: &Path,
    result: Result<Done, Error>,
    start: Instant,
) -> Result<Outcome> {
    let as_json = |done: &Done, written| Some(with_written(cast_json(input, output, job.job.dry_run, done), written));
    match result {
        Ok(done) if job.common.json => Ok((DONE, as_json(&done, !job.job.dry_run))),
        Ok(done) => tell(job, input, output, &done, start).map(|()| (DONE, None)),
        Err(Error::File { error: FileError::Loss { summary, .. } }) if job.common.json => {
            Ok((DIFFERENT, as_json(&summary, false)))
        }
        Err(Error::File { error: error @ FileError::Loss { .. } }) => {
            let _ = writeln!(io::stderr(), "onnx-cast: {error}");
            Ok((DIFFERENT, None))
        }
        Err(error) => Err(error.into()),
    }
}

/// What was done, and whether the output is there.
pub(crate) fn with_written(mut done: Value, written: bool) -> Value {
    done["written"] = written.into();
    done
}

fn tell(job: &Job<'_>, input: &Path, output: &Path, done: &Done, start: Instant) -> Result<()> {
    let quiet = job.common.quiet;
    if job.job.dry_run {
        print(&plan(done))?;
    } else if !quiet {
        let there = match done.already_there {
            0 => String::new(),
            1 => " (1 file was there already)".to_owned(),
            count => format!(" ({count} files were there already)"),
        };
        let others = others(done).map_or(String::new(), |others| format!(", {others} copied"));
        let shown = format!("{} -> {}{there}{others}", PathText(input), PathText(output));
        match quantized(done) {
            Some(quantized) => totals(done).say_quantized(&shown, &quantized, start.elapsed()),
            None => totals(done).say(&shown, &targets(done), start.elapsed()),
        }
        for name in &done.kept_others {
            // An error of the standard error does not undo the work.
            let _ = writeln!(io::stderr(), "  {} was there with other content, and is kept", printable(name));
        }
        if let Some(removed) = removed(done) {
            let _ = writeln!(io::stderr(), "  removed from {}: {removed}", PathText(output));
        }
    }
    if let Some(warning) = done.warning().filter(|_| !quiet) {
        let _ =
            writeln!(io::stderr(), "onnx-cast: warning: {}: {}", PathText(input), with_options(&warning, job.common));
    }
    if !quiet {
        warn_ignored(&done.ignored, input, job.common);
    }
    if let Some(dropped) = done.dropped_text().filter(|_| !quiet) {
        let _ = writeln!(io::stderr(), "onnx-cast: note: {}: {dropped}", PathText(input));
    }
    let passed_over = (!done.passed_over.is_empty()).then(|| named(&done.passed_over));
    for kept in [done.kept_matrices(), passed_over].into_iter().flatten().filter(|_| !quiet) {
        let _ = writeln!(io::stderr(), "onnx-cast: note: {}: kept {kept}", PathText(input));
    }
    if !done.left_out.is_empty() && !quiet {
        let _ = writeln!(io::stderr(), "onnx-cast: warning: {}: left out {}", PathText(input), named(&done.left_out));
    }
    for note in done.notes.iter().filter(|_| !quiet) {
        let _ = writeln!(io::stderr(), "onnx-cast: note: {}: {note}", PathText(output));
    }
    let details = |wanted: bool, text: &dyn Fn(&Done) -> String| {
        if wanted && !quiet {
            let _ = io::stderr().write_all(text(done).as_bytes());
        }
    };
    details(job.common.verbose && !job.job.dry_run, &plan);
    details(job.losses, &losses);
    Ok(())
}

/// Names the options that had no effect.
pub(crate) fn warn_ignored(ignored: &[Ignored], input: &Path, common: &Common) {
    for option in ignored {
        let what = with_options(&option.wording(), common);
        let _ = writeln!(io::stderr(), "onnx-cast: warning: {}: {what}", PathText(input));
    }
}

/// How many other files of a folder go with it, if any do.
fn others(done: &Done) -> Option<String> {
    match done.copied {
        0 => None,
        1 => Some("1 other file".to_owned()),
        count => Some(format!("{count} other files")),
    }
}

/// The files of an earlier output that are removed, if any are.
fn removed(done: &Done) -> Option<String> {
    let names: Vec<String> = done.removed.iter().map(|name| printable(name).to_string()).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The sums over the tensors.
fn totals(done: &Done) -> Summary {
    let mut summary = Summary::default();
    for tensor in &done.tensors {
        let amount = Amount { tensors: 1, elements: element_count(&tensor.shape).unwrap_or(0) as u64 };
        if tensor.cast {
            summary.cast += amount;
        } else {
            summary.kept += amount;
        }
        summary.bytes_before += tensor.bytes_before;
        summary.bytes_after += tensor.bytes_after;
    }
    summary
}

/// Number of quantized matrices, of all matrices, and the formats. `None` if the job quantizes no weight.
fn quantized(done: &Done) -> Option<String> {
    let mut formats: Vec<String> = Vec::new();
    let (mut count, mut weights) = (0, 0);
    for (tensor, format) in done.tensors.iter().filter_map(|tensor| Some((tensor, tensor.quantized?.to_string()))) {
        count += 1;
        weights += tensor.bytes_before * 8 / tensor.from.bits().unwrap_or(8) as u64;
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    let kept = done.tensors.iter().filter(|tensor| tensor.reason.is_some()).count();
    let all = if count + kept == 1 { "1 matrix".to_owned() } else { format!("{} matrices", count + kept) };
    let part = if kept == 0 { all } else { format!("{count} of {all}") };
    (count > 0).then(|| format!("{part} ({weights} weights) quantized to {}", formats.join(", ")))
}

/// `to float16`, or all the types that tensors were cast to.
fn targets(done: &Done) -> String {
    let mut names: Vec<&str> = Vec::new();
    for tensor in done.tensors.iter().filter(|tensor| tensor.cast) {
        let name = tensor.block_type.unwrap_or(tensor.to.name());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if names.is_empty() { "cast".to_owned() } else { format!("to {}", names.join(", ")) }
}

/// A line for each tensor that was cast: what became of its values.
fn losses(done: &Done) -> String {
    let mut text = String::new();
    for tensor in &done.tensors {
        let Some(counts) = &tensor.counts else { continue };
        let Counts { values, overflowed, saturated, zero, subnormal, nan, became_nan, infinite, .. } = *counts;
        let Counts { max_error, max_relative_error, .. } = *counts;
        let noted = [
            (overflowed, "overflowed"),
            (saturated, "saturated"),
            (zero, "became zero"),
            (subnormal, "became subnormal"),
            (nan, "NaN"),
            (became_nan, "became NaN"),
            (infinite, "infinite"),
        ];
        let noted: Vec<String> =
            noted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}")).collect();
        let errors = if max_error > 0.0 {
            format!(", error at most {max_error:.6e}, relative {max_relative_error:.6e}")
        } else {
            ", no error".to_owned()
        };
        let _ = writeln!(text, "  {}: {}{}{errors}", printable(&tensor.name), Count(values, "value"), noted.concat());
    }
    text
}

/// The plan: a line for each tensor, and the total.
fn plan(done: &Done) -> String {
    let width = column(done.tensors.iter().map(|tensor| printable(&tensor.name)), "tensor");
    let mut text = format!("{:width$}  {:14}  {:14}  {:>12}  {:>12}\n", "tensor", "from", "to", "before", "after");
    for tensor in &done.tensors {
        let to = if tensor.cast { tensor.block_type.unwrap_or(tensor.to.name()) } else { "(kept)" };
        let (before, after) = (size(tensor.bytes_before), size(tensor.bytes_after));
        let reason = tensor.reason.as_ref().map_or(String::new(), |reason| format!("  {}", printable(reason)));
        // A String takes everything.
        let _ = writeln!(
            text,
            "{:width$}  {:14}  {to:14}  {before:>12}  {after:>12}{reason}",
            printable(&tensor.name),
            tensor.descr.as_ref().map_or_else(|| tensor.from.name().to_owned(), |descr| printable(descr))
        );
    }
    let Summary { cast, kept, bytes_before, bytes_after } = totals(done);
    let _ = writeln!(text, "total: {cast} cast, {kept} kept, {} -> {}", size(bytes_before), size(bytes_after));
    if let Some(others) = others(done) {
        let _ = writeln!(text, "{others} would be copied");
    }
    if let Some(removed) = removed(done) {
        let _ = writeln!(text, "{removed} would be removed");
    }
    text
}
