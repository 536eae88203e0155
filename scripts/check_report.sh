#!/usr/bin/env bash
# Opens a page of `onnx-cast report`, of the real checkpoint, in headless Chromium, and leaves screenshots in .cache/report/.
# Needs what scripts/setup.py prepares, the command built for release, node, npm and Chromium (Debian: apt-get install
# chromium; elsewhere CHROMIUM names it). Not part of the test run: the browser is larger than everything else together.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$PWD/.cache/report
command=${CARGO_TARGET_DIR:-target}/release/onnx-cast
mkdir -p "$folder"
npm install --silent --no-audit --no-fund --prefix "$folder" playwright-core@1.65.1
"$command" report .cache/checkpoints/all-MiniLM-L6-v2.safetensors --to float16,bfloat16,float8e4m3fn,float8e5m2 \
    --html "$folder/report.html" >"$folder/report.txt"
node scripts/check_report.mjs "$folder/report.html" "$folder" "$folder"
