"""Do quantized models run in onnxruntime, and are their bits those of its own quantizers?

`models.py` runs this.
"""

import logging
import re

import numpy as np
import onnx
import onnxruntime
from graphs import LEVELS, bits, every_node, literal, model, outputs, session
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi._pybind_state import quantize_matmul_4bits, quantize_matmul_8bits
from onnxruntime.quantization import quantize_dynamic
from shared import command, fail

LIMITS = {"int8": 0.06, "int4": 0.6, "float8e4m3fn": 0.15}


def weight(rng, *shape, axis=0):
    """Weights whose magnitudes differ along an axis by far more than int8 has: with scales along another axis all
    of the small ones are 0."""
    sizes = [1] * len(shape)
    sizes[axis] = shape[axis]
    return (rng.standard_normal(shape) * np.logspace(-4, 0, shape[axis]).reshape(sizes)).astype(np.float32)


def reach_cases(rng):
    """Models, each with weights that a plain look for right operands of MatMul would miss: the nodes, the inputs, the
    weights that are found, initializers, some of which are not, and the axis of outputs compared one by one."""
    right, left = weight(rng, 64, 48, axis=1), weight(rng, 48, 64, axis=0)
    yield "Constant nodes", f"w = Constant<value = {literal(right)}>() y = MatMul(x, w)", {"x": [5, 64]}, "w", {}, 0
    yield "left operands", "y = MatMul(w, x)", {"x": [64, 5]}, "w", {"w": left}, 1
    yield "behind a Transpose", "t = Transpose<perm=[1, 0]>(w) y = MatMul(x, t)", {"x": [5, 64]}, "w", {"w": left}, 0
    batch, nodes = weight(rng, 48, 2, 64, axis=0), "t = Transpose<perm=[1, 2, 0]>(w) i = Identity(t) y = MatMul(x, i)"
    yield "behind a Transpose of three axes", nodes, {"x": [2, 5, 64]}, "w", {"w": batch}, 0
    yield "Gemm's left operand", "y = Gemm<transA=1>(w, x)", {"x": [64, 5]}, "w", {"w": right}, 1
    kernel = weight(rng, 24, 32, 3, 3, axis=1)
    yield "ConvTranspose", "y = ConvTranspose(x, w)", {"x": [1, 24, 6, 6]}, "w", {"w": kernel}, None
    kernel, nodes = weight(rng, 32, 1, 3, 3, axis=0), "y = {}<group=32>(x, w)"
    for operator in ("Conv", "ConvTranspose"):
        yield f"{operator} by channel", nodes.format(operator), {"x": [1, 32, 6, 6]}, "w", {"w": kernel}, None
    table = {"w": weight(rng, 96, 32, axis=0), "i": np.array([2, 95, 50])}
    yield "Gather", "g = Gather(w, i) y = Add(g, x)", {"x": [3, 32]}, "w", table, None
    for operator, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        w, r = weight(rng, 1, gates * 24, 40, axis=1) / 8, weight(rng, 1, gates * 24, 24, axis=1) / 8
        nodes = f"y = {operator}<hidden_size=24>(x, w, r)"
        yield operator, nodes, {"x": [6, 2, 40]}, "wr", {"w": w, "r": r}, None
    held, wide = weight(rng, 48, 40, axis=1), weight(rng, 64, 48, axis=1)
    own = {"domains": ["own"], "functions": f"""
        <domain: "own", opset_import: ["" : 21]> Linear (a, b) => (c) {{ c = MatMul(a, b) }}
        <domain: "own", opset_import: ["" : 21, "own" : 1]> Twice (a, b) => (c) {{ c = own.Linear(a, b) }}
        <domain: "own", opset_import: ["" : 21]> Held (a) => (c)
        {{ k = Constant<value = {literal(held)}>() c = MatMul(a, k) }}"""}  # fmt: skip
    yield "functions", "h = own.Twice(x, w) y = own.Held(h)", {"x": [5, 64]}, "wk", {"w": wide} | own, None


def check_reach(folder):
    """Weights are found wherever operators read them, and have scales along the right axis."""
    rng, count = np.random.default_rng(7), 0
    source, quantized = folder / "source.onnx", folder / "quantized.onnx"
    for name, nodes, inputs, found, initializers, axis in list(reach_cases(rng)):
        declared = ", ".join(f"float[{','.join(map(str, shape))}] {one}" for one, shape in inputs.items())
        onnx.save(model(f"({declared}) => (float[] y) {{ {nodes} }}", opset=21, ir=10, **initializers), source)
        feeds = {one: rng.standard_normal(shape).astype(np.float32) for one, shape in inputs.items()}
        (want,) = outputs(source, feeds)
        for to, limit in LIMITS.items():
            # Tables are quantized only if they are named.
            command("quantize", source, quantized, "--to", to, *(["--include", "w"] if name == "Gather" else []))
            made = onnx.load(quantized)
            nodes = [node for graph in [made.graph, *made.functions] for node in graph.node]
            quantized_weights = sum(node.op_type == "DequantizeLinear" for node in nodes)
            if quantized_weights != len(found):
                fail(f"{name}, {to}: {quantized_weights} weights are quantized, want {sorted(found)}")
            (got,) = outputs(quantized, feeds)
            gaps = [np.abs(got - want).max() / np.abs(want).max()]
            if axis is not None:
                # The error beside each output's own size: outputs of small weights must be as exact as the others.
                size = np.abs(want).max(1, keepdims=True) if axis else np.abs(want).reshape(-1, want.shape[-1]).max(0)
                gaps.append((np.abs(got - want) / np.maximum(size, 1e-12)).max())
            if max(gaps) > limit:
                fail(f"{name}, {to}: off by {gaps} of the largest output, and of an output's own size")
        count += 1
    print(f"  weights of {count} kinds of graphs found and quantized")


def theirs(w, block, bits, is_symmetric):
    """The tensors that onnxruntime's MatMulNBitsQuantizer makes, by the functions that it calls: elements, scales and
    zero points."""
    rows, columns = w.shape
    blocks, pack = -(-rows // block), 8 // bits
    padded = np.pad(w, ((0, blocks * block - rows), (0, 0)))
    elements = np.zeros((columns, blocks, block // pack), np.uint8)
    scales = np.zeros((columns, blocks), w.dtype)
    zero_points = np.zeros((columns, -(-blocks // pack)), np.uint8)
    quantize = quantize_matmul_4bits if bits == 4 else quantize_matmul_8bits
    quantize(elements, padded, scales, zero_points, block, columns, rows, is_symmetric)
    return [elements, scales] if is_symmetric else [elements, scales, zero_points]


SHAPES = [(64, 48, 32), (5120, 96, 32), (100, 33, 16), (4096, 7, 128), (18432, 5, 256), (48, 300, 64)]


def check_bits(folder):
    """The tensors of MatMulNBits are, bit for bit, those that onnxruntime's own quantizer makes."""
    rng, compared = np.random.default_rng(3), 0
    source, ours, made = folder / "source.onnx", folder / "ours.onnx", folder / "made.onnx"
    for dtype, of_type in ((np.float32, "float"), (np.float16, "float16")):
        for rows, columns, block in SHAPES:
            w = rng.standard_normal((rows, columns)) * np.logspace(-3, 1, columns)
            w[:, 0] = 0
            w[: rows // 2, 1] = -np.abs(w[: rows // 2, 1])
            w, x = w.astype(dtype), rng.standard_normal((2, rows)).astype(dtype)

            def product(nodes, **initializers):
                text = f"({of_type}[2,{rows}] x) => ({of_type}[2,{columns}] y) {{ {nodes} }}"
                return model(text, opset=21, ir=10, domains=["com.microsoft"], **initializers)

            plain = product("[product] y = MatMul(x, w)", w=w)
            turned = product("t = Transpose(w) [product] y = MatMul(x, t)", w=np.ascontiguousarray(w.T))
            gemm = product("i = Identity(w) [product] y = Gemm<transB=1>(x, i)", w=np.ascontiguousarray(w.T))
            for bits, is_symmetric in ((4, True), (4, False), (8, True), (8, False)):
                case = f"{rows}x{columns} {np.dtype(dtype)} in {block}, {bits} bits, symmetric: {is_symmetric}"
                want = dict(zip(["elements", "scales", "zeros"], theirs(w, block, bits, is_symmetric)))
                attributes = {"K": rows, "N": columns, "bits": bits, "block_size": block, "accuracy_level": 4}
                given = ", ".join(f"{name}={value}" for name, value in attributes.items())
                onnx.save(product(f"y = com.microsoft.MatMulNBits<{given}>({', '.join(['x', *want])})", **want), made)
                options = ["--form", "matmulnbits", "--min-elements", "1", *([] if is_symmetric else ["--zero-points"])]
                for one in (plain, turned, gemm):
                    onnx.save(one, source)
                    said = command("quantize", source, ours, "--to", f"int{bits}/{block}", *options).stderr
                    if ("zeros for MatMulNBits of float16" in said) != (dtype == np.float16):
                        fail(f"{case}: {said}")
                    got = onnx.load(ours)
                    [node] = got.graph.node
                    found = {one.name: helper.get_attribute_value(one) for one in node.attribute}
                    if (node.op_type, node.name, found) != ("MatMulNBits", "product", attributes):
                        fail(f"{case}: {node}")
                    known = {one.name: numpy_helper.to_array(one) for one in got.graph.initializer}
                    for (name, their), key in zip(want.items(), node.input[1:], strict=True):
                        mine = known[key]
                        if (mine.dtype, mine.shape, mine.tobytes()) != (their.dtype, their.shape, their.tobytes()):
                            fail(f"{case}: {name} differ: {mine.dtype}{mine.shape}, want {their.dtype}{their.shape}")
                    compared += 1
                if outputs(ours, {"x": x})[0].tobytes() != outputs(made, {"x": x})[0].tobytes():
                    fail(f"{case}: another result than with onnxruntime's tensors")
    print(f"  MatMulNBits: {compared} models have the bits of onnxruntime's own quantizer")


def packed_cases(rng):
    """Models in which other nodes than MatMul, or several, read packed weights; and the operators that take their place."""
    w, square = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, 48), (64, 64)))
    bias, rows = w[0].copy(), {"i": np.array([1, 2, -1, 63, 0])}
    yield "y = Gemm(x, w, b)", {"w": w, "b": bias}, ["MatMulNBits", "Add"]
    yield "y = Gemm<transB=1>(x, w, b)", {"w": w.T.copy(), "b": bias[:1]}, ["MatMulNBits", "Add"]
    nodes = "i = Identity(w) a = MatMul(x, w) b = MatMul(x, i) y = Add(a, b)"
    yield nodes, {"w": w}, ["MatMulNBits", "MatMulNBits", "Add"]
    yield "t = Transpose(w) a = MatMul(x, w) y = MatMul(a, t)", {"w": w}, ["MatMulNBits", "MatMulNBits"]
    yield "g = Gather(w, i) y = Add(g, x)", {"w": square, **rows}, ["GatherBlockQuantized", "Add"]
    nodes = "g = Gather(w, i) t = Transpose(w) a = Add(g, x) y = MatMul(a, t)"
    yield nodes, {"w": square, **rows}, ["Reshape", "GatherBlockQuantized", "Add", "MatMulNBits"]
    nodes = "g = Gather(w, i) a = Add(g, x) y = MatMul(a, w)"
    yield nodes, {"w": square, **rows}, ["GatherBlockQuantized", "Add", "MatMulNBits"]


def check_packed(folder):
    """Gemm, Gather and shared weights give nearly what they give of floats, at each level of optimization."""
    rng, count = np.random.default_rng(9), 0
    source, packed = folder / "source.onnx", folder / "packed.onnx"
    for nodes, initializers, want_operators in list(packed_cases(rng)):
        onnx.save(model(f"(float[5,64] x) => (float[] y) {{ {nodes} }}", opset=17, **initializers), source)
        feeds = {"x": rng.standard_normal((5, 64)).astype(np.float32)}
        (want,) = outputs(source, feeds)
        for to, limit in (("int8", 0.02), ("int4", 0.15), ("int4/16", 0.12)):
            for options in ([], ["--zero-points"]):
                command("quantize", source, packed, "--to", to, "--form", "matmulnbits", *options)
                found = [node.op_type for node in onnx.load(packed).graph.node]
                if found != want_operators:
                    fail(f"{nodes} to {to}: {found}, want {want_operators}")
                for level in LEVELS:
                    (got,) = outputs(packed, feeds, level)
                    if not (off := np.abs(got - want).max() / np.abs(want).max()) <= limit:
                        fail(f"{nodes} to {to} {options}, {level}: off by {off:.3g} of the largest output")
                count += 1
    print(f"  packed weights of Gemm, Gather and several readers: {count} models")


def dynamic_cases(rng):
    """Models whose weights all have a counterpart for integers: the nodes, inputs, weights and other initializers."""
    square, long = weight(rng, 48, 48, axis=1), weight(rng, 64, 48, axis=1)
    bias, x = rng.standard_normal(48).astype(np.float32), {"x": [5, 64]}
    yield "MatMul", "y = MatMul(x, w)", x, {"w": long}, {}
    yield "MatMul of matrices", "y = MatMul(x, w)", {"x": [3, 5, 24]}, {"w": weight(rng, 3, 24, 40, axis=2)}, {}
    yield "Gemm", "y = Gemm(x, w, b)", x, {"w": long}, {"b": bias}
    yield "Gemm, transB", "y = Gemm<transB=1>(x, w, b)", x, {"w": long.T.copy()}, {"b": bias[:1]}
    yield "behind a Transpose", "t = Transpose(w) i = Identity(t) y = MatMul(x, i)", x, {"w": long.T.copy()}, {}
    nodes = "a = MatMul(x, w) i = Identity(w) b = MatMul(x, i) c = MatMul(b, v) y = Sub(c, a)"
    yield "shared", nodes, x, {"w": long, "v": square}, {}
    nodes = "a = MatMul(x, w) y = If(c) <then_branch = g () => (float[] p) { p = MatMul(x, v) }, "
    nodes += "else_branch = h () => (float[] q) { q = Add(a, a) }>"
    yield "in a branch", nodes, x, {"w": long, "v": long[:, ::-1].copy()}, {"c": np.array(True)}
    image, kernel = {"x": [2, 24, 9, 9]}, weight(rng, 32, 24, 3, 3, axis=0)
    yield "Conv", "y = Conv<pads=[1, 1, 1, 1], strides=[2, 2]>(x, w, b)", image, {"w": kernel}, {"b": bias[:32]}
    yield "Conv by channel", "y = Conv<group=24>(x, w)", image, {"w": weight(rng, 24, 1, 5, 5, axis=0)}, {}
    yield "Conv of one axis", 'y = Conv<auto_pad="SAME_UPPER">(x, w, b)', {"x": [2, 24, 9]}, {
        "w": kernel[..., 0].copy()
    }, {"b": bias[:32]}  # fmt: skip
    table = {"w": weight(rng, 96, 32, axis=0)}
    yield "Gather", "g = Gather(w, i) y = Add(g, x)", {"x": [3, 32]}, table, {"i": np.array([2, -1, 50])}
    nodes = "g = Gather(w, i) a = Add(g, x) t = Transpose(w) y = MatMul(a, t)"
    yield "a tied table", nodes, {"x": [3, 32]}, table, {"i": np.array([2, -1, 50])}
    for direction, count in (("forward", 1), ("bidirectional", 2)):
        w, r = (weight(rng, count, 96, size, axis=1) / 8 for size in (40, 24))
        lstm = f'<hidden_size=24, direction="{direction}">'
        nodes = f"y, h = LSTM{lstm}(x, w, r, b)"
        yield f"LSTM, {direction}", nodes, {"x": [6, 2, 40]}, {"w": w, "r": r}, {"b": weight(rng, count, 192)}


# What quantize_dynamic writes as the command does, by what has a scale. It fails on weights behind an Identity, leaves
# those behind a Transpose float, has no scale for each row of Gemm and Conv, and zero points for the rows of Gather.
SAME = {
    "tensor": ["MatMul", "MatMul of matrices", "Gemm", "Gemm, transB", "in a branch", "Conv", "Conv by channel"],
    "row": ["MatMul", "LSTM, bidirectional", "LSTM, forward"],
}
SAME["tensor"] += ["Conv of one axis", "LSTM, bidirectional", "LSTM, forward"]


def check_dynamic(folder):
    """The form dynamic gives what onnxruntime's quantize_dynamic gives, and nearly what the float model gives."""
    logging.disable(logging.WARNING)
    rng, counts = np.random.default_rng(11), [0, 0]
    source, ours, theirs = folder / "source.onnx", folder / "ours.onnx", folder / "theirs.onnx"
    for name, nodes, inputs, weights, others in list(dynamic_cases(rng)):
        declared = ", ".join(f"float[{','.join(map(str, shape))}] {one}" for one, shape in inputs.items())
        opset = 9 if name in ("Conv", "Gemm, transB") else 17
        onnx.save(model(f"({declared}) => (float[] y) {{ {nodes} }}", opset=opset, **weights, **others), source)
        feeds = {one: (rng.standard_normal(shape) + 0.5).astype(np.float32) for one, shape in inputs.items()}
        (want,) = outputs(source, feeds)
        for granularity, reduced, limit in (("tensor", [], 0.04), ("row", [], 0.03), ("row", ["--reduce-range"], 0.04)):
            case = " ".join([f"{name}, a scale for each {granularity}", *reduced])
            options = ["--form", "dynamic", "--min-elements", "1", "--raise-opset", *reduced]
            command("quantize", source, ours, "--to", f"int8/{granularity}", *options)
            made = onnx.load(ours)
            onnx.shape_inference.infer_shapes(made, check_type=True, strict_mode=True)
            if kept := [one.name for one in made.graph.initializer if one.name in weights]:
                fail(f"{case}: {kept} are kept")
            # Unless the range is reduced, or with this, which takes effect from the level extended on, processors
            # without VNNI saturate the sum of two products.
            entries = {} if reduced else {"x64quantprecision": "1"}
            results = [session(ours, level, **entries).run(None, feeds)[0] for level in LEVELS]
            exact = [*results] if reduced else results[2:]
            if not any(node.domain for node in every_node(made)):
                exact.append(ReferenceEvaluator(made).run(None, feeds)[0])
            for got in exact:
                if not (off := np.abs(got - want).max() / np.abs(want).max()) <= limit:
                    fail(f"{case}: off by {off:.3g} of the largest output")
            counts[0] += 1
            if name not in SAME[granularity]:
                continue
            by_row, subgraphs = granularity == "row", {"EnableSubgraph": True}
            quantize_dynamic(source, theirs, per_channel=by_row, reduce_range=bool(reduced), extra_options=subgraphs)
            for level, got in zip(LEVELS, results, strict=True):
                (peer,) = session(theirs, level, **entries).run(None, feeds)
                if bits(got) != bits(peer):
                    fail(f"{case}, {level}: off by {np.abs(got - peer).max()} from onnxruntime's quantize_dynamic")
            counts[1] += 1
    print(f"  the form dynamic: {counts[0]} models, {counts[1]} with the bits that quantize_dynamic's models give")


def fusion_cases(rng):
    """Models whose products onnxruntime fuses with DequantizeLinear, or does not."""

    def values(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    w, b, x = values(64, 64), values(64), {"x": [5, 64]}
    for nodes in ("MatMul(x, w)", "Gemm(x, w)", "Gemm<transB=1>(x, w)", "Gemm<alpha=2.0>(x, w)", "Gemm<transA=1>(x, w)"):
        yield f"y = {nodes}", x if "transA" not in nodes else {"x": [64, 5]}, {"w": w}
    yield "y = MatMul(w, x)", {"x": [64, 5]}, {"w": w}
    yield "y = MatMul(x, w)", {"x": [2, 5, 70]}, {"w": values(70, 33)}
    yield "y = MatMul(x, w)", {"x": [2, 5, 64]}, {"w": values(2, 64, 33)}
    yield "i = Identity(w) y = Gemm(x, i, b)", x, {"w": w, "b": b}
    yield "y = Gemm(x, w, b)", x, {"w": w, "b": b[:1]}
    yield "y = Gemm<beta=2.0>(x, w, b)", x, {"w": w, "b": b}
    for bias in (b, b[:1], b[None]):
        yield "a = MatMul(x, w) y = Add(a, b)", x, {"w": w, "b": bias}
        yield "a = MatMul(x, w) c = Add(b, a) r = Relu(c) y = Neg(r)", x, {"w": w, "b": bias}
        yield "a = MatMul(x, w) c = Add(a, b) r = Relu(c) y = Neg(r)", {"x": [2, 5, 64]}, {"w": w, "b": bias}
    for nodes in ("r = Relu(a) y = Neg(r)", "y = Relu(a)", "r = Relu(a) y = Add(r, r)", "r = Gelu(a) y = Neg(r)"):
        yield f"a = MatMul(x, w) {nodes}", x, {"w": w}
        yield f"a = Gemm(x, w, b) {nodes}", x, {"w": w, "b": b}
        yield f"a = own.Product(x, w) {nodes}", x, {"w": w}
    layers = {f"w{index}": values(64, 64) for index in range(3)}
    yield "a = MatMul(x, w0) r = Relu(a) b = MatMul(r, w1) c = Add(b, r) y = MatMul(c, w2)", x, layers
    yield "c = Neg(b) y = Gemm(x, w, c)", x, {"w": w, "b": b}
    yield "t = Transpose(w) y = MatMul(x, t)", x, {"w": w}
    yield "i = Identity(w) c = Cast<to=1>(i) y = MatMul(x, c)", x, {"w": w}
    yield "a = MatMul(x, w) y = MatMul(a, w)", x, {"w": w}
    yield "a = MatMul(x, w) b = Add(w, w) y = MatMul(a, b)", x, {"w": w}
    yield "y = own.Product(x, w)", x, {"w": w}
    yield "a = own.Product(x, w) y = own.Product(a, v)", x, {"w": w, "v": values(64, 64)}
    yield "y = Conv(x, w)", {"x": [1, 64, 9, 9]}, {"w": values(32, 64, 3, 3)}
    yield "y = ConvTranspose(x, w)", {"x": [1, 32, 9, 9]}, {"w": values(32, 64, 3, 3)}
    yield "y, h = LSTM<hidden_size=24>(x, w, r)", {"x": [6, 2, 40]}, {"w": values(1, 96, 40), "r": values(1, 96, 24)}
    yield "g = Gather(w, i) y = MatMul(g, v)", {"x": [1]}, {"w": w, "v": values(64, 64), "i": np.array([1, 2])}


def check_fusions(folder):
    """The command says how many products onnxruntime fuses, and it fuses as many."""
    product = '<domain: "own", opset_import: ["" : 21]> Product (a, b) => (c) { c = MatMul(a, b) }'
    source, quantized, optimized = folder / "source.onnx", folder / "quantized.onnx", folder / "optimized.onnx"
    count = 0
    for nodes, inputs, initializers in list(fusion_cases(np.random.default_rng(5))):
        for to in ("int8", "int8/tensor", "int4", "int4/row", "float8e4m3fn", "float16"):
            of_type = "float16" if to == "float16" else "float"
            if of_type == "float16":
                narrow = {name: one.astype(np.float16) if one.dtype == np.float32 else one for name, one in initializers.items()}
                arrays, to, nodes = narrow, "int4", nodes.replace("to=1", "to=10")
            else:
                arrays = initializers
            declared = ", ".join(f"{of_type}[{','.join(map(str, shape))}] {one}" for one, shape in inputs.items())
            text = f"({declared}) => ({of_type}[] y) {{ {nodes} }}"
            onnx.save(model(text, opset=21, ir=10, domains=["own"], functions=product, **arrays), source)
            done = command("quantize", source, quantized, "--to", to, "--include", "*")
            said = re.search(r"onnxruntime 1\.31 fuses (\d+) of (\d+) products", done.stderr)
            options = onnxruntime.SessionOptions()
            options.optimized_model_filepath = str(optimized)
            options.log_severity_level = 4
            onnxruntime.InferenceSession(quantized, options, providers=["CPUExecutionProvider"])
            found = [node.op_type for node in every_node(onnx.load(optimized))]
            fused, stay = found.count("MatMulNBits"), found.count("DequantizeLinear")
            # Nothing is said if it fuses all of them.
            if bool(said) != (stay > 0) or said and int(said[1]) != fused:
                fail(f"{nodes} of {of_type} to {to}: onnxruntime fuses {fused}, {stay} stay: {done.stderr}")
            count += 1
    print(f"  what onnxruntime fuses is told of {count} models")


def check_quantized(folder):
    check_reach(folder)
    check_bits(folder)
    check_packed(folder)
    check_dynamic(folder)
    check_fusions(folder)
