"""Cast, CastLike, BitCast, QuantizeLinear and DequantizeLinear in sessions of onnxruntime, as custom operators in a
domain of their own: for all types of onnxruntime's tensors, each value rounded once.

``register_custom_ops(options)`` gives the operators to a session, ``use_in(model)`` replaces ONNX's own by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from onnx_cast import _native
from onnx_cast.onnxruntime._provider import library_path

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto
    from onnxruntime import SessionOptions

#: The domain of the operators, and its version.
DOMAIN = "onnx-cast"
VERSION = 1

#: ONNX's operators, each with the one that stands for it. onnxruntime takes away what it holds to be superfluous of nodes whose
#: name is Cast, in any domain, so that these have other names.
OPERATORS = {
    name: f"Exact{name}" for name in ("Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear")
}

# The numbers of the types that onnxruntime has tensors of.
_WITH_TENSORS = {row["number"] for row in _native.types() if row["onnxruntime"] is not None}


def register_custom_ops(options: SessionOptions) -> None:
    """Registers the operators for sessions with these options. Requires onnxruntime 1.17 or newer, and 1.31 for types
    of 4 and 2 bits and float8e8m0."""
    options.register_custom_ops_library(library_path())


def use_in(model: ModelProto, where: Callable[[NodeProto], bool] | None = None) -> ModelProto:
    """A copy of a model with the operators in place of ONNX's own, in subgraphs too, by the rules of the opset that the
    model imports. Functions of the model's are put where they are called.

    model
        A model, whose weights may be in other files.
    where
        Which nodes to replace; all by default. Nodes whose target onnxruntime has no tensors of stay as they are.
        onnxruntime joins its own QuantizeLinear and DequantizeLinear with the nodes between them, such
        as a Conv, and computes those in integers; it does not join ours.
    """
    from onnx import ModelProto, helper
    from onnx.inliner import inline_local_functions

    copy = ModelProto()
    # onnxruntime does not tell the types of custom operators within functions.
    copy.CopyFrom(inline_local_functions(model) if model.functions else model)
    replaced = _replace(_nodes_of(copy.graph), _opset(copy), where or (lambda node: True))
    if replaced and all(imported.domain != DOMAIN for imported in copy.opset_import):
        copy.opset_import.append(helper.make_opsetid(DOMAIN, VERSION))
    return copy


def _opset(model: ModelProto) -> int:
    """The opset of ONNX's own domain, or 0."""
    return next((imported.version for imported in model.opset_import if imported.domain in ("", "ai.onnx")), 0)


def _nodes_of(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes, and those of the graphs in their attributes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.HasField("g") else attribute.graphs
            for graph in graphs:
                yield from _nodes_of(graph)


def _replace(nodes: Iterator[NodeProto], opset: int, wanted: Callable[[NodeProto], bool]) -> bool:
    """Whether any was replaced."""
    from onnx import AttributeProto, TensorProto, helper

    replaced = False
    for node in nodes:
        if node.op_type in OPERATORS and node.domain in ("", "ai.onnx") and _has_tensors(node) and wanted(node):
            node.op_type, node.domain = OPERATORS[node.op_type], DOMAIN
            for attribute in node.attribute:
                # The first version names its target.
                if attribute.name == "to" and attribute.type == AttributeProto.STRING:
                    to = TensorProto.DataType.Value(attribute.s.decode())
                    attribute.CopyFrom(helper.make_attribute("to", to))
            node.attribute.append(helper.make_attribute("opset", opset))
            replaced = True
    return replaced


def _has_tensors(node: NodeProto) -> bool:
    """Whether onnxruntime has tensors of the node's target, as far as the node names one."""
    targets = [attribute.i for attribute in node.attribute if attribute.name in ("to", "output_dtype")]
    return all(target <= 0 or target in _WITH_TENSORS for target in targets)
