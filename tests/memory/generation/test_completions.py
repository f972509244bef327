"""Completions written between steps: gathered weights, cache, how many sequences, another engine's share."""

from __future__ import annotations

from memlint.hardware import find
from memlint.memory.card.device import card
from memlint.memory.estimate import estimate
from memlint.memory.values import Estimate
from memlint.run import Hardware, Parallelism, Run, Zero
from tests.memory.runs import run

GRPO = {
    "method__stage": "grpo",
    "rollout__generator": "model",
    "method__num_generations": 8,
    "sequence__length": 320,
    "sequence__max_prompt_length": 256,
    "sequence__max_new_tokens": 64,
}
ZERO3 = Parallelism(4, 4, 4, engine="deepspeed", zero=Zero(3))


def weights_while_generating(one: Run) -> int:
    found: Estimate = estimate(one)
    phase = next(phase for phase in found.phases if phase.name == "generation")
    return phase.components["temporaries"]


def test_zero3_gathers_the_whole_model_to_generate() -> None:
    sharded = run(**GRPO, parallelism=ZERO3)
    whole = estimate(run(**GRPO)).details["weights_bytes"]
    assert abs(weights_while_generating(sharded) - whole) < 0.01 * whole
    assert weights_while_generating(run(**GRPO, parallelism=ZERO3._replace(zero=Zero(2)))) == 0
    asked = ZERO3._replace(zero=Zero(3, gathers_for_generation=False))
    assert weights_while_generating(run(**GRPO, parallelism=asked)) == 0


def test_vllm_is_handed_one_parameter_at_a_time_unless_adapters_are_merged() -> None:
    elsewhere = {**GRPO, "rollout__generator": "vllm", "parallelism": ZERO3}
    assert weights_while_generating(run(**elsewhere)) == 0
    assert weights_while_generating(run(**elsewhere, stack__trl=(0, 15))) > 0
    lora = {"method__kind": "lora", "method__rank": 8, "method__targets": ("all-linear",)}
    assert weights_while_generating(run(**elsewhere, **lora)) > 0


def test_other_stages_generate_nothing() -> None:
    assert "generation" not in [phase.name for phase in estimate(run()).phases]


def test_a_prompt_brings_all_its_completions_before_trl_0_15() -> None:
    def activations(**changes: object) -> int:
        return estimate(run(**{**GRPO, "batch__micro_batch_size": 1, **changes})).phases[1].components["activations"]

    assert activations(stack__trl=(0, 14)) > 6 * activations(stack__trl=(0, 15))
    assert activations(stack__trl=(0, 14), method__num_generations=4) < 0.6 * activations(stack__trl=(0, 14))


def test_grpo_builds_the_logits_of_completions_alone() -> None:
    long = estimate(run(**GRPO)).details["whole_logits_bytes"]
    all_new = estimate(run(**{**GRPO, "sequence__max_new_tokens": 320})).details["whole_logits_bytes"]
    assert long < 0.25 * all_new


def test_an_engine_on_the_same_card_takes_its_share() -> None:
    alone = run(hardware=Hardware(find("A100-80GB")))
    shared = run(hardware=Hardware(find("A100-80GB")), rollout__share=0.3)
    more = card(1 << 30, shared).minimum - card(1 << 30, alone).minimum
    assert more == int(0.3 * find("A100-80GB").usable_bytes)
