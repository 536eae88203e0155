#!/usr/bin/env python3
"""Do converted models load, and compute what the float model does?

Has the command convert generated models (precision_models.py) and real ones to float16, with several options, and to
bfloat16, and emulate that. Every result is checked by onnx.checker and strict inference, converting again must give the
same bytes, and onnxruntime runs it at every level of optimization, near the float model. It has no bfloat16 on a CPU:
onnx's reference evaluator runs that, where it computes the float model as onnxruntime does.

Models that need more than a narrow type in places (precision_sensitive.py, and what torch exported) must be right in
both types by all of these, and what looks like them must become narrow as a whole. With --nodes it takes all of onnx's
own node tests of float16 too.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import onnx
from graphs import LEVELS, MAGIKA, NUDENET, distance, real_inputs, session
from onnx.reference import ReferenceEvaluator
from precision_models import made
from precision_sensitive import exports, narrow, sensitive
from shared import COMMAND, command, counts, fail, finish, in_shares, need

# Options, and how far an output may be off, in parts of its largest magnitude.
VARIANTS = {
    "float16": (["--to", "float16"], 1e-2),
    "all": (["--to", "float16", "--keep", "none"], 2e-2),
    "low": (["--to", "float16", "--io", "low"], 1e-2),
    "emulated": (["--to", "float16", "--emulate"], 1e-2),
    "bfloat16": (["--to", "bfloat16"], None),
    "raised bfloat16": (["--to", "bfloat16", "--raise-opset"], None),
    "emulated bfloat16": (["--to", "bfloat16", "--emulate"], 1e-1),
}

# Of layer normalizations too, parts of which are decided by name.
NORM_VARIANTS = {
    "norms kept": (["--to", "float16", "--keep", "sensitive", "--keep", "Mul", "--keep", "Add"], 1e-2),
    "bias kept": (["--to", "float16", "--keep", "sensitive", "--keep", "Add"], 1e-2),
    "scale low": (["--to", "float16", "--low", "Mul"], 1e-2),
    "emulated norms": (["--to", "float16", "--keep", "sensitive", "--keep", "Mul", "--keep", "Add", "--emulate"], 1e-2),
    "emulated sensitive bfloat16": (["--to", "bfloat16", "--keep", "sensitive", "--emulate"], 1e-1),
}

# How far what the reference evaluator computes in bfloat16 may be off.
BFLOAT16_LIMIT = 1e-1

# How far a model that is sensitive in places may be off: in onnxruntime, by the reference evaluator, and emulated. And
# how far what is emulated may be from what the reference evaluator computes in the type: a quarter of that, since sums
# within a node, which emulation does not show, are rounded in another order.
LIMITS = {"float16": 1e-2, "bfloat16": 8e-2}
APART = {"float16": 2.5e-3, "bfloat16": 2e-2}

# Models that are right without what is kept for the sake of digits: a mask is finite anyway, torch's own functions of
# logarithms are off by four fifths of the limit, and emulation does not show what is added up within a node.
RIGHT_ANYWAY = {"losses_dynamo", "losses_script", "lowest_mask", "sums_by_index"}

# onnxruntime has no RoiAlign of opset 22.
NOT_RAISED = {"regions"}


def outputs(path, feeds, level):
    """What a model gives, its inputs in the types that it wants."""
    loaded = session(path, level)
    types = {"tensor(float16)": np.float16, "tensor(float)": np.float32}
    inputs = {one.name: one.type for one in loaded.get_inputs() if one.name in feeds}
    feeds = {name: np.asarray(feeds[name], types.get(of_type)) for name, of_type in inputs.items()}
    return loaded.run(None, feeds)


def evaluated(path, feeds):
    return ReferenceEvaluator(onnx.load(path)).run(None, feeds)


def problem_of(path):
    """What onnx.checker or strict inference say against a model; none of a valid one."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
        onnx.shape_inference.infer_shapes(onnx.load(str(path)), check_type=True, strict_mode=True, data_prop=True)
    except Exception as problem:  # whatever the checker raises
        return problem
    return None


def convert(name, path, folder, arguments, valid=True):
    """The converted model, which converting again does not change, and which is valid, unless the model is not."""
    target = folder / "converted.onnx"
    for source, to in [(path, target), (target, folder / "again.onnx")]:
        command("convert", source, to, *arguments)
    if target.read_bytes() != (folder / "again.onnx").read_bytes():
        fail(f"{name}: convert {' '.join(arguments)}: converting again changes it")
    problem = problem_of(target)
    if problem and valid:
        fail(f"{name}: convert {' '.join(arguments)}: not valid: {problem}")
    counts["models that the checker refuses, as the original"] += problem is not None
    counts["models converted"] += 1
    return target


def check(name, path, feeds, folder, variants=VARIANTS):
    want = outputs(path, feeds, LEVELS[-1])
    for arguments, tolerance in variants.values():
        target = convert(name, path, folder, arguments)
        for level in LEVELS if tolerance else []:
            gap = distance(want, outputs(target, feeds, level))
            if gap > tolerance:
                fail(f"{name}: convert {' '.join(arguments)}: off by {gap} of the largest value")
            counts["runs near the float model"] += 1
        if "bfloat16" in arguments and "--emulate" not in arguments:
            check_evaluated(name, path, target, feeds, want)


def check_evaluated(name, path, target, feeds, want):
    """A model of bfloat16, by the reference evaluator, where that is right about the float model."""
    try:
        if distance(want, evaluated(path, feeds)) > 1e-3:
            return
    except Exception:  # whatever an operator of the evaluator raises, or results of another shape
        return
    gap = distance(want, evaluated(target, feeds))
    if gap > BFLOAT16_LIMIT:
        fail(f"{name} in bfloat16: off by {gap} of the largest value, by the reference evaluator")
    counts["models of a narrow type evaluated"] += 1


def check_sensitive(name, path, feeds, folder):
    """A model that needs more than a narrow type in places: right in both types, and wrong in one without what is
    kept."""
    want = outputs(path, feeds, LEVELS[-1])
    is_evaluated = distance(want, evaluated(path, feeds)) < 1e-3
    worst = 0.0
    for low, limit in LIMITS.items():
        raised = ["--raise-opset"] if low == "bfloat16" and name not in NOT_RAISED else []
        emulated = convert(name, path, folder, ["--to", low, "--emulate", *raised])
        held = [outputs(emulated, feeds, level) for level in LEVELS]
        target = convert(name, path, folder, ["--to", low, *raised])
        if low == "float16":
            held += [outputs(target, feeds, level) for level in LEVELS]
        distances = [distance(want, got) for got in held]
        if is_evaluated:
            computed = evaluated(target, feeds)
            distances.append(distance(want, computed))
            apart = distance(held[0], computed)
            if apart > APART[low]:
                fail(f"{name} in {low}: what is emulated is {apart} of the largest value from what the type gives")
            counts["models of a narrow type evaluated"] += 1
        if max(distances) > limit:
            fail(f"{name} in {low}: off by {distances} of the largest value")
        counts["runs near the float model"] += len(distances)
        emulated = convert(name, path, folder, ["--to", low, "--keep", "none", "--emulate", *raised])
        worst = max(worst, distance(want, outputs(emulated, feeds, LEVELS[-1])) / limit)
    if worst < 1 and name not in RIGHT_ANYWAY:
        fail(f"{name}: is no case, off by {worst} of the limit with --keep none")


def check_narrow(name, path, feeds, folder):
    """A model that looks like those, and becomes narrow as a whole."""
    for low, limit in LIMITS.items():
        done = command("convert", path, folder / "narrow.onnx", "--to", low, "--dry-run", "--json")
        nodes = json.loads(done.stdout)["nodes"]
        wide = [f"{node['node']} ({node['operator']}): {node['why']}" for node in nodes if node["type"] != low]
        if wide:
            fail(f"{name} in {low}: stays float: {wide}")
        emulated = convert(name, path, folder, ["--to", low, "--emulate"])
        gap = distance(outputs(path, feeds, LEVELS[-1]), outputs(emulated, feeds, LEVELS[-1]))
        if gap > limit:
            fail(f"{name} in {low}: off by {gap} of the largest value")


def check_float8(folder):
    """float8, of a model whose opset has no Cast to it."""
    path, target = folder / "model.onnx", folder / "float8.onnx"
    onnx.save(next(model for name, model, _ in made() if name == "two_readers"), path)
    command("convert", path, target, "--to", "float8e4m3fn", "--emulate", "--raise-opset", "--quiet")
    casts = [one.i for node in onnx.load(target).graph.node for one in node.attribute if node.op_type == "Cast"]
    if onnx.TensorProto.FLOAT8E4M3FN not in casts:
        fail("float8 is not emulated where the opset is raised")


def real_models():
    """Real ones, magika with a text."""
    text = np.random.default_rng(1).choice(np.frombuffer(b"def main(): return int foo {} ;\n", np.uint8), 2048)
    yield "magika", MAGIKA, {"bytes": text.astype(np.int32)[None]}
    yield "nudenet", NUDENET, real_inputs()[NUDENET]


def node_tests():
    """onnx's own node tests of floats."""
    from onnx.backend.test.loader import load_model_tests

    for case in load_model_tests(kind="node"):
        path = Path(case.model_dir) / "model.onnx"
        inputs = onnx.load(path).graph.input
        if any(one.type.tensor_type.elem_type == onnx.TensorProto.FLOAT for one in inputs):
            yield case.name, path, Path(case.model_dir) / "test_data_set_0"


def check_node(name, path, data, folder):
    """Converted throughout, inputs included, a node test is valid and loads wherever it did before."""
    try:
        session(path, LEVELS[0])
    except Exception:  # onnxruntime does not know the operator or its version
        return
    target = convert(name, path, folder, ["--to", "float16", "--keep", "none", "--io", "low"], problem_of(path) is None)
    try:
        session(target, LEVELS[0])
    except Exception as problem:  # onnxruntime has no kernel for float16, whatever ONNX says
        if "NOT_IMPLEMENTED" not in str(problem):
            fail(f"{name}: converted, it does not load: {problem}")
    counts["node tests"] += 1


SHARES = 4


def share_of(folder, share, nodes):
    path = folder / "model.onnx"
    for name, model, feeds in list(made())[share::SHARES]:
        onnx.save(model, path)
        onnx.checker.check_model(str(path), full_check=True)
        check(name, path, feeds, folder, VARIANTS | (NORM_VARIANTS if "norm" in name else {}))
    cases = [(check_sensitive, *one) for one in [*sensitive(), *exports()]] + [(check_narrow, *one) for one in narrow()]
    for judge, name, model, feeds in cases[share::SHARES]:
        onnx.save(model, path)
        judge(name, path, feeds, folder)
    for name, real, feeds in list(real_models())[share::SHARES]:
        check(name, real, feeds, folder, {one: VARIANTS[one] for one in ("float16", "emulated", "raised bfloat16")})
    if share == 0:
        check_float8(folder)
    for case in list(node_tests())[share::SHARES] if nodes else []:
        check_node(*case, folder)


def main():
    need(COMMAND)
    os.environ.setdefault("ORT_LOGGING_LEVEL", "4")
    in_shares([(share_of, share, "--nodes" in sys.argv[1:]) for share in range(SHARES)])
    finish()


if __name__ == "__main__":
    main()
