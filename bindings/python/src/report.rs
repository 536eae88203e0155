//! The loss of casts to several types: reports of the file crate on files and arrays, with the same output as the
//! command's.

use crate::array::Contiguous;
use crate::error::{in_words, refused};
use crate::files::{Given, Read};
use crate::job::packed;
use crate::options::Options;
use crate::types::type_of;
use crate::watched::watched;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use onnx_cast::TensorView;
use onnx_cast_file::__private::create_page;
use onnx_cast_file::{AtomicFile, CandidateFormat, Existing, FileError, Report};
use onnx_cast_report::Tables;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// A report, with what is shown of it.
#[pyclass(frozen, module = "onnx_cast._native")]
pub(crate) struct Found {
    /// What its page is titled.
    title: String,
    verdicts: Vec<(String, String)>,
    tables: Tables,
    figures: Figures,
}

/// Where the figures of a report are.
enum Figures {
    Report(Report),
    /// In what another process wrote, which a pickle holds.
    Written {
        json: String,
        page: String,
    },
}

/// What a pickle holds: title, verdicts, tables, the number of other tensors, JSON and page.
type Pickled = (String, Vec<(String, String)>, Vec<(String, Vec<String>)>, usize, String, String);

impl Found {
    fn of(title: String, report: Report) -> Self {
        let verdict = |&to: &CandidateFormat| (to.to_string(), onnx_cast_report::verdict(to, &report.totals(to)));
        let verdicts = report.to.iter().map(verdict).collect();
        Found { title, verdicts, tables: Tables::new(&report), figures: Figures::Report(report) }
    }
}

#[pymethods]
impl Found {
    /// What a pickle held.
    #[new]
    fn new(
        title: String,
        verdicts: Vec<(String, String)>,
        tables: Vec<(String, Vec<String>)>,
        others: usize,
        json: String,
        page: String,
    ) -> Self {
        Found { title, verdicts, tables: Tables { tables, others }, figures: Figures::Written { json, page } }
    }

    fn __reduce__<'py>(this: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyType>, Pickled)> {
        let found = this.get();
        let (title, verdicts, Tables { tables, others }) =
            (found.title.clone(), found.verdicts.clone(), found.tables.clone());
        Ok((this.get_type(), (title, verdicts, tables, others, found.json()?, found.page()?)))
    }

    /// Options that had no effect, each with the reason.
    #[getter]
    fn ignored(&self) -> Vec<(&str, &str)> {
        match &self.figures {
            Figures::Report(report) => report.ignored.iter().map(|one| (one.option, one.reason)).collect(),
            Figures::Written { .. } => Vec::new(),
        }
    }

    /// The same object, which does not change.
    fn __deepcopy__<'py>(this: Bound<'py, Self>, _memo: &Bound<'py, PyAny>) -> Bound<'py, Self> {
        this
    }

    /// What it is of.
    #[getter]
    fn title(&self) -> &str {
        &self.title
    }

    /// The candidates by name, each with what is said of it.
    #[getter]
    fn verdicts(&self) -> Vec<(String, String)> {
        self.verdicts.clone()
    }

    /// Tables of so many rows; with 0, of all.
    fn text(&self, top: usize) -> String {
        self.tables.text(top, "`top`")
    }

    fn json(&self) -> PyResult<String> {
        match &self.figures {
            Figures::Report(report) => Ok(onnx_cast_report::json(report).map_err(refused)?.to_string()),
            Figures::Written { json, .. } => Ok(json.clone()),
        }
    }

    fn page(&self) -> PyResult<String> {
        match &self.figures {
            Figures::Report(report) => onnx_cast_report::page(&self.title, report).map_err(refused),
            Figures::Written { page, .. } => Ok(page.clone()),
        }
    }
}

/// Checks the path of a file to write.
#[pyfunction]
pub(crate) fn check_output(path: PathBuf, force: bool) -> PyResult<()> {
    Existing::new(force).check_file(&path).map_err(FileError::from).map_err(in_words)
}

/// Writes a text to a file, which appears whole or not at all; a page replaces nothing but a page.
#[pyfunction]
pub(crate) fn write_text(py: Python<'_>, path: PathBuf, text: String, force: bool) -> PyResult<()> {
    py.detach(|| {
        let existing = Existing::new(force);
        let created = match text.starts_with('<') {
            true => create_page(&path, existing),
            false => {
                let file = || AtomicFile::create(&path, existing.replaces());
                existing.check_file(&path).and_then(|()| Ok(file()?))
            }
        };
        let mut file = created.map_err(FileError::from).map_err(in_words)?;
        file.write_all(text.as_bytes()).map_err(|error| in_words(FileError::io(&path, "write", error)))?;
        file.commit().map_err(FileError::from).map_err(in_words)
    })
}

/// Compares what casts would do to the tensors of a file.
#[pyfunction]
pub(crate) fn report_file(
    py: Python<'_>,
    input: Given,
    title: String,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<Found> {
    let state = Arc::default();
    let request = options.report(&state)?;
    let input = Read::from(input);
    let report = watched(py, &state, progress, || match &input {
        Read::File(path) => onnx_cast_model::report(path, &request),
        Read::Memory(_) => onnx_cast_model::report_of(input.source(), &request),
    })?;
    let report = report.map_err(in_words)?;
    Ok(Found::of(title, report))
}

/// Compares what casts would do to arrays, each with its name; `others` are not numbers.
#[pyfunction]
pub(crate) fn report_arrays(
    py: Python<'_>,
    arrays: Vec<(String, Bound<'_, PyUntypedArray>)>,
    others: usize,
    title: String,
    options: Options,
    progress: Option<Py<PyAny>>,
) -> PyResult<Found> {
    let state = Arc::default();
    let request = options.report(&state)?;
    let mut held = Vec::with_capacity(arrays.len());
    for (name, array) in &arrays {
        let dtype = array.dtype();
        let from = type_of(&dtype)?.ok_or_else(|| PyTypeError::new_err(format!("ONNX has no type for {dtype}")))?;
        held.push((name.as_str(), from, Contiguous::of(array)?));
    }
    let mut tensors = Vec::with_capacity(held.len());
    for (name, from, array) in &held {
        tensors.push((*name, *from, array.shape(), packed(*from, array.bytes(), array.shape().iter().product())));
    }
    let views = tensors.iter().map(|(name, from, shape, bytes)| Ok((*name, TensorView::new(*from, shape, bytes)?)));
    let views = views.collect::<Result<Vec<_>, onnx_cast::tensor::TensorError>>().map_err(refused)?;
    let mut report = watched(py, &state, progress, || onnx_cast_file::report_of(&views, &request))?.map_err(refused)?;
    report.others += others;
    Ok(Found::of(title, report))
}
