#!/usr/bin/env python3
"""Are the results the same in every floating-point environment that a host may leave?

Runs tests in Rust, and calls of the Python package, in programs that begin with subnormals flushed to zero, and with
each rounding mode: a small library in C sets the control register before a program begins, and its threads inherit it.
The tests in Rust are those whose expectations are stored or computed by integers. What the Python package gives is
compared with what it gives in the default environment. Needs a C compiler.
"""

import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ["flush", "down", "up", "zero"]
VARIABLE = "ONNX_CAST_FLOAT_ENVIRONMENT"
# The test programs by package and name, each with its arguments.
TESTS = {
    ("onnx-cast", "ops"): [],
    ("onnx-cast", "packing"): [],
    ("onnx-cast", "float_environment"): [],
    ("onnx-cast-file", "suite"): ["quantized::", "gguf", "float_environment"],
}


def preloaded(folder):
    """The library that sets the register, compiled."""
    library = folder / "float_environment.so"
    source = Path(__file__).with_suffix(".c")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, "-shared", "-fPIC", "-O1", source, "-o", library], check=True)
    return library


def programs():
    """The test programs, which the test run has built: without `--package`, so that features are those of its build."""
    targets = [f"--test={name}" for name in dict.fromkeys(name for _, name in TESTS)]
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json", *targets]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True)
    found = {}
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]:
            package = Path(message["manifest_path"]).parent.name
            found[package, message["target"]["name"]] = message["executable"]
    return {test: found[test] for test in TESTS}


def check_tests(programs, environment):
    """Runs the tests in Rust."""
    for (package, name), executable in programs.items():
        folder = ROOT / "crates" / package
        arguments = [executable, "-q", *TESTS[package, name]]
        done = subprocess.run(arguments, cwd=folder, env=environment | {"CARGO_MANIFEST_DIR": str(folder)},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            sys.exit(f"{done.stdout}\n{package}, {name}, in the environment {environment[VARIABLE]}: failed")


def results(environment):
    """What calls of the Python package give, by their names."""
    command = [sys.executable, Path(__file__).with_name("float_environment_calls.py")]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def main():
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        print("left out: float environments: threads inherit the register on Linux, and x86-64 and AArch64 are known")
        return
    if not shutil.which(shlex.split(os.environ.get("CC", "cc"))[0]):
        print("left out: float environments: there is no C compiler")
        return
    default = {name: value for name, value in os.environ.items() if name != VARIABLE}
    want, differing, built = results(default), [], programs()
    with tempfile.TemporaryDirectory() as folder:
        library = preloaded(Path(folder))
        for name in ENVIRONMENTS:
            environment = default | {"LD_PRELOAD": str(library), VARIABLE: name}
            got = results(environment)
            if not got.pop("is foreign"):
                sys.exit(f"the environment {name} is not set")
            differing += [f"{call} in the environment {name}" for call in want if got.get(call, want) != want[call]
                          and call != "is foreign"]
            check_tests(built, environment)
    if differing:
        sys.exit("other results than in the default environment:\n" + "\n".join(differing))
    print(f"{len(want) - 1} calls and {len(TESTS)} test programs in {len(ENVIRONMENTS)} environments: the same results")


if __name__ == "__main__":
    main()
