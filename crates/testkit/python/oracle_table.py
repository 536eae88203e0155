"""What the exact oracle of the test kit says, as tables: the program `oracle-table`, read."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
# Columns of numbers in the blocks that have them.
COLUMNS = {"cast": 2, "dynamic": 2, "quantize": 4, "dequantize": 4}


def blocks(*arguments: str) -> Iterator[tuple[list[str], object]]:
    """Yields each block's line of words, and what is behind it: columns of numbers, of a cast the source and the result
    patterns, and else pairs of words."""
    options = ["--quiet", "--release", "--locked", "--package", "testkit", "--bin", "oracle-table", "--", *arguments]
    command = [os.environ.get("CARGO", "cargo"), "run", *options]
    data = subprocess.run(command, cwd=ROOT, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        words = data[at:end].decode().split(" ")
        count, at = int(words[-1]), end + 1
        if words[0] in COLUMNS:
            size = 8 * count
            yield words, tuple(np.frombuffer(data, "<u8", count, at + i * size) for i in range(COLUMNS[words[0]]))
            at += COLUMNS[words[0]] * size
            continue
        lines = []
        for _ in range(count):
            end = data.index(b"\n", at)
            lines.append(data[at:end].decode().split(" "))
            at = end + 1
        yield words, lines
