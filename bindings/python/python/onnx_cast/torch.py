"""The casts in `torch.compile`: import this module, and a compiled function may call `onnx_cast.cast`, `cast_like`,
`bit_cast`, `quantize_linear` and `dequantize_linear`, without a break in its graph.

>>> import torch, onnx_cast.torch  # doctest: +SKIP
>>> torch.compile(lambda x: onnx_cast.cast(x + 1, "bfloat16"), fullgraph=True)(torch.ones(2))  # doctest: +SKIP
tensor([2., 2.], dtype=torch.bfloat16)

The functions here are the same ones, for tensors, by torch's own operators (`torch.ops.onnx_cast`).
"""

from __future__ import annotations

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("onnx_cast.torch needs torch: pip install torch", name=error.name) from error

if not hasattr(torch.compiler, "substitute_in_graph"):
    raise ImportError(f"onnx_cast.torch needs torch 2.6 or newer, and this is {torch.__version__}")

import onnx_cast
from onnx_cast import _torch_operators
from onnx_cast._torch_operators import bit_cast, cast, cast_like, dequantize_linear, quantize_linear

__all__ = ["bit_cast", "cast", "cast_like", "dequantize_linear", "quantize_linear"]

for _constant in _torch_operators.CONSTANT:
    torch.compiler.assume_constant_result(_constant)

for _name in __all__:
    _function = getattr(_torch_operators, _name)
    torch.compiler.substitute_in_graph(getattr(onnx_cast, _name), skip_signature_check=True)(_function)
