#!/usr/bin/env python3
"""Compares checkpoints that `onnx-cast quantize` writes with those of the layouts' owners, bit for bit, and loads them
with transformers.

Needs the packages of scripts/generate/quantized_checkpoints.py, whose functions make the owners' checkpoints:
`quantized_layouts.py PATH/TO/onnx-cast`. Each case is a small Llama in bfloat16: quantized by the owner and by the
command, the tensors of weights must be equal. Then the command's checkpoint is dequantized by the owner's package where
transformers loads it on a CPU, and one forward pass must give the logits of the dequantized weights.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

HERE = Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("owners", HERE.parent / "generate" / "quantized_checkpoints.py")
owners = importlib.util.module_from_spec(spec)
spec.loader.exec_module(owners)

#: Tensors of owners that are about activations, which weights alone do not give.
ACTIVATIONS = ("input_scale", "input_global_scale", "k_scale", "v_scale", "output_scale")

#: Names of cases, the owner's tensors, and the options that give the same.
CASES = {}


def case(name, owner, *options):
    CASES[name] = (owner, options)


def compressed(seed, *groups, **more):
    return lambda: owners.compressed_llama(list(groups), seed, **more)[0]


def modelopt(seed, config):
    def tensors():
        import modelopt.torch.quantization as mtq

        return owners.exported(owners.llama(seed), getattr(mtq, config))[0]

    return tensors


def deepseek(seed, block):
    def tensors():
        found = {}
        for key, value in owners.llama(seed).state_dict().items():
            if key.endswith("_proj.weight"):
                found[key], found[f"{key}_scale_inv"] = owners.fp8_in_blocks(value, block)
            else:
                found[key] = value
        return found

    return tensors


g = owners.group
case("compressed-tensors nvfp4", compressed(1, owners.preset("NVFP4A16")), "--to", "nvfp4")
case("compressed-tensors mxfp4", compressed(2, owners.preset("MXFP4")), "--to", "mxfp4", "--scale-rule", "even")
case("compressed-tensors mxfp8", compressed(3, owners.preset("MXFP8")), "--to", "mxfp8", "--scale-rule", "even")
case("compressed-tensors mxfp6", compressed(4, owners.preset("MXFP6A16")), "--to", "mxfp6e2m3", "--scale-rule", "even")
case("compressed-tensors fp8", compressed(5, g(8, "float", "tensor")), "--to", "e4m3fn/tensor")
case("compressed-tensors fp8 by rows", compressed(6, g(8, "float", "channel")), "--to", "e4m3fn")
blocks = g(8, "float", "block", activations=owners.FLOAT8, block_structure=[16, 16])
case("compressed-tensors fp8 in blocks", compressed(7, blocks), "--to", "e4m3fn/16x16")
case("compressed-tensors int4", compressed(8, g(4, "int", "group", group_size=32)), "--to", "int4")
case("compressed-tensors int4 by rows", compressed(9, g(4, "int", "channel")), "--to", "int4/row")
case("compressed-tensors int8", compressed(10, g(8, "int", "channel")), "--to", "int8")
case("modelopt nvfp4", modelopt(11, "NVFP4_DEFAULT_CFG"), "--to", "nvfp4", "--layout", "modelopt")
case("modelopt mxfp8", modelopt(12, "MXFP8_DEFAULT_CFG"), "--to", "mxfp8", "--layout", "modelopt", "--scale-rule", "rceil")
case("modelopt fp8 by rows", modelopt(14, "FP8_PER_CHANNEL_PER_TOKEN_CFG"), "--to", "e4m3fn", "--layout", "modelopt")
case("deepseek", deepseek(15, (128, 128)), "--to", "e4m3fn", "--layout", "deepseek")
case("deepseek 16x32", deepseek(16, (16, 32)), "--to", "e4m3fn/16x32", "--layout", "deepseek")

#: Layouts that transformers loads on a CPU.
LOADED = "compressed-tensors"


#: Where an owner's arithmetic is another one, by case: why, and which tensors may differ.
QUIRKS = {
    "compressed-tensors mxfp8": ("its scales round amax to the significand of float4", ("weight", "weight_scale")),
    "compressed-tensors mxfp6": ("its scales round amax to the significand of float4", ("weight_packed", "weight_scale")),
    # Joined matrices have one global scale here, as llm-compressor and ModelOpt give them.
    "compressed-tensors nvfp4": ("it leaves the scales of joined matrices apart", tuple(
        f"{module}_proj.{part}" for module in ("q", "k", "v", "gate", "up")
        for part in ("weight_packed", "weight_scale", "weight_global_scale"))),
}


def without_negative_zero(key, value):
    """Codes with -0 as 0: compressed-tensors and ModelOpt lose the sign."""
    value = value.contiguous().flatten()
    if value.dtype == torch.float8_e4m3fn and not key.endswith("scale"):
        value = value.view(torch.uint8)
        return torch.where(value == 0x80, 0, value)
    if value.dtype == torch.uint8 and not key.endswith("scale") and "mxfp6" not in key:
        low, high = value & 15, value >> 4
        return torch.where(low == 8, 0, low) | torch.where(high == 8, 0, high) << 4
    return value.view(torch.uint8)


def compare(name, ours, theirs):
    """What differs between two checkpoints, but for what is named above."""
    differences = []
    why, parts = QUIRKS.get(name, ("", ()))
    theirs = {key: value for key, value in theirs.items() if not key.endswith(ACTIVATIONS)}
    for key in sorted(ours.keys() ^ theirs.keys()):
        differences.append(f"{key} is only in {'ours' if key in ours else 'theirs'}")
    for key in sorted(ours.keys() & theirs.keys()):
        a, b = ours[key], theirs[key]
        if a.dtype != b.dtype or a.numel() != b.numel():
            differences.append(f"{key}: {a.dtype} {tuple(a.shape)}, theirs {b.dtype} {tuple(b.shape)}")
        elif other := (without_negative_zero(key, a) != without_negative_zero(key, b)).sum().item():
            if parts and key.endswith(parts):
                print(f"{name}: {key}: {other} of {a.nbytes} bytes differ: {why}")
            else:
                differences.append(f"{key}: {other} of {a.nbytes} bytes differ")
    return [f"{name}: {difference}" for difference in differences]


def logits(folder):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    with torch.no_grad():
        return model(torch.arange(8).view(1, 8)).logits.float()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", type=Path)
    parser.add_argument("cases", nargs="*", help="parts of names of cases; all of them where there are none")
    args = parser.parse_args()
    differences, weights = [], 0
    for number, (name, (owner, options)) in enumerate(CASES.items(), 1):
        if args.cases and not any(part in name for part in args.cases):
            continue
        theirs = owner()
        with tempfile.TemporaryDirectory() as folder:
            plain, ours, back = (Path(folder) / name for name in ("plain", "ours", "back"))
            owners.llama(number).save_pretrained(plain)
            run = [args.command, "quantize", plain, ours, *options, "--quiet"]
            subprocess.run(run, check=True)
            found = load_file(ours / "model.safetensors")
            differences += compare(name, found, theirs)
            weights += sum(value.numel() for value in found.values())
            if name.startswith(LOADED):
                subprocess.run([args.command, "dequantize", ours, back, "--to", "bf16", "--quiet"], check=True)
                far = (logits(ours) - logits(back)).abs().max().item()
                reach = logits(back).abs().max().item()
                print(f"{name}: logits differ by {far:.2g} of {reach:.2g}", flush=True)
                if not far <= 0.02 * reach:
                    differences.append(f"{name}: the logits of transformers' weights differ by {far}")
        print(f"{name}: compared", flush=True)
    print(*differences, sep="\n")
    print(f"{weights} items of tensors compared, {len(differences)} tensors differ")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
