"""Stacked experts that the CPU computes, with their weights and adapters in host memory (KTransformers).

Source: kt-kernel 0.7.2 python/sft/autograd.py:79 (KTMoEFunction). Tokens and scores go to the host, the weighted sum
over each token's experts comes back; what the backward needs of the experts stays on the host.
"""

from __future__ import annotations

from memlint.architectures.model import Mlp
from memlint.memory.autograd.tape import Parameter, Value
from memlint.memory.layers.kernel_config import LayerContext

_SCORE_GRADIENT = 2  # bytes of an element: bf16, whatever the scores have (autograd.py:469)


def host_experts(context: LayerContext, shape: Mlp, experts: dict[str, Parameter], x: Value, scores: Value) -> Value:
    """The experts' output. The backward keeps nothing, and copies the gradients of tokens and scores to the card."""
    found = context.tape.new("hidden", x.width)
    context.tape.node((found,), (x, scores), (), ((scores.extent, _SCORE_GRADIENT),))
    return found
