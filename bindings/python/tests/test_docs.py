"""The examples of the manual, of the read-me files and of the modules, run as they stand."""

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "docs" / "python.md", ROOT / "docs" / "c.md", ROOT / "README.md", ROOT / "bindings" / "python" / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, block in enumerate(blocks, 1):
        if "import torch" in block or "import jax" in block or "import onnxruntime" in block:
            pytest.importorskip(re.search(r"import (torch|jax|onnxruntime)", block)[1])
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)


@pytest.mark.parametrize("name", ["onnx_cast", "onnx_cast.dtypes", "onnx_cast.backend"])
def test_the_examples_of_a_module_run(name):
    module = importlib.import_module(name)
    failed, tried = doctest.testmod(module, extraglobs={"np": np})
    assert tried and not failed
