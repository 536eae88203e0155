#!/usr/bin/env python3
"""Do `upgrade`, `convert`, `fold`, `cast` and `quantize` keep what random graphs within graphs compute?

    nested.py [COMMAND] [--all] [--seed=N] [--count=N]

Graphs of If, Loop and Scan, some deep, and functions that call functions draw names from a few, so that one name stands
for values of other ranks and types in each graph. A failure names the seed of its model: --seed=N makes that alone, or
--count=N from there on; --all makes twenty times as many. onnxruntime (onnx's evaluator where it has no kernel) gives
the outputs before and after: bits for `upgrade`, `fold`, and `dequantize` of what `quantize` gives, a limit for
`convert` and `quantize`. Casting and converting twice has to give the same bytes.
"""

import collections
import copy
import functools
import itertools
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
from graphs import LEVELS, bits, distance, every_node, session
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from shared import ALL, command, counts, fail, finish, in_shares, problem, run

FLOAT, DOUBLE, INT64, BOOL = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.BOOL
# Values have 24 elements in one of these shapes.
SHAPES = [(24,), (4, 6), (3, 8), (12, 2), (2, 3, 4), (4, 1, 6), (2, 2, 3, 2), (1, 2, 3, 4), (2, 1, 3, 2, 2)]
NAMES = ["t", "u", "v", "w", "h", "k", "a", "b"]
ERRORS = onnxruntime.capi.onnxruntime_pybind11_state
IR_VERSION = 9
# How far float16 may be off, in parts of the largest magnitude.
LIMIT = 3e-2
Value = collections.namedtuple("Value", "name dtype shape")
# What a command may refuse: an attribute of a function that is no input before opset 12, or that a call leaves out; and
# weights that are all in Constant nodes.
REFUSALS = ("which a Constant can from opset 12 on", "which not every call of it gives", "no weight to quantize")
# What onnxruntime says where it has put a Cast of one name into several graphs, each around a node that it has no
# kernel of float16 for and that reads a value of the graph around.
OWN_CASTS = ("InsertedPrecisionFreeCast_", "the graph is not acyclic")
onnxruntime.set_default_logger_severity(4)


# --- models -------------------------------------------------------------------------------------------------------


def reference(kind, name, to):
    """An attribute that is the function's attribute `to`."""
    return onnx.AttributeProto(name=name, type=getattr(onnx.AttributeProto, kind), ref_attr_name=to)


class Scope:
    """A graph that is being made. `parent` is the graph around it, whose values it reads."""

    def __init__(self, made, parent=None, function=False):
        self.made, self.parent, self.function = made, parent, function
        self.nodes, self.initializers, self.infos = [], [], []
        self.values, self.names = [], set()
        # The names of values in graphs within.
        self.below = set()
        self.attributes = {}
        self.depth = 0 if parent is None else parent.depth + 1

    def chain(self):
        yield self
        if self.parent:
            yield from self.parent.chain()

    def fresh(self, stem=None):
        """A name that is new in this graph and those around it, but not in those beside it."""
        taken = self.below.union(*(scope.names for scope in self.chain()))
        free = [name for name in ([stem] if stem else NAMES) if name not in taken]
        number = 2
        while not free:
            free = [name for name in (f"{stem or 't'}{number}", f"{stem or 'u'}{number}") if name not in taken]
            number += 1
        # Graphs beside each other mostly name their values in one order.
        name = free[0 if self.made.chance(0.7) else self.made.rng.integers(len(free))]
        self.names.add(name)
        for scope in self.chain():
            # What a graph within has named before may be a name of this one later on, in some models.
            if scope is not self and not self.made.later:
                scope.below.add(name)
        return name

    def visible(self, dtypes=(FLOAT,)):
        return [value for scope in self.chain() for value in scope.values if value.dtype in dtypes]

    def pick(self, dtypes=(FLOAT,)):
        values = self.visible(dtypes)
        own = [value for value in self.values if value.dtype in dtypes]
        if own and self.made.chance(0.6):
            values = own[-2:]
        return values[self.made.rng.integers(len(values))]

    def add(self, op_type, inputs, dtype, shape, outputs=1, keep=True, domain=None, **attributes):
        names = [self.fresh() for _ in range(outputs)]
        inputs = [one.name if isinstance(one, Value) else one for one in inputs]
        self.nodes.append(helper.make_node(op_type, inputs, names, domain=domain, **attributes))
        shapes = shape if outputs > 1 else [shape]
        values = [Value(name, dtype, tuple(one)) for name, one in zip(names, shapes, strict=True)]
        if not self.function and self.made.chance(self.made.declares):
            self.infos.extend(values)
        if keep:
            self.values.extend(values)
        return values if outputs > 1 else values[0]

    def constant(self, array, anywhere=True):
        """A constant of this graph, or one of the main graph that is captured."""
        array = np.asarray(array)
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        if self.function or self.made.chance(0.4):
            name = self.fresh()
            value = numpy_helper.from_array(array, name if self.made.chance(0.5) else "")
            self.nodes.append(helper.make_node("Constant", [], [name], value=value))
            return Value(name, dtype, array.shape)
        if anywhere and self.made.chance(0.3) and not self.in_function():
            # Its name must not be one of a graph beside this one.
            main = list(self.chain())[-1]
            name = f"g{len(main.initializers)}"
        else:
            main, name = self, self.fresh()
        main.initializers.append(numpy_helper.from_array(array, name))
        return Value(name, dtype, array.shape)

    def in_function(self):
        return list(self.chain())[-1].function

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def reshaped(self, value, shape):
        if value.shape == tuple(shape):
            return value
        return self.add("Reshape", [value, self.ints(*shape)], value.dtype, shape)

    def as_type(self, value, dtype):
        return value if value.dtype == dtype else self.add("Cast", [value], dtype, value.shape, to=dtype)


class Made:
    """A random model."""

    def __init__(self, seed, opset, smooth):
        self.rng = np.random.default_rng(seed)
        self.opset, self.smooth = opset, smooth
        self.declares, self.later = self.rng.choice([0, 0.3, 0.8]), self.chance(0.1)
        self.functions, self.signatures = [], []
        self.budget = int(self.rng.integers(8, 30))
        for _ in range(self.rng.integers(0, 4)):
            self.function()
        scope = Scope(self)
        for at in range(3):
            shape = SHAPES[self.rng.integers(len(SHAPES))]
            scope.values.append(Value(f"x{at}", FLOAT, shape))
        scope.names |= {"x0", "x1", "x2", "c0", "c1", "y0", "y1"}
        inputs = [*scope.values, Value("c0", BOOL, ()), Value("c1", BOOL, ())]
        self.fill(scope, int(self.rng.integers(4, 10)))
        self.nest(scope)
        self.fill(scope, int(self.rng.integers(1, 5)))
        # Nothing tells the types of a function that nothing calls.
        for signature in self.signatures:
            call(self, scope, signature)
        outputs = []
        for at in range(2):
            value = scope.as_type(scope.pick((FLOAT, DOUBLE)), FLOAT)
            scope.nodes.append(helper.make_node("Identity", [value.name], [f"y{at}"]))
            outputs.append(Value(f"y{at}", FLOAT, value.shape))
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
        graph = self.graph(scope, "main", inputs, outputs)
        self.model = helper.make_model(graph, opset_imports=imports, functions=self.functions, ir_version=IR_VERSION)
        self.feeds = [{
            **{one.name: self.array(one.shape) for one in inputs[:3]}, "c0": np.array(first), "c1": np.array(second),
        } for first, second in ((True, False), (False, True))]

    def chance(self, part):
        return self.rng.random() < part

    def array(self, shape, dtype=np.float32):
        return self.rng.standard_normal(shape).astype(dtype)

    def graph(self, scope, name, inputs, outputs):
        def infos(values):
            return [helper.make_tensor_value_info(value.name, value.dtype, value.shape) for value in values]

        given = {value.name for value in (*inputs, *outputs)}
        declared = infos(value for value in scope.infos if value.name not in given)
        ports = infos(inputs), infos(outputs)
        return helper.make_graph(scope.nodes, name, *ports, scope.initializers, value_info=declared)

    def fill(self, scope, count):
        for _ in range(count):
            makers = [*UNARY, *OTHERS, *([] if self.smooth else ROUGH)]
            makers[self.rng.integers(len(makers))](self, scope)
            if self.signatures and self.chance(0.25):
                call(self, scope)
            if self.chance(0.3):
                self.nest(scope)

    def nest(self, scope):
        self.budget -= 1
        if self.budget > 0 and scope.depth < 3:
            (branches, loop, scan)[self.rng.integers(3 if self.opset >= 9 else 2)](self, scope)

    def function(self):
        """A function of one value of any shape of 24 elements."""
        scope = Scope(self, function=True)
        number = len(self.functions)
        given = Value(scope.fresh("a"), FLOAT, None)
        attributes = []
        value = given
        if self.chance(0.6):
            attributes.append("axis")
            reshaped = scope.reshaped(given, SHAPES[self.rng.integers(1, len(SHAPES))])
            value = scope.add("Softmax", [reshaped], FLOAT, reshaped.shape)
            scope.nodes[-1].attribute.append(reference("INT", "axis", "axis"))
        if self.opset < 11 and self.chance(0.6):
            attributes.append("low")
            value = scope.reshaped(value, SHAPES[self.rng.integers(len(SHAPES))])
            value = scope.add("Clip", [value], FLOAT, value.shape)
            scope.nodes[-1].attribute.append(reference("FLOAT", "min", "low"))
        scope.values.append(scope.reshaped(value, SHAPES[self.rng.integers(len(SHAPES))]))
        for made in self.signatures:
            if self.chance(0.4):
                call(self, scope, made, attributes)
        # No other call, which would be without attributes.
        signatures, self.signatures = self.signatures, []
        self.fill(scope, int(self.rng.integers(1, 4)))
        self.signatures = signatures
        result = scope.as_type(scope.pick((FLOAT, DOUBLE)), FLOAT)
        name = f"F{number}"
        # A copy: what a function gives must not be its input.
        scope.nodes.append(helper.make_node("Identity", [result.name], [scope.fresh("b")]))
        output = scope.nodes[-1].output[0]
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("own", 1)]
        made = helper.make_function("own", name, [given.name], [output], scope.nodes, imports, attributes=attributes)
        self.functions.append(made)
        self.signatures.append((name, attributes, result.shape))


def call(made, scope, signature=None, own=()):
    name, attributes, shape = signature or made.signatures[made.rng.integers(len(made.signatures))]
    given = {"axis": 1, "low": float(made.rng.integers(-2, 1)) / 2}
    handed = [each for each in attributes if each in own and made.chance(0.7)]
    own_values = {each: given[each] for each in attributes if each not in handed}
    scope.add(name, [scope.pick()], FLOAT, shape, domain="own", **own_values)
    for each in handed:
        scope.nodes[-1].attribute.append(reference("INT" if each == "axis" else "FLOAT", each, each))


def unary(op_type, made, scope, dtypes=(FLOAT,), **attributes):
    value = scope.pick(dtypes)
    return scope.add(op_type, [value], value.dtype, value.shape, **attributes)


def softmax(made, scope):
    value = scope.pick((FLOAT, DOUBLE))
    ranks = len(value.shape)
    axis = int(made.rng.integers(ranks))
    if made.opset >= 11 and made.chance(0.3):
        axis -= ranks
    op_type = "LogSoftmax" if made.chance(0.3) else "Softmax"
    scope.add(op_type, [value], value.dtype, value.shape, **({} if ranks > 1 and made.chance(0.2) else {"axis": axis}))


def binary(made, scope):
    first = scope.pick((FLOAT, DOUBLE))
    second = scope.reshaped(scope.as_type(scope.pick((FLOAT, DOUBLE)), first.dtype), first.shape)
    scope.add("Add" if made.chance(0.7) else "Mul", [first, second], first.dtype, first.shape)


def reshape(made, scope):
    scope.reshaped(scope.pick((FLOAT, DOUBLE)), SHAPES[made.rng.integers(len(SHAPES))])


def transpose(made, scope):
    value = scope.pick((FLOAT, DOUBLE))
    order = made.rng.permutation(len(value.shape)).tolist()
    scope.add("Transpose", [value], value.dtype, [value.shape[at] for at in order], perm=order)


def to_double(made, scope):
    value = scope.pick((FLOAT, DOUBLE))
    scope.as_type(value, DOUBLE if value.dtype == FLOAT else FLOAT)


def clip(made, scope):
    value = scope.pick()
    low, high = -1.5, float(made.rng.integers(1, 3))
    if made.opset < 11:
        bounds = {name: bound for name, bound in (("min", low), ("max", high)) if made.chance(0.8)}
        scope.add("Clip", [value], value.dtype, value.shape, **bounds)
    else:
        bounds = [scope.constant(np.float32(bound)) for bound in (low, high)]
        scope.add("Clip", [value, *bounds], value.dtype, value.shape)


def with_axis(made, scope, op_type, value, axis, shape, since, **more):
    """A node with an axis, which is an input from some opset on."""
    if made.opset >= since:
        return scope.add(op_type, [value, scope.ints(axis)], value.dtype, shape, **more)
    return scope.add(op_type, [value], value.dtype, shape, axes=[axis], **more)


def reduce(made, scope):
    """What is left without the mean along an axis."""
    value = scope.pick()
    axis = int(made.rng.integers(len(value.shape)))
    shape = [1 if at == axis else size for at, size in enumerate(value.shape)]
    op_type = "ReduceSum" if made.chance(0.5) else "ReduceMean"
    mean = with_axis(made, scope, op_type, value, axis, shape, 13 if op_type == "ReduceSum" else 18, keep=False)
    scope.add("Sub", [value, mean], value.dtype, value.shape)


def squeeze(made, scope):
    value = scope.pick()
    op_type, shape = "Unsqueeze", (1, *value.shape)
    if value.shape[0] == 1 and len(value.shape) > 1:
        op_type, shape = "Squeeze", value.shape[1:]
    with_axis(made, scope, op_type, value, 0, shape, 13)


def split(made, scope):
    value = scope.pick()
    even = [at for at, size in enumerate(value.shape) if size % 2 == 0]
    if not even:
        return
    axis = even[made.rng.integers(len(even))]
    half = [size // 2 if at == axis else size for at, size in enumerate(value.shape)]
    sizes = [half[axis]] * 2
    more = {"num_outputs": 2} if made.opset >= 18 else {"split": sizes} if made.opset < 13 else {}
    inputs = [value, scope.ints(*sizes)] if 13 <= made.opset < 18 else [value]
    first, second = scope.add("Split", inputs, value.dtype, [half, half], outputs=2, keep=False, axis=axis, **more)
    scope.add("Concat", [second, first], value.dtype, value.shape, axis=axis)


def pad(made, scope):
    """One more at the end of the first axis, and one less at its start."""
    value = scope.pick()
    ranks = len(value.shape)
    pads = [-1] + [0] * (ranks - 1) + [1] + [0] * (ranks - 1)
    if value.shape[0] < 2:
        return
    if made.opset < 11:
        scope.add("Pad", [value], value.dtype, value.shape, pads=pads, value=0.5)
    else:
        scope.add("Pad", [value, scope.ints(*pads), scope.constant(np.float32(0.5))], value.dtype, value.shape)


def dropout(made, scope):
    unary("Dropout", made, scope, **({"ratio": 0.25} if made.opset < 12 else {}))


def weight(made, scope):
    """A constant that is cast, perhaps twice."""
    value = scope.pick()
    array = made.array(value.shape)
    narrow = made.chance(0.5)
    stored = scope.constant(array.astype(np.float16) if narrow else array)
    one = scope.add("Cast", [stored], FLOAT, value.shape, to=FLOAT) if narrow or made.chance(0.3) else stored
    if made.chance(0.4):
        one = scope.as_type(scope.add("Cast", [one], DOUBLE, value.shape, to=DOUBLE), FLOAT)
    scope.add("Add" if made.chance(0.6) else "Mul", [value, one], FLOAT, value.shape)


def round_trip(made, scope):
    """Casts in a row that change no value of the first type."""
    scope.as_type(scope.as_type(scope.pick(), DOUBLE), FLOAT)


def linear(made, scope):
    value = scope.pick()
    last = value.shape[-1]
    product = scope.constant(made.array((last, last)) / np.float32(np.sqrt(last)))
    scope.add("MatMul", [value, product], FLOAT, value.shape)


def quantized(made, scope):
    """An int8 constant that is dequantized."""
    value = scope.pick()
    stored = scope.constant(made.rng.integers(-99, 99, value.shape).astype(np.int8))
    plain = scope.add("DequantizeLinear", [stored, scope.constant(np.float32(0.01))], FLOAT, value.shape, keep=False)
    scope.add("Add", [value, plain], FLOAT, value.shape)


def hardmax(made, scope):
    value = scope.pick()
    scope.add("Hardmax", [value], value.dtype, value.shape, axis=int(made.rng.integers(len(value.shape))))


def by_integers(made, scope):
    scope.as_type(scope.as_type(scope.pick(), INT64), FLOAT)


UNARY = {
    "Relu": {}, "Tanh": {}, "Sigmoid": {}, "Neg": {"dtypes": (FLOAT, DOUBLE)}, "Identity": {},
    "LeakyRelu": {"alpha": 0.2},
}  # fmt: skip
UNARY = [functools.partial(unary, name, **more) for name, more in UNARY.items()]
OTHERS = [
    softmax, softmax, softmax, binary, binary, reshape, reshape, transpose, to_double, clip, clip, reduce, squeeze,
    split, pad, dropout, weight, weight, round_trip, linear, linear, quantized,
]  # fmt: skip
ROUGH = [hardmax, by_integers]


def branches(made, scope):
    """An If, whose branches give values of one type and shape."""
    dtype = DOUBLE if made.chance(0.2) else FLOAT
    shape = SHAPES[made.rng.integers(len(SHAPES))]
    graphs = {}
    # Twins do the same under the same names, with values of other ranks.
    twins = int(made.rng.integers(1 << 30)) if made.chance(0.6) else None
    rng = made.rng
    for name in ("then_branch", "else_branch"):
        inner = Scope(made, scope)
        if twins is not None:
            first = scope.pick()
            made.rng = np.random.default_rng(twins)
            inner.add("Relu" if made.chance(0.5) else "Sigmoid", [first], FLOAT, first.shape)
        made.fill(inner, int(made.rng.integers(1, 5)))
        made.rng = rng
        result = inner.reshaped(inner.as_type(inner.pick((FLOAT, DOUBLE)), dtype), shape)
        result = inner.add("Identity", [result], dtype, shape)
        graphs[name] = made.graph(inner, name, [], [result])
    if scope.in_function():
        condition = scope.constant(np.array(made.chance(0.5)), anywhere=False).name
    else:
        condition = f"c{made.rng.integers(2)}"
    scope.add("If", [condition], dtype, shape, **graphs)


def loop(made, scope):
    """A Loop of two turns with a state and one value for each turn."""
    shape = SHAPES[made.rng.integers(len(SHAPES))]
    state = scope.reshaped(scope.pick(), shape)
    inner = Scope(made, scope)
    inputs = [Value(inner.fresh(), INT64, ()), Value(inner.fresh(), BOOL, ()), Value(inner.fresh(), FLOAT, shape)]
    inner.values.append(inputs[2])
    made.fill(inner, int(made.rng.integers(1, 4)))
    result = inner.reshaped(inner.pick(), shape)
    outputs = [inner.add("Identity", [inputs[1]], BOOL, ()), inner.add("Tanh", [result], FLOAT, shape)]
    outputs.append(inner.reshaped(inner.pick(), (24,)))
    outputs[2] = inner.add("Identity", [outputs[2]], FLOAT, (24,))
    body = made.graph(inner, "body", inputs, outputs)
    trips, go = scope.constant(np.array(2, np.int64)), scope.constant(np.array(True))
    last, every = scope.add("Loop", [trips, go, state], FLOAT, [shape, (2, 24)], outputs=2, keep=False, body=body)
    scope.values.append(last)
    # The mean of what the turns gave.
    scope.values.append(with_axis(made, scope, "ReduceMean", every, 0, (24,), 18, keep=False, keepdims=0))


def scan(made, scope):
    """A Scan over the first axis of a value."""
    value = scope.reshaped(scope.pick(), (4, 6))
    state = scope.constant(made.array((6,)))
    inner = Scope(made, scope)
    inputs = [Value(inner.fresh(), FLOAT, (6,)), Value(inner.fresh(), FLOAT, (6,))]
    total = inner.add("Add", inputs, FLOAT, (6,), keep=False)
    made.fill(inner, int(made.rng.integers(1, 3)))
    flat = inner.reshaped(inner.pick(), (4, 6))
    mean = with_axis(made, inner, "ReduceMean", flat, 0, (6,), 18, keep=False, keepdims=0)
    outputs = [inner.add(*one, FLOAT, (6,), keep=False) for one in (("Mul", [total, mean]), ("Tanh", [total]))]
    body, shapes = made.graph(inner, "body", inputs, outputs), [(6,), (4, 6)]
    _, every = scope.add("Scan", [state, value], FLOAT, shapes, outputs=2, keep=False, body=body, num_scan_inputs=1)
    scope.values.append(every)


# --- runs ---------------------------------------------------------------------------------------------------------


def ran(model, feeds):
    """What onnxruntime gives for each of a model's feeds, by the model's nodes alone."""
    # A constant that is packed when the model is loaded is multiplied in another order than a computed one.
    runner = session(model, LEVELS[0], disable_prepacking="1")
    return [runner.run(None, one) for one in feeds]


def distinct(model):
    """The model with a name of its own for each value of a graph within. onnxruntime puts Casts around nodes that it
    has no kernel of float16 for, and mixes up values of one name there."""
    model, numbers = copy.deepcopy(model), itertools.count()

    def rename(graph, outer):
        names = dict(outer)

        def new(name):
            names[name] = f"{name}_of_{next(numbers)}" if name else name
            return names[name]

        for one in (*graph.input, *graph.initializer):
            one.name = new(one.name)
        for node in graph.node:
            node.input[:] = [names.get(each, each) for each in node.input]
            inside(node, names)
            node.output[:] = [new(each) for each in node.output]
        for one in (*graph.output, *graph.value_info):
            one.name = names.get(one.name, one.name)

    def inside(node, names):
        for attribute in node.attribute:
            if attribute.HasField("g"):
                rename(attribute.g, names)

    for body in (model.graph, *model.functions):
        for node in body.node:
            inside(node, {})
    return model


def evaluated(model, feeds):
    """The same by onnx's evaluator, which has every operator."""
    return [ReferenceEvaluator(model).run(None, one) for one in feeds]


def gap_of(want, got):
    return max(distance(one, other, least=1e-3) for one, other in zip(want, got, strict=True))


class Case:
    """A model and what it gives, in a folder of its own."""

    def __init__(self, seed, made, folder):
        self.seed, self.made, self.folder = seed, made, folder
        self.path = folder / "in.onnx"
        onnx.save(made.model, self.path)
        # onnx.checker and onnxruntime take a name of a graph within for one of the graph around, even if that comes
        # later.
        self.run = evaluated if made.later else ran
        if not made.later:
            onnx.checker.check_model(made.model, full_check=True)
        try:
            self.want = self.run(made.model, made.feeds)
        except (ERRORS.NotImplemented, ERRORS.Fail) as error:
            if "NOT_IMPLEMENTED" not in str(error):
                raise
            self.run = evaluated
            self.want = evaluated(made.model, made.feeds)
        if not all(np.isfinite(array).all() for one in self.want for array in one):
            raise ValueError("not finite")

    def fail(self, text):
        problem(f"--seed={self.seed}: {text}")

    def job(self, name, *arguments, source=None):
        """The model that a command writes."""
        out, what = self.folder / "out.onnx", " ".join([name, *arguments])
        done = run(name, source or self.path, out, "--quiet", *arguments)
        if done.returncode == 2 and any(reason in done.stderr for reason in REFUSALS):
            counts[f"{name}, refused"] += 1
            return None
        if done.returncode:
            return self.fail(f"{what}: status {done.returncode}: {done.stderr}")
        model = onnx.load(out)
        try:
            if not self.made.later:
                onnx.checker.check_model(model, full_check=True)
        except Exception as error:  # whatever the checker raises
            return self.fail(f"{what}: not valid: {error}")
        counts[f"{name}, {'run by onnxruntime' if self.run is ran else 'evaluated by onnx'}"] += 1
        return model

    def results(self, what, model):
        """What a model gives; None if it gives nothing or fails."""
        try:
            return model and self.run(model, self.made.feeds)
        except Exception as error:  # whatever a runtime raises
            return self.fail(f"{what}: does not run: {error}")

    def keeps_bits(self, what, model, want=None):
        want, got = want or self.want, self.results(what, model)
        if got is not None and bits(want) != bits(got):
            self.fail(f"{what}: other bits, by {gap_of(want, got)} of the largest value")

    def twice(self, name, *arguments):
        """The same command once more, which must change nothing."""
        out, again = self.folder / "out.onnx", self.folder / "again.onnx"
        command(name, out, again, "--quiet", *arguments)
        if out.read_bytes() != again.read_bytes():
            self.fail(f"{name} {' '.join(arguments)}: once more, it changes its own result")

    def saved(self, name, model):
        onnx.save(model, self.folder / name)
        return self.folder / name


def count_of(model):
    return sum(node.op_type == "DequantizeLinear" for node in every_node(model))


def check(seed, folder):
    rng = np.random.default_rng([seed, 1])
    opset = int(rng.choice([10, 11, 11, 12, 12, 13, 16, 17, 18, 20]))
    smooth = bool(rng.random() < 0.5)
    made = Made(seed, opset, smooth)
    try:
        case = Case(seed, made, folder)
    except Exception as error:  # a model that its own runtime does not take shows nothing
        counts[f"not run: {str(error).splitlines()[0][:60]}"] += 1
        return
    for target in sorted({int(to) for to in rng.choice([11, 13, 14, 18, 21, 24], 3)}):
        if target > opset:
            case.keeps_bits(f"upgrade to {target}", case.job("upgrade", "--opset", str(target)))
    folded = case.job("fold")
    case.keeps_bits("fold", folded)
    if folded is not None and count_of(folded) != count_of(made.model):
        case.fail("fold: another number of DequantizeLinear")
    case.keeps_bits("fold --dequantize", case.job("fold", "--dequantize"))
    check_cast(case)
    if smooth:
        check_quantized(case)
        check_converted(case)


def check_cast(case):
    """Constants that are cast, and the Casts back folded again."""
    arguments = ["--to", "float16", "--min-elements", "1"]
    cast = case.job("cast", *arguments)
    if cast is None:
        return
    case.twice("cast", *arguments)
    if want := case.results("cast", cast):
        case.keeps_bits("fold of what `cast` gives", case.job("fold", source=case.saved("cast.onnx", cast)), want)


def check_quantized(case):
    """Weights of int8, and what they are as plain ones again."""
    quantized = case.job("quantize", "--to", "int8", "--min-elements", "1", "--raise-opset")
    want = case.results("quantize", quantized)
    if want is None:
        return
    if (gap := gap_of(case.want, want)) > 5 * LIMIT:
        case.fail(f"quantize: off by {gap} of the largest value")
    if count_of(quantized):
        source = case.saved("quantized.onnx", quantized)
        plain = case.job("dequantize", "--to", "float", *halves(quantized.graph), source=source)
        case.keeps_bits("dequantize of what `quantize` gives", plain, want)


def halves(graph):
    """Rules for the weights of a graph, and those within it, that are float16: behind a Cast they are found too."""
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and types.get(node.input[1]) == onnx.TensorProto.FLOAT16:
            yield f"--rule={node.output[0]}=float16"
        for attribute in node.attribute:
            yield from halves(attribute.g)


def check_converted(case):
    for arguments in (["--to", "float16"], ["--to", "float16", "--keep", "none"]):
        model = case.job("convert", *arguments)
        if model is None:
            continue
        case.twice("convert", *arguments)
        try:
            gap = gap_of(case.want, case.run(distinct(model), case.made.feeds))
        except Exception as error:  # whatever a runtime raises
            if not any(text in str(error) for text in OWN_CASTS):
                case.fail(f"convert {' '.join(arguments)}: does not run: {error}")
                continue
            counts["convert, broken by Casts of onnxruntime's own"] += 1
            try:
                gap = gap_of(*(evaluated(one, case.made.feeds) for one in (case.made.model, model)))
            except Exception:  # nor does onnx's evaluator run it
                continue
        if gap > (LIMIT if len(arguments) == 2 else 5 * LIMIT):
            case.fail(f"convert {' '.join(arguments)}: off by {gap} of the largest value")


def share(folder, start, stop):
    warnings.simplefilter("ignore")
    for seed in range(start, stop):
        check(seed, folder)


def given(name, default):
    return next((int(one.split("=")[1]) for one in sys.argv[1:] if one.startswith(f"--{name}=")), default)


def main():
    first = given("seed", None)
    count = given("count", 2000 if ALL else 100 if first is None else 1)
    start, step = first or 0, 25
    in_shares([(share, at, min(at + step, start + count)) for at in range(start, start + count, step)])
    finish()
    if counts["upgrade, run by onnxruntime"] < count // 2 and first is None:
        fail("too few models run")


if __name__ == "__main__":
    main()
