#!/usr/bin/env python3
"""Do the files that the command writes hold, for the packages that people read them with, what they should?

Casts a real checkpoint, whole and in shards, arrays, archives, ONNX tensors and a model with the command, reads the results with safetensors, numpy,
ml_dtypes and onnx, and compares the bits with what ml_dtypes and numpy make of the same values. From float these round
once, as the command does; the values are chosen where they agree on overflow too.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import safetensors
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from safetensors.numpy import save_file
from shared import COMMAND

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINT = ROOT / ".cache" / "checkpoints" / "all-MiniLM-L6-v2.safetensors"

# ONNX's name: numpy's type.
FLOATS = {
    "float": np.float32,
    "double": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "float8e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8e5m2": ml_dtypes.float8_e5m2,
    "float8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float6e2m3": ml_dtypes.float6_e2m3fn,
    "float6e3m2": ml_dtypes.float6_e3m2fn,
    "float4e2m1": ml_dtypes.float4_e2m1fn,
}
INTEGERS = {
    "int4": ml_dtypes.int4,
    "uint4": ml_dtypes.uint4,
    "int2": ml_dtypes.int2,
    "uint2": ml_dtypes.uint2,
    "int8": np.int8,
    "uint8": np.uint8,
    "int64": np.int64,
}
SAFETENSORS = {"bfloat16": "BF16", "float16": "F16", "float8e4m3fn": "F8_E4M3", "float8e5m2": "F8_E5M2", "double": "F64"}

compared = 0


def command(*arguments):
    done = subprocess.run([COMMAND, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"onnx-cast {' '.join(map(str, arguments))}: status {done.returncode}: {done.stderr}")


def bits(array):
    """The elements as unsigned integers: of ml_dtypes' types narrower than a byte, one byte each."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def same(name, got, want):
    global compared
    if got.shape != want.shape or got.dtype != want.dtype:
        sys.exit(f"{name}: {got.dtype} {got.shape}, want {want.dtype} {want.shape}")
    # In a byte of its own, a negative int4 or int2 has the sign in its upper bits or not, as its reader likes.
    if got.dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.int2)):
        got, want = got.astype(np.int8), want.astype(np.int8)
    wrong = np.flatnonzero(bits(got) != bits(want))
    if wrong.size:
        at = wrong[0]
        sys.exit(f"{name}: element {at} is {got.flat[at]}, want {want.flat[at]} ({wrong.size} of {got.size} differ)")
    compared += got.size


def floats(limit, count=4096):
    """Floats of every magnitude up to a limit, of both signs."""
    rng = np.random.default_rng(1)
    spread = rng.standard_normal(count) * np.exp2(rng.uniform(-30, np.log2(limit), count))
    values = np.concatenate([spread, [0.0, -0.0, 0.5, 1.0, -1.5, 0.25, limit, -limit]])
    return np.clip(values, -limit, limit).astype(np.float32)


def source_for(name):
    if name in INTEGERS:
        # Whole numbers: peers do not round to the nearest where a 4- or 2-bit integer is the target.
        low, high = ml_dtypes.iinfo(INTEGERS[name]).min, ml_dtypes.iinfo(INTEGERS[name]).max
        return np.arange(max(low, -128), min(high, 128) + 1).astype(np.float32)
    return floats(min(float(ml_dtypes.finfo(FLOATS[name]).max), 1e30))


def read(path):
    """The tensors of a .safetensors file, and its metadata."""
    with safetensors.safe_open(path, "np") as file:
        metadata = file.metadata()
    return dict(safetensors.deserialize(path.read_bytes())), metadata


def check_checkpoint(folder):
    before, metadata = read(CHECKPOINT)
    for name, code in SAFETENSORS.items():
        path = folder / f"{name}.safetensors"
        command("cast", CHECKPOINT, path, "--to", name)
        after, kept = read(path)
        if after.keys() != before.keys() or kept != metadata:
            sys.exit(f"{path.name}: tensors or metadata are lost")
        for tensor, old in before.items():
            new = after[tensor]
            want_code, want = old["dtype"], np.frombuffer(old["data"], np.uint8)
            if old["dtype"] == "F32":
                want_code, want = code, np.frombuffer(old["data"], np.float32).astype(FLOATS[name])
            if (new["dtype"], new["shape"]) != (want_code, old["shape"]):
                sys.exit(f"{path.name}: {tensor} is {new['dtype']} {new['shape']}, want {want_code} {old['shape']}")
            same(f"{path.name}: {tensor}", np.frombuffer(new["data"], want.dtype), want)
    print(f"  {len(before)} tensors of a checkpoint to {len(SAFETENSORS)} types, read by safetensors {safetensors.__version__}")


def check_arrays(folder):
    for name, dtype in (FLOATS | INTEGERS).items():
        values = source_for(name).reshape(2, -1) if source_for(name).size % 2 == 0 else source_for(name)
        source, narrow, back = folder / "x.npy", folder / f"{name}.npy", folder / "back.npy"
        np.save(source, values)
        command("cast", source, narrow, "--to", name)
        want = values.astype(dtype)
        got = np.load(narrow)
        same(f"{name}.npy", got if got.dtype == want.dtype else got.view(dtype), want)
        # And read by the command, as numpy writes it.
        if dtype is not ml_dtypes.float8_e5m2:  # which numpy writes, and then cannot read
            np.save(narrow, want)
        tells = narrow.read_bytes()[:128].find(b"V1") < 0
        command("cast", narrow, back, "--to", "double", *([] if tells else ["--from", name]))
        same(f"{name}.npy to double", np.load(back), want.astype(np.float64))
    print(f"  {len(FLOATS | INTEGERS)} types in .npy, read by numpy {np.__version__} and ml_dtypes {ml_dtypes.__version__}")


def check_shards(folder):
    """The checkpoint in four files: an index or a folder in, an index or a folder out."""
    before, metadata = read(CHECKPOINT)
    source, index_name = folder / "shards", "model.safetensors.index.json"
    source.mkdir()
    names, places = sorted(before), {}
    for shard in range(4):
        file = f"model-{shard + 1:05}-of-00004.safetensors"
        part = {name: before[name] for name in names[shard::4]}
        kinds = {"F32": np.float32, "I64": np.int64}
        tensors = {name: np.frombuffer(one["data"], kinds[one["dtype"]]).reshape(one["shape"]) for name, one in part.items()}
        save_file(tensors, source / file, metadata)
        places |= dict.fromkeys(part, file)
    total = sum(len(one["data"]) for one in before.values())
    index = {"metadata": {"total_size": total, "of": "a test"}, "weight_map": places}
    (source / index_name).write_text(json.dumps(index))
    for target, arguments in ("bfloat16", [source, folder / "to-folder"]), (
        "float8e4m3fn", [source / index_name, folder / "to-index" / index_name]):
        command("cast", *arguments, "--to", target)
        out = arguments[1] if arguments[1].is_dir() else arguments[1].parent
        written = json.loads((out / index_name).read_text())
        size = 0
        for file in sorted(set(places.values())):
            after, kept = read(out / file)
            if kept != metadata or after.keys() != {name for name in places if places[name] == file}:
                sys.exit(f"{out.name}/{file}: tensors or metadata are lost")
            for name, new in after.items():
                size += len(new["data"])
                want = np.frombuffer(before[name]["data"], np.uint8)
                if before[name]["dtype"] == "F32":
                    want = want.view(np.float32).astype(FLOATS[target])
                same(f"{out.name}: {name}", np.frombuffer(new["data"], want.dtype), want)
        if written != {"metadata": index["metadata"] | {"total_size": size}, "weight_map": places}:
            sys.exit(f"{out.name}: the index is {written}")
    print("  the same in four shards, to a folder and to an index")


def check_archives(folder):
    """Arrays in .npz, stored and deflated, in Fortran order and big endian, strings beside them."""
    values = floats(1e4).reshape(4, -1)
    arrays = {"a": values, "b/c d": values[0], "fortran": np.asfortranarray(values), "big": values.astype(">f4"),
              "n": np.arange(5), "empty": np.zeros((0, 3), np.float32), "text": np.array(["x", "yz"])}
    path, out = folder / "x.npz", folder / "y.npz"
    for save in np.savez, np.savez_compressed:
        save(path, **arrays)
        for target in ("float16", "double"):
            command("cast", path, out, "--to", target)
            with np.load(out) as got:
                if list(got) != list(arrays):
                    sys.exit(f"{out.name}: {list(got)}, want {list(arrays)}")
                for name, array in arrays.items():
                    floating = array.dtype.kind == "f"
                    want = array.astype(FLOATS[target]) if floating else array
                    if array.dtype.kind == "U":
                        if got[name].tolist() != array.tolist():
                            sys.exit(f"{out.name}: {name} is {got[name]}")
                    else:
                        same(f"{out.name}: {name} to {target}", got[name], want)
            with zipfile.ZipFile(path) as old, zipfile.ZipFile(out) as new:
                if new.testzip() or [one.compress_type for one in old.infolist()] != [one.compress_type for one in new.infolist()]:
                    sys.exit(f"{out.name}: members are damaged, or compressed otherwise")
    print("  archives, stored and deflated, read by numpy and zipfile")


def check_tensors(folder):
    known = [name for name in FLOATS | INTEGERS if name.upper() in TensorProto.DataType.keys()]
    for name in known:
        dtype = (FLOATS | INTEGERS)[name]
        values = source_for(name)
        source, narrow, back = folder / "x.pb", folder / f"{name}.pb", folder / "back.pb"
        source.write_bytes(numpy_helper.from_array(values, "x").SerializeToString())
        command("cast", source, narrow, "--to", name)
        want = values.astype(dtype)
        tensor = TensorProto.FromString(narrow.read_bytes())
        if tensor.name != "x" or tensor.data_type != TensorProto.DataType.Value(name.upper()):
            sys.exit(f"{narrow.name}: `{tensor.name}` of type {tensor.data_type}")
        same(narrow.name, numpy_helper.to_array(tensor), want)
        # As onnx writes it, with raw_data and, through a list of values, without.
        for raw in (True, False):
            if raw:
                tensor = numpy_helper.from_array(want, "x")
            else:
                tensor = helper.make_tensor("x", TensorProto.DataType.Value(name.upper()), want.shape, want)
            narrow.write_bytes(tensor.SerializeToString())
            command("cast", narrow, back, "--to", "double")
            got = numpy_helper.to_array(TensorProto.FromString(back.read_bytes()))
            same(f"{name}.pb to double, raw={raw}", got, want.astype(np.float64))
    texts = np.array(["1", "-2.5", "1e3", "inf", "  7 "], dtype=object)
    (folder / "s.pb").write_bytes(numpy_helper.from_array(texts, "s").SerializeToString())
    command("cast", folder / "s.pb", folder / "f.pb", "--to", "float")
    got = numpy_helper.to_array(TensorProto.FromString((folder / "f.pb").read_bytes()))
    same("strings to float", got, np.array([1, -2.5, 1000, np.inf, 7], dtype=np.float32))
    command("cast", folder / "f.pb", folder / "t.pb", "--to", "string")
    back = list(TensorProto.FromString((folder / "t.pb").read_bytes()).string_data)
    if back != [b"1", b"-2.5", b"1000", b"INF", b"7"]:
        sys.exit(f"floats to strings: {back}")
    print(f"  {len(known)} types and strings in .pb, read by onnx {onnx.__version__}")


def check_model(folder):
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.FLOAT8E5M2, saturate=0),
        helper.make_node("Cast", ["a"], ["b"], to=TensorProto.FLOAT16),
        helper.make_node("CastLike", ["b", "like"], ["c"]),
        helper.make_node("BitCast", ["c"], ["d"], to=TensorProto.INT64),
        helper.make_node("Identity", ["d"], ["y"]),
    ]
    like = numpy_helper.from_array(np.zeros(1), "like")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.INT64, ["n"])
    z = helper.make_tensor_value_info("b", TensorProto.FLOAT16, ["n"])
    graph = helper.make_graph(nodes, "casts", [x], [y, z], [like])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)])
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, folder / "model.onnx")
    values = floats(1e6)
    np.save(folder / "x.npy", values)
    outputs = ["--output", f"y={folder / 'y.npy'}", "--output", f"b={folder / 'b.npy'}"]
    command("run", folder / "model.onnx", "--input", f"x={folder / 'x.npy'}", *outputs)
    want_y, want_b = ReferenceEvaluator(model).run(None, {"x": values})
    same("model, y", np.load(folder / "y.npy"), want_y)
    same("model, b", np.load(folder / "b.npy"), want_b)
    print(f"  a model of 5 nodes, as onnx {onnx.__version__} evaluates it")


def main():
    for path in (COMMAND, CHECKPOINT):
        if not path.exists():
            sys.exit(f"{path} is missing: run `bash scripts/test.sh`")
    with tempfile.TemporaryDirectory() as folder, np.errstate(all="ignore"):
        for check in (check_checkpoint, check_shards, check_arrays, check_archives, check_tensors, check_model):
            check(Path(folder))
    print(f"{compared} elements compared, all equal")


if __name__ == "__main__":
    main()
