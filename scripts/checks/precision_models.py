"""Models that converters of precision get wrong, each with inputs. None needs more than onnx and numpy."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

F, H, I = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
RANDOM = np.random.default_rng(19)


def model(nodes, inputs, outputs, initializers=(), opset=17, ir=8, value_info=(), functions=(), domains=()):
    def info(one):
        return helper.make_tensor_value_info(*one)

    graph = helper.make_graph(
        nodes,
        "graph",
        [info(one) for one in inputs],
        [info(one) for one in outputs],
        [numpy_helper.from_array(array, name) for name, array in initializers],
        value_info=[info(one) for one in value_info],
    )
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, ir_version=ir, opset_imports=opsets, functions=list(functions))


def random(*shape, scale=1.0):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def node(op_type, inputs, outputs, name=None, **attributes):
    return helper.make_node(op_type, inputs.split(","), outputs.split(","), name=name, **attributes)


def linear(inputs, outputs, weight="w", **more):
    return node("MatMul", f"{inputs},{weight}", outputs, **more)


def kept_cast():
    """A Cast to float whose output a converter declares float16."""
    nodes = [node("Cast", "n", "c", to=F), linear("x", "y"), node("Add", "y,c", "z")]
    inputs = [("x", F, [2, 8]), ("n", I, [8])]
    feeds = {"x": random(2, 8), "n": np.arange(8)}
    return model(nodes, inputs, [("z", F, [2, 8])], [("w", random(8, 8))], value_info=[("c", F, [8])]), feeds


def positions():
    """Positions beyond 2048, and frame counts."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape,one", "frames"),
        node("Range", "zero,frames,step", "positions"),
        node("Cast", "positions", "float_positions", to=F),
        node("Mul", "float_positions,rate", "phase"),
        node("Sin", "phase", "sine"),
        node("Mul", "x,sine", "shifted"),
        linear("shifted", "y"),
    ]
    initializers = [
        ("one", np.int64(1)),
        ("zero", np.int64(0)),
        ("step", np.int64(1)),
        ("rate", np.float32(0.3)),
        ("w", random(5000, 4, scale=0.01)),
    ]
    return model(nodes, [("x", F, [2, 5000])], [("y", F, [2, 4])], initializers), {"x": random(2, 5000)}


def lengths():
    """A length that is a float on its way to an index."""
    nodes = [
        node("Cast", "n", "f", to=F),
        node("Mul", "f,ratio", "g"),
        node("Ceil", "g", "h"),
        node("Cast", "h", "i", to=I),
        node("Slice", "x,start,i,axis", "s"),
        linear("s", "t", weight="w"),
        node("ReduceMax", "t", "y", axes=[0], keepdims=0),
    ]
    initializers = [("ratio", np.float32(0.999)), ("start", np.zeros(1, np.int64)), ("axis", np.zeros(1, np.int64)), ("w", random(2, 2))]
    inputs = [("x", F, [5000, 2]), ("n", I, [1])]
    return model(nodes, inputs, [("y", F, [2])], initializers), {"x": random(5000, 2), "n": np.array([4099])}


def epsilon():
    """Layer normalization of plain operators, whose epsilon float16 has no place for."""
    nodes = [
        linear("x", "h"),
        node("ReduceMean", "h", "mean", axes=[-1]),
        node("Sub", "h,mean", "d"),
        node("Pow", "d,two", "p"),
        node("ReduceMean", "p", "v", axes=[-1]),
        node("Add", "v,epsilon", "a"),
        node("Sqrt", "a", "s"),
        node("Div", "d,s", "n"),
        node("Mul", "n,gamma", "g"),
        linear("g", "y"),
    ]
    initializers = [
        ("w", random(16, 16)),
        ("two", np.float32(2)),
        ("epsilon", np.float32(1e-12)),
        ("gamma", random(16)),
    ]
    return model(nodes, [("x", F, [4, 16])], [("y", F, [4, 16])], initializers), {"x": random(4, 16) * np.float32(300)}


def shared_initializer():
    """An initializer that a narrow and a sensitive node read."""
    nodes = [linear("x", "h"), node("Mul", "h,s", "m"), linear("m", "l"), node("Add", "l,s", "a"), node("Softmax", "a", "p"), node("Mul", "p,s", "y")]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8)), ("s", random(8))]), {"x": random(3, 8)}


def resize():
    nodes = [node("Conv", "x,k", "c", pads=[1, 1, 1, 1]), node("Resize", "c,,scales", "r"), node("Conv", "r,k", "y")]
    initializers = [("k", random(3, 3, 3, 3)), ("scales", np.array([1, 1, 2.5, 2.5], np.float32))]
    return model(nodes, [("x", F, [1, 3, 8, 8])], [("y", F, [1, 3, 18, 18])], initializers), {"x": random(1, 3, 8, 8)}


def unnamed():
    """Nodes without names, and values that look like what a converter would call its Casts."""
    nodes = [linear("x", "x_float16"), node("Softmax", "x_float16", "y_float"), linear("y_float", "y_cast"), node("Softmax", "y_cast", "y")]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8))]), {"x": random(3, 8)}


def two_readers():
    """A value that several sensitive nodes read, and several narrow ones."""
    nodes = [
        linear("x", "h"),
        node("Softmax", "h", "a"),
        node("Softmax", "h", "b", axis=0),
        node("LogSoftmax", "h", "c"),
        linear("a", "d"),
        linear("a", "e"),
        node("Sum", "b,c,d,e", "y"),
    ]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8))]), {"x": random(3, 8)}


def branches():
    """Branches that capture a value and have initializers of one name."""

    def branch(name, op_type):
        nodes = [node(op_type, "h,k", f"{name}_m"), node("Softmax", f"{name}_m", f"{name}_s"), linear(f"{name}_s", f"{name}_out")]
        outputs = [helper.make_tensor_value_info(f"{name}_out", F, [3, 8])]
        return helper.make_graph(nodes, name, [], outputs, [numpy_helper.from_array(random(8), "k")])

    nodes = [
        linear("x", "h"),
        node("If", "flag", "i", then_branch=branch("then", "Mul"), else_branch=branch("else", "Add")),
        node("Add", "i,h", "y"),
    ]
    made = model(nodes, [("x", F, [3, 8]), ("flag", TensorProto.BOOL, [])], [("y", F, [3, 8])], [("w", random(8, 8))])
    return made, {"x": random(3, 8), "flag": np.array(True)}


def loop():
    """A state that the body makes in another type than it takes, and a scan output."""
    body = helper.make_graph(
        [
            node("MatMul", "state,w", "m"),
            node("Softmax", "m", "s"),
            node("Add", "s,state", "next"),
            node("Identity", "go", "on"),
            node("Log", "s", "l"),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", I, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", F, [3, 8]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", F, [3, 8]),
            helper.make_tensor_value_info("l", F, [3, 8]),
        ],
    )
    nodes = [linear("x", "h"), node("Loop", "n,t,h", "end,logs", body=body), linear("end", "y")]
    initializers = [("w", random(8, 8)), ("n", np.int64(3)), ("t", np.array(True))]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8]), ("logs", F, [3, 3, 8])], initializers), {"x": random(3, 8)}


def scan():
    body = helper.make_graph(
        [node("Add", "state,element", "next"), node("Softmax", "next", "out")],
        "body",
        [helper.make_tensor_value_info("state", F, [8]), helper.make_tensor_value_info("element", F, [8])],
        [helper.make_tensor_value_info("next", F, [8]), helper.make_tensor_value_info("out", F, [8])],
    )
    nodes = [linear("x", "h"), node("Scan", "start,h", "sum,all", body=body, num_scan_inputs=1), linear("all", "y")]
    initializers = [("w", random(8, 8)), ("start", np.zeros(8, np.float32))]
    return model(nodes, [("x", F, [5, 8])], [("y", F, [5, 8]), ("sum", F, [8])], initializers), {"x": random(5, 8)}


def random_like():
    """A generator whose type follows its input's."""
    nodes = [linear("x", "h"), node("RandomNormalLike", "h", "r", scale=1e-30, mean=1.5), node("Mul", "h,r", "y")]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8))]), {"x": random(3, 8)}


def meaningful_pair():
    """A value that the model rounds to float16 on purpose."""
    nodes = [linear("x", "h"), node("Softmax", "h", "s"), node("Cast", "s", "half", to=H), node("Cast", "half", "back", to=F), node("Log", "back", "y")]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8))]), {"x": random(3, 8)}


def read_output():
    """An output that a node reads too, and two outputs of one value."""
    nodes = [linear("x", "y"), node("Relu", "y", "r"), linear("r", "z"), node("Softmax", "z", "p"), node("Identity", "y", "again")]
    outputs = [("y", F, [3, 8]), ("z", F, [3, 8]), ("p", F, [3, 8]), ("again", F, [3, 8])]
    return model(nodes, [("x", F, [3, 8])], outputs, [("w", random(8, 8))]), {"x": random(3, 8)}


def straight():
    """An input that is cast straight to an output, one that is an output, and an initializer that is one."""
    nodes = [node("Cast", "x", "y", to=H), linear("x", "h"), node("Identity", "x", "z"), node("Add", "h,k", "a")]
    outputs = [("y", H, [3, 8]), ("z", F, [3, 8]), ("a", F, [3, 8]), ("x", F, [3, 8]), ("k", F, [8])]
    return model(nodes, [("x", F, [3, 8])], outputs, [("w", random(8, 8)), ("k", random(8))]), {"x": random(3, 8)}


def stale_value_info():
    nodes = [linear("x", "h"), node("Relu", "h", "r"), node("Softmax", "r", "s"), linear("s", "y")]
    infos = [("h", F, [3, 8]), ("r", F, [3, 8]), ("s", F, [3, 8])]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8))], value_info=infos), {"x": random(3, 8)}


def left_out():
    """Inputs that are left out: of Clip the least, of Resize the region."""
    nodes = [linear("x", "h"), node("Clip", "h,,most", "c"), node("Dropout", "c", "y")]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8)), ("most", np.float32(0.5))]), {"x": random(3, 8)}


def one_half_initializer():
    """A model of float that has one weight in float16 already."""
    nodes = [node("Cast", "v", "w", to=F), linear("x", "h"), linear("h", "y", weight="u")]
    initializers = [("v", random(8, 8).astype(np.float16)), ("u", random(8, 8))]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], initializers), {"x": random(3, 8)}


def overflow_inside():
    """Squares that float16 has no place for: Pow, ReduceMean and InstanceNormalization."""
    nodes = [
        node("Mul", "x,big", "h"),
        node("Pow", "h,two", "p"),
        node("ReduceMean", "p", "m", axes=[-1]),
        node("Sqrt", "m", "r"),
        node("Div", "h,r", "d"),
        node("InstanceNormalization", "h,one,zero", "n"),
        node("Add", "d,n", "a"),
        node("Conv", "a,k", "y"),
    ]
    initializers = [("big", np.float32(900)), ("two", np.float32(2)), ("one", np.ones(3, np.float32)), ("zero", np.zeros(3, np.float32)), ("k", random(2, 3, 1, 1))]
    return model(nodes, [("x", F, [1, 3, 4, 4])], [("y", F, [1, 2, 4, 4])], initializers), {"x": random(1, 3, 4, 4)}


def mask():
    """Attention with a mask of the lowest float, a row of which hides everything: no NaN, but no meaning either."""
    nodes = [
        linear("x", "q"),
        node("Transpose", "q", "k", perm=[1, 0]),
        node("MatMul", "q,k", "scores"),
        node("Cast", "m", "b", to=TensorProto.BOOL),
        node("Where", "b,zero,lowest", "bias"),
        node("Add", "scores,bias", "masked"),
        node("Softmax", "masked", "p"),
        node("MatMul", "p,q", "attended"),
        node("Mul", "attended,visible", "y"),
    ]
    initializers = [("w", random(8, 8, scale=1.0)), ("zero", np.float32(0)), ("lowest", np.finfo(np.float32).min)]
    hidden = np.tril(np.ones((6, 6), np.int64))
    hidden[3] = 0
    initializers.append(("visible", hidden.any(1, keepdims=True).astype(np.float32)))
    return model(nodes, [("x", F, [6, 8]), ("m", I, [6, 6])], [("y", F, [6, 8])], initializers), {"x": random(6, 8), "m": hidden}


def constant_mask():
    """The same as a ConstantOfShape, a Trilu and -1e9."""
    nodes = [
        linear("x", "q"),
        node("Transpose", "q", "k", perm=[1, 0]),
        node("MatMul", "q,k", "scores"),
        node("Shape", "scores", "shape"),
        node("ConstantOfShape", "shape", "all", value=helper.make_tensor("v", F, [1], [-1e9])),
        node("Trilu", "all,one", "bias"),
        node("Add", "scores,bias", "masked"),
        node("Softmax", "masked", "p"),
        node("MatMul", "p,q", "y"),
    ]
    initializers = [("w", random(8, 8, scale=0.1)), ("one", np.int64(1))]
    return model(nodes, [("x", F, [6, 8])], [("y", F, [6, 8])], initializers), {"x": random(6, 8)}


def large_weight():
    """Weights beyond float16, and tiny ones."""
    nodes = [linear("x", "h"), linear("h", "y", weight="large")]
    initializers = [("w", random(8, 8, scale=1e-9)), ("large", random(8, 8, scale=1e9))]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], initializers), {"x": random(3, 8)}


def functions():
    """A function that is called with float and with float16, and one that calls it."""
    norm = helper.make_function(
        "local",
        "Norm",
        ["x", "s"],
        ["y"],
        [node("Softmax", "x", "p"), node("Mul", "p,s", "m"), node("Add", "m,m", "y")],
        [helper.make_opsetid("", 17)],
    )
    block = helper.make_function(
        "local",
        "Block",
        ["x", "w", "s"],
        ["y"],
        [node("MatMul", "x,w", "h"), node("Norm", "h,s", "n", domain="local"), node("MatMul", "n,w", "y")],
        [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)],
    )
    nodes = [
        node("Block", "x,w,s", "a", domain="local"),
        node("Cast", "a", "half", to=H),
        node("Cast", "s", "half_s", to=H),
        node("Norm", "half,half_s", "b", domain="local"),
        node("Cast", "b", "c", to=F),
        node("Norm", "a,s", "d", domain="local"),
        node("Add", "c,d", "y"),
    ]
    made = model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8)), ("s", random(8))], functions=[norm, block], domains=["local"])
    return made, {"x": random(3, 8)}


def constants():
    """Constants of every spelling, in the graph and in a branch."""
    then = helper.make_graph(
        [node("Constant", "", "k", value_floats=[0.5] * 8), node("Mul", "h,k", "then_out")],
        "then",
        [],
        [helper.make_tensor_value_info("then_out", F, [3, 8])],
    )
    other = helper.make_graph([node("Softmax", "h", "else_out")], "else", [], [helper.make_tensor_value_info("else_out", F, [3, 8])])
    for one in then.node:
        del one.input[:1 if one.op_type == "Constant" else 0]
    nodes = [
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(random(8, 8))),
        linear("x", "h"),
        node("Mul", "h,two", "t"),
        node("Softmax", "t", "s"),
        node("Mul", "s,two", "u"),
        node("If", "flag", "i", then_branch=then, else_branch=other),
        node("Add", "u,i", "y"),
    ]
    made = model(nodes, [("x", F, [3, 8]), ("flag", TensorProto.BOOL, [])], [("y", F, [3, 8])])
    return made, {"x": random(3, 8), "flag": np.array(True)}


def sequences():
    nodes = [
        linear("x", "h"),
        node("SplitToSequence", "h", "parts", axis=0, keepdims=1),
        node("SequenceAt", "parts,one", "first"),
        node("ConcatFromSequence", "parts", "whole", axis=0),
        node("Softmax", "whole", "s"),
        node("Add", "s,first", "y"),
    ]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8)), ("one", np.int64(1))]), {"x": random(3, 8)}


def old_format():
    """An opset and a version of the format in which initializers are inputs."""
    nodes = [linear("x", "h"), node("Softmax", "h", "s"), node("Mul", "s,k", "m"), node("Mul", "h,k", "n"), linear("n", "l"), node("Add", "m,l", "y")]
    inputs = [("x", F, [3, 8]), ("w", F, [8, 8]), ("k", F, [8])]
    return model(nodes, inputs, [("y", F, [3, 8])], [("w", random(8, 8)), ("k", random(8))], opset=9, ir=3), {"x": random(3, 8)}


def default_input():
    """An initializer that a caller may replace."""
    nodes = [linear("x", "h"), node("Mul", "h,k", "y")]
    inputs = [("x", F, [3, 8]), ("k", F, [8])]
    return model(nodes, inputs, [("y", F, [3, 8])], [("w", random(8, 8)), ("k", random(8))]), {"x": random(3, 8)}


def quantized():
    """Weights behind a DequantizeLinear."""
    nodes = [node("DequantizeLinear", "q,s", "w"), linear("x", "h"), node("Relu", "h", "y")]
    initializers = [("q", RANDOM.integers(-127, 127, (8, 8)).astype(np.int8)), ("s", np.float32(0.01))]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], initializers), {"x": random(3, 8)}


def recurrent():
    nodes = [node("LSTM", "x,w,r,b", "all,last", hidden_size=4), node("Squeeze", "all,one", "s"), node("Softmax", "s", "y")]
    initializers = [("w", random(1, 16, 8)), ("r", random(1, 16, 4)), ("b", random(1, 32)), ("one", np.array([1]))]
    return model(nodes, [("x", F, [5, 2, 8])], [("y", F, [5, 2, 4]), ("last", F, [1, 2, 4])], initializers), {"x": random(5, 2, 8)}


def everything_narrow():
    """Many cheap nodes between two matrix products: no Cast but at the border."""
    nodes = [linear("x", "h0")]
    for index in range(40):
        nodes.append(node(["Relu", "Neg", "Abs", "Identity"][index % 4], f"h{index}", f"h{index + 1}"))
    nodes.append(linear("h40", "y"))
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8))]), {"x": random(3, 8)}


def norm(x, y, opset, prefix, cast=False, twice=False, product=False, affine=("gamma", "beta")):
    """The nodes of a layer normalization as exporters write it: with a Cast before Pow, the difference twice, a product by
    1 / x for the quotient."""

    def name(one):
        return f"{prefix}_{one}"

    def mean(of, output):
        return node("ReduceMean", of, output, axes=[-1]) if opset < 18 else node("ReduceMean", f"{of},axis", output)

    squared = name("other") if twice else name("d")
    nodes = [mean(x, name("m")), node("Sub", f"{x},{name('m')}", name("d"))]
    nodes += [node("Sub", f"{x},{name('m')}", squared)] if twice else []
    nodes += [node("Cast", squared, name("c"), to=F)] if cast else []
    nodes += [node("Pow", f"{name('c') if cast else squared},two", name("p")), mean(name("p"), name("v"))]
    nodes += [node("Add", f"{name('v')},epsilon", name("a")), node("Sqrt", name("a"), name("s"))]
    nodes += [node("Div", f"one,{name('s')}", name("r"))] if product else []
    nodes.append(node("Mul", f"{name('d')},{name('r')}", name("n")) if product else node("Div", f"{name('d')},{name('s')}", name("n")))
    return [*nodes, node("Mul", f"{affine[0]},{name('n')}", name("g")), node("Add", f"{name('g')},{affine[1]}", y)]


def rms_norm(x, y, opset, prefix, reciprocal=False):
    """The same of root mean squares."""

    def name(one):
        return f"{prefix}_{one}"

    p = name("p")
    nodes = [node("Pow", f"{x},two", p), node("ReduceMean", p, name("v"), axes=[-1]) if opset < 18 else node("ReduceMean", f"{p},axis", name("v"))]
    nodes += [node("Add", f"{name('v')},epsilon", name("a")), node("Sqrt", name("a"), name("s"))]
    if reciprocal:
        nodes += [node("Reciprocal", name("s"), name("r")), node("Mul", f"{x},{name('r')}", name("n"))]
    else:
        nodes.append(node("Div", f"{x},{name('s')}", name("n")))
    return [*nodes, node("Mul", f"{name('n')},gamma", y)]


def norms_of(opset):
    """Blocks as transformers have them: norms of inputs, of what a product gives, of sums, before outputs and products."""

    def gelu(x, y):
        return [node("Div", f"{x},root", f"{y}_d"), node("Erf", f"{y}_d", f"{y}_e"), node("Add", f"{y}_e,one", f"{y}_a"),
                node("Mul", f"{x},{y}_a", f"{y}_m"), node("Mul", f"{y}_m,half", y)]  # fmt: skip

    nodes = [
        *norm("x", "n0", opset, "first"),
        linear("n0", "q"),
        *norm("q", "n1", opset, "second", twice=True),
        linear("n1", "k"),
        node("Add", "k,q", "sum"),
        *norm("sum", "n2", opset, "third", cast=True),
        linear("n2", "wide"),
        node("Add", "wide,beta", "biased"),
        *gelu("biased", "gelu"),
        linear("gelu", "h"),
        node("Add", "h,sum", "sum2"),
        *norm("sum2", "n3", opset, "shared", product=True),
        node("Softmax", "sum2", "p"),
        linear("n3", "o"),
        node("Add", "o,p", "sum3"),
        *rms_norm("sum3", "n4", opset, "rms"),
        linear("n4", "v"),
        *rms_norm("v", "n5", opset, "root", reciprocal=True),
        linear("n5", "u"),
        *norm("u", "y", opset, "last"),
        *norm("x", "z", opset, "between"),
        *norm("z", "n6", opset, "behind"),
        linear("n6", "t"),
    ]
    scalars = [("two", 2), ("epsilon", 1e-5), ("one", 1), ("half", 0.5), ("root", 1.41421356)]
    initializers = [(name, np.float32(value)) for name, value in scalars]
    initializers += [("w", random(16, 16, scale=0.25)), ("gamma", random(16, scale=0.1) + 1), ("beta", random(16))]
    initializers += [("axis", np.array([-1]))] if opset >= 18 else []
    shape = [8, 16]
    made = model(nodes, [("x", F, shape)], [(name, F, shape) for name in "yzt"], initializers, opset=opset)
    return made, {"x": random(*shape)}


def layer_norms():
    """onnxruntime fuses these, and drops Casts when it does."""
    return norms_of(17)


def layer_norms_13():
    return norms_of(13)


def layer_norms_18():
    return norms_of(18)


def layer_norm_function():
    """A normalization in a function, whose argument is cast where it is called."""
    body = norm("a", "b", 17, "inner", affine=("s", "t"))
    names = [("two", 2.0), ("epsilon", 1e-5)]
    values = [helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.float32(value), name)) for name, value in names]
    function = helper.make_function("local", "Norm", ["a", "s", "t"], ["b"], [*values, *body], [helper.make_opsetid("", 17)])
    nodes = [linear("x", "h"), node("Norm", "h,gamma,beta", "n", domain="local"), node("Identity", "n", "y")]
    initializers = [("w", random(16, 16, scale=0.25)), ("gamma", random(16) + 1), ("beta", random(16))]
    made = model(nodes, [("x", F, [4, 16])], [("y", F, [4, 16])], initializers, functions=[function], domains=["local"])
    return made, {"x": random(4, 16)}


def sparse_tensor(name):
    values = numpy_helper.from_array(np.array([1, 2, 3], np.float32), name)
    return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([0, 10, 63]), f"{name}_at"), [8, 8])


def sparse_constant():
    nodes = [helper.make_node("Constant", [], ["s"], sparse_value=sparse_tensor("s")), linear("x", "h", weight="s"), linear("h", "y")]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], [("w", random(8, 8))]), {"x": random(3, 8)}


def quantized_gemm():
    """com.microsoft's QGemm, which gives integers where there is a zero point for them, and floats elsewhere."""
    integers, nothing = "q,s,i,v,s,i", ""
    nodes = [
        node("QuantizeLinear", "x,s,i", "q"),
        node("QGemm", f"{integers},{nothing},s,i", "g", domain="com.microsoft"),
        node("DequantizeLinear", "g,s,i", "d"),
        node("QGemm", integers, "f", domain="com.microsoft"),
        node("Add", "d,f", "sum"),
        linear("sum", "y"),
    ]
    initializers = [("s", np.float32(0.05)), ("i", np.int8(0)), ("v", RANDOM.integers(-90, 90, (8, 8)).astype(np.int8)), ("w", random(8, 8))]
    return model(nodes, [("x", F, [3, 8])], [("y", F, [3, 8])], initializers, domains=["com.microsoft"]), {"x": random(3, 8)}


MODELS = [
    kept_cast, positions, lengths, epsilon, shared_initializer, resize, unnamed, two_readers, branches, loop, scan,
    random_like, meaningful_pair, read_output, straight, stale_value_info, left_out, one_half_initializer,
    overflow_inside, mask, constant_mask, large_weight, functions, constants, sequences, old_format, default_input,
    quantized, recurrent, everything_narrow, layer_norms, layer_norms_13, layer_norms_18, layer_norm_function,
    sparse_constant, quantized_gemm,
]  # fmt: skip


def made():
    """Each model with its name and inputs."""
    for make in MODELS:
        yield make.__name__, *make()


__all__ = ["made", "model", "node", "random", "onnx", "parser"]
