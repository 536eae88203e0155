"""One table of bad requests (``crates/testkit/data/refused.json``), which the command and the npm package refuse too."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

import onnx_cast

TABLE = Path(__file__).resolve().parents[3] / "crates/testkit/data/refused.json"
ROWS = [row for row in json.loads(TABLE.read_text()) if "python" in row.get("in", ["python"])]


def request(row, folder):
    """Does what a row asks for."""
    options, to = dict(row.get("options", {})), row.get("to")
    path, output = folder / row.get("input", "w.safetensors"), folder / row.get("output", "out.safetensors")
    match row["job"]:
        case "cast":
            return onnx_cast.cast_file(path, output, to, **options).ignored
        case "quantize":
            return onnx_cast.quantize_file(path, output, to, **options).ignored
        case "info":
            return onnx_cast.info(path, **options).ignored
        case "report":
            found = onnx_cast.report(path, to, **options).to_dict().get("ignored", [])
            return [(one["option"], one["why"]) for one in found]
        case "diff":
            onnx_cast.diff(path, folder / "w.safetensors", **options)
        case "value":
            scale = options.pop("scale")
            scale = np.array(scale, np.float32) if isinstance(scale, list) else scale
            if "zero_point" in options:
                options["zero_point"] = float(options["zero_point"])
            onnx_cast.quantize_linear(np.array([0.3, 1], np.float32), scale, output_dtype=to, **options)
        case job:
            raise AssertionError(f"unknown job {job}")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["what"])
def test_a_bad_request_is_refused(row, tmp_path):
    """An option that only has no effect is named by the result, and by a warning."""
    tensors = {"layer.0.weight": np.ones((4, 64), np.float32), "layer.0.norm": np.ones(4, np.float32)}
    (tmp_path / "w.safetensors").write_bytes(save(tensors))
    for name in ("empty.safetensors", "w.txt"):
        (tmp_path / name).write_bytes(b"")
    if "ignored" in row:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            ignored = request(row, tmp_path)
        assert [name for name, why in ignored] == row["ignored"]
        assert [str(one.message) for one in told] == [f"`{name}` has no effect: it {why}" for name, why in ignored]
        assert all(one.category is UserWarning and one.filename == __file__ for one in told)
        return
    before = sorted(tmp_path.iterdir())
    with pytest.raises((ValueError, TypeError, OSError)) as error:
        request(row, tmp_path)
    says = row["says"] if isinstance(row["says"], str) else row["says"]["python"]
    assert says in str(error.value)
    assert sorted(tmp_path.iterdir()) == before


def test_the_table_is_complete():
    """Each job, and each kind of parameter."""
    assert {row["job"] for row in ROWS} == {"cast", "quantize", "info", "report", "diff", "value"}
    options = {name for row in ROWS for name in row.get("options", {})}
    assert options >= {"include", "exclude", "threads", "opset", "round_mode", "axis", "block_size", "zero_point"}
