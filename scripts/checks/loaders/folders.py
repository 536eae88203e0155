#!/usr/bin/env python3
"""Do diffusers and sentence-transformers load what `cast` and `quantize` write of their folders, and compute the same?

    folders.py [COMMAND]

A small `StableDiffusionPipeline`, and a small BERT as a `SentenceTransformer` with a dense layer, both with random
weights, are cast to float16 and bfloat16, and the second is quantized to FP8. Outputs are compared with those of the
same package's own cast, and of the checkpoint that `onnx-cast dequantize` writes. What is not installed is left out.
"""

import os
import subprocess
import sys
import tempfile
from importlib import util
from pathlib import Path

import check

sys.path.append(str(Path(__file__).resolve().parents[1]))
from shared import COMMAND  # noqa: E402

os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"a small model reads these words and those of other lines".split()]
SENTENCES = ["a small model reads these words", "those of other lines"]
#: Of the greatest output: what bfloat16 may lose where a package computes in another order.
TOLERANCE = 2.0**-6


def write(*arguments):
    subprocess.run([COMMAND, *map(str, arguments), "--force", "--quiet"], check=True)


def compare(what, got, want, tolerance=0.0):
    """Fails unless two outputs are equal, or as near as it says."""
    far, reach = (got.float() - want.float()).abs().max().item(), want.float().abs().max().item()
    if not (reach > 0 and far <= tolerance * reach):
        sys.exit(f"FAIL {what}: outputs differ by {far:.3g} of {reach:.3g}")
    print(f"{what}: equal outputs" if far == 0 else f"{what}: outputs differ by {far:.1g} of {reach:.1g}", flush=True)


def pipeline(folder):
    """A pipeline of diffusers that takes its text as vectors."""
    import diffusers
    import torch
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(1)
    unet = diffusers.UNet2DConditionModel(
        sample_size=8, block_out_channels=(32, 64), layers_per_block=1, attention_head_dim=8, cross_attention_dim=32,
        norm_num_groups=8, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    vae = diffusers.AutoencoderKL(
        block_out_channels=(32, 32), down_block_types=("DownEncoderBlock2D",) * 2, latent_channels=4,
        up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=8,
    )  # fmt: skip
    text = CLIPTextConfig(hidden_size=32, intermediate_size=64, num_attention_heads=4, num_hidden_layers=2, vocab_size=64)
    made = diffusers.StableDiffusionPipeline(
        vae=vae, text_encoder=CLIPTextModel(text), tokenizer=None, unet=unet, scheduler=diffusers.DDIMScheduler(),
        safety_checker=None, feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip
    made.save_pretrained(folder)


def images(folder, dtype):
    """What a pipeline makes, with its own cast to the type."""
    import diffusers
    import torch

    found = diffusers.StableDiffusionPipeline.from_pretrained(folder, torch_dtype=dtype, tokenizer=None)
    found.set_progress_bar_config(disable=True)
    tokens = torch.arange(12).view(1, 12)
    draw = torch.Generator().manual_seed(2)
    with torch.no_grad():
        vectors = found.text_encoder(tokens)[0]
        latents = torch.randn(1, 4, 8, 8, generator=draw).to(dtype)
        call = {"prompt_embeds": vectors, "negative_prompt_embeds": torch.zeros_like(vectors), "latents": latents}
        return torch.from_numpy(found(**call, num_inference_steps=2, height=16, width=16, output_type="np").images)


def diffusers_pipelines(folder):
    import torch

    pipeline(folder / "pipeline")
    for name, dtype in {"float16": torch.float16, "bfloat16": torch.bfloat16}.items():
        write("cast", folder / "pipeline", folder / name, "--to", name)
        compare(f"diffusers, cast to {name}", images(folder / name, dtype), images(folder / "pipeline", dtype))


def sentences(folder):
    """A BERT with a dense layer behind it."""
    import torch
    from sentence_transformers import SentenceTransformer, models
    from transformers import BertConfig, BertModel, BertTokenizer

    torch.manual_seed(3)
    plain = folder / "bert"
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}
    BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=32, **sizes)).save_pretrained(plain)
    (plain / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    BertTokenizer(str(plain / "vocab.txt")).save_pretrained(plain)
    words = models.Transformer(str(plain))
    dense = models.Dense(in_features=64, out_features=32)
    made = SentenceTransformer(modules=[words, models.Pooling(64), dense], device="cpu")
    made.save(str(folder / "sentences"))


def vectors(folder, dtype):
    """What a model of sentence-transformers gives, with its own cast to the type."""
    import torch
    from sentence_transformers import SentenceTransformer

    found = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": dtype} if dtype else {})
    # Inner layers have the type of their files.
    found = found.to(dtype) if dtype else found
    # It calls `forward` itself, and with that no hook of compressed-tensors, which makes weights plain.
    check.decompress(found[0].model)
    with torch.no_grad():
        return found.encode(SENTENCES, convert_to_tensor=True)


def sentence_transformers(folder):
    import torch

    sentences(folder)
    for name, dtype in {"float16": torch.float16, "bfloat16": torch.bfloat16}.items():
        write("cast", folder / "sentences", folder / name, "--to", name)
        want = vectors(folder / "sentences", dtype)
        compare(f"sentence-transformers, cast to {name}", vectors(folder / name, dtype), want)
    if not util.find_spec("compressed_tensors"):
        print("left out: quantized models of sentence-transformers: compressed-tensors is not installed (torch)")
        return
    write("quantize", folder / "sentences", folder / "fp8", "--to", "float8e4m3fn", "--activations", "none")
    write("dequantize", folder / "fp8", folder / "back", "--to", "float32")
    compare("sentence-transformers, float8e4m3fn", vectors(folder / "fp8", None), vectors(folder / "back", None), TOLERANCE)


def main():
    for package, check in {"diffusers": diffusers_pipelines, "sentence_transformers": sentence_transformers}.items():
        if not util.find_spec(package):
            print(f"left out: folders of {package}: {package} is not installed (torch)")
            continue
        with tempfile.TemporaryDirectory() as folder:
            check(Path(folder))


if __name__ == "__main__":
    main()
