"""Calls with the types that the annotations give their results. `scripts/checks/typing_examples.py` has mypy and pyright
judge each, and `test_typing.py` runs each: what the one promises the other keeps."""

#: What the calls use.
SETUP = """
from array import array
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper

import onnx_cast
from onnx_cast import dtypes

vector: np.ndarray[tuple[int], np.dtype[np.float32]] = np.ones(4, np.float32)
matrix: np.ndarray[tuple[int, int], np.dtype[np.float32]] = np.ones((2, 2), np.float32)
out: np.ndarray[tuple[int], np.dtype[np.float64]] = np.empty(4)
codes: np.ndarray[tuple[int], np.dtype[np.uint8]] = np.empty(4, np.uint8)
scalar = np.float32(1.5)
proto: onnx.TensorProto = onnx.numpy_helper.from_array(matrix, "w")
flag: bool = bool(len(vector) > 3)
name: str = "bf16"
"""

VECTOR = "np.ndarray[tuple[int], np.dtype[Any]]"
MATRIX = "np.ndarray[tuple[int, int], np.dtype[Any]]"
ARRAY = "np.ndarray[Any, np.dtype[Any]]"
BYTES = "np.ndarray[tuple[int], np.dtype[np.uint8]]"
SCALAR = "np.generic | Any"

#: A call, and the type of its result.
TAKEN = {
    "onnx_cast.cast(vector, 'float16')": VECTOR,
    "onnx_cast.cast(matrix, np.float16)": MATRIX,
    "onnx_cast.cast(vector, name)": VECTOR,
    "onnx_cast.cast(vector, np.dtype(np.int8))": VECTOR,
    "onnx_cast.cast(vector, dtypes.int4)": VECTOR,
    "onnx_cast.cast(vector, onnx.TensorProto.FLOAT16)": VECTOR,
    "onnx_cast.cast(vector, float)": VECTOR,
    "onnx_cast.cast(vector, bool)": VECTOR,
    "onnx_cast.cast(vector, 'string')": VECTOR,
    "onnx_cast.cast(vector, str)": VECTOR,
    "onnx_cast.cast(matrix, 'int4', packed=False)": MATRIX,
    "onnx_cast.cast(matrix, 'int4', packed=True)": BYTES,
    "onnx_cast.cast(matrix, 'int4', packed=flag)": ARRAY,
    "onnx_cast.cast(vector, 'double', out=out)": "np.ndarray[tuple[int], np.dtype[np.float64]]",
    "onnx_cast.cast(array('f', [1.0]), 'bf16')": ARRAY,
    "onnx_cast.cast(b'abcd', 'int8')": ARRAY,
    "onnx_cast.cast(array('f', [1.0]), 'int4', packed=True)": BYTES,
    "onnx_cast.cast(array('f', [1.0]), 'int4', packed=flag)": ARRAY,
    "onnx_cast.cast(scalar, 'float16')": SCALAR,
    "onnx_cast.cast(scalar, dtypes.string)": SCALAR,
    "onnx_cast.cast(scalar, 'string')": "str",
    "onnx_cast.cast(scalar, str)": "str",
    "onnx_cast.cast(scalar, 'int4', packed=True)": BYTES,
    "onnx_cast.cast(proto, onnx.TensorProto.FLOAT16)": "onnx.TensorProto",
    "onnx_cast.cast(proto, 'string')": "onnx.TensorProto",
    "onnx_cast.cast_like(vector, np.empty(0, np.float16))": VECTOR,
    "onnx_cast.cast_like(vector, proto)": VECTOR,
    "onnx_cast.cast_like(matrix, scalar, packed=flag)": ARRAY,
    "onnx_cast.cast_like(proto, vector)": "onnx.TensorProto",
    "onnx_cast.bit_cast(vector, 'uint32')": VECTOR,
    "onnx_cast.bit_cast(scalar, 'uint32')": "np.generic",
    "onnx_cast.bit_cast(matrix, 'int32', packed=flag)": ARRAY,
    "onnx_cast.bit_cast(matrix, 'int32', threads=2)": MATRIX,
    "onnx_cast.unpack(b'\\x21', 'int4', 2)": ARRAY,
    "onnx_cast.unpack(b'\\x21', 'int4', [2])": ARRAY,
    "onnx_cast.unpack(b'\\x21', 'int4', (1, np.int64(2)))": ARRAY,
    "onnx_cast.quantize_blocks(vector, 'mxfp4').global_scale": "float | None",
    "onnx_cast.quantize_blocks(matrix, 'mxfp8').elements": ARRAY,
    "onnx_cast.quantize_blocks(proto, 'mxfp8', scale_rule='even').scales": "onnx.TensorProto",
    "onnx_cast.quantize_blocks(matrix, 'nvfp4', recipe='torchao').dequantize('bf16')": ARRAY,
    "onnx_cast.quantize_blocks(proto, 'nvfp4').dequantize()": "onnx.TensorProto",
    "onnx_cast.dynamic_quantize_linear(vector)": "tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], np.float32, np.uint8]",
    "onnx_cast.dynamic_quantize_linear(proto)[1]": "onnx.TensorProto",
    "onnx_cast.dynamic_quantize_linear(matrix, threads=1)[0]": "np.ndarray[tuple[int, int], np.dtype[np.uint8]]",
    "onnx_cast.dynamic_quantize_linear(vector, out=codes)[0]": "np.ndarray[tuple[int], np.dtype[np.uint8]]",
    "onnx_cast.stats(vector, 'float16').nan": "int",
}

#: Calls that neither the annotations nor the library take.
REFUSED = [
    "onnx_cast.cast([1.0], 'float16')",
    "onnx_cast.cast(1.0, 'float16')",
    "onnx_cast.cast('1', 'float16')",
    "onnx_cast.cast(vector, None)",
    "onnx_cast.cast(vector, 1.0)",
    "onnx_cast.cast(vector, [np.int8])",
    "onnx_cast.cast(vector, list)",
    "onnx_cast.cast(vector, 'double', out=[0.0])",
    "onnx_cast.cast(vector, 'double', packed='yes')",
    "onnx_cast.cast(vector, 'double', threads=1.5)",
    "onnx_cast.cast(vector, 'float8e8m0', round_mode='even')",
    "onnx_cast.cast(proto, 'int4', packed=True)",
    "onnx_cast.cast_like(vector, [1])",
    "onnx_cast.bit_cast([1], 'int8')",
    "onnx_cast.unpack(b'\\x21', 'int4', 0.9)",
    "onnx_cast.quantize_linear(vector, 0.1, axis=0.9)",
    "onnx_cast.dynamic_quantize_linear(vector, out=[0])",
    "onnx_cast.quantize_blocks(vector, 'mxfp5')",
]


def program() -> str:
    """Every call, as type checkers read them: one that they took in spite of its mark would be an error."""
    lines = ["from typing_extensions import assert_type", SETUP]
    lines += [f"assert_type({call}, {kind})" for call, kind in TAKEN.items()]
    lines += [f"{call}  # type: ignore # pyright: ignore" for call in REFUSED]
    return "\n".join(lines) + "\n"
