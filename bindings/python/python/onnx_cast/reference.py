"""Exact and fast casts and scaled casts for ``onnx.reference.ReferenceEvaluator``:
``ReferenceEvaluator(model, new_ops=onnx_cast.reference.ops)``.
"""

from __future__ import annotations

from typing import Any

from onnx.reference.op_run import OpRun

from onnx_cast.backend import run_cast

__all__ = ["BitCast", "Cast", "CastLike", "DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear", "ops"]


def __dir__() -> list[str]:
    return sorted(__all__)


class _CastRun(OpRun):
    """Runs the node as it stands: its attributes are checked against its version by the library."""

    op_domain = ""

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
        opsets = self.run_params["opsets"]
        return tuple(run_cast(self.onnx_node, opsets.get("", opsets.get("ai.onnx")), inputs, attributes))


class Cast(_CastRun):
    """ONNX's Cast."""


class CastLike(_CastRun):
    """ONNX's CastLike."""


class BitCast(_CastRun):
    """ONNX's BitCast."""


class QuantizeLinear(_CastRun):
    """ONNX's QuantizeLinear."""


class DequantizeLinear(_CastRun):
    """ONNX's DequantizeLinear."""


class DynamicQuantizeLinear(_CastRun):
    """ONNX's DynamicQuantizeLinear."""


#: What ``new_ops`` takes. The evaluator adds classes of its own to a list that it is given.
ops = [Cast, CastLike, BitCast, QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear]
