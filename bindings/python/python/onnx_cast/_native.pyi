import os
from collections.abc import Callable
from typing import Any, Literal, TypedDict, TypeVar, overload

import numpy as np
from onnx import TensorProto
from typing_extensions import Buffer, NotRequired

from onnx_cast._errors import CastError as CastError
from onnx_cast._operators import Asked
from onnx_cast.types import RoundMode, SeriesLike, TensorLike, Text, To

_Out = TypeVar("_Out", bound=np.ndarray[Any, Any] | TensorLike)
_Shape = TypeVar("_Shape", bound=tuple[int, ...])
# The result is of the same kind.
_Kind = TypeVar("_Kind", bound=TensorLike | SeriesLike)

Path = str | os.PathLike[str]
# A path, or a serialized ModelProto and the folder of its external data.
Given = Path | tuple[bytes, Path | None]
Progress = Callable[[int, int], object] | None

# `from` is a word of Python.
_OptionFrom = TypedDict("_OptionFrom", {"from": str | None | list[tuple[str, str | None]]}, total=False)
_FromType = TypedDict("_FromType", {"from": str})
_FromAnyType = TypedDict("_FromAnyType", {"from": str | None})
_FromOpset = TypedDict("_FromOpset", {"from": int})

# The options of the requests, by the names of the command's. The library refuses those that a request does not have.
class Options(_OptionFrom, total=False):
    activations: str | None
    allow_nan: bool
    allow_unmatched: bool
    clamp: list[float]
    copy_others: bool
    dequantize: bool
    dry_run: bool
    emulate: bool
    exclude: list[str]
    explain: list[str]
    external_data: str | None
    external_threshold: int | None
    fail_on: list[str]
    force: bool
    form: str
    from_layout: str | None
    include: list[str]
    io: list[str | dict[str, str | None]]
    ir_version: int | None
    keep: list[str]
    layout: str | None
    losses: bool
    low: list[str]
    margin: float
    min_elements: int | None
    npy_plain: bool
    opset: int | None
    raise_opset: bool
    ranges: dict[str, float]
    ranges_file: str | None
    reduce_range: bool
    resume: bool
    round_mode: str | None
    rules: list[tuple[str, str | None]]
    rules_file: str | None
    saturate: bool | None
    scale_rule: str | None
    shape: tuple[int, ...] | None
    shard_size: str | int | None
    stats: bool
    threads: int | None
    to: str | list[str] | None
    tolerance: float | None
    types: bool
    values: bool
    zero_points: bool

# What a job did: what the command prints with `--json`. Infinities are text.
class Done(TypedDict):
    input: str
    output: str
    dry_run: bool

class NamedReason(TypedDict):
    name: str
    why: str

class IgnoredOption(TypedDict):
    option: str
    why: str

class TensorRow(_FromAnyType):
    name: str
    shape: list[int]
    to: str | None
    descr: str | None
    block_type: str | None
    quantized: str | None
    cast: bool
    reason: str | None
    bytes_before: int
    bytes_after: int
    counts: dict[str, Any] | None
    alarms: dict[str, int] | None

class CastDone(Done):
    tensors: list[TensorRow]
    bytes_before: int
    bytes_after: int
    already_there: int
    copied: int
    kept_others: list[str]
    removed: list[str]
    left_out: list[NamedReason]
    dropped: list[str]
    passed_over: list[NamedReason]
    warning: str | None
    notes: list[str]
    ignored: list[IgnoredOption]

class FoldedRow(_FromAnyType):
    output: str
    operator: str
    to: str | None
    outcome: str

class FoldDone(Done):
    computed: int
    removed: int
    joined: int
    casts: list[FoldedRow]

class UpgradedRow(_FromOpset):
    graph: str
    node: str
    operator: str
    to: int
    what: str

class UpgradeDone(Done, _FromOpset):
    to: int
    ir_from: int
    ir_to: int
    nodes: int
    rewritten: list[UpgradedRow]
    unknown: list[str]

class RecordedRow(TypedDict):
    name: str
    type: str
    output: str

class RecordDone(Done):
    inner: int
    values: list[RecordedRow]

class ClampedRow(TypedDict):
    name: str
    numbers: list[list[float]]

class NodeRow(TypedDict):
    graph: str
    node: str
    operator: str
    type: str
    why: str

class ValueRow(TypedDict):
    graph: str
    name: str
    type: str
    cast: bool

class ConvertDone(Done):
    to: str
    raise_to: int | None
    not_verified: str
    nothing_narrow: str | None
    casts: int
    constants: int
    constants_twice: int
    unknown_ranges: int
    ignored: list[IgnoredOption]
    clamped: list[ClampedRow]
    explained: list[str]
    nodes: list[NodeRow]
    values: list[ValueRow]

class ValuesRow(TypedDict):
    min: float | str | None
    max: float | str | None
    mean: float | str | None
    zeros: int
    nan: int
    infinities: int

class InfoRow(TypedDict):
    name: str
    type: str | None
    descr: NotRequired[str]
    shape: list[int]
    bytes: int
    block_type: NotRequired[str]
    values: NotRequired[ValuesRow]

class WeightRow(TypedDict):
    name: str
    shape: list[int]
    format: str
    elements: str
    scales: str
    block: list[int]
    granularity: str
    bits: float
    tensors: dict[str, str]

class Quantized(TypedDict):
    layout: str | None
    weights: list[WeightRow]
    warning: str | None

class OpsetRow(TypedDict):
    domain: str
    version: int

class NodeCast(_FromAnyType):
    node: str
    operator: str
    to: str | None
    graph: str

class TypedValue(TypedDict):
    name: str
    type: str
    graph: str

class ModelRow(TypedDict):
    ir_version: int
    opsets: list[OpsetRow]
    casts: list[NodeCast]
    types: NotRequired[list[TypedValue]]

class Info(TypedDict):
    format: str
    files: int
    metadata: dict[str, str]
    tensors: list[InfoRow]
    ignored: NotRequired[list[IgnoredOption]]
    left_out: NotRequired[list[NamedReason]]
    quantized: NotRequired[Quantized]
    model: NotRequired[ModelRow]

class DifferenceRow(TypedDict):
    name: str
    difference: str
    a: NotRequired[str | list[int]]
    b: NotRequired[str | list[int]]
    count: NotRequired[int]
    of: NotRequired[int]
    first: NotRequired[int]
    largest: NotRequired[float | str]
    parts: NotRequired[str]

class Differences(TypedDict):
    a: str
    b: str
    differences: list[DifferenceRow]

class ProblemRow(TypedDict):
    name: str
    reason: str

class LoadingRow(TypedDict):
    loader: str
    version: str
    read: int
    problems: list[ProblemRow]
    undecided: dict[str, int]

# What to do, input, output, options, threads.
Job = tuple[str, Path, Path, Options, int]
# Which file, which part of how many, the job.
Part = tuple[int, int, int, Job]
# Name, elements or packed bytes, number of the type, shape, whether they are packed.
Tensor = tuple[str, np.ndarray, int, tuple[int, ...], bool]

__version__: str

class Found:
    def __init__(
        self,
        title: str,
        verdicts: list[tuple[str, str]],
        tables: list[tuple[str, list[str]]],
        others: int,
        json: str,
        page: str,
    ) -> None: ...
    @property
    def title(self) -> str: ...
    @property
    def verdicts(self) -> list[tuple[str, str]]: ...
    @property
    def ignored(self) -> list[tuple[str, str]]: ...
    def text(self, top: int) -> str: ...
    def json(self) -> str: ...
    def page(self) -> str: ...

class PanicException(RuntimeError): ...

class Operator:
    def __init__(
        self,
        name: str,
        to: int,
        saturate: bool | None,
        round_mode: str | None,
        opset: int | None,
        threads: int | None,
        text: np.dtype | Asked | None,
    ) -> None: ...
    @staticmethod
    def of_node(
        name: str,
        opset: int,
        attributes: list[tuple[str, int | bytes | None]],
        like: int | None,
        text: np.dtype | None,
    ) -> Operator: ...
    @staticmethod
    def scaled(
        name: str,
        opset: int | None,
        attributes: list[tuple[str, int | bytes | None]],
        scale: np.ndarray,
        zero_point: np.ndarray | None,
        threads: int | None,
    ) -> Operator: ...
    @property
    def to(self) -> int: ...
    @property
    def text(self) -> np.dtype | Asked | None: ...
    def run(self, x: Any, out: Any, packed: bool, new: bool = False) -> Any: ...
    def run_packed(
        self, bytes: np.ndarray, number: int, shape: tuple[int, ...], out: Any, packed: bool, new: bool = False
    ) -> np.ndarray: ...
    def parse(self, texts: list[Any], shape: tuple[int, ...], out: Any, packed: bool) -> np.ndarray: ...
    def parse_array(self, array: np.ndarray, out: Any, packed: bool) -> np.ndarray: ...
    def print(self, array: np.ndarray) -> list[str]: ...
    def texts(self, texts: list[Any]) -> list[str]: ...

@overload
def cast(
    x: np.ndarray[_Shape, Any],
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> np.ndarray[_Shape, np.dtype[Any]]: ...
@overload
def cast(
    x: np.ndarray[Any, Any] | np.generic | Buffer,
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[True],
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]: ...
@overload
def cast(
    x: np.generic,
    to: Text,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> str: ...
@overload
def cast(
    x: np.generic,
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> np.generic | Any: ...
@overload
def cast(
    x: np.generic,
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool,
) -> Any: ...
@overload
def cast(
    x: np.ndarray[Any, Any] | Buffer,
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> np.ndarray[Any, np.dtype[Any]]: ...
@overload
def cast(
    x: TensorProto,
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> TensorProto: ...
@overload
def cast(
    x: TensorLike,
    to: Text,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: Literal[False] = False,
) -> np.ndarray[Any, np.dtype[Any]]: ...
@overload
def cast(
    x: _Kind,
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: None = None,
    threads: int | None = None,
    packed: bool = False,
) -> _Kind: ...
@overload
def cast(
    x: np.ndarray[Any, Any] | np.generic | Buffer | TensorLike,
    to: To,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    out: _Out,
    threads: int | None = None,
    packed: bool = False,
) -> _Out: ...
def check(path: str, loader: str) -> LoadingRow: ...
def convert(
    input: Given, output: Path | None, options: Options, progress: Progress
) -> tuple[bytes | None, ConvertDone]: ...
def diff(a: Given, b: Given, options: Options, progress: Progress) -> Differences: ...
def fold(
    input: Given, output: Path | None, options: Options, progress: Progress
) -> tuple[bytes | None, FoldDone]: ...
def info(input: Given, options: Options, progress: Progress) -> Info: ...
def lay_out(temporary: Path, index: int, job: Job) -> None: ...
def name_whole(temporary: Path, output: Path) -> None: ...
def part_is_there(task: Part) -> bool: ...
def plan_files(job: Job) -> list[tuple[Path, Path, list[TensorRow]]]: ...
def write_part(temporary: Path, task: Part) -> None: ...
def write_side_files(job: Job) -> int: ...
def check_output(path: Path, force: bool) -> None: ...
def write_text(path: Path, text: str, force: bool) -> None: ...
def record(
    input: Given, output: Path | None, options: Options, progress: Progress
) -> tuple[bytes | None, RecordDone]: ...
def upgrade(
    input: Given, output: Path | None, options: Options, progress: Progress
) -> tuple[bytes | None, UpgradeDone]: ...
def write_file(
    job: str, input: Given, output: Path | None, options: Options, progress: Progress
) -> tuple[bytes | None, CastDone, str | None]: ...
def count(
    operator: Operator, array: np.ndarray
) -> tuple[tuple[int, int, int, int, int, int, int], tuple[float, float, float, float], int]: ...
def count_strings(
    operator: Operator, array: np.ndarray
) -> tuple[tuple[int, int, int, int, int, int, int], tuple[float, float, float, float], int]: ...
def count_texts(
    operator: Operator, texts: list[Any]
) -> tuple[tuple[int, int, int, int, int, int, int], tuple[float, float, float, float], int]: ...
def data_type(array: np.ndarray) -> int | None: ...
def dequantize_blocks(
    parts: tuple[np.ndarray, np.ndarray, float | None],
    format: str,
    recipe: str,
    to: int,
    threads: int | None,
    out: np.ndarray | None,
) -> np.ndarray: ...
def dynamic_scale(array: np.ndarray, threads: int | None) -> tuple[np.ndarray, np.ndarray]: ...
def infer_scaled(
    name: str,
    opset: int | None,
    attributes: list[tuple[str, int | bytes | None]],
    x: tuple[int, list[int | None]],
    scale: tuple[int, list[int | None]],
    zero_point: tuple[int, list[int | None]] | None,
) -> int: ...
def number(name: str) -> int: ...
def pack(array: np.ndarray, number: int) -> np.ndarray: ...
def quantize_blocks(
    array: np.ndarray,
    to: str,
    scale_rule: str,
    recipe: str,
    threads: int | None,
    out: tuple[np.ndarray, np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray, float | None]: ...
def quantized_tensors(tensors: list[Tensor], config: str | None, options: Options) -> Quantized: ...
def rewrite_tensors(
    job: str, tensors: list[Tensor], config: str | None, options: Options, progress: Progress
) -> tuple[dict[str, Any], list[str], list[np.ndarray | None], str | None, str | None]: ...
def report_arrays(
    arrays: list[tuple[str, np.ndarray]], others: int, title: str, options: Options, progress: Progress
) -> Found: ...
def report_file(input: Given, title: str, options: Options, progress: Progress) -> Found: ...
def setup(
    dtypes: list[tuple[np.dtype, int]], others: Callable[..., Any], make: Callable[..., Operator]
) -> None: ...
def types() -> list[dict[str, Any]]: ...
def unpack(array: np.ndarray, number: int, shape: tuple[int, ...]) -> np.ndarray: ...
