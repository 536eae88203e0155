#!/usr/bin/env python3
"""Do the shell examples of the README and of docs/ run, and print what the pages show below them?

The blocks of a page run in its order, in a folder of their own, with small stand-ins for the checkpoints and models
that they name. A block in text below one is what it prints. A block that has the comment `# not run by the tests:
REASON` is not run; the options of its commands are still parsed.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
from graphs import model as made_of
from safetensors.numpy import save_file
from shared import BUILT, ROOT, in_folder

COMMAND = Path(os.environ.get("ONNX_CAST_COMMAND", BUILT)).resolve()
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = "# not run by the tests: "
# What a run prints of its time is its own.
SECONDS = re.compile(r", \d+\.\d+ s$", re.MULTILINE)

# In the place of the command: fails the example where the command refuses. 1 is a difference or a loss, which the
# examples show on purpose.
WRAPPER = f"""#!/bin/bash
"{COMMAND}" "$@"
status=$?
if (( status > 1 )); then echo "onnx-cast $*: exit code $status" >> "$FAILURES"; fi
exit $status
"""
# The README's first command builds the program; here it is built already.
CARGO = """#!/bin/bash
if [ "$1 $2 $3 $4 $5" != "run --release -p onnx-cast-cli --" ]; then echo "cargo $*" >> "$FAILURES"; exit 2; fi
shift 5
exec onnx-cast "$@"
"""


def quantized(make, *arguments, name="plain"):
    """What `quantize` makes of another stand-in."""

    def quantize(path):
        def within(folder):
            make(folder / name)
            command = [COMMAND, "quantize", "--quiet", folder / name, path, *arguments]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)

        in_folder(within)

    return quantize


def checkpoint(path, files, config):
    """Arrays by file, and a configuration; an index where there are several files."""
    path.mkdir()
    for name, arrays in files.items():
        save_file(arrays, path / name, {"format": "pt"})
    if len(files) > 1:
        weight_map = {one: name for name, arrays in files.items() for one in arrays}
        size = sum(array.nbytes for arrays in files.values() for array in arrays.values())
        index = {"metadata": {"total_size": size}, "weight_map": weight_map}
        (path / "model.safetensors.index.json").write_text(json.dumps(index))
    (path / "config.json").write_text(json.dumps(config))


def llama(path, **config):
    """A checkpoint of two files, with the names of a Llama. Greatest magnitudes are powers of two."""
    rng = np.random.default_rng(7)
    tensors = {"model.embed_tokens.weight": (16, 128), "model.norm.weight": (128,), "lm_head.weight": (16, 128)}
    names = [f"self_attn.{name}_proj" for name in "qkvo"] + [f"mlp.{name}_proj" for name in ("gate", "up", "down")]
    tensors |= {f"model.layers.0.{name}.weight": (128, 128) for name in names}
    values = {name: rng.uniform(-0.9, 0.9, shape).astype(np.float32) for name, shape in tensors.items()}
    for array in values.values():
        array.flat[0] = 1
    parts = [dict(list(values.items())[:4]), dict(list(values.items())[4:])]
    files = {f"model-0000{number}-of-00002.safetensors": part for number, part in enumerate(parts, 1)}
    checkpoint(path, files, config or {"architectures": ["LlamaForCausalLM"], "torch_dtype": "float32"})
    (path / "tokenizer.json").write_text("{}")


def for_gguf(path, kind="llama"):
    """The same with the sizes that .gguf files state."""
    sizes = {"hidden_size": 128, "intermediate_size": 128, "vocab_size": 16, "max_position_embeddings": 64}
    counts = {"num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4}
    llama(path, model_type=kind, **sizes, **counts, rms_norm_eps=1e-5, rope_theta=10000.0, head_dim=32)


def experts(path):
    """A checkpoint of experts, with the names of gpt-oss."""
    rng = np.random.default_rng(8)
    shapes, head = {"gate_up_proj": (2, 64, 128), "down_proj": (2, 64, 64)}, "model.layers.0.mlp.experts."
    values = {head + name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    config = {"architectures": ["GptOssForCausalLM"], "torch_dtype": "float32"}
    checkpoint(path, {"model.safetensors": values}, config)


def model(path):
    """A model of two layers with a softmax between them, the second that of a decoder."""
    rng = np.random.default_rng(9)
    weights = {name: rng.normal(size=(64, 64)).astype(np.float32) for name in ("w1", "w2")}
    text = """(float[n,64] x) => (float[n,64] y)
        { [first] h = MatMul(x, w1) [softmax] s = Softmax(h) [second] y = MatMul(s, w2) }"""
    made = made_of(text, **weights)
    made.graph.node[2].name = "decoder/second"
    onnx.save(made, path)


def pipeline(path):
    """A pipeline of diffusers: a text encoder of transformers, and a model of diffusers."""
    path.mkdir()
    llama(path / "text_encoder")
    (path / "transformer").mkdir()
    weights = {"blocks.0.to_q.weight": np.ones((64, 64), np.float32)}
    save_file(weights, path / "transformer" / "diffusion_pytorch_model.safetensors")
    libraries = {"text_encoder": ["transformers", "LlamaModel"], "transformer": ["diffusers", "FluxTransformer2DModel"]}
    (path / "model_index.json").write_text(json.dumps(libraries))


def one_file(path):
    rng = np.random.default_rng(10)
    shapes = {"blocks.0.attn.weight": (64, 64), "blocks.0.norm.weight": (64,)}
    save_file({name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}, path)


def stored(archive, name):
    """A checkpoint that another package wrote, as the tests of the files keep it."""

    def unpack(path):
        with zipfile.ZipFile(ROOT / f"crates/testkit/data/checkpoints/{archive}.zip") as packed:
            for member in packed.namelist():
                folder, _, file = member.partition("/")
                if folder == name and file and file != "expected.safetensors":
                    path.mkdir(exist_ok=True)
                    (path / file).write_bytes(packed.read(member))

    return unpack


FLOAT8, PLAIN = ("--to", "float8e4m3fn"), "plain.safetensors"
# What the examples name, and what stands there in its place.
STAND_INS = {
    **dict.fromkeys(("llama", "model", "Llama"), llama),
    **dict.fromkeys(("model.safetensors", "diffusion.safetensors", "a.safetensors", "b.safetensors"), one_file),
    "FLUX.1-dev": pipeline,
    "x.npy": lambda path: np.save(path, np.linspace(-2, 2, 6, dtype=np.float32)),
    "x.bin": lambda path: path.write_bytes(bytes(64 * 768 * 4)),
    "model.onnx": model,
    "ranges.npz": lambda path: np.savez(path, x=np.ones((2, 64), np.float32)),
    "DeepSeek-V3": quantized(llama, *FLOAT8, "--layout", "deepseek"),
    **dict.fromkeys(("Llama-NVFP4", "nvfp4-ct"), quantized(llama, "--to", "nvfp4")),
    "mxfp4": quantized(llama, "--to", "mxfp4"),
    "Llama-3.1-8B": for_gguf,
    "Qwen3-8B": lambda path: for_gguf(path, "qwen3"),
    "llama-f16.gguf": quantized(for_gguf, "--to", "float16", "--layout", "gguf"),
    "Llama-GPTQ": stored("integers", "gptq"),
    "Llama-bnb-4bit": stored("platforms", "bnb-nf4"),
    "Llama-MLX-4bit": stored("platforms", "mlx-affine"),
    "gpt-oss-20b": quantized(experts, "--to", "mxfp4", "--layout", "gpt-oss"),
    "original": stored("releases", "openai-mxfp4"),
    "consolidated.safetensors": lambda path: stored("releases", "mistral-fp8")(path.parent),
    "model_fp8_scaled.safetensors": quantized(one_file, *FLOAT8, "--layout", "comfyui", name=PLAIN),
    "model-Q4_K_M.gguf": lambda path: shutil.copyfile(ROOT / "crates/testkit/data/gguf/tensors.gguf", path),
    "examples": lambda path: path.symlink_to(ROOT / "examples"),
}


def make_stand_ins(text, folder):
    """Makes what the text names, unless a command before has made it."""
    words = {word.strip("'\"").split("/")[0] for word in text.split()}
    for name, make in STAND_INS.items():
        if name in words and not (folder / name).exists():
            make(folder / name)


def check_options(page, block):
    """Parses the commands of a block that is not run."""
    for line in block.splitlines():
        if not line.startswith("onnx-cast "):
            continue
        words = shlex.split(line.split(" #")[0])[1:]
        done = subprocess.run([COMMAND, *words, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{page}: {line}\n{done.stderr}")


def check_block(page, block, want, folder, env):
    """Runs a block, and compares what it prints with the text below it."""
    make_stand_ins(block, folder)
    failures = Path(env["FAILURES"])
    failures.write_text("")
    may_differ = "onnx-cast diff" in block  # its exit code 1 is a difference
    options = "-uo" if may_differ else "-euo"
    script = block.replace(" /tmp/", " ./")
    done = subprocess.run(["bash", options, "pipefail", "-c", script], cwd=folder, env=env, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    wrong = failures.read_text()
    if done.returncode > (1 if may_differ else 0):
        wrong += f"exit code {done.returncode}\n"
    if wrong:
        sys.exit(f"{page}: an example fails\n{block}\n{wrong}{done.stdout}")
    if want is not None and SECONDS.sub("", done.stdout) != SECONDS.sub("", want := want.replace(" /tmp/", " ./")):
        sys.exit(f"{page}: an example\n{block}\nprints\n{done.stdout}\n(the page shows\n{want})")


def check_page(page, bin_folder):
    """Runs the blocks of a page. Returns how many were run, and how many parsed alone."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = list(BLOCK.finditer(text))
    run = parsed = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "work"
        folder.mkdir()
        env = os.environ | {"PATH": f"{bin_folder}:{os.environ['PATH']}", "FAILURES": f"{scratch}/failures"}
        env |= {"NO_COLOR": "1", "COLUMNS": "100"}
        for block, following in zip(blocks, [*blocks[1:], None]):
            if block[1] not in ("sh", "bash"):
                continue
            if NOT_RUN in block[2]:
                check_options(page, block[2])
                parsed += 1
                continue
            near = following and following[1] == "text" and text[block.end() : following.start()].strip() == ""
            check_block(page, block[2], following[2] if near else None, folder, env)
            run += 1
    return run, parsed


def main():
    pages = sys.argv[1:] or PAGES
    with tempfile.TemporaryDirectory() as bin_folder:
        for name, text in (("onnx-cast", WRAPPER), ("cargo", CARGO)):
            path = Path(bin_folder) / name
            path.write_text(text)
            path.chmod(0o755)
        counts = [check_page(page, bin_folder) for page in pages]
    run, parsed = (sum(column) for column in zip(*counts))
    print(f"shell examples of {len(pages)} pages: {run} blocks run, {parsed} parsed alone")


if __name__ == "__main__":
    main()
