#!/usr/bin/env python3
"""Writes crates/testkit/data/checkpoints/platforms.zip: small quantized checkpoints as platforms other than vLLM have them,
with the weights that the owner's code dequantizes them to. `quantized_checkpoints.py` says what a folder holds, and has
the functions that write one.

Needs torch, safetensors, comfy-kitchen, bitsandbytes and mlx (`mlx[cpu]`), in an environment of their own.
`platform_checkpoints.py NAME...` writes only those.
"""

import argparse
import json
import tempfile
from pathlib import Path

import checkpoint_archives
import quantized_checkpoints as base
import torch
from quantized_checkpoints import weight, write

LAYOUTS = {}


def layout(function):
    """Registers a function that writes one folder, named like it."""
    LAYOUTS[function.__name__.replace("_", "-")] = function
    return function


# ComfyUI: comfy-kitchen's functions, as comfy/quant_ops.py calls them. Files have no configuration: a tensor
# `comfy_quant` beside each weight, or the metadata of the file, names the format (comfy/ops.py, `_load_quantized_module`;
# comfy/utils.py, `convert_old_quants`). Weights are dequantized to float, in which the kernels for GPUs compute, and then
# rounded; on a CPU comfy-kitchen rounds NVFP4's scales to the target first.


def comfy_kitchen():
    """comfy-kitchen, which is not wanted by the other layouts."""
    import comfy_kitchen as kitchen

    return kitchen


def comfy_settings(**settings):
    return torch.tensor(list(json.dumps(settings).encode()), dtype=torch.uint8)


def comfy_weight(kind, values):
    """The tensors of a layer by their endings, and the values that are read back."""
    kitchen = comfy_kitchen()
    match kind:
        case "nvfp4":
            factor = values.abs().amax().float() / (448 * 6)
            codes, scales = kitchen.quantize_nvfp4(values, factor, pad_16x=True)
            back = kitchen.dequantize_nvfp4(codes, factor, scales, torch.float32)
            return {"weight": codes, "weight_scale": scales, "weight_scale_2": factor}, back
        case "mxfp8":
            codes, scales = kitchen.quantize_mxfp8(values, pad_32x=True)
            back = kitchen.dequantize_mxfp8(codes, scales, torch.float32)
            return {"weight": codes, "weight_scale": scales.view(torch.uint8)}, back
        case "int8_tensorwise" | "int8_rows":
            rows = kind == "int8_rows"
            quantize = kitchen.quantize_int8_rowwise if rows else kitchen.quantize_int8_tensorwise
            codes, scales = quantize(values)
            return {"weight": codes, "weight_scale": scales}, codes.float() * scales
        case _:
            data_type = getattr(torch, kind)
            factor = values.abs().amax().float() / torch.finfo(data_type).max
            codes = kitchen.quantize_per_tensor_fp8(values, factor, data_type)
            return {"weight": codes, "weight_scale": factor}, codes.float() * factor


def comfy(seed, layers, told_by_metadata=False):
    """Tensors, values and metadata of layers: name to kind, shape, and whether there is a bias."""
    tensors, expected, told = {}, {}, {}
    for number, (name, (kind, shape, has_bias)) in enumerate(layers.items()):
        parts, back = comfy_weight(kind, weight(*shape, seed=seed + number, tiny=False))
        tensors |= {f"{name}.{ending}": part for ending, part in parts.items()}
        told[name] = {"format": kind.replace("int8_rows", "int8_tensorwise")}
        rows = shape[0] if has_bias else back.shape[0]
        expected[f"{name}.weight"] = back[:rows].bfloat16()
        if has_bias:
            bias = {f"{name}.bias": weight(rows, seed=seed + 50 + number)}
            tensors, expected = tensors | bias, expected | bias
    rest = {"model.diffusion_model.norm.weight": weight(40, seed=seed + 90, scale=1.0)}
    if told_by_metadata:
        metadata = {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": told})}
        return tensors | rest, expected | rest, metadata
    tensors |= {f"{name}.comfy_quant": comfy_settings(**settings) for name, settings in told.items()}
    return tensors | rest, expected | rest, {}


BLOCK = "model.diffusion_model.blocks.0"


@layout
def comfy_nvfp4():
    """NVFP4: more than one panel of scales, tiles that are not full, and rows that are filled up."""
    layers = {
        f"{BLOCK}.self_attn.q": ("nvfp4", (136, 64), False),
        f"{BLOCK}.self_attn.k": ("nvfp4", (48, 80), False),
        f"{BLOCK}.ffn.0": ("nvfp4", (40, 96), True),
    }
    tensors, expected, _ = comfy(2000, layers)
    tensors[f"{BLOCK}.self_attn.q.input_scale"] = torch.tensor(0.25)
    write("comfy-nvfp4", tensors, expected)


@layout
def comfy_nvfp4_metadata():
    """The same, told by the metadata alone, with scales as bytes."""
    layers = {
        f"{BLOCK}.self_attn.q": ("nvfp4", (144, 96), False),
        f"{BLOCK}.ffn.0": ("nvfp4", (64, 48), False),
    }
    tensors, expected, metadata = comfy(2100, layers, told_by_metadata=True)
    scales = f"{BLOCK}.ffn.0.weight_scale"
    tensors[scales] = tensors[scales].view(torch.uint8)
    write("comfy-nvfp4-metadata", tensors, expected, metadata=metadata)


@layout
def comfy_mxfp8():
    """MXFP8: two panels, tiles that are not full, and rows that are filled up."""
    layers = {
        f"{BLOCK}.self_attn.q": ("mxfp8", (160, 64), False),
        f"{BLOCK}.self_attn.k": ("mxfp8", (16, 160), True),
        f"{BLOCK}.ffn.0": ("mxfp8", (40, 32), True),
    }
    tensors, expected, _ = comfy(2200, layers)
    write("comfy-mxfp8", tensors, expected)


@layout
def comfy_mixed():
    """Every format that has scales of float, beside NVFP4 and a layer that is not quantized."""
    layers = {
        f"{BLOCK}.self_attn.q": ("float8_e4m3fn", (48, 40), True),
        f"{BLOCK}.self_attn.k": ("float8_e5m2", (48, 40), False),
        f"{BLOCK}.self_attn.v": ("int8_tensorwise", (48, 40), False),
        f"{BLOCK}.self_attn.o": ("int8_rows", (48, 40), True),
        f"{BLOCK}.ffn.0": ("nvfp4", (32, 48), False),
    }
    tensors, expected, _ = comfy(2300, layers)
    tensors[f"{BLOCK}.self_attn.q.input_scale"] = torch.tensor(0.5)
    rest = {f"{BLOCK}.ffn.2.weight": weight(16, 32, seed=2390)}
    write("comfy-mixed", tensors | rest, expected | rest)


@layout
def comfy_convrot():
    """int8 of a rotated weight: to be refused."""
    kitchen = comfy_kitchen()
    layout = kitchen.tensor.TensorWiseINT8Layout
    values = weight(32, 256, seed=2400, tiny=False)
    codes, params = layout.quantize(values, per_channel=True, convrot=True, convrot_groupsize=256)
    settings = comfy_settings(format="int8_tensorwise", convrot=True, convrot_groupsize=256)
    name = f"{BLOCK}.ffn.0"
    tensors = {f"{name}.weight": codes, f"{name}.weight_scale": params.scale, f"{name}.comfy_quant": settings}
    write("comfy-convrot", tensors, None)


# bitsandbytes: what its own layers save, after quantizing on a CPU; transformers stores the same tensors. The package's
# implementation in torch dequantizes, because its kernel for AVX-512 reads wrong scales where rows are not whole blocks;
# where they are, both agree. Code 8 of FP4 is -0 in kernels for GPUs, and of either sign on a CPU.


def bnb_config(**settings):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": False} | settings,
    }


def bnb_values(codes, state):
    """What `dequantize_4bit` of bitsandbytes/backends/default/ops.py gives, which is compiled there."""
    from bitsandbytes import functional

    scales = state.absmax
    if state.nested:
        scales = functional.dequantize_blockwise(scales, state.state2) + state.offset
    table = functional.get_4bit_type(state.quant_type, device="cpu").clone()
    if state.quant_type == "fp4":
        table[8] = -0.0
    codes = codes.reshape(-1).view(torch.uint8)
    indices = torch.stack([codes >> 4, codes & 15], dim=-1).flatten().long()[: state.shape.numel()]
    spread = scales.float().repeat_interleave(state.blocksize)[: indices.numel()]
    return (table[indices] * spread).reshape(state.shape).to(state.dtype)


def bnb_table(name, kind, seed, shapes, data_type, nested=False, storage=torch.uint8, block=64):
    """NF4 or FP4 weights of some shapes."""
    from bitsandbytes import functional

    tensors, expected = {}, {}
    for number, shape in enumerate(shapes):
        values = weight(*shape, seed=seed + number, tiny=False).to(data_type)
        codes, state = functional.quantize_4bit(
            values, blocksize=block, compress_statistics=nested, quant_type=kind, quant_storage=storage
        )
        key = f"model.layers.0.mlp.{('gate', 'up', 'down')[number]}_proj.weight"
        tensors |= {key: codes} | {f"{key}.{part}": value for part, value in state.as_dict(packed=True).items()}
        back = bnb_values(codes, state)
        assert back.dtype == data_type and back.shape == values.shape
        if shape[1] % block == 0:
            kernel = functional.dequantize_4bit(codes, state)
            assert torch.equal(kernel, back), key
        expected[key] = back.bfloat16()
    rest = base.ordinary(40, seed + 20)
    settings = {"load_in_4bit": True, "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": nested}
    write(name, tensors | rest, expected | rest, bnb_config(**settings))


@layout
def bnb_nf4():
    """NF4 of float16: blocks across rows, and a last block that is short."""
    bnb_table("bnb-nf4", "nf4", 3000, [(48, 40), (31, 41), (40, 48)], torch.float16)


@layout
def bnb_nf4_nested():
    """NF4 with scales in 8 bits, of bfloat16: more than 256 blocks."""
    bnb_table("bnb-nf4-nested", "nf4", 3100, [(136, 128), (24, 40)], torch.bfloat16, nested=True)


@layout
def bnb_fp4():
    """FP4 in blocks of 128, of float, in bytes that are stored as bfloat16."""
    bnb_table("bnb-fp4", "fp4", 3200, [(16, 128), (40, 48)], torch.float32, storage=torch.bfloat16, block=128)


@layout
def bnb_fp4_nested():
    """FP4 with scales in 8 bits."""
    bnb_table("bnb-fp4-nested", "fp4", 3300, [(20, 64), (30, 50)], torch.float16, nested=True)


@layout
def bnb_int8():
    """LLM.int8: a scale for each row."""
    from bitsandbytes import functional

    tensors, expected = {}, {}
    for number, shape in enumerate([(48, 40), (40, 47)]):
        codes, scales, _ = functional.int8_vectorwise_quant(weight(*shape, seed=3400 + number).half())
        layer = f"model.layers.0.mlp.{('up', 'down')[number]}_proj"
        kind = torch.tensor(0, dtype=torch.uint8)
        tensors |= {f"{layer}.weight": codes, f"{layer}.SCB": scales, f"{layer}.weight_format": kind}
        expected[f"{layer}.weight"] = functional.int8_vectorwise_dequant(codes, scales).bfloat16()
    rest = base.ordinary(40, 3420)
    write("bnb-int8", tensors | rest, expected | rest, bnb_config(load_in_8bit=True))


@layout
def bnb_conv1d():
    """A GPT-2, whose Conv1D is stored transposed: to be refused."""
    from bitsandbytes import functional

    codes, state = functional.quantize_4bit(weight(48, 16, seed=3500).half(), quant_type="nf4")
    key = "transformer.h.0.attn.c_attn.weight"
    tensors = {key: codes} | {f"{key}.{part}": value for part, value in state.as_dict(packed=True).items()}
    config = bnb_config(load_in_4bit=True) | {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}
    write("bnb-conv1d", tensors, None, config)


# MLX: what its layers hold; `mx.dequantize` on a CPU. mlx-lm writes `quantization` of the configuration, and the same
# again as `quantization_config`.


def mlx_checkpoint(name, seed, layers, settings, data_type=torch.bfloat16, metadata=None):
    """Layers: name to shape and what of the settings differs."""
    import mlx.core as mx
    import numpy

    def as_mlx(values):
        kinds = {torch.float16: mx.float16, torch.bfloat16: mx.bfloat16, torch.float32: mx.float32}
        return mx.array(values.float().numpy()).astype(kinds[values.dtype])

    def as_torch(values):
        kinds = {mx.float16: torch.float16, mx.bfloat16: torch.bfloat16, mx.float32: torch.float32}
        if values.dtype in kinds:
            return torch.from_numpy(numpy.array(values.astype(mx.float32))).to(kinds[values.dtype])
        return torch.from_numpy(numpy.array(values))

    tensors, expected, quantization = {}, {}, dict(settings)
    for number, (layer, (shape, own)) in enumerate(layers.items()):
        values = as_mlx(weight(*shape, seed=seed + number, tiny=False).to(data_type))
        used = settings | own
        if own:
            quantization[layer] = own
        parts = mx.quantize(values, **used)
        names = ("weight", "scales", "biases")
        tensors |= {f"{layer}.{ending}": as_torch(part) for ending, part in zip(names, parts, strict=False)}
        expected[f"{layer}.weight"] = as_torch(mx.dequantize(*parts, **used)).bfloat16()
    rest = {"model.norm.weight": weight(64, seed=seed + 20, scale=1.0)}
    quantization["model.layers.0.mlp.gate"] = False
    config = {"model_type": "llama", "quantization": quantization, "quantization_config": quantization}
    write(name, tensors | rest, expected | rest, config, metadata=metadata or {"format": "mlx"})


@layout
def mlx_affine():
    """Every width, in groups of three sizes, an embedding and experts in one tensor; bfloat16."""
    layers = {"model.embed_tokens": ((16, 64), {})}
    for bits, group in ((2, 64), (3, 32), (5, 64), (6, 32), (8, 128)):
        layers[f"model.layers.0.mlp.of_{bits}"] = ((9, 128), {"bits": bits, "group_size": group})
    layers["model.layers.0.mlp.switch_mlp.up_proj"] = ((3, 8, 64), {})
    mlx_checkpoint("mlx-affine", 4000, layers, {"group_size": 64, "bits": 4})


@layout
def mlx_affine_float16():
    """The same of float16."""
    layers = {"model.layers.0.mlp.up_proj": ((12, 64), {}), "model.layers.0.mlp.o": ((5, 96), {"bits": 4})}
    layers["model.layers.0.mlp.down_proj"] = ((9, 64), {"bits": 8})
    layers["model.layers.0.mlp.o"][1]["group_size"] = 32
    layers["model.layers.0.mlp.down_proj"][1]["group_size"] = 64
    mlx_checkpoint("mlx-affine-float16", 4100, layers, {"group_size": 64, "bits": 3}, torch.float16)


@layout
def mlx_affine_float():
    """The same of float."""
    layers = {"model.layers.0.mlp.up_proj": ((12, 64), {}), "model.layers.0.mlp.down_proj": ((9, 96), {"bits": 6})}
    layers["model.layers.0.mlp.down_proj"][1]["group_size"] = 32
    mlx_checkpoint("mlx-affine-float", 4200, layers, {"group_size": 32, "bits": 2}, torch.float32)


@layout
def mlx_blocks():
    """MXFP4, and MXFP8 and NVFP4 of single layers."""
    layers = {
        "model.layers.0.mlp.up_proj": ((12, 96), {}),
        "model.layers.0.mlp.down_proj": ((9, 64), {"group_size": 32, "bits": 8, "mode": "mxfp8"}),
        "model.layers.0.mlp.o": ((8, 80), {"group_size": 16, "bits": 4, "mode": "nvfp4"}),
        "model.layers.0.mlp.switch_mlp.up_proj": ((3, 8, 64), {}),
    }
    mlx_checkpoint("mlx-blocks", 4300, layers, {"group_size": 32, "bits": 4, "mode": "mxfp4"})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names or list(LAYOUTS)
    with tempfile.TemporaryDirectory() as folder:
        base.OUT = Path(folder)
        for name in names:
            LAYOUTS[name]()
        checkpoint_archives.add(base.OUT)


if __name__ == "__main__":
    main()
