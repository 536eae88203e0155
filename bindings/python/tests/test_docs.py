"""The examples of the manual, of the read-me files and of the modules, run as they stand."""

import doctest
import importlib
import re

import examples
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_cast

PAGES = ["docs/python.md", "docs/c.md", "docs/onnxruntime.md", "README.md", "bindings/python/README.md"]


def run(page):
    """The names of a page once all its examples have run, in the current folder."""
    names = {}
    for block, code in examples.of(page):
        if large := re.search(r"^import (torch|jax|onnxruntime)", block, re.MULTILINE):
            pytest.importorskip(large[1])
        exec(code, names)
    return names


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(page)


def test_the_bar_of_tqdm_shows_a_cast_and_a_fold(tmp_path, monkeypatch, capsys):
    pytest.importorskip("tqdm")
    monkeypatch.chdir(tmp_path)
    with_tqdm = run("docs/python.md")["with_tqdm"]
    rows = with_tqdm(onnx_cast.cast_file, "in.safetensors", "other.safetensors", "bf16")
    assert [row.name for row in rows if row.cast] == ["w"] and "40.0/40.0" in capsys.readouterr().err
    nodes = [helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)]
    weights = numpy_helper.from_array(np.ones(1 << 16, np.float16), "w")
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1 << 16])], [weights])
    onnx.save(helper.make_model(graph, ir_version=10), "in.onnx")
    with_tqdm(onnx_cast.fold, "in.onnx", "out.onnx")
    assert [node.op_type for node in onnx.load("out.onnx").graph.node] == ["Constant"]
    assert "100%" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["onnx_cast", "onnx_cast.dtypes", "onnx_cast.backend", "onnx_cast.layouts"])
def test_the_examples_of_a_module_run(name):
    module = importlib.import_module(name)
    failed, tried = doctest.testmod(module, extraglobs={"np": np})
    assert tried and not failed
