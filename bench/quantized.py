#!/usr/bin/env python3
"""Measures `onnx-cast dequantize` and `quantize` beside `onnx-cast cast` of as many weights, and beside others' code on the
same files. Usage: quantized.py COMMAND FOLDER [--rounds N] [--weights N]; needs torch, safetensors, compressed-tensors,
transformers, gguf and numpy.

All in one run and in turn, the inputs in the page cache, one thread each; the medians of the rounds are printed. Scripts
tell the seconds of their work, without those of their imports. "weights/s" are millions of weights each second.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

START = """
import os, sys, time
import torch
torch.set_num_threads(1)
from safetensors.torch import load_file, save_file
source, out = sys.argv[1], sys.argv[2]
"""

#: DeepSeek's `weight_dequant`, whose kernel needs a GPU, as tensors of torch.
FP8 = START + """
start = time.perf_counter()
tensors, plain = load_file(f"{source}/model.safetensors"), {}
for name, weight in tensors.items():
    if name.endswith("weight"):
        scale = tensors[f"{name}_scale_inv"]
        rows, columns = (size // count for size, count in zip(weight.shape, scale.shape))
        spread = scale.repeat_interleave(rows, 0).repeat_interleave(columns, 1)
        plain[name] = (weight.to(torch.float32) * spread).to(torch.bfloat16)
os.makedirs(out, exist_ok=True)
save_file(plain, f"{out}/model.safetensors")
print(time.perf_counter() - start)
"""

#: The inverse: the arithmetic of DeepSeek's `act_quant`, by blocks of rows and columns.
TO_FP8 = START + """
start = time.perf_counter()
quantized = {}
for name, weight in load_file(f"{source}/model.safetensors").items():
    rows, columns = weight.shape
    blocks = weight.to(torch.float32).view(rows // 128, 128, columns // 128, 128)
    scale = blocks.abs().amax((1, 3)) / 448
    quantized[name] = (blocks / scale[:, None, :, None]).to(torch.float8_e4m3fn).view(rows, columns)
    quantized[f"{name}_scale_inv"] = scale
os.makedirs(out, exist_ok=True)
save_file(quantized, f"{out}/model.safetensors")
print(time.perf_counter() - start)
"""

CONVERTED = START + """
from compressed_tensors.entrypoints.convert import convert_checkpoint
from compressed_tensors.entrypoints.convert.converters.{module} import *
start = time.perf_counter()
convert_checkpoint(source, out, {converter}(source), max_workers=1, device="cpu")
print(time.perf_counter() - start)
"""

MXFP4 = START + """
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
start = time.perf_counter()
tensors, plain = load_file(f"{source}/model.safetensors"), {}
for name, blocks in tensors.items():
    if name.endswith("_blocks"):
        module = name.removesuffix("_blocks")
        plain[module] = convert_moe_packed_tensors(blocks, tensors[f"{module}_scales"]).contiguous()
os.makedirs(out, exist_ok=True)
save_file(plain, f"{out}/model.safetensors")
print(time.perf_counter() - start)
"""

GGUF = """
import sys, time
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize
from safetensors.numpy import save_file
start = time.perf_counter()
reader = GGUFReader(sys.argv[1])
save_file({t.name: dequantize(t.data, t.tensor_type).astype(np.float16) for t in reader.tensors}, sys.argv[2])
print(time.perf_counter() - start)
"""

MAKE = """
import sys
import numpy as np
import torch
from gguf import GGMLQuantizationType, GGUFWriter
from gguf.quants import quantize
from safetensors.torch import save_file
folder, count = sys.argv[1], int(sys.argv[2])
size = 4096
torch.manual_seed(1)
weights = {f"layers.{i}.proj.weight": (torch.randn(size, size) / 64).to(torch.bfloat16) for i in range(count // size**2)}
save_file(weights, f"{folder}/plain/model.safetensors")
writer = GGUFWriter(f"{folder}/q8.gguf", "llama")
for name, weight in weights.items():
    kind = GGMLQuantizationType.Q8_0
    writer.add_tensor(name, quantize(weight.float().numpy(), kind), raw_dtype=kind)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
experts = {"model.layers.0.mlp.experts.gate_up_proj": (torch.randn(count // size**2, size, size) / 64).to(torch.bfloat16)}
save_file(experts, f"{folder}/experts/model.safetensors")
"""


def run(arguments):
    """The seconds that a script tells of its work, or those of the command, and the peak memory in MB."""
    start = time.perf_counter()
    child = subprocess.Popen([str(part) for part in arguments], stdout=subprocess.PIPE, text=True)
    told = child.stdout.read().split()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"{arguments}: status {status}")
    return float(told[-1]) if told else seconds, usage.ru_maxrss / 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--weights", type=int, default=1 << 27)
    args = parser.parse_args()
    command, folder = args.command.resolve(), args.folder
    for name in "plain", "experts":
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "config.json").write_text(json.dumps({"torch_dtype": "bfloat16"}))
    subprocess.run([sys.executable, "-c", MAKE, folder, str(args.weights)], check=True)
    plain, out, threads = folder / "plain", folder / "out", ["-q", "--threads", "1"]

    def ours(job, source, target, *options):
        return [command, job, source, target, *threads, *options]

    def script(text, source, target):
        return [sys.executable, "-c", text, source, target]

    made = {
        "fp8": (plain, "--to", "float8e4m3fn", "--layout", "deepseek"),
        "nvfp4": (plain, "--to", "nvfp4", "--layout", "modelopt"),
        "int4": (plain, "--to", "int4/128"),
        "ct-nvfp4": (plain, "--to", "nvfp4"),
        "mxfp4": (folder / "experts", "--to", "mxfp4", "--layout", "gpt-oss"),
    }
    for name, (source, *options) in made.items():
        subprocess.run(ours("quantize", source, folder / name, *options), check=True)
    file = plain / "model.safetensors"
    small, wide = folder / "small.safetensors", folder / "wide.safetensors"
    subprocess.run(ours("cast", file, small, "--to", "float8e4m3fn"), check=True)
    converted = {name: CONVERTED.format(module=module, converter=converter) for name, module, converter in (
        ("fp8", "fp8block_dequantizer", "FP8BlockDequantizer.from_pretrained"), ("ct-nvfp4", "ct_dequantizer", "CompressedTensorsDequantizer"))}
    groups = {
        "to bfloat16": {
            "`cast`, float8e4m3fn": ours("cast", small, wide, "--to", "bfloat16"),
            "`dequantize`, FP8 in 128x128": ours("dequantize", folder / "fp8", out, "--to", "bf16"),
            "the same, DeepSeek's arithmetic in torch": script(FP8, folder / "fp8", out),
            "the same, compressed-tensors' `convert_checkpoint`": script(converted["fp8"], folder / "fp8", out),
            "`dequantize`, NVFP4": ours("dequantize", folder / "ct-nvfp4", out, "--to", "bf16"),
            "the same, `convert_checkpoint`": script(converted["ct-nvfp4"], folder / "ct-nvfp4", out),
            "`dequantize`, MXFP4 of gpt-oss": ours("dequantize", folder / "mxfp4", out, "--to", "bf16"),
            "the same, transformers": script(MXFP4, folder / "mxfp4", out),
            "`dequantize`, int4 in words": ours("dequantize", folder / "int4", out, "--to", "bf16"),
            "`dequantize`, GGUF Q8_0 to float16": ours("dequantize", folder / "q8.gguf", wide, "--to", "float16"),
            "the same, gguf's numpy": script(GGUF, folder / "q8.gguf", wide),
        },
        "from bfloat16": {
            "`cast` to float8e4m3fn": ours("cast", file, small, "--to", "float8e4m3fn"),
            "`quantize`, MXFP4": ours("quantize", plain, out, "--to", "mxfp4"),
            "`quantize`, FP8 in 128x128": ours("quantize", plain, out, "--to", "float8e4m3fn", "--layout", "deepseek"),
            "the same, torch": script(TO_FP8, plain, out),
            "`quantize`, FP8 by rows": ours("quantize", plain, out, "--to", "float8e4m3fn"),
            "`quantize`, NVFP4 (reads twice)": ours("quantize", plain, out, "--to", "nvfp4"),
            "`quantize`, int4 in 128": ours("quantize", plain, out, "--to", "int4/128"),
            "`quantize`, MXFP4 of gpt-oss": ours("quantize", folder / "experts", out, "--to", "mxfp4", "--layout", "gpt-oss"),
        },
    }
    for title, rows in groups.items():
        found = {name: [] for name in rows}
        for _ in range(args.rounds):
            for name, arguments in rows.items():
                subprocess.run(["rm", "-rf", out, wide], check=True)
                found[name].append(run(arguments))
        print(f"\n| {title} | seconds | weights/s | of `cast` | peak memory |\n|---|---|---|---|---|")
        cast = None
        for name, told in found.items():
            seconds, memory = statistics.median(one[0] for one in told), max(one[1] for one in told)
            cast = cast or seconds
            print(f"| {name} | {seconds:.2f} | {args.weights / 1e6 / seconds:.0f} | {seconds / cast:.2f} | {memory:.0f} MB |")


if __name__ == "__main__":
    main()
