"""QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear."""

from __future__ import annotations

import dataclasses
from typing import Any, Generic, TypeVar, overload

import numpy as np

from onnx_cast import _kinds, _native, _targets
from onnx_cast._native import CastError
from onnx_cast._operators import opaque
from onnx_cast.types import BlockFormat, Recipe, ScaleRule, To

_UINT8 = _targets.target("uint8")[0]

#: Accepted kinds of scales and zero points besides tensors, as errors list them.
_NUMBERS = "a number, a list of numbers, "

_Tensor = TypeVar("_Tensor")
_Out = TypeVar("_Out")


def _numbers(value: Any, name: str) -> np.ndarray | None:
    """A scale or a zero point that tells no type of ONNX's: a number, a list of numbers, or integers of 64 bits, which
    no operator takes and numpy makes of both."""
    if isinstance(value, (list, tuple)) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return np.asarray(value)
    if hasattr(value, "__index__") and not hasattr(value, "dtype") and not isinstance(value, bool):
        return np.asarray(value.__index__())
    is_long = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "iu" and value.dtype.itemsize == 8
    return np.asarray(_kinds.unmasked(np.asanyarray(value), name)) if is_long else None


def scale_of(scale: Any) -> np.ndarray:
    """A scale as an array; numbers are floats of 32 bits."""
    numbers = _numbers(scale, "scale")
    if numbers is None:
        return np.asarray(_kinds.array_of(scale, "scale", _NUMBERS))
    if numbers.dtype.kind == "O" and all(isinstance(one, int) for one in numbers.flat):
        text = "scale is too large (want integers of up to 64 bits, or floats)"
        raise CastError(text, parameter="scale", value=scale)
    if numbers.dtype.kind not in "iuf":
        raise TypeError(f"scale is {scale!r} (want numbers)")
    return _native.cast(_castable(numbers), "float")


def _castable(numbers: np.ndarray) -> np.ndarray:
    """Numbers of a type that the library casts. Its casts do not depend on the float environment, and numpy's do."""
    return numbers.astype(np.float64) if numbers.dtype.kind == "f" and numbers.dtype.itemsize > 8 else numbers


def _same(numbers: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether doubles are equal, by their bits: a comparison may read subnormals as zero."""
    bits, other_bits = (np.asarray(doubles).view(np.uint64) for doubles in (numbers, others))
    magnitude = bits & np.uint64(2**63 - 1)
    are_zero = (magnitude == 0) & (other_bits & np.uint64(2**63 - 1) == 0)
    return ((bits == other_bits) | are_zero) & (magnitude <= np.uint64(0x7FF << 52))


def zero_point_of(zero_point: Any, number: int) -> np.ndarray | None:
    """A zero point as an array; numbers are of the quantized type, which must have them."""
    if zero_point is None:
        return None
    numbers = _numbers(zero_point, "zero_point")
    if numbers is None:
        return np.asarray(_kinds.array_of(zero_point, "zero_point", _NUMBERS))
    if numbers.dtype.kind not in "iufO":
        raise TypeError(f"zero_point is {zero_point!r} (want numbers)")
    row, dtype = _targets.ROWS[number], _targets.DTYPES[number]
    if row["kind"] in ("int", "uint"):
        want = f"an integer from {row['min']} to {row['max']}"
        held = True
        if numbers.dtype.kind == "f":
            doubles = _native.cast(_castable(numbers), "double")
            numbers = _native.cast(doubles, "int64")
            held = _same(_native.cast(numbers, "double"), doubles)
        held = held & (numbers >= row["min"]) & (numbers <= row["max"])
    else:
        want = "a number that the type has"
        held = numbers.dtype.kind != "O"
        if held:
            doubles = _native.cast(_castable(numbers), "double")
            held = _same(_native.cast(_native.cast(doubles, row["name"]), "double"), doubles)
    if not np.all(held):
        text = f"zero_point is {zero_point!r} (want {want}, for {row['name']})"
        raise CastError(text, parameter="zero_point", value=zero_point)
    return _native.cast(_castable(numbers), row["name"]) if numbers.dtype.kind == "f" else numbers.astype(dtype)


def attributes_of(
    axis: int = 1, block_size: int = 0, saturate: bool = True, precision: Any = None, output_dtype: Any = None
) -> list[tuple[str, int | bytes | None]]:
    """The attributes of a scaled cast that are not at their defaults, which every version has."""
    given = [
        ("axis", _targets.whole("axis", axis), 1),
        ("block_size", _targets.whole("block_size", block_size), 0),
        ("saturate", int(_targets.flag("saturate", saturate)), 1),
        ("precision", _number(precision), None),
        ("output_dtype", _number(output_dtype), None),
    ]
    return [(name, value) for name, value, default in given if value != default]


def _number(dtype: Any) -> int | None:
    return None if dtype is None else _targets.target(dtype)[0]


@opaque
def quantize_linear(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    saturate: bool = True,
    precision: To | None = None,
    output_dtype: To | None = None,
    opset: int | None = None,
    out: Any = None,
    threads: int | None = None,
    packed: bool = False,
) -> Any:
    """ONNX's QuantizeLinear: ``saturate(round(x / scale) + zero_point)``.

    Parameters
    ----------
    x : array, scalar or tensor
        As for :func:`cast`.
    scale : number, list of numbers or tensor
        Of one element, of one for each of ``axis``, or of the shape of ``x`` with one for each block of ``block_size``
        elements on ``axis``.
    zero_point : number, list of numbers or tensor, optional
        Of the scale's shape. A tensor's type is that of the result.
    axis : int
        The axis that scales are for.
    block_size : int
        Elements that share a scale; 0 where there are no blocks.
    saturate : bool
        Whether overflow in float8 gives the largest value.
    precision : To, optional
        The type that quotients are rounded to: float, float16 or bfloat16; else the scale's.
    output_dtype : To, optional
        The type of the result where there is no zero point; else uint8.
    opset : int, optional
        The opset whose version of the operator decides; the newest where it is not given.
    out : array, optional
        As for :func:`cast`.
    threads : int, optional
        As for :func:`cast`.
    packed : bool
        As for :func:`cast`.

    Returns
    -------
    array, scalar or tensor
        Of the kind of ``x``.

    Examples
    --------
    >>> quantize_linear(np.array([1.0, -0.3, 9.0], np.float32), 0.05, output_dtype="int8")
    array([ 20,  -6, 127], dtype=int8)
    """
    if out is None and (operators := _kinds.torch_operators(x, scale, zero_point)):
        given = {"axis": axis, "block_size": block_size, "saturate": saturate, "precision": precision, "opset": opset}
        return operators.quantize_linear(x, scale, zero_point, output_dtype=output_dtype, packed=packed, **given)
    attributes = attributes_of(axis, block_size, saturate, precision, output_dtype)
    zeros = zero_point_of(zero_point, _number(output_dtype) or _UINT8)
    version = _targets.opset_of(opset)
    operator = _native.Operator.scaled("QuantizeLinear", version, attributes, scale_of(scale), zeros, threads)
    return operator.run(x, out, packed)


@opaque
def dequantize_linear(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: To | None = None,
    opset: int | None = None,
    out: Any = None,
    threads: int | None = None,
) -> Any:
    """ONNX's DequantizeLinear: ``(x - zero_point) * scale``, the inverse of :func:`quantize_linear`.

    Parameters
    ----------
    x : array, scalar or tensor
        Quantized elements.
    scale : number, list of numbers or tensor
        As for :func:`quantize_linear`.
    zero_point : number, list of numbers or tensor, optional
        Of the scale's shape and the type of ``x``.
    axis, block_size, opset, out, threads : optional
        As for :func:`quantize_linear`.
    output_dtype : To, optional
        The type of the result; else the scale's.

    Returns
    -------
    array, scalar or tensor
        Of the kind of ``x``.

    Examples
    --------
    >>> dequantize_linear(np.array([20, -6, 127], np.int8), 0.05)
    array([ 1.  , -0.3 ,  6.35], dtype=float32)
    """
    if out is None and (operators := _kinds.torch_operators(x, scale, zero_point)):
        given = {"axis": axis, "block_size": block_size, "output_dtype": output_dtype, "opset": opset}
        return operators.dequantize_linear(x, scale, zero_point, **given)
    attributes = attributes_of(axis, block_size, output_dtype=output_dtype)
    number = 0 if _numbers(zero_point, "zero_point") is None else _kinds.number_of(x)
    zeros = zero_point_of(zero_point, number)
    version = _targets.opset_of(opset)
    operator = _native.Operator.scaled("DequantizeLinear", version, attributes, scale_of(scale), zeros, threads)
    return operator.run(x, out, False)


@opaque
def dynamic_quantize_linear(x: Any, *, out: Any = None, threads: int | None = None) -> tuple[Any, Any, Any]:
    """ONNX's DynamicQuantizeLinear: floats as uint8, with the scale and the zero point that it finds: numpy scalars, or
    tensors of the kind of ``x``.

    Parameters
    ----------
    x : array, scalar or tensor
        Elements of float.
    out : array, optional
        As for :func:`cast`, for the elements.
    threads : int, optional
        As for :func:`cast`.

    Returns
    -------
    tuple
        The quantized elements, the scale and the zero point.

    Examples
    --------
    >>> dynamic_quantize_linear(np.array([0, 2, -3], np.float32))
    (array([153, 255,   0], dtype=uint8), np.float32(0.019607844), np.uint8(153))
    """
    scale, zero_point = _native.dynamic_scale(np.asarray(_kinds.array_of(x)), threads)
    scale, zero_point = scale[()], zero_point[()]
    y = quantize_linear(x, scale, zero_point, out=out, threads=threads)
    if isinstance(y, (np.ndarray, np.generic)):
        return y, scale, zero_point
    return y, _kinds.like(x, np.asarray(scale), "_scale"), _kinds.like(x, np.asarray(zero_point), "_zero_point")


@dataclasses.dataclass(frozen=True, eq=False)
class Quantized(Generic[_Tensor]):
    """A tensor in a block format. A value is ``element * scale``; in ``"nvfp4"`` ``element * (scale * global_scale)`` or,
    by the recipe ``"compressed-tensors"``, ``element * (scale / global_scale)``."""

    #: Name of the format.
    format: BlockFormat
    #: The recipe of ``"nvfp4"``.
    recipe: Recipe
    #: The elements, of the tensor's shape and kind; torch has float4e2m1 in pairs.
    elements: _Tensor
    #: The scales: one for each block of the last axis.
    scales: _Tensor
    #: The scale of the tensor, in ``"nvfp4"``; else ``None``.
    global_scale: float | None

    @overload
    def dequantize(self, to: To = "float", *, out: None = None, threads: int | None = None) -> _Tensor: ...

    @overload
    def dequantize(self, to: To = "float", *, out: _Out, threads: int | None = None) -> _Out: ...

    @opaque
    def dequantize(self, to: To = "float", *, out: Any = None, threads: int | None = None) -> Any:
        """The values as float, float16 or bfloat16, in a tensor of the elements' kind: multiplied in float, then rounded
        to the type. ``out`` and ``threads`` are as for :func:`cast`."""
        elements, scales = (_kinds.array_of(getattr(self, name), name) for name in ("elements", "scales"))
        given = ((elements, scales, self.global_scale), self.format, self.recipe, _targets.target(to)[0], threads)
        if out is None:
            return _kinds.like(self.elements, _native.dequantize_blocks(*given, None))
        with _kinds.output(out) as memory:
            _native.dequantize_blocks(*given, memory)
        return out


@opaque
def quantize_blocks(
    x: Any,
    to: BlockFormat,
    *,
    scale_rule: ScaleRule = "floor",
    recipe: Recipe = "modelopt",
    out: Quantized[Any] | None = None,
    threads: int | None = None,
) -> Quantized[Any]:
    """A tensor in blocks along its last axis, each with a scale that is found from its greatest magnitude.

    Parameters
    ----------
    x : array, scalar or tensor
        Elements of float, float16 or bfloat16.
    to : str
        ``"mxfp4"``, ``"mxfp8"``, ``"mxfp8e5m2"``, ``"mxfp6e2m3"``, ``"mxfp6e3m2"`` or ``"mxint8"``: blocks of 32 with a
        power of two; ``"nvfp4"``: blocks of 16 with a float8e4m3fn, and a float for the tensor.
    scale_rule : {"floor", "rceil", "ceil", "even"}
        How the power of two is found. ``"nvfp4"``, whose scales are no powers of two, takes the default alone.
    recipe : {"modelopt", "torchao", "compressed-tensors"}
        Whose arithmetic ``"nvfp4"`` follows. Other formats take the default alone.
    out : Quantized, optional
        An earlier result of the same format and shape, which is overwritten. Nothing is allocated, except for torch
        tensors that store elements in pairs.
    threads : int, optional
        As for :func:`cast`.

    Returns
    -------
    Quantized
        Elements and scales as tensors of the kind of ``x``, or ``out`` if it is given.

    Examples
    --------
    >>> q = quantize_blocks(np.array([1.0, -0.3, 9.0], np.float32), "mxfp4")
    >>> q.elements, q.scales
    (array([0.5, -0, 4], dtype='float4_e2m1fn'), array([2], dtype='float8_e8m0fnu'))
    >>> q.dequantize()
    array([ 1., -0.,  8.], dtype=float32)
    """
    given = (np.asarray(_kinds.array_of(x)), to, scale_rule, recipe, threads)
    if out is None:
        elements, scales, global_scale = _native.quantize_blocks(*given, None)
        return Quantized(to, recipe, _kinds.like(x, elements), _kinds.like(x, scales, "_scale"), global_scale)
    with _kinds.output(_quantized(out).elements) as elements, _kinds.output(out.scales) as scales:
        global_scale = _native.quantize_blocks(*given, (elements, scales))[2]
    vars(out).update(format=to, recipe=recipe, global_scale=global_scale)
    return out


def _quantized(out: Any) -> Quantized[Any]:
    if not isinstance(out, Quantized):
        raise TypeError(f"out is a {type(out).__name__} (want a Quantized)")
    return out


def run_node(
    op_type: str, opset: int, attributes: list[tuple[str, int | bytes | None]], inputs: list[Any]
) -> list[Any]:
    """The outputs of a node."""
    if op_type == "DynamicQuantizeLinear":
        if attributes or len(inputs) != 1:
            raise CastError(f"{op_type}: {len(inputs)} inputs and {len(attributes)} attributes (want 1 and none)")
        return [np.asarray(output) for output in dynamic_quantize_linear(np.asarray(_kinds.array_of(inputs[0])))]
    if not 2 <= len(inputs) <= 3:
        raise CastError(f"{op_type}: {len(inputs)} inputs (want 2 or 3)")
    x, scale, *zeros = (None if one is None else np.asarray(_kinds.array_of(one)) for one in inputs)
    operator = _native.Operator.scaled(op_type, opset, attributes, scale, zeros[0] if zeros else None, None)
    return [operator.run(x, None, False)]
