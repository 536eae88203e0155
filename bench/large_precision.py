#!/usr/bin/env python3
"""Measures time and peak memory of `convert`, `upgrade` and `record` on a model of 10 GiB of external data, beside `cast` of the
same bytes, and on one of 100,000 nodes. Usage: large_precision.py COMMAND FOLDER [GIB]; needs onnx and 30 GB in the folder.

The large model is a chain of matrix products whose weights are pseudo-random floats. `cast` and `convert` take turns, and the
ratio is that of the medians of three. What was written is checked by onnx.checker.
"""

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

COMMAND = Path(sys.argv[1]).resolve()
GIB = int(sys.argv[3]) if len(sys.argv) > 3 else 10
# 256 MiB of floats in each weight.
SIDE, EACH = 8192, 8192 * 8192 * 4
NODES = 100_000


def run(folder, *arguments):
    """Seconds of the command, whose memory is printed too."""
    child = [sys.executable, "-c", MEASURE, COMMAND, *map(str, arguments), "-q"]
    done = subprocess.run(child, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{arguments}: status {done.returncode}: {done.stderr}")
    seconds, memory = map(float, done.stdout.split()[-2:])
    print(f"| `{' '.join(map(str, arguments))}` | {seconds:.2f} | {memory / 1024:.0f} MiB |", flush=True)
    return seconds


# A process of its own, small as it is, since what starts a command counts in its peak memory.
MEASURE = """
import resource, subprocess, sys, time
start = time.perf_counter()
done = subprocess.run(sys.argv[1:])
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""


def save(path, nodes, initializers):
    ports = [[helper.make_tensor_value_info(one, TensorProto.FLOAT, [2, "n"])] for one in ("x0", f"x{len(nodes)}")]
    graph = helper.make_graph(nodes, "g", *ports, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(made.SerializeToString())


def large(folder):
    """Matrix products with weights in another file."""
    count = GIB * (1 << 30) // EACH
    block = np.random.default_rng(10).standard_normal(EACH // 16, np.float32).tobytes()
    with open(folder / "large.data", "wb") as data:
        for _ in range(count * 4):
            data.write(block)
    weights = []
    for place in range(count):
        tensor = TensorProto(name=f"w{place}", data_type=TensorProto.FLOAT, dims=[SIDE, SIDE], data_location=TensorProto.EXTERNAL)
        for key, value in ("location", "large.data"), ("offset", place * EACH), ("length", EACH):
            tensor.external_data.add(key=key, value=str(value))
        weights.append(tensor)
    nodes = [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(count)]
    save(folder / "large.onnx", nodes, weights)


def chain(folder):
    """Nodes of which every thousandth multiplies matrices."""
    weight = onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    operators = ["MatMul", *["Relu", "Neg", "Abs"] * 333]
    nodes = []
    for place in range(NODES):
        operator = operators[place % len(operators)]
        nodes.append(helper.make_node(operator, [f"x{place}", *["w"] * (operator == "MatMul")], [f"x{place + 1}"]))
    save(folder / "chain.onnx", nodes, [weight])


def written(folder, *arguments):
    """Seconds of the command, what it wrote checked and removed."""
    taken = run(folder, arguments[0], arguments[1], "out.onnx", *arguments[2:])
    onnx.checker.check_model(str(folder / "out.onnx"))
    sizes = [left.stat().st_size for left in folder.glob("out.onnx.data")]
    for left in folder.glob("out.onnx*"):
        left.unlink()
    return taken, sizes


def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[2]) as name:
        folder = Path(name)
        large(folder)
        chain(folder)
        os.sync()
        print("| | seconds | peak memory |\n|---|---|---|")
        seconds = {"cast": [], "convert": []}
        for _ in range(3):
            for job in seconds:
                taken, sizes = written(folder, job, "large.onnx", "--to", "float16")
                seconds[job].append(taken)
                if sizes != [GIB << 29]:
                    sys.exit(f"{job} writes {sizes} bytes of elements, want {GIB << 29}")
        for job in ("upgrade", "record"):
            written(folder, job, "large.onnx")
        for options in (["convert", "--to", "float16"], ["convert", "--to", "float16", "--emulate"],
                        ["convert", "--to", "bfloat16", "--raise-opset"], ["upgrade"], ["record"]):
            written(folder, options[0], "chain.onnx", *options[1:])
    ratio = statistics.median(seconds["convert"]) / statistics.median(seconds["cast"])
    print(f"\nconvert takes {ratio:.2f} times as long as cast (medians of three, in turns)")


if __name__ == "__main__":
    main()
