#!/usr/bin/env python3
"""Writes crates/testkit/data/checkpoints/platforms.zip: small quantized checkpoints as platforms other than vLLM have
them, as `quantized_checkpoints.py` does.
"""

import json

import torch
from quantized_checkpoints import Layouts, ordinary, weight, write

layout = Layouts()


# ComfyUI: comfy-kitchen's functions, as comfy/quant_ops.py calls them. Files have no configuration: a tensor
# `comfy_quant` beside each weight, or the metadata of the file, names the format (comfy/ops.py,
# `_load_quantized_module`; comfy/utils.py, `convert_old_quants`). Weights are dequantized to float, in which the
# kernels for GPUs compute, and then rounded; on a CPU comfy-kitchen rounds NVFP4's scales to the target first.


def comfy_settings(**settings):
    return torch.tensor(list(json.dumps(settings).encode()), dtype=torch.uint8)


def comfy_weight(kind, values):
    """The tensors of a layer by their endings, and the values that are read back."""
    import comfy_kitchen as kitchen

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


BLOCK = "model.diffusion_model.blocks.0"
COMFY = {"q": "self_attn.q", "k": "self_attn.k", "v": "self_attn.v", "o": "self_attn.o", "ffn": "ffn.0"}


@layout.table
def comfy(name, seed, told_by_metadata=False, input_scale=None, rest=None, **layers):
    """A layout of ComfyUI: kind, shape, and whether there is a bias of layers by the names of COMFY."""
    tensors, expected, told, metadata = {}, {}, {}, None
    for number, (layer, (kind, shape, has_bias)) in enumerate(layers.items()):
        key = f"{BLOCK}.{COMFY[layer]}"
        parts, back = comfy_weight(kind, weight(*shape, seed=seed + number, tiny=False))
        tensors |= {f"{key}.{ending}": part for ending, part in parts.items()}
        told[key] = {"format": kind.replace("int8_rows", "int8_tensorwise")}
        rows = shape[0] if has_bias else back.shape[0]
        expected[f"{key}.weight"] = back[:rows].bfloat16()
        if has_bias:
            bias = {f"{key}.bias": weight(rows, seed=seed + 50 + number)}
            tensors, expected = tensors | bias, expected | bias
    if told_by_metadata:
        metadata = {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": told})}
        scales = f"{BLOCK}.ffn.0.weight_scale"
        tensors[scales] = tensors[scales].view(torch.uint8)
    else:
        tensors |= {f"{key}.comfy_quant": comfy_settings(**settings) for key, settings in told.items()}
    if input_scale:
        tensors[f"{BLOCK}.self_attn.q.input_scale"] = torch.tensor(input_scale)
    norm = {"model.diffusion_model.norm.weight": weight(40, seed=seed + 90, scale=1.0)}
    more = {f"{BLOCK}.{key}": weight(*shape, seed=seed + 90) for key, shape in (rest or {}).items()}
    write(name, tensors, expected, metadata=metadata, rest=norm | more)


# NVFP4: more than one panel of scales, tiles that are not full, and rows that are filled up; the same, told by the
# metadata alone, with scales as bytes. MXFP8: two panels. Every format that has scales of float, beside NVFP4 and a
# layer that is not quantized.
comfy("comfy-nvfp4", 2000, input_scale=0.25, q=("nvfp4", (136, 64), False), k=("nvfp4", (48, 80), False),
      ffn=("nvfp4", (40, 96), True))  # fmt: skip
comfy("comfy-nvfp4-metadata", 2100, True, q=("nvfp4", (144, 96), False), ffn=("nvfp4", (64, 48), False))
comfy("comfy-mxfp8", 2200, q=("mxfp8", (160, 64), False), k=("mxfp8", (16, 160), True), ffn=("mxfp8", (40, 32), True))
comfy("comfy-mixed", 2300, input_scale=0.5, rest={"ffn.2.weight": (16, 32)}, q=("float8_e4m3fn", (48, 40), True),
      k=("float8_e5m2", (48, 40), False), v=("int8_tensorwise", (48, 40), False), o=("int8_rows", (48, 40), True),
      ffn=("nvfp4", (32, 48), False))  # fmt: skip


@layout
def comfy_convrot():
    """int8 of a rotated weight: to be refused."""
    import comfy_kitchen as kitchen

    values, quantize = weight(32, 256, seed=2400, tiny=False), kitchen.tensor.TensorWiseINT8Layout.quantize
    codes, params = quantize(values, per_channel=True, convrot=True, convrot_groupsize=256)
    settings = comfy_settings(format="int8_tensorwise", convrot=True, convrot_groupsize=256)
    name = f"{BLOCK}.ffn.0"
    tensors = {f"{name}.weight": codes, f"{name}.weight_scale": params.scale, f"{name}.comfy_quant": settings}
    write("comfy-convrot", tensors, None)


# bitsandbytes: what its own layers save, after quantizing on a CPU; transformers stores the same tensors. The package's
# implementation in torch dequantizes, because its kernel for AVX-512 reads wrong scales where rows are not whole
# blocks; where they are, both agree. Code 8 of FP4 is -0 in kernels for GPUs, and of either sign on a CPU.


def bnb_config(**settings):
    settings = {"quant_method": "bitsandbytes", "load_in_4bit": False, "load_in_8bit": False} | settings
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16"}
    return config | {"quantization_config": settings}


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


@layout.table
def bnb_table(name, kind, seed, shapes, data_type, nested=False, storage=torch.uint8, block=64):
    """A layout of NF4 or FP4 weights of some shapes."""
    from bitsandbytes import functional

    tensors, expected = {}, {}
    for number, shape in enumerate(shapes):
        values = weight(*shape, seed=seed + number, tiny=False).to(data_type)
        options = {"compress_statistics": nested, "quant_type": kind, "quant_storage": storage}
        codes, state = functional.quantize_4bit(values, blocksize=block, **options)
        key = f"model.layers.0.mlp.{('gate', 'up', 'down')[number]}_proj.weight"
        tensors |= {key: codes} | {f"{key}.{part}": value for part, value in state.as_dict(packed=True).items()}
        back = bnb_values(codes, state)
        assert back.dtype == data_type and back.shape == values.shape
        assert shape[1] % block or torch.equal(functional.dequantize_4bit(codes, state), back), key
        expected[key] = back.bfloat16()
    settings = {"load_in_4bit": True, "bnb_4bit_quant_type": kind, "bnb_4bit_use_double_quant": nested}
    write(name, tensors, expected, bnb_config(**settings), rest=ordinary(40, seed + 20))


# NF4 of float16: blocks across rows, and a last block that is short; with scales in 8 bits, of bfloat16: more than 256
# blocks. FP4 in blocks of 128, of float, in bytes that are stored as bfloat16; with scales in 8 bits.
HALF, BRAIN = torch.float16, torch.bfloat16
bnb_table("bnb-nf4", "nf4", 3000, [(48, 40), (31, 41), (40, 48)], HALF)
bnb_table("bnb-nf4-nested", "nf4", 3100, [(136, 128), (24, 40)], BRAIN, nested=True)
bnb_table("bnb-fp4", "fp4", 3200, [(16, 128), (40, 48)], torch.float32, storage=BRAIN, block=128)
bnb_table("bnb-fp4-nested", "fp4", 3300, [(20, 64), (30, 50)], HALF, nested=True)


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
    write("bnb-int8", tensors, expected, bnb_config(load_in_8bit=True), rest=ordinary(40, 3420))


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


@layout.table
def mlx(name, seed, settings, layers, data_type=torch.bfloat16):
    """A layout of MLX. Layers: name to shape and what of the settings differs."""
    import mlx.core as mx
    import numpy

    kinds = {torch.float16: mx.float16, torch.bfloat16: mx.bfloat16, torch.float32: mx.float32}
    back = {kind: one for one, kind in kinds.items()}

    def as_torch(values):
        if values.dtype not in back:
            return torch.from_numpy(numpy.array(values))
        return torch.from_numpy(numpy.array(values.astype(mx.float32))).to(back[values.dtype])

    tensors, expected, quantization = {}, {}, dict(settings)
    for number, (layer, (shape, own)) in enumerate(layers.items()):
        layer = layer if layer.startswith("model.") else f"model.layers.0.mlp.{layer}"
        values = weight(*shape, seed=seed + number, tiny=False).to(data_type)
        used, quantization = settings | own, quantization | ({layer: own} if own else {})
        parts = mx.quantize(mx.array(values.float().numpy()).astype(kinds[data_type]), **used)
        names = ("weight", "scales", "biases")
        tensors |= {f"{layer}.{ending}": as_torch(part) for ending, part in zip(names, parts, strict=False)}
        expected[f"{layer}.weight"] = as_torch(mx.dequantize(*parts, **used)).bfloat16()
    rest = {"model.norm.weight": weight(64, seed=seed + 20, scale=1.0)}
    quantization["model.layers.0.mlp.gate"] = False
    config = {"model_type": "llama", "quantization": quantization, "quantization_config": quantization}
    write(name, tensors, expected, config, metadata={"format": "mlx"}, rest=rest)


def affine(bits, group):
    return {"bits": bits, "group_size": group}


# Every width, in groups of three sizes, an embedding and experts in one tensor; the same of float16, and of float.
# MXFP4, and MXFP8 and NVFP4 of single layers.
WIDTHS = ((2, 64), (3, 32), (5, 64), (6, 32), (8, 128))
WIDTHS = {f"of_{bits}": ((9, 128), affine(bits, group)) for bits, group in WIDTHS}
mlx("mlx-affine", 4000, {"group_size": 64, "bits": 4},
    {"model.embed_tokens": ((16, 64), {})} | WIDTHS | {"switch_mlp.up_proj": ((3, 8, 64), {})})  # fmt: skip
mlx("mlx-affine-float16", 4100, {"group_size": 64, "bits": 3},
    {"up_proj": ((12, 64), {}), "o": ((5, 96), affine(4, 32)), "down_proj": ((9, 64), affine(8, 64))},
    HALF)  # fmt: skip
mlx("mlx-affine-float", 4200, {"group_size": 32, "bits": 2},
    {"up_proj": ((12, 64), {}), "down_proj": ((9, 96), affine(6, 32))}, torch.float32)  # fmt: skip
mlx("mlx-blocks", 4300, {"group_size": 32, "bits": 4, "mode": "mxfp4"}, {
    "up_proj": ((12, 96), {}), "down_proj": ((9, 64), {"group_size": 32, "bits": 8, "mode": "mxfp8"}),
    "o": ((8, 80), {"group_size": 16, "bits": 4, "mode": "nvfp4"}), "switch_mlp.up_proj": ((3, 8, 64), {}),
})  # fmt: skip


if __name__ == "__main__":
    layout.main(__doc__)
