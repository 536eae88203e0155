"""Calls of the Python package whose results depend on the float environment if its arithmetic does. Prints a digest of
each result as JSON, for float_environment.py. Inputs are bits: numpy's arithmetic depends on the environment."""

import hashlib
import json
import struct
import tempfile
from pathlib import Path

import numpy as np
import onnx_cast as oc


def number(bits):
    """A number by its bits: how Python reads a decimal depends on the environment, too."""
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


# 1e-41, 0.037, 0.1, 0.3 and 1e-310.
BITS = [0x376be03d0bf225c7, 0x3fa2f1a9fbe76c8b, 0x3fb999999999999a, 0x3fd3333333333333, 0x000012688b70e62b]
TINY, SMALL, TENTH, THIRD, SUBNORMAL = map(number, BITS)


def digest(value):
    """A digest of arrays, texts and numbers, by their bits."""
    if isinstance(value, (np.ndarray, np.generic)):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16] + str(np.shape(value))
    if isinstance(value, oc.Quantized):
        return digest((value.elements, value.scales, value.global_scale))
    if isinstance(value, (list, tuple)):
        return [digest(one) for one in value]
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()[:16]
    return value.hex() if isinstance(value, float) else repr(value)


def arrays():
    """Subnormals; numbers of all fractions around 1; and numbers next to the smallest normal one."""
    count = np.arange(4096, dtype=np.uint32)
    bits = {
        "subnormal": count * 1997 | (count % 3 == 1).astype(np.uint32) << 31,
        "inexact": 0x3F000000 + count * 7919 | (count % 5 == 1).astype(np.uint32) << 31,
        "tiny": 0x00800000 + count * 3001,
    }
    return {name: values.astype(np.uint32).view(np.float32).reshape(32, 128) for name, values in bits.items()}


def calls(x, folder):
    """Each call by its name."""
    codes = (np.arange(4096) % 251 - 125).astype(np.int8).reshape(32, 128)
    ragged = np.ascontiguousarray(x[:, :31])
    for scale in (TINY, SMALL, [TENTH] * 128, np.float64(THIRD)):
        name = scale if not isinstance(scale, list) else "list"
        yield f"quantize_linear {name}", lambda: oc.quantize_linear(x, scale, output_dtype="int8")
        yield f"dequantize_linear {name}", lambda: oc.dequantize_linear(codes, scale)
        yield f"dequantize_linear {name} to float16", lambda: oc.dequantize_linear(codes, scale, output_dtype="float16")
    for index, zero_point in enumerate((3, 3.0, -0.0, SUBNORMAL, 2.5)):
        yield f"zero point {index}", lambda: oc.quantize_linear(x, SMALL, zero_point)
        yield f"float8 zero point {index}", lambda: oc.quantize_linear(
            x, SMALL, zero_point, output_dtype="float8e4m3fn"
        )
    yield "dynamic_quantize_linear", lambda: oc.dynamic_quantize_linear(x)
    yield "dynamic_quantize_linear, strided", lambda: oc.dynamic_quantize_linear(x[:, ::2])
    for source in (x, ragged):
        for recipe in ("modelopt", "torchao", "compressed-tensors"):
            yield f"nvfp4 {recipe} {source.shape}", lambda: oc.quantize_blocks(source, "nvfp4", recipe=recipe)
            yield f"nvfp4 {recipe} {source.shape} back", lambda: oc.quantize_blocks(
                source, "nvfp4", recipe=recipe
            ).dequantize("float16")
        for rule in ("floor", "rceil", "ceil", "even"):
            yield f"mxfp4 {rule} {source.shape}", lambda: oc.quantize_blocks(source, "mxfp4", scale_rule=rule)
    for to in ("float16", "bfloat16", "float8e4m3fn", "double", "int8", "string"):
        yield f"cast to {to}", lambda: oc.cast(x, to) if to != "string" else repr(oc.cast(x, to))
    texts = np.array(["0.1", "1e-41", "3.4028235677973366e38", "0.30000000000000004"], np.dtypes.StringDType())
    for to in ("float", "double", "float16"):
        yield f"texts to {to}", lambda: oc.cast(texts, to)
    yield "stats", lambda: repr(oc.stats(x, "float8e4m3fn"))
    yield "report", lambda: repr(oc.report(x, ["float16", "nvfp4", "int4"]))
    for to in ("int8", "nvfp4", "mxfp4"):
        quantized, back = folder / f"{to}.safetensors", folder / f"{to}-back.safetensors"
        yield f"quantize_file {to}", lambda: written(oc.quantize_file, folder / "w.safetensors", quantized, to)
        yield f"dequantize_file {to}", lambda: written(oc.dequantize_file, quantized, back, "float16")
    yield "cast_file", lambda: written(oc.cast_file, folder / "w.npy", folder / "c.npy", "float16")


def written(job, source, out, to):
    """The file that a job writes."""
    out.unlink(missing_ok=True)
    job(source, out, to)
    return out.read_bytes()


def main():
    # 1 + 1.5 * 2^-53 is rounded up where it is rounded to nearest, as its negative is down; the product is subnormal.
    one, more, least = (np.array([bits], np.uint64).view(np.float64) for bits in (0x3FF << 52, 0x3CA8 << 48, 1 << 52))
    probe = [one + more, -one - more, least * (one / 2)]
    is_foreign = [int(word.view(np.uint64)[0]) for word in probe] != [(0x3FF << 52) + 1, (0xBFF << 52) + 1, 1 << 51]
    found = {"is foreign": is_foreign}
    with tempfile.TemporaryDirectory() as folder:
        for name, x in arrays().items():
            folder = Path(folder)
            np.save(folder / "w.npy", x)
            header = {"l.weight": {"dtype": "F32", "shape": x.shape, "data_offsets": [0, x.nbytes]}}
            header = json.dumps(header).encode()
            (folder / "w.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + x.tobytes())
            for call, function in calls(x, folder):
                try:
                    found[f"{name}: {call}"] = digest(function())
                except oc.CastError as error:
                    found[f"{name}: {call}"] = type(error).__name__
    print(json.dumps(found))


if __name__ == "__main__":
    main()
