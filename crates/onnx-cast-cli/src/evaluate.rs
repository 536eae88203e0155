//! `run`: evaluates a model, its inputs and outputs in files.

use crate::args::{Common, RunArgs};
use crate::outcome::warn_ignored;
use crate::paths::{self, Named};
use crate::summary::{Amount, Summary};
use crate::{pretty, print};
use anyhow::{Result, anyhow, bail};
use onnx_cast::Tensor;
use onnx_cast_file::__private::{PathText, Short, byte_len, together};
use onnx_cast_file::{AtomicFile, Format, NamedTensor, RunOptions, WriteOptions, put_tensor, read_tensor_as};
use onnx_cast_model::{Model, ValueDecl};
use serde_json::json;
use std::iter;
use std::path::{Path, PathBuf};
use std::time::Instant;

pub(crate) fn run(args: &RunArgs, common: &Common) -> Result<()> {
    let start = Instant::now();
    let shown = PathText(&args.model);
    let model = Model::read(&args.model)?;
    let inputs = bind(&args.inputs, model.inputs(), "input").map_err(|error| anyhow!("{shown}: {error}"))?;
    let outputs = bind(&args.outputs, model.outputs(), "output").map_err(|error| anyhow!("{shown}: {error}"))?;
    outputs.iter().try_for_each(|(_, path)| check_output(path))?;
    let write = WriteOptions::default().npy_plain(args.npy_plain).force(args.force.force);
    warn_plain(&outputs, &write, &args.model, common)?;
    let read = inputs.iter().map(|(declared, path)| Named::read(format!("input `{}`", Short(&declared.name)), path));
    let written =
        outputs.iter().map(|(declared, path)| Named::written(format!("output `{}`", Short(&declared.name)), path));
    let model_itself = Named::read("the model", &args.model);
    paths::check(&iter::once(model_itself).chain(read).chain(written).collect::<Vec<_>>())?;
    outputs.iter().try_for_each(|(_, path)| args.force.existing().check_file(path))?;

    let mut tensors = Vec::with_capacity(inputs.len());
    for (declared, path) in inputs {
        let tensor = read_tensor_as(&path, declared.data_type)?.tensor;
        tensors.push(NamedTensor { name: declared.name.clone(), tensor });
    }
    let mut summary = Summary::default();
    tensors.iter().for_each(|input| summary.bytes_before += bytes(&input.tensor));
    let results = model.run(tensors).map_err(|error| anyhow!("{shown}: {error}"))?;

    // Every file is written before the first takes its place, so that a failure leaves all of them as they were.
    let (mut written, mut rows) = (Vec::with_capacity(outputs.len()), Vec::with_capacity(outputs.len()));
    for (declared, path) in &outputs {
        let result = results
            .iter()
            .find(|result| result.name == declared.name)
            .ok_or_else(|| anyhow!("{shown}: no value for output `{}`", Short(&declared.name)))?;
        let mut file = AtomicFile::create(path, write.force)?;
        put_tensor(&mut file, path, Format::from_path(path)?, &result.name, result.tensor.view(), &write)?;
        written.push(file);
        let (data_type, shape) = (result.tensor.data_type(), result.tensor.shape());
        rows.push(json!({
            "name": declared.name,
            "file": path.to_string_lossy(),
            "type": data_type.name(),
            "shape": shape,
            "bytes": bytes(&result.tensor),
        }));
        summary.cast += Amount { tensors: 1, elements: result.tensor.len() as u64 };
        summary.bytes_after += bytes(&result.tensor);
    }
    // What can fail has then been done.
    written.iter_mut().try_for_each(AtomicFile::sync)?;
    together(|| written.into_iter().try_for_each(AtomicFile::commit))?;
    if common.json {
        print(&pretty(&json!({ "model": args.model.to_string_lossy(), "outputs": rows, "written": true }))?)?;
    } else if !common.quiet {
        summary.say(&shown.to_string(), "written", start.elapsed());
    }
    Ok(())
}

/// A wrong extension is better known before the work than after it.
fn check_output(path: &Path) -> Result<()> {
    match Format::from_path(path)? {
        Format::TensorProto | Format::Npy | Format::Safetensors => {}
        Format::Onnx => bail!("{}: an output is a tensor (want .pb, .npy or .safetensors)", PathText(path)),
        format => bail!("{}: {format} does not hold a tensor", PathText(path)),
    }
    Ok(())
}

/// Warns of plain arrays where no output is an array.
fn warn_plain(outputs: &[(&ValueDecl, PathBuf)], write: &WriteOptions, model: &Path, common: &Common) -> Result<()> {
    let run = RunOptions::new().write(*write);
    let ignored = outputs.iter().map(|(_, path)| Ok(run.ignored_of_output(path, Format::from_path(path)?)));
    let ignored = ignored.collect::<Result<Vec<_>>>()?;
    if let (Some(first), true) = (ignored.first(), ignored.iter().all(|ignored| !ignored.is_empty())) {
        warn_ignored(first, model, common);
    }
    Ok(())
}

fn bytes(tensor: &Tensor) -> u64 {
    byte_len(&tensor.view())
}

/// Which file is which of the model's inputs or outputs. `NAME=FILE`, or `FILE` alone where the model has one.
fn bind<'a>(given: &[String], declared: &'a [ValueDecl], what: &str) -> Result<Vec<(&'a ValueDecl, PathBuf)>> {
    let mut bound: Vec<(&ValueDecl, PathBuf)> = Vec::with_capacity(given.len());
    for text in given {
        let (value, path) = bind_one(text, declared, what)?;
        if bound.iter().any(|(earlier, _)| earlier.name == value.name) {
            bail!("{what} `{}` is given twice", Short(&value.name));
        }
        bound.push((value, path));
    }
    Ok(bound)
}

fn bind_one<'a>(text: &str, declared: &'a [ValueDecl], what: &str) -> Result<(&'a ValueDecl, PathBuf)> {
    // Names may hold `=` themselves: the longest that fits is meant.
    let named = declared
        .iter()
        .filter_map(|value| Some((value, text.strip_prefix(&value.name)?.strip_prefix('=')?)))
        .max_by_key(|(value, _)| value.name.len());
    if let Some((value, path)) = named {
        return Ok((value, Path::new(path).to_owned()));
    }
    let names = || {
        let names: Vec<String> = declared.iter().map(|value| format!("`{}`", Short(&value.name))).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    };
    match (text.split_once('='), declared) {
        (None, [only]) => Ok((only, Path::new(text).to_owned())),
        (None, _) => bail!("`{}` for which {what}? (say NAME=FILE; the model's: {})", Short(text), names()),
        (Some((name, _)), _) => bail!("the model has no {what} `{}` (its {what}s: {})", Short(name), names()),
    }
}
