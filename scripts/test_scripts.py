"""Tests of the test run: what it counts as left out, and what the scripts around it do on a machine that lacks things."""

import contextlib
import io
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent
sys.path.insert(0, str(SCRIPTS))

import test as run  # noqa: E402 (scripts/test.py, found by the path above)


class LeftOut(unittest.TestCase):
    OUTPUT = """left out: the page: Chromium is missing
    left out: no line of its own
SKIPPED [11] bindings/python/tests/test_columns.py:12: pyarrow is not installed
SKIPPED [2] bindings/python/tests/test_frameworks.py:68: could not import 'torch': No module named 'torch'
"""

    def test_lines_of_stages_and_of_pytest(self):
        self.assertEqual(
            run.left_out(self.OUTPUT),
            [
                (1, "the page: Chromium is missing"),
                (11, "pyarrow is not installed"),
                (2, "could not import 'torch': No module named 'torch'"),
            ],
        )

    def test_the_last_line_counts_them(self):
        parts = run.left_out(self.OUTPUT)
        missing = "12 left out: the page: Chromium is missing; pyarrow is not installed"
        self.assertEqual(run.summary(parts, []), f"{missing} (2 with --torch)")
        torch = "could not import 'torch': No module named 'torch'"
        self.assertEqual(
            run.summary(parts, ["--torch"]), f"14 left out: the page: Chromium is missing; pyarrow is not installed; {torch}"
        )
        self.assertEqual(run.summary([], []), "nothing left out")

    def test_a_stage_that_leaves_something_out(self):
        stage = run.Stage("a stage", [sys.executable, "-c", "print('left out: this')"])
        # What the stage prints is not of this run.
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(run.run_all([stage], 1, dict(os.environ), False), ([], [(1, "this")]))


class NoWebAssembly(unittest.TestCase):
    def test_a_compiler_without_the_target_and_no_other(self):
        with tempfile.TemporaryDirectory() as folder:
            rustc = Path(folder) / "rustc"
            rustc.write_text("#!/bin/sh\nexit 1\n")
            rustc.chmod(rustc.stat().st_mode | stat.S_IXUSR)
            # `build_wasm` also looks for Debian's compiler, by its path, which may be there.
            code = "import build_wasm, sys; build_wasm.DEBIAN_RUSTC = '/nowhere/rustc'; build_wasm.main()"
            done = subprocess.run(
                [sys.executable, "-c", code, "--check"],
                env={"PATH": folder, "PYTHONPATH": str(SCRIPTS)},
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
            )
        self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1), done.stderr)
        self.assertIn("WebAssembly cannot be built", done.stderr)


if __name__ == "__main__":
    unittest.main()
