#!/usr/bin/env python3
"""Does onnxruntime with the execution provider give the library's bytes, and does the provider take the right nodes?

Every version of every operator with all combinations of types as a one-node model; which nodes are claimed, beside what
onnxruntime runs and gets right itself; chains, constants, branches, loops, functions and shapes; models that the
command quantized, and real ones; threads, many sessions, and a library that is unregistered. (`onnx_backend.rs` has the
library give what onnx's own cases want.)

Without arguments all parts run, else those that are named. With EP_LEVELS=all, pairs run at every optimization level.
"""

import collections
import functools
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import execution_provider_nodes as nodes
import graphs
import numpy as np
import onnx
import onnx_cast
import onnxruntime
from graphs import LEVELS, MAGIKA, NUDENET
from onnx import helper
from onnx_cast import dtypes as t
from onnx_cast.onnxruntime import ep_name, from_ortvalue, register, session_options, to_ortvalue
from shared import BUILT, fail, need

COMMAND = Path(os.environ.get("ONNX_CAST_COMMAND", BUILT))
RELEASE = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])
READABLE = [t.float, t.double, t.float16, t.bfloat16, t.float8e4m3fn, t.float4e2m1, t.int64, t.int8, t.int4, t.int2]


def loads(make):
    """What is made, or None and the error."""
    try:
        return make(), None
    except Exception as error:
        return None, error


# --- single nodes -------------------------------------------------------------------------------------------------


def claimed(model, claim, probe=None):
    """Whether the provider takes every node of a model; `probe` says whether it asks onnxruntime what that runs."""
    options = session_options(claim)
    if probe is not None:
        options.add_session_config_entry(f"ep.{ep_name().lower()}.probe", probe)
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return loads(lambda: nodes.session(model, claim, LEVELS[0], options))[0] is not None


def check_pairs():
    """Every node is claimed by `all`, and gives the library's bytes."""
    levels, counts = LEVELS if os.environ.get("EP_LEVELS") == "all" else LEVELS[-1:], collections.Counter()
    for node in nodes.every_node():
        model = node.model()
        cases = [(arrays, nodes.expected(node, arrays)) for arrays in nodes.feeds(node)]
        for level in levels:
            made, why = loads(lambda: nodes.session(model, "all", level))
            if made is None:
                fail(f"{node} does not load: {why}")
            for arrays, want in cases:
                for index, (a, b) in enumerate(zip(nodes.run(made, arrays), want, strict=True)):
                    if nodes.bits(a) != nodes.bits(b):
                        there = difference(arrays[0], a, b)
                        fail(f"{node}, level {level}: output {index} is not the library's: {there}")
        counts[node.name] += 1
    print("  " + ", ".join(f"{count} of {name}" for name, count in counts.items()), flush=True)


def difference(x, a, b):
    """The first elements that differ."""
    if a.dtype == object or a.dtype.kind in "TUO" or a.shape != b.shape:
        rows = zip(x.ravel().tolist(), a.ravel().tolist(), b.ravel().tolist())
        return f"{[row for row in rows if row[1] != row[2]][:4]}"
    differ = [one.reshape(-1).view(np.uint8).reshape(one.size, -1) for one in (a, b)]
    at = np.flatnonzero((differ[0] != differ[1]).any(axis=1))
    first = at[:4]
    return f"{len(at)}: {x.ravel()[first]} give {a.ravel()[first]} (want {b.ravel()[first]})"


def check_claims():
    """`missing` takes what onnxruntime does not run, by its tables or by asking onnxruntime; `inexact` also what that
    gets wrong; and neither takes more."""
    counts, wrong = collections.Counter(), 0
    for node in nodes.every_node():
        # onnxruntime drops such a Cast before it asks.
        if node.inputs[0] is node.outputs[0] and node.name != "BitCast":
            continue
        model = node.model()
        stock, why = loads(lambda: nodes.session(model))
        results = stock and loads(lambda: [nodes.run(stock, arrays) for arrays in nodes.feeds(node)])[0]
        is_claimed, asked = (claimed(model, "missing", probe) for probe in ("0", "1"))
        if is_claimed != asked:
            fail(f"{node} is claimed {'only' if asked else 'not'} where onnxruntime is asked")
        if is_claimed and results is not None:
            fail(f"{node} is claimed though onnxruntime runs it")
        if not is_claimed and stock is None:
            fail(f"{node} is not claimed though onnxruntime does not load it: {why}")
        if is_claimed:
            counts["missing"] += 1
            continue
        wants = [nodes.expected(node, arrays) for arrays in nodes.feeds(node)]
        pairs = [pair for got, want in zip(results or [], wants) for pair in zip(got, want, strict=True)]
        differ = [pair for pair in pairs if not nodes.same_values(*pair)]
        is_claimed = claimed(model, "inexact")
        if is_claimed != bool(results is None or differ):
            text = "is claimed, but is right" if is_claimed else "is wrong, but not claimed"
            print(f"  {node} {text} {difference(differ[0][0], *differ[0]) if differ else ''}", flush=True)
            wrong += 1
        counts["inexact" if is_claimed else "left"] += 1
    if wrong or not counts["missing"]:
        fail(f"{wrong} nodes are claimed wrongly by `inexact`, of {dict(counts)}")
    print(f"  nodes that onnxruntime lacks: {counts['missing']}, asked or not; of which it gets values wrong: "
          f"{counts['inexact']}; left to it: {counts['left']}", flush=True)  # fmt: skip


# --- graphs --------------------------------------------------------------------------------------------------------


def model(text, opset, **more):
    return graphs.model(text, opset=opset, ir=10, **more).SerializeToString()


def run(model, claim="all", level=None, **feeds):
    """The outputs of a model, and how many nodes the provider ran, by the profile."""
    options = session_options(claim) if claim else onnxruntime.SessionOptions()
    with tempfile.TemporaryDirectory() as folder:
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder) / "profile")
        session = nodes.session(model, claim, level, options)
        results = nodes.run(session, feeds)
        profile = Path(session.end_profiling()).read_text()
    events = [line for line in profile.splitlines() if "_kernel_time" in line]
    return results, sum(ep_name() in line for line in events)


def equal(name, got, want, count=None, wanted=None):
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        if nodes.bits(a) != nodes.bits(np.asarray(b)):
            fail(f"{name}: output {index} is {a.ravel()[:6]} (want {b.ravel()[:6]})")
    if count != wanted:
        fail(f"{name} is {count} nodes of the provider's (want {wanted})")


def cast(x, *steps, opset=None):
    for to in steps:
        x = onnx_cast.cast(x, to.number, opset=opset)
    return x


def check_chains():
    """A chain is one group, and each of its roundings is kept, at every level."""
    x, opset = nodes.hard_values(t.double), min(25, nodes.newest_opset())
    for steps in [
        (t.float, t.float16), (t.float16, t.float, t.float8e4m3fn, t.float), (t.float, t.bfloat16, t.float16),
        (t.float4e2m1, t.float), (t.int64, t.float, t.double), (t.int8, t.int4, t.int2, t.float),
    ]:  # fmt: skip
        if not set(steps) <= set(nodes.held()):
            continue
        names = ["x", *(f"v{at}" for at in range(len(steps)))]
        chain = " ".join(f"{b} = Cast<to={to.name}>({a})" for a, b, to in zip(names, names[1:], steps))
        results = [cast(x, *steps[: at + 1], opset=opset) for at in range(len(steps))]
        made = model(f"(double[] x) => ({steps[-1].name}[] {names[-1]}) {{ {chain} }}", opset)
        for size in (x.size, 1_000_003):
            for level in LEVELS:
                got, count = run(made, level=level, x=np.resize(x, size))
                equal(f"a chain to {steps}", got, [np.resize(results[-1], size)], count, 1)
        # A value within the chain that is an output besides, and one that another node reads.
        if all(one in READABLE for one in steps):
            outputs = ", ".join(f"{one.name}[] {name}" for name, one in zip(names[1:], steps))
            got, _ = run(model(f"(double[] x) => ({outputs}) {{ {chain} }}", opset), x=x)
            equal(f"a chain to {steps} with outputs within", got, results)
    fork = """(double[] x) => (float16[] b, bfloat16[] c, float[] d)
        { a = Cast<to=float>(x) b = Cast<to=float16>(a) c = Cast<to=bfloat16>(a) d = Neg(a) }"""
    a = cast(x, t.float)
    got, count = run(model(fork, opset), x=x)
    equal("a fork", got, [cast(a, t.float16), cast(a, t.bfloat16), -a], count, 2)


def check_constants():
    """Nodes of constants give the library's values, because the options turn onnxruntime's folding off."""
    weights = np.array([1 + 2.0**-11 + 2.0**-40, 65519.9999, -0.0], np.float64)
    made = model("(float16[3] x) => (float16[3] y) { h = Cast<to=float16>(w) y = Add(h, x) }", 21, w=weights)
    zero = np.zeros(3, np.float16)
    got, count = run(made, "inexact", x=zero)
    equal("a Cast of a constant", got, [cast(weights, t.float16) + zero])
    folded, others = run(made, claim=None, x=zero)
    if count != 1 or others or folded[0].tobytes() == got[0].tobytes():
        fail("a Cast of a constant: onnxruntime alone gives the same, or the provider did not run it")


def check_subgraphs():
    """Branches, loops and functions."""
    narrow, x = nodes.narrow(), np.array([1 + 2.0**-11 + 2.0**-40, -3.5, 1e9])
    made = model(f"""(bool c, double[] x) => (float16[] y) {{ y = If<
        else_branch = branch () => (float16[] e) {{ s = Cast<to={narrow.name}>(x) e = Cast<to=float16>(s) }},
        then_branch = branch () => (float16[] t) {{ t = Cast<to=float16>(x) }}>(c) }}""", 23)
    if RELEASE < (1, 25):
        print("  If: onnxruntime gives the groups of two graphs one name before 1.25", flush=True)
    else:
        equal("If", run(made, c=np.array(True), x=x)[0], [cast(x, t.float16)])
        equal("else of If", run(made, c=np.array(False), x=x)[0], [cast(cast(x, narrow, opset=23), t.float16)])
    # Each turn doubles a float that is rounded to float8.
    made = model("""(int64 turns, float[] x) => (float[] y) { y = Loop<
        body = body (int64 i, bool go, float[] s) => (bool again, float[] next)
        { n = Cast<to=float8e4m3fn>(s) f = Cast<to=float>(n) next = Add(f, f) again = Identity(go) }>(turns, , x) }""",
        21)
    want = start = np.array([0.3, 5.3, -100], np.float32)
    for _ in range(3):
        want = 2 * cast(cast(want, t.float8e4m3fn, opset=21), t.float)
    equal("Loop", run(made, turns=np.array(3), x=start)[0], [want])
    function = f"""<domain: "mine", opset_import: ["" : 23]> Narrow (f) => (g)
        {{ h = Cast<to={narrow.name}>(f) g = Cast<to=float>(h) }}"""
    made = model("(float[] x) => (float[] y) { y = mine.Narrow(x) }", 23, functions=function, domains=["mine"])
    equal("a function", run(made, x=start)[0], [cast(cast(start, narrow, opset=23), t.float)])


def check_shapes():
    """Scalars, empty tensors, unknown sizes, and tensors that go to several threads; strings too."""
    for shape in [(), (0,), (3, 0, 2), (1,), (2, 3, 5), (1 << 21,)]:
        x = np.resize(nodes.hard_values(t.float), shape)
        for known in (shape, [None] * len(shape), None):
            for to in (t.float8e5m2, t.float4e2m1, t.string):
                if to is t.string and x.size > 1000 or to not in nodes.held():
                    continue
                infos = [nodes.value("x", t.float, known), nodes.value("y", to, known)]
                made = nodes.model([helper.make_node("Cast", ["x"], ["y"], to=to.number)], infos[:1], infos[1:], 23)
                equal(f"shape {shape}", run(made, x=x)[0], [cast(x, to, opset=23)])
    texts = np.array([["1.5", "-inf"], ["1e-3", ""]], object)
    made = model("(string[] x) => (string[] y) { y = Cast<to=string>(x) }", 21)
    equal("strings to strings", run(made, x=texts)[0], [texts])
    made = model("(string[] x) => (int8[] y) { y = Cast<to=int8>(x) }", 21)
    try:
        run(made, x=np.array(["1", "two"], object))
    except Exception as error:
        if "INVALID_ARGUMENT" not in str(error) or 'element 1: "two" is not a number' not in str(error):
            fail(f"a text that is not a number: {error}")
    else:
        fail("a text that is not a number gives a result")


def check_blocks():
    """Blocks along each axis, short last blocks, a scale for each place on an axis, and large tensors."""
    narrow = nodes.narrow()
    x = np.resize(nodes.hard_values(t.float16)[::31], (3, 70, 5)).astype(np.float32)
    for axis, block, size in [(1, 32, 3), (-1, 2, 3), (0, 3, 1), (1, 0, None)]:
        shape = [70] if block == 0 else [size if at == axis % 3 else one for at, one in enumerate(x.shape)]
        scale = np.resize(np.array([0.5, 0.1, 3, 2.0**-5], np.float32), shape)
        made = model(f"""(float[] x, float[] s) => (float[] y)
            {{ q = QuantizeLinear<axis={axis}, block_size={block}, output_dtype={narrow.name}>(x, s)
            y = DequantizeLinear<axis={axis}, block_size={block}>(q, s) }}""", 23)
        along = 2 if axis != -1 else 0
        for factor in (1, 400):
            big = np.concatenate([x] * factor, axis=along)
            grown = scale if block == 0 else np.concatenate([scale] * factor, axis=along)
            attributes = {"axis": axis, "block_size": block, "opset": 23}
            q = onnx_cast.quantize_linear(big, grown, output_dtype=narrow.name, **attributes)
            want = onnx_cast.dequantize_linear(q, grown, **attributes)
            equal(f"blocks of {block} on axis {axis}", run(made, "missing", x=big, s=grown)[0], [want])


def check_quantized():
    """Models that the command quantized to MXFP4 and NVFP4 run as they are, and give what they give dequantized."""
    weights, x = (nodes.RANDOM.standard_normal(shape, np.float32) for shape in ((128, 64), (4, 128)))
    text = "(float[4,128] x) => (float[4,64] y) { y = MatMul(x, w) }"
    with tempfile.TemporaryDirectory() as folder:
        path, out, back = (Path(folder) / f"{name}.onnx" for name in ("plain", "quantized", "back"))
        path.write_bytes(model(text, min(25, nodes.newest_opset()), w=weights))
        for format, needed in (("mxfp4", t.float8e8m0), ("nvfp4", t.float4e2m1), ("mxfp8", t.float8e8m0)):
            if needed not in nodes.held():
                print(f"  {format}: onnxruntime has no tensors of {needed}", flush=True)
                continue
            for arguments in (["quantize", path, out, "--to", format], ["dequantize", out, back, "--to", "float"]):
                subprocess.run([COMMAND, *arguments, "--force"], check=True, capture_output=True)
            got, count = run(out.read_bytes(), "missing", x=x)
            # With the weights that the library gives, in stock onnxruntime.
            want = run(back.read_bytes(), claim=None, x=x)[0]
            if not count:
                fail(f"{format}: the provider ran no node")
            equal(format, got, want)


def check_models():
    """Real models give what they give without the provider, by every claim: bit for bit."""
    need(MAGIKA, NUDENET)
    for path, feeds in graphs.real_inputs().items():
        want = nodes.session(str(path)).run(None, feeds)
        for claim in ("missing", "inexact", "all"):
            got = nodes.session(str(path), claim, options=session_options(claim, fold_constants=True)).run(None, feeds)
            for a, b in zip(got, want, strict=True):
                if nodes.bits(a) != nodes.bits(b):
                    fail(f"{path.name} by {claim}: {a.ravel()[:5]} (want {b.ravel()[:5]})")
        kinds = collections.Counter(node.op_type for node in onnx.load(path).graph.node)
        casts = sum(kinds[name] for name in ("Cast", "CastLike", "QuantizeLinear", "DequantizeLinear"))
        print(f"  {path.name} with {casts} nodes of casts, as without the provider", flush=True)


# --- sessions ------------------------------------------------------------------------------------------------------

# Sessions that are made before growth is measured, and after.
WARM, SESSIONS = 200, 1000
# What memory may grow by meanwhile: less than 100 bytes a session.
MOST_GROWTH = 100 << 10


@functools.cache
def there_and_back():
    """A model that casts to a narrow type and back."""
    text = f"(float[n] x) => (float[n] y) {{ h = Cast<to={nodes.narrow().name}>(x) y = Cast<to=float>(h) }}"
    return model(text, 23)


def session():
    return nodes.session(there_and_back(), "all")


def want(x):
    return cast(x, nodes.narrow(), t.float, opset=23)


def check_threads():
    """Threads that share sessions get what one gets."""
    shared = [session(), session()]
    x = [np.resize(nodes.hard_values(t.float), size) for size in (16, 1000, 700_000)]
    wants, wrong = [want(one).tobytes() for one in x], []

    def work(number):
        for turn in range(60):
            at = (number + turn) % 3 if turn % 10 == 0 else turn % 2
            (got,) = shared[turn % 2].run(None, {"x": x[at]})
            if got.tobytes() != wants[at]:
                wrong.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if wrong:
        fail(f"{len(wrong)} of {8 * 60} runs of several threads differ")


def resident():
    """Bytes of memory that the process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def growth(count):
    """The bytes that sessions leave behind."""
    x, before = nodes.hard_values(t.float)[:100], resident()
    for _ in range(count):
        session().run(None, {"x": x})
    return resident() - before


def check_growth():
    """Sessions leave nothing behind. What an allocator keeps, it keeps once: a leak shows in each of three rounds."""
    growth(WARM)
    rounds = [growth(SESSIONS)]
    while rounds[-1] > MOST_GROWTH and len(rounds) < 3:
        rounds.append(growth(SESSIONS))
    if rounds[-1] > MOST_GROWTH:
        fail(f"{SESSIONS} sessions leave {rounds} bytes behind (want {MOST_GROWTH} at most)")
    print(f"  {SESSIONS} sessions: {rounds} bytes more", flush=True)


PROGRAM = """
import sys; sys.path.insert(0, sys.argv[1])
import execution_provider as own, numpy as np, onnxruntime
from onnx_cast.onnxruntime import ep_name, register
x = np.array([0.3, 100], np.float32)
one = own.session()
onnxruntime.unregister_execution_provider_library(ep_name())
assert one.run(None, {'x': x})[0].tolist() == own.want(x).tolist()
register()
two = own.session()
del one
assert two.run(None, {'x': x})[0].tolist() == own.want(x).tolist()
"""


def check_unregister():
    """A session works on after its library was unregistered, and the library can be registered again."""
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        fail(f"a library that is unregistered: status {done.returncode}: {done.stderr[-600:]}")


def check_refusals():
    """Options that the provider does not have are refused, with their names."""
    register()
    devices = [one for one in onnxruntime.get_ep_devices() if "OnnxCast" in one.ep_name][:1]
    for given, text in [({"claim": "most"}, "option `claim` is `most`"), ({"clam": "all"}, "has no option `clam`")]:
        options = onnxruntime.SessionOptions()
        options.add_provider_for_devices(devices, given)
        try:
            # onnxruntime's package would print the error and go on without the provider.
            nodes.session(there_and_back(), "all", options=options, enable_fallback=0)
        except Exception as error:
            if text not in str(error):
                fail(f"the options {given}: {error}")
        else:
            fail(f"the options {given} are accepted")


def check_values():
    """Tensors of every type go to onnxruntime and come back."""
    for data_type in nodes.held():
        if data_type is t.string:
            continue
        array = nodes.hard_values(data_type)[:7]
        for one in (array, array.reshape(1, -1), array[:0], array[:1].reshape(())):
            back = from_ortvalue(to_ortvalue(one))
            if nodes.bits(back) != nodes.bits(one):
                fail(f"{data_type}: {one!r} comes back as {back!r}")


# By name: what one can ask for.
PARTS = {
    "pairs": [check_pairs],
    "claims": [check_claims],
    "graphs": [check_chains, check_constants, check_subgraphs, check_shapes, check_blocks, check_quantized,
               check_models],
    "sessions": [check_refusals, check_values, check_threads, check_unregister, check_growth],
}


def main():
    print(f"onnxruntime {onnxruntime.__version__}, {ep_name()}", flush=True)
    for name in sys.argv[1:] or PARTS:
        for check in PARTS[name]:
            start = time.monotonic()
            check()
            print(f"  {name}: {check.__name__.removeprefix('check_')}, {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
