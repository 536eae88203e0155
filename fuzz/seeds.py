#!/usr/bin/env python3
"""Writes what fuzzing starts from into a folder for each target: `fuzz/seeds.py FOLDER`.

Files are real ones: those that numpy, onnx and safetensors wrote for the tests of the file crate, ONNX's own test cases,
the example checkpoint, and magika's model with its weights cut short. Plans of cases are written by hand or by a fixed
random generator.
"""

import hashlib
import io
import json
import random
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx

# ONNX's types, and how many of them are numeric.
TYPES = [name for name in onnx.TensorProto.DataType.keys() if name != "UNDEFINED"]
NUMERIC = sum(name not in ("STRING", "COMPLEX64", "COMPLEX128") for name in TYPES)

# Of the tensors that go round, and whether they are written as plain `.npy`.
SHAPES = [(1, [3, 4]), (0, []), (0, [0, 5]), (1, [7]), (0, [2, 1, 3, 2])]

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "crates" / "onnx-cast-file" / "tests" / "fixtures"
ONNX_CASES = ROOT / ".cache" / "onnx-cases"
SITE = Path(onnx.__file__).parent.parent
MAGIKA = SITE / "magika" / "models" / "standard_v3_3" / "model.onnx"

# A larger input slows the fuzzer more than it shows.
MOST_BYTES = 4096

# The order of `NAMES` in fuzz/targets/src/command.rs.
NAMES = ["x.pb", "x.npy", "x.npz", "x.safetensors", "x.onnx", "x.bin", "x.safetensors.index.json", "rules"]

INDEX = {
    "metadata": {"total_size": 36, "made by": "hand"},
    "weight_map": {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"},
}

# The order of `NAMES` in fuzz/targets/src/checkpoint.rs.
PARTS = ["config.json", "hf_quant_config.json", "model.safetensors.index.json", "a.safetensors", "b.safetensors"]

RULES = """\
# the embeddings
emb.*=bf16
layer.[0-9]*.{q,k,v}_proj.weight = float8e4m3fn
re:^layer\\.(\\d+)\\.norm\\.(weight|bias)$=keep
*?.weight=float16
a=b=int4
ü*=uint2
"""

TEXTS = [
    "0 -0 1 +1 -1 0.1 .5 5. 1e5 1E-5 1e+308 1.7976931348623157e308 1e309 4.9e-324 2.4703282292062328e-324 1e-400",
    "inf -INF Infinity nan NaN -nan true False TRUE",
    "127 128 -128 -129 255 256 32767 65535 2147483647 4294967296 9223372036854775807 -9223372036854775808",
    "18446744073709551615 18446744073709551616 100.5 1e3 00012 0.9999999999999999999 2.5 3.5 7.5 -8 15 16",
    "1.00048828126 1.00000017881393432617187499 1.00390626 65519.999999999999999 65520 448 464 464.01 57344 61440",
    "123456789012345678901234567890123456789012345678901234567890e-40 0.000000000000000000000000000000000001",
    "12abc 0x10 1_000 1,000 e5 . - +- 1e 1e+ --1 1.2.3 ١٢ 1\u00a0",
]

COMMANDS = [
    "cast x.npy y.pb --to float16",
    "cast x.npy y.npy --to float8e4m3fn --saturate false --opset 24 --stats",
    "cast x.npy y.npy --to float8e8m0 --round-mode nearest --from uint8 --npy-plain -q",
    "cast x.safetensors y.safetensors --to bf16 --exclude *norm* --min-elements 2 --rule *.w=int4 --json",
    "cast x.safetensors y.safetensors --rules-file rules --fail-on overflow,nan,subnormal,underflow",
    "cast x.safetensors x.safetensors --to float --include re:w$ --dry-run",
    "cast x.npz y.npz --to double --stats",
    "cast x.npz y.safetensors --to int8",
    "cast x.pb y.bin --to string",
    "cast x.bin y.npy --from float --shape 2,2 --to bfloat16",
    "cast - - --to float16",
    "cast - y.pb --to uint4 --from int64",
    "cast x.onnx y.onnx --to float16 --min-elements 1 --raise-opset --external-data y.bin --external-threshold 8",
    "cast x.onnx x.onnx --to float4e2m1 --min-elements 0 --raise-opset --stats --json",
    "cast x.safetensors.index.json out --to float16 --resume",
    "dequantize x.safetensors y.safetensors --to bf16 --layout compressed-tensors --allow-nan",
    "dequantize x.safetensors.index.json out --to float16 --fail-on overflow --exclude *.a --json",
    "bitcast x.npy y.pb --to int32",
    "bitcast x.safetensors y.safetensors --to uint16 --opset 26 --json",
    "fold x.onnx y.onnx",
    "fold x.onnx x.onnx --dry-run --json --include y --exclude re:z",
    "fold x.onnx y.onnx --external-data d -q",
    "run x.onnx --input x=x.npy --output y=y.npy",
    "run x.onnx --input x.pb --output y.safetensors --npy-plain",
    "info x.safetensors --stats --json",
    "info x.onnx --stats",
    "info x.npz --from float8e5m2",
    "diff x.npy x.pb --tolerance 1e-6",
    "diff x.safetensors y.safetensors -q",
    "report x.safetensors --to float16,bfloat16,float8e4m3fn --top 0 --json",
    "report x.onnx --to float8e5m2 --html r.html --min-elements 1",
    "types --json",
    "explain 0.3 --from float --to float8e4m3fn",
    "explain 0.3 --from float --all",
    "explain 0x3f80 --from bfloat16 --to float16 --json",
    "explain -inf --to float8e8m0 --saturate false --round-mode down",
    "explain 1e9 --from double --to int16",
    "completions bash",
    "help cast",
    "--version",
]


def unhex(text: str) -> bytes:
    return b"" if text == "-" else bytes.fromhex(text)


def table(name: str) -> dict[str, bytes]:
    """The files of a table of fixtures, the last column, by their names."""
    lines = [line.split(" ") for line in (FIXTURES / name).read_text().splitlines()]
    return {line[0]: unhex(line[-1]) for line in lines}


def example() -> bytes:
    """The example checkpoint with as many of its tensors as there is room for, each cut to a few elements."""
    data = (ROOT / "examples" / "weights.safetensors").read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    body, cut, elements = data[8 + int.from_bytes(data[:8], "little") :], {}, b""
    for name, entry in list(header.items())[:6]:
        if name == "__metadata__":
            cut[name] = entry
            continue
        start, end = entry["data_offsets"]
        size = (end - start) // max(1, int(np.prod(entry["shape"])))
        few = body[start : min(end, start + 24 * size)]
        cut[name] = {**entry, "shape": [len(few) // size], "data_offsets": [len(elements), len(elements) + len(few)]}
        elements += few
    text = json.dumps(cut).encode()
    return len(text).to_bytes(8, "little") + text + elements


def magika() -> bytes:
    """magika's model: its first nodes, and their weights cut short."""
    model = onnx.load(MAGIKA)
    graph = model.graph
    del graph.node[24:]
    read = {name for node in graph.node for name in node.input}
    weights = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    for tensor in weights:
        values = onnx.numpy_helper.to_array(tensor).ravel()[:16]
        graph.initializer.append(onnx.numpy_helper.from_array(values, tensor.name))
    del graph.value_info[:]
    return model.SerializeToString()


def archives(arrays: dict[str, bytes]) -> list[bytes]:
    """Archives as numpy makes them, and arrays to be put into one."""
    found = []
    values = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(["x", "yz"]), "c": np.float64(0.3)}
    for save in (np.savez, np.savez_compressed):
        out = io.BytesIO()
        save(out, **values)
        found.append(b"\0" + out.getvalue())
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("x.npy", arrays["float_big"])
        archive.writestr("x.txt", b"no array")
    found.append(b"\0" + out.getvalue())
    for index, array in enumerate(arrays.values()):
        found.append(bytes([1 + index % 2]) + struct.pack("<H", len(array)) + array)
    pair = arrays["float"], arrays["fortran_3d"]
    found.append(b"\2" + b"".join(struct.pack("<H", len(array)) + array for array in pair))
    return found


def commands(files: dict[str, bytes]) -> list[bytes]:
    """Command lines, with the files that they name."""
    found = []
    for line in COMMANDS:
        arguments = line.split(" ")
        wanted = [name for name in NAMES if any(name in argument for argument in arguments)]
        if "index.json" in line:
            wanted.append("x.safetensors")
        if "-" in arguments:
            wanted = ["x.npy"]
        pieces = b"".join(bytes([NAMES.index(name)]) + struct.pack("<H", len(files[name])) + files[name] for name in wanted)
        found.append("\n".join(arguments).encode() + b"\0" + pieces)
    return found


def scaled(rng: random.Random, choices: list[tuple[int, ...]]) -> list[bytes]:
    """Scaled casts: the types and what else is chosen, then shapes and attributes at random, then values."""
    values = [0.0, -0.0, 0.5, -1.5, 2.5, 0.1, -0.3, 7.0, 127.5, 448.0, 65520.0, 1e-30, 3e38, float("inf"), float("nan")]
    found = []
    for chosen in choices:
        numbers = struct.pack("<6f", *rng.sample(values, 6)) + rng.randbytes(rng.choice([4, 24]))
        # A newest opset, a tensor of rank 1 to 3, an axis of its, any granularity.
        rank = rng.randrange(1, 4)
        plan = [1, rank, *[rng.choice([1, 2, 3, 4, 5, 6]) for _ in range(rank)], rng.randrange(1, 8), rng.randrange(2 * rank)]
        found.append(bytes([*chosen, *plan, *[rng.randrange(256) for _ in range(3)]]) + numbers)
        found.append(bytes(chosen) + rng.randbytes(rng.choice([12, 20])) + numbers)
    return found


def safetensors(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    """A file of tensors: type, shape and bytes of each."""
    header, data = {}, b""
    for name, (kind, shape, elements) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(elements)]}
        data += elements
    text = json.dumps(header, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + data


def checkpoints(rng: random.Random) -> list[bytes]:
    """Quantized checkpoints of every layout, of one file or of two with an index."""

    def codes(kind: str, *shape: int) -> tuple[str, list[int], bytes]:
        sizes = {"I32": 4, "F32": 4, "BF16": 2}
        return kind, list(shape), bytes(rng.randrange(0x78) for _ in range(int(np.prod(shape)) * sizes.get(kind, 1)))

    def floats(*shape: int) -> tuple[str, list[int], bytes]:
        return "F32", list(shape), np.array([rng.uniform(1e-4, 2e-4) for _ in range(int(np.prod(shape)))], "<f4").tobytes()

    def groups(bits: int, kind: str, size: int) -> dict:
        weights = {"num_bits": bits, "type": kind, "group_size": size}
        return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}

    def longs(*values: int) -> tuple[str, list[int], bytes]:
        return "I64", [len(values)], struct.pack(f"<{len(values)}q", *values)

    fp8 = {"quant_method": "fp8", "weight_block_size": [4, 4]}
    # What the configuration says, then the tensors of the first file and those of the second.
    known = [
        (fp8, {"a.weight": codes("F8_E4M3", 6, 7), "n": codes("BF16", 3)}, {"a.weight_scale_inv": floats(2, 2)}),
        (fp8, {"a.weight": codes("F8_E4M3", 4, 4), "a.scale": codes("F8_E8M0", 1, 1), "b.weight": codes("I8", 2, 32)}, {"b.scale": codes("F8_E8M0", 2, 2)}),
        ({"quant_method": "mxfp4"}, {"e.gate_up_proj_blocks": codes("U8", 2, 3, 2, 16), "e.gate_up_proj_scales": codes("U8", 2, 3, 2)}, {}),
        (groups(8, "float", 0), {"a.weight": codes("F8_E4M3", 3, 5), "a.weight_scale": floats(3, 1), "a.input_scale": floats(1)}, {}),
        (groups(4, "float", 16), {"a.weight_packed": codes("U8", 2, 16), "a.weight_scale": codes("F8_E4M3", 2, 2), "a.weight_global_scale": ("F32", [1], struct.pack("<f", 5000))}, {}),
        (groups(6, "float", 32), {"a.weight_packed": codes("U8", 2, 24), "a.weight_scale": codes("U8", 2, 1)}, {}),
        (
            groups(4, "int", 16),
            {"a.weight_packed": codes("I32", 9, 4), "a.weight_scale": floats(9, 2), "a.weight_shape": longs(9, 32)},
            {"a.weight_zero_point": codes("I32", 2, 2), "a.weight_g_idx": ("I32", [32], struct.pack("<32i", *[1, 0] * 16))},
        ),
        (groups(3, "int", 16), {"a.weight_packed": codes("I32", 2, 2), "a.weight_scale": floats(2, 2), "a.weight_shape": longs(2, 20)}, {}),
        (groups(8, "int", 16), {"a.weight": codes("I8", 2, 20), "a.weight_scale": floats(2, 2), "a.weight_zero_point": codes("I8", 2, 2)}, {}),
        ({"quant_algo": "MIXED_PRECISION"}, {"a.weight": codes("U8", 2, 8), "a.weight_scale": codes("F8_E4M3", 2, 1), "a.weight_scale_2": floats()}, {}),
        (
            {"quant_method": "modelopt", "quant_algo": "NVFP4"},
            {"e.down_proj": codes("U8", 2, 8, 3), "e.down_proj_weight_scale": codes("F8_E4M3", 2, 1, 3)},
            {"e.down_proj_weight_scale_2": floats(2)},
        ),
        ({"quant_method": "fbgemm_fp8"}, {"e.down_proj": codes("F8_E4M3", 2, 3, 4), "e.down_proj_scale": floats(2, 1, 4)}, {}),
        ({"quant_method": "quark"}, {"a.weight": codes("U8", 2, 16), "a.weight_scale": codes("U8", 2, 1)}, {}),
        (None, {"a.weight": codes("F8_E5M2", 2, 3), "a.scale_weight": floats(), "scaled_fp8": codes("F8_E4M3", 0)}, {}),
    ]
    found = []
    for index, (config, first, second) in enumerate(known):
        files = {}
        if config is not None:
            files["config.json"] = json.dumps({"dtype": "bfloat16", "quantization_config": config}).encode()
        if config == {"quant_algo": "MIXED_PRECISION"}:
            layers = {"a": {"quant_algo": "NVFP4", "group_size": 16}}
            quantization = {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}
            files["hf_quant_config.json"] = json.dumps({"quantization": quantization}).encode()
        files["a.safetensors"] = safetensors(first)
        if second:
            files["b.safetensors"] = safetensors(second)
            places = {name: "a.safetensors" for name in first} | {name: "b.safetensors" for name in second}
            files["model.safetensors.index.json"] = json.dumps({"weight_map": places}).encode()
        pieces = [bytes([PARTS.index(name)]) + struct.pack("<H", len(file)) + file for name, file in files.items()]
        found.append(bytes([index % 4]) + b"".join(pieces))
    return found


def gguf(tensors: list[tuple[str, list[int], int, bytes]], metadata: bytes = b"", entries: int = 0, version: int = 3) -> bytes:
    """A .gguf file of tensors with names, dimensions, types and bytes."""
    head, data = b"", b""
    for name, dims, kind, blocks in tensors:
        head += struct.pack("<Q", len(name)) + name.encode()
        head += struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, len(data))
        data += blocks + bytes(-len(blocks) % 32)
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), entries) + metadata + head
    return head + bytes(-len(head) % 32) + data


def ggufs(rng: random.Random) -> list[bytes]:
    # Types with the elements and bytes of a block.
    blocks = [(0, 1, 4), (1, 1, 2), (2, 32, 18), (3, 32, 20), (6, 32, 22), (7, 32, 24), (8, 32, 34), (10, 256, 84)]
    blocks += [(11, 256, 110), (12, 256, 144), (13, 256, 176), (14, 256, 210), (15, 256, 292), (23, 256, 136)]
    blocks += [(24, 1, 1), (28, 1, 8), (30, 1, 2), (39, 32, 17), (40, 64, 36)]
    found = [gguf([("w", [elements, 2], kind, rng.randbytes(2 * size))]) for kind, elements, size in blocks]
    scales = ("a.scale", [3], 0, struct.pack("<3f", 0.5, -1, 2))
    found.append(gguf([("a.weight", [64, 1, 3], 40, rng.randbytes(108)), scales]))
    text = struct.pack("<Q", 20) + b"general.architecture" + struct.pack("<IQ", 8, 5) + b"llama"
    align = struct.pack("<Q", 17) + b"general.alignment" + struct.pack("<II", 4, 32)
    tokens = struct.pack("<Q", 1) + b"t" + struct.pack("<IIQQ", 9, 8, 2, 1) + b"x" + struct.pack("<Q", 0)
    numbers = struct.pack("<Q", 1) + b"n" + struct.pack("<IIQ2d", 9, 12, 2, 0.5, 1)
    found.append(gguf([("w", [32], 8, rng.randbytes(34))], text + align + tokens + numbers, 4, 2))
    return found


def seeds() -> dict[str, list[bytes]]:
    rng = random.Random(7)
    arrays, tensors, models = table("npy.txt"), table("pb.txt"), table("models.txt")
    files = table("safetensors.txt")
    refused = table("refused.txt")
    arrays_refused = [file for name, file in refused.items() if name.endswith(".npy")]
    tensors_refused = [file for name, file in refused.items() if name.endswith(".pb")]
    cases = {path.read_bytes() for path in ONNX_CASES.glob("*/*/model.onnx")}
    outputs = {path.read_bytes() for path in ONNX_CASES.glob("*/*/*/*.pb")}
    index = json.dumps(INDEX).encode()
    one_file = {
        "x.pb": tensors["float_raw"],
        "x.npy": arrays["float"],
        "x.npz": archives(arrays)[0][1:],
        "x.safetensors": example(),
        "x.onnx": models["cast"],
        "x.bin": struct.pack("<4f", 1, -0.3, 1000, 0),
        "x.safetensors.index.json": json.dumps({"weight_map": {"conv_out.bias": "x.safetensors"}}).encode(),
        "rules": RULES.encode(),
    }
    plain = [rng.randbytes(rng.randrange(8, 120)) for _ in range(60)]
    return {
        "casts": [
            bytes([source, target, rng.randrange(256), rng.randrange(64), rng.randrange(8)]) + values
            for source in range(NUMERIC)
            for target in range(NUMERIC)
            for values in [rng.randbytes(rng.choice([3, 40, 300])) + struct.pack("<3d", 0.3, 65520, 2**-140)]
        ],
        "checkpoint": checkpoints(random.Random(9)),
        "command": commands(one_file) + commands({**one_file, "x.onnx": magika()}),
        "dequantize": scaled(
            rng, [(rng.randrange(16), code, scale, rng.randrange(3)) for code in range(15) for scale in range(4)]
        ),
        "gguf": ggufs(random.Random(18)),
        "graph": plain,
        "index": [index, json.dumps(INDEX, indent=2).encode(), json.dumps({"weight_map": INDEX["weight_map"]}).encode()],
        "model_proto": [*models.values(), *cases, magika()],
        "npy": [*arrays.values(), *arrays_refused],
        "npz": archives(arrays),
        "quantize": scaled(
            rng,
            [
                (x, scale, code, rng.randrange(4), rng.randrange(2))
                for x in range(4)
                for scale in range(5)
                for code in rng.sample(range(15), 5)
            ],
        ),
        "round_trip": [
            bytes([data_type, plain, len(shape), *shape, 4]) + b"name" + rng.randbytes(20)
            for data_type in range(len(TYPES))
            for plain, shape in SHAPES
        ],
        "rules": [RULES.encode(), RULES.encode() + b"\0layer.0.q_proj.weight\nemb.x\nlayer.7.norm.bias", b"bf16\nnearest\noverflow"],
        "safetensors": [*files.values(), example()],
        "tensor_proto": [*tensors.values(), *tensors_refused, *outputs],
        "texts": [bytes([ty, 0]) + text.replace(" ", "\n").encode() for ty in range(NUMERIC) for text in TEXTS]
        + [bytes([ty, 0]) + word.encode() for ty in range(NUMERIC) for text in TEXTS for word in text.split(" ")],
    }


def main() -> None:
    for target, found in seeds().items():
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for seed in found:
            if len(seed) <= MOST_BYTES:
                (folder / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
        print(f"{target}: {len(list(folder.iterdir()))}")


if __name__ == "__main__":
    main()
