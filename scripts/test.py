#!/usr/bin/env python3
"""The test run: set-up, formats, lints, builds, tests, documentation, and checks in Python and C. Warnings are errors.

A stage starts when the stages that it needs have passed and a processor is free, so that compiling one crate on one
processor does not hold up the others. What a stage prints appears when it ends. The first failure ends the run; with
--keep-going, only the stages that need the failed one are left out.

Needs Rust (with rustfmt and clippy), Python 3.11 or newer, a compiler for C and C++, make and pkg-config; for JavaScript
node with npm. The first run fetches packages from crates.io, PyPI and npm into this folder. A stage that cannot run a part
here prints a line `left out: ...`, pytest a line `SKIPPED ...`; the last line of the run counts them.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ".venv/Scripts/python.exe" if os.name == "nt" else ".venv/bin/python"
NEWEST = {"PYTHONPATH": ".cache/onnx-newest"}
BINDINGS = "bindings/python/Cargo.toml"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
XTASK = str(TARGET / "release" / ("xtask.exe" if os.name == "nt" else "xtask"))
SET_UP, RELEASE, PACKAGE = "set-up", "build", "the Python package, build"


@dataclass
class Stage:
    """A command under a name; `after` has the names of the stages that must have passed before it starts."""

    name: str
    command: list
    after: tuple = ()
    env: dict = field(default_factory=dict)


def check(name, script, *arguments, after=(RELEASE,), env=None):
    return Stage(name, [PYTHON, script, *arguments], after, env or {})


def on_request(packages):
    """The stages that an option turns on."""
    if "--torch" not in packages:
        return []
    script = "scripts/checks/loaders/check.py"
    return [check("quantized checkpoints, as transformers loads them", script, "--all")]


def stages(packages):
    """All stages. Those that take longest come first among those that may start."""
    cargo = lambda name, *arguments, after=(SET_UP,), env=None: Stage(name, ["cargo", *arguments], after, env or {})
    return [
        Stage(SET_UP, [sys.executable, "scripts/setup.py", *packages]),
        *on_request(packages),
        cargo("format", "fmt", "--all", "--check"),
        cargo("format of the peers' crate", "fmt", "--manifest-path", "bench/peers/Cargo.toml", "--check"),
        cargo("format of the fuzzer's crate", "fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"),
        # The test run does not build it, so nothing else would say that its dependencies have changed.
        cargo("versions of the fuzzer's crate", "tree", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--depth=0"),
        cargo("the Python package, format", "fmt", "--manifest-path", BINDINGS, "--check"),
        # The two long builds use folders of their own, so that neither waits for the other.
        cargo(RELEASE, "build", "--workspace", "--release", "--locked"),
        cargo("tests", "test", "--workspace", "--locked", "--no-fail-fast"),
        # Each module is linked by one thread for minutes, so this stage begins as soon as it can.
        Stage("the package for JavaScript, and the page", ["bash", "scripts/checks/javascript.sh"], (RELEASE,)),
        Stage(PACKAGE, [PYTHON, "scripts/install_python_package.py"], (RELEASE,)),
        Stage("the Python package, tests", [PYTHON, "-m", "pytest", "bindings/python"], (PACKAGE,)),
        Stage(
            "the Python package, with the newest onnx",
            [PYTHON, "-m", "pytest", "bindings/python/tests/test_onnx.py"],
            (PACKAGE, "the Python package, tests"),
            NEWEST,
        ),
        cargo(
            "the Python package, lints",
            *["clippy", "--manifest-path", BINDINGS, "--release", "--locked", "--", "-D", "warnings"],
            after=(PACKAGE,),
        ),
        Stage(
            "the execution provider, in onnxruntime", [PYTHON, "scripts/checks/execution_provider.py"], (PACKAGE,)
        ),
        check("opsets raised, as onnxruntime runs them", "scripts/checks/upgrade.py"),
        check(
            "opsets raised, as the newest onnx evaluates them",
            "scripts/checks/upgrade.py",
            env=NEWEST | {"UPGRADE_PARTS": "reference"},
        ),
        check("models converted, as onnxruntime runs them", "scripts/checks/precision.py"),
        check("graphs within graphs, as onnxruntime runs them", "scripts/checks/nested.py"),
        check("types of values, as onnx infers them", "scripts/checks/value_types.py"),
        check("types of values, as the newest onnx infers them", "scripts/checks/value_types.py", "--since=28", env=NEWEST),
        check("models, as onnxruntime runs them", "scripts/checks/models.py"),
        check("recorded ranges, as numpy computes them", "scripts/checks/record.py"),
        check("files, as other packages read them", "scripts/checks/files.py"),
        check("files, as the newest onnx reads them", "scripts/checks/files.py", env=NEWEST),
        check("examples of the pages, in a shell", "scripts/checks/manual.py"),
        check("reports, as numpy computes them", "scripts/checks/report.py"),
        check("checkpoints of real sizes, in constant memory", "scripts/checks/sizes.py"),
        check("files of releases, and workflows", "scripts/checks/packaging.py"),
        check("annotations, as mypy and pyright read them", "scripts/checks/typing_examples.py", after=(SET_UP,)),
        # It uses what the lints have checked.
        check("the crates, from their tarballs", "scripts/release/crates.py", "check", "--offline", after=("lints",)),
        check("the oracle against other packages", "crates/testkit/python/check_oracle.py"),
        check("the oracle of scaled casts against other packages", "crates/testkit/python/check_scaled.py"),
        # `cargo xtask dist` builds this program again, for itself alone, and so with other features of its dependencies.
        Stage("the C interface, laid out", [XTASK, "dist", "--out", ".cache/dist"], (RELEASE, PACKAGE)),
        check("the C interface, from C and C++", "scripts/checks/c.py", DIST, after=("the C interface, laid out",)),
        check(
            "the C interface against the oracle",
            "scripts/checks/c_oracle.py",
            DIST,
            after=("the C interface, laid out",),
        ),
        cargo(
            "lints",
            *["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"],
            after=(SET_UP, "tests"),
        ),
        cargo(
            "documentation",
            *["doc", "--workspace", "--no-deps", "--locked"],
            after=(SET_UP, "lints"),
            env={"RUSTDOCFLAGS": "-D warnings"},
        ),
        cargo(
            "build, not optimised",
            *["build", "-p", "onnx-cast", "--locked", "--config", "profile.dev.package.onnx-cast.opt-level=0"],
            after=(SET_UP, "documentation"),
        ),
        check("facts from onnx, older", "scripts/checks/onnx_schemas.py", "--check", after=(SET_UP,)),
        check("facts from onnx, newest", "scripts/checks/onnx_schemas.py", "--check", after=(SET_UP,), env=NEWEST),
        check("operators of onnx, older", "scripts/checks/onnx_operators.py", "--check", after=(SET_UP,)),
        check(
            "operators of onnx, newest", "scripts/checks/onnx_operators.py", "--check", after=(SET_UP,), env=NEWEST
        ),
        check("the site of the manual", "scripts/checks/site.py", after=(SET_UP,)),
        Stage("the test run itself", [PYTHON, "-m", "unittest", "discover", "--quiet", "scripts"], (SET_UP,)),
        Stage(
            "the record of the peers",
            [PYTHON, "-m", "unittest", "discover", "--quiet", "bench/peers"],
            (SET_UP,),
        ),
    ]


# What a stage prints of a part that it did not run: pytest with a count and a place, others with a reason alone.
LEFT_OUT = re.compile(r"^(?:left out: |SKIPPED \[(?P<count>\d+)\] (?P<place>\S+ ))(?P<reason>.*)$", re.MULTILINE)
# Parts that wait for an option, by the packages that they name.
ON_REQUEST = re.compile(r"\b(torch|ray)\b", re.IGNORECASE)


def left_out(output):
    """What a stage's output names as left out: a list of (count, reason)."""
    return [(int(found["count"] or 1), found["reason"]) for found in LEFT_OUT.finditer(output)]


def summary(parts, packages):
    """The end of the last line: how much was left out, and why; what an option would have run counts apart."""
    wanted = {option.removeprefix("--") for option in packages}
    missing, optional = [], {}
    for count, reason in parts:
        name = ON_REQUEST.search(reason)
        name = name and name[1].lower()
        if name and name not in wanted:
            optional[name] = optional.get(name, 0) + count
        else:
            missing.append((count, reason))
    text = "nothing left out"
    if missing:
        reasons = "; ".join(dict.fromkeys(reason for _, reason in missing))
        text = f"{sum(count for count, _ in missing)} left out: {reasons}"
    more = [f"{optional[name]} with --{name}" for name in sorted(optional)]
    return f"{text} ({', '.join(more)})" if more else text


# What `cargo xtask dist` writes: a folder whose name has the version and the target.
DIST = ".cache/dist/onnx-cast-*/"


class Run:
    """A running stage. Its output goes to a file, because a pipe that nobody reads would stop it."""

    def __init__(self, stage, env):
        self.stage = stage
        self.begin = time.monotonic()
        self.output = tempfile.TemporaryFile()
        command = [expand(part) for part in stage.command]
        # A process group of its own: to end it, what it started must end too.
        options = {"start_new_session": True} if os.name != "nt" else {}
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env | stage.env,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            **options,
        )

    def report(self):
        """Prints what the stage printed, and how it ended; returns what it left out."""
        self.output.seek(0)
        text = self.output.read().decode(errors="replace").rstrip()
        code = self.process.returncode
        ended = "passed" if code == 0 else f"FAILED with status {code}"
        seconds = time.monotonic() - self.begin
        print(f"\n=== {self.stage.name}\n{text}\n--- {self.stage.name}: {ended}, {seconds:.0f} s", flush=True)
        self.output.close()
        return left_out(text)

    def end(self):
        if os.name == "nt":
            self.process.kill()
        else:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()


def expand(part):
    """A part of a command; one with a star is the only path of that form."""
    if not part.startswith(".cache/") or "*" not in part:
        return part
    paths = sorted(str(path) for path in ROOT.glob(part.rstrip("/")) if path.is_dir())
    if len(paths) != 1:
        sys.exit(f"scripts/test.py: {part} is {paths or 'not there'} (want one folder; remove the older ones)")
    return paths[0]


def run_all(waiting, jobs, env, keep_going):
    """Runs the stages, at most `jobs` at a time. Returns the names of those that failed or could not run, and what those
    that ran left out."""
    names = {stage.name for stage in waiting}
    running, failed, parts = [], [], []
    try:
        while waiting or running:
            # What was not selected counts as passed.
            open_names = names & ({stage.name for stage in waiting} | {run.stage.name for run in running})
            ready = [stage for stage in waiting if not open_names & set(stage.after)]
            for stage in [stage for stage in waiting if set(stage.after) & set(failed)]:
                waiting.remove(stage)
                failed.append(stage.name)
            for stage in [stage for stage in ready if stage in waiting][: jobs - len(running)]:
                waiting.remove(stage)
                running.append(Run(stage, env))
            time.sleep(0.05)
            for run in [run for run in running if run.process.poll() is not None]:
                running.remove(run)
                parts += run.report()
                if run.process.returncode:
                    failed.append(run.stage.name)
                    if not keep_going:
                        return failed, parts
    finally:
        for run in running:
            run.end()
    return failed, parts


def main():
    parser = argparse.ArgumentParser(prog="scripts/test.sh", description="Runs all tests.")
    parser.add_argument("--ray", action="append_const", dest="packages", const="--ray", help="test on a Ray cluster too")
    parser.add_argument("--torch", action="append_const", dest="packages", const="--torch", help="test on PyTorch too")
    parser.add_argument("--only", metavar="TEXT", default="", help="run the stages whose names contain TEXT")
    parser.add_argument("--keep-going", action="store_true", help="run other stages after a failure")
    parser.add_argument("--jobs", metavar="N", type=int, default=0, help="stages at a time [default: processors]")
    options = parser.parse_args()

    # Ends the stages, too: they have process groups of their own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    every = stages(options.packages or [])
    selected = [stage for stage in every if stage.name == SET_UP or options.only in stage.name]
    if len(selected) == 1:
        parser.error(f"no stage has `{options.only}` in its name: " + "; ".join(stage.name for stage in every))
    # The Python package is a workspace of its own, which shares what is built.
    env = os.environ | {"CARGO_TARGET_DIR": str(TARGET)}
    if "CI" in env:  # Nothing is built twice there, and incremental builds take longer.
        env = {"CARGO_INCREMENTAL": "0"} | env
    begin, count = time.monotonic(), len(selected)
    failed, parts = run_all(selected, options.jobs or os.cpu_count() or 1, env, options.keep_going)
    seconds = time.monotonic() - begin
    if failed:
        sys.exit(f"\nfailed, or not started, after {seconds:.0f} s: {'; '.join(failed)}; {summary(parts, options.packages or [])}")
    which = f"{count - 1} stages with `{options.only}` in their names" if options.only else "all stages"
    print(f"\n{which} passed in {seconds:.0f} s, {summary(parts, options.packages or [])}")


if __name__ == "__main__":
    main()
