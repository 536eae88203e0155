"""Models converted to float16 and bfloat16: are they valid, do they run, and are they close to the float model?"""

import inspect
import os
import warnings

import examples
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_cast
from onnx_cast import _models, float16

FLOAT, FLOAT16, BFLOAT16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16


def value(name, shape, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model_of(nodes, inputs, outputs, constants, opset=21):
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def two_layers(rng, opset=21):
    """MatMul, Add, Relu, MatMul, Softmax."""
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], "first"),
        helper.make_node("Add", ["a", "b1"], ["b"], "bias"),
        helper.make_node("Relu", ["b"], ["c"], "relu"),
        helper.make_node("MatMul", ["c", "w2"], ["d"], "second"),
        helper.make_node("Softmax", ["d"], ["y"], "softmax"),
    ]
    constants = {
        "w1": rng.normal(0, 0.2, (64, 128)).astype(np.float32),
        "b1": rng.normal(0, 0.2, 128).astype(np.float32),
        "w2": rng.normal(0, 0.2, (128, 16)).astype(np.float32),
    }
    return model_of(nodes, [value("x", [None, 64])], [value("y", [None, 16])], constants, opset)


@pytest.fixture
def x(rng):
    return rng.normal(0, 1, (4, 64)).astype(np.float32)


def run(model, **inputs):
    """The outputs, of a valid model, unoptimized and optimized, which are close."""
    if isinstance(model, onnx.ModelProto):
        onnx.checker.check_model(model, full_check=True)
        model = model.SerializeToString()
    else:
        onnx.checker.check_model(model, full_check=True)
    results = []
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
        results.append([np.asarray(y, np.float32) for y in session.run(None, inputs)])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-2)
    return results[0]


def types(model):
    """The types of initializers."""
    return {tensor.name: tensor.data_type for tensor in model.graph.initializer}


def ports(model):
    return [one.type.tensor_type.elem_type for one in (*model.graph.input, *model.graph.output)]


def casts(model):
    return sum(node.op_type == "Cast" for node in model.graph.node)


def close(model, other, **inputs):
    for one, two in zip(run(model, **inputs), run(other, **inputs), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-2 * np.abs(one).max())


def test_a_model_in_memory_becomes_another(rng, x):
    model = two_layers(rng)
    before = model.SerializeToString()
    half = onnx_cast.convert_model(model).model
    assert model.SerializeToString() == before and type(half) is onnx.ModelProto
    assert types(half) == dict.fromkeys(["w1", "b1", "w2"], FLOAT16)
    assert (ports(half), casts(half)) == ([FLOAT, FLOAT], 2)  # x down, and d up to the Softmax
    close(model, half, x=x)
    assert onnx_cast.convert_model(half).model.SerializeToString() == half.SerializeToString()


def test_a_file_becomes_the_same_model_as_in_memory(rng, tmp_path):
    model = two_layers(rng)
    onnx.save(model, tmp_path / "in.onnx")
    done = onnx_cast.convert_model(tmp_path / "in.onnx", tmp_path / "out.onnx")
    assert onnx.load(tmp_path / "out.onnx") == onnx_cast.convert_model(model).model
    assert (done.to, done.casts, done.constants, done.constants_twice) == (onnx_cast.dtypes.float16, 2, 3, 0)
    low = {row.node: str(row.dtype) for row in done.nodes}
    assert low == {"first": "float16", "bias": "float16", "relu": "float16", "second": "float16", "softmax": "float"}
    assert [row.why for row in done.nodes if row.node == "softmax"] == ["sensitive: a sum of exponentials"]
    assert {row.name for row in done.values if row.cast} == {"x", "d"}
    assert (done.explained, done.clamped) == ([], [])


def test_external_data_beside_a_file(rng, x, tmp_path):
    model = two_layers(rng)
    where = {"save_as_external_data": True, "location": "in.data", "size_threshold": 16}
    onnx.save(onnx.ModelProto.FromString(model.SerializeToString()), tmp_path / "in.onnx", **where)
    onnx_cast.convert_model(tmp_path / "in.onnx", tmp_path / "out.onnx")
    assert (tmp_path / "out.onnx.data").stat().st_size < (tmp_path / "in.data").stat().st_size
    want = onnx_cast.convert_model(model).model
    np.testing.assert_array_equal(run(os.fspath(tmp_path / "out.onnx"), x=x), run(want, x=x))
    assert onnx_cast.convert_model(onnx.load(tmp_path / "in.onnx")).model == want

    absent = onnx.load(tmp_path / "in.onnx", load_external_data=False)
    with pytest.raises(onnx_cast.CastError, match=r"tensor `w1`: .*`base_dir` names it"):
        onnx_cast.convert_model(absent)
    with pytest.raises(onnx_cast.CastError, match=r"tensor `w1`: .*`base_dir` names it"):
        onnx_cast.convert_float_to_float16(absent)
    found = onnx_cast.convert_model(absent, base_dir=tmp_path).model
    np.testing.assert_array_equal(run(found, x=x), run(want, x=x))
    assert all(tensor.data_location == 1 for tensor in absent.graph.initializer)

    onnx.save(model, tmp_path / "in.onnx")
    onnx_cast.convert_model(
        tmp_path / "in.onnx", tmp_path / "beside.onnx", external_data="w.bin", external_threshold=1000
    )
    stored = onnx.load(tmp_path / "beside.onnx", load_external_data=False).graph.initializer
    assert {tensor.name: tensor.data_location for tensor in stored} == {"w1": 1, "b1": 0, "w2": 1}


def test_constants_of_nodes_and_branches(rng):
    inner = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.full((8, 8), 0.5, np.float32)))
    then = helper.make_graph([inner, helper.make_node("MatMul", ["x", "k"], ["t"])], "then", [], [value("t", None)])
    other = helper.make_graph([helper.make_node("Relu", ["x"], ["e"])], "else", [], [value("e", None)])
    nodes = [helper.make_node("If", ["c"], ["y"], "if", then_branch=then, else_branch=other)]
    inputs = [value("c", [], TensorProto.BOOL), value("x", [None, 8])]
    model = model_of(nodes, inputs, [value("y", [None, 8])], {})
    half, x = onnx_cast.convert_model(model).model, rng.normal(0, 1, (2, 8)).astype(np.float32)
    assert onnx_cast.info(half)[0].dtype == onnx_cast.dtypes.float16 and len(onnx_cast.info(half)) == 1
    for condition in (True, False):
        close(model, half, x=x, c=np.array(condition))


def test_inputs_and_outputs_get_the_types_that_are_asked_for(rng, x):
    model = two_layers(rng)
    half = onnx_cast.convert_model(model, io="low").model
    assert ports(half) == [FLOAT16, FLOAT16]
    np.testing.assert_allclose(run(half, x=x.astype(np.float16))[0], run(model, x=x)[0], atol=1e-2)
    assert ports(onnx_cast.convert_model(model, io={"x": "float16"}).model) == [FLOAT16, FLOAT]
    assert ports(onnx_cast.convert_model(model, io=["low", {"x": np.float32}]).model) == [FLOAT, FLOAT16]
    unknown = r"`z` is not a floating-point input or output .* \(did you mean `x`\?\)"
    with pytest.raises(onnx_cast.CastError, match=unknown):
        onnx_cast.convert_model(model, io={"z": "float16"})
    with pytest.raises(onnx_cast.CastError, match="io is 'float16'"):
        onnx_cast.convert_model(model, io="float16")


def test_nodes_stay_float_or_become_narrow_as_asked(rng, x, tmp_path):
    model = two_layers(rng)

    def narrow(**options):
        done = onnx_cast.convert_model(model, dry_run=True, **options)
        return {row.node for row in done.nodes if str(row.dtype) == "float16"}

    every = {"first", "bias", "relu", "second", "softmax"}
    assert narrow() == every - {"softmax"}
    assert narrow(keep="none") == every
    assert narrow(keep=["first", "Softmax"]) == every - {"first", "softmax"}
    assert narrow(keep=["MatMul"]) == set()
    assert narrow(keep=("MatMul",), low="r*") == {"bias", "relu"}  # as few Casts, and more that is narrow
    # What exceeds float16 with the margin keeps those that give and read it float.
    assert narrow(ranges={"a": 20000}) == every - {"first", "bias", "softmax"}
    assert narrow(ranges={"a": 20000}, margin=2) == every - {"softmax"}
    (tmp_path / "ranges.json").write_text('{"a": 20000, "nothing": 1}')
    assert narrow(ranges=tmp_path / "ranges.json") == every - {"first", "bias", "softmax"}
    assert onnx_cast.convert_model(model, ranges=tmp_path / "ranges.json", dry_run=True).unknown_ranges == 1
    close(model, onnx_cast.convert_model(model, keep=["first"], ranges={"c": np.float32(1e9)}).model, x=x)


@pytest.mark.parametrize("option, value", [("margin", 2.0), ("tolerance", 0.1), ("seed", 1), ("max_runs", 8)])
def test_options_of_what_is_not_given_are_warned_of(rng, option, value):
    model = two_layers(rng)
    with pytest.warns(UserWarning, match=f"^`{option}` has no effect: it is for ") as told:
        done = onnx_cast.convert_model(model, **{option: value})
    assert [name for name, why in done.ignored] == [option]
    assert [one.filename for one in told] == [__file__]
    assert onnx_cast.convert_model(model, margin=2, ranges={"a": 1}).ignored == []


def test_a_pattern_that_matches_no_node_is_an_error(rng):
    model = two_layers(rng)
    for options, message in [
        ({"keep": ["first", "Sofmax"]}, r"`keep` `Sofmax` matches no node \(did you mean `Softmax`\?\)$"),
        ({"low": "re:^decoder"}, "`low` `re:.decoder` matches no node$"),
        ({"keep": ["decoder/*"], "raise_opset": True}, r"`keep` `decoder/\*` matches no node$"),
        ({"explain": ["sofmax"]}, r"named `sofmax` \(did you mean `softmax`\?\)$"),
    ]:
        with pytest.raises(onnx_cast.CastError, match=message):
            onnx_cast.convert_model(model, **options)
    # The lists of the drop-in name operators that few models have.
    half = onnx_cast.convert_float_to_float16(model, op_block_list=["Sofmax"], node_block_list=["decoder"])
    assert half == onnx_cast.convert_float_to_float16(model)


def test_bfloat16_is_stored_and_emulated(rng, x):
    model = two_layers(rng)
    narrow = onnx_cast.convert_model(model, to="bfloat16").model
    onnx.checker.check_model(narrow, full_check=True)
    assert types(narrow)["w1"] == BFLOAT16
    for to in ("bfloat16", "float16", "float8e4m3fn"):
        rounded = onnx_cast.convert_model(model, to=to, emulate=True).model
        assert set(types(rounded).values()) == {FLOAT} and ports(rounded) == [FLOAT, FLOAT]
        (got,), (want,) = run(rounded, x=x), run(model, x=x)
        assert 0 < np.abs(got - want).max() < (0.25 if to == "float8e4m3fn" else 0.02)


def test_the_opset_is_raised_where_more_operators_take_the_type(rng, x, tmp_path):
    model = two_layers(rng, opset=12)
    onnx.save(model, tmp_path / "in.onnx")
    assert onnx_cast.convert_model(model, to="bfloat16", dry_run=True).raise_to >= 13
    raised = onnx_cast.convert_model(model, to="bfloat16", raise_opset=True).model
    onnx.checker.check_model(raised, full_check=True)
    assert raised.opset_import[0].version >= 13 and types(raised)["w1"] == BFLOAT16
    onnx_cast.convert_model(tmp_path / "in.onnx", tmp_path / "out.onnx", to="bfloat16", raise_opset=True)
    assert onnx.load(tmp_path / "out.onnx") == raised


def test_a_dry_run_and_explanations_write_nothing(rng, tmp_path):
    model = two_layers(rng)
    onnx.save(model, tmp_path / "in.onnx")
    by_path = onnx_cast.convert_model(tmp_path / "in.onnx", dry_run=True)
    assert by_path == onnx_cast.convert_model(model, dry_run=True) and by_path.casts == 2
    for given in (model, tmp_path / "in.onnx"):
        done = onnx_cast.convert_model(given, explain=["softmax", "d"])
        assert [text.splitlines()[0] for text in done.explained][1] == "value `d`: float16: fast in the type"
        assert "sensitive: a sum of exponentials" in done.explained[0]
    with pytest.raises(onnx_cast.CastError, match="named `nothing`"):
        onnx_cast.convert_model(model, explain=["nothing"])
    assert os.listdir(tmp_path) == ["in.onnx"]
    onnx_cast.convert_model(tmp_path / "in.onnx", tmp_path / "out.onnx")
    with pytest.raises(FileExistsError, match="out.onnx"):
        onnx_cast.convert_model(tmp_path / "in.onnx", tmp_path / "out.onnx")


def test_constants_that_overflow_keep_their_readers_float(rng):
    for size in (64, 512):  # read before the conversion, and counted in it
        w = rng.normal(0, 1, (size, size)).astype(np.float32)
        w[3, 5] = 1e6
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "big")]
        model = model_of(nodes, [value("x", [1, size])], [value("y", [1, size])], {"w": w})
        assert onnx_cast.convert_model(model).model == model
        done = onnx_cast.convert_model(model, dry_run=True)
        assert done.nodes[0].why == "the constant `w` would overflow or vanish"


def test_recorded_ranges_keep_what_would_overflow_float(rng, x, tmp_path):
    onnx.save(two_layers(rng), tmp_path / "in.onnx")
    recorded = onnx_cast.record_model(tmp_path / "in.onnx", tmp_path / "recording.onnx")
    assert set(recorded.outputs) == {"x", "a", "b", "c", "d", "y"} and recorded.inner == 0
    session = onnxruntime.InferenceSession(str(tmp_path / "recording.onnx"), providers=["CPUExecutionProvider"])
    names = list(recorded.outputs.values())
    found = session.run(names, {"x": x * np.float32(1e5)})
    np.savez(tmp_path / "ranges.npz", **dict(zip(names, found, strict=True)))
    done = onnx_cast.convert_model(tmp_path / "in.onnx", ranges=tmp_path / "ranges.npz", dry_run=True)
    assert {node.node: str(node.dtype) for node in done.nodes}["first"] == "float"
    assert next(node.why for node in done.nodes if node.node == "first").startswith("values up to")


def test_the_opset_is_raised_where_asked(rng):
    made = onnx_cast.convert_model(two_layers(rng, opset=11), to="bfloat16", raise_opset=True).model
    onnx.checker.check_model(made, full_check=True)
    assert made.opset_import[0].version == 13 and made.graph.initializer[0].data_type == BFLOAT16
    assert onnx_cast.convert_model(two_layers(rng, opset=11), to="bfloat16", dry_run=True).casts == 0


def test_progress_is_told_and_may_end_the_work(rng, tmp_path):
    model, seen = two_layers(rng), []
    onnx_cast.convert_model(model, progress=lambda *given: seen.append(given), threads=1)
    assert all(done <= total for done, total in seen)

    def stop(done, total):
        raise KeyboardInterrupt

    large = {"w": np.zeros((1 << 24,), np.float32)}
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [1])], [value("y", None)], large)
    with pytest.raises(KeyboardInterrupt):
        onnx_cast.convert_model(model, keep="none", io="low", progress=stop)


def test_what_is_wrong_is_told(rng, tmp_path, monkeypatch):
    model, error = two_layers(rng), onnx_cast.CastError
    with pytest.raises(error, match="float16 or bfloat16, not to int8"):
        onnx_cast.convert_model(model, to="int8")
    with pytest.raises(error, match="not to float8e5m2"):
        onnx_cast.convert_model(model, to="float8e5m2")
    with pytest.raises(TypeError, match="model is of type int"):
        onnx_cast.convert_model(3)
    with pytest.raises(TypeError, match="output is missing"):
        onnx_cast.convert_model(tmp_path / "in.onnx")
    with pytest.raises(TypeError, match="external_data is for the path of a model"):
        onnx_cast.convert_model(model, external_data="w.bin")
    with pytest.raises(TypeError, match="base_dir is for a ModelProto"):
        onnx_cast.convert_model(tmp_path / "in.onnx", tmp_path / "out.onnx", base_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match="ranges.npz"):
        onnx_cast.convert_model(model, ranges="ranges.npz")
    with pytest.raises(FileNotFoundError, match="in.onnx"):
        onnx_cast.convert_model(tmp_path / "in.onnx", tmp_path / "out.onnx")
    with pytest.raises(error, match="0 threads"):
        onnx_cast.convert_model(model, threads=0)
    with pytest.raises(error, match="model: "):
        onnx_cast.convert_model(onnx.ModelProto())
    monkeypatch.setattr(_models, "_MAX_MESSAGE", 1000)
    with pytest.raises(error, match=r"\d+ bytes, more than a protobuf message may hold .*path of the model"):
        onnx_cast.convert_model(model)


# What follows is the function that has onnxconverter-common's arguments.


def test_the_arguments_and_defaults_are_those_of_onnxconverter_common():
    parameters = inspect.signature(onnx_cast.convert_float_to_float16).parameters.values()
    assert [(one.name, one.default) for one in parameters if one.name != "model"] == [
        ("min_positive_val", 1e-7),
        ("max_finite_val", 1e4),
        ("keep_io_types", False),
        ("disable_shape_infer", False),
        ("op_block_list", None),
        ("node_block_list", None),
        ("check_fp16_ready", True),
    ]
    assert all(one.kind is one.POSITIONAL_OR_KEYWORD for one in parameters)
    assert float16.convert_float_to_float16 is onnx_cast.convert_float_to_float16


def test_the_drop_in_makes_inputs_and_outputs_float16(rng, x):
    model = two_layers(rng)
    before = model.SerializeToString()
    half = onnx_cast.convert_float_to_float16(model)
    assert model.SerializeToString() == before
    assert ports(half) == [FLOAT16, FLOAT16] and set(types(half).values()) == {FLOAT16}
    np.testing.assert_allclose(run(half, x=x.astype(np.float16))[0], run(model, x=x)[0], atol=1e-2)
    assert onnx_cast.convert_float_to_float16(model, disable_shape_infer=True) == half
    kept = onnx_cast.convert_float_to_float16(model, keep_io_types=True)
    assert ports(kept) == [FLOAT, FLOAT]
    close(model, kept, x=x)
    assert ports(onnx_cast.convert_float_to_float16(model, keep_io_types=["y"])) == [FLOAT16, FLOAT]


def scaled(factors):
    nodes = [helper.make_node("Mul", ["x", "k"], ["y"], "mul")]
    shape = [len(factors)]
    return model_of(nodes, [value("x", shape)], [value("y", shape)], {"k": np.array(factors, np.float32)})


def test_the_drop_in_clamps_constants_and_warns():
    factors = [1e-9, -1e-10, 0.0, -0.0, 0.5, 2e4, -1e6, np.inf, -np.inf, np.nan]
    with pytest.warns(UserWarning) as told:
        half = onnx_cast.convert_float_to_float16(scaled(factors))
    (k,) = half.graph.initializer
    want = np.array([1e-7, -1e-7, 0.0, -0.0, 0.5, 1e4, -1e4, np.inf, -np.inf, np.nan], np.float16)
    assert numpy_helper.to_array(k).view(np.uint16).tolist() == want.view(np.uint16).tolist()
    assert [str(one.message) for one in told] == [
        "the float32 number 20000.0 will be truncated to 10000.0 (constant `k`)",
        "the float32 number 9.999999717180685e-10 will be truncated to 1e-07 (constant `k`)",
        "the float32 number -1000000.0 will be truncated to -10000.0 (constant `k`)",
        "the float32 number -1.000000013351432e-10 will be truncated to -1e-07 (constant `k`)",
    ]
    assert all(one.filename == __file__ for one in told)

    with pytest.warns(UserWarning, match=r"1000000\.0 will be truncated to -65504\.0"):
        half = onnx_cast.convert_float_to_float16(scaled(factors), min_positive_val=0, max_finite_val=1e9)
    want = [-0.0, 0.5, 2e4, -65504.0]
    assert numpy_helper.to_array(half.graph.initializer[0])[3:7].tolist() == want
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        onnx_cast.convert_float_to_float16(scaled([1.0, -2.0, 0.0]))
    for least, greatest in ((2, 1), (-1, 1), (float("nan"), 1)):
        with pytest.raises(ValueError, match="cannot be clamped"):
            onnx_cast.convert_float_to_float16(scaled([1.0]), least, greatest)


def test_large_constants_are_clamped_too(rng):
    w = rng.normal(0, 1, (512, 512)).astype(np.float32)
    w[3, 5] = 1e6
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "big")]
    model = model_of(nodes, [value("x", [1, 512])], [value("y", [1, 512])], {"w": w})
    with pytest.warns(UserWarning, match=r"number 1000000\.0 will be truncated to 10000\.0"):
        half = onnx_cast.convert_float_to_float16(model)
    (stored,) = map(numpy_helper.to_array, half.graph.initializer)
    assert stored.dtype == np.float16 and stored.max() == 1e4


def test_a_constant_that_stays_float_is_not_clamped(rng):
    nodes = [helper.make_node("Max", ["x", "k"], ["y"], "max")]
    model = model_of(nodes, [value("x", [2])], [value("y", [2])], {"k": np.array([1e-12, 1e8], np.float32)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        half = onnx_cast.convert_float_to_float16(model)
    assert types(half) == {"k": FLOAT} and ports(half) == [FLOAT16, FLOAT16] and casts(half) == 2
    run(half, x=np.ones(2, np.float16))


def test_the_drop_in_heeds_its_block_lists(rng, x):
    model = two_layers(rng)

    def stored(**options):
        half = onnx_cast.convert_float_to_float16(model, **options)
        run(half, x=x.astype(np.float16))
        return {name for name, kind in types(half).items() if kind == FLOAT16}

    assert stored(op_block_list=[]) == {"w1", "b1", "w2"}
    assert stored(op_block_list=["MatMul"]) == set()  # Add and Relu alone are not worth a Cast
    assert stored(node_block_list=["second"]) == {"w1", "b1"}
    assert stored(node_block_list={"s*", "first"}) == {"b1", "w2"}  # a name, not a pattern
    assert stored(op_block_list=(*float16.DEFAULT_OP_BLOCK_LIST, "Add"), node_block_list=["first"]) == {"w2"}
    model.graph.node[0].name = "/layers.[0]/{a,b}*\\MatMul?"
    assert stored(node_block_list=[model.graph.node[0].name]) == {"b1", "w2"}
    for name in ("none", "sensitive", "re:first"):
        model.graph.node[0].name = name
        assert stored(node_block_list=[name]) == {"b1", "w2"}
    with pytest.raises(TypeError, match="op_block_list is a str"):
        onnx_cast.convert_float_to_float16(model, op_block_list="MatMul")


def test_a_model_of_float16_is_told_and_may_be_converted_again(rng):
    half = onnx_cast.convert_float_to_float16(two_layers(rng))
    with pytest.raises(ValueError, match="already converted to float16.*check_fp16_ready=False"):
        onnx_cast.convert_float_to_float16(half)
    assert onnx_cast.convert_float_to_float16(half, check_fp16_ready=False) == half
    with pytest.raises(ValueError, match="Expected model type is an ONNX ModelProto but got"):
        onnx_cast.convert_float_to_float16("model.onnx")


def test_the_examples_of_the_manual_run(rng, x, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model = two_layers(rng)
    next(node for node in model.graph.node if node.name == "second").name = "decoder/second"
    onnx.save(model, "model.onnx")
    np.savez("inputs.npz", x=x)
    names = {}
    for _, code in examples.of("docs/precision.md"):
        exec(code, names)
    counts, compared = capsys.readouterr().out.splitlines()
    assert counts == "2 Casts, 3 constants stored in float16"
    assert compared.startswith("y: error ") and compared.endswith("e-04 of the largest magnitude, 0 NaN")
