#!/usr/bin/env python3
"""The licences of what is linked into a published program, in one text: those of other crates, and of what our crates hold of
others. Wheels, the npm package and the archives of the command have it as THIRD-PARTY.txt.

Usage: licences.py PACKAGE [TARGET] [FEATURE,...]    prints the text for a crate of the workspace; with features, without
                                                     its default ones
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = "THIRD-PARTY.txt"
NAMES = re.compile(r"^(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)
# What our crates hold that others wrote, with its licence.
HELD = {
    "onnx-cast-file": ("numbers of ggml (the grids of GGUF's IQ types)", "src/layouts/gguf/grids.LICENSE"),
    "onnx-cast-report": ("uPlot", "src/vendor/uPlot.LICENSE"),
}
HEAD = """What this package contains beside the work of the onnx-cast authors, and the licences of that.
The standard library of Rust is under MIT or Apache-2.0 (https://www.rust-lang.org/policies/licenses)."""
RULE = "-" * 80


def cargo(*arguments: str) -> str:
    return subprocess.check_output(["cargo", *arguments, "--locked"], cwd=ROOT, stdin=subprocess.DEVNULL, text=True)


def linked(package: str, target: str | None, features: str | None) -> list[dict]:
    """The packages that are compiled into a crate: neither macros nor what only builds and tests need."""
    options = ["--target", target] if target else []
    if features:
        options += ["--no-default-features", "--features", features]
    tree = cargo("tree", "-p", package, "-e", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}", *options)
    wanted = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
    platform = ["--filter-platform", target] if target else []
    packages = json.loads(cargo("metadata", "--format-version=1", *platform))["packages"]
    found = [one for one in packages if (one["name"], f"v{one['version']}") in wanted]
    if len(found) != len(wanted):
        sys.exit(f"{len(found)} of {len(wanted)} packages of {package} are in cargo's metadata")
    return sorted(found, key=lambda one: (one["name"], one["version"]))


def texts_of(package: dict) -> list[tuple[str, str]]:
    """The name and licence of a package, with the text of each of its licences."""
    folder = Path(package["manifest_path"]).parent
    if package["source"] is None:
        if package["name"] not in HELD:
            return []
        what, path = HELD[package["name"]]
        return [(what, (folder / path).read_text())]
    if not package["license"]:
        sys.exit(f"{package['name']} names no licence")
    name = f"{package['name']} {package['version']}, {package['license']}"
    files = sorted(path for path in folder.iterdir() if path.is_file() and NAMES.match(path.name))
    # Of several to choose from, MIT's is the shortest.
    if {"MIT", "OR"} <= set(package["license"].replace("(", " ").replace(")", " ").split()):
        files = [path for path in files if "MIT" in path.name.upper() or "NOTICE" in path.name.upper()] or files
    return [(name, path.read_text(errors="replace")) for path in files] or [(name, "(The package has no such file.)")]


def text(package: str, target: str | None = None, features: str | None = None) -> str:
    by_text: dict[str, list[str]] = {}
    for one in linked(package, target, features):
        for name, licence in texts_of(one):
            # Copies differ in spaces at the ends of lines.
            plain = "\n".join(line.rstrip() for line in licence.strip().splitlines())
            by_text.setdefault(plain, []).append(name)
    parts = [HEAD, *(f"{RULE}\n{chr(10).join(names)}\n\n{licence}" for licence, names in by_text.items())]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    print(text(*sys.argv[1:]), end="")
