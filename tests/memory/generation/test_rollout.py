"""Phases between updates: the engine's share, weights on their way to it, log-probabilities, a critic."""

from __future__ import annotations

import pytest

from memlint.architectures import from_config, resolve
from memlint.hardware import common, find
from memlint.memory.estimate import estimate
from memlint.memory.generation.rollout import engine_start, shortest
from memlint.memory.values import Phase
from memlint.run import UNKNOWN, Fsdp, Hardware, Model, Parallelism, Run, ValueModel, Zero, replace
from tests.memory.runs import LORA, TINY, run

GRPO: dict[str, object] = {
    "method__stage": "grpo",
    "loss__kind": "fused_ce",
    "loss__prompt_logits": True,
    "sequence__length": 512,
    "sequence__max_prompt_length": 256,
    "sequence__max_new_tokens": 256,
    "rollout__log_prob_micro_batch_size": 4,
    "rollout__reference_micro_batch_size": 8,
    "method__reference_model": "copy",
}
AWAKE = {**GRPO, "rollout__generator": "vllm_colocate", "rollout__share": 0.4}
ASLEEP = {**AWAKE, "rollout__sleep_level": 2}
CARD = Hardware(find("A100-80GB"))
GIB = 1 << 30


def phase(one: Run, name: str) -> Phase:
    return next(found for found in estimate(one).phases if found.name == name)


def names(one: Run) -> set[str]:
    return {found.name for found in estimate(one).phases}


def test_log_probabilities_are_a_forward_of_their_own() -> None:
    assert {"log_probabilities", "reference"} <= names(run(**GRPO))
    without = {**GRPO, "rollout__log_prob_micro_batch_size": 0, "rollout__reference_micro_batch_size": 0}
    assert not {"log_probabilities", "reference"} & names(run(**without))


def test_logits_grow_with_the_sequences_of_that_forward() -> None:
    policy, reference = (phase(run(**GRPO), name).components["logits"] for name in ("log_probabilities", "reference"))
    assert reference == pytest.approx(2 * policy, rel=0.01)
    assert policy == pytest.approx(2 * 4 * 512 * int(str(TINY["vocab_size"])), rel=0.01)


def test_an_entropy_in_fp32_takes_four_times_the_logits_more() -> None:
    plain = phase(run(**GRPO), "log_probabilities").allocated_bytes
    whole = phase(run(**GRPO, rollout__log_prob_entropy="whole"), "log_probabilities").allocated_bytes
    compiled = phase(run(**GRPO, rollout__log_prob_entropy="compiled"), "log_probabilities").allocated_bytes
    logits = 2 * 4 * 512 * int(str(TINY["vocab_size"]))
    assert compiled == pytest.approx(plain, abs=1024)
    assert whole - plain == pytest.approx(4 * logits, rel=0.1)


def test_an_engine_that_wakes_as_a_whole_may_need_a_copy_of_the_weights_beside_its_share() -> None:
    one = run(**{**ASLEEP, "rollout__share": 0.9}, hardware=CARD)
    found, woken = estimate(one), estimate(replace(one, {"rollout.wakes_at_once": True}))
    assert woken.device_bytes == found.device_bytes
    weights = phase(one, "weight_sync").components["weights"]
    share = phase(one, "rollout").components["engine"]
    assert (woken.device_high_bytes or 0) >= share + 2 * weights
    assert (woken.device_high_bytes or 0) >= (found.device_high_bytes or 0)


def test_an_engine_that_sleeps_leaves_the_update_alone() -> None:
    awake, asleep = estimate(run(**AWAKE, hardware=CARD)), estimate(run(**ASLEEP, hardware=CARD))
    share = int(0.4 * CARD.gpu.usable_bytes)
    assert awake.device_bytes is not None and asleep.device_bytes is not None
    assert "rollout" not in names(run(**AWAKE, hardware=CARD))
    assert phase(run(**ASLEEP, hardware=CARD), "rollout").components["engine"] == share
    assert asleep.peak_phase == "rollout"
    assert share < asleep.device_bytes < awake.device_bytes


def test_what_waits_in_host_memory_is_not_beside_the_engine() -> None:
    kept = phase(run(**ASLEEP, hardware=CARD), "rollout").components
    away = phase(
        run(**ASLEEP, hardware=CARD, rollout__offloads_weights=True, rollout__offloads_optimizer=True), "rollout"
    ).components
    assert kept["weights"] > 0 < kept["optimizer_states"]
    assert away["weights"] == away["optimizer_states"] == 0
    assert away["engine"] == kept["engine"]


def test_a_share_beyond_the_card_does_not_fit() -> None:
    full = run(**{**ASLEEP, "rollout__share": 0.999}, hardware=CARD)
    assert estimate(full).verdict == "out_of_memory"
    assert "A100-80GB" not in estimate(full).fits_on


def test_what_the_engine_profiled_need_not_be_on_the_card_while_it_writes() -> None:
    """vLLM takes a forward's peak off its cache: a run that is over the card by less may run, and SGLang's has none."""
    one = run(**{**ASLEEP, "rollout__share": 0.99}, hardware=CARD)
    vocabulary = one.model.architecture.vocab_size
    found = estimate(one)
    assert found.verdict == "tight"
    assert (found.device_bytes or 0) - (found.device_low_bytes or 0) == 1024 * vocabulary * 28
    of_free = estimate(replace(one, {"rollout.share_of_free": True}))
    assert of_free.device_low_bytes == of_free.device_bytes


def test_a_card_is_said_to_hold_the_run_where_its_verdict_is_fits() -> None:
    """What an engine shows beyond its share counts for every card that is named, the run's own included."""
    verdicts = set()
    for share in (0.5, 0.9, 0.95, 0.96, 0.97, 0.975, 0.98, 0.985, 0.99, 0.999):
        found = estimate(run(**{**ASLEEP, "rollout__share": share}, hardware=CARD))
        verdicts.add(found.verdict)
        assert ("A100-80GB" in found.fits_on) == (found.verdict == "fits"), share
    assert verdicts == {"fits", "tight", "out_of_memory"}


def test_no_card_is_named_in_whose_share_the_engine_does_not_start() -> None:
    """7.6e9 parameters in half precision are 14.2 GiB: more than a quarter of a card of 48 GB."""
    model = resolve("Qwen/Qwen2.5-7B-Instruct").architecture
    sharded = Parallelism(8, 8, 8, engine="deepspeed", zero=Zero(3))
    one = run(**{**ASLEEP, **LORA, "rollout__share": 0.25}, hardware=CARD, parallelism=sharded)
    one = replace(one, {"model.architecture": model, "sequence.length": 512})
    named = [card for card in common() if card.name in estimate(one).fits_on]
    assert named and all(0.25 * card.usable_bytes >= engine_start(one) for card in named)
    assert estimate(replace(one, {"rollout.share": 0.75})).fits_on[0] not in {card.name for card in named}


def test_no_card_is_named_that_new_weights_do_not_fit_on_their_way() -> None:
    """ZeRO-3 divides 7.6e9 parameters over 64 cards, and each gathers all of them, 14.2 GiB, beside the engine's."""
    model = resolve("Qwen/Qwen2.5-7B-Instruct").architecture
    sharded = Parallelism(64, 8, 64, engine="deepspeed", zero=Zero(3))
    one = run(**{**ASLEEP, **LORA, "rollout__share": 0.7}, hardware=CARD, parallelism=sharded)
    one = replace(one, {"model.architecture": model, "sequence.length": 512})
    whole, parts = (estimate(replace(one, {"rollout.gathered_parts": number})) for number in (1, 16))
    smallest = {card.name: card.usable_bytes for card in common()}
    assert smallest[whole.fits_on[0]] > 28 * GIB > smallest[parts.fits_on[0]]


def test_a_share_of_what_is_free_leaves_out_what_the_trainer_holds_already() -> None:
    of_card, of_free = (phase(run(**ASLEEP, rollout__share_of_free=free, hardware=CARD), "rollout") for free in (0, 1))
    away = run(**ASLEEP, rollout__share_of_free=True, rollout__offloads_weights=True, hardware=CARD)
    weights = of_free.components["weights"]
    assert of_card.components["engine"] - of_free.components["engine"] > int(0.4 * weights)
    assert phase(away, "rollout").components["engine"] - of_free.components["engine"] == pytest.approx(
        0.4 * weights, abs=2
    )


def test_weights_arrive_through_a_buffer() -> None:
    one = run(**{**ASLEEP, "method__reference_model": "none"}, rollout__sync_bucket_bytes=2 * GIB)
    found = phase(one, "weight_sync").components
    assert found["engine"] == pytest.approx(phase(one, "load").components["weights"], rel=0.01)
    assert found["temporaries"] > 2 * GIB
    halved = phase(run(**ASLEEP, rollout__tensor_parallel_size=2), "weight_sync").components["engine"]
    assert 2 * halved == found["engine"]


def test_zero3_gathers_what_the_engine_gets_at_once() -> None:
    """ms-swift 4.6.0 rlhf_trainers/rollout_mixin.py:974, one part unless said; trl 1.16 generation/vllm_generation.py,
    gather_if_zero3 of all parameters to merge adapters."""
    zero3 = {"parallelism": Parallelism(4, 4, 4, engine="deepspeed", zero=Zero(3)), "hardware": CARD}

    def gathered(**changes: object) -> int:
        return phase(run(**{**ASLEEP, **zero3, **changes}), "weight_sync").components["temporaries"]

    whole = gathered(rollout__gathered_parts=1)
    assert gathered(rollout__gathered_parts=4) == pytest.approx(whole / 4, rel=0.01)
    assert gathered() < whole / 4
    assert gathered(**LORA) == pytest.approx(whole, rel=0.1)


def test_a_critic_has_an_update_and_stays_beside_the_policy() -> None:
    model = Model("critic", from_config(TINY), "bfloat16")
    alone = estimate(run(**GRPO))
    both = run(**GRPO, method__value_model=ValueModel(model, 2))
    assert "value_update" in names(both)
    assert phase(both, "backward").allocated_bytes > max(
        one.allocated_bytes for one in alone.phases if one.name == "backward"
    )
    offloaded = ValueModel(model, 2, offloads_weights=True, offloads_optimizer=True)
    away = run(**GRPO, method__value_model=offloaded)
    assert phase(away, "backward").allocated_bytes < phase(both, "backward").allocated_bytes
    assert phase(away, "value_update").allocated_bytes == phase(both, "value_update").allocated_bytes


def test_a_critic_without_padding_may_have_short_sequences() -> None:
    critic = ValueModel(Model("critic", from_config(TINY), "bfloat16"), 32, checkpointed=False)
    padded = estimate(run(**GRPO, method__value_model=critic, hardware=CARD))
    unpadded = estimate(run(**GRPO, method__value_model=critic, sequence__unpadded=True, hardware=CARD))
    one = estimate(run(**GRPO, method__value_model=critic._replace(micro_batch_size=1), hardware=CARD))
    alone = estimate(run(**GRPO, method__value_model=critic._replace(unpadded=True), hardware=CARD))
    assert alone.allocated_low_bytes is not None
    assert alone.allocated_low_bytes < (alone.allocated_bytes or 0) == padded.allocated_bytes
    assert padded.peak_phase == unpadded.peak_phase == "value_update"
    assert padded.allocated_low_bytes in (None, padded.allocated_bytes)
    assert unpadded.allocated_bytes == padded.allocated_bytes
    assert one.allocated_bytes is not None and unpadded.allocated_low_bytes is not None
    assert unpadded.allocated_low_bytes <= one.allocated_bytes < (padded.allocated_bytes or 0)


def test_an_unknown_critic_is_named() -> None:
    found = estimate(run(**GRPO, method__value_model=ValueModel(Model("x"), 1)))
    assert [one.field for one in found.unknown] == ["method.value_model"]


def test_an_engine_of_which_nobody_knows_whether_it_sleeps_is_named() -> None:
    found = estimate(run(**{**AWAKE, "rollout__sleep_level": UNKNOWN}))
    assert [one.field for one in found.unknown] == ["rollout.sleep_level"]
    assert not estimate(run(**{**AWAKE, "rollout__generator": "vllm", "rollout__sleep_level": UNKNOWN})).unknown


def test_an_unknown_size_is_unknown() -> None:
    found = estimate(run(**{**GRPO, "rollout__log_prob_micro_batch_size": UNKNOWN}))
    assert [one.field for one in found.unknown] == ["rollout.log_prob_micro_batch_size"]


def test_a_bound_on_tokens_counts_instead_of_sequences() -> None:
    bounded = run(**GRPO, batch__max_tokens=4096, batch__micro_batch_size=1)
    eight = run(**GRPO, batch__micro_batch_size=8)
    assert phase(bounded, "backward").components["logits"] == phase(eight, "backward").components["logits"]


def test_sequences_without_padding_may_be_short() -> None:
    one = run(**{**GRPO, "batch__micro_batch_size": 8}, sequence__unpadded=True, hardware=CARD)
    found = estimate(one)
    assert found.allocated_low_bytes is not None and found.allocated_bytes is not None
    assert found.allocated_low_bytes < found.allocated_bytes
    least = shortest(one)
    assert least is not None and least.batch.micro_batch_size == 1


def test_gradients_that_are_reduced_at_once_stay_sharded() -> None:
    def gradients(at_once: bool, version: int) -> int:
        fsdp = Fsdp(version, param_dtype="bfloat16", reduces_each_backward=at_once)
        one = run(parallelism=Parallelism(4, 4, 4, engine="fsdp", fsdp=fsdp), batch__gradient_accumulation_steps=8)
        return phase(one, "backward").components["gradients"]

    for version in (1, 2):
        assert gradients(True, version) < 0.6 * gradients(False, version)
