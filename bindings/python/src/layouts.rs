//! Quantized tensors in memory: arrays in, arrays out, with the jobs of the file crate.

use crate::array::Contiguous;
use crate::error::{in_words, refused};
use crate::files::object;
use crate::job::packed;
use crate::options::Options;
use crate::types::number_to_type;
use crate::watched::watched;
use numpy::{IntoPyArray, PyArray1, PyUntypedArray};
use onnx_cast::tensor::element_count;
use onnx_cast_file::{
    FileError, HeldTensor, MadeTensors, TensorsInMemory, dequantize_tensors, quantize_tensors, transcode_tensors,
};
use onnx_cast_report::{cast_json, quantized_json};
use pyo3::prelude::*;
use std::path::Path;
use std::sync::Arc;

/// A tensor: its name, its elements or the packed bytes of them, the number of its type, its shape, and whether the
/// bytes are packed.
#[derive(FromPyObject)]
pub(crate) struct Lent<'py>(String, Bound<'py, PyUntypedArray>, i64, Vec<usize>, bool);

impl Lent<'_> {
    fn hold(self) -> PyResult<HeldTensor> {
        let Lent(name, array, number, shape, is_packed) = self;
        let data_type = number_to_type(number)?;
        let array = Contiguous::of(&array)?;
        if data_type.is_packed() && !is_packed {
            let len = element_count(&shape).unwrap_or(0);
            let bytes = Box::new(packed(data_type, array.bytes(), len).into_owned());
            return Ok(HeldTensor { name, data_type, shape, bytes });
        }
        Ok(HeldTensor { name, data_type, shape, bytes: Box::new(array.hold()) })
    }
}

fn tensors_of(tensors: Vec<Lent<'_>>, config: Option<&str>) -> PyResult<TensorsInMemory> {
    let held = tensors.into_iter().map(Lent::hold).collect::<PyResult<Vec<_>>>()?;
    TensorsInMemory::new(held, config).map_err(refused)
}

/// Results of a job on tensors: the summary, the name of each tensor's source, the bytes of each tensor (`None` if
/// unchanged), the quantization configuration, and the error text of a loss that the request forbids.
type Made<'py> =
    (Bound<'py, PyAny>, Vec<String>, Vec<Option<Bound<'py, PyArray1<u8>>>>, Option<String>, Option<String>);

/// Does a job on tensors: `dequantize`, `quantize` or `transcode`.
#[pyfunction]
pub(crate) fn rewrite_tensors<'py>(
    py: Python<'py>,
    job: &str,
    tensors: Vec<Lent<'py>>,
    config: Option<String>,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<Made<'py>> {
    let state = Arc::default();
    let tensors = tensors_of(tensors, config.as_deref())?;
    let done = match job {
        "dequantize" => {
            let request = options.dequantize(&state)?;
            watched(py, &state, progress, || dequantize_tensors(tensors, &request))?
        }
        "quantize" => {
            let request = options.quantize(&state)?;
            watched(py, &state, progress, || quantize_tensors(tensors, &request))?
        }
        _ => {
            let request = options.transcode(&state)?;
            watched(py, &state, progress, || transcode_tensors(tensors, &request))?
        }
    };
    let json = |summary| object(py, &cast_json(Path::new("tensors"), Path::new("tensors"), false, summary));
    match done {
        Ok(MadeTensors { summary, sources, tensors, quantization_config, .. }) => {
            let array = |tensor: onnx_cast::Tensor| Some(tensor.into_bytes()?.into_pyarray(py));
            let arrays = tensors.into_iter().map(|tensor| tensor.and_then(array)).collect();
            Ok((json(&summary)?, sources, arrays, quantization_config, None))
        }
        Err(loss @ FileError::Loss { .. }) => {
            let FileError::Loss { summary, .. } = &loss else { return Err(refused(loss)) };
            Ok((json(summary)?, Vec::new(), Vec::new(), None, Some(loss.to_string())))
        }
        Err(error) => Err(in_words(error)),
    }
}

/// The quantized weights among tensors.
#[pyfunction]
pub(crate) fn quantized_tensors<'py>(
    py: Python<'py>,
    tensors: Vec<Lent<'_>>,
    config: Option<String>,
    options: Options,
) -> PyResult<Bound<'py, PyAny>> {
    let (state, layout) = (Arc::default(), options.layout()?);
    let tensors = tensors_of(tensors, config.as_deref())?;
    let found = watched(py, &state, None, || onnx_cast_file::quantized_tensors(&tensors, layout))?;
    object(py, &quantized_json(&found.map_err(in_words)?))
}
