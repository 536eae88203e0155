#!/usr/bin/env python3
"""What a quantized model costs in onnxruntime, by the forms that the command writes, beside the float model and what
onnxruntime's own `quantize_dynamic` writes: milliseconds of the processor, one thread, medians of rounds in turn. In
brackets the largest error beside the largest output of the float model, with `session.x64quantprecision`, without which
processors that lack VNNI saturate.

    .venv/bin/python bench/quantized_models.py target/release/onnx-cast
"""

import logging
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from harness import about, in_turn, table
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic

ROUNDS = 15
FORMS = {
    "int8": ["--to", "int8"],
    "int4": ["--to", "int4"],
    "int8, matmulnbits": ["--to", "int8", "--form", "matmulnbits"],
    "int4, matmulnbits": ["--to", "int4", "--form", "matmulnbits"],
    "int8/tensor, dynamic": ["--to", "int8/tensor", "--form", "dynamic"],
    "int8, dynamic": ["--to", "int8", "--form", "dynamic"],
}


def model(nodes, feeds, **weights):
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
        for name, one in feeds.items()
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    constants = [numpy_helper.from_array(one, name) for name, one in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), feeds


def models():
    rng = np.random.default_rng(0)

    def values(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    node = helper.make_node
    layers = {f"w{index}": values(2048, 2048) / 45 for index in range(4)}
    for rows in (1, 32):
        nodes, value = [], "x"
        for index, weight in enumerate(layers):
            nodes += [node("MatMul", [value, weight], [f"m{index}"]), node("Relu", [f"m{index}"], [f"r{index}"])]
            value = f"r{index}"
        nodes[-1].output[0] = "y"
        yield f"4 MatMul of 2048x2048, {rows} rows", *model(nodes, {"x": values(rows, 2048)}, **layers)
    gemm = node("Gemm", ["x", "w", "b"], ["y"], transB=1)
    yield "Gemm with transB, 2048x2048", *model([gemm], {"x": values(1, 2048)}, w=values(2048, 2048), b=values(2048))
    conv = node("Conv", ["x", "w"], ["y"], pads=[1] * 4)
    yield "Conv, 256x256x3x3 on 14x14", *model([conv], {"x": values(1, 256, 14, 14)}, w=values(256, 256, 3, 3))
    lstm = node("LSTM", ["x", "w", "r"], ["y"], hidden_size=512)
    weights = {"w": values(1, 2048, 512) / 22, "r": values(1, 2048, 512) / 22}
    yield "LSTM of 512, 20 steps", *model([lstm], {"x": values(20, 1, 512)}, **weights)
    gather = node("Gather", ["w", "i"], ["y"])
    yield "Gather of 32000x512, 8 rows", *model([gather], {"i": np.arange(8)}, w=values(32000, 512))


def session(path, **entries):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    for key, value in entries.items():
        options.add_session_config_entry(f"session.{key}", value)
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def milliseconds(work):
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def main():
    logging.disable(logging.WARNING)
    command, rows = Path(sys.argv[1]).resolve(), []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for name, made, feeds in models():
            paths = {"float": folder / "float.onnx", "quantize_dynamic": folder / "theirs.onnx"}
            onnx.save(made, paths["float"])
            quantize_dynamic(paths["float"], paths["quantize_dynamic"])
            for form, options in FORMS.items():
                line = [command, "quantize", paths["float"], folder / f"{len(paths)}.onnx", *options, "--include", "*"]
                if subprocess.run([*line, "--force"], capture_output=True).returncode == 0:
                    paths[form] = line[3]
            sessions = {form: session(path) for form, path in paths.items()}
            works = {form: lambda one=one: one.run(None, feeds) for form, one in sessions.items()}
            taken = in_turn(works, ROUNDS, milliseconds)
            (want,) = sessions["float"].run(None, feeds)
            row = [name]
            for form in ("float", "quantize_dynamic", *FORMS):
                if form not in paths:
                    row.append("none")
                    continue
                # With it onnxruntime 1.31 stops at a DequantizeLinear with scales for an axis.
                precise = {"x64quantprecision": "1"} if "dynamic" in form else {}
                (got,) = session(paths[form], **precise).run(None, feeds)
                error = np.abs(got - want).max() / np.abs(want).max()
                row.append(f"{taken[form]:.2f}" + (f" ({error:.4f})" if form != "float" else ""))
            rows.append(row)
    print(about("bench/quantized_models.py", onnxruntime=onnxruntime.__version__), "")
    print(*table(["", "float", "quantize_dynamic", *FORMS], rows), sep="\n")


if __name__ == "__main__":
    main()
