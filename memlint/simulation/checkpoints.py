"""Enables activation checkpointing as frameworks do: for which layers, and where their inputs are kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from memlint._record import NamedTuple
from memlint.simulation.tracker import Tracker


class Kind(NamedTuple):
    """`offloads`: a layer's input is kept in host memory. `trainable_layers_only`: layers without trainable parameters
    are not checkpointed."""

    reentrant: bool = True
    offloads: bool = False
    trainable_layers_only: bool = False


def enable(model: Any, kind: Kind, tracker: Tracker) -> None:
    """transformers 5.23 modeling_utils.py, gradient_checkpointing_enable; LLaMA-Factory 0.9.5
    model/model_utils/checkpointing.py, _gradient_checkpointing_enable."""
    run: Callable[..., Any] = partial(checkpoint, use_reentrant=kind.reentrant, preserve_rng_state=False)
    if kind.offloads:
        run = partial(_Offloaded.apply, tracker)
    if kind.trainable_layers_only:
        run = partial(_checkpoint_if_trainable, run)
    model._set_gradient_checkpointing(enable=True, gradient_checkpointing_func=run)
    if not kind.trainable_layers_only:
        model.enable_input_require_grads()


def _checkpoint_if_trainable(run: Callable[..., Any], layer: Any, *inputs: Any) -> Any:
    """LLaMA-Factory's version: inputs of trainable layers require a gradient, other layers are not checkpointed."""
    module = layer.args[0]  # transformers 5.23 modeling_layers.py: `partial(forward, self, **kwargs)`
    if not any(parameter.requires_grad for parameter in module.parameters()):
        return layer(*inputs)
    first = next(one for one in inputs if torch.is_tensor(one) and one.is_floating_point())
    first.requires_grad_(True)
    return run(layer, *inputs)


class _Offloaded(torch.autograd.Function):  # type: ignore[misc]
    """Unsloth's checkpointing: the layer's input is kept on the host and copied back for the recomputation."""

    @staticmethod
    def forward(ctx: Any, tracker: Tracker, layer: Any, hidden: torch.Tensor, *others: Any) -> Any:
        before, tracker.ignored = tracker.ignored, lambda tensor: True
        on_host = hidden.clone()
        tracker.ignored = before
        with torch.no_grad():
            found = layer(hidden, *others)
        ctx.save_for_backward(on_host)
        ctx.layer, ctx.others = layer, others
        ctx.autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (on_host,) = ctx.saved_tensors
        hidden = on_host.clone().detach().requires_grad_(True)
        dtype = ctx.autocast
        with torch.enable_grad(), torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            found = ctx.layer(hidden, *ctx.others)
        found = found[0] if isinstance(found, tuple) else found
        torch.autograd.backward(found, gradients[0])
        return (None, None, hidden.grad, *[None] * len(ctx.others))
