"""Reads which modules every layer of a model has, from the model definitions of transformers. The model types of a
folder share one entry with these keys:

* `modules`: for the name of a module, the linear modules that it has in every configuration: a list for each class that
  has the name, with names of linear layers and of modules that contain some,
* `lists`: names of lists of layers, and the keys of the configuration with their lengths.
"""

import ast
from collections import defaultdict

from modeling import model_types
from serving import calls_of, last_of, targets, text


def constructor(node):
    return next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)


def built(statement):
    """Yields the names of attributes of `self` that a statement assigns, each with the value."""
    for target in targets(statement):
        if isinstance(target, ast.Attribute) and last_of(target.value) == "self":
            yield target.attr, statement.value


def length(value):
    """Returns the key of the configuration that has the length of a list of layers."""
    if not (isinstance(value, ast.Call) and last_of(value.func) == "ModuleList" and value.args):
        return None
    for one in ast.walk(value.args[0]):
        if isinstance(one, ast.comprehension) and isinstance(one.iter, ast.Call) and last_of(one.iter.func) == "range":
            (limit, *others) = one.iter.args
            if not others and isinstance(limit, ast.Attribute) and last_of(limit.value) == "config":
                return limit.attr
    return None


class Classes:
    """The classes of one file."""

    def __init__(self, tree):
        self.nodes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def bases(self, name):
        return [last_of(base) for base in self.nodes[name].bases]

    def is_linear(self, name):
        return name == "Linear" or name in self.nodes and any(self.is_linear(base) for base in self.bases(name))

    def of(self, value):
        """Yields the classes of the modules that an expression builds; None for a class of another file."""
        for call in calls_of(value):
            name = last_of(call.func)
            if name in ("ModuleList", "ModuleDict", "Sequential"):
                inner = (one for part in call.args for one in ast.walk(part) if isinstance(one, ast.Call))
                yield from (last_of(one.func) for one in inner if last_of(one.func) in self.nodes)
            elif name in self.nodes:
                yield name
            elif name[:1].isupper() and last_of(getattr(call.func, "value", None)) != "nn":
                yield None

    def members(self, name, depth=0):
        """Returns the modules with linear layers that a class builds in every configuration."""
        own = constructor(self.nodes[name]) if name in self.nodes else None
        if own is None or depth > 6:
            return set()
        found = set()
        for statement in own.body:
            for attribute, value in built(statement):
                kinds = {last_of(call.func) for call in calls_of(value)} if isinstance(value, ast.Call) else set()
                if any(self.is_linear(kind) or self.members(kind, depth + 1) for kind in kinds):
                    found.add(attribute)
        for base in self.bases(name):
            if base in self.nodes and base != name:
                found |= self.members(base, depth + 1)
        return found


def tied(tree):
    """Yields the names of modules that may share a weight with another module, and have none in a checkpoint."""
    for statement in (one for node in tree.body if isinstance(node, ast.ClassDef) for one in node.body):
        if "_tied_weights_keys" in map(last_of, targets(statement)):
            names = (text(one) for one in ast.walk(statement.value))
            yield from (name.split(".")[-2] for name in names if name and name.count("."))


def read(tree):
    classes, modules, lists, unread = Classes(tree), defaultdict(set), set(), set()
    shared = set(tied(tree))
    for statement in (one for node in classes.nodes.values() for one in ast.walk(node)):
        for attribute, value in built(statement):
            for kind in classes.of(value):
                if kind is None:
                    unread.add(attribute)
                else:
                    modules[attribute].add(tuple(sorted(classes.members(kind) - shared)))
            if key := length(value):
                lists.add((attribute, key))
    modules = {name: sets for name, sets in modules.items() if all(sets) and name not in unread}
    return {"modules": modules, "lists": lists}


def transformers(root):
    models = []
    for folder in sorted((root / "models").iterdir()):
        types = model_types(folder) if folder.is_dir() else set()
        files = [read(ast.parse(path.read_text())) for path in sorted(folder.glob("modeling_*.py"))] if types else []
        modules, lists = defaultdict(set), set().union(*(found["lists"] for found in files))
        for found in files:
            for name, sets in found["modules"].items():
                modules[name] |= sets
        if modules or lists:
            # A module of a single linear layer is there or not.
            modules = {name: sorted(sets) for name, sets in sorted(modules.items()) if max(map(len, sets)) > 1}
            models.append({"of": sorted(types), "modules": modules, "lists": sorted(lists)})
    return {"models": models}
