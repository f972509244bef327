"""What a search knows of one run: the runs that combinations of changes make, their estimates, and which of them fit.

Nothing is made or estimated twice, and what follows from other answers is not estimated at all (known_answers.py).
Which combinations are asked about: tiers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Edit
from memlint.fixes.consequences import FIELDS, consistent
from memlint.fixes.costs import Cost, between, model_of
from memlint.fixes.known_answers import KnownAnswers, by_group
from memlint.fixes.moves.catalog import DECIDING_GROUPS, GRADED_GROUPS, steps
from memlint.fixes.plan import Plan, Steps
from memlint.fixes.proposed_change import ProposedChange
from memlint.fixes.step_time import ParameterCounts
from memlint.memory import estimate as closed_form
from memlint.memory.estimate import estimate_unless_over
from memlint.memory.values import Estimate
from memlint.run import Run, replace

Estimator = Callable[[Run], Estimate]
Express = Callable[[Run, Mapping[str, Any]], "tuple[Edit, ...] | None"]
Accept = Callable[[Run], bool]

MOST_HOST_BYTES = 2 << 40  # of a DGX H100 (NVIDIA DGX H100 datasheet: 2 TB); desktops have a twentieth of it


class SearchHooks(NamedTuple):
    """Functions that the planner calls. `express`: the edits that write a change, or None where the format cannot.
    `accept`: whether a run is acceptable. `margin`: bytes to stay below the budget. `banned`: titles of changes that
    are left out."""

    estimate: Estimator = closed_form
    express: Express | None = None
    accept: Accept | None = None
    margin: int = 0
    banned: frozenset[str] = frozenset()

    @property
    def estimate_unless_over(self) -> Callable[[Run], Estimate | None]:
        """The estimate of a run that fits; None as soon as it is sure that it does not."""
        return estimate_unless_over if self.estimate is closed_form else self.estimate


NO_HOOKS = SearchHooks()


class PlanSearch:
    """The search for one run. It remembers runs and estimates of combinations, and which changes can be written."""

    def __init__(self, run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS) -> None:
        self.run = run
        self.start = Plan((), run, before)
        self._hooks = hooks
        self._host = run.hardware.host_bytes or MOST_HOST_BYTES
        self._model = model_of(before)
        self._estimates: dict[frozenset[str], Estimate] = {frozenset(): before}
        self._runs: dict[frozenset[str], Run] = {frozenset(): run}
        self._steps: dict[frozenset[str], Steps] = {}
        self._moves: dict[frozenset[str], Steps] = {}
        # By title, of those that differ in degree alone by fields, and by the chosen changes that decide over others.
        self._can_write: dict[tuple[Any, ...], bool] = {}
        self._prices: dict[str, Cost] = {}
        self._answers = KnownAnswers()

    def plan(self, chosen: Steps) -> Plan:
        """The run after these changes, with its estimate and price."""
        if not chosen:
            return self.start
        changed, estimate = self.changed(chosen), self.estimate(chosen)
        fields = {*FIELDS, *(name for step in chosen for name in step.changes)}
        price = between(self.run, changed, (self._model, model_of(estimate)), fields)
        return Plan(chosen, changed, estimate, price)

    def estimate(self, chosen: Steps) -> Estimate:
        """The estimate of the run after these changes."""
        key = _titles(chosen)
        if key not in self._estimates:
            self._estimates[key] = self._hooks.estimate(self.changed(chosen))
        return self._estimates[key]

    def changed(self, chosen: Steps) -> Run:
        """The run after these changes."""
        key = _titles(chosen)
        if key not in self._runs:
            values = {name: value for step in chosen for name, value in step.changes.items()}
            self._runs[key] = consistent(replace(self.run, values), self.run, values)
        return self._runs[key]

    def steps(self, chosen: Steps) -> Steps:
        """The changes of other groups that can be tried after `chosen` and that the format can write, in the order of
        their moves."""
        return tuple(step for step in self.priced(chosen) if self.can_write(chosen, step))

    def steps_of(self, group: str, chosen: Steps) -> Steps:
        """Those of `steps` that are of one group. Only of these it is asked whether the format can write them."""
        return tuple(step for step in self.priced(chosen) if step.group == group and self.can_write(chosen, step))

    def priced(self, chosen: Steps) -> Steps:
        """The changes of other groups that can be tried after `chosen`, whether or not the format can write them."""
        key = _titles(chosen)
        if key not in self._steps:
            changed, done = self.changed(chosen), {step.group for step in chosen}
            others = (step for step in self._proposed(chosen) if step.group not in done)
            self._steps[key] = tuple(self._priced(changed, step) for step in others)
            self._answers.see(self._steps[key])
        return self._steps[key]

    def can_write(self, chosen: Steps, step: ProposedChange) -> bool:
        """Whether the format can write a change after `chosen`, and nobody refuses it."""
        if step.title in self._hooks.banned:
            return False
        if self._hooks.express is None:
            return True
        decide = frozenset(one.title for one in chosen if one.group in DECIDING_GROUPS)
        key = (*(step.changes if step.group in GRADED_GROUPS else (step.title,)), decide)
        if key not in self._can_write:
            changes = {name: value for one in (*chosen, step) for name, value in one.changes.items()}
            self._can_write[key] = self._hooks.express(self.run, changes) is not None
        return self._can_write[key]

    def _priced(self, run: Run, step: ProposedChange) -> ProposedChange:
        """The change with what it costs beside those that it was first seen with."""
        if step.title not in self._prices:
            changed = replace(run, step.changes)
            models = (self._model, _trained(self._model, run, changed))
            self._prices[step.title] = between(run, changed, models, step.changes)
        return step._replace(price=self._prices[step.title])

    def fitting(self, chosen: Steps) -> Plan | None:
        """The plan of these changes where the run fits with them."""
        return self.plan(chosen) if self._fits_with(chosen) else None

    def is_enough(self, chosen: Steps) -> bool:
        """Whether the run fits with these changes. More or stronger changes than some that were enough are not
        estimated."""
        return self._answers.are_enough(by_group(chosen)) or self._fits_with(chosen)

    def _fits_with(self, chosen: Steps) -> bool:
        """Whether the run fits with these changes. Fewer or weaker changes than some that were not enough are not
        estimated, and those that are not enough only until that is sure."""
        titles = by_group(chosen)
        if self._answers.are_too_few(titles):
            return False
        estimate = self._estimate_unless_over(chosen)
        if estimate is not None and self._is_fit(self.changed(chosen), estimate):
            self._answers.put(titles, is_enough=True)
            return True
        if estimate is None or (estimate.device_high_bytes or 0) > estimate.budget_bytes:
            self._answers.put(titles, is_enough=False)
        return False

    def _estimate_unless_over(self, chosen: Steps) -> Estimate | None:
        """The estimate of the run after these changes; None where it is sure before its end that they are not
        enough."""
        key = _titles(chosen)
        known = self._estimates.get(key)
        if known is None:
            known = self._hooks.estimate_unless_over(self.changed(chosen))
            if known is not None:
                self._estimates[key] = known
        return known

    def fits(self, plan: Plan) -> bool:
        return self._is_fit(plan.run, plan.estimate)

    def _is_fit(self, run: Run, estimate: Estimate) -> bool:
        high = estimate.device_high_bytes
        enough = high is not None and high + self._hooks.margin <= estimate.budget_bytes
        return enough and estimate.verdict == "fits" and self.accepts(run, estimate)

    def accepts(self, run: Run, estimate: Estimate) -> bool:
        """Whether a host can hold what the run keeps there, and nobody objects to it."""
        if (estimate.host_bytes or 0) > max(self._host, self.start.estimate.host_bytes or 0):
            return False
        return self._hooks.accept is None or self._hooks.accept(run)

    def possible(self, chosen: Steps) -> Steps:
        """`chosen` less the changes that are only there beside others: checkpoints in host memory want checkpoints. One
        that only says more beside others (another optimizer, where one of them names it) stays without that."""
        first = _titles(self.priced(()))
        for step in chosen:
            others = tuple(other for other in chosen if other is not step)
            is_there_alone = step.title in first and self.can_write((), step)
            if not is_there_alone and all(step.title != one.title for one in self._proposed(others)):
                less = (one for one in self.steps_of(step.group, others) if one.changes.items() <= step.changes.items())
                return self.possible((*others, *islice(less, 1)))
        return chosen

    def _proposed(self, chosen: Steps) -> Steps:
        """The changes that the moves propose after `chosen`, whether or not they can be written."""
        key = _titles(chosen)
        if key not in self._moves:
            self._moves[key] = steps(self.changed(chosen))
        return self._moves[key]


def _titles(chosen: Iterable[ProposedChange]) -> frozenset[str]:
    return frozenset(step.title for step in chosen)


def _trained(model: ParameterCounts, before: Run, after: Run) -> ParameterCounts:
    """About how many parameters train after a change of the method, before anything was counted."""
    if before.method.kind == after.method.kind:
        return model
    share = {"lora": 100, "freeze": 4}.get(after.method.kind, 1)
    return model._replace(trainable=model.parameters // share)
