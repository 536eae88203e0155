"""Arrays of JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from onnx_cast import _arrays, _native, _targets


def run(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    """The result of an operator for an array."""
    if out is not None or operator.to == _targets.STRING:
        return _arrays.run(operator, np.asarray(x), out, packed)
    # Types of 64 bits become others where JAX has them switched off, which it says with a warning only.
    dtype = np.dtype(np.uint8) if packed else _targets.DTYPES[operator.to]
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise TypeError(f"JAX has {dtype} switched off (see its option jax_enable_x64)")
    array = np.asarray(x)
    result = operator.run(array, _arrays.memory(operator, array.shape, packed), packed, new=True)
    return jax.device_put(result, x.sharding if x.committed and not packed else None, may_alias=True)


def array_like(x: Any, array: np.ndarray) -> Any:
    """An array on the device of ``x``; how ``x`` is spread over several would not fit another shape."""
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise TypeError(f"JAX has {array.dtype} switched off (see its option jax_enable_x64)")
    device = next(iter(x.devices())) if x.committed and len(x.devices()) == 1 else None
    return jax.device_put(array, device)
