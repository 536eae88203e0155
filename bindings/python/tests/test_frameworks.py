"""Tensors of JAX and torch. The latter is a large download: `bash scripts/test.sh --torch` adds its tests."""

import ml_dtypes
import numpy as np
import pytest
from bitwise import same

import onnx_cast
from onnx_cast import dtypes

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


def test_torch_has_narrow_types_packed_only():
    torch = pytest.importorskip("torch")
    x = torch.tensor([1.0, -1.5, 6.0])
    assert onnx_cast.cast(x, "float4e2m1", packed=True).tolist() == [0xB2, 0x07]
    with pytest.raises(TypeError, match="packed=True"):
        onnx_cast.cast(x, "int4")
