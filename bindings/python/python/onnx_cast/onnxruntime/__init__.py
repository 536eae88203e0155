"""The library's casts in sessions of onnxruntime.

``session_options()`` gives a session the execution provider, which runs the Cast, CastLike, BitCast, QuantizeLinear,
DequantizeLinear and DynamicQuantizeLinear nodes of an unchanged model. ``to_ortvalue`` and ``from_ortvalue`` carry
tensors
of types that numpy lacks. ``register_custom_ops(options)`` and ``use_in(model)`` are for onnxruntime before 1.23, which
has no plugins: they change the model to use custom operators.
"""

from onnx_cast.onnxruntime._custom_ops import DOMAIN, OPERATORS, VERSION, register_custom_ops, use_in
from onnx_cast.onnxruntime._provider import ep_name, library_path, register, session_options
from onnx_cast.onnxruntime._values import from_ortvalue, to_ortvalue

__all__ = [
    "DOMAIN",
    "OPERATORS",
    "VERSION",
    "ep_name",
    "from_ortvalue",
    "library_path",
    "register",
    "register_custom_ops",
    "session_options",
    "to_ortvalue",
    "use_in",
]


def __dir__() -> list[str]:
    return sorted(__all__)
