"""One-node models of every operator, version and combination of types that ONNX's schemas allow, with hard inputs and
what the library makes of them; and sessions of onnxruntime, with the provider and without. For `execution_provider.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator as operators
import re

import numpy as np
import onnx_cast
import onnxruntime
from onnx import TensorProto, helper
from onnx_cast import _native, _scaled, dtypes
from onnx_cast.onnxruntime import from_ortvalue, session_options, to_ortvalue
from onnx_operators import SCHEMA_FILE, parse_schemas

STRING = dtypes.string
RANDOM = np.random.default_rng(20)
CASTS = ("Cast", "CastLike", "BitCast")
OPERATORS = (*CASTS, "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")


@dataclasses.dataclass(frozen=True)
class Node:
    """A node: its operator and version, the types of its inputs and outputs, and its attributes."""

    name: str
    version: int
    inputs: tuple
    outputs: tuple
    attributes: tuple = ()

    def __str__(self):
        attributes = "".join(f", {name}={value}" for name, value in self.attributes)
        inputs, outputs = (", ".join(map(str, side)) for side in (self.inputs, self.outputs))
        return f"{self.name}-{self.version} of {inputs} to {outputs}{attributes}"

    def model(self):
        """A model of the node alone, whose shapes are unknown."""
        names, results = ([f"{letter}{at}" for at in range(len(side))]
                          for letter, side in (("x", self.inputs), ("y", self.outputs)))  # fmt: skip
        node = helper.make_node(self.name, names, results, **dict(self.attributes))
        return model([node], [*map(value, names, self.inputs)], [*map(value, results, self.outputs)], self.version)


def value(name, data_type, shape=None):
    return helper.make_tensor_value_info(name, data_type.number, shape)


def model(nodes, inputs, outputs, opset, initializers=()):
    """The bytes of a model of the version of the format that came with its opset."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3 if opset < 9 else 10)
    return made.SerializeToString()


def session(model, claim=None, level=None, options=None, **more):
    """A session that runs what the provider claims there; without a claim, one of onnxruntime alone."""
    if options is None:
        options = session_options(claim) if claim else onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    if level is not None:
        options.graph_optimization_level = level
    if claim is None:
        more |= {"providers": ["CPUExecutionProvider"]}
    return onnxruntime.InferenceSession(model, options, **more)


def run(session, arrays):
    """The outputs of a session for inputs by name, or in their order, as arrays."""
    if not isinstance(arrays, dict):
        arrays = dict(zip([one.name for one in session.get_inputs()], arrays, strict=True))
    values = {name: ort_value(array) for name, array in arrays.items()}
    return [from_ortvalue(one) for one in session.run_with_ort_values(None, values)]


def ort_value(array):
    """A tensor of onnxruntime, of texts too: onnxruntime makes those of a model's constants alone."""
    if array.dtype.kind not in "OTU":
        return to_ortvalue(array)
    texts = helper.make_tensor("t", STRING.number, array.shape, [str(one).encode() for one in array.ravel()])
    made = model([helper.make_node("Identity", ["t"], ["y"])], [], [value("y", STRING)], 21, [texts])
    # Folding the constant fails in 1.24.
    return session(made, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL).run_with_ort_values(None, {})[0]


def bits(array):
    """Type, shape and elements, of which equal ones are equal."""
    texts = array.dtype == object or array.dtype.kind in "TUO"
    return array.shape, [str(one) for one in array.ravel()] if texts else (array.dtype, array.tobytes())


def same_values(a, b):
    """Whether two arrays have the same values, NaN among them."""
    if bits(a) == bits(b):
        return True
    if a.shape != b.shape or a.dtype != b.dtype or a.dtype == object or a.dtype.kind in "TUOiub":
        return False
    codes = [one.reshape(-1).view(f"u{one.dtype.itemsize}") for one in (a, b)]
    with np.errstate(invalid="ignore"):
        nan = [np.isnan(one.reshape(-1).astype(np.float64)) for one in (a, b)]
    return bool(((codes[0] == codes[1]) | (nan[0] & nan[1])).all())


@functools.cache
def held():
    """The types that this onnxruntime has tensors of."""

    def is_held(row):
        if row["onnxruntime"] is None or row["number"] == STRING.number:
            return row["number"] == STRING.number
        try:
            to_ortvalue(bytes(2 * max(row["bits"], 8) // 8 if row["bits"] >= 8 else 1), row["number"], (2,))
        except Exception:
            return False
        return True

    return [dtypes.ALL[row["number"] - 1] for row in _native.types() if is_held(row)]


@functools.cache
def newest_opset():
    """The newest opset of which this onnxruntime loads models."""
    ports = [[value(name, dtypes.float)] for name in "xy"]
    for opset in range(28, 20, -1):
        try:
            session(model([helper.make_node("Identity", ["x"], ["y"])], *ports, opset))
            return opset
        except Exception:
            continue
    raise SystemExit("onnxruntime loads no opset from 21 on")


def narrow():
    """float4e2m1, which no onnxruntime casts itself; before 1.24, which has no tensors of it, a float8."""
    return dtypes.float4e2m1 if dtypes.float4e2m1 in held() else dtypes.float8e5m2


def every_node():
    """The nodes of each version of each operator, with all types that its schema allows and onnxruntime has. The
    schemas are those of the newest onnx, as the crate of models has them: this one may not know the newest opset."""
    named = {str(one): one for one in held()}
    lines = [line for line in SCHEMA_FILE.read_text().splitlines() if not line.startswith("#")]
    for (domain, name, version), (*sides, variables, _) in parse_schemas(lines).items():
        if domain != "ai.onnx" or name not in OPERATORS or version > newest_opset():
            continue
        # Of `x:T1 y_scale=float`, the types.
        formals = [re.findall(r"[:=](\w+)", side) for side in sides]
        allowed = {variable: [named[one] for one in types.removeprefix("tensor:").split(",") if one in named]
                   for variable, types in variables}  # fmt: skip
        for types in itertools.product(*allowed.values()):
            found = named | dict(zip(allowed, types))
            inputs, outputs = (tuple(found[one] for one in side) for side in formals)
            for given, attributes in forms(name, version, inputs, outputs[0]):
                yield Node(name, version, given, outputs, attributes)


def forms(name, version, inputs, y):
    """The inputs of a node that gives `y`, with and without the optional one, and attributes that change it."""
    is_float8 = y.kind == "float" and y.bits == 8 and version >= 19
    if name in CASTS:
        if name == "BitCast" and inputs[0].bits != y.bits:
            return
        to = TensorProto.DataType.Name(y.number) if version < 6 else y.number
        named = () if name == "CastLike" else (("to", to),)
        yield inputs, named
        if name != "BitCast" and is_float8:
            modes = [("round_mode", mode) for mode in ("down", "nearest")] if y is dtypes.float8e8m0 else []
            yield from ((inputs, (*named, one)) for one in [("saturate", 0), *modes])
        return
    if name == "DynamicQuantizeLinear":
        yield inputs, ()
        return
    is_quantize = name == "QuantizeLinear"
    output = (("output_dtype", y.number),) if version >= (21 if is_quantize else 23) else ()
    if output or not is_quantize or y is dtypes.uint8:
        yield inputs[:2], output
    yield inputs, output
    if version >= 21:
        yield inputs[:2], (*output, ("axis", 0), ("block_size", 16))
    if is_quantize and is_float8:
        yield inputs, (*output, ("saturate", 0))


@functools.cache
def hard_values(data_type):
    """Every code of the types of 16 bits and fewer; of others what rounds, overflows or is special, and random bits."""
    if data_type is STRING:
        return np.array(TEXTS, object)
    if data_type is dtypes.bool:
        return np.array([False, True] * 8)
    if data_type.bits <= 16:
        count = 1 << data_type.bits
        if data_type.bits < 8:
            return onnx_cast.unpack(_packed_codes(data_type.bits), data_type.name, count)
        return np.arange(count, dtype=f"u{data_type.bits // 8}").view(data_type.numpy)
    kind = f"u{data_type.bits // 8}"
    codes = RANDOM.integers(0, np.iinfo(kind).max, 4000, kind, endpoint=True)
    near = np.concatenate([_near(power) for power in range(64)]) if data_type.kind != "float" else _floats()
    with np.errstate(all="ignore"):
        exact = near.astype(data_type.numpy)
    return np.concatenate([codes.view(data_type.numpy), exact])


def _packed_codes(bits):
    codes = np.arange(1 << bits, dtype=np.uint8).reshape(-1, 8 // bits)
    return functools.reduce(operators.or_, (codes[:, at] << (bits * at) for at in range(8 // bits))).tobytes()


def _near(power):
    """Numbers near a power of two, near the middles of bfloat16 above it, and where a float8 rounds to infinity."""
    some = [(1 << power) + (1 << power >> shift) + step for shift in (1, 8, 64) for step in range(-3, 4)]
    some += [power * 8 + 1, 480 + power // 4, 61440 + 64 * power]
    return np.array([sign * one for one in some for sign in (1, -1) if abs(one) < 1 << 63], np.int64)


def _floats():
    """Values of small formats, the middles between them, and the neighbours of both as double."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)[::7]
    brains = (np.arange(0x7F80, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)[::13]
    some = np.concatenate([halves, halves * (1 + 2.0**-11), brains, brains * (1 + 2.0**-8), LIMITS])
    some = np.concatenate([some, np.nextafter(some, 0), np.nextafter(some, np.inf), some * (1 + 2.0**-40)])
    return np.concatenate([some, -some, [0.0, -0.0, np.inf, -np.inf, np.nan]])


# Ends of ranges, and ties beyond them.
LIMITS = np.array([0.5, 1.5, 2.5, 3.5, 5, 7, 7.5, 127.5, 128, 240, 248, 255.5, 300, 448, 464, 465, 479, 480, 495, 496,
                   32767.5, 57344, 61439, 61440, 65000, 65504, 65519.99, 65520, 65535, 65536, 70000, 2.0**31, 2.0**32,
                   3e9, 2.0**63, 2.0**64, 1e30, 3.4028235677973366e38, 1e300])
TEXTS = """0 1 -1 2.5 3.5 0.1 -0.75 1e1 1e-3 100 -7 1.00048828126 1.00000017881393432617187499 16777217 1e-50
0.3333333333333333 +3 1.125000000001 1.0625000000001 1.00390625000001 1.49999999999999 1.99999999999999 1.00000000000001
1e400""".split() + [" 3"]
# What integers of every width, and bool, read.
SMALL_TEXTS = ["0", "1", " 1", "10e-1", "+1", "0.5"]


def feeds(node):
    """Inputs of a node: lists of arrays."""
    if node.name in CASTS:
        # onnxruntime drops a Cast of bool to bool, and with it what bytes other than 0 and 1 would become.
        source, target = node.inputs[0], node.outputs[0]
        is_small = source is STRING and target.kind in ("int", "uint", "bool")
        likes = [np.array(["1"], object) if one is STRING else np.zeros(1, one.numpy) for one in node.inputs[1:]]
        return [[np.array(SMALL_TEXTS, object) if is_small else hard_values(source), *likes]]
    if node.name == "DynamicQuantizeLinear":
        finite = hard_values(dtypes.float)
        return [[finite[np.abs(finite) < limit]] for limit in (1e3, 1e30)] + [[hard_values(dtypes.float)]]
    x, scale, *zero = node.inputs
    some, zeros = hard_values(x), [_zero(one) for one in zero]
    numbers = (1, 3, 7, 2) if scale.kind == "int" else (1, 0.3, 2.0**-9, 1e4)
    scales = np.array(numbers).astype(scale.numpy)
    if "block_size" in dict(node.attributes):
        # Five scales over rows of 64: each column meets all of them.
        few = numbers[:1] if scale.kind == "int" else (0.1, 0.3, 0.7, 2.0**-9, 1e4)
        spread = np.resize(np.array(few).astype(scale.numpy), (64, 64))
        cases = [[_spread(some, (1024, 64)), spread]]
        if node.name == "QuantizeLinear" and x.kind == "float":
            cases.append([_beyond_ties(spread).astype(x.numpy), spread])
        return cases
    cases = [[some, np.array(one), *zeros] for one in scales]
    if node.version >= 13:
        cases.append([_spread(some, (2048, 4)), scales, *(np.resize(one, 4) for one in zeros)])
    return cases


def _beyond_ties(scales):
    """Values whose quotients lie just beyond middles of integers, in float but not in float16; a block has 16 rows."""
    quotients = np.arange(16 * scales.size).reshape(-1, scales.shape[1]) % 4 + 0.5
    return np.repeat(scales.astype(np.float64), 16, axis=0) * quotients * (1 + 2.0**-13)


def _spread(values, shape):
    """An array of a shape with values from everywhere in a list."""
    return values[np.linspace(0, len(values) - 1, np.prod(shape)).round().astype(int)].reshape(shape)


def _zero(data_type):
    is_offset = data_type.kind in ("int", "uint") and data_type.bits <= 16
    return np.array(1 if is_offset else 0).astype(data_type.numpy)


def expected(node, arrays):
    """What the library makes of the inputs: an array of each output."""
    attributes = dict(node.attributes)
    attributes.pop("to", None)
    if node.name in CASTS:
        if "saturate" in attributes:
            attributes["saturate"] = bool(attributes["saturate"])
        cast = onnx_cast.bit_cast if node.name == "BitCast" else onnx_cast.cast
        return [cast(arrays[0], node.outputs[0].number, opset=node.version, **attributes)]
    return _scaled.run_node(node.name, node.version, list(attributes.items()), arrays)
