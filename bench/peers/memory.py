"""Memory to measure in, the same for everyone: on huge pages where the system has them, each page already touched."""

import ctypes
import mmap

import numpy

HUGE_PAGE = 2 << 20


class Arena:
    """Bytes from a page's start on."""

    def __init__(self, size):
        self.map = mmap.mmap(-1, size + HUGE_PAGE)
        self.map.madvise(mmap.MADV_HUGEPAGE)
        whole = numpy.frombuffer(self.map, numpy.uint8)
        start = -whole.ctypes.data % HUGE_PAGE
        self.bytes = whole[start : start + size]
        self.bytes.fill(1)
        self.address = self.bytes.ctypes.data

    def array(self, dtype, elements):
        """The first of its bytes, as numbers."""
        dtype = numpy.dtype(dtype)
        return self.bytes[: elements * dtype.itemsize].view(dtype)


class Peers:
    """The library of this folder: ours and the Rust peers, and what measuring them needs."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.touch.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.library.touch.restype = None
        self.library.backend.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        self.library.backend.restype = ctypes.c_size_t

    def function(self, name):
        """seconds(from, to, threads, source, target, elements, repeat), of ONNX's numbers and addresses."""
        function = getattr(self.library, f"cast_{name}")
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
        function.argtypes = [ctypes.c_int32, ctypes.c_int32, number, pointer, pointer, size, number]
        function.restype = ctypes.c_double
        return function

    def scaled(self):
        """seconds(from, to, how the scales lie, threads, source, target, scales, elements, columns, repeat)."""
        function = self.library.scaled_ours
        pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
        types = [ctypes.c_int32, ctypes.c_int32, number, number, pointer, pointer, pointer, size, size, number]
        function.argtypes = types
        function.restype = ctypes.c_double
        return function

    def touch(self, arena):
        self.library.touch(arena.address, arena.bytes.size)

    def backend(self):
        room = ctypes.create_string_buffer(32)
        length = self.library.backend(room, len(room))
        return room.raw[:length].decode()


def pack(codes, bits):
    """Codes of less than a byte, one to a byte, as ONNX packs them: from the low bits up."""
    spread = numpy.unpackbits(codes.view(numpy.uint8)[:, None], axis=1, bitorder="little")[:, :bits]
    return numpy.packbits(spread.reshape(-1), bitorder="little")


def unpack(data, bits, elements):
    """The codes that `pack` packed."""
    spread = numpy.unpackbits(data, bitorder="little")[: elements * bits].reshape(elements, bits)
    return numpy.packbits(spread, axis=1, bitorder="little")[:, 0]
