"""Conversions that run the model: what loses too much stays float, and no more than that."""

import json
import os
import subprocess
import sys

import magika
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_cast
from onnx_cast import CastError, _verify
from onnx_cast._search import Search

node = helper.make_node


def model_of(nodes, sizes, constants=(), opset=21):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, sizes)
    initializers = [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in dict(constants).items()]
    graph = helper.make_graph(nodes, "g", [value("x")], [value("y")], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def products(rng):
    """The product of the second MatMul overflows in float16, until the third makes it small again."""
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "first"),
        node("MatMul", ["a", "w"], ["b"], "second"),
        node("MatMul", ["b", "s"], ["c"], "third"),
        node("Relu", ["c"], ["d"], "relu"),
        node("MatMul", ["d", "v"], ["y"], "fourth"),
    ]
    w, s, v = (rng.normal(0, scale, (64, 64)) for scale in (40, 1e-5, 0.2))
    return model_of(nodes, [8, 64], {"w": w, "s": s, "v": v}), {"x": rng.normal(0, 4, (8, 64)).astype(np.float32)}


def quotient(rng):
    """e / (1 + e), where e is infinite in float16."""
    nodes = [node("Exp", ["x"], ["e"], "exp"), node("Add", ["e", "one"], ["s"], "add"), node("Div", ["e", "s"], ["y"], "div")]
    return model_of(nodes, [1024], {"one": 1}), {"x": np.linspace(-15, 15, 1024, dtype=np.float32)}


def log_sigmoid(rng):
    """The logarithm of a reciprocal that is 0 in float16."""
    nodes = [
        node("Neg", ["x"], ["n"], "neg"),
        node("Exp", ["n"], ["e"], "exp"),
        node("Add", ["e", "one"], ["d"], "add"),
        node("Reciprocal", ["d"], ["s"], "reciprocal"),
        node("Log", ["s"], ["y"], "log"),
    ]
    return model_of(nodes, [1024], {"one": 1}), {"x": np.linspace(-20, 5, 1024, dtype=np.float32)}


def unnamed(rng):
    """Nodes without names are known by what they give."""
    nodes = [node("Mul", ["x", "x"], ["a"]), node("Mul", ["a", "a"], ["b"]), node("Sqrt", ["b"], ["c"]), node("Sqrt", ["c"], ["y"])]
    return model_of(nodes, [64]), {"x": rng.normal(0, 30, 64).astype(np.float32)}


CASES = {
    "products": (products, {"second", "third"}),
    "quotient": (quotient, {"exp", "div"}),
    "log_sigmoid": (log_sigmoid, {"exp", "add", "reciprocal", "log"}),
    "unnamed": (unnamed, {"b", "c", "y"}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_loses_too_much_stays_float(name, rng):
    made, kept = CASES[name]
    model, feed = made(rng)
    found = onnx_cast.convert_model(model, keep="none", io="low", inputs=feed, tolerance=1e-2)
    report = found.report
    assert report.outputs[0].before > 1e-2 >= report.error
    assert set(report.kept) <= kept and report.runs <= 20, (report.kept, report.runs)
    # The model is the one that the rules give with these nodes kept, and it runs.
    assert found.model == onnx_cast.convert_model(model, keep=["none", *map(_verify.exactly, report.kept)], io="low").model
    session = onnxruntime.InferenceSession(found.model.SerializeToString(), providers=["CPUExecutionProvider"])
    (want,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed)
    (got,) = session.run(None, {"x": feed["x"].astype(np.float16)})
    assert _verify.error(want, got.astype(np.float32)) <= 1e-2
    # None of them can be left out, and the report is the same again.
    for one in report.kept:
        others = [_verify.exactly(other) for other in report.kept if other != one]
        emulated = onnx_cast.convert_model(model, keep=["none", *others], io="low", emulate=True).model
        (off,) = onnxruntime.InferenceSession(emulated.SerializeToString()).run(None, feed)
        assert not _verify.error(want, off) <= 1e-2
    again = onnx_cast.convert_model(model, keep="none", io="low", inputs=[feed])
    assert again.report.to_dict() == report.to_dict()
    rows = {row.node: row for row in report.nodes}
    assert {rows[name].type_after for name in report.kept} == {"float"}
    assert any(row.before > 1e-2 for row in report.nodes)


def test_what_is_close_stays_as_the_rules_have_it(rng, tmp_path):
    model, _ = products(rng)
    onnx.save(model, tmp_path / "in.onnx")
    feeds = [{"x": rng.normal(0, 0.01, (8, 64)).astype(np.float32)} for _ in range(3)]
    seen = []
    done = onnx_cast.convert_model(
        tmp_path / "in.onnx", tmp_path / "out.onnx", inputs=iter(feeds), progress=lambda *given: seen.append(given)
    )
    assert done.model is None and done.report.kept == [] and done.report.feeds == 3
    assert 0 < done.report.error < 1e-2 and done.report.outputs[0].before == done.report.outputs[0].after
    assert onnx.load(tmp_path / "out.onnx") == onnx_cast.convert_model(model).model
    assert seen[-1] == (64, 64) and all(one <= total for one, total in seen)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.onnx", "out.onnx"]
    planned = onnx_cast.convert_model(model, inputs=feeds, dry_run=True)
    assert planned.model is None and planned.casts == done.casts


@pytest.mark.slow
def test_a_real_model_with_random_inputs(tmp_path):
    path = os.path.join(os.path.dirname(magika.__file__), "models", "standard_v3_3", "model.onnx")
    done = onnx_cast.convert_model(path, tmp_path / "half.onnx", inputs="random", seed=1, keep="none", max_runs=40)
    assert done.report.error <= 1e-2 and done.report.runs <= 40
    onnxruntime.InferenceSession(tmp_path / "half.onnx", providers=["CPUExecutionProvider"])
    bounded = onnx_cast.convert_model(path, inputs="random", seed=1, tolerance=1e-5, max_runs=8, dry_run=True)
    assert bounded.report.error <= 1e-5 and bounded.report.kept


def test_the_report_is_a_page_and_json(rng, tmp_path):
    model, feed = quotient(rng)
    report = onnx_cast.convert_model(model, keep="none", io="low", inputs=feed).report
    report.save(tmp_path / "page.html")
    report.save(tmp_path / "page.html", force=True)
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "exp" in page and "inf" in page
    report.save(tmp_path / "report.json")
    told = json.loads((tmp_path / "report.json").read_text())
    assert told == json.loads(json.dumps(report.to_dict())) and told["outputs"][0]["before"] == "inf"
    with pytest.raises(FileExistsError):
        report.save(tmp_path / "report.json")
    (tmp_path / "model.onnx").write_bytes(b"\x08\x07")
    with pytest.raises(OSError, match="not a page"):
        report.save(tmp_path / "model.onnx", force=True)
    assert "nodes kept float" in repr(report) and report._repr_html_().startswith("<iframe")


def test_what_cannot_be_verified_is_told(rng, tmp_path):
    model, feed = quotient(rng)
    # Rounding the input alone loses more than that.
    with pytest.raises(CastError, match="output `y` is off by .* even with every node"):
        onnx_cast.convert_model(model, io="low", inputs=feed, tolerance=1e-9)
    for inputs, error, text in [
        ({"z": feed["x"]}, CastError, "no input `z`"),
        ([{}], CastError, "no array for the model's input `x`"),
        ([], CastError, "inputs is empty"),
        ("noise", CastError, "inputs is 'noise'"),
        ([3], TypeError, "inputs has a int"),
        ({"x": np.ones(3, np.float64)}, CastError, "does not run the model with these inputs"),
    ]:
        with pytest.raises(error, match=text):
            onnx_cast.convert_model(model, tmp_path / "out.onnx", inputs=inputs)
    for option, text in [({"tolerance": -1}, "tolerance is -1"), ({"max_runs": 1}, "max_runs is 1")]:
        with pytest.raises(CastError, match=text):
            onnx_cast.convert_model(model, inputs=feed, **option)
    with pytest.raises(TypeError, match="emulate is for a conversion without inputs"):
        onnx_cast.convert_model(model, inputs=feed, emulate=True)
    assert not list(tmp_path.iterdir())


def test_errors_are_parts_of_the_largest_magnitude():
    inf, nan = np.inf, np.nan
    for want, got, error in [
        ([1.0, -4.0], [1.0, -3.0], 0.25),
        ([inf, nan, 2.0], [inf, nan, 1.0], 0.5),
        ([1.0], [nan], inf),
        ([1.0, 2.0], [1.0, inf], inf),
        ([inf], [1.0], inf),
        ([], [], 0.0),
        ([0.0], [0.0], 0.0),
    ]:
        assert _verify.error(np.array(want, np.float32), np.array(got, np.float32)) == error, (want, got)
    assert _verify.error(np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5])) == 0.25
    assert _verify.error(np.ones(2), np.ones(3)) == inf


@pytest.mark.parametrize("needed", [{0}, {7}, {3, 90}, {10, 11, 12, 99}, set()])
def test_the_search_finds_what_is_needed_in_few_runs(needed):
    asked = []

    def passes(nodes):
        asked.append(nodes)
        return needed <= nodes

    found = Search(passes, 100).run(range(100))
    assert found == frozenset(needed) or (not needed and len(found) == 1)
    assert len(asked) == len(set(asked)) <= 12 * (1 + len(needed))
    # With less room what is found is enough, though there are fewer.
    assert needed <= Search(lambda nodes: needed <= nodes, 3).run(range(100))
    assert Search(lambda nodes: False, 100).run(range(100)) is None


def test_ranges_are_recorded_in_a_call(rng, tmp_path):
    model, feed = products(rng)
    ranges = onnx_cast.record_model(model, inputs=[feed, {"x": feed["x"] * 2}])
    assert set(ranges) == {"x", "a", "b", "c", "d", "y"} and ranges.inner == 0
    assert ranges["x"] == np.abs(feed["x"]).max() * 2 and ranges.numbers["d"][3] == 0
    half = onnx_cast.convert_model(model, ranges=ranges, dry_run=True)
    assert {row.node: str(row.dtype) for row in half.nodes}["second"] == "float"
    ranges.save(tmp_path / "ranges.npz")
    assert onnx_cast.convert_model(model, ranges=tmp_path / "ranges.npz", dry_run=True) == half
    assert onnx_cast.record_model(model, inputs="random", seed=3) == onnx_cast.record_model(model, inputs="random", seed=3)
    onnx_cast.record_model(model, tmp_path / "recording.onnx", inputs=feed, include=["b"])
    assert [one.name for one in onnx.load(tmp_path / "recording.onnx").graph.output] == ["y", "onnx_cast_record/b"]
    with pytest.raises(TypeError, match="dry_run"):
        onnx_cast.record_model(model, inputs=feed, dry_run=True)


def test_values_of_loops_and_branches_are_recorded():
    """A loop of a given number of rounds around an If: what is largest in any round of either branch counts."""
    value = lambda name, shape, kind=TensorProto.FLOAT: helper.make_tensor_value_info(name, kind, shape)
    then = helper.make_graph([node("Mul", ["s", "two"], ["t"]), node("Neg", ["t"], ["u"])], "then", [], [value("u", [2])])
    other = helper.make_graph([node("Add", ["s", "two"], ["t"]), node("Abs", ["t"], ["v"])], "else", [], [value("v", [2])])
    body = helper.make_graph(
        [
            node("Greater", ["i", "one"], ["late"]),
            node("If", ["late"], ["n"], then_branch=then, else_branch=other),
            node("Identity", ["more"], ["again"]),
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("more", [], TensorProto.BOOL), value("s", [2])],
        [value("again", [], TensorProto.BOOL), value("n", [2])],
    )
    loop = node("Loop", ["rounds", "", "x"], ["y"], body=body)
    constants = [
        numpy_helper.from_array(np.array(1, np.int64), "one"),
        numpy_helper.from_array(np.array(2, np.float32), "two"),
    ]
    inputs = [value("rounds", [], TensorProto.INT64), value("x", [2])]
    for opset in (9, 13, 18, 21):
        graph = helper.make_graph([loop], "g", inputs, [value("y", [2])], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        feed = {"rounds": np.array(4), "x": np.array([1, -10], np.float32)}
        # Rounds: (3, 8), (5, 10), (-10, -20), (20, 40); t before Abs and Neg: (3, -8), (5, 10), (10, 20), (-20, -40).
        recording = onnx_cast.record_model(model)
        onnx.checker.check_model(recording, full_check=True)
        ranges = onnx_cast.record_model(model, inputs=feed)
        assert dict(ranges) == {"x": 10, "y": 40, "s": 20, "n": 40, "t": 40, "u": 40, "v": 10} and ranges.inner == 0
        assert ranges.numbers["t"].tolist() == [40, 3, 20, -40, 0]
        nothing = onnx_cast.record_model(model, inputs=feed | {"rounds": np.array(0)})
        assert nothing.numbers["t"].tolist() == [0, np.inf, -np.inf, np.inf, 0]
        half = onnx_cast.convert_model(model, ranges={"t": 1e5}, keep="none", io="low", dry_run=True)
        assert {str(row.dtype) for row in half.values if row.name == "t"} == {"float"}


def test_values_of_scans_are_recorded():
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    body = helper.make_graph(
        [node("Add", ["s", "e"], ["t"]), node("Identity", ["t"], ["o"])], "body",
        [value("s", [2]), value("e", [2])], [value("t", [2]), value("o", [2])],
    )  # fmt: skip
    scan = node("Scan", ["x", "z"], ["y", "all"], body=body, num_scan_inputs=1, scan_output_axes=[1])
    graph = helper.make_graph([scan], "g", [value("x", [2]), value("z", [3, 2])], [value("y", [2]), value("all", [2, 3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    feed = {"x": np.zeros(2, np.float32), "z": np.array([[1, 2], [3, 4], [-9, 1]], np.float32)}
    ranges = onnx_cast.record_model(model, inputs=feed)
    assert ranges.numbers["t"].tolist() == [7, 1, 7, -5, 0] and ranges["e"] == 9 and ranges.inner == 0


def test_the_module_is_a_command(rng, tmp_path):
    model, feed = quotient(rng)
    onnx.save(model, tmp_path / "in.onnx")
    np.savez(tmp_path / "feed.npz", **feed)

    def run(*arguments):
        command = [sys.executable, "-m", "onnx_cast", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    done = run("convert", "in.onnx", "out.onnx", "--inputs", "feed.npz", "--keep", "none", "--low", "*", "--report", "page.html", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["outputs"][0]["after"] <= 1e-2 and (tmp_path / "page.html").exists() and (tmp_path / "out.onnx").exists()
    done = run("convert", "in.onnx", "out.onnx")
    assert done.returncode == 2 and "already exists" in done.stderr
    done = run("convert", "in.onnx", "out.onnx", "--force")
    assert done.returncode == 0 and "runs on 4 inputs, tolerance 0.01" in done.stderr, done.stderr
    done = run("record", "in.onnx", "ranges.npz", "--inputs", "feed.npz")
    assert done.returncode == 0 and np.load(tmp_path / "ranges.npz")["onnx_cast_record/e"][0] > 1e6, done.stderr
    done = run("convert", "missing.onnx", "other.onnx")
    assert done.returncode == 2 and "missing.onnx" in done.stderr and "Traceback" not in done.stderr
