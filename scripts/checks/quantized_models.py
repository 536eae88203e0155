"""Do quantized models run in onnxruntime, and are the bits of MatMulNBits those of its own quantizer?

`models.py` runs this.
"""

import numpy as np
import onnx
from graphs import literal, model, outputs
from onnx import helper, numpy_helper
from onnxruntime.capi._pybind_state import quantize_matmul_4bits, quantize_matmul_8bits
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
            command("quantize", source, quantized, "--to", to)
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
            for bits, is_symmetric in ((4, True), (4, False), (8, True), (8, False)):
                case = f"{rows}x{columns} {np.dtype(dtype)} in {block}, {bits} bits, symmetric: {is_symmetric}"
                want = dict(zip(["elements", "scales", "zeros"], theirs(w, block, bits, is_symmetric)))
                attributes = {"K": rows, "N": columns, "bits": bits, "block_size": block, "accuracy_level": 4}
                given = ", ".join(f"{name}={value}" for name, value in attributes.items())
                onnx.save(product(f"y = com.microsoft.MatMulNBits<{given}>({', '.join(['x', *want])})", **want), made)
                options = ["--form", "matmulnbits", "--min-elements", "1", *([] if is_symmetric else ["--zero-points"])]
                for one in (plain, turned):
                    onnx.save(one, source)
                    command("quantize", source, ours, "--to", f"int{bits}/{block}", *options)
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


def check_quantized(folder):
    check_reach(folder)
    check_bits(folder)
