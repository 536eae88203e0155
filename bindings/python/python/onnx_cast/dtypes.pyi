import builtins
from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = [
    "ALL", "DataType", "of", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "float16",
    "double", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz",
    "float8e5m2", "float8e5m2fnuz", "uint4", "int4", "float4e2m1", "float8e8m0", "uint2", "int2",
    "float6e2m3", "float6e3m2",
]  # fmt: skip

class DataType:
    name: str
    number: builtins.int
    aliases: tuple[str, ...]
    kind: str
    bits: builtins.int | None
    since: Mapping[str, builtins.int | None]
    max: builtins.float | builtins.int | None
    min: builtins.float | builtins.int | None
    smallest_normal: builtins.float | None
    smallest_subnormal: builtins.float | None
    exponent_bits: builtins.int | None
    significand_bits: builtins.int | None
    bias: builtins.int | None
    signed: builtins.bool | None
    infinity: builtins.bool | None
    negative_zero: builtins.bool | None
    nan: builtins.bool | None
    def __index__(self) -> builtins.int: ...
    @property
    def smallest(self) -> builtins.float | None: ...
    @property
    def numpy(self) -> np.dtype | None: ...
    @property
    def torch(self) -> Any: ...
    @property
    def onnx(self) -> builtins.int: ...

def of(to: Any) -> DataType: ...

ALL: tuple[DataType, ...]
float: DataType
uint8: DataType
int8: DataType
uint16: DataType
int16: DataType
int32: DataType
int64: DataType
string: DataType
bool: DataType
float16: DataType
double: DataType
uint32: DataType
uint64: DataType
complex64: DataType
complex128: DataType
bfloat16: DataType
float8e4m3fn: DataType
float8e4m3fnuz: DataType
float8e5m2: DataType
float8e5m2fnuz: DataType
uint4: DataType
int4: DataType
float4e2m1: DataType
float8e8m0: DataType
uint2: DataType
int2: DataType
float6e2m3: DataType
float6e3m2: DataType
