"""Operators by their attributes: made once for each combination."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple, TypeVar

from onnx_cast import _native, _targets


_Function = TypeVar("_Function", bound=Callable[..., Any])

_opaque: list[CodeType] = []


def opaque(function: _Function) -> _Function:
    """Marks a function that works on elements, which torch's compiler must not read: where it meets a cast that it does
    not know, it would go on with the code of this package, with arrays that it takes for tensors of its own."""
    _opaque.append(function.__code__)
    return function


opaque(_targets.target)


def hide() -> None:
    """Tells torch of the functions that are marked, once it is there. A code is known by what it is, without a list of
    modules, since the list would load the compiler."""
    compiler = getattr(sys.modules.get("torch"), "_C", None)
    frames = getattr(getattr(compiler, "_dynamo", None), "eval_frame", None)
    if hasattr(frames, "set_code_exec_strategy"):  # which older ones lack
        skip = frames._FrameAction.SKIP  # the function, and all that it calls
        while _opaque:
            frames.set_code_exec_strategy(_opaque.pop(), frames._FrameExecStrategy(skip, skip))


class Asked(NamedTuple):
    """The arguments of an operator, to make it again elsewhere: in a graph of torch's."""

    name: str
    to: str
    opset: int | None
    saturate: bool | None
    round_mode: str | None


@opaque
def operator(
    name: str, to: Any, saturate: bool, round_mode: Any, opset: int | None, threads: int | None
) -> _native.Operator:
    """The operator with these attributes."""
    if saturate is True and opset is None and threads is None and isinstance(round_mode, str) and round_mode == "up":
        return _plain(name, to)
    attributes = _targets.attributes(saturate, round_mode, opset)
    return _made(name, to, *attributes.values(), _targets.thread_count(threads))


@functools.lru_cache(maxsize=1024, typed=True)
def _plain(name: str, to: Any) -> _native.Operator:
    """The operator with every attribute at its default: what small casts to a type of torch's look up."""
    return _made(name, to, None, None, None, None)


@functools.lru_cache(maxsize=1024, typed=True)
def _made(
    name: str, to: Any, opset: int | None, saturate: bool | None, round_mode: str | None, threads: int | None
) -> _native.Operator:
    hide()  # a compiled function's first cast comes here before it comes to a tensor
    number, text = _targets.target(to)
    # Texts are of a kind; for other targets the operator keeps what it was made of.
    asked = Asked(name, _targets.ROWS[number]["name"], opset, saturate, round_mode) if text is None else text
    return _native.Operator(name, number, saturate, round_mode, opset, threads, asked)
