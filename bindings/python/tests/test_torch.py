"""torch's own machinery: its compiler, fake tensors, transforms and autograd see the casts as operators of torch's."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onnx_cast
from onnx_cast import CastError, dtypes

torch = pytest.importorskip("torch")
fake_tensor = pytest.importorskip("torch._subclasses.fake_tensor")

# Of torch's own making: its checks of gradients and its kinds of tensors that are to change.
TORCHS = ("The .grad attribute of a Tensor", "`torch.jit", "The PyTorch API of nested tensors")
pytestmark = [pytest.mark.filterwarnings(f"ignore:{text}") for text in TORCHS]

X = torch.from_numpy(np.random.default_rng(3).normal(size=(5, 3, 4)).astype(np.float32) * 4)
SCALES = torch.tensor([0.1, 0.2, 0.3, 0.4])

CALLS = {
    "a name": lambda x: onnx_cast.cast(x, "bfloat16"),
    "a type of torch's": lambda x: onnx_cast.cast(x, torch.float8_e4m3fn),
    "a type of numpy's": lambda x: onnx_cast.cast(x, np.int8),
    "a type of the table": lambda x: onnx_cast.cast(x, dtypes.float16),
    "a number": lambda x: onnx_cast.cast(x, 10),
    "attributes": lambda x: onnx_cast.cast(x, "float8e5m2", saturate=False, opset=19, threads=1),
    "a way to round": lambda x: onnx_cast.cast(x, "float8e8m0", round_mode="down"),
    "packed": lambda x: onnx_cast.cast(x, "int4", packed=True),
    "pairs": lambda x: onnx_cast.cast(x, "float4e2m1"),
    "pairs and back": lambda x: onnx_cast.cast(onnx_cast.cast(x, "float4e2m1"), "float16"),
    "cast_like": lambda x: onnx_cast.cast_like(x, torch.empty(0, dtype=torch.float16)),
    "bit_cast": lambda x: onnx_cast.bit_cast(x, "int32"),
    "quantize": lambda x: onnx_cast.quantize_linear(x, 0.05, output_dtype="int8"),
    "quantize to float8": lambda x: onnx_cast.quantize_linear(x, 0.05, output_dtype="float8e4m3fn", precision="float16"),
    "quantize packed": lambda x: onnx_cast.quantize_linear(x, 0.5, output_dtype="int4", packed=True),
    "a zero point": lambda x: onnx_cast.quantize_linear(x, 0.05, 3),
    "scales of an axis": lambda x: onnx_cast.quantize_linear(x, SCALES[: x.shape[-1]], axis=-1),
    "a list of scales": lambda x: onnx_cast.quantize_linear(x, [0.1] * 3, [1, 2, 3], axis=x.dim() - 2),
    "blocks": lambda x: onnx_cast.quantize_linear(x, torch.ones_like(x)[..., ::2], block_size=2, axis=-1),
    "dequantize": lambda x: onnx_cast.dequantize_linear(onnx_cast.cast(x, "int8"), 0.05),
    "dequantize to": lambda x: onnx_cast.dequantize_linear(onnx_cast.cast(x, "uint8"), 0.05, 3, output_dtype="float16"),
}


def bits(x):
    """What a tensor is, to the bit."""
    return x.dtype, tuple(x.shape), x.contiguous().reshape(-1).view(torch.uint8).tolist()


@pytest.mark.parametrize("name", CALLS)
def test_a_compiled_function_has_no_breaks_and_gives_the_same_bits(name):
    import onnx_cast.torch  # noqa: F401

    torch._dynamo.reset()
    x = X.abs() if name == "a way to round" else X
    compiled = torch.compile(CALLS[name], fullgraph=True, backend="aot_eager")
    for given in (x, x[:2], x[1:, :, :].contiguous()):
        assert bits(compiled(given)) == bits(CALLS[name](given))


def test_the_functions_of_the_module_are_those_of_the_package():
    import onnx_cast.torch

    names = {"bit_cast", "cast", "cast_like", "dequantize_linear", "quantize_linear"}
    assert set(onnx_cast.torch.__all__) == names
    assert all(getattr(onnx_cast.torch, name) is getattr(onnx_cast, name) for name in names)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_a_graph_cannot_have_breaks_it_and_is_done_as_ever(backend):
    import onnx_cast.torch  # noqa: F401

    torch._dynamo.reset()

    def compiled(function):
        return torch.compile(function, backend=backend)

    out = torch.empty(X.shape, dtype=torch.int8)
    assert compiled(lambda x: onnx_cast.cast(x, "int8", out=out))(X) is out
    assert compiled(lambda x: onnx_cast.cast(x, "string"))(X[0, 0]).tolist() == onnx_cast.cast(X[0, 0], "string").tolist()
    assert compiled(lambda x: onnx_cast.cast(x, "int8"))(X.numpy()).dtype == np.int8
    for call, text in [
        (lambda x: onnx_cast.cast(x, "nonsense"), "`nonsense` is not an element type"),
        (lambda x: onnx_cast.cast([1.0], "int8"), "x is of type list"),
        (lambda x: onnx_cast.cast(x, "int8", saturate=1), "saturate is 1"),
        (lambda x: onnx_cast.cast(x, "int4"), "packed=True"),
        (lambda x: onnx_cast.quantize_linear(x, 0.1, 1.5), "zero_point is 1.5"),
    ]:
        with pytest.raises((TypeError, CastError, RuntimeError), match=text):
            compiled(call)(X)


def test_a_compiled_function_takes_scales_of_any_value():
    import onnx_cast.torch  # noqa: F401

    torch._dynamo.reset()
    compiled = torch.compile(lambda x, s: onnx_cast.quantize_linear(x, s, 128), fullgraph=True, backend="aot_eager")
    for scale in (0.1, 0.2, 0.3, 0.4):
        assert bits(compiled(X, scale)) == bits(onnx_cast.quantize_linear(X, scale, 128))


#: Functions of a tensor and a number that differs from call to call.
NUMBERS = {
    "an integer scale": (X, lambda x, n: onnx_cast.quantize_linear(x, n, output_dtype="int8")),
    "a zero point": (X, lambda x, n: onnx_cast.quantize_linear(x, 0.1, n, output_dtype="uint8")),
    "both": (X.to(torch.int8), lambda x, n: onnx_cast.dequantize_linear(x, n, n)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_may_vary_or_come_from_a_shape(name):
    import onnx_cast.torch  # noqa: F401

    torch._dynamo.reset()
    x, call = NUMBERS[name]
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for number in (1, 2, 3, 100):
        assert bits(compiled(x, number)) == bits(call(x, number))

    class Model(torch.nn.Module):
        def forward(self, x):
            return call(x, x.shape[0])

    shapes = {"x": {0: torch.export.Dim("n", min=2, max=100)}}
    for made in (
        torch.compile(Model(), fullgraph=True, backend="aot_eager", dynamic=True),
        torch.export.export(Model(), (x,), dynamic_shapes=shapes, strict=False).module(),
        torch.export.export(Model(), (x,), dynamic_shapes=shapes, strict=True).module(),
        make_fx(Model(), tracing_mode="symbolic")(x),
    ):
        assert bits(made(x)) == bits(Model()(x)) and bits(made(x[:3])) == bits(Model()(x[:3]))


def test_numbers_out_of_range_are_refused_in_compiled_functions():
    import onnx_cast.torch  # noqa: F401

    torch._dynamo.reset()
    compiled = torch.compile(lambda x, n: onnx_cast.quantize_linear(x, 0.1, n, output_dtype="uint8"), backend="aot_eager")
    for number in (1, 2):
        assert bits(compiled(X, number)) == bits(onnx_cast.quantize_linear(X, 0.1, number))
    with pytest.raises(CastError, match="zero_point is 256 .want an integer from 0 to 255, for uint8"):
        compiled(X, 256)


def compiled(call, x):
    import onnx_cast.torch  # noqa: F401

    torch._dynamo.reset()
    return torch.compile(call, fullgraph=True, backend="aot_eager")(x)


#: Ways of torch's to run a call on a tensor.
WAYS = {
    "compiled": compiled,
    "vmap": lambda call, x: torch.func.vmap(call)(x[None])[0],
    "traced": lambda call, x: torch.jit.trace(call, (x,))(x),
}
SUBNORMAL = torch.tensor([1e-40, -2e-40, 3e-39])
SUBNORMAL_SCALES = {
    "quantize": (SUBNORMAL, lambda x: onnx_cast.quantize_linear(x, 1e-41, 1, output_dtype="uint8")),
    "a list": (SUBNORMAL, lambda x: onnx_cast.quantize_linear(x, [1e-41] * 3, axis=0, output_dtype="int8")),
    "dequantize": (torch.tensor([1, -2, 3], dtype=torch.int8), lambda x: onnx_cast.dequantize_linear(x, 1e-41)),
}


@pytest.mark.parametrize("name", SUBNORMAL_SCALES)
@pytest.mark.parametrize("way", WAYS)
def test_subnormal_scales_survive_torchs_flush_to_zero(way, name):
    x, call = SUBNORMAL_SCALES[name]
    want = bits(call(x))
    if not torch.set_flush_denormal(True):
        pytest.skip("torch cannot flush subnormals on this processor")
    try:
        assert bits(WAYS[way](call, x)) == want
    finally:
        torch.set_flush_denormal(False)


@pytest.mark.parametrize("imported", ["import onnx_cast, torch", "import torch, onnx_cast", "import onnx_cast.torch, torch"])
def test_a_compiler_that_does_not_know_the_casts_leaves_them_as_they_are(imported):
    code = f"""
import warnings
warnings.simplefilter("ignore")
{imported}
x, w = torch.arange(4.0), torch.ones(4, requires_grad=True)
step = torch.compile(lambda x: onnx_cast.cast(x * 2, "bfloat16") + 1, backend="eager")
assert step(x).tolist() == [1, 3, 5, 7] and step(x[1:]).tolist() == [3, 5, 7]
step(w).sum().backward()
assert w.grad.tolist() == [2] * 4
scaled = torch.compile(lambda x, s: onnx_cast.quantize_linear(x, s), backend="eager")
assert [scaled(x, s)[3].item() for s in (1.0, 0.5)] == [3, 6]
assert torch.compile(lambda x: onnx_cast.stats(x, "int8").values, backend="eager")(x) == 4
assert torch.compile(lambda x: onnx_cast.cast(x, "string"), backend="eager")(x).tolist() == ["0", "1", "2", "3"]
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_exported_program_has_the_operator():
    import onnx_cast.torch  # noqa: F401

    class Model(torch.nn.Module):
        def forward(self, x):
            return onnx_cast.cast(x * 2, "bfloat16")

    shapes = {"x": {0: torch.export.Dim("n")}}
    program = torch.export.export(Model(), (X,), dynamic_shapes=shapes)
    assert torch.ops.onnx_cast.cast.default in {node.target for node in program.graph.nodes}
    assert bits(program.module()(X[:3])) == bits(onnx_cast.cast(X[:3] * 2, "bfloat16"))


def operands():
    leaf = X[0].clone().requires_grad_()
    int8 = X.to(torch.int8)
    return [
        ("cast", X, "bfloat16"),
        ("cast", X.permute(2, 0, 1), "float8e4m3fn", False),
        ("cast", X[:0], "int8"),
        ("cast", torch.tensor(1.5), "bool"),
        ("cast", X, "int4", True, "up", None, True),
        ("cast", leaf, "float16"),
        ("cast", leaf, "float4e2m1"),
        ("cast_like", leaf, "double"),
        ("bit_cast", leaf, "int32"),
        ("quantize_linear", X, torch.tensor(0.1)),
        ("quantize_linear", leaf, SCALES, torch.zeros(4, dtype=torch.int8), -1),
        ("dequantize_linear", int8, torch.tensor(0.1)),
        ("dequantize_linear", int8, SCALES.to(torch.bfloat16), torch.zeros(4, dtype=torch.int8), 2),
    ]


@pytest.mark.parametrize("number", range(13))
def test_torch_finds_nothing_wrong_with_the_operators(number):
    onnx_cast.cast(torch.empty(1, device="meta"), "int8")  # by which they are there
    name, *given = operands()[number]
    found = torch.library.opcheck(getattr(torch.ops.onnx_cast, name).default, tuple(given))
    assert set(found.values()) == {"SUCCESS"}


def test_the_operators_are_those_that_exported_programs_hold():
    onnx_cast.cast(torch.empty(1, device="meta"), "int8")  # by which they are there
    cast = 'Tensor x, str to, bool saturate=True, str round_mode="up", int? opset=None, bool packed=False'
    scaled = "Tensor x, Tensor scale, Tensor? zero_point=None, int axis=1, int block_size=0, "
    want = dict.fromkeys(["cast", "cast_like", "bit_cast"], cast)
    want["quantize_linear"] = scaled + (
        "bool saturate=True, str? precision=None, str? output_dtype=None, int? opset=None, bool packed=False"
    )
    want["dequantize_linear"] = scaled + "str? output_dtype=None, int? opset=None"
    for name, given in want.items():
        schema = str(getattr(torch.ops.onnx_cast, name).default._schema)
        assert schema == f"onnx_cast::{name}({given}) -> Tensor"


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_vmap_casts_every_member(name, dim):
    x = X.movedim(0, dim)
    x = x.abs() if name == "a way to round" else x
    want = [bits(CALLS[name](one)) for one in x.unbind(dim)]
    got = torch.func.vmap(CALLS[name], in_dims=dim)(x)
    assert [bits(one) for one in got.unbind(0)] == want


def test_vmap_takes_scales_for_each_member_and_other_vmaps():
    scales = torch.arange(1, 6) * 0.05
    got = torch.func.vmap(lambda x, scale: onnx_cast.quantize_linear(x, scale, 128))(X, scales)
    assert all(bits(one) == bits(onnx_cast.quantize_linear(x, s, 128)) for one, x, s in zip(got, X, scales))
    got = torch.func.vmap(lambda scale: onnx_cast.quantize_linear(X, scale))(scales)
    assert all(bits(one) == bits(onnx_cast.quantize_linear(X, scale)) for one, scale in zip(got, scales))
    nested = torch.func.vmap(torch.func.vmap(CALLS["a name"], in_dims=1), in_dims=2)(X)
    assert bits(nested) == bits(onnx_cast.cast(X.permute(2, 1, 0), "bfloat16"))
    assert torch.func.vmap(CALLS["a name"])(X[:0]).shape == (0, 3, 4)
    for call in (lambda x: onnx_cast.cast(x, "string"), lambda x: onnx_cast.stats(x, "int8")):
        with pytest.raises(TypeError, match="of a transform of torch's"):
            torch.func.vmap(call)(X)


@pytest.mark.parametrize("name", CALLS)
def test_fake_tensors_and_those_of_the_meta_device_have_the_types_and_shapes_of_results(name):
    want = CALLS[name](X)
    with fake_tensor.FakeTensorMode() as mode:
        fake = mode.from_tensor(X)
        scales = mode.from_tensor(SCALES)
    for x in (fake, torch.empty_like(X, device="meta")):
        if name == "scales of an axis":
            got = onnx_cast.quantize_linear(x, scales if x is fake else SCALES.to("meta"), axis=-1)
        elif name == "blocks" and x is fake:
            continue
        else:
            got = CALLS[name](x) if name != "cast_like" else onnx_cast.cast_like(x, want)
        assert type(got) is type(x) and (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())


def test_fake_tensors_are_refused_as_others_are():
    with fake_tensor.FakeTensorMode():
        x, elsewhere = torch.empty(3), torch.empty(3, device="cuda")
        for call, text in [
            (lambda: onnx_cast.cast(x, "int4"), "packed=True"),
            (lambda: onnx_cast.cast(x, "float4e2m1"), "even last dimension"),
            (lambda: onnx_cast.cast(x, "float4e2m1", opset=19), "Cast-19"),
            (lambda: onnx_cast.bit_cast(x, "int8"), "float"),
            (lambda: onnx_cast.cast(elsewhere, "int8"), "on the device cuda"),
            (lambda: onnx_cast.cast(x, "string"), "which has no plain elements"),
            (lambda: onnx_cast.stats(x, "int8"), "which has no plain elements"),
        ]:
            with pytest.raises((TypeError, CastError), match=text):
                call()
    with pytest.raises(TypeError, match="on the device meta"):
        onnx_cast.cast(torch.empty(3, device="meta"), "int8", out=torch.empty(3, dtype=torch.int8))


def ones(*shape, dtype=torch.float32):
    return lambda device: torch.ones(shape, dtype=dtype, device=device)


X8, INT8 = ones(4, 8), ones(4, 8, dtype=torch.int8)

#: Calls that every kind of tensor refuses: the function, its tensors, and its options.
REFUSED = {
    "a scale of 3 for 4 rows": ("quantize", [X8, ones(3)], {"axis": 0, "output_dtype": "int8"}),
    "a scale of two dimensions": ("quantize", [X8, ones(4, 1)], {"axis": 0}),
    "an axis of another rank": ("quantize", [X8, ones(8)], {"axis": 2}),
    "an axis of nothing": ("quantize", [ones(), ones(4)], {}),
    "a negative block": ("quantize", [X8, ones(4, 2)], {"block_size": -4}),
    "a scale of other blocks": ("quantize", [X8, ones(4, 3)], {"block_size": 4}),
    "blocks of one scale": ("quantize", [X8, ones()], {"block_size": 4}),
    "a target that is a float": ("quantize", [X8, ones()], {"output_dtype": "float16"}),
    "a target of 64 bits": ("quantize", [X8, ones()], {"output_dtype": "int64"}),
    "a type beside the zero point's": ("quantize", [X8, ones(), ones(dtype=torch.int8)], {"output_dtype": "uint8"}),
    "values of double": ("quantize", [ones(4, dtype=torch.double), ones()], {}),
    "values of int8": ("quantize", [INT8, ones()], {}),
    "a scale of int8": ("quantize", [X8, ones(1, dtype=torch.int8)], {}),
    "a scale of complex": ("quantize", [X8, ones(1, dtype=torch.complex64)], {}),
    "a zero point of more scales": ("quantize", [X8, ones(), ones(4, dtype=torch.int8)], {}),
    "a zero point of fewer scales": ("quantize", [X8, ones(4), ones(1, dtype=torch.int8)], {"axis": 0}),
    "a precision of int8": ("quantize", [X8, ones()], {"precision": "int8"}),
    "an opset before the operator": ("quantize", [X8, ones()], {"opset": 9}),
    "an opset after the newest": ("quantize", [X8, ones()], {"opset": 99}),
    "an opset without blocks": ("quantize", [X8, ones(4, 2)], {"opset": 13, "block_size": 4}),
    "an opset without rows": ("quantize", [X8, ones(4)], {"opset": 10, "axis": 0}),
    "a packed type without packed": ("quantize", [X8, ones()], {"output_dtype": "int4"}),
    "pairs of odd rows": ("quantize", [ones(3, 5), ones()], {"output_dtype": "float4e2m1"}),
    "codes of float": ("dequantize", [X8, ones()], {}),
    "codes of another zero point": ("dequantize", [INT8, ones(), ones(dtype=torch.uint8)], {}),
    "codes to int8": ("dequantize", [INT8, ones()], {"output_dtype": "int8"}),
    "codes of 3 rows": ("dequantize", [INT8, ones(3)], {"axis": 0}),
    "codes of other blocks": ("dequantize", [INT8, ones(4, 4)], {"block_size": 4}),
    "codes by power of two": ("dequantize", [INT8, ones(dtype=torch.float8_e8m0fnu)], {}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_tensors_without_elements_are_refused_in_the_same_words(name):
    function, tensors, options = REFUSED[name]
    call = getattr(onnx_cast, f"{function}_linear")
    said = []
    for device in ("cpu", "meta", "fake"):
        with fake_tensor.FakeTensorMode() if device == "fake" else torch.no_grad():
            given = [make("cpu" if device == "fake" else device) for make in tensors]
            with pytest.raises((CastError, TypeError)) as error:
                call(*given, **options)
        said.append((type(error.value), str(error.value), getattr(error.value, "parameter", None)))
    assert said[0] == said[1] == said[2]


def test_scaled_casts_take_tensors_of_one_device_alone():
    x, codes = torch.ones(4, 2), torch.ones(4, 2, dtype=torch.int8)
    meta = {"scale": torch.tensor(0.5, device="meta"), "zero_point": torch.tensor(0, dtype=torch.int8, device="meta")}
    rows = torch.ones(4, device="meta")
    for call, name in [
        (lambda: onnx_cast.quantize_linear(x, meta["scale"], output_dtype="int8"), "scale"),
        (lambda: onnx_cast.quantize_linear(x, rows, axis=0, output_dtype="int8"), "scale"),
        (lambda: onnx_cast.quantize_linear(x, 0.5, meta["zero_point"]), "zero_point"),
        (lambda: onnx_cast.dequantize_linear(codes, meta["scale"]), "scale"),
        (lambda: onnx_cast.dequantize_linear(codes, 0.5, meta["zero_point"]), "zero_point"),
    ]:
        with pytest.raises(TypeError, match=rf"^{name} is on the device meta, and x on cpu \(want one device\)$"):
            call()
    for call, name in [
        (lambda: onnx_cast.quantize_linear(x.to("meta"), torch.tensor(0.5)), "scale"),
        (lambda: onnx_cast.quantize_linear(x.to("meta"), 0.5, torch.tensor(0, dtype=torch.int8)), "zero_point"),
    ]:
        with pytest.raises(TypeError, match=rf"^{name} is on the device cpu, and x on meta \(want one device\)$"):
            call()
    for zero in (None, 3, [3, 3, 3, 3]):
        scale = 0.5 if not isinstance(zero, list) else [0.5] * 4
        assert onnx_cast.quantize_linear(x.to("meta"), scale, zero, axis=0).device.type == "meta"
    out = torch.empty(4, 2, dtype=torch.int8)
    with pytest.raises(TypeError, match="scale is on the device meta"):
        onnx_cast.quantize_linear(x, meta["scale"], output_dtype="int8", out=out)
    with pytest.raises(TypeError, match="on the device meta"):
        onnx_cast.quantize_blocks(x.to("meta"), "mxfp4")
    quantized = onnx_cast.quantize_blocks(x, "mxfp8")
    with pytest.raises(TypeError, match="scales is on the device meta"):
        dataclasses.replace(quantized, scales=quantized.scales.to("meta")).dequantize()


def test_an_exported_program_has_scaled_casts_of_any_size():
    import onnx_cast.torch  # noqa: F401

    class Model(torch.nn.Module):
        def forward(self, x, scale):
            return onnx_cast.quantize_linear(x, scale, axis=0, output_dtype="int8")

    rows = torch.export.Dim("rows")
    program = torch.export.export(Model(), (X[:, 0], torch.ones(5)), dynamic_shapes=({0: rows}, {0: rows}))
    want = onnx_cast.quantize_linear(X[:3, 0], SCALES[:3], axis=0, output_dtype="int8")
    assert bits(program.module()(X[:3, 0], SCALES[:3])) == bits(want)


# torch itself compares the results of a trace, and cannot copy pairs.
@pytest.mark.parametrize("name", [name for name in CALLS if name != "pairs"])
def test_a_traced_function_casts_what_it_is_given(name):
    x, other = (X.abs(), X.abs() * 2) if name == "a way to round" else (X, X * 2)
    traced = torch.jit.trace(CALLS[name], (x,))
    assert bits(traced(other)) == bits(CALLS[name](other))
    small = torch.jit.trace(CALLS[name], (x[:1],))
    assert bits(small(other[:1])) == bits(CALLS[name](other[:1]))


def make_fx(call, pre_dispatch=False, tracing_mode="real"):
    from torch.fx.experimental import proxy_tensor

    return proxy_tensor.make_fx(call, pre_dispatch=pre_dispatch, tracing_mode=tracing_mode)


@pytest.mark.parametrize("pre_dispatch", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_a_graph_of_make_fx_casts_what_it_is_given(name, pre_dispatch):
    x, other = (X.abs(), X.abs() * 2) if name == "a way to round" else (X, X * 2)
    assert bits(make_fx(CALLS[name], pre_dispatch)(x)(other)) == bits(CALLS[name](other))


def test_what_a_trace_cannot_have_is_refused():
    out = torch.empty(X.shape, dtype=torch.int8)
    for call in (
        lambda x: onnx_cast.cast(x, "int8", out=out),
        lambda x: onnx_cast.quantize_linear(x, 0.1, output_dtype="int8", out=out),
        lambda x: onnx_cast.dynamic_quantize_linear(x)[0],
        lambda x: onnx_cast.quantize_blocks(x, "mxfp8").elements.view(torch.uint8),
        lambda x: x * onnx_cast.stats(x, "int8").values,
        lambda x: x * len(onnx_cast.cast(x, "string")),
    ):
        for trace in (
            lambda: torch.jit.trace(call, (X,)),  # noqa: B023
            lambda: make_fx(call)(X),  # noqa: B023
            lambda: make_fx(call, pre_dispatch=True)(X),  # noqa: B023
        ):
            with pytest.raises((TypeError, RuntimeError), match="traced by torch.jit.trace or make_fx"):
                trace()


def test_symbolic_traces_are_refused_by_name():
    for call in (
        lambda x: onnx_cast.cast(x, "float16"),
        lambda x: onnx_cast.quantize_linear(x, 0.1),
        lambda x: onnx_cast.quantize_linear(X, x),
        lambda x: onnx_cast.quantize_linear(X, 0.1, x),
        lambda x: onnx_cast.dequantize_linear(x, 0.1, 1),
        lambda x: onnx_cast.quantize_blocks(x, "mxfp4"),
        lambda x: onnx_cast.stats(x, "int8"),
    ):
        with pytest.raises(TypeError, match=r"is a Proxy of torch.fx.symbolic_trace.*\(want make_fx or torch.export\)"):
            torch.fx.symbolic_trace(call)
    with pytest.raises(TypeError, match=r"^to is Proxy"):
        torch.fx.symbolic_trace(lambda x: onnx_cast.cast_like(X, x))


#: Private names of torch's that the package uses, with the module that holds each.
PRIVATE = {
    "_AutoDispatchBelowADInplaceOrView": "torch._C",
    "_AutoDispatchBelowAutograd": "torch._C",
    "_FrameAction": "torch._C._dynamo.eval_frame",
    "_FrameExecStrategy": "torch._C._dynamo.eval_frame",
    "_SingleLevelFunction": "torch.autograd.function",
    "_dispatch_tls_is_dispatch_key_included": "torch._C",
    "_dynamo": "torch._C",
    "_functorch": "torch._C",
    "_is_functional_tensor": "torch",
    "_is_tracing": "torch._C",
    "_len_torch_dispatch_stack": "torch._C",
    "_set_fwd_grad_enabled": "torch.autograd.forward_ad",
    "enable_single_level_autograd_function": "torch._functorch.utils",
    "is_functorch_wrapped_tensor": "torch._C._functorch",
    "set_code_exec_strategy": "torch._C._dynamo.eval_frame",
    "FakeTensor": "torch._subclasses",
    "FunctionalTensor": "torch._subclasses.functional_tensor",
    "get_proxy_mode": "torch.fx.experimental.proxy_tensor",
}

#: Works with each of them hidden while the package is loaded.
WITHOUT = """
import importlib, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, torch, torch._subclasses.functional_tensor
module, name = importlib.import_module(sys.argv[1]), sys.argv[2]
hidden = getattr(module, name, None)
if hidden is not None:
    delattr(module, name)
import onnx_cast
from onnx_cast import _torch, _torch_operators, _operators
_torch._traced(); _operators.hide()
if hidden is not None:
    setattr(module, name, hidden)
x, codes = torch.arange(-4.0, 4).reshape(2, 4), torch.arange(8, dtype=torch.int8).reshape(2, 4)
assert onnx_cast.cast(x, "int8").tolist() == x.tolist()
assert onnx_cast.cast(x, "bfloat16").dtype is torch.bfloat16
assert onnx_cast.cast(x, "string").tolist()[0][0] == "-4"
out = torch.empty(2, 4, dtype=torch.int8)
assert onnx_cast.cast(x, "int8", out=out) is out and out.tolist() == x.tolist()
assert onnx_cast.quantize_linear(x, 1.0, output_dtype="int8", out=out) is out
assert onnx_cast.quantize_linear(x, torch.tensor([1.0, 2.0]), axis=0, output_dtype="int8")[1].tolist() == [0, 0, 1, 2]
assert onnx_cast.dequantize_linear(codes, 2.0).tolist() == (codes * 2.0).tolist()
assert onnx_cast.quantize_blocks(x, "mxfp8").dequantize().tolist() == x.tolist()
assert onnx_cast.cast(x.to("meta"), "int8").device.type == "meta"
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode() as mode:
    assert onnx_cast.cast(mode.from_tensor(x), "int8").dtype is torch.int8
assert torch.func.vmap(lambda x: onnx_cast.cast(x, "float16"))(x).tolist() == x.tolist()
assert torch.jit.trace(lambda x: onnx_cast.cast(x, "int8"), (x,))(x + 1).tolist() == (x + 1).tolist()
leaf = x.clone().requires_grad_()
onnx_cast.cast(leaf, "double").pow(2).sum().backward()
assert leaf.grad.tolist() == (2 * x).tolist()
if _torch_operators._has_forward_mode:
    assert torch.func.grad(lambda x: onnx_cast.cast(x, "double").sum())(x).tolist() == torch.ones(2, 4).tolist()
    assert torch.func.jvp(lambda x: onnx_cast.cast(x, "double"), (x,), (x,))[1].tolist() == x.tolist()
else:  # errors, and no zeros
    for call in (
        lambda: torch.func.grad(lambda x: onnx_cast.cast(x, "double").sum())(x),
        lambda: torch.func.jvp(lambda x: onnx_cast.cast(x, "double"), (x,), (x,)),
    ):
        try:
            call()
        except (TypeError, RuntimeError):
            continue
        raise AssertionError("a derivative without the names that it needs")
if "_dynamo" not in (*sys.argv[1].split("."), name):
    sys.exit()
step = torch.compile(lambda x: onnx_cast.cast(x * 2, "bfloat16") + 1, backend="eager")
assert step(x).tolist() == (x * 2 + 1).tolist() and step(x + 1).tolist() == (x * 2 + 3).tolist()
import onnx_cast.torch
torch._dynamo.reset()
step = torch.compile(lambda x: onnx_cast.quantize_linear(x * 2, 0.5, output_dtype="int8"), backend="aot_eager", fullgraph=True)
assert step(x).tolist() == (x * 4).tolist()
"""


@pytest.mark.parametrize("name", PRIVATE)
def test_casts_work_without_any_private_name_of_torchs(name):
    subprocess.run([sys.executable, "-c", WITHOUT, PRIVATE[name], name], check=True)


def test_the_private_names_of_torch_are_those_that_are_tested():
    folder = Path(onnx_cast.__file__).parent
    used = set()
    for file in folder.glob("*.py"):
        text = file.read_text()
        used |= set(re.findall(r"(?:torch|torch\._C|_functorch|frames)\.(_[a-zA-Z]\w+)", text))
        used |= set(re.findall(r"from torch\._\S+ import (\w+)", text))
        used |= set(re.findall(r"from torch\S+ import (_\w+)", text))
        used |= set(re.findall(r"getattr\((?:torch|torch\._C|compiler), \"(_\w+)\"", text))
    assert used - {"_C", "_functorch", "_subclasses"} <= set(PRIVATE)


@pytest.mark.parametrize("to", ["float16", "bfloat16", "double", "float8e4m3fn"])
def test_the_gradient_of_a_cast_is_that_of_its_result(to):
    for leaf in (X.clone().requires_grad_(), torch.nn.Parameter(X.clone())):
        got = onnx_cast.cast(leaf, to)
        assert bits(got.detach()) == bits(onnx_cast.cast(leaf.detach(), to))
        (got.to(torch.float32) * 3).sum().backward()
        assert torch.equal(leaf.grad, torch.full_like(X, 3)) and leaf.grad.dtype is torch.float32
    assert onnx_cast.cast_like(leaf, torch.empty(0, dtype=torch.float16)).requires_grad
    with torch.no_grad():
        assert not onnx_cast.cast(leaf, to).requires_grad
    with torch.inference_mode():
        assert not onnx_cast.cast(leaf, to).requires_grad


def test_a_compiled_cast_has_the_same_gradient():
    import onnx_cast.torch  # noqa: F401

    leaf = X.clone().requires_grad_()
    torch.compile(lambda x: (onnx_cast.cast(x, "float16") * 3).sum(), fullgraph=True, backend="aot_eager")(leaf).backward()
    assert torch.equal(leaf.grad, torch.full_like(X, 3))


def test_compiled_functions_may_differentiate_casts():
    import onnx_cast.torch  # noqa: F401

    torch._dynamo.reset()

    def cube(x):
        return (onnx_cast.cast(x, "double") ** 3).sum()

    for derive in (torch.func.grad(cube), lambda x: torch.func.jvp(cube, (x,), (torch.ones_like(x),))[1]):
        got = torch.compile(derive, fullgraph=True, backend="eager")(X)
        assert torch.allclose(got, derive(X)) and bool(got.abs().max() > 0)


def test_torch_agrees_with_the_derivatives():
    x = torch.randn(3, dtype=torch.double, requires_grad=True)
    modes = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert torch.autograd.gradcheck(lambda x: onnx_cast.cast(x, "double") ** 2, (x,), **modes)
    assert torch.autograd.gradgradcheck(lambda x: onnx_cast.cast(x, "double") ** 3, (x,))


def test_results_are_written_in_place_as_those_of_torch_are():
    leaf, other = X[0].clone().requires_grad_(), torch.ones(3, 4, requires_grad=True)
    for to in ("float16", "bfloat16", "float", "double"):
        got = onnx_cast.cast(leaf, to).mul_(2)
        assert torch.equal(torch.autograd.grad(got.sum().float(), leaf)[0], torch.full_like(leaf, 2))
        got = onnx_cast.cast(X[0], to).add_(other)
        assert torch.equal(torch.autograd.grad(got.sum().float(), other)[0], torch.ones(3, 4))


def test_what_has_no_gradient():
    leaf = X.clone().requires_grad_()
    for call in (
        lambda x: onnx_cast.cast(x, "int8"),
        lambda x: onnx_cast.cast(x, "float16", packed=True),
        lambda x: onnx_cast.cast(x, "float4e2m1").view(torch.uint8),
        lambda x: onnx_cast.bit_cast(x, "float"),
        lambda x: onnx_cast.quantize_linear(x, 0.1, output_dtype="float8e4m3fn"),
        lambda x: onnx_cast.dequantize_linear(x.to(torch.int8), x.sum()),
    ):
        assert not call(leaf).requires_grad
        alone = torch.func.grad(lambda x: call(x).to(torch.float32).sum() + x.sum())(X)  # noqa: B023
        assert torch.equal(alone, torch.ones_like(X))


def test_the_transforms_of_torch_func_differentiate_casts():
    def cube(x):
        return (onnx_cast.cast(x, "double") ** 3).sum()

    assert torch.allclose(torch.func.grad(cube)(X), 3 * X**2)
    assert torch.allclose(torch.func.vmap(torch.func.grad(cube))(X), 3 * X**2)
    assert torch.allclose(torch.func.hessian(cube)(X[0, 0]), torch.diag(6 * X[0, 0]))
    result, tangent = torch.func.jvp(CALLS["a name"], (X,), (X,))
    assert bits(result) == bits(tangent) == bits(onnx_cast.cast(X, "bfloat16"))
    assert torch.allclose(torch.func.jacfwd(torch.func.jacfwd(cube))(X[0, 0]), torch.diag(6 * X[0, 0]).double())
    with torch.autograd.forward_ad.dual_level():
        dual = onnx_cast.cast(torch.autograd.forward_ad.make_dual(X[0, 0], SCALES), "double")
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(dual).tangent, SCALES.to(torch.double))


def test_a_mode_sees_the_operator():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    names = []
    with Seen():
        got, text = onnx_cast.cast(X, "float16"), onnx_cast.cast(X[0, 0, :1], "string")
    assert "onnx_cast.cast.default" in names and bits(got) == bits(onnx_cast.cast(X, "float16"))
    assert text.tolist() == onnx_cast.cast(X[0, 0, :1], "string").tolist()


def test_small_tensors_of_any_memory_are_cast_as_large_ones(monkeypatch):
    from onnx_cast import _torch

    complex64 = torch.complex(X[0], X[1])
    tensors = [X[0], X[0].T, X[:, ::2, 1:3], X[0, 0, 0], X[:0], X.expand(2, 5, 3, 4), X.flip(0), complex64.conj().imag]
    tensors += [X.to(dtype) for dtype in (torch.bfloat16, torch.float8_e5m2, torch.bool, torch.int64, torch.uint16)]
    targets = ["float16", "bfloat16", "float8e4m3fnuz", "float8e8m0", "int8", "uint64", "bool", "double"]
    cast = [[bits(onnx_cast.cast(x, to)) for to in targets] for x in tensors]
    monkeypatch.setattr(_torch, "_SMALL", -1)
    assert cast == [[bits(onnx_cast.cast(x, to)) for to in targets] for x in tensors]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0), (5, 0, 4), (3, 4, 0), (2, 0, 0, 6)])
def test_empty_results_have_the_strides_of_torchs(shape):
    for x in (torch.empty(shape), torch.empty(shape, dtype=torch.bfloat16)):
        for to in ("int8", "bfloat16", "float8e4m3fn", "double"):
            got = onnx_cast.cast(x, to)
            assert got.shape == x.shape and got.stride() == x.to(got.dtype).stride(), to
        assert onnx_cast.quantize_linear(x, 0.1).stride() == x.to(torch.uint8).stride()


def test_tensors_of_other_layouts_are_refused_by_name():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for x, text in [(torch.eye(3).to_sparse(), "layout torch.sparse_coo"), (nested, "nested tensor")]:
        with pytest.raises(TypeError, match=text):
            onnx_cast.cast(x, "float16")
