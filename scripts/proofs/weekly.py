#!/usr/bin/env python3
"""The proofs that take longer than a test run should, by name. A hosted workflow runs each of them once a week.

Usage: `weekly.py NAME...`, or `weekly.py --list`. Some need root, and install packages of Debian, of PyPI or of rustup;
docs/dev/testing.md explains them. The first command that fails ends the run with its status.
"""

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROOFS = "scripts/proofs"
SET_UP = ["python3 scripts/setup.py"]
COMMAND = ["cargo build --release --locked -p onnx-cast-cli"]
PACKAGE = [*SET_UP, ".venv/bin/python scripts/install_python_package.py"]
LIBRARY = ["cargo build --release --locked -p onnx-cast-capi"]
OWNERS = [
    *PACKAGE,
    ".venv/bin/python -m pip install --quiet --no-deps -r bench/peers/requirements-torch.txt",
    f".venv/bin/python -m pip install --quiet -r {PROOFS}/requirements.txt",
]

# What each proves, and its commands.
TABLE = {
    "values": ("all 2^32 values of the 32-bit types against the oracle", ["cargo xtask prove --isa all"]),
    "oracle": ("the oracle's two quick ways beside each other", ["cargo run --release -p testkit --bin whole-walk"]),
    "random": (
        "casts, texts and files at random, and of many and of large tensors",
        ["cargo test --release --locked -p fuzz-targets -- --runs 1000000", "cargo xtask load"],
    ),
    "naive": (
        "scaled casts of random shapes beside a naive implementation",
        ["env ONNX_CAST_ROUNDS=20000 cargo test --release --locked -p onnx-cast --test naive"],
    ),
    "owners": (
        "scaled casts and quantized checkpoints beside their owners' packages",
        [
            *[*COMMAND, *OWNERS],
            f".venv/bin/python {PROOFS}/scaled_peers.py",
            f".venv/bin/python {PROOFS}/scaled_codes.py target/release/onnx-cast",
            f".venv/bin/python {PROOFS}/quantized_layouts.py target/release/onnx-cast",
        ],
    ),
    "models": (
        "opsets raised, nested graphs and conversions, of more models than a test run has",
        [
            *PACKAGE,
            "env PYTHONPATH=.cache/onnx-newest .venv/bin/python scripts/checks/upgrade.py --all",
            ".venv/bin/python scripts/checks/nested.py --all",
            ".venv/bin/python scripts/checks/precision.py --nodes",
        ],
    ),
    "torch": ("torch tensors, and quantized checkpoints in transformers", ["bash scripts/test.sh --torch"]),
    "onnxruntime": (
        "the execution provider in every onnxruntime, and from Rust",
        [
            *[*PACKAGE, *LIBRARY],
            f".venv/bin/python {PROOFS}/onnxruntime_versions.py",
            f".venv/bin/python {PROOFS}/onnxruntime_rust.py target/release/libonnx_cast.so",
        ],
    ),
    "faults": (
        "kills, full disks, failing calls and little memory",
        [*SET_UP, *COMMAND, f".venv/bin/python {PROOFS}/faults.py --kills 50"],
    ),
    "files": ("6 GB, and 100,000 tensors, in little memory", [*SET_UP, *COMMAND, f".venv/bin/python {PROOFS}/load.py"]),
    "memcheck": ("the tests under valgrind", [*PACKAGE, f"bash {PROOFS}/memcheck.sh"]),
    "sanitizers": ("AddressSanitizer, ThreadSanitizer and Miri", [f"bash {PROOFS}/sanitizers.sh"]),
    "processors": (
        "the backends of other processors, emulated, and the tests on Windows by Wine",
        [
            *[f"bash {PROOFS}/emulated.sh --install {processor}" for processor in ("aarch64", "s390x", "i686", "wasm32")],
            f"bash {PROOFS}/configurations.sh i686",
            f"bash {PROOFS}/emulated.sh --install windows test -p onnx-cast -p onnx-cast-file --no-fail-fast",
        ],
    ),
    "configurations": ("the tests in every configuration", [f"bash {PROOFS}/configurations.sh --install debug release features bare backends oldest minimal systems"]),
    "supply-chain": (
        "the same bytes from two builds, and bills of materials",
        [f"bash {PROOFS}/supply_chain.sh reproducible", f"bash {PROOFS}/supply_chain.sh sbom"],
    ),
    "fuzzing": ("every reader and all arithmetic, fuzzed", [f"python3 {PROOFS}/fuzz.py --minutes 10"]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print what each proves and runs")
    options = parser.parse_args()
    if options.list:
        for name, (about, commands) in TABLE.items():
            print(f"{name}: {about}", *(f"  {command}" for command in commands), sep="\n")
        return
    if not options.names or set(options.names) - {*TABLE}:
        parser.error(f"want names of proofs, or --list: {', '.join(TABLE)}")
    for name in options.names:
        for command in TABLE[name][1]:
            print(f"=== {name}: {command}", flush=True)
            done = subprocess.run(shlex.split(command), cwd=ROOT, stdin=subprocess.DEVNULL)
            if done.returncode:
                sys.exit(done.returncode)


if __name__ == "__main__":
    main()
