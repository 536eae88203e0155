#!/usr/bin/env python3
"""Loads checkpoints that `onnx-cast quantize` writes into vLLM's models on a CPU, and compares the result with `check`.

`vllm_loads.py COMMAND [FAMILIES]`, in an environment with requirements-vllm.txt. vLLM has no CPU kernels for most
formats, so models are not run: the functions that select kernels are replaced, and only vLLM's own code for
configurations, modules and loading runs. Each checkpoint is loaded twice, into parameters filled with different bytes. A
parameter that differs afterwards was not read. Where a CPU has kernels, `--run` also compares log probabilities with
those of the dequantized checkpoint in transformers.
"""

import argparse
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import MagicMock

os.environ.update(VLLM_LOGGING_LEVEL="ERROR", HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_CPU_KVCACHE_SPACE="1")
os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0")

import torch
import vllm.model_executor.layers.fused_moe.oracle as moe
import vllm.model_executor.layers.quantization as quantization
from vllm.config import set_current_vllm_config
from vllm.distributed import destroy_model_parallel, init_distributed_environment, initialize_model_parallel
from vllm.engine.arg_utils import EngineArgs
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.utils.torch_utils import set_default_torch_dtype

sys.path.append(str(Path(__file__).resolve().parents[1] / "checks" / "loaders"))
import tiny_models  # noqa: E402

FAMILIES = """llama mistral qwen2 qwen3 gemma2 gemma3_text phi3 granite olmo2 glm4 opt gpt_neox mixtral qwen2_moe qwen3_moe
olmoe granitemoe deepseek_v2""".split()
#: Hidden size, the size of a head, and how many heads share keys and values: blocks of 128x128 must fit.
SIZE = (256, 64, 2)
FORMATS = [
    "--to nvfp4", "--to mxfp4", "--to mxfp8", "--to int8", "--to int8 --activations dynamic", "--to int8/128",
    "--to float8e4m3fn", "--to float8e4m3fn --activations none", "--to float8e4m3fn/tensor", "--to float8e4m3fn/128x128",
    "--to int4", "--to int4/128", "--to int4/row", "--to float8e4m3fn --layout deepseek",
    "--to nvfp4 --layout modelopt", "--to mxfp8 --layout modelopt", "--to float8e4m3fn --layout modelopt",
    "--to float8e4m3fn/row --layout quark",
]  # fmt: skip
#: Formats with kernels on every CPU.
RUN = ["--to int8 --activations dynamic", "--to float8e4m3fn"]
IDS = [5, 9, 17, 33, 2, 77, 101, 200]
#: Parameters that a checkpoint may lack: scales of cached keys and values, and scales of activations that keep their type.
OPTIONAL = ("k_scale", "v_scale", "q_scale", "prob_scale", "_zero_point", "input_scale", "input_global_scale")


def stand_in(*_, **__):
    found = MagicMock()
    found.__name__ = "stand_in"
    return found


def replace_kernels():
    """Replaces the functions that select kernels in every module that has them."""
    for package in (quantization, moe):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            try:
                importlib.import_module(module.name)
            except ImportError:  # It needs a package for another device.
                pass
    for module in [module for name, module in sys.modules.items() if name.startswith("vllm")]:
        for name in list(vars(module)):
            if name.startswith(("init_", "choose_")) and name.endswith("linear_kernel"):
                setattr(module, name, stand_in)
            if name.startswith("select_") and name.endswith("_moe_backend") and "unquantized" not in name:
                setattr(module, name, lambda *_, **__: (stand_in(), stand_in()))


def loaded(folder, fill):
    """Returns the bytes of all parameters after loading a checkpoint into parameters filled with one byte."""
    engine = EngineArgs(model=str(folder), skip_tokenizer_init=True, dtype="bfloat16", max_model_len=64)
    config = engine.create_engine_config()
    with set_current_vllm_config(config):
        if torch.distributed.is_initialized():
            destroy_model_parallel()
        else:
            address = f"tcp://127.0.0.1:{20000 + os.getpid() % 10000}"
            init_distributed_environment(1, 0, address, 0, "gloo")
        initialize_model_parallel(1, 1)
        with set_default_torch_dtype(torch.bfloat16):
            model = initialize_model(config)
            for parameter in model.parameters():
                if parameter.numel():
                    parameter.data.contiguous().view(-1).view(torch.uint8).fill_(fill)
            DefaultModelLoader(config.load_config).load_weights(model, config.model_config)
    return {name: value.data.contiguous().view(-1).view(torch.uint8) for name, value in model.named_parameters()}


def failure(folder):
    """Returns why vLLM does not load a checkpoint, or which parameters it leaves as they are."""
    try:
        first, second = loaded(folder, 0), loaded(folder, 0x3C)
    except Exception as error:  # Each module of vLLM raises its own.
        return f"{type(error).__name__}: {str(error)[:200]}"
    unread = [name for name in first if not torch.equal(first[name], second[name]) and not name.endswith(OPTIONAL)]
    return f"not read: {', '.join(unread[:3])}" if unread else ""


def log_probabilities(folder):
    from vllm import LLM, SamplingParams

    llm = LLM(model=str(folder), skip_tokenizer_init=True, enforce_eager=True, dtype="bfloat16", max_model_len=64)
    parameters = SamplingParams(max_tokens=1, prompt_logprobs=0, detokenize=False)
    (output,) = llm.generate([{"prompt_token_ids": IDS}], parameters, use_tqdm=False)
    return torch.tensor([next(iter(found.values())).logprob for found in output.prompt_logprobs[1:]])


def expected(folder):
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    with torch.no_grad():
        found = model(torch.tensor([IDS])).logits.float().log_softmax(-1)[0, :-1]
    return found.gather(1, torch.tensor(IDS[1:])[:, None])[:, 0]


def build(family, folder):
    config = tiny_models.configuration(family, SIZE)
    torch.manual_seed(0)
    model = tiny_models.model_class(config)._from_config(config, dtype=torch.bfloat16)
    tiny_models.randomize(model)
    model.save_pretrained(folder)


def run(command, *arguments):
    return subprocess.run([command, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", type=Path)
    parser.add_argument("families", nargs="*", default=FAMILIES)
    parser.add_argument("--run", action="store_true", help="run the models, in formats with kernels on every CPU")
    options = parser.parse_args()
    if not options.run:
        replace_kernels()
    counts, wrong = {"load": 0, "do not load": 0}, []
    for family in options.families:
        with tempfile.TemporaryDirectory() as folder:
            plain, quantized, back = (Path(folder) / name for name in ("plain", "quantized", "back"))
            build(family, plain)
            if not options.run and (why := failure(plain)):
                print(f"{family}: not even without quantization: {why}", flush=True)
                continue
            for form in RUN if options.run else FORMATS:
                done = run(options.command, "quantize", plain, quantized, *form.split(), "--quiet", "--force")
                if done.returncode:
                    print(f"{family} {form}: not quantized: {done.stderr.strip()}", flush=True)
                    continue
                if options.run:
                    run(options.command, "dequantize", quantized, back, "--to", "bf16", "--quiet", "--force")
                    want = expected(back)
                    far = ((log_probabilities(quantized) - want).abs().max() / (want.max() - want.min())).item()
                    print(f"{family} {form}: log probabilities differ by {far:.3f} of their range", flush=True)
                    wrong += [f"{family} {form}"] if far > 0.2 else []
                    continue
                why = failure(quantized)
                checked = json.loads(run(options.command, "check", quantized, "--loader", "vllm", "--json").stdout)
                problems = [f"{problem['name']}: {problem['reason']}" for problem in checked["problems"]]
                counts["do not load" if why else "load"] += 1
                undecided = ", ".join(f"{count} {reason}" for reason, count in checked["undecided"].items())
                print(f"{family} {form}: {why or 'loads'} | check: {(problems or ['reads all'])[0]} ({undecided})", flush=True)
                if bool(why) != bool(problems):
                    wrong.append(f"{family} {form}")
    print(*(f"{what} disagrees" for what in wrong), sep="\n")
    print(", ".join(f"{count} {what}" for what, count in counts.items()), f"; {len(wrong)} disagree")
    sys.stdout.flush()
    os._exit(1 if wrong else 0)  # vLLM's threads would keep the process alive.


if __name__ == "__main__":
    main()
