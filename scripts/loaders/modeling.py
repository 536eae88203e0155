"""Reads the model definitions of transformers. The model types of a folder share one entry with these keys:

* `classes`: the architectures of the model types, for configurations that do not specify any,
* `transposed`: modules of class Conv1D, which stores the input axis first,
* `linears`: names of modules of class nn.Linear, the only class that quantizers replace,
* `opened`: linear modules whose `weight` the model's own code reads; packed formats lack this attribute,
* `float`: parts of the names of modules that are kept in float (`_keep_in_fp32_modules`),
* `singles`: names of the projections of single experts, if the loader merges these into one tensor,
* `experts`: parameters with all experts of a layer, and whether the input axis is the `last` or the `first`.
"""

import ast
import re
from collections import defaultdict

from serving import last_of, targets, text, weights_in

# Output layers and embeddings. Models read their weights to tie them, or to inspect their properties.
OTHERS = {"lm_head", "embed_tokens", "wte"}


def constants(node):
    return [text(one) for one in getattr(node, "elts", []) if text(one)]


def model_types(folder):
    types = set()
    for path in folder.glob("configuration_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            for target in targets(node):
                if last_of(target) == "model_type" and text(node.value):
                    types.add(text(node.value))
    return types


def optional(node):
    """Yields the ids of nodes that do not run with packed weights.

    These are the bodies of `if self.training`, and branches whose alternative calls the module instead.
    """
    for one in ast.walk(node):
        if not isinstance(one, ast.If):
            continue
        beside = [node for statement in one.orelse for node in ast.walk(statement)]
        called = {last_of(call.func) for call in beside if isinstance(call, ast.Call)}
        is_training = any(last_of(name) == "training" for name in ast.walk(one.test))
        for statement in one.body:
            if is_training or set(weights_in(statement)) & called:
                yield from (id(inner) for inner in ast.walk(statement))


def orientation(parameter, decorated):
    """Returns which axis of experts has the inputs: the other axis has twice the size for gate and up projections."""
    if decorated is not None:
        return "first" if decorated else "last"
    shape = parameter.args[0] if len(parameter.args) == 1 and isinstance(parameter.args[0], ast.Tuple) else parameter
    axes = shape.elts if isinstance(shape, ast.Tuple) else shape.args
    if len(axes) != 3:
        return None
    twofold = [any(isinstance(one, ast.Constant) and one.value == 2 for one in ast.walk(axis)) for axis in axes]
    return "last" if twofold[1] else "first" if twofold[2] else "unread"


def read(tree):
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def inherits_linear(node):
        bases = [last_of(base) for base in node.bases]
        return "Linear" in bases or any(base in classes and inherits_linear(classes[base]) for base in bases)

    own_linears = {name for name, node in classes.items() if inherits_linear(node)}
    opening = {name for name in own_linears if any(
        isinstance(one, ast.Attribute) and one.attr == "weight" and last_of(one.value) == "self"
        for method in classes[name].body if isinstance(method, ast.FunctionDef) for one in ast.walk(method))}
    linears, transposed, opened, floats, experts = set(), set(), set(), set(), {}
    for node in classes.values():
        decorators = node.decorator_list
        decorators = [one for one in decorators if "experts_implementation" in last_of(getattr(one, "func", one))]
        first = None
        for decorator in decorators:
            words = {word.arg: word.value for word in getattr(decorator, "keywords", [])}
            first = bool(getattr(words.get("is_transposed"), "value", False))
        found = {}
        for one in ast.walk(node):
            for target in targets(one):
                name = last_of(target)
                if name.startswith("_keep_in_fp32_modules"):
                    floats.update(constants(one.value))
                if not isinstance(target, ast.Attribute) or last_of(target.value) != "self":
                    continue
                built = [call for call in ast.walk(one.value) if isinstance(call, ast.Call)]
                kinds = {last_of(call.func) for call in built}
                if "Linear" in kinds or kinds & own_linears:
                    linears.add(name)
                if "Conv1D" in kinds:
                    transposed.add(name)
                if kinds & opening:
                    opened.add(name)
                if "Parameter" in kinds:
                    for call in built:
                        if last_of(call.func) in ("empty", "zeros", "randn", "ones"):
                            found[name] = orientation(call, first)
        known = [one for one in found.values() if one in ("last", "first")]
        for name, one in found.items():
            if one and name.endswith(("proj", "linear", "weight", "fc1", "fc2", "w1", "w2", "w3")) and (known or one):
                experts[name] = known[0] if one == "unread" and known else one
    skipped = set(optional(tree))
    for name, node in classes.items():
        for one in weights_in(strip(node, skipped)):
            opened.add(one)
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name == "_init_weights":
                opened.update(linears if initializes_linears(method) else (), handed_over(method))
    return {"transposed": transposed, "linears": linears, "opened": opened & linears - OTHERS, "float": floats,
            "experts": experts}


def initializes_linears(method):
    """Returns whether a method that initializes modules reads the weight of every nn.Linear."""
    for one in ast.walk(method):
        if isinstance(one, ast.If) and any(last_of(name) == "Linear" for name in ast.walk(one.test)):
            for inner in (inner for statement in one.body for inner in ast.walk(statement)):
                if isinstance(inner, ast.Attribute) and inner.attr == "weight" and last_of(inner.value) == "module":
                    return True
    return False


def handed_over(method):
    """Yields the modules that a method passes to a nested function that reads their weights."""
    inner = {one.name: one for one in ast.walk(method) if isinstance(one, ast.FunctionDef) and one is not method}
    reading = {name for name, one in inner.items() if any(
        isinstance(node, ast.Attribute) and node.attr == "weight" for node in ast.walk(one))}
    for call in ast.walk(method):
        if isinstance(call, ast.Call) and last_of(call.func) in reading:
            yield from (one.attr for one in call.args if isinstance(one, ast.Attribute))


def strip(node, skipped):
    class Strip(ast.NodeTransformer):
        def visit(self, one):
            return None if id(one) in skipped else self.generic_visit(one)

    return Strip().visit(node)


def architectures(root):
    """Returns the text-generating classes of each model type."""
    tree, found = ast.parse((root / "models" / "auto" / "modeling_auto.py").read_text()), defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2 and text(node.elts[0]) and text(node.elts[1]):
            if text(node.elts[1]).endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")):
                found[text(node.elts[0])].add(text(node.elts[1]))
    return found


def single_experts(root):
    """Returns the names of the projections of single experts that the conversion of each model type merges."""
    found, copies = defaultdict(set), []
    for node in ast.walk(ast.parse((root / "conversion_mapping.py").read_text())):
        pairs = list(zip(node.keys, node.values)) if isinstance(node, ast.Dict) else []
        for target in targets(node):
            if isinstance(target, ast.Subscript):
                pairs.append((target.slice, node.value))
        for key, value in pairs:
            if not (key and text(key)):
                continue
            others = [one.slice for one in ast.walk(value) if isinstance(one, ast.Subscript)]
            copies += [(text(key), text(other)) for other in [*others, value] if text(other)]
            for name in filter(None, map(text, ast.walk(value))):
                found[text(key)].update(re.findall(r"experts\.\*\.(\w+)\.weight", name))
    for _ in range(3):  # Some are copies of copies.
        for name, other in copies:
            found[name] |= found[other]
    return found


def transformers(root):
    classes, singles = architectures(root), single_experts(root)
    models, unread = [], []
    for folder in sorted((root / "models").iterdir()):
        types = model_types(folder) if folder.is_dir() else set()
        files = sorted(folder.glob("modeling_*.py")) if types else []
        if not files:
            continue
        found = {}
        for path in files:
            for key, value in read(ast.parse(path.read_text())).items():
                found[key] = found[key] | value if key in found else value
        experts = found.pop("experts")
        for name in sorted(name for name, one in experts.items() if one == "unread"):
            unread.append(f"{folder.name}: which axis of {name} has the inputs")
        entry = {
            "of": sorted(types),
            "classes": sorted(set().union(*(classes[kind] for kind in types))),
            **{key: sorted(value) for key, value in found.items()},
            "singles": sorted(set().union(*(singles[kind] for kind in types))),
            "experts": {name: one for name, one in sorted(experts.items()) if one != "unread"},
        }
        models.append({key: value for key, value in entry.items() if value})
    return {"models": models, "unread": unread}
