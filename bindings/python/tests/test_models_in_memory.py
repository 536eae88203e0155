"""Models in memory: every function that takes the path of a model takes a ModelProto, and does the same with it."""

import inspect

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_cast
from onnx_cast import CastError, _models


def model_of(nodes, constants, opset=21):
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, None])
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "layers", [value("x")], [value("y")], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.fixture
def model(rng):
    """Two layers, and a Cast that changes nothing."""
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], "cast", to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["a", "w1"], ["b"], "first"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], "second"),
    ]
    weights = {name: rng.normal(0, 1, (64, 64)).astype(np.float32) for name in ("w1", "w2")}
    return model_of(nodes, weights)


@pytest.fixture
def path(model, tmp_path):
    onnx.save(model, tmp_path / "in.onnx")
    return tmp_path / "in.onnx"


def converted(src, dst=None, **options):
    """What a conversion gives, as the other jobs give it."""
    done = onnx_cast.convert_model(src, dst, **options)
    return done if done.model is None else done.model


JOBS = {
    "cast": (onnx_cast.cast_file, {"to": "bf16", "exclude": ["w2"]}),
    "quantize": (onnx_cast.quantize_file, {"to": "int8"}),
    "fold": (onnx_cast.fold, {}),
    "upgrade": (onnx_cast.upgrade_model, {"opset": 23}),
    "record": (onnx_cast.record_model, {"include": ["a"]}),
    "convert": (converted, {"to": "bf16"}),
}


@pytest.mark.parametrize("job", JOBS)
def test_a_model_becomes_what_its_file_becomes(job, model, path, tmp_path):
    function, options = JOBS[job]
    done = function(path, tmp_path / "out.onnx", **options)
    before = model.SerializeToString()
    result = function(model, **options)
    assert type(result) is onnx.ModelProto and model.SerializeToString() == before
    assert result == onnx.load(tmp_path / "out.onnx") and result != model
    assert function(model, tmp_path / "same.onnx", **options) == done
    assert (tmp_path / "same.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()
    assert function(model, dry_run=True, **options) == function(path, dry_run=True, **options)


def test_quantized_weights_become_plain_again(model, path, tmp_path):
    quantized = onnx_cast.quantize_file(model, to="int8")
    plain = onnx_cast.dequantize_file(quantized, to="float")
    assert [node.op_type for node in plain.graph.node] == ["Cast", "MatMul", "MatMul"]
    onnx_cast.quantize_file(path, tmp_path / "q.onnx", "int8")
    onnx_cast.dequantize_file(tmp_path / "q.onnx", tmp_path / "plain.onnx", "float")
    assert plain == onnx.load(tmp_path / "plain.onnx")


def test_models_are_listed_compared_and_measured(model, path):
    found = onnx_cast.info(model, stats=True, types=True)
    same = onnx_cast.info(path, stats=True, types=True)
    assert found == same and (found.model, found.format, found.files) == (same.model, "onnx", 1)
    other = onnx_cast.cast_file(model, to="bf16", exclude=["w2"])
    assert onnx_cast.diff(model, path) == [] == onnx_cast.diff(path, model)
    want = [("w1", "only in a"), ("w1_bfloat16", "only in b"), ("node w1_cast", "only in b")]
    for pair in ((model, other), (path, other)):
        assert [(row.name, row.difference) for row in onnx_cast.diff(*pair)] == want
    report = onnx_cast.report(model, ["bf16"])
    assert report.to_dict()["tensors"] == onnx_cast.report(path, ["bf16"]).to_dict()["tensors"]
    assert "layers" in report._repr_html_()


def test_external_data_is_read_where_base_dir_says(model, tmp_path):
    stored = onnx.ModelProto.FromString(model.SerializeToString())
    where = {"save_as_external_data": True, "location": "in.data", "size_threshold": 16}
    onnx.save(stored, tmp_path / "in.onnx", **where)
    absent = onnx.load(tmp_path / "in.onnx", load_external_data=False)
    for function, options in JOBS.values():
        with pytest.raises(CastError, match=r"model: tensor `w1`: its elements are in another file.*`base_dir` names it"):
            function(absent, **options)
        assert function(absent, base_dir=tmp_path, **options) == function(model, **options)
    assert all(tensor.data_location == TensorProto.EXTERNAL for tensor in absent.graph.initializer)
    assert onnx_cast.info(absent, base_dir=tmp_path) == onnx_cast.info(model)
    assert onnx_cast.diff(model, absent, base_dir=tmp_path) == []
    assert onnx_cast.report(absent, "bf16", base_dir=tmp_path).verdicts == onnx_cast.report(model, "bf16").verdicts
    with pytest.raises(FileNotFoundError, match="in.data"):
        onnx_cast.fold(absent, base_dir=tmp_path / "elsewhere")
    # To a file, elements stay beside the model, and none are in memory.
    onnx_cast.convert_model(absent, tmp_path / "out.onnx", base_dir=tmp_path)
    assert (tmp_path / "out.onnx.data").stat().st_size == (tmp_path / "in.data").stat().st_size // 2
    onnx_cast.cast_file(model, tmp_path / "cast.onnx", "bf16", external_data="w.bin")
    assert (tmp_path / "w.bin").stat().st_size == 2 * 64 * 64 * 2


def test_what_a_summary_warns_of_is_a_warning(rng):
    large = np.full((64, 64), 1e6, np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("MatMul", ["a", "v"], ["y"])]
    model = model_of(nodes, {"w": large, "v": rng.normal(0, 1, (64, 100)).astype(np.float32)})
    with pytest.warns(UserWarning, match="overflowed") as told:
        onnx_cast.cast_file(model, to="float16")
    assert [one.filename for one in told] == [__file__]
    assert "overflowed" in onnx_cast.cast_file(model, to="float16", dry_run=True, losses=True).warning
    with pytest.warns(UserWarning, match="onnxruntime has no CPU kernel"):
        onnx_cast.quantize_file(model, to="mxfp8", raise_opset=True)
    with pytest.raises(onnx_cast.LossError):
        onnx_cast.cast_file(model, to="float16", fail_on=["overflow"])


def test_what_does_not_fit_is_told(model, path, tmp_path, monkeypatch):
    for function in (onnx_cast.bit_cast_file, onnx_cast.transcode_file):
        with pytest.raises(CastError, match="takes no model"):
            function(model, tmp_path / "out.onnx", "gguf" if function is onnx_cast.transcode_file else "int32")
    with pytest.raises(CastError, match="bf16: a model is written to a file whose name ends in .onnx"):
        onnx_cast.cast_file(model, "bf16", "bf16")
    for function, options in JOBS.values():
        with pytest.raises(TypeError, match=r"(dst|output) is missing"):
            function(path, **options)
        with pytest.raises(TypeError, match="base_dir is for a ModelProto"):
            function(path, tmp_path / "out.onnx", base_dir=tmp_path, **options)
        with pytest.raises(TypeError, match="external_data is for the path of a model"):
            function(model, external_data="w.bin", **options)
        with pytest.raises(TypeError, match="is of type GraphProto"):
            function(model.graph, **options)
        with pytest.raises(FileExistsError):
            function(model, path, **options)
        for source in (model, path):
            with pytest.raises(CastError, match=r"out\.npz: .*\.onnx|model becomes a model"):
                function(source, tmp_path / "out.npz", **options)
        with pytest.raises(CastError, match="model: "):
            function(onnx.ModelProto(), **options)
    for function in (onnx_cast.cast_file, onnx_cast.dequantize_file):
        with pytest.raises(CastError, match=r"no type is given \(want `to` or `rules`\)"):
            function(model)
    with pytest.raises(TypeError, match="path is of type int"):
        onnx_cast.info(3)
    with pytest.raises(TypeError, match="b is of type int"):
        onnx_cast.diff(model, 3)
    monkeypatch.setattr(_models, "_MAX_MESSAGE", 1000)
    for function, options in JOBS.values():
        with pytest.raises(CastError, match=r"\d+ bytes, more than a protobuf message may hold .*want the path of"):
            function(model, **options)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["in.onnx"]


def test_progress_may_end_the_work():
    large = {"w": np.zeros((1 << 12, 1 << 12), np.float32)}
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"])], large)

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        onnx_cast.cast_file(model, to="bf16", progress=stop)


def test_every_function_of_models_takes_them():
    """Functions with a first parameter for a path have `base_dir`, or refuse models."""
    paths = {"src", "model", "path", "a", "x"}
    without = {"bit_cast_file", "transcode_file", "convert_float_to_float16"}
    for name in onnx_cast.__all__:
        thing = getattr(onnx_cast, name)
        if not inspect.isfunction(thing):
            continue
        parameters = inspect.signature(thing).parameters
        if next(iter(parameters), None) in paths and "progress" in parameters and name not in without:
            assert "base_dir" in parameters, name
