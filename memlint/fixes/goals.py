"""Plans for more than a run that fits: the largest micro batch, the longest sequence, the fewest cards.

Each looks at the run with every change that leaves the training result as it is, finds the largest value with which
that still fits, and plans for the run with this value: what is not needed goes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any

import memlint.fixes.planner as planner
from memlint._record import NamedTuple
from memlint.findings import Edit
from memlint.fixes.moves.hardware import MOST_GPUS, smallest_number, with_cards
from memlint.fixes.plan import Plan
from memlint.fixes.plan_search import NO_HOOKS, PlanSearch, SearchHooks
from memlint.fixes.proposed_change import ProposedChange
from memlint.fixes.tiers import strongest
from memlint.memory.values import Estimate
from memlint.run import Run, Unknown, get, replace

BATCH, LENGTH, TOKENS = "batch.micro_batch_size", "sequence.length", "batch.max_tokens"
GOALS = ("batch", "length", "cards", "speed")
LONGEST = 1 << 24
_LENGTHS_OF = 256  # tokens that a length is a multiple of, and a forward's most tokens


class FewestCards(NamedTuple):
    """The smallest number of cards, as the run is and with the changes `plan`."""

    as_it_is: int | None
    cards: int | None
    plan: Plan | None


def keeping(
    express: Callable[[Run, Mapping[str, Any]], tuple[Edit, ...] | None], kept: Iterable[str]
) -> Callable[[Run, Mapping[str, Any]], tuple[Edit, ...] | None]:
    """`express` without edits of the keys `kept`: a framework's own, with or without its section, or fields of the
    run."""
    names = frozenset(kept)

    def allowed(run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
        edits = None if names & set(changes) else express(run, changes)
        return None if edits is None or any(names & _names(edit) for edit in edits) else edits

    return allowed


def _names(edit: Edit) -> set[str]:
    """The names under which a key that is edited may be kept: `stage`, `zero_optimization`, or both with a dot."""
    parts = [str(part) for part in edit.pointer]
    return {*parts, ".".join(parts)}


def size_field(run: Run, goal: str) -> str:
    """The field that is made larger for "batch" or "length". Where tokens bound a forward, no number of sequences
    does."""
    if goal == "length":
        return LENGTH
    return TOKENS if run.batch.max_tokens else BATCH


def largest_plan(run: Run, before: Estimate, hooks: SearchHooks, field: str) -> Plan | None:
    """The plan with the largest micro batch or sequence that fits without a risk for the result; None where the run as
    it is has it already."""
    now = get(run, field)
    free = _with_every_free_change(run, before, hooks, field)
    if isinstance(now, Unknown):
        return None
    size = _rounded(run, field, largest(free, field, now if field == TOKENS else 1, hooks, _most(run, field)))
    if size <= now:
        return None
    first = _resized(run, field, now, size)
    changed = replace(run, first.changes)
    estimate = hooks.estimate(changed)
    if estimate.verdict == "fits":
        return Plan((first,), changed, estimate)
    rest = next(iter(planner.plans(changed, estimate, _without_field(hooks, field), 1)), None)
    return None if rest is None or rest.risk else rest._replace(steps=(first, *rest.steps))


def _most(run: Run, field: str) -> int:
    """The largest value to look for: no sequence is longer than the model has positions, and no forward has more tokens
    than the sequences of a step."""
    if field == TOKENS:
        numbers = (run.batch.micro_batch_size, run.batch.gradient_accumulation_steps, run.sequence.length)
        known = [one for one in numbers if isinstance(one, int)]
        bound = run.batch.max_tokens
        return max(prod(known), bound if isinstance(bound, int) else 0) if len(known) == len(numbers) else LONGEST
    positions = getattr(run.model.architecture, "max_positions", 0) if field == LENGTH else 0
    return max(positions, run.sequence.length) if positions and isinstance(run.sequence.length, int) else LONGEST


def _without_field(hooks: SearchHooks, field: str) -> SearchHooks:
    """A search that leaves alone what was just made as large as it can be."""
    return hooks._replace(express=keeping(hooks.express or (lambda *_: ()), (field,)))


def _with_every_free_change(run: Run, before: Estimate, hooks: SearchHooks, field: str) -> Run:
    search = PlanSearch(run, before, hooks)
    return search.changed(strongest(search, "none", () if field == LENGTH else ("batch", "tokens")))


def _rounded(run: Run, field: str, size: int) -> int:
    """Tokens in multiples of 256; of a batch the largest part of the global batch, which stays as it is."""
    if field != BATCH:
        return size // _LENGTHS_OF * _LENGTHS_OF
    now, steps = run.batch.micro_batch_size, run.batch.gradient_accumulation_steps
    if not (isinstance(now, int) and isinstance(steps, int)):
        return 0
    return next((part for part in range(min(size, now * steps), 0, -1) if now * steps % part == 0), 0)


def _resized(run: Run, field: str, now: int, size: int) -> ProposedChange:
    if field == LENGTH:
        return ProposedChange(f"sequences of {now} -> {size} tokens", {field: size}, "sequence", safe=False)
    if field == TOKENS:
        return ProposedChange(f"at most {now} -> {size} tokens in a forward", {field: size}, "tokens")
    steps = run.batch.gradient_accumulation_steps
    assert isinstance(steps, int)  # else there is no part of the global batch
    fewer = now * steps // size
    title = f"micro batch {now} -> {size}, accumulation {steps} -> {fewer}"
    return ProposedChange(title, {field: size, "batch.gradient_accumulation_steps": fewer}, "batch")


def fewest_cards(run: Run, before: Estimate, hooks: SearchHooks, most: int = MOST_GPUS) -> FewestCards:
    """The smallest number of the cards that the run names on which it fits: as it is, and with changes that leave the
    result as it is."""
    as_it_is = smallest_number(lambda count: hooks.estimate(with_engine(run, count)), 1, most)
    changed = fewest_with_changes(run, before, hooks, most)
    return FewestCards(as_it_is and as_it_is[0], *(changed or (None, None)))


def fewest_with_changes(
    run: Run, before: Estimate, hooks: SearchHooks, most: int = MOST_GPUS
) -> tuple[int, Plan | None] | None:
    """The smallest number of cards on which the run fits with changes that leave the result as it is, and a plan for as
    many; None where it fits on no number. `before`: the estimate of the run, which has as many parameters on each."""

    def changed(count: int) -> Estimate:
        search = PlanSearch(with_engine(run, count), before, hooks)
        return hooks.estimate(search.changed(strongest(search, "none")))

    found = smallest_number(changed, 1, most)
    if found is None:
        return None
    one = with_engine(run, found[0])
    return found[0], next(iter(planner.plans(one, hooks.estimate(one), hooks, 1)), None)


def on_one_card(run: Run, hooks: SearchHooks) -> Plan | None:
    """A plan without a risk for the result on one of the run's several cards: there is nothing to communicate, which
    takes a GiB and more on each of them. None where there is none, or where one card is not a run of its own."""
    parallel = run.parallelism
    world, data_parallel = parallel.world_size, parallel.data_parallel_size
    if not isinstance(world, int) or world < 2 or world != data_parallel:
        return None
    one = with_engine(run, 1)
    return planner.riskless(one, hooks.estimate(one), hooks)


def with_engine(run: Run, count: int) -> Run:
    """The run on so many cards: plain data parallelism where nothing else divides it."""
    engine = run.parallelism.engine
    if engine in ("single", "ddp"):
        run = replace(run, {"parallelism.engine": "single" if count == 1 else "ddp"})
    return with_cards(run, count)


def largest(run: Run, field: str, start: int, hooks: SearchHooks = NO_HOOKS, most: int = 1 << 24) -> int:
    """The largest value of `field` from `start` on that fits, found by doubling and halving; 0 where none does.

    Memory grows with batch and length, so what fits is a prefix.
    """
    if not _fits(run, field, start, hooks):
        return 0
    low = start
    while low * 2 <= most and _fits(run, field, low * 2, hooks):
        low *= 2
    high = min(low * 2, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(run, field, middle, hooks) else (low, middle)
    return low


def _fits(run: Run, field: str, value: int, hooks: SearchHooks) -> bool:
    found = hooks.estimate_unless_over(replace(run, {field: value}))
    return found is not None and found.verdict == "fits"
