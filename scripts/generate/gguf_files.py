#!/usr/bin/env python3
"""Writes crates/testkit/data/gguf/: `tensors.gguf` and `grids.gguf`, with tensors of every type that is read, and
beside each, `expected.safetensors` and `grids_expected.safetensors`, the values of its quantized tensors in float, as
the gguf package dequantizes them. `grids.gguf` has the IQ and TQ types, with every row of every grid.

Needs gguf, numpy and safetensors. For Q8_K, which the package does not dequantize, and for the scales beside NVFP4,
which are no part of its blocks, the values are those of llama.cpp's own functions, written out here.
"""

from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, quants
from gguf.constants import GGML_QUANT_SIZES
from safetensors.numpy import save_file

OUT = Path(__file__).resolve().parents[2] / "crates" / "testkit" / "data" / "gguf"

# Where the scales of a block stand that are float16; the same of the types with grids, and of those beside them.
HALVES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0], Type.Q2_K: [80, 82],
    Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208], Type.Q8_K: [], Type.MXFP4: [],
    Type.NVFP4: [],
}  # fmt: skip
GRID_HALVES = {
    Type.IQ2_XXS: [0], Type.IQ2_XS: [0], Type.IQ2_S: [0], Type.IQ3_XXS: [0], Type.IQ3_S: [0], Type.IQ1_S: [0],
    Type.IQ1_M: [], Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.TQ1_0: [52], Type.TQ2_0: [64],
}  # fmt: skip

# Zeros, subnormal and normal numbers, the least and the greatest.
EDGES = [0.0, -0.0, 6e-8, -6e-8, 6.1e-5, 3.05e-5, -1.0, 65504.0, -65504.0, 0.1, 2.0**-14, -(2.0**-24)]
EDGES = np.array(EDGES, np.float16)


def random_blocks(rng, kind, count, edges):
    """Blocks of any bits, with scales as trained weights have them, or with those at the edges of their type."""
    blocks = rng.integers(0, 256, (count, GGML_QUANT_SIZES[kind][1]), np.uint8)
    # There are fewer of the larger blocks.
    some = EDGES if count >= len(EDGES) else EDGES[[2, 8, 4]]
    for place, at in enumerate((HALVES | GRID_HALVES)[kind]):
        scales = np.roll(np.resize(some, count), place * 5) if edges else rng.normal(0, 0.01, count)
        blocks[:, at : at + 2] = scales.astype(np.float16).view(np.uint8).reshape(count, 2)
    if kind == Type.IQ1_M:
        # Four bits of the scale in the upper bits of each of four words.
        scales = np.resize(some, count) if edges else rng.normal(0, 0.01, count)
        bits = scales.astype(np.float16).view(np.uint16).reshape(count, 1) >> np.uint16([0, 4, 8, 12]) & 15
        words = np.ascontiguousarray(blocks[:, 48:56]).view(np.uint16)
        blocks[:, 48:56] = (words & 0xFFF | bits << 12).astype(np.uint16).view(np.uint8)
    if kind == Type.Q8_K:
        scales = np.resize(np.float32([1e-40, -1.5, 3e38, 0.0]), count) if edges else rng.normal(0, 0.01, count)
        blocks[:, :4] = scales.astype(np.float32).view(np.uint8).reshape(count, 4)
    if kind == Type.MXFP4:
        # 0xFF is NaN: a test of its own.
        blocks[:, 0] = np.resize([0, 1, 2, 3, 127, 253, 254], count) if edges else rng.integers(110, 130, count)
    if kind == Type.NVFP4:
        scales = rng.permutation(256)[: count * 4] if edges else rng.integers(0, 0x7F, count * 4)
        blocks[:, :4] = np.where(scales == 0x7F, 0x7E, scales).reshape(count, 4)
    return blocks


def put_bits(words, place, shift, mask, bits):
    words[place] = int(words[place]) & ~(mask << shift) | bits << shift


def every_row(rng, kind):
    """Blocks whose groups are the rows of a grid, one after the other."""
    rows = quants._type_traits[kind].grid_shape[0]
    groups = 256 // quants._type_traits[kind].grid_shape[1]
    blocks = random_blocks(rng, kind, rows // groups, False)
    for row in range(rows):
        block, group = divmod(row, groups)
        one, low, high = blocks[block], row & 255, row >> 8
        # Where the eight lower bits of the row's number are, and those above.
        places = {Type.IQ2_XXS: 2 + group // 4 * 8 + group % 4, Type.IQ2_XS: 2 + 2 * group}
        one[places.get(kind, 2 + group)] = low
        if kind == Type.IQ2_XS:
            one[3 + 2 * group] = int(one[3 + 2 * group]) & 0xFE | high
        elif kind == Type.IQ2_S:
            put_bits(one, 66 + group // 4, group % 4 * 2, 3, high)
        elif kind == Type.IQ3_S:
            put_bits(one, 66 + group // 8, group % 8, 1, high)
        elif kind == Type.IQ1_S:
            put_bits(one[34 + group // 4 * 2 :][:2].view(np.uint16), 0, group % 4 * 3, 7, high)
    return blocks


def values_of(blocks, kind):
    """The values of blocks."""
    if kind != Type.Q8_K:
        return quants.dequantize(blocks, kind)
    each = blocks.reshape(-1, GGML_QUANT_SIZES[kind][1])
    scales = np.ascontiguousarray(each[:, :4]).view(np.float32)
    return (scales * each[:, 4:260].view(np.int8).astype(np.float32)).reshape(blocks.shape[0], -1)


def scaled_nvfp4(blocks, scale):
    """Values with a scale of the tensor, which is multiplied by the blocks' scales first."""
    each = blocks.reshape(-1, 36)
    scales = quants.NVFP4.ue4m3_to_fp32(each[:, :4]).astype(np.float32) * np.float32(scale)
    codes = each[:, 4:].reshape(-1, 4, 8)
    codes = np.concatenate([codes & 15, codes >> 4], axis=-1)
    values = np.array(quants.NVFP4.kvalues, np.float32)[codes]
    return (scales[..., None] * values).reshape(*blocks.shape[:-1], -1)


class File:
    """A file that is being written, and the values that its quantized tensors must have."""

    def __init__(self, name):
        self.writer, self.expected = GGUFWriter(OUT / name, "llama"), {}

    def add(self, name, blocks, kind, values=None):
        self.writer.add_tensor(name, blocks, raw_dtype=kind)
        with np.errstate(over="ignore", invalid="ignore"):
            self.expected[name] = values_of(blocks, kind) if values is None else values

    def add_random(self, rng, kind):
        elements = GGML_QUANT_SIZES[kind][0]
        for name, edges in (("random", False), ("edges", True)):
            self.add(f"{kind.name}.{name}", random_blocks(rng, kind, 3 * 256 // elements, edges).reshape(3, -1), kind)

    def save(self, name):
        finish(self.writer)
        expected = {tensor: np.ascontiguousarray(values, np.float32) for tensor, values in self.expected.items()}
        save_file(expected, OUT / name)
        (OUT / name).chmod(0o644)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def grids():
    """The types with grids, and a tensor with the shape that ComfyUI-GGUF keeps for it."""
    rng, file = np.random.default_rng(21), File("grids.gguf")
    file.writer.add_array("comfy.gguf.orig_shape.conv.weight", [4, 8, 3, 2, 2])
    for kind in GRID_HALVES:
        file.add_random(rng, kind)
        if kind.name.startswith("IQ") and kind not in (Type.IQ1_M, Type.IQ4_NL, Type.IQ4_XS):
            file.add(f"{kind.name}.grid", every_row(rng, kind), kind)
    blocks = quants.quantize(rng.normal(0, 0.05, (12, 32)).astype(np.float32), Type.Q8_0)
    file.add("conv.weight", blocks, Type.Q8_0, quants.dequantize(blocks, Type.Q8_0).reshape(4, 8, 3, 2, 2))
    file.save("grids_expected.safetensors")


def tensors():
    rng, file = np.random.default_rng(18), File("tensors.gguf")
    writer = file.writer
    writer.add_name("types")
    writer.add_array("tokenizer.ggml.tokens", ["a", "", "\u00e9\n"])
    writer.add_array("tokenizer.ggml.scores", [0.5, -1.0])
    writer.add_bool("some.flag", True)
    writer.add_float64("some.number", 0.25)
    for kind in HALVES:
        file.add_random(rng, kind)
    for kind in (Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.MXFP4):
        weights = rng.normal(0, 0.05, (2, 2, 64)).astype(np.float32)
        weights[0, 0, :32] = 0
        file.add(f"{kind.name}.weights", quants.quantize(weights, kind), kind)
    blocks = random_blocks(rng, Type.NVFP4, 2, False).reshape(2, -1)
    file.add("layer.weight", blocks, Type.NVFP4, scaled_nvfp4(blocks, 0.0037))
    writer.add_tensor("layer.scale", np.float32([0.0037]))
    writer.add_tensor("layer.input_scale", np.float32([0.5]))
    blocks = random_blocks(rng, Type.NVFP4, 6, False).reshape(3, 2, -1)
    scales = np.float32([0.1, 0.7, -1.3])
    values = np.stack([scaled_nvfp4(matrix, scale) for matrix, scale in zip(blocks, scales, strict=True)])
    file.add("experts.weight", blocks, Type.NVFP4, values)
    writer.add_tensor("experts.scale", scales)
    for dtype in (np.float32, np.float16, np.float64, np.int8, np.int16, np.int32, np.int64):
        writer.add_tensor(f"plain.{np.dtype(dtype).name}", (rng.normal(0, 50, (3, 5))).astype(dtype))
    writer.add_tensor("plain.bfloat16", quants.quantize(np.float32([[1.5, -0.1]]), Type.BF16), raw_dtype=Type.BF16)
    file.save("expected.safetensors")


if __name__ == "__main__":
    grids()
    tensors()
