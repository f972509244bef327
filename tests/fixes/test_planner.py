"""The search, over a toy estimator whose physics is plain: what it finds fits, and nothing in it is idle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import memlint
from memlint.findings import Edit
from memlint.fixes.costs import QUALITIES, Cost, between
from memlint.fixes.goals import largest
from memlint.fixes.moves.catalog import CUT_ACCUMULATION, steps
from memlint.fixes.plan import (
    FAR_SLOWER,
    UNBEARABLE,
    Plan,
    adds_nothing,
    as_fix,
    excess,
    in_order,
    kind,
    makes_pointless,
    peak,
)
from memlint.fixes.plan_search import PlanSearch, SearchHooks
from memlint.fixes.planner import Planner, _of_each_character, candidates, plans, riskless
from memlint.fixes.proposed_change import ProposedChange, about, needs_host, risk_first, time_first
from memlint.fixes.step_time import ParameterCounts
from memlint.fixes.tiers import _cheaper
from memlint.hardware import find
from memlint.memory.values import Estimate, Phase
from memlint.run import Reading, Run, replace

GIB = 2**30
MODEL = ParameterCounts(7_000_000_000, 7_000_000_000)
FULL = replace(
    Run("toy", "toy.yaml"),
    {
        "batch.micro_batch_size": 8,
        "batch.gradient_accumulation_steps": 2,
        "sequence.length": 4096,
        "attention.implementation": "eager",
        "checkpointing.mode": "none",
        "loss.kind": "plain",
        "optimizer.name": "adamw_torch",
        "method.kind": "full",
        "precision.trainable_dtype": "float32",
        "precision.autocast": True,
        "evaluation.enabled": False,
    },
)


def toy(budget_gib: float) -> SearchHooks:
    """32 GiB of state in the step; activations by tokens, halved by sdpa and quartered by checkpointing."""

    def estimate(run: Run) -> Estimate:
        tokens = run.batch.micro_batch_size * run.sequence.length  # type: ignore[operator]
        activations = tokens * 2**20 * (2 if run.attention.implementation == "eager" else 1)
        activations //= 4 if run.checkpointing.mode == "full" else 1
        state = {"adamw_torch": 32, "adamw_torch_fused": 28}.get(str(run.optimizer.name), 20) * GIB
        state //= 16 if run.method.kind == "lora" else 1
        state //= 2 if run.precision.trainable_dtype == "bfloat16" else 1
        phases = tuple(
            Phase(name, size, {"activations": size})
            for name, size in (("backward", activations + state // 2), ("optimizer_step", state))
        )
        worst = max(phases, key=lambda phase: phase.allocated_bytes)
        high, budget = worst.allocated_bytes + GIB, int(budget_gib * GIB)
        verdict = "fits" if high <= budget else "out_of_memory"
        return Estimate(
            phases, worst.name, worst.allocated_bytes, high, high, high, high, 0, verdict, budget_bytes=budget
        )

    return SearchHooks(estimate=estimate)


def search_plans(budget: float, search: SearchHooks | None = None, run: Run = FULL) -> tuple[Plan, ...]:
    search = search or toy(budget)
    return plans(run, search.estimate(run), search)


@pytest.mark.parametrize("budget", [4, 8, 16, 20, 24, 30, 34, 48, 60, 80])
def test_every_plan_fits_and_no_step_is_idle(budget: float) -> None:
    search = toy(budget)

    found = search_plans(budget)
    assert found
    for plan in found:
        assert plan.estimate.verdict == "fits"
        assert search.estimate(replace(FULL, plan.changes)) == plan.estimate
        for step in plan.steps:
            rest = {name: value for other in plan.steps if other is not step for name, value in other.changes.items()}
            assert not rest or search.estimate(replace(FULL, rest)).verdict != "fits"


def test_plans_come_least_risky_first_and_no_two_are_the_same() -> None:
    found = search_plans(30)

    assert [(plan.risk, plan.speed) for plan in found] == sorted((plan.risk, plan.speed) for plan in found)
    assert len({frozenset(plan.changes.items()) for plan in found}) == len(found)


def test_the_first_plan_keeps_the_training_result_where_that_is_enough() -> None:
    first = search_plans(34)[0]

    assert all(step.safe for step in first.steps)


def test_what_more_changes_did_not_help_is_not_estimated_again() -> None:
    base, asked = toy(24), []

    def estimate(run: Run) -> Estimate:
        asked.append(run)
        return base.estimate(run)

    search = PlanSearch(FULL, base.estimate(FULL), base._replace(estimate=estimate))
    by_title = {step.title: step for step in search.steps(())}
    attention, smaller, smallest = (
        by_title[title]
        for title in (
            "use sdpa attention",
            "micro batch 8 -> 4, accumulation 2 -> 4",
            "micro batch 8 -> 1, accumulation 2 -> 16",
        )
    )
    assert search.fitting((attention, smallest)) is None
    number = len(asked)
    assert search.fitting((attention,)) is None and search.fitting((smaller,)) is None
    assert len(asked) == number
    assert search.fitting((by_title["Adafactor"], smallest)) is not None


def test_what_fewer_changes_were_enough_for_is_not_estimated_again() -> None:
    search = PlanSearch(FULL, toy(40).estimate(FULL), toy(40))
    free = tuple({step.group: step for step in search.steps(()) if step.price.quality == "none"}.values())
    enough = next(step for step in free if search.fitting((step,)) is not None)
    others = tuple(step for step in free if step is not enough and step.group not in ("zero", "fsdp", "method"))
    known = len(search._estimates)

    assert others and search.is_enough((enough, *others))
    assert len(search._estimates) == known
    assert not search.is_enough(())


def test_whether_it_can_be_written_is_asked_once_of_changes_that_differ_in_degree_alone() -> None:
    asked: list[tuple[str, ...]] = []

    def express(run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...]:
        asked.append(tuple(changes))
        return ()

    search = PlanSearch(FULL, toy(24).estimate(FULL), toy(24)._replace(express=express))
    batches = [step for step in search.steps(()) if step.group == "batch"]

    assert len(batches) > 1
    assert asked.count(tuple(batches[0].changes)) == 1


def test_whether_it_can_be_written_is_asked_of_changes_that_a_plan_may_have() -> None:
    asked: list[str] = []

    def express(run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...]:
        asked.extend(changes)
        return ()

    assert riskless(FULL, toy(33.5).estimate(FULL), toy(33.5)._replace(express=express)) is not None
    assert "attention.implementation" in asked
    assert not {"method.kind", "sequence.length", "precision.trainable_dtype"} & set(asked)


def test_after_a_change_no_other_of_its_group_is_tried() -> None:
    search = PlanSearch(FULL, toy(1).estimate(FULL))
    smaller = next(one for one in search.steps(()) if one.group == "batch")
    assert all(one.group != "batch" for one in search.steps((smaller,)))


def test_a_cut_of_the_accumulation_is_read_behind_what_it_starts_from() -> None:
    cut = ProposedChange("accumulation 4 -> 1: the global batch shrinks", {}, CUT_ACCUMULATION)
    halved = ProposedChange("micro batch 4 -> 1, accumulation 1 -> 4", {}, "batch")
    estimate = toy(30).estimate(FULL)
    assert as_fix(Plan((cut, halved), FULL, estimate), estimate).title == f"{halved.title}; {cut.title}"


def test_a_plan_that_is_worse_in_all_and_much_slower_goes() -> None:
    checkpoints = Plan((ProposedChange("a", {}, "checkpointing"),), FULL, toy(24).estimate(FULL), Cost(1.3))
    paged = checkpoints._replace(steps=(ProposedChange("b", {}, "optimizer"),), price=Cost(3.7))

    assert _of_each_character((checkpoints, paged), 3) == (checkpoints,)
    assert len(_of_each_character((checkpoints, paged._replace(price=Cost(1.5))), 3)) == 2


def test_the_card_alone_stands_beside_a_faster_engine_unless_it_is_far_slower() -> None:
    engine = Plan((ProposedChange("a", {"parallelism.engine": "deepspeed"}, "zero"),), FULL, toy(24).estimate(FULL))
    paged = engine._replace(steps=(ProposedChange("b", {}, "optimizer"),), price=Cost(2.0))

    assert not makes_pointless(engine, paged)
    assert makes_pointless(engine, paged._replace(price=Cost(1.1 * FAR_SLOWER)))


def test_nobody_cuts_the_data_for_the_time_of_smaller_micro_batches() -> None:
    cut = ProposedChange("sequences of 1024 -> 512 tokens", {}, "sequence", price=Cost(1.0, "medium"))
    adapter = ProposedChange("train a LoRA adapter", {}, "method", price=Cost(0.77, "medium"))
    smaller = ProposedChange("micro batch 8 -> 4", {}, "batch", price=Cost(1.03))
    shorter, whole, alone = (
        Plan(chosen, FULL, toy(24).estimate(FULL), Cost(speed, "medium"))
        for chosen, speed in (((adapter, cut), 0.77), ((adapter, smaller), 0.8), ((cut,), 1.0))
    )

    assert makes_pointless(whole, shorter) and not makes_pointless(whole._replace(price=Cost(1.0, "medium")), shorter)
    assert not makes_pointless(whole, alone)  # one risk in place of another
    assert max((cut, adapter, smaller), key=time_first) is cut


def test_a_change_stays_without_what_it_says_beside_others() -> None:
    """Host memory names another AdamW where one of 8 bits was chosen first, and is the same change without it."""
    run = replace(FULL, {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 2})
    search = PlanSearch(run, toy(24).estimate(run), toy(24))
    host = next(step for step in search.steps(()) if step.changes.get("offload.optimizer") == "cpu")
    named = host._replace(title="and AdamW", changes={**host.changes, "optimizer.name": "adamw_torch"})

    assert search.possible((named,)) == (host,)


def test_a_plan_that_is_another_and_more_adds_nothing_unless_it_is_faster() -> None:
    shards = ProposedChange("shard", {}, "zero")
    less = Plan((shards,), FULL, toy(24).estimate(FULL), Cost(1.06))
    more = less._replace(steps=(shards, ProposedChange("a", {}, "checkpointing")), price=Cost(1.4))

    assert adds_nothing(more, less) and not adds_nothing(less, more) and not adds_nothing(less, less)
    assert not adds_nothing(more._replace(price=Cost(0.9)), less)
    assert not adds_nothing(more, less._replace(price=Cost(1.06, "medium")))


@pytest.mark.parametrize("budget", [8, 16, 24, 30, 33.5, 34, 40])
def test_the_first_plan_is_the_same_where_no_other_is_searched_for(budget: float) -> None:
    hooks = toy(budget)
    alone = plans(FULL, hooks.estimate(FULL), hooks, limit=1)

    assert alone == search_plans(budget)[:1]
    assert alone


def test_of_changes_that_take_about_as_long_the_weaker_is_enough() -> None:
    shards, host, both = (
        ProposedChange(title, {}, "zero", price=Cost(speed))
        for title, speed in (("a", 10.674), ("b", 10.67), ("c", 10.665))
    )
    assert _cheaper([shards, host, both], both, risk_first) == [shards, host]
    assert _cheaper([shards, host, both._replace(price=Cost(5))], both._replace(price=Cost(5)), risk_first) == []


def test_a_risk_free_plan_is_none_where_only_risks_help() -> None:
    for budget, has in ((34, True), (4, False)):
        found = riskless(FULL, toy(budget).estimate(FULL), toy(budget))
        assert (found is not None) == has
    assert found is None or found.risk == 0
    whole = riskless(FULL, toy(1000).estimate(FULL), toy(1000))
    assert whole is not None and not whole.steps


def test_the_global_batch_stays() -> None:
    found = search_plans(34)
    assert found
    for plan in found:
        batch = replace(FULL, plan.changes).batch
        assert batch.micro_batch_size * batch.gradient_accumulation_steps == 16  # type: ignore[operator]


def test_progress_is_made_when_two_phases_are_too_large() -> None:
    found = search_plans(16)

    assert found
    assert all(not excess(plan.estimate) for plan in found)


def test_nothing_is_offered_where_nothing_fits() -> None:
    assert search_plans(0.5) == ()


def test_nothing_is_planned_for_a_run_that_fits() -> None:
    assert search_plans(1000) == ()


def test_what_the_format_cannot_say_is_not_offered() -> None:
    def express(run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
        return None if any(name.startswith("optimizer") for name in changes) else ()

    found = search_plans(24, toy(24)._replace(express=express))

    assert found
    assert all(not name.startswith("optimizer") for plan in found for name in plan.changes)


def test_what_rules_object_to_is_not_offered() -> None:
    search = toy(24)._replace(accept=lambda run: run.method.kind != "lora")

    assert all(plan.run.method.kind != "lora" for plan in search_plans(24, search))


def test_candidates_all_help_one_of_a_kind() -> None:
    search = toy(1000)
    before = search.estimate(FULL)

    found = candidates(FULL, before, search, limit=99)

    assert found
    assert all((peak(plan.estimate) or 0) < (peak(before) or 0) for plan in found)
    assert len({plan.steps[0].group for plan in found}) == len(found)


def test_a_cheap_step_gives_way_to_a_stronger_one_of_its_kind() -> None:
    def express(run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
        return () if set(changes) == {"sequence.length"} else None

    found = search_plans(33.5, toy(33.5)._replace(express=express))

    assert [plan.changes for plan in found] == [{"sequence.length": 1024}]  # half of 4096 was not enough


def test_what_no_host_holds_is_not_offered_and_the_rest_says_what_it_wants() -> None:
    plain = toy(10)

    def estimate(run: Run) -> Estimate:
        own = plain.estimate(run)
        return own._replace(host_bytes=100 * GIB if run.offload.optimizer == "cpu" else 0)

    base = {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 2, "method.kind": "lora"}
    start = replace(FULL, base)
    moved = Plan(
        (), replace(start, {"offload.optimizer": "cpu"}), estimate(replace(start, {"offload.optimizer": "cpu"}))
    )
    assert as_fix(moved, estimate(start)).note == "the host needs 100.0 GiB of memory"
    small = replace(start, {"hardware.host_bytes": 64 * GIB})
    for run, offered in ((start, True), (small, False)):
        titles = {plan.steps[0].title for plan in candidates(run, estimate(run), SearchHooks(_offloads(estimate)), 99)}
        assert any("optimizer states in host memory" in title for title in titles) == offered


def _offloads(estimate: Any) -> Any:
    """Like `estimate`, with 8 GiB less where optimizer states are on the host."""

    def less(run: Run) -> Estimate:
        own: Estimate = estimate(run)
        high = own.device_high_bytes or 0
        return own._replace(device_high_bytes=high - 8 * GIB) if run.offload.optimizer == "cpu" else own

    return less


def test_a_fix_says_what_it_costs() -> None:
    search = toy(24)
    before = search.estimate(FULL)

    found = plans(FULL, before, search)
    assert found
    for plan in found:
        fix = as_fix(plan, before)
        assert fix.before and fix.after and fix.after.figure < fix.before.figure
        assert fix.verdict_after == "fits"
        assert fix.safe == all(step.safe for step in plan.steps)
        assert QUALITIES.index(fix.quality) == plan.risk


@pytest.mark.parametrize("budget", [30, 60, 90])
def test_the_largest_value_fits_and_the_next_does_not(budget: float) -> None:
    search = toy(budget)

    length = largest(replace(FULL, {"batch.micro_batch_size": 1}), "sequence.length", 1, search)

    fits = [
        search.estimate(replace(FULL, {"batch.micro_batch_size": 1, "sequence.length": value})).verdict == "fits"
        for value in (length, length + 1)
    ]
    assert fits == ([True, False] if length else [False, False])


def test_every_move_changes_what_it_says_it_changes() -> None:
    found = steps(FULL)
    assert found
    for step in found:
        assert replace(FULL, step.changes) != FULL
        assert not step.safe or between(FULL, replace(FULL, step.changes), (MODEL, MODEL)).quality == "none"


def test_offloading_and_sharding_are_not_done_unasked() -> None:
    sharded = {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 2, "parallelism.world_size": 4}
    groups = {step.group: step.safe for step in steps(replace(FULL, sharded))}

    assert groups["zero"] is False
    assert groups["checkpointing"] is groups["batch"] is groups["attention"] is True


def test_what_the_card_does_alone_comes_before_what_needs_the_host() -> None:
    alone = ProposedChange("micro batch 2 -> 1", {"batch.micro_batch_size": 1}, price=Cost(1.002))
    host = ProposedChange("keep activation checkpoints in host memory", {"offload.activations": "cpu"}, price=Cost(1.0))

    assert sorted((host, alone), key=lambda step: risk_first(about(step))) == [alone, host]


def test_a_plan_fits_in_every_reading_and_is_searched_in_one() -> None:
    asked: list[Run] = []

    def estimate(run: Run) -> Estimate:
        asked.append(run)
        found = toy(24).estimate(run)
        longer = toy(24).estimate(replace(run, dict(run.readings[0].changes))) if run.readings else found
        return found if longer.verdict == found.verdict else found._replace(verdict="unknown")

    harmless = Reading("not known", "other", "this", (("batch.micro_batch_size", 1),))
    longer = Reading("not known", "other", "this", (("sequence.length", 16384),))
    hooks = SearchHooks(estimate)
    plain = search_plans(24, hooks)
    for reading, titles in ((harmless, [plan.steps for plan in plain]), (longer, None)):
        asked.clear()
        run = FULL._replace(readings=(reading,))
        found = plans(run, toy(24).estimate(FULL), hooks)

        assert all(estimate(plan.run._replace(readings=(reading,))).verdict == "fits" for plan in found)
        if titles is not None:
            assert [plan.steps for plan in found] == titles
            assert sum(bool(one.readings) for one in asked) <= len(found) * 2


def sharing(run: Run) -> Estimate:
    """The toy's estimate, with states that ZeRO shares out or sends to the host; on a card of 40 GiB."""
    there = run.parallelism.engine == "deepspeed"
    states = 0 if there and run.offload.optimizer == "cpu" else 32 * GIB // (4 if there else 1)
    activations = run.batch.micro_batch_size * GIB * 2  # type: ignore[operator]
    high = states + activations
    verdict = "fits" if high <= 40 * GIB else "out_of_memory"
    phases = (Phase("backward", high, {"activations": high}),)
    return Estimate(phases, "backward", high, high, high, high, high, 0, verdict, budget_bytes=40 * GIB)


SEVERAL = replace(
    FULL,
    {
        "parallelism.engine": "ddp",
        "parallelism.world_size": 4,
        "parallelism.data_parallel_size": 4,
        "precision.compute": "bfloat16",
        "attention.implementation": "sdpa",
        "optimizer.name": "adamw_torch_fused",
    },
)


def test_half_a_micro_batch_comes_before_another_engine() -> None:
    """At 8 sequences 48 GiB, at 4 it fits: nobody moves to ZeRO for that."""
    first, *others = plans(SEVERAL, sharing(SEVERAL), SearchHooks(estimate=sharing))
    assert [step.group for step in first.steps] == ["batch"]
    assert any(step.group == "zero" for plan in others for step in plan.steps)


def test_the_host_is_asked_last_on_several_cards_too() -> None:
    """Of 20 sequences: smaller micro-batches are enough, and so are states in host memory alone."""
    run = replace(SEVERAL, {"batch.micro_batch_size": 20, "offload.optimizer": "none"})
    offloaded = replace(run, {"parallelism.engine": "deepspeed", "offload.optimizer": "cpu"})
    assert sharing(offloaded).verdict == "fits"
    first = plans(run, sharing(run), SearchHooks(estimate=sharing))[0]
    assert not any(needs_host(step) for step in first.steps)


@pytest.mark.parametrize(("tokens", "names"), ((512, ["8bit", "32bit"]), (4096, ["32bit", "8bit"])))
def test_beside_a_slow_plan_without_risk_stands_a_faster_one_of_little_risk(tokens: int, names: list[str]) -> None:
    """8-bit states that are paged beside 32-bit ones that are: 2 bytes cross the bus, not 8. With few tokens in a step
    the latter is so slow that it stands behind."""

    def estimate(run: Run) -> Estimate:
        states = 8 * GIB if "paged" in str(run.optimizer.name) else 60 * GIB
        verdict = "fits" if states <= 40 * GIB else "out_of_memory"
        phases = (Phase("optimizer_step", states, {"optimizer_states": states}),)
        answer = Estimate(phases, "optimizer_step", *[states] * 5, 0, verdict, budget_bytes=40 * GIB)
        return answer._replace(parameters=7_000_000_000, trainable_parameters=7_000_000_000)

    alone = {"parallelism.engine": "single", "parallelism.world_size": 1, "batch.gradient_accumulation_steps": 1}
    run = replace(SEVERAL, {**alone, "batch.micro_batch_size": 1, "sequence.length": tokens})
    found = plans(run, estimate(run), SearchHooks(estimate=estimate))
    assert [plan.run.optimizer.name for plan in found[:2]] == [f"paged_adamw_{name}" for name in names]
    slow = next(plan for plan in found if plan.risk == 0)
    assert (slow.speed >= FAR_SLOWER) is (tokens == 512)


KTO = """\
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: kto
do_train: true
finetuning_type: lora
lora_target: all
dataset: d
template: llama3
output_dir: out
cutoff_len: 4096
per_device_train_batch_size: 4
gradient_accumulation_steps: 4
learning_rate: 1.0e-5
bf16: true
"""
OUMI = """\
model:
  model_name: Qwen/Qwen2.5-14B-Instruct
  model_max_length: 4096
  torch_dtype_str: bfloat16
training:
  trainer_type: TRL_SFT
  use_peft: true
  per_device_train_batch_size: 2
  gradient_accumulation_steps: 8
  enable_gradient_checkpointing: true
  optimizer: adamw_torch_fused
  output_dir: out
"""


@pytest.mark.parametrize(("text", "gpus"), ((KTO, 1), (OUMI, 2)))
def test_beside_another_engine_stands_what_the_cards_do_alone_with_the_whole_sequences(text: str, gpus: int) -> None:
    """The weights of ZeRO-3 wait in host memory; in 4 bits they are on the card."""
    found = [plan["changes"] for plan in memlint.plan(text, gpu="RTX4090", gpus=gpus).runs[0]["plans"]]
    assert found[0]["offload.parameters"] == "cpu"
    alone = [one for one in found if "parallelism.engine" not in one and "sequence.length" not in one]
    assert [one["model.quantization.bits"] for one in alone] == [4]


def test_changes_that_no_file_says_together_are_not_proposed_beside_each_other() -> None:
    """As verl's fused kernels, which read no head that FSDP2 divides."""

    def express(_: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
        return None if {"loss.parts", "method.kind"} <= set(changes) else ()

    hooks = SearchHooks(toy(30).estimate, express)
    run = replace(FULL, {"planning.loss_parts": 8, "method.stage": "sft"})
    search = PlanSearch(run, hooks.estimate(run), hooks)
    groups: dict[str, ProposedChange] = {step.group: step for step in search.steps(())}
    assert {"loss", "method"} <= set(groups)
    for chosen, refused in (("loss", "method"), ("method", "loss")):
        beside = {step.group for step in search.steps((groups[chosen],))}
        assert refused not in beside and "checkpointing" in beside


@pytest.mark.parametrize("tokens", (128, 8192))
def test_an_adapter_comes_before_a_step_that_takes_many_times_as_long(tokens: int) -> None:
    """All of the states cross the bus in each step, or an adapter has next to none: nothing of low risk is enough."""

    def estimate(run: Run) -> Estimate:
        enough = run.optimizer.name == "paged_adamw_32bit" or run.method.kind == "lora"
        states = (8 if enough else 60) * GIB
        phases = (Phase("optimizer_step", states, {"optimizer_states": states}),)
        verdict = "fits" if enough else "out_of_memory"
        answer = Estimate(phases, "optimizer_step", *[states] * 5, 0, verdict, budget_bytes=40 * GIB)
        return answer._replace(parameters=7_000_000_000, trainable_parameters=7_000_000_000)

    alone = {"parallelism.engine": "single", "parallelism.world_size": 1, "batch.gradient_accumulation_steps": 1}
    alone |= {"batch.micro_batch_size": 1, "sequence.length": tokens, "hardware.gpu": find("V100-32GB")}
    run = replace(SEVERAL, alone)
    first = plans(run, estimate(run), SearchHooks(estimate=estimate))[0]
    slow = next(plan for plan in plans(run, estimate(run), SearchHooks(estimate=estimate), 4) if plan.risk == 0)
    assert (slow.speed >= UNBEARABLE) is (tokens == 128)
    assert (first.run.method.kind == "lora") is (tokens == 128)


def test_a_plan_of_a_high_risk_cuts_as_little_as_is_enough() -> None:
    """16 GiB of activations of 8,192 tokens on a card of 6: half of them with checkpoints, else an eighth."""

    def estimate(run: Run) -> Estimate:
        size = 4 * GIB * run.sequence.length // 2048  # type: ignore[operator]
        size //= 2 if run.checkpointing.mode == "full" else 1
        verdict = "fits" if size <= 4 * GIB else "out_of_memory"
        phases = (Phase("backward", size, {"activations": size}),)
        return Estimate(phases, "backward", *[size] * 5, 0, verdict, budget_bytes=4 * GIB)

    alone = {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 1, "sequence.length": 16384}
    run = replace(FULL, {**alone, "attention.implementation": "sdpa"})
    first = plans(run, estimate(run), SearchHooks(estimate=estimate))[0]
    assert first.risk == len(QUALITIES) - 1
    assert (first.run.sequence.length, first.run.checkpointing.mode) == (4096, "full")


def test_variants_of_a_plan_take_about_as_long() -> None:
    step = ProposedChange("8-bit AdamW", {"optimizer.name": "adamw_8bit"}, "optimizer")
    slow, fast, faster = (Plan((step,), FULL, toy(30).estimate(FULL), Cost(speed)) for speed in (1.48, 1.02, 1.0))
    assert kind(fast) == kind(faster) != kind(slow)


@pytest.mark.parametrize(("activations", "wanted"), [(1, 4), (8, 1)])
def test_the_whole_batch_at_once_is_the_last_resort_for_the_same_result(activations: int, wanted: int) -> None:
    """Accumulation keeps 20 GiB of gradients: 4 sequences at once fit without them where activations are small."""

    def estimate(run: Run) -> Estimate:
        size, steps = run.batch.micro_batch_size, run.batch.gradient_accumulation_steps
        high = activations * size * GIB + (20 * GIB if steps > 1 else 0)  # type: ignore[operator]
        verdict = "fits" if high <= 10 * GIB else "out_of_memory"
        phases = (Phase("backward", high, {"gradients": high}),)
        return Estimate(phases, "backward", *[high] * 5, 0, verdict, budget_bytes=10 * GIB)

    batch = {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 4}
    run = replace(SEVERAL, {**batch, "parallelism.engine": "fsdp"})
    first = plans(run, estimate(run), SearchHooks(estimate=estimate))[0]
    assert first.run.batch[:2] == (wanted, 1)
    assert (first.risk == 0) is (wanted == 4)


def test_another_engine_is_not_first_for_what_other_changes_gain() -> None:
    """Liger's kernels make its plan faster than the run was, and would any other."""
    batch = ProposedChange("micro batch 4 -> 2", {"batch.micro_batch_size": 2}, "batch")
    engine = ProposedChange("ZeRO-3", {"parallelism.engine": "deepspeed"}, "zero")
    loss = ProposedChange("Liger's loss", {"loss.kind": "liger"}, "loss")
    smaller, sharded, fused = (
        Plan(chosen, FULL, toy(30).estimate(FULL), Cost(speed))
        for chosen, speed in (((batch,), 1.01), ((engine, loss), 0.83), ((loss,), 0.83))
    )
    assert sorted((sharded, smaller, fused), key=in_order) == [fused, smaller, sharded]


def test_of_equal_plans_the_one_that_shards_as_before_is_first() -> None:
    buckets = ProposedChange("smaller ZeRO buckets", {"parallelism.zero.reduce_bucket_size": 5}, "buckets")
    stage = ProposedChange("ZeRO stage 2 -> 3", {"parallelism.zero.stage": 3}, "zero")
    equal = [Plan((step,), FULL, toy(30).estimate(FULL)) for step in (stage, buckets)]
    assert [plan.steps[0] for plan in sorted(equal, key=in_order)] == [buckets, stage]


def test_nobody_is_offered_the_host_or_a_high_risk_beside_a_plan_that_is_better_in_all() -> None:
    batch = ProposedChange("micro batch 4 -> 2", {"batch.micro_batch_size": 2}, "batch")
    host = ProposedChange("ZeRO-3 with the host", {"offload.parameters": "cpu"}, "zero")
    length = ProposedChange("sequences of 2048 -> 256 tokens", {"sequence.length": 256}, "sequence")
    smaller, hosted, slow, shorter = (
        Plan(chosen, FULL, toy(30).estimate(FULL), cost)
        for chosen, cost in (
            ((batch,), Cost(1.01)),
            ((host,), Cost(1.03)),
            ((batch,), Cost(2.5)),
            ((length,), Cost(0.8, "high")),
        )
    )
    assert makes_pointless(smaller, hosted) and not makes_pointless(hosted, smaller)
    assert makes_pointless(smaller, shorter) and not makes_pointless(slow, shorter)
    halves, adapter = (shorter._replace(price=Cost(speed, "medium")) for speed in (1.02, 0.77))
    assert makes_pointless(smaller, halves) and not makes_pointless(smaller, adapter)
    assert not makes_pointless(adapter, halves)  # one medium risk in place of another


def test_the_first_plan_is_the_same_whether_or_not_others_are_asked_for() -> None:
    base = toy(24)
    planner = Planner(FULL, base.estimate(FULL), base)
    (first,) = planner.plans(1)

    assert planner.plans() == plans(FULL, base.estimate(FULL), base)
    assert planner.plans()[0] is first


def test_a_plan_that_nobody_waits_for_stands_behind_a_medium_risk() -> None:
    step = ProposedChange("paged AdamW", {"optimizer.name": "paged_adamw_32bit"}, "optimizer")
    none, low, medium = (
        Plan((step,), FULL, toy(30).estimate(FULL), Cost(speed, quality))
        for speed, quality in ((1.5 * UNBEARABLE, "none"), (1.2 * FAR_SLOWER, "low"), (1.0, "medium"))
    )
    assert sorted((none, medium, low), key=in_order) == [low, medium, none]
    bearable = none._replace(price=Cost(1.2 * FAR_SLOWER))
    assert sorted((low, medium, bearable), key=in_order) == [bearable, low, medium]


def test_a_cheaper_change_of_the_group_is_tried_beside_other_free_ones() -> None:
    """Paged states are enough alone and make each step slower; fused AdamW and a smaller micro batch cost nothing."""
    alone = {"batch.micro_batch_size": 4, "batch.gradient_accumulation_steps": 1, "attention.implementation": "sdpa"}
    run = replace(FULL, {**alone, "hardware.gpu": find("A100-80GB")})
    counted = {"parameters": MODEL.parameters, "trainable_parameters": MODEL.trainable}
    search = SearchHooks(estimate=lambda one: toy(29.5).estimate(one)._replace(**counted))
    paged = replace(run, {"optimizer.name": "paged_adamw_32bit"})
    assert search.estimate(paged).verdict == "fits" != search.estimate(run).verdict
    (first, *_) = plans(run, search.estimate(run), search)
    assert (first.run.optimizer.name, first.run.batch.micro_batch_size, first.risk) == ("adamw_torch_fused", 2, 0)
