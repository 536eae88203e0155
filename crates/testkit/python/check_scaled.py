"""Compares the oracle of QuantizeLinear and its family with onnx's reference evaluator and onnxruntime.

Run it as `python3 crates/testkit/python/check_scaled.py`, where onnx, onnxruntime and ml_dtypes can be imported. Each
element has a scale and a zero point of its own: a tensor of one column, quantized along its rows. Any difference that
is not one of the named ones below is an error, and so is a named one that does not occur.
"""

import sys
import warnings

import ml_dtypes
import numpy as np
import onnxruntime
from check_oracle import NUMPY, Tally, bits_of, values_of
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from oracle_table import blocks

NAMED = {
    "reference: quotients past int32, and infinite ones": "the lowest integer, or one that wrapped",
    "reference: NaN to an integer": "the lowest of int32, to which the zero point is added",
    "reference: NaN to float4e2m1": "+0, where Cast gives -0",
    "reference: -0 to float4e2m1": "+0, because 0 is added",
    "reference: DynamicQuantizeLinear of zeros": "the scale is 1 / 255",
    "onnxruntime: quotients past int32, and infinite ones": "the lowest integer, or one that wrapped",
    "onnxruntime: NaN to an integer": "not the lowest integer",
    "onnxruntime: quotients of float16": "kept in float",
    "onnxruntime: 480 up to 496 to float8e4m3fn, saturate=0": "448",
    "onnxruntime: 61440 up to 65536 to float8e5m2, saturate=0": "NaN",
    "NaN that arises": "has the sign that the processor gives it",
}
REFERENCE, ORT = "reference", "onnxruntime"
INTEGERS = {f"{sign}int{bits}": (bits, not sign) for sign in ("", "u") for bits in (2, 4, 8, 16, 32)}
TYPES = NUMPY | {name: getattr(ml_dtypes, name) for name in INTEGERS if name not in NUMPY}
ONNX = {name: getattr(TensorProto, name.upper()) for name in TYPES if hasattr(TensorProto, name.upper())}
# Of the types of numbers, those of which onnxruntime takes and gives arrays.
ORT_FLOATS = ("float", "float16")
# It takes none of these; a Cast, which is exact, stands between.
BETWEEN = {name: "int8" if signed else "uint8" for name, (bits, signed) in INTEGERS.items() if bits < 8}
BETWEEN |= {name: "float" for name in ONNX if name.startswith(("float8e4", "float8e5", "float4"))}
PAST_LARGEST = {"float8e4m3fn": (480, 496), "float8e5m2": (61440, 65536)}


def array_of(name, bits):
    """Numbers of a type, as a column."""
    if name not in NUMPY:
        width, signed = INTEGERS[name]
        values = bits.astype(np.int64)
        values = np.where(signed & (values >> (width - 1) == 1), values - (1 << width), values)
        return values.astype(TYPES[name]).reshape(-1, 1)
    return values_of(name, bits).reshape(-1, 1)


def codes_of(name, values):
    """The bit patterns of a column of numbers."""
    if name not in NUMPY:
        return values.reshape(-1).astype(np.int64).astype(np.uint64) & np.uint64((1 << INTEGERS[name][0]) - 1)
    return bits_of(np.ascontiguousarray(values.reshape(-1)))


def run(peer, operator, from_, to, arrays, **attributes):
    """The outputs of a model of one node, with the types of its inputs and outputs; None where a peer lacks it."""
    between = BETWEEN if peer == ORT else {}
    inputs, outputs = ([between.get(name, name) for name in names] for names in (from_, to))
    exact = {"saturate": 0}
    nodes = [
        helper.make_node("Cast", [f"i{i}"], [f"x{i}"], to=ONNX[name], **(exact if name.startswith("float8") else {}))
        for i, name in enumerate(from_)
        if name in between
    ]
    names = [f"{'x' if name in between else 'i'}{i}" for i, name in enumerate(from_)]
    results = [f"{'r' if name in between else 'o'}{i}" for i, name in enumerate(to)]
    nodes.append(helper.make_node(operator, names, results, **attributes))
    nodes += [
        helper.make_node("Cast", [f"r{i}"], [f"o{i}"], to=ONNX[between[name]])
        for i, name in enumerate(to)
        if name in between
    ]
    ends = [
        [helper.make_tensor_value_info(f"{letter}{i}", ONNX[name], None) for i, name in enumerate(names)]
        for letter, names in (("i", inputs), ("o", outputs))
    ]
    graph = helper.make_graph(nodes, "scaled", *ends)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        feeds = {f"i{i}": array.astype(TYPES[name]) for i, (array, name) in enumerate(zip(arrays, inputs, strict=True))}
        if peer == REFERENCE:
            return ReferenceEvaluator(made).run(None, feeds)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
        except Exception:  # of the package's own kinds, for want of a kernel
            return None
        found = session.run(None, feeds)
        return [np.asarray(array).astype(TYPES[name]) for array, name in zip(found, to, strict=True)]


def doubles(values):
    """Numbers as doubles."""
    with np.errstate(invalid="ignore"):
        return values.astype(np.float64).reshape(-1)


def check_quantize(tally, words, columns):
    """Where the scale has the type of the elements and of the precision; else the peers round elsewhere."""
    from_, scale_type, to, precision, saturate = words[1:6]
    if not from_ == scale_type == precision or to not in ONNX or to.startswith("float6"):
        return
    x, scale = array_of(from_, columns[0]), array_of(scale_type, columns[1])
    inputs, arrays, attributes = [from_, scale_type], [x, scale.reshape(-1)], {}
    if to in INTEGERS:
        inputs.append(to)
        arrays.append(array_of(to, columns[2]).reshape(-1))
    else:
        attributes["output_dtype"] = ONNX[to]
    if to.startswith("float8"):
        attributes["saturate"] = int(saturate == "true")
    elif saturate != "true":
        return
    with np.errstate(all="ignore"):
        unrounded = doubles(x) / doubles(scale)
        quotients = doubles(unrounded.astype(TYPES[from_]))
    # The sum with a zero point of 16 bits can also pass int32.
    past = abs(quotients) >= 2.0**31 - 65536
    nan = np.isnan(quotients)
    every = np.ones(len(quotients), bool)
    for peer in (REFERENCE, ORT):
        outputs = None if peer == ORT and from_ not in ORT_FLOATS else run(
            peer, "QuantizeLinear", inputs, [to], arrays, axis=0, **attributes
        )  # fmt: skip
        if outputs is None:
            continue
        want = codes_of(to, *outputs)
        names = []
        if to in INTEGERS:
            names = [(f"{peer}: quotients past int32, and infinite ones", past)]
            names.append((f"{peer}: NaN to an integer", nan))
        elif to == "float4e2m1" and peer == REFERENCE:
            names = [("reference: NaN to float4e2m1", nan)]
            names.append(("reference: -0 to float4e2m1", (columns[3] == 8) & ~nan))
        elif to.startswith("float8"):
            names = [("NaN that arises", nan & ~np.isnan(doubles(x)))]
        if peer == ORT and to in PAST_LARGEST and saturate != "true":
            low, high = PAST_LARGEST[to]
            name = f"onnxruntime: {low} up to {high} to {to}, saturate=0"
            names.append((name, (abs(quotients) >= low) & (abs(quotients) <= high)))
        if peer == ORT and from_ == "float16":
            rounds = np.rint(unrounded) != np.rint(quotients) if to in INTEGERS else unrounded != quotients
            names.append(("onnxruntime: quotients of float16", rounds))
        tally.check(f"{peer}, quantize", " ".join(words), columns[0], columns[3], want, every, names)


def check_dequantize(tally, words, columns):
    """Where the output has the scale's type."""
    from_, scale_type, to = words[1:4]
    if from_ not in ONNX or from_.startswith("float6") or scale_type != to:
        return
    x, scale = array_of(from_, columns[0]), array_of(scale_type, columns[1])
    inputs, arrays = [from_, scale_type], [x, scale.reshape(-1)]
    if from_ in INTEGERS and from_ != "int32":
        inputs.append(from_)
        arrays.append(array_of(from_, columns[2]).reshape(-1))
    arises = ~np.isnan(doubles(x)) & np.isnan(doubles(values_of(to, columns[3])))
    every = np.ones(len(arises), bool)
    for peer in (REFERENCE, ORT):
        outputs = None if peer == ORT and to not in ORT_FLOATS else run(
            peer, "DequantizeLinear", inputs, [to], arrays, axis=0
        )  # fmt: skip
        if outputs is None:
            continue
        want = codes_of(to, *outputs)
        names = [("NaN that arises", arises)]
        tally.check(f"{peer}, dequantize", " ".join(words), columns[0], columns[3], want, every, names)


def check_dynamic(tally, words, columns):
    """Codes, scale and zero point of a tensor."""
    x = values_of("float", columns[0])
    got = np.concatenate([columns[1], [np.uint64(int(words[1], 16)), np.uint64(int(words[2]))]])
    to = ["uint8", "float", "uint8"]
    for peer in (REFERENCE, ORT):
        outputs = run(peer, "DynamicQuantizeLinear", ["float"], to, [x])
        want = np.concatenate([codes_of(name, np.asarray(output)) for name, output in zip(to, outputs, strict=True)])
        every = np.ones(len(got), bool)
        names = [("reference: DynamicQuantizeLinear of zeros", every & (peer == REFERENCE) & (not x.any()))]
        tally.check(f"{peer}, dynamic", " ".join(words), got, got, want, every, names)


CHECKS = {"quantize": check_quantize, "dequantize": check_dequantize, "dynamic": check_dynamic}


def main():
    tally = Tally(NAMED)
    for words, columns in blocks("scaled"):
        CHECKS[words[0]](tally, words, columns)
    return tally.report()


if __name__ == "__main__":
    sys.exit(main())
