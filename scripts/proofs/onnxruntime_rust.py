#!/usr/bin/env python3
"""Does the Rust program in docs/onnxruntime.md build, and run a model with the execution provider?

Takes the shared library of the C interface. Builds the program with the crate `ort` in `.cache/`, and runs it with the
onnxruntime of this Python.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import onnxruntime
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / ".cache" / "onnxruntime-rust"
MANIFEST = """[package]
name = "guide"
version = "0.1.0"
edition = "2024"
publish = false

[workspace]

[dependencies]
ort = { version = "=2.0.0-rc.13", default-features = false, features = ["std", "api-23", "load-dynamic"] }
"""


def write_model(path):
    """float to float4e2m1 and back."""
    nodes = [helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT4E2M1),
             helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT)]
    infos = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"])] for name in ("x", "y")]
    graph = helper.make_graph(nodes, "graph", *infos)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    path.write_bytes(made.SerializeToString())


def main():
    if len(sys.argv) != 2:
        sys.exit("onnxruntime_rust: want the path of libonnx_cast.so")
    (program,) = re.findall(r"^```rust\n(.*?)^```", (ROOT / "docs" / "onnxruntime.md").read_text(), re.MULTILINE | re.DOTALL)
    (PROJECT / "src").mkdir(parents=True, exist_ok=True)
    (PROJECT / "Cargo.toml").write_text(MANIFEST)
    (PROJECT / "src" / "main.rs").write_text(program)
    write_model(PROJECT / "model.onnx")
    runtime = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
    env = os.environ | {"ORT_DYLIB_PATH": str(runtime), "CARGO_TARGET_DIR": str(PROJECT / "target")}
    library = Path(sys.argv[1]).resolve()
    command = ["cargo", "run", "--quiet", "--manifest-path", PROJECT / "Cargo.toml", "--", library, PROJECT / "model.onnx"]
    done = subprocess.run(list(map(str, command)), env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode or done.stdout != "[0.5, 6.0, -6.0]\n":
        sys.exit(f"onnxruntime_rust: status {done.returncode}: {done.stdout}{done.stderr}")
    print(f"onnxruntime_rust: the program in the guide runs with onnxruntime {onnxruntime.__version__}")


if __name__ == "__main__":
    main()
