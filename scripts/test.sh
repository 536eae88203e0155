#!/usr/bin/env bash
# The whole test run: set-up, format, lints, build, tests, documentation, checks in Python. All warnings are errors.
# What JavaScript needs (scripts/checks/javascript.sh) is left out where it is missing, and named.
# Needs Rust (with rustfmt and clippy), Python 3.11 or newer, a compiler for C and C++, make and pkg-config; the first run
# fetches packages from crates.io and PyPI.
# With --ray, the Python package is also tested on a Ray cluster of this machine and with Arrow and pandas (200 MB of
# packages); with --torch, on PyTorch's tensors (4 GB). With --only TEXT, of the stages after the set-up those run whose
# names contain the text: `bash scripts/test.sh --ray --torch --only "Python package"`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=()
only=
while (($#)); do
    case "$1" in
    --ray | --torch) packages+=("$1") ;;
    --only)
        if [[ ! "${2-}" ]]; then
            echo "scripts/test.sh: --only wants a part of the names of stages" >&2
            exit 2
        fi
        only=$2
        shift
        ;;
    *)
        echo "scripts/test.sh: unknown option $1 (want --ray, --torch, --only TEXT)" >&2
        exit 2
        ;;
    esac
    shift
done

count=0
stage() {
    if [[ "$1" != set-up && "$1" != *"$only"* ]]; then
        return
    fi
    count=$((count + 1))
    printf '\n=== %s\n' "$1"
    shift
    "$@"
}

python=.venv/bin/python
package=bindings/python/Cargo.toml
# The Python package is a workspace of its own, which shares what is built.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"

stage "set-up" python3 scripts/setup.py ${packages[@]+"${packages[@]}"}
stage "facts from onnx, older" "$python" scripts/checks/onnx_schemas.py --check
stage "facts from onnx, newest" env PYTHONPATH=.cache/onnx-newest "$python" scripts/checks/onnx_schemas.py --check
stage "operators of onnx, older" "$python" scripts/checks/onnx_operators.py --check
stage "operators of onnx, newest" env PYTHONPATH=.cache/onnx-newest "$python" scripts/checks/onnx_operators.py --check
stage "format" cargo fmt --all --check
stage "format of the peers' crate" cargo fmt --manifest-path bench/peers/Cargo.toml --check
stage "format of the fuzzer's crate" cargo fmt --manifest-path fuzz/Cargo.toml --check
stage "lints" cargo clippy --workspace --all-targets --locked -- -D warnings
stage "build" cargo build --workspace --release --locked
stage "build, not optimised" cargo build -p onnx-cast --locked --config profile.dev.package.onnx-cast.opt-level=0
stage "tests" cargo test --workspace --locked --no-fail-fast
stage "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
stage "the oracle against other packages" "$python" crates/testkit/python/check_oracle.py
stage "the oracle of scaled casts against other packages" "$python" crates/testkit/python/check_scaled.py
stage "the record of the peers" "$python" -m unittest discover --quiet bench/peers
stage "files, as other packages read them" "$python" scripts/checks/files.py
stage "files, as the newest onnx reads them" env PYTHONPATH=.cache/onnx-newest "$python" scripts/checks/files.py
stage "types of values, as onnx infers them" "$python" scripts/checks/value_types.py
stage "types of values, as the newest onnx infers them" env PYTHONPATH=.cache/onnx-newest \
    "$python" scripts/checks/value_types.py
stage "models, as onnxruntime runs them" "$python" scripts/checks/models.py
stage "models converted, as onnxruntime runs them" "$python" scripts/checks/precision.py
stage "recorded ranges, as numpy computes them" "$python" scripts/checks/record.py
stage "opsets raised, as onnxruntime runs them" "$python" scripts/checks/upgrade.py
stage "opsets raised, as the newest onnx evaluates them" \
    env PYTHONPATH=.cache/onnx-newest UPGRADE_PARTS=reference "$python" scripts/checks/upgrade.py
stage "the C interface, laid out" cargo xtask dist --out .cache/dist
stage "the C interface, from C and C++" "$python" scripts/checks/c.py .cache/dist/onnx-cast-*/
stage "the C interface against the oracle" "$python" scripts/checks/c_oracle.py .cache/dist/onnx-cast-*/
stage "the package for JavaScript, and the page" bash scripts/checks/javascript.sh
stage "reports, as numpy computes them" "$python" scripts/checks/report.py
stage "the Python package, format" cargo fmt --manifest-path "$package" --check
stage "the Python package, lints" cargo clippy --manifest-path "$package" --release --locked -- -D warnings
stage "the Python package, build" "$python" scripts/install_python_package.py
stage "the Python package, tests" "$python" -m pytest bindings/python
stage "the execution provider, in onnxruntime" "$python" scripts/checks/execution_provider.py
stage "the Python package, with the newest onnx" env PYTHONPATH=.cache/onnx-newest \
    "$python" -m pytest bindings/python/tests/test_onnx.py
if [[ "$only" ]]; then
    printf '\n%s stages passed, of those with "%s" in their names\n' $((count - 1)) "$only"
    ((count > 1)) # a text that no name has is a mistake
else
    printf '\nall stages passed\n'
fi
