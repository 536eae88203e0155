"""The results of check.py as text: counts for each format, and what failed, was expected to fail, or was not built."""

import collections
import datetime
import os
import platform
import re

import explained

HEAD = """# Quantized checkpoints in transformers

Written by `scripts/checks/loaders/check.py --record records/loaders.md`: tiny models, quantized by default, loaded
and run on a CPU. Weights and outputs are compared with those of the checkpoint that `onnx-cast dequantize` writes
of it. With `--all`, as `bash scripts/test.sh --torch` runs it, all model types that transformers has in two formats.
"""
#: What is noted of a model whose reference outputs have NaN.
NAN = "the reference has NaN"


def text(results, formats, shortened):
    """The lines of a summary in Markdown, and what fails without an explanation."""
    built = [found for found in results if not found["left_out"]]
    idle = [found for found in built if found["no_inputs"]]
    counts, reasons, failed = collections.Counter(), collections.defaultdict(set), []
    empty, undefined = set(), set()
    for found in built:
        for name, failures in found["formats"].items():
            if NAN in found.get("notes", {}).get(name, []):
                counts[name, NAN] += 1
                undefined.add(found["family"])
            if failures is None:
                empty.add(found["family"])
            elif not failures:
                counts[name, "equal"] += 1
            elif rows := explained.expected(name, failures):
                counts[name, "expected"] += 1
                for row in rows:
                    reasons[row[3]].add(found["family"])
            else:
                counts[name, "failed"] += 1
                failed.append((found["family"], name, failures))
    lines = [f"{len(results)} model types, {len(built)} built; {len(built) - len(idle)} of these run. Of the others no guess of",
             f"inputs did, and weights alone are compared. {len(empty)} have no weight to quantize in some format.", ""]  # fmt: skip
    head = ["format", "types", "load, with equal weights and outputs", "fail by transformers' own fault", "fail"]
    head.append("outputs of the reference have NaN, and are not compared")
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    kinds = ("equal", "expected", "failed")
    for name in formats:
        if tried := sum(counts[name, kind] for kind in kinds):
            lines.append("| " + " | ".join([name, str(tried), *(str(counts[name, kind]) for kind in (*kinds, NAN))]) + " |")
    if undefined:
        lines += ["", f"NaN in the outputs of the reference: {', '.join(sorted(undefined))}"]
    for why, families in reasons.items():
        lines += ["", f"- {why}: {len(families)} types: {', '.join(sorted(families))}"]
    if failed:
        lines += ["", "Failures:", ""]
        lines += [f"- {family}, {name}: {shortened('; '.join(failures))[:300]}" for family, name, failures in failed]
    kinds = collections.Counter(kind(found["left_out"]) for found in results if found["left_out"])
    if kinds:
        lines += ["", "Not built:", ""] + [f"- {count}: {why}" for why, count in kinds.most_common()]
    return lines, failed


def kind(reason):
    """A reason without what is particular to one type."""
    reason = re.sub(r"^\(\d+, \d+, \d+\): ", "", " ".join(reason.split()))
    if "million parameters" in reason:
        return "more than 40 million parameters in every size"
    if found := re.search(r"requires the (\w+) library", reason):
        return f"needs {found[1]}"
    if "no model class" in reason:
        return "no model class is registered for the configuration"
    if reason.startswith("transformers does not load"):
        return "transformers does not load what it saves"
    return "its configuration refuses or does not survive small sizes"


def write(path, lines, versions, seconds):
    """Writes the record."""
    machine = f"Python\n{platform.python_version()}, {os.cpu_count()} processors, {seconds / 60:.0f} minutes"
    path.write_text("\n".join([HEAD, f"{datetime.date.today()}, {versions}, {machine}.", "", *lines, ""]))
