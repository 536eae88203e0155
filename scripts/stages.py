"""The stages of the test run: what each runs, and what it needs."""

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXE = ".exe" if os.name == "nt" else ""
PYTHON = ".venv/Scripts/python.exe" if os.name == "nt" else ".venv/bin/python"
NEWEST = {"PYTHONPATH": ".cache/onnx-newest"}
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
COMMAND = str(TARGET / "debug" / ("onnx-cast" + EXE))
SET_UP, BUILD, MODULES, PACKAGE = "set-up", "build", "the modules for JavaScript", "the Python package, build"
LAID_OUT = "the C interface, laid out"
# What most stages need: packages that are fetched while the crates are compiled.
BUILT = (SET_UP, BUILD)
PACKED = (*BUILT, PACKAGE)
# What `scripts/release/dist.py` writes: a folder whose name has the version and the target.
DIST = ".cache/dist/onnx-cast-*/"
# Tests of every value of a type, or of others' code alone. A quick run leaves them out, and Python's marked `slow`.
SLOW_TESTS = {"apfloat", "bits", "exhaustive", "joined", "kernels", "naive", "scaled", "strings"}
# What a stage that reads no page need not see: an edit of these does not run it again.
WORDS = ("docs", "records", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md", "web", "npm")


def in_memory():
    """Temporary files of tests in memory, where there is room for them: on a disk tests wait for it most of the time,
    because the command waits until a result is safe there."""
    folder = Path("/dev/shm")
    has_room = folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 4 << 30
    return {"TMPDIR": str(folder)} if has_room else {}


@dataclass
class Stage:
    """A command under a name. `after` has the names of the stages that must have passed before it starts, `unread` the
    files and folders that it does not read, `makes` the files that later stages need of it, and `quick` its command in
    a quick run, if it has a part there."""

    name: str
    command: list
    after: tuple = ()
    env: dict = field(default_factory=dict)
    unread: tuple = ()
    makes: tuple = ()
    quick: list | None = None


def check(name, script, *arguments, after=BUILT, env=None, unread=WORDS):
    return Stage(name, [PYTHON, script, *arguments], after, env or {}, unread)


def on_request(packages):
    """The stages that an option turns on."""
    if "--torch" not in packages:
        return []
    folder = "scripts/checks/loaders"
    return [
        check("quantized checkpoints, as transformers loads them", f"{folder}/check.py", "--all"),
        check("folders of several checkpoints, as diffusers and sentence-transformers load them", f"{folder}/folders.py"),
    ]


def stages(packages):
    """All stages. Those that take longest come first among those that may start."""

    def cargo(name, *arguments, after=(SET_UP,), **more):
        return Stage(name, ["cargo", *arguments], after, **more)

    build = ["build", "--locked", "--lib", "--bins"]
    test = ["test", "--locked", "--no-fail-fast"]
    all_tests = [f"--test={name}" for name in sorted(integration_tests())]
    quick_tests = [test for test in all_tests if test.removeprefix("--test=") not in SLOW_TESTS]
    set_up = [sys.executable, "scripts/setup.py", *packages]
    lints = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]
    install, pytest = [PYTHON, "scripts/install_python_package.py", "--dev"], [PYTHON, "-m", "pytest", "bindings/python"]
    quick_pytest = [*pytest, "-m", "not slow"]
    javascript = ["bash", "scripts/checks/javascript.sh"]
    test_onnx = [PYTHON, "-m", "pytest", "bindings/python/tests/test_onnx.py"]
    unittest = [PYTHON, "-m", "unittest", "discover", "--quiet"]
    newest_evaluates = NEWEST | {"UPGRADE_PARTS": "reference"}
    return [
        Stage(SET_UP, set_up, quick=set_up),
        *on_request(packages),
        cargo("format", "fmt", "--all", "--check", unread=WORDS, quick=["cargo", "fmt", "--all", "--check"]),
        cargo("format of the peers' crate", "fmt", "--manifest-path", "bench/peers/Cargo.toml", "--check", unread=WORDS),
        cargo("format of the fuzzer's crate", "fmt", "--manifest-path", "fuzz/Cargo.toml", "--check", unread=WORDS),
        # The test run does not build it, so nothing else would say that its dependencies have changed.
        cargo("versions of the fuzzer's crate", "tree", "--manifest-path", "fuzz/Cargo.toml", "--locked", "--depth=0"),
        # Each module is linked by one thread for minutes, so this stage begins early. It has a folder of its own, so that
        # neither build waits for the other.
        Stage(MODULES, [*javascript, "--modules"], (SET_UP,), unread=WORDS, makes=("npm/wasm/models-plain.wasm",)),
        # Without unit tests, which are compiled while the Python package is tested.
        cargo(BUILD, *build, "--examples", *all_tests, after=(), quick=["cargo", *build, *quick_tests]),
        # After the build, whose module it packs; a release takes minutes more.
        Stage(PACKAGE, install, BUILT, quick=install),
        # One cargo waits for another, so what compiles longer comes after the package.
        cargo("tests", *test, after=PACKED, env=in_memory(), quick=["cargo", *test, "--lib", "--bins", *quick_tests]),
        Stage("the Python package, tests", pytest, PACKED, in_memory(), quick=quick_pytest),
        check("checkpoints of real sizes, in constant memory", "scripts/checks/sizes.py"),
        cargo("lints", *lints, after=PACKED, unread=WORDS, quick=["cargo", *lints]),
        cargo(
            "lints, without the standard library",
            *["clippy", "--locked", "-p", "onnx-cast", "--no-default-features", "--features"],
            *["libm,half,bytemuck,serde", "--", "-D", "warnings"],
            after=BUILT,
            unread=WORDS,
        ),
        cargo(
            "the public names of the crate",
            *["test", "--locked", "--test", "public_api", "--", "--ignored", "--nocapture"],
            after=BUILT,
            unread=WORDS,
        ),
        Stage("the package for JavaScript, and the page", [*javascript, "--built"], (*BUILT, MODULES)),
        Stage("the Python package, with the newest onnx", test_onnx, PACKED, NEWEST),
        check("the execution provider, in onnxruntime", "scripts/checks/execution_provider.py", after=PACKED),
        check("opsets raised, as onnxruntime runs them", "scripts/checks/upgrade.py"),
        check("opsets raised, as the newest onnx evaluates them", "scripts/checks/upgrade.py", env=newest_evaluates),
        check("models converted, as onnxruntime runs them", "scripts/checks/precision.py"),
        check("graphs within graphs, as onnxruntime runs them", "scripts/checks/nested.py"),
        check("types of values, as onnx infers them", "scripts/checks/value_types.py"),
        check("types of values, as the newest onnx infers them", "scripts/checks/value_types.py", "--since=28", env=NEWEST),
        check("models, as onnxruntime runs them", "scripts/checks/models.py"),
        check("recorded ranges, as numpy computes them", "scripts/checks/record.py"),
        check("files, as other packages read them", "scripts/checks/files.py"),
        check("files, as the newest onnx reads them", "scripts/checks/files.py", env=NEWEST),
        check("examples of the pages, in a shell", "scripts/checks/manual.py", unread=()),
        check("other float environments", "scripts/checks/float_environment.py", after=PACKED),
        check("reports, as numpy computes them", "scripts/checks/report.py"),
        check("files of releases, and workflows", "scripts/checks/packages.py", unread=()),
        check("annotations, as mypy and pyright read them", "scripts/checks/typing_examples.py", after=(SET_UP,), unread=()),
        # It uses what the lints have checked.
        check("the kernels' walk, in Miri", "scripts/checks/miri.py"),
        check("the crates, from their tarballs", "scripts/release/crates.py", "check", "--offline", after=("lints",)),
        check("the oracle against other packages", "crates/testkit/python/check_oracle.py"),
        check("the oracle of scaled casts against other packages", "crates/testkit/python/check_scaled.py"),
        Stage(LAID_OUT, [PYTHON, "scripts/release/dist.py", "--dev", "--out", ".cache/dist"], BUILT),
        check("the C interface, from C and C++", "scripts/checks/c.py", DIST, after=(LAID_OUT,), unread=()),
        check("the C interface against the oracle", "scripts/checks/c_oracle.py", DIST, after=(LAID_OUT,)),
        cargo("documentation", "doc", "--no-deps", "--locked", after=BUILT, env={"RUSTDOCFLAGS": "-D warnings"}),
        cargo(
            "build, not optimised",
            *["build", "-p", "onnx-cast", "--locked", "--config", "profile.dev.package.onnx-cast.opt-level=0"],
            after=BUILT,
            unread=WORDS,
        ),
        check("facts from onnx, older", "scripts/checks/onnx_schemas.py", after=(SET_UP,)),
        check("facts from onnx, newest", "scripts/checks/onnx_schemas.py", after=(SET_UP,), env=NEWEST),
        check("operators of onnx, older", "scripts/checks/onnx_operators.py", after=(SET_UP,)),
        check("operators of onnx, newest", "scripts/checks/onnx_operators.py", after=(SET_UP,), env=NEWEST),
        check("the site of the manual", "scripts/checks/site.py", after=(SET_UP,), unread=()),
        Stage("the test run itself", [*unittest, "scripts"], (SET_UP,)),
        Stage("the record of the peers", [*unittest, "bench/peers"], (SET_UP,)),
    ]


def integration_tests():
    """The names of the integration tests of the workspace."""
    folders = [*ROOT.glob("crates/*/tests"), *ROOT.glob("fuzz/targets/tests")]
    files = {path.stem for folder in folders for path in folder.glob("*.rs")}
    return files | {path.parent.name for folder in folders for path in folder.glob("*/main.rs")}
