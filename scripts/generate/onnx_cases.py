#!/usr/bin/env python3
"""Writes the cases of the casts and the scaled casts of the onnx package at hand to `.cache/onnx-cases/VERSION/CASE/`.

A case is `model.onnx` and `test_data_set_0/` with `input_N.pb` and `output_N.pb`. onnx 1.22 ships them as files;
onnx 1.23 ships only the code that makes them, which is run here.
"""

import importlib
import shutil
import sys
import warnings
from pathlib import Path

import onnx
from onnx import numpy_helper
from onnx.backend.test.case import node as node_cases

OUT = Path(__file__).resolve().parents[2] / ".cache" / "onnx-cases" / onnx.__version__
COUNTS = {
    "test_cast_": 60,
    "test_castlike_": 112,
    "test_bitcast_": 10,
    "test_quantizelinear": 13,
    "test_dequantizelinear": 14,
    "test_dynamicquantizelinear": 3,
}


def wanted(name):
    """Whether it is a case of these operators, and not of the definition of DynamicQuantizeLinear by others."""
    return name.startswith(tuple(COUNTS)) and not (name.startswith("test_dynamic") and name.endswith("_expanded"))


def copy_shipped(data):
    for source in sorted(data.iterdir()):
        if wanted(source.name):
            shutil.copytree(source, OUT / source.name)


def generate():
    # Importing the module of an operator runs its generators; the others are not needed.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "overflow encountered in cast" is what the cases are about
        for module in ("cast", "castlike", "bitcast", "quantizelinear", "dequantizelinear", "dynamicquantizelinear"):
            importlib.import_module(f"onnx.backend.test.case.node.{module}")
    for case in node_cases._NodeTestCases:
        if not wanted(case.name):
            continue
        folder = OUT / case.name
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(case.model.SerializeToString())
        for number, (inputs, outputs) in enumerate(case.data_sets):
            data_set = folder / f"test_data_set_{number}"
            data_set.mkdir()
            write_tensors(data_set, "input", inputs, case.model.graph.input)
            write_tensors(data_set, "output", outputs, case.model.graph.output)


def write_tensors(folder, kind, tensors, infos):
    for number, (tensor, info) in enumerate(zip(tensors, infos, strict=True)):
        if not isinstance(tensor, onnx.TensorProto):
            tensor = numpy_helper.from_array(tensor, info.name)
        (folder / f"{kind}_{number}.pb").write_bytes(tensor.SerializeToString())


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    shipped = Path(onnx.__file__).parent / "backend" / "test" / "data" / "node"
    if shipped.is_dir():
        copy_shipped(shipped)
    else:
        generate()
    for prefix, count in COUNTS.items():
        found = sum(1 for folder in OUT.iterdir() if folder.name.startswith(prefix))
        if found != count:
            sys.exit(f"onnx {onnx.__version__}: {found} cases {prefix}*, want {count}")
    print(f"{sum(COUNTS.values())} cases of onnx {onnx.__version__} in {OUT}")


if __name__ == "__main__":
    main()
