#!/usr/bin/env python3
"""Writes crates/testkit/data/gguf/families/: for each family of models whose names are known, a tiny checkpoint as
Hugging Face has it, and the `.gguf` file that `quantize --layout gguf` is to make of it, to the byte.

Names of tensors, blocks, keys of metadata and the file are the gguf package's. What llama.cpp's converter does to
values is written out here: `permute` of conversion/llama.py, the 1 that conversion/gemma.py adds to norms, experts
stacked, and the types of `prepare_tensors` in conversion/base.py. `hard.safetensors` has blocks at the edges of the
arithmetic, and `hard-*.gguf` what they are to become. Needs gguf 0.19.0, numpy, safetensors and ml_dtypes.
"""

import json
import math
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGUFWriter, RopeScalingType, get_tensor_name_map, quants
from gguf import GGMLQuantizationType as Type
from gguf import LlamaFileType as FileType
from gguf_files import finish
from safetensors.numpy import save_file

OUT = Path(__file__).resolve().parents[2] / "crates" / "testkit" / "data" / "gguf" / "families"

KINDS = (Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.MXFP4, Type.F16, Type.BF16)
FILE_TYPES = {kind: FileType[f"MOSTLY_{kind.name}{'_MOE' * (kind == Type.MXFP4)}"] for kind in KINDS}

HIDDEN, HEADS, KV, HEAD, INNER, VOCAB, EXPERTS = 32, 2, 1, 16, 64, 8, 3

CONFIG = {
    "hidden_size": HIDDEN, "intermediate_size": INNER, "max_position_embeddings": 4096, "num_attention_heads": HEADS,
    "num_hidden_layers": 1, "num_key_value_heads": KV, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
    "vocab_size": VOCAB,
}  # fmt: skip
HEAD_DIM = {"head_dim": HEAD}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 32}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
MIXTRAL = {"num_local_experts": EXPERTS, "num_experts_per_tok": 2}
QWEN_MOE = {"num_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
SHARED = {"shared_expert_intermediate_size": 64}
GEMMA2 = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "sliding_window": 1024}
GEMMA3 = {
    "attn_logit_softcapping": None,
    "sliding_window": 512,
    "rope_parameters": {
        "full_attention": {"rope_theta": 1000000.0, "rope_type": "linear", "factor": 8.0},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    },
}

# model_type, architecture, more of the configuration, what layers have, the type of the values, that of the output.
FAMILIES = [
    ("llama", MODEL_ARCH.LLAMA, {"num_hidden_layers": 2, "rope_scaling": LLAMA3}, "mlp", ml_dtypes.bfloat16, Type.Q8_0),
    ("mistral", MODEL_ARCH.LLAMA, HEAD_DIM | {"sliding_window": 128}, "mlp", np.float16, Type.Q4_0),
    ("mixtral", MODEL_ARCH.LLAMA, MIXTRAL, "mixtral", ml_dtypes.bfloat16, Type.Q4_1),
    ("qwen2", MODEL_ARCH.QWEN2, {"rope_scaling": YARN}, "mlp bias", ml_dtypes.bfloat16, Type.Q5_0),
    ("qwen3", MODEL_ARCH.QWEN3, HEAD_DIM, "mlp head_norms", ml_dtypes.bfloat16, Type.Q5_1),
    ("qwen2_moe", MODEL_ARCH.QWEN2MOE, QWEN_MOE | SHARED, "moe bias shared", np.float32, Type.MXFP4),
    ("qwen3_moe", MODEL_ARCH.QWEN3MOE, HEAD_DIM | QWEN_MOE, "moe head_norms", np.float32, Type.F16),
    ("gemma", MODEL_ARCH.GEMMA, HEAD_DIM, "mlp", np.float32, Type.BF16),
    ("gemma2", MODEL_ARCH.GEMMA2, HEAD_DIM | GEMMA2, "mlp four_norms", np.float16, Type.Q8_0),
    ("gemma3_text", MODEL_ARCH.GEMMA3, HEAD_DIM | GEMMA3, "mlp four_norms head_norms", ml_dtypes.bfloat16, Type.Q4_0),
]


def shapes(parts, tied, layers):
    """The names of a checkpoint's tensors, with their shapes."""
    yield "model.embed_tokens.weight", (VOCAB, HIDDEN)
    for layer in range(layers):
        norms = ["input_layernorm", "post_attention_layernorm"]
        if "four_norms" in parts:
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        for norm in norms:
            yield f"model.layers.{layer}.{norm}.weight", (HIDDEN,)
        attention = f"model.layers.{layer}.self_attn."
        for name, rows in (("q_proj", HEADS * HEAD), ("k_proj", KV * HEAD), ("v_proj", KV * HEAD)):
            yield f"{attention}{name}.weight", (rows, HIDDEN)
            if "bias" in parts:
                yield f"{attention}{name}.bias", (rows,)
        yield f"{attention}o_proj.weight", (HIDDEN, HEADS * HEAD)
        if "head_norms" in parts:
            yield f"{attention}q_norm.weight", (HEAD,)
            yield f"{attention}k_norm.weight", (HEAD,)
        yield from layer_shapes(parts, f"model.layers.{layer}.")
    yield "model.norm.weight", (HIDDEN,)
    if not tied:
        yield "lm_head.weight", (VOCAB, HIDDEN)


def layer_shapes(parts, layer):
    if "mixtral" in parts:
        yield f"{layer}block_sparse_moe.gate.weight", (EXPERTS, HIDDEN)
        for expert in range(EXPERTS):
            for name, shape in (("w1", (INNER, HIDDEN)), ("w2", (HIDDEN, INNER)), ("w3", (INNER, HIDDEN))):
                yield f"{layer}block_sparse_moe.experts.{expert}.{name}.weight", shape
    mlp = [("gate_proj", (INNER, HIDDEN)), ("up_proj", (INNER, HIDDEN)), ("down_proj", (HIDDEN, INNER))]
    if "moe" in parts:
        yield f"{layer}mlp.gate.weight", (EXPERTS, HIDDEN)
        for expert in range(EXPERTS):
            for name, shape in mlp:
                shape = tuple(min(size, 32) for size in shape)
                yield f"{layer}mlp.experts.{expert}.{name}.weight", shape
    if "shared" in parts:
        for name, shape in mlp:
            yield f"{layer}mlp.shared_expert.{name}.weight", shape
        yield f"{layer}mlp.shared_expert_gate.weight", (1, HIDDEN)
    if "mlp" in parts:
        for name, shape in mlp:
            yield f"{layer}mlp.{name}.weight", shape


def permute(weights, heads):
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return halves.swapaxes(1, 2).reshape(weights.shape)


def changed(name, values, arch):
    """The values of a tensor as the converter has them."""
    values = values if values.dtype in (np.float16, np.float32) else values.astype(np.float32)
    if arch == MODEL_ARCH.LLAMA and ".q_proj." in name:
        values = permute(values, HEADS)
    if arch == MODEL_ARCH.LLAMA and ".k_proj." in name:
        values = permute(values, KV)
    if is_gemma(arch) and name.endswith("norm.weight"):
        values = values + values.dtype.type(1)
    return values


def stacked(tensors):
    """Experts in one tensor, instead of the first of them."""
    out = {}
    for name, values in tensors.items():
        before, _, rest = name.partition(".experts.")
        number, _, rest = rest.partition(".")
        if "block_sparse_moe" in before and rest:
            before = before.replace("block_sparse_moe", "feed_forward").replace("model.layers", "layers")
        out.setdefault(f"{before}.experts.{rest}" if rest else name, {})[int(number or 0)] = values
    is_one = lambda name: ".experts." not in name
    stack = lambda parts: np.stack([parts[number] for number in sorted(parts)])
    return {name: parts[0] if is_one(name) else stack(parts) for name, parts in out.items()}


def add_tensors(writer, tensors, arch, kind):
    names = get_tensor_name_map(arch, 2)
    for name, values in stacked(tensors).items():
        called = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert called is not None, name
        values = changed(name, values, arch)
        own = kind
        if values.ndim < 2 or called.endswith(("_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight")):
            own = Type.F32
        writer.add_tensor(called, quants.quantize(np.ascontiguousarray(values), own), raw_dtype=own)


def is_gemma(arch):
    return arch.name.startswith("GEMMA")


# In the order of the file: a key of the configuration, what the writer adds by it, and for which architectures.
WRITTEN = [
    ("num_hidden_layers", "block_count", None), ("max_position_embeddings", "context_length", None),
    ("hidden_size", "embedding_length", None), ("intermediate_size", "feed_forward_length", None),
    ("num_attention_heads", "head_count", None), ("num_key_value_heads", "head_count_kv", None),
    ("rms_norm_eps", "layer_norm_rms_eps", None), ("head_dim", "key_length", None), ("head_dim", "value_length", None),
    ("sliding_window", "sliding_window", is_gemma), ("attn_logit_softcapping", "attn_logit_softcapping", is_gemma),
    ("final_logit_softcapping", "final_logit_softcapping", is_gemma), ("num_experts_per_tok", "expert_count", None),
    ("num_experts_per_tok", "expert_used_count", None), ("moe_intermediate_size", "expert_feed_forward_length", None),
    ("shared_expert_intermediate_size", "expert_shared_feed_forward_length", None), ("vocab_size", "vocab_size", None),
]  # fmt: skip


def add_metadata(writer, config, arch, kind):
    writer.add_type("model")
    for key, add, is_added in WRITTEN:
        if config.get(key) and (is_added is None or is_added(arch)):
            getattr(writer, f"add_{add}")(EXPERTS if add == "expert_count" else config[key])
    if arch == MODEL_ARCH.LLAMA:
        writer.add_rope_dimension_count(HEAD)
    ropes = config.get("rope_parameters") or config.get("rope_scaling") or {}
    full = ropes.get("full_attention", ropes)
    writer.add_rope_freq_base(full.get("rope_theta", config["rope_theta"]))
    if "sliding_attention" in ropes:
        writer.add_rope_freq_base_swa(ropes["sliding_attention"]["rope_theta"])
    scaling = full.get("rope_type", full.get("type"))
    if scaling in ("linear", "yarn"):
        writer.add_rope_scaling_type(RopeScalingType(scaling))
        writer.add_rope_scaling_factor(full["factor"])
    if scaling == "yarn":
        writer.add_rope_scaling_orig_ctx_len(full["original_max_position_embeddings"])
    writer.add_tokenizer_model("none")
    writer.add_quantization_version(2)
    writer.add_file_type(FILE_TYPES[kind])
    if scaling == "llama3":
        factors = [rotation_factor(full, config["rope_theta"], index) for index in range(0, HEAD, 2)]
        writer.add_tensor("rope_freqs.weight", np.array(factors, np.float32))


def rotation_factor(rope, base, index):
    """As conversion/llama.py has it, in double: the converter computes in float."""
    length = 2 * math.pi * base ** (index / HEAD)
    context, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    if length < context / high:
        return 1.0
    if length > context / low:
        return factor
    smooth = (context / length - low) / (high - low)
    return 1 / ((1 - smooth) / factor + smooth)


def hard_blocks(rng):
    """Blocks of 32 at the edges of the arithmetic: ties, powers of two and the numbers below them, zeros, extremes."""
    top = (2.0 ** rng.integers(-90, 60, (48, 1))).astype(np.float32)
    top = (top.view(np.uint32) - rng.integers(0, 60, (48, 1)).astype(np.uint32)).view(np.float32)
    near = rng.normal(0, 0.2, (48, 32)).clip(-1, 1).astype(np.float32) * top
    near[np.arange(48), rng.integers(0, 32, 48)] = top[:, 0] * np.where(rng.integers(0, 2, 48) == 1, 1, -1)
    zeros = np.zeros((7, 32))
    zeros[1], zeros[2, 5:], zeros[3, :5], zeros[4], zeros[5], zeros[6, 31] = -0.0, -0.0, -0.0, 1.0, -3.5, -0.0
    blocks = [
        rng.normal(0, 0.05, (32, 32)),
        rng.normal(0, 1, (64, 32)) * 10.0 ** rng.integers(-30, 6, (64, 1)),
        rng.normal(0, 1, (24, 32)) * 10.0 ** rng.integers(5, 36, (24, 1)),
        rng.integers(-16, 17, (32, 32)) * 0.25,
        rng.integers(-8, 9, (32, 32)) * 0.5,
        near,
        zeros,
    ]
    return np.concatenate([np.asarray(block, np.float32) for block in blocks])


def hard():
    values = hard_blocks(np.random.default_rng(34))
    save_file({"blk.0.hard.weight": values}, OUT / "hard.safetensors", metadata={"general.architecture": "llama"})
    for kind in KINDS:
        writer = GGUFWriter(OUT / f"hard-{kind.name}.gguf", "llama")
        writer.add_tokenizer_model("none")
        writer.add_quantization_version(2)
        writer.add_file_type(FILE_TYPES[kind])
        with np.errstate(over="ignore"):
            writer.add_tensor("blk.0.hard.weight", quants.quantize(values, kind), raw_dtype=kind)
        finish(writer)


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    for number, (model_type, arch, more, parts, dtype, kind) in enumerate(FAMILIES):
        rng = np.random.default_rng(number)
        folder = OUT / model_type
        folder.mkdir()
        config = {"model_type": model_type} | CONFIG | more
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        tied = model_type.startswith("gemma")
        wanted = shapes(parts.split(), tied, config["num_hidden_layers"])
        tensors = {name: rng.normal(0, 0.05, shape).astype(dtype) for name, shape in wanted}
        save_file(tensors, folder / "model.safetensors")
        # The order of the output is that of the file.
        order = header_order(folder / "model.safetensors")
        writer = GGUFWriter(folder / f"{kind.name}.gguf", MODEL_ARCH_NAMES[arch])
        add_tensors(writer, {name: tensors[name] for name in order}, arch, kind)
        add_metadata(writer, config, arch, kind)
        finish(writer)
    hard()
    for path in OUT.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def header_order(path):
    data = path.read_bytes()
    return [name for name in json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")]) if name != "__metadata__"]


if __name__ == "__main__":
    main()
