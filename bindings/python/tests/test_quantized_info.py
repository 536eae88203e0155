"""What `info` and `diff` say of quantized checkpoints."""

import shutil

from checkpoints import CHECKPOINTS

import onnx_cast


def test_info_and_diff_know_quantized_weights(tmp_path):
    src, dst = tmp_path / "in", tmp_path / "plain"
    shutil.copytree(CHECKPOINTS / "ct-nvfp4", src, ignore=shutil.ignore_patterns("expected.*", "original.*"))
    onnx_cast.dequantize_file(src, dst, "bf16")
    found = onnx_cast.info(src).quantized
    assert (found["layout"], found["warning"], len(found["weights"])) == ("compressed-tensors", None, 7)
    assert {(one["format"], tuple(one["block"])) for one in found["weights"]} == {("NVFP4", (1, 16))}
    assert onnx_cast.info(dst).quantized is None
    assert onnx_cast.diff(src, dst, values=True) == []
    assert {row.difference for row in onnx_cast.diff(src, dst)} == {"only in a", "only in b"}
