#!/usr/bin/env bash
# What comes with this project, and whether what is built from it is always the same. Not part of the test run: it
# installs tools, and builds the command twice.
#
#   bash scripts/proofs/supply_chain.sh                 # all of it
#   bash scripts/proofs/supply_chain.sh deny            # cargo-deny: licences, duplicates, sources
#   bash scripts/proofs/supply_chain.sh advisories      # cargo-deny and cargo-audit: what is known against the crates
#   bash scripts/proofs/supply_chain.sh reproducible    # the command built in two folders: the same bytes?
#   bash scripts/proofs/supply_chain.sh sbom [FOLDER]   # bills of materials of what is shipped, CycloneDX 1.5
#
# Advisories come from a git repository. Where that cannot be reached, `advisories` fails and says so; a complete run
# goes on, and says at its end that they were not checked. The tools are taken from the path, or fetched from crates.io
# and built into .cache/tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$PWD
export PATH="$root/.cache/tools/bin:$PATH"
rows=()

# A tool, built without optimization: each runs for seconds.
tool() {
    command -v "$1" >/dev/null ||
        env -u CARGO_TARGET_DIR cargo install --locked --debug --root "$root/.cache/tools" "$1"
}

deny() {
    local crates
    tool cargo-deny
    cargo deny --locked check licenses bans sources
    crates=$(grep -c '^source = ' Cargo.lock)
    rows+=("$crates crates of others, their licences, sources and duplicates by $(cargo deny --version)")
}

advisories() {
    tool cargo-deny || return 1
    cargo deny --locked fetch db || {
        echo "advisories: not checked: their database, a git repository, cannot be fetched from here (see above)" >&2
        rows+=("advisories: NOT CHECKED, their database cannot be fetched from here")
        return 3
    }
    tool cargo-audit || return 1
    cargo deny --locked check advisories || return 1
    cargo audit || return 1
    rows+=("advisories: none against these, by $(cargo deny --version) and $(cargo audit --version)")
}

# A copy of what git has of the sources, as they are now, built in a folder of its own with paths that do not tell
# which.
build_in() {
    local folder=$1 maps
    mkdir -p "$folder/source"
    git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$folder/source"
    maps="--remap-path-prefix=$folder/source=/source --remap-path-prefix=$folder/target=/target"
    maps+=" --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
    (
        cd "$folder/source"
        RUSTFLAGS=$maps CARGO_TARGET_DIR="$folder/target" cargo build --release --locked --quiet -p onnx-cast-cli
    )
}

reproducible() {
    local folder first second
    folder=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf '$folder'" EXIT
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
    rows+=("the command, built in two folders by $(rustc --version): SHA-256 ${first%% *} both times")
    rm -rf "$folder"
}

sbom() {
    local folder=${1:-$root/target/sbom} file
    tool cargo-cyclonedx
    mkdir -p "$folder"
    # It writes beside the manifest of each member.
    cargo cyclonedx --format json --spec-version 1.5 --no-build-deps --override-filename bom.cdx --quiet
    for file in crates/*/bom.cdx.json fuzz/targets/bom.cdx.json bindings/python/bom.cdx.json; do
        case $file in
        crates/testkit/* | fuzz/*) rm "$file" ;;
        bindings/*) mv "$file" "$folder/onnx-cast-python.cdx.json" ;;
        *) mv "$file" "$folder/$(basename "$(dirname "$file")").cdx.json" ;;
        esac
    done
    for file in "$folder"/*.cdx.json; do
        rows+=("${file#"$root/"}: $(python3 - "$file" <<'PYTHON'
import json
import sys

bom = json.load(open(sys.argv[1], encoding="utf-8"))
assert (bom["bomFormat"], bom["specVersion"]) == ("CycloneDX", "1.5"), "not what was asked for"
unnamed = [component["name"] for component in bom["components"] if not component.get("licenses")]
assert not unnamed, f"without a licence: {unnamed}"
print(len(bom["components"]), "components")
PYTHON
        ) beside itself")
    done
}

case ${1:-all} in
all)
    deny
    advisories || [ $? = 3 ]
    reproducible
    sbom
    ;;
deny | advisories | reproducible) "$1" ;;
sbom) sbom "${2:-}" ;;
*)
    echo "usage: scripts/proofs/supply_chain.sh [deny | advisories | reproducible | sbom [FOLDER]]" >&2
    exit 2
    ;;
esac
printf '\n'
printf '%s\n' "${rows[@]}"
