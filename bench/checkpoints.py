#!/usr/bin/env python3
"""Whole files: what the command takes beside `cast` of as many weights, beside cp, and beside the packages of others.

Usage: checkpoints.py PART COMMAND FOLDER [--rounds N] [--only TEXT]; FOLDER is in memory, as /dev/shm/bench, but for
`large`, which needs 30 GB. All jobs take turns, with one thread but for `files`; medians of the rounds are printed as a
table: seconds of the clock and of the processor (which other work on the machine disturbs least), millions of weights
a second, the share of the first row's processor time, peak memory. A script of others tells its seconds without its
imports. Needs numpy, and what the part names.

- files: 2 GiB of floats to float16, beside cp and scripts over safetensors' numpy and torch; 8 GiB in a sparse file
- formats: `dequantize` and `quantize` of formats, beside compressed-tensors, transformers and gguf
- gguf: every type of GGUF, beside the gguf package
- layouts: `dequantize` of the layouts that are only read
- large: `cast`, `fold`, `convert`, `upgrade` and `record` of models of 5 GiB and of 100,000 nodes; needs onnx
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import harness
import numpy as np

RNG = np.random.default_rng(1)
# A checkpoint has four matrices: with one, the pages of memory that a process touches for the first time would count.
ROWS, COLUMNS, GROUP, MATRICES = 4096, 8192, 128, 4
# Of the square matrices of `formats`.
SIDE = 4096
ONE = ["--threads", "1", "--quiet", "--force"]
TYPES = {"uint8": "U8", "int8": "I8", "int32": "I32", "uint32": "U32", "int64": "I64"}
TYPES |= {"float16": "F16", "float32": "F32"}

# What others run: from and to a file, or a folder for a folder.
START = "import os, sys, time\nsource, out = sys.argv[1:3]\n"
PEER = START + """
{imports}
from safetensors.{library} import load_file, save_file
start = time.perf_counter()
save_file({{name: value.{cast} for name, value in load_file(source).items()}}, out)
print(time.perf_counter() - start)
"""
CONVERTED = START + """
import torch
torch.set_num_threads(1)
from compressed_tensors.entrypoints.convert import convert_checkpoint
from compressed_tensors.entrypoints.convert.converters.{module} import *
start = time.perf_counter()
convert_checkpoint(source, out, {converter}(source), max_workers=1, device="cpu")
print(time.perf_counter() - start)
"""
EXPERTS = START + """
import torch
torch.set_num_threads(1)
from safetensors.torch import load_file, save_file
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


def run(arguments, folder=None):
    """Seconds of the clock, or those that a script tells of its work, of the processor, and the peak memory in MiB."""
    done = harness.process(arguments, folder) or sys.exit(f"{arguments}: it failed")
    return float(done.told.split()[-1]) if arguments[0] == sys.executable else done.clock, done.processor, done.memory


def in_turns(jobs, rounds, weights, outputs):
    """Runs the jobs, each once a round, and prints a table."""

    def taken(arguments):
        for output in outputs:
            shutil.rmtree(output, ignore_errors=True) if output.is_dir() else output.unlink(missing_ok=True)
        return run(arguments)

    found = harness.in_turn(jobs, rounds, taken, warm=False)
    first = next(iter(found.values()))[1]
    rows = [
        [name, f"{clock:.3f}", f"{processor:.3f}", f"{weights / processor / 1e6:.0f}", f"{processor / first:.2f}", f"{memory:.0f}"]
        for name, (clock, processor, memory) in found.items()
    ]
    header = ["", "seconds", "of the processor", "millions of weights/s", "of the first", "MiB at most"]
    print("", *harness.table(header, rows), sep="\n", flush=True)


def save(path, tensors, metadata=None):
    """A file of tensors: arrays, or pairs of a type's name and an array."""
    header, end = {"__metadata__": metadata} if metadata else {}, 0
    typed = {name: (TYPES[one.dtype.name], one) if hasattr(one, "dtype") else one for name, one in tensors.items()}
    for name, (kind, array) in typed.items():
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, array in typed.values():
            file.write(np.ascontiguousarray(array).tobytes())


def bfloat16(*shape):
    weights = RNG.normal(0, 0.05, shape).astype(np.float32)
    return "BF16", (weights.view(np.uint32) >> 16).astype(np.uint16)


def noise(*shape, least=0, most=256, data_type=np.uint8):
    return RNG.integers(least, most, shape, data_type)


def float8(*shape):
    return "F8_E4M3", noise(*shape, most=127)


def int8(*shape):
    return noise(*shape, least=-128, most=128, data_type=np.int8)


def exponents(*shape):
    return noise(*shape, least=110, most=130)


def scales(*shape, data_type=np.float32):
    return RNG.uniform(0.001, 0.01, shape).astype(data_type)


def words(*shape):
    return RNG.integers(-(1 << 31), 1 << 31, shape, np.int32)


def text(value):
    return np.frombuffer(json.dumps(value).encode() if isinstance(value, dict) else value.encode(), np.uint8)


def files(command, folder, options):
    floats, source, out = 1 << 29, folder / "in.safetensors", folder / "out.safetensors"
    block = RNG.standard_normal(1 << 18, np.float32)
    save(source, {"w": np.tile(block, floats >> 18)})
    cast = [command, "cast", "--quiet", "--force", source, out, "--to", "float16"]
    jobs = {"cp": ["cp", "--reflink=never", source, out], "`cast`": cast, "`cast --stats`": [*cast, "--stats"]}
    for name, imports, converted in (
        ("numpy", "import numpy as np", "astype(np.float16)"),
        ("torch", "import torch", "to(torch.float16)"),
    ):
        if importlib.util.find_spec(name):
            script = PEER.format(imports=imports, library=name, cast=converted)
            jobs[f"Python, {name}, without imports"] = [sys.executable, "-c", script, source, out]
    in_turns(jobs, options.rounds, floats, [out])
    header = json.dumps({"w": {"dtype": "F32", "shape": [1 << 31], "data_offsets": [0, 1 << 33]}}).encode()
    source.write_bytes(len(header).to_bytes(8, "little") + header)
    os.truncate(source, 8 + len(header) + (1 << 33))
    in_turns({"8 GiB in one sparse tensor": [*cast[:-1], "float8e4m3fn"]}, 1, 1 << 31, [out])


def formats(command, folder, options):
    size, count = SIDE, 8
    plain, experts, out, wide = (folder / name for name in ("plain", "experts", "out", "wide.safetensors"))
    for part in plain, experts:
        part.mkdir()
        (part / "config.json").write_text('{"torch_dtype": "bfloat16"}')
    save(plain / "model.safetensors", {f"layers.{i}.proj.weight": bfloat16(size, size) for i in range(count)})
    save(experts / "model.safetensors", {"model.layers.0.mlp.experts.gate_up_proj": bfloat16(count, size, size)})
    file, small = plain / "model.safetensors", folder / "small.safetensors"
    to = {
        "FP8 in 128x128": (plain, "float8e4m3fn", "--layout", "deepseek"),
        "FP8 by rows": (plain, "float8e4m3fn"),
        "MXFP4": (plain, "mxfp4"),
        "NVFP4 (reads twice)": (plain, "nvfp4"),
        "int4 in 128": (plain, "int4/128"),
        "MXFP4 of gpt-oss": (experts, "mxfp4", "--layout", "gpt-oss"),
    }
    read = {"`cast`, from float8e4m3fn": [command, "cast", small, wide, "--to", "bfloat16", *ONE]}
    written = {"`cast`, to float8e4m3fn": [command, "cast", file, small, "--to", "float8e4m3fn", *ONE]}
    run(written["`cast`, to float8e4m3fn"])
    for name, (source, kind, *more) in to.items():
        quantized = folder / name.replace(" ", "-")
        run([command, "quantize", source, quantized, "--to", kind, *more, *ONE])
        written[f"`quantize`, {name}"] = [command, "quantize", source, out, "--to", kind, *more, *ONE]
        read[f"`dequantize`, {name}"] = [command, "dequantize", quantized, out, "--to", "bf16", *ONE]
    if importlib.util.find_spec("compressed_tensors"):
        for name, module, converter in (
            ("FP8-in-128x128", "fp8block_dequantizer", "FP8BlockDequantizer.from_pretrained"),
            ("NVFP4-(reads-twice)", "ct_dequantizer", "CompressedTensorsDequantizer"),
        ):
            script = CONVERTED.format(module=module, converter=converter)
            read[f"compressed-tensors, {name}"] = [sys.executable, "-c", script, folder / name, out]
    if importlib.util.find_spec("transformers"):
        read["transformers, MXFP4 of gpt-oss"] = [sys.executable, "-c", EXPERTS, folder / "MXFP4-of-gpt-oss", out]
    in_turns(read, options.rounds, count * size**2, [out, wide])
    in_turns(written, options.rounds, count * size**2, [out])


READ = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "IQ3_XXS"]
READ += ["IQ3_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ1_S", "IQ1_M", "TQ1_0", "TQ2_0", "MXFP4"]
# Where scales of float16 are in a block, if not at its beginning alone.
HALVES = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2)}
HALVES |= {"Q6_K": (208,), "TQ1_0": (52,), "TQ2_0": (64,)}
WRITTEN = ["Q8_0", "Q5_1", "Q5_0", "Q4_1", "Q4_0", "MXFP4"]


def gguf_blocks(folder, name):
    """A file of random blocks, whose scales are small numbers, and a sixteenth of them."""
    from gguf import GGMLQuantizationType, GGUFWriter
    from gguf.constants import GGML_QUANT_SIZES

    kind = getattr(GGMLQuantizationType, name)
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = noise(ROWS * COLUMNS // elements, size)
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


def gguf(command, folder, options):
    from gguf import GGMLQuantizationType, quants

    def package(name, function, part, kind):
        """Seconds of the package for a sixteenth of the weights, times 16."""
        begin = time.process_time()
        with np.errstate(all="ignore"):
            function(part, kind)
        print(f"the gguf package, {name}: {16 * (time.process_time() - begin):.2f} s")

    out, written = folder / "out.safetensors", folder / "out.gguf"
    small, wide = folder / "f8.safetensors", folder / "bf16.safetensors"
    metadata = {"general.architecture": "llama"}
    save(small, {"w": float8(ROWS, COLUMNS)}, metadata)
    save(wide, {"blk.0.ffn_up.weight": bfloat16(ROWS, COLUMNS)}, metadata)
    read = {"`cast`, from float8e4m3fn": [command, "cast", small, out, "--to", "bf16", *ONE]}
    write = {"`cast`, to float8e4m3fn": [command, "cast", wide, out, "--to", "float8e4m3fn", *ONE]}
    for name in filter(lambda name: options.only in name, READ):
        package(name, quants.dequantize, *gguf_blocks(folder, name))
        read[name] = [command, "dequantize", folder / f"{name}.gguf", out, "--to", "bf16", *ONE]
    weights = RNG.normal(0, 0.05, (ROWS // 16, COLUMNS)).astype(np.float32)
    for name in filter(lambda name: options.only in name, WRITTEN):
        package(f"to {name}", quants.quantize, weights, getattr(GGMLQuantizationType, name))
        write[f"to {name}"] = [command, "quantize", wide, written, "--to", name.lower(), "--layout", "gguf", *ONE]
    for jobs in read, write:
        in_turns(jobs, options.rounds, ROWS * COLUMNS, [out, written])


NF4 = [-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.091050036, 0.0]
NF4 += [0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]


def quantized(method, **more):
    return {"quantization_config": {"quant_method": method} | more}


def layout_table():
    """The name, the configuration and the tensors of each layout. A tensor without a name is the file's metadata."""
    rows, columns, groups, half = ROWS, COLUMNS, COLUMNS // GROUP, np.float16
    heads = {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
    one = np.float32(0.01).reshape(())

    mistral = "layers.0.feed_forward.w1"
    tensors = {f"{mistral}.weight": float8(rows, columns), f"{mistral}.qscale_weight": scales(1)}
    yield "FP8, a scale for the tensor (Mistral)", {}, tensors
    tensors = {"a.qkv_proj.weight": float8(rows, columns), "a.qkv_proj.weight_scale": scales(3)}
    yield "FP8, a scale for each of three parts", quantized("fp8") | heads, tensors
    weights = {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": True}
    group = {"group_0": {"targets": ["Linear"], "weights": weights}}
    config = quantized("compressed-tensors", format="int-quantized", config_groups=group)
    tensors = {"a.weight": int8(rows, columns), "a.weight_scale": scales(rows, 1)}
    yield "int8, a scale for each row (W8A8)", config, tensors

    for bits, is_ordered in (2, False), (3, False), (4, False), (4, True), (8, False):
        order = np.arange(columns, dtype=np.int32) // GROUP
        if is_ordered:
            RNG.shuffle(order)
        tensors = {"a.qweight": words(columns * bits // 32, rows), "a.scales": scales(groups, rows, data_type=half)}
        tensors |= {"a.qzeros": np.zeros((groups, rows * bits // 32), np.int32), "a.g_idx": order}
        more = {"desc_act": is_ordered, "sym": False, "checkpoint_format": "gptq"}
        config = quantized("gptq", bits=bits, group_size=GROUP, **more)
        yield f"GPTQ, {bits} bits{', act-order' * is_ordered}", config, tensors
    config = {"bits": 4, "group_size": GROUP, "zero_point": True}
    tensors = {"a.qweight": words(columns, rows // 8), "a.qzeros": words(groups, rows // 8)}
    tensors["a.scales"] = scales(groups, rows, data_type=half)
    yield "AWQ, gemm", quantized("awq", version="gemm", **config), tensors
    tensors = {"a.qweight": words(rows, columns // 8), "a.qzeros": words(rows, groups // 8)}
    tensors["a.scales"] = scales(rows, groups, data_type=half)
    yield "AWQ, gemv", quantized("awq", version="gemv", **config), tensors

    count, table = rows * columns, np.float32(NF4)
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [rows, columns]}
    tensors = {"a.weight": noise(count // 2, 1), "a.weight.quant_map": table, "a.weight.absmax": scales(count // 64)}
    name = "a.weight.quant_state.bitsandbytes__nf4"
    config = quantized("bitsandbytes", load_in_4bit=True)
    yield "bitsandbytes, NF4", config, tensors | {name: text(state)}
    nested = {"a.weight.absmax": noise(count // 64), "a.weight.nested_absmax": scales(count // 64 // 256)}
    nested["a.weight.nested_quant_map"] = np.linspace(-1, 1, 256, dtype=np.float32)
    state |= {"nested_blocksize": 256, "nested_offset": 0.1, "nested_dtype": "float32"}
    yield "bitsandbytes, NF4, nested", config, tensors | nested | {name: text(state)}
    tensors = {"a.weight": int8(rows, columns), "a.SCB": scales(rows), "a.weight_format": np.uint8(0).reshape(())}
    yield "bitsandbytes, int8", quantized("bitsandbytes"), tensors

    for bits in 2, 3, 4, 5, 6, 8:
        tensors = {"a.weight": words(rows, columns * bits // 32).view(np.uint32)}
        tensors |= {f"a.{name}": scales(rows, columns // 64, data_type=half) for name in ("scales", "biases")}
        yield f"MLX, {bits} bits", {"quantization": {"bits": bits, "group_size": 64, "mode": "affine"}}, tensors
    tensors = {"a.weight": words(rows, columns // 8).view(np.uint32), "a.scales": exponents(rows, columns // 32)}
    yield "MLX, MXFP4", {"quantization": {"bits": 4, "group_size": 32, "mode": "mxfp4"}}, tensors

    factors = "F8_E4M3", noise(rows, columns // 16, least=40, most=120)
    tensors = {"a.weight": noise(rows, columns // 2), "a.weight_scale": factors, "a.weight_scale_2": one}
    yield "ComfyUI, NVFP4", {}, {"a.comfy_quant": text({"format": "nvfp4"})} | tensors
    tensors = {"a.weight": float8(rows, columns), "a.weight_scale": exponents(rows, columns // 32)}
    yield "ComfyUI, MXFP8", {}, {"a.comfy_quant": text({"format": "mxfp8"})} | tensors
    tensors = {"a.weight": float8(rows, columns), "a.weight_scale": one}
    yield "ComfyUI, float8", {}, {"a.comfy_quant": text({"format": "float8_e4m3fn"})} | tensors
    tensors = {"a.weight": int8(rows, columns), "a.weight_scale": one}
    yield "ComfyUI, int8", {}, {"a.comfy_quant": text({"format": "int8_tensorwise"})} | tensors

    shape = 4, rows // 4, columns // 32
    name = "block.0.mlp.mlp1_weight"
    yield "MXFP4, OpenAI's own names", {}, {f"{name}.blocks": noise(*shape, 16), f"{name}.scales": exponents(*shape)}
    tensors = {"a.weight": noise(rows, columns // 2).view(np.int8)}
    tensors["a.scale"] = "F8_E8M0", exponents(rows, columns // 32)
    yield "MXFP4, experts of DeepSeek-V4", quantized("fp8", weight_block_size=[128, 128]), tensors

    weight = {"is_dynamic": False, "symmetric": True}
    four = weight | {"dtype": "int4", "qscheme": "per_group", "group_size": GROUP, "ch_axis": 1}
    config = quantized("quark", global_quant_config={"weight": four}, export={"pack_method": "reorder"})
    yield "Quark, int4", config, {"a.weight": words(columns, rows // 8), "a.weight_scale": scales(groups, rows)}
    config = {"weight": weight | {"dtype": "int8", "qscheme": "per_channel", "ch_axis": 0}}
    tensors = {"a.weight": int8(rows, columns), "a.weight_scale": scales(rows)}
    yield "Quark, int8", quantized("quark", global_quant_config=config), tensors
    config = quantized("modelopt", quant_algo="W4A16_AWQ", group_size=GROUP)
    yield "ModelOpt, int4", config, {"a.weight": noise(rows // 2, columns), "a.weight_scale": scales(rows, groups)}

    packings = {8: "8bit_u8", 4: "4bit_u8", 3: "3bit_32", 2: "2bit_u8", 1: "1bit_u8"}
    for bits, axis in (8, 1), (4, 1), (4, 0), (3, 1), (2, 1), (1, 1):
        all_groups = rows * columns // 64
        height, width = (all_groups, 64) if axis else (64, all_groups)
        each = (all_groups, 1) if axis else (1, all_groups)
        packed = words(-(-height // 10), width) & 0x3FFFFFFF if bits == 3 else noise(height * bits // 8, width)
        tensors = {"a.W_q": packed, "a.scale": scales(*each, data_type=half)}
        tensors["a.zero"] = RNG.uniform(0, 1 << bits, each).astype(half)
        numbers = {"nbits": bits, "group_size": 64, "axis": axis}
        tensors |= {f"a.{name}": np.int32([value]) for name, value in numbers.items()}
        tensors |= {"a.shape": np.int64([rows, columns]), "a.packing": text(packings[bits])}
        yield f"HQQ, {bits} bit{'s' * (bits > 1)}{'' if axis else ', groups of columns'}", {}, tensors

    small = noise(rows, columns, least=-8, most=8, data_type=np.int8)
    zeros = {"a._weight_zero_point": noise(rows, columns // 32, least=-8, most=8, data_type=np.int8)}
    for kind, codes, width, more in (
        ("Int8Tensor", int8(rows, columns), columns, {}),
        ("IntxUnpackedToInt8Tensor", small, 32, zeros),
        ("Float8Tensor", float8(rows, columns), columns, {}),
    ):
        settings = {"a.weight": json.dumps({"_type": kind, "_data": {"block_size": [1, width]}})}
        tensors = {"a._weight_qdata": codes, "a._weight_scale": scales(rows, columns // width), "": settings}
        yield f"torchao, {kind}", quantized("torchao"), tensors | more
    for name, codes in ("qint8", int8(rows, columns)), ("qfloat8", float8(rows, columns)):
        yield f"quanto, {name}", quantized("quanto"), {"a.weight._data": codes, "a.weight._scale": scales(rows, 1)}

    yield "BitNet", quantized("bitnet"), {"a.weight": noise(rows // 4, columns) & 0xAA, "a.weight_scale": scales(1)}
    config = quantized("auto-round", packing_format="auto_round:fp8", weight_block_size=[128, 128])
    tensors = {"a.weight": float8(rows, columns), "a.weight_scale_inv": scales(rows // 128, columns // 128)}
    yield "AutoRound, FP8 in 128x128", config, tensors


def layouts(command, folder, options):
    numbered = re.compile(r"^(a|layers\.|block\.)0?\.")

    def each(named):
        """The same items for each matrix: the names begin with `a.` or with the number of a layer."""
        numbers = range(MATRICES)
        return {numbered.sub(rf"\g<1>{number}.", name): item for number in numbers for name, item in named.items()}

    out, plain = folder / "out", folder / "plain.safetensors"
    save(plain, each({"a.weight": float8(ROWS, COLUMNS)}))
    jobs = {"`cast`": [command, "cast", plain, folder / "out.safetensors", "--to", "bf16", *ONE]}
    for number, (name, config, tensors) in enumerate(layout_table()):
        if options.only in name:
            source = folder / str(number)
            source.mkdir()
            if config:
                (source / "config.json").write_text(json.dumps(config))
            metadata = each(tensors.pop("", {}))
            save(source / "model.safetensors", each(tensors), metadata)
            jobs[name] = [command, "dequantize", source, out, "--to", "bf16", *ONE]
    in_turns(jobs, options.rounds, MATRICES * ROWS * COLUMNS, [out, folder / "out.safetensors"])


def large(command, folder, options):
    """Weights of pseudo-random floats in another file, in a chain of products; and a chain of many nodes."""
    import onnx
    from onnx import TensorProto, helper

    side, count, nodes = 8192, 20, 100_000
    each = 4 * side * side

    def model(name, nodes, weights):
        ports = [[helper.make_tensor_value_info(one, TensorProto.FLOAT, [2, "n"])] for one in ("x0", f"x{len(nodes)}")]
        made = helper.make_model(helper.make_graph(nodes, "g", *ports, weights), ir_version=8)
        made.opset_import[0].version = 13
        (folder / name).write_bytes(made.SerializeToString())

    weights = []
    with (folder / "large.data").open("wb") as data:
        for place in range(count):
            data.write(RNG.standard_normal(each // 4, np.float32).tobytes())
            weights.append(TensorProto(name=f"w{place}", data_type=TensorProto.FLOAT, dims=[side, side]))
            weights[-1].data_location = TensorProto.EXTERNAL
            for key, value in ("location", "large.data"), ("offset", place * each), ("length", each):
                weights[-1].external_data.add(key=key, value=str(value))
    model("large.onnx", [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"x{i + 1}"]) for i in range(count)], weights)
    operators = ["MatMul", *["Relu", "Neg", "Abs"] * 333]
    chain = [(place, operators[place % len(operators)]) for place in range(nodes)]
    identity = onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    chain = [helper.make_node(one, [f"x{at}", *["w"] * (one == "MatMul")], [f"x{at + 1}"]) for at, one in chain]
    model("chain.onnx", chain, [identity])
    print("| | seconds | of the processor | MiB at most |\n|---|---|---|---|")
    float16 = ["--to", "float16"]
    for job in (
        ["cast", "large.onnx", "cast.onnx", *float16, "--stats"],
        ["fold", "cast.onnx", "out.onnx"],
        ["info", "large.onnx", "--stats"],
        ["diff", "large.onnx", "large.onnx"],
        ["convert", "large.onnx", "out.onnx", *float16],
        ["upgrade", "large.onnx", "out.onnx"],
        ["record", "large.onnx", "out.onnx"],
        ["convert", "chain.onnx", "out.onnx", *float16],
        ["convert", "chain.onnx", "out.onnx", *float16, "--emulate"],
        ["convert", "chain.onnx", "out.onnx", "--to", "bfloat16", "--raise-opset"],
        ["upgrade", "chain.onnx", "out.onnx"],
        ["record", "chain.onnx", "out.onnx"],
    ):
        writes = ["--force", "--quiet"] if job[0] not in ("info", "diff") else []
        taken = harness.in_turn({"": [command, *job, *writes]}, options.rounds, lambda words: run(words, folder), warm=False)
        if writes:
            onnx.checker.check_model(str(folder / job[2]))
        clock, processor, memory = taken[""]
        print(f"| `{' '.join(job)}` | {clock:.2f} | {processor:.2f} | {memory:.0f} |", flush=True)


PARTS = {part.__name__: part for part in (files, formats, gguf, layouts, large)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("command", type=Path)
    parser.add_argument("folder", type=Path, help="made, and removed afterwards")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="types or layouts whose names contain this")
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    try:
        PARTS[options.part](options.command.resolve(), options.folder.resolve(), options)
    finally:
        shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()
