"""Files, cast and told of: what the file functions write is what the casts of arrays give."""

import errno
import os
import signal
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors
from bitwise import same
from onnx import TensorProto, helper
from safetensors.numpy import save_file

import onnx_cast
from onnx_cast import CastError, dtypes

STATE = {
    "a.weight": np.linspace(-3, 3, 1000, dtype=np.float32).reshape(10, 100),
    "b.norm": np.linspace(0, 1, 10, dtype=np.float32),
    "steps": np.arange(5),
}


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "in.safetensors"
    save_file(STATE, path)
    return path


def test_a_checkpoint_is_cast_and_told_of(checkpoint, tmp_path):
    out, told = tmp_path / "out.safetensors", []
    done = onnx_cast.cast_file(
        str(checkpoint), out, "float8e4m3fn", rules={"*norm*": "bf16"}, progress=lambda *state: told.append(state)
    )
    after = {row.name: row for row in done}
    no_alarms = dict.fromkeys(["became_nan", "nan", "nan_scales", "overflowed", "saturated"], 0)
    types = (dtypes.float, dtypes.float8e4m3fn)
    assert after["a.weight"] == ("a.weight", (10, 100), *types, 4000, 1000, True, None, no_alarms, *[None] * 4)
    assert after["b.norm"].after is dtypes.bfloat16 and not after["steps"].cast
    assert told and told[-1] == (4080, 4080) and told == sorted(told)
    tensors = dict(safetensors.deserialize(out.read_bytes()))
    for name, to in (("a.weight", "float8e4m3fn"), ("b.norm", "bfloat16")):
        got = onnx_cast.unpack(tensors[name]["data"], to, tensors[name]["shape"])
        same(got, onnx_cast.cast(STATE[name], to))
    assert {row.name: (row.shape, row.dtype.name, row.bytes) for row in onnx_cast.info(out)} == {
        "a.weight": ((10, 100), "float8e4m3fn", 1000),
        "b.norm": ((10,), "bfloat16", 20),
        "steps": ((5,), "int64", 40),
    }


def test_paths_of_bytes_are_paths(checkpoint, tmp_path):
    source, out, rules = os.fsencode(checkpoint), os.fsencode(tmp_path / "out.safetensors"), tmp_path / "rules"
    rules.write_text("b.norm=keep\n")
    done = onnx_cast.cast_file(source, out, "bf16", rules_file=os.fsencode(rules))
    assert {row.name: row.cast for row in done} == {"a.weight": True, "b.norm": False, "steps": False}
    assert {row.name for row in onnx_cast.info(out)} == set(STATE)
    assert [row.name for row in onnx_cast.diff(source, out)] == ["a.weight"]
    found = onnx_cast.report(source, "bf16")
    found.save(os.fsencode(tmp_path / "report.json"))
    assert (tmp_path / "report.json").read_text().startswith("{")
    onnx_cast.quantize_file(source, os.fsencode(tmp_path / "q.safetensors"), "int8", rules={"a.weight": "int8"})
    onnx_cast.dequantize_file(os.fsencode(tmp_path / "q.safetensors"), os.fsencode(tmp_path / "p.safetensors"), "float")
    assert (tmp_path / "p.safetensors").exists()

    class Given:
        def __fspath__(self):
            return source

    assert len(onnx_cast.info(Given())) == 3
    assert onnx_cast.cast_file(source, out, "bf16", dry_run=True, force=True)


def test_overflow_and_nan_are_told_without_being_asked(tmp_path):
    src, dst = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(src, np.array([1, 70000, np.nan], np.float32))
    done = onnx_cast.cast_file(src, dst, "float16")
    assert done.warning == "1 value overflowed, 1 value was NaN"
    assert done[0].alarms == {"overflowed": 1, "saturated": 0, "nan": 1, "became_nan": 0, "nan_scales": 0}
    assert done[0].counts is None
    np.save(src, np.array([1, 2, 3], np.float32))
    assert onnx_cast.cast_file(src, dst, "float16", force=True).warning is None
    assert onnx_cast.cast_file(src, dst, "float16", dry_run=True, force=True)[0].alarms is None


def test_selections_attributes_and_dry_runs(checkpoint, tmp_path):
    out = tmp_path / "out.safetensors"
    options = {"include": ["*.weight"], "exclude": ["re:^steps"], "min_elements": 100}
    plan = onnx_cast.cast_file(checkpoint, out, "float16", dry_run=True, **options)
    assert [row.name for row in plan if row.cast] == ["a.weight"] and not out.exists()
    done = onnx_cast.cast_file(checkpoint, out, "float16", **options)
    # A plan reads no values.
    assert [row._replace(alarms=None) for row in done] == plan
    np.save(tmp_path / "x.npy", np.array([1e9, 1.5], np.float32))
    onnx_cast.cast_file(tmp_path / "x.npy", tmp_path / "y.npy", "float8e5m2", saturate=False, opset=19)
    (row,) = onnx_cast.info(tmp_path / "y.npy", from_="float8e5m2")
    assert (row.dtype, row.shape) == (dtypes.float8e5m2, (2,))


def test_what_the_system_refuses_is_its_own_error(checkpoint, tmp_path):
    none, out = tmp_path / "none.npy", tmp_path / "y.npy"
    model = tmp_path / "none.onnx"
    for call in [
        lambda: onnx_cast.cast_file(none, out, "int8"),
        lambda: onnx_cast.bit_cast_file(none, out, "int8"),
        lambda: onnx_cast.info(none),
        lambda: onnx_cast.info(str(none)),
        lambda: onnx_cast.diff(none, checkpoint),
        lambda: onnx_cast.diff(checkpoint, none),
        lambda: onnx_cast.report(none, "float16"),
        lambda: onnx_cast.cast_file(checkpoint, tmp_path / "y.safetensors", "int8", rules_file=none),
        lambda: onnx_cast.quantize_file(none.with_suffix(".safetensors"), tmp_path / "y.safetensors", "mxfp4"),
        lambda: onnx_cast.dequantize_file(none.with_suffix(".safetensors"), tmp_path / "y.safetensors", "float"),
        lambda: onnx_cast.convert_model(model, tmp_path / "y.onnx"),
        lambda: onnx_cast.fold(model, tmp_path / "y.onnx"),
        lambda: onnx_cast.upgrade_model(model, tmp_path / "y.onnx"),
        lambda: onnx_cast.record_model(model, tmp_path / "y.onnx"),
    ]:
        with pytest.raises(FileNotFoundError) as error:
            call()
        assert error.value.errno == errno.ENOENT and error.value.strerror == os.strerror(errno.ENOENT)
        assert Path(error.value.filename).stem == "none", error.value.filename
    with pytest.raises(FileExistsError) as error:
        onnx_cast.cast_file(checkpoint, checkpoint, "float16")
    assert error.value.errno == errno.EEXIST and error.value.filename == str(checkpoint)
    np.save(tmp_path / "x.npy", STATE["steps"])
    with pytest.raises(FileNotFoundError) as error:
        onnx_cast.cast_file(tmp_path / "x.npy", tmp_path / "no-folder" / "y.npy", "int8")
    assert "no-folder" in error.value.filename


def test_files_that_do_not_do_are_errors_with_their_names(checkpoint, tmp_path):
    def cast(**options):
        onnx_cast.cast_file(checkpoint, tmp_path / "y.safetensors", "int8", **options)

    for call, text in [
        (lambda: onnx_cast.cast_file(checkpoint, tmp_path / "y.txt", "int8"), "y.txt: unknown file extension"),
        (lambda: onnx_cast.cast_file(checkpoint, tmp_path / "y.safetensors", "int8", include=["["]), r"\["),
        (lambda: onnx_cast.cast_file(checkpoint, tmp_path / "y.safetensors", "int4", opset=13), "Cast-13"),
        (lambda: onnx_cast.cast_file(checkpoint, tmp_path / "y.safetensors"), "no type is given"),
        (lambda: onnx_cast.dequantize_file(checkpoint, tmp_path / "y"), "no type is given"),
        (lambda: onnx_cast.diff(checkpoint, checkpoint, tolerance=-1), "tolerance is -1"),
        (lambda: onnx_cast.diff(checkpoint, checkpoint, threads=0), "0 threads"),
        (lambda: onnx_cast.bit_cast_file(checkpoint, tmp_path / "y.safetensors", "int8"), "int8"),
        (lambda: cast(threads=-1), "-1 threads"),
        (lambda: cast(fail_on=["loss"]), "`loss`"),
        (lambda: cast(external_data="y"), "`external_data` is for models"),
        (lambda: cast(from_="float16"), "float16"),
        (lambda: cast(from_="float", shape=[-1]), "dimension -1"),
        (lambda: onnx_cast.fold(checkpoint, tmp_path / "y.onnx"), "in.safetensors"),
    ]:
        with pytest.raises(CastError, match=text):
            call()
    with pytest.raises(TypeError, match="include is a str"):
        onnx_cast.cast_file(checkpoint, tmp_path / "y.safetensors", "int8", include="*")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.safetensors"]


@pytest.fixture
def large(tmp_path):
    """A file of 4 GiB without content, which takes no room, and more time than an interruption."""
    path = tmp_path / "large.npy"
    np.lib.format.open_memmap(path, "w+", np.float32, (1 << 30,))
    return path


def test_what_progress_raises_ends_the_work(large, tmp_path):
    path, out = large, tmp_path / "out.npy"
    out.write_bytes(b"as it was")

    def stop(done, total):
        raise KeyError(done, total)

    with pytest.raises(KeyError):
        onnx_cast.cast_file(path, out, "float16", progress=stop, force=True)
    assert out.read_bytes() == b"as it was"
    assert sorted(os.listdir(tmp_path)) == ["large.npy", "out.npy"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no interval timers")
def test_a_signal_ends_the_work(large, tmp_path):
    class Stop(Exception):
        pass

    def stop(*_):
        raise Stop

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(Stop):
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            onnx_cast.cast_file(large, tmp_path / "out.npy", "float16")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert [path.name for path in tmp_path.iterdir()] == ["large.npy"]


def test_the_constants_of_a_model_are_cast(tmp_path):
    weights = {"w": np.linspace(-3, 3, 300, dtype=np.float32), "b": np.ones(300, np.float32), "i": np.arange(300)}
    node = helper.make_node("Add", ["w", "b"], ["y"])
    info = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [300])]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    opset = [helper.make_opsetid("", 13)]
    model = helper.make_model(helper.make_graph([node], "g", [], info, constants), opset_imports=opset, ir_version=8)
    onnx.save(model, tmp_path / "in.onnx")
    told = []
    cast = lambda *given, **options: onnx_cast.cast_file(tmp_path / "in.onnx", tmp_path / "out.onnx", *given, **options)
    plan = cast("float16", rules={"b": None}, dry_run=True)
    assert not (tmp_path / "out.onnx").exists()
    done = cast("float16", rules={"b": None}, progress=lambda *state: told.append(state))
    assert [row._replace(alarms=None) for row in done] == plan
    assert [(row.name, row.after.name) for row in plan if row.cast] == [("w", "float16")]
    # The bytes of input: the elements of `w` are twice as wide there.
    assert told[-1][0] == told[-1][1] == (tmp_path / "out.onnx").stat().st_size + 2 * weights["w"].size
    (stored,) = (one for one in onnx.load(tmp_path / "out.onnx").graph.initializer if one.data_type == TensorProto.FLOAT16)
    same(onnx.numpy_helper.to_array(stored), weights["w"].astype(np.float16))
    with pytest.raises(FileExistsError, match="`force`"):
        cast("float8e4m3fn", raise_opset=True)
    with pytest.raises(CastError, match="opset"):
        cast("float8e4m3fn", force=True)
    assert cast("float8e4m3fn", raise_opset=True, force=True)[0].after.name == "float8e4m3fn"
    assert not any(row.cast for row in cast("float16", min_elements=301, force=True))
    with pytest.raises(CastError, match="not for models"):
        cast("float16", opset=21, force=True)
    np.save(tmp_path / "x.npy", weights["w"])
    with pytest.warns(UserWarning, match="^`raise_opset` has no effect: it is for models"):
        done = onnx_cast.cast_file(tmp_path / "x.npy", tmp_path / "y.npy", "int8", raise_opset=True)
    assert done.ignored == [("raise_opset", "is for models (.onnx to .onnx)")]


def test_the_opset_of_a_model_is_raised(tmp_path):
    nodes = [helper.make_node("Squeeze", ["x"], ["y"], name="flat", axes=[0])]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 2]), ("y", [2]))]
    graph = helper.make_graph(nodes, "g", info[:1], info[1:])
    src, dst = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6), src)
    done = onnx_cast.upgrade_model(src, dst, dry_run=True)
    assert not dst.exists() and (done.before, done.after, done.nodes) == (11, 21, 1)
    (row,) = done.rewritten
    assert row[:5] == ("", "node `flat` (Squeeze)", "Squeeze", 11, 21) and row.what == ["`axes` is an input"]
    assert onnx_cast.upgrade_model(src, dst) == done
    raised = onnx.load(dst)
    onnx.checker.check_model(raised, full_check=True)
    assert raised.opset_import[0].version == 21 and not raised.graph.node[0].attribute
    # Once more changes nothing.
    again = onnx_cast.upgrade_model(dst, tmp_path / "again.onnx")
    assert not again.rewritten and (tmp_path / "again.onnx").read_bytes() == dst.read_bytes()
    lower = onnx_cast.upgrade_model(dst, tmp_path / "older.onnx", opset=18, ir_version=8)
    assert (lower.before, lower.after, lower.ir_before, lower.ir_after) == (21, 18, 10, 8)
    assert onnx.load(tmp_path / "older.onnx").ir_version == 8
    with pytest.raises(CastError, match="cannot have ir_version 9: opset 21 needs 10"):
        onnx_cast.upgrade_model(dst, tmp_path / "refused.onnx", ir_version=9)
    with pytest.raises(CastError, match="opset 29 is unknown"):
        onnx_cast.upgrade_model(dst, tmp_path / "newer.onnx", opset=29)
    with pytest.raises(FileExistsError, match="exists"):
        onnx_cast.upgrade_model(src, dst)


def test_a_model_is_folded(tmp_path):
    weights = onnx.numpy_helper.from_array(np.array([1.5, 2.5], np.float16), "w")
    nodes = [helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT), helper.make_node("Add", ["x", "v"], ["y"])]
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    model = helper.make_model(
        helper.make_graph(nodes, "g", info[:1], info[1:], [weights]),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    onnx.save(model, tmp_path / "in.onnx")
    told = []
    folding = onnx_cast.fold(tmp_path / "in.onnx", tmp_path / "out.onnx", progress=lambda *state: told.append(state))
    assert folding.computed == 1
    # The bytes of input: its two elements are half as wide.
    size = (tmp_path / "out.onnx").stat().st_size - 2 * 2
    assert told[-1] == (size, size)
    folded = onnx.load(tmp_path / "out.onnx")
    assert [node.op_type for node in folded.graph.node] == ["Add"]
    (constant,) = folded.graph.initializer
    same(onnx.numpy_helper.to_array(constant), np.array([1.5, 2.5], np.float32))


def test_integers_are_exact(tmp_path: Path) -> None:
    large = 2**53
    a, b = tmp_path / "a.npy", tmp_path / "b.npy"
    np.save(a, np.array([large + 1, -(2**63), 7]))
    np.save(b, np.array([large, -(2**63), 7]))
    [tensor] = onnx_cast.info(a, stats=True)
    assert tensor.values is not None
    assert (tensor.values.min, tensor.values.max) == (-(2**63), large + 1)
    assert isinstance(tensor.values.max, int)
    [difference] = onnx_cast.diff(a, b, tolerance=0)
    assert (difference.count, difference.largest) == (1, 1)
    assert isinstance(difference.largest, int)
    assert onnx_cast.diff(a, b, tolerance=1) == []
    assert onnx_cast.stats(np.array([large + 1]), "double").max_error == 1.0
