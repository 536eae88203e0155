"""Reads the model definitions of vLLM and SGLang.

For each architecture, all model classes that are reachable from its class are read. An entry has these keys:

* `joined`: groups of modules in the checkpoint that become one parameter (`packed_modules_mapping`,
  `stacked_params_mapping`, `orig_to_new_stacked`),
* `plain`: modules that are built without quantization, by the last two names of their path,
* `quantized`: modules that are built with quantization,
* `opened`: modules whose `weight` the model's own code reads; packed formats lack this attribute,
* `experts`: names of the gate, down and up projections of one expert,
* `stacked`: whether the model also reads all experts of a layer from one tensor,
* `both`: modules that are built with or without quantization, depending on settings that the sources leave open,
* `dynamic`: whether the configuration specifies the class of a part of the model.
"""

import ast
from collections import defaultdict
from functools import cached_property
from pathlib import Path

LEAVES = {"utils", "interfaces", "interfaces_base", "registry", "module_mapping", "adapters"}
# Name of the tensor with all experts of a layer.
STACKED = "experts.gate_up_proj"
PLATFORMS = {"amd", "xpu", "cpu", "npu"}
GATES = ("ckpt_gate_proj_name", "ckpt_down_proj_name", "ckpt_up_proj_name")


# Methods that reshape a weight, which requires the unpacked weight itself.
SHAPED = {"view", "reshape", "unflatten"}
FACTS = {"dtype", "device", "shape", "ndim", "is_contiguous"}


class Module:
    """A Python file: its classes, functions, constants and imports, at any depth."""

    def __init__(self, package, path):
        self.package, self.path = package, path
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = path.relative_to(package.root.parent).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)

    @cached_property
    def own(self):
        """The names that the file defines, with their definitions."""
        names = {}
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                names[node.name] = node
            for target in targets(node):
                if isinstance(target, ast.Name):
                    names[target.id] = node.value
        return names

    @cached_property
    def imports(self):
        """The names that the file imports from the package, each with its file and its name there."""
        names = {}
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            base = (node.module or "").split(".") if node.module else []
            if node.level:
                parts = self.name.split(".")
                parts = parts[: len(parts) - node.level + self.is_package]
                base = parts + base
            if not PLATFORMS.intersection(base):
                for alias in node.names:
                    names[alias.asname or alias.name] = (".".join(base), alias.name)
        return names


class Package:
    def __init__(self, root):
        self.root, self.modules = root, {}

    def module(self, name):
        if name not in self.modules:
            path = self.root.parent.joinpath(*name.split("."))
            path = next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.exists()), None)
            self.modules[name] = Module(self, path) if path and name.split(".")[0] == self.root.name else None
        return self.modules[name]

    def find(self, module, name, depth=0):
        """Returns the file that defines a name, and the name there; `module` is the file that uses it."""
        if module is None or depth > 8:
            return None
        if name in module.own:
            return module, name
        if name in module.imports:
            base, original = module.imports[name]
            return self.find(self.module(base), original, depth + 1)
        return None


def targets(node):
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value else []


def text(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def last_of(node):
    """Returns the last name of `a.b.c`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def path_of(prefix):
    """Returns the path of a module relative to its parent: `f"{prefix}.mlp.gate"` gives `mlp.gate`."""
    if isinstance(prefix, ast.Call):
        return next((text(one) for one in prefix.args if text(one)), None)
    if isinstance(prefix, ast.JoinedStr) and prefix.values and text(prefix.values[-1]):
        path = text(prefix.values[-1])
        return path.rpartition(".")[2] if len(prefix.values) > 2 else path.strip(".")
    if isinstance(prefix, ast.BinOp):
        return (text(prefix.right) or "").strip(".") or None
    return text(prefix)


def weights_in(node):
    """Yields the modules whose `weight` is read as a value. Reading only its type or shape does not count."""
    looked_at = {id(one.value) for one in ast.walk(node) if isinstance(one, ast.Attribute) and one.attr in FACTS}
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and one.attr == "weight" and isinstance(one.value, ast.Attribute):
            if id(one) not in looked_at:
                yield one.value.attr


def is_linear(name):
    return name.endswith("Linear") and "Method" not in name


class Reader:
    """Collects the rules of one architecture from all classes that are reachable from it."""

    def __init__(self, package, follows):
        self.package, self.follows = package, follows
        self.seen, self.classes = set(), {}
        self.groups = defaultdict(list)
        self.places = defaultdict(set)
        self.linears = defaultdict(set)
        self.opened, self.experts, self.unread = set(), set(), set()
        self.closed, self.explicit = set(), set()
        # Modules whose class is stored in a variable.
        self.variable = set()
        self.is_dynamic, self.stacks = False, False

    def reach(self, module, name):
        found = self.package.find(module, name)
        if found is None or found in self.seen or not self.follows(found[0].name):
            return
        self.seen.add(found)
        module, name = found
        node = module.own[name]
        if isinstance(node, ast.ClassDef):
            self.classes[name] = node
        self.read(module, node, name)
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
                self.reach(module, one.id)

    def read(self, module, node, owner):
        mapping = isinstance(node, (ast.Dict, ast.List)) and [node] or []
        self.mappings(owner, mapping)
        for one in ast.walk(node):
            for target in targets(one):
                self.mappings(target_name(target), [one.value])
                if last_of(target) == "quant_config" and isinstance(target, ast.Attribute):
                    is_none = isinstance(one.value, ast.Constant) and one.value.value is None
                    if is_none and last_of(target.value) != "self":
                        self.closed.add(owner)
                if isinstance(target, ast.Attribute) and last_of(target.value) == "self":
                    for call in calls_of(one.value):
                        self.built(owner, call, target.attr, module)
            if isinstance(one, ast.Call):
                name = last_of(one.func)
                if name in ("append", "extend") and isinstance(one.func, ast.Attribute):
                    self.mappings(last_of(one.func.value), one.args)
                if name == "init_vllm_registered_model":
                    self.is_dynamic = True
                given = {word.arg: text(word.value) for word in one.keywords}
                if any(given.get(key) for key in GATES):
                    self.experts.add(tuple(given.get(key) or "" for key in GATES))
                stacked = next((word.value for word in one.keywords if word.arg == "orig_to_new_stacked"), None)
                if isinstance(stacked, ast.Dict):
                    self.mappings("stacked_mapping", [stacked])
                if any(word.arg == "prefix" for word in one.keywords) and not hasattr(one, "_built"):
                    self.built(owner, one, None, module)
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and STACKED in one.value:
                self.stacks = True
            if isinstance(one, ast.FunctionDef) and "load_weights" in one.name:
                self.opened.update(weights_in(one))
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in SHAPED:
                self.opened.update(weights_in(one.func))

    def mappings(self, name, values):
        """Adds the pairs (parameter, module) of a mapping."""
        words = ("mapping", "packed", "stacked", "params")
        if "expert" in name.lower() or not any(word in name.lower() for word in words):
            return
        for value in values:
            for one in ast.walk(value):
                pairs = []
                if isinstance(one, ast.Dict):
                    for key, parts in zip(one.keys, one.values):
                        if key is None or not text(key):
                            continue
                        if isinstance(parts, ast.List) and parts.elts and all(text(part) for part in parts.elts):
                            pairs += [(text(key), text(part)) for part in parts.elts]
                        elif isinstance(parts, ast.Tuple) and len(parts.elts) == 2 and text(parts.elts[0]):
                            pairs.append((text(parts.elts[0]), text(key)))
                elif isinstance(one, ast.Tuple) and len(one.elts) == 3 and text(one.elts[0]) and text(one.elts[1]):
                    pairs.append((text(one.elts[0]), text(one.elts[1])))
                for parameter, part in pairs:
                    parameter, part = (side.removesuffix(".weight").strip(".") for side in (parameter, part))
                    part = part.rpartition(".")[2]
                    parameter = parameter.rpartition(".")[2]
                    if "expert" not in parameter and part and not part.endswith("_weight") \
                            and part not in self.groups[parameter]:
                        self.groups[parameter].append(part)

    def built(self, owner, call, attribute, module):
        """Records a module that a class builds: its path, and whether it is built with quantization."""
        name = last_of(call.func)
        call._built = True
        words = {word.arg: word.value for word in call.keywords}
        path = path_of(words["prefix"]) if "prefix" in words else None
        path = path if path and not path.isdigit() else attribute
        if not path:
            return
        if not name[:1].isupper() and name[:1] != "_":
            if "prefix" in words and "quant_config" in words:
                self.variable.add(path)
            return
        quantization = words.get("quant_config")
        is_none = isinstance(quantization, ast.Constant) and quantization.value is None
        if is_none and is_linear(name):
            self.explicit.add((owner, path))
        if isinstance(quantization, ast.IfExp):
            kind = "unread"
        elif is_none:
            kind = "plain"
        elif quantization is not None or None in words:
            kind = "quantized"
        elif is_linear(name) and len(call.args) < 6:
            kind = "plain"
        else:
            kind = "unknown"
        if is_linear(name):
            self.linears[owner].add((path, kind))
        else:
            self.places[name].add((path, kind, owner))

    def parents(self, owner, depth=0):
        """Returns the names under which modules of a class are built, each with its kind."""
        found = {(path.rpartition(".")[2], kind) for path, kind, _ in self.places[owner]}
        if not found and depth < 4:
            heirs = [name for name, node in self.classes.items() if any(last_of(base) == owner for base in node.bases)]
            found = set().union(*(self.parents(heir, depth + 1) for heir in heirs))
        return found

    def members(self, path):
        """Returns the modules of the checkpoint that are joined into a module, or the module itself."""
        before, _, last = path.rpartition(".")
        parts = self.groups.get(last) or [last]
        return [f"{before}.{part}" if before else part for part in parts]

    def result(self):
        plain, quantized, unread, explicit = set(), set(), set(), set()
        for owner, linears in self.linears.items():
            parents = self.parents(owner) or {(path.rpartition(".")[2], "unknown") for path in self.variable or {""}}
            for path, kind in linears:
                for parent, around in parents:
                    kind = "plain" if around == "plain" or owner in self.closed else kind
                    whole = f"{parent}.{path}" if parent and "." not in path else path
                    into = {"plain": plain, "unread": unread}.get(kind, quantized)
                    paths = {".".join(one.split(".")[-2:]) for one in self.members(whole)}
                    into.update(paths)
                    if (owner, path) in self.explicit:
                        explicit.update(paths)
        # A name without its parent is ambiguous if modules with the same name are built differently.
        alone = {path for path in plain if "." not in path}
        last = {path.rpartition(".")[2] for path in quantized}
        unsure = {path for path in alone if path in last}
        unsure |= {path for path in plain - alone if path.rpartition(".")[2] in quantized}
        groups = {tuple(parts) for parts in self.groups.values() if len(set(parts)) > 1}
        groups = {parts for parts in groups if not any(set(parts) < set(other) for other in groups)}
        self.certain = (explicit & plain) - quantized - unread - unsure
        all_linears = {path.rpartition(".")[2] for path in quantized}
        opened = self.opened & all_linears
        return {
            "joined": sorted({tuple(sorted(parts)) for parts in groups}),
            "plain": sorted(plain - quantized - unread - unsure),
            "both": sorted((plain & quantized) | unread | unsure),
            "quantized": sorted(quantized - plain - unread),
            "opened": sorted(opened),
            "experts": sorted(self.experts),
            "stacked": self.stacks,
            "dynamic": self.is_dynamic,
        }


def target_name(target):
    """Returns the name of the target of an assignment: `a.mapping["key"] = ...` gives `mapping`."""
    if isinstance(target, ast.Subscript):
        return last_of(target.value)
    return last_of(target)


def calls_of(value):
    """Returns the calls whose result may be the value of an expression."""
    if isinstance(value, ast.Call):
        return [value]
    if isinstance(value, ast.IfExp):
        return calls_of(value.body) + calls_of(value.orelse)
    return []


def table(readers, unread):
    """Merges architectures with the same rules into one entry, and collects the default list of plain modules."""
    entries = defaultdict(list)
    for architecture, reader in readers.items():
        result = reader.result()
        entries[repr(result)].append((architecture, result))
    models = []
    for same in entries.values():
        entry = {"of": sorted(name for name, _ in same), **{k: v for k, v in same[0][1].items() if v}}
        models.append(entry)
    quantized = {path for entry in models for path in entry.get("quantized", []) + entry.get("both", [])}
    certain = set().union(*(reader.certain for reader in readers.values()))
    certain = sorted(path for path in certain if "." in path and not quantized & {path, path.rpartition(".")[2]})
    for entry in models:
        rules = [key for key in ("joined", "plain", "quantized", "both") if key in entry]
        unread.extend([f"{name}: no module" for name in entry["of"]] if not rules else [])
        unread.extend(f"{name}: the class of its language model" for name in entry["of"] if "dynamic" in entry)
    return {"models": sorted(models, key=lambda entry: entry["of"]), "default": certain, "unread": sorted(unread)}


def vllm(root):
    package = Package(root)
    registry = package.module("vllm.model_executor.models.registry")
    readers, unread = {}, []
    def follows(name):
        parts = name.split(".")
        return name.startswith(("vllm.models.", "vllm.model_executor.models.", "vllm.model_executor.layers.mamba.")) \
            and parts[-1] not in LEAVES and ".models.transformers" not in name
    for name, node in registry.own.items():
        if not name.endswith("_MODELS") or not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values):
            if not (text(key) if key else None) or not isinstance(value, ast.Tuple):
                continue
            base, klass = (text(part) for part in value.elts)
            base = base if base.startswith("vllm.") else f"vllm.model_executor.models.{base}"
            reader = Reader(package, follows)
            reader.reach(package.module(base), klass)
            if reader.classes:
                readers[text(key)] = reader
            elif not base.endswith("transformers"):
                unread.append(f"{text(key)}: no class {klass} in {base}")
    return table(readers, unread)


def sglang(root):
    package = Package(root)
    readers, unread = {}, []
    def follows(name):
        return name.startswith(("sglang.srt.models.", "sglang.srt.layers.attention.dsa.")) \
            and name.split(".")[-1] not in LEAVES
    for path in sorted((root / "srt" / "models").glob("*.py")):
        module = package.module(f"sglang.srt.models.{path.stem}")
        entry = module.own.get("EntryClass")
        if entry is None:
            continue
        names = [last_of(one) for one in entry.elts] if isinstance(entry, (ast.List, ast.Tuple)) else [last_of(entry)]
        for name in names:
            reader = Reader(package, follows)
            reader.reach(module, name)
            if reader.classes:
                readers[name] = reader
            else:
                unread.append(f"{name}: no class in {path.name}")
    return table(readers, unread)
