"""Models parts of which need more digits, or more range, than float16 or bfloat16 have; each with inputs. Beside them some
that look alike and need no more, and must become narrow as a whole. `scripts/generate/precision_exports.py` had torch export others.
"""

import io
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper
from precision_models import F, I, linear, model, node

OPSET = 22
EXPORTS = Path(__file__).resolve().parents[2] / "crates" / "testkit" / "data" / "exports.zip"


def random(seed, *shape, scale=1.0):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


def made_of(nodes, inputs, outputs, initializers=(), opset=OPSET):
    """A model whose inputs are arrays by name, and whose outputs are shapes by name."""
    types = {np.dtype(np.float32): F, np.dtype(np.int64): I, np.dtype(bool): TensorProto.BOOL}
    declared = [(name, types[array.dtype], list(array.shape)) for name, array in inputs.items()]
    named = [(name, F, shape) for name, shape in outputs.items()]
    return model(nodes, declared, named, initializers, opset=opset, ir=10), inputs


def exponential_ratio():
    """A sigmoid of plain operators: e / (1 + e), where e overflows in float16 from 11.1 on."""
    nodes = [linear("x", "h"), node("Exp", "h", "e"), node("Add", "e,one", "d"), node("Div", "e,d", "s"), linear("s", "y")]
    initializers = [("w", np.eye(8, dtype=np.float32)), ("one", np.float32(1))]
    return made_of(nodes, {"x": random(1, 128, 8, scale=8)}, {"y": [128, 8]}, initializers)


def exponential_difference():
    """A hyperbolic tangent of plain operators, by way of a Reshape and a Neg."""
    nodes = [
        node("Exp", "x", "e"),
        node("Neg", "x", "n"),
        node("Exp", "n", "f"),
        node("Reshape", "f,shape", "g"),
        node("Sub", "e,g", "a"),
        node("Add", "e,g", "b"),
        node("Div", "a,b", "t"),
        linear("t", "y"),
    ]
    initializers = [("w", np.eye(8, dtype=np.float32)), ("shape", np.array([128, 8]))]
    return made_of(nodes, {"x": random(2, 128, 8, scale=8)}, {"y": [128, 8]}, initializers)


def softplus():
    nodes = [linear("x", "h"), node("Exp", "h", "e"), node("Add", "e,one", "d"), node("Log", "d", "s"), linear("s", "y")]
    initializers = [("w", np.eye(8, dtype=np.float32)), ("one", np.float32(1))]
    return made_of(nodes, {"x": random(3, 128, 8, scale=8)}, {"y": [128, 8]}, initializers)


def log_of_sigmoid():
    """The probability of two events: Sigmoid(-12) squared is 4e-11, which is zero in float16."""
    nodes = [linear("x", "h"), node("Sigmoid", "h", "s"), node("Mul", "s,s", "m"), node("Log", "m", "l"), linear("l", "y")]
    return made_of(nodes, {"x": random(4, 64, 8, scale=8).clip(-12, 12)}, {"y": [64, 8]}, [("w", np.eye(8, dtype=np.float32))])


def log_of_complement():
    """A cross entropy: 1 - Sigmoid(8) is zero in bfloat16."""
    nodes = [linear("x", "h"), node("Sigmoid", "h", "s"), node("Sub", "one,s", "c"), node("Log", "c", "l"), linear("l", "y")]
    initializers = [("w", np.eye(8, dtype=np.float32)), ("one", np.float32(1))]
    return made_of(nodes, {"x": random(5, 64, 8, scale=3)}, {"y": [64, 8]}, initializers)


def log_of_softmax():
    nodes = [linear("x", "h"), node("Softmax", "h", "s"), node("Log", "s", "l"), linear("l", "y")]
    return made_of(nodes, {"x": random(6, 64, 8, scale=12)}, {"y": [64, 8]}, [("w", np.eye(8, dtype=np.float32))])


def log_of_clamped():
    """A logit as torch exports it: 1 less a limit of 1 - 1e-6, which is one in 16 bits, and so the logarithm of infinity."""
    nodes = [
        linear("x", "h"),
        node("Sigmoid", "h", "s"),
        node("Less", "s,least", "below"),
        node("Where", "below,least,s", "raised"),
        node("LessOrEqual", "raised,most", "within"),
        node("Where", "within,raised,most", "p"),
        node("Sub", "one,p", "c"),
        node("Div", "p,c", "odds"),
        node("Log", "odds", "l"),
        linear("l", "y"),
    ]
    numbers = [("least", np.float32(1e-6)), ("most", np.float32(1 - 1e-6)), ("one", np.float32(1))]
    return made_of(nodes, {"x": random(41, 64, 8, scale=16)}, {"y": [64, 8]}, [("w", np.eye(8, dtype=np.float32)), *numbers])


def steep_inverse():
    """An inverse hyperbolic tangent at the end of its domain, which is infinite if a factor of 0.9999 is one."""
    nodes = [linear("x", "h"), node("Tanh", "h", "t"), node("Mul", "t,k", "a"), node("Atanh", "a", "l"), linear("l", "y")]
    initializers = [("w", np.eye(8, dtype=np.float32)), ("k", np.float32(0.9999))]
    return made_of(nodes, {"x": random(42, 64, 8, scale=4)}, {"y": [64, 8]}, initializers)


def timestep_embedding():
    """Angles of a float: the time of a diffusion model, up to 1000."""
    frequencies = np.exp(-np.log(10000) * np.arange(16) / 16).astype(np.float32)
    nodes = [
        node("Unsqueeze", "t,last", "column"),
        node("Mul", "column,frequencies", "angles"),
        node("Sin", "angles", "s"),
        node("Cos", "angles", "c"),
        node("Concat", "s,c", "both", axis=-1),
        linear("both", "y"),
    ]
    initializers = [("last", np.array([1])), ("frequencies", frequencies), ("w", random(7, 32, 8, scale=0.2))]
    times = np.random.default_rng(7).uniform(0, 1000, 64).astype(np.float32)
    return made_of(nodes, {"t": times}, {"y": [64, 8]}, initializers)


def fourier_features():
    """Angles by a matrix product: coordinates times random frequencies."""
    nodes = [
        linear("x", "p", weight="b"),
        node("Mul", "p,turn", "angles"),
        node("Sin", "angles", "s"),
        node("Cos", "angles", "c"),
        node("Concat", "s,c", "both", axis=-1),
        linear("both", "y"),
    ]
    initializers = [("b", random(8, 3, 32, scale=10)), ("turn", np.float32(2 * np.pi)), ("w", random(9, 64, 8, scale=0.2))]
    return made_of(nodes, {"x": np.random.default_rng(8).random((64, 3), np.float32)}, {"y": [64, 8]}, initializers)


def positional_encoding():
    """Angles of a radiance field: coordinates times powers of two, behind a shift."""
    nodes = [
        node("Sub", "x,center", "shifted"),
        node("Unsqueeze", "shifted,last", "column"),
        node("Mul", "column,octaves", "angles"),
        node("Sin", "angles", "s"),
        node("Reshape", "s,shape", "flat"),
        linear("flat", "y"),
    ]
    octaves = (2.0 ** np.arange(10) * np.pi).astype(np.float32)
    initializers = [("center", np.float32([0.5, 0.25, 0.125])), ("last", np.array([2])), ("octaves", octaves), ("shape", np.array([64, 30])), ("w", random(10, 30, 8, scale=0.2))]
    return made_of(nodes, {"x": np.random.default_rng(9).random((64, 3), np.float32)}, {"y": [64, 8]}, initializers)


def grid_sample():
    """A picture that is sampled where a grid says, which is an affine map of regular places."""
    size = 48
    places = (np.arange(size, dtype=np.float32) * 2 + 1) / size - 1
    rows, columns = np.meshgrid(places, places, indexing="ij")
    base = np.stack([columns.ravel(), rows.ravel(), np.ones(size * size, np.float32)])
    nodes = [
        node("MatMul", "theta,base", "moved"),
        node("Transpose", "moved", "turned", perm=[0, 2, 1]),
        node("Reshape", "turned,shape", "grid"),
        node("Conv", "x,k", "c", pads=[1, 1, 1, 1]),
        node("GridSample", "c,grid", "y", align_corners=0),
    ]
    initializers = [("base", base), ("shape", np.array([1, size, size, 2])), ("k", random(11, 2, 2, 3, 3))]
    theta = np.float32([[[0.9, 0.2, 0.05], [-0.2, 0.95, -0.03]]])
    return made_of(nodes, {"x": random(12, 1, 2, size, size), "theta": theta}, {"y": [1, 2, size, size]}, initializers)


def flow_warp():
    """The same with offsets that a network predicts, added to places that are a constant."""
    size = 48
    places = (np.arange(size, dtype=np.float32) * 2 + 1) / size - 1
    rows, columns = np.meshgrid(places, places, indexing="ij")
    nodes = [
        node("Conv", "x,k", "h", pads=[1, 1, 1, 1]),
        node("Relu", "h", "r"),
        node("Conv", "r,l,bias", "flow", pads=[1, 1, 1, 1]),
        node("Transpose", "flow", "offsets", perm=[0, 2, 3, 1]),
        node("Mul", "offsets,small", "scaled"),
        node("Add", "places,scaled", "grid"),
        node("GridSample", "x,grid", "y", align_corners=0),
    ]
    initializers = [
        ("k", random(13, 4, 2, 3, 3, scale=0.2)),
        ("l", random(14, 2, 4, 3, 3, scale=0.2)),
        ("bias", np.float32([0.01, -0.01])),
        ("small", np.float32(0.02)),
        ("places", np.stack([columns, rows], -1)[None]),
    ]
    return made_of(nodes, {"x": random(15, 1, 2, size, size)}, {"y": [1, 2, size, size]}, initializers)


def regions():
    """Regions in pixels, whose corners float16 moves by half of one. (onnxruntime has no RoiAlign of opset 22.)"""
    boxes = np.float32([[1100.3, 11.7, 1131.9, 28.2], [1231.4, 1.1, 1250.7, 23.3], [1333.2, 11.6, 1390.1, 29.9]])
    nodes = [
        node("Mul", "boxes,scale", "scaled"),
        node("Conv", "x,k", "c", pads=[1, 1, 1, 1]),
        node("RoiAlign", "c,scaled,batch", "r", output_height=4, output_width=4, sampling_ratio=2),
        node("Conv", "r,l", "y"),
    ]
    initializers = [("scale", np.float32(0.996)), ("k", random(16, 2, 1, 3, 3)), ("l", random(16, 2, 2, 1, 1)), ("batch", np.zeros(3, np.int64))]
    return made_of(nodes, {"x": random(17, 1, 1, 32, 1400), "boxes": boxes}, {"y": [3, 2, 4, 4]}, initializers, opset=21)


def loop(rounds, body_nodes, initializers, x, outputs, state="start"):
    body = helper.make_graph(
        [*body_nodes, node("Identity", "go", "on")],
        "body",
        [helper.make_tensor_value_info("i", I, []), helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("state", F, list(x.shape))],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("next", F, list(x.shape))],
    )  # fmt: skip
    nodes = [linear("x", "h"), node("Loop", f"n,t,{state}", "end", body=body), linear("end", "y")]
    given = [("w", np.eye(x.shape[-1], dtype=np.float32)), ("t", np.array(True)), *initializers]
    return made_of(nodes, {"x": x, "n": np.array(rounds)}, outputs, given)


def loop_sum():
    """A state to which something is added, 5,000 times."""
    x = np.abs(random(18, 4, 8)) * np.float32(0.01)
    zeros = [("start", np.zeros((4, 8), np.float32))]
    return loop(5000, [node("Add", "state,h", "next")], zeros, x, {"y": [4, 8]})


def loop_steps():
    """The same by a branch, a Sub and a Mul: steps of a differential equation."""
    then = helper.make_graph([node("Sub", "state,step", "a")], "then", [], [helper.make_tensor_value_info("a", F, [4, 8])])
    other = helper.make_graph([node("Add", "state,step", "b")], "other", [], [helper.make_tensor_value_info("b", F, [4, 8])])
    body = [
        node("Mul", "h,rate", "step"),
        node("Less", "i,limit", "early"),
        node("If", "early", "moved", then_branch=then, else_branch=other),
        node("Reshape", "moved,shape", "next"),
    ]
    x = np.abs(random(19, 4, 8))
    given = [("start", np.zeros((4, 8), np.float32)), ("rate", np.float32(0.003)), ("limit", np.array(300)), ("shape", np.array([4, 8]))]
    return loop(4000, body, given, x, {"y": [4, 8]})


def loop_average():
    """An average that forgets slowly: what is added is less than half a step of the type."""
    body = [node("Mul", "state,old", "kept"), node("Mul", "h,new", "part"), node("Add", "kept,part", "next")]
    x = np.abs(random(20, 4, 8)) + np.float32(1)
    given = [("start", np.zeros((4, 8), np.float32)), ("old", np.float32(0.999)), ("new", np.float32(0.001))]
    return loop(4000, body, given, x, {"y": [4, 8]})


def scan_sum():
    """A Scan that adds up, over 5,000 elements."""
    body = helper.make_graph(
        [node("Add", "element,state", "next"), node("Identity", "next", "all")],
        "body",
        [helper.make_tensor_value_info("state", F, [4]), helper.make_tensor_value_info("element", F, [4])],
        [helper.make_tensor_value_info("next", F, [4]), helper.make_tensor_value_info("all", F, [4])],
    )
    nodes = [linear("x", "h"), node("Scan", "start,h", "end,sums", body=body, num_scan_inputs=1), node("Unsqueeze", "end,first", "row"), linear("row", "y")]
    initializers = [("w", np.eye(4, dtype=np.float32)), ("start", np.zeros(4, np.float32)), ("first", np.array([0]))]
    return made_of(nodes, {"x": np.abs(random(21, 5000, 4)) * np.float32(0.01)}, {"y": [1, 4]}, initializers)


def lowest_mask():
    """Attention whose mask is computed from integers, times float32's lowest number. A row is hidden as a whole."""
    nodes = [
        linear("x", "q"),
        node("Transpose", "q", "k", perm=[1, 0]),
        node("MatMul", "q,k", "scores"),
        node("Cast", "m", "visible", to=F),
        node("Sub", "one,visible", "hidden"),
        node("Mul", "hidden,lowest", "bias"),
        node("Add", "scores,bias", "masked"),
        node("Softmax", "masked", "p"),
        node("MatMul", "p,q", "attended"),
        node("ReduceMax", "m,last", "any", keepdims=1),
        node("Cast", "any", "seen", to=F),
        node("Mul", "attended,seen", "y"),
    ]
    mask = np.tril(np.ones((6, 6), np.int64))
    mask[3] = 0
    initializers = [("w", random(22, 8, 8, scale=0.5)), ("one", np.float32(1)), ("lowest", np.finfo(np.float32).min), ("last", np.array([1]))]
    return made_of(nodes, {"x": random(23, 6, 8), "m": mask}, {"y": [6, 8]}, initializers)


def variance_of_squares():
    """E[x^2] - E[x]^2, of what is far from zero."""
    nodes = [
        linear("x", "h"),
        node("Mul", "h,h", "squares"),
        node("ReduceMean", "squares,last", "a", keepdims=1),
        node("ReduceMean", "h,last", "mean", keepdims=1),
        node("Pow", "mean,two", "b"),
        node("Sub", "a,b", "variance"),
        node("Add", "variance,epsilon", "safe"),
        node("Sqrt", "safe", "deviation"),
        node("Sub", "h,mean", "centered"),
        node("Div", "centered,deviation", "n"),
        linear("n", "y"),
    ]
    initializers = [("w", np.eye(64, dtype=np.float32)), ("last", np.array([1])), ("two", np.float32(2)), ("epsilon", np.float32(1e-5))]
    return made_of(nodes, {"x": random(24, 16, 64, scale=2) + np.float32(10)}, {"y": [16, 64]}, initializers)


def variance_alone():
    """The same as an output, and with a Mul for the square of the mean."""
    nodes = [
        linear("x", "h"),
        node("Pow", "h,two", "squares"),
        node("ReduceMean", "squares,last", "a", keepdims=1),
        node("ReduceMean", "h,last", "mean", keepdims=1),
        node("Mul", "mean,mean", "b"),
        node("Sub", "a,b", "variance"),
        linear("variance", "y", weight="v"),
    ]
    initializers = [("w", np.eye(64, dtype=np.float32)), ("last", np.array([1])), ("two", np.float32(2)), ("v", random(25, 1, 4))]
    return made_of(nodes, {"x": random(26, 16, 64, scale=2) + np.float32(10)}, {"y": [16, 4]}, initializers)


def squared_distances():
    """The squares of distances among points and centers, far from zero: a^2 - 2ab + b^2, as point clouds have it."""
    nodes = [
        linear("x", "a"),
        node("Transpose", "b", "t", perm=[1, 0]),
        node("MatMul", "a,t", "p"),
        node("Mul", "p,minus", "d"),
        node("Mul", "a,a", "aa"),
        node("ReduceSum", "aa,last", "na", keepdims=1),
        node("Add", "d,na", "s"),
        node("Pow", "b,two", "bb"),
        node("ReduceSum", "bb,last", "nb", keepdims=0),
        node("Add", "s,nb", "q"),
        node("Relu", "q", "y"),
    ]
    initializers = [("w", np.eye(8, dtype=np.float32)), ("minus", np.float32(-2)), ("last", np.array([1])), ("two", np.float32(2))]
    inputs = {"x": random(43, 32, 8, scale=2) + np.float32(16), "b": random(44, 24, 8, scale=2) + np.float32(16)}
    return made_of(nodes, inputs, {"y": [32, 24]}, initializers)


def codebook():
    """Distances to the codes of a vector quantizer, whose Gemm adds their norms, and whose norms of inputs an Einsum adds up."""
    nodes = [
        linear("x", "a"),
        node("Einsum", "a,a", "na", equation="ij,ij->i"),
        node("Unsqueeze", "na,last", "column"),
        node("Add", "column,norms", "n"),
        node("Gemm", "a,codes,n", "d", alpha=-2.0, transB=1),
        node("Neg", "d", "near"),
        node("Div", "near,heat", "y"),
    ]
    codes = random(45, 24, 8, scale=2) + np.float32(16)
    initializers = [("w", np.eye(8, dtype=np.float32)), ("last", np.array([1])), ("codes", codes), ("norms", (codes**2).sum(1)), ("heat", np.float32(8))]
    return made_of(nodes, {"x": random(46, 32, 8, scale=2) + np.float32(16)}, {"y": [32, 24]}, initializers)


def joined_distances():
    """The same by one product, of vectors that their norms are joined to, as torch.cdist does it."""
    nodes = [
        linear("x", "a"),
        node("Mul", "a,minus", "d"),
        node("Pow", "a,two", "aa"),
        node("ReduceSum", "aa,last", "na", keepdims=1),
        node("Concat", "d,na,ones", "left", axis=1),
        node("Mul", "b,b", "bb"),
        node("ReduceSum", "bb,last", "nb", keepdims=1),
        node("Concat", "b,many,nb", "right", axis=1),
        node("Transpose", "right", "turned", perm=[1, 0]),
        node("MatMul", "left,turned", "q"),
        node("Clip", "q,zero", "squares"),
        node("Sqrt", "squares", "y"),
    ]
    initializers = [("w", np.eye(8, dtype=np.float32)), ("minus", np.float32(-2)), ("last", np.array([1])), ("two", np.float32(2)), ("zero", np.float32(0))]
    initializers += [("ones", np.ones((32, 1), np.float32)), ("many", np.ones((24, 1), np.float32))]
    inputs = {"x": random(47, 32, 8, scale=2) + np.float32(16), "b": random(48, 24, 8, scale=2) + np.float32(16)}
    return made_of(nodes, inputs, {"y": [32, 24]}, initializers)


def structural_similarity():
    """Variances and a covariance of two pictures within windows, by convolutions: E[xy] - E[x] E[y]."""
    nodes = [node("Conv", f"{one},window", f"{one}_mean") for one in "ab"]
    for one, other in ("aa", "bb", "ab"):
        nodes += [
            node("Mul", f"{one},{other}", f"{one}{other}_product"),
            node("Conv", f"{one}{other}_product,window", f"{one}{other}_mean"),
            node("Mul", f"{one}_mean,{other}_mean", f"{one}{other}_means"),
            node("Sub", f"{one}{other}_mean,{one}{other}_means", f"{one}{other}"),
        ]
    nodes += [node("Add", "aa,bb", "both"), node("Add", "both,small", "safe"), node("Div", "ab,safe", "y")]
    picture = np.random.default_rng(49).random((1, 1, 24, 24), np.float32) * np.float32(0.3) + np.float32(0.6)
    inputs = {"a": picture, "b": picture + random(50, 1, 1, 24, 24, scale=0.05)}
    return made_of(nodes, inputs, {"y": [1, 1, 18, 18]}, [("window", np.full((1, 1, 7, 7), 1 / 49, np.float32)), ("small", np.float32(9e-4))])


def mixture():
    """Densities of normal distributions, by two products: z^2 p - 2 z m p + m^2 p."""
    nodes = [
        linear("x", "z"),
        node("Mul", "z,z", "q"),
        node("MatMul", "q,precisions", "a"),
        node("MatMul", "z,scaled", "b"),
        node("Add", "a,b", "s"),
        node("Add", "s,rest", "y"),
    ]
    means, precisions = random(51, 8, 12) + np.float32(8), np.abs(random(52, 8, 12)) + np.float32(0.5)
    parts = {"precisions": precisions, "scaled": -2 * means * precisions, "rest": (means**2 * precisions).sum(0)}
    return made_of(nodes, {"x": random(53, 32, 8) + np.float32(8)}, {"y": [32, 12]}, [("w", np.eye(8, dtype=np.float32)), *parts.items()])


def point_differences():
    """Points about one of them, in meters, far from the origin."""
    nodes = [node("Gather", "x,chosen", "center"), node("Sub", "x,center", "offsets"), linear("offsets", "y")]
    initializers = [("chosen", np.array([0])), ("w", random(54, 3, 8))]
    return made_of(nodes, {"x": random(55, 32, 3, scale=0.1) + np.float32([70, -40, 12])}, {"y": [32, 8]}, initializers)


def linear_attention():
    """Attention without a Softmax: both sums of a quotient are beyond float16."""
    nodes = [
        *(linear("x", name, weight=f"{name}w") for name in "qkv"),
        node("Relu", "q", "qr"),
        node("Relu", "k", "kr"),
        node("Transpose", "kr", "kt", perm=[1, 0]),
        node("MatMul", "kt,v", "kv"),
        node("MatMul", "qr,kv", "above"),
        node("ReduceSum", "kr,first", "sums", keepdims=0),
        node("Mul", "qr,sums", "weighed"),
        node("ReduceSum", "weighed,last", "below", keepdims=1),
        node("Add", "below,epsilon", "safe"),
        node("Reciprocal", "safe", "part"),
        node("Mul", "above,part", "y"),
    ]
    initializers = [(f"{name}w", random(56 + index, 8, 8)) for index, name in enumerate("qkv")]
    initializers += [("first", np.array([0])), ("last", np.array([1])), ("epsilon", np.float32(1e-6))]
    return made_of(nodes, {"x": random(59, 64, 8, scale=60)}, {"y": [64, 8]}, initializers)


def cosines():
    """Cosines of long vectors, whose products float16 does not hold."""
    nodes = [
        linear("x", "a"),
        linear("z", "b"),
        node("Mul", "a,b", "ab"),
        node("ReduceSum", "ab,last", "product", keepdims=1),
        node("ReduceL2", "a,last", "na", keepdims=1),
        node("ReduceL2", "b,last", "nb", keepdims=1),
        node("Mul", "na,nb", "lengths"),
        node("Div", "product,lengths", "c"),
        linear("c", "y", weight="v"),
    ]
    x = random(60, 16, 64, scale=60)
    initializers = [("w", np.eye(64, dtype=np.float32)), ("v", random(61, 1, 4)), ("last", np.array([1]))]
    return made_of(nodes, {"x": x, "z": x + random(62, 16, 64, scale=40)}, {"y": [16, 4]}, initializers)


def sums_by_index():
    """Means of what has an index: 3,000 elements are added up one after another."""
    nodes = [
        linear("x", "h"),
        node("ScatterND", "zeros,i,h", "sums", reduction="add"),
        node("ScatterND", "none,i,ones", "counts", reduction="add"),
        node("Div", "sums,counts", "y"),
    ]
    initializers = [("w", np.eye(8, dtype=np.float32)), ("zeros", np.zeros((4, 8), np.float32)), ("none", np.zeros((4, 1), np.float32))]
    initializers += [("ones", np.ones((3000, 1), np.float32))]
    return made_of(nodes, {"x": random(63, 3000, 8) + np.float32(1), "i": np.arange(3000)[:, None] % 4}, {"y": [4, 8]}, initializers)


def loop_decays():
    """What is left after 2,000 rounds, each of which takes a thousandth away: factors that are one in 16 bits."""
    body = [node("Sigmoid", "h", "s"), node("Mul", "s,rate", "gone"), node("Sub", "one,gone", "left"), node("Mul", "left,state", "next")]
    given = [("start", np.ones((4, 8), np.float32)), ("rate", np.float32(0.001)), ("one", np.float32(1))]
    return loop(2000, body, given, random(64, 4, 8), {"y": [4, 8]})


def bins():
    """Which bin of eight an input is in, which both types round across edges."""
    nodes = [
        node("Unsqueeze", "x,last", "column"),
        node("Less", "column,edges", "below"),
        node("Cast", "below", "hot", to=F),
        linear("hot", "y"),
        linear("x", "z", weight="v"),
    ]
    edges = np.linspace(100, 101, 8, dtype=np.float32)
    initializers = [("last", np.array([1])), ("edges", edges), ("w", random(65, 8, 4)), ("v", random(66, 256, 4))]
    return made_of(nodes, {"x": np.random.default_rng(67).uniform(100, 101, 256).astype(np.float32)}, {"y": [256, 4], "z": [4]}, initializers)


def normalized_input():
    """What an input is less its mean, in parts of its small deviation."""
    nodes = [node("Sub", "x,mean", "c"), node("Div", "c,deviation", "n"), linear("n", "y")]
    initializers = [("mean", np.full(8, 1000, np.float32)), ("deviation", np.full(8, 0.5, np.float32)), ("w", random(68, 8, 8))]
    return made_of(nodes, {"x": random(69, 16, 8, scale=0.5) + np.float32(1000)}, {"y": [16, 8]}, initializers)


SENSITIVE = [
    exponential_ratio, exponential_difference, softplus, log_of_sigmoid, log_of_complement, log_of_softmax,
    log_of_clamped, steep_inverse,
    timestep_embedding, fourier_features, positional_encoding, grid_sample, flow_warp, regions, loop_sum, loop_steps,
    loop_average, scan_sum, lowest_mask, variance_of_squares, variance_alone,
    squared_distances, codebook, joined_distances, structural_similarity, mixture,
    point_differences, linear_attention, cosines, sums_by_index, loop_decays, bins, normalized_input,
]  # fmt: skip


def bounded_exponential():
    """Exponentials of what is at most zero: they cannot overflow."""
    nodes = [linear("x", "h"), node("Relu", "h", "r"), node("Neg", "r", "n"), node("Exp", "n", "e"), node("Add", "e,one", "d"), node("Div", "e,d", "s"), linear("s", "y")]
    initializers = [("w", random(30, 8, 8)), ("one", np.float32(1))]
    return made_of(nodes, {"x": random(31, 16, 8)}, {"y": [16, 8]}, initializers)


def bounded_angle():
    """Angles of at most pi, of what is narrow anyway."""
    nodes = [linear("x", "h"), node("Tanh", "h", "t"), node("Mul", "t,pi", "a"), node("Cos", "a", "c"), linear("c", "y")]
    initializers = [("w", random(32, 8, 8)), ("pi", np.float32(np.pi))]
    return made_of(nodes, {"x": random(33, 16, 8)}, {"y": [16, 8]}, initializers)


def snake():
    """The activation of vocoders: sines of what a second convolution gives, which is rounded already."""
    nodes = [node("Conv", "x,k", "h", pads=[1, 1])]
    for index in range(3):
        nodes += [node("Conv", f"h{index or ''},k", f"c{index}", pads=[1, 1]), node("Mul", f"c{index},alpha", f"a{index}"), node("Sin", f"a{index}", f"s{index}"),
                  node("Mul", f"s{index},s{index}", f"q{index}"), node("Add", f"c{index},q{index}", f"h{index + 1}")]  # fmt: skip
    nodes.append(node("Conv", "h3,k", "y", pads=[1, 1]))
    initializers = [("k", random(34, 4, 4, 3, scale=0.3)), ("alpha", np.abs(random(35, 4, 1)) + np.float32(0.5))]
    return made_of(nodes, {"x": random(36, 1, 4, 32)}, {"y": [1, 4, 32]}, initializers)


def loop_recurrent():
    """A recurrent state that a Tanh bounds, and one that a gate scales."""
    body = [
        node("MatMul", "state,u", "m"),
        node("Add", "m,h", "a"),
        node("Tanh", "a", "candidate"),
        node("Sigmoid", "a", "gate"),
        node("Mul", "gate,state", "kept"),
        node("Sub", "one,gate", "rest"),
        node("Mul", "rest,candidate", "new"),
        node("Add", "kept,new", "next"),
    ]
    given = [("start", np.zeros((4, 8), np.float32)), ("u", random(37, 8, 8, scale=0.3)), ("one", np.float32(1))]
    return loop(20, body, given, random(38, 4, 8), {"y": [4, 8]})


def gelu():
    """Both spellings of GELU, and Swish, between products."""
    nodes = [
        linear("x", "h"),
        node("Mul", "h,root", "d"),
        node("Erf", "d", "e"),
        node("Add", "e,one", "a"),
        node("Mul", "h,a", "m"),
        node("Mul", "m,half", "g"),
        linear("g", "i"),
        node("Pow", "i,three", "cube"),
        node("Mul", "cube,c", "scaled"),
        node("Add", "i,scaled", "inner"),
        node("Mul", "inner,root", "outer"),
        node("Tanh", "outer", "t"),
        node("Add", "t,one", "b"),
        node("Mul", "i,b", "n"),
        node("Mul", "n,half", "k"),
        linear("k", "l"),
        node("Sigmoid", "l", "s"),
        node("Mul", "l,s", "swish"),
        linear("swish", "y"),
    ]
    numbers = [("root", 0.7978846), ("one", 1), ("half", 0.5), ("three", 3), ("c", 0.044715)]
    initializers = [("w", random(39, 8, 8, scale=0.4)), *((name, np.float32(value)) for name, value in numbers)]
    return made_of(nodes, {"x": random(40, 16, 8)}, {"y": [16, 8]}, initializers)


NARROW = [bounded_exponential, bounded_angle, snake, loop_recurrent, gelu]


def sensitive():
    """Each model that needs more in places, with its name and inputs."""
    for make in SENSITIVE:
        yield make.__name__, *make()


def narrow():
    """Each model that needs no more anywhere, likewise."""
    for make in NARROW:
        yield make.__name__, *make()


def exports():
    """What torch's exporters wrote, with inputs."""
    with zipfile.ZipFile(EXPORTS) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".onnx"):
                held = np.load(io.BytesIO(archive.read(f"{name.split('_')[0]}.npz")))
                exported = onnx.load_from_string(archive.read(name))
                inputs = zip(exported.graph.input, held.files, strict=True)
                yield name.removesuffix(".onnx"), exported, {one.name: held[key] for one, key in inputs}
