"""The examples of the pages, as they stand."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def pages():
    """The pages with Python examples: the read-me files, and the manual."""
    found = [ROOT / "README.md", ROOT / "bindings/python/README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [str(path.relative_to(ROOT).as_posix()) for path in found if "\n```python\n" in path.read_text(encoding="utf-8")]


def of(page):
    """The Python examples of a page of the repository, each ready to be run."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    return [(block, compile(block, f"{page}, example {number}", "exec")) for number, block in enumerate(blocks, 1)]
