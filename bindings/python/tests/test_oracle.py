"""Does the package give what the exact oracle gives, which shares no code with the library?"""

import sys
from pathlib import Path

import numpy as np
from bitwise import array_of, bits

import onnx_cast
from onnx_cast import dtypes

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "crates" / "testkit" / "python"))
from oracle_table import blocks  # noqa: E402


def test_casts_prints_and_readings_are_the_oracles():
    compared = 0
    for words, rows in blocks():
        label = " ".join(words)
        types = words[1:3] if words[0] == "cast" else words[1:2]
        if any(dtypes.of(name).numpy is None for name in types):
            continue  # neither numpy nor ml_dtypes has arrays of it
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
