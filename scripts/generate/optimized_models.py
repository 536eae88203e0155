#!/usr/bin/env python3
"""Writes `crates/onnx-cast-model/tests/fixtures/optimized.txt`: models that onnxruntime's own optimizer wrote, which
holds operators of com.microsoft and, in ONNX's own domain, operators that ONNX does not have; and one with a sparse
constant. One model a line: its name, and its bytes in hexadecimal digits.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "checks"))

from graphs import model  # noqa: E402

FILE = ROOT / "crates" / "onnx-cast-model" / "tests" / "fixtures" / "optimized.txt"
WIDTH = 16
RANDOM = np.random.default_rng(37)


def weight(*shape):
    return RANDOM.normal(0, 0.1, shape).astype(np.float32)


def norm(x, y, scale, p):
    """A root mean square normalization of plain operators, as exporters of decoders write it."""
    return f"""{p}square = Pow({x}, two) {p}mean = ReduceMean<axes=[-1]>({p}square) {p}sum = Add({p}mean, epsilon)
    {p}root = Sqrt({p}sum) {p}normal = Div({x}, {p}root) {y} = Mul({scale}, {p}normal)"""


def decoder(opset):
    """A layer of a decoder with one head: normalization, attention without a mask, normalization, a gated product."""
    text = f"""(float[1,length,16] x) => (float[1,length,16] y) {{ {norm("x", "n", "scale1", "a_")}
    query = MatMul(n, q) key = MatMul(n, k) value = MatMul(n, v) turned = Transpose<perm=[0, 2, 1]>(key)
    scores = MatMul(query, turned) scaled = Mul(scores, quarter) weights = Softmax<axis=-1>(scaled)
    mixed = MatMul(weights, value) projected = MatMul(mixed, o) residual = Add(x, projected)
    {norm("residual", "m", "scale2", "b_")} gated = MatMul(m, gate) opened = Sigmoid(gated)
    swish = Mul(gated, opened) raised = MatMul(m, up) inner = Mul(swish, raised) lowered = MatMul(inner, down)
    y = Add(residual, lowered) }}"""
    scalars = {"two": np.float32(2), "epsilon": np.float32(1e-6), "quarter": np.float32(0.25)}
    scales = {name: weight(WIDTH) for name in ("scale1", "scale2")}
    matrices = {name: weight(WIDTH, WIDTH) for name in (*"qkvo", "gate", "up", "down")}
    made = model(text, opset=opset, **scalars, **scales, **matrices)
    made.graph.name = "decoder"
    return made


def sparse():
    """A sum with a sparse constant, behind a Softmax."""
    values = helper.make_tensor("values", TensorProto.FLOAT, [2], [0.5, -1.5])
    places = helper.make_tensor("places", TensorProto.INT64, [2], [1, 3])
    constant = helper.make_node("Constant", [], ["c"], sparse_value=helper.make_sparse_tensor(values, places, [4]))
    nodes = [constant, helper.make_node("Softmax", ["x"], ["s"], axis=1), helper.make_node("Add", ["s", "c"], ["y"])]
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4])] for name in "xy"]
    graph = helper.make_graph(nodes, "g", *ports)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)


def optimized(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "out.onnx")
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return Path(options.optimized_model_filepath).read_bytes()


def main():
    models = {"decoder": optimized(decoder(11)), "sparse": sparse().SerializeToString()}
    FILE.write_text("".join(f"{name} {bytes.hex()}\n" for name, bytes in models.items()))
    for name, bytes in models.items():
        nodes = onnx.load_from_string(bytes).graph.node
        print(name, len(bytes), sorted({f"{node.domain}:{node.op_type}" for node in nodes}))


if __name__ == "__main__":
    main()
