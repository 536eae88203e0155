#!/usr/bin/env python3
"""Do models that `record` writes tell what their values are like, and does `convert --ranges` heed it?

Takes generated models of every opset from 7 on, with NaN, infinities, scalars and empty tensors, and real ones (magika's,
nudenet's, onnx's light ones). Each is recorded and run in onnxruntime with its own values as outputs beside the new ones:
the five numbers of each must be numpy's of that value. What came out goes to `convert --ranges`, in every form of file:
values beyond the type stay float, and the converted model has no infinity that the original lacks.

Usage: record.py [COMMAND]
"""

import json
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from precision_models import quantized_gemm
from shared import in_processes, line

SITE = Path(sysconfig.get_path("purelib"))
MAGIKA = SITE / "magika" / "models" / "standard_v3_3" / "model.onnx"
NUDENET = SITE / "nudenet" / "320n.onnx"
LIGHT = SITE / "onnx" / "backend" / "test" / "data" / "light"

PREFIX = "onnx_cast_record/"
F, F16, BF16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
LARGEST = 65504
MARGIN = 4

compared = 0


def fail(text):
    sys.exit(f"record: {text}")


def run(*arguments):
    return subprocess.run(line(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True)


def command(*arguments):
    done = run(*arguments)
    if done.returncode:
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status {done.returncode}: {done.stderr}")
    return done


def refused(*arguments, says):
    done = run(*arguments)
    if done.returncode != 2 or says not in done.stderr or "panicked" in done.stderr:
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status {done.returncode}, want {says!r}: {done.stderr}")


def session(model, level):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    content = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


LEVELS = (onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)


def numbers(array):
    """The five numbers of a value."""
    values = np.asarray(array).astype(np.float32).ravel()
    known = values[~np.isnan(values)]
    magnitudes = np.abs(known)
    return np.array([
        magnitudes.max(initial=0), magnitudes[magnitudes > 0].min(initial=np.inf),
        known.max(initial=-np.inf), known.min(initial=np.inf), values.size - known.size], np.float32)


def with_values(recorded, values):
    """A recorded model that gives the values, too."""
    model = onnx.load(recorded)
    graph = model.graph
    inputs = {one.name for one in graph.input}
    known = {one.name for one in graph.output} | inputs
    for value in values:
        name = value["name"]
        if value["type"] == "bfloat16":
            graph.node.append(helper.make_node("Cast", [name], [f"{name} as float"], to=F))
            graph.output.append(helper.make_tensor_value_info(f"{name} as float", F, None))
        elif name not in known:
            graph.output.append(helper.make_tensor_value_info(name, F16 if value["type"] == "float16" else F, None))
    return model.SerializeToString(), inputs


def check_record(folder, name, path, all_inputs):
    """The five numbers of every value; what the runs gave, by output."""
    global compared
    out = folder / "recorded.onnx"
    told = json.loads(command("record", path, out, "--json").stdout)
    onnx.checker.check_model(str(out), full_check=True)
    graph = onnx.load(path).graph
    main = {one.name for one in graph.input} | {name for node in graph.node for name in node.output}
    # Values of graphs within are no outputs: the Python package's tests compare theirs.
    values = [value for value in told["values"] if value["name"] in main]
    refused("record", out, folder / "again.onnx", says="`record` has written")
    model, names = with_values(out, values)
    runs = {value["output"]: [] for value in values}
    for level in LEVELS:
        one = session(model, level)
        for inputs in all_inputs:
            given = dict(zip([output.name for output in one.get_outputs()], one.run(None, inputs), strict=True))
            for value in values:
                origin = value["name"]
                array = inputs.get(origin) if origin in names else given[
                    f"{origin} as float" if value["type"] == "bfloat16" else origin]
                got, want = given[value["output"]], numbers(array)
                if got.dtype != np.float32 or got.shape != (5,) or not (got == want).all():
                    fail(f"{name}: value {origin}: {got}, want {want}")
                runs[value["output"]].append(got)
                compared += 1
    return told, {output: np.stack(rows) for output, rows in runs.items()}


def model(nodes, inputs, outputs, opset, initializers=(), functions=(), ir_version=None):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*one) for one in inputs],
        [helper.make_tensor_value_info(*one) for one in outputs],
        [numpy_helper.from_array(array, name) for name, array in initializers])
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid("own", 1)] * bool(functions)
    made = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    made.ir_version = ir_version or (3 if opset < 9 else 8)
    return made


def check_opsets(folder, opsets):
    """NaN, infinities, zeros, subnormals, scalars and empty tensors, by the operators of some opsets."""
    path = folder / "model.onnx"
    node = helper.make_node
    rng = np.random.default_rng(5)
    for opset in opsets:
        nodes = [node("Log", ["x"], ["log"]), node("Exp", ["x"], ["exp"]), node("Sub", ["exp", "exp"], ["nan"]),
                 node("Reshape", ["x", "row"], ["flat"]), node("Cast", ["x"], ["half"], to=F16),
                 node("Reshape", ["half", "row"], ["half row"]), node("Mul", ["x", "zero"], ["zeros"]),
                 node("ReduceMax", ["x"], ["scalar"], keepdims=0), node("Identity", ["scalar"], ["s"])]
        if opset >= 13:
            nodes.append(node("Cast", ["x"], ["brain"], to=BF16))
        constants = [("row", np.array([-1], np.int64)), ("zero", np.float32(0))]
        inputs = [("x", F, ["n", 3])]
        if opset < 9:  # in whose format constants are inputs
            inputs += [("row", TensorProto.INT64, [1]), ("zero", F, [])]
        outputs = [("log", F, ["n", 3]), ("nan", F, ["n", 3]), ("flat", F, ["m"]), ("zeros", F, ["n", 3]), ("s", F, [])]
        onnx.save(model(nodes, inputs, outputs, opset, constants), path)
        special = np.array([[0, -0.0, 1e-42], [np.nan, 1000, -1], [np.inf, -np.inf, 70000]], np.float32)
        plain = rng.normal(0, 3, (100, 3)).astype(np.float32)
        every = [{"x": special}, {"x": plain}, {"x": np.full((2, 3), np.nan, np.float32)}]
        told, _ = check_record(folder, f"opset {opset}", path, every)
        want = {"x", "log", "exp", "nan", "flat", "half", "half row", "zeros", "scalar", "s"} | set(["brain"] * (opset > 12))
        if {value["name"] for value in told["values"]} != want or told["inner"]:
            fail(f"opset {opset}: recorded {told}")


def check_empty(folder):
    path, node = folder / "model.onnx", helper.make_node
    # Empty tensors; a reduction to a scalar would have nothing to give.
    nodes = [node("Abs", ["x"], ["y"]), node("Cast", ["y"], ["z"], to=F16)]
    for opset in (7, 13, 21):
        onnx.save(model(nodes, [("x", F, ["n", 3])], [("z", F16, ["n", 3])], opset), path)
        check_record(folder, f"empty, opset {opset}", path, [{"x": np.zeros((0, 3), np.float32)}])
    onnx.save(model([node("Abs", ["x"], ["y"])], [("x", F, [2])], [("y", F, [2])], 6, ir_version=3), path)
    refused("record", path, folder / "out.onnx", says="from opset 7 on, and the model imports 6")


def check_quantized(folder):
    """com.microsoft's QGemm gives integers where it has a zero point for them: no floating-point value."""
    made, inputs = quantized_gemm()
    path = folder / "quantized.onnx"
    onnx.save(made, path)
    told, _ = check_record(folder, "quantized", path, [inputs])
    if {value["name"] for value in told["values"]} != {"x", "d", "f", "sum", "y"}:
        fail(f"quantized: {told}")


def check_inner(folder):
    """Functions have no outputs, but are counted; names and patterns are taken as they are."""
    node, path, out = helper.make_node, folder / "inner.onnx", folder / "out.onnx"
    then = helper.make_graph([node("Exp", ["a/b"], ["p"]), node("Neg", ["p"], ["r"])], "then", [],
                             [helper.make_tensor_value_info("r", F, [4])])
    other = helper.make_graph([node("Abs", ["a/b"], ["q"])], "else", [], [helper.make_tensor_value_info("q", F, [4])])
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 18)])
    nodes = [node("If", ["flag"], ["s"], then_branch=then, else_branch=other),
             node("Twice", ["s"], ["y:0"], domain="own"), node("Twice", ["y:0"], ["é z"], domain="own")]
    inputs = [("a/b", F, [4]), ("flag", TensorProto.BOOL, [])]
    onnx.save(model(nodes, inputs, [("é z", F, [4])], 18, functions=[function]), path)
    feeds = [{"a/b": np.array([1, -2, 30, 0], np.float32), "flag": np.array(flag)} for flag in (True, False)]
    told, runs = check_record(folder, "inner", path, feeds)
    inner = ["q", "p", "r"]  # of `else_branch` first, as attributes are sorted
    if [value["name"] for value in told["values"]] != ["a/b", "s", "y:0", "é z", *inner] or told["inner"] != 2:
        fail(f"inner: {told}")
    said = command("record", path, out, "--include", "y*", "--include", "s").stderr
    if "2 values recorded (2 in functions left out)" not in said:
        fail(f"inner: {said}")
    np.savez(folder / "inner.npz", **runs)
    command("convert", path, folder / "half.onnx", "--to", "float16", "--ranges", folder / "inner.npz")
    refused("record", path, out, "--include", "nothing", says="matches no tensor")
    if command("record", path, folder / "none.onnx", "--dry-run").stdout.count("\n") != 9 or (folder / "none.onnx").exists():
        fail("inner: a dry run")


def forms(folder, runs, values):
    """The same ranges in every form of file: what record's outputs gave, magnitudes, and extremes."""
    largest = {name.removeprefix(PREFIX): float(rows[:, 0].max()) for name, rows in runs.items()}

    written = {
        "stacked.npz": runs,
        "largest.npz": {name: rows[rows[:, 0].argmax()] for name, rows in runs.items()},
        "values.npz": values,
        "numbers.json": largest,
        "lists.json": {name: rows.tolist() for name, rows in runs.items()},
        "ours.json": {name: {"max": value, "min": 0, "nan": 0} for name, value in largest.items()},
        "extremes.json": {name: {"min_val": -value, "max_val": value / 2} for name, value in largest.items()},
    }
    for name, content in written.items():
        path = folder / name
        if name.endswith(".npz"):
            np.savez(path, **content)
        else:
            path.write_text(json.dumps(content))
        yield path


def check_ranges(folder):
    """A model whose values pass float16's range in the middle."""
    node, path, out = helper.make_node, folder / "wide.onnx", folder / "half.onnx"
    rng = np.random.default_rng(7)
    weights = [("w", np.full((8, 8), 40, np.float32)), ("v", np.full((8, 8), 30, np.float32)), ("c", np.float32(1e-5))]
    nodes = [node("MatMul", ["x", "w"], ["a"]), node("MatMul", ["a", "v"], ["b"]), node("Mul", ["b", "c"], ["d"]),
             node("Relu", ["d"], ["e"]), node("MatMul", ["e", "w"], ["y"])]
    onnx.save(model(nodes, [("x", F, [4, 8])], [("y", F, [4, 8])], 17, weights), path)
    inputs = {"x": rng.uniform(1, 4, (4, 8)).astype(np.float32)}
    told, runs = check_record(folder, "wide", path, [inputs])
    everything, _ = with_values(folder / "recorded.onnx", told["values"])
    one = session(everything, LEVELS[0])
    values = dict(zip([output.name for output in one.get_outputs()], one.run(None, inputs), strict=True))
    values = {name: array for name, array in values.items() if not name.startswith(PREFIX)} | inputs
    want, = session(path, LEVELS[1]).run(None, inputs)

    command("convert", path, out, "--to", "float16", "--emulate")
    if np.isfinite(session(out, LEVELS[1]).run(None, inputs)[0]).all():
        fail("without ranges the model does not overflow: it proves nothing")
    first = None
    for ranges in forms(folder, runs, values):
        page = folder / "page.html"
        arguments = ["--to", "float16", "--ranges", ranges, "--html", page, "--json"]
        done = json.loads(command("convert", path, out, *arguments, "--emulate").stdout)
        types = {value["name"]: value["type"] for value in done["values"]}
        # `a`, at 12,000, passes with a margin of 4; `b`, at millions, never.
        if (types["b"], done["unknown_ranges"]) != ("float", 0):
            fail(f"{ranges.name}: {types}, {done['unknown_ranges']} unknown")
        got, = session(out, LEVELS[1]).run(None, inputs)
        if not np.isfinite(got).all() or np.abs(got - want).max() > 1e-2 * np.abs(want).max():
            fail(f"{ranges.name}: not close to the original")
        if first not in (None, types):
            fail(f"{ranges.name}: {types}, want {first}")
        first = types
        text = page.read_text()
        if re.search(r"https?://", text) or '"why"' not in text or '"b"' not in text:
            fail(f"{ranges.name}: the page")
    (folder / "inf.json").write_text('{"b": Infinity, "a": {"max": NaN}, "nobody": -1e3, "\\"NaN": 1}')
    done = run("convert", path, out, "--to", "float16", "--ranges", folder / "inf.json", "--margin", "1")
    if done.returncode or "2 of 4 names are not floating-point values of the model" not in done.stderr:
        fail(f"inf.json: {done.stderr}")
    for text, says in [("[1]", "want an object of names and numbers"), ('{"a": "x"}', "value `a`: \"x\" (want a number"),
                       ('{"a": {"least": 1}}', "value `a`: an object without max"), ("{", "not valid JSON"),
                       ('{"onnx_cast_record/a": [1, 2]}', "value `onnx_cast_record/a`: 2 numbers (want 5"),
                       ("[1]", "an array"), ("hello", "not a file of ranges")]:
        (folder / "bad.json").write_text(text)
        refused("convert", path, out, "--to", "float16", "--ranges", folder / "bad.json", says=says)
    np.savez(folder / "bad.npz", **{f"{PREFIX}a": np.zeros((2, 4), np.float32)})
    refused("convert", path, out, "--to", "float16", "--ranges", folder / "bad.npz",
            says=f"output `{PREFIX}a`: shape 2x4 (want [5]")
    for margin in ("0", "nan", "inf", "-1"):
        refused("convert", path, out, "--to", "float16", "--ranges", folder / "numbers.json", f"--margin={margin}",
                says="want a finite number above 0")


def check_real(folder, name, path, inputs):
    """A real model: every value, and a conversion by the ranges that came out."""
    told, runs = check_record(folder, name, path, [inputs])
    np.savez(folder / "ranges.npz", **runs)
    out = folder / "half.onnx"
    arguments = ["--to", "float16", "--ranges", folder / "ranges.npz", "--emulate", "--json"]
    done = json.loads(command("convert", path, out, *arguments).stdout)
    if done["unknown_ranges"]:
        fail(f"{name}: {done['unknown_ranges']} names of its own are unknown")
    types = {value["name"]: value["type"] for value in done["values"] if not value["graph"]}
    beyond = {output.removeprefix(PREFIX) for output, rows in runs.items() if rows[:, 0].max() * MARGIN > LARGEST}
    for value in beyond:
        if types.get(value, "float") != "float":
            fail(f"{name}: {value} is {types[value]}")
    for got, want in zip(session(out, LEVELS[1]).run(None, inputs), session(path, LEVELS[1]).run(None, inputs), strict=True):
        if np.isfinite(want).all() and not np.isfinite(got).all():
            fail(f"{name}: an output is not finite")
    print(f"{name}: {len(told['values'])} values, {len(beyond)} beyond float16 with the margin")


def task(check, *arguments):
    """What a check has compared, in a folder of its own."""
    global compared
    compared = 0
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), *arguments)
    return compared


def main():
    rng = np.random.default_rng(1)
    photo, text = rng.random((1, 3, 320, 320), dtype=np.float32), rng.integers(0, 257, (2, 2048)).astype(np.int32)
    tasks = [(check_real, "nudenet", NUDENET, {"images": photo}), (check_real, "magika", MAGIKA, {"bytes": text})]
    for name in ("squeezenet", "shufflenet"):
        path = LIGHT / f"light_{name}.onnx"
        original = onnx.load(path)
        initial = {tensor.name for tensor in original.graph.initializer}
        one, = (one for one in original.graph.input if one.name not in initial)
        shape = [dim.dim_value for dim in one.type.tensor_type.shape.dim]
        tasks.append((check_real, f"light {name}", path, {one.name: rng.random(shape, dtype=np.float32)}))
    tasks += [(check_opsets, range(7 + share, 25, 4)) for share in range(4)] + [(check_empty,), (check_quantized,), (check_inner,), (check_ranges,)]
    print(f"record: {sum(in_processes(task, tasks))} values as numpy has them")


if __name__ == "__main__":
    main()
