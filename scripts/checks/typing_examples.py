#!/usr/bin/env python3
"""Do mypy and pyright, in strict mode, accept the Python examples of docs/python.md and of the package's read-me, each
page as one program, `bindings/python/tests/test_typing.py`, and the calls of `typed_calls.py` beside it, with the types
that stand there? The package is read from its sources, so that it need not be built. An example may know that a value
is there where the type allows None, need not annotate its functions, and may use a package that has no types.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bindings" / "python" / "tests"))

import typed_calls  # noqa: E402
PACKAGE = ROOT / "bindings" / "python" / "python"
PAGES = ["docs/python.md", "bindings/python/README.md"]
#: What an example need not do, and what comes of joining those of a page.
RELAXED = {
    "mypy": ["strict_optional = False", "disallow_untyped_defs = False", "check_untyped_defs = True"],
    "pyright": [
        "reportDuplicateImport", "reportMissingParameterType", "reportOptionalMemberAccess", "reportOptionalOperand",
        "reportOptionalSubscript", "reportPossiblyUnboundVariable", "reportUnknownParameterType",
    ],
}  # fmt: skip
TESTS = ROOT / "bindings" / "python" / "tests" / "test_typing.py"
#: The program of calls.
CALLS = "calls.py"
#: Without annotations, or not installed everywhere.
UNTYPED = ("jax", "onnxruntime", "pandas", "polars", "pyarrow", "ray", "safetensors", "torch", "torchao", "tqdm")


def programs(folder: Path) -> list[Path]:
    """A file for each page."""
    paths = []
    for page in PAGES:
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
        assert blocks, page
        path = folder / f"{page.replace('/', '_').replace('.md', '')}.py"
        relaxed = ", ".join(f"{rule}=false" for rule in RELAXED["pyright"])
        path.write_text("\n".join([f"# pyright: {relaxed}", *blocks]))
        paths.append(path)
    calls = folder / CALLS
    calls.write_text(typed_calls.program())
    return [*paths, calls, TESTS]


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    return subprocess.run(words, env=os.environ | environment, cwd=ROOT, text=True, capture_output=True)


def mypy(paths: list[Path], folder: Path) -> list[str]:
    config = folder / "mypy.ini"
    overrides = "".join(f"[mypy-{name}.*]\nignore_missing_imports = True\n" for name in UNTYPED)
    # The package itself is not what is judged here.
    overrides += "".join(f"[mypy-{path.stem}]\n" + "\n".join(RELAXED["mypy"]) + "\n" for path in paths if path != TESTS and path.name != CALLS)
    redefinition = "allow_redefinition = True\nlocal_partial_types = True\n"
    config.write_text(f"[mypy]\nstrict = True\n{redefinition}{overrides}[mypy-onnx_cast.*]\nfollow_imports = silent\n")
    done = run(
        *(sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", folder / "cache", *paths),
        MYPYPATH=str(PACKAGE),
    )
    return [line for line in done.stdout.splitlines() if ": error: " in line] or [done.stderr] * (done.returncode != 0)


def pyright(paths: list[Path], folder: Path) -> list[str]:
    config = folder / "pyrightconfig.json"
    settings = {
        "include": [str(path) for path in paths],
        "extraPaths": [str(PACKAGE)],
        "typeCheckingMode": "strict",
        # `type: ignore` is mypy's here, and either comment is an error where nothing is wrong.
        "enableTypeIgnoreComments": False,
        "reportUnnecessaryTypeIgnoreComment": True,
        # What others' packages leave open is not this package's fault.
        **dict.fromkeys(["reportMissingImports", "reportMissingModuleSource", "reportMissingTypeStubs"], False),
        **dict.fromkeys(["reportUnknownMemberType", "reportUnknownVariableType", "reportUnknownArgumentType"], False),
    }
    config.write_text(json.dumps(settings))
    done = run(sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "-p", config, "--outputjson")
    if not done.stdout.strip().startswith("{"):
        return [done.stdout + done.stderr]
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == len(paths), found["summary"]
    line = "{file}:{range[start][line]}: {message} ({rule})"
    return [line.format(**({"rule": ""} | one)) for one in found["generalDiagnostics"] if one["severity"] == "error"]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = programs(folder)
        faults = [f"mypy: {fault}" for fault in mypy(paths, folder)]
        faults += [f"pyright: {fault}" for fault in pyright(paths, folder)]
    if faults:
        sys.exit("\n".join(faults))
    print(f"mypy and pyright find nothing in {len(paths)} files, in strict mode")


if __name__ == "__main__":
    main()
