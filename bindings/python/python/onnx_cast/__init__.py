"""ONNX's casts and scaled casts: complete, exact, and as fast as memory.

>>> import numpy as np, onnx_cast
>>> onnx_cast.cast(np.array([1.0, -0.3, 1000.0], np.float32), "float8e4m3fn")
array([1, -0.3125, 448], dtype='float8_e4m3fn')
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, SupportsIndex

import numpy as np

from onnx_cast import _kinds, _native, _stats, _targets
from onnx_cast._native import CastError, __version__, cast
from onnx_cast._operators import opaque as _opaque, operator as _operator
from onnx_cast._scaled import (
    Quantized,
    dequantize_linear,
    dynamic_quantize_linear,
    quantize_blocks,
    quantize_linear,
)
from onnx_cast._stats import Stats
from onnx_cast.types import RoundMode, To

#: Jobs on files and what they give, each with its module, which is loaded when one of them is used.
_ELSEWHERE = {
    "Converted": "_convert",
    "LossError": "files",
    "Ranges": "files",
    "Report": "_report",
    "bit_cast_file": "files",
    "cast_file": "files",
    "check": "files",
    "convert_float_to_float16": "float16",
    "convert_model": "_convert",
    "dequantize_file": "_quantized",
    "diff": "files",
    "fold": "files",
    "info": "files",
    "quantize_file": "_quantized",
    "record_model": "files",
    "report": "_report",
    "transcode_file": "_quantized",
    "upgrade_model": "files",
}

#: Modules that need not be imported by name.
_MODULES = frozenset(
    {"backend", "columns", "dtypes", "files", "float16", "layouts", "onnxruntime", "ray", "reference", "torch", "types"}
)

__all__ = [
    "CastError",
    "Converted",
    "LossError",
    "Quantized",
    "Ranges",
    "Report",
    "Stats",
    "__version__",
    "bit_cast",
    "bit_cast_file",
    "cast",
    "cast_file",
    "cast_like",
    "check",
    "convert_float_to_float16",
    "convert_model",
    "dequantize_file",
    "dequantize_linear",
    "diff",
    "dynamic_quantize_linear",
    "fold",
    "info",
    "pack",
    "quantize_blocks",
    "quantize_file",
    "quantize_linear",
    "record_model",
    "report",
    "stats",
    "transcode_file",
    "unpack",
    "upgrade_model",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        try:
            return importlib.import_module(f"onnx_cast.{name}")
        except ImportError as error:  # of a package that it needs; `inspect.getmembers` and `help` only expect the other
            raise AttributeError(f"module 'onnx_cast' has no attribute {name!r} here: {error}") from error
    if name not in _ELSEWHERE:
        raise AttributeError(f"module 'onnx_cast' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"onnx_cast.{_ELSEWHERE[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})


_native.setup(_targets.registrations(), _kinds.run, _operator)


@_opaque
def cast_like(
    x: Any,
    like: Any,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: Any = None,
    threads: int | None = None,
    packed: bool = False,
) -> Any:
    """The elements of ``x`` as the type of ``like``: ONNX's CastLike.

    It takes fewer types than Cast: no version of CastLike has float6e2m3 and float6e3m2.

    Parameters
    ----------
    x : array, scalar or tensor
        As for :func:`cast`.
    like : array, scalar or tensor
        Any tensor of the target type. Its values do not matter.
    saturate, round_mode, opset, out, threads, packed : optional
        As for :func:`cast`.

    Returns
    -------
    array, scalar or tensor
        Of the kind of ``x``.

    Examples
    --------
    >>> cast_like(np.array([1.5, -2.5], np.float32), np.empty(0, np.int8))
    array([ 1, -2], dtype=int8)
    """
    to = _targets.type_of(like)
    return _operator("CastLike", to, saturate, round_mode, opset, threads).run(x, out, packed)


@_opaque
def bit_cast(
    x: Any,
    to: To,
    *,
    opset: int | None = None,
    out: Any = None,
    threads: int | None = None,
    packed: bool = False,
) -> Any:
    """The bits of ``x`` as another type of the same width, in a new array: ONNX's BitCast.

    Parameters
    ----------
    x : array, scalar or tensor
        As for :func:`cast`.
    to : To
        A type as wide as that of ``x``.
    opset, out, threads, packed : optional
        As for :func:`cast`.

    Returns
    -------
    array, scalar or tensor
        Of the kind of ``x``.

    Examples
    --------
    >>> bit_cast(np.array([1.0, -0.0], np.float32), "uint32")
    array([1065353216, 2147483648], dtype=uint32)
    """
    return _operator("BitCast", to, True, "up", opset, threads).run(x, out, packed)


@_opaque
def stats(
    x: Any,
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    threads: int | None = None,
) -> Stats:
    """What :func:`cast` would lose: how many values overflow, become zero and so on, and the errors, in one pass over
    ``x`` that keeps no result.

    Both sides are compared as doubles, which is exact except for 64-bit integers and strings.

    Parameters
    ----------
    x : array, scalar or tensor
        As for :func:`cast`.
    to : To
        The type of the cast.
    saturate, round_mode, opset, threads : optional
        As for :func:`cast`.

    Returns
    -------
    Stats
        Counts and errors.

    Examples
    --------
    >>> stats(np.array([1.0, 1000.0, 1e-9], np.float32), "float8e4m3fn").saturated
    1
    """
    return _stats.of(_operator("Cast", to, saturate, round_mode, opset, threads), x)


def pack(x: np.ndarray) -> np.ndarray:
    """ONNX's bytes of an array of a type narrower than a byte, which numpy holds one element in a byte.

    Parameters
    ----------
    x : numpy.ndarray
        An array of such a type of ml_dtypes.

    Returns
    -------
    numpy.ndarray
        Bytes, in one dimension, with the first element in the low bits.

    Examples
    --------
    >>> import ml_dtypes
    >>> pack(np.array([1, 2, 3], ml_dtypes.int4))
    array([33,  3], dtype=uint8)
    """
    number = _targets.number_of(x)
    return _native.pack(_kinds.unmasked(x), number)


def unpack(data: Any, dtype: To, shape: SupportsIndex | Iterable[SupportsIndex]) -> np.ndarray:
    """The elements of ONNX's bytes, as ``cast(..., packed=True)`` gives them.

    Parameters
    ----------
    data : buffer, array or tensor
        The bytes.
    dtype : To
        The type of the elements.
    shape : int or iterable of int
        The shape of the result.

    Returns
    -------
    numpy.ndarray
        Elements of types narrower than a byte are unpacked, one in a byte; others are in the same memory.

    Examples
    --------
    >>> unpack(b"\\x21\\x03", "int4", 3)
    array([1, 2, 3], dtype=int4)
    """
    number, shape = _targets.target(dtype)[0], _targets.shape_of(shape)
    array = _kinds.array_of(data, "data")
    own = _targets.ROWS.get(_native.data_type(array))
    if own is not None and own["bits"] is not None and own["bits"] < 8:
        text = f"data is an array of {own['name']}, whose elements are already unpacked (want bytes)"
        raise CastError(text, parameter="data")
    return _targets.from_bytes(array, number, shape)
