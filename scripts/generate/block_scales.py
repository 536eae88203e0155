#!/usr/bin/env python3
"""Writes crates/testkit/data/block_scales.json: blocks of MX and tensors of NVFP4, as torchao, ModelOpt and
compressed-tensors quantize them on a CPU.

Needs torch, torchao, nvidia-modelopt, compressed-tensors, transformers, psutil, requests, scipy and ninja, in an
environment of their own. `block_scales.py --count N` writes N random inputs of each kind beside the chosen ones, and
`--out FILE` writes elsewhere: `BLOCK_SCALES=FILE cargo test -p testkit --test block_scales` compares the oracle with
those.
"""

import argparse
import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from compressed_tensors.compressors.nvfp4.helpers import quantize_and_pack_fp4
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.utils.helpers import calculate_qparams, generate_gparam
from modelopt.torch.quantization.qtensor.mxfp4_tensor import MXFP4QTensor
from modelopt.torch.quantization.qtensor.mxfp8_tensor import MXFP8QTensor
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.constants import DTYPE_FP6_E2M3, DTYPE_FP6_E3M2
from torchao.prototype.mx_formats.mx_tensor import to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import nvfp4_quantize, per_tensor_amax_to_scale

OUT = Path(__file__).resolve().parents[2] / "crates" / "testkit" / "data" / "block_scales.json"
PACKAGES = ("torch", "torchao", "nvidia-modelopt", "compressed-tensors")
ELEMENTS = {
    "float8e4m3fn": torch.float8_e4m3fn, "float8e5m2": torch.float8_e5m2, "float6e2m3": DTYPE_FP6_E2M3,
    "float6e3m2": DTYPE_FP6_E3M2, "float4e2m1": torch.float4_e2m1fn_x2,
}  # fmt: skip
LARGEST = (448.0, 57344.0, 7.5, 28.0, 6.0)
RULES = {rule: ScaleCalculationMode[rule.upper()] for rule in ("floor", "rceil", "ceil", "even")}


def hexadecimal(array):
    """The bytes of an array, in the order of its elements, each with the highest digit first."""
    array = np.ascontiguousarray(array)
    return array.astype(array.dtype.newbyteorder(">")).tobytes().hex()


def beside(value):
    """A float and its two neighbours."""
    value = np.float32(value)
    return [np.nextafter(value, np.float32(0)), value, np.nextafter(value, np.float32(np.inf))]


def with_greatest(greatest, rng):
    """A block of random values, of which one is the greatest."""
    block = (rng.uniform(-1, 1, 32) * float(greatest)).astype(np.float32)
    block[rng.integers(32)] = greatest
    return block


def mx_blocks(rng, count):
    """Names and blocks of 32 floats."""
    for exponent in (-100, -20, -3, 0, 5, 30, 100):
        yield f"random * 2^{exponent}", np.ldexp(rng.standard_normal(32), exponent)
    edges = [(f"2^{exponent}", 2.0**exponent) for exponent in (-90, 0, 11, 90)]
    edges += [(f"{largest}", largest) for largest in LARGEST]
    edges += [(f"a tie of {bits} bits", 2 - 2.0 ** -(bits + 1)) for bits in (1, 2, 3)]
    for name, value in edges:
        for place, greatest in zip(("below", "at", "above"), beside(value), strict=True):
            yield f"{place} {name}", with_greatest(greatest, rng)
    ties = (np.arange(32) + 1) / 16
    yield "ties, of 2", ties * np.where(np.arange(32) % 2, -1, 1)
    yield "ties, of 8", 4 * ties
    yield "ties, small", np.append((np.arange(31) - 15) * 2.0**-10, 1.875)
    yield "zero", np.zeros(32)
    yield "minus zero", np.append(np.zeros(31), -0.0)
    yield "least scale", with_greatest(2.0**-126, rng)
    yield "subnormal", (np.arange(32) * 2.0**-140).astype(np.float32)
    yield "greatest float", with_greatest(np.finfo(np.float32).max, rng)
    yield "infinity", np.append(np.ones(31), -np.inf)
    yield "NaN", np.append(np.ones(31), np.nan)
    for number in range(count):
        yield f"random {number}", np.ldexp(rng.standard_normal(32), int(rng.integers(-100, 100)))


def nvfp4_tensors(rng, count):
    """Names, types and tensors of 64 floats."""
    for exponent in (-60, -6, 0, 20, 100):
        yield f"random * 2^{exponent}", "float", np.ldexp(rng.standard_normal(64), exponent)
    for number in range(2):
        blocks = np.repeat(2.0 ** -rng.integers(0, 24, 4), 16)
        yield f"blocks of many sizes {number}", "float", rng.standard_normal(64) * blocks
    ties = np.concatenate([np.arange(47) / 8 * np.where(np.arange(47) % 2, -1, 1), np.full(16, 6.0), [2688.0]])
    yield "ties", "float", ties
    zero = rng.standard_normal(64)
    zero[16:32] = 0
    zero[20] = -0.0
    yield "a block of zeros", "float", zero
    tiny = rng.standard_normal(64)
    tiny[16:32] *= 2.0**-40
    tiny[32:48] *= 2.0**-140
    yield "a tiny block", "float", tiny
    yield "all zero", "float", np.zeros(64)
    yield "small", "float", rng.standard_normal(64) * 2.0**-125
    yield "subnormal", "float", rng.standard_normal(64) * 2.0**-140
    yield "great", "float", np.ldexp(rng.uniform(-1, 1, 64), 128)
    for name, value in (("infinity", np.inf), ("NaN", np.nan)):
        special = rng.standard_normal(64)
        special[17] = value
        yield name, "float", special
    for exponent in (-6, 0, 3):
        yield f"bfloat16 * 2^{exponent}", "bfloat16", np.ldexp(rng.standard_normal(64), exponent)
    for number in range(count):
        yield f"random {number}", "float", np.ldexp(rng.standard_normal(64), int(rng.integers(-60, 60)))
        yield f"bfloat16 random {number}", "bfloat16", np.ldexp(rng.standard_normal(64), int(rng.integers(-20, 20)))


def unpacked(packed):
    """Codes of 4 bits, one in each byte, of those that lie two in a byte."""
    packed = packed.view(torch.uint8).numpy()
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(*packed.shape[:-1], -1)


def mx_results(blocks):
    """Owner, rule, element type, and scales and elements, of all blocks."""
    blocks = torch.from_numpy(blocks)
    for rule, mode in RULES.items():
        for name, dtype in ELEMENTS.items():
            scales, elements = to_mx(blocks, dtype, 32, mode)
            elements = unpacked(elements) if name == "float4e2m1" else elements.view(torch.uint8).numpy()
            yield "torchao", rule, name, (scales.view(torch.uint8).numpy(), elements)
    tensor, scales = MXFP8QTensor.quantize(blocks)
    elements = tensor._quantized_data.view(torch.uint8).numpy()
    yield "modelopt", "rceil", "float8e4m3fn", (scales.numpy(), elements)
    tensor, scales = MXFP4QTensor.quantize(blocks, 32)
    yield "modelopt", "rceil", "float4e2m1", (scales.numpy(), unpacked(tensor._quantized_data))


def modelopt(values):
    """Global scale, block scales and elements of NVFP4 by ModelOpt."""
    tensor, scales, scale = NVFP4QTensor.quantize(values.float(), 16)
    return scale, scales, tensor._quantized_data


def torchao(values):
    """The same by torchao."""
    scale = per_tensor_amax_to_scale(values.abs().amax())
    scales, elements = nvfp4_quantize(values, 16, scale)
    return scale, scales, elements


NVFP4 = QuantizationArgs(
    num_bits=4, type="float", strategy="tensor_group", group_size=16, scale_dtype=torch.float8_e4m3fn,
    zp_dtype=torch.float8_e4m3fn,
)  # fmt: skip


def compressed_tensors(values):
    """The same by compressed-tensors."""
    scale = generate_gparam(values.amin(), values.amax())
    blocks = values.reshape(-1, 16)
    scales, _ = calculate_qparams(blocks.amin(-1), blocks.amax(-1), NVFP4, scale)
    elements = quantize_and_pack_fp4(values, scales.reshape(len(values), -1), scale)
    return scale, scales.to(torch.float8_e4m3fn), elements


RECIPES = {"modelopt": modelopt, "torchao": torchao, "compressed-tensors": compressed_tensors}


def lines_of(value, depth=0):
    """JSON in which a record, a dictionary whose values are not records, takes one line."""
    parts = list(value.items()) if isinstance(value, dict) else [(None, item) for item in value]
    if not any(isinstance(item, (dict, list)) for _, item in parts):
        return json.dumps(value)
    inner = ",\n".join(" " * (depth + 1) + (f'"{name}": ' if name else "") + (lines_of(item, depth + 1)
                       if isinstance(item, (dict, list)) else json.dumps(item)) for name, item in parts)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{opening}\n{inner}\n{' ' * depth}{closing}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    rng = np.random.default_rng(17)
    names, blocks = zip(*mx_blocks(rng, arguments.count), strict=True)
    blocks = np.stack([block.astype(np.float32) for block in blocks])
    mx = {"blocks": [{"name": name, "values": hexadecimal(block)} for name, block in zip(names, blocks, strict=True)]}
    keys = ("owner", "rule", "element", "scales", "elements")
    mx["results"] = [dict(zip(keys, (*said, *map(hexadecimal, arrays)))) for *said, arrays in mx_results(blocks)]
    nvfp4 = []
    with np.errstate(over="ignore"):
        tensors = [(name, dtype, x.astype(np.float32)) for name, dtype, x in nvfp4_tensors(rng, arguments.count)]
    for name, dtype, values in tensors:
        values = torch.from_numpy(values)
        if dtype == "bfloat16":
            values = values.bfloat16()
        entry = {"name": name, "type": dtype, "values": hexadecimal(values.float().numpy()), "results": []}
        for owner, quantize in RECIPES.items():
            scale, scales, elements = quantize(values.reshape(1, -1))
            arrays = {"global": scale.float().numpy(), "scales": scales.view(torch.uint8).numpy()}
            arrays = {key: hexadecimal(array) for key, array in (arrays | {"elements": unpacked(elements)}).items()}
            entry["results"].append({"owner": owner} | arrays)
        nvfp4.append(entry)
    made = {"versions": {name: version(name) for name in PACKAGES}, "mx": mx, "nvfp4": nvfp4}
    arguments.out.parent.mkdir(exist_ok=True)
    arguments.out.write_text(lines_of(made) + "\n")


if __name__ == "__main__":
    main()
