#!/usr/bin/env python3
"""Assembles the page: web/dist/onnx-cast.html, one file with its style, its scripts and its modules.

  python3 scripts/build_wasm.py && python3 web/build.py

Styles are those of the report and of explain; scripts are those of the package and of the page, each an ES module. The
names that modules export are unique, so that without their import and export lines they make one script.
"""

import base64
import gzip
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NPM, WEB, CRATES = ROOT / "npm", ROOT / "web" / "src", ROOT / "crates"
STYLES = [
    CRATES / "onnx-cast-report/src/base.css",
    CRATES / "onnx-cast-explain/src/explain/page.css",
    WEB / "page.css",
]
SHARED = [NPM / "src" / name for name in ["module.js", "elements.js", "api.js", "files.js"]]
SCRIPTS = SHARED + [WEB / name for name in ["dom.js", "value.js", "format.js", "file.js", "main.js"]]
WORKER = [NPM / "src" / name for name in ["module.js", "lend.js", "jobs.js", "worker.js"]]
MODULES = [Path(f"{part}-{kind}.wasm") for part in ["values", "files", "models"] for kind in ["simd", "plain"]]
IMPORT = re.compile(r'^import [^;]*;\n', re.MULTILINE)
EXPORT = re.compile(r"^export ", re.MULTILINE)
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:const|let|class|function) (\w+)", re.MULTILINE)


def joined(paths):
    """One script of ES modules, whose names must differ."""
    seen = {}
    for path in paths:
        for name in DECLARED.findall(path.read_text()):
            if seen.setdefault(name, path) is not path:
                sys.exit(f"{path.name} and {seen[name].name} both declare {name}")
    text = "\n".join(EXPORT.sub("", IMPORT.sub("", path.read_text())) for path in paths)
    # Within a script element nothing may look like the end of one.
    return text.replace("</script", "<\\/script")


def compressed(name):
    path = NPM / "wasm" / name
    if not path.exists():
        sys.exit(f"{path} is missing: python3 scripts/build_wasm.py")
    return base64.b64encode(gzip.compress(path.read_bytes(), 9, mtime=0)).decode()


def main():
    parts = {
        "style": "".join(path.read_text() for path in STYLES),
        "worker": joined(WORKER),
        **{path.stem: compressed(path.name) for path in MODULES},
        "report": compressed("report.html"),
        "script": joined(SCRIPTS),
    }
    # In one pass, so that no text is searched for marks.
    page = re.sub(r"\{\{([\w-]+)\}\}", lambda mark: parts[mark[1]], (WEB / "index.html").read_text())
    path = ROOT / "web" / "dist" / "onnx-cast.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page)
    print(f"{path.relative_to(ROOT)}: {len(page.encode()):,} bytes")


if __name__ == "__main__":
    main()
