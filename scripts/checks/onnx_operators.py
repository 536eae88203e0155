#!/usr/bin/env python3
"""Writes, or with --check compares, `crates/onnx-cast-model/src/graph/operators.txt`: the versions of every operator of
ONNX's own domain, by which the command decides whether a model means the same at a newer opset; and beside it
`ir_versions.txt`: the version of the model format that each opset came with.

One operator a line: its name and its versions. `=` behind a version says that it means what the one before means and
takes more element types: text, attributes, inputs and outputs are word for word the same. The file is written from the
newest onnx that the tests know. With an older onnx, --check compares the versions that that one has.
"""

import argparse
import collections
import re
import sys
from pathlib import Path

import onnx

FILE = Path(__file__).resolve().parents[2] / "crates" / "onnx-cast-model" / "src" / "graph" / "operators.txt"
HEAD = """\
# The versions of ONNX's operators; `=`: as the one before, but for more element types.
# Written by scripts/checks/onnx_operators.py from onnx {version}; not to be edited.
"""


IR_FILE = FILE.with_name("ir_versions.txt")
IR_HEAD = """\
# The opsets of ONNX's own domain, and the version of the model format (ir_version) that came with each or was there.
# Written by scripts/checks/onnx_operators.py from onnx {version}; not to be edited.
"""


# A remark on what the version is for, which is the types.
REMARK = re.compile(r"\(Opset \d+ change\): Extend supported types to include [^.]*\.")


def words(text):
    return " ".join(REMARK.sub("", text or "").split())


def meaning(schema):
    """All that a schema says, but for the element types."""
    attributes = [
        (name, one.type.name, one.required, one.default_value.SerializeToString(), words(one.description))
        for name, one in schema.attributes.items()
    ]
    inputs, outputs = (
        [(one.name, one.option.name, one.type_str, one.is_homogeneous, one.min_arity, words(one.description)) for one in side]
        for side in (schema.inputs, schema.outputs)
    )
    return schema.deprecated, words(schema.doc), sorted(attributes), inputs, outputs


def types(schema):
    return {one.type_param_str: set(one.allowed_type_strs) for one in schema.type_constraints}


def says_the_same(new, old):
    before, after = types(old), types(new)
    return meaning(new) == meaning(old) and before.keys() == after.keys() and all(before[k] <= after[k] for k in before)


def lines():
    schemas = collections.defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            schemas[schema.name].append(schema)
    for name, history in sorted(schemas.items()):
        history.sort(key=lambda schema: schema.since_version)
        marks = ["", *("=" if says_the_same(*pair) else "" for pair in zip(history[1:], history))]
        yield " ".join([name, *(f"{schema.since_version}{mark}" for schema, mark in zip(history, marks))])


def ir_lines():
    """Some opsets came without a release; they have the version of the next. (A release may forget its own opset.)"""
    table = sorted((opset, ir_version) for _, ir_version, opset, *_ in onnx.helper.VERSION_TABLE)
    for opset in range(1, max(table)[0] + 1):
        yield f"{opset} {next(ir_version for released, ir_version in table if released >= opset)}"


def versions(line):
    name, *versions = line.replace("=", "").split(" ")
    return name, versions


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed file and change nothing")
    arguments = parser.parse_args()
    now, now_ir = list(lines()), list(ir_lines())
    if not arguments.check:
        FILE.write_text(HEAD.format(version=onnx.__version__) + "\n".join(now) + "\n")
        IR_FILE.write_text(IR_HEAD.format(version=onnx.__version__) + "\n".join(now_ir) + "\n")
        print(f"wrote {FILE} and {IR_FILE.name}")
        return
    text = FILE.read_text().splitlines()
    committed, committed_ir = ([line for line in file.read_text().splitlines() if not line.startswith("#")]
                               for file in (FILE, IR_FILE))
    if any(f"from onnx {onnx.__version__};" in line for line in text):
        same = now == committed and now_ir == committed_ir
    else:
        known = dict(map(versions, committed))
        same = all(known.get(name, [])[: len(old)] == old for name, old in map(versions, now))
        same = same and committed_ir[: len(now_ir)] == now_ir
    if not same:
        sys.exit(f"{FILE} is not what onnx {onnx.__version__} says: run scripts/checks/onnx_operators.py and look at the change")
    print(f"{FILE.name} agrees with onnx {onnx.__version__} ({len(now)} operators, {len(now_ir)} opsets)")


if __name__ == "__main__":
    main()
