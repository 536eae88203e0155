#!/usr/bin/env python3
"""Are the figures of `onnx-cast report` those that numpy computes?

Takes the real checkpoint and the constants of magika's model, casts them with numpy and ml_dtypes, and computes every
figure in doubles, by its definition: counts must be equal, sums agree but for rounding.
"""

import json

import ml_dtypes
import numpy as np
import onnx
from graphs import MAGIKA
from safetensors.numpy import load_file
from shared import CHECKPOINT, COMMAND, command, counts, fail, finish, in_shares, need

TYPES = {
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
}
SATURATING = {"float8e4m3fn", "float8e5m2", "float4e2m1"}


def same(what, got, want, tolerance=0.0):
    """Equal, or within a part of the wanted."""
    counts["figures that agree with numpy's"] += 1
    if got != want if None in (got, want) else not abs(got - want) <= tolerance * abs(want):
        fail(f"{what}: {got}, want {want}")


def check_candidate(what, found, name, values, powers, first, length):
    dtype = TYPES[name]
    info = ml_dtypes.finfo(dtype)
    largest, normal = float(info.max), float(info.smallest_normal)
    clipped = np.clip(values, -largest, largest) if name in SATURATING else values
    with np.errstate(over="ignore"):
        result = clipped.astype(dtype).astype(np.float64)
    x = values.astype(np.float64)
    size = np.abs(x)
    beyond = size > largest
    both = np.isfinite(x) & np.isfinite(result)
    error, nonzero = np.abs(x - result), both & (x != 0)
    relative = np.divide(error, size, out=np.zeros_like(x), where=nonzero)
    noise, signal = (error[both] ** 2).sum(), (x[both] ** 2).sum()
    small = (result != 0) & (np.abs(result) < normal) & (size >= float(np.finfo(values.dtype).smallest_normal))
    counted = {
        "overflowed": np.isfinite(x) & ~np.isfinite(result), "saturated": beyond & (np.abs(result) == largest),
        "zero": (x != 0) & (result == 0), "subnormal": small,
    }  # fmt: skip
    computed = {
        "max_error": error[both].max(initial=0.0), "max_relative_error": relative.max(initial=0.0),
        "mean_error": error[both].mean() if both.any() else None,
        "mean_relative_error": relative[nonzero].mean() if nonzero.any() else None,
        "snr": 10 * np.log10(signal / noise) if noise and signal else None,
    }  # fmt: skip
    for figure, mask in counted.items():
        same(f"{what}: {figure}", found[figure], int(mask.sum()))
    for figure, value in computed.items():
        same(f"{what}: {figure}", found[figure], value, 1e-6)
    lost = np.where(np.isfinite(result), relative, 1.0)
    there = np.isfinite(x) & (x != 0)
    sums = np.bincount(powers[there] - first, weights=lost[there], minlength=length) if length else []
    counts = np.bincount(powers[there] - first, minlength=length) if length else []
    for power, (got, total, count) in enumerate(zip(found["error_by_power"], sums, counts, strict=True)):
        same(f"{what}: error of 2^{first + power}", got, total / count if count else 0.0, 1e-6)


def check_tensor(found, values):
    name, values = found["name"], values.ravel()
    size = np.abs(values.astype(np.float64))
    there = np.isfinite(size) & (size > 0)
    powers = np.frexp(size)[1] - 1
    first, length = found["magnitudes"]["first"], len(found["magnitudes"]["counts"])
    same(f"{name}: values", found["values"], values.size)
    same(f"{name}: zeros", found["zeros"], int((size == 0).sum()))
    same(f"{name}: smallest", found["smallest"], size[there].min() if there.any() else None)
    same(f"{name}: largest", found["largest"], size[there].max() if there.any() else None)
    if there.any():
        same(f"{name}: first power", first, int(powers[there].min()))
        for power, (got, want) in enumerate(
            zip(found["magnitudes"]["counts"], np.bincount(powers[there] - first), strict=True)):
            same(f"{name}: values of 2^{first + power}", got, int(want))
    for candidate in found["candidates"]:
        what = f"{name} to {candidate['type']}"
        check_candidate(what, candidate, candidate["type"], values, powers, first, length)


# What is compared: what the command found of each tensor, and its values.
FOUND = []


def report_of(path, tensors):
    found = json.loads(command("report", path, "--to", ",".join(TYPES), "--json").stdout)["tensors"]
    if {tensor["name"] for tensor in found} != set(tensors):
        fail(f"{path}: other tensors than numpy sees")
    FOUND.extend((tensor, tensors[tensor["name"]]) for tensor in found)
    print(f"  {path.name}: {len(tensors)} tensors in {len(TYPES)} types")


def share_of(_folder, share):
    for found, values in FOUND[share::SHARES]:
        check_tensor(found, values)


SHARES = 4


def main():
    need(COMMAND, CHECKPOINT, MAGIKA)
    report_of(CHECKPOINT, {name: one for name, one in load_file(CHECKPOINT).items() if one.dtype == np.float32})
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in onnx.load(MAGIKA).graph.initializer}
    report_of(MAGIKA, {name: one for name, one in constants.items() if one.dtype == np.float32 and one.size >= 256})
    in_shares([(share_of, share) for share in range(SHARES)])
    finish()


if __name__ == "__main__":
    main()
