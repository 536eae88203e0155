"""Arrays: which of them the operators take, texts among them, and memory for results that another library takes over."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onnx_cast import _native, _targets
from onnx_cast._native import CastError


def unmasked(x: np.ndarray, name: str = "x") -> np.ndarray:
    """An array without a mask."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array; a cast would lose its mask (want {name}.filled(...) or {name}.data)")
    return x


def run(operator: _native.Operator, x: np.ndarray, out: Any, packed: bool) -> Any:
    """The result of an operator for an array of numbers or texts."""
    unmasked(x)
    if _targets.is_text(x.dtype):
        if operator.to != _targets.STRING and isinstance(x.dtype, np.dtypes.StringDType):
            return operator.parse_array(x.view(np.ndarray), out, packed)
        texts = x.ravel().tolist()
        if operator.to != _targets.STRING:
            return operator.parse(texts, x.shape, out, packed)
        return _text(operator.texts(texts), x.shape, operator.text, out, packed)
    _targets.number_of(x)
    if operator.to == _targets.STRING:
        return _text(operator.print(x), x.shape, operator.text, out, packed)
    return operator.run(x.view(np.ndarray), out, packed)


def _text(texts: list[str], shape: tuple[int, ...], dtype: np.dtype, out: Any, packed: bool) -> np.ndarray:
    """Texts as an array, in `out` where it is given."""
    if packed:
        raise CastError("strings have no packed bytes (want packed=False)", parameter="packed", value=True)
    if out is not None:
        if not isinstance(out, np.ndarray):
            raise TypeError(f"out is a {type(out).__name__} (want a numpy array)")
        unmasked(out, "out")
        if not _targets.is_text(out.dtype):
            raise CastError(f"out is of dtype {out.dtype} (want {dtype}, for string)", parameter="out")
        if out.shape != shape:
            raise CastError(f"out is of shape {out.shape} (want {shape})", parameter="out")
        if not out.flags.writeable:
            raise CastError("out is read-only", parameter="out")
        dtype = out.dtype
    if dtype.kind == "S":
        texts = [text.encode() for text in texts]
    if dtype.kind == "O":
        array = np.empty(len(texts), object)
        array[:] = texts
    else:
        array = np.array(texts, dtype if dtype.kind == "T" else dtype.type)
        if dtype.kind in "US" and 0 < dtype.itemsize < array.dtype.itemsize:
            longest = max(texts, key=len)
            raise CastError(f"{dtype} is too narrow for `{longest}`")
        array = array.astype(dtype if dtype.itemsize else array.dtype, copy=False)
    array = array.reshape(shape)
    if out is None:
        return array
    out[...] = array
    return out


def no_packed_type(library: str, number: int) -> TypeError:
    """What says that a library has no type for a result."""
    return TypeError(f"{library} has no type for {_targets.ROWS[number]['name']} (want packed=True)")


def memory(operator: _native.Operator, shape: tuple[int, ...], packed: bool) -> np.ndarray:
    """A new array for a result that another library takes over as it is: numpy's, which asks the system for huge pages
    where torch does not, since touching a new page of 4 KiB takes longer than casting to it; and at a multiple of 64
    bytes, without which JAX copies."""
    row, dtype = _targets.ROWS[operator.to], _targets.DTYPES[operator.to]
    if packed:
        shape, dtype = (-(-math.prod(shape) * row["bits"] // 8),), np.dtype(np.uint8)
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + 63, np.uint8)
    start = -memory.__array_interface__["data"][0] % 64
    return memory[start : start + size].view(dtype).reshape(shape)
