"""Quantized tensors in memory become what the same tensors become in files, as arrays of the kind that was given."""

import inspect
import json
import shutil

import ml_dtypes
import numpy as np
import pytest
import safetensors
from checkpoints import CHECKPOINTS
from safetensors.numpy import save_file

import onnx_cast
from onnx_cast import CastError, dtypes, layouts

#: Only the metadata of the file tells the layers, and tensors in memory have none.
OF_FILES = {"comfy-nvfp4-metadata"}
HELD = sorted(path.name for path in CHECKPOINTS.iterdir() if (path / "expected.safetensors").exists())
ALL = [name for name in HELD if name not in OF_FILES]

#: safetensors' names of types, as ONNX's.
NAMES = {
    "F64": "double", "F32": "float", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8e4m3fn",
    "F8_E5M2": "float8e5m2", "F8_E8M0": "float8e8m0", "F4": "float4e2m1", "F6_E2M3": "float6e2m3",
    "F6_E3M2": "float6e3m2", "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8",
    "U32": "uint32", "BOOL": "bool",
}  # fmt: skip


def read(paths):
    """The tensors of files as numpy arrays, in their order."""
    tensors = {}
    for path in paths:
        there = dict(safetensors.deserialize(path.read_bytes()))
        for one in onnx_cast.info(path):
            kind = NAMES[there[one.name]["dtype"]]
            tensors[one.name] = onnx_cast.unpack(there[one.name]["data"], kind, one.shape)
    return tensors


def checkpoint(name):
    ignored = {"expected.safetensors", "original.safetensors"}
    tensors = read(path for path in (CHECKPOINTS / name).glob("*.safetensors") if path.name not in ignored)
    files = [("config.json", "quantization_config"), ("config.json", "quantization")]
    files += [("hf_quant_config.json", "quantization"), ("quant_config.json", "q_group_size")]
    # Of a layout that has no configuration, what the model says of its shapes.
    files += [("config.json", "hidden_size")]
    for file, key in files:
        path = CHECKPOINTS / name / file
        if path.exists() and key in (config := json.loads(path.read_text())):
            return tensors, config
    return tensors, None


def same(a, b):
    """Names, types, shapes and bits."""
    described = [{name: (x.dtype, x.shape, x.tobytes()) for name, x in tensors.items()} for tensors in (a, b)]
    assert described[0] == described[1]


@pytest.mark.parametrize("name", ALL)
def test_weights_are_those_of_the_owner(name):
    tensors, config = checkpoint(name)
    told = []
    plain = layouts.dequantize(tensors, config=config, progress=lambda *state: told.append(state))
    same(plain, read([CHECKPOINTS / name / "expected.safetensors"]))
    assert told == sorted(told) and (not told or told[-1][0] == told[-1][1])
    # Codes may be stored in the type of the weights, with fewer of them.
    stays = [key for key in plain if key in tensors and plain[key].shape == tensors[key].shape]
    kept = [key for key in stays if plain[key].dtype == tensors[key].dtype]
    assert all(plain[key] is tensors[key] for key in kept)


def test_a_module_needs_no_names_before_its_own():
    module = {"weight": np.array([[1, 2], [3, 4]], ml_dtypes.float8_e4m3fn), "bias": np.zeros(2, np.float32)}
    scaled = {**module, "weight_scale": np.array([[2], [0.5]], ml_dtypes.bfloat16)}
    plain = layouts.dequantize(scaled, "float")
    assert plain["weight"].tolist() == [[2, 4], [1.5, 2]] and plain["bias"] is module["bias"] and len(plain) == 2
    (weight,) = layouts.weights(scaled)
    assert weight == layouts.Weight(
        "weight", (2, 2), "FP8", dtypes.float8e4m3fn, dtypes.bfloat16, (1, 2), "row", 16.0,
        {"elements": "weight", "scales": "weight_scale"},
    )  # fmt: skip
    assert layouts.weights(plain) == []
    kept = layouts.dequantize(scaled, exclude=["weight"])
    assert all(kept[name] is scaled[name] for name in scaled)
    by_rule = layouts.dequantize(scaled, "float", rules={"weight": "float16"})
    assert by_rule["weight"].dtype == np.float16


def test_the_config_decides_what_tensors_leave_open():
    codes = np.full((128, 256), 1, ml_dtypes.float8_e4m3fn)
    block = {"weight": codes, "weight_scale_inv": np.array([[2, 3]], np.float32)}
    quantization = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    want = np.repeat(np.array([[2, 3]]), 128, axis=1).repeat(128, axis=0).tolist()
    whole = {"quantization_config": quantization}
    for config in (quantization, whole, {"text_config": whole}):
        assert layouts.dequantize(block, "float", config=config)["weight"].tolist() == want
        assert layouts.weights(block, config=config)[0].block == (128, 128)
    # A layout that is given overrules what the configuration claims.
    overruled = layouts.dequantize(block, "float", config={**quantization, "quant_method": "mxfp4"}, layout="deepseek")
    assert overruled["weight"].tolist() == want
    with pytest.raises(CastError, match="config: .*quant_method.* `nobodys`"):
        layouts.dequantize(block, config={"quant_method": "nobodys"})


@pytest.mark.parametrize(
    "to, options",
    [
        ("nvfp4", {}),
        ("nvfp4", {"layout": "modelopt"}),
        ("mxfp4", {"layout": "quark", "scale_rule": "even"}),
        ("float8e4m3fn", {"layout": "deepseek"}),
        ("float8e4m3fn", {"layout": "comfyui"}),
        ("float8e4m3fn/tensor", {"exclude": ["*up_proj*"]}),
        ("int4", {"rules": {"*down_proj*": "int8/32"}}),
        ("mxfp6e2m3", {"layout": "plain"}),
    ],
)
@pytest.mark.filterwarnings("ignore:.* stays as it is")
def test_what_is_quantized_is_that_of_files(to, options, tmp_path):
    src, dst = tmp_path / "in", tmp_path / "out"
    src.mkdir()
    shutil.copy(CHECKPOINTS / "ct-mxfp4" / "original.safetensors", src / "model.safetensors")
    (src / "config.json").write_text("{}")
    tensors = read(src.glob("*.safetensors"))
    onnx_cast.quantize_file(src, dst, to, **options)
    quantized, config = layouts.quantize(tensors, to, **options)
    same(quantized, read(dst.glob("*.safetensors")))
    assert config == json.loads((dst / "config.json").read_text()).get("quantization_config")
    layout = None if config is not None else options["layout"]
    plain = layouts.dequantize(quantized, config=config, layout=layout)
    onnx_cast.dequantize_file(dst, tmp_path / "plain", "bf16", layout=layout)
    same(plain, read((tmp_path / "plain").glob("*.safetensors")))


def test_what_is_transcoded_changes_no_weight():
    tensors, config = checkpoint("ct-mxfp4")
    with pytest.warns(UserWarning, match="^the inputs of .* are quantized by the configuration, but not in the output$"):
        other, described = layouts.transcode(tensors, "modelopt", to="nvfp4", config=config)
    assert described["quant_algo"].endswith("NVFP4")
    assert {one.format for one in layouts.weights(other, config=described)} == {"NVFP4"}
    same(layouts.dequantize(other, config=described), layouts.dequantize(tensors, config=config))
    with pytest.raises(CastError, match="fbgemm"):
        layouts.transcode(tensors, "fbgemm", config=config)


def test_what_is_refused_names_the_tensor():
    codes = np.array([[1, 2]], np.int8)
    nan = {"w.weight": codes, "w.weight_scale": np.array([[np.nan]], np.float32)}
    with pytest.raises(CastError, match="tensor `w.weight_scale`: scale 0 is NaN"):
        layouts.dequantize(nan)
    assert np.isnan(layouts.dequantize(nan, "float", allow_nan=True)["w.weight"]).all()
    large = {"w.weight": codes, "w.weight_scale": np.array([[1e5]], np.float32)}
    # The notices are issued as warnings before the error, too.
    with pytest.warns(UserWarning, match="^2 values overflowed"):
        with pytest.raises(onnx_cast.LossError, match="tensor `w.weight`: overflow in 2 values") as caught:
            layouts.dequantize(large, "float16", fail_on=["overflow"])
    assert caught.value.summary[0].counts["overflowed"] == 2
    with pytest.raises(CastError, match="tensors: no quantized weights"):
        layouts.dequantize({"w": np.zeros(3, np.float32)})
    with pytest.raises(CastError, match="`layout`: `other` is not a layout .want deepseek"):
        layouts.weights(nan, layout="other")
    with pytest.raises(CastError, match="no weights in the layout gguf"):
        layouts.weights(nan, layout="gguf")
    with pytest.raises(TypeError, match="tensor `w`: x is of type dict"):
        layouts.dequantize({"w": {}})
    with pytest.raises(TypeError, match="tensor `w`: ONNX has no type for <U1|tensor `w`: "):
        layouts.dequantize({"w": np.array(["a"])})
    with pytest.raises(TypeError, match="tensors is of type list"):
        layouts.dequantize([codes])
    for job in (layouts.quantize, layouts.dequantize, layouts.weights):
        with pytest.raises(TypeError, match="tensors has the name 3 .want names that are str"):
            job({"weight": codes, 3: codes})

    def stop(done, total):
        raise KeyError(done)

    many = {"weight": np.zeros((1 << 12, 1 << 14), np.int8), "weight_scale": np.ones((1 << 12, 1), np.float32)}
    with pytest.raises(KeyError):
        layouts.dequantize(many, progress=stop)


def test_the_summary_is_given_as_warnings():
    x = np.ones((64, 64), np.float32)
    x[:2, 0] = np.inf, np.nan
    with pytest.warns(UserWarning, match=r"^1 value overflowed, 1 value was NaN \(first in tensor `weight_packed`\)$"):
        layouts.quantize({"weight": x}, "int8")
    with pytest.warns(UserWarning, match="^`up_proj.weight` stays as it is: "):
        layouts.quantize({"down_proj.weight": x[2:], "up_proj.weight": x[2:, :63]}, "mxfp4")
    quantized, config = layouts.quantize({"weight": x[2:]}, "float8e4m3fn")
    with pytest.warns(UserWarning, match="^`to` has no effect: "):
        layouts.transcode(quantized, "compressed-tensors", to="nvfp4", config=config)


def test_arrays_of_any_order_and_width():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(32, 64)).astype(np.float32)
    want, _ = layouts.quantize({"weight": x}, "mxfp4", layout="plain")
    assert want["weight"].dtype == ml_dtypes.float4_e2m1fn
    for other in (np.asfortranarray(x), x.astype(">f4"), np.repeat(x, 2, axis=0)[::2]):
        same(layouts.quantize({"weight": other}, "mxfp4", layout="plain")[0], want)
    # Elements narrower than a byte stand one in a byte, and are packed on the way in.
    back = layouts.dequantize(want, "float", layout="plain")["weight"]
    assert np.abs(back - x).max() < 1 and back.shape == x.shape


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    for name in ("deepseek", "ct-nvfp4", "gpt-oss", "ct-int4"):
        tensors, config = checkpoint(name)
        want = layouts.dequantize(tensors, config=config)

        def tensor(x):
            dtype = {"bfloat16": torch.bfloat16}.get(x.dtype.name) or getattr(torch, x.dtype.name)
            return torch.from_numpy(x.reshape(-1).view(np.uint8)).view(dtype).view(x.shape)

        given = {key: tensor(x.copy()) for key, x in tensors.items()}
        plain = layouts.dequantize(given, torch.bfloat16, config=config)
        assert {type(x) for x in plain.values()} == {torch.Tensor}
        same({key: onnx_cast.cast(x, "bfloat16").view(torch.int16).numpy() for key, x in plain.items()},
             {key: onnx_cast.cast(x, "bfloat16").view(np.int16) for key, x in want.items()})  # fmt: skip
    x = torch.linspace(-4, 4, 64).reshape(2, 32)
    quantized, _ = layouts.quantize({"weight": x, "bias": x[0]}, "mxfp4", layout="plain")
    assert quantized["bias"].data_ptr() == x.data_ptr()
    if hasattr(torch, "float4_e2m1fn_x2"):
        assert (quantized["weight"].dtype, tuple(quantized["weight"].shape)) == (torch.float4_e2m1fn_x2, (2, 16))
        back = layouts.dequantize(quantized, "float", layout="plain")["weight"]
        want = layouts.quantize({"weight": x.numpy()}, "mxfp4", layout="plain")[0]
        assert back.tolist() == layouts.dequantize(want, "float", layout="plain")["weight"].tolist()
    with pytest.raises(TypeError, match="tensor `weight`: torch has no type for float6e2m3"):
        layouts.quantize({"weight": x}, "mxfp6e2m3", layout="plain")


def test_arrays_of_jax_and_protos():
    jnp = pytest.importorskip("jax.numpy")
    from onnx import TensorProto, numpy_helper

    x = np.linspace(-4, 4, 64, dtype=np.float32).reshape(2, 32)
    want, config = layouts.quantize({"weight": x}, "mxfp8")
    plain = layouts.dequantize(want, config=config)
    quantized, _ = layouts.quantize({"weight": jnp.asarray(x)}, "mxfp8")
    assert isinstance(quantized["weight"], jnp.ndarray)
    same({name: np.asarray(one) for name, one in quantized.items()}, want)
    same({"weight": np.asarray(layouts.dequantize(quantized, config=config)["weight"])}, plain)
    protos, _ = layouts.quantize({"weight": numpy_helper.from_array(x, "w")}, "mxfp8")
    assert isinstance(protos["weight"], TensorProto) and protos["weight_scale"].name == "weight_scale"
    again = layouts.dequantize(protos, "float", config=config)["weight"]
    assert numpy_helper.to_array(again).tolist() == plain["weight"].tolist()


def test_parameters_are_those_of_files():
    """Options that only the function on files has are about files, or about what is written."""
    about_files = {
        "src", "dst", "rules_file", "dry_run", "resume", "force", "copy_others", "losses", "raise_opset",
        "external_data", "external_threshold", "form", "zero_points", "reduce_range", "base_dir", "shard_size",
    }  # fmt: skip
    for in_memory, of_files in [
        (layouts.dequantize, onnx_cast.dequantize_file),
        (layouts.quantize, onnx_cast.quantize_file),
        (layouts.transcode, onnx_cast.transcode_file),
    ]:
        here, there = (inspect.signature(one).parameters for one in (in_memory, of_files))
        assert set(there) - set(here) <= about_files, in_memory
        assert set(here) - set(there) <= {"tensors", "config"}, in_memory
        shared = set(here) & set(there) - {"to"}
        assert {name: here[name].default for name in shared} == {name: there[name].default for name in shared}


def test_files_that_are_loaded(tmp_path):
    x = np.random.default_rng(4).normal(size=(64, 64)).astype(np.float16)
    path = tmp_path / "x.safetensors"
    quantized, config = layouts.quantize({"a.weight": x, "norm.weight": x[0].copy()}, "float8e4m3fn")
    save_file(quantized, path)
    onnx_cast.dequantize_file(path, tmp_path / "y.safetensors", "float16")
    same(layouts.dequantize(read([path]), "float16", config=config), read([tmp_path / "y.safetensors"]))
