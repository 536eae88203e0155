"""Models in memory, instead of files."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from onnx_cast import _native
from onnx_cast._native import CastError

if TYPE_CHECKING:
    from onnx import ModelProto

Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]

#: What :func:`os.fsdecode` takes.
PATHS = (str, bytes, os.PathLike)

#: The path of a model or another file, or an ``onnx.ModelProto``.
Source: TypeAlias = "Path | ModelProto"

#: What the native module takes: a path, or a serialized model and the folder of its external data.
Given: TypeAlias = "str | tuple[bytes, str | None]"

#: Bytes that a protobuf message may hold.
_MAX_MESSAGE = (1 << 31) - 1

_BY_PATH = " (want the path of the model, and of the output, for models beyond 2 GB)"


def is_model(model: Any) -> bool:
    """Whether an object is an ``onnx.ModelProto``, without importing onnx."""
    kind = type(model)
    return kind.__name__ == "ModelProto" and hasattr(model, "SerializeToString")


def decoded(path: Path | None) -> str | None:
    """A path as the native module takes it."""
    return None if path is None else os.fsdecode(path)


def given(src: Any, base_dir: Path | None = None, name: str = "src") -> Given:
    """What is read, as the native module takes it."""
    if is_model(src):
        return serialized(src), decoded(base_dir)
    if not isinstance(src, PATHS):
        raise TypeError(f"{name} is of type {type(src).__name__} (want a path, or an onnx.ModelProto)")
    if base_dir is not None:
        raise TypeError("base_dir is for a ModelProto (the external data of a file is in its folder)")
    return os.fsdecode(src)


def ends(src: Any, dst: Any, base_dir: Path | None, options: _native.Options, name: str = "src") -> tuple[Given, str | None]:
    """What is read and where the result goes, as the native module takes them. Only a model in memory needs no path for
    the result. A dry run without one plans to replace the input."""
    read = given(src, base_dir, name)
    if dst is not None:
        return read, os.fsdecode(dst)
    if not isinstance(read, tuple):
        if not options["dry_run"]:
            raise TypeError(f"{_OUTPUT.get(name, 'dst')} is missing (want the path to write)")
        options["force"] = True
        return read, read
    for option in ("external_data", "external_threshold"):
        if options.get(option) is not None:
            raise TypeError(f"{option} is for the path of a model (without one, a ModelProto becomes another one)")
    return read, None


#: The parameter of the result, by that of what is read.
_OUTPUT = {"model": "output"}


def made(src: Any, result: bytes | None, summary: Any, notices: Iterable[str] = ()) -> Any:
    """A model that was made in memory, or the summary. What to know about a model is a warning, as its summary is not
    given back."""
    if result is None:
        return summary
    for notice in notices:
        warn(notice)
    return type(src).FromString(result)


def warn(text: str) -> None:
    """Issues a warning about the call that led from other code into this package."""
    frame, level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == "onnx_cast":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def ignored(options: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Options that had no effect, each with the reason. Warns of each in the command's words."""
    options = list(options)
    for option, why in options:
        warn(f"`{option}` has no effect: it {why}")
    return options


def ignored_of(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Those of a result of the native module."""
    return ignored((one["option"], one["why"]) for one in found.get("ignored", ()))


def serialized(model: ModelProto) -> bytes:
    try:
        data = model.SerializeToString()
    except Exception as error:  # protobuf's own errors differ from version to version
        raise CastError(f"the model cannot be serialized: {error}{_BY_PATH}") from error
    if len(data) > _MAX_MESSAGE:
        raise CastError(f"the model has {len(data)} bytes, more than a protobuf message may hold{_BY_PATH}")
    return data
