"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear and the block formats, beside onnx's own evaluator and
onnxruntime where they have them."""

import dataclasses
import sys
import threading
import time

import ml_dtypes
import numpy as np
import onnx_cast
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_cast import CastError, _native, reference

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
    with pytest.raises(CastError, match="QuantizeLinear-28 does not take double as a scale"):
        onnx_cast.quantize_linear(X, np.ones(70))
    with pytest.raises(CastError, match="DequantizeLinear-28 does not take double as a scale"):
        onnx_cast.dequantize_linear(np.zeros((2, 3), np.int8), np.ones(3))
    with pytest.raises(CastError, match=r"values of double \(want float, float16 or bfloat16\)"):
        onnx_cast.quantize_blocks(X.astype(float), "mxfp4")
    with pytest.raises(CastError, match="block format `mxfp5` is not known"):
        onnx_cast.quantize_blocks(X, "mxfp5")
    with pytest.raises(CastError, match="scale rule `up` is not known"):
        onnx_cast.quantize_blocks(X, "mxfp4", scale_rule="up")


def test_dynamic_quantize_linear_is_the_reference_evaluators():
    y, scale, zero_point = onnx_cast.dynamic_quantize_linear(X)
    low, high = min(X.min(), 0), max(X.max(), 0)
    assert scale == np.float32((high - low) / np.float32(255))
    assert zero_point == np.clip(np.rint(-low / scale), 0, 255)
    np.testing.assert_array_equal(y, onnx_cast.quantize_linear(X, scale, zero_point))


@pytest.mark.parametrize("name", ["mxfp4", "mxfp8", "mxfp8e5m2", "mxfp6e2m3", "mxfp6e3m2", "mxint8"])
def test_block_formats_are_quantize_linear_with_their_scales(name):
    q = onnx_cast.quantize_blocks(X, name)
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


SHAPES = [(), (0,), (5,), (3, 0), (1, 8193), (3, 9000), (2, 3, 40), (700, 33), (64, 4096), (1 << 21,), (300, 7001)]


@pytest.mark.parametrize("name", ["mxfp4", "mxfp8", "mxfp6e3m2", "mxint8", "nvfp4"])
def test_blocks_are_the_same_in_any_shape_and_on_any_threads(name):
    """Long tensors are worked on in pieces and tiles, whose ends must not show: each block is computed by itself here."""
    for shape in SHAPES:
        x = np.random.default_rng(len(shape)).standard_normal(shape, np.float32)
        q = onnx_cast.quantize_blocks(x, name)
        block = 16 if name == "nvfp4" else 32
        if x.size == 0:
            assert (q.elements.shape, q.scales.size, q.dequantize().shape) == (shape, 0, shape)
            continue
        rows = x.reshape(-1, x.shape[-1] if x.ndim else 1)
        padded = np.zeros((len(rows), -(-rows.shape[1] // block) * block), np.float32)
        padded[:, : rows.shape[1]] = rows
        most = np.abs(padded.reshape(-1, block)).max(axis=1)
        assert q.scales.size == most.size
        if name != "nvfp4":
            largest = {"mxfp4": 2, "mxfp8": 8, "mxfp6e3m2": 4, "mxint8": 0}[name]
            want = np.where(most > 0, np.exp2(np.floor(np.log2(np.where(most > 0, most, 1))) - largest), 2.0**-127)
            np.testing.assert_array_equal(q.scales.astype(np.float32).ravel(), want.astype(np.float32))
        scale = np.repeat(q.scales.astype(np.float32).reshape(len(rows), -1), block, axis=1)[:, : rows.shape[1]]
        scale = scale * np.float32(q.global_scale or 1) / (64 if name == "mxint8" else 1)
        values = (q.elements.astype(np.float32).reshape(rows.shape) * scale).reshape(shape)
        np.testing.assert_array_equal(q.dequantize(), values)
        one = onnx_cast.quantize_blocks(x, name, threads=1)
        for got, also in [(one.elements, q.elements), (one.scales, q.scales)]:
            np.testing.assert_array_equal(got.view(np.uint8), also.view(np.uint8))
        assert one.global_scale == q.global_scale
        np.testing.assert_array_equal(q.dequantize(threads=1), values)


@pytest.mark.parametrize("shape", [(5, 70), (3, 40, 33), (300, 700), (40, 9000)])
def test_blocks_of_elements_that_lie_elsewhere(shape):
    x = (np.random.default_rng(3).standard_normal(shape) * 3).astype(np.float32)
    others = [np.asfortranarray(x), x.astype(">f4"), np.repeat(x, 2, axis=-1)[..., ::2], x[::-1].copy()[::-1]]
    for name in ["mxfp4", "mxfp8", "nvfp4"]:
        want = onnx_cast.quantize_blocks(x, name)
        for other in others:
            got = onnx_cast.quantize_blocks(other, name)
            np.testing.assert_array_equal(got.elements.view(np.uint8), want.elements.view(np.uint8))
            np.testing.assert_array_equal(got.scales.view(np.uint8), want.scales.view(np.uint8))
            assert got.global_scale == want.global_scale


def test_blocks_are_written_to_out():
    q = onnx_cast.quantize_blocks(X, "nvfp4")
    want, elements, scales = onnx_cast.quantize_blocks(3 * X, "nvfp4"), q.elements, q.scales
    again = onnx_cast.quantize_blocks(3 * X, "nvfp4", out=q)
    assert again is q
    assert again.elements is elements
    assert again.scales is scales
    assert again.global_scale == want.global_scale
    recipe = onnx_cast.quantize_blocks(X, "nvfp4", recipe="torchao")
    onnx_cast.quantize_blocks(X, "nvfp4", recipe="torchao", out=q)
    assert (q.recipe, q.global_scale) == (recipe.recipe, recipe.global_scale)
    np.testing.assert_array_equal(q.dequantize(), recipe.dequantize())
    again = onnx_cast.quantize_blocks(3 * X, "nvfp4", out=q)
    np.testing.assert_array_equal(again.dequantize(), want.dequantize())
    out = np.empty(X.shape, ml_dtypes.bfloat16)
    assert again.dequantize("bfloat16", out=out) is out
    np.testing.assert_array_equal(out, want.dequantize("bfloat16"))
    with pytest.raises(TypeError, match=r"out is a ndarray \(want a Quantized\)"):
        onnx_cast.quantize_blocks(X, "nvfp4", out=out)
    with pytest.raises(CastError, match="out is of dtype"):
        onnx_cast.quantize_blocks(X, "mxfp4", out=q)
    with pytest.raises(CastError, match="out is of shape"):
        onnx_cast.quantize_blocks(X[:3], "nvfp4", out=q)
    with pytest.raises(CastError, match="out is of dtype bfloat16"):
        again.dequantize(out=out)
    memory = np.zeros(4 * X.size, np.uint8)
    elements = memory[: X.size].view(ml_dtypes.float8_e4m3fn).reshape(X.shape)
    q = dataclasses.replace(onnx_cast.quantize_blocks(X, "mxfp8"), elements=elements)
    with pytest.raises(CastError, match="out overlaps"):
        q.dequantize(out=memory.view(np.float32).reshape(X.shape))


def test_elements_and_scales_that_do_not_belong_together():
    q = onnx_cast.quantize_blocks(X, "mxfp4")
    with pytest.raises(CastError, match=r"scales of shape \[6, 2\] \(want \[6, 3\], for elements of \[6, 70\]\)"):
        dataclasses.replace(q, scales=q.scales[:, :2].copy()).dequantize()
    with pytest.raises(CastError, match="elements are of type float4e2m1"):
        dataclasses.replace(q, format="mxfp8").dequantize()


BLOCK_FORMATS = ["mxfp4", "mxfp8", "mxfp8e5m2", "mxfp6e2m3", "mxfp6e3m2", "mxint8", "nvfp4"]


@pytest.mark.parametrize("name", BLOCK_FORMATS)
def test_an_option_that_a_block_format_does_not_use_is_refused(name):
    plain = onnx_cast.quantize_blocks(X, name)
    explicit = onnx_cast.quantize_blocks(X, name, scale_rule="floor", recipe="modelopt")
    np.testing.assert_array_equal(explicit.elements.view(np.uint8), plain.elements.view(np.uint8))
    np.testing.assert_array_equal(explicit.scales.view(np.uint8), plain.scales.view(np.uint8))
    used, other = {"scale_rule": ["rceil", "ceil", "even"]}, {"recipe": ["torchao", "compressed-tensors"]}
    if name == "nvfp4":
        used, other = other, used
        said = "^a scale rule is for MX, whose scales are powers of two: nvfp4 has a recipe$"
    else:
        said = f"^a recipe is for nvfp4: {name} has a scale rule$"
    for option, values in used.items():
        for value in values:
            onnx_cast.quantize_blocks(X, name, **{option: value})
    for option, values in other.items():
        for value in values:
            with pytest.raises(CastError, match=said) as error:
                onnx_cast.quantize_blocks(X, name, **{option: value})
            assert (error.value.parameter, error.value.value) == (option, value)
    if name != "nvfp4":
        with pytest.raises(CastError, match=said):
            dataclasses.replace(plain, recipe="torchao").dequantize()


@pytest.mark.parametrize("recipe", ["modelopt", "torchao", "compressed-tensors"])
def test_nvfp4(recipe):
    q = onnx_cast.quantize_blocks(X, "nvfp4", recipe=recipe)
    assert (q.scales.shape, q.scales.dtype) == ((6, 5), ml_dtypes.float8_e4m3fn)
    error = np.abs(q.dequantize() - X)
    assert error.max() < np.abs(X).max() / 6 + 1e-6
    assert 0 < np.sqrt((error**2).mean()) < 0.2 * np.sqrt((X**2).mean())


@pytest.mark.parametrize(
    ("to", "zero", "want"),
    [
        ("int4", 20, "an integer from -8 to 7"),
        ("uint4", -1, "an integer from 0 to 15"),
        ("uint8", 300, "an integer from 0 to 255"),
        ("uint8", 1.9, "an integer from 0 to 255"),
        ("int8", float("nan"), "an integer from -128 to 127"),
        ("int16", float("inf"), "an integer from -32768 to 32767"),
        ("int8", 2**80, "an integer from -128 to 127"),
        ("int2", 2, "an integer from -2 to 1"),
        ("float8e4m3fn", 0.3, "a number that the type has"),
        ("float8e4m3fn", 1e6, "a number that the type has"),
    ],
)
def test_a_number_that_the_type_lacks_is_no_zero_point(to, zero, want):
    said = f"^zero_point is .* \\(want {want}, for {to}\\)$"
    with pytest.raises(CastError, match=said):
        onnx_cast.quantize_linear(X, 0.1, zero, output_dtype=to)
    codes = onnx_cast.cast(np.ones(3, np.float32), to)
    with pytest.raises(CastError, match=said):
        onnx_cast.dequantize_linear(codes, 0.1, zero)


@pytest.mark.parametrize(("to", "zeros"), [("int4", [-8, 7, 3.0]), ("uint8", [0, 255]), ("uint16", [65535])])
def test_a_number_that_the_type_has_is_its_zero_point(to, zeros):
    for zero in zeros:
        typed = np.array(zero, onnx_cast.dtypes.of(to).numpy)
        got = onnx_cast.quantize_linear(X, 0.1, zero, output_dtype=to)
        np.testing.assert_array_equal(got, onnx_cast.quantize_linear(X, 0.1, typed))
        np.testing.assert_array_equal(
            onnx_cast.dequantize_linear(got, 0.1, zero), onnx_cast.dequantize_linear(got, 0.1, typed)
        )


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"threads": 0}, CastError, "0 threads .want 1 or more"),
        ({"threads": 1.5}, TypeError, "threads is 1.5 .want an integer"),
        ({"axis": 0.9}, TypeError, "axis is 0.9 .want an integer"),
        ({"axis": "1"}, TypeError, "axis is '1' .want an integer"),
        ({"axis": True}, TypeError, "axis is True .want an integer"),
        ({"axis": 2, "scale": np.ones(70, np.float32)}, CastError, "axis"),
        ({"axis": 2**70}, CastError, f"axis is {2**70} .want an integer of up to 64 bits"),
        ({"axis": -(2**70)}, CastError, f"axis is {-(2**70)} .want an integer of up to 64 bits"),
        ({"block_size": 2.5}, TypeError, "block_size is 2.5 .want an integer"),
        ({"block_size": -1}, CastError, "block_size"),
        ({"saturate": 2}, TypeError, "saturate is 2 .want True or False"),
        ({"saturate": "no"}, TypeError, "saturate is 'no' .want True or False"),
        ({"zero_point": True}, TypeError, "zero_point is of type bool .want a number, a list of numbers, a numpy array"),
        ({"scale": True}, TypeError, "scale is of type bool .want a number, a list of numbers, a numpy array"),
        ({"scale": 2**200}, CastError, "scale is too large"),
        ({"scale": [1, 2**200]}, CastError, "scale is too large"),
        ({"zero_point": ["1"]}, TypeError, "want numbers"),
        ({"zero_point": np.ma.array([1], mask=[True])}, TypeError, "zero_point is a masked array"),
        ({"scale": ["0.1"]}, TypeError, "want numbers"),
        ({"scale": True}, TypeError, "scale is of type bool"),
        ({"scale": np.ma.array([0.1], mask=[True])}, TypeError, "scale is a masked array"),
    ],
)
def test_parameters_of_another_kind_are_refused(options, error, said):
    given = {"scale": 0.1, **options}
    for run in (onnx_cast.quantize_linear, onnx_cast.dequantize_linear):
        if run is onnx_cast.dequantize_linear and "saturate" in options:
            continue
        x = X if run is onnx_cast.quantize_linear else np.zeros(X.shape, np.int8)
        with pytest.raises(error, match=said):
            run(x, **given)
    if "threads" in options:
        with pytest.raises(error, match=said):
            onnx_cast.quantize_blocks(X, "mxfp4", **options)


def test_numpys_integers_are_integers():
    scale = np.linspace(0.1, 1, 6, dtype=np.float32)
    want = onnx_cast.quantize_linear(X, scale, axis=0)
    np.testing.assert_array_equal(onnx_cast.quantize_linear(X, scale, axis=np.int64(0), saturate=np.True_), want)


def test_others_run_while_a_scale_is_found():
    """Another thread counts on meanwhile, which it could not while the interpreter's lock is held."""
    x, done, ticks = np.ones((4000, 4000), np.float32), threading.Event(), [0]

    def count():
        while not done.is_set():
            ticks[0] += 1
            time.sleep(0)

    thread, before = threading.Thread(target=count), sys.getswitchinterval()
    # No thread is made to give the lock up: it does so by itself.
    sys.setswitchinterval(1000)
    try:
        thread.start()
        while not ticks[0]:
            time.sleep(0.001)
        started = ticks[0]
        _native.dynamic_scale(x, None)
        seen = ticks[0] - started
    finally:
        sys.setswitchinterval(before)
        done.set()
        thread.join()
    assert seen > 0


def test_blocks_of_a_tensor_proto_are_tensor_protos():
    import onnx

    proto, want = onnx.numpy_helper.from_array(X, "w"), onnx_cast.quantize_blocks(X, "mxfp4")
    q = onnx_cast.quantize_blocks(proto, "mxfp4")
    assert (q.elements.name, q.scales.name, q.elements.raw_data) == ("w", "w_scale", onnx_cast.pack(want.elements).tobytes())
    assert q.dequantize().raw_data == want.dequantize().tobytes()
    names = [one.name for one in onnx_cast.dynamic_quantize_linear(proto)]
    assert names == ["w", "w_scale", "w_zero_point"]
