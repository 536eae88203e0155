"""``onnx.backend.base.Backend``: models of casts and scaled casts, with Constant and Identity.

>>> from onnx import TensorProto, helper
>>> from onnx_cast import backend
>>> node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)
>>> backend.run_node(node, [np.array([1.0, 3.14159], np.float32)]).y
array([1, 3.14062], dtype=bfloat16)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto
from onnx.backend.base import Backend as _Base
from onnx.backend.base import BackendRep as _BaseRep
from onnx.backend.base import namedtupledict

from onnx_cast import _kinds, _native, _scaled, _targets
from onnx_cast._native import CastError

__all__ = [
    "Backend",
    "BackendRep",
    "is_compatible",
    "prepare",
    "run_cast",
    "run_model",
    "run_node",
    "supports_device",
]


def __dir__() -> list[str]:
    return sorted(__all__)


_SCALED = ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
_CASTS = ("Cast", "CastLike", "BitCast", *_SCALED)
_OPERATORS = (*_CASTS, "Constant", "Identity")
_DOMAINS = ("", "ai.onnx")


def _attributes(node: NodeProto, linked: Mapping[str, Any]) -> list[tuple[str, int | bytes | None]]:
    def value(one: AttributeProto) -> int | bytes | None:
        if one.ref_attr_name:
            given = linked.get(one.name)
            return given.encode() if isinstance(given, str) else given
        return {AttributeProto.INT: one.i, AttributeProto.STRING: one.s}.get(one.type)

    # A link to what the function's caller does not give stands for the attribute's default.
    links = [one.name for one in node.attribute if one.ref_attr_name and linked.get(one.name) is None]
    return [(one.name, value(one)) for one in node.attribute if one.name not in links]


def run_cast(
    node: NodeProto, opset: int, inputs: Sequence[Any], linked: Mapping[str, Any] | None = None
) -> list[Any]:
    """The outputs of a cast or a scaled cast, whose texts are arrays of objects, as onnx has them.

    In the body of a function attributes may be links to the function's own; ``linked`` has their values.
    """
    if node.op_type in _SCALED:
        return _scaled.run_node(node.op_type, opset, _attributes(node, linked or {}), list(inputs))
    want = 2 if node.op_type == "CastLike" else 1
    if len(inputs) != want:
        raise CastError(f"node `{node.name}`: {len(inputs)} inputs for {node.op_type} (want {want})")
    like = _targets.target(_targets.type_of(inputs[1]))[0] if want == 2 else None
    operator = _native.Operator.of_node(node.op_type, opset, _attributes(node, linked or {}), like, np.dtype(object))
    return [operator.run(inputs[0], None, False)]


def _constant(node: NodeProto) -> np.ndarray:
    """The value of a Constant."""
    if len(node.attribute) == 1:
        match node.attribute[0]:
            case AttributeProto(name="value", t=tensor):
                return _kinds.proto_array(tensor)
            case AttributeProto(name="value_float", f=value):
                return _native.cast(np.array(value, np.float64), "float")
            case AttributeProto(name="value_floats", floats=values):
                return _native.cast(np.array(values, np.float64), "float")
            case AttributeProto(name="value_int", i=value):
                return np.array(value, np.int64)
            case AttributeProto(name="value_ints", ints=values):
                return np.array(values, np.int64)
            case AttributeProto(name="value_string", s=value):
                return np.array(value, object)
            case AttributeProto(name="value_strings", strings=values):
                return np.array(list(values), object)
    raise CastError(f"node `{node.name}`: a Constant without a supported value")


def _opset(model: ModelProto) -> int:
    opsets = [one.version for one in model.opset_import if one.domain in _DOMAINS]
    if len(opsets) != 1:
        raise CastError(f"the model imports {len(opsets)} opsets of ONNX's own domain (want 1)")
    return opsets[0]


def _refusal(graph: GraphProto) -> str | None:
    """Why a graph is not run here."""
    for node in graph.node:
        if node.op_type not in _OPERATORS or node.domain not in _DOMAINS:
            return f"node `{node.name}`: operator {node.op_type} is unsupported (want one of {', '.join(_OPERATORS)})"
    return "sparse initializers are unsupported" if graph.sparse_initializer else None


class BackendRep(_BaseRep):
    """A model, ready to run."""

    def __init__(self, model: ModelProto) -> None:
        self._graph, self._opset = model.graph, _opset(model)
        refusal = _refusal(model.graph)
        if refusal is not None:
            raise CastError(refusal)
        self._constants = {one.name: _kinds.proto_array(one) for one in model.graph.initializer}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs for inputs in the order of the graph's, or by their names."""
        names = [one.name for one in self._graph.input if one.name not in self._constants]
        if not isinstance(inputs, dict):
            inputs = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
            if len(inputs) != len(names):
                raise CastError(f"{len(inputs)} inputs for a model of {len(names)} ({', '.join(names)})")
            inputs = dict(zip(names, inputs))
        values = {**self._constants, **inputs}
        for node in self._graph.node:
            missing = [name for name in node.input if name and name not in values]
            if missing:
                raise CastError(f"node `{node.name}`: no value for its input `{missing[0]}`")
            # An input that is left out has no name.
            given = [values[name] if name else None for name in node.input]
            match node.op_type:
                case "Constant":
                    results = [_constant(node)]
                case "Identity":
                    results = given
                case _:
                    results = run_cast(node, self._opset, given)
            values.update(zip(node.output, results))
        return tuple(values[one.name] for one in self._graph.output)


class Backend(_Base):
    """Runs models of casts, on the CPU."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every node of the model is one of those that run here."""
        return cls.supports_device(device) and _refusal(model.graph) is None

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """A model, checked and ready to run."""
        cls._check_device(device)
        super().prepare(model, device, **kwargs)
        return BackendRep(model)

    @classmethod
    def run_node(
        cls, node: NodeProto, inputs: Any, device: str = "CPU", outputs_info: Any = None, **kwargs: Any
    ) -> tuple[Any, ...]:
        """The output of one node, at the opset ``opset_version`` or the newest that onnx has."""
        cls._check_device(device)
        opset = kwargs.get("opset_version", min(onnx.defs.onnx_opset_version(), 28))
        if node.op_type not in _CASTS:
            raise CastError(f"operator {node.op_type} is unsupported (want one of {', '.join(_CASTS)})")
        inputs = [inputs] if isinstance(inputs, np.ndarray) else list(inputs)
        return namedtupledict("Outputs", list(node.output))(*run_cast(node, opset, inputs))

    @classmethod
    def _check_device(cls, device: str) -> None:
        if not cls.supports_device(device):
            raise CastError(f"device is {device!r} (want 'CPU': nothing else is supported)")

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU."""
        return device.partition(":")[0] == "CPU"


is_compatible = Backend.is_compatible
prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
