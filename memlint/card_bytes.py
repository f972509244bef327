"""The memory that a run takes of one card, as every report shows it."""

from __future__ import annotations

from memlint._record import NamedTuple


class CardBytes(NamedTuple):
    """The memory that a run takes of one card, in bytes: the figure, and the interval in which it lies.

    `unclamped_high`: the high end on a larger card. It is above `high` if the card is full at `high`: there the
    allocator releases cached blocks, so that the run stays within the card and still fits. `usable`: the bytes that the
    run may use; 0 if no card is known.
    """

    figure: int
    low: int
    high: int
    unclamped_high: int
    usable: int = 0
