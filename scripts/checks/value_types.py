#!/usr/bin/env python3
"""Does `info --types` give every value the type that ONNX's own inference gives it?

    value_types.py [COMMAND] [--since=OPSET]

Takes the node tests and light models of the onnx package, with --since those of newer opsets alone, and generated
models. The command is given each as it is, and with all declared types taken out but for those of the main graph's
inputs. What `onnx.shape_inference` finds in the complete model, and what that declares, must be equal.
"""

import json
import sys
import warnings
from pathlib import Path

import onnx
from graphs import model
from onnx import AttributeProto, TensorProto
from onnx.backend.test.case.node import collect_testcases
from shared import counts, fail, finish, in_shares, problem, run

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
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


def knows_all(model):
    nodes = (node for _, graph in graphs(model.graph) for node in graph.node)
    return all(node.domain in KNOWN or any(node.domain == one.domain for one in model.functions) for node in nodes)


def compare(folder, name, model, wanted=None):
    """Compares one model; a generated one also has types that it must have, by `GRAPH NAME`."""
    want = onnx_types(model) | {tuple(key.rsplit(" ", 1)): of_type for key, of_type in (wanted or {}).items()}
    path = folder / "model.onnx"
    for kind, one in [("without declared types", stripped(model)), ("as declared", model)][not knows_all(model) :]:
        onnx.save(one, path)
        done = run("info", path, "--types", "--json")
        if done.returncode:
            problem(f"{name} ({kind}): {done.stderr.strip()}")
            continue
        got = {(row["graph"], row["name"]): row["type"] for row in json.loads(done.stdout)["model"]["types"]}
        for (graph, value), of_type in want.items():
            counts[f"values, {kind}"] += 1
            found = got.get((graph, value), "missing")
            if found != of_type:
                problem(f"{name} ({kind}): `{value}` in `{graph}` is {found}, want {of_type}")
        counts["values of unknown types"] += sum(of_type is None for of_type in got.values())
    counts["models"] += 1


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


LOCAL = '<domain: "local", opset_import: ["" : 21, "local" : 1]>'
# The graphs and functions of models, and types that they must have, by the paths of graphs and the names of values.
GENERATED = {
    "functions": ("""(float[] f, float16[] h)
        => (float[] f4, int64[] hn, float16[] t1, double[] t2, int64[] t3, float[] t4) {
        f2, fn = local.Twice(f) h2, hn = local.Twice(h) f4, "" = local.Twice(f2) t1 = local.To(f4)
        t2 = local.To<target=double>(f4) t3 = local.Outer<kind=int64>(h2) t4 = local.Outer<kind=float>(h2) }""",
        f"""{LOCAL} To <target: int=float16> (a) => (c) {{ b = Cast<to: int = @target>(a) c = Neg(b) }}
        {LOCAL} Outer <kind> (x) => (z) {{ y = local.To<target: int = @kind>(x) z = Abs(y) }}
        {LOCAL} Twice (a) => (b, n) {{ b = Add(a, a) n = Shape(b) }}""",
        {"local:Twice a": "float", "local:Twice n": "int64", "local:Twice#2 b": "float16", "local:To b": "float16",
         "local:To#2 c": "double"}),
    "overloads": ("(float[] f) => (int64[] i, float16[] o) { i = local.Over(f) o = local.Over:half(f) }",
        f"""{LOCAL} Over (a) => (b) {{ b = Cast<to=int64>(a) }}
        {LOCAL.replace(">", ', overload: "half">')} Over (a) => (b) {{ b = Cast<to=float16>(a) }}""",
        {" i": "int64", " o": "float16"}),
    "branches of functions": ("""(bool[] c, float[] f, double[] d) => (float[] f2, double[] d2)
        { f2 = local.Choose(c, f) d2 = local.Choose(c, d) }""",
        f"""{LOCAL} Choose (c, a) => (b) {{ b = If<else_branch = graph () => (s) {{ s = Identity(a) }},
        then_branch = graph () => (r) {{ r = Mul(a, a) }}>(c) }}""",
        {" f2": "float", " d2": "double", "local:Choose/If_0/then_branch r": "float",
         "local:Choose#2/If_0/then_branch r": "double"}),
    "branches": ("""(bool[] c, float16[] x) => (float16[] y) { [outer] y = If<
        else_branch = graph () => (q) { q = Constant<value = float16[1] t {1}>() },
        then_branch = graph () => (p) { k = Neg(x) [inner] p = If<
            else_branch = graph () => (n) { n = Cast<to=float16>(k) },
            then_branch = graph () => (m) { m = Mul(k, x) }>(c) }>(c) }""", "",
        {"outer/then_branch/inner/then_branch m": "float16"}),
    "loop": ("""(int64[] m, float16[] x, string[] text)
        => (float16[] last, seq(float16[]) all, double[] es, string[] ts) <int64[1] zero = {0}> {
        empty = SequenceEmpty<dtype=float16>()
        [loop] last, all, es, ts = Loop<body = graph (int64[] i, bool[] cond, s, q) => (go, s2, q2, e, scan2) {
            s2 = Add(s, x) q2 = SequenceInsert(q, s) e = Cast<to=double>(i) go = Identity(cond)
            scan2 = Unsqueeze(text, zero) }>(m, , x, empty) }""", "",
        {"loop/body s": "float16", "loop/body q": "sequence(float16)", "loop/body i": "int64",
         "loop/body e": "double"}),
    **{f"scan {opset}": ("""(double[] a0, double[] bs) => (double[] an, int64[] rs) {
        [scan] an, rs = Scan<body = graph (a, b) => (a2, r) { a2 = Add(a, b) r = Cast<to=int64>(b) },
        num_scan_inputs=1>(a0, bs) }""", opset,
        {"scan/body a2": "double", "scan/body b": "double"}) for opset in (9, 16, 21)},
    "sequence map": ("""(float16[] x, int64[] at) => (gs, ns, g0, nc) {
        xs = SequenceConstruct(x, x)
        [map] gs, ns = SequenceMap<body = graph (e, w) => (g, n) { g = Mul(e, w) n = Shape(e) }>(xs, x)
        g0 = SequenceAt(gs, at) nc = ConcatFromSequence<axis=0>(ns) }""", "",
        {" gs": "sequence(float16)", " ns": "sequence(int64)", " g0": "float16", " nc": "int64",
         "map/body g": "float16"}),
    "optionals": ("""(float16[] x, optional(seq(double[])) given) => (none, some, x2, has, list, len) {
        none = Optional<type = seq(double[])>() some = Optional(x) x2 = OptionalGetElement(some)
        has = OptionalHasElement(none) list = OptionalGetElement(given) parts = SplitToSequence(x)
        len = SequenceLength(parts) }""", "",
        {" none": "optional(sequence(double))", " some": "optional(float16)", " x2": "float16", " has": "bool",
         " list": "sequence(double)", " parts": "sequence(float16)", " len": "int64"}),
    "strings": ("""(string[] a, string[] b) => (words, count, match, f, same, t, fs, i) {
        ab = StringConcat(a, b) words, count = StringSplit<delimiter=" ">(ab) match = RegexFullMatch<pattern="x">(ab)
        f = Cast<to=float16>(ab) same = Equal(a, b) t = Constant<value_string="x">()
        fs = Constant<value_floats=[1.0]>() i = Constant<value_int=1>() }""", "",
        {" words": "string", " count": "int64", " match": "bool", " t": "string", " fs": "float"}),
    "attributes": ("""(float16[] h, bfloat16[] b, int64[] n) => (y, z) <int8 zero = {0}> {
        y, mean, dev = LayerNormalization(h, h) z, mean2, dev2 = LayerNormalization<stash_type=bfloat16>(b, b)
        q1 = QuantizeLinear(h, h) q2 = QuantizeLinear(h, h, zero) q3 = QuantizeLinear<output_dtype=int4>(h, h)
        d1 = DequantizeLinear(q3, h) c1 = ConstantOfShape(n) c2 = ConstantOfShape<value = float16[1] t {1}>(n)
        e1 = EyeLike(h) e2 = EyeLike<dtype=double>(h) r1 = RandomNormalLike(h) r2 = Multinomial(h)
        w1 = HannWindow<output_datatype=float16>(n) k1, k2 = TopK(h, n) o1, o2 = Dropout(h) }""", "",
        {" y": "float16", " mean": "float", " dev2": "bfloat16", " q1": "uint8", " q2": "int8", " q3": "int4",
         " d1": "float16", " c1": "float", " c2": "float16", " e1": "float16", " e2": "double", " r1": "float16",
         " r2": "int32", " w1": "float16", " k2": "int64", " o2": "bool"}),
    "ai.onnx.ml": ("""(int64[] i, double[] x) => (s, label, maps, f) {
        s = ai.onnx.ml.LabelEncoder<keys_int64s=[1], values_strings=["a"]>(i)
        label, scores = ai.onnx.ml.LinearClassifier<classlabels_ints=[1, 2], coefficients=[1.0]>(x)
        maps = ai.onnx.ml.ZipMap<classlabels_int64s=[1, 2]>(scores) f = ai.onnx.ml.Scaler(i) }""", "",
        {" s": "string", " label": "int64", " scores": "float", " maps": "sequence(map(int64,float))"}),
    # Operators that ONNX's inference knows nothing of: what onnxruntime's schemas say.
    "com.microsoft": ("""(float16[] h, uint8[] u) => (m, g, n, d, q, b, a, k, qk, s, t) {
        m = com.microsoft.FusedMatMul(h, h) g = com.microsoft.Gelu(m)
        n, mean = com.microsoft.SkipLayerNormalization(h, h, h) d = com.microsoft.DequantizeLinear(u, h)
        q = com.microsoft.QuantizeLinear(h, h) b = com.microsoft.MatMulNBits<K=16, N=16>(h, u, h)
        a, k, v, qk = com.microsoft.MultiHeadAttention<num_heads=1>(h, h, h)
        s = SimplifiedLayerNormalization(h, h) t = Neg(s) }""", "",
        {f" {name}": "float16" for name in "m g n d b a k qk s t".split()} | {" q": "uint8", " mean": "float"}),
}  # fmt: skip


def generated():
    """Names, models, and types that they must have."""
    for name, (text, functions, wanted) in GENERATED.items():
        opset, functions = (21, functions) if isinstance(functions, str) else (functions, "")
        domains = ["local"] if functions else [name] if "." in name else []
        made = model(text, opset=opset, ir=10, domains=domains, functions=functions)
        if name == "ai.onnx.ml":
            made.opset_import[1].version = 4
        yield name, made, wanted


SHARES = 8
CASES = []


def newest(model):
    """The newest opset that a model imports, of ONNX's own domain."""
    return max((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0)


def share_of(folder, share, since):
    for name, model in packaged(share):
        if newest(model) >= since:
            compare(folder, name, model)
    for one in [*generated()][share::SHARES]:
        compare(folder, *one)


def main():
    since = next((int(one.split("=")[1]) for one in sys.argv if one.startswith("--since=")), 0)
    # Once, before there are other processes.
    CASES.extend(collected())
    in_shares([(share_of, share, since) for share in range(SHARES)])
    finish()
    if counts["models"] < (200 if since else 1000):
        fail(f"{counts['models']} models of onnx {onnx.__version__} are too few")


if __name__ == "__main__":
    main()
