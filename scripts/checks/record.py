#!/usr/bin/env python3
"""Do models that `record` writes tell what their values are like, and does `convert --ranges` heed it?

Takes generated models of every opset from 7 on, with NaN, infinities, scalars and empty tensors, and real ones. Each is
recorded and run in onnxruntime with its own values as outputs beside the new ones: the five numbers of each must be
numpy's. What came out goes to `convert --ranges`, in every form of file: values beyond the type stay float, and the
converted model has no infinity that the original lacks.
"""

import json

import numpy as np
import onnx
from graphs import LEVELS, MAGIKA, NUDENET, light, model, outputs, real_inputs, session
from onnx import TensorProto, helper
from precision_models import MODELS
from shared import command, counts, fail, finish, in_shares, refused

PREFIX = "onnx_cast_record/"
F, F16 = TensorProto.FLOAT, TensorProto.FLOAT16
LARGEST, MARGIN = 65504, 4


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
    made = onnx.load(recorded)
    graph = made.graph
    inputs = {one.name for one in graph.input}
    known = {one.name for one in graph.output} | inputs
    for value in values:
        name = value["name"]
        if value["type"] == "bfloat16":
            graph.node.append(helper.make_node("Cast", [name], [f"{name} as float"], to=F))
            graph.output.append(helper.make_tensor_value_info(f"{name} as float", F, None))
        elif name not in known:
            graph.output.append(helper.make_tensor_value_info(name, F16 if value["type"] == "float16" else F, None))
    return made, inputs


def results(session, inputs):
    """The outputs of a session by name."""
    return dict(zip([one.name for one in session.get_outputs()], session.run(None, inputs), strict=True))


def check_record(folder, name, path, all_inputs):
    """The five numbers of every value; what the runs gave, by output."""
    out = folder / "recorded.onnx"
    told = json.loads(command("record", path, out, "--json").stdout)
    onnx.checker.check_model(str(out), full_check=True)
    graph = onnx.load(path).graph
    main = {one.name for one in graph.input} | {name for node in graph.node for name in node.output}
    # Values of graphs within are no outputs: the Python package's tests compare theirs.
    values = [value for value in told["values"] if value["name"] in main]
    refused("record", out, folder / "again.onnx", says="`record` has written")
    made, names = with_values(out, values)
    runs = {value["output"]: [] for value in values}
    for level in (LEVELS[0], LEVELS[-1]):
        one = session(made, level)
        for inputs in all_inputs:
            given = results(one, inputs)
            for value in values:
                origin = value["name"]
                shown = f"{origin} as float" if value["type"] == "bfloat16" else origin
                array = inputs.get(origin) if origin in names else given[shown]
                got, want = given[value["output"]], numbers(array)
                if got.dtype != np.float32 or got.shape != (5,) or not (got == want).all():
                    fail(f"{name}: value {origin}: {got}, want {want}")
                runs[value["output"]].append(got)
                counts["values as numpy has them"] += 1
    return told, {output: np.stack(rows) for output, rows in runs.items()}


def check_names(name, told, want, inner=0):
    if [value["name"] for value in told["values"]] != want or told["inner"] != inner:
        fail(f"{name}: recorded {told}, want {want}")


def saved(path, *arguments, **more):
    onnx.save(model(*arguments, **more), path)
    return path


def check_opsets(folder, opsets):
    """NaN, infinities, zeros, subnormals, scalars and empty tensors, by the operators of some opsets."""
    special = np.array([[0, -0.0, 1e-42], [np.nan, 1000, -1], [np.inf, -np.inf, 70000]], np.float32)
    plain = np.random.default_rng(5).normal(0, 3, (100, 3)).astype(np.float32)
    every = [{"x": special}, {"x": plain}, {"x": np.full((2, 3), np.nan, np.float32)}]
    for opset in opsets:
        # Before opset 9, whose version of the format is 3, constants are inputs.
        inputs = "(float[n,3] x, int64[1] row, float zero)" if opset < 9 else "(float[n,3] x)"
        text = f"""{inputs} => (float[n,3] log, float[n,3] nan, float[m] flat, float[n,3] zeros, float s) {{
            log = Log(x) exp = Exp(x) nan = Sub(exp, exp) flat = Reshape(x, row) half = Cast<to=float16>(x)
            "half row" = Reshape(half, row) zeros = Mul(x, zero) scalar = ReduceMax<keepdims=0>(x) s = Identity(scalar)
            {"brain = Cast<to=bfloat16>(x)" if opset >= 13 else ""} }}"""
        constants = {"row": np.array([-1], np.int64), "zero": np.float32(0)}
        path = saved(folder / "model.onnx", text, opset=opset, ir=3 if opset < 9 else 8, **constants)
        told, _ = check_record(folder, f"opset {opset}", path, every)
        want = {"x", "log", "exp", "nan", "flat", "half", "half row", "zeros", "scalar", "s", *["brain"] * (opset > 12)}
        if {value["name"] for value in told["values"]} != want or told["inner"]:
            fail(f"opset {opset}: recorded {told}")


def check_empty(folder):
    """Empty tensors; a reduction to a scalar would have nothing to give."""
    path = folder / "model.onnx"
    for opset in (7, 13, 21):
        text = "(float[n,3] x) => (float16[n,3] z) { y = Abs(x) z = Cast<to=float16>(y) }"
        saved(path, text, opset=opset, ir=3 if opset < 9 else 8)
        check_record(folder, f"empty, opset {opset}", path, [{"x": np.zeros((0, 3), np.float32)}])
    saved(path, "(float[2] x) => (float[2] y) { y = Abs(x) }", opset=6, ir=3)
    refused("record", path, folder / "out.onnx", says="from opset 7 on, and the model imports 6")


def check_quantized(folder):
    """com.microsoft's QGemm gives integers where it has a zero point for them: no floating-point value."""
    made, inputs = MODELS["quantized_gemm"]
    onnx.save(made, folder / "quantized.onnx")
    told, _ = check_record(folder, "quantized", folder / "quantized.onnx", [inputs])
    if {value["name"] for value in told["values"]} != {"x", "d", "f", "sum", "y"}:
        fail(f"quantized: {told}")


def check_inner(folder):
    """Functions have no outputs, but are counted; names and patterns are taken as they are."""
    out = folder / "out.onnx"
    text = """(float[4] "a/b", bool flag) => (float[4] "é z") { s = If<
        else_branch = else () => (float[4] q) { q = Abs("a/b") },
        then_branch = then () => (float[4] r) { p = Exp("a/b") r = Neg(p) }>(flag)
        "y:0" = own.Twice(s) "é z" = own.Twice("y:0") }"""
    function = '<domain: "own", opset_import: ["" : 18]> Twice (a) => (b) { b = Add(a, a) }'
    path = saved(folder / "inner.onnx", text, opset=18, domains=["own"], functions=function)
    feeds = [{"a/b": np.array([1, -2, 30, 0], np.float32), "flag": np.array(flag)} for flag in (True, False)]
    told, runs = check_record(folder, "inner", path, feeds)
    # Of `else_branch` first, as attributes are sorted.
    check_names("inner", told, ["a/b", "s", "y:0", "é z", "q", "p", "r"], inner=2)
    said = command("record", path, out, "--include", "y*", "--include", "s").stderr
    if "2 values recorded (2 in functions left out)" not in said:
        fail(f"inner: {said}")
    np.savez(folder / "inner.npz", **runs)
    command("convert", path, folder / "half.onnx", "--to", "float16", "--ranges", folder / "inner.npz")
    refused("record", path, out, "--include", "nothing", says="matches no value")
    none = folder / "none.onnx"
    if command("record", path, none, "--dry-run").stdout.count("\n") != 9 or none.exists():
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
        np.savez(path, **content) if name.endswith(".npz") else path.write_text(json.dumps(content))
        yield path


def check_ranges(folder):
    """A model whose values pass float16's range in the middle."""
    out = folder / "half.onnx"
    text = """(float[4,8] x) => (float[4,8] y)
        { a = MatMul(x, w) b = MatMul(a, v) d = Mul(b, c) e = Relu(d) y = MatMul(e, w) }"""
    constants = {"w": np.full((8, 8), 40, np.float32), "v": np.full((8, 8), 30, np.float32), "c": np.float32(1e-5)}
    path = saved(folder / "wide.onnx", text, **constants)
    inputs = {"x": np.random.default_rng(7).uniform(1, 4, (4, 8)).astype(np.float32)}
    told, runs = check_record(folder, "wide", path, [inputs])
    values = results(session(with_values(folder / "recorded.onnx", told["values"])[0], LEVELS[0]), inputs)
    values = {name: array for name, array in values.items() if not name.startswith(PREFIX)} | inputs
    (want,) = outputs(path, inputs)

    convert = ["convert", path, out, "--to", "float16"]
    command(*convert, "--emulate")
    if np.isfinite(outputs(out, inputs)[0]).all():
        fail("without ranges the model does not overflow: it proves nothing")
    first = None
    for ranges in forms(folder, runs, values):
        done = json.loads(command(*convert, "--ranges", ranges, "--json", "--emulate").stdout)
        types = {value["name"]: value["type"] for value in done["values"]}
        # `a`, at 12,000, passes with a margin of 4; `b`, at millions, never.
        if (types["b"], done["unknown_ranges"]) != ("float", 0) or first not in (None, types):
            fail(f"{ranges.name}: {types}, want {first}, {done['unknown_ranges']} unknown")
        (got,), first = outputs(out, inputs), types
        if not np.isfinite(got).all() or np.abs(got - want).max() > 1e-2 * np.abs(want).max():
            fail(f"{ranges.name}: not close to the original")
    np.savez(folder / "bad.npz", **{f"{PREFIX}a": np.zeros((2, 4), np.float32)})
    refused(*convert, "--ranges", folder / "bad.npz", says=f"output `{PREFIX}a`: shape 2x4 (want [5]")
    for margin in ("0", "nan", "inf", "-1"):
        says = "want a finite number above 0"
        refused(*convert, "--ranges", folder / "numbers.json", f"--margin={margin}", says=says)


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
    for got, want in zip(outputs(out, inputs), outputs(path, inputs), strict=True):
        if np.isfinite(want).all() and not np.isfinite(got).all():
            fail(f"{name}: an output is not finite")
    print(f"{name}: {len(told['values'])} values, {len(beyond)} beyond float16 with the margin")


def main():
    inputs = real_inputs()
    real = {"nudenet": (NUDENET, inputs[NUDENET]), "magika": (MAGIKA, inputs[MAGIKA])}
    real |= {f"light {name}": light(name) for name in ("squeezenet", "shufflenet")}
    tasks = [(check_real, name, *given) for name, given in real.items()]
    tasks += [(check_opsets, range(7 + share, 25, 4)) for share in range(4)]
    tasks += [(one,) for one in (check_empty, check_quantized, check_inner, check_ranges)]
    in_shares(tasks)
    finish()


if __name__ == "__main__":
    main()
