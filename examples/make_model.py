"""Writes model.onnx: a classifier of two layers with random weights, for the tutorial of models."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(17)
shapes = {"fc1.weight": (32, 64), "fc1.bias": (64,), "fc2.weight": (64, 8), "fc2.bias": (8,)}
weights = [numpy_helper.from_array(rng.normal(0, 0.1, shape).astype(np.float32), name) for name, shape in shapes.items()]
nodes = [
    helper.make_node("MatMul", ["x", "fc1.weight"], ["fc1"], name="fc1"),
    helper.make_node("Add", ["fc1", "fc1.bias"], ["hidden"], name="fc1_bias"),
    helper.make_node("Relu", ["hidden"], ["active"], name="relu"),
    helper.make_node("MatMul", ["active", "fc2.weight"], ["fc2"], name="fc2"),
    helper.make_node("Add", ["fc2", "fc2.bias"], ["logits"], name="fc2_bias"),
    helper.make_node("Softmax", ["logits"], ["y"], name="softmax"),
]
inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 32])]
outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])]
graph = helper.make_graph(nodes, "classifier", inputs, outputs, weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnx.checker.check_model(model)
onnx.save(model, Path(__file__).with_name("model.onnx"))
