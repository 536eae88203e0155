"""Quantized weights in memory: a module's tensors, or a model's, in the layouts of checkpoints.

What :func:`onnx_cast.dequantize_file`, ``quantize_file`` and ``transcode_file`` do with files, these functions do with
mappings of names to tensors: a ``state_dict``, or what safetensors loads. Values, names, checks and errors are the
same. Warnings of the summary are issued as Python warnings. Tensors are of any kind that :func:`onnx_cast.cast` takes,
and are read in place. Results are of the kind of their sources, and unchanged tensors are the same objects.

>>> import numpy as np
>>> from onnx_cast import layouts
>>> quantized, config = layouts.quantize({"weight": np.linspace(-4, 4, 64, dtype=np.float32).reshape(2, 32)}, "mxfp4")
>>> {name: (x.dtype.name, x.shape) for name, x in quantized.items()}
{'weight_packed': ('uint8', (2, 16)), 'weight_scale': ('uint8', (2, 1))}
>>> layouts.dequantize(quantized, config=config)["weight"][0, :3]
array([-4, -4, -4], dtype=bfloat16)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from onnx_cast import _kinds, _native, _quantized, files
from onnx_cast.dtypes import ALL, DataType
from onnx_cast.types import Activations, Layout, Loss, ScaleRule, To

__all__ = ["Weight", "dequantize", "quantize", "transcode", "weights"]


def __dir__() -> list[str]:
    return sorted(__all__)


_TYPES = {one.name: one for one in ALL}


class Weight(NamedTuple):
    """A quantized weight, and its tensors."""

    #: The name and the shape of its values.
    name: str
    shape: tuple[int, ...]
    #: The format, as configurations name it: ``"NVFP4"``, ``"FP8"``, ``"INT4"``.
    format: str
    #: The types of the elements and the scales.
    elements: DataType
    scales: DataType
    #: Rows and columns that share a scale, and whether these are a ``"block"``, a ``"row"``, a ``"column"``, a
    #: ``"matrix"`` of a tensor of several, or all of the ``"tensor"``.
    block: tuple[int, int]
    granularity: str
    #: Bits of storage for each value, with scales and all else.
    bits: float
    #: The names of its tensors: ``"elements"`` and ``"scales"``, and where there are such ``"global_scale"``,
    #: ``"zero_points"``, ``"groups"`` and ``"shape"``.
    tensors: dict[str, str]


def weights(
    tensors: Mapping[str, Any], *, layout: Layout | None = None, config: Mapping[str, Any] | None = None
) -> list[Weight]:
    """The quantized weights among ``tensors``, by names and ``config``; an empty list if there are none. ``layout`` and
    ``config``
    are as in :func:`dequantize`; tensors that contradict them, or each other, are an error."""
    options: _native.Options = {"layout": layout}
    found = _native.quantized_tensors(_lent(tensors), _text(config), options)["weights"]

    def weight(row: dict[str, Any]) -> Weight:
        types = {name: _TYPES[row[name]] for name in ("elements", "scales")}
        return Weight(**{**row, **types, "shape": tuple(row["shape"]), "block": tuple(row["block"])})

    return [weight(row) for row in found]


def dequantize(
    tensors: Mapping[str, Any],
    to: To = "bfloat16",
    *,
    layout: Layout | None = None,
    config: Mapping[str, Any] | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    rules: Mapping[str, To | None] | None = None,
    min_elements: int | None = None,
    allow_nan: bool = False,
    fail_on: Iterable[Loss] = (),
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> dict[str, Any]:
    """The plain weights of ``tensors`` and all other tensors except scales, in the order of their elements.

    ``config`` is the content of ``config.json``, its ``quantization_config`` alone, or the content of
    ``hf_quant_config.json``. It is compared with the tensors, and needed if they do not determine the layout or the
    block. Other parameters are as in :func:`onnx_cast.dequantize_file`.
    """
    options: _native.Options = {
        **_quantized.dequantizing(to, layout, include, exclude, rules, min_elements, allow_nan, threads),
        "fail_on": files.listed("fail_on", fail_on),
    }
    return _rewrite("dequantize", tensors, config, options, progress)[0]


def quantize(
    tensors: Mapping[str, Any],
    to: To = "nvfp4",
    *,
    layout: Layout | None = None,
    activations: Activations | None = None,
    scale_rule: ScaleRule | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    rules: Mapping[str, To | None] | None = None,
    min_elements: int | None = None,
    fail_on: Iterable[Loss] = (),
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The quantized weights of ``tensors``, with all other tensors, and the ``quantization_config`` for
    ``config.json``: ``None`` for the layouts ``"comfyui"`` and ``"plain"``.

    As in files, the weights of Linear layers are quantized, identified by their names.
    Parameters are as in :func:`onnx_cast.quantize_file`.
    """
    options: _native.Options = {
        **_quantized.quantizing(to, layout, activations, scale_rule, include, exclude, rules, min_elements, threads),
        "fail_on": files.listed("fail_on", fail_on),
    }
    return _rewrite("quantize", tensors, None, options, progress)


def transcode(
    tensors: Mapping[str, Any],
    layout: Layout,
    *,
    to: To | None = None,
    activations: Activations | None = None,
    from_layout: Layout | None = None,
    config: Mapping[str, Any] | None = None,
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The quantized weights of ``tensors`` in another ``layout``, with all others, and the new ``quantization_config``.
    No weight changes: one that would is an error. ``config`` is as in :func:`dequantize`; other parameters are as in
    :func:`onnx_cast.transcode_file`."""
    options = _quantized.transcoding(layout, to, activations, from_layout, threads)
    return _rewrite("transcode", tensors, config, options, progress)


def _rewrite(
    job: str,
    tensors: Mapping[str, Any],
    config: Mapping[str, Any] | None,
    options: _native.Options,
    progress: files.Progress | None,
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    done, sources, made, found, loss = _native.rewrite_tensors(job, _lent(tensors), _text(config), options, progress)
    rows = files.summary(done, loss, warns=True)
    result = {}
    for row, source, data in zip(rows, sources, made, strict=True):
        one = tensors[row.name if data is None else source]
        result[row.name] = one if data is None else _kinds.result(one, row.name, data, row.after.number, row.shape)
    return result, None if found is None else json.loads(found)


def _lent(tensors: Mapping[str, Any]) -> list[_native.Tensor]:
    """Tensors as the native module takes them."""
    if not isinstance(tensors, Mapping):
        raise TypeError(f"tensors is of type {type(tensors).__name__} (want a mapping from names to tensors)")
    for name in tensors:
        if not isinstance(name, str):
            raise TypeError(f"tensors has the name {name!r} (want names that are str)")
    return [(name, *_kinds.lent(one, name)) for name, one in tensors.items()]


def _text(config: Mapping[str, Any] | None) -> str | None:
    return None if config is None else json.dumps(config)
