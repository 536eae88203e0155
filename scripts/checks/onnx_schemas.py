#!/usr/bin/env python3
"""Compares, or with --write writes, `crates/onnx-cast/tests/data/onnx_schemas.txt`: what the onnx package says about
the element types and about every version of the casts and the scaled casts. The test `coverage` compares the
library with it.

The file is written from the newest onnx that the tests know. An older onnx is compared with what that one has.
One fact a line: `data_type NAME NUMBER`, then for each operator version `op NAME VERSION`, its
`attribute NAME KIND required|optional [DEFAULT]`, and its `input` and `output` types.
"""

from pathlib import Path

import onnx
from onnx_operators import settle

OPERATORS = ("Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear")
FILE = Path(__file__).resolve().parents[2] / "crates" / "onnx-cast" / "tests" / "data" / "onnx_schemas.txt"
HEAD = """\
# What the onnx package says of its element types, of the casts and of the scaled casts.
# Written by scripts/checks/onnx_schemas.py from onnx {version}; not to be edited.
"""


def default_of(attribute):
    value = attribute.default_value
    return {"INT": str(value.i), "STRING": value.s.decode()}[attribute.type.name]


def types_of(schema, parameter):
    """The element types of an input or output, by the names ONNX prints, in the order of their numbers."""
    constraints = [one for one in schema.type_constraints if one.type_param_str == parameter.type_str]
    # Where there is no constraint, the type is one.
    allowed = constraints[0].allowed_type_strs if constraints else [parameter.type_str]
    names = [text.removeprefix("tensor(").removesuffix(")") for text in allowed]
    return sorted(names, key=lambda name: onnx.TensorProto.DataType.Value(name.upper()))


def blocks():
    """The facts as blocks of lines: one for the element types, one for each operator version."""
    numbers = sorted(onnx.TensorProto.DataType.items(), key=lambda item: item[1])
    yield [f"data_type {name} {number}" for name, number in numbers]
    schemas = [one for one in onnx.defs.get_all_schemas_with_history() if one.domain == "" and one.name in OPERATORS]
    for schema in sorted(schemas, key=lambda one: (OPERATORS.index(one.name), one.since_version)):
        lines = [f"op {schema.name} {schema.since_version}"]
        for name, attribute in sorted(schema.attributes.items()):
            need = "required" if attribute.required else f"optional {default_of(attribute)}"
            lines.append(f"attribute {name} {attribute.type.name} {need}")
        lines += [f"input {' '.join(types_of(schema, one))}" for one in schema.inputs]
        lines += [f"output {' '.join(types_of(schema, one))}" for one in schema.outputs]
        yield lines


def agrees(_file, committed, now):
    """An older onnx knows fewer types and versions; what it knows must be in the file."""
    committed, now = ("\n".join(lines[1:]).split("\n\n") for lines in (committed, now))
    return committed[0].startswith(now[0]) and set(now[1:]) <= set(committed[1:])


if __name__ == "__main__":
    lines = [line for block in blocks() for line in ("", *block)]
    settle(FILE, HEAD.format(version=onnx.__version__), lines, f"onnx {onnx.__version__}", agrees)
