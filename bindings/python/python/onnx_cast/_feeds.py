"""Inputs for models, and runs of models in onnxruntime."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from onnx_cast import _models
from onnx_cast._models import Given, Path
from onnx_cast._native import CastError

if TYPE_CHECKING:
    from onnx import ModelProto

#: Arrays by the names of a model's inputs.
Feed: TypeAlias = "Mapping[str, Any]"

#: The inputs of one run or several, or ``"random"``.
Inputs: TypeAlias = "Feed | Iterable[Feed] | Literal['random']"

#: Runs with random inputs.
RANDOM_RUNS = 4

#: Values that are fetched from a model at a time: each may be large.
_AT_A_TIME = 64


def packages(what: str) -> tuple[Any, Any]:
    """onnx and onnxruntime, which the package itself does not need."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise ImportError(f"{what} needs onnx and onnxruntime (pip install onnx-cast[onnxruntime])") from error
    return onnx, onnxruntime


def unused(inputs: Inputs | None, seed: int) -> list[tuple[str, str]]:
    """The seed, if it has no effect, with the reason."""
    return [("seed", "is for random inputs")] if seed != 0 and not isinstance(inputs, str) else []


@contextmanager
def as_file(read: Given) -> Iterator[FilePath]:
    """The path of a model that is read, which is written down where it is in memory."""
    if not isinstance(read, tuple):
        yield FilePath(os.fspath(read))
        return
    data, folder = read
    if folder is not None:
        import onnx

        model = onnx.load_model_from_string(data)
        onnx.load_external_data_for_model(model, os.fspath(folder))
        data = _models.serialized(model)
    with tempfile.TemporaryDirectory() as temporary:
        path = FilePath(temporary, "model.onnx")
        path.write_bytes(data)
        yield path


def session(path: Path, threads: int | None) -> Any:
    """A session of onnxruntime on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads or 0
    try:
        return onnxruntime.InferenceSession(os.fspath(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own errors have no common class
        raise CastError(f"{os.fspath(path)}: onnxruntime does not load the model: {error}") from error


def feeds(inputs: Inputs, model: Any, seed: int) -> list[dict[str, np.ndarray]]:
    """The inputs of each run of a session's model."""
    wanted = {one.name: one for one in model.get_inputs()}
    if isinstance(inputs, str):
        if inputs != "random":
            raise CastError(f"inputs is {inputs!r} (want 'random', a mapping of names to arrays, or several of these)")
        rng = np.random.default_rng(seed)
        sizes: dict[str, int] = {}
        return [{name: _random(one, rng, sizes) for name, one in wanted.items()} for _ in range(RANDOM_RUNS)]
    given: list[Mapping[str, Any]] = [inputs] if isinstance(inputs, Mapping) else list(inputs)
    if not given:
        raise CastError("inputs is empty (want a mapping of names to arrays, or several)")
    for feed in given:
        if not isinstance(feed, Mapping):
            raise TypeError(f"inputs has a {type(feed).__name__} (want mappings of names to arrays)")
        for name in feed:
            if name not in wanted:
                raise CastError(f"inputs: the model has no input `{name}` (it has {', '.join(wanted)})")
        for name in wanted:
            if name not in feed:
                raise CastError(f"inputs: no array for the model's input `{name}`")
    return [{name: np.asarray(array) for name, array in feed.items()} for feed in given]


#: Types of onnxruntime that are filled at random.
_KINDS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(bool)": np.bool_,
    **{f"tensor({name})": np.dtype(name) for name in ("int8", "int16", "int32", "int64")},
    **{f"tensor({name})": np.dtype(name) for name in ("uint8", "uint16", "uint32", "uint64")},
}


def _random(one: Any, rng: np.random.Generator, sizes: dict[str, int]) -> np.ndarray:
    """Numbers for an input: of floats about a normal distribution, of integers 0 and 1, which are valid as indices, masks
    and kinds. Dimensions of one name have one size."""
    kind = _KINDS.get(one.type)
    if kind is None:
        raise CastError(f"input `{one.name}` is a {one.type}, which cannot be random (want inputs)")
    shape = []
    for axis, dim in enumerate(one.shape):
        if isinstance(dim, int) and dim >= 0:
            shape.append(dim)
            continue
        size = 1 if axis == 0 else 64 if len(one.shape) >= 4 else 16
        shape.append(sizes.setdefault(dim, size) if isinstance(dim, str) else size)
    if kind in (np.float32, np.float64, np.float16):
        return rng.standard_normal(shape).astype(kind)
    if kind is np.dtype("uint8"):
        return rng.integers(0, 256, shape, dtype=np.uint8)
    return rng.integers(0, 2, shape).astype(kind) if shape else np.ones((), kind)


def run(model: Any, names: Sequence[str] | None, given: Mapping[str, np.ndarray], path: Path) -> list[Any]:
    """What a session gives."""
    try:
        return model.run(names, dict(given))
    except Exception as error:  # onnxruntime's own errors have no common class
        raise CastError(f"{os.fspath(path)}: onnxruntime does not run the model with these inputs: {error}") from error


def with_values(path: FilePath, values: Iterable[str], out: str) -> FilePath:
    """A model beside another, whose float values are outputs."""
    import onnx

    model: ModelProto = onnx.load(os.fspath(path), load_external_data=False)
    there = {one.name for one in model.graph.output}
    for name in values:
        if name not in there:
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    target = path.with_name(out)
    target.write_bytes(model.SerializeToString())
    return target


def in_parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Names that are fetched together."""
    for start in range(0, len(names), _AT_A_TIME):
        yield names[start : start + _AT_A_TIME]
