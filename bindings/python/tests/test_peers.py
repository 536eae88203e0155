"""Where other packages give other results than this one: each difference has a name and a reason, and any that has none
fails, as does a name without a difference."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from bitwise import bits
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import onnx_cast
from onnx_cast import dtypes

FLOATS = ["float16", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"]
FINITE = ["float6e2m3", "float6e3m2", "float4e2m1"]
SOURCES = ["double", "float", "float16", "int64", "uint64", "int8"]


def values(source):
    """Values of a type: all magnitudes, ties of narrower types, and those just beside ties."""
    rng = np.random.default_rng(5)
    dtype = dtypes.of(source).numpy
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        shifts = rng.integers(0, info.bits - 1, 4000).astype(dtype)
        spread = rng.integers(info.min, info.max, 4000, dtype, endpoint=True) >> shifts
        ties = [(1 << k) + (1 << j) + d for k in range(12, 63) for j in range(k - 12, k - 3) for d in (-1, 0, 1)]
        return np.concatenate([spread, np.array([t for t in ties if t <= info.max], dtype)])
    with np.errstate(all="ignore"):
        spread = rng.standard_normal(20_000) * np.exp2(rng.uniform(-30, 15, 20_000))
        ties = [s * m * (1 + 2.0**-k + d) for s in (1, -1) for m in (1, 2.0**5) for k in range(2, 13) for d in (0, 2.0**-40)]
        special = [0.0, -0.0, np.inf, -np.inf, np.nan, 448.0, 465.0, 57344.0, 61441.0, 65519.999999999]
        return np.concatenate([spread, ties, special]).astype(dtype)


# How a peer's result for `x` comes about, where it is another than ours.
REASONS = {
    "rounded twice": "through float first, which moves a value onto a tie",
    "NaN of negative sign": "+0 or another sign, where ONNX's table gives -0",
    "overflow": "its own rule for what is too large, where ONNX saturates or not as the attribute says",
}


def explain(x, ours, theirs, to):
    """The name of a difference, or None."""
    wide = np.float64(x)
    if np.isnan(wide):
        return "NaN of negative sign"
    if not abs(wide) <= dtypes.of(to).max:
        return "overflow"
    # What rounding the value to float first, and then once more, gives.
    if bits(onnx_cast.cast(np.array(x).astype(np.float32), to)) == bits(np.array(theirs)) and float(np.float32(x)) != x.item():
        return "rounded twice"
    return None


@pytest.mark.parametrize("source", SOURCES)
def test_differences_from_ml_dtypes_have_names(source):
    x, found = values(source), set()
    for to in FLOATS + FINITE:
        ours = onnx_cast.cast(x, to, **({} if to in FINITE else {"saturate": False}))
        with np.errstate(all="ignore"):
            theirs = x.astype(dtypes.of(to).numpy)
        differ = bits(ours) != bits(theirs)
        differ &= ~(np.isnan(ours.astype(np.float32)) & np.isnan(theirs.astype(np.float32)))
        for at in np.flatnonzero(differ):
            name = explain(x[at], ours[at], theirs[at], to)
            assert name, f"{source} {x[at]!r} to {to}: {ours[at]}, ml_dtypes {theirs[at]}"
            found.add(name)
    assert found <= set(REASONS)
    if source in ("double", "int64", "uint64"):
        assert "rounded twice" in found
    else:
        assert "rounded twice" not in found


@pytest.mark.parametrize("source", ["double", "float", "float16", "int64"])
def test_differences_from_the_reference_evaluator_have_names(source):
    x, found = values(source), set()
    x = x[np.isfinite(x.astype(np.float64))]
    for to in FLOATS + FINITE[2:]:
        data_type = dtypes.of(to)
        node = helper.make_node("Cast", ["x"], ["y"], to=data_type.number)
        kinds = (("x", dtypes.of(source).number), ("y", data_type.number))
        one, two = (helper.make_tensor_value_info(name, kind, [None]) for name, kind in kinds)
        model = helper.make_model(
            helper.make_graph([node], "g", [one], [two]), opset_imports=[helper.make_opsetid("", 24)], ir_version=10
        )
        with np.errstate(all="ignore"):
            (theirs,) = ReferenceEvaluator(model).run(None, {"x": x})
        ours = onnx_cast.cast(x, to, opset=24)
        for at in np.flatnonzero(bits(ours) != bits(theirs)):
            name = explain(x[at], ours[at], theirs[at], to)
            assert name, f"{source} {x[at]!r} to {to}: {ours[at]}, onnx {onnx.__version__} {theirs[at]}"
            found.add(name)
    assert ("rounded twice" in found) == (source in ("double", "int64"))
    assert TensorProto.BFLOAT16 == dtypes.bfloat16.number and ml_dtypes.bfloat16 == dtypes.bfloat16.numpy
