#!/usr/bin/env bash
# Runs the tests of the library, the file crate and the command as Windows programs, under Wine.
#
# Usage: wine.sh [OPTIONS OF CARGO TEST]       by default: -p onnx-cast -p onnx-cast-file -p onnx-cast-cli --no-fail-fast
#
# Needs Debian's packages gcc-mingw-w64-x86-64 and wine64, and rustup's target x86_64-pc-windows-gnu. Wine's settings are
# in target/wine. WINE_SKIP names tests to leave out, as `--skip` does.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
export WINEPREFIX=${WINEPREFIX:-$target/wine} WINEDEBUG=${WINEDEBUG:--all} DISPLAY=
mkdir -p "$WINEPREFIX"
[ -d "$WINEPREFIX/drive_c/windows/system32" ] || wineboot --init

# Rust's standard library takes random numbers from a library that Wine has only since version 9.
library=$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll
if [ ! -e "$library" ]; then
    x86_64-w64-mingw32-gcc -shared -O1 -o "$library" -x c - -ladvapi32 << 'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size) { return SystemFunction036(data, (ULONG)size); }
END
fi

export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
[ $# -gt 0 ] || set -- -p onnx-cast -p onnx-cast-file -p onnx-cast-cli --no-fail-fast
skipped=()
for test in ${WINE_SKIP:-}; do skipped+=(--skip "$test"); done
exec cargo test --locked --target x86_64-pc-windows-gnu "$@" -- "${skipped[@]}"
