//! `convert`.

use crate::args::{Common, ConvertArgs};
use crate::progress::Progress;
use crate::{pretty, print, write_page};
use anyhow::{Result, bail};
use onnx_cast_file::Format;
use onnx_cast_file::io::atomic::check_vacant;
use onnx_cast_model::{ConvertRequest, ConvertSummary, NodeDecision, read_ranges};
use onnx_cast_report::{convert_json, convert_page, printable};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Instant;

pub(crate) fn convert(args: &ConvertArgs, common: &Common) -> Result<()> {
    let start = Instant::now();
    for path in [&args.input, &args.output] {
        if Format::from_path(path)? != Format::Onnx {
            bail!("{}: convert takes a model (.onnx)", path.display());
        }
    }
    if let Some(html) = args.html.as_ref().filter(|_| args.no_clobber) {
        check_vacant(html)?;
    }
    let progress = Progress::start(common);
    let dry_run = args.dry_run || !args.explain.is_empty();
    let mut request = ConvertRequest::new(args.to);
    request.interface = args.interface();
    request.keep.clone_from(&args.keep);
    request.low.clone_from(&args.low);
    request.raise_opset = args.raise_opset;
    if let Some(path) = &args.ranges {
        request.ranges = read_ranges(path)?;
    }
    request.margin = args.margin;
    request.emulate = args.emulate;
    request.explain.clone_from(&args.explain);
    request.dry_run = dry_run;
    request.no_clobber = args.no_clobber;
    request.storage = args.storage.storage();
    request.threads = common.threads;
    request.watch = progress.watch();
    let done = onnx_cast_model::convert(&args.input, &args.output, &request)?;
    drop(progress);
    if let Some(html) = &args.html {
        let title = args.input.file_name().unwrap_or(args.input.as_os_str()).to_string_lossy();
        write_page(html, &convert_page(&title, &done, &request.ranges, request.margin)?, args.no_clobber)?;
    }
    if !common.quiet && !common.json {
        tell_unknown(args, request.ranges.len(), done.unknown_ranges);
    }
    if common.json {
        return Ok(print(&pretty(&convert_json(&args.input, &args.output, dry_run, &done))?)?);
    }
    if !args.explain.is_empty() {
        return Ok(print(&done.explained.concat())?);
    }
    if dry_run {
        return Ok(print(&plan(&done))?);
    }
    if !common.quiet {
        if let Some(opset) = done.raise_to {
            let to = done.to;
            let _ = writeln!(io::stderr(), "more operators take {to} from opset {opset} on (--raise-opset raises it)");
        }
        let (input, output, time) = (args.input.display(), args.output.display(), start.elapsed().as_secs_f64());
        // The work is done whether or not anybody can be told.
        let _ = writeln!(io::stderr(), "{input} -> {output}: {}, {time:.2} s", counts(&done));
        if common.verbose {
            let _ = io::stderr().write_all(plan(&done).as_bytes());
        }
    }
    Ok(())
}

/// Says how many names of a file of ranges are none of the model's.
fn tell_unknown(args: &ConvertArgs, all: usize, unknown: usize) {
    if let Some(path) = args.ranges.as_ref().filter(|_| unknown > 0) {
        let path = path.display();
        // The work is done whether or not anybody can be told.
        let _ = writeln!(io::stderr(), "{path}: {unknown} of {all} names are no floating-point values of the model");
    }
}

fn counts(done: &ConvertSummary) -> String {
    let ConvertSummary { to, nodes, casts, constants, twice, .. } = done;
    let low = nodes.iter().filter(|node| node.low).count();
    let twice = if *twice == 0 { String::new() } else { format!(" ({twice} also in float)") };
    format!("{low} of {} nodes in {to}, {casts} Casts, {constants} constants stored in {to}{twice}", nodes.len())
}

/// A line for each node, and the numbers.
fn plan(done: &ConvertSummary) -> String {
    let label = |node: &NodeDecision| {
        let around = if node.graph.is_empty() { String::new() } else { format!("{}/", node.graph) };
        printable(&format!("{around}{}", node.node))
    };
    let width = done.nodes.iter().map(|node| label(node).chars().count()).max().unwrap_or(0).max(4);
    let operators = done.nodes.iter().map(|node| printable(&node.operator).chars().count()).max().unwrap_or(0).max(8);
    let mut text = format!("{:width$}  {:operators$}  {:8}  why\n", "node", "operator", "type");
    for node in &done.nodes {
        let of_type = if node.low { done.to.name() } else { "float" };
        let (name, operator) = (label(node), printable(&node.operator));
        // A String takes everything.
        let _ = writeln!(text, "{name:width$}  {operator:operators$}  {of_type:8}  {}", printable(&node.why));
    }
    text + "total: " + &counts(done) + "\n"
}
