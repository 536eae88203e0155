#!/usr/bin/env python3
"""Does `info --types` give every value the type that ONNX's own inference gives it?

Takes all node tests of the onnx package, its light models, and generated ones with functions, If, Loop, Scan,
SequenceMap, sequences, optionals, strings and operators of ai.onnx.ml. The command is given each model with all declared
types taken out but for those of the main graph's inputs (and once as it is), so that it cannot copy the answers. What
`onnx.shape_inference` finds in the complete model, and what that declares, must be equal.

    python3 scripts/checks/value_types.py [COMMAND] [--since=OPSET]

With --since, only models of that opset or a newer one are taken from the package, which is enough where the others are tested
by another version of it.
"""

import collections
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import onnx
from onnx import AttributeProto, TensorProto, helper
from onnx.backend.test.case.node import collect_testcases
from shared import COMMAND, in_processes

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
FLOAT, HALF, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64
BOOL, STRING, DOUBLE = TensorProto.BOOL, TensorProto.STRING, TensorProto.DOUBLE
# Domains whose schemas the command has. Outputs of other operators have the types that are declared.
KNOWN = {"", "ai.onnx", "ai.onnx.ml", "com.microsoft"}


def element(number):
    return TensorProto.DataType.Name(number).lower() if number else None


def spelled(of_type):
    """A TypeProto as the command prints it; None where it is not complete."""
    kind = of_type.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        name = element(getattr(of_type, kind).elem_type)
        return f"sparse({name})" if name and kind == "sparse_tensor_type" else name
    if kind in ("sequence_type", "optional_type"):
        inner = spelled(getattr(of_type, kind).elem_type)
        return inner and f"{kind.removesuffix('_type')}({inner})"
    if kind == "map_type":
        key, value = element(of_type.map_type.key_type), spelled(of_type.map_type.value_type)
        return key and value and f"map({key},{value})"
    return None


def graphs(graph, path=""):
    """Every graph with its path, as the command spells that."""
    yield path, graph
    for index, node in enumerate(graph.node):
        name = node.name or f"{node.op_type}_{index}"
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs
            for place, one in enumerate(inner):
                number = f"[{place}]" if len(inner) > 1 else ""
                inside = f"{name[:128]}/{attribute.name[:128]}{number}"
                yield from graphs(one, f"{path}/{inside}" if path else inside)


def onnx_types(model):
    """What onnx infers and the model declares: by graph and name."""
    inferred = onnx.shape_inference.infer_shapes(model)
    found = {}
    for path, graph in graphs(inferred.graph):
        given = {name for node in graph.node for name in node.output}
        # An input of a body is what is handed in; declared types of it may be others.
        values = [*graph.value_info, *graph.output, *([] if path else graph.input)]
        initializers = {one.name for one in graph.initializer}
        for value in values:
            of_type = spelled(value.type)
            here = value.name in given or not path and value.name not in initializers
            if of_type and here:
                found[path, value.name] = of_type
        for one in graph.initializer:
            found[path, one.name] = element(one.data_type)
    return found


def stripped(model):
    """The model without declared types, but for the inputs of the main graph."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for path, graph in graphs(bare.graph):
        del graph.value_info[:]
        for value in [*graph.output, *(graph.input if path else [])]:
            value.ClearField("type")
    return bare


def command_types(command, path):
    done = subprocess.run([command, "info", path, "--types", "--json"], capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip()
    rows = json.loads(done.stdout)["model"]["types"]
    return {(row["graph"], row["name"]): row["type"] for row in rows}, None


def knows_all(model):
    nodes = (node for _, graph in graphs(model.graph) for node in graph.node)
    return all(node.domain in KNOWN or any(node.domain == one.domain for one in model.functions) for node in nodes)


def compare(command, folder, name, model, counts, wanted=None):
    """Problems of one model; a generated one also has types that it must have."""
    want = {**onnx_types(model), **(wanted or {})}
    problems = []
    for kind, one in [("bare", stripped(model) if knows_all(model) else None), ("declared", model)]:
        if one is None:
            continue
        path = folder / f"{name}.{kind}.onnx"
        onnx.save(one, path)
        got, error = command_types(command, path)
        path.unlink()
        if error:
            problems.append(f"{name} ({kind}): {error}")
            continue
        for (graph, value), of_type in want.items():
            counts[kind] += 1
            if got.get((graph, value), "no such value") != of_type:
                problems.append(f"{name} ({kind}): `{value}` in `{graph}` is {got.get((graph, value), 'missing')}, "
                                f"want {of_type}")
        counts["unknown"] += sum(1 for key, of_type in got.items() if of_type is None)
    return problems


def packaged(share):
    """A share of the models of the onnx package. One that comes without the files of its node tests makes them."""
    for path in (sorted(DATA.glob("*/*/model.onnx")) + sorted(DATA.glob("light/*.onnx")))[share::SHARES]:
        # Scan-8 is not known: its opset cannot be raised.
        if path.parent.name != "test_scan_sum":
            yield f"{path.parent.parent.name}-{path.parent.name}-{path.stem}", onnx.load(path)
    for case in CASES[share::SHARES]:
        yield case.name, case.model


def collected():
    """The node tests of a package that comes without their files."""
    if (DATA / "node").is_dir():
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)


def value(name, of_type=None, shape=None):
    if of_type is None:
        return onnx.ValueInfoProto(name=name)
    if isinstance(of_type, onnx.TypeProto):
        return helper.make_value_info(name, of_type)
    return helper.make_tensor_value_info(name, of_type, shape)


def graph_of(nodes, inputs, outputs, initializers=()):
    """A graph; inputs and outputs are pairs of a name and a type, or names."""
    ports = ([value(*one) if isinstance(one, tuple) else value(one) for one in side] for side in (inputs, outputs))
    return helper.make_graph(nodes, "graph", *ports, list(initializers))


def model_of(nodes, inputs, outputs, initializers=(), functions=(), opset=21, domains=()):
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*one) for one in domains)]
    if functions:
        imports.append(helper.make_opsetid("local", 1))
    graph = graph_of(nodes, inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)


def function(name, inputs, outputs, nodes, attributes=(), defaults=(), overload="", domains=()):
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1), *domains]
    made = helper.make_function("local", name, inputs, outputs, nodes, imports, list(attributes))
    made.attribute_proto.extend(defaults)
    made.overload = overload
    return made


def referring(node, name, to, kind):
    """The node with an attribute that stands for the function's attribute `to`."""
    node.attribute.append(AttributeProto(name=name, ref_attr_name=to, type=kind))
    return node


node = helper.make_node


def generated_functions():
    cast = referring(node("Cast", ["a"], ["b"]), "to", "target", AttributeProto.INT)
    to = function("To", ["a"], ["c"], [cast, node("Neg", ["b"], ["c"])], defaults=[helper.make_attribute("target", HALF)])
    outer_call = referring(node("To", ["x"], ["y"], domain="local"), "target", "kind", AttributeProto.INT)
    outer = function("Outer", ["x"], ["z"], [outer_call, node("Abs", ["y"], ["z"])], ["kind"])
    twice = function("Twice", ["a"], ["b", "n"], [node("Add", ["a", "a"], ["b"]), node("Shape", ["b"], ["n"])])
    nodes = [
        node("Twice", ["f"], ["f2", "fn"], domain="local"), node("Twice", ["h"], ["h2", "hn"], domain="local"),
        node("Twice", ["f2"], ["f4", ""], domain="local"), node("To", ["f4"], ["t1"], domain="local"),
        node("To", ["f4"], ["t2"], domain="local", target=DOUBLE), node("Outer", ["h2"], ["t3"], domain="local", kind=INT64),
        node("Outer", ["h2"], ["t4"], domain="local", kind=FLOAT),
    ]
    outputs = [("f4", FLOAT), ("hn", INT64), ("t1", HALF), ("t2", DOUBLE), ("t3", INT64), ("t4", FLOAT)]
    model = model_of(nodes, [("f", FLOAT), ("h", HALF)], outputs, functions=[to, outer, twice])
    yield "functions", model, {
        ("local:Twice", "a"): "float", ("local:Twice", "n"): "int64", ("local:Twice#2", "b"): "float16",
        ("local:To", "b"): "float16", ("local:To#2", "c"): "double",
    }
    overloads = [function("Over", ["a"], ["b"], [node("Cast", ["a"], ["b"], to=to)], overload=name)
                 for name, to in [("", INT64), ("half", HALF)]]
    calls = [node("Over", ["f"], ["i"], domain="local"), node("Over", ["f"], ["o"], domain="local", overload="half")]
    model = model_of(calls, [("f", FLOAT)], [("i", INT64), ("o", HALF)], functions=overloads)
    yield "overloads", model, {("", "i"): "int64", ("", "o"): "float16"}
    then = graph_of([node("Mul", ["a", "a"], ["r"])], [], ["r"])
    other = graph_of([node("Identity", ["a"], ["s"])], [], ["s"])
    inside = function("Choose", ["c", "a"], ["b"], [node("If", ["c"], ["b"], then_branch=then, else_branch=other)])
    calls = [node("Choose", ["c", name], [name + "2"], domain="local") for name in ("f", "d")]
    inputs = [("c", BOOL), ("f", FLOAT), ("d", DOUBLE)]
    yield "branches of functions", model_of(calls, inputs, [("f2", FLOAT), ("d2", DOUBLE)], functions=[inside]), {
        ("", "f2"): "float", ("", "d2"): "double",
        ("local:Choose/If_0/then_branch", "r"): "float", ("local:Choose#2/If_0/then_branch", "r"): "double",
    }


def generated_control():
    deep = graph_of([node("Mul", ["k", "x"], ["m"])], [], ["m"])
    flat = graph_of([node("Cast", ["k"], ["n"], to=HALF)], [], ["n"])
    then = graph_of([node("Neg", ["x"], ["k"]), node("If", ["c"], ["p"], then_branch=deep, else_branch=flat, name="inner")],
                    [], ["p"])
    other = graph_of([node("Constant", [], ["q"], value=helper.make_tensor("t", HALF, [1], [1.0]))], [], ["q"])
    nodes = [node("If", ["c"], ["y"], then_branch=then, else_branch=other, name="outer")]
    yield "branches", model_of(nodes, [("c", BOOL), ("x", HALF)], [("y", HALF)]), {
        ("outer/then_branch/inner/then_branch", "m"): "float16"}
    body = graph_of(
        [node("Add", ["s", "x"], ["s2"]), node("SequenceInsert", ["q", "s"], ["q2"]), node("Cast", ["i"], ["e"], to=DOUBLE),
         node("Identity", ["cond"], ["go"]), node("Unsqueeze", ["text", "zero"], ["scan2"])],
        [("i", INT64), ("cond", BOOL), "s", "q"], ["go", "s2", "q2", "e", "scan2"])
    nodes = [node("SequenceEmpty", [], ["empty"], dtype=HALF),
             node("Loop", ["m", "", "x", "empty"], ["last", "all", "es", "ts"], body=body, name="loop")]
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(HALF, None))
    model = model_of(nodes, [("m", INT64), ("x", HALF), ("text", STRING)],
                     [("last", HALF), ("all", sequence), ("es", DOUBLE), ("ts", STRING)],
                     [helper.make_tensor("zero", INT64, [1], [0])])
    yield "loop", model, {("loop/body", "s"): "float16", ("loop/body", "q"): "sequence(float16)", ("loop/body", "i"): "int64",
                          ("loop/body", "e"): "double"}
    for opset in (9, 16, 21):
        body = graph_of([node("Add", ["a", "b"], ["a2"]), node("Cast", ["b"], ["r"], to=INT64)], ["a", "b"], ["a2", "r"])
        nodes = [node("Scan", ["a0", "bs"], ["an", "rs"], body=body, num_scan_inputs=1, name="scan")]
        model = model_of(nodes, [("a0", DOUBLE), ("bs", DOUBLE)], [("an", DOUBLE), ("rs", INT64)], opset=opset)
        yield f"scan {opset}", model, {("scan/body", "a2"): "double", ("scan/body", "b"): "double"}
    body = graph_of([node("Mul", ["e", "w"], ["g"]), node("Shape", ["e"], ["n"])], ["e", "w"], ["g", "n"])
    nodes = [node("SequenceConstruct", ["x", "x"], ["xs"]),
             node("SequenceMap", ["xs", "x"], ["gs", "ns"], body=body, name="map"),
             node("SequenceAt", ["gs", "at"], ["g0"]), node("ConcatFromSequence", ["ns"], ["nc"], axis=0)]
    model = model_of(nodes, [("x", HALF), ("at", INT64)], ["gs", "ns", "g0", "nc"])
    yield "sequence map", model, {("", "gs"): "sequence(float16)", ("", "ns"): "sequence(int64)", ("", "g0"): "float16",
                                  ("", "nc"): "int64", ("map/body", "g"): "float16"}


def generated_others():
    sequence = helper.make_sequence_type_proto(helper.make_tensor_type_proto(DOUBLE, None))
    optional = helper.make_optional_type_proto(sequence)
    nodes = [node("Optional", [], ["none"], type=sequence), node("Optional", ["x"], ["some"]),
             node("OptionalGetElement", ["some"], ["x2"]), node("OptionalHasElement", ["none"], ["has"]),
             node("OptionalGetElement", ["given"], ["list"]), node("SplitToSequence", ["x"], ["parts"]),
             node("SequenceLength", ["parts"], ["len"])]
    yield "optionals", model_of(nodes, [("x", HALF), ("given", optional)], ["none", "some", "x2", "has", "list", "len"]), {
        ("", "none"): "optional(sequence(double))", ("", "some"): "optional(float16)", ("", "x2"): "float16",
        ("", "has"): "bool", ("", "list"): "sequence(double)", ("", "parts"): "sequence(float16)", ("", "len"): "int64"}
    nodes = [node("StringConcat", ["a", "b"], ["ab"]), node("StringSplit", ["ab"], ["words", "count"], delimiter=" "),
             node("RegexFullMatch", ["ab"], ["match"], pattern="x"), node("Cast", ["ab"], ["f"], to=HALF),
             node("Equal", ["a", "b"], ["same"]), node("Constant", [], ["t"], value_string="x"),
             node("Constant", [], ["fs"], value_floats=[1.0]), node("Constant", [], ["i"], value_int=1)]
    yield "strings", model_of(nodes, [("a", STRING), ("b", STRING)], ["words", "count", "match", "f", "same", "t", "fs", "i"]), {
        ("", "words"): "string", ("", "count"): "int64", ("", "match"): "bool", ("", "t"): "string", ("", "fs"): "float"}
    half = helper.make_tensor("t", HALF, [1], [1.0])
    nodes = [node("LayerNormalization", ["h", "h"], ["y", "mean", "dev"]),
             node("LayerNormalization", ["b", "b"], ["z", "mean2", "dev2"], stash_type=TensorProto.BFLOAT16),
             node("QuantizeLinear", ["h", "h"], ["q1"]), node("QuantizeLinear", ["h", "h", "zero"], ["q2"]),
             node("QuantizeLinear", ["h", "h"], ["q3"], output_dtype=TensorProto.INT4),
             node("DequantizeLinear", ["q3", "h"], ["d1"]), node("ConstantOfShape", ["n"], ["c1"]),
             node("ConstantOfShape", ["n"], ["c2"], value=half), node("EyeLike", ["h"], ["e1"]),
             node("EyeLike", ["h"], ["e2"], dtype=DOUBLE), node("RandomNormalLike", ["h"], ["r1"]),
             node("Multinomial", ["h"], ["r2"]), node("HannWindow", ["n"], ["w1"], output_datatype=HALF),
             node("TopK", ["h", "n"], ["k1", "k2"]), node("Dropout", ["h"], ["o1", "o2"])]
    zero = helper.make_tensor("zero", TensorProto.INT8, [], [0])
    model = model_of(nodes, [("h", HALF), ("b", TensorProto.BFLOAT16), ("n", INT64)], ["y", "z"], [zero])
    yield "attributes", model, {
        ("", "y"): "float16", ("", "mean"): "float", ("", "dev2"): "bfloat16", ("", "q1"): "uint8", ("", "q2"): "int8",
        ("", "q3"): "int4", ("", "d1"): "float16", ("", "c1"): "float", ("", "c2"): "float16", ("", "e1"): "float16",
        ("", "e2"): "double", ("", "r1"): "float16", ("", "r2"): "int32", ("", "w1"): "float16", ("", "k2"): "int64",
        ("", "o2"): "bool"}
    ml = "ai.onnx.ml"
    nodes = [node("LabelEncoder", ["i"], ["s"], domain=ml, keys_int64s=[1], values_strings=["a"]),
             node("LinearClassifier", ["x"], ["label", "scores"], domain=ml, coefficients=[1.0], classlabels_ints=[1, 2]),
             node("ZipMap", ["scores"], ["maps"], domain=ml, classlabels_int64s=[1, 2]),
             node("Scaler", ["i"], ["f"], domain=ml)]
    yield "ai.onnx.ml", model_of(nodes, [("i", INT64), ("x", DOUBLE)], ["s", "label", "maps", "f"], domains=[(ml, 4)]), {
        ("", "s"): "string", ("", "label"): "int64", ("", "scores"): "float", ("", "maps"): "sequence(map(int64,float))"}


def generated_runtime():
    """Operators of com.microsoft, which ONNX's inference knows nothing of: what onnxruntime's schemas say."""
    ms = "com.microsoft"
    nodes = [node("FusedMatMul", ["h", "h"], ["m"], domain=ms), node("Gelu", ["m"], ["g"], domain=ms),
             node("SkipLayerNormalization", ["h", "h", "h"], ["n", "mean"], domain=ms),
             node("DequantizeLinear", ["u", "h"], ["d"], domain=ms), node("QuantizeLinear", ["h", "h"], ["q"], domain=ms),
             node("MatMulNBits", ["h", "u", "h"], ["b"], domain=ms, K=16, N=16),
             node("MultiHeadAttention", ["h", "h", "h"], ["a", "k", "v", "qk"], domain=ms, num_heads=1),
             node("SimplifiedLayerNormalization", ["h", "h"], ["s"]), node("Neg", ["s"], ["t"])]
    names = ["m", "g", "n", "d", "q", "b", "a", "k", "qk", "s", "t"]
    model = model_of(nodes, [("h", HALF), ("u", TensorProto.UINT8)], names, domains=[(ms, 1)])
    yield "com.microsoft", model, {("", name): "float16" for name in names if name != "q"} | {
        ("", "q"): "uint8", ("", "mean"): "float"}


SHARES = 8
CASES = []


def newest(model):
    """The newest opset that a model imports, of ONNX's own domain."""
    return max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)


def share_of(share, since):
    """Problems, and counts, of a share of all models."""
    counts, problems = collections.Counter(), []
    models = [(name, model, None) for name, model in packaged(share) if newest(model) >= since]
    made = [*generated_functions(), *generated_control(), *generated_others(), *generated_runtime()]
    models += made[share::SHARES]
    with tempfile.TemporaryDirectory() as folder:
        for name, model, wanted in models:
            problems += compare(COMMAND, Path(folder), name, model, counts, wanted)
    counts["models"] = len(models)
    return problems, counts


def main():
    since = next((int(one.split("=")[1]) for one in sys.argv if one.startswith("--since=")), 0)
    # Once, before there are other processes.
    CASES.extend(collected())
    counts, problems = collections.Counter(), []
    for some, count in in_processes(share_of, [(share, since) for share in range(SHARES)]):
        problems += some
        counts.update(count)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"types: {counts['models']} models, {counts['bare']} values of models without declared types and "
          f"{counts['declared']} of those as they are compared with onnx {onnx.__version__}, {len(problems)} differ, "
          f"{counts['unknown']} unknown")
    if problems or counts["models"] < (200 if since else 1000):
        sys.exit(1)


if __name__ == "__main__":
    main()
