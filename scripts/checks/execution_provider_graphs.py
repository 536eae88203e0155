"""Graphs around casts, for `execution_provider.py`: chains, constants, branches, loops, functions and shapes; and
models that the command quantized."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import execution_provider_nodes as nodes
import numpy as np
import onnx
import onnx_cast
import onnxruntime
from execution_provider_nodes import model, value
from onnx import TensorProto, helper, numpy_helper
from onnx_cast import dtypes as t
from onnx_cast.onnxruntime import ep_name, session_options

ROOT = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "onnx-cast"
COMMAND = Path(os.environ.get("ONNX_CAST_COMMAND", BUILT))


def fail(text):
    sys.exit(f"execution_provider: {text}")


def cast(source, result, to, **attributes):
    return helper.make_node("Cast", [source], [result], to=to.number, **attributes)


def run(model, claim="all", level=None, providers=None, **feeds):
    """The outputs of a model, and how many nodes the provider ran, by the profile."""
    options = onnxruntime.SessionOptions() if providers else session_options(claim)
    if level is not None:
        options.graph_optimization_level = level
    with tempfile.TemporaryDirectory() as folder:
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder) / "profile")
        session = nodes.quiet_session(model, options, **({"providers": providers} if providers else {}))
        results = nodes.run(session, feeds)
        profile = Path(session.end_profiling()).read_text()
    events = [line for line in profile.splitlines() if "_kernel_time" in line]
    return results, sum(ep_name() in line for line in events)


def equal(name, got, want):
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        texts = a.dtype.kind in "OTU"
        if a.shape != b.shape or (a.tolist() != b.tolist() if texts else a.dtype != b.dtype or a.tobytes() != b.tobytes()):
            fail(f"{name}: output {index} is {a.ravel()[:6]} (want {b.ravel()[:6]})")


def check_chains():
    """A chain is one group, and each of its roundings is kept, at every level."""
    x, opset = nodes.hard_values(t.double), min(25, nodes.newest_opset())
    for steps in [(t.float, t.float16), (t.float16, t.float, t.float8e4m3fn, t.float), (t.float, t.bfloat16, t.float16),
                  (t.float4e2m1, t.float), (t.int64, t.float, t.double), (t.int8, t.int4, t.int2, t.float)]:
        if not set(steps) <= set(nodes.held()):
            continue
        names = ["x", *(f"v{at}" for at in range(len(steps)))]
        chain = [cast(a, b, to) for a, b, to in zip(names, names[1:], steps)]
        want, results = x, []
        for to in steps:
            want = onnx_cast.cast(want, to.number, opset=opset)
            results.append(want)
        for size in (x.size, 1_000_003):
            grown = np.resize(x, size)
            last = [np.resize(results[-1], size)]
            for level in LEVELS:
                made = model(chain, [value("x", t.double)], [value(names[-1], steps[-1])], opset)
                got, count = run(made, level=level, x=grown)
                equal(f"a chain to {steps}", got, last)
                if count != 1:
                    fail(f"a chain to {steps} is {count} nodes (want 1)")
        # A value within the chain that is an output besides, and one that another node reads.
        if all(one in READABLE for one in steps):
            outputs = [value(name, one) for name, one in zip(names[1:], steps)]
            got, _ = run(model(chain, [value("x", t.double)], outputs, opset), x=x)
            equal(f"a chain to {steps} with outputs within", got, results)
    fork = [cast("x", "a", t.float), cast("a", "b", t.float16), cast("a", "c", t.bfloat16), helper.make_node("Neg", ["a"], ["d"])]
    outputs = [value("b", t.float16), value("c", t.bfloat16), value("d", t.float)]
    a = onnx_cast.cast(x, "float")
    got, count = run(model(fork, [value("x", t.double)], outputs, opset), x=x)
    equal("a fork", got, [onnx_cast.cast(a, "float16"), onnx_cast.cast(a, "bfloat16"), -a])
    if count != 2:
        fail(f"a fork is {count} nodes of the provider's (want 2)")


LEVELS = [getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{name}") for name in
          ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")]
RELEASE = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
READABLE = [t.float, t.double, t.float16, t.bfloat16, t.float8e4m3fn, t.float4e2m1, t.int64, t.int8, t.int4, t.int2]


def check_constants():
    """Nodes of constants give the library's values, because the options turn onnxruntime's folding off."""
    weights = np.array([1 + 2.0**-11 + 2.0**-40, 65519.9999, -0.0], np.float64)
    node = [cast("w", "h", t.float16), helper.make_node("Add", ["h", "x"], ["y"])]
    made = model(node, [value("x", t.float16, [3])], [value("y", t.float16, [3])], 21,
                 [numpy_helper.from_array(weights, "w")])
    zero, want = np.zeros(3, np.float16), onnx_cast.cast(weights, "float16")
    got, count = run(made, "inexact", x=zero)
    equal("a Cast of a constant", got, [want + zero])
    folded, others = run(made, providers=["CPUExecutionProvider"], x=zero)
    if count != 1 or others or folded[0].tobytes() == got[0].tobytes():
        fail("a Cast of a constant: onnxruntime alone gives the same, or the provider did not run it")


def branch(nodes_, result, data_type):
    return helper.make_graph(nodes_, "branch", [], [value(result, data_type)])


def check_subgraphs():
    """Branches, loops and functions."""
    narrow = nodes.narrow()
    x = np.array([1 + 2.0**-11 + 2.0**-40, -3.5, 1e9])
    then, other = branch([cast("x", "t", t.float16)], "t", t.float16), branch(
        [cast("x", "s", narrow), cast("s", "e", t.float16)], "e", t.float16)
    made = model([helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
                 [value("c", t.bool, []), value("x", t.double)], [value("y", t.float16)], 23)
    if RELEASE < (1, 25):
        print("  If: onnxruntime gives the groups of two graphs one name before 1.25", flush=True)
    else:
        equal("If", run(made, c=np.array(True), x=x)[0], [onnx_cast.cast(x, "float16")])
        small = onnx_cast.cast(onnx_cast.cast(x, narrow.name, opset=23), "float16")
        equal("else of If", run(made, "all", c=np.array(False), x=x)[0], [small])
    # Each turn doubles a float that is rounded to float8.
    body = helper.make_graph(
        [cast("s", "n", t.float8e4m3fn), cast("n", "f", t.float), helper.make_node("Add", ["f", "f"], ["next"]),
         helper.make_node("Identity", ["go"], ["again"])], "body",
        [value("i", t.int64, []), value("go", t.bool, []), value("s", t.float)],
        [value("again", t.bool, []), value("next", t.float)])
    made = model([helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body)],
                 [value("turns", t.int64, []), value("x", t.float)], [value("y", t.float)], 21)
    want = start = np.array([0.3, 5.3, -100], np.float32)
    for _ in range(3):
        want = 2 * onnx_cast.cast(onnx_cast.cast(want, "float8e4m3fn", opset=21), "float")
    equal("Loop", run(made, turns=np.array(3), x=start)[0], [want])
    function = helper.make_function("mine", "Narrow", ["f"], ["g"], [cast("f", "h", narrow), cast("h", "g", t.float)],
                                    [helper.make_opsetid("", 23)])
    made = model([helper.make_node("Narrow", ["x"], ["y"], domain="mine")], [value("x", t.float)], [value("y", t.float)],
                 23, functions=[function], imports=[helper.make_opsetid("mine", 1)])
    small = onnx_cast.cast(onnx_cast.cast(start, narrow.name, opset=23), "float")
    equal("a function", run(made, "all", x=start)[0], [small])


def check_shapes():
    """Scalars, empty tensors, unknown sizes, and tensors that go to several threads; strings too."""
    for shape in [(), (0,), (3, 0, 2), (1,), (2, 3, 5), (1 << 21,)]:
        x = np.resize(nodes.hard_values(t.float), shape)
        for known in (shape, [None] * len(shape), None):
            for to in (t.float8e5m2, t.float4e2m1, t.string):
                if to is t.string and x.size > 1000 or to not in nodes.held():
                    continue
                made = model([cast("x", "y", to)], [value("x", t.float, known)], [value("y", to, known)], 23)
                equal(f"shape {shape}", run(made, x=x)[0], [onnx_cast.cast(x, to.number, opset=23)])
    texts = np.array([["1.5", "-inf"], ["1e-3", ""]], object)
    made = model([cast("x", "y", t.string)], [value("x", t.string)], [value("y", t.string)], 21)
    equal("strings to strings", run(made, x=texts)[0], [texts])
    made = model([cast("x", "y", t.int8)], [value("x", t.string)], [value("y", t.int8)], 21)
    try:
        run(made, x=np.array(["1", "two"], object))
    except Exception as error:
        if "INVALID_ARGUMENT" not in str(error) or 'element 1: "two" is not a number' not in str(error):
            fail(f"a text that is not a number: {error}")
    else:
        fail("a text that is not a number gives a result")


def check_blocks():
    """Blocks along each axis, short last blocks, a scale for each place on an axis, and large tensors."""
    narrow = nodes.narrow()
    x = np.resize(nodes.hard_values(t.float16)[::31], (3, 70, 5)).astype(np.float32)
    for axis, block, size in [(1, 32, 3), (-1, 2, 3), (0, 3, 1), (1, 0, None)]:
        shape = list(x.shape)
        shape = [70] if block == 0 else shape[: axis % 3] + [size] + shape[axis % 3 + 1 :]
        scale = np.resize(np.array([0.5, 0.1, 3, 2.0**-5], np.float32), shape)
        attributes = {"axis": axis, "block_size": block}
        two = [helper.make_node("QuantizeLinear", ["x", "s"], ["q"], output_dtype=narrow.number, **attributes),
               helper.make_node("DequantizeLinear", ["q", "s"], ["y"], **attributes)]
        for factor in (1, 400):
            big = np.concatenate([x] * factor, axis=2 if axis != -1 else 0)
            grown = scale if block == 0 else np.concatenate([scale] * factor, axis=2 if axis != -1 else 0)
            made = model(two, [value("x", t.float), value("s", t.float)], [value("y", t.float)], 23)
            q = onnx_cast.quantize_linear(big, grown, output_dtype=narrow.name, opset=23, **attributes)
            want = onnx_cast.dequantize_linear(q, grown, opset=23, **attributes)
            equal(f"blocks of {block} on axis {axis}", run(made, "missing", x=big, s=grown)[0], [want])


def check_quantized():
    """Models that the command quantized to MXFP4 and NVFP4 run as they are, and give what their float twins give."""
    weights = nodes.RANDOM.standard_normal((128, 64), np.float32)
    x = nodes.RANDOM.standard_normal((4, 128), np.float32)
    plain = model([helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", t.float, [4, 128])],
                  [value("y", t.float, [4, 64])], min(25, nodes.newest_opset()),
                  [numpy_helper.from_array(weights, "w")])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plain.onnx"
        path.write_bytes(plain)
        for format, needed in (("mxfp4", t.float8e8m0), ("nvfp4", t.float4e2m1), ("mxfp8", t.float8e8m0)):
            if needed not in nodes.held():
                print(f"  {format}: onnxruntime has no tensors of {needed}", flush=True)
                continue
            out = Path(folder) / f"{format}.onnx"
            subprocess.run([COMMAND, "quantize", path, out, "--to", format], check=True, capture_output=True)
            made = out.read_bytes()
            got, count = run(made, "missing", x=x)
            # The same model with the weights that the library gives, in stock onnxruntime.
            twin = onnx.load_model_from_string(made)
            want = run(_computed(twin), providers=["CPUExecutionProvider"], x=x)[0]
            if not count:
                fail(f"{format}: the provider ran no node")
            equal(format, got, want)


def _computed(twin):
    """A model whose DequantizeLinear nodes of constants are the constants that the library computes, as float."""
    known = {one.name: one for one in twin.graph.initializer}
    opset = next(one.version for one in twin.opset_import if one.domain == "")
    arrays = {name: onnx_cast.unpack(one.raw_data, one.data_type, tuple(one.dims)) for name, one in known.items()
              if one.raw_data}
    kept = []
    for node in twin.graph.node:
        if node.op_type in ("DequantizeLinear", "Cast") and all(name in arrays for name in node.input if name):
            given = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
            if node.op_type == "Cast":
                array = onnx_cast.cast(arrays[node.input[0]], given["to"], opset=opset)
            else:
                inputs = [arrays[name] if name else None for name in node.input]
                array = onnx_cast.dequantize_linear(*inputs, opset=opset, **given)
            arrays[node.output[0]] = array
            twin.graph.initializer.append(numpy_helper.from_array(np.asarray(array, np.float32), node.output[0]))
        else:
            kept.append(node)
    del twin.graph.node[:]
    twin.graph.node.extend(kept)
    return twin.SerializeToString()


def check():
    for part in (check_chains, check_constants, check_subgraphs, check_shapes, check_blocks, check_quantized):
        part()
        print(f"  {part.__name__.removeprefix('check_')}: as they should", flush=True)
