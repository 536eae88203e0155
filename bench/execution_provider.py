#!/usr/bin/env python3
"""What nodes of the execution provider cost in onnxruntime, beside onnxruntime's own fastest way to the same bytes.

Results are compared before anything is timed. The ways of one case take turns, and each figure is the median of its
turns. `--record` writes records/execution_provider.md. One thread; `nice -n -15` for a record.
"""

import argparse
import functools
import sys
import timeit

import harness
import ml_dtypes
import numpy as np
import onnx_cast
import onnxruntime
from onnx import TensorProto, helper
from onnx_cast.onnxruntime import from_ortvalue, session_options, to_ortvalue

RANDOM = np.random.default_rng(7)
T = TensorProto


def model(nodes, inputs, outputs, opset=23, initializers=()):
    infos = [[helper.make_tensor_value_info(name, kind, None) for name, kind in some] for some in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *infos, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString()


def session(made, claim=None):
    options = session_options(claim) if claim else onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(made, options, **({} if claim else {"providers": ["CPUExecutionProvider"]}))


def cast(x, y, to, **attributes):
    return helper.make_node("Cast", [x], [y], to=to, **attributes)


def float8_cases(count):
    """float to float8e4m3fn: one node each."""
    x = RANDOM.standard_normal(count, np.float32) * 10
    made = model([cast("x", "y", T.FLOAT8E4M3FN)], [("x", T.FLOAT)], [("y", T.FLOAT8E4M3FN)])
    return {"x": x}, [("the provider", session(made, "all")), ("Cast", session(made))]


def float4_cases(count):
    """float16 to float4e2m1, whose bytes onnxruntime can make by a table."""
    x = (RANDOM.standard_normal(count, np.float32) * 3).astype(np.float16)
    made = model([cast("x", "y", T.FLOAT4E2M1)], [("x", T.FLOAT16)], [("y", T.FLOAT4E2M1)])
    return {"x": x}, [("the provider", session(made, "all")), ("nodes", session(float4_by_nodes()))]


def float4_by_nodes():
    """The codes of float4e2m1 as uint4, by a table of the codes of all 65,536 numbers."""
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    table = onnx_cast.cast(codes, "float4e2m1", opset=23).view(np.uint8).astype(np.uint8)
    nodes = [helper.make_node("BitCast", ["x"], ["b"], to=T.UINT16), cast("b", "i", T.INT32),
             helper.make_node("Gather", ["table", "i"], ["g"]), cast("g", "y", T.UINT4)]
    constant = helper.make_tensor("table", T.UINT8, table.shape, table.tobytes(), raw=True)
    return model(nodes, [("x", T.FLOAT16)], [("y", T.UINT4)], 26, [constant])


def dequantize_cases(count):
    """DequantizeLinear of int4 in blocks of 32: one node each."""
    shape = (count // 4096, 4096)
    x = RANDOM.integers(-8, 8, shape, np.int8).astype(ml_dtypes.int4)
    s = RANDOM.random((shape[0], 128), np.float32)
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], axis=1, block_size=32)
    made = model([node], [("x", T.INT4), ("s", T.FLOAT)], [("y", T.FLOAT)], 21)
    return {"x": x, "s": s}, [("the provider", session(made, "all")), ("DequantizeLinear", session(made))]


def float_cases(count):
    """float to float16, which both run: what a node costs."""
    x = RANDOM.standard_normal(count, np.float32)
    made = model([cast("x", "y", T.FLOAT16)], [("x", T.FLOAT)], [("y", T.FLOAT16)])
    return {"x": x}, [("the provider", session(made, "all")), ("Cast", session(made))]


def fusion_cases(count):
    """An RMSNorm of float16 with Casts around it, which onnxruntime fuses where it sees the Casts."""
    x = RANDOM.standard_normal((count // 1024, 1024), np.float32).astype(np.float16)
    nodes = [cast("x", "f", T.FLOAT), helper.make_node("Pow", ["f", "two"], ["p"]),
             helper.make_node("ReduceMean", ["p", "axis"], ["m"]), helper.make_node("Add", ["m", "epsilon"], ["a"]),
             helper.make_node("Sqrt", ["a"], ["r"]), helper.make_node("Div", ["f", "r"], ["d"]),
             cast("d", "h", T.FLOAT16), helper.make_node("Mul", ["h", "weight"], ["y"])]
    constants = [helper.make_tensor("two", T.FLOAT, [], [2]), helper.make_tensor("epsilon", T.FLOAT, [], [1e-6]),
                 helper.make_tensor("axis", T.INT64, [1], [-1]),
                 helper.make_tensor("weight", T.FLOAT16, [1024], np.ones(1024, np.float16).tobytes(), raw=True)]
    made = model(nodes, [("x", T.FLOAT16)], [("y", T.FLOAT16)], 18, constants)
    return {"x": x}, [("the provider", session(made, "all")), ("fused", session(made))]


CASES = [
    ("float -> float8e4m3fn", float8_cases, (16, 1 << 14, 1 << 20, 1 << 24)),
    ("float16 -> float4e2m1", float4_cases, (16, 1 << 14, 1 << 20, 1 << 24)),
    ("DequantizeLinear, int4, blocks of 32", dequantize_cases, (1 << 14, 1 << 20, 1 << 24)),
    ("float -> float16", float_cases, (16, 1 << 14, 1 << 20, 1 << 24)),
    ("RMSNorm of float16 with Casts", fusion_cases, (1 << 20,)),
]


def measure(arrays, ways, exact):
    """Microseconds of a run of each way."""
    values = {name: to_ortvalue(array) for name, array in arrays.items()}
    runs = []
    for name, one in ways:
        binding = one.io_binding()
        for key, value in values.items():
            binding.bind_ortvalue_input(key, value)
        binding.bind_output("y", "cpu")
        one.run_with_iobinding(binding)
        runs.append((name, one, binding))
    results = [from_ortvalue(one.run_with_ort_values(None, values)[0], packed=True) for _, one, _ in runs]
    for (name, *_), result in zip(runs, results):
        if exact and not np.array_equal(result, results[0]):
            sys.exit(f"{name} gives other bytes than {runs[0][0]}: {(result != results[0]).sum()} of {result.size}")
    once = max(harness.seconds(lambda: runs[0][1].run_with_iobinding(runs[0][2])), 2e-6)
    inner = max(1, int(0.01 / once))
    works = {name: functools.partial(one.run_with_iobinding, binding) for name, one, binding in runs}
    return harness.in_turn(works, 15, lambda work: timeit.timeit(work, number=inner) / inner * 1e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write records/execution_provider.md")
    arguments = parser.parse_args()
    rows = []
    for name, make, counts in CASES:
        for count in counts:
            arrays, ways = make(count)
            found = measure(arrays, ways, exact=make is not fusion_cases)
            ours, *others = found.items()
            best = min(others, key=lambda one: one[1])
            cells = "; ".join(f"{way} {micros:.1f}" for way, micros in found.items())
            rows.append((best[1] / ours[1], [name, count, cells, f"{best[1] / ours[1]:.2f}"]))
            print(*rows[-1][1], sep=" | ", flush=True)
    if arguments.record:
        about = harness.about("nice -n -15 .venv/bin/python bench/execution_provider.py --record", onnxruntime=onnxruntime.__version__)
        lines = harness.table(["model", "elements", "microseconds", "theirs / ours"], [row for _, row in sorted(rows)])
        harness.rewrite("execution_provider.md", [about, "", *lines])


if __name__ == "__main__":
    main()
