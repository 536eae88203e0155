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
    try:  # private names, of which older ones lack some
        skip = frames._FrameAction.SKIP  # the function, and all that it calls
        strategy = frames._FrameExecStrategy(skip, skip)
        mark = frames.set_code_exec_strategy
    except AttributeError:
        return
    while _opaque:
        mark(_opaque.pop(), strategy)


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
    # Of other types, values that differ may be equal: 1, 1.0 and True are.
    if type(saturate) is not bool:
        saturate = _targets.flag("saturate", saturate)
    if type(round_mode) is not str and not isinstance(round_mode, str):
        raise TypeError(f"round_mode is {round_mode!r} (want up, down or nearest)")
    if opset is not None and type(opset) is not int:
        opset = _targets.whole("opset", opset)
    if threads is not None and type(threads) is not int:
        threads = _targets.thread_count(threads)
    return _made(name, to, saturate, round_mode, opset, threads)


@functools.lru_cache(maxsize=1024, typed=True)
def _made(
    name: str, to: Any, saturate: bool, round_mode: str, opset: int | None, threads: int | None
) -> _native.Operator:
    hide()  # a compiled function's first cast comes here before it comes to a tensor
    number, text = _targets.target(to)
    opset = _targets.opset_of(opset)
    # A version without the attribute takes the default, and refuses all else.
    given = (None if saturate else False, None if round_mode == "up" else round_mode)
    # Texts are of a kind; for other targets the operator keeps what it was made of.
    asked = Asked(name, _targets.ROWS[number]["name"], opset, *given) if text is None else text
    return _native.Operator(name, number, *given, opset, threads, asked)
