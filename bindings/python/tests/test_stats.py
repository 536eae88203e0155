"""What casts lose: the package's counts against those that numpy makes of both sides."""

import signal

import ml_dtypes
import numpy as np
import pytest
from onnx import numpy_helper

import onnx_cast
from onnx_cast import CastError, dtypes

FLOATS = ["float16", "bfloat16", "float8e4m3fn", "float8e5m2", "float8e4m3fnuz", "float6e3m2", "float4e2m1"]


def counted(x, got, to):
    """The counts of an array and what it was cast to, with every step in doubles."""
    to, before = dtypes.of(to), np.asarray(x, np.float64).ravel()
    after = np.asarray(got).astype(np.float64).ravel()
    size, finite = np.abs(before), np.isfinite(before)
    with np.errstate(invalid="ignore", divide="ignore"):
        # Of integers a fraction is not an overflow: it is cut off.
        cut = before if to.kind == "float" else np.trunc(before)
        over, under = cut > to.max, cut < to.min
        stuck = (over & (after == to.max)) | (under & (after == to.min))
        lost = ~np.isnan(before) & ~np.isfinite(after) & (finite | np.isnan(after))
        wrapped = (over | under) & np.isfinite(after) & ~stuck
        both = finite & np.isfinite(after)
        error = np.abs(before - after)[both]
        relative = np.where(error > 0, error / np.where(size[both] > 0, size[both], 1), 0)
    smallest = to.smallest_normal if to.kind == "float" and to.smallest_subnormal else 0.0
    normal = np.finfo(x.dtype).smallest_normal if x.dtype.kind == "f" else 0.0
    within = ~(over | under)
    subnormal = (np.abs(after) > 0) & (np.abs(after) < smallest) & (size >= normal) & within
    zero = (size > 0) & (after == 0) & within
    counts = (before.size, (lost | wrapped).sum(), stuck.sum(), zero.sum(), subnormal.sum())
    counts += (np.isnan(before).sum(), np.isinf(before).sum())
    means = (error.mean(), relative.mean()) if error.size else (0.0, 0.0)
    return counts, (error.max(initial=0), relative.max(initial=0)), means


def check(x, to, **attributes):
    got = onnx_cast.stats(x, to, **attributes)
    counts, largest, means = counted(x, onnx_cast.cast(x, to, **attributes), to)
    assert got[:7] == counts, to
    np.testing.assert_allclose(got[7:9], largest, rtol=2**-22)
    np.testing.assert_allclose(got[9:11], means, rtol=1e-9)
    after = np.asarray(onnx_cast.cast(x, to, **attributes)).astype(np.float64)
    assert got.became_nan == (np.isnan(after) & ~np.isnan(np.asarray(x, np.float64))).sum()
    return got


@pytest.fixture
def values(rng):
    """Numbers of every size, and everything that is none."""
    x = rng.standard_normal(10_001) * 10.0 ** rng.integers(-12, 12, 10_001)
    x[:6] = [0.0, -0.0, np.nan, np.inf, -np.inf, 448]
    return x


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_floats_are_counted_as_numpy_counts_them(values, dtype, to, saturate):
    with np.errstate(over="ignore"):
        x = values.astype(dtype)
    if saturate or to.startswith("float8"):
        check(x, to, saturate=saturate)


@pytest.mark.parametrize("to", ["int8", "uint8", "int4", "uint2", "int32", "float16", "float8e4m3fn"])
@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.int32, np.float32])
def test_numbers_are_counted_where_one_side_is_an_integer(rng, dtype, to):
    check(rng.integers(0, 120, 999).astype(dtype) if dtype == np.uint8 else rng.integers(-3e4, 3e4, 999).astype(dtype), to)


def test_large_arrays_are_counted_the_same_by_any_number_of_threads(rng):
    x = rng.standard_normal((1500, 2001)).astype(np.float32)
    found = check(x, "float8e4m3fn")
    assert all(onnx_cast.stats(x, "float8e4m3fn", threads=threads) == found for threads in (1, 2, 7))
    turned = onnx_cast.stats(x.T, "float8e4m3fn")
    assert turned[:9] == found[:9]


def test_every_kind_of_object_is_counted(values):
    x = values[:100].astype(np.float32)
    want = onnx_cast.stats(x, "bfloat16")
    assert isinstance(want, onnx_cast.Stats) and want.values == 100 and want.max_relative_error > 0
    assert onnx_cast.stats(x.astype(">f4"), "bfloat16") == want
    assert onnx_cast.stats(numpy_helper.from_array(x), "bfloat16") == want
    assert onnx_cast.stats(memoryview(x), "bfloat16") == want
    assert onnx_cast.stats(x[5], "bfloat16").values == 1
    assert onnx_cast.stats(x[:0], "bfloat16") == (0,) * 7 + (0.0,) * 4 + (0,)
    narrow = np.arange(-8, 8).astype(ml_dtypes.int4).repeat(3)
    found = check(narrow, "uint2")
    assert found.overflowed + found.saturated == 36
    texts = np.array(["1e9", "0.1", "nan", "2"])
    found = onnx_cast.stats(texts, "float8e4m3fn")
    assert (found.values, found.saturated, found.nan, found.max_error) == (4, 1, 1, 1e9 - 448)
    assert onnx_cast.stats(x, "string")[:6] == (100, 0, 0, 0, 0, 1)
    assert onnx_cast.stats(texts, "string") == (4,) + (0,) * 6 + (0.0,) * 4 + (0,)


def test_what_cannot_be_cast_cannot_be_counted():
    for x, to, error, text in [
        (np.zeros(2, np.complex64), "float", CastError, "complex64"),
        (np.zeros(2, "M8[s]"), "float", TypeError, "ONNX has no type"),
        (object(), "float", TypeError, "want a numpy array"),
        (np.ma.array([1.0]), "float", TypeError, "masked"),
        (np.array(["x"]), "float", CastError, "element 0"),
        (np.zeros(2, np.float32), "float32x", CastError, "float32x"),
    ]:
        with pytest.raises(error, match=text):
            onnx_cast.stats(x, to)


def test_texts_are_counted_in_pieces_as_one(rng):
    numbers = rng.standard_normal(20_011) * 10.0 ** rng.integers(-12, 12, 20_011)
    texts = [repr(float(number)) for number in numbers] + ["nan", "1e99", "0"]
    want = onnx_cast.stats(np.append(numbers, [np.nan, 1e99, 0.0]), "float8e4m3fn")
    for array in (np.array(texts), np.array(texts, object), np.array(texts, np.dtypes.StringDType())):
        got = onnx_cast.stats(array, "float8e4m3fn")
        assert got[:7] == want[:7] and got == onnx_cast.stats(array, "float8e4m3fn", threads=1)
        np.testing.assert_allclose(got[7:11], want[7:11], rtol=2**-22)
    assert onnx_cast.stats(np.array(["1e9"]), "float8e4m3fn", saturate=False).became_nan == 1
    for at in (0, 5000, 20_000):
        wrong = list(texts)
        wrong[at] = wrong[-1] = "x"
        for kind in (object, np.dtypes.StringDType()):
            with pytest.raises(CastError, match=f"^element {at}: "):
                onnx_cast.stats(np.array(wrong, kind), "float16")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no signals that come later")
def test_counting_texts_heeds_signals():
    texts = np.full(3_000_000, "0.1234567890123", np.dtypes.StringDType())

    def stop(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        with pytest.raises(KeyboardInterrupt):
            onnx_cast.stats(texts, "float")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
