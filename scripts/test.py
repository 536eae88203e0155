#!/usr/bin/env python3
"""The test run: set-up, formats, lints, builds, tests, documentation, and checks in Python and C. Warnings are errors.

A stage starts when the stages that it needs have passed and a processor is free, so that compiling one crate on one
processor does not hold up the others. What a stage prints appears when it ends. The first failure ends the run; with
--keep-going, only the stages that need the failed one are left out. A stage whose files have not changed since it
passed here is skipped, and the last line counts those; --again runs them too. --quick is for the time between two
edits.

Needs Rust (with rustfmt and clippy), Python 3.11 or newer, a compiler for C and C++, make and pkg-config; for
JavaScript node with npm. The first run fetches packages from crates.io, PyPI and npm into this folder. A stage that
cannot run a part here prints a line `left out: ...`, pytest a line `SKIPPED ...`; the last line of the run counts them.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace

from stages import COMMAND, ROOT, SET_UP, SLOW_TESTS, TARGET, stages
from unchanged import Passed

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


class Run:
    """A running stage. Its output goes to a file, because a pipe that nobody reads would stop it."""

    def __init__(self, stage, env):
        self.stage = stage
        self.processor = ""
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

    def is_done(self):
        if os.name == "nt":
            return self.process.poll() is not None
        # As `poll`, and it tells the time of the processor, that of what the stage started included.
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if pid:
            self.process.returncode = os.waitstatus_to_exitcode(status)
            self.processor = f" ({usage.ru_utime + usage.ru_stime:.0f} s of processors)"
        return pid != 0

    def report(self):
        """Prints what the stage printed, and how it ended; returns what it left out."""
        self.output.seek(0)
        text = self.output.read().decode(errors="replace").rstrip()
        code = self.process.returncode
        ended = "passed" if code == 0 else f"FAILED with status {code}"
        seconds = time.monotonic() - self.begin
        print(f"\n=== {self.stage.name}\n{text}\n--- {self.stage.name}: {ended}, {seconds:.0f} s{self.processor}", flush=True)
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


def run_all(waiting, jobs, env, keep_going, passed=None):
    """Runs the stages, at most `jobs` at a time. Returns the names of those that failed or could not run, and what
    those that ran left out. `passed`, if there is one, keeps which passed."""
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
            for run in [run for run in running if run.is_done()]:
                running.remove(run)
                missing = run.report()
                parts += missing
                if passed and not run.process.returncode:
                    passed.keep(run.stage, missing)
                if run.process.returncode:
                    failed.append(run.stage.name)
                    if not keep_going:
                        return failed, parts
    finally:
        for run in running:
            run.end()
    return failed, parts


def selected(every, options):
    """The stages to run: those that were asked for and, so that nothing old is tested, what they need."""
    if options.quick:
        every = [replace(stage, command=stage.quick) for stage in every if stage.quick]
    asked = [stage.name for stage in every if options.only in stage.name]
    if not asked:
        sys.exit(f"scripts/test.py: no stage has `{options.only}` in its name (--list shows them)")
    needs, names, waiting = {stage.name: stage.after for stage in every}, set(), [SET_UP, *asked]
    while waiting:
        name = waiting.pop()
        if name in needs and name not in names:
            names.add(name)
            waiting += needs[name]
    return [stage for stage in every if stage.name in names]


def arguments(words=None):
    parser = argparse.ArgumentParser(prog="scripts/test.sh", description="Runs all tests.")
    parser.add_argument("--ray", action="append_const", dest="packages", const="--ray", help="test on a Ray cluster too")
    parser.add_argument("--torch", action="append_const", dest="packages", const="--torch", help="test on PyTorch too")
    parser.add_argument("--only", metavar="TEXT", default="", help="run the stages whose names contain TEXT, and what they need")
    parser.add_argument("--quick", action="store_true", help="run what an edit breaks most often, in minutes")
    parser.add_argument("--again", action="store_true", help="run also what has not changed since it passed")
    parser.add_argument("--list", action="store_true", help="only print the names of the stages")
    parser.add_argument("--keep-going", action="store_true", help="run other stages after a failure")
    parser.add_argument("--jobs", metavar="N", type=int, default=0, help="stages at a time [default: processors]")
    return parser.parse_args(words)


def main():
    options = arguments()
    # Ends the stages, too: they have process groups of their own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    every = stages(options.packages or [])
    wanted = selected(every, options)
    if options.list:
        print("\n".join(stage.name for stage in wanted))
        return
    # The checks run what the tests were built with: a build with assertions.
    env = os.environ | {"CARGO_TARGET_DIR": str(TARGET), "ONNX_CAST_COMMAND": COMMAND}
    if "CI" in env:  # Nothing is built twice there, and incremental builds take longer.
        env = {"CARGO_INCREMENTAL": "0"} | env
    begin, passed = time.monotonic(), Passed()
    needed = {name for stage in wanted for name in stage.after}
    kept = {} if options.again else {stage.name: passed.left_out(stage, stage.name in needed) for stage in wanted}
    kept = {name: parts for name, parts in kept.items() if parts is not None}
    for name in kept:
        print(f"--- {name}: unchanged since it passed", flush=True)
    waiting = [stage for stage in wanted if stage.name not in kept]
    failed, parts = run_all(waiting, options.jobs or os.cpu_count() or 1, env, options.keep_going, passed)
    parts += [part for name in kept for part in kept[name]]
    text, seconds = summary(parts, options.packages or []), time.monotonic() - begin
    if kept:
        text += f"; {len(kept)} of them unchanged since they passed (--again runs them)"
    if options.quick:
        text += f"; not in a quick run: {', '.join(sorted(SLOW_TESTS))}, Python's slow tests"
    if len(wanted) < len(every):
        text += f"; {len(every) - len(wanted)} stages not asked for (--list names all)"
    if failed:
        sys.exit(f"\nfailed, or not started, after {seconds:.0f} s: {'; '.join(failed)}; {text}")
    print(f"\n{len(wanted)} stages passed in {seconds:.0f} s, {text}")


if __name__ == "__main__":
    main()
