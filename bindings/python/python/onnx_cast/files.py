"""Files of tensors and models: ``.safetensors``, ``.npy``, ``.pb`` and ``.onnx``, in constant memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from onnx_cast import _native, _targets
from onnx_cast.dtypes import ALL, DataType

Path = str | os.PathLike[str]


class TensorInfo(NamedTuple):
    """A tensor of a file."""

    #: Its name; empty where the format has none.
    name: str
    shape: tuple[int, ...]
    dtype: DataType
    #: Bytes of its elements, packed; of strings, of their text.
    bytes: int


class TensorCast(NamedTuple):
    """What became of a tensor."""

    name: str
    shape: tuple[int, ...]
    before: DataType
    after: DataType
    bytes_before: int
    bytes_after: int
    #: Whether it was cast, or only kept.
    cast: bool


class Folded(NamedTuple):
    """What a fold did with the Casts of a model."""

    computed: int
    removed: int
    joined: int


def number(to: Any) -> int | None:
    return None if to is None else _targets.target(to)[0]


def attributes(saturate: bool, round_mode: str, opset: int | None) -> tuple[int | None, bool | None, str | None]:
    """As the native module takes them: a version without the attribute takes the defaults, and refuses all else."""
    return opset, None if saturate is True else saturate, None if round_mode == "up" else round_mode


def patterns(include: Iterable[str], exclude: Iterable[str]) -> tuple[list[str], list[str]]:
    if isinstance(include, str) or isinstance(exclude, str):
        raise TypeError("include and exclude are lists of patterns, not one")
    return list(include), list(exclude)


def request(
    to: Any,
    saturate: bool,
    round_mode: str,
    opset: int | None,
    include: Iterable[str],
    exclude: Iterable[str],
    rules: Mapping[str, Any] | None,
    min_size: int | None,
) -> tuple:
    """What the native module takes: plain values, which other processes can be sent."""
    pairs = [(pattern, number(kind)) for pattern, kind in (rules or {}).items()]
    return number(to), attributes(saturate, round_mode, opset), *patterns(include, exclude), pairs, min_size


def row(name, shape, before, after, bytes_before, bytes_after, cast) -> TensorCast:
    return TensorCast(name, tuple(shape), ALL[before - 1], ALL[after - 1], bytes_before, bytes_after, cast)


def cast_file(
    src: Path,
    dst: Path,
    to: Any = None,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    rules: Mapping[str, Any] | None = None,
    min_size: int | None = None,
    dtype: Any = None,
    dry_run: bool = False,
    resume: bool = False,
    copy_others: bool = True,
    raise_opset: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> list[TensorCast]:
    """Casts the tensors of ``src`` to the file ``dst``, which appears whole or not at all, and may be ``src``.

    Of a ``.safetensors`` file, or of the index or folder of several, every tensor that is selected is cast: those of a
    float type where ``to`` is one, and all numbers where it is not. ``include`` and ``exclude`` are patterns of names
    (globs, or behind ``re:`` regular expressions), ``rules`` maps patterns to types, or to ``None`` to keep what they
    match: the last that matches decides. Tensors of fewer elements than ``min_size`` are kept.

    Of an ``.onnx`` file the constants of a float type are, those of 256 elements or more where ``min_size`` is not
    given: each is stored in its new type, and a Cast gives it back in its own. Constants of integers are cast where a
    rule names them. The opset is the model's, which ``raise_opset`` lets be raised where the type needs it.

    ``dtype`` is the type of a ``.npy`` file that does not tell it. ``dry_run`` only says what would be done, ``resume``
    leaves files alone that are there already with the same content. Where ``src`` is a folder, its other files (the
    configuration, the tokenizer) are copied unless ``copy_others`` is false: not other weights, and not hidden files.
    ``progress`` is called now and then with the bytes
    that are done and those that there are; what it raises, and Ctrl-C, ends the work and leaves ``dst`` as it was.
    """
    given = request(to, saturate, round_mode, opset, include, exclude, rules, min_size)
    modes = (dry_run, resume, copy_others, raise_opset)
    done = _native.cast_file(src, dst, given, number(dtype), modes, progress)
    return [row(*one) for one in done]


def info(path: Path, *, dtype: Any = None) -> list[TensorInfo]:
    """The tensors of a file, by its header alone. ``dtype`` is as in :func:`cast_file`."""
    rows = cast_file(path, path, dtype=dtype, dry_run=True)
    return [TensorInfo(one.name, one.shape, one.before, one.bytes_before) for one in rows]


def fold(src: Path, dst: Path, *, progress: Callable[[int, int], object] | None = None) -> Folded:
    """Computes the Casts of a model's constants, removes those that change nothing, and joins two in a row where no
    value can tell. Every output of the model keeps its bits. ``progress`` is as in :func:`cast_file`."""
    return Folded(*_native.fold(src, dst, progress))
