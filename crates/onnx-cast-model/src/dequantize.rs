//! From the quantized weights of a model back to plain ones: its DequantizeLinears of constants are computed.

use crate::edits::Edits;
use crate::error::{Error, ModelError, ModelErrorKind};
use crate::external::Files;
use crate::fold::{FoldOutcome, FoldRequest, FoldSummary, Folded, edits};
use crate::operators::MICROSOFT;
use crate::rewrite::{Request, rewrite};
use crate::source::ModelSource;
use crate::tree::{Document, is_default};
use onnx_cast::DataType;
use onnx_cast::tensor::element_count;
use onnx_cast_file::__private::Short;
use onnx_cast_file::{DequantizeRequest, Pattern, Selection, Summary, TensorSummary, Wording};
use std::path::Path;

/// Replaces what DequantizeLinear gives of constants by its values. They keep their type, which the request has to
/// name: the nodes that read them take no other.
pub(crate) fn dequantize_constants(
    source: ModelSource<'_>,
    output: Option<&Path>,
    request: &DequantizeRequest,
) -> Result<(Vec<u8>, Summary), Error> {
    let fold = FoldRequest::default();
    let (storage, run) = (&fold.storage, &request.run);
    rewrite(
        source,
        output,
        &Request::of(run, storage),
        |document, files| {
            let (edits, planned) = planned(document, files, request)?;
            Ok((edits, (rows(document, &planned, request)?, readers(document))))
        },
        |(rows, readers)| {
            let mut summary = Summary::new(rows);
            summary.notes.extend(readers.map(|readers| format!("the weights of {readers} stay quantized")));
            Ok(summary)
        },
    )
}

/// The DequantizeLinears that are computed: those of weights that the request selects.
fn planned<'a>(
    document: &Document<'a>,
    files: &'a Files<'a>,
    request: &DequantizeRequest,
) -> Result<(Edits<'a>, FoldSummary), ModelError> {
    let Selection { include, exclude, rules, min_elements, .. } = &request.selection;
    let fold = FoldRequest::default()
        .include(include.clone())
        .exclude(exclude.clone())
        .operator(Some("DequantizeLinear"))
        .dequantize(true);
    let all = edits(document, files, &fold)?;
    if rules.is_empty() && min_elements.is_none() {
        return Ok(all);
    }
    let is_kept = |folded: &&Folded| {
        let len = folded.shape.as_deref().and_then(element_count).unwrap_or(0);
        request.selection.target_of_one(&folded.output, len as u64).is_none()
    };
    let kept = all.1.casts.iter().filter(is_kept).map(|folded| Pattern::exactly(&folded.output));
    let exclude = exclude.iter().cloned().chain(kept).collect();
    edits(document, files, &fold.exclude(exclude))
}

/// What is told of the weights that are computed.
fn rows(
    document: &Document<'_>,
    planned: &FoldSummary,
    request: &DequantizeRequest,
) -> Result<Vec<TensorSummary>, ModelError> {
    request.selection.check_names(planned.casts.iter().map(|folded| &*folded.output))?;
    let rows: Vec<_> = planned.casts.iter().filter_map(|folded| row(folded, request)).collect::<Result<_, _>>()?;
    if rows.is_empty() {
        let what = "no weight to dequantize: no DequantizeLinear reads constants alone".to_owned();
        let what = match readers(document) {
            None => what,
            Some(readers) => format!(
                "{what}, and the weights of {readers} are not read back (quantize the float model again, in the form qdq)"
            ),
        };
        return Err(ModelError::new(ModelErrorKind::Request, what));
    }
    Ok(rows)
}

/// The operators that read quantized weights without a DequantizeLinear, as `quantize` writes them in its other forms,
/// and how many nodes there are of each.
fn readers(document: &Document<'_>) -> Option<String> {
    const READERS: [(&str, &str); 5] = [
        (MICROSOFT, "MatMulNBits"),
        (MICROSOFT, "GatherBlockQuantized"),
        (MICROSOFT, "DynamicQuantizeLSTM"),
        ("", "MatMulInteger"),
        ("", "ConvInteger"),
    ];
    let graphs = document.graphs();
    let nodes = graphs.iter().flat_map(|graph| &graph.nodes);
    let operators = nodes.map(|node| (if is_default(node.domain) { "" } else { node.domain }, node.op_type));
    let operators: Vec<_> = operators.collect();
    let found = READERS.into_iter().filter_map(|reader| {
        let count = operators.iter().filter(|operator| **operator == reader).count();
        (count > 0).then(|| format!("{} ({count})", reader.1))
    });
    Some(found.collect::<Vec<_>>().join(", ")).filter(|readers| !readers.is_empty())
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
        let what =
            format!(" {to}, not {wanted}: what reads it takes no other; `onnx-cast cast` stores it in another type)");
        let what = Wording::from(format!("weight `{}` is {to} in the model (want ", Short(output))).field("to", what);
        return Some(Err(ModelError::new(ModelErrorKind::Request, what).named(output)));
    }
    let bytes = |data_type: DataType| data_type.byte_len(len).unwrap_or(0) as u64;
    let mut row = TensorSummary::kept(output, shape.clone(), *from, bytes(*from));
    (row.to, row.bytes_after, row.cast) = (*to, bytes(*to), true);
    Some(Ok(row))
}
