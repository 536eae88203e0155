#!/usr/bin/env python3
"""The proofs that take longer than a test run should, by name. A hosted workflow runs each of them once a week.

Usage: `weekly.py NAME...`, or `weekly.py --list`; a configuration (`weekly.py features backends`) has a name too. Some need
root, and install packages of Debian, of PyPI or of rustup; docs/dev/testing.md explains them. A command that fails ends
its proof, and is named at the end.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
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
# Every onnxruntime that has execution providers of plugins: pairs at every optimization level.
RUNTIMES = ("1.23.2", "1.24.1", "1.26.0", "1.31.1", "1.32.0")
RUNTIME = [
    ".venv/bin/python -m pip install --quiet --no-deps --upgrade --target .cache/onnxruntime/{0} onnxruntime=={0}",
    "env PYTHONPATH=.cache/onnxruntime/{0} EP_LEVELS=all .venv/bin/python scripts/checks/execution_provider.py",
]
# What the manifests promise.
OLDEST = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
# A target without a standard library.
BARE = "thumbv7em-none-eabi"
SYSTEMS, SYSTEM_PACKAGES = ("x86_64-pc-windows-gnu", "aarch64-apple-darwin"), "-p onnx-cast-cli -p onnx-cast-capi --tests"
TESTS = "-p onnx-cast -p onnx-cast-file -p onnx-cast-capi --tests --no-fail-fast"
CORE = "profile.dev.package.onnx-cast.opt-level"

# The tests in configurations that the test run does not have, each by its name too.
CONFIGURATIONS = {
    # Only the oracle is optimized, which is waited for the most.
    "debug": [
        *SET_UP,
        f"cargo test --locked {TESTS} --config profile.dev.opt-level=0 --config {CORE}=0 --config"
        " profile.dev.package.testkit.opt-level=3 --config 'profile.dev.package.\"*\".opt-level=3'",
    ],
    "release": [*SET_UP, f"cargo test --locked --release {TESTS}"],
    "features": [
        "cargo test --locked -p onnx-cast --no-default-features --no-fail-fast",
        "cargo test --locked -p onnx-cast-capi --no-default-features --no-fail-fast",
        "cargo clippy --locked -p onnx-cast --no-default-features --features std -- -D warnings",
        "cargo clippy --locked -p onnx-cast-capi --no-default-features -- -D warnings",
    ],
    "bare": [
        f"rustup target add {BARE}",
        f"cargo build --locked -p onnx-cast --no-default-features --features libm,half,bytemuck,serde --target {BARE}",
    ],
    # The variable decides which backend is the best one: that of everything that names none.
    "backends": [*SET_UP, f"env ONNX_CAST_ISA={{isa}} cargo test --locked {TESTS} -p onnx-cast-cli"],
    # That one itself; and what a newer one can say of it.
    "oldest": [
        *SET_UP,
        f"rustup toolchain install {OLDEST}.0 --profile minimal",
        "cargo clippy --locked --workspace --all-targets -- -D clippy::incompatible_msrv",
        "cargo test --locked -p testkit --test dependencies",
        f"cargo +{OLDEST}.0 test --locked {TESTS} -p onnx-cast-cli",
    ],
    # The oldest dependencies that the manifests allow. The option is for nightly compilers; the variable has a stable one
    # take it.
    "minimal": [
        "env -C {copy} RUSTC_BOOTSTRAP=1 cargo update -Z direct-minimal-versions",
        "env CARGO_TARGET_DIR={targets}/minimal cargo check --manifest-path {copy}/Cargo.toml --locked --workspace"
        f" --exclude fuzz-targets --all-features --config {CORE}=0",
    ],
    # Compiled up to where it is linked.
    "systems": [
        f"rustup target add {' '.join(SYSTEMS)}",
        *[f"cargo check --locked --target {one} {SYSTEM_PACKAGES} --config {CORE}=0" for one in SYSTEMS],
    ],
}
# What test.yml runs on macOS and Windows.
HOST = [*SET_UP, f"cargo test --locked {TESTS} -p onnx-cast-model -p onnx-cast-cli"]

# What each proves, and its commands.
TABLE = {
    "values": ("all 2^32 values of the 32-bit types against the oracle", ["cargo prove --isa all"]),
    "oracle": ("the oracle's two quick ways beside each other", ["cargo run --release -p testkit --bin whole-walk"]),
    "random": (
        "casts, texts and files at random, and large tensors",
        ["cargo test --release --locked -p fuzz-targets -- --runs 1000000", "cargo prove large"],
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
    "loaders": (
        "the rules of the newest vLLM, SGLang and transformers, beside those in use",
        ["python3 scripts/loaders/tables.py --check"],
    ),
    "vllm": (
        "quantized checkpoints in vLLM's models on a CPU, beside what check says of them",
        [
            *COMMAND,
            "python3 -m venv .cache/vllm",
            f".cache/vllm/bin/python -m pip install --quiet --no-deps -r {PROOFS}/requirements-vllm.txt",
            f".cache/vllm/bin/python {PROOFS}/vllm_loads.py target/release/onnx-cast",
            f".cache/vllm/bin/python {PROOFS}/vllm_loads.py target/release/onnx-cast llama --run",
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
    "pages": (
        "the pages of reports, conversions and explanations, in a browser",
        [*COMMAND, *PACKAGE, f"bash {PROOFS}/pages.sh"],
    ),
    "torch": ("torch tensors, and quantized checkpoints in transformers", ["bash scripts/test.sh --torch"]),
    "onnxruntime": (
        "the execution provider in every onnxruntime, and from Rust",
        [
            *[*PACKAGE, *LIBRARY],
            *[command.format(version) for version in RUNTIMES for command in RUNTIME],
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
            *[f"bash {PROOFS}/emulated.sh --install {processor}" for processor in ("aarch64", "s390x", "wasm32")],
            f"bash {PROOFS}/emulated.sh --install i686",
            f"bash {PROOFS}/emulated.sh i686 test {TESTS}",
            f"bash {PROOFS}/emulated.sh --install windows test -p onnx-cast -p onnx-cast-file --no-fail-fast",
        ],
    ),
    "configurations": ("the tests in every configuration", sum(CONFIGURATIONS.values(), [])),
    "supply-chain": (
        "the same bytes from two builds, and bills of materials",
        [f"bash {PROOFS}/supply_chain.sh reproducible", f"bash {PROOFS}/supply_chain.sh sbom"],
    ),
    "fuzzing": ("every reader and all arithmetic, fuzzed", [f"python3 {PROOFS}/fuzz.py --minutes 10"]),
}


def copied(folder):
    """What git has of the sources, as they are now, in another folder."""
    listed = subprocess.check_output(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT)
    for name in filter(None, listed.decode().split("\0")):
        target = Path(folder) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target, follow_symlinks=False)


def expanded(command, copy):
    """The command for each backend, or with the folder of a copy."""
    if "{isa}" in command:
        listed = subprocess.check_output(["cargo", "run", "-q", "--locked", "-p", "onnx-cast-cli", "--", "bench", "--isa"], cwd=ROOT)
        return [command.format(isa=line.split()[0]) for line in listed.decode().splitlines()]
    targets = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    return [command.replace("{copy}", copy).replace("{targets}", str(targets))]


def run(name, command):
    """The status of a command, and how many tests passed in it."""
    print(f"=== {name}: {command}", flush=True)
    passed, options = 0, {"cwd": ROOT, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(shlex.split(command), **options) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            passed += int(found[1]) if (found := re.match(r"test result: ok\. (\d+)", line)) else 0
    return process.returncode, f"{name}: {passed} tests passed" if passed else f"{name}: done"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="print what each proves and runs")
    options = parser.parse_args()
    if options.list:
        for name, (about, commands) in TABLE.items():
            print(f"{name}: {about}", *(f"  {command}" for command in commands), sep="\n")
        return
    known = {name: commands for name, (_, commands) in TABLE.items()} | CONFIGURATIONS | {"host": HOST}
    if not options.names or set(options.names) - {*known}:
        parser.error(f"want names of proofs, or --list: {', '.join(known)}")
    names = [one for name in options.names for one in (CONFIGURATIONS if name == "configurations" else [name])]
    rows, failed = [], 0
    with tempfile.TemporaryDirectory() as copy:
        if "minimal" in names:
            copied(copy)
        for name in names:
            for command in (one for command in known[name] for one in expanded(command, copy)):
                status, row = run(name, command)
                rows.append(f"{name}: FAILED: {command}" if status else row)
                if status:
                    failed = status
                    break
    print(*rows, sep="\n")
    sys.exit(failed)


if __name__ == "__main__":
    main()
