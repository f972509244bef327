"""Of Megatron's engine a lower bound alone is known: what lowers it is said by its options, and nothing is promised."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from memlint.fixes.lowered_bound import Lowered, lowered_bound
from memlint.hardware import find
from memlint.memory import estimate
from memlint.run import Parallelism, Planning, Run, replace
from tests.memory.runs import TINY, run

NAMES = {
    "parallelism.replicates_optimizer": "--divide",
    "batch.micro_batch_size": "--micro",
    "parallelism.tensor_parallel_size": "--tensor",
    "parallelism.pipeline_parallel_size": "--pipeline",
    "offload.optimizer": "--host",
}
LARGE = {
    **TINY,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 48,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
}


def megatron(card: str = "A100-80GB", **changes: Any) -> Run:
    one = run(
        LARGE,
        parallelism=Parallelism(16, 8, 8, 2, engine="megatron", replicates_optimizer=True),
        planning=Planning(option_names=tuple(NAMES.items())),
        batch__micro_batch_size=4,
    )
    return replace(one, {"hardware.gpu": find(card), "precision.compute": "bfloat16", **changes})


def lowered(one: Run) -> tuple[Lowered, ...]:
    return lowered_bound(one, estimate(one), estimate)


def test_each_change_lowers_the_bound_and_the_last_one_may_be_enough() -> None:
    one = megatron()
    found = lowered(one)
    before = estimate(one).allocated_low_bytes or 0
    assert found[0].title == "--divide" and found[0].least < before
    assert all(later.least < earlier.least for earlier, later in pairwise(found))
    assert not any(step.enough for step in found[:-1])
    assert any(step.title == "--tensor 2 -> 8" for step in lowered(megatron("RTX4090")))


def test_degrees_divide_the_heads_the_layers_and_the_gpus() -> None:
    titles = [step.title for step in lowered(megatron("RTX4090"))]
    assert not any(title.startswith("--tensor 2 -> 16") for title in titles)
    odd = megatron("RTX4090", **{"parallelism.world_size": 6, "parallelism.data_parallel_size": 3})
    assert not any("--tensor" in step.title or "--pipeline" in step.title for step in lowered(odd))


def test_nothing_is_said_of_a_bound_below_the_card_of_other_engines_or_of_options_without_a_name() -> None:
    assert lowered(megatron("B200", **{"parallelism.replicates_optimizer": False})) == ()
    assert lowered(megatron(**{"parallelism.engine": "ddp"})) == ()
    unnamed = replace(megatron(), {"planning.option_names": ()})
    assert all(step.title.endswith(" GPUs") for step in lowered(unnamed))
