"""Checkpoints cast on a cluster of several worker processes, some of which are killed, and batches of Ray Data: the same
bytes as those of one machine. Ray is a large download: `bash scripts/test.sh --ray` adds these tests.
"""

import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import examples
import numpy as np
import pytest
from checkpoints import CHECKPOINTS
from safetensors.numpy import save_file

import onnx_cast

pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the workers are found in /proc"),
    # Ray's own, of its processes and files.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def ray():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoint")
    rng, weight_map = np.random.default_rng(5), {}
    for number in range(3):
        file = f"model-{number}.safetensors"
        tensors = {
            f"{number}.weight": rng.standard_normal((1024, 2048 + number)).astype(np.float32),
            f"{number}.norm.weight": rng.standard_normal(333 + number).astype(np.float32),
            f"{number}.steps": np.arange(number + 2),
            f"lm_head.{number}": rng.standard_normal(8).astype(np.float32),
        }
        save_file(tensors, folder / file)
        weight_map |= dict.fromkeys(tensors, file)
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def planned(rows):
    """What a cluster tells of tensors: it does not count values."""
    return [row._replace(alarms=None) for row in rows]


def alone(checkpoint, folder, *given, **options):
    rows = onnx_cast.cast_file(checkpoint, folder, *given, **options)
    return planned(rows), files(folder)


@pytest.mark.parametrize("to, slice_bytes", [("bfloat16", 1 << 20), ("float4e2m1", 3_000_001), ("int8", 1 << 28)])
def test_the_cluster_writes_the_bytes_of_one_machine(ray, checkpoint, tmp_path, to, slice_bytes):
    from onnx_cast.ray import cast_checkpoint

    options = {"rules": {"*.norm.*": "float16", "1.steps": None}, "exclude": ["2.n*"]}
    rows, want = alone(checkpoint, tmp_path / "alone", to, **options)
    told = []
    done = cast_checkpoint(
        checkpoint, tmp_path / "out", to, slice_bytes=slice_bytes, progress=lambda *state: told.append(state), **options
    )
    assert done == rows and files(tmp_path / "out") == want
    total = sum(row.bytes_before for row in rows)
    assert told[-1] == (total, total) and told == sorted(told)
    # Again, with one file gone: the others are left alone. A file that was changed is an error.
    kept, changed, gone = (tmp_path / "out" / f"model-{number}.safetensors" for number in range(3))
    before = kept.stat().st_ino
    data = changed.read_bytes()
    changed.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(FileExistsError, match="not what this job writes"):
        cast_checkpoint(checkpoint, tmp_path / "out", to, slice_bytes=slice_bytes, resume=True, **options)
    changed.unlink()
    gone.unlink()
    cast_checkpoint(checkpoint, tmp_path / "out", to, slice_bytes=slice_bytes, resume=True, **options)
    assert files(tmp_path / "out") == want and kept.stat().st_ino == before


@pytest.mark.parametrize("job, to, count", [("cast", "bfloat16", 3), ("quantize", "int8", 2)])
def test_the_cluster_divides_the_output_into_shards(ray, tmp_path, job, to, count):
    import onnx_cast.ray

    src, rng, weight_map = tmp_path / "in", np.random.default_rng(7), {}
    src.mkdir()
    for number in range(3):
        file, name = f"model-{number}.safetensors", f"model.layers.{number}.mlp.up_proj.weight"
        save_file({name: rng.standard_normal((256, 512)).astype(np.float32)}, src / file)
        weight_map[name] = file
    (src / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    rows = getattr(onnx_cast, f"{job}_file")(src, tmp_path / "alone", to, shard_size="300KB")
    want = files(tmp_path / "alone")
    assert sum(name.endswith(f"-of-0000{count}.safetensors") for name in want) == count
    work = getattr(onnx_cast.ray, f"{job}_checkpoint")
    options = {"slice_bytes": 100_000} if job == "cast" else {}
    assert work(src, tmp_path / "out", to, shard_size="300KB", **options) == planned(rows)
    assert files(tmp_path / "out") == want
    again(work, src, tmp_path / "out", want, to=to, shard_size="300KB", **options)


def again(work, src, out, want, **options):
    """Does a job again, with one file and the index gone: the other files are left alone."""
    shards = sorted(out.glob("*.safetensors"))
    gone, kept = shards[0], [(path, path.stat().st_ino) for path in shards[1:]]
    gone.unlink()
    for index in out.glob("*.index.json"):
        index.unlink()
    work(src, out, resume=True, **options)
    assert files(out) == want and all(path.stat().st_ino == inode for path, inode in kept)


@pytest.mark.parametrize("name", ["deepseek", "ct-nvfp4", "gpt-oss", "modelopt-fp8"])
def test_the_cluster_dequantizes_to_the_bytes_of_one_machine(ray, tmp_path, name):
    from onnx_cast.ray import dequantize_checkpoint

    src = tmp_path / name
    shutil.copytree(CHECKPOINTS / name, src, ignore=shutil.ignore_patterns("expected.*", "original.*"))
    rows = onnx_cast.dequantize_file(src, tmp_path / "alone", "bf16")
    told = []
    done = dequantize_checkpoint(src, tmp_path / "out", "bf16", progress=lambda *state: told.append(state))
    want = files(tmp_path / "alone")
    assert done == rows and files(tmp_path / "out") == want
    assert told and told == sorted(told) and told[-1][0] == told[-1][1]
    again(dequantize_checkpoint, src, tmp_path / "out", want, to="bf16")
    assert dequantize_checkpoint(src, tmp_path / "some", "float", exclude=["*"], copy_others=False)[0].cast is False


@pytest.mark.parametrize(
    "name, layout, to",
    [
        ("ct-nvfp4", "modelopt", None),
        ("ct-mxfp4", "compressed-tensors", "nvfp4"),
        ("ct-int4", "plain", None),
        ("gpt-oss", "gpt-oss", None),
        ("ct-fp8-channel", "modelopt", None),
    ],
)
def test_the_cluster_transcodes_to_the_bytes_of_one_machine(ray, tmp_path, name, layout, to):
    from onnx_cast.ray import transcode_checkpoint

    src = tmp_path / name
    shutil.copytree(CHECKPOINTS / name, src, ignore=shutil.ignore_patterns("expected.*", "original.*"))
    rows = onnx_cast.transcode_file(src, tmp_path / "alone", layout, to=to)
    want = files(tmp_path / "alone")
    assert transcode_checkpoint(src, tmp_path / "out", layout, to=to) == rows and files(tmp_path / "out") == want
    again(transcode_checkpoint, src, tmp_path / "out", want, layout=layout, to=to)


def test_a_weight_that_would_change_leaves_nothing(ray, tmp_path):
    from onnx_cast.ray import transcode_checkpoint

    src, rng, weight_map = tmp_path / "in", np.random.default_rng(8), {}
    src.mkdir()
    # Of three files the last has a weight whose powers of two lie too far apart for NVFP4.
    for number in range(3):
        codes = rng.integers(0, 256, (64, 32), np.uint8)
        scales = rng.integers(120, 128, (64, 2), np.uint8)
        if number == 2:
            scales[5, 1] = 90
        module = f"layers.{number}.o_proj.weight"
        tensors = {f"{module}_packed": codes, f"{module}_scale": scales}
        save_file(tensors, src / f"model-{number}.safetensors")
        weight_map |= dict.fromkeys(tensors, f"model-{number}.safetensors")
    (src / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    for work in (onnx_cast.transcode_file, transcode_checkpoint):
        with pytest.raises(onnx_cast.CastError, match="layers.2.o_proj.weight_packed.*1 of its values or blocks"):
            work(src, tmp_path / "new" / "out", "modelopt", to="nvfp4")
        assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "to, options",
    [
        ("nvfp4", {}),
        ("float8e4m3fn/tensor", {"layout": "quark"}),
        ("mxfp4", {"layout": "comfyui"}),
        ("float8e4m3fn", {"layout": "comfyui", "rules": {"1.*": None}}),
    ],
)
def test_the_cluster_quantizes_to_the_bytes_of_one_machine(ray, tmp_path, to, options):
    from onnx_cast.ray import quantize_checkpoint

    src, rng, weight_map = tmp_path / "in", np.random.default_rng(6), {}
    src.mkdir()
    # The matrices of a layer that share a global scale are in several files.
    for number, names in enumerate([["q_proj", "up_proj"], ["k_proj", "gate_proj", "o_proj"], ["v_proj"]]):
        tensors = {f"0.{name}.weight": (rng.normal(size=(64, 96)) * 3**number).astype(np.float32) for name in names}
        tensors |= {f"{number}.norm.weight": np.ones(96, np.float32)}
        save_file(tensors, src / f"model-{number}.safetensors")
        weight_map |= dict.fromkeys(tensors, f"model-{number}.safetensors")
    (src / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    (src / "config.json").write_text(json.dumps({"torch_dtype": "float32"}))
    if options.get("layout") == "comfyui" and to == "mxfp4":
        with pytest.raises(onnx_cast.CastError, match="comfyui does not support mxfp4"):
            quantize_checkpoint(src, tmp_path / "out", to, **options)
        assert not (tmp_path / "out").exists()
        return
    rows = planned(onnx_cast.quantize_file(src, tmp_path / "alone", to, **options))
    want = files(tmp_path / "alone")
    assert quantize_checkpoint(src, tmp_path / "out", to, **options) == rows and files(tmp_path / "out") == want
    again(quantize_checkpoint, src, tmp_path / "out", want, to=to, **options)


def workers(title):
    """The worker processes of this process's cluster that are at a task."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "cmdline").read_bytes().startswith(title):
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(folder.name))
        except (OSError, ValueError):
            continue  # it has ended
    return found


def kill_in_a_task(title):
    """Kills a worker that is in the middle of a task: it is stopped first, and then looked at again."""
    for pid in workers(title):
        try:
            os.kill(pid, signal.SIGSTOP)
            caught = Path(f"/proc/{pid}/cmdline").read_bytes().startswith(title)
            os.kill(pid, signal.SIGKILL if caught else signal.SIGCONT)
        except (OSError, ValueError):
            continue
        if caught:
            return True
    return False


def with_kills(title, count, work):
    """Does work while workers are killed in the middle of tasks, so many times."""
    killed, done = [], threading.Event()

    def kill():
        while len(killed) < count and not done.wait(0.001):
            if kill_in_a_task(title):
                killed.append(True)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        work()
    finally:
        done.set()
        thread.join()
    assert killed, "no worker was caught in a task"


def test_parts_of_workers_that_are_killed_are_cast_again(ray, tmp_path):
    from onnx_cast.ray import cast_checkpoint

    source = tmp_path / "large.safetensors"
    save_file({"w": np.resize(np.linspace(-9, 9, 99_991, dtype=np.float32), (1 << 25) + 7)}, source)
    onnx_cast.cast_file(source, tmp_path / "alone.safetensors", "float8e4m3fn")
    out = tmp_path / "out.safetensors"
    with_kills(b"ray::_write_part", 2, lambda: cast_checkpoint(source, out, "float8e4m3fn", slice_bytes=4 << 20))
    assert out.read_bytes() == (tmp_path / "alone.safetensors").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alone.safetensors", "large.safetensors", "out.safetensors"]


def test_files_of_workers_that_are_killed_are_quantized_again(ray, tmp_path):
    from onnx_cast.ray import quantize_checkpoint

    src, weight_map = tmp_path / "in", {}
    src.mkdir()
    values = np.resize(np.linspace(-9, 9, 99_991, dtype=np.float32), (1 << 10, 1 << 13))
    for number in range(6):
        save_file({f"{number}.weight": values * (number + 1)}, src / f"model-{number}.safetensors")
        weight_map[f"{number}.weight"] = f"model-{number}.safetensors"
    (src / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    onnx_cast.quantize_file(src, tmp_path / "alone", "nvfp4")
    with_kills(b"ray::_write_part", 2, lambda: quantize_checkpoint(src, tmp_path / "out", "nvfp4"))
    assert files(tmp_path / "out") == files(tmp_path / "alone")


def test_what_fails_leaves_nothing(ray, checkpoint, tmp_path):
    from onnx_cast.ray import cast_checkpoint

    def stop(done, total):
        raise KeyError(done)

    with pytest.raises(KeyError):
        cast_checkpoint(checkpoint, tmp_path / "out", "float16", slice_bytes=1 << 20, progress=stop)
    assert not [name for name in os.listdir(tmp_path / "out") if name.startswith(".") or name.endswith(".json")]
    from onnx_cast.ray import dequantize_checkpoint, quantize_checkpoint

    with pytest.raises(KeyError):
        quantize_checkpoint(checkpoint, tmp_path / "q", "float8e4m3fn", progress=stop)
    assert not (tmp_path / "q").exists(), "the folder was made for what failed"
    with pytest.raises(onnx_cast.CastError, match="no quantized weights"):
        dequantize_checkpoint(checkpoint, tmp_path / "p", "float16")
    with pytest.raises(ValueError, match="num_cpus"):
        quantize_checkpoint(checkpoint, tmp_path / "p", "nvfp4", num_cpus=0)
    assert not (tmp_path / "p").exists()
    with pytest.raises(FileNotFoundError, match="none.safetensors"):
        cast_checkpoint(tmp_path / "none.safetensors", tmp_path / "y.safetensors", "float16")
    with pytest.raises(onnx_cast.CastError, match="int4"):
        cast_checkpoint(checkpoint, tmp_path / "out", "int4")
    with pytest.raises(ValueError, match="slice_bytes"):
        cast_checkpoint(checkpoint, tmp_path / "out", "float16", slice_bytes=0)


@pytest.mark.parametrize("kind", ["numpy", "pandas", "pyarrow"])
def test_batches_of_ray_data(ray, kind):
    import pyarrow

    from onnx_cast.columns import cast_columns

    x = np.random.default_rng(3).standard_normal((100, 8)).astype(np.float32)
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.reshape(-1)), 8)
    data = ray.data.from_arrow(pyarrow.table({"id": range(100), "embedding": column}))
    cast = data.map_batches(
        cast_columns, batch_format=kind, batch_size=17, fn_args=[{"embedding": "float8e4m3fn"}]
    )
    rows = sorted(cast.take_all(), key=lambda row: row["id"])
    got = np.stack([np.asarray(row["embedding"], np.uint8) for row in rows])
    assert got.tolist() == onnx_cast.cast(x, "float8e4m3fn").view(np.uint8).tolist()


def test_the_example_of_the_manual_runs(ray, checkpoint, tmp_path, monkeypatch):
    (example,) = [code for block, code in examples.of("docs/python-recipes.md") if "cast_checkpoint" in block]
    names = {}
    exec(example, names)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "llama").symlink_to(checkpoint)
    monkeypatch.setattr(ray, "init", lambda: None)  # the tests' cluster is there already
    rows, want = alone(checkpoint, tmp_path / "alone", "float8e4m3fn", rules={"*.norm.*": None, "lm_head.*": "float16"})
    assert names["on_the_cluster"]() == rows and files(tmp_path / "llama-fp8") == want
