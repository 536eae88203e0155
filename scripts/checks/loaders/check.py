#!/usr/bin/env python3
"""Do the checkpoints that `onnx-cast quantize` writes by default load in transformers, and hold the right weights?

For model types of the installed transformers that can be built tiny (tiny_models.py), and formats that its loaders
know: quantizes the model, loads it with `from_pretrained` and runs it on a CPU. Nothing may be missing or
unexpected, and the weights and outputs must be those of the checkpoint that `onnx-cast dequantize` writes of it.

`check.py [COMMAND] [--all] [--families A,B] [--formats A,B] [--record FILE]`: a few types in all formats; with `--all`,
the others too, in one format that packs elements and one that does not, or in those of `--formats` (`all` takes hours).
Needs torch, transformers, accelerate and compressed-tensors: `bash scripts/test.sh --torch` installs them. Formats of
Quark need its package (amd-quark) too, and are left out without it.
"""

import argparse
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
from multiprocessing import connection
from pathlib import Path

import explained
import owners
import results as record

# Last, because the checks beside this folder have names of packages.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from shared import ALL, COMMAND, WORKERS  # noqa: E402

#: Formats that transformers' loaders read, with the options that write them.
FORMATS = {
    "nvfp4": ["--to", "nvfp4"],
    "mxfp4": ["--to", "mxfp4"],
    "mxfp8": ["--to", "mxfp8"],
    "fp8 by rows": ["--to", "float8e4m3fn"],
    "fp8 by rows with activations kept": ["--to", "float8e4m3fn", "--activations", "none"],
    "fp8 by tensors": ["--to", "float8e4m3fn/tensor", "--activations", "none"],
    "fp8 in blocks": ["--to", "float8e4m3fn/128x128", "--activations", "none"],
    "int8": ["--to", "int8"],
    "int8 with activations": ["--to", "int8", "--activations", "dynamic"],
    "int4": ["--to", "int4"],
    "deepseek": ["--to", "float8e4m3fn", "--layout", "deepseek"],
    "gpt-oss": ["--to", "mxfp4", "--layout", "gpt-oss"],
    "fbgemm": ["--to", "float8e4m3fn", "--layout", "fbgemm"],
    "quark: fp8 by rows": ["--to", "float8e4m3fn/row", "--layout", "quark"],
    "quark: fp8 by tensors": ["--to", "float8e4m3fn", "--layout", "quark"],
    "quark: mxfp4": ["--to", "mxfp4", "--layout", "quark"],
}
#: Formats of single families.
ONLY = {"gpt-oss": {"gpt_oss"}}
#: Without `--all`: dense, tied, stored transposed, experts, vision, encoders, encoder-decoders, state spaces.
SOME = """llama qwen2 qwen3 mistral phi3 gemma2 gemma3_text gpt2 opt bloom falcon gpt_neox gpt_neo gpt_bigcode glm4 mixtral
qwen2_moe qwen3_moe deepseek_v3 gpt_oss llama4_text llava qwen2_5_vl mllama clip vit siglip bert roberta modernbert t5 bart
whisper mamba mamba2 jamba""".split()
#: Formats of all other types: one whose elements have another name than the weight, and one whose do not.
OTHERS = ["fp8 by rows with activations kept", "int4"]
SECONDS = 240
EMPTY = {"class": "", "left_out": "", "no_inputs": ""}
#: Of the greatest output: what bfloat16 may lose on the way through a tiny model.
TOLERANCE = 2.0**-6


def quantizes_activations(folder):
    """Whether the loader quantizes activations, by the configuration of compressed-tensors or Quark."""
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    groups = [*config.get("config_groups", {}).values(), config.get("global_quant_config", {})]
    return any(group.get("input_activations") or group.get("input_tensors") for group in groups)


def command(*arguments):
    """Runs the command; returns what it says of a failure."""
    done = subprocess.run([COMMAND, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.stderr.strip() or f"status {done.returncode}" if done.returncode else ""


def names(found):
    return ", ".join(sorted(map(str, found)))


def shortened(failure, most=4):
    """A failure with the first of its names."""
    parts = failure.split(", ")
    return ", ".join(parts[:most]) + (f" and {len(parts) - most} more" if len(parts) > most else "")


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


def try_format(model, given, plain, folder, options, notes):
    """Failures of one format, with what may explain them; None where the model has no weight to quantize. `notes` gets
    what the comparison could not see."""
    failures = load_format(model, given, plain, folder, options, notes)
    quantized = folder / "quantized"
    return failures + sorted(explained.facts(model, quantized)) if failures and quantized.is_dir() else failures


def load_format(model, given, plain, folder, options, notes):
    """As `try_format`, without what may explain a failure."""
    from tiny_models import outputs

    quantized, back = folder / "quantized", folder / "back"
    for old in (quantized, back):
        shutil.rmtree(old, ignore_errors=True)
    if failure := command("quantize", folder / "plain", quantized, *options, "--force", "--quiet"):
        return None if "no weight to quantize" in failure else [f"quantize: {failure}"]
    if failure := command("dequantize", quantized, back, "--to", "bf16", "--force", "--quiet"):
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
        if given is not None and owners.runs(loaded):
            got = outputs(loaded, given)
        else:
            decompress(loaded)
    except Exception as error:
        return failures + [f"forward: {type(error).__name__}: {str(error)[:400]}"]
    if got is not None:
        want = outputs(wanted, given)
        far, reach = ((got - want).abs().max().item(), want.abs().max().item()) if want.numel() else (0.0, 0.0)
        # Activations that are quantized on the way change outputs, and which experts are chosen, so that only weights
        # are equal.
        is_near = far <= TOLERANCE * reach or quantizes_activations(quantized) and far < float("inf")
        # Some models give NaN, of memory that they do not set, and elsewhere each time: weights alone are compared.
        if want.isnan().any():
            notes.add(record.NAN)
        elif not is_near:
            failures.append(f"outputs differ by {far:.3g} of {reach:.3g}")
    if different := differing(loaded.state_dict() | owners.weights(loaded), wanted.state_dict()):
        failures.append(f"weights differ: {names(different)}")
    return failures


def differing(have, want):
    """The names of tensors that are not as wanted."""
    import torch

    found = []
    for name, value in want.items():
        mine = have.get(name)
        if mine is None or mine.shape != value.shape or not torch.equal(mine.to(value.dtype), value):
            found.append(name)
    return found


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
    owners.prepare()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    # A model that is too large fails instead of taking the machine's memory.
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (14 << 30 if most == resource.RLIM_INFINITY else min(14 << 30, most), most))
    signal.signal(signal.SIGALRM, late)


def try_family(task):
    """A family in each format: its name, the model's class, why it was not built or run, and failures by format."""
    import torch
    from tiny_models import build

    family, formats = task
    found = EMPTY | {"family": family, "formats": {}, "notes": {}}
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
            loaded, plain = load(model, folder / "plain")
            linear = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
            if lost := linear.intersection(differing(loaded.state_dict(), model.state_dict())):
                raise ValueError(f"weights differ: {shortened(names(lost))}")
        except BaseException as error:
            found["left_out"] = f"transformers does not load what it saves: {type(error).__name__}: {str(error)[:200]}"
            return found
        for name in formats:
            if family not in ONLY.get(name, {family}):
                continue
            signal.alarm(SECONDS)
            notes = set()
            try:
                found["formats"][name] = try_format(model, given, plain, folder, FORMATS[name], notes)
            except BaseException as error:
                found["formats"][name] = [f"{type(error).__name__}: {str(error)[:400]}"]
            finally:
                signal.alarm(0)
            if notes:
                found["notes"][name] = sorted(notes)
    return found


def serve(pipe, task):
    """A process that tries a family."""
    prepare()
    pipe.send(try_family(task))


def in_processes(tasks, count):
    """What `try_family` gives for each task, in the order in which they end: each in a process of its own, so that one
    that crashes or hangs fails its family alone."""
    import torch  # noqa: F401 (once, and not in each process)
    import transformers  # noqa: F401

    context, waiting, running = multiprocessing.get_context("fork"), list(reversed(tasks)), {}
    while waiting or running:
        while waiting and len(running) < count:
            task, (mine, its) = waiting.pop(), context.Pipe(duplex=False)
            process = context.Process(target=serve, args=[its, task])
            process.start()
            its.close()
            running[mine] = process, task, time.monotonic() + SECONDS * (len(task[1]) + 2)
        ready = connection.wait(list(running), timeout=10)
        for pipe, (process, (family, formats), end) in list(running.items()):
            if pipe not in ready and time.monotonic() < end:
                continue
            try:
                found, why = (pipe.recv(), "") if pipe in ready else (None, "it hangs")
            except EOFError:
                process.join()
                found, why = None, f"its process ended with status {process.exitcode}"
            process.kill()
            process.join()
            del running[pipe]
            yield found or EMPTY | {"family": family, "formats": {formats[0]: [why]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?")
    parser.add_argument("--all", action="store_true", help="every type that transformers has")
    parser.add_argument("--families", default="")
    parser.add_argument("--formats", default="")
    parser.add_argument("--record", type=Path, help="the record to write")
    parser.add_argument("--processes", type=int, default=WORKERS)
    options = parser.parse_args()
    packages = ["torch", "transformers", "accelerate", "compressed_tensors"]
    if missing := [name for name in packages if not util.find_spec(name)]:
        print(f"left out: loading checkpoints in transformers: {', '.join(missing)} not installed (torch)")
        return
    known = list(FORMATS)
    if not util.find_spec("quark"):
        print("left out: the layout quark in transformers: amd-quark is not installed")
        known = [name for name in known if not name.startswith("quark")]
    given = known if options.formats == "all" else options.formats.split(",") if options.formats else []
    formats = given or known
    families = options.families.split(",") if options.families else SOME
    if ALL:
        from transformers import CONFIG_MAPPING

        families = list(CONFIG_MAPPING)
    begin, results = time.monotonic(), []
    some = given or (OTHERS if ALL else formats)
    tasks = [(family, formats if family in SOME else some) for family in families]
    for found in in_processes(tasks, options.processes):
        results.append(found)
        for name, failures in found["formats"].items():
            if failures and not explained.expected(name, failures):
                print(f"{found['family']}, {name}: {'; '.join(map(shortened, failures))}", flush=True)
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in packages)
    text, failed = record.text(results, FORMATS, shortened)
    print(*text, versions, f"{time.monotonic() - begin:.0f} s", sep="\n")
    if options.record:
        record.write(options.record, text, versions, time.monotonic() - begin)
    every = [one for found in results for one in found["formats"].items()]
    used = [row for name, failures in every for row in explained.expected(name, failures or [])]
    # Formats of packages that are not installed were not tried.
    rows = [row for row in explained.EXPECTED if any(re.fullmatch(row[0], name) for name in formats)]
    unused = [row for row in rows if row not in used] if ALL and not given else []
    for *_, why in unused:
        print(f"nothing fails any longer because: {why} (remove the row of EXPECTED)")
    if failed or unused:
        sys.exit(1)


if __name__ == "__main__":
    main()
