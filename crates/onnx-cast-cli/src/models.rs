//! `fold` and `upgrade`.

use crate::args::{Common, FoldArgs, NameArgs, StorageArgs, UpgradeArgs};
use crate::progress::Progress;
use crate::{pretty, print, select};
use anyhow::{Result, bail};
use onnx_cast::DataType;
use onnx_cast_file::{Format, Storage};
use onnx_cast_model::{FoldRequest, FoldSummary, Folded, UpgradeRequest, UpgradeSummary, Upgraded};
use onnx_cast_report::{fold_json, printable, upgrade_json};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

impl StorageArgs {
    pub(crate) fn storage(&self) -> Storage {
        Storage { external_data: self.external_data.clone(), threshold: self.external_threshold }
    }
}

pub(crate) fn fold(args: &FoldArgs, common: &Common) -> Result<()> {
    let start = Instant::now();
    want_models("fold", [&args.input, &args.output])?;
    let NameArgs { include, exclude } = &args.names;
    let plan = FoldRequest {
        include: include.clone(),
        exclude: exclude.clone(),
        operator: None,
        dry_run: true,
        no_clobber: args.no_clobber,
        storage: args.storage.storage(),
        threads: common.threads,
        watch: None,
    };
    let patterns = args.names.patterns();
    if !patterns.is_empty() {
        let every = FoldRequest { include: Vec::new(), exclude: Vec::new(), ..plan.clone() };
        let every = onnx_cast_model::fold(&args.input, &args.output, &every)?;
        select::check(&patterns, every.casts.iter().map(|cast| cast.output.as_str()))?;
    }
    let progress = Progress::start(common);
    let request = FoldRequest { dry_run: args.dry_run, watch: progress.watch(), ..plan };
    let done = onnx_cast_model::fold(&args.input, &args.output, &request)?;
    drop(progress);
    if common.json {
        return Ok(print(&pretty(&fold_json(&args.input, &args.output, args.dry_run, &done))?)?);
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

/// Refuses files that are no models.
fn want_models(command: &str, paths: [&Path; 2]) -> Result<()> {
    for path in paths {
        if Format::from_path(path)? != Format::Onnx {
            bail!("{}: {command} takes a model (.onnx)", path.display());
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

pub(crate) fn upgrade(args: &UpgradeArgs, common: &Common) -> Result<()> {
    let start = Instant::now();
    want_models("upgrade", [&args.input, &args.output])?;
    let progress = Progress::start(common);
    let request = UpgradeRequest {
        opset: Some(args.opset),
        dry_run: args.dry_run,
        no_clobber: args.no_clobber,
        storage: args.storage.storage(),
        threads: common.threads,
        watch: progress.watch(),
    };
    let done = onnx_cast_model::upgrade(&args.input, &args.output, &request)?;
    drop(progress);
    if common.json {
        return Ok(print(&pretty(&upgrade_json(&args.input, &args.output, args.dry_run, &done))?)?);
    }
    if args.dry_run {
        return Ok(print(&(upgrade_plan(&done) + "total: " + &upgrade_counts(&done) + "\n"))?);
    }
    if !common.quiet {
        let (input, output, time) = (args.input.display(), args.output.display(), start.elapsed().as_secs_f64());
        // The work is done whether or not anybody can be told.
        let _ = writeln!(io::stderr(), "{input} -> {output}: {}, {time:.2} s", upgrade_counts(&done));
        if common.verbose {
            let _ = io::stderr().write_all(upgrade_plan(&done).as_bytes());
        }
    }
    Ok(())
}

fn upgrade_counts(done: &UpgradeSummary) -> String {
    let UpgradeSummary { from, to, nodes, rewritten, .. } = done;
    match from == to && rewritten.is_empty() {
        true => format!("opset {to} already, nothing rewritten"),
        false => format!("opset {from} to {to}, {} of {nodes} nodes rewritten", rewritten.len()),
    }
}

/// A line for each node that is rewritten.
fn upgrade_plan(done: &UpgradeSummary) -> String {
    let mut text = String::new();
    for Upgraded { graph, node, operator, from, to, what, .. } in &done.rewritten {
        let within = if graph.is_empty() { String::new() } else { format!(" in {graph}") };
        // A String takes everything.
        let _ = writeln!(
            text,
            "{}: {operator}-{to} from version {from}: {}",
            printable(&(node.clone() + &within)),
            what.join(", ")
        );
    }
    text
}
