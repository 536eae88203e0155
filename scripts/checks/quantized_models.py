"""Do quantized models run in onnxruntime, and are the bits of MatMulNBits those of its own quantizer?

`models.py` runs this.
"""

import subprocess

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi._pybind_state import quantize_matmul_4bits, quantize_matmul_8bits
from shared import line

FLOAT, FLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16


def fail(text):
    raise SystemExit(f"quantized models: {text}")


def command(*arguments):
    done = subprocess.run(line(*arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        fail(f"onnx-cast {' '.join(map(str, arguments))}: status {done.returncode}: {done.stderr}")
    return done


def outputs(path, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feeds)


def weight(rng, *shape, axis=0):
    """Weights whose magnitudes differ along an axis by far more than int8 has: with scales along another axis all of the
    small ones are 0."""
    sizes = [1] * len(shape)
    sizes[axis] = shape[axis]
    return (rng.standard_normal(shape) * np.logspace(-4, 0, shape[axis]).reshape(sizes)).astype(np.float32)


def build(nodes, inputs, shapes, initializers, functions=(), imports=()):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "graph", [value(name, FLOAT, shape) for name, shape in inputs.items()],
                              [value(name, FLOAT, None) for name in shapes],
                              [numpy_helper.from_array(array, name) for name, array in initializers.items()])
    imports = [helper.make_opsetid("", 21), *imports]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def reach_cases(rng):
    """Models, each with weights that a plain look for right operands of MatMul would miss: the nodes, the inputs, the
    weights that are found and initializers that are not."""
    node = helper.make_node
    constant = lambda name, array: node("Constant", [], [name], value=numpy_helper.from_array(array))
    right, left = weight(rng, 64, 48, axis=1), weight(rng, 48, 64, axis=0)
    yield "Constant nodes", [constant("w", right), node("MatMul", ["x", "w"], ["y"])], {"x": [5, 64]}, {"w"}, {}
    yield "left operands", [node("MatMul", ["w", "x"], ["y"])], {"x": [64, 5]}, {"w"}, {"w": left}
    nodes = [node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])]
    yield "behind a Transpose", nodes, {"x": [5, 64]}, {"w"}, {"w": left}
    batch = weight(rng, 48, 2, 64, axis=0)
    nodes = [node("Transpose", ["w"], ["t"], perm=[1, 2, 0]), node("Identity", ["t"], ["i"]), node("MatMul", ["x", "i"], ["y"])]
    yield "behind a Transpose of three axes", nodes, {"x": [2, 5, 64]}, {"w"}, {"w": batch}
    yield "Gemm's left operand", [node("Gemm", ["w", "x"], ["y"], transA=1)], {"x": [64, 5]}, {"w"}, {"w": right}
    kernel = weight(rng, 24, 32, 3, 3, axis=1)
    yield "ConvTranspose", [node("ConvTranspose", ["x", "w"], ["y"])], {"x": [1, 24, 6, 6]}, {"w"}, {"w": kernel}
    table = weight(rng, 96, 32, axis=0)
    nodes = [node("Gather", ["w", "i"], ["g"]), node("Add", ["g", "x"], ["y"])]
    yield "Gather", nodes, {"x": [3, 32]}, {"w"}, {"w": table, "i": np.array([2, 95, 50])}
    for operator, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        w, r = weight(rng, 1, gates * 24, 40, axis=1) / 8, weight(rng, 1, gates * 24, 24, axis=1) / 8
        nodes = [node(operator, ["x", "w", "r"], ["y"], hidden_size=24)]
        yield operator, nodes, {"x": [6, 2, 40]}, {"w", "r"}, {"w": w, "r": r}


def check_reach(folder):
    """Weights are found wherever operators read them, and have scales along the right axis."""
    rng = np.random.default_rng(7)
    cases = [(name, build(nodes, inputs, ["y"], initializers), inputs, found)
             for name, nodes, inputs, found, initializers in reach_cases(rng)]
    inner = helper.make_function("own", "Linear", ["a", "b"], ["c"], [helper.make_node("MatMul", ["a", "b"], ["c"])],
                                 [helper.make_opsetid("", 21)])
    outer = helper.make_function("own", "Twice", ["a", "b"], ["c"], [helper.make_node("Linear", ["a", "b"], ["c"], domain="own")],
                                 [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)])
    held = weight(rng, 48, 40, axis=1)
    body = [helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(held)), helper.make_node("MatMul", ["a", "k"], ["c"])]
    within = helper.make_function("own", "Held", ["a"], ["c"], body, [helper.make_opsetid("", 21)])
    nodes = [helper.make_node("Twice", ["x", "w"], ["h"], domain="own"), helper.make_node("Held", ["h"], ["y"], domain="own")]
    made = build(nodes, {"x": [5, 64]}, ["y"], {"w": weight(rng, 64, 48, axis=1)}, [inner, outer, within], [helper.make_opsetid("own", 1)])
    cases.append(("functions", made, {"x": [5, 64]}, {"w", "k"}))
    source, quantized = folder / "source.onnx", folder / "quantized.onnx"
    for name, made, inputs, found in cases:
        onnx.save(made, source)
        feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in inputs.items()}
        want = outputs(source, feeds)[0]
        for to in ("int8", "int4", "float8e4m3fn"):
            command("quantize", source, quantized, "--to", to)
            model = onnx.load(quantized)
            count = sum(node.op_type == "DequantizeLinear" for graph in [model.graph, *model.functions] for node in graph.node)
            if count != len(found):
                fail(f"{name}, {to}: {count} weights are quantized, want {sorted(found)}")
            got = outputs(quantized, feeds)[0]
            # The error beside each output's own size: outputs of small weights must be as exact as the others.
            axes = {"left operands": 1, "Gemm's left operand": 1}.get(name, None)
            size = np.abs(want).reshape(-1, want.shape[-1]).max(0) if axes is None else np.abs(want).max(1, keepdims=True)
            gap = (np.abs(got - want) / np.maximum(size, 1e-12)).max()
            limit = {"int8": 0.06, "int4": 0.6, "float8e4m3fn": 0.15}[to]
            if name not in ("ConvTranspose", "Gather", "LSTM", "GRU", "RNN", "functions") and gap > limit:
                fail(f"{name}, {to}: off by {gap} of an output's size")
            whole = np.abs(got - want).max() / np.abs(want).max()
            if whole > limit:
                fail(f"{name}, {to}: off by {whole} of the largest output")
    print(f"  weights of {len(cases)} kinds of graphs found and quantized")


def theirs(w, block, bits, is_symmetric):
    """The tensors that onnxruntime's MatMulNBitsQuantizer makes, by the functions that it calls: elements, scales and zero
    points."""
    rows, columns = w.shape
    blocks, pack = -(-rows // block), 8 // bits
    padded = np.pad(w, ((0, blocks * block - rows), (0, 0)))
    elements = np.zeros((columns, blocks, block // pack), np.uint8)
    scales = np.zeros((columns, blocks), w.dtype)
    zero_points = np.zeros((columns, -(-blocks // pack)), np.uint8)
    quantize = quantize_matmul_4bits if bits == 4 else quantize_matmul_8bits
    quantize(elements, padded, scales, zero_points, block, columns, rows, is_symmetric)
    return [elements, scales] if is_symmetric else [elements, scales, zero_points]


def product(initializers, nodes, data_type, rows, columns, opset=21):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "graph", [value("x", data_type, [2, rows])], [value("y", data_type, [2, columns])],
                              [numpy_helper.from_array(array, name) for name, array in initializers.items()])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def check_bits(folder):
    """The tensors of MatMulNBits are, bit for bit, those that onnxruntime's own quantizer makes."""
    rng = np.random.default_rng(3)
    node = helper.make_node
    source, ours, made = folder / "source.onnx", folder / "ours.onnx", folder / "made.onnx"
    compared = 0
    for dtype, data_type in ((np.float32, FLOAT), (np.float16, FLOAT16)):
        for rows, columns, block in ((64, 48, 32), (5120, 96, 32), (100, 33, 16), (4096, 7, 128), (18432, 5, 256), (48, 300, 64)):
            w = rng.standard_normal((rows, columns)) * np.logspace(-3, 1, columns)
            w[:, 0] = 0
            w[: rows // 2, 1] = -np.abs(w[: rows // 2, 1])
            w = w.astype(dtype)
            x = rng.standard_normal((2, rows)).astype(dtype)
            plain = product({"w": w}, [node("MatMul", ["x", "w"], ["y"], name="product")], data_type, rows, columns)
            nodes = [node("Transpose", ["w"], ["t"]), node("MatMul", ["x", "t"], ["y"], name="product")]
            turned = product({"w": np.ascontiguousarray(w.T)}, nodes, data_type, rows, columns)
            for bits, is_symmetric in ((4, True), (4, False), (8, True), (8, False)):
                case = f"{rows}x{columns} {np.dtype(dtype)} in {block}, {bits} bits, symmetric: {is_symmetric}"
                want = theirs(w, block, bits, is_symmetric)
                names = ["elements", "scales", "zero points"][: len(want)]
                attributes = {"K": rows, "N": columns, "bits": bits, "block_size": block, "accuracy_level": 4}
                wanted = node("MatMulNBits", ["x", *names], ["y"], domain="com.microsoft", **attributes)
                onnx.save(product(dict(zip(names, want)), [wanted], data_type, rows, columns), made)
                for model in (plain, turned):
                    onnx.save(model, source)
                    options = ["--form", "matmulnbits", "--min-elements", "1"]
                    options += [] if is_symmetric else ["--zero-points"]
                    command("quantize", source, ours, "--to", f"int{bits}/{block}", *options)
                    got = onnx.load(ours)
                    [one] = got.graph.node
                    found = {attribute.name: attribute.i for attribute in one.attribute}
                    if (one.op_type, one.domain, one.name, found) != ("MatMulNBits", "com.microsoft", "product", attributes):
                        fail(f"{case}: {one}")
                    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in got.graph.initializer}
                    for name, mine, their in zip(names, [known[name] for name in one.input[1:]], want, strict=True):
                        if (mine.dtype, mine.shape) != (their.dtype, their.shape) or mine.tobytes() != their.tobytes():
                            fail(f"{case}: {name} differ: {mine.dtype}{mine.shape}, want {their.dtype}{their.shape}")
                    compared += 1
                if outputs(ours, {"x": x})[0].tobytes() != outputs(made, {"x": x})[0].tobytes():
                    fail(f"{case}: another result than with onnxruntime's tensors")
    print(f"  MatMulNBits: {compared} models have the bits of onnxruntime's own quantizer")


def check_quantized(folder):
    check_reach(folder)
    check_bits(folder)
