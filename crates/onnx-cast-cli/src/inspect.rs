//! `info` and `diff`: what files hold, and where two differ.

use crate::args::{CheckArgs, Common, DiffArgs, InfoArgs, NameArgs};
use crate::outcome::warn_ignored;
use crate::progress::Progress;
use crate::{DIFFERENT, DONE, pretty, print, with_options};
use anyhow::Result;
use onnx_cast::__private::Count;
use onnx_cast::DataType;
use onnx_cast_file::__private::{PathText, named};
use onnx_cast_file::{
    DiffRequest, Difference, InspectRequest, Layout, Loading, Number, Quantized, ScaleExtent, TensorInfo, Values,
};
use onnx_cast_model::{CastInfo, Inspection, ModelInfo, ValueInfo, inspect};
use onnx_cast_report::{column, diff_json, info_json, loading_json, printable, shape, size};
use std::fmt::Write as _;
use std::io::{self, Write as _};

pub(crate) fn info(args: &InfoArgs, common: &Common) -> Result<()> {
    let (path, from) = (&args.file.path, args.file.from.clone());
    let progress = args.stats.then(|| Progress::start(common));
    let NameArgs { include, exclude } = &args.names;
    let info = inspect(
        path,
        &InspectRequest::default()
            .from(from)
            .in_format(args.file.in_format)
            .stats(args.stats)
            .types(args.types)
            .include(include.clone())
            .exclude(exclude.clone())
            .threads(common.threads)
            .watch(progress.as_ref().and_then(Progress::watch)),
    )?;
    drop(progress);
    if !common.json && !common.quiet {
        warn_ignored(&info.file.ignored, path, common);
    }
    print(&if common.json { pretty(&info_json(&info))? } else { as_text(&info, common) })?;
    Ok(())
}

fn as_text(Inspection { file: info, model, .. }: &Inspection, common: &Common) -> String {
    let name = |tensor: &TensorInfo| printable(&tensor.name);
    let names = column(info.tensors.iter().map(name), "tensor");
    let shapes = column(info.tensors.iter().map(|tensor| shape(&tensor.shape)), "shape");
    let mut text = format!("{:names$}  {:14}  {:shapes$}  {:>12}\n", "tensor", "type", "shape", "bytes");
    for tensor in &info.tensors {
        let kind = tensor
            .block_type
            .or(tensor.data_type.map(DataType::name))
            .map_or_else(|| printable(tensor.descr.as_deref().unwrap_or_default()), str::to_owned);
        let (dims, bytes) = (shape(&tensor.shape), size(tensor.bytes));
        // A String takes everything.
        let _ = writeln!(text, "{:names$}  {kind:14}  {dims:shapes$}  {bytes:>12}", name(tensor));
        if let Some(Values { min, max, mean, zeros, nan, infinities, .. }) = &tensor.values {
            let number = |value: Option<Number>| value.map_or("none".to_owned(), |value| value.to_string());
            let (min, max, mean) = (number(*min), number(*max), number(mean.map(Number::Float)));
            let _ = writeln!(
                text,
                "    min {min}, max {max}, mean {mean}, {zeros} zeros, {nan} NaN, {infinities} infinities"
            );
        }
    }
    let (count, bytes) = (info.tensors.len(), info.tensors.iter().map(|tensor| tensor.bytes).sum());
    let files = if info.files == 1 { String::new() } else { format!(" in {} files", info.files) };
    let _ = writeln!(text, "total: {}{files}, {} ({})", Count(count, "tensor"), size(bytes), info.format);
    for (key, value) in &info.metadata {
        let _ = writeln!(text, "metadata: {} = {}", printable(key), printable(value));
    }
    if !info.left_out.is_empty() {
        let _ = writeln!(text, "left out: {}", named(&info.left_out));
    }
    if let Some(quantized) = &info.quantized {
        quantized_text(quantized, common, &mut text);
    }
    if let Some(model) = model {
        model_text(model, &mut text);
    }
    text
}

/// The layout, a line for each quantized weight, and what contradicts itself.
fn quantized_text(Quantized { layout, weights, warning, .. }: &Quantized, common: &Common, text: &mut String) {
    let shapes = column(weights.iter().map(|weight| shape(&weight.shape)), "shape");
    let names = column(weights.iter().map(|weight| printable(&weight.name)), "weight");
    if !weights.is_empty() {
        let _ =
            writeln!(text, "{:names$}  {:6}  {:shapes$}  {:>9}  {:>5}", "weight", "format", "shape", "scale", "bits");
    }
    for weight in weights {
        let scale = match weight.extent {
            ScaleExtent::Block => shape(&weight.block),
            extent => extent.name().to_owned(),
        };
        let (name, format, dims, bits) = (printable(&weight.name), &weight.format, shape(&weight.shape), weight.bits);
        let _ = writeln!(text, "{name:names$}  {format:6}  {dims:shapes$}  {scale:>9}  {bits:>5.2}");
    }
    if let Some(layout) = layout {
        let count = match weights.len() {
            0 => String::new(),
            1 => ", 1 weight".to_owned(),
            count => format!(", {count} weights"),
        };
        let _ = writeln!(text, "quantized: {}{count}", Layout::name(*layout));
    }
    if let Some(warning) = warning {
        let _ = writeln!(text, "warning: {}", with_options(warning, common));
    }
}

fn model_text(model: &ModelInfo, text: &mut String) {
    let name = |data_type: &Option<DataType>| data_type.map_or("(unknown)", |data_type| data_type.name());
    let within = |graph: &str| if graph.is_empty() { String::new() } else { format!(" in {}", printable(graph)) };
    for CastInfo { node, operator, from, to, graph, .. } in &model.casts {
        let graph = within(graph);
        let _ = writeln!(text, "cast: {operator} {}, {} to {}{graph}", printable(node), name(from), name(to));
    }
    for ValueInfo { name, of_type, graph, .. } in model.types.iter().flatten() {
        // The names of dimensions are the file's.
        let of_type = of_type.as_deref().map_or("(unknown)".to_owned(), printable);
        let _ = writeln!(text, "value: {}, {of_type}{}", printable(name), within(graph));
    }
    for (domain, version) in &model.opsets {
        let domain = if domain.is_empty() { "ai.onnx".to_owned() } else { printable(domain) };
        let _ = writeln!(text, "opset: {domain} {version}");
    }
    let _ = writeln!(text, "IR version: {}", model.ir_version);
}

pub(crate) fn check(args: &CheckArgs, common: &Common) -> Result<u8> {
    let loading = onnx_cast_file::check(&args.path, args.loader)?;
    if common.json {
        print(&pretty(&loading_json(&loading))?)?;
    } else if !common.quiet {
        print(&loading_text(&loading))?;
    }
    Ok(if loading.problems.is_empty() { DONE } else { DIFFERENT })
}

fn loading_text(Loading { loader, version, read, problems, undecided, .. }: &Loading) -> String {
    let mut text = String::new();
    let names = column(problems.iter().map(|(name, _)| printable(name)), "module");
    if !problems.is_empty() {
        let _ = writeln!(text, "{:names$}  problem", "module");
    }
    for (name, reason) in problems {
        let _ = writeln!(text, "{:names$}  {}", printable(name), printable(reason));
    }
    let problems = Count(problems.len(), "problem");
    let _ = writeln!(text, "{} {version}: reads {}, {problems}", loader.name(), Count(*read, "module"));
    if !undecided.is_empty() {
        let parts: Vec<String> = undecided.iter().map(|(reason, count)| format!("{reason} ({count})")).collect();
        let _ = writeln!(text, "not decided by its rules: {}", parts.join(", "));
    }
    text
}

pub(crate) fn diff(args: &DiffArgs, common: &Common) -> Result<u8> {
    let progress = Progress::start(common);
    let NameArgs { include, exclude } = &args.names;
    let request = DiffRequest::default()
        .tolerance(args.tolerance)
        .values(args.values)
        .in_format(args.in_format)
        .include(include.clone())
        .exclude(exclude.clone())
        .threads(common.threads)
        .watch(progress.watch());
    let differences = onnx_cast_model::diff(&args.first, &args.second, &request)?;
    drop(progress);
    if common.json {
        print(&pretty(&diff_json(&args.first, &args.second, &differences))?)?;
    } else if !common.quiet {
        let (first, second) = (PathText(&args.first), PathText(&args.second));
        if differences.is_empty() {
            let _ = writeln!(io::stderr(), "{first} and {second}: equal");
        }
        let mut text = String::new();
        for (name, difference) in &differences {
            let what = match difference {
                Difference::OnlyFirst => format!("only in {first}"),
                Difference::OnlySecond => format!("only in {second}"),
                Difference::Type(a, b) => format!("{a}, and {b}"),
                Difference::ForeignType(a, b) => format!("{}, and {}", printable(a), printable(b)),
                Difference::Bytes => "the bytes differ".to_owned(),
                Difference::Shape(a, b) => format!("{}, and {}", shape(a), shape(b)),
                // Text, complex numbers, NaN and zeros of different signs have no distance.
                Difference::Values { count, of, first, largest: Number::Float(0.0) } => {
                    format!(
                        "{count} of {of} elements differ, the first is {first} (text, complex numbers, NaN or the \
                         signs of zeros)"
                    )
                }
                Difference::Values { count, of, first, largest } => {
                    format!("{count} of {of} elements differ, the first is {first}, by at most {largest}")
                }
                Difference::Node(parts) => format!("different {}", printable(parts)),
                _ => "other".to_owned(),
            };
            let _ = writeln!(text, "{}: {what}", printable(name));
        }
        print(&text)?;
    }
    Ok(if differences.is_empty() { DONE } else { DIFFERENT })
}
