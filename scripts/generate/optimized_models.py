#!/usr/bin/env python3
"""Writes `crates/onnx-cast-model/tests/fixtures/optimized.txt`: models that onnxruntime's own optimizer wrote, which holds
operators of com.microsoft and, in ONNX's own domain, operators that ONNX does not have; and one with a sparse constant.
One model a line: its name, and its bytes in hexadecimal digits.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FILE = Path(__file__).resolve().parents[2] / "crates" / "onnx-cast-model" / "tests" / "fixtures" / "optimized.txt"
WIDTH = 16
RANDOM = np.random.default_rng(37)


def constant(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def weight(name, *shape):
    return constant(name, RANDOM.normal(0, 0.1, shape).astype(np.float32))


def norm(x, y, scale, prefix):
    """A root mean square normalization of plain operators, as exporters of decoders write it."""
    node, name = helper.make_node, prefix.format
    return [
        node("Pow", [x, "two"], [name("square")]),
        node("ReduceMean", [name("square")], [name("mean")], axes=[-1]),
        node("Add", [name("mean"), "epsilon"], [name("sum")]),
        node("Sqrt", [name("sum")], [name("root")]),
        node("Div", [x, name("root")], [name("normal")]),
        node("Mul", [scale, name("normal")], [y]),
    ]


def decoder(opset):
    """A layer of a decoder with one head: normalization, attention without a mask, normalization, a gated product."""
    node = helper.make_node
    nodes = [
        *norm("x", "n", "scale1", "a_{}"),
        node("MatMul", ["n", "q"], ["query"]), node("MatMul", ["n", "k"], ["key"]), node("MatMul", ["n", "v"], ["value"]),
        node("Transpose", ["key"], ["turned"], perm=[0, 2, 1]),
        node("MatMul", ["query", "turned"], ["scores"]),
        node("Mul", ["scores", "quarter"], ["scaled"]),
        node("Softmax", ["scaled"], ["weights"], axis=-1),
        node("MatMul", ["weights", "value"], ["mixed"]),
        node("MatMul", ["mixed", "o"], ["projected"]),
        node("Add", ["x", "projected"], ["residual"]),
        *norm("residual", "m", "scale2", "b_{}"),
        node("MatMul", ["m", "gate"], ["gated"]), node("Sigmoid", ["gated"], ["opened"]), node("Mul", ["gated", "opened"], ["swish"]),
        node("MatMul", ["m", "up"], ["raised"]), node("Mul", ["swish", "raised"], ["inner"]),
        node("MatMul", ["inner", "down"], ["lowered"]),
        node("Add", ["residual", "lowered"], ["y"]),
    ]
    constants = [
        constant("two", np.float32(2)), constant("epsilon", np.float32(1e-6)), constant("quarter", np.float32(0.25)),
        weight("scale1", WIDTH), weight("scale2", WIDTH), *(weight(name, WIDTH, WIDTH) for name in "qkvo"),
        weight("gate", WIDTH, WIDTH), weight("up", WIDTH, WIDTH), weight("down", WIDTH, WIDTH),
    ]
    shape = [1, "length", WIDTH]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)] for name in "xy"]
    graph = helper.make_graph(nodes, "decoder", *ports, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def sparse():
    """A sum with a sparse constant, behind a Softmax."""
    values = helper.make_tensor("values", TensorProto.FLOAT, [2], [0.5, -1.5])
    places = helper.make_tensor("places", TensorProto.INT64, [2], [1, 3])
    constant = helper.make_node("Constant", [], ["c"], sparse_value=helper.make_sparse_tensor(values, places, [4]))
    nodes = [constant, helper.make_node("Softmax", ["x"], ["s"], axis=1), helper.make_node("Add", ["s", "c"], ["y"])]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4])] for name in "xy"]
    return helper.make_model(helper.make_graph(nodes, "g", *ports), opset_imports=[helper.make_opsetid("", 11)], ir_version=6)


def optimized(model, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "out.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return Path(options.optimized_model_filepath).read_bytes()


def main():
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    models = {
        "decoder": optimized(decoder(11), level),
        "sparse": sparse().SerializeToString(),
    }
    FILE.write_text("".join(f"{name} {bytes.hex()}\n" for name, bytes in models.items()))
    for name, bytes in models.items():
        nodes = onnx.load_from_string(bytes).graph.node
        print(name, len(bytes), sorted({f"{node.domain}:{node.op_type}" for node in nodes}))


if __name__ == "__main__":
    main()
