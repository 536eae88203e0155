//! From a `.gguf` file to a `.safetensors` file: blocks become plain, and all other tensors stay byte for byte.

use super::DequantizeRequest;
use crate::checkpoint::{Checkpoint, TensorRef};
use crate::engine::{Opened, OutputFile, OutputPaths, OutputPlan, OutputTensor, format_of_output};
use crate::error::FileError;
use crate::formats::error::{FormatError, Invalid, InvalidKind};
use crate::formats::format::{Format, GGUF_WRITER};
use crate::formats::gguf::{Blocks, Held};
use crate::formats::input::{Given, Input, Location, StoredTensor};
use crate::layouts::BlockValues;
use crate::summary::TensorSummary;
use onnx_cast::DataType;
use std::path::Path;

pub(super) fn open(input: &Path, output: &Path, request: &DequantizeRequest) -> Result<Opened, FileError> {
    request.run.refuse_shards(input)?;
    let refuse = |path, what, format, hint| Err(FormatError::format(path, what, format, hint).into());
    if request.layout.is_some() {
        return refuse(input, "choosing a layout", Format::Gguf, "each tensor tells its type");
    }
    match format_of_output(output)? {
        Format::Safetensors => {}
        Format::Gguf => return refuse(output, "writing", Format::Gguf, GGUF_WRITER),
        format => return refuse(output, "dequantizing", format, "the output is .safetensors"),
    }
    let file = Input::open(input, Some(Format::Gguf), &Given::default())?;
    let outputs = OutputPaths { single: Some(output.to_owned()), ..OutputPaths::default() };
    Ok(Opened::of(input, vec![file], outputs))
}

pub(super) fn plan<'a>(opened: &'a Opened, request: &'a DequantizeRequest) -> Result<OutputPlan<'a>, FileError> {
    let Opened { checkpoint, outputs, input, .. } = opened;
    let names = checkpoint.tensors().map(|(_, stored)| &*stored.name);
    request.selection.check_names(names).map_err(|error| FileError::invalid(input, error))?;
    let companions = checkpoint.files[0].companions();
    let (mut rows, mut left_out) = (Vec::new(), Vec::new());
    for (tensor, stored) in checkpoint.tensors() {
        match &stored.place {
            _ if companions.contains(&stored.name) => {}
            Location::Blocks(blocks) => match request.selection.target_of_one(&stored.name, stored.len as u64) {
                None if blocks.kind.held == Held::Unread => {
                    left_out.push((stored.name.clone(), format!("{} is unsupported", blocks.type_name())));
                }
                to => rows.push(row(checkpoint, tensor, blocks, to, request)?),
            },
            _ => rows.push(OutputTensor::kept(checkpoint, tensor)),
        }
    }
    let metadata = checkpoint.files[0].metadata.clone().filter(|metadata| !metadata.is_empty());
    let path = outputs.file(input);
    let files = vec![OutputFile { path, format: Format::Safetensors, metadata, head: None, rows }];
    Ok(OutputPlan { left_out, ..OutputPlan::new(opened, files, &request.run) })
}

/// A tensor of blocks as it is to be.
fn row<'a>(
    checkpoint: &'a Checkpoint,
    tensor: TensorRef,
    blocks: &'a Blocks,
    to: Option<DataType>,
    request: &DequantizeRequest,
) -> Result<OutputTensor<'a>, FileError> {
    let (input, stored) = (&checkpoint.files[tensor.file], checkpoint.stored(tensor));
    let StoredTensor { name, shape, .. } = stored;
    let values = BlockValues::new(&input.file, blocks, name, shape, request.allow_nan)?;
    let Some(to) = to else {
        let what = format!("a .safetensors file cannot hold {}, so that the tensor needs a type", blocks.kind.name);
        let error = Invalid::new(InvalidKind::Type, what).of_tensor(name);
        return Err(FormatError::invalid(input.path(), error).into());
    };
    let from = TensorSummary::kept(name, shape.clone(), blocks.kind.like(), stored.bytes());
    super::dequantized((input.path(), tensor), from, (to, request.run.counts()), &[DataType::Float], |_| {
        Ok(Box::new(values))
    })
}
