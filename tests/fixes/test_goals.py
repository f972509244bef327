"""The largest batch, the longest sequence, the fewest cards, keys that stay, and the checklist."""

from __future__ import annotations

from itertools import pairwise

from memlint.architectures import from_config
from memlint.findings import Edit
from memlint.fixes.checklist import ORDER, checklist
from memlint.fixes.goals import (
    BATCH,
    LENGTH,
    TOKENS,
    fewest_cards,
    fewest_with_changes,
    keeping,
    largest_plan,
    on_one_card,
    size_field,
)
from memlint.fixes.moves.catalog import steps
from memlint.fixes.moves.hardware import smallest_number
from memlint.fixes.plan_search import PlanSearch
from memlint.memory.values import Estimate
from memlint.run import Run, replace
from tests.fixes.test_planner import FULL, toy
from tests.memory.runs import TINY


def test_the_largest_batch_keeps_the_global_batch_and_fits() -> None:
    search = toy(40)
    one = replace(FULL, {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 16})
    plan = largest_plan(one, search.estimate(one), search, BATCH)

    assert plan is not None and plan.estimate.verdict == "fits"
    assert plan.run.batch.micro_batch_size * plan.run.batch.gradient_accumulation_steps == 16  # type: ignore[operator]
    assert plan.run.batch.micro_batch_size > 1  # type: ignore[operator]


def test_the_longest_sequence_is_a_multiple_and_fits() -> None:
    search = toy(40)
    one = replace(FULL, {"batch.micro_batch_size": 1, "sequence.length": 1024})
    plan = largest_plan(one, search.estimate(one), search, LENGTH)

    assert plan is not None and plan.estimate.verdict == "fits"
    assert plan.run.sequence.length % 256 == 0 and plan.run.sequence.length > 1024  # type: ignore[operator]


def test_what_was_made_as_large_as_it_can_be_is_not_made_smaller() -> None:
    search = toy(24)
    one = replace(FULL, {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 16})
    plan = largest_plan(one, search.estimate(one), search, BATCH)
    assert plan is not None and [step.group for step in plan.steps].count("batch") == 1


def test_no_sequence_is_longer_than_the_model_has_positions() -> None:
    search, architecture = toy(10_000), from_config({**TINY, "max_position_embeddings": 4096})
    one = replace(FULL, {"model.architecture": architecture, "sequence.length": 1024})
    plan = largest_plan(one, search.estimate(one), search, LENGTH)
    assert plan is not None and plan.run.sequence.length == 4096


def test_where_tokens_bound_a_forward_the_bound_grows_up_to_a_step() -> None:
    search = toy(10_000)
    one = replace(FULL, {"batch.max_tokens": 4096, "batch.gradient_accumulation_steps": 4, "sequence.length": 1024})
    assert (size_field(one, "batch"), size_field(FULL, "batch"), size_field(one, "length")) == (TOKENS, BATCH, LENGTH)
    plan = largest_plan(one, search.estimate(one), search, TOKENS)
    step = one.batch.micro_batch_size * 4 * 1024  # type: ignore[operator]
    assert plan is not None and plan.run.batch.max_tokens == step
    assert plan.steps[0].title == f"at most 4096 -> {step} tokens in a forward"


def test_the_smallest_number_of_cards_is_the_smallest() -> None:
    for least in (1, 3, 8, 24, 64):
        found = smallest_number(lambda count, least=least: toy(1000 if count >= least else 1).estimate(FULL), 1)
        assert found is not None and found[0] == least
    assert smallest_number(lambda count: toy(1).estimate(FULL), 1) is None
    assert smallest_number(lambda count: toy(1000 if count >= 8 else 1).estimate(FULL), 1, most=4) is None


def test_numbers_of_cards_that_a_lower_bound_rules_out_are_not_estimated() -> None:
    for least, bound in ((8, 1), (8, 4), (24, 24), (64, 48), (65, 2), (65, 65)):
        asked: list[int] = []

        def estimate(count: int, least: int = least, asked: list[int] = asked) -> Estimate:
            asked.append(count)
            return toy(1000 if count >= least else 1).estimate(FULL)

        found = smallest_number(estimate, 1, too_few=lambda count, bound=bound: count < bound)
        assert (found[0] if found is not None else 65) == least
        assert all(count >= bound for count in asked)


def test_fewest_cards_with_changes_are_no_more_than_without() -> None:
    search = toy(40)
    found = fewest_cards(FULL, search.estimate(FULL), search)
    assert found.cards == 1 and found.as_it_is is None
    assert found.plan is not None and found.plan.estimate.verdict == "fits"


def test_each_number_of_cards_is_estimated_as_such_where_nothing_can_be_changed() -> None:
    def estimate(run: Run) -> Estimate:
        return toy(1 if run.parallelism.world_size == 1 else 1000).estimate(run)

    hooks = toy(1)._replace(estimate=estimate, express=lambda run, changes: None)
    one = replace(FULL, {"parallelism.world_size": 1})
    found = fewest_with_changes(one, estimate(one), hooks)

    assert estimate(one).verdict == "out_of_memory"
    assert found is not None and found[0] == 2


def test_one_of_several_cards_is_planned_for_where_it_is_a_run_of_its_own() -> None:
    def dearer_together(run: Run) -> Estimate:
        return toy(34 if run.parallelism.engine == "single" else 4).estimate(run)

    hooks = toy(34)._replace(estimate=dearer_together)
    four = {"parallelism.engine": "ddp", "parallelism.world_size": 4, "parallelism.data_parallel_size": 4}
    plan = on_one_card(replace(FULL, four), hooks)

    assert plan is not None and plan.risk == 0 and plan.run.parallelism.world_size == 1
    assert on_one_card(replace(FULL, {**four, "parallelism.data_parallel_size": 2}), hooks) is None
    assert on_one_card(FULL, hooks) is None


def test_a_kept_key_is_not_written_by_any_of_its_names() -> None:
    edit = Edit("a.yaml", ("zero_optimization", "stage"), "set", 3)
    for name in ("stage", "zero_optimization", "zero_optimization.stage", "parallelism.zero.stage"):
        assert keeping(lambda run, changes: (edit,), (name,))(FULL, {"parallelism.zero.stage": 3}) is None
    assert keeping(lambda run, changes: (edit,), ("other",))(FULL, {"parallelism.zero.stage": 3}) == (edit,)


def test_the_checklist_goes_down_until_the_run_fits() -> None:
    search = toy(20)
    tried = checklist(PlanSearch(FULL, search.estimate(FULL), search))

    peaks = [one.after.high for one in tried if one.after is not None]
    assert peaks == sorted(peaks, reverse=True) and len(peaks) == len(tried)
    assert [one.fits for one in tried] == [False] * (len(tried) - 1) + [True]
    assert all(less < more for more, less in pairwise(peaks[:-1]))  # the last is enough


def test_every_group_of_changes_has_its_place_in_the_checklist() -> None:
    sharded = {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 2}
    seen = {step.group for start in (FULL, replace(FULL, sharded)) for step in steps(start)}
    assert seen <= {*ORDER}
