#!/usr/bin/env python3
"""Measures time and peak memory of the command on models whose weights are larger than what it may take of memory.
Usage: large.py COMMAND FOLDER; needs onnx and 13 GB in the folder.

The weights are holes in sparse files: a tensor of 5 GiB of floats in external data, which is cast, folded back, listed and
compared; and 1.5 GiB of float16 inside a model, which a fold makes 3 GiB of floats, more than a protobuf message may hold.
What was written is checked by onnx.checker.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import onnx
from onnx import TensorProto, helper

COMMAND, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
GIB = 1 << 30


def run(*arguments):
    start = time.perf_counter()
    child = subprocess.Popen([COMMAND, *map(str, arguments)], cwd=FOLDER, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{arguments}: status {status}")
    seconds = time.perf_counter() - start
    print(f"| `{' '.join(map(str, arguments))}` | {seconds:.1f} | {usage.ru_maxrss / 1024:.0f} MiB |", flush=True)


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def model(nodes, output, tensor=None):
    made = helper.make_model(
        helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info(*output)]),
        opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    if tensor is not None:
        made.graph.initializer.append(tensor)
    return made


def outside(path, size):
    """A model of one tensor of `size` bytes of zeros in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[size // 4], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    path.write_bytes(model([helper.make_node("Size", ["w"], ["y"])], ("y", TensorProto.INT64, []), tensor).SerializeToString())
    path.with_name("w.bin").write_bytes(b"")
    os.truncate(path.with_name("w.bin"), size)


def inside(path, size):
    """A model that casts `size` bytes of zeros of its own from float16 to float."""
    cast = helper.make_node("Cast", ["h"], ["w"], to=TensorProto.FLOAT)
    made = model([cast, helper.make_node("Size", ["w"], ["y"])], ("y", TensorProto.INT64, []))
    tensor = TensorProto(name="h", data_type=TensorProto.FLOAT16, dims=[size // 2])
    tensor = tensor.SerializeToString() + b"\x4a" + varint(size)
    graph = made.graph.SerializeToString() + b"\x2a" + varint(len(tensor) + size) + tensor
    made.ClearField("graph")
    head = made.SerializeToString() + b"\x3a" + varint(len(graph) + size) + graph
    path.write_bytes(head)
    os.truncate(path, len(head) + size)


def main():
    print("| | seconds | peak memory |\n|---|---|---|")
    outside(FOLDER / "m.onnx", 5 * GIB)
    run("cast", "-q", "m.onnx", "small.onnx", "--to", "float8e4m3fn", "--stats")
    run("fold", "-q", "small.onnx", "back.onnx")
    run("info", "m.onnx", "--stats")
    run("diff", "m.onnx", "back.onnx")
    inside(FOLDER / "half.onnx", 3 * GIB // 2)
    run("fold", "-q", "half.onnx", "large.onnx")
    for name, data in ("small", 5 * GIB // 4), ("back", 5 * GIB), ("large", 3 * GIB):
        onnx.checker.check_model(str(FOLDER / f"{name}.onnx"))
        size = (FOLDER / f"{name}.onnx.data").stat().st_size
        if size != data or (FOLDER / f"{name}.onnx").stat().st_size > 4096:
            sys.exit(f"{name}.onnx.data has {size} bytes, want {data}")


if __name__ == "__main__":
    main()
