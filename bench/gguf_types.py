#!/usr/bin/env python3
"""Measures how fast each type of GGUF is read and written, beside `cast` of as many weights and the gguf package.

python3 bench/gguf_types.py COMMAND FOLDER: FOLDER is in memory, as /dev/shm/gguf. Needs gguf and numpy. Seconds are those of
the processor (user and system), medians of 7 rounds in which all take turns, with one thread, so that other work on the
machine counts little. Prints the table of records/quantized.md.
"""

import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter, quants
from gguf.constants import GGML_QUANT_SIZES

ROWS, COLUMNS = 4096, 8192
ROUNDS = 7
READ = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "IQ3_XXS"]
READ += ["IQ3_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0", "MXFP4"]
# Where scales of float16 are in a block, if not at its beginning alone.
HALVES = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2)}
HALVES |= {"Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,)}
WRITTEN = ["q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "mxfp4"]


def processor_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def safetensors(path, name, dtype, data):
    header = f'{{"__metadata__":{{"general.architecture":"llama"}},"{name}":{{"dtype":"{dtype}",'
    header += f'"shape":[{ROWS},{COLUMNS}],"data_offsets":[0,{data.nbytes}]}}}}'
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode() + data.tobytes())


def of_type(folder, name, rng):
    """A file of random blocks, whose scales are small numbers."""
    kind = getattr(Type, name)
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (ROWS * COLUMNS // elements, size), np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = 120
    elif name == "IQ1_M":
        blocks[:, 49::2] &= 0x2F
    else:
        for at in HALVES.get(name, (0,)):
            blocks[:, at : at + 2] = np.float16([0.01]).view(np.uint8)
    writer = GGUFWriter(folder / f"{name}.gguf", "llama")
    writer.add_tensor("blk.0.ffn_up.weight", blocks.reshape(ROWS, -1), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return blocks[: len(blocks) // 16].reshape(ROWS // 16, -1), kind


def package_seconds(function, part):
    """Of a sixteenth of the weights, times 16."""
    begin = time.process_time()
    with np.errstate(all="ignore"):
        function(part)
    return 16 * (time.process_time() - begin)


def main():
    command, folder = sys.argv[1], Path(sys.argv[2])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    one = ["--threads", "1", "--quiet"]
    safetensors(folder / "f8.safetensors", "w", "F8_E4M3", rng.integers(0, 127, (ROWS, COLUMNS), np.uint8))
    weights = rng.normal(0, 0.05, (ROWS, COLUMNS)).astype(np.float32)
    bits = (weights.view(np.uint32) >> 16).astype(np.uint16)
    safetensors(folder / "bf16.safetensors", "blk.0.ffn_up.weight", "BF16", bits)
    out, gguf = folder / "out.safetensors", folder / "out.gguf"
    to_bf16 = ["--to", "bf16", *one]
    jobs = {"cast to bfloat16": [command, "cast", folder / "f8.safetensors", out, *to_bf16]}
    jobs["cast from bfloat16"] = [command, "cast", folder / "bf16.safetensors", out, "--to", "float8e4m3fn", *one]
    package = {}
    for name in READ:
        part, kind = of_type(folder, name, rng)
        package[name] = (lambda part, kind=kind: quants.dequantize(part, kind), part)
        jobs[name] = [command, "dequantize", folder / f"{name}.gguf", out, *to_bf16]
    for name in WRITTEN:
        kind = getattr(Type, name.upper())
        package[f"to {name}"] = (lambda part, kind=kind: quants.quantize(part, kind), weights[: ROWS // 16])
        wanted = ["--to", name, "--layout", "gguf", *one]
        jobs[f"to {name}"] = [command, "quantize", folder / "bf16.safetensors", gguf, *wanted]
    seconds = {name: [] for name in jobs}
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            seconds[name].append(processor_seconds(job))
            out.unlink(missing_ok=True)
            gguf.unlink(missing_ok=True)
    seconds = {name: statistics.median(all) for name, all in seconds.items()}
    print("| | seconds | millions of weights/s | of `cast` | the gguf package |\n|---|---|---|---|---|")
    for name, taken in seconds.items():
        base = seconds["cast from bfloat16" if name.startswith("to ") or "from" in name else "cast to bfloat16"]
        theirs = "" if name not in package else f"{package_seconds(*package[name]) / taken:.0f} times"
        print(f"| {name} | {taken:.3f} | {ROWS * COLUMNS / taken / 1e6:.0f} | {taken / base:.2f} | {theirs} |")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
