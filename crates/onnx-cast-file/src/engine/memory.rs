//! The output as tensors in memory.

use super::{Frame, OutputFile, OutputPlan, OutputTensor, Source};
use crate::error::FileError;
use crate::io::memory::zeros;
use crate::io::progress::Meter;
use crate::pipeline::InStretches;
use crate::summary::Summary;
use onnx_cast::Tensor;
use onnx_cast::tensor::{TensorError, TensorErrorKind};
use serde_json::Value;

/// Tensors that were made of others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MadeTensors {
    /// What became of each tensor, in the order of the output.
    pub summary: Summary,
    /// For each of them, the name of a tensor of the input that it is made of.
    pub sources: Vec<String>,
    /// For each of them, its elements; `None` where a tensor of the input is kept as it is.
    pub tensors: Vec<Option<Tensor>>,
    /// JSON: what `config.json` says under `quantization_config`. Plain weights, and some layouts, have none.
    pub quantization_config: Option<String>,
}

impl OutputPlan<'_> {
    /// Computes the output in memory. Tensors that are kept are not copied.
    pub(crate) fn into_memory(mut self) -> Result<MadeTensors, FileError> {
        self.check_names()?;
        for row in self.files.iter_mut().flat_map(|file| &mut file.rows).filter(|row| !row.summary.cast) {
            row.source = Source::NotCopied;
        }
        self.check_scales()?;
        let (rehearses, mut summary) = (!self.options.fail_on.is_empty(), self.summary());
        let meter = self.meter(rehearses, true);
        self.check(&self.checks.iter().collect::<Vec<_>>(), &meter)?;
        self.measure(&self.measured, &meter)?;
        if rehearses {
            self.rehearse(&meter, &mut summary)?;
            self.files.iter().for_each(OutputFile::reset);
        }
        let (mut sources, mut tensors) = (Vec::new(), Vec::new());
        for file in &self.files {
            tensors.extend(self.file_in_memory(file, &meter)?);
            sources.extend(file.rows.iter().map(|row| self.made_of(row).to_owned()));
        }
        self.note_counts(&mut summary)?;
        let quantization_config = self.configuration.as_ref().map(Value::to_string);
        Ok(MadeTensors { summary, sources, tensors, quantization_config })
    }

    /// The tensors of a file.
    fn file_in_memory(&self, file: &OutputFile<'_>, meter: &Meter<'_>) -> Result<Vec<Option<Tensor>>, FileError> {
        let failed =
            |row: &OutputTensor<'_>, error: TensorError| FileError::cast(&file.path, &row.summary.name, error.into());
        let is_nowhere = |row: &OutputTensor<'_>| matches!(row.source, Source::NotCopied);
        let room = |row: &OutputTensor<'_>| {
            let len = if is_nowhere(row) { Some(0) } else { usize::try_from(row.summary.bytes_after).ok() };
            let (data_type, shape) = (row.summary.to, &row.summary.shape);
            let too_large = || failed(row, TensorErrorKind::TooLarge { data_type, shape: shape.clone() }.into());
            len.and_then(zeros).ok_or_else(too_large)
        };
        let mut rooms = file.rows.iter().map(room).collect::<Result<Vec<_>, _>>()?;
        let (mut sink, mut at) = (InStretches::default(), 0);
        for (row, bytes) in file.rows.iter().zip(&mut rooms) {
            sink.add(at, bytes);
            at += row.summary.bytes_after;
        }
        self.pass(file, &Frame::default(), &sink, meter)?;
        drop(sink);
        let tensor = |(row, bytes): (&OutputTensor<'_>, Vec<u8>)| {
            let tensor = || Tensor::new(row.summary.to, row.summary.shape.clone(), bytes);
            (!is_nowhere(row)).then(tensor).transpose().map_err(|error| failed(row, error))
        };
        file.rows.iter().zip(rooms).map(tensor).collect()
    }
}
