"""Does the package give what the exact oracle gives, which shares no code with the library?"""

import os
import subprocess
from pathlib import Path

import numpy as np
from bitwise import array_of, bits

import onnx_cast
from onnx_cast import dtypes

ROOT = Path(__file__).resolve().parents[3]


def blocks():
    """The tables of the test kit: a line of words, and what is behind it."""
    options = ["--quiet", "--release", "--locked", "--package", "testkit", "--bin", "oracle-table"]
    done = subprocess.run([os.environ.get("CARGO", "cargo"), "run", *options], cwd=ROOT, check=True, capture_output=True)
    data, at = done.stdout, 0
    while at < len(data):
        end = data.index(b"\n", at)
        words = data[at:end].decode().split(" ")
        count, at = int(words[-1]), end + 1
        if words[0] == "cast":
            yield words, (np.frombuffer(data, "<u8", count, at), np.frombuffer(data, "<u8", count, at + 8 * count))
            at += 16 * count
        else:
            lines = []
            for _ in range(count):
                end = data.index(b"\n", at)
                lines.append(data[at:end].decode().split(" "))
                at = end + 1
            yield words, lines


def test_casts_prints_and_readings_are_the_oracles():
    compared = 0
    for words, rows in blocks():
        label = " ".join(words)
        if words[0] == "cast":
            source, want = rows
            source, to = array_of(source, dtypes.of(words[1]).numpy), dtypes.of(words[2])
            options = {"opset": int(words[3])}
            if words[4] == "false":
                options["saturate"] = False
            if words[5] != "up":
                options["round_mode"] = words[5]
            got, want = onnx_cast.cast(source, to, **options), array_of(want, to.numpy)
        elif words[0] == "print":
            source = array_of([int(pattern, 16) for pattern, _ in rows], dtypes.of(words[1]).numpy)
            got, want = onnx_cast.cast(source, "string").tolist(), [text for _, text in rows]
            assert got == want, label
            compared += len(want)
            continue
        else:
            texts = np.array([text for text, _ in rows])
            got = onnx_cast.cast(texts, words[1])
            want = array_of([int(pattern, 16) for _, pattern in rows], dtypes.of(words[1]).numpy)
        wrong = np.flatnonzero(bits(got) != bits(want))
        assert not wrong.size, f"{label}: {wrong.size} differ, the first at {wrong[0]}"
        compared += want.size
    assert compared > 1_000_000
