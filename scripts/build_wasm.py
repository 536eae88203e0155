#!/usr/bin/env python3
"""Builds the WebAssembly modules of crates/onnx-cast-wasm: npm/wasm/simd.wasm with vector instructions, plain.wasm
without.

  python3 scripts/build_wasm.py              # both
  python3 scripts/build_wasm.py --check      # only says whether they can be built; status 3 where they cannot
  python3 scripts/build_wasm.py --install    # as root on Debian, installs first what is missing

Rust's library for wasm32-unknown-unknown comes from rustup. Where the toolchain has none, it is built from the
sources of Debian's packages rustc-web and rust-web-src; the linker is then the toolchain's rust-lld, or that of Debian's
package lld.
"""

import argparse
import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "wasm32-unknown-unknown"
FOLDER = ROOT / "npm" / "wasm"
# Flags of the compiler, and the level of the library with its kernels, which is small where there are no vectors.
BUILDS = {"simd": ("-C target-feature=+simd128", "3"), "plain": ("", "\"s\"")}
DEBIAN = ["rustc-web", "rust-web-src"]
# What a module may take: bytes as they are, and compressed. The aim is 1,500,000 and 500,000: see
# docs/dev/architecture.md.
LIMIT, LIMIT_COMPRESSED = 3_800_000, 1_200_000


def ask(rustc, *arguments):
    done = subprocess.run([rustc, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
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
    """Variables and options of cargo that build for the target; None where nothing does."""
    if has_library("rustc"):
        return {}, []
    for rustc in ["rustc", "/usr/bin/rustc"]:
        if has_sources(rustc) and linker():
            variable = f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_LINKER"
            # Cargo keeps the option for nightly compilers; the variable has a stable one take it.
            env = {"RUSTC": rustc, "RUSTC_BOOTSTRAP": "1", variable: linker()}
            return env, ["-Zbuild-std=std,panic_abort"]
    return None


def build(name, flags, level, env, options):
    # Folders of their own: both builds stay ready, and neither is that of the host.
    target = ROOT / "target" / "wasm" / name
    variables = os.environ | env | {
        "CARGO_TARGET_DIR": str(target),
        f"CARGO_TARGET_{TARGET.upper().replace('-', '_')}_RUSTFLAGS": flags,
    }
    for unwanted in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"]:
        variables.pop(unwanted, None)
    command = ["cargo", "rustc", "--quiet", "--locked", "--profile", "wasm", "-p", "onnx-cast-wasm"]
    command += ["--config", f"profile.wasm.package.onnx-cast.opt-level={level}"]
    command += ["--target", TARGET, "--crate-type", "cdylib", *options]
    subprocess.run(command, env=variables, cwd=ROOT, check=True, stdin=subprocess.DEVNULL)
    built = target / TARGET / "wasm" / "onnx_cast_wasm.wasm"
    FOLDER.mkdir(parents=True, exist_ok=True)
    data = built.read_bytes()
    (FOLDER / f"{name}.wasm").write_bytes(data)
    compressed = len(gzip.compress(data, 9))
    print(f"{name}.wasm: {len(data):,} bytes, {compressed:,} compressed")
    if len(data) > LIMIT or compressed > LIMIT_COMPRESSED:
        sys.exit(f"{name}.wasm is larger than {LIMIT:,} bytes, or {LIMIT_COMPRESSED:,} compressed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--install", action="store_true")
    args = parser.parse_args()
    found = toolchain()
    if found is None and args.install:
        subprocess.run(["apt-get", "update"], check=True)
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *DEBIAN, "lld"], check=True)
        found = toolchain()
    if found is None:
        print(f"WebAssembly cannot be built: no library for {TARGET} (rustup target add {TARGET}), and no sources "
              f"of it (Debian: apt-get install {' '.join(DEBIAN)} lld)", file=sys.stderr)
        sys.exit(3)
    if args.check:
        return
    for name, (flags, level) in BUILDS.items():
        build(name, flags, level, *found)


if __name__ == "__main__":
    main()
