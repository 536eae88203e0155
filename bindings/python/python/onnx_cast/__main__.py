"""``python -m onnx_cast``: conversions that run the model; the command ``onnx-cast`` has no runtime."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import numpy as np

import onnx_cast


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m onnx_cast", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    convert = commands.add_parser(
        "convert",
        help="convert a model to float16 or bfloat16, run both, and keep float what loses too much",
        description="Converts a model, runs it and an emulated one in onnxruntime, and keeps nodes float until no output is "
        "off by more than the tolerance.",
    )
    convert.add_argument("model")
    convert.add_argument("output")
    convert.add_argument("--to", default="float16", metavar="TYPE", help="float16 or bfloat16 [default: float16]")
    convert.add_argument("--tolerance", type=float, default=1e-2, metavar="X", help="error of an output, in parts of its "
                         "largest magnitude [default: 0.01]")  # fmt: skip
    convert.add_argument("--max-runs", type=int, default=64, metavar="N", help="runs at most [default: 64]")
    convert.add_argument("--keep", action="append", default=[], metavar="PATTERN", help="operators or nodes that stay float")
    convert.add_argument("--low", action="append", default=[], metavar="PATTERN", help="those that become narrow")
    convert.add_argument("--ranges", metavar="FILE", help="magnitudes of values, as `record` finds them")
    convert.add_argument("--raise-opset", action="store_true", help="raise the opset to where operators take the type")
    convert.add_argument("--report", metavar="FILE", help="write the errors of outputs and nodes: a page, or .json")
    convert.add_argument("--json", action="store_true", help="print the report as JSON")
    record = commands.add_parser("record", help="run a model, and record the ranges of its values")
    record.add_argument("model")
    record.add_argument("output", metavar="RANGES", help="the .npz to write")
    for command in (convert, record):
        command.add_argument("--inputs", nargs="+", default=["random"], metavar="FILE", help=".npz files of arrays by input "
                             "name, one for each run, or `random` [default: random]")  # fmt: skip
        command.add_argument("-f", "--force", action="store_true", help="replace outputs that exist")
        command.add_argument("--seed", type=int, default=0, metavar="N", help="of random inputs [default: 0]")
        command.add_argument("--quiet", action="store_true", help="no progress bar and no summary")
    return parser


def _bar(done: int, total: int) -> None:
    width = 30
    full = width * done // max(total, 1)
    end = "\n" if done >= total else ""
    print(f"\r[{'#' * full}{'.' * (width - full)}] {done}/{total}", end=end, file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    progress = _bar if sys.stderr.isatty() and not given.quiet else None
    try:
        inputs: Any = "random" if given.inputs == ["random"] else [dict(np.load(path)) for path in given.inputs]
        if given.command == "record":
            ranges = onnx_cast.record_model(given.model, inputs=inputs, seed=given.seed)
            ranges.save(given.output, force=given.force)
            if not given.quiet:
                left = f" ({ranges.inner} in functions left out)" if ranges.inner else ""
                print(f"ranges of {len(ranges)} values recorded{left}", file=sys.stderr)
            return 0
        options = {name: getattr(given, name) for name in ("to", "keep", "low", "ranges", "raise_opset", "tolerance", "force")}
        options |= {"max_runs": given.max_runs, "seed": given.seed, "progress": progress}
        done = onnx_cast.convert_model(given.model, given.output, inputs=inputs, **options)
        if given.report is not None:
            done.report.save(given.report, force=given.force)
    except (ValueError, OSError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.json:
        print(json.dumps(done.report.to_dict(), indent=2))
    elif not given.quiet:
        print(done.report.text(), end="", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
