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
TARGET = Path(os.environ.setdefault("CARGO_TARGET_DIR", str(ROOT / "target")))
# What cargo names the module on each system, and what Python imports.
MODULES = {"linux": ("lib_native.so", "_native.abi3.so"), "darwin": ("lib_native.dylib", "_native.abi3.so")}
MODULES["win32"] = ("_native.dll", "_native.pyd")


def run(*command, folder=ROOT):
    done = subprocess.run([str(part) for part in command], cwd=folder, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"failed with status {done.returncode}: {' '.join(map(str, command))}")


def maturin(*arguments):
    run(sys.executable, "-m", "maturin", *arguments, "--interpreter", sys.executable, folder=PACKAGE)


def build(out):
    maturin("build", "--profile", "release", "--locked", "--out", out)


def pack(out):
    """Packs the module of the tests' build. Maturin would compile the crates below it once more: built alone, the
    package gives its dependencies fewer features than the workspace with its tests does."""
    run("cargo", "build", "--locked", "--workspace", "--lib", "--test=features")
    built, imported = MODULES[sys.platform]
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(PACKAGE / "python", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copyfile(TARGET / "debug" / built, Path(folder, "onnx_cast", imported))
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
