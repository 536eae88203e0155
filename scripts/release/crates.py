#!/usr/bin/env python3
"""The crates that are published: packaged, built from their own tarballs, compared with the last release, published.

Usage: crates.py check [--offline]    packages all crates, and has the compiler check each from the tarballs alone
       crates.py semver               cargo-semver-checks of the libraries against the last tag, where there is one
       crates.py publish [--dry-run]  builds each from its tarball, which takes minutes, and publishes them in the order
                                      of their dependencies, with CARGO_REGISTRY_TOKEN

The tarballs are in `package` of the target folder. What is published is every member of the workspace without
`publish = false`.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: What crates.io and docs.rs show, and what users look for.
WANTED = ("description", "repository", "documentation", "readme", "license", "rust_version")
LICENCES = ("LICENSE-MIT", "LICENSE-APACHE")
#: crates.io takes no larger file.
MOST_BYTES = 10 << 20


def cargo(*arguments: str, env: dict | None = None) -> None:
    command = ["cargo", *arguments]
    done = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=os.environ | (env or {}))
    if done.returncode:
        sys.exit(f"failed with status {done.returncode}: {' '.join(command)}")


def metadata() -> dict:
    command = ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked", "--offline"]
    return json.loads(subprocess.check_output(command, cwd=ROOT))


def published(workspace: dict) -> list[dict]:
    return [package for package in workspace["packages"] if package["publish"] != []]


def selection(workspace: dict) -> list[str]:
    """The options that select the published crates, which cargo orders, and takes from one another's tarballs."""
    left_out = [package["name"] for package in workspace["packages"] if package["publish"] == []]
    return ["--workspace", *(word for name in left_out for word in ("--exclude", name)), "--locked", "--allow-dirty"]


def add_licences(workspace: dict) -> None:
    """Copies the licences beside each manifest: a tarball has only files of its crate. Git ignores the copies."""
    for package in published(workspace):
        for licence in LICENCES:
            shutil.copy(ROOT / licence, Path(package["manifest_path"]).parent)


def check_metadata(package: dict) -> list[str]:
    faults = [f"no {field}" for field in WANTED if not package.get(field)]
    if not 1 <= len(package["keywords"]) <= 5 or not 1 <= len(package["categories"]) <= 5:
        faults.append("one to five keywords and categories are wanted")
    if len(package["description"] or "") > 160:
        faults.append("the description is longer than 160 characters")
    folder, readme = Path(package["manifest_path"]).parent, package["readme"]
    text = (folder / readme).read_text() if readme and (folder / readme).is_file() else ""
    faults += [f"the README does not name the feature {name}" for name in features(package) if f"`{name}`" not in text]
    return [f"{package['name']}: {fault}" for fault in faults]


def features(package: dict) -> list[str]:
    return [name for name in package["features"] if name != "default"]


def check_tarball(package: dict, path: Path) -> list[str]:
    stem = f"{package['name']}-{package['version']}/"
    with tarfile.open(path) as tarball:
        names = {name.removeprefix(stem) for name in tarball.getnames()}
    faults = [f"without {name}" for name in ("Cargo.toml", "README.md", *LICENCES) if name not in names]
    faults += [f"with {name}" for name in sorted(names) if name.startswith(("tests/", "benches/", "examples/"))]
    if path.stat().st_size > MOST_BYTES:
        faults.append(f"{path.stat().st_size} bytes, more than crates.io takes")
    return [f"{path.name}: {fault}" for fault in faults]


def check(offline: list[str]) -> None:
    begin, workspace = time.monotonic(), metadata()
    add_licences(workspace)
    faults = [fault for package in published(workspace) for fault in check_metadata(package)]
    target = Path(os.environ.get("CARGO_TARGET_DIR", workspace["target_directory"])).absolute()
    environment = {"CARGO_TARGET_DIR": str(target)}
    cargo("package", *selection(workspace), "--no-verify", *offline, env=environment)
    tarballs = {}
    for package in published(workspace):
        name = package["name"]
        tarballs[name] = target / "package" / f"{name}-{package['version']}.crate"
        faults += check_tarball(package, tarballs[name])
    if faults:
        sys.exit("\n".join(faults))
    with tempfile.TemporaryDirectory() as folder:
        unpack(tarballs, Path(folder))
        manifest = str(Path(folder) / "Cargo.toml")
        cargo("check", "--workspace", "--all-features", "--manifest-path", manifest, *offline, env=environment)
    sizes = ", ".join(f"{path.name} {path.stat().st_size >> 10} KiB" for path in tarballs.values())
    print(f"{len(tarballs)} crates are complete, checked in {time.monotonic() - begin:.0f} s: {sizes}")


def unpack(tarballs: dict[str, Path], folder: Path) -> None:
    """The crates of the tarballs as a workspace in which each takes the others from there. The versions of others'
    crates and the profile are those of the repository, whose builds of them are then used again."""
    for path in tarballs.values():
        with tarfile.open(path) as tarball:
            tarball.extractall(folder)
    # All files of a tarball are of one day in 2006: cargo would take what it checked in an earlier run for up to date.
    for path in folder.rglob("*"):
        os.utime(path)
    members = [path.stem for path in tarballs.values()]
    patches = "".join(f'{name} = {{ path = "{path.stem}" }}\n' for name, path in tarballs.items())
    profile = '[profile.dev]\ndebug = "line-tables-only"\n'
    workspace = f'[workspace]\nresolver = "3"\nmembers = {json.dumps(members)}\n'
    (folder / "Cargo.toml").write_text(f"{workspace}\n[patch.crates-io]\n{patches}\n{profile}")
    shutil.copy(ROOT / "Cargo.lock", folder)


def semver() -> None:
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^"]
    tag = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    if not tag:
        print("cargo-semver-checks: no release to compare with: there is no tag v* before this commit")
        return
    has_library = lambda package: any("lib" in target["kind"] for target in package["targets"])
    names = [package["name"] for package in published(metadata()) if has_library(package)]
    if subprocess.run(["cargo", "semver-checks", "--version"], capture_output=True).returncode:
        cargo("install", "--locked", "cargo-semver-checks")
    cargo("semver-checks", f"--baseline-rev={tag}", *(word for name in names for word in ("--package", name)))


def is_published(package: dict) -> bool:
    """Whether crates.io has this version, after a run that failed half-way. Asked from outside of the workspace."""
    name = f"{package['name']}@{package['version']}"
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(["cargo", "info", "--registry", "crates-io", name], cwd=folder).returncode == 0


def publish(options: list[str]) -> None:
    workspace = metadata()
    add_licences(workspace)
    done = [] if options else [package["name"] for package in published(workspace) if is_published(package)]
    if len(done) == len(published(workspace)):
        print("every crate is published already")
        return
    cargo("publish", *selection(workspace), *(word for name in done for word in ("--exclude", name)), *options)


def main() -> None:
    match sys.argv[1:]:
        case ["check", *offline] if offline in ([], ["--offline"]):
            check(offline)
        case ["semver"]:
            semver()
        case ["publish", *options] if options in ([], ["--dry-run"]):
            publish(options)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
