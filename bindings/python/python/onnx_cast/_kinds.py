"""What an object is, and how a result of its kind is made. Arrays of numbers do not come here: the native module takes
them at once."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from onnx_cast import _native, _targets
from onnx_cast._native import CastError


def kind_of(x: Any) -> str:
    """The package of a tensor's class: of torch also where the class is derived from torch's, as a parameter's."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, getattr(torch, "Tensor", ())):
        return "torch"
    return type(x).__module__.partition(".")[0]


def run(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    """The result of an operator for any object."""
    if isinstance(x, np.ndarray):
        return _array(operator, x, out, packed)
    if isinstance(x, np.generic):
        result = _array(operator, np.asarray(x), out, packed)
        return result if out is not None or packed else result[()]
    kind = kind_of(x)
    if kind == "torch":
        return _torch(operator, x, out, packed)
    if kind in ("jax", "jaxlib"):
        return _jax(operator, x, out, packed)
    if kind == "onnx":
        return _tensor_proto(operator, x, out, packed)
    if hasattr(x, "__dlpack__"):
        return _dlpack(operator, x, out, packed)
    return _array(operator, array_of(x), out, packed)


def array_of(x: Any, name: str = "x") -> np.ndarray:
    """The elements of any object as an array, in the object's own memory where it lends that; errors call it ``name``."""
    if isinstance(x, (np.ndarray, np.generic)):
        return unmasked(np.asanyarray(x), name)
    kind = kind_of(x)
    if kind == "torch":
        x = _tensor(x, name)
        if x.dtype is _torch_pairs():
            return _targets.from_bytes(_pair_bytes(x, name), _targets.FLOAT4, _of_pairs(tuple(x.shape)))
        return _torch_array(x, name)
    if kind in ("jax", "jaxlib"):
        return np.asarray(x)
    if kind == "onnx":
        return proto_array(_proto(x, name))
    if hasattr(x, "__dlpack__"):
        return _dlpack_array(x, name)
    try:
        return np.asarray(memoryview(x))
    except TypeError:
        kinds = "a numpy array, a tensor with DLPack, a buffer or an onnx.TensorProto"
        raise TypeError(f"{name} is of type {type(x).__name__} (want {kinds})") from None


def lent(x: Any, name: str) -> tuple[np.ndarray, int, tuple[int, ...], bool]:
    """The elements of any object as the native module takes those of a named tensor: an array, ONNX's number, the
    shape, and whether the array has packed bytes."""
    try:
        if kind_of(x) == "torch":
            x = _tensor(x)
            if x.dtype is _torch_pairs():
                x = x.contiguous()
                return _pair_bytes(x, "x"), _targets.FLOAT4, _of_pairs(tuple(x.shape)), True
        array = array_of(x).view(np.ndarray)
        return array, _targets.number_of(array), array.shape, False
    except TypeError as error:
        raise TypeError(f"tensor `{name}`: {error}") from None
    except CastError as error:
        raise error.of_tensor(name) from None


def result(x: Any, name: str, data: np.ndarray, number: int, shape: tuple[int, ...]) -> Any:
    """A tensor of the kind of ``x`` of ONNX's bytes, whose memory it takes over where that is possible."""
    try:
        kind = kind_of(x)
        if kind == "torch":
            return _torch_of(data, number, shape)
        if kind == "onnx":
            return _proto_of(name, data, number, shape)
        return _array_of_kind(x, kind, _targets.from_bytes(data, number, shape))
    except TypeError as error:
        raise TypeError(f"tensor `{name}`: {error}") from None


def like(x: Any, array: np.ndarray, part: str = "") -> Any:
    """A new array as a tensor of the kind of ``x``, whose memory it takes over where that is possible. A TensorProto
    has the name of ``x`` with ``part`` behind it."""
    kind = kind_of(x)
    if kind not in ("torch", "onnx"):
        return _array_of_kind(x, kind, array)
    number = _targets.number_of(array)
    is_packed = _targets.ROWS[number]["bits"] < 8
    data = _native.pack(array, number) if is_packed else array.reshape(-1).view(np.uint8)
    if kind == "torch":
        return _torch_of(data, number, array.shape)
    return _proto_of(x.name + part, data, number, array.shape)


def _array_of_kind(x: Any, kind: str, array: np.ndarray) -> Any:
    """An array as a tensor of the kind of ``x``, where arrays hold what those do."""
    if kind in ("jax", "jaxlib"):
        return _jax_of(x, array)
    if isinstance(x, (np.ndarray, np.generic)) or not hasattr(x, "__array_namespace__"):
        return array
    return _dlpack_of(x, array)


def _proto_of(name: str, data: np.ndarray, number: int, shape: tuple[int, ...]) -> Any:
    from onnx import TensorProto

    return TensorProto(name=name, data_type=number, dims=shape, raw_data=data.tobytes())


@contextlib.contextmanager
def output(out: Any, name: str = "out") -> Iterator[Any]:
    """Where the native module writes the elements of ``out``: the memory of a tensor of torch's, else the object."""
    if kind_of(out) != "torch":
        yield out
        return
    lent = _writable(out, name)
    with _written(out):
        if lent.dtype is not _torch_pairs():
            yield _torch_array(lent, name)
            return
        pairs = _pair_memory(lent, name)
        elements = _targets.from_bytes(pairs, _targets.FLOAT4, _of_pairs(tuple(lent.shape)))
        yield elements
        pairs[...] = _native.pack(elements, _targets.FLOAT4)


def _torch_of(data: np.ndarray, number: int, shape: tuple[int, ...]) -> Any:
    import torch

    dtype = torch_type(number)
    if dtype is None and number == _targets.FLOAT4 and _torch_pairs() is not None:
        dtype, shape = _torch_pairs(), _in_pairs(shape, "numpy arrays")
    if dtype is None:
        raise TypeError(f"torch has no type for {_targets.ROWS[number]['name']} (want numpy arrays)")
    return torch.from_numpy(data).view(dtype).view(shape)


def unmasked(x: np.ndarray, name: str = "x") -> np.ndarray:
    """An array without a mask."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask a cast would lose (want {name}.filled(...) or {name}.data)")
    return x


def _array(operator: _native.Operator, x: np.ndarray, out: Any, packed: bool) -> Any:
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


def _no_packed_type(library: str, operator: _native.Operator) -> TypeError:
    return TypeError(f"{library} has no type for {_targets.ROWS[operator.to]['name']} (want packed=True)")


def _torch(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    import torch

    x = _tensor(x)
    if operator.to == _targets.STRING:  # which torch lacks
        return _array(operator, array_of(x), out, packed)
    pairs, shape = _torch_pairs(), tuple(x.shape)
    if x.dtype is pairs:
        shape = _of_pairs(shape)
        run = functools.partial(operator.run_packed, _pair_bytes(x, "x"), _targets.FLOAT4, shape)
    else:
        run = functools.partial(operator.run, _torch_array(x, "x"))
    if out is None:
        dtype = torch.uint8 if packed else torch_type(operator.to)
        if dtype is None and operator.to == _targets.FLOAT4:
            dtype = pairs
        if dtype is None:
            raise _no_packed_type("torch", operator)
        result_shape = _in_pairs(shape) if dtype is pairs else None
        packed = packed or dtype is pairs
        result = run(_memory(operator, shape, packed), packed, new=True)
        # torch does not know numpy's types of others, but bytes, which it takes over as they are.
        return torch.from_numpy(result.reshape(-1).view(np.uint8)).view(dtype).view(result_shape or result.shape)
    if not isinstance(out, torch.Tensor):
        run(out, packed)
        return out
    lent = _writable(out, "out")
    if lent.dtype is pairs and operator.to == _targets.FLOAT4 and not packed:
        if tuple(lent.shape) != _in_pairs(shape):
            raise CastError(f"out is of shape {tuple(lent.shape)} (want {_in_pairs(shape)}, of pairs)")
        memory, packed = _pair_memory(lent, "out"), True
    else:
        memory = _torch_array(lent, "out")
    with _written(out):
        run(memory, packed)
    return out


def _writable(out: Any, name: str) -> Any:
    """A tensor that a result may be written to, without gradients."""
    if out.requires_grad:
        text = f"{name} requires a gradient, which a cast does not have (want {name}.detach(), or another tensor)"
        raise CastError(text, parameter="out")
    return _tensor(out, name)


def _pair_memory(x: Any, name: str) -> np.ndarray:
    """The bytes of a tensor of pairs, in its own memory."""
    if not x.is_contiguous():
        text = f"{name} is not contiguous in C order (want that, so that nothing is copied)"
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
    import torch

    if x.is_inference():  # which no gradient uses
        return
    bump = getattr(torch.autograd.graph, "increment_version", None)
    if bump is None:
        # A view counts with its tensor, and any write to it is one.
        x.detach().reshape(-1)[:0].view(torch.uint8).zero_()
    else:
        bump(x)


@functools.cache
def _torch_pairs() -> Any:
    """torch's type of two elements of float4e2m1 in a byte, the first in the low bits, where this torch has it."""
    import torch

    return getattr(torch, "float4_e2m1fn_x2", None)


def _pair_bytes(x: Any, name: str) -> np.ndarray:
    import torch

    return _torch_array(x.view(torch.uint8), name).reshape(-1)


def _of_pairs(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the elements of a tensor of pairs."""
    return (*shape[:-1], 2 * shape[-1]) if shape else (2,)


def _in_pairs(shape: tuple[int, ...], instead: str = "packed=True") -> tuple[int, ...]:
    """The shape of a tensor of pairs that has the elements of a shape; ``instead`` is what takes every shape."""
    if not shape or shape[-1] % 2:
        raise CastError(
            f"torch holds float4e2m1 in pairs, which shape {shape} does not divide into (want an even last dimension, or "
            f"{instead})"
        )
    return (*shape[:-1], shape[-1] // 2)


def _tensor(x: Any, name: str = "x") -> Any:
    """A tensor without gradients, of torch's own class: its elements are in one memory."""
    import torch

    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is of type {type(x).__name__} (want a tensor)")
    # A class that dispatches itself holds its elements in other tensors, or nowhere.
    if type(x).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(f"{name} is of type {type(x).__name__}, which holds its elements itself (want a plain tensor)")
    x = x.detach()
    return x if type(x) is torch.Tensor else x.as_subclass(torch.Tensor)


def _memory(operator: _native.Operator, shape: tuple[int, ...], packed: bool) -> np.ndarray:
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


@functools.cache
def torch_type(number: int) -> Any:
    """torch's type with ONNX's number, where this torch has one whose elements take whole bytes."""
    import torch

    if _targets.ROWS[number]["bits"] in (None, 2, 4, 6):
        return None
    dtype = _targets.DTYPES.get(number)
    return None if dtype is None else getattr(torch, dtype.name, None)


def _torch_array(x: Any, name: str) -> np.ndarray:
    """A tensor's memory as an array."""
    import torch

    if not x.is_cpu:
        raise TypeError(f"{name} is on the device {x.device} (want a tensor in the host's memory)")
    if x.layout is not torch.strided:
        raise TypeError(f"{name} is of the layout {x.layout} (want a dense tensor)")
    lent = _lent(x.dtype)
    if lent is None:
        raise TypeError(f"{name} is a tensor of {x.dtype}, whose elements torch does not lend")
    dtype, bits = lent
    return x.numpy() if bits is None else x.view(bits).numpy().view(dtype)


@functools.cache
def _lent(dtype: Any) -> tuple[np.dtype, Any] | None:
    """numpy's type of a torch type, and where torch lends numpy none of its elements, a type of torch's of as many bits."""
    import torch

    number = _targets.target(dtype)[0]
    if torch_type(number) is not dtype:
        return None
    lent = _targets.DTYPES[number]
    if lent.isbuiltin == 1:
        return lent, None
    return lent, torch.uint8 if lent.itemsize == 1 else torch.int16


def _jax(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    import jax

    if out is not None or operator.to == _targets.STRING:
        return _array(operator, np.asarray(x), out, packed)
    # Types of 64 bits become others where JAX has them switched off, which it says with a warning only.
    dtype = np.dtype(np.uint8) if packed else _targets.DTYPES[operator.to]
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise TypeError(f"JAX has {dtype} switched off (see its option jax_enable_x64)")
    array = np.asarray(x)
    result = operator.run(array, _memory(operator, array.shape, packed), packed, new=True)
    return jax.device_put(result, x.sharding if x.committed and not packed else None, may_alias=True)


def _jax_of(x: Any, array: np.ndarray) -> Any:
    """An array on the device of ``x``; how ``x`` is spread over several would not fit another shape."""
    import jax

    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise TypeError(f"JAX has {array.dtype} switched off (see its option jax_enable_x64)")
    device = next(iter(x.devices())) if x.committed and len(x.devices()) == 1 else None
    return jax.device_put(array, device)


def _dlpack(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    array = _dlpack_array(x)
    if out is not None or operator.to == _targets.STRING or not hasattr(x, "__array_namespace__"):
        return _array(operator, array, out, packed)
    return _dlpack_of(x, operator.run(array, _memory(operator, array.shape, packed), packed, new=True))


def _dlpack_of(x: Any, array: np.ndarray) -> Any:
    try:
        return x.__array_namespace__().from_dlpack(array)
    except BufferError:  # numpy lends no types but its own
        return array


def _dlpack_array(x: Any, name: str = "x") -> np.ndarray:
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{name}, of type {type(x).__name__}, cannot lend its elements to numpy: {error}") from error


def _tensor_proto(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    from onnx import TensorProto

    _proto(x)
    if out is not None or packed:
        raise TypeError("an onnx.TensorProto is always packed and takes no out")
    result = TensorProto(name=x.name, data_type=operator.to, dims=x.dims)
    if x.HasField("doc_string"):
        result.doc_string = x.doc_string
    # Older versions of onnx lack it.
    for pair in getattr(x, "metadata_props", ()):
        result.metadata_props.add(key=pair.key, value=pair.value)
    array = proto_array(x)
    if operator.to == _targets.STRING:
        result.string_data.extend(text.encode() for text in _array(operator, array, None, False).ravel().tolist())
    else:
        result.raw_data = operator.run(array, None, True).tobytes()
    return result


def _proto(x: Any, name: str = "x") -> Any:
    from onnx import TensorProto

    if not isinstance(x, TensorProto):
        raise TypeError(f"{name} is of type {type(x).__name__} (want an onnx.TensorProto)")
    return x


def proto_array(x: Any) -> np.ndarray:
    """The elements of a TensorProto; of raw data without a copy, of types narrower than a byte unpacked."""
    from onnx import numpy_helper

    shape = _targets.dims(tuple(x.dims))
    if x.data_type == _targets.STRING:
        array = np.empty(len(x.string_data), object)
        array[:] = list(x.string_data)
        if array.size != np.prod(shape, dtype=object):
            raise CastError(f"{array.size} strings for shape {shape}").of_tensor(x.name)
        return array.reshape(shape)
    if not x.HasField("raw_data") or x.data_location == x.EXTERNAL:
        return numpy_helper.to_array(x)
    if x.data_type not in _targets.ROWS:
        raise CastError(f"{x.data_type} is not an element type of ONNX's", value=x.data_type).of_tensor(x.name)
    try:
        return _targets.from_bytes(x.raw_data, x.data_type, shape)
    except CastError as error:
        raise error.of_tensor(x.name) from None
