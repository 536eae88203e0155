#!/usr/bin/env bash
# What comes with this project, and whether what is built from it is always the same. Not part of the test run: it installs
# tools, and builds the command twice.
#
#   bash scripts/supply_chain.sh                 # all of it
#   bash scripts/supply_chain.sh deny            # cargo-deny: licences, duplicates, sources; advisories where its database is to be had
#   bash scripts/supply_chain.sh reproducible    # the command built in two folders: the same bytes?
#   bash scripts/supply_chain.sh sbom [FOLDER]   # the bill of materials of the command, the library and the C interface, CycloneDX 1.5
#
# cargo-deny and cargo-cyclonedx are taken from the path, or fetched from crates.io and built into .cache/tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$PWD
export PATH="$root/.cache/tools/bin:$PATH"

tool() {
    command -v "$1" >/dev/null || cargo install --locked --debug --root "$root/.cache/tools" "$1"
}

deny() {
    tool cargo-deny
    cargo deny --locked check licenses bans sources
    # The database is a git repository, which is fetched: where that cannot be, nothing is known of advisories.
    cargo deny --locked check advisories || {
        echo "advisories: not checked, or some found; see above" >&2
        return 1
    }
}

# A copy of what git has of the sources, as they are now, built in a folder of its own with paths that do not tell which.
build_in() {
    local folder=$1
    mkdir -p "$folder/source"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$folder/source"
    (
        cd "$folder/source"
        RUSTFLAGS="--remap-path-prefix=$PWD=/source --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo" \
            CARGO_TARGET_DIR="$folder/target" cargo build --release --locked --quiet -p onnx-cast-cli
    )
}

reproducible() {
    local folder first second
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' RETURN
    build_in "$folder/one"
    build_in "$folder/two-of-another-length"
    first=$(sha256sum <"$folder/one/target/release/onnx-cast")
    second=$(sha256sum <"$folder/two-of-another-length/target/release/onnx-cast")
    echo "in one folder:  $first"
    echo "in another:     $second"
    [ "$first" = "$second" ] || {
        echo "the two builds differ" >&2
        return 1
    }
}

sbom() {
    local folder=${1:-$root/target/sbom} file
    tool cargo-cyclonedx
    # It writes beside each manifest.
    cargo cyclonedx --format json --spec-version 1.5 --no-build-deps --override-filename bom.cdx --quiet
    mkdir -p "$folder"
    for file in crates/*/bom.cdx.json xtask/bom.cdx.json; do
        case $file in
        crates/onnx-cast/* | crates/onnx-cast-cli/* | crates/onnx-cast-capi/* | crates/onnx-cast-file/*)
            mv "$file" "$folder/$(basename "$(dirname "$file")").cdx.json"
            ;;
        *) rm "$file" ;;
        esac
    done
    for file in "$folder"/*.cdx.json; do
        echo "$file: $(grep -c '"bom-ref"' "$file") components"
    done
}

case ${1:-all} in
all)
    deny
    reproducible
    sbom
    ;;
deny | reproducible) "$1" ;;
sbom) sbom "${2:-}" ;;
*)
    echo "usage: scripts/supply_chain.sh [deny | reproducible | sbom [FOLDER]]" >&2
    exit 2
    ;;
esac
