"""The parts of the package, and the types of its functions for single tensors."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, overload

import numpy as np
from onnx import ModelProto
from typing_extensions import Buffer

from onnx_cast import dtypes as dtypes, files as files, types as types
from onnx_cast._convert import Converted as Converted
from onnx_cast._native import (
    CastError as CastError,
    cast as cast,
)
from onnx_cast._quantized import (
    dequantize_file as dequantize_file,
    quantize_file as quantize_file,
    transcode_file as transcode_file,
)
from onnx_cast._report import (
    Report as Report,
    report as report,
)
from onnx_cast._scaled import (
    Quantized as Quantized,
    dequantize_linear as dequantize_linear,
    dynamic_quantize_linear as dynamic_quantize_linear,
    quantize as quantize,
    quantize_linear as quantize_linear,
)
from onnx_cast._stats import Stats as Stats
from onnx_cast.files import (
    LossError as LossError,
    bit_cast_file as bit_cast_file,
    cast_file as cast_file,
    diff as diff,
    fold as fold,
    info as info,
    record_model as record_model,
    upgrade_model as upgrade_model,
)
from onnx_cast.float16 import convert_float_to_float16 as convert_float_to_float16
from onnx_cast.types import RoundMode, To

__version__: str

_Out = TypeVar("_Out")
_Shape = TypeVar("_Shape", bound=tuple[int, ...])
# A tensor of torch, JAX or another library, or an onnx.TensorProto: the result is of the same kind.
_Tensor = TypeVar("_Tensor")

@overload
def cast_like(
    x: np.ndarray[_Shape, Any],
    like: Any,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> np.ndarray[_Shape, np.dtype[Any]]: ...
@overload
def cast_like(
    x: np.ndarray[Any, Any] | np.generic | Buffer,
    like: Any,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[True],
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]: ...
@overload
def cast_like(
    x: np.generic,
    like: Any,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> np.generic: ...
@overload
def cast_like(
    x: Buffer,
    like: Any,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> np.ndarray[Any, np.dtype[Any]]: ...
@overload
def cast_like(
    x: _Tensor,
    like: Any,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> _Tensor: ...
@overload
def cast_like(
    x: Any,
    like: Any,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: _Out,
    threads: int | None = None,
    packed: bool = False,
) -> _Out: ...
@overload
def bit_cast(
    x: np.ndarray[_Shape, Any],
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    packed: Literal[False] = False,
) -> np.ndarray[_Shape, np.dtype[Any]]: ...
@overload
def bit_cast(
    x: np.ndarray[Any, Any] | np.generic | Buffer,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    packed: Literal[True],
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]: ...
@overload
def bit_cast(
    x: np.generic,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    packed: Literal[False] = False,
) -> np.generic: ...
@overload
def bit_cast(
    x: Buffer,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    packed: Literal[False] = False,
) -> np.ndarray[Any, np.dtype[Any]]: ...
@overload
def bit_cast(
    x: _Tensor,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    packed: bool = False,
) -> _Tensor: ...
@overload
def bit_cast(
    x: Any,
    to: To,
    *,
    opset: int | None = None,
    out: _Out,
    packed: bool = False,
) -> _Out: ...
@overload
def convert_model(
    model: files.Path,
    output: files.Path | None = None,
    *,
    to: To = "float16",
    io: Any = "keep",
    keep: Iterable[str] = (),
    low: Iterable[str] = (),
    ranges: Mapping[str, float] | files.Path | None = None,
    margin: float = 4.0,
    raise_opset: bool = False,
    emulate: bool = False,
    explain: Iterable[str] = (),
    dry_run: bool = False,
    clobber: bool = True,
    external_data: str | None = None,
    external_threshold: int | None = None,
    base_dir: files.Path | None = None,
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> Converted: ...
@overload
def convert_model(
    model: ModelProto,
    output: files.Path | None = None,
    *,
    to: To = "float16",
    io: Any = "keep",
    keep: Iterable[str] = (),
    low: Iterable[str] = (),
    ranges: Mapping[str, float] | files.Path | None = None,
    margin: float = 4.0,
    raise_opset: bool = False,
    emulate: bool = False,
    explain: Iterable[str] = (),
    dry_run: Literal[True],
    clobber: bool = True,
    external_data: str | None = None,
    external_threshold: int | None = None,
    base_dir: files.Path | None = None,
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> Converted: ...
@overload
def convert_model(  # type: ignore[overload-overlap] # no name to explain gives the model
    model: ModelProto,
    output: files.Path | None = None,
    *,
    to: To = "float16",
    io: Any = "keep",
    keep: Iterable[str] = (),
    low: Iterable[str] = (),
    ranges: Mapping[str, float] | files.Path | None = None,
    margin: float = 4.0,
    raise_opset: bool = False,
    emulate: bool = False,
    explain: tuple[()] = (),
    dry_run: Literal[False] = False,
    clobber: bool = True,
    external_data: str | None = None,
    external_threshold: int | None = None,
    base_dir: files.Path | None = None,
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> ModelProto: ...
@overload
def convert_model(
    model: ModelProto,
    output: files.Path | None = None,
    *,
    to: To = "float16",
    io: Any = "keep",
    keep: Iterable[str] = (),
    low: Iterable[str] = (),
    ranges: Mapping[str, float] | files.Path | None = None,
    margin: float = 4.0,
    raise_opset: bool = False,
    emulate: bool = False,
    explain: Iterable[str],
    dry_run: bool = False,
    clobber: bool = True,
    external_data: str | None = None,
    external_threshold: int | None = None,
    base_dir: files.Path | None = None,
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> Converted: ...
def stats(
    x: Any,
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    threads: int | None = None,
) -> Stats: ...
def pack(x: np.ndarray[Any, Any]) -> np.ndarray[tuple[int], np.dtype[np.uint8]]: ...
def unpack(data: Buffer | np.ndarray[Any, Any], dtype: To, shape: int | tuple[int, ...]) -> np.ndarray[Any, np.dtype[Any]]: ...
