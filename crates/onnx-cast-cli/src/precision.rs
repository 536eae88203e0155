//! `convert`.

use crate::args::{Common, ConvertArgs};
use crate::models::{ModelJob, Shown};
use crate::outcome::warn_ignored;
use crate::{Page, print};
use anyhow::Result;
use onnx_cast::DataType;
use onnx_cast_file::__private::{Lines, PathText};
use onnx_cast_model::{ConvertRequest, ConvertSummary, NodeDecision, read_ranges};
use onnx_cast_report::{column, convert_json, convert_page, printable};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

pub(crate) fn convert(args: &ConvertArgs, common: &Common) -> Result<()> {
    let ConvertArgs { model, write, html, explain, .. } = args;
    let dry_run = args.dry_run || !explain.is_empty();
    let job = ModelJob::new("convert", model, dry_run, common)?;
    let page = html.as_ref().map(|html| Page::start(html, write.force.existing())).transpose()?;
    let mut request = ConvertRequest::new(args.to);
    request.io = args.interface();
    request.keep.clone_from(&args.keep);
    request.low.clone_from(&args.low);
    request.raise_opset = args.raise_opset;
    if let Some(path) = &args.ranges {
        request.ranges = read_ranges(path)?;
    }
    request.margin = args.margin;
    request.emulate = args.emulate;
    request.explain.clone_from(explain);
    request.storage = write.storage.storage();
    let done = job.run(write, |input, output, run| {
        request.run = run;
        onnx_cast_model::convert(input, output, &request)
    })?;
    if let Some(page) = page.filter(|_| !dry_run) {
        let title = model.input.file_name().unwrap_or(model.input.as_os_str()).to_string_lossy();
        page.write(&convert_page(&title, &done, &request.ranges, request.margin)?)?;
    }
    if common.json {
        return job.show(&done);
    }
    if !common.quiet {
        tell_unknown(args, request.ranges.len(), done.unknown_ranges);
        warn_ignored(&done.ignored, &model.input, common);
    }
    if !explain.is_empty() {
        return Ok(print(&Lines(&done.explained.concat()).to_string())?);
    }
    if let Some(opset) = done.raise_to.filter(|_| !dry_run && !common.quiet) {
        let to = done.to;
        let _ = writeln!(io::stderr(), "more operators take {to} from opset {opset} on (--raise-opset raises it)");
    }
    job.show(&done)?;
    match done.nothing_narrow() {
        _ if common.quiet => {}
        Some(nothing) => drop(writeln!(io::stderr(), "{}", printable(&nothing))),
        None if !dry_run && !args.emulate && args.to != DataType::Float => tell_not_verified(args, &done),
        None => {}
    }
    Ok(())
}

/// Prints that nothing was run, and what to run.
fn tell_not_verified(args: &ConvertArgs, done: &ConvertSummary) {
    let overflow = match args.ranges {
        None => "; `onnx-cast record` finds what overflows, for --ranges",
        Some(_) => "",
    };
    let run = "`python -m onnx_cast convert` runs both models, or compare the outputs of one that --emulate writes";
    // An error of the standard error does not undo the work.
    let _ = writeln!(io::stderr(), "not verified: {}: {run}{overflow}", done.not_verified());
}

/// Prints how many names of a file of ranges are not in the model.
fn tell_unknown(args: &ConvertArgs, all: usize, unknown: usize) {
    if let Some(path) = args.ranges.as_ref().filter(|_| unknown > 0) {
        let path = PathText(path);
        // An error of the standard error does not undo the work.
        let _ = writeln!(io::stderr(), "{path}: {unknown} of {all} names are not floating-point values of the model");
    }
}

impl Shown for ConvertSummary {
    fn json(&self, input: &Path, output: &Path, dry_run: bool) -> Value {
        convert_json(input, output, dry_run, self)
    }

    fn counts(&self) -> String {
        let ConvertSummary { to, nodes, casts, constants, twice, .. } = self;
        let low = nodes.iter().filter(|node| node.low).count();
        let twice = if *twice == 0 { String::new() } else { format!(" ({twice} also in {})", self.kept_types()) };
        format!("{low} of {} nodes in {to}, {casts} Casts, {constants} constants stored in {to}{twice}", nodes.len())
    }

    fn plan(&self) -> String {
        let label = |node: &NodeDecision| {
            let around = if node.graph.is_empty() { String::new() } else { format!("{}/", node.graph) };
            printable(&format!("{around}{}", node.node))
        };
        let width = column(self.nodes.iter().map(label), "node");
        let operators = column(self.nodes.iter().map(|node| printable(&node.operator)), "operator");
        let mut text = format!("{:width$}  {:operators$}  {:8}  why\n", "node", "operator", "type");
        for node in &self.nodes {
            let of_type = node.data_type.name();
            let (name, operator) = (label(node), printable(&node.operator));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:width$}  {operator:operators$}  {of_type:8}  {}", printable(&node.why));
        }
        text
    }
}
