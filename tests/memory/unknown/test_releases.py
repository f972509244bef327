"""Releases that are left out of a stack make no difference to the estimate, whatever the model and the way to train."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.architectures import from_config
from memlint.architectures.config import UnsupportedConfig
from memlint.memory import estimate
from memlint.memory.estimate import estimate_uncached
from memlint.memory.unknown.releases import canonical_stack
from memlint.memory.values import Estimate
from memlint.run import Run, Stack, replace
from tests.comparisons.families import Step, members, run_of

# On both sides of every bound that the estimator knows, and the newest ones.
TRANSFORMERS = ((), (4, 45), (4, 48), (4, 51), (4, 52), (4, 57), (5, 16), (5, 17), (5, 20), (5, 23), (5, 24))
OTHERS: dict[str, tuple[tuple[int, ...], ...]] = {
    "torch": ((), (1, 10), (1, 11), (1, 12), (1, 13), (2, 0)),
    "peft": ((), (0, 18), (0, 19)),
    "trl": ((), (0, 14), (0, 15), (0, 18), (0, 19)),
    "deepspeed": ((), (0, 18), (0, 19)),
    "accelerate": ((), (1, 10), (1, 11), (1, 15)),
}


def stacks(turn: int) -> list[dict[str, Any]]:
    """A stack for each release of transformers. Every release of the others is in one of them.

    What is left out of a stack is left out at once: ten stacks ask what thirty would, each with a release of its own.
    Each family takes another turn, so the releases meet in other ways; half of them at a time, so every second way to
    train asks about the same ones.
    """
    others = [(f"stack.{name}", versions) for name, versions in OTHERS.items()]
    return [
        {
            "stack.transformers": version,
            **{key: versions[(row // 2 + turn) % len(versions)] for key, versions in others},
        }
        for row, version in enumerate(TRANSFORMERS)
        if (row + turn) % 2 == 0
    ]


FSDP1: dict[str, Any] = {
    "parallelism.engine": "fsdp",
    "parallelism.fsdp.version": 1,
    "parallelism.world_size": 4,
    "parallelism.data_parallel_size": 4,
}
FSDP2: dict[str, Any] = {**FSDP1, "parallelism.fsdp.version": 2, "batch.gradient_accumulation_steps": 2}
FSDP2["parallelism.fsdp.output_dtype"] = "float32"
ZERO3: dict[str, Any] = {
    "parallelism.engine": "deepspeed",
    "parallelism.zero.stage": 3,
    "parallelism.zero.mics_shard_size": 2,
    "parallelism.world_size": 4,
    "parallelism.data_parallel_size": 4,
}
GRPO = {"method.stage": "grpo", "method.num_generations": 4, "rollout.generator": "vllm"}


def runs(family: str) -> list[Run]:
    """Ways to train in which a release matters somewhere."""
    full, lora = (run_of(members()[family], Step(method, True, "sdpa")) for method in ("full", "lora"))
    return [
        replace(full, {"optimizer.name": "adamw_bnb_8bit", "checkpointing.mode": "none"}),
        lora,
        replace(lora, {**FSDP1, "checkpointing.reentrant": True}),
        replace(full, FSDP2),
        replace(full, {**ZERO3, **GRPO, "precision.master_weights": True}),
    ]


def is_read(config: dict[str, Any]) -> bool:
    """Whether the small configuration says all that its family's needs."""
    try:
        return bool(from_config(config))
    except UnsupportedConfig:
        return False


FAMILIES = sorted(family for family, config in members().items() if is_read(config))


@pytest.mark.parametrize("family", FAMILIES)
def test_what_is_left_out_of_a_stack_makes_no_difference(family: str) -> None:
    asked = list(runs(family))
    assert asked
    for turn, run in enumerate(asked, FAMILIES.index(family)):
        alike: dict[Stack, Estimate] = {}
        compared = 0
        for versions in stacks(turn):
            one = replace(run, versions)
            stack = canonical_stack(one)
            if stack not in alike:
                alike[stack] = estimate_uncached(one._replace(stack=stack))
            if one.stack != stack:
                assert estimate_uncached(one) == alike[stack], versions
                compared += 1
        assert compared


def test_every_release_is_asked_about_by_some_family() -> None:
    asked = [stack for turn in range(len(FAMILIES)) for stack in stacks(turn)]
    for name, versions in {**OTHERS, "transformers": TRANSFORMERS}.items():
        assert {stack[f"stack.{name}"] for stack in asked} == set(versions)


def test_nearly_every_family_is_asked() -> None:
    assert len(FAMILIES) > 140


def test_ordinary_models_have_one_estimate_since_transformers_4_52() -> None:
    run = run_of(members()["llama"], Step("lora", False, "sdpa"))
    old, new = (replace(run, {"stack.transformers": version}) for version in ((4, 52), (5, 23)))

    assert canonical_stack(old) is canonical_stack(new)
    assert estimate(old) is estimate(new)


def test_experts_are_told_apart_by_the_release_that_stacked_them() -> None:
    run = run_of(members()["qwen3_moe"], Step("lora", False, "sdpa"))
    old, new = (replace(run, {"stack.transformers": version}) for version in ((4, 57), (5, 23)))

    assert canonical_stack(old) != canonical_stack(new)
    assert estimate(old).allocated_bytes != estimate(new).allocated_bytes
