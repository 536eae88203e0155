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
        (lambda: cast_column(pandas.Series(["a"], dtype="category"), "int8"), TypeError, "pandas' type category"),
        (lambda: onnx_cast.cast(pandas.DataFrame({"x": [1]}), "int8"), TypeError, "cast_columns"),
        (lambda: onnx_cast.cast(pandas.Series([1.0]), "string"), CastError, "string"),
        (lambda: onnx_cast.cast(pandas.Series([1.0]), "int8", out=np.empty(1, np.int8)), TypeError, "a Series of pandas"),
        (lambda: onnx_cast.cast(X, pandas.ArrowDtype(pyarrow.list_(pyarrow.int8()))), TypeError, "to is"),
    ]:
        with pytest.raises(error, match=text):
            call()


VALUES = [1.5, None, -3.0, 300.0, 0.25]

#: Columns of numbers with a null, and the same of booleans.
NULLABLE = {
    "pandas": lambda values, kind: pandas.Series(values, dtype={"float": "Float32", "int": "Int64", "bool": "boolean"}[kind]),
    "pandas on arrow": lambda values, kind: pandas.Series(
        values, dtype=pandas.ArrowDtype({"float": pyarrow.float32(), "int": pyarrow.int64(), "bool": pyarrow.bool_()}[kind])
    ),
    "polars": lambda values, kind: polars_series(values, {"float": "Float32", "int": "Int64", "bool": "Boolean"}[kind]),
}


def polars_series(values, kind):
    polars = pytest.importorskip("polars", reason="polars is not installed (torch)")
    return polars.Series("x", values, dtype=getattr(polars, kind))


def nones(column):
    """The values of a column, with None for its nulls."""
    nulls = column.isna() if isinstance(column, pandas.Series) else column.is_null()
    return [None if null else value for value, null in zip(column.to_list(), nulls)]


@pytest.mark.parametrize("to", ["int8", "uint16", "double", "bool", "float16", "bfloat16", "float8e4m3fn"])
@pytest.mark.parametrize("kind", ["float", "int", "bool"])
@pytest.mark.parametrize("package", NULLABLE)
def test_series_keep_their_nulls(package, kind, to):
    values = {"float": VALUES, "int": [1, None, -3, 300, 0], "bool": [True, None, False, True, True]}[kind]
    column = NULLABLE[package](values, kind)
    present = np.array([value for value in values if value is not None], {"float": "f4", "int": "i8", "bool": "?"}[kind])
    want = onnx_cast.cast(present, to)
    is_stored = want.dtype.isbuiltin != 1 or (package == "pandas" and to == "float16")
    got = cast_column(column, to)
    assert type(got) is type(column) and got.name == column.name
    values = nones(got)
    assert values[1] is None
    stored = want.view(f"u{want.itemsize}") if is_stored else want
    same(np.array(values[:1] + values[2:]).astype(stored.dtype), stored)
    if is_stored:
        with pytest.raises(TypeError, match=f"has no {to} .want onnx_cast.columns.cast_column"):
            onnx_cast.cast(column, to)
    else:
        assert onnx_cast.cast(column, to).equals(got)
    back = nones(cast_column(got, "float", stored=to if is_stored else None))
    assert back[1] is None
    same(np.array(back[:1] + back[2:], np.float32), onnx_cast.cast(want, "float"))


def test_a_series_is_what_it_was_around_its_values():
    column = pandas.Series([1.5, None], dtype="Float32", index=[7, 5], name="x")
    got = onnx_cast.cast(column, "int8")
    assert got.index.tolist() == [7, 5] and got.name == "x" and got.dtype == pandas.Int8Dtype()
    assert onnx_cast.cast(column, pandas.Int8Dtype()).equals(got) and onnx_cast.cast_like(column, got).equals(got)
    assert nones(onnx_cast.bit_cast(column, "int32")) == [0x3FC00000, None]
    assert onnx_cast.cast(pandas.Series([1.5, np.nan]), "float16").dtype == np.float16
    quantized = onnx_cast.quantize_linear(column, 0.5, 3)
    assert nones(quantized) == [6, None] and quantized.dtype == pandas.UInt8Dtype()
    assert nones(onnx_cast.dequantize_linear(quantized, 0.5, 3)) == [1.5, None]
    # NaN is a number.
    values = pandas.Series(pandas.arrays.FloatingArray(np.array([np.nan, 1]), np.array([False, True])))
    assert nones(onnx_cast.cast(values, "bool")) == [True, None]
    rows = pandas.Series([[1.5, 2.5], None, [3.0, 4.0]], dtype=object)
    got = cast_column(rows, "int8")
    assert got[0].tolist() == [1, 2] and got[1] is None and got[2].tolist() == [3, 4]
    assert onnx_cast.stats(pandas.Series([1.0, 1e9]), "int8").values == 2
    with pytest.raises(TypeError, match="Series with nulls"):
        onnx_cast.stats(column, "int8")


def test_series_and_frames_of_polars():
    polars = pytest.importorskip("polars", reason="polars is not installed (torch)")
    rows = polars.Series("x", [[1.0, 2.0], None, [3.0, -4.0]], dtype=polars.Array(polars.Float32, 2))
    for column in (rows, rows[1:], polars.concat([rows, rows], rechunk=False), rows[:0], rows[1:2]):
        got = cast_column(column, "int8")
        assert got.dtype == polars.Array(polars.Int8, 2) and got.name == "x"
        want = [None if row is None else onnx_cast.cast(np.array(row), "int8").tolist() for row in column.to_list()]
        assert got.to_list() == want
        packed = cast_column(column, "int4")
        assert packed.dtype == polars.Array(polars.UInt8, 1)
        assert cast_column(packed, "int8", stored="int4").equals(got)
    empty = polars.Series("x", [[], None, []], dtype=polars.Array(polars.Float32, 0))
    assert cast_column(empty, "int8").to_list() == [[], None, []]
    frame = polars.DataFrame({"x": rows, "id": [1, 2, 3]})
    done = cast_columns(frame, {"x": "bfloat16"})
    assert type(done) is polars.DataFrame and done["id"].equals(frame["id"]) and done.columns == ["x", "id"]
    assert cast_columns(done, {"x": "float"}, stored={"x": "bfloat16"}).equals(frame)
    assert onnx_cast.cast(polars.Series([1.5]), polars.Int8).dtype == polars.Int8
    assert onnx_cast.cast_like(np.ones(1), polars.Series([True])).dtype == np.bool_
    for call, error, text in [
        (lambda: cast_columns(frame.lazy(), {"x": "int8"}), TypeError, "the batch is of type LazyFrame"),
        (lambda: cast_columns(frame, {"y": "int8"}), CastError, "no column `y`"),
        (lambda: onnx_cast.cast(frame, "int8"), TypeError, "cast_columns"),
        (lambda: cast_column(polars.Series(["a"]), "int8"), TypeError, "polars' type String"),
        (lambda: cast_column(polars.Series([[1.0], [1.0, 2.0]]), "int8"), TypeError, "to_array"),
        (lambda: cast_column(polars.Series([[1.0, None]], dtype=rows.dtype), "int8"), CastError, "nulls in them"),
        (lambda: onnx_cast.cast(rows, "int8", packed=True), TypeError, "a Series of polars"),
        (lambda: onnx_cast.cast(rows, polars.Date), TypeError, "ONNX has no type for polars' Date"),
    ]:
        with pytest.raises(error, match=text):
            call()
