"""Checkpoints cast by a Ray cluster (``pip install onnx-cast[ray]``), whose machines share the folders.

Each file is laid out under a temporary name; its parts are cast into it by tasks, in any order and again where a worker
died, since a part always writes the same bytes to the same place. Then it gets its name, and the index comes last.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any

from onnx_cast import _native, files

try:
    import ray
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("onnx_cast.ray needs Ray: pip install onnx-cast[ray]", name=error.name) from error

#: Bytes of the input that a task casts, where it is not said.
SLICE_BYTES = 1 << 28

#: Seconds between looks at what is done.
_PERIOD = 0.5


def cast_checkpoint(
    src: files.Path,
    dst: files.Path,
    to: Any = None,
    rules: Mapping[str, Any] | None = None,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    min_elements: int | None = None,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int | None = None,
    resume: bool = False,
    copy_others: bool = True,
    slice_bytes: int = SLICE_BYTES,
    num_cpus: int = 1,
    max_retries: int = 3,
    progress: Callable[[int, int], object] | None = None,
) -> list[files.TensorCast]:
    """Casts a ``.safetensors`` checkpoint (an index, a folder or a file) as :func:`onnx_cast.cast_file` does, to the same
    bytes, on the Ray cluster that this process is connected to, or else on this machine.

    A file is a task, or several of about ``slice_bytes`` of the input. Every machine must see ``src`` and ``dst`` under
    these paths. A task whose worker dies is done again, ``max_retries`` times. Done again as a whole, the cast gives the
    same files; ``resume`` leaves those alone that are there already with the same content. What ``progress`` raises ends
    the work; files that are not whole by then do not appear.

    ``num_cpus`` are the processors that a task takes.
    """
    if slice_bytes < 1 or num_cpus < 1:
        raise ValueError(f"slice_bytes is {slice_bytes} and num_cpus {num_cpus} (want 1 or more)")
    options = {
        **files.names(include, exclude, None),
        **files.attributes(saturate, round_mode, opset),
        **files.selection(to, rules, None, min_elements),
    }
    src, dst = os.path.abspath(src), os.path.abspath(dst)
    job = hashlib.sha256(repr((src, options)).encode()).hexdigest()[:12]
    shards = [_Shard(*shard, job, slice_bytes) for shard in _native.plan_shards(src, dst, options)]
    remote = ray.remote(num_cpus=num_cpus, max_retries=max_retries)
    cast, compare = remote(_cast_part), remote(_part_is_there)
    told = _Told(shards, progress)
    if resume:
        there = [shard for shard in shards if os.path.exists(shard.output)]
        tasks = {shard: [compare.remote(shard.output, part) for part in shard.cut(options, num_cpus)] for shard in there}
        same = {shard for shard, results in _each(tasks, lambda _: None) if all(results)}
        told.begin(same)
        rest = [shard for shard in shards if shard not in same]
    else:
        rest = shards
    try:
        for shard in rest:
            _native.lay_out(shard.input, shard.output, shard.temporary, options)
        tasks = {shard: [cast.remote(shard.temporary, part) for part in shard.cut(options, num_cpus)] for shard in rest}
        for shard, _ in _each(tasks, told.add):
            _native.name_whole(shard.temporary, shard.output)
    finally:
        for shard in rest:
            if os.path.exists(shard.temporary):
                os.unlink(shard.temporary)
    if copy_others:
        _native.copy_others(src, dst)
    rows = [row for shard in shards for row in shard.rows]
    _native.write_index(src, dst, sum(row.bytes_after for row in rows))
    return rows


class _Shard:
    """A file of the checkpoint."""

    def __init__(self, input: str, output: str, rows: str, job: str, slice_bytes: int) -> None:
        self.input, self.output = input, output
        self.rows = files.rows(json.loads(rows))
        self.bytes = sum(row.bytes_before for row in self.rows)
        self.parts = max(1, -(-self.bytes // slice_bytes))
        # The job's own, so that what is left of one that was killed is replaced by that same one alone.
        path = PurePath(output)
        self.temporary = str(path.with_name(f".{path.name}.onnx-cast-{job}.part"))

    def cut(self, options: dict[str, Any], threads: int) -> list[tuple]:
        """The parts, as the native module takes them."""
        return [(self.input, index, self.parts, options, threads) for index in range(self.parts)]


class _Told:
    """Tells how far the work is, in bytes of the input."""

    def __init__(self, shards: list[_Shard], progress: Callable[[int, int], object] | None) -> None:
        self.progress, self.total, self.done = progress, sum(shard.bytes for shard in shards), 0.0

    def begin(self, done: Iterable[_Shard]) -> None:
        self.done = float(sum(shard.bytes for shard in done))

    def add(self, shard: _Shard) -> None:
        self.done += shard.bytes / shard.parts
        if self.progress is not None:
            self.progress(min(round(self.done), self.total), self.total)


def _each(tasks: dict[_Shard, list[ray.ObjectRef]], told: Callable[[_Shard], None]):
    """Waits for tasks, and yields each file with its results as soon as all of them are there."""
    waiting = {ref: shard for shard, refs in tasks.items() for ref in refs}
    results: dict[_Shard, list[Any]] = {shard: [] for shard in tasks}
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=_PERIOD)
            for ref in ready:
                shard = waiting.pop(ref)
                results[shard].append(_result(ref))
                told(shard)
                if len(results[shard]) == len(tasks[shard]):
                    yield shard, results[shard]
    finally:
        for ref in waiting:
            ray.cancel(ref)


def _result(ref: ray.ObjectRef) -> Any:
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        # What the task raised, as it would have been raised here.
        raise error.cause from None


def _cast_part(temporary: str, task: tuple) -> None:
    _native.cast_part(temporary, task)


def _part_is_there(output: str, task: tuple) -> bool:
    return _native.part_is_there(output, task)
