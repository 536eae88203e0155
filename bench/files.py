#!/usr/bin/env python3
"""Measures `onnx-cast cast` on a checkpoint of 2 GiB beside cp and a Python script, and peak memory on a sparse tensor of
8 GiB. Usage: files.py COMMAND FOLDER [--rounds N]; the Python scripts need safetensors, and numpy or torch.

All in one run and in turn, the input in the page cache; the best of the rounds is printed. cp moves twice the bytes of the
input, the cast the bytes that it reads and writes.
"""

import argparse
import importlib.util
import json
import os
import random
import struct
import subprocess
import sys
import time
from array import array
from pathlib import Path

# Each tells the seconds of its work, without those of its imports.
PEER = """
import sys, time
{imports}
from safetensors.{library} import load_file, save_file
start = time.perf_counter()
save_file({{name: value.{cast} for name, value in load_file(sys.argv[1]).items()}}, sys.argv[2])
print(time.perf_counter() - start)
"""
PEERS = {
    "numpy": PEER.format(imports="import numpy as np", library="numpy", cast="astype(np.float16)"),
    "torch": PEER.format(imports="import torch", library="torch", cast="to(torch.float16)"),
}


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
    """Seconds, those that the command tells of its work or the same, and the peak memory in MB."""
    output.unlink(missing_ok=True)
    start = time.perf_counter()
    child = subprocess.Popen([str(part) for part in arguments], stdout=subprocess.PIPE, text=True)
    told = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"{arguments}: status {status}")
    return seconds, float(told or seconds), usage.ru_maxrss / 1000


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
    }
    for name, script in PEERS.items():
        if importlib.util.find_spec(name):
            rows[f"Python, {name}"] = ([sys.executable, "-c", script, source, out], read + written)
    best = {name: (float("inf"),) for name in rows}
    for _ in range(args.rounds):
        for name, (arguments, _) in rows.items():
            best[name] = min(best[name], run(arguments, out))
    base = rows["cp"][1] / best["cp"][0]
    for name, (seconds, work, memory) in best.items():
        speed = rows[name][1] / seconds
        print(f"{name:20} {seconds:6.2f} s  {speed / 1e9:6.2f} GB/s  {speed / base:5.2f} of cp  {memory:7.0f} MB peak"
              + (f"  ({work:.2f} s without imports)" if work < seconds else ""))
    source.unlink()
    checkpoint(source, 2 << 30, sparse=True)
    seconds, _, memory = run([args.command, "cast", "--quiet", source, out, "--to", "float8e4m3fn"], out)
    print(f"a tensor of 8 GiB    {seconds:6.2f} s  {memory:7.1f} MB peak")
    source.unlink()
    out.unlink()


if __name__ == "__main__":
    main()
