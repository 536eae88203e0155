"""Columns of tables: numpy arrays, Arrow's arrays, series of pandas and polars, of numbers or of lists of them of one
length (embeddings). :func:`cast_columns` is what ``ray.data.Dataset.map_batches`` takes.

Tables lack most of ONNX's types. Results of those are stored as the unsigned integers of their bits, and types narrower
than a byte as the packed bytes of each list: ``stored=`` says so where such a column is cast again. Nulls stay nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from onnx_cast import CastError, _kinds, _native, _targets, cast, unpack
from onnx_cast._operators import opaque
from onnx_cast.types import RoundMode, To

__all__ = ["cast_column", "cast_columns"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: What makes the elements of a result of those of a column.
_Elements = Callable[[np.ndarray], np.ndarray]


@opaque
def cast_columns(
    batch: Any,
    to: Mapping[str, To],
    *,
    stored: Mapping[str, To] | None = None,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
) -> Any:
    """The batch (a dictionary of numpy arrays, a DataFrame of pandas or polars, an Arrow Table or RecordBatch) with the
    columns that ``to`` names cast to its types. ``stored`` maps columns to the types whose bits they hold."""
    given = {"saturate": saturate, "round_mode": round_mode, "opset": opset}

    def column(name):
        return cast_column(batch[name], to[name], stored=(stored or {}).get(name), **given)

    is_arrow = _kinds.is_of(batch, "pyarrow", "Table", "RecordBatch")
    is_frame = _kinds.is_of(batch, "pandas", "DataFrame")
    is_polars = _kinds.is_of(batch, "polars", "DataFrame")
    if not (is_arrow or is_frame or is_polars or isinstance(batch, Mapping)):
        kinds = "a dictionary of arrays, a DataFrame of pandas or polars, or an Arrow table"
        raise TypeError(f"the batch is of type {type(batch).__name__} (want {kinds})")
    names = batch.schema.names if is_arrow else list(batch.columns if is_polars else batch)
    for name in to:
        if name not in names:
            raise CastError(f"no column `{name}` (want one of {', '.join(map(str, names))})")
    if is_arrow:
        for name in to:
            batch = batch.set_column(names.index(name), name, column(name))
        return batch
    if is_polars:
        return batch.with_columns([column(name) for name in to])
    result = batch.copy(deep=False) if is_frame else dict(batch)
    for name in to:
        result[name] = column(name)
    return result


@opaque
def cast_column(
    column: Any,
    to: To,
    *,
    stored: To | None = None,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
) -> Any:
    """A column as another type, in its own kind: a numpy array whose rows are those of the column, an Arrow array
    (chunked or not), or a Series of pandas or polars, of numbers or of lists of one length."""

    def elements(array: np.ndarray) -> np.ndarray:
        return _cast(array, to, stored, {"saturate": saturate, "round_mode": round_mode, "opset": opset})

    if isinstance(column, np.ndarray):
        return elements(_stack(column) if column.dtype == object else column)
    if _kinds.is_of(column, "pyarrow", "Array", "ChunkedArray"):
        return _cast_arrow(column, elements)
    if _kinds.kind_of(column) in ("pandas", "polars"):
        return _cast_series(column, elements, _bits_of)
    kinds = "a numpy array, an Arrow array, or a Series of pandas or polars"
    raise TypeError(f"the column is of type {type(column).__name__} (want {kinds})")


def run(operator: _native.Operator, column: Any, out: Any, packed: bool) -> Any:
    """The result of an operator for a Series of pandas or polars, as a Series, which has a type of the column's package:
    bits alone do not say what they are."""
    package = _kinds.kind_of(column)
    if out is not None or packed:
        raise TypeError(f"a Series of {package} has no packed bytes and takes no out (want its elements, to_numpy())")

    def lacking(array: np.ndarray) -> np.ndarray:
        name = _targets.ROWS[operator.to]["name"]
        text = f"a Series of type {column.dtype} has no {name} (want onnx_cast.columns.cast_column, which stores its bits)"
        raise TypeError(text)

    def elements(array: np.ndarray) -> np.ndarray:
        _bits(operator.to)
        made = _targets.DTYPES[operator.to]
        return operator.run(array, None, False) if made.isbuiltin == 1 else lacking(array)

    return _cast_series(column, elements, lacking)


def array_of(column: Any, name: str) -> np.ndarray:
    """The elements of a Series without nulls."""
    is_pandas = _kinds.is_of(column, "pandas", "Series")
    if not isinstance(column.dtype, np.dtype) and (column.isna() if is_pandas else column.is_null()).any():
        raise TypeError(f"{name} is a Series with nulls (want one without, or its cast)")
    found: list[np.ndarray] = []

    def keep(array: np.ndarray) -> np.ndarray:
        found.append(array)
        return array

    _cast_series(column, keep, _bits_of)
    return np.concatenate(found) if found else np.empty(0)


def _cast_series(column: Any, elements: _Elements, lacking: _Elements) -> Any:
    """A Series of what ``elements`` makes, or what ``lacking`` does of a type that such a Series lacks."""
    if _kinds.is_of(column, "pandas", "Series"):
        return _cast_pandas(column, elements, lacking)
    return _cast_polars(column, elements, lacking)


def _bits_of(array: np.ndarray) -> np.ndarray:
    """The unsigned integers that store elements."""
    return array.view(f"u{array.dtype.itemsize}")


def _bits(number: int) -> int:
    row = _targets.ROWS[number]
    if row["bits"] is None or row["kind"] == "complex":
        raise CastError(f"columns of {row['name']} are not cast (want a type of numbers)")
    return row["bits"]


def _cast(array: np.ndarray, to: Any, stored: Any, attributes: dict[str, Any]) -> np.ndarray:
    """Rows, each of as many elements, as what stores another type."""
    if stored is not None:
        array = _read(array, _targets.target(stored)[0])
    number = _targets.target(to)[0]
    bits = _bits(number)
    if bits < 8:
        row = array.shape[1] * bits if array.ndim == 2 else bits
        if row % 8:
            raise CastError(f"rows of {row} bits (want lists of whole bytes, for {_targets.ROWS[number]['name']})")
        return cast(array, to, packed=True, **attributes).reshape(len(array), row // 8)
    result = cast(array, to, **attributes)
    return result if result.dtype.isbuiltin == 1 else _bits_of(result)


def _read(array: np.ndarray, number: int) -> np.ndarray:
    """The elements whose bits an array holds."""
    _kinds.unmasked(array, "the column")
    bits, dtype = _bits(number), _targets.DTYPES[number]
    want = np.dtype(f"u{dtype.itemsize}")
    if array.dtype != want:
        raise CastError(f"a column of {array.dtype} (want {want}, which stores {_targets.ROWS[number]['name']})")
    if bits >= 8:
        return array.view(dtype)
    row = array.shape[1] * 8 if array.ndim == 2 else 8
    if row % bits:
        raise CastError(f"rows of {row} bits (want whole elements of {_targets.ROWS[number]['name']})")
    return unpack(np.ascontiguousarray(array).reshape(-1), number, (len(array), row // bits))


def _stack(column: Any) -> np.ndarray:
    """The rows of a column of lists or arrays, which Ray Data makes of Arrow's too."""
    rows = [_kinds.unmasked(np.asanyarray(row), "a row") for row in column]
    if len({row.shape for row in rows}) > 1:
        raise CastError("lists of different lengths (want one length)")
    return np.stack(rows)


def _cast_arrow(column: Any, elements: Any) -> Any:
    import pyarrow

    if isinstance(column, pyarrow.ChunkedArray):
        chunks = column.chunks or [pyarrow.array([], column.type)]
        return pyarrow.chunked_array([_cast_arrow(chunk, elements) for chunk in chunks])
    if not isinstance(column, pyarrow.Array):
        raise TypeError(f"the column is of type {type(column).__name__} (want an Arrow array)")
    mask = column.is_null() if column.null_count else None
    if not pyarrow.types.is_fixed_size_list(column.type):
        result = elements(_arrow_numbers(column))
        if result.ndim == 1:
            return pyarrow.array(result, mask=None if mask is None else mask.to_numpy(zero_copy_only=False))
    else:
        if column.flatten().null_count:
            raise CastError("lists with nulls in them (want numbers; whole lists may be null)")
        width = column.type.list_size
        values = column.values.slice(column.offset * width, len(column) * width)
        result = elements(_arrow_numbers(values).reshape(len(column), width))
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(result.reshape(-1)), result.shape[1], mask=mask)


def _arrow_numbers(values: Any) -> np.ndarray:
    """The elements of an Arrow array, where they lie if they can be lent; zeros for nulls."""
    from pyarrow import types

    kind = values.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        raise TypeError(f"the column is of Arrow's type {kind} (want numbers, or fixed-size lists of them)")
    if values.null_count:
        values = values.fill_null(False if types.is_boolean(kind) else 0)
    return values.to_numpy(zero_copy_only=False)


def _cast_pandas(column: Any, elements: _Elements, lacking: _Elements) -> Any:
    import pandas
    from pandas import arrays

    given = {"index": column.index, "name": column.name}
    if isinstance(column.dtype, pandas.ArrowDtype):
        cast = _cast_arrow(column.array.__arrow_array__(), elements)
        return pandas.Series(arrays.ArrowExtensionArray(cast), **given)
    if isinstance(column.array, (arrays.IntegerArray, arrays.FloatingArray, arrays.BooleanArray)):
        dtype, mask = column.dtype.numpy_dtype, np.asarray(column.array.isna())
        result = elements(column.to_numpy(dtype=dtype, na_value=dtype.type(0)))
        if result.dtype == np.float16:  # which pandas has without nulls only
            result = lacking(result)
        kinds = {"f": arrays.FloatingArray, "b": arrays.BooleanArray}
        return pandas.Series(kinds.get(result.dtype.kind, arrays.IntegerArray)(result, mask), **given)
    if column.dtype == object:
        rows, present = column.to_numpy(copy=True), np.flatnonzero(column.notna())
        for at, row in zip(present, elements(_stack(rows[present])) if present.size else ()):
            rows[at] = row
        return pandas.Series(rows, dtype=object, **given)
    if not isinstance(column.dtype, np.dtype):
        raise TypeError(f"the column is of pandas' type {column.dtype} (want numbers of numpy's, nullable or Arrow's)")
    return pandas.Series(elements(column.to_numpy()), **given)


def _cast_polars(column: Any, elements: _Elements, lacking: _Elements) -> Any:
    import polars

    kind, width = column.dtype, None
    if isinstance(kind, polars.Array) and len(kind.shape) == 1:
        kind, width = kind.inner, kind.shape[0]
    has_numbers = kind == polars.Boolean or (kind.is_integer() or kind.is_float()) and "128" not in str(kind)
    if not has_numbers:
        kinds = "numbers of up to 64 bits, or an Array of them, as list.to_array(width) makes"
        raise TypeError(f"the column is of polars' type {column.dtype} (want {kinds})")
    mask, values = column.is_null(), column
    if width is not None:
        values = column.reshape((-1,)) if width and len(column) else polars.Series([], dtype=kind)
        if values.null_count() != mask.sum() * width:
            raise CastError("lists with nulls in them (want numbers; whole lists may be null)")
    array = values.fill_null(False if kind == polars.Boolean else 0).to_numpy()
    result = elements(array if width is None else array.reshape(len(column), width))
    if result.dtype == np.float16 and not hasattr(polars, "Float16"):  # an older polars
        result = lacking(result)
    series = polars.Series(column.name, result.reshape(-1))
    if width is not None and result.size:
        series = series.reshape(result.shape)
    elif width is not None:  # polars cannot tell how many lists no elements are
        series = polars.Series(column.name, [[]] * len(column), dtype=polars.Array(series.dtype, result.shape[1]))
    return series.set(mask, None) if mask.any() else series
