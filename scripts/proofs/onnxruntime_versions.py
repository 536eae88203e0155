#!/usr/bin/env python3
"""Does the execution provider work in each onnxruntime from 1.23 on?

Installs each version into `.cache/onnxruntime/` and has `scripts/checks/execution_provider.py` run there, pairs at
every optimization level. With versions as arguments, those alone.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "onnxruntime"
CHECK = ROOT / "scripts" / "checks" / "execution_provider.py"
VERSIONS = ["1.23.2", "1.24.1", "1.26.0", "1.31.1", "1.32.0"]


def installed(version):
    """The folder of a version, which is installed unless it is there."""
    folder = CACHE / version
    if not (folder / "onnxruntime").is_dir():
        command = ["pip", "install", "--quiet", "--no-deps", "--target", folder, f"onnxruntime=={version}"]
        subprocess.run([sys.executable, "-m", *map(str, command)], check=True, stdin=subprocess.DEVNULL)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    parser.add_argument("--parts", default="", help="parts of the check, with commas; all of them by default")
    arguments = parser.parse_args()
    failed = []
    for version in arguments.versions:
        path = os.pathsep.join(filter(None, [str(installed(version)), os.environ.get("PYTHONPATH")]))
        env = os.environ | {"PYTHONPATH": path, "EP_LEVELS": "all"}
        parts = [part for part in arguments.parts.split(",") if part]
        done = subprocess.run([sys.executable, str(CHECK), *parts], env=env, stdin=subprocess.DEVNULL)
        if done.returncode:
            failed.append(version)
    if failed:
        sys.exit(f"onnxruntime_versions: failed with {', '.join(failed)}")
    print(f"onnxruntime_versions: {len(arguments.versions)} versions, as they should")


if __name__ == "__main__":
    main()
