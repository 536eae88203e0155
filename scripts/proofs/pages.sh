#!/usr/bin/env bash
# Opens pages of `onnx-cast report`, `convert` and `explain` in headless Chromium, with what a notebook shows of a
# report, and leaves screenshots in .cache/report/. Needs what scripts/setup.py prepares, the command built for release
# and the Python package installed (scripts/install_python_package.py), node, npm and Chromium
# (scripts/checks/chromium.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

source scripts/checks/chromium.sh
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
# A chain of 100,000 nodes, of which every thousandth multiplies matrices, with magnitudes on both sides of float16's
# range.
.venv/bin/python - "$folder" <<'END'
import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

folder, count = Path(sys.argv[1]), 100_000
nodes = [helper.make_node("MatMul", [f"v{i}", "w"], [f"v{i + 1}"], f"/layer{i // 1000}/MatMul") if i % 1000 == 0 else
         helper.make_node("Exp" if i % 7 == 0 else "Relu", [f"v{i}"], [f"v{i + 1}"], f"/layer{i // 1000}/node{i}")
         for i in range(count)]
value = lambda i: helper.make_tensor_value_info(f"v{i}", TensorProto.FLOAT, [4, 4])
graph = helper.make_graph(nodes, "g", [value(0)], [value(count)], [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "nodes.onnx")
magnitudes = 10 ** np.random.default_rng(1).uniform(-8, 4.5, count)
(folder / "nodes.json").write_text(json.dumps({f"v{i}": magnitude for i, magnitude in enumerate(magnitudes)}))
END
"$command" convert "$folder/nodes.onnx" "$folder/half.onnx" --to float16 --dry-run --ranges "$folder/nodes.json" \
    --html "$folder/convert.html" --quiet >"$folder/convert.txt"
"$command" report "$folder/many.safetensors" --to float16,float8e4m3fn --html "$folder/many.html" --quiet >"$folder/many.txt"
# A heading, and a line for each type.
types=$(($(wc -l <"$folder/explain-all.txt") - 1))
node scripts/proofs/pages.mjs "$folder" "$types"
