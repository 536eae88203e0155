"""What JAX traces: `jit`, `vmap` and derivatives of casts."""

import numpy as np
import pytest
from bitwise import same

import onnx_cast
from onnx_cast import CastError

jax = pytest.importorskip("jax")

X = np.random.default_rng(4).normal(size=(5, 3, 4)).astype(np.float32) * 4

CALLS = {
    "bfloat16": lambda x: onnx_cast.cast(x, "bfloat16"),
    "bool": lambda x: onnx_cast.cast(x, "bool"),
    "a narrow type": lambda x: onnx_cast.cast(x, "int4"),
    "float4 and back": lambda x: onnx_cast.cast(onnx_cast.cast(x, "float4e2m1"), "float"),
    "packed": lambda x: onnx_cast.cast(x, "float6e2m3", packed=True),
    "attributes": lambda x: onnx_cast.cast(x, "float8e5m2", saturate=False, opset=19, threads=1),
    "cast_like": lambda x: onnx_cast.cast_like(x, np.empty(0, np.float16)),
    "bit_cast": lambda x: onnx_cast.bit_cast(x, "int32"),
    "quantize": lambda x: onnx_cast.quantize_linear(x, 0.05, output_dtype="int8"),
    "scales of an axis": lambda x: onnx_cast.quantize_linear(x, [0.1] * x.shape[-1], axis=-1),
    "dequantize": lambda x: onnx_cast.dequantize_linear(onnx_cast.cast(x, "int8"), 0.05),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_compiled_function_gives_the_same_bits(name):
    call = CALLS[name]
    for x in (X, X[0], X[:, ::2]):
        want = call(jax.numpy.asarray(x))
        got = jax.jit(call)(x)
        assert isinstance(got, jax.Array)
        same(np.asarray(got), np.asarray(want))
    shape = jax.eval_shape(call, jax.ShapeDtypeStruct(x.shape, x.dtype))
    assert (shape.shape, shape.dtype) == (want.shape, want.dtype)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", CALLS)
def test_vmap_casts_every_member(name, axis):
    call = CALLS[name]
    want = np.stack([np.asarray(call(jax.numpy.asarray(one))) for one in np.moveaxis(X, axis, 0)])
    same(np.asarray(jax.vmap(call, in_axes=axis)(X)), want)
    same(np.asarray(jax.jit(jax.vmap(call, in_axes=axis))(X)), want)


def test_casts_of_floats_to_floats_have_the_derivative_of_astype():
    def triple(to):
        return lambda x: (onnx_cast.cast(x, to).astype("float32") * 3).sum()

    for to in ("float16", "bfloat16", "float8e4m3fn"):
        for derive in (jax.grad(triple(to)), jax.jit(jax.grad(triple(to)))):
            gradient = derive(X[0])
            assert gradient.dtype == np.float32 and bool((gradient == 3).all())
    result, tangent = jax.jvp(CALLS["bfloat16"], (X,), (X,))
    same(np.asarray(result), np.asarray(tangent))
    per_row = jax.vmap(jax.grad(triple("float16")))(X)
    assert per_row.shape == X.shape and bool((per_row == 3).all())


@pytest.mark.parametrize("name", ["a narrow type", "packed", "bit_cast", "quantize", "dequantize"])
def test_other_casts_have_no_derivative(name):
    got = jax.grad(lambda x: CALLS[name](x).astype("float32").sum() + x.sum())(X)
    assert bool((got == 1).all())


def test_what_is_traced_is_refused_as_arrays_are():
    for call, text in [
        (lambda x: onnx_cast.cast(x, "string"), "traced by JAX"),
        (lambda x: onnx_cast.cast(x, "int8", out=np.empty(X.shape, np.int8)), "traced by JAX"),
        (lambda x: onnx_cast.stats(x, "int8").nan, "traced by JAX"),
        (lambda x: onnx_cast.quantize_linear(X, x[0, 0, 0]), "scale is traced by JAX"),
        (lambda x: onnx_cast.bit_cast(x, "int8"), "widths differ"),
        (lambda x: onnx_cast.cast(x, "float6e2m3"), "JAX has no type for float6"),
    ]:
        with pytest.raises((TypeError, CastError), match=text):
            jax.jit(call)(X)
    with pytest.raises(TypeError, match="JAX has no type for float6"):
        onnx_cast.cast(jax.numpy.asarray(X), "float6e2m3")
    if not jax.config.jax_enable_x64:
        with pytest.raises(TypeError, match="jax_enable_x64"):
            jax.jit(lambda x: onnx_cast.cast(x, "double"))(X)
