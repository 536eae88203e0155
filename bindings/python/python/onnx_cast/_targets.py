"""What a target is: ONNX's number, and for texts the kind of array that holds them."""

from __future__ import annotations

import functools
import math
import operator
import sys
from typing import Any

import ml_dtypes
import numpy as np

from onnx_cast import _native
from onnx_cast._native import CastError

#: ONNX's number: the row of the type table. The numbers may have gaps.
ROWS = {row["number"]: row for row in _native.types()}
_NUMBERS_BY_NAME = {row["name"]: row["number"] for row in ROWS.values()}
STRING = _NUMBERS_BY_NAME["string"]
FLOAT4 = _NUMBERS_BY_NAME["float4e2m1"]

# torch's name: ONNX's, where it is not a name of the library's.
_TORCH = {"float32": "float", "float4_e2m1fn_x2": "float4e2m1"}


def _numpy_type(row: dict[str, Any]) -> np.dtype | None:
    """numpy's type of a row of the table, or ``None`` where neither numpy nor this ml_dtypes has one."""
    if row["number"] == STRING:
        return np.dtypes.StringDType()
    if row["numpy"] is not None:
        return np.dtype(row["numpy"])
    found = getattr(ml_dtypes, row["ml_dtypes"] or "", None)
    return None if found is None else np.dtype(found)


class _Dtypes(dict[int, np.dtype]):
    def __missing__(self, number: int) -> np.dtype:
        raise TypeError(f"numpy has no type for {ROWS[number]['name']} (want packed=True)")


#: ONNX's number: numpy's type, where there is one.
DTYPES = _Dtypes((row["number"], dtype) for row in ROWS.values() if (dtype := _numpy_type(row)) is not None)
_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def registrations() -> list[tuple[np.dtype, int]]:
    """numpy's types of numbers with ONNX's numbers. C has more names for integers than widths: all of them count."""
    main = [(dtype, number) for number, dtype in DTYPES.items() if number != STRING]
    others = [np.dtype(char) for char in np.typecodes["AllInteger"]]
    return main + [(dtype, _NUMBERS[np.dtype(f"{dtype.kind}{dtype.itemsize}")]) for dtype in others]


def is_text(dtype: Any) -> bool:
    """Whether arrays of the type hold texts, or objects that may be."""
    return isinstance(dtype, np.dtypes.StringDType) or dtype.kind in "OSU"


@functools.lru_cache(256)
def _named(name: str) -> int:
    """ONNX's number of a name, unless numpy takes it for another type of ONNX's. ONNX's own names are no question."""
    number = _native.number(name)
    row = ROWS[number]
    try:
        theirs = None if name == row["name"] else np.dtype(name)
    except TypeError:
        return number
    other = None if theirs is None else STRING if is_text(theirs) else _NUMBERS.get(theirs)
    if other not in (None, number):
        other_name = ROWS[other]["name"]
        text = f"`{name}` may mean {row['name']}, and to numpy means {other_name} (want one of these)"
        raise CastError(text, parameter="to", value=name)
    return number


def target(to: Any) -> tuple[int, np.dtype | None]:
    """ONNX's number of a target, and the type of the array where the target is text."""
    if isinstance(to, str):
        number = _named(to)
        return number, DTYPES[number] if number == STRING else None
    if not isinstance(to, (bool, np.bool_)):
        try:
            number = operator.index(to)
        except TypeError:
            return _of_dtype(to)
        if number not in ROWS:
            text = f"{number} is not an element type of ONNX's (want a number of onnx.TensorProto.DataType)"
            raise CastError(text, parameter="to", value=number)
        return number, DTYPES[number] if number == STRING else None
    raise TypeError(f"to is {to!r} (want a name, a dtype or a number of onnx.TensorProto.DataType)")


def _of_dtype(to: Any) -> tuple[int, np.dtype | None]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(to, torch.dtype):
        name = str(to).removeprefix("torch.")
        try:
            return _native.number(_TORCH.get(name, name)), None
        except CastError:
            raise TypeError(f"ONNX has no type for {to}") from None
    if _is_of_polars(to):
        try:
            return target(str(to).lower().replace("boolean", "bool"))
        except CastError:
            raise TypeError(f"ONNX has no type for polars' {to}") from None
    without_nulls = getattr(to, "numpy_dtype", None)  # of a type of pandas'
    if isinstance(without_nulls, np.dtype) and without_nulls.kind in "biuf":
        to = without_nulls
    try:
        dtype = None if to is None else np.dtype(to)
    except (TypeError, ValueError):
        dtype = None
    if dtype is not None and dtype.kind == "O" and isinstance(to, type) and to not in (object, np.object_):
        dtype = None  # numpy holds instances of any class as objects
    if dtype is None:
        raise TypeError(f"to is {to!r} (want a name, a dtype or a number of onnx.TensorProto.DataType)")
    if is_text(dtype):
        return STRING, dtype
    number = _NUMBERS.get(dtype.newbyteorder("="))
    if number is None:
        raise TypeError(f"ONNX has no type for {dtype}")
    return number, None


def _is_of_polars(to: Any) -> bool:
    """Whether a target is a type of polars', which is a class or its instance."""
    base = getattr(sys.modules.get("polars"), "DataType", None)
    return isinstance(base, type) and (isinstance(to, base) or isinstance(to, type) and issubclass(to, base))


#: What the native module takes as an integer.
_INT64 = np.iinfo(np.int64)


def whole(name: str, value: Any, least: int | None = None) -> int:
    """An integer parameter as an ``int``. numpy's integers are accepted. A value above the maximum of int64 is clamped
    if there is a minimum, and an error otherwise."""
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name} is {value!r} (want an integer)")
    if least is not None and number < least:
        raise CastError(f"{name} is {number} (want {least} or more)", parameter=name, value=number)
    if least is None and not _INT64.min <= number <= _INT64.max:
        raise CastError(f"{name} is {number} (want an integer of up to 64 bits)", parameter=name, value=number)
    return min(number, _INT64.max)


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape, which may be one number, as numpy takes it."""
    try:
        return dims(tuple(whole("shape", dim) for dim in shape))
    except TypeError:
        return dims((whole("shape", shape),))


def thread_count(threads: Any) -> int | None:
    """Threads at most, where they are given."""
    if threads is None:
        return None
    count = whole("threads", threads, _INT64.min)
    if count < 1:
        raise CastError(f"{threads} threads (want 1 or more)", parameter="threads", value=threads)
    return count


def flag(name: str, value: Any) -> bool:
    """A parameter that is true or false."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} is {value!r} (want True or False)")
    return bool(value)


def attributes(saturate: bool, round_mode: Any, opset: int | None) -> dict[str, Any]:
    """A version without the attribute takes the defaults, and refuses all else."""
    saturation = None if flag("saturate", saturate) else False
    rounding = None if isinstance(round_mode, str) and round_mode == "up" else round_mode
    return {"opset": opset_of(opset), "saturate": saturation, "round_mode": rounding}


def opset_of(opset: int | None) -> int | None:
    """An opset, where it is given."""
    return None if opset is None else whole("opset", opset)


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
            raise CastError(f"shape {shape} has the dimension {dim}", parameter="shape", value=shape)
    return shape


def from_bytes(data: Any, number: int, shape: tuple[int, ...]) -> np.ndarray:
    """The elements of ONNX's bytes: of types that take whole bytes the same memory."""
    row, shape, data = ROWS[number], dims(shape), np.frombuffer(data, np.uint8)
    if row["bits"] is None:
        raise CastError("strings are not held as bytes alone")
    if row["bits"] < 8:
        return _native.unpack(data, number, shape)
    want = math.prod(shape) * row["bits"] // 8
    if data.size != want:
        text = "x".join(map(str, shape)) or "scalar"
        raise CastError(f"{data.size} bytes for {text} {row['name']} (want {want})", parameter="data")
    return data.view(DTYPES[number]).reshape(shape)
