#!/usr/bin/env python3
"""Measures how fast each layout that is only read is dequantized, beside `cast` of as many weights and its owner's code.

python3 bench/layouts.py COMMAND FOLDER [NAME...]: FOLDER is in memory, as /dev/shm/layouts; only layouts whose names
contain a NAME, if there are any. A checkpoint has four matrices: with one, the pages of memory that a process touches
for the first time would count, which those of a real checkpoint use again. Needs numpy and torch. Seconds are those of
the processor (user and system) and, beside them, of the clock; medians of 7 rounds in which all take turns, with one
thread, so that other work on the machine counts little. The owner's code is its arithmetic in torch on a CPU with one
thread, for the sixteenth part of the rows, times 16; the functions say where it is from. Prints the table of
records/quantized.md.
"""

import json
import math
import re
import shutil
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from gguf_types import processor_seconds

ROWS, COLUMNS, GROUP, MATRICES = 4096, 8192, 128, 4
ROUNDS = 7
RNG = np.random.default_rng(1)
TYPES = {"uint8": "U8", "int8": "I8", "int32": "I32", "int64": "I64", "uint32": "U32", "float32": "F32", "float16": "F16"}
LAYOUTS = {}
NVFP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def layout(name, *arguments):
    """Registers a function that gives the configuration, the tensors and the owner's code of a layout."""

    def register(function):
        LAYOUTS[name] = lambda: function(*arguments)
        return function

    return register


def noise(*shape, least=0, most=256, data_type=np.uint8):
    return RNG.integers(least, most, shape, data_type)


def scales(*shape, data_type=np.float32):
    return RNG.uniform(0.001, 0.01, shape).astype(data_type)


def words(*shape):
    return RNG.integers(-(1 << 31), 1 << 31, shape, np.int32)


def quantized(method, **more):
    return {"quantization_config": {"quant_method": method} | more}


def named(kind, array):
    """An array of bytes in a type that numpy has no name for."""
    return kind, array


def part(array, rows=ROWS // 16):
    """The beginning of an array, for torch."""
    return torch.from_numpy(np.ascontiguousarray(array[:rows]))


# vLLM (quantization/utils/w8a8_utils.py, fp8) and Mistral's own names: the element times the scale.


@layout("FP8, a scale for the tensor (Mistral)", 1)
@layout("FP8, a scale for each of three parts", 3)
def fp8(count):
    codes, factors = noise(ROWS, COLUMNS, most=127), scales(count)
    part_of = part(codes).view(torch.float8_e4m3fn)
    if count == 1:
        names, config = ("layers.0.feed_forward.w1.weight", "layers.0.feed_forward.w1.qscale_weight"), {}
    else:
        names = "a.qkv_proj.weight", "a.qkv_proj.weight_scale"
        config = quantized("fp8") | {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
    tensors = {names[0]: named("F8_E4M3", codes), names[1]: factors}
    return config, tensors, lambda: (part_of.float() * float(factors[0])).bfloat16()


@layout("int8, a scale for each row (W8A8)")
def w8a8():
    codes, factors = noise(ROWS, COLUMNS, least=-128, most=128, data_type=np.int8), scales(ROWS, 1)
    weights = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
    group = {"targets": ["Linear"], "weights": weights}
    config = quantized("compressed-tensors", format="int-quantized", config_groups={"group_0": group})
    some, factor = part(codes), part(factors)
    return config, {"a.weight": codes, "a.weight_scale": factors}, lambda: (some.float() * factor).bfloat16()


# GPTQModel, utils/model_dequant.py: words are shifted, zero points are subtracted, and scales taken by `g_idx`.


@layout("GPTQ, 2 bits", 2, False)
@layout("GPTQ, 3 bits", 3, False)
@layout("GPTQ, 4 bits", 4, False)
@layout("GPTQ, 4 bits, act-order", 4, True)
@layout("GPTQ, 8 bits", 8, False)
def gptq(bits, is_ordered):
    groups = COLUMNS // GROUP
    tensors = {"a.qweight": words(COLUMNS * bits // 32, ROWS), "a.scales": scales(groups, ROWS, data_type=np.float16)}
    tensors["a.qzeros"] = np.zeros((groups, ROWS * bits // 32), np.int32)
    order = np.arange(COLUMNS, dtype=np.int32) // GROUP
    if is_ordered:
        RNG.shuffle(order)
    tensors["a.g_idx"] = order
    config = quantized("gptq", bits=bits, group_size=GROUP, desc_act=is_ordered, sym=False, checkpoint_format="gptq")
    rows, each = ROWS // 16, 32 // bits if 32 % bits == 0 else 0
    some = torch.from_numpy(np.ascontiguousarray(tensors["a.qweight"][:, :rows]))
    factors = torch.from_numpy(np.ascontiguousarray(tensors["a.scales"][:, :rows]))
    index = torch.from_numpy(order.astype(np.int64))

    def owner():
        shifts = torch.arange(0, 32, bits, dtype=torch.int32)
        codes = (some[:, None, :] >> shifts[None, :, None] & (1 << bits) - 1).reshape(COLUMNS, rows)
        return (factors[index].float() * (codes - 1).float()).half().T.contiguous().bfloat16()

    return config, tensors, owner if each else None


# AutoAWQ, utils/packing_utils.py (`dequantize_gemm`).


@layout("AWQ, gemm")
def awq():
    groups, order = COLUMNS // GROUP, torch.tensor([0, 4, 1, 5, 2, 6, 3, 7])
    tensors = {"a.qweight": words(COLUMNS, ROWS // 8), "a.qzeros": words(groups, ROWS // 8)}
    tensors["a.scales"] = scales(groups, ROWS, data_type=np.float16)
    config = quantized("awq", bits=4, group_size=GROUP, version="gemm", zero_point=True)
    rows = ROWS // 16
    packed = [torch.from_numpy(np.ascontiguousarray(tensors[f"a.{name}"][:, : rows // 8])) for name in ("qweight", "qzeros")]
    factors = torch.from_numpy(np.ascontiguousarray(tensors["a.scales"][:, :rows]))

    def owner():
        shifts = 4 * order.int()
        codes, zeros = ((words[:, :, None] >> shifts & 15).view(len(words), rows).to(torch.int8) for words in packed)
        zeros, factor = zeros.repeat_interleave(GROUP, 0), factors.repeat_interleave(GROUP, 0)
        return ((codes - zeros) * factor).T.contiguous().bfloat16()

    return config, tensors, owner


@layout("AWQ, gemv")
def awq_gemv():
    groups = COLUMNS // GROUP
    tensors = {"a.qweight": words(ROWS, COLUMNS // 8), "a.qzeros": words(ROWS, groups // 8)}
    tensors["a.scales"] = scales(ROWS, groups, data_type=np.float16)
    return quantized("awq", bits=4, group_size=GROUP, version="gemv", zero_point=True), tensors, None


# bitsandbytes, functional.py: entries of a table times `absmax`; int8 times `SCB` by 127.

NF4 = [-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0]
NF4 += [0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]


@layout("bitsandbytes, NF4", False)
@layout("bitsandbytes, NF4, nested", True)
def nf4(is_nested):
    count, table = ROWS * COLUMNS, np.float32(NF4)
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [ROWS, COLUMNS]}
    tensors = {"a.weight": noise(count // 2, 1), "a.weight.quant_map": table, "a.weight.absmax": scales(count // 64)}
    if is_nested:
        state |= {"nested_blocksize": 256, "nested_offset": 0.1, "nested_dtype": "float32"}
        tensors["a.weight.absmax"] = noise(count // 64)
        tensors["a.weight.nested_absmax"] = scales(count // 64 // 256)
        tensors["a.weight.nested_quant_map"] = np.linspace(-1, 1, 256, dtype=np.float32)
    text = json.dumps(state).encode()
    tensors["a.weight.quant_state.bitsandbytes__nf4"] = np.frombuffer(text, np.uint8)
    codes, absmax = part(tensors["a.weight"], count // 32).view(-1), part(tensors["a.weight.absmax"], count // 1024)

    def owner():
        both = torch.stack([codes >> 4, codes & 15], -1).view(-1, 64)
        return (torch.from_numpy(table)[both.int()] * absmax[:, None]).bfloat16()

    return quantized("bitsandbytes", load_in_4bit=True), tensors, None if is_nested else owner


@layout("bitsandbytes, int8")
def bnb_int8():
    codes, factors = noise(ROWS, COLUMNS, least=-128, most=128, data_type=np.int8), scales(ROWS)
    tensors = {"a.weight": codes, "a.SCB": factors, "a.weight_format": np.uint8(0).reshape(())}
    some, factor = part(codes), part(factors)[:, None]
    return quantized("bitsandbytes"), tensors, lambda: (some * factor * 7.874015718698502e-3).bfloat16()


# MLX, mlx/backend/cpu/quantized.cpp, as tensors: two roundings, of the product and of the sum.


def mlx(bits, mode, group, tensors, owner=None):
    return {"quantization": {"bits": bits, "group_size": group, "mode": mode}}, tensors, owner


def affine(bits):
    tensors = {"a.weight": words(ROWS, COLUMNS * bits // 32).view(np.uint32)}
    tensors |= {f"a.{name}": scales(ROWS, COLUMNS // 64, data_type=np.float16) for name in ("scales", "biases")}
    packed = part(tensors["a.weight"].view(np.int32))
    factors, biases = (part(tensors[f"a.{name}"])[:, :, None] for name in ("scales", "biases"))

    def owner():
        shifts = torch.arange(0, 32, bits, dtype=torch.int32)
        codes = (packed[:, :, None] >> shifts & (1 << bits) - 1).view(len(packed), -1, 64)
        return (codes.half() * factors + biases).bfloat16()

    return mlx(bits, "affine", 64, tensors, owner if 32 % bits == 0 else None)


for width in (2, 3, 4, 5, 6, 8):
    layout(f"MLX, {width} bits", width)(affine)


@layout("MLX, MXFP4")
def mlx_mxfp4():
    tensors = {"a.weight": words(ROWS, COLUMNS // 8).view(np.uint32), "a.scales": noise(ROWS, COLUMNS // 32, least=110, most=130)}
    return mlx(4, "mxfp4", 32, tensors)


# ComfyUI, comfy_kitchen/backends/eager: the scales' order is undone, and a table is looked up.


def comfy(kind, tensors, owner=None):
    settings = np.frombuffer(json.dumps({"format": kind}).encode(), np.uint8)
    return {}, {"a.comfy_quant": settings} | tensors, owner


def in_rows(swizzled, rows, columns):
    """Scales in rows, of tiles of 128x4."""
    return swizzled.view(rows // 128, columns // 4, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(rows, columns)


@layout("ComfyUI, NVFP4")
def comfy_nvfp4():
    codes, factors = noise(ROWS, COLUMNS // 2), noise(ROWS, COLUMNS // 16, least=40, most=120)
    tensors = {"a.weight": codes, "a.weight_scale": named("F8_E4M3", factors), "a.weight_scale_2": np.float32(0.01).reshape(())}
    some, swizzled = part(codes), part(factors)

    def owner():
        both = torch.stack([some >> 4, some & 15], -1).view(len(some), -1, 16)
        factor = in_rows(swizzled.view(torch.float8_e4m3fn).float(), len(some), COLUMNS // 16) * 0.01
        return (NVFP4[both.int()] * factor[:, :, None]).bfloat16()

    return comfy("nvfp4", tensors, owner)


@layout("ComfyUI, MXFP8")
def comfy_mxfp8():
    codes, factors = noise(ROWS, COLUMNS, most=127), noise(ROWS, COLUMNS // 32, least=110, most=130)
    some, swizzled = part(codes).view(torch.float8_e4m3fn), part(factors)

    def owner():
        factor = torch.exp2(in_rows(swizzled, len(some), COLUMNS // 32).float() - 127)
        return (some.float().view(len(some), -1, 32) * factor[:, :, None]).bfloat16()

    return comfy("mxfp8", {"a.weight": named("F8_E4M3", codes), "a.weight_scale": factors}, owner)


@layout("ComfyUI, float8")
def comfy_float8():
    codes = noise(ROWS, COLUMNS, most=127)
    some = part(codes).view(torch.float8_e4m3fn)
    tensors = {"a.weight": named("F8_E4M3", codes), "a.weight_scale": np.float32(0.01).reshape(())}
    return comfy("float8_e4m3fn", tensors, lambda: some.bfloat16() * torch.tensor(0.01, dtype=torch.bfloat16))


@layout("ComfyUI, int8")
def comfy_int8():
    codes = noise(ROWS, COLUMNS, least=-128, most=128, data_type=np.int8)
    some = part(codes)
    tensors = {"a.weight": codes, "a.weight_scale": np.float32(0.01).reshape(())}
    return comfy("int8_tensorwise", tensors, lambda: (some.float() * 0.01).bfloat16())


# OpenAI, gpt_oss/torch/weights.py (`_get_mxfp4_tensor`); DeepSeek-V4's experts have the same arithmetic.


def mxfp4_owner(codes, exponents):
    def owner():
        table, values = NVFP4.bfloat16(), torch.empty(len(codes), 32, dtype=torch.bfloat16)
        values[:, 0::2], values[:, 1::2] = table[(codes & 15).long()], table[(codes >> 4).long()]
        return torch.ldexp(values, exponents.int()[:, None] - 127)

    return owner


@layout("MXFP4, OpenAI's own names")
def openai():
    codes, exponents = noise(ROWS * COLUMNS // 32, 16), noise(ROWS * COLUMNS // 32, least=110, most=130)
    shape = 4, ROWS // 4, COLUMNS // 32
    tensors = {"block.0.mlp.mlp1_weight.blocks": codes.reshape(*shape, 16), "block.0.mlp.mlp1_weight.scales": exponents.reshape(shape)}
    return {}, tensors, mxfp4_owner(part(codes, len(codes) // 16), part(exponents, len(codes) // 16))


@layout("MXFP4, experts of DeepSeek-V4")
def deepseek_v4():
    codes, exponents = noise(ROWS, COLUMNS // 2), noise(ROWS, COLUMNS // 32, least=110, most=130)
    tensors = {"a.weight": codes.view(np.int8), "a.scale": named("F8_E8M0", exponents)}
    return quantized("fp8", weight_block_size=[128, 128]), tensors, mxfp4_owner(part(codes).view(-1, 16), part(exponents).view(-1))


# Quark (quark/torch/utils/pack.py) and ModelOpt (modelopt/torch/export/quant_utils.py): signed integers of 4 bits in groups.


@layout("Quark, int4")
def quark():
    weight = {"dtype": "int4", "qscheme": "per_group", "group_size": GROUP, "ch_axis": 1, "is_dynamic": False, "symmetric": True}
    config = quantized("quark", global_quant_config={"weight": weight}, export={"pack_method": "reorder"})
    tensors = {"a.weight": words(COLUMNS, ROWS // 8), "a.weight_scale": scales(COLUMNS // GROUP, ROWS)}
    return config, tensors, None


@layout("Quark, int8")
def quark_int8():
    weight = {"dtype": "int8", "qscheme": "per_channel", "ch_axis": 0, "is_dynamic": False, "symmetric": True}
    codes, factors = noise(ROWS, COLUMNS, least=-128, most=128, data_type=np.int8), scales(ROWS)
    some, factor = part(codes), part(factors)[:, None]
    config = quantized("quark", global_quant_config={"weight": weight})
    return config, {"a.weight": codes, "a.weight_scale": factors}, lambda: (some.float() * factor).bfloat16()


@layout("ModelOpt, int4")
def modelopt():
    codes, factors = noise(ROWS // 2, COLUMNS), scales(ROWS, COLUMNS // GROUP)
    some, factor = part(codes, ROWS // 32), part(factors)

    def owner():
        both = torch.stack([some & 15, some >> 4], 1).flatten(0, 1).to(torch.int8)
        signed = torch.where(both > 7, both - 16, both)
        return (signed * factor.repeat_interleave(GROUP, 1)).bfloat16()

    config = quantized("modelopt", quant_algo="W4A16_AWQ", group_size=GROUP)
    return config, {"a.weight": codes, "a.weight_scale": factors}, owner


# HQQ, hqq/core/quantize.py (`dequantize`): the code less the zero point, times the scale, in float16.

PACKINGS = {8: "8bit_u8", 4: "4bit_u8", 3: "3bit_32", 2: "2bit_u8", 1: "1bit_u8"}


@layout("HQQ, 8 bits", 8, 1)
@layout("HQQ, 4 bits", 4, 1)
@layout("HQQ, 4 bits, groups of columns", 4, 0)
@layout("HQQ, 3 bits", 3, 1)
@layout("HQQ, 2 bits", 2, 1)
@layout("HQQ, 1 bit", 1, 1)
def hqq(bits, axis):
    groups = ROWS * COLUMNS // 64
    height, width = (groups, 64) if axis else (64, groups)
    packed = words(-(-height // 10), width) & 0x3FFFFFFF if bits == 3 else noise(height * bits // 8, width)
    each = (groups, 1) if axis else (1, groups)
    factors, zeros = scales(*each, data_type=np.float16), RNG.uniform(0, 1 << bits, each).astype(np.float16)
    tensors = {"a.W_q": packed, "a.scale": factors, "a.zero": zeros, "a.shape": np.int64([ROWS, COLUMNS])}
    tensors |= {f"a.{name}": np.int32([value]) for name, value in (("nbits", bits), ("group_size", 64), ("axis", axis))}
    tensors["a.packing"] = np.frombuffer(PACKINGS[bits].encode(), np.uint8)
    if bits == 3 or not axis:
        return {}, tensors, None
    some, factor, zero = part(packed, len(packed) // 16), part(factors, groups // 16), part(zeros, groups // 16)

    def owner():
        codes = torch.cat([some >> shift & (1 << bits) - 1 for shift in range(8 - bits, -1, -bits)])
        return ((codes.half() - zero) * factor).bfloat16()

    return {}, tensors, owner


# torchao, prototype/safetensors: bytes, whose class and blocks are in the file's metadata. quanto has the same bytes.


def torchao(kind, codes, block, more):
    settings = {"_type": kind, "_data": {"block_size": block}}
    tensors = {"a._weight_qdata": codes, "a._weight_scale": scales(ROWS, COLUMNS // block[1]), "": {"a.weight": json.dumps(settings)}}
    return quantized("torchao"), tensors | more, None


@layout("torchao, Int8Tensor")
def torchao_int8():
    return torchao("Int8Tensor", noise(ROWS, COLUMNS, least=-128, most=128, data_type=np.int8), [1, COLUMNS], {})


@layout("torchao, IntxUnpackedToInt8Tensor")
def torchao_intx():
    codes = noise(ROWS, COLUMNS, least=-8, most=8, data_type=np.int8)
    zeros = noise(ROWS, COLUMNS // 32, least=-8, most=8, data_type=np.int8)
    return torchao("IntxUnpackedToInt8Tensor", codes, [1, 32], {"a._weight_zero_point": zeros})


@layout("torchao, Float8Tensor")
def torchao_float8():
    return torchao("Float8Tensor", named("F8_E4M3", noise(ROWS, COLUMNS, most=127)), [1, COLUMNS], {})


@layout("quanto, qint8", False)
@layout("quanto, qfloat8", True)
def quanto(is_float):
    codes = named("F8_E4M3", noise(ROWS, COLUMNS, most=127)) if is_float else noise(ROWS, COLUMNS, least=-128, most=128, data_type=np.int8)
    return quantized("quanto"), {"a.weight._data": codes, "a.weight._scale": scales(ROWS, 1)}, None


# BitNet, transformers/integrations/bitnet.py (`unpack_weights`): a byte has elements of four rows, a quarter of all apart.


@layout("BitNet")
def bitnet():
    codes = noise(ROWS // 4, COLUMNS) & 0xAA
    return quantized("bitnet"), {"a.weight": codes, "a.weight_scale": scales(1)}, None


@layout("AutoRound, FP8 in 128x128")
def auto_round_fp8():
    codes, factors = noise(ROWS, COLUMNS, most=127), scales(ROWS // 128, COLUMNS // 128)
    config = quantized("auto-round", packing_format="auto_round:fp8", weight_block_size=[128, 128])
    return config, {"a.weight": named("F8_E4M3", codes), "a.weight_scale_inv": factors}, None


def each(named):
    """The same items for each matrix: the names begin with `a.` or with the number of a layer."""
    numbered = re.compile(r"^(a|layers\.|block\.)0?\.")
    return {numbered.sub(rf"\g<1>{number}.", name): item for number in range(MATRICES) for name, item in named.items()}


def write(folder, config, tensors):
    """A checkpoint of one file, whose matrices all have these tensors. What has no name is the file's metadata."""
    folder.mkdir()
    if config:
        (folder / "config.json").write_text(json.dumps(config))
    tensors = dict(tensors)
    metadata = each(tensors.pop("", {}))
    header, end = {"__metadata__": metadata} if metadata else {}, 0
    typed = {name: found if isinstance(found, tuple) else (TYPES[found.dtype.name], found) for name, found in tensors.items()}
    arrays = each(typed)
    for name, (kind, array) in arrays.items():
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in arrays.values():
            file.write(np.ascontiguousarray(array).tobytes())


def owner_seconds(function):
    """Of a sixteenth of a matrix, times 16 for each of them: the median of three."""
    taken = []
    for _ in range(3):
        begin = time.process_time()
        function()
        taken.append(16 * MATRICES * (time.process_time() - begin))
    return statistics.median(taken)


def main():
    command, folder, *wanted = sys.argv[1:]
    folder = Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.set_num_threads(1)
    out, one = folder / "out", ["--to", "bf16", "--threads", "1", "--quiet"]
    write(folder / "plain", {}, {"a.weight": named("F8_E4M3", noise(ROWS, COLUMNS, most=127))})
    jobs, owners = {"`cast`": [command, "cast", folder / "plain" / "model.safetensors", folder / "out.safetensors", *one]}, {}
    for number, (name, make) in enumerate(LAYOUTS.items()):
        if wanted and not any(word in name for word in wanted):
            continue
        config, tensors, owner = make()
        write(folder / str(number), config, tensors)
        jobs[name] = [command, "dequantize", folder / str(number), out, *one]
        owners[name] = owner_seconds(owner) if owner else math.nan
    taken = {name: [] for name in jobs}
    for _ in range(ROUNDS):
        for name, job in jobs.items():
            begin = time.perf_counter()
            seconds = processor_seconds(job)
            taken[name].append((seconds, time.perf_counter() - begin))
            shutil.rmtree(out, ignore_errors=True)
            (folder / "out.safetensors").unlink(missing_ok=True)
    medians = {name: [statistics.median(one) for one in zip(*all, strict=True)] for name, all in taken.items()}
    print("| | seconds | of the clock | millions of weights/s | of `cast` | the owner's code |\n|---|---|---|---|---|---|")
    for name, (seconds, clock) in medians.items():
        theirs = owners.get(name, math.nan) / seconds
        theirs = "" if math.isnan(theirs) else f"{theirs:.0f} times"
        rate, share = MATRICES * ROWS * COLUMNS / seconds / 1e6, seconds / medians["`cast`"][0]
        print(f"| {name} | {seconds:.3f} | {clock:.3f} | {rate:.0f} | {share:.2f} | {theirs} |")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
