"""Formats the memory that a run needs on its card, alike in every output: figure, interval, card, verdict.

The figure is the central estimate. The interval is the range in which the real one may lie. The verdict compares the
interval with the memory that the run may use.
"""

from __future__ import annotations

from memlint.card_bytes import CardBytes
from memlint.memory.unknown.readings import in_words
from memlint.memory.values import Estimate
from memlint.report.units import gib

VERDICTS = {"fits": "fits", "tight": "tight", "out_of_memory": "out of memory", "unknown": "unknown"}
ROLES = {"fits": "good", "tight": "warning", "out_of_memory": "error", "unknown": "dim"}
_TIMES_ARE_COUNTED_FROM = 2  # from here on a step "takes 3 times as long"; below, it is so many per cent slower
HOW_TO_READ = """\
How to read it: 34.3 GiB (31.2 - 38.0 of 39.4) is what one card shows at the peak: the most likely
value, the range that it lies in, and what the card has for the run. It fits if the whole range
does; it is tight if the range crosses the card's size; it is out of memory if even the low end is
too much."""


def interval(found: CardBytes) -> str:
    """ "31.20 - 38.04"."""
    return f"{gib(found.low)} - {gib(found.high)}"


def figure(found: CardBytes) -> str:
    """ "34.30 GiB (31.20 - 38.04 of 39.38)"."""
    return f"{gib(found.figure)} GiB ({interval(found)}{of_card(found.usable)})"


def peak(estimate: Estimate) -> str:
    """The figure at the peak; "?" without one. If the files can be read in several ways and the verdict depends on the
    reading, the figure of each reading."""
    if estimate.readings and estimate.verdict == "unknown":
        usable = f"; the card has {gib(estimate.budget_bytes)}" if estimate.budget_bytes else ""
        return f"{in_words(estimate.readings)}{usable}"
    return figure(estimate.on_card) if estimate.on_card else "?"


def spans_readings(estimate: Estimate) -> bool:
    """Whether the interval reaches from one reading of the files to another, which agree on the verdict."""
    if estimate.verdict == "unknown":
        return False
    shown = next((one for one in estimate.readings if one.device_bytes == estimate.device_bytes), None)
    return shown is not None and shown.device_low_bytes != estimate.device_low_bytes


def of_card(usable: int) -> str:
    """ " of 39.38", the memory that the card has for the run in GiB; "" if no card is known."""
    return f" of {gib(usable)}" if usable else ""


def change(before: CardBytes | None, after: CardBytes) -> str:
    """ "52.10 -> 34.30 GiB (31.20 - 38.04 of 39.38)"; the new figure alone if there is no change."""
    first = gib(before.figure) if before else ""
    return figure(after) if first in ("", gib(after.figure)) else f"{first} -> {figure(after)}"


def verdict_words(verdict: str, found: CardBytes | None) -> str:
    """The verdict in words. `barely fits`: on a larger card the allocator would keep more than this card has. `likely
    out of memory`: not even the figure fits, but the low end of the interval does."""
    if found is None or not found.usable:
        return VERDICTS[verdict]
    if verdict == "fits" and found.unclamped_high > found.usable:
        return "barely fits"
    if verdict == "tight" and found.figure > found.usable:
        return "likely out of memory"
    return VERDICTS[verdict]


def words_of(estimate: Estimate) -> str:
    """The verdict of an estimate in words."""
    return verdict_words(estimate.verdict, estimate.on_card)


def why_barely(found: CardBytes) -> str:
    """ "the allocator would keep up to 40.12 GiB on a larger card: 0.74 more than this one has"."""
    over = found.unclamped_high - found.usable
    return (
        f"on a larger card PyTorch would keep up to {gib(found.unclamped_high)} GiB, {gib(over)} more than this has; "
        "here it frees cached blocks instead"
    )


def slower(factor: float) -> str:
    """How much longer a training step takes, by the factor on its time; "" where it does not."""
    if factor >= _TIMES_ARE_COUNTED_FROM:
        return f"a step takes about {factor:.2g} times as long"
    return f"about {round((factor - 1) * 100)} % slower" if factor > 1.005 else ""
