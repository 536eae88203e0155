//! `cast` and `bitcast`: from file to file.

use crate::args::{BitCastArgs, CastArgs, FileArgs};
use crate::models;
use crate::summary::{Amount, Summary};
use anyhow::Result;
use onnx_cast::{CastOptions, DataType};
use onnx_cast_file::{FileCast, FileError, Format, WriteOptions, bit_cast_file, cast_file};
use std::path::Path;
use std::time::Instant;

pub(crate) fn cast(args: &CastArgs) -> Result<()> {
    let model = |path| Format::from_path(path).is_ok_and(|format| format == Format::Onnx);
    if model(&args.files.input) && model(&args.files.output) {
        return models::cast(args);
    }
    models::refuse_options(args)?;
    run(&args.files, args.to, args.attributes.options(), cast_file)
}

pub(crate) fn bit_cast(args: &BitCastArgs) -> Result<()> {
    let options = CastOptions { opset: args.opset, ..CastOptions::default() };
    run(&args.files, args.to, options, bit_cast_file)
}

fn run<'a, F>(files: &'a FileArgs, to: DataType, options: CastOptions, convert: F) -> Result<()>
where
    F: Fn(&'a Path, &'a Path, &FileCast) -> Result<onnx_cast_file::Summary, FileError>,
{
    let start = Instant::now();
    let write = WriteOptions { npy_plain: files.npy_plain };
    let request = FileCast { options, from: files.from, write, ..FileCast::new(to) };
    let done = convert(&files.input, &files.output, &request)?;
    if files.quiet {
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
    summary.say(
        &format!("{} -> {}", files.input.display(), files.output.display()),
        &format!("to {to}"),
        start.elapsed(),
    );
    Ok(())
}
