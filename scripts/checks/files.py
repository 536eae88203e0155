#!/usr/bin/env python3
"""Do the files that the command writes hold, for the packages that people read them with, what they should?

Casts a real checkpoint, arrays, archives, ONNX tensors and a model with the command, reads the results with
safetensors, numpy, ml_dtypes and onnx, and compares the bits with what ml_dtypes and numpy make of the same values.
From float these round once, as the command does; the values are chosen where they agree on overflow too.
"""

import zipfile

import ml_dtypes
import numpy as np
import onnx
import safetensors
from graphs import model as made_of
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from shared import CHECKPOINT, COMMAND, command, fail, in_folder, need

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
INTEGERS = {name: getattr(ml_dtypes, name) for name in ("int4", "uint4", "int2", "uint2")}
INTEGERS |= {name: getattr(np, name) for name in ("int8", "uint8", "int64")}
SAFETENSORS = {"bfloat16": "BF16", "float16": "F16", "float8e4m3fn": "F8_E4M3", "float8e5m2": "F8_E5M2"}
SAFETENSORS |= {"double": "F64"}

compared = 0


def bits(array):
    """The elements as unsigned integers: of ml_dtypes' types narrower than a byte, one byte each."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def same(name, got, want):
    global compared
    if got.shape != want.shape or got.dtype != want.dtype:
        fail(f"{name}: {got.dtype} {got.shape}, want {want.dtype} {want.shape}")
    # In a byte of its own, a negative int4 or int2 has the sign in its upper bits or not, as its reader likes.
    if got.dtype in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.int2)):
        got, want = got.astype(np.int8), want.astype(np.int8)
    wrong = np.flatnonzero(bits(got) != bits(want))
    if wrong.size:
        at = wrong[0]
        fail(f"{name}: element {at} is {got.flat[at]}, want {want.flat[at]} ({wrong.size} of {got.size} differ)")
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
    for name in SAFETENSORS:
        path = folder / f"{name}.safetensors"
        command("cast", CHECKPOINT, path, "--to", name)
        after, kept = read(path)
        if after.keys() != before.keys() or kept != metadata:
            fail(f"{path.name}: tensors or metadata are lost")
        for tensor, old in before.items():
            new, code, want = after[tensor], old["dtype"], np.frombuffer(old["data"], np.uint8)
            if code == "F32":
                code, want = SAFETENSORS[name], want.view(np.float32).astype(FLOATS[name])
            if (new["dtype"], new["shape"]) != (code, old["shape"]):
                fail(f"{path.name}: {tensor} is {new['dtype']} {new['shape']}, want {code} {old['shape']}")
            same(f"{path.name}: {tensor}", np.frombuffer(new["data"], want.dtype), want)
    print(f"  {len(before)} tensors to {len(SAFETENSORS)} types, read by safetensors {safetensors.__version__}")


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
    readers = f"numpy {np.__version__} and ml_dtypes {ml_dtypes.__version__}"
    print(f"  {len(FLOATS | INTEGERS)} types in .npy, read by {readers}")


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
                    fail(f"{out.name}: {list(got)}, want {list(arrays)}")
                for name, array in arrays.items():
                    if array.dtype.kind != "U":
                        want = array.astype(FLOATS[target]) if array.dtype.kind == "f" else array
                        same(f"{out.name}: {name} to {target}", got[name], want)
                    elif got[name].tolist() != array.tolist():
                        fail(f"{out.name}: {name} is {got[name]}")
            with zipfile.ZipFile(path) as old, zipfile.ZipFile(out) as new:
                kinds = [[one.compress_type for one in file.infolist()] for file in (old, new)]
                if new.testzip() or kinds[0] != kinds[1]:
                    fail(f"{out.name}: members are damaged, or compressed otherwise")
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
            fail(f"{narrow.name}: `{tensor.name}` of type {tensor.data_type}")
        same(narrow.name, numpy_helper.to_array(tensor), want)
        # As onnx writes it, with raw_data and, through a list of values, without.
        for raw in (True, False):
            listed = helper.make_tensor("x", TensorProto.DataType.Value(name.upper()), want.shape, want)
            tensor = numpy_helper.from_array(want, "x") if raw else listed
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
        fail(f"floats to strings: {back}")
    print(f"  {len(known)} types and strings in .pb, read by onnx {onnx.__version__}")


def check_model(folder):
    text = """(float[n] x) => (int64[n] y, float16[n] b) {
        a = Cast<saturate=0, to=float8e5m2>(x) b = Cast<to=float16>(a) c = CastLike(b, like) d = BitCast<to=int64>(c)
        y = Identity(d) }"""
    model = made_of(text, opset=26, ir=13, like=np.zeros(1))
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
    need(COMMAND, CHECKPOINT)
    with np.errstate(all="ignore"):
        for check in (check_checkpoint, check_arrays, check_archives, check_tensors, check_model):
            in_folder(check)
    print(f"{compared} elements compared, all equal")


if __name__ == "__main__":
    main()
