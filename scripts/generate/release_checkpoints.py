#!/usr/bin/env python3
"""Writes crates/testkit/data/checkpoints/releases.zip: small quantized checkpoints under the names of those who publish
them, joined matrices with a scale for each part, and scales of activations, with the weights that are read.
`quantized_checkpoints.py` says what a folder holds, and has the functions that write one.

Needs torch, transformers, compressed-tensors and safetensors. `release_checkpoints.py NAME...` writes only those.
"""

import math

import quantized_checkpoints as base
import torch
from quantized_checkpoints import deepseek_config, e2m1_packed, ordinary, spread, weight, write

layout = base.Layouts()


def fp8(values, axis=None):
    """Float8 elements and their scale: one, or one for each row."""
    amax = values.float().abs().amax() if axis is None else values.float().abs().amax(axis, keepdim=True)
    scales = torch.where(amax == 0, torch.ones_like(amax), amax / 448)
    return (values.float() / scales).to(torch.float8_e4m3fn), scales


# Mistral: the names of `consolidated.safetensors` and `params.json`, as vLLM reads them
# (transformers_utils/configs/mistral.py, `_remap_mistral_quantization_args`; models/llama.py, `mistral_mapping`). A
# weight is its element times `qscale_weight` (transformers' Ministral-3 takes it over as `weight_scale_inv`).


@layout
def mistral_fp8():
    """A scale for each tensor, of rows too, and of activations; experts, and a cache of keys and values."""
    tensors, expected = {}, {}
    shapes = {"attention.wq": (64, 40), "attention.wk": (32, 40), "attention.wv": (32, 40), "attention.wo": (40, 64)}
    shapes |= {"feed_forward.w1": (48, 40), "feed_forward.w2": (40, 48), "feed_forward.w3": (48, 40)}
    shapes |= {f"experts.{expert}.w1": (24, 40) for expert in range(2)}
    for number, (name, shape) in enumerate(shapes.items()):
        name, by_rows = f"layers.0.{name}", name == "feed_forward.w2"
        codes, scales = fp8(weight(*shape, seed=3000 + number), 1 if by_rows else None)
        scales = scales.view(-1) if by_rows else scales
        tensors |= {f"{name}.weight": codes, f"{name}.qscale_weight": scales}
        tensors[f"{name}.qscale_act"] = torch.tensor(0.125)
        expected[f"{name}.weight"] = (codes.float() * (scales[:, None] if by_rows else scales)).bfloat16()
    tensors["layers.0.attention.kv_fake_quantizer.qscale_act"] = torch.tensor(0.0625)
    rest = {
        "tok_embeddings.weight": weight(12, 40, seed=3050),
        "output.weight": weight(12, 40, seed=3051),
        "norm.weight": weight(40, seed=3052, scale=1.0),
        "layers.0.attention_norm.weight": weight(40, seed=3053, scale=1.0),
    }
    quantization = {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}
    params = {"dim": 40, "n_layers": 1, "head_dim": 16, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-05}
    other = {"params.json": params | {"quantization": quantization}}
    write("mistral-fp8", tensors, expected, other=other, rest=rest)
    folder = base.OUT / "mistral-fp8"
    (folder / "model.safetensors").rename(folder / "consolidated.safetensors")


# OpenAI: the folder `original/` of gpt-oss, as gpt_oss/torch/weights.py reads it (`_get_mxfp4_tensor`).


def openai_mxfp4_tensor(blocks, scales):
    """`_get_mxfp4_tensor`: an entry of a table in bfloat16, times a power of two."""
    table = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], dtype=torch.bfloat16)
    table = torch.cat([table, -table])
    *outer, groups, half = blocks.shape
    codes = torch.stack([blocks & 15, blocks >> 4], -1).view(math.prod(outer) * groups, 2 * half)
    values = torch.ldexp(table[codes.long()], scales.view(-1, 1).int() - 127)
    return values.view(*outer, groups * 2 * half)


@layout
def openai_mxfp4():
    """Three experts; rows of gate and up take turns in the first matrix, which stays so."""
    tensors, expected = {}, {}
    for number, (name, rows, columns) in enumerate((("mlp1", 32, 64), ("mlp2", 20, 96))):
        values = weight(3, rows, columns, seed=3100 + number, tiny=False).float().view(3, rows, -1, 32)
        amax = values.abs().amax(-1, keepdim=True).clamp(min=2.0**-20)
        scales = torch.exp2(torch.floor(torch.log2(amax.double())) - 2).float()
        blocks = e2m1_packed((values / scales).clamp(-6, 6))
        scales = (torch.log2(scales).squeeze(-1) + 127).to(torch.uint8)
        key = f"block.0.mlp.{name}_weight"
        tensors |= {f"{key}.blocks": blocks, f"{key}.scales": scales}
        expected[key] = openai_mxfp4_tensor(blocks, scales)
    rest = {
        "block.0.mlp.mlp1_bias": weight(3, 32, seed=3110),
        "block.0.mlp.norm.scale": weight(64, seed=3111).float(),
        "block.0.attn.norm.scale": weight(64, seed=3112).float(),
        "block.0.attn.qkv.weight": weight(16, 64, seed=3113),
        "embedding.weight": weight(12, 64, seed=3114),
    }
    config = {"num_hidden_layers": 1, "num_experts": 3, "experts_per_token": 2, "hidden_size": 64}
    write("openai-mxfp4", tensors, expected, config, rest=rest)


# Joined matrices whose parts have a scale each. vLLM gives such a matrix as many rows of query, key and value as the
# configuration has heads (model_executor/layers/linear.py, `QKVParallelLinear`), and of gate and up equal parts.


@layout
def joined_fp8():
    """Float8, with scales of bfloat16 in one layer; int8 too."""
    parts = {
        "model.layers.0.self_attn.qkv_proj": ([64, 16, 16], torch.float32),
        "model.layers.0.mlp.gate_up_proj": ([24, 24], torch.bfloat16),
        "model.visual.blocks.0.attn.qkv": ([20, 20, 20], torch.float32),
    }
    tensors, expected = {}, {}
    for number, (name, (rows, data_type)) in enumerate(parts.items()):
        values = [weight(count, 40, seed=3200 + 10 * number + part) for part, count in enumerate(rows)]
        scales = torch.stack([fp8(value)[1] for value in values]).to(data_type)
        spread = scales.float().repeat_interleave(torch.tensor(rows))[:, None]
        codes = (torch.cat(values).float() / spread).to(torch.float8_e4m3fn)
        tensors |= {f"{name}.weight": codes, f"{name}.weight_scale": scales}
        tensors[f"{name}.input_scale"] = torch.full((len(rows),), 0.25)
        expected[f"{name}.weight"] = (codes.float() * spread).bfloat16()
    config = {
        "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 40, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 16, "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "fp8", "activation_scheme": "static"},
    }  # fmt: skip
    write("joined-fp8", tensors, expected, config, rest=ordinary(40, 3250))


# FP8 with scales of activations that data told: `quant_method` fp8 with `activation_scheme` static.


def static_fp8(seed, scale_name, input_name, config, shape=()):
    tensors, expected = {}, {}
    sizes = {"self_attn.q_proj": (32, 40), "self_attn.k_proj": (16, 40), "mlp.up_proj": (24, 40)}
    for number, (name, size) in enumerate(sizes.items()):
        name = f"model.layers.0.{name}"
        codes, scale = fp8(weight(*size, seed=seed + number))
        tensors |= {f"{name}.weight": codes, f"{name}.{scale_name}": scale.view(shape)}
        tensors[f"{name}.{input_name}"] = torch.tensor(0.125).view(shape)
        expected[f"{name}.weight"] = (codes.float() * scale).bfloat16()
    rest = ordinary(40, seed + 50)
    config = {"model_type": "llama", "hidden_size": 40, "torch_dtype": "bfloat16", "quantization_config": config}
    return tensors, expected, rest, config


@layout
def static_fp8_vllm():
    """As AutoFP8 writes it and vLLM reads it (quantization/fp8.py): `weight_scale`, `input_scale`, and `kv_scale`, or
    `output_scale` of older files."""
    config = {"quant_method": "fp8", "activation_scheme": "static", "ignored_layers": ["lm_head"]}
    tensors, expected, rest, config = static_fp8(3300, "weight_scale", "input_scale", config, (1,))
    tensors["model.layers.0.self_attn.kv_scale"] = torch.tensor([0.0625])
    tensors["model.layers.0.self_attn.k_proj.output_scale"] = torch.tensor([0.0625])
    write("static-fp8-vllm", tensors, expected, config, rest=rest)


@layout
def static_fp8_transformers():
    """As transformers has Ministral-3: `weight_scale_inv` without axes, `activation_scale`, and experts in one tensor
    whose scales have a name behind a line."""
    config = {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None}
    tensors, expected, rest, config = static_fp8(3400, "weight_scale_inv", "activation_scale", config)
    for number, name in enumerate(("gate_up_proj", "down_proj")):
        key = f"model.layers.0.mlp.experts.{name}"
        values = weight(2, *((48, 40) if number == 0 else (40, 24)), seed=3420 + number)
        codes, scales = fp8(values, (1, 2))
        tensors |= {key: codes, f"{key}_scale_inv": scales, f"{key}_activation_scale": torch.full((2,), 0.5)}
        expected[key] = (codes.float() * scales).bfloat16()
    write("static-fp8-transformers", tensors, expected, config, rest=rest)


@layout
def ct_w8a8_static():
    """int-quantized with static activations that have zero points, one scale for each row."""
    activations = {"num_bits": 8, "type": "int", "strategy": "tensor", "symmetric": False, "dynamic": False}
    groups = [base.group(8, "int", "channel", activations=activations)]
    tensors, expected, config = base.compressed_llama(groups, 3500)
    assert any(key.endswith("input_zero_point") for key in tensors)
    write("ct-w8a8-static", tensors, expected, config)


@layout
def deepseek_v4_experts():
    """Experts of float4e2m1 where no `expert_dtype` says it: it is the default of vLLM's
    models/deepseek_v4/quant_config.py. The values are a table's entries times powers of two, which is exact."""
    tensors, expected = {}, {}
    for number, (name, shape) in enumerate({"attn.wq_a": (20, 130), "ffn.shared_experts.w1": (16, 64)}.items()):
        codes, scales = base.fp8_in_blocks(weight(*shape, seed=3600 + number), (128, 128), True)
        key = f"layers.0.{name}"
        tensors |= {f"{key}.weight": codes, f"{key}.scale": scales.to(torch.float8_e8m0fnu)}
        expected[f"{key}.weight"] = (codes.float() * spread(scales, (128, 128), shape)).bfloat16()
    for key, packed, scales in base.fp4_experts(3610):
        tensors |= {f"{key}.weight": packed, f"{key}.scale": scales}
        blocks = packed.view(torch.uint8).view(len(packed), -1, 16)
        expected[f"{key}.weight"] = openai_mxfp4_tensor(blocks, scales.view(torch.uint8))
    rest = {"embed.weight": weight(12, 64, seed=3650), "norm.weight": weight(64, seed=3651, scale=1.0)}
    config = deepseek_config(scale_fmt="ue8m0") | {"model_type": "deepseek_v4"}
    write("deepseek-v4-experts", tensors, expected, config, rest=rest)


if __name__ == "__main__":
    layout.main(__doc__)
