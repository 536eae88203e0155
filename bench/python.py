#!/usr/bin/env python3
"""Measures the Python package: beside torch's `.to`, beside the library as `onnx-cast bench` times it, and what a call
costs. Usage: python.py COMMAND [--only SECTION ...] [--rounds N] [--record]; needs the package in this Python, and torch
for its part.

All in one process and in turn, medians of rounds; --record writes records/python.md.
"""

import argparse
import functools
import json
import resource
import statistics
import subprocess
import sys
import timeit
from pathlib import Path

import ml_dtypes
import numpy as np

import harness
import onnx_cast
from harness import in_turn

LARGE = 1 << 24
TEXTS = 1 << 20
TORCH = ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"]
LIBRARY = ["float:bfloat16", "bfloat16:float", "float:float16", "float:float8e4m3fn", "float8e4m3fn:float",
           "float:float4e2m1", "float4e2m1:float", "float:int8"]  # fmt: skip
SMALL = ["float:float16", "float:double", "double:float", "int32:float", "float:int32", "float:bfloat16",
         "bfloat16:float", "float:float8e4m3fn"]  # fmt: skip
#: Quantized types, how scales lie, their shape for 4096 by 4096 elements, and the options that say so.
SCALED = [("int8", "", (), {}), ("int8", "/row", (4096,), {"axis": 0}), ("int8", "/column", (4096,), {"axis": 1}),
          ("int4", "", (), {}), ("int4", "/32", (4096, 128), {"block_size": 32}), ("float8e4m3fn", "", (), {}),
          ("float8e4m3fn", "/row", (4096,), {"axis": 0}), ("float4e2m1", "/16", (4096, 256), {"block_size": 16})]  # fmt: skip
BLOCKS = ["mxfp8", "mxfp4", "mxint8", "nvfp4"]
NARROW = ["uint4", "int4", "float4e2m1", "float6e2m3", "float6e3m2", "uint2"]


def faults(work):
    """Pages that the system had to find for one go of the work."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    result = work()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    del result
    return after - before


def values(count, dtype=np.float32):
    return np.random.default_rng(0).standard_normal(count, np.float32).astype(dtype)


def row(names, times, **more):
    """Milliseconds of both sides, ours first, and how many times as fast we are."""
    ours, theirs = times.values()
    return {**names, "ours_ms": ours * 1e3, "theirs_ms": theirs * 1e3, "ratio": theirs / ours, **more}


def beside_torch(rounds):
    try:
        import torch
    except ImportError:
        print("torch is not here (bash scripts/test.sh --torch installs it)", file=sys.stderr)
        return []
    x, rows = torch.from_numpy(values(LARGE)), []
    everyone = torch.get_num_threads()
    for threads in dict.fromkeys((1, everyone)):
        torch.set_num_threads(threads)
        own = {"threads": 1} if threads == 1 else {}
        for name in TORCH:
            to = getattr(torch, name)
            for source, target in ((x, to), (x.to(to), torch.float32)):
                works = {
                    "ours": lambda source=source, target=target: onnx_cast.cast(source, target, **own),
                    "torch": lambda source=source, target=target: source.to(target),
                }
                pages = {f"{name}_faults": faults(work) for name, work in works.items()}
                names = {"from": str(source.dtype)[6:], "to": str(target)[6:], "threads": threads}
                rows.append(row(names, in_turn(works, rounds), **pages))
        pairs = torch.float4_e2m1fn_x2
        for source, target in ((x, pairs), (onnx_cast.cast(x, pairs), torch.float32)):
            try:
                source.to(target)
                sys.exit("torch casts float4 now: measure it with the others")
            except NotImplementedError:
                pass
            work = {"ours": lambda source=source, target=target: onnx_cast.cast(source, target, **own)}
            (taken,) = in_turn(work, rounds).values()
            names = {"from": str(source.dtype)[6:], "to": str(target)[6:], "threads": threads}
            rows.append({**names, "ours_ms": taken * 1e3, "theirs_ms": None, "ratio": None})
    return rows


def beside_the_library(command, rounds):
    """The command measures in a process of its own, in turn with this one."""
    arguments = [command, "bench", "--pairs", ",".join(LIBRARY), "--threads", "1", "--json"]
    works = {}
    for pair in LIBRARY:
        source, to = pair.split(":")
        x, packed = onnx_cast.cast(values(LARGE), source), "float4e2m1" in pair
        if packed and source == "float4e2m1":  # the command's elements are packed
            continue
        out = onnx_cast.cast(x, to, packed=packed)
        size = x.nbytes + out.nbytes
        options = {"out": out, "threads": 1, "packed": packed}
        works[pair] = lambda x=x, to=to, options=options: onnx_cast.cast(x, to, **options), size
    ours, theirs = {pair: [] for pair in works}, {pair: [] for pair in works}
    for _ in range(rounds):
        told = json.loads(subprocess.check_output(arguments, stdin=subprocess.DEVNULL))
        for one in told["pairs"]:
            pair = f"{one['from']}:{one['to']}"
            if pair in works:
                theirs[pair].append(works[pair][1] / one["gb_per_s"] / 1e9)
        for pair, (work, _) in works.items():
            ours[pair].append(in_turn({"ours": work}, 9)["ours"])
    return [
        row({"from": pair.split(":")[0], "to": pair.split(":")[1]},
            {"ours": statistics.median(ours[pair]), "theirs": statistics.median(theirs[pair])})
        for pair in works
    ]  # fmt: skip


def of_16_elements(rounds):
    rows = []
    for pair in SMALL:
        source, to = (onnx_cast.dtypes.of(name) for name in pair.split(":"))
        x, dtype = values(16, source.numpy), to.numpy

        def each(work, number=20_000):
            return timeit.timeit(work, number=number) / number

        works = {
            "ours": lambda x=x, dtype=dtype: onnx_cast.cast(x, dtype),
            "numpy": lambda x=x, dtype=dtype: x.astype(dtype),
        }
        rows.append(row({"from": source.name, "to": to.name}, in_turn(works, rounds, each)))
    return rows


def packing(rounds):
    """Beside numpy's copy of as many bytes as are read and written, half of each."""
    rows = []
    for name in NARROW:
        data_type = onnx_cast.dtypes.of(name)
        elements = np.arange(LARGE, dtype=np.uint8)
        elements &= (1 << data_type.bits) - 1
        elements = elements.view(data_type.numpy)
        packed = onnx_cast.pack(elements)
        half = np.ones((LARGE + packed.size) // 2, np.uint8)
        for what, work in (
            ("pack", lambda elements=elements: onnx_cast.pack(elements)),
            ("unpack", lambda packed=packed, name=name: onnx_cast.unpack(packed, name, LARGE)),
        ):
            rows.append(row({"from": what, "to": name}, in_turn({"ours": work, "copy": half.copy}, rounds)))
    return rows


def quantizing(rounds):
    """On one thread, beside numpy's copy of as many bytes as are read and written, half of each: to new memory, or with
    `out=` to memory that was written before."""
    x, rows = values(LARGE).reshape(4096, 4096), []

    def measure(what, name, work, read, written, is_new):
        half = np.ones((read + written) // 2, np.uint8)
        old = np.ones_like(half)
        copy = half.copy if is_new else lambda: np.copyto(old, half)
        rows.append(row({"from": what, "to": name}, in_turn({"ours": work, "copy": copy}, rounds)))

    for name, granularity, shape, options in SCALED:
        scale, named = np.full(shape, 0.05, np.float32), {"threads": 1, **options}
        codes = onnx_cast.quantize_linear(x, scale, output_dtype=name, **named)
        back, title = np.ones_like(x), name + granularity
        read, written = x.nbytes + scale.nbytes, codes.nbytes
        quantize = functools.partial(onnx_cast.quantize_linear, x, scale, output_dtype=name, **named)
        measure("quantize", title, quantize, read, written, True)
        measure("quantize, out=", title, functools.partial(quantize, out=codes), read, written, False)
        dequantize = functools.partial(onnx_cast.dequantize_linear, codes, scale, **named)
        read, written = codes.nbytes + scale.nbytes, x.nbytes
        measure("dequantize", title, dequantize, read, written, True)
        measure("dequantize, out=", title, functools.partial(dequantize, out=back), read, written, False)
    for name in BLOCKS:
        q, back = onnx_cast.quantize_blocks(x, name), np.ones_like(x)
        quantize = functools.partial(onnx_cast.quantize_blocks, x, name, threads=1)
        codes = q.elements.nbytes + q.scales.nbytes
        measure("quantize_blocks", name, quantize, x.nbytes, codes, True)
        measure("quantize_blocks, out=", name, functools.partial(quantize, out=q), x.nbytes, codes, False)
        measure("dequantize", name, functools.partial(q.dequantize, threads=1), codes, x.nbytes, True)
        measure("dequantize, out=", name, functools.partial(q.dequantize, out=back, threads=1), codes, x.nbytes, False)
    codes = onnx_cast.quantize_linear(x, 0.05, output_dtype="int8")
    for what, other in (("x.T", x.T), ("x[:, ::-1]", x[:, ::-1]), ("big-endian", x.astype(">f4"))):
        work = functools.partial(onnx_cast.quantize_linear, other, 0.05, output_dtype="int8", out=codes, threads=1)
        measure(f"quantize {what}, out=", "int8", work, x.nbytes, codes.nbytes, False)
        work = functools.partial(onnx_cast.cast, other, "int8", out=codes, threads=1)
        measure(f"cast {what}, out=", "int8", work, x.nbytes, codes.nbytes, False)
    dynamic = functools.partial(onnx_cast.dynamic_quantize_linear, x, out=codes.view(np.uint8), threads=1)
    measure("dynamic_quantize_linear, out=", "uint8", dynamic, 2 * x.nbytes, codes.nbytes, False)
    return rows


def texts(rounds):
    """Beside numpy's own conversions of StringDType: of floats as printed, short decimals and integers."""
    numbers, string = values(TEXTS), np.dtypes.StringDType()
    written = onnx_cast.cast(numbers, "string")
    decimals = np.array([f"{number:.5f}" for number in numbers.tolist()], string)
    whole = np.array([f"{number * 1e6:.0f}" for number in numbers.tolist()], string)
    to_text = {"ours": lambda: onnx_cast.cast(numbers, "string"), "numpy": lambda: numbers.astype(string)}
    rows = [row({"from": "float", "to": "string"}, in_turn(to_text, rounds))]
    for what, x, to in (
        ("string, as float is printed", written, "float"),
        ("string, five decimals", decimals, "float"),
        ("string, five decimals", decimals, "double"),
        ("string, integers", whole, "int64"),
    ):
        dtype = onnx_cast.dtypes.of(to).numpy
        works = {
            "ours": lambda x=x, to=to: onnx_cast.cast(x, to),
            "numpy": lambda x=x, dtype=dtype: x.astype(dtype),
        }
        rows.append(row({"from": what, "to": to}, in_turn(works, rounds)))
    return rows


#: Title of each section, what the other side is, and what measures it.
SECTIONS = {
    "torch": ("16 Mi elements, results allocated, beside torch's `.to`", "torch", beside_torch),
    "library": ("16 Mi elements, one thread, `out=`, beside the library (`onnx-cast bench`)", "the library", beside_the_library),
    "small": ("16 elements, beside `ndarray.astype`", "astype", of_16_elements),
    "scaled": ("16 Mi elements quantized and dequantized, beside numpy's copy of as many bytes", "copy", quantizing),
    "packing": ("16 Mi elements packed and unpacked, beside numpy's copy of as many bytes", "copy", packing),
    "texts": ("1 Mi texts, beside numpy's StringDType", "numpy", texts),
}


def table(rows, other):
    lines = []
    for one in rows:
        digits = 5 if one["ours_ms"] < 0.1 else 2
        cells = [one["from"], one["to"], *([one["threads"]] if "threads" in one else []), f"{one['ours_ms']:.{digits}f}"]
        cells += ["-", "-"] if one["ratio"] is None else [f"{one['theirs_ms']:.{digits}f}", f"{one['ratio']:.2f}"]
        lines.append(cells)
    threads = ["threads"] if "threads" in rows[0] else []
    return harness.table(["from", "to", *threads, "ours, ms", f"{other}, ms", f"{other} / ours"], lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("command", type=Path)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), help="print these sections alone")
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    if args.only and args.record:
        parser.error("--record needs every section")
    text = []
    for name in args.only or SECTIONS:
        title, other, measure = SECTIONS[name]
        rows = measure(args.command, 5) if name == "library" else measure(args.rounds)
        text += ["", f"## {title}", "", *table(rows, other)] if rows else []
        if name == "torch" and rows:
            one = max(rows, key=lambda one: one.get("torch_faults", 0))
            text += ["", f"New pages from {one['from']} to {one['to']}: {one['torch_faults']} for torch, {one['ours_faults']} for ours."]
    versions = {"numpy": np.__version__, "ml_dtypes": ml_dtypes.__version__}
    if "torch" in sys.modules:
        versions["torch"] = sys.modules["torch"].__version__
    command = f"python bench/python.py target/release/onnx-cast --rounds {args.rounds} --record"
    text = [harness.about(command, Python=sys.version.split()[0], **versions), *text]
    print(*text, sep="\n")
    if args.record:
        harness.rewrite("python.md", text)


if __name__ == "__main__":
    main()
