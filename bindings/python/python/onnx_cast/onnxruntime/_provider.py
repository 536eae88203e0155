"""The execution provider: its path, and sessions that use it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from onnx_cast import _native

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

_NAME = "OnnxCastExecutionProvider"
_CLAIMS = ("missing", "inexact", "all")
_REGISTERING = threading.Lock()


def library_path() -> str:
    """The absolute path of the library that onnxruntime loads the execution provider and the custom operators from."""
    path = _native.__file__
    assert path is not None, "a native module is loaded from a file"
    return path


def ep_name() -> str:
    """The provider's name, under which ``register`` registers it, and which sessions list."""
    return _NAME


def register() -> None:
    """Makes the execution provider known to onnxruntime, once for the process; requires onnxruntime 1.23 or newer.

    With onnxruntime 1.26 and newer ``InferenceSession(path, providers=[ep_name(), "CPUExecutionProvider"])`` then uses
    it. :func:`session_options` calls this.
    """
    import onnxruntime

    if not hasattr(onnxruntime, "register_execution_provider_library") or not hasattr(onnxruntime, "get_ep_devices"):
        raise RuntimeError(f"onnxruntime {onnxruntime.__version__} has no execution provider plugins (want 1.23 or newer)")
    with _REGISTERING:
        if not _devices():
            onnxruntime.register_execution_provider_library(_NAME, library_path())


def _devices() -> list:
    """The provider's devices; more than one where its library is registered under several names."""
    import onnxruntime

    return [device for device in onnxruntime.get_ep_devices() if device.ep_name == _NAME]


def session_options(
    claim: str = "missing", *, fold_constants: bool | None = None, options: SessionOptions | None = None
) -> SessionOptions:
    """Options of a session in which the execution provider takes nodes.

    claim
        ``"missing"``: the nodes that this onnxruntime cannot run. ``"inexact"``: also those of which it gets some values
        wrong. ``"all"``: all that the library supports. onnxruntime's own optimizations do not see what the provider
        takes, so that ``"inexact"`` and ``"all"`` can cost speed.
    fold_constants
        Whether onnxruntime computes nodes with constant inputs when it loads a model. It does so with its own kernels,
        before a provider sees the nodes. ``None``, the default, lets it do so with ``"missing"`` alone, where that
        changes nothing: it cannot fold what it cannot run.
    options
        Options to add the provider to; new ones by default.
    """
    import onnxruntime

    if claim not in _CLAIMS:
        raise ValueError(f"claim is {claim!r} (want one of {', '.join(map(repr, _CLAIMS))})")
    register()
    if options is None:
        options = onnxruntime.SessionOptions()
    options.add_provider_for_devices(_devices()[:1], {"claim": claim})
    if not (claim == "missing" if fold_constants is None else fold_constants):
        options.add_session_config_entry("optimization.disable_specified_optimizers", "ConstantFolding")
    return options
