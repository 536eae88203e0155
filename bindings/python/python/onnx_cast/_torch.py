"""Tensors of torch. Small ones take a short way; those that have no elements here, or may need a gradient, that of
torch's own operators (`_torch_operators.py`)."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from onnx_cast import _arrays, _kinds, _native, _operators, _targets
from onnx_cast._native import CastError

#: torch's type of two elements of float4e2m1 in a byte, the first in the low bits, where this torch has it.
PAIRS = getattr(torch, "float4_e2m1fn_x2", None)

#: Elements of a small tensor. Memory for more is worth the care that `_arrays.memory` takes.
_SMALL = 1 << 13

_from_numpy = torch.from_numpy


def _unknown(*_: Any) -> bool:
    """Stands for a private function of torch's that this torch lacks. Any tensor may then be deferred."""
    return True


# Private names of torch's. Where one is missing, torch's own operators run every cast that they have: slower, and right.
_mode_count = getattr(torch._C, "_len_torch_dispatch_stack", _unknown)
_has_key = getattr(torch._C, "_dispatch_tls_is_dispatch_key_included", _unknown)
_is_wrapped = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", _unknown)
_is_functional = getattr(torch, "_is_functional_tensor", _unknown)
_is_tracing = getattr(torch._C, "_is_tracing", torch.jit.is_tracing)


def _modes() -> bool:
    """Whether a mode intercepts operator calls. The modes of make_fx(pre_dispatch=True) are not on the mode stack."""
    return bool(_mode_count() or _has_key(torch._C.DispatchKey.PreDispatch))


def _is_recorded() -> bool:
    """Whether torch.jit.trace or make_fx is recording operator calls."""
    proxies = sys.modules.get("torch.fx.experimental.proxy_tensor")  # the module of make_fx
    mode = getattr(proxies, "get_proxy_mode", None)
    return bool(_is_tracing() or (mode is not None and mode() is not None))


def run(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    """The result of an operator for a tensor."""
    if out is None and isinstance(operator.text, _operators.Asked):
        if is_deferred(x) or (not packed and _has_gradient(operator, x)):
            from onnx_cast import _torch_operators

            return _torch_operators.run(operator.text, x, packed)
    return run_plain(operator, x, out, packed)


def _run_exact(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    """The same for a tensor of torch's own class. A small one with nothing unusual about it takes a short way: torch's
    own cast of 16 elements takes as long as five calls into torch, so each counts."""
    if out is not None or packed or _modes() or _is_tracing() or getattr(forward_ad, "_current_level", 0) >= 0:
        return run(operator, x, out, packed)
    short = _short_way(x.dtype, operator.to)
    if short is None:
        return run(operator, x, None, False)
    dtype, bits, memory, view, result = short
    try:
        if bits is None:
            array = x.numpy()
        elif x.requires_grad:  # which a view of bits does not
            return run(operator, x, None, False)
        else:
            array = x.view(bits).numpy().view(dtype)
    except (RuntimeError, TypeError):  # on another device, sparse, nested, of a transform, or with a gradient
        return run(operator, x, None, False)
    if not 0 < array.size <= _SMALL:  # numpy's strides of an empty array are not torch's
        return run(operator, x, None, False)
    made = np.empty(array.shape, memory)
    operator.run(array, made if view is None else made.view(view), False, True)
    tensor = _from_numpy(made)
    return tensor if result is None else tensor.view(result)


def run_plain(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    """The result of an operator for a tensor with elements in the host's memory."""
    x = plain(x)
    if operator.to == _targets.STRING:  # which torch lacks
        return _arrays.run(operator, array_of(x), out, packed)
    shape = tuple(x.shape)
    if x.dtype is PAIRS:
        shape = of_pairs(shape)
        run = functools.partial(operator.run_packed, _pair_bytes(x, "x"), _targets.FLOAT4, shape)
    else:
        run = functools.partial(operator.run, _elements(x, "x"))
    if out is None:
        dtype = result_type(operator.to, packed)
        result_shape = in_pairs(shape) if dtype is PAIRS else None
        packed = packed or dtype is PAIRS
        result = run(_arrays.memory(operator, shape, packed), packed, new=True)
        # torch does not know numpy's types of others, but bytes, which it takes over as they are.
        return torch.from_numpy(result.reshape(-1).view(np.uint8)).view(dtype).view(result_shape or result.shape)
    if not isinstance(out, torch.Tensor):
        run(out, packed)
        return out
    lent = _writable(out, "out")
    if lent.dtype is PAIRS and operator.to == _targets.FLOAT4 and not packed:
        if tuple(lent.shape) != in_pairs(shape):
            raise CastError(f"out is of shape {tuple(lent.shape)} (want {in_pairs(shape)}, of pairs)")
        memory, packed = _pair_memory(lent, "out"), True
    else:
        memory = _memory_of(lent, "out")
    with _written(out):
        run(memory, packed)
    return out


def is_deferred(x: Any) -> bool:
    """Whether a tensor's elements are not here, or not yet: fake, on the meta device, of a transform (vmap, grad), or
    seen by a mode or by torch.jit.trace, which record what is done."""
    if not isinstance(x, torch.Tensor):
        return False
    if type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return isinstance(x, _traced())
    return bool(x.is_meta or _modes() or _is_tracing() or _is_wrapped(x) or _is_functional(x))


@functools.cache
def _traced() -> tuple[type, ...]:
    """torch's own classes of tensors without elements; every class, where torch's modules lack them."""
    try:
        from torch._subclasses import FakeTensor
        from torch._subclasses.functional_tensor import FunctionalTensor
    except ImportError:
        return (torch.Tensor,)
    return FakeTensor, FunctionalTensor


def _has_gradient(operator: _native.Operator, x: Any) -> bool:
    """Whether a derivative may be asked of a cast: from a type that has some to one that has."""
    is_asked = (x.requires_grad and torch.is_grad_enabled()) or getattr(forward_ad, "_current_level", 0) >= 0
    if not is_asked or not x.is_floating_point() or operator.text.name == "BitCast":
        return False
    dtype = type_of(operator.to)
    return dtype is not None and dtype.is_floating_point


def array_of(x: Any, name: str = "x") -> np.ndarray:
    """The elements of a tensor as an array, in its memory but for pairs."""
    x = plain(x, name)
    if x.dtype is PAIRS:
        return _targets.from_bytes(_pair_bytes(x, name), _targets.FLOAT4, of_pairs(tuple(x.shape)))
    return _elements(x, name)


def _elements(x: Any, name: str) -> np.ndarray:
    """The elements of a tensor in its memory, or where a bit of the tensor negates or conjugates them in a new one's."""
    return _memory_of(x.resolve_conj().resolve_neg() if x.is_neg() or x.is_conj() else x, name)


def pairs_of(x: Any) -> tuple[np.ndarray, tuple[int, ...]] | None:
    """The bytes of a tensor of pairs, with the shape of its elements."""
    x = plain(x)
    return (_pair_bytes(x.contiguous(), "x"), of_pairs(tuple(x.shape))) if x.dtype is PAIRS else None


def tensor_of(data: np.ndarray, number: int, shape: tuple[int, ...]) -> Any:
    """A tensor of ONNX's bytes."""
    dtype = type_of(number)
    if dtype is None and number == _targets.FLOAT4 and PAIRS is not None:
        dtype, shape = PAIRS, in_pairs(shape, "numpy arrays")
    if dtype is None:
        raise TypeError(f"torch has no type for {_targets.ROWS[number]['name']} (want numpy arrays)")
    return torch.from_numpy(data).view(dtype).view(shape)


@contextlib.contextmanager
def output(out: Any, name: str) -> Iterator[np.ndarray]:
    """The memory of a tensor that a result is written to."""
    lent = _writable(out, name)
    with _written(out):
        if lent.dtype is not PAIRS:
            yield _memory_of(lent, name)
            return
        pairs = _pair_memory(lent, name)
        elements = _targets.from_bytes(pairs, _targets.FLOAT4, of_pairs(tuple(lent.shape)))
        yield elements
        pairs[...] = _native.pack(elements, _targets.FLOAT4)


def _writable(out: Any, name: str) -> Any:
    """A tensor that a result may be written to, without gradients."""
    if out.requires_grad:
        text = f"{name} requires a gradient, which casts do not support (want {name}.detach(), or another tensor)"
        raise CastError(text, parameter="out")
    return plain(out, name)


def _pair_memory(x: Any, name: str) -> np.ndarray:
    """The bytes of a tensor of pairs, in its own memory."""
    if not x.is_contiguous():
        text = f"{name} is not contiguous in C order (want that, to avoid a copy)"
        raise CastError(text, parameter="out")
    return _pair_bytes(x, name)


@contextlib.contextmanager
def _written(out: Any) -> Iterator[None]:
    """Tells autograd of a write to ``out``, once there may have been one."""
    try:
        yield
    except (CastError, TypeError):  # before anything was written
        raise
    except BaseException:
        _note_write(out)
        raise
    _note_write(out)


def _note_write(x: Any) -> None:
    """Tells autograd that a tensor was written, as torch's own functions do: if it was saved for a gradient, computing
    that is an error, and would give wrong numbers otherwise."""
    if x.is_inference():  # which no gradient uses
        return
    bump = getattr(torch.autograd.graph, "increment_version", None)
    if bump is None:
        # A view counts with its tensor, and any write to it is one.
        x.detach().reshape(-1)[:0].view(torch.uint8).zero_()
    else:
        bump(x)


def _pair_bytes(x: Any, name: str) -> np.ndarray:
    return _memory_of(x.view(torch.uint8), name).reshape(-1)


def of_pairs(shape: Any) -> Any:
    """The shape of the elements of a tensor of pairs."""
    return (*shape[:-1], 2 * shape[-1]) if shape else (2,)


def in_pairs(shape: Any, instead: str = "packed=True") -> Any:
    """The shape of a tensor of pairs that has the elements of a shape; ``instead`` is what takes every shape."""
    if not shape or shape[-1] % 2:
        raise CastError(
            f"torch holds float4e2m1 in pairs, which shape {tuple(shape)} does not divide into (want an even last "
            f"dimension, or {instead})"
        )
    return (*shape[:-1], shape[-1] // 2)


def plain(x: Any, name: str = "x") -> Any:
    """A tensor without gradients, of torch's own class: its elements are in one memory."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is of type {type(x).__name__} (want a tensor)")
    # A class that dispatches itself holds its elements in other tensors, or nowhere.
    if type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(f"{name} is of type {type(x).__name__}, which has no plain elements (want a plain tensor)")
    if x.is_nested:
        raise TypeError(f"{name} is a nested tensor (want its members, each a plain tensor)")
    if _is_recorded():
        raise TypeError(
            f"{name} is traced by torch.jit.trace or make_fx, which would keep this result as a constant (want a cast or "
            "a scaled cast without out, which have operators of torch's, or a call outside of the traced function)"
        )
    x = x.detach()
    return x if type(x) is torch.Tensor else x.as_subclass(torch.Tensor)


@functools.cache
def type_of(number: int) -> Any:
    """torch's type with ONNX's number, where this torch has one whose elements take whole bytes."""
    if _targets.ROWS[number]["bits"] in (None, 2, 4, 6):
        return None
    dtype = _targets.DTYPES.get(number)
    return None if dtype is None else getattr(torch, dtype.name, None)


def result_type(number: int, packed: bool) -> Any:
    """torch's type of the results of an operator."""
    dtype = torch.uint8 if packed else type_of(number)
    if dtype is None and number == _targets.FLOAT4:
        dtype = PAIRS
    if dtype is None:
        raise _arrays.no_packed_type("torch", number)
    return dtype


def _memory_of(x: Any, name: str) -> np.ndarray:
    """A tensor's memory as an array."""
    check_device(x, name)
    if _is_wrapped is not _unknown and _is_wrapped(x):
        text = f"{name} is a tensor of a transform of torch's, such as vmap, and has no elements (want a plain tensor)"
        raise TypeError(text)
    if x.layout is not torch.strided:
        raise TypeError(f"{name} is of the layout {x.layout} (want a dense tensor)")
    source = _source(x.dtype)
    if source is None:
        raise TypeError(f"{name} is a tensor of {x.dtype}, whose elements torch does not expose")
    dtype, bits = source
    return x.numpy() if bits is None else x.view(bits).numpy().view(dtype)


def check_device(x: Any, name: str) -> None:
    """Refuses a tensor whose elements are in another device's memory."""
    if not x.is_cpu:
        raise TypeError(f"{name} is on the device {x.device} (want a tensor in the host's memory)")


@functools.cache
def _source(dtype: Any) -> tuple[np.dtype, Any] | None:
    """numpy's type of a torch type, and where torch lends numpy none of its elements, a type of torch's of as many bits."""
    number = _targets.target(dtype)[0]
    if type_of(number) is not dtype:
        return None
    lent = _targets.DTYPES[number]
    if lent.isbuiltin == 1:
        return lent, None
    return lent, torch.uint8 if lent.itemsize == 1 else torch.int16


@functools.cache
def _short_way(dtype: Any, number: int) -> tuple[np.dtype, Any, np.dtype, np.dtype | None, Any] | None:
    """The source of a short cast as `_source` has it; numpy's type of the memory of its result, which torch takes over,
    numpy's type of the elements, and torch's: each of both where it differs."""
    source, result = _source(dtype), type_of(number)
    if source is None or result is None:
        return None
    made = _targets.DTYPES[number]
    if made.isbuiltin == 1:
        return *source, made, None, None
    return *source, np.dtype(np.uint8 if made.itemsize == 1 else np.int16), made, result


_kinds.SEEN[torch.Tensor] = _run_exact
