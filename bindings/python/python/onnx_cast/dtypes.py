"""The element types of ONNX, as objects: the library's own table.

>>> from onnx_cast import dtypes
>>> dtypes.float8e4m3fn.max
448.0
>>> dtypes.of("bf16").numpy
dtype(bfloat16)
>>> [t.name for t in dtypes.ALL if t.bits == 4]
['uint4', 'int4', 'float4e2m1']
"""

from __future__ import annotations

import builtins
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from onnx_cast import _targets


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class DataType:
    """An element type. What its kind does not have is ``None``."""

    #: ONNX's name: ``"float8e4m3fn"``.
    name: str
    #: The number of ``onnx.TensorProto.DataType``.
    number: int
    #: Other names that are understood, in any case, with or without ``_`` and ``-``.
    aliases: tuple[str, ...]
    #: ``"float"``, ``"int"``, ``"uint"``, ``"bool"``, ``"string"`` or ``"complex"``.
    kind: str
    #: Width in bits, packed; ``None`` for strings.
    bits: int | None
    #: The first versions of Cast, CastLike and BitCast that take it, by the operator's name.
    since: Mapping[str, int | None]
    #: The largest finite value.
    max: float | int | None = None
    #: The least finite value.
    min: float | int | None = None
    #: The smallest positive normal number of a float type.
    smallest_normal: float | None = None
    #: The smallest positive number below that.
    smallest_subnormal: float | None = None
    #: Widths of the fields of a float type.
    exponent_bits: int | None = None
    significand_bits: int | None = None
    #: A code with the exponent field ``e > 0`` has the exponent ``e - bias``.
    bias: int | None = None
    #: Whether a float type has a sign, infinities, a negative zero, and NaN.
    signed: bool | None = None
    infinity: bool | None = None
    negative_zero: bool | None = None
    nan: bool | None = None

    def __repr__(self) -> str:
        return f"onnx_cast.dtypes.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __index__(self) -> int:
        return self.number

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        # A type is one object: a copy, and what is read from a pickle, is the same one.
        return of, (self.number,)

    @property
    def smallest(self) -> float | None:
        """The smallest positive number of a float type."""
        return self.smallest_normal if self.smallest_subnormal is None else self.smallest_subnormal

    @property
    def numpy(self) -> np.dtype | None:
        """The type of numpy arrays, which hold types narrower than a byte one element in a byte; ``None`` where neither
        numpy nor ml_dtypes has one."""
        return _targets.DTYPES.get(self.number)

    @property
    def torch(self) -> Any:
        """The type of torch tensors, or ``None`` where torch has none whose elements take whole bytes."""
        from onnx_cast import _torch

        return _torch.type_of(self.number)

    @property
    def onnx(self) -> int:
        """The number of ``onnx.TensorProto.DataType``."""
        return self.number


def _of_row(row: dict[str, Any]) -> DataType:
    fields = {field.name: row[field.name] for field in dataclasses.fields(DataType) if field.name in row}
    return DataType(**{**fields, "aliases": tuple(row["aliases"])})


#: Every type, in the order of ONNX's numbers.
ALL: tuple[DataType, ...] = tuple(_of_row(row) for row in _targets.ROWS.values())


def of(to: Any) -> DataType:
    """The type with a name or a number, or of a dtype of numpy, ml_dtypes or torch."""
    return ALL[_targets.target(to)[0] - 1]


globals().update({data_type.name: data_type for data_type in ALL})
#: ``from onnx_cast.dtypes import *`` leaves out ``bool`` and ``float``, which are Python's.
__all__ = ["ALL", "DataType", "of", *(data_type.name for data_type in ALL if not hasattr(builtins, data_type.name))]


def __dir__() -> list[str]:
    return sorted({*__all__, *(data_type.name for data_type in ALL)})
