#!/usr/bin/env python3
"""Builds the WebAssembly modules of crates/onnx-cast-wasm in npm/wasm: `values-simd.wasm` for arrays and single values,
`files-simd.wasm` for jobs on files of tensors and `models-simd.wasm` for jobs on ONNX models, all with vector
instructions, and without them `values-plain.wasm`, `files-plain.wasm` and `models-plain.wasm`. With them go
`report.html`, the page of a report without its figures, which the package fills in, and the licences of others' code.

  python3 scripts/build_wasm.py              # all six
  python3 scripts/build_wasm.py --test       # all six, those without vector instructions larger: sooner, for tests
  python3 scripts/build_wasm.py --check      # only says whether they can be built; status 3 where they cannot
  python3 scripts/build_wasm.py --install    # as root on Debian, installs first what is missing

Rust's library for wasm32-unknown-unknown is built from its sources, without texts for panics, of which a module has
none: a panic ends it. The sources are the toolchain's (`rustup component add rust-src`) or those of Debian's packages
rustc-web and rust-web-src; the linker is the toolchain's rust-lld, or that of Debian's package lld. Where there are no
sources, the library is rustup's own (`rustup target add wasm32-unknown-unknown`), and modules are a fifth larger.

Binaryen's wasm-opt, which scripts/setup.py fetches from npm, then takes 7% off each module; without it they stay so.
"""

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "release"))
import licences  # noqa: E402
TARGET = "wasm32-unknown-unknown"
FOLDER = ROOT / "npm" / "wasm"
# The features of the crate that a module has.
PARTS = ["values", "files", "models"]
# Flags of the compiler, and the level of the library with its kernels: with vectors they are as fast at 2 as at 3 and
# smaller, without them they are for size.
BUILDS = {"simd": ("-C target-feature=+simd128", "2"), "plain": ("", "'s'")}
DEBIAN = ["rustc-web", "rust-web-src"]
DEBIAN_RUSTC = "/usr/bin/rustc"
# What stands in the page of a report for its marks, of crates/onnx-cast-report/src (`page.rs` there does the same).
REPORT = {
    "plots-licence": "vendor/uPlot.LICENSE",
    "plots-style": "vendor/uPlot.min.css",
    "base-style": "../../onnx-cast-explain/src/base.css",
    "style": "page.css",
    "plots": "vendor/uPlot.iife.min.js",
    "script": "page.js",
}
# Binaryen's optimiser for size, and what the modules use of WebAssembly beyond its first version.
WASM_OPT = ROOT / ".cache" / "javascript" / "node_modules" / "binaryen" / "bin" / "wasm-opt"
USED = ["bulk-memory", "multivalue", "mutable-globals", "nontrapping-float-to-int", "reference-types", "sign-ext"]
# What a module may take in bytes, as it is and compressed by gzip.
# The rules of loaders take 310 kB of the module `files`, or 31 kB compressed.
LIMIT, LIMIT_COMPRESSED = 1_950_000, 640_000


def ask(rustc, *arguments):
    """What a compiler prints; nothing where it fails or is missing."""
    try:
        done = subprocess.run([rustc, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def has_library(rustc):
    folder = ask(rustc, "--print", "target-libdir", "--target", TARGET)
    return bool(folder) and any(Path(folder).glob("libstd-*.rlib"))


def has_sources(rustc):
    root = ask(rustc, "--print", "sysroot")
    return bool(root) and (Path(root) / "lib/rustlib/src/rust/library/std/Cargo.toml").exists()


def linker():
    """A linker for WebAssembly, where the compiler brings none."""
    root = Path(ask("rustc", "--print", "sysroot"))
    found = [str(path) for path in sorted(root.glob("lib/rustlib/*/bin/rust-lld"))]
    return next(iter(found), None) or shutil.which("rust-lld") or shutil.which("wasm-ld")


def toolchain():
    """Variables and options of cargo that build for the target, and flags of the compiler; None where nothing does."""
    for rustc in ["rustc", DEBIAN_RUSTC]:
        if has_sources(rustc) and linker():
            variable = f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_LINKER"
            # Cargo and the compiler keep the options for nightly versions; the variable has stable ones take them.
            env = {"RUSTC": rustc, "RUSTC_BOOTSTRAP": "1", variable: linker()}
            options = ["-Zbuild-std=std,panic_abort", "-Zbuild-std-features=optimize_for_size"]
            return env, options, "-Cpanic=immediate-abort -Zunstable-options -Zlocation-detail=none"
    return ({}, [], "") if has_library("rustc") else None


def build(name, flags, level, is_shrunk, env, options, more):
    # Folders of their own: both builds stay ready, and neither is that of the host.
    target = ROOT / "target" / "wasm" / name
    variables = os.environ | env | {
        "CARGO_TARGET_DIR": str(target),
        f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_RUSTFLAGS": f"{flags} {more}".strip(),
    }
    for unwanted in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"]:
        variables.pop(unwanted, None)
    command = ["cargo", "rustc", "--quiet", "--locked", "--profile", "wasm", "-p", "onnx-cast-wasm"]
    command += ["--config", f"profile.wasm.package.onnx-cast.opt-level={level}"]
    command += ["--target", TARGET, "--crate-type", "cdylib", *options, "--no-default-features", "--features"]
    for part in PARTS:
        subprocess.run([*command, part], env=variables, cwd=ROOT, check=True, stdin=subprocess.DEVNULL)
        data = bare((target / TARGET / "wasm" / "onnx_cast_wasm.wasm").read_bytes())
        FOLDER.mkdir(parents=True, exist_ok=True)
        place = FOLDER / f"{part}-{name}.wasm"
        place.write_bytes(data)
        if is_shrunk:
            shrink(place, name)
            data = place.read_bytes()
        compressed = len(gzip.compress(data, 9))
        print(f"{part}-{name}.wasm: {len(data):,} bytes, {compressed:,} compressed")
        # The limits are for what is published: built from the sources, and shrunk.
        if options and is_shrunk and (len(data) > LIMIT or compressed > LIMIT_COMPRESSED):
            sys.exit(f"{part}-{name}.wasm is larger than {LIMIT:,} bytes, or {LIMIT_COMPRESSED:,} compressed")


def shrink(module, name):
    """Makes a module smaller in place."""
    features = [f"--enable-{feature}" for feature in USED + (["simd"] if name == "simd" else [])]
    # Further passes make it smaller by 0.4%, and take as long again.
    command = ["node", WASM_OPT, "-Oz", *features, module, "-o", module]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    module.write_bytes(bare(module.read_bytes()))


def write_report():
    folder = ROOT / "crates" / "onnx-cast-report" / "src"

    def text(found):
        return (folder / REPORT[found[1]]).read_text().strip() if found[1] in REPORT else found[0]

    mark = r"\{\{([\w-]+)\}\}"
    page = re.sub(mark, text, (folder / "page.html").read_text())
    if re.findall(mark, page) != ["data"]:
        sys.exit(f"the page of a report has marks that REPORT lacks: {re.findall(mark, page)}")
    (FOLDER / "report.html").write_text(page)


def bare(module):
    """A module without its custom sections, which name tools and types that no engine asks for."""
    kept, at = bytearray(module[:8]), 8
    while at < len(module):
        place, size, shift = at + 1, 0, 0
        while True:
            byte = module[place]
            size |= (byte & 0x7F) << shift
            place, shift = place + 1, shift + 7
            if byte < 0x80:
                break
        if module[at] != 0:
            kept += module[at : place + size]
        at = place + size
    return bytes(kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--install", action="store_true")
    args = parser.parse_args()
    found = toolchain()
    if found is None and args.install:
        subprocess.run(["apt-get", "update"], check=True)
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *DEBIAN, "lld"], check=True)
        found = toolchain()
    if found is None:
        print(f"WebAssembly cannot be built: no sources of Rust's library (rustup component add rust-src; Debian: "
              f"apt-get install {' '.join(DEBIAN)} lld), nor the library for {TARGET} (rustup target add {TARGET})",
              file=sys.stderr)
        sys.exit(3)
    if args.check:
        return
    can_shrink = WASM_OPT.exists() and shutil.which("node") is not None
    if not can_shrink:
        print("binaryen is missing, so the modules stay larger (python3 scripts/setup.py --javascript)", flush=True)
    for name, (flags, level) in BUILDS.items():
        build(name, flags, level, can_shrink and not (args.test and name == "plain"), *found)
    write_report()
    (FOLDER / licences.FILE).write_text(licences.text("onnx-cast-wasm", TARGET, ",".join(PARTS)))


if __name__ == "__main__":
    main()
