"""Do sessions of onnxruntime run our operators, and are the results the library's?"""

import numpy as np
import onnx
import onnxruntime
import pytest
from bitwise import bits
from onnx import TensorProto, helper

import onnx_cast
import onnx_cast.dtypes
import onnx_cast.onnxruntime as ours
from onnx_cast.onnxruntime import _custom_ops

NUMBERS = {name: number for name, number in TensorProto.DataType.items() if number}
# What onnxruntime has tensors of, and Cast takes; as the onnx package of the test run knows them.
TYPES = [name for name in NUMBERS if not name.startswith(("COMPLEX", "FLOAT6"))]
VALUES = np.array([0.0, -0.0, 1, -1, 0.3, -2.5, 5.75, 6.5, 447, 1e6, 65519.9999, -1e20, 1e-7, 2.0**-126, 3e300])


def value(name, type_name, shape=(None,)):
    return helper.make_tensor_value_info(name, NUMBERS[type_name], shape)


def cast(source, result, to, **attributes):
    return helper.make_node("Cast", [source], [result], to=NUMBERS[to], **attributes)


def model_of(nodes, inputs, outputs, opset=25, **more):
    graph = helper.make_graph(nodes, "casts", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10, **more)


def session_of(model, **options):
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    ours.register_custom_ops(settings)
    # onnxruntime may not know an opset as new as the model's, which our operators do not ask it for.
    for imported in model.opset_import:
        if imported.domain == "":
            imported.version = min(imported.version, 21)
    return onnxruntime.InferenceSession(model.SerializeToString(), settings, ["CPUExecutionProvider"])


def run(model, **feeds):
    return session_of(ours.use_in(model)).run(None, feeds)


def test_a_model_with_a_cast_to_float4():
    weights = np.array([[0.3, -1.0, 2.5], [100.0, -7.0, 0.0]], np.float32)
    nodes = [cast("x", "small", "FLOAT4E2M1"), cast("small", "y", "FLOAT")]
    model = model_of(nodes, [value("x", "FLOAT", ("n", 3))], [value("y", "FLOAT", ("n", 3))], opset=23)
    with pytest.raises(Exception, match="Cast|NOT_IMPLEMENTED|INVALID_GRAPH"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (got,) = run(model, x=weights)
    want = onnx_cast.cast(onnx_cast.cast(weights, "float4e2m1", opset=23), "float")
    assert got.shape == want.shape and (bits(got) == bits(want)).all()
    assert got.tolist() == [[0.5, -1.0, 2.0], [6.0, -6.0, 0.0]]


def test_every_pair_of_types_is_the_librarys():
    """Each value to the first type, and from there to the second; the results as double, or as text."""
    nodes, outputs, want = [], [], {}
    for first in TYPES:
        nodes.append(cast("x", first, first))
        source = onnx_cast.cast(VALUES, NUMBERS[first])
        for second in TYPES:
            name, shown = f"{first}_{second}", "STRING" if second == "DOUBLE" else "DOUBLE"
            try:
                expected = onnx_cast.cast(onnx_cast.cast(source, NUMBERS[second]), NUMBERS[shown])
            except onnx_cast.CastError:
                # A text that is not a number of the second type.
                assert first == "STRING"
                continue
            nodes += [cast(first, name, second), cast(name, f"{name}_shown", shown)]
            outputs.append(value(f"{name}_shown", shown))
            want[name] = expected
    assert len(want) > len(TYPES) * (len(TYPES) - 1)
    got = run(model_of(nodes, [value("x", "DOUBLE")], outputs), x=VALUES)
    for (name, expected), result in zip(want.items(), got, strict=True):
        if result.dtype == object:
            assert result.tolist() == expected.tolist(), name
        else:
            assert (bits(result) == bits(expected)).all(), (name, result, expected)


def test_a_cast_is_rounded_once():
    between = np.array([1 + 2.0**-11 + 2.0**-40])
    model = model_of([cast("x", "y", "FLOAT16")], [value("x", "DOUBLE")], [value("y", "FLOAT16")])
    assert bits(run(model, x=between)[0]).tolist() == [0x3C01]
    # And there and back: onnxruntime takes its own two casts away.
    back = model_of(
        [cast("x", "h", "FLOAT"), cast("h", "y", "DOUBLE")], [value("x", "DOUBLE")], [value("y", "DOUBLE")], opset=21
    )
    assert run(back, x=np.array([0.3])) == [[np.float64(np.float32(0.3))]]


def test_attributes_and_the_models_opset():
    def result(opset, to, **attributes):
        nodes = [cast("x", "small", to, **attributes), helper.make_node("BitCast", ["small"], ["y"], to=NUMBERS["UINT8"])]
        model = ours.use_in(model_of(nodes[:1], [value("x", "FLOAT")], [value("y", "UINT8")], opset))
        # There is no BitCast at such an opset, but ours.
        nodes[1].op_type, nodes[1].domain = "ExactBitCast", ours.DOMAIN
        model.graph.node.append(nodes[1])
        return session_of(model).run(None, {"x": np.array([1000.0, np.inf, 3.0], np.float32)})[0].tolist()

    assert result(19, "FLOAT8E4M3FNUZ") == [0x7F, 0x80, 0x4C]
    assert result(24, "FLOAT8E4M3FNUZ") == [0x7F, 0x7F, 0x4C]
    assert result(24, "FLOAT8E4M3FN", saturate=0) == [0x7F, 0x7F, 0x44]
    assert result(24, "FLOAT8E8M0", round_mode="down") == [136, 254, 128]
    assert result(24, "FLOAT8E8M0") == [137, 254, 129]


def test_cast_like_and_bit_cast():
    nodes = [
        cast("x", "like", "FLOAT4E2M1"),
        helper.make_node("CastLike", ["x", "like"], ["small"]),
        cast("small", "a", "DOUBLE"),
        helper.make_node("BitCast", ["x"], ["b"], to=NUMBERS["INT32"]),
        helper.make_node("BitCast", ["raw"], ["truth"], to=NUMBERS["BOOL"]),
        helper.make_node("BitCast", ["truth"], ["c"], to=NUMBERS["UINT8"]),
    ]
    outputs = [value("a", "DOUBLE"), value("b", "INT32"), value("c", "UINT8")]
    x = np.array([0.4, -9.0], np.float32)
    model = model_of(nodes, [value("x", "FLOAT"), value("raw", "UINT8")], outputs, opset=26)
    a, b, c = run(model, x=x, raw=np.array([0, 2, 255], np.uint8))
    assert a.tolist() == [0.5, -6.0]
    assert b.tolist() == x.view(np.int32).tolist()
    assert c.tolist() == [0, 2, 255]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3, 5)])
def test_shapes(shape):
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    for known in (shape, [None] * len(shape), None):
        model = model_of([cast("x", "y", "INT8")], [value("x", "FLOAT", known)], [value("y", "INT8", known)])
        (y,) = run(model, x=x)
        assert y.dtype == np.int8 and y.shape == shape and y.tolist() == x.astype(np.int8).tolist()


FLOATS = ["FLOAT", "FLOAT16", "BFLOAT16"]
INTEGERS = ["INT8", "UINT8", "INT16", "UINT16", "INT4", "UINT4", "INT2", "UINT2"]
SMALL_FLOATS = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"]


def quantize(inputs, result, **attributes):
    return helper.make_node("QuantizeLinear", inputs, [result], **attributes)


def dequantize(inputs, result, **attributes):
    return helper.make_node("DequantizeLinear", inputs, [result], **attributes)


def quantized(quotient, type_name):
    """What the quotients are as a type, in double."""
    if type_name in SMALL_FLOATS:
        return onnx_cast.cast(onnx_cast.cast(quotient, NUMBERS[type_name]), "double")
    bits_of, signed = int(type_name.lstrip("UINT")), not type_name.startswith("U")
    lowest = -(2 ** (bits_of - 1)) if signed else 0
    # The zero point is added, so that -0 is 0.
    return np.clip(np.rint(quotient) + 0.0, lowest, lowest + 2**bits_of - 1)


def test_a_model_with_a_scale_and_float4():
    x, scale = np.array([[0.3, -1.0, 2.5], [100.0, -7.0, 0.0]], np.float32), np.array([0.25, 10], np.float32)
    nodes = [
        quantize(["x", "scale"], "small", axis=0, output_dtype=NUMBERS["FLOAT4E2M1"]),
        dequantize(["small", "scale"], "y", axis=0),
    ]
    inputs = [value("x", "FLOAT", ("n", 3)), value("scale", "FLOAT", ("n",))]
    model = model_of(nodes, inputs, [value("y", "FLOAT", ("n", 3))], opset=23)
    (got,) = run(model, x=x, scale=scale)
    assert got.tolist() == [[0.25, -1.0, 1.5], [60.0, -5.0, 0.0]]


def test_every_combination_of_types_with_a_scale():
    """Small integers by a scale of 2, which every type holds, to each type and back to each type."""
    x = np.array([0, 1, -1, 2, 3, 5, -7, 9, 64, -64], np.float32)
    nodes = [cast("x", f"x_{name}", name) for name in [*FLOATS, "INT32"]]
    nodes += [cast("scale", f"scale_{name}", name) for name in [*FLOATS, "INT32", "FLOAT8E8M0"]]
    outputs, want = [], []

    def show(name, expected):
        nodes.append(cast(name, f"{name}_shown", "DOUBLE"))
        outputs.append(value(f"{name}_shown", "DOUBLE"))
        want.append(expected)

    for to in INTEGERS + SMALL_FLOATS:
        small = quantized(x / 2, to)
        for source in [*FLOATS, "INT32"]:
            for scale in [*FLOATS, "INT32", "FLOAT8E8M0"]:
                name = f"{source}_{scale}_{to}"
                nodes.append(quantize([f"x_{source}", f"scale_{scale}"], name, output_dtype=NUMBERS[to]))
                show(name, small)
        for scale in [*FLOATS, "FLOAT8E8M0"]:
            for back in FLOATS:
                name = f"{to}_{scale}_{back}"
                inputs = [f"FLOAT_FLOAT_{to}", f"scale_{scale}"]
                nodes.append(dequantize(inputs, name, output_dtype=NUMBERS[back]))
                show(name, small * 2)
    for scale in [*FLOATS, "FLOAT8E8M0"]:
        nodes.append(dequantize(["x_INT32", f"scale_{scale}"], f"INT32_{scale}", output_dtype=NUMBERS["FLOAT"]))
        show(f"INT32_{scale}", x.astype(float) * 2)
    model = model_of(nodes, [value("x", "FLOAT"), value("scale", "FLOAT", ())], outputs)
    results = run(model, x=x, scale=np.array(2, np.float32))
    assert len(results) == 13 * (4 * 5 + 4 * 3) + 4
    for output, expected, result in zip(outputs, want, results, strict=True):
        assert (bits(result) == bits(np.asarray(expected, np.float64))).all(), (output.name, result, expected)


def test_a_quotient_is_exact_and_the_edges_saturate():
    x = np.array([np.inf, -np.inf, np.nan, 3e9, -3e9, 0.7, 2.5], np.float32)
    scale, zero_point = np.array([0.1, 0.3], np.float32), np.array([-3, 5], np.int8)
    inputs = [value("x", "FLOAT", (2, None)), value("scale", "FLOAT"), value("zero", "INT8")]
    nodes = [quantize(["x", "scale", "zero"], "small", axis=0), dequantize(["small", "scale", "zero"], "y", axis=0)]
    model = model_of(nodes, inputs, [value("small", "INT8", (2, None)), value("y", "FLOAT", (2, None))], opset=13)
    small, y = run(model, x=np.stack([x, x]), scale=scale, zero=zero_point)
    assert small.tolist() == [[127, -128, -128, 127, -128, 4, 22], [127, -128, -128, 127, -128, 7, 13]]
    difference = small.astype(np.float32) - zero_point[:, None].astype(np.float32)
    assert (bits(y) == bits(difference * scale[:, None])).all()


def test_blocks_and_no_zero_point():
    x = np.arange(-7, 8, dtype=np.float32).reshape(3, 5)
    scale = np.array([[1, 0.5, 2], [4, 1, 1], [0.5, 2, 8]], np.float32)
    inputs = [value("x", "FLOAT", (3, 5)), value("scale", "FLOAT", (3, 3))]
    # An input without a name is missing.
    nodes = [quantize(["x", "scale", ""], "y", axis=-1, block_size=2, output_dtype=NUMBERS["INT16"])]
    (y,) = run(model_of(nodes, inputs, [value("y", "INT16", (3, 5))], 21), x=x, scale=scale)
    want = np.rint(x / np.repeat(scale, 2, axis=1)[:, :5])
    assert y.tolist() == want.astype(int).tolist()
    # Neither a zero point nor output_dtype: uint8.
    nodes = [quantize(["x", "scale"], "y", axis=1, block_size=2)]
    (y,) = run(model_of(nodes, inputs, [value("y", "UINT8")], 21), x=x, scale=scale)
    assert y.dtype == np.uint8 and y.tolist() == want.clip(0, 255).astype(int).tolist()
    with pytest.raises(Exception, match=r"a scale of shape \[3, 3\] for an input of shape \[3, 5\]"):
        run(model_of([quantize(["x", "scale"], "y", axis=0)], inputs, [value("y", "UINT8")], 21), x=x, scale=scale)


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"axis": "0"}, "attribute `axis` is not of kind INT"),
        ({"axis": 1, "opset": 10}, "QuantizeLinear-10 has no attribute `axis`"),
        ({"block_size": -1}, "`block_size` is -1"),
        ({"output_dtype": 99}, "`output_dtype` is 99, which is"),
        ({"precision": 99}, "`precision` is 99, which is not an element type"),
        ({"opset": 9}, "opset 9 has no QuantizeLinear known here"),
    ],
)
def test_bad_nodes_with_a_scale_are_refused(attributes, text):
    node = helper.make_node("ExactQuantizeLinear", ["x", "scale"], ["y"], domain=ours.DOMAIN, **attributes)
    model = model_of([node], [value("x", "FLOAT"), value("scale", "FLOAT", ())], [value("y", "UINT8")])
    model.opset_import.append(helper.make_opsetid(ours.DOMAIN, ours.VERSION))
    with pytest.raises(Exception, match=text):
        session_of(model)


def test_strings():
    nodes = [cast("x", "number", "BFLOAT16"), cast("number", "y", "STRING"), cast("x", "z", "STRING")]
    model = model_of(nodes, [value("x", "STRING")], [value("y", "STRING"), value("z", "STRING")])
    texts = np.array(["1e3", " -inf", "0.1", "NaN", "1e-40"], object)
    y, z = run(model, x=texts)
    assert y.tolist() == onnx_cast.cast(onnx_cast.cast(texts, "bfloat16"), "string").tolist()
    assert y.tolist()[:4] == ["1000", "-INF", "0.100097656", "NaN"]
    assert z.tolist() == texts.tolist()
    with pytest.raises(Exception, match='element 1: "two" is not a number \\(to bfloat16\\)'):
        run(model, x=np.array(["1", "two"], object))


def test_subgraphs_functions_and_where():
    then = helper.make_graph([cast("x", "t", "INT8")], "then", [], [value("t", "INT8")])
    other = helper.make_graph([cast("x", "e", "INT8")], "else", [], [value("e", "INT8")])
    function = helper.make_function(
        "mine", "Narrow", ["f"], ["g"], [cast("f", "g", "FLOAT16")], [helper.make_opsetid("", 19)]
    )
    nodes = [
        helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other),
        helper.make_node("Narrow", ["x"], ["h"], domain="mine"),
        cast("h", "z", "DOUBLE"),
    ]
    inputs, outputs = [value("x", "FLOAT"), value("c", "BOOL", ())], [value("y", "INT8"), value("z", "DOUBLE")]
    model = model_of(nodes, inputs, outputs, opset=19, functions=[function])
    model.opset_import.append(helper.make_opsetid("mine", 1))
    before = model.SerializeToString()
    used = ours.use_in(model)
    assert model.SerializeToString() == before
    onnx.checker.check_model(used)
    replaced = [node for node in _custom_ops._nodes_of(used.graph) if node.domain == ours.DOMAIN]
    assert len(replaced) == 4 and not used.functions
    # numpy's and onnxruntime's own Cast would wrap.
    y, z = session_of(used).run(None, {"x": np.array([300.0, -1.5], np.float32), "c": np.array(True)})
    assert y.tolist() == [127, -1] and z.tolist() == [300.0, -1.5]
    some = ours.use_in(model, lambda node: node.output[0] == "t")
    assert [node.output[0] for node in _custom_ops._nodes_of(some.graph) if node.domain == ours.DOMAIN] == ["t"]


def test_the_oldest_cast_names_its_target():
    node = helper.make_node("Cast", ["x"], ["y"], to="INT64")
    (y,) = run(model_of([node], [value("x", "FLOAT")], [value("y", "INT64")], opset=5), x=np.array([2.9], np.float32))
    assert y.tolist() == [2]


def test_what_onnxruntime_cannot_hold_stays():
    model = model_of([helper.make_node("Cast", ["x"], ["y"], to=27)], [value("x", "FLOAT")], [value("y", "FLOAT")], 28)
    assert ours.use_in(model).SerializeToString() == model.SerializeToString()


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"to": NUMBERS["INT8"], "saturate": "yes"}, "attribute `saturate` is not of kind INT"),
        ({"to": NUMBERS["INT8"], "round_mode": 1}, "attribute `round_mode` is not of kind STRING"),
        ({"to": NUMBERS["INT8"], "round_mode": "sideways"}, "round_mode `sideways` is not known"),
        ({"to": NUMBERS["INT8"], "opset": 77}, "opset 77 has no Cast known here"),
        ({"to": NUMBERS["INT8"], "opset": 13, "saturate": 0}, "Cast-13 has no attribute `saturate`"),
    ],
)
def test_bad_nodes_are_refused(attributes, text):
    node = helper.make_node("ExactCast", ["x"], ["y"], domain=ours.DOMAIN, **attributes)
    model = model_of([node], [value("x", "FLOAT")], [value("y", "INT8")])
    model.opset_import.append(helper.make_opsetid(ours.DOMAIN, ours.VERSION))
    with pytest.raises(Exception, match=text):
        session_of(model)


def test_an_opset_without_an_attribute_takes_its_default():
    node = helper.make_node("ExactCast", ["x"], ["y"], domain=ours.DOMAIN, to=NUMBERS["INT8"], opset=13, saturate=1)
    model = model_of([node], [value("x", "FLOAT")], [value("y", "INT8")])
    model.opset_import.append(helper.make_opsetid(ours.DOMAIN, ours.VERSION))
    (y,) = session_of(model).run(None, {"x": np.array([2.9], np.float32)})
    assert y.tolist() == [2]


def provided(model, **options):
    settings = ours.session_options(**options)
    settings.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), settings)


def test_the_provider_runs_a_model_as_it_is():
    nodes = [cast("x", "small", "FLOAT4E2M1"), cast("small", "y", "FLOAT")]
    model = model_of(nodes, [value("x", "FLOAT")], [value("y", "FLOAT")], opset=23)
    session = provided(model)
    assert session.get_providers()[0] == ours.ep_name()
    assert session.run(None, {"x": np.array([0.3, -9, np.nan], np.float32)})[0].tolist() == [0.5, -6.0, 6.0]


def test_claims_and_constants():
    weights = np.array([1 + 2.0**-11 + 2.0**-40])
    nodes = [cast("w", "h", "FLOAT16"), helper.make_node("Add", ["h", "x"], ["y"])]
    model = model_of(nodes, [value("x", "FLOAT16")], [value("y", "FLOAT16")], opset=21)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    zero = np.zeros(1, np.float16)
    results = {
        (claim, fold): bits(provided(model, claim=claim, fold_constants=fold).run(None, {"x": zero})[0]).tolist()
        for claim in ("missing", "inexact", "all")
        for fold in (None, False, True)
    }
    # onnxruntime rounds twice, and does so whenever it folds.
    wrong = {key for key, got in results.items() if got == [0x3C00]}
    assert wrong == {key for key in results if key[0] == "missing" or key[1] is True}
    assert all(got in ([0x3C00], [0x3C01]) for got in results.values())
    with pytest.raises(ValueError, match="claim is 'most' \\(want one of 'missing', 'inexact', 'all'\\)"):
        ours.session_options("most")


def test_registering_twice_is_registering_once():
    ours.register()
    ours.register()
    assert [device.ep_name for device in onnxruntime.get_ep_devices()].count(ours.ep_name()) == 1


@pytest.mark.parametrize("name", [name for name in TYPES if name != "STRING"])
def test_tensors_of_every_type_come_back(name):
    array = onnx_cast.cast(np.array([[1.0, 0, 1], [0, 1, 1]]), NUMBERS[name])
    value = ours.to_ortvalue(array)
    assert value.shape() == [2, 3]
    back = ours.from_ortvalue(value)
    assert back.dtype == array.dtype and back.tobytes() == array.tobytes()
    packed = ours.from_ortvalue(value, packed=True)
    assert packed.nbytes == value.tensor_size_in_bytes()
    again = ours.to_ortvalue(packed, NUMBERS[name], (2, 3))
    assert ours.from_ortvalue(again, packed=True).tobytes() == packed.tobytes()


def test_tensors_that_cannot_be():
    with pytest.raises(TypeError, match="no tensors of float6e2m3"):
        ours.to_ortvalue(np.zeros(3, onnx_cast.dtypes.float6e2m3.numpy))
    with pytest.raises(TypeError, match="has no OrtValue of strings"):
        ours.to_ortvalue(np.array(["1"]))
    with pytest.raises(ValueError, match="2 bytes for shape \\(3,\\) of int16 \\(want 6\\)"):
        ours.to_ortvalue(b"12", "int16", (3,))
    with pytest.raises(ValueError, match="dtype and shape go together"):
        ours.to_ortvalue(b"12", "int16")


def test_values_of_the_other_byte_order_keep_their_value():
    for dtype in (np.float32, np.float16, np.int16, np.uint64, np.float64):
        array = np.array([[1, 2, 3], [4, 5, 300]], dtype)
        swapped = array.astype(array.dtype.newbyteorder(">"))
        value = ours.to_ortvalue(swapped)
        np.testing.assert_array_equal(ours.from_ortvalue(value), array)
        np.testing.assert_array_equal(ours.from_ortvalue(ours.to_ortvalue(swapped.T)), array.T)


def test_a_mask_is_not_dropped():
    for array in (np.ma.array([1.0, 2.0], mask=[False, True]), np.ma.masked):
        with pytest.raises(TypeError, match="array is a masked array"):
            ours.to_ortvalue(array)
