#!/usr/bin/env bash
# The WebAssembly modules, the npm package and the page: builds them, installs the package as people do and tests it in
# node, and drives the page in headless Chromium. What a machine lacks is named and left out; the status is then still
# 0, but with --strict it is 1.
#
#   bash scripts/checks/javascript.sh [--strict] [--screenshots FOLDER] [--modules | --built]
#
# With --modules it only builds the modules, as scripts/build_wasm.py does with --test; with --built it takes those that
# were built.
#
# Needs node 20 or newer; for the modules what scripts/build_wasm.py says; for the page Chromium
# (scripts/checks/chromium.sh) and what scripts/setup.py puts into .cache/javascript.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

strict=false
screenshots=
part=
while (($#)); do
    case $1 in
    --strict) strict=true ;;
    --modules | --built) part=$1 ;;
    --screenshots)
        screenshots=$2
        shift
        ;;
    *)
        echo "usage: scripts/checks/javascript.sh [--strict] [--screenshots FOLDER] [--modules | --built]" >&2
        exit 2
        ;;
    esac
    shift
done

left_out() {
    echo "left out: $1" >&2
    if $strict; then exit 1; fi
}

if ! node --eval 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; then
    left_out "everything in JavaScript: node 20 or newer is missing"
    exit 0
fi
# Status 3 says that something is missing; any other is a fault of the script.
status=0
python3 scripts/build_wasm.py --check || status=$?
case $status in
0) ;;
3)
    left_out "everything in JavaScript: the modules cannot be built"
    exit 0
    ;;
*) exit "$status" ;;
esac
if [ "$part" = --modules ]; then
    python3 scripts/build_wasm.py --test
    exit 0
fi
if [ "$part" != --built ]; then python3 scripts/build_wasm.py; fi
command=$(realpath "${ONNX_CAST_COMMAND:-${CARGO_TARGET_DIR:-target}/release/onnx-cast}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

(cd npm && npm pack --silent --pack-destination "$work" >/dev/null)
npm install --silent --no-audit --no-fund --offline --prefix "$work" "$work"/onnx-cast-*.tgz
# The tests beside the installed package, so that they find it and nothing else.
cp npm/test/* crates/onnx-cast-wasm/tests/data/bits.json crates/testkit/data/refused.json "$work"
for page in README.md npm/README.md docs/javascript.md; do cp "$page" "$work/${page//\//-}"; done
(cd "$work" && node --test package.test.mjs bits.test.mjs refused.test.mjs)
# The types, with the engine's oldest and with its newest.
types=.cache/javascript/node_modules/typescript/bin/tsc
if [ -f "$types" ]; then
    for lib in es2022 esnext; do
        node "$types" --noEmit --strict --module nodenext --target es2022 --lib "$lib,dom" "$work/types.ts"
    done
else
    left_out "the package's types: typescript is missing (python3 scripts/setup.py --javascript)"
fi
# The modules without vector instructions, in the places of those with them.
for module in "$work"/node_modules/onnx-cast/wasm/*-plain.wasm; do cp "$module" "${module/-plain./-simd.}"; done
(cd "$work" && node --test package.test.mjs bits.test.mjs refused.test.mjs)

python3 web/build.py
source scripts/checks/chromium.sh
if ! [ -x "$CHROMIUM" ]; then
    left_out "the page: Chromium is missing (Debian: apt-get install chromium; elsewhere CHROMIUM names it)"
elif ! [ -d .cache/javascript/node_modules/playwright-core ]; then
    left_out "the page: playwright-core is missing (python3 scripts/setup.py --javascript)"
else
    .venv/bin/python web/test/files.py "$work/files" "$command"
    node web/test/page.mjs web/dist/onnx-cast.html .cache/javascript "$work/files" $screenshots
fi
