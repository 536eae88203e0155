#!/usr/bin/env python3
"""Writes crates/onnx-cast-file/src/layouts/gguf/grids.bin: the grids of GGUF's IQ types, one after the other.

They are numbers of ggml (ggml-common.h, MIT License, Copyright (c) 2023-2026 The ggml authors), which the gguf package
(gguf/quants.py, the same licence) holds packed: a row is 16 bits, the first element in the lowest. Needs gguf.
"""

from pathlib import Path

from gguf import quants

OUT = Path(__file__).resolve().parents[2] / "crates" / "onnx-cast-file" / "src" / "layouts" / "gguf" / "grids.bin"

# In the order of the file. IQ1_M has the grid of IQ1_S.
GRIDS = [quants.IQ2_XXS, quants.IQ2_XS, quants.IQ2_S, quants.IQ3_XXS, quants.IQ3_S, quants.IQ1_S]


def main():
    OUT.write_bytes(b"".join(bytes.fromhex(grid.grid_hex.decode()) for grid in GRIDS))


if __name__ == "__main__":
    main()
