"""Scaled casts of arrays of every type, order and kind: the elements of a plain copy, in tiles and without a copy of x."""

import subprocess
import sys
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from bitwise import bits, same
from hypothesis import given, settings
from hypothesis import strategies as st
from test_threads import Stop, interrupted_soon, others_run_during

import onnx_cast
from onnx_cast import CastError, dtypes

INTS = ["int2", "uint2", "int4", "uint4", "int8", "uint8", "int16", "uint16"]
FLOATS = ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float6e2m3", "float6e3m2", "float4e2m1"]
QUANTIZED = INTS + FLOATS
VALUES = ["float", "float16", "bfloat16"]

#: The shape of the scales of a tensor of three axes, and how they lie: for the tensor, each axis, and blocks of each.
GRANULARITIES = [
    (lambda shape: (), {}),
    (lambda shape: (shape[0],), {"axis": 0}),
    (lambda shape: (shape[1],), {"axis": 1}),
    (lambda shape: (shape[2],), {"axis": -1}),
    (lambda shape: (-(-shape[0] // 2), *shape[1:]), {"axis": 0, "block_size": 2}),
    (lambda shape: (shape[0], -(-shape[1] // 3), shape[2]), {"axis": 1, "block_size": 3}),
    (lambda shape: (*shape[:2], -(-shape[2] // 16)), {"axis": 2, "block_size": 16}),
]


def normal(shape, dtype=np.float32, seed=5):
    return (np.random.default_rng(seed).standard_normal(shape, np.float32) * 3).astype(dtype)


def scales(shape, seed=6):
    return np.random.default_rng(seed).uniform(0.05, 0.5, shape).astype(np.float32)


def zeros_for(name, scale):
    """Zero points, some of which are not 0 where the type takes others."""
    zeros = np.arange(scale.size).reshape(scale.shape) % 2 if name in INTS else np.zeros(scale.shape)
    return zeros.astype(dtypes.of(name).numpy)


def test_every_quantized_type_is_here():
    x = np.ones(1, np.float32)
    taken = []
    for data_type in dtypes.ALL:
        try:
            onnx_cast.quantize_linear(x, 1.0, output_dtype=data_type)
        except (CastError, TypeError):
            continue
        taken.append(data_type.name)
    assert sorted(taken) == sorted(QUANTIZED)


def elsewhere(x):
    """Arrays with the elements of others in another place or order, and plain copies of them."""
    shifted = np.empty(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    shifted[...] = x
    arrays = [
        x.transpose(2, 0, 1),
        np.asfortranarray(x),
        x[::-1, :, ::-1],
        x[:, 1::2],
        x[..., 3:-2],
        np.broadcast_to(x[:1], x.shape),
        shifted,
    ]
    if x.dtype.isbuiltin == 1 and x.itemsize > 1:
        arrays += [x.astype(x.dtype.newbyteorder(">")), x.astype(x.dtype.newbyteorder(">")).transpose(1, 2, 0)]
    for array in arrays:
        plain = np.empty(array.shape, x.dtype)
        plain[...] = array
        yield array, plain


@pytest.mark.parametrize("source", VALUES)
@pytest.mark.parametrize("name", QUANTIZED)
def test_elements_that_lie_elsewhere(name, source):
    x = normal((4, 6, 37), dtypes.of(source).numpy)
    for other, plain in elsewhere(x):
        for shape, options in GRANULARITIES:
            scale = scales(shape(plain.shape))
            zeros = zeros_for(name, scale)
            want = onnx_cast.quantize_linear(plain, scale, zeros, **options)
            same(onnx_cast.quantize_linear(other, scale, zeros, **options), want)
            out = np.empty_like(want)
            assert onnx_cast.quantize_linear(other, scale, zeros, out=out, threads=1, **options) is out
            same(out, want)
            packed = onnx_cast.quantize_linear(other, scale, zeros, packed=True, **options)
            same(onnx_cast.unpack(packed, name, want.shape), want)


@pytest.mark.parametrize("to", VALUES)
@pytest.mark.parametrize("name", [*QUANTIZED, "int32"])
def test_quantized_elements_that_lie_elsewhere(name, to):
    codes = onnx_cast.cast(np.random.default_rng(8).integers(-9, 9, (4, 6, 37)), name)
    for other, plain in elsewhere(codes):
        for shape, options in GRANULARITIES:
            scale = scales(shape(plain.shape))
            zeros = None if name == "int32" else zeros_for(name, scale)
            want = onnx_cast.dequantize_linear(plain, scale, zeros, output_dtype=to, **options)
            same(onnx_cast.dequantize_linear(other, scale, zeros, output_dtype=to, **options), want)
            out = np.empty_like(want)
            assert onnx_cast.dequantize_linear(other, scale, zeros, output_dtype=to, out=out, threads=1, **options) is out
            same(out, want)


def quotients(x, scale, zeros, low, high):
    """QuantizeLinear to integers in numpy's words."""
    return np.clip(np.rint(x / scale) + zeros, low, high)


#: Shapes around blocks, tiles and pieces that threads share.
LARGE = [(1, 1, 4097), (3, 5, 4096), (2, 257, 129), (1, 1, 65537), (70, 3, 1000), (9, 1 << 16, 1), (1, 3, 1 << 19)]


@pytest.mark.slow
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_scales_are_found_again_in_every_block_and_tile(shape):
    x = normal(shape)
    turned = np.asfortranarray(x)
    for scale_shape, options in GRANULARITIES:
        scale = scales(scale_shape(shape))
        axis, block = options.get("axis", 0) % 3, options.get("block_size", 0)
        if block:
            wide = np.repeat(scale, block, axis=axis)[tuple(slice(size) for size in shape)]
        else:
            wide = scale.reshape([-1 if at == axis else 1 for at in range(3)] if scale.ndim else ())
        for name, low, high in [("int4", -8, 7), ("uint8", 0, 255)]:
            want = quotients(x, wide, 0, low, high).astype(dtypes.of(name).numpy)
            values = want.astype(np.float32) * wide
            for given in (x, turned):
                for threads in (None, 1, 3):
                    got = onnx_cast.quantize_linear(given, scale, output_dtype=name, threads=threads, **options)
                    same(got, want)
                out = np.ones_like(want)
                onnx_cast.quantize_linear(given, scale, out=out, output_dtype=name, **options)
                same(out, want)
            for codes in (want, np.asfortranarray(want)):
                for threads in (None, 1, 3):
                    same(onnx_cast.dequantize_linear(codes, scale, threads=threads, **options), values)
                out = np.ones_like(values)
                onnx_cast.dequantize_linear(codes, scale, out=out, **options)
                same(out, values)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_strides_order_and_alignment_do_not_matter(data):
    source, name = data.draw(st.sampled_from(VALUES)), data.draw(st.sampled_from(QUANTIZED))
    shape = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    x = normal(shape, dtypes.of(source).numpy)
    axes = data.draw(st.permutations(range(len(shape))))
    cuts = [slice(None, None, data.draw(st.sampled_from([1, -1, 2, -3]))) if size else slice(None) for size in shape]
    cut = x.transpose(axes)[tuple(cuts[axis] for axis in axes)]
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    block = data.draw(st.sampled_from([None, 0, 1, 2, 7]))
    options = {} if block is None else {"axis": axis, "block_size": block}
    sizes = list(cut.shape)
    sizes[axis] = -(-sizes[axis] // (block or 1))
    scale = scales([] if block is None else [cut.shape[axis]] if block == 0 else sizes)
    plain = np.empty(cut.shape, cut.dtype)
    plain[...] = cut
    want = onnx_cast.quantize_linear(plain, scale, output_dtype=name, **options)
    same(onnx_cast.quantize_linear(cut, scale, output_dtype=name, **options), want)
    wide = want.repeat(2, axis=-1)[..., ::2]
    same(onnx_cast.dequantize_linear(wide, scale, **options), onnx_cast.dequantize_linear(want, scale, **options))


def test_scalars_and_empty_arrays():
    for name in QUANTIZED:
        for shape in [(), (0,), (3, 0, 2), (1, 1)]:
            x = np.ones(shape, np.float32)
            got = onnx_cast.quantize_linear(x, 0.5, output_dtype=name)
            assert isinstance(got, np.ndarray) and got.shape == shape
            same(onnx_cast.quantize_linear(x.astype(">f4"), 0.5, output_dtype=name), got)
            back = onnx_cast.dequantize_linear(got, 0.5)
            want = {"int2": 0.5}.get(name, 1.0)
            assert back.shape == shape and (back == want).all()
            same(onnx_cast.quantize_linear(x, 0.5, output_dtype=name, out=np.empty_like(got)), got)
    assert onnx_cast.quantize_linear(np.ones((0, 3), np.float32), np.ones(3, np.float32)).shape == (0, 3)
    assert onnx_cast.quantize_linear(np.ones((3, 0), np.float32), np.ones(3, np.float32), axis=0).shape == (3, 0)
    assert type(onnx_cast.quantize_linear(np.float32(1), 0.5)) is np.uint8
    y, scale, zero_point = onnx_cast.dynamic_quantize_linear(np.ones((0, 3), ">f4"))
    assert (y.shape, scale, zero_point) == ((0, 3), 1, 0)


def blocks_of_sixteen(codes, scale, **options):
    return onnx_cast.dequantize_linear(codes, scale, block_size=16, **options)


X = normal((8, 64))
CODES = onnx_cast.quantize_linear(X, 0.1, output_dtype="int8")
Q = onnx_cast.quantize_blocks(X, "mxfp8")

#: Calls that take `out`, and the type of their results.
CALLS = {
    "quantize": (lambda x, out: onnx_cast.quantize_linear(x, 0.1, output_dtype="int8", out=out), X, np.int8),
    "quantize to int4": (
        lambda x, out: onnx_cast.quantize_linear(x, 0.1, output_dtype="int4", out=out),
        X,
        ml_dtypes.int4,
    ),
    "dynamic": (lambda x, out: onnx_cast.dynamic_quantize_linear(x, out=out)[0], X, np.uint8),
    "dequantize": (lambda x, out: onnx_cast.dequantize_linear(x, 0.1, out=out), CODES, np.float32),
    "dequantize in blocks": (
        lambda x, out: blocks_of_sixteen(x, np.ones((8, 4), np.float16), out=out),
        CODES,
        np.float16,
    ),
    "dequantize a format": (
        lambda x, out: onnx_cast.Quantized("mxfp8", "modelopt", x, Q.scales, None).dequantize(out=out),
        Q.elements,
        np.float32,
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_out_takes_the_result(name):
    call, x, dtype = CALLS[name]
    want = call(x, None)
    assert want.dtype == dtype
    memory = np.zeros((want.size + 1) * want.itemsize, np.uint8)
    for start in (0, 1):  # at an odd address too
        out = memory[start : start + want.nbytes].view(dtype).reshape(x.shape)
        assert call(x, out) is out
        same(out, want)
    part = np.zeros((3, *x.shape), dtype)
    assert call(x, part[1]) is not None
    same(part[1], want)
    assert not bits(part[[0, 2]]).any()


@pytest.mark.parametrize("name", CALLS)
def test_an_array_that_cannot_take_the_result_is_refused_and_left_alone(name):
    call, x, dtype = CALLS[name]
    read_only = np.zeros(x.shape, dtype)
    read_only.flags.writeable = False
    wrong = [
        (np.zeros(x.shape, np.int32), "out is of dtype int32"),
        (np.zeros(x.shape[1:], dtype), r"out is of shape \(64,\) \(want \(8, 64\)\)"),
        (np.zeros((1, *x.shape), dtype), r"out is of shape \(1, 8, 64\)"),
        (np.zeros(x.shape[::-1], dtype).T, "out is not contiguous"),
        (np.zeros((8, 128), dtype)[:, ::2], "out is not contiguous"),
        (read_only, "out is read-only"),
    ]
    if np.dtype(dtype).itemsize > 1:
        wrong.append((np.zeros(x.shape, np.dtype(dtype).newbyteorder(">")), "out is not contiguous"))
    for out, said in wrong:
        with pytest.raises(CastError, match=said) as caught:
            call(x, out)
        assert caught.value.parameter == "out"
        assert not out.view(np.ndarray).astype(np.float64).any()
    for out in ([0.0], bytearray(x.size), x.shape):
        with pytest.raises(TypeError, match="want a numpy array"):
            call(x, out)
    with pytest.raises(TypeError, match="masked array"):
        call(x, np.ma.zeros(x.shape, dtype))


@pytest.mark.parametrize("name", CALLS)
def test_out_in_the_memory_of_x_is_refused(name):
    call, x, dtype = CALLS[name]
    want = call(x, None)
    memory = np.zeros(2 * max(x.nbytes, want.nbytes), np.uint8)
    inner = memory[: x.nbytes].view(x.dtype).reshape(x.shape)
    inner[...] = x
    for start in (0, x.nbytes - 1):
        out = memory[start : start + want.nbytes].view(dtype).reshape(x.shape)
        with pytest.raises(CastError, match="out overlaps x in memory") as caught:
            call(inner, out)
        assert caught.value.parameter == "out"
        same(inner, x)
    # Beside it nothing is shared.
    out = memory[x.nbytes : x.nbytes + want.nbytes].view(dtype).reshape(x.shape)
    same(call(inner, out), want)
    # Elements that lie elsewhere are read before any is written.
    memory = np.zeros(2 * max(x.nbytes, want.nbytes), np.uint8)
    spread = memory[: 2 * x.nbytes].view(x.dtype).reshape(8, 128)[:, ::2]
    spread[...] = x
    same(call(spread, memory[: want.nbytes].view(dtype).reshape(x.shape)), want)


def test_out_takes_the_result_without_an_allocation():
    x = normal((1 << 10, 1 << 10))
    big = x.astype(">f4")
    for given_x in (x, x.T, x[::-1], big):
        for name in ("int8", "int4", "float8e4m3fn", "float4e2m1"):
            codes = onnx_cast.quantize_linear(given_x, 0.1, output_dtype=name)
            values = onnx_cast.dequantize_linear(codes, 0.1)
            turned = np.asfortranarray(codes)
            tracemalloc.start()  # numpy tells it of the memory of arrays
            try:
                onnx_cast.quantize_linear(given_x, 0.1, output_dtype=name, out=codes)
                onnx_cast.dequantize_linear(codes, 0.1, out=values)
                onnx_cast.dequantize_linear(turned, 0.1, out=values)
                assert tracemalloc.get_traced_memory()[1] < 20_000
            finally:
                tracemalloc.stop()


#: What reads 32 Mi elements, and takes memory for a part of them.
BOUNDED = [
    "cast(x, 'int8', out=codes)",
    "quantize_linear(x, 0.1, output_dtype='int8', out=codes)",
    "quantize_linear(x, 0.1, output_dtype='int4', out=nibbles)",
    "quantize_linear(x, rows, axis=0, output_dtype='int8', out=codes)",
    "dequantize_linear(turned, 0.1, out=values)",
    "dequantize_linear(nibbles, 0.1, out=values)",
    "dequantize_linear(nibbles_turned, rows, axis=0, out=values)",
    "dynamic_quantize_linear(x, out=codes.view(np.uint8))",
    "quantize_blocks(x, 'mxfp4', out=blocks)",
    "Quantized('mxfp4', 'modelopt', fp4_turned, scales_turned, None).dequantize(out=values)",
    "stats(x, 'float16', threads=2)",
]

PROGRAM = """
import resource
import sys

import ml_dtypes
import numpy as np
import onnx_cast
from onnx_cast import *

x = {x}
codes, values = np.ones(x.shape, np.int8), np.ones(x.shape, np.float32)
nibbles, turned = np.ones(x.shape, ml_dtypes.int4), np.asfortranarray(codes)
nibbles_turned, rows = np.asfortranarray(nibbles), np.ones(len(x), np.float32)
blocks = quantize_blocks(np.ones(x.shape, np.float32), "mxfp4")
fp4_turned, scales_turned = np.asfortranarray(blocks.elements), np.asfortranarray(blocks.scales)
onnx_cast.cast(values[:300], "int8")  # starts the threads
# So far memory was freed too, which is not to hide what a call takes.
held = np.ones(256 << 20, np.uint8)
for call in sys.argv[1:]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    eval(call)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is the system's own")
@pytest.mark.parametrize("x", ["np.ones((4096, 8192), np.float32).T", "np.ones((8192, 4096), '>f4')"])
def test_elements_that_lie_elsewhere_are_not_copied_whole(x):
    program = [sys.executable, "-c", PROGRAM.format(x=x), *BOUNDED]
    grown = subprocess.run(program, check=True, capture_output=True, text=True).stdout.split()
    assert len(grown) == len(BOUNDED)
    for call, kib in zip(BOUNDED, map(int, grown)):
        # Tiles, a block of packed elements, and for `stats` a piece of 1 Mi elements for each thread.
        assert kib < 24 << 10, call


def test_other_threads_run_meanwhile():
    x, codes, values = normal(1 << 23), np.empty(1 << 23, np.int8), np.empty(1 << 23, np.float32)
    others_run_during(lambda: onnx_cast.quantize_linear(x, 0.1, output_dtype="int8", out=codes, threads=1))
    others_run_during(lambda: onnx_cast.dequantize_linear(codes, 0.1, out=values, threads=1))
    others_run_during(lambda: onnx_cast.quantize_linear(x[::2], 0.1, output_dtype="int8", threads=1))


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no interval timers")
def test_a_signal_ends_a_long_scaled_cast():
    codes, out = np.ones(1 << 28, np.int8), np.zeros(1 << 28, np.float16)
    with pytest.raises(Stop), interrupted_soon():
        onnx_cast.dequantize_linear(codes, np.array(1.0, np.float16), out=out, threads=1)
    assert out[-1] == 0


def test_dynamic_scales_of_elements_that_lie_elsewhere():
    x = normal((70, 3, 1000))
    x[3, 1, 7], x[4, 0, 0] = np.nan, -40
    for other, plain in elsewhere(x):
        want = onnx_cast.dynamic_quantize_linear(plain, threads=1)
        got = onnx_cast.dynamic_quantize_linear(other)
        same(got[0], want[0])
        assert got[1:] == want[1:]
        low, high = min(np.nanmin(plain), 0), max(np.nanmax(plain), 0)
        assert want[1] == np.float32((np.float32(high) - np.float32(low)) / np.float32(255))


@pytest.mark.parametrize("name", ["mxfp4", "mxfp8", "mxfp6e2m3", "mxint8", "nvfp4"])
@pytest.mark.parametrize("shape", [(4, 6, 37), (2, 3, 70_000), (300, 4, 96)])
def test_blocks_that_lie_elsewhere(name, shape):
    q = onnx_cast.quantize_blocks(normal(shape), name)
    want = q.dequantize("bfloat16")
    for elements, scale in [
        (np.asfortranarray(q.elements), q.scales),
        (q.elements, np.asfortranarray(q.scales)),
        (q.elements[::-1].copy()[::-1], q.scales.repeat(2, axis=-1)[..., ::2]),
    ]:
        other = onnx_cast.Quantized(name, "modelopt", elements, scale, q.global_scale)
        same(other.dequantize("bfloat16"), want)
        out = np.empty_like(want)
        assert other.dequantize("bfloat16", out=out, threads=1) is out
        same(out, want)
