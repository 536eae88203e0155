#!/usr/bin/env python3
"""Do the models that the command writes load, and give what they should?

Has the command cast weights of real models and of generated ones, fold their Casts and raise their opsets, checks every
result with onnx.checker and runs it in onnxruntime. A cast model must give, bit for bit, what the model gives whose
weights Python has rounded; a cast that loses nothing, and a fold, what the original gives.
"""

import os
import resource
import subprocess
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from graphs import LIGHT, MAGIKA, NUDENET, bits, distance, every_node, light, model, outputs, real_inputs, session
from onnx import TensorProto, helper, numpy_helper
from quantized_models import check_quantized
from shared import COMMAND, command, fail, in_folder, in_processes, need, refused, run

# As the command: constants of fewer elements stay as they are.
MIN_SIZE = 256

# ONNX's name: numpy's type, and how far the outputs of a real model may lie from the original's, in parts of their
# largest magnitude. A weight of p significant bits is off by at most 2^-p of itself.
TYPES = {
    "float16": (np.float16, 2**-7),
    "bfloat16": (ml_dtypes.bfloat16, 2**-4),
    "float8e4m3fn": (ml_dtypes.float8_e4m3fn, 2**-1),
}


def checked(path):
    onnx.checker.check_model(str(path), full_check=True)
    return onnx.load(path)


def same(name, got, want):
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        if bits(a) != bits(b):
            fail(f"{name}: output {index} is not, bit for bit, what it should be")


def near(name, got, want, limit):
    if not (off := distance(want, got)) <= limit:
        fail(f"{name}: an output is off by {off:.3g} of its magnitude, want {limit:.3g} at most")


def same_bytes(name, path, other):
    if Path(path).read_bytes() != Path(other).read_bytes():
        fail(f"{name}: {Path(path).name} is not, byte for byte, {Path(other).name}")


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
    large = sum(numpy_helper.to_array(one).size >= MIN_SIZE for one in onnx.load(path).graph.initializer)
    for target in types:
        (dtype, limit), number = TYPES[target], TensorProto.DataType.Value(target.upper())
        out, again = folder / f"{target}.onnx", folder / "again.onnx"
        command("cast", path, out, "--to", target, "--raise-opset")
        stored = [one for one in checked(out).graph.initializer if one.data_type == number]
        if not 0 < len(stored) <= large:
            fail(f"{name} to {target}: {len(stored)} constants are stored in it, of {large} large ones")
        got = outputs(out, inputs)
        same(f"{name} to {target}", got, outputs(rounded(onnx.load(path), dtype, folder / "rounded.onnx"), inputs))
        near(f"{name} to {target}", got, original, limit)
        command("cast", out, again, "--to", target)
        same_bytes(f"{name} cast twice", again, out)
    to_double_and_back(folder, name, path, inputs, original)
    print(f"  {name}: {large} weights to {', '.join(types)}, and to double without a difference")


def to_double_and_back(folder, name, path, inputs, original, *options):
    out, back = folder / "double.onnx", folder / "back.onnx"
    command("cast", path, out, "--to", "double", *options)
    checked(out)
    same(f"{name} to double", outputs(out, inputs), original)
    command("fold", out, back)
    same_bytes(f"{name}, to double and folded", back, path)


def check_newer(folder, name, path, inputs):
    """The model at an opset that has float8."""
    newer = folder / "newer.onnx"
    onnx.save(onnx.version_converter.convert_version(onnx.load(path), 19), newer)
    check_cast(folder, f"{name} at opset 19", newer, inputs, ["float8e4m3fn"])


def check_light(folder):
    """Models of version 3 of the format, whose constants are inputs too."""
    for name in ("squeezenet", "shufflenet", "densenet121"):
        path, inputs = light(name)
        to_double_and_back(folder, f"light {name}", path, inputs, outputs(path, inputs), "--min-elements", 1)
    print("  light models of onnx, to double and back")


XY = "(float[4] x) => (float[4] y)"
EIGHTHS = np.array([0.1, -2.5, 3e-8, 7e4], np.float64)
WHOLE = np.array([1, -2, 3, 100], np.int64)
OWN, FOUR = '<domain: "own", opset_import: ["" : 21]> ', "n = Constant<value_ints=[1, 2, 3, 4]>()"
# By name: how many Casts a fold computes, removes and joins (None: not compared), and how many it leaves; the text of a
# model, and its initializers.
FOLDS = {
    "a constant": ((1, 0, 0), 0, XY + "{ c = Cast<to=float>(w) y = Add(x, c) }", {"w": EIGHTHS}),
    "a constant, twice": (
        (2, 0, 0), 0, XY + "{ h = Cast<to=float16>(w) c = Cast<to=float>(h) y = Add(x, c) }", {"w": EIGHTHS}),
    "a constant that is read besides": (
        (1, 0, 0), 0, "(float[4] x) => (float[4] y, double[4] w) { c = Cast<to=float>(w) y = Add(x, c) }",
        {"w": EIGHTHS}),
    "a constant with two targets": (
        (2, 0, 0), 0, """(float[4] x) => (float[4] y, float16[4] z)
        { c = Cast<to=float>(w) y = Add(x, c) z = Cast<to=float16>(w) }""", {"w": EIGHTHS}),
    "a Constant node": (
        (1, 0, 0), 0, XY + "{ n = Constant<value_ints=[1, -2, 3, 100]>() c = Cast<to=float>(n) y = Add(x, c) }", {}),
    "a Constant node as an output": (
        (2, 0, 0), 0, """(float[4] x) => (float[4] y, double z, int8 n8)
        { n = Constant<value_float=2.5>() z = Cast<to=double>(n) n8 = Cast<to=int8>(n) y = Identity(x) }""", {}),
    "CastLike": (
        (1, 0, 0), 0, XY + "{ c = CastLike(n, like) y = Add(x, c) }", {"n": WHOLE, "like": np.zeros(1, np.float32)}),
    "CastLike of an input": (
        (0, 1, 0), 0, XY + "{ z = CastLike(x, like) y = Add(z, z) }", {"like": np.zeros(1, np.float32)}),
    "strings": (
        (2, 0, 0), 0, """(float[4] x) => (float[4] y, string[4] t)
        { c = Cast<to=float>(s) y = Add(x, c) t = Cast<to=string>(n) }""",
        {"s": np.array(["1", "-2.5", "inf", "1e-3"], object), "n": WHOLE}),
    "strings that are no numbers": (
        None, 1, XY + "{ c = Cast<to=float>(s) y = Identity(x) }", {"s": np.array(["1", "x"], object)}),
    "nothing to do, an input": ((0, 0, 0), 1, XY + "{ y = Cast<to=float>(x) }", {}),
    "nothing to do": (
        (0, 2, 0), 0, XY + "<float[4] b> { a = Cast<to=float>(x) b = Relu(a) y = Cast<to=float>(b) }", {}),
    "there and back": (
        (0, 1, 1), 1, """(float16[4] x) => (float[4] y)
        { a = Cast<to=float>(x) b = Cast<to=float16>(a) c = Add(b, b) y = Cast<to=float>(c) }""", {}),
    "up twice": (
        (0, 0, 1), 1, "(float16[4] x) => (double[4] y) { a = Cast<to=float>(x) y = Cast<to=double>(a) }", {}),
    "up thrice and down": (
        (0, 0, 2), 2, """(float16[4] x) => (float[4] y)
        { a = Cast<to=float>(x) b = Cast<to=double>(a) c = Cast<to=bfloat16>(b) y = Cast<to=float>(c) }""", {}),
    "down and up": ((0, 0, 0), 2, XY + "{ a = Cast<to=float16>(x) y = Cast<to=float>(a) }", {}),
    "saturation between integers": (
        (0, 0, 0), 2, "(int32[4] x) => (int8[4] y) { a = Cast<to=double>(x) y = Cast<to=int8>(a) }", {}),
    "a middle that is read besides": (
        (0, 0, 1), 2, """(float16[4] x) => (double[4] y, float[4] z)
        { a = Cast<to=float>(x) y = Cast<to=double>(a) z = Relu(a) }""", {}),
    "an input with a default": (
        (0, 0, 0), 1, "(float[4] x, double[4] w) => (float[4] y) { c = Cast<to=float>(w) y = Add(x, c) }",
        {"w": EIGHTHS}),
    "before version 4 of the format": (
        (1, 0, 0), 0, "(float[4] x, double[4] w) => (float[4] y) { c = Cast<to=float>(w) y = Add(x, c) }",
        {"w": EIGHTHS, "opset": 8, "ir": 3}),
    "the same, read besides": (
        (2, 0, 0), 0, """(float[4] x, double[4] w) => (float[4] y, float16[4] z)
        { c = Cast<to=float>(w) y = Add(x, c) z = Cast<to=float16>(w) }""", {"w": EIGHTHS, "opset": 9, "ir": 3}),
    "odd names": ((1, 0, 0), 0, XY + "{ c = Cast<to=float>(w) y = Add(x, c) }", {"w": EIGHTHS}),
    "no elements": (
        (1, 0, 0), 0, XY + "{ c = Cast<to=float>(e) y = Concat<axis=0>(x, c) }", {"e": np.zeros(0, np.int8)}),
    "four bits": (
        (2, 0, 0), 0, XY + "{ h = Cast<to=int4>(w) c = Cast<to=float>(h) y = Add(x, c) }",
        {"w": np.array([1, -8, 7, 3], np.int8)}),
    "bits of a constant": (
        (1, 0, 0), 0, XY + "{ c = BitCast<to=float>(w) y = Add(x, c) }",
        {"w": np.arange(4, dtype=np.int32), "opset": 26}),
    "bits of bits": (
        (0, 0, 1), 1, "(float[4] x) => (uint32[4] y) { a = BitCast<to=int32>(x) y = BitCast<to=uint32>(a) }",
        {"opset": 26}),
    "branches": (
        (2, 0, 0), 0, """(float[4] x, bool flag) => (float[4] y) { y = If<
        else_branch = branch () => (float[4] r) <int32[4] v = {4, 3, 2, 1}> { c = Cast<to=float>(v) r = Sub(x, c) },
        then_branch = branch () => (float[4] r) { c = Cast<to=float>(w) r = Add(x, c) }>(flag) }""", {"w": EIGHTHS}),
    # Within the branch `x2` is another value: what reads the Cast's result must not read the outer one by its name.
    "a branch that reads what is removed": (
        (0, 1, 0), 0, """(float[4] x, bool flag) => (float[4] y) { c = Cast<to=float>(x) y = If<
        else_branch = branch () => (float[4] r) { r = Identity(c) },
        then_branch = branch () => (float[4] r) { x2 = Neg(c) r = Add(c, x2) }>(flag) }""", {}),
    "a loop": (
        (1, 1, 0), 0, XY + """{ y = Loop<
        body = body (int64 i, bool on, float[4] acc) => (bool more, float[4] out) <float[4] next>
        { k = Cast<to=float>(n) next = Add(acc, k) out = Cast<to=float>(next) more = Identity(on) }>(three, , x) }""",
        {"n": WHOLE, "three": np.array(3, np.int64)}),
    "a scan": (
        (1, 0, 0), 0, XY + """{ y = Scan<body = body (float one) => (float two) <int16 n1 = {3}>
        { k = Cast<to=float>(n1) two = Mul(one, k) }, num_scan_inputs=1>(x) }""", {}),
    "a function": (
        (1, 0, 1), 2, XY + "{ h = own.Scale(x) y = Cast<to=float>(h) }",
        {"domains": ["own"], "functions": OWN + "Scale (a) => (b) <float[4] m> {" + FOUR +
         "k = Cast<to=float>(n) m = Mul(a, k) d = Cast<to=double>(m) b = Cast<to=float16>(d) }"}),
    "a function's attribute": (
        (0, 0, 0), 1, XY + "{ c = own.As<type=float>() y = Add(x, c) }",
        {"domains": ["own"], "functions": OWN + "As <type> () => (b) {" + FOUR + "b = Cast<to: int = @type>(n) }"}),
}  # fmt: skip


def fold_cases():
    for name, (numbers, left, text, more) in FOLDS.items():
        made = model(text, **({"opset": 21, "ir": 10} | more))
        if name == "odd names":
            odd = {"w": "a b/\u00fc:0", "c": "\n\"'"}
            for node in made.graph.node:
                for side in (node.input, node.output):
                    side[:] = [odd.get(one, one) for one in side]
            made.graph.initializer[0].name = odd["w"]
        yield name, made, numbers, left


INPUTS = {
    TensorProto.FLOAT: np.array([0.1, -7.75, 1e-40, 3e38], np.float32),
    TensorProto.FLOAT16: np.array([0.1, -7.75, 6e-8, 65504], np.float16),
    TensorProto.DOUBLE: np.array([0.1, -7.75, 1e-320, 1e300], np.float64),
    TensorProto.INT32: np.array([1, -200, 2**31 - 1, 300], np.int32),
    TensorProto.BOOL: np.array(True),
}


def check_folds(folder):
    count = 0
    path, folded, again = (folder / f"{name}.onnx" for name in ("model", "folded", "again"))
    for name, made, want, left in fold_cases():
        onnx.save(made, path)
        checked(path)
        done = run("fold", path, folded)
        numbers = tuple(int(word) for word in done.stderr.replace(",", "").split() if word.isdigit())[:3]
        casts = [node for node in every_node(checked(folded)) if node.op_type in ("Cast", "CastLike", "BitCast")]
        if done.returncode or (want and numbers != want) or len(casts) != left:
            fail(f"fold of {name}: {done.stderr.strip()}, {len(casts)} casts left, want {want} and {left}")
        command("fold", folded, again)
        same_bytes(f"{name} folded twice", again, folded)
        if want is None:
            continue
        after = onnx.load(folded)
        if [o.SerializeToString() for o in after.graph.output] != [o.SerializeToString() for o in made.graph.output]:
            fail(f"fold of {name}: the outputs are declared otherwise")
        initial = {tensor.name for tensor in made.graph.initializer} if made.ir_version < 4 else set()
        given = [one for one in made.graph.input if one.name not in initial]
        inputs = {one.name: INPUTS[one.type.tensor_type.elem_type] for one in given}
        for flag in (True, False) if "flag" in inputs else (None,):
            inputs |= {} if flag is None else {"flag": np.array(flag)}
            same(f"fold of {name}", outputs(folded, inputs), outputs(path, inputs))
        count += 1
    print(f"  {count} generated models folded, with equal outputs")


def weights(*sizes):
    rng = np.random.default_rng(2)
    return {f"w{i}": rng.standard_normal((4, size)).astype(np.float32) for i, size in enumerate(sizes)}


def products(arrays):
    """x times each array, added up."""
    nodes = " ".join(
        f"w{i}_x = MatMul(x, w{i}) w{i}_s = ReduceSum<keepdims=0>(w{i}_x) "
        f"w{i}_t = Add({f'w{i - 1}_t' if i else 'x'}, w{i}_s)"
        for i in range(len(arrays))
    )
    return model(f"{XY} {{ {nodes} y = Identity(w{len(arrays) - 1}_t) }}", opset=21, ir=10, **arrays)


def move_out(tensor, file, offset=None):
    """Says that a tensor's elements are in a file; returns them."""
    data = tensor.raw_data
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    place = {"location": file} | ({} if offset is None else {"offset": str(offset), "length": str(len(data))})
    for key, text in place.items():
        tensor.external_data.add(key=key, value=text)
    return data


def save_outside(made, folder, places):
    """The model, its initializers in other files: (file, offset) for each, or None."""
    for tensor, place in zip(made.graph.initializer, places, strict=True):
        if place:
            target = folder / place[0]
            target.parent.mkdir(exist_ok=True)
            with open(target, "r+b" if target.exists() else "wb") as out:
                out.seek(place[1])
                out.write(move_out(tensor, *place))
    onnx.save(made, folder / "model.onnx")
    return folder / "model.onnx"


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
    arrays, inputs = weights(100, 2000, 300, 8, 500), {"x": np.arange(4, dtype=np.float32)}
    outside = [("a.bin", 0), ("b.bin", 7), None, ("a.bin", 5000), ("sub/c.bin", 4096)]
    path = save_outside(products(arrays), folder, outside)
    original = outputs(path, inputs)
    halves = outputs(rounded(products(arrays), np.float16, folder / "rounded.onnx"), inputs)
    made = folder / "made"
    out, again = made / "out.onnx", made / "again" / "out.onnx"
    again.parent.mkdir(parents=True)
    for arguments, want in [
        ([], {"out.onnx.data": 4, "": 1}),
        (["--external-data", "o.bin"], {"o.bin": 5}),  # what was outside stays outside
        (["--external-data", "o.bin", "--external-threshold", "1"], {"o.bin": 5}),
        (["--external-threshold", "3000"], {"out.onnx.data": 2, "": 3}),
        (["--external-data", "o.bin", "--external-threshold", "99999"], {"": 5}),
    ]:
        command("cast", path, out, "--to", "float16", *arguments)
        checked(out)
        if places(out) != want:
            fail(f"cast with {arguments}: constants in {places(out)}, want {want}")
        same(f"cast with {arguments}", outputs(out, inputs), halves)
        command("cast", out, again, "--to", "float16", *arguments)
        for file in {"out.onnx", *want} - {""}:
            same_bytes(f"cast twice with {arguments}", again.parent / file, made / file)
        folded = again.with_name("folded.onnx")
        command("fold", out, folded, *arguments)
        same(f"fold with {arguments}", outputs(folded, inputs), halves)
        # In place, and back to the original's values.
        command("cast", path, out, "--to", "double", *arguments)
        command("fold", out, out, *arguments)
        checked(out)
        same(f"cast and fold in place with {arguments}", outputs(out, inputs), original)
    for name, says in {
        "../o.bin": "without a folder", "model.onnx.data/": "without a folder", "": "folder", "new.onnx": "is also OUT",
        "a.bin": "the input's own elements are there", "model.onnx": "is also IN",
    }.items():  # fmt: skip
        new = folder / "new.onnx"
        refused("cast", path, new, "--to", "float16", "--external-data", name, says=["external data", says])
    if (folder / "new.onnx").exists() or list(folder.glob(".onnx-cast*")):
        fail("what was refused has left files")
    print("  a model with its weights in three other files, with every way to store them")


def limited(*arguments):
    """Runs the command with 512 MiB of address space and half a minute, and returns what it said."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
    done = run(*arguments, preexec_fn=limit, timeout=30)
    if done.returncode == 1:
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status 1: {done.stderr}")
    return done


def hostile(folder):
    """What others wrote to do harm, or broke, and what is said of it."""

    def external(dims=(1024,), data_type=TensorProto.FLOAT, raw=None, **entries):
        tensor = TensorProto(name="w", data_type=data_type, dims=dims)
        if raw is None:
            tensor.data_location = TensorProto.EXTERNAL
            for key, text in entries.items():
                tensor.external_data.add(key=key, value=str(text))
        else:
            tensor.raw_data = raw
        made = model(f"() => (double[{','.join(map(str, dims))}] y) {{ y = Cast<to=double>(w) }}", opset=21, ir=10)
        made.graph.initializer.append(tensor)
        return made.SerializeToString()

    within, link = "want a path relative to the model's folder", "a symlink out of the model's folder"
    for location, says in {
        "../secret": within, "a/../../secret": within, folder / "secret": within, "": within, ".": within,
        "link.bin": link, "out/secret": link, "none.bin": "cannot be read: No such file", "pipe": "not a regular file",
        "hostile\0.bin": "cannot be read",
    }.items():  # fmt: skip
        yield external(location=location), says
    past = "has 4096 bytes (want 4096 from"
    for offset, says in {1: past, 2**64 - 1: past, 2**64: "is not a number", -1: "is not a number"}.items():
        yield external(location="w.bin", offset=offset), says
    yield external(offset=0), "external data without a location"
    yield external(location="w.bin", length=4095), "4095 bytes of external data for float (type and shape want 4096)"
    yield external((1 << 40,), location="w.bin"), "has 4096 bytes (want 4398046511104 from 0 on)"
    yield external((1 << 40, 1 << 40), location="w.bin"), "is too large"
    yield external((-1,), location="w.bin"), "dimension 0 is -1"
    yield external(data_type=TensorProto.STRING, location="w.bin"), "strings in external data"
    yield external((1 << 40,), raw=b""), "0 bytes of raw_data for 1099511627776 float"
    yield external(raw=bytes(4095)), "4095 bytes of raw_data for 1024 float (want 4096)"
    yield nested(33), "graphs nested more than 32 deep"
    yield nested(100_000), "graphs nested more than 32 deep"


def check_hostile(folder):
    """An error, in little memory, and no file."""
    inside = folder / "hostile"
    inside.mkdir()
    (folder / "secret").write_bytes(bytes(4096))
    (inside / "w.bin").write_bytes(bytes(4096))
    (inside / "link.bin").symlink_to(folder / "secret")
    (inside / "out").symlink_to(folder)
    os.mkfifo(inside / "pipe")
    path, count = inside / "model.onnx", 0
    for content, says in hostile(folder):
        path.write_bytes(content)
        for arguments in (["cast", path, inside / "no.onnx", "--to", "float16"], ["fold", path, inside / "no.onnx"]):
            done = limited(*arguments)
            if done.returncode != 2 or says not in done.stderr or len(done.stderr) > 1000:
                fail(f"hostile model {count}: {arguments[0]} says {done.stderr[:1000]!r}, want {says!r}")
        count += 1
    if {file.name for file in inside.iterdir()} != {"w.bin", "link.bin", "out", "pipe", "model.onnx"}:
        fail(f"hostile models have left files: {list(inside.iterdir())}")

    # More of everything than any model has.
    node, value = helper.make_node, helper.make_tensor_value_info
    types = (TensorProto.DOUBLE, TensorProto.FLOAT)
    chain = [node("Cast", [f"c{i}" if i else "w"], [f"c{i + 1}"], to=types[i % 2]) for i in range(20_000)]
    fan = [node("Cast", ["w"], [f"c{i}"], to=TensorProto.STRING) for i in range(20_000)]
    same_name = [node("Constant", [], ["n"], value_floats=[0.0] * 4) for _ in range(5_000)]
    ones = numpy_helper.from_array(np.ones((1,) * 60 + (1000,), np.int8), "w")
    for nodes, output in [
        (chain, value("c20000", TensorProto.FLOAT, None)), (fan, value("c0", TensorProto.STRING, None)),
        (same_name, value("n", TensorProto.FLOAT, [4])),
    ]:  # fmt: skip
        made = helper.make_model(helper.make_graph(nodes, "graph", [], [output], [ones]))
        del made.opset_import[:]
        made.opset_import.append(helper.make_opsetid("", 21))
        path.write_bytes(made.SerializeToString())
        for arguments in (["cast", "--to", "float16", "--min-elements", "1"], ["fold"]):
            if limited(*arguments, path, inside / "out.onnx").returncode:
                fail(f"{arguments[0]} refuses a model of many nodes")

    print(f"  {count} hostile models refused, and models of very many nodes taken")


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
    words = [COMMAND, *map(str, arguments)]
    child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
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
    path, out = folder / "large.onnx", folder / "small.onnx"
    for outside in (True, False):
        tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[size // 4])
        made = model("() => (int64 y) { y = Size(w) }", opset=21, ir=10)
        if outside:
            move_out(tensor, "w.bin")
            (folder / "w.bin").write_bytes(b"")
            os.truncate(folder / "w.bin", size)
            made.graph.initializer.append(tensor)
            path.write_bytes(made.SerializeToString())
        else:
            write_with_hole(made, tensor, size, path)
        peak = max(peak_memory("cast", path, out, "--to", "float8e4m3fn", "--stats"),
                   peak_memory("info", path, "--stats"), peak_memory("diff", path, path))  # fmt: skip
        written = (folder / "small.onnx.data" if outside else out).stat().st_size
        side = "outside" if outside else "inside"
        if not size // 4 <= written < size // 4 + 4096 or peak > 64 << 20:
            fail(f"1 GiB {side}: {written} bytes written, {peak} bytes of memory taken")
        print(f"  cast, info and diff of 1 GiB {side} a model, in {peak >> 20} MiB of memory")
        for file in [path, out, *folder.glob("small.onnx.data"), *folder.glob("w.bin")]:
            file.unlink()


def write_with_hole(made, tensor, size, path):
    """The model, with an initializer whose elements are `size` zeros."""
    tensor = tensor.SerializeToString() + b"\x4a" + varint(size)
    graph = made.graph.SerializeToString() + b"\x2a" + varint(len(tensor) + size) + tensor
    made.ClearField("graph")
    head = made.SerializeToString() + b"\x3a" + varint(len(graph) + size) + graph
    path.write_bytes(head)
    os.truncate(path, len(head) + size)


def check_sparse(folder):
    """A sparse initializer stays, byte for byte, beside others that are cast; in another file it is refused by name."""
    values = numpy_helper.from_array(np.array([0.1, -2.5, 1e-9], np.float32), "s")
    indices = numpy_helper.from_array(np.array([0, 300, 1023], np.int64), "s_indices")
    text = """() => (float[4,256] y)
    { a = Add(s, w0) h = Cast<to=float16>(s) b = Cast<to=float>(h) y = Add(a, b) }"""
    made = model(text, opset=21, ir=10, **weights(256))
    made.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4, 256]))
    path, out, folded = (folder / f"{name}.onnx" for name in ("sparse", "small", "folded"))
    onnx.save(made, path)
    command("cast", path, out, "--to", "float16")
    command("fold", out, folded)
    want = outputs(rounded(onnx.load(path), np.float16, folder / "rounded.onnx"), {})
    for name in (out, folded):
        if onnx.load(name).graph.sparse_initializer != made.graph.sparse_initializer:
            fail(f"{name.name}: the sparse initializer is another")
        same(f"{name.name}, sparse", outputs(name, {}), want)
    if run("info", path).stdout.count("s/values") != 1:
        fail("info does not list the values of a sparse initializer")
    (folder / "s.bin").write_bytes(move_out(made.graph.sparse_initializer[0].values, "s.bin"))
    onnx.save(made, path)
    for arguments in (["cast", "--to", "float16"], ["fold"]):
        refused(*arguments, path, folder / "no.onnx", says=["`s`", "sparse"])
    if (folder / "no.onnx").exists():
        fail("what was refused has left a file")
    print("  a sparse initializer kept, and refused in another file")


def branching(large, then="r = ReduceSum<keepdims=0>(p)", twice="b = Add(a, a)"):
    """A model with a branch, and a function."""
    row = ", ".join(map(repr, large[0].tolist()))
    return model(
        f"""(float[4] x, bool flag) => (float y) {{ s = If<
        else_branch = else () => (float r)
        {{ v = Constant<value = float[256] v {{{row}}}>() r = ReduceSum<keepdims=0>(v) }},
        then_branch = then () => (float r) {{ p = MatMul(x, w) {then} }}>(flag) y = own.Twice(s) }}""",
        opset=13, ir=7, domains=["own"], w=large,
        functions=f'<domain: "own", opset_import: ["" : 13]> Twice (a) => (b) {{ {twice} }}',
    )  # fmt: skip


def check_raised(folder):
    """The opset goes up, and what cannot go with it is named."""
    no, path, out = (folder / f"{name}.onnx" for name in ("no", "model", "raised"))
    float8 = ["--to", "float8e4m3fn"]
    says = ["Cast takes float8e4m3fn from opset 19 on, and the model imports 15", "--raise-opset"]
    refused("cast", MAGIKA, no, *float8, says=says)
    for real in (MAGIKA, NUDENET):
        command("cast", real, out, *float8, "--raise-opset")
        if checked(out).opset_import[0].version != 19:
            fail(f"{real.name}: not raised")
        session(out)

    large = np.linspace(-2, 2, 1024, dtype=np.float32).reshape(4, 256)
    onnx.save(branching(large), path)
    command("cast", path, out, *float8, "--raise-opset")
    raised = checked(out)
    imports = [(one.domain, one.version) for one in [*raised.opset_import, *raised.functions[0].opset_import]]
    if imports != [("", 19), ("own", 1), ("", 19)] or raised.ir_version != 9:
        fail(f"raised: {imports}, version {raised.ir_version} of the format")
    if sum(node.op_type == "Cast" for node in every_node(raised)) != 2:
        fail("raised: a constant of a branch was not cast")
    eighths = large.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    x = np.arange(4, dtype=np.float32)
    for flag, want in (True, (x @ eighths).sum()), (False, eighths[0].sum()):
        near("raised", outputs(out, {"x": x, "flag": np.array(flag)}), [np.asarray(2 * want)], 1e-5)

    # What a function or a branch holds counts as well.
    norm = "{}, mean, var = BatchNormalization({})".format
    for made, says in [
        (branching(large, twice="[norm] " + norm("b", "a, a, a, a, a")),
         ["node `norm` (BatchNormalization) in function `Twice`", "training mode"]),
        (branching(large, then=norm("r", "p, p, p, p, p")), ["(BatchNormalization) in `"]),
    ]:  # fmt: skip
        onnx.save(made, path)
        refused("cast", path, no, *float8, "--raise-opset", says=says)
    if no.exists():
        fail("what was refused has left a file")
    print("  opsets raised with functions and branches, or refused by name")


def main():
    need(COMMAND, MAGIKA, NUDENET, LIGHT)
    tasks = [(one,) for one in (check_light, check_hostile, check_memory, check_folds, check_external, check_sparse,
                                check_raised, check_quantized)]  # fmt: skip
    inputs = real_inputs()
    for name, path in {"nudenet": NUDENET, "magika": MAGIKA}.items():
        tasks.append((check_cast, name, path, inputs[path], ["float16", "bfloat16"]))
        tasks.append((check_newer, name, path, inputs[path]))
    in_processes(in_folder, tasks)


if __name__ == "__main__":
    main()
