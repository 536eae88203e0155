//! The options of a job, as Python passes them, and the requests that they become.

use crate::error::{Refusal, in_words, refused, system};
use crate::watched::{State, watch};
use onnx_cast::DataType;
use onnx_cast_file::__private::{Field, with_options};
use onnx_cast_file::{
    BitCastRequest, CandidateFormat, CastRequest, DequantizeRequest, DiffRequest, InspectRequest, Layout,
    QuantizeRequest, ReportRequest, Rule, TranscodeRequest,
};
use onnx_cast_model::{ConvertRequest, FoldRequest, RecordRequest, UpgradeRequest};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Value};
use std::fmt::Display;
use std::fs::File;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// What to do, as Python passes it: a dictionary of the request's options, which have the names of the command's. Files
/// of rules and of ranges are paths, which need not be text.
pub(crate) struct Options {
    given: Map<String, Value>,
    rules_file: Option<PathBuf>,
    ranges_file: Option<PathBuf>,
}

impl FromPyObject<'_, '_> for Options {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let options = object.cast::<PyDict>()?.copy()?;
        let file = |name: &str| -> PyResult<Option<PathBuf>> {
            let path = options.get_item(name)?.map(|path| path.extract::<Option<PathBuf>>()).transpose()?;
            if path.is_some() {
                options.del_item(name)?;
            }
            Ok(path.flatten())
        };
        let (rules_file, ranges_file) = (file("rules_file")?, file("ranges_file")?);
        let given = options.iter().map(|(name, value)| Ok((name.extract::<String>()?, json(&value)?)));
        Ok(Options { given: given.collect::<PyResult<_>>()?, rules_file, ranges_file })
    }
}

/// A value of Python's as JSON. Infinities and NaN are texts, as JSON has neither.
fn json(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(flag.is_true().into());
    }
    if let Ok(number) = object.cast::<PyInt>() {
        return Ok(number.extract::<i64>()?.into());
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        let number = number.value();
        return Ok(if number.is_finite() { number.into() } else { number.to_string().into() });
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(text.to_cow()?.into());
    }
    if let Ok(entries) = object.cast::<PyDict>() {
        let entries = entries.iter().map(|(name, value)| Ok((name.extract::<String>()?, json(&value)?)));
        return Ok(Value::Object(entries.collect::<PyResult<_>>()?));
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        return Ok(Value::Array(object.try_iter()?.map(|item| json(&item?)).collect::<PyResult<_>>()?));
    }
    Err(refused(format_args!("{} cannot be the value of an option", object.repr()?)))
}

impl Options {
    /// A request with the options, which must be options of it.
    fn request<R: Field>(&self, defaults: R) -> PyResult<R> {
        with_options(defaults, &self.given).map_err(|error| Refusal::of_option(&error, &self.given).into())
    }

    pub(crate) fn dry_run(&self) -> bool {
        self.given.get("dry_run").and_then(Value::as_bool).unwrap_or(false)
    }

    /// The rules of the file, before those that are given.
    fn rules<T: FromStr<Err: Display>>(&self, given: &mut Vec<Rule<T>>) -> PyResult<()> {
        let Some(path) = &self.rules_file else { return Ok(()) };
        let rules = Rule::read(path).map_err(|error| {
            let missing = File::open(path).err().and_then(|cause| system(path, &cause));
            missing.unwrap_or_else(|| refused(error))
        })?;
        given.splice(0..0, rules);
        Ok(())
    }

    /// The layout, where it is given.
    pub(crate) fn layout(&self) -> PyResult<Option<Layout>> {
        Ok(self.request(DequantizeRequest::default())?.layout)
    }

    pub(crate) fn convert(&self, state: &Arc<State>) -> PyResult<ConvertRequest> {
        let mut request = self.request(ConvertRequest::new(DataType::Float16))?;
        if let Some(path) = &self.ranges_file {
            request.ranges = onnx_cast_model::read_ranges(path).map_err(in_words)?;
        }
        request.run.watch = Some(watch(state));
        Ok(request)
    }

    pub(crate) fn inspect(&self, state: &Arc<State>) -> PyResult<InspectRequest> {
        Ok(self.request(InspectRequest::default())?.watch(Some(watch(state))))
    }

    pub(crate) fn diff(&self, state: &Arc<State>) -> PyResult<DiffRequest> {
        Ok(self.request(DiffRequest::default())?.watch(Some(watch(state))))
    }

    pub(crate) fn report(&self, state: &Arc<State>) -> PyResult<ReportRequest> {
        let mut request = self.request(ReportRequest::default())?.watch(Some(watch(state)));
        let mut to: Vec<CandidateFormat> = Vec::new();
        for candidate in request.to {
            if !to.contains(&candidate) {
                to.push(candidate);
            }
        }
        request.to = to;
        Ok(request)
    }
}

/// The requests that have nothing to add to their options; those with rules get the rules of the file, too.
macro_rules! requests {
    ($($name:ident: $kind:ident = $defaults:expr $(, $($rules:ident).+)?;)*) => {
        impl Options {
            $(
                pub(crate) fn $name(&self, state: &Arc<State>) -> PyResult<$kind> {
                    let mut request = self.request($defaults)?;
                    $(self.rules(&mut request.$($rules).+)?;)?
                    request.run.watch = Some(watch(state));
                    Ok(request)
                }
            )*
        }
    };
}
requests! {
    cast: CastRequest = CastRequest::default(), selection.rules;
    bit_cast: BitCastRequest = BitCastRequest::default(), selection.rules;
    dequantize: DequantizeRequest = DequantizeRequest::default(), selection.rules;
    quantize: QuantizeRequest = QuantizeRequest::default(), selection.rules;
    // The layout is one of the options, and always given.
    transcode: TranscodeRequest = TranscodeRequest::new(Layout::CompressedTensors);
    fold: FoldRequest = FoldRequest::default();
    upgrade: UpgradeRequest = UpgradeRequest::default();
    record: RecordRequest = RecordRequest::default();
}
