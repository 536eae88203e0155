"""Derivatives of the casts, by private names of torch's. If torch lacks one of them, this module cannot be imported.
Then `_torch_operators.py` uses torch's `register_autograd`, which has backward mode only, outside of `torch.func`."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.forward_ad import _set_fwd_grad_enabled
from torch.autograd.function import _SingleLevelFunction

from onnx_cast import _torch

# The second one, of older versions, takes a kernel's views of memory for views to autograd.
_GUARDS = ("_AutoDispatchBelowADInplaceOrView", "_AutoDispatchBelowAutograd")
_below_autograd: Any = next((getattr(torch._C, name) for name in _GUARDS if hasattr(torch._C, name)), None)
if _below_autograd is None:
    raise ImportError(f"torch has none of {', '.join(_GUARDS)}")


def derive(library: Any, name: str, operator: Any, has_gradient: bool) -> None:
    """Registers the derivatives of an operator, or that it has none."""
    library.impl(name, functools.partial(_with_gradient if has_gradient else _without_gradient, operator), "Autograd")


def _without_gradient(operator: Any, *given: Any) -> Any:
    with _below_autograd():
        return operator(*given)


def _with_gradient(operator: Any, *given: Any) -> Any:
    # torch.func has made the tensors those of one of its levels when it comes here.
    with enable_single_level_autograd_function():
        return _StraightThrough.apply(operator, *given)


class _StraightThrough(_SingleLevelFunction):
    """A cast with its derivatives. `torch.library.register_autograd` would give those of backward mode alone: forward mode
    would find zeros, in silence, and `torch.func` an error."""

    @staticmethod
    def forward(operator: Any, *given: Any) -> Any:
        # The levels below of torch.func go on from here, as they were. A kernel views memory as another type, which is to
        # be no view to autograd: that would refuse to write to it.
        with torch.enable_grad(), _set_fwd_grad_enabled(True), _below_autograd():
            return operator(*given)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.inputs, ctx.source, ctx.result = len(inputs), inputs[1].dtype, output.dtype
        if output.dtype is _torch.PAIRS:
            ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return None, gradient.to(ctx.source), *[None] * (ctx.inputs - 2)

    @staticmethod
    def jvp(ctx: Any, _: Any, tangent: Any, *others: Any) -> Any:
        # Of results without gradients torch wants none.
        has_none = ctx.result is _torch.PAIRS or not ctx.result.is_floating_point
        return None if tangent is None or has_none else tangent.to(ctx.result)
