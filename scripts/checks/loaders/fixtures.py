#!/usr/bin/env python3
"""Writes crates/testkit/data/loaders.json: tiny models of 31 families as names and shapes, and what transformers'
loader needs of each, which the tests of the file crate compare with what `quantize` writes.

`fixtures.py COMMAND [FAMILIES]`, in an environment with what check.py needs; families that are not named stay as they
are. A family is written only if its checkpoints load and hold the right weights. Names that differ in one number are
one line: `layers.{0-1}`.
"""

import json
import re
import sys
import tempfile
from importlib import metadata
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
import check
import explained
import tiny_models
from shared import ROOT

FAMILIES = """llama qwen3 phi3 gemma3_text gpt2 opt bloom falcon gpt_neox mixtral phimoe qwen3_moe deepseek_v3
gpt_oss llama4_text llava qwen2_5_vl clip siglip bert modernbert t5 bart whisper mamba ernie ibert axk2
tipsv2_text_model sam3_tracker pp_doclayout_v3""".split()
#: The formats that must load before a family is written, one of each kind.
TRIED = ["mxfp4", "fp8 by rows with activations kept", "int4", "deepseek"]
#: The formats whose layers are written: the first that has some. Packed ones are not read in all families.
WRITTEN = {"int4": ".weight_packed", "fp8 by rows with activations kept": ".weight_scale"}
#: What quantizing reads of a configuration.
READ = ("model_type", "tie_word_embeddings", "architectures", "text_config", "vision_config")


def folded(names):
    """Names, where those that differ in their last number alone are one."""
    ranges = {}
    for name in names:
        parts = re.split(r"(?<=\.)(\d+)(?=\.)", name)
        if len(parts) < 3 or name.startswith("re:"):
            ranges[name] = None
        else:
            ranges.setdefault(("".join(parts[:-2]), parts[-1]), []).append(int(parts[-2]))
    found = []
    for key, numbers in ranges.items():
        if numbers is None:
            found.append(key)
        elif sorted(numbers) == list(range(min(numbers), max(numbers) + 1)) and len(numbers) > 1:
            found.append(f"{key[0]}{{{min(numbers)}-{max(numbers)}}}{key[1]}")
        else:
            found += [f"{key[0]}{number}{key[1]}" for number in numbers]
    return found


def modules(model, folder):
    """The Linear layers of a model by name, each with the name of its weight's module in the checkpoint; None if
    another module's weight is its own."""
    import torch
    from safetensors.torch import load_file

    model = model.float()
    linears = {name: module for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    names = {name: number for number, name in enumerate(linears, 1)}
    with torch.no_grad():
        for name, module in linears.items():
            module.weight.fill_(names[name])
    model.save_pretrained(folder)
    stored = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        for name, value in load_file(path).items():
            if value.ndim == 2 and value.min() == value.max() and value.flatten()[0] > 0:
                stored[int(value.flatten()[0])] = name.removesuffix(".weight")
    return {name: stored.get(number) for name, number in names.items()}


def small(config):
    """The fields of a configuration that count."""
    found = {}
    for key in READ:
        value = config.get(key)
        if isinstance(value, dict):
            value = {part: value[part] for part in ("model_type", "tie_word_embeddings") if part in value}
        if value is not None:
            found[key] = value
    return found


def family(name):
    """The fixture of a family."""
    from safetensors import safe_open

    model, given, _ = tiny_models.build(name)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model.save_pretrained(folder / "plain")
        _, plain = check.load(model, folder / "plain")
        for tried in TRIED if name != "gpt_oss" else ["gpt-oss"]:
            failures = check.try_format(model, given, plain, folder, check.FORMATS[tried], set())
            if failures and not explained.expected(tried, failures):
                sys.exit(f"{name}, {tried}: {failures}")
        shapes = {}
        with safe_open(folder / "plain" / "model.safetensors", "np") as file:
            for key in file.keys():
                shapes[key] = file.get_slice(key).get_shape()
        quantized, written, to = [], {}, ""
        for format, suffix in WRITTEN.items():
            if check.try_format(model, given, plain, folder, check.FORMATS[format], set()) is None:
                continue
            to = check.FORMATS[format][1]
            with safe_open(folder / "quantized" / "model.safetensors", "np") as file:
                quantized = [key.removesuffix(suffix) for key in file.keys() if key.endswith(suffix)]
            written = json.loads((folder / "quantized" / "config.json").read_text())["quantization_config"]
            break
        config = json.loads((folder / "plain" / "config.json").read_text())
        linears = modules(model, folder / "linears")
    by_shape = {}
    for key, shape in shapes.items():
        by_shape.setdefault("x".join(map(str, shape)), []).append(key)
    stored = set(linears.values())
    return {
        "config": small(config),
        "tensors": {shape: folded(keys) for shape, keys in by_shape.items()},
        "to": to,
        "quantized": folded(key for key in quantized if key in stored),
        "merged": folded(key for key in quantized if key not in stored),
        "kept": folded(key for key in linears.values() if key is not None and key not in quantized),
        "renamed": {key: value for key, value in linears.items() if value not in (None, key)},
        "tied": [key for key, value in linears.items() if value is None],
        "ignore": folded(written.get("ignore", [])),
    }


def main():
    check.prepare(quiet=False)
    path = ROOT / "crates/testkit/data/loaders.json"
    old = json.loads(path.read_text())["families"] if len(sys.argv) > 2 else {}
    found = old | {name: family(name) for name in sys.argv[2:] or FAMILIES}
    versions = {name: metadata.version(name) for name in ("transformers", "compressed-tensors")}
    # Of each family, a line for each of the facts.
    facts = {name: [f'   "{fact}": {json.dumps(known)}' for fact, known in one.items()] for name, one in found.items()}
    families = ",\n".join(f'  "{name}": {{\n' + ",\n".join(lines) + "\n  }" for name, lines in facts.items())
    text = f'{{\n "versions": {json.dumps(versions)},\n "families": {{\n{families}\n }}\n}}'
    path.write_text(text + "\n")
    print(f"{len(found)} families, {len(text)} bytes")


if __name__ == "__main__":
    main()
