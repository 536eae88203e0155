"""What cannot be cast is an error with a text that says what to do, of the right class, and never a crash."""

import copy
import pickle
import threading

import ml_dtypes
import numpy as np
import onnx
import pytest

import onnx_cast
from onnx_cast import CastError, _native
from onnx_cast.columns import cast_column

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: onnx_cast.cast(X, "floaty"), "`floaty` is not an element type"),
        (lambda: onnx_cast.cast(X, 99), "99 is not an element type"),
        (lambda: onnx_cast.cast(X, -1), "-1 is not an element type"),
        (lambda: onnx_cast.cast(X, 2**70), "is not an element type"),
        (lambda: onnx_cast.cast(X, "int4", opset=13), "Cast-13 does not take int4"),
        (lambda: onnx_cast.cast(X, "float16", opset=13, saturate=False), "saturate"),
        (lambda: onnx_cast.cast(X, "float16", opset=29), "opset 29"),
        (lambda: onnx_cast.cast(X, "float16", opset=-(2**80)), f"opset is {-(2**80)} "),
        (lambda: onnx_cast.cast(X, "float16", opset=2**64), f"opset is {2**64} .want an integer of up to 64 bits"),
        (lambda: onnx_cast.bit_cast(X, "int32", opset=2**64), f"opset is {2**64} "),
        (lambda: onnx_cast.unpack(b"", "int8", 2**70), f"shape is {2**70} "),
        (lambda: onnx_cast.cast(X, "e8m0", round_mode="sideways"), "sideways"),
        (lambda: onnx_cast.cast(X, "float16", threads=0), "0 threads"),
        (lambda: onnx_cast.cast(X, "complex64"), "complex64"),
        (lambda: onnx_cast.cast_like(X, np.empty(0, ml_dtypes.float6_e2m3fn)), "float6e2m3"),
        (lambda: onnx_cast.bit_cast(X, "int64"), "int64"),
        (lambda: onnx_cast.bit_cast(np.array(["a"]), "int64"), "string"),
        (lambda: onnx_cast.cast(X, "int8", out=np.empty((3, 2), np.int8)), r"out is of shape \(3, 2\) \(want \(2, 3\)\)"),
        (lambda: onnx_cast.cast(X, "int8", out=np.empty((2, 3), np.uint8)), "out is of dtype uint8"),
        (lambda: onnx_cast.cast(X, "int8", out=np.empty((3, 2), np.int8).T), "not contiguous"),
        (lambda: onnx_cast.cast(X, "int16", out=np.empty((2, 3), ">i2")), "byte order"),
        (lambda: onnx_cast.cast(X, "int8", out=read_only(np.empty((2, 3), np.int8))), "out is read-only"),
        (lambda: onnx_cast.cast(X, "int8", packed=True, out=np.empty((2, 3), np.uint8)), "out is of shape"),
        (lambda: onnx_cast.cast(X, "int32", out=X.view(np.int32)), "overlaps"),
        (lambda: onnx_cast.cast(X, "string", packed=True), "no packed bytes"),
        (lambda: onnx_cast.cast(X, "string", out=np.empty((2, 3))), "out is of dtype"),
        (lambda: onnx_cast.cast(X, "string", out=np.empty(2, object)), "out is of shape"),
        (lambda: onnx_cast.cast(X * 1000, np.dtype("U2")), "too narrow for `1000`"),
        (lambda: onnx_cast.cast(np.array(["1", "x"]), "float"), 'element 1: "x" is not a number'),
        (lambda: onnx_cast.cast(np.array(["300"]), "int8"), "out of range"),
        (lambda: onnx_cast.cast(np.array([b"\xff"], object), "string"), "element 0 is not UTF-8"),
        (lambda: onnx_cast.cast(np.array(["\ud800"], object), "float"), "element 0 is not Unicode"),
        (lambda: onnx_cast.pack(X), "float is not packed"),
        (lambda: onnx_cast.unpack(b"12", "int4", 5), "2 bytes for 5 int4"),
        (lambda: onnx_cast.unpack(b"12", "int4", (1 << 62, 1 << 62)), "does not fit"),
        (lambda: onnx_cast.unpack(b"12", "int4", -1), "dimension -1"),
        (lambda: onnx_cast.unpack(b"123", "float", 1), "3 bytes for 1 float \\(want 4\\)"),
        (lambda: onnx_cast.unpack(b"123", "string", 1), "strings"),
    ],
)
def test_what_the_operator_refuses_is_one_class(call, text):
    with pytest.raises(CastError, match=text) as error:
        call()
    assert isinstance(error.value, ValueError)


TEXTS = np.array(["1", "x"])


@pytest.mark.parametrize(
    "call, parameter, element, value",
    [
        (lambda: onnx_cast.cast(X, "floaty"), "to", None, "floaty"),
        (lambda: onnx_cast.cast(X, 99), "to", None, 99),
        (lambda: onnx_cast.cast(X, "int4", opset=13), "to", None, None),
        (lambda: onnx_cast.cast(X, "complex64"), "to", None, None),
        (lambda: onnx_cast.cast(X, "float16", opset=29), "opset", None, 29),
        (lambda: onnx_cast.cast(X, "float16", opset=13, saturate=False), "saturate", None, None),
        (lambda: onnx_cast.cast(X, "e8m0", round_mode="sideways"), "round_mode", None, "sideways"),
        (lambda: onnx_cast.cast(X, "float16", threads=0), "threads", None, 0),
        (lambda: onnx_cast.cast(X, "int8", out=np.empty(3, np.int8)), "out", None, None),
        (lambda: onnx_cast.cast(X, "int32", out=X.view(np.int32)), "out", None, None),
        (lambda: onnx_cast.cast(TEXTS, "float"), "x", 1, "x"),
        (lambda: onnx_cast.cast(TEXTS.astype(np.dtypes.StringDType()), "int8"), "x", 1, "x"),
        (lambda: onnx_cast.stats(TEXTS, "int8"), "x", 1, "x"),
        (lambda: onnx_cast.cast(np.array(["a", "\ud800"], object), "float"), "x", 1, None),
        (lambda: onnx_cast.bit_cast(X, "int64"), "to", None, "int64"),
        (lambda: onnx_cast.quantize_linear(X, 0.1, axis=5, block_size=2), "axis", None, 5),
        (lambda: onnx_cast.quantize_linear(X, 0.1, block_size=-2), "block_size", None, -2),
        (lambda: onnx_cast.quantize_linear(X, 0.1, 300), "zero_point", None, 300),
        (lambda: onnx_cast.quantize_linear(X, np.ones(7, np.float32)), "scale", None, None),
        (lambda: onnx_cast.quantize_blocks(X, "mxfp5"), "to", None, "mxfp5"),
        (lambda: onnx_cast.quantize_blocks(X, "mxfp4", scale_rule="?"), "scale_rule", None, "?"),
        (lambda: onnx_cast.unpack(b"12", "int8", -1), "shape", None, (-1,)),
    ],
)
def test_an_error_has_what_it_is_about(call, parameter, element, value):
    with pytest.raises(CastError) as raised:
        call()
    for error in (raised.value, pickle.loads(pickle.dumps(raised.value)), copy.deepcopy(raised.value)):
        assert (error.parameter, error.element, error.value) == (parameter, element, value)
        assert error.tensor is None and type(error) is CastError and str(error) == str(raised.value)


def test_an_error_of_a_file_names_its_tensor(tmp_path):
    path, out = tmp_path / "x.pb", tmp_path / "y.pb"
    path.write_bytes(onnx.helper.make_tensor("w", onnx.TensorProto.STRING, [2], ["1", "x"]).SerializeToString())
    with pytest.raises(CastError) as raised:
        onnx_cast.cast_file(path, out, "float")
    error = raised.value
    assert (error.tensor, error.element, error.value, error.parameter) == ("w", 1, "x", None)
    with pytest.raises(CastError) as raised:
        onnx_cast.cast_file(path, out, "float16", external_data="y")
    assert raised.value.parameter == "external_data"
    with pytest.raises(CastError) as raised:
        onnx_cast.cast_file(path, out, "float16", include=["re:("])
    assert (raised.value.parameter, raised.value.value) == ("include", "re:(")


def test_elements_in_a_file_that_is_missing_are_an_error_of_the_system(tmp_path):
    weight = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [512], np.zeros(512, np.float32).tobytes(), raw=True)
    node = onnx.helper.make_node("Identity", ["w"], ["y"])
    end = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [512])
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [], [end], [weight]))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    (tmp_path / "m.data").unlink()
    with pytest.raises(FileNotFoundError) as raised:
        onnx_cast.cast_file(tmp_path / "m.onnx", tmp_path / "out.onnx", "float16")
    assert raised.value.filename == str(tmp_path / "m.data")
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: onnx_cast.cast([1.0], "float16"), "x is of type list"),
        (lambda: onnx_cast.cast(1.0, "float16"), "x is of type float"),
        (lambda: onnx_cast.cast(None, "float16"), "x is of type NoneType"),
        (lambda: onnx_cast.cast(X, None), "to is None"),
        (lambda: onnx_cast.cast(X, True), "to is True"),
        (lambda: onnx_cast.cast(X, 1.0), "to is 1.0"),
        (lambda: onnx_cast.cast(X, [1]), "to is of type list"),
        (lambda: onnx_cast.cast(X, [1], opset=20), "to is of type list"),
        (lambda: onnx_cast.cast(X, np.datetime64), "ONNX has no type for datetime64"),
        (lambda: onnx_cast.cast(np.array(["2020"], "M8[Y]"), "float"), "ONNX has no type for datetime64"),
        (lambda: onnx_cast.cast(np.zeros(1, "f4,i4"), "float"), "ONNX has no type for"),
        (lambda: onnx_cast.cast(np.ma.masked_array([1.0], [True]), "float16"), "masked"),
        (lambda: onnx_cast.pack(np.ma.masked_array(np.ones(2, ml_dtypes.int4), [0, 1])), "x is a masked array"),
        (lambda: onnx_cast.stats(np.ma.masked_array([1.0], [True]), "float16"), "masked"),
        (lambda: onnx_cast.report(np.ma.masked_array([1.0], [True]), "float16"), "masked"),
        (lambda: onnx_cast.quantize_blocks(np.ma.masked_array([1.0], [True]), "mxfp4"), "masked"),
        (lambda: onnx_cast.cast(X, "int8", out=np.ma.zeros((2, 3), np.int8)), "out is a masked array"),
        (lambda: onnx_cast.cast(X, "string", out=np.ma.zeros((2, 3), "U9")), "out is a masked array"),
        (lambda: onnx_cast.cast(np.array([1, 2], object), "float"), "element 0 is of type int"),
        (lambda: onnx_cast.cast(X, "float16", opset="13"), "opset is '13' \\(want an integer"),
        (lambda: onnx_cast.cast(X, "float16", threads=1.5), "threads is 1.5 \\(want an integer"),
        (lambda: onnx_cast.cast(X, "float16", saturate="no"), "saturate"),
        (lambda: onnx_cast.cast(X, "float16", round_mode=1), "round_mode"),
        (lambda: onnx_cast.cast(X, "float16", out=[0]), "out is a list"),
        (lambda: onnx_cast.cast(X, "float16", out=bytearray(12)), "out is a bytearray"),
        (lambda: onnx_cast.cast(X, "float16", packed="yes"), "packed"),
        (lambda: onnx_cast.cast_like(X, 3), "like is of type int"),
        (lambda: onnx_cast.pack([1]), "x is of type list"),
    ],
)
def test_wrong_kinds_are_type_errors(call, text):
    with pytest.raises(TypeError, match=text):
        call()


def test_any_overlap_is_an_error_and_neighbours_are_none():
    memory = np.zeros(64, np.uint8)
    x = memory[16:32].view(np.float16)
    for start in range(0, 49):
        out = memory[start : start + 16].view(np.int16)
        if 0 < start < 32:
            with pytest.raises(CastError, match="overlaps"):
                onnx_cast.cast(x, "int16", out=out)
        else:
            onnx_cast.cast(x, "int16", out=out)


def test_an_error_leaves_out_as_it_was():
    out = np.full(2, 7, np.float32)
    with pytest.raises(CastError):
        onnx_cast.cast(np.array(["1", "x"]), "float", out=out)
    assert out.tolist() == [7, 7]


def test_huge_claims_allocate_nothing():
    x = np.broadcast_to(np.float32(1), (1 << 40,))
    with pytest.raises((MemoryError, ValueError)):
        onnx_cast.cast(x, "double")
    assert onnx_cast.cast(np.broadcast_to(np.float32(1), (1 << 40, 0)), "double").shape == (1 << 40, 0)


def test_arrays_that_others_change_meanwhile_do_not_crash():
    x = np.zeros(1 << 20, np.float32)
    done = threading.Event()

    def change():
        value = 0
        while not done.is_set():
            x.fill(value)
            value += 1

    thread = threading.Thread(target=change)
    thread.start()
    for _ in range(20):
        assert onnx_cast.cast(x, "int4").shape == x.shape
        assert onnx_cast.cast(x, "bfloat16").shape == x.shape
    done.set()
    thread.join()


def test_masks_of_columns_are_refused():
    rows = np.empty(2, object)
    rows[:] = [np.ma.array([1.0, 2.0], mask=[0, 1]), np.ma.array([3.0, 4.0], mask=[0, 0])]
    for column, stored in [
        (rows, None),
        (np.ma.array([1.0], mask=[1]), None),
        (np.ma.array([1], mask=[1], dtype=np.uint8), "int4"),
        (np.ma.array([1], mask=[1], dtype=np.uint16), "bfloat16"),
    ]:
        with pytest.raises(TypeError, match="is a masked array"):
            cast_column(column, "float", stored=stored)


def test_a_panic_is_an_ordinary_exception():
    """pyo3 makes a panic of this exception where a function of Python raises it, so that it is a panic that is caught."""

    class Panics:
        def __index__(self):
            raise _native.PanicException("as if by a fault")

    caught = None
    try:
        onnx_cast.cast(X, "int8", threads=Panics())
    except Exception as error:  # noqa: BLE001
        caught = error
    assert type(caught) is _native.PanicException and isinstance(caught, RuntimeError)
    assert str(caught) == "as if by a fault"
