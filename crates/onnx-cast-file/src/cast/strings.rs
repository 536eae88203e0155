//! Casts from and to strings. They have no fixed size, and an error in one must tell its index in the whole tensor, so
//! the tensor is held in memory.

use crate::counts::{Alarms, alarms_of_strings, count_strings};
use crate::engine::existing_of;
use crate::error::FileError;
use crate::formats::format::Format;
use crate::formats::input::Input;
use crate::formats::output::Output;
use crate::formats::source::byte_len;
use crate::request::CastRequest;
use crate::summary::{Summary, TensorSummary};
use onnx_cast::{DataType, Plan, Tensor};

/// Whether a file has strings, or gets them.
pub(super) fn are_in(input: &Input, casts: &[Option<Plan>]) -> bool {
    input.tensors.iter().any(|stored| stored.data_type == DataType::String)
        || casts.iter().flatten().any(|plan| plan.target_type() == DataType::String)
}

/// Casts the tensor of a file of one.
pub(super) fn run(
    input: &mut Input,
    plan: Option<Plan>,
    output: &Output<'_>,
    request: &CastRequest,
) -> Result<Summary, FileError> {
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
        from: view.data_type(),
        to: result.data_type(),
        bytes_before: byte_len(&view),
        bytes_after: byte_len(&result),
        cast: plan.is_some(),
        reason: None,
        counts,
        alarms,
        descr: None,
        block_type: None,
        quantized: None,
        name: source.name.clone(),
        shape: source.shape.clone(),
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
