"""Columns of Arrow tables, pandas frames and batches of arrays: what they hold is what the casts of arrays give."""

import ml_dtypes
import numpy as np
import pytest
from bitwise import same

import onnx_cast
from onnx_cast import CastError
from onnx_cast.columns import cast_column, cast_columns

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pandas = pytest.importorskip("pandas", reason="pandas is not installed")

X = np.random.default_rng(9).standard_normal((50, 8)).astype(np.float32) * 30


def lists(array):
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(array.reshape(-1)), array.shape[1])


def rows_of(column):
    """The rows of a column of lists of any kind, as one array."""
    if isinstance(column, np.ndarray):
        return column
    if isinstance(column, pandas.Series):
        return np.stack([np.asarray(row) for row in column])
    return np.array(column.to_pylist())


COLUMNS = {
    "numpy": X,
    "arrays": np.array([*X, None], object)[:-1],
    "arrow": lists(X),
    "a slice": lists(np.concatenate([X[:3], X, X[:4]])).slice(3, len(X)),
    "chunks": pyarrow.chunked_array([lists(X[:20]), lists(X[20:])]),
    "pandas": pandas.Series(list(X), index=range(100, 150), name="x"),
    "lists": pandas.Series(X.tolist(), dtype=object),
    "pandas on arrow": pandas.Series(pandas.arrays.ArrowExtensionArray(lists(X)), name="x"),
}


@pytest.mark.parametrize("to", ["int8", "float16", "double", "bool", "bfloat16", "float8e5m2", "uint4", "float6e2m3", "uint2"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_columns_hold_what_arrays_become(kind, to):
    column = COLUMNS[kind]
    got = cast_column(column, to)
    assert type(got) is type(column) and len(got) == len(X)
    want = onnx_cast.cast(X if kind != "lists" else X.astype(np.float64), to)
    bits = onnx_cast.dtypes.of(to).bits
    if bits < 8:
        want = onnx_cast.pack(want).reshape(len(X), -1)
    elif want.dtype.isbuiltin != 1:
        want = want.view(f"u{want.itemsize}")
    same(rows_of(got).astype(want.dtype), want, kind)
    if isinstance(column, pandas.Series):
        assert got.index.equals(column.index) and got.name == column.name
    # What holds bits is read again by its type.
    back = cast_column(got, "float", stored=None if want.dtype == onnx_cast.dtypes.of(to).numpy else to)
    same(rows_of(back).astype(np.float32), onnx_cast.cast(onnx_cast.cast(X, to), "float"), kind)


def test_nulls_stay_nulls():
    column = pyarrow.array([[1.5, 2.5], None, [3.0, -1.0]], pyarrow.list_(pyarrow.float32(), 2))
    assert cast_column(column, "int8").to_pylist() == [[1, 2], None, [3, -1]]
    assert cast_column(pyarrow.array([1.5, None]), "int8").to_pylist() == [1, None]
    assert cast_column(pyarrow.chunked_array([], column.type), "int8").type == pyarrow.list_(pyarrow.int8(), 2)
    broken = pyarrow.array([[1.5, None]], pyarrow.list_(pyarrow.float32(), 2))
    with pytest.raises(CastError, match="nulls in them"):
        cast_column(broken, "int8")


def test_batches_keep_their_other_columns():
    given = {"to": {"x": "bfloat16"}}
    want = onnx_cast.cast(X, "bfloat16").view(np.uint16)
    batch = {"x": X, "id": np.arange(50)}
    got = cast_columns(batch, **given)
    assert batch["x"] is X and got["id"] is batch["id"]
    same(got["x"], want)
    frame = pandas.DataFrame({"x": list(X), "id": range(50)})
    done = cast_columns(frame, **given)
    same(rows_of(done["x"]), want)
    assert done["id"].equals(frame["id"]) and frame["x"][0].dtype == np.float32
    for table in (pyarrow.table({"x": lists(X), "id": range(50)}), pyarrow.record_batch({"x": lists(X), "id": range(50)})):
        done = cast_columns(table, **given)
        assert type(done) is type(table) and done.column("id").equals(table.column("id"))
        back = cast_columns(done, {"x": "float"}, stored={"x": ml_dtypes.bfloat16})
        same(rows_of(back.column("x")).astype(np.float32), onnx_cast.cast(onnx_cast.cast(X, "bfloat16"), "float"))


def test_columns_that_do_not_do():
    for call, error, text in [
        (lambda: cast_columns({"x": X}, {"y": "int8"}), CastError, "no column `y`"),
        (lambda: cast_columns([X], {"x": "int8"}), TypeError, "the batch is of type list"),
        (lambda: cast_column("x", "int8"), TypeError, "the column is of type str"),
        (lambda: cast_column(pyarrow.array(["a"]), "int8"), TypeError, "Arrow's type string"),
        (lambda: cast_column(X[:, :3], "int4"), CastError, "rows of 12 bits"),
        (lambda: cast_column(X, "string"), CastError, "string"),
        (lambda: cast_column(X, "float", stored="bfloat16"), CastError, "want uint16"),
        (lambda: cast_column(np.zeros((2, 1), np.uint8), "float", stored="float6e2m3"), CastError, "whole elements"),
        (lambda: cast_column(pandas.Series([[1.0], [1.0, 2.0]]), "int8"), CastError, "different lengths"),
    ]:
        with pytest.raises(error, match=text):
            call()
