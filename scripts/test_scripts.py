"""Tests of the test run: what it counts as left out, and what the scripts around it do on a machine that lacks
things."""

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
sys.path[:0] = [str(SCRIPTS), str(SCRIPTS / "release")]

import dist  # noqa: E402
import stages  # noqa: E402 (found by the path above, as the others)
import test as run  # noqa: E402
import unchanged  # noqa: E402


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
        stage = stages.Stage("a stage", [sys.executable, "-c", "print('left out: this')"])
        # What the stage prints is not of this run.
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(run.run_all([stage], 1, dict(os.environ), False), ([], [(1, "this")]))


class Selection(unittest.TestCase):
    def names(self, *words):
        options = run.arguments(words)
        return [stage.name for stage in run.selected(stages.stages([]), options)]

    def test_what_a_stage_needs_runs_too(self):
        self.assertEqual(
            self.names("--only", "C interface against"),
            [stages.SET_UP, stages.BUILD, stages.LAID_OUT, "the C interface against the oracle"],
        )

    def test_a_quick_run_needs_nothing_else(self):
        names = self.names("--quick")
        self.assertEqual(names[0], stages.SET_UP)
        self.assertIn("tests", names)
        self.assertNotIn(stages.MODULES, names)

    def test_what_stages_need_are_stages(self):
        every = stages.stages(["--torch"])
        names = {stage.name for stage in every}
        self.assertEqual(len(names), len(every))
        for stage in every:
            self.assertLessEqual(set(stage.after), names, stage.name)

    def test_a_name_of_no_stage(self):
        with self.assertRaisesRegex(SystemExit, "no stage has `nothing`"):
            self.names("--only", "nothing")

    def test_slow_tests_are_tests(self):
        self.assertLessEqual(stages.SLOW_TESTS, stages.integration_tests())


class Unchanged(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for module, name, value in [(unchanged, "ROOT", self.root), (unchanged, "PASSED", self.root / ".cache")]:
            self.addCleanup(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        (self.root / ".gitignore").write_text(".cache\nmade\n")
        (self.root / "docs").mkdir()
        (self.root / "docs" / "page.md").write_text("words")
        (self.root / "code.rs").write_text("fn main() {}")
        subprocess.run(["git", "init", "--quiet", self.root], check=True)
        self.stage = stages.Stage("a stage", ["true"], unread=("docs",))
        unchanged.Passed().keep(self.stage, [(2, "torch is missing")])

    def left_out(self, stage=None, is_needed=False):
        return unchanged.Passed().left_out(stage or self.stage, is_needed)

    def test_what_it_left_out_is_kept(self):
        self.assertEqual(self.left_out(), [(2, "torch is missing")])

    def test_a_file_that_it_reads(self):
        (self.root / "code.rs").write_text("fn main() { }")
        self.assertIsNone(self.left_out())

    def test_a_new_file(self):
        (self.root / "more.rs").write_text("")
        self.assertIsNone(self.left_out())

    def test_a_file_that_it_does_not_read(self):
        (self.root / "docs" / "page.md").write_text("other words")
        self.assertIsNotNone(self.left_out())

    def test_another_command(self):
        self.assertIsNone(self.left_out(stages.Stage("a stage", ["false"], unread=("docs",))))

    def test_a_stage_that_others_need(self):
        self.assertIsNone(self.left_out(is_needed=True))
        maker = stages.Stage("maker", ["true"], makes=("made",))
        unchanged.Passed().keep(maker, [])
        self.assertIsNone(self.left_out(maker, is_needed=True))
        (self.root / "made").write_text("")
        self.assertEqual(self.left_out(maker, is_needed=True), [])


class CLibrary(unittest.TestCase):
    def test_libraries_are_named_as_the_system_names_them(self):
        so, dylib, dll = "libonnx_cast_capi.so", "libonnx_cast_capi.dylib", "onnx_cast_capi.dll"
        a, archive = "libonnx_cast_capi.a", "lib/libonnx_cast.a"
        elf = (so, a, "lib/libonnx_cast.so.0", "lib/libonnx_cast.so", archive)
        mingw = (dll, a, "bin/onnx_cast.dll", "lib/libonnx_cast.dll.a", archive)
        apple = (dylib, a, "lib/libonnx_cast.0.dylib", "lib/libonnx_cast.dylib", archive)
        msvc = (dll, "onnx_cast_capi.lib", "bin/onnx_cast.dll", "lib/onnx_cast.lib", "lib/onnx_cast_static.lib")
        for triple, want in (
            ("x86_64-unknown-linux-gnu", elf),
            ("aarch64-unknown-linux-musl", elf),
            ("x86_64-unknown-freebsd", elf),
            ("aarch64-apple-darwin", apple),
            ("x86_64-pc-windows-gnu", mingw),
            ("x86_64-pc-windows-gnullvm", mingw),
            ("aarch64-pc-windows-msvc", msvc),
        ):
            self.assertEqual(dist.names_of(triple)[:5], want, triple)
        for triple in ("wasm32-unknown-unknown", "x86_64-unknown-none", "x86_64-unknown-uefi", ""):
            with self.assertRaises(SystemExit, msg=triple):
                dist.names_of(triple)

    def test_functions_and_libraries_are_listed(self):
        header = dist.HEADER.read_text()
        self.assertEqual(len(dist.functions(header)), header.count(");\n"))
        self.assertEqual(dist.system_libraries("note: x\nnote: native-static-libs: -lgcc_s -lc\n"), ["-lgcc_s", "-lc"])
        options = dist.system_libraries("native-static-libs: kernel32.lib /defaultlib:msvcrt")
        self.assertEqual(options, ["kernel32.lib", "-defaultlib:msvcrt"])


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
