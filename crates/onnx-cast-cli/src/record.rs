//! `record`.

use crate::args::{Common, NameArgs, RecordArgs};
use crate::models::{ModelJob, Shown};
use anyhow::Result;
use onnx_cast::__private::Count;
use onnx_cast_model::{RecordRequest, RecordSummary, RecordedValue};
use onnx_cast_report::{column, printable, record_json};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) fn record(args: &RecordArgs, common: &Common) -> Result<()> {
    let RecordArgs { model, names, dry_run, write } = args;
    let job = ModelJob::new("record", model, *dry_run, common)?;
    let NameArgs { include, exclude } = names;
    job.show(&job.run(write, |input, output, run| {
        let (include, exclude, storage) = (include.clone(), exclude.clone(), write.storage.storage());
        onnx_cast_model::record(
            input,
            output,
            &RecordRequest::default().include(include).exclude(exclude).storage(storage).run(run),
        )
    })?)
}

impl Shown for RecordSummary {
    fn json(&self, input: &Path, output: &Path, dry_run: bool) -> Value {
        record_json(input, output, dry_run, self)
    }

    fn counts(&self) -> String {
        let RecordSummary { values, inner, .. } = self;
        let left = if *inner == 0 { String::new() } else { format!(" ({inner} in functions left out)") };
        format!("{} recorded{left}", Count(values.len(), "value"))
    }

    fn plan(&self) -> String {
        let width = column(self.values.iter().map(|value| printable(&value.name)), "value");
        let mut text = format!("{:width$}  {:8}  output\n", "value", "type");
        for RecordedValue { name, data_type, output, .. } in &self.values {
            let (name, output) = (printable(name), printable(output));
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{name:width$}  {:8}  {output}", data_type.name());
        }
        text
    }
}
