#!/usr/bin/env python3
"""The library beside what people would use in its place.

Makes `.cache/peers-venv` with the pinned packages, builds the Rust peers, measures (measure.py) and writes the page
(record.py). Needs Python 3.11 or newer and, the first time, access to PyPI and crates.io.
"""

import argparse
import datetime
import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import element_types
import record

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "scripts")]

import harness  # noqa: E402 (they lie in other folders)
import setup  # noqa: E402

VENV = setup.CACHE / "peers-venv"
PYTHON = VENV / "bin" / "python"
LIBRARIES = ["numpy", "onnxruntime", "numkong", "half", "candle", "arrow", "gguf"]
WITH_TORCH = ["torch", "torchao"]
# In memory, and in the cache next to the nearest.
ELEMENTS = [16 << 20, 16 << 10]


def parse(arguments):
    parser = argparse.ArgumentParser(
        description="Measures every cast, and scaled casts, beside numpy+ml_dtypes, onnxruntime, NumKong, half, "
        "candle, arrow-cast, gguf and, if asked, PyTorch and torchao. `nice -n -15 python3 bench/peers/peers.py "
        "...` keeps most of the machine's other work out of it.",
    )
    say = parser.add_argument
    say("--elements", type=int, action="append", metavar="N", help="may be repeated (default: 16 Mi and 16 Ki)")
    say("--threads", type=int, default=1, metavar="N", help="for everyone who has them (default: 1)")
    say("--pairs", default="all", metavar="PAIRS", help="`FROM:TO,...`, `FROM:TO:SCALE,...`, `casts`, `scaled`, `all`")
    say("--torch", action="store_true", help="PyTorch and torchao too: 5 GB of packages, once")
    say("--peers", default="", metavar="NAME,...", help=f"only these: {', '.join([*WITH_TORCH, *LIBRARIES])}")
    say("--record", action="store_true", help="write records/peers.md; of all pairs, sizes and peers")
    options = parser.parse_args(arguments)
    is_whole = options.pairs == "all" and not options.elements and not options.peers
    options.elements = options.elements or ELEMENTS
    options.peers = [name for name in options.peers.split(",") if name]
    if min(options.elements) < 8 or max(options.elements) > 1 << 28 or any(n % 8 for n in options.elements):
        parser.error("--elements: want multiples of 8, from 8 to 2^28")
    if unknown := {*options.peers} - {*WITH_TORCH, *LIBRARIES}:
        parser.error(f"--peers: no peer is called {', '.join(sorted(unknown))}")
    if options.record and not is_whole:
        parser.error("--record: the page is of all pairs, sizes and peers")
    if not 1 <= options.threads <= (os.cpu_count() or 1):
        parser.error(f"--threads: want 1 to {os.cpu_count()}, as many as this machine runs at a time")
    try:
        element_types.parse_pairs(options.pairs)
    except ValueError as error:
        parser.error(f"--pairs: {error}")
    options.torch = options.torch or bool({*WITH_TORCH} & {*options.peers})
    return options


def prepare(with_torch):
    """Installs the peers and builds those in Rust. Gives the library's path."""

    def pip(requirements):
        flags = ["--disable-pip-version-check", "--no-input", "--quiet", "--no-deps"]
        setup.run(PYTHON, "-m", "pip", "install", *flags, "-r", requirements)

    def make_venv():
        setup.run(sys.executable, "-m", "venv", "--clear", VENV)
        pip(HERE / "requirements.txt")

    basic, torch = HERE / "requirements.txt", HERE / "requirements-torch.txt"
    python = f"{sys.executable} {sys.version}"
    setup.step("peers in .cache/peers-venv", VENV / "onnx-cast-peers", [python, VENV, basic.read_text()], make_venv)
    if with_torch:
        inputs = [python, VENV, basic.read_text(), torch.read_text()]
        setup.step("PyTorch", VENV / "onnx-cast-torch", inputs, lambda: pip(torch))
    target = setup.CACHE / "peers-target"
    manifest = HERE / "Cargo.toml"
    setup.run("cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest, "--target-dir", target)
    return target / "release" / ("libonnx_cast_peers.dylib" if sys.platform == "darwin" else "libonnx_cast_peers.so")


def versions(names):
    """What is measured, by the files that pin it."""
    pinned = {}
    for path in (HERE / "requirements.txt", HERE / "requirements-torch.txt"):
        lines = (line for line in path.read_text().splitlines() if "==" in line and not line.startswith("#"))
        pinned.update(line.split("==") for line in lines)
    locked = tomllib.loads((HERE / "Cargo.lock").read_text())["package"]
    pinned.update((package["name"], package["version"]) for package in locked if package["name"] not in pinned)
    packages = {"numpy": ["numpy", "ml_dtypes"], "candle": ["candle-core"], "arrow": ["arrow-cast"]}
    wanted = [package for name in names for package in packages.get(name, [name])]
    rustc = subprocess.check_output(["rustc", "--version"], text=True).split()[1]
    commit = subprocess.check_output(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], text=True).strip()
    # Of ours the version says little.
    return {"onnx-cast": commit} | {package: pinned[package] for package in wanted} | {"rustc": rustc}


def measure(library, names, elements, options):
    """Runs the measurement, tells how it goes, and gives the section."""
    # The threads of everyone who counts them by the environment.
    threads = str(options.threads)
    env = dict(os.environ) | {"RAYON_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [PYTHON, HERE / "measure.py", "--library", library, "--libraries", ",".join(names)]
    command += ["--elements", elements, "--threads", threads, "--pairs", options.pairs]
    section = {
        "elements": elements,
        "threads": options.threads,
        "date": datetime.date.today().isoformat(),
        "machine": harness.machine(),
        "command": shlex.join(["python3", "bench/peers/peers.py", *sys.argv[1:]]),
        "versions": versions(names),
        "rows": [],
    }
    with subprocess.Popen([str(part) for part in command], env=env, stdout=subprocess.PIPE, text=True) as process:
        section["isa"] = json.loads(process.stdout.readline() or "{}").get("isa")
        for line in process.stdout:
            row = json.loads(line)
            section["rows"].append(row)
            peer = record.fastest(row)
            ratio = record.advantage(row)
            beside = f"{record.NAMES[peer]} {row['peers'][peer]:.1f}, ratio {ratio:.2f}" if peer else "no peer"
            names = f"{row['from']:14} {row['to']:14} {row.get('scale', ''):6}"
            print(f"{names} {row['ours']:7.1f} GB/s, memcpy {row['memcpy']:.1f}, {beside}", flush=True)
    if process.returncode:
        sys.exit(f"peers: measuring failed with status {process.returncode}")
    return section


def main():
    options = parse(sys.argv[1:])
    library = prepare(options.torch)
    names = options.peers or (["numpy", *WITH_TORCH, *LIBRARIES[1:]] if options.torch else LIBRARIES)
    sections = []
    for elements in options.elements:
        print(f"{record.named(elements)} elements, {record.counted(options.threads, 'thread')}", flush=True)
        sections.append(measure(library, names, elements, options))
        for rows in filter(None, record.split(sections[-1])):
            print(record.summary(rows).replace("**", ""))
    print(record.readme(sections))
    if options.record:
        harness.rewrite("peers.md", record.markdown(sections))


if __name__ == "__main__":
    main()
