#!/usr/bin/env python3
"""Do the models that the command writes load, and give what they should?

Takes real models (magika's, nudenet's, onnx's own light ones) and generated ones, has the command cast their weights, fold
their Casts and raise their opsets, checks every result with onnx.checker and runs it in onnxruntime beside the model that
it was made from. A cast model must give, bit for bit, what the model gives whose weights Python has rounded; a cast
that loses nothing, and a fold, what the original gives.
"""

import os
import resource
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from quantized_models import check_quantized
from shared import COMMAND, in_processes, line

SITE = Path(sysconfig.get_path("purelib"))
MAGIKA = SITE / "magika" / "models" / "standard_v3_3" / "model.onnx"
NUDENET = SITE / "nudenet" / "320n.onnx"
LIGHT = SITE / "onnx" / "backend" / "test" / "data" / "light"

# As the command: constants of fewer elements stay as they are.
MIN_SIZE = 256

# ONNX's name: numpy's type, and how far the outputs of a real model may lie from the original's, in parts of their
# largest magnitude. A weight of p significant bits is off by at most 2^-p of itself.
TYPES = {
    "float16": (np.float16, 2**-7),
    "bfloat16": (ml_dtypes.bfloat16, 2**-4),
    "float8e4m3fn": (ml_dtypes.float8_e4m3fn, 2**-1),
}

checks = 0


def fail(text):
    sys.exit(f"models: {text}")


def run(*arguments):
    return subprocess.run(line(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True)


def command(*arguments):
    done = run(*arguments)
    if done.returncode:
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status {done.returncode}: {done.stderr}")


def refused(*arguments, says):
    """The command refuses, names what it should, and writes nothing."""
    done = run(*arguments)
    text = done.stderr
    if done.returncode != 2 or not all(part in text for part in says) or "panicked" in text:
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status {done.returncode}, want {says}: {text}")


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # One order of additions, so that equal models give equal bits.
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def outputs(path, inputs):
    return session(path).run(None, inputs)


def checked(path):
    global checks
    onnx.checker.check_model(str(path), full_check=True)
    checks += 1
    return onnx.load(path)


def same(name, got, want):
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        bits = [one.tolist() if one.dtype == object else one.tobytes() for one in (a, b)]
        if a.dtype != b.dtype or a.shape != b.shape or bits[0] != bits[1]:
            fail(f"{name}: output {index} is not, bit for bit, what it should be")


def near(name, got, want, limit):
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        off = np.abs(a.astype(np.float64) - b).max() / max(np.abs(b).max(), 1e-30)
        if not off <= limit:
            fail(f"{name}: output {index} is off by {off:.3g} of its magnitude, want {limit:.3g} at most")


def rounded(model, dtype, path):
    """The model with its large weights rounded in Python, kept as float."""
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype == np.float32 and values.size >= MIN_SIZE:
            with np.errstate(over="ignore"):
                values = values.astype(dtype).astype(np.float32)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    onnx.save(model, path)
    return path


def check_cast(folder, name, path, inputs, types):
    """Every type: what onnxruntime makes of the cast model, of the one that Python rounded, and of the original."""
    original = outputs(path, inputs)
    large = sum(onnx.numpy_helper.to_array(t).size >= MIN_SIZE for t in onnx.load(path).graph.initializer)
    for target in types:
        dtype, limit = TYPES[target]
        out, again = folder / f"{target}.onnx", folder / "again.onnx"
        command("cast", path, out, "--to", target, "--raise-opset")
        stored = [t for t in checked(out).graph.initializer if t.data_type == TensorProto.DataType.Value(target.upper())]
        if not 0 < len(stored) <= large:
            fail(f"{name} to {target}: {len(stored)} constants are stored in it, of {large} large ones")
        got = outputs(out, inputs)
        same(f"{name} to {target}", got, outputs(rounded(onnx.load(path), dtype, folder / "rounded.onnx"), inputs))
        near(f"{name} to {target}", got, original, limit)
        command("cast", out, again, "--to", target)
        if again.read_bytes() != out.read_bytes():
            fail(f"{name} to {target}: cast twice gives other bytes than cast once")
    out = folder / "double.onnx"
    command("cast", path, out, "--to", "double")
    checked(out)
    same(f"{name} to double", outputs(out, inputs), original)
    back = folder / "back.onnx"
    command("fold", out, back)
    if back.read_bytes() != Path(path).read_bytes():
        fail(f"{name}: to double and folded, it is not byte for byte what it was")
    print(f"  {name}: {large} weights to {', '.join(types)}, and to double without a difference")


def value(name, data_type, shape):
    return helper.make_tensor_value_info(name, data_type, shape)


def model(nodes, inputs, outputs, initializers=(), opset=21, **more):
    """A model; inputs and outputs are (name, type, shape)."""
    graph = helper.make_graph(nodes, "graph", [value(*one) for one in inputs], [value(*one) for one in outputs],
                              [numpy_helper.from_array(array, name) for name, array in initializers],
                              value_info=more.pop("value_info", []))
    imports = [helper.make_opsetid("", opset), *more.pop("imports", [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=more.pop("ir_version", 10), **more)


def cast(source, result, to, **attributes):
    return helper.make_node("Cast", [source], [result], to=getattr(TensorProto, to), **attributes)


def branch(nodes, result, initializers=()):
    return helper.make_graph(nodes, "branch", [], [value(result, TensorProto.FLOAT, [4])],
                             [numpy_helper.from_array(array, name) for name, array in initializers])


def fold_cases():
    """Models with the numbers of Casts that a fold computes, removes and joins, and of those that it leaves."""
    F, F16, F64, I8, I64 = (getattr(TensorProto, name) for name in ["FLOAT", "FLOAT16", "DOUBLE", "INT8", "INT64"])
    x, x16, y = ("x", F, [4]), ("x", F16, [4]), ("y", F, [4])
    eighths = ("w", np.array([0.1, -2.5, 3e-8, 7e4], np.float64))
    whole = ("n", np.array([1, -2, 3, 100], np.int64))
    add = helper.make_node("Add", ["x", "c"], ["y"])

    yield "a constant", model([cast("w", "c", "FLOAT"), add], [x], [y], [eighths]), (1, 0, 0), 0
    yield "a constant, twice", model(
        [cast("w", "h", "FLOAT16"), cast("h", "c", "FLOAT"), add], [x], [y], [eighths]), (2, 0, 0), 0
    yield "a constant that is read besides", model(
        [cast("w", "c", "FLOAT"), add], [x], [y, ("w", F64, [4])], [eighths]), (1, 0, 0), 0
    yield "a constant with two targets", model(
        [cast("w", "c", "FLOAT"), add, cast("w", "z", "FLOAT16")], [x], [y, ("z", F16, [4])], [eighths]), (2, 0, 0), 0
    yield "a Constant node", model(
        [helper.make_node("Constant", [], ["n"], value_ints=[1, -2, 3, 100]), cast("n", "c", "FLOAT"), add], [x], [y]
    ), (1, 0, 0), 0
    yield "a Constant node as an output", model(
        [helper.make_node("Constant", [], ["n"], value_float=2.5), cast("n", "z", "DOUBLE"),
         cast("n", "n8", "INT8"), helper.make_node("Identity", ["x"], ["y"])], [x], [y, ("z", F64, []), ("n8", I8, [])]
    ), (2, 0, 0), 0
    yield "CastLike", model(
        [helper.make_node("CastLike", ["n", "like"], ["c"]), add], [x], [y],
        [whole, ("like", np.zeros(1, np.float32))]), (1, 0, 0), 0
    yield "CastLike of an input", model(
        [helper.make_node("CastLike", ["x", "like"], ["z"]), helper.make_node("Add", ["z", "z"], ["y"])], [x], [y],
        [("like", np.zeros(1, np.float32))]), (0, 1, 0), 0
    yield "strings", model(
        [cast("s", "c", "FLOAT"), add, cast("n", "t", "STRING")], [x], [y, ("t", TensorProto.STRING, [4])],
        [("s", np.array(["1", "-2.5", "inf", "1e-3"], object)), whole]), (2, 0, 0), 0
    yield "strings that are no numbers", model(
        [cast("s", "c", "FLOAT"), helper.make_node("Identity", ["x"], ["y"])], [x], [y],
        [("s", np.array(["1", "x"], object))]), None, 1
    yield "nothing to do, an input", model([cast("x", "y", "FLOAT")], [x], [y]), (0, 0, 0), 1
    yield "nothing to do", model(
        [cast("x", "a", "FLOAT"), helper.make_node("Relu", ["a"], ["b"]), cast("b", "y", "FLOAT")], [x], [y],
        value_info=[value("b", F, [4])]), (0, 2, 0), 0
    yield "there and back", model(
        [cast("x", "a", "FLOAT"), cast("a", "b", "FLOAT16"), helper.make_node("Add", ["b", "b"], ["c"]),
         cast("c", "y", "FLOAT")], [x16], [y]), (0, 1, 1), 1
    yield "up twice", model([cast("x", "a", "FLOAT"), cast("a", "y", "DOUBLE")], [x16], [("y", F64, [4])]), (0, 0, 1), 1
    yield "up thrice and down", model(
        [cast("x", "a", "FLOAT"), cast("a", "b", "DOUBLE"), cast("b", "c", "BFLOAT16"), cast("c", "y", "FLOAT")],
        [x16], [y]), (0, 0, 2), 2
    yield "down and up", model([cast("x", "a", "FLOAT16"), cast("a", "y", "FLOAT")], [x], [y]), (0, 0, 0), 2
    yield "saturation between integers", model(
        [cast("x", "a", "DOUBLE"), cast("a", "y", "INT8")], [("x", TensorProto.INT32, [4])], [("y", I8, [4])]
    ), (0, 0, 0), 2
    yield "a middle that is read besides", model(
        [cast("x", "a", "FLOAT"), cast("a", "y", "DOUBLE"), helper.make_node("Relu", ["a"], ["z"])], [x16],
        [("y", F64, [4]), ("z", F, [4])]), (0, 0, 1), 2
    yield "an input with a default", model(
        [cast("w", "c", "FLOAT"), add], [x, ("w", F64, [4])], [y], [eighths]), (0, 0, 0), 1
    yield "before version 4 of the format", model(
        [cast("w", "c", "FLOAT"), add], [x, ("w", F64, [4])], [y], [eighths], opset=8, ir_version=3), (1, 0, 0), 0
    yield "the same, read besides", model(
        [cast("w", "c", "FLOAT"), add, cast("w", "z", "FLOAT16")], [x, ("w", F64, [4])], [y, ("z", F16, [4])], [eighths],
        opset=9, ir_version=3), (2, 0, 0), 0
    yield "odd names", model(
        [cast("a b/\u00fc:0", "\n\"'", "FLOAT"), helper.make_node("Add", ["x", "\n\"'"], ["y"])], [x], [y],
        [("a b/\u00fc:0", eighths[1])]), (1, 0, 0), 0
    yield "no elements", model(
        [cast("e", "c", "FLOAT"), helper.make_node("Concat", ["x", "c"], ["y"], axis=0)], [x], [y],
        [("e", np.zeros(0, np.int8))]), (1, 0, 0), 0
    yield "four bits", model(
        [cast("w", "h", "INT4"), cast("h", "c", "FLOAT"), add], [x], [y],
        [("w", np.array([1, -8, 7, 3], np.int8))]), (2, 0, 0), 0

    bits = helper.make_node("BitCast", ["w"], ["c"], to=F)
    yield "bits of a constant", model([bits, add], [x], [y], [("w", np.arange(4, dtype=np.int32))], opset=26), (1, 0, 0), 0
    yield "bits of bits", model(
        [helper.make_node("BitCast", ["x"], ["a"], to=TensorProto.INT32),
         helper.make_node("BitCast", ["a"], ["y"], to=TensorProto.UINT32)], [x], [("y", TensorProto.UINT32, [4])],
        opset=26), (0, 0, 1), 1

    flag = ("flag", TensorProto.BOOL, [])
    then = branch([cast("w", "c", "FLOAT"), helper.make_node("Add", ["x", "c"], ["r"])], "r")
    other = branch([cast("v", "c", "FLOAT"), helper.make_node("Sub", ["x", "c"], ["r"])], "r",
                   [("v", np.array([4, 3, 2, 1], np.int32))])
    choose = helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other)
    yield "branches", model([choose], [x, flag], [y], [eighths]), (2, 0, 0), 0

    # Within the branch `w` is another value: what reads the Cast's result must not read the outer one by this name.
    shadowed = branch([helper.make_node("Neg", ["c"], ["x2"]), helper.make_node("Add", ["c", "x2"], ["r"])], "r")
    plain = branch([helper.make_node("Identity", ["c"], ["r"])], "r")
    yield "a branch that reads what is removed", model(
        [cast("x", "c", "FLOAT"), helper.make_node("If", ["flag"], ["y"], then_branch=shadowed, else_branch=plain)],
        [x, flag], [y]), (0, 1, 0), 0

    body = helper.make_graph(
        [cast("n", "k", "FLOAT"), helper.make_node("Add", ["acc", "k"], ["next"]), cast("next", "out", "FLOAT"),
         helper.make_node("Identity", ["on"], ["more"])],
        "body", [value("i", I64, []), value("on", TensorProto.BOOL, []), value("acc", F, [4])],
        [value("more", TensorProto.BOOL, []), value("out", F, [4])], value_info=[value("next", F, [4])])
    loop = helper.make_node("Loop", ["three", "", "x"], ["y"], body=body)
    yield "a loop", model([loop], [x], [y], [whole, ("three", np.array(3, np.int64))]), (1, 1, 0), 0
    scanned = helper.make_graph(
        [cast("n1", "k", "FLOAT"), helper.make_node("Mul", ["one", "k"], ["two"])], "body", [value("one", F, [])],
        [value("two", F, [])], [numpy_helper.from_array(np.array(3, np.int16), "n1")])
    scan = helper.make_node("Scan", ["x"], ["y"], body=scanned, num_scan_inputs=1)
    yield "a scan", model([scan], [x], [y]), (1, 0, 0), 0

    own = helper.make_opsetid("own", 1)
    function = helper.make_function(
        "own", "Scale", ["a"], ["b"],
        [helper.make_node("Constant", [], ["n"], value_ints=[1, 2, 3, 4]), cast("n", "k", "FLOAT"),
         helper.make_node("Mul", ["a", "k"], ["m"]), cast("m", "d", "DOUBLE"), cast("d", "b", "FLOAT16")],
        [helper.make_opsetid("", 21)], value_info=[value("m", F, [4])])
    call = helper.make_node("Scale", ["x"], ["h"], domain="own")
    yield "a function", model(
        [call, cast("h", "y", "FLOAT")], [x], [y], functions=[function], imports=[own]), (1, 0, 1), 2
    reference = helper.make_node("Cast", ["n"], ["b"])
    reference.attribute.add(name="to", ref_attr_name="type", type=onnx.AttributeProto.INT)
    parameter = helper.make_function(
        "own", "As", [], ["b"], [helper.make_node("Constant", [], ["n"], value_ints=[1, 2, 3, 4]), reference],
        [helper.make_opsetid("", 21)], ["type"])
    call = helper.make_node("As", [], ["c"], domain="own", type=TensorProto.FLOAT)
    yield "a function's attribute", model([call, add], [x], [y], functions=[parameter], imports=[own]), (0, 0, 0), 1


def every_graph(model):
    def within(nodes):
        for node in nodes:
            yield node
            for attribute in node.attribute:
                yield from within(attribute.g.node)

    yield from within(model.graph.node)
    for function in model.functions:
        yield from within(function.node)


INPUTS = {
    TensorProto.FLOAT: np.array([0.1, -7.75, 1e-40, 3e38], np.float32),
    TensorProto.FLOAT16: np.array([0.1, -7.75, 6e-8, 65504], np.float16),
    TensorProto.DOUBLE: np.array([0.1, -7.75, 1e-320, 1e300], np.float64),
    TensorProto.INT32: np.array([1, -200, 2**31 - 1, 300], np.int32),
    TensorProto.BOOL: np.array(True),
}


def check_folds(folder):
    count = 0
    for name, made, want, left in fold_cases():
        path, folded, again = folder / "model.onnx", folder / "folded.onnx", folder / "again.onnx"
        onnx.save(made, path)
        checked(path)
        done = run("fold", path, folded)
        numbers = tuple(int(word) for word in done.stderr.replace(",", "").split() if word.isdigit())[:3]
        casts = [node for node in every_graph(checked(folded)) if node.op_type in ("Cast", "CastLike", "BitCast")]
        if done.returncode or (want and numbers != want) or len(casts) != left:
            fail(f"fold of {name}: {done.stderr.strip()}, {len(casts)} casts left, want {want} and {left}")
        command("fold", folded, again)
        if again.read_bytes() != folded.read_bytes():
            fail(f"fold of {name}: folded twice it has other bytes than folded once")
        after = onnx.load(folded)
        if want is None:
            continue
        if [o.SerializeToString() for o in after.graph.output] != [o.SerializeToString() for o in made.graph.output]:
            fail(f"fold of {name}: the outputs are declared otherwise")
        initial = {tensor.name for tensor in made.graph.initializer} if made.ir_version < 4 else set()
        inputs = {one.name: INPUTS[one.type.tensor_type.elem_type] for one in made.graph.input if one.name not in initial}
        for flag in (True, False) if "flag" in inputs else (None,):
            if flag is not None:
                inputs["flag"] = np.array(flag)
            same(f"fold of {name}", outputs(folded, inputs), outputs(path, inputs))
        count += 1
    print(f"  {count} generated models folded, with equal outputs")


def weights(*sizes):
    rng = np.random.default_rng(2)
    return [(f"w{i}", rng.standard_normal((4, size)).astype(np.float32)) for i, size in enumerate(sizes)]


def products(arrays):
    """x times each array, added up."""
    nodes, total = [], "x"
    for name, array in arrays:
        nodes += [helper.make_node("MatMul", ["x", name], [f"{name}_x"]),
                  helper.make_node("ReduceSum", [f"{name}_x"], [f"{name}_s"], keepdims=0),
                  helper.make_node("Add", [total, f"{name}_s"], [f"{name}_t"])]
        total = f"{name}_t"
    nodes.append(helper.make_node("Identity", [total], ["y"]))
    return model(nodes, [("x", TensorProto.FLOAT, [4])], [("y", TensorProto.FLOAT, [4])], arrays)


def save_outside(made, folder, places):
    """The model, its initializers in other files: (file, offset) for each, or None."""
    for tensor, place in zip(made.graph.initializer, places, strict=True):
        if place is None:
            continue
        file, offset = place
        target = folder / file
        target.parent.mkdir(exist_ok=True)
        with open(target, "r+b" if target.exists() else "wb") as out:
            out.seek(offset)
            out.write(tensor.raw_data)
        length = len(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in ("location", file), ("offset", str(offset)), ("length", str(length)):
            tensor.external_data.add(key=key, value=text)
    path = folder / "model.onnx"
    onnx.save(made, path)
    return path


def places(path):
    """Where a model has its constants: by file, the number of those that are there."""
    count = {}
    for tensor in onnx.load(path, load_external_data=False).graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        file = entries.get("location", "")
        count[file] = count.get(file, 0) + 1
        if int(entries.get("offset", 0)) % 4096:
            fail(f"{path.name}: {tensor.name} stands at {entries['offset']}, which is not a multiple of 4096")
    return count


def check_external(folder):
    folder = folder / "external"
    folder.mkdir()
    arrays = weights(100, 2000, 300, 8, 500)
    inputs = {"x": INPUTS[TensorProto.FLOAT][:4] * 0 + np.arange(4, dtype=np.float32)}
    path = save_outside(products(arrays), folder,
                        [("a.bin", 0), ("b.bin", 7), None, ("a.bin", 5000), ("sub/c.bin", 4096)])
    original = outputs(path, inputs)
    halves = outputs(rounded(products(arrays), np.float16, folder / "rounded.onnx"), inputs)
    for arguments, want in [
        ([], {"out.onnx.data": 4, "": 1}),
        (["--external-data", "o.bin"], {"o.bin": 3, "": 2}),
        (["--external-data", "o.bin", "--external-threshold", "1"], {"o.bin": 5}),
        (["--external-threshold", "3000"], {"out.onnx.data": 2, "": 3}),
        (["--external-data", "o.bin", "--external-threshold", "99999"], {"": 5}),
    ]:
        made = folder / "made"
        made.mkdir(exist_ok=True)
        out, again = made / "out.onnx", made / "again" / "out.onnx"
        again.parent.mkdir(exist_ok=True)
        command("cast", path, out, "--to", "float16", *arguments)
        checked(out)
        if places(out) != want:
            fail(f"cast with {arguments}: constants in {places(out)}, want {want}")
        same(f"cast with {arguments}", outputs(out, inputs), halves)
        command("cast", out, again, "--to", "float16", *arguments)
        for file in {"out.onnx", *want} - {""}:
            if (made / file).read_bytes() != (again.parent / file).read_bytes():
                fail(f"cast with {arguments}: {file} is not the same when cast twice")
        folded = again.with_name("folded.onnx")
        command("fold", out, folded, *arguments)
        same(f"fold with {arguments}", outputs(folded, inputs), halves)
        # In place, and back to the original's values.
        command("cast", path, out, "--to", "double", *arguments)
        command("fold", out, out, *arguments)
        checked(out)
        same(f"cast and fold in place with {arguments}", outputs(out, inputs), original)
    for name, says in [("../o.bin", "without a folder"), ("model.onnx.data/", "without a folder"), ("", "folder"),
                       ("new.onnx", "is also OUT"), ("a.bin", "the input's own elements are there"),
                       ("model.onnx", "is also IN")]:
        refused("cast", path, folder / "new.onnx", "--to", "float16", "--external-data", name, says=["external data", says])
    if (folder / "new.onnx").exists() or list(folder.glob(".onnx-cast*")):
        fail("what was refused has left files")
    print("  a model with its weights in three other files, with every way to store them")


def limited(*arguments):
    """Runs the command with 512 MiB of address space and half a minute, and returns what it said."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))

    arguments = line(*arguments)
    done = subprocess.run(
        arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, preexec_fn=limit, timeout=30)
    if done.returncode not in (0, 2) or "panicked" in done.stderr:
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status {done.returncode}: {done.stderr}")
    return done


def check_hostile(folder):
    """What others wrote to do harm, or broke: an error, in little memory, and no file."""
    inside = folder / "hostile"
    inside.mkdir()
    (folder / "secret").write_bytes(bytes(4096))
    (inside / "w.bin").write_bytes(bytes(4096))
    (inside / "link.bin").symlink_to(folder / "secret")
    (inside / "out").symlink_to(folder)
    os.mkfifo(inside / "pipe")
    path = inside / "model.onnx"

    def external(dims=(1024,), data_type=TensorProto.FLOAT, raw=None, **entries):
        tensor = TensorProto(name="w", data_type=data_type, dims=dims)
        if raw is None:
            tensor.data_location = TensorProto.EXTERNAL
            for key, text in entries.items():
                tensor.external_data.add(key=key, value=str(text))
        else:
            tensor.raw_data = raw
        made = model([cast("w", "y", "DOUBLE")], [], [("y", TensorProto.DOUBLE, list(dims))])
        made.graph.initializer.append(tensor)
        return made.SerializeToString()

    within = "want a path relative to the model's folder"
    past = "has 4096 bytes (want 4096 from"
    hostile = [
        (external(location="../secret"), within),
        (external(location="a/../../secret"), within),
        (external(location=folder / "secret"), within),
        (external(location=""), within),
        (external(location="."), within),
        (external(location="link.bin"), "a symlink out of the model's folder"),
        (external(location="out/secret"), "a symlink out of the model's folder"),
        (external(location="none.bin"), "cannot be read: No such file"),
        (external(location="pipe"), "not a regular file"),
        (external(location="hostile\0.bin"), "cannot be read"),
        (external(offset=0), "external data without a location"),
        (external(location="w.bin", offset=1), past),
        (external(location="w.bin", offset=2**64 - 1), past),
        (external(location="w.bin", offset=2**64), "is not a number"),
        (external(location="w.bin", offset=-1), "is not a number"),
        (external(location="w.bin", length=4095), "4095 bytes of external data for float (type and shape want 4096)"),
        (external((1 << 40,), location="w.bin"), "has 4096 bytes (want 4398046511104 from 0 on)"),
        (external((1 << 40, 1 << 40), location="w.bin"), "is too large"),
        (external((-1,), location="w.bin"), "dimension 0 is -1"),
        (external(data_type=TensorProto.STRING, location="w.bin"), "strings in external data"),
        (external((1 << 40,), raw=b""), "0 bytes of raw_data for 1099511627776 float"),
        (external(raw=bytes(4095)), "4095 bytes of raw_data for 1024 float (want 4096)"),
        (nested(33), "graphs nested more than 32 deep"),
        (nested(100_000), "graphs nested more than 32 deep"),
    ]
    for number, (content, says) in enumerate(hostile):
        path.write_bytes(content)
        for arguments in (["cast", path, inside / "no.onnx", "--to", "float16"], ["fold", path, inside / "no.onnx"]):
            done = limited(*arguments)
            if done.returncode != 2 or says not in done.stderr or len(done.stderr) > 1000:
                fail(f"hostile model {number}: {arguments[0]} says {done.stderr[:1000]!r}, want {says!r}")
    if {file.name for file in inside.iterdir()} != {"w.bin", "link.bin", "out", "pipe", "model.onnx"}:
        fail(f"hostile models have left files: {list(inside.iterdir())}")

    # More of everything than any model has.
    F, ones = TensorProto.FLOAT, np.ones((1,) * 60 + (1000,), np.int8)
    chain = [cast("w" if i == 0 else f"c{i}", f"c{i + 1}", ("DOUBLE", "FLOAT")[i % 2]) for i in range(20_000)]
    fan = [cast("w", f"c{i}", "STRING") for i in range(20_000)]
    same_name = [helper.make_node("Constant", [], ["n"], value_floats=[0.0] * 4) for _ in range(5_000)]
    for nodes, output in [(chain, value("c20000", F, None)), (fan, value("c0", TensorProto.STRING, None)), (same_name, value("n", F, [4]))]:
        graph = helper.make_graph(nodes, "graph", [], [output], [numpy_helper.from_array(ones, "w")])
        path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]).SerializeToString())
        for arguments in (["cast", "--to", "float16", "--min-elements", "1"], ["fold"]):
            if limited(*arguments, path, inside / "out.onnx").returncode:
                fail(f"{arguments[0]} refuses a model of many nodes")

    # Any damage at all: an error, or a model.
    whole = max((made.SerializeToString() for _, made, _, _ in fold_cases()), key=len)
    rng = np.random.default_rng(4)
    accepted = 0
    for number in range(150):
        content = bytearray(whole)
        for at in rng.integers(0, len(content), 1 + number % 3):
            content[at] = rng.integers(0, 256)
        path.write_bytes(content[: rng.integers(1, len(content)) if number % 5 == 0 else None])
        arguments = ["fold"] if number % 2 else ["cast", "--to", "float16", "--min-elements", "1"]
        accepted += limited(*arguments, path, inside / "out.onnx").returncode == 0
    print(f"  {len(hostile)} hostile models refused; of 150 damaged ones {accepted} taken")


def nested(depth):
    """Branches within branches, whose bytes no protobuf library would write."""
    parts, length = [], 0
    for _ in range(depth):
        for key in (b"\x32", b"\x2a", b"\x0a"):  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            parts.append(key + varint(length))
            length += len(parts[-1])
    return b"\x08\x0a\x3a" + varint(length) + b"".join(reversed(parts)) + b"\x42\x02\x10\x15"


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def peak_memory(*arguments):
    """The command's largest resident memory in bytes, as far as it is seen while it runs."""
    child = subprocess.Popen([COMMAND, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE)
    peak = 0
    while child.poll() is None:
        try:
            status = Path(f"/proc/{child.pid}/status").read_text()
        except OSError:
            break
        peak = max([peak, *(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))])
        time.sleep(0.001)
    if child.wait():
        fail(f"onnx-cast {' '.join(map(str, arguments))}: {child.stderr.read().decode()}")
    return peak


def check_memory(folder):
    """A tensor of 1 GiB, which is a hole in its file, inside the model and outside."""
    size = 1 << 30
    for outside in (True, False):
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[size // 4])
        if outside:
            tensor.data_location = TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value="w.bin")
            (folder / "w.bin").write_bytes(b"")
            os.truncate(folder / "w.bin", size)
        made = model([helper.make_node("Size", ["w"], ["y"])], [], [("y", TensorProto.INT64, [])])
        made.graph.initializer.append(tensor)
        path, out = folder / "large.onnx", folder / "small.onnx"
        if outside:
            path.write_bytes(made.SerializeToString())
        else:
            write_with_hole(made, size, path)
        peak = max(peak_memory("cast", path, out, "--to", "float8e4m3fn", "--stats"),
                   peak_memory("info", path, "--stats"), peak_memory("diff", path, path))
        written = (folder / "small.onnx.data" if outside else out).stat().st_size
        if not size // 4 <= written < size // 4 + 4096 or peak > 64 << 20:
            fail(f"1 GiB {'out' if outside else 'in'}side: {written} bytes written, {peak} bytes of memory taken")
        print(f"  cast, info and diff of 1 GiB {'out' if outside else 'in'}side a model, in {peak >> 20} MiB of memory")
        for file in [path, out, *folder.glob("small.onnx.data"), *folder.glob("w.bin")]:
            file.unlink()


def write_with_hole(made, size, path):
    """The model, with `size` zeros as the elements of its first initializer."""
    tensor = made.graph.initializer.pop(0).SerializeToString() + b"\x4a" + varint(size)
    graph = made.graph.SerializeToString() + b"\x2a" + varint(len(tensor) + size) + tensor
    made.ClearField("graph")
    head = made.SerializeToString() + b"\x3a" + varint(len(graph) + size) + graph
    path.write_bytes(head)
    os.truncate(path, len(head) + size)


def check_sparse(folder):
    """A sparse initializer stays, byte for byte, beside others that are cast; in another file it is refused by name."""
    F = TensorProto.FLOAT
    values = numpy_helper.from_array(np.array([0.1, -2.5, 1e-9], np.float32), "s")
    indices = numpy_helper.from_array(np.array([0, 300, 1023], np.int64), "s_indices")
    (large,) = weights(256)
    nodes = [helper.make_node("Add", ["s", large[0]], ["a"]), cast("s", "h", "FLOAT16"), cast("h", "b", "FLOAT"),
             helper.make_node("Add", ["a", "b"], ["y"])]
    made = model(nodes, [], [("y", F, [4, 256])], [large])
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4, 256]))
    path, out, folded = (folder / f"{name}.onnx" for name in ("sparse", "small", "folded"))
    onnx.save(made, path)
    command("cast", path, out, "--to", "float16")
    command("fold", out, folded)
    for name in (out, folded):
        if onnx.load(name).graph.sparse_initializer != made.graph.sparse_initializer:
            fail(f"{name.name}: the sparse initializer is another")
    want = outputs(rounded(onnx.load(path), np.float16, folder / "rounded.onnx"), {})
    for name in (out, folded):
        same(f"{name.name}, sparse", outputs(name, {}), want)
    if run("info", path).stdout.count("s/values") != 1:
        fail("info does not list the values of a sparse initializer")
    moved = made.graph.sparse_initializer[0].values
    (folder / "s.bin").write_bytes(moved.raw_data)
    moved.ClearField("raw_data")
    moved.data_location = TensorProto.EXTERNAL
    moved.external_data.add(key="location", value="s.bin")
    onnx.save(made, path)
    for arguments in (["cast", "--to", "float16"], ["fold"]):
        refused(*arguments, path, folder / "no.onnx", says=["`s`", "sparse"])
    if (folder / "no.onnx").exists():
        fail("what was refused has left a file")
    print("  a sparse initializer kept, and refused in another file")


def check_raised(folder):
    """The opset goes up, and what cannot go with it is named."""
    refused("cast", MAGIKA, folder / "no.onnx", "--to", "float8e4m3fn",
            says=["Cast takes float8e4m3fn from opset 19 on, and the model imports 15", "--raise-opset"])
    for path in (MAGIKA, NUDENET):
        command("cast", path, folder / "raised.onnx", "--to", "float8e4m3fn", "--raise-opset")
        if checked(folder / "raised.onnx").opset_import[0].version != 19:
            fail(f"{path.name}: not raised")
        session(folder / "raised.onnx")

    large = ("w", np.linspace(-2, 2, 1024, dtype=np.float32).reshape(4, 256))
    F = TensorProto.FLOAT
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 13)])
    mean = helper.make_node("ReduceSum", ["p"], ["r"], keepdims=0)
    then = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["p"]), mean], "then", [], [value("r", F, [])])
    other = helper.make_graph(
        [helper.make_node("Constant", [], ["v"], value=numpy_helper.from_array(large[1][0], "v")),
         helper.make_node("ReduceSum", ["v"], ["r"], keepdims=0)], "else", [], [value("r", F, [])])
    nodes = [helper.make_node("If", ["flag"], ["s"], then_branch=then, else_branch=other),
             helper.make_node("Twice", ["s"], ["y"], domain="own")]
    arguments = dict(opset=13, ir_version=7, functions=[function], imports=[helper.make_opsetid("own", 1)])
    ins, outs = [("x", F, [4]), ("flag", TensorProto.BOOL, [])], [("y", F, [])]
    made = model(nodes, ins, outs, [large], **arguments)
    path, out = folder / "model.onnx", folder / "raised.onnx"
    onnx.save(made, path)
    command("cast", path, out, "--to", "float8e4m3fn", "--raise-opset")
    raised = checked(out)
    imports = [(one.domain, one.version) for one in [*raised.opset_import, *raised.functions[0].opset_import]]
    if imports != [("", 19), ("own", 1), ("", 19)] or raised.ir_version != 9:
        fail(f"raised: {imports}, version {raised.ir_version} of the format")
    if sum(node.op_type == "Cast" for node in every_graph(raised)) != 2:
        fail("raised: a constant of a branch was not cast")
    eighths = large[1].astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    x = np.arange(4, dtype=np.float32)
    for flag, want in (True, (x @ eighths).sum()), (False, eighths[0].sum()):
        got, = outputs(out, {"x": x, "flag": np.array(flag)})
        near("raised", [got], [np.asarray(2 * want)], 1e-5)

    # What a function or a branch holds counts as well.
    norm = helper.make_node("BatchNormalization", ["a"] * 5, ["b", "mean", "var"], name="norm")
    arguments["functions"] = [helper.make_function("own", "Twice", ["a"], ["b"], [norm], [helper.make_opsetid("", 13)])]
    onnx.save(model(nodes, ins, outs, [large], **arguments), path)
    refused("cast", path, folder / "no.onnx", "--to", "float8e4m3fn", "--raise-opset", says=["node `norm` (BatchNormalization) in function `Twice`", "training mode"])
    mean = nodes[0].attribute[0].g.node[1]
    mean.op_type, mean.input[:], mean.output[:] = "BatchNormalization", ["p"] * 5, ["r", "mean", "var"]
    arguments["functions"] = [function]
    onnx.save(model(nodes, ins, outs, [large], **arguments), path)
    refused("cast", path, folder / "no.onnx", "--to", "float8e4m3fn", "--raise-opset", says=["(BatchNormalization) in `"])
    if (folder / "no.onnx").exists():
        fail("what was refused has left a file")
    print("  opsets raised with functions and branches, or refused by name")


def check_light(folder):
    """Models of version 3 of the format, whose constants are inputs too."""
    rng = np.random.default_rng(3)
    for name in ("squeezenet", "shufflenet", "densenet121"):
        path, out, back = LIGHT / f"light_{name}.onnx", folder / "light.onnx", folder / "back.onnx"
        original = onnx.load(path)
        initial = {tensor.name for tensor in original.graph.initializer}
        one, = (one for one in original.graph.input if one.name not in initial)
        shape = [dim.dim_value for dim in one.type.tensor_type.shape.dim]
        inputs = {one.name: rng.random(shape, dtype=np.float32)}
        want = outputs(path, inputs)
        command("cast", path, out, "--to", "double", "--min-elements", 1)
        checked(out)
        same(f"light {name} to double", outputs(out, inputs), want)
        command("fold", out, back)
        checked(back)
        same(f"light {name} folded", outputs(back, inputs), want)
        if back.read_bytes() != path.read_bytes():
            fail(f"light {name}: to double and folded, it is not byte for byte what it was")
    print("  light models of onnx, to double and back")


def main():
    for path in (COMMAND, MAGIKA, NUDENET, LIGHT):
        if not path.exists():
            fail(f"{path} is missing: run `bash scripts/test.sh`")
    rng = np.random.default_rng(1)
    magika = {"bytes": rng.integers(0, 257, (2, 2048)).astype(np.int32)}
    nudenet = {"images": rng.random((1, 3, 320, 320), dtype=np.float32)}
    tasks = [(check_light,), (check_hostile,), (check_memory,), (check_folds,), (check_external,), (check_sparse,), (check_raised,),
             (check_quantized,)]
    for name, path, inputs in [("nudenet", NUDENET, nudenet), ("magika", MAGIKA, magika)]:
        tasks += [(check_cast, name, path, inputs, ["float16", "bfloat16"]), (check_newer, name, path, inputs)]
    in_processes(task, tasks)


def check_newer(folder, name, path, inputs):
    """The model at an opset that has float8."""
    newer = folder / "newer.onnx"
    onnx.save(onnx.version_converter.convert_version(onnx.load(path), 19), newer)
    check_cast(folder, f"{name} at opset 19", newer, inputs, ["float8e4m3fn"])


def task(check, *arguments):
    """A check in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), *arguments)


if __name__ == "__main__":
    main()
