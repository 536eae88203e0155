"""Checkpoints cast, dequantized, quantized and transcoded by a Ray cluster (``pip install onnx-cast[ray]``), whose
machines share the folders.

Tasks write each file under a temporary name, in any order, and again if a worker died: a task always writes the same
bytes to the same place. Then the file is renamed, and the index comes last. For a cast, a task is part of a file; for a
quantized checkpoint, in which a weight is several tensors, a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any

from onnx_cast import _native, _quantized, _targets, files
from onnx_cast.types import Activations, Layout, RoundMode, ScaleRule, To

try:
    import ray
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("onnx_cast.ray needs Ray: pip install onnx-cast[ray]", name=error.name) from error

__all__ = [
    "SLICE_BYTES",
    "cast_checkpoint",
    "dequantize_checkpoint",
    "quantize_checkpoint",
    "transcode_checkpoint",
]


def __dir__() -> list[str]:
    return sorted(__all__)


#: Bytes of the input that a task casts, where it is not said.
SLICE_BYTES = 1 << 28

#: Seconds between looks at what is done.
_PERIOD = 0.5


def cast_checkpoint(
    src: files.Path,
    dst: files.Path,
    to: To | None = None,
    rules: Mapping[str, To | None] | None = None,
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    min_elements: int | None = None,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    resume: bool = False,
    force: bool = False,
    copy_others: bool = True,
    shard_size: str | int | None = None,
    slice_bytes: int = SLICE_BYTES,
    num_cpus: int = 1,
    max_retries: int = 3,
    progress: Callable[[int, int], object] | None = None,
) -> list[files.TensorCast]:
    """Casts a ``.safetensors`` checkpoint (an index, a folder or a file) as :func:`onnx_cast.cast_file` does, to the same
    bytes, on the Ray cluster that this process is connected to, or else on this machine.

    A file is a task, or several of about ``slice_bytes`` of the input. Every machine must see ``src`` and ``dst`` under
    these paths. A task whose worker dies is done again, ``max_retries`` times. ``force`` replaces ``dst``, and
    ``resume`` continues it: files that already have the same content stay, and other content is an error. ``shard_size``
    divides the output into files of at most that size. An exception from ``progress`` ends the work; incomplete files
    do not appear.

    ``num_cpus`` is the number of processors for a task.
    """
    if slice_bytes < 1 or num_cpus < 1:
        raise ValueError(f"slice_bytes is {slice_bytes} and num_cpus {num_cpus} (want 1 or more)")
    options: _native.Options = {
        **files.names(include, exclude, None),
        **_targets.attributes(saturate, round_mode, opset),
        **files.selection(to, rules, None, min_elements),
    }
    src, dst = os.path.abspath(os.fsdecode(src)), os.path.abspath(os.fsdecode(dst))
    shards = []
    written: _native.Options = {"copy_others": copy_others, "force": force, "resume": resume, "shard_size": shard_size}
    job = ("cast", src, dst, {**options, **written}, num_cpus)
    for number, (input, output, rows) in enumerate(_native.plan_files(job)):
        shard = _Shard(output, rows, _digest(src, options))
        parts = max(1, -(-shard.bytes // slice_bytes))
        # A file of a cast needs no other one, unless tensors move to other files.
        alone = ("cast", input, output, {**options, "force": force, "resume": resume}, num_cpus)
        file, task = (0, alone) if shard_size is None else (number, job)
        shard.tasks = [(file, index, parts, task) for index in range(parts)]
        shards.append(shard)

    def lay_out(shard: _Shard) -> None:
        file, _, _, task = shard.tasks[0]
        _native.lay_out(shard.temporary, file, task)

    _write(shards, num_cpus, max_retries, lay_out, resume, progress)
    _native.write_side_files(job)
    return [row for shard in shards for row in shard.rows]


def dequantize_checkpoint(
    src: files.Path,
    dst: files.Path,
    to: To | None = None,
    rules: Mapping[str, To | None] | None = None,
    *,
    layout: Layout | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    min_elements: int | None = None,
    allow_nan: bool = False,
    resume: bool = False,
    force: bool = False,
    copy_others: bool = True,
    shard_size: str | int | None = None,
    num_cpus: int = 1,
    max_retries: int = 3,
    progress: Callable[[int, int], object] | None = None,
) -> list[files.TensorCast]:
    """Reads the quantized weights of a ``.safetensors`` checkpoint back as plain ones, as
    :func:`onnx_cast.dequantize_file` does, to the same bytes, on the Ray cluster that this process is connected to, or
    else on this machine.

    A file is a task, with ``num_cpus`` threads. This process checks all names, types, shapes and scales before the
    first task; each task opens the headers of all files, because scales may be in another one. Other parameters are as
    in :func:`cast_checkpoint`.
    """
    options = _quantized.dequantizing(to, layout, include, exclude, rules, min_elements, allow_nan)
    return _file_by_file("dequantize", src, dst, options, resume, force, copy_others, shard_size, num_cpus, max_retries, progress)


def quantize_checkpoint(
    src: files.Path,
    dst: files.Path,
    to: To | None = None,
    rules: Mapping[str, To | None] | None = None,
    *,
    layout: Layout | None = None,
    activations: Activations | None = None,
    scale_rule: ScaleRule | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    min_elements: int | None = None,
    resume: bool = False,
    force: bool = False,
    copy_others: bool = True,
    shard_size: str | int | None = None,
    num_cpus: int = 1,
    max_retries: int = 3,
    progress: Callable[[int, int], object] | None = None,
) -> list[files.TensorCast]:
    """Quantizes the weights of a ``.safetensors`` checkpoint as :func:`onnx_cast.quantize_file` does, to the same bytes,
    on the Ray cluster that this process is connected to, or else on this machine.

    A file is a task, with ``num_cpus`` threads. Formats that need a tensor's greatest magnitude first (NVFP4, a scale
    for the tensor) are measured by the task itself, with the tensors of other files that share the scale. Other
    parameters are as in :func:`cast_checkpoint`.
    """
    options = _quantized.quantizing(to, layout, activations, scale_rule, include, exclude, rules, min_elements)
    return _file_by_file("quantize", src, dst, options, resume, force, copy_others, shard_size, num_cpus, max_retries, progress)


def transcode_checkpoint(
    src: files.Path,
    dst: files.Path,
    layout: Layout,
    *,
    to: To | None = None,
    activations: Activations | None = None,
    from_layout: Layout | None = None,
    resume: bool = False,
    force: bool = False,
    copy_others: bool = True,
    shard_size: str | int | None = None,
    num_cpus: int = 1,
    max_retries: int = 3,
    progress: Callable[[int, int], object] | None = None,
) -> list[files.TensorCast]:
    """Writes a quantized ``.safetensors`` checkpoint in another layout, as :func:`onnx_cast.transcode_file` does, to
    the same bytes, on the Ray cluster that this process is connected to, or else on this machine.

    A file is a task, with ``num_cpus`` threads. The task that writes a file compares its weights first, and no file
    gets its name before all are written: if a weight would change, the task's error ends the work and nothing is left.
    Other parameters are as in :func:`cast_checkpoint`.
    """
    options = _quantized.transcoding(layout, to, activations, from_layout, None)
    return _file_by_file("transcode", src, dst, options, resume, force, copy_others, shard_size, num_cpus, max_retries, progress)


def _file_by_file(
    name: str,
    src: files.Path,
    dst: files.Path,
    options: _native.Options,
    resume: bool,
    force: bool,
    copy_others: bool,
    shard_size: str | int | None,
    num_cpus: int,
    max_retries: int,
    progress: Callable[[int, int], object] | None,
) -> list[files.TensorCast]:
    """Does a job whose tasks are files."""
    if num_cpus < 1:
        raise ValueError(f"num_cpus is {num_cpus} (want 1 or more)")
    src, dst = os.path.abspath(os.fsdecode(src)), os.path.abspath(os.fsdecode(dst))
    written: _native.Options = {"copy_others": copy_others, "force": force, "resume": resume, "shard_size": shard_size}
    job = (name, src, dst, {**options, **written}, num_cpus)
    digest = _digest(name, src, dst, options, copy_others, shard_size)
    shards = [_Shard(output, rows, digest) for _, output, rows in _native.plan_files(job)]
    for index, shard in enumerate(shards):
        shard.tasks = [(index, 0, 1, job)]

    made: list[str] = []

    def lay_out(shard: _Shard) -> None:
        folder = os.path.dirname(shard.output)
        while not os.path.isdir(folder):
            made.append(folder)
            folder = os.path.dirname(folder)
        os.makedirs(os.path.dirname(shard.output), exist_ok=True)
        open(shard.temporary, "ab").close()

    try:
        # Only a task finds out whether transcoded weights keep their values.
        _write(shards, num_cpus, max_retries, lay_out, resume, progress, name == "transcode")
    except BaseException:
        for folder in made:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        raise
    _native.write_side_files(job)
    return [row for shard in shards for row in shard.rows]


def _digest(*job: Any) -> str:
    """A name for a job, so that what is left of one that was killed is replaced by that same one alone."""
    return hashlib.sha256(repr(job).encode()).hexdigest()[:12]


def _write(
    shards: list[_Shard],
    num_cpus: int,
    max_retries: int,
    lay_out: Callable[[_Shard], None],
    resume: bool,
    progress: Callable[[int, int], object] | None,
    names_last: bool = False,
) -> None:
    """Writes files by tasks, but for those that are there already. A file gets its name when it is written, or when all
    are."""
    remote = ray.remote(num_cpus=num_cpus, max_retries=max_retries)
    write, compare = remote(_write_part), remote(_part_is_there)
    told = _Told(shards, progress)
    rest = shards
    if resume:
        there = [shard for shard in shards if os.path.exists(shard.output)]
        tasks = {shard: [compare.remote(task) for task in shard.tasks] for shard in there}
        same = {shard for shard, results in _each(tasks, lambda _: None) if all(results)}
        told.begin(same)
        rest = [shard for shard in shards if shard not in same]
    try:
        for shard in rest:
            lay_out(shard)
        tasks = {shard: [write.remote(shard.temporary, task) for task in shard.tasks] for shard in rest}
        written = (shard for shard, _ in _each(tasks, told.add))
        for shard in list(written) if names_last else written:
            _native.name_whole(shard.temporary, shard.output)
    finally:
        for shard in rest:
            if os.path.exists(shard.temporary):
                os.unlink(shard.temporary)


class _Shard:
    """A file of the output."""

    def __init__(self, output: str, rows: list[_native.TensorRow], job: str) -> None:
        self.output, self.rows = output, files.rows(rows)
        self.bytes = sum(row.bytes_before for row in self.rows)
        path = PurePath(output)
        self.temporary = str(path.with_name(f".{path.name}.onnx-cast-{job}.part"))
        #: The tasks that write it, as the native module takes them.
        self.tasks: list[tuple] = []


class _Told:
    """Tells how far the work is, in bytes of the input."""

    def __init__(self, shards: list[_Shard], progress: Callable[[int, int], object] | None) -> None:
        self.progress, self.total, self.done = progress, sum(shard.bytes for shard in shards), 0.0

    def begin(self, done: Iterable[_Shard]) -> None:
        self.done = float(sum(shard.bytes for shard in done))

    def add(self, shard: _Shard) -> None:
        self.done += shard.bytes / len(shard.tasks)
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


def _write_part(temporary: str, task: tuple) -> None:
    _native.write_part(temporary, task)


def _part_is_there(task: tuple) -> bool:
    return _native.part_is_there(task)
