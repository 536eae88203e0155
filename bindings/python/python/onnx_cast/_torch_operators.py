"""torch's own operators for casts (`torch.library`), by which `torch.compile`, `torch.export`, fake tensors and vmap know
what a cast gives, and the functions that call them. They take ONNX's names of types, and give the bits of every cast.

A cast from floats to floats has the gradient of torch's `.to`: that of its result, as the type of ``x``. What rounding,
saturation and overflow do to a value is passed over (straight through). BitCast and scaled casts have no gradient, nor
have results that are no floats to torch: integers, packed bytes, pairs.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from onnx_cast import _native, _operators, _scaled, _targets, _torch
from onnx_cast._native import CastError
from onnx_cast.types import RoundMode, To

try:
    from onnx_cast._torch_derivatives import derive as _derive

    _has_forward_mode = True
except ImportError:
    _has_forward_mode = False

    def _derive(library: Any, name: str, operator: Any, has_gradient: bool) -> None:
        if has_gradient:
            torch.library.register_autograd(name, _backward, setup_context=_setup_context, lib=library)

    def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.inputs, ctx.source = len(inputs), inputs[0].dtype
        if output.dtype is _torch.PAIRS:
            ctx.mark_non_differentiable(output)

    def _backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return gradient.to(ctx.source), *[None] * (ctx.inputs - 1)


try:
    from torch._subclasses import FakeTensor
except ImportError:
    FakeTensor: Any = None  # numbers beside one are then refused by torch

# The operators last as long as this object.
_LIBRARY = torch.library.Library("onnx_cast", "FRAGMENT")


def _define(name: str, schema: str, kernel: Any, fake: Any, vmap: Any, has_gradient: bool) -> None:
    name = f"onnx_cast::{name}"
    _operators.opaque(kernel)
    _operators.opaque(fake)
    torch.library.define(name, f"({schema}) -> Tensor", lib=_LIBRARY, tags=(torch.Tag.pt2_compliant_tag,))
    # For every device, so that it is the library that refuses one.
    torch.library.impl(name, "default", kernel, lib=_LIBRARY)
    torch.library.register_fake(name, fake, lib=_LIBRARY)
    operator = getattr(torch.ops.onnx_cast, name.removeprefix("onnx_cast::"))
    _derive(_LIBRARY, name, operator, has_gradient)
    if hasattr(torch.library, "register_vmap"):  # since torch 2.5
        torch.library.register_vmap(name, functools.partial(vmap, operator), lib=_LIBRARY)


def _source(x: Any, name: str = "x") -> tuple[int, tuple[Any, ...]]:
    """ONNX's number and the shape of the elements of a tensor that a kernel would take. Sizes may be symbols."""
    if not x.is_meta:
        _torch.check_device(x, name)
    number = _targets.target(x.dtype)[0]
    if x.dtype is _torch.PAIRS:
        return number, tuple(_torch.of_pairs(x.shape))
    if _torch.type_of(number) is not x.dtype:
        raise TypeError(f"{name} is a tensor of {x.dtype}, whose elements torch does not expose")
    return number, tuple(x.shape)


def _empty(x: Any, shape: tuple[Any, ...], number: int, packed: bool) -> Any:
    """A result without elements."""
    dtype = _torch.result_type(number, packed)
    if packed:
        shape = (-(-math.prod(shape) * _targets.ROWS[number]["bits"] // 8),)
    elif dtype is _torch.PAIRS:
        shape = _torch.in_pairs(shape)
    return x.new_empty(shape, dtype=dtype)


def _has_whole_elements(x: Any, number: int, packed: bool) -> bool:
    """Whether each element of a result is made of an element of a tensor alone, and is one."""
    return not packed and _torch.PAIRS not in (x.dtype, _torch.result_type(number, False))


def _one_by_one(
    operator: Any, size: int, dims: Sequence[int | None], tensors: Sequence[Any], rest: Sequence[Any]
) -> tuple[Any, int]:
    """The results for the members of a batch, each of which is cast alone."""
    if not size:
        raise CastError("an empty batch, whose results have no shape (want one member or more)")
    results = []
    for at in range(size):
        member = [one if dim is None else one.select(dim, at) for one, dim in zip(tensors, dims)]
        results.append(operator(*member, *rest))
    return torch.stack(results), 0


# Cast, CastLike and BitCast.

_CAST = 'Tensor x, str to, bool saturate=True, str round_mode="up", int? opset=None, bool packed=False'


def _define_cast(operator: str, name: str) -> None:
    def kernel(x, to, saturate=True, round_mode="up", opset=None, packed=False):
        return _torch.run_plain(_operators.operator(operator, to, saturate, round_mode, opset, None), x, None, packed)

    def fake(x, to, saturate=True, round_mode="up", opset=None, packed=False):
        number, shape = _source(x)
        _refuse(operator, number, to, saturate, round_mode, opset)
        return _empty(x, shape, _targets.target(to)[0], packed)

    _define(name, _CAST, kernel, fake, _vmap_cast, operator != "BitCast")


def _vmap_cast(cast, info, in_dims, x, to, *rest):
    """The cast of a batch is that of its elements, unless each member has bytes or pairs of its own."""
    if _has_whole_elements(x, _targets.target(to)[0], rest[3:] == (True,)):
        return cast(x, to, *rest), in_dims[0]
    return _one_by_one(cast, info.batch_size, in_dims[:1], [x], [to, *rest])


@functools.lru_cache(1024)
def _refuse(operator: str, number: int, to: str, saturate: bool, round_mode: str, opset: int | None) -> None:
    """Refuses what an operator does, in its words: it is asked to cast no elements."""
    made = _operators.operator(operator, to, saturate, round_mode, opset, None)
    made.run(np.empty(0, _targets.DTYPES[number]), None, True)


#: ONNX's operators and those of torch.
_NAMES = {"Cast": "cast", "CastLike": "cast_like", "BitCast": "bit_cast"}

for _operator, _name in _NAMES.items():
    _define_cast(_operator, _name)


def run(asked: _operators.Asked, x: Any, packed: bool) -> Any:
    """The result of an operator for a tensor, as torch sees it."""
    if not _has_forward_mode and forward_ad.unpack_dual(x).tangent is not None:  # which would become zeros
        raise TypeError(f"x has a tangent, which this torch ({torch.__version__}) does not carry through casts")
    operator = getattr(torch.ops.onnx_cast, _NAMES[asked.name])
    return operator(x, asked.to, asked.saturate is not False, asked.round_mode or "up", asked.opset, packed)


# QuantizeLinear and DequantizeLinear.

_QUANTIZE = (
    "Tensor x, Tensor scale, Tensor? zero_point=None, int axis=1, int block_size=0, bool saturate=True, "
    "str? precision=None, str? output_dtype=None, int? opset=None, bool packed=False"
)
_DEQUANTIZE = (
    "Tensor x, Tensor scale, Tensor? zero_point=None, int axis=1, int block_size=0, str? output_dtype=None, int? opset=None"
)


def _quantize(
    x, scale, zero_point=None, axis=1, block_size=0, saturate=True, precision=None, output_dtype=None, opset=None, packed=False
):
    attributes = _scaled.attributes_of(axis, block_size, saturate, precision, output_dtype)
    return _run_scaled("QuantizeLinear", opset, attributes, (x, scale, zero_point), packed)


def _dequantize(x, scale, zero_point=None, axis=1, block_size=0, output_dtype=None, opset=None):
    attributes = _scaled.attributes_of(axis, block_size, True, None, output_dtype)
    return _run_scaled("DequantizeLinear", opset, attributes, (x, scale, zero_point), False)


_OPERANDS = ("x", "scale", "zero_point")


def _run_scaled(name: str, opset: int | None, attributes: Any, tensors: Sequence[Any], packed: bool) -> Any:
    given = zip(tensors[1:], _OPERANDS[1:])
    scale, zero_point = (None if one is None else _torch.array_of(one, name) for one, name in given)
    operator = _native.Operator.scaled(name, opset, attributes, scale, zero_point, None)
    return _torch.run_plain(operator, tensors[0], None, packed)


def _fake_quantize(
    x, scale, zero_point=None, axis=1, block_size=0, saturate=True, precision=None, output_dtype=None, opset=None, packed=False
):
    attributes = _scaled.attributes_of(axis, block_size, saturate, precision, output_dtype)
    return _fake_scaled("QuantizeLinear", opset, attributes, (x, scale, zero_point), packed)


def _fake_dequantize(x, scale, zero_point=None, axis=1, block_size=0, output_dtype=None, opset=None):
    attributes = _scaled.attributes_of(axis, block_size, True, None, output_dtype)
    return _fake_scaled("DequantizeLinear", opset, attributes, (x, scale, zero_point), False)


def _fake_scaled(name: str, opset: int | None, attributes: Any, tensors: Sequence[Any], packed: bool) -> Any:
    """The result without elements. Types and shapes are refused as with elements, but for sizes that are symbols, which
    the kernel checks when the graph runs."""
    x, infos = tensors[0], []
    for one, operand in zip(tensors, _OPERANDS):
        if one is None:
            infos.append(None)
            continue
        if one.device != x.device:
            raise TypeError(f"{operand} is on the device {one.device}, and x on {x.device} (want one device)")
        number, shape = _source(one, operand)
        infos.append((number, [size if isinstance(size, int) else None for size in shape]))
    number = _native.infer_scaled(name, opset, attributes, *infos)
    return _empty(x, _source(x)[1], number, packed)


def _vmap_scaled(number, operator, info, in_dims, x, scale, zero_point=None, axis=1, block_size=0, *rest):
    """A batch whose members share their scales is one tensor, with another axis; else its members are apart."""
    dims, tensors = [*in_dims[:3], None][:3], [x, scale, zero_point]
    is_whole = _has_whole_elements(x, number(scale, zero_point, *rest), rest[4:] == (True,)) and not block_size
    if not is_whole or dims[0] is None or dims[1:] != [None, None]:
        return _one_by_one(operator, info.batch_size, dims, tensors, [axis, block_size, *rest])
    rank = x.dim() - 1
    if scale.dim() and -rank <= axis < rank:
        axis = axis % rank + 1
    return operator(x.movedim(dims[0], 0), scale, zero_point, axis, block_size, *rest), 0


def _quantized_number(scale, zero_point, saturate=True, precision=None, output_dtype=None, *rest):
    return _targets.target(output_dtype or "uint8")[0] if zero_point is None else _targets.target(zero_point.dtype)[0]


def _dequantized_number(scale, zero_point, output_dtype=None, *rest):
    return _targets.target(output_dtype or scale.dtype)[0]


_define(
    "quantize_linear",
    _QUANTIZE,
    _quantize,
    _fake_quantize,
    functools.partial(_vmap_scaled, _quantized_number),
    False,
)
_define(
    "dequantize_linear",
    _DEQUANTIZE,
    _dequantize,
    _fake_dequantize,
    functools.partial(_vmap_scaled, _dequantized_number),
    False,
)


# The functions of the package, by these operators. torch.compile reads them, and takes what `CONSTANT` has from a call.


def name_or_error(to: Any) -> str | Exception:
    """ONNX's name of a target that torch has tensors of, or what is to be raised. It is not raised here: the compiler
    takes an error in the code that it reads for a break, after which the function as it is says what is wrong."""
    try:
        number = _targets.target(to)[0]
    except (CastError, TypeError) as error:
        return error
    if number == _targets.STRING:
        return TypeError("torch has no type for string (want a cast outside of torch.compile and torch's transforms)")
    return _targets.ROWS[number]["name"]


def name_of(to: Any) -> str:
    """ONNX's name of a target that torch has tensors of."""
    name = name_or_error(to)
    if isinstance(name, str):
        return name
    raise name


def numbers_or_error(scale: Any, zero_point: Any, to: str | None) -> Any:
    """The numbers of a scale or a zero point that is not a tensor, a torch type that represents them exactly, and the
    torch type of the result; or the error to raise."""
    try:
        array = _scaled.scale_of(scale) if to is None else _scaled.zero_point_of(zero_point, _targets.target(to)[0])
        # numpy widens subnormal floats to zero where the host has set flush-to-zero.
        numbers = _native.cast(array, "double") if array.dtype == np.float32 else array
        dtype = _torch.result_type(_targets.number_of(array), False)
        return numbers.tolist(), torch.float64 if dtype is torch.float32 else dtype, dtype
    except (CastError, TypeError) as error:
        return error


def integers_of(name: str) -> tuple[Any, int, int]:
    """torch's type with ONNX's name, its smallest integer and its largest; an empty range for all but integers."""
    row = _targets.ROWS[_targets.target(name)[0]]
    dtype = _torch.type_of(row["number"]) if row["kind"] in ("int", "uint") else None
    return (torch.int8, 0, -1) if dtype is None else (dtype, row["min"], row["max"])


CONSTANT = (name_or_error, numbers_or_error, integers_of)

# Types of numbers whose values the compiler need not know.
_INTEGERS, _FLOATS = (int, torch.SymInt), (float, torch.SymFloat)


def _check(x: Any, out: Any, saturate: Any, packed: Any = False) -> None:
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"x is of type {type(x).__name__} (want a tensor)")
    if out is not None:
        raise TypeError("out is given, and torch.compile and torch's transforms make new tensors (want no out)")
    if not (isinstance(saturate, bool) and isinstance(packed, bool)):
        raise TypeError(f"saturate is {saturate!r} and packed {packed!r} (want True or False)")


def cast(
    x: torch.Tensor,
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> torch.Tensor:
    """:func:`onnx_cast.cast` of a tensor, by torch's operator. ``threads`` has no effect, as in the functions below."""
    _check(x, out, saturate, packed)
    return torch.ops.onnx_cast.cast(x, name_of(to), saturate, round_mode, opset, packed)


def cast_like(
    x: torch.Tensor,
    like: torch.Tensor,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> torch.Tensor:
    """:func:`onnx_cast.cast_like` of tensors, by torch's operator."""
    _check(x, out, saturate, packed)
    return torch.ops.onnx_cast.cast_like(x, name_of(like.dtype), saturate, round_mode, opset, packed)


def bit_cast(
    x: torch.Tensor,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> torch.Tensor:
    """:func:`onnx_cast.bit_cast` of a tensor, by torch's operator."""
    _check(x, out, True, packed)
    return torch.ops.onnx_cast.bit_cast(x, name_of(to), True, "up", opset, packed)


def quantize_linear(
    x: torch.Tensor,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    saturate: bool = True,
    precision: To | None = None,
    output_dtype: To | None = None,
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> torch.Tensor:
    """:func:`onnx_cast.quantize_linear` of a tensor, by torch's operator."""
    _check(x, out, saturate, packed)
    to = None if output_dtype is None else name_of(output_dtype)
    precision = None if precision is None else name_of(precision)
    scale, zero_point = _tensors(x, scale, zero_point, to or "uint8")
    return torch.ops.onnx_cast.quantize_linear(
        x, scale, zero_point, axis, block_size, saturate, precision, to, opset, packed
    )


def dequantize_linear(
    x: torch.Tensor,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: To | None = None,
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
) -> torch.Tensor:
    """:func:`onnx_cast.dequantize_linear` of a tensor, by torch's operator."""
    _check(x, out, True)
    to = None if output_dtype is None else name_of(output_dtype)
    scale, zero_point = _tensors(x, scale, zero_point, name_of(x.dtype))
    return torch.ops.onnx_cast.dequantize_linear(x, scale, zero_point, axis, block_size, to, opset)


def _tensors(x: Any, scale: Any, zero_point: Any, to: str) -> tuple[Any, Any]:
    """A scale and a zero point as tensors."""
    if type(scale) in _FLOATS:
        scale = _tensor(x, scale, torch.float64, torch.float32)
    elif type(scale) in _INTEGERS and -(2**63) <= scale < 2**63:
        scale = _tensor(x, scale, torch.int64, torch.float32)
    elif not isinstance(scale, torch.Tensor):
        scale = _tensor(x, *_raised(numbers_or_error(scale, None, None)))
    dtype, low, high = integers_of(to)
    if type(zero_point) in _INTEGERS and low <= zero_point <= high:
        zero_point = _tensor(x, zero_point, dtype, dtype)
    elif zero_point is not None and not isinstance(zero_point, torch.Tensor):
        zero_point = _tensor(x, *_raised(numbers_or_error(None, zero_point, to)))
    return scale, zero_point


def _raised(numbers: Any) -> Any:
    if isinstance(numbers, tuple):
        return numbers
    raise numbers


def _tensor(x: Any, numbers: Any, exact: Any, dtype: Any) -> Any:
    """Numbers, which the type ``exact`` has, as a tensor: fake if ``x`` is fake, and on the meta device if ``x`` is."""
    made = _constant(numbers, exact, "meta" if x.is_meta else "cpu")
    if exact is not dtype:  # float32, to which torch rounds in the host's float environment, which may flush subnormals
        made = torch.ops.onnx_cast.cast(made, "float")
    return x.fake_mode.from_tensor(made) if type(x) is FakeTensor and type(made) is torch.Tensor else made


def _constant(numbers: Any, dtype: Any, device: str) -> Any:
    """Numbers as a tensor on a device, whatever torch's default device is."""
    if not isinstance(numbers, list):  # which may be a symbol
        return torch.scalar_tensor(numbers, dtype=dtype, device=device)
    if torch.jit.is_tracing():
        with warnings.catch_warnings():  # of torch's, that the tensor is a constant, as the numbers are
            warnings.simplefilter("ignore", torch.jit.TracerWarning)
            return torch.tensor(numbers, dtype=dtype, device=device)
    return torch.tensor(numbers, dtype=dtype, device=device)
