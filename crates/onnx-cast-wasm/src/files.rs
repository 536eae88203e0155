//! Files that the host lends: what they hold, what casts would lose, and casts of them.

use crate::fields::Fields;
use crate::{Failure, Result};
use onnx_cast_file::__private::{Field, with_options};
use onnx_cast_file::{CastRequest, InspectRequest, QuantizeRequest, ReportRequest, RunOptions, Watch, Wording};
use onnx_cast_report::{cast_json, info_json, json as report_json, page_data};
use serde_json::{Value, json};
use std::path::Path;

// A module for one kind of file has nothing of the other. With both, a path tells which it is.
#[cfg(not(feature = "models"))]
use onnx_cast_file::{cast_file as cast_any, quantize_file as quantize_any, report as report_any};
#[cfg(all(feature = "files", feature = "models"))]
use onnx_cast_model::{cast as cast_any, inspect as inspect_any, quantize as quantize_any, report as report_any};
#[cfg(not(feature = "files"))]
use onnx_cast_model::{
    cast_model as cast_any, inspect_model as inspect_any, quantize_model as quantize_any, report_model as report_any,
};

#[cfg(not(feature = "models"))]
fn inspect_any(
    path: &Path,
    request: &InspectRequest,
) -> std::result::Result<onnx_cast_model::Inspection, onnx_cast_file::FileError> {
    Ok(onnx_cast_file::inspect(path, request)?.into())
}

/// Tells the host how far the work is, and asks whether to go on.
fn watch() -> Option<Watch> {
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    return Some(Watch::stopping(crate::host::progress));
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    None
}

/// An error, with JavaScript's names for fields of requests.
fn in_words(text: &Wording) -> Failure {
    Failure(text.with(|field| {
        let mut words = field.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        let name = words.fold(first, |name, word| name + &word[..1].to_ascii_uppercase() + &word[1..]);
        format!("`{name}`")
    }))
}

/// Options of requests that JavaScript has for no job.
const UNSUPPORTED: &[&str] = &[
    "copy_others",
    "dry_run",
    "external_data",
    "external_threshold",
    "fail_on",
    "force",
    "in_format",
    "losses",
    "npy_plain",
    "out_format",
    "resume",
    "rules",
    "shape",
    "shard_size",
    "threads",
];

/// Whether JavaScript has the option for the job.
fn is_supported(job: &str, option: &str) -> bool {
    // Predictions of a report are those of the default layout; of casts and quantizations patterns choose.
    let is_left_out = matches!((job, option), ("report", "layout") | ("cast" | "quantize", "min_elements"));
    !UNSUPPORTED.contains(&option) && !is_left_out
}

/// The request of a job with the options that are given beside its arguments.
fn request<R: Field>(fields: Fields<'_>, job: &str, arguments: &[&str], defaults: R) -> Result<R> {
    let mut options = fields.0.as_object().cloned().unwrap_or_default();
    options.retain(|name, value| !value.is_null() && name != "job" && !arguments.contains(&&**name));
    if let Some(name) = options.keys().find(|name| !is_supported(job, name)) {
        return Err(Failure(format!("`{name}` is not an option here")));
    }
    with_options(defaults, &options).map_err(|error| in_words(&error))
}

/// What a file holds.
pub(crate) fn info(fields: Fields<'_>) -> Result<Value> {
    let request: InspectRequest = request(fields, "info", &["path"], InspectRequest::default())?;
    let path = Path::new(fields.required("path")?);
    let request = request.threads(Some(1)).watch(watch());
    Ok(info_json(&inspect_any(path, &request).map_err(|error| in_words(&error.wording()))?))
}

/// What casts would lose, as figures; where a page is asked for, also what stands in it for `{{data}}`.
pub(crate) fn report(fields: Fields<'_>) -> Result<Value> {
    let request = request(fields, "report", &["path", "title", "page"], ReportRequest::default())?;
    let path = fields.required("path")?;
    let options = request.options.threads(1);
    let report = report_any(path, &request.options(options).watch(watch()));
    let report = report.map_err(|error| in_words(&error.wording()))?;
    let title = fields.text("title")?.unwrap_or(path);
    let shown = fields.flag("page")?.unwrap_or(false).then(|| page_data(title, &report));
    Ok(json!({ "report": report_json(&report)?, "page_data": shown.transpose()? }))
}

/// How a job runs that writes.
fn run() -> RunOptions {
    RunOptions::new().threads(Some(1)).watch(watch())
}

/// The file or checkpoint, cast.
pub(crate) fn cast(fields: Fields<'_>) -> Result<Value> {
    let request = request(fields, "cast", &["path", "output"], CastRequest::default())?.run(run());
    let (input, output) = (fields.required("path")?, fields.required("output")?);
    fields.required("to")?;
    let done = cast_any(input, output, &request).map_err(|error| in_words(&error.wording()))?;
    Ok(cast_json(Path::new(input), Path::new(output), false, &done))
}

/// The weights of a checkpoint or of a model, quantized.
pub(crate) fn quantize(fields: Fields<'_>) -> Result<Value> {
    let request = request(fields, "quantize", &["path", "output"], QuantizeRequest::default())?.run(run());
    let (input, output) = (fields.required("path")?, fields.required("output")?);
    fields.required("to")?;
    let done = quantize_any(input, output, &request).map_err(|error| in_words(&error.wording()))?;
    Ok(cast_json(Path::new(input), Path::new(output), false, &done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnx_cast_file::__private::options_of;
    use onnx_cast_file::Layout;
    use serde_json::Map;

    /// What is left out here is there elsewhere: the command's tests compare the requests with its options.
    #[test]
    fn what_is_left_out_is_an_option() {
        let known = options_of(&CastRequest::default());
        assert!(UNSUPPORTED.iter().all(|name| known.contains(name)), "{known:?}");
    }

    /// The page has no list of its own.
    #[test]
    fn the_page_offers_the_layouts_that_are_written() {
        let page = include_str!("../../../web/src/file.js");
        let (_, list) = page.split_once("const LAYOUTS = [").expect("a list");
        let (list, _) = list.split_once(']').expect("its end");
        let offered: Vec<&str> = list.split(',').map(|name| name.trim().trim_matches('"')).collect();
        let offered: Vec<&str> = offered.into_iter().filter(|name| !name.is_empty()).collect();
        let written = Layout::ALL.iter().filter(|(layout, _)| layout.is_written_to_safetensors());
        assert_eq!(offered, written.map(|(_, name)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn a_field_of_another_job_is_refused() {
        for (job, field) in [
            (info as fn(Fields<'_>) -> Result<Value>, "saturate"),
            (report, "output"),
            (cast, "layout"),
            (quantize, "saturate"),
            (quantize, "typo"),
        ] {
            let mut request = Map::new();
            request.insert(field.to_owned(), json!(true));
            let request = Value::Object(request);
            let Failure(said) = job(Fields(&request)).expect_err("refused");
            assert_eq!(said, format!("`{field}` is not an option here"));
        }
    }
}
