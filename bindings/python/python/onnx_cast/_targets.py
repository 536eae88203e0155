"""What a target is: ONNX's number, and for texts the kind of array that holds them."""

from __future__ import annotations

import math
import operator
from typing import Any

import ml_dtypes
import numpy as np

from onnx_cast import _native
from onnx_cast._native import CastError

ROWS = _native.types()
_NUMBERS_BY_NAME = {row["name"]: row["number"] for row in ROWS}
STRING = _NUMBERS_BY_NAME["string"]
FLOAT4 = _NUMBERS_BY_NAME["float4e2m1"]

# ONNX's name: numpy's type, where another name is numpy's or the type is ml_dtypes'.
_NUMPY = {
    "float": np.float32,
    "double": np.float64,
    "bfloat16": "bfloat16",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
    "float4e2m1": "float4_e2m1fn",
    "uint4": "uint4",
    "int4": "int4",
    "uint2": "uint2",
    "int2": "int2",
    "string": np.dtypes.StringDType(),
}

# torch's name: ONNX's, where it is no name of the library's.
_TORCH = {"float32": "float", "float4_e2m1fn_x2": "float4e2m1"}


def _numpy_type(name: str) -> np.dtype:
    named = _NUMPY.get(name, name)
    return np.dtype(getattr(ml_dtypes, named) if name in _NUMPY and isinstance(named, str) else named)


#: ONNX's number: numpy's type.
DTYPES = {row["number"]: _numpy_type(row["name"]) for row in ROWS}
_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def registrations() -> list[tuple[np.dtype, int]]:
    """numpy's types of numbers with ONNX's numbers. C has more names for integers than widths: all of them count."""
    main = [(dtype, number) for number, dtype in DTYPES.items() if number != STRING]
    others = [np.dtype(char) for char in np.typecodes["AllInteger"]]
    return main + [(dtype, _NUMBERS[np.dtype(f"{dtype.kind}{dtype.itemsize}")]) for dtype in others]


def is_text(dtype: Any) -> bool:
    """Whether arrays of the type hold texts, or objects that may be."""
    return isinstance(dtype, np.dtypes.StringDType) or dtype.kind in "OSU"


def target(to: Any) -> tuple[int, np.dtype | None]:
    """ONNX's number of a target, and the type of the array where the target is text."""
    if isinstance(to, str):
        number = _native.number(to)
        return number, DTYPES[number] if number == STRING else None
    if not isinstance(to, (bool, np.bool_)):
        try:
            number = operator.index(to)
        except TypeError:
            return _of_dtype(to)
        if not 0 < number <= len(ROWS):
            raise CastError(f"{number} is no element type of ONNX's (want a number from 1 to {len(ROWS)})")
        return number, DTYPES[number] if number == STRING else None
    raise TypeError(f"to is {to!r} (want a name, a dtype or a number of onnx.TensorProto.DataType)")


def _of_dtype(to: Any) -> tuple[int, np.dtype | None]:
    if type(to).__module__.partition(".")[0] == "torch":
        name = str(to).removeprefix("torch.")
        try:
            return _native.number(_TORCH.get(name, name)), None
        except CastError:
            raise TypeError(f"ONNX has no type for {to}") from None
    try:
        dtype = None if to is None else np.dtype(to)
    except TypeError:
        dtype = None
    if dtype is None:
        raise TypeError(f"to is {to!r} (want a name, a dtype or a number of onnx.TensorProto.DataType)")
    if is_text(dtype):
        return STRING, dtype
    number = _NUMBERS.get(dtype.newbyteorder("="))
    if number is None:
        raise TypeError(f"ONNX has no type for {dtype}")
    return number, None


def type_of(like: Any) -> Any:
    """The type of a tensor of any kind, as :func:`target` takes it."""
    to = getattr(like, "dtype", None)
    if to is None:
        to = getattr(like, "data_type", None)
    if to is None:
        raise TypeError(f"like is of type {type(like).__name__} (want a tensor)")
    return to


def number_of(x: Any) -> int:
    """ONNX's number of an array of numbers."""
    if not isinstance(x, np.ndarray):
        raise TypeError(f"x is of type {type(x).__name__} (want a numpy array)")
    number = _native.data_type(x)
    if number is None:
        raise TypeError(f"ONNX has no type for {x.dtype}")
    return number


def dims(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without negative dimensions."""
    for dim in shape:
        if dim < 0 or dim > np.iinfo(np.intp).max:
            raise CastError(f"shape {shape} has the dimension {dim}")
    return shape


def from_bytes(data: Any, number: int, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of ONNX's bytes: of types that take whole bytes the same memory."""
    row, shape, data = ROWS[number - 1], dims(shape), np.frombuffer(data, np.uint8)
    if row["bits"] is None:
        raise CastError("strings are not held as bytes alone")
    if row["bits"] < 8:
        return _native.unpack(data, number, shape)
    want = math.prod(shape) * row["bits"] // 8
    if data.size != want:
        text = "x".join(map(str, shape)) or "scalar"
        raise CastError(f"{data.size} bytes for {text} {row['name']} (want {want})")
    return data.view(DTYPES[number]).reshape(shape)
