#!/usr/bin/env python3
"""Does onnxruntime with the execution provider give the library's bytes, and does the provider take the right nodes?

Every version of every operator with all combinations of types as a one-node model; which nodes are claimed, beside what
onnxruntime runs and gets right itself; chains, constants, branches, loops, functions and shapes; models that the
command quantized; onnx's node tests and real models; threads, many sessions, and a library that is unregistered.

Without arguments all parts run, else those that are named. With EP_LEVELS=all, pairs run at every optimization level.
"""

import collections
import os
import sys
import time

import execution_provider_graphs
import execution_provider_nodes as nodes
import execution_provider_real as real
import execution_provider_sessions as sessions
import numpy as np
import onnxruntime
from graphs import LEVELS
from onnx_cast.onnxruntime import ep_name, session_options
from shared import fail


def all_nodes():
    for name in ("Cast", "CastLike", "BitCast"):
        yield from nodes.casts(name)
    for name in ("QuantizeLinear", "DequantizeLinear"):
        yield from nodes.scaled(name)
    yield from nodes.dynamic()


def claimable():
    """Nodes and their models. onnxruntime drops others before it asks."""
    for node in all_nodes():
        if node.inputs[0] is not node.outputs[0] or node.name == "BitCast":
            yield node, node.model()


def session(model, claim, level=LEVELS[-1], only=False, probe=None):
    """A session with the provider; ``only`` refuses a model of which it does not take every node."""
    options = session_options(claim)
    if probe is not None:
        options.add_session_config_entry(f"ep.{ep_name().lower()}.probe", probe)
    options.graph_optimization_level = level
    if only:
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return nodes.quiet_session(model, options)


def claimed(model, claim, **more):
    return loads(lambda: session(model, claim, LEVELS[0], only=True, **more))[0] is not None


def loads(make):
    """What is made, or None and the error."""
    try:
        return make(), None
    except Exception as error:
        return None, error


def run(session, arrays):
    """The outputs of a model, as arrays."""
    names = [one.name for one in session.get_inputs()]
    given = [one for one in arrays if one is not None]
    return nodes.run(session, dict(zip(names, given, strict=True)))


def check_pairs():
    """Every node is claimed by `all`, and gives the library's bytes."""
    levels, counts = LEVELS if os.environ.get("EP_LEVELS") == "all" else LEVELS[-1:], collections.Counter()
    for node in all_nodes():
        model = node.model()
        cases = [(arrays, nodes.expected(node, arrays)) for arrays in nodes.feeds(node)]
        for level in levels:
            made, why = loads(lambda: session(model, "all", level))
            if made is None:
                fail(f"{node} does not load: {why}")
            for arrays, want in cases:
                for index, (a, b) in enumerate(zip(run(made, arrays), want, strict=True)):
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
    """`missing` takes what onnxruntime does not run, `inexact` also what it gets wrong, and neither takes more."""
    counts, wrong = collections.Counter(), 0
    for node, model in claimable():
        stock, why = loads(lambda: nodes.quiet_session(model, providers=["CPUExecutionProvider"]))
        results = stock and loads(lambda: [run(stock, arrays) for arrays in nodes.feeds(node)])[0]
        is_claimed = claimed(model, "missing")
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
    if wrong:
        fail(f"{wrong} nodes are claimed wrongly by `inexact`")
    print(f"  {counts['missing']} nodes that onnxruntime lacks, {counts['inexact']} of which it gets values wrong, "
          f"{counts['left']} left to it", flush=True)  # fmt: skip


def check_probe():
    """With `probe`, which asks onnxruntime itself, the same nodes are claimed as by what the tables know."""
    counts = collections.Counter()
    for node, model in claimable():
        told, asked = (claimed(model, "missing", probe=probe) for probe in ("0", "1"))
        if told != asked:
            fail(f"{node} is claimed {'only' if asked else 'not'} where onnxruntime is asked")
        counts[asked] += 1
    if len(counts) < 2:
        fail(f"of the nodes about which onnxruntime was asked, {counts[True]} are claimed and {counts[False]} are not")
    print(f"  onnxruntime was asked, and runs {counts[False]} nodes, and not {counts[True]}", flush=True)


def main():
    parts = {"pairs": check_pairs, "claims": check_claims, "probe": check_probe}
    parts |= {"graphs": execution_provider_graphs.check, "real": real.check, "sessions": sessions.check}
    print(f"onnxruntime {onnxruntime.__version__}, {ep_name()}", flush=True)
    for name in sys.argv[1:] or list(parts):
        start = time.monotonic()
        parts[name]()
        print(f"  {name}: {time.monotonic() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
