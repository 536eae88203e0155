"""The type table as objects, against ml_dtypes and numpy."""

import ml_dtypes
import numpy as np
import pytest

from onnx_cast import CastError, dtypes

FLOATS = [one for one in dtypes.ALL if one.kind == "float"]


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


@pytest.mark.parametrize("one", [one for one in dtypes.ALL if one.kind in ("int", "uint")], ids=str)
def test_integers_have_the_limits_that_ml_dtypes_says(one):
    info = ml_dtypes.iinfo(one.numpy)
    assert (one.min, one.max) == (int(info.min), int(info.max))


def test_every_type_is_found_by_all_of_its_names():
    for one in dtypes.ALL:
        assert getattr(dtypes, one.name) is one is dtypes.of(one) is dtypes.of(one.number)
        for name in (one.name, one.name.upper(), *one.aliases):
            assert dtypes.of(name) is one
        assert dtypes.of(one.numpy) is one
    assert dtypes.float6e3m2.since == {"Cast": 28, "CastLike": None, "BitCast": None}
    for wrong in (0, 29, "nothing"):
        with pytest.raises(CastError):
            dtypes.of(wrong)
    with pytest.raises(TypeError):
        dtypes.of(np.datetime64)
