#!/usr/bin/env bash
# Opens pages of `onnx-cast report` and `explain` in headless Chromium, with what a notebook shows of a report, and leaves
# screenshots in .cache/report/. Needs what scripts/setup.py prepares, the command built for release and the Python package
# installed (scripts/install_python_package.py), node, npm and Chromium (Debian: apt-get install chromium; elsewhere CHROMIUM
# names it). Not part of the test run: the browser is larger than everything else together.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

folder=$PWD/.cache/report
command=${CARGO_TARGET_DIR:-target}/release/onnx-cast
checkpoint=.cache/checkpoints/all-MiniLM-L6-v2.safetensors
mkdir -p "$folder"
npm install --silent --no-audit --no-fund --prefix "$folder" playwright-core@1.65.1

"$command" report "$checkpoint" --to float16,float8e4m3fn,float8e4m3fn/128x128,mxfp4 --html "$folder/report.html" >"$folder/report.txt"
"$command" explain 0.3 --from float --to float8e4m3fn --html "$folder/explain.html" >"$folder/explain.txt"
"$command" explain 0.3 --to uint8 --scale 0.06 --zero-point 128 --html "$folder/explain-scaled.html" >"$folder/explain-scaled.txt"
"$command" explain 0.3 -1.7 0.01 5 --to nvfp4 --html "$folder/explain-block.html" >"$folder/explain-block.txt"
"$command" explain 0.3 --from float --all --html "$folder/explain-all.html" >"$folder/explain-all.txt"
.venv/bin/python - "$checkpoint" "$folder" <<'END'
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

import onnx_cast

checkpoint, folder = sys.argv[1], Path(sys.argv[2])
shown = onnx_cast.report(checkpoint, ["float16", "float8e4m3fn"])._repr_html_()
(folder / "notebook.html").write_text(f"<!doctype html><html lang=en><title>A notebook</title><body>{shown}</body></html>")
rng = np.random.default_rng(1)
many = {f"layer.{i}.w": (rng.standard_normal(64) * 2.0 ** rng.integers(-12, 4)).astype(np.float32) for i in range(5000)}
save_file(many, folder / "many.safetensors")
END
"$command" report "$folder/many.safetensors" --to float16,float8e4m3fn --html "$folder/many.html" --quiet >"$folder/many.txt"
# A heading, and a line for each type.
types=$(($(wc -l <"$folder/explain-all.txt") - 1))
node scripts/checks/pages.mjs "$folder" "$types"
