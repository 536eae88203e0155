"""Compares the oracle of QuantizeLinear and its family with onnx's reference evaluator and onnxruntime.

Run it as `python3 crates/testkit/python/check_scaled.py`, where onnx, onnxruntime and ml_dtypes can be imported. Each
element has a scale and a zero point of its own: a tensor of one column, quantized along its rows. Any difference that
is not one of the named ones below is an error, and so is a named one that does not occur.
"""

import sys
import warnings

import ml_dtypes
import numpy as np
import onnx
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
    "onnxruntime: quotients past int32, and infinite ones": "the lowest integer, or one that wrapped",
    "onnxruntime: NaN to an integer": "not the lowest integer",
    "onnxruntime: quotients of float16": "kept in float",
    "NaN that arises": "has the sign that the processor gives it",
}
REFERENCE, ORT = "reference", "onnxruntime"
INTEGERS = {f"{sign}int{bits}": (bits, not sign) for sign in ("", "u") for bits in (2, 4, 8, 16, 32)}
TYPES = NUMPY | {name: getattr(ml_dtypes, name) for name in INTEGERS if name not in NUMPY}
ONNX = {name: getattr(TensorProto, name.upper()) for name in TYPES if hasattr(TensorProto, name.upper())}
# What onnxruntime computes, and numpy holds on the way to it.
ORT_FLOATS = ("float", "float16")
ORT_INTEGERS = ("int8", "uint8", "int16", "uint16")


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


def model(operator, from_, to, **attributes):
    """A model of one node, with the types of its inputs and outputs."""
    inputs = [helper.make_tensor_value_info(f"i{i}", ONNX[name], None) for i, name in enumerate(from_)]
    outputs = [helper.make_tensor_value_info(f"o{i}", ONNX[name], None) for i, name in enumerate(to)]
    node = helper.make_node(operator, [v.name for v in inputs], [v.name for v in outputs], **attributes)
    graph = helper.make_graph([node], "scaled", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11)


def run(peer, made, arrays):
    """The model's outputs."""
    feeds = {f"i{i}": array for i, array in enumerate(arrays)}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if peer == REFERENCE:
            return ReferenceEvaluator(made).run(None, feeds)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
        return session.run(None, feeds)


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
    made = model("QuantizeLinear", inputs, [to], axis=0, **attributes)
    with np.errstate(all="ignore"):
        unrounded = doubles(x) / doubles(scale)
        quotients = doubles(unrounded.astype(TYPES[from_]))
    # The sum with a zero point of 16 bits can also pass int32.
    past = abs(quotients) >= 2.0**31 - 65536
    nan = np.isnan(quotients)
    every = np.ones(len(quotients), bool)
    for peer in (REFERENCE, ORT):
        if peer == ORT and (to not in ORT_INTEGERS or from_ not in ORT_FLOATS):
            continue
        want = codes_of(to, *run(peer, made, arrays))
        names = []
        if to in INTEGERS:
            names = [(f"{peer}: quotients past int32, and infinite ones", past)]
            names.append((f"{peer}: NaN to an integer", nan))
            if peer == ORT and from_ == "float16":
                names.append(("onnxruntime: quotients of float16", np.rint(unrounded) != np.rint(quotients)))
        elif to == "float4e2m1":
            names = [("reference: NaN to float4e2m1", nan)]
            names.append(("reference: -0 to float4e2m1", (columns[3] == 8) & ~nan))
        elif to.startswith("float8"):
            names = [("NaN that arises", nan & ~np.isnan(doubles(x)))]
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
        if peer == ORT and (from_ not in (*ORT_INTEGERS, "int32") or to not in ORT_FLOATS):
            continue
        want = codes_of(to, *run(peer, model("DequantizeLinear", inputs, [to], axis=0), arrays))
        names = [("NaN that arises", arises)]
        tally.check(f"{peer}, dequantize", " ".join(words), columns[0], columns[3], want, every, names)


def check_dynamic(tally, words, columns):
    """Codes, scale and zero point of a tensor."""
    x = values_of("float", columns[0])
    got = np.concatenate([columns[1], [np.uint64(int(words[1], 16)), np.uint64(int(words[2]))]])
    to = ["uint8", "float", "uint8"]
    for peer in (REFERENCE, ORT):
        outputs = run(peer, model("DynamicQuantizeLinear", ["float"], to), [x])
        want = np.concatenate([codes_of(name, np.asarray(output)) for name, output in zip(to, outputs, strict=True)])
        tally.check(f"{peer}, dynamic", " ".join(words), got, got, want, np.ones(len(got), bool))


CHECKS = {"quantize": check_quantize, "dequantize": check_dequantize, "dynamic": check_dynamic}


def main():
    tally = Tally(NAMED)
    for words, columns in blocks("scaled"):
        CHECKS[words[0]](tally, words, columns)
    return tally.report()


if __name__ == "__main__":
    sys.exit(main())
