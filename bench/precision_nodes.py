#!/usr/bin/env python3
"""Which nodes of a real model lose how much in float16, and how many have to stay float for an error.

    python bench/precision_nodes.py COMMAND FOLDER MODEL [KEPT ...]

MODEL is a part of the name of one of `precision_real.py`'s models, fetched into FOLDER, whose nodes have names. Every node is
emulated in float16 alone (its inputs, constants and result are rounded, 3 inputs), and the errors are sorted. Then the first
KEPT of them stay float (`--keep`), and all that the command makes narrow of the others is emulated (8 inputs). An error is the
largest distance in parts of the largest magnitude, median of the inputs. Recorded ranges and their margins come last.
"""

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import precision_real
from precision import error, ranges, run, session

COMMAND, FOLDER = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
KEPT = [int(one) for one in sys.argv[4:]] or [0, 20, 40, 80, 120, 140, 160, 180]
MARGINS = [4, 64, 1024, 4096, 8192, 16384]


def convert(path, options):
    """The emulated model, and what became of its nodes."""
    target = FOLDER / "emulated.onnx"
    arguments = [COMMAND, "convert", path, target, "--to", "float16", "--emulate", "--json", *options]
    done = subprocess.run(arguments, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return target, json.loads(done.stdout)


def keep(names):
    """The options that keep these nodes alone."""
    return [part for name in names for part in ("--keep", re.sub(r"([*?\[\]{}\\])", r"\\\1", name))]


def off(path, options, feeds, want):
    """The median error, the largest, and the row of a table about the nodes."""
    target, told = convert(path, options)
    loaded = session(target)
    errors = [error(one, run(loaded, feed)) for one, feed in zip(want, feeds, strict=True)]
    low = [node["operator"] for node in told["nodes"] if node["type"] != "float"]
    heavy = sum(operator in ("Conv", "ConvTranspose", "MatMul", "Gemm") for operator in low)
    return statistics.median(errors), max(errors), f"{len(low)} | {heavy}"


def main():
    name, path, kind = next(one for one in precision_real.fetch(FOLDER) if sys.argv[3] in one[0])
    loaded = session(path)
    feeds = [precision_real.feeds(kind, loaded, seed) for seed in range(8)]
    want = [run(loaded, feed) for feed in feeds]
    nodes = [node["node"] for node in convert(path, ["--dry-run"])[1]["nodes"]]
    alone = {one: off(path, keep(other for other in nodes if other != one), feeds[:3], want[:3])[0] for one in nodes}
    order = sorted(nodes, key=lambda one: -alone[one])
    whole = sum(value**2 for value in alone.values()) ** 0.5
    print(f"{name}: {len(nodes)} nodes; the root of the sum of squares of what each does alone is {whole:.1e}")
    print("the most, each alone: " + ", ".join(f"{one} {alone[one]:.1e}" for one in order[:8]))
    print("\n| stay float | error | at most | narrow nodes | of them Conv, ConvTranspose, MatMul, Gemm |\n" + "|---" * 5 + "|")
    for kept in KEPT:
        median, worst, counts = off(path, keep(order[:kept]), feeds, want)
        print(f"| the {kept} that lose the most | {median:.1e} | {worst:.1e} | {counts} |", flush=True)
    recorded = ranges(COMMAND, path, feeds[0], FOLDER)
    for margin in MARGINS:
        median, worst, counts = off(path, [*recorded, "--margin", str(margin)], feeds, want)
        print(f"| by `--ranges --margin {margin}` | {median:.1e} | {worst:.1e} | {counts} |", flush=True)


if __name__ == "__main__":
    main()
