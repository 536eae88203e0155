"""Models that compute in float16 or bfloat16, or in float again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from onnx_cast import _feeds, _models, _native, _targets, files
from onnx_cast._feeds import Inputs
from onnx_cast._native import CastError
from onnx_cast._precision_report import PrecisionReport
from onnx_cast._verify import exactly, verified
from onnx_cast.dtypes import ALL, DataType
from onnx_cast.types import To

if TYPE_CHECKING:
    from onnx import ModelProto

_TYPES = {one.name: one for one in ALL}

#: Defaults of a conversion with inputs.
_TOLERANCE, _MAX_RUNS = 1e-2, 64


class NodeDecision(NamedTuple):
    """A node that computes with floats, and what decided its type."""

    #: The graphs around it; empty in the model's own graph.
    graph: str
    #: Its name, or its number where it has none.
    node: str
    operator: str
    dtype: DataType
    #: What decided that.
    why: str


class ValueDecision(NamedTuple):
    """A floating-point value."""

    #: The graphs around it; empty in the model's own graph.
    graph: str
    name: str
    dtype: DataType
    #: Whether a Cast gives it in the other type too.
    cast: bool


class Clamped(NamedTuple):
    """A constant that was clamped."""

    name: str
    #: The most extreme numbers that this changed, and what they became.
    numbers: list[tuple[float, float]]


class Converted(NamedTuple):
    """What a conversion did, or would do."""

    #: The narrow type.
    to: DataType
    #: Casts that are new.
    casts: int
    #: Constants that are stored in the narrow type, and those of them that are stored in float as well.
    constants: int
    constants_twice: int
    #: Every node that computes with floats, in the order of the model.
    nodes: list[NodeDecision]
    #: Every floating-point value that is not a constant.
    values: list[ValueDecision]
    #: What was asked for with ``explain``.
    explained: list[str]
    #: Constants that :func:`onnx_cast.convert_float_to_float16` clamped.
    clamped: list[Clamped]
    #: The opset from which on more of the model's operators take the type, if it is newer than the model's.
    raise_to: int | None
    #: How many names of ``ranges`` are none of the model's floating-point values.
    unknown_ranges: int
    #: The model, where one was given and no output; ``None`` where it was written to a file, and of a dry run.
    model: ModelProto | None = None
    #: Why no node computes in the narrow type; ``None`` where one does.
    nothing_narrow: str | None = None
    #: Options that had no effect, each with the reason.
    ignored: Sequence[tuple[str, str]] = ()
    #: With ``inputs``, how far outputs and nodes are off, before and after nodes were kept.
    report: PrecisionReport | None = None


def converted(done: _native.ConvertDone) -> Converted:
    """The summary of a conversion, from the native module's."""
    nodes = [
        NodeDecision(row["graph"], row["node"], row["operator"], _TYPES[row["type"]], row["why"]) for row in done["nodes"]
    ]
    values = [ValueDecision(row["graph"], row["name"], _TYPES[row["type"]], row["cast"]) for row in done["values"]]
    clamped = [Clamped(row["name"], [tuple(pair) for pair in row["numbers"]]) for row in done["clamped"]]
    more = (done["raise_to"], done["unknown_ranges"])
    counts = (done["casts"], done["constants"], done["constants_twice"])
    what = (nodes, values, done["explained"], clamped)
    ignored = _models.ignored_of(done)
    return Converted(_TYPES[done["to"]], *counts, *what, *more, nothing_narrow=done["nothing_narrow"], ignored=ignored)


def convert_model(
    model: files.Source,
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
    force: bool = False,
    external_data: str | None = None,
    external_threshold: int | None = None,
    base_dir: files.Path | None = None,
    inputs: Inputs | None = None,
    tolerance: float = _TOLERANCE,
    seed: int = 0,
    max_runs: int = _MAX_RUNS,
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> Converted:
    """Converts a model to compute in ``to``: float16 or bfloat16, or float again.

    ``model`` is the path of a model, of any size, which is written to ``output``, or an ``onnx.ModelProto`` of up to
    2 GB, which does not change: without ``output``, ``model`` of the result is another one. Where the elements of a
    ``ModelProto`` are in files that were not loaded, ``base_dir`` is their folder.

    ``io`` are the types of inputs and outputs: ``"keep"`` those that they have, ``"low"`` the new one, a mapping from
    names to types, or several of these in a list. ``keep`` names what stays float: operators, or nodes (globs);
    ``"sensitive"``, the default, keeps what would lose digits or overflow; ``"none"`` keeps nothing for precision.
    ``low`` names operators or nodes that get the new type even if that takes more Casts. A name that matches nothing
    is an error. ``ranges`` has the largest
    magnitudes of values by name, or is the path of a file of them (:func:`onnx_cast.record_model`): those that exceed the
    type when multiplied by ``margin`` stay float. ``raise_opset`` lets the opset be raised to where the model's operators
    take the type.

    ``emulate`` gives a model in float that rounds its values where the new one would; ``to`` may be a float8 type then.
    ``dry_run`` only returns what would be done. So does ``explain``, a list of values and nodes whose decisions are
    explained. Neither needs ``output``. ``force``, ``external_data``,
    ``external_threshold``, ``threads`` and ``progress`` are as in :func:`onnx_cast.cast_file`.

    With ``inputs`` the conversion is verified: the model and the emulated one run in onnxruntime on a mapping of names to
    arrays, on several of these, or with ``"random"`` on numbers from ``seed``. Where an output is off by more than
    ``tolerance`` of its largest magnitude, nodes are kept float until it is not, in ``max_runs`` runs at most.
    ``report`` of the result has the errors of outputs and nodes then, and ``progress`` is called with runs.
    """
    file = os.fsdecode(ranges) if isinstance(ranges, _models.PATHS) else None
    magnitudes = {} if file is not None or ranges is None else ranges
    explained = files.listed("explain", explain)
    options: _native.Options = {
        "threads": _targets.thread_count(threads),
        "to": files.type_name(to),
        "io": _interface(io),
        "keep": _texts("keep", keep),
        "low": _texts("low", low),
        "ranges": {str(name): float(magnitude) for name, magnitude in magnitudes.items()},
        "ranges_file": file,
        "margin": float(margin),
        **files.flags(raise_opset=raise_opset, emulate=emulate),
        "explain": explained,
        **files.storage(dry_run or bool(explained), force, external_data, external_threshold),
    }
    read, target = _models.ends(model, output, base_dir, options, "model")
    unused = _feeds.unused(inputs, seed)
    if inputs is None:
        verifying = [("tolerance", tolerance != _TOLERANCE), ("max_runs", max_runs != _MAX_RUNS)]
        unused += [(name, "is for a conversion with inputs") for name, is_given in verifying if is_given]
        return _converted(model, *_native.convert(read, target, options, progress), unused)
    if emulate or explained:
        raise TypeError(f"{'emulate' if emulate else 'explain'} is for a conversion without inputs")
    if target is not None and not dry_run:
        # Before anything runs.
        _native.convert(read, target, options | {"dry_run": True}, None)
    kept, report = verified(read, options, inputs, seed, _tolerance(tolerance), _runs(max_runs), progress)
    options["keep"] += map(exactly, kept)
    return _converted(model, *_native.convert(read, target, options, None), unused)._replace(report=report)


def _converted(
    model: Any, result: bytes | None, done: _native.ConvertDone, unused: list[tuple[str, str]]
) -> Converted:
    """The summary of a conversion, with the model where that was made in memory. ``unused`` are options without effect
    that only this package has."""
    summary = converted(done)
    ignored = [*summary.ignored, *_models.ignored(unused)]
    return summary._replace(model=_models.made(model, result, None), ignored=ignored)


def _tolerance(tolerance: float) -> float:
    if not tolerance >= 0:
        raise CastError(f"tolerance is {tolerance} (want 0 or more)", parameter="tolerance", value=tolerance)
    return float(tolerance)


def _runs(runs: int) -> int:
    if runs < 4:
        raise CastError(f"max_runs is {runs} (want 4 or more)", parameter="max_runs", value=runs)
    return runs


def _interface(io: Any) -> list[str | dict[str, str | None]]:
    """The types of inputs and outputs."""
    parts: list[str | dict[str, str | None]] = []
    for one in io if isinstance(io, (list, tuple)) else [io]:
        if isinstance(one, Mapping):
            parts.append({str(name): files.type_name(kind) for name, kind in one.items()})
        elif one in ("keep", "low"):
            parts.append(one)
        else:
            text = f"io is {one!r} (want 'keep', 'low', a mapping from names to types, or a list of these)"
            raise CastError(text, parameter="io", value=one)
    return parts


def _texts(name: str, texts: Iterable[str]) -> list[str]:
    """Names of operators or nodes; one word may stand by itself."""
    return [texts] if isinstance(texts, str) else files.listed(name, texts)
