//! `report`: what casts to several types would lose, before any is done; as tables, as JSON, or as a page.

use crate::args::SurveyArgs;
use crate::models::MIN_SIZE;
use crate::progress::Progress;
use crate::{pretty, print, write_page};
use anyhow::Result;
use onnx_cast::DataType;
use onnx_cast_file::{Format, ReportRequest};
use onnx_cast_report::{json, page, text};

pub(crate) fn report(args: &SurveyArgs) -> Result<()> {
    let model = Format::from_path(&args.file).is_ok_and(|format| format == Format::Onnx);
    let progress = Progress::start(!args.quiet && !args.json);
    let mut to: Vec<DataType> = Vec::new();
    for &candidate in &args.to {
        if !to.contains(&candidate) {
            to.push(candidate);
        }
    }
    let request = ReportRequest {
        to,
        include: args.include.clone(),
        exclude: args.exclude.clone(),
        min_size: args.min_size.unwrap_or(if model { MIN_SIZE } else { 0 }),
        options: args.attributes.options(),
        from: args.from,
        watch: progress.watch(),
    };
    let report = onnx_cast_model::report(&args.file, &request)?;
    drop(progress);
    if let Some(path) = &args.html {
        let title = args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy();
        write_page(path, &page(&title, &report)?)?;
    }
    if args.json {
        print(&pretty(&json(&report)?)?)?;
    } else {
        print(&text(&report, args.top))?;
    }
    Ok(())
}
