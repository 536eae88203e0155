#!/usr/bin/env python3
"""Does the C interface give the exact oracle's bits, for every pair of types?

Calls the shared library through ctypes: every pair of the oracle's `every-pair` tables by a function for one call and
by a plan, on every backend, into memory that is checked behind the result; strings by their two-call protocol; and
tensors of numpy's through DLPack. The oracle shares no code with the library. Takes the folder that `dist.py` made.
"""

import ctypes
import re
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "crates" / "testkit" / "python"))
from oracle_table import blocks  # noqa: E402

CANARY = 0xA5
# `up` is the default, which is 0 too.
ROUND_MODES = {"up": 0, "down": 2, "nearest": 3}


def structure(name, **fields):
    return type(name, (ctypes.Structure,), {"_fields_": [("size", c_size_t), *fields.items()]})


Options = structure(
    "Options", opset=c_int64, saturate=c_int32, round_mode=c_int32, threads=c_size_t, backend=c_char_p
)
Strings = structure("Strings", offsets=c_void_p, count=c_size_t, bytes=c_void_p, byte_count=c_size_t)
StringBuffer = structure("StringBuffer", offsets=c_void_p, bytes=c_void_p, room=c_size_t, needed=c_size_t)
SIGNATURES = {
    "abi_version": [],
    "last_error": [],
    "backend_name": [c_size_t],
    "type_name": [c_int32],
    "type_by_name": [c_char_p, POINTER(c_int32)],
    "byte_size": [c_int32, c_size_t, POINTER(c_size_t)],
    "cast": [c_int32, c_void_p, c_size_t, c_int32, c_void_p, c_size_t, POINTER(Options)],
    "plan_cast": [c_int32, c_int32, POINTER(Options), POINTER(c_void_p)],
    "plan_run": [c_void_p, c_void_p, c_size_t, c_void_p, c_size_t],
    "plan_free": [c_void_p],
    "to_strings": [c_int32, c_void_p, c_size_t, POINTER(StringBuffer), POINTER(Options)],
    "from_strings": [POINTER(Strings), c_int32, c_void_p, c_size_t, POINTER(Options)],
    "strings_to_strings": [POINTER(Strings), POINTER(StringBuffer), POINTER(Options)],
    "dlpack": [c_void_p, c_int32, POINTER(Options), POINTER(c_void_p)],
}
RESULTS = {"abi_version": ctypes.c_uint32, "last_error": c_char_p, "backend_name": c_char_p, "type_name": c_char_p}


class Library:
    """The functions of the C interface; a status that is not 0 is an exception."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        for name, arguments in SIGNATURES.items():
            function = getattr(library, f"onnx_cast_{name}")
            function.argtypes = arguments
            function.restype = RESULTS.get(name, None if name == "plan_free" else c_int)
            if function.restype is c_int:
                function.errcheck = self.check
            setattr(self, name, function)
        # An index that ends the list ends the loop.
        self.backends = [name for i in range(8) if (name := self.backend_name(i))]

    def check(self, status, function, arguments):
        if status:
            raise RuntimeError(f"{function.__name__}: {status}: {self.last_error().decode()}")

    def number(self, name):
        number = c_int32()
        self.type_by_name(name.encode(), byref(number))
        return number.value

    def bytes_of(self, number, count):
        size = c_size_t()
        self.byte_size(number, count, byref(size))
        return size.value


def packed(patterns, bits):
    """The bytes of elements: little endian, from the low bits up."""
    if bits >= 8:
        return patterns.astype(f"<u{bits // 8}").view(np.uint8)
    spread = (patterns[:, None] >> np.arange(bits, dtype=np.uint64)) & np.uint64(1)
    return np.packbits(spread.astype(np.uint8).reshape(-1), bitorder="little")


def width(name):
    """An element's bits, by the type's name."""
    return {"float": 32, "double": 64, "bool": 8}.get(name) or int(re.match(r"[a-z]+(\d+)", name)[1])


def differ(got, want, what):
    wrong = np.flatnonzero(got != want)
    if wrong.size:
        sys.exit(f"{what}: {wrong.size} of {want.size} bytes differ, the first at {wrong[0]}")


def check_casts(library, words, rows, backend):
    """One block of the oracle's, by a plan and by a call, in memory with a canary behind the result."""
    from_, to, version, saturate, mode = words[1:-1]
    source, result = (packed(patterns, width(name)) for patterns, name in zip(rows, (from_, to), strict=True))
    count = len(rows[0])
    saturate, mode = 2 if saturate == "false" else 0, ROUND_MODES[mode]
    options = Options(ctypes.sizeof(Options), int(version), saturate, mode, 1, backend)
    numbers = library.number(from_), library.number(to)
    assert library.bytes_of(numbers[0], count) == source.size and library.bytes_of(numbers[1], count) == result.size
    plan = c_void_p()
    library.plan_cast(*numbers, byref(options), byref(plan))
    want = np.concatenate([result, np.full(8, CANARY, np.uint8)])
    given = (source.ctypes.data, count)
    for run in (
        lambda out: library.plan_run(plan, *given, out, want.size),
        lambda out: library.cast(numbers[0], *given, numbers[1], out, result.size, byref(options)),
    ):
        out = np.full(want.size, CANARY, np.uint8)
        run(out.ctypes.data)
        differ(out, want, f"{' '.join(words)} on {backend.decode()}")
    library.plan_free(plan)


def texts_of(texts):
    """Strings as the interface takes them, with what they refer to."""
    encoded = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.uint64)
    data = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
    strings = Strings(ctypes.sizeof(Strings), offsets.ctypes.data, len(encoded), data.ctypes.data, int(offsets[-1]))
    return strings, (offsets, data)


def buffered(call, count):
    """The strings of a call: asked for their size first, and then for themselves."""
    out = StringBuffer(ctypes.sizeof(StringBuffer))
    call(out)
    offsets, data = np.zeros(count + 1, np.uint64), np.zeros(max(out.needed, 1), np.uint8)
    out = StringBuffer(out.size, offsets.ctypes.data, data.ctypes.data, out.needed, 0)
    call(out)
    assert out.needed == offsets[-1]
    text = data.tobytes()
    return [text[offsets[i] : offsets[i + 1]].decode() for i in range(count)]


def check_prints(library, name, rows):
    """Numbers to strings; and the strings to strings."""
    number, want = library.number(name), [text for _, text in rows]
    source = packed(np.array([int(pattern, 16) for pattern, _ in rows], np.uint64), width(name))
    got = buffered(lambda out: library.to_strings(number, source.ctypes.data, len(rows), byref(out), None), len(rows))
    assert got == want, f"{name} to string"
    strings, _kept = texts_of(want)
    got = buffered(lambda out: library.strings_to_strings(byref(strings), byref(out), None), len(rows))
    assert got == want, "string to string"


def check_readings(library, name, rows):
    """Strings to numbers."""
    strings, _kept = texts_of([text for text, _ in rows])
    want = packed(np.array([int(pattern, 16) for _, pattern in rows], np.uint64), width(name))
    out = np.full(want.size, CANARY, np.uint8)
    library.from_strings(byref(strings), library.number(name), out.ctypes.data, out.size, None)
    differ(out, want, f"string to {name}")


class Capsule:
    """A DLPack tensor of the library's, as numpy takes one."""

    def __init__(self, pointer):
        self.pointer = pointer

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, **_):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
        return new(self.pointer, b"dltensor_versioned", None)


def check_dlpack(library):
    """numpy's arrays in, and arrays for numpy out."""
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = c_void_p, [ctypes.py_object, c_char_p]
    whole = np.arange(-60, 60, dtype=np.float64).reshape(4, 5, 6) * 1.75
    for array in (whole, whole[::2, ::-1], whole.T, whole[1, 2, 3, ...], whole[:, :0], np.asfortranarray(whole)):
        for name, dtype in {"int16": np.int16, "float16": np.float16, "int64": np.int64}.items():
            capsule = array.__dlpack__(max_version=(1, 0))
            result = c_void_p()
            source = pointer_of(capsule, b"dltensor_versioned")
            library.dlpack(source, library.number(name), None, byref(result))
            got = np.from_dlpack(Capsule(result.value))
            want = array.astype(dtype)
            assert got.dtype == want.dtype and got.shape == want.shape, (got, want)
            assert got.tobytes() == want.tobytes() and got.flags.writeable, name


def main():
    folder = Path(sys.argv[1]).resolve()
    library = Library(next(path for path in (folder / "lib").iterdir() if path.is_symlink()))
    pairs, compared = set(), 0
    for words, rows in blocks("every-pair"):
        compared += len(rows[0]) if words[0] == "cast" else len(rows)
        if words[0] == "cast":
            pairs.add((words[1], words[2]))
            for backend in library.backends:
                check_casts(library, words, rows, backend)
        elif words[0] == "print":
            pairs |= {(words[1], "string"), ("string", "string")}
            check_prints(library, words[1], rows)
        else:
            pairs.add(("string", words[1]))
            check_readings(library, words[1], rows)
    check_dlpack(library)
    print(f"{len(pairs)} pairs, {compared} values, {len(library.backends)} backends: the oracle's bits")
    types = {one for pair in pairs for one in pair}
    if pairs != {(source, to) for source in types for to in types} or "string" not in types:
        sys.exit("a pair of types was not compared")


if __name__ == "__main__":
    main()
