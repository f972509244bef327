"""What `memlint plan` prints of each run: its verdict, the largest values that fit, and ways there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import memlint.report.card_figures as card_figures
from memlint.card_bytes import CardBytes
from memlint.report.terminal import PLAIN, Style, one_line
from memlint.report.units import gib

SEARCH_ENDS = 1 << 24  # the largest batch or length that is tried (fixes.goals.LONGEST)


def render(rows: Sequence[dict[str, Any]], style: Style = PLAIN) -> str:
    """The rows of `lint.plans` as text."""
    return "\n\n".join("\n".join(_lines(row, style)) for row in rows)


def _lines(row: dict[str, Any], style: Style) -> Iterator[str]:
    yield style.paint(row["path"], "bold")
    if row["peak"] is None:
        yield from (f"  not estimated: {field}: {one_line(reason)}" for field, reason in row["reasons"].items())
        yield from _bound_lines(row)
        return
    if not row["budget_bytes"]:
        yield f"  peak {_figure(row['peak'])}; no card is known: name one with --gpu"
        return
    verdict = card_figures.verdict_words(row["verdict"], CardBytes(**row["peak"]))
    reasons = "; ".join(map(one_line, row["reasons"].values())) if row["verdict"] == "unknown" else ""
    found = f"{reasons}; the card has {gib(row['budget_bytes'])} GiB" if reasons else f"peak {_figure(row['peak'])}"
    yield f"  {style.paint(verdict, card_figures.ROLES[row['verdict']])}: {found}"
    yield from _largest_lines(row)
    yield from _card_lines(row)
    yield from _plan_lines(row)
    yield from _checklist_lines(row)
    if row["verdict"] != "fits" and "advice" in row and not row["plans"]:
        yield from _common_cards(row)


def _common_cards(row: dict[str, Any]) -> Iterator[str]:
    """The smallest common cards that hold the run, without those that the advice above names."""
    advised = {one["title"].removeprefix("use ") for one in row["advice"]}
    others = [name for name in row["fits_on"] if name not in advised]
    which = "smallest" if len(others) == len(row["fits_on"]) else "other"
    if others or not row["fits_on"]:
        yield f"  {which} common cards that hold it as it is: {', '.join(others) or 'none'}"


_LARGEST = (("max_micro_batch", "largest micro batch"), ("max_sequence_length", "longest sequence"))


def _largest_lines(row: dict[str, Any]) -> Iterator[str]:
    if all(key in row and not row[key]["exact"] for key, _ in _LARGEST):
        yield "  neither a smaller micro batch nor shorter sequences are enough alone"
        return
    for key, label in _LARGEST:
        if key in row:
            found = row[key]
            limit = " (the search ends there)" if found["exact"] >= SEARCH_ENDS else ""
            yield f"  {label}: {found['exact'] or 'none fits'}{limit}" + (
                f" (power of two: {found['power_of_two']})" if found["exact"] else ""
            )


def _card_lines(row: dict[str, Any]) -> Iterator[str]:
    if "cards" in row:
        found = row["cards"]
        engine = "the inference engine's own" if found["beside_engine"] else ""
        critic = f"the critic's {found['beside_critic']}" if found["beside_critic"] else ""
        others = " and ".join(filter(None, (engine, critic)))
        beside = f", beside {others}" if others else ""
        yield f"  fewest of these cards as it is{beside}: {found['as_it_is'] or 'none is enough'}"
        changes = f" ({'; '.join(found['changes'])})" if found["changes"] else ""
        yield f"  fewest without a risk for the result: {found['with_changes'] or 'none is enough'}{changes}"


_LARGER = {"batch": "a larger batch in a forward", "length": "longer sequences"}


def _plan_lines(row: dict[str, Any]) -> Iterator[str]:
    goal = row.get("goal", {"reached": True})
    if not goal["reached"]:
        yield f"  no plan without a risk for the result has {_LARGER[goal['name']]}"
    advice = row.get("advice", ())
    first = [one for one in advice if one["keeps_the_result"]] if _all_risk_something(row["plans"]) else []
    for one in first:
        yield f"  without a risk: {_advised(one)}"
    for number, plan in enumerate(row["plans"], 1):
        yield f"  plan {number}: {plan['title']}; peak {_figure(plan['after'])}"
        risk = "no" if plan["quality"] == "none" else plan["quality"]
        yield f"    {_step_time(plan['speed'])}, {risk} risk for the result"
        if plan["note"]:
            yield f"    {plan['note']}"
    yield from (f"  or {_advised(one)}" for one in advice if one not in first)


def _all_risk_something(plans: Sequence[dict[str, Any]]) -> bool:
    return bool(plans) and all(plan["quality"] != "none" for plan in plans)


def _advised(advice: dict[str, Any]) -> str:
    after = f"; peak {_figure(advice['after'])}" if advice["after"] else ""
    note = f"; {advice['note']}" if advice["note"] else ""
    return f"{advice['title']}{after}{note}"


def _step_time(factor: float) -> str:
    slower = card_figures.slower(factor)
    if slower:
        return slower
    less = round((1 - factor) * 100)
    return f"a step takes about {less} % less time" if less else "as fast as now"


def _checklist_lines(row: dict[str, Any]) -> Iterator[str]:
    tried = row.get("checklist", ())
    if tried:
        yield "  or step by step, each on top of those before it, in the order that guides give:"
    for number, one in enumerate(tried, 1):
        end = ", fits" if one["fits"] else ""
        yield f"    {number}. {one['title']}: peak {_figure(one['after'])}{end}"


def _bound_lines(row: dict[str, Any]) -> Iterator[str]:
    """What lowers a bound: no promise, since what is above the bound is not known."""
    lowered = row.get("bound", ())
    if lowered:
        yield "  a least figure alone is known, so that no plan is promised; what lowers it, one on top of the other:"
    for number, one in enumerate(lowered, 1):
        end = ", less than the card has" if one["enough"] else ""
        yield f"    {number}. {one['title']}: at least {gib(one['least'])} GiB{end}"
    if row.get("spares_activations"):
        options = "; ".join(row["spares_activations"])
        yield f"  what its layers keep beside that, these lower: {options}"


def _figure(found: dict[str, int] | None) -> str:
    return card_figures.figure(CardBytes(**found)) if found else "?"
