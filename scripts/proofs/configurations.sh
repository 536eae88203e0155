#!/usr/bin/env bash
# The tests in every configuration that the test run does not have: optimized without assertions, not optimized at all,
# each combination of features, no standard library, each backend of this machine, the oldest Rust, the oldest versions
# of dependencies, other processors. Prints how many tests passed in each, and ends with 1 where one fails or is not
# available here. Not part of the test run.
#
#   bash scripts/proofs/configurations.sh                                    # all of them
#   bash scripts/proofs/configurations.sh features backends                  # some
#   bash scripts/proofs/configurations.sh --install oldest                   # install first what rustup has to
#
# debug, release, features, bare, backends, oldest, minimal, systems, i686, aarch64, s390x, wasm32: the last four with
# what scripts/proofs/emulated.sh asks for. `host` is what .github/workflows/test.yml runs on macOS and Windows: the
# tests in Rust.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# A target without a standard library.
BARE=thumbv7em-none-eabi
rows=()
status=0

# Runs a command, and notes that it ended well, and how many tests passed in it.
check() {
    local name=$1 result
    shift
    printf '\n=== %s: %s\n' "$name" "$*"
    if "$@" 2>&1 | tee "$log"; then
        result=$(awk '/^test result: ok/ { sum += $4 } END { if (NR && sum) print sum " tests passed"; else print "done" }' "$log")
    else
        result="FAILED, or not available here"
        status=1
    fi
    rows+=("$name: $result")
}

tests=(-p onnx-cast -p onnx-cast-file -p onnx-cast-capi --tests --no-fail-fast)

# Nothing of ours optimized but the oracle, which is waited for the most; and overflows are errors.
debug() {
    check "debug" cargo test --locked "${tests[@]}" --config profile.dev.opt-level=0 \
        --config profile.dev.package.onnx-cast.opt-level=0 --config profile.dev.package.testkit.opt-level=3 \
        --config 'profile.dev.package."*".opt-level=3'
}

release() {
    check "release" cargo test --locked --release "${tests[@]}"
}

# Nothing there has a standard library to offer.
bare() {
    check "onnx-cast without the standard library (rustup target add $BARE)" cargo build --locked -p onnx-cast \
        --no-default-features --features libm,half,bytemuck,serde --target "$BARE"
}

# The features that change what is built, of two crates.
features() {
    check "onnx-cast without threads" cargo test --locked -p onnx-cast --no-default-features --no-fail-fast
    check "onnx-cast-capi without onnxruntime" cargo test --locked -p onnx-cast-capi --no-default-features --no-fail-fast
    check "onnx-cast without threads, lints" cargo clippy --locked -p onnx-cast --no-default-features --features std \
        -- -D warnings
    check "onnx-cast-capi without onnxruntime, lints" cargo clippy --locked -p onnx-cast-capi --no-default-features \
        -- -D warnings
}

# The variable decides which backend is the best one: that of everything that names none.
backends() {
    local names name
    names=$(cargo run --locked --quiet -p onnx-cast-cli -- bench --isa | awk '{ print $1 }')
    for name in $names; do
        check "ONNX_CAST_ISA=$name" env "ONNX_CAST_ISA=$name" cargo test --locked "${tests[@]}" -p onnx-cast-cli
    done
}

# That one itself, where it is installed; and what a newer one can say of it: the lint knows since when each function of
# the standard library is there, and every crate names what it needs.
oldest() {
    local version
    version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    check "nothing newer than Rust $version" cargo clippy --locked --workspace --all-targets -- -D clippy::incompatible_msrv
    check "no crate that needs a newer one" cargo test --locked -p testkit --test dependencies
    check "Rust $version (rustup toolchain install $version.0)" cargo "+$version.0" test --locked "${tests[@]}" -p onnx-cast-cli
}

# What the manifests promise of each direct dependency: the oldest version that they allow. In a copy, because it needs
# another Cargo.lock. The option is for nightly compilers; the variable has a stable one take it.
minimal() {
    local folder
    folder=$(mktemp -d)
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --no-dereference --parents --target-directory "$folder"
    # The Python package and the fuzzer are workspaces of their own.
    (cd "$folder" && RUSTC_BOOTSTRAP=1 cargo update -Z direct-minimal-versions)
    check "the oldest versions of dependencies" env "CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/minimal" \
        cargo check --manifest-path "$folder/Cargo.toml" --locked --workspace --exclude xtask --exclude fuzz-targets \
        --all-features --config profile.dev.package.onnx-cast.opt-level=0
    rm -rf "$folder"
}

# The command and the C library, and what their tests need, compiled for other systems up to where they are linked.
systems() {
    local target
    for target in x86_64-pc-windows-gnu aarch64-apple-darwin; do
        check "$target (rustup target add $target)" cargo check --locked --target "$target" \
            -p onnx-cast-cli -p onnx-cast-capi --tests --config profile.dev.package.onnx-cast.opt-level=0
    done
}

# Everything that runs on every system.
host() {
    check "this system" cargo test --locked "${tests[@]}" -p onnx-cast-model -p onnx-cast-cli
}

other_processor() {
    check "$1, every backend" bash scripts/proofs/emulated.sh "$1"
}

i686() {
    other_processor i686
    check "i686" bash scripts/proofs/emulated.sh i686 test "${tests[@]}"
}

if [ "${1:-}" = --install ]; then
    shift
    rustup toolchain install "$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml).0" --profile minimal
    rustup target add x86_64-pc-windows-gnu aarch64-apple-darwin "$BARE"
fi

# Some tests of the file crate read files of other packages, which this makes.
python3 scripts/setup.py

[ $# -gt 0 ] || set -- debug release features bare backends oldest minimal systems i686 aarch64 s390x wasm32
for what in "$@"; do
    case $what in
    debug | release | features | bare | backends | oldest | minimal | systems | host | i686) "$what" ;;
    aarch64 | s390x | wasm32) other_processor "$what" ;;
    *)
        echo "usage: scripts/proofs/configurations.sh [--install] [debug | release | features | bare | backends | oldest | minimal | systems | host | i686 | aarch64 | s390x | wasm32] ..." >&2
        exit 2
        ;;
    esac
done
printf '\n'
printf '%s\n' "${rows[@]}"
exit "$status"
