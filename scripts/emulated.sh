#!/usr/bin/env bash
# Compares every backend of another processor with the scalar cast and the exact oracle: one plain program without threads
# (crates/onnx-cast/examples/emulated.rs), cross-compiled and run by QEMU, or by this processor where it can. Not part of the
# test run.
#
#   bash scripts/emulated.sh aarch64              # NEON and portable
#   bash scripts/emulated.sh s390x                # portable, where the first byte is the most significant one
#   bash scripts/emulated.sh i686                 # portable, where sizes have 32 bits; on x86-64, which runs it itself
#   bash scripts/emulated.sh --install aarch64    # install first what is missing (as root, with apt and rustup)
#   bash scripts/emulated.sh s390x test -p onnx-cast --test ops    # another command of cargo's for that processor
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    echo "usage: scripts/emulated.sh [--install] aarch64|i686|s390x [COMMAND OF CARGO'S ...]" >&2
    exit 2
}

install=false
if [ "${1:-}" = --install ]; then
    install=true
    shift
fi
processor=${1:-}
emulator=qemu-$processor-static
packages=(qemu-user-static "gcc-${processor}-linux-gnu")
case $processor in
    aarch64) packages+=(libc6-dev-arm64-cross) ;;
    i686)
        emulator=
        packages=(gcc-i686-linux-gnu libc6-dev-i386-cross)
        ;;
    s390x) packages+=(libc6-dev-s390x-cross) ;;
    *) usage ;;
esac
shift
target=$processor-unknown-linux-gnu
compiler=$processor-linux-gnu-gcc
programs=("$compiler" ${emulator:+"$emulator"})
if [ $# = 0 ]; then
    set -- run --release -p onnx-cast --no-default-features --example emulated
fi

has_packages() { command -v "${programs[@]}" | wc -l | grep -qx "${#programs[@]}"; }
has_library() { compgen -G "$(rustc --print target-libdir --target "$target")/libstd-*.rlib" >/dev/null; }

if $install; then
    has_packages || { apt-get update && apt-get install -y --no-install-recommends "${packages[@]}"; }
    has_library || rustup target add "$target"
fi
missing=()
has_packages || missing+=("${programs[*]}: apt-get install ${packages[*]}")
has_library || missing+=("Rust's library for $target: rustup target add $target")
if [ ${#missing[@]} -gt 0 ]; then
    printf 'missing: %s\n' "${missing[@]}" >&2
    echo "bash scripts/emulated.sh --install $processor does this" >&2
    exit 2
fi

# Statically linked, so that the program needs none of the other system's files.
variable=CARGO_TARGET_$(tr 'a-z-' 'A-Z_' <<<"$target")
export "${variable}_LINKER=$compiler" ${emulator:+"${variable}_RUNNER=$emulator"}
export "${variable}_RUSTFLAGS=-C target-feature=+crt-static"
time cargo "$1" --locked --target "$target" "${@:2}"
