#!/usr/bin/env python3
"""A preprocessor of mdBook (book.toml): makes links of pages to files outside of docs/ lead to the repository, and those
to a README.md to the page that mdBook makes of it.

A link to records/proofs.md becomes one to that file at the address that Cargo.toml has as `repository`. Without an
address, the text of the link stays and names the file. Reads the book from the standard input, as mdBook gives it.
"""

import json
import posixpath
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The text of a link or picture, and its target; code is left alone.
LINK = re.compile(r"`[^`\n]*`|\[((?:[^\[\]`]|`[^`\n]*`)*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^\s*```.*?^\s*```", re.MULTILINE | re.DOTALL)


def repository():
    manifest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    return manifest["workspace"].get("package", {}).get("repository", "").rstrip("/")


def rewritten(text, page, address):
    """A page of prose with its links to the outside replaced."""

    def replace(found):
        label, target = found[1], found[2]
        if target is None or re.match(r"[a-z]+:|#", target):
            return found[0]
        given, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), given))
        anchor = f"#{anchor}" if anchor else ""
        if path.startswith("docs/"):
            return f"[{label}]({re.sub(r'README.md$', 'index.md', given)}{anchor})"
        if not address:
            return label if path in label else f"{label} (`{path}`)"
        return f"[{label}]({address}/blob/main/{path}{anchor})"

    return LINK.sub(replace, text)


def outside_code(text, change):
    """A page whose prose is changed, and whose blocks of code are not."""
    parts, end = [], 0
    for block in FENCE.finditer(text):
        parts += [change(text[end : block.start()]), block[0]]
        end = block.end()
    return "".join(parts) + change(text[end:])


def walk(items, address):
    for item in items:
        if isinstance(item, dict) and (chapter := item.get("Chapter")):
            page = chapter["path"] or "."
            chapter["content"] = outside_code(chapter["content"], lambda text: rewritten(text, page, address))
            walk(chapter["sub_items"], address)


def main():
    if sys.argv[1:2] == ["supports"]:
        sys.exit(0 if sys.argv[2:] == ["html"] else 1)
    _, book = json.load(sys.stdin)
    # Newer versions of mdBook call the list `items`.
    walk(book.get("items") or book["sections"], repository())
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
