"""Quantized checkpoints: what Python reads back are the weights that the owner's package reads."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors
from checkpoints import CHECKPOINTS
from safetensors.numpy import save_file

import onnx_cast
from onnx_cast import CastError, dtypes


def tensors(paths):
    return dict(item for path in paths for item in safetensors.deserialize(path.read_bytes()))


def copied(name, folder):
    ignored = shutil.ignore_patterns("expected.safetensors", "original.safetensors")
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
    rules = {"a.*": "float16", "b.*": "bf16"}
    done = onnx_cast.dequantize_file(checkpoint, out, rules=rules, layout="comfyui", force=True)
    assert [row.after.name for row in done] == ["float16", "bfloat16"]
    for options, text in [
        ({"layout": "other"}, "`layout`: `other` is not a layout .want deepseek, gpt-oss"),
        ({"layout": "gguf"}, "`gguf` is not a layout of .safetensors files"),
        ({"layout": "gpt-oss"}, "no weights in the layout gpt-oss"),
    ]:
        with pytest.raises(CastError, match=text):
            onnx_cast.dequantize_file(checkpoint, out, "bf16", **options)
    with pytest.raises(FileExistsError, match="exist.*out.safetensors"):
        onnx_cast.dequantize_file(checkpoint, out, "bf16")


def test_a_scale_that_is_nan(tmp_path):
    path, out = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    save_file({"w.weight": np.array([[1, 2]], np.int8), "w.weight_scale": np.array([[np.nan]], np.float32)}, path)
    with pytest.raises(CastError, match="tensor `w.weight_scale`: scale 0 is NaN"):
        onnx_cast.dequantize_file(path, out, "float")
    onnx_cast.dequantize_file(path, out, "float", allow_nan=True)
    assert np.isnan(np.frombuffer(tensors([out])["w.weight"]["data"], np.float32)).all()


@pytest.fixture
def original(tmp_path):
    """A folder with weights that are not quantized."""
    folder = tmp_path / "original"
    folder.mkdir()
    shutil.copy(CHECKPOINTS / "ct-mxfp4" / "original.safetensors", folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"torch_dtype": "bfloat16"}))
    return folder


def test_weights_are_quantized_and_transcoded(original, tmp_path):
    mx, fp4, back, again = (tmp_path / name for name in ("mxfp4", "nvfp4", "back", "again"))
    rules = {"*lm_head*": "mxfp4", "*down_proj*": None}
    done = onnx_cast.quantize_file(original, mx, "mxfp4", scale_rule="even", rules=rules)
    names = {row.name for row in done if row.cast}
    assert "lm_head.weight_packed" in names and not any("down_proj" in name for name in names)
    config = json.loads((mx / "config.json").read_text())["quantization_config"]
    assert config["format"] == "mxfp4-pack-quantized" and "model.layers.0.mlp.down_proj" in config["ignore"]
    onnx_cast.transcode_file(mx, fp4, "modelopt", to="nvfp4")
    onnx_cast.dequantize_file(mx, back, "bf16")
    onnx_cast.dequantize_file(fp4, again, "bf16")
    assert tensors(back.glob("*.safetensors")) == tensors(again.glob("*.safetensors"))
    with pytest.raises(CastError, match="deepseek does not support mxfp4"):
        onnx_cast.quantize_file(original, tmp_path / "out", "mxfp4", layout="deepseek")
    with pytest.raises(CastError, match="`layout`: `nowhere` is not a layout"):
        onnx_cast.transcode_file(mx, tmp_path / "out", "nowhere")
    assert not (tmp_path / "out").exists()


def model(folder, opset=21):
    """A model of two Convs, a MatMul and a Gemm, whose weights are large enough to quantize. The first Conv sums over 4
    channels, fewer than any block has."""
    from onnx import TensorProto, helper, numpy_helper, save

    rng = np.random.default_rng(7)
    weights = {
        "short": rng.normal(size=(40, 4, 3, 3)),
        "conv": rng.normal(size=(8, 40, 3, 3)),
        "matmul": rng.normal(size=(72, 40)),
        "gemm": rng.normal(size=(16, 40)),
        "bias": rng.normal(size=16),
    }
    nodes = [
        helper.make_node("Conv", ["x", "short"], ["s"]),
        helper.make_node("Conv", ["s", "conv"], ["a"]),
        helper.make_node("Flatten", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "matmul"], ["c"]),
        helper.make_node("Gemm", ["c", "gemm", "bias"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 7, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    path = folder / "model.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


@pytest.mark.parametrize(
    ("to", "error"),
    [
        ("int8", 0.02),
        ("int8/tensor", 0.02),
        ("int4", 0.2),
        ("int8/16", 0.02),
        ("float8e4m3fn", 0.1),
        ("mxfp8", 0.1),
        ("mxfp4", 0.3),
        ("nvfp4", 0.25),
        ("mxint8", 0.05),
    ],
)
def test_models(to, error, tmp_path):
    import onnx
    from onnx.reference import ReferenceEvaluator

    from onnx_cast import reference

    src, dst, folded = model(tmp_path), tmp_path / "out.onnx", tmp_path / "folded.onnx"
    needs_newer = to.startswith("mx") or to == "nvfp4"
    if needs_newer:
        with pytest.raises(CastError, match="DequantizeLinear takes .* from opset"):
            onnx_cast.quantize_file(src, dst, to)
    done = onnx_cast.quantize_file(src, dst, to, raise_opset=needs_newer)
    block = 16 if to == "nvfp4" else 32
    kept = [("short", f"axis 1 has size 4, less than a block of {to} ({block})")] if needs_newer else []
    assert done.passed_over == kept
    assert {row.name for row in done if row.cast} == {"short", "conv", "matmul", "gemm"} - dict(kept).keys()
    onnx.checker.check_model(dst, full_check=True)
    x = np.random.default_rng(8).normal(size=(1, 4, 7, 7)).astype(np.float32)

    def run(path):
        # The evaluator's own DequantizeLinear has no output_dtype.
        operators = [reference.DequantizeLinear] if to.startswith("mx") else None
        return ReferenceEvaluator(str(path), new_ops=operators).run(None, {"x": x})[0]

    want, got = run(src), run(dst)
    assert np.linalg.norm(got - want) <= error * np.linalg.norm(want)
    if to.startswith("int"):
        ort = pytest.importorskip("onnxruntime")
        options = ort.SessionOptions()
        # Its optimizer joins DequantizeLinear and MatMul, with activations of 8 bits.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = ort.InferenceSession(str(dst), options, providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(session.run(None, {"x": x})[0], got, rtol=1e-3, atol=1e-2)
    onnx_cast.fold(dst, folded)
    assert folded.read_bytes() == dst.read_bytes(), "quantized weights stay quantized"
    with pytest.raises(FileExistsError, match="`force`"):
        onnx_cast.fold(dst, folded, dequantize=True)
    onnx_cast.fold(dst, folded, dequantize=True, force=True)
    assert "DequantizeLinear" not in {node.op_type for node in onnx.load(folded).graph.node}
    np.testing.assert_allclose(run(folded), got, rtol=1e-5, atol=1e-5)


def test_matrices_that_are_passed_over_are_named(tmp_path):
    names = ["model.layers.0.self_attn.q_proj.weight", "model.layers.0.mlp.down_proj.weight"]
    path, out = tmp_path / "x.safetensors", tmp_path / "y.safetensors"
    save_file({name: np.ones((64, width), np.float32) for name, width in zip(names, (64, 40), strict=True)}, path)
    done = onnx_cast.quantize_file(path, out, "int4")
    assert done.passed_over == [(names[1], "want columns in blocks of 32 for int4")]
    assert {row.name: row.reason for row in done}[names[1]] == done.passed_over[0][1]
