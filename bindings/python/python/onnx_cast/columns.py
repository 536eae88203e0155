"""Columns of tables: numpy arrays, Arrow's arrays and pandas' series, of numbers or of lists of them of one length
(embeddings). :func:`cast_columns` is what ``ray.data.Dataset.map_batches`` takes.

Arrow and pandas lack most of ONNX's types. Results of those are stored as the unsigned integers of their bits, and
types narrower than a byte as the packed bytes of each list: ``stored=`` says so where such a column is cast again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_cast import CastError, _kinds, _targets, cast, unpack
from onnx_cast.types import RoundMode, To

__all__ = ["cast_column", "cast_columns"]


def cast_columns(
    batch: Any,
    to: Mapping[str, To],
    *,
    stored: Mapping[str, To] | None = None,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
) -> Any:
    """The batch (a dictionary of numpy arrays, a pandas DataFrame, an Arrow Table or RecordBatch) with the columns that
    ``to`` names cast to its types. ``stored`` maps columns to the types whose bits they hold."""
    given = {"saturate": saturate, "round_mode": round_mode, "opset": opset}

    def column(name):
        return cast_column(batch[name], to[name], stored=(stored or {}).get(name), **given)

    kind = type(batch).__module__.partition(".")[0]
    if kind not in ("pandas", "pyarrow") and not isinstance(batch, Mapping):
        kinds = "a dictionary of arrays, a pandas DataFrame or an Arrow table"
        raise TypeError(f"the batch is of type {type(batch).__name__} (want {kinds})")
    names = batch.schema.names if kind == "pyarrow" else list(batch)
    for name in to:
        if name not in names:
            raise CastError(f"no column `{name}` (want one of {', '.join(map(str, names))})")
    if kind == "pyarrow":
        for name in to:
            batch = batch.set_column(names.index(name), name, column(name))
        return batch
    result = batch.copy(deep=False) if kind == "pandas" else dict(batch)
    for name in to:
        result[name] = column(name)
    return result


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
    (chunked or not) or a pandas Series of numbers or of fixed-size lists."""

    def elements(array):
        return _cast(array, to, stored, {"saturate": saturate, "round_mode": round_mode, "opset": opset})

    kind = type(column).__module__.partition(".")[0]
    if isinstance(column, np.ndarray):
        return elements(_stack(column) if column.dtype == object else column)
    if kind == "pyarrow":
        return _cast_arrow(column, elements)
    if kind == "pandas":
        return _cast_pandas(column, elements)
    kinds = "a numpy array, an Arrow array or a pandas Series"
    raise TypeError(f"the column is of type {type(column).__name__} (want {kinds})")


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
    return result if result.dtype.isbuiltin == 1 else result.view(f"u{result.dtype.itemsize}")


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


def _cast_pandas(column: Any, elements: Any) -> Any:
    import pandas

    if not isinstance(column, pandas.Series):
        raise TypeError(f"the column is of type {type(column).__name__} (want a pandas Series)")
    if isinstance(column.dtype, pandas.ArrowDtype):
        cast = _cast_arrow(column.array.__arrow_array__(), elements)
        return pandas.Series(pandas.arrays.ArrowExtensionArray(cast), index=column.index, name=column.name)
    if column.dtype == object:
        result = elements(_stack(column)) if len(column) else []
        return pandas.Series(list(result), index=column.index, name=column.name, dtype=object)
    if not isinstance(column.dtype, np.dtype):
        raise TypeError(f"the column is of pandas' type {column.dtype} (want numpy's or Arrow's)")
    return pandas.Series(elements(column.to_numpy()), index=column.index, name=column.name)
