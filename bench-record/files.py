#!/usr/bin/env python3
"""Measures `onnx-cast cast` on a checkpoint of 2 GiB beside cp and a Python script, and peak memory on a sparse tensor of
8 GiB. Usage: files.py COMMAND FOLDER [--rounds N]; the Python script needs numpy and safetensors.

All in one run and in turn, the input in the page cache; the best of the rounds is printed. cp moves twice the bytes of the
input, the cast the bytes that it reads and writes.
"""

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import time
from array import array
from pathlib import Path

PEER = """
import sys, numpy as np
from safetensors.numpy import load_file, save_file
save_file({name: value.astype(np.float16) for name, value in load_file(sys.argv[1]).items()}, sys.argv[2])
"""


def checkpoint(path, floats, sparse):
    text = json.dumps({"w": {"dtype": "F32", "shape": [floats], "data_offsets": [0, 4 * floats]}}).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        if sparse:
            file.truncate(8 + len(text) + 4 * floats)
            return
        block = array("f", [random.gauss(0, 1) for _ in range(1 << 18)]).tobytes()
        for _ in range(4 * floats // len(block)):
            file.write(block)


def run(arguments, output):
    """Seconds, and the peak memory in MB."""
    output.unlink(missing_ok=True)
    start = time.perf_counter()
    child = subprocess.Popen([str(part) for part in arguments])
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"{arguments}: status {status}")
    return seconds, usage.ru_maxrss / 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    source, out = args.folder / "in.safetensors", args.folder / "out.safetensors"
    read, written = 2 << 30, 1 << 30
    checkpoint(source, read // 4, sparse=False)
    cast = [args.command, "cast", "--quiet", source, out, "--to", "float16"]
    rows = {
        "cp": (["cp", "--reflink=never", source, out], 2 * read),
        "onnx-cast": (cast, read + written),
        "onnx-cast --stats": ([*cast, "--stats"], read + written),
        "Python, numpy": ([sys.executable, "-c", PEER, source, out], read + written),
    }
    best = {name: (float("inf"), 0) for name in rows}
    for _ in range(args.rounds):
        for name, (arguments, _) in rows.items():
            best[name] = min(best[name], run(arguments, out))
    base = rows["cp"][1] / best["cp"][0]
    for name, (seconds, memory) in best.items():
        speed = rows[name][1] / seconds
        print(f"{name:20} {seconds:6.2f} s  {speed / 1e9:6.2f} GB/s  {speed / base:5.2f} of cp  {memory:7.0f} MB peak")
    source.unlink()
    checkpoint(source, 2 << 30, sparse=True)
    seconds, memory = run([args.command, "cast", "--quiet", source, out, "--to", "float8e4m3fn"], out)
    print(f"a tensor of 8 GiB    {seconds:6.2f} s  {memory:7.1f} MB peak")
    source.unlink()
    out.unlink()


if __name__ == "__main__":
    main()
