//! `cast` on models.

use crate::args::{CastArgs, StorageArgs};
use crate::summary::{Amount, Summary};
use anyhow::{Result, bail};
use onnx_cast::{CastOptions, DataType};
use onnx_cast_file::{ModelCast, Storage, cast_model};
use std::time::Instant;

/// Constants of fewer elements are epsilons, scales and axes, which lose more by rounding than a file gains.
const MIN_ELEMENTS: usize = 256;

impl StorageArgs {
    fn storage(&self) -> Storage {
        Storage { external_data: self.external_data.clone(), threshold: self.external_threshold }
    }
}

pub(crate) fn cast(args: &CastArgs) -> Result<()> {
    let start = Instant::now();
    let shown = args.files.input.display();
    if args.attributes.opset.is_some() {
        bail!("{shown}: a model tells its opset itself (--raise-opset raises it where the target needs that)");
    }
    if args.files.from.is_some() || args.files.npy_plain {
        bail!("{shown}: --from and --npy-plain are not for models");
    }
    let min = args.min_elements.unwrap_or(MIN_ELEMENTS);
    let select = |_: &str, from: DataType, elements: usize| (from.is_float() && elements >= min).then_some(args.to);
    let request = ModelCast {
        select: &select,
        options: CastOptions { opset: CastOptions::default().opset, ..args.attributes.options() },
        raise_opset: args.raise_opset,
        storage: args.storage.storage(),
    };
    let done = cast_model(&args.files.input, &args.files.output, &request)?;
    if args.files.quiet {
        return Ok(());
    }
    let mut summary = Summary::default();
    for tensor in &done.tensors {
        let amount = Amount { tensors: 1, elements: onnx_cast::element_count(&tensor.shape).unwrap_or(0) as u64 };
        if tensor.cast {
            summary.cast += amount;
        } else {
            summary.kept += amount;
        }
        summary.bytes_before += tensor.bytes_before;
        summary.bytes_after += tensor.bytes_after;
    }
    let files = format!("{shown} -> {}", args.files.output.display());
    summary.say(&files, &format!("to {}", args.to), start.elapsed());
    Ok(())
}

/// Refuses the options that only a model has a use for.
pub(crate) fn refuse_options(args: &CastArgs) -> Result<()> {
    let StorageArgs { external_data, external_threshold } = &args.storage;
    let given = [
        ("--raise-opset", args.raise_opset),
        ("--min-elements", args.min_elements.is_some()),
        ("--external-data", external_data.is_some()),
        ("--external-threshold", external_threshold.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => bail!("{}: {option} is for models (.onnx to .onnx)", args.files.input.display()),
        None => Ok(()),
    }
}
