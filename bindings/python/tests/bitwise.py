"""Bits of arrays, for tests that compare nothing else."""

import numpy as np

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def bits(array):
    """The bit patterns of the elements, as unsigned integers; of complex numbers, pairs of them."""
    size = array.dtype.itemsize
    return np.ascontiguousarray(array).view(UNSIGNED[size] if size <= 8 else np.uint64)


def array_of(patterns, dtype):
    """The array with these bit patterns."""
    dtype = np.dtype(dtype)
    return np.asarray(patterns, np.uint64).astype(UNSIGNED[dtype.itemsize]).view(dtype)


def same(got, want, what=""):
    """Asserts equal types, shapes and bits."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    if got.dtype == object or got.dtype.kind in "USTO":
        assert got.tolist() == want.tolist(), what
        return
    wrong = np.flatnonzero(bits(got) != bits(want))
    if wrong.size:
        at = wrong[0]
        one = f"element {at}: got {bits(got).flat[at]:#x}, want {bits(want).flat[at]:#x}"
        raise AssertionError(f"{what}: {one} ({wrong.size} of {got.size} differ)")
