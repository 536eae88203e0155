"""onnx's own interfaces: tensors, the backend's test cases, the reference evaluator."""

import unittest
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnx.backend.test
import pytest
from bitwise import bits, same
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnx_cast
from onnx_cast import CastError, backend, dtypes, reference

KNOWN = [one for one in dtypes.ALL if one.name.upper() in TensorProto.DataType.keys()]
NUMBERS = [one for one in KNOWN if one.kind not in ("string", "complex") and one.numpy is not None]
NEWEST = min(onnx.defs.onnx_opset_version(), 28)


def test_numbers_and_names_are_onnx_own():
    for one in KNOWN:
        assert TensorProto.DataType.Value(one.name.upper()) == one.number == one.onnx
        assert dtypes.of(one.number) is one is dtypes.of(one.name) is dtypes.of(one)
        if one.kind != "string" and one.numpy is not None:
            assert dtypes.of(one.numpy) is one


@pytest.mark.parametrize("to", NUMBERS, ids=str)
def test_tensor_protos_come_back_as_tensor_protos(to):
    x = np.array([[0.0, 1.0, -1.5], [3.0, 0.25, 2.0]], np.float32)
    want = onnx_cast.cast(x, to)
    for raw in (True, False):
        proto = helper.make_tensor("w", TensorProto.FLOAT, x.shape, x.tobytes() if raw else x, raw=raw)
        got = onnx_cast.cast(proto, to)
        assert (got.name, got.data_type, list(got.dims)) == ("w", to.number, [2, 3])
        assert got.raw_data == onnx_cast.cast(x, to, packed=True).tobytes()
        same(numpy_helper.to_array(got), want)
        back = numpy_helper.to_array(onnx_cast.cast(got, "double"))
        same(back, onnx_cast.cast(want, "double"))


def test_tensor_protos_of_strings():
    proto = numpy_helper.from_array(np.array(["1", "2.5"], object), "s")
    assert numpy_helper.to_array(onnx_cast.cast(proto, "float")).tolist() == [1, 2.5]
    back = onnx_cast.cast(onnx_cast.cast(proto, "float"), "string")
    assert list(back.string_data) == [b"1", b"2.5"] and back.data_type == TensorProto.STRING
    assert onnx_cast.cast_like(np.ones(2), proto).tolist() == ["1", "1"]


@pytest.mark.parametrize(
    "fields, text",
    [
        ({"data_type": 1, "dims": [2], "raw_data": b"123"}, "tensor `w`: 3 bytes for 2 float"),
        ({"data_type": 1, "dims": [-2], "raw_data": b"123"}, "dimension -2"),
        ({"data_type": 22, "dims": [1 << 62], "raw_data": b"123"}, "tensor `w`"),
        ({"data_type": 99, "dims": [2], "raw_data": b"123"}, "tensor `w`: data_type is 99, which is not an element type"),
        ({"data_type": 99, "dims": [0]}, "tensor `w`: data_type is 99, which is not an element type"),
        ({"data_type": 1, "dims": [1]}, "tensor `w`: no elements for shape .1,"),
        ({"data_type": 27, "dims": [1]}, "tensor `w`: no elements for shape .1,"),
        ({"data_type": 27, "dims": [2], "int32_data": [8]}, "tensor `w`: cannot reshape array of size 1"),
        ({"data_type": 1, "dims": [2], "float_data": [8]}, "tensor `w`: cannot reshape array of size 1"),
        ({"name": "", "data_type": 99}, "^data_type is 99"),
        ({"data_type": 8, "dims": [2], "string_data": [b"1"]}, "tensor `w`: 1 string"),
    ],
)
def test_tensor_protos_that_do_not_fit_are_errors(fields, text):
    with pytest.raises(CastError, match=text):
        onnx_cast.cast(TensorProto(**{"name": "w", **fields}), "double")


@pytest.mark.parametrize("to", [dtypes.float6e2m3, dtypes.float6e3m2], ids=str)
def test_tensor_protos_have_an_entry_for_each_element_of_float6(to):
    x = np.arange(-2, 4, dtype=np.float32).reshape(2, 3)
    codes = onnx_cast.cast(x, to).view(np.uint8)
    proto = TensorProto(data_type=to.number, dims=x.shape, int32_data=codes.ravel().tolist())
    same(numpy_helper.to_array(onnx_cast.cast(proto, "float")), x)


class Tested(backend.Backend):
    """Skips what is not made of casts: onnx's runner asks for that itself only of some cases."""

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        if not cls.is_compatible(model, device):
            raise unittest.SkipTest("not made of casts")
        return super().prepare(model, device, **kwargs)


# The real models are downloads, and none of them is made of casts.
with warnings.catch_warnings():  # of the cases, as onnx makes them
    warnings.simplefilter("ignore")
    _TESTS = onnx.backend.test.BackendTest(Tested, __name__)
for _pattern in ("OnnxBackendRealModelTest", "OnnxBackendSimpleModelTest", "OnnxBackendPyTorch"):
    _TESTS.exclude(_pattern)


def test_the_backend_passes_all_of_onnx_cases_of_casts():
    passed, skipped = [], []
    for case in _TESTS.test_cases.values():
        for name in (name for name in dir(case) if name.startswith("test_") and name.endswith("_cpu")):
            test = case(name)
            result = unittest.TestResult()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                test.run(result)
            assert not result.failures and not result.errors, (name, result.failures, result.errors)
            (skipped if result.skipped else passed).append(name)
    prefixes = ("test_cast_", "test_castlike_", "test_bitcast_", "test_quantizelinear", "test_dequantizelinear")
    prefixes = (*prefixes, "test_dynamicquantizelinear")
    # Its definition by ReduceMin, Div and others is not run here.
    expanded = [name for name in skipped if name.startswith("test_dynamic") and "_expanded" in name]
    casts = [name for name in (*passed, *skipped) if name.startswith(prefixes) and name not in expanded]
    assert len(casts) > 180 and set(casts) <= set(passed), sorted(set(casts) - set(passed))


def model(nodes, inputs, outputs, opset=NEWEST, initializers=()):
    info = [helper.make_tensor_value_info(name, kind, [None]) for name, kind in inputs]
    out = [helper.make_tensor_value_info(name, kind, [None]) for name, kind in outputs]
    graph = helper.make_graph(nodes, "casts", info, out, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


CHAIN = [
    helper.make_node("Cast", ["x"], ["a"], to=TensorProto.FLOAT8E5M2, saturate=0),
    helper.make_node("CastLike", ["a", "like"], ["b"]),
    helper.make_node("Constant", [], ["c"], value_strings=[b"1.5", b"2"]),
    helper.make_node("Cast", ["c"], ["d"], to=TensorProto.FLOAT16),
    helper.make_node("Identity", ["b"], ["e"]),
]


def test_backend_runs_models_of_casts():
    like = numpy_helper.from_array(np.zeros(1), "like")
    outputs = [("e", TensorProto.DOUBLE), ("d", TensorProto.FLOAT16)]
    chain = model(CHAIN, [("x", TensorProto.FLOAT)], outputs, 24, [like])
    x = np.array([1e9, 0.3, -0.0], np.float32)
    assert backend.is_compatible(chain) and backend.supports_device("CPU") and not backend.supports_device("CUDA:0")
    for inputs in ([x], {"x": x}, x):
        e, d = backend.prepare(chain).run(inputs)
        same(e, np.array([np.inf, 0.3125, -0.0]))
        same(d, np.array([1.5, 2], np.float16))
    assert backend.run_model(chain, [x])[1].tolist() == [1.5, 2]
    with pytest.raises(CastError, match="2 inputs for a model of 1"):
        backend.run_model(chain, [x, x])


def test_backend_refuses_what_is_not_a_cast():
    other = model([helper.make_node("Add", ["x", "x"], ["y"])], [("x", 1)], [("y", 1)])
    assert not backend.is_compatible(other)
    with pytest.raises(CastError, match="operator Add is unsupported"):
        backend.prepare(other)
    with pytest.raises(CastError, match="operator Add"):
        backend.run_node(other.graph.node[0], [np.ones(1)])
    old = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4)
    with pytest.raises(CastError, match="Cast-13 does not take int4"):
        backend.run_node(old, [np.ones(1)], opset_version=13)


def test_reference_ops_make_the_evaluator_exact():
    x = np.array([1 + 2**-11 + 2**-40, 65519.999999999])
    one = model([helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)], [("x", 11)], [("y", 16)], 24)
    twice = np.array([1 + 2**-8 + 2**-40])
    assert bits(ReferenceEvaluator(one).run(None, {"x": twice})[0]).tolist() == [0x3F80]  # rounded twice
    (got,) = ReferenceEvaluator(one, new_ops=list(reference.ops)).run(None, {"x": twice})
    assert got.dtype == ml_dtypes.bfloat16 and bits(got).tolist() == [0x3F81]
    like = numpy_helper.from_array(np.zeros(1), "like")
    chain = model(CHAIN, [("x", 1)], [("e", 11), ("d", 10)], 24, [like])
    (e, d) = ReferenceEvaluator(chain, new_ops=list(reference.ops)).run(None, {"x": x.astype(np.float32)})
    assert e.dtype == np.float64 and d.tolist() == [1.5, 2]


def test_reference_ops_resolve_the_attributes_of_functions():
    link = helper.make_node("Cast", ["x"], ["y"])
    link.attribute.append(onnx.AttributeProto(name="to", type=onnx.AttributeProto.INT, ref_attr_name="kind"))
    opsets = [helper.make_opsetid("", 24), helper.make_opsetid("my", 1)]
    function = helper.make_function("my", "To", ["x"], ["y"], [link], opsets[:1], ["kind"])
    node = helper.make_node("To", ["x"], ["y"], domain="my", kind=TensorProto.INT4)
    info = [helper.make_tensor_value_info(name, kind, [None]) for name, kind in (("x", 1), ("y", 22))]
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    whole = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)
    (got,) = ReferenceEvaluator(whole, new_ops=list(reference.ops)).run(None, {"x": np.array([2.5, 9], np.float32)})
    same(got, np.array([2, -7], ml_dtypes.int4))


def test_a_tensor_keeps_what_it_says_of_itself():
    tensor = numpy_helper.from_array(np.array([0.1, 2.0], np.float32), "w")
    tensor.doc_string = "the weights"
    if hasattr(tensor, "metadata_props"):
        tensor.metadata_props.add(key="from", value="training")
    for to in ("float16", "int4", "string"):
        got = onnx_cast.cast(tensor, to)
        assert (got.name, got.doc_string) == ("w", "the weights")
        assert [(pair.key, pair.value) for pair in getattr(got, "metadata_props", [])] == [
            (pair.key, pair.value) for pair in getattr(tensor, "metadata_props", [])
        ]
    tensor.ClearField("doc_string")
    assert not onnx_cast.cast(tensor, "float16").HasField("doc_string")


def test_a_device_that_is_not_supported_is_refused():
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16)
    x = np.ones(2, np.float32)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "g", infos[:1], infos[1:]))
    infos[1].type.tensor_type.elem_type = TensorProto.FLOAT16
    model.graph.output[0].CopyFrom(infos[1])
    for device in ("NOPE", "CUDA:0", ""):
        for run in (
            lambda: backend.prepare(model, device),
            lambda: backend.run_model(model, [x], device),
            lambda: backend.run_node(node, [x], device),
        ):
            with pytest.raises(onnx_cast.CastError, match=f"device is '{device}' .want 'CPU'"):
                run()
    assert backend.prepare(model, "CPU:0").run([x])[0].dtype == np.float16
