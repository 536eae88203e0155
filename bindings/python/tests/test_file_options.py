"""What file functions can do beyond a plain cast: each option on small files, and the results that the command has."""

import json
import os
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from bitwise import same
from onnx import TensorProto, helper, numpy_helper
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import onnx_cast
from onnx_cast import CastError, LossError, dtypes

ROOT = Path(__file__).resolve().parents[3]
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "onnx-cast"
COMMAND = Path(os.environ.get("ONNX_CAST_COMMAND", BUILT))

W = np.array([[1.0, -0.3], [1e6, np.nan]], np.float32)
B = np.array([1e-9, 2.0, np.inf], np.float32)
HALF = np.linspace(0, 1, 300).astype(np.float16)


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "in.safetensors"
    save_file({"w": W, "b": B, "steps": np.arange(3)}, path, metadata={"format": "pt"})
    return path


def listed(folder):
    return sorted(path.name for path in folder.iterdir())


def test_losses_are_counted(checkpoint, tmp_path):
    out = tmp_path / "out.safetensors"
    for dry_run in (True, False):
        done = {row.name: row for row in onnx_cast.cast_file(checkpoint, out, "float16", losses=True, dry_run=dry_run)}
        assert done["steps"].counts is None and out.exists() is not dry_run
        w, b = done["w"].counts, done["b"].counts
        assert (w["values"], w["overflowed"], w["nan"]) == (4, 1, 1)
        assert (b["values"], b["zero"], b["infinite"], b["max_error"]) == (3, 1, 1, pytest.approx(1e-9))
    found = onnx_cast.stats(B, "float16")._asdict()
    assert {name: found[name] for name in b} == b


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_loss_that_must_not_be_is_an_error(checkpoint, tmp_path, dry_run):
    for fail_on, text in [(["overflow"], "overflow in 1 value"), (["nan", "underflow"], "(nan|underflow) in 1 value")]:
        with pytest.raises(LossError, match=text) as caught:
            onnx_cast.cast_file(checkpoint, tmp_path / "out.safetensors", "float16", fail_on=fail_on, dry_run=dry_run)
        assert isinstance(caught.value, CastError) and isinstance(caught.value, ValueError)
        counts = {row.name: row.counts for row in caught.value.summary}
        assert counts["w"]["overflowed"] == 1 and counts["steps"] is None
        assert listed(tmp_path) == ["in.safetensors"]
    out = tmp_path / "out.safetensors"
    done = onnx_cast.cast_file(checkpoint, out, "bf16", include=["w"], fail_on=["overflow"], dry_run=dry_run)
    assert {row.name: row.counts["overflowed"] for row in done if row.cast} == {"w": 0} and out.exists() is not dry_run
    with pytest.raises(TypeError, match="fail_on is a str"):
        onnx_cast.cast_file(checkpoint, out, "float16", fail_on="overflow")


def test_rules_are_a_mapping_and_patterns_may_be_none(checkpoint, tmp_path):
    state = {"w.weight": np.ones((32, 32), np.float32)}
    for rules in ("w=keep", [("w", None)], {"w"}):
        for call in (
            lambda: onnx_cast.cast_file(checkpoint, tmp_path / "x.safetensors", rules=rules),  # noqa: B023
            lambda: onnx_cast.bit_cast_file(checkpoint, tmp_path / "x.safetensors", rules=rules),  # noqa: B023
            lambda: onnx_cast.quantize_file(checkpoint, tmp_path / "x.safetensors", rules=rules),  # noqa: B023
            lambda: onnx_cast.layouts.dequantize(state, rules=rules),  # noqa: B023
        ):
            with pytest.raises(TypeError, match=r"^rules is of type \w+ \(want a dict of patterns and types\)$"):
                call()
    for call in (
        lambda: onnx_cast.cast_file(checkpoint, tmp_path / "x.safetensors", rules={5: "bf16"}),
        lambda: onnx_cast.quantize_file(checkpoint, tmp_path / "x.safetensors", rules={5: "int8"}),
        lambda: onnx_cast.layouts.dequantize(state, rules={5: "bf16"}),
    ):
        with pytest.raises(TypeError, match=r"^rules has the key 5 \(want patterns that are str\)$"):
            call()
    nothing = {"include": None, "exclude": None, "rules": None, "fail_on": None}
    done = onnx_cast.cast_file(checkpoint, tmp_path / "x.safetensors", "float16", **nothing, dry_run=True)
    assert done == onnx_cast.cast_file(checkpoint, tmp_path / "x.safetensors", "float16", dry_run=True)


def test_rules_of_a_file_come_first(checkpoint, tmp_path):
    (tmp_path / "rules").write_text("# all\n*=float16\nb=keep\n")
    out = tmp_path / "out.safetensors"
    done = onnx_cast.cast_file(checkpoint, out, rules_file=tmp_path / "rules", rules={"w": "bf16"})
    assert {row.name: row.after.name for row in done if row.cast} == {"w": "bfloat16", "steps": "float16"}
    (tmp_path / "rules").write_text("w=i4")
    with pytest.raises(CastError, match="rules: line 1: .*`i4` may mean int4, and to numpy means int32"):
        onnx_cast.cast_file(checkpoint, out, rules_file=tmp_path / "rules")


def test_raw_bytes_have_a_type_and_a_shape(tmp_path):
    (tmp_path / "x.bin").write_bytes(W.tobytes())
    (row,) = onnx_cast.cast_file(tmp_path / "x.bin", tmp_path / "y.npy", "double", from_="float", shape=(2, 2))
    assert (row.before, row.shape) == (dtypes.float, (2, 2))
    same(np.load(tmp_path / "y.npy"), W.astype(np.float64))
    with pytest.raises(CastError, match="x.bin"):
        onnx_cast.cast_file(tmp_path / "x.bin", tmp_path / "y.npy", "double", from_="float", shape=(2, 3))


def test_plain_types_of_npy(tmp_path):
    np.save(tmp_path / "x.npy", W)
    onnx_cast.cast_file(tmp_path / "x.npy", tmp_path / "y.npy", "bfloat16", npy_plain=True)
    plain = np.load(tmp_path / "y.npy")
    assert plain.dtype == np.uint16
    same(plain.view(ml_dtypes.bfloat16), W.astype(ml_dtypes.bfloat16))


def test_bits_of_files(checkpoint, tmp_path):
    out = tmp_path / "bits.safetensors"
    done = onnx_cast.bit_cast_file(checkpoint, out, "uint32", exclude=["b"], min_elements=1, opset=26, threads=1)
    assert {row.name: (row.after.name, row.cast) for row in done} == {
        "w": ("uint32", True),
        "b": ("float", False),
        "steps": ("int64", False),
    }
    same(load_file(out)["w"], W.view(np.uint32))
    before = out.read_bytes()
    again = onnx_cast.bit_cast_file(checkpoint, out, rules={"w": "uint32"}, dry_run=True, force=True)
    # A dry run reads no values.
    assert again == [row._replace(alarms=None) for row in done] and out.read_bytes() == before
    with pytest.raises(FileExistsError, match="already exists"):
        onnx_cast.bit_cast_file(checkpoint, out, "uint32")
    (tmp_path / "x.bin").write_bytes(W.tobytes())
    onnx_cast.bit_cast_file(tmp_path / "x.bin", tmp_path / "x.npy", "bool", from_="uint8", shape=[16], npy_plain=True)
    assert np.load(tmp_path / "x.npy").size == 16


def test_what_is_there_is_not_replaced(checkpoint, tmp_path):
    (tmp_path / "out.safetensors").write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="already exists.*out.safetensors"):
        onnx_cast.cast_file(checkpoint, tmp_path / "out.safetensors", "float16")
    assert (tmp_path / "out.safetensors").read_bytes() == b"mine"

    def appear(done, total):
        (tmp_path / "late.npy").write_bytes(b"mine")

    np.save(tmp_path / "large.npy", np.zeros(1 << 26, np.float32))
    with pytest.raises(FileExistsError, match="another process has created it.*late.npy"):
        onnx_cast.cast_file(tmp_path / "large.npy", tmp_path / "late.npy", "float16", progress=appear)
    assert (tmp_path / "late.npy").read_bytes() == b"mine"
    assert listed(tmp_path) == ["in.safetensors", "large.npy", "late.npy", "out.safetensors"]
    onnx_cast.cast_file(checkpoint, tmp_path / "new.safetensors", "float16")
    assert (tmp_path / "new.safetensors").exists()


@pytest.fixture
def folder(tmp_path):
    """A checkpoint in two files, as libraries save one."""
    folder = tmp_path / "llama"
    folder.mkdir()
    weight_map = {}
    for number, array in enumerate([W, B]):
        save_file({f"{number}.weight": array}, folder / f"model-{number}.safetensors")
        weight_map[f"{number}.weight"] = f"model-{number}.safetensors"
    index = {"metadata": {"total_size": W.nbytes + B.nbytes}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "pytorch_model.bin").write_bytes(b"PK")
    (folder / ".hidden").write_text("")
    return folder


def test_the_other_files_of_a_checkpoint_are_copied(folder, tmp_path):
    weights = ["model-0.safetensors", "model-1.safetensors", "model.safetensors.index.json"]
    done = onnx_cast.cast_file(folder, tmp_path / "copied", "bf16")
    assert (done.copied, done.already_there) == (2, 0)
    assert listed(tmp_path / "copied") == ["config.json", *weights, "tokenizer.json"]
    config = '{"model_type": "llama", "torch_dtype": "bfloat16"}'
    assert (tmp_path / "copied" / "config.json").read_text() == config
    bits = onnx_cast.bit_cast_file(folder, tmp_path / "bits", "uint32", copy_others=False)
    assert bits.copied == 0 and listed(tmp_path / "bits") == weights
    alone = onnx_cast.cast_file(folder, tmp_path / "alone", "bf16", copy_others=False)
    assert alone == done and alone.copied == 0 and listed(tmp_path / "alone") == weights
    again = onnx_cast.cast_file(folder, tmp_path / "alone", "bf16", resume=True, copy_others=False)
    assert again == done and again.already_there == 2
    again = onnx_cast.bit_cast_file(folder, tmp_path / "bits", "uint32", resume=True, copy_others=False)
    assert again == bits and again.already_there == 2
    dry = onnx_cast.cast_file(folder, tmp_path / "dry", "bf16", dry_run=True)
    assert dry.copied == 2 and not (tmp_path / "dry").exists()


def test_threads_change_no_byte(checkpoint, folder, tmp_path):
    results = set()
    for threads in (1, 2, 10**6, None):
        onnx_cast.cast_file(checkpoint, tmp_path / "out.safetensors", "float16", threads=threads, force=True)
        results.add((tmp_path / "out.safetensors").read_bytes())
        assert onnx_cast.diff(checkpoint, checkpoint, threads=threads) == []
        info = onnx_cast.info(folder, stats=True, threads=threads)
        assert [row.values.nan for row in info] == [1, 0] and info.files == 2
        report = onnx_cast.report(checkpoint, "float16", threads=threads).to_dict()
        results.add(json.dumps(report))
    assert len(results) == 2


def test_info_has_metadata_and_values(checkpoint):
    told = []
    found = onnx_cast.info(checkpoint, include=["?"], stats=True, progress=lambda *state: told.append(state))
    assert (found.format, found.files, found.metadata, found.model) == ("safetensors", 1, {"format": "pt"}, None)
    assert told[-1] == (W.nbytes + B.nbytes, W.nbytes + B.nbytes)
    rows = {row.name: row for row in found}
    assert set(rows) == {"w", "b"}
    assert rows["w"].values == (np.float32(-0.3), 1e6, pytest.approx(1000000.7 / 3), 0, 1, 0)
    assert rows["b"].values.infinities == 1 and rows["b"].values.max == float("inf")
    assert [row.name for row in onnx_cast.info(checkpoint, exclude=["?"])] == ["steps"]
    assert all(row.values is None for row in onnx_cast.info(checkpoint))


def test_two_files_that_differ(checkpoint, tmp_path):
    other = tmp_path / "other.safetensors"
    near = W.copy()
    near[0, 1] += np.float32(1e-3)
    save_file({"w": near, "b": B.astype(np.float64), "new": np.zeros(2, np.int8)}, other)
    found = {row.name: row for row in onnx_cast.diff(checkpoint, other)}
    assert {name: row.difference for name, row in found.items()} == {
        "w": "values",
        "b": "type",
        "steps": "only in a",
        "new": "only in b",
    }
    assert (found["b"].a, found["b"].b) == (dtypes.float, dtypes.double)
    assert (found["w"].count, found["w"].of, found["w"].first) == (1, 4, 1)
    assert found["w"].largest == pytest.approx(1e-3, rel=1e-3)
    told = []
    near = onnx_cast.diff(checkpoint, other, include=["w"], tolerance=0.01, progress=lambda *state: told.append(state))
    assert near == [] and told[-1] == (W.nbytes, W.nbytes)
    assert {row.name for row in onnx_cast.diff(checkpoint, other, exclude=["w"])} == {"b", "steps", "new"}
    save_file({"w": W.reshape(4)}, other)
    (row,) = onnx_cast.diff(checkpoint, other, include=["w"])
    assert (row.difference, row.a, row.b) == ("shape", (2, 2), (4,))


@pytest.fixture
def model(tmp_path):
    """Two constants that are cast back to float."""
    nodes = [helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT) for name in ("v", "w")]
    nodes.append(helper.make_node("Add", ["v", "w"], ["y"]))
    info = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [300])]
    constants = [numpy_helper.from_array(HALF, f"{name}_half") for name in ("v", "w")]
    graph, opset = helper.make_graph(nodes, "g", [], info, constants), helper.make_opsetid("", 21)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


def test_what_a_model_holds(model):
    found = onnx_cast.info(model)
    assert [(row.name, row.dtype.name) for row in found] == [("v_half", "float16"), ("w_half", "float16")]
    assert found.model["opsets"] == [{"domain": "", "version": 21}] and found.model["ir_version"] == 10
    assert [cast["to"] for cast in found.model["casts"]] == ["float", "float"]
    assert "types" not in found.model
    types = {row["name"]: row["type"] for row in onnx_cast.info(model, types=True).model["types"]}
    assert types == {"v_half": "float16", "w_half": "float16", "v": "float", "w": "float", "y": "float"}


def test_a_fold_of_some_values(model, tmp_path):
    out = tmp_path / "out.onnx"
    plan = onnx_cast.fold(model, out, include=["v"], dry_run=True, threads=1)
    assert not out.exists() and plan.computed == 1
    assert plan.casts == [
        ("v", "Cast", dtypes.float16, dtypes.float, "computed"),
        ("w", "Cast", dtypes.float16, dtypes.float, "kept"),
    ]
    assert onnx_cast.fold(model, out, exclude=["w"]) == plan
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Cast", "Add"]
    with pytest.raises(FileExistsError, match="already exists.*out.onnx"):
        onnx_cast.fold(model, out)


def test_elements_beside_a_model(model, tmp_path):
    out, data = tmp_path / "out.onnx", tmp_path / "weights.bin"
    cast = lambda **options: onnx_cast.cast_file(model, out, "bf16", external_data="weights.bin", **options)
    cast()
    assert not data.exists(), "600 bytes each, where 1024 are wanted"
    cast(external_threshold=600, force=True)
    onnx.load(out)
    assert data.stat().st_size == 4096 + 600
    out.unlink()
    with pytest.raises(FileExistsError, match="already exists.*weights.bin"):
        cast(external_threshold=600)
    assert not out.exists()
    data.unlink()
    onnx_cast.fold(model, out, external_data="weights.bin", external_threshold=1)
    assert data.stat().st_size == 4096 + 1200
    same(numpy_helper.to_array(onnx.load(out).graph.initializer[0]), HALF.astype(np.float32))


def test_a_report_of_the_large_tensors(checkpoint, tmp_path):
    report = onnx_cast.report(checkpoint, "float16", min_elements=4)
    assert [one["name"] for one in report.to_dict()["tensors"]] == ["w"]
    assert len(report.text(top=0)) >= len(report.text(top=1)) and report.text().startswith("float16: 1 tensor")
    report.save(tmp_path / "r.html")
    with pytest.raises(FileExistsError, match="already exists.*r.html"):
        report.save(tmp_path / "r.html")


def test_results_are_those_of_the_command(checkpoint, tmp_path):
    if not COMMAND.exists():
        pytest.fail(f"{COMMAND} is missing: run `cargo build --release -p onnx-cast-cli`")

    def printed(*line):
        done = subprocess.run([COMMAND, *line, "--json"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
        return json.loads(done.stdout)["tensors"]

    out = tmp_path / "out.safetensors"
    ours = onnx_cast.cast_file(checkpoint, out, "float16", losses=True, dry_run=True)
    theirs = printed("cast", checkpoint, out, "--to", "float16", "--losses", "--dry-run")
    assert len(ours) == len(theirs) == 3
    for row, said in zip(ours, theirs, strict=True):
        said = said | {"shape": tuple(said["shape"]), "before": said.pop("from"), "after": said.pop("to")}
        assert row._asdict() | {"before": row.before.name, "after": row.after.name} == said
    for row, said in zip(onnx_cast.info(checkpoint, stats=True), printed("info", checkpoint, "--stats"), strict=True):
        assert (row.name, row.dtype.name, list(row.shape)) == (said["name"], said["type"], said["shape"])
        assert row.values._asdict() == {key: float(value) for key, value in said["values"].items()}


def test_metadata_is_kept(checkpoint, tmp_path):
    onnx_cast.cast_file(checkpoint, tmp_path / "out.safetensors", "float16", include=["w"])
    with safe_open(tmp_path / "out.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt"} == onnx_cast.info(tmp_path / "out.safetensors").metadata
