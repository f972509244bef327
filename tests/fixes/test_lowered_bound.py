"""Where a lower bound alone is known, what lowers it is told by Megatron's options or by moves; nothing is promised."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from memlint.architectures import from_config
from memlint.findings import Edit
from memlint.fixes.lowered_bound import Lowered, as_advice, lowered_bound
from memlint.fixes.plan_search import SearchHooks
from memlint.hardware import find
from memlint.memory import estimate
from memlint.run import Fsdp, Parallelism, Planning, Run, replace
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
    return lowered_bound(one, estimate(one), SearchHooks(estimate))


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


def test_experts_are_divided_before_matrices_are() -> None:
    """ms-swift divides experts among expert ranks alone, unless told otherwise."""
    mixture = from_config({**LARGE, "model_type": "qwen3_moe", "num_experts": 64, "num_experts_per_tok": 4, **_MLP})
    names = {**NAMES, "parallelism.expert_parallel_size": "--expert"}
    one = megatron(**{"model.architecture": mixture, "planning.option_names": tuple(names.items())})
    titles = [step.title for step in lowered(one)]
    ranks = [title for title in titles if title.startswith(("--expert", "--tensor"))]
    assert ranks[0].startswith("--expert 1 -> ")
    assert all(title.endswith("(and expert_tensor_parallel_size)") for title in ranks[1:])


_MLP = {"moe_intermediate_size": 4096, "norm_topk_prob": True, "head_dim": 1024}


def unmodelled(**changes: Any) -> Run:
    """Of Mllama the weights, gradients and states alone are known."""
    alone = Parallelism(8, 8, 8, engine="fsdp", fsdp=Fsdp(2))
    one = run({**LARGE, "num_hidden_layers": 64}, parallelism=alone, batch__gradient_accumulation_steps=8)
    facts = {"stack.unmodelled": "a tower", "stack.unmodelled_adds": True, "hardware.gpu": find("A100-40GB")}
    return replace(one, {**facts, **changes})


def test_of_other_engines_the_changes_of_the_planner_are_told_as_far_as_they_are_needed() -> None:
    one = unmodelled()
    assert estimate(one).verdict == "unknown"
    found = lowered(one)
    titles = [step.title for step in found]
    assert titles == ["FSDP shards in host memory", "reduce gradients after each micro batch (sync_each_batch)"]
    assert not found[0].enough and found[1].enough
    reduced = lowered(unmodelled(**{"parallelism.fsdp.reduces_each_backward": True}))
    assert [step.title for step in reduced] == titles[:1]
    assert lowered(unmodelled(**{"hardware.gpu": find("B200"), "parallelism.fsdp.cpu_offload": True})) == ()


def test_what_the_format_cannot_write_is_not_told() -> None:
    one = unmodelled()

    def express(_: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
        return None if "parallelism.fsdp.cpu_offload" in changes else ()

    told = lowered_bound(one, estimate(one), SearchHooks(estimate, express))
    assert told and not any("host memory" in step.title for step in told)


def test_the_advice_promises_nothing_and_names_the_risk() -> None:
    one = megatron("RTX4090")
    fix = as_advice(lowered(one), replace(one, {"planning.spares_activations": ("--recompute",)}))
    assert fix is not None and not fix.edits and not fix.verdict_after
    assert "no plan is promised" in fix.note and "--recompute" in fix.note
    assert as_advice((), one) is None
    risky = as_advice((Lowered("a", 0, True, "medium"), Lowered("b", 0, True)), one)
    assert risky is not None and risky.quality == "medium" and "next to nothing" in risky.note


def test_nothing_is_said_of_a_bound_below_the_card_of_other_engines_or_of_options_without_a_name() -> None:
    assert lowered(megatron("B200", **{"parallelism.replicates_optimizer": False})) == ()
    assert lowered(megatron(**{"parallelism.engine": "ddp"})) == ()
    unnamed = replace(megatron(), {"planning.option_names": ()})
    assert all(step.title.endswith(" GPUs") for step in lowered(unnamed))
