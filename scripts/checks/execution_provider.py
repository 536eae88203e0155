#!/usr/bin/env python3
"""Does onnxruntime with the execution provider give the library's bytes, and does the provider take the right nodes?

Every version of every operator with all combinations of types as a one-node model; which nodes are claimed, beside what
onnxruntime runs and gets right itself; chains, constants, branches, loops, functions and shapes; models that the
command quantized; onnx's node tests and real models; threads, many sessions, and a library that is unregistered.

Without arguments all parts run, else those that are named. With EP_LEVELS=all, pairs run at every optimization level.
"""

import os
import sys
import time

import execution_provider_graphs as graphs
import execution_provider_nodes as nodes
import execution_provider_real as real
import execution_provider_sessions as sessions
import numpy as np
import onnxruntime
from onnx_cast.onnxruntime import ep_name, session_options

LEVELS = [
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
]


def fail(text):
    sys.exit(f"execution_provider: {text}")


def all_nodes():
    for name in ("Cast", "CastLike", "BitCast"):
        yield from nodes.casts(name)
    for name in ("QuantizeLinear", "DequantizeLinear"):
        yield from nodes.scaled(name)
    yield from nodes.dynamic()


def session(model, claim, level=LEVELS[0], only=False, probe=None):
    """A session with the provider; ``only`` refuses a model of which it does not take every node."""
    options = session_options(claim)
    if probe is not None:
        options.add_session_config_entry(f"ep.{ep_name().lower()}.probe", probe)
    options.graph_optimization_level = level
    if only:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return nodes.quiet_session(model, options)


def loads(make):
    try:
        return make()
    except Exception:
        return None


def run(session, arrays):
    """The outputs of a model, as arrays."""
    names = [one.name for one in session.get_inputs()]
    given = [one for one in arrays if one is not None]
    return nodes.run(session, dict(zip(names, given, strict=True)))


def bits(array):
    return array.tolist() if array.dtype == object or array.dtype.kind in "TUO" else array.tobytes()


def check_pairs():
    """Every node is claimed by `all`, and gives the library's bytes."""
    levels = LEVELS if os.environ.get("EP_LEVELS") == "all" else LEVELS[:1]
    counts = {}
    for node in all_nodes():
        model = node.model()
        cases = [(arrays, nodes.expected(node, arrays)) for arrays in nodes.feeds(node)]
        for level in levels:
            made = loads(lambda: session(model, "all", level))
            if made is None:
                fail(f"{node} does not load: {why(lambda: session(model, 'all', level))}")
            for arrays, want in cases:
                for index, (a, b) in enumerate(zip(run(made, arrays), want, strict=True)):
                    if a.shape != b.shape or bits(a) != bits(b):
                        fail(f"{node}, level {level}: output {index} is not the library's: {difference(arrays[0], a, b)}")
        counts[node.name] = counts.get(node.name, 0) + 1
    print("  " + ", ".join(f"{count} of {name}" for name, count in counts.items()), flush=True)


def why(make):
    try:
        make()
    except Exception as error:
        return error
    return "it loads now"


def difference(x, a, b):
    """The first elements that differ."""
    if bits(a.ravel()[:0]) == [] or a.shape != b.shape:
        pairs = [row for row in zip(x.ravel().tolist(), a.ravel().tolist(), b.ravel().tolist()) if row[1] != row[2]]
        return f"{pairs[:4]}"
    rows = a.reshape(-1).view(np.uint8).reshape(a.size, -1) != b.reshape(-1).view(np.uint8).reshape(b.size, -1)
    at = np.flatnonzero(rows.any(axis=1))[:4]
    return f"{len(np.flatnonzero(rows.any(axis=1)))}: {x.ravel()[at]} give {a.ravel()[at]} (want {b.ravel()[at]})"


def same_values(a, b):
    """Whether two arrays have the same values, NaN among them."""
    if bits(a) == bits(b):
        return True
    if a.dtype != b.dtype or a.dtype == object or a.dtype.kind in "TUO":
        return False
    codes = [one.reshape(-1).view(f"u{one.dtype.itemsize}") for one in (a, b)]
    if a.dtype.kind in "iub":
        return bool((codes[0] == codes[1]).all())
    with np.errstate(invalid="ignore"):
        nan = [np.isnan(one.reshape(-1).astype(np.float64)) for one in (a, b)]
    return bool(((codes[0] == codes[1]) | (nan[0] & nan[1])).all())


def check_claims():
    """`missing` takes what onnxruntime does not run, `inexact` also what it gets wrong, and neither takes more."""
    missing = inexact = left = 0
    for node in all_nodes():
        if node.inputs[0] is node.outputs[0] and node.name != "BitCast":
            # onnxruntime drops such nodes before it asks.
            continue
        model = node.model()
        level = LEVELS[1]
        stock = loads(lambda: nodes.quiet_session(model, providers=["CPUExecutionProvider"]))
        results = stock and loads(lambda: [run(stock, arrays) for arrays in nodes.feeds(node)])
        claimed = loads(lambda: session(model, "missing", level, only=True)) is not None
        if claimed and results is not None:
            fail(f"{node} is claimed though onnxruntime runs it")
        if not claimed and stock is None:
            fail(f"{node} is not claimed though onnxruntime does not load it: {why(lambda: nodes.quiet_session(model))}")
        missing += claimed
        if claimed:
            continue
        wants = [nodes.expected(node, arrays) for arrays in nodes.feeds(node)]
        pairs = [pair for got, want in zip(results or [], wants) for pair in zip(got, want, strict=True)]
        differs = results is None or not all(same_values(a, b) for a, b in pairs)
        claimed = loads(lambda: session(model, "inexact", level, only=True)) is not None
        if claimed != differs:
            report(node, claimed, pairs)
        inexact += claimed
        left += not claimed
    if REPORTED:
        fail(f"{len(REPORTED)} nodes are claimed wrongly by `inexact`")
    print(f"  {missing} nodes that onnxruntime lacks, {inexact} of which it gets values wrong, {left} left to it", flush=True)


def check_probe():
    """With `probe`, which asks onnxruntime itself, the same nodes are claimed as by what the tables know."""
    taken = left = 0
    for node in all_nodes():
        if node.inputs[0] is node.outputs[0] and node.name != "BitCast":
            continue
        model = node.model()
        claimed = [
            loads(lambda probe=probe: session(model, "missing", LEVELS[1], only=True, probe=probe)) is not None
            for probe in ("0", "1")
        ]
        if claimed[0] != claimed[1]:
            fail(f"{node} is claimed {'only' if claimed[1] else 'not'} where onnxruntime is asked")
        taken += claimed[1]
        left += not claimed[1]
    if not (taken and left):
        fail(f"of the nodes about which onnxruntime was asked, {taken} are claimed and {left} are not")
    print(f"  onnxruntime was asked, and runs {left} nodes, and not {taken}", flush=True)


REPORTED = []


def report(node, claimed, pairs):
    REPORTED.append(node)
    text = "is claimed, but is right" if claimed else "is wrong, but not claimed"
    first = next((difference(a, a, b) for a, b in pairs if not same_values(a, b)), "")
    print(f"  {node} {text} {first}", flush=True)


def main():
    parts = {
        "pairs": check_pairs,
        "claims": check_claims,
        "probe": check_probe,
        "graphs": graphs.check,
        "real": real.check,
        "sessions": sessions.check,
    }
    chosen = sys.argv[1:] or list(parts)
    print(f"onnxruntime {onnxruntime.__version__}, {ep_name()}", flush=True)
    for name in chosen:
        start = time.monotonic()
        parts[name]()
        print(f"  {name}: {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
