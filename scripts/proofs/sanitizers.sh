#!/usr/bin/env bash
# Looks for accesses to memory that is not there, not set or not guarded, with tools that watch every one. Not part of
# the test run; from minutes to an hour each.
#
#   bash scripts/proofs/sanitizers.sh                   # all of them
#   bash scripts/proofs/sanitizers.sh address           # AddressSanitizer: the tests of the library, the file crate, the C interface
#   bash scripts/proofs/sanitizers.sh thread            # ThreadSanitizer: 64 threads at once, tensors cut among a pool
#   bash scripts/proofs/sanitizers.sh miri              # Miri: every algorithm of the kernels over lanes in plain Rust; operators,
#                                                       # views and packing over them; the edge of C
#
# The sanitizers are first shown a mistake of their kind, which they must report. They are unstable options of rustc,
# which a stable one takes with RUSTC_BOOTSTRAP. ThreadSanitizer has to see the locks of the standard library, which is
# therefore built with it: that needs its sources, `rustup component add rust-src`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

target=$(rustc -vV | sed -n 's/^host: //p')
built=${CARGO_TARGET_DIR:-$PWD/target}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rows=()
# It limits the memory of its process, of which a sanitizer needs terabytes.
skipped=(--skip a_system_without_threads_to_give)
export RUSTC_BOOTSTRAP=1

# A program with a mistake, which must be reported.
must_report() {
    local sanitizer=$1 report=$2
    rustc "-Zsanitizer=$sanitizer" -Cunsafe-allow-abi-mismatch=sanitizer --target "$target" --edition 2024 \
        -o "$scratch/mistake" -
    if "$scratch/mistake" >"$scratch/log" 2>&1 || ! grep -q "$report" "$scratch/log"; then
        cat "$scratch/log"
        echo "scripts/proofs/sanitizers.sh: $sanitizer did not report the mistake that it was shown" >&2
        return 1
    fi
    echo "shown a mistake, it says: $(grep -m 1 -o "$report.*" "$scratch/log" | cut -c 1-80)"
}

passed() { awk '/^test result: ok/ { sum += $4 } END { print sum + 0 }' "$scratch/log"; }

# Tests with a sanitizer, built in a folder of their own: no object of one may meet those of another.
with_sanitizer() {
    local sanitizer=$1
    shift
    CARGO_TARGET_DIR=$built/$sanitizer-sanitizer \
        RUSTFLAGS="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer" \
        CARGO_PROFILE_TEST_OPT_LEVEL=1 CARGO_PROFILE_TEST_DEBUG=line-tables-only \
        cargo test --locked --target "$target" --no-fail-fast "$@" -- "${skipped[@]}" 2>&1 | tee "$scratch/log"
    if grep -E "(ERROR|WARNING): [A-Za-z]+Sanitizer" "$scratch/log"; then
        return 1
    fi
    rows+=("$sanitizer: $(passed) tests passed, no report")
}

address() {
    # Some tests of the file crate read files of other packages, which this makes.
    python3 scripts/setup.py
    must_report address "AddressSanitizer: heap-buffer-overflow" <<'RUST'
fn main() {
    let bytes = vec![1u8; 8];
    let behind = std::env::args().count() + 7;
    println!("{}", unsafe { *bytes.as_ptr().add(behind) });
}
RUST
    with_sanitizer address -p onnx-cast -p onnx-cast-file -p onnx-cast-capi --tests
}

thread() {
    if [ ! -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ]; then
        echo "scripts/proofs/sanitizers.sh: thread needs the sources of the standard library: rustup component add rust-src" >&2
        return 2
    fi
    must_report thread "ThreadSanitizer: data race" <<'RUST'
static mut SHARED: usize = 0;
fn main() {
    let add = || (0..1000).for_each(|_| unsafe { SHARED += 1 });
    std::thread::scope(|scope| [scope.spawn(add), scope.spawn(add)].map(|thread| thread.join().unwrap()));
}
RUST
    with_sanitizer thread -Zbuild-std -p onnx-cast --test threads
}

# Only a nightly Rust has it, and it interprets: what takes seconds elsewhere takes hours here, so these are the quick
# tests. `scripts/checks/miri.py` runs the quickest in each test run.
miri() {
    local toolchain=${MIRI_TOOLCHAIN:-nightly}
    if ! cargo "+$toolchain" miri --version; then
        echo "scripts/proofs/sanitizers.sh: miri needs: rustup toolchain install nightly --profile minimal --component miri,rust-src" >&2
        return 2
    fi
    # The clock, and the folders of tests.
    export MIRIFLAGS=-Zmiri-disable-isolation CARGO_TARGET_DIR=$built/miri
    # The lanes are the best backend here (`arch/plain.rs`), so all kernels of the tests are theirs.
    cargo "+$toolchain" miri test --locked -p onnx-cast --lib -- \
        a_walk plain scaled_cast non_temporal past_the_caches 2>&1 |
        tee "$scratch/log"
    cargo "+$toolchain" miri test --locked -p onnx-cast --test ops 2>&1 | tee -a "$scratch/log"
    cargo "+$toolchain" miri test --locked -p onnx-cast-capi --lib 2>&1 | tee -a "$scratch/log"
    rows+=("miri: $(passed) tests passed, no report")
}

[ $# -gt 0 ] || set -- address thread miri
for what in "$@"; do
    case $what in
    address | thread | miri)
        printf '\n=== %s\n' "$what"
        "$what"
        ;;
    *)
        echo "usage: scripts/proofs/sanitizers.sh [address] [thread] [miri]" >&2
        exit 2
        ;;
    esac
done
printf '\n'
printf '%s\n' "${rows[@]}"
