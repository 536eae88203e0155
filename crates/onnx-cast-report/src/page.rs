//! The page: one file with its style, its script, uPlot (in `vendor/`, with its licence) and the figures as compact
//! JSON. Only the selected tensor is drawn.

use crate::limits::{float_limits, largest_integer};
use crate::text::{measured, verdict, written};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::CastError;
use onnx_cast_explain::html::{BASE_STYLE, fill};
use onnx_cast_file::{Blocks, Candidate, CandidateFormat, Grade, Ratios, Report, TensorReport};
use serde_json::{Value, json};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const PLOTS: &str = include_str!("vendor/uPlot.iife.min.js");
const PLOTS_STYLE: &str = include_str!("vendor/uPlot.min.css");
const PLOTS_LICENCE: &str = include_str!("vendor/uPlot.LICENSE");

/// The page of a report, under a title: a whole HTML document that asks the network for nothing.
///
/// # Errors
/// Where the library does not cast a type to double.
pub fn page(title: &str, report: &Report) -> Result<String, CastError> {
    let _environment = DefaultEnvironment::enter();
    Ok(fill(
        PAGE,
        &[
            ("{{plots-licence}}", PLOTS_LICENCE.trim()),
            ("{{plots-style}}", PLOTS_STYLE),
            ("{{base-style}}", BASE_STYLE),
            ("{{style}}", STYLE),
            ("{{plots}}", PLOTS),
            ("{{script}}", SCRIPT),
            ("{{data}}", &page_data(title, report)?),
        ],
    ))
}

/// What differs between pages: the title and the figures as JSON, with nothing in it that looks like the end of a
/// script. The module for browsers gives this alone; the page around it is the same for all, and a file beside it.
///
/// # Errors
/// As [`page`].
pub fn page_data(title: &str, report: &Report) -> Result<String, CastError> {
    let _environment = DefaultEnvironment::enter();
    let types = report.to.iter().map(|&to| of_type(report, to)).collect::<Result<Vec<_>, _>>()?;
    let tensors: Vec<Value> = report.tensors.iter().map(|one| tensor(report, one)).collect();
    let data = json!({ "title": title, "types": types, "tensors": tensors, "others": report.others });
    Ok(data.to_string().replace('<', "\\u003c"))
}

fn of_type(report: &Report, to: CandidateFormat) -> Result<Value, CastError> {
    let totals = report.totals(to);
    let limits = match to {
        CandidateFormat::Bare(to) => match float_limits(to)? {
            Some((subnormal, normal, largest)) => json!([subnormal, normal, largest]),
            None => json!([null, 1.0, largest_integer(to)]),
        },
        // The range depends on the scale.
        _ => Value::Null,
    };
    let forecast = report.forecast(to).map_or(String::new(), written);
    let verdict = measured(report) + &forecast + &verdict(to, &totals);
    Ok(json!({
        "name": to.to_string(),
        "limits": limits,
        "before": totals.bytes_before,
        "after": totals.bytes_after,
        "verdict": verdict.lines().collect::<Vec<_>>(),
    }))
}

/// A row, as the script reads it.
fn tensor(report: &Report, tensor: &TensorReport) -> Value {
    let shape: Vec<String> = tensor.shape.iter().map(usize::to_string).collect();
    json!([
        tensor.name,
        tensor.data_type.name(),
        shape.join("x"),
        tensor.bytes,
        tensor.values,
        tensor.zeros,
        tensor.infinities,
        tensor.nan,
        tensor.smallest,
        tensor.largest,
        tensor.magnitudes.first,
        tensor.magnitudes.counts,
        tensor.candidates.iter().map(|one| candidate(report, one)).collect::<Vec<_>>(),
    ])
}

fn candidate(report: &Report, candidate: &Candidate) -> Value {
    let counts = &candidate.counts;
    json!([
        report.to.iter().position(|&to| to == candidate.to),
        Grade::ALL.iter().position(|&grade| grade == candidate.grade()),
        candidate.snr(),
        counts.overflowed,
        counts.saturated,
        counts.zero,
        counts.subnormal,
        counts.max_error,
        candidate.mean_error(),
        counts.max_relative_error,
        candidate.mean_relative_error(),
        candidate.bytes,
        candidate.error_by_power.iter().map(|&error| short(error)).collect::<Vec<_>>(),
        candidate.blocks.as_ref().map(blocks),
    ])
}

fn blocks(blocks: &Blocks) -> Value {
    json!([
        blocks.count,
        blocks.zeros,
        blocks.not_finite,
        blocks.exact,
        blocks.amax.first,
        blocks.amax.counts,
        blocks.snr.first * Ratios::STEP,
        Ratios::STEP,
        blocks.snr.counts,
    ])
}

/// An error to four digits, which is more than a plot shows.
fn short(error: f64) -> f64 {
    format!("{error:.3e}").parse().unwrap_or(error)
}
