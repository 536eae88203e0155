"""The parts of the package, and the types of its functions for single tensors."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, SupportsIndex, TypedDict, TypeVar, overload

import numpy as np
from onnx import ModelProto, TensorProto
from typing_extensions import Buffer, Unpack

from onnx_cast import dtypes as dtypes, files as files, types as types
from onnx_cast._convert import Converted as Converted
from onnx_cast._feeds import Inputs
from onnx_cast._native import (
    CastError as CastError,
    cast as cast,
)
from onnx_cast._quantized import transcode_file as transcode_file
from onnx_cast._report import (
    Report as Report,
    report as report,
)
from onnx_cast._scaled import (
    Quantized as Quantized,
    dequantize_linear as dequantize_linear,
    quantize_linear as quantize_linear,
)
from onnx_cast._stats import Stats as Stats
from onnx_cast.files import (
    LossError as LossError,
    Ranges as Ranges,
    bit_cast_file as bit_cast_file,
    check as check,
    diff as diff,
    info as info,
)
from onnx_cast.float16 import convert_float_to_float16 as convert_float_to_float16
from onnx_cast.types import (
    Activations,
    BlockFormat,
    Layout,
    Like,
    Loss,
    Recipe,
    RoundMode,
    ScaleRule,
    SeriesLike,
    TensorLike,
    To,
)

__version__: str

_Out = TypeVar("_Out", bound=np.ndarray[Any, Any] | TensorLike)
_Shape = TypeVar("_Shape", bound=tuple[int, ...])
# The result is of the same kind.
_Kind = TypeVar("_Kind", bound=TensorLike | SeriesLike)
_Tensor = TypeVar("_Tensor", bound=TensorLike)

@overload
def cast_like(
    x: np.ndarray[_Shape, Any],
    like: Like,
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
    like: Like,
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
    like: Like,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> np.generic | Any: ...
@overload
def cast_like(
    x: np.generic,
    like: Like,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool,
) -> Any: ...
@overload
def cast_like(
    x: np.ndarray[Any, Any] | Buffer,
    like: Like,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> np.ndarray[Any, np.dtype[Any]]: ...
@overload
def cast_like(
    x: TensorProto,
    like: Like,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> TensorProto: ...
@overload
def cast_like(
    x: _Kind,
    like: Like,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> _Kind: ...
@overload
def cast_like(
    x: np.ndarray[Any, Any] | np.generic | Buffer | TensorLike,
    like: Like,
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
    threads: int | None = None,
    packed: Literal[False] = False,
) -> np.ndarray[_Shape, np.dtype[Any]]: ...
@overload
def bit_cast(
    x: np.ndarray[Any, Any] | np.generic | Buffer,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[True],
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]: ...
@overload
def bit_cast(
    x: np.generic,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> np.generic: ...
@overload
def bit_cast(
    x: np.generic,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool,
) -> Any: ...
@overload
def bit_cast(
    x: np.ndarray[Any, Any] | Buffer,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> np.ndarray[Any, np.dtype[Any]]: ...
@overload
def bit_cast(
    x: TensorProto,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> TensorProto: ...
@overload
def bit_cast(
    x: _Kind,
    to: To,
    *,
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> _Kind: ...
@overload
def bit_cast(
    x: np.ndarray[Any, Any] | np.generic | Buffer | TensorLike,
    to: To,
    *,
    opset: int | None = None,
    out: _Out,
    threads: int | None = None,
    packed: bool = False,
) -> _Out: ...
@overload
def quantize_blocks(
    x: np.ndarray[Any, Any] | np.generic | Buffer,
    to: BlockFormat,
    *,
    scale_rule: ScaleRule = "floor",
    recipe: Recipe = "modelopt",
    out: None = None,
    threads: int | None = None,
) -> Quantized[np.ndarray[Any, np.dtype[Any]]]: ...
@overload
def quantize_blocks(
    x: TensorProto,
    to: BlockFormat,
    *,
    scale_rule: ScaleRule = "floor",
    recipe: Recipe = "modelopt",
    out: None = None,
    threads: int | None = None,
) -> Quantized[TensorProto]: ...
@overload
def quantize_blocks(
    x: _Tensor,
    to: BlockFormat,
    *,
    scale_rule: ScaleRule = "floor",
    recipe: Recipe = "modelopt",
    out: None = None,
    threads: int | None = None,
) -> Quantized[_Tensor]: ...
@overload
def quantize_blocks(
    x: np.ndarray[Any, Any] | np.generic | Buffer | TensorLike | TensorProto,
    to: BlockFormat,
    *,
    scale_rule: ScaleRule = "floor",
    recipe: Recipe = "modelopt",
    out: Quantized[_Out],
    threads: int | None = None,
) -> Quantized[_Out]: ...
@overload
def dynamic_quantize_linear(
    x: np.ndarray[_Shape, Any], *, out: None = None, threads: int | None = None
) -> tuple[np.ndarray[_Shape, np.dtype[np.uint8]], np.float32, np.uint8]: ...
@overload
def dynamic_quantize_linear(
    x: np.generic, *, out: None = None, threads: int | None = None
) -> tuple[np.uint8, np.float32, np.uint8]: ...
@overload
def dynamic_quantize_linear(
    x: Buffer, *, out: None = None, threads: int | None = None
) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], np.float32, np.uint8]: ...
@overload
def dynamic_quantize_linear(
    x: TensorProto, *, out: None = None, threads: int | None = None
) -> tuple[TensorProto, TensorProto, TensorProto]: ...
@overload
def dynamic_quantize_linear(
    x: _Tensor, *, out: None = None, threads: int | None = None
) -> tuple[_Tensor, _Tensor, _Tensor]: ...
@overload
def dynamic_quantize_linear(
    x: np.ndarray[Any, Any] | np.generic | Buffer | TensorLike, *, out: _Out, threads: int | None = None
) -> tuple[_Out, Any, Any]: ...

# The options of each function, which is written down once for each kind of result.
class _CastFile(TypedDict, total=False):
    saturate: bool
    round_mode: RoundMode
    opset: int | None
    include: Iterable[str]
    exclude: Iterable[str]
    rules: Mapping[str, To | None] | None
    rules_file: files.Path | None
    min_elements: int | None
    from_: To | Mapping[str, To] | None
    shape: SupportsIndex | Iterable[SupportsIndex] | None
    resume: bool
    force: bool
    copy_others: bool
    shard_size: str | int | None
    npy_plain: bool
    raise_opset: bool
    external_data: str | None
    external_threshold: int | None
    losses: bool
    fail_on: Iterable[Loss]
    base_dir: files.Path | None
    threads: int | None
    progress: files.Progress | None

class _DequantizeFile(TypedDict, total=False):
    layout: Layout | None
    include: Iterable[str]
    exclude: Iterable[str]
    rules: Mapping[str, To | None] | None
    rules_file: files.Path | None
    min_elements: int | None
    allow_nan: bool
    resume: bool
    force: bool
    copy_others: bool
    shard_size: str | int | None
    losses: bool
    fail_on: Iterable[Loss]
    base_dir: files.Path | None
    threads: int | None
    progress: files.Progress | None

class _QuantizeFile(TypedDict, total=False):
    layout: Layout | None
    activations: Activations | None
    scale_rule: ScaleRule | None
    include: Iterable[str]
    exclude: Iterable[str]
    rules: Mapping[str, To | None] | None
    rules_file: files.Path | None
    min_elements: int | None
    form: Literal["qdq", "matmulnbits", "dynamic"]
    zero_points: bool
    reduce_range: bool
    raise_opset: bool
    resume: bool
    force: bool
    copy_others: bool
    shard_size: str | int | None
    external_data: str | None
    external_threshold: int | None
    losses: bool
    fail_on: Iterable[Loss]
    base_dir: files.Path | None
    threads: int | None
    progress: files.Progress | None

class _Fold(TypedDict, total=False):
    include: Iterable[str]
    exclude: Iterable[str]
    dequantize: bool
    force: bool
    external_data: str | None
    external_threshold: int | None
    base_dir: files.Path | None
    threads: int | None
    progress: files.Progress | None

class _Record(TypedDict, total=False):
    include: Iterable[str]
    exclude: Iterable[str]
    seed: int
    force: bool
    external_data: str | None
    external_threshold: int | None
    base_dir: files.Path | None
    threads: int | None
    progress: files.Progress | None

class _Upgrade(TypedDict, total=False):
    opset: int | None
    ir_version: int | None
    force: bool
    external_data: str | None
    external_threshold: int | None
    base_dir: files.Path | None
    threads: int | None
    progress: files.Progress | None

class _Convert(TypedDict, total=False):
    to: To
    io: Any
    keep: Iterable[str]
    low: Iterable[str]
    ranges: Mapping[str, float] | files.Path | None
    margin: float
    raise_opset: bool
    emulate: bool
    tolerance: float
    seed: int
    max_runs: int
    force: bool
    external_data: str | None
    external_threshold: int | None
    base_dir: files.Path | None
    threads: int | None
    progress: files.Progress | None

@overload
def cast_file(
    src: files.Path,
    dst: files.Path | None = None,
    to: To | None = None,
    *,
    dry_run: bool = False,
    **options: Unpack[_CastFile],
) -> files.CastSummary: ...
@overload
def cast_file(
    src: ModelProto,
    dst: files.Path,
    to: To | None = None,
    *,
    dry_run: bool = False,
    **options: Unpack[_CastFile],
) -> files.CastSummary: ...
@overload
def cast_file(
    src: ModelProto,
    dst: None = None,
    to: To | None = None,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[_CastFile],
) -> ModelProto: ...
@overload
def cast_file(
    src: ModelProto,
    dst: None = None,
    to: To | None = None,
    *,
    dry_run: Literal[True],
    **options: Unpack[_CastFile],
) -> files.CastSummary: ...
@overload
def dequantize_file(
    src: files.Path,
    dst: files.Path | None = None,
    to: To | None = None,
    *,
    dry_run: bool = False,
    **options: Unpack[_DequantizeFile],
) -> files.CastSummary: ...
@overload
def dequantize_file(
    src: ModelProto,
    dst: files.Path,
    to: To | None = None,
    *,
    dry_run: bool = False,
    **options: Unpack[_DequantizeFile],
) -> files.CastSummary: ...
@overload
def dequantize_file(
    src: ModelProto,
    dst: None = None,
    to: To | None = None,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[_DequantizeFile],
) -> ModelProto: ...
@overload
def dequantize_file(
    src: ModelProto,
    dst: None = None,
    to: To | None = None,
    *,
    dry_run: Literal[True],
    **options: Unpack[_DequantizeFile],
) -> files.CastSummary: ...
@overload
def quantize_file(
    src: files.Path,
    dst: files.Path | None = None,
    to: To | None = None,
    *,
    dry_run: bool = False,
    **options: Unpack[_QuantizeFile],
) -> files.CastSummary: ...
@overload
def quantize_file(
    src: ModelProto,
    dst: files.Path,
    to: To | None = None,
    *,
    dry_run: bool = False,
    **options: Unpack[_QuantizeFile],
) -> files.CastSummary: ...
@overload
def quantize_file(
    src: ModelProto,
    dst: None = None,
    to: To | None = None,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[_QuantizeFile],
) -> ModelProto: ...
@overload
def quantize_file(
    src: ModelProto,
    dst: None = None,
    to: To | None = None,
    *,
    dry_run: Literal[True],
    **options: Unpack[_QuantizeFile],
) -> files.CastSummary: ...
@overload
def fold(
    src: files.Path,
    dst: files.Path | None = None,
    *,
    dry_run: bool = False,
    **options: Unpack[_Fold],
) -> files.Folded: ...
@overload
def fold(
    src: ModelProto,
    dst: files.Path,
    *,
    dry_run: bool = False,
    **options: Unpack[_Fold],
) -> files.Folded: ...
@overload
def fold(
    src: ModelProto,
    dst: None = None,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[_Fold],
) -> ModelProto: ...
@overload
def fold(
    src: ModelProto,
    dst: None = None,
    *,
    dry_run: Literal[True],
    **options: Unpack[_Fold],
) -> files.Folded: ...
@overload
def record_model(
    src: files.Path,
    dst: files.Path | None = None,
    *,
    inputs: None = None,
    dry_run: bool = False,
    **options: Unpack[_Record],
) -> files.Recorded: ...
@overload
def record_model(
    src: ModelProto,
    dst: files.Path,
    *,
    inputs: None = None,
    dry_run: bool = False,
    **options: Unpack[_Record],
) -> files.Recorded: ...
@overload
def record_model(
    src: ModelProto,
    dst: None = None,
    *,
    inputs: None = None,
    dry_run: Literal[False] = False,
    **options: Unpack[_Record],
) -> ModelProto: ...
@overload
def record_model(
    src: ModelProto,
    dst: None = None,
    *,
    inputs: None = None,
    dry_run: Literal[True],
    **options: Unpack[_Record],
) -> files.Recorded: ...
@overload
def record_model(
    src: files.Source,
    dst: files.Path | None = None,
    *,
    inputs: Inputs,
    dry_run: Literal[False] = False,
    **options: Unpack[_Record],
) -> files.Ranges: ...
@overload
def upgrade_model(
    src: files.Path,
    dst: files.Path | None = None,
    *,
    dry_run: bool = False,
    **options: Unpack[_Upgrade],
) -> files.Upgraded: ...
@overload
def upgrade_model(
    src: ModelProto,
    dst: files.Path,
    *,
    dry_run: bool = False,
    **options: Unpack[_Upgrade],
) -> files.Upgraded: ...
@overload
def upgrade_model(
    src: ModelProto,
    dst: None = None,
    *,
    dry_run: Literal[False] = False,
    **options: Unpack[_Upgrade],
) -> ModelProto: ...
@overload
def upgrade_model(
    src: ModelProto,
    dst: None = None,
    *,
    dry_run: Literal[True],
    **options: Unpack[_Upgrade],
) -> files.Upgraded: ...
def convert_model(
    model: files.Source,
    output: files.Path | None = None,
    *,
    inputs: Inputs | None = None,
    explain: Iterable[str] = (),
    dry_run: bool = False,
    **options: Unpack[_Convert],
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
def unpack(
    data: Buffer | np.ndarray[Any, Any] | TensorLike, dtype: To, shape: SupportsIndex | Iterable[SupportsIndex]
) -> np.ndarray[Any, np.dtype[Any]]: ...
