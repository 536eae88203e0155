#!/usr/bin/env python3
"""Does the command carry large files in little memory?

A checkpoint of 6 GB, of which a few stretches are more than holes in the file, cast to float8; and one of 100 000
tensors, cast, listed and compared. Every result is compared with ml_dtypes' casts; time and the most memory are
printed, and memory compared with a limit.

Usage: load.py [many] [large]. Takes the release build of the command, and 2 GB of disk.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import harness  # noqa: E402 (it lies in another folder)

COMMAND = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "onnx-cast"
# What each may take at most: a file's size is not in it, but 100 000 names and shapes are, of two files for a
# comparison.
MOST_MB = {"large": 64, "many": 256}


def fail(text):
    sys.exit(f"load: {text}")


def run(what, folder, arguments, status=0):
    """Runs the command in a folder; gives what it prints, and prints its time and its memory."""
    done = harness.process([COMMAND, *arguments], folder, status)
    if done is None:
        fail(f"onnx-cast {' '.join(arguments)}: its status is not {status}")
    print(f"{what}, onnx-cast {' '.join(arguments)}: {done.clock:.1f} s, {done.memory:.0f} MiB of memory", flush=True)
    if done.memory > MOST_MB[what]:
        fail(f"{done.memory:.0f} MiB of memory (want {MOST_MB[what]} at most)")
    return done.told


def header(tensors):
    text = json.dumps(tensors, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text


def read_header(path):
    """The tensors of a file by name, and where their data begin."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        return json.loads(file.read(length)), 8 + length


def large(folder):
    """1.5 Gi floats: zeros, that take no room on the disk, and stretches about multiples of 2^28 elements."""
    count, stretch = 6 << 28, 1 << 16
    head = header({"w": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}})
    rng = np.random.default_rng(6)
    places = [max(0, min(at - stretch // 2, count - stretch)) for at in range(0, count + 1, 1 << 28)]
    values = {at: rng.standard_normal(stretch).astype(np.float32) * np.float32(200) for at in places}
    with open(folder / "in.safetensors", "wb") as file:
        file.write(head)
        for at, floats in values.items():
            file.seek(len(head) + 4 * at)
            file.write(floats.tobytes())
        file.truncate(len(head) + 4 * count)
    run("large", folder, ["cast", "-q", "in.safetensors", "out.safetensors", "--to", "float8e4m3fn"])

    tensors, data = read_header(folder / "out.safetensors")
    if tensors["w"] != {"dtype": "F8_E4M3", "shape": [count], "data_offsets": [0, count]}:
        fail(f"large: {tensors}")
    out = np.memmap(folder / "out.safetensors", np.uint8, "r", data)
    end = 0
    for at, floats in values.items():
        # ONNX saturates where ml_dtypes overflows.
        want = np.clip(floats, -448, 448).astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        if not np.array_equal(out[at : at + stretch], want):
            fail(f"large: the elements from {at} on are wrong")
        if any(out[i : min(i + (1 << 26), at)].any() for i in range(end, at, 1 << 26)):
            fail(f"large: not zero between {end} and {at}")
        end = at + stretch
    if end != count or out.size != count:
        fail(f"large: {out.size} elements, compared up to {end}")
    run("large", folder, ["info", "in.safetensors"])
    print(f"large: {count} elements of {4 * count} bytes compared")
    (folder / "out.safetensors").unlink()


def many(folder):
    """100 000 tensors of 16 floats, as a model of many small parts has."""
    count, size = 100_000, 16
    values = np.random.default_rng(5).standard_normal((count, size)).astype(np.float32)
    name = "model.layers.{}.mlp.experts.{}.scale".format
    tensors = {
        name(i // 1000, i % 1000): {"dtype": "F32", "shape": [size], "data_offsets": [4 * size * i, 4 * size * (i + 1)]}
        for i in range(count)
    }
    (folder / "in.safetensors").write_bytes(header(tensors) + values.tobytes())
    run("many", folder, ["cast", "-q", "in.safetensors", "out.safetensors", "--to", "bfloat16"])
    cast, data = read_header(folder / "out.safetensors")
    content = (folder / "out.safetensors").read_bytes()[data:]
    want = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    for i, (key, entry) in enumerate(tensors.items()):
        begin, end = cast[key]["data_offsets"]
        if cast[key]["dtype"] != "BF16" or content[begin:end] != want[i].tobytes():
            fail(f"many: {key} is {cast[key]}, and not what it should be")
    lines = run("many", folder, ["info", "out.safetensors"]).splitlines()
    if sum(line.lstrip().startswith("model.layers.") for line in lines) != count:
        fail(f"many: info lists {len(lines)} lines")
    run("many", folder, ["diff", "in.safetensors", "in.safetensors"])
    changed = bytearray((folder / "in.safetensors").read_bytes())
    changed[-1] ^= 1
    (folder / "changed.safetensors").write_bytes(changed)
    told = run("many", folder, ["diff", "in.safetensors", "changed.safetensors"], status=1)
    if name(count // 1000 - 1, 999) not in told:
        fail(f"many: diff does not name what differs: {told}")
    print(f"many: {count} tensors compared")


def main():
    names = sys.argv[1:] or ["many", "large"]
    if not COMMAND.exists():
        fail(f"{COMMAND} is missing: run `cargo build --release -p onnx-cast-cli`")
    for name in names:
        if name not in MOST_MB:
            fail(f"{name} is not known (want many or large)")
        with tempfile.TemporaryDirectory() as folder:
            {"many": many, "large": large}[name](Path(folder))


if __name__ == "__main__":
    main()
