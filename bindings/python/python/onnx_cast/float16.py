"""``convert_float_to_float16``, with the arguments of onnxconverter-common's function: ``from onnx_cast import float16``
in place of ``from onnxconverter_common import float16``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from onnx_cast import _convert, _models, _native, files
from onnx_cast._native import CastError
from onnx_cast._verify import exactly

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["DEFAULT_OP_BLOCK_LIST", "convert_float_to_float16"]


def __dir__() -> list[str]:
    return sorted(__all__)


#: What stays float where no ``op_block_list`` is given, as in onnxconverter-common.
DEFAULT_OP_BLOCK_LIST = [
    "ArrayFeatureExtractor",
    "Binarizer",
    "CastMap",
    "CategoryMapper",
    "DictVectorizer",
    "FeatureVectorizer",
    "Imputer",
    "LabelEncoder",
    "LinearClassifier",
    "LinearRegressor",
    "Normalizer",
    "OneHotEncoder",
    "RandomUniformLike",
    "SVMClassifier",
    "SVMRegressor",
    "Scaler",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
    "ZipMap",
    "NonMaxSuppression",
    "TopK",
    "RoiAlign",
    "Resize",
    "Range",
    "CumSum",
    "Min",
    "Max",
    "Upsample",
]

_FLOAT16 = 10
_LARGEST = 65504.0


def convert_float_to_float16(
    model: ModelProto,
    min_positive_val: float = 1e-7,
    max_finite_val: float = 1e4,
    keep_io_types: bool | Iterable[str] = False,
    disable_shape_infer: bool = False,
    op_block_list: Iterable[str] | None = None,
    node_block_list: Iterable[str] | None = None,
    check_fp16_ready: bool = True,
) -> ModelProto:
    """A model that computes in float16, with the arguments of onnxconverter-common's function of this name, and their
    defaults. :func:`onnx_cast.convert_model` has more options, and changes no constant.

    Constants are clamped: magnitudes below ``min_positive_val`` are raised to it, those above ``max_finite_val``
    lowered; a warning names each constant that this changes. Inputs and outputs become float16 unless ``keep_io_types``
    is true, or a list that names them. Operators of ``op_block_list`` and the nodes named in
    ``node_block_list`` stay float, as do sensitive operators: softmax, norms, logarithms. ``disable_shape_infer``
    changes nothing: types are always inferred. A model that already has float16 is an error unless ``check_fp16_ready``
    is false.

    The given model does not change.
    """
    if not _models.is_model(model):
        raise CastError(f"Expected model type is an ONNX ModelProto but got {type(model)}")
    if not 0 <= min_positive_val <= max_finite_val:
        raise CastError(f"constants cannot be clamped to magnitudes from {min_positive_val} to {max_finite_val}")
    if check_fp16_ready and _has_float16(model):
        again = "if it is to be converted again, set check_fp16_ready=False"
        raise CastError(f"The model is already converted to float16: {again}")
    blocked = DEFAULT_OP_BLOCK_LIST if op_block_list is None else files.listed("op_block_list", op_block_list)
    nodes = [] if node_block_list is None else files.listed("node_block_list", node_block_list)
    options = {
        "to": "float16",
        "io": _interface(keep_io_types),
        "keep": ["sensitive", *map(exactly, sorted({*blocked, *nodes}))],
        "allow_unmatched": True,
        "clamp": [min_positive_val, max_finite_val],
    }
    result, summary = _native.convert(_models.given(model), None, options, None)
    done = _convert.converted(summary)
    for constant in done.clamped:
        for before, after in constant.numbers:
            bound = min_positive_val if abs(before) < abs(after) else min(max_finite_val, _LARGEST)
            text = f"the float32 number {before} will be truncated to {math.copysign(bound, before)}"
            warnings.warn(f"{text} (constant `{constant.name}`)", stacklevel=2)
    return _models.made(model, result, done)


def _interface(keep_io_types: Any) -> list[Any]:
    if isinstance(keep_io_types, (bool, int)):
        return ["keep" if keep_io_types else "low"]
    return ["low", dict.fromkeys(files.listed("keep_io_types", keep_io_types), "float")]


def _has_float16(model: ModelProto) -> bool:
    """Whether the graph has a value, an initializer or a Cast of float16."""
    graph = model.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    casts = (one for node in graph.node if node.op_type == "Cast" for one in node.attribute if one.name == "to")
    return (
        any(value.type.tensor_type.elem_type == _FLOAT16 for value in values)
        or any(tensor.data_type == _FLOAT16 for tensor in graph.initializer)
        or any(attribute.i == _FLOAT16 for attribute in casts)
    )
