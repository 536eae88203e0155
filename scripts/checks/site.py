#!/usr/bin/env python3
"""Does mdBook build the manual as a site, do all links of the site lead somewhere, and does its search find pages?

Takes mdbook from `.cache/mdbook` (scripts/setup.py), from MDBOOK or from the PATH. Where a system has none, the check
is left out, which it says.

With the argument `preprocess` it is a preprocessor of mdBook (book.toml) for links: those to files outside of docs/
lead to the repository whose address Cargo.toml has, or stay as text without one; those to a README.md lead to its page.
"""

import json
import os
import platform
import posixpath
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from html import unescape
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[2]
# A word, and the page that the search must know it from.
WORDS = {
    "float8e8m0": "semantics.html",
    "fnuz": "types.html",
    "deepseek": "dequantize.html",
    "lanes": "dev/kernels.html",
}

# The text of a link or picture, and its target; code is left alone.
LINK = re.compile(r"`[^`\n]*`|\[((?:[^\[\]`]|`[^`\n]*`)*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"^\s*```.*?^\s*```", re.MULTILINE | re.DOTALL)
# What the pages that mdBook writes refer to, and what is referred to.
TARGET, ANCHOR = re.compile(r'\s(?:href|src)="([^"]+)"'), re.compile(r'\s(?:id|name)="([^"]+)"')


def find_mdbook():
    places = [os.environ.get("MDBOOK"), ROOT / ".cache" / "mdbook" / "bin" / "mdbook", shutil.which("mdbook")]
    found = [str(place) for place in places if place and Path(place).exists()]
    if found:
        return found[0]
    message = "the site: mdbook is missing (python3 scripts/setup.py)"
    # PyPI has the program for this system, so that it must be there.
    if sys.platform == "linux" and platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc":
        sys.exit(message)
    print(f"left out: {message}")
    sys.exit(0)


def build(mdbook, folder):
    done = subprocess.run(
        [mdbook, "build", "--dest-dir", folder, ROOT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode or re.search(r"\b(WARN|ERROR)\b", done.stdout):
        sys.exit(f"mdbook: status {done.returncode}\n{done.stdout}")


def check_links(folder):
    """Every target within the site exists, with its anchor. Returns how many there are."""
    pages = {path.resolve(): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")}
    anchors = {path: {unescape(one) for one in ANCHOR.findall(page)} for path, page in pages.items()}
    count, wrong = 0, []
    for path, page in pages.items():
        # The page of errors is shown at any address, so its links begin at the root of a site.
        if path.name == "404.html":
            continue
        for target in map(unescape, TARGET.findall(page)):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            file, _, anchor = target.partition("#")
            there = (path.parent / unquote(file)).resolve() if file else path
            if not there.exists():
                wrong.append(f"{path.relative_to(folder)}: {target}: no such file")
            elif anchor and unquote(anchor) not in anchors.get(there, {unquote(anchor)}):
                wrong.append(f"{path.relative_to(folder)}: {target}: no such anchor")
    if wrong:
        sys.exit("\n".join(wrong))
    return count


def check_pages(folder):
    """Every page of docs/ is a page of the site."""
    names = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").rglob("*.md") if path.name != "SUMMARY.md"]
    html = [name.with_name("index.html") if name.name == "README.md" else name.with_suffix(".html") for name in names]
    if missing := [str(name) for name in html if not (folder / name).is_file()]:
        sys.exit(f"the site lacks {', '.join(missing)}")
    return len(html)


def check_search(folder):
    """The index of the search has the words of pages."""
    (index,) = folder.glob("searchindex-*.js")
    text = index.read_text(encoding="utf-8").lower()
    for word, page in WORDS.items():
        if word not in text or page not in text:
            sys.exit(f"the search does not know `{word}` of {page}")


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


def preprocess():
    """As a preprocessor of mdBook, which gives the book on the standard input."""
    _, book = json.load(sys.stdin)
    # Newer versions of mdBook call the list `items`.
    walk(book.get("items") or book["sections"], repository())
    json.dump(book, sys.stdout)


def main():
    if sys.argv[1:2] == ["preprocess"]:
        # mdBook first asks whether an output is supported.
        return preprocess() if len(sys.argv) == 2 else None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve() / "book"
        build(find_mdbook(), folder)
        pages, links = check_pages(folder), check_links(folder)
        check_search(folder)
        print(f"the site: {pages} pages, {links} links")


if __name__ == "__main__":
    main()
