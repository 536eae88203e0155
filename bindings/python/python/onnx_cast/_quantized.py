"""Files of quantized weights, and the options that the same jobs have in memory and on a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from onnx_cast import _models, _targets, files
from onnx_cast.dtypes import DataType
from onnx_cast.types import Activations, Layout, Loss, ScaleRule, To

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnx_cast._native import Options


def dequantizing(
    to: Any,
    layout: Layout | None,
    include: Iterable[str],
    exclude: Iterable[str],
    rules: Mapping[str, To | None] | None,
    min_elements: int | None,
    allow_nan: bool,
    threads: int | None = None,
    rules_file: files.Path | None = None,
) -> Options:
    """How weights become plain, as the native module takes it."""
    return {
        **files.names(include, exclude, threads),
        **files.selection(to, rules, rules_file, min_elements),
        "layout": layout,
        **files.flags(allow_nan=allow_nan),
    }


def quantizing(
    to: Any,
    layout: Layout | None,
    activations: Activations | None,
    scale_rule: ScaleRule | None,
    include: Iterable[str],
    exclude: Iterable[str],
    rules: Mapping[str, To | None] | None,
    min_elements: int | None,
    threads: int | None = None,
    rules_file: files.Path | None = None,
) -> Options:
    """How weights are quantized, as the native module takes it."""
    return {
        **files.names(include, exclude, threads),
        "to": _format(to),
        "rules": files.rule_pairs(rules, _format),
        "rules_file": _models.decoded(rules_file),
        "min_elements": files.count("min_elements", min_elements),
        "layout": layout,
        "activations": activations,
        "scale_rule": scale_rule,
    }


def transcoding(
    layout: Layout, to: Any, activations: Activations | None, from_layout: Layout | None, threads: int | None
) -> Options:
    """How quantized weights get another layout, as the native module takes it."""
    return {
        "threads": _targets.thread_count(threads),
        "to": _format(to),
        "layout": layout,
        "activations": activations,
        "from_layout": from_layout,
    }


def _format(to: Any) -> str | None:
    """The name of a format of quantized weights."""
    return to.name if isinstance(to, DataType) else to


def dequantize_file(
    src: files.Source,
    dst: files.Path | None = None,
    to: To | None = None,
    *,
    layout: Layout | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    rules: Mapping[str, To | None] | None = None,
    rules_file: files.Path | None = None,
    min_elements: int | None = None,
    allow_nan: bool = False,
    dry_run: bool = False,
    resume: bool = False,
    force: bool = False,
    copy_others: bool = True,
    shard_size: str | int | None = None,
    losses: bool = False,
    fail_on: Iterable[Loss] = (),
    base_dir: files.Path | None = None,
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> files.CastSummary | ModelProto:
    """Reads the quantized weights of ``src``, a ``.safetensors`` file or the index or folder of several, back as plain
    weights of the type ``to``: elements are multiplied by their scales, rounded to float, and cast.

    ``layout`` is the layout of ``src``. Without it, the configuration decides, or else the names of tensors. Layouts are
    ``"deepseek"``, ``"gpt-oss"``, ``"compressed-tensors"``, ``"modelopt"``, ``"fbgemm"``, ``"quark"``, ``"comfyui"``,
    ``"plain"``, ``"bitsandbytes"``, ``"mlx"``, ``"gptq"``, ``"awq"``, ``"mistral"``, ``"openai"``, ``"hqq"``,
    ``"torchao"``, ``"quanto"``, ``"bitnet"`` and ``"gemma"``. Names in patterns and rules are those of the plain
    weights; a weight that is not selected stays quantized. Scales that are NaN are an error, unless ``allow_nan`` is
    true.

    From a folder to a folder ``config.json`` is copied without what it says of quantization. ``losses`` and ``fail_on``
    are about the last rounding, from float to ``to``. Other parameters are as in :func:`cast_file`.
    """
    options: Options = {
        **dequantizing(to, layout, include, exclude, rules, min_elements, allow_nan, threads, rules_file),
        **files.writing(None, None, dry_run, resume, force, copy_others, False, shard_size),
        **files.flags(losses=losses),
        "fail_on": files.listed("fail_on", fail_on),
    }
    return files.write_file("dequantize", src, dst, base_dir, options, progress)


def quantize_file(
    src: files.Source,
    dst: files.Path | None = None,
    to: To | None = None,
    *,
    layout: Layout | None = None,
    activations: Activations | None = None,
    scale_rule: ScaleRule | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    rules: Mapping[str, To | None] | None = None,
    rules_file: files.Path | None = None,
    min_elements: int | None = None,
    form: Literal["qdq", "matmulnbits", "dynamic"] = "qdq",
    zero_points: bool = False,
    reduce_range: bool = False,
    raise_opset: bool = False,
    dry_run: bool = False,
    resume: bool = False,
    force: bool = False,
    copy_others: bool = True,
    shard_size: str | int | None = None,
    external_data: str | None = None,
    external_threshold: int | None = None,
    losses: bool = False,
    fail_on: Iterable[Loss] = (),
    base_dir: files.Path | None = None,
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> files.CastSummary | ModelProto:
    """Quantizes the weights of ``src``, a ``.safetensors`` file, the index or folder of several, or an ``.onnx`` file.

    ``to`` is the format: ``"mxfp4"``, ``"mxfp6e2m3"``, ``"mxfp6e3m2"``, ``"mxfp8"``, ``"mxfp8e5m2"``, ``"mxint8"``,
    ``"nvfp4"``, ``"float8e4m3fn"``, ``"float8e5m2"``, ``"int8"`` or ``"int4"``. Matrices of Linear layers are quantized;
    embeddings, norms, routers and output layers only where ``rules``, a mapping from patterns to formats or to ``None``,
    name them. For float8 and integers, the granularity of scales may follow a slash: ``"int4/32"``, a block of a row,
    ``"float8e4m3fn/128x128"``, ``"int8/row"`` or ``"float8e4m3fn/tensor"``; without it the layout decides.
    ``scale_rule`` is how scales of MX are found: ``"floor"``, ``"rceil"``, ``"ceil"`` or ``"even"``.

    ``activations`` says how loaders quantize the inputs of layers in ``"compressed-tensors"``: ``"dynamic"`` (default
    for float8) or ``"none"`` (default for int8); other layouts have one choice.

    ``layout`` is ``"compressed-tensors"``, ``"deepseek"``, ``"modelopt"``, ``"fbgemm"``, ``"quark"``, ``"gpt-oss"``,
    ``"comfyui"``, ``"plain"`` or, for a ``.gguf`` file with ``to="q8_0"`` and the like, ``"gguf"``; from a folder to a
    folder, ``config.json`` gets the settings that loaders need. In an ``.onnx`` file, the weights of MatMul, Gemm,
    Conv, ConvTranspose, LSTM, GRU and RNN are quantized, each followed by a DequantizeLinear, and the tables of Gather
    where ``include`` or ``rules`` name them. With the ``form`` ``"matmulnbits"`` onnxruntime's MatMulNBits and
    GatherBlockQuantized take the place of MatMul, Gemm and Gather, for ``"int4"`` and ``"int8"`` in blocks, with
    ``zero_points`` for ranges that are not symmetric. With ``"dynamic"`` weights are int8, and their inputs are
    quantized when the model runs, as by onnxruntime's ``quantize_dynamic``; ``reduce_range`` gives them 7 bits, whose
    products do not saturate on x86 processors without VNNI. ``raise_opset`` lets the opset be raised where the format
    needs it. ``losses`` and ``fail_on`` compare the weights with their dequantized values, in float; they are for
    checkpoints. Other parameters are as in :func:`cast_file`.
    """
    options: Options = {
        **quantizing(
            to, layout, activations, scale_rule, include, exclude, rules, min_elements, threads, rules_file
        ),
        **files.writing(None, None, dry_run, resume, force, copy_others, False, shard_size),
        "form": form,
        **files.flags(zero_points=zero_points, reduce_range=reduce_range, raise_opset=raise_opset, losses=losses),
        **files.external(external_data, external_threshold),
        "fail_on": files.listed("fail_on", fail_on),
    }
    return files.write_file("quantize", src, dst, base_dir, options, progress)


def transcode_file(
    src: files.Path,
    dst: files.Path,
    layout: Layout,
    *,
    to: To | None = None,
    activations: Activations | None = None,
    from_layout: Layout | None = None,
    dry_run: bool = False,
    resume: bool = False,
    force: bool = False,
    copy_others: bool = True,
    shard_size: str | int | None = None,
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> files.CastSummary:
    """Writes the quantized weights of ``src`` in another ``layout``, as :func:`quantize_file` has them, and changes no
    weight: if one would change, that is an error, and nothing is written.

    ``to`` is the new format of MXFP4 weights: ``"nvfp4"``, or ``"float8e4m3fn"`` in blocks of 128x128. ``from_layout``
    is the layout of ``src``, as ``layout`` of :func:`dequantize_file`. Scales of activations are carried over, which is an
    error if the layout cannot store them; with ``activations``, ``"dynamic"`` or ``"none"``, they are dropped
    (``dropped``).
    Other parameters are as in :func:`cast_file`.
    """
    options: Options = {
        **transcoding(layout, to, activations, from_layout, threads),
        **files.writing(None, None, dry_run, resume, force, copy_others, False, shard_size),
    }
    return files.write_file("transcode", src, dst, None, options, progress)  # type: ignore[return-value]
