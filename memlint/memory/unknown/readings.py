"""Estimates a run whose files can be read in several ways. It has a verdict only if all readings agree.

For example a Trainer config without a known launcher: the model is whole on each GPU, or sharded with ZeRO-3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import memlint.memory.unknown.values as unknown_values
from memlint.memory.values import Estimate, ReadingEstimate, UnknownField
from memlint.run import UNKNOWN, Reading, Run, get, replace

_GIB = 2**30
Estimator = Callable[[Run], Estimate]


def over_readings(run: Run, estimator: Estimator, found: Estimate | None = None) -> Estimate:
    """The estimate of `run` itself. Its verdict becomes `unknown` if another reading of the files gives a different
    one. `found`: the estimate as the run stands, if it is known.

    Readings are tried in order, up to the first one that disagrees.
    """
    found = found or estimator(run)
    if not run.readings and found.unknown and found.device_bytes is None:
        run = run._replace(readings=unknown_values.readings(run))
    if not run.readings:
        return found
    if found.device_bytes is None:
        return _of_each(run, found, estimator)
    read: list[ReadingEstimate] = []
    for reading in _possible(run):
        if reading.only_where_over and found.verdict == "fits":
            continue
        other = estimator(replace(run, dict(reading.changes)))
        read = read or [figures(reading.itself, found)]
        read.append(figures(reading.label, other))
        if other.verdict != found.verdict:
            unknown = UnknownField(reading.given[0][0], f"{reading.reason}: {in_words(read)}")
            return found._replace(verdict="unknown", readings=tuple(read), unknown=(*found.unknown, unknown))
    return found._replace(readings=tuple(read))


def least_bytes(found: Estimate) -> int | None:
    """The low end of the card's figure under the reading that needs least; None where there is no figure."""
    if found.device_low_bytes is None:
        return None
    lows = (one.device_low_bytes for one in found.readings if one.device_low_bytes is not None)
    return min(lows, default=found.device_low_bytes)


def _of_each(run: Run, found: Estimate, estimator: Estimator) -> Estimate:
    """The estimate of a run that lacks a value (such as the ZeRO stage) which each of its readings supplies.

    It is that of the reading that needs most memory; if the readings only give lower bounds, because another value is
    missing, too, that of the lowest bound; if they give none, `found`.
    """
    tried = [(one, estimator(replace(run, dict(one.changes)))) for one in _possible(run) if _fills_in(one)]
    if not tried or any(other.device_bytes is None for _, other in tried):
        bounds = [other for _, other in tried if other.allocated_low_bytes]
        if not bounds or len(bounds) < len(tried):
            return found
        least = min(bounds, key=lambda one: one.allocated_low_bytes or 0)
        return least._replace(unknown=(*least.unknown, *found.unknown))
    read = tuple(figures(one.label, other) for one, other in tried)
    _, most = max(tried, key=lambda pair: pair[1].device_bytes or 0)
    if len(read) > 1 and len({(one.device_bytes, one.device_low_bytes, one.device_high_bytes) for one in read}) == 1:
        return most  # it does not matter which of them holds
    if len({other.verdict for _, other in tried}) == 1:
        low = min(one.device_low_bytes or 0 for one in read)
        return most._replace(device_low_bytes=low, readings=read)
    reading = tried[0][0]
    unknown = UnknownField(reading.given[0][0], f"{reading.reason}: {in_words(read)}")
    return most._replace(verdict="unknown", readings=read, unknown=(*most.unknown, unknown))


def _fills_in(reading: Reading) -> bool:
    return any(value is UNKNOWN for _, value in reading.given)


def _possible(run: Run) -> Iterator[Reading]:
    return (one for one in run.readings if all(get(run, name) == value for name, value in one.given))


def figures(label: str, found: Estimate) -> ReadingEstimate:
    """The card's figures of an estimate, as those of one reading."""
    sizes = found.device_bytes, found.device_low_bytes, found.device_high_bytes
    step = next((one.allocated_bytes for one in found.phases if one.name == "optimizer_step"), None)
    return ReadingEstimate(label, *sizes, found.verdict, step)


def doubt(found: Estimate) -> str:
    """The unknown fact that the verdict depends on, such as "launcher not known"; "" if all readings agree."""
    if not found.readings or found.verdict != "unknown" or not found.unknown:
        return ""
    return found.unknown[-1].reason.partition(":")[0]


def in_words(readings: Iterable[ReadingEstimate]) -> str:
    """The readings as text, smallest first: "12.9 GiB (12.3 - 14.0) sharded over 8 GPUs, 135 GiB (130 - 140) ..."."""
    ordered = sorted(readings, key=lambda one: one.device_bytes or 0)
    return ", ".join(f"{span(one)} {one.label}" for one in ordered)


def span(one: ReadingEstimate) -> str:
    """The figure of one reading with its interval, "12.9 GiB (12.3 - 14.0)", or that it is not modelled."""
    sizes = (one.device_bytes, one.device_low_bytes, one.device_high_bytes)
    if one.device_bytes is None:
        return "not estimated"
    figure, low, high = (f"{(size or 0) / _GIB:.1f}" for size in sizes)
    return f"{figure} GiB ({low} - {high})"
