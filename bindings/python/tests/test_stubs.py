"""Do the stubs tell what the modules have?"""

import ast
import builtins
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnx_cast
from onnx_cast import _native, dtypes

FOLDER = Path(onnx_cast.__file__).parent


def stub(name):
    return ast.parse((FOLDER / f"{name}.pyi").read_text()).body


def functions(body):
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def parameters(function):
    """The names of a function's parameters, those by keyword alone marked."""
    given = function.args
    return [one.arg for one in given.posonlyargs + given.args] + [f"*{one.arg}" for one in given.kwonlyargs]


def parameters_there(function):
    kinds = inspect.signature(function).parameters.values()
    return [("*" if one.kind is one.KEYWORD_ONLY else "") + one.name for one in kinds]


def test_the_native_modules_functions_are_those_of_its_stub():
    body = stub("_native")
    told = functions(body)
    classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
    imported = {one.asname for node in body if isinstance(node, ast.ImportFrom) for one in node.names} - {None}
    there = {name for name in dir(_native) if not name.startswith("__")}
    assert there == set(told) | set(classes) - set(typed_dicts(body)) | imported
    for name, function in told.items():
        assert parameters_there(getattr(_native, name)) == parameters(function), name
    methods = functions(classes["Operator"].body)
    assert {name for name in vars(_native.Operator) if not name.startswith("__")} == set(methods) - {"__new__", "__init__"}


def typed_dicts(body):
    """The dictionaries whose keys a stub tells, each with its keys, and whether each is always there."""
    found = {}
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.value.func.id == "TypedDict":
            found[node.targets[0].id] = {key.value: True for key in node.value.args[1].keys}
        elif isinstance(node, ast.ClassDef) and node.bases and node.bases[0].id in {"TypedDict", *found}:
            keys = {}
            for base in node.bases:
                keys |= found.get(base.id, {})
            for one in node.body:
                if isinstance(one, ast.AnnAssign):
                    keys[one.target.id] = not ast.unparse(one.annotation).startswith("NotRequired")
            found[node.name] = keys
    return found


def test_results_have_the_keys_of_their_types(tmp_path):
    kinds = typed_dicts(stub("_native"))

    def check(kind, result):
        always = {key for key, required in kinds[kind].items() if required}
        assert always <= set(result) <= set(kinds[kind]), kind

    path, other, model = tmp_path / "a.npy", tmp_path / "b.npy", tmp_path / "m.onnx"
    np.save(path, np.arange(6, dtype=np.float32))
    _, done, _ = _native.write_file("cast", path, other, {"to": "float16", "losses": True}, None)
    check("CastDone", done)
    check("TensorRow", done["tensors"][0])
    found = _native.info(path, {"stats": True}, None)
    check("Info", found)
    check("InfoRow", found["tensors"][0])
    check("ValuesRow", found["tensors"][0]["values"])
    differences = _native.diff(path, other, {}, None)
    check("Differences", differences)
    check("DifferenceRow", differences["differences"][0])
    cast = onnx.helper.make_node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT16)
    ends = [onnx.helper.make_tensor_value_info(name, kind, [2]) for name, kind in (("x", 1), ("y", 10))]
    graph = onnx.helper.make_graph([cast], "g", ends[:1], ends[1:])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9), model)
    found = _native.info(model, {"types": True}, None)["model"]
    check("ModelRow", found)
    check("NodeCast", found["casts"][0])
    check("OpsetRow", found["opsets"][0])
    check("TypedValue", found["types"][0])
    for job, kind, options in (
        (_native.fold, "FoldDone", {}),
        (_native.upgrade, "UpgradeDone", {"opset": 21}),
        (_native.record, "RecordDone", {}),
        (_native.convert, "ConvertDone", {}),
    ):
        done = job(model, tmp_path / f"{kind}.onnx", options | {"dry_run": True}, None)[1]
        check(kind, done)
        for key, row in (("casts", "FoldedRow"), ("rewritten", "UpgradedRow"), ("nodes", "NodeRow"), ("values", "ValueRow")):
            rows = done.get(key)
            if isinstance(rows, list) and rows and (kind, key) != ("RecordDone", "values"):
                check(row, rows[0])


def test_what_is_no_option_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(2, np.float32))
    for options, text in (
        ({"typo": True}, "`typo` is not an option here"),
        ({"to": "float16"}, "`to` is not an option here"),
        ({"stats": "yes"}, "`stats` is neither true nor false"),
        ({"include": object()}, "cannot be the value of an option"),
    ):
        with pytest.raises(onnx_cast.CastError, match=text):
            _native.info(tmp_path / "a.npy", options, None)


def test_the_options_of_overloads_are_those_of_their_functions():
    body = stub("__init__")
    options = {
        node.name: [one.target.id for one in node.body if isinstance(one, ast.AnnAssign)]
        for node in body
        if isinstance(node, ast.ClassDef)
    }
    compared = set()
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.args.kwarg is not None:
            name = node.args.kwarg.annotation.slice.id
            told = parameters(node) + [f"*{one}" for one in options[name]]
            assert sorted(told) == sorted(parameters_there(getattr(onnx_cast, node.name))), node.name
            compared.add(name)
    assert compared == set(options)


def test_the_types_are_those_of_their_stub():
    body = stub("dtypes")
    names = {node.target.id for node in body if isinstance(node, ast.AnnAssign)}
    assert names == {one.name for one in dtypes.ALL} | {"ALL"}
    (told,) = (node for node in body if isinstance(node, ast.ClassDef))
    fields = {node.target.id for node in told.body if isinstance(node, ast.AnnAssign)} | set(functions(told.body))
    assert fields <= set(dir(dtypes.int4)) and set(functions(body)) == {"of"}


@pytest.mark.parametrize("name", ["", ".backend", ".columns", ".dtypes", ".files", ".float16", ".layouts", ".onnxruntime", ".ray", ".reference"])
def test_what_a_module_promises_it_has(name):
    if name == ".ray":
        pytest.importorskip("ray", reason="Ray is not installed")
    module = importlib.import_module(f"onnx_cast{name}")
    assert (FOLDER / "py.typed").is_file() and module.__doc__
    for public in getattr(module, "__all__", []):
        thing = getattr(module, public)
        # What is inherited or made of other types is documented there.
        assert thing.__doc__ or not getattr(thing, "__module__", "").startswith("onnx_cast"), public


MODULES = ["backend", "columns", "dtypes", "files", "float16", "layouts", "onnxruntime", "reference", "types"]


@pytest.mark.parametrize("name", ["onnx_cast", *(f"onnx_cast.{module}" for module in MODULES)])
def test_importing_everything_shadows_nothing(name):
    found = {}
    exec(f"from {name} import *", found)
    del found["__builtins__"]
    assert found and not {one for one in found if hasattr(builtins, one) or inspect.ismodule(found[one])}


@pytest.mark.parametrize("name", ["", *(f".{module}" for module in [*MODULES, "ray", "torch"])])
def test_a_module_lists_its_public_names_alone(name):
    if name in (".ray", ".torch"):
        pytest.importorskip(name[1:])
    module = importlib.import_module(f"onnx_cast{name}")
    listed = dir(module)
    more = {"float", "bool"} if name == ".dtypes" else {*MODULES, "ray", "torch"} if not name else set()
    assert listed == sorted({*module.__all__, *more})
    assert not [one for one in listed if one.startswith("_") and one != "__version__"]


def test_a_modules_stub_has_its_names():
    (told,) = (node.value for node in stub("dtypes") if isinstance(node, ast.Assign))
    assert sorted(ast.literal_eval(told)) == sorted(dtypes.__all__)


def run(code):
    """What a new interpreter prints."""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()


def test_modules_are_loaded_when_they_are_used():
    loaded = "print(*(name for name in sys.modules if name.startswith('onnx_cast.')))"
    few = run(f"import sys, onnx_cast; onnx_cast.cast; {loaded}")
    assert "onnx_cast._native" in few and not {"onnx_cast.files", "onnx_cast._convert", "onnx_cast.layouts"} & set(few)
    for module in MODULES:
        assert f"onnx_cast.{module}" in run(f"import sys, onnx_cast; onnx_cast.{module}.__name__; {loaded}")
    assert set(MODULES) | {"ray", "cast_file", "convert_model"} <= set(dir(onnx_cast))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        onnx_cast.nothing  # noqa: B018


def test_the_casts_have_the_same_keywords():
    want = ["x", "to", "*saturate", "*round_mode", "*opset", "*out", "*threads", "*packed"]
    assert parameters_there(onnx_cast.cast) == want
    assert parameters_there(onnx_cast.cast_like) == ["x", "like", *want[2:]]
    assert parameters_there(onnx_cast.bit_cast) == [one for one in want if one[1:] not in ("saturate", "round_mode")]
    defaults = {name: one.default for name, one in inspect.signature(onnx_cast.cast).parameters.items()}
    assert (defaults["saturate"], defaults["round_mode"], defaults["threads"]) == (True, "up", None)


@pytest.mark.parametrize("missing", [(), ("torch", "jax", "onnx", "onnxruntime", "ray", "pandas", "polars")])
def test_modules_are_inspected_whatever_packages_are_missing(missing):
    code = f"""
import importlib, inspect, pydoc, sys, warnings
warnings.simplefilter("ignore")  # of other packages, as they are imported
sys.modules |= dict.fromkeys({missing})
import onnx_cast
modules = [onnx_cast] + [one for name in {sorted(onnx_cast._MODULES)} if (one := getattr(onnx_cast, name, None))]
for module in modules:
    there = {{name for name, _ in inspect.getmembers(module)}}
    absent = set(dir(module)) - there
    assert absent <= (onnx_cast._MODULES if module is onnx_cast else set()), (module, absent)
    pydoc.render_doc(module)
for name in {missing}:
    try:
        getattr(onnx_cast, name)
    except AttributeError as error:
        assert name in str(error), error
print(len(modules))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) > (6 if missing else 8)
