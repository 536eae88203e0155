//! From the quantized weights of a model back to plain ones: its DequantizeLinears of constants are computed.

use crate::error::{Error, ModelError, ModelErrorKind};
use crate::fold::{FoldOutcome, FoldRequest, Folded, fold};
use crate::replaced;
use onnx_cast::{DataType, element_count};
use onnx_cast_file::text::Short;
use onnx_cast_file::{DequantizeRequest, RunOptions, Summary, TensorSummary, WriteOptions};
use std::path::Path;

/// Replaces what DequantizeLinear gives of constants by its values. They keep their type, which the request has to
/// name: the nodes that read them take no other.
pub(crate) fn dequantize_model(input: &Path, output: &Path, request: &DequantizeRequest) -> Result<Summary, Error> {
    // What is replaced is checked here.
    let write = WriteOptions { force: true, ..request.run.write };
    let plan = FoldRequest {
        include: request.selection.include.clone(),
        exclude: request.selection.exclude.clone(),
        operator: Some("DequantizeLinear"),
        dequantize: true,
        run: RunOptions::new().threads(request.run.threads).write(write),
        ..FoldRequest::default()
    };
    let dry_run = plan.run.clone().dry_run(true);
    let planned = fold(input, output, &FoldRequest { run: dry_run, ..plan.clone() })?;
    let names = planned.casts.iter().map(|folded| &*folded.output);
    request.selection.check_names(names).map_err(|error| Error::model(input, error.into()))?;
    let rows = planned.casts.iter().filter_map(|folded| row(folded, request)).collect::<Result<Vec<_>, _>>();
    let rows = rows.map_err(|error| Error::model(input, error))?;
    if rows.is_empty() {
        let what = "no weight to dequantize: no DequantizeLinear reads constants alone";
        return Err(Error::model(input, ModelError::new(ModelErrorKind::Request, what)));
    }
    replaced::check((input, output), &request.run.write, || Ok(Summary::new(rows.clone())))?;
    if !request.run.dry_run {
        let run = plan.run.clone().watch(request.run.watch.clone());
        fold(input, output, &FoldRequest { run, ..plan })?;
    }
    Ok(Summary::new(rows))
}

/// What is told of a weight that is computed.
fn row(folded: &Folded, request: &DequantizeRequest) -> Option<Result<TensorSummary, ModelError>> {
    let Folded { output, outcome: FoldOutcome::Computed, from: Some(from), to: Some(to), shape: Some(shape), .. } =
        folded
    else {
        return None;
    };
    let len = element_count(shape).unwrap_or(0);
    let wanted = request.selection.target_of_one(output, len as u64);
    if let Some(wanted) = wanted.filter(|wanted| wanted != to) {
        let what = format!(
            "weight `{}` is {to} in the model (want `to` {to}, not {wanted}: what reads it takes no other; `onnx-cast \
             cast` stores it in another type)",
            Short(output)
        );
        return Some(Err(ModelError::new(ModelErrorKind::Request, what).named(output)));
    }
    let bytes = |data_type: DataType| data_type.byte_len(len).unwrap_or(0) as u64;
    let mut row = TensorSummary::kept(output, shape.clone(), *from, bytes(*from));
    (row.to, row.bytes_after, row.cast) = (*to, bytes(*to), true);
    Some(Ok(row))
}
