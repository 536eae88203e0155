#!/usr/bin/env python3
"""Compares, or with --write writes, files of `crates/onnx-cast-model/src`: `graph/ir_versions.txt`, the version of the
model format that came with each opset; `types/schemas.txt`, inputs, outputs and type constraints of every version of
every operator of ONNX's domain and of ai.onnx.ml; and `schemas_onnxruntime.txt`, those that onnxruntime adds.

They are written from the newest onnx that the tests know. Of an older onnx, the versions that it has are compared, but
for the marks `=` (meaning of a version unchanged, word for word, but for more element types); of another onnxruntime,
nothing of onnxruntime's. What schemas do not say is in `src/operators.txt` and `src/upgrade/steps.rs`, by hand: tests
of the crate name what these lack.
"""

import collections
import re
import sys
from pathlib import Path

import onnx

try:
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
except ImportError:
    onnxruntime = None

IR_FILE = Path(__file__).resolve().parents[2] / "crates" / "onnx-cast-model" / "src" / "graph" / "ir_versions.txt"
IR_HEAD = """\
# The opsets of ONNX's own domain, and the version of the model format (ir_version) that came with each or was there.
# Written by scripts/checks/onnx_operators.py from onnx {version}; not to be edited.
"""
SCHEMA_FILE = IR_FILE.parents[1] / "types" / "schemas.txt"
SCHEMA_FILE_OF_RUNTIME = SCHEMA_FILE.with_name("schemas_onnxruntime.txt")
SCHEMA_HEAD = """\
# Operators: name, version, inputs > outputs ; type variables. NAME:VARIABLE or NAME=TYPE, with ? where it is optional, *
# where it repeats, ~ where it repeats with a type of its own each time. Sets of types are numbered and come first. A
# version with = says the same as the one before, but for more types.
# Written by scripts/checks/onnx_operators.py from {source}; not to be edited.
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


def marks():
    """The versions of operators that say what the one before says, and take more element types."""
    schemas = collections.defaultdict(list)
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            schemas[schema.name].append(schema)
    for name, history in schemas.items():
        history.sort(key=lambda schema: schema.since_version)
        yield from ((name, new.since_version) for old, new in zip(history, history[1:]) if says_the_same(new, old))


def ir_lines():
    """Some opsets came without a release; they have the version of the next. (A release may forget its own opset.)"""
    table = sorted((opset, ir_version) for _, ir_version, opset, *_ in onnx.helper.VERSION_TABLE)
    for opset in range(1, max(table)[0] + 1):
        yield f"{opset} {next(ir_version for released, ir_version in table if released >= opset)}"


# How onnx's spelling of a type starts, and ours.
KINDS = [
    ("optional(seq(tensor(", "optional_sequence:"), ("optional(tensor(", "optional:"), ("seq(tensor(", "sequence:"),
    ("tensor(", "tensor:"),
]


def type_name(text):
    """A type, as the command spells it: a tensor by its elements' type alone."""
    text = text.replace("seq(", "sequence(").replace("sparse_tensor(", "sparse(").replace(" ", "")
    return re.sub(r"(?<!\w)tensor\((\w+)\)", r"\1", text)


def set_of(types):
    """A set of types: those of tensors, of sequences and so on, each a list of the elements' types."""
    kinds = collections.defaultdict(list)
    for text in sorted(types):
        kind = next((kind for start, kind in KINDS if text.startswith(start)), "other:")
        name = type_name(text)
        kinds[kind].append(name if kind == "other:" else name.split("(")[-1].rstrip(")"))
    kinds = {kind: (";" if kind == "other:" else ",").join(names) for kind, names in kinds.items()}
    order = ["tensor:", "sequence:", "optional:", "optional_sequence:", "other:"]
    return " ".join(kind + kinds[kind] for kind in order if kind in kinds)


def formal(one):
    # onnxruntime has other names for the same fields.
    type_str = one.type_str if hasattr(one, "type_str") else one.typeStr
    homogeneous = one.is_homogeneous if hasattr(one, "is_homogeneous") else one.isHomogeneous
    mark = {"Single": "", "Optional": "?", "Variadic": "*" if homogeneous else "~"}[one.option.name]
    return one.name + mark + ("=" + type_name(type_str) if "(" in type_str else ":" + type_str)


def schemas(found):
    """Every version of every operator by domain, name and version: its line, but for the numbers of sets; and the
    sets."""
    table, same = {}, set(marks())
    for schema in found:
        inputs, outputs = (" ".join(map(formal, side)) for side in (schema.inputs, schema.outputs))
        variables = [(one.type_param_str, set_of(one.allowed_type_strs)) for one in schema.type_constraints]
        mark = "=" if not schema.domain and (schema.name, schema.since_version) in same else ""
        table[schema.domain or "ai.onnx", schema.name, schema.since_version] = (inputs, outputs, variables, mark)
    return dict(sorted(table.items()))


def schema_lines(table):
    sets = {}
    for _, _, variables, _ in table.values():
        for _, one in variables:
            sets.setdefault(one, len(sets))
    for one, number in sets.items():
        yield f"set {number} {one}"
    domain = None
    for (of_domain, name, version), (inputs, outputs, variables, mark) in table.items():
        if of_domain != domain:
            domain = of_domain
            yield f"domain {domain}"
        variables = " ".join(f"{variable}={sets[one]}" for variable, one in variables)
        yield " ".join(f"{name} {version}{mark} {inputs} > {outputs} ; {variables}".split())


def parse_schemas(lines):
    """The table that `schema_lines` made lines of."""
    table, sets, domain = {}, {}, None
    for line in lines:
        first, rest = line.split(" ", 1)
        if first == "set":
            number, one = rest.split(" ", 1)
            sets[number] = one
        elif first == "domain":
            domain = rest
        else:
            signature, variables = (part.strip() for part in line.split(" ;"))
            head, outputs = (part.strip() for part in signature.split(" >"))
            name, version, *inputs = head.split(" ")
            pairs = (pair.split("=") for pair in variables.split())
            named = [(variable, sets[number]) for variable, number in pairs]
            mark = "=" if version.endswith("=") else ""
            table[domain, name, int(version.rstrip("="))] = (" ".join(inputs), outputs, named, mark)
    return table


def onnx_schemas():
    return schemas(one for one in onnx.defs.get_all_schemas_with_history() if one.domain in ("", "ai.onnx.ml"))


def runtime_schemas():
    """The operators of com.microsoft, and those that onnxruntime puts into ONNX's own domain."""
    own = {one.name for one in onnx.defs.get_all_schemas_with_history() if one.domain == ""}
    every = get_all_operator_schema()
    return schemas(one for one in every if one.domain == "com.microsoft" or one.domain == "" and one.name not in own)


def sources():
    """Each file, its head, its lines as they are now, and what they are from."""
    of_onnx, of_runtime = f"onnx {onnx.__version__}", f"onnxruntime {onnxruntime.__version__}" if onnxruntime else ""
    yield IR_FILE, IR_HEAD.format(version=onnx.__version__), list(ir_lines()), of_onnx
    yield SCHEMA_FILE, SCHEMA_HEAD.format(source=of_onnx), list(schema_lines(onnx_schemas())), of_onnx
    if onnxruntime:
        lines = list(schema_lines(runtime_schemas()))
        yield SCHEMA_FILE_OF_RUNTIME, SCHEMA_HEAD.format(source=of_runtime), lines, of_runtime


def agrees(file, committed, now):
    """Whether a file that is of a newer onnx has what this one says, version by version."""
    if file == IR_FILE:
        return committed[: len(now)] == now
    before, after = parse_schemas(committed), parse_schemas(now)
    other = [key for key, schema in after.items() if key not in before or before[key][:3] != schema[:3]]
    for key in other:
        print(f"{key}: {after[key]}, and {file.name} has {before.get(key)}", file=sys.stderr)
    return not other


def settle(file, head, now, source, agrees):
    """Compares a file with what it should be now, or writes it. `agrees` says whether a file that is from another
    version has what this one says."""
    if sys.argv[1:] == ["--write"]:
        file.write_text(head + "\n".join(now) + "\n")
        print(f"wrote {file}")
        return
    text = file.read_text()
    committed = [line for line in text.splitlines() if not line.startswith("#")]
    is_of_this = f"from {source};" in text
    if file == SCHEMA_FILE_OF_RUNTIME and not is_of_this:
        print(f"{file.name} is of another onnxruntime than {source}: not compared")
    elif committed != now if is_of_this else not agrees(file, committed, now):
        sys.exit(f"{file} is not what {source} says: run {sys.argv[0]} --write, and look at the change")
    else:
        print(f"{file.name} agrees with {source} ({len(now)} lines)")


if __name__ == "__main__":
    for found in sources():
        settle(*found, agrees)
