//! `report`: what casts to several types would lose, before any is done; as tables, as JSON, or as a page.

use crate::args::{Common, NameArgs, ReportArgs};
use crate::outcome::warn_ignored;
use crate::progress::Progress;
use crate::{Page, pretty, print};
use anyhow::Result;
use onnx_cast_file::{CandidateFormat, ReportRequest};
use onnx_cast_report::{json, page, text};

/// Rows of a table, unless the caller says how many.
const TOP: usize = 20;

pub(crate) fn report(args: &ReportArgs, common: &Common) -> Result<()> {
    let prints_tables = !(common.json || common.quiet && args.html.is_some());
    let (path, NameArgs { include, exclude }) = (&args.file.path, &args.names);
    let started = args.html.as_ref().map(|html| Page::start(html, args.force.existing())).transpose()?;
    let progress = Progress::start(common);
    let mut to: Vec<CandidateFormat> = Vec::new();
    for &candidate in &args.to {
        if !to.contains(&candidate) {
            to.push(candidate);
        }
    }
    let request = ReportRequest::default()
        .to(to)
        .scale_rule(args.scale_rule)
        .layout(args.layout)
        .include(include.clone())
        .exclude(exclude.clone())
        .min_elements(args.min_elements)
        .options(args.attributes.options().threads(common.threads))
        .from(args.file.from.clone())
        .in_format(args.file.in_format)
        .watch(progress.watch());
    let report = onnx_cast_model::report(path, &request)?;
    drop(progress);
    if !common.json && !common.quiet {
        warn_ignored(&report.ignored, path, common);
    }
    if let Some(started) = started {
        let title = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        started.write(&page(&title, &report)?)?;
    }
    if common.json {
        print(&pretty(&json(&report)?)?)?;
    } else if prints_tables {
        print(&text(&report, args.top.unwrap_or(TOP), "--top"))?;
    }
    Ok(())
}
