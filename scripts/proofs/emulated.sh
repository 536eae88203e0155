#!/usr/bin/env bash
# Compares every backend of another processor with the scalar cast and the exact oracle: one plain program without
# threads (crates/onnx-cast/examples/emulated.rs), cross-compiled and run by QEMU, by node, or by this processor where
# it can. And of Windows, by Wine. Not part of the test run.
#
#   bash scripts/proofs/emulated.sh aarch64              # NEON and portable
#   bash scripts/proofs/emulated.sh s390x                # portable, where the first byte is the most significant one
#   bash scripts/proofs/emulated.sh i686                 # portable, where sizes have 32 bits; on x86-64, which runs it itself
#   bash scripts/proofs/emulated.sh wasm32               # WebAssembly in node, built without simd128 and then with it
#   bash scripts/proofs/emulated.sh windows              # as on x86-64 here, with Windows' files and threads, by Wine
#   bash scripts/proofs/emulated.sh --install aarch64    # install first what is missing (as root, with apt and rustup)
#   bash scripts/proofs/emulated.sh --build-std s390x    # build Rust's library from its sources, where rustup has none built
#   bash scripts/proofs/emulated.sh s390x test -p onnx-cast --test ops    # another command of cargo's for that processor
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
    echo "usage: scripts/proofs/emulated.sh [--install] [--build-std] aarch64|i686|s390x|wasm32|windows [COMMAND OF CARGO'S ...]" >&2
    exit 2
}

install=false
build_std=false
while [[ ${1:-} = --* ]]; do
    case $1 in
        --install) install=true ;;
        --build-std) build_std=true ;;
        *) usage ;;
    esac
    shift
done
processor=${1:-}
target=$processor-unknown-linux-gnu
compiler=$processor-linux-gnu-gcc
packages=(qemu-user-static "gcc-${processor}-linux-gnu")
runner=("qemu-$processor-static")
# Statically linked, so that the program needs none of the other system's files.
builds=("-C target-feature=+crt-static")
case $processor in
    aarch64) packages+=(libc6-dev-arm64-cross) ;;
    i686)
        packages=(gcc-i686-linux-gnu libc6-dev-i386-cross)
        runner=()
        ;;
    s390x) packages+=(libc6-dev-s390x-cross) ;;
    windows)
        target=x86_64-pc-windows-gnu
        compiler=x86_64-w64-mingw32-gcc
        packages=(gcc-mingw-w64-x86-64 wine wine64)
        runner=(wine)
        export WINEDEBUG=${WINEDEBUG:--all}
        ;;
    wasm32)
        # WASI gives the program its arguments, environment and streams. Rust brings the linker.
        target=wasm32-wasip1
        compiler=
        packages=()
        runner=(node --no-warnings "$PWD/scripts/proofs/wasi.mjs")
        # A module that has vector instructions is refused where they are not known, so they are chosen when it is
        # built.
        builds=("" "-C target-feature=+simd128")
        ;;
    *) usage ;;
esac
shift
programs=(${compiler:+"$compiler"} "${runner[@]:0:1}")
if [ $# = 0 ]; then
    set -- run --release -p onnx-cast --no-default-features --example emulated
fi

has_programs() {
    command -v "${programs[@]}" | wc -l | grep -qx "${#programs[@]}" || return 1
    # Older versions ask for a flag before they run a WASI program, and distributions still have them.
    [ "$processor" != wasm32 ] || node --eval 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)'
}
has_sources() { [ -e "$(rustc --print sysroot)/lib/rustlib/src/rust/library/std/Cargo.toml" ]; }
has_library() { compgen -G "$(rustc --print target-libdir --target "$target")/libstd-*.rlib" >/dev/null; }

if $install; then
    if ! has_programs && [ ${#packages[@]} -gt 0 ]; then
        apt-get update && apt-get install -y --no-install-recommends "${packages[@]}"
    fi
    if $build_std; then
        has_sources || rustup component add rust-src
    else
        has_library || rustup target add "$target"
    fi
fi
missing=()
if ! has_programs; then
    if [ ${#packages[@]} -gt 0 ]; then
        missing+=("${programs[*]}: apt-get install ${packages[*]}, or --install")
    else
        missing+=("node 20 or newer: nodejs.org")
    fi
fi
if $build_std; then
    has_sources || missing+=("the sources of Rust's library: rustup component add rust-src, or --install")
else
    has_library || missing+=("Rust's library for $target: rustup target add $target, or --install")
fi
if [ ${#missing[@]} -gt 0 ]; then
    printf 'missing: %s\n' "${missing[@]}" >&2
    exit 2
fi

options=()
if $build_std; then
    # Cargo keeps this for nightly compilers; the variable has a stable one take it.
    export RUSTC_BOOTSTRAP=1
    options=(-Zbuild-std=std,panic_abort)
fi
if [ ${#runner[@]} -gt 0 ]; then
    options+=(--config "target.$target.runner = [$(printf "'%s', " "${runner[@]}")]")
fi
if [ "$processor" = windows ]; then
    # Rust's library takes random numbers from a DLL that Wine 8 lacks.
    stub=$(realpath -m "${CARGO_TARGET_DIR:-target}")/wine
    mkdir -p "$stub"
    "$compiler" -shared -x c - -o "$stub/bcryptprimitives.dll" -ladvapi32 <<'C'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T len) { return SystemFunction036(data, (ULONG)len); }
C
    export WINEPATH="Z:${stub//\//\\}"
fi
# Either would replace the flags chosen here, simd128 among them.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")
[ -z "$compiler" ] || export "${variable}_LINKER=$compiler"
for flags in "${builds[@]}"; do
    echo "=== $target, RUSTFLAGS='$flags': cargo $*"
    export "${variable}_RUSTFLAGS=$flags"
    time cargo "${options[@]}" "$1" --locked --target "$target" "${@:2}"
done
