#!/usr/bin/env python3
"""Writes the files that the page's test drops: python3 web/test/files.py FOLDER COMMAND. Needs numpy and onnx."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def safetensors(path, tensors, length=None):
    """Float tensors; with `length`, of so many bytes each, all of them a hole of the file."""
    header, at = {}, 0
    for name, array in tensors.items():
        size = length or array.nbytes
        shape = [length // 4] if length else list(array.shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        if length:
            out.truncate(8 + len(text) + at)
        else:
            out.writelines(array.tobytes() for array in tensors.values())


def main():
    folder, command = Path(sys.argv[1]), sys.argv[2]
    (folder / "folder").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    weight = (rng.standard_normal((256, 512)) * 0.04).astype(np.float32)
    small = (rng.standard_normal((512,)) * 1e-6).astype(np.float32)
    safetensors(folder / "w.safetensors", {"layer.weight": weight, "layer.bias": small})
    safetensors(folder / "folder" / "one.safetensors", {"b": weight})
    names = ["large", *(f"more.{index}" for index in range(19))]
    safetensors(folder / "large.safetensors", {name: None for name in names}, 1 << 30)
    (folder / "broken.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{ not JSON")
    np.save(folder / "w.npy", weight)
    np.savez(folder / "w.npz", first=weight, second=small)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 512])],
        [numpy_helper.from_array(weight, "weight")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), folder / "w.onnx")
    for kind in ["safetensors", "onnx"]:
        paths = [folder / f"w.{kind}", folder / f"w.bfloat16.{kind}"]
        subprocess.run([command, "cast", *paths, "--to", "bfloat16", "--quiet"], check=True)


if __name__ == "__main__":
    main()
