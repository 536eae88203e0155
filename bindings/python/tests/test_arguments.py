"""Parameters take what numpy's functions take, and refuse what those refuse."""

import numpy as np
import pytest

import onnx_cast

X = np.arange(6, dtype=np.float32).reshape(2, 3)
CODES = X.astype(np.uint8)


class Index:
    """An object that stands for an integer."""

    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


#: Calls with a parameter that is an integer, each with one that is valid.
INTEGERS = {
    "cast opset": (19, lambda n, _: onnx_cast.cast(X, "float16", opset=n)),
    "cast threads": (1, lambda n, _: onnx_cast.cast(X, "float16", threads=n)),
    "cast_like opset": (19, lambda n, _: onnx_cast.cast_like(X, CODES, opset=n)),
    "bit_cast opset": (26, lambda n, _: onnx_cast.bit_cast(X, "int32", opset=n)),
    "stats threads": (2, lambda n, _: onnx_cast.stats(X, "float16", threads=n)),
    "quantize_linear axis": (1, lambda n, _: onnx_cast.quantize_linear(X, np.ones(3, np.float32), axis=n)),
    "quantize_linear block_size": (1, lambda n, _: onnx_cast.quantize_linear(X, X + 1, block_size=n)),
    "quantize_linear opset": (21, lambda n, _: onnx_cast.quantize_linear(X, 0.1, opset=n)),
    "quantize_linear threads": (1, lambda n, _: onnx_cast.quantize_linear(X, 0.1, threads=n)),
    "quantize threads": (1, lambda n, _: onnx_cast.quantize_blocks(X, "mxfp4", threads=n)),
    "dequantize threads": (1, lambda n, _: onnx_cast.quantize_blocks(X, "mxfp4").dequantize(threads=n)),
    "unpack shape": (2, lambda n, _: onnx_cast.unpack(b"\x21", "int4", n)),
    "unpack shape of one": (2, lambda n, _: onnx_cast.unpack(b"\x21", "int4", [n])),
    "report top": (1, lambda n, _: onnx_cast.report(X, "float16").text(n)),
    "cast_file threads": (1, lambda n, file: onnx_cast.cast_file(file, file, "float16", threads=n)),
    "cast_file opset": (19, lambda n, file: onnx_cast.cast_file(file, file, "float16", opset=n)),
    "cast_file min_elements": (1, lambda n, file: onnx_cast.cast_file(file, file, "float16", min_elements=n)),
}

#: Calls with a parameter that is true or false.
FLAGS = {
    "cast saturate": lambda flag, _: onnx_cast.cast(X, "float8e5m2", saturate=flag),
    "cast packed": lambda flag, _: onnx_cast.cast(X, "int4", packed=flag),
    "quantize_linear saturate": lambda flag, _: onnx_cast.quantize_linear(X, 0.1, output_dtype="e4m3fn", saturate=flag),
    "info stats": lambda flag, file: onnx_cast.info(file, stats=flag),
    "diff values": lambda flag, file: onnx_cast.diff(file, file, values=flag),
    "report clobber": lambda flag, file: onnx_cast.report(X, "int8").save(file.with_suffix(".json"), clobber=flag),
    **{
        f"cast_file {name}": lambda flag, file, name=name: onnx_cast.cast_file(
            file, file.with_suffix(".out.npy"), "float8e5m2" if name == "saturate" else "int8", **{name: flag}
        )
        for name in ("saturate", "dry_run", "resume", "clobber", "force", "copy_others", "npy_plain", "losses")
    },
}


@pytest.fixture
def file(tmp_path):
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy"


@pytest.mark.parametrize("name", INTEGERS)
def test_an_integer_may_be_of_any_type(name, file):
    number, call = INTEGERS[name]
    want = repr(call(number, file))
    for one in (np.int64(number), np.uint8(number), np.array(number), Index(number)):
        np.save(file, X)
        assert repr(call(one, file)) == want, type(one)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("other", [0.9, 1.0, np.float32(1), True, np.True_, "1", Index])
def test_what_is_no_integer_is_refused(name, other, file):
    with pytest.raises(TypeError, match="want an integer"):
        INTEGERS[name][1](other, file)


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_may_be_one_of_numpys_and_nothing_else(name, file):
    for flag in (True, False):
        found = []
        for one in (flag, np.bool_(flag)):
            found.append(repr(FLAGS[name](one, file)))
            for suffix in (".out.npy", ".json"):
                file.with_suffix(suffix).unlink(missing_ok=True)
        assert found[0] == found[1]
    for other in (1, 0, "no", np.int64(1), []):
        with pytest.raises(TypeError, match=name.split()[1]):
            FLAGS[name](other, file)


@pytest.mark.parametrize("scale", [2, Index(2), np.int64(2), np.array(2), np.float64(2), [2, 2, 2], (2.0, 2, 2.0)])
def test_a_scale_may_be_any_number_or_a_list(scale):
    want = onnx_cast.quantize_linear(X, np.float32(2))
    np.testing.assert_array_equal(onnx_cast.quantize_linear(X, scale), want)
    np.testing.assert_array_equal(onnx_cast.dequantize_linear(want, scale), [[0, 0, 2], [4, 4, 4]])


@pytest.mark.parametrize("zero", [3, 3.0, Index(3), np.int64(3), np.array(3), np.float64(3), [3], np.uint8(3)])
def test_a_zero_point_may_be_any_number_or_a_list(zero):
    scale = [2.0] if isinstance(zero, list) else 2.0
    got = onnx_cast.quantize_linear(X, scale, zero)
    assert got.dtype == np.uint8 and got.tolist() == [[3, 3, 4], [5, 5, 5]]
    assert onnx_cast.dequantize_linear(got, scale, zero).tolist() == [[0, 0, 2], [4, 4, 4]]


@pytest.mark.parametrize("value", [True, "2", [True], ["2"], [None], None, object()])
def test_what_is_no_number_is_no_scale(value):
    with pytest.raises(TypeError, match="scale is"):
        onnx_cast.quantize_linear(X, value)


@pytest.mark.parametrize("value", [300, [300], -1, 0.5, float("inf"), float("nan"), 2**70, np.int64(-1)])
def test_a_zero_point_that_the_type_does_not_have_is_refused(value):
    with pytest.raises(onnx_cast.CastError, match="zero_point is") as error:
        onnx_cast.quantize_linear(X, [1.0] if isinstance(value, list) else 1.0, value)
    assert error.value.parameter == "zero_point"
