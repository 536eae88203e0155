#!/usr/bin/env bash
# The whole test run: set-up, format, lints, build, tests, documentation, checks in Python. All warnings are errors.
# Needs Rust (with rustfmt and clippy), Python 3.11 or newer, a compiler for C and C++, make and pkg-config; the first run
# fetches packages from crates.io and PyPI.
# With --ray, the Python package is also tested on a Ray cluster of this machine and with Arrow and pandas (200 MB of
# packages); with --torch, on PyTorch's tensors (4 GB).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for option in "$@"; do
    case "$option" in
    --ray | --torch) ;;
    *)
        echo "scripts/test.sh: unknown option $option (want --ray, --torch)" >&2
        exit 2
        ;;
    esac
done

stage() {
    printf '\n=== %s\n' "$1"
    shift
    "$@"
}

python=.venv/bin/python
package=bindings/python/Cargo.toml
# The Python package is a workspace of its own, which shares what is built.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}"

stage "set-up" python3 scripts/setup.py "$@"
stage "facts from onnx, older" "$python" scripts/onnx_schemas.py --check
stage "facts from onnx, newest" env PYTHONPATH=.cache/onnx-newest "$python" scripts/onnx_schemas.py --check
stage "operators of onnx, older" "$python" scripts/onnx_operators.py --check
stage "operators of onnx, newest" env PYTHONPATH=.cache/onnx-newest "$python" scripts/onnx_operators.py --check
stage "format" cargo fmt --all --check
stage "format of the peers' crate" cargo fmt --manifest-path bench-record/peers/Cargo.toml --check
stage "lints" cargo clippy --workspace --all-targets --locked -- -D warnings
stage "build" cargo build --workspace --release --locked
stage "tests" cargo test --workspace --locked --no-fail-fast
stage "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
stage "the oracle against other packages" "$python" crates/testkit/python/check_oracle.py
stage "the record of the peers" "$python" -m unittest discover --quiet bench-record/peers
stage "files, as other packages read them" "$python" scripts/check_files.py
stage "files, as the newest onnx reads them" env PYTHONPATH=.cache/onnx-newest "$python" scripts/check_files.py
stage "models, as onnxruntime runs them" "$python" scripts/check_models.py
stage "the C interface, laid out" cargo xtask dist --out .cache/dist
stage "the C interface, from C and C++" "$python" scripts/check_c.py .cache/dist/onnx-cast-*/
stage "the C interface against the oracle" "$python" scripts/check_c_oracle.py .cache/dist/onnx-cast-*/
stage "reports, as numpy computes them" "$python" scripts/check_report.py
stage "the Python package, format" cargo fmt --manifest-path "$package" --check
stage "the Python package, lints" cargo clippy --manifest-path "$package" --release --locked -- -D warnings
stage "the Python package, build" "$python" scripts/install_python_package.py
stage "the Python package, tests" "$python" -m pytest bindings/python
stage "the Python package, with the newest onnx" env PYTHONPATH=.cache/onnx-newest \
    "$python" -m pytest bindings/python/tests/test_onnx.py
printf '\nall stages passed\n'
