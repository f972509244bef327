"""Routers of mixtures of experts, against simulated steps of their classes."""

from __future__ import annotations

import pytest

from memlint.memory.autograd.tape import Parameter, Value, counters
from memlint.memory.estimate import estimate
from memlint.memory.families.lookup import of_layer
from memlint.memory.families.traits import ExpertTraits, Family, RouterTraits
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.layers.router import route
from memlint.memory.state.parameter_roles import Roles
from memlint.simulation import simulate
from tests.comparisons.families import Step, members, run_of

# Products in fp32 (glm4_moe, deepseek_v2), outside of autocast (ernie4_5_moe), in the model's dtype (qwen3_moe); scores
# that stay fp32 (mixtral) or are of the chosen experts alone (granitemoe); shared experts that run first and are gated
# (qwen2_moe).
FAMILIES = ("glm4_moe", "deepseek_v2", "ernie4_5_moe", "qwen3_moe", "mixtral", "granitemoe", "qwen2_moe")


def backward(family: str, method: str, checkpointing: bool) -> tuple[int, int]:
    """The highest point of the backward: estimated, and simulated."""
    config = members()[family]
    run = run_of(config, Step(method, checkpointing, "sdpa"))
    found = {phase.name: phase.allocated_bytes for phase in estimate(run).phases}
    return found["backward"], simulate(run, config).backward


@pytest.mark.parametrize("method", ["pure", "lora"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_holds_what_a_simulated_one_does(family: str, method: str) -> None:
    found, simulated = backward(family, method, checkpointing=False)
    # one hidden state more, however many layers: ERNIE's
    assert found == pytest.approx(simulated, rel=0.009 if family == "ernie4_5_moe" else 0.003)


@pytest.mark.parametrize(("family", "method"), [("glm4_moe", "full"), ("qwen3_moe", "lora"), ("qwen2_moe", "pure")])
def test_so_does_a_checkpointed_one(family: str, method: str) -> None:
    found, simulated = backward(family, method, checkpointing=True)
    assert found == pytest.approx(simulated, rel=0.003)


def test_an_fp32_product_keeps_a_copy_of_the_hidden_state() -> None:
    """2,048 tokens of 96 numbers, and scores of 8 experts, which are fp32 too."""
    router = of_layer("Glm4MoeDecoderLayer").experts.router
    assert router == RouterTraits(fp32_product=True, scores="product", result="scores")
    of_fp32, of_half = (recorded(traits) for traits in (router, RouterTraits(scores="product", result="scores")))
    weight = 8 * 96
    assert of_fp32 - of_half == 4 * (2048 * 96 + weight) + 2 * 2048 * 8


def recorded(router: RouterTraits) -> int:
    """Bytes that a router's forward leaves alive, in bfloat16: one that trains."""
    weight = Parameter("w:router", 2, trainable=True)
    roles = Roles((), None, None, router=weight)
    kernels = KernelConfig()
    tape = kernels.tape()
    nothing = Value.external("rope", 2)
    family = Family(experts=ExpertTraits(router=router))
    context = LayerContext(tape, kernels, {}, nothing, nothing, family)
    x = tape.new("hidden", 2, requires_grad=True)
    scores = route(context, roles, x)
    sizes = {"hidden": 2048 * 96, "w:router": 8 * 96, "routes": 2048 * 8, "chosen": 0}
    live = tape.live_now()
    counts = counters(live.packed[0], len(live.tensor_sizes))
    tape.drop(scores, x)
    return sum(count * sizes[one.name] * one.width for count, one in zip(counts, live.tensor_sizes))
