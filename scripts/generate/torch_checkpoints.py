#!/usr/bin/env python3
"""Writes crates/testkit/data/checkpoints/torch.zip: small quantized checkpoints of packages for torch, as
`quantized_checkpoints.py` does. `torchao-int4` needs the file mslk/quantize/shuffle.py of the wheel mslk-cuda 1.1.0,
whose quantizer torchao calls; MSLK names the folder where the wheel is unpacked.
"""

import os
import sys
import types
from pathlib import Path

import torch
from quantized_checkpoints import Layouts, ordinary, weight, write

layout = Layouts()
LAYER = "model.layers.0."
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
HALF, BRAIN = torch.float16, torch.bfloat16


def linear(rows, columns, seed, dtype=torch.bfloat16, bias=False):
    layer = torch.nn.Linear(columns, rows, bias=bias, dtype=dtype)
    layer.weight.data = weight(rows, columns, seed=seed, tiny=False).to(dtype)
    if bias:
        layer.bias.data = weight(rows, seed=seed + 1).to(dtype)
    return layer


# HQQ: `HQQLinear` quantizes, and its `state_dict` is what `save_to_safetensors` and transformers write.


@layout.table
def hqq(name, dtype, seed, layers, axis):
    """A layout of HQQ. Layers: name to shape, bits, group, and whether codes are stored as floats."""
    from hqq.core.quantize import BaseQuantizeConfig, HQQLinear

    tensors, expected = {}, {}
    for number, (layer, (rows, columns, bits, group, as_float)) in enumerate(layers.items()):
        settings = BaseQuantizeConfig(nbits=bits, group_size=group, axis=axis, view_as_float=as_float)
        plain = linear(rows, columns, seed + 10 * number, dtype, bias=number == 0)
        quantized = HQQLinear(plain, settings, compute_dtype=dtype, device="cpu", del_orig=False)
        state = {f"{LAYER}{layer}.{key}": one.detach().clone() for key, one in quantized.state_dict().items()}
        tensors |= state
        expected[f"{LAYER}{layer}.weight"] = quantized.dequantize().detach().bfloat16()
        if number == 0:
            expected[f"{LAYER}{layer}.bias"] = state[f"{LAYER}{layer}.bias"].clone()
    settings = {"quant_config": settings, "quant_method": "hqq", "skip_modules": ["lm_head"]}
    config = LLAMA | {"dtype": str(dtype).removeprefix("torch."), "quantization_config": settings}
    write(name, tensors, expected, config, rest=ordinary(64, seed))


HQQ_LAYERS = {
    "self_attn.q_proj": (24, 64, 4, 64, False), "self_attn.k_proj": (16, 64, 8, 32, False),
    "self_attn.v_proj": (24, 64, 2, 16, False), "self_attn.o_proj": (40, 24, 3, 8, False),
    "mlp.up_proj": (32, 64, 1, 32, False), "mlp.gate_proj": (32, 64, 4, None, False),
}  # fmt: skip
# Groups along the rows (axis 1) of every width, in float16; groups that are a row, and words that are filled up. Groups
# down the columns (axis 0), in bfloat16. Codes that are stored as floats (`view_as_float`), in float.
hqq("hqq-rows", HALF, 5000, HQQ_LAYERS, 1)
hqq("hqq-columns", BRAIN, 5100, HQQ_LAYERS, 0)
FLOATS = {"mlp.up_proj": (32, 64, 4, 64, True), "mlp.down_proj": (24, 40, 3, 8, True)}
hqq("hqq-floats", torch.float32, 5200, FLOATS, 1)


# torchao: `quantize_` and `flatten_tensor_state_dict`, as `save_pretrained` of transformers calls it. The classes
# dequantize.


def write_torchao(name, seed, kind, state, expected):
    from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict

    # The ordinary tensors are first, as the metadata lists names in their order.
    tensors, metadata = flatten_tensor_state_dict(ordinary(64, seed) | state)
    settings = {"quant_method": "torchao", "quant_type": {"default": {"_type": kind}}}
    config = LLAMA | {"quantization_config": settings}
    write(name, tensors, ordinary(64, seed) | expected, config, metadata=metadata)


def torchao(name, seed, layers):
    """A checkpoint of layers: name to shape, configuration of torchao, and whether it has a bias."""
    from torchao.quantization import quantize_

    state, expected = {}, {}
    for number, (layer, (rows, columns, config, bias)) in enumerate(layers.items()):
        module = torch.nn.Sequential(linear(rows, columns, seed + 10 * number, BRAIN, bias))
        quantize_(module, config)
        for key, value in module[0].state_dict().items():
            state[f"{LAYER}{layer}.{key}"] = value
            plain = value.dequantize() if hasattr(value, "qdata") else value
            expected[f"{LAYER}{layer}.{key}"] = plain.detach().bfloat16().clone()
    write_torchao(name, seed, "Int8WeightOnlyConfig", state, expected)


@layout
def torchao_int8():
    """int8 with a scale for each row, for groups, and with zero points; integers of 4 bits in int8."""
    from torchao.quantization import Int8WeightOnlyConfig, IntxWeightOnlyConfig, PerAxis, PerGroup

    layers = {
        "self_attn.q_proj": (24, 64, Int8WeightOnlyConfig(version=2), True),
        "self_attn.k_proj": (8, 96, Int8WeightOnlyConfig(version=2, granularity=PerGroup(32)), False),
        "self_attn.v_proj": (8, 64, IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32)), False),
        "mlp.up_proj": (9, 33, IntxWeightOnlyConfig(weight_dtype=torch.int8, granularity=PerAxis(0)), False),
    }
    torchao("torchao-int8", 5300, layers)


@layout
def torchao_float8():
    """Float8 with a scale for each row, and for the tensor."""
    from torchao.quantization import Float8WeightOnlyConfig

    layers = {
        "self_attn.q_proj": (24, 64, Float8WeightOnlyConfig(version=2), True),
        "mlp.up_proj": (9, 33, Float8WeightOnlyConfig(version=2), False),
    }
    torchao("torchao-float8", 5400, layers)


@layout
def torchao_blocks():
    """MX of float8 and float4 and NVFP4, with scales in rows and in the order of cuBLAS, with and without a scale for
    the tensor. The kernels are for GPUs; the classes and their `dequantize` are not."""
    from torchao.prototype.mx_formats.mx_tensor import MXTensor
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale

    def mx(dtype, **more):
        return lambda values: MXTensor.to_mx(values, dtype, 32, **more)

    def nvfp4(has_scale, **more):
        def quantize(values):
            scale = per_tensor_amax_to_scale(values.abs().max()) if has_scale else None
            return NVFP4Tensor.to_nvfp4(values, 16, per_tensor_scale=scale, **more)

        return quantize

    swizzled = {"is_swizzled_scales": True}
    layers = {
        "self_attn.q_proj": ((24, 64), mx(torch.float8_e4m3fn)), "self_attn.k_proj": ((8, 96), mx(torch.float8_e5m2)),
        "self_attn.v_proj": ((33, 160), mx(torch.float8_e4m3fn, **swizzled)),
        "self_attn.o_proj": ((9, 64), mx(torch.float4_e2m1fn_x2)),
        "mlp.gate_proj": ((20, 96), mx(torch.float4_e2m1fn_x2, **swizzled)), "mlp.up_proj": ((9, 48), nvfp4(True)),
        "mlp.down_proj": ((130, 48), nvfp4(True, **swizzled)), "mlp.router": ((4, 32), nvfp4(False)),
    }  # fmt: skip
    state, expected = {}, {}
    for number, (layer, (shape, quantize)) in enumerate(layers.items()):
        quantized = quantize(weight(*shape, seed=5380 + 10 * number, tiny=False).bfloat16())
        state[f"{LAYER}{layer}.weight"] = quantized
        expected[f"{LAYER}{layer}.weight"] = quantized.dequantize().detach().bfloat16().clone()
    write_torchao("torchao-blocks", 5380, "MXDynamicActivationMXWeightConfig", state, expected)


@layout
def torchao_int4():
    """Int4Tensor, whose quantizer and packing are mslk's, in torch. The class has no `dequantize`: its kernels multiply
    on a GPU. The arithmetic is that of `_dequantize_affine_tinygemm`, torchao's own for zero points of float."""
    import importlib.util

    from torchao.quantization import Int4Tensor
    from torchao.quantization.quant_primitives import _dequantize_affine_tinygemm

    # The module imports a kernel for GPUs that these functions do not call.
    sys.modules["mslk.quantize.triton.fp8_quantize"] = types.SimpleNamespace(quantize_fp8_row=None)
    spec = importlib.util.spec_from_file_location("shuffle", Path(os.environ["MSLK"]) / "mslk/quantize/shuffle.py")
    shuffle = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(shuffle)
    state, expected = {}, {}
    layers = {
        "self_attn.q_proj": ((24, 64), 32, torch.bfloat16, True),
        "self_attn.k_proj": ((9, 96), 32, torch.bfloat16, True),
        "self_attn.v_proj": ((8, 64), 64, torch.float16, True),
        "self_attn.o_proj": ((64, 24), 8, torch.bfloat16, False),
        "mlp.experts.up_proj": ((3, 16, 64), 32, torch.bfloat16, True),
    }
    for number, (layer, (shape, group, dtype, has_zeros)) in enumerate(layers.items()):
        plain = weight(*shape, seed=5350 + 10 * number, tiny=False).to(dtype)
        parts = []
        for matrix in plain.reshape(-1, *shape[-2:]):
            quantize = shuffle.int4_row_quantize_zp if has_zeros else shuffle.int4_row_quantize
            codes, scale, *zero = quantize(matrix, group)
            scale, zero = scale.to(dtype), (zero[0] if zero else torch.zeros_like(scale)).to(dtype)
            affine = (codes, (1, group), scale.t(), zero.t(), torch.int8, -8, 7)
            read = _dequantize_affine_tinygemm(*affine, output_dtype=dtype)
            parts.append((shuffle.pack_int4(codes), scale, zero, read))
        packed, scale, zero, read = (torch.stack(part).reshape(*shape[:-2], *part[0].shape) for part in zip(*parts))
        block = [1] * (len(shape) - 1) + [group]
        state[f"{LAYER}{layer}.weight"] = Int4Tensor(packed, scale, zero, block, torch.Size(shape))
        expected[f"{LAYER}{layer}.weight"] = read.bfloat16()
    write_torchao("torchao-int4", 5350, "Int4WeightOnlyConfig", state, expected)


# optimum-quanto: `quantize` and `freeze` of modules, and `state_dict`, which `save_pretrained` writes.


@layout.table
def quanto(name, seed, kinds, hidden=None):
    """A layout of optimum-quanto. Layers: name to shape, type, that of the plain weight, and whether there is a
    bias."""
    from optimum.quanto import WeightQBitsTensor, freeze, qtypes
    from optimum.quanto import quantize as quantize_modules

    tensors, expected = {}, {}
    for number, (layer, (rows, columns, kind, dtype, bias)) in enumerate(kinds.items()):
        module = torch.nn.Sequential(linear(rows, columns, seed + 10 * number, dtype, bias))
        quantize_modules(module, weights=qtypes[kind])
        freeze(module)
        for key, value in module.state_dict().items():
            tensors[f"{LAYER}{layer}.{key.removeprefix('0.')}"] = value.detach().clone()
        packed = module[0].weight
        # A class for one kernel is stored as the usual one.
        if isinstance(packed, WeightQBitsTensor) and type(packed) is not WeightQBitsTensor:
            packed = packed.weight_qbits_tensor()
        expected[f"{LAYER}{layer}.weight"] = packed.dequantize().detach().bfloat16()
        if bias:
            expected[f"{LAYER}{layer}.bias"] = module[0].bias.detach().clone()
    config = LLAMA | {"dtype": "bfloat16"} | ({"hidden_size": hidden} if hidden else {})
    described = {f"{LAYER}{layer}": {"weights": kind[2], "activations": "none"} for layer, kind in kinds.items()}
    write(name, tensors, expected, config, {"quanto_qmap.json": described}, rest=ordinary(64, seed))


# qint8 and float8 of both kinds, with a scale for each row; activations keep their type.
quanto("quanto-bytes", 5500, {
    "self_attn.q_proj": (24, 64, "qint8", BRAIN, True), "self_attn.k_proj": (9, 33, "qint8", torch.float32, False),
    "mlp.up_proj": (24, 64, "qfloat8_e4m3fn", BRAIN, False), "mlp.down_proj": (7, 40, "qfloat8_e5m2", BRAIN, False),
})  # fmt: skip
# qint4 and qint2, in groups of 128 to 32 columns and in rows, of three types. A bias, the size of the hidden states or
# rows that are no groups tell the shape. The same of layers whose outputs are hidden states.
quanto("quanto-bits", 5600, {
    "self_attn.q_proj": (24, 160, "qint4", BRAIN, False), "self_attn.k_proj": (9, 160, "qint2", HALF, False),
    "self_attn.v_proj": (12, 192, "qint4", BRAIN, True), "mlp.up_proj": (23, 160, "qint4", torch.float32, False),
    "mlp.other": (9, 33, "qint4", BRAIN, False), "mlp.next": (14, 40, "qint2", BRAIN, False),
}, 160)  # fmt: skip
quanto("quanto-outputs", 5650, {
    "self_attn.o_proj": (16, 160, "qint2", BRAIN, False), "mlp.down_proj": (16, 256, "qint4", HALF, False),
}, 16)  # fmt: skip


# Gemma: the modules of transformers' integrations/gemma_quant.py hold packed weights and read them back.


@layout
def gemma_qat():
    """Integers of 4, 2 and 8 bits with a scale for each row, by patterns of the configuration, and embeddings."""
    from transformers.integrations.gemma_quant import QuantizedEmbedding, QuantizedLinear

    def codes(shape, bits, seed):
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(0, 1 << bits, shape, generator=generator, dtype=torch.uint8)

    def stored(shape, bits, seed):
        if bits == 8:
            return (codes(shape, 8, seed).to(torch.int16) - 128).to(torch.int8)
        each = codes((*shape[:-1], shape[-1] * bits // 8, 8 // bits), bits, seed)
        return sum(each[..., place] << (bits * place) for place in range(8 // bits)).to(torch.uint8)

    tensors, expected = {}, {}
    layers = {"self_attn.q_proj": (24, 64, 4), "self_attn.k_proj": (9, 38, 4), "self_attn.v_proj": (7, 36, 2)}
    layers |= {"mlp.gate_proj": (16, 64, 2), "mlp.up_proj": (16, 33, 8)}
    for number, (layer, (rows, columns, bits)) in enumerate(layers.items()):
        module = QuantizedLinear(columns, rows, num_bits=bits)
        module.weight.data = stored((rows, columns), bits, 5900 + number)
        module.weight_scale.data = weight(rows, 1, seed=5950 + number, tiny=False).float().abs() + 0.01
        module.input_activation_scale.data = torch.tensor(0.5)
        for key, value in module.state_dict().items():
            tensors[f"model.language_model.layers.0.{layer}.{key}"] = value.detach().clone()
        expected[f"model.language_model.layers.0.{layer}.weight"] = module._dequantize_weights().detach().bfloat16()
    for name, bits, blocks in [("embed_tokens", 4, 1), ("embed_tokens_per_layer", 2, 4)]:
        module = QuantizedEmbedding(40, 64, torch.float32, num_bits=bits)
        module.embedding_quantized.data = stored((40, 64), bits, 5980 + bits)
        module.embedding_scale.data = weight(40, blocks, seed=5990 + bits, tiny=False).float().abs() + 0.01
        for key, value in module.state_dict().items():
            tensors[f"model.language_model.{name}.{key}"] = value.detach().clone()
        expected[f"model.language_model.{name}.weight"] = module.weight.detach().bfloat16()
    tensors["model.language_model.layers.0.self_attn.k_cache_scale"] = torch.tensor(0.25)
    tensors["model.language_model.norm.weight"] = weight(64, seed=5999)
    expected["model.language_model.norm.weight"] = tensors["model.language_model.norm.weight"].clone()
    patterns = {"v_proj|gate_proj": 2, r"embed_tokens_per_layer$": 2, r"layers\.\d+\.mlp\.up_proj": 8}
    config = {
        "architectures": ["Gemma4ForConditionalGeneration"],
        "model_type": "gemma4",
        "dtype": "bfloat16",
        "quantization_config": {
            "module_quant_configs": {pattern: {"num_bits": bits} for pattern, bits in patterns.items()},
            "modules_to_not_convert": ["vision_tower", "lm_head"],
            "num_bits": 4,
            "quant_method": "gemma",
            "quantize_embeddings": True,
        },
    }
    write("gemma-qat", tensors, expected, config)


# BitNet: `pack_weights` and `unpack_weights` of transformers' integrations/bitnet.py. `BitLinear.forward` divides the
# product with the unpacked weight by `weight_scale`, and `AutoBitLinear.forward` multiplies by it.


@layout.table
def bitnet(name, linear_class, seed):
    """Elements of -1, 0 and 1."""
    import torch._dynamo

    torch._dynamo.config.disable = True
    from transformers.integrations.bitnet import pack_weights, unpack_weights

    tensors, expected = {}, {}
    shapes = {"self_attn.q_proj": (24, 64), "mlp.up_proj": (8, 33)}
    for number, (layer, (rows, columns)) in enumerate(shapes.items()):
        generator, key = torch.Generator().manual_seed(seed + number), f"{LAYER}{layer}.weight"
        packed = pack_weights(torch.randint(-1, 2, (rows, columns), generator=generator))
        scale, unpacked = torch.tensor([1.7 + number], dtype=BRAIN), unpack_weights(packed, BRAIN)
        tensors |= {key: packed, f"{key}_scale": scale}
        expected[key] = unpacked * scale if linear_class == "autobitlinear" else unpacked / scale
    settings = {"linear_class": linear_class, "modules_to_not_convert": None, "quant_method": "bitnet"}
    config = {"architectures": ["BitNetForCausalLM"], "model_type": "bitnet", "dtype": "bfloat16"}
    config["quantization_config"] = settings | {"quantization_mode": "offline"}
    write(name, tensors, expected, config, rest=ordinary(64, seed))


# BitLinear: divided by the scale. AutoBitLinear: times the scale.
bitnet("bitnet-divided", "bitlinear", 5700)
bitnet("bitnet-times", "autobitlinear", 5800)

if __name__ == "__main__":
    layout.main(__doc__)
