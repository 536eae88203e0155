#!/usr/bin/env python3
"""Does the Python package quantize blocks as their owners do, on 10^8 random values and on edges, apart from named
differences?

Compares, bit for bit, MX with torchao (four rules, five element types), ModelOpt, compressed-tensors and gguf; NVFP4 with
ModelOpt, torchao and compressed-tensors. A difference without a name fails, and so does a name without a difference.
docs/differences.md has the names' meanings. (crates/testkit/python/check_scaled.py compares QuantizeLinear and its family
with onnxruntime and onnx's reference evaluator.)

Needs onnx_cast, ml_dtypes, torch, torchao, nvidia-modelopt, compressed-tensors, transformers and gguf in one environment.
`--count` is the number of random values in all, `--only TEXT` names cases, and `--record FILE` appends what was found.
"""

import argparse
import itertools
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import gguf
import ml_dtypes
import numpy as np
import onnx_cast
import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import dequantize as ct_dequantize
from compressed_tensors.quantization.lifecycle.forward import quantize as ct_quantize
from compressed_tensors.quantization.utils.helpers import calculate_qparams
from modelopt.torch.quantization.qtensor.mxfp4_tensor import MXFP4QTensor
from modelopt.torch.quantization.qtensor.mxfp8_tensor import MXFP8QTensor
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor
from torchao.prototype.mx_formats.mx_tensor import to_dtype, to_mx
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts" / "generate")]

import harness  # noqa: E402 (they lie in other folders)
from block_scales import ELEMENTS, LARGEST, NVFP4, RECIPES, RULES, unpacked  # noqa: E402

PACKAGES = ("ml_dtypes", "numpy", "torch", "torchao", "nvidia-modelopt", "compressed-tensors", "gguf")
NAMED = {
    "NaN that arises": "has the sign that the processor gives it; so has NaN with a NaN scale",
    "torchao, rceil: a logarithm in float": "the exponent is one less where A / max is just above a power of two",
    "torchao: the scale 2^-127": "elements are x / 2^-126; by rceil they are not scaled",
    "torchao: not finite": "infinity and NaN count for the scales, and elements are not 0",
    "torchao, NVFP4: a tensor of zeros": "g is 0, and the scales are NaN",
    "ModelOpt, MXFP8: a logarithm in float": "as torchao's",
    "ModelOpt, MXFP4: a logarithm in float": "as torchao's",
    "ModelOpt, MXFP4: ties": "toward zero",
    "ModelOpt, MXFP4: +0": "-0",
    "ModelOpt: not finite": "infinity and NaN count for the scales, and elements are not 0",
    "ModelOpt, NVFP4: -0": "+0",
    "ModelOpt, NVFP4: a tensor of zeros": "g is 0, and the scales are NaN",
    "ModelOpt, NVFP4: code 8, dequantized": "+0",
    "compressed-tensors, float4e2m1: -0": "+0",
    "compressed-tensors, MX: A that rounds to 2^128": "the scale is NaN",
    "compressed-tensors: not finite": "infinity and NaN count for the scales",
    "compressed-tensors: g of bfloat16": "both steps are rounded to bfloat16",
    "gguf: a logarithm in float": "the exponent is one more where A is just below a power of two",
    "gguf: A below 2^-125": "the exponent wraps",
    "gguf: not finite": "infinity and NaN count for the scales",
    "gguf: ties": "toward zero",
    "gguf: -0, and what rounds to it": "+0",
}

TYPES = {"float": np.float32, "bfloat16": ml_dtypes.bfloat16}
CHUNK = 1 << 18


class Tally:
    """What was compared, and what differed."""

    def __init__(self):
        self.values, self.failures = 0, 0
        self.compared, self.named = {}, dict.fromkeys(NAMED, 0)

    def check(self, peer, label, got, want, names=()):
        """Compares arrays of codes. `names` are pairs of a named difference and the mask that it may explain."""
        got, want = got.reshape(-1), want.reshape(-1)
        assert got.dtype == want.dtype and got.shape == want.shape, f"{peer}: {label}: {got.dtype} {want.dtype}"
        self.compared[peer] = self.compared.get(peer, 0) + got.size
        differ = got != want
        if not differ.any():
            return
        for name, mask in names:
            explained = differ & np.broadcast_to(mask, differ.shape) if mask.shape == () else differ & mask.reshape(-1)
            self.named[name] += int(explained.sum())
            differ &= ~explained
        if differ.any():
            self.failures += int(differ.sum())
            places = np.nonzero(differ)[0]
            examples = ", ".join(f"[{i}] here {got[i]:#x}, there {want[i]:#x}" for i in places[:4])
            print(f"{peer}: {label}: {differ.sum()} of {got.size} differ: {examples}", flush=True)


def codes(array):
    """The bits of an array."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


# Blocks of MX.


NAMES = ("mxfp8", "mxfp8e5m2", "mxfp6e2m3", "mxfp6e3m2", "mxfp4")
MX = dict(zip(NAMES, zip(ELEMENTS.values(), LARGEST), strict=True))


def packed(elements):
    """Codes of 4 bits, two in a byte."""
    elements = codes(elements)
    return torch.from_numpy(elements[..., ::2] | elements[..., 1::2] << 4)


def random_blocks(rng, largest):
    """Blocks of random magnitudes, of which a fifth have their greatest beside a power of two or the element type's
    largest value times one, a fifth hold ties, and a few are special."""
    count = CHUNK // 32
    exponents = rng.integers(-126, 120, (count, 1))
    blocks = np.ldexp(rng.standard_normal((count, 32)), exponents)
    kind = np.arange(count) % 5
    greatest = np.where(rng.integers(0, 2, count), 1.0, largest)
    greatest = np.ldexp(greatest, rng.integers(-120, 110, count)).astype(np.float32)
    greatest = (codes(greatest).astype(np.int64) + rng.integers(-2, 3, count)).astype(np.uint32).view(np.float32)
    edge = (rng.uniform(-1, 1, (count, 32)) * greatest[:, None]).astype(np.float32)
    edge[np.arange(count), rng.integers(0, 32, count)] = greatest * (-1) ** rng.integers(0, 2, count)
    ties = np.ldexp(rng.integers(-64, 65, (count, 32)) / 16, exponents.clip(-110, 110))
    with np.errstate(over="ignore"):
        blocks = blocks.astype(np.float32)
    blocks[kind == 1] = edge[kind == 1]
    blocks[kind == 2] = ties[kind == 2].astype(np.float32)
    blocks[rng.integers(0, count, 64), rng.integers(0, 32, 64)] = 0.0
    blocks[rng.integers(0, count, 64), rng.integers(0, 32, 64)] = -0.0
    blocks[:4] = 0.0
    blocks[2:4, ::3] = -0.0
    blocks[4, 7], blocks[5, 8], blocks[6, 9] = np.inf, -np.inf, np.nan
    blocks[7:12] = (rng.integers(-50, 50, (5, 32)) * 2.0**-149).astype(np.float32)
    blocks[12] = 2.0**-126
    blocks[13] = np.finfo(np.float32).max
    blocks[~np.isfinite(blocks) & (np.arange(count) > 12)[:, None]] = 1.0
    return blocks


class Blocks:
    """What the package gives for blocks, and what the names of differences depend on."""

    def __init__(self, tally, label, blocks, format, rule):
        self.tally, self.label, self.blocks = tally, label, blocks
        self.quantized = onnx_cast.quantize_blocks(blocks, format, scale_rule=rule)
        self.scales, self.elements = codes(self.quantized.scales).reshape(-1), codes(self.quantized.elements)
        self.greatest = np.abs(blocks).max(axis=-1)
        self.finite = np.isfinite(self.greatest)
        exponents = np.ldexp(1.0, self.scales.astype(np.int64) - 127)
        with np.errstate(invalid="ignore"):
            self.quotients = np.abs(blocks.astype(np.float64)) / exponents[:, None]

    def check(self, peer, scales, elements, scale_names=(), element_names=()):
        """Elements are compared where the scales are the same."""
        scales = scales.reshape(-1)
        self.tally.check(f"{peer}, scales", self.label, self.scales, scales, scale_names)
        same = self.scales == scales
        names = [(name, np.broadcast_to(mask, self.elements.shape)[same]) for name, mask in element_names]
        got, want = self.elements[same], elements.reshape(self.elements.shape)[same]
        self.tally.check(f"{peer}, elements", self.label, got, want, names)

    def beside_power(self, largest, side):
        """Where A / max is within 2^-16 of a power of two, above it (side 1) or below it (-1)."""
        significand = np.frexp(np.where(self.finite, self.greatest, 1).astype(np.float64) / largest)[0] * 2
        if side > 0:
            return (significand > 1) & (significand < 1 + 2.0**-16)
        return significand > 2 - 2.0**-15

    def ties(self):
        """Where a quotient is midway between two numbers of float4e2m1."""
        return np.isin(self.quotients, (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0))


def mx_case(format, rule):
    dtype, largest = MX[format]

    def run(tally, rng):
        blocks = random_blocks(rng, largest)
        tally.values += blocks.size
        ours = Blocks(tally, f"{format} {rule}", blocks, format, rule)
        tensor = torch.from_numpy(blocks)
        least = (ours.scales == 0)[:, None]
        not_finite, finite = ~ours.finite, ours.finite[:, None]

        scales, elements = to_mx(tensor, dtype, 32, RULES[rule])
        shown = unpacked(elements) if format == "mxfp4" else elements.view(torch.uint8).numpy()
        scale_names = [("torchao: not finite", not_finite)]
        if rule == "rceil":
            scale_names.append(("torchao, rceil: a logarithm in float", ours.beside_power(largest, 1)))
        element_names = [("torchao: the scale 2^-127", least & finite), ("torchao: not finite", ~finite)]
        ours.check("torchao", scales.view(torch.uint8).numpy(), shown, scale_names, element_names)

        # Our elements and scales, dequantized by torchao.
        again = packed(ours.elements) if format == "mxfp4" else torch.from_numpy(ours.elements).view(
            torch.uint8 if format.startswith("mxfp6") else dtype
        )  # fmt: skip
        for name, target in (("float", torch.float32), ("bfloat16", torch.bfloat16)):
            want = to_dtype(again, torch.from_numpy(ours.scales).view(torch.float8_e8m0fnu), dtype, 32, torch.float32)
            got = ours.quantized.dequantize(name)
            want = codes(want.to(target).view(torch.int16 if name == "bfloat16" else torch.int32).numpy())
            names = [("NaN that arises", ~finite), ("torchao: the scale 2^-127", least)]
            names = [(name, np.broadcast_to(mask, blocks.shape)) for name, mask in names]
            tally.check("torchao, dequantize", f"{format} {rule} {name}", codes(got), want, names)

        if rule == "rceil" and format in ("mxfp8", "mxfp4"):
            peer, more = f"ModelOpt, {format.upper()}", [("ModelOpt: not finite", ~finite)]
            names = [("ModelOpt: not finite", not_finite)]
            names.append((f"{peer}: a logarithm in float", ours.beside_power(largest, 1)))
            made, scales = MXFP8QTensor.quantize(tensor) if format == "mxfp8" else MXFP4QTensor.quantize(tensor, 32)
            shown = made._quantized_data.view(torch.uint8).numpy()
            if format == "mxfp4":
                shown = unpacked(made._quantized_data)
                more += [("ModelOpt, MXFP4: ties", ours.ties()), ("ModelOpt, MXFP4: +0", ours.elements == 0)]
            ours.check(peer, scales.numpy(), shown, names, more)
        if rule == "even" and format in ("mxfp4", "mxfp6e2m3"):
            compressed_tensors_mx(ours, tensor, 4 if format == "mxfp4" else 6)
        if (format, rule) == ("mxfp4", "floor"):
            gguf_mx(ours, blocks)

    return run


E2M3 = np.array([code / 8 if code < 8 else (8 + code % 8) / 8 * 2.0 ** (code // 8 - 1) for code in range(32)])


def compressed_tensors_mx(ours, tensor, bits):
    """MXFP4 and MXFP6 as compressed-tensors' own observers and compressors make them."""
    arguments = QuantizationArgs(
        num_bits=bits, type="float", strategy="group", group_size=32, scale_dtype=torch.uint8, zp_dtype=torch.uint8
    )
    scales, _ = calculate_qparams(tensor.amin(-1, keepdim=True), tensor.amax(-1, keepdim=True), arguments)
    values = ct_quantize(tensor, scales, None, arguments).float().numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        exponents = (127 + np.floor(np.log2(scales.double().numpy()))).clip(0, 255).astype(np.uint8)
    numbers = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6]) if bits == 4 else E2M3
    elements = np.searchsorted(numbers, np.abs(np.nan_to_num(values))).astype(np.uint8)
    elements |= np.signbit(values).astype(np.uint8) << (bits - 1)
    names = [("compressed-tensors: not finite", ~ours.finite)]
    more = [("compressed-tensors: not finite", ~ours.finite[:, None])]
    names.append(("compressed-tensors, MX: A that rounds to 2^128", ours.greatest >= 1.75 * 2.0**127))
    if bits == 4:
        more.append(("compressed-tensors, float4e2m1: -0", ours.blocks == 0))
    ours.check(f"compressed-tensors, MXFP{bits}", exponents, elements, names, more)


def gguf_mx(ours, blocks):
    """MXFP4 of gguf: the first half of a block is in the low bits."""
    with np.errstate(all="ignore"):
        made = gguf.quants.MXFP4.quantize_blocks(blocks)
    halves = made[:, 1:]
    elements = np.concatenate([halves & 15, halves >> 4], axis=1)
    names = [
        ("gguf: not finite", ~ours.finite),
        ("gguf: A below 2^-125", ours.greatest < 2.0**-125),
        ("gguf: a logarithm in float", ours.beside_power(1.0, -1)),
    ]
    more = [(name, mask[:, None]) for name, mask in names]
    more += [("gguf: ties", ours.ties()), ("gguf: -0, and what rounds to it", ours.elements == 8)]
    ours.check("gguf", made[:, 0], elements, names, more)


# NVFP4.


def dequantized(recipe, quantized):
    """What an owner reads from our elements and scales, in float."""
    elements, scales = packed(quantized.elements), torch.from_numpy(codes(quantized.scales)).view(torch.float8_e4m3fn)
    scale = torch.tensor(quantized.global_scale, dtype=torch.float32)
    if recipe == "modelopt":
        made = NVFP4QTensor(torch.Size(quantized.elements.shape), torch.float32, elements)
        return made.dequantize(torch.float32, scale=scales, double_scale=scale, block_sizes={-1: 16})
    numbers = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    values = torch.from_numpy(codes(quantized.elements))
    values = numbers[(values & 7).long()] * (1 - (values >> 3).float() * 2)
    if recipe == "compressed-tensors":
        return ct_dequantize(values, scales.float(), None, NVFP4, global_scale=scale.view(1))
    made = NVFP4Tensor(elements, scales, 16, torch.float32, per_tensor_scale=scale)
    return made.dequantize(torch.float32)


OWNERS = {"modelopt": "ModelOpt", "torchao": "torchao", "compressed-tensors": "compressed-tensors"}


def nvfp4_tensor(rng, number):
    """A tensor of 64 rows of 64; the first few are special."""
    shape = (64, 64)
    values = np.ldexp(rng.standard_normal(shape), int(rng.integers(-100, 100)))
    if number % 3 == 1:
        values *= np.repeat(2.0 ** -rng.integers(0, 24, (64, 4)), 16, axis=1)
    if number % 3 == 2:
        values = rng.integers(-48, 49, shape) / 8 * 2.0 ** rng.integers(-8, 1)
        values[0, 0] = 2688.0
    if number % 8 == 5:
        values[3, 16:32] = 0
        values[3, 20] = -0.0
        values[4, :16] *= 2.0**-140
        values[5, :64:9] = -0.0
    if number == 0:
        values[:] = 0
    if number in (3, 6):
        values[5, 17] = np.inf if number == 3 else np.nan
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def nvfp4_case(recipe, dtype):
    owner = OWNERS[recipe]

    def run(tally, rng):
        for number in range(64):
            values = nvfp4_tensor(rng, number)
            values = values.astype(TYPES[dtype])
            tally.values += values.size
            ours = onnx_cast.quantize_blocks(values, "nvfp4", recipe=recipe)
            tensor = torch.from_numpy(values.astype(np.float32))
            tensor = tensor.bfloat16() if dtype == "bfloat16" else tensor
            finite = bool(torch.isfinite(tensor).all())
            zero = bool((tensor == 0).all())
            with np.errstate(all="ignore"):
                scale, scales, elements = RECIPES[recipe](tensor)
            got = np.array([ours.global_scale], np.float32)
            want = scale.float().reshape(1).numpy()
            names = []
            if not finite:
                names.append((f"{owner}: not finite", np.array(True)))
            if zero and recipe != "compressed-tensors":
                names.append((f"{owner}, NVFP4: a tensor of zeros", np.array(True)))
            of_global = list(names)
            if dtype == "bfloat16" and recipe == "compressed-tensors":
                of_global.append(("compressed-tensors: g of bfloat16", np.array(True)))
            label = f"{dtype} tensor {number}"
            tally.check(f"{owner}, NVFP4, global scale", label, codes(got), codes(want), of_global)
            if got == want or not names and not of_global:
                ours_scales, theirs = codes(ours.scales).reshape(-1), scales.view(torch.uint8).numpy().reshape(-1)
                tally.check(f"{owner}, NVFP4, scales", label, ours_scales, theirs, names)
                same = np.repeat(ours_scales == theirs, 16)
                # Owners lose the sign of a quotient of -0, also of one that underflows.
                with np.errstate(all="ignore"):
                    spread, g = np.repeat(ours.scales.astype(np.float32), 16, axis=-1), got[0]
                    factors = spread / g if recipe == "compressed-tensors" else spread * g
                    zeros = (values.astype(np.float32) / factors == 0).reshape(-1)[same]
                if recipe == "modelopt":
                    names.append(("ModelOpt, NVFP4: -0", zeros))
                if recipe == "compressed-tensors":
                    names.append(("compressed-tensors, float4e2m1: -0", zeros))
                one, other = codes(ours.elements).reshape(-1)[same], unpacked(elements).reshape(-1)[same]
                tally.check(f"{owner}, NVFP4, elements", label, one, other, names)
            back, want = ours.dequantize(), dequantized(recipe, ours).float().numpy()
            names = [("NaN that arises", np.isnan(back))]
            if recipe == "modelopt":
                names.append(("ModelOpt, NVFP4: code 8, dequantized", codes(ours.elements) == 8))
            tally.check(f"{owner}, NVFP4, dequantize", label, codes(back), codes(want), names)

    return run


def cases():
    """Names and functions, of which each takes CHUNK random values a call."""
    for format, rule in itertools.product(MX, RULES):
        yield f"{format} {rule}", mx_case(format, rule)
    # These are few: twice a round.
    for _, recipe, dtype in itertools.product(range(2), RECIPES, ("float", "bfloat16")):
        yield f"nvfp4 {recipe} {dtype}", nvfp4_case(recipe, dtype)


def record(path, tally, options, seconds):
    """Appends a section to a file."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    # The backend, where the environment chooses it.
    backend = "".join(f"{name}={os.environ[name]} " for name in ("ONNX_CAST_ISA",) if name in os.environ)
    text = f"`{backend}scripts/proofs/scaled_peers.py --count {options.count} --seed {options.seed}`, {seconds / 60:.0f} minutes"
    compared = [*tally.compared.items(), ("all", sum(tally.compared.values()))]
    named = [(name, NAMED[name], count) for name, count in tally.named.items()]
    named.append(("without a name", "", tally.failures))
    lines = [*harness.table(["peer", "compared"], compared), "", *harness.table(["named difference", "there", "times"], named)]
    text += f"; {tally.values} random values; {versions}"
    harness.record(path, ", scaled casts beside their peers", text, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000_000)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--record", type=Path, metavar="FILE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tally, begun = Tally(), time.monotonic()
    chosen = [(name, case) for name, case in cases() if options.only in name]
    if not chosen:
        parser.error(f"--only: no case has `{options.only}` in its name")
    for number in itertools.count():
        for place, (name, case) in enumerate(chosen):
            try:
                case(tally, np.random.default_rng([options.seed, number, place]))
            except Exception as error:
                raise RuntimeError(f"{name}, round {number}") from error
        print(f"round {number}: {tally.values} values, {time.monotonic() - begun:.0f} s", flush=True)
        if tally.values >= options.count:
            break
    for peer, count in tally.compared.items():
        print(f"{peer}: {count} compared")
    for name, count in tally.named.items():
        print(f"named difference, {count} times: {name}: {NAMED[name]}")
    stale = [name for name, count in tally.named.items() if not count]
    if not options.only:
        for name in stale:
            print(f"named difference that does not occur: {name}")
    print(f"{tally.failures} differences without a name")
    if tally.failures or stale and not options.only:
        return 1
    if options.record:
        record(options.record, tally, options, time.monotonic() - begun)
    return 0


if __name__ == "__main__":
    sys.exit(main())
