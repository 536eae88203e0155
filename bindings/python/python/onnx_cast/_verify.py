"""Conversions that are verified by running the model, and what they would lose at each node."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

import numpy as np

from onnx_cast import _feeds, _models, _native
from onnx_cast._feeds import Inputs
from onnx_cast._native import CastError
from onnx_cast._precision_report import NodeError, OutputError, PrecisionReport
from onnx_cast._search import Search

#: The distance between a number of a type and the next, in parts of it.
_STEP = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def exactly(name: str) -> str:
    """The pattern that matches a name alone."""
    pattern = re.sub(r"([*?\[\]{}\\])", r"\\\1", name)
    return f"\\{pattern}" if name.startswith("re:") or name in ("none", "sensitive") else pattern


def error(want: Any, got: Any) -> float:
    """How far a result is off: the largest distance, in parts of the largest magnitude. Where it is NaN or infinite and
    should not be, infinity. Of integers and texts, the share of the elements that differ."""
    if isinstance(want, (list, dict)):
        return 0.0 if str(want) == str(got) else 1.0
    want, got = np.asarray(want), np.asarray(got)
    if want.shape != got.shape:
        return float("inf")
    if want.size == 0:
        return 0.0
    if want.dtype.kind != "f":
        return float(np.mean(want != got))
    want, got = want.astype(np.float64), got.astype(np.float64)
    known = np.isfinite(want)
    same = known | (want == got) | (np.isnan(want) & np.isnan(got))
    if not same.all() or not np.isfinite(got[known]).all():
        return float("inf")
    if not known.any():
        return 0.0
    return float(np.abs(want[known] - got[known]).max() / max(np.abs(want[known]).max(), 1e-30))


class _Runs:
    """Runs of a model, as it is and emulated with nodes that stay float."""

    def __init__(self, path: FilePath, options: _native.Options, inputs: Inputs, seed: int, folder: FilePath) -> None:
        self.path, self.options, self.folder = path, options, folder
        original = _feeds.session(path, options["threads"])
        self.feeds = _feeds.feeds(inputs, original, seed)
        self.outputs = [one.name for one in original.get_outputs()]
        self.want = [_feeds.run(original, None, feed, path) for feed in self.feeds]

    def emulated(self, keep: Iterable[str]) -> tuple[FilePath, dict[str, Any]]:
        """An emulated model, and what was decided."""
        target = self.folder / "emulated.onnx"
        patterns = [*self.options["keep"], *map(exactly, keep)]
        made = {"emulate": True, "dry_run": False, "force": True, "explain": []}
        beside = {"external_data": None, "external_threshold": None}
        options = self.options | made | beside | {"keep": patterns}
        return target, _native.convert(self.path, target, options, None)[1]

    def errors(self, path: FilePath) -> list[float]:
        """How far each output is off, at worst."""
        model = _feeds.session(path, self.options["threads"])
        worst = [0.0] * len(self.outputs)
        for feed, want in zip(self.feeds, self.want, strict=True):
            given = {one.name: feed[one.name] for one in model.get_inputs() if one.name in feed}
            for at, got in enumerate(_feeds.run(model, self.outputs, self._cast(model, given), path)):
                worst[at] = max(worst[at], error(want[at], got))
        return worst

    @staticmethod
    def _cast(model: Any, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inputs in the types that an emulated model wants."""
        types = {one.name: one.type for one in model.get_inputs()}
        half = {name for name, kind in types.items() if kind == "tensor(float16)"}
        return {name: array.astype(np.float16) if name in half else array for name, array in given.items()}

    def of_values(self, path: FilePath, names: list[str]) -> dict[str, float]:
        """How far each value is off, at worst: infinity where it is NaN or infinite and should not be."""
        worst = dict.fromkeys(names, 0.0)
        original = _feeds.session(_feeds.with_values(self.path_here(), names, "original-values.onnx"), None)
        with_all = _feeds.with_values(path, names, "emulated-values.onnx")
        model = _feeds.session(with_all, None)
        for feed in self.feeds:
            for part in _feeds.in_parts(names):
                want = _feeds.run(original, part, feed, self.path)
                got = _feeds.run(model, part, self._cast(model, feed), with_all)
                for name, one, other in zip(part, want, got, strict=True):
                    worst[name] = max(worst[name], error(one, other))
        return worst

    def path_here(self) -> FilePath:
        """The model in the folder of what is made, with its external data."""
        if self.path.parent == self.folder:
            return self.path
        target = self.folder / "original.onnx"
        if not target.exists():
            # A model of the opset already is written as it is.
            told: _native.Options = {"threads": self.options["threads"]}
            opsets = _native.info(self.path, told, None)["model"]["opsets"]
            opset = next(one["version"] for one in opsets if one["domain"] in ("", "ai.onnx"))
            _native.upgrade(self.path, target, told | {"opset": opset}, None)
        return target


def verified(
    read: _models.Given,
    options: _native.Options,
    inputs: Inputs,
    seed: int,
    tolerance: float,
    max_runs: int,
    progress: Callable[[int, int], object] | None,
) -> tuple[list[str], PrecisionReport]:
    """The nodes to keep float so that no output is off by more than the tolerance, and what was found."""
    onnx, _ = _feeds.packages("a verified conversion")
    done = 0

    def tell(count: int = 1) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(min(done, max_runs), max_runs)

    with _feeds.as_file(read) as path, tempfile.TemporaryDirectory() as folder:
        runs = _Runs(path, options, inputs, seed, FilePath(folder))
        emulated, decisions = runs.emulated(())
        before = runs.errors(emulated)
        tell()
        values = _values(onnx, path, decisions)
        of_values = runs.of_values(emulated, list(values))
        tell(2)
        kept: list[str] = []
        after, of_values_after, decisions_after = before, of_values, decisions
        if max(before, default=0.0) > tolerance:
            kept = _found(onnx, runs, decisions, values, of_values, before, (tolerance, max_runs - 3), tell)
            emulated, decisions_after = runs.emulated(kept)
            after = runs.errors(emulated)
            of_values_after = runs.of_values(emulated, list(values))
    if progress is not None:
        progress(max_runs, max_runs)
    outputs = [OutputError(*row) for row in zip(runs.outputs, before, after, strict=True)]
    nodes = _rows(decisions, decisions_after, values, of_values, of_values_after)
    return kept, PrecisionReport(decisions["to"], tolerance, len(runs.feeds), done, outputs, nodes, kept)


def _values(onnx: Any, path: FilePath, decisions: dict[str, Any]) -> dict[str, str]:
    """The float values that nodes of the main graph give, and those nodes."""
    graph = onnx.load(str(path), load_external_data=False).graph
    floats = {row["name"] for row in decisions["values"] if row["graph"] == ""}
    known = _native.info(path, {"types": True}, None)
    types = {row["name"] for row in known["model"]["types"] if row["graph"] == "" and row["type"] == "float"}
    constants = {one.name for one in graph.initializer} | {one.name for one in graph.input}
    return {
        name: node.name or node.output[0]
        for node in graph.node
        for name in node.output
        if name in floats and name in types and name not in constants
    }


def _found(
    onnx: Any,
    runs: _Runs,
    decisions: dict[str, Any],
    values: dict[str, str],
    of_values: dict[str, float],
    before: list[float],
    limits: tuple[float, int],
    tell: Callable[[], None],
) -> list[str]:
    tolerance, max_runs = limits
    low = [row["node"] for row in decisions["nodes"] if row["type"] == decisions["to"]]
    names = list(dict.fromkeys(low))
    blame = _blame(onnx, runs, decisions, of_values, before, tolerance)
    order = sorted(range(len(names)), key=lambda at: (-blame.get(names[at], 0.0), at))

    def passes(nodes: frozenset[int]) -> bool:
        emulated, _ = runs.emulated(names[at] for at in sorted(nodes))
        tell()
        return max(runs.errors(emulated)) <= tolerance

    found = Search(passes, max_runs).run(order)
    if found is None:
        worst, name = max(zip(before, runs.outputs, strict=True))
        raise CastError(
            f"output `{name}` is off by {worst:.2g} of its largest magnitude, more than the tolerance of {tolerance:g},"
            " even with every node in float that may stay float"
        )
    return [names[at] for at in sorted(found)]


def _blame(
    onnx: Any, runs: _Runs, decisions: dict[str, Any], of_values: dict[str, float], before: list[float], tolerance: float
) -> dict[str, float]:
    """How much each node is suspected: what leads to the outputs that are off, most where errors begin or grow.

    The error of an output goes back along the nodes. Of a node's error, about the step of the type is its own; what is more
    comes from its inputs, but where it is infinite and no input is, it is all its own.
    """
    step = _STEP.get(decisions["to"], 2.0**-4)
    graph = onnx.load(str(runs.path), load_external_data=False).graph
    of_value: dict[str, float] = {
        name: off for name, off in zip(runs.outputs, before, strict=True) if off > tolerance
    }
    blame: dict[str, float] = {}
    bounded = lambda off: min(off, 1e6)
    for node in reversed(graph.node):
        given = max((of_value.get(name, 0.0) for name in node.output), default=0.0)
        if given == 0.0:
            continue
        own = bounded(max((of_values.get(name, 0.0) for name in node.output), default=0.0))
        inputs = {name: bounded(of_values.get(name, 0.0)) for name in _reads(node)}
        most = max(inputs.values(), default=0.0)
        # Where errors begin or grow is suspected most.
        growth = own / (most + step)
        name = node.name or node.output[0]
        blame[name] = max(blame.get(name, 0.0), bounded(given) * (1.0 + min(growth, 1e6)))
        begins = own >= 1e6 and most < 1e6
        for one, off in inputs.items():
            share = bounded(given) * (0.5 if begins else off / (off + step))
            of_value[one] = max(of_value.get(one, 0.0), share)
    # Nodes within others are suspected as those are.
    within: dict[str, float] = {}
    for node in graph.node:
        name = node.name or node.output[0]
        for inner in _within(node):
            within[inner] = max(within.get(inner, 0.0), blame.get(name, 0.0))
    return within | blame


def _graphs(node: Any) -> Iterable[Any]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _reads(node: Any) -> set[str]:
    """The values that a node reads, and the graphs within it."""
    names = set(node.input)
    for graph in _graphs(node):
        for inner in graph.node:
            names |= _reads(inner)
    return names - {""}


def _within(node: Any) -> Iterable[str]:
    for graph in _graphs(node):
        for inner in graph.node:
            yield inner.name or (inner.output[0] if inner.output else "")
            yield from _within(inner)


def _rows(
    decisions: dict[str, Any],
    after: dict[str, Any],
    values: dict[str, str],
    of_values: dict[str, float],
    of_values_after: dict[str, float],
) -> list[NodeError]:
    """The errors of the nodes."""
    worst: dict[str, tuple[float, float]] = {}
    for value, node in values.items():
        old = worst.get(node, (0.0, 0.0))
        worst[node] = (max(old[0], of_values[value]), max(old[1], of_values_after[value]))
    rows = []
    # A function that is called with several types is there several times, so the lists may differ in length.
    types = {(row["graph"], row["node"]): row for row in after["nodes"]}
    for row in decisions["nodes"]:
        off = worst.get(row["node"]) if row["graph"] == "" else None
        now = types.get((row["graph"], row["node"]), row)
        errors = (None, None) if off is None else off
        rows.append(NodeError(row["graph"], row["node"], row["operator"], row["type"], now["type"], now["why"], *errors))
    return rows
