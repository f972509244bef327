"""What can be offered for one run that does not fit: plans as written, plans to write by hand, and hardware."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import memlint.fixes.goals as goals
import memlint.fixes.moves.generation_engine as generation_engine
import memlint.fixes.moves.hardware as hardware_advice
import memlint.fixes.open_questions as open_questions
from memlint._record import NamedTuple
from memlint.findings import Fix, noted
from memlint.fixes.consequences import consistent
from memlint.fixes.likely import likely
from memlint.fixes.lowered_bound import as_advice, lowered_bound
from memlint.fixes.plan import Kind, Plan, adds_nothing, as_fix, excess, in_order, kind, saves
from memlint.fixes.plan_search import SearchHooks
from memlint.fixes.planner import Planner, candidates, riskless
from memlint.fixes.written_plans import Failure, WrittenPlan, edit_writer, placing_writer, with_needed_changes, written
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Analysis, Reanalyse
from memlint.run import Run, replace

Estimator = Callable[[Run], Estimate]
MAX_PLANS = 3
_SEARCHES = 3  # a plan that fails when it is written is replaced by that of another search


class PlanOptions(NamedTuple):
    """What can be offered for one run: plans that fit, the least risky first; where none does, changes that help; and
    what no edit can do: a plan that somebody has to write by hand, hardware that fits. `refused`: titles of changes
    that turned out to have no effect in these files, or to bring an error."""

    options: tuple[WrittenPlan, ...] = ()
    advice: tuple[Fix, ...] = ()
    refused: frozenset[str] = frozenset()


def options(
    analysis: Analysis, index: int, estimator: Estimator, reanalyse: Reanalyse, hooks: SearchHooks | None = None
) -> PlanOptions:
    """Plans for one run of the analysis, each written in memory, read back and estimated from what the files say.
    `hooks`: narrows the search further than by what the format can write."""
    return RunPlanner(analysis, index, estimator, reanalyse, hooks).options()


class RunPlanner:
    """Finds the options of one run as they are asked for: who wants the first alone does not wait for the others."""

    def __init__(
        self,
        analysis: Analysis,
        index: int,
        estimator: Estimator,
        reanalyse: Reanalyse,
        hooks: SearchHooks | None = None,
    ) -> None:
        self._analysis, self._index, self._reanalyse = analysis, index, reanalyse
        self._run, self._before = analysis.runs[index], analysis.estimates[index]
        self._hooks = hooks or SearchHooks(estimator, edit_writer(analysis))
        self._estimator = estimator
        self._planner = Planner(self._run, self._before, self._hooks)
        self._first: tuple[Plan, WrittenPlan | Failure] | None = None
        self._fitting: tuple[tuple[WrittenPlan, ...], tuple[Failure, ...]] | None = None

    def first_option(self) -> PlanOptions:
        """Where a plan fits, the first of them and nothing else; `options` where none does."""
        for plan in self._planner.plans(1):
            self._first = plan, self._written(plan, self._hooks)
            if isinstance(self._first[1], WrittenPlan):
                return PlanOptions((self._first[1],))
        fitting, _ = self._that_fit()
        return PlanOptions(fitting[:1]) if fitting else self.options()

    def options(self) -> PlanOptions:
        """Plans that fit and what no edit can do beside them; where none fits, changes that help. Of a run of which a
        lower bound alone is known, what lowers that."""
        run, before = self._run, self._before
        if before.allocated_bytes is None:
            told = as_advice(lowered_bound(run, before, self._hooks), run)
            return PlanOptions((), () if told is None else (told,))
        over = before.budget_bytes and before.verdict not in ("fits", "unknown")
        fitting, failures = self._that_fit()
        asked = not any(_is_good_enough(option.plan) for option in fitting)
        writer = edit_writer(self._analysis)
        hardware = hardware_advice.advice(run, before, self._estimator, writer, asked) if over else ()
        if over and run.purpose == "train":
            hardware = self._with_what_nobody_writes(fitting, failures, hardware)
        hardware = (*open_questions.answers(run, before, self._hooks), *hardware)
        refused = frozenset[str]().union(*(failure.banned for failure in failures if failure.unplaced is None))
        return PlanOptions(fitting or self._that_help(), hardware, refused)

    def _with_what_nobody_writes(
        self, fitting: tuple[WrittenPlan, ...], failures: tuple[Failure, ...], hardware: tuple[Fix, ...]
    ) -> tuple[Fix, ...]:
        """The hardware after what is better or possible where no edit of memlint's is made: a plan to write by hand, an
        answer to what the files leave open, another start."""
        run, before, hooks = self._run, self._before, self._hooks
        first = fitting[0].plan if fitting else None
        by_hand = tuple(_by_hand(before, failures, first))
        free = any(option.plan.risk == 0 for option in fitting) or any(fix.quality == "none" for fix in by_hand)
        has_one = bool(fitting or by_hand) or any(fix.cards for fix in hardware)
        return (
            *by_hand,
            *open_questions.better_as_it_stands(run, before, self._planner.first_as_it_stands(), first),
            *open_questions.fused_loss_of_a_release(run, before, hooks, first),
            *open_questions.another_engine_file(run, before, hooks),
            *likely(run, before, hooks, first),
            *(() if free else _elsewhere(run, before, hooks)),
            *(() if has_one else _many_cards(run, before, hooks)),
            *hardware,
        )

    def _that_fit(self) -> tuple[tuple[WrittenPlan, ...], tuple[Failure, ...]]:
        """At most MAX_PLANS plans that fit as written, in the planner's order, and those that failed. The planner's
        first plan stays the first where it can be written."""
        if self._fitting is None:
            self._fitting = self._searched()
        return self._fitting

    def _searched(self) -> tuple[tuple[WrittenPlan, ...], tuple[Failure, ...]]:
        first: WrittenPlan | None = None
        done: dict[Kind, WrittenPlan] = {}
        failed: list[Failure] = []
        hooks, planner = self._hooks, self._planner
        for _ in range(_SEARCHES):
            failures = []
            for plan in planner.plans(MAX_PLANS):
                if kind(plan) in done:
                    continue
                option = self._written(plan, hooks)
                if isinstance(option, Failure):
                    failures.append(option)
                    continue
                if not (done or failed or failures):
                    first = option
                done.setdefault(kind(option.plan), option)
            failed += failures
            if not failures or len(done) >= MAX_PLANS:
                break
            hooks = _narrowed(self._analysis, hooks, failures)
            planner = Planner(self._run, self._before, hooks)
        kept = [
            one
            for one in done.values()
            if one is first or not any(adds_nothing(one.plan, other.plan) for other in done.values())
        ]
        ordered = sorted(kept, key=lambda one: (one is not first, in_order(one.plan)))
        return tuple(ordered[:MAX_PLANS]), tuple(failed)

    def _written(self, plan: Plan, hooks: SearchHooks) -> WrittenPlan | Failure:
        """The plan as written, or why it is not offered; the planner's first plan is not written twice."""
        if self._first is not None and plan is self._first[0]:
            return self._first[1]
        return with_needed_changes(self._analysis, self._index, plan, self._reanalyse, hooks)

    def _that_help(self) -> tuple[WrittenPlan, ...]:
        """Single changes that save something, as written."""
        helpful = candidates(self._run, self._before, self._hooks, MAX_PLANS)
        read_back = (written(self._analysis, self._index, plan, self._reanalyse) for plan in helpful)
        return tuple(one for one in read_back if isinstance(one, WrittenPlan) and _helps(one, self._before))


def _narrowed(analysis: Analysis, hooks: SearchHooks, failures: Sequence[Failure]) -> SearchHooks:
    """What another search leaves out and spares, so that it finds none of these plans. Where one of them has an edit
    without a place, as most have in code, only changes that have one are tried."""
    unplaced = any(one.unplaced is not None for one in failures)
    return hooks._replace(
        banned=hooks.banned.union(*(one.banned for one in failures)),
        margin=max(hooks.margin, *(one.margin for one in failures)),
        express=placing_writer(analysis, hooks.express) if unplaced and hooks.express is not None else hooks.express,
    )


_ABOUT_AS_FAST = 1.1
_MOST_CARDS_TO_GIVE_UP = 4  # who has a node of eight rents another card before a step takes eight times as long


# AWS p4d.24xlarge has 1,152 GiB beside 8 A100s, g6e.12xlarge 384 GiB beside 4 L40S (EC2 instance types).
_HOST_BYTES_OF_A_CARD = 144 << 30


def _is_good_enough(plan: Plan) -> bool:
    """Whether nobody rents more cards who can have the plan: the same result in about the same time, on a host that
    machines with as many cards have."""
    cards = plan.run.parallelism.world_size
    host = _HOST_BYTES_OF_A_CARD * (cards if isinstance(cards, int) else 1)
    return plan.risk == 0 and plan.speed <= _ABOUT_AS_FAST and (plan.estimate.host_bytes or 0) <= host


def _by_hand(before: Estimate, failures: Iterable[Failure], first: Plan | None) -> Iterator[Fix]:
    """The first plan that memlint cannot write, as advice with the reason: one that would stand before all that it can,
    or the only one. `first`: the first of those that it can write."""
    for failure in failures:
        if failure.unplaced is not None and (first is None or in_order(failure.unplaced) < in_order(first)):
            yield noted(as_fix(failure.unplaced, before), f"not written: {failure.reason}")._replace(safe=False)
            return


def _elsewhere(run: Run, before: Estimate, hooks: SearchHooks) -> Iterator[Fix]:
    """Advice where no plan is without a risk as the run is started: with an engine that writes its completions, with
    segments of the allocator that grow, and on one of several cards."""
    yield from generation_engine.advice(run, before, hooks.estimate)
    grows = hardware_advice.can_grow_segments(run)
    yield from (tuple(_with_segments(run, before, hooks)) if grows else ()) or _one_card(run, before, hooks)


def _with_segments(run: Run, before: Estimate, hooks: SearchHooks) -> Iterator[Fix]:
    growing = replace(run, {"stack.expandable_segments": True})
    plan = riskless(growing, hooks.estimate(growing), hooks)
    if plan is not None and plan.steps:
        fix = hardware_advice.segments(before, plan.estimate, tuple(step.title for step in plan.steps))
        yield noted(fix, as_fix(plan, before).note)


def _one_card(run: Run, before: Estimate, hooks: SearchHooks) -> Iterator[Fix]:
    """Advice for several cards on which the run fits at a risk alone, where it fits on one of them without."""
    world = run.parallelism.world_size
    plan = goals.on_one_card(run, hooks) if isinstance(world, int) and world <= _MOST_CARDS_TO_GIVE_UP else None
    if plan is not None and isinstance(world, int):
        fix = hardware_advice.one_card(before, plan.estimate, world, tuple(step.title for step in plan.steps))
        on_all = hooks.estimate(consistent(replace(run, plan.changes), run, plan.changes))
        yield noted(noted(fix, more_on_several(plan.estimate, on_all, world)), as_fix(plan, before).note)


def _many_cards(run: Run, before: Estimate, hooks: SearchHooks) -> Iterator[Fix]:
    """Advice to take more of the run's cards, with whatever keeps the result on so many of them: sequences that several
    share, above all."""
    world = run.parallelism.world_size
    if not isinstance(world, int) or not hardware_advice.is_data_parallel(run):
        return
    count, plan = goals.fewest_with_changes(run, before, hooks) or (0, None)
    if plan is not None and count > world:
        titles = tuple(step.title for step in plan.steps)
        yield noted(hardware_advice.many_cards(before, plan.estimate, count, titles), as_fix(plan, before).note)


def more_on_several(alone: Estimate, on_all: Estimate, world: int) -> str:
    """Why the changes are not enough on all cards: what engines gather from the other cards, and collect to send."""
    needed, less = on_all.device_unclamped_high_bytes or 0, alone.device_high_bytes or 0
    if needed <= less:
        return ""
    return (
        f"with the same changes each of the {world} cards needs up to {needed / 2**30:.1f} GiB,"
        f" {(needed - less) / 2**30:.1f} more, for what it gathers from the others and collects to send"
    )


_PART_WORTH_TELLING = 0.1


def _helps(option: WrittenPlan, before: Estimate) -> bool:
    """Whether a change that is not enough is worth offering: it saves a good part of what is over the card."""
    after = option.plan.estimate
    return excess(after) <= (1 - _PART_WORTH_TELLING) * excess(before) and saves(before, after)
