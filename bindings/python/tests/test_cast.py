"""Arrays of every type, shape, order and kind: the elements that go in come out cast, where they belong."""

import array
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from bitwise import bits, same
from hypothesis import given, settings
from hypothesis import strategies as st

import onnx_cast
from onnx_cast import _kinds, dtypes

NUMBERS = [one for one in dtypes.ALL if one.kind not in ("string", "complex") and one.numpy is not None]
NARROW = [one for one in NUMBERS if one.bits < 8]


def some_of(data_type, count=97):
    """Elements of every bit pattern that is a value."""
    if data_type.kind == "bool":
        return np.arange(count) % 3 == 0
    size = data_type.numpy.itemsize
    patterns = np.random.default_rng(data_type.number).integers(0, 256, count * size, np.uint8)
    if data_type.bits < 8:
        patterns &= (1 << data_type.bits) - 1
    return patterns.view(data_type.numpy)


@pytest.mark.parametrize("to", NUMBERS, ids=str)
@pytest.mark.parametrize("source", NUMBERS, ids=str)
def test_out_packed_and_threads_give_the_same_as_the_plain_call(source, to):
    x = some_of(source)
    want = onnx_cast.cast(x, to)
    assert (want.dtype, want.shape) == (to.numpy, x.shape)
    out = np.empty_like(want)
    assert onnx_cast.cast(x, to, out=out) is out
    same(out, want)
    same(onnx_cast.cast(x, to, threads=1), want)
    if to.since["CastLike"] and source.since["CastLike"]:
        same(onnx_cast.cast_like(x, np.empty(0, to.numpy)), want)
    packed = onnx_cast.cast(x, to, packed=True)
    assert packed.dtype == np.uint8 and packed.size == -(-x.size * to.bits // 8)
    same(onnx_cast.unpack(packed, to, x.shape), want)


@pytest.mark.parametrize("source, to, packed", [("float", "bfloat16", False), ("int4", "fp4", False), ("float", "fp4", True)])
def test_out_takes_the_result_without_an_allocation(source, to, packed):
    x = some_of(dtypes.of(source), 1 << 20)
    out = np.empty_like(onnx_cast.cast(x, to, packed=packed))
    tracemalloc.start()  # numpy tells it of the memory of arrays
    try:
        onnx_cast.cast(x, to, out=out, packed=packed)
        assert tracemalloc.get_traced_memory()[1] < 10_000
        onnx_cast.cast(x, to, packed=packed)
        assert tracemalloc.get_traced_memory()[1] > out.nbytes
    finally:
        tracemalloc.stop()


def test_empty_and_scalar_arrays_keep_their_shapes():
    for shape in [(), (0,), (3, 0, 2), (1, 1, 1)]:
        x = np.ones(shape, np.float32)
        for to in NUMBERS:
            got = onnx_cast.cast(x, to)
            assert isinstance(got, np.ndarray) and (got.shape, got.dtype) == (shape, to.numpy)
            assert (got.astype(np.float32) == 1).all()
        assert onnx_cast.cast(x, "string").shape == shape


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_strides_order_and_alignment_do_not_matter(data):
    source = data.draw(st.sampled_from(NUMBERS))
    to = data.draw(st.sampled_from(NUMBERS))
    shape = data.draw(st.lists(st.integers(0, 5), max_size=4))
    x = np.resize(some_of(source), shape).reshape(shape)
    want = onnx_cast.cast(x.copy(), to)
    axes = data.draw(st.permutations(range(len(shape))))
    cuts = tuple(
        slice(None, None, data.draw(st.sampled_from([1, -1, 2, -2]))) if dim else slice(None) for dim in shape
    )
    cut, want = x.transpose(axes)[tuple(cuts[a] for a in axes)], want.transpose(axes)[tuple(cuts[a] for a in axes)]
    same(onnx_cast.cast(cut, to), np.ascontiguousarray(want).reshape(want.shape))
    same(onnx_cast.cast(np.broadcast_to(cut, (2, *cut.shape)), to), np.broadcast_to(want, (2, *want.shape)))
    # At an odd address.
    raw = np.empty(x.nbytes + 1, np.uint8)
    odd = raw[1:].view(x.dtype).reshape(x.shape)
    odd[...] = x
    same(onnx_cast.cast(odd, to), onnx_cast.cast(x, to))


@pytest.mark.parametrize("source", ["double", "float", "bfloat16", "uint8", "int4"])
def test_elements_that_lie_elsewhere_are_cast_in_tiles(source):
    """Larger than a tile, so that tiles begin and end within rows."""
    x = onnx_cast.cast(np.random.default_rng(7).integers(-8, 8, (7, 301, 97)), source)
    others = [
        (np.asfortranarray(x), x),
        (x.transpose(1, 2, 0), x.transpose(1, 2, 0).copy()),
        (x.transpose(2, 0, 1)[::-1, ::2], x.transpose(2, 0, 1)[::-1, ::2].copy()),
        (np.broadcast_to(x[:1], x.shape), np.broadcast_to(x[:1], x.shape).copy()),
        (x.reshape(-1)[1::2], x.reshape(-1)[1::2].copy()),
    ]
    for other, copied in others:
        assert not other.flags.c_contiguous
        for to in ("float16", "int4", "uint2"):
            for options in ({}, {"threads": 1}, {"packed": True}):
                same(onnx_cast.cast(other, to, **options), onnx_cast.cast(copied, to, **options))
    square = x[0, :97].copy()
    want = onnx_cast.cast(square.T.copy(), source)
    same(onnx_cast.cast(square.T, source, out=square), want)


@pytest.mark.parametrize("name", ["float", "double", "float16", "int64", "uint16", "bool"])
def test_byte_order_does_not_matter(name):
    x = np.resize(some_of(dtypes.of(name)), 70_001)
    big = x.astype(x.dtype.newbyteorder(">"))
    for to in ("bfloat16", "int4", "double", name):
        same(onnx_cast.cast(big, to), onnx_cast.cast(x, to))
    assert onnx_cast.cast(x, big.dtype).dtype.isnative
    for shape in [(), (1,), (0, 3)]:
        one = x[: int(np.prod(shape))].reshape(shape)
        same(onnx_cast.cast(one.astype(big.dtype), "double"), onnx_cast.cast(one, "double"))
        assert onnx_cast.stats(one.astype(big.dtype), "float16") == onnx_cast.stats(one, "float16")


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_that_lie_elsewhere_keep_their_bits(dtype):
    x = (np.arange(90_000) + 1j * np.arange(90_000)[::-1]).astype(dtype).reshape(300, 300)
    for other in (x.T, x[::-1, ::2], x.astype(np.dtype(dtype).newbyteorder(">")), np.broadcast_to(x[0], (3, 300))):
        same(onnx_cast.bit_cast(other, dtype), np.ascontiguousarray(other.astype(dtype)))


def test_targets_have_many_names():
    x = np.array([1.5, -2.0], np.float32)
    for to in ("float16", "FLOAT16", "half", "fp16", np.float16, np.dtype(">f2"), 10, np.int64(10), dtypes.float16):
        assert onnx_cast.cast(x, to).dtype == np.float16, to
    for to in ("float8_e4m3fn", ml_dtypes.float8_e4m3fn, np.dtype(ml_dtypes.float8_e4m3fn), 17):
        assert onnx_cast.cast(x, to).dtype == ml_dtypes.float8_e4m3fn, to
    for to, name in [(float, "double"), (int, "int64"), (bool, "bool"), (np.longlong, "int64"), (np.intc, "int32")]:
        assert dtypes.of(to) is getattr(dtypes, name)
        assert onnx_cast.cast(np.ones(2, to), to).dtype == getattr(dtypes, name).numpy


def test_attributes_and_opsets_decide():
    x = np.array([1e9, np.inf, 0.3], np.float32)
    assert bits(onnx_cast.cast(x, "float8e4m3fn")).tolist() == [0x7E, 0x7E, 0x2A]
    assert bits(onnx_cast.cast(x, "float8e4m3fn", saturate=False)).tolist() == [0x7F, 0x7F, 0x2A]
    assert bits(onnx_cast.cast(x, "float8e4m3fnuz", opset=19)).tolist() == [0x7F, 0x80, 0x32]
    assert bits(onnx_cast.cast(x, "float8e4m3fnuz")).tolist() == [0x7F, 0x7F, 0x32]
    scales = np.array([1.0, 1.5, 3.0, 1.1])
    powers = {mode: bits(onnx_cast.cast(scales, "e8m0", round_mode=mode)).tolist() for mode in ("up", "down", "nearest")}
    assert powers == {"up": [127, 128, 129, 128], "down": [127, 127, 128, 127], "nearest": [127, 128, 129, 127]}
    like = np.empty(0, ml_dtypes.float8_e8m0fnu)
    assert bits(onnx_cast.cast_like(scales, like, round_mode="down")).tolist() == powers["down"]


def test_each_value_is_rounded_once():
    # Each lies just beyond a tie, which a first rounding to float would move onto it.
    for value, to, want in [
        (1 + 2**-11 + 2**-40, "float16", 0x3C01),
        (1 + 2**-8 + 2**-40, "bfloat16", 0x3F81),
        (1 + 2**-4 + 2**-40, "float8e4m3fn", 0x39),
        (0.25 + 2**-40, "float4e2m1", 0x1),
    ]:
        assert bits(onnx_cast.cast(np.array(value), to)) == want, (value, to)
    assert bits(onnx_cast.cast(np.array(2**40 + 2**32 + 1), "bfloat16")) == 0x5381
    assert bits(onnx_cast.cast(np.array("1.00390626"), "bfloat16")) == 0x3F81


@pytest.mark.parametrize("narrow", NARROW, ids=str)
def test_pack_and_unpack_are_one_anothers_inverse(narrow):
    for count in (0, 1, 2, 3, 4, 5, 7, 8, 9, 4095, 4096, 4097, 10_000):
        x = some_of(narrow, count)
        packed = onnx_cast.pack(x)
        same(onnx_cast.unpack(packed, narrow, count), x)
        same(packed, onnx_cast.cast(x, narrow, packed=True))
        # The first element is in the low bits of the first byte, and so on; what is left over is zero.
        want = sum(int(one) << (i * narrow.bits) for i, one in enumerate(bits(x)))
        assert int.from_bytes(packed.tobytes(), "little") == want


@pytest.mark.parametrize("count", [100_000, 5_000_001])
@pytest.mark.parametrize("source, to", [("float", "int4"), ("int4", "float"), ("uint2", "float6e2m3"), ("double", "fp4"), ("float6e3m2", "float6e3m2")])
def test_large_arrays_of_narrow_types_are_cast_in_blocks(source, to, count):
    x = np.resize(some_of(dtypes.of(source), 9973), count)
    got = onnx_cast.cast(x, to)
    want = np.resize(onnx_cast.cast(x[:9973], to), count)
    same(got, want)
    packed = onnx_cast.cast(x, to, packed=True)
    same(onnx_cast.unpack(packed, to, count), want)
    if dtypes.of(to).bits < 8:
        same(onnx_cast.pack(want), packed)


@pytest.mark.parametrize("source, to", [("uint8", "int4"), ("int4", "int8"), ("float8e5m2", "float8e4m3fn"), ("bool", "float6e2m3")])
def test_new_results_of_many_bytes_are_cast_in_pieces(source, to):
    count = (33 << 20) + 5
    x = np.resize(some_of(dtypes.of(source), 9973), count)
    got, want = onnx_cast.cast(x, to), np.resize(onnx_cast.cast(x[:9973], to), count)
    assert np.array_equal(bits(got), bits(want))
    assert np.array_equal(bits(onnx_cast.cast(x, to, out=np.empty_like(got), threads=2)), bits(want))


def test_bit_cast_keeps_the_bits():
    x = np.array([1.0, -0.0, np.nan], np.float32)
    same(onnx_cast.bit_cast(x, "uint32"), x.view(np.uint32))
    same(onnx_cast.bit_cast(x.view(np.uint32), np.float32), x)
    same(onnx_cast.bit_cast(np.array([1 + 2j]), "complex128"), np.array([1 + 2j]))
    same(onnx_cast.bit_cast(np.array([1, -1], ml_dtypes.int4), "uint4"), np.array([1, 15], ml_dtypes.uint4))
    assert onnx_cast.bit_cast(np.arange(4, dtype=np.uint8), "int8", packed=True).tolist() == [0, 1, 2, 3]
    out = np.empty(3, np.int32)
    assert onnx_cast.bit_cast(x, "int32", out=out) is out
    # A signalling NaN stays one, also where the bytes are turned.
    snan = np.array([0x7F800001], np.uint32).view(np.float32)
    assert bits(onnx_cast.bit_cast(snan.byteswap().view(">f4"), "uint32")) == [0x7F800001]


def test_texts_come_and_go_as_every_kind_of_array():
    numbers = np.array([[1.0, -2.5], [1e10, np.inf]], np.float32)
    want = [["1", "-2.5"], ["10000000000", "INF"]]
    for to in ("string", 8, object, str, np.str_, "str", np.dtypes.StringDType(), np.dtype("U20")):
        got = onnx_cast.cast(numbers, to)
        assert got.tolist() == want and got.shape == (2, 2), to
    assert onnx_cast.cast(numbers, np.dtype("U20")).dtype == "U20"
    assert onnx_cast.cast(numbers, object).dtype == object
    assert onnx_cast.cast(numbers, "string").dtype == np.dtypes.StringDType()
    assert onnx_cast.cast(numbers, bytes).tolist() == [[one.encode() for one in row] for row in want]
    for dtype in (object, np.str_, np.bytes_, np.dtypes.StringDType()):
        texts = np.array(want).astype(dtype)
        same(onnx_cast.cast(texts, "float"), numbers, dtype)
        same(onnx_cast.cast(texts.T, "float"), np.ascontiguousarray(numbers.T), dtype)
        assert onnx_cast.cast(texts, "string").tolist() == want
        out = np.empty((2, 2), np.float32)
        assert onnx_cast.cast(texts, "float", out=out) is out
        same(out, numbers)
    out = np.empty((2, 2), object)
    assert onnx_cast.cast(numbers, "string", out=out) is out and out.tolist() == want
    assert bits(onnx_cast.cast(np.array(["1", "-1.5", "6"]), "fp4", packed=True)).tolist() == [0xB2, 0x07]
    same(onnx_cast.cast(np.array(["1", "-1.5"]), "fp4"), np.array([1, -1.5], ml_dtypes.float4_e2m1fn))
    assert onnx_cast.cast(np.array([1, -3], ml_dtypes.int4), "string").tolist() == ["1", "-3"]
    assert onnx_cast.cast(np.array("7"), "int8") == 7 and onnx_cast.cast(np.array([], str), "int8").shape == (0,)


def test_buffers_scalars_and_subclasses_give_arrays():
    same(onnx_cast.cast(b"\x00\x01\xff", "int8"), np.array([0, 1, -1], np.int8))
    same(onnx_cast.cast(array.array("d", [1.5, 2]), "float16"), np.array([1.5, 2], np.float16))
    same(onnx_cast.cast(memoryview(bytearray(4)).cast("f"), "double"), np.zeros(1))
    assert onnx_cast.cast(np.float32(1.5), "bfloat16") == ml_dtypes.bfloat16(1.5)
    assert type(onnx_cast.cast(np.float32(2.5), "int32")) is np.int32
    assert onnx_cast.cast(np.str_("2.5"), "float") == 2.5
    class Named(np.ndarray):
        pass

    assert type(onnx_cast.cast(np.ones(2).view(Named), "float16")) is np.ndarray


def test_objects_with_dlpack_are_lent_and_get_their_own_kind_back():
    class Tensor:
        def __init__(self, values):
            self.values = values

        def __dlpack__(self, **options):
            return self.values.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.values.__dlpack_device__()

        def __array_namespace__(self):
            return Namespace

    class Namespace:
        @staticmethod
        def from_dlpack(values):
            return Tensor(np.from_dlpack(values))

    x = Tensor(np.array([1.5, 2.5]))
    assert _kinds.array_of(x).ctypes.data == x.values.ctypes.data
    got = onnx_cast.cast(x, "float16")
    assert isinstance(got, Tensor)
    same(got.values, np.array([1.5, 2.5], np.float16))
    # numpy lends arrays of its own types only.
    same(onnx_cast.cast(x, "bfloat16"), np.array([1.5, 2.5], ml_dtypes.bfloat16))
