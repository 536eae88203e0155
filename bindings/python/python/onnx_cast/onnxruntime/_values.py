"""Tensors of onnxruntime as numpy arrays, also of types that onnxruntime's own functions refuse, or read past their end."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_cast import _kinds, _native, _targets

if TYPE_CHECKING:
    from onnxruntime import OrtValue

# ONNX's names of types, as onnxruntime writes them in "tensor(float8e4m3fn)".
_NUMBERS = {row["name"]: row["number"] for row in _targets.ROWS.values()}


def to_ortvalue(array: Any, dtype: Any = None, shape: tuple[int, ...] | None = None) -> OrtValue:
    """A tensor of onnxruntime with the elements of an array of numpy's or ml_dtypes' types, or of ONNX's packed bytes.

    array
        An array. With ``dtype`` and ``shape``: the bytes of the tensor, packed as ONNX packs them.
    """
    import onnxruntime

    if (dtype is None) != (shape is None):
        raise ValueError("dtype and shape go together (want both for packed bytes, or neither)")
    if dtype is None:
        array = np.asarray(_kinds.unmasked(np.asanyarray(array), "array"))
        if _targets.is_text(array.dtype):
            raise TypeError("onnxruntime has no OrtValue of strings (want the array itself, as an input of `run`)")
        number, shape = _targets.number_of(array), array.shape
        # Of elements in the other byte order a copy.
        native = array.astype(array.dtype.newbyteorder("="), copy=False)
        data = _native.pack(native, number) if _is_packed(number) else np.ascontiguousarray(native)
    else:
        number, shape = _targets.target(dtype)[0], _targets.dims(tuple(shape or ()))
        data = np.frombuffer(array, np.uint8)
    row = _targets.ROWS[number]
    if row["onnxruntime"] is None or row["bits"] is None:
        raise TypeError(f"onnxruntime has no tensors of {row['name']} with bytes")
    size = _bytes(number, shape)
    if data.nbytes != size:
        raise ValueError(f"{data.nbytes} bytes for shape {shape} of {row['name']} (want {size})")
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(shape), number, "cpu", 0)
    if size:
        ctypes.memmove(value.data_ptr(), data.ctypes.data, size)
    return value


def from_ortvalue(value: OrtValue, *, packed: bool = False) -> np.ndarray:
    """A copy of the elements of a tensor on the processor, as an array of numpy's or ml_dtypes' type.

    packed
        Whether to return ONNX's bytes of the elements instead, as an array of uint8.
    """
    name = value.data_type().removeprefix("tensor(").removesuffix(")")
    number = _NUMBERS.get(name)
    if number is None:
        raise TypeError(f"the value is of type {value.data_type()} (want a tensor)")
    if number == _targets.STRING:
        if packed:
            raise TypeError("strings have no packed bytes")
        return value.numpy()
    if value.device_name() != "cpu":
        raise ValueError(f"the tensor is on the device {value.device_name()!r} (want 'cpu')")
    shape = tuple(value.shape())
    data = np.empty(_bytes(number, shape), np.uint8)
    if data.size:
        ctypes.memmove(data.ctypes.data, value.data_ptr(), data.size)
    return data if packed else _targets.from_bytes(data, number, shape)


def _is_packed(number: int) -> bool:
    bits = _targets.ROWS[number]["bits"]
    return bits is not None and bits < 8


def _bytes(number: int, shape: tuple[int, ...]) -> int:
    """The size of a tensor's elements, packed."""
    return -(-math.prod(shape) * _targets.ROWS[number]["bits"] // 8)
