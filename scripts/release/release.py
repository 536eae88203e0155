#!/usr/bin/env python3
"""What a release consists of, beside the crates (crates.py) and the Python package (wheels.py).

Usage: release.py check [TAG]            every file has the same version, and for a tag the changelog has a section
       release.py set VERSION            writes a version to all of these, and its section, of today, into the changelog
       release.py notes TAG              the changelog's section of a version, for the release's page
       release.py archives TARGET [OUT]  the command and the C library for a target, each as an archive
       release.py command FILE TARGET [OUT]  the archive of a command that is built already
       release.py others [OUT]           the npm package, the page for the browser, and the bills of materials
       release.py checksums FOLDER       SHA256SUMS of the files of a folder

Folders are `target/release-files` by default.
"""

import datetime
import hashlib
import json
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

import dist
import licences

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "target" / "release-files"
CHANGELOG = ROOT / "CHANGELOG.md"
SECTION = re.compile(r"^## \[([^\]]+)\](?: - (\d{4}-\d{2}-\d{2}))?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
DOCUMENTS = ("README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE")


def run(*command: object, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd=ROOT, **options)
    if done.returncode:
        sys.exit(f"failed with status {done.returncode}: {' '.join(words)}")
    return done.stdout


def read_toml(path: str) -> dict:
    return tomllib.loads((ROOT / path).read_text())


def version() -> str:
    return read_toml("Cargo.toml")["workspace"]["package"]["version"]


def found_in(path: str, pattern: str) -> str | None:
    match = re.search(pattern, (ROOT / path).read_text(), re.MULTILINE)
    return match[1] if match else None


def versions() -> dict[str, str | None]:
    """The version by the places that have it."""
    workspace = read_toml("Cargo.toml")["workspace"]
    found = {
        "npm/package.json": json.loads((ROOT / "npm/package.json").read_text())["version"],
        "packaging/vcpkg/vcpkg.json": json.loads((ROOT / "packaging/vcpkg/vcpkg.json").read_text())["version"],
        "packaging/conda/recipe.yaml": found_in("packaging/conda/recipe.yaml", r'^  version: "(.+)"$'),
        "CITATION.cff": found_in("CITATION.cff", r"^version: (.+)$"),
    }
    for name, dependency in workspace["dependencies"].items():
        if "version" in dependency:
            found[f"Cargo.toml, dependency {name}"] = dependency["version"]
    return found


def sections() -> dict[str, tuple[str, str]]:
    """The day and the text of each version of the changelog."""
    return {name: (day, text.strip()) for name, day, text in SECTION.findall(CHANGELOG.read_text())}


def check(tag: str | None) -> None:
    want = version()
    faults = [f"{place} has version {found} (want {want})" for place, found in versions().items() if found != want]
    if "Unreleased" not in sections():
        faults.append("CHANGELOG.md has no section Unreleased")
    if tag is not None and tag != f"v{want}":
        faults.append(f"the tag is {tag} (want v{want})")
    if tag is not None and not sections().get(want, ("", ""))[0]:
        faults.append(f"CHANGELOG.md has no section `## [{want}] - YEAR-MONTH-DAY`")
    if faults:
        sys.exit("\n".join(faults))
    print(f"version {want} in {len(versions()) + 1} places")


def set_version(new: str) -> None:
    """Replaces the version wherever `versions` finds it: in each place it is the one text with quotes or at a line's
    end."""
    old = version()
    if not re.fullmatch(r"\d+\.\d+\.\d+", new):
        sys.exit(f"{new} is not a version (want three numbers)")
    for path in sorted({"Cargo.toml", *(place.partition(",")[0] for place in versions())}):
        text = (ROOT / path).read_text()
        changed = re.sub(rf'(version"?(?: =|:) "?){re.escape(old)}(?="|$)', rf"\g<1>{new}", text, flags=re.MULTILINE)
        (ROOT / path).write_text(changed)
    run("cargo", "update", "--workspace", "--offline", stderr=subprocess.DEVNULL)
    if new not in sections():
        heading = "## [Unreleased]\n"
        dated = f"{heading}\n## [{new}] - {datetime.date.today().isoformat()}\n"
        CHANGELOG.write_text(CHANGELOG.read_text().replace(heading, dated, 1))
    check(f"v{new}")


def notes(tag: str) -> str:
    name = tag.removeprefix("v")
    if name not in sections():
        sys.exit(f"CHANGELOG.md has no section {name} (it has {', '.join(sections())})")
    return sections()[name][1]


def pack(folder: Path, archive: Path) -> None:
    """A folder as an archive, with its name as the one entry of the top."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    archive.parent.mkdir(parents=True, exist_ok=True)
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in files:
                packed.write(path, path.relative_to(folder.parent).as_posix())
        return
    with tarfile.open(archive, "w:gz") as packed:
        for path in files:
            packed.add(path, path.relative_to(folder.parent).as_posix())


def command(program: Path, target: str, out: Path) -> Path:
    """The archive that `cargo binstall` fetches: the command, its manual, completions, and what installs them."""
    name = f"onnx-cast-cli-{version()}-{target}"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / name
        (folder / "bin").mkdir(parents=True)
        shutil.copy(program, folder / "bin" / f"onnx-cast{program.suffix}")
        installer = ROOT / "scripts" / "release" / "install.sh"
        run("sh", installer, "--prefix", folder.as_posix(), "--command", program.absolute().as_posix())
        shutil.copy(installer, folder)
        for document in DOCUMENTS:
            shutil.copy(ROOT / document, folder)
        (folder / licences.FILE).write_text(licences.text("onnx-cast-cli", target))
        archive = out / f"{name}.{'zip' if 'windows' in target else 'tgz'}"
        pack(folder, archive)
    return archive


def archives(target: str, out: Path) -> None:
    run("cargo", "build", "--release", "--locked", "--package", "onnx-cast-cli", "--target", target)
    built = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / target / "release"
    print(command(built / ("onnx-cast.exe" if "windows" in target else "onnx-cast"), target, out))
    folder = dist.dist(target, out)
    shutil.rmtree(folder)
    print(folder.with_name(f"{folder.name}.tar.gz"))


def others(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    run(sys.executable, "scripts/build_wasm.py")
    run("npm", "pack", "--silent", "--pack-destination", out, "./npm")
    (out / f"onnx-cast-{version()}.tgz").rename(out / f"onnx-cast-npm-{version()}.tgz")
    run(sys.executable, "web/build.py")
    shutil.copy(ROOT / "web" / "dist" / "onnx-cast.html", out / f"onnx-cast-page-{version()}.html")
    run("bash", "scripts/proofs/supply_chain.sh", "sbom", out)
    print(*sorted(path.name for path in out.iterdir()), sep="\n")


def checksums(folder: Path) -> None:
    """SHA256SUMS, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != "SHA256SUMS")
    if not files:
        sys.exit(f"{folder} has no files")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))
    print("".join(lines), end="")


def main() -> None:
    match sys.argv[1:]:
        case ["check", *tag] if len(tag) <= 1:
            check(*tag or [None])
        case ["set", new]:
            set_version(new)
        case ["notes", tag]:
            print(notes(tag))
        case ["archives", target, *out] if len(out) <= 1:
            archives(target, Path(*out or [OUT]).absolute())
        case ["command", program, target, *out] if len(out) <= 1:
            print(command(Path(program), target, Path(*out or [OUT]).absolute()))
        case ["others", *out] if len(out) <= 1:
            others(Path(*out or [OUT]).absolute())
        case ["checksums", folder]:
            checksums(Path(folder))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
