#!/usr/bin/env python3
"""Writes crates/testkit/data/checkpoints/*.zip: a small quantized checkpoint of each layout, as its owner's package
writes it on a CPU, with the bfloat16 weights that the owner's code dequantizes it to. The README there has the packages
and their versions, which need environments of their own. `quantized_checkpoints.py NAME...` writes only those.

A folder holds the checkpoint and `expected.safetensors`, the weights under the unquantized model's names; some also
`original.safetensors`, the weights before they were quantized. The owner's code dequantizes in float: a scale of
bfloat16, whose type the code would compute in, is widened first. Where a package does not write its layout on a CPU,
the tensors are made with its own functions, or by its arithmetic; the functions below say where.
"""

import argparse
import copy
import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent))

import checkpoint_archives  # noqa: E402

# Where `write` puts the folders; `main` sets it.
OUT = Path()
INDEX = "model.safetensors.index.json"


class Layouts(dict):
    """Functions that write one folder each, by its name. As a decorator it registers one under its own name."""

    def __call__(self, function):
        self[function.__name__.replace("_", "-")] = function
        return function

    def table(self, write_one):
        """As a decorator: calls of the function register folders of the names that they begin with."""

        def add(name, *arguments, **more):
            self[name] = lambda: write_one(name, *arguments, **more)

        return add

    def main(self, about):
        """Writes the folders that are named, or all, into their archives."""
        global OUT
        parser = argparse.ArgumentParser(description=about.splitlines()[0])
        parser.add_argument("names", nargs="*", metavar="NAME")
        names = parser.parse_args().names or list(self)
        with tempfile.TemporaryDirectory() as folder:
            OUT = Path(folder)
            for name in names:
                self[name]()
            checkpoint_archives.add(OUT)


layout = Layouts()


def weight(*shape, seed, scale=0.05, tiny=True):
    """Weights in bfloat16 with some outliers, zeros of both signs and, if `tiny`, subnormal numbers."""
    rng = torch.Generator().manual_seed(seed)
    values = torch.randn(shape, generator=rng) * scale
    flat = values.view(-1)
    places = torch.randperm(flat.numel(), generator=rng)
    outliers, zeros, minus_zeros, subnormal = (places[kind::4][: max(flat.numel() // 100, 1)] for kind in range(4))
    flat[outliers] *= 40
    flat[zeros] = 0.0
    flat[minus_zeros] = -0.0
    if tiny:
        flat[subnormal] = (torch.randint(-100, 100, subnormal.shape, generator=rng) * 2.0**-133).float()
    return values.bfloat16()


def ordinary(hidden, seed, prefix="model.", vocabulary=12):
    """An embedding and a norm, which no layout quantizes."""
    return {
        f"{prefix}embed_tokens.weight": weight(vocabulary, hidden, seed=seed),
        f"{prefix}norm.weight": weight(hidden, seed=seed + 1, scale=1.0),
    }


def write(name, tensors, expected, config=None, other=None, second=None, metadata=None, rest=None, original=None):
    """Writes a folder. `expected` is None for what must be refused; `second` has the endings of what lies in a second
    shard, `rest` what is not quantized, `original` all weights before they were quantized."""
    tensors, expected = tensors | (rest or {}), None if expected is None else expected | (rest or {})
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = {"config.json": config, **(other or {})}
    shards = {"model.safetensors": tensors}
    if second:
        shards = {f"model-0000{n}-of-00002.safetensors": {} for n in (1, 2)}
        for key, value in tensors.items():
            list(shards.values())[key.endswith(second)][key] = value
        total = sum(value.nbytes for value in tensors.values())
        places = {key: shard for shard, part in shards.items() for key in part}
        files[INDEX] = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
        assert all(shards.values()), name
    for file, content in files.items():
        if content is not None:
            (folder / file).write_text(json.dumps(content, indent=1) + "\n")
    for shard, part in shards.items():
        save(part, folder / shard, metadata)
    for key, value in (expected or {}).items():
        assert not value.is_floating_point() or value.isfinite().all(), f"{name}: {key} is not finite"
    if expected is not None:
        save(expected, folder / "expected.safetensors")
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert size < 60_000, f"{name}: {size} bytes"
    if original:
        save(original, folder / "original.safetensors")
    print(f"{name}: {len(tensors)} tensors, {size} bytes", flush=True)


def save(tensors, path, metadata=None):
    tensors = {key: value.contiguous() for key, value in tensors.items()}
    save_file(tensors, path, {"format": "pt"} | (metadata or {}))


def e2m1_packed(values):
    """Numbers of float4e2m1 as codes, two in a byte, the even one low."""
    codes = torch.zeros(values.shape, dtype=torch.uint8)
    for code, bound in enumerate((0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)):
        # Ties go to the even code.
        codes += (values.abs() > bound) | ((values.abs() == bound) & (code % 2 == 1))
    codes |= values.signbit().to(torch.uint8) << 3
    return codes[..., ::2] | codes[..., 1::2] << 4


# DeepSeek: the arithmetic of inference/kernel.py (`weight_dequant`) and fp8_cast_bf16.py of DeepSeek-V3, whose kernels
# need a GPU. The weights are quantized as `act_quant` does: amax / 448, in ue8m0 rounded up to a power of two.


def spread(scales, block, shape):
    """The scale of each element, in float."""
    scales = scales.float().repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
    return scales[: shape[0], : shape[1]]


def fp8_in_blocks(values, block, powers=False):
    """Float8 weights and the scales of their blocks."""
    rows, columns = (-(-size // step) for size, step in zip(values.shape, block, strict=True))
    padded = torch.zeros(rows * block[0], columns * block[1])
    padded[: values.shape[0], : values.shape[1]] = values.float()
    amax = padded.view(rows, block[0], columns, block[1]).abs().amax((1, 3))
    scales = torch.where(amax == 0, torch.ones_like(amax), amax / 448)
    if powers:
        scales = torch.exp2(torch.ceil(torch.log2(scales.double()))).float()
    return (values.float() / spread(scales, block, values.shape)).to(torch.float8_e4m3fn), scales


def weight_dequant(values, scales, block):
    """DeepSeek's, in float; the result is stored as bfloat16."""
    return (values.float() * spread(scales, block, values.shape)).bfloat16()


DEEPSEEK = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 132}
DEEPSEEK |= {"intermediate_size": 40, "torch_dtype": "bfloat16"}


def deepseek_config(block=(128, 128), **more):
    quantization = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [*block]}
    return DEEPSEEK | {"quantization_config": quantization | more}


def deepseek_tensors(shapes, block, powers=False, suffix="weight_scale_inv", store=torch.float32):
    tensors, expected = {}, {}
    for number, (name, shape) in enumerate(shapes.items()):
        values = weight(*shape, seed=100 + number)
        if number == 0:
            values[: block[0], : block[1]] = 0
        codes, scales = fp8_in_blocks(values, block, powers)
        tensors[f"{name}.weight"] = codes
        tensors[f"{name}.{suffix}"] = scales.to(store)
        assert torch.equal(tensors[f"{name}.{suffix}"].float(), scales)
        expected[f"{name}.weight"] = weight_dequant(codes, scales, block)
    return tensors, expected


SHAPES_128 = {
    "model.layers.0.self_attn.q_a_proj": (40, 132),
    "model.layers.0.self_attn.o_proj": (132, 16),
    "model.layers.0.mlp.down_proj": (130, 36),
}


@layout
def deepseek():
    """Float8 in blocks of 128x128; the scales of one layer are in the other shard than its weights."""
    rest = ordinary(132, 200) | {"model.layers.0.self_attn.rotary_emb.inv_freq": weight(8, seed=202).float()}
    second = ("down_proj.weight", "q_a_proj.weight_scale_inv", "norm.weight")
    write("deepseek", *deepseek_tensors(SHAPES_128, (128, 128)), deepseek_config(), second=second, rest=rest)


@layout
def deepseek_blocks():
    """Blocks of 32x16, which the configuration says."""
    shapes = {"model.layers.0.mlp.up_proj": (70, 40), "model.layers.0.mlp.down_proj": (40, 70)}
    made = deepseek_tensors(shapes, (32, 16))
    write("deepseek-blocks", *made, deepseek_config((32, 16)), rest=ordinary(40, 210))


@layout
def deepseek_ue8m0():
    """The scales are powers of two in float, as in DeepSeek-V3.1."""
    made = deepseek_tensors(SHAPES_128, (128, 128), powers=True)
    write("deepseek-ue8m0", *made, deepseek_config(scale_fmt="ue8m0"), rest=ordinary(132, 220))


@layout
def deepseek_e8m0():
    """The scales are float8e8m0 and named `scale`, as in DeepSeek-V4; names of other tensors end in scale too."""
    shapes = {"layers.0.attn.wq_a": (40, 132), "layers.0.attn.wo_b": (132, 16)}
    tensors, expected = deepseek_tensors(shapes, (128, 128), True, "scale", torch.float8_e8m0fnu)
    rest = {
        "embed.weight": weight(12, 132, seed=230),
        "norm.weight": weight(132, seed=231, scale=1.0),
        "layers.0.hc_attn_scale": weight(3, seed=232).float(),
        "layers.0.attn.indexer.k_l2_clip.scale": weight(4, seed=233).float(),
    }
    config = deepseek_config(scale_fmt="ue8m0") | {"model_type": "deepseek_v4", "expert_dtype": "fp8"}
    write("deepseek-e8m0", tensors, expected, config, rest=rest)


def fp4_experts(seed):
    """Two experts of float4e2m1 in blocks of 32: names, elements, and scales of float8e8m0."""
    for expert in range(2):
        for name, shape in {"w1": (32, 64), "w2": (64, 32), "w3": (32, 64)}.items():
            values = weight(*shape, seed=seed + expert).float().view(shape[0], -1, 32)
            scales = torch.exp2(torch.ceil(torch.log2(values.abs().amax(-1, keepdim=True).double() / 6))).float()
            packed = e2m1_packed((values / scales).view(shape)).view(torch.int8)
            yield f"layers.0.ffn.experts.{expert}.{name}", packed, scales.squeeze(-1).to(torch.float8_e8m0fnu)


@layout
def deepseek_fp4():
    """Experts of float4e2m1 in blocks of 32, beside float8 in blocks of 128x128, as in DeepSeek-V4.

    The dequantized experts are those of transformers' `Fp8Dequantize`, which works through float.
    """
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    shapes = {"layers.0.attn.wq_a": (36, 130), "layers.0.ffn.shared_experts.w1": (20, 64)}
    tensors, expected = deepseek_tensors(shapes, (128, 128), True, "scale", torch.float8_e8m0fnu)
    for key, packed, scales in fp4_experts(240):
        tensors |= {f"{key}.weight": packed, f"{key}.scale": scales}
        expected[f"{key}.weight"] = Fp8Dequantize(None)._dequantize_one(packed, scales, torch.bfloat16)
    rest = {
        "embed.weight": weight(12, 64, seed=250),
        "norm.weight": weight(64, seed=251, scale=1.0),
        "layers.0.hc_attn_scale": weight(3, seed=252).float(),
        "layers.0.ffn.gate.tid2eid": torch.arange(12).view(6, 2),
    }
    config = deepseek_config(scale_fmt="ue8m0") | {"model_type": "deepseek_v4", "expert_dtype": "fp4"}
    write("deepseek-fp4", tensors, expected, config, second=".scale", rest=rest)


@layout
def gpt_oss():
    """Experts of MXFP4 in two tensors each; the unquantized form is transposed, as transformers' own function has it.

    transformers quantizes with kernels for GPUs; the blocks here are made by the OCP text's rule.
    """
    from transformers import GptOssConfig
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    experts, hidden, intermediate = 2, 64, 32
    config = GptOssConfig(
        num_hidden_layers=1, num_local_experts=experts, hidden_size=hidden, intermediate_size=intermediate,
        vocab_size=12, num_attention_heads=2, num_key_value_heads=1, head_dim=32, num_experts_per_tok=1,
        dtype=torch.bfloat16, layer_types=["full_attention"],
    ).to_dict()  # fmt: skip
    config["quantization_config"] = {
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens"],
        "quant_method": "mxfp4",
    }
    prefix = "model.layers.0.mlp.experts."
    tensors, expected = {}, {}
    shapes = {"gate_up_proj": (2 * intermediate, hidden), "down_proj": (hidden, intermediate)}
    for name, (rows, columns) in shapes.items():
        values = weight(experts, rows, columns, seed=260 + rows + columns).float().view(experts, rows, -1, 32)
        values[0, 1] = 0
        amax = values.abs().amax(-1)
        exponents = torch.where(amax == 0, torch.full_like(amax, -127), torch.frexp(amax).exponent - 1.0 - 2)
        blocks = e2m1_packed((values / torch.exp2(exponents.double()).unsqueeze(-1)).clamp(-6, 6))
        # Scales and codes from both ends of their range, which are dequantized too.
        exponents[1, 2, 0], exponents[1, 3, 0] = -127, 120
        scales = (exponents + 127).to(torch.uint8)
        tensors |= {f"{prefix}{name}_blocks": blocks, f"{prefix}{name}_scales": scales}
        expected[f"{prefix}{name}"] = convert_moe_packed_tensors(blocks, scales)
    rest = ordinary(hidden, 270) | {
        f"{prefix}gate_up_proj_bias": weight(experts, 2 * intermediate, seed=272),
        f"{prefix}down_proj_bias": weight(experts, hidden, seed=273),
        "model.layers.0.mlp.router.weight": weight(experts, hidden, seed=274),
        "model.layers.0.self_attn.sinks": weight(2, seed=275),
    }
    write("gpt-oss", tensors, expected, config, second="down_proj_scales", rest=rest)


def filled(model, seed):
    """A model with weights of our own; one row of each matrix is zero."""
    model = model.to(torch.bfloat16)
    for number, value in enumerate(model.parameters()):
        value.requires_grad_(False)
        value.copy_(weight(*value.shape, seed=seed + number, scale=0.05 if value.dim() > 1 else 1.0))
        if value.dim() > 1:
            value[..., 1, :] = 0
    return model


def llama(seed, hidden=64, intermediate=32, heads=2, kv_heads=1):
    """A Llama of one layer; its embedding, head and norms are not quantized by anyone."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=hidden, intermediate_size=intermediate, num_hidden_layers=1, num_attention_heads=heads,
        num_key_value_heads=kv_heads, head_dim=16, vocab_size=12, dtype=torch.bfloat16,
        architectures=["LlamaForCausalLM"],
    )  # fmt: skip
    return filled(LlamaForCausalLM(config), seed)


def saved_config(save):
    """The config.json that a function writes into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        return json.loads((Path(folder) / "config.json").read_text())


# compressed-tensors: its ModelCompressor compresses a Llama; llm-compressor, which finds the scales, is left out: they
# come from compressed-tensors' own `calculate_qparams` and the range of the weights.


def ranges(values, args):
    """Least and greatest weights of what has one scale."""
    if args.strategy == "tensor":
        return values.min().view(1), values.max().view(1)
    if args.strategy == "channel":
        return values.amin(-1, keepdim=True), values.amax(-1, keepdim=True)
    block = args.block_structure if args.strategy == "block" else (1, args.group_size)
    rows, columns = (-(-size // step) for size, step in zip(values.shape, block, strict=True))
    padded = torch.zeros(rows * block[0], columns * block[1], dtype=values.dtype)
    padded[: values.shape[0], : values.shape[1]] = values
    padded = padded.view(rows, block[0], columns, block[1])
    return padded.amin((1, 3)), padded.amax((1, 3))


def calibrate(model, float_scales):
    """Scales and zero points of the weights, and of activations and the cache at will."""
    from compressed_tensors.quantization.utils.helpers import calculate_qparams, generate_gparam

    for number, module in enumerate(model.modules()):
        for cache in ("k_scale", "v_scale"):
            if hasattr(module, cache):
                getattr(module, cache).fill_(0.0625)
        if not hasattr(module, "weight_scale"):
            continue
        args = module.quantization_scheme.weights
        values = module.weight.data
        if float_scales:
            values = values.float()
            module.weight_scale.data = module.weight_scale.data.float()
        scale_of_all = None
        if hasattr(module, "weight_global_scale"):
            scale_of_all = generate_gparam(values.amin().float(), values.amax().float())
            module.weight_global_scale.copy_(scale_of_all)
        scales, zero_points = calculate_qparams(*ranges(values, args), args, scale_of_all)
        module.weight_scale.copy_(scales)
        if hasattr(module, "weight_zero_point"):
            module.weight_zero_point.copy_(zero_points)
        for activation in ("input_scale", "input_global_scale"):
            if hasattr(module, activation):
                getattr(module, activation).fill_(0.125 + number)


def decompressed(state, scheme):
    """The weight of one module, by the owner's `decompress`, in float."""
    from compressed_tensors.compressors import BaseCompressor

    state = {key: value.clone() for key, value in state.items()}
    if state["weight_scale"].dtype == torch.bfloat16:
        state["weight_scale"] = state["weight_scale"].float()
    compressor = BaseCompressor.get_value_from_registry(scheme.format.value)
    return compressor.decompress(state, scheme)["weight"].bfloat16()


def compressed_llama(groups, seed, edit=None, kv_cache=False, float_scales=False, **more):
    """Tensors, expected tensors and configuration; `groups` are arguments of weights, and perhaps of activations.

    `edit` may change the tensors of a module, and gives the weight of those, or nothing.
    """
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config

    cache = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False, "symmetric": True}
    config = QuantizationConfig(
        config_groups={f"group_{number}": group for number, group in enumerate(groups)},
        ignore=["lm_head"],
        kv_cache_scheme=cache if kv_cache else None,
    )
    model = llama(seed, **more)
    apply_quantization_config(model, config)
    calibrate(model, float_scales)
    compressor = ModelCompressor.from_pretrained_model(model)
    compressor.compress_model(model)
    tensors = {key: value.clone() for key, value in model.state_dict().items()}
    expected = dict(tensors)
    for name, module in model.named_modules():
        for key in ("k_scale", "v_scale"):
            expected.pop(f"{name}.{key}", None)
        if getattr(module, "quantization_scheme", None) is None or module.quantization_scheme.weights is None:
            continue
        state = {key.removeprefix(f"{name}."): tensors.pop(key) for key in list(tensors) if key.startswith(f"{name}.")}
        for key in state:
            del expected[f"{name}.{key}"]
        values = edit(name, state, module.quantization_scheme) if edit else None
        if values is None:
            values = decompressed(state, module.quantization_scheme)
        tensors |= {f"{name}.{key}": value for key, value in state.items()}
        expected[f"{name}.weight"] = values

    def save(folder):
        model.config.save_pretrained(folder)
        compressor.update_config(folder)

    return tensors, expected, saved_config(save)


def group(bits, kind, strategy, targets=("Linear",), activations=None, **more):
    """A group of a compressed-tensors configuration."""
    weights = {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": True, "dynamic": False} | more
    return {"targets": list(targets), "weights": weights, "input_activations": activations}


def preset(name, *targets):
    """A scheme that compressed-tensors has a name for."""
    from compressed_tensors.quantization.quant_scheme import preset_name_to_scheme

    return preset_name_to_scheme(name, list(targets) or ["Linear"])


DYNAMIC = {"num_bits": 8, "strategy": "token", "symmetric": True, "dynamic": True}
FLOAT8 = DYNAMIC | {"type": "float"}


@layout.table
def ct(name, seed, *schemes, second=None, original=False, **more):
    """A layout of compressed-tensors by its presets, with targets, or groups."""
    groups = [preset(*one) if isinstance(one, tuple) else one for one in schemes]
    held = llama(seed).state_dict() if original else None
    write(name, *compressed_llama(groups, seed, **more), second=second, original=held)


def int_group(bits, **more):
    return group(bits, "int", "group", **{"group_size": 32} | more)


# float-quantized: a scale for the tensor, with scales of activations and of the cache; a float scale for each row, some
# in the other shard; blocks of 24x20, with short edges.
ct("ct-fp8-tensor", 300, ("FP8",), kv_cache=True, original=True)
SECOND = ("q_proj.weight_scale", "down_proj.weight", "norm.weight")
ct("ct-fp8-channel", 320, ("FP8_DYNAMIC",), float_scales=True, second=SECOND)
BLOCKS = group(8, "float", "block", activations=FLOAT8, block_structure=[24, 20])
ct("ct-fp8-block", 340, BLOCKS, original=True)
# nvfp4-pack-quantized, mxfp4-pack-quantized, mxfp8-quantized, mxfp6-pack-quantized.
ct("ct-nvfp4", 360, ("NVFP4",), original=True)
ct("ct-mxfp4", 380, ("MXFP4",), original=True)
ct("ct-mxfp8", 400, ("MXFP8",))
ct("ct-mxfp6", 410, ("MXFP6A16",))
# pack-quantized, 4 bits, groups of 32; with zero points; a scale and a zero point for each row of 44, which fill no
# whole word.
ct("ct-int4", 420, int_group(4), second=("weight_shape", "up_proj.weight_scale"), original=True)
ct("ct-int4-asymmetric", 440, int_group(4, symmetric=False))
ct("ct-int4-channel", 460, group(4, "int", "channel", symmetric=False), intermediate=44)


@layout
def ct_int4_g_idx():
    """pack-quantized with `weight_g_idx`, the group of each column.

    compressed-tensors wrote and read these until it removed `actorder: group`. As there, the columns are sorted by
    their groups, stably, then dequantized by group, then put back.
    """

    def edit(name, state, scheme):
        columns = int(state["weight_shape"][1])
        rng = torch.Generator().manual_seed(len(name) + columns)
        groups = torch.arange(columns) // 32
        state["weight_g_idx"] = groups[torch.randperm(columns, generator=rng)].int()
        order = torch.argsort(state["weight_g_idx"], stable=True)
        unpacked = unpack_from_int32(state["weight_packed"], 4, state["weight_shape"])
        by_group = {key: value for key, value in state.items() if key != "weight_g_idx"}
        by_group["weight_packed"] = pack_to_int32(unpacked[:, order], 4)
        return decompressed(by_group, scheme)[:, torch.argsort(order)]

    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32, unpack_from_int32

    tensors, expected, config = compressed_llama([int_group(4)], 480, edit)
    config["quantization_config"]["config_groups"]["group_0"]["weights"]["actorder"] = "group"
    write("ct-int4-g-idx", tensors, expected, config)


# pack-quantized, 8 bits, a scale for each row; groups of 32 with zero points; 3 bits, across words, with zero points.
ct("ct-int8", 500, group(8, "int", "channel"), original=True)
ct("ct-int8-asymmetric", 520, int_group(8, symmetric=False))
ct("ct-int3", 540, int_group(3, group_size=16, symmetric=False))


@layout
def ct_int3_words():
    """pack-quantized, 3 bits, ten in each word, as compressed-tensors 0.12 packed them."""

    def words(values):
        columns = -(-values.shape[1] // 10)
        padded = torch.zeros(values.shape[0], columns * 10, dtype=torch.int64)
        padded[:, : values.shape[1]] = values.long() + 4
        packed = (padded.view(values.shape[0], columns, 10) << 3 * torch.arange(10)).sum(-1)
        return packed.to(torch.int32)

    def edit(name, state, scheme):
        values = decompressed(state, scheme)
        scales = (state["weight_shape"][0], state["weight_scale"].shape[1])
        state["weight_packed"] = words(unpack_from_int32(state["weight_packed"], 3, state["weight_shape"]))
        zero_points = unpack_from_int32(state["weight_zero_point"], 3, scales, packed_dim=0)
        state["weight_zero_point"] = words(zero_points.T).T
        return values

    from compressed_tensors.compressors.pack_quantized.helpers import unpack_from_int32

    scheme = int_group(3, group_size=16, symmetric=False)
    tensors, expected, config = compressed_llama([scheme], 560, edit)
    config["quantization_config"]["version"] = "0.12.2"
    write("ct-int3-words", tensors, expected, config)


# int-quantized: plain int8, a scale for each row; with static activations that have zero points. naive-quantized:
# float8 with a scale for the tensor, and no activations. mixed-precision: NVFP4 in the attention, float8 and int4
# elsewhere, the format in each group.
ct("ct-int-quantized", 580, ("W8A8",))
STATIC = {"num_bits": 8, "type": "int", "strategy": "tensor", "symmetric": False, "dynamic": False}
ct("ct-w8a8-static", 3500, group(8, "int", "channel", activations=STATIC))
ct("ct-naive-quantized", 600, group(8, "float", "tensor"))
MIXED = [("NVFP4A16", r"re:.*self_attn.*"), ("FP8_DYNAMIC", r"re:.*(gate|up)_proj")]
ct("ct-mixed", 620, *MIXED, int_group(4, targets=[r"re:.*down_proj"], group_size=16))


# ModelOpt: `export_hf_checkpoint` writes a model that `mtq.quantize` quantized on the CPU. Its reader of NVFP4 takes
# code 8 for +0; here, as in ONNX, it is -0.


def exported(model, config):
    """Tensors and the two configurations of an export by ModelOpt."""
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint
    from safetensors.torch import load_file

    mtq.quantize(model, config, forward_loop=lambda model: model(torch.arange(12).view(1, 12)))
    with tempfile.TemporaryDirectory() as folder:
        export_hf_checkpoint(model, export_dir=folder)
        (shard,) = Path(folder).glob("*.safetensors")
        read = [json.loads((Path(folder) / name).read_text()) for name in ("config.json", "hf_quant_config.json")]
        return load_file(shard), *read


def by_modelopt(codes, scales, second):
    """A weight in float, by ModelOpt's classes. `second` is the scale of a tensor of NVFP4, or None."""
    from modelopt.torch.quantization.qtensor import fp8_tensor, mxfp4_tensor, mxfp8_tensor, nvfp4_tensor

    nvfp4_tensor.e2m1_values[8] = -0.0
    nvfp4_tensor.NVFP4QTensor.e2m1_values_on_device.clear()
    shape = codes.shape if codes.dtype == torch.float8_e4m3fn else (*codes.shape[:-1], 2 * codes.shape[-1])
    if codes.dtype == torch.float8_e4m3fn and scales.dtype == torch.uint8:
        kind, arguments = mxfp8_tensor.MXFP8QTensor, {"scale": scales}
    elif codes.dtype == torch.float8_e4m3fn and scales.dim() > 1:
        blocks = {-1: 128, -2: 128}
        kind, arguments = fp8_tensor.FP8QTensor, {"scale": scales.view(scales.shape[0], -1), "block_sizes": blocks}
        if scales.dim() == 4:
            arguments["scale"] = scales[:, 0, :, 0]
    elif codes.dtype == torch.float8_e4m3fn:
        kind, arguments = fp8_tensor.FP8QTensor, {"scale": scales.view(-1, 1) if scales.dim() else scales}
    elif second is None:
        kind, arguments = mxfp4_tensor.MXFP4QTensor, {"scale": scales, "block_sizes": {-1: 32}}
    else:
        kind = nvfp4_tensor.NVFP4QTensor
        arguments = {"scale": scales, "double_scale": second, "block_sizes": {-1: 16}}
    return kind(shape, torch.float32, codes).dequantize(torch.float32, **arguments)


def modelopt_expected(tensors):
    """The weights of an export, and what is not quantized."""
    expected = {}
    for key, value in tensors.items():
        # Experts in one tensor have names without `.weight`, and lie as the model has them: [E, K, N]. They are
        # quantized along K, which their packed form halves.
        experts = value.dim() == 3 and f"{key}_weight_scale" in tensors
        scale = f"{key}_weight_scale" if experts else f"{key}_scale"
        if scale not in tensors:
            if not key.endswith(("_scale", "_scale_2")):
                expected[key] = value
            continue
        scales, second = tensors[scale], tensors.get(f"{scale}_2")
        if experts:
            value, scales = value.transpose(1, 2).contiguous(), scales.transpose(1, 2).contiguous()
        values = by_modelopt(value, scales, second)
        expected[key] = (values.transpose(1, 2) if experts else values).bfloat16()
    return expected


def write_modelopt(name, model, config, second=None, kv_cache=False, original=None):
    import modelopt.torch.quantization as mtq

    config = getattr(mtq, config) if isinstance(config, str) else config
    if kv_cache:
        config = mtq.update_quant_cfg_with_kv_cache_quant(copy.deepcopy(config), mtq.FP8_KV_CFG["quant_cfg"])
    tensors, config, other = exported(model, config)
    other = {"hf_quant_config.json": other}
    write(name, tensors, modelopt_expected(tensors), config, other, second, original=original)


@layout.table
def modelopt(name, seed, config, original=False, sizes=None, **more):
    """A layout of ModelOpt by its configuration."""
    held = llama(seed).state_dict() if original else None
    write_modelopt(name, llama(seed, **(sizes or {})), config, original=held, **more)


# FP8 with scales of activations and of the cache. FP8_PER_CHANNEL_PER_TOKEN: the scales have one dimension. FP8_PB_WO:
# the scales of blocks of 128x128 have four dimensions, or none. NVFP4: some scales are in the other shard than the
# weights.
modelopt("modelopt-fp8", 700, "FP8_DEFAULT_CFG", kv_cache=True, original=True)
modelopt("modelopt-fp8-channel", 720, "FP8_PER_CHANNEL_PER_TOKEN_CFG")
SMALL = {"hidden": 136, "intermediate": 8, "heads": 1}
modelopt("modelopt-fp8-blocks", 740, "FP8_2D_BLOCKWISE_WEIGHT_ONLY_CFG", sizes=SMALL)
SECOND = ("weight_scale_2", "q_proj.weight", "down_proj.weight_scale")
modelopt("modelopt-nvfp4", 760, "NVFP4_DEFAULT_CFG", second=SECOND, original=True)
modelopt("modelopt-mxfp8", 800, "MXFP8_DEFAULT_CFG", original=True)
modelopt("modelopt-mxfp4", 820, "MXFP4_DEFAULT_CFG")


@layout
def modelopt_nvfp4_experts():
    """NVFP4 in the experts of a gpt-oss, which are tensors of three dimensions."""
    from transformers import GptOssConfig, GptOssForCausalLM

    config = GptOssConfig(
        hidden_size=64, intermediate_size=32, num_hidden_layers=1, num_attention_heads=1, num_key_value_heads=1,
        head_dim=16, vocab_size=12, dtype=torch.bfloat16, num_local_experts=2, num_experts_per_tok=1,
        layer_types=["full_attention"], architectures=["GptOssForCausalLM"],
    )  # fmt: skip
    write_modelopt("modelopt-nvfp4-experts", filled(GptOssForCausalLM(config), 780), "NVFP4_DEFAULT_CFG")


@layout
def modelopt_mixed():
    """MIXED_PRECISION: FP8 in the attention, NVFP4 elsewhere."""
    import modelopt.torch.quantization as mtq

    rules = copy.deepcopy(mtq.NVFP4_DEFAULT_CFG)
    for rule in mtq.FP8_DEFAULT_CFG["quant_cfg"]:
        name = rule["quantizer_name"]
        if name in ("*weight_quantizer", "*input_quantizer"):
            rules["quant_cfg"].append(rule | {"quantizer_name": f"*self_attn{name}"})
    write_modelopt("modelopt-mixed", llama(840), rules)


@layout
def modelopt_int4():
    """W4A16_AWQ: integers of 4 bits in groups of 32, packed along the rows. Without AWQ's search, so that no
    `pre_quant_scale` is left. The export's `pack_int4_in_uint8` undone: the upper of two rows is in the lower half."""
    import modelopt.torch.quantization as mtq

    quantizers = copy.deepcopy(mtq.INT4_BLOCKWISE_WEIGHT_ONLY_CFG)
    for quantizer in quantizers["quant_cfg"]:
        if "cfg" in quantizer:
            quantizer["cfg"]["block_sizes"][-1] = 32
    tensors, config, other = exported(llama(990), quantizers)
    expected = {}
    for key, value in tensors.items():
        if value.dtype == torch.uint8:
            codes = torch.stack([value & 15, value >> 4], 1).flatten(0, 1).to(torch.int8)
            scales = tensors[f"{key}_scale"].float()
            size = codes.shape[1] // scales.shape[1]
            expected[key] = (torch.where(codes > 7, codes - 16, codes) * scales.repeat_interleave(size, 1)).bfloat16()
        elif not key.endswith("_scale"):
            expected[key] = value
    write("modelopt-int4", tensors, expected, config, {"hf_quant_config.json": other})


@layout
def modelopt_awq():
    """NVFP4_AWQ: `pre_quant_scale` beside the weights, without which they are wrong, and so nothing is expected.

    ModelOpt finds these scales on GPUs only; the tensors are those of NVFP4 with the documented fields added.
    """
    import modelopt.torch.quantization as mtq

    tensors, config, other = exported(llama(860), mtq.NVFP4_DEFAULT_CFG)
    for key in list(tensors):
        if key.endswith("_proj.weight_scale_2"):
            columns = 2 * tensors[key.removesuffix("_scale_2")].shape[1]
            tensors[key.replace("weight_scale_2", "pre_quant_scale")] = 1 + weight(columns, seed=len(key))
    for quantization in (config["quantization_config"], other["quantization"]):
        quantization["quant_algo"] = "NVFP4_AWQ"
    other["quantization"] |= {"has_zero_point": False, "pre_quant_scale": True}
    write("modelopt-awq", tensors, None, config, {"hf_quant_config.json": other})


def by_quark(seed, spec, activations=None, **options):
    """Tensors and configuration of a Llama that Quark quantizes and exports; it compiles kernels with ninja first."""
    from quark.torch import ModelQuantizer, export_safetensors
    from quark.torch.quantization.config.config import QConfig, QLayerConfig
    from safetensors.torch import load_file

    inputs = {"input_tensors": activations.to_quantization_spec()} if activations else {}
    layers = QLayerConfig(weight=spec.to_quantization_spec(), **inputs)
    quantizer = ModelQuantizer(QConfig(global_quant_config=layers, exclude=["lm_head"]))
    model = quantizer.freeze(quantizer.quantize_model(llama(seed), [torch.arange(12).view(1, 12)]))
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        export_safetensors(model=model, output_dir=folder, **options)
        return load_file(Path(folder) / "model.safetensors"), json.loads((Path(folder) / "config.json").read_text())


@layout
def quark():
    """MXFP4 of a Llama, quantized, exported and dequantized by Quark."""
    from quark.torch.kernel.hw_emulation.hw_emulation_interface import dequantize_fp4_fp6_per_group
    from quark.torch.quantization.config.config import OCP_MXFP4Spec
    from quark.torch.utils.pack import Pack_fp4

    tensors, config = by_quark(900, *(OCP_MXFP4Spec(ch_axis=-1, is_dynamic=dynamic) for dynamic in (False, True)))
    expected = {key: value for key, value in tensors.items() if not key.endswith("_scale")}
    for key, value in expected.items():
        if value.dtype == torch.uint8:
            values = Pack_fp4("per_group", "fp4").unpack(value, False)
            scales = torch.exp2(tensors[f"{key}_scale"].float() - 127)
            expected[key] = dequantize_fp4_fp6_per_group(values, scales, -1, 32).bfloat16()
    write("quark", tensors, expected, config)


@layout.table
def quark_integers(name, spec, seed, columns=0, pack_method=None, **settings):
    """A layout of Quark's integers. Its dequantization is (codes - zero points) * scales (`PackMethod.unpack` and
    `dequantize` of quark/torch, 0.13); those of 4 bits, in groups of columns, it unpacks itself."""
    import quark.torch.quantization.config.config as specs
    from quark.torch.utils.pack import Pack_4_bits

    options = {"pack_method": pack_method} if pack_method else {}
    tensors, config = by_quark(seed, getattr(specs, spec)(**settings), **options)
    if columns:
        kind = config["quantization_config"]["global_quant_config"]["weight"]["dtype"]
        unpacked = lambda codes: Pack_4_bits("per_group", kind).unpack(codes, pack_method == "reorder")
    expected = {}
    for key, value in tensors.items():
        scales, zeros = tensors.get(f"{key}_scale"), tensors.get(f"{key}_zero_point")
        if scales is None:
            if not key.endswith(("_scale", "_zero_point")):
                expected[key] = value
        elif columns:
            zeros = 0 if zeros is None else unpacked(zeros).repeat_interleave(columns, 1)
            scales = scales.float().T.repeat_interleave(columns, 1)
            expected[key] = ((unpacked(value) - zeros) * scales).bfloat16()
        else:
            zeros = torch.zeros(1) if zeros is None else zeros
            scales, zeros = (part.float().reshape(-1, 1) for part in (scales, zeros))
            expected[key] = ((value.float() - zeros) * scales).bfloat16()
    write(name, tensors, expected, config)


# int8 with a scale and a zero point for each row; with a scale for the tensor. int4 in groups of 32, symmetric, in
# AWQ's order (`reorder`); uint4 in groups of 16 with zero points, in the columns' order (`order`).
quark_integers("quark-int8", "Int8PerChannelSpec", 961, ch_axis=0)
quark_integers("quark-int8-tensor", "Int8PerTensorSpec", 962)
quark_integers("quark-int4", "Int4PerGroupSpec", 960, 32, "reorder", ch_axis=-1, group_size=32)
quark_integers("quark-uint4", "Uint4PerGroupSpec", 980, 16, "order", ch_axis=-1, group_size=16)


# GPTQ, AWQ and AutoRound. GPTQModel and AutoAWQ pack layers on a CPU, and AutoRound whole models. GPTQModel reads all
# of GPTQ's words in float (`convert_gptq_file`), AutoAWQ its own in the type of the scales, which are widened first.


def gptq_expected(tensors, quantization):
    """What GPTQModel reads from tensors of GPTQ."""
    from gptqmodel.utils.model_dequant import convert_gptq_file

    # It wants an order of groups, which AutoRound leaves out.
    tensors = dict(tensors)
    for key in [key for key in tensors if key.endswith(".scales")]:
        groups, bits = tensors[key].shape[0], quantization["bits"]
        columns = tensors[key.replace("scales", "qweight")].shape[0] * 32 // bits
        tensors.setdefault(key.replace("scales", "g_idx"), torch.arange(columns) // (columns // groups))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file({key: value.contiguous() for key, value in tensors.items()}, path)
        found = convert_gptq_file(path, torch.bfloat16, quantization, "cpu")
    # It casts all other tensors too.
    return {key: tensors.get(key, value) for key, value in found.items()}


def awq_expected(tensors, group_size):
    """What AutoAWQ reads from tensors of its `gemm`."""
    from awq.utils.packing_utils import dequantize_gemm

    expected = {}
    for key, value in tensors.items():
        start, _, last = key.rpartition(".")
        if last == "qweight":
            zeros, scales = tensors[f"{start}.qzeros"], tensors[f"{start}.scales"].float()
            expected[f"{start}.weight"] = dequantize_gemm(value, zeros, scales, 4, group_size).T.bfloat16()
        elif last not in ("qzeros", "scales"):
            expected[key] = value
    return expected


def grid_of(values, bits, symmetric, groups, least=0):
    """A scale and a zero point for each group of columns of each row, as GPTQ's quantizer finds them."""
    most, scales, zeros = 2**bits - 1, [], []
    for group in range(int(groups.max()) + 1):
        part = values[:, groups == group]
        low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
        if symmetric:
            high = torch.maximum(-low, high)
            low = -high
        scale = ((high - low) / most).clamp(min=2.0**-14).half()
        zero = torch.full_like(scale, 2 ** (bits - 1)).float() if symmetric else (-low / scale.float()).round()
        scales.append(scale.float())
        zeros.append(zero.clamp(least, most))
    return torch.stack(scales, 1), torch.stack(zeros, 1)


def linear(rows, columns, seed):
    """A layer with a bias."""
    layer = torch.nn.Linear(columns, rows, dtype=torch.float32)
    layer.weight.data = weight(rows, columns, seed=seed, tiny=False).float()
    layer.bias.data = weight(rows, seed=seed + 1).float()
    return layer


def gptq_llama(bits, symmetric, seed, shapes, group_size=32, order=False, checkpoint_format="gptq"):
    """Layers that GPTQModel packs."""
    from gptqmodel.nn_modules.qlinear.torch import TorchLinear
    from gptqmodel.utils.model_dequant import _revert_gptq_v1_qzeros_correction

    state = ordinary(64, seed)
    for number, (key, (rows, columns)) in enumerate(shapes.items()):
        layer = linear(rows, columns, seed + 2 * number)
        groups = torch.arange(columns) // (group_size if group_size > 0 else columns)
        if order:
            groups = groups[torch.randperm(columns, generator=torch.Generator().manual_seed(seed + number))]
        # In the first format a zero point of 0 would be stored as -1.
        scales, zeros = grid_of(layer.weight.data, bits, symmetric, groups, least=int(checkpoint_format == "gptq"))
        packed = TorchLinear(bits, group_size, symmetric, order, columns, rows, bias=True, format=checkpoint_format)
        packed.pack_original(layer, scales, zeros, groups.int())
        if checkpoint_format == "gptq":
            packed.qzeros = _revert_gptq_v1_qzeros_correction(packed.qzeros, bits)
        tensors = {part: getattr(packed, part) for part in ("qweight", "qzeros", "scales", "g_idx", "bias")}
        state |= {f"model.layers.0.{key}.{part}": tensor.clone() for part, tensor in tensors.items()}
    quantization = {
        "bits": bits, "checkpoint_format": checkpoint_format, "desc_act": order, "group_size": group_size,
        "meta": {"quantizer": ["gptqmodel:7.7.0"]}, "quant_method": "gptq", "sym": symmetric,
    }  # fmt: skip
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float16"}
    return state, gptq_expected(state, quantization), config, quantization


@layout
def gptq():
    """GPTQ, 4 bits, symmetric, the last group short, in two shards; the configuration in a file of its own."""
    shapes = {"self_attn.q_proj": (32, 72), "mlp.up_proj": (64, 64)}
    state, expected, config, quantization = gptq_llama(4, True, 1080, shapes)
    # As AutoGPTQ wrote it.
    quantization = {key: value for key, value in quantization.items() if key not in ("checkpoint_format", "meta")}
    second = tuple(key for key in state if "qzeros" in key or "up_proj" in key)
    write("gptq", state, expected, config, {"quantize_config.json": quantization}, second)


@layout.table
def gptq_layout(name, bits, seed, up, **more):
    shapes = {"self_attn.q_proj": (32, 96), "mlp.up_proj": (up, 64)}
    state, expected, config, quantization = gptq_llama(bits, False, seed, shapes, **more)
    write(name, state, expected, config | {"quantization_config": quantization})


# GPTQ with zero points: 4 bits with an order of groups (`desc_act`); 2 bits; 3 bits across words, less 1, with an order
# of groups; GPTQModel's `gptq_v2`, 8 bits and a scale for each row, zero points as they are.
gptq_layout("gptq-order", 4, 1100, 64, order=True)
gptq_layout("gptq-2", 2, 1140, 96, group_size=16)
gptq_layout("gptq-3", 3, 1040, 96, order=True)
gptq_layout("gptq-v2", 8, 1120, 64, group_size=-1, checkpoint_format="gptq_v2")


def auto_round(layout_name, bits, symmetric, seed, group_size=32):
    """A Llama that AutoRound quantizes without data."""
    from auto_round import AutoRound
    from safetensors.torch import load_file
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    model = llama(seed, kv_heads=2)
    words = Tokenizer(models.WordLevel({f"w{index}": index for index in range(12)}, unk_token="w0"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0", pad_token="w0", eos_token="w1")
    settings = {"bits": bits, "group_size": group_size, "sym": symmetric, "iters": 0, "disable_opt_rtn": True}
    with tempfile.TemporaryDirectory() as folder:
        AutoRound(model, tokenizer=tokenizer, nsamples=1, seqlen=8, **settings).quantize_and_save(folder, layout_name)
        (written,) = Path(folder).rglob("model.safetensors")
        state, config = load_file(written), json.loads((written.parent / "config.json").read_text())
    return state, config


@layout
def auto_round_gptq():
    """AutoRound's default: GPTQ's words, 4 bits, symmetric, without `g_idx`."""
    state, config = auto_round("auto_round:auto_gptq", 4, True, 1000)
    expected = gptq_expected(state, {"bits": 4, "checkpoint_format": "gptq"})
    write("auto-round-gptq", state, expected, config, {"quantization_config.json": config["quantization_config"]})


@layout
def auto_round_2():
    """AutoRound's own format: 2 bits, zero points as they are."""
    state, config = auto_round("auto_round", 2, False, 1020)
    expected = gptq_expected(state, {"bits": 2, "checkpoint_format": "gptq_v2"})
    write("auto-round-2", state, expected, config)


@layout
def auto_round_6():
    """AutoRound's own format: 6 bits, a stream of bits; its own functions unpack them."""
    from auto_round_extension.torch.qlinear_torch import unpack_bitstream

    state, config = auto_round("auto_round", 6, False, 1060)
    expected = {}
    for key, value in state.items():
        start, _, last = key.rpartition(".")
        if last == "qweight":
            zeros, scales = unpack_bitstream(state[f"{start}.qzeros"], 6, dim=1), state[f"{start}.scales"].float()
            codes = unpack_bitstream(value, 6, dim=0)
            zeros, scales = (grid.repeat_interleave(32, dim=0) for grid in (zeros, scales))
            expected[f"{start}.weight"] = (scales * (codes - zeros)).T.bfloat16()
        elif last not in ("qzeros", "scales", "g_idx"):
            expected[key] = value
    write("auto-round-6", state, expected, config)


@layout
def auto_round_awq():
    """AWQ, as AutoRound writes it."""
    state, config = auto_round("auto_awq", 4, False, 1160)
    write("auto-round-awq", state, awq_expected(state, 32), config)


if __name__ == "__main__":
    layout.main(__doc__)
