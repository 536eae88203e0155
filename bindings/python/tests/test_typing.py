"""What the annotations promise: `scripts/checks/typing_examples.py` has mypy and pyright read this file in strict mode,
and here it runs. The literals are those that the library takes."""

from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

import numpy as np
import onnx
import pytest
import typed_calls
from typing_extensions import assert_type

import onnx_cast
from onnx_cast import dtypes, types
from onnx_cast.types import Loss, RoundMode, To

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]


def names() -> dict[str, Any]:
    """What the calls of the table use."""
    found: dict[str, Any] = {}
    exec(typed_calls.SETUP, found)
    return found


@pytest.mark.parametrize("call", typed_calls.TAKEN)
def test_a_call_gives_what_its_annotations_say(call: str) -> None:
    found = names()
    result = eval(call, found)
    check_type(result, eval(typed_calls.TAKEN[call], found))


def check_type(result: Any, kind: Any) -> None:
    """Compares a result with an annotation, down to dimensions and the type of elements."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        assert isinstance(result, tuple(one for one in get_args(kind) if one is not Any)) or Any in get_args(kind)
        return
    assert isinstance(result, get_origin(kind) or kind)
    if get_origin(kind) is np.ndarray:
        shape, dtype = get_args(kind)
        assert shape is Any or len(get_args(shape)) == result.ndim
        (scalar,) = get_args(dtype)
        assert scalar is Any or result.dtype == scalar


@pytest.mark.parametrize("call", typed_calls.REFUSED)
def test_a_call_that_annotations_refuse_is_refused(call: str) -> None:
    with pytest.raises((TypeError, onnx_cast.CastError)):
        eval(call, names())


def test_bytes_and_blocks() -> None:
    import ml_dtypes

    nibbles = np.array([1, 2, 3], ml_dtypes.int4)
    assert_type(onnx_cast.pack(nibbles), Bytes)
    assert_type(onnx_cast.unpack(b"\x21\x03", "int4", 3), np.ndarray[Any, np.dtype[Any]])
    quantized = onnx_cast.quantize_blocks(np.ones(32, np.float32), "nvfp4", recipe="torchao")
    assert_type(quantized.global_scale, float | None)
    assert_type(onnx_cast.dynamic_quantize_linear(np.ones(2, np.float32))[1], np.float32)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "w.npy"
    np.save(path, np.array([1.0, 1e6], np.float32))
    losses: list[Loss] = ["overflow"]
    with pytest.raises(onnx_cast.LossError):
        onnx_cast.cast_file(path, tmp_path / "half.npy", "float16", fail_on=losses)
    assert_type(onnx_cast.info(path)[0].shape, tuple[int, ...])
    assert_type(onnx_cast.__version__, str)


def test_models_in_memory(tmp_path: Path) -> None:
    value = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in ("x", "y")]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    path = tmp_path / "model.onnx"
    assert_type(onnx_cast.upgrade_model(model), onnx.ModelProto)
    assert_type(onnx_cast.upgrade_model(model, path, opset=20), onnx_cast.files.Upgraded)
    assert_type(onnx_cast.upgrade_model(model, dry_run=True), onnx_cast.files.Upgraded)
    assert_type(onnx_cast.cast_file(model, to="bf16", dry_run=False), onnx.ModelProto)
    assert_type(onnx_cast.cast_file(path, tmp_path / "out.onnx", "bf16", threads=1), onnx_cast.files.CastSummary)
    assert_type(onnx_cast.fold(model), onnx.ModelProto)
    assert_type(onnx_cast.record_model(path, dry_run=True), onnx_cast.files.Recorded)
    assert_type(onnx_cast.convert_model(model, to="bf16").model, onnx.ModelProto | None)
    assert_type(onnx_cast.convert_model(model, explain=["y"]), onnx_cast.Converted)
    assert_type(onnx_cast.info(model)[0:1], list[onnx_cast.files.TensorInfo])


def of(literal: Any) -> set[str]:
    return set(get_args(literal))


def test_the_names_of_types_are_those_of_the_library() -> None:
    assert of(types.TypeName) == {one.name for one in dtypes.ALL}
    wanted: list[To] = ["bf16", np.dtype(np.float16), np.float16, onnx.TensorProto.FLOAT16, dtypes.float16]
    assert [dtypes.of(to).name for to in wanted] == ["bfloat16", *["float16"] * 4]


def refused(*arguments: Any, **keywords: Any) -> str:
    """What the library says to a name that it does not know."""
    with pytest.raises(onnx_cast.CastError) as error:
        onnx_cast.quantize_file(*arguments, **keywords)
    return str(error.value)


def test_each_literal_is_taken_and_no_other_name() -> None:
    x = np.ones(64, np.float32)
    modes: list[RoundMode] = ["up", "down", "nearest"]
    assert set(modes) == of(RoundMode)
    for mode in modes:
        onnx_cast.cast(x, "float8e8m0", round_mode=mode)
    with pytest.raises(onnx_cast.CastError, match="want up, down or nearest"):
        onnx_cast.cast(x, "float8e8m0", round_mode="even")  # type: ignore # pyright: ignore
    formats = {name: onnx_cast.quantize_blocks(x, name) for name in get_args(types.BlockFormat)}
    assert {one.format for one in formats.values()} == of(types.BlockFormat)
    for rule in get_args(types.ScaleRule):
        onnx_cast.quantize_blocks(x, "mxfp4", scale_rule=rule)
    for recipe in get_args(types.Recipe):
        onnx_cast.quantize_blocks(x, "nvfp4", recipe=recipe)
    for literal, keyword in ((types.ScaleRule, "scale_rule"), (types.Recipe, "recipe")):
        with pytest.raises(onnx_cast.CastError) as error:
            onnx_cast.quantize_blocks(x, "nvfp4", **{keyword: "?"})  # type: ignore # pyright: ignore
        assert all(name in str(error.value) for name in of(literal))


def test_each_layout_is_taken_and_no_other(tmp_path: Path) -> None:
    message = refused(tmp_path, tmp_path / "out", "float8e4m3fn", layout="?")
    assert all(name in message for name in of(types.Layout)), message
    loss = refused(tmp_path, tmp_path / "out", "float8e4m3fn", fail_on=["?"])
    assert all(name in loss for name in of(Loss)), loss
