"""The type table as objects, against ml_dtypes and numpy."""

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest

import onnx_cast
from onnx_cast import CastError, _native, _targets, dtypes

FLOATS = [one for one in dtypes.ALL if one.kind == "float" and one.numpy is not None]
INTEGERS = [one for one in dtypes.ALL if one.kind in ("int", "uint") and one.numpy is not None]


@pytest.mark.parametrize("one", FLOATS, ids=str)
def test_floats_have_the_limits_that_ml_dtypes_says(one):
    info = ml_dtypes.finfo(one.numpy)
    assert one.bits == info.bits
    assert (one.max, one.min) == (float(info.max), float(info.min))
    assert one.smallest_normal == float(info.smallest_normal)
    if one.smallest_subnormal is not None:
        assert one.smallest == one.smallest_subnormal == float(info.smallest_subnormal)
    if one.signed:
        assert (one.exponent_bits, one.significand_bits) == (info.nexp, info.nmant)


@pytest.mark.parametrize("one", INTEGERS, ids=str)
def test_integers_have_the_limits_that_ml_dtypes_says(one):
    info = ml_dtypes.iinfo(one.numpy)
    assert (one.min, one.max) == (int(info.min), int(info.max))


def test_types_have_the_dtypes_that_the_library_names():
    for row in _native.types():
        name, dtype = row["name"], row["numpy"] or row["ml_dtypes"]
        has_one = dtypes.of(name).numpy is not None
        told = f"{name}: crates/onnx-cast/src/element/interchange.rs names {dtype}, and there is {dtypes.of(name).numpy}"
        assert has_one == (dtype is not None or name == "string"), told


def test_a_type_without_a_dtype_is_refused_by_name(monkeypatch):
    monkeypatch.delitem(_targets.DTYPES, dtypes.int4.number)
    assert dtypes.int4.numpy is None
    with pytest.raises(TypeError, match="numpy has no type for int4"):
        _targets.DTYPES[dtypes.int4.number]


@pytest.mark.parametrize(
    ("name", "ours", "numpys"),
    [
        ("i2", "int2", "int16"),
        ("i4", "int4", "int32"),
        ("i8", "int8", "int64"),
        ("u2", "uint2", "uint16"),
        ("u4", "uint4", "uint32"),
        ("u8", "uint8", "uint64"),
        ("f4", "float4e2m1", "float"),
        ("U16", "uint16", "string"),
    ],
)
def test_names_that_numpy_takes_for_another_type_are_refused(name, ours, numpys):
    assert np.dtype(name) == np.dtype(dtypes.of(numpys).numpy) or numpys == "string"
    said = f"^`{name}` may mean {ours}, and to numpy means {numpys}"
    for refused in (
        lambda: onnx_cast.cast(np.zeros(1, np.float32), name),
        lambda: dtypes.of(name),
        lambda: onnx_cast.cast_file("a.npy", "b.npy", name),
        lambda: onnx_cast.bit_cast(np.zeros(1, np.float32), name),
    ):
        with pytest.raises(CastError, match=said):
            refused()


def test_every_type_is_found_by_all_of_its_names():
    for one in dtypes.ALL:
        assert getattr(dtypes, one.name) is one is dtypes.of(one) is dtypes.of(one.number)
        for name in (one.name, one.name.upper(), *one.aliases):
            assert dtypes.of(name) is one
        assert one.numpy is None or dtypes.of(one.numpy) is one
    since = dtypes.float6e3m2.since
    assert (since["Cast"], since["CastLike"], since["BitCast"]) == (28, None, None)
    assert (since["QuantizeLinear"], since["DequantizeLinear"], since["DynamicQuantizeLinear"]) == (28, 28, None)
    for wrong in (0, len(dtypes.ALL) + 1, "nothing"):
        with pytest.raises(CastError):
            dtypes.of(wrong)
    with pytest.raises(TypeError):
        dtypes.of(np.datetime64)


def test_a_copy_of_a_type_is_the_type():
    for one in dtypes.ALL:
        assert copy.copy(one) is copy.deepcopy(one) is one
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(one, protocol)) is one
    state = {"to": dtypes.bfloat16, "all": list(dtypes.ALL)}
    assert copy.deepcopy(state) == state


@pytest.mark.parametrize("name", ["float8_e4m3", "float8e4m3", "Float8-E4M3"])
def test_a_type_of_ml_dtypes_that_onnx_lacks_is_no_other(name):
    assert np.dtype("float8_e4m3") != np.dtype("float8_e4m3fn")
    for refused in (
        lambda: onnx_cast.cast(np.zeros(1, np.float32), name),
        lambda: dtypes.of(name),
        lambda: onnx_cast.quantize_linear(np.zeros(1, np.float32), 1.0, output_dtype=name),
        lambda: onnx_cast.report(np.zeros(1, np.float32), name),
    ):
        with pytest.raises(CastError, match=f"`{name}` is not an element type .ml_dtypes has one with infinities.*want float8e4m3fn"):
            refused()
    with pytest.raises(TypeError, match="ONNX has no type for float8_e4m3"):
        onnx_cast.cast(np.zeros(1, np.float32), ml_dtypes.float8_e4m3)
