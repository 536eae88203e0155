#!/usr/bin/env python3
"""Do the models that the command writes load, and give what they should?

Takes real models (magika's, nudenet's, onnx's own light ones) and generated ones, has the command cast their weights, fold
their Casts and raise their opsets, checks every result with onnx.checker and runs it in onnxruntime beside the model that
it was made from. A cast model must give, bit for bit, what the model gives whose weights Python has rounded; a cast
that loses nothing, and a fold, what the original gives.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
COMMAND = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "onnx-cast"
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
    sys.exit(f"check_models: {text}")


def run(*arguments):
    arguments = [COMMAND, *map(str, arguments)]
    return subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True)


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
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
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
    print(f"  {name}: {large} weights to {', '.join(types)}, and to double without a difference")


def main():
    for path in (COMMAND, MAGIKA, NUDENET, LIGHT):
        if not path.exists():
            fail(f"{path} is missing: run `bash scripts/test.sh`")
    rng = np.random.default_rng(1)
    magika = {"bytes": rng.integers(0, 257, (2, 2048)).astype(np.int32)}
    nudenet = {"images": rng.random((1, 3, 320, 320), dtype=np.float32)}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        check_cast(folder, "magika", MAGIKA, magika, ["float16", "bfloat16"])
        check_cast(folder, "nudenet", NUDENET, nudenet, ["float16", "bfloat16"])
        for name, path, inputs in [("magika", MAGIKA, magika), ("nudenet", NUDENET, nudenet)]:
            newer = folder / "newer.onnx"
            onnx.save(onnx.version_converter.convert_version(onnx.load(path), 19), newer)
            check_cast(folder, f"{name} at opset 19", newer, inputs, ["float8e4m3fn"])


if __name__ == "__main__":
    main()
