"""Tensors of JAX and torch. The latter is a large download: `bash scripts/test.sh --torch` adds its tests."""

import ml_dtypes
import numpy as np
import pytest
from bitwise import same

import onnx_cast
from onnx_cast import _arrays, _kinds, dtypes, layouts


@pytest.fixture
def written(monkeypatch):
    """The addresses of the memory that results are written to."""
    addresses, make = [], _arrays.memory

    def memory(*given):
        result = make(*given)
        addresses.append(result.ctypes.data)
        return result

    monkeypatch.setattr(_arrays, "memory", memory)
    return addresses


X = np.array([[1.0, -0.3, 1000.0], [0.0, 2.5, -6.0]], np.float32)


@pytest.mark.parametrize("to", ["bfloat16", "float16", "float8e4m3fn", "float8e5m2fnuz", "float4e2m1", "int4", "int8", "bool"])
def test_jax_arrays_come_back_as_jax_arrays(to):
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    got = onnx_cast.cast(x, to)
    assert isinstance(got, jax.Array)
    same(np.asarray(got), onnx_cast.cast(X, to))
    same(np.asarray(onnx_cast.cast_like(X, got)), onnx_cast.cast(X, to))
    same(np.asarray(onnx_cast.cast(got, "float")), onnx_cast.cast(np.asarray(got), "float"))
    assert onnx_cast.cast(x, "string").tolist()[0] == ["1", "-0.3", "1000"]
    assert onnx_cast.stats(x, to) == onnx_cast.stats(X, to)


def test_jax_has_its_dtypes_and_lends_its_memory():
    jax = pytest.importorskip("jax")
    x = jax.numpy.ones(4, jax.numpy.bfloat16)
    assert np.asarray(x).ctypes.data == x.unsafe_buffer_pointer()
    assert onnx_cast.cast(x, jax.numpy.float8_e5m2).dtype == ml_dtypes.float8_e5m2
    out = np.empty(4, np.float32)
    assert onnx_cast.cast(x, "float", out=out) is out and out.tolist() == [1, 1, 1, 1]
    if not jax.config.jax_enable_x64:
        with pytest.raises(TypeError, match="jax_enable_x64"):
            onnx_cast.cast(x, "double")


@pytest.mark.parametrize("to", ["float", "bfloat16", "float8e4m3fn", "int8", "bool"])
def test_nothing_is_copied_on_the_way_from_and_to_jax(to, written):
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    assert _kinds.array_of(x).ctypes.data == x.unsafe_buffer_pointer()
    for shape in [(2, 3), (), (0, 3), (1000, 1000)]:
        got = onnx_cast.cast(jax.numpy.ones(shape, jax.numpy.float16), to)
        assert got.shape == shape and bool((got == 1).all())
        assert got.size == 0 or got.unsafe_buffer_pointer() == written[-1]
    assert onnx_cast.cast(jax.device_put(x, jax.devices("cpu")[0]), to).committed and not onnx_cast.cast(x, to).committed


@pytest.mark.parametrize("to", ["float32", "bfloat16", "float8_e4m3fn", "int8", "bool"])
def test_nothing_is_copied_on_the_way_from_and_to_torch(to, written, monkeypatch):
    torch = pytest.importorskip("torch")
    from onnx_cast import _torch

    x = torch.ones(5, 7, dtype=torch.bfloat16)
    assert _kinds.array_of(x).ctypes.data == x.data_ptr() == _kinds.array_of(x.T).ctypes.data
    # Small results are in memory of their own making.
    monkeypatch.setattr(_torch, "_SMALL", -1)
    for shape in [(2, 3), (), (0, 3), (1000, 1000)]:
        got = onnx_cast.cast(torch.ones(shape, dtype=torch.float16), getattr(torch, to))
        assert tuple(got.shape) == shape and got.is_contiguous() and bool((got.to(torch.float) == 1).all())
        assert got.numel() == 0 or got.data_ptr() == written[-1]
    out = torch.empty(5, 7, dtype=getattr(torch, to))
    before = out.data_ptr()
    onnx_cast.cast(x, to, out=out)
    assert out.data_ptr() == before and bool((out.to(torch.float) == 1).all())


def test_torch_results_are_in_the_hosts_memory_whatever_the_default_device():
    torch = pytest.importorskip("torch")
    with torch.device("meta"):
        assert onnx_cast.cast(torch.ones(3, device="cpu"), "float16").tolist() == [1, 1, 1]


@pytest.mark.parametrize("to", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint16", "bool", "float64"])
def test_torch_tensors_come_back_as_torch_tensors(to):
    torch = pytest.importorskip("torch")
    x, dtype = torch.from_numpy(X.copy()), getattr(torch, to)
    got = onnx_cast.cast(x, dtype)
    assert (got.dtype, got.shape) == (dtype, x.shape) and dtypes.of(dtype).torch is dtype
    want = onnx_cast.cast(X, to)
    bits = got.contiguous().view(torch.uint8).numpy().reshape(-1)
    assert bits.tolist() == want.view(np.uint8).reshape(-1).tolist()
    same(onnx_cast.cast(got, torch.float32).numpy(), onnx_cast.cast(want, "float"))
    transposed = onnx_cast.cast(x.T, dtype)
    assert torch.equal(transposed.view(torch.uint8), got.T.contiguous().view(torch.uint8))
    out = torch.empty(x.shape, dtype=dtype)
    assert onnx_cast.cast(x, dtype, out=out) is out
    assert onnx_cast.stats(x, dtype) == onnx_cast.stats(X, to)


def test_torch_has_other_narrow_types_packed_only():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, -1.5, 6.0])
    assert onnx_cast.cast(x, "float4e2m1", packed=True).tolist() == [0xB2, 0x07]
    for to in ("int4", "uint2", "float6e2m3"):
        with pytest.raises(TypeError, match="packed=True"):
            onnx_cast.cast(x, to)


def test_torch_has_float4_in_pairs(written):
    torch = pytest.importorskip("torch")
    pairs = torch.float4_e2m1fn_x2
    x = torch.randn(3, 5, 2 * 7)
    want = onnx_cast.cast(x.numpy(), "float4e2m1")
    for to in (pairs, "float4e2m1", 23):
        got = onnx_cast.cast(x, to)
        assert (got.dtype, tuple(got.shape), got.data_ptr()) == (pairs, (3, 5, 7), written[-1])
        assert got.view(torch.uint8).flatten().tolist() == onnx_cast.pack(want).tolist()
    for to in (torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int8):
        back = onnx_cast.cast(got, to)
        assert (back.dtype, back.shape) == (to, x.shape)
        assert torch.equal(back.to(torch.float32), onnx_cast.cast(torch.from_numpy(want.astype(np.float32)), to).to(torch.float32))
    same(onnx_cast.cast(got, "string"), onnx_cast.cast(want, "string"))
    assert onnx_cast.stats(got, "int8") == onnx_cast.stats(want, "int8")
    assert torch.equal(onnx_cast.cast(got[1:, ::2], torch.float32), onnx_cast.cast(got, torch.float32)[1:, ::2])
    assert onnx_cast.cast(torch.tensor(0x21, dtype=torch.uint8).view(pairs), "float").tolist() == [0.5, 1.0]
    assert tuple(onnx_cast.cast(torch.ones(2, 0), pairs).shape) == (2, 0)
    out = torch.empty(3, 5, 7, dtype=pairs)
    assert onnx_cast.cast(x, pairs, out=out) is out and torch.equal(out.view(torch.uint8), got.view(torch.uint8))
    assert onnx_cast.cast_like(x, out).dtype is pairs
    for shape in [(), (3,), (2, 5)]:
        with pytest.raises(onnx_cast.CastError, match="an even last dimension, or packed=True"):
            onnx_cast.cast(torch.ones(shape), pairs)
    turned = torch.empty(7, 5, 3, dtype=pairs)
    for wrong, text in [(turned, "of shape"), (turned.permute(2, 1, 0), "not contiguous")]:
        with pytest.raises(onnx_cast.CastError, match=text):
            onnx_cast.cast(x, pairs, out=wrong)


@pytest.mark.parametrize("to", ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "uint8", "bool"])
def test_a_tensor_that_autograd_has_saved_gives_no_wrong_gradient(to):
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, to)
    out, x = torch.ones(4, dtype=dtype), torch.arange(4.0)
    before = out._version
    for given in (out, out[:], out.view(2, 2)[:]):
        assert onnx_cast.cast(x.view(given.shape), dtype, out=given) is given
    assert out._version == before + 3, "as torch's own functions count it"
    with pytest.raises(onnx_cast.CastError):
        onnx_cast.cast(torch.ones(5), dtype, out=out)
    assert out._version == before + 3, "nothing was written"
    if dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        w, saved = torch.ones(4, dtype=dtype, requires_grad=True), torch.ones(4, dtype=dtype)
        loss = (w * saved).sum()
        onnx_cast.cast(x, dtype, out=saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    with torch.inference_mode():
        alone = torch.empty(4, dtype=dtype)
        assert torch.equal(onnx_cast.cast(x, dtype, out=alone).to(torch.float32), out.to(torch.float32))


def test_older_torch_counts_writes_too(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.delattr(torch.autograd.graph, "increment_version")
    for dtype in (torch.float16, torch.float8_e5m2, torch.bool, torch.int64):
        for shape in [(), (0,), (3, 2)]:
            out = torch.ones(shape, dtype=dtype)
            before = out._version
            onnx_cast.cast(torch.zeros(shape), dtype, out=out)
            assert out._version == before + 1 and not out.to(torch.float32).any()


@pytest.mark.parametrize("to", ["float16", "bfloat16", "float32"])
def test_a_tensor_that_requires_a_gradient_is_no_out(to):
    torch = pytest.importorskip("torch")
    dtype, x = getattr(torch, to), torch.arange(4.0)
    leaf = torch.ones(4, dtype=dtype, requires_grad=True)
    for out in (leaf, torch.nn.Parameter(leaf.detach().clone()), leaf * 1):
        for grad in (True, False):
            with torch.set_grad_enabled(grad), pytest.raises(onnx_cast.CastError, match="out requires a gradient"):
                onnx_cast.cast(x, dtype, out=out)
        assert bool((out == 1).all())
    onnx_cast.cast(x, dtype, out=leaf.detach())
    assert leaf.tolist() == [0, 1, 2, 3] and leaf._version == 1


def test_subclasses_of_torchs_tensors_are_tensors():
    torch = pytest.importorskip("torch")

    class Mine(torch.Tensor):
        pass

    class Weight(torch.nn.Parameter):
        pass

    x = torch.arange(4.0)
    want = onnx_cast.cast(x, torch.bfloat16)
    for one in (x.as_subclass(Mine), Weight(x), torch.nn.Parameter(x), torch.nn.Buffer(x)):
        got = onnx_cast.cast(one, torch.bfloat16)
        assert type(got) is torch.Tensor and got.dtype is torch.bfloat16 and torch.equal(got, want)
        assert onnx_cast.stats(one, "bfloat16") == onnx_cast.stats(x, "bfloat16")
        assert type(onnx_cast.cast_like(one, want)) is torch.Tensor
        assert onnx_cast.cast(one, "string").tolist() == ["0", "1", "2", "3"]
        assert onnx_cast.report({"w": one}, "float16").verdicts == {"float16": "1 exact"}
        assert layouts.weights({"w": one}) == []
    out = torch.empty(4, dtype=torch.bfloat16).as_subclass(Mine)
    assert onnx_cast.cast(x, torch.bfloat16, out=out) is out and torch.equal(out.as_subclass(torch.Tensor), want)


def test_tensors_without_memory_of_their_own_are_refused():
    torch = pytest.importorskip("torch")

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, held):
            return torch.Tensor._make_wrapper_subclass(cls, held.shape, dtype=held.dtype)

        def __init__(self, held):
            self.held = held

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError

    x = torch.arange(4.0)
    for call in (
        lambda: onnx_cast.cast(Wrapper(x), "float16"),
        lambda: onnx_cast.stats(Wrapper(x), "float16"),
        lambda: onnx_cast.cast(x, "float32", out=Wrapper(x)),
    ):
        with pytest.raises(TypeError, match="of type Wrapper, which has no plain elements"):
            call()


BLOCKS = ["mxfp4", "mxfp8", "mxfp8e5m2", "mxint8", "nvfp4"]
WEIGHTS = np.random.default_rng(0).normal(size=(6, 64)).astype(np.float32)


def bits(tensor):
    """The bytes of a tensor of torch's."""
    import torch

    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_torch_are_tensors_of_torch(name):
    torch = pytest.importorskip("torch")
    x, want = torch.from_numpy(WEIGHTS.copy()), onnx_cast.quantize_blocks(WEIGHTS, name)
    q = onnx_cast.quantize_blocks(x, name)
    packed = name in ("mxfp4", "nvfp4")
    assert bits(q.elements) == (onnx_cast.pack(want.elements) if packed else want.elements).tobytes()
    assert bits(q.scales) == want.scales.tobytes() and q.global_scale == want.global_scale
    assert q.dequantize().numpy().tobytes() == want.dequantize().tobytes()
    out = torch.empty(WEIGHTS.shape, dtype=torch.bfloat16)
    version = out._version
    assert q.dequantize("bfloat16", out=out) is out and out._version > version
    assert bits(out) == want.dequantize("bfloat16").tobytes()
    again = onnx_cast.quantize_blocks(3 * x, name, out=q)
    assert again.elements is q.elements and again.scales is q.scales
    assert again.dequantize().numpy().tobytes() == onnx_cast.quantize_blocks(3 * WEIGHTS, name).dequantize().tobytes()
    with pytest.raises(onnx_cast.CastError, match="requires a gradient"):
        q.dequantize(out=torch.empty(WEIGHTS.shape, requires_grad=True))


def test_torch_lacks_some_blocks():
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="torch has no type for float6e2m3"):
        onnx_cast.quantize_blocks(torch.ones(2, 32), "mxfp6e2m3")
    with pytest.raises(onnx_cast.CastError, match="an even last dimension, or numpy arrays"):
        onnx_cast.quantize_blocks(torch.ones(2, 33), "mxfp4")


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_jax_are_arrays_of_jax(name):
    jax = pytest.importorskip("jax")
    q, want = onnx_cast.quantize_blocks(jax.numpy.asarray(WEIGHTS), name), onnx_cast.quantize_blocks(WEIGHTS, name)
    assert isinstance(q.elements, jax.Array) and isinstance(q.scales, jax.Array) and isinstance(q.dequantize(), jax.Array)
    same(np.asarray(q.elements), want.elements)
    same(np.asarray(q.scales), want.scales)
    same(np.asarray(q.dequantize()), want.dequantize())


def test_a_scale_that_is_found_is_of_the_kind_of_its_input():
    torch = pytest.importorskip("torch")
    y, scale, zero_point = onnx_cast.dynamic_quantize_linear(torch.from_numpy(X.copy()))
    want = onnx_cast.dynamic_quantize_linear(X)
    assert (scale.item(), zero_point.item(), zero_point.dtype, scale.shape) == (want[1], want[2], torch.uint8, ())
    same(y.numpy(), want[0])
    assert onnx_cast.dequantize_linear(y, scale, zero_point).dtype == torch.float32
