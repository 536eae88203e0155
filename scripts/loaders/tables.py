#!/usr/bin/env python3
"""Generates the tables of loaders' rules, crates/onnx-cast-file/src/loaders/*.json, from the loaders' own sources.

    scripts/loaders/tables.py                       reads the newest release of each loader
    scripts/loaders/tables.py vllm=0.33.0 ...       reads these releases
    scripts/loaders/tables.py --check               writes nothing, and exits with 1 if a table would change
    scripts/loaders/tables.py --sources FOLDER      reads FOLDER/vllm, FOLDER/sglang and FOLDER/transformers

The sources are parsed, never run. `serving.py` reads vLLM and SGLang, `modeling.py` and
`structure.py` transformers.
"""

import argparse
import difflib
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import modeling
import serving
import structure

OUT = Path(__file__).resolve().parents[2] / "crates" / "onnx-cast-file" / "src" / "loaders"
#: Tables by the names of their files, each with its package and its reader.
TABLES = {
    "vllm": ("vllm", serving.vllm), "sglang": ("sglang", serving.sglang),
    "transformers": ("transformers", modeling.transformers), "structure": ("transformers", structure.transformers),
}
# pip only accepts vLLM's stable-ABI wheels if the platform is specified.
WHEEL = ["--only-binary=:all:", "--platform=manylinux_2_34_x86_64", "--platform=manylinux_2_31_x86_64",
         "--platform=manylinux_2_28_x86_64", "--platform=manylinux1_x86_64", "--platform=any",
         "--python-version=3.12"]  # fmt: skip


def download(name, version, folder):
    """Unpacks the Python files of a release, and returns the name and the hash of its wheel."""
    wanted = f"{name}=={version}" if version else name
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", *WHEEL, "--dest", str(folder), wanted]
    subprocess.run(pip, check=True)
    (wheel,) = folder.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / name, [file for file in archive.namelist() if file.endswith((".py", "METADATA"))])
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    wheel.unlink()
    return {"file": wheel.name, "sha256": digest}


def version_of(folder, name):
    (metadata,) = folder.glob(f"{name}-*.dist-info/METADATA")
    lines = metadata.read_text().splitlines()
    return next(line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))


def as_text(table):
    """Formats a table as JSON, with one line per entry of each top-level list."""
    parts = []
    for key, value in table.items():
        if isinstance(value, list) and value:
            lines = ",\n".join("  " + json.dumps(entry) for entry in value)
            parts.append(f" {json.dumps(key)}: [\n{lines}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def update(out, head, table, check):
    """Writes a table and shows its differences from the old one. Returns whether there are any."""
    before = out.read_text() if out.exists() else ""
    old = json.loads(before) if before else {}
    if head["source"] is None and old.get("version") == head["version"]:
        head = {**head, "source": old["source"]}
    text = as_text({**head, **table})
    if text == before:
        return False
    if not check:
        out.parent.mkdir(exist_ok=True)
        out.write_text(text)
    lines = difflib.unified_diff(before.splitlines(True), text.splitlines(True), str(out), head["version"], n=0)
    sys.stdout.writelines(lines)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*", help="NAME or NAME=VERSION")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--sources", type=Path)
    options = parser.parse_args()
    packages = dict.fromkeys(package for package, _ in TABLES.values())
    releases = dict(release.partition("=")[::2] for release in options.releases or packages)
    changed = False
    for package, version in releases.items():
        with tempfile.TemporaryDirectory() as folder:
            source = options.sources or Path(folder)
            wheel = None if options.sources else download(package, version, source)
            found = version_of(source / package, package)
            head = {"loader": package, "version": found, "source": wheel}
            for name, (owner, read) in TABLES.items():
                if owner == package:
                    changed |= update(OUT / f"{name}.json", head, read(source / package / package), options.check)
    return int(changed and options.check)


if __name__ == "__main__":
    sys.exit(main())
