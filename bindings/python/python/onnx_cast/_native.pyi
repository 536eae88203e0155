import os
from collections.abc import Callable
from typing import Any

import numpy as np

class CastError(ValueError): ...

class Operator:
    def __init__(
        self,
        name: str,
        to: int,
        saturate: bool | None,
        round_mode: str | None,
        opset: int | None,
        threads: int | None,
        text: np.dtype | None,
    ) -> None: ...
    @staticmethod
    def of_node(
        name: str,
        opset: int,
        attributes: list[tuple[str, int | bytes | None]],
        like: int | None,
        text: np.dtype | None,
    ) -> Operator: ...
    @property
    def to(self) -> int: ...
    @property
    def text(self) -> np.dtype | None: ...
    def run(self, x: Any, out: Any, packed: bool) -> Any: ...
    def parse(self, texts: list[Any], shape: tuple[int, ...], out: Any, packed: bool) -> np.ndarray: ...
    def print(self, array: np.ndarray) -> list[str]: ...
    def texts(self, texts: list[Any]) -> list[str]: ...

def after_fork() -> None: ...
def cast(
    x: Any,
    to: Any,
    *,
    saturate: bool = True,
    round_mode: str = "up",
    opset: int | None = None,
    out: Any = None,
    threads: int | None = None,
    packed: bool = False,
) -> Any: ...
def cast_file(
    input: str | os.PathLike[str],
    output: str | os.PathLike[str],
    to: int | None,
    attributes: tuple[int | None, bool | None, str | None],
    include: list[str],
    exclude: list[str],
    rules: list[tuple[str, int | None]],
    min_size: int,
    dtype: int | None,
    modes: tuple[bool, bool],
    progress: Callable[[int, int], object] | None,
) -> list[tuple[str, list[int], int, int, int, int, bool]]: ...
def fold(input: str | os.PathLike[str], output: str | os.PathLike[str]) -> tuple[int, int, int]: ...
def count(
    operator: Operator, array: np.ndarray
) -> tuple[tuple[int, int, int, int, int, int, int], tuple[float, float, float, float]]: ...
def count_texts(
    operator: Operator, texts: list[Any]
) -> tuple[tuple[int, int, int, int, int, int, int], tuple[float, float, float, float]]: ...
def data_type(array: np.ndarray) -> int | None: ...
def number(name: str) -> int: ...
def pack(array: np.ndarray, number: int) -> np.ndarray: ...
def setup(
    dtypes: list[tuple[np.dtype, int]], others: Callable[..., Any], make: Callable[..., Operator]
) -> None: ...
def types() -> list[dict[str, Any]]: ...
def unpack(array: np.ndarray, number: int, shape: tuple[int, ...]) -> np.ndarray: ...
