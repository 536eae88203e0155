//! `report`: what casts to several types would lose, before any is done; as tables, or as JSON.

mod page;
mod table;

use crate::args::SurveyArgs;
use crate::models::MIN_SIZE;
use crate::progress::Progress;
use crate::types::float_limits;
use crate::{pretty, print};
use anyhow::{Context, Result};
use onnx_cast::DataType;
use onnx_cast_file::{
    AtomicFile, Candidate, Concern, Format, Grade, Report, ReportRequest, TensorReport, Totals, report as survey,
};
use serde_json::{Map, Value, json};
use std::io::Write;

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
    let report = survey(&args.file, &request)?;
    drop(progress);
    if let Some(path) = &args.html {
        let title = args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy();
        let mut file = AtomicFile::create(path)?;
        let failed = || format!("{}: cannot write", path.display());
        file.write_all(page::page(&title, &report)?.as_bytes()).with_context(failed)?;
        file.commit()?;
    }
    if args.json {
        print(&pretty(&as_json(&report)?)?)?;
    } else {
        print(&table::text(&report, args.top))?;
    }
    Ok(())
}

fn as_json(report: &Report) -> Result<Value> {
    let types = report.to.iter().map(|&to| of_type(report, to)).collect::<Result<Vec<_>>>()?;
    Ok(json!({
        "types": types,
        "tensors": report.tensors.iter().map(tensor).collect::<Vec<_>>(),
        "others": report.others,
    }))
}

fn of_type(report: &Report, to: DataType) -> Result<Value> {
    let totals = report.totals(to);
    let Totals { tensors, bytes_before, bytes_after, mean_error, mean_relative_error, snr, .. } = totals;
    let grades = Grade::ALL.iter().zip(totals.grades).map(|(grade, count)| (grade.name().to_owned(), json!(count)));
    let concerns =
        Concern::ALL.iter().zip(totals.concerns).map(|(concern, count)| (concern.name().to_owned(), json!(count)));
    Ok(json!({
        "type": to.name(),
        "limits": float_limits(to)?.map(|(subnormal, normal, largest)| {
            json!({ "smallest_subnormal": subnormal, "smallest_normal": normal, "largest": largest })
        }),
        "tensors": tensors,
        "bytes_before": bytes_before,
        "bytes_after": bytes_after,
        "counts": crate::outcome::counts(&totals.counts),
        "mean_error": mean_error,
        "mean_relative_error": mean_relative_error,
        "snr": snr,
        "verdicts": grades.collect::<Map<_, _>>(),
        "concerns": concerns.collect::<Map<_, _>>(),
        "verdict": table::verdict(&totals),
    }))
}

fn tensor(tensor: &TensorReport) -> Value {
    json!({
        "name": tensor.name,
        "type": tensor.data_type.name(),
        "shape": tensor.shape,
        "bytes": tensor.bytes,
        "values": tensor.values,
        "zeros": tensor.zeros,
        "infinities": tensor.infinities,
        "nan": tensor.nan,
        "smallest": tensor.smallest,
        "largest": tensor.largest,
        "magnitudes": { "first": tensor.magnitudes.first, "counts": tensor.magnitudes.counts },
        "candidates": tensor.candidates.iter().map(candidate).collect::<Vec<_>>(),
    })
}

fn candidate(candidate: &Candidate) -> Value {
    let mut row = crate::outcome::counts(&candidate.counts);
    row["type"] = json!(candidate.to.name());
    row["bytes"] = json!(candidate.bytes);
    row["mean_error"] = json!(candidate.mean_error());
    row["mean_relative_error"] = json!(candidate.mean_relative_error());
    row["snr"] = json!(candidate.snr());
    row["error_by_power"] = json!(candidate.error_by_power);
    row["verdict"] = json!(candidate.grade().name());
    row["concerns"] = json!(candidate.concerns().iter().map(|concern| concern.name()).collect::<Vec<_>>());
    row
}
