"""Casts in many threads at once, the interpreter's lock given up meanwhile, and casts in forked children."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from bitwise import same
from safetensors.numpy import save_file

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


def test_threads_share_arrays_results_and_operators_at_their_first_use():
    together, names = threading.Barrier(8), ("bfloat16", "float8e4m3fn", "int4", "string")
    x = np.linspace(-3, 3, 40_000, dtype=np.float32)
    want = {to: onnx_cast.cast(x, to, threads=2) for to in names}
    outs = {to: np.empty_like(want[to]) for to in names}

    def work(index):
        together.wait()
        for turn in range(24):
            to = names[(index + turn) % len(names)]
            # Attributes that no one has asked for yet, by all threads at once, and one array that all of them write.
            got = onnx_cast.cast(x, to, threads=100 + turn)
            onnx_cast.cast(x, to, out=outs[to])
            if to == "string":
                assert got.tolist() == want[to].tolist()
                continue
            same(got, want[to], to)
            assert onnx_cast.stats(x, to) == onnx_cast.stats(x, to, threads=1)
            if got.dtype.name == "int4":
                same(onnx_cast.unpack(onnx_cast.pack(got), to, got.shape), got)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    for to, out in outs.items():
        assert out.tolist() == want[to].tolist(), to


def others_run_during(call):
    """Asserts that another thread runs during a call, which is repeated until one does."""
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
            call()
        assert seen.is_set()
        thread.join()
    finally:
        sys.setswitchinterval(before)


def test_other_threads_run_while_a_cast_does():
    x, out = np.zeros(1 << 24, np.uint8), np.empty(1 << 24, np.float16)
    others_run_during(lambda: onnx_cast.cast(x, "float16", out=out, threads=1))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_children_cast_large_arrays():
    want = onnx_cast.cast(X, "bfloat16")  # starts the threads, which no child has
    narrow = onnx_cast.cast(X, "float6e2m3")

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
                same(onnx_cast.unpack(onnx_cast.pack(narrow), "float6e2m3", X.shape), narrow)
                if depth:
                    child(depth - 1)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0

    child(2)


def cast_and_quantize(folder, number):
    """A job on a file, scales found over threads, and a large cast; returns the bytes of all three."""
    out = folder / f"{number}.safetensors"
    onnx_cast.quantize_file(folder / "w.safetensors", out, to="float8e4m3fn")
    blocks = onnx_cast.quantize_blocks(X[:2_999_968], "nvfp4")
    results = [array.tobytes() for array in (onnx_cast.cast(X, "bfloat16"), blocks.elements, blocks.scales)]
    return [*results, out.read_bytes()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_children_work_after_casts_and_after_jobs_on_files(tmp_path):
    save_file({"model.layers.0.mlp.up_proj.weight": X[:2_097_152].reshape(2048, 1024)}, tmp_path / "w.safetensors")
    want = cast_and_quantize(tmp_path, 0)
    context = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with context.Pool(2) as pool:
            for got in pool.starmap_async(cast_and_quantize, [(tmp_path, 1), (tmp_path, 2)], 1).get(timeout=300):
                assert got == want


class Stop(Exception):
    pass


@contextlib.contextmanager
def interrupted_soon():
    """An exception of a signal's, as Ctrl-C gives one, a thousandth of a second from now."""

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_a_signal_ends_a_long_cast():
    x, out = np.ones(1 << 28, np.uint8), np.zeros(1 << 28, np.int8)
    with pytest.raises(Stop), interrupted_soon():
        onnx_cast.cast(x, "int8", out=out, threads=1)
    assert out[-1] == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_a_signal_ends_a_long_cast_of_texts():
    operator = onnx_cast._operators.operator("Cast", "float", True, "up", None, None)
    texts = ["1.5"] * (1 << 22) + [None]  # the last of which is an error, if it comes so far
    with pytest.raises(Stop), interrupted_soon():
        operator.parse(texts, (len(texts),), None, False)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_a_signal_ends_a_long_cast_of_an_array_of_texts():
    texts = np.full(1 << 22, "1.5", np.dtypes.StringDType())
    texts[-1] = "no number"
    with pytest.raises(Stop), interrupted_soon():
        onnx_cast.cast(texts, "float")


#: Runs a job, with room for no thread's stack. Whatever does not fit is a ``MemoryError``.
WITHOUT_THREADS = """
import resource, sys
import numpy as np, onnx_cast, onnx_cast.layouts
x = np.arange(1 << 22, dtype=np.float32).reshape(2048, 2048)
small, halves, bytes_ = x[:16, :16].copy(), np.empty(x.shape, np.float16), np.empty(x.shape, np.uint8)
blocks = onnx_cast.quantize_blocks(x, "nvfp4", threads=1)
jobs = {
    "cast": lambda x: onnx_cast.cast(x, "float16", out=halves if x.size == halves.size else None),
    "strided": lambda x: onnx_cast.cast(x.T, "float16", out=halves if x.size == halves.size else None),
    "stats": lambda x: onnx_cast.stats(x, "int8"),
    "dynamic": lambda x: onnx_cast.dynamic_quantize_linear(x, out=bytes_ if x.size == bytes_.size else None),
    "blocks": lambda x: onnx_cast.quantize_blocks(x, "nvfp4", out=blocks if x.size == halves.size else None),
    "report": lambda x: onnx_cast.report(x[:64], ["float16"]),
    "progress": lambda x: onnx_cast.report(x[:64], ["float16"], progress=lambda *_: None),
    "layouts": lambda x: onnx_cast.layouts.quantize({"model.layers.0.mlp.up_proj.weight": x[:64]}, "int8/row"),
}
job = jobs[sys.argv[1]]
job(small)  # which loads modules
(size,) = (int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 20),) * 2)
try:
    job(x)
except MemoryError as error:
    print(f"no memory {error}")
else:
    print("done")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="this system does not tell how much memory is used")
@pytest.mark.parametrize("job", ["cast", "strided", "stats", "dynamic", "blocks", "report", "progress", "layouts"])
def test_a_process_that_cannot_start_threads_works_without_them(job):
    run = subprocess.run([sys.executable, "-c", WITHOUT_THREADS, job], capture_output=True, text=True)
    # The jobs of files need buffers.
    allowed = ("done", "no memory") if job in ("report", "progress", "layouts") else "done"
    assert run.stdout.startswith(allowed), run.stdout + run.stderr
