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
    CRATES / "onnx-cast-explain/src/base.css",
    CRATES / "onnx-cast-explain/src/explain/page.css",
    WEB / "page.css",
]
SHARED = [NPM / "src" / name for name in ["errors.js", "module.js", "elements.js", "api.js", "files.js"]]
SCRIPTS = SHARED + [WEB / name for name in ["dom.js", "value.js", "format.js", "file.js", "main.js"]]
WORKER = [NPM / "src" / name for name in ["errors.js", "module.js", "lend.js", "jobs.js", "worker.js"]]
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


def compressed(path):
    return base64.b64encode(gzip.compress(path.read_bytes(), 9, mtime=0)).decode()


def main():
    parts = {
        "style": "".join(path.read_text() for path in STYLES),
        "worker": joined(WORKER),
        "script": joined(SCRIPTS),
    }
    # What the package has beside its scripts: modules, and the page of a report.
    stored = {path.stem: path for path in (NPM / "wasm").glob("*")}
    text = (WEB / "index.html").read_text()
    mark = r"\{\{([\w-]+)\}\}"
    if missing := set(re.findall(mark, text)) - parts.keys() - stored.keys():
        sys.exit(f"npm/wasm lacks {', '.join(sorted(missing))}: python3 scripts/build_wasm.py")
    # In one pass, so that no text is searched for marks.
    page = re.sub(mark, lambda found: parts.get(found[1]) or compressed(stored[found[1]]), text)
    path = ROOT / "web" / "dist" / "onnx-cast.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page)
    print(f"{path.relative_to(ROOT)}: {len(page.encode()):,} bytes")


if __name__ == "__main__":
    main()
