"""torch's own machinery: its compiler, fake tensors, transforms and autograd see the casts as operators of torch's."""

import subprocess
import sys

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
        "bool saturate=True, str? precision=None, str? output_dtype=None, int opset=28, bool packed=False"
    )
    want["dequantize_linear"] = scaled + "str? output_dtype=None, int opset=28"
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
            got = onnx_cast.quantize_linear(x, scales if x is fake else SCALES, axis=-1)
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


def test_tensors_of_other_layouts_are_refused_by_name():
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for x, text in [(torch.eye(3).to_sparse(), "layout torch.sparse_coo"), (nested, "nested tensor")]:
        with pytest.raises(TypeError, match=text):
            onnx_cast.cast(x, "float16")
