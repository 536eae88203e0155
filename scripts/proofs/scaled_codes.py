#!/usr/bin/env python3
"""Compares the values that `onnx-cast dequantize` gives for every code with those of the owners' code, bit for bit.

- Every float8e4m3fn by 10^6 float scales: the product in float, as DeepSeek's `weight_dequant` and fbgemm have it.
- Every float4e2m1 and float8e4m3fn by every float8e8m0 scale: ModelOpt's MXFP4 and MXFP8 tensors.
- Every float4e2m1 by every float8e4m3fn scale by 10^4 global scales: ModelOpt's NVFP4 tensors, and compressed-tensors'
  `dequantize`, whose global scale is a divisor.

Each to bfloat16, float16 and float. Where the owner gives NaN, any NaN is equal. Needs torch, nvidia-modelopt and
compressed-tensors: `scaled_codes.py PATH/TO/onnx-cast [--record FILE]`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize as ct_dequantize
from modelopt.torch.quantization.qtensor import MXFP4QTensor, MXFP8QTensor
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import harness  # noqa: E402

TARGETS = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float": torch.float32}
FLOAT8 = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(torch.float8_e4m3fn)


def read_back(command, folder, config, tensors, target):
    """The weights as the command reads them, by name."""
    source, result = folder / "in", folder / "out"
    source.mkdir(exist_ok=True)
    save_file(tensors, source / "model.safetensors")
    (source / "config.json").write_text(json.dumps({"quantization_config": config}))
    subprocess.run([command, "dequantize", "-q", source, result, "--to", target, "--allow-nan"], check=True)
    return load_file(result / "model.safetensors")


def differing(got, want):
    """How many values differ; of bits, but for NaN."""
    width = {2: torch.int16, 4: torch.int32}[want.element_size()]
    same = (got.view(width) == want.view(width)) | (got.isnan() & want.isnan())
    return int((~same).sum())


def by_row(seed, rows):
    """Every float8e4m3fn in each row, and random positive floats as scales: of all exponents, subnormals too."""
    bits = torch.randint(1, 0x7F800000, (rows, 1), generator=torch.Generator().manual_seed(seed), dtype=torch.int32)
    return FLOAT8.repeat(rows, 1), bits.view(torch.float32)


def float8_by_floats():
    for seed in range(8):
        elements, scales = by_row(seed, 125_000)
        tensors = {"a.weight": elements, "a.weight_scale": scales}
        want = elements.to(torch.float32) * scales
        yield {"quant_method": "fbgemm_fp8"}, tensors, lambda to, want=want: {"a.weight": want.to(to)}


def by_powers():
    powers = torch.arange(256, dtype=torch.int32).to(torch.uint8)[:, None]
    codes = torch.arange(32, dtype=torch.int32) % 16
    packed = (codes[0::2] | codes[1::2] << 4).to(torch.uint8).repeat(256, 1)
    tensors = {"a.weight": packed, "a.weight_scale": powers}
    held = MXFP4QTensor((256, 32), torch.float32, packed)

    def want(to):
        found = held.dequantize(dtype=to, scale=powers, block_sizes={-1: 32})
        # ModelOpt has 2^128 for the code that is NaN.
        found[255] = torch.nan
        return {"a.weight": found}

    yield {"quant_method": "modelopt", "quant_algo": "W4A16_MXFP4"}, tensors, want
    elements, powers = FLOAT8.repeat(256, 1), powers.repeat(1, 8)
    wide = MXFP8QTensor((256, 256), torch.float32, elements)

    def want_wide(to):
        found = wide.dequantize(dtype=to, scale=powers)
        found[255] = torch.nan
        return {"a.weight": found}

    yield {"quant_method": "modelopt", "quant_algo": "MXFP8"}, {"a.weight": elements, "a.weight_scale": powers}, want_wide


def windows():
    """Global scales, a thousand at a time whose sizes are alike: others look as if some were inverted."""
    for seed in range(10):
        random = torch.rand(1000, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        yield torch.exp2(random * 6 - 127 + 13 * seed).to(torch.float32)


def by_two_scales():
    codes = torch.arange(16, dtype=torch.int32)
    packed = (codes[0::2] | codes[1::2] << 4).to(torch.uint8).repeat(256, 1)
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]).repeat(256, 1)
    scales = FLOAT8[:, None]
    for globals_ in windows():
        tensors = {}
        for i, scale in enumerate(globals_):
            tensors |= {f"{i}.weight": packed.clone(), f"{i}.weight_scale": scales.clone(), f"{i}.weight_scale_2": scale.clone()}

        def want(to, globals_=globals_):
            held = NVFP4QTensor((256, 16), torch.float32, packed)
            more = {"dtype": to, "scale": scales, "block_sizes": {-1: 16}}
            found = {f"{i}.weight": held.dequantize(double_scale=scale, **more) for i, scale in enumerate(globals_)}
            # ModelOpt reads code 8, which is -0, as 0.
            for one in found.values():
                one[:, 8] = -one[:, 0]
            return found

        yield {"quant_method": "modelopt", "quant_algo": "NVFP4"}, tensors, want
        divisors = 1 / globals_
        if not divisors.isfinite().all():
            continue
        tensors = {}
        for i, scale in enumerate(divisors):
            tensors |= {f"{i}.weight_packed": packed.clone(), f"{i}.weight_scale": scales.clone(),
                        f"{i}.weight_global_scale": scale[None].clone()}
        weights = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}
        config = {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
                  "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights, "format": "nvfp4-pack-quantized"}}}

        def want_divided(to, divisors=divisors):
            how = {"args": QuantizationArgs(**weights), "dtype": torch.float32}
            of = (ct_dequantize(values, scales.to(torch.float32), global_scale=divisor, **how) for divisor in divisors)
            return {f"{i}.weight": found.to(to) for i, found in enumerate(of)}

        yield config, tensors, want_divided


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", type=Path)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    rows, bad = [], 0
    for name, cases in ("float8e4m3fn by floats", float8_by_floats), ("by float8e8m0", by_powers), ("nvfp4", by_two_scales):
        values, wrong = 0, 0
        for config, tensors, want in cases():
            for target, to in TARGETS.items():
                with tempfile.TemporaryDirectory() as folder:
                    got = read_back(args.command.resolve(), Path(folder), config, tensors, target)
                for tensor, expected in want(to).items():
                    values += expected.numel()
                    wrong += differing(got[tensor], expected)
        rows.append([name, values, wrong])
        print(*rows[-1], sep=" | ", flush=True)
        bad += wrong
    if args.record and not bad:
        packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "nvidia-modelopt", "compressed-tensors"))
        lines = harness.table(["codes", "values", "differing"], rows)
        harness.record(args.record, ", codes of quantized weights", f"`scripts/proofs/scaled_codes.py`; {packages}", lines)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
