#!/usr/bin/env python3
"""Are checkpoints of the sizes that people have quantized and read back in constant memory?

Sparse files of zeros: a plan of a mixture of experts, 671 billion weights in 90 shards, and layers of it with real
columns, 5,120 to 18,432, and all 256 experts, whose rows are few. Four times the experts' rows must not take more
memory. Layouts that are only read are dequantized at these sizes too.
"""

import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shared import fail, line

SHARDS, EXPERTS, HIDDEN, INNER, DENSE = 90, 256, 7168, 2048, 18432
WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "U32": 4, "I64": 8, "I8": 1, "U8": 1, "F8_E4M3": 1}
#: Above the most that a run took, 231 MB for the plan of 46,000 tensors.
MOST_MEMORY = 400 << 20
MOST_SECONDS = 120


def layer(number, rows):
    """The tensors of a layer by name; `rows` limits their rows."""
    head = f"model.layers.{number}."
    shapes = {"self_attn.q_a_proj": (1536, HIDDEN), "self_attn.kv_a_proj_with_mqa": (576, HIDDEN)}
    shapes |= {"self_attn.q_b_proj": (24576, 1536), "self_attn.kv_b_proj": (32768, 512)}
    shapes |= {"self_attn.o_proj": (HIDDEN, 16384)}
    experts = [f"mlp.experts.{expert}." for expert in range(EXPERTS)] + ["mlp.shared_experts."]
    if number < 3:
        shapes |= {"mlp.gate_proj": (DENSE, HIDDEN), "mlp.up_proj": (DENSE, HIDDEN), "mlp.down_proj": (HIDDEN, DENSE)}
    else:
        shapes |= {"mlp.gate": (EXPERTS, HIDDEN)}
        for expert in experts:
            shapes |= {f"{expert}gate_proj": (INNER, HIDDEN), f"{expert}up_proj": (INNER, HIDDEN)}
            shapes |= {f"{expert}down_proj": (HIDDEN, INNER)}
    found = {f"{head}{name}.weight": (min(height, rows), width) for name, (height, width) in shapes.items()}
    return found | {f"{head}input_layernorm.weight": (HIDDEN,)}


def whole():
    """All tensors of the model."""
    tensors = {"model.embed_tokens.weight": (129280, HIDDEN), "lm_head.weight": (129280, HIDDEN)}
    for number in range(61):
        tensors |= layer(number, 1 << 30)
    return tensors


def slice_of(rows):
    """Some layers, with few rows, and a layer of another model with 5,120 columns."""
    tensors = {"model.embed_tokens.weight": (rows, HIDDEN), "lm_head.weight": (rows, HIDDEN)}
    for number in (0, 1, 3):
        tensors |= layer(number, rows)
    return tensors | {f"model.layers.4.mlp.{name}_proj.weight": (16 * rows, 5120) for name in ("gate", "up")}


def write(folder, tensors):
    """A checkpoint of bfloat16 zeros in shards, sparse. Returns how many values it has."""
    config = {"model_type": "deepseek_v3", "tie_word_embeddings": False}
    return write_zeros(folder, {name: ("BF16", shape) for name, shape in tensors.items()}, config) // 2


def write_zeros(folder, tensors, config, metadata=None):
    """A checkpoint of zeros in shards, sparse, of types and shapes by name, and the bytes of what is not zeros. Returns
    how many bytes it has."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    names, shards, total = list(tensors), {}, 0
    for number in range(SHARDS):
        file = f"model-{number + 1:05}-of-{SHARDS:05}.safetensors"
        header, end, filled = {"__metadata__": metadata} if metadata else {}, 0, []
        for name in names[number * len(names) // SHARDS : (number + 1) * len(names) // SHARDS]:
            (kind, shape, *data), start = tensors[name], end
            end += math.prod(shape) * WIDTHS[kind]
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, end]}
            shards[name] = file
            filled += [(start, bytes) for bytes in data]
        text, total = json.dumps(header).encode(), total + end
        with (folder / file).open("wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            out.truncate(8 + len(text) + end)
            for start, bytes in filled:
                out.seek(8 + len(text) + start)
                out.write(bytes)
    index = {"metadata": {"total_size": total}, "weight_map": shards}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return total


def write_calibrated(folder):
    """The whole model in float8 with a scale for each weight and its activations, as compressed-tensors has it. Returns
    how many scales of activations there are."""
    settings = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
    group, scale = {"weights": settings, "input_activations": settings, "targets": ["Linear"]}, struct.pack("<f", 0.25)
    config = quantization("compressed-tensors", format="float-quantized", config_groups={"group_0": group})
    weights, tensors = {name: shape for name, shape in whole().items() if len(shape) == 2 and "layers" in name}, {}
    for name, shape in weights.items():
        tensors |= {name.removesuffix("weight") + one: ("F32", (1,), scale) for one in ("weight_scale", "input_scale")}
        tensors[name] = ("F8_E4M3", shape)
    write_zeros(folder, tensors, config)
    return len(weights)


def quantization(method, **more):
    return {"quantization_config": {"quant_method": method} | more}


def packed(rows, columns, qweight):
    """GPTQ's and AWQ's words: eight codes of a column or of a row in each."""
    zeros, scales = ("I32", (columns // 128, rows // 8)), ("F16", (columns // 128, rows))
    return {"qweight": ("I32", qweight), "qzeros": zeros, "scales": scales}


def four_bits(kind, table, rows, columns, **nested):
    """bitsandbytes: codes, the table of their entries, and what the state says."""
    state = {"quant_type": kind, "blocksize": 64, "dtype": "bfloat16", "shape": [rows, columns]} | nested
    text, table = json.dumps(state).encode(), struct.pack("<16f", *table)
    tensors = {"weight": ("U8", (rows * columns // 2, 1)), "weight.quant_map": ("F32", (16,), table)}
    return tensors | {f"weight.quant_state.bitsandbytes__{kind}": ("U8", (len(text),), text)}


def fp4(rows, columns):
    table = [sign * number / 12 for sign in (1, -1) for number in [0, 0.0625, 8, 12, 4, 6, 2, 3]]
    return four_bits("fp4", table, rows, columns) | {"weight.absmax": ("F32", (rows * columns // 64,))}


NF4 = [-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0]
NF4 += [0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]


def nf4(rows, columns):
    """With nested scales. A code of 0 is -1, whose product with a scale of -0 is 0: that of the nested scale, and an
    offset of -0."""
    blocks, table = rows * columns // 64, struct.pack("<256f", -1, *[0] * 255)
    tensors = four_bits("nf4", NF4, rows, columns, nested_blocksize=256, nested_offset=-0.0, nested_dtype="float32")
    tensors |= {"weight.absmax": ("U8", (blocks,)), "weight.nested_quant_map": ("F32", (256,), table)}
    return tensors | {"weight.nested_absmax": ("F32", (-(-blocks // 256),))}


def hqq(rows, columns):
    groups, packing = rows * columns // 64, b"4bit_u8"
    tensors = {"W_q": ("U8", (groups // 2, 64)), "scale": ("F16", (groups, 1)), "zero": ("F16", (groups, 1))}
    tensors |= {"shape": ("I64", (2,), struct.pack("<2q", rows, columns)), "packing": ("U8", (len(packing),), packing)}
    numbers = {"group_size": 64, "axis": 1}
    return tensors | {name: ("I32", (1,), struct.pack("<i", value)) for name, value in numbers.items()}


def up(size, step=128):
    return -(-size // step)


INT8 = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}}
QUARK = {"global_quant_config": {"weight": {"dtype": "int4", "qscheme": "per_group", "group_size": 128}}}
GROUPS = {"bits": 4, "group_size": 128}
#: Layouts that are only read: a configuration, and the tensors of a weight with r rows and c columns, by their endings
#: with types and shapes. Codes and scales of zeros are values of zeros in each.
READ = {
    "GPTQ": (quantization("gptq", **GROUPS, sym=False, checkpoint_format="gptq_v2"),
             lambda r, c: packed(r, c, (c // 8, r))),
    "AWQ": (quantization("awq", **GROUPS, version="gemm"), lambda r, c: packed(r, c, (c, r // 8))),
    "AutoRound": (quantization("auto-round", **GROUPS, packing_format="auto_round:gptqmodel"),
                  lambda r, c: packed(r, c, (c // 8, r))),
    "bitsandbytes": (quantization("bitsandbytes", load_in_8bit=True),
                     lambda r, c: {"weight": ("I8", (r, c)), "SCB": ("F32", (r,))}),
    "MLX": ({"quantization": {"group_size": 64, "bits": 4}},
            lambda r, c: {"weight": ("U32", (r, c // 8))} | dict.fromkeys(("scales", "biases"), ("BF16", (r, c // 64)))),
    "ComfyUI's MXFP8": (
        {}, lambda r, c: {"weight": ("F8_E4M3", (r, c)), "weight_scale": ("U8", (up(r) * 128, up(c) * 4))}),
    "Mistral": (
        {}, lambda r, c: {"weight": ("F8_E4M3", (r, c)), "qscale_weight": ("F32", ()), "qscale_act": ("F32", ())}),
    "bitsandbytes' FP4": (quantization("bitsandbytes", load_in_4bit=True), fp4),
    "bitsandbytes' NF4": (quantization("bitsandbytes", load_in_4bit=True), nf4),
    # A code of 0 is -1, whose product with a scale of -0 is 0.
    "BitNet": (quantization("bitnet", linear_class="autobitlinear", quantization_mode="offline"),
               lambda r, c: {"weight": ("U8", (r // 4, c)), "weight_scale": ("BF16", (1,), b"\0\x80")}),
    "Quark's int4": (quantization("quark", **QUARK, export={"pack_method": "reorder"}),
                     lambda r, c: {"weight": ("I32", (c, r // 8)), "weight_scale": ("F32", (c // 128, r))}),
    "ModelOpt's int4": (quantization("modelopt", quant_algo="W4A16_AWQ", group_size=128),
                        lambda r, c: {"weight": ("U8", (r // 2, c)), "weight_scale": ("F32", (r, c // 128))}),
    "HQQ": ({}, hqq),
    "torchao": (quantization("torchao"),
                lambda r, c: {"_weight_qdata": ("I8", (r, c)), "_weight_scale": ("F32", (r, 1))}),
    "quanto": (quantization("quanto"),
               lambda r, c: {"weight._data": ("F8_E4M3", (r, c)), "weight._scale": ("F32", (r, 1))}),
    "AutoRound's FP8": (quantization("auto-round", packing_format="auto_round:fp8", weight_block_size=[128, 128]),
                        lambda r, c: {"weight": ("F8_E4M3", (r, c)), "weight_scale_inv": ("F32", (up(r), up(c)))}),
    "W8A8": (quantization("compressed-tensors", format="int-quantized", config_groups={"0": INT8}),
             lambda r, c: {"weight": ("I8", (r, c)), "weight_scale": ("BF16", (r, 1))}),
}  # fmt: skip


def check_read(folder, layout, rows):
    """Dequantizes a slice of the model in a layout that is only read; returns the most memory."""
    config, parts_of = READ[layout]
    tensors, want, told = {}, {}, {}
    for name, shape in slice_of(rows).items():
        module = name.removesuffix(".weight")
        want[name] = ("BF16", [*shape])
        if len(shape) != 2 or "layers" not in name or name.endswith("gate.weight"):
            tensors[name] = ("BF16", shape)
            continue
        told[module] = {"format": "mxfp8"}
        tensors |= {f"{module}.{ending}": part for ending, part in parts_of(*shape).items()}
    metadata = {"_quantization_metadata": json.dumps({"layers": told})} if layout.startswith("ComfyUI") else None
    source, back = folder / f"read-{layout}", folder / f"back-{layout}"
    write_zeros(source, tensors, config, metadata)
    memory = run("dequantize", source, back, "--to", "bf16", "--quiet")
    found = {}
    for path in sorted(back.glob("*.safetensors")):
        some, are_zeros = parts(path)
        found |= some
        if not are_zeros:
            fail(f"{layout}: {path.name}: zeros are other values")
    for path in (source, back):
        shutil.rmtree(path)
    if found != want:
        fail(f"{layout}: other names or shapes: {sorted(set(found) ^ set(want))[:5]}")
    return memory


def run(*arguments):
    """Runs the command; returns its seconds and the most memory that it took."""
    begin = time.monotonic()
    process = subprocess.Popen(line(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status {process.returncode}")
    seconds, memory = time.monotonic() - begin, usage.ru_maxrss * 1024
    print(f"  {' '.join(map(str, arguments[:1] + arguments[3:]))}: {seconds:.1f} s, {memory >> 20} MB", flush=True)
    if memory > MOST_MEMORY or seconds > MOST_SECONDS:
        fail(f"it took {memory >> 20} MB and {seconds:.0f} s")
    return memory


def parts(path):
    """Types and shapes by name, and whether all values are zeros."""
    with path.open("rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        are_zeros = not any(block.strip(b"\0") for block in iter(lambda: file.read(1 << 20), b""))
    return {name: (part["dtype"], part["shape"]) for name, part in header.items() if name != "__metadata__"}, are_zeros


def compare(source, back):
    """The names, types, shapes and zeros of all shards."""
    for path in sorted(source.glob("*.safetensors")):
        if parts(path) != parts(back / path.name):
            fail(f"{path.name}: names, shapes or values differ after a round trip")


def main():
    if sys.platform != "linux":
        print("left out: sizes as in life: sparse files and the memory of a process are checked on Linux")
        return
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        total = write(folder / "whole", whole())
        print(f"{total / 1e9:.0f} billion weights in {SHARDS} shards, the plan")
        float8 = ["--to", "float8e4m3fn", "--layout"]
        for options in (["--to", "nvfp4"], [*float8, "deepseek"], [*float8, "modelopt"]):
            run("quantize", folder / "whole", folder / "out", *options, "--dry-run", "--quiet")
        count = write_calibrated(folder / "calibrated")
        print(f"{count} weights with scales of activations, the plan of another layout")
        run("transcode", folder / "calibrated", folder / "out", "--layout", "modelopt", "--dry-run", "--quiet")
        took = []
        for rows in (16, 64):
            source = folder / f"rows-{rows}"
            total = write(source, slice_of(rows))
            print(f"{total / 1e6:.0f} million weights in {SHARDS} shards")
            most = 0
            for number, options in enumerate((["--to", "nvfp4"], [*float8, "deepseek"], [*float8, "modelopt"])):
                quantized, back = folder / f"quantized-{rows}-{number}", folder / f"back-{rows}-{number}"
                most = max(most, run("quantize", source, quantized, *options, "--quiet"))
                most = max(most, run("dequantize", quantized, back, "--to", "bf16", "--quiet"))
                compare(source, back)
            took.append(most)
        for layout in READ:
            print(f"{layout}, with {EXPERTS} experts in {SHARDS} shards")
            took[1] = max(took[1], check_read(folder, layout, 64))
        if took[1] > took[0] + (64 << 20):
            fail(f"memory grows with the size: {took[0] >> 20} MB, then {took[1] >> 20} MB")
    print("sizes as in life: constant memory")


if __name__ == "__main__":
    main()
