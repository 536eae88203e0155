"""Models for the checks: written in ONNX's own text (docs/Syntax.md of onnx), with `to=float16` for the number of a
type; real ones of packages; and sessions of onnxruntime."""

import re
import sysconfig
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper, parser

SITE = Path(sysconfig.get_path("purelib"))
MAGIKA = SITE / "magika" / "models" / "standard_v3_3" / "model.onnx"
NUDENET = SITE / "nudenet" / "320n.onnx"
LIGHT = SITE / "onnx" / "backend" / "test" / "data" / "light"
LEVELS = [
    getattr(onnxruntime.GraphOptimizationLevel, f"ORT_{name}")
    for name in ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_EXTENDED", "ENABLE_ALL")
]
TYPE = re.compile(r"(?<==)\s*(?:b?float\d\w*|float|double|u?int\d+|bool|string)(?=[,>])")


def model(text, /, opset=17, ir=8, domains=(), functions="", **initializers):
    """A model: the text of its graph and of functions, and initializers, arrays by name."""
    imports = ", ".join(f'"{domain}" : {version}' for domain, version in [("", opset), *((one, 1) for one in domains)])
    text = f"<ir_version: {ir}, opset_import: [{imports}]> graph {text} {functions}"
    made = parser.parse_model(TYPE.sub(lambda found: str(TensorProto.DataType.Value(found[0].upper())), text))
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in initializers.items()]
    made.graph.initializer.extend(constants)
    return made


def with_feeds(text, /, defaults=(), **arguments):
    """A model, and its inputs: the arrays with their names, but for `defaults`, which are initializers too."""
    arrays = {name: one for name, one in arguments.items() if isinstance(one, (np.ndarray, np.generic))}
    settings = {name: one for name, one in arguments.items() if name not in arrays}
    made = model(text, **settings)
    inputs = {one.name for one in made.graph.input} - {*defaults}
    constants = [numpy_helper.from_array(np.asarray(one), name) for name, one in arrays.items() if name not in inputs]
    made.graph.initializer.extend(constants)
    return made, {name: one for name, one in arrays.items() if name in inputs}


def literal(array, name=""):
    """An array as text: `float[2] name = {1.0, 2.0}`, or without the name, as attributes have it."""
    array = np.asarray(array)
    data_type = TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(array.dtype)).lower()
    values = ", ".join(map(repr, array.ravel().tolist()))
    return f"{data_type}[{','.join(map(str, array.shape))}] {name + ' = ' if name else ''}{{{values}}}"


def every_node(model):
    """The nodes of a model's graph, of those within it, and of its functions."""

    def within(nodes):
        for node in nodes:
            yield node
            for attribute in node.attribute:
                yield from within(attribute.g.node)

    for body in (model.graph, *model.functions):
        yield from within(body.node)


def session(model, level=LEVELS[-1], **entries):
    """onnxruntime's session of a model, or of the path of one. One thread has one order of additions, so that equal
    models give equal bits."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads, options.graph_optimization_level = 4, 1, level
    for key, value in entries.items():
        options.add_session_config_entry(f"session.{key}", value)
    content = model.SerializeToString() if isinstance(model, onnx.ModelProto) else model
    content = content if isinstance(content, bytes) else str(content)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def outputs(model, feeds, level=LEVELS[-1]):
    return session(model, level).run(None, feeds)


def bits(value):
    """What two equal values have in common: type, shape and bytes, of lists one by one."""
    if value is None or isinstance(value, (list, tuple)):
        return value and [bits(one) for one in value]
    value = np.asarray(value)
    return value.dtype, value.shape, value.tolist() if value.dtype == object else value.tobytes()


def distance(want, got, least=1e-30):
    """How far results are from others, in parts of the largest magnitude of each, which is at least this."""
    worst = 0.0
    for one, other in zip(want, got, strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        if one.size:
            gap = np.abs(one - other).max() / max(np.abs(one).max(), least)
            worst = max(worst, gap if np.isfinite(gap) else np.inf)
    return worst


def light(name):
    """A light model of onnx, and random inputs."""
    path = LIGHT / f"light_{name}.onnx"
    graph = onnx.load(path).graph
    (one,) = (one for one in graph.input if one.name not in {tensor.name for tensor in graph.initializer})
    shape = [dim.dim_value for dim in one.type.tensor_type.shape.dim]
    return path, {one.name: np.random.default_rng(3).random(shape, dtype=np.float32)}


def real_inputs():
    """Inputs of magika and nudenet."""
    rng = np.random.default_rng(1)
    text = rng.integers(0, 257, (2, 2048)).astype(np.int32)
    return {MAGIKA: {"bytes": text}, NUDENET: {"images": rng.random((1, 3, 320, 320), dtype=np.float32)}}
