"""Threads, many sessions, and a library that is unregistered while a session lives, for `execution_provider.py`."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from pathlib import Path

import execution_provider_nodes as nodes
import numpy as np
import onnx_cast
import onnxruntime
from onnx_cast import dtypes as t
from onnx_cast.onnxruntime import from_ortvalue, register, session_options, to_ortvalue
from shared import fail

# Sessions that are made before growth is measured, and after.
WARM, SESSIONS = 200, 1000
# What memory may grow by meanwhile: less than 100 bytes a session.
MOST_GROWTH = 100 << 10


def model():
    there_and_back = [nodes.cast("x", "h", nodes.narrow()), nodes.cast("h", "y", t.float)]
    return nodes.model(there_and_back, [nodes.value("x", t.float)], [nodes.value("y", t.float)], 23)


def session():
    return nodes.quiet_session(model(), session_options("all"))


def want(x):
    return onnx_cast.cast(onnx_cast.cast(x, nodes.narrow().number, opset=23), "float")


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


def check_growth():
    """Sessions leave nothing behind."""
    x = nodes.hard_values(t.float)[:100]
    before = 0
    for turn in range(WARM + SESSIONS):
        if turn == WARM:
            before = resident()
        session().run(None, {"x": x})
    growth = resident() - before
    if growth > MOST_GROWTH:
        fail(f"{SESSIONS} sessions leave {growth} bytes behind (want {MOST_GROWTH} at most)")
    print(f"  {SESSIONS} sessions: {growth} bytes more", flush=True)


PROGRAM = """
import sys; sys.path.insert(0, sys.argv[1])
import execution_provider_sessions as own, numpy as np, onnxruntime
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
            nodes.quiet_session(model(), options, enable_fallback=0)
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


def check():
    nodes.each_part(check_refusals, check_values, check_threads, check_unregister, check_growth)
