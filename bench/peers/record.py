"""The record as the page that people read. A section is the rows of one number of elements with one of threads.

A row's speeds are bytes read and written a second, in GB, as ONNX packs the types, for every library; so they compare
as times do."""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness import table  # noqa: E402 (it lies in another folder)

# Below this we lose; above, and below 1, is noise.
TIE = 0.95

# What README shows.
README_PAIRS = [
    "float:float16", "float:bfloat16", "bfloat16:float", "float:float8e4m3fn", "float8e4m3fn:bfloat16",
    "float:float4e2m1", "float:int8", "double:float16", "float16:float", "int8:int8",
]  # fmt: skip

NAMES = {
    "numpy": "numpy+ml_dtypes",
    "torch": "PyTorch",
    "torchao": "torchao",
    "onnxruntime": "onnxruntime",
    "numkong": "NumKong",
    "half": "half",
    "candle": "candle",
    "arrow": "arrow-cast",
    "gguf": "gguf",
}


def pair(row):
    return ":".join([row["from"], row["to"], *([row["scale"]] if row.get("scale") else [])])


def fastest(row):
    """The name of the fastest peer, or None where no one has the pair."""
    return max(row["peers"], key=row["peers"].get, default=None)


def advantage(row):
    """Our speed over the fastest peer's; above everything if no peer has the pair."""
    peer = fastest(row)
    return row["ours"] / row["peers"][peer] if peer else math.inf


def loses(row):
    return advantage(row) < TIE


def geometric_mean(numbers):
    numbers = list(numbers)
    return math.exp(sum(map(math.log, numbers)) / len(numbers)) if numbers else math.nan


def named(elements):
    for unit, size in (("Mi", 1 << 20), ("Ki", 1 << 10)):
        if elements % size == 0:
            return f"{elements // size} {unit}"
    return str(elements)


def counted(number, thing):
    return f"{number} {thing}" + ("" if number == 1 else "s")


def summary(rows):
    """One paragraph on rows."""
    common = [row for row in rows if row["peers"]]
    losing = [row for row in common if loses(row)]
    mean = geometric_mean(advantage(row) for row in common)
    copy = geometric_mean(row["ours"] / row["memcpy"] for row in rows)
    return (
        f"{counted(len(common), 'pair')} that a peer has: **{len(losing)} slower than the fastest peer** "
        f"(below {TIE}), {sum(TIE <= advantage(row) < 1 for row in common)} at 0.95 to 1; geometric mean of our speed "
        f"over the fastest peer's **{mean:.2f}**, over memcpy's {copy:.2f}."
    )


def split(section):
    """The rows of casts, and those of scaled casts."""
    return [[row for row in section["rows"] if bool(row.get("scale")) == scaled] for scaled in (False, True)]


def rows_lines(rows, columns):
    """A table of rows, whose first columns have these keys. Those that lose come first."""
    names = [name for name in NAMES if any(name in row["peers"] for row in rows)]
    header = [*columns, "ours", "memcpy", *(NAMES[name] for name in names), "ours / fastest"]
    lines = []
    for row in sorted(rows, key=advantage):
        differs = row.get("differs", {})
        cells = [
            f"{row['peers'][name]:.1f}{'*' * (name in differs)}" if name in row["peers"] else "-" for name in names
        ]
        ratio = f"{advantage(row):.2f}" if row["peers"] else "-"
        lines.append([*(row[key] for key in columns), f"{row['ours']:.1f}", f"{row['memcpy']:.1f}", *cells, ratio])
    return table(header, lines)


def matrix_lines(rows):
    """Our speed over the fastest peer's for every pair: a line for a source, a column for a target."""
    known = {(row["from"], row["to"]): advantage(row) for row in rows}
    types = list(dict.fromkeys(row["from"] for row in rows))
    targets = list(dict.fromkeys(row["to"] for row in rows))

    def cell(number):
        return "-" if number is None or math.isinf(number) else f"{number:.2f}" if number < 10 else f"{number:.0f}"

    return table(["from / to", *targets], [[one, *(cell(known.get((one, to))) for to in targets)] for one in types])


def libraries_lines(rows):
    """How each library compares over the pairs that it has."""
    lines = []
    for name in NAMES:
        ratios = [row["ours"] / row["peers"][name] for row in rows if name in row["peers"]]
        if ratios:
            faster = sum(ratio < TIE for ratio in ratios)
            lines.append([NAMES[name], str(len(ratios)), f"{geometric_mean(ratios):.2f}", str(faster)])
    return table(["library", "pairs", "ours / its, geometric mean", "pairs in which it is faster"], lines)


def is_shown(row):
    """Whether a row of casts is shown with every library: what people care about, and where a peer is as fast."""
    return pair(row) in README_PAIRS or advantage(row) < 1


def section_lines(section):
    casts, scaled = split(section)
    lines = [f"## {named(section['elements'])} elements, {counted(section['threads'], 'thread')}", ""]
    lines += [f"{section['date']}, {section['machine']}, backend {section['isa']}, `{section['command']}`.", ""]
    lines += ["Versions: " + ", ".join(" ".join(pair) for pair in section["versions"].items()) + ".", ""]
    if casts or not scaled:
        lines += [summary(casts), ""]
    if casts:
        lines += [*libraries_lines(casts), "", "GB/s, where a peer is as fast and of common pairs:", ""]
        lines += [*rows_lines([row for row in casts if is_shown(row)], ["from", "to"]), ""]
        lines += ["Our speed over the fastest peer's:", "", *matrix_lines(casts), ""]
    if scaled:
        lines += ["Scaled casts: " + summary(scaled), "", *rows_lines(scaled, ["from", "to", "scale"]), ""]
    return lines


def markdown(sections):
    """The figures of the page."""
    return [line for section in sections for line in section_lines(section)]


def readme(sections):
    """The table for README: pairs people care about, each size beside its fastest peer."""
    header = ["from", "to"]
    for section in sections:
        header += [f"{named(section['elements'])}: GB/s", "of memcpy", "fastest peer", "ours / its"]
    rows = []
    for name in README_PAIRS:
        cells = name.split(":")
        for section in sections:
            row = next((row for row in section["rows"] if pair(row) == name), None)
            if row is None:
                cells += ["-"] * 4
                continue
            peer = fastest(row)
            cells += [f"{row['ours']:.0f}", f"{row['ours'] / row['memcpy']:.2f}"]
            cells += [f"{NAMES[peer]} {row['peers'][peer]:.1f}", f"{advantage(row):.2f}"] if peer else ["-", "-"]
        rows.append(cells)
    return "\n".join(table(header, rows))
