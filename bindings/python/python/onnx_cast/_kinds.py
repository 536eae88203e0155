"""What an object is, and how a result of its kind is made. Arrays of numbers do not come here: the native module takes
them at once."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from onnx_cast import _arrays, _native, _targets
from onnx_cast._arrays import unmasked as unmasked
from onnx_cast._native import CastError
from onnx_cast._operators import opaque

#: The class of a package's tensors or columns. A package that nobody has imported has no instances.
_CLASSES = {"torch": "Tensor", "jax": "Array", "onnx": "TensorProto", "pandas": "Series", "polars": "Series"}

#: What runs an operator on objects of exactly a class, without another look at what they are: small casts are that short.
SEEN: dict[type, Callable[[_native.Operator, Any, Any, bool], Any]] = {}


def kind_of(x: Any) -> str:
    """The package whose tensor or column an object is, also of a class derived from the package's; else nothing."""
    return next((package for package, name in _CLASSES.items() if is_of(x, package, name)), "")


def is_of(x: Any, package: str, *names: str) -> bool:
    """Whether an object is an instance of one of a package's classes, without importing the package."""
    module = sys.modules.get(package)
    classes = () if module is None else tuple(getattr(module, name, None) for name in names)
    return isinstance(x, tuple(one for one in classes if isinstance(one, type)))


def torch_operators(*tensors: Any) -> Any:
    """The functions that call torch's own operators, where one of these needs them: it has no elements here."""
    if any(is_of(one, "torch", "Tensor") for one in tensors):
        from onnx_cast import _torch

        if any(_torch.is_deferred(one) for one in tensors):
            from onnx_cast import _torch_operators

            return _torch_operators
    return None


@opaque
def run(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    """The result of an operator for any object."""
    seen = SEEN.get(type(x))
    if seen is not None:
        return seen(operator, x, out, packed)
    if isinstance(x, np.ndarray):
        return _arrays.run(operator, x, out, packed)
    if isinstance(x, np.generic):
        result = _arrays.run(operator, np.asarray(x), out, packed)
        return result if out is not None or packed else result[()]
    kind = kind_of(x)
    if kind == "torch":
        from onnx_cast import _torch

        return _torch.run(operator, x, out, packed)
    if kind == "jax":
        from onnx_cast import _jax

        return _jax.run(operator, x, out, packed)
    if kind == "onnx":
        return _tensor_proto(operator, x, out, packed)
    if kind in ("pandas", "polars"):
        from onnx_cast import columns

        return columns.run(operator, x, out, packed)
    if hasattr(x, "__dlpack__"):
        return _dlpack(operator, x, out, packed)
    return _arrays.run(operator, array_of(x), out, packed)


def array_of(x: Any, name: str = "x", others: str = "") -> np.ndarray:
    """The elements of any object as an array, without a copy if the object shares its memory. Errors call the object
    ``name`` and list ``others`` among the accepted kinds."""
    if isinstance(x, (np.ndarray, np.generic)):
        return unmasked(np.asanyarray(x), name)
    kind = kind_of(x)
    if kind == "torch":
        from onnx_cast import _torch

        return _torch.array_of(x, name)
    if kind == "jax":
        from onnx_cast import _jax

        return _jax.array_of(x, name)
    if kind == "onnx":
        return proto_array(_proto(x, name))
    if kind in ("pandas", "polars"):
        from onnx_cast import columns

        return columns.array_of(x, name)
    if hasattr(x, "__dlpack__"):
        return _dlpack_array(x, name)
    try:
        return np.asarray(memoryview(x))
    except TypeError:
        kinds = f"{others}a numpy array, a tensor with DLPack, a buffer or an onnx.TensorProto"
        if is_of(x, "pandas", "DataFrame") or is_of(x, "polars", "DataFrame", "LazyFrame"):
            kinds = "a column, or onnx_cast.columns.cast_columns"
        raise TypeError(f"{name} is of type {type(x).__name__} (want {kinds})") from None


def number_of(x: Any) -> int:
    """ONNX's number of the type of any object."""
    is_series = kind_of(x) in ("pandas", "polars")
    return _targets.number_of(array_of(x.head(0) if is_series else x))  # which may have nulls


def lent(x: Any, name: str) -> tuple[np.ndarray, int, tuple[int, ...], bool]:
    """The elements of any object as the native module takes those of a named tensor: an array, ONNX's number, the
    shape, and whether the array has packed bytes."""
    try:
        if kind_of(x) == "torch":
            from onnx_cast import _torch

            pairs = _torch.pairs_of(x)
            if pairs is not None:
                return pairs[0], _targets.FLOAT4, pairs[1], True
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
            from onnx_cast import _torch

            return _torch.tensor_of(data, number, shape)
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
        from onnx_cast import _torch

        return _torch.tensor_of(data, number, array.shape)
    return _proto_of(x.name + part, data, number, array.shape)


def _array_of_kind(x: Any, kind: str, array: np.ndarray) -> Any:
    """An array as a tensor of the kind of ``x``, where arrays hold what those do."""
    if kind == "jax":
        from onnx_cast import _jax

        return _jax.array_like(x, array)
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
    from onnx_cast import _torch

    with _torch.output(out, name) as memory:
        yield memory


def _dlpack(operator: _native.Operator, x: Any, out: Any, packed: bool) -> Any:
    array = _dlpack_array(x)
    if out is not None or operator.to == _targets.STRING or not hasattr(x, "__array_namespace__"):
        return _arrays.run(operator, array, out, packed)
    return _dlpack_of(x, operator.run(array, _arrays.memory(operator, array.shape, packed), packed, new=True))


def _dlpack_of(x: Any, array: np.ndarray) -> Any:
    try:
        return x.__array_namespace__().from_dlpack(array)
    except BufferError:  # numpy lends no types but its own
        return array


def _dlpack_array(x: Any, name: str = "x") -> np.ndarray:
    try:
        return np.from_dlpack(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if is_of(x, "torch.fx", "Proxy"):
            text = f"{name} is a Proxy of torch.fx.symbolic_trace and has no elements (want make_fx or torch.export)"
            raise TypeError(text) from None
        raise TypeError(f"{name}, of type {type(x).__name__}, cannot be read by numpy: {error}") from error


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
        result.string_data.extend(text.encode() for text in _arrays.run(operator, array, None, False).ravel().tolist())
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
    if x.data_type not in _targets.ROWS:
        text = f"data_type is {x.data_type}, which is not an element type of ONNX's"
        raise CastError(text, value=x.data_type).of_tensor(x.name)
    if x.data_type == _targets.STRING:
        array = np.empty(len(x.string_data), object)
        array[:] = list(x.string_data)
        if array.size != np.prod(shape, dtype=object):
            raise CastError(f"{array.size} strings for shape {shape}").of_tensor(x.name)
        return array.reshape(shape)
    is_external = x.data_location == x.EXTERNAL
    try:
        if not is_external and not x.HasField("raw_data") and _targets.ROWS[x.data_type]["bits"] == 6:
            bits = np.asarray(x.int32_data, np.int32).astype(np.uint8) & 63  # the package onnx lacks these types
            return bits.view(_targets.DTYPES[x.data_type]).reshape(shape)
        if is_external or not x.HasField("raw_data"):
            return numpy_helper.to_array(x)
    except ValueError as error:
        has_elements = any(field.name.endswith("_data") for field, _ in x.ListFields())
        raise CastError(str(error) if has_elements else f"no elements for shape {shape}").of_tensor(x.name) from None
    try:
        return _targets.from_bytes(x.raw_data, x.data_type, shape)
    except CastError as error:
        raise error.of_tensor(x.name) from None
