//! Files that the host lends: what they hold, what casts would lose, and casts of them.

use crate::fields::Fields;
use crate::{Failure, Result};
use onnx_cast_file::{
    CandidateFormat, CastRequest, InspectRequest, Layout, ModelOptions, QuantizeRequest, RawInput, ReportRequest,
    RunOptions, Selection, Watch, WeightFormat, Wording,
};
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

/// The fields of requests: those of every job, those of a cast, and those of each job by itself.
const ALL: &[&str] = &["path", "include", "exclude"];
const CAST: &[&str] = &["from", "opset", "saturate", "round_mode"];
const INFO: &[&str] = &["from", "values", "types"];
const REPORT: &[&str] = &["to", "rule", "min_size", "title", "page"];
const CAST_FILE: &[&str] = &["output", "to", "raise_opset"];
const QUANTIZE_FILE: &[&str] = &["output", "to", "layout", "activations", "rule", "form", "zero_points", "raise_opset"];

/// What a file holds.
pub(crate) fn info(fields: Fields<'_>) -> Result<Value> {
    fields.only(&[ALL, INFO])?;
    let path = Path::new(fields.required("path")?);
    let request = InspectRequest::default()
        .include(fields.patterns("include")?)
        .exclude(fields.patterns("exclude")?)
        .from(fields.parse("from")?)
        .values(fields.flag("values")?.unwrap_or(false))
        .types(fields.flag("types")?.unwrap_or(false))
        .threads(Some(1))
        .watch(watch());
    Ok(info_json(&inspect_any(path, &request).map_err(|error| in_words(&error.wording()))?))
}

/// What casts would lose, as figures; where a page is asked for, also what stands in it for `{{data}}`.
pub(crate) fn report(fields: Fields<'_>) -> Result<Value> {
    fields.only(&[ALL, CAST, REPORT])?;
    let path = fields.required("path")?;
    let candidates = fields.texts("to")?.into_iter().map(|text| Ok(text.parse::<CandidateFormat>()?));
    let request = ReportRequest::default()
        .to(candidates.collect::<Result<_>>()?)
        .rule(fields.parse("rule")?)
        .include(fields.patterns("include")?)
        .exclude(fields.patterns("exclude")?)
        .min_size(fields.size("min_size")?)
        .options(fields.options()?)
        .from(fields.parse("from")?)
        .watch(watch());
    let report = report_any(path, &request).map_err(|error| in_words(&error.wording()))?;
    let title = fields.text("title")?.unwrap_or(path);
    let shown = fields.flag("page")?.unwrap_or(false).then(|| page_data(title, &report));
    Ok(json!({ "report": report_json(&report)?, "page_data": shown.transpose()? }))
}

/// The file or checkpoint, cast.
pub(crate) fn cast(fields: Fields<'_>) -> Result<Value> {
    fields.only(&[ALL, CAST, CAST_FILE])?;
    let (input, output) = (fields.required("path")?, fields.required("output")?);
    let request = CastRequest::default()
        .selection(Selection {
            include: fields.patterns("include")?,
            exclude: fields.patterns("exclude")?,
            ..Selection::new(fields.data_type("to")?)
        })
        .options(fields.options()?)
        .run(RunOptions::new().copy_others(false).watch(watch()))
        .raw(RawInput::default().from(fields.parse("from")?))
        .model(ModelOptions::default().raise_opset(fields.flag("raise_opset")?.unwrap_or(false)));
    let done = cast_any(input, output, &request).map_err(|error| in_words(&error.wording()))?;
    Ok(cast_json(Path::new(input), Path::new(output), false, &done))
}

fn no_layout(name: &str) -> String {
    let known: Vec<&str> = Layout::ALL.iter().map(|(_, name)| *name).collect();
    format!("`layout` is `{name}` (want {})", known.join(", "))
}

/// The weights of a checkpoint or of a model, quantized.
pub(crate) fn quantize(fields: Fields<'_>) -> Result<Value> {
    fields.only(&[ALL, QUANTIZE_FILE])?;
    let (input, output) = (fields.required("path")?, fields.required("output")?);
    let to: WeightFormat = fields.parse("to")?.ok_or("`to` is not given")?;
    let request = QuantizeRequest::new(to)
        .selection(Selection {
            include: fields.patterns("include")?,
            exclude: fields.patterns("exclude")?,
            ..Selection::new(to)
        })
        .layout(fields.text("layout")?.map(|name| Layout::from_name(name).ok_or_else(|| no_layout(name))).transpose()?)
        .activations(fields.parse("activations")?)
        .rule(fields.parse("rule")?)
        .form(fields.parse("form")?.unwrap_or_default())
        .zero_points(fields.flag("zero_points")?.unwrap_or(false))
        .run(RunOptions::new().threads(Some(1)).copy_others(false).watch(watch()))
        .model(ModelOptions::default().raise_opset(fields.flag("raise_opset")?.unwrap_or(false)));
    let done = quantize_any(input, output, &request).map_err(|error| in_words(&error.wording()))?;
    Ok(cast_json(Path::new(input), Path::new(output), false, &done))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    /// What an option of the command is called here, where it has another name.
    const RENAMED: &[(&str, &str)] = &[("--min-elements", "min_size"), ("--scale-rule", "rule"), ("--stats", "values")];

    /// Fields without an option, and why.
    const NO_OPTION: &[(&str, &str)] =
        &[("path", "an argument"), ("output", "an argument"), ("title", "of the page"), ("page", "--html")];

    /// Options without a field, and why.
    const NO_FIELD: &[(&str, &str)] = &[
        ("--color", "of a terminal"),
        ("--dry-run", "the outputs are blobs, which nothing forces a page to keep"),
        ("--external-data", "the host names the outputs"),
        ("--external-threshold", "the host names the outputs"),
        ("--fail-on", "the summary counts what is lost"),
        ("--force", "nothing is replaced"),
        ("--html", "`page` and `title`"),
        ("--in-format", "no standard input here"),
        ("--json", "answers are JSON"),
        ("--layout", "of a report: predictions are those of the default"),
        ("--losses", "the summary counts what is lost"),
        ("--min-elements", "of casts and quantizations: patterns choose"),
        ("--no-clobber", "nothing is replaced"),
        ("--no-copy-others", "other files are not lent"),
        ("--no-saturate", "`saturate`"),
        ("--npy-plain", "the type is in the answer"),
        ("--out-dir", "one job, one output"),
        ("--out-format", "no standard output here"),
        ("--quiet", "nothing is printed"),
        ("--resume", "nothing is there"),
        ("--rule", "a module for browsers casts to one type"),
        ("--rules-file", "a module for browsers casts to one type"),
        ("--shape", "raw bytes are arrays in JavaScript"),
        ("--threads", "a module has one thread"),
        ("--top", "the answer has all rows"),
        ("--verbose", "nothing is printed"),
    ];

    /// Each job has the options of the command of its name, or it is said why not; and nothing else.
    #[test]
    fn requests_have_the_options_of_the_command() {
        let options = include_str!("../../onnx-cast-cli/tests/data/options.txt");
        let named = |option: &str| match RENAMED.iter().find(|(known, _)| *known == option) {
            Some((_, name)) => (*name).to_owned(),
            None => option.trim_start_matches("--").replace('-', "_"),
        };
        for (command, fields) in [
            ("info", &[ALL, INFO][..]),
            ("report", &[ALL, CAST, REPORT]),
            ("cast", &[ALL, CAST, CAST_FILE]),
            ("quantize", &[ALL, QUANTIZE_FILE]),
        ] {
            let fields = fields.concat();
            let lines = options.lines().filter_map(|line| line.split_once(' '));
            let options: Vec<&str> =
                lines.filter(|(of, name)| *of == command && name.starts_with("--")).map(|(_, name)| name).collect();
            for option in &options {
                let is_explained = NO_FIELD.iter().any(|(known, _)| known == option);
                assert!(fields.contains(&&*named(option)) || is_explained, "{command} {option} has no field");
            }
            for field in fields {
                let is_explained = NO_OPTION.iter().any(|(known, _)| *known == field);
                let is_option = options.iter().any(|option| named(option) == field);
                assert!(is_option || is_explained, "{command} has no option for `{field}`");
            }
        }
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
