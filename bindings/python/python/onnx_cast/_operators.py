"""Operators by their attributes: made once for each combination."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from onnx_cast import _native, _targets


class Asked(NamedTuple):
    """What an operator was made of, for those who make it again elsewhere: in a graph of torch's."""

    name: str
    to: str
    opset: int | None
    saturate: bool | None
    round_mode: str | None


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
    number, text = _targets.target(to)
    # Texts are of a kind; for other targets the operator keeps what it was made of.
    asked = Asked(name, _targets.ROWS[number]["name"], opset, saturate, round_mode) if text is None else text
    return _native.Operator(name, number, saturate, round_mode, opset, threads, asked)
