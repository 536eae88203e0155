#!/usr/bin/env python3
"""Models converted to float16 and bfloat16, by the command and by what people use instead.

    python bench/precision.py COMMAND FOLDER [--peer NAME=PYTHON ...]

The models are those of `scripts/checks/precision_models.py` and of `precision_real.py`, fetched into FOLDER; with
--light the light models of onnx, converted with their recorded ranges. A peer is one of onnxconverter-common, onnxruntime
(its transformers/float16.py), modelopt (autocast), modelopt-f16 (its convert_to_f16) and onnxsim; PYTHON is an
interpreter that has it. Of each result: whether onnxruntime loads it, whether onnx.checker takes it, whether it is right
(within 1e-2 of the largest magnitude, 8e-2 for bfloat16, median of 8 inputs, no NaN), for how many inputs it decides the
same as the float model (`precision_decisions.py`), how many Casts are new, seconds and peak memory. onnxruntime computes
float16 on a CPU as float between nodes; what an emulated model gives is the command's own column.

With --verified the conversions are those that are given inputs: `onnx_cast.convert_model(inputs=...)` of the Python
package that runs this, and a peer modelopt (autocast with calibration data), of MEASURED models, with how many nodes stay
float. Tables as in records/precision.md come last.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

import harness
import numpy as np
import onnx
import onnxruntime

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts" / "checks"))

import precision_decisions  # noqa: E402
import precision_models  # noqa: E402
import precision_real  # noqa: E402

# How each peer is asked: float16 with the types of inputs and outputs kept.
PEERS = {
    "onnxconverter-common": """
from onnxconverter_common import float16
onnx.save(float16.convert_float_to_float16(onnx.load(source), keep_io_types=True), target)
""",
    "onnxruntime": """
from onnxruntime.transformers import float16
onnx.save(float16.convert_float_to_float16(onnx.load(source), keep_io_types=True), target)
""",
    "modelopt": """
from modelopt.onnx.autocast import convert_to_mixed_precision
onnx.save(convert_to_mixed_precision(onnx_path=source, low_precision_type=low, keep_io_types=True), target)
""",
    "modelopt-f16": """
from modelopt.onnx.autocast import convert_to_f16
onnx.save(convert_to_f16(onnx.load(source), low_precision_type=low, keep_io_types=True), target)
""",
    "onnxsim": """
import onnxsim
quantize = {"fp16": onnxsim.quantize_fp16, "bf16": onnxsim.quantize_bf16}[low]
onnx.save(quantize(onnx.load(source)), target)
""",
}
# Conversions that are given inputs, of which there is one here. Of the second, nodes stay float whose values pass its limits.
VERIFIED = {
    "onnx-cast": """
import onnx_cast
feeds = dict(numpy.load(feeds))
onnx_cast.convert_model(source, target, to=to, inputs=feeds, tolerance=limit, raise_opset=to == "bfloat16")
""",
    "modelopt": """
from modelopt.onnx.autocast import convert_to_mixed_precision
onnx.save(convert_to_mixed_precision(
    onnx_path=source, low_precision_type=low, keep_io_types=True, calibration_data=feeds), target)
""",
}
# Of each kind of model some: generated ones that are about values, and small real ones of every package.
MEASURED = """kept_cast epsilon unnamed two_readers branches loop overflow_inside mask constant_mask large_weight functions recurrent
    basic-pitch__nmp ddddocr__common faster-whisper__silero_vad_v6 magika__standard_v3_3_model nudenet__320n
    openwakeword__alexa_v0.1 openwakeword__embedding_model openwakeword__hey_jarvis_v0.1 openwakeword__melspectrogram
    piper-tts__nakdimon piper-tts__tashkeel_model rapidocr-onnxruntime__ch_ppocr_mobile_v2.0_cls_infer
    rapidocr-onnxruntime__ch_PP-OCRv4_rec_infer silero-vad__silero_vad_16k_sequence""".split()
# How far a result may be off: bfloat16 has three digits less.
LIMITS = {"float16": 1e-2, "bfloat16": 8e-2}
LEVELS = [onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL]
TYPES = {"tensor(float16)": np.float16, "tensor(float)": np.float32}


def session(path, level=LEVELS[1]):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(loaded, feeds):
    types = {one.name: one.type for one in loaded.get_inputs() if one.name in feeds}
    return loaded.run(None, {name: np.asarray(feeds[name], TYPES.get(types[name])) for name in types})


def error(want, got):
    worst = 0.0
    for one, other in zip(want, got, strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        if one.size:
            distance = np.abs(one - other).max() / max(np.abs(one).max(), 1e-30)
            worst = max(worst, distance if np.isfinite(distance) else np.inf)
    return worst


def casts(path):
    def of(graph):
        inner = (a for n in graph.node for a in n.attribute)
        graphs = [g for a in inner for g in ([a.g] if a.HasField("g") else []) + list(a.graphs)]
        return sum(n.op_type == "Cast" for n in graph.node) + sum(map(of, graphs))

    model = onnx.load(path, load_external_data=False)
    return of(model.graph) + sum(n.op_type == "Cast" for f in model.functions for n in f.node)


def float_nodes(path):
    """The nodes of the main graph that give floats, and how many give narrow ones, but for Casts and constants."""
    known = onnx.shape_inference.infer_shapes(onnx.load(path))
    types = {one.name: one.type.tensor_type.elem_type for one in [*known.graph.value_info, *known.graph.output]}
    found = [{types.get(name) for name in node.output} for node in known.graph.node if node.op_type not in ("Cast", "Constant")]
    narrow = sum(bool(one & {onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16}) for one in found)
    return sum(onnx.TensorProto.FLOAT in one for one in found), narrow


def models(folder, light):
    for name, model, feeds in precision_models.made():
        path = folder / f"{name}.onnx"
        onnx.save(model, path)
        yield name, path, [feeds], None
    for name, path, kind in precision_real.fetch(folder):
        loaded = session(path)
        yield name, path, [precision_real.feeds(kind, loaded, seed) for seed in range(8)], kind
    for name, path in precision_real.light() if light else []:
        yield name, path, [precision_real.feeds("light", session(path), 0)], "light"


def ranges(command, path, feed, folder):
    """The option that tells what values a model takes on: what it gives as recorded."""
    recorded, found = folder / "recorded.onnx", folder / "ranges.npz"
    subprocess.run([command, "record", path, recorded, "--force", "--quiet"], check=True)
    loaded = session(recorded)
    names = [one.name for one in loaded.get_outputs() if one.name.startswith("onnx_cast_record/")]
    np.savez(found, **dict(zip(names, loaded.run(names, feed), strict=True)))
    return ["--ranges", str(found)]


def decided(model, kind, want, got):
    """For how many inputs a result decides the same, and of how many; none of a model that decides nothing."""
    pairs = [[precision_decisions.decision(model, kind, one) for one in pair] for pair in zip(want, got, strict=True)]
    if kind is None or pairs[0][0] is None:
        return None
    return sum(precision_decisions.same(*pair) for pair in pairs), len(pairs)


def judge(model, kind, path, target, feeds, want, limit):
    """Whether a result loads, is valid and right, what it decides, and its Casts beyond those of the model."""
    valid = loads = right = True
    distance = decisions = None
    try:
        onnx.checker.check_model(str(target), full_check=True)
    except Exception:  # the checker raises many
        valid = False
    try:
        for level in LEVELS:
            loaded = session(target, level)
            got = [run(loaded, feed) for feed in feeds]
            distance = statistics.median(error(*pair) for pair in zip(want, got, strict=True))
            decisions = kind and decided(model, kind, want, got)
            right = right and distance <= limit
    except Exception:  # and so does onnxruntime
        loads = right = False
    return valid, loads, right, distance, decisions, casts(target) - casts(path)


def jobs_of(options):
    """How each converter is called, by name."""
    raised = ["--raise-opset"] if options.low == "bfloat16" else []
    convert = [options.command, "convert", "--force", "SOURCE", "TARGET", "--to", options.low, *raised]
    jobs = {"onnx-cast": convert, "onnx-cast, --keep none": [*convert, "--keep", "none"],
            "onnx-cast, emulated": [*convert, "--emulate"]}
    peers, codes = [peer.split("=", 1) for peer in options.peer], PEERS
    if options.verified:
        jobs, peers, codes = {}, [("onnx-cast", sys.executable), *peers], VERIFIED
    for name, python in peers:
        low = {"float16": "fp16", "bfloat16": "bf16"}[options.low]
        code = f"import sys, numpy, onnx\nsource, target, low = 'SOURCE', 'TARGET', {low!r}\n"
        code += f"feeds, to, limit = 'FEEDS', {options.low!r}, {LIMITS[options.low]}\n"
        jobs[name] = [python, "-c", code + codes[name]]
    return jobs


def converted(job, path, target):
    """What a conversion took; none where it fails."""
    target.parent.mkdir(parents=True, exist_ok=True)
    names = {"SOURCE": path, "TARGET": target, "FEEDS": path.with_suffix(".npz")}
    replaced = [str(part) for part in job]
    for name, one in names.items():
        replaced = [part.replace(name, str(one)) for part in replaced]
    try:
        took = harness.process(replaced, stderr=subprocess.DEVNULL, timeout=300)
    except subprocess.TimeoutExpired:
        took = None
    return took if target.exists() else None


def cell(judged):
    """What became of a model, as in the table of all models."""
    if judged is None:
        return "fails"
    valid, loads, right, distance, _, new = judged
    if not loads:
        return f"no; {new}"
    text = ("right" if right else "loads") + ("" if valid else ", not valid") + ("" if right else f" ({distance:.1e})")
    return f"{text}; {new}"


def tables(rows, took):
    """The tables of a record, from what was judged of each model by each converter."""
    jobs = list(took)
    print("\n| by | models | loads | valid | right | all three | new Casts | seconds | MB at most |\n" + "|---" * 9 + "|")
    for by in jobs:
        judged = [row[by] for row in rows.values() if row[by]]
        counts = [sum(map(bool, one)) for one in zip(*((loads, valid, right, loads and valid and right)
                                                      for valid, loads, right, *_ in judged))]
        casts, seconds = sum(one[5] for one in judged), sum(one.clock for one in took[by])
        shown = " | ".join(map(str, counts))
        print(f"| {by} | {len(rows)} | {shown} | {casts} | {seconds:.1f} | {max(one.memory for one in took[by]):.0f} |")
    print("\n| model | " + " | ".join(jobs[:3]) + " |\n" + "|---" * 4 + "|")
    for model, row in rows.items():
        decisions = [row[by][4] if row[by] else None for by in jobs[:3]]
        if any(decisions) and len(decisions) == 3:
            print(f"| {model} | " + " | ".join("{} of {}".format(*one) if one else "" for one in decisions) + " |")
    print("\n| model | " + " | ".join(jobs) + " |\n" + "|---" * (len(jobs) + 1) + "|")
    for model, row in rows.items():
        print(f"| {model} | " + " | ".join(cell(row[by]) for by in jobs) + " |")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("command", type=Path)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    arguments.add_argument("--low", default="float16", choices=["float16", "bfloat16"])
    arguments.add_argument("--only", default="", help="models whose names contain this")
    arguments.add_argument("--real", action="store_true", help="the real models alone")
    arguments.add_argument("--light", action="store_true", help="the light models of onnx, too")
    arguments.add_argument("--verified", action="store_true", help="conversions that are given inputs")
    options = arguments.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    jobs = jobs_of(options)
    rows, took = {}, {by: [] for by in jobs}
    for model, path, feeds, kind in models(options.folder, options.light):
        if options.only not in model or options.real and not kind or options.verified and model not in MEASURED:
            continue
        if options.verified:
            np.savez(path.with_suffix(".npz"), **feeds[0])
        # The light models add up constants beyond what float16 holds.
        extra = ranges(options.command, path, feeds[0], options.folder) if kind == "light" else []
        outputs = options.folder / "converted" / options.low
        targets = {by: outputs / by.replace(" ", "_") / f"{model}.onnx" for by in jobs}
        for by, job in jobs.items():
            done = converted(job + extra if by.startswith("onnx-cast") else job, path, targets[by])
            took[by] += [done] if done else []
            targets[by] = targets[by] if done else None
        loaded = session(path)
        want = [run(loaded, feed) for feed in feeds]
        rows[model] = {by: target and judge(model, kind, path, target, feeds, want, LIMITS[options.low])
                       for by, target in targets.items()}
        for by, judged in rows[model].items():
            far = f"{judged[3]:.1e}" if judged and judged[3] is not None else ""
            stay = " of ".join(map(str, float_nodes(targets[by]))) if judged and options.verified else ""
            print(f"{model}, {by}: {cell(judged)} {far} {stay}", *[f"{took[by][-1].clock:.1f} s"] * bool(stay), flush=True)
    tables(rows, took)


if __name__ == "__main__":
    main()
