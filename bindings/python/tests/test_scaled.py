"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and the block formats, beside onnx's own evaluator and
onnxruntime where they have them."""

import ml_dtypes
import numpy as np
import onnx_cast
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_cast import CastError, reference

RNG = np.random.default_rng(17)
X = (RNG.standard_normal((6, 70)) * 3).astype(np.float32)


def evaluator(op_type, attributes, inputs, **kwargs):
    """A model of one node."""
    names = [f"i{k}" for k in range(len(inputs))]
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
        for name, one in zip(names, inputs)
    ]
    node = helper.make_node(op_type, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    return ReferenceEvaluator(model, **kwargs).run(None, dict(zip(names, inputs)))[0]


GRANULARITIES = [
    ((), {}),
    ((70,), {"axis": -1}),
    ((6,), {"axis": 0}),
    ((6, 3), {"block_size": 32}),
    ((2, 70), {"block_size": 4, "axis": 0}),
]


@pytest.mark.parametrize(("shape", "attributes"), GRANULARITIES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int4", "uint4", "float8e4m3fn", "float8e5m2"])
def test_as_the_reference_evaluator(shape, attributes, dtype):
    scale = np.asarray(RNG.uniform(0.01, 0.2, shape), np.float32)
    y = onnx_cast.quantize_linear(X, scale, output_dtype=dtype, **attributes)
    number = getattr(TensorProto, dtype.upper())
    want = evaluator("QuantizeLinear", {"output_dtype": number, **attributes}, [X, scale])
    np.testing.assert_array_equal(y.view(np.uint8), want.view(np.uint8))
    back = onnx_cast.dequantize_linear(y, scale, **attributes)
    np.testing.assert_array_equal(back, evaluator("DequantizeLinear", attributes, [y, scale]))
    replaced = evaluator("QuantizeLinear", {"output_dtype": number, **attributes}, [X, scale], new_ops=reference.ops)
    np.testing.assert_array_equal(replaced.view(np.uint8), y.view(np.uint8))


def test_zero_points_have_the_type_of_the_result():
    zero = np.array(-3, ml_dtypes.int4)
    y = onnx_cast.quantize_linear(X, 1.5, zero)
    assert y.dtype == ml_dtypes.int4
    np.testing.assert_array_equal(y.astype(int), np.clip(np.rint(X / np.float32(1.5)) - 3, -8, 7))
    np.testing.assert_array_equal(
        onnx_cast.dequantize_linear(y, 1.5, zero), (y.astype(np.float32) + 3) * np.float32(1.5)
    )
    assert onnx_cast.quantize_linear(X, 1.5, 7, output_dtype="int8").dtype == np.int8
    packed = onnx_cast.quantize_linear(X, 1.5, zero, packed=True)
    np.testing.assert_array_equal(packed, onnx_cast.pack(y))


def test_out_and_strides():
    out = np.empty(X.T.shape, np.int8)
    y = onnx_cast.quantize_linear(X.T, 0.1, output_dtype="int8", out=out)
    assert y is out
    np.testing.assert_array_equal(out, onnx_cast.quantize_linear(X, 0.1, output_dtype="int8").T)


def test_what_does_not_fit():
    with pytest.raises(CastError, match=r"a scale of shape \[5\] for an input of shape \[6, 70\]"):
        onnx_cast.quantize_linear(X, np.ones(5, np.float32))
    with pytest.raises(CastError, match="QuantizeLinear-13 has no attribute `block_size`"):
        onnx_cast.quantize_linear(X, np.ones((6, 3), np.float32), block_size=32, opset=13)
    with pytest.raises(CastError, match="needs the attribute `output_dtype`"):
        onnx_cast.dequantize_linear(np.zeros(4, np.int8), np.ones((), ml_dtypes.float8_e8m0fnu))
    with pytest.raises(CastError, match="does not take float64 as values|does not take double as values"):
        onnx_cast.quantize_linear(X.astype(float), 1.0)
    with pytest.raises(CastError, match="block format `mxfp5` is not known"):
        onnx_cast.quantize(X, "mxfp5")
    with pytest.raises(CastError, match="scale rule `up` is not known"):
        onnx_cast.quantize(X, "mxfp4", rule="up")


def test_dynamic_quantize_linear_is_the_reference_evaluators():
    y, scale, zero_point = onnx_cast.dynamic_quantize_linear(X)
    low, high = min(X.min(), 0), max(X.max(), 0)
    assert scale == np.float32((high - low) / np.float32(255))
    assert zero_point == np.clip(np.rint(-low / scale), 0, 255)
    np.testing.assert_array_equal(y, onnx_cast.quantize_linear(X, scale, zero_point))


@pytest.mark.parametrize("name", ["mxfp4", "mxfp8", "mxfp8e5m2", "mxfp6e2m3", "mxfp6e3m2", "mxint8"])
def test_block_formats_are_quantize_linear_with_their_scales(name):
    q = onnx_cast.quantize(X, name)
    assert q.scales.shape == (6, 3)
    assert q.scales.dtype == ml_dtypes.float8_e8m0fnu
    assert q.elements.shape == X.shape
    assert q.global_scale is None
    scale = q.scales.astype(np.float32)
    if name == "mxint8":
        wide = np.repeat(scale, 32, axis=1)[:, :70]
        np.testing.assert_array_equal(q.elements, np.clip(np.rint(X / wide * 64), -127, 127).astype(np.int8))
        np.testing.assert_array_equal(q.dequantize(), q.elements * wide / 64)
        return
    y = onnx_cast.quantize_linear(X, scale, output_dtype=q.elements.dtype, block_size=32)
    np.testing.assert_array_equal(q.elements.view(np.uint8), y.view(np.uint8))
    back = onnx_cast.dequantize_linear(y, q.scales, block_size=32, output_dtype="bfloat16")
    np.testing.assert_array_equal(q.dequantize("bfloat16").view(np.uint16), back.view(np.uint16))


@pytest.mark.parametrize("recipe", ["modelopt", "torchao", "compressed-tensors"])
def test_nvfp4(recipe):
    q = onnx_cast.quantize(X, "nvfp4", recipe=recipe)
    assert (q.scales.shape, q.scales.dtype) == ((6, 5), ml_dtypes.float8_e4m3fn)
    error = np.abs(q.dequantize() - X)
    assert error.max() < np.abs(X).max() / 6 + 1e-6
    assert 0 < np.sqrt((error**2).mean()) < 0.2 * np.sqrt((X**2).mean())
