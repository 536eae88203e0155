"""Casts in many threads at once, the interpreter's lock given up meanwhile, and casts in forked children."""

import os
import signal
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from bitwise import same

import onnx_cast

X = np.random.default_rng(3).standard_normal(3_000_000).astype(np.float32)
TARGETS = ("bfloat16", "float8e4m3fn", "int4", "double", "fp4", "int8")


def test_many_threads_get_the_same_results():
    want = {to: onnx_cast.cast(X, to, threads=1) for to in TARGETS}

    def work(index):
        to = TARGETS[index % len(TARGETS)]
        out = np.empty_like(want[to])
        onnx_cast.cast(X, to, out=out)
        same(out, want[to], to)
        small = X[index : index + 100]
        same(onnx_cast.cast(small, to, threads=1 + index % 2), want[to][index : index + 100], to)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(64)))


def test_other_threads_run_while_a_cast_does():
    x, out = np.zeros(1 << 24, np.uint8), np.empty(1 << 24, np.float16)
    inside, seen, end = threading.Event(), threading.Event(), time.monotonic() + 60

    def watch():
        inside.wait()
        seen.set()

    # No thread has to give way, so that another runs only where the cast lets it.
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        thread = threading.Thread(target=watch)
        thread.start()
        inside.set()
        while not seen.is_set() and time.monotonic() < end:
            onnx_cast.cast(x, "float16", out=out, threads=1)
        assert seen.is_set()
        thread.join()
    finally:
        sys.setswitchinterval(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_children_cast_large_arrays():
    want = onnx_cast.cast(X, "bfloat16")  # starts the threads, which no child has

    def child(depth):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of fork where there are threads
            pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.alarm(120)
                same(onnx_cast.cast(X, "bfloat16"), want)
                same(onnx_cast.cast(X, "int4"), onnx_cast.cast(X, "int4", threads=1))
                if depth:
                    child(depth - 1)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0

    child(2)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_a_signal_ends_a_long_cast():
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    x = np.broadcast_to(np.float32(1), (1 << 28,)).copy()
    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(Stop):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            while True:
                onnx_cast.cast(x, "uint8", threads=1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
