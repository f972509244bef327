"""A plan that is likely to fit and not sure to: where the only sure ones cut the data, or there are none, and the run's
interval is wide (Unsloth goes by what memory is free). Who may try twice tries it first.
"""

from __future__ import annotations

from collections.abc import Iterator

from memlint.findings import Fix, noted
from memlint.fixes.plan import Plan, as_fix
from memlint.fixes.plan_search import SearchHooks
from memlint.fixes.planner import plans
from memlint.fixes.proposed_change import cuts_data
from memlint.memory.values import Estimate
from memlint.run import Run

_WIDE = 1.35  # times its lower end: an interval of known releases and code ends below that
_WORDS = "likely, not sure: the figure is below the card, and the interval's upper end is not"


def likely(run: Run, before: Estimate, hooks: SearchHooks, first: Plan | None) -> Iterator[Fix]:
    """Advice: the first plan whose figure is within the card, where it cuts less than `first`, which is sure to fit."""
    low, high = before.device_low_bytes or 0, before.device_unclamped_high_bytes or before.device_high_bytes or 0
    sure = first is not None and not any(map(cuts_data, first.steps))
    if sure or high < _WIDE * low:
        return
    by_figure = hooks._replace(estimate=lambda changed: _at_its_figure(hooks.estimate(changed)))
    plan = next(iter(plans(run, _at_its_figure(before), by_figure, 1)), None)
    if plan is None or not _cuts_less(plan, first):
        return
    found = plan._replace(estimate=hooks.estimate(plan.run))
    if found.estimate.verdict == "tight":
        yield noted(as_fix(found, before), _WORDS)._replace(safe=False)


def _at_its_figure(estimate: Estimate) -> Estimate:
    """The estimate as if its figure were all that the run needs. A figure as large as the card is one that is over."""
    figure, budget = estimate.device_bytes, estimate.budget_bytes
    if figure is None or not budget:
        return estimate
    verdict = "fits" if figure < budget else "out_of_memory"
    high = figure if figure < budget else max(estimate.device_high_bytes or 0, budget + 1)
    return estimate._replace(device_high_bytes=high, device_unclamped_high_bytes=high, verdict=verdict)


def _cuts_less(plan: Plan, first: Plan | None) -> bool:
    """Whether the result is risked less, or sequences stay longer, than with what is sure."""
    if first is None:
        return True
    mine, its = (one.run.sequence.length for one in (plan, first))
    longer = isinstance(mine, int) and isinstance(its, int) and mine > its
    return plan.risk < first.risk or (plan.risk == first.risk and longer)
