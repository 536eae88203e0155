"""Tiny models of all types that the installed transformers has, built from their own configurations.

Each configuration starts with its defaults. Layers, widths, vocabulary and images become small by the names of the
fields; several widths are tried, because some types need other ones. Weights are random, so that every layer shows in
the outputs.
"""

import inspect
import re
import time

import torch
from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto

#: Which class of a type is built: the first mapping that has the configuration.
MAPPINGS = """IMAGE_TEXT_TO_TEXT SEQ_TO_SEQ_CAUSAL_LM SPEECH_SEQ_2_SEQ CAUSAL_LM MULTIMODAL_LM MASKED_LM PRETRAINING CTC
IMAGE_CLASSIFICATION ZERO_SHOT_IMAGE_CLASSIFICATION OBJECT_DETECTION ZERO_SHOT_OBJECT_DETECTION UNIVERSAL_SEGMENTATION
SEMANTIC_SEGMENTATION DEPTH_ESTIMATION VIDEO_CLASSIFICATION AUDIO_CLASSIFICATION TEXT_TO_WAVEFORM TEXT_TO_SPECTROGRAM
TIME_SERIES_PREDICTION TOKEN_CLASSIFICATION SEQUENCE_CLASSIFICATION""".split()
MAPPINGS = [*(f"MODEL_FOR_{name}_MAPPING" for name in MAPPINGS), "MODEL_MAPPING"]

VOCABULARY, LAYERS, POSITIONS, IMAGE, MOST_PARAMETERS = 256, 2, 128, 64, 40_000_000

#: How long inputs are looked for.
MOST_SECONDS = 10

#: Fields by their names: of layers, experts and the like, then of widths.
COUNTS = [
    (LAYERS, "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers "
    "num_decoder_layers depth num_decoder_hidden_layers encoder_num_hidden_layers decoder_num_hidden_layers "
    "num_hidden_groups vision_layers text_layers num_fusion_layers e_layers d_layers num_block_layers"),
    (1, "n_shared_experts num_shared_experts n_group topk_group first_k_dense_replace decoder_sparse_step "
    "interleave_moe_layer_step encoder_sparse_step moe_layer_frequency num_nextn_predict_layers moe_layer_start_index"),
    (4, "num_experts num_local_experts n_routed_experts moe_num_experts moe_num_local_experts num_routed_experts"),
    (2, "num_experts_per_tok num_experts_per_token moe_topk moe_k moe_top_k top_k_experts num_selected_experts "
    "router_top_k temporal_patch_size spatial_merge_size"),
    (VOCABULARY, "vocab_size text_vocab_size vocab_size_per_layer_input"),
    (POSITIONS, "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length max_target_positions seq_length "
    "max_seq_length context_length"),
    (64, "max_source_positions"),
    (IMAGE, "image_size img_size"),
    (8, "patch_size"),
    (256, "codebook_size"),
]
WIDTHS = {
    "hidden": "hidden_size d_model n_embd embed_dim embedding_size dim model_dim out_hidden_size projection_dim "
    "text_hidden_size lm_hidden_size output_dim projector_hidden_size encoder_hidden_size decoder_hidden_size "
    "hidden_dim emb_dim width word_embed_proj_dim embedding_dim encoder_embed_dim mm_hidden_size "
    "cross_attention_hidden_size input_hidden_size out_dim proj_dim vision_hidden_size hidden_channels dec_hidden_size "
    "language_hidden_size rnn_hidden_size attention_hidden_size decoder_dim text_embed_dim vision_output_dim "
    "hidden_size_per_layer_input adapter_hidden_size perceiver_hidden_size encoder_width",
    "inner": "intermediate_size d_ff ffn_dim encoder_ffn_dim decoder_ffn_dim n_inner ffn_hidden_size mlp_dim "
    "moe_intermediate_size shared_expert_intermediate_size feed_forward_size dim_feedforward d_inner "
    "encoder_intermediate_size decoder_intermediate_size intermediate_size_mlp block_ff_dim "
    "moe_shared_expert_intermediate_size shared_intermediate_size ff_dim feedforward_dim prefix_dense_intermediate_size "
    "expert_ffn_hidden_size zero_expert_ffn_size lru_width dense_intermediate_size moe_ffn_hidden_size mlp_hidden_size",
    "heads": "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads "
    "num_encoder_attention_heads num_decoder_attention_heads attention_heads encoder_num_attention_heads "
    "decoder_num_attention_heads n_attention_heads swa_num_attention_heads",
    "groups": "num_key_value_heads n_head_kv num_kv_heads multi_query_group_num encoder_num_key_value_heads "
    "decoder_num_key_value_heads swa_num_key_value_heads num_key_value_groups num_global_key_value_heads",
    "head": "head_dim d_kv attention_head_dim kv_channels qk_nope_head_dim qk_rope_head_dim v_head_dim d_head "
    "linear_key_head_dim linear_value_head_dim attention_head_size swa_head_dim swa_v_head_dim "
    "global_head_dim qk_head_dim",
    "rank": "q_lora_rank kv_lora_rank o_lora_rank",
    "keys": "linear_num_key_heads",
    "values": "linear_num_value_heads",
}
#: Values of fields that have none by default, and without which a model does not run.
MISSING = {"num_experts_per_tok": 2, "attn_layer_indices": [1], "prediction_length": 8}
#: What follows from other fields, and is left to the configuration's own rules.
DERIVED = {
    "model_type", "transformers_version", "architectures", "dtype", "torch_dtype", "out_features", "out_indices",
    "stage_names",
}  # fmt: skip
#: The sizes that are tried: hidden size, the size of a head, and how many heads share keys and values.
SIZES = [(128, 32, 2), (128, 32, 1), (64, 16, 2), (128, 64, 1), (256, 128, 2), (256, 128, 1), None]


def sizes(hidden, head, share):
    heads = hidden // head
    return {
        "hidden": hidden, "inner": 2 * hidden, "heads": heads, "groups": heads // share, "head": head,
        "rank": hidden // 2, "keys": max(heads // 2, 1), "values": heads,
    }  # fmt: skip


def by_name(size):
    """The value of each field."""
    fields = {name: count for count, names in COUNTS for name in names.split()}
    if size:
        fields |= {name: value for kind, value in sizes(*size).items() for name in WIDTHS[kind].split()}
    return fields


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool)


def shrunk(values, size, ids=None):
    """The values of a configuration, made small."""
    fields, ids, out = by_name(size), ids if ids is not None else iter(range(200, 256)), {}
    of_layers = set(COUNTS[0][1].split())
    counts = {value for key, value in values.items() if key in of_layers and is_count(value)}
    kinds = [value for value in values.values() if isinstance(value, list) and len(value) in counts and is_text(value)]
    layers = max([LAYERS] + [len(dict.fromkeys(value)) for value in kinds])
    for key, value in values.items():
        if isinstance(value, dict) and all(isinstance(name, str) for name in value):
            value = shrunk(value, size, ids)
        elif key in ("mrope_section", "xdrope_section") and size and isinstance(value, list):
            value = scaled(value, size[1] // 2)
        elif key in MISSING and value is None:
            value = MISSING[key]
        elif key in fields and is_count(value) and value > 0:
            value = layers if key in of_layers else fields[key]
        elif key.endswith(("token_id", "token_index", "_token_ids")) and is_count(value) and value >= VOCABULARY:
            value = next(ids)
        elif key.endswith("token_id") and isinstance(value, list):
            value = [2]
        elif isinstance(value, list) and len(value) in counts:
            kinds = list(dict.fromkeys(value)) if is_text(value) else value
            value = [kinds[at % len(kinds)] for at in range(layers)]
        elif key in ("depths", "num_blocks", "layers_per_stage") and isinstance(value, list) and all(map(is_count, value)):
            value = [1] * len(value)
        out[key] = value
    if size:
        out |= state_space(out, *size)
    return {key: value for key, value in out.items() if key not in DERIVED - {"model_type"}}


def state_space(values, hidden, head, _share):
    """The heads of Mamba's second version, whose widths make up its inner width."""
    heads = hidden * values.get("expand", values.get("mamba_expand", 2)) // head
    if "mamba_n_heads" in values:
        return {"mamba_n_heads": heads, "mamba_d_head": head}
    return {"num_heads": heads} if "state_size" in values and "num_heads" in values else {}


def is_text(values):
    return bool(values) and all(isinstance(value, str) for value in values)


def scaled(parts, total):
    """Whole numbers in proportion, that have a sum."""
    whole = [part * total // sum(parts) for part in parts]
    whole[-1] += total - sum(whole)
    return whole


def configuration(model_type, size):
    plain = CONFIG_MAPPING[model_type]()
    values = shrunk(plain.to_dict(), size)
    return type(plain)(**{key: value for key, value in values.items() if key not in DERIVED})


def model_class(config):
    for name in MAPPINGS:
        mapping = getattr(modeling_auto, name, {})
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, (tuple, list)) else found
    raise LookupError("no model class is registered for it")


def randomize(model):
    """Weights with which every layer shows in the outputs."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.ndim >= 2:
                parameter.normal_(0, 0.8 / max(parameter.shape[-1], 1) ** 0.5)
            elif parameter.is_floating_point():
                parameter.add_(torch.randn_like(parameter) * 0.05)


def build(model_type):
    """A model of a type, inputs on which it runs, or None and why there are none. ValueError says why no size is
    built."""
    reasons, idle = [], None
    for size in SIZES:
        try:
            config = configuration(model_type, size)
            cls = model_class(config)
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in cls(config).parameters())
            if count > MOST_PARAMETERS:
                raise ValueError(f"{count / 1e6:.0f} million parameters at the least")
            torch.manual_seed(0)
            model = cls._from_config(config, dtype=torch.bfloat16).eval()
            randomize(model)
            given, why = inputs(model, patient=idle is None)
            if given:
                return model, given, ""
            idle = idle or (model, None, why)
        except LookupError as error:
            raise ValueError(str(error)) from None
        except Exception as error:  # Each type has its own reasons.
            reasons.append(f"{size}: {type(error).__name__}: {str(error)[:200]}")
    if idle:
        return idle
    raise ValueError(reasons[0] + (f" ({len(reasons)} sizes tried)" if len(reasons) > 1 else ""))


def outputs(model, given):
    """All tensors of floats that a model gives, in one vector."""
    torch.manual_seed(0)
    with torch.no_grad():
        found = model(**given)
    flat, stack = [], [found]
    while stack:
        value = stack.pop()
        if isinstance(value, torch.Tensor):
            if value.is_floating_point():
                flat.append(value.flatten().float())
        elif isinstance(value, dict):
            stack += list(value.values())
        elif isinstance(value, (list, tuple)):
            stack += list(value)
    return torch.cat(flat) if flat else torch.zeros(0)


def find(config, names, default):
    """A field of a configuration, or of one inside it."""
    for part in [config] + [value for value in vars(config).values() if hasattr(value, "to_dict")]:
        for name in names:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return default


def parts(model):
    """Tensors by the names of arguments, from what the configuration says of their sizes."""
    config = model.config
    torch.manual_seed(2)

    def random(*shape):
        return torch.randn(*shape).to(torch.bfloat16)

    image = find(config, ["image_size", "img_size"], 64)
    height, width = image if isinstance(image, (list, tuple)) else (image, image)
    channels = find(config, ["num_channels", "in_channels", "in_chans"], 3)
    mel = find(config, ["num_mel_bins", "num_mel_filters", "feature_size", "input_feat_size"], 80)
    frames = 2 * find(config, ["max_source_positions"], 32)
    hidden = find(config, ["hidden_size", "d_model"], 128)
    patch = find(config, ["patch_size"], 8)
    patch = patch[-1] if isinstance(patch, (list, tuple)) else patch
    deep = find(config, ["temporal_patch_size"], 1)
    codes = find(config, ["num_codebooks", "n_codebooks", "num_channels_codes"], 1)
    past = find(config, ["context_length"], 16) + max(find(config, ["lags_sequence"], [1]))
    future, times = find(config, ["prediction_length"], 8), find(config, ["num_time_features"], 0)
    ids = torch.randint(10, 100, (1, 8))
    picture, steps = random(1, channels, height, width), torch.arange(8)[None]
    grid = torch.tensor([[1, 4, 4]])
    return {
        "input_ids": ids, "decoder_input_ids": ids[:, :6], "attention_mask": torch.ones(1, 8, dtype=torch.long),
        "pixel_values": picture, "pixel_values_videos": picture.unsqueeze(1).repeat(1, 4, 1, 1, 1),
        "input_features": random(1, mel, frames), "input_values": random(1, 4000),
        "bbox": torch.tensor([10, 10, 20, 20]).repeat(1, 8, 1),
        "hidden_states": random(16, channels * deep * patch**2), "grid_thw": grid, "image_grid_thw": grid,
        "audio_mel": random(1, frames, mel), "audio_mel_mask": torch.zeros(1, frames, dtype=torch.bool),
        "input_features_mask": torch.ones(1, frames, dtype=torch.long),
        "past_values": random(1, past), "past_time_features": random(1, past, times),
        "past_observed_mask": torch.ones(1, past), "future_values": random(1, future),
        "future_time_features": random(1, future, times), "static_real_features": random(1, 1),
        "static_categorical_features": torch.zeros(1, 1, dtype=torch.long),
        "states": random(1, 8, find(config, ["state_dim"], 17)), "actions": random(1, 8, find(config, ["act_dim"], 4)),
        "rewards": random(1, 8, 1), "returns_to_go": random(1, 8, 1), "timesteps": steps,
        "query_embeds": random(1, 8, hidden), "inputs_embeds": random(1, 8, hidden),
        "encoder_hidden_states": random(1, 8, find(config, ["encoder_hidden_size"], hidden)),
        "pixel_position_ids": torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij"), -1).reshape(1, 16, 2),
        "is_longer": torch.zeros(1, 1, dtype=torch.bool),
        "audio_codes": torch.randint(0, 100, (1, codes, 8)),
    }  # fmt: skip


def shapes(config):
    """Other shapes that arguments of the same names have in some models."""
    codes = find(config, ["num_codebooks", "n_codebooks", "num_channels"], 4)
    size = find(config, ["max_length"], 64)
    mel = find(config, ["num_mel_bins", "num_mel_filters", "feature_size", "input_feat_size", "input_dim"], 80)
    deep, patch = find(config, ["temporal_patch_size"], 1), find(config, ["patch_size"], 8)
    patch = patch[-1] if isinstance(patch, (list, tuple)) else patch
    flat = 3 * deep * patch**2
    found = {
        "input_values": [(1, 1, 4000), (1, size, mel), (1, mel, size)],
        "input_features": [(1, 64, mel), (1, mel, 3000), (1, 1, 64, mel), (1, 1, 1024, 64)],
        "pixel_values": [(1, 3, 64, 64), (1, 1, 3, 64, 64), (1, 2, 3, 64, 64), (16, flat), (1, 16, flat), (1, 3, 224, 224),
                         (1, 3, 384, 384)],
        "input_ids": [(1, codes, 8), (1, 8, codes)],
        "decoder_input_ids": [(1, 6, codes), (1, codes, 6), (codes, 6)],
    }  # fmt: skip
    return [(name, shape) for name, shapes in found.items() for shape in shapes]


def attempt(model, given, known):
    """Whether a model runs on inputs, with what it says that it lacks added to them; and why not."""
    required = [
        name
        for name, argument in inspect.signature(model.forward).parameters.items()
        if argument.default is argument.empty and name in known and argument.kind is argument.POSITIONAL_OR_KEYWORD
    ]
    given |= {name: known[name] for name in required if name not in given}
    why = ""
    for _ in range(4):
        try:
            if outputs(model, given).numel():
                return True, ""
            return False, why or "no output of floats"
        except Exception as error:
            why = why or f"{type(error).__name__}: {str(error)[:200]}"
            named = re.findall(r"[a-z_]+", str(error).split("but expected one of")[0])
            lacking = [name for name in named if name in known and name not in given]
            if not lacking:
                return False, why
            given |= {name: known[name] for name in lacking}
    return False, why


def inputs(model, patient):
    """Inputs on which a model runs, the first of some guesses, some of which take patience; or None and why."""
    begin = time.monotonic()
    known = parts(model)
    accepted = inspect.signature(model.forward).parameters
    decoder = ["decoder_input_ids"] if "decoder_input_ids" in accepted else []
    guesses = [[model.main_input_name, *decoder], [model.main_input_name], ["input_ids", *decoder]]
    guesses += [["input_ids", "pixel_values"], ["pixel_values", *decoder], ["pixel_values_videos"], ["input_features", *decoder],
                ["input_values", *decoder], ["input_ids", "input_features"], ["input_ids", "input_values"],
                ["hidden_states", "grid_thw"], ["query_embeds", "encoder_hidden_states"], ["inputs_embeds"],
                ["past_values", "past_time_features", "past_observed_mask", "future_values", "future_time_features"],
                ["states", "actions", "rewards", "returns_to_go", "timesteps", "attention_mask"]]  # fmt: skip
    first = ""
    others = [(name, shape) for name, shape in shapes(model.config) if name in accepted]
    for change in [None, *(others if patient else [])]:
        if time.monotonic() - begin > MOST_SECONDS:
            break
        for guess in guesses if change is None else [guess for guess in guesses if change[0] in guess]:
            given = {name: known[name] for name in guess if name in known and name in accepted}
            if len(given) != len(guess):
                continue
            if change:
                name, shape = change
                ids = torch.randint(10, 100, shape)
                given[name] = ids if name.endswith("ids") else torch.randn(*shape).to(torch.bfloat16)
            runs, why = attempt(model, given, known)
            if runs:
                return given, ""
            first = first or why
    return None, first or f"no guess for {model.main_input_name}"
