"""Advice where files leave open what decides how a run goes: the answer with which it fits, or a better plan does.

A DeepSpeed file that is not there is one such question, and the framework's release another. Nothing is written: who
knows the answer states it.
"""

from __future__ import annotations

from collections.abc import Iterator

import memlint.fixes.moves.catalog as catalog
from memlint.findings import Fix, noted
from memlint.fixes.consequences import consistent
from memlint.fixes.moves.hardware import many_cards, smallest_number, with_cards
from memlint.fixes.plan import Plan, as_fix, asks_for_more, host_note, in_order
from memlint.fixes.plan_search import MOST_HOST_BYTES, SearchHooks
from memlint.fixes.planner import riskless
from memlint.memory.values import Estimate
from memlint.run import UNKNOWN, Run, replace


def answers(run: Run, before: Estimate, hooks: SearchHooks) -> Iterator[Fix]:
    """The first reading of the files with which a run of an unknown verdict fits as it is, where somebody can make it
    hold."""
    if before.verdict != "unknown":
        return
    for reading in (reading for reading in run.readings if reading.settled):
        after = hooks.estimate(replace(run, dict(reading.changes))._replace(readings=()))
        if after.verdict == "fits":
            yield Fix(reading.settled, before=before.on_card, after=after.on_card, verdict_after="fits")
            return


_NAMED = (
    ("ZeRO-3", {"parallelism.zero.stage": 3}),
    ("ZeRO-3, offloaded", {"parallelism.zero.stage": 3, "offload.optimizer": "cpu", "offload.parameters": "cpu"}),
)


def another_engine_file(run: Run, before: Estimate, hooks: SearchHooks) -> Iterator[Fix]:
    """What a DeepSpeed file that is not there has to say where the run is over its card with all that its name leaves
    open, or on how many of the cards it is enough."""
    named = next((reading for reading in run.readings if reading.settled), None)
    if run.parallelism.zero.stage is not UNKNOWN or named is None or before.verdict in ("fits", "unknown"):
        return
    as_named = replace(run, dict(named.changes))._replace(readings=())
    for words, changes in _NAMED:
        after = hooks.estimate(replace(as_named, changes))
        if after.verdict == "fits" and (after.host_bytes or 0) <= MOST_HOST_BYTES:
            title, note = f"give it a DeepSpeed file with {words}", next(host_note(after, before), "")
            yield Fix(title, before=before.on_card, after=after.on_card, verdict_after="fits", note=note)
            return
    divided, world = replace(as_named, _NAMED[0][1]), run.parallelism.world_size
    least = world if isinstance(world, int) else 1
    found = smallest_number(lambda count: hooks.estimate(with_cards(divided, count)), least)
    if found is not None:
        fix = many_cards(before, found[1], found[0], ())
        yield fix._replace(title=f"{fix.title} with a DeepSpeed file with ZeRO-3")


def fused_loss_of_a_release(run: Run, before: Estimate, hooks: SearchHooks, first: Plan | None) -> Iterator[Fix]:
    """A fused loss with what keeps the result beside it, where the key of it is one that an older release ignores, and
    the `first` plan asks for another engine, the host or a risk."""
    step = next(catalog.fused_loss(run), None) if run.planning.fused_loss_where_stated else None
    good = first is not None and first.risk == 0 and not any(map(asks_for_more, first.steps))
    if step is None or good:
        return
    fused = consistent(replace(run, step.changes), run)
    plan = riskless(fused, hooks.estimate(fused), hooks)
    if plan is not None:
        titles = "; ".join((step.title, *(one.title for one in plan.steps)))
        after, note = plan.estimate.on_card, "; ".join(filter(None, (run.planning.fused_loss_where_stated, step.note)))
        yield Fix(titles, before=before.on_card, after=after, quality="none", verdict_after="fits", note=note)


def better_as_it_stands(run: Run, before: Estimate, plan: Plan | None, first: Plan | None) -> Iterator[Fix]:
    """The first `plan` for the run itself, where it comes before the `first` one that fits in every reading, and
    somebody can rule the others out."""
    words = [reading.settled_itself for reading in run.readings]
    if plan is None or not words or not all(words) or (first is not None and in_order(first) <= in_order(plan)):
        return
    yield noted(as_fix(plan, before), "; ".join(dict.fromkeys(words)))._replace(safe=False)
