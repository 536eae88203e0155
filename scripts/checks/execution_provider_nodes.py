"""One-node models of every operator, version and combination of types, with hard inputs and what the library makes of
them.

For `execution_provider.py`, which runs them in onnxruntime. Types and versions are those of the library's own tables.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator as operators

import numpy as np
import onnx_cast
import onnxruntime
from onnx import TensorProto, helper
from onnx_cast import _native, _scaled, dtypes
from onnx_cast.onnxruntime import from_ortvalue, to_ortvalue

STRING = dtypes.string
RANDOM = np.random.default_rng(20)

# The versions of ONNX's operators that the library supports.
VERSIONS = {
    "Cast": [1, 6, 9, 13, 19, 21, 23, 24, 25, 28],
    "CastLike": [15, 19, 21, 23, 24, 25],
    "BitCast": [26],
    "QuantizeLinear": [10, 13, 19, 21, 23, 24, 25, 28],
    "DequantizeLinear": [10, 13, 19, 21, 23, 24, 25, 28],
    "DynamicQuantizeLinear": [11],
}


@dataclasses.dataclass(frozen=True)
class Node:
    """A node: its operator and version, the types of its inputs (``None`` where one is missing) and outputs."""

    name: str
    version: int
    inputs: tuple
    outputs: tuple
    attributes: tuple = ()

    def __str__(self):
        types = ", ".join("-" if one is None else str(one) for one in self.inputs)
        attributes = "".join(f", {name}={value}" for name, value in self.attributes)
        return f"{self.name}-{self.version} of {types} to {', '.join(map(str, self.outputs))}{attributes}"

    def model(self):
        """A model of the node alone, whose shapes are unknown."""
        names = ["" if one is None else f"x{index}" for index, one in enumerate(self.inputs)]
        results = [f"y{index}" for index in range(len(self.outputs))]
        node = helper.make_node(self.name, names, results, **dict(self.attributes))
        infos = [value(name, one) for name, one in zip(names, self.inputs) if name]
        outputs = [value(name, one) for name, one in zip(results, self.outputs)]
        return model([node], infos, outputs, self.version)


def value(name, data_type, shape=None):
    return helper.make_tensor_value_info(name, data_type.number, shape)


def cast(source, result, to):
    return helper.make_node("Cast", [source], [result], to=to.number)


def each_part(*parts):
    for part in parts:
        part()
        print(f"  {part.__name__.removeprefix('check_')}: as it should", flush=True)


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


def model(nodes, inputs, outputs, opset, initializers=()):
    """The bytes of a model of the version of the format that came with its opset."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3 if opset < 9 else 10)
    return made.SerializeToString()


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


def quiet_session(model, options=None, **more):
    options = options or onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, **more)


def ort_value(array):
    """A tensor of onnxruntime, of texts too: onnxruntime makes those of a model's constants alone."""
    if array.dtype.kind not in "OTU":
        return to_ortvalue(array)
    texts = helper.make_tensor("t", STRING.number, array.shape, [str(one).encode() for one in array.ravel()])
    identity = [helper.make_node("Identity", ["t"], ["y"])]
    options = onnxruntime.SessionOptions()
    # Folding the constant fails in 1.24.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = quiet_session(model(identity, [], [value("y", STRING)], 21, [texts]), options)
    return session.run_with_ort_values(None, {})[0]


def run(session, arrays):
    """The outputs of a session for inputs by name, as arrays."""
    values = {name: ort_value(array) for name, array in arrays.items()}
    return [from_ortvalue(one) for one in session.run_with_ort_values(None, values)]


@functools.cache
def newest_opset():
    """The newest opset of which this onnxruntime loads models."""
    for opset in range(28, 20, -1):
        try:
            nodes = [helper.make_node("Identity", ["x"], ["y"])]
            quiet_session(model(nodes, [value("x", dtypes.float)], [value("y", dtypes.float)], opset))
            return opset
        except Exception:
            continue
    raise SystemExit("onnxruntime loads no opset from 21 on")


def narrow():
    """float4e2m1, which no onnxruntime casts itself; before 1.24, which has no tensors of it, a float8."""
    return dtypes.float4e2m1 if dtypes.float4e2m1 in held() else dtypes.float8e5m2


def versions(name):
    return [version for version in VERSIONS[name] if version <= newest_opset()]


def casts(name):
    """The nodes of Cast, CastLike or BitCast, at each version all pairs of types."""
    since = {one: one.since[name] for one in held() if one.since[name] is not None}
    for version in versions(name):
        types = [one for one, first in since.items() if first <= version]
        for source, target in itertools.product(types, types):
            if name == "BitCast" and source.bits != target.bits:
                continue
            to = TensorProto.DataType.Name(target.number) if version < 6 else target.number
            named = () if name == "CastLike" else (("to", to),)
            inputs = (source, target) if name == "CastLike" else (source,)
            yield Node(name, version, inputs, (target,), named)
            for attributes in _variants(name, version, target):
                yield Node(name, version, inputs, (target,), named + attributes)


def _variants(name, version, target):
    """The attributes that change a cast to a type, at values other than their defaults."""
    if name == "BitCast" or version < 19 or target.kind != "float" or target.bits != 8:
        return []
    modes = [(("round_mode", mode),) for mode in ("down", "nearest")] if target is dtypes.float8e8m0 else []
    return [(("saturate", 0),), *modes]


def _since(name, role, data_type):
    """The first version of an operator with a scale that takes a type in a role; ``None`` where none does."""
    is_quantize, t = name == "QuantizeLinear", data_type
    if role in ("values", "scale"):
        if t is dtypes.float:
            return 10
        if t in (dtypes.float16, dtypes.bfloat16):
            return 19
        if t is dtypes.int32 and is_quantize:
            return 10 if role == "values" else 19
        return 24 if t is dtypes.float8e8m0 and role == "scale" else None
    if t is dtypes.int32:
        return None if is_quantize else 10
    if t.kind in ("int", "uint"):
        return {2: 25, 4: 21, 8: 10, 16: 21}.get(t.bits)
    return t.since["Cast"] if t.kind == "float" and t.bits <= 8 and t is not dtypes.float8e8m0 else None


def scaled(name):
    """The nodes of QuantizeLinear or DequantizeLinear, with and without a zero point."""
    is_quantize = name == "QuantizeLinear"
    for version in versions(name):
        roles = [[one for one in held() if (_since(name, role, one) or 99) <= version] for role in ROLES]
        for values, scale, quantized in itertools.product(*roles):
            if is_quantize and version < 23 and scale is not (dtypes.float if version < 19 else values):
                continue
            if not is_quantize and version < 23 and values is not scale:
                continue
            x, y = (values, quantized) if is_quantize else (quantized, values)
            output = (("output_dtype", y.number),) if version >= (21 if is_quantize else 23) else ()
            if output or not is_quantize or quantized is dtypes.uint8:
                yield Node(name, version, (x, scale), (y,), output)
            yield Node(name, version, (x, scale, quantized), (y,), output)
            if version >= 21:
                yield Node(name, version, (x, scale), (y,), (*output, ("axis", 0), ("block_size", 16)))
            if is_quantize and version >= 19 and quantized.kind == "float" and quantized.bits == 8:
                yield Node(name, version, (x, scale, quantized), (y,), (*output, ("saturate", 0)))


ROLES = ("values", "scale", "quantized")


def dynamic():
    yield Node("DynamicQuantizeLinear", 11, (dtypes.float,), (dtypes.uint8, dtypes.float, dtypes.uint8))


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
    """Inputs of a node: lists of arrays, ``None`` where an input is missing."""
    if node.name in ("Cast", "BitCast"):
        return [[_values(node.inputs[0], node.outputs[0])]]
    if node.name == "CastLike":
        like = np.array(["1"], object) if node.inputs[1] is STRING else np.zeros(1, node.inputs[1].numpy)
        return [[_values(node.inputs[0], node.outputs[0]), like]]
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


def _values(source, target):
    if source is STRING and target.kind in ("int", "uint", "bool"):
        return np.array(SMALL_TEXTS, object)
    # onnxruntime drops a Cast of bool to bool, and with it what bytes other than 0 and 1 would become.
    return hard_values(source)


def expected(node, arrays):
    """What the library makes of the inputs: an array of each output."""
    attributes = dict(node.attributes)
    attributes.pop("to", None)
    if node.name in ("Cast", "CastLike", "BitCast"):
        if "saturate" in attributes:
            attributes["saturate"] = bool(attributes["saturate"])
        cast = onnx_cast.bit_cast if node.name == "BitCast" else onnx_cast.cast
        return [cast(arrays[0], node.outputs[0].number, opset=node.version, **attributes)]
    return _scaled.run_node(node.name, node.version, list(attributes.items()), arrays)
