"""The examples of the manual, of the read-me files and of the modules, run as they stand."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import examples
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

import onnx_cast

# Every page with examples in Python, but for those that another test runs in a place of their own.
ELSEWHERE = {"docs/precision.md": "test_convert.py"}
PAGES = [page for page in examples.pages() if page not in ELSEWHERE]


def checkpoint(folder):
    folder.mkdir()
    rng = np.random.default_rng(1)
    tensors = {f"model.layers.0.mlp.{name}_proj.weight": rng.normal(size=(64, 64)) for name in ("up", "down")}
    tensors["model.layers.0.input_layernorm.weight"] = np.ones(64)
    save_file({name: array.astype(np.float32) for name, array in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")


def llama(folder):
    checkpoint(folder / "llama")


def deepseek(folder):
    checkpoint(folder / "plain")
    onnx_cast.quantize_file("plain", "DeepSeek-V3", "float8e4m3fn", layout="deepseek")


def recorded(folder):
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", info[:1], info[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    onnx_cast.record_model("model.onnx", "recorded.onnx")
    return {"samples": [{"x": np.array([0, number], np.float32)} for number in (1, 2)]}


def repository(folder):
    (folder / "examples").symlink_to(examples.ROOT / "examples")


# What examples expect: files, and names.
PREPARE = {
    "docs/cast-files.md": llama,
    "docs/dequantize.md": deepseek,
    "docs/ranges.md": recorded,
    "docs/tutorial-models.md": repository,
}


def run(page, folder):
    """The names of a page once all its examples have run, in the current folder."""
    names = (PREPARE[page](folder) if page in PREPARE else None) or {}
    for block, code in examples.of(page):
        if large := re.search(r"^import (torch|jax|onnxruntime|pandas|polars)", block, re.MULTILINE):
            on_request = {"polars": "polars is not installed (torch)"}
            pytest.importorskip(large[1], reason=on_request.get(large[1]))
        exec(code, names)
    return names


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page, tmp_path)


def test_the_results_of_examples(tmp_path, monkeypatch):
    """What the examples leave in files."""
    monkeypatch.chdir(tmp_path)
    run("docs/ranges.md", tmp_path)
    with np.load("ranges.npz") as found:
        assert found["onnx_cast_record/x"][0] == 2
    run("docs/cast-files.md", tmp_path)
    run("docs/dequantize.md", tmp_path)
    for folder in ("llama-bf16", "DeepSeek-V3-bf16"):
        types = {row.name: row.dtype.name for row in onnx_cast.info(folder)}
        assert types.pop("model.layers.0.input_layernorm.weight") == "float" and set(types.values()) == {"bfloat16"}


def test_every_page_with_examples_is_run():
    tests = Path(__file__).parent
    for page, name in ELSEWHERE.items():
        assert page in examples.pages() and f'"{page}"' in (tests / name).read_text()
    assert len(PAGES) >= 7


def test_the_bar_of_tqdm_shows_a_cast_and_a_fold(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tqdm")
    monkeypatch.chdir(tmp_path)
    with_tqdm = run("docs/python-files.md", tmp_path)["with_tqdm"]
    rows = with_tqdm(onnx_cast.cast_file, "in.safetensors", "other.safetensors", "bf16")
    assert sorted(row.name for row in rows if row.cast) == ["norm", "w"] and "48.0/48.0" in capsys.readouterr().err
    nodes = [helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)]
    weights = numpy_helper.from_array(np.ones(1 << 16, np.float16), "w")
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1 << 16])], [weights])
    onnx.save(helper.make_model(graph, ir_version=10), "in.onnx")
    with_tqdm(onnx_cast.fold, "in.onnx", "out.onnx")
    assert [node.op_type for node in onnx.load("out.onnx").graph.node] == ["Constant"]
    assert "100%" in capsys.readouterr().err


#: Every module of the package but those that need Ray or torch, or run when they are imported.
MODULES = sorted(
    f"onnx_cast.{path.stem}"
    for path in Path(onnx_cast.__file__).parent.glob("*.py")
    if path.stem not in ("__init__", "__main__", "ray", "torch", "_torch", "_torch_derivatives", "_torch_operators")
)


@pytest.mark.parametrize("name", ["onnx_cast", *MODULES])
def test_the_examples_of_a_module_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    failed, tried = doctest.testmod(module, extraglobs={"np": np, "onnx_cast": onnx_cast})
    assert not failed
    assert tried or name not in EXAMPLES


#: Modules that have examples.
EXAMPLES = {"onnx_cast", *(f"onnx_cast.{name}" for name in ("_report", "_scaled", "backend", "dtypes", "files", "layouts"))}


def parameters_told(function):
    """The parameters in the section of a docstring, in numpy's form."""
    _, _, section = inspect.getdoc(function).partition("Parameters\n----------\n")
    lines = re.split(r"\n\w+\n-+\n", section)[0].splitlines()
    return [name for line in lines if re.match(r"\w", line) for name in line.partition(" : ")[0].split(", ")]


ON_ARRAYS = ["cast", "cast_like", "bit_cast", "stats", "pack", "unpack", "quantize_blocks", "dynamic_quantize_linear"]


@pytest.mark.parametrize("name", [*ON_ARRAYS, "quantize_linear", "dequantize_linear", "cast_file"])
def test_every_parameter_is_documented(name):
    function = getattr(onnx_cast, name)
    assert sorted(parameters_told(function)) == sorted(inspect.signature(function).parameters)
