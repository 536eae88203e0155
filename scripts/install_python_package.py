#!/usr/bin/env python3
"""Builds the wheel of `bindings/python` with maturin and installs it into the Python that runs this; with --dev in the
profile of the tests, which is built sooner."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*command):
    done = subprocess.run([str(part) for part in command], cwd=ROOT, stdin=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"failed with status {done.returncode}: {' '.join(map(str, command))}")


def main():
    os.environ.setdefault("CARGO_TARGET_DIR", str(ROOT / "target"))
    manifest = ROOT / "bindings" / "python" / "Cargo.toml"
    with tempfile.TemporaryDirectory() as folder:
        profile = "dev" if "--dev" in sys.argv[1:] else "release"
        build = ["build", "--profile", profile, "--locked", "--interpreter", sys.executable, "--out", folder]
        if profile == "dev":
            # It has other features here than in the tests, so it is compiled again.
            build += ["--config", "profile.dev.package.onnx-cast-file.opt-level=0"]
        run(sys.executable, "-m", "maturin", *build, "--manifest-path", manifest)
        (wheel,) = Path(folder).glob("*.whl")
        pip = ["install", "--disable-pip-version-check", "--no-input", "--quiet", "--no-deps", "--force-reinstall"]
        run(sys.executable, "-m", "pip", *pip, wheel)


if __name__ == "__main__":
    main()
