//! A report as JSON.

use crate::limits::float_limits;
use crate::text::verdict;
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::CastError;
use onnx_cast_file::{
    Alarms, Blocks, Candidate, CandidateFormat, Concern, Counts, Forecast, Grade, Ignored, Layout, Magnitudes, Ratios,
    Report, TensorReport, Totals,
};
use serde_json::{Map, Value, json};

/// Every figure, histograms included. What is infinite or NaN is `null`.
///
/// # Errors
/// Where the library does not cast a type to double.
pub fn json(report: &Report) -> Result<Value, CastError> {
    let _environment = DefaultEnvironment::enter();
    let types = report.to.iter().map(|&to| of_type(report, to)).collect::<Result<Vec<_>, _>>()?;
    let mut all = json!({
        "types": types,
        "tensors": report.tensors.iter().map(tensor).collect::<Vec<_>>(),
        "others": report.others,
    });
    if !report.dequantized.is_empty() {
        let weights = |(layout, count): &(Layout, usize)| json!({ "layout": layout.name(), "weights": count });
        all["dequantized"] = report.dequantized.iter().map(weights).collect();
    }
    if !report.ignored.is_empty() {
        all["ignored"] = ignored_json(&report.ignored);
    }
    Ok(all)
}

fn of_type(report: &Report, to: CandidateFormat) -> Result<Value, CastError> {
    let totals = report.totals(to);
    let Totals { tensors, bytes_before, bytes_after, mean_error, mean_relative_error, snr, .. } = totals;
    let grades = Grade::ALL.iter().zip(totals.grades).map(|(grade, count)| (grade.name().to_owned(), json!(count)));
    // Of scaled values the range depends on the scale.
    let limits = match to {
        CandidateFormat::Bare(to) => float_limits(to)?,
        _ => None,
    };
    let concerns =
        Concern::ALL.iter().zip(totals.concerns).map(|(concern, count)| (concern.name().to_owned(), json!(count)));
    Ok(json!({
        "type": to.to_string(),
        "limits": limits.map(|(subnormal, normal, largest)| {
            json!({ "smallest_subnormal": subnormal, "smallest_normal": normal, "largest": largest })
        }),
        "tensors": tensors,
        "bytes_before": bytes_before,
        "bytes_after": bytes_after,
        "counts": counts(&totals.counts),
        "mean_error": mean_error,
        "mean_relative_error": mean_relative_error,
        "snr": snr,
        "verdicts": grades.collect::<Map<_, _>>(),
        "concerns": concerns.collect::<Map<_, _>>(),
        "verdict": verdict(to, &totals),
        "blocks": totals.blocks.as_ref().map(blocks),
        "forecast": report.forecast(to).map(forecast),
    }))
}

/// What `quantize` would write.
fn forecast(forecast: &Forecast) -> Value {
    json!({
        "layout": forecast.layout.name(),
        "kept": forecast.kept.iter().map(|(name, why)| json!({"name": name, "why": why})).collect::<Vec<_>>(),
        "refused": forecast.refused,
    })
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
        "magnitudes": magnitudes(&tensor.magnitudes),
        "candidates": tensor.candidates.iter().map(candidate).collect::<Vec<_>>(),
    })
}

fn candidate(candidate: &Candidate) -> Value {
    let mut row = counts(&candidate.counts);
    row["type"] = json!(candidate.to.to_string());
    row["bytes"] = json!(candidate.bytes);
    row["mean_error"] = json!(candidate.mean_error());
    row["mean_relative_error"] = json!(candidate.mean_relative_error());
    row["snr"] = json!(candidate.snr());
    row["error_by_power"] = json!(candidate.error_by_power);
    row["verdict"] = json!(candidate.grade().name());
    row["blocks"] = json!(candidate.blocks.as_ref().map(blocks));
    row["concerns"] = json!(candidate.concerns().iter().map(|concern| concern.name()).collect::<Vec<_>>());
    row
}

fn magnitudes(Magnitudes { first, counts, .. }: &Magnitudes) -> Value {
    json!({ "first": first, "counts": counts })
}

/// Ratios by the dB that the first step begins at.
fn blocks(blocks: &Blocks) -> Value {
    let Ratios { first, counts, .. } = &blocks.snr;
    json!({
        "count": blocks.count,
        "zeros": blocks.zeros,
        "not_finite": blocks.not_finite,
        "exact": blocks.exact,
        "amax": magnitudes(&blocks.amax),
        "snr": { "first": first * Ratios::STEP, "step": Ratios::STEP, "counts": counts },
    })
}

/// Values that overflowed or are NaN.
pub(crate) fn alarms(alarms: &Alarms) -> Value {
    json!({
        "overflowed": alarms.overflowed,
        "saturated": alarms.saturated,
        "nan": alarms.nan,
        "became_nan": alarms.became_nan,
        "nan_scales": alarms.nan_scales,
    })
}

/// What became of values, and the largest errors.
pub fn counts(counts: &Counts) -> Value {
    let _environment = DefaultEnvironment::enter();
    let Counts { values, overflowed, saturated, zero, subnormal, nan, became_nan, infinite, .. } = *counts;
    json!({
        "values": values,
        "overflowed": overflowed,
        "saturated": saturated,
        "zero": zero,
        "subnormal": subnormal,
        "nan": nan,
        "became_nan": became_nan,
        "infinite": infinite,
        "max_error": counts.max_error,
        "max_relative_error": counts.max_relative_error,
    })
}

/// Options that had no effect.
pub(crate) fn ignored_json(ignored: &[Ignored]) -> Value {
    ignored.iter().map(|one| json!({ "option": one.option, "why": one.reason })).collect()
}
