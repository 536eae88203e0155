"""Parameters take what numpy's functions take, and refuse what those refuse."""

import sys

import numpy as np
import pytest

import onnx_cast
import onnx_cast.columns
import onnx_cast.files

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
    "cast_file threads": (1, lambda n, file: onnx_cast.cast_file(file, file, "float16", threads=n, force=True)),
    "cast_file opset": (19, lambda n, file: onnx_cast.cast_file(file, file, "float16", opset=n, force=True)),
    "cast_file min_elements": (
        1,
        lambda n, file: onnx_cast.cast_file(file, file, "float16", min_elements=n, force=True),
    ),
}

#: Calls with a parameter that is true or false.
FLAGS = {
    "cast saturate": lambda flag, _: onnx_cast.cast(X, "float8e5m2", saturate=flag),
    "cast packed": lambda flag, _: onnx_cast.cast(X, "int4", packed=flag),
    "quantize_linear saturate": lambda flag, _: onnx_cast.quantize_linear(X, 0.1, output_dtype="e4m3fn", saturate=flag),
    "info stats": lambda flag, file: onnx_cast.info(file, stats=flag),
    "diff values": lambda flag, file: onnx_cast.diff(file, file, values=flag),
    "report force": lambda flag, file: onnx_cast.report(X, "int8").save(file.with_suffix(".json"), force=flag),
    **{
        f"cast_file {name}": lambda flag, file, name=name: onnx_cast.cast_file(
            file, file.with_suffix(".out.npy"), "float8e5m2" if name == "saturate" else "int8", **{name: flag}
        )
        for name in ("saturate", "dry_run", "resume", "force", "copy_others", "npy_plain", "losses")
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


# For a single file copy_others does nothing, which is said.
@pytest.mark.filterwarnings("ignore:`copy_others` has no effect")
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


#: Calls with an opset, each with what is compared of its result.
OPSETS = {
    "cast": lambda **given: onnx_cast.cast(X, "float8e5m2", **given).tobytes(),
    "cast_like": lambda **given: onnx_cast.cast_like(X, CODES, **given).tobytes(),
    "bit_cast": lambda **given: onnx_cast.bit_cast(X, "int32", **given).tobytes(),
    "stats": lambda **given: onnx_cast.stats(X, "float16", **given),
    "quantize_linear": lambda **given: onnx_cast.quantize_linear(X, 0.1, **given).tobytes(),
    "dequantize_linear": lambda **given: onnx_cast.dequantize_linear(CODES, 0.1, **given).tobytes(),
}


@pytest.mark.parametrize("name", OPSETS)
def test_no_opset_is_the_default(name):
    assert OPSETS[name](opset=None) == OPSETS[name]() == OPSETS[name](opset=28)


@pytest.mark.parametrize("name", OPSETS)
def test_saturate_and_round_mode_are_never_none(name):
    given = {"saturate": ("True or False", name in ("bit_cast", "dequantize_linear"))}
    given["round_mode"] = ("up, down or nearest", name not in ("cast", "cast_like", "stats"))
    for option, (want, is_unknown) in given.items():
        text = "unexpected keyword" if is_unknown else rf"^{option} is None \(want {want}\)$"
        with pytest.raises(TypeError, match=text):
            OPSETS[name](**{option: None})


def test_every_function_with_an_opset_takes_none():
    import inspect

    modules = [onnx_cast, onnx_cast.columns, onnx_cast.files]
    every = [getattr(module, name) for module in modules for name in module.__all__]
    functions = {id(one): one for one in every if inspect.isroutine(one)}
    found = 0
    for function in functions.values():
        parameter = inspect.signature(function).parameters.get("opset")
        if parameter is not None:
            assert parameter.default is None, function
            found += 1
    assert found >= len(OPSETS) + 3


def test_options_of_equal_values_of_other_types_are_told_apart():
    want = onnx_cast.cast(X, "int8", threads=1, saturate=True, opset=19)
    for _ in range(2):
        np.testing.assert_array_equal(onnx_cast.cast(X, "int8", threads=1, saturate=True, opset=19), want)
        for wrong in ({"threads": True}, {"threads": 1.0}, {"opset": 19.0}, {"saturate": 1}, {"round_mode": 1}):
            with pytest.raises(TypeError, match=f"{next(iter(wrong))} is {next(iter(wrong.values()))}"):
                onnx_cast.cast(X, "int8", **{"threads": 1, "saturate": True, "opset": 19, **wrong})
            with pytest.raises(TypeError, match=f"{next(iter(wrong))} is {next(iter(wrong.values()))}"):
                onnx_cast.cast_like(X, CODES, **{"threads": 1, "saturate": True, "opset": 19, **wrong})
        with pytest.raises(onnx_cast.CastError, match="0 threads"):
            onnx_cast.cast(X, "int8", threads=0)
        over = [onnx_cast.cast(np.float32([1e9]), "float8e5m2", saturate=flag).view(np.uint8)[0] for flag in (True, False)]
        assert over == [0x7B, 0x7C]


@pytest.mark.parametrize("to", ["int4", "uint2", "float6e2m3", "float16", "double"])
def test_unpack_takes_the_packed_bytes_of_any_tensor(to):
    packed = onnx_cast.cast(X, to, packed=True)
    want = onnx_cast.cast(X, to)
    given = [packed, packed.tobytes(), bytearray(packed), memoryview(packed)]
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    given += [torch.from_numpy(packed)] if torch else []
    given += [jax.numpy.asarray(packed)] if jax else []
    for data in given:
        got = onnx_cast.unpack(data, to, X.shape)
        assert got.dtype == want.dtype and got.tobytes() == want.tobytes(), type(data)


def test_unpack_refuses_what_has_no_bytes():
    for data, error, text in [
        (onnx_cast.cast(X, "int4"), onnx_cast.CastError, "data is an array of int4, whose elements are already unpacked"),
        (np.ma.array([1], mask=[True], dtype=np.uint8), TypeError, "data is a masked array"),
        ("12", TypeError, "data is of type str"),
        ([1], TypeError, "data is of type list"),
    ]:
        with pytest.raises(error, match=text):
            onnx_cast.unpack(data, "int4", 2)
