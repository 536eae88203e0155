"""Quantized checkpoints: what Python reads back are the weights that the owner's package reads."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors
from safetensors.numpy import save_file

import onnx_cast
from onnx_cast import CastError, dtypes

CHECKPOINTS = Path(__file__).parents[3] / "crates" / "testkit" / "data" / "checkpoints"


def tensors(paths):
    return dict(item for path in paths for item in safetensors.deserialize(path.read_bytes()))


def copied(name, folder):
    ignored = shutil.ignore_patterns("expected.safetensors")
    return Path(shutil.copytree(CHECKPOINTS / name, folder / name, ignore=ignored))


@pytest.mark.parametrize("name", ["deepseek", "ct-nvfp4"])
def test_weights_are_those_of_the_owner(name, tmp_path):
    src, dst, told = copied(name, tmp_path), tmp_path / "plain", []
    plan = onnx_cast.dequantize_file(src, dst, "bf16", dry_run=True)
    assert not dst.exists()
    done = onnx_cast.dequantize_file(src, dst, "bf16", progress=lambda *state: told.append(state))
    assert done == plan and done.copied == plan.copied
    assert told and told == sorted(told) and told[-1][0] == told[-1][1]
    assert tensors(dst.glob("*.safetensors")) == tensors([CHECKPOINTS / name / "expected.safetensors"])
    assert {row.after for row in done if row.cast} == {dtypes.bfloat16}
    config = json.loads((dst / "config.json").read_text())
    assert "quantization_config" not in config and config.get("torch_dtype", config.get("dtype")) == "bfloat16"
    assert onnx_cast.dequantize_file(src, dst, "bf16", resume=True).already_there == len(list(dst.glob("*.safetensors")))


@pytest.fixture
def checkpoint(tmp_path):
    """A file of two float8 weights of 2, with a scale each."""
    path = tmp_path / "in.safetensors"
    ones = np.array([[0x38, 0x40]], np.uint8)
    header, data = {}, b""
    for name, kind, shape, raw in [
        ("a.weight", "F8_E4M3", [1, 2], ones.tobytes()),
        ("a.weight_scale", "F32", [], np.float32(2).tobytes()),
        ("b.weight", "F8_E4M3", [1, 2], ones.tobytes()),
        ("b.weight_scale", "F32", [], np.float32(1e5).tobytes()),
    ]:
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_parameters_are_those_of_the_command(checkpoint, tmp_path):
    out = tmp_path / "out.safetensors"
    with pytest.raises(onnx_cast.LossError, match="overflow") as caught:
        onnx_cast.dequantize_file(checkpoint, out, "float16", fail_on=["overflow"])
    assert [row.counts["overflowed"] for row in caught.value.summary] == [0, 2] and not out.exists()
    done = onnx_cast.dequantize_file(checkpoint, out, "float", exclude=["b.*"], losses=True)
    assert [(row.name, row.after.name, row.cast) for row in done] == [
        ("a.weight", "float", True),
        ("b.weight", "float8e4m3fn", False),
        ("b.weight_scale", "float", False),
    ]
    assert np.frombuffer(tensors([out])["a.weight"]["data"], np.float32).tolist() == [2.0, 4.0]
    done = onnx_cast.dequantize_file(checkpoint, out, rules={"a.*": "float16", "b.*": "bf16"}, scheme="comfyui")
    assert [row.after.name for row in done] == ["float16", "bfloat16"]
    for options, text in [
        ({"scheme": "gguf"}, "scheme is `gguf` .want auto, deepseek, gpt-oss"),
        ({"scheme": "gpt-oss"}, "no weights in the layout gpt-oss"),
        ({"clobber": False}, "out.safetensors: .*exist"),
    ]:
        with pytest.raises(CastError, match=text):
            onnx_cast.dequantize_file(checkpoint, out, "bf16", **options)


def test_a_scale_that_is_nan(tmp_path):
    path, out = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    save_file({"w.weight": np.array([[1, 2]], np.int8), "w.weight_scale": np.array([[np.nan]], np.float32)}, path)
    with pytest.raises(CastError, match="tensor `w.weight_scale`: scale 0 is NaN"):
        onnx_cast.dequantize_file(path, out, "float")
    onnx_cast.dequantize_file(path, out, "float", allow_nan=True)
    assert np.isnan(np.frombuffer(tensors([out])["w.weight"]["data"], np.float32)).all()
