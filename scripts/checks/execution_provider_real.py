"""onnx's own node tests of casts in onnxruntime with the provider, and real models, for `execution_provider.py`."""

from __future__ import annotations

import os
from pathlib import Path

import execution_provider_nodes as nodes
import numpy as np
import onnx
from graphs import MAGIKA, NUDENET
from onnx import TensorProto, numpy_helper
from onnx_cast import _targets
from onnx_cast.onnxruntime import session_options
from shared import fail, need

TESTS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
NODE_TESTS = ("cast", "bitcast", "quantizelinear", "dequantizelinear", "dynamicquantizelinear")


def tensor_of(path):
    return TensorProto.FromString(path.read_bytes())


def array_of(path):
    """The elements of a tensor in a file."""
    tensor = tensor_of(path)
    if tensor.data_type == TensorProto.STRING:
        return np.array([one.decode() for one in tensor.string_data], object).reshape(tuple(tensor.dims))
    if tensor.raw_data:
        return _targets.from_bytes(tensor.raw_data, tensor.data_type, tuple(tensor.dims))
    return numpy_helper.to_array(tensor)


def check_node_tests():
    """Every node test of casts whose types and opset onnxruntime has. The tests leave the code of NaN open."""
    held, ran, skipped = {one.number for one in nodes.held()}, 0, 0
    for folder in sorted(TESTS.iterdir()):
        name = folder.name.removeprefix("test_")
        if not name.startswith(NODE_TESTS):
            continue
        files = {kind: sorted((folder / "test_data_set_0").glob(f"{kind}_*.pb")) for kind in ("input", "output")}
        model = onnx.load(folder / "model.onnx")
        opset = next(one.version for one in model.opset_import if one.domain == "")
        types = {tensor_of(path).data_type for path in files["input"] + files["output"]}
        if opset > nodes.newest_opset() or not types <= held:
            skipped += 1
            continue
        model.ir_version = min(model.ir_version, 10)
        session = nodes.quiet_session(model.SerializeToString(), session_options("all"))
        feeds = {one.name: array_of(path) for one, path in zip(session.get_inputs(), files["input"])}
        for got, path in zip(nodes.run(session, feeds), files["output"], strict=True):
            want = array_of(path)
            if not nodes.same_values(got, want):
                fail(f"node test {name}: {got.ravel()[:8]} (want {want.ravel()[:8]})")
        ran += 1
    print(f"  {ran} node tests, {skipped} of types or opsets that onnxruntime lacks", flush=True)
    # Before 1.24, onnxruntime loads hardly an opset of the newest package.
    least = 100 if nodes.newest_opset() >= 24 else 1
    if ran < least:
        fail(f"{ran} node tests (want {least} at least)")


def models():
    """Real models: what the packages of the test run carry, and those of a folder that EP_MODELS names."""
    need(MAGIKA, NUDENET)
    yield from (MAGIKA, NUDENET)
    if more := os.environ.get("EP_MODELS"):
        yield from sorted(Path(more).rglob("*.onnx"))


def feed(path, one):
    """An input of a model: of sizes that are not fixed, a few."""
    known = {"bytes": (3, 2048), "images": (1, 3, 320, 320)}
    sizes = known.get(one.name) or [dim if isinstance(dim, int) else 2 for dim in one.shape]
    random = np.random.default_rng(6)
    kind = one.type.removeprefix("tensor(").removesuffix(")")
    if kind in ("int64", "int32"):
        return random.integers(0, 257 if one.name == "bytes" else 2, sizes, kind)
    if kind not in ("float", "float16", "double"):
        fail(f"{path}: an input of {one.type}, of which this makes none")
    return random.random(sizes).astype({"float": "float32", "double": "float64"}.get(kind, kind))


def check_models():
    """Models give what they give without the provider, by every claim: bit for bit."""
    count = casts = 0
    for path in models():
        stock = nodes.quiet_session(str(path), providers=["CPUExecutionProvider"])
        feeds = {one.name: feed(path, one) for one in stock.get_inputs()}
        want = stock.run(None, feeds)
        for claim in ("missing", "inexact", "all"):
            session = nodes.quiet_session(str(path), session_options(claim, fold_constants=True))
            for a, b in zip(session.run(None, feeds), want, strict=True):
                if nodes.bits(a) != nodes.bits(b):
                    fail(f"{path.name} by {claim}: {a.ravel()[:5]} (want {b.ravel()[:5]})")
        kinds = [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]
        casts += sum(kind in ("Cast", "CastLike", "QuantizeLinear", "DequantizeLinear") for kind in kinds)
        count += 1
    print(f"  {count} models with {casts} nodes of casts, as without the provider", flush=True)


def check():
    check_node_tests()
    check_models()
