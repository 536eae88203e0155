"""Numbers read from arrays of numpy's StringDType, whose texts are taken from numpy's memory."""

import threading
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from bitwise import same

import onnx_cast

# Texts that numpy stores in the element, in the arena, and in the arena with a length of more than a byte.
LENGTHS = ["1.5", "-0.25", "0.1250000000000000", "2." + "0" * 300, "", "1e3"]
BLOCK = 4096


def strings(texts, **missing):
    return np.array(texts, np.dtypes.StringDType(**missing))


def test_texts_of_every_length_are_read():
    texts = [text for text in LENGTHS if text]
    want = np.array([1.5, -0.25, 0.125, 2, 1000], np.float32)
    same(onnx_cast.cast(strings(texts), "float"), want)
    with pytest.raises(onnx_cast.CastError, match='element 4: "" is not a number'):
        onnx_cast.cast(strings(LENGTHS), "float")


@pytest.mark.parametrize("to", ["float", "double", "float16", "bfloat16", "float8e4m3fn", "float8e8m0", "float6e2m3",
                                "fp4", "int4", "uint2", "int64", "uint8", "bool"])  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_arrays_give_what_lists_of_the_same_texts_give(to, packed):
    texts = [("0", "1")[i % 2] for i in range(2 * BLOCK + 5)]
    if to.startswith(("float", "double", "bfloat")):
        texts = [str(i % 97 / 8) for i in range(2 * BLOCK + 5)]
    want = onnx_cast.cast(np.array(texts, object), to, packed=packed)
    same(onnx_cast.cast(strings(texts), to, packed=packed), want)
    out = np.empty_like(want)
    assert onnx_cast.cast(strings(texts), to, out=out, packed=packed) is out
    same(out, want)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x.reshape(2, 3).T,
        lambda x: x.reshape(3, 2)[:, 1],
        lambda x: np.broadcast_to(x[:1], (3, 2)),
        lambda x: x[:0],
        lambda x: x[:0].reshape(0, 7),
        lambda x: x[1:2].reshape(()),
        lambda x: x[2:],
        lambda x: np.asfortranarray(x.reshape(2, 3)),
    ],
)
def test_arrays_of_any_strides_are_read(view):
    numbers = np.array([1.5, 2, 3, -4, 5, 6])
    texts = strings(["1.5", "2", "3." + "0" * 40, "-4", "5", "6"])
    same(onnx_cast.cast(view(texts), "double"), np.ascontiguousarray(view(numbers)).reshape(view(numbers).shape))


def test_subclasses_give_arrays():
    class Named(np.ndarray):
        def copy(self, order="C"):
            raise AssertionError("the class's own methods are not called")

    got = onnx_cast.cast(strings(["1", "2", "3"]).view(Named)[::2], "float")
    assert type(got) is np.ndarray
    same(got, np.array([1, 3], np.float32))
    masked = np.ma.MaskedArray(strings(["1"]), [True])
    with pytest.raises(TypeError, match="masked"):
        onnx_cast.cast(masked, "float")


@pytest.mark.parametrize("missing", [None, np.nan, float("inf")])
def test_a_missing_text_is_an_error_that_names_the_element(missing):
    texts = strings(["1", "2"] * BLOCK + [missing, "x"], na_object=missing)
    for work in (onnx_cast.cast, onnx_cast.stats):
        with pytest.raises(onnx_cast.CastError, match=f"element {2 * BLOCK} is missing: it is {missing!r} "):
            work(texts, "float")
    same(onnx_cast.cast(texts[: 2 * BLOCK], "int8"), np.array([1, 2] * BLOCK, np.int8))


def test_a_missing_text_that_is_a_text_is_read_as_it():
    texts = strings(["1", "nan", "2"], na_object="nan")
    same(onnx_cast.cast(texts, "float"), np.array([1, np.nan, 2], np.float32))
    texts = strings(["1", "gone"], na_object="gone")
    with pytest.raises(onnx_cast.CastError, match='element 1: "gone" is not a number'):
        onnx_cast.cast(texts, "float")


def test_errors_name_elements_of_the_array_and_leave_out_as_it_was():
    texts = ["1"] * (3 * BLOCK)
    texts[2 * BLOCK + 7] = "1x"
    out = np.full(len(texts), 5, np.float32)
    for given in (None, out):
        with pytest.raises(onnx_cast.CastError, match=f'element {2 * BLOCK + 7}: "1x" is not a number'):
            onnx_cast.cast(strings(texts), "float", out=given)
    assert (out == 5).all()
    with pytest.raises(onnx_cast.CastError, match="shape"):
        onnx_cast.cast(strings(["1", "2"]), "float", out=np.empty(3, np.float32))


def test_stats_of_texts_are_those_of_a_list_of_them():
    texts = ["1", "1000", "1e-9", "0.3", "inf"]
    assert onnx_cast.stats(strings(texts), "float8e4m3fn") == onnx_cast.stats(np.array(texts, object), "float8e4m3fn")
    assert onnx_cast.stats(strings(texts)[::2], "float8e4m3fn").values == 3


def test_uninitialised_elements_are_empty_texts():
    with pytest.raises(onnx_cast.CastError, match='element 0: "" is not a number'):
        onnx_cast.cast(np.empty(2, np.dtypes.StringDType()), "float")


def test_threads_read_an_array_while_others_write_it():
    texts = strings([f"{i}.5" for i in range(20_000)])
    want, done = np.arange(20_000) + 0.5, threading.Event()

    def write():
        while not done.is_set():
            texts[::100] = texts[::100]

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with ThreadPoolExecutor(4) as pool:
            for got in pool.map(lambda _: onnx_cast.cast(texts, "double"), range(16)):
                same(got, want)
    finally:
        done.set()
        writer.join()


def test_elements_of_dtypes_that_share_texts_are_independent():
    first = strings(["1", "a text too long for its element, 2"])
    second = first.copy()
    second[1] = "2"
    same(onnx_cast.cast(second, "int4"), np.array([1, 2], ml_dtypes.int4))
    with pytest.raises(onnx_cast.CastError, match="element 1"):
        onnx_cast.cast(first, "int4")
