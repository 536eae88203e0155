"""What a cast would lose."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onnx_cast import _kinds, _native, _targets


class Stats(NamedTuple):
    """What a cast does to values, as :func:`onnx_cast.stats` counts it."""

    #: Values in all.
    values: int
    #: Numbers that became infinite, NaN or, of integers, another number.
    overflowed: int
    #: Numbers, or infinities, beyond the target's largest value that became that value.
    saturated: int
    #: Numbers other than zero that became zero.
    zero: int
    #: Normal numbers that became subnormal.
    subnormal: int
    #: Values that were NaN.
    nan: int
    #: Values that were infinite.
    infinite: int
    #: The largest distance between a finite value and a finite result, to the precision of a float.
    max_error: float
    #: The largest such distance, divided by the value, likewise.
    max_relative_error: float
    #: The means of the same.
    mean_error: float
    mean_relative_error: float
    #: Numbers and infinities that became NaN; they count as overflowed too.
    became_nan: int = 0


def of(operator: _native.Operator, x: object) -> Stats:
    """What the operator would do to the elements of any object."""
    array = _kinds.array_of(x)
    if isinstance(array.dtype, np.dtypes.StringDType):
        counts, errors, became_nan = _native.count_strings(operator, array.view(np.ndarray))
    elif _targets.is_text(array.dtype):
        counts, errors, became_nan = _native.count_texts(operator, array.ravel().tolist())
    else:
        counts, errors, became_nan = _native.count(operator, array.view(np.ndarray))
    return Stats(*counts, *errors, became_nan)
