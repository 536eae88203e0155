"""Reports: their figures against numpy's, of files and of arrays alike, and the page that a notebook shows."""

import copy
import html
import json
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import onnx_cast
from onnx_cast import CastError, dtypes

ROOT = Path(__file__).resolve().parents[3]
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "onnx-cast"
COMMAND = Path(os.environ.get("ONNX_CAST_COMMAND", BUILT))
TYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float8e4m3fn": ml_dtypes.float8_e4m3fn}


@pytest.fixture
def state(rng):
    wide = rng.standard_normal((70, 31)).astype(np.float32) * np.exp2(rng.integers(-30, 12, (70, 31)))
    return {"layer.0.w": wide.astype(np.float32), "layer.0.b": np.zeros(5, np.float32), "steps": np.array([7, 8])}


@pytest.fixture
def checkpoint(state, tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(state, path)
    return path


def figures(x, dtype):
    """Counts and errors by their definitions, in doubles."""
    largest = float(ml_dtypes.finfo(dtype).max)
    saturates = dtype == ml_dtypes.float8_e4m3fn
    with np.errstate(over="ignore"):
        result = (np.clip(x, -largest, largest) if saturates else x).astype(dtype).astype(np.float64)
    x = x.astype(np.float64)
    both = np.isfinite(result)
    error = np.abs(x - result)[both]
    return {
        "overflowed": int((~both).sum()),
        "saturated": int(((np.abs(x) > largest) & (np.abs(result) == largest)).sum()),
        "zero": int(((x != 0) & (result == 0)).sum()),
        "max_error": error.max(),
        "mean_error": error.mean(),
        "snr": 10 * np.log10((x[both] ** 2).sum() / (error**2).sum()),
    }


def check(found, state):
    tensors = {one["name"]: one for one in found["tensors"]}
    assert set(tensors) == {"layer.0.w", "layer.0.b"}
    w, x = tensors["layer.0.w"], state["layer.0.w"]
    powers = np.frexp(np.abs(x[x != 0]))[1] - 1
    assert w["magnitudes"] == {"first": powers.min(), "counts": np.bincount(powers - powers.min()).tolist()}
    assert (w["values"], w["shape"], w["bytes"]) == (x.size, list(x.shape), x.nbytes)
    for candidate in w["candidates"]:
        for name, want in figures(x, TYPES[candidate["type"]]).items():
            assert candidate[name] == pytest.approx(want, rel=1e-6), (candidate["type"], name)


def test_figures_of_a_file_and_of_arrays(state, checkpoint):
    of_file, of_arrays = (onnx_cast.report(one, list(TYPES)).to_dict() for one in (checkpoint, state))
    check(of_file, state)
    check(of_arrays, state)
    # A file may have its tensors in another order, and nothing else. (But for sums over all, which are in that order.)
    for found in (of_file, of_arrays):
        found["tensors"].sort(key=lambda one: one["name"])
    assert of_arrays["tensors"] == of_file["tensors"]


def test_one_tensor_of_any_kind(rng):
    x = rng.standard_normal(999).astype(np.float32)
    kinds = [x, np.repeat(x, 2)[::2], x.astype(">f4"), memoryview(x)]
    found = [onnx_cast.report(one, "bf16").to_dict()["tensors"][0] for one in kinds]
    assert all(one == found[0] for one in found)
    want = figures(x, ml_dtypes.bfloat16)["mean_error"]
    assert found[0]["candidates"][0]["mean_error"] == pytest.approx(want, rel=1e-6)
    int4 = onnx_cast.cast(np.arange(-8, 8), "int4")
    packed = onnx_cast.report(int4, ["float4e2m1", "int2"]).to_dict()["tensors"][0]
    assert (packed["type"], packed["values"], packed["zeros"], packed["bytes"]) == ("int4", 16, 1, 8)
    wrapped = packed["candidates"][1]
    assert wrapped["overflowed"] + wrapped["saturated"] == 12, "those beyond -2 to 1"


def test_verdicts_and_text(state):
    report = onnx_cast.report(state, ["float8e4m3fn", dtypes.float16])
    assert report.types == (dtypes.float8e4m3fn, dtypes.float16)
    assert report.verdicts["float8e4m3fn"].startswith("1 of 2 tensors have more than 0.1% of their values overflow")
    assert "1 poor" in report.verdicts["float16"] or "1 care" in report.verdicts["float16"]
    lines = repr(report).splitlines()
    assert lines[0].startswith("float8e4m3fn: 2 tensors, 2175 values") and all(len(line) < 80 for line in lines)
    assert lines[-1] == "1 other tensor would be kept unchanged"
    assert onnx_cast.report({"w": np.ones(3), "names": np.array(["a", "b"])}, "float16").to_dict()["others"] == 1


def test_selection(state, checkpoint):
    def names(x, to="float16", **options):
        return [one["name"] for one in onnx_cast.report(x, to, **options).to_dict()["tensors"]]

    assert names(checkpoint, include=["*.w"]) == ["layer.0.w"]
    assert names(checkpoint, exclude=["*.w"]) == ["layer.0.b"]
    assert names(checkpoint, min_elements=6) == ["layer.0.w"]
    assert names(state, to="int8", include=["steps"]) == ["steps"]
    kept, lost = (
        onnx_cast.report(state, "float8e4m3fn", saturate=saturate).to_dict()["types"][0]["counts"]
        for saturate in (True, False)
    )
    # What rounds to the largest value has nothing to be saturated.
    assert (kept["overflowed"], lost["saturated"] + lost["overflowed"]) == (0, kept["saturated"])
    assert lost["overflowed"] > lost["saturated"]


def test_progress_ends_the_work():
    def stop(done, total):
        raise RuntimeError(f"enough of {total}")

    large = np.ones(1 << 26, np.float32)
    with pytest.raises(RuntimeError, match=f"enough of {large.nbytes}"):
        onnx_cast.report(large, ["float16", "float8e4m3fn", "bfloat16", "int8", "float4e2m1"], progress=stop)


def by_blocks(x, to):
    """What comes back of floats, a scale for each row of ``x``, and the sizes in which SNR is a histogram."""
    amax = np.abs(x).max(axis=1, keepdims=True)
    if to == "mxfp4":
        scale = np.exp2(np.frexp(np.maximum(amax, 1e-30))[1] - 3).astype(np.float32)
        kind, largest = ml_dtypes.float4_e2m1fn, 6
    else:
        kind, largest = ml_dtypes.float8_e4m3fn, 448
        scale = amax / np.float32(448)
        scale[scale == 0] = 1
    return np.clip(x / scale, -largest, largest).astype(kind).astype(np.float32) * scale


@pytest.mark.parametrize("to, width", [("mxfp4", 32), ("float8e4m3fn/row", 96), ("float8e4m3fn/24", 24)])
def test_scaled_candidates(rng, tmp_path, to, width):
    x = (rng.standard_normal((40, 96)) * np.exp2(rng.integers(-9, 0, (40, 1)))).astype(np.float32)
    x[3, :96] = 0
    save_file({"w": x}, tmp_path / "w.safetensors")
    of_array, of_file = (onnx_cast.report(one, ["float16", to]) for one in (x, tmp_path / "w.safetensors"))
    assert of_array.types == (dtypes.float16, to) and list(of_file.verdicts) == ["float16", to]
    (bare, scaled) = of_file.to_dict()["tensors"][0]["candidates"]
    assert of_array.to_dict()["tensors"][0]["candidates"] == [bare, scaled]
    source = x.reshape(-1, width)
    error = source - by_blocks(source, to.partition("/")[0])
    signal, noise = ((one.astype(np.float64) ** 2).sum(axis=1) for one in (source, error))
    assert scaled["snr"] == pytest.approx(10 * np.log10(signal.sum() / noise.sum()))
    assert scaled["max_error"] == np.abs(error).max()
    blocks, zeros = scaled["blocks"], int((signal == 0).sum())
    assert (blocks["count"], blocks["zeros"], blocks["not_finite"]) == (len(source), zeros, 0)
    powers = np.frexp(np.abs(source).max(axis=1)[signal > 0])[1] - 1
    assert blocks["amax"] == {"first": powers.min(), "counts": np.bincount(powers - powers.min()).tolist()}
    steps = np.floor(10 * np.log10(signal[noise > 0] / noise[noise > 0]) / 3).astype(int)
    counts = np.bincount(steps - steps.min()).tolist()
    assert blocks["snr"] == {"first": 3 * steps.min(), "step": 3, "counts": counts}


def test_rules_of_scales(rng):
    x = rng.standard_normal((8, 64)).astype(np.float32)
    floor, even = (onnx_cast.report(x, "mxfp4", scale_rule=rule).to_dict() for rule in ("floor", "even"))
    assert floor["tensors"][0]["candidates"][0]["snr"] != even["tensors"][0]["candidates"][0]["snr"]


def test_what_is_refused(checkpoint, state):
    for error, given in [
        (CastError, dict(x=checkpoint, to="string")),
        (FileNotFoundError, dict(x=checkpoint.with_name("none.safetensors"), to="float16")),
        (CastError, dict(x=state, to="float7")),
        (CastError, dict(x=state, to="mxfp5")),
        (CastError, dict(x=state, to="int8/block")),
        (CastError, dict(x=state, to="mxfp4", scale_rule="up")),
        (TypeError, dict(x=state, to=[])),
        (TypeError, dict(x=state, to="float16", include="*.w")),
        (TypeError, dict(x=state, to="float16", from_="float")),
        (TypeError, dict(x=object(), to="float16")),
        (CastError, dict(x=np.array([1j]), to="float16")),
    ]:
        with pytest.raises(error):
            onnx_cast.report(**given)


def test_the_page_is_what_the_command_writes(checkpoint, tmp_path):
    if not COMMAND.exists():
        pytest.fail(f"{COMMAND} is missing: run `cargo build --release -p onnx-cast-cli`")
    report = onnx_cast.report(checkpoint, list(TYPES))
    report.save(tmp_path / "ours.html")
    report.save(str(tmp_path / "ours.json"))
    command = [COMMAND, "report", checkpoint, "--to", ",".join(TYPES), "--json", "--html", tmp_path / "theirs.html"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    page = (tmp_path / "theirs.html").read_text()
    assert (tmp_path / "ours.html").read_text() == page
    assert json.loads((tmp_path / "ours.json").read_text()) == json.loads(done.stdout) == report.to_dict()
    with pytest.raises(FileNotFoundError, match="no-folder"):
        report.save(tmp_path / "no-folder" / "r.html")

    shown = report._repr_html_()
    attributes = 'title="Report of model.safetensors" sandbox="allow-scripts" style="[^"]*"'
    frame = re.fullmatch(f'<iframe {attributes} srcdoc="([^"]*)"></iframe>', shown)
    assert frame and html.unescape(frame[1]) == page
    assert "<" not in frame[1] and ">" not in frame[1]


def test_names_that_are_markup():
    report = onnx_cast.report({'</script><script>alert("w")</script>': np.ones(3, np.float32)}, "float16")
    assert "</script><script>alert" not in html.unescape(report._repr_html_())


def test_pandas(state):
    pandas = pytest.importorskip("pandas")
    frame = onnx_cast.report(state, list(TYPES)).to_pandas()
    assert isinstance(frame, pandas.DataFrame) and len(frame) == 6
    row = frame[(frame["tensor"] == "layer.0.w") & (frame["to"] == "float16")].iloc[0]
    want = figures(state["layer.0.w"], np.float16)
    assert row["snr"] == pytest.approx(want["snr"]) and row["zero"] == want["zero"]


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_pandas needs pandas"):
        onnx_cast.report(np.ones(3), "float16").to_pandas()


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda report: pickle.loads(pickle.dumps(report))])
def test_a_report_is_copied_and_pickled_whole(again):
    state = {f"w{size}": np.linspace(-1, 1, size, dtype=np.float32) for size in range(1, 30)} | {"text": np.array(["a"])}
    report = onnx_cast.report(state, ["bf16", "mxfp4"])
    other = again(again(report))
    assert type(other) is onnx_cast.Report and other is not report
    assert (other.types, other.verdicts, other.to_dict()) == (report.types, report.verdicts, report.to_dict())
    assert [other.text(top) for top in (0, 1, 20)] == [report.text(top) for top in (0, 1, 20)]
    assert "and 28 more (`top` 0 shows all)" in other.text(1) and "1 other tensor would" in other.text()
    assert other._repr_html_() == report._repr_html_()
