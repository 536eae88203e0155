"""The casts in `torch.compile`: import this module, and a compiled function may call `onnx_cast.cast`, `cast_like`,
`bit_cast`, `quantize_linear` and `dequantize_linear`, without a break in its graph.

>>> import torch, onnx_cast.torch  # doctest: +SKIP
>>> torch.compile(lambda x: onnx_cast.cast(x + 1, "bfloat16"), fullgraph=True)(torch.ones(2))  # doctest: +SKIP
tensor([2., 2.], dtype=torch.bfloat16)

The functions here are those of the package. The compiler sees them as operators of torch (`torch.ops.onnx_cast`).
"""

from __future__ import annotations

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("onnx_cast.torch needs torch: pip install torch", name=error.name) from error

if not hasattr(torch.compiler, "substitute_in_graph"):
    raise ImportError(f"onnx_cast.torch needs torch 2.6 or newer, and this is {torch.__version__}")

from onnx_cast import _torch_operators, bit_cast, cast, cast_like, dequantize_linear, quantize_linear

__all__ = ["bit_cast", "cast", "cast_like", "dequantize_linear", "quantize_linear"]


def __dir__() -> list[str]:
    return sorted(__all__)


for _constant in _torch_operators.CONSTANT:
    torch.compiler.assume_constant_result(_constant)

for _function in (bit_cast, cast, cast_like, dequantize_linear, quantize_linear):
    _traced = getattr(_torch_operators, _function.__name__)
    torch.compiler.substitute_in_graph(_function, skip_signature_check=True)(_traced)
