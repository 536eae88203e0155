#!/usr/bin/env python3
"""The Python package as it is published: wheels, the source distribution, and a test of either in a fresh environment.

Usage: wheels.py build [TARGET] [--out FOLDER] [--interpreter PYTHON]
           the wheel for a target of packaging/wheels.toml, or for this machine; for Linux with zig as linker, so that
           it runs on every system with that libc. With the interpreter of a free-threaded Python, its own wheel.
       wheels.py sdist [--out FOLDER]
           the source distribution, with the licences and the pages of the manual
       wheels.py test FILE [--python PYTHON] [--all]
           installs a wheel or source distribution into an environment of its own and casts there; with --all, runs the
           tests of the package that need no other packages

Needs maturin, and for Linux's wheels ziglang and the target of rustup. Folders are `target/wheels` by default.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

import licences

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "python"
MATRIX = ROOT / "packaging" / "wheels.toml"
OUT = ROOT / "target" / "wheels"
#: The glibc that manylinux2014 stands for.
GLIBC = (2, 17)
#: What a user does first; exact bits, and the version that the wheel's metadata has.
PROGRAM = """
import importlib.metadata, numpy as np, onnx_cast
weights = np.array([1.0, -0.3, 1000.0, np.nan], np.float32)
bits = onnx_cast.cast(weights, "float8e4m3fn").view(np.uint8).tolist()
assert bits == [0x38, 0xAA, 0x7E, 0x7F], bits
large = np.arange(1 << 20, dtype=np.float32)
assert (onnx_cast.cast(large, "bfloat16").view(np.uint16) == (large.view(np.uint32) + 0x7FFF
    + (large.view(np.uint32) >> 16 & 1) >> 16)).all()
assert onnx_cast.__version__ == importlib.metadata.version("onnx-cast"), onnx_cast.__version__
print("onnx_cast", onnx_cast.__version__, "of", onnx_cast.__file__)
"""
TESTED = [f"test_{name}.py" for name in ("cast", "dtypes", "options", "files", "quantized", "scaled")]
TEST_PACKAGES = ["pytest", "hypothesis", "safetensors", "typing_extensions", "onnx"]


def run(*command: object, **options: object) -> None:
    words = [str(word) for word in command]
    if code := subprocess.run(words, stdin=subprocess.DEVNULL, **options).returncode:
        sys.exit(f"failed with status {code}: {' '.join(words)}")


def row(target: str) -> dict[str, str]:
    rows = tomllib.loads(MATRIX.read_text())["wheel"]
    found = [row for row in rows if row["target"] == target]
    if not found:
        sys.exit(f"{target} is not in {MATRIX.name} (want {', '.join(sorted({row['target'] for row in rows}))})")
    return found[0]


def newest(folder: Path, pattern: str) -> Path:
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime)


def build(target: str | None, out: Path, interpreter: str | None) -> None:
    command = [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--strip", "--out", out]
    command += ["--manifest-path", PACKAGE / "Cargo.toml", "--interpreter", interpreter or sys.executable]
    if target:
        command += ["--target", target]
        if "linux" in target:
            command += ["--zig", "--compatibility", row(target)["platform"]]
    # maturin runs the first `python3` of the path to find ziglang.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    theirs = PACKAGE / "python" / "onnx_cast" / licences.FILE
    theirs.write_text(licences.text("onnx-cast-python", target))
    try:
        run(*command, cwd=ROOT, env={**os.environ, "PATH": path})
    finally:
        theirs.unlink()
    wheel = newest(out, "*.whl")
    check_wheel(wheel, target)
    print(wheel)


def check_wheel(wheel: Path, target: str | None) -> None:
    """The tags are those of the matrix, and the wheel has types and licences."""
    if target and row(target)["platform"] not in wheel.name:
        sys.exit(f"{wheel.name} is not for {row(target)['platform']}")
    names = zipfile.ZipFile(wheel).namelist()
    ours = ("licenses/LICENSE-MIT", "licenses/LICENSE-APACHE")
    for wanted in ("onnx_cast/py.typed", "onnx_cast/_native.pyi", f"onnx_cast/{licences.FILE}", *ours):
        if not any(name.endswith(wanted) for name in names):
            sys.exit(f"{wheel.name} lacks {wanted}")
    if target and "linux" in target:
        [module] = [name for name in names if name.endswith(".so")]
        check_module(wheel, target, zipfile.ZipFile(wheel).read(module))


def check_module(wheel: Path, target: str, module: bytes) -> None:
    """The module is for the target's processor, and needs no newer libc than the platform has."""
    processor = {b"\x3e\0": "x86_64", b"\xb7\0": "aarch64"}.get(module[18:20], "another processor")
    if module[:4] != b"\x7fELF" or not target.startswith(processor):
        sys.exit(f"{wheel.name} is for {processor} (want {target})")
    found = {(int(major), int(minor)) for major, minor in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", module)}
    newest = max(found, default=(0, 0))
    if newest > GLIBC if target.endswith("gnu") else found:
        sys.exit(f"{wheel.name} needs glibc {newest[0]}.{newest[1]} (want {row(target)['platform']})")


def sdist(out: Path) -> None:
    pages = PACKAGE / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir()
    for page in (ROOT / "docs").glob("*.md"):
        shutil.copy(page, pages)
    try:
        run(sys.executable, "-m", "maturin", "sdist", "--manifest-path", PACKAGE / "Cargo.toml", "--out", out, cwd=ROOT)
    finally:
        shutil.rmtree(pages)
    archive = newest(out, "*.tar.gz")
    with tarfile.open(archive) as tar:
        names = [name.partition("/")[2] for name in tar.getnames()]
    for wanted in ("LICENSE-MIT", "LICENSE-APACHE", "PKG-INFO", "/Cargo.lock", "/docs/python.md", "/py.typed"):
        if not any(f"/{name}".endswith(wanted) for name in names):
            sys.exit(f"{archive.name} lacks {wanted}")
    print(archive)


def test(file: Path, python: str, every: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", folder)
        own = Path(folder) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        pip = [own, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        run(*pip, file.absolute())
        # Not in the repository, whose folder of sources has the package's name.
        run(own, "-c", PROGRAM, cwd=folder)
        if every:
            run(*pip, *TEST_PACKAGES)
            tests = [PACKAGE / "tests" / name for name in TESTED]
            run(own, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", PACKAGE, *tests, cwd=folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    jobs = parser.add_subparsers(dest="job", required=True)
    one = jobs.add_parser("build")
    one.add_argument("target", nargs="?")
    one.add_argument("--interpreter")
    for job in (one, jobs.add_parser("sdist")):
        job.add_argument("--out", type=Path, default=OUT)
    one = jobs.add_parser("test")
    one.add_argument("file", type=Path)
    one.add_argument("--python", default=sys.executable)
    one.add_argument("--all", action="store_true")
    options = parser.parse_args()
    match options.job:
        case "build":
            build(options.target, options.out.absolute(), options.interpreter)
        case "sdist":
            sdist(options.out.absolute())
        case "test":
            test(options.file, options.python, options.all)


if __name__ == "__main__":
    main()
