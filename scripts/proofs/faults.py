#!/usr/bin/env python3
"""Does the command leave whole files, whatever happens to it?

Starts it over and over, ends it by SIGKILL, SIGINT or SIGTERM at a random moment, starts it twice at once, fills its
disk, takes its folder away, cuts its input short or removes it while it reads; has its calls that read and write
interrupted and cut short, and each of them fail in turn (faults.c); gives it little memory; and looks each time whether
every output is, byte for byte, what it was before or what it should become, and whether anything else is left. Casts of
a file, of a checkpoint in several files (gone on with by --resume), which is also quantized, dequantized and
transcoded, of an archive, and of a model with external data in place, where a process that reads the model at any
moment must find a whole one.

Usage: faults.py [--kills N] [--seed N] [--only CASE] [--record FILE]. The disk is a small tmpfs, which only root may
mount; faults of calls need a C compiler.
"""

import argparse
import json
import os
import platform
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
from safetensors.numpy import save_file

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "scripts" / "checks")]

import graphs  # noqa: E402
import harness  # noqa: E402

OTHER = {"float8e4m3fn": "float8e5m2", "float16": "bfloat16", "bfloat16": "float16", "bf16": "float16", "nvfp4": "mxfp4"}
COMMAND = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "onnx-cast"


def fail(text):
    sys.exit(f"faults: {text}")


def run(folder, arguments, check=True, **more):
    options = {"cwd": folder, "stdin": subprocess.DEVNULL, "capture_output": True, "text": True} | more
    done = subprocess.run([COMMAND, *arguments], **options)
    if check and done.returncode:
        fail(f"onnx-cast {' '.join(arguments)}: status {done.returncode}: {done.stderr}")
    return done


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def put(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def weights(count, size):
    rng = np.random.default_rng(count)
    return {f"w{i}": rng.standard_normal(size).astype(np.float32) for i in range(count)}


class Case:
    """A command, the files that it starts from, and those that it makes of them."""

    def __init__(self, name, arguments, folder):
        self.name, self.arguments, self.folder = name, arguments, folder
        self.resumes, self.left = "--resume" in arguments, 0
        self.in_place = arguments[2] == arguments[3]
        self.before = contents(folder)
        start = time.perf_counter()
        run(folder, arguments)
        self.seconds = time.perf_counter() - start
        self.after = contents(folder)
        if self.after == self.before:
            fail(f"{name}: the command changes nothing")

    def found(self, what):
        """The files that there are now, without what a kill may leave: a second name of a new file."""
        now = contents(self.folder)
        for name in [name for name in now if Path(name).name.startswith(".onnx-cast-")]:
            if "SIGKILL" not in what or now.pop(name) not in self.after.values():
                fail(f"{self.name}, {what}: {name} is left")
            self.left += 1
        return now

    def look(self, what):
        """What the files are now: old or new, or, of several, some old and some new."""
        now = self.found(what)
        kinds = set()
        for name in self.before.keys() | self.after.keys() | now.keys():
            states = [files.get(name) for files in (self.before, self.after)]
            if self.is_whole(name, now, states):
                continue
            if now.get(name) not in states:
                fail(f"{self.name}, {what}: {name} is neither what it was nor what it should become")
            if states[0] != states[1]:
                kinds.add("old" if now.get(name) == states[0] else "new")
        return "mixed" if len(kinds) == 2 else kinds.pop()

    def is_whole(self, name, now, states):
        return False

    def reset(self):
        put(self.folder, self.before)


class InPlace(Case):
    """A model and its elements, which are not to be judged one by one: a reader of the model must find a complete
    one."""

    def is_whole(self, name, now, states):
        # Left where the command is killed within the exchange; the model may refer to it.
        return name.endswith(".new")

    def look(self, what):
        sides = []
        for name, files in ("old", self.before), ("new", self.after):
            with tempfile.TemporaryDirectory() as other:
                put(Path(other) / "files", files)
                arguments = ["diff", "m.onnx", str(Path(other) / "files" / "m.onnx")]
                if run(self.folder, arguments, check=False).returncode == 0:
                    sides.append(name)
        if len(sides) != 1:
            fail(f"{self.name}, {what}: the model is {sides or 'neither the old one nor the new one'}")
        names = self.found(what).keys() - self.before.keys() - self.after.keys()
        if any(not name.endswith(".new") for name in names):
            fail(f"{self.name}, {what}: {sorted(names)} are left")
        return sides[0]


def in_files(folder, parts, config=None):
    """A checkpoint in files, with its index."""
    folder.mkdir()
    places = {}
    for number, tensors in enumerate(parts, 1):
        file = f"model-{number:05}-of-{len(parts):05}.safetensors"
        save_file(tensors, folder / file)
        places |= dict.fromkeys(tensors, file)
    size = sum(value.nbytes for tensors in parts for value in tensors.values())
    index = {"metadata": {"total_size": size}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    if config:
        (folder / "config.json").write_text(json.dumps(config))


def one(inner):
    save_file(weights(3, 1 << 21), inner / "in.safetensors")
    (inner / "out.safetensors").write_bytes(b"old")


def shards(inner):
    parts = [{f"{name}.{shard}": one for name, one in weights(2, 1 << 19).items()} for shard in range(4)]
    in_files(inner / "in", parts)


def matrices(inner, name="in"):
    """Weights of Linear layers in several files."""
    values = [value.reshape(1024, -1) for value in weights(2, 1 << 19).values()]
    parts = [{f"layers.{2 * shard + i}.proj.weight": one for i, one in enumerate(values)} for shard in range(4)]
    in_files(inner / name, parts, {"torch_dtype": "float32"})


def quantized(inner):
    matrices(inner, "plain")
    run(inner, ["quantize", "-q", "plain", "in", "--to", "nvfp4"])
    shutil.rmtree(inner / "plain")


def archive(inner):
    np.savez_compressed(inner / "in.npz", **weights(3, 1 << 17))


def outside(name):
    return {"save_as_external_data": True, "location": f"{name}.data"}


def model(inner):
    arrays = weights(4, 1 << 19)
    sizes = " ".join(f"{name}_size = Size({name})" for name in arrays)
    outputs = ", ".join(f"int64 {name}_size" for name in arrays)
    made = graphs.model(f"() => ({outputs}) {{ {sizes} }}", opset=21, ir=10, **arrays)
    onnx.save(made, inner / "m.onnx", **outside("m.onnx"))


def network(inner, opset=11, **storage):
    """Matrix products, by default at an opset from which on operators change."""
    arrays = {name: value.reshape(1024, -1)[:, :1024] for name, value in weights(4, 1 << 20).items()}
    nodes = " ".join(f"x{i + 1} = MatMul(x{i}, {name})" for i, name in enumerate(arrays))
    text = f"(float[2,1024] x0) => (float[2,1024] y) {{ {nodes} y = Softmax(x{len(arrays)}) }}"
    onnx.save(graphs.model(text, opset=opset, ir=6, **arrays), inner / "in.onnx", **storage)


def pair(inner):
    network(inner, 13, **outside("in.onnx"))


class Pair(Case):
    """A new model and its elements: only SIGKILL may leave these without it."""

    def is_whole(self, name, now, states):
        return name == "out.onnx.data" and "out.onnx" not in now and now.get(name) == states[1] and self.is_killed

    def look(self, what):
        self.is_killed = "SIGKILL" in what
        return super().look(what)


# The class of a case, what makes its files, and the command. A checkpoint in several files goes on with --resume.
CASES = {
    "a file": (Case, one, "cast -q in.safetensors out.safetensors --to float8e4m3fn"),
    "in place": (Case, one, "cast -q in.safetensors in.safetensors --to float16"),
    "several files": (Case, shards, "cast -q in out --to bfloat16 --resume"),
    "quantize": (Case, matrices, "quantize -q in out --to nvfp4 --resume"),
    "dequantize": (Case, quantized, "dequantize -q in out --to bf16 --resume"),
    "transcode": (Case, quantized, "transcode -q in out --layout modelopt --resume"),
    "an archive": (Case, archive, "cast -q in.npz out.npz --to float16"),
    "convert": (Case, network, "convert -q in.onnx out.onnx --to float16"),
    "a model": (Pair, pair, "cast -q in.onnx out.onnx --to float16"),
    "upgrade": (Case, network, "upgrade -q in.onnx out.onnx"),
    "a model in place": (InPlace, model, "cast -q m.onnx m.onnx --to float16"),
}


def cases(folder, only):
    for name, (kind, make, command) in CASES.items():
        if name in (only or CASES):
            (folder / name).mkdir()
            make(folder / name)
            arguments = command.split()
            yield kind(name, [*arguments, *(["--force"] if "--resume" not in arguments else [])], folder / name)


def start(case, arguments=None):
    words = [COMMAND, *(arguments or case.arguments)]
    return subprocess.Popen(words, cwd=case.folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def signalled(case, number, rounds, rng):
    """Ends the command at random moments."""
    seen = Counter()
    case.left = 0
    for _ in range(rounds):
        case.reset()
        child = start(case)
        time.sleep(rng.uniform(0, 1.1 * case.seconds))
        child.send_signal(number)
        said = child.stderr.read()
        if child.wait() not in (0, -number):
            fail(f"{case.name}: status {child.returncode}: {said}")
        ended = child.returncode != 0
        state = case.look(f"after {number.name}")
        if (state == "mixed" and not case.resumes) or (not ended and state != "new"):
            fail(f"{case.name}: {state} after {'a signal' if ended else 'it was done'}")
        seen["ended" if ended else "was done"] += 1
        seen[state] += 1
        if case.resumes:
            run(case.folder, case.arguments)
            if case.look("resumed after SIGKILL") != "new":
                fail(f"{case.name}: resumed, it is not what it should become")
    if case.left:
        seen["left a second name"] = case.left
    return seen


def two_at_once(case, rng, rounds):
    """Starts the command twice, with another target the second time: the files are all of one of them. A second one
    that finds the folder, or a new model, taken is an error, and in place it may find that the first has done its
    work."""
    seen = Counter()
    at = next(place for place, word in enumerate(case.arguments) if word in OTHER)
    other = [*case.arguments[:at], OTHER[case.arguments[at]], *case.arguments[at + 1:]]
    case.reset()
    run(case.folder, other)
    results = [case.after, contents(case.folder)]
    for _ in range(rounds):
        case.reset()
        if rng.random() < 0.5 and not case.in_place:
            run(case.folder, case.arguments)
        children = []
        for arguments in (case.arguments, other):
            children.append(start(case, arguments))
            time.sleep(rng.uniform(0, case.seconds / 8))
        for child in children:
            said = child.communicate()[1]
            if child.returncode not in (0, 2) or child.returncode and "another" not in said:
                fail(f"{case.name}, two at once: status {child.returncode}: {said}")
            seen["refused" if child.returncode else "done"] += 1
        if all(child.returncode for child in children) or contents(case.folder) not in results and not case.in_place:
            fail(f"{case.name}, two at once: a mixture, {[child.returncode for child in children]}")
    return seen


def on_disk(case, rng, rounds, options, says):
    """Runs the command on a disk that is too small, or that takes no file."""
    seen = Counter()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as mount:
            needs = sum(map(len, case.before.values()))
            made = sum(len(content) for name, content in case.after.items() if content != case.before.get(name))
            more = int(rng.uniform(0, 0.9) * made)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={needs + more + (64 << 10)}", "none", mount], check=True)
            try:
                put(Path(mount) / "files", case.before)
                if options:
                    subprocess.run(["mount", "-o", f"remount,{options}", mount], check=True)
                done = run(Path(mount) / "files", case.arguments, check=False)
                folder, case.folder = case.folder, Path(mount) / "files"
                state = case.look(says)
                case.folder = folder
            finally:
                subprocess.run(["umount", mount], check=True)
        if done.returncode != 2 or says not in done.stderr.lower() or (state == "new") or (state == "mixed" and not case.resumes):
            fail(f"{case.name}: {state}, status {done.returncode}: {done.stderr}, want {says}")
        seen["refused"] += 1
        seen[state] += 1
    return seen


def disturbed(case, rng, rounds, what, part, disturb):
    """Cuts the input short or removes it while it is read, within a part of the time that takes, or before: a command
    that has it open may go on."""
    seen = Counter()
    source = case.folder / case.arguments[2]
    for _ in range(rounds):
        case.reset()
        child = start(case)
        time.sleep(rng.uniform(0, part * case.seconds))
        disturb(source)
        said = child.stderr.read()
        child.wait()
        source.write_bytes(case.before[source.name])
        judge(case, what, child.returncode, said, seen)
    return seen


def judge(case, what, status, said, seen):
    """Done, with what is new, or refused with a text, with what is old; of what goes on later, some of both."""
    state = case.look(what)
    if (status, state) not in ((0, "new"), (2, "old")) and not (case.resumes and (status, state) == (2, "mixed")):
        fail(f"{case.name}, {what}: {state}, status {status}: {said}")
    if status and not said.startswith("onnx-cast: error: "):
        fail(f"{case.name}, {what}: it says {said!r}")
    seen["refused" if status else "was done"] += 1
    seen[state] += 1


def compiled(folder):
    """The library that makes calls fail, if there is a compiler."""
    library = folder / "faults.so"
    command = [os.environ.get("CC", "cc"), "-O1", "-shared", "-fPIC", "-o", library]
    try:
        subprocess.run([*command, Path(__file__).with_name("faults.c"), "-ldl"], check=True)
    except OSError:
        return None
    return library


def with_library(case, library, **variables):
    """Runs the command with the library; gives its status and what it says."""
    env = os.environ | {"LD_PRELOAD": str(library)} | {name: str(value) for name, value in variables.items()}
    done = run(case.folder, case.arguments, check=False, env=env)
    return done.returncode, done.stderr


def interrupted(case, library, rng, rounds):
    """Calls that read and write give EINTR, or do less than they were asked for: the output must be the same."""
    seen = Counter()
    for _ in range(rounds):
        case.reset()
        status, said = with_library(case, library, FAULTS=rng.randrange(1 << 32))
        judge(case, "interrupted", status, said, seen)
        if status:
            fail(f"{case.name}, interrupted: {said}")
    return seen


def every_call(case, library, kind, scratch):
    """Each call that reads, or that writes, fails once: EIO, or a full disk."""
    seen = Counter()
    case.reset()
    counted = scratch / "counted"
    with_library(case, library, COUNTED=counted)
    calls = int(counted.read_text().split()[("READ", "WRITE").index(kind)])
    for nth in range(1, calls + 1):
        case.reset()
        status, said = with_library(case, library, **{f"{kind}_FAILS": nth})
        if kind == "WRITE" and status == 0:
            fail(f"{case.name}: write {nth} of {calls} fails without an error")
        judge(case, f"{kind.lower()} {nth} fails", status, said, seen)
    return seen


def little_memory(case, rng, rounds):
    """A limit to the address space: a panic never, an error where a size is refused. Where the loader or the smallest
    request has no memory, the process ends by itself; then too the files are as they were."""
    # With it Rust's standard library, out of memory, waits for itself where it would tell of that.
    env = {name: value for name, value in os.environ.items() if name != "RUST_BACKTRACE"}
    seen = Counter()
    for _ in range(rounds):
        case.reset()
        limit = int(8e6 * 50 ** rng.random())
        set_limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        done = run(case.folder, case.arguments, check=False, env=env, timeout=600, preexec_fn=set_limit)
        # The standard library's own, before `main`: it has no memory for the stack of its signal handler.
        before_main = "failed to allocate an alternative stack" in done.stderr
        if "panicked" in done.stderr and not before_main:
            fail(f"{case.name}, {limit} bytes of memory: {done.stderr}")
        if done.returncode in (0, 2):
            judge(case, f"{limit} bytes of memory", done.returncode, done.stderr, seen)
        elif done.returncode in (127, -signal.SIGSEGV, -signal.SIGABRT) and case.look("little memory") in ("old", "mixed"):
            seen["not loaded" if done.returncode != -signal.SIGABRT else "no memory at all"] += 1
            seen["old"] += 1
        else:
            fail(f"{case.name}, {limit} bytes of memory: status {done.returncode}: {done.stderr}")
    return seen


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=40, help="rounds of each case; a tenth as many of those that mount")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="this case alone, as quantize; may be repeated")
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.randrange(1 << 32)
    rng = random.Random(seed)
    # Shells have what they start in the background ignore it, and so would the command.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not COMMAND.exists():
        fail(f"{COMMAND} is missing: run `cargo build --release -p onnx-cast-cli`")
    rows, few, some = [], max(args.kills // 10, 1), max(args.kills // 4, 1)

    def note(fault, case, seen):
        told = ", ".join(f"{count} {what}" for what, count in sorted(seen.items()))
        rows.append([fault, case.name, told])
        print(*rows[-1], sep=" | ", flush=True)

    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        library = compiled(Path(other))
        for case in cases(Path(folder), args.only):
            for number, rounds in (signal.SIGKILL, args.kills), (signal.SIGINT, some), (signal.SIGTERM, some):
                note(number.name, case, signalled(case, number, rounds, rng))
            if OTHER.keys() & set(case.arguments):
                note("two at once", case, two_at_once(case, rng, some))
            if os.geteuid() == 0 and platform.system() == "Linux":
                note("full disk", case, on_disk(case, rng, few, "", "no space left on device"))
                note("read-only", case, on_disk(case, rng, 1, "ro", "read-only file"))
            if case.name == "a file":
                cut = lambda path: os.truncate(path, rng.randrange(8, path.stat().st_size))
                note("cut short", case, disturbed(case, rng, args.kills, "cut short", 1, cut))
                note("vanishing", case, disturbed(case, rng, args.kills, "vanished", 1 / 4, Path.unlink))
            if library:
                note("EINTR, short calls", case, interrupted(case, library, rng, few))
                note("each read fails", case, every_call(case, library, "READ", Path(other)))
                note("each write fails", case, every_call(case, library, "WRITE", Path(other)))
            if platform.system() == "Linux":
                note("little memory", case, little_memory(case, rng, max(args.kills // 4, 1)))
    minutes = (time.perf_counter() - start) / 60
    print(f"every file was what it was or what it should become ({minutes:.1f} minutes, seed {seed})")
    if args.record:
        only = "".join(f' --only "{name}"' for name in args.only)
        text = f"`scripts/proofs/faults.py --kills {args.kills} --seed {seed}{only}`, {minutes:.1f} minutes"
        harness.record(args.record, "", text, harness.table(["fault", "case", "outcomes"], rows))


if __name__ == "__main__":
    main()
