//! What casts would lose, counted by the file crate in one pass over an array, whose results are not kept.

use crate::array::{Elements, Source};
use crate::error::of_cast;
use crate::job::packed;
use crate::operator::Operator;
use crate::parse::in_array;
use crate::string_array::StringArray;
use crate::text::strings_of;
use crate::types::type_of;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use onnx_cast::__private::{DefaultEnvironment, current_threads, with_threads};
use onnx_cast::tensor::Strings;
use onnx_cast::{CastError, DataType, Plan, TensorView};
use onnx_cast_file::{Counts, Means};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rayon::prelude::*;
use std::iter;

/// Elements that one thread counts as a unit: a multiple of 8. Units do not depend on the number of threads, so neither
/// do the sums for the mean errors.
const PIECE: usize = 1 << 20;

/// Texts that one thread counts as a unit.
const TEXTS: usize = 1 << 12;

/// Pieces between which the interpreter is asked whether it was interrupted.
const STRETCH: usize = 32;

/// Values, overflowed, saturated, zero, subnormal, NaN, infinite; the errors: the largest, the largest relative to its
/// value, and their means; and the values that became NaN.
type Row = ((u64, u64, u64, u64, u64, u64, u64), (f64, f64, f64, f64), u64);

fn row(counts: &Counts, means: &Means) -> Row {
    let Counts { values, overflowed, saturated, zero, subnormal, nan, infinite, became_nan, .. } = *counts;
    let errors = (counts.max_error, counts.max_relative_error, means.error(), means.relative_error());
    ((values, overflowed, saturated, zero, subnormal, nan, infinite), errors, became_nan)
}

/// Counts what an operator would do to the elements of an array of numbers.
#[pyfunction]
pub(crate) fn count<'py>(
    py: Python<'py>,
    operator: &Bound<'py, Operator>,
    array: &Bound<'py, PyUntypedArray>,
) -> PyResult<Row> {
    let dtype = array.dtype();
    let from = type_of(&dtype)?.ok_or_else(|| PyTypeError::new_err(format!("ONNX has no type for {dtype}")))?;
    let plan = operator.get().plan(from)?;
    let source = Source::of(array, iter::empty())?;
    let (mut rest, len) = (source.elements(), array.len());
    let size = |len| if from.is_packed() { len } else { from.byte_len(len).unwrap_or(0) };
    let pieces: Vec<(Elements<'_>, usize)> = (0..len)
        .step_by(PIECE)
        .map(|at| {
            let len = PIECE.min(len - at);
            let (piece, behind) = rest.split_at(size(len));
            rest = behind;
            (piece, len)
        })
        .collect();
    total(py, operator, &pieces, |(elements, len)| piece(&plan, elements.gathered(&mut Vec::new()).bytes(), *len))
}

/// The counts of pieces together, which threads count while other Python threads run.
fn total<T: Sync>(
    py: Python<'_>,
    operator: &Bound<'_, Operator>,
    pieces: &[T],
    count: impl Fn(&T) -> Result<(Counts, Means), CastError> + Sync,
) -> PyResult<Row> {
    let _environment = DefaultEnvironment::enter();
    let (mut total, mut means) = (Counts::default(), Means::default());
    for stretch in pieces.chunks(STRETCH) {
        let least = operator.get().threads().map_or(1, |threads| stretch.len().div_ceil(threads));
        let work = || match least < stretch.len() && current_threads() > 1 {
            true => stretch.par_iter().with_min_len(least).map(&count).collect(),
            false => stretch.iter().map(&count).collect(),
        };
        let counted: Vec<Result<(Counts, Means), CastError>> = py.detach(|| with_threads(work));
        // In their order, so that the first error is told.
        for one in counted {
            let (counts, errors) = one.map_err(of_cast)?;
            total.add(&counts);
            means.add(&errors);
        }
        py.check_signals()?;
    }
    Ok(row(&total, &means))
}

/// Counts a piece; elements narrower than a byte stand one in a byte.
fn piece(plan: &Plan, bytes: &[u8], len: usize) -> Result<(Counts, Means), CastError> {
    let bytes = packed(plan.source_type(), bytes, len);
    Counts::of(plan, &TensorView::new(plan.source_type(), &[len], &bytes)?)
}

/// Counts what an operator would do to a list of texts.
#[pyfunction]
pub(crate) fn count_texts<'py>(
    py: Python<'py>,
    operator: &Bound<'py, Operator>,
    texts: &Bound<'py, PyList>,
) -> PyResult<Row> {
    of_strings(py, operator, &strings_of(texts)?)
}

/// Counts what an operator would do to the texts of an array of `StringDType`.
#[pyfunction]
pub(crate) fn count_strings<'py>(
    py: Python<'py>,
    operator: &Bound<'py, Operator>,
    array: &Bound<'py, PyUntypedArray>,
) -> PyResult<Row> {
    of_strings(py, operator, &StringArray::of(array)?.strings()?)
}

fn of_strings<'py>(py: Python<'py>, operator: &Bound<'py, Operator>, strings: &Strings) -> PyResult<Row> {
    let plan = operator.get().plan(DataType::String)?;
    let texts = strings.view();
    let starts: Vec<usize> = (0..texts.len()).step_by(TEXTS).collect();
    total(py, operator, &starts, |&start| {
        let end = texts.len().min(start + TEXTS);
        let mut piece = Strings::try_with_capacity(end - start, 0)?;
        (start..end).filter_map(|index| texts.get(index)).try_for_each(|text| piece.try_push(text))?;
        let shape = [end - start];
        let view = TensorView::strings(&shape, piece.view())?;
        Counts::of(&plan, &view).map_err(|error| in_array(error, start))
    })
}
