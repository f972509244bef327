"""Stand-in for ScatterMoE's kernels over stacked experts: what they allocate, save and overwrite.

axolotl 0.19.0 integrations/kernels/libs/scattermoe_lora: experts.py:358 (scattermoe_experts_forward),
parallel_experts.py:74 (ParallelLinear). Adapters on the experts and quantised experts take other kernels.
"""

from __future__ import annotations

from typing import Any

import torch

NAME = "scattermoe"


class _ParallelLinear(torch.autograd.Function):  # type: ignore[misc]
    """Rows of `x` times the matrix of each row's expert. `routing`: sum over a token's experts, weighted."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weights: torch.Tensor,
        sorted_experts: torch.Tensor,
        sorted_rows: torch.Tensor,
        routing: torch.Tensor | None,
    ) -> torch.Tensor:
        weights = weights.to(x.dtype)
        expanded = x.new_empty(sorted_rows.shape[0], weights.shape[-1])
        found = expanded
        if routing is not None:
            expanded = expanded.view(*routing.shape, -1)
            found = (routing.unsqueeze(1) @ expanded).squeeze(1)
        ctx.save_for_backward(x, weights, sorted_experts, sorted_rows, routing, None if routing is None else expanded)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, weights, _, rows, routing, expanded = ctx.saved_tensors
        routing_gradient = None if routing is None else (expanded @ grads[0].unsqueeze(-1)).squeeze(-1)
        output_gradient = grads[0] if routing is None else expanded.flatten(0, 1)
        gathered = x if routing is not None else x.new_empty(rows.shape[0], x.shape[-1])
        weight_gradient = torch.zeros(
            weights.shape[0], weights.shape[2], weights.shape[1], dtype=output_gradient.dtype, device=x.device
        ).permute(0, 2, 1)
        if routing is not None:
            return x.new_empty(x.shape), weight_gradient, None, None, routing_gradient
        return gathered.view(x.shape[0], -1, x.shape[-1]).sum(-2), weight_gradient, None, None, None


def _experts_forward(
    module: Any, hidden: torch.Tensor, top_k_index: torch.Tensor, top_k_weights: torch.Tensor
) -> torch.Tensor:
    routing = top_k_weights.to(hidden.dtype)
    sorted_experts, sorted_rows = torch.sort(top_k_index.flatten())
    gate_up, down = module.gate_up_proj.transpose(2, 1), module.down_proj.transpose(2, 1)
    gates_and_inner = _ParallelLinear.apply(hidden, gate_up, sorted_experts, sorted_rows, None)
    gates, inner = gates_and_inner.chunk(2, dim=-1)
    inner = module.act_fn(gates) * inner
    found: torch.Tensor = _ParallelLinear.apply(inner, down, sorted_experts, sorted_rows, routing)
    return found


def use(model: Any) -> None:
    """Has the model's stacked experts run the stand-in."""
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    ALL_EXPERTS_FUNCTIONS.register(NAME, _experts_forward)
    for module in model.modules():
        config = getattr(module, "config", None)
        if config is not None:
            config._experts_implementation_internal = NAME
