#!/usr/bin/env python3
"""Do the checkpoints that `onnx-cast quantize` writes by default load in transformers, and hold the right weights?

For each model type of the installed transformers that can be built tiny (tiny_models.py), and each format that its
loaders know: quantizes the model, loads it with `from_pretrained` and runs it on a CPU. Nothing may be missing or
unexpected, and the weights and outputs must be those of the checkpoint that `onnx-cast dequantize` writes of it.

`check.py [COMMAND] [--all] [--families A,B] [--formats A,B] [--record FILE] [--json FILE]`. Without `--all`, a few
families. Needs torch, transformers, accelerate and compressed-tensors: `bash scripts/test.sh --torch` installs them.
"""

import argparse
import collections
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib import metadata, util
from pathlib import Path

# Last, because the checks beside this folder have names of packages.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from shared import ALL, COMMAND, WORKERS  # noqa: E402

#: Formats that transformers' loaders read, with the options that write them.
FORMATS = {
    "nvfp4": ["--to", "nvfp4"],
    "mxfp4": ["--to", "mxfp4"],
    "mxfp8": ["--to", "mxfp8"],
    "fp8 by rows": ["--to", "float8e4m3fn"],
    "fp8 by tensors": ["--to", "float8e4m3fn", "--scale", "tensor"],
    "fp8 in blocks": ["--to", "float8e4m3fn", "--scale", "block=128x128"],
    "int8": ["--to", "int8"],
    "int4": ["--to", "int4"],
    "deepseek": ["--to", "float8e4m3fn", "--layout", "deepseek"],
    "gpt-oss": ["--to", "mxfp4", "--layout", "gpt-oss"],
}
#: Formats of single families.
ONLY = {"gpt-oss": {"gpt_oss"}}
#: Without `--all`: dense, tied, stored transposed, experts, vision, encoders, encoder-decoders, state spaces.
SOME = """llama qwen2 qwen3 mistral phi3 gemma2 gemma3_text gpt2 opt bloom falcon gpt_neox gpt_neo gpt_bigcode glm4 mixtral
qwen2_moe qwen3_moe deepseek_v3 gpt_oss llama4_text llava qwen2_5_vl mllama clip vit siglip bert roberta modernbert t5 bart
whisper mamba mamba2 jamba""".split()
#: What fails by the loader's own fault: family, format, the failure, and why.
EXPECTED = []

SECONDS = 240
#: Of the greatest output: what bfloat16 may lose on the way through a tiny model.
TOLERANCE = 2.0**-6


def command(*arguments):
    """Runs the command; returns what it says of a failure."""
    done = subprocess.run([COMMAND, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stderr.strip() or f"status {done.returncode}" if done.returncode else ""


def names(found):
    found = sorted(map(str, found))
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")


def load(model, folder):
    """A checkpoint as transformers loads it: the model, and (missing, unexpected, of another shape)."""
    import torch

    loaded, info = type(model).from_pretrained(folder, output_loading_info=True, dtype=torch.bfloat16)
    keys = ("missing_keys", "unexpected_keys", "mismatched_keys")
    return loaded.eval(), [{str(name) for name in info[key]} for key in keys]


def decompress(model):
    """Makes the weights plain, where the first forward pass would."""
    quantizer = getattr(model, "hf_quantizer", None)
    compressor = getattr(quantizer, "compressor", None)
    if compressor is not None and hasattr(compressor, "decompress_model"):
        compressor.decompress_model(model)


def try_format(model, given, plain, folder, options):
    """Failures of one format; None where the model has no weight to quantize."""
    import torch
    from tiny_models import outputs

    quantized, back = folder / "quantized", folder / "back"
    for old in (quantized, back):
        shutil.rmtree(old, ignore_errors=True)
    if failure := command("quantize", folder / "plain", quantized, *options, "--quiet"):
        return None if "no weight to quantize" in failure else [f"quantize: {failure}"]
    if failure := command("dequantize", quantized, back, "--to", "bf16", "--quiet"):
        return [f"dequantize: {failure}"]
    failures = []
    try:
        loaded, found = load(model, quantized)
    except Exception as error:
        return [f"load: {type(error).__name__}: {str(error)[:400]}"]
    for words, mine, others in zip(("missing", "unexpected", "of another shape"), found, plain):
        if mine - others:
            failures.append(f"{words}: {names(mine - others)}")
    wanted, _ = load(model, back)
    got = None
    try:
        if given is not None:
            got = outputs(loaded, given)
        else:
            decompress(loaded)
    except Exception as error:
        failures.append(f"forward: {type(error).__name__}: {str(error)[:400]}")
        return failures
    if got is not None:
        want = outputs(wanted, given)
        far, reach = (got - want).abs().max().item(), want.abs().max().item()
        if not far <= TOLERANCE * reach:
            failures.append(f"outputs differ by {far:.3g} of {reach:.3g}")
    have, different = loaded.state_dict(), []
    for name, value in wanted.state_dict().items():
        mine = have.get(name)
        if mine is None or mine.shape != value.shape or not torch.equal(mine.to(value.dtype), value):
            different.append(name)
    if different:
        failures.append(f"weights differ: {names(different)}")
    return failures


def late(*_):
    raise TimeoutError(f"more than {SECONDS} s")


def prepare(quiet=True):
    """Sets a process up."""
    import warnings

    import torch
    import transformers

    # Bars of progress, which not all packages can be told to leave out.
    if quiet:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # A model that is too large fails instead of taking the machine's memory.
    resource.setrlimit(resource.RLIMIT_AS, (14 << 30, 14 << 30))
    signal.signal(signal.SIGALRM, late)


def try_family(task):
    """A family in each format: its name, the model's class, why it was not built or run, and failures by format."""
    import torch
    from tiny_models import build

    family, formats = task
    found = {"family": family, "class": "", "left_out": "", "no_inputs": "", "formats": {}}
    signal.alarm(SECONDS)
    try:
        model, given, found["no_inputs"] = build(family)
    except BaseException as error:
        found["left_out"] = str(error) or type(error).__name__
        return found
    finally:
        signal.alarm(0)
    found["class"] = type(model).__name__
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        try:
            model.save_pretrained(folder / "plain")
            _, plain = load(model, folder / "plain")
        except BaseException as error:
            found["left_out"] = f"transformers does not load what it saves: {type(error).__name__}: {str(error)[:200]}"
            return found
        for name in formats:
            if family not in ONLY.get(name, {family}):
                continue
            signal.alarm(SECONDS)
            try:
                found["formats"][name] = try_format(model, given, plain, folder, FORMATS[name])
            except BaseException as error:
                found["formats"][name] = [f"{type(error).__name__}: {str(error)[:400]}"]
            finally:
                signal.alarm(0)
    return found


def expected(family, name, failures):
    """Why a failure is the loader's own fault."""
    text = "; ".join(failures)
    for families, formats, words, why in EXPECTED:
        if re.fullmatch(families, family) and re.fullmatch(formats, name) and re.search(words, text):
            return why
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?")
    parser.add_argument("--all", action="store_true", help="every type that transformers has")
    parser.add_argument("--families", default="")
    parser.add_argument("--formats", default="")
    parser.add_argument("--json", type=Path, help="where results go, one family a line")
    parser.add_argument("--processes", type=int, default=WORKERS)
    options = parser.parse_args()
    packages = ["torch", "transformers", "accelerate", "compressed_tensors"]
    if missing := [name for name in packages if not util.find_spec(name)]:
        print(f"left out: loading checkpoints in transformers: {', '.join(missing)} not installed (torch)")
        return
    formats = options.formats.split(",") if options.formats else list(FORMATS)
    families = options.families.split(",") if options.families else SOME
    if ALL:
        from transformers import CONFIG_MAPPING

        families = list(CONFIG_MAPPING)
    begin, results = time.monotonic(), []
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes, prepare, maxtasksperchild=40) as pool:
        running = pool.imap_unordered(try_family, [(family, formats) for family in families])
        for _ in families:
            # A process that crashed gives nothing.
            found = running.next(timeout=SECONDS * (len(formats) + 1))
            results.append(found)
            if options.json:
                options.json.open("a").write(json.dumps(found) + "\n")
            if found["left_out"]:
                print(f"{found['family']}: not built: {found['left_out']}", flush=True)
            for name, failures in found["formats"].items():
                if failures:
                    print(f"{found['family']}, {name}: {'; '.join(failures)}", flush=True)
    tried = [(found["family"], name, failures) for found in results for name, failures in found["formats"].items()]
    failed = [one for one in tried if one[2]]
    counts = collections.Counter(name for _, name, failures in tried if failures == [])
    print(f"{len(results)} families, {sum(not found['left_out'] for found in results)} built; {len(tried)} checkpoints, "
          f"{len(failed)} fail, {sum(counts.values())} load and equal; {time.monotonic() - begin:.0f} s")  # fmt: skip
    print(*[f"{name}: {counts[name]} load" for name in formats], sep="\n")
    print(*[f"{name} {metadata.version(name)}" for name in packages], sep=", ")
    if [one for one in failed if not expected(*one)]:
        sys.exit(1)


if __name__ == "__main__":
    main()
