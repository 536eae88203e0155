"""The names that parameters take, for annotations: ``round_mode: RoundMode``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol, SupportsIndex, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from onnx import TensorProto

__all__ = ["Activations", "BlockFormat", "Layout", "Loss", "Recipe", "RoundMode", "ScaleRule", "To", "TypeName"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: ONNX's names of the element types.
TypeName: TypeAlias = Literal[
    "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double", "uint32",
    "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "uint4", "int4", "float4e2m1", "float8e8m0", "uint2", "int2", "float6e2m3", "float6e3m2",
]  # fmt: skip

#: How casts to float8e8m0 round.
RoundMode: TypeAlias = Literal["up", "down", "nearest"]

#: How the power of two of an MX scale is found.
ScaleRule: TypeAlias = Literal["floor", "rceil", "ceil", "even"]

#: Formats of blocks with a scale each.
BlockFormat: TypeAlias = Literal["mxfp4", "mxfp8", "mxfp8e5m2", "mxfp6e2m3", "mxfp6e3m2", "mxint8", "nvfp4"]

#: Whose arithmetic NVFP4 follows.
Recipe: TypeAlias = Literal["modelopt", "torchao", "compressed-tensors"]

#: What a cast may lose.
Loss: TypeAlias = Literal["overflow", "underflow", "subnormal", "nan"]

#: What becomes of activations, where a layout leaves the choice.
Activations: TypeAlias = Literal["dynamic", "none"]

#: How quantized checkpoints name and lay out their tensors.
Layout: TypeAlias = Literal[
    "deepseek",
    "gpt-oss",
    "compressed-tensors",
    "modelopt",
    "fbgemm",
    "quark",
    "comfyui",
    "plain",
    "bitsandbytes",
    "mlx",
    "gguf",
    "gptq",
    "awq",
    "mistral",
    "openai",
    "hqq",
    "torchao",
    "quanto",
    "bitnet",
    "gemma",
]


class TorchType(Protocol):
    """A ``torch.dtype``, by the attributes that identify it."""

    @property
    def is_floating_point(self) -> bool: ...

    @property
    def is_complex(self) -> bool: ...


class TensorLike(Protocol):
    """A tensor of torch, JAX or another library with DLPack, or a numpy array."""

    def __dlpack__(self, *args: Any, **keywords: Any) -> Any: ...


class SeriesLike(Protocol):
    """A column of pandas or polars."""

    def to_numpy(self, *args: Any, **keywords: Any) -> Any: ...

    def to_frame(self, *args: Any, **keywords: Any) -> Any: ...


class PolarsType(Protocol):
    """A type of polars, by the attributes that identify it: the class as well as its instances."""

    def is_temporal(self) -> bool: ...


class Typed(Protocol):
    """What has an element type."""

    @property
    def dtype(self) -> Any: ...


#: A tensor whose type alone matters.
Like: TypeAlias = "Typed | TensorProto"

#: The targets of which a numpy scalar becomes a ``str``.
Text: TypeAlias = "Literal['string'] | type[str]"

#: Types of other packages than numpy.
_OtherType: TypeAlias = "TorchType | PolarsType"

#: An element type: a name (also others than ONNX's, as ``"bf16"``), a type of numpy, ml_dtypes, torch or polars, one of
#: Python's that numpy takes, a number of ``onnx.TensorProto.DataType``, or an object of :mod:`onnx_cast.dtypes`.
To: TypeAlias = (
    "TypeName | str | SupportsIndex | np.dtype[Any] | type[np.generic | bool | int | float | complex | str | bytes] | _OtherType"
)
