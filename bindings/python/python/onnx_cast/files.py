"""Files of tensors and models, in constant memory: ``.safetensors``, ``.npy``, ``.npz``, ``.pb``, ``.pt``, ``.onnx``, raw bytes.

Parameters are called as the command's options are: ``--min-elements`` is ``min_elements``. Results have what the command prints with ``--json``.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex

import numpy as np

from onnx_cast import _feeds, _models, _native, _targets
from onnx_cast._feeds import Inputs
from onnx_cast._models import Path as Path, Source as Source
from onnx_cast._native import CastError
from onnx_cast.dtypes import ALL, DataType
from onnx_cast.types import Loss, RoundMode, To

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_cast._native import Options

__all__ = [
    "CastSummary",
    "Difference",
    "FileInfo",
    "Folded",
    "FoldedCast",
    "Loading",
    "LossError",
    "Path",
    "Problem",
    "Progress",
    "Ranges",
    "Recorded",
    "Source",
    "TensorCast",
    "TensorInfo",
    "Upgraded",
    "UpgradedNode",
    "Values",
    "bit_cast_file",
    "cast_file",
    "check",
    "diff",
    "fold",
    "info",
    "record_model",
    "upgrade_model",
]


def __dir__() -> list[str]:
    return sorted(__all__)


Progress = Callable[[int, int], object]

_TYPES = {one.name: one for one in ALL}


class Values(NamedTuple):
    """What the values of a tensor are like."""

    #: The least, the largest and the mean of the finite values; ``None`` where there are none. The least and the largest
    #: of an integer type are ``int``, and exact.
    min: float | None
    max: float | None
    mean: float | None
    zeros: int
    nan: int
    infinities: int


class TensorInfo(NamedTuple):
    """A tensor of a file."""

    #: Its name; empty where the format has none.
    name: str
    shape: tuple[int, ...]
    #: ``None`` for an array of a type that ONNX lacks: see :attr:`descr`.
    dtype: DataType | None
    #: Bytes of its elements, packed; of strings, of their text, or in an array of their items.
    bytes: int
    #: What its values are like, with ``stats=True`` and where they are real numbers.
    values: Values | None = None
    #: numpy's type of an array of a type that ONNX lacks, such as ``"<M8[D]"``.
    descr: str | None = None


class FileInfo(list[TensorInfo]):
    """The tensors of a file, and what else it holds."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(_tensor_info(row) for row in found["tensors"])
        #: The extension of its format, without the dot.
        self.format: str = found["format"]
        #: The number of files that it consists of.
        self.files: int = found["files"]
        #: The metadata of a ``.safetensors`` file or a model.
        self.metadata: dict[str, str] = found["metadata"]
        #: ``layout``, ``weights`` and ``warning`` of a quantized checkpoint: each weight's format, block and bits for a
        #: value, and what contradicts itself, if anything does; ``None`` of other files.
        self.quantized: dict[str, Any] | None = found.get("quantized")
        #: ``ir_version``, ``opsets`` and ``casts`` of a model, with ``types=True`` also ``types``; ``None`` of other files.
        self.model: dict[str, Any] | None = found.get("model")
        #: Options that had no effect, each with the reason.
        self.ignored: list[tuple[str, str]] = _models.ignored_of(found)
        #: Stale copies of tensors for which the index of a checkpoint names another file, each with the reason.
        self.left_out: list[tuple[str, str]] = [(one["name"], one["why"]) for one in found.get("left_out", [])]


def _tensor_info(row: dict[str, Any]) -> TensorInfo:
    values = row.get("values")
    if values is not None:
        numbers = (_number(values[name]) for name in ("min", "max", "mean"))
        values = Values(*numbers, values["zeros"], values["nan"], values["infinities"])
    dtype = None if row["type"] is None else _TYPES[row["type"]]
    return TensorInfo(row["name"], tuple(row["shape"]), dtype, row["bytes"], values, row.get("descr"))


def _number(value: float | str | None) -> float | None:
    """A number as JSON has it: infinities are text, and so are integers of more than 64 bits."""
    if not isinstance(value, str):
        return value
    return int(value) if value.lstrip("-").isdigit() else float(value)


class TensorCast(NamedTuple):
    """What became of a tensor."""

    name: str
    shape: tuple[int, ...]
    #: ``None`` for an array of a type that ONNX lacks, which is kept: see :attr:`descr`.
    before: DataType | None
    after: DataType | None
    bytes_before: int
    bytes_after: int
    #: Whether it was cast, or only kept.
    cast: bool
    #: What became of its values, by the names of :class:`onnx_cast.Stats` without the means, where it was cast and
    #: that was asked for. An error without a bound is ``None``.
    counts: dict[str, Any] | None = None
    #: How many values ``overflowed``, were ``saturated``, were ``nan`` or ``became_nan``, and of quantized weights how
    #: many blocks have ``nan_scales``, where it was cast and its values were read.
    alarms: dict[str, int] | None = None
    #: Why a matrix is kept where weights are quantized.
    reason: str | None = None
    #: The type of the blocks in a ``.gguf`` file, such as ``"Q8_0"``.
    block_type: str | None = None
    #: numpy's type of an array that is kept because ONNX lacks the type, such as ``"<M8[D]"``.
    descr: str | None = None
    #: The format that a weight was quantized to, such as ``"nvfp4"`` or ``"int4/128"``, on its elements.
    quantized: str | None = None


class CastSummary(list[TensorCast]):
    """What became of the tensors of a file, in the order of the output."""

    def __init__(self, done: dict[str, Any]) -> None:
        super().__init__(rows(done["tensors"]))
        #: Files that were there already with the content that they were to get, with ``resume=True``.
        self.already_there: int = done.get("already_there", 0)
        #: Other files of a checkpoint's folder that were copied, or would be.
        self.copied: int = done.get("copied", 0)
        #: Of these the names of those that were there with another content, and are kept by ``resume``.
        self.kept_others: list[str] = done.get("kept_others", [])
        #: Weights, indexes and descriptions of an earlier output that ``force`` removed from the folder, or would.
        self.removed: list[str] = done.get("removed", [])
        #: Tensors that the output lacks because it cannot hold them, each with the reason.
        self.left_out: list[tuple[str, str]] = [(one["name"], one["why"]) for one in done.get("left_out", [])]
        #: Weights that most people expect to be quantized and that are kept, each with the reason.
        self.passed_over: list[tuple[str, str]] = [(one["name"], one["why"]) for one in done.get("passed_over", [])]
        #: The names of the scales and zero points of activations that the output lacks.
        self.dropped: list[str] = done.get("dropped", [])
        #: How many values overflowed, were saturated or are NaN, and in which tensor first, as a text; ``None`` where
        #: there are none, and of a dry run without ``losses``.
        self.warning: str | None = done.get("warning")
        #: What to know before the output is used elsewhere: where a quantized model runs.
        self.notes: list[str] = done.get("notes", [])
        #: Options that had no effect, each with the reason.
        self.ignored: list[tuple[str, str]] = _models.ignored_of(done)


def rows(tensors: list[dict[str, Any]]) -> list[TensorCast]:
    def row(one: dict[str, Any]) -> TensorCast:
        before, after = (None if one[name] is None else _TYPES[one[name]] for name in ("from", "to"))
        bytes_before, bytes_after = one["bytes_before"], one["bytes_after"]
        shape = tuple(one["shape"])
        made = (before, after, bytes_before, bytes_after, one["cast"], one["counts"], one.get("alarms"))
        more = {name: one.get(name) for name in ("reason", "block_type", "descr", "quantized")}
        return TensorCast(one["name"], shape, *made, **more)

    return [row(one) for one in tensors]


class LossError(CastError):
    """A cast that loses what ``fail_on`` forbids. Nothing is written."""

    #: What the cast would do, with the counts of every tensor that was to be cast.
    summary: CastSummary


class FoldedCast(NamedTuple):
    """A Cast, CastLike or BitCast of a model, and what became of it."""

    #: The value that it gives.
    output: str
    operator: str
    #: The types, where the model tells them.
    before: DataType | None
    after: DataType | None
    #: ``"kept"``, ``"computed"``, ``"removed"``, ``"joined"`` or ``"bypassed"``.
    outcome: str


class Folded(NamedTuple):
    """What a fold did with the Casts of a model."""

    computed: int
    removed: int
    joined: int
    #: Every Cast, in the order of the model.
    casts: list[FoldedCast]


class UpgradedNode(NamedTuple):
    """A node that an upgrade rewrote."""

    #: The graph: empty for the main graph, else the nodes and the function that it is within.
    graph: str
    #: The node, as errors name it.
    node: str
    operator: str
    #: The versions of the operator.
    before: int
    after: int
    #: What was done, step by step.
    what: list[str]


class Upgraded(NamedTuple):
    """What changing a model's opset did."""

    #: The opsets.
    before: int
    after: int
    #: Nodes of ONNX's own domain, in all graphs.
    nodes: int
    #: Those that were rewritten, in the order of the model.
    rewritten: list[UpgradedNode]
    #: Operators of ONNX's own domain that neither ONNX nor onnxruntime has. Their nodes are as they were.
    unknown: list[str]
    #: The versions of the model format.
    ir_before: int
    ir_after: int


class Problem(NamedTuple):
    """A module that a loader would not read, or would read wrongly."""

    name: str
    reason: str


class Loading(NamedTuple):
    """What a loader would do with a checkpoint, as far as its own rules say."""

    #: The loader, and the release whose rules are used.
    loader: str
    version: str
    #: The number of modules that it reads.
    read: int
    problems: list[Problem]
    #: The numbers of modules that its rules do not decide, by the reason.
    undecided: dict[str, int]


class Difference(NamedTuple):
    """A tensor, or a node of a model, in which two files differ."""

    name: str
    #: ``"only in a"``, ``"only in b"``, ``"type"``, ``"shape"``, ``"values"`` or ``"node"``.
    difference: str
    #: The types, or the shapes, in either file.
    a: DataType | tuple[int, ...] | None = None
    b: DataType | tuple[int, ...] | None = None
    #: Of values: the elements that differ, the elements in all, the first that differs, and the largest distance.
    count: int | None = None
    of: int | None = None
    first: int | None = None
    largest: float | None = None
    #: Of nodes: the parts that differ, such as ``"operator, attribute to"``.
    parts: str | None = None


def type_name(to: Any) -> str | None:
    """The name of a type that is an option."""
    return None if to is None else _targets.ROWS[_targets.target(to)[0]]["name"]


def listed(name: str, texts: Iterable[str] | None) -> list[str]:
    """Strings as a list, which is empty for ``None``."""
    if isinstance(texts, str):
        raise TypeError(f"{name} is a str (want a list of them)")
    return [] if texts is None else list(texts)


def rule_pairs(rules: Any, type_of: Callable[[Any], str | None]) -> list[tuple[str, str | None]]:
    """Rules as pairs of a pattern and the name of a type, for the native module."""
    if rules is None:
        return []
    if not isinstance(rules, Mapping):
        raise TypeError(f"rules is of type {type(rules).__name__} (want a dict of patterns and types)")
    for pattern in rules:
        if not isinstance(pattern, str):
            raise TypeError(f"rules has the key {pattern!r} (want patterns that are str)")
    return [(pattern, type_of(kind)) for pattern, kind in rules.items()]


def names(include: Iterable[str], exclude: Iterable[str], threads: int | None) -> Options:
    """Which tensors a request is about, and on how many threads it runs."""
    patterns = {"include": listed("include", include), "exclude": listed("exclude", exclude)}
    return {**patterns, "threads": _targets.thread_count(threads)}


def count(name: str, value: int | None) -> int | None:
    """How many of something, where that is given."""
    return None if value is None else _targets.whole(name, value, 0)


def flags(**given: bool) -> Options:
    """Options that are true or false."""
    return {name: _targets.flag(name, value) for name, value in given.items()}


def source_types(given: To | Mapping[str, To] | None) -> Any:
    """The types of tensors that do not tell theirs."""
    if isinstance(given, Mapping):
        return [(pattern, type_name(kind)) for pattern, kind in given.items()]
    return type_name(given)


def storage(
    dry_run: bool, force: bool, external_data: str | None, external_threshold: int | None
) -> Options:
    """How a model is written."""
    return {
        **flags(dry_run=dry_run, force=force),
        **external(external_data, external_threshold),
    }


def external(external_data: str | None, external_threshold: int | None) -> Options:
    """Where the elements of a model go."""
    return {"external_data": external_data, "external_threshold": count("external_threshold", external_threshold)}


def selection(
    to: Any, rules: Mapping[str, To | None] | None, rules_file: Path | None, min_elements: int | None
) -> Options:
    pairs = rule_pairs(rules, type_name)
    chosen: Options = {"to": type_name(to), "rules": pairs, "rules_file": _models.decoded(rules_file)}
    return {**chosen, "min_elements": count("min_elements", min_elements)}


def cast_file(
    src: Source,
    dst: Path | None = None,
    to: To | None = None,
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    rules: Mapping[str, To | None] | None = None,
    rules_file: Path | None = None,
    min_elements: int | None = None,
    from_: To | Mapping[str, To] | None = None,
    shape: SupportsIndex | Iterable[SupportsIndex] | None = None,
    dry_run: bool = False,
    resume: bool = False,
    force: bool = False,
    copy_others: bool = True,
    shard_size: str | int | None = None,
    npy_plain: bool = False,
    raise_opset: bool = False,
    external_data: str | None = None,
    external_threshold: int | None = None,
    losses: bool = False,
    fail_on: Iterable[Loss] = (),
    base_dir: Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> CastSummary | ModelProto:
    """Casts the tensors of a file, or of a model in memory.

    Of a ``.safetensors`` file, or of the index or folder of several, every tensor that is selected is cast: those of a
    float type where ``to`` is one, and all numbers where it is not. Of an ``.onnx`` file the constants of a float type
    are: each is stored in its new type, and a Cast gives it back in its own. Constants of integers are cast where a rule
    names them.

    Parameters
    ----------
    src : path or onnx.ModelProto
        What to cast: a ``.safetensors``, ``.npy``, ``.npz``, ``.pb`` or ``.onnx`` file, a checkpoint of ``torch.save``
        (``.pt``, ``.bin``), the index or folder of a checkpoint, raw bytes with ``from_`` and ``shape``, or a model of
        up to 2 GB, which does not change.
    dst : path, optional
        The output, which appears whole or not at all, and may be ``src``. Without it a model becomes another one.
    to : To, optional
        The type to cast to: a name, a dtype, a number. Not needed where ``rules`` name all types.
    saturate : bool
        Whether overflow in float8 gives the largest value.
    round_mode : {"up", "down", "nearest"}
        How the target float8e8m0 rounds.
    opset : int, optional
        The opset whose version of Cast decides; of models it is theirs.
    include, exclude : iterable of str
        Patterns of names, which select tensors: globs, or behind ``re:`` regular expressions.
    rules : mapping of str to To or None, optional
        Types by pattern of names, or ``None`` to keep what they match; the last that matches decides.
    rules_file : path, optional
        A file of rules, one ``PATTERN=TYPE`` a line, which come before ``rules``.
    min_elements : int, optional
        Tensors of fewer elements are kept. Constants of models are, unless it is given, below 256.
    from_ : To, or mapping of str to To, optional
        The type of arrays that do not tell it, and with ``shape`` of raw bytes. A mapping gives types by pattern of
        names: for an ``.npz`` archive with arrays of several types.
    shape : int or iterable of int, optional
        The shape of raw bytes.
    dry_run : bool
        Only say what would be done.
    resume : bool
        Continue an interrupted run: write the files that are missing. Without ``force`` nothing is replaced: a file of
        weights with other content is a ``FileExistsError``.
    force : bool
        Replace ``dst``. Without it, a file that exists and a folder that is not empty are a ``FileExistsError``.
    copy_others : bool
        Where ``src`` is a folder, copy its other files (the configuration, the tokenizer): not other weights, and not
        hidden files.
    shard_size : str or int, optional
        Divide a ``.safetensors`` checkpoint into files of at most this size, ``"5GB"`` or a number of bytes, with an index.
        ``dst`` is a folder.
    npy_plain : bool
        Write types that numpy lacks as the unsigned integers of their bits.
    raise_opset : bool
        Let the opset of a model be raised where the type needs it.
    external_data : str, optional
        The name of a file beside ``dst`` for the elements of a model.
    external_threshold : int, optional
        The bytes from which on a tensor goes there: 1024 unless it is given.
    losses : bool
        Count for each tensor what became of its values.
    fail_on : iterable of {"overflow", "underflow", "subnormal", "nan"}
        Losses that raise :class:`LossError`, with nothing written. A dry run reads the values for it.
    base_dir : path, optional
        The folder of elements of a ``ModelProto`` that were not loaded.
    threads : int, optional
        Threads at most that read, cast and write, which changes no result.
    progress : callable, optional
        Called now and then with the bytes that are done and those that there are. What it raises, and Ctrl-C, ends the
        work and leaves ``dst`` as it was.

    Returns
    -------
    CastSummary or onnx.ModelProto
        A row for each tensor. For a ``ModelProto`` without ``dst``, the new model; warnings of the summary are then
        Python warnings.

    Raises
    ------
    OSError
        A failure of the system, with ``errno`` and ``filename``.
    CastError
        An invalid file, or options that do not apply to it.
    LossError
        Losses that ``fail_on`` forbids; ``summary`` has them.

    Examples
    --------
    >>> np.save("weights.npy", np.array([1.0, -0.3, 1000.0], np.float32))
    >>> (row,) = cast_file("weights.npy", "small.npy", "float8e4m3fn", losses=True)
    >>> row.after, row.bytes_after, row.counts["saturated"]
    (onnx_cast.dtypes.float8e4m3fn, 3, 1)
    """
    options: Options = {
        **names(include, exclude, threads),
        **_targets.attributes(saturate, round_mode, opset),
        **selection(to, rules, rules_file, min_elements),
        **writing(from_, shape, dry_run, resume, force, copy_others, npy_plain, shard_size),
        **flags(raise_opset=raise_opset, losses=losses),
        **external(external_data, external_threshold),
        "fail_on": listed("fail_on", fail_on),
    }
    return write_file("cast", src, dst, base_dir, options, progress)


def write_file(
    job: str, src: Source, dst: Path | None, base_dir: Path | None, options: Options, progress: Progress | None
) -> CastSummary | ModelProto:
    """Does a job of the native module that makes a file of another, or a model of another in memory."""
    result, done, loss = _native.write_file(job, *_models.ends(src, dst, base_dir, options), options, progress)
    found = summary(done, loss)
    return _models.made(src, result, found, notices(found))


def notices(found: CastSummary) -> list[str]:
    """Texts of the warnings for a summary: skipped tensors, losses and notes."""
    passed_over = [f"`{name}` stays as it is: {why}" for name, why in found.passed_over]
    return [*passed_over, *([] if found.warning is None else [found.warning]), *found.notes]


def summary(done: dict[str, Any], loss: str | None, *, warns: bool = False) -> CastSummary:
    """Returns the summary of a job, or raises the error for a loss that ``fail_on`` forbids. With ``warns``, issues the
    notices of the summary as Python warnings, also before the error."""
    found = CastSummary(done)
    for notice in notices(found) if warns else ():
        _models.warn(notice)
    if loss is not None:
        error = LossError(loss)
        error.summary = found
        raise error
    return found


def writing(
    from_: Any,
    shape: SupportsIndex | Iterable[SupportsIndex] | None,
    dry_run: bool,
    resume: bool,
    force: bool,
    copy_others: bool,
    npy_plain: bool,
    shard_size: str | int | None,
) -> Options:
    return {
        "from": source_types(from_),
        "shape": None if shape is None else _targets.shape_of(shape),
        **flags(dry_run=dry_run, resume=resume, force=force, npy_plain=npy_plain),
        "copy_others": _targets.flag("copy_others", copy_others),
        "shard_size": shard_size,
    }


def bit_cast_file(
    src: Path,
    dst: Path,
    to: To | None = None,
    *,
    opset: int | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    rules: Mapping[str, To | None] | None = None,
    rules_file: Path | None = None,
    min_elements: int | None = None,
    from_: To | Mapping[str, To] | None = None,
    shape: SupportsIndex | Iterable[SupportsIndex] | None = None,
    dry_run: bool = False,
    resume: bool = False,
    force: bool = False,
    copy_others: bool = True,
    shard_size: str | int | None = None,
    npy_plain: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> CastSummary:
    """Reads the bits of the tensors of ``src`` as another type of the same width. In a file of several tensors, those
    of that width, at least one. Parameters are as in :func:`cast_file`; a model is refused."""
    options: Options = {
        **names(include, exclude, threads),
        **selection(to, rules, rules_file, min_elements),
        **writing(from_, shape, dry_run, resume, force, copy_others, npy_plain, shard_size),
        "opset": _targets.opset_of(opset),
    }
    return write_file("bit_cast", src, dst, None, options, progress)  # type: ignore[return-value]


def info(
    path: Source,
    *,
    from_: To | Mapping[str, To] | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    stats: bool = False,
    types: bool = False,
    base_dir: Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> FileInfo:
    """The tensors and metadata of a file, read from its header; of a model, its constants, Casts and opsets.

    ``stats`` reads all values for :class:`Values`. ``types`` infers the type of every value of a model: ``types`` of
    :attr:`FileInfo.model`, each with ``name``, ``type`` (``None`` if unknown) and ``graph``. Other parameters are as in
    :func:`cast_file`.
    """
    options: Options = {**names(include, exclude, threads), "from": source_types(from_), **flags(stats=stats, types=types)}
    return FileInfo(_native.info(_models.given(path, base_dir, "path"), options, progress))


def check(path: Path, loader: Literal["vllm", "sglang", "transformers"]) -> Loading:
    """What a loader would do with a quantized checkpoint: whether it has the layout and the formats, builds the
    quantized modules with quantization and the others without, and joins only modules that agree.

    The rules come from the loader's own sources; what they do not decide is counted.
    """
    found = _native.check(os.fsdecode(path), loader)
    problems = [Problem(**row) for row in found["problems"]]
    return Loading(found["loader"], found["version"], found["read"], problems, found["undecided"])


def diff(
    a: Source,
    b: Source,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    tolerance: float | None = None,
    values: bool = False,
    base_dir: Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> list[Difference]:
    """The tensors in which two files or models differ, by name: in type, shape or values. The list is empty if they are
    the same. Of two models nodes, opsets, inputs and outputs are compared too, except with ``values``.

    Values are compared bit by bit or, with a ``tolerance``, as numbers. With ``values``
    quantized weights are compared by their dequantized values, under the names of the plain weights, and numbers
    whatever their types. Other parameters are as in :func:`cast_file`; ``progress`` is through ``a``.
    """
    if tolerance is not None and not tolerance >= 0:
        raise CastError(f"tolerance is {tolerance} (want 0 or more)", parameter="tolerance", value=tolerance)
    options: Options = {**names(include, exclude, threads), "tolerance": tolerance, **flags(values=values)}
    folder = [base_dir if _models.is_model(one) else None for one in (a, b)]
    if base_dir is not None and folder == [None, None]:
        folder[0] = base_dir
    read = [_models.given(one, where, name) for one, where, name in zip((a, b), folder, "ab")]
    found = _native.diff(*read, options, progress)["differences"]
    kinds = {"type": _TYPES.__getitem__, "shape": tuple}
    for row in found:
        if (kind := kinds.get(row["difference"])) is not None:
            row["a"], row["b"] = kind(row["a"]), kind(row["b"])
    return [Difference(**{**row, "largest": _number(row.get("largest"))}) for row in found]


def fold(
    src: Source,
    dst: Path | None = None,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    dequantize: bool = False,
    dry_run: bool = False,
    force: bool = False,
    external_data: str | None = None,
    external_threshold: int | None = None,
    base_dir: Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Folded | ModelProto:
    """Computes the Casts of a model's constants, removes those that change nothing, and joins two in a row if no value
    changes by that. Every output of the model keeps its bits. ``include`` and ``exclude`` are patterns of the values
    that Casts give. Quantized weights stay quantized; with ``dequantize``, DequantizeLinear of constants is computed
    too, which makes the model larger and keeps a runtime from computing in integers. Other parameters are as in
    :func:`cast_file`."""
    options: Options = {
        **names(include, exclude, threads),
        **flags(dequantize=dequantize),
        **storage(dry_run, force, external_data, external_threshold),
    }
    result, done = _native.fold(*_models.ends(src, dst, base_dir, options), options, progress)

    def cast(row: dict[str, Any]) -> FoldedCast:
        before, after = (None if row[name] is None else _TYPES[row[name]] for name in ("from", "to"))
        return FoldedCast(row["output"], row["operator"], before, after, row["outcome"])

    found = Folded(done["computed"], done["removed"], done["joined"], [cast(row) for row in done["casts"]])
    return _models.made(src, result, found)


class Recorded(NamedTuple):
    """What :func:`record_model` did."""

    #: The output that records each value, by the value's name: float, of shape [5]: the largest magnitude, the least
    #: that is not zero, the least and the largest number, and how many NaN there are.
    outputs: dict[str, str]
    #: How many floating-point values are inside functions, and cannot be outputs.
    inner: int


class Ranges(dict[str, float]):
    """The largest magnitude of each value, by its name, as ``ranges`` of :func:`onnx_cast.convert_model` takes it."""

    #: The five numbers of each value, over all runs, as :class:`Recorded` has them.
    numbers: dict[str, np.ndarray]
    #: How many floating-point values are inside functions, and were not recorded.
    inner: int

    def save(self, path: Path, *, force: bool = False) -> None:
        """Writes an ``.npz`` that ``convert --ranges`` reads. A file that exists is a ``FileExistsError`` without
        ``force``."""
        path = os.fsdecode(path)
        path += "" if path.endswith(".npz") else ".npz"
        _native.check_output(path, _targets.flag("force", force))
        np.savez(path, **{f"{RECORD_PREFIX}{name}": numbers for name, numbers in self.numbers.items()})


#: What stands before a value's name in the name of the output that records it.
RECORD_PREFIX = "onnx_cast_record/"


def record_model(
    src: Source,
    dst: Path | None = None,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    inputs: Inputs | None = None,
    seed: int = 0,
    dry_run: bool = False,
    force: bool = False,
    external_data: str | None = None,
    external_threshold: int | None = None,
    base_dir: Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Recorded | ModelProto | Ranges:
    """Adds an output with the range of each floating-point value to a model. Their results in any runtime, saved by
    ``numpy.savez``, are the ``ranges`` that :func:`onnx_cast.convert_model` reads. ``include`` and
    ``exclude`` are patterns of the values' names.

    With ``inputs``, onnxruntime runs the model too, and the result is :class:`Ranges`: ``inputs`` are a mapping of names to
    arrays, several of these, or ``"random"``, numbers from ``seed``. ``dst`` is not needed then. Other parameters are as in
    :func:`cast_file`."""
    options: Options = {
        **names(include, exclude, threads),
        **storage(dry_run, force, external_data, external_threshold),
    }
    _models.ignored(_feeds.unused(inputs, seed))
    if inputs is not None:
        if dry_run:
            raise TypeError("dry_run is for a model that does not run (inputs run it)")
        return _recorded(_models.given(src, base_dir), _models.decoded(dst), inputs, seed, options, progress)
    result, done = _native.record(*_models.ends(src, dst, base_dir, options), options, progress)
    return _models.made(src, result, Recorded({row["name"]: row["output"] for row in done["values"]}, done["inner"]))


def _recorded(
    read: _models.Given,
    dst: str | None,
    inputs: Inputs,
    seed: int,
    options: Options,
    progress: Progress | None,
) -> Ranges:
    """Runs a model that records."""
    _feeds.packages("to record ranges")
    with tempfile.TemporaryDirectory() as folder:
        target = os.path.join(folder, "recording.onnx") if dst is None else dst
        done = _native.record(read, target, options, progress)[1]
        model = _feeds.session(target, options["threads"])
        outputs = {row["output"]: row["name"] for row in done["values"]}
        numbers: dict[str, np.ndarray] = {}
        for feed in _feeds.feeds(inputs, model, seed):
            found = _feeds.run(model, list(outputs), feed, target) if outputs else []
            for name, row in zip(outputs.values(), found, strict=True):
                numbers[name] = row if name not in numbers else _together(numbers[name], row)
        del model
    ranges = Ranges((name, float(row[0])) for name, row in numbers.items())
    ranges.numbers, ranges.inner = numbers, done["inner"]
    return ranges


def _together(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The five numbers of two runs."""
    largest, least = np.maximum(one, other), np.minimum(one, other)
    return np.array([largest[0], least[1], largest[2], least[3], one[4] + other[4]], np.float32)


def upgrade_model(
    src: Source,
    dst: Path | None = None,
    *,
    opset: int | None = None,
    ir_version: int | None = None,
    dry_run: bool = False,
    force: bool = False,
    external_data: str | None = None,
    external_threshold: int | None = None,
    base_dir: Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Upgraded | ModelProto:
    """Changes the opset of a model, in its graph, the graphs within it and its functions, and rewrites the nodes whose
    operators have changed. By ONNX's rules every output keeps its bits; a runtime may compute a newer version of an
    operator in another order, as onnxruntime does AveragePool from opset 19 on. A node that has no equivalent at the
    new opset is an error that names it; a model of that opset already is written as it is. A lower opset, from 13 on, is
    written if every node means the same there. ``ir_version`` is the version of the model format, which is set if the
    model uses nothing newer. The opset is 21 if neither is given, and the model's own if only ``ir_version`` is. Other
    parameters are as in :func:`cast_file`."""
    options: Options = {
        "threads": _targets.thread_count(threads),
        "opset": _targets.opset_of(opset),
        "ir_version": None if ir_version is None else _targets.whole("ir_version", ir_version),
        **storage(dry_run, force, external_data, external_threshold),
    }
    result, done = _native.upgrade(*_models.ends(src, dst, base_dir, options), options, progress)
    rewritten = [
        UpgradedNode(row["graph"], row["node"], row["operator"], row["from"], row["to"], row["what"])
        for row in done["rewritten"]
    ]
    versions = (done["ir_from"], done["ir_to"])
    upgraded = Upgraded(done["from"], done["to"], done["nodes"], rewritten, done["unknown"], *versions)
    return _models.made(src, result, upgraded)
