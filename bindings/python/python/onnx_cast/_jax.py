"""Arrays of JAX. What JAX traces (`jit`, `vmap`, `grad`) becomes a callback to the host, with the bits of other casts.

A cast from floats to floats has the derivative of JAX's `astype`: the tangent, as the type of the result. What rounding,
saturation and overflow do to a value is passed over (straight through). Everything else has no derivative.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np

from onnx_cast import _arrays, _native, _operators, _targets


def run(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    """The result of an operator for an array."""
    if out is not None or operator.to == _targets.STRING:
        return _arrays.run(operator, _concrete(x), out, packed)
    dtype = np.dtype(np.uint8) if packed else _dtype(operator.to)
    if isinstance(x, jax.core.Tracer):
        return _traced(operator, x, dtype, packed)
    array = np.asarray(x)
    result = operator.run(array, _arrays.memory(operator, array.shape, packed), packed, new=True)
    return jax.device_put(result, x.sharding if x.committed and not packed else None, may_alias=True)


def array_of(x: Any, name: str) -> np.ndarray:
    """The elements of an array, in its memory where the host has it."""
    return _concrete(x, name)


def array_like(x: Any, array: np.ndarray) -> Any:
    """An array on the device of ``x``; how ``x`` is spread over several would not fit another shape."""
    _check(array.dtype)
    device = next(iter(x.devices())) if x.committed and len(x.devices()) == 1 else None
    return jax.device_put(array, device)


def _concrete(x: Any, name: str = "x") -> np.ndarray:
    if isinstance(x, jax.core.Tracer):
        raise TypeError(f"{name} is traced by JAX and has no elements (want a cast to a type of numbers, without out)")
    return np.asarray(x)


def _dtype(number: int) -> np.dtype:
    dtype = _targets.DTYPES[number]
    _check(dtype)
    return dtype


def _check(dtype: np.dtype) -> None:
    """Refuses a type that JAX lacks, or has switched off: it gives another one then, with a warning only."""
    if not _has(dtype):
        raise TypeError(f"JAX has no type for {dtype} (want packed=True, or a numpy array)")
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise TypeError(f"JAX has {dtype} switched off (see its option jax_enable_x64)")


@functools.cache
def _has(dtype: np.dtype) -> bool:
    try:
        with jax.ensure_compile_time_eval():  # and not in what is traced
            jax.device_put(np.zeros(1, dtype))
    except Exception:  # of a class that depends on the version
        return False
    return True


def _traced(operator: _native.Operator, x: Any, dtype: np.dtype, packed: bool) -> Any:
    is_cast = isinstance(operator.text, _operators.Asked)
    if is_cast:  # which refuses types before there are elements
        operator.run(np.empty(0, x.dtype), None, packed)
    is_float = jax.numpy.issubdtype(x.dtype, jax.numpy.floating) and jax.numpy.issubdtype(dtype, jax.numpy.floating)
    if is_cast and is_float and not packed and operator.text.name != "BitCast":
        return _straight_through(operator, x)
    return _called_back(operator, jax.lax.stop_gradient(x), packed)


def _called_back(operator: _native.Operator, x: Any, packed: bool) -> Any:
    shape, dtype = x.shape, np.dtype(np.uint8) if packed else _targets.DTYPES[operator.to]
    if packed:
        shape = (-(-math.prod(shape) * _targets.ROWS[operator.to]["bits"] // 8),)
    # Scales may be for an axis, which a batch moves, and each member of a batch has bytes of its own.
    is_whole = isinstance(operator.text, _operators.Asked) and not packed
    return jax.pure_callback(
        lambda array: operator.run(np.asarray(array), None, packed),
        jax.ShapeDtypeStruct(shape, dtype),
        x,
        vmap_method="expand_dims" if is_whole else "sequential",
    )


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _straight_through(operator: _native.Operator, x: Any) -> Any:
    return _called_back(operator, x, False)


@_straight_through.defjvp
def _(operator: _native.Operator, primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    result = _straight_through(operator, *primals)
    return result, tangents[0].astype(result.dtype)
