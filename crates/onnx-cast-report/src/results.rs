//! What the jobs give, as JSON: what the command prints with `--json`, and what the Python package makes its results
//! of.

use crate::json::{alarms, counts, ignored_json};
use onnx_cast::__private::DefaultEnvironment;
use onnx_cast::DataType;
use onnx_cast_file::{
    Difference, Layout, Loading, Number, Quantized, QuantizedWeight, Summary, TensorInfo, TensorSummary, Values,
};
use onnx_cast_model::{
    CastInfo, ConvertSummary, FoldSummary, Folded, Inspection, ModelInfo, RecordSummary, RecordedValue, UpgradeSummary,
    Upgraded, ValueInfo,
};
use serde_json::{Map, Value, json};
use std::path::Path;

/// What a job from a file to a file did, or would do, with the fields that all of them have.
fn job(input: &Path, output: &Path, dry_run: bool, mut done: Value) -> Value {
    done["input"] = input.to_string_lossy().into();
    done["output"] = output.to_string_lossy().into();
    done["dry_run"] = dry_run.into();
    done
}

/// What a conversion did, or would do.
pub fn convert_json(input: &Path, output: &Path, dry_run: bool, done: &ConvertSummary) -> Value {
    let _environment = DefaultEnvironment::enter();
    let nodes = done.nodes.iter().map(|node| {
        json!({
            "graph": node.graph,
            "node": node.node,
            "operator": node.operator,
            "type": node.data_type.name(),
            "why": node.why,
        })
    });
    let values = done.values.iter().map(
        |value| json!({"graph": value.graph, "name": value.name, "type": value.data_type.name(), "cast": value.cast}),
    );
    let clamped = done.clamped.iter().map(|(name, numbers)| json!({"name": name, "numbers": numbers}));
    let done = json!({
        "to": done.to.name(),
        "raise_to": done.raise_to,
        "not_verified": done.not_verified(),
        "nothing_narrow": done.nothing_narrow(),
        "casts": done.casts,
        "constants": done.constants,
        "constants_twice": done.twice,
        "unknown_ranges": done.unknown_ranges,
        "ignored": ignored_json(&done.ignored),
        "clamped": clamped.collect::<Vec<_>>(),
        "explained": done.explained,
        "nodes": nodes.collect::<Vec<_>>(),
        "values": values.collect::<Vec<_>>(),
    });
    job(input, output, dry_run, done)
}

/// What `record` did, or would do.
pub fn record_json(input: &Path, output: &Path, dry_run: bool, done: &RecordSummary) -> Value {
    let _environment = DefaultEnvironment::enter();
    let value =
        |value: &RecordedValue| json!({"name": value.name, "type": value.data_type.name(), "output": value.output});
    let done = json!({
        "inner": done.inner,
        "values": done.values.iter().map(value).collect::<Vec<_>>(),
    });
    job(input, output, dry_run, done)
}

/// What a cast or bitcast did, or would do.
pub fn cast_json(input: &Path, output: &Path, dry_run: bool, done: &Summary) -> Value {
    let _environment = DefaultEnvironment::enter();
    let done = json!({
        "tensors": tensors_json(&done.tensors),
        "bytes_before": done.bytes_before(),
        "bytes_after": done.tensors.iter().map(|tensor| tensor.bytes_after).sum::<u64>(),
        "already_there": done.already_there,
        "copied": done.copied,
        "kept_others": done.kept_others,
        "removed": done.removed,
        "left_out": left_out_json(&done.left_out),
        "dropped": done.dropped,
        "passed_over": done.passed_over.iter().map(|(name, why)| json!({"name": name, "why": why})).collect::<Vec<_>>(),
        "warning": done.warning().map(|text| text.to_string()),
        "notes": done.notes,
        "ignored": ignored_json(&done.ignored),
    });
    job(input, output, dry_run, done)
}

/// What became of tensors.
pub fn tensors_json(tensors: &[TensorSummary]) -> Value {
    let _environment = DefaultEnvironment::enter();
    let row = |tensor: &TensorSummary| {
        json!({
            "name": tensor.name,
            "shape": tensor.shape,
            "from": tensor.descr.is_none().then(|| tensor.from.name()),
            "to": tensor.descr.is_none().then(|| tensor.to.name()),
            "descr": tensor.descr,
            "block_type": tensor.block_type,
            "quantized": tensor.quantized.map(|format| format.to_string()),
            "cast": tensor.cast,
            "reason": tensor.reason,
            "bytes_before": tensor.bytes_before,
            "bytes_after": tensor.bytes_after,
            "counts": tensor.counts.as_ref().map(counts),
            "alarms": tensor.alarms.as_ref().map(alarms),
        })
    };
    tensors.iter().map(row).collect()
}

/// What a fold did, or would do.
pub fn fold_json(input: &Path, output: &Path, dry_run: bool, done: &FoldSummary) -> Value {
    let _environment = DefaultEnvironment::enter();
    let cast = |Folded { output, operator, from, to, outcome, .. }: &Folded| {
        json!({
            "output": output,
            "operator": operator,
            "from": from.map(DataType::name),
            "to": to.map(DataType::name),
            "outcome": outcome.name(),
        })
    };
    let done = json!({
        "computed": done.computed,
        "removed": done.removed,
        "joined": done.joined,
        "casts": done.casts.iter().map(cast).collect::<Vec<_>>(),
    });
    job(input, output, dry_run, done)
}

/// What an upgrade did, or would do.
pub fn upgrade_json(input: &Path, output: &Path, dry_run: bool, done: &UpgradeSummary) -> Value {
    let _environment = DefaultEnvironment::enter();
    let row = |Upgraded { graph, node, operator, from, to, what, .. }: &Upgraded| json!({ "graph": graph, "node": node, "operator": operator, "from": from, "to": to, "what": what });
    let done = json!({
        "from": done.from,
        "to": done.to,
        "ir_from": done.ir_from,
        "ir_to": done.ir_to,
        "nodes": done.nodes,
        "rewritten": done.rewritten.iter().map(row).collect::<Vec<_>>(),
        "unknown": done.unknown,
    });
    job(input, output, dry_run, done)
}

fn left_out_json(left_out: &[(String, String)]) -> Value {
    left_out.iter().map(|(name, why)| json!({"name": name, "why": why})).collect()
}

/// What a file holds.
pub fn info_json(Inspection { file, model, .. }: &Inspection) -> Value {
    let _environment = DefaultEnvironment::enter();
    let tensor = |tensor: &TensorInfo| {
        let mut row = json!({
            "name": tensor.name,
            "type": tensor.data_type.map(DataType::name),
            "shape": tensor.shape,
            "bytes": tensor.bytes,
        });
        if let Some(descr) = &tensor.descr {
            row["descr"] = descr.as_str().into();
        }
        if let Some(block_type) = tensor.block_type {
            row["block_type"] = block_type.into();
        }
        if let Some(values) = &tensor.values {
            row["values"] = values_json(values);
        }
        row
    };
    let metadata = file.metadata.iter().map(|(key, value)| (key.clone(), Value::from(value.clone())));
    let mut all = json!({
        "format": file.format.extension(),
        "files": file.files,
        "metadata": metadata.collect::<Map<_, _>>(),
        "tensors": file.tensors.iter().map(tensor).collect::<Vec<_>>(),
    });
    if !file.ignored.is_empty() {
        all["ignored"] = ignored_json(&file.ignored);
    }
    if !file.left_out.is_empty() {
        all["left_out"] = left_out_json(&file.left_out);
    }
    if let Some(quantized) = &file.quantized {
        all["quantized"] = quantized_json(quantized);
    }
    if let Some(model) = model {
        all["model"] = model_json(model);
    }
    all
}

/// The quantized weights of a checkpoint.
pub fn quantized_json(Quantized { layout, weights, warning, .. }: &Quantized) -> Value {
    let _environment = DefaultEnvironment::enter();
    let weight = |weight: &QuantizedWeight| {
        let named = |(role, tensor): &(&str, String)| ((*role).to_owned(), Value::from(tensor.clone()));
        json!({
            "name": weight.name,
            "shape": weight.shape,
            "format": weight.format,
            "elements": weight.elements.name(),
            "scales": weight.scales.name(),
            "block": weight.block,
            "granularity": weight.extent.name(),
            "bits": weight.bits,
            "tensors": weight.tensors.iter().map(named).collect::<Map<_, _>>(),
        })
    };
    json!({
        "layout": layout.map(Layout::name),
        "weights": weights.iter().map(weight).collect::<Vec<_>>(),
        "warning": warning.as_ref().map(ToString::to_string),
    })
}

fn values_json(Values { min, max, mean, zeros, nan, infinities, .. }: &Values) -> Value {
    json!({
        "min": min.map(number_json),
        "max": max.map(number_json),
        "mean": mean.map(|mean| number_json(Number::Float(mean))),
        "zeros": zeros,
        "nan": nan,
        "infinities": infinities,
    })
}

/// A number. JSON has no infinities: they are text, as are integers of more than 64 bits.
fn number_json(number: Number) -> Value {
    match number {
        Number::Float(float) if float.is_infinite() => float.to_string().into(),
        Number::Float(float) => float.into(),
        Number::Integer(integer) => match (i64::try_from(integer), u64::try_from(integer)) {
            (Ok(integer), _) => integer.into(),
            (_, Ok(integer)) => integer.into(),
            _ => integer.to_string().into(),
        },
    }
}

fn model_json(model: &ModelInfo) -> Value {
    let cast = |CastInfo { node, operator, from, to, graph, .. }: &CastInfo| {
        json!({
            "node": node,
            "operator": operator,
            "from": from.map(DataType::name),
            "to": to.map(DataType::name),
            "graph": graph,
        })
    };
    let value =
        |ValueInfo { name, of_type, graph, .. }: &ValueInfo| json!({ "name": name, "type": of_type, "graph": graph });
    let opset = |(domain, version): &(String, i64)| json!({ "domain": domain, "version": version });
    let mut all = json!({
        "ir_version": model.ir_version,
        "opsets": model.opsets.iter().map(opset).collect::<Vec<_>>(),
        "casts": model.casts.iter().map(cast).collect::<Vec<_>>(),
    });
    if let Some(types) = &model.types {
        all["types"] = types.iter().map(value).collect();
    }
    all
}

/// Returns the result of `check` as JSON.
pub fn loading_json(Loading { loader, version, read, problems, undecided, .. }: &Loading) -> Value {
    let _environment = DefaultEnvironment::enter();
    json!({
        "loader": loader.name(),
        "version": version,
        "read": read,
        "problems": problems.iter().map(|(name, reason)| json!({ "name": name, "reason": reason })).collect::<Vec<_>>(),
        "undecided": undecided.iter().map(|(reason, count)| (reason.clone(), (*count).into())).collect::<Map<_, _>>(),
    })
}

/// How two files differ, `a` and `b`.
pub fn diff_json(a: &Path, b: &Path, differences: &[(String, Difference)]) -> Value {
    let _environment = DefaultEnvironment::enter();
    let row = |(name, difference): &(String, Difference)| match difference {
        Difference::OnlyFirst => json!({ "name": name, "difference": "only in a" }),
        Difference::OnlySecond => json!({ "name": name, "difference": "only in b" }),
        Difference::Type(a, b) => json!({ "name": name, "difference": "type", "a": a.name(), "b": b.name() }),
        Difference::ForeignType(a, b) => json!({ "name": name, "difference": "type", "a": a, "b": b }),
        Difference::Bytes => json!({ "name": name, "difference": "bytes" }),
        Difference::Shape(a, b) => json!({ "name": name, "difference": "shape", "a": a, "b": b }),
        Difference::Values { count, of, first, largest } => {
            let (what, largest) = ("values", number_json(*largest));
            json!({ "name": name, "difference": what, "count": count, "of": of, "first": first, "largest": largest })
        }
        Difference::Node(parts) => json!({ "name": name, "difference": "node", "parts": parts }),
        _ => json!({ "name": name, "difference": "other" }),
    };
    json!({
        "a": a.to_string_lossy(),
        "b": b.to_string_lossy(),
        "differences": differences.iter().map(row).collect::<Vec<_>>(),
    })
}
