"""Estimates a run for a range of values of one key."""

from __future__ import annotations

from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.question.changes import Change, Variant, Variants, changes_of

MOST_VALUES = 64
DOUBLING_FROM = 8  # a range with end / start of at least this is covered by doubling, else in even steps


class Sweep(NamedTuple):
    """The variants of a file in the order of the values of `key`."""

    key: str
    variants: tuple[Variant, ...]


def sweep_of(target: Variants, text: str, kept: tuple[Change, ...] = ()) -> Sweep:
    """`cutoff_len=1024..32768`, `cutoff_len=1024..8192:1024`, `zero=0,2,3`: each value with the changes in `kept`.

    Raises UsageError.
    """
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip(" ,"):
        raise UsageError(f"--sweep {text}: wants KEY=FROM..TO, KEY=FROM..TO:STEP or KEY=A,B,C")
    words = tuple(_values(text, values.strip()))
    if len(words) > MOST_VALUES:
        raise UsageError(f"--sweep {text}: {len(words)} values; at most {MOST_VALUES}, so take a larger step")
    return Sweep(key, tuple(target.variant(word, (*kept, *changes_of([f"{key}={word}"], "--sweep"))) for word in words))


def _values(text: str, values: str) -> Iterator[str]:
    first, dots, rest = values.partition("..")
    if not dots:
        yield from (word.strip() for word in values.split(","))
        return
    last, colon, step = rest.partition(":")
    numbers = [first, last, step] if colon else [first, last]
    if not all(one.strip().isdecimal() for one in numbers):
        raise UsageError(f"--sweep {text}: wants whole numbers: KEY=1024..32768, or with a step KEY=1..8:1")
    low, high = int(first), int(last)
    if low > high or (colon and int(step) == 0):
        raise UsageError(f"--sweep {text}: the range is empty")
    if colon:
        yield from map(str, range(low, high + 1, int(step)))
    else:
        yield from map(str, _doubled(low, high) if low and high >= DOUBLING_FROM * low else _even(low, high))


def _doubled(low: int, high: int) -> Iterator[int]:
    """1024, 2048, ... and the end of the range."""
    while low < high:
        yield low
        low *= 2
    yield high


def _even(low: int, high: int) -> Iterator[int]:
    """At most nine values from `low` to `high`."""
    step = max(1, -(-(high - low) // DOUBLING_FROM))
    yield from range(low, high, step)
    yield high
