//! Casts from and to strings. They have no fixed size, and an error in one must tell its index in the whole tensor, so
//! the tensor is held in memory.

use crate::counts::{Alarms, alarms_of_strings, count_strings};
use crate::engine::{Opened, OutputFile, OutputPlan, Source, existing_of};
use crate::error::FileError;
use crate::formats::format::Format;
use crate::formats::output::Output;
use crate::formats::source::byte_len;
use crate::request::CastRequest;
use crate::summary::{Summary, TensorSummary};
use onnx_cast::{DataType, Plan, Tensor};

/// The cast of a tensor in a file of one, `None` inside if it is kept; `None` if the plan has no strings, or the engine
/// writes them.
pub(super) fn cast_of(plan: &OutputPlan<'_>) -> Option<Option<Plan>> {
    let [OutputFile { format, rows, .. }] = &plan.files[..] else { return None };
    let [row] = &rows[..] else { return None };
    let has_strings = [row.summary.from, row.summary.to].contains(&DataType::String) && !format.holds_many();
    match row.source {
        Source::Cast(cast, _) => has_strings.then_some(Some(cast)),
        Source::Kept => has_strings.then_some(None),
        _ => None,
    }
}

/// Casts the tensor of a file of one.
pub(super) fn run(opened: &mut Opened, plan: Option<Plan>, request: &CastRequest) -> Result<Summary, FileError> {
    let (path, format) = (opened.outputs.single.clone().unwrap_or_default(), opened.outputs.format());
    let output = &Output { path: &path, format, options: &request.run.write };
    let Some(input) = opened.checkpoint.files.first_mut() else { return Ok(Summary::new(Vec::new())) };
    let existing = existing_of(input.path(), output.path, request.run.existing(output.path, output.format));
    existing.check_file(output.path)?;
    let source = input.take(0)?;
    let wrong = |error| FileError::cast(input.path(), &source.name, error);
    let view = source.view().map_err(|error| wrong(error.into()))?;
    let result = plan.map(|plan| plan.run(&view)).transpose().map_err(wrong)?;
    let result = result.as_ref().map_or(view, Tensor::view);
    let counted = request.run.counts() && plan.is_some();
    let counts = counted.then(|| count_strings(&view, &result)).transpose().map_err(wrong)?.map(|(counts, _)| counts);
    let alarms = match &counts {
        Some(counts) => Some(Alarms::from(counts)),
        None => plan.map(|_| alarms_of_strings(&view, &result)).transpose().map_err(wrong)?,
    };
    let row = TensorSummary {
        to: result.data_type(),
        bytes_after: byte_len(&result),
        cast: plan.is_some(),
        counts,
        alarms,
        ..TensorSummary::kept(&source.name, source.shape.clone(), view.data_type(), byte_len(&view))
    };
    let ignored = request.run.ignored_of_output(output.path, output.format);
    let summary = Summary::new(vec![row]).ignoring(ignored);
    FileError::check_losses(&summary, input.path(), &request.run.fail_on)?;
    if !request.run.dry_run {
        let mut out = output.create(existing)?;
        out.as_private_as(&input.file)?;
        // The TensorProto whose other fields are kept.
        let message = input.message.as_deref().filter(|_| output.format == Format::TensorProto);
        output.write(&mut out, &source.name, &result, message)?;
        out.commit()?;
    }
    Ok(summary)
}
