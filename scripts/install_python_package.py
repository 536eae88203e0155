#!/usr/bin/env python3
"""Builds the wheel of `bindings/python` with maturin and installs it into the Python that runs this; with --dev from the
native module that the tests' build compiles, which takes seconds after it."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "bindings" / "python"
TARGET = ROOT / os.environ.setdefault("CARGO_TARGET_DIR", str(ROOT / "target"))
# What cargo names the module on a system, and what Python imports there.
BUILT, IMPORTED = {"darwin": ("lib_native.dylib", "_native.abi3.so"), "win32": ("_native.dll", "_native.pyd")}.get(
    sys.platform, ("lib_native.so", "_native.abi3.so")
)


def run(*command):
    done = subprocess.run([str(part) for part in command], cwd=ROOT, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"failed with status {done.returncode}: {' '.join(map(str, command))}")


def maturin(*arguments):
    options = ["--interpreter", sys.executable, "--manifest-path", PACKAGE / "Cargo.toml"]
    run(sys.executable, "-m", "maturin", *arguments, *options)


def build(out):
    maturin("build", "--profile", "release", "--locked", "--out", out)


def pack(out):
    """Packs the module of the tests' build. Maturin would compile the crates below it once more: built alone, the
    package gives its dependencies fewer features than the workspace with its tests does."""
    # A test among what is built, so that the features are those of the tests.
    run("cargo", "build", "--locked", "--lib", "--test=features")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE / "python", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copyfile(TARGET / "debug" / BUILT, Path(folder, "onnx_cast", IMPORTED))
        maturin("pep517", "write-dist-info", "--metadata-directory", folder)
        run(sys.executable, "-m", "wheel", "pack", folder, "--dest-dir", out)


def main():
    with tempfile.TemporaryDirectory() as out:
        (pack if "--dev" in sys.argv[1:] else build)(out)
        (wheel,) = Path(out).glob("*.whl")
        pip = ["install", "--disable-pip-version-check", "--no-input", "--quiet", "--no-deps", "--force-reinstall"]
        run(sys.executable, "-m", "pip", *pip, wheel)


if __name__ == "__main__":
    main()
