#!/usr/bin/env python3
"""Does a model whose opset `onnx-cast upgrade` raised give the bits that it gave before?

    upgrade.py [COMMAND] [--all]

UPGRADE_PARTS names parts of the check (generated nodes real reference; the last only by default with an onnx package that
has opset 28, or with --all), UPGRADE_VERBOSE=1 lists what is refused.
Models of one opset are joined, up to a hundred into one, and raised, checked and run together; where something of that is
wrong, each half is. With --all every generated model is raised and checked alone, and all node tests are evaluated by the
reference evaluator, not only every fifth of those whose operator did not change.
Three kinds of models: generated ones with random inputs for every step that rewrites nodes, as they are, within a branch, a
loop's body and a function, with attributes of their own and of the function's caller; onnx's node tests, written down once
more at every older version of their operator that takes them; and real models from packages. Each is raised to several
opsets, checked by onnx.checker, and run by onnxruntime before and after, up to the newest opset that it loads; beyond that,
by onnx's own reference evaluator.
"""

import collections
import copy
import os
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from shared import ALL, in_processes, line

SITE = Path(sysconfig.get_path("purelib"))
onnxruntime.set_default_logger_severity(4)
NEWEST = min(onnx.defs.onnx_opset_version(), 28)
# The newest opset that onnxruntime loads.
RUNTIME = 26
TARGETS = (13, 18, 21, 24, RUNTIME)
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
NOT_IMPLEMENTED = onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented
counts = collections.Counter()
failures = []
rng = np.random.default_rng(19)


def fail(text):
    failures.append(text)
    print("FAIL", text[:600], flush=True)


def ir_version(opset):
    return max(helper.OP_SET_ID_VERSION_MAP.get(("ai.onnx", opset), 3), 3)


def session(model, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    data = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def upgrade(path, out, opset):
    arguments = line("upgrade", path, out, "--opset", opset, "--quiet")
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode not in (0, 2) or "panicked" in done.stderr:
        fail(f"{path} to {opset}: status {done.returncode}: {done.stderr}")
    return done.stderr.strip() if done.returncode else None


def bits(value):
    if isinstance(value, (list, tuple)):
        return [bits(one) for one in value]
    if value is None:
        return None
    value = np.asarray(value)
    content = value.tolist() if value.dtype == object else value.tobytes()
    return value.dtype, value.shape, content


def dtype_of(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def close(got, want):
    """Whether float results differ by a few roundings."""
    def values(one):
        return np.frombuffer(one[2], one[0]).reshape(one[1]).astype(np.float64)

    return all(a[:2] == b[:2] and np.allclose(values(a), values(b), rtol=2e-6, atol=1e-6)
               for a, b in zip(got, want, strict=True))


# --- generated models ---------------------------------------------------------------------------------------------

Case = collections.namedtuple("Case", "name opset nodes inputs initializers outputs shapes")
CASES = []


def case(op, opset, inputs, attrs=None, outs=1, constants=(), shapes=True, names=None, tag="", label=None):
    """A model of one node. `inputs` are arrays or None, in their order; those of `constants` are initializers."""
    attrs = attrs or {}
    given = [f"x{at}" if one is not None else "" for at, one in enumerate(inputs)]
    while given and not given[-1]:
        given.pop()
    outputs = names or [f"y{at}" for at in range(outs)]
    node = helper.make_node(op, given, outputs, **attrs)
    arrays = {f"x{at}": one for at, one in enumerate(inputs) if one is not None}
    initializers = {f"x{at}": arrays.pop(f"x{at}") for at in constants}
    nodes = [node]
    if not shapes:
        # Nothing declares the rank of what a Reshape gives whose shape is an input.
        node.input[0], node.output[0] = "r", "m"
        arrays["s"] = list_of(*inputs[0].shape)
        nodes = [helper.make_node("Reshape", ["x0", "s"], ["r"]), node, helper.make_node("Identity", ["m"], ["y0"])]
    label = f"{op}-{opset}{label or f'{tag} {attrs}'}"
    CASES.append(Case(label, opset, nodes, arrays, initializers, outputs[:outs], shapes))


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def list_of(*values):
    return np.array(values, np.int64)


def make_axes_cases():
    x = floats(1, 3, 1, 4)
    for opset in (7, 11, 12):
        for axes in ([0], [2], [0, 2], None) + (([-2],) if opset > 10 else ()):
            case("Squeeze", opset, [x], {"axes": axes} if axes else {})
        for axes in ([0], [1, 3]) + (([-1],) if opset > 10 else ()):
            case("Unsqueeze", opset, [x], {"axes": axes})
    for op in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
        x = np.abs(floats(2, 3, 4)) + np.float32(0.1)
        for opset in (7, 11, 12) + (() if op == "Sum" else (13, 17)):
            for axes in (None, [1], [0, 2]) + (([-1],) if opset > 10 else ()):
                for keepdims in (0, 1):
                    case(f"Reduce{op}", opset, [x], {"keepdims": keepdims, **({"axes": axes} if axes else {})})
    for op in ("Max", "Min"):
        case(f"Reduce{op}", 12, [rng.integers(-9, 9, (2, 3)).astype(np.int8)], {"axes": [1]})


def make_list_cases():
    x = floats(4, 6)
    for opset in (7, 11, 12):
        case("Split", opset, [x], {"axis": 1, "split": [1, 2, 3]}, outs=3)
        case("Split", opset, [x], {"axis": 0}, outs=2)
        case("Split", opset, [x], {"split": [3, 1]}, outs=2)
    for opset in (13, 17):
        case("Split", opset, [x, list_of(1, 2, 3)], {"axis": 1}, outs=3)
        case("Split", opset, [x], {"axis": 1}, outs=3)
        case("Split", opset, [x], {"axis": -1}, outs=2)
    for opset in (7, 9, 10):
        for bounds in ({"min": -0.5, "max": 0.25}, {"min": 0.0}, {"max": 0.5}, {}, {"min": 0.0, "max": 6.0}):
            special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38, 1e-40], np.float32)
            case("Clip", opset, [np.concatenate([floats(8), special])], bounds)
    for opset in (7, 10):
        for mode in ("constant", "reflect", "edge"):
            for value in (None, 0.0, -0.0, 1.5):
                attrs = {"pads": [1, 0, 2, 1], "mode": mode, **({} if value is None else {"value": value})}
                case("Pad", opset, [x], attrs)
        case("Pad", opset, [x], {"pads": [-1, 0, 2, -1], "value": 2.0})
    for opset in (7, 9):
        for attrs in ({"starts": [1], "ends": [3]}, {"starts": [0, 1], "ends": [-1, 1000]},
                      {"starts": [-3], "ends": [2147483647], "axes": [1]}, {"starts": [1, 1], "ends": [2, 4], "axes": [1, 0]}):
            case("Slice", opset, [x], attrs)
        for attrs in ({"k": 3}, {"k": 2, "axis": 0}, {"k": 1, "axis": 1}):
            case("TopK", opset, [np.round(floats(4, 6))], attrs, outs=2)
    for opset in (7, 9, 10, 11):
        for attrs in ({}, {"ratio": 0.25}):
            case("Dropout", opset, [x], attrs)
            case("Dropout", opset, [x], attrs, names=["y0", "mask"], tag=" with an unused mask")
    for opset in (17, 19):
        for attrs in ({}, {"axis": 1}, {"axis": 2, "inverse": 1}, {"axis": 2, "onesided": 1}):
            case("DFT", opset, [floats(1, 4, 6, 1 if attrs.get("onesided") else 2)], attrs)
        case("DFT", opset, [floats(1, 4, 6, 1), np.array(5, np.int64)], {"axis": 2})
    data, at = floats(3, 4), np.array([[0, 2, 1, 0], [2, 0, 0, 1]], np.int64)
    for axis in (None, 0):
        case("Scatter", 9, [data, at, floats(2, 4)], {} if axis is None else {"axis": axis})
    case("Scatter", 10, [data, np.array([[1], [0], [3]], np.int64), floats(3, 1)], {"axis": 1})


def make_shape_cases():
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for opset in (7, 11, 12):
            for shape in ((3, 4), (2, 3, 4), (2, 1, 3, 2)):
                axes = [None, *range(len(shape))] + ([-1, -2] if opset > 10 else [])
                for axis in axes:
                    for known in (True, False):
                        attrs = {} if axis is None else {"axis": axis}
                        case(op, opset, [floats(*shape)], attrs, shapes=known, tag="" if known else " of unknown rank")
    for opset in (7, 8):
        for spatial in (None, 1):
            parameters = [floats(3), floats(3), floats(3), np.abs(floats(3)) + 1]
            case("BatchNormalization", opset, [floats(2, 3, 4, 5), *parameters],
                 {"epsilon": 1e-3, **({} if spatial is None else {"spatial": spatial})})
        parameters = [floats(3, 2, 2), floats(3, 2, 2), floats(3, 2, 2), np.abs(floats(3, 2, 2)) + np.float32(1)]
        case("BatchNormalization", opset, [floats(2, 3, 2, 2), *parameters], {"spatial": 0})
    for opset in (9, 13, 14):
        case("BatchNormalization", opset, [floats(2, 3, 4), floats(3), floats(3), floats(3), np.abs(floats(3))])
    for opset in (18, 20):
        for groups in (1, 2, 4):
            case("GroupNormalization", opset, [floats(2, 4, 3, 3), floats(groups), floats(groups)],
                 {"num_groups": groups, "epsilon": 1e-3})
        # Not float16, which onnxruntime computes as float on a CPU, and rounds where its optimizer leaves a Cast.
        case("GroupNormalization", opset, [floats(2, 4, 3).astype(np.float64), *[floats(2).astype(np.float64)] * 2],
             {"num_groups": 2})


def make_sampling_cases():
    x = floats(1, 2, 4, 5)
    for scales in ([1.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.5, 2.3], [1.0, 1.0, 1.0, 1.0]):
        for mode in ("nearest", "linear"):
            case("Upsample", 7, [x], {"scales": scales, "mode": mode})
            case("Upsample", 8, [x], {"scales": scales, "mode": mode})
            case("Upsample", 9, [x, np.array(scales, np.float32)], {"mode": mode})
            case("Upsample", 9, [x, np.array(scales, np.float32)], {"mode": mode}, constants=[1])
    for scales in ([1.0, 1.0, 2.0, 3.0], [1.0, 1.0, 0.5, 0.7], [1.0, 1.0, 1.7, 1.1], [1.0, 1.0, 0.61, 1.0], [1, 1, .5, 2]):
        for mode in ("nearest", "linear"):
            case("Resize", 10, [x, np.array(scales, np.float32)], {"mode": mode}, constants=[1])
    for mode in ("nearest", "linear"):
        for scales in ([1, 1, 1.5, 2.5], [1, 1, .7, 1.3], [1, 1, .4, .9], [2, .5, .3, 3]):
            if mode == "nearest" or scales[:2] == [1, 1]:
                case("Resize", 10, [x, np.array(scales, np.float32)], {"mode": mode}, tag=f" of scales at run time, {scales}")
    none = np.zeros(0, np.float32)
    for opset in (11, 12, 13, 17, 18):
        for sized in (False, True):
            for mode in ("nearest", "linear", "cubic"):
                for way in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_half_pixel_for_nn"):
                    attrs = {"mode": mode, "coordinate_transformation_mode": way}
                    if way == "tf_half_pixel_for_nn":
                        if opset > 12 or mode != "nearest":
                            continue
                        # The default, `round_prefer_floor`, is the other rounding that there is a newer node for.
                        if sized:
                            attrs["nearest_mode"] = "floor"
                    if way == "align_corners" and mode == "nearest":
                        attrs["nearest_mode"] = "round_prefer_ceil"
                    scales = none if sized else np.array([1, 1, 1.7, 0.6], np.float32)
                    sizes = list_of(1, 2, 7, 3) if sized else None
                    if opset > 12 and sized:
                        scales = None
                    case("Resize", opset, [x, none if opset < 13 else None, scales, sizes], attrs,
                         constants=[at for at, one in ((1, opset < 13), (2, scales is not None)) if one])
    for opset in (16, 19):
        for mode in ("bilinear", "nearest", "bicubic", None):
            for padding in ("zeros", "border", "reflection"):
                attrs = {"padding_mode": padding, **({"mode": mode} if mode else {})}
                case("GridSample", opset, [x, np.clip(floats(1, 3, 3, 2), -1.4, 1.4)], attrs)
    rois = np.array([[0, 0, 3, 3], [1, 1, 2.5, 3.5]], np.float32)
    for opset in (10, 15):
        for mode in ("avg", "max"):
            case("RoiAlign", opset, [x, rois, list_of(0, 0)],
                 {"mode": mode, "output_height": 2, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.8})


def make_cast_cases():
    special = np.array([1.5, -2.7, np.inf, -np.inf, np.nan, 1e-9, -0.0, 7e4, 448, 500], np.float32)
    for opset in (7, 9, 12, 13, 18, 19, 21, 23):
        for to in (TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL):
            case("Cast", opset, [special], {"to": to})
        case("Cast", opset, [np.array([1, -7, 300], np.int64)], {"to": TensorProto.INT8})
    for opset in (19, 21, 23):
        for saturate in (0, 1):
            # What is cast is cast back, since numpy has no such type.
            for to in (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2FNUZ, TensorProto.FLOAT8E5M2):
                # onnxruntime casts infinity to the FNUZ types by the rules of version 24 at every version.
                fnuz = to in (TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2FNUZ)
                values = special[~np.isinf(special) & ~np.isinf(special.astype(np.float16))] if fnuz else special
                for array in (values, values.astype(np.float16)):
                    nodes = [helper.make_node("Cast", ["x0"], ["q"], to=to, saturate=saturate),
                             helper.make_node("Cast", ["q"], ["y0"], to=FLOAT)]
                    label = f"Cast-{opset} {to} and back, saturate={saturate}, {array.dtype}"
                    CASES.append(Case(label, opset, nodes, {"x0": array}, {}, ["y0"], True))
    for opset in (15, 18, 19, 21):
        case("CastLike", opset, [special, np.zeros(1, np.float16)])
    fnuz = helper.make_tensor("like", TensorProto.FLOAT8E4M3FNUZ, [1], [0.0])
    finite = special[~np.isinf(special)]
    for opset in (19, 23):
        nodes = [helper.make_node("Constant", [], ["like"], value=fnuz), helper.make_node("CastLike", ["x0", "like"], ["q"]),
                 helper.make_node("Cast", ["q"], ["y0"], to=FLOAT)]
        # As above, onnxruntime casts infinity by the rules of version 24.
        CASES.append(Case(f"CastLike-{opset} of a FNUZ type", opset, nodes, {"x0": finite}, {}, ["y0"], True))
        nodes = [helper.make_node("Cast", ["x0"], ["q"], to=TensorProto.FLOAT8E5M2),
                 helper.make_node("Cast", ["q"], ["r"], to=TensorProto.FLOAT8E4M3FNUZ), helper.make_node("Cast", ["r"], ["y0"], to=FLOAT)]
        CASES.append(Case(f"Cast-{opset} of float8 to a FNUZ type", opset, nodes, {"x0": values}, {}, ["y0"], True))
    case("Erf", 9, [floats(5)])
    case("BitShift", 11, [np.array([1, 200], np.uint8), np.array([3, 1], np.uint8)], {"direction": "LEFT"})
    case("OneHot", 9, [list_of(0, 2, 1), np.array(3, np.int64), np.array([0.5, 1.5], np.float32)])
    case("Range", 11, [np.float32(0.5), np.float32(3), np.float32(0.3)])
    for fmod in (0, 1):
        case("Mod", 10, [np.array([-7, 5, 8], np.int32), np.array([3, -3, 5], np.int32)], {"fmod": fmod})
    case("Mod", 10, [floats(6), floats(6)], {"fmod": 1})
    for opset in (7, 10):
        case("MaxPool", opset, [floats(1, 2, 7, 7)], {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"})
        case("AveragePool", opset, [floats(1, 2, 7, 7)], {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER"})
        case("AveragePool", opset, [floats(1, 2, 7, 7)], {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0], "count_include_pad": 1})
        case("ConvTranspose", opset, [floats(1, 2, 4, 4), floats(2, 1, 3, 3)], {"strides": [2, 2], "output_shape": [7, 8]})
        case("ConvTranspose", opset, [floats(1, 2, 4, 4), floats(2, 1, 3, 3)], {"strides": [3, 3], "auto_pad": "SAME_UPPER"})
        case("Conv", opset, [floats(1, 2, 7, 7), floats(3, 2, 3, 3)], {"strides": [2, 2], "auto_pad": "SAME_LOWER"})
    for opset in (10, 11, 19):
        for ceil_mode in (0, 1):
            attrs = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1], "ceil_mode": ceil_mode}
            case("MaxPool", opset, [floats(1, 2, 6, 7)], attrs, outs=2)
            case("AveragePool", opset, [floats(1, 2, 6, 7)], {**attrs, "count_include_pad": 1})


def graph_of(one, name="g", rename=lambda name: name, inputs=True):
    nodes = copy.deepcopy(one.nodes)
    for node in nodes:
        for side in (node.input, node.output):
            side[:] = [rename(each) if each and each not in one.inputs and each not in one.initializers else each for each in side]
    ins = [helper.make_tensor_value_info(each, dtype_of(np.asarray(array)), np.asarray(array).shape)
           for each, array in one.inputs.items()]
    outs = [onnx.ValueInfoProto(name=rename(each)) for each in one.outputs]
    constants = [numpy_helper.from_array(np.asarray(array), each) for each, array in one.initializers.items()]
    return nodes, ins if inputs else [], outs, constants


def typed(outs, types, trips=()):
    """Outputs with the element types and the ranks that a run gave, within a loop of so many trips."""
    return [helper.make_tensor_value_info(out.name, data_type, [None] * (len(trips) + rank))
            for out, (data_type, rank) in zip(outs, types, strict=True)]


def model_of(nodes, ins, outs, constants, opset, functions=(), imports=()):
    graph = helper.make_graph(nodes, "g", ins, outs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *imports], functions=list(functions))
    model.ir_version = max(ir_version(opset), 8 if functions else 4)
    return model


def wrapped(one, types):
    """The model, and the same within a branch, a loop's body and a function."""
    nodes, ins, outs, constants = graph_of(one)
    yield "plain", model_of(nodes, ins, typed(outs, types), constants, one.opset)
    branches = {}
    for branch in ("then_branch", "else_branch"):
        inner, _, inner_outs, _ = graph_of(one, rename=lambda name, branch=branch: f"{name}_{branch}")
        branches[branch] = helper.make_graph(inner, branch, [], typed(inner_outs, types))
    flag = numpy_helper.from_array(np.array(True), "flag")
    choice = helper.make_node("If", ["flag"], one.outputs, **branches)
    yield "in a branch", model_of([choice], ins, typed(outs, types), [*constants, flag], one.opset)
    inner, _, inner_outs, _ = graph_of(one, rename=lambda name: f"{name}_body")
    inner += [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["before"], ["behind"])]
    state = [helper.make_tensor_value_info(each, INT64, []) for each in ("before", "behind")]
    body = helper.make_graph(
        inner, "body",
        [helper.make_tensor_value_info("i", INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []), state[0]],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), state[1], *typed(inner_outs, types)])
    trips = numpy_helper.from_array(np.array(2, np.int64), "trips")
    loop = helper.make_node("Loop", ["trips", "flag", "trips"], ["state", *one.outputs], body=body)
    yield "in a loop", model_of([loop], ins, typed(outs, types, [2]), [*constants, trips, flag], one.opset)
    if one.opset >= 10:
        names = [*one.inputs, *one.initializers]
        imports = [helper.make_opsetid("", one.opset)]
        function = helper.make_function("own", "Wrapped", names, one.outputs, nodes, imports)
        call = helper.make_node("Wrapped", names, one.outputs, domain="own")
        yield "in a function", model_of([call], ins, typed(outs, types), constants, one.opset, [function],
                                        [helper.make_opsetid("own", 1)])
        floats = [each for each, array in one.inputs.items() if np.asarray(array).dtype == np.float32]
        if one.opset >= 15 and nodes[0].op_type == "GroupNormalization" and floats:
            yield "in a function of two types", of_two_types(one, function, types, floats)
        attributes = [each.name for each in nodes[0].attribute]
        if attributes and len(nodes) == 1:
            inner = copy.deepcopy(nodes)
            given = {each.name: helper.get_attribute_value(each) for each in nodes[0].attribute}
            del inner[0].attribute[:]
            for each in nodes[0].attribute:
                inner[0].attribute.append(onnx.AttributeProto(name=each.name, type=each.type, ref_attr_name=f"its_{each.name}"))
            function = helper.make_function("own", "Wrapped", names, one.outputs, inner, imports,
                                            attributes=[f"its_{each}" for each in attributes])
            call = helper.make_node("Wrapped", names, one.outputs, domain="own",
                                    **{f"its_{each}": value for each, value in given.items()})
            yield "in a function, with its attributes", model_of(
                [call], ins, typed(outs, types), constants, one.opset, [function], [helper.make_opsetid("own", 1)])


def of_two_types(one, function, types, floats):
    """A function that is called with the inputs, and with them as doubles: nothing in it has one type."""
    _, ins, outs, constants = graph_of(one)
    names = [*one.inputs, *one.initializers]
    nodes = [helper.make_node("Cast", [each], [f"{each}_double"], to=TensorProto.DOUBLE) for each in floats]
    wide = [f"{each}_double" if each in floats else each for each in names]
    doubles = [f"{each}_double" for each in one.outputs]
    nodes += [helper.make_node("Wrapped", names, one.outputs, domain="own"), helper.make_node("Wrapped", wide, doubles, domain="own")]
    outs += [onnx.ValueInfoProto(name=each) for each in doubles]
    types = [*types, *((TensorProto.DOUBLE, rank) for _, rank in types)]
    return model_of(nodes, ins, typed(outs, types), constants, one.opset, [function], [helper.make_opsetid("own", 1)])


# A refusal is right where it says one of these. No generated model has a node without a newer one that means the same.
REFUSALS = ()
# onnxruntime takes types that the version of a Cast does not; and Scan-8, which has batches, is not rewritten.
NODE_REFUSALS = ("(Cast) does not", "does not take", "does not support", "version_converter writes a Scan-9")
# Models that are joined into one, at most.
JOINED = 100

# A model, its inputs, what its outputs were before, and the opsets that it is raised to.
Item = collections.namedtuple("Item", "label model inputs want targets")


def item(label, model, inputs, targets, number):
    """The model with names that no other has, so that it can be joined with others."""
    prefix = f"t{number}_"
    one = prefixed(model, prefix)
    for function in one.functions:
        for node in one.graph.node:
            if (node.domain, node.op_type) == (function.domain, function.name):
                node.op_type = prefix + function.name
        function.name = prefix + function.name
    return Item(label, one, {prefix + name: array for name, array in inputs.items()}, {}, targets)


def joined(items):
    nodes, ins, outs, constants, functions = [], [], [], [], []
    for one in items:
        graph = one.model.graph
        nodes.extend(graph.node), ins.extend(graph.input), outs.extend(graph.output), constants.extend(graph.initializer)
        functions.extend(one.model.functions)
    opset = items[0].model.opset_import[0].version
    imports = [helper.make_opsetid("own", 1)] if functions else []
    return model_of(nodes, ins, outs, constants, opset, functions, imports)


def ran(model, items):
    """What each output of a model is, by name."""
    runner = session(model)
    inputs = {name: array for one in items for name, array in one.inputs.items()}
    names = [one.name for one in runner.get_outputs()]
    return dict(zip(names, map(bits, runner.run(names, inputs)), strict=True))


def with_wants(items):
    """The models that onnxruntime runs at their own opset, with what they give there."""
    try:
        given = ran(joined(items), items)
    except Exception as error:
        if len(items) == 1:
            counts["not run by onnxruntime at their own opset"] += 1
            reasons[items[0].label[:40] + str(error).split("\n")[0][-200:]] += 1
            return []
        half = len(items) // 2
        return with_wants(items[:half]) + with_wants(items[half:])
    return [one._replace(want={out.name: given[out.name] for out in one.model.graph.output}) for one in items]


def problem_of(items, out, opset, full):
    """What is wrong with a raised model; whether that is a version that onnxruntime lacks."""
    try:
        onnx.checker.check_model(str(out), full_check=full)
        raised = onnx.load(out)
        given = ran(raised, items)
    except Exception as error:
        return str(error), isinstance(error, NOT_IMPLEMENTED)
    if any(one.opset_import[0].version != opset for one in [raised, *raised.functions]):
        return f"its imports are {raised.opset_import}", False
    wrong = [(one, name) for one in items for name, value in one.want.items() if given[name] != value]
    # onnxruntime has another kernel of AveragePool from version 19 on, which adds up in another order.
    off = [(one, name) for one, name in wrong
           if "AveragePool" not in one.label or not close([given[name]], [one.want[name]])]
    counts["outputs within a rounding of onnxruntime's other kernel"] += 0 if off else len(wrong)
    return ("other bits" if off else None), False


def check_joined(items, opset, folder, kind, allowed, full):
    """Raises several models as one, and each half alone where that fails."""
    path, out = folder / "in.onnx", folder / "out.onnx"
    onnx.save(joined(items), path)
    refusal = upgrade(path, out, opset)
    problem, lacking = (None, False) if refusal else problem_of(items, out, opset, full)
    if not refusal and not problem:
        counts[f"{kind}, same bits"] += len(items)
    elif len(items) > 1:
        half = len(items) // 2
        check_joined(items[:half], opset, folder, kind, allowed, full)
        check_joined(items[half:], opset, folder, kind, allowed, full)
    elif lacking:
        # As RoiAlign-22 in onnxruntime 1.31.
        counts[f"{kind}, valid, but of a version that onnxruntime lacks"] += 1
    elif refusal:
        if not any(text in refusal for text in allowed):
            fail(f"{items[0].label} to {opset}: {refusal}")
        counts[f"{kind}, refused"] += 1
        refusals[refusal.split(": version")[-1][:110]] += 1
    else:
        fail(f"{items[0].label} to {opset}: {problem}")


def check_items(items, folder, kind, allowed, full, most):
    """Models of one opset."""
    for target in TARGETS:
        some = [one for one in items if target in one.targets]
        for at in range(0, len(some), most):
            check_joined(some[at:at + most], target, folder, kind, allowed, full)


reasons, refusals = collections.Counter(), collections.Counter()


def check_generated(folder, share):
    for make in (make_axes_cases, make_list_cases, make_shape_cases, make_sampling_cases, make_cast_cases):
        make()
    groups = collections.defaultdict(list)
    for at, one in enumerate(CASES):
        if at % SHARES != share:
            continue
        nodes, ins, outs, constants = graph_of(one)
        inputs = {name: np.asarray(array) for name, array in one.inputs.items()}
        untyped = helper.make_graph(nodes, "g", ins, outs, constants)
        model = helper.make_model(untyped, opset_imports=[helper.make_opsetid("", one.opset)])
        model.ir_version = ir_version(one.opset) if not constants else max(4, ir_version(one.opset))
        try:
            types = [(dtype_of(np.asarray(got)), np.asarray(got).ndim) for got in session(model).run(None, inputs)]
        except Exception as error:
            reasons[f"{one.name}: {error}".split("\n")[0][:150]] += 1
            counts["not run by onnxruntime at their own opset"] += 1
            continue
        targets = [target for target in TARGETS if target > one.opset]
        for number, (way, model) in enumerate(wrapped(one, types)):
            # The plain model goes everywhere; the others to one opset each, in turn.
            some = targets if way == "plain" else [targets[at % len(targets)]]
            each = item(f"{one.name} {way}", model, inputs, some, f"{at}_{number}")
            groups[one.opset, bool(model.functions)].append(each)
    for items in groups.values():
        most = 1 if ALL else JOINED
        items = [each for at in range(0, len(items), most) for each in with_wants(items[at:at + most])]
        check_items(items, folder, "generated models", REFUSALS, True, most)


# --- onnx's node tests --------------------------------------------------------------------------------------------


def older(model, inputs, version):
    """The model of one node at an older opset, and its inputs; None where the operator was another."""
    model, inputs = copy.deepcopy(model), dict(inputs)
    if len(model.graph.node) != 1:
        return None
    node = model.graph.node[0]
    model.opset_import[0].version = version
    model.ir_version = max(ir_version(version), 4)
    names = {at: name for at, name in enumerate(node.input) if name}

    def to_attribute(place, name, scalar=False):
        if place not in names or names[place] not in inputs:
            return
        array = np.asarray(inputs.pop(names[place]))
        value = array.reshape(-1).tolist()
        if not value:
            raise ValueError("an empty list is not an attribute")
        node.attribute.append(helper.make_attribute(name, value[0] if scalar else value))
        kept = [one for one in model.graph.input if one.name != names[place]]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        node.input[place] = ""

    moves = {
        "Squeeze": (13, [(1, "axes", False)]), "Unsqueeze": (13, [(1, "axes", False)]), "ReduceSum": (13, [(1, "axes", False)]),
        "Split": (13, [(1, "split", False)]), "Clip": (11, [(1, "min", True), (2, "max", True)]),
        "Pad": (11, [(1, "pads", False), (2, "value", True)]), "TopK": (10, [(1, "k", True)]),
        "Slice": (10, [(1, "starts", False), (2, "ends", False), (3, "axes", False)]), "DFT": (20, [(2, "axis", True)]),
    }
    if node.op_type.startswith("Reduce") and node.op_type != "ReduceSum":
        moves[node.op_type] = (18, [(1, "axes", False)])
    try:
        since, changes = moves.get(node.op_type, (0, []))
        if version < since:
            for change in changes:
                to_attribute(*change)
        if node.op_type == "Split" and version < 18:
            kept = [one for one in node.attribute if one.name != "num_outputs"]
            del node.attribute[:]
            node.attribute.extend(kept)
        while node.input and not node.input[-1]:
            node.input.pop()
        schema = onnx.defs.get_schema(node.op_type, version, "")
        if any(one.name not in schema.attributes for one in node.attribute):
            return None
        onnx.checker.check_model(model)
    except Exception:
        return None
    return model, inputs


def prefixed(model, prefix):
    """The model with a prefix before every name of a value in its main graph."""
    model = copy.deepcopy(model)
    graph = model.graph
    outer = {one.name for one in [*graph.input, *graph.output, *graph.initializer]} | {
        name for node in graph.node for name in node.output}

    def rename(nodes):
        for node in nodes:
            for side in (node.input, node.output):
                side[:] = [prefix + name if name in outer else name for name in side]
            node.name = ""
            for attribute in node.attribute:
                for inner in [attribute.g, *attribute.graphs]:
                    rename(inner.node)
                    for value in inner.output:
                        value.name = prefix + value.name if value.name in outer else value.name

    rename(graph.node)
    for value in [*graph.input, *graph.output, *graph.initializer]:
        value.name = prefix + value.name
    return model


# The versions of each operator.
VERSIONS = collections.defaultdict(set)
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain == "":
        VERSIONS[schema.name].add(schema.since_version)


def node_tests(share):
    """A share of onnx's own tests, each with its first set of inputs."""
    folder = SITE / "onnx" / "backend" / "test" / "data" / "node"
    for path in sorted(folder.glob("*/model.onnx"))[share::SHARES]:
        model = onnx.load(path)
        if any(one.domain not in ("", "ai.onnx") for one in model.opset_import) or model.functions:
            continue
        inputs = {}
        try:
            for at, value in enumerate(model.graph.input):
                if value.type.WhichOneof("value") != "tensor_type":
                    raise ValueError("no tensor")
                tensor = onnx.TensorProto.FromString((path.parent / "test_data_set_0" / f"input_{at}.pb").read_bytes())
                array = numpy_helper.to_array(tensor)
                inputs[value.name] = array
        except Exception:
            counts["node tests whose inputs numpy has no type for"] += 1
            continue
        yield path.parent.name, model, inputs


RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


def check_nodes(folder, share):
    by_opset = collections.defaultdict(list)
    for number, (name, model, inputs) in enumerate(node_tests(share)):
        types = {node.op_type for node in model.graph.node}
        if types & RANDOM or "training" in name:
            continue
        own = model.opset_import[0].version
        versions = {own}
        if len(model.graph.node) == 1:
            op_type = model.graph.node[0].op_type
            versions |= {max(7, since) for since in VERSIONS[op_type] if since < own}
        for version in sorted(versions):
            if not 7 <= version < RUNTIME:
                continue
            changed = (model, inputs) if version == own else older(model, inputs, version)
            if changed is None:
                continue
            label = f"node test {name} ({' '.join(sorted(types))}) from {version}"
            one = item(label, *changed, [target for target in TARGETS if target > version], f"{number}_{version}")
            try:
                runner = session(one.model)
                names = [each.name for each in runner.get_outputs()]
                first, again = (dict(zip(names, map(bits, runner.run(names, one.inputs)), strict=True)) for _ in range(2))
            except Exception:
                counts["node tests that onnxruntime does not run"] += 1
                continue
            if first == again:
                by_opset[version].append(one._replace(want=first))
    for _, items in sorted(by_opset.items()):
        check_items(items, folder, "node tests", NODE_REFUSALS, False, JOINED)


# --- models of packages -------------------------------------------------------------------------------------------


def real_models():
    data = SITE / "onnx" / "backend" / "test" / "data"
    yield from sorted((data / "light").glob("light_*.onnx"))
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        yield from sorted((data / kind).glob("*/model.onnx"))
    yield from sorted(path for path in SITE.glob("*/**/*.onnx") if "onnx/backend" not in str(path))


def random_inputs(runner, model):
    inputs, rng = {}, np.random.default_rng(19)
    for value in runner.get_inputs():
        shape = [dim if isinstance(dim, int) and dim > 0 else 1 for dim in value.shape]
        kind = value.type.removeprefix("tensor(").removesuffix(")")
        if kind in ("float", "float16", "double"):
            inputs[value.name] = rng.random(shape).astype({"float": "f4", "double": "f8", "float16": "f2"}[kind])
        elif kind == "string":
            inputs[value.name] = np.full(shape, "a", object)
        else:
            inputs[value.name] = rng.integers(0, 2, shape).astype(kind)
    return inputs


def check_real(folder, share):
    for path in list(real_models())[share::SHARES]:
        label = f"{path.parent.name}/{path.name}"
        original = onnx.load(path)
        own = max([one.version for one in original.opset_import if one.domain in ("", "ai.onnx")], default=0)
        try:
            runner = session(str(path), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
            if own < 7:
                raise ValueError("older than onnxruntime")
            inputs = random_inputs(runner, original)
            folder_inputs = path.parent / "test_data_set_0"
            if folder_inputs.is_dir():
                for at, value in enumerate(runner.get_inputs()):
                    tensor = onnx.TensorProto.FromString((folder_inputs / f"input_{at}.pb").read_bytes())
                    inputs[value.name] = numpy_helper.to_array(tensor)
            want = bits(runner.run(None, inputs))
        except Exception as error:
            counts["real models that onnxruntime does not run"] += 1
            reasons[f"{label} (opset {own}): {error}".split("\n")[0][:150]] += 1
            continue
        out = folder / "real.onnx"
        for target in (21, RUNTIME):
            if target <= own:
                continue
            refusal = upgrade(path, out, target)
            if refusal:
                fail(f"{label} from {own} to {target}: {refusal}")
                continue
            try:
                onnx.checker.check_model(str(out), full_check=True)
                got = bits(session(str(out), onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL).run(None, inputs))
            except Exception as error:
                fail(f"{label} from {own} to {target}: {error}")
                continue
            if got != want:
                fail(f"{label} from {own} to {target}: other bits")
            counts["real models, same bits"] += 1


# --- beyond onnxruntime -------------------------------------------------------------------------------------------


def check_reference(folder, share):
    """The opsets that onnxruntime does not load, by onnx's reference evaluator."""
    path, out = folder / "in.onnx", folder / "out.onnx"
    for number, (name, model, inputs) in enumerate(node_tests(share)):
        own = model.opset_import[0].version
        if len(model.graph.node) != 1 or model.graph.node[0].op_type in RANDOM or "training" in name:
            continue
        versions = [target for target in (27, 28) if own < target <= NEWEST]
        # One of five of those whose operator has no version that new.
        if not versions or not ALL and number % 5 and not VERSIONS[model.graph.node[0].op_type] & {27, 28}:
            continue
        try:
            want = bits(ReferenceEvaluator(model).run(None, inputs))
        except Exception:
            counts["node tests that the reference does not run"] += 1
            continue
        onnx.save(model, path)
        for target in versions:
            refusal = upgrade(path, out, target)
            if refusal:
                counts["node tests, refused beyond onnxruntime"] += 1
                refusals[f"{model.graph.node[0].op_type}: " + refusal.split(": version")[-1][:110]] += 1
                continue
            try:
                onnx.checker.check_model(str(out))
                got = bits(ReferenceEvaluator(onnx.load(out)).run(None, inputs))
            except Exception as error:
                fail(f"{name} to {target}, by the reference: {error}")
                continue
            if got != want:
                fail(f"{name} to {target}, by the reference: other bits")
            counts["node tests, same bits by the reference"] += 1


# Each part of the check is done in so many shares.
SHARES = 4
PARTS = {"generated": check_generated, "nodes": check_nodes, "real": check_real, "reference": check_reference}


def share_of(part, share):
    """What a share of a part found."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="onnx-cast-upgrade-") as folder:
        PARTS[part](Path(folder), share)
    found = copy.deepcopy((counts, failures, reasons, refusals))
    for one in (counts, failures, reasons, refusals, CASES):
        one.clear()
    return found


def main():
    # The reference evaluator takes the same node tests in whichever onnx package it is of: the newest has both opsets.
    default = PARTS if ALL or NEWEST == 28 else [part for part in PARTS if part != "reference"]
    parts = os.environ.get("UPGRADE_PARTS", " ".join(default)).split()
    for found in in_processes(share_of, [(part, share) for part in parts for share in range(SHARES)]):
        for mine, theirs in zip((counts, failures, reasons, refusals), found, strict=True):
            mine.extend(theirs) if mine is failures else mine.update(theirs)
    for name, count in sorted(counts.items()):
        print(f"  {name}: {count}")
    for title, what in (("refused", refusals), ("not run", reasons)):
        if os.environ.get("UPGRADE_VERBOSE"):
            print(title, *[f"  {count} {text}" for text, count in what.most_common(40)], sep="\n")
    if failures:
        sys.exit(f"upgrade: {len(failures)} failures, as {failures[0]}")


main()
