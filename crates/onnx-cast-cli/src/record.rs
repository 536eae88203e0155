//! `record`.

use crate::args::{Common, NameArgs, RecordArgs};
use crate::progress::Progress;
use crate::{pretty, print, select};
use anyhow::{Result, bail};
use onnx_cast_file::Format;
use onnx_cast_model::{RecordRequest, RecordSummary, RecordedValue};
use onnx_cast_report::{printable, record_json};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Instant;

pub(crate) fn record(args: &RecordArgs, common: &Common) -> Result<()> {
    let start = Instant::now();
    for path in [&args.input, &args.output] {
        if Format::from_path(path)? != Format::Onnx {
            bail!("{}: record takes a model (.onnx)", path.display());
        }
    }
    let NameArgs { include, exclude } = &args.names;
    let plan = RecordRequest {
        include: include.clone(),
        exclude: exclude.clone(),
        dry_run: true,
        no_clobber: args.no_clobber,
        storage: args.storage.storage(),
        threads: common.threads,
        watch: None,
    };
    let patterns = args.names.patterns();
    if !patterns.is_empty() {
        let every = RecordRequest { include: Vec::new(), exclude: Vec::new(), ..plan.clone() };
        let every = onnx_cast_model::record(&args.input, &args.output, &every)?;
        select::check(&patterns, every.values.iter().map(|value| value.name.as_str()))?;
    }
    let progress = Progress::start(common);
    let request = RecordRequest { dry_run: args.dry_run, watch: progress.watch(), ..plan };
    let done = onnx_cast_model::record(&args.input, &args.output, &request)?;
    drop(progress);
    if common.json {
        return Ok(print(&pretty(&record_json(&args.input, &args.output, args.dry_run, &done))?)?);
    }
    if args.dry_run {
        return Ok(print(&values(&done))?);
    }
    if !common.quiet {
        let (input, output, time) = (args.input.display(), args.output.display(), start.elapsed().as_secs_f64());
        // The work is done whether or not anybody can be told.
        let _ = writeln!(io::stderr(), "{input} -> {output}: {}, {time:.2} s", counts(&done));
        if common.verbose {
            let _ = io::stderr().write_all(values(&done).as_bytes());
        }
    }
    Ok(())
}

fn counts(done: &RecordSummary) -> String {
    let RecordSummary { values, inner, .. } = done;
    let left =
        if *inner == 0 { String::new() } else { format!(" ({inner} in branches, loops and functions left out)") };
    format!("{} values recorded{left}", values.len())
}

/// A line for each value, and the numbers.
fn values(done: &RecordSummary) -> String {
    let width = done.values.iter().map(|value| printable(&value.name).chars().count()).max().unwrap_or(0).max(5);
    let mut text = format!("{:width$}  {:8}  output\n", "value", "type");
    for RecordedValue { name, data_type, output, .. } in &done.values {
        let (name, output) = (printable(name), printable(output));
        // A String takes everything.
        let _ = writeln!(text, "{name:width$}  {:8}  {output}", data_type.name());
    }
    text + "total: " + &counts(done) + "\n"
}
