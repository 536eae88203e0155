#!/usr/bin/env python3
"""Does a model whose opset `onnx-cast upgrade` raised give the bits that it gave before?

    upgrade.py [COMMAND] [--all]

Takes generated models for every step that rewrites nodes, also within a branch, a loop's body and a function; onnx's
node tests, written down once more at every older version of their operator; and real models. Each is raised to several
opsets, checked, and run by onnxruntime before and after; beyond what that loads, by onnx's reference evaluator.

Models of one opset are joined, up to a hundred into one; where something is wrong, each half is. With --all generated
models are alone, and the evaluator takes all node tests, not every fifth of those whose operator did not change.
UPGRADE_PARTS names parts: generated, nodes, real, and reference, which is left out for an onnx without opset 28.
"""

import collections
import copy
import itertools
import os
import warnings

import numpy as np
import onnx
import onnxruntime
from graphs import LEVELS, SITE, bits
from graphs import session as any_session
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from shared import ALL, counts, finish, in_shares, problem, run

onnxruntime.set_default_logger_severity(4)
NEWEST = min(onnx.defs.onnx_opset_version(), 28)
# The newest opset that onnxruntime loads.
RUNTIME = 26
TARGETS = (13, 18, 21, 24, RUNTIME)
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
NOT_IMPLEMENTED = onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented
DATA = SITE / "onnx" / "backend" / "test" / "data"
rng = np.random.default_rng(19)
value_info, node_of = helper.make_tensor_value_info, helper.make_node


def ir_version(opset):
    return max(helper.OP_SET_ID_VERSION_MAP.get(("ai.onnx", opset), 3), 3)


def session(model):
    return any_session(model, LEVELS[0])


def upgrade(path, out, opset):
    """What the command says where it refuses."""
    done = run("upgrade", path, out, "--opset", opset, "--quiet")
    return done.stderr.strip() if done.returncode else None


def close(got, want):
    """Whether float results, as bits, differ by a few roundings."""
    values = [np.frombuffer(one[2], one[0]).astype(np.float64) for one in (got, want)]
    return got[:2] == want[:2] and np.allclose(*values, rtol=2e-6, atol=1e-6)


# --- generated models ---------------------------------------------------------------------------------------------

Case = collections.namedtuple("Case", "name opset nodes inputs initializers outputs")
CASES = []


def case(op, opset, inputs, attrs, outs=1, constants=(), shapes=True, names=None, tag=""):
    """A model of one node. `inputs` are arrays or None, in their order; those of `constants` are initializers."""
    given = [f"x{at}" if one is not None else "" for at, one in enumerate(inputs)]
    while given and not given[-1]:
        given.pop()
    outputs = names or [f"y{at}" for at in range(outs)]
    nodes = [node_of(op, given, outputs, **attrs)]
    arrays = {f"x{at}": np.asarray(one) for at, one in enumerate(inputs) if one is not None}
    initializers = {f"x{at}": arrays.pop(f"x{at}") for at in constants}
    if not shapes:
        # Nothing declares the rank of what a Reshape gives whose shape is an input.
        arrays["s"] = list_of(*inputs[0].shape)
        middle = node_of(op, ["r"], ["m"], **attrs)
        nodes = [node_of("Reshape", ["x0", "s"], ["r"]), middle, node_of("Identity", ["m"], ["y0"])]
    CASES.append(Case(f"{op}-{opset}{tag} {attrs}", opset, nodes, arrays, initializers, outputs[:outs]))


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def list_of(*values):
    return np.array(values, np.int64)


def each(**lists):
    """Every combination of attributes; None leaves one out."""
    rows = itertools.product(*lists.values())
    return [{key: one for key, one in zip(lists, row) if one is not None} for row in rows]


def make_list_cases():
    """Operators whose attributes became inputs: operator, opsets, inputs, attributes and arguments of `case`."""
    wide, x = floats(1, 3, 1, 4), floats(4, 6)
    yield "Squeeze", (7, 11, 12), [wide], each(axes=[[0], [2], [0, 2], None])
    yield "Squeeze", (11, 12), [wide], [{"axes": [-2]}]
    yield "Unsqueeze", (7, 11, 12), [wide], each(axes=[[0], [1, 3]])
    yield "Unsqueeze", (11, 12), [wide], [{"axes": [-1]}]
    for op in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"):
        some, opsets = np.abs(floats(2, 3, 4)) + np.float32(0.1), (7, 11, 12) + (() if op == "Sum" else (13, 17))
        yield f"Reduce{op}", opsets, [some], each(axes=[None, [1], [0, 2]], keepdims=[0, 1])
        yield f"Reduce{op}", opsets[1:], [some], each(axes=[[-1]], keepdims=[0, 1])
    for op in ("Max", "Min"):
        yield f"Reduce{op}", (12,), [rng.integers(-9, 9, (2, 3)).astype(np.int8)], [{"axes": [1]}]
    yield "Split", (7, 11, 12), [x], [{"axis": 1, "split": [1, 2, 3]}], {"outs": 3}
    yield "Split", (7, 11, 12), [x], [{"axis": 0}, {"split": [3, 1]}], {"outs": 2}
    yield "Split", (13, 17), [x, list_of(1, 2, 3)], [{"axis": 1}], {"outs": 3}
    yield "Split", (13, 17), [x], [{"axis": 1}], {"outs": 3}
    yield "Split", (13, 17), [x], [{"axis": -1}], {"outs": 2}
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 3e38, -3e38, 1e-40], np.float32)
    bounds = [{"min": -0.5, "max": 0.25}, {"min": 0.0}, {"max": 0.5}, {}, {"min": 0.0, "max": 6.0}]
    yield "Clip", (7, 9, 10), [np.concatenate([floats(8), special])], bounds
    pads = each(pads=[[1, 0, 2, 1]], mode=["constant", "reflect", "edge"], value=[None, 0.0, -0.0, 1.5])
    yield "Pad", (7, 10), [x], [*pads, {"pads": [-1, 0, 2, -1], "value": 2.0}]
    yield "Slice", (7, 9), [x], [
        {"starts": [1], "ends": [3]}, {"starts": [0, 1], "ends": [-1, 1000]},
        {"starts": [-3], "ends": [2147483647], "axes": [1]}, {"starts": [1, 1], "ends": [2, 4], "axes": [1, 0]},
    ]  # fmt: skip
    yield "TopK", (7, 9), [np.round(floats(4, 6))], [{"k": 3}, {"k": 2, "axis": 0}, {"k": 1, "axis": 1}], {"outs": 2}
    for more in ({}, {"names": ["y0", "mask"], "tag": " with an unused mask"}):
        yield "Dropout", (7, 9, 10, 11), [x], [{}, {"ratio": 0.25}], more
    yield "DFT", (17, 19), [floats(1, 4, 6, 2)], [{}, {"axis": 1}, {"axis": 2, "inverse": 1}]
    yield "DFT", (17, 19), [floats(1, 4, 6, 1)], [{"axis": 2, "onesided": 1}]
    yield "DFT", (17, 19), [floats(1, 4, 6, 1), np.array(5, np.int64)], [{"axis": 2}]
    data = floats(3, 4)
    yield "Scatter", (9,), [data, np.array([[0, 2, 1, 0], [2, 0, 0, 1]]), floats(2, 4)], [{}, {"axis": 0}]
    yield "Scatter", (10,), [data, np.array([[1], [0], [3]]), floats(3, 1)], [{"axis": 1}]


def make_shape_cases():
    operators, shapes = ("Softmax", "LogSoftmax", "Hardmax"), ((3, 4), (2, 3, 4), (2, 1, 3, 2))
    for op, shape, known in itertools.product(operators, shapes, (True, False)):
        more = {} if known else {"shapes": False, "tag": " of unknown rank"}
        yield op, (7, 11, 12), [floats(*shape)], each(axis=[None, *range(len(shape))]), more
        yield op, (11, 12), [floats(*shape)], each(axis=[-1, -2]), more
    norm, parameters = "BatchNormalization", lambda *shape: [floats(*shape), floats(*shape), floats(*shape)]
    some = [floats(2, 3, 4, 5), *parameters(3), np.abs(floats(3)) + 1]
    yield norm, (7, 8), some, each(epsilon=[1e-3], spatial=[None, 1])
    some = [floats(2, 3, 2, 2), *parameters(3, 2, 2), np.abs(floats(3, 2, 2)) + np.float32(1)]
    yield norm, (7, 8), some, [{"spatial": 0}]
    yield norm, (9, 13, 14), [floats(2, 3, 4), *parameters(3), np.abs(floats(3))], [{}]
    for groups in (1, 2, 4):
        some = [floats(2, 4, 3, 3), floats(groups), floats(groups)]
        yield "GroupNormalization", (18, 20), some, [{"num_groups": groups, "epsilon": 1e-3}]
    # Not float16, which onnxruntime computes as float on a CPU, and rounds where its optimizer leaves a Cast.
    some = [floats(2, 4, 3), *[floats(2)] * 2]
    yield "GroupNormalization", (18, 20), [one.astype(np.float64) for one in some], [{"num_groups": 2}]


def make_sampling_cases():
    x, modes = floats(1, 2, 4, 5), ["nearest", "linear"]
    for scales in ([1.0, 1.0, 2.0, 3.0], [1.0, 1.0, 1.5, 2.3], [1.0, 1.0, 1.0, 1.0]):
        yield "Upsample", (7, 8), [x], each(scales=[scales], mode=modes)
        for constants in ([], [1]):
            yield "Upsample", (9,), [x, np.array(scales, np.float32)], each(mode=modes), {"constants": constants}
    for scales in ([1, 1, 2, 3], [1, 1, 0.5, 0.7], [1, 1, 1.7, 1.1], [1, 1, 0.61, 1], [1, 1, 0.5, 2]):
        yield "Resize", (10,), [x, np.array(scales, np.float32)], each(mode=modes), {"constants": [1]}
    for scales in ([1, 1, 1.5, 2.5], [1, 1, 0.7, 1.3], [1, 1, 0.4, 0.9], [2, 0.5, 0.3, 3]):
        tag, some = {"tag": f" of scales at run time, {scales}"}, modes if scales[:2] == [1, 1] else ["nearest"]
        yield "Resize", (10,), [x, np.array(scales, np.float32)], each(mode=some), tag
    none, scales = np.zeros(0, np.float32), np.array([1, 1, 1.7, 0.6], np.float32)
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    for opset, sized in itertools.product((11, 12, 13, 17, 18), (False, True)):
        attributes = each(mode=["nearest", "linear", "cubic"], coordinate_transformation_mode=ways)
        if opset < 13:
            # The default, `round_prefer_floor`, is the other rounding that there is a newer node for.
            tf = {"mode": "nearest", "coordinate_transformation_mode": "tf_half_pixel_for_nn"}
            attributes.append(tf | ({"nearest_mode": "floor"} if sized else {}))
        for one in attributes:
            if (one["mode"], one["coordinate_transformation_mode"]) == ("nearest", "align_corners"):
                one["nearest_mode"] = "round_prefer_ceil"
        if opset < 13:
            inputs, constants = [x, none, none if sized else scales], [1, 2]
        else:
            inputs, constants = [x, None, None if sized else scales], [] if sized else [2]
        sizes = list_of(1, 2, 7, 3) if sized else None
        yield "Resize", (opset,), [*inputs, sizes], attributes, {"constants": constants}
    grid = np.clip(floats(1, 3, 3, 2), -1.4, 1.4)
    paddings = ["zeros", "border", "reflection"]
    yield "GridSample", (16, 19), [x, grid], each(mode=["bilinear", "nearest", "bicubic", None], padding_mode=paddings)
    rois, sizes = np.array([[0, 0, 3, 3], [1, 1, 2.5, 3.5]], np.float32), {"output_height": 2, "output_width": 2}
    some = [one | sizes for one in each(mode=["avg", "max"], sampling_ratio=[2], spatial_scale=[0.8])]
    yield "RoiAlign", (10, 15), [x, rois, list_of(0, 0)], some


SPECIAL = np.array([1.5, -2.7, np.inf, -np.inf, np.nan, 1e-9, -0.0, 7e4, 448, 500], np.float32)


def make_cast_cases():
    kind = TensorProto
    yield "Cast", (7, 9, 12, 13, 18, 19, 21, 23), [SPECIAL], each(to=[kind.FLOAT16, kind.DOUBLE, kind.BOOL])
    yield "Cast", (7, 9, 12, 13, 18, 19, 21, 23), [np.array([1, -7, 300], np.int64)], [{"to": kind.INT8}]
    yield "CastLike", (15, 18, 19, 21), [SPECIAL, np.zeros(1, np.float16)], [{}]
    yield "Erf", (9,), [floats(5)], [{}]
    yield "BitShift", (11,), [np.array([1, 200], np.uint8), np.array([3, 1], np.uint8)], [{"direction": "LEFT"}]
    yield "OneHot", (9,), [list_of(0, 2, 1), np.array(3, np.int64), np.array([0.5, 1.5], np.float32)], [{}]
    yield "Range", (11,), [np.float32(0.5), np.float32(3), np.float32(0.3)], [{}]
    yield "Mod", (10,), [np.array([-7, 5, 8], np.int32), np.array([3, -3, 5], np.int32)], each(fmod=[0, 1])
    yield "Mod", (10,), [floats(6), floats(6)], [{"fmod": 1}]
    image, small, kernel = floats(1, 2, 7, 7), [floats(1, 2, 4, 4), floats(2, 1, 3, 3)], floats(3, 2, 3, 3)
    same = {"kernel_shape": [3, 2], "auto_pad": "SAME_LOWER"}
    padded = {"kernel_shape": [3, 2], "pads": [1, 1, 1, 0], "count_include_pad": 1}
    yield "MaxPool", (7, 10), [image], [{"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}]
    yield "AveragePool", (7, 10), [image], [same, padded]
    shapes = [{"strides": [2, 2], "output_shape": [7, 8]}, {"strides": [3, 3], "auto_pad": "SAME_UPPER"}]
    yield "ConvTranspose", (7, 10), small, shapes
    yield "Conv", (7, 10), [image, kernel], [{"strides": [2, 2], "auto_pad": "SAME_LOWER"}]
    pools = each(kernel_shape=[[3, 3]], strides=[[2, 2]], pads=[[0, 0, 1, 1]], ceil_mode=[0, 1])
    yield "MaxPool", (10, 11, 19), [floats(1, 2, 6, 7)], pools, {"outs": 2}
    yield "AveragePool", (10, 11, 19), [floats(1, 2, 6, 7)], [one | {"count_include_pad": 1} for one in pools]


def make_float8_cases():
    """Casts to float8, which are cast back, since numpy has no such type."""

    def chain(label, opset, x, *nodes):
        back = node_of("Cast", ["q"], ["y0"], to=FLOAT)
        CASES.append(Case(label, opset, [*nodes, back], {"x0": x}, {}, ["y0"]))

    kind = TensorProto
    # onnxruntime casts infinity to the FNUZ types by the rules of version 24 at every version.
    finite = SPECIAL[~np.isinf(SPECIAL)]
    halves = SPECIAL[~np.isinf(SPECIAL) & ~np.isinf(SPECIAL.astype(np.float16))]
    fnuz = {kind.FLOAT8E4M3FNUZ: halves, kind.FLOAT8E5M2FNUZ: halves}
    targets = (kind.FLOAT8E4M3FN, *fnuz, kind.FLOAT8E5M2)
    for opset, saturate, to in itertools.product((19, 21, 23), (0, 1), targets):
        for x in (fnuz.get(to, SPECIAL), fnuz.get(to, SPECIAL).astype(np.float16)):
            label = f"Cast-{opset} {to} and back, saturate={saturate}, {x.dtype}"
            chain(label, opset, x, node_of("Cast", ["x0"], ["q"], to=to, saturate=saturate))
    like = node_of("Constant", [], ["like"], value=helper.make_tensor("like", kind.FLOAT8E4M3FNUZ, [1], [0.0]))
    for opset in (19, 23):
        chain(f"CastLike-{opset} of a FNUZ type", opset, finite, like, node_of("CastLike", ["x0", "like"], ["q"]))
        first = node_of("Cast", ["x0"], ["r"], to=kind.FLOAT8E5M2)
        second = node_of("Cast", ["r"], ["q"], to=kind.FLOAT8E4M3FNUZ)
        chain(f"Cast-{opset} of float8 to a FNUZ type", opset, SPECIAL, first, second)


def make_cases():
    for make in (make_list_cases, make_shape_cases, make_sampling_cases, make_cast_cases):
        for op, opsets, inputs, attributes, *more in make():
            for opset, attrs in itertools.product(opsets, attributes):
                case(op, opset, inputs, attrs, **(more[0] if more else {}))
    make_float8_cases()


def dtype_of(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def graph_of(one, rename=lambda name: name):
    """Nodes, inputs, outputs without types, and initializers. Values that the nodes make are renamed."""
    nodes, given = copy.deepcopy(one.nodes), one.inputs | one.initializers
    for node in nodes:
        for side in (node.input, node.output):
            side[:] = [rename(each) if each and each not in given else each for each in side]
    ins = [value_info(each, dtype_of(array), array.shape) for each, array in one.inputs.items()]
    outs = [onnx.ValueInfoProto(name=rename(each)) for each in one.outputs]
    return nodes, ins, outs, [numpy_helper.from_array(array, each) for each, array in one.initializers.items()]


def typed(outs, types, trips=()):
    """Outputs with the element types and the ranks that a run gave, within a loop of so many trips."""
    return [value_info(out.name, data_type, [None] * (len(trips) + rank))
            for out, (data_type, rank) in zip(outs, types, strict=True)]


def model_of(nodes, ins, outs, constants, opset, functions=()):
    graph = helper.make_graph(nodes, "g", ins, outs, constants)
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid("own", 1)] if functions else [])]
    version = max(ir_version(opset), 8 if functions else 4)
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=version)


def wrapped(one, types):
    """The model, and the same within a branch, a loop's body and a function."""
    nodes, ins, outs, constants = graph_of(one)

    def whole(*nodes, outs=typed(outs, types), function=None, **more):
        held = [numpy_helper.from_array(np.array(array), name) for name, array in more.items()]
        return model_of(nodes, ins, outs, [*constants, *held], one.opset, [function] if function else [])

    yield "plain", whole(*nodes)
    branches = {}
    for branch in ("then_branch", "else_branch"):
        inner, _, inner_outs, _ = graph_of(one, lambda name, branch=branch: f"{name}_{branch}")
        branches[branch] = helper.make_graph(inner, branch, [], typed(inner_outs, types))
    yield "in a branch", whole(node_of("If", ["flag"], one.outputs, **branches), flag=True)
    inner, _, inner_outs, _ = graph_of(one, lambda name: f"{name}_body")
    inner += [node_of("Identity", ["go"], ["on"]), node_of("Identity", ["before"], ["behind"])]
    i, before, behind = (value_info(each, INT64, []) for each in ("i", "before", "behind"))
    go, on = (value_info(each, BOOL, []) for each in ("go", "on"))
    body = helper.make_graph(inner, "body", [i, go, before], [on, behind, *typed(inner_outs, types)])
    loop = node_of("Loop", ["trips", "flag", "trips"], ["state", *one.outputs], body=body)
    yield "in a loop", whole(loop, outs=typed(outs, types, [2]), trips=2, flag=True)
    if one.opset < 10:
        return
    names, imports = [*one.inputs, *one.initializers], [helper.make_opsetid("", one.opset)]

    def function(nodes, **more):
        return helper.make_function("own", "Wrapped", names, one.outputs, nodes, imports, **more)

    def call(given=names, outputs=one.outputs, **attributes):
        return node_of("Wrapped", given, outputs, domain="own", **attributes)

    yield "in a function", whole(call(), function=function(nodes))
    floats = [each for each, array in one.inputs.items() if array.dtype == np.float32]
    if one.opset >= 15 and nodes[0].op_type == "GroupNormalization" and floats:
        # Called with the inputs, and with them as doubles: nothing in it has one type.
        casts = [node_of("Cast", [each], [f"{each}_double"], to=TensorProto.DOUBLE) for each in floats]
        given = [f"{each}_double" if each in floats else each for each in names]
        wide = call(given, [f"{each}_double" for each in one.outputs])
        doubles = [onnx.ValueInfoProto(name=each) for each in wide.output]
        every = typed([*outs, *doubles], [*types, *((TensorProto.DOUBLE, rank) for _, rank in types)])
        yield "in a function of two types", whole(*casts, call(), wide, outs=every, function=function(nodes))
    if nodes[0].attribute and len(nodes) == 1:
        inner, given = copy.deepcopy(nodes[0]), {}
        del inner.attribute[:]
        for each in nodes[0].attribute:
            given[f"its_{each.name}"] = helper.get_attribute_value(each)
            inner.attribute.add(name=each.name, type=each.type, ref_attr_name=f"its_{each.name}")
        attributed = function([inner], attributes=[*given])
        yield "in a function, with its attributes", whole(call(**given), function=attributed)


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
    prefix, one = f"t{number}_", copy.deepcopy(model)
    graph = one.graph
    values = [*graph.input, *graph.output, *graph.initializer]
    outer = {value.name for value in values} | {name for node in graph.node for name in node.output}

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
    for value in values:
        value.name = prefix + value.name
    for function in one.functions:
        for node in graph.node:
            if (node.domain, node.op_type) == (function.domain, function.name):
                node.op_type = prefix + function.name
        function.name = prefix + function.name
    return Item(label, one, {prefix + name: array for name, array in inputs.items()}, {}, targets)


def joined(items):
    parts = [[], [], [], [], []]
    for one in items:
        graph = one.model.graph
        given = (graph.node, graph.input, graph.output, graph.initializer, one.model.functions)
        for all_of_them, some in zip(parts, given):
            all_of_them.extend(some)
    return model_of(*parts[:4], items[0].model.opset_import[0].version, parts[4])


def ran(model, items):
    """What each output of a model is, by name."""
    return named_outputs(session(model), {name: array for one in items for name, array in one.inputs.items()})


def named_outputs(runner, inputs):
    names = [one.name for one in runner.get_outputs()]
    return dict(zip(names, map(bits, runner.run(names, inputs)), strict=True))


def with_wants(items):
    """The models that onnxruntime runs at their own opset, with what they give there."""
    try:
        given = ran(joined(items), items)
    except Exception:
        if len(items) == 1:
            counts["not run by onnxruntime at their own opset"] += 1
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
           if "AveragePool" not in one.label or not close(given[name], one.want[name])]
    counts["outputs within a rounding of onnxruntime's other kernel"] += 0 if off else len(wrong)
    return ("other bits" if off else None), False


def check_joined(items, opset, folder, kind, allowed, full):
    """Raises several models as one, and each half alone where that fails."""
    path, out = folder / "in.onnx", folder / "out.onnx"
    onnx.save(joined(items), path)
    refusal = upgrade(path, out, opset)
    wrong, lacking = (None, False) if refusal else problem_of(items, out, opset, full)
    if not refusal and not wrong:
        counts[f"{kind}, same bits"] += len(items)
    elif len(items) > 1:
        half = len(items) // 2
        check_joined(items[:half], opset, folder, kind, allowed, full)
        check_joined(items[half:], opset, folder, kind, allowed, full)
    elif lacking:
        # As RoiAlign-22 in onnxruntime 1.31.
        counts[f"{kind}, valid, but of a version that onnxruntime lacks"] += 1
    elif refusal and any(text in refusal for text in allowed):
        counts[f"{kind}, refused"] += 1
    else:
        problem(f"{items[0].label} to {opset}: {refusal or wrong}")


def check_items(items, folder, kind, allowed, full, most):
    """Models of one opset."""
    for target in TARGETS:
        some = [one for one in items if target in one.targets]
        for at in range(0, len(some), most):
            check_joined(some[at:at + most], target, folder, kind, allowed, full)


def check_generated(folder, share):
    make_cases()
    groups, most = collections.defaultdict(list), 1 if ALL else JOINED
    for at, one in list(enumerate(CASES))[share::SHARES]:
        nodes, ins, outs, constants = graph_of(one)
        untyped = model_of(nodes, ins, outs, constants, one.opset)
        if not constants:
            untyped.ir_version = ir_version(one.opset)
        try:
            given = map(np.asarray, session(untyped).run(None, one.inputs))
            types = [(dtype_of(got), got.ndim) for got in given]
        except Exception:
            counts["not run by onnxruntime at their own opset"] += 1
            continue
        targets = [target for target in TARGETS if target > one.opset]
        for number, (way, model) in enumerate(wrapped(one, types)):
            # The plain model goes everywhere; the others to one opset each, in turn.
            some = targets if way == "plain" else [targets[at % len(targets)]]
            each = item(f"{one.name} {way}", model, one.inputs, some, f"{at}_{number}")
            groups[one.opset, bool(model.functions)].append(each)
    for items in groups.values():
        items = [each for at in range(0, len(items), most) for each in with_wants(items[at:at + most])]
        check_items(items, folder, "generated models", REFUSALS, True, most)


# --- onnx's node tests --------------------------------------------------------------------------------------------

# What was an attribute before some version: the operator, that version, and the places and names of the inputs.
MOVED = {
    **dict.fromkeys(("Squeeze", "Unsqueeze", "ReduceSum"), (13, {1: "axes"})), "Split": (13, {1: "split"}),
    "Clip": (11, {1: "min", 2: "max"}), "Pad": (11, {1: "pads", 2: "value"}), "TopK": (10, {1: "k"}),
    "Slice": (10, {1: "starts", 2: "ends", 3: "axes"}), "DFT": (20, {2: "axis"}),
}
SCALARS = {"min", "max", "value", "k", "axis"}


def older(model, inputs, version):
    """The model of one node at an older opset, and its inputs; None where the operator was another."""
    model, inputs = copy.deepcopy(model), dict(inputs)
    node, graph = model.graph.node[0], model.graph
    model.opset_import[0].version, model.ir_version = version, max(ir_version(version), 4)
    since, places = MOVED.get(node.op_type, (18, {1: "axes"}) if node.op_type.startswith("Reduce") else (0, {}))
    for place, name in places.items() if version < since else ():
        if place >= len(node.input) or node.input[place] not in inputs:
            continue
        given = node.input[place]
        value = np.asarray(inputs.pop(given)).reshape(-1).tolist()
        if not value:  # an empty list is not an attribute
            return None
        node.attribute.append(helper.make_attribute(name, value[0] if name in SCALARS else value))
        graph.input.remove(next(one for one in graph.input if one.name == given))
        node.input[place] = ""
    if node.op_type == "Split" and version < 18:
        for one in [one for one in node.attribute if one.name == "num_outputs"]:
            node.attribute.remove(one)
    while node.input and not node.input[-1]:
        node.input.pop()
    try:
        schema = onnx.defs.get_schema(node.op_type, version, "")
        onnx.checker.check_model(model)
    except Exception:  # it has no such version, or what the checker raises
        return None
    return None if any(one.name not in schema.attributes for one in node.attribute) else (model, inputs)


# The versions of each operator.
VERSIONS = collections.defaultdict(set)
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain == "":
        VERSIONS[schema.name].add(schema.since_version)
RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}


def tensor_of(path):
    return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))


def node_tests(share):
    """A share of onnx's own tests, each with its first set of inputs, but for those of random numbers."""
    for path in sorted((DATA / "node").glob("*/model.onnx"))[share::SHARES]:
        model, name = onnx.load(path), path.parent.name
        if any(one.domain not in ("", "ai.onnx") for one in model.opset_import) or model.functions:
            continue
        if "training" in name or {node.op_type for node in model.graph.node} & RANDOM:
            continue
        inputs = {}
        try:
            for at, value in enumerate(model.graph.input):
                if value.type.WhichOneof("value") != "tensor_type":
                    raise ValueError("no tensor")
                inputs[value.name] = tensor_of(path.parent / "test_data_set_0" / f"input_{at}.pb")
        except Exception:
            counts["node tests whose inputs numpy has no type for"] += 1
            continue
        yield name, model, inputs


def check_nodes(folder, share):
    by_opset = collections.defaultdict(list)
    for number, (name, model, inputs) in enumerate(node_tests(share)):
        types, own = sorted({node.op_type for node in model.graph.node}), model.opset_import[0].version
        versions = {own}
        if len(model.graph.node) == 1:
            versions |= {max(7, since) for since in VERSIONS[types[0]] if since < own}
        for version in sorted(versions & {*range(7, RUNTIME)}):
            changed = (model, inputs) if version == own else older(model, inputs, version)
            if changed is None:
                continue
            label = f"node test {name} ({' '.join(types)}) from {version}"
            one = item(label, *changed, [target for target in TARGETS if target > version], f"{number}_{version}")
            try:
                runner = session(one.model)
                first, again = (named_outputs(runner, one.inputs) for _ in range(2))
            except Exception:
                counts["node tests that onnxruntime does not run"] += 1
                continue
            if first == again:
                by_opset[version].append(one._replace(want=first))
    for _, items in sorted(by_opset.items()):
        check_items(items, folder, "node tests", NODE_REFUSALS, False, JOINED)


# --- models of packages, and what is beyond onnxruntime -----------------------------------------------------------


def check_alone(label, path, out, targets, run_it, want, kind, full=False):
    """A model of its own that is raised, checked and run; gives what it is refused for."""
    for target in targets:
        if refusal := upgrade(path, out, target):
            yield f"{label} to {target}: {refusal}"
            continue
        try:
            onnx.checker.check_model(str(out), full_check=full)
            got = bits(run_it(out))
        except Exception as error:
            problem(f"{label} to {target}: {error}")
            continue
        if got != want:
            problem(f"{label} to {target}: other bits")
        counts[f"{kind}, same bits"] += 1


def real_models():
    yield from sorted((DATA / "light").glob("light_*.onnx"))
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        yield from sorted((DATA / kind).glob("*/model.onnx"))
    yield from sorted(path for path in SITE.glob("*/**/*.onnx") if "onnx/backend" not in str(path))


def random_inputs(runner):
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
        own = max([one.version for one in onnx.load(path).opset_import if one.domain in ("", "ai.onnx")], default=0)
        try:
            runner = any_session(path)
            if own < 7:
                raise ValueError("older than onnxruntime")
            inputs, given = random_inputs(runner), path.parent / "test_data_set_0"
            if given.is_dir():
                inputs |= {one.name: tensor_of(given / f"input_{at}.pb") for at, one in enumerate(runner.get_inputs())}
            want = bits(runner.run(None, inputs))
        except Exception:
            counts["real models that onnxruntime does not run"] += 1
            continue
        targets = [target for target in (21, RUNTIME) if target > own]
        label = f"{path.parent.name}/{path.name} from {own}"
        again = lambda out: any_session(out).run(None, inputs)
        for refusal in check_alone(label, path, folder / "real.onnx", targets, again, want, "real models", True):
            problem(refusal)


def check_reference(folder, share):
    """The opsets that onnxruntime does not load, by onnx's reference evaluator."""
    path = folder / "in.onnx"
    for number, (name, model, inputs) in enumerate(node_tests(share)):
        own, op_type = model.opset_import[0].version, model.graph.node[0].op_type
        targets = [target for target in (27, 28) if own < target <= NEWEST]
        # One of five of those whose operator has no version that new.
        is_left_out = not ALL and number % 5 and not VERSIONS[op_type] & {27, 28}
        if len(model.graph.node) != 1 or not targets or is_left_out:
            continue
        evaluate = lambda one: ReferenceEvaluator(one).run(None, inputs)
        try:
            want = bits(evaluate(model))
        except Exception:
            counts["node tests that the reference does not run"] += 1
            continue
        onnx.save(model, path)
        again, kind = lambda out: evaluate(onnx.load(out)), "node tests by the reference"
        for _ in check_alone(name, path, folder / "out.onnx", targets, again, want, kind):
            counts["node tests, refused beyond onnxruntime"] += 1


# Each part of the check is done in so many shares.
SHARES = 4
PARTS = {"generated": check_generated, "nodes": check_nodes, "real": check_real, "reference": check_reference}


def share_of(folder, part, share):
    warnings.simplefilter("ignore")
    CASES.clear()
    PARTS[part](folder, share)


def main():
    # The reference evaluator takes the same node tests in whichever onnx package it is of: the newest has both opsets.
    default = PARTS if ALL or NEWEST == 28 else [part for part in PARTS if part != "reference"]
    parts = os.environ.get("UPGRADE_PARTS", " ".join(default)).split()
    in_shares([(share_of, part, share) for part in parts for share in range(SHARES)])
    finish()


if __name__ == "__main__":
    main()
