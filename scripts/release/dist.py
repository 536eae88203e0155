#!/usr/bin/env python3
"""What a program in C or C++ needs, as a folder and a tarball: the libraries, the header, files for pkg-config and CMake,
the guide, the examples and the licences. (cargo-c makes the libraries, their names and the file for pkg-config, but no
files for CMake with what the static library needs, no licences, no guide and no tarball.)

Usage: dist.py [--target TRIPLE] [--out FOLDER] [--dev]    prints the folder's path; it is below target/dist by default
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import NamedTuple

import licences

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "crates" / "onnx-cast-capi"
HEADER = PACKAGE / "include" / "onnx_cast.h"


class Names(NamedTuple):
    """The libraries as cargo builds them, and where they lie in the folder: the one that a program loads, the one that a
    linker takes for it, and the static one."""

    built_shared: str
    built_static: str
    shared: str
    linked: str
    static: str
    # What makes the second from the first: another name, MinGW's tool or Microsoft's.
    tool: str


# `build.rs` of the crate sets the install name `@rpath/libonnx_cast.0.dylib`.
APPLE = Names(
    "libonnx_cast_capi.dylib", "libonnx_cast_capi.a", "lib/libonnx_cast.0.dylib", "lib/libonnx_cast.dylib",
    "lib/libonnx_cast.a", "alias",
)  # fmt: skip
ELF = APPLE._replace(
    built_shared="libonnx_cast_capi.so", shared="lib/libonnx_cast.so.0", linked="lib/libonnx_cast.so"
)
MINGW = ELF._replace(
    built_shared="onnx_cast_capi.dll", shared="bin/onnx_cast.dll", linked="lib/libonnx_cast.dll.a", tool="dlltool"
)
# A static and an import library end alike here, so the former has another stem.
MSVC = MINGW._replace(
    built_static="onnx_cast_capi.lib", linked="lib/onnx_cast.lib", static="lib/onnx_cast_static.lib", tool="lib"
)
SYSTEMS = {"windows-msvc": MSVC, "windows": MINGW, "apple": APPLE, "linux": ELF, "bsd": ELF, "dragonfly": ELF}


def names_of(triple):
    """The names for a target, of the first system that its triple has."""
    found = next((names for system, names in SYSTEMS.items() if system in triple), None)
    return found or sys.exit(f"dist: {triple} has no layout here (want Linux, macOS, Windows or a BSD)")


def run(*command, **options):
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"dist: {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def build(kind, profile, target, *rustc):
    """Builds one kind of library. Gives what the compiler noted."""
    options = ["--profile", profile, "--locked", "--lib", "--package", PACKAGE.name, "--crate-type", kind]
    return run("cargo", "rustc", *options, *(["--target", target] if target else []), "--", *rustc).stderr


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def functions(header):
    """The functions that a header declares, each in the first column."""
    return sorted(re.findall(r"^(?!typedef)[a-z][^(\n]*?\b(onnx_cast_\w+)\(", header, re.MULTILINE))


def link(triple, names, folder):
    """Makes what linkers take for the shared library."""
    linked, shared = folder / names.linked, folder / names.shared
    linked.parent.mkdir(exist_ok=True)
    if names.tool == "alias":
        return linked.symlink_to(shared.name)
    definition = linked.with_suffix(".def")
    exports = "".join(f"  {name}\n" for name in functions(HEADER.read_text()))
    definition.write_text(f"LIBRARY {shared.name}\nEXPORTS\n{exports}")
    if names.tool == "lib":
        programs = ("lib", "llvm-lib")
        machine = "ARM64" if triple.startswith("aarch64") else "X64"
        arguments = ["/NOLOGO", f"/MACHINE:{machine}", f"/DEF:{definition}", f"/OUT:{linked}"]
    else:
        programs = (f"{triple.split('-')[0]}-w64-mingw32-dlltool", "dlltool")
        arguments = [f"--input-def={definition}", f"--output-lib={linked}", f"--dllname={shared.name}"]
    program = next(filter(shutil.which, programs), None)
    run(program or sys.exit(f"dist: the import library needs one of {', '.join(programs)}"), *arguments)
    definition.unlink()


def system_libraries(notes):
    """What the static library is linked with. CMake takes an option of Microsoft's linker for a path where it begins with
    a slash."""
    listed = re.search(r"native-static-libs: (.*)", notes) or sys.exit("dist: rustc names no native-static-libs")
    return [re.sub(r"^/(?=.*:)", "-", word) for word in listed[1].split()]


def write_templates(folder, names, version, libraries):
    """The files for pkg-config and CMake."""
    location = f'IMPORTED_LOCATION "${{_onnx_cast_prefix}}/{names.shared}"'
    if names.tool != "alias":
        location += f'\n    IMPORTED_IMPLIB "${{_onnx_cast_prefix}}/{names.linked}"'
    words = {"VERSION": version, "MINOR_VERSION": version.rpartition(".")[0], "SHARED": location, "STATIC": names.static}
    for place in ("pkgconfig/onnx_cast.pc", "cmake/onnx_cast/onnx_castConfig.cmake", "cmake/onnx_cast/onnx_castConfigVersion.cmake"):
        path = folder / "lib" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        words["PRIVATE_LIBS"] = (";" if path.suffix == ".cmake" else " ").join(libraries)
        template = (PACKAGE / "dist" / f"{path.name}.in").read_text()
        path.write_text(re.sub(r"@([A-Z_]+)@", lambda name: words[name[1]], template))


def dist(profile, target, out):
    """Lays everything out and packs it. Gives the folder."""
    triple = target or re.search(r"^host: (.*)", run("rustc", "-vV").stdout, re.MULTILINE)[1]
    names = names_of(triple)
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    metadata = json.loads(run("cargo", "metadata", "--format-version=1", "--locked", "--no-deps").stdout)
    targets = Path(metadata["target_directory"])
    built = targets / (target or "") / ("debug" if profile == "dev" else profile)
    folder = (out or targets / "dist").absolute() / f"onnx-cast-{version}-{triple}"
    shutil.rmtree(folder, ignore_errors=True)

    build("cdylib", profile, target, "-C", "strip=symbols")
    copy(built / names.built_shared, folder / names.shared)
    link(triple, names, folder)
    libraries = system_libraries(build("staticlib", profile, target, "--print", "native-static-libs"))
    copy(built / names.built_static, folder / names.static)
    # Microsoft's debug information is in files of its own.
    if names.tool != "lib" and shutil.which("strip"):
        run("strip", "-S", folder / names.static)
    write_templates(folder, names, version, libraries)

    copy(HEADER, folder / "include" / HEADER.name)
    documents = folder / "share" / "doc" / "onnx-cast"
    shutil.copytree(ROOT / "examples" / "c", documents / "examples")
    for document in (ROOT / "docs" / "c.md", *ROOT.glob("LICENSE-*")):
        copy(document, documents / document.name)
    (documents / licences.FILE).write_text(licences.text(PACKAGE.name, target))
    with tarfile.open(f"{folder}.tar.gz", "w:gz") as tarball:
        tarball.add(folder, folder.name)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", metavar="TRIPLE", help="build for this target (default: the host)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="the folder to write to (default: target/dist)")
    help = "build in the profile of the tests, which is built sooner"
    parser.add_argument("--dev", action="store_const", const="dev", default="release", dest="profile", help=help)
    options = parser.parse_args()
    print(dist(options.profile, options.target, options.out))


if __name__ == "__main__":
    main()
