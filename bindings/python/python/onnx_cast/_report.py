"""The losses of casts to several types, before any is done."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_cast import _kinds, _models, _native, _targets, files
from onnx_cast.dtypes import ALL, DataType
from onnx_cast.types import Layout, RoundMode, ScaleRule, To

if TYPE_CHECKING:
    import pandas

#: Rows of a type's table that ``repr`` shows.
_ROWS = 10

#: The columns of a row that are facts about its tensor, with what they are called in a report.
_OF_TENSOR = {
    "tensor": "name",
    "from": "type",
    "shape": "shape",
    "values": "values",
    "zeros": "zeros",
    "smallest": "smallest",
    "largest": "largest",
    "bytes_before": "bytes",
}

#: Those that are said of it in a type.
_OF_CANDIDATE = {
    "to": "type",
    "bytes": "bytes",
    "verdict": "verdict",
    "snr": "snr",
    "overflowed": "overflowed",
    "saturated": "saturated",
    "zero": "zero",
    "subnormal": "subnormal",
    "nan": "nan",
    "infinite": "infinite",
    "max_error": "max_error",
    "mean_error": "mean_error",
    "max_relative_error": "max_relative_error",
    "mean_relative_error": "mean_relative_error",
}


#: The types by name.
_TYPES = {one.name: one for one in ALL}


def _name(candidate: Any) -> str:
    """The name of a candidate."""
    if isinstance(candidate, str) and ("/" in candidate or candidate.startswith(("mx", "nv"))):
        return candidate
    return ALL[_targets.target(candidate)[0] - 1].name


class Report:
    """The result of :func:`onnx_cast.report`: printed as tables, in a notebook shown as a page with plots."""

    def __init__(self, found: _native.Found) -> None:
        self._found = found

    @property
    def types(self) -> tuple[DataType | str, ...]:
        """The candidates: types, and the names of those with scales."""
        return tuple(_TYPES.get(name, name) for name, _ in self._found.verdicts)

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on each candidate, by its name."""
        return dict(self._found.verdicts)

    def to_dict(self) -> dict[str, Any]:
        """Every figure, histograms included, as the command's ``--json`` has them."""
        return json.loads(self._found.json())

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each tensor in each candidate, without the histograms."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas needs pandas (pip install pandas); to_dict has the same figures") from error
        rows = [
            [tensor[key] for key in _OF_TENSOR.values()] + [candidate[key] for key in _OF_CANDIDATE.values()]
            for tensor in self.to_dict()["tensors"]
            for candidate in tensor["candidates"]
        ]
        return pandas.DataFrame(rows, columns=[*_OF_TENSOR, *_OF_CANDIDATE])

    def text(self, top: int = 20) -> str:
        """A table for each type with its ``top`` worst tensors, or with 0 all, as the command prints them."""
        return self._found.text(_targets.whole("top", top, 0))

    def save(self, path: files.Path, *, force: bool = False) -> None:
        """Writes the page to a file, or what :meth:`to_dict` gives to one whose name ends in ``.json``. A
        file that exists is a ``FileExistsError`` without ``force``."""
        path = os.fsdecode(path)
        as_json = path.lower().endswith(".json")
        text = self._found.json() if as_json else self._found.page()
        _native.write_text(path, text, _targets.flag("force", force))

    def __repr__(self) -> str:
        return self.text(_ROWS).rstrip()

    def _repr_html_(self) -> str:
        # A document of its own: neither its style nor its script reaches the notebook's, nor the notebook's it.
        page, title = html.escape(self._found.page()), html.escape(f"Report of {self._found.title}")
        style = "width: 100%; height: 860px; border: 0"
        return f'<iframe title="{title}" sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'


def report(
    x: Any,
    to: To | Iterable[To],
    *,
    saturate: bool = True,
    round_mode: RoundMode = "up",
    opset: int | None = None,
    scale_rule: ScaleRule | None = None,
    layout: Layout | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    min_elements: int | None = None,
    from_: To | Mapping[str, To] | None = None,
    base_dir: files.Path | None = None,
    threads: int | None = None,
    progress: files.Progress | None = None,
) -> Report:
    """Reports, tensor by tensor, what casts to one type or several, ``to``, would lose. A candidate may have
    scales: ``"mxfp4"`` and the other formats of blocks, or a type and what has a scale, ``"int4/32"``,
    ``"float8e4m3fn/128x128"``, ``"int8/row"``, ``"float8e4m3fn/tensor"``; ``scale_rule`` is how scales of MX are
    found. Scales are those that :func:`onnx_cast.quantize_file` writes in the ``layout``, ``"compressed-tensors"``
    unless it is given.

    ``x`` is the path of a file (a checkpoint, a model, a tensor), an ``onnx.ModelProto``, a mapping of names to tensors (a
    ``state_dict``), or one tensor: an array, or whatever else :func:`onnx_cast.cast` takes. ``include``, ``exclude``,
    ``min_elements``, ``from_``, ``base_dir``, ``threads`` and ``progress`` are as in :func:`onnx_cast.cast_file`; texts, and
    tensors that a cast of the file would keep, are left out. Quantized weights of a file are measured as
    :func:`onnx_cast.dequantize_file` gives them, in float.

    >>> onnx_cast.report(np.array([1.0, 1000.0], np.float32), ["float16", "float8e4m3fn"]).verdicts["float16"]
    '1 exact'
    """
    candidates = list(to) if isinstance(to, (list, tuple, set, frozenset)) else [to]
    if not candidates:
        raise TypeError("to is empty (want one type or several)")
    model = _models.is_model(x)
    options: _native.Options = {
        **files.names(include, exclude, threads),
        **_targets.attributes(saturate, round_mode, opset),
        "to": [_name(one) for one in candidates],
        "scale_rule": scale_rule,
        "layout": layout,
        "min_elements": files.count("min_elements", min_elements),
        "from": files.source_types(from_),
    }
    if model or isinstance(x, _models.PATHS):
        title = (x.graph.name or "model") if model else os.path.basename(os.path.normpath(os.fsdecode(x)))
        return _shown(_native.report_file(_models.given(x, base_dir, "x"), title, options, progress))
    if base_dir is not None:
        raise TypeError("base_dir is for a ModelProto")
    if from_ is not None:
        raise TypeError("from_ is for files (arrays have a type)")
    tensors = x if isinstance(x, Mapping) else {"": x}
    arrays = [(str(name), _kinds.array_of(one)) for name, one in tensors.items()]
    numeric = [(name, array.view(np.ndarray)) for name, array in arrays if not _targets.is_text(array.dtype)]
    title = f"{len(arrays)} tensors" if isinstance(x, Mapping) else type(x).__name__
    return _shown(_native.report_arrays(numeric, len(arrays) - len(numeric), title, options, progress))


def _shown(found: _native.Found) -> Report:
    _models.ignored(found.ignored)
    return Report(found)
